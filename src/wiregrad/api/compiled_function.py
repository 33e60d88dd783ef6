"""wg.compile: a Python function that is recorded once and replayed natively, as long as it takes the same branches.

Kept true: no stale result. A replay counts only if everything that steered Python has the same bits as when the
function was recorded. Otherwise another recording is tried; if none is valid, the function runs and is recorded anew.
Recordings are told apart by what they assume about a call: structure, shapes, dtypes, arguments that are no real
numbers, the convention for kinks.

The recordings of one kind of call form a tree (`VariantTree`): where a check of one does not hold, the next one to try
is the one that was recorded when this check had failed before. Both went the same way up to there. A `RecordingBudget`
decides whether another recording pays. Batches are in `batches`.
"""

from __future__ import annotations

import functools
import re
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from os.path import basename
from types import CodeType, MethodType
from typing import TYPE_CHECKING, Any, Generic, Never, ParamSpec, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from wiregrad import codegen, inspect
from wiregrad.api import CIRCUIT_NAMES, RUN_NAMES
from wiregrad.api.batches import (
    MAX_SKIPPED_CALLS,
    PointTable,
    ResultStructure,
    answer_batch,
    choose_reduction,
    is_real_number,
    is_real_result,
    is_usual_batch,
    make_columns,
    open_workers,
    refuse_keywords,
    repeat_batch,
    require_real,
)
from wiregrad.api.hessian_rows import find_hessian
from wiregrad.backends import interpreter
from wiregrad.backends.replay_engines import (
    ArrayReplay,
    ExpandedReplay,
    Flip,
    InterpreterReplay,
    NativeReplay,
    PointColumns,
    RecordingReplay,
    RowWorkers,
    check_device,
    make_replay,
)
from wiregrad.dtypes import PythonNumber, WireValue, count_with_noun, format_brief_number
from wiregrad.errors import (
    COMPILED_FUNCTION_HABITS,
    EscapeError,
    GradientError,
    InterpreterWarning,
    NoRuleError,
    OperandError,
    add_missing_names,
    lead_to,
    read_line_of_code,
    short_repr,
)
from wiregrad.frontends.recording.arguments import LEAF, ContainerTree, flatten, match_leaves, unflatten
from wiregrad.frontends.recording.library_hooks import OVERLAY
from wiregrad.frontends.recording.session import (
    Argnames,
    Argnums,
    ArgumentPlace,
    check_callable,
    flatten_argument,
    function_name,
    join_arguments,
    resolve_arguments,
)
from wiregrad.frontends.recording.tape import RECORDER, STATE, WATCHES
from wiregrad.frontends.recording.trace import LongTraceError, walk_leaf_paths
from wiregrad.frontends.recording.transformed_function import reduce_to_call
from wiregrad.frontends.replay.outside_state import ComparesItself, OutsideState
from wiregrad.frontends.replay.recorded_calls import (
    RANDOM_ARGUMENT,
    ArgumentDescription,
    CallSignature,
    CertifiedRecording,
    NoSignatureError,
    NotReplayableError,
    ValuesGivenError,
    certify,
    describe_call,
    describe_results,
    differ_in_whole_numbers,
    plain_result,
    run_eagerly,
    write_parser,
    write_restorer,
)
from wiregrad.frontends.transforms.derivatives import (
    hessian,
    jacobian,
    make_value_and_grad,
    make_value_and_jacobian,
)
from wiregrad.frontends.transforms.vmap_and_checkpoint import AxesSpec
from wiregrad.inspect.report import Report, format_capped_list
from wiregrad.ir import Certificate, CircuitGraph, Place, certificates
from wiregrad.ir.columns import CHOSEN_CONVENTIONS, chosen_convention, join_first_names
from wiregrad.lazy import NamedTuple, load_module_lazily, pause_collection
from wiregrad.numpy_warnings import ERROR_SETTINGS
from wiregrad.settings import check_threads

if TYPE_CHECKING:
    from wiregrad.backends.native import batch
    from wiregrad.exchange import framework_export
    from wiregrad.frontends.replay import branch_merging
    from wiregrad.inspect.op_counts import OpCounts
else:
    branch_merging = load_module_lazily("wiregrad.frontends.replay.branch_merging")
    # Only functions on a GPU need it.
    framework_export = load_module_lazily("wiregrad.exchange.framework_export")

MAX_RECORDINGS = 256
"""Maximum number of recordings of one function where no limit was given."""
FREE_RECORDINGS = 4
"""Recordings of a function with few branches that are made before it is asked whether they pay."""
MAX_FREE_CHECKS = 3
"""With more certificates in a recording than this, only the first recording is made without asking whether it pays."""
MAX_PLAIN_MISSES = 127
"""Maximum number of calls without a valid recording before it is asked again whether recordings pay."""
MISSES_PER_HIT = 8
"""Looking for a valid recording pays if it is found at least once for so many times that it is not."""
MAX_TIMED_CALLS = 16
"""The first calls that run the function itself are timed, and then one in so many."""
PLAIN_SHARE = 0.02
"""The share of the time of calls that ran the function itself which recordings may take on top of what they save."""
NEEDED_GAIN = 1.5
"""How much more than recordings took, the next one included, replays must have saved; both are estimates."""
UNPROFITABLE = (
    "its branches, the whole numbers in its arguments, or what it reads from outside, vary so much that recording "
    "costs more than replaying saves"
)
OTHER_WHOLE_NUMBERS = (
    "first call with these whole numbers in the arguments; pass those that change as arrays, or as floats"
)
LABELS_CHANGED = "arrays of whole numbers in the arguments have changed, so they are inputs of this recording"
MAX_UNDONE_RECORDINGS = 3
"""A function is not recorded again after this many recordings that changed outside state."""
MAX_FIRST_ROWS = 2_000
"""A function that records more than this is not recorded at its first call, which would take a hundred times as long as
a gradient, but when it is called again."""
LONG_FUNCTION = f"it has more than {MAX_FIRST_ROWS:,} nodes, so it is recorded when it is called again"
MAX_FIRST_CODE_BYTES = 1 << 15
"""A function with more bytecode is not even read at its first gradient; reading takes two microseconds a byte."""
LONG_CODE = f"it has more than {MAX_FIRST_CODE_BYTES:,} bytes of bytecode, so it is recorded when it is called again"
RUNS_ITSELF = "is not compiled, and runs itself in each call"
CHANGES_OUTSIDE = "it changes what it uses from outside"
NOT_REPRODUCIBLE = "a replay at once gave another result: it depends on something else, or magnifies rounding"
MAX_FAILED_REPLAYS = 3
"""After so many recordings that could not be replayed, calls of a kind are no longer recorded."""
NUMPY_NUMBER = re.compile(r"\bfloat64\b(?!\[)")
"""A number of NumPy, not an array, in the description of the arguments of a call."""
MAX_SHOWN_VARIANTS = 20
"""Maximum number of variants that `info` prints."""


P = ParamSpec("P")
Result = TypeVar("Result")


@overload
def compile(
    f: np.ufunc,
    *,
    argnums: Argnums | None = None,
    argnames: Argnames | None = None,
    limit: int | None = None,
    assume: str | None = None,
    device: str = "cpu",
) -> CompiledFunction[..., Any]: ...
@overload
def compile(
    f: Callable[P, Result],
    *,
    argnums: Argnums | None = None,
    argnames: Argnames | None = None,
    limit: int | None = None,
    assume: str | None = None,
    device: str = "cpu",
) -> CompiledFunction[P, Result]: ...
def compile(
    f: Callable[..., Any],
    *,
    argnums: Argnums | None = None,
    argnames: Argnames | None = None,
    limit: int | None = None,
    assume: str | None = None,
    device: str = "cpu",
) -> CompiledFunction[..., Any]:
    """Return a function that records f on its first call and then replays the recording, natively if possible.

    Branches that only compute numbers are recorded with both arms. A call that takes another branch elsewhere is
    recorded too, as long as recordings save more time than they cost, or, with `limit`, up to that many recordings.
    `argnums` and `argnames` select the arguments that `value_and_grad` differentiates by. With `assume="finite"`
    gradients of functions of numbers are faster, but right only where no value and no local slope is infinite or NaN,
    in branches that are not taken either. With `device="cuda"` batches of functions of numbers run on an NVIDIA GPU,
    and calls on arrays too, by JAX, which has to be installed with its CUDA packages.

    >>> def huber(x):
    ...     return 0.5 * x * x if abs(x) < 1.0 else abs(x) - 0.5
    >>> fast = compile(huber)
    >>> fast(0.5), fast(0.25), fast(3.0)
    (0.125, 0.03125, 2.5)
    >>> fast.value_and_grad(-3.0)
    (2.5, -1.0)
    >>> fast.info.calls, len(fast.info.variants)
    (4, 1)
    """
    if isinstance(f, CircuitGraph):
        raise OperandError("wg.compile takes a Python function; a circuit compiles itself: circuit.compile()")
    check_callable(f)
    if limit is not None and (type(limit) is not int or limit < 1):
        raise OperandError(f"limit is the number of recordings to keep, at least 1; got {short_repr(limit)}")
    codegen.check_assumption(assume)
    check_device(device)
    compiled = CompiledFunction(f, argnums, limit, argnames, assume)
    compiled.device = device
    return compiled


@dataclass(frozen=True, repr=False)
class VariantInfo(Report):
    """One recording of a compiled function."""

    nodes: int
    """The number of nodes of its circuit."""
    certificates: int
    """The number of conditions, and of numbers that left the recording, which are checked in each replay."""
    tier: str
    """What replays it."""
    reason: str
    """Why it is not replayed natively; empty if it is."""
    hits: int
    """How many calls, and rows of batches, it has answered."""
    flip: str
    """Why it was recorded."""

    def lines(self) -> Iterator[str]:
        """Return one line."""
        why = f" ({self.reason})" if self.reason else ""
        checks = count_with_noun(self.certificates, "certificate")
        nodes = count_with_noun(self.nodes, "node")
        hits = count_with_noun(self.hits, "hit")
        yield f"{nodes}, {checks}, {self.tier}{why}, {hits}: {self.flip}"


@dataclass(frozen=True, repr=False)
class CompileInfo(Report):
    """What a compiled function has done so far."""

    name: str
    """The name of the function."""
    calls: int
    """How often it was called, with gradients and without."""
    records: int
    """How many recordings were made."""
    variants: tuple[VariantInfo, ...]
    """The recordings that are kept."""
    fallbacks: tuple[tuple[str, int], ...]
    """The reasons why the function itself was called, with counts."""
    derived: tuple[tuple[str, CompileInfo], ...] = ()
    """What `jacobian`, `hessian` and other transforms of the function have done, each with recordings of its own."""

    def lines(self) -> Iterator[str]:
        """Return a line per variant and per reason, of the function and of its transforms."""
        done = f"{count_with_noun(self.calls, 'call')}, {count_with_noun(self.records, 'recording')}"
        yield f"{self.name}: {done}, {count_with_noun(len(self.variants), 'variant')}"
        yield from format_capped_list(self.variants, MAX_SHOWN_VARIANTS)
        yield from (
            f"  ran the function itself {count_with_noun(count, 'time')}: {why}" for why, count in self.fallbacks
        )
        for name, info in self.derived:
            first, *rest = info.lines()
            yield f"  {name}: {first.removeprefix(f'{info.name}: ')}"
            yield from (f"  {line}" for line in rest)


