"""The observed run: what another framework computed, op by op, with its own values and gradients; and what it answers.

Nothing is interpreted here. An `ObservedTensor` is one version of one tensor: a write in place makes a new one, and so
does a view that is read after its storage was written through another view. An `ObservedOp` refers to tensors by their
numbers (`TensorRef`), in the order in which the framework ran them.

Questions: which op broke a number (`blame_run`), why a parameter has no gradient (`explain_run`), how gradients flow
(`flow_run`). Every answer is read off the framework's own values and gradients, and says so in its last line. Nothing
is computed again, so an answer holds for the dtype and the kernels that were used.
"""

from __future__ import annotations

import linecache
import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import count_with_noun, format_brief_number, to_python_number
from wiregrad.errors import UnknownNameError, short_repr, suggest_name
from wiregrad.inspect.flow import (
    Flow,
    FlowFinding,
    FlowLayer,
    Tally,
    find_trend,
    join_tallies,
    tally_numbers,
)
from wiregrad.inspect.report import Report, join_with_and
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


MAX_ORIGINS = 8
"""Maximum number of origins, findings and names that a report shows."""
HALF_LIMITS = {"float16": 65504.0}
"""The largest number of dtypes that overflow early."""
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

    def __bool__(self) -> bool:
        return bool(self.origins)

    def lines(self) -> Iterator[str]:
        """Return the origins in the order of causes."""
        if not self.origins:
            yield "no op ran" if self.is_empty else "the losses and all gradients are finite"
        for origin in self.origins[:MAX_ORIGINS]:
            yield from origin.lines()
        if len(self.origins) > MAX_ORIGINS:
            yield f"and {len(self.origins) - MAX_ORIGINS} more"
        yield self.source


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
        spoiled = [root for root in self.run.find_roots() if any(self.is_broken(root))]
        if spoiled:
            yield from self._search_values(spoiled)
        else:
            yield from self._search_gradients()

    def _search_values(self, spoiled: Sequence[int]) -> Iterator[OpFinding]:
        for tensor in spoiled:
            name = self.run.tensors[tensor].name or "the loss"
            origin = self._trace_value(tensor)
            yield self._describe_origin(origin, name)

    def _trace_value(self, tensor: int) -> tuple[int, int | None]:
        """Return the tensor that broke first on the way to a broken one, and the op that turned it into NaN."""
        born_nan: int | None = None
        wants_nan = self.is_broken(tensor)[0]
        while True:
            parents = self.run.parents_of(tensor)
            with_nan = [parent for parent in parents if self.is_broken(parent)[0]]
            with_inf = [parent for parent in parents if self.is_broken(parent)[1] and parent not in self._meant]
            if wants_nan and not with_nan and with_inf:
                born_nan = self.run.tensors[tensor].producer
                wants_nan = False
            following = with_nan if wants_nan else with_inf
            if not following:
                return tensor, born_nan
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
        if tensor.producer is None:
            return tensor.kind == "input" and not tensor.requires_grad
        op = self.run.ops[tensor.producer]
        numbers = [value for value in (*op.arguments, *op.keywords.values()) if isinstance(value, float)]
        # A maximum that begins at -inf makes no infinity.
        if op.title not in ("max", "min") and any(math.isinf(number) for number in numbers):
            return True
        spoiled = {parent for parent in op.inputs if any(self.is_broken(parent))}
        return bool(spoiled) and spoiled <= meant

    def _describe_origin(self, origin: tuple[int, int | None], name: str) -> OpFinding:
        tensor, born_nan = origin
        observed = self.run.tensors[tensor]
        if observed.producer is None:
            what = "NaN" if self.is_broken(tensor)[0] else "Inf"
            label = f"{observed.kind} {observed.name}".strip()
            said = f"{label} has {what} before the step begins"
            return OpFinding("outside", "", "", None, said, spoils=(name,))
        op = self.run.ops[observed.producer]
        said = describe_forward_fault(self.run, op, tensor)
        if born_nan is not None:
            later = self.run.ops[born_nan]
            said += f"; it turns into NaN in {later.title}" + (f" at {later.place}" if later.place else "")
        kind = "overflow" if observed.dtype in HALF_LIMITS else "forward"
        advice = advise(self.run, op.title, observed.dtype, "forward")
        return make_finding(op, kind, said, spoils=(name,), suggestion=advice)

    def _search_gradients(self) -> Iterator[OpFinding]:
        names = self._list_spoiled_names()
        described: set[tuple[str, Place | None]] = set()
        for gradient in self.run.gradients:
            if any(any(find_nonfinite(self.run, held)) for held in gradient.received):
                continue
            slots = [k for k, held in enumerate(gradient.sent) if any(find_nonfinite(self.run, held))]
            op = self.run.ops[gradient.op]
            if not slots or (op.title, op.place) in described:
                continue
            described.add((op.title, op.place))
            yield self._describe_gradient(gradient, slots[0], names)

    def _list_spoiled_names(self) -> tuple[str, ...]:
        """Return the parameters and inputs whose gradients are not finite."""
        names = []
        for target, parts in self.run.by_target.items():
            tensor = self.run.tensors[target]
            if tensor.name and any(any(find_nonfinite(self.run, part.sent[slot])) for part, slot in parts):
                names.append(f"the gradient of {tensor.name}")
        return tuple(names)

    def _describe_gradient(self, gradient: ObservedGradient, slot: int, names: tuple[str, ...]) -> OpFinding:
        op = self.run.ops[gradient.op]
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
        dtype = gradient.sent[slot].dtype if gradient.sent[slot] is not None else ""  # type: ignore[union-attr]
        advice = advise(self.run, op.title, dtype, "backward")
        return make_finding(op, "backward", said, spoils=names, suggestion=advice)


