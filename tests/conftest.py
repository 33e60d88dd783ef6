"""Fixtures that tests of several rooms use."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def recursion_limit_1000() -> Iterator[None]:
    """Keep Python's usual limit, whatever other tests have set: code that recurses over a deep graph fails."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest test, so that the other workers do not wait for it at the end."""
    items.sort(key=lambda item: item.path.name != "test_contributing.py")


def pytest_collection_finish() -> None:
    """Keep what collecting has made out of garbage collections, which some tests ask for again and again."""
    gc.collect()
    gc.freeze()
