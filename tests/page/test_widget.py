"""The widget as a notebook shows it: its module in Chromium, with models that stand in for those of anywidget.

A question of the page goes to a real widget in this process, and what that sends goes back to the page.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import wiregrad as wg
from wiregrad.explorer.page_data import dump_json, read_static_file
from wiregrad.explorer.widget import ExplorerWidget, widget

from ..support.sampling import mark_full
from .conftest import SharedTab
from .driver import Explorer, Watched

POINT = np.array([0.5, -1.0, 2.0])
TRAITS = ["data", "step", "selection", "theme", "bundle"]
NOTEBOOK = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>notebook</title>
<style>{style}</style></head><body>{cells}
<script type="application/json" id="module">{module}</script>
<script>
function modelOf(index, state) {{
  const listeners = new Map();
  const of = (event) => listeners.get(event) ?? [];
  const fire = (event, ...told) => of(event).forEach((listener) => listener(...told));
  const bytes = (text) => new DataView(new TextEncoder().encode(text).buffer);
  return {{
    state, of, fire,
    get: (name) => state[name],
    set: (name, value) => {{ state[name] = value; fire(`change:${{name}}`); }},
    on: (event, listener) => listeners.set(event, [...of(event), listener]),
    off: (event, listener) => listeners.set(event, of(event).filter((other) => other !== listener)),
    save_changes: () => void window.saved(index, state),
    send: async (content) => {{
      for (const [mark, text] of await window.asked(index, content)) fire("msg:custom", mark, [bytes(text)]);
    }},
  }};
}}
/** Each widget has a copy of the module, as anywidget gives it one. */
async function shown(index, state) {{
  const text = JSON.parse(document.getElementById("module").textContent);
  const module = await import(URL.createObjectURL(new Blob([text], {{type: "text/javascript"}})));
  const model = modelOf(index, state);
  const end = await module.default.render({{model, el: document.getElementById(`cell${{index}}`)}});
  (window.models ??= [])[index] = model;
  (window.ends ??= [])[index] = end;
}}
window.pressed = [];
document.addEventListener("keydown", (event) => window.pressed.push(event.key));
</script></body></html>
"""


def loss(x: np.ndarray, scale: float) -> Any:
    return np.sum(np.tanh(x) * scale)


def of_loss() -> ExplorerWidget:
    run = wg.run(loss, POINT, 3.0)
    return widget(run.circuit, run)


def of_formula() -> ExplorerWidget:
    run = wg.circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10)
    return widget(run.circuit, run)


def shown_loss(scale: float) -> str:
    """Return the value of the loss as the page writes it."""
    return f"{loss(POINT, scale):.4g}"


def last_row(cell: Explorer) -> Locator:
    """Find the row of the output in the table of a cell."""
    cell.tab("Table")
    return cell.page.get_by_role("region", name="Table of nodes").get_by_role("row").last


class Notebook:
    """A page with widgets in cells, and the widgets themselves."""

    def __init__(self, page: Page, watched: Watched, widgets: list[Any]) -> None:
        self.page, self.watched, self.widgets = page, watched, widgets
        self.silent = False

    def asked(self, index: int, content: Any) -> list[tuple[Any, str]]:
        """Let a widget hear what its page asks, and return what it sends."""
        sent: list[tuple[Any, str]] = []
        shown = self.widgets[index]
        shown.send = lambda mark, buffers: sent.append((mark, buffers[0].decode()))
        if not self.silent:
            shown._handle_custom_msg(content, [])
        return sent

    def saved(self, index: int, state: dict[str, str]) -> None:
        """Bring what a page has saved into the widget."""
        for name in ("step", "selection", "theme"):
            setattr(self.widgets[index], name, state[name])

    def show(self, index: int) -> None:
        """Render a widget into its cell."""
        state = {name: getattr(self.widgets[index], name) for name in TRAITS}
        self.page.evaluate("([index, state]) => shown(index, state)", [index, state])

    def set(self, index: int, name: str, value: str) -> None:
        """Set a trait, as if by Python."""
        self.page.evaluate("([index, name, value]) => models[index].set(name, value)", [index, name, value])

    def cell(self, index: int) -> Explorer:
        """Return a driver that sees one cell alone."""
        place: Any = self.page.locator(f"#cell{index}")
        return Explorer(place, self.watched)

    def said(self, index: int) -> Locator:
        """Find the line in which Python says something."""
        return self.page.locator(f"#cell{index} > [role=status]")


