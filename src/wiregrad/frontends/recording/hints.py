"""Hints in messages: what to write instead, and which function of which library was called.

People arrive with the habits of PyTorch, JAX, micrograd and autograd. A name that means the same here is a method or an
alias (`dispatch.TORCH_METHODS`). Every other name has one line in a table below. The code of a line, behind `write`, is
run by a test with the variables of `HINT_VARIABLES`. The names of `VALUE_HINTS` are descriptors, not cases of a
`__getattr__`: with a `__getattr__`, Python would read every attribute of a value four times slower.

A message names the function that was called as people import it. NumPy hands a ufunc over without its module, and
SciPy's functions begin to compute before they touch a value. So the name is looked up among the modules that are
loaded, or read from the frames between the user's line and wiregrad.

Where a line cannot be recorded, the message shows that line mended (`advise_on_update`, `advise_on_store`,
`advise_on_conversion`). The expression is found by the position of the instruction that is running; the line that made
an array, by reading the function's source above it. Only errors ask for it, so it need not be fast.
"""

from __future__ import annotations

import ast
import dis
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import FrameType, FunctionType, ModuleType
from typing import Any, Never

import numpy as np

from wiregrad.errors import (
    InputError,
    MutationError,
    NoRuleError,
    UnknownAttributeError,
    UnknownToLibraryError,
    find_user_frame,
    format_user_line,
    is_library_file,
    is_scipy_file,
    read_line_of_code,
)
from wiregrad.frontends.recording.user_code import INDEXING_FUNCTIONS
from wiregrad.ir import TABLE
from wiregrad.ops.functions import FUNCTIONS
from wiregrad.ops.functions.registry import REFUSALS, SCIPY_SLOPES, SCIPY_SPELLINGS

HINT_VARIABLES = ("a", "b", "f", "index", "n", "other", "rng", "shape", "v", "values", "w", "wg", "np", "x", "y")
"""The variables that the code of hints uses."""

_MAKE_CONSTANT = "every value that you make has a gradient; for a constant, write v.detach()"
_ON_CPU = "leave it out; values are NumPy arrays, always on the CPU"
_FROM_PANDAS = "a pandas object among the arguments is taken as an array"
_NEW_DATA = "a value does not change in place; write w.data = "

VALUE_HINTS: dict[str, str] = {
    "_prev": "write v.inputs",
    "children": "write v.inputs",
    "parents": "write v.inputs",
    "value": "write v.data",
    "gradient": "write v.grad",
    "explain": "write wg.explain(v)",
    "blame": "write wg.run(y).blame()",
    "plot": "write wg.run(y).to_svg()",
    "_children": "write v.inputs",
    "_op": "write v.op",
    "_backward": "a value's rule is that of its op; write v.op",
    "grad_fn": "write v.op",
    "is_leaf": "write v.op is None",
    "requires_grad": _MAKE_CONSTANT,
    "requires_grad_": _MAKE_CONSTANT,
    "retain_grad": "leave it out; every value on the way has its gradient after backward()",
    "cuda": _ON_CPU,
    "cpu": _ON_CPU,
    "device": _ON_CPU,
    "is_cuda": _ON_CPU,
    "to": "values are always on the CPU; for another dtype, write v.astype(np.float32)",
    "float": "write v.astype(np.float32)",
    "double": "write v.astype(np.float64)",
    "long": "whole numbers have no gradient; write np.int64(v.data)",
    "int": "whole numbers have no gradient; write np.int64(v.data)",
    "type": "write v.dtype or v.astype(np.float32)",
    "type_as": "write v.astype(other.dtype)",
    **dict.fromkeys(("flags", "strides", "base", "ctypes"), "a value has no memory of its own; ask the array v.data"),
    "contiguous": "leave it out; memory order makes no difference here",
    "block_until_ready": "leave it out; results are computed at once",
    "clamp_min": "write np.maximum(v, 0.0)",
    "clamp_max": "write np.minimum(v, 1.0)",
    "expand": "write np.broadcast_to(v, shape)",
    "view_as": "write v.reshape(other.shape)",
    "reshape_as": "write v.reshape(other.shape)",
    "chunk": "write np.array_split(v, n)",
    "unbind": "write list(v)",
    "iloc": f"{_FROM_PANDAS}; write v[0]",
    "loc": f"{_FROM_PANDAS}, without its labels; write v[0]",
    "to_numpy": f"{_FROM_PANDAS}; leave it out",
    "gather": "write np.take_along_axis(v, index, 1)",
    "index_select": "write np.take(v, [0, 1], axis=0)",
    "scatter": "write v.at[0].set(values)",
    "scatter_add": "write v.at[0].add(values)",
    "index_add": "write v.at[0].add(values)",
    "repeat_interleave": "write np.repeat(v, n)",
    "topk": "write np.sort(v, axis=-1)[..., -n:]",
    "flip": "write np.flip(v, axis=0)",
    "norm": "write np.linalg.norm(v)",
    "det": "write np.linalg.det(v)",
    "inverse": "write np.linalg.inv(v)",
    "addmm": "write v + a @ b",
    "rsqrt": "write 1 / np.sqrt(v)",
    "mv": "write v @ w",
    "diag": "write np.diag(v)",
    "tril": "write np.tril(v)",
    "triu": "write np.triu(v)",
    "nelement": "write v.size",
    "ndimension": "write v.ndim",
    "eq": "write v == other",
    "ne": "write v != other",
    "gt": "write v > other",
    "ge": "write v >= other",
    "lt": "write v < other",
    "le": "write v <= other",
    "new_zeros": "write np.zeros(shape)",
    "new_ones": "write np.ones(shape)",
    "zero_": f"{_NEW_DATA}np.zeros(shape)",
    "fill_": f"{_NEW_DATA}np.full(shape, 1.0)",
    "copy_": f"{_NEW_DATA}other.data",
    "normal_": f"{_NEW_DATA}rng.normal(size=shape)",
    "uniform_": f"{_NEW_DATA}rng.uniform(size=shape)",
}
"""What to write instead of an attribute that values do not have."""
IN_PLACE_METHODS = (
    "abs add ceil clamp cos div exp floor log masked_fill mul neg pow reciprocal relu round sigmoid sin sqrt square "
    "squeeze sub t tanh unsqueeze"
).split()
"""Methods that PyTorch has in place too, with `_` behind the name."""
VALUE_HINTS.update(
    (f"{_name}_", f"a value does not change in place; write v = v.{_name}(...)") for _name in IN_PLACE_METHODS
)

