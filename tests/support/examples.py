"""Scripts of the folder examples, and what their docstrings say to look for in their output."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

from .limits import PATIENCE

FOLDER = Path(__file__).parent.parent.parent / "examples"
EXAMPLES = sorted(path.name for path in FOLDER.glob("*.py"))


def check_example(name: str) -> None:
    """Run an example, and look for the words that its docstring puts in quotes."""
    path = FOLDER / name
    wanted = re.findall(r'look for "([^"]+)"', ast.get_docstring(ast.parse(path.read_text())) or "")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True, timeout=PATIENCE)

    assert wanted
    assert [words for words in wanted if words not in done.stdout] == []
