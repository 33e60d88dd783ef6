"""Write the table of rooms in docs/architecture.md: packages, their sizes, and the first line of their docstrings.

`docs/generate.py` calls it; what counts as a module and a line is decided in `tools/house.py`.
"""

from __future__ import annotations

import ast
import re
import runpy
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
HOUSE = runpy.run_path(str(ROOT / "tools" / "house.py"))
ROOMS_BEGIN = "<!-- rooms: a generated table -->\n"
ROOMS_END = "<!-- end of rooms -->\n"
LINE_COUNT_TOLERANCE = 0.1
"""A line count in the table of rooms is rewritten when it is further off than this share of the true count."""
LINE_COUNT_STEP = 20
"""Line counts of small rooms may be off by this many lines."""


def replace_rooms_table(page: str) -> str:
    """Return a page with its table of rooms written anew, from the package as it is now."""
    before, rest = page.split(ROOMS_BEGIN)
    old_table, after = rest.split(ROOMS_END)
    return "".join([before, ROOMS_BEGIN, write_rooms_table(old_table), ROOMS_END, after])


def write_rooms_table(old_table: str = "") -> str:
    """Return the packages, in the order of the layers, with their modules, lines and the first line of their docstring.

    A line count of the old table is kept while it is nearly right, so that not every edit makes the table stale.
    """
    modules = read_package()
    shown = dict(re.findall(r"\| `(\S+)` \|.*?\| ([\d,]+) \|", old_table))
    rows = ["| room | modules | lines | what it is for |", "| --- | ---: | ---: | --- |"]
    for name in find_rooms(modules):
        room = name.removeprefix("wiregrad.").replace(".", "/")
        inside = [module for module in modules.values() if f"{module.name}.".startswith(f"{name}.")]
        lines = round_line_count(sum(module.lines for module in inside), int(shown.get(room, "0").replace(",", "")))
        rows.append(f"| `{room}` | {len(inside)} | {lines:,} | {read_first_line(modules[name])} |")
    return "\n".join([*rows, ""])


@cache
def read_package() -> dict[str, Any]:
    """Return the modules of the package by name, as `tools/house.py` reads them."""
    modules: dict[str, Any] = HOUSE["read_modules"](HOUSE["PACKAGE"])
    return modules


def find_rooms(modules: dict[str, Any]) -> list[str]:
    """Return the packages and the modules at the top, highest layer first; a package inside a room follows it."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    (contract,) = (contract for contract in tools["importlinter"]["contracts"] if contract["id"] == "layers")
    layers = [name.strip() for layer in contract["layers"] for name in layer.split("|")]
    packages = {name.rpartition(".")[0] for name in modules if name.count(".") > 1}
    rooms = {*packages, *(f"wiregrad.{name}" for name in layers if name != "__main__")}
    return sorted(rooms, key=lambda name: (layers.index(name.split(".")[1]), name))


def round_line_count(lines: int, shown: int = 0) -> int:
    """Return a line count with two digits, or the count that is shown already if that is close enough.

    >>> round_line_count(5075), round_line_count(5075, 5000), round_line_count(5075, 4000)
    (5100, 5000, 5100)
    """
    if shown and abs(lines - shown) <= max(LINE_COUNT_TOLERANCE * lines, LINE_COUNT_STEP):
        return shown
    return round(lines, 2 - len(str(lines)))


def read_first_line(module: Any) -> str:
    """Return the first line of a module's docstring, ready for a cell of a table."""
    return (ast.get_docstring(module.tree) or "").partition("\n")[0].replace("|", "\\|")
