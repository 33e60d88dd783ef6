"""Replays run a recorded circuit at another point, and check that Python would take the same branches there.

The first outputs of the circuit are results. The others are checks: they decided a branch when the function was
recorded, and must have the same bits again. If one differs, the replay returns None. Native code is tried first; it is
used if, at the point of the recording, it decides every branch as NumPy did (the last bit of an `exp` may differ).
Otherwise the interpreter runs the replay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wiregrad.backends import interpreter
from wiregrad.errors import NotNativeError
from wiregrad.frontends.recording.session import make_distinct
from wiregrad.frontends.recording.value import settle_gradient
from wiregrad.frontends.replay.recorded_calls import CertifiedRecording, plain_result
from wiregrad.ir import CircuitGraph
from wiregrad.lazy import load_module_lazily
from wiregrad.passes import drop_gradient_stops, sweep_backward
from wiregrad.passes.differentiation import SilentWatcher

if TYPE_CHECKING:
    from wiregrad.backends.native import builtin_calls, tiers
else:
    # The modules of native code are loaded when the first function is compiled.
    builtin_calls = load_module_lazily("wiregrad.backends.native.builtin_calls")
    tiers = load_module_lazily("wiregrad.backends.native.tiers")


class RecordingReplay(Protocol):
    """Runs a recording again; `tier` says with which backend, `reason` why not natively."""

    tier: str
    reason: str

    def compute_results(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """Return the results, None if Python would take another branch."""

    def compute_gradient(self, inputs: Sequence[Any]) -> tuple[Any, Sequence[Any]] | None:
        """Return the first result and its gradient by every input, None if Python would take another branch."""


class InterpreterReplay:
    """A replay by the interpreter, for circuits of any kind."""

    tier = "interpreter"

    def __init__(self, recording: CertifiedRecording, reason: str) -> None:
        assert recording.circuit is not None
        self.circuit = recording.circuit
        self.reason = reason
        nodes = self.circuit.columns.outputs.tolist()
        count = len(recording.moving)
        self._results = nodes[:count]
        self._in_python = recording.in_python
        self._checks = [(node, _to_bytes(value)) for node, value in zip(nodes[count:], recording.expected, strict=True)]

    def evaluate_nodes(self, inputs: Sequence[Any]) -> list[Any] | None:
        """Return the value of every node; None if an op raises."""
        point = [np.float64(x) if type(x) is float else x for x in inputs]
        try:
            return interpreter.evaluate_nodes(self.circuit, point)
        except Exception:
            # The function itself is called instead: it raises a proper error, or handles this one.
            return None

    def find_flipped_check(self, values: Sequence[Any]) -> int | None:
        """Return the index of the first check that does not hold, None if all hold."""
        return next((k for k, (node, bits) in enumerate(self._checks) if _to_bytes(values[node]) != bits), None)

    def compute_results(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """Return the results, None if Python would take another branch."""
        values = self.evaluate_nodes(inputs)
        if values is None or self.find_flipped_check(values) is not None:
            return None
        results = [
            plain_result(values[node], in_python=in_python)
            for node, in_python in zip(self._results, self._in_python, strict=True)
        ]
        return make_distinct(results, ((None, x) for x in inputs))

    def compute_gradient(self, inputs: Sequence[Any]) -> tuple[Any, Sequence[Any]] | None:
        """Return the first result and its gradient by every input, None if Python would take another branch."""
        values = self.evaluate_nodes(inputs)
        if values is None or self.find_flipped_check(values) is not None:
            return None
        root = self._results[0]
        with np.errstate(all="ignore"):
            flows = sweep_backward(
                self.circuit, values, {root: self.circuit.type_of(root).dtype.type(1)}, SilentWatcher()
            )
        nodes = self.circuit.input_indices()
        grads = [settle_gradient(flows[node], x) for node, x in zip(nodes, inputs, strict=True)]
        return plain_result(values[root]), make_distinct(grads, [])


def _to_bytes(value: object) -> bytes:
    data: bytes = np.asarray(value).tobytes()
    return data


class NativeReplay:
    """A replay in machine code, for circuits of scalars."""

    def __init__(self, recording: CertifiedRecording, reason: str = "") -> None:
        self.reason = reason
        self._recording = recording
        self._values, self.tier = _compile_replay(recording, gradient=False)
        self._single = len(recording.moving) == 1
        self._pulled: Callable[..., Any] | InterpreterReplay | None = None

    def compute_results(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """Return the results, None if Python would take another branch."""
        results = self._values(*inputs)
        return (results,) if self._single and results is not None else results

    def compute_gradient(self, inputs: Sequence[Any]) -> tuple[Any, Sequence[Any]] | None:
        """Return the first result and its gradient by every input, None if Python would take another branch."""
        code = self._pulled
        if code is None:
            code = self._pulled = _compile_gradient(self._recording)
        if isinstance(code, InterpreterReplay):
            return code.compute_gradient(inputs)
        numbers = code(*inputs)
        return None if numbers is None else (numbers[0], numbers[1:])

    def single_result_builtin(self) -> Callable[..., Any] | None:
        """Return the builtin that maps floats to the only result; None if there are several results."""
        return self._values if self._single else None


def _compile_gradient(recording: CertifiedRecording) -> Callable[..., Any] | InterpreterReplay:
    try:
        return _compile_replay(recording, gradient=True)[0]
    except NotNativeError as error:
        return InterpreterReplay(recording, str(error))


def _compile_replay(recording: CertifiedRecording, *, gradient: bool) -> tuple[Callable[..., Any], str]:
    """Return a function from inputs to results (and gradient), or None if a check fails, and the tier of its code."""
    circuit = recording.circuit
    assert circuit is not None
    program = tiers.build_program(circuit if gradient else drop_gradient_stops(circuit), 0 if gradient else None)
    dtype = program.initial.dtype
    if dtype != np.float64:
        raise NotNativeError(f"native replays compute in float64; this recording needs {dtype}")
    expected = np.array([float(value) for value in recording.expected], dtype).tobytes()
    made = builtin_calls.make_replay_builtin(program, len(recording.moving), expected, gradient=gradient)
    kinds = _find_result_types(circuit, recording, gradient=gradient)
    return made if kinds is None else _TypedBuiltin(made, kinds), program.tier


class _TypedBuiltin:
    """A builtin some of whose results are conditions rather than floats."""

    def __init__(self, made: Callable[..., Any], kinds: list[Any]) -> None:
        self._made = made
        self._kinds = kinds

    def __call__(self, *inputs: object) -> Any:
        """Return the results, or the only one, in their own types."""
        results = self._made(*inputs)
        if results is None:
            return None
        if type(results) is float:
            return self._kinds[0](results)
        return [kind(number) for kind, number in zip(self._kinds, results, strict=True)]


def _find_result_types(circuit: CircuitGraph, recording: CertifiedRecording, *, gradient: bool) -> list[Any] | None:
    """Return the type that each result and gradient is converted to; None if all are plain floats."""
    results = circuit.columns.outputs.tolist()[: len(recording.moving)]
    inputs = circuit.input_indices() if gradient else []
    kinds = [circuit.type_of(node).dtype.type for node in (*results, *inputs)]
    if all(kind is np.float64 for kind in kinds):
        return None
    python: dict[Any, Any] = {np.float64: float, np.bool_: bool}
    numpy: dict[Any, Any] = {np.float64: float}
    in_python = [*recording.in_python, *(True for _ in inputs)]
    return [(python if flag else numpy).get(kind, kind) for kind, flag in zip(kinds, in_python, strict=True)]


class ConstantReplay:
    """The replay of a recording in which nothing depends on the inputs."""

    tier = "constant"
    reason = ""

    def compute_results(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """Return no results: all of them are constants."""
        return ()

    def compute_gradient(self, inputs: Sequence[Any]) -> tuple[Any, Sequence[Any]] | None:
        """Return nothing: there is no result to differentiate."""
        return None


def make_replay(recording: CertifiedRecording) -> RecordingReplay | None:
    """Return the fastest replay of a recording; None if a replay does not reproduce the recorded results."""
    if recording.circuit is None:
        return ConstantReplay()
    inputs = [plain_result(x) for x in recording.inputs]
    interpreted = InterpreterReplay(recording, "")
    results = interpreted.compute_results(inputs)
    if results is None or not all(map(_have_same_bits, results, [recording.results[k] for k in recording.moving])):
        return None
    try:
        native = NativeReplay(recording)
    except NotNativeError as error:
        interpreted.reason = str(error)
        return interpreted
    if native.compute_results(inputs) is None:
        interpreted.reason = "a branch depends on the last bit of a function that native code rounds differently"
        return interpreted
    return native


def _have_same_bits(one: object, two: object) -> bool:
    a = np.asarray(one)
    b = np.asarray(two)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
