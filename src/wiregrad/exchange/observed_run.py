"""The observed run: what another framework computed, op by op, with its own values and gradients; and what it answers.

Nothing is interpreted here. An `ObservedTensor` is one version of one tensor: a write in place makes a new one, and so
does a view that is read after its storage was written through another view. An `ObservedOp` refers to tensors by their
numbers (`TensorRef`), in the order in which the framework ran them.

Questions: which op broke a number (`blame_run`), why a parameter has no gradient (`observed_explain`), how gradients
flow (`observed_flow`). Every answer is read off the framework's own values and gradients, and says so in its last line.
Nothing is computed again, so an answer holds for the dtype and the kernels that were used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.interpreter import RUN_MAKERS
from wiregrad.dtypes import WIRE_DTYPES, WireType, count_with_noun, format_brief_number, to_python_number
from wiregrad.errors import InputError, NonFiniteError, read_line_of_code, short_repr
from wiregrad.exchange.observed_advice import HALF_LIMITS, BrokenElement, advise, only_overflows
from wiregrad.frontends.recording.custom_ops import FUNCTION_OP
from wiregrad.inspect.flow import (
    Tally,
    tally_numbers,
)
from wiregrad.inspect.report import Report, join_with_and
from wiregrad.inspect.underflow import GUARDS, advise_underflow, find_vanished, vanishes
from wiregrad.ir import Place
from wiregrad.ir.builder import GraphBuilder, Port
from wiregrad.ops.gradient_flow import add_flows


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
        line = read_line_of_code(self.place.file, positions[0] or 0).encode()
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
    value_op: int | None = None
    """The op that made or wrote the value of a leaf, as when a parameter is drawn; gradients end at the leaf."""

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
    library_call: str = ""
    """The function of the library inside which it ran, such as JAX's `norm`; empty if the user called the op itself."""

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


class UpdatedGroup(NamedTuple):
    """Parameters that an optimizer changes in the same way."""

    names: tuple[str, ...]
    settings: Mapping[str, float]
    """The settings that are numbers, such as the learning rate `lr`."""


@dataclass(slots=True)
class ObservedUpdate:
    """One step of an optimizer: with which settings it ran, and which storages it wrote."""

    optimizer: str
    site: SourceCall | None
    after: int
    """How many ops of the run came before it."""
    storages: dict[int, int] = field(default_factory=dict)
    """The storages that it wrote, with their versions before."""
    groups: tuple[UpdatedGroup, ...] = ()
    idle: str = ""
    """Why it had no gradient: `early` before the backward pass of the loss, `missed` after one that sent its parameters
    nothing but 0, `reset` after another one; empty if it had one."""


class PastStep(NamedTuple):
    """What is remembered of a training step."""

    step: int
    loss: float
    rate: float
    """The learning rate of the update behind it; NaN if there is none."""
    loss_key: object
    """What is equal for the same loss of two steps, with the same weights of its terms."""


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
    last_roots: list[int] = field(default_factory=list)
    """The tensors at which the last backward pass began."""
    backwards: int = 0
    parents: dict[str, str] = field(default_factory=dict)
    """The module that called each module, by their full names."""
    error: BaseException | None = None
    """The exception that ended the program."""
    parameters: dict[str, bool] = field(default_factory=dict)
    """The names of all parameters that are known, and whether each wants a gradient."""
    watched: Collection[str] = ()
    """The names of the parameters of the module that was given to the watch."""
    rules: dict[int, str] = field(default_factory=dict)
    """The framework's name of the differentiation rule of each op that has one."""
    framework: str = "torch"
    """The package that ran it."""
    read: Callable[[Any], NDArray[Any]] = np.asarray
    """Turns a tensor of the framework into an array."""
    updates: list[ObservedUpdate] = field(default_factory=list)
    first_pass: int = 0
    """The number of its first backward pass, counted over all steps."""
    is_scaled: bool = False
    """Whether a gradient scaler multiplied the loss, which skips steps whose gradients overflow."""
    largest_loss: float = -math.inf
    """The largest loss of steps that are no longer held."""
    first_step: PastStep | None = None
    """The first step, if it is no longer held."""
    best_step: PastStep | None = None
    """The step with the lowest loss of those that are no longer held."""
    updated: Collection[str] = ()
    """The parameters that optimizers changed so far, in all steps."""
    eval_modules: Mapping[str, str] = field(default_factory=dict)
    """The modules, with their classes, that drop or normalise, if all of them did so as in an evaluation."""
    accumulated: list[str] = field(default_factory=list)
    """The parameters whose gradients are added to those that an optimizer has used."""
    earlier_roots: list[int] = field(default_factory=list)
    """The tensors at which backward passes of steps began that were joined to it."""

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

    def value_sources_of(self, tensor: int) -> tuple[int, ...]:
        """Return the tensors that a value comes from: its parents, or what an op gave to a leaf of the graph."""
        value_op = self.tensors[tensor].value_op
        if value_op is None:
            return self.parents_of(tensor)
        op = self.ops[value_op]
        return (*op.outputs, *(after for _, after in op.written))

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

    def read_gradients(self) -> dict[str, NDArray[Any]]:
        """Return what the last backward pass sent to each parameter and input whose name is its own, as arrays."""
        last = max((gradient.backward for gradient in self.gradients), default=0)
        named: dict[str, list[int]] = {}
        for tensor in self.tensors:
            if tensor.name and tensor.is_leaf:
                named.setdefault(tensor.name, []).append(tensor.index)
        found: dict[str, NDArray[Any]] = {}
        for name, numbers in named.items():
            pairs = [pair for pair in self.by_target.get(numbers[0], ()) if pair[0].backward == last]
            sent = [self.read_held(gradient.sent[slot]) for gradient, slot in pairs]
            parts = [part for part in sent if part is not None]
            if len(numbers) == 1 and parts and len(parts) == len(sent):
                found[name] = np.sum(parts, axis=0)
        return found

    @cached_property
    def readers(self) -> dict[int, list[int]]:
        """The ops that read each tensor, by the number of the tensor."""
        readers: dict[int, list[int]] = {}
        for op in self.ops:
            for tensor in op.inputs:
                readers.setdefault(tensor, []).append(op.index)
        return readers


def write_name(path: str) -> str:
    """Return the name of a parameter or module as circuits write it.

    >>> write_name("layers.0.attention.weight"), write_name("blocks.a-b.1")
    ('layers[0].attention.weight', 'blocks.a_b[1]')
    """
    name = ""
    for part in path.split("."):
        word = "".join(letter if letter.isalnum() or letter == "_" else "_" for letter in part)
        if word.isdecimal() and name:
            name += f"[{word}]"
        else:
            word = word if word.isidentifier() else f"_{word}"
            name += f".{word}" if name else word
    return name


def write_group(module: str, parents: Mapping[str, str]) -> str:
    """Return the group of a module: one level for each module that was running, named as the one around it names it.

    >>> write_group("layers.0.attention", {"layers.0.attention": "layers.0", "layers.0": "", "": ""})
    'layers[0]/attention'
    """
    labels: list[str] = []
    while module:
        parent = parents.get(module, "")
        own = module.removeprefix(f"{parent}.") if parent else module
        labels.append(f"[{own}]" if own.isdecimal() else write_name(own))
        module = parent
    return "/".join(reversed(labels))


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


def find_ancestors(tensors: Iterable[int], parents_of: Callable[[int], Iterable[int]]) -> set[int]:
    """Return some tensors, and all from which they were computed."""
    found = set(tensors)
    front = list(found)
    while front:
        new = set(parents_of(front.pop())) - found
        found |= new
        front += new
    return found


def identify_tensor(tensor: ObservedTensor) -> tuple[Any, ...]:
    """Return what is the same in two steps that read one tensor."""
    place = tensor.storage, tensor.version, tensor.offset, tensor.shape, tensor.stride
    return *place, tensor.dtype, tensor.requires_grad


