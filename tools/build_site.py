"""Build the documentation site: `make site`, or `python tools/build_site.py FOLDER`.

The site is built from a copy of docs/, because it has pages that are written only for it (docs/site_pages.py). Links
from pages to other files of the repository hold in the copy too.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LINKED = ["examples", "src", "tests", "benchmarks", "web", "tools", *(page.name for page in ROOT.glob("*.md"))]
"""What pages link to outside of docs/."""


def build_site(output: Path) -> int:
    """Write the site to a folder; returns the exit code of Sphinx, which takes warnings for errors."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(ROOT / "docs", copy / "docs", ignore=shutil.ignore_patterns("__pycache__"))
        for name in LINKED:
            (copy / name).symlink_to(ROOT / name)
        words = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(copy / "doctrees")]
        return subprocess.run([*words, str(copy / "docs"), str(output)], check=False).returncode


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site")
    code = build_site(folder)
    if code == 0:
        sys.stdout.write(f"open {folder / 'index.html'}\n")
    sys.exit(code)
