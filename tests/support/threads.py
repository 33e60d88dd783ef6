"""Run a function in several threads at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from .limits import wait_for_thread

Argument = TypeVar("Argument")


def run_in_threads(
    work: Callable[[Argument], object], arguments: Iterable[Argument], *, interval: float | None = None
) -> None:
    """Call a function in one thread per argument, and wait for all; `interval` is how long a thread runs at a stretch.

    >>> squares = []
    >>> run_in_threads(lambda k: squares.append(k * k), [2, 3])
    >>> sorted(squares)
    [4, 9]
    """
    threads = [threading.Thread(target=work, args=(argument,)) for argument in arguments]
    before = sys.getswitchinterval()
    sys.setswitchinterval(before if interval is None else interval)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            wait_for_thread(thread)
    finally:
        sys.setswitchinterval(before)
