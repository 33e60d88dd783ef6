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

from wiregrad.backends import Run
from wiregrad.errors import InputError, WiregradError, shown
from wiregrad.explorer.page import STYLE, as_json, static
from wiregrad.explorer.server import Exhibit
from wiregrad.export.notebook import HTML, TEXT, mimebundle
from wiregrad.ir import Circuit

MODULE = "widget.js"
INSTALL = 'pip install "wiregrad[notebook]"'
KEPT = 100_000
"""Data of up to this many characters is stored in the widget, so that a saved notebook shows it without a kernel."""
MORE = 'to open the groups, write a page with run.to_html("page.html"), or use wiregrad explore'
"""How to see more of a large circuit than the notebook shows."""
THEMES = ("system", "light", "dark")
VIEW = "application/vnd.jupyter.widget-view+json"


class NotInstalledError(WiregradError, ImportError):
    """A package of an optional extra of wiregrad is not installed."""


class ExplorerWidget:
    """A circuit shown in a notebook; `widget` makes one.

    `step`, `selection` and `theme` are synchronized with the page. They are written as in the URL of a page: a step is
    `i` (nothing computed), `f2`, `s1`, `b3` or `d` (done), a selection is `n:NODE` or `w:READER.SLOT`.
    """

    step: str
    selection: str
    theme: str
    data: str
    session: Exhibit

    @property
    def circuit(self) -> Circuit:
        """The circuit that is shown."""
        return self.session.circuit

    @property
    def run(self) -> Run | None:
        """The latest run: the one that the widget was made with, or the last that the page asked for."""
        return self.session.run

    def heard(self, sender: Any, content: Any, buffers: Any) -> None:
        """Answer a message of the page; a message without an id is ignored."""
        mark = content.get("id") if isinstance(content, dict) else None
        if isinstance(mark, str):
            text = as_json(answer(self.session, content))
            cast(Any, self).send({"id": mark}, buffers=[text.encode()])

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        view, metadata = cast(Any, super())._repr_mimebundle_(**options) or ({}, {})
        still = mimebundle(self.circuit, self.run)
        return {kind: view[kind] for kind in view if kind != TEXT} | still, metadata


def widget(
    circuit: Circuit, run: Run | None = None, *, source: bool = False, formula: str | None = None, theme: str = "system"
) -> ExplorerWidget:
    """Return a widget that shows a circuit and a run of it; with `source` also the lines of code that made the nodes.

    >>> import wiregrad as wg
    >>> run = wg.circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10)
    >>> shown = widget(run.circuit, run)
    >>> shown.step, shown.theme, sorted(shown._repr_mimebundle_()[0])[1:]
    ('i', 'system', ['image/svg+xml', 'text/html', 'text/plain'])
    """
    if theme not in THEMES:
        raise InputError(f"wanted a theme of {', '.join(THEMES)}; got {shown(theme)}")
    widget_class = _kind()
    session = Exhibit(circuit, run, source=source, formula=formula)
    text = as_json(_data(session))
    instance: Any = widget_class(data=text if len(text) <= KEPT else "", theme=theme)
    instance.session = session
    instance.on_msg(cast(ExplorerWidget, instance).heard)
    return cast(ExplorerWidget, instance)


@cache
def _kind() -> Any:
    """Return the class of the widgets; it is made at first use, because it derives from a class of anywidget."""
    try:
        base = import_module("anywidget").AnyWidget
        traitlets = import_module("traitlets")
    except ImportError as error:
        raise NotInstalledError(f"a widget in a notebook needs anywidget: {INSTALL}") from error
    digest = hashlib.sha256(static(MODULE).encode()).hexdigest()[:16]
    traits = {
        "data": traitlets.Unicode(""),
        "step": traitlets.Unicode("i"),
        "selection": traitlets.Unicode(""),
        "theme": traitlets.Enum(THEMES, THEMES[0]),
        # Widgets on one page that have the same digest share one script.
        "bundle": traitlets.Unicode(digest),
    }
    synced = {name: trait.tag(sync=True) for name, trait in traits.items()}
    body = {**synced, "__module__": __name__, "__doc__": ExplorerWidget.__doc__, **_files()}
    return new_class(ExplorerWidget.__name__, (ExplorerWidget, base), exec_body=lambda space: space.update(body))


def _files() -> dict[str, Any]:
    """Return the script and style for anywidget: their paths in the package, or their texts."""
    folder = files("wiregrad.explorer") / "static"
    with as_file(folder / MODULE) as module, as_file(folder / STYLE) as style:
        # Files of a package inside an archive are extracted to temporary paths; then the texts are used instead.
        is_permanent = str(module) == str(folder / MODULE)
        return {"_esm": module, "_css": style} if is_permanent else {"_esm": static(MODULE), "_css": static(STYLE)}


def answer(session: Exhibit, question: dict[str, Any]) -> dict[str, Any]:
    """Answer a question of the page: for its data, or for a run at other inputs.

    >>> import wiregrad as wg
    >>> session = Exhibit(wg.circuit("y = x * x"))
    >>> answer(session, {"ask": "run", "leaves": {"x": 3}})["run"]["grads"]
    [6.0, 1.0]
    >>> answer(session, {"ask": "run", "leaves": {"z": 3}})["error"]
    "there is no input called 'z'; the inputs are x"
    """
    try:
        return _answered(session, question)
    except WiregradError as error:
        # Only the first line, as in the server: the others may contain the path of a file.
        return {"error": str(error).partition("\n")[0]}


def _answered(session: Exhibit, question: dict[str, Any]) -> dict[str, Any]:
    asked = question.get("ask")
    leaves = question.get("leaves")
    if asked == "data":
        return _data(session)
    if asked != "run" or not isinstance(leaves, dict):
        raise InputError('wanted {"ask": "data"} or {"ask": "run", "leaves": {"NAME": VALUE}}')
    return session.rerun(leaves)


def _data(session: Exhibit) -> dict[str, Any]:
    """Return the JSON that the page starts with; in a notebook it cannot ask for views of a large circuit."""
    data = session.data()
    more = {"note": f"{data['note']}; {MORE}"} if data["server"]["views"] else {}
    return data | more | {"server": data["server"] | {"views": False}}


@dataclass(frozen=True, repr=False)
class Still:
    """A picture instead of the widget, and a line that says how to install the widget."""

    circuit: Circuit
    run: Run | None = None

    def __repr__(self) -> str:
        return f"a picture of {self.circuit.name}; {self.note}"

    @property
    def note(self) -> str:
        """How to install the widget."""
        return f"to step through it and change it here: {INSTALL}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = mimebundle(self.circuit, self.run)
        line = f'<p style="font:12px sans-serif;margin:4px 0">{escape(self.note)}</p>'
        added = {HTML: line, TEXT: f"\n\n{self.note}"}
        return {kind: text + added.get(kind, "") for kind, text in bundle.items()}


def show(
    circuit: Circuit, run: Run | None = None, *, source: bool = False, formula: str | None = None
) -> ExplorerWidget | Still:
    """Return what a notebook shows: the widget, or without anywidget a picture that says what to install.

    >>> import wiregrad as wg
    >>> circuit = wg.circuit("y = tanh(x)")
    >>> show(circuit).circuit is circuit
    True
    """
    try:
        return widget(circuit, run, source=source, formula=formula)
    except NotInstalledError:
        return Still(circuit, run)


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook.

    >>> in_notebook()
    False
    """
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None
