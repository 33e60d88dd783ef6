"""Dask, MPI and Ray behind `executor=`: the same bits as in one process, and chunks of killed workers again."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

import wiregrad as wg

from ..support.limits import PATIENCE

ROOT = Path(__file__).parents[2]


def run_program(*arguments: str) -> str:
    """Return what benchmarks/executors.py prints; it exits with an error where a result differs."""
    command = [sys.executable, "-m", "benchmarks.executors", *arguments]
    # Ray would send statistics about its use.
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0"}
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )

    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.mark.parametrize("engine", ["dask", "mpi", "ray"])
def test_results_have_the_same_bits_on_one_two_and_four_workers(engine: str) -> None:
    assert run_program("bits", engine).count("same") == 3


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_results_are_right_when_workers_are_killed(engine: str) -> None:
    assert f"{engine}: 2 workers killed" in run_program("kills", engine, "-n", "2")


def test_cloudpickle_sends_derivatives_of_lambdas() -> None:
    function = wg.vmap(wg.grad(lambda x, y: x * x * y), in_axes=(None, 0))

    assert pickle.loads(cloudpickle.dumps(function))(3.0, np.array([1.0, 2.0])).tolist() == [6.0, 12.0]
