"""An autoencoder: pictures of 64 pixels are squeezed through 2 numbers and drawn again.

Each picture shows one soft spot somewhere. The network is not given its place; to draw the picture again it has to
find out that two numbers are enough, and to put the place of the spot into them. The best linear method with 2 numbers
(principal components) is the measure to beat. The loop is `wg.train`.

Run it with `python examples/autoencoder.py`; look for "at least 10 times better".
"""

import numpy as np

import wiregrad as wg
from wiregrad import nn, optim

SIDE = 8


def draw_spots(count, rng):
    """Return pictures, one in each row, with a soft spot at a random place."""
    x, y = rng.uniform(1.5, SIDE - 2.5, (2, count, 1, 1))
    rows, columns = np.mgrid[:SIDE, :SIDE]
    pictures = np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / 4.0)
    return pictures.reshape(count, SIDE * SIDE)


class Autoencoder(nn.Module):
    """An encoder to a code of 2 numbers, and a decoder back."""

    def __init__(self, rng):
        self.encoder = nn.Sequential(nn.Linear(SIDE * SIDE, 64, rng=rng), nn.Tanh(), nn.Linear(64, 2, rng=rng))
        self.decoder = nn.Sequential(nn.Linear(2, 64, rng=rng), nn.Tanh(), nn.Linear(64, SIDE * SIDE, rng=rng))

    def forward(self, pictures):
        """Return the pictures, drawn again from their codes."""
        return self.decoder(self.encoder(pictures))


def reconstruct_linearly(pictures, others):
    """Return other pictures, drawn again from their first 2 principal components."""
    mean = np.mean(pictures, axis=0)
    components = np.linalg.svd(pictures - mean, full_matrices=False)[2][:2]
    return mean + (others - mean) @ components.T @ components


def show(*pictures):
    """Print pictures beside each other."""
    for rows in zip(*(picture.reshape(SIDE, SIDE) for picture in pictures), strict=True):
        print("   ".join("".join(" .:-=+*#%@"[int(9.99 * np.clip(p, 0, 1))] * 2 for p in row) for row in rows))


def main():
    """Train, and print how well pictures that were not trained on are drawn again."""
    rng = np.random.default_rng(0)
    pictures, new = draw_spots(1000, rng), draw_spots(200, rng)
    model = Autoencoder(rng)
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    run = wg.train(
        model,
        lambda model, batch: nn.mse_loss(model(batch), batch),
        pictures,
        optimizer=optimizer,
        schedule=optim.CosineAnnealingLR(optimizer, 60),
        validation=new,
        rng=rng,
        epochs=60,
    )
    print(str(run).splitlines()[0], *str(run).splitlines()[10::10], sep="\n")
    with wg.no_grad():
        drawn = model(new).data
    linear = reconstruct_linearly(pictures, new)
    print("a new picture, from 2 numbers of the network, and from 2 principal components")
    show(new[0], drawn[0], linear[0])
    error, linear_error = np.mean((drawn - new) ** 2), np.mean((linear - new) ** 2)
    print(f"mean square error {error:.5f}, with principal components {linear_error:.5f}")
    if error < linear_error / 10:
        print("at least 10 times better")
    return {"mean square error": {"training": run.history["loss"], "new pictures": run.history["validation_loss"]}}


if __name__ == "__main__":
    main()
