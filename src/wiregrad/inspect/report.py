"""What every answer has in common: it is data, and it can be read.

`str` and `repr` of a report are the same sentences, so that an answer shows itself wherever it is asked for: in a
terminal, in a notebook, in a log.
"""

from __future__ import annotations

from collections.abc import Iterator

from wiregrad.ir import Circuit, Node


class Report:
    """An answer to a question; subclasses are frozen dataclasses that say their lines."""

    __slots__ = ()

    def lines(self) -> Iterator[str]:
        """Return what the answer says, line by line."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__


def where(circuit: Circuit, node: int) -> str:
    """Return where a node was written, to stand behind a sentence: ` (model.py:12)`; empty if nobody knows."""
    place = Node(circuit, node).place
    return "" if place is None else f" ({place})"
