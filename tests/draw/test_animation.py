"""Pictures that play by themselves, pictures in files, and pictures of values."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.draw.svg import PictureTiming
from wiregrad.errors import InputError


def expression() -> wg.Run:
    return wg.circuit("e = a + b; f = e * c").run(a=2.0, b=-3.0, c=10.0)


def test_an_animated_picture_has_no_script_font_or_link() -> None:
    svg = expression().to_svg(animate=True)
    found = {node.tag.rpartition("}")[2] for node in ET.fromstring(svg).iter()}

    assert found <= {"svg", "title", "desc", "style", "rect", "g", "path", "text", "tspan", "circle"}
    assert not re.search(r"@import|@font-face|url\(|href|<script|\bid=", svg)


def test_an_animated_picture_is_still_and_finished_where_motion_is_reduced() -> None:
    svg = expression().to_svg(animate=True)

    assert "@media (prefers-reduced-motion:reduce){.wg-animated *{animation:none!important}}" in svg
    # What only tells a step is not seen without animation; everything else is.
    hidden = set(re.findall(r"\.wg-animated \.(wg-[\w-]+)\{opacity:0;", svg))
    assert all(name[3] in "wbf" for name in hidden)
    assert not any(name.startswith("wg-v") for name in hidden)


def test_a_still_picture_has_no_animation() -> None:
    assert "animation" not in expression().to_svg()


def test_values_come_in_order_and_gradients_in_the_reverse() -> None:
    from wiregrad.draw import build_picture

    run = expression()
    timing = PictureTiming.from_picture(build_picture(run.circuit, run))

    assert timing.values == [0, 0, 0, 1, 2]
    assert timing.seed == 3
    assert timing.gradients == [5, 5, 4, 4, 3]


def test_only_a_run_can_be_animated() -> None:
    with pytest.raises(InputError, match=r"only a run can be animated; write circuit.run"):
        wg.circuit("x * x").to_svg(animate=True)


def test_a_long_circuit_cannot_be_animated_and_the_error_says_what_to_pass() -> None:
    run = wg.circuit("; ".join(["y0 = x", *(f"y{k} = sin(y{k - 1}) + x" for k in range(1, 80))])).run(x=1.0)

    with pytest.raises(InputError, match=r"at most 60 boxes can be animated; this one has .* cap=60"):
        run.to_svg(animate=True, cap=1000)


def test_to_svg_writes_a_file(tmp_path: Path) -> None:
    text = expression().to_svg(tmp_path / "f.svg")

    assert (tmp_path / "f.svg").read_text(encoding="utf-8") == text


def test_a_value_draws_what_computed_it() -> None:
    a = wg.Value(2.0, name="a")

    assert (a * a).draw().grads == {"a": 4.0}


def test_a_notebook_shows_a_value_as_its_number_and_a_small_picture() -> None:
    x = wg.Value(np.ones((2, 3)), name="x")
    bundle = np.tanh(x).sum()._repr_mimebundle_()

    assert set(bundle) == {"text/plain", "text/html", "image/svg+xml"}
    assert bundle["text/plain"].startswith("Value(")
    assert sum(map(len, bundle.values())) < 100_000


def test_a_leaf_and_a_value_behind_a_long_computation_are_shown_as_text() -> None:
    x = wg.Value(0.5)
    y = x
    for _ in range(2100):
        y = y * 1.0001

    assert set(x._repr_mimebundle_()) == set(y._repr_mimebundle_()) == {"text/plain"}
