"""Check PyTorch's backward pass op by op: derive each recorded op again and compare with what was sent.

An op is run once more on copies of the values that it read, and differentiated by autograd alone. A custom function is
replayed from the ops that its forward pass ran, so its own backward is not asked; where its forward left PyTorch, its
values are compared with differences. A rule may choose either side of a kink.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from wiregrad.dtypes import format_brief_number
from wiregrad.errors import require_package
from wiregrad.exchange.observed_run import (
    UNDECIDED,
    BackwardCheck,
    HeldValue,
    ObservedFunction,
    ObservedGradient,
    ObservedOp,
    ObservedRun,
    OpFinding,
    TensorRef,
    describe_overwrite,
    describe_source,
    describe_write,
    make_finding,
)

with require_package("torch", "watching a PyTorch program"):
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 1e-1}
"""How far two gradients may differ, relative to the largest number of either."""
SHORT_DTYPES = (torch.float16, torch.bfloat16)
"""Dtypes that are too coarse to tell a wrong rule from rounding; rules of users run again in float64."""
KINK_STEP = 1e-4
"""How far to step to either side of a value that may be on a kink, relative to its size."""
DIFFERENCE_STEPS = {torch.float64: 1e-6, torch.float32: 1e-2}
"""The step of a difference, relative to the largest number or to 1; other dtypes are too coarse for differences."""
DIFFERENCE_TOLERANCE = 5e-2
DIRECTIONS = 2
"""How many directions are tried for each argument."""
LIBRARY_NAMESPACES = {"aten", "prims", "prim"}
"""The namespaces of ops whose rules are PyTorch's own."""

NO_VALUES = "values were held as summaries only: keep='all' holds them"


class NotReplayable(Exception):  # noqa: N818 - it is caught here, and says why something was not checked
    """An op cannot be run once more; the message says why."""


def find_op(op: ObservedOp, *, in_place: bool = True) -> Any:
    """Return PyTorch's function of a recorded op; with `in_place=False`, the variant that writes nothing."""
    namespace, _, name = op.name.partition(".")
    name = name if in_place else name.removesuffix("_")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    func = None if packet is None else getattr(packet, op.overload, None)
    if func is None:
        raise NotReplayable(f"{op.title} has no variant that writes nothing")
    return func


def is_random(op: ObservedOp) -> bool:
    """Return whether an op draws random numbers."""
    return torch.Tag.nondeterministic_seeded in find_op(op).tags


def copy_value(run: ObservedRun, tensor: int) -> Any:
    """Return a copy of a recorded value."""
    value = run.tensors[tensor].value
    if value is None:
        raise NotReplayable(NO_VALUES)
    return value.clone()


def shift_value(value: Any, shift: float) -> Any:
    """Return a value a little to one side, where its gradient may have a kink; infinities and NaN stay as they are."""
    if not shift:
        return value
    # A step from -inf, as masks have it, would be NaN.
    return torch.where(torch.isfinite(value), value + shift * (value.abs() + KINK_STEP), value)


def rebuild(value: Any, make: Callable[[int], Any]) -> Any:
    """Return arguments with a tensor in place of each reference."""
    if isinstance(value, TensorRef):
        return make(value.number)
    if isinstance(value, list | tuple):
        return type(value)([rebuild(part, make) for part in value])
    if isinstance(value, dict):
        return {name: rebuild(part, make) for name, part in value.items()}
    return value


