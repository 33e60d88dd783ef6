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

from wiregrad.errors import InputError, short_repr, suggest_name
from wiregrad.explorer.name_regex import match_names
from wiregrad.ir import TABLE, CircuitGraph
from wiregrad.ir.names import is_automatic_name

NodeMask = NDArray[np.bool_]
MAX_QUERY_LENGTH = 1000
"""Maximum number of characters of a query."""
COMPARISONS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "=": operator.eq}
_COMPARISON_TERM = re.compile(r"([a-z]+)(<=|>=|<|>|=)(.+)")


class SearchableCircuit(Protocol):
    """What a search needs of a circuit and its run: arrays with one entry per node."""

    @property
    def circuit(self) -> CircuitGraph:
        """The circuit."""

    @property
    def names(self) -> Sequence[str]:
        """Every name, in the order of the circuit's name table."""

    def get_column(self, name: str) -> NDArray[Any]:
        """Return `grad`, `value`, `depth`, `rank` or `index` of every node."""

    def get_state_mask(self, name: str) -> NodeMask:
        """Return the mask of the nodes that are `nan`, `inf`, `bad` or `absent`."""


COMPARED_COLUMNS = ("grad", "value", "depth", "rank", "index")
STATE_WORDS = ("nan", "inf", "bad", "absent")


def match_query(measured: SearchableCircuit, query: str) -> NodeMask:
    """Return the mask of the nodes for which every term of a query holds.

    >>> import wiregrad as wg
    >>> from wiregrad.explorer.views import Views
    >>> run = wg.circuit("u = tanh(x); y = 3 * u").run(x=0.5)
    >>> np.flatnonzero(match_query(Views(run.circuit, run), "op:tanh grad>2")).tolist()
    [1]
    """
    if len(query) > MAX_QUERY_LENGTH:
        raise InputError(f"a query has at most {MAX_QUERY_LENGTH:,} characters; this one has {len(query):,}")
    mask = np.ones(measured.circuit.size, bool)
    for term in query.split():
        mask &= _match_term(measured, term)
    return mask


def _match_term(measured: SearchableCircuit, term: str) -> NodeMask:
    kind, colon, text = term.partition(":")
    if colon and kind in _TEXT_TERMS:
        return _TEXT_TERMS[kind](measured, text)
    match = _COMPARISON_TERM.fullmatch(term)
    if match is not None and match[1] in COMPARED_COLUMNS:
        with np.errstate(all="ignore"):
            compared: NodeMask = COMPARISONS[match[2]](measured.get_column(match[1]), _parse_number(term, match[3]))
        return compared
    if term in STATE_WORDS:
        return measured.get_state_mask(term)
    if colon or match is not None:
        known = [*(f"{name}:" for name in _TEXT_TERMS), *COMPARED_COLUMNS]
        word = match[1] if match is not None and not colon else kind
        raise InputError(f"cannot search for {short_repr(term)}: wanted {', '.join(known)}{suggest_name(word, known)}")
    return _match_name(measured, term)


def _parse_number(term: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{short_repr(term)} compares with {short_repr(text)}, which is no number") from None


def _match_op(measured: SearchableCircuit, text: str) -> NodeMask:
    if text not in TABLE:
        raise InputError(f"there is no op called {short_repr(text)}{suggest_name(text, TABLE.callable_names())}")
    mask: NodeMask = measured.circuit.columns.codes == TABLE.code_of(TABLE[text])
    return mask


def _match_name(measured: SearchableCircuit, text: str) -> NodeMask:
    """Return the mask of the nodes that have a name, or an output label, that matches a text."""
    circuit = measured.circuit
    mask = np.zeros(circuit.size, bool)
    if is_automatic_name(text) and int(text[1:]) < circuit.size:
        mask[int(text[1:])] = True
    mask[circuit.columns.names.nodes[_select_names(text, measured.names)]] = True
    mask[circuit.columns.outputs[_select_names(text, circuit.columns.labels)]] = True
    return mask


def _match_group(measured: SearchableCircuit, text: str) -> NodeMask:
    labels = measured.circuit.columns.groups
    if labels.index is None:
        return np.zeros(measured.circuit.size, bool)
    # Nodes without a group have index -1, which reads the appended last entry.
    mask: NodeMask = np.append(_select_names(text, [*map(str, labels.table)]), False)[labels.index]
    return mask


def _select_names(text: str, names: Sequence[str]) -> NodeMask:
    """Return which names contain a text, or match it if it is a regular expression between slashes."""
    if len(text) >= 2 and text.startswith("/") and text.endswith("/"):
        return match_names(text[1:-1], names)
    return np.fromiter((text in name for name in names), bool, len(names))


_TEXT_TERMS: dict[str, Callable[[SearchableCircuit, str], NodeMask]] = {"op": _match_op, "name": _match_name, "group": _match_group}


def split_into_ranges(nodes: Iterable[int]) -> list[list[int]]:
    """Return sorted indices as ranges of consecutive ones: [first, last] of each.

    >>> split_into_ranges([1, 2, 3, 7])
    [[1, 3], [7, 7]]
    """
    indices = np.fromiter(nodes, np.int64)
    if not len(indices):
        return []
    gaps = np.flatnonzero(np.diff(indices) > 1)
    firsts = indices[[0, *(gaps + 1)]]
    lasts = indices[[*gaps, len(indices) - 1]]
    return [[int(first), int(last)] for first, last in zip(firsts, lasts, strict=True)]
