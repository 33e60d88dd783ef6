"""wg.compile: a Python function that is recorded once and replayed natively, as long as it takes the same branches.

Kept true: no stale result. A replay counts only if everything that steered Python has the same bits as when the
function was recorded. Otherwise another recording is tried; if none is valid, the function runs and is recorded anew.
Recordings are told apart by what they assume about a call: structure, shapes, dtypes, arguments that are no real
numbers, the convention for kinks.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from os.path import basename
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from wiregrad.backends.replay_engines import InterpreterReplay, NativeReplay, RecordingReplay, make_replay
from wiregrad.dtypes import PythonNumber, WireValue, count_with_noun, format_brief_number
from wiregrad.errors import GradientError, OperandError, short_repr
from wiregrad.frontends.recording.arguments import LEAF, ContainerTree, unflatten
from wiregrad.frontends.recording.session import (
    Argnames,
    Argnums,
    check_callable,
    flatten_argument,
    function_name,
    join_arguments,
    resolve_arguments,
)
from wiregrad.frontends.recording.tape import STATE, WATCHES
from wiregrad.frontends.replay.outside_state import ComparesItself, OutsideState
from wiregrad.frontends.replay.recorded_calls import (
    CallSignature,
    CertifiedRecording,
    NoSignatureError,
    NotReplayableError,
    ValuesGivenError,
    certify,
    plain_result,
)
from wiregrad.frontends.transforms.derivatives import make_value_and_grad
from wiregrad.inspect.report import Report, format_capped_list
from wiregrad.ir import CircuitGraph, Place, certificates
from wiregrad.ir.types_and_kinks import CHOSEN_CONVENTIONS, chosen_convention

ERROR_SETTINGS: Any = getattr(sys.modules.get("numpy._core.umath"), "_extobj_contextvar", None)
"""The context variable that holds NumPy's error handling, if this version of NumPy has one."""
MAX_RECORDINGS = 64
"""Default number of recordings of one function that are kept."""
MAX_UNDONE_RECORDINGS = 3
"""A function is not recorded again after this many recordings that changed outside state."""
CHANGES_OUTSIDE = "it changes what it uses from outside"
NOT_REPRODUCIBLE = "a replay at once gave another result: it depends on something else"
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
    limit: int = MAX_RECORDINGS,
) -> CompiledFunction[..., Any]: ...
@overload
def compile(
    f: Callable[P, Result],
    *,
    argnums: Argnums | None = None,
    argnames: Argnames | None = None,
    limit: int = MAX_RECORDINGS,
) -> CompiledFunction[P, Result]: ...
def compile(
    f: Callable[..., Any],
    *,
    argnums: Argnums | None = None,
    argnames: Argnames | None = None,
    limit: int = MAX_RECORDINGS,
) -> CompiledFunction[..., Any]:
    """Return a function that records f on its first call and then replays the recording, natively if possible.

    A call that takes another branch is recorded too; at most `limit` recordings are kept. `argnums` and `argnames`
    select the arguments that `value_and_grad` differentiates by.

    >>> def huber(x):
    ...     return 0.5 * x * x if abs(x) < 1.0 else abs(x) - 0.5
    >>> fast = compile(huber)
    >>> fast(0.5), fast(0.25), fast(3.0)
    (0.125, 0.03125, 2.5)
    >>> fast.value_and_grad(-3.0)
    (2.5, -1.0)
    >>> fast.info.calls, len(fast.info.variants)
    (4, 2)
    """
    check_callable(f)
    if isinstance(f, CircuitGraph):
        raise OperandError("wg.compile takes a Python function; a circuit compiles itself: circuit.compile()")
    if type(limit) is not int or limit < 1:
        raise OperandError(f"limit is the number of recordings to keep, at least 1; got {short_repr(limit)}")
    return CompiledFunction(f, argnums, limit, argnames)


