"""Fixtures that tests of several rooms use."""

from __future__ import annotations

import faulthandler
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest
from _pytest.runner import runtestprotocol

from wiregrad.ir import TABLE

CACHE_VARIABLE = "WIREGRAD_CACHE"
CACHE_FOLDER = pytest.StashKey[str]()
STDERR = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("hang_timeout", "seconds after which a test counts as hanging", default="900")


def pytest_configure(config: pytest.Config) -> None:
    """Give all workers, and the processes that tests start, one new cache of compiled code; the user's is not used.

    All workers load the op table in one order, whichever test file they collect first: it is the order of parameters.
    """
    TABLE.load_deferred()
    assert sys.__stderr__ is not None
    config.stash[STDERR] = os.dup(sys.__stderr__.fileno())
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(ShortReports())
    if not hasattr(config, "workerinput") and os.environ.get(CACHE_VARIABLE) != "0":
        config.stash[CACHE_FOLDER] = os.environ[CACHE_VARIABLE] = tempfile.mkdtemp(prefix="wiregrad-cache-")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the cache; what is left to store when the process ends is not stored."""
    if CACHE_FOLDER in config.stash:
        os.environ[CACHE_VARIABLE] = "0"
        shutil.rmtree(config.stash[CACHE_FOLDER], ignore_errors=True)


@pytest.fixture
def recursion_limit_1000() -> Iterator[None]:
    """Keep Python's usual limit, whatever other tests have set: code that recurses over a deep graph fails."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let each worker begin to collect at another file: what one worker has compiled, the others read from disk."""
    report = yield
    inputs = getattr(collector.config, "workerinput", None)
    if inputs and isinstance(collector, pytest.Directory):
        first = len(report.result) * int(inputs["workerid"].removeprefix("gw")) // inputs["workercount"]
        report.result = [*report.result[first:], *report.result[:first]]
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the files, which each worker has collected in an order of its own, and begin with the longest test.

    If the longest test came last, the other workers would wait for it at the end.
    """
    items.sort(key=lambda item: (item.path.name != "test_contributing.py", item.path))


def pytest_collection_finish() -> None:
    """Keep what collecting has made out of garbage collections, which some tests ask for again and again."""
    keep_out_of_collections()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Keep what the tests of a file leave behind, such as loaded modules and caches, out of garbage collections too."""
    if nextitem is not None and nextitem.path != item.path:
        keep_out_of_collections()


def keep_out_of_collections() -> None:
    """Collect what is garbage, and let later collections pass over everything else."""
    gc.collect()
    gc.freeze()


@contextmanager
def end_if_it_hangs(config: pytest.Config) -> Iterator[None]:
    """Let a test that hangs print where each thread is and end its process, instead of holding up the whole run.

    The limits of single waits (support/limits.py) are shorter, so that most hangs end with a message of their own. An
    alarm takes no time; the timer of pytest starts a thread for every test, which takes longer than most tests.
    """
    if not hasattr(signal, "alarm"):
        yield
        return
    # Registered anew each time, because some tests use the alarm themselves.
    faulthandler.register(signal.SIGALRM, config.stash[STDERR], all_threads=True, chain=True)
    signal.alarm(int(config.getini("hang_timeout")))
    try:
        yield
    finally:
        signal.alarm(0)
        faulthandler.unregister(signal.SIGALRM)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with end_if_it_hangs(item.config):
        return (yield)


class ShortReports:
    """Lets a worker report one thing of a test that passes, not five: most tests take less time than their reports."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed:
                item.ihook.pytest_runtest_logreport(report=report)
        return True