def name_broken(run: ObservedRun, held: HeldValue | None) -> str:
    """Return `NaN` or `Inf`, whichever a value has."""
    return "NaN" if find_nonfinite(run, held)[0] else "Inf"


def describe_forward_fault(run: ObservedRun, op: ObservedOp, tensor: int) -> str:
    """Describe how an op made a value that is not finite, at the first such element."""
    result = run.read_value(tensor)
    observed = run.tensors[tensor]
    if result is None:
        return f"{op.title} gave {name_broken(run, observed.held)}"
    index, count = locate_first(~np.isfinite(result))
    spot = f" (element {list(index)}{f' and {count - 1} more' if count > 1 else ''})" if index else ""
    text = f"{op.title} gave {format_brief_number(to_python_number(result[index]))}"
    inputs = describe_inputs(run, op, result.shape, index)
    limit = HALF_LIMITS.get(observed.dtype)
    if limit is not None and not np.isnan(result[index]):
        return f"{text}{inputs}{spot}: {observed.dtype} overflows beyond {limit:g}"
    return f"{text}{inputs}{spot}"


def describe_inputs(run: ObservedRun, op: ObservedOp, shape: tuple[int, ...], index: tuple[int, ...]) -> str:
    """Describe the numbers that an op read: at one element if it works by element, else the largest of each input."""
    words = []
    for tensor in op.inputs:
        array = run.read_value(tensor)
        if array is None or array.dtype.kind not in "fciub" or not array.size:
            continue
        name = run.tensors[tensor].name
        label = f"{name} = " if name else ""
        if can_broadcast(array.shape, shape) and op.title not in WHOLE_OPS:
            words.append(label + format_brief_number(to_python_number(np.broadcast_to(array, shape)[index])))
        elif array.dtype.kind == "f":
            words.append(f"{label}numbers up to {format_brief_number(largest_finite(array))}")
    numbers = [value for value in op.arguments if isinstance(value, int | float) and not isinstance(value, bool)]
    if op.title.rstrip("_") in NUMBER_OPS:
        words += [format_brief_number(number) for number in numbers]
    return f" at {' and '.join(words)}" if words else ""


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