def list_tensors(value: Any) -> list[Any]:
    """Return the tensors of nested lists and tuples."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for part in value for tensor in list_tensors(part)] if isinstance(value, list | tuple) else []


class OpReplay:
    """One op, run once more on leaves of its own."""

    def __init__(self, run: ObservedRun, op: ObservedOp, shift: float = 0.0) -> None:
        self.run = run
        self.op = op
        self.leaves: list[tuple[int, Any]] = []
        """The tensors that require a gradient, one for each use."""
        self.copies: list[tuple[int, Any]] = []
        """All tensors that the op read."""
        self._shift = shift
        if is_random(op):
            raise NotReplayable("they draw random numbers")
        # What an op writes without being differentiated, such as running statistics, it may write to a copy.
        func = find_op(op, in_place=not any(run.tensors[before].requires_grad for before, _ in op.written))
        arguments = rebuild(op.arguments, self._make_leaf)
        keywords = rebuild(op.keywords, self._make_leaf)
        with torch.enable_grad():
            self.results = list_tensors(func(*arguments, **keywords))

    def _make_leaf(self, tensor: int) -> Any:
        value = copy_value(self.run, tensor)
        if self.run.tensors[tensor].requires_grad and (value.is_floating_point() or value.is_complex()):
            value = shift_value(value, self._shift).detach().requires_grad_()
            self.leaves.append((tensor, value))
        self.copies.append((tensor, value))
        return value

    @property
    def node(self) -> Any:
        """The node of autograd's graph."""
        return next((result.grad_fn for result in self.results if result.grad_fn is not None), None)

    def derive(self, received: Sequence[HeldValue | None]) -> dict[int, Any]:
        """Return the gradient of each edge of the node that leads to a tensor, by the position of the edge."""
        gradients = differentiate(self.results, [leaf for _, leaf in self.leaves], received)
        by_leaf = {id(leaf): part for (_, leaf), part in zip(self.leaves, gradients, strict=True)}
        edges = [getattr(following, "variable", None) for following, _ in self.node.next_functions]
        return {slot: by_leaf.get(id(edge)) for slot, edge in enumerate(edges) if edge is not None}

    def saves(self, tensor: int) -> bool:
        """Return whether the rule of the op needs one of its tensors."""
        node = self.node
        if node is None:
            return False
        copies = [leaf for index, leaf in self.copies if index == tensor]
        if tensor in self.op.outputs:
            copies.append(self.results[self.op.outputs.index(tensor)])
        places = {copy.data_ptr() for copy in copies}
        saved = [getattr(node, name) for name in dir(node) if name.startswith("_saved_")]
        return any(part.data_ptr() in places for part in list_tensors(saved))


def differentiate(results: Sequence[Any], leaves: Sequence[Any], received: Sequence[HeldValue | None]) -> list[Any]:
    """Return the gradients of leaves, for what each result received."""
    outputs = []
    gradients = []
    for result in results:
        number = result.output_nr
        if result.grad_fn is None or number >= len(received):
            continue
        held = received[number]
        if held is not None and held.value is None:
            raise NotReplayable(NO_VALUES)
        if held is not None:
            outputs.append(result)
            gradients.append(held.value.to(result.dtype))
    if not outputs or not leaves:
        return [None] * len(leaves)
    return list(torch.autograd.grad(outputs, list(leaves), gradients, allow_unused=True))


def saves_tensor(run: ObservedRun, op: ObservedOp, tensor: int) -> bool:
    """Return whether the backward pass of an op needs one of its tensors."""
    try:
        return OpReplay(run, op).saves(tensor)
    except (NotReplayable, RuntimeError):
        return False


class Comparison(NamedTuple):
    """How a gradient that was sent compares with the derivative."""

    difference: tuple[float, float] | None
    """The number that was sent and the one expected where they differ most; None if they agree."""
    is_undecided: bool = False
    """Whether the derivative is NaN somewhere, where another number was sent."""


