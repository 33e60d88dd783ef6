"""Records both arms of an `if` in one recording: what the arms assign is chosen by the condition, as `np.where` does.

A recording of one path is valid for that path only, and a function with twenty independent branches has a million
paths. Where the arms of a branch only compute numbers, both are recorded, and the branch needs no certificate.

Kept true: the recorded numbers are those that Python would compute, whichever way the branch goes, and *nothing but
local variables is changed*, inside of arms and outside. Every expression is checked before it runs: it reads plain
numbers, containers and modules, and calls only functions that are known or that are checked in the same way. So both
ways of giving up are free: an arm that cannot be merged leaves its condition to a certificate, and if anything else
than plain expressions turns up outside of arms, the whole run is abandoned and the function itself is recorded, as if
nothing had happened. A variable that cannot be chosen (two integers, a list) does harm only if it is read later; its
condition is certified then.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, update_wrapper
from itertools import islice, zip_longest
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NoReturn

import numpy as np

from wiregrad.errors import is_library_file
from wiregrad.frontends.recording.filled_value import IN_PLACE_FUNCTIONS
from wiregrad.frontends.recording.library_hooks import ORIGINALS, STAND_INS
from wiregrad.frontends.recording.tape import STATE
from wiregrad.frontends.recording.trace_notes import ReplayGuard
from wiregrad.frontends.recording.transformed_function import TransformedFunction
from wiregrad.frontends.recording.value import (
    ConversionMark,
    DiscreteValue,
    NumpyNumber,
    PythonFloat,
    PythonInt,
    Value,
    as_python_number,
    is_python_number,
)
from wiregrad.frontends.replay.branch_syntax import (
    FALLS,
    INDIFFERENT_BUILTINS,
    LEAVES,
    RETURNS,
    AssignStep,
    Block,
    BranchStep,
    Fragment,
    FunctionPlan,
    LeaveStep,
    LoopStep,
    RaiseStep,
    ReturnStep,
    plan_function,
)
from wiregrad.frontends.transforms.derivatives import (
    grad,
    hessian,
    jacfwd,
    jacobian,
    jacrev,
    make_value_and_jacobian,
    value_and_grad,
)
from wiregrad.ir import TABLE
from wiregrad.ops.functions import FUNCTIONS, FUNCTIONS_BY_NUMPY

MAX_ARM_STEPS = 20_000
"""Maximum number of steps that one recording runs in arms that are merged."""
MAX_ARM_DEPTH = 12
"""Maximum depth of calls inside arms: both arms of a function that calls itself would never end."""
MAX_ARM_ELEMENTS = 256
"""Maximum number of elements of an array in arms that are merged: every call computes both arms."""
MIN_LOOP_TURNS = 4
"""A while loop whose number of turns depends on recorded numbers is recorded with at least so many turns."""
MAX_WHOLE_TURNS = 16
"""A for loop that may be left early is recorded with all of its turns if it has at most so many."""
MAX_LOOP_TURNS = 64
"""Maximum number of turns of such a loop; all of them are computed in each replay."""
MAX_CHECKED_ELEMENTS = 1_000
"""Maximum number of elements of a container that an arm may read."""
PLAIN_TYPES = frozenset([float, int, bool, str, type(None), np.float64, np.bool_, range])
"""Types whose operators and methods run no code of the user's and change nothing."""
NUMBER_TYPES = frozenset([float, int, bool, np.float64])
SCALAR_TYPES = frozenset([*NUMBER_TYPES, PythonFloat, PythonInt, NumpyNumber])
"""Types of numbers, plain or recorded, which augmented assignments replace and do not change."""
CONTAINER_TYPES = frozenset([list, tuple, dict, range, np.ndarray])
REPEATABLE_TYPES = frozenset([range, list, tuple])
"""Types of iterables whose items can be listed again and again."""
ITERABLE_TYPES = frozenset([range, list, tuple, zip, enumerate, reversed])
PURE_BUILTINS = frozenset(
    [abs, float, int, bool, len, range, sum, min, max, tuple, list, zip, enumerate, reversed, round, divmod, pow]
)
UPDATE_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.iadd,
    "Sub": operator.isub,
    "Mult": operator.imul,
    "Div": operator.itruediv,
    "FloorDiv": operator.ifloordiv,
    "Mod": operator.imod,
    "Pow": operator.ipow,
    "MatMult": operator.imatmul,
    "BitAnd": operator.iand,
    "BitOr": operator.ior,
    "BitXor": operator.ixor,
    "LShift": operator.ilshift,
    "RShift": operator.irshift,
}
DERIVATIVES = frozenset([grad, value_and_grad, jacobian, jacfwd, jacrev, hessian, make_value_and_jacobian])
"""Transforms that call the function on values of the recording, as a call without derivatives does."""
DISPATCHER_TYPE = type(np.sum)
NUMPY_FUNCTIONS = {stand_in: ORIGINALS[name] for name, stand_in in STAND_INS.items()}
"""NumPy's own functions by those that take their place while values are recorded."""
MISSING = object()