class NotebookTab(SharedTab):
    """A tab whose page reaches the widgets of the notebook that it shows."""

    def __init__(self, browser: Browser) -> None:
        super().__init__(browser)
        self.notebook = Notebook(self.page, self.watched, [])
        self.page.expose_function("asked", self.asked)
        self.page.expose_function("saved", self.saved)

    def asked(self, index: int, content: Any) -> list[tuple[Any, str]]:
        """Pass on what the page asks to the notebook of the test that runs."""
        return self.notebook.asked(index, content)

    def saved(self, index: int, state: dict[str, str]) -> None:
        """Pass on what the page saves to the notebook of the test that runs."""
        self.notebook.saved(index, state)


@pytest.fixture(scope="module")
def notebook_tab(browser: Browser) -> NotebookTab:
    return NotebookTab(browser)


Opener = Callable[..., Notebook]


@pytest.fixture
def opened(notebook_tab: NotebookTab, tmp_path: Path) -> Iterator[Opener]:
    """Open a notebook with widgets, and look at the end at what the page did beside being looked at."""

    def open_page(*widgets: Any, silent: bool = False, attributes: dict[str, str] | None = None) -> Notebook:
        cells = "".join(f'<div id="cell{k}"></div>' for k in range(len(widgets)))
        path = tmp_path / "notebook.html"
        path.write_text(
            NOTEBOOK.format(
                style=read_static_file("explorer.css"), cells=cells, module=dump_json(read_static_file("widget.js"))
            )
        )
        tab = notebook_tab.prepare()
        found = notebook_tab.notebook = Notebook(tab.page, tab.watched, list(widgets))
        found.silent = silent
        found.page.goto(path.as_uri())
        found.page.evaluate("given => Object.assign(document.body.dataset, given)", attributes or {})
        for index in range(len(widgets)):
            found.show(index)
        return found

    yield open_page
    watched = notebook_tab.watched
    mistakes = [*watched.errors, *watched.dialogs, *watched.foreign]
    notebook_tab.leave()

    assert mistakes == []


def test_a_formula_is_stepped_and_changed_in_the_notebook(opened: Opener) -> None:
    cell = opened(of_formula()).cell(0)
    cell.button("Run backward").click()
    cell.leaf("c").fill("4")

    assert cell.column("value") == {"a": "2", "b": "-3", "c": "4", "e": "-1", "f": "-4"}
    assert cell.column("gradient") == {"a": "4", "b": "4", "c": "-1", "e": "4", "f": "1"}


def test_the_kernel_runs_the_circuit_again_when_a_leaf_is_edited(opened: Opener) -> None:
    notebook = opened(of_loss())
    cell = notebook.cell(0)
    cell.button("Run backward").click()
    cell.leaf("scale").fill("6")
    expect(last_row(cell)).to_contain_text(shown_loss(6.0))
    expect(notebook.said(0)).to_have_text("")

    assert notebook.widgets[0].run.values[-1] == loss(POINT, 6.0)
    assert cell.phase == "done"


def test_what_python_refuses_is_said(opened: Opener) -> None:
    notebook = opened(of_loss())
    notebook.widgets[0].session.circuit = wg.circuit("x * x")
    notebook.cell(0).leaf("scale").fill("6")

    expect(notebook.said(0)).to_contain_text("no input")


def test_a_run_that_would_have_gone_another_way_says_so(opened: Opener) -> None:
    def bent(x: float) -> Any:
        return x * x if x > 0 else -x

    run = wg.run(bent, 2.0)
    notebook = opened(widget(run.circuit, run))
    notebook.cell(0).leaf("x").fill("-2")

    expect(notebook.said(0)).to_contain_text("another branch")


