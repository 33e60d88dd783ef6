"""Batches on a GPU: value and gradient per point, beside a copy of the same bytes, NVRTC's code, JAX and PyTorch.

    python -m benchmarks.gpu [--no-peers] [100] [1000] [10000]      circuits of so many nodes, by default all

It needs a machine with an NVIDIA GPU; CuPy, JAX and PyTorch are used as far as they are installed.

All times are of one run, per call, of ten calls one after another that the GPU need not wait for: medians between two
CUDA events, and for JAX and PyTorch by the clock. The copy limit is the time of a device-to-device copy that reads and
writes as many bytes as a batch has to: points in, values and gradients out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from wiregrad.api import Builder, Circuit
from wiregrad.ir import TABLE

INPUTS = 32
SIZES = ((100, 10**6), (100, 10**7), (1000, 10**6), (10_000, 10**5))
MAX_PEER_NODES = 100
"""With more, PyTorch takes many minutes to compile."""
MAX_NVRTC_NODES = 1000
REPEATS = 7
CALLS = 10
"""How many calls are begun before the first has to be complete."""
KINDS = ("add", "multiply", "subtract", "tanh", "sin", "power", "exp", "add", "multiply", "subtract")
"""Half of the nodes are sums and products, a quarter functions, an eighth whole powers."""


def make_circuit(nodes: int, seed: int = 0, inputs: int = INPUTS, kinds: Sequence[str] = KINDS) -> Circuit:
    """Return a random circuit in which the output depends on every node, and values stay moderate."""
    rng = np.random.default_rng(seed)
    builder = Builder()
    ports = [builder.input(f"x{k}") for k in range(inputs)]
    bounded = [False] * inputs
    exponents = [builder.place_constant(np.float64(k)) for k in (2.0, 3.0)]
    for number in range(nodes - inputs + 1):
        one, two = rng.choice(inputs, 2, replace=False).tolist()
        kind = kinds[int(rng.integers(len(kinds)))]
        if kind in ("power", "exp") and not bounded[one]:
            kind = "tanh"
        if kind in ("tanh", "sin", "exp"):
            ports[one] = builder.apply(TABLE[kind], ports[one])
        elif kind == "power":
            ports[one] = builder.apply(TABLE["power"], ports[one], exponents[number % 2])
        else:
            ports[one] = builder.apply(TABLE[kind], ports[one], ports[two])
        bounded[one] = kind in ("tanh", "sin", "power")
    total = ports[0]
    for port in ports[1:]:
        total = builder.apply(TABLE["add"], total, port)
    return builder.build(total)


def time_on_device(run: Callable[[], Any]) -> float:
    """Return the median seconds of a call that begins work on the GPU."""
    import cupy  # noqa: PLC0415  # only on a machine with a GPU

    run()
    run()
    seconds = list[float]()
    for _ in range(REPEATS):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        for _ in range(CALLS):
            run()
        end.record()
        end.synchronize()
        seconds.append(cupy.cuda.get_elapsed_time(begin, end) / 1e3 / CALLS)
    return float(np.median(seconds))


def time_on_host(run: Callable[[], Any], calls: int = 1) -> float:
    """Return the least seconds per call, by the clock, of calls that all are complete at the end."""
    import cupy  # noqa: PLC0415

    run()
    seconds = list[float]()
    for _ in range(REPEATS):
        began = time.perf_counter()
        for _ in range(calls):
            result = run()
        for part in result if isinstance(result, tuple) else ():
            getattr(part, "block_until_ready", cupy.cuda.Device().synchronize)()
        seconds.append((time.perf_counter() - began) / calls)
        del result
    return min(seconds)


def make_nvrtc_call(circuit: Circuit, columns: Any, count: int) -> Callable[[], Any]:
    """Return a call of the circuit's CUDA text, compiled by NVRTC."""
    import cupy  # noqa: PLC0415

    module = cupy.RawModule(code=circuit.to_cuda(), backend="nvrtc")
    kernel = module.get_function("value_and_grad_batch")
    values, grads = cupy.empty(count), cupy.empty((INPUTS, count))
    shape = ((-(-count // 128),), (128,))
    return lambda: kernel(*shape, (np.int64(count), columns, values, grads))


def make_jax_call(circuit: Circuit, host: Any) -> Callable[[], Any]:
    import jax  # noqa: PLC0415

    jax.config.update("jax_enable_x64", True)
    function = circuit.to_jax()
    both = jax.jit(jax.vmap(jax.value_and_grad(lambda x: function(*x)), in_axes=1, out_axes=(0, 1)))
    points = jax.numpy.asarray(np.ascontiguousarray(host.T))
    return lambda: both(points)


def make_torch_call(circuit: Circuit, host: Any) -> Callable[[], Any]:
    import torch  # noqa: PLC0415

    function = circuit.to_torch()
    points = torch.as_tensor(np.ascontiguousarray(host.T), device="cuda")
    both = torch.func.grad_and_value(lambda x: function(*x))
    compiled = torch.compile(torch.func.vmap(both, in_dims=1, out_dims=(1, 0)))
    return lambda: compiled(points)


def measure_case(nodes: int, count: int, peers: bool) -> None:
    import cupy  # noqa: PLC0415

    circuit = make_circuit(nodes)
    host = np.random.default_rng(1).normal(size=(count, INPUTS))
    columns = cupy.asarray(np.ascontiguousarray(host.T))
    began = time.perf_counter()
    compiled = circuit.compile(device="cuda")
    seconds = time.perf_counter() - began
    half_bytes = count * (2 * INPUTS + 1) * 8 // 2
    source, target = cupy.empty(half_bytes, np.uint8), cupy.empty(half_bytes, np.uint8)
    limit = time_on_device(partial(cupy.copyto, target, source))
    rows = cupy.asarray(host)
    table = {
        "columns on the GPU": time_on_device(lambda: compiled.batch_value_and_grad(columns.T)),
        "rows on the GPU": time_on_device(lambda: compiled.batch_value_and_grad(rows)),
        "NumPy rows": time_on_host(lambda: compiled.batch_value_and_grad(host)),
    }
    calls: dict[str, Callable[[], Callable[[], Any]]] = {}
    if nodes <= MAX_NVRTC_NODES:
        calls["NVRTC"] = lambda: make_nvrtc_call(circuit, columns, count)
    if peers:
        calls |= {
            "jax.jit": lambda: make_jax_call(circuit, host),
            "torch.compile": lambda: make_torch_call(circuit, host),
        }
    for name, make in calls.items():
        try:
            began = time.perf_counter()
            call = make()
            call()
            cupy.cuda.Device().synchronize()
            table[f"{name} (ready in {time.perf_counter() - began:.1f} s)"] = (
                time_on_device(call) if name == "NVRTC" else time_on_host(call, CALLS)
            )
        except Exception as error:
            print(f"  {name}: {type(error).__name__}: {str(error)[:300]}")
    ours = table["columns on the GPU"]
    size = sum(1 for _ in circuit.nodes)
    print(f"{size} nodes, {count:,} points, compiled in {seconds:.2f} s; copy {limit * 1e3:.3f} ms")
    for name, value in table.items():
        print(f"  {name:34} {value * 1e3:10.3f} ms  {limit / value:6.1%} of the copy limit  {value / ours:6.2f}x")
    sys.stdout.flush()


def main() -> None:
    chosen = [int(text) for text in sys.argv[1:] if text.isdigit()]
    for nodes, count in SIZES:
        if not chosen or nodes in chosen:
            measure_case(nodes, count, "--no-peers" not in sys.argv and nodes <= MAX_PEER_NODES)


if __name__ == "__main__":
    main()