@dataclass(frozen=True, repr=False)
class VariantInfo(Report):
    """One recording of a compiled function."""

    nodes: int
    certificates: int
    tier: str
    reason: str
    """Why it is not replayed natively; empty if it is."""
    hits: int
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
    calls: int
    records: int
    variants: tuple[VariantInfo, ...]
    fallbacks: tuple[tuple[str, int], ...]
    """The reasons why the function itself was called, with counts."""

    def lines(self) -> Iterator[str]:
        """Return a line per variant and per reason."""
        done = f"{count_with_noun(self.calls, 'call')}, {count_with_noun(self.records, 'recording')}"
        yield f"{self.name}: {done}, {count_with_noun(len(self.variants), 'variant')}"
        yield from format_capped_list(self.variants, MAX_SHOWN_VARIANTS)
        yield from (
            f"  ran the function itself {count_with_noun(count, 'time')}: {why}" for why, count in self.fallbacks
        )


class RecordedVariant:
    """A recording that is kept: how it is replayed, and how its results are put together."""

    __slots__ = ("_single", "flip", "hits", "is_real", "number", "quick", "recording", "replay")

    def __init__(self, recording: CertifiedRecording, replay: RecordingReplay, flip: str, number: int) -> None:
        self.replay = replay
        self.flip = flip
        self.number = number
        self.hits = 0
        self._single = recording.tree.kind is LEAF and bool(recording.moving)
        self.quick = replay.single_result_builtin() if self._single and isinstance(replay, NativeReplay) else None
        """A function of floats that returns the result, or None if Python would take another branch."""
        self.is_real = self._single and isinstance(recording.results[0], float | np.floating)
        """Whether the result is one real number that depends on the inputs."""
        constants = [None if k in recording.moving else result for k, result in enumerate(recording.results)]
        # The arguments and results of the recorded call are no longer needed, and may be large.
        self.recording = replace(recording, inputs=[], results=constants)

    def replay_value(self, inputs: Sequence[Any]) -> Any:
        """Return the function's result at a point, or `BRANCH_FLIPPED` if Python would take another branch."""
        outputs = self.replay.compute_results(inputs)
        if outputs is None:
            return BRANCH_FLIPPED
        return outputs[0] if self._single else self._build_result(outputs)

    def _build_result(self, outputs: Sequence[Any]) -> Any:
        # Arrays that are constants of the recording are copied, since the caller may change them.
        leaves = [x.copy() if type(x) is np.ndarray else x for x in self.recording.results]
        for k, output in zip(self.recording.moving, outputs, strict=True):
            leaves[k] = output
        return unflatten(self.recording.tree, leaves)

    def replay_gradient(self, inputs: Sequence[Any]) -> Any:
        """Return the result and its gradients, or `BRANCH_FLIPPED` if Python would take another branch."""
        value_and_gradient = self.replay.compute_gradient(inputs) if self.is_real else None
        return BRANCH_FLIPPED if value_and_gradient is None else value_and_gradient

    def summarize(self) -> VariantInfo:
        """Return a summary of the recording."""
        circuit = self.recording.circuit
        replay = self.replay
        nodes = 0 if circuit is None else len(circuit)
        return VariantInfo(nodes, len(self.recording.checks), replay.tier, replay.reason, self.hits, self.flip)


