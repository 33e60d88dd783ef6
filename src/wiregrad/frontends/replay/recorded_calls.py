"""A call that is recorded to be replayed: its signature, and its circuit with all that steered Python.

A signature is everything about the arguments that a recording takes for granted. Real and complex leaves are inputs,
and only their shapes and dtypes count; everything else counts with its value. What may change unseen (an object of the
user's own) has no signature.

Kept true: a replay whose certified nodes have the same bits as when the function was recorded took the same path as
the function would, so its results are the function's. Where that cannot be promised, `leak` says why.

At the end, functions that take the numbers out of arguments of one structure, and put gradients into the same structure
(`write_parser`, `write_restorer`). They are written as Python text for one structure (floats, NumPy numbers, fixed
values, lists, tuples and dicts of them) and compiled, so that a call costs a comparison per number. Arguments of
another structure give None: the caller reads those by `CallSignature`, which decides what a structure is. Structures
that the text does not cover have no parser.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from enum import Enum, IntEnum
from math import prod
from types import BuiltinFunctionType, EllipsisType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import RECORDED_DTYPES
from wiregrad.errors import AmbiguousIndexError, short_repr
from wiregrad.frontends.recording.arguments import (
    CONTAINER_BASES,
    LEAF,
    REGISTERED_CONTAINERS,
    STATIC,
    ContainerTree,
    field_names,
    flatten,
    is_field_container,
    own_attributes,
    parts_of,
    take_apart,
    unflatten,
)
from wiregrad.frontends.recording.library_hooks import OVERLAY
from wiregrad.frontends.recording.session import RecordingSession, data_of, settle_results
from wiregrad.frontends.recording.tape import STATE, Tape
from wiregrad.frontends.recording.trace import (
    LongTraceError,
    TracedFunction,
    TraceWriter,
    copy_read_only,
    input_names,
    is_input,
    run_traced,
)
from wiregrad.frontends.recording.transformed_function import TransformedFunction
from wiregrad.frontends.recording.user_code import list_instructions
from wiregrad.frontends.recording.value import OUTSIDE_VALUE_REASON, Value, is_python_number, wrap_node
from wiregrad.frontends.replay.outside_state import draws_numbers
from wiregrad.ir import TABLE, Certificate, CircuitGraph
from wiregrad.ir.certificates import have_same_bits
from wiregrad.lazy import NamedTuple, load_module_lazily
from wiregrad.ops.functions import FUNCTIONS
from wiregrad.ops.functions.registry import FilledMemory

if TYPE_CHECKING:
    from wiregrad.frontends.replay import branch_merging
else:
    # Functions without branches do not need it.
    branch_merging = load_module_lazily("wiregrad.frontends.replay.branch_merging")

VALUE_TYPES = frozenset([bool, int, str, bytes, EllipsisType])
"""Types that are compared by value, as dtypes are; subclasses are not, since they may have attributes."""
IDENTITY_TYPES = frozenset([FunctionType, BuiltinFunctionType, TransformedFunction, ModuleType, np.ufunc, type(np.sum)])
"""Types that are compared by identity, as classes are; what they refer to may change."""
NUMBER_TYPES = frozenset([np.ndarray, complex])
"""Types of numeric arguments, besides floats and NumPy numbers."""


class NoSignatureError(Exception):
    """An argument may change unnoticed, so the call has no signature; the message says which argument."""


class ValuesGivenError(Exception):
    """An argument is a `wg.Value`."""


class CallSignature:
    """Reads arguments: `key` identifies them, `inputs` are the numbers in them in the order of the leaves.

    >>> call = CallSignature(([1.5, 2], {"name": "tanh"}))
    >>> call.inputs, call.key == CallSignature(([9.5, 2], {"name": "tanh"})).key
    ([1.5], True)
    """

    __slots__ = ("has_labels", "inputs", "marks", "named", "with_labels")

    def __init__(self, item: object, *, with_labels: bool = False) -> None:
        """Read arguments; with `with_labels`, arrays of whole numbers are inputs too, as arrays of floats."""
        self.inputs: list[Any] = []
        self.marks: list[Hashable] = []
        self.named: list[Any] = []
        """Functions, classes and modules among the arguments."""
        self.with_labels = with_labels
        self.has_labels = False
        """Whether there are arrays of whole numbers that can be inputs."""
        self._read_item(item)

    @property
    def key(self) -> tuple[Hashable, ...]:
        """The key that tells calls apart."""
        return tuple(self.marks)

    def _read_item(self, item: object) -> None:
        kind = type(item)
        if kind is float:
            self.marks.append(float)
            self.inputs.append(item)
        elif item is None:
            self.marks.append(None)
        elif issubclass(kind, dict | list | tuple) or kind in REGISTERED_CONTAINERS or is_field_container(kind):
            self._read_container(item, kind)
        elif kind in NUMBER_TYPES or issubclass(kind, np.generic):
            self._read_number(item)
        else:
            self.marks.append(self._mark_static(item))

    def _read_container(self, item: object, kind: type) -> None:
        if kind not in CONTAINER_BASES:
            if own_attributes(item):
                raise NoSignatureError(f"an argument is a {kind.__name__} with attributes of its own")
            # The attributes of its class may change.
            self.named.append(kind)
            self.named += REGISTERED_CONTAINERS.get(kind, ())
        keys, parts = take_apart(item)
        self.marks.append((kind, len(parts), *[self._mark_static(key) for key in keys]))
        for part in parts:
            self._read_item(part)

    def _read_number(self, item: object) -> None:
        array = np.asarray(item)
        if is_label_array(item):
            self.has_labels = True
        if self.with_labels and is_label_array(item):
            self.marks.append((LABELS, array.dtype.str, array.shape))
            self.inputs.append(array.astype(np.float64))
        elif array.dtype.kind not in "fc":
            self.marks.append(_mark_fixed_array(array, type(item)))
        elif array.dtype not in RECORDED_DTYPES:
            raise NoSignatureError(f"an argument is an array of {array.dtype}, which is not recorded")
        elif array.dtype == np.float64 and not array.ndim:
            # Its comparisons return np.bool_, so it needs another recording than a Python float.
            self.marks.append((type(item),))
            self.inputs.append(float(array))
        else:
            self.marks.append((type(item), array.dtype.str, array.shape, _memory_layout(array)))
            self.inputs.append(array[()])

    def _mark_static(self, item: Any) -> Hashable:
        """Return the mark of an argument that is not a number: its type, and its value or identity."""
        kind = type(item)
        if item is None:
            return None
        if kind is slice or kind is range:
            return kind, self._mark_static(item.start), self._mark_static(item.stop), self._mark_static(item.step)
        if kind is tuple:
            return kind, tuple([self._mark_static(part) for part in item])
        if issubclass(kind, np.generic):
            return _mark_fixed_array(np.asarray(item), kind)
        return self._mark_by_identity(item, kind) or self._mark_by_value(item, kind)

    def _mark_by_identity(self, item: Any, kind: type) -> Hashable:
        """Return the mark of an object that is compared by identity; None if it is not such an object.

        Equality is not used, since a metaclass may define it. The id stays valid, because `OutsideState` keeps the
        object alive.
        """
        if kind is BuiltinFunctionType and not isinstance(item.__self__, ModuleType | None):
            _refuse_generator(item)
            raise NoSignatureError(f"an argument is a method of a {type(item.__self__).__name__}, which may change")
        if kind in IDENTITY_TYPES or issubclass(kind, type | Enum):
            self.named.append(kind if issubclass(kind, Enum) else item)
            return kind, id(item)
        return None

    def _mark_by_value(self, item: Any, kind: type) -> Hashable:
        if kind is float or kind is complex:
            # The text tells 0.0 from -0.0, and is the same for every NaN.
            return kind, repr(item)
        if kind in VALUE_TYPES or issubclass(kind, np.dtype):
            if kind is str and "{" in item:
                # `format` may read attributes named in the text.
                self.named.append(item)
            return kind, item
        if issubclass(kind, Value):
            raise ValuesGivenError
        _refuse_generator(item)
        raise NoSignatureError(
            f"an argument is a {kind.__name__}, which may change between calls; "
            "a method is compiled by wg.compile(object.method)"
        )


RANDOM_ARGUMENT = (
    "an argument draws random numbers; to compile the function, draw the numbers before the call and pass them as an "
    "argument: f(x, rng.normal(size=n)) in place of f(x, rng)"
)
"""Why a call with a random generator among its arguments has no signature."""


def _refuse_generator(item: object) -> None:
    """Raise if an argument, or the object whose method it is, draws random numbers."""
    owner = item.__self__ if isinstance(item, BuiltinFunctionType | MethodType) else item
    if draws_numbers(owner):
        raise NoSignatureError(RANDOM_ARGUMENT)


LABELS = "labels"
"""Marks an array of whole numbers that is an input."""
MAX_EXACT_INTEGER = 2**53
"""The largest whole number up to which float64 has all of them."""


def is_label_array(item: object) -> bool:
    """Return whether an argument is an array of whole numbers that can be recorded as floats and converted back."""
    if type(item) is not np.ndarray or item.dtype.kind not in "iu":
        return False
    if not item.ndim or not item.size or not item.flags.c_contiguous:
        return False
    if item.dtype.itemsize < np.dtype(np.int64).itemsize:
        return True
    return bool(item.min() >= -MAX_EXACT_INTEGER and item.max() <= MAX_EXACT_INTEGER)


def take_labels_as_floats(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]:
    """Return a function that converts floats back to the whole numbers that f takes, and its arguments.

    >>> f, args, kwargs = take_labels_as_floats(lambda x, k: x[k], (np.array([5.0, 7.0]), np.array([1, 1])), {})
    >>> args[1], f(*args)
    (array([1., 1.]), array([7., 7.]))
    """
    leaves, _ = flatten((tuple(args), dict(kwargs)))
    dtypes = {k: leaf.dtype for k, leaf in enumerate(leaves) if is_label_array(leaf)}

    def convert(call: Any, convert_leaf: Callable[[Any, Any], Any]) -> Any:
        leaves, tree = flatten(call)
        for k, dtype in dtypes.items():
            leaves[k] = convert_leaf(leaves[k], dtype)
        return unflatten(tree, leaves)

    def call_with_labels(*args: Any, **kwargs: Any) -> Any:
        given, named = convert((args, kwargs), lambda leaf, dtype: leaf.astype(dtype))
        return f(*given, **named)

    floats, named = convert((tuple(args), dict(kwargs)), lambda leaf, dtype: leaf.astype(np.float64))
    return call_with_labels, floats, named


FIXED_ARRAY_MARKS = 6
"""How many facts the mark of an array has that is no input; the last are its bytes."""


def _mark_fixed_array(array: NDArray[Any], kind: type) -> Hashable:
    """Return the mark of an array that is no input: its type, layout and bytes."""
    if array.dtype.kind not in "iubUSmM":
        raise NoSignatureError(f"an argument is an array of {array.dtype}")
    return kind, array.dtype.str, array.dtype.char, array.shape, _memory_layout(array), array.tobytes()


def differ_in_whole_numbers(one: Sequence[Hashable], two: Sequence[Hashable]) -> bool:
    """Return whether the keys of two calls differ, and only in the whole numbers among the arguments.

    >>> keys = [CallSignature(labels).key for labels in (np.array([0, 1]), np.array([2, 1]), np.array([0.0, 1.0]))]
    >>> differ_in_whole_numbers(keys[0], keys[1]), differ_in_whole_numbers(keys[0], keys[2])
    (True, False)
    """
    pairs = [(mark, other) for mark, other in zip(one, two, strict=False) if mark != other]
    return len(one) == len(two) and bool(pairs) and all(_have_other_whole_numbers(*pair) for pair in pairs)


def _have_other_whole_numbers(one: Hashable, two: Hashable) -> bool:
    if not isinstance(one, tuple) or not isinstance(two, tuple) or one[:-1] != two[:-1]:
        return False
    return one[0] is int or (len(one) == FIXED_ARRAY_MARKS and np.dtype(one[1]).kind in "iu")


def _memory_layout(array: NDArray[Any]) -> Hashable:
    """Return the strides of an array, on which `ravel("K")` and the like depend; None if it is C-contiguous."""
    return None if array.flags.c_contiguous else array.strides


FIXED_TYPES = frozenset([bool, int, float, complex, str, bytes, range])
"""Types that a result may have besides values, arrays and NumPy numbers: immutable and without values inside."""


class CertifiedRecording(NamedTuple):
    """One recording of a function, ready to be replayed."""

    circuit: CircuitGraph | None
    """Its outputs are the recorded results, then the certified nodes; None if there are neither."""
    inputs: list[Any]
    results: list[Any]
    """The leaves of the result, as plain numbers and arrays."""
    tree: ContainerTree
    moving: tuple[int, ...]
    """The positions of the results that are outputs of the circuit; the others are constants."""
    in_python: tuple[bool, ...]
    """For each of these, whether a condition or whole number is a Python object, not a NumPy one."""
    expected: tuple[Any, ...]
    """The values of the certified nodes, in the order of the outputs after the results."""
    checks: tuple[Certificate, ...]
    leak: str | None
    """Why this recording must not be replayed, although its results are right; None if it may be."""
    is_finite: bool = False
    """Whether the caller promises that no value or slope is infinite or NaN, in arms that are not taken either."""
    is_derivative: bool = False
    """Whether the function is a Jacobian or Hessian: such a circuit computes many numbers several times."""


class NotReplayableError(Exception):
    """The function cannot be recorded for replay at all; the message says why."""


def certify(
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    keep: bool = True,
    merge: bool = True,
    max_rows: int | None = None,
    with_labels: bool = False,
) -> CertifiedRecording:
    """Run a function once and return its recording; raises `NotReplayableError`, or what the function raises.

    With `keep=False` the recording has results but no circuit. With `with_labels`, arrays of whole numbers among the
    arguments are inputs of the circuit, as floats that are converted. With `merge`, a function with branches is
    recorded by its steps, which changes nothing: both arms of a branch are recorded if they only compute numbers. That
    recording counts only if it gives what the function returns. Comparisons in the code tell that a function has
    branches; otherwise, and with labels, it is recorded itself first. With `max_rows`, `LongTraceError` is raised after
    about that many nodes.

    >>> recording = certify(lambda x: x * x if x > 0 else -x, (3.0,), {}, merge=False)
    >>> recording.results, [check.outcome for check in recording.checks]
    ([9.0], [True])
    """
    merged = None
    runner: Callable[..., Any] = f
    given, named = args, kwargs
    if with_labels:
        runner, args, kwargs = take_labels_as_floats(f, given, named)
    elif keep and merge and compares_numbers(f):
        # If it has many nodes, the function itself tells whether it is too long.
        with suppress(LongTraceError):
            merged = _run_merged(f, args, kwargs, max_rows and max_rows // 2)
            merge = False
        if merged is not None and _have_same_results(merged.results, _list_results(*_run_on_rows(f, args, kwargs))):
            return merged.write_recording()
    # A function that was merged has no effects, so it may run once more. Ops in C may round another way.
    run = _run_certified(f, runner, args, kwargs, keep=keep, max_rows=max_rows)
    if merge and run.has_certificates:
        merged = _run_merged(f, given, named, None, with_labels=with_labels)
    is_merged = merged is not None and _have_same_results(merged.results, run.results)
    return merged.write_recording() if merged is not None and is_merged else run.write_recording()


ORDER_SIGNS = ("<", "<=", ">", ">=")


def compares_numbers(f: Callable[..., Any]) -> bool:
    """Return whether a function orders numbers and jumps, so that it probably has branches that depend on arguments.

    >>> compares_numbers(lambda x: x if x > 0.0 else -x), compares_numbers(lambda x, name: x if name == "x" else -x)
    (True, False)
    """
    function = f.__func__ if isinstance(f, MethodType) else f
    if not isinstance(function, FunctionType):
        return False
    steps = list_instructions(function.__code__)
    compared = [step.opname == "COMPARE_OP" and step.argval in ORDER_SIGNS for step in steps]
    return any(compared) and any(step.opname.startswith("POP_JUMP_") for step in steps)


def _run_merged(
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    max_rows: int | None,
    *,
    with_labels: bool = False,
) -> _CertifiedRun | None:
    """Run the steps of a function, which changes nothing; None if its branches cannot be merged."""
    merging = branch_merging.make_merging_function(f)
    if merging is None:
        return None
    if with_labels:
        merging, args, kwargs = take_labels_as_floats(merging, args, kwargs)
    try:
        merged = _run_certified(f, merging, args, kwargs, keep=True, max_rows=max_rows)
    except Exception:
        return None
    return merged if merged.leak is None else None


def _have_same_results(one: Sequence[Any], two: Sequence[Any]) -> bool:
    """Return whether two recordings returned the same numbers of the same classes."""
    if len(one) != len(two):
        return False
    for a, b in zip(one, two, strict=True):
        numbers = isinstance(a, bool | int | float | complex | np.generic | np.ndarray)
        if type(a) is not type(b) or not (have_same_bits(a, b) if numbers else a == b):
            return False
    return True


class _CertifiedRun(NamedTuple):
    """A run of a function that was recorded; its circuit is written if the recording is wanted."""

    f: Callable[..., Any]
    args: Sequence[Any]
    kwargs: dict[str, Any]
    traced: TracedFunction
    results: list[Any]
    """The leaves of the result, as plain numbers and arrays."""
    is_kept: bool

    @property
    def leak(self) -> str | None:
        """Why the recording must not be replayed; None if it may be."""
        return self.traced.guard.leak or ("it registers a hook on a value" if self.traced.tape.hooks else None)

    @property
    def has_certificates(self) -> bool:
        """Whether Python was steered by a recorded number, perhaps by one that depends on no input."""
        return self.is_kept and bool(self.traced.guard.certificates)

    def write_recording(self) -> CertifiedRecording:
        """Return the recording with its circuit."""
        traced = self.traced
        tape = traced.tape
        moving = tuple(k for k, result in enumerate(traced.results) if _is_output(result, tape))
        if self.is_kept:
            _certify_unread_errors(traced)
        checks = _needed_checks(traced) if self.is_kept else []
        values = [wrap_node(tape, check.node, tape.value_at(check.node)) for check in checks]
        circuit = None
        if self.is_kept and (moving or checks):
            outputs = [*(traced.results[k] for k in moving), *values]
            with_checks = TracedFunction(tape, traced.inputs, outputs, flatten(outputs)[1], traced.names)
            names = input_names(self.f, self.args, self.kwargs)
            writer = TraceWriter(with_checks, names, getattr(self.f, "__name__", "f"))
            circuit = writer.write_circuit()
            checks = [check._replace(node=writer.where[check.node]) for check in checks]
        return CertifiedRecording(
            circuit=circuit,
            inputs=[tape.value_at(offset) for offset in traced.inputs],
            results=self.results,
            tree=traced.tree,
            moving=moving,
            in_python=tuple(is_python_number(traced.results[k]) for k in moving),
            expected=tuple(np.asarray(data_of(value))[()] for value in values),
            checks=tuple(checks),
            leak=self.leak,
        )


def _run_certified(
    f: Callable[..., Any],
    runner: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    keep: bool,
    max_rows: int | None = None,
) -> _CertifiedRun:
    """Record what a runner of the function computes: the function itself, or one that merges its branches."""
    with np.errstate(all="ignore"):
        try:
            traced = run_traced(runner, args, kwargs, named=keep, max_rows=max_rows)
        except AmbiguousIndexError as error:
            raise NotReplayableError(str(error)) from None
    _check_tree(traced.tree)
    for result in traced.results:
        _is_output(result, traced.tape)
    guard = traced.guard
    if guard.late_identity_test is not None:
        raise NotReplayableError(guard.late_identity_test)
    if traced.tape.leaves or guard.refusal:
        raise NotReplayableError(guard.refusal or OUTSIDE_VALUE_REASON)
    results = [_plain_leaf(result) for result in traced.results]
    return _CertifiedRun(f, args, kwargs, traced, results, keep)


def run_eagerly(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return what a recording of the function would return, without one: only rows are recorded, as for a gradient.

    >>> run_eagerly(lambda x: [x * x, "text"], (3.0,), {})
    [9.0, 'text']
    """
    results, tree = _run_on_rows(f, args, kwargs)
    return unflatten(tree, _list_results(results, tree))


