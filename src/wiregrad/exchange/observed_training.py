"""What is wrong with the training of a watched program: its steps, its optimizer, or what its loss is made of.

The last steps that are held say how the parameters moved and what the loss did. A cause is named only where the
numbers show it: a training that is merely slow, or noisy, has no finding here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import count_with_noun, format_brief_number
from wiregrad.exchange.observed_run import (
    COPYING_OPS,
    NUMBER_OPS,
    ObservedBlame,
    ObservedOp,
    ObservedRun,
    ObservedUpdate,
    PastStep,
    UpdatedGroup,
    find_ancestors,
    shorten_list,
)
from wiregrad.inspect.report import join_with_and
from wiregrad.inspect.step_slopes import StepSlopes, describe_overshoot, find_overshoot
from wiregrad.ir import Place

MIN_DECAY = 0.1
"""The share of a parameter that weight decay must take in one step to be called strong."""
MIN_RATE_GROWTH = 4.0
"""How many times as large as behind the lowest loss the learning rate must be to say that it rose with the loss."""
MIN_LOSS_GROWTH = 10.0
"""How many times the size of the lowest and of the first loss it must rise for that."""
MIN_MOVE = 0.02
"""The share of the parameters that a step must move to say that its length made the loss rise, and not the data."""
LOST_SHARE = 0.99
"""The share of numbers with a gradient that must not change to say that steps are lost in rounding."""
DISTRIBUTIONS = {"_log_softmax": "_softmax", "binary_cross_entropy_with_logits": "sigmoid"}
"""Ops that take scores, and the ops that have made probabilities of them already."""


class TrainingFault(NamedTuple):
    """Something that is wrong with a training."""

    kind: str
    name: str
    """The parameter, optimizer or op that it is about."""
    said: str
    place: Place | None = None


class TrainingStep:
    """One step: its loss, and the values and gradients of its parameters."""

    def __init__(self, run: ObservedRun) -> None:
        # A copy, because more may be recorded in the step after a question.
        self.run = replace(run)

    @property
    def root(self) -> int | None:
        """The loss, if there is one alone."""
        return self.run.roots[0] if len(self.run.roots) == 1 else None

    @cached_property
    def loss(self) -> float:
        """The loss; NaN if it is not one known number."""
        value = None if self.root is None else self.run.read_value(self.root)
        return float(np.real(value).reshape(())) if value is not None and value.size == 1 else math.nan

    @property
    def loss_key(self) -> object:
        """What is equal for the same loss of two steps: the op and line that made it."""
        producer = None if self.root is None else self.run.tensors[self.root].producer
        return None if producer is None else (self.run.ops[producer].name, self.run.ops[producer].place)

    @property
    def weighted_key(self) -> object:
        """What is equal for the same loss with the same weights: also the numbers that it was computed by."""
        ancestors = () if self.root is None else find_ancestors([self.root], self._sources_of)
        tensors = [self.run.tensors[k] for k in ancestors]
        producers = {number for tensor in tensors for number in (tensor.producer, tensor.value_op)}
        ops = [self.run.ops[producer] for producer in sorted(k for k in producers if k is not None)]
        numbers = [
            tuple(x for x in op.arguments if type(x) in (int, float))
            for op in ops
            if op.title.removesuffix("_") in NUMBER_OPS
        ]
        return self.loss_key, tuple(numbers)

    def _sources_of(self, number: int) -> tuple[int, ...]:
        """Return the tensors that a value comes from; none for parameters, which optimizers write."""
        tensor = self.run.tensors[number]
        is_parameter = tensor.producer is None and tensor.requires_grad
        return () if is_parameter else self.run.value_sources_of(number)

    @cached_property
    def values(self) -> dict[str, NDArray[np.float64]]:
        """The parameters and other leaves that got a gradient, as they were in the forward pass."""
        found: dict[str, NDArray[np.float64]] = {}
        for tensor in self.run.tensors:
            if tensor.name and tensor.is_leaf and tensor.index in self.run.by_target:
                value = self.run.read_value(tensor.index)
                if value is not None and value.dtype.kind == "f":
                    found.setdefault(tensor.name, value.astype(np.float64))
        return found

    @cached_property
    def gradients(self) -> dict[str, NDArray[np.float64]]:
        """The gradients of all backward passes of the step; a name without one is left out."""
        found: dict[str, NDArray[np.float64]] = {}
        for tensor in self.run.tensors:
            parts = self.run.by_target.get(tensor.index, ()) if tensor.name and tensor.is_leaf else ()
            arrays = [self.run.read_held(gradient.sent[slot]) for gradient, slot in parts]
            for array in arrays:
                if array is not None and array.dtype.kind == "f":
                    found[tensor.name] = found.get(tensor.name, 0.0) + array.astype(np.float64)
        return found

    @cached_property
    def loss_op(self) -> int:
        """The number of the op that made the loss; all ops if it is not known."""
        producer = None if self.root is None else self.run.tensors[self.root].producer
        return len(self.run.ops) if producer is None else producer


class StepPair(NamedTuple):
    """Two steps in a row that compute the same loss."""

    first: TrainingStep
    second: TrainingStep

    @property
    def has_update(self) -> bool:
        """Whether an optimizer ran between their losses."""
        after = any(update.after > self.first.loss_op for update in self.first.run.updates)
        return after or any(update.after <= self.second.loss_op for update in self.second.run.updates)

    @property
    def moves(self) -> dict[str, NDArray[np.float64]]:
        """How far each parameter with a gradient moved between them; empty if one of them is not known."""
        names = list(self.first.gradients)
        if not all(name in self.first.values and name in self.second.values for name in names):
            return {}
        return {name: self.second.values[name] - self.first.values[name] for name in names}

    @property
    def slopes(self) -> StepSlopes | None:
        """The slopes along the step; None if not all numbers are known."""
        moves = self.moves
        if not moves or not moves.keys() <= self.second.gradients.keys():
            return None
        before = sum_products(moves, self.first.gradients)
        after = sum_products(moves, self.second.gradients)
        return StepSlopes(self.first.loss, self.second.loss, before, after)

    @property
    def goes_up(self) -> bool:
        """Whether the parameters moved exactly along the gradient, and the loss rose."""
        moves = self.moves
        if sum(move.size for move in moves.values()) < 2 or not self.second.loss > self.first.loss:
            return False
        along = sum_products(moves, self.first.gradients)
        lengths = sum_products(moves, moves) * sum_products(self.first.gradients, self.first.gradients)
        return along > 0.0 and along >= 0.9999 * math.sqrt(lengths)


def sum_products(a: dict[str, NDArray[np.float64]], b: dict[str, NDArray[np.float64]]) -> float:
    """Return the sum of the products of two sets of arrays, over the names of the first one."""
    with np.errstate(all="ignore"):
        return float(sum(np.sum(array * b[name]) for name, array in a.items()))


def largest_rate(update: ObservedUpdate | None) -> float:
    """Return the largest learning rate of an optimizer's step; NaN if there is none."""
    rates = [] if update is None else [group.settings["lr"] for group in update.groups if "lr" in group.settings]
    return max(rates, default=math.nan)