def test_while_python_runs_only_one_question_waits_and_the_last_leaves_are_asked_for(opened: Opener) -> None:
    notebook = opened(of_loss())
    notebook.cell(0).button("Run backward").click()
    notebook.page.evaluate(HOLD)
    for text in ["4", "5", "6"]:
        notebook.cell(0).leaf("scale").fill(text)
    expect(notebook.said(0)).to_have_text("Python is running the circuit")
    before = notebook.page.evaluate("held.map(({leaves}) => leaves.scale)")
    notebook.page.evaluate("release()")
    expect(last_row(notebook.cell(0))).to_contain_text(shown_loss(6.0))

    assert before == [4]
    assert notebook.page.evaluate("held.map(({leaves}) => leaves.scale)") == [4, 6]
    assert notebook.widgets[0].run.values[-1] == loss(POINT, 6.0)


HOLD = """() => {
  window.held = [];
  const {send} = models[0];
  const gate = new Promise((resolve) => { window.release = resolve; });
  models[0].send = async (content) => { held.push(content); await gate; await send(content); };
}"""


def test_data_that_the_widget_does_not_hold_is_asked_for(opened: Opener) -> None:
    shown = of_loss()
    shown.data = ""
    notebook = opened(shown)
    notebook.cell(0).picture.wait_for()

    assert "scale" in notebook.cell(0).rows()


def test_without_a_kernel_the_cell_says_what_to_do(opened: Opener) -> None:
    shown = of_loss()
    shown.data = ""
    notebook = opened(shown, silent=True)

    expect(notebook.said(0)).to_contain_text("run the cell again")


def test_two_widgets_on_a_page_share_a_script_and_are_otherwise_apart(opened: Opener) -> None:
    notebook = opened(of_formula(), of_loss())
    first, second = notebook.cell(0), notebook.cell(1)
    second.button("Run backward").click()
    ids: list[str] = notebook.page.evaluate("[...document.querySelectorAll('[id]')].map(({id}) => id)")

    assert (first.phase, second.phase) == ("idle", "done")
    assert "scale" not in first.rows()
    assert sorted(ids) == sorted(set(ids))
    assert notebook.page.evaluate("globalThis[Symbol.for('wiregrad.explorer')].size") == 1


def test_two_widgets_ask_their_own_kernels(opened: Opener) -> None:
    notebook = opened(of_loss(), of_loss())
    cells = [notebook.cell(k) for k in range(2)]
    cells[0].button("Run backward").click()
    cells[1].button("Run backward").click()
    cells[1].leaf("scale").fill("6")
    expect(last_row(cells[1])).to_contain_text(shown_loss(6.0))
    expect(last_row(cells[0])).to_contain_text(shown_loss(3.0))

    assert cells[0].leaf("scale").input_value() == "3"
    assert [shown.run.values[-1] for shown in notebook.widgets] == [loss(POINT, 3.0), loss(POINT, 6.0)]


def test_step_and_selection_reach_python(opened: Opener) -> None:
    notebook = opened(of_formula())
    notebook.cell(0).step(2)
    notebook.cell(0).tab("Table")
    table = notebook.page.get_by_role("region", name="Table of nodes")
    table.get_by_role("button", name="e", exact=True).click()

    assert notebook.widgets[0].step == "f2"
    assert notebook.widgets[0].selection == "n:e"


def test_the_page_follows_what_python_sets(opened: Opener) -> None:
    notebook = opened(of_formula())
    notebook.set(0, "step", "d")
    notebook.set(0, "selection", "w:f.0")
    notebook.set(0, "theme", "dark")
    expect(notebook.cell(0).page.locator(".wg-app")).to_have_attribute("data-theme", "dark")

    assert notebook.cell(0).phase == "done"
    assert notebook.cell(0).card_title == "e → f, input 1"


