"""Modules: objects that hold parameters and compute with them, as PyTorch's `nn.Module`.

The parts of a module are its ordinary attributes. An attribute that is a `wg.Value` is a parameter, one that is a
module is a part, and so is every element of a list, tuple or dict of them. Names are paths of attributes, as PyTorch
writes them: `blocks.0.linear.weight`. Arrays that are not trained, such as running means, are buffers, which are
registered by name.

A module is used in two ways. Called directly, it computes with its own parameters: `loss.backward()` fills their
gradients, and an optimiser changes them. `model.holding(arrays)` is a copy of the model that computes with other arrays
in place of its own, so that a pure function of a dict of arrays can call it: `wg.grad` and `wg.compile` want that.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeGuard

import numpy as np
from numpy.typing import DTypeLike, NDArray

import wiregrad as wg
from wiregrad.errors import InputError, StateError, short_repr

MAX_LISTED_NAMES = 20
"""Maximum number of names of each kind that an error about a state lists."""


NAMES_IN_PYTORCH = {
    "named_parameters": "parameters() is a dict from names to values",
    "named_modules": "modules() is a dict from names to modules",
    "named_buffers": "buffers() is a dict from names to arrays",
    "children": "parts() yields what the module holds",
    "register_parameter": "set an attribute to a wg.Value",
    "requires_grad_": "an optimiser changes only the parameters that it is given",
    **dict.fromkeys(("to", "float", "double", "half"), "astype(np.float32) converts a model"),
    **dict.fromkeys(("cpu", "cuda"), "networks are computed on the processor"),
    "apply": "loop over modules().values()",
}
"""Methods of PyTorch's modules that are missing here, and what to write instead."""


class ModulePart(NamedTuple):
    """What an attribute of a module holds, with its path from the module."""

    name: str
    value: Any
    kind: Literal["parameter", "buffer", "module"]


class EmptyArray(NamedTuple):
    """The shape and dtype of an array that a module does not have."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class MaskNote(NamedTuple):
    """A mask that a call draws: the layer that draws it, its shape and dtype."""

    layer: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def draw(self) -> NDArray[Any]:
        """Return a new mask, from the generator of the layer."""
        mask: NDArray[Any] = self.layer.draw_mask(self.shape, self.dtype)
        return mask


class GivenMasks:
    """Masks that were drawn before, for the layers of a copy that `holding` made, in the order of their calls."""

    def __init__(self, masks: Sequence[Any]) -> None:
        self._masks = iter(masks)

    def take_mask(self, layer: Module, x: Any) -> Any:
        """Return the mask of the next call."""
        mask = next(self._masks, None)
        if mask is None or mask.shape != x.shape:
            found = "there is none left" if mask is None else f"it has shape {mask.shape}"
            raise InputError(
                f"{layer.describe()}: a mask of shape {x.shape} is needed, and {found}; find_masks(call) says which "
                "masks a call needs"
            )
        return mask


class NotedMasks:
    """Notes which masks a call draws, and draws none."""

    def __init__(self) -> None:
        self.notes: list[MaskNote] = []

    def take_mask(self, layer: Module, x: Any) -> Any:
        """Note a mask."""
        self.notes.append(MaskNote(layer, x.shape, x.dtype))
        return np.ones(x.shape, x.dtype)


class ForwardSignature:
    """The parameters of a module's call, which are those of its `forward`: inputs of its circuit have their names."""

    def __get__(self, module: Module | None, owner: type[Module]) -> inspect.Signature:
        if module is None:
            # A class has the parameters of its `__init__`.
            raise AttributeError("__signature__")
        return inspect.signature(module.forward)