def find_past_step(run: ObservedRun, following: Sequence[ObservedRun]) -> PastStep | None:
    """Return the loss of a step and the learning rate behind it; None if the loss is not a known number."""
    step = TrainingStep(run)
    if not run.backwards or not math.isfinite(step.loss):
        return None
    own = [update for update in run.updates if update.after > step.loss_op]
    later = (update for after in following for update in after.updates)
    update = own[0] if own else next(later, None)
    return PastStep(run.step, step.loss, largest_rate(update), step.weighted_key)


def list_past_steps(runs: Sequence[ObservedRun]) -> list[PastStep]:
    """Return the first and the best step that are no longer held, and the steps that are."""
    past = [step for run in runs for step in (run.first_step, run.best_step)]
    past += [find_past_step(run, runs[number + 1 :]) for number, run in enumerate(runs)]
    return [step for step in past if step is not None]


def remember_step(oldest: ObservedRun, following: Sequence[ObservedRun]) -> None:
    """Pass what the questions about a training need of a step that is let go on to the step after it."""
    if not following:
        return
    after = following[0]
    after.first_step = oldest.first_step
    after.best_step = oldest.best_step
    after.largest_loss = oldest.largest_loss
    step = find_past_step(oldest, following)
    if step is None:
        return
    after.largest_loss = max(oldest.largest_loss, step.loss)
    first = after.first_step = oldest.first_step or step
    best = oldest.best_step
    if step.loss_key == first.loss_key and (best is None or step.loss < best.loss):
        after.best_step = step


