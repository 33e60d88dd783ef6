"""Handwritten digits: a small convolutional network, trained with one compiled call per step.

The pictures are the 1,797 digits of 8 by 8 pixels that scikit-learn has (`pip install scikit-learn`). A quarter of
them is kept for testing. Training pictures are moved by up to one pixel, so that the network sees digits in all places.

Run it with `python examples/digits_cnn.py`; look for "above 98% of new digits right".
"""

import sys

import numpy as np

import wiregrad as wg
from wiregrad import nn, optim

EPOCHS = 20
BATCH = 64
RATE = 5e-3
TESTED = 450
"""Number of digits that are kept for testing."""


def load_digits():
    """Return pictures (digits, 1, 8, 8) of numbers from 0 to 1, and what they show."""
    try:
        from sklearn import datasets  # noqa: PLC0415 - optional
    except ImportError:
        sys.exit("this example needs the digits of scikit-learn: pip install scikit-learn")
    digits = datasets.load_digits()
    return (digits.images[:, None] / 16.0).astype(np.float32), digits.target


def make_network(rng):
    """Return two convolutions, and two layers that read the largest of every four numbers."""
    kind = {"rng": rng, "dtype": np.float32}
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, **kind),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1, **kind),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64, **kind),
        nn.ReLU(),
        nn.Linear(64, 10, **kind),
    )


def move(pictures, rng):
    """Return the pictures, each moved by up to one pixel in each direction."""
    wider = np.pad(pictures, ((0, 0), (0, 0), (1, 1), (1, 1)))
    places = rng.integers(0, 3, (len(pictures), 2))
    return np.stack([picture[:, y : y + 8, x : x + 8] for picture, (y, x) in zip(wider, places, strict=True)])


def main():
    """Train, and print the share of new digits that are recognised."""
    rng = np.random.default_rng(0)
    pictures, labels = load_digits()
    order = rng.permutation(len(pictures))
    tested, trained = order[:TESTED], order[TESTED:]
    model = make_network(rng)
    adam = optim.Adam(model.parameters(), lr=RATE)
    batches = len(trained) // BATCH
    schedule = optim.CosineAnnealingLR(adam, EPOCHS * batches)

    def compute_loss(model, x, labels):
        return nn.cross_entropy(model(x), labels)

    take_step = optim.CompiledStep(model, compute_loss, adam)
    losses, wrong = [], []
    for epoch in range(1, EPOCHS + 1):
        for batch in np.split(rng.permutation(trained)[: batches * BATCH], batches):
            losses.append(take_step(move(pictures[batch], rng), labels[batch]))
            schedule.step()
        with wg.no_grad():
            guesses = np.argmax(model(pictures[tested]).data, axis=1)
        wrong.append(float(np.mean(guesses != labels[tested])))
        print(f"epoch {epoch:2}  loss {np.mean(losses[-batches:]):.4f}  new digits right {1 - wrong[-1]:.1%}")
    if wrong[-1] < 0.02:
        print("above 98% of new digits right")
    return {"loss of each batch": {"training": losses}, "share of new digits wrong": {"wrong": wrong}}


if __name__ == "__main__":
    main()
