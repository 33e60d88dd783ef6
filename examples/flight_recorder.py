"""A training run that explodes, and the recorder that says at which step and where.

A network of three layers learns a sine. Its learning rate has a typing error: from step 120 on it is 5.0, where
0.05 was meant. The recorder looks at each step while it happens, in bounded memory, and stops the training at the first
one that explodes or is not finite. What it kept leads back to the parameters of some steps before.

Run it with `python examples/flight_recorder.py`; look for "stopped: step 123" and "back at step 119".
"""

from itertools import pairwise

import numpy as np

import wiregrad as wg

rng = np.random.default_rng(0)
x = rng.uniform(-3, 3, (64, 1))
target = np.sin(x)
start = {
    f"layer{k}": {"w": rng.normal(size=(m, n)) / np.sqrt(m), "b": np.zeros(n)}
    for k, (m, n) in enumerate(pairwise([1, 16, 16, 1]))
}


def loss(params):
    """Return the mean square error of the network."""
    signal = x
    for name, layer in params.items():
        with wg.group(name):
            signal = signal @ layer["w"] + layer["b"]
            if name != "layer2":
                signal = np.where(signal > 0, signal, 0.1 * signal)
    return np.mean((signal - target) ** 2)


def train(params, rates, flight):
    """Take a step for each rate; returns the parameters."""
    for rate in rates:
        value, grads = wg.value_and_grad(loss)(params)
        flight.step(value, params, grads)
        params = wg.tree_map(lambda p, g, rate=rate: p - rate * g, params, grads)
    return params


flight = wg.record(on_event="raise", watch=("nonfinite", "exploded"), keep=4)
try:
    train(start, [0.05] * 120 + [5.0] * 400, flight)
except wg.WiregradError as error:
    print(f"stopped: {error}\n")
print(flight)

before = flight.kept[0]
print(f"\nback at step {before.step} the loss was {loss(before.params):.4f}")
again = wg.record()
params = train(before.params, [0.05] * 400, again)
print(f"400 steps at the rate that was meant: {loss(params):.4f}\n\n{again}")

print(f"\nwhere the gradient of the last step went:\n{wg.run(loss, params).flow()}")