class TrainingFaults:
    """Finds what is wrong with a training, from the steps that are held; the last one is asked about."""

    def __init__(self, runs: Sequence[ObservedRun]) -> None:
        self.largest_loss = max((run.largest_loss for run in runs), default=-math.inf)
        self.past = list_past_steps(runs)
        self.steps = [TrainingStep(run) for run in runs if run.backwards]
        self.last = self.steps[-1].run if self.steps else runs[-1]
        self.updates = [update for run in runs for update in run.updates]

    @cached_property
    def pairs(self) -> list[StepPair]:
        """The pairs of steps that compute the same loss."""
        pairs = [StepPair(first, second) for first, second in pairwise(self.steps)]
        return [
            pair for pair in pairs if pair.first.loss_key is not None and pair.first.loss_key == pair.second.loss_key
        ]

    @property
    def update(self) -> ObservedUpdate | None:
        """The last step of an optimizer."""
        return self.updates[-1] if self.updates else None

    def search(self) -> Iterator[TrainingFault]:
        """Yield all faults, those that explain others first."""
        risen = [*self._find_risen_rate()]
        yield from risen
        odd_settings = [*self._find_settings()]
        yield from odd_settings
        yield from self._find_direction()
        if not (odd_settings or risen):
            yield from self._find_overshoot()
        yield from self._find_idle_steps()
        yield from self._find_left_out()
        yield from self._find_lost_steps()
        yield from self._find_eval_mode()
        if self.steps:
            yield from find_negated_loss(self.last, is_maximized=self._is_maximized)
            yield from find_repeated_distributions(self.last)

    @property
    def _is_maximized(self) -> bool:
        return any(group.settings.get("maximize") for update in self.updates for group in update.groups)

    def _find_risen_rate(self) -> Iterator[TrainingFault]:
        """Yield a learning rate that rose since the lowest loss, and the loss with it."""
        update = self.update
        if update is None or not self.past:
            return
        first = min(self.past, key=lambda step: step.step)
        best = min(self.past, key=lambda step: step.loss)
        last = max(self.past, key=lambda step: step.step)
        rate = largest_rate(update)
        if len({step.loss_key for step in (first, best, last)}) > 1:
            return
        rises = last.loss - best.loss >= MIN_LOSS_GROWTH * max(abs(best.loss), abs(first.loss))
        if not rises or not rate >= MIN_RATE_GROWTH * best.rate > 0.0 or not self._takes_long_steps():
            return
        losses = f"{format_brief_number(best.loss)} in step {best.step} to {format_brief_number(last.loss)}"
        rates = f"{format_brief_number(best.rate)} to {format_brief_number(rate)}"
        said = (
            f"the loss rose from {losses} in step {last.step}, while the learning rate of {update.optimizer} rose from "
            f"{rates}: lower it, or change the schedule that raises it"
        )
        yield TrainingFault("rises", update.optimizer, said, None if update.site is None else update.site.place)

    def _takes_long_steps(self) -> bool:
        """Return whether one of the last steps moved the parameters by a large share of their size."""
        for pair in self.pairs[-2:]:
            moves = pair.moves
            sizes = {name: np.maximum(abs(pair.first.values[name]), abs(pair.second.values[name])) for name in moves}
            if moves and sum_products(moves, moves) >= MIN_MOVE**2 * sum_products(sizes, sizes):
                return True
        return False

    def _find_settings(self) -> Iterator[TrainingFault]:
        """Yield what the settings of the last optimizer alone make wrong."""
        for update in [self.update] if self.update is not None else []:
            place = None if update.site is None else update.site.place
            for group in update.groups:
                for said in self._judge_settings(update, group):
                    yield TrainingFault("settings", update.optimizer, f"{update.optimizer} {said}", place)

    def _judge_settings(self, update: ObservedUpdate, group: UpdatedGroup) -> Iterator[str]:
        settings = group.settings
        rate = settings.get("lr", math.nan)
        names = join_with_and(shorten_list(group.names)) if group.names else "its parameters"
        momentum = settings.get("momentum", 0.0)
        if momentum >= 1.0:
            yield (
                f"has momentum={format_brief_number(momentum)}, which keeps every gradient for ever, so that steps do "
                "not get shorter: a momentum is below 1, such as 0.9"
            )
        if rate == 0.0 and len(self.updates) > 1 and all(self._has_no_rate(each, group) for each in self.updates):
            yield f"has lr=0, so that it changes nothing of {names}"
        decay = settings.get("weight_decay", 0.0)
        shrinks = decays_directly(update, group)
        if shrinks and rate * decay >= 2.0:
            # A rate above 2 is beyond any that trains; a decay of up to 1 is not.
            odd = "weight_decay" if decay > 1.0 else f"the learning rate, lr={format_brief_number(rate)}"
            yield (
                f"multiplies {names} by {format_brief_number(1.0 - rate * decay)} in each step, because lr * "
                f"weight_decay is {format_brief_number(rate * decay)}, so that they grow whatever the loss is: lower "
                f"{odd}"
            )
        elif shrinks and rate * decay >= MIN_DECAY and self._decay_outweighs(group, decay):
            yield (
                f"takes {format_brief_number(100.0 * rate * decay)} % of {names} away in each step, because lr * "
                f"weight_decay is {format_brief_number(rate * decay)}, and the loss does not give as much back: lower "
                "weight_decay"
            )

    @staticmethod
    def _has_no_rate(update: ObservedUpdate, group: UpdatedGroup) -> bool:
        own = [each for each in update.groups if each.names == group.names]
        return all(each.settings.get("lr") == 0.0 for each in own)

    def _decay_outweighs(self, group: UpdatedGroup, decay: float) -> bool:
        """Return whether the gradient of weight decay is at least about as large as that of the loss."""
        step = self.steps[-1] if self.steps else None
        if step is None or not all(name in step.values for name in group.names if name in step.gradients):
            return False
        own = {name: step.gradients[name] for name in group.names if name in step.gradients}
        values = {name: decay * step.values[name] for name in own}
        return bool(own) and sum_products(values, values) >= 0.5 * sum_products(own, own)

    def _find_direction(self) -> Iterator[TrainingFault]:
        """Yield steps that go up the gradient."""
        last = self.pairs[-2:]
        if len(last) < 2 or not all(pair.goes_up for pair in last):
            return
        # An attack raises the loss on purpose, by its inputs.
        if self.last.parameters.keys().isdisjoint(last[-1].moves):
            return
        losses = [last[0].first.loss, last[-1].second.loss]
        said = "the parameters move along the gradient, so that the loss rises from {} to {}".format(
            *map(format_brief_number, losses)
        )
        own = "a training step subtracts the gradient times the learning rate"
        if self._is_maximized:
            own = f"{self.updates[-1].optimizer} has maximize=True, which is wrong for a loss"
        elif self.update is not None and any(group.settings.get("lr", 0.0) < 0 for group in self.update.groups):
            own = f"the learning rate of {self.update.optimizer} is negative"
        yield TrainingFault("direction", "loss", f"{said}: {own}")

    def _find_overshoot(self) -> Iterator[TrainingFault]:
        """Yield steps that are too long."""
        slopes: list[StepSlopes] = []
        for pair in self.pairs:
            step = pair.slopes
            slopes = [*slopes, step] if step is not None else []
        found = find_overshoot(slopes, self.largest_loss)
        if not found:
            return
        said = describe_overshoot(found)
        update = self.update
        place = None
        if update is not None:
            rate = largest_rate(update)
            setting = "" if math.isnan(rate) else f", lr={format_brief_number(rate)}"
            said += f": lower the learning rate of {update.optimizer}{setting}"
            place = None if update.site is None else update.site.place
        yield TrainingFault("overshoots", "loss" if update is None else update.optimizer, said, place)

    def _find_idle_steps(self) -> Iterator[TrainingFault]:
        """Yield steps of an optimizer that had no gradient."""
        update = self.update
        had_gradient = any(array.any() for step in self.steps for array in step.gradients.values())
        if update is None or not update.idle or not had_gradient:
            return
        place = None if update.site is None else update.site.place
        names = [name for group in update.groups for name in group.names]
        ask = f"; ask seen.explain({names[0]!r}) why" if names else ""
        why = {
            "early": "it ran before the backward pass of its loss: call loss.backward() first",
            "missed": f"the backward pass sent nothing to its parameters, or only 0{ask}",
            "reset": "it ran after zero_grad() had removed the gradients: call zero_grad() before loss.backward()",
        }[update.idle]
        said = f"{update.optimizer}.step() had no gradient and changed nothing, because {why}"
        yield TrainingFault("idle", update.optimizer, said, place)

    def _find_left_out(self) -> Iterator[TrainingFault]:
        """Yield the parameters with a gradient that no optimizer changes."""
        if not self.last.updated or not self.steps:
            return
        trained = self.steps[-1].gradients
        left = [name for name in self.last.parameters if name in trained and name not in self.last.updated]
        if left:
            verb, them = ("gets", "it") if len(left) == 1 else ("get", "them")
            said = (
                f"{join_with_and(shorten_list(left))} {verb} a gradient, but no optimizer that ran while this was "
                f"watched has {them}: pass all parameters to the optimizer, or set requires_grad=False"
            )
            yield TrainingFault("left out", left[0], said)

    def _find_lost_steps(self) -> Iterator[TrainingFault]:
        """Yield steps that are so short that rounding swallows them."""
        moving = [update for update in self.updates if any(group.settings.get("lr") for group in update.groups)]
        if not moving or any(update.idle for update in self.updates):
            return
        pairs = self.pairs[-2:]
        if len(pairs) < 2 or not all(pair.has_update and loses_step(pair) for pair in pairs):
            return
        dtypes = {tensor.dtype for tensor in self.last.tensors if tensor.name in pairs[-1].first.gradients}
        said = (
            f"the parameters do not change although their gradients are not 0: the steps are shorter than the last "
            f"digit of {join_with_and(sorted(dtypes))}, so that rounding swallows them; keep parameters in float32, or "
            "raise the learning rate"
        )
        yield TrainingFault("lost", moving[-1].optimizer, said)

    def _find_eval_mode(self) -> Iterator[TrainingFault]:
        """Yield modules that dropped or normalised as in an evaluation in a step of training."""
        modules = self.last.eval_modules
        if not modules or not self.updates:
            return
        names = join_with_and(shorten_list([f"{name} ({title})" for name, title in modules.items()]))
        said = f"{names} ran as in an evaluation in a step of training: call model.train() before training"
        yield TrainingFault("mode", next(iter(modules)), said)


