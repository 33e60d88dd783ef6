"""The built page: what is committed is what the sources give, is small, and reaches a wheel without Node."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
STATIC = ROOT / "src" / "wiregrad" / "explorer" / "static"
MOST = 265_000
"""More than the goal of 220 kB: see docs/decisions/0041-size-of-the-page.md."""
BUNDLES = ("explorer.js", "large.js", "learn.js", "widget.js")
MOST_OF_LESSONS = 320_000
"""The lessons hold the layout, the renderer and the engine too, and the questions."""


def node(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script of web/ with Node; `npm ci` in web/ is what it needs."""
    program = shutil.which("node") or "node"
    return subprocess.run([program, *arguments], cwd=WEB, capture_output=True, text=True, check=False)


def said(done: subprocess.CompletedProcess[str]) -> str:
    return f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"


def test_the_committed_page_is_what_the_sources_give() -> None:
    done = node("build.mjs", "--check")

    assert done.returncode == 0, said(done)


def test_the_sources_of_the_page_have_no_type_errors() -> None:
    done = node("node_modules/typescript/bin/tsc", "--noEmit")

    assert done.returncode == 0, said(done)


def test_the_unit_tests_of_the_page_pass() -> None:
    done = node("test.mjs")

    assert done.returncode == 0, said(done)


@pytest.mark.parametrize("name", ["explorer.js", "large.js", "widget.js", "sheet.js"])
def test_a_bundle_is_at_most_265_kb(name: str) -> None:
    assert 0 < (STATIC / name).stat().st_size <= MOST


def test_the_bundle_of_the_lessons_is_at_most_320_kb() -> None:
    assert 0 < (STATIC / "learn.js").stat().st_size <= MOST_OF_LESSONS


@pytest.mark.parametrize("name", [*BUNDLES, "explorer.css", "large.css", "learn.css", "sheet.css"])
def test_a_built_file_says_nothing_about_the_machine_it_was_built_on(name: str) -> None:
    text = (STATIC / name).read_text("utf8")

    assert str(ROOT) not in text
    assert "sourceMappingURL" not in text


def without_node(folder: Path, **more: str) -> dict[str, str]:
    """Give an environment in which no program of Node's can be found."""
    return {**{key: value for key, value in os.environ.items() if key != "PYTHONPATH"}, "PATH": str(folder), **more}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=without_node(folder), capture_output=True, text=True, check=False)

    assert done.returncode == 0, said(done)
    return next(folder.glob("*.whl"))


def test_a_wheel_built_without_node_carries_the_page(wheel: Path) -> None:
    built = {f"wiregrad/explorer/static/{path.name}": path.read_bytes() for path in STATIC.iterdir()}
    with zipfile.ZipFile(wheel) as packed:
        carried = {name: packed.read(name) for name in packed.namelist() if name in built}
        foreign = [name for name in packed.namelist() if "node_modules" in name or name.endswith((".ts", ".tsx"))]

    assert {"explorer.js", "large.js", "widget.js", "explorer.css", "large.css"} <= {
        path.name for path in STATIC.iterdir()
    }
    assert carried == built
    assert foreign == []


def test_a_page_can_be_written_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    unpacked = tmp_path / "site"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(unpacked)
    circuit = "import wiregrad as wg; x = wg.circuit('x')"
    code = f"{circuit}; from wiregrad.explorer import html_page; print(html_page.__file__, html_page.to_html(x))"
    environment = without_node(tmp_path, PYTHONPATH=str(unpacked))
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, said(done)
    assert done.stdout.startswith(str(unpacked))
    assert (STATIC / "explorer.css").read_text("utf8").strip()[:200] in done.stdout
