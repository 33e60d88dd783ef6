"""Runs kernels on a GPU and compares them with the same text on the processor, bit for bit.

    python tests/gpu/check_batches.py 1000000           at so many points, in a process for each core

On a machine with an NVIDIA GPU, its driver, NumPy and llvmlite. Every op alone and random circuits are computed at so
many points, special numbers among them, in float64 and float32. Tests compare the text on the processor with the
interpreter (tests/backends/test_native_random.py, test_cuda_kernels.py); the bits here are the same, but for NaNs. Then
arrays of CuPy, PyTorch and JAX are read and written in place, as far as these are installed.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A script of the repository, run by its path.
sys.path.insert(0, str(Path(__file__).parents[2]))
import wiregrad as wg
from tests.support.cases import narrow, uses_alone
from tests.support.host_kernels import run_kernels
from tests.support.random_circuits import random_circuit
from wiregrad.api import Circuit
from wiregrad.errors import NotNativeError, WiregradError

RANDOM_CIRCUITS = 60
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 1e5, -1e17, 700.0, 5e-324, 1e-310, 1e300, np.inf, -np.inf, np.nan)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def draw_points(circuit: Circuit, count: int, seed: int) -> NDArray[Any]:
    """Return points: ordinary numbers, special ones, and numbers of any size."""
    rng = np.random.default_rng(seed)
    shape = (count, len(circuit.inputs))
    kinds = [circuit.type_of(node).dtype for node in circuit.input_indices()]
    with np.errstate(all="ignore"):
        any_size = rng.integers(0, 2**64, shape, np.uint64).view(np.float64)
        points = np.select(
            [rng.random(shape) < 0.7, rng.random(shape) < 0.5], [2 * rng.normal(size=shape), any_size], 0.0
        )
        special = rng.random(shape) < 0.1
        points[special] = rng.choice(SPECIAL, size=int(special.sum()))
    for column, kind in zip(points.T, kinds, strict=True):
        if kind.kind == "b":
            column[:] = rng.integers(0, 2, count)
    return points


def compare(circuit: Circuit, count: int, seed: int) -> int:
    """Return at how many points a result of the GPU has other bits than that of the processor; NaNs are all alike."""
    points = draw_points(circuit, count, seed)
    compiled = circuit.compile(device="cuda")
    with np.errstate(over="ignore"):
        values, grads = compiled.batch_value_and_grad(points)
        wanted = run_kernels(circuit, points.astype(compiled.dtype), 0)
    found = np.hstack([values.astype(compiled.dtype)[:, None], grads])
    bits = f"u{found.itemsize}"
    same = (np.ascontiguousarray(found).view(bits) == wanted.view(bits)) | (np.isnan(found) & np.isnan(wanted))
    return int((~same).any(axis=1).sum())


@cache
def list_circuits() -> list[tuple[str, Circuit]]:
    """Return every circuit to try with its name: all uses of ops, random circuits, and a third of both in float32."""
    tried = [(f"float64 {use.text}", case.circuit) for use, case in uses_alone()]
    tried += [
        (f"float64 random {seed}", random_circuit(np.random.default_rng(seed), nodes=20))
        for seed in range(RANDOM_CIRCUITS)
    ]
    return tried + [(name.replace("float64", "float32"), narrow(circuit)) for name, circuit in tried[::3]]


def check_circuit(count: int, number: int) -> str | int:
    """Return at how many points a circuit of the list differs, or why it has no code for a GPU."""
    try:
        return compare(list_circuits()[number][1], count, number)
    except NotNativeError:
        return ""
    except WiregradError as error:
        return f"{type(error).__name__}: {error}"


def check_circuits(count: int, processes: int) -> int:
    """Compare all circuits, several at a time; return how many differ."""
    names = [name for name, _ in list_circuits()]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        answers = list(pool.map(partial(check_circuit, count), range(len(names))))
    for name, answer in zip(names, answers, strict=True):
        if answer:
            say(f"{name}: {answer if isinstance(answer, str) else f'{answer:,} of {count:,} points differ'}")
    compared = [answer for answer in answers if isinstance(answer, int)]
    wrong = sum(1 for answer in compared if answer)
    refused = len(answers) - len(compared)
    say(f"{len(compared)} circuits at {count:,} points: {wrong} differ; {refused} have no native code")
    return wrong


def check_library(name: str, make: Callable[[Any, NDArray[Any]], Any], take: Callable[[Any, Any], Any]) -> int:
    """Compare results at points of a library's array with those at points of the host; return 1 if they differ."""
    try:
        library = importlib.import_module(name)
    except ImportError:
        say(f"{name}: not installed")
        return 0
    compiled = wg.circuit("tanh(a * b) + sin(a) * log(1 + b * b)").compile(device="cuda")
    points = np.random.default_rng(0).normal(size=(1000, 2))
    values, grads = compiled.batch_value_and_grad(make(library, points))
    wanted = compiled.batch_value_and_grad(points)
    same = all(np.array_equal(take(library, x), y) for x, y in zip((values, grads), wanted, strict=True))
    same = same and np.array_equal(values.to_numpy(), wanted[0])
    say(f"{name}: {'read and written in place' if same else 'differs'}")
    return not same


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    processes = int(sys.argv[2]) if len(sys.argv) > 2 else os.cpu_count() or 1
    began = time.perf_counter()
    wrong = check_library("cupy", lambda lib, x: lib.asarray(x), lambda lib, y: lib.asnumpy(lib.asarray(y)))
    wrong += check_library(
        "torch",
        lambda lib, x: lib.as_tensor(x, device="cuda"),
        lambda lib, y: lib.as_tensor(y, device="cuda").cpu().numpy(),
    )

    def make_jax(lib: Any, x: NDArray[Any]) -> Any:
        lib.config.update("jax_enable_x64", True)
        return lib.numpy.asarray(x).block_until_ready()

    wrong += check_library("jax", make_jax, lambda lib, y: np.asarray(lib.numpy.asarray(y)))
    wrong += check_circuits(count, processes)
    say(f"{time.perf_counter() - began:.0f} s")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
