"""What users hand in and get back: nested containers, numbers and arrays.

A container (dicts, lists, tuples, named tuples, None) is flattened to its leaves and built again with others. A number
or an array that meets a value is checked, and an array is copied: what is recorded belongs to the recording and is
read-only, so nobody can change it later. Several results of one node travel on its one wire end to end (`PackedParts`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from sys import getrefcount
from types import MemberDescriptorType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import DTYPES
from wiregrad.errors import GradientError, OperandError, ShapeError, format_user_line, short_repr
from wiregrad.ir import TABLE, Op
from wiregrad.ops.functions import FUNCTIONS
from wiregrad.ops.functions.joining import join_items

MAX_FLOAT64 = int(np.finfo(np.float64).max)
"""The largest whole number that a float64 can represent."""
MAX_SMALL_BYTES = 1 << 17
"""Up to this size, allocating memory is cheap, so no memory is reused."""
MAX_POOL_BYTES = 1 << 26
"""Maximum number of bytes that a thread keeps for its next large arrays."""
MAX_POOL_BLOCKS = 32
"""Maximum number of memory blocks that a thread keeps."""


PLAIN_ARRAY_CLASSES = (np.ndarray, np.memmap, np.recarray)
"""Classes of arrays whose operators are those of ndarray."""


def as_data(data: Any, what: str | Callable[[], str], *, strict: bool = False) -> Any:
    """Convert a number or array to the data of a differentiable value: a float, or a read-only copy.

    Whole numbers become float64; with `strict` they are refused, as arrays of them always are.
    """
    if type(data) is float:
        return data
    if hasattr(data, "__wiregrad_apply__"):
        return data._data
    what = what if isinstance(what, str) else what()
    if isinstance(data, bool | np.bool_) or (strict and isinstance(data, int)):
        raise GradientError(
            f"{what} must be real or complex to be differentiated; got {_describe_data(data)}{format_user_line()}"
        )
    if isinstance(data, int | float) and not isinstance(data, np.generic):
        return float(data)
    if isinstance(data, complex) and not isinstance(data, np.generic):
        return np.complex128(data)
    array = as_array(data, what)
    if isinstance(data, list | tuple) and array.dtype.kind in "iu" and array.size and not strict:
        # Lists of Python ints count as real numbers.
        array = array.astype(float)
    if array.dtype not in (DTYPES["float64"], DTYPES["float32"], DTYPES["complex128"]):
        hint = "; use .astype(float)" if array.dtype.kind in "iub" else "; wanted float64, float32 or complex128"
        raise GradientError(
            f"{what} must be real or complex to be differentiated; "
            f"got {_describe_data(array)}{hint}{format_user_line()}"
        )
    return ensure_owned(array)


def as_array(data: object, what: str) -> NDArray[Any]:
    """Convert a list, tuple or array to an array; raises for ragged lists, text and objects."""
    refuse_subclass(data, what)
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ShapeError(f"{what} must be rectangular; NumPy says: {error}{format_user_line()}") from None
    if array.dtype.kind in "OUSVmM":
        raise OperandError(f"{what} must be made of numbers; got {_describe_data(data)}{format_user_line()}")
    return array


def refuse_subclass(data: object, what: str) -> None:
    """Raise for an array of a subclass with its own operators, which would be lost without notice."""
    if isinstance(data, np.ma.MaskedArray):
        raise OperandError(f"{what} is a masked array, whose mask would be lost; fill it first{format_user_line()}")
    if isinstance(data, np.ndarray) and type(data) not in PLAIN_ARRAY_CLASSES:
        name = type(data).__name__
        raise OperandError(
            f"{what} is a {name}, whose operators differ from those of np.ndarray; pass np.asarray(x) for elementwise "
            f"arithmetic, with @ for products of matrices{format_user_line()}"
        )


def ensure_owned(array: NDArray[Any]) -> Any:
    """Return a read-only copy of an array, or the array itself if it is such a copy already.

    The read-only flag alone is not enough: older views of the same memory may still be writeable.
    """
    if array.ndim == 0:
        number = array[()]
        return float(number) if number.dtype == np.float64 else number
    if is_owned(array):
        return array
    if array.nbytes <= MAX_SMALL_BYTES:
        # A bytes object is immutable, and making one is faster than copying an array and clearing its flag.
        order = _memory_order(array)
        return np.ndarray(array.shape, array.dtype, array.tobytes(order), order=order)
    return MEMORY_POOL.copy_array(array)


def is_owned(array: NDArray[Any]) -> bool:
    """Return whether an array is a copy made by `ensure_owned`, or a view of one."""
    base: Any = array.base
    while type(base) is np.ndarray:
        base = base.base
    return type(base) is bytes or type(base) is ArrayMemory


def as_literal(operand: Any, op: Op) -> Any:
    """Convert an operand that is not a value; arrays are copied, so that later edits have no effect."""
    kind = type(operand)
    if kind is int and abs(operand) > MAX_FLOAT64:
        raise OperandError(
            f"{op.name} got a whole number that is too large for float64: {short_repr(operand)}{format_user_line()}"
        )
    if kind is float or kind is int or kind is bool or kind is complex or isinstance(operand, np.generic):
        return operand
    if isinstance(operand, np.ndarray):
        return ensure_owned(as_array(operand, f"an operand of {op.name}"))
    if isinstance(operand, int | float | complex):
        return operand
    if isinstance(operand, list | tuple):
        return ensure_owned(as_array(operand, f"an operand of {op.name}"))
    raise OperandError(f"{op.name} wants values, numbers or arrays; got {_describe_data(operand)}{format_user_line()}")


def _describe_data(data: object) -> str:
    if isinstance(data, np.ndarray):
        return f"an array of {data.dtype} with shape {data.shape}"
    return f"{type(data).__name__} {short_repr(data)}"


MAX_UNSHARED_REFERENCES = 2
"""Number of references that `_next_block` itself holds: a variable and an argument. A debugger may hold more."""


class ArrayMemory(np.ndarray):
    """A block of memory under a large recorded array. Only such arrays refer to it."""


class MemoryPool(threading.local):
    """Allocates large recorded arrays, and reuses their memory once nothing refers to them any more.

    Filling fresh memory takes about twice as long, because the operating system has to provide every page.
    """

    def __init__(self) -> None:
        self._known: deque[ArrayMemory] = deque([_allocate_block(0)], MAX_POOL_BLOCKS)
        references = self._next_block()[1]
        self._unshared = references if references <= MAX_UNSHARED_REFERENCES else 0
        """The reference count of a block without an array; 0 if that cannot be told, so that no block is reused."""

    def copy_array(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return a read-only copy of an array."""
        return self._fill_array(array, lambda out: np.copyto(out, array))

    def compute_array(self, forward: Callable[..., Any], xs: Sequence[Any]) -> Any:
        """Compute a function of arrays of one shape and numbers; the result is read-only if it is in pooled memory."""
        arrays = [x for x in xs if type(x) is np.ndarray]
        alike = all(x.dtype == np.float64 and x.flags.c_contiguous for x in arrays)
        if not alike or not _keeps_float64(forward, len(xs)):
            return forward(*xs)
        return self._fill_array(arrays[0], lambda out: forward(*xs, out=out))

    def _fill_array(self, like: NDArray[Any], fill: Callable[[NDArray[Any]], object]) -> NDArray[Any]:
        """Return a read-only array with the shape and dtype of another one, filled by a function."""
        memory = self._take_block(like.nbytes)
        array = np.ndarray(like.shape, like.dtype, memory, order=_memory_order(like))
        fill(array)
        array.setflags(write=False)
        # While the memory is read-only, nobody can set the flag of the array back.
        memory.setflags(write=False)
        self._keep_block(memory)
        return array

    def _next_block(self) -> tuple[ArrayMemory, int]:
        """Take the oldest block out of the pool; returns it with its reference count."""
        memory = self._known.popleft()
        return memory, getrefcount(memory)

    def _take_block(self, size: int) -> ArrayMemory:
        """Return a writeable block of a size that nothing else refers to; allocated if the pool has none."""
        for _ in range(len(self._known)):
            memory, references = self._next_block()
            if memory.size == size and references == self._unshared:
                memory.setflags(write=True)
                return memory
            self._known.append(memory)
        return _allocate_block(size)

    def _keep_block(self, memory: ArrayMemory) -> None:
        """Put a block into the pool, and drop the oldest ones if the pool is too large."""
        self._known.append(memory)
        while sum([known.size for known in self._known]) > MAX_POOL_BYTES:
            self._known.popleft()


