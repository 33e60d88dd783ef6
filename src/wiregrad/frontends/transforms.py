"""Derivatives of functions, with JAX's names and signatures.

A transform records the function once and sweeps the recording. Nested transforms record on the outer one's recording,
and their sweeps run on recorded values; a derivative is taken with respect to nodes, not to levels, so perturbations
cannot be confused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from wiregrad.errors import GradientError, OperandError, ShapeError, shown, user_line
from wiregrad.frontends import dispatch, scalar  # noqa: F401 - they give values their methods and operators
from wiregrad.frontends.packing import pack, unpack
from wiregrad.frontends.tape import STATE, STRIDE, Gone, Span, Tape, pull_back
from wiregrad.frontends.tree import Tree, flatten, matching, unflatten
from wiregrad.frontends.value import (
    Scalar,
    Value,
    as_data,
    common_tape,
    finish,
    new_extra,
    own,
    place,
    record,
    settled,
    view,
    wrapped,
    zero_like,
)
from wiregrad.frontends.value import leaf as new_leaf
from wiregrad.ir import INPUT, TABLE, Pattern, Row
from wiregrad.ops.array import General
from wiregrad.ops.functions import FUNCTIONS
from wiregrad.passes import forward, reverse

Argnums = int | Sequence[int]


class Session:
    """One function recorded at one point: where its arguments stand, and how to sweep from its results to them."""

    def __init__(self, tape: Tape | None = None, *, lends: bool = False) -> None:
        self.outer = tape or STATE.tape
        self.tape = self.outer or Tape()
        self.start = len(self.tape.buffer)
        self.offsets: list[int] = []
        self.data: list[Any] = []
        self.lends = lends and self.outer is None
        self.lent: list[Any] = []

    def lift(self, leaf: Any, what: Callable[[], str]) -> Value:
        """Return an argument as a node of the recording."""
        if type(leaf) is np.ndarray and leaf.dtype == np.float64 and leaf.ndim:
            value = lifted(self.tape, self.lend(leaf) if self.lends else own(leaf))
        elif type(leaf) is float:
            value = lifted(self.tape, leaf)
        else:
            data = as_data(leaf, what, strict=True)
            value = record(TABLE["positive"], (leaf,)) if isinstance(leaf, Value) else lifted(self.tape, data)
            if value._tape is not self.tape:
                value = lifted(self.tape, data)
        self.offsets.append(value._index)
        self.data.append(value._data)
        return value

    def lend(self, array: Any) -> Any:
        """Return a read-only view of an argument, which needs no copy while the call lasts."""
        view_ = array.view()
        view_.setflags(write=False)
        STATE.lent.add(id(view_))
        self.lent.append(view_)
        return view_

    def where(self, result: Any) -> int | None:
        """Return where a result stands, None if no argument can have moved it."""
        if not isinstance(result, Value) or result._tape is not self.tape or result._index < self.start:
            return None
        return result._index

    def connected(self, stop: int) -> bool:
        """Return whether something besides the arguments, that may be differentiated by, moved the results."""
        if not self.start:
            return bool(self.tape.leaves)
        if any(offset >= self.start for offset in self.tape.leaves):
            return True
        return any(0 <= source < self.start for _, node in self.tape.nodes(self.start, stop) for source in node.sources)

    def finish(self) -> None:
        """Close the recording, unless somebody else still writes on it; what was lent is given back."""
        STATE.lent.difference_update(map(id, self.lent))
        if self.outer is None:
            if not self.tape.leaves:
                self.tape.owner = None
            elif self.lent:
                # The recording lives on, and the lender may write again.
                self.tape.keep_own(self.lent)
        self.lent = []

    def pull(self, seeds: list[tuple[int, Any]], *, recorded: bool | None = None) -> list[Any]:
        """Return the gradient by every argument, given cotangents of results.

        The sweep is recorded if it is to be differentiated again; unless told, that is found out.
        """
        if not seeds:
            return [zero_like(data) for data in self.data]
        stop = max(seeds, key=_offset)[0] + STRIDE
        with np.errstate(all="ignore"):
            if recorded is None:
                recorded = self.connected(stop) or any(isinstance(seed, Value) for _, seed in seeds)
            if recorded:
                flows = self._pull_values(seeds, stop)
            else:
                adjoints = pull_back(self.tape, seeds, self.start, keep=False)
                flows = [self._at(adjoints, offset) for offset in self.offsets]
            return [writable(settled(flow, data)) for flow, data in zip(flows, self.data, strict=True)]

    def _at(self, adjoints: list[Any], offset: int) -> Any:
        index = (offset - self.start) // STRIDE
        return adjoints[index] if index < len(adjoints) else None

    def _pull_values(self, seeds: list[tuple[int, Any]], stop: int) -> list[Any]:
        span = Span(self.tape, self.start, stop, self.offsets)
        starts: dict[int, Any] = {}
        for offset, seed in seeds:
            index = span.index(offset)
            starts[index] = starts[index] + seed if index in starts else seed
        with STATE.on(self.tape):
            flows = reverse(span, Views(span), starts, Nobody())
        return [self._at(flows, offset) for offset in self.offsets]

    def push(self, tangents: list[Any], results: list[Any]) -> list[Any]:
        """Return the tangent of every result, given tangents of the arguments."""
        places = [self.where(result) for result in results]
        found = [k for k in places if k is not None]
        if not found:
            return [zero_like(_data(result)) for result in results]
        stop = max(found) + STRIDE
        span = Span(self.tape, self.start, stop, self.offsets)
        on_values = self.connected(stop) or any(isinstance(t, Value) for t in tangents)
        # An argument that no result can depend on may stand behind the last of them.
        seeds = {span.index(o): t for o, t in zip(self.offsets, tangents, strict=True) if o < stop}
        with np.errstate(all="ignore"), STATE.on(self.tape):
            flows = forward(span, Views(span) if on_values else Numbers(span), seeds)
        return [
            zero_like(_data(result)) if k is None else writable(settled(flows[span.index(k)], _data(result)))
            for k, result in zip(places, results, strict=True)
        ]


def _offset(seed: tuple[int, Any]) -> int:
    return seed[0]


class Numbers:
    """The nodes of a span as plain numbers and arrays; what no rule reads may be gone."""

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
        """Return a node, given its offset and what it carried."""
        return data


class Views(Numbers):
    """The nodes of a span as values, so that what is computed with them is recorded."""

    def at(self, offset: int, data: Any) -> Any:
        """Return a node as a value; what is gone stays gone."""
        if type(data) is Gone:
            return data
        tape = self.span.tape
        if offset in tape.leaves:
            return view(tape, offset)
        return wrapped(tape, offset, float(data) if type(data) is np.float64 and not tape.tracing else data)


class Nobody:
    """Watches nothing."""

    def node(self, row: Row, upstream: Any) -> None:
        """Do nothing."""

    def wire(self, row: Row, slot: int, sent: Any) -> None:
        """Do nothing."""


def lifted(tape: Tape, data: Any) -> Value:
    """Return a new input of a recording."""
    if tape.tracing and type(data) is float:
        data = np.float64(data)
    return wrapped(tape, tape.append(new_extra((INPUT, (), (), data, 0))), data)


def writable(result: Any) -> Any:
    """Return a result that its receiver may change."""
    return result.copy() if type(result) is np.ndarray and not result.flags.writeable else result


def _data(result: Any) -> Any:
    return result._data if isinstance(result, Value) else result


def released(result: Any, session: Session) -> Any:
    """Return what a function gave, as a plain number or array if nothing outside the transform can move it."""
    if isinstance(result, Value) and result._tape is session.tape and session.tape.owner is None:
        return result._data
    return result


def grad(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """Return the function that computes the gradient of f.

    >>> grad(lambda x: x**3)(2.0)
    12.0
    >>> grad(grad(lambda x: x**3))(2.0)
    12.0
    """
    compute = value_and_grad(f, argnums, has_aux, holomorphic)

    @functools.wraps(f, updated=())
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, grads = compute(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return gradient


def value_and_grad(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """Return the function that computes the value and the gradient of f; with `has_aux`, f gives (value, anything).

    >>> value_and_grad(lambda x, y: x * y, argnums=(0, 1))(2.0, 3.0)
    (6.0, (3.0, 2.0))
    """
    _check_function(f)

    @functools.wraps(f, updated=())
    def computed(*args: Any, **kwargs: Any) -> Any:
        call = Call(f, args, kwargs, argnums)
        result, aux = _with_aux(call.result) if has_aux else (call.result, None)
        check_scalar(result, f, holomorphic=holomorphic)
        place_ = call.session.where(result)
        grads = call.session.pull([] if place_ is None else [(place_, _one(result))])
        if holomorphic:
            grads = [np.conjugate(g) for g in grads]
        call.session.finish()
        value = released(result, call.session)
        if not has_aux:
            return value, call.shaped(grads)
        leaves, tree = flatten(aux)
        return (value, unflatten(tree, [released(leaf, call.session) for leaf in leaves])), call.shaped(grads)

    return computed


class Call:
    """A call of a function with some arguments lifted, recorded."""

    def __init__(
        self,
        f: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        argnums: Argnums,
        *,
        lends: bool = True,
    ) -> None:
        self.session = Session(lends=lends)
        self.numbers, self.single = _argnums(argnums, len(args), f)
        chosen = list(args)
        self.trees: list[Tree] = []
        self.counts: list[int] = []
        with STATE.on(self.session.tape):
            if lends and self.session.lends:
                for number, arg in enumerate(args):
                    if type(arg) is np.ndarray and arg.ndim and number not in self.numbers:
                        chosen[number] = self.session.lend(arg)
            for number in self.numbers:
                leaves, tree = flatten(args[number])

                def what(number: int = number, count: int = len(leaves)) -> str:
                    return f"argument {number} of {_name(f)}" + (f" (one of its {count} leaves)" if count > 1 else "")

                chosen[number] = unflatten(tree, [self.session.lift(leaf, what) for leaf in leaves])
                self.trees.append(tree)
                self.counts.append(len(leaves))
            self.result = f(*chosen, **kwargs)

    def shaped(self, leaves: Sequence[Any]) -> Any:
        """Return one leaf per lifted leaf as the arguments were: one container, or a tuple of them."""
        if self.single and len(leaves) == 1:
            return unflatten(self.trees[0], leaves)
        rest, parts = iter(leaves), []
        for tree, count in zip(self.trees, self.counts, strict=True):
            parts.append(unflatten(tree, [next(rest) for _ in range(count)]))
        return parts[0] if self.single else tuple(parts)


def _argnums(argnums: Argnums, count: int, f: Callable[..., Any]) -> tuple[list[int], bool]:
    if type(argnums) is int and 0 <= argnums < count:
        return [argnums], True
    single = isinstance(argnums, int) and not isinstance(argnums, bool)
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    for number in numbers:
        if not isinstance(number, int) or not -count <= number < count:
            raise GradientError(
                f"argnums asks for argument {shown(number)} of {_name(f)}, which was called with {count}"
            )
    return [number % count for number in numbers], single


def _name(f: Any) -> str:
    return getattr(f, "__name__", None) or type(f).__name__


def _check_function(f: Any) -> None:
    if not callable(f):
        raise OperandError(f"a transform takes a function; got {shown(f)}: write wg.grad(f)(x), not wg.grad(f(x))")


def _with_aux(result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise GradientError(f"with has_aux=True the function returns (value, anything); got {shown(result)}")
    return result


def check_scalar(result: Any, f: Any, *, holomorphic: bool = False) -> None:
    """Raise unless a result can be differentiated by reverse mode alone: one real number."""
    if type(result) is Scalar:
        return
    shape = getattr(result, "shape", None) if not isinstance(result, int | float | complex) else ()
    if shape is None:
        raise GradientError(
            f"{_name(f)} must return a number; got {type(result).__name__} {shown(result)}{user_line()}"
        )
    if shape != ():
        raise GradientError(
            f"{_name(f)} must return one number, not an array of shape {shape}; "
            f"reduce it (np.sum), or use wg.jacobian{user_line()}"
        )
    kind = np.asarray(_data(result)).dtype.kind
    if kind == "c" and not holomorphic:
        raise GradientError(
            f"{_name(f)} returns a complex number; take its real part, abs, or holomorphic=True{user_line()}"
        )


def _one(result: Value) -> Any:
    return 1.0 if type(result._data) is float else result._data.dtype.type(1)


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return f's result and a function that pulls a cotangent of it back to the arguments.

    >>> y, pull = vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> y, pull(1.0)
    (6.0, (3.0, 2.0))
    """
    _check_function(f)
    # What is pulled back later must not depend on what the caller does to the arguments until then.
    call = Call(f, primals, {}, tuple(range(len(primals))), lends=False)
    result, aux = _with_aux(call.result) if has_aux else (call.result, None)
    results, tree = flatten(result)
    session = call.session
    session.finish()
    datas = [_data(leaf) for leaf in results]
    places = [session.where(leaf) for leaf in results]

    def pullback(cotangent: Any) -> Any:
        seeds = [
            (at, cotangent_of(seed, data))
            for at, seed, data in zip(places, matching(tree, cotangent, "the cotangent"), datas, strict=True)
            if at is not None
        ]
        return call.shaped(session.pull(seeds))

    out = unflatten(tree, [released(leaf, session) for leaf in results])
    return (out, pullback, aux) if has_aux else (out, pullback)


