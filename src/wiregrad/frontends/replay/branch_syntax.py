"""A function as steps that `branch_merging` runs: its control flow, and its expressions as compiled fragments.

A fragment is an expression as a function of the local variables that it reads. It keeps the file and the lines of the
expression, so that what it records is placed there. Calls and choices in it go through the merger. Functions with
statements that are not listed here (`with`, `try`, inner functions, assignments to elements) have no plan, and run as
they are.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CodeType, FunctionType
from typing import Any, NoReturn

from wiregrad.frontends.recording.user_code import find_questions
from wiregrad.frontends.replay.function_source import FunctionNode, find_function_node

CALL_NAME = "_wiregrad_call"
CHOOSE_NAME = "_wiregrad_choose"
CONNECT_NAME = "_wiregrad_connect"
NEGATE_NAME = "_wiregrad_negate"
UPDATE_NAME = "_wiregrad_update"
ANCHORED_NAME = "_wiregrad_anchored"
HELPER_NAMES = (CALL_NAME, CHOOSE_NAME, CONNECT_NAME, NEGATE_NAME, UPDATE_NAME)
"""Names of parameters through which a fragment calls the merger."""
REFLECTIVE_BUILTINS = frozenset(
    ["locals", "vars", "eval", "exec", "globals", "dir", "super", "__class__", "breakpoint"]
)
"""Names that see the frame of the function, which a fragment does not have."""
INDIFFERENT_BUILTINS = frozenset(["abs", "min", "max", "range", "len", "sum", "float", "enumerate", "zip", "reversed"])
"""Builtins that give the same number for a Python float and a NumPy number."""
INDIFFERENT_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div)
ARM_EXPRESSIONS = (
    *(ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Call, ast.keyword),
    *(ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.Dict, ast.ListComp, ast.GeneratorExp),
    *(ast.comprehension, ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)
"""Syntax that changes nothing by itself; what its operators and calls do is checked when it runs."""

RETURNS = "returns"
FALLS = "falls"
MIXED = "mixed"
"""How a block ends: it always returns, it always goes on to the next statement, or anything else."""


class UnplannedSyntaxError(Exception):
    """A function has syntax that the steps do not cover."""


@dataclass(frozen=True, eq=False)
class Fragment:
    """An expression that is compiled as a function of the local variables it reads, followed by the helpers."""

    code: CodeType
    names: tuple[str, ...]
    outer_names: tuple[str, ...]
    """The variables from outside that it reads."""
    bare_names: tuple[str, ...]
    """The variables that it does not only read attributes of."""
    chains: tuple[tuple[str, ...], ...]
    """The attributes that it reads: a variable and the names after it."""
    chooses: bool
    """Whether it has a choice in it: `a if c else b`, or `and`, `or` in a condition."""
    is_plain: bool
    """Whether it may be part of an arm that is merged."""


@dataclass(frozen=True, eq=False)
class AssignStep:
    """An assignment to variables."""

    value: Fragment
    targets: tuple[ast.expr, ...]


@dataclass(frozen=True, eq=False)
class ReturnStep:
    """A return; a missing value is None."""

    value: Fragment | None


@dataclass(frozen=True, eq=False)
class RaiseStep:
    """A raise, where the steps are given up: the function itself raises."""


@dataclass(frozen=True, eq=False)
class LeaveStep:
    """A break or continue."""

    stops: bool
    """Whether it ends the loop."""


@dataclass(frozen=True, eq=False)
class BranchStep:
    """An if statement."""

    test: Fragment
    anchor: Fragment
    """Calls a function from the line of the test, so that what the function records is placed there."""
    body: Block
    orelse: Block


@dataclass(frozen=True, eq=False)
class LoopStep:
    """A for loop, or a while loop if there is no target."""

    source: Fragment
    """The iterable, or the condition."""
    anchor: Fragment
    target: ast.expr | None
    body: Block


Step = AssignStep | ReturnStep | RaiseStep | LeaveStep | BranchStep | LoopStep


@dataclass(frozen=True, eq=False)
class Block:
    """Steps that run one after the other; `ends[k]` says how the block ends if it starts at step k."""

    steps: tuple[Step, ...]
    ends: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        ends = [FALLS]
        for step in reversed(self.steps):
            ends.append(_combine_ends(step, ends[-1]))
        object.__setattr__(self, "ends", tuple(reversed(ends)))


def _combine_ends(step: Step, after: str) -> str:
    """Return how a block ends that begins with a step, given how the rest of it ends."""
    goes_on = False
    match step:
        case ReturnStep():
            return RETURNS
        case AssignStep():
            goes_on = True
        case LoopStep():
            goes_on = step.target is not None and step.body.ends[0] == FALLS
        case BranchStep():
            arms = {step.body.ends[0], step.orelse.ends[0]}
            if arms == {RETURNS}:
                return RETURNS
            goes_on = arms == {FALLS} or (arms == {FALLS, RETURNS} and after == RETURNS)
    return after if goes_on else MIXED


@dataclass(frozen=True, eq=False)
class FunctionPlan:
    """A function as steps."""

    body: Block
    is_indifferent: bool
    """Whether its results do not depend on which numbers are Python's and which NumPy's."""


def plan_function(f: FunctionType) -> FunctionPlan | None:
    """Return a function as steps; None if it has no source, or syntax that the steps do not cover."""
    # Any: some type checkers forget this attribute of functions.
    function: Any = f
    has_own_names = hasattr(f, "__signature__") or function.__builtins__ is not vars(builtins)
    if has_own_names:
        return None
    try:
        return _plan_code(f.__code__, _SourceOf(f))
    except UnplannedSyntaxError:
        return None


class _SourceOf:
    """A function whose plan is cached by its code: all functions with this code have the same plan."""

    def __init__(self, f: FunctionType) -> None:
        self.f = f

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SourceOf)

    def __hash__(self) -> int:
        return 0


@lru_cache(1024)
def _plan_code(code: CodeType, source: _SourceOf) -> FunctionPlan | None:
    kinds = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
    if code.co_flags & kinds or find_questions(code).asks or find_questions(code).compared_names:
        return None
    node = find_function_node(source.f)
    if node is None:
        return None
    try:
        return _PlanWriter(code, node).write_plan()
    except UnplannedSyntaxError:
        return None


class _PlanWriter:
    """Writes the steps of one function."""

    def __init__(self, code: CodeType, node: FunctionNode) -> None:
        self._node = node
        self._file = code.co_filename
        self._name = code.co_name
        self._locals = frozenset([*code.co_varnames, *code.co_cellvars, *code.co_freevars])

    def write_plan(self) -> FunctionPlan:
        node = self._node
        if isinstance(node, ast.Lambda):
            statements: list[ast.stmt] = [ast.copy_location(ast.Return(node.body), node.body)]
        else:
            statements = node.body
        _check_names(statements)
        indifferent = all(_is_indifferent(statement, self._locals) for statement in statements)
        return FunctionPlan(self._write_block(statements), indifferent)

    def _write_block(self, statements: Sequence[ast.stmt]) -> Block:
        steps = (self._write_step(statement) for statement in statements)
        return Block(tuple(step for step in steps if step is not None))

    def _write_step(self, node: ast.stmt) -> Step | None:
        step: Step | None = None
        match node:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                step = None
            case ast.Assign(targets=targets, value=value):
                step = AssignStep(self._compile(value), tuple(map(_check_target, targets)))
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                step = AssignStep(self._compile(value), (target,))
            case ast.AugAssign(target=ast.Name() as target):
                step = AssignStep(self._compile(_write_update(node, target)), (target,))
            case ast.Return(value=value):
                step = ReturnStep(None if value is None else self._compile(value))
            case ast.Raise():
                step = RaiseStep()
            case ast.Break() | ast.Continue():
                step = LeaveStep(isinstance(node, ast.Break))
            case ast.If(test=test, body=body, orelse=orelse):
                blocks = self._write_block(body), self._write_block(orelse)
                step = BranchStep(self._compile(test, is_test=True), self._compile_anchor(test), *blocks)
            case ast.While(test=test, body=body, orelse=[]):
                step = LoopStep(self._compile(test), self._compile_anchor(test), None, self._write_block(body))
            case ast.For(target=target, iter=source, body=body, orelse=[]):
                block = self._write_block(body)
                step = LoopStep(self._compile(source), self._compile_anchor(source), _check_target(target), block)
            case _:
                _refuse(node)
        return step

    def _compile_anchor(self, test: ast.expr) -> Fragment:
        call = ast.Call(ast.Name(ANCHORED_NAME, ast.Load()), [], [])
        located = ast.fix_missing_locations(ast.copy_location(call, test))
        return self._make_fragment(located, (ANCHORED_NAME,), test, chooses=False)

    def _compile(self, expression: ast.expr, *, is_test: bool = False) -> Fragment:
        writer = _FragmentWriter()
        text = copy.deepcopy(expression)
        rewritten = writer.write_test(text) if is_test else writer.visit(text)
        inner = {part.id for part in ast.walk(expression) if isinstance(part, ast.Name) and _is_stored(part)}
        if inner & self._locals:
            _refuse(expression)
        names = dict.fromkeys(part.id for part in ast.walk(expression) if isinstance(part, ast.Name))
        own = tuple(name for name in names if name in self._locals and name not in HELPER_NAMES)
        fragment = self._make_fragment(ast.fix_missing_locations(rewritten), own, expression, chooses=writer.chooses)
        return fragment

    def _make_fragment(
        self, rewritten: ast.expr, names: tuple[str, ...], expression: ast.expr, *, chooses: bool
    ) -> Fragment:
        parameters = [ast.arg(name) for name in (*names, *HELPER_NAMES)]
        arguments = ast.arguments([], parameters, None, [], [], None, [])
        function = ast.copy_location(ast.Lambda(arguments, rewritten), expression)
        module = compile(ast.fix_missing_locations(ast.Expression(function)), self._file, "eval", dont_inherit=True)
        code = next(constant for constant in module.co_consts if isinstance(constant, CodeType))
        parts = list(ast.walk(expression))
        inner = {part.id for part in parts if isinstance(part, ast.Name) and _is_stored(part)}
        outer = dict.fromkeys(
            part.id for part in parts if isinstance(part, ast.Name) and part.id not in self._locals | inner
        )
        bases = {id(part.value) for part in parts if isinstance(part, ast.Attribute)}
        bare = dict.fromkeys(part.id for part in parts if isinstance(part, ast.Name) and id(part) not in bases)
        return Fragment(
            code=code.replace(co_name=self._name, co_qualname=self._name),
            names=names,
            outer_names=tuple(name for name in outer if name not in HELPER_NAMES),
            bare_names=tuple(name for name in bare if name not in inner and name not in HELPER_NAMES),
            chains=tuple(_find_chains(parts)),
            chooses=chooses,
            is_plain=all(isinstance(part, ARM_EXPRESSIONS) for part in parts),
        )


def _refuse(node: ast.AST) -> NoReturn:
    raise UnplannedSyntaxError(type(node).__name__)


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _check_target(target: ast.expr) -> ast.expr:
    """Return a target that consists of variables; raise if it has elements or attributes."""
    for part in ast.walk(target):
        if not isinstance(part, ast.Name | ast.Tuple | ast.List | ast.expr_context):
            _refuse(part)
    return target


def _check_names(statements: Iterable[ast.stmt]) -> None:
    """Raise if the function looks at its own frame, mangles names, or makes functions of its own."""
    parts = list(_walk(statements))
    used_at_once = {id(argument) for part in parts if isinstance(part, ast.Call) for argument in part.args}
    for part in parts:
        if isinstance(part, ast.Name) and part.id in REFLECTIVE_BUILTINS:
            _refuse(part)
        if isinstance(part, ast.Name | ast.Attribute):
            name = part.id if isinstance(part, ast.Name) else part.attr
            if name.startswith("__") or name in HELPER_NAMES:
                _refuse(part)
        if isinstance(part, ast.keyword) and (part.arg or "").startswith("__"):
            _refuse(part)
        if isinstance(part, ast.Lambda | ast.NamedExpr | ast.Yield | ast.YieldFrom | ast.Await):
            _refuse(part)
        if isinstance(part, ast.GeneratorExp) and id(part) not in used_at_once:
            _refuse(part)


def _walk(statements: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    for statement in statements:
        yield from ast.walk(statement)


def _write_update(node: ast.AugAssign, target: ast.Name) -> ast.expr:
    """Return `x += y` as a call of the merger, which updates in place only what may be."""
    operator_name = ast.copy_location(ast.Constant(type(node.op).__name__), node)
    read = ast.copy_location(ast.Name(target.id, ast.Load()), target)
    function = ast.copy_location(ast.Name(UPDATE_NAME, ast.Load()), node)
    return ast.copy_location(ast.Call(function, [operator_name, read, node.value], []), node)


def _find_chains(parts: Iterable[ast.AST]) -> Iterator[tuple[str, ...]]:
    """Return the attributes that an expression reads; those of anything but a variable have an empty name in front."""
    inside = {id(part.value) for part in parts if isinstance(part, ast.Attribute)}
    for part in parts:
        if isinstance(part, ast.Attribute) and id(part) not in inside:
            names: list[str] = []
            at: ast.expr = part
            while isinstance(at, ast.Attribute):
                names.append(at.attr)
                at = at.value
            yield (at.id if isinstance(at, ast.Name) else "", *reversed(names))


def _is_indifferent(statement: ast.stmt, local_names: frozenset[str]) -> bool:
    """Return whether a statement gives the same numbers for Python floats and NumPy numbers."""
    tests = set(_find_tests(statement))
    for part in ast.walk(statement):
        if isinstance(part, ast.Compare) and id(part) not in tests:
            return False
        if isinstance(part, ast.BinOp | ast.AugAssign) and not _is_indifferent_operator(part):
            return False
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and _tells_classes(part.func.id):
            return False
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id in local_names:
            return False
        if isinstance(part, ast.JoinedStr | ast.Starred):
            return False
    return True


def _is_container(part: ast.expr) -> bool:
    """Return whether an expression is a list or the like, which NumPy numbers turn into arrays."""
    is_range = isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "range"
    return is_range or isinstance(part, ast.List | ast.Tuple | ast.ListComp)


def _tells_classes(name: str) -> bool:
    return hasattr(builtins, name) and name not in INDIFFERENT_BUILTINS


def _is_indifferent_operator(part: ast.BinOp | ast.AugAssign) -> bool:
    exponent = part.right if isinstance(part, ast.BinOp) else part.value
    if _is_container(exponent) or (isinstance(part, ast.BinOp) and _is_container(part.left)):
        return False
    is_whole_power = isinstance(exponent, ast.Constant) and type(exponent.value) is int
    return isinstance(part.op, INDIFFERENT_OPERATORS) or (isinstance(part.op, ast.Pow) and is_whole_power)


def _find_tests(statement: ast.stmt) -> Iterator[int]:
    """Return the ids of expressions of which only the truth counts."""
    stack = [part.test for part in ast.walk(statement) if isinstance(part, ast.If | ast.While | ast.IfExp)]
    while stack:
        test = stack.pop()
        yield id(test)
        if isinstance(test, ast.BoolOp):
            stack += test.values
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            stack.append(test.operand)


class _FragmentWriter(ast.NodeTransformer):
    """Rewrites an expression so that its calls and choices go through the merger."""

    def __init__(self) -> None:
        self.chooses = False

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in HELPER_NAMES:
            return node
        self.chooses = self.chooses or (isinstance(node.func, ast.Name) and node.func.id in ("min", "max"))
        helper = ast.copy_location(ast.Name(CALL_NAME, ast.Load()), node)
        return ast.copy_location(ast.Call(helper, [node.func, *node.args], node.keywords), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        arms = [self.visit(node.body), self.visit(node.orelse)]
        return self._write_helper(CHOOSE_NAME, node, [self.write_test(node.test)], arms)

    def write_test(self, node: ast.expr) -> ast.expr:
        """Return an expression of which only the truth counts."""
        if isinstance(node, ast.BoolOp):
            return self._write_connective(node, node.values)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            helper = ast.copy_location(ast.Name(NEGATE_NAME, ast.Load()), node)
            return ast.copy_location(ast.Call(helper, [self.write_test(node.operand)], []), node)
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            return self._write_chain(node)
        rewritten: ast.expr = self.visit(node)
        return rewritten

    def _write_connective(self, node: ast.BoolOp, values: Sequence[ast.expr]) -> ast.expr:
        first = self.write_test(values[0])
        if len(values) == 1:
            return first
        is_or = ast.copy_location(ast.Constant(isinstance(node.op, ast.Or)), node)
        return self._write_helper(CONNECT_NAME, node, [first, is_or], [self._write_connective(node, values[1:])])

    def _write_chain(self, node: ast.Compare) -> ast.expr:
        """Return `a < b < c` as `a < b and b < c` if b is read without effect."""
        if not all(isinstance(part, ast.Name | ast.Constant) for part in node.comparators[:-1]):
            rewritten: ast.expr = self.visit(node)
            return rewritten
        operands = [node.left, *node.comparators]
        pairs: list[ast.expr] = [
            ast.copy_location(ast.Compare(copy.deepcopy(operands[k]), [op], [operands[k + 1]]), node)
            for k, op in enumerate(node.ops)
        ]
        return self._write_connective(ast.copy_location(ast.BoolOp(ast.And(), pairs), node), pairs)

    def _write_helper(self, name: str, node: ast.expr, arguments: list[ast.expr], arms: Sequence[ast.expr]) -> ast.expr:
        """Return a call of the merger, with expressions that it evaluates as functions without arguments."""
        self.chooses = True
        functions: list[ast.expr] = [
            ast.copy_location(ast.Lambda(ast.arguments([], [], None, [], [], None, []), arm), arm) for arm in arms
        ]
        helper = ast.copy_location(ast.Name(name, ast.Load()), node)
        return ast.copy_location(ast.Call(helper, [*arguments, *functions], []), node)
