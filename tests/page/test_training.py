"""A training that is watched in Chromium while it runs: curves, pause, the step where it broke, and its circuit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

import wiregrad as wg
from wiregrad.api.diagnostics import LiveFlight, open_flight
from wiregrad.inspect.flight_recorder import load_flight

from .driver import PATIENCE, Explorer, Watched

BREAKS = 12
STEPS = 20


def loss(p: dict[str, float]) -> object:
    return np.sqrt(p["w"] * p["w"] + p["b"])


class Training:
    """A loop in a thread of its own that breaks at one step; it takes steps while it is let."""

    def __init__(self) -> None:
        self.flight = LiveFlight(function=loss, watch=("nonfinite", "exploded"))
        self.serving = self.flight.explore(browser=False, wait=False)
        self.thread = Thread(target=self.train, daemon=True)

    def train(self) -> None:
        for step in range(STEPS):
            params = {"w": 0.0 if step == BREAKS else 2.0 / (step + 1), "b": 0.0}
            with np.errstate(all="ignore"):
                number, grads = wg.value_and_grad(loss)(params)
            self.flight.step(number, params, grads)


@pytest.fixture
def watched_page(browser: Browser) -> Iterator[tuple[Training, Page]]:
    training = Training()
    watched = Watched(allowed="http://127.0.0.1:")
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE)
    watched.attach(context)
    page = context.new_page()
    page.goto(training.serving.url)
    yield training, page
    context.close()
    training.serving.stop()

    assert watched.errors == []


def test_a_training_is_watched_paused_and_opened_where_it_broke(watched_page: tuple[Training, Page]) -> None:
    training, page = watched_page
    status = page.get_by_role("status")
    expect(status).to_have_text("Waiting for the first step.")
    page.get_by_role("button", name="Pause the training").click()
    expect(page.get_by_role("button", name="Go on training")).to_be_visible()
    training.thread.start()
    expect(page.locator(".what")).to_contain_text("1 step,")
    page.get_by_role("button", name="Step", exact=True).click()
    expect(page.locator(".what")).to_contain_text("2 steps, paused")

    assert training.flight.steps == 2
    page.get_by_role("button", name="Go on training").click()
    expect(page.locator(".what")).to_contain_text(f"{STEPS} steps")
    page.keyboard.press("g")
    expect(status).to_contain_text(f"Step {BREAKS}: ")
    expect(status).to_contain_text("the gradient of w is NaN")
    expect(page.get_by_role("slider", name="Step")).to_have_value(str(BREAKS))
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="w"))
    expect(row).to_contain_text("NaN")

    assert page.get_by_role("img", name="gradient of w").count() == 1
    assert Explorer(page, Watched()).violations() == []
    with page.context.expect_page() as opened:
        page.get_by_role("button", name=re.compile("^Open this step")).click()
    circuit = opened.value
    expect(circuit.locator('[role="graphics-document"]')).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("slider", name="Step")).to_have_value(str(BREAKS - 1))


def test_a_saved_training_is_looked_at_later(browser: Browser, tmp_path: Path) -> None:
    training = Training()
    training.thread.start()
    training.thread.join(PATIENCE / 1000)
    assert not training.thread.is_alive()
    training.serving.stop()
    path = tmp_path / "run.flight"
    training.flight.save(path)
    serving = open_flight(path, load_flight(path), browser=False, wait=False)
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(serving.url)
    page.get_by_role("button", name="Go to the step where it broke").click()

    expect(page.get_by_role("status")).to_contain_text(f"Step {BREAKS}: ")
    expect(page.locator(".what")).to_contain_text(f"run.flight, {STEPS} steps")
    expect(page.get_by_role("button", name=re.compile("^Open this step"))).to_be_disabled()
    page.close()
    serving.stop()
