"""The syntax tree of a function, if it is proven that the function was compiled from it.

A file may have changed since it was imported, and a decorator may have put another function in place. So the source is
compiled again, and counts only if one of the code objects that come out equals the code of the function.
"""

from __future__ import annotations
import __future__

import ast
import linecache
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType, FunctionType

from wiregrad.frontends.replay.outside_watches import nested_codes

FunctionNode = ast.FunctionDef | ast.Lambda
FUTURE_FLAGS = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})
"""The flags of code that was compiled under `from __future__ import ...`, which `compile` may have passed on."""


def find_function_node(f: FunctionType) -> FunctionNode | None:
    """Return the syntax tree of a function; None if it has no source, or none that compiles to its code."""
    code = f.__code__
    lines = linecache.getlines(code.co_filename, f.__globals__)
    if not lines:
        return None
    source = _parse_source("".join(lines), code.co_filename, code.co_flags & FUTURE_FLAGS)
    if source is None or code not in source[1]:
        return None
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
        module = compile(text, filename, "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return None
    return tree, frozenset(nested_codes(module))


def walk_syntax(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Return some nodes and everything in them but operators and contexts, in a third of the time of `ast.walk`."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        yield node
        for part in vars(node).values():
            if isinstance(part, ast.AST):
                if part._fields:
                    stack.append(part)
            elif type(part) is list:
                stack += [item for item in part if isinstance(item, ast.AST)]
