"""Load modules and names at their first use, the one way in which wiregrad does it; and classes that load quickly.

A package that offers a name of a module it does not load itself declares both, once for tools that read the source and
once for Python:

    if TYPE_CHECKING:
        from wiregrad.ir.text_form import parse_text
    else:
        __getattr__ = load_names_lazily(__name__, {"parse_text": "wiregrad.ir.text_form"})

A module that uses another one only in some of its functions does the same:

    if TYPE_CHECKING:
        from wiregrad.backends import compiled
    else:
        compiled = load_module_lazily("wiregrad.backends.compiled")

So type checkers, editors and import graphs see an ordinary import, and refuse names that do not exist.

`NamedTuple` is used as `typing.NamedTuple`, and is the same for type checkers; `record` is a frozen data class. They
make a class in a tenth of the time that Python's own take: the first compiled gradient of a process makes a hundred.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import FrozenInstanceError
from functools import cache
from threading import RLock, get_ident
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

__all__ = [
    "LazyModule",
    "NamedTuple",
    "import_later",
    "import_module",
    "load_module_lazily",
    "load_names_lazily",
    "pause_collection",
    "record",
]

AnyT = TypeVar("AnyT")


class CollectionPauses:
    """The pauses of Python's collector in all threads; it runs again when the last of them ends."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._ran_before: dict[tuple[int, object], bool] = {}
        """Whether the collector ran before the first pause, by the thread and the identity of each pause."""

    @contextmanager
    def make_pause(self) -> Iterator[None]:
        """Return a block in which the collector does not run."""
        pause = get_ident(), object()
        try:
            with self._lock:
                self._ran_before[pause] = next(iter(self._ran_before.values()), gc.isenabled())
                gc.disable()
            yield
        finally:
            self._end_pauses([pause])

    def _end_pauses(self, pauses: Iterable[tuple[int, object]]) -> None:
        with self._lock:
            ran_before = [self._ran_before.pop(pause) for pause in pauses if pause in self._ran_before]
            if any(ran_before) and not self._ran_before:
                gc.enable()

    def forget_other_threads(self) -> None:
        """End the pauses of threads that a forked process does not have."""
        self._lock = RLock()
        self._end_pauses([pause for pause in self._ran_before if pause[0] != get_ident()])


PAUSES = CollectionPauses()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PAUSES.forget_other_threads)


def pause_collection() -> AbstractContextManager[None]:
    """Keep Python's collector from running in a block: many small objects are made, none of them garbage."""
    return PAUSES.make_pause()


def import_module(name: str) -> ModuleType:
    """Import a module without collections meanwhile, which would look at all objects of all other modules."""
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        return module
    if module is not None:
        # Another thread is importing it; this waits for it.
        return importlib.import_module(name)
    with pause_collection():
        module = importlib.import_module(name)
        _age_objects()
    return module


def _age_objects() -> None:
    """Move all young objects to the oldest generation, as if they had survived collections.

    Modules live as long as the process. Looking at all objects of new modules takes three milliseconds, which the next
    collection of young objects would do otherwise.
    """
    if hasattr(gc, "freeze") and not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()


def load_names_lazily(
    package: str, modules: Mapping[str, str], otherwise: Callable[[str], object] | None = None
) -> Callable[[str], Any]:
    """Return a package's `__getattr__`, which loads each name from its module when it is first asked for.

    A name whose module is `package.name` is that module itself. `otherwise` is asked for all other names, except
    private ones; its results are not remembered.

    >>> find = load_names_lazily(__name__, {"pi": "math"})
    >>> find("pi")
    3.141592653589793
    >>> find("tau")
    Traceback (most recent call last):
        ...
    AttributeError: module 'wiregrad.lazy' has no attribute 'tau'
    """

    def find_name(name: str) -> object:
        if name not in modules:
            if otherwise is None or name.startswith("_"):
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            return otherwise(name)
        module = import_module(modules[name])
        value = module if modules[name] == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return find_name


