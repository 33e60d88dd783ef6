"""One browser for all tests of the page; a page that errs, asks for anything or opens a dialog fails its test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from wiregrad.explorer.html_page import render_page

from .driver import PATIENCE, WIDE, Explorer, Watched, chromium

Opener = Callable[..., Explorer]
expect.set_options(timeout=PATIENCE)


# Playwright keeps an event loop on this thread; tests elsewhere that start one of their own must not meet it.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page as it is without data: the presets."""
    path = tmp_path_factory.mktemp("page") / "explorer.html"
    path.write_text(render_page({}, "explorer"), "utf8")
    return path


@pytest.fixture
def opened(browser: Browser, site: Path) -> Iterator[Opener]:
    """Open pages in contexts of their own, and look at the end at what they did beside being looked at."""
    contexts = []
    watched = Watched()

    def open_page(fragment: str = "", path: Path = site, size: tuple[int, int] = WIDE, **options: str) -> Explorer:
        width, height = size
        context = browser.new_context(viewport={"width": width, "height": height}, **options)  # type: ignore[arg-type]
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        watched.attach(context)
        return Explorer(context.new_page(), watched).open(f"{path.as_uri()}{fragment}")

    yield open_page
    for context in contexts:
        context.close()

    assert watched.errors == []
    assert watched.dialogs == []
    assert watched.foreign == []