def decays_directly(update: ObservedUpdate, group: UpdatedGroup) -> bool:
    """Return whether weight decay multiplies parameters by 1 - lr * weight_decay, and is not scaled like a gradient."""
    settings = group.settings
    is_plain = "momentum" in settings and "dampening" in settings
    return is_plain or bool(settings.get("decoupled_weight_decay")) or update.optimizer == "AdamW"


def loses_step(pair: StepPair) -> bool:
    """Return whether nearly all numbers with a gradient stayed the same."""
    moves = pair.moves
    moved = total = 0
    for name, move in moves.items():
        has_gradient = pair.first.gradients[name] != 0.0
        total += int(has_gradient.sum())
        moved += int((move[has_gradient] != 0.0).sum())
    return total > 0 and moved <= (1.0 - LOST_SHARE) * total


def find_negated_loss(run: ObservedRun, *, is_maximized: bool) -> Iterator[TrainingFault]:
    """Yield a loss that is a loss function of the framework times a negative number, of which steps make it larger."""
    if not run.updated or is_maximized or not run.roots:
        return
    number = run.roots[-1]
    sign = 1.0
    while (producer := run.tensors[number].producer) is not None:
        op = run.ops[producer]
        if "_loss" in op.title or "cross_entropy" in op.title:
            if sign < 0.0:
                said = f"the loss is {op.title} times a negative number, so that training makes {op.title} larger"
                yield TrainingFault("sign", op.title, f"{said}: remove the minus sign, unless it is meant", op.place)
            return
        factor = read_factor(op)
        if factor is None:
            return
        sign *= factor
        number = op.inputs[0]