def compare_gradient(sent: HeldValue, expected: Sequence[Any]) -> Comparison:
    """Compare what was sent with gradients at the point and beside it.

    What lies between them agrees, which allows either side of a kink. Where the gradient at the point is NaN, nothing
    is known of the derivative: it may be an infinity times 0.
    """
    value = sent.value
    if value is None:
        raise NotReplayable(NO_VALUES)
    value = value.to_dense()
    expected = [None if part is None else part.to_dense() for part in expected]
    parts = [torch.zeros_like(value) if part is None else part for part in expected]
    if value.shape != parts[0].shape:
        value = value.sum_to_size(parts[0].shape)
    parts = [part.to(torch.promote_types(part.dtype, torch.float64)) for part in parts]
    tolerance = TOLERANCES.get(value.dtype, TOLERANCES[torch.float32])
    value = value.to(parts[0].dtype)
    if value.is_complex():
        value = torch.view_as_real(value)
        parts = [torch.view_as_real(part) for part in parts]
    same = (value == parts[0]) | (torch.isnan(value) & torch.isnan(parts[0]))
    scale = torch.maximum(value.abs(), parts[0].abs()).nan_to_num(posinf=0.0)
    room = tolerance * float(scale.max()) if scale.numel() else 0.0
    # A step to one side may leave the domain of the op.
    stacked = torch.stack([torch.where(torch.isnan(part), parts[0], part) for part in parts])
    inside = (value >= stacked.amin(0) - room) & (value <= stacked.amax(0) + room)
    unknown = torch.isnan(parts[0]) & ~same
    wrong = ~(same | inside | unknown)
    if not bool(wrong.any()):
        return Comparison(None, bool(unknown.any()))
    distance = torch.where(wrong, (value - parts[0]).abs().nan_to_num(nan=torch.inf), torch.full_like(scale, -1.0))
    worst = int(distance.reshape(-1).argmax())
    return Comparison((float(value.reshape(-1)[worst]), float(parts[0].reshape(-1)[worst])), bool(unknown.any()))


class FunctionReplay:
    """A custom function, replayed from the ops of its forward pass without its own backward.

    With `widens`, it reads its numbers as float64.
    """

    def __init__(
        self, run: ObservedRun, function: ObservedFunction, shift: float = 0.0, *, widens: bool = False
    ) -> None:
        self.run = run
        self.function = function
        self._widens = widens
        self.leaves: list[Any] = []
        self.values: dict[int, Any] = {}
        for argument in function.arguments:
            if isinstance(argument, TensorRef):
                self.leaves.append(self._make_leaf(argument.number, shift))
        with torch.enable_grad():
            for index in function.ops:
                self._run_op(run.ops[index])

    def _copy(self, tensor: int) -> Any:
        value = copy_value(self.run, tensor)
        return widen(value) if self._widens else value

    def _make_leaf(self, tensor: int, shift: float) -> Any:
        value = self._copy(tensor)
        if self.run.tensors[tensor].requires_grad and (value.is_floating_point() or value.is_complex()):
            value = shift_value(value, shift).detach().requires_grad_()
        self.values.setdefault(tensor, value)
        return self.values[tensor]

    def _run_op(self, op: ObservedOp) -> None:
        if is_random(op):
            return
        if op.title == "detach":
            # Nothing is recorded inside a forward pass, so detaching there changes nothing.
            self.values[op.outputs[0]] = self._find(op.inputs[0])
            return
        func = find_op(op, in_place=not op.written)
        results = func(*rebuild(op.arguments, self._find), **rebuild(op.keywords, self._find))
        for number, result in zip(op.outputs, list_tensors(results), strict=False):
            self.values[number] = result

    def _find(self, tensor: int) -> Any:
        found = self.values.get(tensor)
        if found is None:
            found = self.values[tensor] = self._copy(tensor)
        return found

    def derive(self, received: Sequence[HeldValue | None]) -> dict[int, Any]:
        """Return the gradient of each argument that requires one, by its position among the tensors."""
        outputs = []
        gradients = []
        for number, held in enumerate(received):
            result = self.values.get(self.function.outputs.get(number, -1))
            if held is None or not bool((held.value != 0).any()):
                continue
            if result is None or not result.requires_grad:
                raise NotReplayable("their forward pass leaves PyTorch")
            outputs.append(result)
            gradients.append(held.value.to(result.dtype))
        slots = [slot for slot, leaf in enumerate(self.leaves) if leaf.requires_grad]
        if not outputs or not slots:
            return {}
        leaves = [self.leaves[slot] for slot in slots]
        return dict(zip(slots, torch.autograd.grad(outputs, leaves, gradients, allow_unused=True), strict=True))


def widen(value: Any) -> Any:
    """Return a tensor of real numbers as float64, and other tensors as they are."""
    return value.to(torch.float64) if value.is_floating_point() else value


