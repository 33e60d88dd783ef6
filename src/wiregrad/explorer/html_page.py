"""The page as one HTML file that contains its style, script and data and fetches nothing.

Invariants: the content security policy allows the page's own scripts and its style by their hashes, so no text of a
circuit can become either; the data is JSON in which `<`, `>` and `&` are escaped. The explorer has two scripts: the
first draws the circuit, the second waits until a drawer or a card is opened.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from wiregrad.backends import RunRecord
from wiregrad.draw.layout.boxes import escape_unprintable
from wiregrad.errors import FileAccessError, FileFormatError
from wiregrad.explorer.page_data import build_file_data
from wiregrad.ir import CircuitGraph

SCRIPT_FILE = "explorer.js"
DRAWERS_SCRIPT_FILE = "drawers.js"
"""The script of the drawers and cards: it only defines a function, which the first script calls when it needs it."""
STYLE_FILE = "explorer.css"
LARGE_SCRIPT_FILE = "large.js"
LARGE_STYLE_FILE = "large.css"
"""The script and the style of pages that hold a summary: of a large circuit, or of a training."""
SHEET_FILES = ("sheet.js", "sheet.css")
"""The script and the style of pages that ask the questions of a set, and of the table of a class."""
LEARN_SCRIPT_FILE = "learn.js"
LEARN_STYLE_FILE = "learn.css"
"""The script and the style of pages that hold lessons."""
DATA_ELEMENT_ID = "wiregrad-data"
"""The id of the element that holds the data."""
ROOT_ELEMENT_ID = "explorer"
"""The id of the element that the script fills."""

PAGE_TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
{policy}<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
{style}
</head>
<body>
<div id="{root}"></div>
<noscript>This page draws a circuit with a script of its own. Allow scripts for it, or draw a picture without one:
wiregrad draw FORMULA -o picture.svg</noscript>
{data}
{script}
</body>
</html>
"""
_ELEMENT_END = re.compile(r"</(?:script|style)|<!--", re.IGNORECASE)
_JSON_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def to_html(
    circuit: CircuitGraph,
    run: RunRecord | None = None,
    title: str | None = None,
    *,
    source: bool = False,
    formula: str | None = None,
) -> str:
    """Return the explorer on a circuit, and a run of it, as one HTML file that needs no network.

    `source` adds the lines of code that made the nodes; without it, the page holds only the names of source files.

    >>> import wiregrad as wg
    >>> page = to_html(wg.circuit("y = tanh(x)"))
    >>> page.startswith("<!doctype html>"), "connect-src 'none'" in page
    (True, True)
    """
    return render_page(build_file_data(circuit, run, source=source, formula=formula), title or circuit.name)


def render_page(data: object, title: str) -> str:
    """Return the page as one HTML file that contains its data.

    >>> "<title>a &lt; b" in render_page({}, "a < b")
    True
    """
    names, style_name = choose_files(data)
    # The page writes itself down when its main script begins, so everything else must be there before it.
    scripts = [read_inline_file(name) for name in reversed(names)]
    style = read_inline_file(style_name)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{build_content_policy(scripts, style)}">\n'
    elements = "\n".join(f"<script>{script}</script>" for script in scripts)
    return _fill_template(data, title, policy=meta, style=f"<style>{style}</style>", script=elements)


def render_served_page(data: object, title: str) -> str:
    """Return the page that the server sends: it fetches style and script, and the policy is in the response headers.

    >>> '<script src="/explorer.js" defer></script>' in render_served_page({}, "f")
    True
    """
    # An empty icon keeps browsers from requesting /favicon.ico.
    names, style = choose_files(data)
    links = f'<link rel="icon" href="data:,">\n<link rel="stylesheet" href="/{style}">'
    scripts = "\n".join(f'<script src="/{name}" defer></script>' for name in names)
    return _fill_template(data, title, policy="", style=links, script=scripts)


def choose_files(data: object) -> tuple[tuple[str, ...], str]:
    """Return the scripts of a page, the main one first, and its style.

    >>> choose_files({}), choose_files({"summary": {}})
    ((('explorer.js', 'drawers.js'), 'explorer.css'), (('large.js',), 'large.css'))
    """
    parts = data.keys() if isinstance(data, dict) else set()
    if "course" in parts:
        return (LEARN_SCRIPT_FILE,), LEARN_STYLE_FILE
    if {"sheet", "gradebook"} & parts:
        return (SHEET_FILES[0],), SHEET_FILES[1]
    if {"summary", "training"} & parts:
        return (LARGE_SCRIPT_FILE,), LARGE_STYLE_FILE
    return (SCRIPT_FILE, DRAWERS_SCRIPT_FILE), STYLE_FILE


def _fill_template(data: object, title: str, **parts: str) -> str:
    block = f'<script type="application/json" id="{DATA_ELEMENT_ID}">{dump_json(data)}</script>'
    return PAGE_TEMPLATE.format(title=f"{escape_title(title)} - wiregrad", root=ROOT_ELEMENT_ID, data=block, **parts)


def build_content_policy(scripts: Sequence[str], style: str) -> str:
    """Return the content security policy of a single file: its scripts, its style, images in data URLs, nothing else.

    >>> build_content_policy([""], "").startswith("default-src 'none'; script-src 'sha256-")
    True
    """
    hashes = " ".join(f"'{hash_source(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src '{hash_source(style)}'; img-src data:; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )


def hash_source(text: str) -> str:
    """Return the hash of a script or style, as a content security policy writes it.

    >>> hash_source("")
    'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='
    """
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def dump_json(data: object) -> str:
    """Return data as JSON that is safe inside an HTML element.

    >>> dump_json({"name": "</script>"})
    '{"name":"\\\\u003c/script\\\\u003e"}'
    """
    return json.dumps(data, separators=(",", ":"), allow_nan=False).translate(_JSON_ESCAPES)


def escape_title(title: str) -> str:
    """Return a title as HTML text.

    >>> escape_title("a<b")
    'a&lt;b'
    """
    return html.escape(escape_unprintable(title).encode("utf-8", "replace").decode())


@cache
def read_static_file(name: str) -> str:
    """Return the text of a file of the page, which the package contains.

    >>> read_static_file("nothing.js")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wiregrad.errors.FileAccessError: nothing.js of the explorer's page is not in this installation of wiregrad; ...
    """
    try:
        return (files("wiregrad.explorer") / "static" / name).read_text("utf-8")
    except OSError:
        raise FileAccessError(
            f"{name} of the explorer's page is not in this installation of wiregrad; "
            "a release has it, and in a clone `make page` builds it"
        ) from None


@cache
def read_inline_file(name: str) -> str:
    """Return the text of a file to put into the page; refuse one that would end its own HTML element."""
    text = read_static_file(name).replace("\r\n", "\n")
    end = _ELEMENT_END.search(text)
    if end is not None:
        raise FileFormatError(
            f"{name} contains {end[0]!r}, so it cannot be embedded in a page; rebuild it with `make page`"
        )
    return text
