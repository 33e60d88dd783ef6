"""The explorer in a notebook: a widget that shows a circuit and has the kernel run it at other inputs.

Kept true: without anywidget nothing breaks, and who asks for a widget is told what to install; a page can ask for the
data and for a run and for nothing else, by the rules of the local server; a picture and a text stand beside the
widget, for wherever widgets do not run.
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
"""Up to so many bytes the data is part of the widget, so that a saved notebook shows it without a kernel."""
MORE = 'to open the groups, write a page with run.to_html("page.html"), or use wiregrad explore'
"""How to see more of a large circuit than a notebook shows."""
THEMES = ("system", "light", "dark")
VIEW = "application/vnd.jupyter.widget-view+json"


class NotInstalledError(WiregradError, ImportError):
    """A package that only an extra of wiregrad brings is not there."""


class ExplorerWidget:
    """A circuit on show in a notebook; `widget` makes one.

    `step`, `selection` and `theme` follow the page, and the page follows them. They are written as in the address of a
    page: a step is `i` (nothing computed), `f2`, `s1`, `b3` or `d` (done), a selection `n:NODE` or `w:READER.SLOT`.
    """

    step: str
    selection: str
    theme: str
    data: str
    exhibit: Exhibit

    @property
    def circuit(self) -> Circuit:
        """The circuit on show."""
        return self.exhibit.circuit

    @property
    def run(self) -> Run | None:
        """The latest run: the one that was given, or what the page asked for since."""
        return self.exhibit.run

    def heard(self, sender: Any, content: Any, buffers: Any) -> None:
        """Answer a message of the page; what bears no mark is nobody's question."""
        mark = content.get("id") if isinstance(content, dict) else None
        if isinstance(mark, str):
            text = as_json(answer(self.exhibit, content))
            cast(Any, self).send({"id": mark}, buffers=[text.encode()])

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        found = cast(Any, super())._repr_mimebundle_(**options)
        view, metadata = ({}, {}) if found is None else found
        still = mimebundle(self.circuit, self.run)
        return {kind: view[kind] for kind in view if kind != TEXT} | still, metadata


def widget(
    circuit: Circuit, run: Run | None = None, *, source: bool = False, formula: str | None = None, theme: str = "system"
) -> ExplorerWidget:
    """Return a widget that shows a circuit, and a run of it; with `source` also the lines of code that made the nodes.

    >>> import wiregrad as wg
    >>> run = wg.circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10)
    >>> shown = widget(run.circuit, run)
    >>> shown.step, shown.theme, sorted(shown._repr_mimebundle_()[0])[1:]
    ('i', 'system', ['image/svg+xml', 'text/html', 'text/plain'])
    """
    if theme not in THEMES:
        raise InputError(f"wanted a theme of {', '.join(THEMES)}; got {shown(theme)}")
    kind, exhibit = _kind(), Exhibit(circuit, run, source=source, formula=formula)
    text = as_json(_data(exhibit))
    made: Any = kind(data=text if len(text) <= KEPT else "", theme=theme)
    made.exhibit = exhibit
    made.on_msg(made.heard)
    return cast(ExplorerWidget, made)


@cache
def _kind() -> Any:
    """Return the class of the widgets, made when it is first needed, since it stands on anywidget."""
    try:
        base, traitlets = import_module("anywidget").AnyWidget, import_module("traitlets")
    except ImportError as error:
        raise NotInstalledError(f"a widget in a notebook needs anywidget: {INSTALL}") from error
    digest = hashlib.sha256(static(MODULE).encode()).hexdigest()[:16]
    traits = {
        "data": traitlets.Unicode(""),
        "step": traitlets.Unicode("i"),
        "selection": traitlets.Unicode(""),
        "theme": traitlets.Enum(THEMES, THEMES[0]),
        # Tells the widgets of one page which of them can share a script.
        "bundle": traitlets.Unicode(digest),
    }
    own = {name: trait.tag(sync=True) for name, trait in traits.items()}
    body = {**own, "__module__": __name__, "__doc__": ExplorerWidget.__doc__, **_files()}
    return new_class(ExplorerWidget.__name__, (ExplorerWidget, base), exec_body=lambda space: space.update(body))


def _files() -> dict[str, Any]:
    """Return script and style as anywidget reads them: paths inside the package."""
    folder = files("wiregrad.explorer") / "static"
    with as_file(folder / MODULE) as module, as_file(folder / STYLE) as style:
        # A package inside an archive has paths for a moment only; then the texts themselves do.
        lasting = str(module) == str(folder / MODULE)
        return {"_esm": module, "_css": style} if lasting else {"_esm": static(MODULE), "_css": static(STYLE)}


def answer(exhibit: Exhibit, question: dict[str, Any]) -> dict[str, Any]:
    """Return what the kernel says to a question of the page: for the data, or for a run at other inputs.

    >>> import wiregrad as wg
    >>> exhibit = Exhibit(wg.circuit("y = x * x"))
    >>> answer(exhibit, {"ask": "run", "leaves": {"x": 3}})["run"]["grads"]
    [6.0, 1.0]
    >>> answer(exhibit, {"ask": "run", "leaves": {"z": 3}})["error"]
    "there is no input called 'z'; the inputs are x"
    """
    try:
        return _answered(exhibit, question)
    except WiregradError as error:
        # The first line alone, as the server has it.
        return {"error": str(error).partition("\n")[0]}


def _answered(exhibit: Exhibit, question: dict[str, Any]) -> dict[str, Any]:
    asked, leaves = question.get("ask"), question.get("leaves")
    if asked == "data":
        return _data(exhibit)
    if asked != "run" or not isinstance(leaves, dict):
        raise InputError('wanted {"ask": "data"} or {"ask": "run", "leaves": {"NAME": VALUE}}')
    return exhibit.rerun(leaves)


def _data(exhibit: Exhibit) -> dict[str, Any]:
    """Return what a page begins with; views of a large circuit are not asked for by message."""
    found = exhibit.data()
    more = {"note": f"{found['note']}; {MORE}"} if found["server"]["views"] else {}
    return found | more | {"server": found["server"] | {"views": False}}


@dataclass(frozen=True, repr=False)
class Still:
    """A picture in the place of a widget, and a line that says how to get the widget."""

    circuit: Circuit
    run: Run | None = None

    def __repr__(self) -> str:
        return f"a picture of {self.circuit.name}; {self.note}"

    @property
    def note(self) -> str:
        """How to get the widget."""
        return f"to step through it and change it here: {INSTALL}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        found = mimebundle(self.circuit, self.run)
        line = f'<p style="font:12px sans-serif;margin:4px 0">{escape(self.note)}</p>'
        added = {HTML: line, TEXT: f"\n\n{self.note}"}
        return {kind: text + added.get(kind, "") for kind, text in found.items()}


def show(
    circuit: Circuit, run: Run | None = None, *, source: bool = False, formula: str | None = None
) -> ExplorerWidget | Still:
    """Return what a notebook shows of a circuit: the widget, or without anywidget a picture that says what is missing.

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
    """Return whether this Python is the kernel of a notebook, which can show more than text.

    >>> in_notebook()
    False
    """
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None