def read_factor(op: ObservedOp) -> float | None:
    """Return the number by which an op multiplies its only tensor, as far as its sign goes; None for other ops."""
    if len(op.inputs) != 1:
        return None
    if op.title == "neg":
        return -1.0
    if op.title in ("mean", "sum") or op.title in COPYING_OPS:
        return 1.0
    numbers = [value for value in op.arguments if type(value) in (int, float)]
    return float(numbers[0]) if op.title in ("mul", "div") and len(numbers) == 1 else None


def find_repeated_distributions(run: ObservedRun) -> Iterator[TrainingFault]:
    """Yield losses that take scores, and get what softmax or sigmoid made of them."""
    for op in run.ops:
        wanted = DISTRIBUTIONS.get(op.title)
        number = op.inputs[0] if wanted and op.inputs else None
        while number is not None and (producer := run.tensors[number].producer) is not None:
            maker = run.ops[producer]
            if maker.title == wanted:
                where = f" in module {maker.module}" if maker.module else ""
                said = (
                    f"{op.title.strip('_')} makes probabilities of scores, and gets what "
                    f"{maker.title.strip('_')}{where} made, so that all of them stay alike: pass the scores"
                )
                yield TrainingFault("twice", op.title, said, op.place)
            number = maker.inputs[0] if maker.title in COPYING_OPS and maker.inputs else None