FORWARD_ADVICE = {
    "log": "clamp the argument, {lib}.log({above_0}), or use {log_functions}",
    "log2": "clamp the argument: {above_0}",
    "log10": "clamp the argument: {above_0}",
    "exp": "subtract the largest number first, or use logsumexp, softmax or softplus",
    "div": "keep the divisor away from 0: divide by (b + eps), or choose it with {lib}.where before dividing",
    "reciprocal": "keep the argument away from 0",
    "pow": "keep the base away from 0, or the exponent small",
    "sqrt": "the argument is negative: clamp it, {from_0}",
    "rsqrt": "add a small number under the root: {rsqrt}(x + eps)",
    "acos": "clamp the argument to [-1, 1]",
    "asin": "clamp the argument to [-1, 1]",
}
BACKWARD_ADVICE = {
    "sqrt": "add a small number under the root: {lib}.sqrt(x + 1e-12)",
    "pow": "add a small number to the base: (x + 1e-12) ** p",
    "linalg_vector_norm": "add a small number: {lib}.sqrt((x * x).sum() + 1e-12)",
    "log": "replace the argument where it is 0 before taking the logarithm: {lib}.log({lib}.where(x > 0, x, 1))",
    "div": "replace the divisor where it is 0 before dividing, not after: a / {lib}.where(b > 0, b, 1)",
    "acos": "keep the argument inside (-1, 1): {inside_1}",
    "asin": "keep the argument inside (-1, 1): {inside_1}",
    "exp": "replace the argument where its exponential overflows before taking it, not after",
    "atan2": "keep one of the arguments away from 0",
}
SPELLINGS = {
    "torch": {
        "lib": "torch",
        "above_0": "x.clamp_min(1e-12)",
        "from_0": "x.clamp_min(0)",
        "inside_1": "x.clamp(-1 + 1e-6, 1 - 1e-6)",
        "rsqrt": "torch.rsqrt",
        "log_functions": "log_softmax, logsigmoid or log1p",
    },
    "jax": {
        "lib": "jnp",
        "above_0": "jnp.maximum(x, 1e-12)",
        "from_0": "jnp.maximum(x, 0)",
        "inside_1": "jnp.clip(x, -1 + 1e-6, 1 - 1e-6)",
        "rsqrt": "lax.rsqrt",
        "log_functions": "jax.nn.log_softmax, jax.nn.log_sigmoid or jnp.log1p",
    },
}
"""How each framework writes what the advice mentions."""


def advise(run: ObservedRun, op: str, dtype: str, phase: str) -> str:
    """Return what to write instead of an op that broke; empty if nothing is known."""
    if dtype in HALF_LIMITS and phase == "forward":
        return f"scale the values down, or compute this op in float32 or bfloat16 instead of {dtype}"
    table = FORWARD_ADVICE if phase == "forward" else BACKWARD_ADVICE
    return table.get(op.rstrip("_"), "").format(**SPELLINGS[run.framework])


INPLACE_ERROR = re.compile(r"modified by an inplace operation: \[torch\.\w+ \[([\d, ]*)\]\]")


def find_overwritten(
    run: ObservedRun, saves: Callable[[ObservedOp, int], bool], shape: tuple[int, ...] | None = None
) -> Iterator[OpFinding]:
    """Yield each value that an op needs for its backward pass and that a later op wrote over.

    `saves` says whether the rule of an op needs one of its tensors. With `shape`, only values of that shape count.
    """
    done = {gradient.op for gradient in run.gradients}
    for write in run.ops:
        for before, _ in write.written:
            storage = run.tensors[before].storage
            version = run.tensors[before].version
            for op in reversed(run.ops[: write.index]):
                if op.index not in run.rules or op.index in done:
                    continue
                for tensor in (*op.outputs, *op.inputs):
                    observed = run.tensors[tensor]
                    matches = observed.storage == storage and observed.version <= version
                    if matches and (shape is None or observed.shape == shape) and saves(op, tensor):
                        yield describe_overwrite(op, write)
                        break


def describe_overwrite(op: ObservedOp, write: ObservedOp) -> OpFinding:
    """Describe a value that was overwritten before the backward pass needed it."""
    where = f" at {write.place}" if write.place is not None else ""
    said = f"{op.title} needs a value for its backward pass that {write.title}{where} wrote over"
    advice = f"write a new tensor instead of changing it in place ({write.title})"
    return make_finding(op, "overwritten", said, second=write.place, suggestion=advice)