class RerunWatch(TorchDispatchMode):  # type: ignore[misc]
    """Notes whether an op computes in a short dtype, or draws random numbers."""

    is_short = False
    is_random = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.is_short = self.is_short or any(part.dtype in SHORT_DTYPES for part in list_tensors(result))
        self.is_random = self.is_random or torch.Tag.nondeterministic_seeded in func.tags
        return result


def compare_in_float64(run: ObservedRun, function: ObservedFunction, gradient: ObservedGradient) -> Comparison:
    """Run a custom function and its own backward again in float64, and compare with the derivative of its forward."""
    leaves = []

    def make_leaf(tensor: int) -> Any:
        value = widen(copy_value(run, tensor))
        if run.tensors[tensor].requires_grad and value.is_floating_point():
            value = value.requires_grad_()
        leaves.append(value)
        return value

    arguments = rebuild(function.arguments, make_leaf)
    wanted = [slot for slot, leaf in enumerate(leaves) if leaf.requires_grad]
    with RerunWatch() as rerun, torch.autocast(gradient_device(gradient), enabled=False):
        # Whatever the user's code raises at numbers of another dtype, nothing is known then.
        try:
            results = list_tensors(function.rule.apply(*arguments))
            parts = differentiate(results, [leaves[slot] for slot in wanted], gradient.received)
        except Exception as error:
            raise NotReplayable("the rule does not run in float64") from error
    if rerun.is_random:
        raise NotReplayable("the rule draws random numbers")
    if rerun.is_short:
        raise NotReplayable("the rule itself computes in a short dtype")
    sent = dict(zip(wanted, parts, strict=True))
    held = tuple(hold_as_float32(sent.get(slot)) for slot in range(len(leaves)))
    return compare_replays(
        replace(gradient, sent=held), lambda shift: FunctionReplay(run, function, shift, widens=True)
    )


def gradient_device(gradient: ObservedGradient) -> str:
    """Return the kind of device on which a gradient was computed."""
    return next(str(held.value.device.type) for held in gradient.received if held is not None)


def hold_as_float32(value: Any) -> HeldValue | None:
    """Return a gradient as it is compared: rules in float64 may hold constants of seven digits."""
    return None if value is None else HeldValue(tuple(value.shape), "float32", value.to(torch.float32))


def compare_by_differences(
    run: ObservedRun, arguments: tuple[Any, ...], call: Callable[..., Any], gradient: ObservedGradient
) -> Comparison:
    """Compare what a rule sent with differences of the values that `call` returns, in some directions.

    The numbers are directional derivatives. Numbers that are not finite, as in a mask of -inf, are not moved.
    """
    slots = [argument.number for argument in arguments if isinstance(argument, TensorRef)]
    generator = torch.Generator().manual_seed(0)
    is_undecided = False
    for slot, tensor in enumerate(slots[: len(gradient.sent)]):
        value = copy_value(run, tensor)
        sent = gradient.sent[slot]
        if sent is None or sent.value is None:
            continue
        if value.dtype not in DIFFERENCE_STEPS:
            raise NotReplayable(f"{str(value.dtype).removeprefix('torch.')} is too coarse for differences")
        finite = torch.isfinite(value)
        step = DIFFERENCE_STEPS[value.dtype] * max(1.0, float(value[finite].abs().max()) if finite.any() else 1.0)
        here = run_shifted(run, arguments, call, tensor, value)
        for _ in range(DIRECTIONS):
            direction = torch.randn(value.shape, generator=generator, dtype=value.dtype).to(value.device)
            direction = torch.where(finite, direction, 0.0)
            above, below = (
                run_shifted(run, arguments, call, tensor, torch.where(finite, value + move * direction, value))
                for move in (step, -step)
            )
            expected = sum_differences(above, below, gradient.received, 2 * step)
            sides = [
                sum_differences(above, here, gradient.received, step),
                sum_differences(here, below, gradient.received, step),
            ]
            products = torch.where(finite, sent.value.to(torch.float64) * direction, 0.0)
            actual = float(products.sum())
            if not math.isfinite(expected) or not math.isfinite(actual):
                is_undecided = True
                continue
            room = DIFFERENCE_TOLERANCE * max(abs(expected), abs(actual), 1e-2 * float(products.abs().sum()))
            # Either side of a kink agrees.
            bounds = [expected, *filter(math.isfinite, sides)]
            if not min(bounds) - room <= actual <= max(bounds) + room:
                return Comparison((actual, expected), is_undecided)
    return Comparison(None, is_undecided)


