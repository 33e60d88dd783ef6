"""A loss as flat code: read it, run it without wiregrad, and take it to C.

A marble rolls to the lowest point of a bowl with a rim. Its height is a Python function; the listing is what gradient
descent needs of it, and nothing else. Run it with `python examples/flat_code.py`:
- look for "multiply swaps": each line of the way back says what its op does to a gradient;
- look for "flat_code.py:": and from which line of this file it came;
- look for "the marble rests at (1.0, -0.5)": the listing alone, without wiregrad, found the lowest point;
- look for "wrote bowl.c": the same in C, with a self-test, compiled and run if there is a compiler.
"""

import math
import shutil
import subprocess
import tempfile
from pathlib import Path

import wiregrad as wg


def bowl(x, y):
    """Return the height at a point: a slanted bowl, cut off by a rim."""
    across = x - 1.0
    along = y + 0.5
    depth = across * across + 2.0 * along * along
    return wg.minimum(depth, 9.0)


def roll(value_and_grad, x, y):
    """Follow the gradient down from a point; `value_and_grad` knows nothing of wiregrad."""
    for _ in range(200):
        _, slope = value_and_grad(x, y)
        x, y = x - 0.1 * slope["x"], y - 0.1 * slope["y"]
    return x, y


def run_c(circuit):
    """Write the circuit as C with a self-test, compile that if there is a compiler, and return what it says."""
    folder = Path(tempfile.mkdtemp())
    (folder / "bowl.c").write_text(circuit.to_c(test={"x": 2.0, "y": 0.25}), encoding="utf-8")
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return "no compiler here to try it with"
    command = [compiler, "-std=c99", "-O2", "-DWIREGRAD_TEST", "-o", "bowl", "bowl.c", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return subprocess.run([folder / "bowl"], capture_output=True, text=True, check=True).stdout.strip()


def main():
    """Trace the bowl, read its listing, roll the marble, compile."""
    circuit = wg.trace(bowl, 2.0, 0.25)
    text = circuit.to_python()
    print(text)

    names = {}
    exec(text, names)
    x, y = roll(names["value_and_grad"], 2.0, 0.25)
    print(f"the marble rests at ({x:.1f}, {y:.1f})")
    assert math.isclose(x, 1.0)
    assert math.isclose(y, -0.5)

    print(f"\nwrote bowl.c: {run_c(circuit)}")


if __name__ == "__main__":
    main()
