"""Writes the PTX of small circuits, which a test compares with what is written now: `make derive`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import wiregrad as wg
from wiregrad.backends.compiled import cast_reals
from wiregrad.backends.cuda import kernels
from wiregrad.backends.cuda.kernels import KernelResults
from wiregrad.backends.native.tiers import plan_steps

FOLDER = Path(__file__).parent / "kernels"
KERNELS = {
    "product": (wg.circuit("a * b"), "float64", 0),
    "relu_of_cube": (wg.circuit("relu(a ** 3 - b)"), "float32", 0),
    "root_and_sum": (wg.Circuit.from_text("input a, b\nr = sqrt a\ns = add a b\noutput r, s"), "float64", None),
}
"""Circuits without polynomials, whose PTX can be read: the circuit, its type, and the output to differentiate."""


def write_ptx(name: str) -> str:
    """Return the PTX of one of the circuits."""
    circuit, dtype, gradient = KERNELS[name]
    plan = plan_steps(cast_reals(circuit, np.dtype(dtype)), gradient)
    grads = () if gradient is None else tuple(range(len(circuit.inputs)))
    return kernels.compile_to_ptx(kernels.write_kernels(plan, KernelResults(grads)).text)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in KERNELS:
        (FOLDER / f"{name}.ptx").write_text(write_ptx(name), encoding="utf-8")


if __name__ == "__main__":
    main()