def blame_run(run: ObservedRun, saves: Callable[[ObservedOp, int], bool]) -> ObservedBlame:
    """Find the ops that first made something that is not finite, or that overwrote what a backward pass needed."""
    found = INPLACE_ERROR.search(str(run.error)) if run.error is not None else None
    origins: Iterable[OpFinding] = ()
    if found is not None:
        shape = tuple(int(part) for part in found.group(1).split(",") if part.strip())
        origins = list(find_overwritten(run, saves, shape)) or list(find_overwritten(run, saves))
    return ObservedBlame(tuple(origins or ObservedFaults(run).search()), describe_source(run), not run.ops)


# Why a gradient is absent or zero


@dataclass(frozen=True, repr=False)
class ObservedExplanation(Report):
    """Why the gradient of a parameter or input is absent, zero or what it is."""

    name: str
    kind: str
    """`none`, `frozen`, `unused`, `cut`, `zero`, `nonfinite` or `value`."""
    finding: OpFinding
    source: str

    @property
    def op(self) -> str:
        """The op that is named; empty if there is none."""
        return self.finding.op

    @property
    def module(self) -> str:
        """The module of that op."""
        return self.finding.module

    @property
    def place(self) -> Place | None:
        """The line of that op."""
        return self.finding.place

    @property
    def said(self) -> str:
        """The explanation in one sentence."""
        return self.finding.said

    def lines(self) -> Iterator[str]:
        """Return the explanation and its place."""
        yield from self.finding.lines()
        yield self.source


class GradientSearch:
    """Explains the gradient of one tensor of a run."""

    def __init__(self, run: ObservedRun, name: str) -> None:
        self.run = run
        self.name = name
        self.tensors = [tensor for tensor in run.tensors if tensor.name == name]

    def explain(self) -> tuple[str, OpFinding]:
        """Return the kind of the explanation, and the op it names."""
        plain = self._explain_without_ops()
        if plain is not None:
            return plain[0], OpFinding(plain[0], "", "", None, plain[1])
        parts = [part for tensor in self.tensors for part in self.run.by_target.get(tensor.index, ())]
        if not parts:
            return self._explain_absent()
        if any(any(find_nonfinite(self.run, part.sent[slot])) for part, slot in parts):
            origin = next(iter(blame_run(self.run, lambda *_: False).origins), None)
            said = f"the gradient of {self.name} is not finite"
            return "nonfinite", origin or OpFinding("nonfinite", "", "", None, said)
        if all(is_zero(self.run, part.sent[slot]) for part, slot in parts):
            return self._explain_zero(parts[0][0])
        return "value", self._describe_value(parts)

    def _explain_without_ops(self) -> tuple[str, str] | None:
        if self.run.parameters.get(self.name) is False or any(not t.requires_grad for t in self.tensors):
            return "frozen", f"{self.name} has requires_grad=False, so no gradient is computed for it"
        used = self.run.readers.keys() | self.run.by_target.keys()
        if not any(tensor.index in used for tensor in self.tensors):
            return "unused", f"no op read {self.name}"
        if not self.run.gradients:
            return "none", "no backward pass ran"
        return None

    def _explain_absent(self) -> tuple[str, OpFinding]:
        """Find the op at which the way from the tensor to the loss was cut."""
        wanted = self._find_ancestors(self.run.find_roots())
        reached = self._follow_gradients()
        cuts = [op for op in self.run.ops if self._cuts(op, reached)]
        relevant = [op for op in cuts if set(op.outputs) & wanted] or [op for op in cuts if op.title in CUTTING_OPS]
        relevant.sort(key=lambda op: all(self.run.tensors[k].dtype == "bool" for k in op.outputs))
        if relevant:
            op = relevant[0]
            return "cut", make_finding(op, "cut", f"no gradient comes to {self.name}: {describe_cut(op)}")
        last = max((self.run.tensors[k].producer or 0 for k in reached), default=0)
        said = f"no gradient comes to {self.name}: nothing that is computed from it reaches the loss"
        read = any(tensor.index in self.run.readers for tensor in self.tensors)
        return "unused", make_finding(self.run.ops[last], "unused", said) if read else OpFinding(
            "unused", "", "", None, said
        )

    def _find_ancestors(self, tensors: Iterable[int]) -> set[int]:
        """Return all tensors from which some tensors were computed."""
        found = set(tensors)
        front = deque(found)
        while front:
            for parent in self.run.parents_of(front.popleft()):
                if parent not in found:
                    found.add(parent)
                    front.append(parent)
        return found

    def _follow_gradients(self) -> set[int]:
        """Return the tensors computed from this one through which a gradient could flow back."""
        reached = {tensor.index for tensor in self.tensors}
        live_functions = {op.function for op in self.run.ops if op.index in self.run.rules}
        for op in self.run.ops:
            if reached.isdisjoint(op.inputs):
                continue
            inside = op.function is not None and op.function in live_functions
            reached.update(k for k in op.outputs if inside or self.run.tensors[k].requires_grad)
        return reached

    def _cuts(self, op: ObservedOp, reached: set[int]) -> bool:
        """Return whether an op reads something that a gradient could reach, and returns something that it cannot."""
        if op.phase != "forward" or reached.isdisjoint(op.inputs):
            return False
        return reached.isdisjoint(op.outputs)

    def _explain_zero(self, gradient: ObservedGradient) -> tuple[str, OpFinding]:
        """Walk towards the loss until something other than 0 was received."""
        for _ in range(len(self.run.gradients)):
            if not all(held is None or is_zero(self.run, held) for held in gradient.received):
                break
            outputs = self.run.ops[gradient.op].outputs
            later = [part for output in outputs for part, _ in self.run.by_target.get(output, ())]
            if not later:
                break
            gradient = later[0]
        op = self.run.ops[gradient.op]
        said = f"the gradient of {self.name} is 0: {op.title} received a gradient and sent back 0"
        return "zero", make_finding(op, "zero", said)

    def _describe_value(self, parts: Sequence[tuple[ObservedGradient, int]]) -> OpFinding:
        tallies = [measure(self.run, part.sent[slot]) for part, slot in parts]
        largest = max(range(len(parts)), key=lambda k: tallies[k].rms if tallies[k].size else -1.0)
        op = self.run.ops[parts[largest][0].op]
        count = f", the sum of {len(parts)} parts" if len(parts) > 1 else ""
        said = f"the gradient of {self.name} has rms {format_brief_number(tallies[largest].rms)}{count}"
        return make_finding(op, "value", f"{said}; {op.title} sent {'the largest' if count else 'it'}")


