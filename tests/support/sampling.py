"""How much of a long test an ordinary run does: `make test` a sample, `make test-all` all of it."""

from __future__ import annotations

import os


def choose_count(sample: int, whole: int) -> int:
    """Return how many cases to try: a sample, or all of them where WIREGRAD_TEST_ALL is set."""
    return whole if "WIREGRAD_TEST_ALL" in os.environ else sample
