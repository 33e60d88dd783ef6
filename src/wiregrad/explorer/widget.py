"""The explorer in a notebook: a widget that shows a circuit and lets the kernel run it at other inputs.

Invariants: without anywidget everything else works, and asking for a widget gives the install command; the page can ask
for its data and for a run and for nothing else, under the rules of the local server; the output of a cell also holds a
picture and a text, for viewers that run no widgets.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import import_module
from importlib.resources import as_file, files
from types import new_class
from typing import Any, cast

from wiregrad.backends import RunRecord
from wiregrad.draw.text import HTML_TYPE, TEXT_TYPE, build_mimebundle
from wiregrad.errors import InputError, NotInstalledError, WiregradError, short_repr
from wiregrad.explorer.page_data import MAX_PAGE_NODES, STYLE_FILE, ExplorerSession, dump_json, read_static_file
from wiregrad.ir import CircuitGraph

WIDGET_SCRIPT = "widget.js"
INSTALL_COMMAND = 'pip install "wiregrad[notebook]"'
MAX_STORED_DATA = 100_000
"""Data of up to this many characters is stored in the widget, so that a saved notebook shows it without a kernel."""
LARGE_CIRCUIT_HINT = 'to open the groups, write a page with run.to_html("page.html"), or use wiregrad explore'
"""How to see more of a large circuit than the notebook shows."""
THEMES = ("system", "light", "dark")
WIDGET_MIME_TYPE = "application/vnd.jupyter.widget-view+json"


class ExplorerWidget:
    """A circuit shown in a notebook; `widget` makes one.

    `step`, `selection` and `theme` are synchronized with the page. They are written as in the URL of a page: a step is
    `i` (nothing computed), `f2`, `s1`, `b3` or `d` (done), a selection is `n:NODE` or `w:READER.SLOT`.
    """

    step: str
    selection: str
    theme: str
    data: str
    session: ExplorerSession

    @property
    def circuit(self) -> CircuitGraph:
        """The circuit that is shown."""
        return self.session.circuit

    @property
    def run(self) -> RunRecord | None:
        """The latest run: the one that the widget was made with, or the last that the page asked for."""
        return self.session.run

    def answer_message(self, sender: object, content: object, buffers: object) -> None:
        """Answer a message of the page; a message without an id is ignored."""
        if not isinstance(content, dict):
            return
        mark = content.get("id")
        if isinstance(mark, str):
            text = dump_json(answer_question(self.session, content))
            cast(Any, self).send({"id": mark}, buffers=[text.encode()])

    def _repr_mimebundle_(self, **options: object) -> tuple[dict[str, Any], dict[str, Any]]:
        view, metadata = cast(Any, super())._repr_mimebundle_(**options) or ({}, {})
        still = build_mimebundle(self.circuit, self.run)
        return {kind: view[kind] for kind in view if kind != TEXT_TYPE} | still, metadata


def widget(
    circuit: CircuitGraph,
    run: RunRecord | None = None,
    *,
    source: bool = False,
    formula: str | None = None,
    theme: str = "system",
) -> ExplorerWidget:
    """Return a widget that shows a circuit and a run of it; with `source` also the lines of code that made the nodes.

    >>> import wiregrad as wg
    >>> run = wg.circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10)
    >>> shown = widget(run.circuit, run)
    >>> shown.step, shown.theme, sorted(shown._repr_mimebundle_()[0])[1:]
    ('i', 'system', ['image/svg+xml', 'text/html', 'text/plain'])
    """
    if theme not in THEMES:
        raise InputError(f"theme must be one of {', '.join(THEMES)}; got {short_repr(theme)}")
    widget_class = _build_widget_class()
    session = ExplorerSession(circuit, run, source=source, formula=formula)
    text = dump_json(_build_widget_data(session))
    instance: Any = widget_class(data=text if len(text) <= MAX_STORED_DATA else "", theme=theme)
    instance.session = session
    instance.on_msg(cast(ExplorerWidget, instance).answer_message)
    return cast(ExplorerWidget, instance)


@cache
def _build_widget_class() -> Any:
    """Return the class of the widgets; it is made at first use, because it derives from a class of anywidget."""
    try:
        base = import_module("anywidget").AnyWidget
        traitlets = import_module("traitlets")
    except ImportError as error:
        raise NotInstalledError(f"a widget in a notebook needs anywidget: {INSTALL_COMMAND}") from error
    digest = hashlib.sha256(read_static_file(WIDGET_SCRIPT).encode()).hexdigest()[:16]
    traits = {
        "data": traitlets.Unicode(""),
        "step": traitlets.Unicode("i"),
        "selection": traitlets.Unicode(""),
        "theme": traitlets.Enum(THEMES, THEMES[0]),
        # Widgets on one page that have the same digest share one script.
        "bundle": traitlets.Unicode(digest),
    }
    synced = {name: trait.tag(sync=True) for name, trait in traits.items()}
    body = {**synced, "__module__": __name__, "__doc__": ExplorerWidget.__doc__, **_find_asset_files()}
    return new_class(ExplorerWidget.__name__, (ExplorerWidget, base), exec_body=lambda space: space.update(body))


def _find_asset_files() -> dict[str, Any]:
    """Return the script and style for anywidget: their paths in the package, or their texts."""
    folder = files("wiregrad.explorer") / "static"
    with as_file(folder / WIDGET_SCRIPT) as module, as_file(folder / STYLE_FILE) as style:
        # Files of a package inside an archive are extracted to temporary paths; then the texts are used instead.
        is_permanent = str(module) == str(folder / WIDGET_SCRIPT)
        return (
            {"_esm": module, "_css": style}
            if is_permanent
            else {"_esm": read_static_file(WIDGET_SCRIPT), "_css": read_static_file(STYLE_FILE)}
        )


def answer_question(session: ExplorerSession, question: dict[str, Any]) -> dict[str, Any]:
    """Answer a question of the page: for its data, or for a run at other inputs.

    >>> import wiregrad as wg
    >>> session = ExplorerSession(wg.circuit("y = x * x"))
    >>> answer_question(session, {"ask": "run", "leaves": {"x": 3}})["run"]["grads"]
    [6.0, 1.0]
    >>> answer_question(session, {"ask": "run", "leaves": {"z": 3}})["error"]
    "there is no input called 'z'; the input is x"
    """
    try:
        return _dispatch_question(session, question)
    except WiregradError as error:
        # Only the first line, as in the server: the others may contain the path of a file.
        return {"error": str(error).partition("\n")[0]}


def _dispatch_question(session: ExplorerSession, question: dict[str, Any]) -> dict[str, Any]:
    asked = question.get("ask")
    leaves = question.get("leaves")
    if asked == "data":
        return _build_widget_data(session)
    if asked != "run" or not isinstance(leaves, dict):
        raise InputError('wanted {"ask": "data"} or {"ask": "run", "leaves": {"NAME": VALUE}}')
    return session.rerun(leaves)


def _build_widget_data(session: ExplorerSession) -> dict[str, Any]:
    """Return the JSON that the page starts with; of a large circuit it says where all of it can be seen."""
    data = session.notebook_data()
    is_large = session.circuit.size > MAX_PAGE_NODES
    return data | ({"note": f"{data['note']}; {LARGE_CIRCUIT_HINT}"} if is_large else {})


@dataclass(frozen=True, repr=False)
class StillPicture:
    """A picture instead of the widget, and a line that says how to install the widget."""

    circuit: CircuitGraph
    run: RunRecord | None = None

    def __repr__(self) -> str:
        return f"a picture of {self.circuit.name}; {self.note}"

    @property
    def note(self) -> str:
        """How to install the widget."""
        return f"to step through it and change it here: {INSTALL_COMMAND}"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        bundle = build_mimebundle(self.circuit, self.run)
        line = f'<p style="font:12px sans-serif;margin:4px 0">{escape(self.note)}</p>'
        added = {HTML_TYPE: line, TEXT_TYPE: f"\n\n{self.note}"}
        return {kind: text + added.get(kind, "") for kind, text in bundle.items()}


def show_in_notebook(
    circuit: CircuitGraph, run: RunRecord | None = None, *, source: bool = False, formula: str | None = None
) -> ExplorerWidget | StillPicture:
    """Return what a notebook shows: the widget, or without anywidget a picture that says what to install.

    >>> import wiregrad as wg
    >>> circuit = wg.circuit("y = tanh(x)")
    >>> show_in_notebook(circuit).circuit is circuit
    True
    """
    try:
        return widget(circuit, run, source=source, formula=formula)
    except NotInstalledError:
        return StillPicture(circuit, run)


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook.

    >>> in_notebook()
    False
    """
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None
