"""What users hand in and get back: nested containers, numbers and arrays.

A container (dicts, lists, tuples, named tuples, dataclasses, classes of attrs, registered classes, None) is flattened
to its leaves and built again with others. Leaves that are not real or complex numbers are static: they have no
gradient. A number or an array that meets a value is checked, and an array is copied: what is recorded belongs to the
recording and is read-only, so nobody can change it later. Several results of one node travel on its one wire end to
end (`PackedParts`).
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Number
from sys import getrefcount
from types import MemberDescriptorType
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import RECORDED_DTYPES
from wiregrad.errors import GradientError, OperandError, ShapeError, format_user_line, short_repr
from wiregrad.ir import TABLE, Op
from wiregrad.lazy import NamedTuple
from wiregrad.ops.functions import FUNCTIONS
from wiregrad.ops.functions.elements import has_wire_elements, join_items

MAX_FLOAT64 = int(np.finfo(np.float64).max)
"""The largest whole number that a float64 can represent."""
MAX_SMALL_BYTES = 1 << 17
"""Up to this size, allocating memory is cheap, so no memory is reused."""
MAX_POOL_BYTES = 1 << 26
"""Maximum number of bytes that a thread keeps for its next large arrays."""
MAX_POOL_BLOCKS = 32
"""Maximum number of memory blocks of one size that a thread keeps."""


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
    if strict:
        refuse_tensor(data, what)
    if isinstance(data, bool | np.bool_) or (strict and isinstance(data, int)):
        hint = f"; write {data}.0" if type(data) is int else ""
        raise GradientError(
            f"{what} must be real or complex to be differentiated; got {_describe_data(data)}{hint}{format_user_line()}"
        )
    if isinstance(data, int | float) and not isinstance(data, np.generic):
        return float(data)
    if isinstance(data, complex) and not isinstance(data, np.generic):
        return np.complex128(data)
    array = as_array(data, what)
    if isinstance(data, list | tuple) and array.dtype.kind in "iu" and array.size and not strict:
        # Lists of Python ints count as real numbers.
        array = array.astype(float)
    if array.dtype not in RECORDED_DTYPES:
        raise GradientError(
            f"{what} must be real or complex to be differentiated; "
            f"got {_describe_data(array)}{suggest_cast(array.dtype)}{format_user_line()}"
        )
    return ensure_owned(array)


def is_tensor(data: object) -> bool:
    """Return whether something is a tensor of PyTorch, which nobody has made unless PyTorch is imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(data, torch.Tensor)


def refuse_tensor(data: object, what: str) -> None:
    """Raise for a tensor of PyTorch as an argument: its methods have other meanings than those of a value."""
    if is_tensor(data):
        raise OperandError(
            f"{what} is a torch.Tensor, and functions of PyTorch are not differentiated here: for NumPy's functions "
            f"and methods pass tensor.numpy(); to ask PyTorch's own run, write wg.watch(f, *args){format_user_line()}"
        )


def suggest_cast(dtype: np.dtype[Any]) -> str:
    """Return what to write to get a dtype that all functions take.

    >>> suggest_cast(np.dtype(np.float16)), suggest_cast(np.dtype(int))
    ('; write x.astype(np.float32)', '; use .astype(float)')
    """
    if dtype.kind in "iub":
        return "; use .astype(float)"
    if dtype.kind == "c":
        return "; write x.astype(np.complex128)"
    return f"; write x.astype(np.{'float32' if dtype.itemsize < 4 else 'float64'})"


def as_array(data: object, what: str) -> NDArray[Any]:
    """Convert a list, tuple or array to an array; raises for ragged lists, text and objects."""
    refuse_subclass(data, what)
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ShapeError(f"{what} must be rectangular; NumPy says: {error}{format_user_line()}") from None
    if array.dtype.kind in "OUSVmM":
        hint = "; to join recorded values write wg.array" if has_wire_elements(array) else _suggest_container(data)
        raise OperandError(f"{what} must be made of numbers; got {_describe_data(data)}{hint}{format_user_line()}")
    return array


