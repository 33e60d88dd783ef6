"""wg.compile: a Python function that is recorded once and replayed natively, as long as it goes the same way.

Kept true: no stale answer. A replay counts only if everything that steered Python carries the bits it carried when the
function was recorded; otherwise another recording is tried, and if none holds the function runs and is recorded anew.
What a recording takes for granted about a call (structure, shapes, dtypes, arguments that are no real numbers, the
convention for kinks) tells recordings apart.
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
from os.path import basename
from types import MethodType
from typing import Any

import numpy as np

from wiregrad.backends.replay import Interpreted, Native, Replay, replay_of
from wiregrad.dtypes import counted, number
from wiregrad.errors import OperandError, shown
from wiregrad.frontends.certified import Certified, NotReplayableError, certify, plain_result
from wiregrad.frontends.outside import ComparesItself, OutsideState
from wiregrad.frontends.session import Argnums, check_function, name_of
from wiregrad.frontends.signature import NoSignatureError, Signature, ValuesGivenError
from wiregrad.frontends.tape import STATE, WATCHES
from wiregrad.frontends.transforms import value_and_grad
from wiregrad.frontends.tree import LEAF, flatten, unflatten
from wiregrad.inspect.report import Report, capped
from wiregrad.ir import Circuit, Place, certificates
from wiregrad.ir.mode import CHOICES, chosen_convention

ERROR_SETTINGS: Any = getattr(sys.modules.get("numpy._core.umath"), "_extobj_contextvar", None)
"""The context variable in which NumPy keeps what it does about errors, where it has one."""
LIMIT = 64
"""How many recordings of one function are kept."""
MAX_CHANGES = 3
"""After so many recordings that changed what is outside, a function is not recorded again."""
CHANGES = "it changes what it uses from outside"
MOST_SHOWN = 20
"""How many of them `info` writes out."""


def compile(f: Callable[..., Any], *, argnums: Argnums = 0, limit: int = LIMIT) -> CompiledFunction:
    """Return a function that records f when it is first called and replays the recording, natively where it can.

    A branch that goes another way is recorded too; at most `limit` recordings are kept. `argnums` says what
    `value_and_grad` differentiates by.

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
    check_function(f)
    if isinstance(f, Circuit):
        raise OperandError("wg.compile takes a Python function; a circuit compiles itself: circuit.compile()")
    if type(limit) is not int or limit < 1:
        raise OperandError(f"limit is how many recordings are kept, at least 1; got {shown(limit)}")
    return CompiledFunction(f, argnums, limit)


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
    """What made it be recorded."""

    def lines(self) -> Iterator[str]:
        """Return one line."""
        why = f" ({self.reason})" if self.reason else ""
        checks = counted(self.certificates, "certificate")
        yield f"{counted(self.nodes, 'node')}, {checks}, {self.tier}{why}, {counted(self.hits, 'hit')}: {self.flip}"


@dataclass(frozen=True, repr=False)
class CompileInfo(Report):
    """What a compiled function has done so far."""

    name: str
    calls: int
    records: int
    variants: tuple[VariantInfo, ...]
    fallbacks: tuple[tuple[str, int], ...]
    """Why the function itself was called, and how often."""

    def lines(self) -> Iterator[str]:
        """Return a line per variant and per reason."""
        done = f"{counted(self.calls, 'call')}, {counted(self.records, 'recording')}"
        yield f"{self.name}: {done}, {counted(len(self.variants), 'variant')}"
        yield from capped(self.variants, MOST_SHOWN)
        yield from (f"  ran the function itself {counted(count, 'time')}: {why}" for why, count in self.fallbacks)


