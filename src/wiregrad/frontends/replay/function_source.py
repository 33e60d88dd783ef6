"""The syntax tree of a function, if it is proven that the function was compiled from it.

A file may have changed since it was imported, and a decorator may have put another function in place. So the source is
compiled again, and counts only if one of the code objects that come out equals the code of the function.

Where there is no such source, a tree is read from the bytecode (`rebuild_function_node`); it counts in the same way.
"""

from __future__ import annotations
import __future__

import ast
import linecache
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from inspect import CO_NESTED, CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from wiregrad.frontends.recording.user_code import CodeStep, list_instructions
from wiregrad.frontends.replay.outside_watches import nested_codes

FunctionNode = ast.FunctionDef | ast.Lambda
FUTURE_FLAGS = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})
"""The flags of code that was compiled under `from __future__ import ...`, which `compile` may have passed on."""


def find_function_node(f: FunctionType) -> FunctionNode | None:
    """Return the syntax tree of a function; None if it has no source, or none that compiles to its code."""
    code = f.__code__
    lines = linecache.getlines(code.co_filename, f.__globals__)
    source = _parse_source("".join(lines), code.co_filename, code.co_flags & FUTURE_FLAGS) if lines else None
    if source is None or code not in source[1]:
        return rebuild_function_node(code)
    nodes = list(_find_nodes(source[0], code))
    return nodes[0] if len(nodes) == 1 else None


def _find_nodes(tree: ast.Module, code: CodeType) -> Iterator[FunctionNode]:
    """Return the functions in a file that code may have been compiled from, by name and place."""
    line = code.co_firstlineno
    if code.co_name != "<lambda>":
        functions = (node for node in _walk_at_line(tree, line) if isinstance(node, ast.FunctionDef))
        yield from (node for node in functions if node.name == code.co_name and _first_line(node) == line)
        return
    positions = {(line, column) for line, _, column, _ in code.co_positions()}
    lambdas = (node for node in _walk_at_line(tree, line) if isinstance(node, ast.Lambda) and node.lineno == line)
    yield from (node for node in lambdas if (node.body.lineno, node.body.col_offset) in positions)


