"""A robot of masses and springs that learns to hop: its muscles are designed through the simulation of its jumps.

Three squares in a row are held together by springs; some of them are muscles, whose rest length swings in time. How far
and when each muscle swings is unknown. The robot falls on the floor, bounces and slips; the simulation is a loop in
plain NumPy, and the compiled gradient goes back through all of it to the muscles. Adam makes it travel far.

Run it with `python examples/spring_robot.py`; look for "travels more than 0.7 m". With the word `full` behind its
name it learns longer.
"""

import sys

import numpy as np

import wiregrad as wg
from wiregrad import optim

DT = 0.004
STIFFNESS, DAMPING = 600.0, 2.0
FLOOR_STIFFNESS, FLOOR_FRICTION = 4000.0, 12.0
GRAVITY = 9.81
PULSE = 12.0
"""How fast muscles swing, in radians per second."""


def build_robot():
    """Return the places of eight masses, and the springs as pairs of them."""
    columns = 0.2 * np.arange(4.0)
    places = np.concatenate([np.stack([columns, 0.0 * columns + h], axis=1) for h in (0.05, 0.25)])
    pairs = [(k, k + 1) for k in (0, 1, 2, 4, 5, 6)] + [(k, k + 4) for k in range(4)]
    pairs += [(k, k + 5) for k in range(3)] + [(k + 1, k + 4) for k in range(3)]
    return places, np.array(pairs)


PLACES, PAIRS = build_robot()
# Row k has -1 and 1 at the ends of spring k: it turns places into differences, transposed it turns forces back.
ENDS = np.eye(len(PLACES))[PAIRS[:, 1]] - np.eye(len(PLACES))[PAIRS[:, 0]]
LENGTHS = np.sqrt(np.sum((ENDS @ PLACES) ** 2, axis=1))


def find_forces(places, speeds, lengths):
    """Return the forces of springs, gravity and the floor on each mass, whose mass is 1."""
    along = ENDS @ places
    long = np.sqrt(np.sum(along**2, axis=1, keepdims=True))
    direction = along / long
    closing = np.sum((ENDS @ speeds) * direction, axis=1, keepdims=True)
    pull = (STIFFNESS * (long - lengths[:, None]) + DAMPING * closing) * direction
    depth = np.maximum(-places[:, 1], 0.0)
    # The floor pushes up, less while a mass leaves it, and holds back what slips.
    up = FLOOR_STIFFNESS * depth * (1.0 - 0.3 * np.tanh(speeds[:, 1]))
    slip = -FLOOR_FRICTION * np.tanh(speeds[:, 0] / 0.1) * np.minimum(depth * 100.0, 1.0)
    return np.stack([slip, up - GRAVITY], axis=1) - ENDS.T @ pull


def simulate(muscles, steps):
    """Return the places of all masses after each step; muscles have a swing by sine and one by cosine each."""
    places, speeds = PLACES, np.zeros(PLACES.shape)
    records = []
    for step in range(steps):
        time = step * DT
        swing = np.tanh(muscles["sine"]) * np.sin(PULSE * time) + np.tanh(muscles["cosine"]) * np.cos(PULSE * time)
        speeds = speeds + DT * find_forces(places, speeds, LENGTHS * (1.0 + 0.12 * swing))
        places = places + DT * speeds
        records.append(places)
    return records


def main(full=False):
    """Let the robot learn, and show how it hops."""
    steps, rounds = (500, 150) if full else (400, 40)

    def measure_loss(muscles):
        last = simulate(muscles, steps)[-1]
        return PLACES[:, 0].mean() - np.mean(last[:, 0])

    descend = wg.compile(measure_loss).value_and_grad
    rng = np.random.default_rng(0)
    muscles = {kind: 0.1 * rng.normal(size=len(PAIRS)) for kind in ("sine", "cosine")}
    first, best, distances = muscles, (np.inf, muscles), []
    adam = optim.Adam(lr=0.1)
    state = adam.init(muscles)
    for k in range(rounds):
        loss, slope = descend(muscles)
        best = min(best, (float(loss), muscles), key=lambda pair: pair[0])
        distances.append(-float(loss))
        # A simulation that bounces has steep slopes now and then; a clipped step goes on from there.
        size = np.sqrt(sum(np.sum(part**2) for part in slope.values()))
        slope = {kind: part / max(1.0, size) for kind, part in slope.items()}
        muscles, state = adam.update(muscles, slope, state)
        if k % 10 == 0:
            print(f"round {k:3}  travels {-loss:.3f} m")
    print(f"best: {-best[0]:.3f} m in {steps * DT:g} s; at first {distances[0]:.3f} m")
    print(f"travels {'more' if best[0] < -0.7 else 'less'} than 0.7 m")
    return draw_hops(first, best[1], distances, steps)


def draw_hops(first, best, distances, steps):
    """Return the panels of the picture."""
    paths = {name: np.array(simulate(muscles, steps)) for name, muscles in (("before", first), ("after", best))}
    # A walk along the springs that draws the whole robot in one line.
    walk = [0, 1, 2, 3, 7, 6, 5, 4, 0, 5, 1, 6, 2, 7, 2, 6, 3, 6, 2, 5, 1, 4, 0]
    shown = {f"{DT * k:.1f} s": paths["after"][k][walk].T for k in range(0, steps, steps // 2 - 1)}
    times = DT * np.arange(1, steps + 1)
    return [
        {"title": "The robot, three times on its way", "x": "m", "equal": True, "lines": shown},
        {
            "title": "Middle of the robot",
            "x": "time [s]",
            "y": "m",
            "lines": {name: [times, path[:, :, 0].mean(axis=1)] for name, path in paths.items()},
        },
        {
            "title": "Distance, as it learns",
            "x": "round",
            "y": "m",
            "lines": {"distance": [np.arange(len(distances)), distances]},
        },
    ]


if __name__ == "__main__":
    main("full" in sys.argv)