def _memory_order(array: NDArray[Any]) -> Literal["C", "F"]:
    """Return the memory order for a copy: that of the array, because the last bits of a sum depend on it."""
    return "F" if array.ndim > 1 and array.flags.fnc else "C"


def _keeps_float64(forward: Callable[..., Any], count: int) -> bool:
    """Return whether a function is a ufunc that maps `count` float64 to a float64 (a comparison does not)."""
    return isinstance(forward, np.ufunc) and f"{'d' * count}->d" in forward.types


def _allocate_block(size: int) -> ArrayMemory:
    return np.ndarray.__new__(ArrayMemory, size, np.uint8)


MEMORY_POOL = MemoryPool()


class ContainerTree:
    """The structure of a container, without its leaves.

    A container of a user-defined subclass is rebuilt with the same class and the same attributes.
    """

    __slots__ = ("attributes", "children", "keys", "kind")

    def __init__(
        self, kind: object, children: list[ContainerTree], keys: list[Any], attributes: dict[str, Any]
    ) -> None:
        self.kind: Any = kind
        self.children = children
        self.keys = keys
        self.attributes = attributes

    def build_container(self, leaves: Iterator[Any]) -> Any:
        """Build the container from leaves."""
        if self.kind is LEAF:
            return next(leaves)
        if self.kind is None:
            return None
        parts = [child.build_container(leaves) for child in self.children]
        if self.kind is list or self.kind is tuple:
            return self.kind(parts)
        if self.kind is dict:
            return dict(zip(self.keys, parts, strict=True))
        return self._build_subclass(parts)

    def _build_subclass(self, parts: list[Any]) -> Any:
        """Build a container of a subclass without calling its constructor, which may need other arguments."""
        base: Any = next(base for base in CONTAINER_BASES if issubclass(self.kind, base))
        built = base.__new__(self.kind, parts) if base is tuple else base.__new__(self.kind)
        if base is list:
            list.extend(built, parts)
        elif base is not tuple:
            for key, part in zip(self.keys, parts, strict=True):
                base.__setitem__(built, key, part)
        for name, value in self.attributes.items():
            object.__setattr__(built, name, value)
        return built

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ContainerTree)
            and (self.kind, self.keys) == (other.kind, other.keys)
            and self.children == other.children
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.build_container(iter(_LeafMark, None)))


