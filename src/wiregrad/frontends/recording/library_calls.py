"""Which function of which library was called: for messages that name it as people import it.

NumPy hands a ufunc over without its module, and SciPy's functions begin to compute before they touch a value. So the
name is looked up among the modules that are loaded, or read from the frames between the user's line and wiregrad.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

from wiregrad.errors import is_library_file, is_scipy_file
from wiregrad.ops.functions.refusals import REFUSALS

LACKS_RULE = "has no rule: compute it from functions that have one, or pass v.data, which stops the gradient"
"""What is said of a function without a rule for which there is no other advice."""
UFUNC_SETTING_ADVICE = {
    "where": "write np.where(mask, {name}(...), x)",
    "dtype": "write {name}(...).astype(dtype)",
}
"""What to write instead of a setting of a ufunc."""


def name_ufunc(ufunc: np.ufunc) -> str:
    """Return the name of a ufunc as people import it; its own name if no loaded module has it.

    >>> name_ufunc(np.add), name_ufunc(np.frompyfunc(abs, 1, 1))
    ('np.add', 'abs (vectorized)')
    """
    name = ufunc.__name__
    if getattr(np, name, None) is ufunc:
        return f"np.{name}"
    homes = [module for module in _loaded_modules() if vars(module).get(name) is ufunc]
    return min((f"{home.__name__}.{name}" for home in homes), key=len, default=name)


def _loaded_modules() -> Iterator[ModuleType]:
    """Return the public modules that are loaded, without the main program."""
    for name, module in [*sys.modules.items()]:
        if type(module) is ModuleType and "._" not in name and not name.startswith("_"):
            yield module


def name_function(function: Callable[..., Any]) -> str:
    """Return the name of a NumPy function (`np.linalg.eig`), or of the SciPy function that calls it."""
    caller = name_scipy_call()
    if caller:
        return caller
    home = function.__module__
    if home == "numpy" or home.startswith("numpy."):
        home = "np" + home.removeprefix("numpy")
    return f"{home}.{function.__name__}"


def describe_missing_ufunc(ufunc: np.ufunc, method: str, settings: Mapping[str, Any]) -> str:
    """Say that a ufunc has no rule, and what to write instead."""
    caller = name_scipy_call()
    if caller:
        return describe_missing_function(caller)
    name = name_ufunc(ufunc)
    if settings:
        return f"{_add_method(name, method)} with {', '.join(settings)}= has no rule: {_advise_setting(name, settings)}"
    return describe_missing_function(_add_method(name, method), REFUSALS.get(ufunc))


def _add_method(name: str, method: str) -> str:
    return name if method == "__call__" else f"{name}.{method}"


def _advise_setting(name: str, settings: Mapping[str, Any]) -> str:
    advice = [UFUNC_SETTING_ADVICE[setting] for setting in settings if setting in UFUNC_SETTING_ADVICE]
    return advice[0].format(name=name) if advice else f"leave out {', '.join(settings)}="


def describe_missing_function(name: str, advice: str | None = None) -> str:
    """Say that a function has no rule, and what to write instead.

    >>> describe_missing_function("np.spacing", "take it of x.data")
    'np.spacing has no rule: take it of x.data'
    """
    return f"{name} has no rule: {advice}" if advice else f"{name} {LACKS_RULE}"


def describe_signature(function: Callable[..., Any], name: str) -> str:
    """Return a call of a function as NumPy's documentation writes it, without types.

    >>> def sum_(a: "Any", axis: "Any" = None, *, keepdims: "bool" = False) -> "Any": ...
    >>> describe_signature(sum_, "sum")
    'sum(a, axis=None, *, keepdims=False)'
    """
    signature = inspect.signature(function)
    parameters = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    return f"{name}{signature.replace(parameters=parameters, return_annotation=signature.empty)}"


def name_scipy_call() -> str:
    """Return the name of the SciPy function that the user's line called, and that called wiregrad; empty if none.

    Of several, the one nearest to the user: it is the one that the user has written.
    """
    name = ""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library_file(frame.f_code.co_filename):
        if is_scipy_file(frame.f_code.co_filename):
            name = _name_scipy_frame(frame) or name
        frame = frame.f_back
    return name


def _name_scipy_frame(frame: FrameType) -> str:
    """Return the public name of the SciPy function or method that a frame runs; empty for internal functions."""
    home = _public_package(str(frame.f_globals.get("__name__", "")))
    package = sys.modules.get(home)
    owner = getattr(frame.f_locals.get("self"), "name", None)
    # The object of a class is made by its `__init__`.
    function = frame.f_code.co_qualname.removesuffix(".__init__").rpartition(".")[2]
    if isinstance(owner, str) and hasattr(package, owner) and not function.startswith("_"):
        return f"{home}.{owner}.{function}"
    if callable(getattr(package, function, None)):
        return f"{home}.{function}"
    # A decorator of SciPy looks at the arguments before it calls the function that the user has written.
    decorated = [thing for thing in frame.f_locals.values() if inspect.isfunction(thing) and _is_public(thing)]
    return _name_public(decorated[0]) if decorated else ""


def _is_public(function: FunctionType) -> bool:
    """Return whether people import a function from a package that is loaded."""
    home = sys.modules.get(_public_package(function.__module__))
    return getattr(home, function.__name__, None) is not None


def _name_public(function: FunctionType) -> str:
    return f"{_public_package(function.__module__)}.{function.__name__}"


def _public_package(module: str) -> str:
    """Return the package from which people import what a private module defines.

    >>> _public_package("scipy.linalg._decomp_cholesky")
    'scipy.linalg'
    """
    return ".".join(part for part in module.split(".") if not part.startswith("_"))
