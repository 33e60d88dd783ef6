"""Random programs on scalars, written down step by step, so that two recorders can be compared.

`python -m tests.support.recorder_programs FIRST COUNT` prints what each program gave: every number to the last bit,
with its class, and every error with its message. A program uses all that can be done with a scalar: operators, methods,
functions of NumPy, literals of every kind, hooks that raise, blocks, several backward passes, and transforms up to the
third order.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from random import Random
from typing import Any

import numpy as np

import wiregrad as wg
from wiregrad.frontends.recording.scalar import SCALAR_OPS
from wiregrad.ir import TABLE
from wiregrad.ops import Elementwise

from .limits import PATIENCE

OPERATORS = (
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.mod, operator.floordiv),
    *(operator.iadd, operator.isub, operator.imul, operator.itruediv, divmod),
)
COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
SIGNS = (operator.neg, operator.pos, abs)
ODD_NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, float("inf"), float("-inf"), float("nan"), 1e308, 5e-324, 710.0, -746.0)
BUILT_IN = [op for op in SCALAR_OPS if isinstance(op, Elementwise) and op is TABLE[op.name]]
UNARY = sorted(op.name for op in BUILT_IN if len(op.inputs) == 1)
BINARY = sorted(op.name for op in BUILT_IN if len(op.inputs) == 2)


class HookError(Exception):
    """Raised by hooks."""


def describe(item: object) -> str:
    """Return a number to the last bit, with its class; NaN without its sign, which no rule promises."""
    if isinstance(item, tuple):
        return f"({', '.join(map(describe, item))})"
    kind = type(item).__name__
    number = item.data if isinstance(item, wg.Value) else item
    if isinstance(number, np.ndarray):
        return f"{kind}[{', '.join(float(x).hex() for x in number.ravel())}]"
    if isinstance(number, float):
        return f"{kind} {'nan' if math.isnan(number) else float(number).hex()}"
    return f"{kind} {number!r}"


def attempt(step: Callable[[], Any]) -> tuple[Any, str]:
    """Run a step; returns its result, or None, and what it gave in words."""
    try:
        result = step()
    except Exception as error:
        first_line = str(error).partition("\n")[0]
        return None, f"{type(error).__name__}: {first_line}"
    return result, describe(result)


def draw_number(rng: Random) -> float:
    return rng.choice(ODD_NUMBERS) if rng.random() < 0.15 else rng.uniform(-3.0, 3.0)


def draw_literal(rng: Random) -> Any:
    """Return a plain number of any kind."""
    number = draw_number(rng)
    kinds: list[Callable[[], Any]] = [
        *([lambda: number] * 4),
        *([lambda: rng.randrange(-3, 4)] * 3),
        lambda: np.float64(number),
        lambda: np.float64(number),
        lambda: np.float32(1.5),
        lambda: np.int64(3),
        lambda: True,
        lambda: 10**400,
        lambda: 2**60 + 1,
        lambda: np.array([number, 1.0]),
        lambda: 1j,
        lambda: None,
        lambda: "text",
    ]
    return rng.choice(kinds)()


class ValueProgram:
    """A define-by-run program: a pool of values that steps add to and remove from."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.leaves = [wg.Value(draw_number(self.rng)) for _ in range(self.rng.randrange(1, 5))]
        self.pool: list[Any] = list(self.leaves)
        self.worker = ThreadPoolExecutor(max_workers=1)

    def run(self) -> Iterator[str]:
        """Run the program; yields what each step gave."""
        with self.worker:
            yield from self._run_steps()

    def _run_steps(self) -> Iterator[str]:
        for _ in range(self.rng.randrange(5, 40)):
            step = self.rng.choice(self.STEPS)
            result, words = attempt(partial(step, self))
            yield f"{step.__name__}: {words}"
            items = result if isinstance(result, tuple) else (result,)
            self.pool += [item for item in items if isinstance(item, wg.Value)]
            if not self.pool:
                self.pool = list(self.leaves)
        yield from self._describe_all()

    def _describe_all(self) -> Iterator[str]:
        for value in [*self.leaves, *self.pool]:
            op = value.op
            yield f"{describe(value)} {describe(value.grad)} {value.name} {None if op is None else op.name}"
            yield f"of {', '.join(map(describe, value.inputs))}"

    def pick(self) -> Any:
        """Return a value; a late one more often."""
        return self.pool[-1] if self.rng.random() < 0.4 else self.rng.choice(self.pool)

    def apply_operator(self) -> Any:
        """Apply an operator to two values, or a value and a literal."""
        function = self.rng.choice(OPERATORS)
        one = self.pick()
        two = self.pick() if self.rng.random() < 0.6 else draw_literal(self.rng)
        return function(two, one) if self.rng.random() < 0.3 else function(one, two)

    def apply_sign(self) -> Any:
        """Apply a sign."""
        return self.rng.choice(SIGNS)(self.pick())

    def apply_method(self) -> Any:
        """Call a method."""
        return getattr(self.pick(), self.rng.choice(UNARY))()

    def apply_function(self) -> Any:
        """Call a function of wiregrad, or NumPy's of the same name."""
        if self.rng.random() < 0.5:
            name, operands = self.rng.choice(UNARY), (self.pick(),)
        else:
            name = self.rng.choice(BINARY)
            operands = (self.pick(), self.pick() if self.rng.random() < 0.5 else draw_literal(self.rng))
            operands = operands[::-1] if self.rng.random() < 0.3 else operands
        function = getattr(np, name, None) if self.rng.random() < 0.5 else None
        return (function or TABLE[name])(*operands)

    def compare(self) -> Any:
        """Compare a value with another, or with a literal."""
        other = self.pick() if self.rng.random() < 0.5 else draw_literal(self.rng)
        return self.rng.choice(COMPARISONS)(self.pick(), other)

    def run_backward(self) -> Any:
        """Run a backward pass."""
        value = self.pick()
        value.backward()
        return tuple(leaf.grad for leaf in self.leaves)

    def add_hook(self) -> None:
        """Register a hook that changes the gradient, or raises."""
        factor = self.rng.choice([None, 2.0, np.float64(0.5), 3, "raise"])

        def hook(grad: Any) -> Any:
            if factor == "raise":
                raise HookError(describe(grad))
            return None if factor is None else grad * factor

        self.pick().register_hook(hook)

    def change_leaf(self) -> Any:
        """Give a leaf new data, a new gradient or a name."""
        leaf = self.rng.choice(self.leaves)
        leaf.data = draw_number(self.rng)
        if self.rng.random() < 0.3:
            leaf.grad = self.rng.choice([None, 0, 0.0])
        if self.rng.random() < 0.2:
            leaf.name = self.rng.choice(["w", "b"])
        return leaf

    def detach(self) -> Any:
        """Make a constant of a value."""
        return self.pick().detach()

    def forget(self) -> None:
        """Delete some values."""
        kept = [value for value in self.pool if self.rng.random() < 0.7]
        self.pool = kept or list(self.leaves)

    def use_block(self) -> Any:
        """Record inside a block."""
        blocks: list[AbstractContextManager[Any]] = [
            wg.no_grad(),
            wg.convention(self.rng.choice(["min_norm", "torch", "jax"])),
            wg.group("layer"),
            wg.anomaly(),
            nullcontext(),
        ]
        with self.rng.choice(blocks):
            return self.rng.choice([self.apply_operator, self.apply_function, self.apply_method])()

    def use_thread(self) -> Any:
        """Record in another thread, always the same one: a thread may get the identifier of one that has ended."""
        return self.worker.submit(self.apply_operator).result(PATIENCE)

    def use_transform(self) -> Any:
        """Differentiate a function that uses a value of this program."""
        outside = self.pick()
        return wg.grad(lambda x: x * outside + wg.tanh(x))(draw_number(self.rng))

    def make_leaf(self) -> Any:
        """Make another leaf, of Python's number or NumPy's."""
        number = draw_number(self.rng)
        leaf = wg.Value(np.float64(number) if self.rng.random() < 0.3 else number)
        self.leaves.append(leaf)
        return leaf

    STEPS = (
        *(apply_operator,) * 8,
        *(apply_method, apply_function) * 3,
        *(apply_sign, compare, run_backward, run_backward, add_hook, change_leaf, detach, forget, use_block),
        *(use_thread, use_transform, make_leaf),
    )


