"""Networks written in plain NumPy, as the local server shows them: groups, one wire, and the line that made a NaN."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, expect

from wiregrad.backends import RunRecord
from wiregrad.explorer.circuit_views import CircuitViews
from wiregrad.explorer.local_server import ExplorerServer
from wiregrad.explorer.session import ExplorerSession
from wiregrad.ops.gradient_flow import fill_absent

from .conftest import Opener
from .driver import PATIENCE, ROOT, WIDE, Explorer, Watched

sys.path.insert(0, str(ROOT / "examples"))
import explore_networks


@pytest.fixture(scope="module")
def sound() -> RunRecord:
    """The recurrent network: too large to be handed over."""
    run: RunRecord = explore_networks.recurrent_run()
    return run


@pytest.fixture(scope="module")
def broken() -> RunRecord:
    """The recurrent network with an outlier in its series."""
    run: RunRecord = explore_networks.recurrent_run(broken=True)
    return run


class Opened:
    """Open runs from a server of their own, and look at the end at what the pages did.

    The session of a run is shared, because none of these tests changes what a session shows.
    """

    def __init__(self, browser: Browser, sessions: dict[int, ExplorerSession]) -> None:
        self._browser = browser
        self._sessions = sessions
        self._pages: list[tuple[ExplorerServer, Explorer]] = []

    def __call__(self, run: RunRecord, size: tuple[int, int] = WIDE) -> Explorer:
        if id(run) not in self._sessions:
            self._sessions[id(run)] = ExplorerSession(run.circuit, run, source=True)
        serving = ExplorerServer(self._sessions[id(run)])
        serving.start()
        watched = Watched(allowed=serving.guard.origin)
        context = self._browser.new_context(viewport={"width": size[0], "height": size[1]})
        context.set_default_timeout(PATIENCE)
        watched.attach(context)
        page = Explorer(context.new_page(), watched)
        self._pages.append((serving, page))
        return page.open(serving.url)

    def close(self) -> list[str]:
        """Close everything and return what went wrong."""
        for serving, page in self._pages:
            page.page.context.close()
            serving.stop()
        return [text for _, page in self._pages for text in (*page.watched.errors, *page.watched.foreign)]


@pytest.fixture(scope="module")
def sessions() -> dict[int, ExplorerSession]:
    """The session of each run by the run's id; a session keeps its run, so no other run has that id."""
    return {}


@pytest.fixture
def served(browser: Browser, sessions: dict[int, ExplorerSession]) -> Iterator[Opened]:
    opened = Opened(browser, sessions)
    yield opened

    assert opened.close() == []


def outline(page: Explorer) -> dict[str, str]:
    """Read the outline: what it says of each group."""
    rows = page.page.get_by_role("region", name="Outline").get_by_role("listitem").all()
    return {row.locator("button.plain").inner_text(): row.locator(".num").inner_text() for row in rows}


def line(function: object, text: str) -> int:
    """Return the number of the line of a function that has a text in it."""
    lines, first = inspect.getsourcelines(function)  # type: ignore[arg-type]
    return first + next(k for k, one in enumerate(lines) if text in one)


def gradient_norm(run: RunRecord, group: str) -> float:
    """Return the norm of all gradients in a group."""
    groups = run.circuit.columns.groups
    inside = [k for k in range(run.circuit.size) if f"{groups.label_of(k) or ''}/".startswith(f"{group}/")]
    flows = [
        np.broadcast_to(fill_absent(run.flows[k]), run.circuit.type_of(k).shape)
        for k in inside
        if run.flows[k] is not None
    ]
    return float(np.sqrt(sum(np.sum(np.square(flow)) for flow in flows)))


def table(page: Explorer) -> Locator:
    return page.page.get_by_role("region", name="Table of boxes")


def test_the_functions_of_a_convolutional_network_are_groups_with_their_gradient_norms(served: Opened) -> None:
    run = explore_networks.conv_run()
    page = served(run)
    page.button("Run backward").click()
    said = outline(page)

    for name in ("convolve", "rectify", "normalise", "pool", "surprise"):
        shown = float(re.findall(r"[\d.]+(?:e-?\d+)?", said[name].split("‖g‖")[1])[0])
        assert np.isclose(shown, gradient_norm(run, name), rtol=1e-3), name


def test_the_first_nan_of_a_convolutional_network_leads_to_its_line(served: Opened) -> None:
    page = served(explore_networks.conv_run(broken=True))
    page.tab("Find")
    page.page.get_by_role("region", name="First non-finite").get_by_role("button").first.click()

    assert f"explore_networks.py:{line(explore_networks.normalise, 'return')}" in page.card_text
    assert "return (image - mean) / spread" in page.card_text


