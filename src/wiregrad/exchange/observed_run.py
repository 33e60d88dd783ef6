"""The observed run: what another framework computed, op by op, with its own values and gradients.

Nothing is interpreted here. An `ObservedTensor` is one version of one tensor: a write in place makes a new one, and so
does a view that is read after its storage was written through another view. An `ObservedOp` refers to tensors by their
numbers (`TensorRef`), in the order in which the framework ran them.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.ir import Place


class TensorRef(NamedTuple):
    """An observed tensor inside the arguments or results of an op, by its number in `ObservedRun.tensors`."""

    number: int


@dataclass(frozen=True)
class SourceCall:
    """The call in the user's code that ran an op."""

    place: Place
    code: CodeType
    instruction: int
    """The offset of the call in the code."""

    @cached_property
    def text(self) -> str:
        """The source text of the call, such as `torch.sqrt(x)`; empty if it cannot be read or spans several lines."""
        positions = next(islice(self.code.co_positions(), self.instruction // 2, None), None)
        if positions is None or positions[0] != positions[1] or positions[2] is None or positions[3] is None:
            return ""
        line = linecache.getline(self.place.file, positions[0] or 0).encode()
        return line[positions[2] : positions[3]].decode(errors="replace")


@dataclass(frozen=True, slots=True)
class TensorSummary:
    """Sizes and counts of the numbers of a tensor; extremes, mean and rms are those of the finite numbers."""

    size: int
    zeros: int = 0
    nans: int = 0
    infs: int = 0
    low: float = math.nan
    high: float = math.nan
    mean: float = math.nan
    rms: float = math.nan

    @property
    def norm(self) -> float:
        """The Euclidean norm of the finite numbers."""
        return self.rms * math.sqrt(max(0, self.size - self.nans - self.infs))


@dataclass(slots=True)
class HeldValue:
    """A value of the framework: the tensor itself, not connected to its graph, or only its summary."""

    shape: tuple[int, ...]
    dtype: str
    value: Any = None
    summary: TensorSummary | None = None
    charged: int = 0
    """How many bytes are held for its sake."""


@dataclass(slots=True)
class ObservedTensor:
    """One version of one tensor: where it lies in its storage, which op made it, and its value if it is held."""

    index: int
    storage: int
    """The number of the storage; views of one tensor share it."""
    version: int
    """How many ops had written to the storage before."""
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    requires_grad: bool
    producer: int | None = None
    """The op whose result it is; None for what comes from outside, and for a view that is read after a write."""
    writer: int | None = None
    """The op that last wrote to its storage through another tensor; None if there is none."""
    name: str = ""
    """The name of a parameter, buffer or input; empty for everything else."""
    kind: str = "computed"
    """`parameter`, `buffer`, `input` (comes from outside and has no name of its own) or `computed`."""
    held: HeldValue | None = None
    is_leaf: bool = True
    """Whether no op of the framework's graph made it; known of tensors that come from outside."""

    @property
    def value(self) -> Any:
        """The framework's tensor, not connected to its graph; None if only the summary is held."""
        return None if self.held is None else self.held.value


@dataclass(slots=True)
class ObservedOp:
    """One op that the framework ran."""

    index: int
    name: str
    """The name of the op, without its variant: `aten.add_`."""
    overload: str
    """The variant of the op: `Tensor`, `default`."""
    arguments: tuple[Any, ...]
    """The positional arguments; each tensor is a `TensorRef`, also inside lists."""
    keywords: dict[str, Any]
    result: Any
    """What the op returned, with a `TensorRef` for each tensor."""
    site: SourceCall | None
    module: str
    """The full name of the module that ran it, such as `layers.0.attention`; empty outside of modules."""
    function: int | None
    """The custom function (`ObservedFunction`) inside which it ran."""
    phase: str
    """`forward`, or `backward` if it ran during the backward pass."""
    step: int
    grad_enabled: bool
    written: tuple[tuple[int, int], ...] = ()
    """The tensors that it wrote in place: their numbers before and after."""
    module_call: int = 0
    """The number of the call of its module, counted over all modules."""
    scope: str = "module"
    """What `module` names: a `module`, or the `function` of the user that ran it."""

    @property
    def title(self) -> str:
        """The name without its namespace: `add_`."""
        return self.name.rpartition(".")[2]

    @property
    def place(self) -> Place | None:
        """The file and line of the user's code."""
        return None if self.site is None else self.site.place

    @property
    def inputs(self) -> tuple[int, ...]:
        """The numbers of all tensors among the arguments, in order."""
        return tuple(ref.number for ref in find_refs((self.arguments, self.keywords)))

    @property
    def outputs(self) -> tuple[int, ...]:
        """The numbers of all tensors that it returned."""
        return tuple(ref.number for ref in find_refs(self.result))


@dataclass(slots=True)
class ObservedFunction:
    """One call of a differentiation rule that the user wrote, such as a `torch.autograd.Function`."""

    index: int
    name: str
    site: SourceCall | None
    module: str
    ops: list[int] = field(default_factory=list)
    """The ops of its forward pass."""
    rule: Any = None
    """The framework's class of the function."""
    arguments: tuple[Any, ...] = ()
    """The arguments of the call, with a `TensorRef` for each tensor."""
    outputs: dict[int, int] = field(default_factory=dict)
    """The tensors that it returned, by their position."""


@dataclass(slots=True)
class ObservedGradient:
    """What the backward pass did at one op: what it received for each result, and sent to each argument."""

    op: int
    function: int | None
    """The custom function whose rule ran; None for the framework's own rule."""
    backward: int
    """The number of the backward pass."""
    rule: str
    """The framework's name of the rule: `SqrtBackward0`."""
    received: tuple[HeldValue | None, ...]
    """One gradient for each result; None where none arrived."""
    sent: tuple[HeldValue | None, ...]
    """One gradient for each differentiable argument; None where none is wanted."""
    targets: tuple[int | None, ...]
    """The tensor that each sent gradient belongs to; None if it is not known."""


@dataclass
class ObservedRun:
    """The ops that a framework ran in one training step, in order, with their tensors and gradients."""

    step: int = 0
    ops: list[ObservedOp] = field(default_factory=list)
    tensors: list[ObservedTensor] = field(default_factory=list)
    functions: list[ObservedFunction] = field(default_factory=list)
    gradients: list[ObservedGradient] = field(default_factory=list)
    """In the order in which the backward pass ran."""
    roots: list[int] = field(default_factory=list)
    """The tensors at which backward passes began."""
    backwards: int = 0
    parents: dict[str, str] = field(default_factory=dict)
    """The module that called each module, by their full names."""
    error: BaseException | None = None
    """The exception that ended the program."""
    parameters: dict[str, bool] = field(default_factory=dict)
    """The names of all parameters that are known, and whether each wants a gradient."""
    rules: dict[int, str] = field(default_factory=dict)
    """The framework's name of the differentiation rule of each op that has one."""
    framework: str = "torch"
    """The package that ran it."""
    read: Callable[[Any], NDArray[Any]] = np.asarray
    """Turns a tensor of the framework into an array."""

    def list_held(self) -> Iterator[HeldValue]:
        """Yield every value and gradient."""
        for tensor in self.tensors:
            if tensor.held is not None:
                yield tensor.held
        for gradient in self.gradients:
            for held in (*gradient.received, *gradient.sent):
                if held is not None:
                    yield held

    def find_roots(self) -> list[int]:
        """Return the tensors at which backward passes began; without one, the results of the last op."""
        last = self.gradients[0].op if self.gradients else len(self.ops) - 1
        return list(dict.fromkeys(self.roots or (self.ops[last].outputs if self.ops else ())))

    def read_value(self, tensor: int) -> NDArray[Any] | None:
        """Return the value of a tensor as an array; None if it is not held."""
        return self.read_held(self.tensors[tensor].held)

    def read_held(self, held: HeldValue | None) -> NDArray[Any] | None:
        """Return a held value as an array; None if it is not held."""
        return None if held is None or held.value is None else self.read(held.value)

    def parents_of(self, tensor: int) -> tuple[int, ...]:
        """Return the tensors from which a tensor was made."""
        observed = self.tensors[tensor]
        if observed.producer is not None:
            return self.ops[observed.producer].inputs
        if observed.writer is None:
            return ()
        # A view of a storage that was written through another view: what was written, and what was there before.
        earlier = [k for k in self.by_storage[observed.storage] if self.tensors[k].version < observed.version]
        return (*self.ops[observed.writer].outputs, *earlier)

    @cached_property
    def by_storage(self) -> dict[int, list[int]]:
        """The tensors of each storage."""
        found: dict[int, list[int]] = {}
        for tensor in self.tensors:
            found.setdefault(tensor.storage, []).append(tensor.index)
        return found

    @cached_property
    def by_target(self) -> dict[int, list[tuple[ObservedGradient, int]]]:
        """What was sent to each tensor: the gradient records, and which of their parts."""
        found: dict[int, list[tuple[ObservedGradient, int]]] = {}
        for gradient in self.gradients:
            for slot, target in enumerate(gradient.targets[: len(gradient.sent)]):
                if target is not None and gradient.sent[slot] is not None:
                    found.setdefault(target, []).append((gradient, slot))
        return found

    @cached_property
    def readers(self) -> dict[int, list[int]]:
        """The ops that read each tensor, by the number of the tensor."""
        readers: dict[int, list[int]] = {}
        for op in self.ops:
            for tensor in op.inputs:
                readers.setdefault(tensor, []).append(op.index)
        return readers


def find_refs(value: Any) -> Iterator[TensorRef]:
    """Yield the tensors of nested tuples, lists and dicts, in order.

    >>> list(find_refs((TensorRef(3), [2.0, TensorRef(5)], {"out": TensorRef(7)})))
    [TensorRef(number=3), TensorRef(number=5), TensorRef(number=7)]
    """
    if isinstance(value, TensorRef):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from find_refs(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from find_refs(part)