def make_function(seed: int) -> Callable[..., Any]:
    """Return a random function of two numbers that always takes the same steps."""

    def f(x: Any, y: Any) -> Any:
        rng = Random(seed)
        pool = [x, y]
        for _ in range(rng.randrange(2, 9)):
            one = rng.choice(pool)
            two = rng.choice(pool) if rng.random() < 0.6 else draw_number(rng)
            kind = rng.random()
            if kind < 0.5:
                pool.append(rng.choice(OPERATORS[:5])(one, two))
            elif kind < 0.9:
                name = rng.choice(UNARY)
                pool.append((getattr(np, name, None) or TABLE[name])(one))
            else:
                pool.append(TABLE[rng.choice(BINARY)](one, two))
        return pool[-1]

    return f


def run_transforms(seed: int) -> Iterator[str]:
    """Yield the derivatives of a random function, up to the third order."""
    rng = Random(seed)
    point = (draw_number(rng), draw_number(rng))
    f = make_function(rng.randrange(1 << 30))
    transforms: list[Callable[[], Any]] = [
        lambda: wg.value_and_grad(f)(*point),
        lambda: wg.grad(f, argnums=1)(*point),
        lambda: wg.grad(wg.grad(f), argnums=1)(*point),
        lambda: wg.grad(wg.grad(wg.grad(f)))(*point),
        lambda: wg.jvp(f, point, (1.0, -0.5)),
        lambda: wg.jvp(wg.grad(f), point, (0.25, 1.0)),
        lambda: wg.hessian(f)(*point),
    ]
    for transform in transforms:
        yield attempt(transform)[1]


def run_program(seed: int) -> str:
    """Return what the program of a seed gave, a line per step."""
    with np.errstate(all="ignore"):
        return "\n".join(run_transforms(seed) if seed % 3 == 0 else ValueProgram(seed).run())


def main() -> None:
    """Print what programs gave."""
    first, count = map(int, sys.argv[1:3])
    for seed in range(first, first + count):
        sys.stdout.write(f"program {seed}\n{run_program(seed)}\n")


if __name__ == "__main__":
    main()
