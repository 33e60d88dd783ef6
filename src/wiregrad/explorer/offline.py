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
MAX_STORED_BOARDS = 80
"""Maximum number of boards stored in the page."""
BoardQuery = dict[str, list[str]]
NodeDescriber = Callable[[int], dict[str, Any]]


def collect_answers(views: CircuitViews, summary: dict[str, Any], node: NodeDescriber) -> dict[str, Any]:
    """Return answers by URL: the important nodes and their surroundings first, then the contents of groups.

    >>> import wiregrad as wg
    >>> from wiregrad.explorer.page_data import summarize_circuit
    >>> run = wg.circuit("y = log(x)").run(x=0.0)
    >>> views = CircuitViews(run.circuit, run)
    >>> sorted(collect_answers(views, summarize_circuit(views)["summary"], views.describe_node))
    ['/board?', '/locate/1', '/node/0', '/node/1']
    """
    urls = {index: f"/node/{index}" for index in _list_stored_nodes(summary)}
    stored: dict[str, Any] = {url: node(index) for index, url in urls.items()}
    places = {f"/locate/{index}": views.locate_node(index) for index in _list_visited_nodes(summary)}
    room = MAX_ANSWER_CHARACTERS - len(json.dumps([stored, places]))
    for url, query in _list_boards(views, summary["where"], [*places.values()]).items():
        board = views.draw_board(**query)
        room -= len(json.dumps(board))
        if room < 0:
            break
        stored[url] = board
    return stored | {url: query for url, query in places.items() if format_board_url(query) in stored}


def format_board_url(query: BoardQuery) -> str:
    """Return the URL under which the page asks for a board, before it is quoted.

    >>> format_board_url({"opened": ["net"], "focus": ["|t=:3-9"]})
    '/board?opened=net&focus=|t=:3-9'
    """
    return "/board?" + "&".join(f"{name}={text}" for name in ("opened", "focus") for text in query[name])


def _list_first_nonfinite(summary: dict[str, Any]) -> list[int]:
    return [row["node"] for row in summary["nonfinite"]["first"].values() if row is not None]


def _list_stored_nodes(summary: dict[str, Any]) -> Iterator[int]:
    """Yield the nodes to describe in full: the first non-finite ones, large gradients, nodes on the first board."""
    yield from _list_first_nonfinite(summary)
    yield from (row["node"] for row in summary["top"])
    yield from (box["node"] for box in summary["board"]["boxes"] if "node" in box)


def _list_visited_nodes(summary: dict[str, Any]) -> list[int]:
    """Return the nodes to which the page leads: the first non-finite ones and large gradients."""
    return [*dict.fromkeys([*_list_first_nonfinite(summary), *(row["node"] for row in summary["top"])])]


def _list_boards(views: CircuitViews, first: BoardQuery, places: list[BoardQuery]) -> dict[str, BoardQuery]:
    """Return the boards to store by URL: with one box of the first board opened or closed, all closed, and others."""
    closed: BoardQuery = {"opened": [], "focus": []}
    queries = [first, *places[:2], closed]
    for query in (first, closed):
        queries += [
            _turn_box(query, box) for box in views.draw_board(**query)["boxes"] if box["kind"] in ("group", "range")
        ]
    queries += places[2:]
    return dict([(format_board_url(query), query) for query in queries][:MAX_STORED_BOARDS])


def _turn_box(query: BoardQuery, box: dict[str, Any]) -> BoardQuery:
    """Return what is open after a box was opened or closed, in the order in which the page writes it."""
    if box["kind"] == "range":
        stretch = box["stretch"]
        focus = [text for text in query["focus"] if text.rpartition(":")[0] != stretch]
        return {"opened": query["opened"], "focus": [*focus, f"{stretch}:{box['first']}-{box['last']}"]}
    path = box["path"]
    if not box["open"]:
        return {"opened": [*query["opened"], path], "focus": query["focus"]}
    outer = path.rpartition("/")[0]
    opened = [one for one in query["opened"] if not f"{one}/".startswith(f"{path}/")]
    return {"opened": opened, "focus": [text for text in query["focus"] if not _is_closed_with(text, path, outer)]}


def _is_closed_with(focus: str, path: str, outer: str) -> bool:
    group = focus.partition("|")[0]
    first, _, last = focus.rpartition(":")[2].partition("-")
    return f"{group}/".startswith(f"{path}/") or (group == outer and first == last)
