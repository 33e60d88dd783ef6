"""The find language: `op:tanh name:/attn/ grad>1e3 nan depth<4`. All that is asked must hold.

A term is `op:NAME`, `name:TEXT`, `group:TEXT` (part of a name; `/TEXT/` is a regular expression, see `name_regex`), a
comparison of `grad`, `value`, `depth`, `rank` or `index` with a number, `nan`, `inf`, `bad` (not finite), `absent` (no
gradient arrived), or a word, which is part of a name. Sizes are magnitudes, of an array the norm; `depth` counts the
groups around a node, `rank` the wires on the longest way to it. Every term is answered for all nodes at once, so that a
search of a million nodes takes the time of a few array ops.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import InputError, shown, suggest
from wiregrad.explorer.name_regex import matches
from wiregrad.ir import TABLE, Circuit
from wiregrad.ir.names import is_automatic

Mask = NDArray[np.bool_]
LONGEST = 1000
"""How many characters a query may have."""
COMPARED = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "=": operator.eq}
_COMPARISON = re.compile(r"([a-z]+)(<=|>=|<|>|=)(.+)")


class Measured(Protocol):
    """What a search needs to know of a circuit and its run: one entry per node."""

    @property
    def circuit(self) -> Circuit:
        """The circuit."""

    @property
    def names(self) -> Sequence[str]:
        """All names, in the order of the circuit's table of names."""

    def column(self, name: str) -> NDArray[Any]:
        """Return the sizes of `grad` or `value`, the `depth`, the `rank` or the `index` of every node."""

    def state(self, name: str) -> Mask:
        """Return which nodes are `nan`, `inf`, `bad` or `absent`."""


COLUMNS = ("grad", "value", "depth", "rank", "index")
STATES = ("nan", "inf", "bad", "absent")


def find(measured: Measured, query: str) -> Mask:
    """Return the nodes for which all terms of a query hold.

    >>> import wiregrad as wg
    >>> from wiregrad.explorer.views import Views
    >>> run = wg.circuit("u = tanh(x); y = 3 * u").run(x=0.5)
    >>> np.flatnonzero(find(Views(run.circuit, run), "op:tanh grad>2")).tolist()
    [1]
    """
    if len(query) > LONGEST:
        raise InputError(f"a query has at most {LONGEST:,} characters; this one has {len(query):,}")
    found = np.ones(measured.circuit.size, bool)
    for term in query.split():
        found &= _term(measured, term)
    return found


def _term(measured: Measured, term: str) -> Mask:
    kind, colon, text = term.partition(":")
    if colon and kind in _TEXTUAL:
        return _TEXTUAL[kind](measured, text)
    match = _COMPARISON.fullmatch(term)
    if match is not None and match[1] in COLUMNS:
        with np.errstate(all="ignore"):
            compared: Mask = COMPARED[match[2]](measured.column(match[1]), _number(term, match[3]))
        return compared
    if term in STATES:
        return measured.state(term)
    if colon or match is not None:
        wanted = [*(f"{name}:" for name in _TEXTUAL), *COLUMNS]
        said = kind if colon else term if match is None else match[1]
        raise InputError(f"cannot search for {shown(term)}: wanted {', '.join(wanted)}{suggest(said, wanted)}")
    return _named(measured, term)


def _number(term: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{shown(term)} compares with {shown(text)}, which is no number") from None


def _op(measured: Measured, text: str) -> Mask:
    if text not in TABLE:
        raise InputError(f"there is no op called {shown(text)}{suggest(text, TABLE.callable_names())}")
    found: Mask = measured.circuit.columns.codes == TABLE.code(TABLE[text])
    return found


def _named(measured: Measured, text: str) -> Mask:
    """Return the nodes one of whose names has a text in it."""
    circuit = measured.circuit
    found = np.zeros(circuit.size, bool)
    if is_automatic(text) and int(text[1:]) < circuit.size:
        found[int(text[1:])] = True
    found[circuit.columns.names.nodes[_meant(text, measured.names)]] = True
    found[circuit.columns.outputs[_meant(text, circuit.columns.labels)]] = True
    return found


def _grouped(measured: Measured, text: str) -> Mask:
    labels = measured.circuit.columns.groups
    if labels.index is None:
        return np.zeros(measured.circuit.size, bool)
    # Nodes without a group have index -1, which is the last entry.
    held: Mask = np.append(_meant(text, [*map(str, labels.table)]), False)[labels.index]
    return held


def _meant(text: str, names: Sequence[str]) -> Mask:
    """Return which names are meant: those with the text in them, or those that match what stands between slashes."""
    if len(text) >= 2 and text.startswith("/") and text.endswith("/"):
        return matches(text[1:-1], names)
    return np.fromiter((text in name for name in names), bool, len(names))


_TEXTUAL: dict[str, Callable[[Measured, str], Mask]] = {"op": _op, "name": _named, "group": _grouped}


def slices(nodes: Iterable[int]) -> list[list[int]]:
    """Return indices, given in order, as runs: first and last of each.

    >>> slices([1, 2, 3, 7])
    [[1, 3], [7, 7]]
    """
    some = np.fromiter(nodes, np.int64)
    if not len(some):
        return []
    cuts = np.flatnonzero(np.diff(some) > 1)
    firsts, lasts = some[[0, *(cuts + 1)]], some[[*cuts, len(some) - 1]]
    return [[int(first), int(last)] for first, last in zip(firsts, lasts, strict=True)]
