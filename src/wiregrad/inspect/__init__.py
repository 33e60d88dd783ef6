"""What a person asks of a run.

Each question is a module with a function of its name, loaded when it is first asked: `answer("blame")(run)`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def answer(question: str) -> Callable[..., Any]:
    """Return the function that answers a question.

    >>> import wiregrad as wg
    >>> len(list(answer("steps")(wg.circuit("x * x").run(x=3.0))))
    5
    """
    function: Callable[..., Any] = getattr(import_module(f"wiregrad.inspect.{question}"), question)
    return function
