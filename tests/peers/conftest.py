"""Every test of this folder is marked `peers`; JAX computes in float64 on the CPU."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
PEERS = ("torch", "jax", "casadi", "micrograd", "autograd")

# Where no peer is installed at all, as in `make test`, there is nothing to compare; where one is missing, imports fail.
collect_ignore_glob = [] if any(map(find_spec, PEERS)) else ["test_*.py"]

# JAX reads these when it is first imported, which only the test modules do.
os.environ.update(JAX_ENABLE_X64="1", JAX_PLATFORMS="cpu")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.peers)