class RecordedVariant:
    """A recording that is kept: how it is replayed, and how its results are put together."""

    __slots__ = (
        "_python_hits",
        "_single",
        "array_calls",
        "flip",
        "has_labels",
        "has_real_results",
        "is_constant_number",
        "is_real",
        "number",
        "programs",
        "quick",
        "quick_gradient",
        "recording",
        "replay",
        "row_counter",
        "siblings",
    )

    def __init__(
        self,
        recording: CertifiedRecording,
        replay: RecordingReplay,
        flip: str,
        number: int,
        *,
        has_labels: bool = False,
    ) -> None:
        self.replay = replay
        self.has_labels = has_labels
        """Whether arrays of whole numbers are inputs, as floats."""
        self.flip = flip
        self.number = number
        self._python_hits = 0
        self.row_counter = np.zeros(1, np.int64)
        """The number of rows of batches that the extension module has answered."""
        self.programs: dict[bool, Any] = {}
        """The code as the extension module runs it, without and with gradients."""
        self.array_calls: dict[tuple[tuple[int, int], ...] | None, ArrayCallReplay | None] = {}
        """How calls on arrays are replayed natively, by the inputs to differentiate by; None for values alone."""
        self.siblings: dict[int | None, RecordedVariant] = {}
        """The variants that were recorded when a check of this one had failed, by the number of the check."""
        self._single = recording.tree.kind is LEAF and bool(recording.moving)
        self.quick = replay.single_result_builtin() if self._single and isinstance(replay, NativeReplay) else None
        """A function of floats that returns the result, a float; anything else if Python would branch differently.

        None also as long as it is not compiled."""
        self.quick_gradient: Callable[..., Any] | None = None
        """A function of floats that returns the result and its gradient as a tuple; anything else if it flipped."""
        self.is_real = returns_real(recording)
        """Whether the result is one real number that depends on the inputs."""
        self.has_real_results = all(
            is_real_float(result) or (is_real_result(result) and k not in recording.moving)
            for k, result in enumerate(recording.results)
        )
        """Whether the results are real numbers or arrays of them, and integers and conditions at most constants."""
        is_number = recording.tree.kind is LEAF and is_real_number(recording.results[0])
        self.is_constant_number = is_number and not recording.moving
        """Whether the result is one real number that depends on no input."""
        constants = [None if k in recording.moving else result for k, result in enumerate(recording.results)]
        # The arguments and results of the recorded call are no longer needed, and may be large.
        self.recording = recording._replace(inputs=[], results=constants)

    @property
    def hits(self) -> int:
        """The number of calls that the recording answered."""
        native_hits: int = sum([program.hits for program in tuple(self.programs.values())])
        return self._python_hits + native_hits + int(self.row_counter[0])

    def count_hits(self, count: int = 1) -> None:
        """Count calls that the recording answered in Python, or rows of a batch."""
        self._python_hits += count

    def run_rows(
        self,
        points: PointColumns,
        rows: NDArray[np.intp] | None,
        threads: int | None,
        workers: RowWorkers | None = None,
    ) -> NDArray[np.intp] | None:
        """Write the results at some points, or all; return the indices of those where a check fails.

        None if there is no native code.
        """
        native = self._find_row_replay(gradient=points.grads is not None)
        moving = points._replace(values=[points.values[k] for k in self.recording.moving])
        failures: NDArray[np.intp] | None = None
        if not moving.values:
            # All results are constants, so only the checks are computed, and here.
            moving = moving._replace(grads=None, wanted=(), device="cpu")
        if self.is_constant_number and not self.recording.checks:
            failures = np.empty(0, np.intp)
        elif native is not None:
            failures = native.run_rows(moving, rows, threads, workers)
        if failures is not None:
            self.finish_rows(points.values, rows, (points.size if rows is None else len(rows)) - len(failures))
            for column in () if moving.values else points.grads or ():
                column[slice(None) if rows is None else rows] = 0.0
        return failures

    def prepare_rows(self, varies: Sequence[bool], wanted: tuple[int, ...] | None) -> batch.RepeatedColumns | None:
        """Return batches in which these inputs vary and the others do not, by the inputs that are wanted.

        None if there is no native code, or if a check may fail at some points.
        """
        native = self._find_row_replay(gradient=wanted is not None)
        return None if native is None or not self.recording.moving else native.prepare_rows(varies, wanted)

    def _find_row_replay(self, *, gradient: bool) -> NativeReplay | ExpandedReplay | ArrayReplay | None:
        """Return what runs batches; None if there is no native code for them."""
        is_real = (self.is_real or self.is_constant_number) if gradient else self.has_real_results
        has_rows = isinstance(self.replay, NativeReplay | ExpandedReplay | ArrayReplay) and not self.has_labels
        return self.replay if is_real and has_rows else None  # type: ignore[return-value]

    @property
    def moving_results(self) -> Sequence[int]:
        """The numbers of the results that are not the same at all points."""
        return self.recording.moving

    def finish_rows(self, values: Sequence[NDArray[np.float64]], rows: NDArray[np.intp] | None, hits: int) -> None:
        """Fill in the results that are the same at all points, and count the points that were answered."""
        self.count_hits(hits)
        for column, constant in zip(values, self.recording.results, strict=True):
            if constant is not None:
                column[slice(None) if rows is None else rows] = constant

    def find_program(self, *, gradient: bool) -> Any:
        """Return the code as the extension module runs it; None if there is none, or if it is not compiled yet."""
        program = self.programs.get(gradient)
        if program is None and isinstance(self.replay, NativeReplay | ExpandedReplay):
            program = self._make_program(self.replay, gradient)
            if program is not None:
                self.programs[gradient] = program
        return program

    def _make_program(self, replay: NativeReplay | ExpandedReplay, gradient: bool) -> Any:
        shapes = replay.list_result_shapes()
        if self._single and (gradient or not shapes[0]):
            return replay.make_program(gradient=gradient)
        results = None if gradient else describe_results(self.recording, shapes)
        return None if results is None else replay.make_program(gradient=False, results=results)

    def find_array_call(self, parts: Sequence[ArgumentRange] | None, *, single: bool) -> ArrayCallReplay | None:
        """Return how calls on arrays are replayed natively; None if they cannot, or were not replayed otherwise."""
        key = None if parts is None else tuple([(start, stop) for _, start, stop in parts])
        if key not in self.array_calls and isinstance(self.replay, ArrayReplay):
            if key is not None:
                self.replay.limit_gradient(key)
            function = self.replay.make_replay(gradient=parts is not None) if self._single else None
            call = None if function is None else ArrayCallReplay(self, function, parts, single=single)
            self.array_calls[key] = call
        return self.array_calls.get(key)

    def returns_float32(self) -> bool:
        """Return whether the first result is a number of float32."""
        circuit = self.recording.circuit
        kind = None if circuit is None else circuit.type_of(int(circuit.columns.outputs[0]))
        return kind is not None and not kind.shape and kind.dtype == np.float32

    def replay_value(self, inputs: Sequence[Any]) -> Any:
        """Return the function's result at a point, or a `Flip` if Python would take another branch."""
        outputs = self.replay.compute_results(inputs)
        if isinstance(outputs, Flip):
            return outputs
        if self._single and self.quick is None and isinstance(self.replay, NativeReplay):
            self.quick = self.replay.single_result_builtin()
        return outputs[0] if self._single else self._build_result(outputs)

    def _build_result(self, outputs: Sequence[Any]) -> Any:
        # Arrays that are constants of the recording are copied, since the caller may change them.
        leaves = [x.copy() if type(x) is np.ndarray else x for x in self.recording.results]
        for k, output in zip(self.recording.moving, outputs, strict=True):
            leaves[k] = output
        return unflatten(self.recording.tree, leaves)

    def summarize(self) -> VariantInfo:
        """Return a summary of the recording."""
        circuit = self.recording.circuit
        replay = self.replay
        nodes = 0 if circuit is None else len(circuit)
        return VariantInfo(nodes, len(self.recording.checks), replay.tier, replay.reason, self.hits, self.flip)


def list_result_shapes(recording: CertifiedRecording) -> list[tuple[int, ...]]:
    """Return the shape of each result of a recording that is kept."""
    circuit = recording.circuit
    nodes = [] if circuit is None else circuit.columns.outputs.tolist()
    moving = {k: circuit.type_of(node).shape for k, node in zip(recording.moving, nodes, strict=False) if circuit}
    return [moving[k] if k in moving else np.shape(result) for k, result in enumerate(recording.results)]


def has_array_inputs(recording: CertifiedRecording) -> bool:
    """Return whether an input of a recording is an array."""
    circuit = recording.circuit
    return circuit is not None and any(circuit.type_of(node).shape for node in circuit.input_indices())


def is_real_float(result: object) -> bool:
    """Return whether a result is a real floating-point number of Python or NumPy, or an array of them."""
    return isinstance(result, float | np.floating) or (type(result) is np.ndarray and result.dtype.kind == "f")


def returns_real(recording: CertifiedRecording) -> bool:
    """Return whether the result of a recording is one real number that depends on the inputs."""
    is_single = recording.tree.kind is LEAF and bool(recording.moving)
    return is_single and isinstance(recording.results[0], float | np.floating)


ArgumentRange = tuple[ContainerTree, int, int]
"""The structure of an argument, and the range of the inputs in it."""


class SpreadArguments(NamedTuple):
    """The arguments of a call with the contents of lists, tuples and dicts in a row."""

    key: tuple[Any, ...]
    """What tells calls of another structure apart."""
    leaves: list[Any]


def spread_arguments(args: tuple[Any, ...]) -> SpreadArguments | None:
    """Return arguments that are arrays, floats, and lists, tuples and dicts of them; None for other arguments.

    What is inside of containers is not looked at: the function that is called with it does that.

    >>> spread_arguments(([1.0, 2.0], {"a": 3.0}))
    SpreadArguments(key=((<class 'list'>, 2), (<class 'dict'>, 'a')), leaves=[1.0, 2.0, 3.0])
    """
    key: list[Any] = []
    leaves: list[Any] = []
    for arg in args:
        kind = type(arg)
        if kind is np.ndarray or kind is float:
            key.append(kind)
            leaves.append(arg)
        elif kind is list or kind is tuple:
            key.append((kind, len(arg)))
            leaves += arg
        elif kind is dict and all(type(name) is str for name in arg):
            key.append((kind, *arg))
            leaves += arg.values()
        else:
            return None
    return SpreadArguments(tuple(key), leaves)


class ArrayCallReplay:
    """Replays a call whose arguments are arrays and floats by one function, which also looks at their types."""

    __slots__ = ("_function", "_gradient", "_number", "_variant")

    def __init__(
        self,
        variant: RecordedVariant,
        function: Callable[..., Any],
        parts: Sequence[ArgumentRange] | None,
        *,
        single: bool,
    ) -> None:
        self._variant = variant
        self._function = function
        self._number = np.float32 if variant.returns_float32() else None
        """The type of a result that is a number but no float64; the function returns floats."""
        self._gradient: Callable[[tuple[Any, ...]], Any] | None = None
        """Takes the gradient, an array or a tuple in the order of the arguments, out of what the function returns."""
        if parts is not None:
            self._gradient = make_gradient_reader(parts, single=single)

    def replay(self, args: Sequence[Any]) -> Any:
        """Return the answer to a call; `NO_WALK` if the recording is not valid for it."""
        numbers = self._function(*args)
        if type(numbers) is not tuple:
            return NO_WALK
        self._variant.count_hits()
        value = numbers[0] if self._number is None else self._number(numbers[0])
        return value if self._gradient is None else (value, self._gradient(numbers))


def make_gradient_reader(parts: Sequence[ArgumentRange], *, single: bool) -> Callable[[tuple[Any, ...]], Any]:
    """Return the function that takes the gradient out of a tuple of the value and the gradients by the wanted inputs.

    The gradients are in the order of the inputs, and the parts in the order of the arguments that were selected.
    """
    wanted = sorted({k for _, start, stop in parts for k in range(start, stop)})
    places = {k: 1 + position for position, k in enumerate(wanted)}
    if all(tree.kind is LEAF for tree, _, _ in parts):
        take = itemgetter(*[places[start] for _, start, _ in parts])
        return take if single or len(parts) > 1 else lambda numbers: (take(numbers),)
    groups = [(tree, [places[k] for k in range(start, stop)]) for tree, start, stop in parts]

    def read(numbers: tuple[Any, ...]) -> Any:
        grads = [tree.build_container(iter([numbers[place] for place in positions])) for tree, positions in groups]
        return grads[0] if single else tuple(grads)

    return read


Query = Callable[[RecordedVariant, Sequence[Any]], Any]
"""Asks a variant for something at a point; returns a `Flip` if Python would take another branch."""


class SelectedArguments(NamedTuple):
    """The arguments that the derivatives of written code are by; all without both."""

    argnums: Argnums | None = None
    argnames: Argnames | None = None


NONE_SELECTED = SelectedArguments()


def list_argument_inputs(
    args: tuple[Any, ...], kwargs: dict[str, Any], *, with_labels: bool = False
) -> dict[ArgumentPlace, range]:
    """Return the numbers of the inputs that belong to each argument, by position or keyword.

    >>> list_argument_inputs((1.0, "text", [2.0, 3.0]), {"scale": 4.0})
    {0: range(0, 1), 1: range(1, 1), 2: range(1, 3), 'scale': range(3, 4)}
    """
    arguments = join_arguments(args, kwargs)
    stops = list(accumulate(len(CallSignature(x, with_labels=with_labels).inputs) for x in arguments.values()))
    return dict(zip(arguments, map(range, [0, *stops], stops), strict=False))