def cotangent_of(seed: Any, data: Any, what: str = "the cotangent") -> Any:
    """Return a direction for a value, with its shape and dtype."""
    raw = _data(seed)
    if np.shape(raw) != np.shape(data):
        raise ShapeError(f"{what} must have the shape {np.shape(data)}; got {np.shape(raw)}{user_line()}")
    if isinstance(seed, Value):
        return seed
    if np.asarray(raw).dtype.kind not in "fciu":
        raise OperandError(f"{what} must be made of numbers; got {shown(seed)}{user_line()}")
    return float(raw) if type(data) is float else np.asarray(raw).astype(data.dtype)[()]


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """Return f's result and how it moves when the arguments move along tangents, by forward mode.

    >>> jvp(lambda x: x**3, (2.0,), (1.0,))
    (8.0, 12.0)
    """
    _check_function(f)
    if not isinstance(primals, list | tuple) or not isinstance(tangents, list | tuple):
        raise OperandError("jvp takes primals and tangents as tuples: wg.jvp(f, (x,), (t,))")
    if len(primals) != len(tangents):
        raise OperandError(f"jvp needs one tangent per primal; got {len(primals)} and {len(tangents)}")
    call = Call(f, tuple(primals), {}, tuple(range(len(primals))))
    result, aux = _with_aux(call.result) if has_aux else (call.result, None)
    results, tree = flatten(result)
    given: list[Any] = []
    for shape, tangent in zip(call.trees, tangents, strict=True):
        given += matching(shape, tangent, "a tangent")
    directions = [cotangent_of(t, data, "a tangent") for t, data in zip(given, call.session.data, strict=True)]
    moved = call.session.push(directions, results)
    call.session.finish()
    out = unflatten(tree, [released(leaf, call.session) for leaf in results]), unflatten(tree, moved)
    return (*out, aux) if has_aux else out


