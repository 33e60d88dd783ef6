"""The page as the local server shows it: opened once by its address, and run again by Python."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

import wiregrad as wg
from wiregrad.explorer.server import Exhibit
from wiregrad.explorer.serving import Serving

from .driver import Explorer, Watched


def loss(x: np.ndarray, scale: float) -> np.ndarray:
    return np.sum(np.tanh(x) * scale)


@pytest.fixture
def serving() -> Iterator[Serving]:
    run = wg.run(loss, np.array([0.5, -1.0, 2.0]), 3.0)
    started = Serving(Exhibit(run.circuit, run))
    started.start()
    yield started
    started.stop()


def visit(browser: Browser, serving: Serving) -> Explorer:
    watched = Watched(allowed=serving.guard.origin)
    context = browser.new_context()
    context.set_default_timeout(5000)
    watched.attach(context)
    return Explorer(context.new_page(), watched)


def test_the_launch_address_opens_the_explorer_and_leaves_no_token_behind(browser: Browser, serving: Serving) -> None:
    page = visit(browser, serving).open(serving.url)

    assert "token" not in page.page.url
    assert "scale" in page.rows()
    assert page.watched.errors == []
    assert page.watched.foreign == []
    page.page.reload()
    page.picture.wait_for()
    page.page.context.close()


def test_a_second_browser_is_not_let_in_by_the_same_address(browser: Browser, serving: Serving) -> None:
    url = serving.url
    first, second = visit(browser, serving).open(url), visit(browser, serving)
    answer = second.page.goto(url)

    assert answer is not None
    assert answer.status == 403
    assert second.picture.count() == 0
    for page in (first, second):
        page.page.context.close()


def test_python_runs_the_circuit_again_when_a_leaf_is_edited(browser: Browser, serving: Serving) -> None:
    page = visit(browser, serving).open(serving.url)
    page.button("Run backward").click()
    before = page.rows()
    page.leaf("scale").fill("6")
    output = wg.run(loss, np.array([0.5, -1.0, 2.0]), 6.0).output
    row = page.page.get_by_role("region", name="Table of nodes").get_by_role("row").last
    expect(row).to_contain_text(f"{float(output):.4g}"[:5])

    assert page.rows() != before
    assert page.watched.errors == []
    assert page.watched.foreign == []
    page.page.context.close()