_MAKE_VALUE = "write wg.Value(x)"
_NO_RECORDING = "write with wg.no_grad(): f(x)"
_RANDOM = "random numbers are NumPy's; write rng = np.random.default_rng(0)"

MODULE_HINTS: dict[str, str] = {
    "Tensor": _MAKE_VALUE,
    "tensor": _MAKE_VALUE,
    "as_tensor": _MAKE_VALUE,
    "from_numpy": _MAKE_VALUE,
    "Variable": _MAKE_VALUE,
    "Parameter": _MAKE_VALUE,
    "cat": "write np.concatenate([a, b], axis=0)",
    "mm": "write a @ b",
    "bmm": "write a @ b",
    "clamp": "write np.clip(v, 0.0, 1.0)",
    "unsqueeze": "write np.expand_dims(v, 0)",
    "detach": "write wg.stop_gradient(v)",
    "backward": "write y.backward()",
    "autograd": "write wg.grad(f)(x)",
    "derivative": "write wg.grad(f)(x)",
    "set_grad_enabled": _NO_RECORDING,
    "enable_grad": "leave it out; everything outside of wg.no_grad() is recorded",
    "inference_mode": _NO_RECORDING,
    "functional": "write wg.relu(x), wg.softmax(x) or wg.nn.cross_entropy(scores, labels)",
    "random": _RANDOM,
    "manual_seed": _RANDOM,
    "rand": "write np.random.default_rng(0).uniform(size=shape)",
    "randn": "write np.random.default_rng(0).normal(size=shape)",
    "jit": "write wg.compile(f)",
    "pmap": "write wg.vmap(f)",
    "lax": "loops and branches are Python's own: if, for, while",
    "make_jaxpr": "write print(wg.trace(f, x))",
    "custom_jvp": "see wg.op and wg.Function",
    "custom_vjp": "see wg.op and wg.Function",
    "tree": "write wg.tree_map(f, x)",
    "tree_util": "write wg.tree_map(f, x)",
    "device_put": _ON_CPU,
    "block_until_ready": "leave it out; results are computed at once",
    **dict.fromkeys(
        ("check", "gradcheck", "numerical_gradient", "finite_difference", "finite_differences"),
        "write wg.check_grads(f, x)",
    ),
    "remat": "write wg.checkpoint(f)",
    **dict.fromkeys(("cuda", "device"), _ON_CPU),
    "seed": _RANDOM,
    "special": "write from scipy import special",
    "save": "write wg.trace(f, x).save or wg.save_arrays",
    "show": "write wg.run(f, x).to_svg()",
    "draw_dot": "write wg.run(y).to_svg()",
    "plot": "write wg.run(y).to_svg()",
    "paths": "write wg.run(f, x).paths('x')",
    "branches": "write wg.run(f, x).branches('x')",
    "kinks": "write wg.run(f, x).kinks()",
    "rounding": "write wg.run(f, x).rounding()",
    "flow": "write wg.run(f, x).flow()",
    "explore": "call explore() of a circuit or run, wg.run(...)",
    "jnp": "write import numpy as np",
    "np": "write import numpy as np",
}
"""What to write instead of a name that `wiregrad` does not have."""

VALUE_KEYWORD_HINTS: dict[str, str] = {
    "requires_grad": _MAKE_CONSTANT.replace("v.detach()", "wg.stop_gradient(x)"),
    "dtype": "write wg.Value(np.asarray(x, np.float32))",
    "device": _ON_CPU,
    "_children": "a value that you make has no inputs; write wg.Value(2.0)",
    "_op": "a value that you make has no op; write wg.Value(2.0)",
}
"""What to write instead of a keyword that `wg.Value` does not take."""

SAME_AXIS_NAMES = frozenset(
    "sum mean prod nansum nanmean any all argmax argmin amax amin cumsum cumprod logsumexp softmax log_softmax "
    "squeeze".split()
)
"""Methods whose `dim=` and `keepdim=` in PyTorch mean what `axis=` and `keepdims=` mean in NumPy."""
TORCH_KEYWORDS = {"dim": "axis", "keepdim": "keepdims"}
DIM_HINTS: dict[str, str] = {
    "max": "PyTorch's max(dim=) returns values and indices; write v.max(axis=0) and v.argmax(axis=0)",
    "min": "PyTorch's min(dim=) returns values and indices; write v.min(axis=0) and v.argmin(axis=0)",
    "std": "PyTorch's std divides by n - 1; write v.std(axis=0, ddof=1)",
    "var": "PyTorch's var divides by n - 1; write v.var(axis=0, ddof=1)",
    "sort": "PyTorch's sort(dim=) returns values and indices; write np.sort(v, axis=0) and np.argsort(v, axis=0)",
    "median": "PyTorch's median(dim=) is the lower of two middle values; for their mean, write np.median(v, axis=0)",
}
"""What to write instead of `dim=` where PyTorch and NumPy differ in more than the name."""

