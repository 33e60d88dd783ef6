"""The widget of notebooks, from Python: what it holds and answers, and what stands in its place without anywidget."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import reduce
from typing import Any

import numpy as np
import pytest
from traitlets import TraitError

import wiregrad as wg
from wiregrad.draw.text import HTML_TYPE, MAX_OUTPUT_BYTES, SVG_TYPE, TEXT_TYPE
from wiregrad.errors import InputError
from wiregrad.explorer import widget as module
from wiregrad.explorer.page_data import ExplorerSession, read_static_file
from wiregrad.explorer.widget import (
    INSTALL_COMMAND,
    MAX_STORED_DATA,
    WIDGET_MIME_TYPE,
    ExplorerWidget,
    NotInstalledError,
    StillPicture,
    answer_question,
    in_notebook,
    show_in_notebook,
    widget,
)

from ..support.limits import PATIENCE

ELEMENTS = {"x[0]": 0.5, "x[1]": -1.0, "x[2]": 2.0}
"""The elements of the array that the circuit reads."""


def loss(x: np.ndarray, scale: float) -> Any:
    return np.sum(np.tanh(x) * scale)


def example() -> ExplorerWidget:
    run = wg.run(loss, np.array([0.5, -1.0, 2.0]), 3.0)
    return widget(run.circuit, run)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide anywidget."""
    monkeypatch.setitem(sys.modules, "anywidget", None)
    module._build_widget_class.cache_clear()


def replies(shown: Any, content: Any) -> list[tuple[Any, Any]]:
    """Let a widget hear a message, and return what it sends."""
    sent: list[tuple[Any, Any]] = []
    shown.send = lambda content, buffers: sent.append((content, json.loads(buffers[0])))
    shown._handle_custom_msg(content, [])
    return sent


def test_a_widget_holds_the_data_of_a_small_circuit() -> None:
    data = json.loads(example().data)

    assert data["leaves"] == ELEMENTS | {"scale": 3.0}
    assert data["server"] == {"run": True, "views": False}


def test_the_data_of_a_large_circuit_is_sent_only_when_asked_for() -> None:
    run = wg.run(lambda x: reduce(lambda y, _: np.tanh(y), range(1500), x), 0.5)
    shown = widget(run.circuit, run)
    [(mark, data)] = replies(shown, {"id": "q1", "ask": "data"})

    assert shown.data == ""
    assert mark == {"id": "q1"}
    assert len(data["circuit"]["nodes"]) == 1501
    assert len(json.dumps(data)) > MAX_STORED_DATA


def test_a_summary_in_a_notebook_says_how_to_see_more() -> None:
    run = wg.run(lambda x: reduce(lambda y, _: np.tanh(y), range(20_001), x), 0.5)
    data = module._build_widget_data(ExplorerSession(run.circuit, run))

    assert data["note"].startswith("a summary: ")
    assert data["note"].endswith('write a page with run.to_html("page.html"), or use wiregrad explore')


def test_script_and_style_are_paths_in_the_package() -> None:
    found = [getattr(module._build_widget_class(), name) for name in ("_esm", "_css")]

    assert [each._path.name for each in found] == ["widget.js", "explorer.css"]
    assert [str(each) for each in found] == [read_static_file("widget.js"), read_static_file("explorer.css")]


def test_a_widget_shows_itself_a_picture_a_script_free_page_and_text_in_this_order() -> None:
    data, _ = example()._repr_mimebundle_()

    assert [*data] == [WIDGET_MIME_TYPE, SVG_TYPE, HTML_TYPE, TEXT_TYPE]
    assert "<script" not in data[HTML_TYPE]
    assert "tanh" in data[TEXT_TYPE]
    assert sum(len(str(part)) for part in data.values()) <= MAX_OUTPUT_BYTES


def test_the_kernel_runs_the_circuit_at_other_leaves() -> None:
    shown = example()
    [(_, told)] = replies(shown, {"id": "q", "ask": "run", "leaves": {"scale": 6}})

    assert shown.run is not None
    assert shown.run.values[-1] == loss(np.array([0.5, -1.0, 2.0]), 6.0)
    assert told["run"]["values"][-1] == shown.run.values[-1]
    assert told["leaves"] == ELEMENTS | {"scale": 6.0}


def test_a_picture_beside_the_widget_shows_the_latest_run() -> None:
    shown = example()
    before = shown._repr_mimebundle_()[0][TEXT_TYPE]
    replies(shown, {"id": "q", "ask": "run", "leaves": {"scale": 6}})

    assert shown._repr_mimebundle_()[0][TEXT_TYPE] != before


def test_a_run_that_would_have_gone_another_way_says_so() -> None:
    run = wg.run(lambda x: x * x if x > 0 else -x, 2.0)
    told = answer_question(ExplorerSession(run.circuit, run), {"ask": "run", "leaves": {run.circuit.inputs[0]: -2.0}})

    assert "another branch" in told["note"]


