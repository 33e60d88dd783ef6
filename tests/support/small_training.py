"""A small training with all that a checkpoint has to hold: dropout, running means, momentum, a schedule, validation.

`python small_training.py CHECKPOINT EPOCHS` runs it, or goes on with it, and saves it after every batch. It prints a
line before each batch, so that other processes can kill it there and not while it is imported.
"""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import numpy as np

import wiregrad as wg
from wiregrad import nn, optim


class SmallTraining:
    """A model, its optimiser, its schedule and its data, the same in every process."""

    def __init__(self, **settings: Any) -> None:
        rng = np.random.default_rng(3)
        self.model = nn.Sequential(
            nn.Linear(4, 8, rng=rng),
            nn.BatchNorm1d(8),
            nn.Tanh(),
            nn.Dropout(0.2, rng=np.random.default_rng(5)),
            nn.Linear(8, 2, rng=rng),
        )
        self.optimizer = optim.Adam(self.model.parameters(), lr=0.02)
        self.schedule = optim.StepLR(self.optimizer, step_size=2, gamma=0.9)
        self.settings: dict[str, Any] = {
            "optimizer": self.optimizer,
            "schedule": self.schedule,
            "rng": np.random.default_rng(4),
            "batch_size": 7,
            "validation": self.make_data(20),
            "metrics": {"error": self.compute_error},
            **settings,
        }

    @staticmethod
    def make_data(count: int) -> tuple[Any, Any]:
        """Return inputs, and outputs that can be learned."""
        x = np.random.default_rng(count).normal(size=(count, 4))
        return x, np.stack([np.sin(x[:, 0]), x[:, 1] * x[:, 2]], axis=1)

    @staticmethod
    def compute_loss(model: Any, x: Any, y: Any) -> Any:
        """Return the squared error."""
        return nn.mse_loss(model(x), y)

    @staticmethod
    def compute_error(model: Any, x: Any, y: Any) -> Any:
        """Return the mean absolute error."""
        return np.mean(np.abs(model(x) - y))

    def train(self, loss: Any = None, **settings: Any) -> Any:
        """Run the training."""
        return wg.train(self.model, loss or self.compute_loss, self.make_data(60), **{**self.settings, **settings})

    def digest(self, run: Any) -> str:
        """Return a digest of all that the next step would depend on, and of the history."""
        arrays = {**self.model.state_dict(), **self.optimizer.state_dict(), **run.history}
        digest = hashlib.sha256(b"".join(np.asarray(arrays[name]).tobytes() for name in sorted(arrays)))
        dropout = self.model.modules()["3"]
        states = [self.schedule.state_dict(), dropout.rng.bit_generator.state, self.settings["rng"].bit_generator.state]
        digest.update(repr([run.epoch, run.batch, states]).encode())
        return digest.hexdigest()


def main(checkpoint: str, epochs: int) -> None:
    """Train, or go on from the checkpoint."""
    training = SmallTraining()

    def loss(model: Any, x: Any, y: Any) -> Any:
        sys.stdout.write("batch\n")
        sys.stdout.flush()
        return training.compute_loss(model, x, y)

    training.train(loss, epochs=epochs, checkpoint=checkpoint, checkpoint_every=1)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
