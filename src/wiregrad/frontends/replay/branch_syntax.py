"""A function as steps that `branch_merging` runs: its control flow, and its expressions as compiled fragments.

A fragment is an expression as a function of the local variables that it reads. It keeps the file and the lines of the
expression, so that what it records is placed there. Calls and choices in it go through the merger. Functions with
statements that are not listed here (`with`, `try`, inner functions, assignments to elements) have no plan, and run as
they are.
"""

from __future__ import annotations

import ast
import builtins
import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CodeType, FunctionType
from typing import Any, NoReturn, TypeVar

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
ARM_EXPRESSIONS = frozenset(
    [
        *(ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Call, ast.keyword),
        *(ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.Dict, ast.ListComp, ast.GeneratorExp),
        ast.comprehension,
    ]
)
"""Syntax that changes nothing by itself; what its operators and calls do is checked when it runs."""

TARGET_KINDS = (ast.Name, ast.Tuple, ast.List)
"""What assignments to variables consist of."""
CHILD_FIELDS = {
    kind: tuple([name for name in kind._fields if name not in ("ctx", "op", "ops")])
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST) and kind is not ast.Constant
}
"""The fields of syntax that may hold more syntax, without operators and contexts."""

FIRST_PLACE: dict[str, Any] = {"lineno": 1, "col_offset": 0, "end_lineno": 1, "end_col_offset": 0}
"""The place of syntax that leaves no trace in the code."""

REFUSED_SYNTAX = (ast.Lambda, ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)
"""Functions inside, and what needs the frame of the function."""
NodeT = TypeVar("NodeT", bound=ast.AST)
SyntaxParts = defaultdict[type[ast.AST], list[Any]]
"""Nodes of a syntax tree by their class."""

RETURNS = "returns"
LEAVES = "leaves"
FALLS = "falls"
MIXED = "mixed"
"""How a block ends: it always returns, it always ends a loop or its turn, it always goes on, or anything else."""


class UnplannedSyntaxError(Exception):
    """A function has syntax that the steps do not cover."""


@dataclass(eq=False)
class Fragment:
    """An expression that is compiled as a function of the local variables it reads, and of the helpers it calls."""

    names: tuple[str, ...]
    outer_names: tuple[str, ...]
    """The variables from outside that it reads."""
    bare_names: tuple[str, ...]
    """The variables that it does not only read attributes of."""
    chains: tuple[tuple[str, ...], ...]
    """The attributes that it reads: a variable and the names after it."""
    indexed_names: frozenset[str]
    """The variables of which it reads only items, as in `x[k]`."""
    is_plain: bool
    """Whether it may be part of an arm that is merged."""
    takes_helpers: bool = False
    """Whether the helpers are among its parameters."""
    code: CodeType = field(init=False)
    """Set when all expressions of the function are known."""


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

    def may_stop(self) -> bool:
        """Return whether a step may end the function."""
        inner = [step.body for step in self.steps if isinstance(step, BranchStep | LoopStep)]
        inner += [step.orelse for step in self.steps if isinstance(step, BranchStep)]
        stops = any(isinstance(step, ReturnStep | RaiseStep) for step in self.steps)
        return stops or any(block.may_stop() for block in inner)

    def list_names(self, first: int = 0) -> Iterator[str]:
        """Return the local variables that the steps from one on read."""
        for step in self.steps[first:]:
            match step:
                case AssignStep(value=Fragment() as value) | ReturnStep(value=Fragment() as value):
                    yield from value.names
                case BranchStep():
                    yield from (*step.test.names, *step.body.list_names(), *step.orelse.list_names())
                case LoopStep():
                    yield from (*step.source.names, *step.body.list_names())


