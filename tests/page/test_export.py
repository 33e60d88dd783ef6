"""The single file that Python writes: from disk, with no network, whatever the names in it are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.cli.page_commands import PRESETS
from wiregrad.explorer.page_data import build_page_data, render_page, to_html

from ..support.sampling import sample_one
from .conftest import Opener

HIT = "window.hit=1;alert(1)"
CORES = [
    f"<script>{HIT}</script>",
    f"</script><script>{HIT}</script>",
    f"<img src=x onerror={HIT}>",
    "<img src=https://evil.example/a.png>",
    f"<svg onload={HIT}>",
    f"<svg><animate onbegin={HIT} attributeName=x dur=1s>",
    f"<iframe src=javascript:{HIT}></iframe>",
    "<iframe src=https://evil.example/></iframe>",
    f"<a href=javascript:{HIT}>a</a>",
    f"<body onload={HIT}>",
    f"<details open ontoggle={HIT}>",
    f"<input autofocus onfocus={HIT}>",
    "<link rel=stylesheet href=https://evil.example/a.css>",
    "<style>@import 'https://evil.example/a.css'</style>",
    "<base href=https://evil.example/>",
    "<meta http-equiv=refresh content='0;url=https://evil.example/'>",
    f"<form action=javascript:{HIT}><button autofocus>a</button></form>",
    "<object data=https://evil.example/a></object>",
    f"<foreignObject><script>{HIT}</script></foreignObject>",
    f"javascript:{HIT}",
    f"{{{{constructor.constructor('{HIT}')()}}}}",
    f"${{{HIT}}}",
    "url(https://evil.example/a.png)",
    "__proto__",
    f"<!--<script>{HIT}//",
]
AROUND = ["{}", '">{}', "'>{}", "</title>{}", "</textarea>{}", "]]>{}", "\u2028{}", "-->{}<!--"]
HOSTILE = [frame.format(core) for core in CORES for frame in AROUND]


def written(folder: Path, text: str) -> Path:
    path = folder / "page.html"
    path.write_text(text, "utf8")
    return path


def test_an_exported_circuit_opens_from_disk_at_the_point_it_was_run_at(opened: Opener, tmp_path: Path) -> None:
    run = wg.circuit("q = x + y; f = q * z").run(x=-2, y=5, z=-4)
    page = opened(path=written(tmp_path, to_html(run.circuit, run)))
    page.button("Run backward").click()

    assert page.column("value") == {"x": "-2", "y": "5", "z": "-4", "q": "3", "f": "-12"}
    assert page.column("gradient") == {"x": "-4", "y": "-4", "z": "3", "q": "-4", "f": "1"}
    page.leaf("z").fill("2")
    assert page.column("value")["f"] == "6"
    assert len(page.watched.requests) == 1


@pytest.mark.parametrize("key", PRESETS)
def test_an_exported_preset_is_at_most_310_kb(key: str) -> None:
    run = wg.circuit(PRESETS[key].formula).run(**PRESETS[key].leaves)

    assert len(to_html(run.circuit, run).encode()) <= 310_000


def test_an_exported_run_of_arrays_shows_its_values_and_gradients(opened: Opener, tmp_path: Path) -> None:
    def loss(w: np.ndarray, x: np.ndarray) -> np.ndarray:
        with wg.group("layer"):
            hidden = np.tanh(x @ w)
        return np.sum(hidden * hidden)

    run = wg.run(loss, np.full((3, 2), 0.25), np.arange(6.0).reshape(2, 3))
    page = opened(path=written(tmp_path, to_html(run.circuit, run)))
    page.button("Run backward").click()

    assert len(page.rows()) == run.circuit.size
    assert "float64[3,2]" in page.page.content()
    assert len(page.watched.requests) == 1


def test_a_page_saved_from_the_page_opens_again(opened: Opener, tmp_path: Path) -> None:
    page = opened("#v=1&p=neuron")
    page.leaf("w2").fill("3")
    page.menu("Share")
    with page.page.expect_download() as download:
        page.button("Save the page as a file").click()
    path = tmp_path / "saved.html"
    download.value.save_as(path)
    again = opened(path=path)

    assert again.leaf("w2").input_value() == "3"
    assert [*again.rows()] == [*page.rows()]
    assert "connect-src 'none'" in path.read_text("utf8")


@pytest.mark.parametrize(("item", "start"), [("SVG picture", "<svg"), ("JSON data", "{")])
def test_a_picture_and_data_are_saved_from_the_page(opened: Opener, tmp_path: Path, item: str, start: str) -> None:
    page = opened("#v=1&p=neuron&s=d")
    page.menu("Share")
    with page.page.expect_download() as download:
        page.button(item).click()
    path = tmp_path / "saved"
    download.value.save_as(path)

    assert path.read_text("utf8").lstrip().startswith(start)


def hostile_data() -> dict[str, object]:
    """Data in which whatever can be text is a string that tries to be more."""
    chain = "; ".join(f"h{k} = tanh({f'h{k - 1}' if k else 'x'})" for k in range(len(HOSTILE) - 1))
    run = wg.circuit(chain).run(x=0.5)
    data = build_page_data(run.circuit, run)
    data.pop("formula", None)
    for node, text in zip(data["circuit"]["nodes"], HOSTILE, strict=True):
        node |= {"names": [text], "text": text, "place": {"file": text, "line": 1, "column": 1}}
    data["circuit"] |= {"name": HOSTILE[0], "outputs": [{"label": HOSTILE[1], "node": len(HOSTILE) - 1}]}
    return data | {"note": HOSTILE[2], "leaves": {HOSTILE[0]: 0.5}, "live": True}


@pytest.mark.parametrize("grouped", sample_one([True, False]))
def test_names_that_are_scripts_stay_text(opened: Opener, tmp_path: Path, grouped: bool) -> None:
    data = hostile_data()
    for k, node in enumerate(data["circuit"]["nodes"]):  # type: ignore[index]
        node["group"] = HOSTILE[k // 10].replace("/", "") if grouped else ""
    page = opened(path=written(tmp_path, render_page(data, HOSTILE[1])))
    page.button("Run backward").click()
    for name in ["Heat strip", "Find", "Compare", "Table"]:
        page.tab(name)
    for name in ["Leaves", "Source", "Outline"]:
        page.show_panel(name)
    picks = page.page.get_by_role("region", name="Table of nodes").get_by_role("row").get_by_role("rowheader")
    for k in range(0, len(HOSTILE), 40):
        picks.nth(k).get_by_role("button").click()

    assert len(HOSTILE) == 200
    assert picks.all_inner_texts()[:2] == HOSTILE[:2]
    assert page.page.evaluate("window.hit") is None
    assert len(page.watched.requests) == 1
    assert page.handlers() == []


@pytest.mark.parametrize("core", sample_one(CORES[:6]))
def test_a_formula_in_an_address_that_is_a_script_stays_text(opened: Opener, core: str) -> None:
    page = opened()
    page.page.get_by_label("Formula").fill(core)

    assert page.page.get_by_role("alert").is_visible()
    assert page.page.evaluate("window.hit") is None