class LazyModule(ModuleType):
    """A stand-in for a module, which is imported when one of its attributes is first read or set."""

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":
            # `inspect.unwrap`, and with it doctest, asks everything for it; no module has it.
            raise AttributeError(name)
        return getattr(import_module(self.__name__), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(import_module(self.__name__), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(import_module(self.__name__), name)

    def __dir__(self) -> list[str]:
        return dir(import_module(self.__name__))

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """The names of the module itself, for tools that look there, such as `vars` and pytest's monkeypatch."""
        return vars(import_module(self.__name__))


def load_module_lazily(name: str) -> LazyModule:
    """Return a stand-in for a module, which imports it at the first use of an attribute.

    >>> load_module_lazily("math").sqrt(4.0)
    2.0
    """
    return LazyModule(name)


def import_later(*names: str) -> Callable[[], None]:
    """Return a function that imports modules when it is called, for the sake of what they register.

    >>> import_later("math", "cmath")()
    """

    def import_modules() -> None:
        for name in names:
            import_module(name)

    return import_modules


@cache
def _compile_constructor(count: int) -> CodeType:
    values = "".join(f"_{k}, " for k in range(count))
    constructor: FunctionType = eval(f"lambda _owner, {values}: _store(_owner, ({values}))")
    return constructor.__code__


def _make_constructor(
    cls: str, name: str, fields: tuple[str, ...], defaults: Mapping[str, object], store: Callable[..., object]
) -> FunctionType:
    """Return a function of the fields that calls `store` with its first argument and the tuple of the others.

    Compiling text takes most of the time that a class takes, so constructors with as many fields share their code.
    """
    if tuple(defaults) != fields[len(fields) - len(defaults) :]:
        raise TypeError(f"a field of {cls} without a default follows one that has a default")
    code = _compile_constructor(len(fields))
    code = code.replace(co_varnames=("_owner", *fields), co_name=name, co_qualname=f"{cls}.{name}")
    return FunctionType(code, {"_store": store}, name, tuple(defaults.values()))


def _format_fields(thing: object) -> str:
    values = (f"{name}={getattr(thing, name)!r}" for name in type(thing).__match_args__)  # type: ignore[attr-defined]
    return f"{type(thing).__name__}({', '.join(values)})"


def _refuse_change(thing: object, name: str, *value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r} of {type(thing).__name__}")


@dataclass_transform(frozen_default=True, eq_default=False)
def record(cls: type[AnyT]) -> type[AnyT]:
    """Make a class of data as `dataclasses.dataclass(frozen=True, eq=False)` does, without slots and `field`.

    >>> @record
    ... class Point:
    ...     x: float
    ...     y: float = 0.0
    >>> Point(1.0)
    Point(x=1.0, y=0.0)
    """
    fields = (*getattr(cls, "__match_args__", ()), *inspect.get_annotations(cls))
    defaults = {field: getattr(cls, field) for field in fields if hasattr(cls, field)}

    def store(self: object, values: tuple[object, ...]) -> None:
        self.__dict__.update(zip(fields, values, strict=True))

    constructor = _make_constructor(cls.__name__, "__init__", fields, defaults, store)
    methods = {"__init__": constructor, "__repr__": _format_fields, "__match_args__": fields}
    methods |= {"__setattr__": _refuse_change, "__delattr__": _refuse_change}
    for name in methods.keys() - cls.__dict__.keys():
        setattr(cls, name, methods[name])
    return cls


if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import _tuplegetter

    UNKNOWN_FIELD_ERROR = ValueError if sys.version_info < (3, 13) else TypeError

    class NamedFields(tuple):
        """What all named tuples share; `collections.namedtuple` makes these methods again for every class."""

        __slots__ = ()
        __repr__ = _format_fields

        @classmethod
        def _make(cls, values):
            """Return a tuple of this class from its values in order."""
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **changes):
            """Return a copy with other values of some fields."""
            made = self._make(map(changes.pop, self._fields, self))
            if changes:
                raise UNKNOWN_FIELD_ERROR(f"Got unexpected field names: {list(changes)!r}")
            return made

        __replace__ = _replace

        def _asdict(self):
            """Return the values by the names of their fields."""
            return dict(zip(self._fields, self, strict=True))

        def __getnewargs__(self):
            return tuple(self)

    class _NamedTupleMaker(type):
        """Makes the subclasses of `NamedTuple`, which are ordinary classes of tuples."""

        def __new__(cls, name, bases, namespace):
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            fields = tuple(namespace.get("__annotations__", ()))
            defaults = {field: namespace[field] for field in fields if field in namespace}
            namespace |= {"__slots__": (), "_fields": fields, "__match_args__": fields, "_field_defaults": defaults}
            namespace |= {field: _tuplegetter(k, "") for k, field in enumerate(fields)}
            namespace["__new__"] = _make_constructor(name, "__new__", fields, defaults, tuple.__new__)
            return type(name, (NamedFields,), namespace)

    class NamedTuple(metaclass=_NamedTupleMaker):
        """The base of named tuples."""