def _suggest_container(data: object) -> str:
    """Return how an object of a user's class can be an argument; empty for other objects."""
    if type(data).__module__ == "builtins" or not getattr(data, "__dict__", None):
        return ""
    name = type(data).__name__
    return (
        f"; make {name} a dataclass, register it with wg.register_container, or pass what it holds, such as vars(x), "
        f"and make the {name} inside the function"
    )


MASKED_ADVICE = (
    "take its elements, m.data[~m.mask], or compute y with m.filled(0.0) and choose, np.where(m.mask, 0.0, y)"
)
"""What to write instead of a masked array."""


def refuse_subclass(data: object, what: str) -> None:
    """Raise for an array of a subclass with its own operators, which would be lost without notice."""
    # NumPy imports this module late, and it takes 10 ms; before that there is no masked array.
    masked = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(data, masked.MaskedArray):
        raise OperandError(f"{what} is a masked array, whose mask would be lost; {MASKED_ADVICE}{format_user_line()}")
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
    hint = "; write np.asarray(x)" if hasattr(operand, "__array__") else ""
    if isinstance(operand, Number):
        hint = f"; write float({operand!r})"
    raise OperandError(
        f"{op.name} wants values, numbers or arrays; got {_describe_data(operand)}{hint}{format_user_line()}"
    )


def _describe_data(data: object) -> str:
    if isinstance(data, np.ndarray):
        return f"an array of {data.dtype} with shape {data.shape}"
    return f"{type(data).__name__} {short_repr(data)}"


MAX_UNSHARED_REFERENCES = 2
"""Number of references that `_next_block` itself holds: a variable and an argument. A debugger may hold more."""


MAX_BLOCKS_TRIED = 4
"""How many blocks of a size are looked at for one that is free."""


class ArrayMemory(np.ndarray):
    """A block of memory under a large recorded array. Only such arrays refer to it."""


class MemoryPool(threading.local):
    """Allocates large recorded arrays, and reuses their memory once nothing refers to them any more.

    Filling fresh memory takes about twice as long, because the operating system has to provide every page.
    """

    def __init__(self) -> None:
        self._known: dict[int, deque[ArrayMemory]] = {0: deque([_allocate_block(0)])}
        """The blocks by their size, the size that was used last at the end."""
        references = self._next_block(self._known[0])[1]
        self._unshared = references if references <= MAX_UNSHARED_REFERENCES else 0
        """The reference count of a block without an array; 0 if that cannot be told, so that no block is reused."""
        self._known.clear()

    def drop_blocks(self) -> None:
        """Forget all blocks, so that those that no array uses are freed."""
        self._known.clear()

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

    def _next_block(self, blocks: deque[ArrayMemory]) -> tuple[ArrayMemory, int]:
        """Take the oldest of some blocks out of the pool; returns it with its reference count."""
        memory = blocks.popleft()
        # On a line of its own: a tuple that is being built holds one more reference.
        references = getrefcount(memory)
        return memory, references

    def _take_block(self, size: int) -> ArrayMemory:
        """Return a writeable block of a size that nothing else refers to; allocated if the pool has none.

        Only a few blocks are looked at: where a long recording holds all of them, more would be of no use.
        """
        blocks = self._known.get(size) or deque[ArrayMemory]()
        for _ in range(min(len(blocks), MAX_BLOCKS_TRIED)):
            memory, references = self._next_block(blocks)
            if references == self._unshared:
                memory.setflags(write=True)
                return memory
            blocks.append(memory)
        return _allocate_block(size)

    def _keep_block(self, memory: ArrayMemory) -> None:
        """Put a block into the pool, and drop others if the pool is too large: those of the size not used longest."""
        blocks = self._known.pop(memory.size, None) or deque[ArrayMemory]((), MAX_POOL_BLOCKS)
        self._known[memory.size] = blocks
        blocks.append(memory)
        # Counted anew each time: a Ctrl-C between two lines could leave a count of its own wrong.
        while sum([size * len(known) for size, known in self._known.items()]) > MAX_POOL_BYTES:
            size, known = next(iter(self._known.items()))
            if known:
                known.popleft()
            else:
                self._known.pop(size, None)


def _memory_order(array: NDArray[Any]) -> Literal["C", "F"]:
    """Return the memory order for a copy: that of the array, because the last bits of a sum depend on it."""
    return "F" if array.ndim > 1 and array.flags.fnc else "C"