@pytest.mark.parametrize(
    ("attributes", "theme"),
    [
        ({"jpThemeLight": "false"}, "dark"),
        ({"vscodeThemeKind": "vscode-high-contrast-light"}, "light"),
        mark_full(({}, "light")),
        mark_full(({"jpThemeLight": "true"}, "light")),
        mark_full(({"vscodeThemeKind": "vscode-light"}, "light")),
        mark_full(({"vscodeThemeKind": "vscode-dark"}, "dark")),
    ],
)
def test_the_theme_is_that_of_the_notebook(opened: Opener, attributes: dict[str, str], theme: str) -> None:
    notebook = opened(of_formula(), attributes=attributes)

    expect(notebook.page.locator(".wg-app")).to_have_attribute("data-theme", theme)
    assert notebook.widgets[0].theme == "system"


def test_a_notebook_that_turns_dark_takes_the_widget_along(opened: Opener) -> None:
    notebook = opened(of_formula(), attributes={"jpThemeLight": "true"})
    notebook.page.evaluate("document.body.dataset.jpThemeLight = 'false'")

    expect(notebook.page.locator(".wg-app")).to_have_attribute("data-theme", "dark")


def test_a_cell_looks_by_its_own_size_and_not_by_that_of_the_window(opened: Opener) -> None:
    notebook = opened(of_formula())
    cell, app = notebook.cell(0), notebook.page.locator(".wg-app")
    seen = {}
    for width in (1000, 640, 390):
        notebook.page.evaluate("width => document.getElementById('cell0').style.width = `${width}px`", width)
        cell.settle()
        cell.node("f").click()
        boxes = [cell.box_of(part) for part in (".topbar", ".drawing", ".stepper", ".sheet")]
        seen[width] = [app.bounding_box()["height"], boxes[3][0] >= boxes[1][2] - 1]  # type: ignore[index]
        assert all(box[2] <= width + 9 for box in boxes)
        cell.button("Close the card").click()

    # A cell is low: the card stands beside the picture at every width.
    assert seen == {width: [420, True] for width in (1000, 640, 390)}
    cell.tab("Table")
    assert app.bounding_box()["height"] == 704  # type: ignore[index]


def test_keys_of_the_explorer_do_not_reach_the_notebook_and_others_do(opened: Opener) -> None:
    notebook = opened(of_formula())
    notebook.cell(0).button("Step ▶").focus()
    for key in ["b", "ArrowUp", "Control+s"]:
        notebook.page.keyboard.press(key)

    assert notebook.cell(0).phase == "done"
    assert notebook.page.evaluate("pressed") == ["Control", "s"]
    assert notebook.page.locator("#cell0").get_attribute("data-lm-suppress-shortcuts") == "true"


def test_a_button_that_is_disabled_by_its_own_press_keeps_the_keys_in_the_explorer(opened: Opener) -> None:
    notebook = opened(of_formula())
    notebook.cell(0).button("Step ▶").focus()
    for _ in range(10):
        notebook.page.keyboard.press("ArrowRight")
    expect(notebook.page.locator(".wg-app")).to_be_focused()
    notebook.page.keyboard.press("r")

    assert notebook.cell(0).phase == "idle"
    assert notebook.page.evaluate("pressed") == []


def test_keys_pressed_elsewhere_are_the_notebooks(opened: Opener) -> None:
    notebook = opened(of_formula())
    notebook.page.keyboard.press("b")

    assert notebook.cell(0).phase == "idle"
    assert notebook.page.evaluate("pressed") == ["b"]


def test_a_widget_that_is_taken_away_leaves_nothing_behind(opened: Opener) -> None:
    notebook = opened(of_loss())
    notebook.cell(0).picture.wait_for()
    notebook.page.evaluate("ends[0]()")
    events = ["msg:custom", "change:step", "change:selection", "change:theme"]

    assert notebook.page.locator("#cell0 *").count() == 0
    assert notebook.page.evaluate("events => events.flatMap(event => models[0].of(event))", events) == []


def test_names_that_are_scripts_stay_text(opened: Opener) -> None:
    shown = of_formula()
    data = json.loads(shown.data)
    for node in data["circuit"]["nodes"]:
        node["names"] = [f"<img src=x onerror=alert(1)>{node['names'][0]}</script>"]
    data.pop("formula", None)
    shown.data = dump_json(data | {"leaves": {}, "live": False})
    rows = opened(shown).cell(0).rows()

    assert all(name.startswith("<img src=x") for name in rows)