class VariantCache:
    """The recordings that were made with one state of everything that the function reads from outside."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self._f = f
        self.groups: dict[Any, list[RecordedVariant]] = {}
        self.quick: dict[tuple[Any, ...], list[RecordedVariant]] = {}
        """The groups by `quick_key`, for simple calls."""
        self.direct: str | None = None
        """Why the function itself must run; None if it can be replayed."""

    @functools.cached_property
    def outside_state(self) -> OutsideState:
        """What the function reads besides its arguments, inspected on the first call, not at the definition."""
        return OutsideState(self._f)


BRANCH_FLIPPED = object()
"""Returned in place of a result when a replay is not valid."""


class CompiledFunction(ComparesItself, Generic[P, Result]):
    """A function that is replayed where possible; `wg.compile` returns it."""

    def __init__(
        self, f: Callable[P, Result], argnums: Argnums | None, limit: int, argnames: Argnames | None = None
    ) -> None:
        functools.update_wrapper(self, f, updated=())
        self._f = f
        self._argnums = argnums
        self._argnames = argnames
        self._limit = limit
        # Reentrant, because garbage collection may call anything while the lock is held, this function too.
        self._lock = threading.RLock()
        self._differentiated: Callable[..., Any] = make_value_and_grad(f, argnums, argnames)
        # Arguments that are named are found by the slow path.
        self._chosen = make_gradient_picker(() if argnames is not None else 0 if argnums is None else argnums)
        self.clear()

    def clear(self) -> None:
        """Forget all recordings and counts; what the function reads from outside is inspected again."""
        self._fallbacks: Counter[str] = Counter()
        self._calls = 0
        self._records = 0
        self._warned = False
        self._changes = 0
        """How often a recording changed outside state and had to be undone."""
        self._cache = VariantCache(self._f)

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
        name = getattr(self._f, "__qualname__", "")
        module = sys.modules.get(getattr(self._f, "__module__", None) or "")
        if getattr(module, name, None) is self:
            return name
        options = {"argnums": self._argnums, "argnames": self._argnames, "limit": self._limit}
        return functools.partial(compile, **options), (self._f,)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        """Return what the function returns."""
        self._calls += 1
        if not kwargs:
            single = len(args) == 1 and type(args[0]) is not float
            key, inputs = quick_key(args[0]) if single else (tuple(map(type, args)), args)
            cache = self._cache
            group = cache.quick.get(key)
            if group and not is_disturbed(cache):
                variant = group[0]
                quick_result: Result | None = None if variant.quick is None else variant.quick(*inputs)
                if quick_result is not None:
                    variant.hits += 1
                    return quick_result
                result: Result = self._ask_variants(group, RecordedVariant.replay_value, inputs)
                if result is not BRANCH_FLIPPED:
                    return result
        answer: Result = self._answer_call(args, kwargs, self._f, RecordedVariant.replay_value)
        return answer

    def value_and_grad(self, /, *args: P.args, **kwargs: P.kwargs) -> tuple[Result, Any]:
        """Return the value and its gradient by the arguments that were selected, as `wg.value_and_grad(f)` does."""
        self._calls += 1
        if not kwargs and len(args) > self._chosen[1]:
            single = len(args) == 1 and type(args[0]) is not float
            key, inputs = quick_key(args[0]) if single else (tuple(map(type, args)), args)
            cache = self._cache
            group = cache.quick.get(key)
            if group and not is_disturbed(cache):
                result = self._ask_variants(group, RecordedVariant.replay_gradient, inputs)
                if result is not BRANCH_FLIPPED:
                    value, grads = result
                    return value, self._chosen[0](restore_container(args[0], grads) if single else grads)
        query = self._make_gradient_query(args, kwargs)
        answer: tuple[Result, Any] = self._answer_call(args, kwargs, self._differentiated, query)
        return answer

    @property
    def info(self) -> CompileInfo:
        """The recordings, how often each was replayed, where branches flipped, and why the function itself ran."""
        with self._lock:
            recorded = [variant for group in self._cache.groups.values() for variant in group]
            variants = [variant.summarize() for variant in sorted(recorded, key=lambda variant: variant.number)]
            reasons = tuple(self._fallbacks.most_common())
        return CompileInfo(function_name(self._f), self._calls, self._records, tuple(variants), reasons)

    def _answer_call(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        f: Callable[..., Any],
        ask: Callable[[RecordedVariant, Any], Any],
    ) -> Any:
        """Return the result of a valid variant, otherwise that of the function itself."""
        reason = self._find_fallback_reason()
        call: CallSignature | str = reason or signature_of(args, kwargs)
        if isinstance(call, str):
            return self._call_function(f, args, kwargs, call)
        cache = self._cache
        key = (chosen_convention(), call.key)
        result = self._ask_variants(cache.groups.get(key, []), ask, call.inputs)
        return self._record_call(args, kwargs, f, ask, key, call, cache) if result is BRANCH_FLIPPED else result

    def _find_fallback_reason(self) -> str | None:
        """Return why the function itself has to run for any arguments, or None; drop recordings that are stale."""
        if STATE.tape is not None or STATE.is_careful:
            # Inside another recording the function becomes part of that recording, so that transforms compose.
            return "inside a transform, a trace or wg.anomaly()"
        if errors_are_visible():
            return "np.errstate or np.seterr makes numbers raise or call a function"
        if self._cache.outside_state.changed():
            # Recordings that other threads still add to the old object are dropped with it.
            self._cache = VariantCache(self._f)
        cache = self._cache
        return (
            cache.direct
            or cache.outside_state.opaque
            or (CHANGES_OUTSIDE if self._changes >= MAX_UNDONE_RECORDINGS else None)
        )

    def _ask_variants(
        self, group: list[RecordedVariant], ask: Callable[[RecordedVariant, Any], Any], inputs: Sequence[Any]
    ) -> Any:
        """Return the result of the first valid variant and move it to the front; `BRANCH_FLIPPED` if none is valid."""
        for variant in tuple(group):
            result = ask(variant, inputs)
            if result is not BRANCH_FLIPPED:
                variant.hits += 1
                if group[0] is not variant:
                    with self._lock:
                        # In one step, since other threads read the list; while it is sorted in place it looks empty.
                        group[:] = [variant, *(other for other in group if other is not variant)]
                return result
        return BRANCH_FLIPPED

    def _call_function(self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], reason: str) -> Any:
        """Call the function itself, and count the reason."""
        self._fallbacks[reason] += 1
        return f(*args, **kwargs)

    def _record_call(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        f: Callable[..., Any],
        ask: Callable[[RecordedVariant, Any], Any],
        key: Any,
        call: CallSignature,
        cache: VariantCache,
    ) -> Any:
        """Run and record the function; return its result."""
        full = self._records >= self._limit
        if full:
            self._warn_once()
        with self._lock:
            cache.outside_state.follow(*call.named)
        if cache.outside_state.opaque is not None:
            return self._call_function(f, args, kwargs, cache.outside_state.opaque)
        recording = self._try_recording(args, kwargs, cache, keep=not full)
        if not isinstance(recording, CertifiedRecording):
            return self._call_after_failure(recording, f, args, kwargs)
        if full:
            self._fallbacks[f"recorded {self._limit} times, which is the limit"] += 1
            return unflatten(recording.tree, recording.results) if f is self._f else f(*args, **kwargs)
        with self._lock:
            self._records += 1
        replay = None if recording.leak else make_replay(recording)
        if replay is None:
            self._fallbacks[recording.leak or NOT_REPRODUCIBLE] += 1
            return unflatten(recording.tree, recording.results) if f is self._f else f(*args, **kwargs)
        variant = RecordedVariant(recording, replay, explain_recording(cache, key, call.inputs), self._records)
        if not cache.outside_state.changed():
            # A change means that another thread has interfered, so the recording is not kept.
            self._keep_variant(cache, key, variant, args, kwargs)
        answer = ask(variant, call.inputs)
        return f(*args, **kwargs) if answer is BRANCH_FLIPPED else answer

    def _try_recording(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], cache: VariantCache, *, keep: bool
    ) -> CertifiedRecording | BaseException:
        """Return a recording of the function, or the error that prevented it; then its effects were undone."""
        try:
            recording = certify(self._f, args, kwargs, keep=keep)
        except BaseException as error:
            self._undo_changes(cache)
            if isinstance(error, KeyboardInterrupt):
                raise
            if isinstance(error, NotReplayableError):
                cache.direct = str(error)
            return error
        return NotReplayableError(CHANGES_OUTSIDE) if self._undo_changes(cache) else recording

    def _call_after_failure(
        self, error: BaseException, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call the function itself after it could not be recorded."""
        if isinstance(error, NotReplayableError):
            return self._call_function(f, args, kwargs, str(error))
        try:
            return self._call_function(f, args, kwargs, f"recording it raised {type(error).__name__}")
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
        self, cache: VariantCache, key: Any, variant: RecordedVariant, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        with self._lock:
            group = cache.groups.setdefault(key, [])
            group.insert(0, variant)
            if not kwargs and not CHOSEN_CONVENTIONS.active_blocks() and has_quick_key(args):
                single = len(args) == 1 and type(args[0]) is not float
                cache.quick[quick_key(args[0])[0] if single else tuple(map(type, args))] = group

    def _warn_once(self) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{function_name(self._f)} was recorded {self._limit} times and still takes new branches: from now on "
                f"calls that match no recording run the function itself; see .info, or give wg.compile(f, limit=...)",
                RuntimeWarning,
                stacklevel=5,
            )

    def _make_gradient_query(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[RecordedVariant, Any], Any]:
        """Return a function that asks a variant for value and gradient."""

        def ask(variant: RecordedVariant, inputs: Sequence[Any]) -> Any:
            ranges = self._argument_ranges(args, kwargs) if variant.is_real else None
            if ranges is None:
                # There is no gradient: the transform raises the error, unless a branch has flipped.
                flipped = variant.replay_value(inputs) is BRANCH_FLIPPED
                return BRANCH_FLIPPED if flipped else self._differentiated(*args, **kwargs)
            value_and_gradient = variant.replay.compute_gradient(inputs)
            if value_and_gradient is None:
                return BRANCH_FLIPPED
            value, gradient = value_and_gradient
            parts, single = ranges
            grads = [unflatten(tree, list(gradient[start:stop])) for tree, start, stop in parts]
            return value, grads[0] if single else tuple(grads)

        return ask

    def _argument_ranges(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[tuple[ContainerTree, int, int]], bool] | None:
        """Return the structure and the range of inputs of each argument to differentiate by, and whether it is one.

        Return None if these arguments are not there, or if one has nothing to differentiate by.
        """
        try:
            places, single = resolve_arguments(self._f, args, kwargs, self._argnums, self._argnames)
        except GradientError:
            return None
        arguments = join_arguments(args, kwargs)
        counts = [len(CallSignature(arg).inputs) for arg in arguments.values()]
        starts = dict(zip(arguments, accumulate(counts, initial=0), strict=False))
        parts = []
        for place in places:
            _, tree, leaves = flatten_argument(arguments[place])
            count = len(CallSignature(arguments[place]).inputs)
            if len(leaves) != count:
                return None
            parts.append((tree, starts[place], starts[place] + count))
        return parts, single


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