def _keeps_float64(forward: Callable[..., Any], count: int) -> bool:
    """Return whether a function is a ufunc that maps `count` float64 to a float64 (a comparison does not)."""
    return isinstance(forward, np.ufunc) and f"{'d' * count}->d" in forward.types


def _allocate_block(size: int) -> ArrayMemory:
    return np.ndarray.__new__(ArrayMemory, size, np.uint8)


def keep_freed_memory() -> None:
    """Make the C library keep the memory of freed arrays for the next ones.

    A gradient frees and allocates arrays of similar sizes all the time. By default the GNU library gives the memory of
    arrays above 128 KiB back to the operating system, and every page that it asks for again costs as much as computing
    what is written there. It raises that limit to the size of the largest block, up to 32 MiB, that was ever freed; so
    one such block, never written to, is enough. Other libraries are not affected.
    """
    np.empty(MAX_KEPT_BLOCK_BYTES, np.uint8)


MAX_KEPT_BLOCK_BYTES = 31 << 20
"""A little less than the 32 MiB up to which the GNU library raises its limit."""
keep_freed_memory()
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

    def has_order_of(self, other: ContainerTree) -> bool:
        """Return whether another structure has the same containers, with the same keys in the same order."""
        if self.kind is not other.kind or len(self.children) != len(other.children):
            return False
        if self.kind is STATIC:
            return self.keys[0] is other.keys[0]
        children = zip(self.children, other.children, strict=True)
        return self.keys == other.keys and all(one.has_order_of(two) for one, two in children)

    def build_container(self, leaves: Iterator[Any]) -> Any:
        """Build the container from leaves."""
        if self.kind is LEAF:
            return next(leaves)
        if self.kind is None:
            return None
        if self.kind is STATIC:
            return self.keys[0]
        parts = [child.build_container(leaves) for child in self.children]
        if self.kind is list or self.kind is tuple:
            return self.kind(parts)
        if self.kind is dict:
            return dict(zip(self.keys, parts, strict=True))
        return self.build_subclass(parts)

    def build_subclass(self, parts: list[Any]) -> Any:
        """Build a container of a user's class without calling its constructor, which may need other arguments."""
        if self.kind in REGISTERED_CONTAINERS:
            return REGISTERED_CONTAINERS[self.kind].unflatten(self.keys[0], parts)
        if is_field_container(self.kind) and not issubclass(self.kind, CONTAINER_BASES):
            return self._build_from_fields(parts)
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

    def _build_from_fields(self, parts: list[Any]) -> Any:
        """Build an object with fields; neither `__init__` nor `__post_init__` runs, so nothing is converted."""
        built = object.__new__(self.kind)
        for name, value in (*zip(self.keys, parts, strict=True), *self.attributes.items()):
            object.__setattr__(built, name, value)
        return built

    def replace_static(self) -> ContainerTree:
        """Return the structure of a gradient: None where a leaf is static."""
        if self.kind is STATIC:
            return _NONE_TREE
        children = [child.replace_static() for child in self.children]
        return ContainerTree(self.kind, children, self.keys, self.attributes) if children else self

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ContainerTree)
            and (self.kind, self.keys) == (other.kind, other.keys)
            and self.children == other.children
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._describe())

    def _describe(self) -> Any:
        """Return an object whose repr shows the structure, with `*` for each leaf."""
        if self.kind is LEAF or self.kind is STATIC:
            return _TextMark("*" if self.kind is LEAF else repr(self.keys[0]))
        parts = [child._describe() for child in self.children]
        if self.kind is None or issubclass(self.kind, CONTAINER_BASES):
            marked = [ContainerTree(STATIC, [], [part], {}) for part in parts]
            return ContainerTree(self.kind, marked, self.keys, self.attributes).build_container(iter(()))
        names = [f"{name}=" for name in self.keys] if is_field_container(self.kind) else [""] * len(parts)
        fields = ", ".join(f"{name}{part!r}" for name, part in zip(names, parts, strict=True))
        return _TextMark(f"{self.kind.__name__}({fields})")


