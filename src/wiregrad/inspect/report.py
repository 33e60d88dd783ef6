"""What every answer has in common: it is data, and it can be read.

`str` and `repr` of a report are the same sentences, so that an answer shows itself wherever it is asked for: in a
terminal, in a notebook, in a log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wiregrad.ir import CONSTANT, INPUT, Circuit, Node, Place


class Report:
    """An answer to a question; subclasses are frozen dataclasses that say their lines."""

    __slots__ = ()

    def lines(self) -> Iterator[str]:
        """Return what the answer says, line by line."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__


def at(place: Place | None) -> str:
    """Return a place to stand behind a sentence: ` (model.py:12)`; empty if nobody knows it.

    >>> at(Place("model.py", 12)), at(None)
    (' (model.py:12)', '')
    """
    return "" if place is None else f" ({place})"


def where(circuit: Circuit, node: int) -> str:
    """Return where a node was written, to stand behind a sentence."""
    return at(Node(circuit, node).place)


def operand(circuit: Circuit, node: int) -> str:
    """Write a node inside an expression: its name, or what it is if it is a constant that nobody named.

    >>> import wiregrad as wg
    >>> c = wg.circuit("y = 2 * x")
    >>> [operand(c, node) for node in range(c.size)]
    ['x', '2.0', 'y']
    """
    shape = circuit.type_of(node).shape
    nameless = bool(shape) and circuit.op_of(node) is CONSTANT and not circuit.columns.names.of(node)
    return f"array of shape {shape}" if nameless else circuit.operand_text(node)


def told(circuit: Circuit, node: int) -> str:
    """Write a node as a person would, arrays left out: `e = a + b`, `input x`.

    >>> import wiregrad as wg
    >>> c = wg.circuit("y = 2 * x")
    >>> [told(c, node) for node in range(c.size)]
    ['input x', '%1 = 2.0', 'y = 2.0 * x']
    """
    view = Node(circuit, node)
    if view.op is INPUT:
        return f"input {view.name}"
    sources = circuit.sources_of(node)
    if sources:
        return f"{view.name} = {view.op.expression(*[operand(circuit, source) for source in sources])}"
    return f"{view.name} = {f'array of shape {view.type.shape}' if view.type.shape else view.expression()}"


def in_words(parts: Sequence[str]) -> str:
    """Write a list as a sentence has it.

    >>> in_words(["a"]), in_words(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def capped(items: Sequence[object], most: int) -> Iterator[str]:
    """Return a line for each of the first items, and one that counts the others.

    >>> list(capped(["a", "b", "c"], 2))
    ['  a', '  and 2 more']
    """
    shown = len(items) if len(items) <= most else most - 1
    yield from (f"  {item}" for item in items[:shown])
    if shown < len(items):
        yield f"  and {len(items) - shown:,} more"