def join_linked_steps(runs: Sequence[ObservedRun]) -> ObservedRun:
    """Return the last of some steps, with the earlier ones in whose graphs its backward pass went on.

    In the training of two networks against each other, the second loss uses what was computed before the first
    backward pass. What is read only to be shown, such as the loss of the step before, joins nothing.
    """
    joined = replace(runs[-1])
    for earlier in reversed(runs[:-1]):
        before = [tensor for tensor in joined.tensors if reads_graph_of_before(tensor)]
        wanted = find_ancestors(joined.find_roots(), joined.parents_of) if before else set()
        linked = {identify_tensor(tensor) for tensor in before if tensor.index in wanted}
        if not linked:
            break
        if any(tensor.producer is not None and identify_tensor(tensor) in linked for tensor in earlier.tensors):
            joined = join_runs(earlier, joined)
    return joined


def reads_graph_of_before(tensor: ObservedTensor) -> bool:
    """Return whether a tensor has a graph that was recorded before its step began."""
    return tensor.producer is None and tensor.writer is None and tensor.requires_grad and not tensor.is_leaf


def join_runs(first: ObservedRun, second: ObservedRun) -> ObservedRun:
    """Return the ops of two runs, and the backward passes of the second one."""
    known = {identify_tensor(tensor): tensor.index for tensor in first.tensors}
    tensors = list(first.tensors)
    numbers: dict[int, int] = {}
    for tensor in second.tensors:
        # The running statistics of a layer belong to the run that reads them, whoever wrote them.
        is_outside = tensor.producer is None and tensor.writer is None and tensor.kind != "buffer"
        same = known.get(identify_tensor(tensor)) if is_outside else None
        if same is not None and tensor.is_leaf and tensor.requires_grad and first.tensors[same].producer is not None:
            # A parameter that the first run drew, and only the second one reads: gradients end at it.
            same = None
        numbers[tensor.index] = len(tensors) if same is None else same
        if same is None:
            tensors.append(shift_tensor(tensor, len(tensors), len(first.ops)))
    shift = RunShift(numbers, len(first.ops), len(first.functions))
    passed = [gradient for gradient in first.gradients if second.backwards and gradient.backward >= second.first_pass]
    own = [shift.move_gradient(gradient) for gradient in second.gradients]
    return replace(
        second,
        ops=[*first.ops, *map(shift.move_op, second.ops)],
        tensors=tensors,
        functions=[*first.functions, *map(shift.move_function, second.functions)],
        # What was sent in the second run comes first, because the pass went from there to the first run.
        gradients=[*own, *passed],
        roots=[numbers[root] for root in second.roots],
        last_roots=[numbers[root] for root in second.last_roots],
        earlier_roots=[*first.roots, *(numbers[root] for root in second.earlier_roots)],
        is_scaled=first.is_scaled or second.is_scaled,
        rules={**first.rules, **{op + len(first.ops): rule for op, rule in second.rules.items()}},
        updates=[*first.updates, *(replace(each, after=each.after + len(first.ops)) for each in second.updates)],
    )


def shift_tensor(tensor: ObservedTensor, index: int, ops: int) -> ObservedTensor:
    """Return a tensor with another number, of a run whose ops have higher numbers."""
    producer = None if tensor.producer is None else tensor.producer + ops
    writer = None if tensor.writer is None else tensor.writer + ops
    value_op = None if tensor.value_op is None else tensor.value_op + ops
    return replace(tensor, index=index, producer=producer, writer=writer, value_op=value_op)


class RunShift(NamedTuple):
    """Renumbers the ops, tensors and functions of a run that is added to another one."""

    numbers: dict[int, int]
    """The new number of each tensor."""
    ops: int
    functions: int

    def move(self, value: Any) -> Any:
        """Return arguments or results with the new numbers of their tensors."""
        if isinstance(value, TensorRef):
            return TensorRef(self.numbers[value.number])
        if type(value) in (list, tuple):
            return type(value)([self.move(part) for part in value])
        return {name: self.move(part) for name, part in value.items()} if isinstance(value, dict) else value

    def _move_function_number(self, function: int | None) -> int | None:
        return None if function is None else function + self.functions

    def move_op(self, op: ObservedOp) -> ObservedOp:
        """Return an op with new numbers."""
        return replace(
            op,
            index=op.index + self.ops,
            arguments=self.move(op.arguments),
            keywords=self.move(op.keywords),
            result=self.move(op.result),
            function=self._move_function_number(op.function),
            written=tuple((self.numbers[before], self.numbers[after]) for before, after in op.written),
        )

    def move_function(self, function: ObservedFunction) -> ObservedFunction:
        """Return a custom function with new numbers."""
        return replace(
            function,
            index=function.index + self.functions,
            ops=[op + self.ops for op in function.ops],
            arguments=self.move(function.arguments),
            outputs={position: self.numbers[number] for position, number in function.outputs.items()},
        )

    def move_gradient(self, gradient: ObservedGradient) -> ObservedGradient:
        """Return a gradient with new numbers."""
        targets = tuple(None if target is None else self.numbers[target] for target in gradient.targets)
        function = self._move_function_number(gradient.function)
        return replace(gradient, op=gradient.op + self.ops, function=function, targets=targets)


MAX_ORIGINS = 8
"""Maximum number of origins, findings and names that a report shows."""
CUTTING_OPS = {"detach", "detach_", "item", "_local_scalar_dense", "stop_gradient"}


@dataclass(frozen=True, repr=False)
class OpFinding(Report):
    """One op that the answer names: what is wrong with it, and where it was called."""

    kind: str
    op: str
    """The framework's name of the op, or the name of a custom function."""
    module: str
    place: Place | None
    said: str
    call: str = ""
    """The text of the call in the user's code."""
    second: Place | None = None
    """A second line that takes part, such as the one that overwrote a value."""
    spoils: tuple[str, ...] = ()
    suggestion: str = ""
    scope: str = "module"
    """What `module` names: a `module` or a `function`."""
    about: str = ""
    """The tensor from outside that it is about; empty if it is about an op."""

    def lines(self) -> Iterator[str]:
        """Return what is wrong, where, what it spoils and what to try."""
        yield self.said
        where = f"at {self.place}" if self.place is not None else ""
        module = f"in {self.scope} {self.module}" if self.module else ""
        text = f": {self.call}" if self.call else ""
        if where or module:
            yield f"  {' '.join(part for part in (where, module) if part)}{text}"
        if self.spoils:
            yield f"  spoils {join_with_and(shorten_list(self.spoils))}"
        if self.suggestion:
            yield f"  try: {self.suggestion}"


def shorten_list(names: Sequence[str]) -> list[str]:
    """Return the first names, and a count of the rest.

    >>> shorten_list(["a"] * 9)[-1]
    '2 more'
    """
    if len(names) <= MAX_ORIGINS:
        return list(names)
    return [*names[: MAX_ORIGINS - 1], f"{len(names) - MAX_ORIGINS + 1} more"]


def make_finding(op: ObservedOp, kind: str, said: str, **facts: Any) -> OpFinding:
    """Return a finding about an op."""
    call = "" if op.site is None else op.site.text
    return OpFinding(kind, op.title, op.module, op.place, said, call=call, scope=op.scope, **facts)


def describe_source(run: ObservedRun) -> str:
    """Say that an answer was read off the observed run, and how large that is."""
    hidden = sum(held.value is None for held in run.list_held())
    note = f"; {count_with_noun(hidden, 'value')} held as a summary only" if hidden else ""
    which = f"of step {run.step}" if run.framework == "torch" else "that JAX ran"
    return f"from the observed run: {count_with_noun(len(run.ops), 'op')} {which}{note}"


# What is not finite