class _TextMark:
    """An object whose repr is a given text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


LEAF = object()
STATIC = object()
"""The kind of a leaf that has no gradient: text, a whole number, an object. Its tree holds it."""
_LEAF_TREE = ContainerTree(LEAF, [], [], {})
_NONE_TREE = ContainerTree(None, [], [], {})
_LEAF_TYPES = frozenset([float, np.ndarray])
"""Types that are always leaves."""
CONTAINER_BASES = (OrderedDict, dict, list, tuple)
"""The containers whose subclasses are rebuilt as such."""


class RegisteredContainer(NamedTuple):
    """How a registered class is taken apart and built again."""

    flatten: Callable[[Any], tuple[Iterable[Any], Any]]
    unflatten: Callable[[Any, Iterable[Any]], Any]


REGISTERED_CONTAINERS: dict[type, RegisteredContainer] = {}
"""The classes that `register_container` made containers."""
Container = TypeVar("Container")


def register_container(
    cls: type[Container],
    flatten: Callable[[Container], tuple[Iterable[Any], Any]],
    unflatten: Callable[[Any, Iterable[Any]], Container],
) -> None:
    """Make a class a container, so that transforms differentiate by what its objects hold.

    `flatten(object)` returns its parts and anything else that is needed to build it again; `unflatten(rest, parts)`
    builds it. These are the functions that `jax.tree_util.register_pytree_node` takes. Subclasses are registered by
    themselves; dataclasses need no registration.

    >>> class Layer:
    ...     def __init__(self, w, name):
    ...         self.w, self.name = w, name
    >>> register_container(Layer, lambda x: ([x.w], x.name), lambda name, parts: Layer(*parts, name))
    >>> tree_map(lambda w: 2.0 * w, Layer(3.0, "first")).w
    6.0
    """
    if not isinstance(cls, type) or not callable(flatten) or not callable(unflatten):
        raise OperandError(
            "register_container takes a class and two functions: wg.register_container(C, flatten, unflatten)"
        )
    if cls in _LEAF_TYPES or issubclass(cls, CONTAINER_BASES) or hasattr(cls, "__wiregrad_apply__"):
        raise OperandError(f"{cls.__name__} is known already: its objects are numbers, arrays or containers")
    REGISTERED_CONTAINERS[cls] = RegisteredContainer(flatten, unflatten)


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
        return _NONE_TREE
    kind = _kind_of(item)
    if kind is LEAF:
        leaves.append(settle_array(item))
        return _LEAF_TREE
    keys, parts = take_apart(item)
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
    kind = type(item)
    if kind in _LEAF_TYPES:
        return LEAF
    if issubclass(kind, dict | list | tuple) or kind in REGISTERED_CONTAINERS or is_field_container(kind):
        return kind
    # Another mapping cannot be rebuilt, since its constructor is unknown; a dict has the same items.
    return dict if isinstance(item, Mapping) else LEAF


def is_field_container(kind: type) -> bool:
    """Return whether objects of a class are containers because it has fields: it is a dataclass, or made by attrs.

    Ops are not containers.
    """
    has_fields = dataclasses.is_dataclass(kind) or hasattr(kind, ATTRS_FIELDS)
    return has_fields and not issubclass(kind, Op)


ATTRS_FIELDS = "__attrs_attrs__"
"""The attribute of a class in which the package attrs keeps its fields."""


def field_names(kind: type) -> list[str]:
    """Return the names of the fields of such a class."""
    fields: Any = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else getattr(kind, ATTRS_FIELDS)
    return [field.name for field in fields]


def fields_of(thing: Any) -> dict[str, Any]:
    """Return the fields of an object of such a class by name, without those that have no value yet."""
    return {name: getattr(thing, name) for name in field_names(type(thing)) if hasattr(thing, name)}


def take_apart(item: object) -> tuple[list[Any], list[Any]]:
    """Return what is needed to build a container again besides its parts and attributes, and its parts."""
    kind = type(item)
    if kind in REGISTERED_CONTAINERS:
        parts, rest = REGISTERED_CONTAINERS[kind].flatten(item)
        return [rest], list(parts)
    if isinstance(item, Mapping | list | tuple):
        return parts_of(item)
    fields = fields_of(item)
    return list(fields), list(fields.values())


def name_parts(item: object) -> Iterator[tuple[str, Any]] | None:
    """Return the parts of a container with the text of their key, field or index; None for a leaf.

    >>> list(name_parts({"w": 2.0})), list(name_parts([1.0]))
    ([('w', 2.0)], [('0', 1.0)])
    """
    if item is None or _kind_of(item) is LEAF:
        return None if item is not None else iter(())
    keys, parts = take_apart(item)
    named = len(keys) == len(parts) and type(item) not in REGISTERED_CONTAINERS
    return zip(map(str, keys) if named else map(str, range(len(parts))), parts, strict=True)


def is_static(leaf: object) -> bool:
    """Return whether a leaf has no gradient by its kind: text, a truth value, a whole number, an object.

    >>> [is_static(leaf) for leaf in ("relu", 3, True, 3.0, np.ones(2), np.arange(2), 1j)]
    [True, True, True, False, False, True, False]
    """
    kind = type(leaf)
    if kind is float or kind is complex:
        return False
    dtype = getattr(leaf, "dtype", None)
    if isinstance(dtype, np.dtype):
        return dtype.kind in "biuUSmM"
    if isinstance(leaf, int | str | bytes):
        return True
    return not (isinstance(leaf, Number) or hasattr(leaf, "__array__") or hasattr(leaf, "__float__"))


def separate_static(tree: ContainerTree, leaves: list[Any]) -> tuple[ContainerTree, list[Any]]:
    """Return a structure that holds the static leaves of a container itself, and the other leaves.

    An argument that is a leaf itself is never static, and neither are leaves if all of them would be. A whole number in
    a list or tuple is not static, because a number that stands among numbers is meant as one: it will be refused.
    """
    if not any(map(is_static, leaves)):
        return tree, leaves
    moving: list[Any] = []
    held = _hold_static(tree, iter(leaves), moving, named=False)
    return (held, moving) if moving else (tree, leaves)


def _hold_static(tree: ContainerTree, leaves: Iterator[Any], moving: list[Any], *, named: bool) -> ContainerTree:
    if tree.kind is LEAF:
        leaf = next(leaves)
        if is_static(leaf) and (named or not isinstance(leaf, int | np.ndarray | np.generic)):
            return ContainerTree(STATIC, [], [leaf], {})
        moving.append(leaf)
        return tree
    named = tree.kind is not None and (hasattr(tree.kind, "_fields") or not issubclass(tree.kind, list | tuple))
    children = [_hold_static(child, leaves, moving, named=named) for child in tree.children]
    return ContainerTree(tree.kind, children, tree.keys, tree.attributes)


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
    if kind in REGISTERED_CONTAINERS or kind in CONTAINER_BASES:
        return {}
    if not issubclass(kind, CONTAINER_BASES):
        return _other_attributes(container) if is_field_container(kind) else {}
    slots = {name: part for name, part in member_slots(kind.__mro__).items() if not name.startswith("__")}
    in_slots = {name: part.__get__(container) for name, part in slots.items() if hasattr(container, name)}
    return {**in_slots, **getattr(container, "__dict__", {})}


def _other_attributes(thing: object) -> dict[str, Any]:
    """Return the attributes of an object with fields that are not its fields."""
    fields = {*field_names(type(thing))}
    return {name: value for name, value in getattr(thing, "__dict__", {}).items() if name not in fields}


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
    if tree.kind is STATIC:
        return True
    if tree.kind is None or item is None:
        return tree.kind is None and item is None
    if _kind_of(item) is not tree.kind:
        return False
    if tree.kind is LEAF:
        leaves.append(settle_array(item))
        return True
    parts = _parts_like(tree, item)
    return (
        parts is not None
        and len(parts) == len(tree.children)
        and all(_collect_like(child, part, leaves) for child, part in zip(tree.children, parts, strict=True))
    )


def _parts_like(tree: ContainerTree, item: Any) -> list[Any] | None:
    """Return the parts of a container in the order of a structure; None if its keys or fields are others."""
    keys, parts = take_apart(item)
    if not issubclass(tree.kind, dict):
        return parts if keys == tree.keys else None
    held = dict(zip(keys, parts, strict=True))
    return [held[key] for key in tree.keys] if held.keys() == {*tree.keys} else None


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
