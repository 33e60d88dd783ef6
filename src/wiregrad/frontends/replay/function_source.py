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
from typing import Any

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
    positions = {(line, column) for line, _, column, _ in code.co_positions()}
    nodes = [node for node in source[0] if _is_node_of(node, code, positions)]
    return nodes[0] if len(nodes) == 1 else None


def _is_node_of(node: FunctionNode, code: CodeType, positions: set[Any]) -> bool:
    if isinstance(node, ast.Lambda):
        body = (node.body.lineno, node.body.col_offset)
        return code.co_name == "<lambda>" and node.lineno == code.co_firstlineno and body in positions
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return node.name == code.co_name and first == code.co_firstlineno


@lru_cache(32)
def _parse_source(text: str, filename: str, flags: int) -> tuple[list[FunctionNode], frozenset[CodeType]] | None:
    """Return the functions of a file as syntax trees, and all code objects that it compiles to."""
    try:
        tree = ast.parse(text, filename)
        module = compile(text, filename, "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return None
    nodes = [node for node in walk_syntax([tree]) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    return nodes, frozenset(nested_codes(module))


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