def describe_cut(op: ObservedOp) -> str:
    """Say why no gradient flows back through an op."""
    if op.title in ("detach", "detach_"):
        return "it was detached from the graph"
    if op.title == "stop_gradient":
        return "stop_gradient lets none through"
    if not op.outputs:
        return f"{op.title} turned it into a Python number"
    if not op.grad_enabled:
        return f"{op.title} ran without recording a graph, as under torch.no_grad()"
    return f"{op.title} has no derivative"


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


def explain_run(run: ObservedRun, name: str) -> ObservedExplanation:
    """Explain the gradient of a parameter or input."""
    known = {tensor.name for tensor in run.tensors if tensor.name} | set(run.parameters)
    if name not in known:
        raise UnknownNameError(f"the observed run has no tensor called {short_repr(name)}{suggest_name(name, known)}")
    kind, finding = GradientSearch(run, name).explain()
    return ObservedExplanation(name, kind, finding, describe_source(run))


# How gradients flow


@dataclass(frozen=True)
class ObservedFlowFinding(FlowFinding):
    """A finding about the flow, with the op behind it."""

    op: str = ""
    module: str = ""
    place: Place | None = None

    @property
    def said(self) -> str:
        """The finding in one sentence."""
        return self.sentence

    def __str__(self) -> str:
        where = f" ({self.op} at {self.place})" if self.place is not None else ""
        return self.sentence + where


@dataclass(frozen=True, repr=False)
class ObservedFlow(Flow):
    """The gradients of a framework's run, layer by layer from the loss back."""

    source: str = ""

    def lines(self) -> Iterator[str]:
        """Return the table of layers, the findings and what they were read from."""
        yield from super().lines()
        yield self.source


