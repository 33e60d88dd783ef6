"""Names that other libraries have and wiregrad does not: what to write instead.

People arrive with the habits of PyTorch, JAX, micrograd and autograd. A name that means the same here is a method or an
alias (`dispatch.TORCH_METHODS`). Every other name has one line in a table below. The code of a line, behind `write`, is
run by a test with the variables of `HINT_VARIABLES`.

The names of `VALUE_HINTS` are descriptors, not cases of a `__getattr__`: with a `__getattr__`, Python would read every
attribute of a value four times slower.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Never

import numpy as np

from wiregrad.errors import InputError, NoRuleError, UnknownAttributeError, UnknownToLibraryError, format_user_line
from wiregrad.frontends.recording.library_calls import describe_missing_function, name_scipy_call
from wiregrad.ir import TABLE
from wiregrad.ops.functions import FUNCTIONS

HINT_VARIABLES = ("a", "b", "f", "index", "n", "other", "rng", "shape", "v", "values", "w", "wg", "np", "x", "y")
"""The variables that the code of hints uses."""

_MAKE_CONSTANT = "every value that you make has a gradient; for a constant, write v.detach()"
_ON_CPU = "leave it out; values are NumPy arrays, always on the CPU"
_NEW_DATA = "a value does not change in place; write w.data = "

VALUE_HINTS: dict[str, str] = {
    "_prev": "write v.inputs",
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
    "long": "whole numbers have no gradient; write v.data.astype(int)",
    "int": "whole numbers have no gradient; write v.data.astype(int)",
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
    "nn": "layers are NumPy code; for what NumPy lacks, write wg.relu(x) or wg.softmax(x)",
    "functional": "write wg.relu(x) or wg.softmax(x)",
    "optim": "write w.data -= 0.1 * w.grad",
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
    "draw_dot": "write wg.run(y).to_svg()",
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
        # With a name and no object, Python appends no suggestion of its own.
        raise UnknownAttributeError(f"wg.Value has no {self.name!r}: {self.hint}{format_user_line()}", name=self.name)

    def __set__(self, value: object, to: object) -> Never:
        self.__get__(value, type(value))


class ForeignNames:
    """The names of other libraries that values do not have, for the sake of their error messages."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if hasattr(type(self), name)]

    @classmethod
    def __torch_function__(cls, function: Any, types: object, args: object = (), kwargs: object = None) -> Never:
        """Raise because a function of PyTorch was given a value; PyTorch calls this."""
        name = function.__name__
        raise NoRuleError(f"torch's {name} cannot take a wg.Value: {describe_torch_function(name)}")


for _name, _hint in VALUE_HINTS.items():
    setattr(ForeignNames, _name, ForeignName(_name, _hint))


def describe_module_name(name: str) -> str:
    """Return `: write ...` for a name that `wiregrad` does not have; empty for names of no known library.

    >>> describe_module_name("cat"), describe_module_name("zeros")
    (': write np.concatenate([a, b], axis=0)', ': write np.zeros')
    """
    if name in MODULE_HINTS:
        return f": {MODULE_HINTS[name]}"
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