def make_gradient_picker(argnums: Argnums) -> tuple[Callable[[Any], Any], float]:
    """Return a function that picks the gradients `argnums` selects, and the largest of these argument numbers.

    >>> pick, largest = make_gradient_picker((2, 0))
    >>> pick([10.0, 20.0, 30.0]), largest
    ((30.0, 10.0), 2)
    """
    if type(argnums) is int and argnums >= 0:
        return operator.itemgetter(argnums), argnums
    is_simple = isinstance(argnums, list | tuple) and all(type(k) is int and k >= 0 for k in argnums)
    if isinstance(argnums, int) or not is_simple or len(set(argnums)) < len(argnums) or not argnums:
        # Counted from the end, or wrong: left to the slow path, since no call has so many arguments.
        return operator.itemgetter(0), math.inf
    numbers = list(argnums)
    return lambda grads: tuple([grads[k] for k in numbers]), max(numbers)


def quick_key(item: Any) -> tuple[tuple[Any, ...], Sequence[Any]]:
    """Return a key for the only argument of a call, and its numbers, without recursing into it."""
    kind = type(item)
    if kind is list or kind is tuple:
        return (kind, len(item), *map(type, item)), item
    if kind is dict:
        numbers = tuple(item.values())
        # The types of the keys count too: a member of an enumeration may equal a string.
        return (kind, *map(type, item), *item, *map(type, numbers)), numbers
    return (None, kind), ()


def has_quick_key(args: tuple[Any, ...]) -> bool:
    """Return whether arguments are floats, or one list, tuple or dict (with string keys) of floats."""
    only: Any = args[0] if len(args) == 1 else None
    if type(only) is dict:
        return all(type(key) is str for key in only) and all(type(number) is float for number in only.values())
    return all(type(number) is float for number in (only if type(only) in (list, tuple) else args))


def restore_container(item: Any, grads: Sequence[Any]) -> list[Any]:
    """Return gradients in a container like the argument (a list, tuple or dict), in a list of one argument."""
    return [dict(zip(item, grads, strict=True)) if type(item) is dict else type(item)(grads)]


def explain_recording(cache: VariantCache, key: object, inputs: Sequence[Any]) -> str:
    """Explain why a call was recorded: which certificate of the variant used last does not hold."""
    group = cache.groups.get(key)
    if not group:
        return "first call" if not cache.groups else "first call with arguments of this kind"
    return describe_flip(group[0].recording, inputs)


def describe_flip(recording: CertifiedRecording, inputs: Sequence[Any]) -> str:
    """Describe the certificate of a recording that does not hold at a point.

    >>> recording = certify(lambda x: x if x > 0 else -x, (3.0,), {})
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
