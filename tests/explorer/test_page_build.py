"""The built page: what is committed is what the sources give, is small, and reaches a wheel without Node."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ..support.limits import PATIENCE

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
STATIC = ROOT / "src" / "wiregrad" / "explorer" / "static"
MOST = {
    "explorer.js": 191_000,
    "drawers.js": 80_000,
    "large.js": 80_000,
    "widget.js": 272_000,
    "sheet.js": 110_000,
    "learn.js": 323_000,
}
"""The most bytes of each script. The first is what a page needs to draw; a notebook gets one script with everything;
the lessons hold the layout, the renderer and the engine too. See docs/decisions/0048-two-scripts.md."""
MOST_COMPRESSED = {"explorer.js": 75_000, "drawers.js": 32_000}
"""The most bytes of the scripts of the explorer, compressed as servers send them."""


def node(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script of web/ with Node; `npm ci` in web/ is what it needs."""
    program = shutil.which("node") or "node"
    return subprocess.run([program, *arguments], cwd=WEB, capture_output=True, text=True, check=False, timeout=PATIENCE)


def said(done: subprocess.CompletedProcess[str]) -> str:
    return f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"


def test_the_committed_page_is_what_the_sources_give() -> None:
    done = node("build.mjs", "--check")

    assert done.returncode == 0, said(done)


def test_the_sources_of_the_page_have_no_type_errors() -> None:
    done = node("node_modules/typescript-7/bin/tsc", "--noEmit")

    assert done.returncode == 0, said(done)


def test_the_unit_tests_of_the_page_pass() -> None:
    done = node("test.mjs")

    assert done.returncode == 0, said(done)


@pytest.mark.parametrize(("name", "most"), MOST.items())
def test_a_script_stays_small(name: str, most: int) -> None:
    assert 0 < (STATIC / name).stat().st_size <= most


@pytest.mark.parametrize(("name", "most"), MOST_COMPRESSED.items())
def test_a_compressed_script_stays_small(name: str, most: int) -> None:
    assert 0 < len(gzip.compress((STATIC / name).read_bytes(), 9)) <= most


@pytest.mark.parametrize("name", [*MOST, "explorer.css", "large.css", "learn.css", "sheet.css"])
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
    done = subprocess.run(
        command, cwd=ROOT, env=without_node(folder), capture_output=True, text=True, check=False, timeout=PATIENCE
    )

    assert done.returncode == 0, said(done)
    return next(folder.glob("*.whl"))


def test_a_wheel_built_without_node_carries_the_page(wheel: Path) -> None:
    built = {f"wiregrad/explorer/static/{path.name}": path.read_bytes() for path in STATIC.iterdir()}
    with zipfile.ZipFile(wheel) as packed:
        carried = {name: packed.read(name) for name in packed.namelist() if name in built}
        foreign = [name for name in packed.namelist() if "node_modules" in name or name.endswith((".ts", ".tsx"))]

    assert {*MOST, "explorer.css", "large.css"} <= {path.name for path in STATIC.iterdir()}
    assert carried == built
    assert foreign == []


def test_a_page_can_be_written_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    unpacked = tmp_path / "site"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(unpacked)
    circuit = "import wiregrad as wg; x = wg.circuit('x')"
    code = f"{circuit}; from wiregrad.explorer import page_data; print(page_data.__file__, page_data.to_html(x))"
    environment = without_node(tmp_path, PYTHONPATH=str(unpacked))
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )

    assert done.returncode == 0, said(done)
    assert done.stdout.startswith(str(unpacked))
    assert (STATIC / "explorer.css").read_text("utf8").strip()[:200] in done.stdout
