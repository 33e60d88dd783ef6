"""An LSTM that has to remember: add up the two marked numbers of a sequence, and forget the others.

Each sequence has 20 random numbers between 0 and 1, and two marks. The answer is given once, at the end, so the
gradient has to travel back over up to 20 steps to the first mark. Answering 1.0 every time has a mean square error of
0.167, and that is where a network stays that does not remember.

Run it with `python examples/lstm_adding.py`; look for "error below 0.01".
"""

import numpy as np

import wiregrad as wg
from wiregrad import nn, optim

LENGTH = 20
BATCH = 64
STEPS = 1200
RATE = 5e-3


class Adder(nn.Module):
    """An LSTM, and a layer that reads its last hidden state."""

    def __init__(self, rng):
        self.lstm = nn.LSTM(2, 32, rng=rng)
        self.answer = nn.Linear(32, 1, rng=rng)

    def forward(self, sequences):
        """Return one number for each sequence; sequences are (steps, batch, number and mark)."""
        _, (hidden, _) = self.lstm(sequences)
        return self.answer(hidden[0])[:, 0]


def make_batch(rng):
    """Return sequences, one mark in each half, and the sums of the marked numbers."""
    numbers = rng.uniform(0.0, 1.0, (LENGTH, BATCH))
    marks = np.zeros((LENGTH, BATCH))
    first, second = rng.integers(0, LENGTH // 2, BATCH), rng.integers(LENGTH // 2, LENGTH, BATCH)
    marks[first, np.arange(BATCH)] = 1.0
    marks[second, np.arange(BATCH)] = 1.0
    return np.stack([numbers, marks], axis=-1), np.sum(numbers * marks, axis=0)


def compute_error(model, sequences, sums):
    """Return the mean square error of the model's answers."""
    return nn.mse_loss(model(sequences), sums)


def main():
    """Train, and print the error on new sequences as it goes: no sequence comes twice."""
    rng = np.random.default_rng(0)
    model = Adder(rng)
    adam = optim.Adam(model.parameters(), lr=RATE)
    schedule = optim.CosineAnnealingLR(adam, STEPS)
    take_step = optim.CompiledStep(model, compute_error, adam, max_norm=1.0)
    losses = []
    for step in range(STEPS):
        losses.append(take_step(*make_batch(rng)))
        schedule.step()
        if (step + 1) % 250 == 0:
            print(f"step {step + 1:4}  error {np.mean(losses[-50:]):.5f}")
    sequences, sums = make_batch(rng)
    with wg.no_grad():
        answers = model(sequences).data
    for answer, right in zip(answers[:4], sums[:4], strict=True):
        print(f"answer {answer:.3f}  right {right:.3f}")
    if np.mean((answers - sums) ** 2) < 0.01:
        print("error below 0.01")
    return {"mean square error": {"new sequences": losses}}


if __name__ == "__main__":
    main()
