"""Kernels for a GPU: their arithmetic, compiled for this processor, and their PTX."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import mpmath
import numpy as np
import pytest

import wiregrad as wg
from wiregrad.api import Builder, Circuit
from wiregrad.backends.compiled import cast_reals
from wiregrad.backends.cuda import kernels
from wiregrad.backends.cuda.kernels import KernelResults
from wiregrad.backends.native import vector_math
from wiregrad.backends.native.step_kinds import ABSENT_GRADIENT_BITS
from wiregrad.backends.native.tiers import plan_steps
from wiregrad.backends.native.vector_math import REAL_DTYPES, find_vector_function
from wiregrad.dtypes import BOOL
from wiregrad.ir import TABLE
from wiregrad.ops import Elementwise

from ..golden.write_kernels import FOLDER, KERNELS, write_ptx
from ..support.host_kernels import find_device_function, run_kernels
from ..support.limits import PATIENCE
from .test_vectormath import CALLED, worst_ulp


@pytest.mark.parametrize("name", CALLED)
@pytest.mark.parametrize("real", ["double", "float"])
def test_functions_are_within_4_ulp_of_the_exact_value(name: str, real: str) -> None:
    assert worst_ulp(find_device_function(name, real)) <= 4.0


@pytest.mark.parametrize("name", CALLED)
@pytest.mark.parametrize("real", ["double", "float"])
def test_special_values_are_those_of_the_c_library(name: str, real: str) -> None:
    scalar = find_vector_function(name, 1, real, "scalar")
    points = vector_math.make_edge_points(REAL_DTYPES[real], scalar.arity)
    distances = vector_math.measure_ulp_distance(find_device_function(name, real)(*points), scalar(*points))
    far = {tuple(float(part[k]) for part in points): distances[k] for k in np.flatnonzero(distances > 4.0)}

    assert far == {}


def test_the_table_holds_the_bits_of_two_over_pi() -> None:
    words = kernels.TWO_OVER_PI.split()
    with mpmath.workprec(64 * len(words) + 64):
        bits = int(mpmath.floor(2 / mpmath.pi * mpmath.mpf(2) ** (64 * (len(words) - 1))))

    assert int("".join(words), 16) == bits


@pytest.mark.parametrize("name", KERNELS)
def test_the_ptx_of_small_circuits_is_as_written(name: str) -> None:
    assert write_ptx(name) == (FOLDER / f"{name}.ptx").read_text(encoding="utf-8")


def large_circuits() -> dict[str, Circuit]:
    """Return a circuit of every function of math.h, and one of many nodes."""
    functions = [op for op in TABLE if isinstance(op, Elementwise) and len(op.inputs) == 1 and op.c]
    builder = Builder(finite=False)
    x = builder.input("x")
    total = x
    for op in functions:
        port = builder.apply(op, x)
        if builder.type_of(port) != BOOL:
            total = builder.apply(TABLE["add"], total, port)
    chain = "; ".join(f"x{k + 1} = sin(x{k}) * x{k} + {k}" for k in range(120))
    return {"functions": builder.build(total), "chain": wg.circuit(f"{chain}; y = x120")}


@pytest.mark.parametrize("real", ["float64", "float32"])
def test_ptx_rounds_every_operation_and_is_accepted_by_the_assembler(tmp_path: Path, real: str) -> None:
    """Without a rounding mode the assembler may fuse a product and a sum. It runs where it is installed."""
    for name, circuit in large_circuits().items():
        plan = plan_steps(cast_reals(circuit, np.dtype(real)), 0)
        text = kernels.compile_to_ptx(kernels.write_kernels(plan, KernelResults((0,))).text)
        arithmetic = re.findall(r"\b(?:add|sub|mul|fma|div|sqrt)(\.\w+)*\.f(?:32|64)\b", text)

        assert arithmetic
        assert set(arithmetic) == {".rn"}
        assert ".approx" not in text
        assemble(tmp_path / f"{name}.ptx", text)


def assemble(path: Path, text: str) -> None:
    """Assemble PTX where the assembler is installed."""
    assembler = shutil.which("ptxas")
    if assembler is None:
        return
    path.write_text(text, encoding="utf-8")
    command = [assembler, "-arch=sm_90", "-o", str(path.with_suffix(".cubin")), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)

    assert done.returncode == 0, done.stderr


def test_small_whole_powers_are_products() -> None:
    plan = plan_steps(wg.circuit("x ** 5 + x ** -2 + x ** 3"), None)
    text = kernels.write_kernels(plan, KernelResults()).text

    assert "rare_pow" not in text
    assert text.count("fmul double") == 3 + 1 + 1


@pytest.mark.parametrize("exponent", [-8, -3, *kernels.PRODUCT_EXPONENTS, 6, 8])
def test_whole_powers_are_within_4_ulp(exponent: int) -> None:
    circuit = wg.circuit(f"x ** {exponent}")
    x = np.concatenate(
        [np.random.default_rng(1).normal(size=500), 10.0 ** np.arange(-60, 60), [0.0, -0.0, np.inf, 5e-324]]
    )
    values = run_kernels(circuit, x[:, None], None)[:, 0]
    with np.errstate(all="ignore"):
        wanted = x ** float(exponent)

    assert vector_math.measure_ulp_distance(values, wanted).max() <= 4.0


def test_a_nan_with_the_bits_of_an_absent_gradient_stays_a_nan() -> None:
    bits = np.array([ABSENT_GRADIENT_BITS["double"]], np.uint64).view(np.float64)
    rows = run_kernels(wg.circuit("a * b"), [[2.0, bits[0]]], 0)

    assert np.isnan(rows[0, 1])
