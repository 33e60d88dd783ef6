"""How long tests wait: no wait is without a limit, and no limit depends on an idle machine.

A test of the house holds that every process and thread that tests wait for has a limit.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread, Timer
from typing import Any

PATIENCE = 300.0
"""Seconds that a process, a thread or an answer may take on a busy machine."""
WHOLE_RUN_PATIENCE = 12 * PATIENCE
"""Seconds that a whole run of tests, which another test starts, may take."""


@contextmanager
def start_process(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a process that is killed when it has run too long, so that nobody waits for its output without end.

    >>> with start_process(["echo", "ready"], stdout=subprocess.PIPE, text=True) as process:
    ...     print(process.stdout.readline(), end="")
    ready
    """
    with subprocess.Popen(command, **options) as process:
        timer = Timer(PATIENCE, process.kill)
        timer.start()
        try:
            yield process
        finally:
            timer.cancel()


def wait_for_thread(thread: Thread) -> None:
    """Wait until a thread has ended; an error if that takes too long."""
    thread.join(PATIENCE)
    assert not thread.is_alive(), f"{thread.name} has not ended within {PATIENCE:.0f} s"