def find_nonfinite(run: ObservedRun, held: HeldValue | None) -> tuple[bool, bool]:
    """Return whether a value has NaN, and whether it has an infinity."""
    if held is None:
        return False, False
    if held.summary is not None:
        return held.summary.nans > 0, held.summary.infs > 0
    array = run.read_held(held)
    if array is None or array.dtype.kind not in "fc" or bool(np.isfinite(array).all()):
        return False, False
    return bool(np.isnan(array).any()), bool(np.isinf(array).any())


@dataclass(frozen=True, repr=False)
class ObservedBlame(Report):
    """Which ops of a framework's run first made something that is not finite; false if everything is finite."""

    origins: tuple[OpFinding, ...]
    source: str
    is_empty: bool = False
    has_backward: bool = True
    """Whether a backward pass ran."""
    ended: str = ""
    """The error that ended the program, if it is not explained."""
    is_skipped: bool = False
    """Whether a gradient scaler skips the step, because only gradients are not finite."""
    notes: tuple[str, ...] = ()
    """What else is wrong with the step, such as gradients that are added to those of the step before."""
    harmless: tuple[OpFinding, ...] = ()
    """What broke without spoiling the loss or the gradient of a parameter or input."""

    def __bool__(self) -> bool:
        return bool(self.origins)

    def lines(self) -> Iterator[str]:
        """Return the origins in the order of causes, then the harmless ones."""
        if not self.origins:
            yield self._describe_finite()
        for origin in self.origins[:MAX_ORIGINS]:
            yield from origin.lines()
        if len(self.origins) > MAX_ORIGINS:
            yield f"and {len(self.origins) - MAX_ORIGINS} more"
        for finding in self.harmless[:MAX_ORIGINS]:
            said, *where = replace(finding, suggestion="").lines()
            yield f"harmless, because nothing of it reaches the loss or a gradient: {said}"
            yield from where
        if self.is_skipped:
            yield "a gradient scaler skips such a step and lowers its scale: it is a fault only if it goes on"
        yield from self.notes
        if self.ended:
            yield f"the program ended with {self.ended}"
        yield self.source

    def _describe_finite(self) -> str:
        if self.is_empty:
            return "no op ran"
        if not self.has_backward:
            return "the results are finite; no backward pass ran here, so there are no gradients"
        return "the losses and all gradients are finite"


class BrokenTensor(NamedTuple):
    """Where something that is not finite comes from."""

    number: int
    born_nan: int | None
    """The op that turned its infinity into NaN."""
    has_nan: bool
    """Whether its NaN is what spoils the rest, and not its infinities."""
    reader: int | None
    """The op that first computed something from it, behind copies; None for the loss itself."""


class GradientFault(NamedTuple):
    """A record of the backward pass that first has something that is not finite."""

    gradient: ObservedGradient
    slot: int
    """Which of the sent gradients is not finite."""
    is_sum: bool
    """Whether what it received is not finite although nobody sent that: the sum of several gradients, or the start."""


class FaultSpread:
    """Follows gradients that are not finite from the ops that made them to the ends of the backward pass.

    A set of faults is an integer with one bit per fault. A fault is harmless only if each place that it came to is
    known to have passed nothing of it on.
    """

    def __init__(self, run: ObservedRun) -> None:
        self.run = run
        self.faults: list[GradientFault] = []
        self.spoils: dict[int, dict[str, None]] = {}
        """The gradients of parameters and inputs that each fault spoils."""
        self.lost = 0
        """The faults that came to a place of which nothing is known."""
        self._open: dict[tuple[int, int], int] = {}
        """The faults that were sent to a tensor in a backward pass, and not yet received by the op that made it."""
        for gradient in run.gradients:
            self._follow(gradient)
        for faults in self._open.values():
            self.lost |= faults
        self._give_names_to_lost()

    def _follow(self, gradient: ObservedGradient) -> None:
        """Note what a record of the backward pass took over, and sent on."""
        has_arrived = any(any(find_nonfinite(self.run, held)) for held in gradient.received)
        arrived = self._take_arrived(gradient) if has_arrived else 0
        slots = [k for k, held in enumerate(gradient.sent) if any(find_nonfinite(self.run, held))]
        if slots and not arrived:
            arrived = 1 << len(self.faults)
            self.faults.append(GradientFault(gradient, slots[0], has_arrived))
        for slot in slots:
            target = gradient.targets[slot] if slot < len(gradient.targets) else None
            self._send(arrived, target, gradient.backward)

    def _take_arrived(self, gradient: ObservedGradient) -> int:
        """Return the faults behind what a record received."""
        outputs = set(self.run.ops[gradient.op].outputs)
        if gradient.function is not None:
            outputs.update(self.run.functions[gradient.function].outputs.values())
        arrived = 0
        for output in outputs:
            arrived |= self._open.pop((gradient.backward, output), 0)
        if arrived:
            return arrived
        # It came on a way that is not known: any of those that did not arrive elsewhere may be behind it.
        for (backward, _), faults in self._open.items():
            arrived |= faults if backward == gradient.backward else 0
        self.lost |= arrived
        return arrived

    def _send(self, faults: int, target: int | None, backward: int) -> None:
        if target is None:
            self.lost |= faults
        elif self.run.tensors[target].producer is None:
            name = f"the gradient of {describe_outside(self.run.tensors[target])}"
            for bit in range(len(self.faults)):
                if faults >> bit & 1:
                    self.spoils.setdefault(bit, {})[name] = None
        else:
            self._open[backward, target] = self._open.get((backward, target), 0) | faults

    def _give_names_to_lost(self) -> None:
        """Let the faults that were lost from sight spoil what no other fault explains, or else everything."""
        names = {name: None for spoiled in self.spoils.values() for name in spoiled}
        for bit in range(len(self.faults)):
            if self.lost >> bit & 1 and not self.spoils.get(bit):
                self.spoils[bit] = dict(names)

    def is_harmless(self, bit: int) -> bool:
        """Return whether nothing of a fault reaches the gradient of a parameter or input."""
        return not self.spoils.get(bit) and not self.lost >> bit & 1


def describe_outside(tensor: ObservedTensor) -> str:
    """Name a tensor that comes from outside, by its shape if it has no name."""
    if tensor.name:
        return tensor.name
    return f"an unnamed tensor of shape {tensor.shape}" if tensor.shape else "an unnamed number"


def find_ends(run: ObservedRun) -> Iterator[int]:
    """Yield the numbers that a run without a backward pass leaves: no op reads them, or only to decide or to choose."""
    for op in run.ops:
        if op.title.startswith(("empty", "new_empty")):
            # Memory that nothing was written to yet.
            continue
        for number in op.outputs:
            results = [k for reader in run.readers.get(number, ()) for k in run.ops[reader].outputs]
            if not any(run.tensors[k].dtype.startswith(("float", "bfloat", "complex")) for k in results):
                yield number


