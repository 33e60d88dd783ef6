"""Files of writers that were killed: the next write into their folder removes them, and nothing else."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import wiregrad as wg
from wiregrad import files
from wiregrad.cli import cli
from wiregrad.files import load

from ..support.limits import PATIENCE, start_process

WRITER = """
import sys
import numpy as np
import wiregrad as wg

large = np.arange(3_000_000.0)
circuit = wg.trace(lambda x: (x * large).sum(), 2.0)
print("ready", flush=True)
while True:
    circuit.save(sys.argv[1])
"""
WRITES: dict[str, Callable[[Path], Any]] = {
    "save": lambda folder: wg.circuit("y = exp(x)").save(folder / "b.wg"),
    "to_html": lambda folder: wg.circuit("y = exp(x)").to_html(folder / "b.html"),
    "draw -o": lambda folder: command("draw", "exp(x)", "-o", str(folder / "b.svg")),
    "code -o": lambda folder: command("code", "exp(x)", "-o", str(folder / "b.c")),
    "convert": lambda folder: command("convert", "exp(x)", str(folder / "b.json")),
    "explore -o": lambda folder: command("explore", "exp(x)", "-o", str(folder / "b.html")),
}
"""All that writes files."""


def command(*args: str) -> None:
    assert CliRunner().invoke(cli, args, catch_exceptions=False).exit_code == 0


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def kill_while_saving(path: Path, seconds: float) -> None:
    """Kill a process that saves one file again and again, some time after it began."""
    with start_process([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(seconds)
        process.kill()


def kill_until_a_file_is_left(path: Path, seed: int) -> None:
    chosen, end = random.Random(seed), time.monotonic() + PATIENCE
    while not leftovers(path.parent) and time.monotonic() < end:
        kill_while_saving(path, chosen.random() * 0.2)

    assert leftovers(path.parent)


def test_the_next_save_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    path = tmp_path / "a.wg"
    kill_until_a_file_is_left(path, 0)
    wg.circuit("y = exp(x)").save(path)

    assert [p.name for p in tmp_path.iterdir()] == ["a.wg"]
    assert load(path) == wg.circuit("y = exp(x)")


@pytest.mark.full
def test_a_hundred_killed_saves_leave_one_whole_file(tmp_path: Path) -> None:
    path, chosen = tmp_path / "a.wg", random.Random(1)
    wg.circuit("y = exp(x)").save(path)
    for _ in range(100):
        kill_while_saving(path, chosen.random() * 0.2)
        load(path)
    wg.circuit("y = exp(x)").save(path)

    assert [p.name for p in tmp_path.iterdir()] == ["a.wg"]


def abandoned(folder: Path) -> Path:
    """Leave a file as a killed writer does."""
    path, descriptor = files._create_locked_file(folder)
    os.write(descriptor, b"half of it")
    os.close(descriptor)
    return path


@pytest.mark.parametrize("write", list(WRITES))
def test_every_writer_removes_what_was_left_in_its_folder(write: str, tmp_path: Path) -> None:
    abandoned(tmp_path), abandoned(tmp_path)
    WRITES[write](tmp_path)

    assert leftovers(tmp_path) == []
    assert len([*tmp_path.iterdir()]) == 1


def test_the_file_of_a_writer_that_lives_stays(tmp_path: Path) -> None:
    path, descriptor = files._create_locked_file(tmp_path)
    WRITES["save"](tmp_path)

    assert leftovers(tmp_path) == [path.name]

    os.close(descriptor)
    WRITES["save"](tmp_path)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    "name",
    [
        ".wiregrad-0123456789abcdef.tmp.bak",
        ".wiregrad-0123456789abcde.tmp",
        ".wiregrad-0123456789ABCDEF.tmp",
        "wiregrad-0123456789abcdef.tmp",
        ".wiregrad-0123456789abcdef.tmp/",
    ],
)
def test_what_is_no_file_of_ours_stays(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name.endswith("/"):
        path.mkdir()
    else:
        path.touch()
    WRITES["save"](tmp_path)

    assert path.exists()


def test_a_link_with_the_name_of_a_leftover_stays_and_so_does_what_it_points_to(tmp_path: Path) -> None:
    target, link = tmp_path / "precious", tmp_path / ".wiregrad-0123456789abcdef.tmp"
    target.touch()
    link.symlink_to(target)
    WRITES["save"](tmp_path)

    assert link.is_symlink()
    assert target.exists()


def test_a_pipe_with_the_name_of_a_leftover_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / ".wiregrad-0123456789abcdef.tmp"
    os.mkfifo(pipe)
    WRITES["save"](tmp_path)

    assert pipe.is_fifo()


def test_processes_that_save_side_by_side_do_not_disturb_each_other(tmp_path: Path) -> None:
    text = "import sys, wiregrad as wg\nfor _ in range(60): wg.circuit('y = exp(x)').save(sys.argv[1])"
    paths = [tmp_path / f"{k}.wg" for k in range(2)] * 2
    processes = [subprocess.Popen([sys.executable, "-c", text, str(path)]) for path in paths]

    assert [process.wait(PATIENCE) for process in processes] == [0] * 4
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0.wg", "1.wg"]


def test_a_save_goes_on_where_a_file_system_has_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    left = abandoned(tmp_path)
    monkeypatch.setattr(files.fcntl, "flock", refuse)
    WRITES["save"](tmp_path)

    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([left.name, "b.wg"])


def test_a_file_that_was_taken_for_a_leftover_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may see a file between its creation and its lock."""
    lock, first = files._lock_file, []

    def removed_before(descriptor: int, path: Path) -> bool:
        if not first:
            first.append(path)
            path.unlink()
        return lock(descriptor, path)

    monkeypatch.setattr(files, "_lock_file", removed_before)
    WRITES["save"](tmp_path)

    assert first
    assert [p.name for p in tmp_path.iterdir()] == ["b.wg"]