class _LeafMark:
    def __repr__(self) -> str:
        return "*"


LEAF = object()
_LEAF_TREE = ContainerTree(LEAF, [], [], {})
_LEAF_TYPES = frozenset([float, np.ndarray])
"""Types that are always leaves."""
CONTAINER_BASES = (OrderedDict, dict, list, tuple)
"""The containers whose subclasses are rebuilt as such."""


def flatten(container: object) -> tuple[list[Any], ContainerTree]:
    """Return the leaves of a container in order, and its structure.

    >>> flatten({"b": [1.0, 2.0], "a": (3.0, None)})
    ([1.0, 2.0, 3.0], {'b': [*, *], 'a': (*, None)})
    """
    if type(container) in _LEAF_TYPES:
        return [settle_array(container)], _LEAF_TREE
    leaves: list[Any] = []
    return leaves, _flatten_item(container, leaves)


def _flatten_item(item: object, leaves: list[Any]) -> ContainerTree:
    """Append the leaves of an item to a list; returns the structure of the item."""
    if item is None:
        return ContainerTree(None, [], [], {})
    kind = _kind_of(item)
    if kind is LEAF:
        leaves.append(settle_array(item))
        return _LEAF_TREE
    keys, parts = parts_of(item)
    return ContainerTree(kind, [_flatten_item(part, leaves) for part in parts], keys, own_attributes(item))


def settle_array(item: Any) -> Any:
    """Return an object array of values as one value, and an array that is being filled as what it stands for now.

    Anything else is returned unchanged.
    """
    if type(item) is np.ndarray:
        return item if item.dtype.kind != "O" else join_items(item)
    return getattr(item, "__wiregrad_contents__", item)


def _kind_of(item: object) -> Any:
    """Return the class that a container is rebuilt as; `LEAF` if the item is not a container."""
    if isinstance(item, dict | list | tuple):
        return type(item)
    # Another mapping cannot be rebuilt, since its constructor is unknown; a dict has the same items.
    return dict if isinstance(item, Mapping) else LEAF


def parts_of(container: object) -> tuple[list[Any], list[Any]]:
    """Return the keys (if any) and the parts of a container, even if a subclass overrides iteration."""
    return items_of(container) if isinstance(container, Mapping) else ([], _elements_of(container))