def _walk_at_line(tree: ast.Module, line: int) -> Iterator[ast.AST]:
    """Return the nodes of a file that a line is part of; nothing inside of functions that begin there."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, ast.FunctionDef) and _first_line(node) == line:
            stack += node.decorator_list
        else:
            stack += [part for part in ast.iter_child_nodes(node) if _is_at_line(part, line)]


def _is_at_line(node: ast.AST, line: int) -> bool:
    return _first_line(node) <= line <= (getattr(node, "end_lineno", None) or line)


def _first_line(node: ast.AST) -> int:
    """Return the line on which a node begins, with its decorators; 0 for nodes without a place."""
    lines: list[int] = [decorator.lineno for decorator in getattr(node, "decorator_list", ())]
    line: int = getattr(node, "lineno", 0)
    return min([line, *lines])


@lru_cache(32)
def _parse_source(text: str, filename: str, flags: int) -> tuple[ast.Module, frozenset[CodeType]] | None:
    """Return the syntax tree of a file, and all code objects that it compiles to."""
    try:
        tree = ast.parse(text, filename)
        module = compile(tree, filename, "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return None
    return tree, frozenset(nested_codes(module))


def rebuild_function_node(code: CodeType) -> FunctionNode | None:
    """Return a syntax tree that compiles to the bytecode of a function; None if none was found.

    Whatever the instructions were taken for, the tree counts only if Python compiles it to the same instructions,
    constants and names.

    >>> ast.unparse(rebuild_function_node((lambda x: x * x if x > 0.0 else -x).__code__))
    'lambda x: x * x if x > 0.0 else -x'
    """
    if code.co_exceptiontable or code.co_cellvars or (code.co_name.startswith("<") and code.co_name != "<lambda>"):
        return None
    try:
        reader = _BytecodeReader(code)
        node = reader.write_function()
        compiled = _compile_alone(node, code, reader.imported_names)
        return node if _has_same_bytecode(compiled, code) else None
    except (UnreadBytecodeError, SyntaxError, TypeError, ValueError, LookupError, RecursionError):
        return None


def _compile_alone(node: FunctionNode, code: CodeType, imported_names: Iterable[str]) -> CodeType:
    """Compile the syntax tree of a function inside of one that has the variables from around it.

    A function of a module that is imported in the same file is called in another way than a method.
    """
    place = _place_first(code)
    statement: ast.stmt = ast.Expr(node, **place) if isinstance(node, ast.Lambda) else node
    if code.co_freevars:
        names = [ast.arg(name, **place) for name in code.co_freevars]
        parameters = ast.arguments([], names, None, [], [], None, [])
        statement = ast.FunctionDef("around", parameters, [statement], [], **NO_TYPES, **place)
    imports: list[ast.stmt] = [ast.Import([ast.alias(name, None, **place)], **place) for name in imported_names]
    module = ast.Module([*imports, statement], [])
    compiled = compile(module, code.co_filename, "exec", code.co_flags & FUTURE_FLAGS, dont_inherit=True)
    *_, last = nested_codes(compiled)
    return last


def _has_same_bytecode(one: CodeType, two: CodeType) -> bool:
    """Return whether two code objects do the same; their names and the places of their instructions do not count."""
    kinds = [[type(constant) for constant in code.co_consts] for code in (one, two)]
    # Constants are compared by their text: 0.0 equals -0.0, and NaN does not equal itself.
    constants = [repr(code.co_consts) for code in (one, two)]
    is_same = all(getattr(one, name) == getattr(two, name) for name in COMPARED_CODE_ATTRIBUTES)
    same_flags = not (one.co_flags ^ two.co_flags) & ~CO_NESTED
    return is_same and same_flags and kinds[0] == kinds[1] and constants[0] == constants[1]


COMPARED_CODE_ATTRIBUTES = (
    *("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_exceptiontable", "co_argcount"),
    *("co_posonlyargcount", "co_kwonlyargcount"),
)
NO_TYPES: dict[str, Any] = {"type_params": []} if sys.version_info >= (3, 12) else {}
"""The field of functions that have type parameters, which older versions of Python do not know."""
OPERATORS: dict[str, type[ast.operator]] = {
    "+": ast.Add,
    "-": ast.Sub,
    "*": ast.Mult,
    "/": ast.Div,
    "//": ast.FloorDiv,
    "%": ast.Mod,
    "**": ast.Pow,
    "@": ast.MatMult,
}
COMPARISONS: dict[str, type[ast.cmpop]] = {
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
    "==": ast.Eq,
    "!=": ast.NotEq,
}
UNARY_OPERATORS: dict[str, type[ast.unaryop]] = {
    "UNARY_NEGATIVE": ast.USub,
    "UNARY_POSITIVE": ast.UAdd,
    "UNARY_NOT": ast.Not,
    "UNARY_INVERT": ast.Invert,
}
SILENT_OPCODES = frozenset(
    ["RESUME", "PRECALL", "NOP", "EXTENDED_ARG", "COPY_FREE_VARS", "TO_BOOL", "GET_ITER", "END_FOR"]
)
"""Instructions that follow from others; leaving one out where it is needed gives other bytecode."""
STORE_OPCODES = frozenset(["STORE_FAST", "STORE_DEREF", "STORE_FAST_STORE_FAST"])
LOAD = ast.Load()
NULL = ast.Pass()
"""What stands on the stack below or above a function that is called."""


class UnreadBytecodeError(Exception):
    """A function has instructions that are not read."""


class _Jump(NamedTuple):
    """A test that jumps; `last` is the position of the jump."""

    test: ast.expr
    if_true: bool
    target: int
    last: int


class _Region(NamedTuple):
    """Some instructions one behind the other; jumps to `exits` go where the last instruction goes on."""

    first: int
    end: int
    exits: frozenset[int]


def _list_variables(step: CodeStep) -> tuple[str, ...]:
    """Return the variable that an instruction loads or stores; since Python 3.13 there may be two."""
    return step.argval if isinstance(step.argval, tuple) else (step.argval,)


class _BytecodeReader:
    """Reads instructions as statements: expressions by the stack that they work on, branches by where they jump."""

    def __init__(self, code: CodeType) -> None:
        self._code = code
        self._steps: list[CodeStep] = []
        self._positions: dict[int, int] = {}
        """The position of the first instruction at or after each offset that is read."""
        self._stack: list[Any] = []
        self._statements: list[ast.stmt] = []
        self._keywords: tuple[str, ...] = ()
        self._attributes: set[int] = set()
        """The ids of the attributes that are not loaded as methods."""
        self.imported_names: set[str] = set()
        """The variables whose attributes are called, but not loaded as methods."""
        first = code.co_firstlineno
        self._places = [
            (line or first, last_line or line or first, column or 0, last_column or 0)
            for line, last_line, column, last_column in code.co_positions()
        ]
        last = ""
        for step in list_instructions(code):
            self._positions[step.offset] = len(self._steps)
            is_end_of_loop = step.opname == "POP_TOP" and last == "END_FOR"
            last = step.opname
            if last not in SILENT_OPCODES and not is_end_of_loop:
                self._steps.append(step)

    def write_function(self) -> FunctionNode:
        """Return the function."""
        code = self._code
        body = self._read_region(_Region(0, len(self._steps), frozenset()), [])[0]
        parameters = _write_code_parameters(code)
        if code.co_name == "<lambda>":
            return ast.Lambda(parameters, _join_returns(body), **_place_first(code))
        if code.co_consts and isinstance(code.co_consts[0], str):
            place = _place_first(code)
            body.insert(0, ast.Expr(ast.Constant(code.co_consts[0], **place), **place))
        return ast.FunctionDef(code.co_name, parameters, body, [], **NO_TYPES, **_place_first(code))

    def _read_region(self, region: _Region, stack: list[Any]) -> tuple[list[ast.stmt], list[Any]]:
        """Return the statements in a region, and what it leaves on the stack, which is `stack` at the beginning."""
        outer = self._statements, self._stack
        self._statements, self._stack = [], stack
        at = region.first
        while at < region.end:
            step = self._steps[at]
            read = EXPRESSION_OPCODES.get(step.opname)
            if read is None:
                at = self._read_statement(at, region)
            else:
                read(self, step)
                at += 1
        inner = self._statements, self._stack
        self._statements, self._stack = outer
        return inner

    def _read_statement(self, at: int, region: _Region) -> int:
        """Read the statement whose expressions end at a position; return where to go on."""
        step = self._steps[at]
        name = step.opname
        if _is_test(step):
            return self._read_branch(at, region)
        if name == "FOR_ITER":
            return self._read_loop(at)
        if name in ("RETURN_VALUE", "RETURN_CONST"):
            if at + 1 != region.end:
                raise UnreadBytecodeError
            value = self._stack.pop() if name == "RETURN_VALUE" else self._place(ast.Constant(step.argval), step)
            self._add_statement(ast.Return(value), step)
            return at + 1
        if name.startswith("JUMP_"):
            if at + 1 != region.end or self._find_target(step) not in region.exits:
                raise UnreadBytecodeError
            return at + 1
        if name in STORE_OPCODES or name in ("UNPACK_SEQUENCE", "SWAP"):
            return self._read_assignment(at)
        raise UnreadBytecodeError

    def _find_target(self, step: CodeStep) -> int:
        return self._positions[step.argval]

    def _add_statement(self, statement: ast.stmt, step: CodeStep) -> None:
        if self._stack:
            raise UnreadBytecodeError
        self._statements.append(self._place(statement, step))

    def _read_branch(self, at: int, region: _Region) -> int:
        jump = self._read_test(at)
        first = jump.last + 1
        target = region.end if jump.target in region.exits else jump.target
        if not first <= target <= region.end:
            raise UnreadBytecodeError
        before = self._steps[target - 1]
        after = target
        exits = frozenset([target, jump.target])
        if target == region.end:
            exits |= region.exits
        elif before.opname.startswith("JUMP_"):
            # There is an else: what it jumps over.
            end = self._find_target(before)
            after = region.end if end in region.exits else end
            exits = region.exits | {end} if after == region.end else frozenset([end])
            if not target <= after <= region.end:
                raise UnreadBytecodeError
        step = self._steps[at]
        body, left = self._read_region(_Region(first, target, exits), [])
        orelse, right = self._read_region(_Region(target, after, exits), [])
        if left or right:
            self._push_choice(jump, body, left, orelse, right, step)
        else:
            self._add_branch(jump, body, orelse, step)
        return after

    def _push_choice(
        self, jump: _Jump, body: list[ast.stmt], left: list[Any], orelse: list[ast.stmt], right: list[Any], step: Any
    ) -> None:
        """Push what a conditional expression gives."""
        if body or orelse or len(left) != 1 or len(right) != 1:
            raise UnreadBytecodeError
        test = _negate(jump.test) if jump.if_true else jump.test
        self._stack.append(self._place(ast.IfExp(test, left[0], right[0]), step))

    def _add_branch(self, jump: _Jump, body: list[ast.stmt], orelse: list[ast.stmt], step: CodeStep) -> None:
        test = _negate(jump.test) if jump.if_true else jump.test
        if not body:
            test, body, orelse = _negate(test), orelse, body
        if not body:
            raise UnreadBytecodeError
        self._add_statement(ast.If(test, body, orelse), step)

    def _read_test(self, at: int) -> _Jump:
        """Return the test that ends with the jump at a position, with what `and` and `or` add after it."""
        jumps = [self._make_jump(at, self._stack.pop())]
        while (following := self._read_next_test(jumps[-1].last + 1)) is not None:
            jumps.append(following)
            while len(jumps) > 1 and (joined := _join_tests(*jumps[-2:])) is not None:
                jumps[-2:] = [joined]
        return jumps[0]

    def _make_jump(self, at: int, test: ast.expr) -> _Jump:
        step = self._steps[at]
        return _Jump(test, step.opname.endswith("_TRUE"), self._find_target(step), at)

    def _read_next_test(self, at: int) -> _Jump | None:
        """Return the test that begins at a position; None if something else is there."""
        outer = self._stack, self._keywords
        self._stack, self._keywords = [], ()
        try:
            while (read := EXPRESSION_OPCODES.get(self._steps[at].opname)) is not None:
                read(self, self._steps[at])
                at += 1
            is_test = _is_test(self._steps[at]) and len(self._stack) == 1
            return self._make_jump(at, self._stack[0]) if is_test else None
        except UnreadBytecodeError:
            return None
        finally:
            self._stack, self._keywords = outer

    def _read_loop(self, at: int) -> int:
        """Read a for loop."""
        step = self._steps[at]
        end = self._find_target(step)
        last = self._steps[end - 1]
        if not last.opname.startswith("JUMP_BACKWARD") or self._find_target(last) != at:
            raise UnreadBytecodeError
        items = self._stack.pop()
        element = ast.Name("", LOAD)
        body, left = self._read_region(_Region(at + 1, end - 1, frozenset([at, end - 1])), [element])
        first = body[0] if body else None
        if left or not isinstance(first, ast.Assign) or first.value is not element:
            raise UnreadBytecodeError
        others = body[1:] or [self._place(ast.Pass(), step)]
        self._add_statement(ast.For(first.targets[0], items, others, []), step)
        return end

    def _read_assignment(self, at: int) -> int:
        """Read the assignment of one value, of a sequence, or of several values at once."""
        step = self._steps[at]
        is_sequence = step.opname == "UNPACK_SEQUENCE"
        count = step.arg if is_sequence else len(self._stack)
        if step.opname == "SWAP" and step.arg not in (2, 3):
            raise UnreadBytecodeError
        value = self._stack.pop() if is_sequence else None
        first = at + 1 if is_sequence or step.opname == "SWAP" else at
        targets, after = self._read_targets(first, count)
        if is_sequence:
            target: ast.expr = self._place(ast.Tuple(targets, ast.Store()), step)
        elif count == 1:
            target, value = targets[0], self._stack.pop()
        else:
            ordered = targets if step.opname == "SWAP" else targets[::-1]
            target = self._place(ast.Tuple(ordered, ast.Store()), step)
            value = self._place(ast.Tuple(list(self._stack), LOAD), step)
            self._stack.clear()
        self._add_statement(_write_assignment(target, value), step)
        return after

    def _read_targets(self, at: int, count: int) -> tuple[list[ast.expr], int]:
        """Return the variables that the next instructions assign to, and where they end."""
        targets: list[ast.expr] = []
        while len(targets) < count:
            step = self._steps[at]
            if step.opname not in STORE_OPCODES:
                raise UnreadBytecodeError
            targets += [self._place(ast.Name(name, ast.Store()), step) for name in _list_variables(step)]
            at += 1
        if len(targets) > count:
            raise UnreadBytecodeError
        return targets, at

    def _take(self, count: int) -> list[Any]:
        """Take values from the stack."""
        if count > len(self._stack):
            raise UnreadBytecodeError
        taken = self._stack[len(self._stack) - count :]
        del self._stack[len(self._stack) - count :]
        return taken

    def _push(self, node: ast.expr, step: CodeStep) -> None:
        self._stack.append(self._place(node, step))

    def _place(self, node: Any, step: CodeStep) -> Any:
        """Give a node the place of an instruction."""
        node.lineno, node.end_lineno, node.col_offset, node.end_col_offset = self._places[step.offset // 2]
        return node

    def push_constant(self, step: CodeStep) -> None:
        """Push a constant."""
        if isinstance(step.argval, CodeType):
            raise UnreadBytecodeError
        self._push(ast.Constant(step.argval), step)

    def push_variables(self, step: CodeStep) -> None:
        """Push one variable, or two."""
        for name in _list_variables(step):
            self._push(ast.Name(name, LOAD), step)

    def push_global(self, step: CodeStep) -> None:
        """Push a variable from outside, perhaps one that is called."""
        self._stack += [NULL] * (step.arg & 1)
        self._push(ast.Name(step.argval, LOAD), step)

    def push_null(self, step: CodeStep) -> None:
        """Note that a function is called."""
        self._stack.append(NULL)

    def push_attribute(self, step: CodeStep) -> None:
        """Push an attribute, perhaps one that is called."""
        (owner,) = self._take(1)
        is_method = step.opname == "LOAD_METHOD" or "NULL" in step.argrepr
        self._stack += [NULL] * is_method
        self._push(ast.Attribute(owner, step.argval, LOAD), step)
        if not is_method:
            self._attributes.add(id(self._stack[-1]))

    def push_binary(self, step: CodeStep) -> None:
        """Push what an operator gives; an augmented assignment is written as one when it is stored."""
        left, right = self._take(2)
        symbol = step.argrepr.removesuffix("=")
        if symbol not in OPERATORS:
            raise UnreadBytecodeError
        operator = OPERATORS[symbol]()
        is_update = step.argrepr.endswith("=")
        if is_update and not isinstance(left, ast.Name):
            raise UnreadBytecodeError
        node = _Update(left, operator, right) if is_update else ast.BinOp(left, operator, right)
        self._push(node, step)

    def push_comparison(self, step: CodeStep) -> None:
        """Push a comparison."""
        left, right = self._take(2)
        if step.argval not in COMPARISONS:
            raise UnreadBytecodeError
        self._push(ast.Compare(left, [COMPARISONS[step.argval]()], [right]), step)

    def push_unary(self, step: CodeStep) -> None:
        """Push what an operator of one operand gives."""
        (operand,) = self._take(1)
        self._push(ast.UnaryOp(UNARY_OPERATORS[step.opname](), operand), step)

    def push_element(self, step: CodeStep) -> None:
        """Push an element."""
        owner, index = self._take(2)
        self._push(ast.Subscript(owner, index, LOAD), step)

    def push_sequence(self, step: CodeStep) -> None:
        """Push a tuple or a list."""
        kind = ast.Tuple if step.opname == "BUILD_TUPLE" else ast.List
        self._push(kind(self._take(step.arg), LOAD), step)

    def push_dict(self, step: CodeStep) -> None:
        """Push a dict."""
        parts = self._take(2 * step.arg)
        self._push(ast.Dict(parts[::2], parts[1::2]), step)

    def keep_keywords(self, step: CodeStep) -> None:
        """Keep the names of the keywords of the next call."""
        names = step.argval
        self._keywords = names if isinstance(names, tuple) else self._code.co_consts[step.arg]

    def push_call(self, step: CodeStep) -> None:
        """Push what a call returns."""
        if step.opname == "CALL_KW":
            self._keywords = self._take(1)[0].value
        names = self._keywords
        self._keywords = ()
        arguments = self._take(step.arg)
        called = [part for part in self._take(2) if part is not NULL]
        if len(called) != 1 or any(part is NULL for part in arguments):
            raise UnreadBytecodeError
        function = called[0]
        if id(function) in self._attributes and isinstance(function.value, ast.Name):
            self.imported_names.add(function.value.id)
        count = len(arguments) - len(names)
        pairs = zip(names, arguments[count:], strict=True)
        keywords = [self._place(ast.keyword(name, value), step) for name, value in pairs]
        self._push(ast.Call(function, arguments[:count], keywords), step)


EXPRESSION_OPCODES: dict[str, Callable[[_BytecodeReader, CodeStep], None]] = {
    "LOAD_CONST": _BytecodeReader.push_constant,
    "LOAD_FAST": _BytecodeReader.push_variables,
    "LOAD_FAST_CHECK": _BytecodeReader.push_variables,
    "LOAD_FAST_LOAD_FAST": _BytecodeReader.push_variables,
    "LOAD_DEREF": _BytecodeReader.push_variables,
    "LOAD_GLOBAL": _BytecodeReader.push_global,
    "LOAD_ATTR": _BytecodeReader.push_attribute,
    "LOAD_METHOD": _BytecodeReader.push_attribute,
    "PUSH_NULL": _BytecodeReader.push_null,
    "BINARY_OP": _BytecodeReader.push_binary,
    "COMPARE_OP": _BytecodeReader.push_comparison,
    **dict.fromkeys(UNARY_OPERATORS, _BytecodeReader.push_unary),
    "BINARY_SUBSCR": _BytecodeReader.push_element,
    "BUILD_TUPLE": _BytecodeReader.push_sequence,
    "BUILD_LIST": _BytecodeReader.push_sequence,
    "BUILD_MAP": _BytecodeReader.push_dict,
    "KW_NAMES": _BytecodeReader.keep_keywords,
    "CALL": _BytecodeReader.push_call,
    "CALL_KW": _BytecodeReader.push_call,
}
"""How the instructions of expressions are read."""


class _Update(ast.BinOp):
    """The right side of an augmented assignment; its left operand is the variable."""


def _write_assignment(target: ast.expr, value: Any) -> ast.stmt:
    if not isinstance(value, _Update):
        return ast.Assign([target], value)
    if isinstance(target, ast.Name) and isinstance(value.left, ast.Name) and target.id == value.left.id:
        return ast.AugAssign(target, value.op, value.right)
    raise UnreadBytecodeError


def _is_test(step: CodeStep) -> bool:
    return step.opname.startswith("POP_JUMP_") and step.opname.endswith(("_IF_FALSE", "_IF_TRUE"))


def _join_tests(one: _Jump, two: _Jump) -> _Jump | None:
    """Return two tests one behind the other as one; None if they are parts of different statements."""
    if one.target == two.target:
        is_or = one.if_true
        if one.if_true != two.if_true:
            two = two._replace(test=_negate(two.test), if_true=one.if_true)
    elif one.target == two.last + 1 and one.if_true != two.if_true:
        is_or = one.if_true
    else:
        return None
    connective: ast.boolop = ast.Or() if is_or else ast.And()
    values = [*_list_values(one.test, is_or), *_list_values(two.test, is_or)]
    return _Jump(ast.copy_location(ast.BoolOp(connective, values), one.test), two.if_true, two.target, two.last)


def _list_values(test: ast.expr, is_or: bool) -> list[ast.expr]:
    is_same = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) == is_or
    return test.values if is_same and isinstance(test, ast.BoolOp) else [test]


def _negate(test: ast.expr) -> ast.expr:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return ast.copy_location(ast.UnaryOp(ast.Not(), test), test)


def _join_returns(statements: list[ast.stmt]) -> ast.expr:
    """Return the expression whose value a lambda returns."""
    match statements:
        case [ast.Return(value=ast.expr() as value)]:
            return value
        case [ast.If(test=test, body=body, orelse=[]) as branch, *rest]:
            return ast.copy_location(ast.IfExp(test, _join_returns(body), _join_returns(rest)), branch)
        case _:
            raise UnreadBytecodeError


def _place_first(code: CodeType) -> dict[str, Any]:
    line = code.co_firstlineno
    return {"lineno": line, "col_offset": 0, "end_lineno": line, "end_col_offset": 0}


def _write_code_parameters(code: CodeType) -> ast.arguments:
    """Return the parameters of a function; defaults are not part of its code."""
    names = [ast.arg(name, **_place_first(code)) for name in code.co_varnames]
    first = code.co_posonlyargcount
    count = code.co_argcount
    last = count + code.co_kwonlyargcount
    has_row = bool(code.co_flags & CO_VARARGS)
    row = names[last] if has_row else None
    mapping = names[last + has_row] if code.co_flags & CO_VARKEYWORDS else None
    without: list[ast.expr | None] = [None] * code.co_kwonlyargcount
    return ast.arguments(names[:first], names[first:count], row, names[count:last], without, mapping, [])
