"""One function recorded at one point, and the sweeps from its results to its arguments.

Nested sessions share the tape of the outer one. A sweep runs on plain numbers, or on recorded values if its result may
be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from wiregrad.errors import GradientError, OperandError, shown
from wiregrad.frontends import conditions, dispatch, scalar  # noqa: F401 - they give values their methods and operators
from wiregrad.frontends.lift import as_data, is_own, own
from wiregrad.frontends.record import new_extra, record, tracing
from wiregrad.frontends.tape import PAUSES, STATE, STRIDE, WATCHES, Gone, Span, Tape, pull_back
from wiregrad.frontends.tree import Tree, flatten, unflatten
from wiregrad.frontends.value import (
    NumpyScalar,
    Scalar,
    Value,
    as_python,
    is_python,
    number_class,
    settled,
    view,
    wrapped,
    zero_like,
)
from wiregrad.ir import INPUT, TABLE, Row
from wiregrad.passes import forward, reverse

Argnums = int | Sequence[int]


class Session:
    """One function recorded at one point: the offsets of its arguments, and the sweeps from its results to them."""

    def __init__(self, tape: Tape | None = None) -> None:
        self.alone = STATE.paused and tape is None and not tracing()
        """Whether it runs under no_grad: then no gradient flows to values from outside."""
        self.outer = None if self.alone else tape or STATE.tape
        self.tape = self.outer or Tape(apart=self.alone)
        self.start = len(self.tape.buffer)
        self.offsets: list[int] = []
        self.data: list[Any] = []

    def lift(self, leaf: Any, what: Callable[[], str]) -> Value:
        """Return an argument as a new node of the tape."""
        if type(leaf) is np.ndarray and leaf.dtype == np.float64 and leaf.ndim:
            value = lifted(self.tape, own(leaf))
        elif type(leaf) is float:
            value = lifted(self.tape, leaf, Scalar)
        else:
            data = as_data(leaf, what, strict=True)
            number = number_class(leaf)
            nested = isinstance(leaf, Value) and not self.alone
            value = record(TABLE["positive"], (leaf,)) if nested else lifted(self.tape, data, number)
            if value._tape is not self.tape:
                value = lifted(self.tape, data, number)
            elif is_python(leaf):
                value = as_python(value)
        self.offsets.append(value._index)
        self.data.append(value._data)
        return value

    def where(self, result: Any) -> int | None:
        """Return the offset of a result; None if it cannot depend on an argument."""
        if not isinstance(result, Value) or result._tape is not self.tape or result._index < self.start:
            return None
        return result._index

    def connected(self, stop: int) -> bool:
        """Return whether the results depend on values besides the arguments that a gradient may flow to."""
        if self.alone:
            return False
        if not self.start:
            return bool(self.tape.leaves)
        if any(offset >= self.start for offset in self.tape.leaves):
            return True
        return any(0 <= source < self.start for _, node in self.tape.nodes(self.start, stop) for source in node.sources)

    def finish(self) -> None:
        """Close the tape, unless an outer session or a leaf still needs it."""
        if self.outer is None and (self.alone or not self.tape.leaves):
            self.tape.owner = None

    def pull(self, seeds: list[tuple[int, Any]], *, recorded: bool | None = None, spend: bool = False) -> list[Any]:
        """Return the gradient of every argument, given cotangents of results.

        `recorded` says whether the sweep is recorded, to be differentiated again; by default this is found out.
        `spend=True` says that this is the last sweep over the tape, so that its memory can be freed.
        """
        if not seeds:
            return [zero_like(data) for data in self.data]
        stop = max(seeds, key=_offset)[0] + STRIDE
        with np.errstate(all="ignore"):
            if recorded is None:
                recorded = self.connected(stop) or any(isinstance(seed, Value) for _, seed in seeds)
            if recorded:
                flows = self._pull_values(seeds, stop)
            elif STATE.watch is not None:
                adjoints = STATE.watch.pull_back(self.tape, seeds, self.start)
                flows = [self._at(adjoints, offset) for offset in self.offsets]
            else:
                adjoints = pull_back(self.tape, seeds, self.start, keep=False, spend=spend and self.outer is None)
                flows = [self._at(adjoints, offset) for offset in self.offsets]
            return distinct([settled(flow, data) for flow, data in zip(flows, self.data, strict=True)], seeds)

    def _at(self, adjoints: list[Any], offset: int) -> Any:
        index = (offset - self.start) // STRIDE
        return adjoints[index] if index < len(adjoints) else None

    def _pull_values(self, seeds: list[tuple[int, Any]], stop: int) -> list[Any]:
        span = Span(self.tape, self.start, stop, self.offsets)
        starts = span.seeded(seeds)
        if self.tape.owner is None:
            # This tape is closed: the sweep is recorded on the tape of the cotangents.
            flows = reverse(span, Numbers(span), starts, Hooks(span))
        elif STATE.watch is not None:
            flows = self._pull_watched(span, starts)
        else:
            with STATE.on(self.tape):
                flows = reverse(span, Views(span), starts, Hooks(span))
        return [self._at(flows, offset) for offset in self.offsets]

    def _pull_watched(self, span: Span, starts: dict[int, Any]) -> list[Any]:
        """Sweep on values and show every wire to the watcher, but not the ops that derivative rules record."""
        sweep = STATE.watch.sweeping(span, Views(span))
        with STATE.on(self.tape), unwatched():
            flows = reverse(span, Views(span), starts, sweep)
        sweep.close()
        return flows

    def push(self, tangents: list[Any], results: list[Any]) -> list[Any]:
        """Return the tangent of every result, given tangents of the arguments."""
        places = [self.where(result) for result in results]
        offsets = [offset for offset in places if offset is not None]
        if not offsets:
            return [zero_like(data_of(result)) for result in results]
        stop = max(offsets) + STRIDE
        span = Span(self.tape, self.start, stop, self.offsets)
        on_values = self.connected(stop) or any(isinstance(t, Value) for t in tangents)
        # An argument behind the last result cannot have an effect on any of them.
        seeds = {span.index(o): t for o, t in zip(self.offsets, tangents, strict=True) if o < stop}
        values = Views(span) if on_values else Numbers(span)
        watch = STATE.watch
        with np.errstate(all="ignore"), STATE.on(self.tape), unwatched():
            flows = forward(span, values, seeds)
            if watch is not None:
                watch.pushed(span, values, flows)
        pushed = [
            zero_like(data_of(result)) if k is None else settled(flows[span.index(k)], data_of(result))
            for k, result in zip(places, results, strict=True)
        ]
        return distinct(pushed, zip(places, tangents, strict=False))


def unwatched() -> AbstractContextManager[Any, Any]:
    """Return a block in which the watcher does not see what is recorded."""
    return nullcontext() if STATE.watch is None else WATCHES.block(None)


def _offset(seed: tuple[int, Any]) -> int:
    return seed[0]


class Numbers:
    """The nodes of a span as plain numbers and arrays; an array that no rule reads may have been dropped."""

    def __init__(self, span: Span) -> None:
        self.span = span

    def __getitem__(self, node: int) -> Any:
        if node < 0:
            outside = self.span.literals[node]
            return self.at(*outside) if isinstance(outside, tuple) else outside
        offset = self.span.start + node * STRIDE
        data = self.span.tape.value_at(offset)
        return self.at(offset, self.span.read.get(offset, data) if type(data) is Gone else data)

    def at(self, offset: int, data: Any) -> Any:
        """Return the data of a node; numbers become NumPy's, because derivative rules divide."""
        return np.float64(data) if type(data) is float else data


