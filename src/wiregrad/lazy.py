"""Load modules and names at their first use: the one way in which wiregrad does it.

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
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from threading import RLock, get_ident
from types import ModuleType
from typing import Any


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