class ObservedFaults:
    """Finds where values and gradients that are not finite come from."""

    def __init__(self, run: ObservedRun) -> None:
        self.run = run
        self._broken: dict[int, tuple[bool, bool]] = {}

    def is_broken(self, tensor: int) -> tuple[bool, bool]:
        """Return whether a tensor has NaN, and whether it has an infinity."""
        if tensor not in self._broken:
            self._broken[tensor] = find_nonfinite(self.run, self.run.tensors[tensor].held)
        return self._broken[tensor]

    def search(self) -> Iterator[OpFinding]:
        """Yield the origins: of losses that are not finite, else of gradients that are not."""
        if self._broken_roots:
            yield from self._search_values(self._broken_roots)
        else:
            yield from self._search_gradients()

    def search_harmless(self) -> Iterator[OpFinding]:
        """Yield the ops that sent something that is not finite, of which nothing reaches a parameter or input."""
        if not self._broken_roots:
            yield from self._search_gradients(harmless=True)

    @cached_property
    def _broken_roots(self) -> list[int]:
        """The losses that are not finite; without a backward pass, the results."""
        if self.run.roots or self.run.gradients:
            return [root for root in self.run.find_roots() if any(self.is_broken(root))]
        return [end for end in find_ends(self.run) if any(self.is_broken(end)) and end not in self._meant]

    def _search_values(self, spoiled: Sequence[int]) -> Iterator[OpFinding]:
        for tensor in spoiled:
            name = self.run.tensors[tensor].name or ("the loss" if self.run.roots else "a result")
            origin = self._trace_value(tensor)
            yield self._describe_origin(origin, name)

    def _trace_value(self, tensor: int) -> BrokenTensor:
        """Return the tensor that broke first on the way to a broken one."""
        born_nan: int | None = None
        reader: int | None = None
        wants_nan = self.is_broken(tensor)[0]
        # If the loss is infinite because of an infinity that the user wrote, it is not what was meant.
        meant = set() if not wants_nan and tensor in self._meant else self._meant
        while True:
            parents = self.run.value_sources_of(tensor)
            with_nan = [parent for parent in parents if self.is_broken(parent)[0]]
            with_inf = [parent for parent in parents if self.is_broken(parent)[1] and parent not in meant]
            if wants_nan and not with_nan and with_inf:
                born_nan = self.run.tensors[tensor].producer
                wants_nan = False
            following = with_nan if wants_nan else with_inf
            if not following:
                return BrokenTensor(tensor, born_nan, wants_nan, reader)
            producer = self.run.tensors[tensor].producer
            if producer is not None and (reader is None or self.run.ops[producer].title not in GATHERING_OPS):
                reader = producer
            tensor = following[0]

    @cached_property
    def _meant(self) -> set[int]:
        """The tensors whose infinities come from infinities that the user wrote, as in a mask of -inf."""
        found: set[int] = set()
        for tensor in self.run.tensors:
            # Tensors come in the order in which they were made.
            if any(self.is_broken(tensor.index)) and self._is_meant(tensor, found):
                found.add(tensor.index)
        return found

    def _is_meant(self, tensor: ObservedTensor, meant: set[int]) -> bool:
        if tensor.value_op is not None:
            spoiled = {source for source in self.run.value_sources_of(tensor.index) if any(self.is_broken(source))}
            return bool(spoiled) and spoiled <= meant
        if tensor.producer is None:
            return tensor.kind == "input" and not tensor.requires_grad
        op = self.run.ops[tensor.producer]
        numbers = [value for value in (*op.arguments, *op.keywords.values()) if isinstance(value, float)]
        # A maximum that begins at -inf makes no infinity.
        if op.title not in ("max", "min") and any(math.isinf(number) for number in numbers):
            return True
        spoiled = {parent for parent in op.inputs if any(self.is_broken(parent))}
        return bool(spoiled) and spoiled <= meant

    def _describe_origin(self, origin: BrokenTensor, name: str) -> OpFinding:
        tensor, born_nan, has_nan, reader = origin
        observed = self.run.tensors[tensor]
        if observed.producer is None:
            said = describe_outside_fault(self.run, tensor, has_nan=has_nan)
            if reader is None:
                return OpFinding("outside", "", "", None, said, spoils=(name,), about=observed.name)
            op = self.run.ops[reader]
            said = f"{said}; {op.title} reads it"
            # The op that reads it says where, but it is not at fault.
            return replace(make_finding(op, "outside", said, spoils=(name,), about=observed.name), op="")
        op = self.run.ops[observed.producer]
        said = describe_forward_fault(self.run, op, tensor, has_nan=has_nan)
        said += describe_growth(self.run, op, tensor) or self._describe_infinite_data(op)
        if born_nan is not None:
            later = self.run.ops[born_nan]
            said += f"; it turns into NaN in {later.title}" + (f" at {later.place}" if later.place else "")
        element = locate_forward_fault(self.run, op, tensor, has_nan=has_nan)
        kind = "overflow" if only_overflows(element) else "forward"
        return make_finding(op, kind, said, spoils=(name,), suggestion=suggest_remedy(self.run, op, element))

    def _describe_infinite_data(self, op: ObservedOp) -> str:
        """Say from which tensor from outside the infinities come that an op reads; empty if an op made them."""
        front = [number for number in op.inputs if self.is_broken(number)[1]]
        while front and self.run.tensors[front[0]].producer is not None:
            front = [number for number in self.run.value_sources_of(front[0]) if self.is_broken(number)[1]]
        return f"; {describe_outside_fault(self.run, front[0], has_nan=False)}" if front else ""

    def _search_gradients(self, *, harmless: bool = False) -> Iterator[OpFinding]:
        """Yield the ops that first sent something that is not finite; with `harmless`, those that spoil nothing."""
        spread = self._spread
        groups: dict[tuple[str, Place | None], list[int]] = {}
        origins: dict[tuple[str, Place | None], OpFinding] = {}
        for bit, fault in enumerate(spread.faults):
            if spread.is_harmless(bit) != harmless:
                continue
            op = self.run.ops[fault.gradient.op]
            origin = self._find_nan_behind(fault)
            key = (op.title, op.place) if origin is None else (origin.op, origin.place)
            groups.setdefault(key, []).append(bit)
            if origin is not None:
                origins.setdefault(key, origin)
        for key, bits in groups.items():
            names = tuple(dict.fromkeys(name for bit in bits for name in spread.spoils.get(bit, ())))
            if key in origins:
                yield replace(origins[key], spoils=names)
            else:
                yield self._describe_gradient(spread.faults[bits[0]], names)

    def _find_nan_behind(self, fault: GradientFault) -> OpFinding | None:
        """Return where the NaN comes from that an op read and that made what it sent NaN; None if it read none.

        The loss need not read it: a row of NaN that is left out is 0 times NaN in the backward pass of a product.
        """
        op = self.run.ops[fault.gradient.op]
        sent = fault.gradient.sent[fault.slot] if fault.slot < len(fault.gradient.sent) else None
        if fault.is_sum or fault.gradient.function is not None or not find_nonfinite(self.run, sent)[0]:
            return None
        tensor = next((number for number in op.inputs if self._has_nan_where_sent(op, number, sent)), None)
        if tensor is None:
            return None
        origin = self._trace_value(tensor)
        origin = origin._replace(reader=op.index if origin.reader is None else origin.reader)
        found = self._describe_origin(origin, "")
        behind = f"the loss does not depend on it, but the backward pass of {op.title} does"
        return replace(found, said=f"{found.said}; {behind}")

    def _has_nan_where_sent(self, op: ObservedOp, tensor: int, sent: HeldValue | None) -> bool:
        """Return whether an op read NaN; if it works by element, at all elements of which it sent NaN."""
        if not self.is_broken(tensor)[0]:
            return False
        value = self.run.read_value(tensor)
        gradient = self.run.read_held(sent)
        shapes = {self.run.tensors[number].shape for number in (*op.inputs, *op.outputs)}
        if value is None or gradient is None or gradient.shape != value.shape:
            return True
        if len(shapes) > 1 or op.title in WHOLE_OPS:
            return True
        return bool(np.isnan(value[np.isnan(gradient)]).all())

    @cached_property
    def _spread(self) -> FaultSpread:
        return FaultSpread(self.run)

    def _describe_gradient(self, fault: GradientFault, names: tuple[str, ...]) -> OpFinding:
        gradient = fault.gradient
        slot = fault.slot
        op = self.run.ops[gradient.op]
        if fault.is_sum:
            return make_finding(op, "backward", describe_received_sum(self.run, op, gradient), spoils=names)
        if gradient.function is not None:
            function = self.run.functions[gradient.function]
            broken = name_broken(self.run, gradient.sent[slot])
            said = f"the backward of {function.name} sent {broken}, from a finite gradient"
            text = "" if function.site is None else function.site.text
            place = None if function.site is None else function.site.place
            return OpFinding(
                "backward", function.name, function.module, place, said, text, spoils=names, scope=op.scope
            )
        said = describe_backward_fault(self.run, op, gradient, slot)
        sent = self.run.read_held(gradient.sent[slot])
        index = None if sent is None else locate_first(~np.isfinite(sent))[0]
        element = break_element(self.run, op, "backward", gradient.sent[slot], index, slot)
        return make_finding(op, "backward", said, spoils=names, suggestion=suggest_remedy(self.run, op, element))


