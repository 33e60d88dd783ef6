"""Stepping, editing and picking on the page, with the numbers of the worked examples."""

from __future__ import annotations

import re

import pytest

import wiregrad as wg
from wiregrad.cli.explore import PRESETS
from wiregrad.dtypes import NO_GRADIENT, format_brief_number

from .conftest import Opener
from .driver import NONE

COLUMNS = ("step", "name", "op", "inputs", "value", "local", "upstream", "gradient")


def test_stepping_forward_fills_one_value_after_another(opened: Opener) -> None:
    page = opened()

    assert page.phase == "idle"
    assert page.column("value") == {"a": "2", "b": "-3", "c": "10", "e": NONE, "f": NONE}
    page.step()
    assert page.column("value") == {"a": "2", "b": "-3", "c": "10", "e": "-1", "f": NONE}
    page.step()
    assert page.column("value") == {"a": "2", "b": "-3", "c": "10", "e": "-1", "f": "-10"}
    assert page.phase == "forward"
    assert set(page.column("gradient").values()) == {NONE}


def test_stepping_backward_seeds_the_root_and_then_fills_gradients(opened: Opener) -> None:
    page = opened()
    page.step(3)

    assert page.phase == "seed"
    assert page.column("gradient") == {"a": NONE, "b": NONE, "c": NONE, "e": NONE, "f": "1"}
    page.step()
    assert page.phase == "backward"
    assert page.column("gradient") == {"a": NONE, "b": NONE, "c": "-1", "e": "10", "f": "1"}
    page.step()
    assert page.phase == "done"
    assert page.column("gradient") == {"a": "10", "b": "10", "c": "-1", "e": "10", "f": "1"}
    assert page.button("Step ▶").is_disabled()


def test_the_picture_shows_what_is_computed_and_never_0_for_what_is_not(opened: Opener) -> None:
    page = opened()
    seen = [page.shown_numbers()]
    for _ in range(5):
        page.step()
        seen.append(page.shown_numbers())

    assert seen[0] == {"2", "-3", "10"}
    assert seen[1] == {"2", "-3", "10", "-1"}
    assert seen[2] == {"2", "-3", "10", "-1", "-10"}
    assert {"1", "-10"} <= seen[3]
    assert all("0" not in numbers for numbers in seen)


def test_stepping_back_takes_away_what_the_step_had_filled(opened: Opener) -> None:
    page = opened()
    page.step(2)
    before = page.rows()
    page.step(2)
    page.button("Step back").click()
    page.button("Step back").click()

    assert page.rows() == before


def test_a_step_is_said_aloud(opened: Opener) -> None:
    page = opened()
    page.step(4)

    assert page.said.startswith("Step 4 of 5, backward.")
    assert re.search(r"\b10\b.*-1|-1.*\b10\b", page.said.replace("\u2212", "-"))


def test_the_scrubber_goes_to_any_step(opened: Opener) -> None:
    page = opened()
    scrubber = page.page.get_by_role("slider", name="Position in the run")
    scrubber.fill("2")

    assert page.column("value")["f"] == "-10"
    assert page.column("gradient")["f"] == NONE
    scrubber.fill("0")
    assert page.phase == "idle"


def test_clicking_the_edge_from_e_to_f_shows_its_local_derivative(opened: Opener) -> None:
    page = opened()
    page.step(5)
    page.click_wire("e", "f")

    assert page.card_title == "e → f, input 1"
    assert page.facts()["local derivative"] == "∂f/∂e = 10"
    assert page.facts()["value"].startswith("-1 ")
    assert "upstream 1 \u00d7 local derivative 10 = sent 10" in page.card_text


def test_clicking_a_node_shows_upstream_times_local_with_numbers(opened: Opener) -> None:
    page = opened()
    page.step(5)
    page.node("f").click()

    assert page.card_title == "f"
    assert "1 \u00d7 10 = 10" in page.card_text
    assert "1 \u00d7 (-1) = -1" in page.card_text


def test_editing_a_leaf_updates_everything_at_the_same_step(opened: Opener) -> None:
    page = opened()
    page.step(5)
    page.click_wire("e", "f")
    page.leaf("c").fill("4")

    assert page.phase == "done"
    assert page.column("value") == {"a": "2", "b": "-3", "c": "4", "e": "-1", "f": "-4"}
    assert page.column("gradient") == {"a": "4", "b": "4", "c": "-1", "e": "4", "f": "1"}
    assert page.facts()["local derivative"] == "∂f/∂e = 4"
    assert page.shown_numbers() == {"2", "-3", "4", "-1", "-4", "1"}


def test_with_live_off_what_an_edit_reaches_is_stale_until_stepped(opened: Opener) -> None:
    page = opened()
    page.step(5)
    page.setting("Live").uncheck()
    page.leaf("a").fill("5")

    assert page.column("value")["f"] == "-10 (stale)"
    page.step(2)
    assert page.column("value")["f"] == "20"
    assert page.column("gradient")["a"].endswith("(stale)")


def test_the_neuron_gives_the_worked_numbers(opened: Opener) -> None:
    page = opened("#v=1&p=neuron")
    page.button("Run backward").click()
    gradients = page.column("gradient")

    assert page.column("value")["o"].startswith("0.7071")
    assert [gradients[leaf] for leaf in ("x1", "w1", "x2", "w2", "b")] == ["-1.5", "1", "0.5", "0", "0.5"]


def test_a_splitter_shows_its_partial_sums_while_branches_arrive(opened: Opener) -> None:
    page = opened("#v=1&p=fan-out")
    page.button("Run forward").click()
    page.page.get_by_label("Step by").select_option("wire")
    page.click_splitter("x")
    sums = []
    while not page.button("Step ▶").is_disabled():
        page.step()
        sums.append((page.facts()["arrived"], page.facts()["gradient"]))

    assert page.branches() == [("y", "1", "1"), ("x * x", "3", "4"), ("x * x", "3", "7")]
    assert ("1 of 3", "1 so far") in sums
    assert ("2 of 3", "4 so far") in sums
    assert sums[-1] == ("3 of 3", "7")


def test_the_split_form_shows_two_way_splitters(opened: Opener) -> None:
    page = opened("#v=1&p=fan-out")
    page.setting("Split form").check()
    page.button("Run backward").click()

    assert [*page.column("op").values()].count("split") == 2
    assert page.column("gradient")["x"] == "7"


@pytest.mark.parametrize("key", PRESETS)
def test_the_table_of_a_preset_has_every_node_and_column_and_says_what_python_says(opened: Opener, key: str) -> None:
    page = opened(f"#v=1&p={key}")
    page.button("Run backward").click()
    run = wg.circuit(PRESETS[key].formula).run(**PRESETS[key].leaves)
    told = {
        run.circuit.title_of(row.node): {
            "op": row.op.name,
            "inputs": ", ".join(map(run.circuit.title_of, row.sources)),
            "value": format_brief_number(run.values[row.node]),
            "gradient": NO_GRADIENT if run.flows[row.node] is None else format_brief_number(run.flows[row.node]),
        }
        for row in run.circuit.rows()
    }
    rows = page.rows()

    assert {tuple(row) for row in rows.values()} == {COLUMNS}
    assert {name: {column: row[column] for column in told[name]} for name, row in rows.items()} == told
    assert all(row[column] for row in rows.values() for column in COLUMNS if column != "inputs")


def test_every_preset_has_a_button(opened: Opener) -> None:
    page = opened()
    keys = page.page.locator("[data-preset]").evaluate_all("buttons => buttons.map(({dataset}) => dataset.preset)")

    assert sorted(keys) == sorted(PRESETS)