TORCH_FUNCTION_HINTS: dict[str, str] = {
    "transpose": "write np.swapaxes(v, 0, 1)",
    "split": "PyTorch's split takes lengths of parts; write np.array_split(v, n)",
}
"""What to write instead of functions of PyTorch whose names mean something else in NumPy."""


class ForeignName:
    """An attribute that values do not have: reading or setting it raises an error that says what to write instead."""

    def __init__(self, name: str, hint: str) -> None:
        self.name = name
        self.hint = hint
        self.__doc__ = f"Not an attribute of values: {hint}."

    def __get__(self, value: object, owner: type) -> Never:
        scipy_call = name_scipy_call()
        if scipy_call:
            raise UnknownToLibraryError(f"{describe_missing_function(scipy_call)}{format_user_line()}")
        drawing = advise_on_random()
        if drawing:
            raise UnknownToLibraryError(f"a recorded value cannot be shuffled in place: {drawing}{format_user_line()}")
        # With a name and no object, Python appends no suggestion of its own.
        raise UnknownAttributeError(f"wg.Value has no {self.name!r}: {self.hint}{format_user_line()}", name=self.name)

    def __set__(self, value: object, to: object) -> Never:
        self.__get__(value, type(value))


class ArrayNamespace:
    """The method `__array_namespace__` of the array API, for every caller but SciPy.

    SciPy treats what has it as an array of its own kind, which it writes to; without it, NumPy's functions record.
    """

    def __get__(self, value: object, owner: type) -> Callable[..., Any]:
        if is_scipy_file(sys._getframe(1).f_code.co_filename):
            raise AttributeError("__array_namespace__")
        # NumPy's functions record values, so NumPy itself is the namespace.
        return np.empty(0).__array_namespace__


class JaxProtocol:
    """What JAX looks for on every argument that it does not know: a value refuses already then."""

    def __get__(self, value: object, owner: type) -> JaxProtocol:
        if value is None:
            return self
        raise NoRuleError(
            "a function of JAX cannot take a wg.Value: write it with NumPy's functions, or import the whole function "
            f"with wg.from_jax, or ask its own run with wg.watch(f, x){format_user_line()}"
        )


class ForeignNames:
    """The names of other libraries that values do not have, for the sake of their error messages."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if hasattr(type(self), name)]

    @classmethod
    def __torch_function__(cls, function: Any, types: object, args: object = (), kwargs: object = None) -> Never:
        """Raise because a function of PyTorch was given a value; PyTorch calls this."""
        name = function.__name__
        hint = describe_torch_function(name)
        whole = "import the whole function with wg.from_torch, or ask its own run with wg.watch(f, x)"
        raise NoRuleError(f"torch's {name} cannot take a wg.Value: {hint}, or {whole}{format_user_line()}")

    __jax_array__ = JaxProtocol()
    __pandas_priority__ = 1_000_000
    """Makes the operators of pandas ask the value first, as NumPy's do, and the value says what to write."""


for _name, _hint in VALUE_HINTS.items():
    setattr(ForeignNames, _name, ForeignName(_name, _hint))


def describe_module_name(name: str) -> str:
    """Return `: write ...` for a name that `wiregrad` does not have; empty for names of no known library.

    >>> describe_module_name("cat"), describe_module_name("zeros")
    (': write np.concatenate([a, b], axis=0)', ': write np.zeros')
    """
    if name in MODULE_HINTS:
        return f": {MODULE_HINTS[name]}"
    if name == "numpy":
        # It is an attribute of wiregrad once it has been imported.
        return ": write import wiregrad.numpy as np"
    return f": write np.{name}" if _is_plain_numpy_name(name) else ""


def describe_torch_function(name: str) -> str:
    """Return what to write instead of a function of PyTorch.

    >>> describe_torch_function("tanh"), describe_torch_function("relu"), describe_torch_function("bincount_")
    ('write np.tanh', 'write wg.relu', 'compute it with NumPy')
    """
    hint = TORCH_FUNCTION_HINTS.get(name) or DIM_HINTS.get(name) or MODULE_HINTS.get(name)
    if hint is not None:
        return hint
    if hasattr(np, name):
        return f"write np.{name}"
    return f"write wg.{name}" if name in FUNCTIONS or TABLE.is_scalar(name) else "compute it with NumPy"


def _is_plain_numpy_name(name: str) -> bool:
    """Return whether NumPy has a public name that takes no values: a constant, a type, a function that makes arrays."""
    if name not in np.__all__:
        return False
    thing = getattr(np, name)
    return not isinstance(thing, np.ufunc) and not hasattr(thing, "_implementation")


def refuse_keywords(keywords: Mapping[str, Any]) -> Never:
    """Raise because `wg.Value` was given keywords that it does not take."""
    name = next(iter(keywords))
    hint = VALUE_KEYWORD_HINTS.get(name, "it takes Value(data, name=None)")
    raise InputError(f"wg.Value has no keyword {name!r}: {hint}{format_user_line()}")


