"""Pictures of the page are made, and something is on them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from wiregrad.cli.explore import PRESETS

from .screenshots import LOOKS, Look, photograph_all, states


def size_of(picture: Path) -> tuple[int, int]:
    """Read the size of a PNG from its header."""
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return width, height


@pytest.mark.parametrize(
    "look",
    [LOOKS[0], *(pytest.param(look, marks=pytest.mark.full) for look in LOOKS[1:])],
    ids=[look.name for look in LOOKS],
)
def test_every_preset_is_photographed(browser: Browser, tmp_path: Path, look: Look) -> None:
    wanted = {name: fragment for name, fragment in states().items() if name.startswith("preset-")}
    made = photograph_all(browser, tmp_path, wanted, [look])

    assert {path.name for path in made} == {f"preset-{key}-{look.name}.png" for key in PRESETS}
    assert {size_of(path)[0] for path in made} == {look.size[0]}
    assert min(path.stat().st_size for path in made) > 5_000
