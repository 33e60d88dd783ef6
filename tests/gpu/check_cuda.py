"""Runs the CUDA text of random circuits on a GPU and compares it with their C, point by point.

A machine with a GPU may have nothing but its driver, so everything is written and compiled where NumPy and nvcc are:

    python tests/gpu/check_cuda.py prepare              writes build/gpu/check
    build/gpu/check 1000000 OUT                         there: runs every circuit at so many points, writes to OUT
    python tests/gpu/check_cuda.py judge OUT            back here: judges what the program could not

The program accepts a result that is within 4 ulp of that of the same circuit in C, or within 10 times a running error
bound: what 4 ulp in every library function and one in every sum and product do to it, to first order. It writes all
others to OUT, up to a few hundred for each circuit, with a sample of the rest: these are judged here against the
interpreter, as receipts are.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from wiregrad.api import Circuit
from wiregrad.backends.run_listings import RunnableListing, rename_helpers
from wiregrad.codegen import write_listing
from wiregrad.inspect.receipt import ReceiptPoint
from wiregrad.ir import CONSTANT, INPUT, TABLE, GraphBuilder, Pattern, Port, Row
from wiregrad.ops import Elementwise
from wiregrad.ops.gradient_flow import fill_absent
from wiregrad.passes import gradient_circuit

# A script of the repository, run by its path.
sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.support.random_circuits import random_circuit

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "gpu"
COMPILE_SECONDS = 3600
"""How long one call of a compiler may take."""
CIRCUITS, PER_FILE, MOST = 200, 10, 4
"""How many circuits, how many of them in a file, and how many inputs they have at most."""
EPS = 2.0**-52


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def circuit_of(seed: int) -> Circuit:
    rng = np.random.default_rng([seed, 0])
    return random_circuit(rng, nodes=int(rng.integers(4, 21)))


def bound_circuit(circuit: Circuit) -> Circuit:
    """Return the circuit that computes how far roundings may move the value and each gradient, to first order."""
    whole, builder = gradient_circuit(circuit), GraphBuilder(finite=False)
    ports, errors, constants = list[Port](), list[Any](), whole.constants()
    for row in whole.rows():
        kind = whole.type_of(row.node)
        if row.op is INPUT:
            ports.append(builder.input(whole.name_of(row.node), kind))
        elif row.op is CONSTANT:
            ports.append(builder.place_constant(constants[row.node]))
        else:
            ports.append(builder.apply(row.op, *[ports[source] for source in row.sources], mode=row.mode))
        errors.append(error_of(row, ports, errors) if row.sources and kind.differentiable else None)
    nodes = whole.columns.outputs.tolist()
    zero = builder.place_constant(np.float64(0.0))
    return builder.build(labels={f"e{k}": zero if errors[n] is None else errors[n] for k, n in enumerate(nodes)})


def error_of(row: Row, ports: list[Port], errors: list[Any]) -> Any:
    """Return how far a node may be off: by its own rounding, and by what its sources are off times its slopes."""
    op, xs, y = row.op, [ports[source] for source in row.sources], ports[row.node]
    assert isinstance(op, Elementwise)
    size, found = TABLE["absolute"], None
    own = 4.0 if op.pattern is Pattern.SCALE else 1.0 if op.pattern in (Pattern.SWAP, Pattern.DISTRIBUTE) else 0.0
    parts = [size(y) * (own * EPS)] if own else []
    for slot, source in enumerate(row.sources):
        local = fill_absent(op.local(slot, xs, y, row.mode)) if errors[source] is not None else 0.0
        if isinstance(local, Port):
            # What a branch that was not taken is off by, be it infinite, counts for nothing.
            parts.append(TABLE["where"](TABLE["equal"](local, 0.0), 0.0, size(local) * errors[source]))
        elif local:
            parts.append(errors[source] * abs(local))
    for part in parts:
        found = part if found is None else found + part
    return found


MAIN = """
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
@DECLARED@
struct Entry {
    void (*launch)(long, const double *, double *, double *);
    double (*exact)(const double *, double *);
    void (*bound)(const double *, double *);
    int inputs;
};
@LAUNCHERS@
static const Entry table[] = { @TABLE@ };
static const int MANY = sizeof table / sizeof table[0], SAMPLE = 8, KEPT = 300;