class VariantTree:
    """The variants for calls of one kind; each but the first hangs at the check of another that failed before it."""

    __slots__ = ("kind", "parameters", "recent", "root", "variants")

    def __init__(self, kind: str, parameters: Mapping[ArgumentPlace, range]) -> None:
        self.kind = kind
        """The arguments of these calls, for messages."""
        self.parameters = parameters
        """The numbers of the inputs that belong to each argument, by position or keyword."""
        self.variants: list[RecordedVariant] = []
        self.root: RecordedVariant | None = None
        self.recent: RecordedVariant | None = None
        """The variant that was valid last; it is tried first."""

    def ask(self, query: Query, inputs: Sequence[Any]) -> Any:
        """Return the answer of the variant that is valid at a point; a `FailedWalk` if none is."""
        answer = self.find_valid(query, inputs)
        if type(answer) is not FailedWalk and self.recent is not None:
            self.recent.count_hits()
        return answer

    def find_valid(self, query: Query, inputs: Sequence[Any]) -> Any:
        """Make the variant that is valid at a point the recent one, and return its answer; a `FailedWalk` if none is.

        The recent variant may be another one before: calls that the extension module answers do not change it.
        """
        recent = self.recent
        if recent is not None:
            answer = query(recent, inputs)
            if type(answer) is not Flip:
                return answer
        last = None
        check = None
        variant = self.root
        while variant is not None:
            last = variant
            answer = query(variant, inputs)
            if type(answer) is not Flip:
                self.recent = variant
                return answer
            check = answer.check
            variant = variant.siblings.get(check)
        return FailedWalk(last, check)

    def has_grown(self, walk: FailedWalk) -> bool:
        """Return whether another thread has added a variant where a walk ended."""
        return self.root is not None if walk.last is None else walk.check in walk.last.siblings

    def add(self, variant: RecordedVariant, walk: FailedWalk) -> None:
        """Add a variant where a walk ended; if another thread was faster, the variant that was there is replaced."""
        self.variants.append(variant)
        self.recent = variant
        if walk.last is None:
            self.root = variant
        else:
            walk.last.siblings[walk.check] = variant


class FailedWalk(NamedTuple):
    """Where a walk through a tree ended without a valid variant."""

    last: RecordedVariant | None
    check: int | None


NO_WALK = FailedWalk(None, None)
"""The walk of a call for which there is no tree."""
MIN_ARRAY_HITS = 2
"""A recording on arrays has answered so many calls before a function is made that answers the next ones."""


class QuickEntry:
    """A kind of calls whose numbers are taken out of the arguments by a function made for them."""

    __slots__ = ("arguments", "gradient", "parse", "restore", "spread", "tree")

    def __init__(
        self,
        tree: VariantTree,
        parse: Callable[..., tuple[Any, ...] | None],
        restore: Callable[[Any], Any] | None,
        spread: type | None,
        arguments: ArgumentDescription | None,
        gradient: Any,
    ) -> None:
        self.tree = tree
        self.arguments = arguments
        """The structure of the arguments for the extension module; None if it does not read it."""
        self.gradient = gradient
        """The structure of the gradient for the extension module; None if there is none."""
        self.spread = spread
        """Where the numbers are if native code can take them at once: `float` if the arguments are the numbers, else
        the type of the only argument, which contains them; None if they have to be parsed."""
        self.parse = parse
        self.restore = restore
        """Puts the gradient into the structure of the arguments; None if there is no gradient by them."""

    def make_native_entry(self, *, gradient: bool) -> Any:
        """Return the entry for the extension module; None if it cannot answer such calls, or not yet."""
        tree = self.tree
        if self.arguments is None or tree.root is None or tree.recent is None or (gradient and self.gradient is None):
            return None
        root = tree.root.find_program(gradient=gradient)
        recent = tree.recent.find_program(gradient=gradient)
        if root is None:
            return None
        for variant in tuple(tree.variants):
            program = variant.find_program(gradient=gradient)
            for check, sibling in tuple(variant.siblings.items()) if program is not None else ():
                other = sibling.find_program(gradient=gradient)
                if other is not None:
                    program.siblings[check] = other
        described = self.gradient if gradient else None
        return RECORDER.ReplayEntry(self.arguments.arguments, described, self.arguments.count, root, recent or root)