def _combine_ends(step: Step, after: str) -> str:
    """Return how a block ends that begins with a step, given how the rest of it ends."""
    goes_on = False
    match step:
        case ReturnStep():
            return RETURNS
        case LeaveStep():
            return LEAVES
        case AssignStep():
            goes_on = True
        case LoopStep():
            goes_on = step.target is not None and not step.body.may_stop()
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
    codes: tuple[CodeType, ...]
    """The code of all its fragments."""
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
    """Writes the steps of one function.

    Its expressions are compiled together when all steps are known: one call of `compile` takes a fifth of the time of
    many. Nothing in the syntax tree is changed, because other functions of the file use it too.
    """

    def __init__(self, code: CodeType, node: FunctionNode) -> None:
        self._node = node
        self._file = code.co_filename
        self._name = code.co_name
        self._locals = frozenset([*code.co_varnames, *code.co_cellvars, *code.co_freevars])
        self._fragments: list[Fragment] = []
        self._lambdas: list[ast.expr] = []
        """The syntax of each fragment."""
        self._parts = SyntaxParts(list)
        """The parts of all statements that have been read."""

    def write_plan(self) -> FunctionPlan:
        node = self._node
        if isinstance(node, ast.Lambda):
            statements: list[ast.stmt] = [place_at(ast.Return(node.body), node.body)]
        else:
            statements = node.body
        body = self._write_block(statements)
        _check_names(self._parts)
        indifferent = _are_indifferent(self._parts, self._locals)
        self._compile_fragments()
        return FunctionPlan(body, tuple(fragment.code for fragment in self._fragments), indifferent)

    def _compile_fragments(self) -> None:
        row = ast.Tuple(self._lambdas, ast.Load(), **FIRST_PLACE)
        module = compile(ast.Expression(row), self._file, "eval", dont_inherit=True)
        # This makes functions; it does not call them.
        functions = eval(module, {})
        for fragment, function in zip(self._fragments, functions, strict=True):
            fragment.code = function.__code__.replace(co_name=self._name, co_qualname=self._name)

    def _write_block(self, statements: Sequence[ast.stmt]) -> Block:
        steps = (self._write_step(statement) for statement in statements)
        return Block(tuple(step for step in steps if step is not None))

    def _write_step(self, node: ast.stmt) -> Step | None:
        step: Step | None = None
        match node:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                step = None
            case ast.Assign(targets=targets, value=value):
                step = AssignStep(self._write_fragment(value), tuple(map(self._read_target, targets)))
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                step = AssignStep(self._write_fragment(value), (self._read_target(target),))
            case ast.AugAssign(target=ast.Name() as target):
                self._add_parts(_group_parts([node]))
                update = _write_update(node, target)
                body = _FragmentWriter().visit(update)
                step = AssignStep(self._add_fragment(_group_parts([update]), body, takes_helpers=True), (target,))
            case ast.Return(value=value):
                step = ReturnStep(None if value is None else self._write_fragment(value))
            case ast.Raise():
                step = RaiseStep()
            case ast.Break() | ast.Continue():
                step = LeaveStep(isinstance(node, ast.Break))
            case ast.If(test=test, body=body, orelse=orelse):
                self._parts[ast.If].append(node)
                blocks = self._write_block(body), self._write_block(orelse)
                step = BranchStep(self._write_fragment(test, is_test=True), self._write_anchor(test), *blocks)
            case ast.While(test=test, body=body, orelse=[]):
                self._parts[ast.While].append(node)
                source = self._write_fragment(test, is_test=True)
                step = LoopStep(source, self._write_anchor(test), None, self._write_block(body))
            case ast.For(target=target, iter=source, body=body, orelse=[]):
                block = self._write_block(body)
                step = LoopStep(
                    self._write_fragment(source), self._write_anchor(source), self._read_target(target), block
                )
            case _:
                _refuse(node)
        return step

    def _read_target(self, target: ast.expr) -> ast.expr:
        """Return a target that consists of variables; raise if it has elements or attributes."""
        parts = SyntaxParts(list, {ast.Name: [target]}) if type(target) is ast.Name else _group_parts([target])
        for kind in parts:
            if kind not in TARGET_KINDS:
                _refuse(target)
        self._add_parts(parts)
        return target

    def _add_parts(self, parts: SyntaxParts) -> None:
        for kind, nodes in parts.items():
            self._parts[kind] += nodes

    def _write_anchor(self, test: ast.expr) -> Fragment:
        function = place_at(ast.Name(ANCHORED_NAME, ast.Load()), test)
        fragment = Fragment((ANCHORED_NAME,), (), bare_names=(), chains=(), indexed_names=frozenset(), is_plain=True)
        self._add_lambda(fragment, place_at(ast.Call(function, [], []), test))
        return fragment

    def _write_fragment(self, expression: ast.expr, *, is_test: bool = False) -> Fragment:
        parts = _group_parts([expression])
        self._add_parts(parts)
        body = expression
        if _needs_helpers(parts, is_test=is_test):
            writer = _FragmentWriter()
            body = writer.write_test(expression) if is_test else writer.visit(expression)
        return self._add_fragment(parts, body, takes_helpers=body is not expression)

    def _add_fragment(self, parts: SyntaxParts, body: ast.expr, *, takes_helpers: bool) -> Fragment:
        """Add the fragment of an expression with these parts; `body` is how it is compiled."""
        reads = _find_reads(parts)
        if not reads.stored.isdisjoint(self._locals):
            _refuse(body)
        not_outer = self._locals | reads.stored if reads.stored else self._locals
        fragment = Fragment(
            names=tuple([name for name in reads.names if name in self._locals]),
            outer_names=tuple([name for name in reads.names if name not in not_outer]),
            bare_names=tuple([name for name in reads.bare_names if name not in reads.stored]),
            chains=tuple(reads.chains),
            indexed_names=frozenset(reads.bare_names) - reads.whole_names,
            is_plain=parts.keys() <= ARM_EXPRESSIONS,
            takes_helpers=takes_helpers,
        )
        self._add_lambda(fragment, body)
        return fragment

    def _add_lambda(self, fragment: Fragment, body: ast.expr) -> None:
        helpers = HELPER_NAMES if fragment.takes_helpers else ()
        parameters = [ast.arg(name, **FIRST_PLACE) for name in (*fragment.names, *helpers)]
        arguments = ast.arguments([], parameters, None, [], [], None, [])
        self._lambdas.append(place_at(ast.Lambda(arguments, body), body))
        self._fragments.append(fragment)