def describe_outside_fault(run: ObservedRun, tensor: int, *, has_nan: bool) -> str:
    """Say of a tensor from outside which of its numbers is not finite."""
    observed = run.tensors[tensor]
    own = "" if observed.name else f" of shape {observed.shape}"
    label = f"{observed.kind} {observed.name}".strip() + own
    said = f"{label} has {'NaN' if has_nan else 'Inf'}"
    array = run.read_value(tensor)
    if array is not None and array.ndim:
        broken = np.isnan(array) if has_nan else ~np.isfinite(array)
        index, count = locate_first(broken)
        rows = {int(place[0]) for place in np.argwhere(broken)}
        others = f", in {len(rows)} of {len(array)} rows" if broken.ndim > 1 and len(rows) > 1 else ""
        said += f" at element {list(index)}{f' and {count - 1} more' if count > 1 else ''}{others}"
    return f"{said} before the step begins"


def describe_received_sum(run: ObservedRun, op: ObservedOp, gradient: ObservedGradient) -> str:
    """Describe a gradient that is not finite although nobody sent anything that is not."""
    broken = next(name_broken(run, held) for held in gradient.received if any(find_nonfinite(run, held)))
    if any(len(run.by_target.get(output, ())) > 1 for output in op.outputs):
        return f"the gradients that come back to the result of {op.title} add up to {broken}"
    return f"the gradient that came back to the result of {op.title} is {broken}"


def name_broken(run: ObservedRun, held: HeldValue | None) -> str:
    """Return `NaN` or `Inf`, whichever a value has."""
    return "NaN" if find_nonfinite(run, held)[0] else "Inf"


def describe_forward_fault(run: ObservedRun, op: ObservedOp, tensor: int, *, has_nan: bool) -> str:
    """Describe how an op made a value that is not finite, at the first such element (with `has_nan`: the first NaN)."""
    result = run.read_value(tensor)
    observed = run.tensors[tensor]
    if result is None:
        return f"{op.title} gave {name_broken(run, observed.held)}"
    index, count = locate_first(np.isnan(result) if has_nan else ~np.isfinite(result))
    spot = f" (element {list(index)}{f' and {count - 1} more' if count > 1 else ''})" if index else ""
    text = f"{op.title} gave {format_brief_number(to_python_number(result[index]))}"
    inputs = describe_inputs(run, op, result.shape, index)
    if only_overflows(break_element(run, op, "forward", observed.held, index)):
        return f"{text}{inputs}{spot}: {observed.dtype} overflows beyond {HALF_LIMITS[observed.dtype]:g}"
    return f"{text}{inputs}{spot}"


def describe_growth(run: ObservedRun, op: ObservedOp, tensor: int) -> str:
    """Say which calls made the numbers so large that the result of an op is infinite; empty if they were not large."""
    if not find_nonfinite(run, run.tensors[tensor].held)[1] or not op.inputs:
        return ""
    start = max(op.inputs, key=partial(largest_number, run))
    if not largest_number(run, start) > LARGE_NUMBER:
        return ""
    growth: dict[tuple[str, Place | None], list[float]] = {}
    # Parameters end the search, also those that the run has made.
    while parents := run.parents_of(start):
        parent = max(parents, key=partial(largest_number, run))
        before, after = largest_number(run, parent), largest_number(run, start)
        producer = run.tensors[start].producer
        if not before > 0:
            break
        if producer is not None and after > 0:
            maker = run.ops[producer]
            growth.setdefault((maker.title, maker.place), []).append(math.log10(after / before))
        start = parent
    size = largest_number(run, start)
    if size > LARGE_NUMBER:
        producer = run.tensors[start].producer
        outside = f"{run.tensors[start].kind} {describe_outside(run.tensors[start])}"
        name = outside if producer is None else f"what {run.ops[producer].title} made"
        return f"; {name} already has numbers up to {format_brief_number(size)}"
    (title, place), powers = max(growth.items(), key=lambda item: sum(item[1]))
    where = f" at {place}" if place is not None else ""
    calls = f" in {len(powers)} calls" if len(powers) > 1 else ""
    return (
        f"; the numbers grew on the way, {format_brief_number(10.0 ** sum(powers), 3)} times in {title}{where}{calls}"
    )


LARGE_NUMBER = 1e6
"""From which size on it is said where numbers grew."""


def largest_number(run: ObservedRun, tensor: int) -> float:
    """Return the largest magnitude of the finite numbers of a tensor; 0 if they are not known."""
    producer = run.tensors[tensor].producer
    if producer is not None and run.ops[producer].title.startswith(("empty", "new_empty")):
        # Memory that nothing was written to yet.
        return 0.0
    high = measure(run, run.tensors[tensor].held).high
    return 0.0 if math.isnan(high) else high


def locate_forward_fault(run: ObservedRun, op: ObservedOp, tensor: int, *, has_nan: bool) -> BrokenElement:
    """Return the numbers at the first element that is not finite (with `has_nan`: the first NaN)."""
    held = run.tensors[tensor].held
    result = run.read_held(held)
    index = None if result is None else locate_first(np.isnan(result) if has_nan else ~np.isfinite(result))[0]
    return break_element(run, op, "forward", held, index)


class Operand(NamedTuple):
    """An argument of an op: its number at one element, or the largest one if the op reads the whole of it."""

    name: str
    number: Any
    is_whole: bool
    is_float: bool

    @property
    def text(self) -> str:
        """The operand as a report shows it."""
        label = f"{self.name} = " if self.name else ""
        if not self.is_whole:
            return label + format_brief_number(self.number)
        if math.isnan(self.number):
            return f"{label}numbers none of which is finite"
        return f"{label}numbers up to {format_brief_number(self.number)}"


def list_operands(
    run: ObservedRun, op: ObservedOp, shape: tuple[int, ...], index: tuple[int, ...]
) -> Iterator[Operand]:
    """Yield the numbers that an op read, in the order of its arguments, at one element of its result.

    Of an op that does not work by element, the largest number of each input is given.
    """
    for value in flatten_arguments((op.arguments, op.keywords)):
        if not isinstance(value, TensorRef):
            if op.title.rstrip("_") in NUMBER_OPS and type(value) in (int, float):
                yield Operand("", value, is_whole=False, is_float=True)
            continue
        array = run.read_value(value.number)
        if array is None or array.dtype.kind not in "fciub" or not array.size:
            continue
        name = run.tensors[value.number].name
        is_float = array.dtype.kind in "fc"
        if can_broadcast(array.shape, shape) and op.title not in WHOLE_OPS:
            number = to_python_number(np.broadcast_to(array, shape)[index])
            yield Operand(name, number, is_whole=False, is_float=is_float)
        elif array.dtype.kind == "f":
            yield Operand(name, largest_finite(array), is_whole=True, is_float=True)