class RecordingBudget:
    """Decides whether another recording pays, from what recordings cost so far and what replays saved.

    >>> budget = RecordingBudget()
    >>> budget.spent, budget.plain_seconds = 0.08, 1e-4
    >>> budget.allows(10, 100, 0, checks=1), budget.allows(10, 10_000, 0, checks=1)
    (False, True)
    """

    def __init__(self) -> None:
        self.spent = 0.0
        """Seconds that recordings took."""
        self.plain_seconds: float | None = None
        """Seconds that a call of the function itself takes; None if it was not measured."""
        self.skips = 0
        """The number of calls that run the function at once."""
        self.misses = 0
        """The number of calls without a valid recording until it is asked again whether recordings pay."""
        self._patience = 1
        self._hits = 0
        self._timed_calls = 0

    def allows(self, records: int, hits: int, plain_calls: int, *, checks: int) -> bool:
        """Return whether the next recording is paid for by what replays have saved.

        `plain_calls` is the number of calls that ran the function itself because no recording was valid. `checks` is
        the number of certificates of the recording that was tried last: the more branches there are, the less one more
        recording helps.
        """
        if records < (FREE_RECORDINGS if checks <= MAX_FREE_CHECKS else 1):
            return True
        if self.plain_seconds is None:
            return False
        saved = (hits + PLAIN_SHARE * plain_calls) * self.plain_seconds
        return NEEDED_GAIN * self.spent * (records + 1) / records <= saved

    def time_plain_call(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Make a call that runs the function itself, and note how long it takes; after some calls this is known."""
        self._timed_calls += 1
        # Reading the processor time may take longer than the call.
        if self._timed_calls > MAX_TIMED_CALLS and self._timed_calls % MAX_TIMED_CALLS:
            return call(*arguments)
        began = time.thread_time()
        result = call(*arguments)
        seconds = time.thread_time() - began
        # Interruptions make a call look long, and recordings look profitable; nothing makes it look short.
        self.plain_seconds = seconds if self.plain_seconds is None else min(1.05 * self.plain_seconds, seconds)
        return result

    def note_misses(self, hits: int, max_misses: int) -> None:
        """Choose how many calls to skip after each miss, by how often recordings were valid since the last time.

        At most `max_misses` misses in a row need not be noted.
        """
        pays = (hits - self._hits) * MISSES_PER_HIT >= self.misses + 1
        self._patience = max(self._patience // 4, 1) if pays else min(2 * self._patience, MAX_SKIPPED_CALLS)
        self._hits = hits
        self.skips = self._patience - 1
        self.misses = min(2 * self.misses + 1, max_misses)


NUMPY_ERROR_SETTINGS = frozenset(["errstate", "seterr", "seterrcall"])
"""Functions after which NumPy may not tell where a number becomes infinite or NaN."""


class VariantCache:
    """The recordings that were made with one state of everything that the function reads from outside."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self._f = f
        self.trees: dict[Any, VariantTree] = {}
        self.quick: dict[int, list[QuickEntry]] = {}
        """The kinds of calls by the number of arguments, for calls without keywords; the one used last comes first."""
        self.array_calls: dict[tuple[bool, tuple[Any, ...]], ArrayCallReplay] = {}
        """How the last calls on arrays were replayed, by whether they asked for gradients and by their types."""
        self.direct: str | None = None
        """Why the function itself must run; None if it can be replayed."""
        self.label_kinds: dict[Any, bool] = {}
        """The kinds of calls with arrays of whole numbers, and whether those can be inputs of a recording."""
        self.long_calls: set[Any] = set()
        """The kinds of calls that turned out to be too long to be recorded at once."""
        self.batches: dict[bool, Any] = {}
        """What answers batches like the last one, by whether it asked for gradients; None if nothing does."""
        self._failures: dict[Any, tuple[str, int, int]] = {}
        """The kinds of calls that could not be recorded: why, how often, and how many calls are not recorded now."""
        self.failed_replays: Counter[Any] = Counter()
        """How many recordings of each kind of calls did not give the recorded result."""
        code = getattr(f, "__code__", None)
        self.is_postponed = isinstance(code, CodeType) and len(code.co_code) > MAX_FIRST_CODE_BYTES
        """Whether the first gradient is computed before the code is read."""

    def note_failure(self, key: Any, reason: str) -> None:
        """Note that calls of a kind could not be recorded: the more often, the more calls run the function at once."""
        _, failures, _ = self._failures.get(key, ("", 0, 0))
        self._failures[key] = reason, failures + 1, min(2**failures, MAX_SKIPPED_CALLS)

    def skip_recording(self, key: Any) -> str | None:
        """Return why a call is not recorded; None if it may be."""
        reason, failures, skips = self._failures.get(key, ("", 0, 0))
        if not skips:
            return None
        self._failures[key] = reason, failures, skips - 1
        return reason

    @functools.cached_property
    def outside_state(self) -> OutsideState:
        """What the function reads besides its arguments, inspected on the first call, not at the definition."""
        return OutsideState(self._f)


class CompiledFunction(ComparesItself, Generic[P, Result]):
    """A function that is replayed where possible; `wg.compile` returns it.

    It is called as the function is. In the signatures of its methods, `args` are the arguments of a call.
    """

    # With the extension module, calls and `value_and_grad` are objects of C (`QuickCall`) that answer what they can,
    # and call the methods of this class for everything else.

    __slots__ = ("_quick_value",)

    def __init__(
        self,
        f: Callable[P, Result],
        argnums: Argnums | None,
        limit: int | None,
        argnames: Argnames | None = None,
        assume: str | None = None,
    ) -> None:
        functools.update_wrapper(self, f, updated=())
        vars(self).setdefault("__annotations__", {})
        self._f = f
        self._argnums = argnums
        self._argnames = argnames
        self._limit = limit
        self._assume = assume
        self.device = "cpu"
        """Where batches run: on the processor, or on a GPU such as "cuda"."""
        self._is_derivative = False
        # Reentrant, because garbage collection may call anything while the lock is held, this function too.
        self._lock = threading.RLock()
        self._differentiated: Callable[..., Any] = make_value_and_grad(f, argnums, argnames)
        self._quick_calls: dict[bool, Any] = {}
        """The objects that answer calls in C, for values and for gradients; none without the extension module."""
        self._quick_batches: dict[bool, Any] = {}
        """The same for batches, once there was one."""
        if HAS_QUICK_CALLS:
            slow_value = MethodType(call_slowly, self)
            slow_gradient = MethodType(CompiledFunction.value_and_grad, self)
            self._quick_value = RECORDER.QuickCall(self, slow_value, None)
            self.__dict__["value_and_grad"] = RECORDER.QuickCall(self, slow_gradient, self._differentiated)
            self._quick_calls = {False: self._quick_value, True: self.__dict__["value_and_grad"]}
        self.clear()

    def clear(self) -> None:
        """Forget all recordings and counts; what the function reads from outside is inspected again.

        >>> square = compile(lambda x: x * x)
        >>> square(3.0), square.clear(), square.info.calls
        (9.0, None, 0)
        """
        self._fallbacks: Counter[str] = Counter()
        self._calls = 0
        self._records = 0
        self._warned = False
        self._warned_of_interpreter = False
        self._needs_values = False
        """Whether the function uses methods that only recorded numbers have."""
        self._changes = 0
        """How often a recording changed outside state and had to be undone."""
        for name in getattr(self, "_derived", ()):
            self.__dict__.pop(name, None)
        self._derived: dict[str, CompiledFunction[..., Any]] = {}
        """The compiled Jacobian and Hessian."""
        self._hessian = find_hessian(self._f)
        """What computes a long Hessian by directions, if this is the function of one."""
        self._budget = RecordingBudget()
        self._dropped_hits = 0
        """How often recordings were replayed that were dropped after a change of outside state."""
        self._replace_cache()
        for quick in self._list_quick_calls():
            quick.hits = quick.skips = quick.skipped = quick.plain_misses = 0
            quick.is_paused = False

    def _list_quick_calls(self) -> list[Any]:
        """Return the objects that answer calls and batches in C."""
        return [*self._quick_calls.values(), *self._quick_batches.values()]

    def _replace_cache(self) -> None:
        """Drop all recordings."""
        # Recordings that other threads still add to the old object are dropped with it.
        self._cache = VariantCache(self._f)
        for quick in self._list_quick_calls():
            quick.set_entries((), None)

    def _refresh_quick_calls(self) -> None:
        """Let the extension module answer the calls that it can answer with what has been compiled."""
        cache = self._cache
        entries = [entry for kinds in tuple(cache.quick.values()) for entry in tuple(kinds)]
        for gradient, quick in self._quick_calls.items():
            made = [entry.make_native_entry(gradient=gradient) for entry in entries]
            usable = tuple([entry for entry in made if entry is not None])
            watches = cache.outside_state.describe_watches() if usable else None
            if cache is self._cache:
                quick.set_entries(usable, watches)

    def _begin_to_skip(self, *, is_quick: bool) -> None:
        """Let the next calls run the function itself: gradients in C where possible, everything else in Python."""
        if is_quick:
            quick = self._quick_calls[True]
            quick.skips = quick.skips_per_miss = self._budget.skips
            quick.plain_misses = self._budget.misses
            self._budget.skips = 0
        self._pause_quick_calls()

    def _pause_quick_calls(self) -> None:
        """Let all calls go to Python as long as recordings are skipped there."""
        for quick in self._quick_calls.values():
            quick.is_paused = self._budget.skips > 0

    @property
    def __code__(self) -> CodeType:
        """The code of the function, by which joblib notices that it was edited."""
        code: CodeType = self._f.__code__
        return code

    @overload
    def __get__(self, thing: None, owner: type) -> CompiledFunction[P, Result]: ...
    @overload
    def __get__(self, thing: object, owner: type | None = None) -> Callable[..., Result]: ...
    def __get__(self, thing: object, owner: type | None = None) -> Callable[..., Result]:
        return self if thing is None else MethodType(self, thing)

    def __repr__(self) -> str:
        return f"wg.compile({function_name(self._f)})"

    def __reduce__(self) -> Any:
        # Native code is valid in one process only: a copy is compiled again.
        options: dict[str, Any] = {"argnums": self._argnums, "argnames": self._argnames}
        options |= {"limit": self._limit, "assume": self._assume, "device": self.device}
        return reduce_to_call(self, compile, options)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        """Return what the function returns."""
        self._calls += 1
        if self._budget.skips:
            skipped: Result = self._skip_recordings(self._f, args, kwargs)
            return skipped
        if not kwargs:
            result = self._replay_quickly(args, RecordedVariant.replay_value)
            if type(result) is not FailedWalk:
                return result  # type: ignore[no-any-return]
        answer: Result = self._answer_call(args, kwargs, self._f, RecordedVariant.replay_value)
        return answer

    def value_and_grad(self, /, *args: P.args, **kwargs: P.kwargs) -> tuple[Result, Any]:
        """Return the value and its gradient by the arguments that were selected, as `wg.value_and_grad(f)` does.

        >>> compile(lambda x, y: x * x * y, argnums=(0, 1)).value_and_grad(2.0, 3.0)
        (12.0, (12.0, 4.0))
        """
        self._calls += 1
        if self._budget.skips:
            skipped: tuple[Result, Any] = self._skip_recordings(self._differentiated, args, kwargs)
            return skipped
        if not kwargs:
            result = self._replay_quickly(args, _ask_gradient)
            if type(result) is not FailedWalk:
                return result  # type: ignore[no-any-return]
        query = self._make_gradient_query(args, kwargs)
        answer: tuple[Result, Any] = self._answer_call(args, kwargs, self._differentiated, query)
        return answer

    def _replay_quickly(self, args: tuple[Any, ...], query: Query) -> Any:
        """Return the answer to a call of a known kind, a `FailedWalk` to any other."""
        cache = self._cache
        asks_gradient = query is _ask_gradient
        if cache.array_calls:
            call = cache.array_calls.get((asks_gradient, tuple(map(type, args))))
            if call is not None:
                return NO_WALK if is_disturbed(cache) else call.replay(args)
            spread = spread_arguments(args)
            call = None if spread is None else cache.array_calls.get((asks_gradient, spread.key))
            if spread is not None and call is not None:
                return NO_WALK if is_disturbed(cache) else call.replay(spread.leaves)
        entries = cache.quick.get(len(args))
        if entries is None or is_disturbed(cache):
            return NO_WALK
        entry = entries[0]
        recent = entry.tree.recent
        if entry.spread is not None and recent is not None:
            builtin = recent.quick_gradient if asks_gradient else recent.quick
            if asks_gradient and entry.restore is None:
                return NO_WALK
            if builtin is not None and (entry.spread is float or type(args[0]) is entry.spread):
                numbers = builtin(*(args if entry.spread is float else args[0]))
                if type(numbers) is float or type(numbers) is tuple:
                    recent.count_hits()
                    return entry.restore(numbers) if asks_gradient else numbers  # type: ignore[misc]
        return self._parse_and_ask(cache, entries, args, query)

    def _parse_and_ask(
        self, cache: VariantCache, entries: list[QuickEntry], args: tuple[Any, ...], query: Query
    ) -> Any:
        for k, entry in enumerate(entries):
            inputs = entry.parse(*args)
            if inputs is None:
                continue
            if k:
                # In one step, since other threads read the list.
                entries[:] = [entry, *entries[:k], *entries[k + 1 :]]
            if query is not _ask_gradient:
                answer = entry.tree.ask(query, inputs)
                self._note_compiled(cache, entry.tree.recent, args, gradient=False)
                return answer
            if entry.restore is None:
                return NO_WALK
            numbers = entry.tree.ask(query, inputs)
            if type(numbers) is FailedWalk:
                return numbers
            self._note_compiled(cache, entry.tree.recent, args, gradient=True)
            return entry.restore(numbers)
        return NO_WALK

    def _note_compiled(
        self, cache: VariantCache, variant: RecordedVariant | None, args: tuple[Any, ...], *, gradient: bool
    ) -> None:
        """Hand the values or the gradient of a variant over to native code that answers calls, once it is compiled."""
        if variant is None:
            return
        self._note_array_call(cache, variant, args, gradient=gradient)
        is_new = bool(self._quick_calls) and gradient not in variant.programs
        if is_new and variant.find_program(gradient=gradient) is not None:
            self._refresh_quick_calls()

    def _skip_recordings(self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function itself, without looking for a recording."""
        self._budget.skips = max(self._budget.skips - 1, 0)
        if not self._budget.skips:
            self._pause_quick_calls()
        self._fallbacks[UNPROFITABLE] += 1
        return self._call_plainly(f, args, kwargs)

    def _call_plainly(self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function itself in place of a recording; the result is what a recording would give.

        Python raises an error, or has a complex number, where recorded numbers become infinite or NaN. So where that
        may have happened the function is called with recorded numbers, and also if it uses methods that only those
        have.
        """
        if f is not self._f:
            return f(*args, **kwargs)
        reads = self._cache.outside_state.reads
        differs = reads.raises_powers or reads.catches_errors
        if self._needs_values or (differs and self._leaves_real_numbers(args, kwargs)):
            return self._call_with_values(args, kwargs)
        try:
            return f(*args, **kwargs)
        except AttributeError:
            self._needs_values = True
            return self._call_with_values(args, kwargs)
        except (ArithmeticError, TypeError, ValueError):
            try:
                return self._call_with_values(args, kwargs)
            except Exception:
                # Not with this error as its cause: it is one of the library.
                pass
            raise

    def _leaves_real_numbers(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether a call may have an operation that raises or is complex in Python, where NumPy's is inf or NaN.

        The function is called with numbers of NumPy, which take a few times as long as Python's; recorded ones take a
        thousand times as long.
        """
        state = self._cache.outside_state
        if state.prints or not NUMPY_ERROR_SETTINGS.isdisjoint(state.reads.names):
            return True
        events: list[object] = []
        leaves, tree = flatten((args, kwargs))
        numbers = [np.float64(leaf) if type(leaf) is float else leaf for leaf in leaves]
        like_args, like_kwargs = unflatten(tree, numbers)
        with np.errstate(all="call", under="ignore", call=lambda *event: events.append(event)):
            try:
                self._f(*like_args, **like_kwargs)
            except Exception:
                # The function itself raises it too, or else this says nothing about it.
                return True
        return bool(events)

    def _call_with_values(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function with recorded numbers, and return its result as plain numbers."""
        recording = certify(self._f, args, kwargs, keep=False)
        return unflatten(recording.tree, recording.results)

    def jacobian(self, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Return what `wg.jacobian(f)` returns: all derivatives of the results by the selected arguments.

        >>> compile(lambda p: [p[0] * p[1], p[0]]).jacobian([2.0, 3.0])
        [[3.0, 2.0], [1.0, 0.0]]
        """
        return self._derive("jacobian", jacobian)(*args, **kwargs)

    def value_and_jacobian(self, /, *args: P.args, **kwargs: P.kwargs) -> tuple[Result, Any]:
        """Return the results and all their derivatives by the selected arguments; both are computed in one replay.

        >>> compile(lambda p: [p[0] * p[1], p[0]]).value_and_jacobian([2.0, 3.0])
        ([6.0, 2.0], [[3.0, 2.0], [1.0, 0.0]])
        """
        pair: tuple[Result, Any] = self._derive("value_and_jacobian", make_value_and_jacobian)(*args, **kwargs)
        return pair

    def hessian(self, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Return what `wg.hessian(f)` returns: the second derivatives by the selected arguments.

        >>> compile(lambda x, y: x * x * y, argnums=(0, 1)).hessian(2.0, 3.0)
        ((6.0, 4.0), (4.0, 0.0))
        """
        return self._derive("hessian", hessian)(*args, **kwargs)

    def compile_transform(
        self, transform: Callable[[Callable[P, Result]], Callable[..., Any]], *, key: str | None = None
    ) -> CompiledFunction[..., Any]:
        """Return a function that is made from this one, such as its gradient, compiled with recordings of its own.

        With a key it is made once, until `clear`, and found again by later calls with that key.

        >>> compile(lambda x: x**3).compile_transform(jacobian)(2.0)
        12.0
        """
        with self._lock:
            derived = self._derived.get(key) if key is not None else None
            if derived is None:
                derived = CompiledFunction(transform(self._f), None, self._limit)
                if key is not None:
                    self._derived[key] = derived
        return derived

    def _derive(self, name: str, transform: Callable[..., Any]) -> CompiledFunction[..., Any]:
        """Return a transform of the function, compiled; it has recordings of its own."""
        derived = self._derived.get(name)
        if derived is None:
            transformed = transform(self._f, self._argnums, argnames=self._argnames)
            # The promise is about values and their slopes, not about slopes of slopes.
            assume = None if name == "hessian" else self._assume
            derived = self._derived[name] = CompiledFunction(transformed, None, self._limit, None, assume)
            derived._is_derivative = True
            if HAS_QUICK_CALLS:
                # Later calls find the function in C at once.
                self.__dict__[name] = derived._quick_value
        return derived

    def batch(
        self,
        /,
        *args: Any,
        in_axes: AxesSpec = 0,
        threads: int | None = None,
        out: Any = None,
        executor: object = None,
        chunk_size: int | None = None,
        progress: bool = False,
        reduce: str | None = None,
        **keywords: Never,
    ) -> Any:
        """Return the function's results at many points, which are along the first axis of the arguments.

        A vector stands for a number of a call, and a table for an array. Plain numbers are the same at all points, and
        so is what `in_axes` gives no axis; it is written as for `wg.vmap`. A function of several results returns them
        in its structure, with a vector in place of each number and a table in place of each array, all of float64.
        With `out`, of the same structure, the results are written into its arrays. With `executor`, which is anything
        with the interface of `concurrent.futures`, a client of `dask.distributed` or the module `ray`, its workers run
        the recordings on chunks of the points; rows that no recording answers, and recordings on large arrays, are
        computed here. Arrays without points give arrays without points in the structure of an earlier result, or else
        of a call with 1.0 for each number that differs by point. With `reduce="sum"` or `"mean"`, that of all points
        is returned in place of each vector or table.

        >>> def huber(x, width):
        ...     return 0.5 * x * x if abs(x) < width else width * (abs(x) - 0.5 * width)
        >>> compile(huber).batch(np.array([0.5, 3.0, -2.0]), 1.0)
        array([0.125, 2.5  , 1.5  ])
        >>> compile(lambda x: {"sum": x + 1.0, "product": 2.0 * x}).batch(np.array([0.5, 3.0]))
        {'sum': array([1.5, 4. ]), 'product': array([1., 6.])}
        >>> compile(huber).batch(np.array([0.5, 3.0, -2.0]), 1.0, reduce="mean")
        1.375
        >>> risk = compile(lambda weights, covariance: weights @ covariance @ weights)
        >>> risk.batch(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[4.0, 1.0], [1.0, 2.0]]), in_axes=(0, None))
        array([4., 2.])
        """
        reduce_columns = choose_reduction(reduce, out)
        is_usual = is_usual_batch(in_axes, out, executor, chunk_size, progress=progress)
        repeated = self._begin_batch(args, keywords, threads, is_usual=is_usual, gradient=False)
        if repeated is not None:
            return reduce_columns(repeated)
        table = PointTable(self._f, args, in_axes)
        results = ResultStructure(self)
        outputs, tree = (None, None) if out is None else flatten(out)
        if not table.count:
            shapes, results.tree = self._find_result_structure(table.sample_arguments())
            return reduce_columns(results.build_like(make_columns(self, table, shapes, None, outputs).values, tree))
        with open_workers(executor, chunk_size, progress) as workers, table.explain_lists():
            answer = answer_batch(
                self, table, results.ask, wanted=None, threads=threads, outputs=outputs, workers=workers
            )
        structure = results.tree
        assert structure is not None
        if is_usual:
            form = 0 if structure.kind is LEAF else None
            entry = repeat_batch(args, answer, self.device, lambda values, _: unflatten(structure, values), form)
            self._note_batch(entry, gradient=False)
        return reduce_columns(results.build_like(answer.points.values, tree))

    def _begin_batch(
        self,
        args: tuple[Any, ...],
        keywords: Mapping[str, object],
        threads: int | None,
        *,
        is_usual: bool,
        gradient: bool,
    ) -> Any:
        """Return what a batch without options returns that is like the last one; None for any other."""
        refuse_keywords(self._f, keywords)
        check_threads(threads)
        cache = self._cache
        repeated = cache.batches.get(gradient)
        if not is_usual or repeated is None or is_disturbed(cache):
            return None
        result = repeated.answer(args, threads)
        self._calls += result is not None
        return result

    def _note_batch(self, entry: Any, *, gradient: bool) -> None:
        """Let the extension module answer batches like the last one, if there is an entry for them."""
        cache = self._cache
        cache.batches[gradient] = entry
        if not HAS_QUICK_CALLS or (entry is None and gradient not in self._quick_batches):
            return
        if gradient not in self._quick_batches:
            method = CompiledFunction.batch_value_and_grad if gradient else CompiledFunction.batch
            quick = RECORDER.QuickCall(self, MethodType(method, self), None)
            self.__dict__[method.__name__] = self._quick_batches[gradient] = quick
        watches = None if entry is None else cache.outside_state.describe_watches()
        if cache is self._cache:
            self._quick_batches[gradient].set_entries(() if entry is None else (entry,), watches)

    def _find_result_structure(self, args: tuple[Any, ...]) -> tuple[list[tuple[int, ...]], ContainerTree]:
        """Return the shapes and structure of the results of such a call, from a recording if there is one."""
        for entry in () if is_disturbed(self._cache) else self._cache.quick.get(len(args), ()):
            if entry.tree.root is not None and entry.parse(*args) is not None:
                return list_result_shapes(entry.tree.root.recording), entry.tree.root.recording.tree
        try:
            with np.errstate(all="ignore"):
                leaves, tree = flatten(self._f(*args))  # type: ignore[call-arg]
        except Exception as error:
            raise OperandError(
                f"a batch without rows does not tell the structure of the results, and a call with {args} failed "
                f"({type(error).__name__}: {error}): call the function once before"
            ) from error
        for leaf in leaves:
            require_real(leaf)
        return [np.shape(leaf) for leaf in leaves], tree

    def batch_jacobian(
        self,
        /,
        *args: Any,
        in_axes: AxesSpec = 0,
        threads: int | None = None,
        out: Any = None,
        executor: object = None,
        chunk_size: int | None = None,
        progress: bool = False,
        reduce: str | None = None,
        **keywords: Never,
    ) -> Any:
        """Return what `jacobian` returns at many points, with a vector in place of each number, one entry per point.

        Derivatives are by the selected arguments (`argnums`). The other settings are those of `batch`.

        >>> turn = compile(lambda p: [p[0] * p[1], p[0] - p[1]])
        >>> turn.batch_jacobian([np.array([2.0, 3.0]), np.array([5.0, 7.0])])
        [[array([5., 7.]), array([2., 3.])], [array([1., 1.]), array([-1., -1.])]]
        """
        refuse_keywords(self._f, keywords)
        derivatives = self._derive("jacobian", jacobian)
        return derivatives.batch(
            *args,
            in_axes=in_axes,
            threads=threads,
            out=out,
            executor=executor,
            chunk_size=chunk_size,
            progress=progress,
            reduce=reduce,
        )

    def batch_hessian(
        self,
        /,
        *args: Any,
        in_axes: AxesSpec = 0,
        threads: int | None = None,
        out: Any = None,
        executor: object = None,
        chunk_size: int | None = None,
        progress: bool = False,
        reduce: str | None = None,
        **keywords: Never,
    ) -> Any:
        """Return what `hessian` returns at many points, with a vector in place of each number, one entry per point.

        Derivatives are by the selected arguments (`argnums`). The other settings are those of `batch`.

        >>> compile(lambda x, y: x * x * y, argnums=(0, 1)).batch_hessian(np.array([2.0, 3.0]), 5.0)[0]
        (array([10., 10.]), array([4., 6.]))
        """
        refuse_keywords(self._f, keywords)
        return self._derive("hessian", hessian).batch(
            *args,
            in_axes=in_axes,
            threads=threads,
            out=out,
            executor=executor,
            chunk_size=chunk_size,
            progress=progress,
            reduce=reduce,
        )

    def batch_value_and_grad(
        self,
        /,
        *args: Any,
        in_axes: AxesSpec = 0,
        threads: int | None = None,
        out: tuple[NDArray[np.float64], Any] | None = None,
        executor: object = None,
        chunk_size: int | None = None,
        progress: bool = False,
        reduce: str | None = None,
        **keywords: Never,
    ) -> tuple[Any, Any]:
        """Return the results at many points, and the gradients there by the selected arguments, as vectors.

        With `out`, a pair of the same structure as what is returned, everything is written into its vectors. The other
        options are those of `batch`.

        >>> def huber(x, width):
        ...     return 0.5 * x * x if abs(x) < width else width * (abs(x) - 0.5 * width)
        >>> compile(huber).batch_value_and_grad(np.array([0.5, 3.0, -2.0]), 1.0)
        (array([0.125, 2.5  , 1.5  ]), array([ 0.5,  1. , -1. ]))
        >>> compile(huber).batch_value_and_grad(np.array([0.5, 3.0, -2.0]), 1.0, reduce="sum")
        (4.125, 0.5)
        """
        reduce_columns = choose_reduction(reduce, out)
        is_usual = is_usual_batch(in_axes, out, executor, chunk_size, progress=progress)
        repeated = self._begin_batch(args, keywords, threads, is_usual=is_usual, gradient=True)
        if repeated is not None:
            return reduce_columns(repeated)  # type: ignore[no-any-return]
        table = PointTable(self._f, args, in_axes)
        places, single = resolve_arguments(self._f, args, {}, self._argnums, self._argnames)
        named = list(join_arguments(args, {}))
        positions = [named.index(place) for place in places]
        run: Callable[..., Any] = self.value_and_grad

        def ask(row: tuple[Any, ...]) -> list[Any]:
            value, grads = run(*row)
            return [value, *flatten(grads)[0]]

        wanted = [number for position in positions for number in table.number_inputs(position)]
        outputs = None
        if out is not None:
            places_like = [table.build_argument(iter(wanted), position) for position in positions]
            tree = flatten(places_like[0] if single else tuple(places_like))[1]
            outputs = [out[0], *match_leaves(tree, out[1], "the gradients of out=")]
        with open_workers(executor, chunk_size, progress) as workers, table.explain_lists():
            answer = answer_batch(
                self, table, ask, wanted=tuple(wanted), threads=threads, outputs=outputs, workers=workers
            )
        if is_usual:
            entry = repeat_batch(
                args,
                answer,
                self.device,
                lambda values, grads: (values[0], grads[0] if single else tuple(grads)),
                (0, 1 if single else tuple(range(1, 1 + len(wanted)))),
            )
            self._note_batch(entry, gradient=True)
        columns = iter(answer.points.grads or ())
        grads = [table.build_argument(columns, position) for position in positions]
        both = answer.points.values[0], grads[0] if single else tuple(grads)
        return reduce_columns(both)  # type: ignore[no-any-return]

    def find_variant(self, args: Sequence[Any], *, gradient: bool) -> RecordedVariant | None:
        """Return the recording that answers a call, or its gradient; None if there is none.

        Single calls may skip recordings for a while; a batch does not, since a recording answers many rows.
        """
        cache = self._cache
        if is_disturbed(cache):
            return None
        query = _ask_gradient if gradient else RecordedVariant.replay_value
        tree, inputs = self._find_tree(cache, args)
        if tree is None or type(tree.find_valid(query, inputs)) is FailedWalk:
            return None
        return tree.recent

    def _find_tree(self, cache: VariantCache, args: Sequence[Any]) -> tuple[VariantTree | None, Sequence[Any]]:
        """Return the recordings for calls of a kind, and the inputs of one; None if there are none."""
        for entry in cache.quick.get(len(args), ()):
            inputs = entry.parse(*args)
            if inputs is not None:
                return entry.tree, inputs
        # Arguments with many numbers, or with arrays of whole numbers, have no parser.
        call = signature_of(tuple(args), {})
        if isinstance(call, str):
            return None, ()
        return cache.trees.get((chosen_convention(), call.key)), call.inputs

    def to_c(
        self,
        function: str = "value_and_grad",
        *,
        name: str | None = None,
        argnums: Argnums | None = None,
        argnames: Argnames | None = None,
        real: str | None = None,
        header: bool = False,
        test: Sequence[Any] | None = None,
        assume: str | None = None,
    ) -> str:
        """Return C99 with all branches recorded so far: NAME(x, grad), and NAME_status(x), 0 where one is valid.

        `function` is `value`, `value_and_grad`, `jacobian` or `hessian`. The numbers of `x` are those of all arguments,
        in order; the results are those of the function, in order. Derivatives are by the arguments that `argnums` and
        `argnames` select, in their order in `x`; without them by all. With `value_and_jacobian`, results are followed
        by their derivatives by the arguments that were selected in `wg.compile`, and the branches are those in which
        the method of that name was called. Where the function takes a branch that was not recorded, results are NaN,
        and the status is the number of that branch in the list at the top. `real`, `header` and `assume` are those of
        `Circuit.to_c`; `assume` is that of `wg.compile` if none is given. With the arguments of a call as `test`, the
        code has a self-test at that point.

        >>> f = compile(lambda x: x * x if x > 0.0 else -x)
        >>> f(2.0), "double f(const double *" in f.to_c(name="f")
        (4.0, True)
        >>> turn = compile(lambda x, y: [x * y, x - y])
        >>> turn(1.0, 2.0), "void jacobian(const double *inputs, double *jac)" in turn.to_c("jacobian")
        ([2.0, -1.0], True)
        >>> turn.value_and_jacobian(1.0, 2.0), "void value_and_jacobian(" in turn.to_c("value_and_jacobian")
        (([2.0, -1.0], [2.0, 1.0]), True)
        """
        is_finite = codegen.check_assumption(self._assume if assume is None else assume)
        selected = SelectedArguments(argnums, argnames)
        return self._write_branches("c", function, name, selected, test, finite=is_finite, real=real, header=header)

    def to_js(
        self,
        function: str = "value_and_grad",
        *,
        name: str | None = None,
        argnums: Argnums | None = None,
        argnames: Argnames | None = None,
    ) -> str:
        """Return JavaScript with all branches recorded so far: NAME(inputs), and NAMEStatus(inputs).

        `function`, `argnums` and `argnames` are those of `to_c`.

        >>> f = compile(lambda x: x * x if x > 0.0 else -x)
        >>> f(2.0), "export function f(inputs)" in f.to_js(name="f")
        (4.0, True)
        """
        return self._write_branches("js", function, name, SelectedArguments(argnums, argnames))

    def to_python(
        self,
        function: str = "value_and_grad",
        *,
        name: str | None = None,
        argnums: Argnums | None = None,
        argnames: Argnames | None = None,
    ) -> str:
        """Return plain Python with all branches recorded so far: NAME(...), and NAME_status(...).

        `function`, `argnums` and `argnames` are those of `to_c`.

        >>> f = compile(lambda x: x * x if x > 0.0 else -x)
        >>> namespace = {}
        >>> f(2.0), exec(f.to_python(name="f"), namespace)
        (4.0, None)
        >>> namespace["f"](3.0)
        (9.0, {'x': 6.0})
        """
        return self._write_branches("python", function, name, SelectedArguments(argnums, argnames))

    def count_ops(
        self,
        function: str = "value_and_grad",
        *,
        argnums: Argnums | None = None,
        argnames: Argnames | None = None,
    ) -> OpCounts:
        """Count the operations in the C code of the recording that has most; see `Circuit.count_ops`.

        The arguments are those of `to_c`.

        >>> arc = compile(lambda x: np.sqrt(1.0 - x * x))
        >>> arc(0.5), arc.count_ops("value")
        (0.8660254037844386, 3 operations
          1 addition, 1 multiplication, 1 square root
          functions: sqrt 1)
        """
        selected = SelectedArguments(argnums, argnames)
        if function == "value_and_jacobian":
            return self._find_value_and_jacobian(selected).count_ops("value")
        recordings = self._list_written_recordings(function)
        wanted = self._find_wanted_inputs(selected)
        by_element = function in codegen.DIFFERENTIATED_BY_ELEMENT
        circuits = [recording.build_result_circuit(by_element=by_element) for recording in recordings]
        counts = [inspect.op_counts.count_ops(circuit, function, wanted=wanted) for circuit in circuits]
        return max(counts, key=lambda each: each.total)

    def _list_written_recordings(self, function: str) -> list[codegen.language_base.FunctionRecording]:
        """Return the recordings that code is written from; raise if it cannot be written."""
        called = function_name(self._f)
        root = self._find_written_tree().root
        assert root is not None
        recordings = list_recordings(root, called)
        check_written_results(recordings, function, called)
        return recordings

    def _write_branches(
        self,
        language: str,
        function: str,
        name: str | None,
        selected: SelectedArguments,
        test: Sequence[Any] | None = None,
        *,
        finite: bool = False,
        **options: object,
    ) -> str:
        if function == "value_and_jacobian":
            both = self._find_value_and_jacobian(selected)
            usual = codegen.usual_name(function, language) if name is None else name
            return both._write_branches(language, "value", usual, NONE_SELECTED, test, finite=finite, **options)
        recordings = self._list_written_recordings(function)
        wanted = self._find_wanted_inputs(selected)
        if test is not None:
            options["test"] = self._compute_self_test(recordings, function, test, wanted)
        return codegen.write_branches(recordings, language, function, name, finite=finite, wanted=wanted, **options)

    def _find_wanted_inputs(self, selected: SelectedArguments) -> list[int] | None:
        """Return the numbers of the inputs of the written recordings that belong to some arguments; None for all."""
        if selected == NONE_SELECTED:
            return None
        parameters = self._find_written_tree().parameters
        args = tuple([None for place in parameters if isinstance(place, int)])
        keywords = {place: None for place in parameters if isinstance(place, str)}
        places, _ = resolve_arguments(self._f, args, keywords, *selected)
        return [k for place in places for k in parameters[place]]

    def _find_value_and_jacobian(self, selected: SelectedArguments) -> CompiledFunction[..., Any]:
        """Return the function whose results are the values and all derivatives; raise if it was not called yet."""
        if selected != NONE_SELECTED:
            raise OperandError(
                "value_and_jacobian has the derivatives by the arguments that were selected when the function was "
                'compiled: write wg.compile(f, argnums=...), or to_c("jacobian", argnums=...)'
            )
        both = self._derive("value_and_jacobian", make_value_and_jacobian)
        if not both.info.calls:
            called = f"{function_name(self._f)}.value_and_jacobian"
            raise OperandError(
                f"{called} has recordings of its own, from which its code is written, and was not called yet: call it "
                "once for each branch that the code shall have"
            )
        return both

    def _find_written_tree(self) -> VariantTree:
        """Return the recordings of the only kind of calls; raise if there are none or several kinds."""
        with self._lock:
            trees = [tree for tree in self._cache.trees.values() if tree.root is not None]
            derived = [name for name, function in self._derived.items() if function.info.calls]
        called = function_name(self._f)
        # Numbers of Python and of NumPy are the same to code; the tree with most branches answers most calls.
        if len({NUMPY_NUMBER.sub("float", tree.kind) for tree in trees}) == 1:
            return max(trees, key=lambda tree: len(tree.variants))
        if trees:
            kinds = join_first_names([f"{called}({tree.kind})" for tree in trees])
            raise OperandError(
                f"code is written for one kind of arguments, and {called} was called with {len(trees)}: {kinds}; "
                "compile it anew, and call it with one kind alone, once for each branch that the code shall have"
            )
        advice = "call it or its value_and_grad, once for each branch that the code shall have"
        info = self.info
        if info.fallbacks:
            reason, _ = info.fallbacks[0]
            raise OperandError(
                f"{called} has no recording to write, because its calls ran the function itself: {reason}"
            )
        if self._hessian is not None and derived:
            raise OperandError(
                f"this Hessian of {called} was computed one direction at a time, because its circuit is large, so "
                "there is no recording of it to write: wg.compile(f, limit=1) records it as a whole"
            )
        if derived:
            raise OperandError(
                f"{called} itself was not called yet, only its {join_first_names(derived)}, which has recordings of "
                f"its own; code is written from those of {called}, derivatives too: {advice}"
            )
        raise OperandError(f"{called} was not called yet, so there is no recording of it to write: {advice}")

    def _compute_self_test(
        self,
        recordings: Sequence[codegen.language_base.FunctionRecording],
        function: str,
        args: Sequence[Any],
        wanted: Sequence[int] | None,
    ) -> tuple[list[float], list[float]]:
        """Return the numbers of a call, and the results to expect of the code there."""
        if not isinstance(args, list | tuple):
            raise OperandError(
                f"test is the arguments of a call, as a tuple, such as test=(1.0, 2.0); got {short_repr(args)}"
            )
        call = signature_of(tuple(args), {})
        if isinstance(call, str):
            raise OperandError(f"the self-test cannot be written: {call}")
        tree = self._find_written_tree()
        known = self._cache.trees.get((chosen_convention(), call.key)) is tree
        valid = known and type(tree.find_valid(RecordedVariant.replay_value, call.inputs)) is not FailedWalk
        if not valid or tree.recent is None:
            what = "takes a branch" if known else "is called with a kind of arguments"
            raise OperandError(
                f"{function_name(self._f)} {what} at test={short_repr(args)} that was not recorded: call it there first"
            )
        circuit = tree.recent.recording.circuit
        recording = next(recording for recording in recordings if recording.circuit is circuit)
        written = recording.build_result_circuit(by_element=function in codegen.DIFFERENTIATED_BY_ELEMENT)
        point = [np.float64(x) if type(x) is float else x for x in call.inputs]
        return interpreter.evaluate_function(written, function, point, wanted)

    @property
    def info(self) -> CompileInfo:
        """The recordings, how often each was replayed, where branches flipped, and why the function itself ran.

        >>> square = compile(lambda x: x * x)
        >>> square(3.0), square(4.0)
        (9.0, 16.0)
        >>> square.info
        <lambda>: 2 calls, 1 recording, 1 variant
          1 node, 0 certificates, stencils, 1 hit: first call
        """
        with self._lock:
            recorded = [variant for tree in self._cache.trees.values() for variant in tree.variants]
            variants = [variant.summarize() for variant in sorted(recorded, key=lambda variant: variant.number)]
            skipped = self._count_skipped()
            fallbacks = self._fallbacks + Counter({UNPROFITABLE: skipped} if skipped else {})
            where = explain_variation(recorded) if UNPROFITABLE in fallbacks else ""
            reasons = tuple(
                (f"{why}{where if why == UNPROFITABLE else ''}", count) for why, count in fallbacks.most_common()
            )
            transforms = list(self._derived.items())
        calls = self._calls + skipped + sum(quick.hits for quick in self._list_quick_calls())
        derived = tuple((name, function.info) for name, function in transforms)
        return CompileInfo(function_name(self._f), calls, self._records, tuple(variants), reasons, derived)

    def _answer_call(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        f: Callable[..., Any],
        query: Query,
    ) -> Any:
        """Return the result of a valid variant, otherwise that of the function itself."""
        reason = self._find_fallback_reason(args, kwargs, f)
        call: CallSignature | str = reason or signature_of(args, kwargs)
        if isinstance(call, str):
            if call == RANDOM_ARGUMENT:
                self._warn_of_interpreter(RUNS_ITSELF, call, 4)
            return self._call_function(f, args, kwargs, call)
        cache = self._cache
        call = choose_signature(cache, call, args, kwargs)
        key = (chosen_convention(), call.key)
        tree = cache.trees.get(key)
        answer = NO_WALK if tree is None else tree.ask(query, call.inputs)
        if type(answer) is not FailedWalk:
            if tree is not None and tree.recent is not None and not kwargs and not call.has_labels:
                self._note_array_call(cache, tree.recent, args, gradient=f is self._differentiated)
            return answer
        if self._hessian is not None and tree is None and not kwargs and self._limit is None:
            found = self._hessian.compute(args, key, self._compile_product)
            if found is not None:
                return found
        hits = self._dropped_hits + self._count_hits()
        checks = 0 if answer.last is None else len(answer.last.recording.checks)
        plain_calls = self._fallbacks[UNPROFITABLE] + self._count_skipped()
        if self._limit is None and not self._budget.allows(self._records, hits, plain_calls, checks=checks):
            is_quick = f is self._differentiated and bool(self._quick_calls)
            self._budget.note_misses(hits, MAX_PLAIN_MISSES if is_quick else 0)
            self._begin_to_skip(is_quick=is_quick)
            self._fallbacks[UNPROFITABLE] += 1
            return self._budget.time_plain_call(self._call_plainly, f, args, kwargs)
        return self._record_call(args, kwargs, f, query, key, call, cache, answer)

    def _compile_product(self, product: Callable[..., Any]) -> CompiledFunction[..., Any]:
        return self.compile_transform(lambda _: product, key="product with a direction")

    def _note_array_call(
        self, cache: VariantCache, variant: RecordedVariant, args: tuple[Any, ...], *, gradient: bool
    ) -> None:
        """Let the next calls like this one, on arrays and floats, be replayed by one function if that is possible."""
        if not isinstance(variant.replay, ArrayReplay) or variant.hits < MIN_ARRAY_HITS:
            return
        spread = spread_arguments(args)
        if spread is None or not all(map(_is_plain_number, spread.leaves)) or CHOSEN_CONVENTIONS.active_blocks():
            return
        ranges = self._argument_ranges(args, {}) if gradient else None
        if gradient and ranges is None:
            return
        call = variant.find_array_call(None if ranges is None else ranges[0], single=ranges is not None and ranges[1])
        if call is not None:
            is_flat = len(spread.leaves) == len(args) and all(map(_is_plain_number, args))
            cache.array_calls[gradient, tuple(map(type, args)) if is_flat else spread.key] = call

    def _count_hits(self) -> int:
        # Other threads may add a tree or a variant meanwhile.
        trees = tuple(self._cache.trees.values())
        return sum(variant.hits for tree in trees for variant in tuple(tree.variants))

    def _count_skipped(self) -> int:
        """Return the number of calls for which the extension module called the function itself."""
        return sum([quick.skipped for quick in self._quick_calls.values()])

    def _find_fallback_reason(self, args: tuple[Any, ...], kwargs: dict[str, Any], f: Callable[..., Any]) -> str | None:
        """Return why the function itself has to run for any arguments, or None; drop recordings that are stale."""
        if STATE.tape is not None or STATE.is_careful:
            # Inside another recording the function becomes part of that recording, so that transforms compose.
            return "inside a transform, a trace or wg.anomaly()"
        if errors_are_visible():
            return "np.errstate or np.seterr makes numbers raise or call a function"
        if self._cache.is_postponed and f is self._differentiated:
            self._note_long_code(args, kwargs)
            return LONG_CODE
        if self._cache.outside_state.changed():
            # What the dropped recordings saved pays for those with the new state.
            self._dropped_hits += self._count_hits()
            self._replace_cache()
        cache = self._cache
        reason = (
            cache.direct
            or cache.outside_state.opaque
            or (CHANGES_OUTSIDE if self._changes >= MAX_UNDONE_RECORDINGS else None)
        )
        if reason is not None:
            self._warn_of_interpreter(RUNS_ITSELF, reason, 5)
        return reason

    def _note_long_code(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Let the next call of this kind record the function, however long it is."""
        cache = self._cache
        cache.is_postponed = False
        call = signature_of(args, kwargs)
        if isinstance(call, CallSignature):
            cache.long_calls.add((chosen_convention(), call.key))

    def _call_function(self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], reason: str) -> Any:
        """Call the function itself, and count the reason."""
        self._fallbacks[reason] += 1
        return f(*args, **kwargs)

    def _record_call(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        f: Callable[..., Any],
        query: Query,
        key: Any,
        call: CallSignature,
        cache: VariantCache,
        walk: FailedWalk,
    ) -> Any:
        """Run and record the function; return its result."""
        limit = MAX_RECORDINGS if self._limit is None else self._limit
        is_over = self._records >= limit
        if is_over:
            self._warn_once(limit)
        if is_over or cache.failed_replays[key] >= MAX_FAILED_REPLAYS:
            self._fallbacks[f"recorded {limit} times, which is the limit" if is_over else NOT_REPRODUCIBLE] += 1
            return self._call_plainly(f, args, kwargs)
        began = time.thread_time()
        with self._lock:
            cache.outside_state.follow(*call.named)
        reason = cache.outside_state.opaque or cache.skip_recording(key)
        if reason is not None:
            return self._call_function(f, args, kwargs, reason)
        # What is printed cannot be undone.
        is_first = not cache.outside_state.prints and key not in cache.long_calls
        with pause_collection() if is_first else nullcontext():
            rows = MAX_FIRST_ROWS if is_first else None
            recording = self._try_recording(args, kwargs, cache, rows, with_labels=call.with_labels)
            if isinstance(recording, CertifiedRecording):
                answer = self._answer_by_recording(recording, args, kwargs, f, query, key, call, cache, walk)
                self._budget.spent += time.thread_time() - began
                return answer
        if isinstance(recording, LongTraceError):
            cache.long_calls.add(key)
            return self._answer_long_call(args, kwargs, f, query, key, call, cache, walk)
        if call.with_labels:
            cache.label_kinds[key] = False
            return self._answer_call(args, kwargs, f, query)
        answer = self._call_after_failure(recording, f, args, kwargs)
        cache.note_failure(key, describe_failure(recording))
        return answer

    def _answer_by_recording(
        self,
        recording: CertifiedRecording,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        f: Callable[..., Any],
        query: Query,
        key: Any,
        call: CallSignature,
        cache: VariantCache,
        walk: FailedWalk,
    ) -> Any:
        """Compile a recording, keep it, and answer the call that was recorded."""
        replay = None if recording.leak else self._compile_replay(recording, args, kwargs, f, call)
        if replay is None and call.with_labels:
            cache.label_kinds[key] = False
            return self._answer_call(args, kwargs, f, query)
        with self._lock:
            self._records += 1
        if replay is None:
            cache.failed_replays[key] += not recording.leak
            return self._call_after_failure(recording, f, args, kwargs)
        if isinstance(replay, InterpreterReplay):
            self._warn_of_interpreter("is replayed by the interpreter, not by native code", replay.reason, 6)
        why = LABELS_CHANGED if call.with_labels and walk is NO_WALK else None
        why = why or explain_recording(cache, key, walk, call.inputs)
        variant = RecordedVariant(recording, replay, why, self._records, has_labels=call.with_labels)
        if not cache.outside_state.changed():
            # A change means that another thread has interfered, so the recording is not kept.
            self._keep_variant(cache, key, variant, walk, call.inputs, args, kwargs)
        answer = query(variant, call.inputs)
        return self._call_plainly(f, args, kwargs) if type(answer) is Flip else answer

    def _compile_replay(
        self,
        recording: CertifiedRecording,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        f: Callable[..., Any],
        call: CallSignature,
    ) -> RecordingReplay | None:
        """Return how a recording is replayed; None if a replay at once gives another result."""
        asks_gradient = f is self._differentiated and returns_real(recording)
        ranges = self._argument_ranges(args, kwargs, with_labels=call.with_labels) if asks_gradient else None
        gradient_by = None if ranges is None else [(start, stop) for _, start, stop in ranges[0]]
        with pause_collection(), OVERLAY.pause():
            replay = make_replay(recording, numpy_numbers=(np.float64,) in call.marks, gradient_by=gradient_by)
        if replay is None or self.device == "cpu" or not has_array_inputs(recording):
            return replay
        return framework_export.JaxReplay(recording, framework_export.find_jax_gpu(self.device))

    def _answer_long_call(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        f: Callable[..., Any],
        query: Query,
        key: Any,
        call: CallSignature,
        cache: VariantCache,
        walk: FailedWalk,
    ) -> Any:
        """Answer the first call of a long function at the speed of a gradient; if that fails, record it after all."""
        try:
            answer = run_eagerly(f, args, kwargs) if f is self._f else f(*args, **kwargs)
        except Exception:
            self._undo_changes(cache)
            return self._record_call(args, kwargs, f, query, key, call, cache, walk)
        if f is self._f and self._undo_changes(cache):
            return self._call_function(f, args, kwargs, CHANGES_OUTSIDE)
        self._fallbacks[LONG_FUNCTION] += 1
        return answer

    def _try_recording(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        cache: VariantCache,
        max_rows: int | None,
        *,
        with_labels: bool,
    ) -> CertifiedRecording | BaseException:
        """Return a recording of the function, or the error that prevented it; then its effects were undone."""
        try:
            recording = certify(self._f, args, kwargs, max_rows=max_rows, with_labels=with_labels)
        except BaseException as error:
            self._undo_changes(cache)
            if isinstance(error, KeyboardInterrupt):
                raise
            if isinstance(error, NotReplayableError) and not with_labels:
                cache.direct = str(error)
            return error
        if self._undo_changes(cache):
            return NotReplayableError(CHANGES_OUTSIDE)
        return recording._replace(is_finite=self._assume is not None, is_derivative=self._is_derivative)

    def _call_after_failure(
        self,
        error: CertifiedRecording | BaseException,
        f: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Answer a call after the function could not be recorded, or its recording cannot be replayed."""
        if isinstance(error, CertifiedRecording):
            self._fallbacks[error.leak or NOT_REPRODUCIBLE] += 1
            return unflatten(error.tree, error.results) if f is self._f else f(*args, **kwargs)
        if isinstance(error, NotReplayableError):
            return self._call_function(f, args, kwargs, str(error))
        try:
            return self._call_function(f, args, kwargs, describe_failure(error))
        except AttributeError:
            # It uses methods that only recorded numbers have, so the error of the recording is the relevant one.
            raise error from None

    def _undo_changes(self, cache: VariantCache) -> bool:
        """Undo what a recording has changed outside, where it left recorded values; return whether it changed anything.

        If other threads run and the recorded code writes nothing, those threads made the changes.
        """
        if not cache.outside_state.changed() or (threading.active_count() > 1 and not cache.outside_state.mutates):
            return False
        cache.outside_state.restore()
        self._changes += 1
        return True

    def _keep_variant(
        self,
        cache: VariantCache,
        key: Any,
        variant: RecordedVariant,
        walk: FailedWalk,
        inputs: Sequence[Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """Keep a variant, unless other threads recorded one meanwhile that is valid at these inputs too."""
        tree = cache.trees.get(key)
        # Not while the lock is held: a replay may run ops of the user's own, which may wait for other threads.
        while tree is not None and tree.has_grown(walk):
            answer = tree.find_valid(RecordedVariant.replay_value, inputs)
            if type(answer) is not FailedWalk:
                with self._lock:
                    self._records -= 1
                return
            walk = answer
        with self._lock:
            tree = cache.trees.get(key)
            if tree is None:
                parameters = list_argument_inputs(args, kwargs, with_labels=variant.has_labels)
                tree = cache.trees[key] = VariantTree(describe_arguments(args, kwargs), parameters)
                if not kwargs and not CHOSEN_CONVENTIONS.active_blocks():
                    self._add_quick_entry(cache, tree, args)
            tree.add(variant, walk)
            self._refresh_quick_calls()

    def _add_quick_entry(self, cache: VariantCache, tree: VariantTree, args: tuple[Any, ...]) -> None:
        parse = write_parser(args)
        if parse is None:
            return
        ranges = self._argument_ranges(args, {})
        restore = None if ranges is None else write_restorer(ranges[0], single=ranges[1])
        arguments = describe_call(args)
        gradient = None if arguments is None or ranges is None else arguments.describe_gradient(*ranges)
        entry = QuickEntry(tree, parse, restore, find_spread(args), arguments, gradient)
        cache.quick[len(args)] = [entry, *cache.quick.get(len(args), ())]

    def _warn_of_interpreter(self, what: str, reason: str, frames: int) -> None:
        """Warn once that the function has no native code; its caller is so many frames up."""
        if not self._warned_of_interpreter:
            self._warned_of_interpreter = True
            code = getattr(self._f, "__code__", None)
            place = "" if code is None else f" ({basename(code.co_filename)}:{code.co_firstlineno})"
            warnings.warn(
                f"{function_name(self._f)}{place} {what}: {reason}",
                InterpreterWarning,
                stacklevel=frames,
            )

    def _warn_once(self, limit: int) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{function_name(self._f)} was recorded {limit} times and still takes new branches: from now on "
                f"calls that match no recording run the function itself; see .info, or give wg.compile(f, limit=...)",
                RuntimeWarning,
                stacklevel=5,
            )

    def _make_gradient_query(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Query:
        """Return a function that asks a variant for value and gradient."""

        def ask(variant: RecordedVariant, inputs: Sequence[Any]) -> Any:
            labels = variant.has_labels
            ranges = self._argument_ranges(args, kwargs, with_labels=labels) if variant.is_real else None
            if ranges is None:
                # There is no gradient: the transform raises the error, unless a branch has flipped.
                value = variant.replay_value(inputs)
                return value if type(value) is Flip else self._differentiated(*args, **kwargs)
            parts, single = ranges
            if isinstance(variant.replay, ArrayReplay):
                variant.replay.limit_gradient([(start, stop) for _, start, stop in parts])
            numbers = variant.replay.compute_gradient(inputs)
            if isinstance(numbers, Flip):
                return numbers
            grads = [unflatten(tree, list(numbers[start + 1 : stop + 1])) for tree, start, stop in parts]
            return numbers[0], grads[0] if single else tuple(grads)

        return ask

    def _argument_ranges(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], *, with_labels: bool = False
    ) -> tuple[list[ArgumentRange], bool] | None:
        """Return the structure and the range of inputs of each argument to differentiate by, and whether it is one.

        Return None if these arguments are not there, or if one has nothing to differentiate by.
        """
        try:
            places, single = resolve_arguments(self._f, args, kwargs, self._argnums, self._argnames)
        except GradientError:
            return None
        arguments = join_arguments(args, kwargs)
        counts = [len(CallSignature(arg, with_labels=with_labels).inputs) for arg in arguments.values()]
        starts = dict(zip(arguments, accumulate(counts, initial=0), strict=False))
        parts = []
        for place in places:
            _, tree, leaves = flatten_argument(arguments[place])
            count = len(CallSignature(arguments[place], with_labels=with_labels).inputs)
            if len(leaves) != count:
                return None
            parts.append((tree, starts[place], starts[place] + count))
        return parts, single


def describe_failure(error: BaseException) -> str:
    """Return why a function could not be recorded; what depends on the numbers of a call is left out."""
    text = str(error).partition("\n")[0]
    details = f": {text}" if isinstance(error, EscapeError | NoRuleError) else ""
    return f"recording it raised {type(error).__name__}{details}"


def _is_plain_number(leaf: object) -> bool:
    """Return whether a leaf is a float or an array with axes, which native functions read."""
    return type(leaf) is float or (type(leaf) is np.ndarray and leaf.ndim > 0)


call_slowly: Callable[..., Any] = CompiledFunction.__call__
HAS_QUICK_CALLS = RECORDER is not None and ERROR_SETTINGS is not None
"""Whether the extension module answers calls where it can."""
if HAS_QUICK_CALLS:
    # Python finds what to call in the slot of the object, so that no function of Python runs.
    CompiledFunction.__call__ = CompiledFunction.__dict__["_quick_value"]  # type: ignore[method-assign]


def _ask_gradient(variant: RecordedVariant, inputs: Sequence[Any]) -> Any:
    """Return a variant's result, followed by its gradient by every input."""
    if variant.is_constant_number:
        value = variant.replay_value(inputs)
        return value if isinstance(value, Flip) else [value, *map(_make_zeros, inputs)]
    if not variant.is_real:
        return Flip(None)
    numbers = variant.replay.compute_gradient(inputs)
    if variant.quick_gradient is None and isinstance(variant.replay, NativeReplay):
        variant.quick_gradient = variant.replay.gradient_builtin()
    return numbers


def _make_zeros(number: Any) -> Any:
    """Return the gradient of a constant by a number or an array."""
    return np.zeros_like(number) if type(number) is np.ndarray else 0.0


def find_spread(args: tuple[Any, ...]) -> type | None:
    """Return where the floats of a call are: `float` if they are the arguments, a type if they are in a container.

    >>> find_spread((1.0, 2.0)), find_spread(([1.0, 2.0],)), find_spread(([1.0], 2.0))
    (<class 'float'>, <class 'list'>, None)
    """
    if args and all(type(arg) is float for arg in args):
        return float
    only: Any = args[0] if len(args) == 1 else None
    is_row = type(only) in (list, tuple) and all(type(number) is float for number in only)
    return type(only) if is_row else None


def list_recordings(root: RecordedVariant, called: str) -> list[codegen.language_base.FunctionRecording]:
    """Return the recordings of a tree, each after the one that leads to it; raise where a result is no number."""
    variants = [root]
    for variant in variants:
        variants += variant.siblings.values()
    numbers = {id(variant): number for number, variant in enumerate(variants, 1)}
    rows = []
    for variant in variants:
        circuit = variant.recording.circuit
        if circuit is None:
            raise OperandError(f"the results of {called} do not depend on its arguments, so there is no code to write")
        following = {check + 1: numbers[id(other)] for check, other in variant.siblings.items() if check is not None}
        results = _list_results(variant.recording, circuit, called)
        rows.append(codegen.language_base.FunctionRecording(circuit, results, variant.recording.checks, following))
    return rows


def _list_results(recording: CertifiedRecording, circuit: CircuitGraph, called: str) -> dict[str, int | WireValue]:
    """Return the results of a recording by name: nodes of its circuit, and constants."""
    nodes = dict(zip(recording.moving, circuit.columns.outputs.tolist(), strict=False))
    leaves = [nodes.get(k, result) for k, result in enumerate(recording.results)]
    results: dict[str, int | WireValue] = {}
    places = unflatten(recording.tree, list(range(len(leaves))))
    for name, k in sorted(walk_leaf_paths("f", places), key=itemgetter(1)):
        # Different keys may give the same name.
        path = name
        while path in results:
            path += "_"
        if k in nodes:
            results[path] = nodes[k]
            continue
        constant = np.asarray(leaves[k])
        if constant.dtype.kind not in "fiub":
            raise OperandError(
                f"code is written for functions that return numbers and arrays, and {called} returns "
                f"{short_repr(leaves[k])}"
            )
        results[path] = constant.astype(np.float64)[()]
    return results


def check_written_results(
    recordings: Sequence[codegen.language_base.FunctionRecording], function: str, called: str
) -> None:
    """Raise unless all recordings return the same structure, and one real number if their gradient is asked for."""
    first = recordings[0]
    for other in recordings[1:]:
        if list(other.results) != list(first.results) or other.result_shapes() != first.result_shapes():
            raise OperandError(
                f"code has one structure of results, and {called} returns {_describe_results(first)} in one branch "
                f"and {_describe_results(other)} in another"
            )
    is_number = list(first.results) == ["f"] and first.result_shapes() == [()]
    if function in ("value_and_grad", "hessian") and not is_number:
        raise OperandError(
            f"a {'gradient' if function == 'value_and_grad' else 'Hessian'} is of one real number, and {called} "
            f'returns {_describe_results(first)}: ask for the code of "value" or "jacobian", as in to_c("jacobian")'
        )
    arrays = [name for name in first.circuit.inputs if first.circuit[name].type.shape]
    if function == "hessian" and arrays:
        raise OperandError(
            f"code of second derivatives is by numbers, and the input {arrays[0]} of {called} is an array: call "
            f"{called} with numbers, or lists of numbers, in place of arrays"
        )


def _describe_results(recording: codegen.language_base.FunctionRecording) -> str:
    shapes = recording.result_shapes()
    if list(recording.results) == ["f"]:
        return "a number" if shapes == [()] else f"an array {list(shapes[0])}"
    return f"a container of {count_with_noun(len(shapes), 'result')}"


def describe_arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Describe the arguments of a call for a message.

    >>> describe_arguments((1.0, np.ones((2, 3), np.float32)), {"n": 2, "rows": [1.0, np.float32(2.0)]})
    'float, float32[2, 3], n=2, rows=list of 2 (float, float32)'
    """
    named = [f"{name}={_describe_argument(value)}" for name, value in kwargs.items()]
    return ", ".join([*map(_describe_argument, args), *named])


def _describe_argument(argument: Any) -> str:
    if isinstance(argument, np.ndarray):
        return f"{argument.dtype}{list(argument.shape)}"
    if isinstance(argument, list | tuple):
        kinds = dict.fromkeys(map(_describe_argument, argument[:MAX_SHOWN_VARIANTS]))
        return f"{type(argument).__name__} of {len(argument)} ({', '.join(kinds)})"
    # Numbers that are fixed in a recording are part of its kind.
    return short_repr(argument) if isinstance(argument, int | str | None) else type(argument).__name__


def signature_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallSignature | str:
    """Return the signature of a call, or the reason why it has none.

    >>> signature_of(({1.0},), {})
    'an argument is a set, which may change between calls; a method is compiled by wg.compile(object.method)'
    """
    try:
        return CallSignature((args, kwargs))
    except ValuesGivenError:
        return "an argument is a wg.Value"
    except NoSignatureError as reason:
        return str(reason)
    except RecursionError:
        return "an argument is nested too deeply, or contains itself"


def is_disturbed(cache: VariantCache) -> bool:
    """Return whether a quick replay is not allowed.

    That is so inside a transform or a watcher, with another kink convention, with error handling of NumPy that shows
    errors, or after a change of outside state.
    """
    # The first test is fast: whether there is anything of the kind at all.
    around = STATE.innermost is not None or WATCHES.opened or CHOSEN_CONVENTIONS.opened
    if around and (STATE.tape is not None or STATE.is_careful or CHOSEN_CONVENTIONS.active_blocks()):
        return True
    unknown = ERROR_SETTINGS is None or ERROR_SETTINGS.get() is not _harmless_error_settings[0]
    if unknown and errors_are_visible():
        return True
    return cache.outside_state.changed()


def errors_are_visible() -> bool:
    """Return whether NumPy raises, logs or calls a user's function on overflow and the like; a replay does not.

    >>> with np.errstate(divide="raise"):
    ...     errors_are_visible()
    True
    >>> errors_are_visible()
    False
    """
    visible = not {"raise", "call", "log"}.isdisjoint(np.geterr().values())
    if not visible and ERROR_SETTINGS is not None:
        _harmless_error_settings[0] = ERROR_SETTINGS.get()
    return visible


_harmless_error_settings: list[Any] = [None]
"""NumPy's error handling when it was last known to raise nothing; reading the settings is slow, comparing is not."""
if HAS_QUICK_CALLS:
    RECORDER.connect_calls(
        {
            "array_class": np.ndarray,
            "float64_dtype": np.dtype(np.float64),
            "watch_blocks": WATCHES.opened,
            "convention_blocks": CHOSEN_CONVENTIONS.opened,
            "harmless_settings": _harmless_error_settings,
        }
    )


def choose_signature(
    cache: VariantCache, call: CallSignature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> CallSignature:
    """Return the signature by which a call is answered, given the one in which all whole numbers are fixed.

    Arrays of whole numbers are constants of the first recording, which is fast. If they change they are inputs of the
    next one, unless that has failed before.
    """
    convention = chosen_convention()
    if not call.has_labels or (convention, call.key) in cache.trees:
        return call
    general = CallSignature((args, kwargs), with_labels=True)
    key = (convention, general.key)
    is_known = key in cache.label_kinds
    if is_known and cache.label_kinds[key] and not cache.outside_state.prints:
        return general
    cache.label_kinds.setdefault(key, True)
    return call


def explain_recording(cache: VariantCache, key: tuple[Any, Any], walk: FailedWalk, inputs: Sequence[Any]) -> str:
    """Explain why a call was recorded: which certificate of the variant that was tried last does not hold."""
    if walk.last is not None:
        return describe_flip(walk.last.recording, inputs)
    # Other threads may add a tree meanwhile.
    kinds = tuple(cache.trees)
    if any(differ_in_whole_numbers(marks, key[1]) for _, marks in kinds):
        return OTHER_WHOLE_NUMBERS
    return "first call" if not kinds else "first call with arguments of this kind"


def explain_variation(variants: Sequence[RecordedVariant]) -> str:
    """Return where the calls of a function part most, and what to do: at a loop, or at a branch; empty if unknown.

    >>> def shrink(x):
    ...     while x > 1.0:
    ...         x = x * 0.99
    ...     return x
    >>> shrunk = compile(shrink)
    >>> values = [shrunk(float(x)) for x in range(2, 9)]
    >>> print(shrunk.info)  # doctest: +ELLIPSIS
    shrink: 7 calls, 1 recording, 1 variant
      ...
      ran the function itself 6 times: ... x > 1.0 (...:2) was tested 70 times in one recording, ...
    """
    tests: Counter[str] = Counter()
    examples: dict[str, tuple[RecordedVariant, Certificate]] = {}
    for variant in variants:
        places = Counter(_format_place(check.place) for check in variant.recording.checks if check.place is not None)
        for place, count in places.items():
            tests[place] = max(tests[place], count)
        for check in variant.recording.checks:
            examples.setdefault(_format_place(check.place), (variant, check))
    if not tests:
        return ""
    place, count = tests.most_common(1)[0]
    if count > 1 and np.asarray(examples[place][1].outcome).dtype.kind in "fc":
        return (
            f"; {_write_test(*examples[place])} ({place}) was read {count} times in one recording, which holds for "
            "these numbers alone: compute with NumPy on what is recorded in place of reading it; quad reads its "
            "integrand at every point, fixed_quad(f, a, b, n=21) reads nothing"
        )
    if count > 1:
        test = (
            f"; {_write_test(*examples[place])} ({place}) was tested {count} times in one recording, each a branch of"
        )
        turns = branch_merging.MAX_LOOP_TURNS
        while_loop = "wg.while_loop(cond, body, init, limit=n)"
        if _is_while_loop(examples[place][1].place):
            return (
                f"{test} its own: a while loop shares one recording for up to {turns} turns if its variables are real "
                f"numbers (count = 0.0); write a longer one as {while_loop}"
            )
        return (
            f"{test} its own: where it only chooses a number, np.where(condition, a, b) is no branch; write a loop "
            f"that leaves early as {while_loop}"
        )
    parted = Counter(
        _format_place(variant.recording.checks[check].place)
        for variant in variants
        for check in variant.siblings
        if check is not None
    )
    if not parted:
        return ""
    place, _ = parted.most_common(1)[0]
    return f"; calls part most often at {_write_test(*examples[place])} ({place})"


def _is_while_loop(place: Place | None) -> bool:
    """Return whether the code at a place is the head of a while loop."""
    return place is not None and read_line_of_code(place.file, place.line).strip().startswith("while ")


def _write_test(variant: RecordedVariant, check: Certificate) -> str:
    circuit = variant.recording.circuit
    return "a condition" if circuit is None else certificates.write_condition(circuit, check)


def describe_flip(recording: CertifiedRecording, inputs: Sequence[Any]) -> str:
    """Describe the certificate of a recording that does not hold at a point.

    >>> recording = certify(lambda x: x if x > 0 else -x, (3.0,), {}, merge=False)
    >>> describe_flip(recording, [-1.0]).partition(": ")[2]
    'x > 0.0 was True, now False'
    """
    circuit = recording.circuit
    if circuit is None:
        return "nothing in it depends on the arguments"
    interpreted = InterpreterReplay(recording, "")
    values = interpreted.evaluate_nodes(inputs)
    if values is None:
        return "an op refused its operands"
    k = interpreted.find_flipped_check(values)
    if k is None:
        return "it depends on the last bit"
    check = recording.checks[k]
    text = certificates.write_condition(circuit, check)
    was, now = (_format_outcome(plain_result(x)) for x in (recording.expected[k], values[check.node]))
    return f"flipped at {_format_place(check.place)}: {text} was {was}, now {now}"


def _format_outcome(value: WireValue | PythonNumber) -> str:
    return str(value) if isinstance(value, bool) else format_brief_number(value)


def _format_place(place: Place | None) -> str:
    return "an unknown line" if place is None else f"{basename(place.file)}:{place.line}"


add_missing_names(
    CompiledFunction,
    "a compiled function",
    lead_to(CIRCUIT_NAMES, "wg.trace(f, x)") | lead_to(RUN_NAMES, "wg.run(f, x)") | COMPILED_FUNCTION_HABITS,
)
