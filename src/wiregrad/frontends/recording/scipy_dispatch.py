"""How SciPy's functions find their entries when they are given values.

NumPy asks its arguments what to do (`__array_function__`); SciPy's functions are plain Python functions and do not. So
a SciPy function that has an entry in `FUNCTIONS_BY_SCIPY` is taught to look for values: the function object stays the
same, and only its code is exchanged for a few instructions that call the entry if a value is among the arguments, and
the old code otherwise. A name that was imported before wiregrad, `from scipy.linalg import solve`, is therefore taught
as well. Modules that are imported later are taught when their import ends. SciPy is never imported from here.

Three kinds of names do not need this: ufuncs ask their arguments as NumPy's do, `scipy.fft` has backends, and methods
of distributions are taught once for all distributions. See `docs/decisions/0032-scipy-functions-are-taught.md`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache, partial
from importlib.machinery import ModuleSpec
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from wiregrad.errors import EscapeError, NoRuleError, format_user_line
from wiregrad.frontends.recording.dispatch import refuse_unusual_dtypes, run_composite, run_without_rule
from wiregrad.frontends.recording.hints import describe_missing_function
from wiregrad.frontends.recording.record import no_grad
from wiregrad.frontends.recording.value import as_numpy_number
from wiregrad.ops.functions import FUNCTIONS, FUNCTIONS_BY_NUMPY, FUNCTIONS_BY_SCIPY, RegisteredFunction
from wiregrad.ops.functions.registry import PAUSE_BLOCKS
from wiregrad.ops.gradient_flow import is_wire
from wiregrad.settings import SCIPY_OFF, SCIPY_VARIABLE, read_setting

PLAIN_TYPES = frozenset(
    [float, int, bool, complex, str, type(None), slice, FunctionType, np.float64, np.int64, np.bool_]
)
"""Types of arguments that are not values and hold none."""
RECORDED_STATE = "_wiregrad_state"
"""Attribute of a SciPy object (a spline) that was made from values."""
MAX_CONTAINER_DEPTH = 4
"""How deep values are searched in lists, tuples and dicts."""
LOCK = threading.RLock()


OBJECT_DTYPE = np.dtype(object)


def holds_wire(x: Any, depth: int = MAX_CONTAINER_DEPTH) -> bool:
    """Return whether an argument is a value, or a list, tuple, dict or object array with one inside."""
    kind = type(x)
    if kind is np.ndarray:
        return x.dtype == OBJECT_DTYPE and any(is_wire(item) for item in x.flat)
    if kind is list or isinstance(x, tuple):
        return depth > 0 and any(type(item) not in PLAIN_TYPES and holds_wire(item, depth - 1) for item in x)
    if kind is dict:
        return depth > 0 and any(holds_wire(item, depth - 1) for item in x.values())
    return is_wire(x)


TaughtCall = Callable[[tuple[Any, ...], dict[str, Any]], Any]
"""What a taught function calls with its arguments."""


MINPACK_MESSAGE = "not a proper array of floats"
"""Part of the message of SciPy's MINPACK for a function that returns a value."""


