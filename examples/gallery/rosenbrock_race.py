"""The Rosenbrock race: five optimisers in one narrow valley.

All of them get the same exact gradients from the same start. Gradient descent, momentum and Adam come from `wg.optim`;
L-BFGS and Newton from `wg.lbfgs` and `wg.newton`.

Run it with `python examples/gallery/rosenbrock_race.py`; look for "Newton".
"""

import numpy as np

import wiregrad as wg
from wiregrad import optim


def rosenbrock(p):
    """Return a function with a curved valley and its minimum, 0, at (1, 1)."""
    return (1.0 - p[0]) ** 2 + 100.0 * (p[1] - p[0] ** 2) ** 2


START = np.array([-1.2, 1.0])


def walk(make_optimizer, steps):
    """Return the places that an optimiser of wg.optim visits."""
    p = wg.Value(START.copy())
    optimizer = make_optimizer({"p": p})
    places = [p.data.copy()]
    for _ in range(steps):
        optimizer.zero_grad()
        rosenbrock(p).backward()
        optimizer.step()
        places.append(p.data.copy())
    return np.array(places)


def main(full=False):
    """Let all of them run, and compare."""
    steps = 2000 if full else 400
    paths = {
        "descent": walk(lambda p: optim.SGD(p, lr=1e-3), steps),
        "momentum": walk(lambda p: optim.SGD(p, lr=5e-4, momentum=0.9), steps),
        "Adam": walk(lambda p: optim.Adam(p, lr=0.05), steps),
    }
    curves = {name: [np.arange(len(path)), [rosenbrock(p) for p in path]] for name, path in paths.items()}
    for name, solve in (("L-BFGS", wg.lbfgs), ("Newton", wg.newton)):
        history = np.array(solve(rosenbrock, START).history)
        curves[name] = [np.arange(len(history)), history]
    for name, (_, values) in curves.items():
        print(f"{name:9} {len(values) - 1:5} steps, ends at {values[-1]:.1e}")
    begun = {name: [np.asarray(k)[:200], np.maximum(values, 1e-20)[:200]] for name, (k, values) in curves.items()}
    across = np.linspace(-1.3, 1.2, 60)
    return [
        {"title": "Height", "x": "step", "log": True, "lines": begun},
        {
            "title": "The way through the valley",
            "equal": True,
            "lines": {name: path.T for name, path in paths.items()} | {"valley": [across, across**2]},
        },
    ]


if __name__ == "__main__":
    main()
