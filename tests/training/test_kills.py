"""Trainings that are killed at random moments: no checkpoint is ever unreadable, and the end has the same bits."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wiregrad.training import read_checkpoint

from ..support import small_training
from ..support.limits import start_process
from ..support.small_training import SmallTraining

MAX_BATCHES = 8
"""How many batches a training computes, at most, before the moment of its kill is drawn."""
MAX_DELAY = 0.02
"""Seconds from there to the kill, at most: a batch and its checkpoint take about half of that."""
BATCHES_PER_EPOCH = 9


def finish_training(epochs: int, checkpoint: Path | None = None) -> str:
    """Run a training to its end, from a checkpoint if there is one; returns the digest of the end."""
    training = SmallTraining()
    return training.digest(training.train(epochs=epochs, checkpoint=checkpoint))


def kill_training(checkpoint: Path, epochs: int, rng: random.Random) -> bool:
    """Start a training and kill it at a random moment of one of its batches; returns whether it was still running."""
    command = [sys.executable, small_training.__file__, str(checkpoint), str(epochs)]
    with start_process(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(rng.randint(1, MAX_BATCHES)):
            process.stdout.readline()
        time.sleep(MAX_DELAY * rng.random())
        was_running = process.poll() is None
        process.kill()
        return was_running


@pytest.mark.parametrize(("kills", "epochs"), [(3, 8), pytest.param(50, 160, marks=pytest.mark.full)])
def test_a_killed_training_resumes_to_the_same_bits(tmp_path: Path, kills: int, epochs: int) -> None:
    rng = random.Random(kills)
    checkpoint = tmp_path / "killed.wgt"
    positions = []
    for _ in range(kills):
        assert kill_training(checkpoint, epochs, rng), "the training ended before it was killed; give it more epochs"
        if checkpoint.exists():
            document, _ = read_checkpoint(checkpoint)
            positions.append(document["epoch"] * BATCHES_PER_EPOCH + document["batch"])

    assert positions == sorted(positions)
    assert positions[-1] > 0
    assert finish_training(epochs, checkpoint) == finish_training(epochs)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".tmp"] == []