def test_a_large_network_opens_as_groups_with_sizes_and_gradient_norms(served: Opened, sound: RunRecord) -> None:
    page = served(sound)
    said = outline(page)["cell"]

    assert re.match(r"19,\d{3} nodes", said)
    assert np.isclose(float(said.split("‖g‖")[1]), gradient_norm(sound, "cell"), rtol=1e-3)
    assert f"all {sound.circuit.size:,} nodes" in page.page.get_by_role("banner").inner_text()
    assert page.symbols.count() > 40
    page.button("Groups in cell").click()
    groups = outline(page).keys()

    assert {"gate", "matmul"} <= groups
    assert "sum" not in groups, "a call that records one node is no group"


def test_the_first_nan_of_a_large_network_leads_to_its_line(served: Opened, broken: RunRecord) -> None:
    page = served(broken)
    panel = page.page.get_by_role("region", name="First non-finite")
    expect(panel).to_contain_text(f"explore_networks.py:{line(explore_networks.gate, 'np.exp')}")
    page.page.keyboard.press("g")
    expect(page.card).to_contain_text("e = np.exp(x)")
    name = page.card_title

    assert page.facts()["value"] == "inf"
    assert page.facts()["group"] == "cell/gate"
    assert page.node(name).get_attribute("aria-label") == f"{name}, exp node, value Inf, gradient NaN"
    panel.get_by_role("button", name="Why?").click()
    expect(panel.get_by_role("status")).to_contain_text("exp gave Inf")


def test_groups_open_down_to_one_wire_and_the_way_back_is_there(served: Opened, broken: RunRecord) -> None:
    page = served(broken)
    table(page).get_by_role("button", name="Open cell (2 of").click()
    where = page.page.get_by_role("navigation", name="Where this is")
    expect(where).to_contain_text(re.compile(r"nodes \d+ to \d+"))
    # Groups inside the group: the picture has changed too, not only the words above it.
    expect(table(page).get_by_role("button", name="Open cell/gate (1 of")).to_be_visible()
    table(page).get_by_role("button", name="Open cell (3 of").click()
    # A picture of single nodes has nothing more to open.
    expect(table(page).get_by_role("button", name=re.compile("^Open"))).to_have_count(0)
    table(page).get_by_role("button", name=re.compile(r"^proposed")).first.click()
    page.card.get_by_role("button", name=re.compile("^Wire from")).first.click()
    expect(page.card).to_contain_text("gradient carried")

    assert re.fullmatch(r".+ → .+", page.card_title)
    assert page.facts()["upstream gradient"] == page.facts()["gradient carried"]
    page.button("whole circuit").click()
    expect(table(page).get_by_role("button", name="Open cell (2 of")).to_be_visible()


def test_a_wire_in_the_picture_has_the_numbers_of_python(served: Opened, sound: RunRecord) -> None:
    page = served(sound)
    page.tab("Find")
    page.page.get_by_role("searchbox").fill("name:share_7 op:divide")
    page.page.get_by_role("row", name=re.compile("^share_7 divide")).get_by_role("button").click()
    expect(page.card).to_contain_text("what it sends back")
    node = sound.circuit.index("share_7")
    wire = CircuitViews(sound.circuit, sound).describe_node(node)["wires"][0]
    page.click_wire(wire["from"], "share_7")
    expect(page.card).to_contain_text("gradient carried")

    assert page.card_title == f"{wire['from']} → share_7"
    assert np.isclose(float(page.facts()["local derivative"]), wire["local"], rtol=1e-4)
    assert np.isclose(float(page.facts()["gradient carried"]), wire["sent"], rtol=1e-4)


def test_python_says_why_a_node_of_a_large_network_has_its_gradient(served: Opened, broken: RunRecord) -> None:
    page = served(broken)
    page.page.keyboard.press("g")
    page.page.locator("summary", has_text="Why this gradient?").click()

    expect(page.card).to_contain_text("is NaN: a number on the way is not finite")
    expect(page.card).to_contain_text(f"(explore_networks.py:{line(explore_networks.gate, 'np.exp')})")
    assert page.violations() == []


def test_the_card_of_a_large_network_ends_with_a_narrow_page(served: Opened, sound: RunRecord) -> None:
    page = served(sound)
    page.page.set_viewport_size({"width": 360, "height": 740})
    table(page).get_by_role("button", name="series", exact=True).click()
    page.card.wait_for()

    assert page.box_of(".inspector")[3] == 740


def test_a_search_that_python_refuses_says_why(served: Opened, broken: RunRecord) -> None:
    page = served(broken)
    page.page.keyboard.press("/")
    expect(page.page.get_by_role("searchbox")).to_be_focused()
    page.page.keyboard.type("op:tahn")
    status = page.page.get_by_role("tabpanel").get_by_role("status")
    expect(status).to_contain_text("there is no op called")
    # The browser itself writes down that an answer was a refusal.
    page.watched.errors.clear()
    page.page.get_by_role("searchbox").fill("op:tanh")
    expect(status).to_contain_text(f"{explore_networks.STEPS:,} nodes")
    page.watched.errors.clear()