class Views(Numbers):
    """The nodes of a span as values, so that a sweep over them is recorded."""

    def at(self, offset: int, data: Any) -> Any:
        """Return a node as a value; a dropped array stays dropped."""
        if type(data) is Gone:
            return data
        tape = self.span.tape
        if offset in tape.leaves:
            return view(tape, offset)
        return wrapped(tape, offset, float(data) if type(data) is np.float64 and not tape.tracing else data)


class Hooks:
    """Runs the hooks of values when their gradients are complete."""

    def __init__(self, span: Span) -> None:
        self.hooks = {span.index(offset): hooks for offset, hooks in span.tape.hooks.items() if offset >= span.start}

    def node(self, row: Row, upstream: Any) -> Any:
        """Return the gradient after the node's hooks; None if it has no hooks."""
        for hook in self.hooks.get(row.node, ()):
            upstream = hook(upstream)
        return upstream if row.node in self.hooks else None

    def wire(self, row: Row, slot: int, sent: Any) -> None:
        """Ignore what is sent along a wire."""


def lifted(tape: Tape, data: Any, number: type[Scalar] = NumpyScalar) -> Value:
    """Append an input to a tape; `number` says whether a real number is Python's or NumPy's."""
    if not tape.tracing or type(data) is not float:
        return wrapped(tape, tape.append(new_extra((INPUT, (), (), data, 0))), data, number)
    data = np.float64(data)
    value = wrapped(tape, tape.append(new_extra((INPUT, (), (), data, 0))), data)
    return as_python(value) if number is Scalar else value


def distinct(results: list[Any], passed: Iterable[tuple[Any, Any]]) -> list[Any]:
    """Copy results where needed, so that none shares memory with another one or with what was passed in."""
    used = {id(array) for _, array in passed}
    for k, result in enumerate(results):
        if type(result) is np.ndarray:
            if result.base is not None or not result.flags.writeable or id(result) in used:
                results[k] = result.copy()
            used.add(id(results[k]))
    return results


def data_of(result: Any) -> Any:
    """Return the data of a value; anything else is returned unchanged."""
    return result._data if isinstance(result, Value) else result