def add_training_faults(answer: ObservedBlame, runs: Sequence[ObservedRun]) -> ObservedBlame:
    """Return an answer with what is wrong with the training, and what made parameters not finite."""
    origins = []
    for origin in answer.origins:
        how = describe_broken_update(runs, origin.about) if origin.about else ""
        origins.append(replace(origin, said=f"{origin.said}; {how}") if how else origin)
    faults = TrainingFaults(runs).search() if runs else ()
    said = [fault.said if fault.place is None else f"{fault.said} (at {fault.place})" for fault in faults]
    return replace(answer, origins=tuple(origins), notes=(*answer.notes, *said))


def describe_broken_update(runs: Sequence[ObservedRun], name: str) -> str:
    """Say which step of an optimizer made a parameter not finite, and why if that is known; empty if none did."""
    steps = [TrainingStep(run) for run in runs if run.backwards]
    before = next((step for step in reversed(steps) if np.isfinite(step.values.get(name, np.nan)).all()), None)
    updates = [update for run in runs for update in run.updates]
    groups = [(update, group) for update in updates for group in update.groups if name in group.names]
    if before is None or not groups or name not in before.gradients:
        return ""
    update, group = groups[-1]
    gradient = before.gradients[name]
    if not np.isfinite(gradient).all():
        return ""
    where = "" if update.site is None else f" at {update.site.place}"
    said = f"{update.optimizer}.step(){where} made it so, from finite numbers"
    settings = group.settings
    if settings.get("eps", 1.0) == 0.0 and (gradient == 0.0).any():
        zeros = int((gradient == 0.0).sum())
        return f"{said}: its eps is 0, and {zeros} of {count_with_noun(gradient.size, 'gradient')} 0: it divides 0 by 0"
    odd = [key for key, value in settings.items() if not math.isfinite(value)]
    return f"{said}: its {odd[0]} is {settings[odd[0]]}" if odd else said