class Module:
    """A part of a network: `__init__` sets its parameters and parts, and `forward` computes.

    >>> class Scale(Module):
    ...     def __init__(self):
    ...         self.factor = wg.Value(np.array([2.0, 3.0]))
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> model = Scale()
    >>> model(np.array([1.0, 10.0]))
    Value(array([ 2., 30.]))
    >>> model.parameters()
    {'factor': Value(array([2., 3.]), name='factor')}
    """

    __signature__ = ForwardSignature()
    training: bool = True
    """Whether the module computes as it does while it is trained; `train()` and `eval()` set it."""
    _path: str = ""
    """The path from the outermost module to this one, as in the names of parameters; empty for the outermost."""
    _group: str = ""
    """The label of the group that a call opens; empty if it opens none."""
    _buffers: tuple[str, ...] = ()
    """The names of the attributes that are buffers."""
    _held: frozenset[str] | None = None
    """On a copy made by `holding`, the attributes that are parameters, whatever they hold; None elsewhere."""
    _masks: GivenMasks | NotedMasks | None = None
    """On a copy made by `holding`, where masks come from if layers draw none."""
    _calls_no_derived_class = True
    """Copies are made without calling the class, so compiled functions need not compare what `__init__` reads."""

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        for path, part in _flatten(name, value):
            self._name_part(path, part)

    def _name_part(self, label: str, part: object) -> None:
        """Note where a module or parameter is, so that errors and pictures can name it."""
        path = _join_path(self._path, label)
        if isinstance(part, Module):
            vars(part).update(_group=part._choose_group(label), _path=path)
            for inner in part.parts():
                part._name_part(inner.name, inner.value)
        elif is_parameter(part):
            part.name = _write_subscripts(path if path[0].isalpha() else f"layers.{path}")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            hint = f"; {NAMES_IN_PYTORCH[name]}" if name in NAMES_IN_PYTORCH else ""
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}", name=name, obj=self)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute; a class of yours defines it."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call `forward`; the nodes that it records are a group, named after the module."""
        if not self._group:
            return self.forward(*args, **kwargs)
        with wg.group(self._group):
            return self.forward(*args, **kwargs)

    def _choose_group(self, label: str) -> str:
        """Return the name of the module's group in circuits and pictures: `fc1`, `blocks[0]`, `0: Linear`.

        A trace groups the calls of a user's `forward` itself, after the attribute that holds the module; a number in a
        `Sequential` is no attribute.
        """
        is_number = label[0].isdecimal()
        if not type(self).forward.__module__.startswith("wiregrad."):
            return label if is_number else ""
        return f"{label}: {type(self).__name__}" if is_number else _write_subscripts(label)

    def describe(self) -> str:
        """Return the name of the module for a message: `layer encoder.fc1 (Linear)`."""
        return f"layer {self._path} ({type(self).__name__})" if self._path else type(self).__name__

    def parts(self) -> Iterator[ModulePart]:
        """Yield the parameters, buffers and modules that the attributes hold."""
        for name, value in vars(self).items():
            if name in self._buffers:
                yield ModulePart(name, value, "buffer")
            elif isinstance(value, Module):
                yield ModulePart(name, value, "module")
            elif isinstance(value, dict | list | tuple) or is_parameter(value) or self._holds(name):
                yield from self._find_parts(name, value)

    def _find_parts(self, name: str, value: object) -> Iterator[ModulePart]:
        """Yield the parameters and modules of an attribute."""
        for path, part in _flatten(name, value):
            if isinstance(part, Module):
                yield ModulePart(path, part, "module")
            elif is_parameter(part) or self._holds(name):
                yield ModulePart(path, part, "parameter")

    def _holds(self, name: str) -> bool:
        return self._held is not None and name in self._held

    def walk(self, path: str = "") -> Iterator[tuple[str, Module, list[ModulePart]]]:
        """Yield this module and all modules inside it, each with its path and its parts."""
        parts = list(self.parts())
        yield path, self, parts
        for part in parts:
            if part.kind == "module":
                yield from part.value.walk(_join_path(path, part.name))

    def modules(self) -> dict[str, Module]:
        """Return this module and all modules inside it, by their paths; the path of this one is empty."""
        return {path: module for path, module, _ in self.walk()}

    def _list_arrays(self, kind: Literal["parameter", "buffer"]) -> dict[str, Any]:
        """Return all parameters or all buffers under each of their names."""
        return {
            _join_path(path, part.name): part.value
            for path, _, parts in self.walk()
            for part in parts
            if part.kind == kind
        }

    def parameters(self) -> dict[str, Any]:
        """Return the parameters by name; one that is used in several places has the first of its names."""
        named = self._list_arrays("parameter")
        first = {id(value): name for name, value in reversed(named.items())}
        return {name: value for name, value in named.items() if first[id(value)] == name}

    def buffers(self) -> dict[str, Any]:
        """Return the arrays that are not trained, such as running means, by name."""
        return self._list_arrays("buffer")

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the parameters as plain arrays by name: what `holding` takes."""
        return {name: _as_plain(value) for name, value in self.parameters().items()}

    def register_buffer(self, name: str, value: Any) -> None:
        """Set an attribute to an array or number that belongs to the state of the module but is not trained."""
        self._buffers = (*self._buffers, name)
        setattr(self, name, np.array(value) if np.ndim(value) else value)

    def set_buffer(self, name: str, value: Any) -> None:
        """Give a buffer its next array: a plain one, except on a copy that `holding` made, where it stays recorded."""
        stopped = wg.stop_gradient(value)
        is_recorded = isinstance(stopped, wg.Value) and self._held is None
        setattr(self, name, stopped.data if is_recorded else stopped)

    def holding(self, arrays: Mapping[str, Any], masks: Sequence[Any] | None = None) -> Self:
        """Return a copy of this module that holds other arrays: all parameters, and any of the buffers.

        Inside a function that is differentiated or compiled, the arrays are recorded values. Buffers that the copy
        changes are its own: `copy.buffers()` returns them. With `masks`, dropout takes these in the order of its calls,
        and draws none: `find_masks` says which it needs.

        >>> from wiregrad import nn
        >>> model = nn.Linear(2, 1, rng=np.random.default_rng(0))
        >>> x = np.ones((3, 2))
        >>> wg.grad(lambda arrays: np.sum(model.holding(arrays)(x)))(model.arrays())["bias"]
        array([3.])
        """
        empty = {name: value for name, value in self.buffers().items() if isinstance(value, EmptyArray)}
        self._check_state(arrays, {**self.parameters(), **empty})
        first = {id(value): name for name, value in self.parameters().items()}
        aliases = {name: arrays[first[id(value)]] for name, value in self._list_arrays("parameter").items()}
        copy: Self = _copy_module(self, "", {**aliases, **arrays}, {})
        if masks is not None:
            copy._take_masks_from(GivenMasks(masks))
        return copy

    def _take_masks_from(self, source: GivenMasks | NotedMasks) -> None:
        for module in self.modules().values():
            vars(module)["_masks"] = source

    def find_masks(self, call: Callable[[Self], object]) -> list[MaskNote]:
        """Return which masks dropout draws in a call of the model, or of a function of it, in their order.

        A compiled function gets its masks as arguments, so that it draws none and is native:

        >>> from wiregrad import nn
        >>> rng = np.random.default_rng(0)
        >>> model = nn.Sequential(nn.Linear(2, 4, rng=rng), nn.Dropout(0.5, rng=rng))
        >>> x = np.ones((3, 2))
        >>> notes = model.find_masks(lambda model: model(x))
        >>> masks = [note.draw() for note in notes]
        >>> structure = model.emptied()
        >>> compute = wg.compile(lambda arrays, masks, x: structure.holding(arrays, masks)(x))
        >>> compute(model.arrays(), masks, x).shape
        (3, 4)
        """
        copy = self.holding({**self.arrays(), **self.buffers()})
        noted = NotedMasks()
        copy._take_masks_from(noted)
        paths = {id(module): path for path, module in copy.modules().items()}
        with wg.no_grad():
            call(copy)
        own = self.modules()
        return [note._replace(layer=own[paths[id(note.layer)]]) for note in noted.notes]

    def emptied(self) -> Self:
        """Return a copy of this module that has only the shapes and dtypes of its arrays, for `holding` to fill.

        A compiled function compares everything that it reads from outside before each call. With such a copy there are
        no arrays to compare. Generators are left out too: the masks of dropout are given to `holding`.

        >>> from wiregrad import nn
        >>> model = nn.Linear(2, 1, rng=np.random.default_rng(0))
        >>> model.emptied().weight
        EmptyArray(shape=(1, 2), dtype=dtype('float64'))
        """
        own = {**self._list_arrays("parameter"), **self.buffers()}
        empty = {id(value): _describe_array(value) for value in own.values()}
        copy: Self = _copy_module(self, "", {name: empty[id(value)] for name, value in own.items()}, {})
        for module in copy.modules().values():
            generators = [name for name, value in vars(module).items() if isinstance(value, np.random.Generator)]
            vars(module).update(dict.fromkeys(generators))
        return copy

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return copies of all parameters and buffers by name, with PyTorch's names and layouts."""
        return {
            _join_path(path, part.name): module.save_array(part.name, np.array(_as_plain(part.value)))
            for path, module, parts in self.walk()
            for part in parts
            if part.kind != "module"
        }

    def save_array(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """Return an array of this module as `state_dict` has it."""
        return array

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over all parameters and buffers; nothing changes unless all of them fit."""
        self._check_state(state, {**self._list_arrays("parameter"), **self.buffers()})
        for path, module, parts in self.walk():
            for part in parts:
                if part.kind == "parameter":
                    part.value.data = np.asarray(state[_join_path(path, part.name)], part.value.dtype)
                elif part.kind == "buffer":
                    array = np.array(state[_join_path(path, part.name)], np.asarray(part.value).dtype)
                    setattr(module, part.name, array if array.ndim else array.item())

    def load_buffers(self, buffers: Mapping[str, Any]) -> None:
        """Take over the buffers that a copy of this module has changed."""
        for path, module, parts in self.walk():
            for part in parts:
                if part.kind == "buffer":
                    setattr(module, part.name, buffers[_join_path(path, part.name)])

    def _check_state(self, state: Mapping[str, Any], needed: Mapping[str, Any]) -> None:
        """Raise an error that names everything that does not fit: missing and unknown names, and shapes."""
        if not isinstance(state, Mapping):
            raise InputError(f"{type(self).__name__} needs a dict from names to arrays; got {short_repr(state)}")
        own = {**self._list_arrays("parameter"), **self.buffers()}
        pairs = {name: (own[name], state[name]) for name in own if name in state}
        differences = {name: _find_difference(*pair) for name, pair in pairs.items()}
        others = [f"{name} {difference}" for name, difference in differences.items() if difference]
        check_names(f"the arrays for {type(self).__name__}", state, own, needed, others)

    def train(self, mode: bool = True) -> Self:
        """Compute as while training: dropout drops, batch normalization uses the batch's mean. Returns the module."""
        for module in self.modules().values():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Compute as after training: no dropout, running means. Returns the module."""
        return self.train(False)

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for value in self.parameters().values():
            value.grad = None

    def astype(self, dtype: DTypeLike) -> Self:
        """Convert all parameters and buffers of real numbers to a dtype, such as np.float32. Returns the module.

        Make optimisers after that: what they keep has the dtype of the parameters.
        """
        for _, module, parts in self.walk():
            for part in parts:
                if part.kind == "parameter":
                    part.value.data = _as_plain(part.value).astype(dtype)
                    part.value.grad = None
                elif part.kind == "buffer" and isinstance(part.value, np.ndarray) and part.value.dtype.kind == "f":
                    setattr(module, part.name, part.value.astype(dtype))
        return self

    def summary(self, *inputs: object) -> str:
        """Return a table of all layers: their parameters and, if inputs are given, the shapes of their outputs.

        >>> from wiregrad import nn
        >>> rng = np.random.default_rng(0)
        >>> model = nn.Sequential(nn.Linear(2, 8, rng=rng), nn.Tanh(), nn.Linear(8, 1, rng=rng))
        >>> print(model.summary(np.zeros((16, 2))))
        layer  kind        output   parameters
               Sequential  (16, 1)          33
        0      Linear      (16, 8)          24
        1      Tanh        (16, 8)           0
        2      Linear      (16, 1)           9
        33 parameters, 264 bytes
        """
        shapes = self._find_output_shapes(inputs) if inputs else {}
        rows = [["layer", "kind", "output", "parameters"]]
        for path, module in self.modules().items():
            count = sum(int(np.size(value)) for value in module.parameters().values())
            rows.append([path, type(module).__name__, shapes.get(path, ""), f"{count:,}"])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        columns = [k for k in range(4) if inputs or k != 2]
        lines = [
            "  ".join(row[k].rjust(widths[k]) if k == 3 else row[k].ljust(widths[k]) for k in columns) for row in rows
        ]
        arrays = self.arrays().values()
        total, size = sum(array.size for array in arrays), sum(array.nbytes for array in arrays)
        return "\n".join([*lines, f"{total:,} parameters, {size:,} bytes"])

    def _find_output_shapes(self, inputs: Sequence[object]) -> dict[str, str]:
        """Call a copy of the model, with layers as after training; returns the shape of what each module returned."""
        copy = self.holding({**self.arrays(), **self.buffers()}).eval()
        shapes: dict[str, str] = {}

        def note_shape(path: str, forward: Callable[..., Any]) -> Callable[..., Any]:
            def noting(*args: object, **kwargs: object) -> Any:
                result = forward(*args, **kwargs)
                shapes[path] = _write_shapes(result)
                return result

            return noting

        for path, module in copy.modules().items():
            vars(module)["forward"] = note_shape(path, module.forward)
        with wg.no_grad():
            copy(*inputs)
        return shapes

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        return ""

    def __repr__(self) -> str:
        parts = [f"({part.name}): {part.value!r}" for part in self.parts() if part.kind == "module"]
        if not parts:
            return f"{type(self).__name__}({self.extra_repr()})"
        lines = "\n".join([*filter(None, [self.extra_repr()]), *parts]).replace("\n", "\n  ")
        return f"{type(self).__name__}(\n  {lines}\n)"


class Sequential(Module):
    """Modules one after another; each gets what the one before it returned.

    >>> from wiregrad import nn
    >>> rng = np.random.default_rng(0)
    >>> model = Sequential(nn.Linear(2, 3, rng=rng), nn.Tanh(), nn.Linear(3, 1, rng=rng))
    >>> model
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): Tanh()
      (2): Linear(in_features=3, out_features=1, bias=True)
    )
    >>> list(model.parameters())
    ['0.weight', '0.bias', '2.weight', '2.bias']
    """

    def __init__(self, *modules: Module) -> None:
        for index, module in enumerate(modules):
            if not isinstance(module, Module):
                raise InputError(
                    f"Sequential takes modules, such as nn.Tanh(); element {index} is {short_repr(module)}"
                )
            setattr(self, str(index), module)

    def __iter__(self) -> Iterator[Module]:
        return (part.value for part in self.parts() if part.kind == "module")

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __getitem__(self, index: int) -> Module:
        return list(self)[index]

    def forward(self, x: Any) -> Any:
        """Call the modules in their order."""
        for module in self:
            x = module(x)
        return x


class AveragedModel(Module):
    """A copy of a model with averages of its parameters, as `torch.optim.swa_utils.AveragedModel`.

    `update_parameters(model)`, called after each step or epoch, moves the averages: with `decay` it is an exponential
    mean, without it the mean of all calls. Buffers are those of the model.

    >>> from wiregrad import nn
    >>> model = nn.Linear(1, 1, bias=False, rng=np.random.default_rng(0))
    >>> averaged = AveragedModel(model, decay=0.9)
    >>> for number in (1.0, 2.0):
    ...     model.weight.data = np.array([[number]])
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.data.round(6)
    array([[1.1]])
    """

    n_averaged: int

    def __init__(self, model: Module, decay: float | None = None) -> None:
        if decay is not None and not 0.0 <= decay < 1.0:
            raise InputError(f"decay must be at least 0 and less than 1, or None; got {decay}")
        self.decay = decay
        self.register_buffer("n_averaged", 0)
        self.module = deepcopy(model)

    def update_parameters(self, model: Module) -> None:
        """Move the averages towards the parameters of a model."""
        given = model.parameters()
        check_names("the parameters of the model", given, self.module.parameters(), self.module.parameters(), [])
        share = 1.0 / (self.n_averaged + 1) if self.decay is None or not self.n_averaged else 1.0 - self.decay
        for name, value in self.module.parameters().items():
            value.data = value.data + share * (given[name].data - value.data)
        self.module.load_buffers(model.buffers())
        self.n_averaged += 1

    def forward(self, *args: object, **kwargs: object) -> Any:
        """Return what the model with the averages returns."""
        return self.module(*args, **kwargs)


def call_with(model: Module, arrays: Mapping[str, Any], *args: object, **kwargs: object) -> Any:
    """Call a model with other arrays in place of its parameters, as a pure function of them.

    A model that updates buffers in the call is refused, since the update would be lost: use `model.holding(arrays)`,
    and return the `buffers()` of that.

    >>> from wiregrad import nn
    >>> model = nn.Linear(2, 1, rng=np.random.default_rng(0))
    >>> call_with(model, {"weight": np.array([[2.0, 3.0]]), "bias": np.zeros(1)}, np.ones((1, 2)))
    array([[5.]])
    """
    copy = model.holding(arrays)
    before = copy.buffers()
    result = copy(*args, **kwargs)
    changed = [name for name, value in copy.buffers().items() if value is not before[name]]
    if changed:
        raise InputError(
            f"this call changes {_join_names(changed)}, and call_with would lose it; write "
            "copy = model.holding(arrays), call the copy, and return copy.buffers() too; or call model.eval() first"
        )
    return result


def save_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write a dict of arrays, such as a `state_dict()`, to a safetensors file, which PyTorch reads too.

    An older file is replaced at once or not at all.
    """
    wg.save_arrays(path, {name: _as_plain(value) for name, value in arrays.items()})


