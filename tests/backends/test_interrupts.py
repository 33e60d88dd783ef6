"""Ctrl-C in batches: real signals, sent to processes of their own while native code or the interpreter runs.

Reactions are measured as a share of the processor time that the whole batch would take, estimated in the same process:
a busy machine slows both.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from ..support.limits import PATIENCE
from ..support.sampling import sample_one

LONG = 8_000_000
"""Points for which every batch below takes many seconds."""
PROMPT = 0.05
"""The largest share of a batch that may still be computed after the signal."""

SCRIPT = """
import json, os, resource, signal, sys, threading, time
import numpy as np
import wiregrad as wg
from wiregrad.api import Builder
from wiregrad.ir import TABLE

method, nodes, points, threads, delays = json.loads(sys.argv[1])
signal.signal(signal.SIGINT, signal.default_int_handler)

def chain():
    builder = Builder()
    x = node = builder.input("x")
    for k in range(nodes):
        node = builder.apply(TABLE["sin"], node) if k % 50 == 0 else builder.apply(TABLE["add"], node, x)
    return wg.Circuit(builder.build(node).columns)

def answers(rows):
    found = getattr(compiled, method)(rows, threads=threads)
    return np.column_stack(found if isinstance(found, tuple) else (found,))

def send(delay):
    time.sleep(delay)
    sent.append(time.process_time())
    os.kill(os.getpid(), signal.SIGINT)

compiled, few, many, sent = chain().compile(), np.linspace(0, 1, 70)[:, None], np.full((points, 1), 0.5), []
right, reactions, wrong, peaks = answers(few), [], 0, []
start = time.process_time()
sample = 20_000 if compiled.info.tier == "stencils" else 500
answers(many[:sample])
whole = points / sample * (time.process_time() - start)
for delay in delays:
    sender = threading.Thread(target=send, args=(delay,))
    try:
        sender.start()
        answers(many)
        sys.exit("the batch was over before the signal came")
    except KeyboardInterrupt:
        reactions.append(time.process_time() - sent[-1])
    sender.join()
    wrong += not np.array_equal(answers(few), right)
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
after = (time.process_time() - sent[-1]) / whole
# A thread that was interrupted ends after the share that it has begun.
for _ in range(500):
    if threading.active_count() <= 2 + (os.cpu_count() or 1):
        break
    time.sleep(0.01)
print(json.dumps({
    "tier": compiled.info.tier, "reaction": max(reactions) / whole, "wrong": wrong, "threads": threading.active_count(),
    "growth": (peaks[-1] - peaks[min(3, len(peaks) - 1)]) * 1024, "after": after,
}))
"""


def interrupted(
    method: str, *, nodes: int, threads: int | None, delays: list[float], points: int = LONG, native: str = ""
) -> Any:
    """Interrupt batches of a chain in a process of its own, each after a delay; return what it saw."""
    given = json.dumps([method, nodes, points, threads, delays])
    environment = os.environ | ({"WIREGRAD_NATIVE": native} if native else {})
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, given],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )

    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("method", "nodes", "threads"),
    [
        pytest.param("batch", 5_000, 1, id="one thread", marks=pytest.mark.full),
        pytest.param("batch", 5_000, 2, id="two threads", marks=pytest.mark.full),
        pytest.param("batch_value_and_grad", 5_000, None, id="gradients"),
        pytest.param("batch", 120_000, 2, id="long tiles"),
    ],
)
def test_a_batch_in_native_code_reacts_to_an_interrupt_at_once(method: str, nodes: int, threads: int | None) -> None:
    found = interrupted(method, nodes=nodes, threads=threads, delays=[0.2, 0.0])

    assert found["tier"] == "stencils"
    assert found["reaction"] < PROMPT
    assert found["wrong"] == 0
    # Until the process ends: the threads have ended too, each after its share.
    assert found["after"] < 3 * PROMPT


@pytest.mark.parametrize("method", sample_one(["batch_value_and_grad", "batch"]))
def test_a_batch_in_the_interpreter_reacts_to_an_interrupt_at_once(method: str) -> None:
    found = interrupted(method, nodes=200, threads=None, delays=[0.2, 0.0], native="0")

    assert found["tier"] == "interpreter"
    assert found["reaction"] < PROMPT
    assert found["wrong"] == 0


def test_many_interrupts_leave_no_threads_and_no_memory_behind() -> None:
    delays = [0.002 * k for k in range(20)]
    found = interrupted("batch_value_and_grad", nodes=5_000, threads=2, delays=delays)

    assert found["wrong"] == 0
    assert found["reaction"] < PROMPT
    # The main thread, and one for each of two processors and for the main thread's place.
    assert found["threads"] <= 2 + (os.cpu_count() or 1)
    assert found["growth"] < LONG * 8


NESTED_LOOPS = """
import json, os, signal, threading, time
import numpy as np
import wiregrad as wg

signal.signal(signal.SIGINT, signal.default_int_handler)

def make_loops(steps):
    def inner(number, _):
        return np.sin(number) * 0.9 + 0.1, None

    def outer(array, _):
        number, _ = wg.scan(inner, np.mean(array), length=20_000)
        return np.roll(array, 1) * 0.5 + number, None

    return wg.compile(lambda array: np.sum(wg.scan(outer, array, length=steps)[0]))

def send():
    global sent
    time.sleep(0.2)
    sent = time.process_time()
    os.kill(os.getpid(), signal.SIGINT)

array, few, many = np.ones(3_000), make_loops(10), make_loops(500_000)
few(array)
start = time.process_time()
few(array)
whole = 50_000 * (time.process_time() - start)
threading.Thread(target=send).start()
try:
    many(array)
except KeyboardInterrupt:
    print((time.process_time() - sent) / whole)
"""


def test_a_native_loop_inside_another_reacts_to_an_interrupt_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NESTED_LOOPS], capture_output=True, text=True, check=False, timeout=PATIENCE
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert float(done.stdout) < PROMPT
