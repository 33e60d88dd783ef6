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
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def pause_collection() -> Iterator[None]:
    """Keep Python's collector from running: many small objects are made, none of them garbage."""
    was_enabled = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if was_enabled:
            gc.enable()


def import_module(name: str) -> ModuleType:
    """Import a module without collections meanwhile, which would look at all objects of all other modules."""
    if name in sys.modules:
        return importlib.import_module(name)
    with pause_collection():
        return importlib.import_module(name)


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