def load_arrays(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a safetensors file by name."""
    return wg.load_arrays(path)


def check_names(
    what: str, state: Mapping[str, Any], known: Mapping[str, Any], needed: Mapping[str, Any], others: list[str]
) -> None:
    """Raise an error that lists names that are missing and names that are unknown, and other differences."""
    lists = {
        "missing": [name for name in needed if name not in state],
        "unexpected": [name for name in state if name not in known],
        "different": others,
    }
    if any(lists.values()):
        lines = "".join(f"\n  {kind}: {_join_names(names)}" for kind, names in lists.items() if names)
        raise StateError(f"{what} do not fit:{lines}")


def _join_names(names: list[str]) -> str:
    shown = ", ".join(names[:MAX_LISTED_NAMES])
    more = len(names) - MAX_LISTED_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def _join_path(parent: str, name: str) -> str:
    return f"{parent}.{name}" if parent and name else parent or name


def _write_subscripts(path: str) -> str:
    """Return a path with the numbers in it as subscripts: `blocks.0.weight` is `blocks[0].weight`."""
    first, *rest = path.split(".")
    return first + "".join(f"[{name}]" if name.isdecimal() else f".{name}" for name in rest)


def is_parameter(value: object) -> TypeGuard[wg.Value]:
    """Return whether a value is a leaf; what an op computed is a result, also where a module keeps it."""
    return isinstance(value, wg.Value) and value.op is None


def _as_plain(value: object) -> NDArray[Any]:
    return np.asarray(value.data if isinstance(value, wg.Value) else value)


def _describe_array(value: Any) -> EmptyArray:
    if isinstance(value, EmptyArray):
        return value
    return EmptyArray(tuple(np.shape(value)), value.dtype if isinstance(value, wg.Value) else np.asarray(value).dtype)


def _find_difference(own: object, other: object) -> str:
    """Return why another array cannot take the place of one that a module has; empty if it can."""
    wanted, given = _describe_array(own), _describe_array(other)
    if given.shape != wanted.shape:
        return f"has shape {given.shape}, not {wanted.shape}"
    if given.dtype.kind not in "biufc" or (given.dtype.kind == "c" and wanted.dtype.kind != "c"):
        return f"is {given.dtype}, not {wanted.dtype}"
    return ""


def _write_shapes(result: Any) -> str:
    """Return the shapes of what a module returned, which may be nested tuples."""
    if isinstance(result, tuple | list):
        return ", ".join(map(_write_shapes, result))
    return str(np.shape(result))


def _flatten(name: str, value: object) -> Iterator[tuple[str, Any]]:
    """Yield what an attribute holds: the value itself, or the elements of a list, tuple or dict with their paths."""
    if isinstance(value, dict):
        elements = [(str(key), element) for key, element in value.items()]
    elif isinstance(value, list | tuple) and not isinstance(value, EmptyArray):
        elements = [(str(index), element) for index, element in enumerate(value)]
    else:
        yield name, value
        return
    for key, element in elements:
        yield from _flatten(f"{name}.{key}", element)


def _copy_module(part: Any, path: str, arrays: Mapping[str, Any], copies: dict[int, Any]) -> Any:
    """Copy what is at a path, with other arrays; a module that is used in several places stays one."""
    if isinstance(part, Module):
        if id(part) not in copies:
            copy = copies[id(part)] = object.__new__(type(part))
            held = {inner.name.partition(".")[0] for inner in part.parts() if inner.kind == "parameter"}
            inner = {
                name: _copy_module(value, _join_path(path, name), arrays, copies) for name, value in vars(part).items()
            }
            vars(copy).update(inner, _held=frozenset(held))
        return copies[id(part)]
    if isinstance(part, dict):
        return {key: _copy_module(value, f"{path}.{key}", arrays, copies) for key, value in part.items()}
    if type(part) in (list, tuple):
        return type(part)(_copy_module(value, f"{path}.{k}", arrays, copies) for k, value in enumerate(part))
    return arrays.get(path, part)
