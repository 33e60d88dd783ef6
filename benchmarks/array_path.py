"""Gradients of everyday NumPy code by the interpreter: wiregrad beside autograd, one kind of op at a time.

Every case is one function of a namespace (`numpy` for wiregrad, `autograd.numpy` for autograd) and an array. Both take
turns in one process, with one thread, and give the same gradients. What is measured is processor time, which other work
on the machine disturbs less than the time on the clock.
"""

from __future__ import annotations

import gc
import os
import statistics
import threading
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# The libraries read these when they are loaded.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import autograd
import autograd.numpy as anp
import numpy as np
from numpy.typing import NDArray

import wiregrad as wg
from benchmarks.measure import Report, Table, measure_pairs, milliseconds

TARGET = 1.1
"""How many times as long as autograd wiregrad may take, at most."""
REPEATS = 9

ArrayFunction = Callable[[Any, Any], Any]
FloatArray = NDArray[Any]


def differentiate(module: Any, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the gradient of a function of one array."""
    gradient: Callable[[Any], Any] = module.grad(f)
    return gradient


def differentiate_twice(module: Any, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the Hessian of a function of one array."""
    hessian: Callable[[Any], Any] = module.hessian(f)
    return hessian


def differentiate_all(module: Any, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the Jacobian of a function of one array."""
    jacobian: Callable[[Any], Any] = module.jacobian(f)
    return jacobian


def differentiate_batch(module: Any, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the Jacobians at the rows of an array: with `vmap`, or in autograd, which has none, row by row."""
    jacobian = module.jacobian(f)
    if module is wg:
        batched: Callable[[Any], Any] = wg.vmap(jacobian)
        return batched
    return lambda rows: np.stack([jacobian(row) for row in rows])


@dataclass(frozen=True)
class ArrayCase:
    """One function to differentiate, and where."""

    function: ArrayFunction
    shape: tuple[int, ...]
    transform: Callable[[Any, Callable[[Any], Any]], Callable[[Any], Any]] = differentiate
    dtype: str = "float64"
    positive: bool = False
    """Whether the elements are between 0.5 and 1.5, not normal."""

    def make_point(self) -> FloatArray:
        """Return the array at which the function is differentiated."""
        rng = np.random.default_rng(0)
        x = rng.uniform(0.5, 1.5, self.shape) if self.positive else rng.normal(size=self.shape)
        return x.astype(self.dtype)

    def make_tasks(self) -> dict[str, Callable[[], Any]]:
        """Return what wiregrad and autograd have to do."""
        x = self.make_point()
        by_wiregrad = self.transform(wg, lambda v: self.function(np, v))
        by_autograd = self.transform(autograd, lambda v: self.function(anp, v))
        return {"wiregrad": lambda: by_wiregrad(x), "autograd": lambda: by_autograd(x)}


def add_slices(xp: Any, x: Any) -> Any:
    """Return a sum of products of neighbours, as finite differences are written."""
    laplace = x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4.0 * x[1:-1, 1:-1]
    return xp.sum(laplace**2)


def read_elements(xp: Any, x: Any) -> Any:
    """Return a sum over elements that are read one by one."""
    total = 0.0
    for k in range(x.shape[0] - 1):
        total = total + (x[k + 1] - x[k] * x[k]) ** 2
    return total


def join_parts(count: int) -> ArrayFunction:
    """Return a function that cuts an array, changes each part, and joins them."""

    def join(xp: Any, x: Any) -> Any:
        width = x.shape[0] // count
        return xp.sum(xp.concatenate([xp.sin(x[k * width : (k + 1) * width]) for k in range(count)]) ** 2)

    return join


def stack_rows(xp: Any, x: Any) -> Any:
    """Return a function of rows that are stacked again."""
    return xp.sum(xp.stack([row * 2.0 for row in (x[k] for k in range(50))]) ** 2)


def compute_variance(xp: Any, x: Any) -> Any:
    """Return a sum of normalised rows."""
    return xp.sum((x - xp.mean(x, axis=1, keepdims=True)) / xp.sqrt(xp.var(x, axis=1, keepdims=True) + 1e-5) * x)


def multiply_matrices(xp: Any, x: Any) -> Any:
    """Return a network of three layers without its own parameters."""
    h = x
    for _ in range(3):
        h = xp.tanh(h @ x) * 0.1
    return xp.sum(h)


def solve_system(xp: Any, x: Any) -> Any:
    """Return the likelihood of a Gaussian process, by Cholesky and solve."""
    a = x @ x.T + x.shape[0] * xp.eye(x.shape[0])
    factor = xp.linalg.cholesky(a)
    return xp.sum(xp.linalg.solve(a, x[:, :1]) ** 2) + xp.sum(xp.log(xp.diag(factor)))


def broadcast_rows(xp: Any, x: Any) -> Any:
    """Return distances of all pairs of rows."""
    return xp.sum(xp.exp(-xp.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=2)))


def compute_softmax(xp: Any, x: Any) -> Any:
    """Return the cross-entropy of a softmax that is written out."""
    shifted = x - xp.max(x, axis=1, keepdims=True)
    return -xp.sum(shifted[:, 0] - xp.log(xp.sum(xp.exp(shifted), axis=1)))


def apply_small_ops(xp: Any, x: Any) -> Any:
    """Apply twenty ops to an array."""
    for _ in range(4):
        x = xp.sin(x) * x + 0.5
        x = xp.tanh(x) - x * 0.1
    return xp.sum(x)


def compute_rosenbrock(xp: Any, x: Any) -> Any:
    """Return Rosenbrock's function."""
    return xp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def mix_outputs(xp: Any, x: Any) -> Any:
    """Return several results for one point."""
    return xp.concatenate([xp.sin(x) * xp.sum(x), xp.exp(-x)])


def simulate_fluid(xp: Any, x: Any) -> Any:
    """Return the end of a small simulation: advection and diffusion by shifts."""
    for _ in range(5):
        spread = sum(xp.roll(x, shift, axis) for shift in (1, -1) for axis in (0, 1)) - 4.0 * x
        x = x + 0.1 * spread - 0.05 * x * (xp.roll(x, 1, 0) - xp.roll(x, -1, 0))
    return xp.sum(x**2)


def run_network_in_time(xp: Any, x: Any) -> Any:
    """Return the state of a recurrent network after forty steps."""
    h = xp.zeros(x.shape[1])
    for step in range(40):
        h = xp.tanh(xp.dot(x, h) + x[step % x.shape[0]])
    return xp.sum(h**2)


def convolve_images(xp: Any, x: Any) -> Any:
    """Return a small convolutional network: shifted products, relu, and maxima of windows."""
    images = np.linspace(-1.0, 1.0, 16 * 28 * 28).reshape(16, 1, 28, 28)
    maps: Any = 0.0
    for i in range(5):
        for j in range(5):
            maps = maps + images[:, :, i : i + 24, j : j + 24] * x[:, i, j][None, :, None, None]
    active = xp.maximum(maps, 0.0)
    pooled = xp.max(xp.reshape(active, (16, x.shape[0], 12, 2, 12, 2)), axis=(3, 5))
    return xp.sum(pooled**2)


def max_of_windows(xp: Any, x: Any) -> Any:
    """Return a sum of maxima of windows."""
    return xp.sum(xp.max(xp.reshape(x, (x.shape[0] // 2, 2, x.shape[1] // 2, 2)), axis=(1, 3)) ** 2)


def normalise_rows(xp: Any, x: Any) -> Any:
    """Return a sum of rows of length 1, one row after the other."""
    return sum(xp.sum(row / xp.linalg.norm(row) * (k + 1.0)) for k, row in enumerate(x))


def read_by_labels(xp: Any, x: Any) -> Any:
    """Return the log-likelihood of labels: one element of each row, and rows that come more than once."""
    rows = np.arange(x.shape[0])
    logs = x - xp.log(xp.sum(xp.exp(x), axis=1, keepdims=True))
    return xp.sum(logs[rows, rows % x.shape[1]]) + xp.sum(x[rows // 2] ** 2)


def filter_states(xp: Any, x: Any) -> Any:
    """Return the end of a Kalman filter: products and inverses of small matrices."""
    state = x[0]
    spread = np.eye(x.shape[1])
    for row in x:
        spread = spread + xp.outer(row, row)
        gain = xp.dot(spread, xp.linalg.inv(spread + np.eye(x.shape[1])))
        state = state + xp.dot(gain, row - state)
        spread = spread - xp.dot(gain, spread)
    return xp.sum(state**2) + xp.trace(spread)


def rotate_phases(xp: Any, x: Any) -> Any:
    """Return the power of a sum of waves."""
    return xp.sum(xp.abs(xp.exp(1j * x) + xp.exp(-2j * x)) ** 2)


BIG = (500, 500)
DATA = np.linspace(-1.0, 1.0, 60_000).reshape(3000, 20)
CASES: dict[str, ArrayCase] = {
    "roll, 500 x 500": ArrayCase(lambda xp, x: xp.sum(xp.roll(x, 1, axis=0) * x), BIG),
    "roll of all elements": ArrayCase(lambda xp, x: xp.sum(xp.roll(x, 3) * x), BIG),
    "slices, 500 x 500": ArrayCase(add_slices, BIG),
    "slices, 10 x 10": ArrayCase(add_slices, (10, 10)),
    "elements one by one": ArrayCase(read_elements, (50,)),
    "concatenate 2 parts": ArrayCase(join_parts(2), (10_000,)),
    "concatenate 20 parts": ArrayCase(join_parts(20), (10_000,)),
    "concatenate 200 parts": ArrayCase(join_parts(200), (10_000,)),
    "stack 50 rows": ArrayCase(stack_rows, (50, 20)),
    "maximum of two": ArrayCase(lambda xp, x: xp.sum(xp.maximum(x, x[::-1])), BIG),
    "maximum with 0": ArrayCase(lambda xp, x: xp.sum(xp.maximum(x, 0.0)), BIG),
    "where": ArrayCase(lambda xp, x: xp.sum(xp.where(x > 0.0, x * x, 0.1 * x)), BIG),
    "clip": ArrayCase(lambda xp, x: xp.sum(xp.clip(x, -1.0, 1.0) * x), BIG),
    "abs": ArrayCase(lambda xp, x: xp.sum(xp.abs(x)), BIG),
    "max of all": ArrayCase(lambda xp, x: xp.max(x * x), BIG),
    "max along an axis": ArrayCase(lambda xp, x: xp.sum(xp.max(x, axis=1)), BIG),
    "max of windows": ArrayCase(max_of_windows, BIG),
    "x**2": ArrayCase(lambda xp, x: xp.sum(x**2), BIG),
    "x**3": ArrayCase(lambda xp, x: xp.sum(x**3), BIG),
    "x**0.5": ArrayCase(lambda xp, x: xp.sum(x**0.5), BIG, positive=True),
    "x**2, float32": ArrayCase(lambda xp, x: xp.sum(x**2), BIG, dtype="float32"),
    "x**3, float32": ArrayCase(lambda xp, x: xp.sum(x**3), BIG, dtype="float32"),
    "x**0.5, float32": ArrayCase(lambda xp, x: xp.sum(x**0.5), BIG, dtype="float32", positive=True),
    "x**-1": ArrayCase(lambda xp, x: xp.sum(x**-1), BIG, positive=True),
    "sum along an axis": ArrayCase(lambda xp, x: xp.sum(xp.sum(x, axis=0) ** 2), BIG),
    "mean along an axis": ArrayCase(lambda xp, x: xp.sum(xp.mean(x, axis=1) ** 2), BIG),
    "variance": ArrayCase(compute_variance, BIG),
    "matrix products": ArrayCase(multiply_matrices, (100, 100)),
    "solve and cholesky": ArrayCase(solve_system, (60, 60)),
    "broadcasting": ArrayCase(broadcast_rows, (100, 10)),
    "softmax by hand": ArrayCase(compute_softmax, BIG),
    "twenty ops, 10 elements": ArrayCase(apply_small_ops, (10,)),
    "Hessian, 20 numbers": ArrayCase(compute_rosenbrock, (20,), differentiate_twice),
    "Jacobian, 20 to 40": ArrayCase(mix_outputs, (20,), differentiate_all),
    "Jacobians of 30 rows": ArrayCase(mix_outputs, (30, 5), differentiate_batch),
    "norms of rows": ArrayCase(normalise_rows, (20, 10)),
    "elements by labels": ArrayCase(read_by_labels, (100, 10)),
    "filter of small matrices": ArrayCase(filter_states, (20, 4)),
    "complex phases": ArrayCase(rotate_phases, (60, 60)),
    "deviation along an axis": ArrayCase(lambda xp, x: xp.sum(xp.std(x, axis=0) ** 2), (60, 60)),
    "einsum of three": ArrayCase(lambda xp, x: xp.sum(xp.einsum("ij,jk,ik->i", x, x, x) ** 2), (20, 20)),
    "data that does not change": ArrayCase(lambda xp, x: xp.sum(xp.tanh(xp.dot(DATA, x)) ** 2), (20,)),
    "fluid by roll": ArrayCase(simulate_fluid, (60, 60)),
    "recurrent network": ArrayCase(run_network_in_time, (20, 20)),
    "convolutional network": ArrayCase(convolve_images, (4, 5, 5)),
}


def check_agreement(name: str, tasks: dict[str, Callable[[], Any]], dtype: str) -> None:
    """Fail unless both give the same derivatives."""
    ours = np.asarray(tasks["wiregrad"]())
    theirs = np.asarray(tasks["autograd"]())
    rtol = 1e-4 if dtype == "float32" else 1e-8
    if not np.allclose(ours, theirs, rtol=rtol, atol=rtol * float(np.abs(theirs).max())):
        raise AssertionError(f"{name}: wiregrad and autograd differ by up to {np.abs(ours - theirs).max()}")


def compare_case(name: str, case: ArrayCase, repeats: int) -> tuple[list[str], float]:
    """Return the row of a case and its ratio: the median of the ratios of neighbouring turns, in processor time."""
    tasks = case.make_tasks()
    check_agreement(name, tasks, case.dtype)
    pairs = measure_pairs((tasks["wiregrad"], tasks["autograd"]), repeats)
    own, other = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    return [name, milliseconds(own), milliseconds(other), f"{ratio:.2f}"], ratio


def measure_memory() -> Table:
    """Return the memory that a gradient of a million numbers needs at its peak, by `grad` and by `backward()`."""
    x = np.linspace(0.0, 1.0, 1_000_000)

    def compute(v: Any) -> Any:
        for _ in range(5):
            v = np.sin(v) * v + 0.5
        return np.sum(v)

    def call_backward() -> Any:
        value = wg.Value(x)
        compute(value).backward()
        return value.grad

    tasks: dict[str, Callable[[], Any]] = {
        "wg.grad": lambda: wg.grad(compute)(x),
        "Value.backward()": call_backward,
    }
    rows = [[name, f"{find_peak(task) / x.nbytes:.1f}"] for name, task in tasks.items()]
    return Table("Peak memory in arrays of the size of the argument.", ["way", "arrays"], rows)


def find_peak(task: Callable[[], Any]) -> int:
    """Return the most memory that a call holds at a time, in bytes.

    It is called in a thread of its own, which has no memory yet that it could use again.
    """
    task()
    gc.collect()
    tracemalloc.start()
    thread = threading.Thread(target=task)
    thread.start()
    thread.join()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def run(quick: bool = False) -> Report:
    """Compare all cases."""
    gc.freeze()
    found = {name: compare_case(name, case, 3 if quick else REPEATS) for name, case in CASES.items()}
    gc.unfreeze()
    title = f"wiregrad and autograd, taking turns; the ratio should be at most {TARGET}."
    table = Table(title, ["case", "wiregrad", "autograd", "ratio"], [row for row, _ in found.values()])
    return Report([table, measure_memory()], {name: ratio for name, (_, ratio) in found.items()})