def flatten_arguments(value: Any) -> Iterator[Any]:
    """Yield the tensors and numbers of nested arguments, in order."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list) and not isinstance(value, TensorRef):
        for part in value:
            yield from flatten_arguments(part)
    else:
        yield value


def describe_inputs(run: ObservedRun, op: ObservedOp, shape: tuple[int, ...], index: tuple[int, ...]) -> str:
    """Describe the numbers that an op read: at one element if it works by element, else the largest of each input."""
    masked = describe_masked_row(run, op, index)
    if masked:
        return masked
    words = [operand.text for operand in list_operands(run, op, shape, index)]
    return f" at {' and '.join(words)}" if words else ""


def describe_masked_row(run: ObservedRun, op: ObservedOp, index: tuple[int, ...]) -> str:
    """Describe the row that a softmax read, if all of it is -inf; empty if it is not, or for another op."""
    if op.title not in SOFTMAX_OPS or not op.inputs:
        return ""
    array = run.read_value(op.inputs[0])
    axis = next((number for number in op.arguments[1:] if type(number) is int), -1)
    if array is None or array.ndim != len(index) or not array.ndim:
        return ""
    row = list[Any](index)
    row[axis] = slice(None)
    if not np.isneginf(array[tuple(row)]).all():
        return ""
    maker = find_maker(run, op.inputs[0])
    where = (
        "" if maker is None or maker.place is None else f", made by {maker.title.removesuffix('_')} at {maker.place}"
    )
    return f" at a row that is -Inf as a whole{where}"


SOFTMAX_OPS = {"_softmax", "_log_softmax"}
"""Ops of rows along the axis that is their first plain number."""
WHOLE_OPS = {"_softmax", "_log_softmax", "cumsum", "cumprod", "mm", "bmm", "addmm", "native_layer_norm", "dot_general"}
"""Ops whose result depends on whole rows, although the shapes would fit element by element."""
NUMBER_OPS = {"pow", "mul", "div", "add", "sub", "clamp", "rsub"}
"""Ops whose plain numbers are operands."""


def can_broadcast(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Return whether an array of one shape can be read as one of another.

    >>> can_broadcast((3, 1), (2, 3, 4)), can_broadcast((3,), (2, 2))
    (True, False)
    """
    padded = (1,) * (len(wanted) - len(shape)) + shape
    return len(padded) == len(wanted) and all(a in (1, b) for a, b in zip(padded, wanted, strict=True))


def largest_finite(array: NDArray[Any]) -> float:
    """Return the largest magnitude of the finite numbers of an array."""
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else math.nan


def locate_first(broken: NDArray[Any]) -> tuple[tuple[int, ...], int]:
    """Return the index of the first true element, and how many there are."""
    return tuple(int(k) for k in np.argwhere(broken)[0]) if broken.ndim else (), int(broken.sum())


def describe_backward_fault(run: ObservedRun, op: ObservedOp, gradient: ObservedGradient, slot: int) -> str:
    """Describe how an op sent back something that is not finite although it received finite numbers."""
    sent = run.read_held(gradient.sent[slot])
    if sent is None:
        return f"{op.title} sent back {name_broken(run, gradient.sent[slot])}, from a finite gradient"
    index, count = locate_first(~np.isfinite(sent))
    spot = f" (element {list(index)}{f' and {count - 1} more' if count > 1 else ''})" if index else ""
    text = f"{op.title} sent back {format_brief_number(to_python_number(sent[index]))}"
    received = run.read_held(gradient.received[0]) if gradient.received else None
    upstream = ""
    if received is not None and can_broadcast(received.shape, sent.shape) and op.title not in WHOLE_OPS:
        number = np.broadcast_to(received, sent.shape)[index]
        upstream = f": it received {format_brief_number(to_python_number(number))}"
        if number == 0 and np.isnan(sent[index]):
            upstream += ", and 0 times an infinite slope is NaN"
    return f"{text}{upstream}{describe_inputs(run, op, sent.shape, index)}{spot}"


def break_element(
    run: ObservedRun, op: ObservedOp, phase: str, held: HeldValue | None, index: tuple[int, ...] | None, slot: int = 0
) -> BrokenElement:
    """Return the numbers at the element of a value, or of what was sent back, at which an op broke."""
    dtype = "" if held is None else held.dtype
    broken = run.read_held(held)
    title = op.title.removesuffix("_")
    if broken is None or index is None:
        return BrokenElement(title, phase, dtype, slot=slot)
    operands = list_operands(run, op, broken.shape, index)
    inputs = tuple(to_real_number(operand.number) for operand in operands if operand.is_float)
    makers = [find_maker(run, number) for number in op.inputs]
    source = makers[0].title if makers and makers[0] else ""
    last = makers[-1] if len(makers) > 1 else None
    return BrokenElement(
        title,
        phase,
        dtype,
        inputs,
        to_real_number(broken[index]),
        slot,
        source,
        call=op.library_call,
        divisor="" if last is None else last.title,
        divisor_call="" if last is None else last.library_call,
    )


def suggest_remedy(run: ObservedRun, op: ObservedOp, element: BrokenElement) -> str:
    """Return what to write instead of an op that broke; empty if nothing is known."""
    for number, tensor in zip(element.inputs, op.inputs, strict=False):
        maker = find_maker(run, tensor) if number == 0 else None
        if maker is None or maker.title.removesuffix("_") not in GUARDS:
            continue
        dtype = run.tensors[tensor].dtype
        numbers = list(flatten_arguments((*maker.arguments, *maker.keywords.values())))
        vanished = [x for x in numbers if isinstance(x, float) and vanishes(x, dtype)]
        texts = [] if maker.site is None else [maker.site.text]
        vanished += [x for x in (find_vanished(texts, dtype),) if x is not None]
        if vanished:
            return advise_underflow(element.op, dtype, vanished[0])
    return advise(element, run.framework)


def to_real_number(number: Any) -> float:
    """Return a number as a float; NaN for complex numbers."""
    return math.nan if np.iscomplexobj(number) else float(number)


def find_maker(run: ObservedRun, tensor: int) -> ObservedOp | None:
    """Return the op that computed a tensor, behind views and copies of it; None if it is from outside."""
    while (producer := run.tensors[tensor].producer) is not None:
        op = run.ops[producer]
        if op.title not in COPYING_OPS or not op.inputs:
            return op
        tensor = op.inputs[0]
    return None


COPYING_OPS = {"view", "_unsafe_view", "reshape", "expand", "select", "slice", "squeeze", "unsqueeze", "t", "transpose"}
COPYING_OPS |= {"permute", "clone", "index", "gather", "_to_copy", "broadcast_in_dim", "convert_element_type"}
"""Ops whose results are elements of their first input."""
GATHERING_OPS = COPYING_OPS | {"stack", "cat", "unbind", "index_select", "_pin_memory"}
"""Ops that make a batch of data."""


INPLACE_ERROR = re.compile(r"modified by an inplace operation: \[torch\.\w+ \[([\d, ]*)\]\]")


class StorageWrite(NamedTuple):
    """An op, or a step of an optimizer, that wrote to storages."""

    title: str
    place: Place | None
    after: int
    """How many ops of its run came before it."""
    storages: tuple[tuple[int, int], ...]
    """The storages, and their versions before."""
    suggestion: str


def describe_write(run: ObservedRun, op: ObservedOp) -> StorageWrite:
    """Return what an op wrote in place."""
    tensors = [run.tensors[before] for before, _ in op.written]
    storages = tuple((tensor.storage, tensor.version) for tensor in tensors)
    advice = f"write a new tensor instead of changing it in place ({op.title})"
    return StorageWrite(op.title, op.place, op.index, storages, advice)


def list_writes(run: ObservedRun) -> Iterator[StorageWrite]:
    """Yield all writes of a run, those of optimizers last."""
    yield from (describe_write(run, op) for op in run.ops if op.written)
    for update in run.updates:
        place = None if update.site is None else update.site.place
        advice = "run this backward pass before the optimizer's step, or compute the loss again after it"
        title = f"{update.optimizer}.step"
        yield StorageWrite(title, place, update.after, tuple(update.storages.items()), advice)