def jacobian(f: Callable[..., Any], argnums: Argnums = 0, mode: str | None = None) -> Callable[..., Any]:
    """Return the function that computes all derivatives of f's results by its arguments.

    Forward mode where there are fewer numbers in than out, reverse mode else; `mode` ("forward" or "reverse")
    overrules. The shape of each is that of the result, then that of the argument.

    >>> import numpy as np
    >>> jacobian(lambda x: x * x)(np.array([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    _check_function(f)
    if mode not in (None, "forward", "reverse"):
        raise OperandError(f"mode is 'forward', 'reverse' or None; got {shown(mode)}")

    @functools.wraps(f, updated=())
    def computed(*args: Any, **kwargs: Any) -> Any:
        call = Call(f, args, kwargs, argnums)
        results, tree = flatten(call.result)
        datas = [_data(leaf) for leaf in results]
        for data in datas:
            if np.asarray(data).dtype.kind not in "fc":
                raise GradientError(f"{_name(f)} returns {shown(data)}, which has no derivative{user_line()}")
        way = mode or cheaper(call.session.data, datas)
        blocks = (_columns if way == "forward" else _rows)(call.session, results, datas)
        call.session.finish()
        return unflatten(tree, [call.shaped(row) for row in blocks])

    return computed


def cheaper(inputs: Sequence[Any], outputs: Sequence[Any]) -> str:
    """Return the mode that needs fewer sweeps.

    >>> cheaper([np.zeros(2)], [np.zeros(5)]), cheaper([np.zeros(5)], [np.zeros(2)])
    ('forward', 'reverse')
    """
    return "forward" if sum(map(np.size, inputs)) < sum(map(np.size, outputs)) else "reverse"


def _rows(session: Session, results: list[Any], datas: list[Any]) -> list[list[Any]]:
    """Return, per result and argument, the derivatives: one reverse sweep per number of the results."""
    blocks = []
    for result, data in zip(results, datas, strict=True):
        at = session.where(result)
        pulled = [session.pull([] if at is None else [(at, unit)]) for unit in units(data)]
        blocks.append(
            [_stacked([row[k] for row in pulled], np.shape(data), np.shape(x), x) for k, x in enumerate(session.data)]
        )
    return blocks


def _columns(session: Session, results: list[Any], datas: list[Any]) -> list[list[Any]]:
    """Return, per result and argument, the derivatives: one forward sweep per number of the arguments."""
    zeros = [None] * len(session.data)
    pushed = [
        [session.push([*zeros[:k], unit, *zeros[k + 1 :]], results) for unit in units(x)]
        for k, x in enumerate(session.data)
    ]
    return [
        [
            _moved(
                _stacked([column[r] for column in pushed[k]], np.shape(x), np.shape(data), data),
                np.ndim(x),
                np.ndim(data),
            )
            for k, x in enumerate(session.data)
        ]
        for r, data in enumerate(datas)
    ]


def units(data: Any) -> Iterator[Any]:
    """Return the unit vectors of a number's or array's shape."""
    if np.ndim(data) == 0:
        yield 1.0 if type(data) is float else np.asarray(data).dtype.type(1)
        return
    for k in range(np.size(data)):
        unit = np.zeros(np.shape(data), data.dtype)
        unit.flat[k] = 1.0
        yield unit


def _stacked(parts: list[Any], outer: tuple[int, ...], inner: tuple[int, ...], like: Any) -> Any:
    if not parts:
        return np.zeros(outer + inner, np.asarray(like).dtype)
    if not outer:
        return parts[0]
    return FUNCTIONS["reshape"].run(FUNCTIONS["stack"].run(parts), outer + inner)


def _moved(block: Any, inputs: int, outputs: int) -> Any:
    """Return a block whose first axes are the argument's with the result's axes in front."""
    if not inputs or not outputs:
        return block
    return FUNCTIONS["transpose"].run(block, (*range(inputs, inputs + outputs), *range(inputs)))


def hessian(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return the function that computes the second derivatives of f: the Jacobian of its gradient.

    >>> import numpy as np
    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([2.0, 3.0])).tolist()
    [[6.0, 4.0], [4.0, 0.0]]
    """
    return jacobian(grad(f, argnums), argnums)


