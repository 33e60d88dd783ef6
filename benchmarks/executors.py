"""Batches and data-parallel gradients on executors: the same bits, dead workers, throughput and memory.

    python -m benchmarks.executors bits [ENGINE...]         digests of results on 1, 2 and 4 workers
    python -m benchmarks.executors kills [ENGINE...] [-n 50]  workers are killed at random; every result is compared
    python -m benchmarks.executors throughput               1 and 2 processes, large batches
    python -m benchmarks.executors stream [-n 1000000000]   points that no memory holds, with the peak of all processes

Engines are `pool` (processes of this machine), `dask`, `ray` and `mpi`; the last starts itself again under mpiexec.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import wiregrad as wg
from benchmarks.gpu import make_circuit

ROOT = Path(__file__).parents[1]
ENGINES = ("pool", "dask", "ray", "mpi")
WORKERS = (1, 2, 4)
FORMULA = "tanh(a * b) + sin(c) * log(1 + a * a) + exp(-b * b) / (1 + c * c)"
CHUNK = 10_000
MIN_RATIO = 1.7
KILL_SHARE = 0.4
"""The share of chunks whose worker is killed, as long as there are kills left."""


def draw_chunk(size: int, number: int) -> NDArray[np.float64]:
    """Return random points, always the same for one number."""
    return np.random.default_rng(number).standard_normal((size, 3))


def draw_or_die(folder: str, kills: int, size: int, number: int) -> NDArray[np.float64]:
    """Return points; until so many workers have died, this one may be killed in a moment, wherever it is then."""
    done = len(os.listdir(folder))
    if done < kills and random.SystemRandom().random() < KILL_SHARE:
        try:
            # Whoever creates the file is the one that dies.
            os.close(os.open(f"{folder}/{done}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return draw_chunk(size, number)
        delay = random.SystemRandom().uniform(0.0, 0.02)
        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
        time.sleep(random.SystemRandom().uniform(0.0, 0.04))
    return draw_chunk(size, number)


def mean_error(params: dict[str, Any], x: Any, labels: Any) -> Any:
    """Return the cross entropy of a small network at each example; `labels` are whole numbers."""
    hidden = np.tanh(x @ params["w"] + params["b"])
    scores = hidden @ params["v"]
    return wg.logsumexp(scores, axis=1) - scores[np.arange(len(labels)), labels]


def draw_examples() -> tuple[dict[str, NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.int64]]]:
    rng = np.random.default_rng(5)
    params = {"w": rng.normal(size=(6, 8)), "b": rng.normal(size=8), "v": rng.normal(size=(8, 3))}
    return params, (rng.normal(size=(50_500, 6)), rng.integers(0, 3, 50_500))


@contextmanager
def open_engine(name: str, workers: int) -> Iterator[object]:
    """Yield an executor of an engine."""
    if name == "pool":
        with ProcessPoolExecutor(workers, mp_context=get_context("forkserver")) as pool:
            yield pool
    elif name == "dask":
        import dask  # noqa: PLC0415
        from distributed import Client, LocalCluster  # noqa: PLC0415

        # A worker that is not there so long after it was lost is given up for good. By default that is 15 seconds: with
        # a kill every few seconds it is likely to have been killed once more just then.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            yield client
    elif name == "ray":
        import ray  # noqa: PLC0415

        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="error")
        try:
            yield ray
        finally:
            ray.shutdown()
    else:
        from mpi4py.futures import MPIPoolExecutor  # noqa: PLC0415

        with MPIPoolExecutor(workers) as mpi_pool:
            yield mpi_pool


def digest_results(executor: object) -> dict[str, str]:
    """Return digests of several results: rows, means of drawn points, and the gradient of a loss."""
    compiled = wg.circuit(FORMULA).compile()
    points = draw_chunk(100_001, 0)
    params, data = draw_examples()
    mean, grads = wg.mean_value_and_grad(mean_error, params, data, executor=executor, chunk_size=CHUNK)
    results = {
        "rows": compiled.batch_value_and_grad(points, executor=executor, chunk_size=CHUNK),
        "mean of drawn points": compiled.batch_value_and_grad(
            partial(draw_chunk, CHUNK), chunks=12, executor=executor, reduce="mean"
        ),
        "sum of an iterator": (
            compiled.batch(iter([points[:777], points[777:9000]]), executor=executor, reduce="sum"),
        ),
        "compiled function": (wg.compile(_bend).batch(points[:, 0], executor=executor, chunk_size=CHUNK),),
        "loss": (mean, *(grads[name] for name in sorted(grads))),
    }
    return {name: _digest(parts) for name, parts in results.items()}


def _bend(x: float) -> float:
    return x * x if x < 0.5 else np.sin(x)


def _digest(parts: Any) -> str:
    data = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
    return hashlib.sha256(data).hexdigest()[:16]


def compare_bits(engines: list[str]) -> bool:
    """Print the digests of all engines; return whether all are equal."""
    wanted = digest_results(None)
    print(f"{'this process':16} {' '.join(wanted.values())}", flush=True)
    fine = True
    for engine in engines:
        for workers in WORKERS:
            found = _run_under_mpi(workers) if engine == "mpi" else _run_engine(engine, workers)
            fine &= found == wanted
            verdict = "same" if found == wanted else "OTHER"
            print(f"{engine + ', ' + str(workers):16} {' '.join(found.values())} {verdict}", flush=True)
    return fine


def _run_engine(engine: str, workers: int) -> dict[str, str]:
    with open_engine(engine, workers) as executor:
        return digest_results(executor)


def _run_under_mpi(workers: int) -> dict[str, str]:
    """Return the digests of a run under mpiexec, with one process more than workers: it hands out the chunks."""
    script = Path(sys.executable).parent / "mpiexec"
    command = [str(script) if script.exists() else "mpiexec", "-n", str(workers + 1), sys.executable]
    command += ["-m", "mpi4py.futures", "-m", "benchmarks.executors", "mpi-digests", "-n", str(workers)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    digests: dict[str, str] = json.loads(result.stdout.strip().splitlines()[-1])
    return digests


def compare_after_kills(engine: str, kills: int, workers: int = 2) -> bool:
    """Run batches until so many workers were killed, and return whether every result was right."""
    compiled = wg.circuit(FORMULA).compile()
    wanted = compiled.batch_value_and_grad(partial(draw_chunk, 500), chunks=20, reduce="sum")
    batches = 0
    right = 0
    with tempfile.TemporaryDirectory() as folder, open_engine(engine, workers) as executor:
        points = partial(draw_or_die, folder, kills, 500)
        while len(os.listdir(folder)) < kills or not batches:
            value, grads = compiled.batch_value_and_grad(points, chunks=20, executor=executor, reduce="sum")
            batches += 1
            right += value == wanted[0] and np.array_equal(grads, wanted[1])
        killed = len(os.listdir(folder))
    print(f"{engine}: {killed} workers killed, {right} of {batches} results right", flush=True)
    return right == batches


def measure_throughput() -> bool:
    """Print how much faster two processes are than one, in turns; return whether all ratios reach the bound."""
    drawn = wg.circuit(FORMULA).compile()
    large = make_circuit(1000).compile()
    table = np.random.default_rng(1).normal(size=(1_000_000, len(large.circuit.inputs)))
    works: dict[str, Callable[[object], object]] = {
        "10^7 drawn points, mean of the gradient": lambda executor: drawn.batch_value_and_grad(
            partial(draw_chunk, 100_000), chunks=100, executor=executor, reduce="mean"
        ),
        "10^6 rows of 32 numbers, 1,000 nodes, all results": lambda executor: large.batch_value_and_grad(
            table, executor=executor, chunk_size=20_000
        ),
    }
    fine = True
    context = get_context("forkserver")
    with ProcessPoolExecutor(1, mp_context=context) as one, ProcessPoolExecutor(2, mp_context=context) as two:
        for name, work in works.items():
            seconds: dict[object, list[float]] = {one: [], two: []}
            for _ in range(4):
                for pool, times in seconds.items():
                    began = time.perf_counter()
                    work(pool)
                    times.append(time.perf_counter() - began)
            ratio = min(seconds[one][1:]) / min(seconds[two][1:])
            fine &= ratio >= MIN_RATIO
            print(f"{name}: {min(seconds[one][1:]):.2f} s with 1 worker, {ratio:.2f}x with 2", flush=True)
    return fine


def stream_points(count: int) -> bool:
    """Print the time and memory of a batch with very many points; return whether all processes took at most 1 GB."""
    compiled = wg.circuit(FORMULA).compile()
    size = min(count, 250_000)
    began = time.perf_counter()
    with ProcessPoolExecutor(2, mp_context=get_context("forkserver")) as pool:
        chunks = count // size
        value, grads = compiled.batch_value_and_grad(
            partial(draw_chunk, size), chunks=chunks, executor=pool, reduce="mean", progress=sys.stderr.isatty()
        )
        peaks = [_peak_bytes(process.pid) for process in active_children() if process.pid]
    seconds = time.perf_counter() - began
    total = _peak_bytes(os.getpid()) + sum(peaks)
    print(f"{chunks * size:,} points in {seconds:.0f} s: mean {value:.6f}, gradient {grads.round(6).tolist()}")
    print(f"peak of all {1 + len(peaks)} processes: {total / 1e9:.2f} GB", flush=True)
    return total < 1e9


def _peak_bytes(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.executors")
    parser.add_argument("task", choices=("bits", "kills", "throughput", "stream", "mpi-digests"))
    parser.add_argument("engines", nargs="*", choices=[[], *ENGINES])
    parser.add_argument("-n", type=int, default=None)
    chosen = parser.parse_args()
    # Workers import this module.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    if chosen.task == "mpi-digests":
        print(json.dumps(_run_engine("mpi", chosen.n)))
        return 0
    if chosen.task == "bits":
        fine = compare_bits(chosen.engines or list(ENGINES))
    elif chosen.task == "kills":
        # A killed process of MPI ends the whole job.
        engines = chosen.engines or [engine for engine in ENGINES if engine != "mpi"]
        results = [compare_after_kills(engine, chosen.n or 50) for engine in engines]
        fine = all(results)
    elif chosen.task == "throughput":
        fine = measure_throughput()
    else:
        fine = stream_points(chosen.n or 10**9)
    print("holds" if fine else "DOES NOT HOLD")
    return not fine


if __name__ == "__main__":
    # Under its own name, so that workers find what they are sent.
    sys.exit(import_module("benchmarks.executors").main())