class CannotMergeError(Exception):
    """Two arms cannot be merged; the condition is certified instead."""


class MergingAbandonedError(Exception):
    """The steps of a function cannot be followed to the end; nothing has happened, and the function itself runs."""


@dataclass(frozen=True, eq=False)
class UnchosenVariable:
    """A variable whose values in the two arms cannot be chosen between; reading it certifies the condition."""

    condition: Any
    anchor: Fragment
    outside: Mapping[str, Any]
    """The variables from outside of the function with the branch."""
    taken: Any


@dataclass(frozen=True)
class BlockEnd:
    """How a block ended other than by its last statement."""

    kind: str
    value: Any = None


LOOP_END = BlockEnd("break")
NEXT_TURN = BlockEnd("continue")
Variables = dict[str, Any]


@dataclass(frozen=True, eq=False)
class LoopExit:
    """A break, continue or return in a loop under a recorded condition: what follows it is recorded all the same.

    The condition counts where no earlier exit was taken.
    """

    condition: Any
    end: BlockEnd
    variables: Variables
    """The variables where it is taken."""


def make_merging_function(f: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return a function that computes what f does and merges branches while it is recorded; None if f has no plan."""
    if isinstance(f, TransformedFunction):
        return _merge_transformed(f)
    function = f.__func__ if isinstance(f, MethodType) else f
    plan = plan_function(function) if isinstance(function, FunctionType) else None
    if plan is None or not isinstance(function, FunctionType):
        return None
    own = (f.__self__,) if isinstance(f, MethodType) else ()

    def merged(*args: Any, **kwargs: Any) -> Any:
        return BranchMerger(plan.is_indifferent).run_function(plan, function, (*own, *args), kwargs)

    merged.__name__ = function.__name__
    return merged


def _merge_transformed(f: TransformedFunction) -> Callable[..., Any] | None:
    """Return the same derivative of a function whose branches are merged; None if that has no plan."""
    transform, options = f.identity
    inner = f.__wrapped__
    merged = make_merging_function(inner) if transform in DERIVATIVES else None
    return None if merged is None else transform(update_wrapper(merged, inner), **options)


class LoopTurns:
    """The turns of a for loop that were recorded as if none of its exits were taken."""

    def __init__(self, variables: Variables) -> None:
        self.variables = variables
        """The variables after these turns."""
        self.exits: list[LoopExit] = []
        """The breaks and returns, in order."""
        self.end: BlockEnd | None = None
        """How the last turn ended where no exit was taken before, if that ended the loop."""
        self.has_left: Any = None
        """The condition under which the loop was left; None if it has no exits."""
        self.is_cut = False
        """Whether there are more turns, which need not be recorded because the loop was left."""


class BranchMerger:
    """Runs the steps of functions during one recording."""

    def __init__(self, is_indifferent: bool) -> None:
        self._may_mix = is_indifferent
        """Whether Python floats and NumPy numbers may be chosen between."""
        self._has_mixed = False
        self._arms = 0
        """The number of merged branches around the current step; none of them has been decided."""
        self._depth = 0
        self._steps = 0
        self._exits: list[LoopExit] | None = None
        """The exits of the current turn of a loop whose exits are merged; None outside of such a loop."""
        self._plain_containers: dict[int, Any] = {}
        """The containers that were found to be plain, by id; they stay so, because nothing here changes one."""
        self._helpers = (self.call, self.choose, self.connect, self.negate, self.update)

    def run_function(self, plan: FunctionPlan, f: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what a function returns."""
        if not plan.is_indifferent:
            self._note_difference()
        _trust_plan(plan)
        bound = inspect.signature(f, follow_wrapped=False).bind(*args, **kwargs)
        bound.apply_defaults()
        variables: Variables = dict(bound.arguments)
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            try:
                variables[name] = cell.cell_contents
            except ValueError:
                # An empty cell: reading the variable raises, as it does in the function.
                continue
        with self._without_exits():
            end = self._run_block(plan.body, 0, variables, f.__globals__)
        return None if end is None else end.value

    def _give_up(self) -> NoReturn:
        """Stop at something that may have effects, before it has any."""
        raise CannotMergeError if self._arms else MergingAbandonedError

    def _note_difference(self) -> None:
        """Note that code runs which may tell Python floats from NumPy numbers."""
        self._may_mix = False
        if self._has_mixed:
            raise MergingAbandonedError

    def _run_block(self, block: Block, first: int, variables: Variables, outside: Mapping[str, Any]) -> BlockEnd | None:
        """Run the steps of a block from one on; return how it ended, None if with its last step."""
        for k in range(first, len(block.steps)):
            step = block.steps[k]
            self._count_step()
            end: BlockEnd | None = None
            match step:
                case AssignStep():
                    value = self._evaluate(step.value, variables, outside)
                    for target in step.targets:
                        self._assign(target, value, variables)
                case ReturnStep():
                    return BlockEnd("return", step.value and self._evaluate(step.value, variables, outside))
                case RaiseStep():
                    self._give_up()
                case LeaveStep():
                    return LOOP_END if step.stops else NEXT_TURN
                case LoopStep():
                    end = self._run_loop(step, block, k + 1, variables, outside)
                case BranchStep():
                    end = self._run_branch(step, block, k + 1, variables, outside)
            if end is not None:
                return end
        return None

    def _count_step(self) -> None:
        if self._arms:
            self._steps += 1
            if self._steps > MAX_ARM_STEPS:
                raise CannotMergeError

    def _run_loop(
        self, step: LoopStep, block: Block, after: int, variables: Variables, outside: Mapping[str, Any]
    ) -> BlockEnd | None:
        if step.target is None and self._unroll_loop(step, variables, outside):
            return None
        if step.target is not None and step.body.ends[0] != FALLS:
            merged = self._merge_exits(step, block, after, variables, outside)
            if merged is not None:
                left, end = merged
                variables.clear()
                variables.update(left)
                return end
        for item in self._iterate(step, variables, outside):
            if step.target is not None:
                self._assign(step.target, item, variables)
            # The exits of a loop around this one are other ones.
            with self._without_exits():
                end = self._run_block(step.body, 0, variables, outside)
            if end is LOOP_END:
                return None
            if end is not None and end is not NEXT_TURN:
                return end
        return None

    def _unroll_loop(self, step: LoopStep, variables: Variables, outside: Mapping[str, Any]) -> bool:
        """Record a while loop as a fixed number of turns, which serves all smaller numbers; return whether it can be.

        A turn counts where the condition holds. Where it does not hold, nothing changes, so it does not hold in later
        turns either. After the last turn the condition is certified.
        """
        if self._arms or step.body.ends[0] != FALLS:
            return False
        try:
            with self._merge():
                after, condition = self._run_turns(step, dict(variables), outside)
        except CannotMergeError:
            return False
        variables.clear()
        variables.update(after)
        return not self._find_truth(condition, step.anchor, outside)

    def _run_turns(self, step: LoopStep, variables: Variables, outside: Mapping[str, Any]) -> tuple[Variables, Any]:
        """Return the variables after some turns of a loop, and its condition then, which does not hold."""
        turns = 0
        wanted = MIN_LOOP_TURNS
        condition = self._evaluate(step.source, variables, outside)
        while turns < wanted or bool(condition._data):
            if turns >= MAX_LOOP_TURNS:
                raise CannotMergeError
            variables = self._run_turn(condition, step, variables, outside)
            condition = self._evaluate(step.source, variables, outside)
            if not _is_recorded_condition(condition):
                raise CannotMergeError
            turns += 1
            wanted = max(wanted, 1 << (turns - 1).bit_length())
        return variables, condition

    def _run_turn(self, condition: Any, step: LoopStep, before: Variables, outside: Mapping[str, Any]) -> Variables:
        """Run the body of a loop once; return the variables after it where a condition holds, else those before it."""
        if not _is_recorded_condition(condition):
            raise CannotMergeError
        after = dict(before)
        self._run_block(step.body, 0, after, outside)
        joined: Variables = self._run_anchored(
            lambda: self._join_variables(condition, step, after, before, outside), step.anchor, outside
        )
        return joined

    def _iterate(self, step: LoopStep, variables: Variables, outside: Mapping[str, Any]) -> Iterator[Any]:
        if step.target is not None:
            items = self._evaluate(step.source, variables, outside)
            if type(items) not in ITERABLE_TYPES:
                self._give_up()
            yield from items
            return
        if self._arms:
            # The count of a while loop is not known to be finite where Python does not take the arm.
            raise CannotMergeError
        while self._find_truth(self._evaluate(step.source, variables, outside), step.anchor, outside):
            yield None

    def _merge_exits(
        self, step: LoopStep, block: Block, after: int, variables: Variables, outside: Mapping[str, Any]
    ) -> tuple[Variables, BlockEnd | None] | None:
        """Record a for loop past its breaks, continues and returns, and choose between what they leave.

        Return the variables after the loop, and how the block ends; None if the exits cannot be merged. Of a long loop
        4, 8, 16, 32 or 64 turns are recorded, as of a while loop, and it is certified that it was left by then.
        """
        around = self._exits
        try:
            with self._merge():
                turns = self._run_all_turns(step, dict(variables), outside)
                returns = self._find_returns(turns.exits)
                end = None if turns.end is LOOP_END else turns.end
                joined = turns.variables
                if end is not None and len(returns) < len(turns.exits):
                    raise CannotMergeError
                for leave in reversed([leave for leave in turns.exits if leave.end is LOOP_END]):
                    joined = self._join_exit(leave, step, joined, outside)
                unchosen = {name for name, value in joined.items() if isinstance(value, UnchosenVariable)}
                if not unchosen.isdisjoint(block.list_names(after)):
                    # Reading it would certify every exit, where Python's path certifies those up to the one taken.
                    raise CannotMergeError
                if returns and around is not None:
                    around += returns
                elif returns:
                    end = self._join_returns(returns, end, step, block, after, joined, outside)
        except CannotMergeError:
            return None
        finally:
            self._exits = around
        if turns.is_cut and not self._find_truth(turns.has_left, step.anchor, outside):
            raise MergingAbandonedError
        return joined, end

    def _run_all_turns(self, step: LoopStep, variables: Variables, outside: Mapping[str, Any]) -> LoopTurns:
        """Run the turns of a for loop as if none of its exits were taken."""
        items = self._evaluate(step.source, variables, outside)
        # An iterator that a variable holds would be used up if the exits cannot be merged in the end.
        if type(items) not in ITERABLE_TYPES or not (type(items) in REPEATABLE_TYPES or step.source.takes_helpers):
            raise CannotMergeError
        turns = LoopTurns(variables)
        items = list(islice(items, MAX_LOOP_TURNS + 1))
        wanted = len(items) if len(items) <= MAX_WHOLE_TURNS else MIN_LOOP_TURNS
        for count, item in enumerate(items):
            if count >= wanted:
                # Around another branch nothing can be certified.
                turns.is_cut = self._arms == 1 and turns.has_left is not None and bool(turns.has_left._data)
                if turns.is_cut:
                    break
                wanted *= 2
            if count >= MAX_LOOP_TURNS:
                raise CannotMergeError
            self._exits = []
            assert step.target is not None
            self._assign(step.target, item, turns.variables)
            end = self._run_block(step.body, 0, turns.variables, outside)
            self._end_turn(turns, end, step, outside)
            if end is not None and end is not NEXT_TURN:
                turns.end = end
                break
        return turns

    def _end_turn(self, turns: LoopTurns, end: BlockEnd | None, step: LoopStep, outside: Mapping[str, Any]) -> None:
        """Note the exits of a turn, and join the variables where the next turn began early."""
        skips: list[LoopExit] = []
        skipped: Any = None
        for each in self._exits or ():
            condition = self._run_anchored(partial(_unless, skipped, each.condition), step.anchor, outside)
            if each.end is NEXT_TURN:
                skips.append(each)
                skipped = self._run_anchored(partial(_either, skipped, condition), step.anchor, outside)
            else:
                turns.exits.append(LoopExit(condition, each.end, each.variables))
                either = partial(_either, turns.has_left, condition)
                turns.has_left = self._run_anchored(either, step.anchor, outside)
        if skips and not (end is None or end is NEXT_TURN):
            raise CannotMergeError
        for skip in reversed(skips):
            turns.variables = self._join_exit(skip, step, turns.variables, outside)

    def _join_exit(self, each: LoopExit, step: LoopStep, others: Variables, outside: Mapping[str, Any]) -> Variables:
        """Return the variables that an exit leaves where it is taken, and others elsewhere."""
        joined: Variables = self._run_anchored(
            lambda: self._join_variables(each.condition, step, each.variables, others, outside), step.anchor, outside
        )
        return joined

    def _find_returns(self, exits: list[LoopExit]) -> list[LoopExit]:
        """Return the returns among the exits of a loop, under conditions that hold only where no break came before."""
        returns: list[LoopExit] = []
        left: Any = None
        for each in exits:
            if each.end is LOOP_END:
                left = _either(left, each.condition)
            else:
                returns.append(LoopExit(_unless(left, each.condition), each.end, each.variables))
        return returns

    def _join_returns(
        self,
        returns: list[LoopExit],
        end: BlockEnd | None,
        step: LoopStep,
        block: Block,
        after: int,
        variables: Variables,
        outside: Mapping[str, Any],
    ) -> BlockEnd:
        """Return how a block ends with a loop that returns under some conditions: with one of several results."""
        if end is None:
            if block.ends[after] != RETURNS:
                raise CannotMergeError
            with self._without_exits():
                end = self._run_block(block, after, variables, outside)
        assert end is not None
        value = end.value
        for each in reversed(returns):
            join = partial(self._join, each.condition, each.end.value, value)
            value = self._run_anchored(join, step.anchor, outside)
        return BlockEnd("return", value)

    def _run_exit(
        self, condition: Any, step: BranchStep, variables: Variables, outside: Mapping[str, Any]
    ) -> BlockEnd | None:
        """Note the exit in one arm of a branch, and run the other arm; return how that ends."""
        assert self._exits is not None
        is_body = step.body.ends[0] in (LEAVES, RETURNS)
        leaving, other = (step.body, step.orelse) if is_body else (step.orelse, step.body)
        if not is_body:
            condition = self._run_anchored(partial(self.negate, condition), step.anchor, outside)
        own = dict(variables)
        with self._without_exits():
            end = self._run_block(leaving, 0, own, outside)
        if end is None:
            raise CannotMergeError
        self._exits.append(LoopExit(condition, end, own))
        return self._run_block(other, 0, variables, outside)

    @contextmanager
    def _without_exits(self) -> Iterator[None]:
        """Run a block in which an exit under a recorded condition cannot be merged."""
        around = self._exits
        self._exits = None
        try:
            yield
        finally:
            self._exits = around

    def _run_branch(
        self, step: BranchStep, block: Block, after: int, variables: Variables, outside: Mapping[str, Any]
    ) -> BlockEnd | None:
        condition = self._evaluate(step.test, variables, outside)
        if _is_recorded_condition(condition):
            arms = {step.body.ends[0], step.orelse.ends[0]}
            if self._exits is not None and len(arms) == 2 and not arms.isdisjoint((LEAVES, RETURNS)):
                return self._run_exit(condition, step, variables, outside)
            try:
                with self._merge(), self._without_exits():
                    joined = self._merge_arms(condition, step, block, after, variables, outside)
            except CannotMergeError:
                if self._arms:
                    raise
            else:
                # Only now it is certain that the arms are merged.
                if isinstance(joined, BlockEnd):
                    return joined
                variables.clear()
                variables.update(joined)
                return None
        taken = step.body if self._find_truth(condition, step.anchor, outside) else step.orelse
        return self._run_block(taken, 0, variables, outside)

    @contextmanager
    def _merge(self) -> Iterator[None]:
        """Run two arms; if they cannot be merged, forget what they certified and raise `CannotMergeError`."""
        guard = STATE.tape.guard if STATE.tape is not None else None
        if guard is None:
            raise CannotMergeError
        before = _note_guard(guard)
        mark = ConversionMark()
        self._arms += 1
        try:
            yield
            if _note_guard(guard) != before:
                raise CannotMergeError
        except MergingAbandonedError:
            raise
        except Exception:
            _restore_guard(guard, before)
            mark.forget_later()
            raise CannotMergeError from None
        finally:
            self._arms -= 1

    def _merge_arms(
        self,
        condition: Any,
        step: BranchStep,
        block: Block,
        after: int,
        variables: Variables,
        outside: Mapping[str, Any],
    ) -> BlockEnd | Variables:
        """Run both arms, each on its own variables; return how the block ends, or the variables after the branch."""
        ends = step.body.ends[0], step.orelse.ends[0]
        returns = RETURNS in ends
        if not {*ends} <= {RETURNS, FALLS} or (returns and FALLS in ends and block.ends[after] != RETURNS):
            raise CannotMergeError
        results: list[tuple[Variables, Any]] = []
        for arm in (step.body, step.orelse):
            own = dict(variables)
            end = self._run_block(arm, 0, own, outside)
            if returns and end is None:
                end = self._run_block(block, after, own, outside)
            results.append((own, end and end.value))
        (body, one), (orelse, two) = results
        if returns:
            result = self._run_anchored(lambda: self._join(condition, one, two), step.anchor, outside)
            return BlockEnd("return", result)
        joined: Variables = self._run_anchored(
            lambda: self._join_variables(condition, step, body, orelse, outside), step.anchor, outside
        )
        return joined

    def _join_variables(
        self,
        condition: Any,
        step: BranchStep | LoopStep,
        body: Variables,
        orelse: Variables,
        outside: Mapping[str, Any],
    ) -> Variables:
        joined: Variables = {}
        for name in dict.fromkeys([*body, *orelse]):
            one = body.get(name, MISSING)
            two = orelse.get(name, MISSING)
            try:
                joined[name] = self._join(condition, one, two)
            except CannotMergeError:
                taken = one if bool(condition._data) else two
                joined[name] = UnchosenVariable(condition, step.anchor, outside, taken)
        return joined

    def _join(self, condition: Any, one: Any, two: Any) -> Any:
        """Return the first of two values where the condition holds, else the second."""
        if one is two:
            return one
        if type(one) is tuple and type(two) is tuple and len(one) == len(two):
            return tuple([self._join(condition, a, b) for a, b in zip(one, two, strict=True)])
        if type(one) is type(two) and type(one) in (int, str) and one == two:
            return one
        if _is_bool(one) and _is_bool(two):
            return _choose_bool(condition, one, two)
        if _is_float_array(one) and _is_float_array(two) and np.shape(one) == np.shape(two):
            return FUNCTIONS["where"].run(condition, one, two)
        if not (_is_float(one) and _is_float(two)):
            raise CannotMergeError
        in_python = is_python_number(one)
        if in_python != is_python_number(two):
            if not self._may_mix:
                raise CannotMergeError
            self._has_mixed = True
            in_python = False
        chosen = TABLE["where"](condition, one, two)
        return as_python_number(chosen) if in_python else chosen

    def _evaluate(self, fragment: Fragment, variables: Variables, outside: Mapping[str, Any]) -> Any:
        """Return the value of an expression."""
        values = [self._read(name, variables) for name in fragment.names]
        if not fragment.is_plain:
            self._give_up()
        if fragment.outer_names or fragment.chains or not SCALAR_TYPES.issuperset(map(type, values)):
            self._check_things(fragment, values, outside)
        helpers = self._helpers if fragment.takes_helpers else ()
        result = FunctionType(fragment.code, outside)(*values, *helpers)  # type: ignore[arg-type]
        if self._arms and _is_large(result):
            raise CannotMergeError
        return result

    def _check_things(self, fragment: Fragment, values: list[Any], outside: Mapping[str, Any]) -> None:
        """Give up if an expression reads anything that may run code."""
        things = _list_things(fragment, dict(zip(fragment.names, values, strict=True)), outside)
        if things is None or not all(self._is_plain(thing) for thing in things):
            self._give_up()
        if self._has_mixed:
            for name, thing in zip_longest(fragment.bare_names, things):
                is_indexed = name in fragment.indexed_names and _has_plain_items(thing)
                if type(thing) in CONTAINER_TYPES and not is_indexed:
                    # A NumPy number times a list is an array; a Python float times a list is an error.
                    self._note_difference()

    def _is_plain(self, thing: Any) -> bool:
        """Return whether reading, calling or computing with something changes nothing; calls are checked apart."""
        if type(thing) not in CONTAINER_TYPES:
            return _is_plain_thing(thing)
        if id(thing) not in self._plain_containers:
            if not _is_plain_thing(thing):
                return False
            self._plain_containers[id(thing)] = thing
        return True

    def _assign(self, target: ast.expr, value: Any, variables: Variables) -> None:
        if isinstance(target, ast.Name):
            variables[target.id] = value
            return
        assert isinstance(target, ast.Tuple | ast.List)
        if type(value) not in ITERABLE_TYPES:
            self._give_up()
        for part, item in zip(target.elts, value, strict=True):
            self._assign(part, item, variables)

    def _read(self, name: str, variables: Variables) -> Any:
        value = variables.get(name, MISSING)
        while isinstance(value, UnchosenVariable):
            self._find_truth(value.condition, value.anchor, value.outside)
            value = value.taken
        if value is MISSING:
            raise UnboundLocalError(f"cannot access local variable {name!r} where it is not associated with a value")
        variables[name] = value
        return value

    def _find_truth(self, condition: Any, anchor: Fragment, outside: Mapping[str, Any]) -> bool:
        """Return whether a condition holds; a recorded one is certified, on the line of the test."""
        return bool(self._run_anchored(lambda: bool(condition), anchor, outside))

    def _run_anchored(self, task: Callable[[], Any], anchor: Fragment, outside: Mapping[str, Any]) -> Any:
        """Run a task so that what it records is placed on the line of an anchor."""
        return FunctionType(anchor.code, outside)(task)  # type: ignore[arg-type]

    def choose(self, condition: Any, body: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
        """Return what `body() if condition else orelse()` is."""
        if _is_recorded_condition(condition):
            try:
                with self._merge():
                    joined = self._join(condition, body(), orelse())
            except CannotMergeError:
                if self._arms:
                    raise
            else:
                return joined
        return body() if condition else orelse()

    def negate(self, condition: Any) -> Any:
        """Return what `not condition` is."""
        if _is_recorded_condition(condition):
            return as_python_number(np.logical_not(condition))
        return not condition

    def connect(self, condition: Any, is_or: bool, rest: Callable[[], Any]) -> Any:
        """Return a condition with the truth of `condition or rest()`, or of `condition and rest()`."""
        if _is_recorded_condition(condition):
            try:
                with self._merge():
                    other = rest()
                    if not (_is_recorded_condition(other) or type(other) is bool):
                        raise CannotMergeError
                    joined = (np.logical_or if is_or else np.logical_and)(condition, other)
            except CannotMergeError:
                if self._arms:
                    raise
            else:
                return as_python_number(joined)
        return (condition or rest()) if is_or else (condition and rest())

    def update(self, name: str, target: Any, operand: Any) -> Any:
        """Return what an augmented assignment assigns; anything but a number might be changed in place."""
        if type(target) not in SCALAR_TYPES:
            self._give_up()
        return UPDATE_OPERATORS[name](target, operand)

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Return what a function returns; a function with a plan is run by its steps."""
        if (function is builtins.max or function is builtins.min) and len(args) > 1 and not kwargs:
            return self._find_extreme(operator.gt if function is builtins.max else operator.lt, args)
        if type(function) is FunctionType and not is_library_file(function.__code__.co_filename):
            result = self._call_planned(function, args, kwargs)
        else:
            original = _find_original(function)
            if self._arms and any(map(_is_large, args)):
                raise CannotMergeError
            if not _is_pure_call(original, args, kwargs):
                self._give_up()
            if not _is_indifferent_function(original):
                self._note_difference()
            result = function(*args, **kwargs)
        if type(result) in CONTAINER_TYPES and function is not range:
            self._note_difference()
        return result

    def _call_planned(self, function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        plan = plan_function(function)
        if plan is None:
            self._give_up()
        if self._arms and self._depth >= MAX_ARM_DEPTH:
            raise CannotMergeError
        self._depth += 1
        try:
            return self.run_function(plan, function, args, kwargs)
        finally:
            self._depth -= 1

    def _find_extreme(self, is_better: Callable[[Any, Any], Any], numbers: tuple[Any, ...]) -> Any:
        """Return the first of some numbers that none is better than, as `min` and `max` do."""
        best = numbers[0]
        for number in numbers[1:]:
            best = self.choose(is_better(number, best), *_make_arms(number, best))
        return best


def _trust_plan(plan: FunctionPlan) -> None:
    """Note that the fragments of a function test no identities: the function has no plan if it does."""
    tape = STATE.tape
    if tape is None or tape.guard is None or tape.guard.identity_scan is None:
        return
    tape.guard.identity_scan.trust_codes(plan.codes)
    if tape.notes.recorded_sites is not None:
        tape.notes.recorded_sites.columns.trust_codes(plan.codes)


def _is_indifferent_function(function: Any) -> bool:
    """Return whether a function gives the same numbers for Python floats and NumPy numbers."""
    if isinstance(function, np.ufunc) or type(function) is DISPATCHER_TYPE or _makes_array(function):
        return True
    return getattr(function, "__module__", None) == "builtins" and function.__name__ in INDIFFERENT_BUILTINS


def _find_original(function: Any) -> Any:
    """Return NumPy's own function for one that takes its place while values are recorded; any other is returned."""
    return NUMPY_FUNCTIONS.get(function, function) if type(function) is FunctionType else function


def _makes_array(function: Any) -> bool:
    # While values are recorded, np.array is the function that takes its place.
    return function is ORIGINALS["array"] or function is ORIGINALS["asarray"]


def _make_arms(one: Any, two: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    return lambda: one, lambda: two


def _note_guard(guard: ReplayGuard) -> tuple[Any, ...]:
    return len(guard.certificates), len(guard.escapes), guard.refusal, guard.leak


def _restore_guard(guard: ReplayGuard, before: tuple[Any, ...]) -> None:
    """Forget what arms that are not part of the recording noted."""
    certificates, escapes, guard.refusal, guard.leak = before
    del guard.certificates[certificates:]
    del guard.escapes[escapes:]


def _is_recorded_condition(thing: Any) -> bool:
    is_condition = type(thing) in (PythonInt, DiscreteValue) and thing._data.dtype.kind == "b" and not thing.shape
    return is_condition and thing._tape is STATE.tape


def _is_bool(thing: Any) -> bool:
    """Return whether something is a Python bool, or would be one without recording."""
    return type(thing) is bool or (type(thing) is PythonInt and thing._data.dtype.kind == "b")


def _unless(other: Any, condition: Any) -> Any:
    """Return where a condition holds and another one, which may be None for none, does not."""
    return condition if other is None else as_python_number(np.logical_and(np.logical_not(other), condition))


def _either(one: Any, two: Any) -> Any:
    """Return where one of two conditions holds; the first may be None for none."""
    return two if one is None else as_python_number(np.logical_or(one, two))


def _is_float(thing: Any) -> bool:
    """Return whether something is a float64 number of Python or NumPy, or would be one without recording."""
    if type(thing) in (PythonFloat, NumpyNumber):
        return thing._tape is STATE.tape and thing._data.dtype == np.float64
    return type(thing) in (float, np.float64)


def _is_large(thing: Any) -> bool:
    """Return whether something is a recorded array on which two arms take longer than another recording is worth."""
    return isinstance(thing, Value) and thing.size > MAX_ARM_ELEMENTS


def _is_float_array(thing: Any) -> bool:
    """Return whether something is an array of float64, plain or recorded."""
    if isinstance(thing, Value):
        is_array = thing._tape is STATE.tape and bool(thing.shape)
        return is_array and thing._data.dtype == np.float64
    return type(thing) is np.ndarray and bool(thing.shape) and thing.dtype == np.float64


def _choose_bool(condition: Any, one: Any, two: Any) -> Any:
    """Return which of two Python bools counts, with the connectives that native code has."""
    either = np.logical_or(np.logical_and(condition, one), np.logical_and(np.logical_not(condition), two))
    return as_python_number(either)


def _list_things(fragment: Fragment, values: Mapping[str, Any], outside: Mapping[str, Any]) -> list[Any] | None:
    """Return everything that an expression reads; None if reading it may run code."""
    known = dict(values)
    for name in fragment.outer_names:
        known[name] = outside.get(name, getattr(builtins, name, MISSING))
    things = [known.get(name, MISSING) for name in fragment.bare_names]
    things += [_follow_chain(known.get(chain[0], MISSING), chain[1:]) for chain in fragment.chains]
    return None if any(thing is MISSING for thing in things) else things


def _follow_chain(thing: Any, names: tuple[str, ...]) -> Any:
    """Return what attributes one after the other lead to; MISSING if reading one of them may run code."""
    for name in names:
        if type(thing) is ModuleType:
            thing = vars(thing).get(name, MISSING)
        elif _reads_plainly(type(thing)) and not isinstance(thing, Value):
            own = getattr(thing, "__dict__", None)
            if type(own) is not dict or hasattr(inspect.getattr_static(type(thing), name, None), "__get__"):
                return MISSING
            thing = own.get(name, MISSING)
        else:
            return MISSING
    return thing


def _reads_plainly(kind: type) -> bool:
    """Return whether a class has attributes in the ordinary way."""
    return inspect.getattr_static(kind, "__getattribute__") is vars(object)["__getattribute__"]


def _is_plain_thing(thing: Any, depth: int = 3) -> bool:
    """Return whether reading, calling or computing with something changes nothing; calls are checked on their own."""
    kind = type(thing)
    if kind in (list, tuple, dict):
        items = [*thing.keys(), *thing.values()] if kind is dict else thing
        is_small = depth > 0 and len(thing) <= MAX_CHECKED_ELEMENTS
        return is_small and all(_is_plain_thing(item, depth - 1) for item in items)
    if kind is np.ndarray:
        return not thing.dtype.hasobject
    is_known = kind in PLAIN_TYPES or kind in (DISPATCHER_TYPE, FunctionType, PythonInt, DiscreteValue)
    return is_known or isinstance(thing, ModuleType | np.ufunc | Value) or _is_pure_builtin(thing)


def _has_plain_items(container: Any) -> bool:
    """Return whether computing with any item gives the same for Python floats and NumPy numbers."""
    if type(container) is np.ndarray:
        return bool(container.dtype == np.float64)
    return type(container) in (list, tuple) and CONTAINER_TYPES.isdisjoint(map(type, container))


def _is_pure_builtin(function: Any) -> bool:
    is_builtin = type(function) is type or type(function) is BuiltinFunctionType
    return is_builtin and (function in PURE_BUILTINS or function.__module__ == "math")


def _holds_callable(thing: Any) -> bool:
    """Return whether something is a function, or a container with one, which NumPy might call."""
    if type(thing) in (list, tuple):
        return any(map(_holds_callable, thing))
    return callable(thing) or type(thing) is dict


def _is_pure_call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call of a known function changes nothing."""
    things = (*args, *kwargs.values())
    if "out" in kwargs or any(map(_holds_callable, things)):
        return False
    if isinstance(function, np.ufunc):
        return type(function) is np.ufunc and len(args) <= function.nin
    if type(function) is DISPATCHER_TYPE:
        entry = FUNCTIONS_BY_NUMPY.get(function)
        is_known = entry is not None and not entry.calls_back and function not in IN_PLACE_FUNCTIONS
        return is_known and not any(type(thing) is np.ndarray for thing in things)
    if _makes_array(function):
        return len(args) == 1 and not kwargs
    return _is_pure_builtin(function)
