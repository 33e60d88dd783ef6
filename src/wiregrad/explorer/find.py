"""The find language: `op:tanh name:/attn/ grad>1e3 nan depth<4`. A node is found if every term holds for it.

A term is `op:NAME`, `name:TEXT` or `group:TEXT` (part of a name; `/TEXT/` is a regular expression), a comparison of
`grad`, `value`, `depth`, `rank` or `index` with a number, `nan`, `inf`, `bad` (either), `absent` (no gradient arrived),
or a word, which is part of a name. `grad` and `value` are magnitudes, for an array its norm; `depth` counts the groups
around a node, `rank` the wires on the longest path to it. Every term is evaluated for all nodes at once, so a search of
a million nodes takes the time of a few array operations.
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
"""Maximum number of characters of a query."""
COMPARED = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "=": operator.eq}
_COMPARISON = re.compile(r"([a-z]+)(<=|>=|<|>|=)(.+)")


class Measured(Protocol):
    """What a search needs of a circuit and its run: arrays with one entry per node."""

    @property
    def circuit(self) -> Circuit:
        """The circuit."""

    @property
    def names(self) -> Sequence[str]:
        """Every name, in the order of the circuit's name table."""

    def column(self, name: str) -> NDArray[Any]:
        """Return `grad`, `value`, `depth`, `rank` or `index` of every node."""

    def state(self, name: str) -> Mask:
        """Return the mask of the nodes that are `nan`, `inf`, `bad` or `absent`."""


COLUMNS = ("grad", "value", "depth", "rank", "index")
STATES = ("nan", "inf", "bad", "absent")


def find(measured: Measured, query: str) -> Mask:
    """Return the mask of the nodes for which every term of a query holds.

    >>> import wiregrad as wg
    >>> from wiregrad.explorer.views import Views
    >>> run = wg.circuit("u = tanh(x); y = 3 * u").run(x=0.5)
    >>> np.flatnonzero(find(Views(run.circuit, run), "op:tanh grad>2")).tolist()
    [1]
    """
    if len(query) > LONGEST:
        raise InputError(f"a query has at most {LONGEST:,} characters; this one has {len(query):,}")
    mask = np.ones(measured.circuit.size, bool)
    for term in query.split():
        mask &= _term(measured, term)
    return mask


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
        known = [*(f"{name}:" for name in _TEXTUAL), *COLUMNS]
        word = match[1] if match is not None and not colon else kind
        raise InputError(f"cannot search for {shown(term)}: wanted {', '.join(known)}{suggest(word, known)}")
    return _named(measured, term)


def _number(term: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{shown(term)} compares with {shown(text)}, which is no number") from None


def _op(measured: Measured, text: str) -> Mask:
    if text not in TABLE:
        raise InputError(f"there is no op called {shown(text)}{suggest(text, TABLE.callable_names())}")
    mask: Mask = measured.circuit.columns.codes == TABLE.code(TABLE[text])
    return mask


def _named(measured: Measured, text: str) -> Mask:
    """Return the mask of the nodes that have a name, or an output label, that matches a text."""
    circuit = measured.circuit
    mask = np.zeros(circuit.size, bool)
    if is_automatic(text) and int(text[1:]) < circuit.size:
        mask[int(text[1:])] = True
    mask[circuit.columns.names.nodes[_meant(text, measured.names)]] = True
    mask[circuit.columns.outputs[_meant(text, circuit.columns.labels)]] = True
    return mask


def _grouped(measured: Measured, text: str) -> Mask:
    labels = measured.circuit.columns.groups
    if labels.index is None:
        return np.zeros(measured.circuit.size, bool)
    # Nodes without a group have index -1, which reads the appended last entry.
    mask: Mask = np.append(_meant(text, [*map(str, labels.table)]), False)[labels.index]
    return mask


def _meant(text: str, names: Sequence[str]) -> Mask:
    """Return which names contain a text, or match it if it is a regular expression between slashes."""
    if len(text) >= 2 and text.startswith("/") and text.endswith("/"):
        return matches(text[1:-1], names)
    return np.fromiter((text in name for name in names), bool, len(names))


_TEXTUAL: dict[str, Callable[[Measured, str], Mask]] = {"op": _op, "name": _named, "group": _grouped}


def slices(nodes: Iterable[int]) -> list[list[int]]:
    """Return sorted indices as ranges of consecutive ones: [first, last] of each.

    >>> slices([1, 2, 3, 7])
    [[1, 3], [7, 7]]
    """
    indices = np.fromiter(nodes, np.int64)
    if not len(indices):
        return []
    gaps = np.flatnonzero(np.diff(indices) > 1)
    firsts = indices[[0, *(gaps + 1)]]
    lasts = indices[[*gaps, len(indices) - 1]]
    return [[int(first), int(last)] for first, last in zip(firsts, lasts, strict=True)]