SavesTensor = Callable[[ObservedRun, ObservedOp, int], bool]
"""Says whether the rule of an op of a run needs one of its tensors."""


def find_overwritten(
    runs: Sequence[ObservedRun], saves: SavesTensor, shape: tuple[int, ...] | None = None
) -> Iterator[OpFinding]:
    """Yield each value that an op needs for its backward pass and that was written over later, by any step.

    With `shape`, only values of that shape count.
    """
    for position, run in enumerate(runs):
        for write in list_writes(run):
            for storage, version in write.storages:
                for earlier in reversed(runs[: position + 1]):
                    stop = write.after if earlier is run else len(earlier.ops)
                    op = find_reader(earlier, saves, storage, version, stop, shape)
                    if op is not None:
                        yield describe_overwrite(op, write)


def find_reader(
    run: ObservedRun, saves: SavesTensor, storage: int, version: int, stop: int, shape: tuple[int, ...] | None
) -> ObservedOp | None:
    """Return the last op before `stop` that needs a value of a storage for a backward pass that did not run."""
    done = {gradient.op for gradient in run.gradients}
    for op in reversed(run.ops[:stop]):
        if op.index not in run.rules or op.index in done:
            continue
        for tensor in (*op.outputs, *op.inputs):
            observed = run.tensors[tensor]
            matches = observed.storage == storage and observed.version <= version
            if matches and (shape is None or observed.shape == shape) and saves(run, op, tensor):
                return op
    return None


def describe_overwrite(op: ObservedOp, write: StorageWrite) -> OpFinding:
    """Describe a value that was overwritten before the backward pass needed it."""
    where = f" at {write.place}" if write.place is not None else ""
    said = f"{op.title} needs a value for its backward pass that {write.title}{where} wrote over"
    return make_finding(op, "overwritten", said, second=write.place, suggestion=write.suggestion)


def describe_accumulation(run: ObservedRun) -> Iterator[str]:
    """Say which gradients an optimizer used that were added to those of a step before."""
    if run.accumulated:
        names = join_with_and(shorten_list(run.accumulated))
        yield (
            f"the gradients of {names} were not reset after an optimizer's step, so that the next step uses their sum "
            "with the new ones: call optimizer.zero_grad() before each backward pass"
        )


def blame_run(run: ObservedRun, saves: SavesTensor, steps: Sequence[ObservedRun] = ()) -> ObservedBlame:
    """Find the ops that first made something that is not finite, or that overwrote what a backward pass needed.

    `steps` are all steps that are known, of which the last one has the error that ended the program.
    """
    error = (steps or [run])[-1].error
    found = INPLACE_ERROR.search(str(error)) if error is not None else None
    origins: Iterable[OpFinding] = ()
    if found is not None:
        shape = tuple(int(part) for part in found.group(1).split(",") if part.strip())
        origins = list(find_overwritten(steps or [run], saves, shape)) or list(find_overwritten(steps or [run], saves))
    is_explained = error is None or bool(origins) or isinstance(error, NonFiniteError)
    ended = "" if is_explained else f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    search = ObservedFaults(run)
    faults = tuple(origins or search.search())
    is_skipped = run.is_scaled and any(fault.kind == "backward" for fault in faults)
    return ObservedBlame(
        faults,
        describe_source(run),
        not run.ops,
        bool(run.backwards or run.gradients),
        ended,
        is_skipped,
        tuple(describe_accumulation(run)),
        harmless=tuple(search.search_harmless()),
    )


# How large values and gradients are


def is_zero(run: ObservedRun, held: HeldValue | None) -> bool:
    """Return whether all numbers of a value are 0."""
    tally = measure(run, held)
    return tally.zeros == tally.size


def measure(run: ObservedRun, held: HeldValue | None) -> Tally:
    """Return the tally of a value, from its numbers or its summary."""
    if held is None:
        return Tally()
    if held.summary is not None:
        return tally_of_summary(held.summary)
    array = run.read_held(held)
    return Tally() if array is None else tally_numbers(array)


def tally_of_summary(summary: TensorSummary) -> Tally:
    """Return a summary as a tally."""
    high = max(abs(summary.low), abs(summary.high))
    return Tally(summary.size, summary.zeros, summary.nans, summary.infs, summary.rms, high)


# Whether backward passes are right


UNDECIDED = "in the elements whose derivative comes out as NaN"
"""Why an op was checked only in part."""


@dataclass(frozen=True, repr=False)
class BackwardCheck(Report):
    """Whether each op sent back the derivative of what it computed; true if none is wrong."""

    findings: tuple[OpFinding, ...]
    checked: int
    skipped: tuple[tuple[str, int], ...]
    """Why some ops were not checked, and how many."""
    declared: tuple[str, ...]
    source: str

    def __bool__(self) -> bool:
        return not self.findings

    @property
    def ok(self) -> bool:
        """Whether no op sent anything wrong."""
        return not self.findings

    def lines(self) -> Iterator[str]:
        """Return what is wrong, then what was not checked."""
        verdict = "all are right" if self.ok else f"{len(self.findings)} wrong"
        derived = f"the backward of {count_with_noun(self.checked, 'op')} was derived again: {verdict}"
        yield derived if self.checked else "no backward was derived again"
        for finding in self.findings[:MAX_ORIGINS]:
            yield from finding.lines()
        if len(self.findings) > MAX_ORIGINS:
            yield f"and {len(self.findings) - MAX_ORIGINS} more"
        for reason, count in self.skipped:
            yield f"not checked: {count_with_noun(count, 'op')}, {reason}"
        if self.declared:
            yield f"declared as meant: {', '.join(self.declared)}"
        yield self.source


# The observed run as something to draw and to compare


class ObservedCall:
    """An op of an observed run as the call of a node: it has a name, and computes nothing at other points."""

    def __init__(self, called: str) -> None:
        self.called = called

    @property
    def identity(self) -> tuple[str]:
        """The key that tells calls apart: two calls of one op are alike."""
        return (self.called,)

    def run_forward(self, xs: Sequence[Any]) -> Any:
        """Refuse other numbers than those of the run."""
        raise InputError(
            "an observed run holds what the framework computed, and nothing is computed again: "
            "seen.circuit() can be run at other points, and explored with seen.explore(layer='circuit')"
        )

    def pull_gradient(self, slot: int, g: object, xs: Sequence[Any], y: object) -> Any:
        """Refuse other gradients than those of the run."""
        self.run_forward(xs)