def rename_torch_keywords(name: str, keywords: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return PyTorch's keywords under NumPy's names; None if that cannot be done.

    >>> rename_torch_keywords("sum", {"dim": 1, "keepdim": True}), rename_torch_keywords("max", {"dim": 1})
    ({'axis': 1, 'keepdims': True}, None)
    """
    if name not in SAME_AXIS_NAMES or not TORCH_KEYWORDS.keys() & keywords.keys():
        return None
    renamed = {TORCH_KEYWORDS.get(keyword, keyword): setting for keyword, setting in keywords.items()}
    return renamed if len(renamed) == len(keywords) else None


def describe_torch_keywords(name: str, keywords: Mapping[str, Any]) -> str:
    """Return a hint for PyTorch's keywords where they have no meaning here; empty if there are none."""
    foreign = [keyword for keyword in TORCH_KEYWORDS if keyword in keywords]
    if not foreign:
        return ""
    return DIM_HINTS.get(name) or "; ".join(f"write {TORCH_KEYWORDS[keyword]}=, not {keyword}=" for keyword in foreign)


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
    return f"{name} has no rule: {advice}" if advice else f"{name} {_advise_on_scipy(name) or LACKS_RULE}"


OWN_OP = """has no rule: {otherwise}give it its derivative:
    @wg.op(partials=lambda x, y: ({slope},))
    def {short}(x):
        return {name}(x)"""
"""What is said of a function of one number whose slope is known, or must be filled in."""
OWN_FUNCTION = """has no rule: compute it from functions that have one, pass v.data, which stops the gradient, or give \
it its gradient:
    class {title}(wg.Function):
        def forward(ctx, x): return {name}(x)
        def backward(ctx, g): return ...  # g times the derivative by x"""


STANDARD_FORM = "; with loc and scale, write that of (x - loc) / scale, and subtract np.log(scale)"
"""What is said of the density of a distribution, which is written without its location and scale."""


def _advise_on_scipy(name: str) -> str:
    """Return what to write instead of a function of SciPy that has no rule; empty for other names."""
    home, _, short = name.rpartition(".")
    if name in SCIPY_SPELLINGS:
        return f"has no rule: write {SCIPY_SPELLINGS[name]}{STANDARD_FORM if name.endswith('.logpdf') else ''}"
    if not home.startswith("scipy.") or not short.isidentifier():
        return ""
    if home == "scipy.special":
        otherwise = "" if short in SCIPY_SLOPES else "pass v.data, which stops the gradient, or "
        return OWN_OP.format(name=name, short=short, slope=SCIPY_SLOPES.get(short, "..."), otherwise=otherwise)
    return OWN_FUNCTION.format(name=name, title=short.title().replace("_", ""))


FOREIGN_ADVICE = {
    "jnp": "jnp makes arrays of JAX, which keep no gradient here; write np in its place, or use wg.from_jax",
    "jax": "JAX keeps no gradient here; write NumPy's function in its place, or use wg.from_jax",
    "np.lib.as_strided": "write np.lib.stride_tricks.sliding_window_view(x, n), or an index of whole numbers, x[index]",
    "np.ma": "a masked array keeps no gradient; write x[~mask], or np.where(mask, 0.0, x)",
    "scipy.sparse": (
        "compute with the entries of a matrix, c = A.tocoo(), and make a matrix of what comes out, "
        "scipy.sparse.coo_array((f(c.data), (c.row, c.col)), shape=A.shape)"
    ),
}
"""What to write instead of functions of other libraries that refuse values, by the beginning of their names."""


SUPERLU_MESSAGE = "argument 1 must be numpy.ndarray, not "
"""What the factors of a sparse matrix, SciPy's `splu(A)`, say of a value."""
SPARSE_FACTORS_ADVICE = (
    "where the matrix A has plain numbers, write scipy.sparse.linalg.spsolve(A, b), which keeps the factors for the "
    "next b"
)


METHOD_ADVICE = {
    "from_rotvec": "write scipy.linalg.expm(np.cross(np.eye(3), x)), the matrix of the rotation by the vector x",
    "from_euler": (
        "write the product of matrices such as scipy.linalg.expm(x[0] * np.cross(np.eye(3), [0.0, 0.0, 1.0])), one for "
        "each angle"
    ),
    "from_quat": "write the matrix of the rotation by the quaternion x / np.linalg.norm(x)",
    "query": "write i = tree.query(x.data)[1], and np.linalg.norm(x - points[i], axis=-1) for the distances",
    "LinearNDInterpolator": "write scipy.interpolate.LinearNDInterpolator(points, np.eye(len(x)))(at) @ x",
    "CloughTocher2DInterpolator": (
        "write scipy.interpolate.LinearNDInterpolator(points, np.eye(len(x)))(at) @ x, which is less smooth"
    ),
    "gaussian_kde": "write np.mean(scipy.stats.norm.pdf(at[:, None], x, width), axis=1)",
}
"""What to write instead of a call of compiled code of SciPy, by the name of the method or class."""


def advise_on_method(text: str) -> str:
    """Return what to write instead of a call of compiled code, given its text; empty if unknown.

    >>> advise_on_method("Rotation.from_rotvec(v)")[:42]
    'write scipy.linalg.expm(np.cross(np.eye(3)'
    """
    call = _parse_call(text)
    name = "" if call is None else ast.unparse(call.func).rpartition(".")[2]
    if call is not None and name == "multivariate_normal":
        return _advise_on_random(name, call)
    return METHOD_ADVICE.get(name, "")


def describe_foreign_error(error: Exception) -> str:
    """Say which call of the user's line another library refused because of a value, and what that library said.

    Empty if the user's own line raised the error.
    """
    frames: list[tuple[FrameType, int, int]] = []
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not is_library_file(file) and not file.endswith((".pyx", "<stringsource>")):
            frames = []
        frames.append((trace.tb_frame, trace.tb_lasti, trace.tb_lineno))
        trace = trace.tb_next
    user, position, line = frames[0]
    if len(frames) == 1 and isinstance(error, AttributeError):
        return ""
    names = [_name_library_frame(frame) for frame, _, _ in frames[1:] if _is_other_library(frame)]
    called = next(filter(None, names), "")
    text = find_running_text(user, position)[1]
    name = called or (f"`{text}`" if text else "a function of another library")
    known = [advice for start, advice in FOREIGN_ADVICE.items() if called.startswith(start) or f"`{start}." in name]
    if SUPERLU_MESSAGE in str(error):
        known = [SPARSE_FACTORS_ADVICE]
    own = advise_on_method(text)
    if own:
        known = [own]
    place = f"\n  recorded at {user.f_code.co_filename}:{line}"
    return f"{describe_missing_function(name, *known[:1])}; it says: {error}{place}"


PYTHON_ADVICE = {
    "object is not callable": "it is a number or an array; where an operator is missing, write it, as in a * (b)",
    "not supported between instances": "compare a recorded value with a number or an array",
    r"not iterable|non-iterable|not an iterator": "a recorded number is one number, without elements",
    "item deletion": "np.delete(x, i) returns the array without an element",
    r"\*\* or pow\(\)": "write (x ** n) % m",
    r"^%\w format": 'for a log, write an f-string, as in f"{v:.0f}"',
}
"""What to write where Python itself refuses a value, by a pattern of its message."""


def describe_python_error(error: Exception) -> str:
    """Say what to write where an operator or statement of Python's refused a value on the user's own line; or nothing.

    The message is Python's, which calls the value by its class.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or is_library_file(trace.tb_frame.f_code.co_filename):
        return ""
    advice = [advice for pattern, advice in PYTHON_ADVICE.items() if re.search(pattern, str(error))]
    place = f"\n  recorded at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    return f"{error}: {advice[0]}{place}" if advice else ""


def asks_for_arrays(error: Exception) -> bool:
    """Return whether a function of the user's that asks what is an array raised an error, and has a value."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or is_library_file(trace.tb_frame.f_code.co_filename):
        return False
    code = trace.tb_frame.f_code
    asks = "ndarray" in code.co_names and not {"isinstance", "type"}.isdisjoint(code.co_names)
    knows_values = "Value" in code.co_names
    return asks and not knows_values and any(map(_stands_for_value, trace.tb_frame.f_locals.values()))


def is_raised_over_value(error: Exception) -> bool:
    """Return whether an error was raised inside another library, by a function that was given a value."""
    trace = error.__traceback__
    holds_value = False
    is_inside = False
    while trace is not None:
        is_inside = _is_other_library(trace.tb_frame) or trace.tb_frame.f_code.co_filename.endswith(".pyx")
        if is_inside:
            holds_value |= any(map(_stands_for_value, trace.tb_frame.f_locals.values()))
        trace = trace.tb_next
    return is_inside and holds_value


def _stands_for_value(x: object) -> bool:
    """Return whether an object is a value, an array that may be filled with values, or an object array of values."""
    if type(x) is np.ndarray and x.dtype.kind == "O":
        return x.size > 0 and _stands_for_value(x.flat[0])
    return hasattr(type(x), "__wiregrad_apply__") or hasattr(type(x), "__wiregrad_contents__")


def _is_other_library(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return is_scipy_file(file) or "/numpy/" in file.replace("\\", "/")


def _name_library_frame(frame: FrameType) -> str:
    """Return the public name of the function of NumPy or SciPy that a frame runs; empty for internal functions."""
    home = _public_package(str(frame.f_globals.get("__name__", "")))
    if is_scipy_file(frame.f_code.co_filename):
        return _name_scipy_frame(frame)
    name = frame.f_code.co_name
    return f"np{home.removeprefix('numpy')}.{name}" if not name.startswith("_") else ""


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


PLAIN_MAKER = (
    "{array} is a plain array, made by `{maker}` (line {line}), and cannot hold a recorded value: write `{mended}`"
)
PLAIN_ARRAY = "{array} is a plain array and cannot hold a recorded value: write `{mended}` above"
PLAIN_VIEW = (
    "{view} is a view of a plain array, which cannot hold a recorded value: make that array, before the view, so that "
    "it can, as with np.array(a, like={value})"
)
LIKE_NAMES = frozenset(
    "zeros ones empty full eye identity tri arange array asarray asanyarray ascontiguousarray asfortranarray".split()
)
"""The names of NumPy's functions with an argument `like=`."""
UNKNOWN_ARRAY = "the array"
IN_A_LIST = ", or collect the values in a list and join them with np.stack"
MADE_PATTERN = r"^\s*{array}\s*=\s*(?P<maker>[\w.]+\(.*\))\s*(#.*)?$"


def find_running_text(frame: FrameType, position: int | None = None) -> tuple[str, str]:
    """Return the name of the instruction that a frame is at, and the source text of its expression; empty if unknown.

    `position` is that of the instruction in a frame that has been left.

    >>> import sys
    >>> find_running_text(sys._getframe())[1]
    'find_running_text(sys._getframe())'
    """
    code = frame.f_code
    position = frame.f_lasti if position is None else position
    place = next(islice(code.co_positions(), position // 2, None), (None,) * 4)
    opname = dis.opname[code.co_code[position]]
    first, last, start, stop = place
    if first is None or first != last:
        return opname, ""
    line = read_line_of_code(code.co_filename, first, frame.f_globals)
    return opname, line.encode()[start:stop].decode(errors="replace")


def advise_on_store() -> str:
    """Return what to write instead of assigning to an element of a plain array; empty if that is not what happens."""
    frame = find_user_frame()
    if frame is None:
        return ""
    opname, text = find_running_text(frame)
    return _advise_on_array(frame, name_array(text)) if opname == "STORE_SUBSCR" else ""


def advise_on_part_update(array: object) -> str:
    """Return what to write instead of `d[i] += v`, or `part += v` for a view, on a plain array; else nothing."""
    frame = find_user_frame()
    statement = None if frame is None else _parse_statement(find_running_text(frame)[1])
    if frame is None or not isinstance(statement, ast.AugAssign):
        return ""
    if isinstance(statement.target, ast.Subscript):
        return _advise_on_array(frame, ast.unparse(statement.target.value))
    if isinstance(getattr(array, "base", None), np.ndarray):
        view = ast.unparse(statement.target)
        return PLAIN_VIEW.format(view=view, value=_name_of_value(frame))
    return ""


def _advise_on_array(frame: FrameType, array: str) -> str:
    """Say that an array that is written to is plain, and how to make it so that it can hold values."""
    value = _name_of_value(frame)
    maker = _find_maker(frame, array)
    if maker is None:
        # Code without a source, such as that of stdin, does not tell its names.
        name = "a" if array == UNKNOWN_ARRAY else array
        mended = f"{name} = {_add_like(frame, array, name, value)}"
        return PLAIN_ARRAY.format(array=array, mended=mended) + IN_A_LIST
    line, made = maker
    mended = f"{array} = {_add_like(frame, array, made, value)}"
    return PLAIN_MAKER.format(array=array, maker=f"{array} = {made}", line=line, mended=mended) + IN_A_LIST


def _add_like(frame: FrameType, array: str, made: str, value: str) -> str:
    """Return an expression that made a plain array as one that makes an array for values."""
    call = _parse_call(made)
    function = None if call is None else _resolve_name(frame, call.func)
    is_floating = getattr(frame.f_locals.get(array), "dtype", np.dtype(float)).kind in "fc"
    takes_like = function is not None and any(getattr(np, name) is function for name in LIKE_NAMES)
    if call is None or not is_floating or not takes_like or any(word.arg == "like" for word in call.keywords):
        # An array of whole numbers cannot hold a value.
        dtype = "" if is_floating else "dtype=float, "
        return f"np.array({made}, {dtype}like={value})"
    return f"{made[:-1]}, like={value})"


def _name_of_value(frame: FrameType) -> str:
    """Return the name of a variable that holds a recorded value; "x" if there is none."""
    names = frame.f_code.co_varnames
    variables = frame.f_locals
    return next((name for name in names if hasattr(variables.get(name), "__wiregrad_apply__")), "x")


def _find_maker(frame: FrameType, array: str) -> tuple[int, str] | None:
    """Return the nearest line above that assigned a call to a variable, and the call; None if there is none."""
    if not array.isidentifier():
        return None
    pattern = re.compile(MADE_PATTERN.format(array=array))
    code = frame.f_code
    for line in range(frame.f_lineno - 1, code.co_firstlineno - 1, -1):
        match = pattern.match(read_line_of_code(code.co_filename, line, frame.f_globals))
        if match is not None:
            return line, match["maker"]
    return None


def advise_on_update() -> str:
    """Return what to write instead of `acc += v` or `out=acc` on a plain array; empty if the line is not of that form.

    The text follows a message, and begins with a colon.
    """
    frame = find_user_frame()
    text = "" if frame is None else find_running_text(frame)[1]
    mended = mend_update(text)
    return "" if mended is None else f": instead of `{text}` write `{mended}`"


def mend_update(text: str) -> str | None:
    """Return an update of an array as an assignment; None if the text is no such statement.

    >>> mend_update("n[1:]*=a+b")
    'n[1:] = n[1:] * (a + b)'
    >>> mend_update("np.add(a, b, out=total)")
    'total = np.add(a, b)'
    """
    statement = _parse_statement(text)
    if isinstance(statement, ast.AugAssign):
        target = ast.unparse(statement.target)
        operand = ast.parse(target, mode="eval").body
        return f"{target} = {ast.unparse(ast.BinOp(operand, statement.op, statement.value))}"
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return None
    targets = [ast.unparse(word.value) for word in call.keywords if word.arg == "out"]
    if not targets:
        return None
    call.keywords = [word for word in call.keywords if word.arg != "out"]
    return f"{targets[0]} = {ast.unparse(call)}"


def _parse_statement(text: str) -> ast.stmt | None:
    """Return a text as one statement; None if it is none."""
    try:
        statements = ast.parse(text).body
    except SyntaxError:
        return None
    return statements[0] if len(statements) == 1 else None


def name_array(text: str) -> str:
    """Return the array in the text of a subscript.

    >>> name_array("self.rows[k][i]")
    'self.rows[k]'
    """
    statement = _parse_statement(text)
    subscript = statement.value if isinstance(statement, ast.Expr) else None
    return ast.unparse(subscript.value) if isinstance(subscript, ast.Subscript) else UNKNOWN_ARRAY


def advise_on_number() -> str:
    """Return what to write instead of a call that turns a value into a float; the general advice if unknown."""
    advice = advise_on_random()
    if advice:
        return advice
    frame = find_user_frame()
    text = "" if frame is None else find_running_text(frame)[1]
    call = _parse_call(text)
    if frame is not None and call is not None:
        function = _resolve_name(frame, call.func)
        name = getattr(function, "__name__", "")
        if getattr(function, "__module__", None) == "math" and name in MATH_FUNCTIONS:
            return f"instead of `{text}` write `{_mend_math(name, call)}`"
        if function is float and len(call.args) == 1:
            return _advise_on_copy(text, call.args[0])
    if re.match(r"[rub]*[\"'].*%", text):
        return f'instead of `{text}` write an f-string, as in f"{{v:.3f}}", if it is for a log'
    called = f"`{text}` reads plain numbers; " if call is not None else ""
    return f"{called}write NumPy's function, such as np.sin(v) instead of math.sin(v)"


def _advise_on_copy(text: str, argument: ast.expr) -> str:
    """Return what to write instead of `float(v)`: in a formula the value itself, in a log its number."""
    value = ast.unparse(argument)
    return f"instead of `{text}` write `{value}`, which keeps the gradient, or `{_enclose(value)}.item()` for a log"


def _mend_math(name: str, call: ast.Call) -> str:
    """Return a call of a function of `math` as one of NumPy's or SciPy's."""
    parts = [ast.unparse(part) for part in call.args]
    if name == "log" and len(parts) > 1:
        return f"np.log({parts[0]}) / np.log({parts[1]})"
    if name == "hypot" and (len(parts) != 2 or parts[0].startswith("*")):
        return f"np.linalg.norm(wg.array([{', '.join(parts)}]))"
    if name == "dist":
        return f"np.linalg.norm(np.subtract({', '.join(parts)}))"
    return f"{MATH_FUNCTIONS[name]}({', '.join(parts)})"


def _list_math_functions() -> dict[str, str]:
    """Return for each function of `math` the function that takes values."""
    same = {name: f"np.{name}" for name in vars(math) if isinstance(getattr(np, name, None), np.ufunc)}
    special = {"lgamma": "gammaln", "gamma": "gamma", "erf": "erf", "erfc": "erfc"}
    others = {"pow": "np.power", "fsum": "np.sum", "sumprod": "np.dot", "dist": "np.linalg.norm"}
    return same | {name: f"scipy.special.{other}" for name, other in special.items()} | others


MATH_FUNCTIONS = _list_math_functions()


def _is_random(function: Any) -> bool:
    """Return whether a function draws random numbers with NumPy."""
    owner = getattr(function, "__self__", None)
    return isinstance(owner, np.random.Generator | np.random.RandomState)


RANDOM_FORMS: dict[str, tuple[tuple[str, ...], str]] = {
    **dict.fromkeys(("normal", "laplace", "gumbel", "logistic"), (("loc=0", "scale=1"), "{0} + {1} * {draw}")),
    "lognormal": (("mean=0", "sigma=1"), "np.exp({0} + {1} * {rng}.normal({size}))"),
    "multivariate_normal": (("mean=mean", "cov=cov"), "{0} + {rng}.normal(size={rows}) @ np.linalg.cholesky({1}).T"),
    "uniform": (("low=0", "high=1"), "{0} + ({1} - {0}) * {draw}"),
    "exponential": (("scale=1",), "{0} * {draw}"),
    "rayleigh": (("scale=1",), "{0} * {draw}"),
    "permutation": (("x=x",), "{0}[{rng}.permutation(len({0}))]"),
    "shuffle": (("x=x", "axis=0"), "{0}[...] = np.take({0}, {rng}.permutation({0}.shape[{1}]), {1})"),
    "permuted": (
        ("x=x", "axis=None"),
        "{0}.reshape(-1)[{rng}.permuted(np.arange({0}.size).reshape({0}.shape), axis={1})]",
    ),
}
"""For each function that draws random numbers, its parameters, and what gives the same numbers of recorded ones."""


SHUFFLES = ("shuffle", "permuted")


def _advise_on_random(name: str, call: ast.Call) -> str:
    """Return what to write instead of drawing random numbers with recorded parameters."""
    outs = [ast.unparse(word.value) for word in call.keywords if word.arg == "out"]
    if outs and name not in SHUFFLES:
        rest = [word for word in call.keywords if word.arg != "out"]
        rest.append(ast.keyword("size", ast.parse(f"{outs[0]}.shape", mode="eval").body))
        drawn = ast.unparse(ast.Call(call.func, call.args, rest))
        return f"instead of `{ast.unparse(call)}` write `{outs[0]}[...] = {drawn}`"
    if name in SHUFFLES and not isinstance(call.func, ast.Attribute):
        return "permute whole numbers, and take the elements: x[...] = x[rng.permutation(len(x))]"
    if name not in RANDOM_FORMS or not isinstance(call.func, ast.Attribute):
        return "random numbers have no derivative by the parameters of their distribution; draw them with v.item()"
    parameters, form = RANDOM_FORMS[name]
    named = {str(word.arg): ast.unparse(word.value) for word in call.keywords}
    given = dict(
        zip([text.partition("=")[0] for text in (*parameters, "size=")], map(ast.unparse, call.args), strict=False)
    )
    named |= given
    filled = [_enclose(named.get(*text.split("="))) for text in parameters]
    rng = ast.unparse(call.func.value)
    size = f"size={named['size']}" if "size" in named else ""
    shape = f"({named['size']}, len({filled[0]}))" if "size" in named else f"len({filled[0]})"
    mended = form.format(*filled, draw=f"{rng}.{name}({size})", rng=rng, size=size, rows=shape)
    for plain, shorter in (("0 + ", ""), (" - 0)", ")"), (" + 1 * ", " + ")):
        mended = mended.replace(plain, shorter)
    target = f"{outs[0]}[...] = " if outs else ""
    return f"instead of `{ast.unparse(call)}` write `{target}{mended}`"


def advise_on_random() -> str:
    """Return what to write instead of a call that draws random numbers; empty if the line is not of that form."""
    frame = find_user_frame()
    call = None if frame is None else _parse_call(find_running_text(frame)[1])
    if frame is None or call is None:
        return ""
    function: Any = _resolve_name(frame, call.func)
    if function is None and isinstance(call.func, ast.Attribute) and _names_draw(call.func):
        # The generator is an attribute of an object, say; nothing else of that name takes arrays.
        return _advise_on_random(call.func.attr, call)
    return _advise_on_random(function.__name__, call) if _is_random(function) else ""


def _names_draw(function: ast.Attribute) -> bool:
    """Return whether a method is one of a generator: it shuffles, or the generator is made on the spot."""
    maker = function.value.func if isinstance(function.value, ast.Call) else None
    return function.attr in SHUFFLES or (maker is not None and ast.unparse(maker).endswith("default_rng"))


def describe_refused_draw(error: Exception) -> str:
    """Say what to write instead of a call of a generator that refused a value as the array to write to; or nothing."""
    if not str(error).startswith(REFUSED_DRAWS):
        return ""
    trace = error.__traceback__
    user = None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not is_library_file(file) and not file.endswith(".pyx"):
            user = trace
        trace = trace.tb_next
    call = None if user is None else _parse_call(find_running_text(user.tb_frame, user.tb_lasti)[1])
    if user is None or call is None or not isinstance(call.func, ast.Attribute):
        return ""
    operands = [*call.args, *(word.value for word in call.keywords)]
    if not any(_stands_for_value(_resolve_name(user.tb_frame, part)) for part in operands):
        return ""
    advice = _advise_on_random(call.func.attr, call)
    place = f"\n  recorded at {user.tb_frame.f_code.co_filename}:{user.tb_lineno}"
    return f"NumPy's generators write to plain arrays alone: {advice}{place}"


REFUSED_DRAWS = (
    "Axis argument is only supported on ndarray",
    "out must be a numpy array",
    "Supplied output array must",
)
"""How NumPy's generators begin to refuse what is no array of theirs."""


def describe_refused_list(error: Exception) -> str:
    """Say what to write instead of a call of a ufunc that refused a list of values; or nothing."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    is_users = trace is not None and not is_library_file(trace.tb_frame.f_code.co_filename)
    call = None if trace is None or not is_users else _parse_call(find_running_text(trace.tb_frame, trace.tb_lasti)[1])
    if trace is None or call is None or not isinstance(_resolve_name(trace.tb_frame, call.func), np.ufunc):
        return ""
    parts = [_join_operand(trace.tb_frame, part) for part in call.args]
    mended = ast.unparse(ast.Call(call.func, parts, call.keywords))
    if mended == ast.unparse(call):
        return ""
    place = f"\n  recorded at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    return f"{ast.unparse(call.func)} takes no list of recorded values: write {mended}{place}"


def _join_operand(frame: FrameType, part: ast.expr) -> ast.expr:
    """Return an operand of a ufunc, as an array if it is a list of values."""
    if isinstance(part, ast.Name | ast.Attribute):
        is_list = isinstance(_resolve_name(frame, part), list | tuple | np.ndarray)
    else:
        is_list = isinstance(part, ast.List | ast.Tuple | ast.ListComp)
    names = [_resolve_name(frame, node) for node in ast.walk(part) if isinstance(node, ast.Name)]
    if not is_list or not any(map(_holds_value, names)):
        return part
    return ast.Call(ast.parse("np.array", mode="eval").body, [part], [])


def _holds_value(x: object) -> bool:
    return any(map(_holds_value, x)) if isinstance(x, list | tuple) else _stands_for_value(x)


def check_assigning_code(frame: FrameType) -> None:
    """Raise if compiled code, and no statement of the frame, assigns a part of an array to another part of it.

    NumPy's `shuffle` exchanges rows of arrays by way of a copy, and of all other objects as `x[i], x[j] = x[j], x[i]`,
    which loses one of them. Functions that stand for a subscript may assign as the subscript does.
    """
    opname, text = find_running_text(frame)
    if "CALL" not in opname:
        return
    call = _parse_call(text)
    function = "" if call is None else ast.unparse(call.func).rpartition(".")[2]
    if function in INDEXING_FUNCTIONS:
        return
    advice = advise_on_random() or "exchange them with y[[i, j]] = y[[j, i]]"
    raise MutationError(
        "compiled code would exchange parts of a recorded array as views, of which one would overwrite the other: "
        f"{advice}{format_user_line()}"
    )


def _enclose(text: str) -> str:
    """Return the text of an expression with parentheses, unless it is a name, a number or a call.

    >>> _enclose("mu"), _enclose("a + b")
    ('mu', '(a + b)')
    """
    body = ast.parse(text, mode="eval").body
    return text if isinstance(body, ast.Name | ast.Constant | ast.Call | ast.Attribute | ast.Subscript) else f"({text})"


def _parse_call(text: str) -> ast.Call | None:
    statement = _parse_statement(text)
    call = statement.value if isinstance(statement, ast.Expr) else None
    return call if isinstance(call, ast.Call) else None


def _resolve_name(frame: FrameType, node: ast.expr) -> Any:
    """Return what a name, or an attribute of a module or generator, stands for in a frame; None if unknown."""
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals, frame.f_builtins):
            if node.id in names:
                return names[node.id]
    if isinstance(node, ast.Attribute):
        owner = _resolve_name(frame, node.value)
        if isinstance(owner, ModuleType | np.random.Generator | np.random.RandomState):
            return getattr(owner, node.attr, None)
    return None


def advise_on_conversion() -> str:
    """Return what to write instead of a call that turns values into a plain array; the general advice if unknown."""
    frame = find_user_frame()
    text = "" if frame is None else find_running_text(frame)[1]
    call = _parse_call(text)
    function: Any = None if frame is None or call is None else _resolve_name(frame, call.func)
    if call is not None and len(call.args) == 1 and isinstance(function, type) and issubclass(function, np.floating):
        return _advise_on_copy(text, call.args[0])
    if call is not None and _is_random(function):
        return _advise_on_random(function.__name__, call)
    if call is not None and isinstance(call.func, ast.Attribute) and _names_draw(call.func):
        return _advise_on_random(call.func.attr, call)
    if advise_on_method(text):
        return advise_on_method(text)
    match = re.fullmatch(r"(?P<module>\w+)\.(?P<name>array|asarray|asanyarray)(?P<arguments>\(.*\))", text)
    if match is None:
        return "join values with wg.array([...]) or np.stack([...])"
    return f"instead of `{text}` write `wg.array{match['arguments']}`, or `import wiregrad.numpy as {match['module']}`"
