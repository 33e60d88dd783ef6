"""The answers that a saved summary keeps, so that it can be looked into where nobody can be asked.

They are kept under the questions that the page would ask of a server, as many as there is room for: what is worth most
comes first, and a page without an answer says that it is not in the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from wiregrad.explorer.views import Views

ROOM = 2_000_000
"""How many characters of answers a file keeps."""
DEPTH = 2
"""How deep groups lie at most that are kept beside those that the first picture shows."""
PICTURES = 80
"""How many pictures a file keeps."""
AROUND = 12
"""How many nodes are shown on each side of one that is gone to; the page has the same number."""
Node = Callable[[int], dict[str, Any]]


def answers(views: Views, summary: dict[str, Any], node: Node) -> dict[str, Any]:
    """Return questions with their answers: nodes that matter and what is around them, then the insides of groups.

    >>> import wiregrad as wg
    >>> from wiregrad.explorer.summary import summary_data
    >>> run = wg.circuit("y = log(x)").run(x=0.0)
    >>> views = Views(run.circuit, run)
    >>> sorted(answers(views, summary_data(views)["summary"], views.node))
    ['/node/0', '/node/1', '/view?group=&nodes=0-1']
    """
    shown = {index: f"/node/{index}" for index in _nodes(summary)}
    found: dict[str, Any] = {question: node(index) for index, question in shown.items()}
    room = ROOM - len(json.dumps(found))
    for group, nodes in _parts(views.circuit.size, summary):
        view = views.view(group=group, nodes=nodes)
        room -= len(json.dumps(view))
        if room < 0:
            break
        found[f"/view?group={group}&nodes={nodes}"] = view
    return found


def _firsts(summary: dict[str, Any]) -> list[int]:
    return [row["node"] for row in summary["nonfinite"]["first"].values() if row is not None]


def _nodes(summary: dict[str, Any]) -> Iterator[int]:
    """Walk the nodes that are told in full: the first to break, those with large gradients, those drawn singly."""
    yield from _firsts(summary)
    yield from (row["node"] for row in summary["top"])
    yield from (box["node"] for box in summary["view"]["boxes"] if box["inside"] is None)


def _parts(size: int, summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the parts that are drawn, as group and nodes: about what broke, outer groups, what the picture has."""
    around = [("", f"{max(0, node - AROUND)}-{min(size - 1, node + AROUND)}") for node in _firsts(summary)]
    paths = [row["path"] for row in summary["outline"]["groups"] if row["path"].count("/") < DEPTH]
    boxes = [box["inside"] for box in summary["view"]["boxes"] if box["inside"] is not None]
    groups = [(path, "") for path in sorted(paths, key=lambda path: path.count("/"))]
    found = dict.fromkeys([*around, *groups, *((box["group"], box["nodes"]) for box in boxes)])
    return [*found][:PICTURES]