class RunDrawing:
    """Builds a circuit whose nodes are the tensors of an observed run, with the framework's values and gradients.

    A custom function is one node. Only what the loss is computed from is drawn, with the gradients of the last backward
    pass.
    """

    def __init__(self, run: ObservedRun) -> None:
        self.run = run
        self.values: list[Any] = []
        self.flows: list[Any] = []
        self.sent: list[Any] = []
        self._builder = GraphBuilder(finite=False)
        # Each group is a module, even one called like a function, such as `norm`.
        self._builder.recording.note_library_groups(frozenset)
        self._nodes: dict[int, int] = {}
        """The node of each tensor."""
        self._records: dict[int, list[ObservedGradient]] = {}
        self._last_pass = max((gradient.backward for gradient in run.gradients), default=0)
        for gradient in run.gradients:
            if gradient.backward == self._last_pass:
                self._records.setdefault(gradient.op, []).append(gradient)

    def build(self) -> Any:
        """Return the run as users get it."""
        roots = list(dict.fromkeys(self.run.last_roots)) or self.run.find_roots()
        if not roots:
            raise InputError("nothing was recorded: run the model inside the with block of wg.watch(model)")
        for number in sorted(find_ancestors(roots, self._sources_of)):
            self._add_tensor(number)
        free = self._builder.recording.free_name
        labels = {free("loss" if len(roots) == 1 else f"loss[{k}]"): root for k, root in enumerate(roots)}
        ports = {label: Port(self._builder, self._nodes[root]) for label, root in labels.items()}
        circuit = self._builder.build(name="observed", labels=ports)
        run = RUN_MAKERS[0](circuit, self.values, self.flows, self.sent)
        inputs = set(circuit.input_indices())
        run.unwanted = frozenset(
            node
            for number, node in self._nodes.items()
            if node in inputs and self.flows[node] is None and not self.run.tensors[number].requires_grad
        )
        return run

    def _sources_of(self, number: int) -> tuple[int, ...]:
        """Return the tensors that the node of a tensor reads; memory that nothing was written to has no numbers."""
        return tuple(source for source in self._list_operands(number) if not self._is_unwritten(source))

    def _is_unwritten(self, number: int) -> bool:
        producer = self.run.tensors[number].producer
        return producer is not None and self.run.ops[producer].title.startswith(("empty", "new_empty"))

    def _list_operands(self, number: int) -> tuple[int, ...]:
        tensor = self.run.tensors[number]
        if tensor.producer is not None:
            function = self._find_function(number)
            return self.run.ops[tensor.producer].inputs if function is None else self._arguments_of(function)
        parents = self.run.parents_of(number)
        # Of what was in a storage before it was written, the last version says it all.
        written = [k for k in parents if self.run.tensors[k].producer == tensor.writer]
        before = [k for k in parents if k not in written]
        return (*written, *before[-1:])

    def _find_function(self, number: int) -> ObservedFunction | None:
        """Return the custom function whose result a tensor is."""
        index = self.run.ops[self.run.tensors[number].producer or 0].function
        function = None if index is None else self.run.functions[index]
        return function if function is not None and number in function.outputs.values() else None

    def _arguments_of(self, function: ObservedFunction) -> tuple[int, ...]:
        return tuple(ref.number for ref in find_refs(function.arguments))

    def _add_tensor(self, number: int) -> None:
        tensor = self.run.tensors[number]
        value = self._read_array(tensor.held, f"a tensor of shape {tensor.shape}")
        sources = [k for k in self._sources_of(number) if k in self._nodes]
        self._move_to(tensor)
        recording = self._builder.recording
        if sources:
            op = FUNCTION_OP.bind_once(call=ObservedCall(self._name_op(number)))
            nodes = [self._nodes[k] for k in sources]
            index = recording.append_op(op, nodes, WireType(value.dtype, value.shape))
            self._note_text(index, number)
        elif tensor.producer is None and value.dtype.kind in "fc" and tensor.kind != "buffer":
            name = recording.free_name(write_name(tensor.name or "v"))
            index = self._builder.input(name, WireType(value.dtype, value.shape)).index
        else:
            label = recording.free_name(write_name(tensor.name)) if tensor.name else None
            index = self._builder.place_constant(value[()], label).index
        self._nodes[number] = index
        self.values.append(value[()])
        self.flows.append(self._find_flow(number))
        self.sent += self._find_sent(number, sources)

    def _read_array(self, held: HeldValue | None, what: str) -> NDArray[Any]:
        array = self.run.read_held(held)
        if array is None:
            raise InputError(f"the numbers of {what} were not kept: write wg.watch(model, keep='all')")
        if array.dtype in WIRE_DTYPES:
            return array
        return array.astype(np.int64 if array.dtype.kind in "iub" else np.float32)

    def _move_to(self, tensor: ObservedTensor) -> None:
        """Set the place and the group of the node of a tensor."""
        index = tensor.producer if tensor.producer is not None else tensor.writer
        op = None if index is None else self.run.ops[index]
        group = "" if op is None else write_group(op.module, self.run.parents)
        self._builder.recording.move_to(None if op is None else op.place, group)

    def _name_op(self, number: int) -> str:
        producer = self.run.tensors[number].producer
        if producer is None:
            return "view"
        function = self._find_function(number)
        return self.run.ops[producer].title if function is None else function.name

    def _note_text(self, index: int, number: int) -> None:
        """Give the result of the last op of a call the text of the call as its title."""
        producer = self.run.tensors[number].producer
        if producer is None:
            return
        op = self.run.ops[producer]
        after = self.run.ops[producer + 1] if producer + 1 < len(self.run.ops) else None
        is_last = after is None or after.site is not op.site
        if is_last and op.site is not None and op.site.text and number == op.outputs[0]:
            self._builder.recording.note_expression(index, op.site.text)

    def _find_flow(self, number: int) -> Any:
        """Return the gradient of a tensor: what its op received, or the sum of what was sent to it."""
        producer = self.run.tensors[number].producer
        outputs = () if producer is None else self.run.ops[producer].outputs
        flow = None
        for gradient in self._records.get(-1 if producer is None else producer, ()):
            position = outputs.index(number) if number in outputs else 0
            if position < len(gradient.received):
                flow = add_flows(flow, self._read_gradient(gradient.received[position], number))
        if flow is None:
            parts = self.run.by_target.get(number, ())
            for gradient, slot in (part for part in parts if part[0].backward == self._last_pass):
                flow = add_flows(flow, self._read_gradient(gradient.sent[slot], number))
        return flow

    def _find_sent(self, number: int, sources: Sequence[int]) -> list[Any]:
        """Return what the op of a tensor sent to each of its sources; None where it sent nothing."""
        sent: list[Any] = [None] * len(sources)
        producer = self.run.tensors[number].producer
        for gradient in self._records.get(-1 if producer is None else producer, ()):
            free = dict.fromkeys(range(len(sources)))
            for held, target in zip(gradient.sent, gradient.targets, strict=False):
                slot = next((k for k in free if sources[k] == target), None)
                if slot is not None and held is not None:
                    del free[slot]
                    sent[slot] = add_flows(sent[slot], self._read_gradient(held, sources[slot]))
        return sent

    def _read_gradient(self, held: HeldValue | None, number: int) -> Any:
        """Return a gradient of a tensor as an array; None if there is none, or if it has another shape."""
        if held is None:
            return None
        array = self._read_array(held, f"a gradient of shape {held.shape}")
        return array[()] if array.shape == self.run.tensors[number].shape else None


class RunQuestions:
    """What can be asked of something watched beside the observed run: its circuit explains, and both are explored."""

    @property
    def run(self) -> ObservedRun:
        """The observed run."""
        raise NotImplementedError

    def circuit(self) -> Any:
        """Return the circuit, whose gradients follow wiregrad's rules."""
        raise NotImplementedError

    def as_run(self) -> Any:
        """Return the observed run as a `Run`: the framework's own values, and gradients of its last backward pass.

        It can be drawn, explored and compared with `wg.diff`. Each op is a node that cannot be run again.
        """
        return RunDrawing(self.run).build()

    def explore(self, *, layer: str = "observed", **options: Any) -> Any:
        """Open the explorer: with the framework's own numbers, or with the circuit (`layer="circuit"`).

        Options are those of `Run.explore`: `output`, `port`, `browser`, `wait`, `source`.
        """
        if layer not in ("observed", "circuit"):
            raise InputError(f"layer must be 'observed' or 'circuit'; got {short_repr(layer)}")
        run = self.as_run() if layer == "observed" else self.circuit().run()
        return run.explore(**options)

    def paths(self, name: str, k: int = 10) -> Any:
        """Return the paths that contribute most to a gradient, by the circuit; see `Run.paths`."""
        return self.circuit().run().paths(write_name(name), k)

    def kinks(self, within: float = 1e-6) -> Any:
        """List the nodes of the circuit on or near a kink; see `Run.kinks`."""
        return self.circuit().run().kinks(within)

    def rounding(self, names: Sequence[str] | None = None) -> Any:
        """Estimate the rounding error of the loss and of gradients, by the circuit; see `Run.rounding`."""
        return self.circuit().run().rounding(None if names is None else [write_name(name) for name in names])