class Variant:
    """A recording that is kept: how it is replayed and what its results are made of."""

    __slots__ = ("_single", "flip", "found", "hits", "is_real", "number", "quick", "replay")

    def __init__(self, found: Certified, replay: Replay, flip: str, number: int) -> None:
        self.replay, self.flip, self.number, self.hits = replay, flip, number, 0
        self._single = found.tree.kind is LEAF and bool(found.moving)
        self.quick = replay.quick() if self._single and isinstance(replay, Native) else None
        """What takes floats and answers with the result, or with None if Python would go another way."""
        self.is_real = self._single and isinstance(found.results[0], float | np.floating)
        """Whether the result is one real number that depends on the inputs."""
        constants = [None if k in found.moving else result for k, result in enumerate(found.results)]
        # What the arguments and results were is no longer needed, and may be large.
        self.found = replace(found, inputs=[], results=constants)

    def value(self, inputs: Sequence[Any]) -> Any:
        """Return the function's result at a point, `FLIPPED` if Python would go another way."""
        found = self.replay.values(inputs)
        if found is None:
            return FLIPPED
        return found[0] if self._single else self._built(found)

    def _built(self, outputs: Sequence[Any]) -> Any:
        # An array that is a constant of the recording is handed out as a copy, since its receiver may change it.
        leaves = [x.copy() if type(x) is np.ndarray else x for x in self.found.results]
        for k, output in zip(self.found.moving, outputs, strict=True):
            leaves[k] = output
        return unflatten(self.found.tree, leaves)

    def pulled(self, inputs: Sequence[Any]) -> Any:
        """Return the result and its gradient by every input, `FLIPPED` if Python would go another way."""
        found = self.replay.gradient(inputs) if self.is_real else None
        return FLIPPED if found is None else found

    def info(self) -> VariantInfo:
        """Return what there is to know."""
        circuit, replay = self.found.circuit, self.replay
        nodes = 0 if circuit is None else len(circuit)
        return VariantInfo(nodes, len(self.found.checks), replay.tier, replay.reason, self.hits, self.flip)


