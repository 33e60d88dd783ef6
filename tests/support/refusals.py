"""Calls that are refused, with their error."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def check_refusal(call: Callable[[], object], kind: type[Exception], message: str) -> None:
    """Fail unless a call raises an error of a kind that says something."""
    with pytest.raises(kind) as caught:
        call()

    assert message in str(caught.value)
