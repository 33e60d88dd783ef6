"""Settings: the environment variables that wiregrad reads, and what `with` blocks such as `no_grad` change.

A variable has allowed values. Any other value raises an error and is never ignored. An empty one counts as not set.

A block applies to what its body calls: not to other threads, not to other asyncio tasks (a task starts with the blocks
around the place where it was created), and not while the generator that entered it is suspended.

An interrupt at any moment leaves no block behind. Python runs signal handlers between two instructions, so also at the
beginning of an `__exit__` that is written in Python, which then never runs. Therefore a block is entered and left by
methods written in C, and whoever asks for the active blocks drops those that have ended.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
from _thread import allocate_lock
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import FrameType
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar

from wiregrad.errors import InputError, SettingError, short_repr, suggest_name
from wiregrad.lazy import NamedTuple

NATIVE_VARIABLE = "WIREGRAD_NATIVE"
VECTOR_MATH_VARIABLE = "WIREGRAD_VECTOR_MATH"
CONVENTION_VARIABLE = "WIREGRAD_CONVENTION"
OVERLAY_VARIABLE = "WIREGRAD_NUMPY_OVERLAY"
SCIPY_VARIABLE = "WIREGRAD_SCIPY"
RECORDER_VARIABLE = "WIREGRAD_RECORDER"
CACHE_VARIABLE = "WIREGRAD_CACHE"
THREADS_VARIABLE = "WIREGRAD_THREADS"
NATIVE_OFF = "0"
NATIVE_ON = "1"
NATIVE_LLVM = "llvm"
OVERLAY_OFF = "0"
SCIPY_OFF = "0"
RECORDER_PYTHON = "python"
RECORDER_C = "c"
CACHE_OFF = "0"
CACHE_ON = "1"
ALLOWED_VALUES = {
    NATIVE_VARIABLE: (NATIVE_OFF, NATIVE_ON, NATIVE_LLVM),
    VECTOR_MATH_VARIABLE: ("polynomial", "libmvec", "scalar"),
    CONVENTION_VARIABLE: ("min_norm", "torch", "jax"),
    OVERLAY_VARIABLE: (OVERLAY_OFF, "1"),
    SCIPY_VARIABLE: (SCIPY_OFF, "1"),
    RECORDER_VARIABLE: (RECORDER_PYTHON, RECORDER_C),
    CACHE_VARIABLE: (CACHE_OFF, CACHE_ON),
    THREADS_VARIABLE: ("1",),
}
"""The allowed values of each variable."""
FOLDER_VARIABLES = frozenset([CACHE_VARIABLE])
"""Variables whose value may also be the absolute path of a folder."""
COUNT_VARIABLES = frozenset([THREADS_VARIABLE])
"""Variables whose value may also be a larger whole number."""


def read_setting(variable: str) -> str:
    """Return the value of an environment variable; empty if it is not set.

    >>> os.environ[NATIVE_VARIABLE] = "bogus"
    >>> read_setting(NATIVE_VARIABLE)
    Traceback (most recent call last):
        ...
    wiregrad.errors.SettingError: the environment variable WIREGRAD_NATIVE must be one of 0, 1, llvm; got 'bogus'
    >>> del os.environ[NATIVE_VARIABLE]
    >>> read_setting(NATIVE_VARIABLE)
    ''
    """
    value = os.environ.get(variable, "")
    if not value:
        return value
    allowed = ALLOWED_VALUES[variable]
    takes_folder = variable in FOLDER_VARIABLES
    takes_count = variable in COUNT_VARIABLES
    is_folder = takes_folder and os.path.isabs(value)
    is_count = takes_count and value.isascii() and value.isdecimal() and int(value) > 0
    if value not in allowed and not is_folder and not is_count:
        near = suggest_name(value, allowed)
        folder = " or the absolute path of a folder" if takes_folder else " or a larger number" if takes_count else ""
        raise SettingError(
            f"the environment variable {variable} must be one of {', '.join(allowed)}{folder}; "
            f"got {short_repr(value)}{near}"
        )
    return value


def check_settings() -> None:
    """Raise `SettingError` if a variable has a value that is not allowed."""
    for variable in ALLOWED_VALUES:
        read_setting(variable)


def check_threads(threads: object) -> None:
    """Raise unless this is a number of threads for a batch, or None."""
    if threads is not None and (type(threads) is not int or threads < 1):
        raise InputError(
            f"threads is an integer of at least 1, or None for all available cores; got {short_repr(threads)}"
        )


T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

GENERATOR_FLAGS = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
SUSPENDABLE_FLAGS = GENERATOR_FLAGS | inspect.CO_COROUTINE


class _EnterMethod:
    """The method `__enter__`: looking it up does all the work, and calling it is one call of a method written in C."""

    def __get__(self, entry: OneTimeContext | None, owner: type) -> Callable[..., None]:
        if entry is None:
            # contextlib.ExitStack looks the method up on the class.
            return lambda entry: entry.__enter__()
        entry.make_ready(sys._getframe(1))
        return entry.unused.clear


class _ExitMethod:
    """The method `__exit__`: calling it is one call of a method written in C."""

    def __get__(self, entry: OneTimeContext | None, owner: type) -> Callable[..., None]:
        if entry is None:
            return lambda entry, *error: entry.__exit__(*error)
        return entry.held.__exit__


class EntryPoint(NamedTuple):
    """The instruction at which a frame enters a context."""

    frame: FrameType
    instruction: int


def _list_frames() -> Iterator[FrameType]:
    """Walk over the frames that are running in all threads."""
    for frame in sys._current_frames().values():
        running: FrameType | None = frame
        while running is not None:
            yield running
            running = running.f_back


class OneTimeContext:
    """A context that a `with` statement enters once, and that no interrupt leaves half entered or half left."""

    __slots__ = ("held", "unused")

    __enter__ = _EnterMethod()
    __exit__ = _ExitMethod()

    def __init__(self) -> None:
        self.unused: list[EntryPoint | None] = [None]
        """Not empty until the context is entered; while a frame is about to do that, where it does."""
        self.held = allocate_lock()
        """Locked from just before the context is entered until it is left; used as a flag, nothing waits for it."""

    @property
    def is_held(self) -> bool:
        """Whether the context is entered, or about to be, and not left."""
        return self.held.locked() and (not self.unused or self._is_being_entered())

    @property
    def is_active(self) -> bool:
        """Whether the context was entered and not left."""
        return not self.unused and self.held.locked()

    def prepare_entry(self, frame: FrameType) -> None:
        """Called just before a frame enters the context; subclasses override it."""

    def make_ready(self, frame: FrameType) -> None:
        """Prepare to be entered; raise if the context was entered before."""
        if not self.unused:
            raise RuntimeError("a block can be entered once; make a new one for every with statement")
        self.unused[:] = [EntryPoint(frame, frame.f_lasti)]
        self.held.acquire(blocking=False)
        try:
            self.prepare_entry(frame)
        except BaseException:
            self.held.release()
            raise

    def _is_being_entered(self) -> bool:
        """Return whether a frame of any thread is still at the instruction that enters the context.

        Python looks up `__enter__`, then `__exit__`. An interrupt may come between the two; then the context is neither
        entered nor left.
        """
        points = [point for point in self.unused if point is not None and point.frame.f_lasti == point.instruction]
        return any(point.frame is frame for point in points for frame in _list_frames())


class SettingBlock(OneTimeContext, Generic[T]):
    """One use of a setting in a `with` statement; also a decorator for functions that run inside such a block."""

    __slots__ = ("also", "frame", "inside", "setting", "value")

    def __init__(self, setting: ScopedSetting[T], value: T, also: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.setting = setting
        self.value = value
        self.also = also
        self.frame = 0
        """Id of the frame of the generator that entered the block; 0 if no generator did."""
        self.inside: frozenset[int] = frozenset()
        """Ids of the frames of generators that had entered blocks and were running when this block was entered."""

    def prepare_entry(self, frame: FrameType) -> None:
        """Register the block with its setting."""
        if self.also is not None:
            self.also()
        self.setting.add_block(self, frame)

    def __call__(self, f: Callable[P, R]) -> Callable[P, R]:
        """Return a function that runs in a block like this one."""

        @functools.wraps(f)
        def run_inside(*args: P.args, **kwargs: P.kwargs) -> R:
            with type(self)(self.setting, self.value, self.also):
                return f(*args, **kwargs)

        return run_inside


OpenBlocks: TypeAlias = dict[int, SettingBlock[Any]]


class ScopedSetting(Generic[T]):
    """A setting whose value blocks change."""

    def __init__(self, name: str, *gates: OpenBlocks) -> None:
        self.opened: OpenBlocks = {}
        """The blocks of all threads that may be active: while this is empty, the setting is changed nowhere."""
        self._gates = (self.opened, *gates)
        """All dicts that list the blocks: its own, and those that several settings share."""
        self._entered: ContextVar[tuple[SettingBlock[T], ...]] = ContextVar(name, default=())
        """The blocks of a context that were not entered by a generator."""

    def make_block(self, value: T, also: Callable[[], None] | None = None) -> SettingBlock[T]:
        """Return a block that gives the setting a value; `also` is called when the block is entered."""
        return SettingBlock(self, value, also)

    def add_block(self, block: SettingBlock[T], frame: FrameType) -> None:
        """Register a block that a frame is about to enter."""
        owner = _owning_frame(frame)
        owned = self._generator_blocks()
        if owned:
            block.inside = frozenset(_running_frames(owned))
        if owner is None:
            self._entered.set((*[other for other in self._entered.get() if other.is_active], block))
        else:
            block.frame = id(owner)
        for gate in self._gates:
            gate[id(block)] = block

    def active_blocks(self) -> list[SettingBlock[T]]:
        """Return the blocks that apply to the calling code, the innermost last."""
        if not self.opened:
            return []
        owned = self._generator_blocks()
        blocks = [block for block in self._entered.get() if not block.unused and block.held.locked()]
        return _merge_generator_blocks(blocks, [block for block in owned if block.is_active]) if owned else blocks

    def is_active(self) -> bool:
        """Return whether a block applies to the calling code; faster than listing the blocks."""
        for block in self._entered.get():
            if not block.unused and block.held.locked():
                return True
        return bool(self.opened) and bool(self.active_blocks())

    def _generator_blocks(self) -> list[SettingBlock[T]]:
        """Return the blocks that generators entered; forget all blocks that have ended."""
        entered_by_generators = []
        for block in list(self.opened.values()):
            if not block.is_held:
                for gate in self._gates:
                    gate.pop(id(block), None)
            elif block.frame:
                entered_by_generators.append(block)
        return entered_by_generators

    def active_values(self) -> list[T]:
        """Return the values of the active blocks, the innermost last."""
        return [block.value for block in self.active_blocks()]


def _merge_generator_blocks(blocks: list[SettingBlock[T]], owned: list[SettingBlock[T]]) -> list[SettingBlock[T]]:
    """Insert the blocks of the running generators where they belong among the other blocks."""
    for frame in _running_frames(owned):
        first_inside = next((k for k, block in enumerate(blocks) if frame in block.inside), len(blocks))
        blocks[first_inside:first_inside] = [block for block in owned if block.frame == frame]
    return blocks


def _running_frames(owned: list[SettingBlock[Any]]) -> list[int]:
    """Return the ids of the frames that own blocks and are running in this thread, the outermost first."""
    owners = {block.frame for block in owned}
    running: list[int] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if id(frame) in owners:
            running.append(id(frame))
        frame = frame.f_back
    return running[::-1]


def _owning_frame(frame: FrameType) -> FrameType | None:
    """Return the frame of the generator that enters a block; None if the block belongs to the context.

    A generator that a context manager runs (`@contextlib.contextmanager`) enters it on behalf of whoever enters the
    manager.
    """
    entering: FrameType | None = frame
    while entering is not None and _enters_for_another(entering):
        entering = entering.f_back
    if entering is None:
        return None
    flags = entering.f_code.co_flags
    if flags & GENERATOR_FLAGS or (flags & inspect.CO_COROUTINE and not _is_of_task(entering)):
        return entering
    return None


def _enters_for_another(frame: FrameType) -> bool:
    return _is_manager(frame) or (
        bool(frame.f_code.co_flags & GENERATOR_FLAGS) and frame.f_back is not None and _is_manager(frame.f_back)
    )


def _is_manager(frame: FrameType) -> bool:
    """Return whether a function enters a context manager, or is part of one."""
    code = frame.f_code
    return code.co_name in ("__enter__", "__aenter__") or code.co_filename in (contextlib.__file__, __file__)


def _is_of_task(frame: FrameType) -> bool:
    """Return whether a coroutine belongs to the running asyncio task, which has a context of its own."""
    asyncio = sys.modules.get("asyncio")
    try:
        task = asyncio.current_task() if asyncio is not None else None
    except RuntimeError:
        # No event loop is running.
        return False
    root = None if task is None else getattr(task.get_coro(), "cr_frame", None)
    waiting: FrameType | None = frame
    while waiting is not None and waiting.f_code.co_flags & SUSPENDABLE_FLAGS:
        if waiting is root:
            return True
        waiting = waiting.f_back
    return False