def run_shifted(
    run: ObservedRun, arguments: tuple[Any, ...], call: Callable[..., Any], tensor: int, value: Any
) -> list[Any]:
    """Run a function with one of its arguments replaced."""

    def choose(number: int) -> Any:
        return value if number == tensor else copy_value(run, number)

    with torch.no_grad():
        return list_tensors(call(*rebuild(arguments, choose)))


def sum_differences(
    high: Sequence[Any], low: Sequence[Any], received: Sequence[HeldValue | None], step: float
) -> float:
    """Return the change of results per step, weighted with what they received."""
    total = 0.0
    for above, below, held in zip(high, low, received, strict=False):
        if held is not None and held.value is not None:
            # What stays infinite, as a masked number does, does not change.
            change = torch.where(above == below, 0.0, above - below).to(torch.float64)
            total += float((change / step * held.value).sum())
    return total


class BackwardChecker:
    """Checks every gradient of a run."""

    def __init__(self, run: ObservedRun, straight_through: Collection[Any]) -> None:
        self.run = run
        self.names = {rule if isinstance(rule, str) else rule.__name__ for rule in straight_through}
        self.findings: dict[Any, OpFinding] = {}
        self.skipped: dict[str, int] = {}
        self.declared: dict[str, None] = {}
        self.checked = 0

    def check_all(self) -> BackwardCheck:
        """Check every gradient, and report."""
        for gradient in self.run.gradients:
            try:
                self._check(gradient)
            except NotReplayable as reason:
                self._skip(str(reason))
        return BackwardCheck(
            tuple(self.findings.values()),
            self.checked,
            tuple(self.skipped.items()),
            tuple(self.declared),
            describe_source(self.run),
        )

    def _skip(self, reason: str) -> None:
        """Count an op that was not checked, or only in part."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def _check(self, gradient: ObservedGradient) -> None:
        if any(held is not None and held.value is None for held in gradient.received):
            raise NotReplayable(NO_VALUES)
        if gradient.function is None:
            self._check_op(gradient)
        else:
            self._check_function(gradient, self.run.functions[gradient.function])

    def _check_op(self, gradient: ObservedGradient) -> None:
        op = self.run.ops[gradient.op]
        replay = OpReplay(self.run, op)
        if replay.node is None or replay.node.name() != gradient.rule:
            raise NotReplayable("their node of the graph is not that of the op alone")
        self.checked += 1
        comparison = compare_replays(gradient, lambda shift: OpReplay(self.run, op, shift))
        if comparison.is_undecided:
            self._skip(UNDECIDED)
        if comparison.difference is not None:
            self._note_op(op, comparison.difference)

    def _note_op(self, op: ObservedOp, difference: tuple[float, float]) -> None:
        write = self._find_write(op)
        words = f"{describe_difference(op.title, difference)}"
        if write is not None:
            finding = describe_overwrite(op, describe_write(self.run, write))
            finding = make_finding(
                op,
                "overwritten",
                f"{words}; {finding.said}",
                second=finding.second,
                suggestion=finding.suggestion,
            )
        else:
            finding = make_finding(op, "wrong", words)
        self.findings.setdefault((op.title, op.place), finding)

    def _find_write(self, op: ObservedOp) -> ObservedOp | None:
        """Return the op that wrote over something that an op read or returned."""
        storages = {self.run.tensors[tensor].storage for tensor in (*op.inputs, *op.outputs)}
        for later in self.run.ops[op.index + 1 :]:
            if any(self.run.tensors[before].storage in storages for before, _ in later.written):
                return later
        return None

    def _check_function(self, gradient: ObservedGradient, function: ObservedFunction) -> None:
        ops = [self.run.ops[index] for index in function.ops]
        own_op = next((op for op in ops if op.name.partition(".")[0] not in LIBRARY_NAMESPACES), None)
        if own_op is None and function.rule.__module__.startswith("torch."):
            raise NotReplayable("they are functions of PyTorch itself")
        if own_op is not None and function.rule.__module__.startswith("torch."):
            self._check_own_op(gradient, own_op)
            return
        if function.name in self.names:
            self.declared[function.name] = None
            return
        comparison = self._compare_function(gradient, function)
        self.checked += 1
        if comparison.is_undecided:
            self._skip(UNDECIDED)
        if comparison.difference is None:
            return
        place = None if function.site is None else function.site.place
        text = "" if function.site is None else function.site.text
        advice = (
            f"if it is meant, as in a straight-through estimator: check_backward(straight_through=[{function.name}])"
        )
        said = describe_difference(f"the backward of {function.name}", comparison.difference)
        self.findings.setdefault(
            (function.name, place),
            OpFinding("wrong", function.name, function.module, place, said, text, suggestion=advice),
        )

    def _check_own_op(self, gradient: ObservedGradient, op: ObservedOp) -> None:
        """Check the rule that the user registered for an op of their own."""
        if op.title in self.names:
            self.declared[op.title] = None
            return
        comparison = compare_by_differences(self.run, op.arguments, find_op(op), gradient)
        self.checked += 1
        if comparison.is_undecided:
            self._skip(UNDECIDED)
        if comparison.difference is not None:
            self._note_op(op, comparison.difference)

    def _compare_function(self, gradient: ObservedGradient, function: ObservedFunction) -> Comparison:
        comparison = self._compare_in_own_dtype(gradient, function)
        short = [held.value.dtype for held in gradient.sent if held is not None and held.value is not None]
        dtype = next((dtype for dtype in short if dtype in SHORT_DTYPES), None)
        if comparison.difference is not None or dtype is None:
            return comparison
        try:
            return compare_in_float64(self.run, function, gradient)
        except NotReplayable as reason:
            self._skip(f"to less than {TOLERANCES[dtype]:.0%} of the largest gradient: {reason}")
            return comparison

    def _compare_in_own_dtype(self, gradient: ObservedGradient, function: ObservedFunction) -> Comparison:
        try:
            comparison = compare_replays(gradient, lambda shift: FunctionReplay(self.run, function, shift))
        except NotReplayable:
            return compare_by_differences(self.run, function.arguments, function.rule.apply, gradient)
        if comparison.difference is None and comparison.is_undecided:
            # One infinity times 0 in a row makes the whole row NaN, but its differences are numbers.
            moved = compare_by_differences(self.run, function.arguments, function.rule.apply, gradient)
            return Comparison(moved.difference, is_undecided=True)
        return comparison


def compare_replays(
    gradient: ObservedGradient, make_replay: Callable[[float], OpReplay | FunctionReplay]
) -> Comparison:
    """Compare what was sent with the derivative of an op or function that is run once more."""
    is_undecided = False
    for slot, part in make_replay(0.0).derive(gradient.received).items():
        sent = gradient.sent[slot] if slot < len(gradient.sent) else None
        if sent is None or compare_gradient(sent, [part]) == Comparison(None):
            continue
        beside = [make_replay(shift).derive(gradient.received).get(slot) for shift in (KINK_STEP, -KINK_STEP)]
        comparison = compare_gradient(sent, [part, *beside])
        if comparison.difference is not None:
            return comparison
        is_undecided = is_undecided or comparison.is_undecided
    return Comparison(None, is_undecided)


def describe_difference(name: str, difference: tuple[float, float]) -> str:
    """Say what was sent, and what the derivative is."""
    sent, expected = (format_brief_number(number) for number in difference)
    return f"{name} sent {sent} where the derivative of its forward pass gives {expected}"


def check_backward(run: ObservedRun, straight_through: Collection[Any] = ()) -> BackwardCheck:
    """Compare what each op sent back with the derivative of what it computed."""
    return BackwardChecker(run, straight_through).check_all()
