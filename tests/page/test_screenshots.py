"""Pictures of the page are made, and something is on them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from wiregrad.cli.page_commands import PRESETS

from .contact_sheet import MOCKED, write_contact_sheet
from .driver import ROOT
from .screenshots import DOCS, LOOKS, MOMENTS, SHOTS, list_preset_shots, photograph_all


def size_of(picture: Path) -> tuple[int, int]:
    """Read the size of a PNG from its header."""
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return width, height


@pytest.mark.full
@pytest.mark.parametrize(("scheme", "size"), LOOKS)
def test_every_preset_is_photographed(browser: Browser, tmp_path: Path, scheme: str, size: tuple[int, int]) -> None:
    pictures = photograph_all(browser, list_preset_shots(scheme, size), tmp_path)

    assert {path.name for path in pictures} == {f"preset-{key}-{moment}.png" for key in PRESETS for moment in MOMENTS}
    assert {size_of(path) for path in pictures} == {size}
    assert min(path.stat().st_size for path in pictures) > 5_000


def test_a_sheet_has_a_picture_and_a_caption_for_each_state(browser: Browser, tmp_path: Path) -> None:
    names = ["phone", "notebook"]
    write_contact_sheet(browser, [shot for shot in SHOTS if shot.name in names], tmp_path, tmp_path / "sheet.png")

    assert size_of(tmp_path / "sheet.png")[0] == 2668
    assert (tmp_path / "sheet.png").stat().st_size > 20_000


def test_the_sheet_has_24_states_with_captions_of_their_own() -> None:
    assert len({shot.name for shot in SHOTS}) == len({shot.caption for shot in SHOTS}) == len(SHOTS) == 24
    assert set(MOCKED.values()) <= {shot.name for shot in SHOTS}


@pytest.mark.full
def test_all_states_of_the_sheet_are_photographed(browser: Browser, tmp_path: Path) -> None:
    write_contact_sheet(browser, SHOTS, tmp_path, tmp_path / "sheet.png")

    assert size_of(tmp_path / "sheet.png")[0] == 2668


@pytest.mark.parametrize("name", [shot.name for shot in DOCS])
def test_a_picture_of_the_documentation_is_small_and_shown(name: str) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    picture = ROOT / "docs" / "images" / f"{name}.png"

    assert picture.stat().st_size < 120_000
    assert any(f"images/{name}.png)" in page.read_text("utf8") for page in pages)
