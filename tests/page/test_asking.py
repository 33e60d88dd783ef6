"""What a person asks of a run on the page: why, what if, is it right, where did it break, what changed."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.cli.explore import PRESETS
from wiregrad.explorer.html_page import to_html

from .conftest import Opener
from .driver import NONE, Explorer


def test_why_lists_the_paths_of_a_gradient_and_their_sum(opened: Opener) -> None:
    page = opened("#v=1&p=fan-out&s=d&sel=n:x")
    page.page.locator("summary", has_text="Why this gradient?").click()
    products = page.card.get_by_role("list").get_by_role("listitem").locator("b").all_inner_texts()

    assert sorted(text.replace("\u00d7", "x") for text in products) == ["1 = 1 x 1", "3 = 3 x 1 x 1", "3 = 3 x 1 x 1"]
    assert "sum: 7" in page.card_text


def test_a_nudge_shows_the_predicted_change_beside_the_true_one(opened: Opener) -> None:
    page = opened("#v=1&f=y+=+x*x&x=x:3&s=d")
    page.node("x").click()
    page.card.get_by_role("button", name="Wire to y, input 1").click()
    page.card.get_by_role("slider").fill("0.1")

    assert page.facts()["predicted change"].startswith("0.3")
    assert page.facts()["true change of y"] == "0.3"


def test_a_gradient_is_checked_by_differences(opened: Opener) -> None:
    page = opened("#v=1&p=neuron&s=d&sel=n:w1")
    page.button("Check by differences").click()

    assert page.facts()["central difference"] == "1"
    assert "They agree" in page.card_text


def test_g_goes_to_the_node_that_python_blames(opened: Opener) -> None:
    page = opened("#v=1&p=nan&s=d")
    page.button("Step back").focus()
    page.page.keyboard.press("g")
    run = wg.circuit(PRESETS["nan"].formula).run(**PRESETS["nan"].leaves)

    assert page.card_title == run.blame().origins[0].node == "l"


def test_g_goes_as_far_as_the_number_that_broke(opened: Opener) -> None:
    page = opened("#v=1&p=nan")
    page.page.keyboard.press("g")

    assert page.card_title == "l"
    assert page.facts()["value"] == "-inf"
    assert page.phase == "forward"


def test_find_lists_the_nodes_that_a_query_asks_for(opened: Opener) -> None:
    page = opened("#v=1&p=neuron&s=d")
    page.tab("Find")
    results = page.page.get_by_role("tabpanel").get_by_role("list").get_by_role("button")
    page.page.get_by_role("searchbox").fill("op:tanh")
    assert results.all_inner_texts() == ["o"]
    page.page.get_by_role("searchbox").fill("grad>0.9 op:input")
    assert results.all_inner_texts() == ["x1", "w1"]
    page.page.get_by_role("searchbox").fill("wrong:")

    assert page.page.get_by_role("searchbox").get_attribute("aria-invalid") == "true"
    assert results.count() == 0


def test_a_column_of_the_heat_strip_finds_its_nodes(opened: Opener) -> None:
    page = opened("#v=1&p=vanishing&s=d")
    page.tab("Heat strip")
    columns = page.page.get_by_role("group", name="Gradients by rank").get_by_role("button")
    assert columns.count() == 21
    columns.nth(5).click()

    assert page.page.get_by_role("searchbox").input_value().startswith("rank=5 grad>=")
    assert page.page.get_by_role("tabpanel").get_by_role("list").get_by_role("button").all_inner_texts() == ["h5"]


def test_two_runs_stand_side_by_side(opened: Opener) -> None:
    page = opened("#v=1&p=expression&s=d")
    page.tab("Compare")
    page.button("Pin this run").click()
    page.leaf("c").fill("4")
    row = page.page.get_by_role("region", name="Comparison of two runs").get_by_role("row", name="f ")

    assert row.get_by_role("cell").all_inner_texts()[:3] == ["-10", "-4", "+6"]


def test_the_circuit_shows_what_changed_since_a_run_was_pinned(opened: Opener) -> None:
    page = opened("#v=1&p=expression&s=d")
    page.tab("Compare")
    page.button("Pin this run").click()
    page.leaf("c").fill("4")
    page.page.get_by_label("Show the change on the circuit").check()

    assert named(page, "f, ").endswith("value 6, gradient 0, output")
    assert named(page, "e, ").endswith("value 0, gradient -6")
    assert named(page, "wire from e to f").endswith("local derivative -6, gradient -6")
    page.page.get_by_label("Show the change on the circuit").uncheck()
    assert named(page, "f, ").endswith("value -4, gradient 1, output")


def named(page: Explorer, start: str) -> str:
    """Read the name of what is drawn whose name begins so, with the minus that Python writes."""
    name = page.picture.locator(f'[role="graphics-symbol"][aria-label^="{start}"]').get_attribute("aria-label")
    return (name or "").replace("\u2212", "-")


@pytest.mark.parametrize(("accumulate", "expected"), [(False, "10"), (True, "20")])
def test_a_second_backward_pass_adds_only_if_it_is_told_to(opened: Opener, accumulate: bool, expected: str) -> None:
    page = opened("#v=1&p=expression&s=d")
    page.page.get_by_label("Accumulate like PyTorch").set_checked(accumulate)
    page.button("Backward again").click()
    page.button("Run backward").click()

    assert page.column("gradient")["a"] == expected


def test_a_step_can_be_a_whole_rank_or_everything(opened: Opener) -> None:
    page = opened("#v=1&p=neuron")
    page.page.get_by_label("Step by").select_option("rank")
    page.step()
    assert [name for name, value in page.column("value").items() if value == NONE and name.startswith("t")] == ["t3"]
    page.page.get_by_label("Step by").select_option("all")
    page.step()

    assert page.phase == "done"


def network(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    with wg.group("hidden"):
        h = np.tanh(x @ w)
    with wg.group("loss"):
        return np.sum(np.log(h))


def test_groups_of_an_exported_network_open_and_close(opened: Opener, tmp_path: Path) -> None:
    run = wg.run(network, np.ones((2, 3)), np.full((3, 2), 0.25))
    path = tmp_path / "network.html"
    path.write_text(to_html(run.circuit, run), "utf8")
    page = opened(path=path)
    page.button("Run backward").click()
    outline = page.page.get_by_role("region", name="Outline")
    outline.get_by_role("button", name="hidden").click()
    assert page.card_title == "hidden"
    assert float(page.facts()["gradient norm"]) > 0
    whole = [each.get_attribute("aria-label") for each in page.symbols.all()]
    page.card.get_by_role("button", name="Close", exact=True).click()
    closed = [each.get_attribute("aria-label") or "" for each in page.symbols.all()]
    page.card.get_by_role("button", name="Open", exact=True).click()

    assert any(label.startswith("hidden, group") for label in closed)
    assert any("log node" in label for label in closed)
    assert [each.get_attribute("aria-label") for each in page.symbols.all()] == whole


def test_the_first_non_finite_of_an_exported_network_leads_to_its_line(opened: Opener, tmp_path: Path) -> None:
    with np.errstate(all="ignore"):
        run = wg.run(network, np.ones((2, 3)), np.zeros((3, 2)))
    path = tmp_path / "network.html"
    path.write_text(to_html(run.circuit, run), "utf8")
    page = opened(path=path)
    page.button("Run backward").click()
    page.page.keyboard.press("g")
    lines, first = inspect.getsourcelines(network)
    line = first + next(k for k, text in enumerate(lines) if "np.log" in text)

    assert f"test_asking.py:{line}" in page.card_text
    assert "log" in page.card_text