static void check(cudaError_t error) {
    if (error != cudaSuccess) { fprintf(stderr, "CUDA: %s\\n", cudaGetErrorString(error)); exit(2); }
}
static uint64_t mix(uint64_t z) {
    z += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}
static double uniform(uint64_t bits) { return ((bits >> 11) + 0.5) * 0x1p-53; }
static double draw(uint64_t key) {
    static const double awkward[] = { 0.0, 0.0, 1.0, 1.0, -1.0, 0.5, 6.0, INFINITY, NAN };
    const uint64_t one = mix(key), two = mix(one), three = mix(two);
    if (uniform(one) < 0.15) return awkward[two % 9];
    return 2.0 * std::sqrt(-2.0 * std::log(uniform(two))) * std::cos(6.283185307179586 * uniform(three));
}
static int64_t place(double x) {
    int64_t whole;
    memcpy(&whole, &x, sizeof whole);
    return whole < 0 ? INT64_MIN - whole : whole;
}
static double steps(double one, double two) {
    if (std::isnan(one) || std::isnan(two)) return std::isnan(one) && std::isnan(two) ? 0.0 : INFINITY;
    return std::fabs((double)place(one) - (double)place(two)) < 1e6 ? std::fabs((double)(place(one) - place(two)))
                                                                     : INFINITY;
}
struct Tally {
    long same = 0, near = 0, bounded = 0, open = 0;
    double worst_ulp = 0.0, worst_ratio = 0.0;
    void add(const Tally &other) {
        same += other.same; near += other.near; bounded += other.bounded; open += other.open;
        worst_ulp = std::max(worst_ulp, other.worst_ulp);
        worst_ratio = std::max(worst_ratio, other.worst_ratio);
    }
};
int main(int count, char **arguments) {
    if (count != 3) return 1;
    const long n = atol(arguments[1]);
    const std::string folder = arguments[2];
    const auto start = std::chrono::steady_clock::now();
    FILE *out = fopen((folder + "/results.bin").c_str(), "wb");
    if (!out) return 1;
    cudaDeviceProp device;
    check(cudaGetDeviceProperties(&device, 0));
    const int threads = std::max(1u, std::thread::hardware_concurrency());
    printf("%s, %d circuits, %ld points each, %d threads\\n", device.name, MANY, n, threads);
    double *x, *value, *grad;
    check(cudaMalloc(&x, sizeof(double) * 4 * n));
    check(cudaMalloc(&value, sizeof(double) * n));
    check(cudaMalloc(&grad, sizeof(double) * 4 * n));
    std::vector<double> points(4 * n), values(n), grads(4 * n);
    Tally all;
    std::mutex lock;
    for (int k = 0; k < MANY; k++) {
        const int inputs = table[k].inputs;
        auto each = [&](auto &&work) {
            std::vector<std::thread> team;
            for (int t = 0; t < threads; t++) team.emplace_back(work, n * t / threads, n * (t + 1) / threads);
            for (auto &one : team) one.join();
        };
        each([&](long from, long to) {
            for (int j = 0; j < inputs; j++)
                for (long i = from; i < to; i++) points[j * n + i] = draw(mix(k * 4 + j) + i);
        });
        check(cudaMemcpy(x, points.data(), sizeof(double) * inputs * n, cudaMemcpyHostToDevice));
        table[k].launch(n, x, value, grad);
        check(cudaGetLastError());
        check(cudaDeviceSynchronize());
        check(cudaMemcpy(values.data(), value, sizeof(double) * n, cudaMemcpyDeviceToHost));
        check(cudaMemcpy(grads.data(), grad, sizeof(double) * inputs * n, cudaMemcpyDeviceToHost));
        Tally total;
        int kept = 0;
        each([&](long from, long to) {
            Tally mine;
            for (long i = from; i < to; i++) {
                double at[4] = {0}, found[5] = {0}, wanted[5] = {0}, bound[5];
                for (int j = 0; j < inputs; j++) { at[j] = points[j * n + i]; found[j + 1] = grads[j * n + i]; }
                found[0] = values[i];
                wanted[0] = table[k].exact(at, wanted + 1);
                bool asked = false;
                int odd = 0;
                for (int r = 0; r <= inputs; r++) {
                    const double off = steps(found[r], wanted[r]);
                    if (off == 0.0) { mine.same++; continue; }
                    if (off <= 4.0) { mine.near++; mine.worst_ulp = std::max(mine.worst_ulp, off); continue; }
                    if (!asked) { table[k].bound(at, bound); asked = true; }
                    const double ratio = std::fabs(found[r] - wanted[r]) / bound[r];
                    if (ratio <= 10.0) { mine.bounded++; mine.worst_ratio = std::max(mine.worst_ratio, ratio); }
                    else { mine.open++; odd = 1; }
                }
                if (odd || i < SAMPLE) {
                    std::lock_guard<std::mutex> guard(lock);
                    if (i < SAMPLE || kept++ < KEPT) {
                        const double head[2] = { (double)k, (double)odd };
                        fwrite(head, sizeof(double), 2, out);
                        fwrite(at, sizeof(double), 4, out);
                        fwrite(found, sizeof(double), 5, out);
                        fwrite(wanted, sizeof(double), 5, out);
                    }
                }
            }
            std::lock_guard<std::mutex> guard(lock);
            total.add(mine);
        });
        if (total.open) printf("circuit %d: %ld results open\\n", k, total.open);
        all.add(total);
        fflush(stdout);
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    printf("%ld results equal, %ld within 4 ulp, %ld within 10 times their bound (worst %.3g), %ld open; %.1f s\\n",
           all.same, all.near, all.bounded, all.worst_ratio, all.open, seconds);
    return fclose(out) ? 1 : 0;
}
"""


def programs(language: str, count: int) -> list[RunnableListing]:
    """Return the circuits as programs of a language."""
    found = []
    for k in range(count):
        circuit = circuit_of(k)
        name = f"on_{language}{k}"
        found.append(RunnableListing(write_listing(circuit, language, name=name), name, circuit.inputs))
    return found


def sources(count: int) -> dict[str, str]:
    """Return every file to compile, by name."""
    found: dict[str, str] = {}
    for language, ending in (("c", "c"), ("cuda", "cu")):
        listed = programs(language, count)
        for start in range(0, count, PER_FILE):
            texts = [rename_helpers(k, listed[k]) for k in range(start, min(start + PER_FILE, count))]
            head = ["#include <math.h>", "#include <stdbool.h>"]
            found[f"{language}{start}.{ending}"] = "\n".join([*head, *texts])
    bounds = [bound_circuit(circuit_of(k)) for k in range(count)]
    for start in range(0, count, PER_FILE):
        texts = [
            rename_helpers(
                k, RunnableListing(write_listing(bounds[k], "c", "value", f"bound{k}"), f"bound{k}", bounds[k].inputs)
            )
            for k in range(start, min(start + PER_FILE, count))
        ]
        found[f"bound{start}.c"] = "\n".join(["#include <math.h>", "#include <stdbool.h>", *texts])
    return {**found, "main.cu": main_source(count)}


def main_source(count: int) -> str:
    """Return the program that runs all circuits."""
    declared, launchers, rows = [], [], []
    for k in range(count):
        arguments = "long n, const double *x, double *value, double *grad"
        declared += [
            f'extern "C" __global__ void on_cuda{k}_batch({arguments});',
            f'extern "C" double on_c{k}(const double *x, double *grad);',
            f'extern "C" void bound{k}(const double *x, double *y);',
        ]
        call = f"on_cuda{k}_batch<<<(unsigned)((n + 127) / 128), 128>>>(n, x, value, grad);"
        launchers.append(f"static void launch{k}({arguments}) {{ {call} }}")
        rows.append(f"{{ launch{k}, on_c{k}, bound{k}, {len(circuit_of(k).inputs)} }}")
    text = MAIN.replace("@DECLARED@", "\n".join(declared)).replace("@LAUNCHERS@", "\n".join(launchers))
    return text.replace("@TABLE@", ",\n    ".join(rows))


def prepare(count: int, jobs: int, flags: list[str]) -> None:
    """Write and compile everything into build/gpu."""
    BUILD.mkdir(parents=True, exist_ok=True)
    for old in BUILD.iterdir():
        old.unlink()
    written = sources(count)
    waiting = []
    for name, text in written.items():
        (BUILD / name).write_text(text)
        object_file = f"{name}.o"
        if name.endswith(".c"):
            command = ["gcc", "-O2", "-std=c99", "-Wall", "-Wextra", "-Werror", "-c", name, "-o", object_file]
        else:
            command = ["nvcc", "-O2", "-arch=sm_90", *flags, "-c", name, "-o", object_file]
        waiting.append(command)
    running: list[tuple[list[str], subprocess.Popen[bytes]]] = []
    while waiting or running:
        while waiting and len(running) < jobs:
            command = waiting.pop()
            running.append((command, subprocess.Popen(command, cwd=BUILD)))
        command, process = running.pop(0)
        if process.wait(COMPILE_SECONDS):
            sys.exit(f"failed: {' '.join(command)}")
    objects = [f"{name}.o" for name in written]
    subprocess.run(
        ["nvcc", "-arch=sm_90", "-o", "check", *objects, "-lm"], cwd=BUILD, check=True, timeout=COMPILE_SECONDS
    )
    for name in objects:
        (BUILD / name).unlink()
    say(f"{BUILD / 'check'}: {(BUILD / 'check').stat().st_size / 2**20:.1f} MiB")


def judge(folder: Path) -> None:
    """Judge the results that the program left open, and its sample, against the interpreter."""
    rows = np.fromfile(folder / "results.bin").reshape(-1, 16)
    found: Counter[str] = Counter()
    circuits: dict[int, Circuit] = {}
    for row in rows:
        k, odd = int(row[0]), bool(row[1])
        circuit = circuits.setdefault(k, circuit_of(k))
        width = len(circuit.inputs)
        point = ReceiptPoint(circuit, [np.float64(x) for x in row[2 : 2 + width]])
        for name, results in (("cuda", row[6:11]), ("c", row[11:16])):
            for r in range(width + 1):
                verdict = point.judge_result(r, results[r])
                found[f"{name} {'open' if odd else 'sample'} {'fits' if verdict.fits else 'DIFFERS'}"] += 1
                if not verdict.fits:
                    wanted = point.reference_results[r]
                    say(f"circuit {k}, result {r}, {name}: {results[r]!r}, wanted {wanted!r} at {point.inputs}")
    for name, count in sorted(found.items()):
        say(f"{count:8,} {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare CUDA listings with C listings on a GPU.")
    parser.add_argument("what", choices=["prepare", "judge"])
    parser.add_argument("folder", nargs="?", type=Path, default=BUILD)
    parser.add_argument("--count", type=int, default=CIRCUITS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--flags", default="-fmad=false", help="more flags for nvcc")
    given = parser.parse_args()
    if given.what == "prepare":
        prepare(given.count, given.jobs, given.flags.split())
    else:
        judge(given.folder)


if __name__ == "__main__":
    main()
