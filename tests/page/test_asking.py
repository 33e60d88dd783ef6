"""What a person asks of a run on the page: why, what if, is it right, where did it break, what changed."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.cli.page_commands import PRESETS
from wiregrad.explorer.page_data import to_html

from .conftest import Opener
from .driver import NONE, Explorer


def test_why_lists_the_paths_of_a_gradient_and_their_sum(opened: Opener) -> None:
    page = opened("#v=1&p=fan-out&s=d&sel=n:x")
    rows = page.card.locator(".paths button")
    told = sorted(name.split(" along ")[0] for name in (row.get_attribute("aria-label") or "" for row in rows.all()))

    assert page.card.locator("summary").inner_text() == "Why is the gradient of x 7?"
    assert told == ["1 = 1", "1 \u00d7 3 = 3", "1 \u00d7 3 = 3"]
    assert page.card.locator(".paths .sum").inner_text().split() == ["sum", "7"]


def test_bars_of_paths_begin_where_the_one_before_ends_and_the_sum_ends_there_too(opened: Opener) -> None:
    page = opened("#v=1&f=y+=+x+%2B+x*sigmoid(x*w)&x=x:2,w:-0.5&s=d&sel=n:x")
    bars = [bar.bounding_box() for bar in page.card.locator(".paths .bar > span").all()]
    edges = [(round(box["x"]), round(box["x"] + box["width"])) for box in bars if box]
    first, second, third, whole = edges

    assert second[0] == pytest.approx(first[1], abs=1)
    assert third[1] == pytest.approx(second[1], abs=1)
    assert whole[1] == pytest.approx(third[0], abs=1)


def test_a_wire_shows_upstream_times_local_with_all_digits_and_its_place_in_the_formula(opened: Opener) -> None:
    page = opened("#v=1&f=y+=+x+%2B+x*sigmoid(x*w)&x=x:2,w:-0.5&s=d&sel=w:t1.0")
    equation = page.card.locator(".product .aloud").inner_text()

    assert page.card_title == "x \u2192 x * w, input 1"
    assert equation == "upstream 0.3932 \u00d7 local derivative \u22120.5 = sent \u22120.1966"
    assert "0.3932238664829637 \u00d7 (\u22120.5)" in page.card.locator(".digits").inner_text()
    assert page.card.locator(".in-formula mark").inner_text() == "x*w"


def test_numbers_that_are_not_computed_are_not_in_the_card_of_a_wire(opened: Opener) -> None:
    page = opened("#v=1&f=y+=+x+%2B+x*sigmoid(x*w)&x=x:2,w:-0.5&sel=w:t1.0")

    assert page.card.locator(".term b").all_inner_texts() == ["\u2013"] * 3
    assert "0.19" not in page.card_text
    assert "run backward first" in page.card_text


def test_a_nudge_shows_the_predicted_change_beside_the_true_one(opened: Opener) -> None:
    page = opened("#v=1&f=y+=+x*x&x=x:3&s=d")
    page.node("x").click()
    page.card.get_by_role("button", name="Wire to y, input 1").click()
    page.card.get_by_role("slider").fill("0.1")

    assert page.facts()["gradient \u00d7 0.1 predicts"].startswith("0.3")
    assert page.facts()["y really changes by"] == "0.3"


def test_a_gradient_is_checked_by_differences(opened: Opener) -> None:
    page = opened("#v=1&p=neuron&s=d&sel=n:w1")
    page.button("Check by difference").click()

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
    assert page.facts()["value"] == "-Inf"
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

    assert row.get_by_role("cell").all_inner_texts()[:3] == ["\u221210", "\u22124", "6"]


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
    page.setting("Accumulate like PyTorch").set_checked(accumulate)
    page.button("Backward again").click()
    page.button("Run backward").click()

    assert page.column("gradient")["a"] == expected


def test_a_step_can_be_a_whole_rank_or_everything(opened: Opener) -> None:
    page = opened("#v=1&p=neuron")
    page.page.get_by_label("Step by").select_option("rank")
    page.step()
    assert [name for name, value in page.column("value").items() if value == NONE and name.startswith("x1")] == [
        "x1 * w1 + x2 * w2"
    ]
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
    page.show_panel("Outline")
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


def shares(x: np.ndarray) -> np.ndarray:
    total = np.sum(x, axis=1, keepdims=True)
    part = x / total
    return np.sum(part**2)


def test_the_card_of_an_array_shows_cells_spread_and_where_it_divided_0_by_0(opened: Opener, tmp_path: Path) -> None:
    x = np.arange(12.0).reshape(4, 3)
    x[2] = 0.0
    with np.errstate(all="ignore"):
        run = wg.run(shares, x)
    path = tmp_path / "shares.html"
    path.write_text(to_html(run.circuit, run, source=True), "utf8")
    page = opened(path=path)
    page.button("Run backward").click()
    page.tab("Table")
    page.page.get_by_role("region", name="Table of nodes").get_by_role("button", name="part", exact=True).click()
    facts = page.facts()

    assert "4\u00d73 float64, 3 of 12 not finite" in page.card_text
    assert page.card.get_by_role("img", name="heat map of 4 by 3 elements").locator("rect[fill^=url]").count() == 3
    assert facts["not finite"] == "NaN at [2, 0] to [2, 2], the whole row"
    assert (facts["the op did"], facts["because"]) == ("0 / 0", "x[2, 0] = 0 and total[2, 0] = 0")
    assert page.card.locator(".quoted .now").inner_text().split(maxsplit=1)[1] == "part = x / total"
    page.card.get_by_role("button", name="gradient").click()
    assert page.card.get_by_role("img", name="heat map of 4 by 3 elements").count() == 1


def test_a_loop_opens_to_its_body_with_a_slider_over_its_steps(opened: Opener, tmp_path: Path) -> None:
    run = wg.trace(lambda w: wg.fori_loop(0, 9, lambda i, x: np.sin(x) * w, 1.0), 0.9).run(w=0.9)
    path = tmp_path / "loop.html"
    path.write_text(to_html(run.circuit, run), "utf8")
    page = opened(path=path)
    page.button("Run backward").click()
    page.page.get_by_text("scan of").first.click()
    slider = page.card.get_by_role("slider", name="step")
    told = [slider.get_attribute("aria-valuetext"), page.card.locator(".loop-steps .note").inner_text()]
    slider.fill("8")
    last = page.card.locator(".loop-steps .note").inner_text()

    assert told == ["step 1 of 9", f"f0 = {np.sin(1.0) * 0.9:.4g}"]
    assert slider.get_attribute("aria-valuetext") == "step 9 of 9"
    assert last == f"f0 = {run.output:.4g}"
    assert page.card.locator(".loop-steps svg [role=graphics-symbol]").count() > 3
