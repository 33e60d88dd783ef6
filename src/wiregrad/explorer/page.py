"""The page as one HTML file that contains its style, script and data and fetches nothing.

Invariants: the content security policy allows one script and one style by their hashes, so no text of a circuit can
become either; the data is JSON in which `<`, `>` and `&` are escaped.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from base64 import b64encode
from functools import cache
from importlib.resources import files
from typing import Any

from wiregrad.backends import Run
from wiregrad.errors import FileAccessError, FileFormatError
from wiregrad.explorer.data import page_data
from wiregrad.export.letters import printable
from wiregrad.ir import Circuit

SCRIPT = "explorer.js"
STYLE = "explorer.css"
DATA = "wiregrad-data"
"""The id of the element that holds the data."""
ROOT = "explorer"
"""The id of the element that the script fills."""

TEMPLATE = """<!doctype html>
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
_CLOSES = re.compile(r"</(?:script|style)|<!--", re.IGNORECASE)
_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def to_html(
    circuit: Circuit,
    run: Run | None = None,
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
    return page_of(page_data(circuit, run, source=source, formula=formula), title or circuit.name)


def page_of(data: Any, title: str) -> str:
    """Return the page as one HTML file that contains its data.

    >>> "<title>a &lt; b" in page_of({}, "a < b")
    True
    """
    script = inline(SCRIPT)
    style = inline(STYLE)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy(script, style)}">\n'
    parts = {"style": f"<style>{style}</style>", "script": f"<script>{script}</script>"}
    return _filled(data, title, policy=meta, **parts)


def served_page(data: Any, title: str) -> str:
    """Return the page that the server sends: it fetches style and script, and the policy is in the response headers.

    >>> '<script src="/explorer.js" defer></script>' in served_page({}, "f")
    True
    """
    # An empty icon keeps browsers from requesting /favicon.ico.
    style = f'<link rel="icon" href="data:,">\n<link rel="stylesheet" href="/{STYLE}">'
    script = f'<script src="/{SCRIPT}" defer></script>'
    return _filled(data, title, policy="", style=style, script=script)


def _filled(data: Any, title: str, **parts: str) -> str:
    block = f'<script type="application/json" id="{DATA}">{as_json(data)}</script>'
    return TEMPLATE.format(title=f"{titled(title)} - wiregrad", root=ROOT, data=block, **parts)


def policy(script: str, style: str) -> str:
    """Return the content security policy of a single file: this script, this style, images in data URLs, nothing else.

    >>> policy("", "").startswith("default-src 'none'; script-src 'sha256-")
    True
    """
    return (
        f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; img-src data:; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )


def digest(text: str) -> str:
    """Return the hash of a script or style, as a content security policy writes it.

    >>> digest("")
    'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='
    """
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def as_json(data: Any) -> str:
    """Return data as JSON that is safe inside an HTML element.

    >>> as_json({"name": "</script>"})
    '{"name":"\\\\u003c/script\\\\u003e"}'
    """
    return json.dumps(data, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)


def titled(title: str) -> str:
    """Return a title as HTML text.

    >>> titled("a<b")
    'a&lt;b'
    """
    return html.escape(printable(title).encode("utf-8", "replace").decode())


@cache
def static(name: str) -> str:
    """Return the text of a file of the page, which the package contains.

    >>> static("nothing.js")  # doctest: +ELLIPSIS
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
def inline(name: str) -> str:
    """Return the text of a file to put into the page; refuse one that would end its own HTML element."""
    text = static(name).replace("\r\n", "\n")
    end = _CLOSES.search(text)
    if end is not None:
        raise FileFormatError(f"{name} has {end[0]!r} in it and cannot stand inside a page; build it with `make page`")
    return text
