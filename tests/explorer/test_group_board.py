"""Boards of large circuits: which boxes there are, what opening one shows, and where a pass stops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.api import Run
from wiregrad.errors import InputError
from wiregrad.explorer.circuit_views import CircuitViews

STEPS = 60


def step(x: Any, y: Any, t: int) -> Any:
    return x + np.cos(0.1 * t) * x * 0.1, y + np.sin(0.1 * t) * y * 0.1


def dist(x: Any, y: Any, goal: tuple[float, float]) -> Any:
    dx = x - goal[0]
    dy = y - goal[1]
    s = dx**2 + dy**2
    return np.sqrt(s)


def run_track(meet: int | None) -> Run:
    """Run a track that meets its goal exactly at one step, where the root has an infinite slope."""
    goals = [(0.3 * t, 0.2) for t in range(STEPS)]
    x, y = 1.0, 2.0
    for t in range(STEPS):
        x, y = step(x, y, t)
        if t == meet:
            goals[t] = (x, y)

    def track(x: Any, y: Any) -> Any:
        loss = 0.0
        for t in range(STEPS):
            x, y = step(x, y, t)
            loss = loss + dist(x, y, goals[t])
        return loss

    with np.errstate(all="ignore"):
        return wg.run(track, 1.0, 2.0)


@pytest.fixture(scope="module")
def broken() -> CircuitViews:
    run = run_track(30)
    return CircuitViews(run.circuit, run)


def titles(board: dict[str, Any]) -> list[str]:
    return [box["title"] for box in board["boxes"]]


def covered(board: dict[str, Any]) -> list[int]:
    """List the positions in a forward pass that the boxes without others inside stand for."""
    inner = [box for box in board["boxes"] if not box.get("open")]
    return sorted(k for box in inner for first, last in box["ranges"] for k in range(first, last + 1))


def test_the_steps_of_a_loop_are_merged(broken: CircuitViews) -> None:
    assert titles(broken.draw_board()) == [
        "x", "y", "t = 0 … 9", "t = 10 … 19", "t = 20 … 29", "t = 30 … 39", "t = 40 … 49", "t = 50 … 59",
    ]  # fmt: skip


def test_an_open_step_stands_between_its_merged_neighbours(broken: CircuitViews) -> None:
    board = broken.draw_board(["t=30"], ["|t=:30-30"])

    assert titles(board)[2:4] == ["t = 0 … 29", "t = 30"]
    assert titles(board)[-1] == "t = 31 … 59"
    assert {"step", "dist"} <= set(titles(board))


@pytest.mark.parametrize("opened", [[], ["t=30"], ["t=30", "t=30/dist"], ["t=3/step"]])
@pytest.mark.parametrize("focus", [[], ["|t=:30-30"], ["|t=:20-39"], ["|t=:500-900"]])
def test_every_node_is_in_exactly_one_box(broken: CircuitViews, opened: list[str], focus: list[str]) -> None:
    board = broken.draw_board(opened, focus)

    assert covered(board) == list(range(len(broken.board.inner)))


def test_every_box_that_opens_shows_other_boxes(broken: CircuitViews) -> None:
    for box in broken.draw_board(["t=30"], ["|t=:30-30"])["boxes"]:
        if box["kind"] == "range":
            board = broken.draw_board(["t=30"], [f"{box['stretch']}:{box['first']}-{box['last']}"])
        elif box["kind"] == "group" and not box["open"]:
            board = broken.draw_board(["t=30", box["path"]], ["|t=:30-30"])
        else:
            continue

        assert len(board["boxes"]) > 8, box["title"]


def test_a_node_is_located_by_what_has_to_be_open(broken: CircuitViews) -> None:
    node = broken.stops[0]["node"]
    board = broken.draw_board(**broken.locate_node(node))

    assert [box["title"] for box in board["boxes"] if box.get("node") == node] == ["dy**2"]


def test_a_pass_stops_at_the_first_nan_and_says_what_made_it(broken: CircuitViews) -> None:
    assert broken.stops == [
        {"phase": "backward", "node": broken.stops[0]["node"], "text": "`dy**2` multiplies Inf by 0"}
    ]


def test_a_sound_run_stops_nowhere() -> None:
    run = run_track(None)

    assert CircuitViews(run.circuit, run).stops == []


def test_a_product_of_matrices_is_one_box_that_opens_into_what_it_is_made_of() -> None:
    rng = np.random.default_rng(1)
    run = wg.run(lambda w, x: np.sum(np.tanh(w @ x)), rng.normal(size=(3, 4)), rng.normal(size=4))
    views = CircuitViews(run.circuit, run)
    closed = next(box for box in views.draw_board()["boxes"] if box["kind"] == "group")
    inside = [box["op"] for box in views.draw_board([closed["path"]])["boxes"] if box["parent"] >= 0]

    assert closed["title"] == "w @ x"
    assert "reshape" in " ".join(inside)
    assert "matmul" in " ".join(inside)


def test_nodes_without_groups_are_merged_by_their_lines_and_open() -> None:
    circuit = wg.circuit("; ".join(f"h{k + 1} = tanh(h{k})" for k in range(200)))
    views = CircuitViews(circuit, circuit.run(h0=0.5))
    board = views.draw_board()
    first = next(box for box in board["boxes"] if box["kind"] == "range")
    again = views.draw_board([], [f"{first['stretch']}:{first['first']}-{first['last']}"])

    assert len(board["boxes"]) < 12
    assert covered(again) == list(range(200))
    assert len(again["boxes"]) > len(board["boxes"]) - 1


@pytest.mark.parametrize(("opened", "focus"), [(["nothing"], []), ([], ["|t=:x"]), (["t=1"] * 65, [])])
def test_a_request_that_means_nothing_is_refused(broken: CircuitViews, opened: list[str], focus: list[str]) -> None:
    with pytest.raises(InputError):
        broken.draw_board(opened, focus)


def test_a_step_is_told_in_the_words_of_the_program(broken: CircuitViews) -> None:
    node = broken.stops[0]["node"]

    assert broken.describe_step(node, "forward")["text"].startswith("dy**2")
    assert "sends" in broken.describe_step(node, "backward")["text"]