def items_of(mapping: Mapping[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Return the keys and the values of a mapping, even if a subclass of dict overrides lookup."""
    if not isinstance(mapping, dict):
        keys = list(mapping)
        return keys, [mapping[key] for key in keys]
    base: Any = OrderedDict if isinstance(mapping, OrderedDict) else dict
    return list(base.keys(mapping)), list(base.values(mapping))


def _elements_of(sequence: object) -> list[Any]:
    base: Any = list if isinstance(sequence, list) else tuple
    return list(base.__iter__(sequence))


def own_attributes(container: object) -> dict[str, Any]:
    """Return the attributes that a container of a user-defined class has besides its elements.

    >>> class Table(list):
    ...     __slots__ = ("unit",)
    >>> table = Table([1.0])
    >>> table.unit = "m"
    >>> own_attributes(table), own_attributes([1.0])
    ({'unit': 'm'}, {})
    """
    kind = type(container)
    if kind in CONTAINER_BASES or not issubclass(kind, CONTAINER_BASES):
        return {}
    slots = {name: part for name, part in member_slots(kind.__mro__).items() if not name.startswith("__")}
    in_slots = {name: part.__get__(container) for name, part in slots.items() if hasattr(container, name)}
    return {**in_slots, **getattr(container, "__dict__", {})}


def member_slots(mro: Sequence[type]) -> dict[str, MemberDescriptorType]:
    """Return the slots of classes by name; of two with the same name, that of the most derived class, as in Python."""
    return {
        name: part for base in reversed(mro) for name, part in vars(base).items() if type(part) is MemberDescriptorType
    }


def unflatten(tree: ContainerTree, leaves: Iterable[Any]) -> Any:
    """Build a container with a structure from leaves."""
    if tree is _LEAF_TREE and type(leaves) is list:
        return leaves[0]
    return tree.build_container(iter(leaves))


def tree_map(function: Callable[..., Any], container: object, *others: object) -> Any:
    """Apply a function to each leaf of a container (and the matching leaves of others); returns such a container.

    >>> tree_map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
    {'a': 11, 'b': [22]}
    """
    leaves, tree = flatten(container)
    rest = [match_leaves(tree, other, "the containers") for other in others]
    return unflatten(tree, [function(*items) for items in zip(leaves, *rest, strict=True)])


def match_leaves(tree: ContainerTree, container: object, what: str) -> list[Any]:
    """Return the leaves of a container, which must have a structure; keys of dicts may be in any order."""
    leaves: list[Any] = []
    if not _collect_like(tree, container, leaves):
        raise OperandError(f"{what} must have the structure {tree}; got {flatten(container)[1]}")
    return leaves


def _collect_like(tree: ContainerTree, item: Any, leaves: list[Any]) -> bool:
    """Append the leaves of an item in the order of a structure; returns whether the item has that structure."""
    if tree.kind is None or item is None:
        return tree.kind is None and item is None
    if _kind_of(item) is not tree.kind:
        return False
    if tree.kind is LEAF:
        leaves.append(settle_array(item))
        return True
    if issubclass(tree.kind, dict):
        held = dict(zip(*items_of(item), strict=True))
        if held.keys() != {*tree.keys}:
            return False
        parts = [held[key] for key in tree.keys]
    else:
        parts = _elements_of(item)
    return len(parts) == len(tree.children) and all(
        _collect_like(child, part, leaves) for child, part in zip(tree.children, parts, strict=True)
    )


def fill_places(leaves: Sequence[Any], places: Sequence[int], values: Sequence[Any]) -> list[Any]:
    """Return a copy of the leaves with values at some positions.

    >>> fill_places([None, 2], [0], [1])
    [1, 2]
    """
    filled_leaves = list(leaves)
    for k, value in zip(places, values, strict=True):
        filled_leaves[k] = value
    return filled_leaves


class PackedParts:
    """The outputs of a call: which of them a gradient can flow to, and the shapes and dtypes of those."""

    def __init__(self, outputs: Sequence[Any]) -> None:
        self.moving = [k for k, output in enumerate(outputs) if np.asarray(output).dtype.kind in "fc"]
        self.kinds = [(np.shape(outputs[k]), np.asarray(outputs[k]).dtype.name) for k in self.moving]
        self.still = {k: output for k, output in enumerate(outputs) if k not in self.moving}

    def pack(self, outputs: Sequence[Any]) -> Any:
        """Join the differentiable outputs to one array, end to end; a single one is returned as it is."""
        parts = [outputs[k] for k in self.moving]
        if len(parts) == 1:
            return np.array(parts[0])[()]
        return np.concatenate([np.ravel(part) for part in parts]) if parts else np.zeros(0)

    def unpack(self, packed: Any, *, zeros: bool = False) -> list[Any]:
        """Return all outputs, given the joined array; the others are as they were, or zeros of their shape."""
        outputs: dict[int, Any] = {k: np.zeros_like(x, float) if zeros else x for k, x in self.still.items()}
        start = 0
        for k, (shape, dtype) in zip(self.moving, self.kinds, strict=True):
            size = int(np.prod(shape))
            part = packed if len(self.kinds) == 1 else FUNCTIONS["reshape"].run(packed[start : start + size], shape)
            same = type(part) is float or part.dtype.name == dtype
            outputs[k] = part if same else TABLE["cast"](part, dtype=dtype)
            start += size
        return [outputs[k] for k in sorted(outputs)]