def test_a_column_of_the_heat_strip_asks_for_its_gradients(served: Opened, sound: RunRecord) -> None:
    page = served(sound)
    page.tab("Heat strip")
    column = page.page.get_by_role("group", name="Gradients by rank").get_by_role("button").last
    assert column.get_attribute("aria-label") is not None
    column.press("Enter")

    expect(page.page.get_by_role("searchbox")).to_have_value(re.compile("^rank.* grad>="))
    expect(page.page.get_by_role("tabpanel").get_by_role("row").nth(1)).to_be_visible()


def test_a_large_circuit_is_walked_with_the_keyboard(served: Opened, sound: RunRecord) -> None:
    page = served(sound)
    page.tab_into_picture()
    page.page.keyboard.press("Enter")
    expect(page.card).to_be_visible()
    first = page.card_title
    page.page.keyboard.press("ArrowLeft")
    expect(page.card.get_by_role("heading")).not_to_have_text(first)
    page.button("Close the card").click()
    page.tab_into_picture()
    for key in ("Enter", "ArrowLeft"):
        page.page.keyboard.press(key)
    page.page.keyboard.press("o")
    expect(page.button("Back to the picture before")).to_be_enabled()


@pytest.mark.parametrize(
    "tab", ["Table", *(pytest.param(tab, marks=pytest.mark.full) for tab in ("Heat strip", "Find"))]
)
def test_the_accessibility_checker_finds_nothing_in_a_large_circuit(
    served: Opened, broken: RunRecord, tab: str
) -> None:
    page = served(broken)
    page.page.keyboard.press("g")
    expect(page.card).to_contain_text("e = np.exp(x)")
    page.tab(tab)

    assert page.violations() == []
    assert page.small_targets() == []


def test_the_examples_are_written_as_files_too(tmp_path: Path) -> None:
    path = tmp_path / "conv.html"
    explore_networks.conv_run(broken=True).to_html(path, source=True)

    assert "(image - mean) / spread" in path.read_text("utf8")


@pytest.fixture(scope="module")
def kept(broken: RunRecord, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recurrent network with an outlier, as a file."""
    path = tmp_path_factory.mktemp("large") / "recurrent.html"
    broken.to_html(path, source=True)
    return path


def test_a_file_of_a_large_circuit_shows_a_summary_and_says_so(opened: Opener, kept: Path, broken: RunRecord) -> None:
    page = opened(path=kept)
    said = page.page.get_by_role("banner").inner_text()

    assert f"all {broken.circuit.size:,} nodes" in said
    assert "the rest is not in this file" in said
    assert "not finite" in outline(page)["cell"]
    page.button("cell").click()
    expect(page.page.get_by_role("navigation", name="Where this is").get_by_role("button", name="cell")).to_be_visible()
    expect(table(page).get_by_role("row").nth(1)).to_be_visible()


def test_a_file_leads_to_the_first_nan_with_its_line_and_why(opened: Opener, kept: Path) -> None:
    page = opened(path=kept)
    panel = page.page.get_by_role("region", name="First non-finite")
    page.page.keyboard.press("g")
    expect(page.card).to_contain_text("e = np.exp(x)")
    expect(page.node(page.card_title)).to_be_visible()
    panel.get_by_role("button", name="Why?").click()
    expect(panel.get_by_role("status")).to_contain_text("exp gave Inf")
    panel.locator("summary").click()
    expect(panel).to_contain_text(re.compile(r"values: "))


def test_a_file_shows_the_largest_gradients(opened: Opener, sound: RunRecord, tmp_path: Path) -> None:
    path = tmp_path / "sound.html"
    sound.to_html(path)
    page = opened(path=path)
    page.tab("Largest gradients")
    largest = CircuitViews(sound.circuit, sound).list_top_gradients()
    rows = page.page.get_by_role("tabpanel").get_by_role("row").filter(has=page.page.get_by_role("button"))
    listed = rows.get_by_role("button")
    expect(listed).to_have_text([row["name"] for row in largest])
    listed.nth(1).click()
    expect(page.card).to_contain_text("what it sends back")

    assert page.card_title == largest[1]["name"]
    # Many nodes have this title, each with a value of its own.
    assert page.facts()["value"] in rows.nth(1).inner_text()
    assert page.violations() == []


def test_a_file_says_what_it_does_not_hold(opened: Opener, kept: Path) -> None:
    page = opened(path=kept)
    page.page.keyboard.press("g")
    expect(page.card).to_contain_text("what it sends back")
    page.card.get_by_role("button", name=re.compile("^Wire from e_")).first.click()

    expect(page.page.get_by_role("complementary")).to_contain_text("not in the file")


def test_a_large_circuit_is_saved_from_its_served_page(
    served: Opened, opened: Opener, broken: RunRecord, tmp_path: Path
) -> None:
    page = served(broken)
    with page.page.expect_download() as download:
        page.page.get_by_role("link", name="Save as one file").click()
    path = tmp_path / "saved.html"
    download.value.save_as(path)
    again = opened(path=path)

    assert outline(again) == outline(page)
