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


def main():
    """Train, and print the error on new sequences as it goes: no sequence comes twice."""
    rng = np.random.default_rng(0)
    model = Adder(rng)
    structure, adam, schedule = model.emptied(), optim.Adam(lr=RATE), optim.CosineAnnealingLR(None, STEPS)

    def compute_loss(arrays, sequences, sums):
        return nn.mse_loss(nn.call_with(structure, arrays, sequences), sums)

    @wg.compile
    def take_step(arrays, state, sequences, sums):
        loss, gradients = wg.value_and_grad(compute_loss)(arrays, sequences, sums)
        gradients, _ = optim.clip_by_norm(gradients, 1.0)
        return loss, *adam.update(arrays, gradients, state)

    arrays = model.arrays()
    state = adam.init(arrays)
    losses = []
    for step in range(STEPS):
        state["groups.0.lr"] = schedule.find_rate(RATE, step)
        loss, arrays, state = take_step(arrays, state, *make_batch(rng))
        losses.append(float(loss))
        if (step + 1) % 250 == 0:
            print(f"step {step + 1:4}  error {np.mean(losses[-50:]):.5f}")
    model.load_state_dict(arrays)
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
