"""A loss whose gradient is NaN: ask the circuit why, fix it, and ask again.

Training pulls each point to its partner. When a pair meets, the distance is 0, and the root of 0 has no slope. Run it
with `python examples/ask_why.py`:
- look for "sqrt sent Inf back": the op, its factors and its line;
- look for "use np.linalg.norm": what to write instead;
- look for "all rules hold": the mended gradient is right;
- look for "wrote ask_why.svg": what flowed where it broke.
"""

import tempfile
from pathlib import Path

import numpy as np

import wiregrad as wg


def distance(a, b):
    """Return the distance of two points, as it is often written."""
    return np.sqrt(np.sum((a - b) ** 2))


def mended(a, b):
    """Return the distance of two points, with a slope at 0."""
    return np.linalg.norm(a - b)


def loss(points, partners, measure):
    """Return the mean distance of points to their partners."""
    return np.mean(np.stack([measure(a, b) for a, b in zip(points, partners, strict=True)]))


def main():
    """Run into the NaN, ask where it comes from, and fix it."""
    points = np.array([[0.5, 1.0], [2.0, -1.0], [0.0, 3.0]])
    partners = np.array([[0.0, 1.0], [2.0, -1.0], [1.0, 1.0]])
    print("gradient:", wg.grad(loss)(points, partners, distance).round(3).tolist())

    print("\nwhy?")
    print(wg.blame(loss, points, partners, distance))

    print("\nmended:", wg.grad(loss)(points, partners, mended).round(3).tolist())
    print(wg.check_grads(lambda points: loss(points, partners, mended), points + 0.01))

    with np.errstate(all="ignore"):
        run = wg.run(loss, points, partners, distance)
    print()
    print(run.branches("points"))
    path = Path(tempfile.mkdtemp()) / "ask_why.svg"
    path.write_text(run.to_svg(), encoding="utf-8")
    print(f"\nwrote {path.name}: {len(path.read_text(encoding='utf-8')) // 1000} kB, open it in a browser")


if __name__ == "__main__":
    main()
