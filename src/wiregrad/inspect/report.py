"""The base class of all answers, and how nodes, places and lists are written in their sentences.

`str` and `repr` of a report give the same text, so an answer prints itself in a terminal, a notebook or a log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Self

from wiregrad.ir import CONSTANT, INPUT, CircuitGraph, Node, Place
from wiregrad.ir.circuit import find_given_name, write_expression


class Report:
    """An answer to a question; subclasses are frozen dataclasses that define `lines`."""

    __slots__ = ()

    layer_note = ""
    """What the answer was read off, where there is a choice; its text is the last line of the answer."""

    def lines(self) -> Iterator[str]:
        """Return the text of the answer, line by line."""
        raise NotImplementedError

    def with_layer_note(self, note: str) -> Self:
        """Return the same answer with what it was read off."""
        answer = copy(self)
        object.__setattr__(answer, "layer_note", note)
        return answer

    def __str__(self) -> str:
        return "\n".join([*self.lines(), *([self.layer_note] if self.layer_note else [])])

    __repr__ = __str__


def format_place(place: Place | None) -> str:
    """Format a source location as a suffix: ` (model.py:12)`; empty if the location is unknown.

    >>> format_place(Place("model.py", 12)), format_place(None)
    (' (model.py:12)', '')
    """
    return "" if place is None else f" ({place})"


def format_node_place(circuit: CircuitGraph, node: int) -> str:
    """Format the source location of a node as a suffix."""
    return format_place(Node(circuit, node).place)


def format_operand(circuit: CircuitGraph, node: int) -> str:
    """Format a node as an operand: its name, or the value of a constant without a name.

    >>> import wiregrad as wg
    >>> c = wg.circuit("y = 2 * x")
    >>> [format_operand(c, node) for node in range(c.size)]
    ['x', '2.0', 'y']
    """
    shape = circuit.type_of(node).shape
    nameless = bool(shape) and circuit.op_of(node) is CONSTANT and not circuit.columns.names.names_of(node)
    return f"array of shape {shape}" if nameless else circuit.operand_text(node)


def describe_node(circuit: CircuitGraph, node: int) -> str:
    """Format a node as an assignment, without the elements of arrays: `e = a + b`, `input x`.

    >>> import wiregrad as wg
    >>> c = wg.circuit("y = 2 * x")
    >>> [describe_node(c, node) for node in range(c.size)]
    ['input x', 'constant 2.0', 'y = 2.0 * x']
    """
    view = Node(circuit, node)
    if view.op is INPUT:
        return f"input {view.name}"
    sources = circuit.sources_of(node)
    is_named = find_given_name(circuit, node) is not None
    if not sources:
        text = f"array of shape {view.type.shape}" if view.type.shape else view.expression()
        return f"{view.name} = {text}" if is_named else f"constant {text}"
    text = write_expression(view.op, [format_operand(circuit, source) for source in sources])
    is_told = not is_named and view.title.replace(" ", "") == text.replace(" ", "")
    return text if is_told else f"{view.title} = {text}"


def join_with_and(parts: Sequence[str]) -> str:
    """Join a list with commas and a final "and".

    >>> join_with_and(["a"]), join_with_and(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return str(parts[0]) if len(parts) == 1 else f"{', '.join(map(str, parts[:-1]))} and {parts[-1]}"


def format_capped_list(items: Sequence[object], most: int) -> Iterator[str]:
    """Return an indented line for each of the first items, and one that counts the rest.

    >>> list(format_capped_list(["a", "b", "c"], 2))
    ['  a', '  and 2 more']
    """
    shown = len(items) if len(items) <= most else most - 1
    yield from (f"  {item}" for item in items[:shown])
    if shown < len(items):
        yield f"  and {len(items) - shown:,} more"