class Kept:
    """The recordings that were made with one state of what is outside."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self._f = f
        self.groups: dict[Any, list[Variant]] = {}
        self.quick: dict[tuple[Any, ...], list[Variant]] = {}
        """The groups by what tells simple calls apart."""
        self.direct: str | None = None
        """Why the function itself must run."""

    @functools.cached_property
    def outside(self) -> OutsideState:
        """What the function reads besides its arguments; looked at when it is first called, not when it is defined."""
        return OutsideState(self._f)


FLIPPED = object()
"""Stands for the result of a replay that does not count."""


class CompiledFunction(ComparesItself):
    """A function that is replayed where it can be; `wg.compile` makes it."""

    def __init__(self, f: Callable[..., Any], argnums: Argnums, limit: int) -> None:
        functools.update_wrapper(self, f, updated=())
        self._f, self._argnums, self._limit = f, argnums, limit
        # A collection of garbage inside may call anything, this function too.
        self._lock = threading.RLock()
        self._differentiated = value_and_grad(f, argnums)
        self._chosen = chosen(argnums)
        self.clear()

    def clear(self) -> None:
        """Forget all recordings and counts: what the function uses from outside is looked at again."""
        self._fallbacks: Counter[str] = Counter()
        self._calls, self._records, self._warned = 0, 0, False
        self._changes = 0
        """How often a recording changed what is outside, and had to be undone."""
        self._kept = Kept(self._f)

    def __get__(self, thing: Any, owner: Any = None) -> Any:
        return self if thing is None else MethodType(self, thing)

    def __repr__(self) -> str:
        return f"wg.compile({name_of(self._f)})"

    def __reduce__(self) -> Any:
        # Code lives in one process: what is pickled or copied is compiled again where it arrives.
        name = getattr(self._f, "__qualname__", "")
        module = sys.modules.get(getattr(self._f, "__module__", None) or "")
        if getattr(module, name, None) is self:
            return name
        return functools.partial(compile, argnums=self._argnums, limit=self._limit), (self._f,)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return what the function returns."""
        self._calls += 1
        if not kwargs:
            single = len(args) == 1 and type(args[0]) is not float
            key, inputs = quick_key(args[0]) if single else (tuple(map(type, args)), args)
            kept = self._kept
            group = kept.quick.get(key)
            if group and not disturbed(kept):
                variant = group[0]
                found = None if variant.quick is None else variant.quick(*inputs)
                if found is not None:
                    variant.hits += 1
                    return found
                found = self._search(group, Variant.value, inputs)
                if found is not FLIPPED:
                    return found
        return self._answer(args, kwargs, self._f, Variant.value)

    def value_and_grad(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return the value and its gradient by the arguments that `argnums` names, as `wg.value_and_grad(f)` does."""
        self._calls += 1
        if not kwargs and len(args) > self._chosen[1]:
            single = len(args) == 1 and type(args[0]) is not float
            key, inputs = quick_key(args[0]) if single else (tuple(map(type, args)), args)
            kept = self._kept
            group = kept.quick.get(key)
            if group and not disturbed(kept):
                found = self._search(group, Variant.pulled, inputs)
                if found is not FLIPPED:
                    value, grads = found
                    return value, self._chosen[0](like(args[0], grads) if single else grads)
        return self._answer(args, kwargs, self._differentiated, self._pulled(args, kwargs))

    @property
    def info(self) -> CompileInfo:
        """Recordings, how often each was replayed, where branches flipped, and when the function itself was called."""
        with self._lock:
            kept = [variant for group in self._kept.groups.values() for variant in group]
            variants = [variant.info() for variant in sorted(kept, key=lambda variant: variant.number)]
            reasons = tuple(self._fallbacks.most_common())
        return CompileInfo(name_of(self._f), self._calls, self._records, tuple(variants), reasons)

    def _answer(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], f: Callable[..., Any], ask: Callable[[Variant, Any], Any]
    ) -> Any:
        """Return what the variants say, or else what the function says."""
        reason = self._reason_around()
        call: Signature | str = reason or signature_of(args, kwargs)
        if isinstance(call, str):
            return self._itself(f, args, kwargs, call)
        kept = self._kept
        key = (chosen_convention(), call.key)
        found = self._search(kept.groups.get(key, []), ask, call.inputs)
        return self._recorded(args, kwargs, f, ask, key, call, kept) if found is FLIPPED else found

    def _reason_around(self) -> str | None:
        """Return why the function itself has to run, whatever it is called with; forgets recordings that are stale."""
        if STATE.tape is not None or STATE.careful:
            # Inside another recording the function is recorded with it, so that everything composes.
            return "inside a transform, a trace or wg.anomaly()"
        if errors_are_visible():
            return "np.errstate or np.seterr makes numbers raise or call a function"
        if self._kept.outside.changed():
            # What other threads still put there is forgotten too.
            self._kept = Kept(self._f)
        kept = self._kept
        return kept.direct or kept.outside.opaque or (CHANGES if self._changes >= MAX_CHANGES else None)

    def _search(self, group: list[Variant], ask: Callable[[Variant, Any], Any], inputs: Sequence[Any]) -> Any:
        """Return what the first variant that holds says; it is asked first next time."""
        for variant in tuple(group):
            found = ask(variant, inputs)
            if found is not FLIPPED:
                variant.hits += 1
                if group[0] is not variant:
                    with self._lock:
                        # In one step, since other threads read: a list that is being sorted is empty.
                        group[:] = [variant, *(other for other in group if other is not variant)]
                return found
        return FLIPPED

    def _itself(self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], reason: str) -> Any:
        """Call the function itself, and say why."""
        self._fallbacks[reason] += 1
        return f(*args, **kwargs)

    def _recorded(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        f: Callable[..., Any],
        ask: Callable[[Variant, Any], Any],
        key: Any,
        call: Signature,
        kept: Kept,
    ) -> Any:
        """Run and record the function; returns what it gave."""
        full = self._records >= self._limit
        if full:
            self._warn()
        with self._lock:
            kept.outside.follow(*call.named)
        if kept.outside.opaque is not None:
            return self._itself(f, args, kwargs, kept.outside.opaque)
        found = self._certified(args, kwargs, kept, keep=not full)
        if not isinstance(found, Certified):
            return self._itself_after(found, f, args, kwargs)
        if full:
            self._fallbacks[f"recorded {self._limit} times, which is the limit"] += 1
            return unflatten(found.tree, found.results) if f is self._f else f(*args, **kwargs)
        with self._lock:
            self._records += 1
        replay = None if found.leak else replay_of(found)
        if replay is None:
            self._fallbacks[found.leak or "a replay at once gave another result: it depends on something else"] += 1
            return unflatten(found.tree, found.results) if f is self._f else f(*args, **kwargs)
        variant = Variant(found, replay, flip(kept, key, call.inputs), self._records)
        if not kept.outside.changed():
            # Otherwise another thread has changed something meanwhile.
            self._keep(kept, key, variant, args, kwargs)
        answer = ask(variant, call.inputs)
        return f(*args, **kwargs) if answer is FLIPPED else answer

    def _certified(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], kept: Kept, *, keep: bool
    ) -> Certified | BaseException:
        """Return a recording of the function, or what kept it from being recorded: then no effects of it are left."""
        try:
            found = certify(self._f, args, kwargs, keep=keep)
        except BaseException as error:
            self._undo(kept)
            if isinstance(error, KeyboardInterrupt):
                raise
            if isinstance(error, NotReplayableError):
                kept.direct = str(error)
            return error
        return NotReplayableError(CHANGES) if self._undo(kept) else found

    def _itself_after(
        self, error: BaseException, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call the function itself where it could not be recorded."""
        if isinstance(error, NotReplayableError):
            return self._itself(f, args, kwargs, str(error))
        try:
            return self._itself(f, args, kwargs, f"recording it raised {type(error).__name__}")
        except AttributeError:
            # It uses methods that only recorded numbers have, so what was wrong with these is what is wrong.
            raise error from None

    def _undo(self, kept: Kept) -> bool:
        """Undo what a recording has changed outside, where it left recorded values; returns whether it changed it.

        What changes while other threads run, and code that writes nothing is recorded, was changed by those threads.
        """
        if not kept.outside.changed() or (threading.active_count() > 1 and not kept.outside.mutates):
            return False
        kept.outside.restore()
        self._changes += 1
        return True

    def _keep(self, kept: Kept, key: Any, variant: Variant, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        with self._lock:
            group = kept.groups.setdefault(key, [])
            group.insert(0, variant)
            if not kwargs and not CHOICES.active() and is_quick(args):
                single = len(args) == 1 and type(args[0]) is not float
                kept.quick[quick_key(args[0])[0] if single else tuple(map(type, args))] = group

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{name_of(self._f)} was recorded {self._limit} times, and still goes other ways: from now on calls "
                f"that no recording answers run the function itself; see .info, or give wg.compile(f, limit=...)",
                RuntimeWarning,
                stacklevel=5,
            )

    def _pulled(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[Variant, Any], Any]:
        """Return what asks a variant for value and gradient."""

        def ask(variant: Variant, inputs: Sequence[Any]) -> Any:
            parts = self._parts(args) if variant.is_real else None
            if parts is None:
                # Not something a gradient is taken of: the transform says so, unless a branch has flipped.
                flipped = variant.value(inputs) is FLIPPED
                return FLIPPED if flipped else self._differentiated(*args, **kwargs)
            found = variant.replay.gradient(inputs)
            if found is None:
                return FLIPPED
            grads = [unflatten(tree, list(found[1][start:stop])) for tree, start, stop in parts]
            return found[0], grads[0] if isinstance(self._argnums, int) else tuple(grads)

        return ask

    def _parts(self, args: tuple[Any, ...]) -> list[tuple[Any, int, int]] | None:
        """Return structure and range among the inputs of each argument to differentiate by; None if it has others."""
        starts, trees = [0], []
        for arg in args:
            trees.append(flatten(arg))
            starts.append(starts[-1] + len(Signature(arg).inputs))
        numbers = [self._argnums] if isinstance(self._argnums, int) else list(self._argnums)
        if not all(isinstance(k, int) and -len(args) <= k < len(args) for k in numbers):
            return None
        found = [(trees[k][1], starts[k % len(args)], starts[k % len(args) + 1]) for k in numbers]
        whole = all(len(trees[k][0]) == stop - start for k, (_, start, stop) in zip(numbers, found, strict=True))
        return found if whole and len({k % len(args) for k in numbers}) == len(numbers) else None


def signature_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Signature | str:
    """Return the signature of a call, or why it has none.

    >>> signature_of(({1.0},), {})
    'an argument is a set, which may change between calls; a method is compiled by wg.compile(object.method)'
    """
    try:
        return Signature((args, kwargs))
    except ValuesGivenError:
        return "an argument is a wg.Value"
    except NoSignatureError as reason:
        return str(reason)
    except RecursionError:
        return "an argument is nested too deeply, or contains itself"


def disturbed(kept: Kept) -> bool:
    """Return whether something around the call counts: a transform, a watcher, a chosen convention, what is outside."""
    # The first question is quick: whether there is anything of the kind at all. Who watches, watches carefully.
    around = STATE.innermost is not None or WATCHES.opened or CHOICES.opened
    if around and (STATE.tape is not None or STATE.careful or CHOICES.active()):
        return True
    unknown = ERROR_SETTINGS is None or ERROR_SETTINGS.get() is not _harmless[0]
    if unknown and errors_are_visible():
        return True
    return kept.outside.changed()


def errors_are_visible() -> bool:
    """Return whether NumPy raises, or calls a function of the user's, where a number overflows; a replay does not.

    >>> with np.errstate(divide="raise"):
    ...     errors_are_visible()
    True
    >>> errors_are_visible()
    False
    """
    visible = not {"raise", "call", "log"}.isdisjoint(np.geterr().values())
    if not visible and ERROR_SETTINGS is not None:
        _harmless[0] = ERROR_SETTINGS.get()
    return visible


_harmless: list[Any] = [None]
"""The settings of NumPy for errors that were last seen to raise nothing; reading them is slow, comparing is not."""


def chosen(argnums: Argnums) -> tuple[Callable[[Any], Any], float]:
    """Return what picks the gradients that are wanted, and the largest of the numbers they are picked by.

    >>> pick, largest = chosen((2, 0))
    >>> pick([10.0, 20.0, 30.0]), largest
    ((30.0, 10.0), 2)
    """
    if type(argnums) is int and argnums >= 0:
        return operator.itemgetter(argnums), argnums
    whole = isinstance(argnums, list | tuple) and all(type(k) is int and k >= 0 for k in argnums)
    if isinstance(argnums, int) or not whole or len(set(argnums)) < len(argnums) or not argnums:
        # Counted from the end, or wrong: the long way knows.
        return operator.itemgetter(0), math.inf
    numbers = list(argnums)
    return lambda grads: tuple([grads[k] for k in numbers]), max(numbers)


def quick_key(item: Any) -> tuple[tuple[Any, ...], Sequence[Any]]:
    """Return what tells the only argument of a call apart, and its numbers, without walking into it."""
    kind = type(item)
    if kind is list or kind is tuple:
        return (kind, len(item), *map(type, item)), item
    if kind is dict:
        numbers = tuple(item.values())
        # Another text may equal a key, such as a member of an enumeration.
        return (kind, *map(type, item), *item, *map(type, numbers)), numbers
    return (None, kind), ()


def is_quick(args: tuple[Any, ...]) -> bool:
    """Return whether arguments are floats, or one list, tuple or dict of floats, with text for keys."""
    only: Any = args[0] if len(args) == 1 else None
    if type(only) is dict:
        return all(type(key) is str for key in only) and all(type(number) is float for number in only.values())
    return all(type(number) is float for number in (only if type(only) in (list, tuple) else args))


def like(item: Any, grads: Sequence[Any]) -> list[Any]:
    """Return gradients as the list, tuple or dict that was given, as that of one argument."""
    return [dict(zip(item, grads, strict=True)) if type(item) is dict else type(item)(grads)]


def flip(kept: Kept, key: Any, inputs: Sequence[Any]) -> str:
    """Say what made a call be recorded: which certificate of the variant that was used last does not hold."""
    group = kept.groups.get(key)
    if not group:
        return "first call" if not kept.groups else "first call with arguments of this kind"
    return flip_of(group[0].found, inputs)


def flip_of(found: Certified, inputs: Sequence[Any]) -> str:
    """Say which certificate of a recording does not hold at a point.

    >>> found = certify(lambda x: x if x > 0 else -x, (3.0,), {})
    >>> flip_of(found, [-1.0]).partition(": ")[2]
    'x > 0.0 was True, now False'
    """
    circuit = found.circuit
    if circuit is None:
        return "nothing in it depends on the arguments"
    interpreted = Interpreted(found, "")
    values = interpreted.evaluated(inputs)
    if values is None:
        return "an op refused its operands"
    k = interpreted.flipped(values)
    if k is None:
        return "it hangs on the last bit"
    check = found.checks[k]
    text = certificates.condition(circuit, check)
    was, now = (_told(plain_result(x)) for x in (found.expected[k], values[check.node]))
    return f"flipped at {_at(check.place)}: {text} was {was}, now {now}"


def _told(value: Any) -> str:
    return str(value) if isinstance(value, bool) else number(value)


def _at(place: Place | None) -> str:
    return "an unknown line" if place is None else f"{basename(place.file)}:{place.line}"
