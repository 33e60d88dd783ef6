"""Gradients of everyday NumPy code by the interpreter: wiregrad beside autograd, one kind of op at a time.

Every case is one function of a namespace (`numpy` for wiregrad, `autograd.numpy` for autograd) and an array. Both take
turns in one process, with one thread, and give the same gradients.
"""

from __future__ import annotations

import gc
import os
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
from benchmarks.measure import Report, Table, interleaved, milliseconds, seconds

TARGET = 1.1
"""How many times as long as autograd wiregrad may take, at most."""
TURN = 0.02
"""How many seconds one measurement takes, about."""
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


BIG = (500, 500)
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


def time_case(name: str, case: ArrayCase, repeats: int) -> dict[str, float]:
    """Return seconds per call, by framework."""
    tasks = case.make_tasks()
    check_agreement(name, tasks, case.dtype)
    slowest = max(seconds(task) for task in tasks.values())
    calls = max(1, int(TURN / slowest))
    return interleaved({key: lambda task=task: repeat_task(task, calls) for key, task in tasks.items()}, repeats)


def repeat_task(task: Callable[[], Any], calls: int) -> float:
    """Return how long one call takes, from several in a row."""

    def loop() -> None:
        for _ in range(calls):
            task()

    return seconds(loop) / calls


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
    """Return the most memory that a call holds at a time, in bytes."""
    task()
    gc.collect()
    tracemalloc.start()
    task()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def run(quick: bool = False) -> Report:
    """Compare all cases."""
    gc.freeze()
    times = {name: time_case(name, case, 3 if quick else REPEATS) for name, case in CASES.items()}
    gc.unfreeze()
    ratios = {name: found["wiregrad"] / found["autograd"] for name, found in times.items()}
    rows = [
        [name, milliseconds(found["wiregrad"]), milliseconds(found["autograd"]), f"{ratios[name]:.2f}"]
        for name, found in times.items()
    ]
    title = f"wiregrad and autograd, taking turns; the ratio should be at most {TARGET}."
    table = Table(title, ["case", "wiregrad", "autograd", "ratio"], rows)
    return Report([table, measure_memory()], ratios)