def _run_on_rows(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], ContainerTree]:
    """Return the leaves of what a function returns, and their structure; only rows are recorded."""
    session = RecordingSession()
    filled_before = FilledMemory.count
    with STATE.record_on(session.tape), np.errstate(all="ignore"):
        leaves, tree = flatten((tuple(args), dict(kwargs)))
        lifted = [_lift_eagerly(session, leaf) for leaf in leaves]
        result = OVERLAY.call(_call_with, (f, *unflatten(tree, lifted)), {})
        results, tree = flatten(settle_results(result, filled_before, session.tape))
    for leaf in results:
        _is_output(leaf, session.tape)
    return results, tree


def _list_results(results: Sequence[Any], tree: ContainerTree) -> list[Any]:
    """Return leaves of a result as plain numbers and arrays; raise if it cannot be replayed."""
    _check_tree(tree)
    return [_plain_leaf(leaf) for leaf in results]


def _lift_eagerly(session: RecordingSession, leaf: Any) -> Any:
    if is_input(leaf):
        return session.lift_argument(leaf, lambda: "an argument")
    return copy_read_only(leaf) if type(leaf) is np.ndarray else leaf


def _call_with(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    return f(*args, **kwargs)


def _is_output(result: Any, tape: Tape) -> bool:
    """Return whether a result is a recorded node; raises if a replay could not return it."""
    if isinstance(result, Value):
        if result._tape is not tape:
            raise NotReplayableError("it returns a wg.Value from outside")
        return True
    kind = type(result)
    fixed = (
        kind in FIXED_TYPES
        or (issubclass(kind, np.generic) and kind is not np.void)
        or isinstance(result, Enum | np.dtype)
    )
    if not fixed and not (kind is np.ndarray and not result.dtype.hasobject):
        raise NotReplayableError(
            f"it returns {type(result).__name__} {short_repr(result)}, which may change or hold values"
        )
    return False


def _check_tree(tree: ContainerTree) -> None:
    """Raise if a container among the results has attributes, which a replay would not return."""
    stack = [tree]
    while stack:
        part = stack.pop()
        if part.attributes:
            raise NotReplayableError(f"it returns a {part.kind.__name__} with attributes of its own")
        stack += part.children


def _plain_leaf(result: object) -> Any:
    """Return a result as the caller gets it: float64 numbers as Python floats, arrays as copies."""
    data = plain_result(data_of(result), in_python=is_python_number(result))
    return data.copy() if type(data) is np.ndarray and not isinstance(result, Value) else data


def plain_result(data: object, *, in_python: bool = True) -> Any:
    """Return a number as the caller gets it: a Python number, except conditions and whole numbers of NumPy.

    >>> plain_result(np.float64(2.0)), plain_result(np.float32(2.0))
    (2.0, np.float32(2.0))
    >>> plain_result(np.True_), plain_result(np.True_, in_python=False)
    (True, np.True_)
    """
    if type(data) is np.ndarray and not data.ndim:
        data = data[()]
    python_dtypes = "d?lD" if in_python else "dD"
    return data.item() if isinstance(data, np.generic) and data.dtype.char in python_dtypes else data


def _certify_unread_errors(traced: TracedFunction) -> None:
    """Let replays compute nodes that may raise an error although no result needs them: they check that none is NaN."""
    tape = traced.tape
    assert tape.guard is not None
    for offset in traced.list_unread_errors():
        node = wrap_node(tape, offset, tape.value_at(offset))
        with STATE.record_on(tape), np.errstate(all="ignore"):
            has_nan = FUNCTIONS["any"].run(TABLE["isnan"](node))
        if isinstance(has_nan, Value):
            tape.guard.certificates.append(Certificate(has_nan._index, bool(data_of(has_nan)), None))


def _needed_checks(traced: TracedFunction) -> list[Certificate]:
    """Return one certificate per node that depends on an input; the others cannot change."""
    input_offsets = set(traced.inputs)
    depends = dict[int, bool]()
    needed: dict[int, Certificate] = {}
    for certificate in traced.guard.certificates:
        node = certificate.node
        if node not in needed and _depends_on_input(traced.tape, node, input_offsets, depends):
            needed[node] = certificate
    return list(needed.values())


def _depends_on_input(tape: Tape, root: int, inputs: set[int], known: dict[int, bool]) -> bool:
    """Return whether a node depends on an input; `known` caches the answers."""
    stack = [root]
    while stack:
        offset = stack[-1]
        sources = [source for source in tape.node_at(offset).sources if source >= 0]
        missing = [source for source in sources if source not in known]
        if missing and offset not in known:
            stack += missing
            continue
        known[offset] = offset in inputs or any(known[source] for source in sources)
        stack.pop()
    return known[root]


MAX_PARSED_NUMBERS = 512
"""Arguments with more numbers have no parser: its text would be long."""
COMPARED_TYPES = (int, bool, str, type(None))
"""Types of arguments that are compared by value."""


class UnparsedArgumentError(Exception):
    """Arguments have a structure for which no text is written."""


class _ParserText:
    """The text of a parser while it is written."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.numbers: list[str] = []
        self.kinds: dict[str, list[str]] = {"float": [], "float64": []}
        self.array_numbers = 0
        self.constants: dict[str, Any] = {"float64": np.float64}
        self._names = 0

    def add_name(self) -> str:
        """Return a new name for a part of the arguments."""
        self._names += 1
        return f"a{self._names}"

    def add_constant(self, value: object) -> str:
        """Return the name of a value that the text refers to."""
        name = f"C{len(self.constants)}"
        self.constants[name] = value
        return name

    def refuse_if(self, condition: str) -> None:
        """Write that the arguments have another structure if a condition holds."""
        self.lines.append(f"if {condition}: return None")

    def read_item(self, name: str, item: Any) -> None:
        """Write the text that reads an item."""
        kind = type(item)
        if is_plain_array(item):
            self._read_array(name, item)
        elif kind is float or kind is np.float64:
            self.kinds["float" if kind is float else "float64"].append(name)
            self.numbers.append(name)
        elif kind in COMPARED_TYPES:
            constant = self.add_constant(item)
            self.refuse_if(f"type({name}) is not {self.add_constant(kind)} or {name} != {constant}")
        elif kind in (list, tuple, dict):
            self._read_container(name, item)
        elif is_parsed_class(kind):
            self._read_object(name, item)
        else:
            raise UnparsedArgumentError
        if len(self.numbers) + self.array_numbers > MAX_PARSED_NUMBERS:
            raise UnparsedArgumentError

    def _read_array(self, name: str, item: NDArray[Any]) -> None:
        array, dtype, shape = map(self.add_constant, (np.ndarray, item.dtype, item.shape))
        self.refuse_if(f"type({name}) is not {array} or {name}.dtype is not {dtype} or {name}.shape != {shape}")
        self.refuse_if(f"not {name}.flags.c_contiguous or not {name}.flags.aligned")
        self.numbers.append(name)
        self.array_numbers += item.size

    def _read_container(self, name: str, item: Any) -> None:
        kind = type(item)
        self.refuse_if(f"type({name}) is not {kind.__name__} or len({name}) != {len(item)}")
        values = list(item)
        source = name
        if kind is dict:
            if not all(type(key) is str for key in item):
                raise UnparsedArgumentError
            self.refuse_if(f"[*{name}] != {self.add_constant(list(item))}")
            self.refuse_if(f"[*map(type, {name})] != {self.add_constant([str] * len(item))}")
            values = list(item.values())
            source = f"{name}.values()"
        names = [self.add_name() for _ in values]
        if names:
            self.lines.append(f"{', '.join(names)}, = {source}")
        for part, value in zip(names, values, strict=True):
            self.read_item(part, value)

    def _read_object(self, name: str, item: Any) -> None:
        """Write the text that reads a named tuple or an object with fields, by what Python itself stores in it."""
        kind = type(item)
        self.refuse_if(f"type({name}) is not {self.add_constant(kind)}")
        if issubclass(kind, tuple):
            self.refuse_if(f"{self.add_constant(tuple.__len__)}({name}) != {tuple.__len__(item)}")
            source = f"{self.add_constant(tuple.__iter__)}({name})"
            values = list(tuple.__iter__(item))
        else:
            fields = self.add_name()
            self.lines.append(f"{fields} = {name}.__dict__")
            self.refuse_if(f"[*{fields}] != {self.add_constant([*vars(item)])}")
            if [*vars(item)] != field_names(kind):
                raise UnparsedArgumentError
            source = f"{fields}.values()"
            values = list(vars(item).values())
        names = [self.add_name() for _ in values]
        if names:
            self.lines.append(f"{', '.join(names)}, = {source}")
        for part, value in zip(names, values, strict=True):
            self.read_item(part, value)


def is_parsed_class(kind: type) -> bool:
    """Return whether a parser reads objects of a class: named tuples, and fields that are ordinary attributes."""
    if kind in REGISTERED_CONTAINERS:
        return False
    has_attributes = kind.__dictoffset__ != 0
    if issubclass(kind, tuple):
        return not has_attributes
    is_plain = kind.__getattribute__ is object.__getattribute__ and not hasattr(kind, "__getattr__")
    return is_field_container(kind) and not issubclass(kind, dict | list) and has_attributes and is_plain


def write_parser(args: Sequence[Any]) -> Callable[..., tuple[Any, ...] | None] | None:
    """Return a function that returns the numbers in arguments with the structure of these, None for any other.

    >>> parse = write_parser((1.0, [2.0, 3.0], 2))
    >>> parse(4.0, [5.0, 6.0], 2), parse(4.0, [5.0, 6.0], 3), parse(4.0, [5.0], 2)
    ((4.0, 5.0, 6.0), None, None)
    """
    text = _ParserText()
    names = [text.add_name() for _ in args]
    try:
        for name, item in zip(names, args, strict=True):
            text.read_item(name, item)
    except (UnparsedArgumentError, RecursionError):
        return None
    for kind, numbers in text.kinds.items():
        if numbers:
            text.refuse_if(f"not ({' is '.join(f'type({name})' for name in numbers)} is {kind})")
    body = "\n    ".join([*text.lines, f"return ({', '.join(text.numbers)}{',' * bool(text.numbers)})"])
    return _compile_text(f"def parse({', '.join(names)}):\n    {body}\n", "parse", text.constants)


FLOAT64 = np.dtype(np.float64)


def is_plain_array(item: object) -> bool:
    """Return whether an argument is an array of float64 that is read as it lies in memory."""
    if type(item) is not np.ndarray:
        return False
    return item.dtype is FLOAT64 and item.ndim > 0 and item.flags.c_contiguous and item.flags.aligned


class PartKind(IntEnum):
    """The kinds of parts of arguments that `recorder/replay_calls.h` reads, in the order that they have there."""

    FLOAT = 0
    FLOAT64 = 1
    SAME = 2
    EQUAL = 3
    LIST = 4
    TUPLE = 5
    DICT = 6
    ARRAY = 7


CONTAINER_PARTS: dict[Any, PartKind] = {list: PartKind.LIST, tuple: PartKind.TUPLE, dict: PartKind.DICT}


class ArgumentDescription:
    """Describes arguments, and gradients in their structure, for the extension module, as nested tuples.

    A tuple has the kind of a part, the place of its first number, the constant or the keys or the shape, the dtype of
    an array or what makes a new one (of a dict: one with its keys), and the parts or the number of numbers.

    >>> ArgumentDescription((1.0, [2.0])).arguments[4][0]
    (<PartKind.FLOAT: 0>, 0, None, None, ())
    """

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.count = 0
        """The number of numbers."""
        self.leaves: list[Any] = []
        """For each input of the recorded call, its place and shape; the shape is None for a number."""
        self.arguments = self._describe_item(args)

    def _describe_item(self, item: Any) -> tuple[Any, ...]:
        kind = type(item)
        if kind is float or kind is np.float64:
            return PartKind.FLOAT if kind is float else PartKind.FLOAT64, self._add_leaf(1, None), None, None, ()
        if item is None or kind is bool:
            return PartKind.SAME, 0, item, None, ()
        if kind is int or kind is str:
            return PartKind.EQUAL, 0, item, None, ()
        if is_plain_array(item):
            return PartKind.ARRAY, self._add_leaf(item.size, item.shape), item.shape, item.dtype, item.size
        if kind not in CONTAINER_PARTS:
            raise UnparsedArgumentError
        keys, parts = parts_of(item)
        if not all(type(key) is str for key in keys):
            raise UnparsedArgumentError
        described = tuple([self._describe_item(part) for part in parts])
        return CONTAINER_PARTS[kind], 0, tuple(keys), dict.fromkeys(keys), described

    def _add_leaf(self, size: int, shape: tuple[int, ...] | None) -> int:
        place = self.count
        self.leaves.append((place, shape))
        self.count += size
        if self.count > MAX_PARSED_NUMBERS:
            raise UnparsedArgumentError
        return place

    def describe_gradient(self, parts: Sequence[tuple[ContainerTree, int, int]], single: bool) -> Any:
        """Return the description of a gradient, None if there is none; each part has a range of the inputs."""
        try:
            leaves = [_describe_number(place, shape) for place, shape in self.leaves]
            grads = [_describe_tree(tree, iter(leaves[start:stop])) for tree, start, stop in parts]
        except (UnparsedArgumentError, RecursionError):
            return None
        return grads[0] if single else (PartKind.TUPLE, 0, (), None, tuple(grads))


RESULT_CONSTANTS = (bool, int, float, str, bytes, type(None))
"""Types of results that are constants of a recording and can be returned again and again."""


def describe_results(recording: CertifiedRecording, shapes: Sequence[tuple[int, ...]]) -> tuple[Any, ...] | None:
    """Return the description of results in their structure; None if the extension module does not make them.

    `shapes` are those of the results that are outputs of the circuit: float64 numbers, or arrays of them.
    """
    leaves = list[tuple[Any, ...]]()
    outputs = iter(shapes)
    place = 0
    for k, result in enumerate(recording.results):
        if k not in recording.moving:
            if type(result) not in RESULT_CONSTANTS:
                return None
            leaves.append((PartKind.SAME, 0, result, None, ()))
            continue
        shape = next(outputs)
        leaves.append(_describe_number(place, shape if shape else None))
        place += prod(shape)
    if not 0 < place <= MAX_PARSED_NUMBERS:
        return None
    try:
        return _describe_tree(recording.tree, iter(leaves))
    except (UnparsedArgumentError, RecursionError):
        return None


def _describe_number(place: int, shape: tuple[int, ...] | None) -> tuple[Any, ...]:
    """Return the description of a number, or of an array, that is made from numbers from a place on."""
    if shape is None:
        return PartKind.FLOAT, place, None, None, ()
    template = np.zeros(shape)
    return PartKind.ARRAY, place, shape, template.copy, template.size


def _describe_tree(tree: ContainerTree, leaves: Iterator[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the description of a structure whose leaves are described already."""
    if tree.kind is LEAF:
        return next(leaves)
    if tree.kind is None:
        return PartKind.SAME, 0, None, None, ()
    if tree.attributes or tree.kind not in CONTAINER_PARTS:
        raise UnparsedArgumentError
    children = tuple([_describe_tree(child, leaves) for child in tree.children])
    return CONTAINER_PARTS[tree.kind], 0, tuple(tree.keys), dict.fromkeys(tree.keys), children


def describe_call(args: tuple[Any, ...]) -> ArgumentDescription | None:
    """Return the description of arguments; None if they have a part that the extension module does not read."""
    try:
        return ArgumentDescription(args)
    except (UnparsedArgumentError, RecursionError):
        return None


def write_restorer(parts: Sequence[tuple[ContainerTree, int, int]], *, single: bool) -> Callable[[Any], Any] | None:
    """Return a function from numbers (a value, then a gradient by every input) to the value and selected gradients.

    Each part has the structure of an argument, and the range of inputs that belongs to it.
    """
    constants: dict[str, Any] = {}
    try:
        grads = [_write_tree(tree, iter(range(start + 1, stop + 1)), constants) for tree, start, stop in parts]
    except (UnparsedArgumentError, RecursionError):
        return None
    gradient = grads[0] if single else f"({', '.join(grads)}{',' * bool(grads)})"
    return _compile_text(f"def restore(n):\n    return n[0], {gradient}\n", "restore", constants)


def _write_tree(tree: ContainerTree, places: Any, constants: dict[str, Any]) -> str:
    if tree.kind is LEAF:
        return f"n[{next(places)}]"
    parts = [_write_tree(child, places, constants) for child in tree.children]
    if tree.kind is None:
        return "None"
    if tree.kind is STATIC or tree.attributes:
        raise UnparsedArgumentError
    if tree.kind not in (list, tuple, dict):
        name = f"C{len(constants)}"
        constants[name] = tree.build_subclass
        return f"{name}([{', '.join(parts)}])"
    if tree.kind is list:
        return f"[{', '.join(parts)}]"
    if tree.kind is tuple:
        return f"({', '.join(parts)}{',' * bool(parts)})"
    names = [f"C{len(constants) + k}" for k in range(len(parts))]
    constants.update(zip(names, tree.keys, strict=True))
    return f"{{{', '.join(f'{name}: {part}' for name, part in zip(names, parts, strict=True))}}}"


def _compile_text(text: str, name: str, constants: dict[str, Any]) -> Callable[..., Any]:
    scope = dict(constants)
    # The text has no words of the caller's in it: names are numbered, and values are constants of the scope.
    exec(compile(text, "<wiregrad argument parser>", "exec"), scope)
    function: Callable[..., Any] = scope[name]
    return function