def place_at(node: NodeT, other: ast.expr | ast.stmt) -> NodeT:
    """Return a node, after it was put at the place of another one; `ast.copy_location` takes three times as long."""
    place: Any = node
    place.lineno = other.lineno
    place.col_offset = other.col_offset
    place.end_lineno = other.end_lineno
    place.end_col_offset = other.end_col_offset
    return node


def _refuse(node: ast.AST) -> NoReturn:
    raise UnplannedSyntaxError(type(node).__name__)


def _needs_helpers(parts: SyntaxParts, *, is_test: bool) -> bool:
    """Return whether an expression with these parts may call the merger."""
    if ast.Call in parts or ast.IfExp in parts:
        return True
    has_connectives = ast.BoolOp in parts or ast.UnaryOp in parts
    return is_test and (has_connectives or any(len(part.ops) > 1 for part in parts.get(ast.Compare, ())))


def _check_names(parts: SyntaxParts) -> None:
    """Raise if the function looks at its own frame, mangles names, or makes functions of its own."""
    for kind in REFUSED_SYNTAX:
        if kind in parts:
            _refuse(parts[kind][0])
    for part in parts[ast.Name]:
        if part.id in REFLECTIVE_BUILTINS or _is_reserved(part.id):
            _refuse(part)
    for part in parts[ast.Attribute]:
        if _is_reserved(part.attr):
            _refuse(part)
    for part in parts[ast.keyword]:
        if (part.arg or "").startswith("__"):
            _refuse(part)
    used_at_once = {id(argument) for call in parts[ast.Call] for argument in call.args}
    for part in parts[ast.GeneratorExp]:
        if id(part) not in used_at_once:
            _refuse(part)


def _is_reserved(name: str) -> bool:
    return name.startswith("__") or name in HELPER_NAMES