SATURATING_OPS = {"_softmax", "_log_softmax", "sigmoid", "sigmoid_", "tanh", "tanh_", "erf", "gelu", "silu", "exp"}
SATURATING_OPS |= {"logistic", "erfc"}
"""Smooth ops whose slope is 0 only because it is too small for the dtype."""
RELU_OPS = {"relu", "relu_", "threshold", "threshold_", "hardtanh", "clamp_min", "clamp_min_"}
MIN_DEAD_SHARE = 0.9
"""A rectifier whose results are 0 in this share is called dead."""


def group_layers(run: ObservedRun) -> list[tuple[str, list[ObservedGradient]]]:
    """Group gradients by the call of a module, or outside of modules by line and repetition, from the loss back."""
    keys = {op.index: key for op, key in zip(run.ops, list_layer_keys(run), strict=True)}
    layers: dict[tuple[str, int], list[ObservedGradient]] = {}
    for gradient in run.gradients:
        layers.setdefault(keys[gradient.op], []).append(gradient)
    names = [name for name, _ in layers]
    seen: dict[str, int] = {}
    found = []
    for (name, _), gradients in layers.items():
        seen[name] = seen.get(name, -1) + 1
        found.append((f"{name} [{seen[name]}]" if names.count(name) > 1 else name, gradients))
    return found


def list_layer_keys(run: ObservedRun) -> Iterator[tuple[str, int]]:
    """Yield for each op its module and the number of its call, or its line and how often the line ran before."""
    repeats: dict[Any, int] = {}
    for op in run.ops:
        if op.module or op.site is None:
            yield op.module, op.module_call
        else:
            repeats[op.site] = repeats.get(op.site, 0) + 1
            yield str(op.site.place.without_folder()), repeats[op.site]


def measure_layer(run: ObservedRun, name: str, rank: int, gradients: Sequence[ObservedGradient]) -> FlowLayer:
    """Measure the gradient that arrived at a layer, and the values it returned."""
    first = gradients[0]
    tally = join_tallies(measure(run, held) for held in first.received if held is not None)
    outputs = [run.tensors[k].held for k in run.ops[first.op].outputs[:1]]
    value = join_tallies(measure(run, held) for held in outputs)
    return FlowLayer(name, (rank, rank), len(gradients), tally, 0, math.nan, value)


def flow_run(run: ObservedRun) -> ObservedFlow:
    """Measure gradients layer by layer, and find where they vanish, explode or stop."""
    groups = group_layers(run)
    layers = [measure_layer(run, name, rank, gradients) for rank, (name, gradients) in enumerate(groups)]
    odd = [*find_dead(run), *find_outer_broadcasts(run), *find_missing(run)]
    # "Steady" would be misleading beside a missing gradient.
    trends = [finding for finding in find_trends(run, layers, groups) if not odd or finding.kind != "steady"]
    findings = [*odd, *trends]
    return ObservedFlow(tuple(layers), tuple(findings), describe_source(run))


def find_trends(
    run: ObservedRun, layers: Sequence[FlowLayer], groups: Sequence[tuple[str, list[ObservedGradient]]]
) -> Iterator[ObservedFlowFinding]:
    """Report whether the gradient vanishes or explodes between layers, and the op with the steepest step."""
    compared = [layer for layer in layers if layer.gradient.size > 1]
    order = {name: rank for rank, (name, _) in enumerate(groups)}
    for finding in find_trend(compared, all_of=True):
        passed = [gradient for _, gradients in groups[: order[finding.layer] + 1] for gradient in gradients]
        is_steady = finding.kind == "steady"
        steepest = None if is_steady else find_steepest(run, passed, grows=finding.kind == "explodes")
        facts = finding.kind, finding.layer, finding.ratio, finding.sentence
        if steepest is None:
            yield ObservedFlowFinding(*facts)
        else:
            op = run.ops[steepest.op]
            yield ObservedFlowFinding(*facts, op.title, op.module, op.place)