@pytest.mark.parametrize(
    "question",
    [
        {},
        {"ask": "file", "path": "/etc/passwd"},
        {"ask": ["run"], "leaves": {"scale": 1.0}},
        {"ask": "run"},
        {"ask": "run", "leaves": [1.0]},
        {"ask": "run", "leaves": {"other": 1.0}},
        {"ask": "run", "leaves": {"scale": "six"}},
        {"ask": "run", "leaves": {"scale": None}},
        {"ask": "run", "leaves": {"scale": {}}},
        {"ask": "run", "leaves": {"scale": [[1.0], [1.0, 2.0]]}},
        {"ask": "run", "leaves": {"x": [1.0]}},
        {"ask": "run", "leaves": {1: 1.0}},
    ],
)
def test_a_wrong_question_is_answered_with_one_line_and_changes_nothing(question: dict[str, Any]) -> None:
    shown = example()
    before = shown.run
    [(_, told)] = replies(shown, {"id": "q", **question})

    assert [*told] == ["error"]
    assert "\n" not in told["error"]
    assert shown.run is before


@pytest.mark.parametrize("content", [None, [], "run", {"ask": "data"}, {"id": 7, "ask": "data"}])
def test_a_message_without_a_mark_is_not_answered(content: Any) -> None:
    assert replies(example(), content) == []


def test_numbers_that_json_does_not_have_are_words() -> None:
    shown = example()
    [(_, told)] = replies(shown, {"id": "q", "ask": "run", "leaves": {"scale": "nan"}})

    assert told["leaves"] == ELEMENTS | {"scale": "nan"}
    assert told["run"]["values"][-1] == "nan"


def test_a_message_says_no_more_of_a_file_than_its_name() -> None:
    [(_, told)] = replies(example(), {"id": "q", "ask": "data"})

    assert {node["place"]["file"] for node in told["circuit"]["nodes"] if "place" in node} == {"test_widget.py"}


def test_a_theme_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match="system, light, dark; got 'pink'"):
        widget(wg.circuit("x * x"), theme="pink")
    with pytest.raises(TraitError, match="theme"):
        example().theme = "pink"


def test_a_circuit_without_a_run_can_be_shown_and_run() -> None:
    shown = widget(wg.trace(np.sum, np.ones(3)))
    name = shown.circuit.inputs[0]
    [(_, told)] = replies(shown, {"id": "q", "ask": "run", "leaves": {name: [1.0, 2.0, 4.0]}})

    assert told["run"]["values"][-1] == 7.0


@pytest.mark.usefixtures("bare")
def test_without_anywidget_the_error_has_the_line_that_installs_it() -> None:
    with pytest.raises(NotInstalledError) as caught:
        widget(wg.circuit("x * x"))

    assert str(caught.value).endswith('pip install "wiregrad[notebook]"')
    assert isinstance(caught.value, ImportError)


@pytest.mark.usefixtures("bare")
def test_without_anywidget_a_picture_and_a_line_are_shown() -> None:
    run = wg.circuit("y = tanh(x)").run(x=0.5)
    shown = show_in_notebook(run.circuit, run)
    found = shown._repr_mimebundle_()

    assert isinstance(shown, StillPicture)
    assert [*found] == [SVG_TYPE, HTML_TYPE, TEXT_TYPE]
    assert INSTALL_COMMAND in found[TEXT_TYPE]
    assert "pip install &quot;wiregrad[notebook]&quot;" in found[HTML_TYPE]
    assert "0.46" in found[SVG_TYPE]
    assert INSTALL_COMMAND in repr(shown)


def test_with_anywidget_the_widget_is_shown() -> None:
    assert isinstance(show_in_notebook(wg.circuit("x * x")), ExplorerWidget)


CELL = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.display_formatter.active_types = shell.display_formatter.format_types
shell.displayhook.write_format_data = lambda data, metadata=None: print(data["image/svg+xml"])
shell.run_cell("import wiregrad as wg; x = wg.Value(3.0, name='x'); total = x * x + x; total")
"""


def test_a_value_at_the_end_of_a_cell_has_the_name_of_its_variable() -> None:
    done = subprocess.run([sys.executable, "-c", CELL], capture_output=True, text=True, check=True, timeout=PATIENCE)

    assert re.findall(r">(total|obj)<", done.stdout) == ["total", "total"]


def test_importing_the_module_imports_no_widget_package() -> None:
    code = "import sys, wiregrad.explorer.widget; print({'anywidget', 'ipywidgets', 'IPython'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)

    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(("shell", "found"), [(None, False), (object(), False), (type("Z", (), {"kernel": 1})(), True)])
def test_only_a_shell_with_a_kernel_is_a_notebook(monkeypatch: pytest.MonkeyPatch, shell: Any, found: bool) -> None:
    stand_in = type("IPython", (), {"get_ipython": staticmethod(lambda: shell)})
    monkeypatch.setitem(sys.modules, "IPython", stand_in)

    assert in_notebook() is found