def _group_parts(nodes: Iterable[ast.AST]) -> SyntaxParts:
    """Return everything in some nodes but operators and contexts, by its class."""
    parts = SyntaxParts(list)
    stack = list(nodes)
    while stack:
        node = stack.pop()
        kind = type(node)
        parts[kind].append(node)
        for name in CHILD_FIELDS.get(kind, ()):
            part = getattr(node, name, None)
            if type(part) is list:
                stack += [item for item in part if isinstance(item, ast.AST)]
            elif isinstance(part, ast.AST):
                stack.append(part)
    return parts


@dataclass
class _Reads:
    """The variables in an expression, each once."""

    names: dict[str, None] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    bare_names: dict[str, None] = field(default_factory=dict)
    whole_names: set[str] = field(default_factory=set)
    """Those of which not only items are read."""
    chains: list[tuple[str, ...]] = field(default_factory=list)


def _find_reads(parts: SyntaxParts) -> _Reads:
    """Return what the parts of an expression read; the helpers of the merger do not count."""
    reads = _Reads()
    attributes = parts.get(ast.Attribute, ())
    bases = {id(attribute.value) for attribute in attributes}
    for attribute in attributes:
        if id(attribute) not in bases:
            reads.chains.append(_find_chain(attribute))
    indexed = {id(part.value) for part in parts.get(ast.Subscript, ()) if not isinstance(part.slice, ast.Slice)}
    for variable in parts[ast.Name]:
        name = variable.id
        if name in HELPER_NAMES:
            continue
        reads.names[name] = None
        if isinstance(variable.ctx, ast.Store):
            reads.stored.add(name)
        if id(variable) not in bases:
            reads.bare_names[name] = None
            if id(variable) not in indexed:
                reads.whole_names.add(name)
    return reads


def _write_update(node: ast.AugAssign, target: ast.Name) -> ast.expr:
    """Return `x += y` as a call of the merger, which updates in place only what may be."""
    operator_name = place_at(ast.Constant(type(node.op).__name__), node)
    read = place_at(ast.Name(target.id, ast.Load()), target)
    function = place_at(ast.Name(UPDATE_NAME, ast.Load()), node)
    return place_at(ast.Call(function, [operator_name, read, node.value], []), node)


def _find_chain(attribute: ast.Attribute) -> tuple[str, ...]:
    """Return a variable and the names of the attributes after it; the name of anything but a variable is empty."""
    names: list[str] = []
    at: ast.expr = attribute
    while isinstance(at, ast.Attribute):
        names.append(at.attr)
        at = at.value
    return (at.id if isinstance(at, ast.Name) else "", *reversed(names))


def _are_indifferent(parts: SyntaxParts, local_names: frozenset[str]) -> bool:
    """Return whether statements with these parts give the same numbers for Python floats and NumPy numbers."""
    if ast.JoinedStr in parts or ast.Starred in parts:
        return False
    tests = set(_find_tests(parts))
    called_names = [call.func.id for call in parts[ast.Call] if isinstance(call.func, ast.Name)]
    bases = [part.value.id for part in parts[ast.Attribute] if isinstance(part.value, ast.Name)]
    return (
        all(id(comparison) in tests for comparison in parts[ast.Compare])
        and all(map(_is_indifferent_operator, [*parts[ast.BinOp], *parts[ast.AugAssign]]))
        and not any(map(_tells_classes, called_names))
        and local_names.isdisjoint(bases)
    )


def _is_container(part: ast.expr) -> bool:
    """Return whether an expression is a list or the like, which NumPy numbers turn into arrays."""
    kind = type(part)
    if kind is ast.Call and isinstance(part, ast.Call):
        return isinstance(part.func, ast.Name) and part.func.id == "range"
    return kind is ast.List or kind is ast.Tuple or kind is ast.ListComp


def _tells_classes(name: str) -> bool:
    return hasattr(builtins, name) and name not in INDIFFERENT_BUILTINS