def released(result: Any, session: Session) -> Any:
    """Return a result of a function; as a plain number or array, unless an outer transform still needs it recorded."""
    if isinstance(result, Value) and not (result._tape is session.tape and session.tape.owner is None):
        # Transforms return Python floats, so a scalar becomes the value of a Python float.
        return as_python(result)
    data = data_of(result)
    if type(data) is not np.ndarray:
        return data
    # The caller may write to the result, so it must not share memory.
    shared = data.base is not None or not data.flags.writeable if isinstance(result, Value) else is_own(data)
    return data.copy() if shared else data


def all_released(container: Any, session: Session) -> Any:
    """Apply `release_result` to each leaf of a container."""
    leaves, tree = flatten(container)
    return unflatten(tree, [released(leaf, session) for leaf in leaves])


class Call:
    """A recorded call of a function, with some of its arguments lifted to values."""

    def __init__(
        self,
        f: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        argnums: Argnums,
    ) -> None:
        self.session = Session()
        self.numbers, self.single = _argnums(argnums, len(args), f)
        chosen = list(args)
        self.trees: list[Tree] = []
        self.counts: list[int] = []
        before = STATE.running()
        try:
            STATE.innermost, STATE.around = self.session.tape, PAUSES.active()
            self._lift(f, args, chosen)
            self.result = f(*chosen, **kwargs)
        finally:
            # Plain assignments: a Ctrl-C cannot come between them and leave the tape active.
            STATE.innermost, STATE.around, STATE.stretch = before

    def _lift(self, f: Callable[..., Any], args: tuple[Any, ...], chosen: list[Any]) -> None:
        """Replace the arguments to differentiate by values, and other arrays by read-only copies."""
        for number, arg in enumerate(args):
            if type(arg) is np.ndarray and arg.ndim and number not in self.numbers:
                chosen[number] = own(arg)
        for number in self.numbers:
            leaves, tree = flatten(args[number])

            def what(number: int = number, count: int = len(leaves)) -> str:
                return f"argument {number} of {name_of(f)}" + (f" (one of its {count} leaves)" if count > 1 else "")

            chosen[number] = unflatten(tree, [self.session.lift(leaf, what) for leaf in leaves])
            self.trees.append(tree)
            self.counts.append(len(leaves))

    def shaped(self, leaves: Sequence[Any]) -> Any:
        """Return leaves, one per lifted leaf, in the structure of the arguments: one container or a tuple of them."""
        if self.single and len(leaves) == 1:
            return unflatten(self.trees[0], leaves)
        rest = iter(leaves)
        parts: list[Any] = []
        for tree, count in zip(self.trees, self.counts, strict=True):
            parts.append(unflatten(tree, [next(rest) for _ in range(count)]))
        return parts[0] if self.single else tuple(parts)


def _argnums(argnums: Argnums, count: int, f: Callable[..., Any]) -> tuple[list[int], bool]:
    """Return the argument numbers without negative ones, and whether a single number was given."""
    if type(argnums) is int and 0 <= argnums < count:
        return [argnums], True
    single = isinstance(argnums, int) and not isinstance(argnums, bool)
    if not single and not isinstance(argnums, list | tuple):
        raise GradientError(f"argnums is a whole number or a tuple of them; got {shown(argnums)}")
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    for number in numbers:
        if not isinstance(number, int) or not -count <= number < count:
            raise GradientError(
                f"argnums asks for argument {shown(number)} of {name_of(f)}, which was called with {count}"
            )
    positions = [number % count for number in numbers]
    if len(set(positions)) != len(positions):
        raise GradientError(f"argnums names an argument twice: {shown(argnums)}")
    return positions, single


def name_of(f: Any) -> str:
    """Return the name of a function for error messages."""
    return getattr(f, "__name__", None) or type(f).__name__


def check_function(f: Any) -> None:
    """Raise unless a transform was given a function."""
    if not callable(f):
        raise OperandError(f"a transform takes a function; got {shown(f)}: write wg.grad(f)(x), not wg.grad(f(x))")


def transposed(back: Callable[..., Any], slot: int, t: Any, xs: Sequence[Any], y: Any) -> Any:
    """Push a tangent through an op that has only a reverse rule, by transposing that rule.

    The reverse rule is linear in g, so recording `back(slot, g, xs)` and pulling t back to g gives the pushed tangent.
    """
    recorded = isinstance(t, Value) or any(isinstance(x, Value) for x in xs)
    session = Session(STATE.tape if recorded else Tape(apart=True))
    like = data_of(y)
    with STATE.on(session.tape):
        g = session.lift(np.zeros_like(like) if np.ndim(like) else 0.0 * np.asarray(like)[()], lambda: "a gradient")
        sent = back(slot, g, xs)
    at = session.where(sent)
    return session.pull([] if at is None else [(at, t)], recorded=recorded)[0]
