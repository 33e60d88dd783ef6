"""A circuit in C for a microcontroller: value and sensitivity of a thermistor in 2 kB.

The voltage at a thermistor gives its temperature by the Steinhart-Hart equation. wiregrad writes value and gradient as
one C function on `float`, without a library or an allocation; the gradient says how far the temperature is off for one
step of the converter. Where a C compiler is found, its code is measured against a budget of 2 kB and run.

Run it with `python examples/gallery/microcontroller.py`; look for "budget".
"""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile

import wiregrad as wg

BUDGET = 2048
FORMULA = "r = 10000 / (4095 / x - 1); u = log(r); celsius = 1 / (0.001129 + 0.000234 * u + 8.77e-8 * u**3) - 273.15"


def measure_code(text):
    """Compile C text; returns a function of the reading and the size of its code, or None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None, None
    with tempfile.TemporaryDirectory() as name:
        source, code, shared = (Path(name) / file for file in ("sensor.c", "sensor.o", "sensor.so"))
        source.write_text(text, encoding="utf-8")
        subprocess.run([compiler, "-Os", "-c", "-o", str(code), str(source)], check=True)
        subprocess.run([compiler, "-Os", "-shared", "-fPIC", "-o", str(shared), str(source), "-lm"], check=True)
        library, size = ctypes.CDLL(str(shared)), count_code_bytes(code)
    library.sensor.restype = ctypes.c_float

    def call(reading):
        gradient = (ctypes.c_float * 1)()
        value = library.sensor((ctypes.c_float * 1)(reading), gradient)
        return value, gradient[0]

    return call, size


def count_code_bytes(path):
    """Return the size of the machine code in an object file."""
    with path.open("rb") as file:
        sections = ELFFile(file).iter_sections()
        return sum(part["sh_size"] for part in sections if part.name.startswith((".text", ".rodata")))


def main(full=False):
    """Write the code, measure it, and compare it with Python."""
    circuit = wg.circuit(FORMULA)
    text = circuit.to_c(name="sensor", real="float")
    print(text)
    readings = np.linspace(300.0, 3800.0, 60)
    runs = [circuit.run(x=reading) for reading in readings]
    celsius, slopes = np.array([run.output for run in runs]), np.array([run.grads["x"] for run in runs])
    call, size = measure_code(text)
    if call is None:
        print("no C compiler here: the budget is not measured")
    else:
        in_c = np.array([call(reading) for reading in readings])
        print(f"{size} bytes of code, budget {BUDGET}: {'kept' if size <= BUDGET else 'exceeded'}")
        print(f"largest difference from float64: {np.max(np.abs(in_c[:, 0] - celsius)):.1e} degrees")
    return [
        {"title": "Temperature [degrees Celsius]", "x": "reading", "lines": {"celsius": [readings, celsius]}},
        {"title": "Degrees per step of the converter", "x": "reading", "lines": {"slope": [readings, slopes]}},
    ]


if __name__ == "__main__":
    main()
