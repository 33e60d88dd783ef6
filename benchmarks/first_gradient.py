"""How long a fresh process takes from the import of a package to its first compiled gradient, with warm caches.

Every entrant is a program of a few lines on the same function of five numbers. Each measurement is a fresh interpreter
that times its own import and then its first gradient; they take turns. Caches on disk (ours, those of JAX, of Numba and
of torch.compile) are filled by a process beforehand, and bytecode is ready. CasADi and PyTorch's eager mode compile
nothing. Numba has no gradients, so its program has the derivative written by hand.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Report, Table, interleaved, milliseconds

REPEATS = 9
TARGET, EAGER_TARGET = 0.060, 0.030
EAGER = "wiregrad, not compiled"
EXPECTED = -1.5029152313085254

PROGRAMS = {
    "wiregrad, circuit.compile": (
        "wiregrad",
        """
fast = wiregrad.circuit("o = tanh(x1*w1 + x2*w2 + b)").compile()
value, grad = fast.value_and_grad(x1=2.0, w1=-3.0, x2=0.0, w2=1.0, b=6.88)
first = grad["x1"]
""",
    ),
    "wiregrad, wg.compile": (
        "wiregrad",
        """
def f(x1, w1, x2, w2, b):
    return wiregrad.tanh(x1 * w1 + x2 * w2 + b)
fast = wiregrad.compile(f)
value, first = fast.value_and_grad(2.0, -3.0, 0.0, 1.0, 6.88)
""",
    ),
    EAGER: (
        "wiregrad",
        """
def f(x1, w1, x2, w2, b):
    return wiregrad.tanh(x1 * w1 + x2 * w2 + b)
value, first = wiregrad.value_and_grad(f)(2.0, -3.0, 0.0, 1.0, 6.88)
""",
    ),
    "jax.jit": (
        "jax",
        """
import jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_compilation_cache_dir", CACHE)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
def f(x1, w1, x2, w2, b):
    return jnp.tanh(x1 * w1 + x2 * w2 + b)
value, first = jax.jit(jax.value_and_grad(f))(2.0, -3.0, 0.0, 1.0, 6.88)
first = float(first)
""",
    ),
    "torch, not compiled": (
        "torch",
        """
x1, w1, x2, w2, b = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (2.0, -3.0, 0.0, 1.0, 6.88))
torch.tanh(x1 * w1 + x2 * w2 + b).backward()
first = x1.grad.item()
""",
    ),
    "torch.compile": (
        "torch",
        """
@torch.compile
def f(x1, w1, x2, w2, b):
    return torch.tanh(x1 * w1 + x2 * w2 + b)
x1, w1, x2, w2, b = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (2.0, -3.0, 0.0, 1.0, 6.88))
f(x1, w1, x2, w2, b).backward()
first = x1.grad.item()
""",
    ),
    "numba, derivative by hand": (
        "numba",
        """
import math, tempfile, importlib.util, os, sys
sys.path.insert(0, CACHE)
path = os.path.join(CACHE, "by_hand.py")
if not os.path.exists(path):
    with open(path, "w") as stream:
        stream.write('''
import math
from numba import njit
@njit(cache=True)
def value_and_grad(x1, w1, x2, w2, b):
    o = math.tanh(x1 * w1 + x2 * w2 + b)
    g = 1.0 - o * o
    return o, g * w1, g * x1, g * w2, g * x2, g
''')
from by_hand import value_and_grad
first = value_and_grad(2.0, -3.0, 0.0, 1.0, 6.88)[1]
""",
    ),
    "casadi, not compiled": (
        "casadi",
        """
x1, w1, x2, w2, b = (casadi.SX.sym(name) for name in ("x1", "w1", "x2", "w2", "b"))
o = casadi.tanh(x1 * w1 + x2 * w2 + b)
fast = casadi.Function("f", [x1, w1, x2, w2, b], [o, casadi.gradient(o, casadi.vertcat(x1, w1, x2, w2, b))])
first = float(fast(2.0, -3.0, 0.0, 1.0, 6.88)[1][0])
""",
    ),
}
TIMING = """
import time
CACHE = {cache!r}
began = time.process_time()
import {module}
imported = time.process_time()
clock = time.perf_counter()
{program}
elapsed = time.perf_counter() - clock
ended = time.process_time()
assert abs(first - {expected!r}) < 1e-6, first
print(imported - began, ended - imported, elapsed)
"""


def time_process(name: str, cache: Path) -> tuple[float, float, float]:
    """Return the processor time of a fresh interpreter for import and first gradient, and the latter by the clock."""
    module, program = PROGRAMS[name]
    code = TIMING.format(cache=str(cache), module=module, program=program, expected=EXPECTED)
    environment = {
        **os.environ,
        "PYTHONPYCACHEPREFIX": str(cache / "bytecode"),
        "PYTHONDONTWRITEBYTECODE": "",
        "WIREGRAD_CACHE": str(cache / "wiregrad"),
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "torch"),
        "JAX_PLATFORMS": "cpu",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
    imported, first, elapsed = map(float, done.stdout.split()[-3:])
    return imported, first, elapsed


def run(*, quick: bool = False) -> Report:
    """Measure every entrant that is installed; torch.compile takes many seconds, and is left out by `quick`."""
    names = [name for name, (module, _) in PROGRAMS.items() if find_spec(module) is not None]
    names = [name for name in names if not (quick and name == "torch.compile")]
    imports: dict[str, float] = {}
    clocks: dict[str, list[float]] = {name: [] for name in names}
    with TemporaryDirectory() as folder:
        cold = {name: time_process(name, Path(folder))[1] for name in names}

        def time_first(name: str) -> float:
            imports[name], first, elapsed = time_process(name, Path(folder))
            clocks[name].append(elapsed)
            return first

        warm = interleaved({name: lambda name=name: time_first(name) for name in names}, 3 if quick else REPEATS)
    own = imports["wiregrad, circuit.compile"] + warm["wiregrad, circuit.compile"]
    rows = []
    for name in names:
        both = imports[name] + warm[name]
        times = map(milliseconds, (imports[name], cold[name], warm[name], statistics.median(clocks[name]), both))
        rows.append([name, *times, f"{both / own:.1f}"])
    missing = sorted({module for module, _ in PROGRAMS.values() if find_spec(module) is None})
    absent = f" Not installed: {', '.join(missing)}." if missing else ""
    table = Table(
        f"Processor time; median of fresh interpreters that take turns. Wanted of ours, after the import: at most "
        f"{milliseconds(TARGET)} compiled, and by the clock {milliseconds(EAGER_TARGET)} not compiled.{absent}",
        [
            "",
            "import",
            "first gradient, empty caches",
            "first gradient, warm caches",
            "the same by the clock",
            "import and first",
            "ratio",
        ],
        rows,
    )
    figures = {"imports": imports, "cold": cold, "warm": warm, "by the clock": clocks}
    return Report([table], {**figures, "target": TARGET, "target not compiled": EAGER_TARGET})
