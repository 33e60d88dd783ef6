"""One browser for all tests of the page; a page that errs, asks for anything or opens a dialog fails its test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ViewportSize, expect

from wiregrad.explorer.page_data import render_page

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


class SharedTab:
    """A tab that stays open between tests: opening another one takes longer than most tests do."""

    def __init__(self, browser: Browser) -> None:
        self.watched = Watched()
        context = browser.new_context()
        context.set_default_timeout(PATIENCE)
        self.watched.attach(context)
        self.page = context.new_page()

    def prepare(self, allowed: str = "file:", size: tuple[int, int] = WIDE, **media: str) -> Explorer:
        """Return the tab as if it were new, before it has opened anything.

        Unless a test asks for motion, nothing moves by itself: drawing what moves takes a quarter of a test's time.
        """
        media = {"reduced_motion": "reduce"} | media
        self.watched.allowed = allowed
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.emulate_media(**media)  # type: ignore[arg-type]
        return Explorer(self.page, self.watched)

    def leave(self) -> None:
        """Leave the page, and undo what a test has set for the tab."""
        self.page.evaluate("try { localStorage.clear(); sessionStorage.clear() } catch {}")
        self.page.goto("about:blank")
        self.page.emulate_media(color_scheme="null", forced_colors="null", reduced_motion="null")
        self.page.context.clear_cookies()
        self.page.context.clear_permissions()
        self.watched.forget()


@pytest.fixture(scope="package")
def shared_tab(browser: Browser) -> SharedTab:
    return SharedTab(browser)


@pytest.fixture(scope="package")
def served_tab(browser: Browser) -> SharedTab:
    """A tab for pages of local servers: between pages of files and of servers Chromium would start a new process."""
    return SharedTab(browser)


@pytest.fixture
def opened(browser: Browser, site: Path, shared_tab: SharedTab) -> Iterator[Opener]:
    """Open pages, and look at the end at what they did beside being looked at.

    The first one opens in the shared tab, every other one in a new context.
    """
    contexts: list[BrowserContext] = []
    watches: list[Watched] = []

    def open_page(fragment: str = "", path: Path = site, size: tuple[int, int] = WIDE, **media: str) -> Explorer:
        address = f"{path.as_uri()}{fragment}"
        if not watches:
            watches.append(shared_tab.watched)
            return shared_tab.prepare("file:", size, **media).open(address)
        viewport: ViewportSize = {"width": size[0], "height": size[1]}
        context = browser.new_context(viewport=viewport, **media)  # type: ignore[arg-type]
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        watches.append(Watched())
        watches[-1].attach(context)
        return Explorer(context.new_page(), watches[-1]).open(address)

    yield open_page
    errors = [error for watched in watches for error in watched.errors]
    dialogs = [dialog for watched in watches for dialog in watched.dialogs]
    foreign = [url for watched in watches for url in watched.foreign]
    shared_tab.leave()
    for context in contexts:
        context.close()

    assert errors == []
    assert dialogs == []
    assert foreign == []
