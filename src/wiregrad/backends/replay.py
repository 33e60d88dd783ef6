"""Replays: a recorded circuit run at another point, with a look at what steered Python when it was recorded.

The first outputs of the circuit are results, the others are checked: they must carry the very bits they carried then.
A replay in which one does not answers None. Native code is tried first; it is kept if, at the point of the recording,
it steers as NumPy did (the last bit of an `exp` may differ), else the interpreter replays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from wiregrad.backends import interpreter
from wiregrad.errors import NotNativeError
from wiregrad.frontends.certified import Certified, plain_result
from wiregrad.frontends.session import distinct
from wiregrad.frontends.value import settled
from wiregrad.ir import Circuit
from wiregrad.passes import reverse, unblock
from wiregrad.passes.sweep import Silent


class Replay(Protocol):
    """Runs a recording again; `tier` says how, `reason` why not natively."""

    tier: str
    reason: str

    def values(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """Return the results, None if Python was steered another way."""

    def gradient(self, inputs: Sequence[Any]) -> tuple[Any, Sequence[Any]] | None:
        """Return the first result and its gradient by every input, None if Python was steered another way."""


class Interpreted:
    """A replay by the interpreter, for circuits of any kind."""

    tier = "interpreter"

    def __init__(self, found: Certified, reason: str) -> None:
        assert found.circuit is not None
        self.circuit, self.reason = found.circuit, reason
        nodes = self.circuit.columns.outputs.tolist()
        count = len(found.moving)
        self._results = nodes[:count]
        self._in_python = found.in_python
        self._checks = [(node, _bits(value)) for node, value in zip(nodes[count:], found.expected, strict=True)]

    def evaluated(self, inputs: Sequence[Any]) -> list[Any] | None:
        """Return what every node carries; None where an op refuses what it is given."""
        given = [np.float64(x) if type(x) is float else x for x in inputs]
        try:
            return interpreter.evaluate(self.circuit, given)
        except Exception:
            # The function itself will say what is wrong, or knows what to do then.
            return None

    def flipped(self, values: Sequence[Any]) -> int | None:
        """Return which check is the first that does not hold."""
        return next((k for k, (node, bits) in enumerate(self._checks) if _bits(values[node]) != bits), None)

    def values(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """Return the results, None if Python was steered another way."""
        values = self.evaluated(inputs)
        if values is None or self.flipped(values) is not None:
            return None
        results = [
            plain_result(values[node], in_python=in_python)
            for node, in_python in zip(self._results, self._in_python, strict=True)
        ]
        return distinct(results, ((None, x) for x in inputs))

    def gradient(self, inputs: Sequence[Any]) -> tuple[Any, Sequence[Any]] | None:
        """Return the first result and its gradient by every input, None if Python was steered another way."""
        values = self.evaluated(inputs)
        if values is None or self.flipped(values) is not None:
            return None
        root = self._results[0]
        with np.errstate(all="ignore"):
            flows = reverse(self.circuit, values, {root: self.circuit.type_of(root).dtype.type(1)}, Silent())
        nodes = self.circuit.input_indices()
        grads = [settled(flows[node], x) for node, x in zip(nodes, inputs, strict=True)]
        return plain_result(values[root]), distinct(grads, [])


def _bits(value: Any) -> bytes:
    found: bytes = np.asarray(value).tobytes()
    return found


class Native:
    """A replay in machine code, for circuits of scalars."""

    def __init__(self, found: Certified, reason: str = "") -> None:
        self.reason = reason
        self._found = found
        self._values, self.tier = _code(found, gradient=False)
        self._single = len(found.moving) == 1
        self._pulled: Callable[..., Any] | Interpreted | None = None

    def values(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """Return the results, None if Python was steered another way."""
        found = self._values(*inputs)
        return (found,) if self._single and found is not None else found

    def gradient(self, inputs: Sequence[Any]) -> tuple[Any, Sequence[Any]] | None:
        """Return the first result and its gradient by every input, None if Python was steered another way."""
        code = self._pulled
        if code is None:
            code = self._pulled = _gradient_of(self._found)
        if isinstance(code, Interpreted):
            return code.gradient(inputs)
        found = code(*inputs)
        return None if found is None else (found[0], found[1:])

    def quick(self) -> Callable[..., Any] | None:
        """Return the builtin that takes floats and answers with the only result, or None."""
        return self._values if self._single else None


def _gradient_of(found: Certified) -> Callable[..., Any] | Interpreted:
    try:
        return _code(found, gradient=True)[0]
    except NotNativeError as error:
        return Interpreted(found, str(error))


def _code(found: Certified, *, gradient: bool) -> tuple[Callable[..., Any], str]:
    """Return a function of the inputs, for the results (and the gradient) or None, and who made its code."""
    # The machinery of native code is loaded when the first function is compiled.
    from wiregrad.backends.native.program import build  # noqa: PLC0415
    from wiregrad.backends.native.replays import builtin  # noqa: PLC0415

    circuit = found.circuit
    assert circuit is not None
    program = build(circuit if gradient else unblock(circuit), 0 if gradient else None)
    count, dtype = len(found.moving), program.initial.dtype
    expected = np.array([float(value) for value in found.expected], dtype).tobytes()
    kinds = _kinds(circuit, found, gradient=gradient)
    if dtype == np.float64:
        made = builtin(program, count, expected, gradient=gradient)
        return made if kinds is None else _Typed(made, kinds), program.tier
    raise NotNativeError("replays in native code work on float64")


class _Typed:
    """A builtin whose answers are not all floats: conditions."""

    def __init__(self, made: Callable[..., Any], kinds: list[Any]) -> None:
        self._made, self._kinds = made, kinds

    def __call__(self, *inputs: Any) -> Any:
        """Return the results, or the only one, as what they are."""
        found = self._made(*inputs)
        if found is None:
            return None
        if type(found) is float:
            return self._kinds[0](found)
        return [kind(number) for kind, number in zip(self._kinds, found, strict=True)]


def _kinds(circuit: Circuit, found: Certified, *, gradient: bool) -> list[Any] | None:
    """Return what makes a number a result or a gradient; None if they are all plain floats."""
    results = circuit.columns.outputs.tolist()[: len(found.moving)]
    inputs = circuit.input_indices() if gradient else []
    kinds = [circuit.type_of(node).dtype.type for node in (*results, *inputs)]
    if all(kind is np.float64 for kind in kinds):
        return None
    python: dict[Any, Any] = {np.float64: float, np.bool_: bool}
    numpy: dict[Any, Any] = {np.float64: float}
    in_python = [*found.in_python, *(True for _ in inputs)]
    return [(python if flag else numpy).get(kind, kind) for kind, flag in zip(kinds, in_python, strict=True)]


class Constant:
    """Stands for the replay of a recording in which nothing depends on the inputs."""

    tier, reason = "constant", ""

    def values(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """Return no results: all of them are constants."""
        return ()

    def gradient(self, inputs: Sequence[Any]) -> tuple[Any, Sequence[Any]] | None:
        """Return nothing: there is no result to differentiate."""
        return None


def replay_of(found: Certified) -> Replay | None:
    """Return how a recording is replayed; None if a replay does not give what was recorded."""
    if found.circuit is None:
        return Constant()
    inputs = [plain_result(x) for x in found.inputs]
    plainly = Interpreted(found, "")
    again = plainly.values(inputs)
    if again is None or not all(map(_same, again, [found.results[k] for k in found.moving])):
        return None
    try:
        native = Native(found)
    except NotNativeError as error:
        plainly.reason = str(error)
        return plainly
    if native.values(inputs) is None:
        plainly.reason = "what steers Python hangs on the last bit of a function that NumPy rounds in its own way"
        return plainly
    return native


def _same(one: Any, two: Any) -> bool:
    a, b = np.asarray(one), np.asarray(two)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