def find_steepest(run: ObservedRun, gradients: Sequence[ObservedGradient], *, grows: bool) -> ObservedGradient | None:
    """Return the op that changed the size of the gradient most; reductions and copies are left out."""
    best: tuple[float, ObservedGradient] | None = None
    for gradient in gradients:
        received = join_tallies(measure(run, held) for held in gradient.received if held is not None)
        flows = [held for held, target in zip(gradient.sent, gradient.targets, strict=False) if is_inner(run, target)]
        sent = join_tallies(measure(run, held) for held in flows if held is not None)
        if received.size < 2 or not received.rms > 0 or not sent.size or math.isnan(sent.rms):
            continue
        ratio = sent.rms / received.rms
        steepness = ratio if grows else 1.0 / max(ratio, 1e-300)
        if best is None or steepness > best[0]:
            best = steepness, gradient
    return None if best is None else best[1]


def is_inner(run: ObservedRun, target: int | None) -> bool:
    """Return whether a gradient goes on, and does not end at a parameter."""
    return target is None or run.tensors[target].producer is not None


def is_rectifier(op: ObservedOp) -> bool:
    """Return whether an op replaces negative numbers by 0."""
    return op.title in RELU_OPS or (op.title == "max" and any(type(x) is float and x == 0.0 for x in op.arguments))


def find_dead(run: ObservedRun) -> Iterator[ObservedFlowFinding]:
    """Report rectifiers whose results are nearly all 0."""
    for op in run.ops:
        if not is_rectifier(op) or not op.outputs or op.index not in run.rules:
            continue
        tally = measure(run, run.tensors[op.outputs[0]].held)
        if tally.size and tally.zero_share >= MIN_DEAD_SHARE:
            said = f"{op.title} is dead: {tally.zero_share:.0%} of its results are 0 and pass no gradient on"
            yield ObservedFlowFinding("dead", op.module, tally.zero_share, said, op.title, op.module, op.place)


def find_outer_broadcasts(run: ObservedRun) -> Iterator[ObservedFlowFinding]:
    """Report an op that combines a column (n, 1) with a row (n,), which gives all n * n pairs."""
    for op in run.ops:
        shapes = [run.tensors[k].shape for k in (*op.inputs, *op.outputs)]
        sources = [find_shape_before_expand(run, op, k) for k in op.inputs]
        if op.phase != "forward" or len(sources) != 2:
            continue
        column, row = sorted(sources, key=len, reverse=True)
        if column == (*row, 1) and len(row) == 1 and row[0] > 1 and row * 2 in shapes:
            said = f"{op.title} combines {column} with {row} to all pairs {row * 2}; pairs of the same row are usual"
            yield ObservedFlowFinding("broadcast", op.module, math.nan, said, op.title, op.module, op.place)


def find_shape_before_expand(run: ObservedRun, reader: ObservedOp, tensor: int) -> tuple[int, ...]:
    """Return the shape of a tensor before it was broadcast for an op that reads it."""
    while (producer := run.tensors[tensor].producer) is not None:
        op = run.ops[producer]
        # In JAX, x[:, None] is a broadcast too, but one that the user wrote.
        is_broadcast = op.title == "expand" or (op.title == "broadcast_in_dim" and op.site == reader.site)
        if not is_broadcast or not op.inputs:
            break
        tensor = op.inputs[0]
    return run.tensors[tensor].shape


def find_missing(run: ObservedRun) -> Iterator[ObservedFlowFinding]:
    """Report parameters that want a gradient and got none, or only zeros; one for each op that stopped it."""
    if not run.gradients:
        return
    named: set[tuple[str, str, Place | None]] = set()
    for name, wants_gradient in run.parameters.items():
        if not wants_gradient:
            continue
        kind, finding = GradientSearch(run, name).explain()
        if kind in ("cut", "unused", "zero") and (kind, finding.op, finding.place) not in named:
            if finding.place is not None:
                named.add((kind, finding.op, finding.place))
            said = finding.said
            if kind == "zero" and finding.op in SATURATING_OPS:
                kind = "vanishes"
                said += ", because it is saturated"
            yield ObservedFlowFinding(kind, name, 0.0, said, finding.op, finding.module, finding.place)


# Whether backward passes are right


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
