"""Brings each mended defect back, and shows that its test notices.

`python -m tests.page.mutations` changes one line of a copy of the page, builds it, runs the test of that defect and
prints how it failed. A test that still passes is too weak; then the command fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from .driver import PATIENCE, ROOT
from .test_defects import DEFECTS

PARTS = ("examples", "src", "tests", "web", "pyproject.toml")
"""What a copy of the repository needs to build the page and test it."""


@dataclass(frozen=True)
class Mutation:
    """A change that brings a defect back: in a file, one text for another."""

    file: str
    old: str
    new: str

    def apply(self, folder: Path) -> None:
        """Change the copy of the repository in a folder."""
        path = folder / self.file
        text = path.read_text("utf8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} must have {self.old!r} once; it has it {text.count(self.old)} times")
        path.write_text(text.replace(self.old, self.new), "utf8")


MUTATIONS = {
    "the picture jumps under a slider": Mutation(
        "web/src/layout/figure.ts",
        "const number = Math.max(sizes.slot, width(box.shape, sizes.numberFont));",
        'const number = width(box.value?.text ?? "", sizes.numberFont);',
    ),
    "the opening view crops": Mutation(
        "web/src/ui/circuit-gestures.ts",
        "const zoom = minimap ? legibleScale(picture) : Math.max(SMALLEST, scaleIn(picture, window));",
        "const zoom = minimap ? legibleScale(picture) : Math.max(1, scaleIn(picture, window));",
    ),
    "groups do not open": Mutation(
        "web/src/ui/drawing.tsx",
        "...(opened ? { opened: new Set(opened), depth: 0, cap: MOST_BOXES } : {}),",
        "...(opened ? { depth: 0, cap: MOST_BOXES } : {}),",
    ),
    "a notebook looks by the window": Mutation(
        "web/src/css/shell.css",
        "@container wg (max-width: 719px) and (min-height: 500px) {",
        "@media (max-width: 1399px) and (min-height: 500px) {",
    ),
    "arrow keys are lost after a preset": Mutation("web/src/ui/app.tsx", "onChosen={toCircuit}", "onChosen={() => {}}"),
    "a loopback address is shared": Mutation(
        "web/src/ui/share.tsx", "return local || hash === null ? null", "return hash === null ? null"
    ),
    "a step by wire repeats": Mutation(
        "web/src/state/timeline.ts",
        "const sending = last - first > BEFORE_SENDING ? first + BEFORE_SENDING : first;",
        "const sending = first;",
    ),
    "names are those of the engine": Mutation(
        "web/src/layout/names.ts",
        'return captionText(drawnName(artist, source)).replace(/\\b(\\d+)\\.0\\b/g, "$1");',
        "return artist && captionText(drawnName(artist, source)) && circuit.nodes[source]!.names[0]! || `%${source}`;",
    ),
    "labels of the heat strip are cut": Mutation(
        "web/src/large/heat.tsx",
        "style={{ left: `max(${3 * text.length}px, ${place * 100}%)` }}",
        "style={{ left: `${place * 100 - 8}%` }}",
    ),
    "words, legend and cards overlap": Mutation("web/src/css/shell.css", "    height: 80px;\n", "    height: 52px;\n"),
    "elision hides a NaN": Mutation(
        "src/wiregrad/explorer/__init__.py", '"short": reading.bare_text,', '"short": "\\u2016\\u2016",'
    ),
    "0 does not fit from everywhere": Mutation(
        "web/src/ui/key-commands.ts",
        'const ZOOMS = { fit: "0", "zoom-in": "+", "zoom-out": "-" };',
        'const ZOOMS = { "zoom-in": "+", "zoom-out": "-" };',
    ),
    "a bad link is silent": Mutation(
        "web/src/ui/address.ts",
        "return fault && `This link cannot be read: ${fault}. ${instead}.`;",
        'return fault && instead && "";',
    ),
    "accumulation hides old + new": Mutation(
        "web/src/ui/circuit-boxes.tsx",
        'const old = kind === "input" && active[node] ? (known.carried?.old[node] ?? null) : null;',
        'const old = kind === "group" && active[node] ? (known.carried?.old[node] ?? null) : null;',
    ),
    "a leaf exp while typing": Mutation(
        "web/src/engine/parser.ts", "if (functionOf(name) !== undefined) {", 'if (name === "") {'
    ),
}
"""For each defect, a change of one line that brings it back."""


def copy_repository(folder: Path) -> None:
    """Copy what builds and tests the page; installed packages are shared."""
    folder.mkdir(exist_ok=True)
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
        else:
            shutil.copy(source, folder / part)
    (folder / "web" / "node_modules").symlink_to(ROOT / "web" / "node_modules")


def run_mutant(defect: str, mutation: Mutation, folder: Path) -> str:
    """Return how the test of a defect failed once the defect is back; empty if it passed."""
    copy_repository(folder)
    mutation.apply(folder)
    subprocess.run(["node", "build.mjs"], cwd=folder / "web", check=True, capture_output=True, timeout=PATIENCE / 1000)
    test = DEFECTS[defect]
    name = f"{test.__module__.replace('.', '/')}.py::{test.__name__}"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", name]
    environment = os.environ | {"PYTHONPATH": str(folder / "src")}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=12 * PATIENCE / 1000
    )
    if done.returncode == 0:
        return ""
    lines = [line.removeprefix("E").strip() for line in done.stdout.splitlines() if line.startswith("E ")]
    if not lines or not lines[0].startswith(("AssertionError", "assert", "Failed")):
        raise RuntimeError(
            f"the test of {defect!r} did not run to its assertion: {done.stdout[-2000:]}{done.stderr[-500:]}"
        )
    return lines[0]


def main() -> None:
    """Run every mutant, or those whose defect has a text in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="only defects with this in their name")
    options = parser.parse_args()
    survived = []
    for defect, mutation in MUTATIONS.items():
        if options.only in defect:
            with TemporaryDirectory() as scratch:
                failure = run_mutant(defect, mutation, Path(scratch))
            row = [defect, DEFECTS[defect].__name__, mutation.file, failure or "PASSED"]
            sys.stdout.write(f"| {' | '.join(row)} |\n")
            sys.stdout.flush()
            survived += [] if failure else [defect]
    if survived:
        sys.exit(f"not noticed: {', '.join(survived)}")


if __name__ == "__main__":
    main()