class TaughtFunction:
    """A SciPy function that has been taught: the function as it was, and what is called when there are values."""

    __slots__ = ("entry", "name", "original")

    def __init__(self, name: str, original: FunctionType, entry: RegisteredFunction) -> None:
        self.name = name
        self.original = original
        self.entry = entry

    def make_call(self) -> TaughtCall:
        """Return what calls the entry if a value is among the arguments, else the function as it was."""
        original = self._call_back if self.entry.calls_back else self.original
        return make_call(original, self.apply_entry)

    def _call_back(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as it was; if a function among its arguments uses a value from outside, call the entry."""
        try:
            return self.original(*args, **kwargs)
        except (EscapeError, NoRuleError):
            pass
        except Exception as error:
            # SciPy's C code may report the error of a function that it calls as a SystemError, or as its own.
            if not isinstance(error.__cause__, EscapeError | NoRuleError) and MINPACK_MESSAGE not in str(error):
                raise
        return self.apply_entry(args, kwargs)

    def apply_entry(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the entry; if it refuses these arguments and no gradient flows, the function itself answers."""
        return apply_entry(self.entry, self.name, self.original, args, kwargs)


def make_call(original: Callable[..., Any], apply: TaughtCall) -> TaughtCall:
    """Return a function that calls one function if a value is among the arguments, and another one if not.

    Most calls have plain arguments, so their types are looked at here, without further calls.
    """
    array_type = np.ndarray
    object_dtype = OBJECT_DTYPE
    plain_types = PLAIN_TYPES

    def call_taught(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for x in args:
            kind = type(x)
            if kind is array_type:
                if x.dtype is object_dtype and holds_wire(x):
                    return apply(args, kwargs)
            elif kind not in plain_types and holds_wire(x):
                return apply(args, kwargs)
        if kwargs:
            for x in kwargs.values():
                if type(x) not in plain_types and holds_wire(x):
                    return apply(args, kwargs)
        return original(*args, **kwargs)

    return call_taught


def apply_entry(
    entry: RegisteredFunction,
    name: str,
    original: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Call the function made of ops that stands for a SciPy function."""
    joined = {key: join_list(x) for key, x in kwargs.items()}
    listed = tuple(map(join_list, args))
    if not entry.numpy:
        refuse_unusual_dtypes(name, (*listed, *joined.values()))
    try:
        result = run_composite(entry.run, name, listed, joined)
    except (NoRuleError, EscapeError):
        if not any(map(holds_wire, (*args, *kwargs.values()))):
            # The values are in a function or an object among the arguments.
            raise
        result = run_without_rule(original, args, kwargs)
        if result is NotImplemented:
            raise
    return tuple(map(as_numpy_number, result)) if type(result) is tuple else as_numpy_number(result)


def join_list(x: Any) -> Any:
    """Return a list of numbers with values among them, which SciPy would make an array, as one value."""
    if type(x) is not list or not holds_wire(x):
        return x
    return FUNCTIONS["stack"].run([join_list(item) for item in x])


class TaughtMethod(TaughtFunction):
    """A method of a SciPy class; an object that was made from values counts as a value."""

    __slots__ = ()

    def make_call(self) -> TaughtCall:
        """Return what calls the entry if the object or an argument has values, else the method as it was."""
        look_at_arguments = make_call(self.original, self.apply_entry)

        def call_method(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if args and RECORDED_STATE in getattr(args[0], "__dict__", ()):
                return self.apply_entry(args, kwargs)
            return look_at_arguments(args, kwargs)

        return call_method

    def apply_entry(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the entry; the name in messages is that of the object's class, which may have inherited the method."""
        *home, _, method = self.name.split(".")
        name = ".".join([*home, type(args[0]).__name__ if args else "", method])
        return apply_entry(self.entry, name, self.original, args, kwargs)


class DistributionMethod:
    """A method that all distributions of a class share, such as `logpdf`; the entry is found by the name of one."""

    __slots__ = ("method", "original", "prefix")

    def __init__(self, prefix: str, method: str, original: FunctionType) -> None:
        self.prefix = prefix
        self.method = method
        self.original = original

    def make_call(self) -> TaughtCall:
        """Return what calls the entry of a distribution if a value is among the arguments."""
        return make_call(self.original, self.apply_entry)

    def apply_entry(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the entry of this distribution, or make a distribution with values as parameters."""
        name = f"{self.prefix}.{find_distribution_name(args[0])}"
        if self.method == "__call__":
            if is_frozen_apart(name):
                return FrozenDistribution(name, args[0], args[1:], kwargs)
            return self.original(*args, **kwargs)
        return call_distribution(name, self.method, partial(self.original, args[0]), args[1:], kwargs)


def find_distribution_name(distribution: Any) -> str:
    """Return the public name of a distribution of `scipy.stats`, such as `norm` or `multivariate_normal`."""
    return str(getattr(distribution, "name", None) or type(distribution).__name__.removesuffix("_gen"))


def is_frozen_apart(name: str) -> bool:
    """Return whether a distribution with values as parameters is frozen here: SciPy would compute with them."""
    return any(known.startswith(f"{name}.") for known in FUNCTIONS_BY_SCIPY)


def call_distribution(
    name: str, method: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call the entry of a method of a distribution; raise `NoRuleError` if there is none."""
    entry = FUNCTIONS_BY_SCIPY.get(f"{name}.{method}")
    if entry is not None:
        return apply_entry(entry, f"{name}.{method}", original, args, kwargs)
    known = sorted(each.rpartition(".")[2] for each in FUNCTIONS_BY_SCIPY if each.startswith(f"{name}."))
    advice = f"of {name} there are {', '.join(known)}" if known else None
    raise NoRuleError(f"{describe_missing_function(f'{name}.{method}', advice)}{format_user_line()}")


class FrozenDistribution:
    """A distribution whose parameters are values: `multivariate_normal(mean, cov)`."""

    def __init__(self, name: str, distribution: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._name = name
        self._distribution = distribution
        self._args = args
        self._kwargs = kwargs

    def __getattr__(self, method: str) -> Callable[..., Any]:
        """Return a method that is called with the stored parameters."""
        if method.startswith("_"):
            raise AttributeError(method)
        original = getattr(self._distribution, method)

        def call_frozen(*args: Any, **kwargs: Any) -> Any:
            return call_distribution(self._name, method, original, (*args, *self._args), self._kwargs | kwargs)

        return call_frozen


class FourierBackend:
    """The backend of `scipy.fft` for values; plain arrays are left to the other backends."""

    __ua_domain__ = "numpy.scipy.fft"

    @staticmethod
    def __ua_function__(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the entry of a transform; `NotImplemented` for plain arrays."""
        x = args[0] if args else kwargs.get("x")
        if (type(x) is np.ndarray and x.dtype is not OBJECT_DTYPE) or not holds_wire(x):
            return NotImplemented
        name = f"scipy.fft.{function.__name__}"
        entry = FUNCTIONS_BY_SCIPY.get(name)
        if entry is None:
            raise NoRuleError(f"{describe_missing_function(name)}{format_user_line()}")
        if "x" in kwargs:
            # NumPy calls the same argument `a`.
            args, kwargs = (x,), {key: value for key, value in kwargs.items() if key != "x"}
        return apply_entry(entry, name, function, args, kwargs)


TEMPLATE = """
def enclose({names}):
    def call_taught(*args, **kwargs):
        taught = {marker!r}
        return taught(args, kwargs)
        {names}
"""
MARKER = "<what is called>"


@lru_cache(None)
def make_template(names: tuple[str, ...]) -> CodeType:
    """Return the code of a function that calls a constant, and that closes over these names.

    A function's code can be exchanged only for code that closes over as many names.
    """
    text = TEMPLATE.format(names=", ".join(names), marker=MARKER)
    module = compile(text, "<wiregrad>", "exec")
    return find_code(find_code(module))


def find_code(code: CodeType) -> CodeType:
    """Return the function that is defined in code."""
    return next(constant for constant in code.co_consts if isinstance(constant, CodeType))


def exchange_code(function: FunctionType, taught: Any, name: str) -> None:
    """Make a function call what it was taught, with its arguments; what tools read stays as it was."""
    old = function.__code__
    template = make_template(old.co_freevars)
    call = taught.make_call()
    constants = tuple(call if constant == MARKER else constant for constant in template.co_consts)
    if "__wrapped__" not in function.__dict__:
        # For inspect.signature and inspect.getsource.
        function.__dict__["__wrapped__"] = taught.original
    function.__code__ = template.replace(
        co_consts=constants, co_name=old.co_name, co_qualname=old.co_qualname, co_filename=f"<wiregrad: {name}>"
    )


def copy_function(function: FunctionType) -> FunctionType:
    """Return a copy of a function that keeps its code when that of the function is exchanged."""
    copy = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = function.__qualname__
    copy.__module__ = function.__module__
    copy.__doc__ = function.__doc__
    copy.__dict__.update(function.__dict__)
    return copy


TAUGHT: dict[FunctionType, Any] = {}
"""Every function that was taught, and what it calls."""


def teach_name(module: ModuleType, name: str, entry: RegisteredFunction) -> None:
    """Teach the function or method of a dotted name, if this version of SciPy has it."""
    *parents, last = name.removeprefix(f"{module.__name__}.").split(".")
    # Not getattr: SciPy's packages import their modules when these are asked for.
    owner: Any = vars(module).get(parents[0]) if parents else module
    for parent in parents[1:]:
        owner = getattr(owner, parent, None)
    if owner is None or isinstance(owner, ModuleType) is not (owner is module):
        return
    if owner is not module and not isinstance(owner, type):
        prefix = f"{module.__name__}"
        for method in (last, "__call__"):
            teach_function(getattr(type(owner), method, None), partial(DistributionMethod, prefix, method))
        return
    kind = TaughtFunction if owner is module else TaughtMethod
    thing = vars(module).get(last) if owner is module else getattr(owner, last, None)
    if isinstance(thing, np.ufunc):
        FUNCTIONS_BY_NUMPY.setdefault(thing, entry)
    teach_function(thing, lambda original: kind(name, original, entry), name)


def teach_function(thing: Any, make: Callable[[FunctionType], Any], name: str = "scipy") -> None:
    """Teach a Python function, once; anything else is left alone."""
    if not isinstance(thing, FunctionType) or thing in TAUGHT:
        return
    taught = make(copy_function(thing))
    TAUGHT[thing] = taught
    exchange_code(thing, taught, name)


def teach_module(module: ModuleType) -> None:
    """Teach the functions of a SciPy module that have entries."""
    with LOCK:
        for name, entry in list(FUNCTIONS_BY_SCIPY.items()):
            if name.startswith(f"{module.__name__}."):
                teach_name(module, name, entry)
        if module.__name__ == "scipy.fft" and not hasattr(module, RECORDED_STATE):
            setattr(module, RECORDED_STATE, True)
            module.register_backend(FourierBackend)


POLYNOMIAL_PACKAGE = "numpy.polynomial"
"""The part of NumPy whose functions do not ask their arguments what to do."""


@cache
def list_modules() -> frozenset[str]:
    """Return the names of the modules that may have functions with entries."""
    names = [name.split(".") for name in FUNCTIONS_BY_SCIPY]
    return frozenset(".".join(parts[:count]) for parts in names for count in range(2, len(parts)))


class ScipyImports:
    """A finder on `sys.meta_path` that finds nothing itself; it teaches a SciPy module when its import ends."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        self.packages = packages

    def takes(self, name: str) -> bool:
        """Return whether a module is to be taught: it is in one of the packages and may have functions with entries."""
        return name.startswith(self.packages) and name in list_modules()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """Return the spec that the other finders find, with a loader that teaches the module; None if not SciPy's."""
        if not self.takes(name):
            return None
        for spec in self._ask_others(name, path, target):
            load = spec.loader.exec_module

            def load_and_teach(module: ModuleType, load: Callable[[ModuleType], None] = load) -> None:
                load(module)
                teach_module(module)

            spec.loader.exec_module = load_and_teach
            return spec
        return None

    def _ask_others(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> Iterator[Any]:
        """Yield the specs of a module that other finders find and that have a loader of today's kind."""
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec: ModuleSpec | None = finder.find_spec(name, path, target)
                if spec is not None:
                    if hasattr(spec.loader, "exec_module"):
                        yield spec
                    return


def teach_scipy() -> None:
    """Teach the SciPy modules that are imported, and those that will be; `WIREGRAD_SCIPY=0` turns this off.

    The modules of `numpy.polynomial` are taught in any case: they take values as they are, some of them wrongly.
    """
    if any(isinstance(each, ScipyImports) for each in sys.meta_path):
        return
    is_off = read_setting(SCIPY_VARIABLE) == SCIPY_OFF
    imports = ScipyImports((POLYNOMIAL_PACKAGE,) if is_off else (POLYNOMIAL_PACKAGE, "scipy."))
    sys.meta_path.insert(0, imports)
    for name in sorted(filter(imports.takes, list(sys.modules))):
        teach_module(sys.modules[name])


PAUSE_BLOCKS.append(no_grad)
teach_scipy()