def _is_indifferent_operator(part: ast.BinOp | ast.AugAssign) -> bool:
    exponent = part.right if isinstance(part, ast.BinOp) else part.value
    if _is_container(exponent) or (isinstance(part, ast.BinOp) and _is_container(part.left)):
        return False
    if type(part.op) in INDIFFERENT_OPERATORS:
        return True
    return isinstance(part.op, ast.Pow) and isinstance(exponent, ast.Constant) and type(exponent.value) is int


def _find_tests(parts: SyntaxParts) -> Iterator[int]:
    """Return the ids of expressions of which only the truth counts."""
    stack: list[ast.expr] = [part.test for kind in (ast.If, ast.While, ast.IfExp) for part in parts[kind]]
    while stack:
        test = stack.pop()
        yield id(test)
        if isinstance(test, ast.BoolOp):
            stack += test.values
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            stack.append(test.operand)


class _FragmentWriter(ast.NodeVisitor):
    """Writes expressions in which calls and choices go through the merger; the given ones are not changed."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Return a node with its parts rewritten; the node itself if that changes nothing."""
        changes: dict[str, Any] = {}
        for name in CHILD_FIELDS.get(type(node), ()):
            part = getattr(node, name, None)
            if type(part) is list:
                new: Any = [self.visit(item) if isinstance(item, ast.AST) else item for item in part]
                is_changed = any(map(operator.is_not, new, part))
            elif isinstance(part, ast.AST) and type(part) is not ast.Name:
                new = self.visit(part)
                is_changed = new is not part
            else:
                continue
            if is_changed:
                changes[name] = new
        return type(node)(**{**vars(node), **changes}) if changes else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        rewritten = self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in HELPER_NAMES:
            return rewritten
        assert isinstance(rewritten, ast.Call)
        helper = place_at(ast.Name(CALL_NAME, ast.Load()), node)
        arguments = [rewritten.func, *rewritten.args]
        return place_at(ast.Call(helper, arguments, rewritten.keywords), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        arms = [self.visit(node.body), self.visit(node.orelse)]
        return self._write_helper(CHOOSE_NAME, node, [self.write_test(node.test)], arms)

    def write_test(self, node: ast.expr) -> ast.expr:
        """Return an expression of which only the truth counts."""
        if isinstance(node, ast.BoolOp):
            return self._write_connective(node, node.values)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            helper = place_at(ast.Name(NEGATE_NAME, ast.Load()), node)
            return place_at(ast.Call(helper, [self.write_test(node.operand)], []), node)
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            return self._write_chain(node)
        rewritten: ast.expr = self.visit(node)
        return rewritten

    def _write_connective(self, node: ast.BoolOp, values: Sequence[ast.expr]) -> ast.expr:
        first = self.write_test(values[0])
        if len(values) == 1:
            return first
        is_or = place_at(ast.Constant(isinstance(node.op, ast.Or)), node)
        return self._write_helper(CONNECT_NAME, node, [first, is_or], [self._write_connective(node, values[1:])])

    def _write_chain(self, node: ast.Compare) -> ast.expr:
        """Return `a < b < c` as `a < b and b < c` if b is read without effect."""
        if not all(isinstance(part, ast.Name | ast.Constant) for part in node.comparators[:-1]):
            rewritten: ast.expr = self.visit(node)
            return rewritten
        operands = [node.left, *node.comparators]
        pairs: list[ast.expr] = [
            place_at(ast.Compare(operands[k], [op], [operands[k + 1]]), node) for k, op in enumerate(node.ops)
        ]
        return self._write_connective(place_at(ast.BoolOp(ast.And(), pairs), node), pairs)

    def _write_helper(self, name: str, node: ast.expr, arguments: list[ast.expr], arms: Sequence[ast.expr]) -> ast.expr:
        """Return a call of the merger, with expressions that it evaluates as functions without arguments."""
        functions: list[ast.expr] = [
            place_at(ast.Lambda(ast.arguments([], [], None, [], [], None, []), arm), arm) for arm in arms
        ]
        helper = place_at(ast.Name(name, ast.Load()), node)
        return place_at(ast.Call(helper, [*arguments, *functions], []), node)
