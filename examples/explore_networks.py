"""Two networks in plain NumPy, opened in the explorer: find the line that made a NaN.

One is a small convolutional network, the other a recurrent network unrolled over a long series. Both are ordinary
functions; wiregrad records them, and the explorer shows their functions as groups with the size of the gradient in
each. Run it with `python examples/explore_networks.py` and look for "conv:" and "recurrent:", with what broke; then
open one:
- `python examples/explore_networks.py conv --nan`: a channel that is dead has no spread, and 0 / 0 is NaN;
- `python examples/explore_networks.py recurrent --nan`: one outlier in the series, and exp overflows in a gate;
- press G, or "Go to" under "First non-finite": the card names the line of this file that broke;
- open groups until single wires are left, and click one to see upstream x local = sent.
With `-o FILE` the page is written instead; with `--no-browser` the address is printed.
"""

import argparse

import numpy as np

import wiregrad as wg

STEPS = 1100
"""Steps of the recurrent network: they give more than 20,000 nodes, so the page loads them part by part."""


def convolve(image, kernels, bias):
    """Slide kernels (out, in, 3, 3) over an image (in, height, width)."""
    height, width = image.shape[1] - 2, image.shape[2] - 2
    total = 0.0
    for i in range(3):
        for j in range(3):
            patch = image[:, i : i + height, j : j + width]
            total = total + kernels[:, :, i, j] @ patch.reshape(len(image), height * width)
    return total.reshape(len(kernels), height, width) + bias.reshape(-1, 1, 1)


def rectify(image):
    """Return the positive part."""
    return np.maximum(image, 0.0)


def normalise(image):
    """Normalise every channel to mean 0 and standard deviation 1."""
    mean = np.mean(image, axis=(1, 2), keepdims=True)
    spread = np.sqrt(np.mean(np.square(image - mean), axis=(1, 2), keepdims=True))
    return (image - mean) / spread


def pool(image):
    """Return the maximum of every block of 2 by 2."""
    channels, height, width = image.shape
    return np.max(image.reshape(channels, height // 2, 2, width // 2, 2), axis=(2, 4))


def surprise(scores, label):
    """Return minus the logarithm of the probability of a label."""
    shifted = scores - np.max(scores)
    return np.log(np.sum(np.exp(shifted))) - shifted[label]


def conv(image, first, first_bias, second, second_bias, readout):
    """Return the loss of a network of two convolutions."""
    hidden = pool(normalise(rectify(convolve(image, first, first_bias))))
    hidden = rectify(convolve(hidden, second, second_bias))
    return surprise(readout @ hidden.reshape(-1), 1)


def gate(x):
    """Return the sigmoid, written as it often is: it overflows."""
    e = np.exp(x)
    return e / (1.0 + e)


def cell(state, x, inner, outer):
    """Return the next state of a recurrent network."""
    proposed = np.tanh(inner @ state + outer * x)
    share = gate(np.sum(proposed) + x)
    return share * proposed + (1.0 - share) * state


def recurrent(series, inner, outer, readout):
    """Return the squared error of a recurrent network that predicts the end of a series."""
    state = np.zeros(len(outer))
    for x in series[:-1]:
        state = cell(state, x, inner, outer)
    return np.square(readout @ state - series[-1])


def conv_run(broken=False):
    """Return a run of the convolutional network; broken, one of its channels is dead."""
    rng = np.random.default_rng(1)
    first_bias = np.array([0.1, 0.0, -0.1, -100.0 if broken else 0.2])
    second = 0.3 * rng.normal(size=(6, 4, 3, 3))
    image, first = rng.normal(size=(1, 12, 12)), 0.5 * rng.normal(size=(4, 1, 3, 3))
    # NumPy would warn that something broke; the explorer says where.
    with np.errstate(all="ignore"):
        return wg.run(conv, image, first, first_bias, second, np.zeros(6), 0.2 * rng.normal(size=(3, 54)))


def recurrent_run(broken=False, steps=STEPS):
    """Return a run of the recurrent network; broken, its series has an outlier."""
    rng = np.random.default_rng(2)
    series = np.sin(0.3 * np.arange(steps + 1.0))
    if broken:
        series[steps // 2] = 5000.0
    inner, outer, readout = 0.4 * rng.normal(size=(4, 4)), rng.normal(size=4), rng.normal(size=4)
    with np.errstate(all="ignore"):
        return wg.run(recurrent, series, inner, outer, readout)


RUNS = {"conv": conv_run, "recurrent": recurrent_run}


def tell():
    """Say what breaks in each network, and how to look at it."""
    for name, record in RUNS.items():
        run = record(broken=True)
        print(f"{name}: {run.circuit.size:,} nodes; {str(run.blame()).splitlines()[0]}")
        print(f"  look at it: python examples/explore_networks.py {name} --nan")


def main():
    """Record a network and open it."""
    parser = argparse.ArgumentParser(description="Open a network in the explorer.")
    parser.add_argument("network", nargs="?", choices=RUNS)
    parser.add_argument("--nan", action="store_true", help="plant a NaN")
    parser.add_argument("-o", metavar="FILE", dest="file", help="write the page to a file instead of opening it")
    parser.add_argument("--no-browser", action="store_true", help="print the address and open nothing")
    given = parser.parse_args()
    if given.network is None:
        tell()
        return
    run = RUNS[given.network](given.nan)
    print(f"{given.network}: {run.circuit.size:,} nodes, loss {run.output}")
    if given.file:
        run.to_html(given.file, source=True)
        print(f"wrote {given.file}")
    else:
        run.explore(browser=not given.no_browser, source=True)


if __name__ == "__main__":
    main()