def hvp(f: Callable[..., Any], x: Any, v: Any) -> Any:
    """Return the Hessian of f at x times v, without the Hessian: forward mode over reverse mode.

    >>> import numpy as np
    >>> hvp(lambda x: x[0] ** 2 * x[1], np.array([2.0, 3.0]), np.array([1.0, 0.0])).tolist()
    [6.0, 4.0]
    """
    return jvp(grad(f), (x,), (v,))[1]


def stop_gradient(x: Any) -> Any:
    """Return a container of values (or plain numbers) as constants: no gradient flows back through them.

    >>> grad(lambda x: x * stop_gradient(x))(3.0)
    3.0
    """
    leaves, tree = flatten(x)
    return unflatten(tree, [_stopped(leaf) for leaf in leaves])


def _stopped(leaf: Any) -> Any:
    if not isinstance(leaf, Value):
        return leaf
    if leaf._tape is not None and leaf._tape.tracing:
        return record(TABLE["stop_gradient"], (leaf,))
    return new_leaf(leaf._data, constant=True)


def checkpoint(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return f as one node: what happens inside is not kept for the backward pass but computed again there.

    Memory for time. Values that f uses without being given them are found when it first runs.

    >>> grad(lambda x: checkpoint(np.sin)(x) * x)(0.0)
    0.0
    """
    _check_function(f)

    @functools.wraps(f, updated=())
    def computed(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = flatten((args, kwargs))
        values = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Value)]
        tape = STATE.tape
        if STATE.paused or (tape is not None and tape.tracing):
            return f(*args, **kwargs)
        segment = Segment(f, leaves, values, tree)
        given = [leaves[k] for k in values]
        outputs = segment.first(given)
        operands = [*given, *segment.captured]
        home = common_tape(operands)
        if home is None:
            return unflatten(segment.out_tree, outputs)
        op = CHECKPOINT.once(segment=segment)
        packed = finish(home, op, operands, [_data(x) for x in operands], pack(outputs))
        return unflatten(segment.out_tree, unpack(packed, [np.shape(y) for y in outputs]))

    return computed


class Segment:
    """A call whose inside is recorded only while its gradient is computed."""

    def __init__(self, f: Callable[..., Any], leaves: list[Any], values: list[int], tree: Tree) -> None:
        self.f, self.values, self.tree = f, values, tree
        self.leaves = [None if k in values else leaf for k, leaf in enumerate(leaves)]
        self.out_tree = tree
        self.captured: list[Value] = []
        self._latest: tuple[Any, list[Any]] | None = None

    def first(self, given: Sequence[Value]) -> list[Any]:
        """Run once and note which values are used without being given; returns the outputs as plain arrays."""
        tape = Tape(apart=True)
        with STATE.on(tape):
            results, self.out_tree = flatten(self.call([lifted(tape, _data(x)) for x in given]))
        self.captured = list(tape.leaves.values())
        return [_data(result) for result in results]

    def call(self, values: Sequence[Any]) -> Any:
        """Call the function with the values in their places."""
        leaves = list(self.leaves)
        for k, value in zip(self.values, values, strict=True):
            leaves[k] = value
        args, kwargs = unflatten(self.tree, leaves)
        return self.f(*args, **kwargs)

    def back(self, slot: int, g: Any, xs: Sequence[Any]) -> Any:
        """Return the gradient by one operand: all of them are computed when the first is asked for."""
        if self._latest is None or self._latest[0] is not g:
            self._latest = (g, self._pull(g, xs))
        found = self._latest[1][slot]
        if slot == 0:
            self._latest = None
        return found

    def _pull(self, g: Any, xs: Sequence[Any]) -> list[Any]:
        count = len(self.values)
        recorded = isinstance(g, Value) or any(isinstance(x, Value) for x in xs)
        session = Session(STATE.tape if recorded else Tape(apart=True))
        with STATE.on(session.tape):
            values = [session.lift(x, lambda: "a checkpointed value") for x in xs[:count]]
            results = flatten(self.call(values))[0]
            for value in self.captured:
                session.offsets.append(place(session.tape, value))
                session.data.append(value._data)
        session.start = min([session.start, *session.offsets])
        parts = unpack(g, [np.shape(_data(result)) for result in results])
        seeds = [
            (at, part) for result, part in zip(results, parts, strict=True) if (at := session.where(result)) is not None
        ]
        return session.pull(seeds, recorded=recorded)


def _checkpoint_back(slot: int, g: Any, xs: Sequence[Any], y: Any, *, segment: Segment) -> Any:
    return segment.back(slot, g, xs)


def _checkpoint_ahead(slot: int, t: Any, xs: Sequence[Any], y: Any, *, segment: Segment) -> Any:
    return transposed(segment.back, slot, t, xs, y)


def transposed(back: Callable[..., Any], slot: int, t: Any, xs: Sequence[Any], y: Any) -> Any:
    """Push a tangent through an op that only knows how to pull: what it pulls is linear in what it is given.

    `back(slot, g, xs)` is recorded for some g and pulled back along t to g.
    """
    recorded = isinstance(t, Value) or any(isinstance(x, Value) for x in xs)
    session = Session(STATE.tape if recorded else Tape(apart=True))
    like = _data(y)
    with STATE.on(session.tape):
        g = session.lift(np.zeros_like(like) if np.ndim(like) else 0.0 * np.asarray(like)[()], lambda: "a gradient")
        sent = back(slot, g, xs)
    at = session.where(sent)
    return session.pull([] if at is None else [(at, t)], recorded=recorded)[0]


CHECKPOINT = TABLE.register(
    General(
        name="checkpoint",
        doc="A function whose inside is computed again in the backward pass.",
        inputs=("x",),
        variadic=True,
        pattern=Pattern.SCALE,
        forward=lambda *xs, segment: pack([_data(r) for r in flatten(segment.call(xs))[0]]),
        back=_checkpoint_back,
        ahead=_checkpoint_ahead,
        batches=False,
        per_call=True,
    )
)
