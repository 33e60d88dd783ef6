"""The answers stored in a saved page of a large circuit, so that it can be explored without a server.

Each is stored under the URL that the page would ask a server for. The most useful answers come first, and storing stops
at a size limit; for a question without a stored answer the page says that the answer is not in the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from wiregrad.explorer.circuit_views import CircuitViews

MAX_ANSWER_CHARACTERS = 2_000_000
"""Maximum number of characters of JSON that the answers in a page may take."""
MAX_GROUP_DEPTH = 2
"""Maximum depth of the groups whose pictures are stored in the page."""
MAX_STORED_PICTURES = 80
"""Maximum number of pictures stored in the page."""
NODES_EACH_SIDE = 12
"""Nodes shown before and after a node that the page jumps to; the page uses the same number."""
NodeDescriber = Callable[[int], dict[str, Any]]


def collect_answers(views: CircuitViews, summary: dict[str, Any], node: NodeDescriber) -> dict[str, Any]:
    """Return answers by URL: the important nodes and their surroundings first, then the contents of groups.

    >>> import wiregrad as wg
    >>> from wiregrad.explorer.page_data import summarize_circuit
    >>> run = wg.circuit("y = log(x)").run(x=0.0)
    >>> views = CircuitViews(run.circuit, run)
    >>> sorted(collect_answers(views, summarize_circuit(views)["summary"], views.describe_node))
    ['/node/0', '/node/1', '/view?group=&nodes=0-1']
    """
    urls = {index: f"/node/{index}" for index in _list_stored_nodes(summary)}
    stored: dict[str, Any] = {url: node(index) for index, url in urls.items()}
    room = MAX_ANSWER_CHARACTERS - len(json.dumps(stored))
    for group, nodes in _list_stored_views(views.circuit.size, summary):
        view = views.draw_view(group=group, nodes=nodes)
        room -= len(json.dumps(view))
        if room < 0:
            break
        stored[f"/view?group={group}&nodes={nodes}"] = view
    return stored


def _list_first_nonfinite(summary: dict[str, Any]) -> list[int]:
    return [row["node"] for row in summary["nonfinite"]["first"].values() if row is not None]


def _list_stored_nodes(summary: dict[str, Any]) -> Iterator[int]:
    """Yield the nodes to describe in full: the first non-finite ones, large gradients, nodes with their own box."""
    yield from _list_first_nonfinite(summary)
    yield from (row["node"] for row in summary["top"])
    yield from (box["node"] for box in summary["view"]["boxes"] if box["inside"] is None)


def _list_stored_views(size: int, summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the views to store as (group, nodes): around what is not finite, outer groups, boxes of the summary."""
    around = [
        ("", f"{max(0, node - NODES_EACH_SIDE)}-{min(size - 1, node + NODES_EACH_SIDE)}")
        for node in _list_first_nonfinite(summary)
    ]
    paths = [row["path"] for row in summary["outline"]["groups"] if row["path"].count("/") < MAX_GROUP_DEPTH]
    boxes = [box["inside"] for box in summary["view"]["boxes"] if box["inside"] is not None]
    groups = [(path, "") for path in sorted(paths, key=lambda path: path.count("/"))]
    views = dict.fromkeys([*around, *groups, *((box["group"], box["nodes"]) for box in boxes)])
    return [*views][:MAX_STORED_PICTURES]
