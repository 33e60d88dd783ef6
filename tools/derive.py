"""Write every file that is derived from the sources: `make derive`.

python tools/derive.py [WRITER ...]

With names of writers, such as `write_stubs`, only these run and the page is not built.

Type stubs, docs, the page's op table, golden files and the built page follow from the op table and from the drawing
code. To add another derived file, write a script with a `main()` that writes it, add its path to `WRITERS`, and a test
that fails where the file is stale.
"""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
WRITERS = (
    "tools/write_stubs.py",
    "tools/write_recorder.py",
    "docs/generate.py",
    "tests/golden/write_engine.py",
    "tests/golden/write_layout.py",
    "tests/golden/write_learn.py",
    "tests/golden/write_drawing.py",
    "tests/listings/write.py",
)
"""The scripts that write derived files, in the order in which they run; the page is built last, from their files."""


def run_writer(script: Path) -> None:
    """Run a script as if it were the main program, so that it can import the modules beside it."""
    sys.path.insert(0, str(script.parent))
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.path.remove(str(script.parent))


def build_page() -> None:
    """Build the explorer's page into the package."""
    node = shutil.which("node")
    if node is None:
        sys.exit("building the page needs Node: install it, or run `make derive`")
    subprocess.run([node, "build.mjs"], cwd=ROOT / "web", check=True)


def main(names: Sequence[str] = ()) -> None:
    """Write every derived file, or only what the named writers write."""
    unknown = set(names) - {Path(script).stem for script in WRITERS}
    if unknown:
        sys.exit(f"no writer is called {', '.join(sorted(unknown))}")
    for script in WRITERS:
        if not names or Path(script).stem in names:
            run_writer(ROOT / script)
    if not names:
        build_page()


if __name__ == "__main__":
    _, *writers = sys.argv
    # The writers have arguments of their own.
    del sys.argv[1:]
    main(writers)
