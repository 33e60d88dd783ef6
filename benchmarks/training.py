"""Training steps of networks made of `wg.nn`, beside other frameworks: gradient and Adam's update in one compiled call.

The networks are those of `training_steps`, in float32: a dense network 784-512-256-10, a convolutional network on
pictures of 28x28, and a transformer block. PyTorch trains modules of `torch.nn` with `torch.optim.Adam` as it is by
default, as it is and compiled with `torch.compile`; JAX runs a jitted function with Adam written in it. Labels are
whole numbers everywhere, and change from step to step.

Every framework is a process of its own, with as many threads as the row says, and waits for its turn: so no library
takes time from another. Before it is measured, each takes the same steps from the same weights, and the losses must
agree. With one thread the processor time counts, with two the time by the clock, where the fastest turn counts because
others may use the machine too.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np

from benchmarks.measure import Report, Table, milliseconds, seconds

NETWORKS = ("network", "convolutions", "transformer")
FRAMEWORKS = ("wiregrad", "optim.CompiledStep", "PyTorch", "torch.compile", "JAX")
"""Who takes part: `wg.compile` of a step that is written by hand, the class that writes it for a model, and others."""
WANTED = {"network": 1.0, "transformer": 1.0}
"""The largest share of PyTorch's time that a step should take."""
RATE = 1e-3
CHECKED_STEPS = 10
"""Number of steps from the same weights after which the losses of all frameworks are compared."""
STEPS_PER_TURN = 10
TARGETS = 7
"""Number of different labels or targets that the steps take in turn."""
TURNS = 15
QUICK_TURNS = 3
HEADS = 4
WIDTH = 128

Step = Callable[[], Any]
"""Takes one training step; returns the loss before it."""


@dataclass(frozen=True)
class Problem:
    """The weights of a network by PyTorch's names, and a batch: inputs, and labels or targets."""

    weights: dict[str, Any]
    x: Any
    y: Any

    def cycle_targets(self, convert: Callable[[Any], Any]) -> Iterator[Any]:
        """Return the labels or targets of one step after another, converted for a framework before that."""
        return cycle([convert(np.roll(self.y, k, axis=0)) for k in range(TARGETS)])


def make_problem(name: str) -> Problem:
    """Return the first weights and the data of a network, the same in every process."""
    rng = np.random.default_rng(0)

    def draw(*shape: int, scale: float = 1.0) -> Any:
        return (scale * rng.normal(size=shape)).astype(np.float32)

    weights = {part: draw(*shape, scale=shape[-1] ** -0.5 / 2) for part, shape in SHAPES[name].items()}
    if name == "network":
        return Problem(weights, draw(128, 784), rng.integers(0, 10, 128))
    if name == "convolutions":
        return Problem(weights, draw(64, 1, 28, 28), rng.integers(0, 10, 64))
    return Problem(weights, draw(8, 64, WIDTH), draw(8, 64, WIDTH))


SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "network": {
        **{"0.weight": (512, 784), "0.bias": (512,), "2.weight": (256, 512), "2.bias": (256,)},
        **{"4.weight": (10, 256), "4.bias": (10,)},
    },
    "convolutions": {
        **{"0.weight": (16, 1, 3, 3), "0.bias": (16,), "3.weight": (32, 16, 3, 3), "3.bias": (32,)},
        **{"7.weight": (10, 1568), "7.bias": (10,)},
    },
    "transformer": {
        **{"self_attn.in_proj_weight": (3 * WIDTH, WIDTH), "self_attn.in_proj_bias": (3 * WIDTH,)},
        **{"self_attn.out_proj.weight": (WIDTH, WIDTH), "self_attn.out_proj.bias": (WIDTH,)},
        **{"linear1.weight": (4 * WIDTH, WIDTH), "linear1.bias": (4 * WIDTH,)},
        **{"linear2.weight": (WIDTH, 4 * WIDTH), "linear2.bias": (WIDTH,)},
        **{"norm1.weight": (WIDTH,), "norm1.bias": (WIDTH,), "norm2.weight": (WIDTH,), "norm2.bias": (WIDTH,)},
    },
}
"""The shapes of all parameters by network and name."""


def list_layers(nn: Any, name: str, **kind: Any) -> Any:
    """Return a network of the layers of a library, which have the same names in `wg.nn` and in `torch.nn`."""
    if name == "network":
        return nn.Sequential(
            nn.Linear(784, 512, **kind), nn.ReLU(), nn.Linear(512, 256, **kind), nn.ReLU(), nn.Linear(256, 10, **kind)
        )
    if name == "convolutions":
        return nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, **kind),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1, **kind),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(1568, 10, **kind),
        )
    block = nn.TransformerBlock if hasattr(nn, "TransformerBlock") else nn.TransformerEncoderLayer
    return block(WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True, **kind)


def make_wiregrad_step(name: str, problem: Problem) -> Step:
    """Return a step with `wg.nn`, compiled."""
    import wiregrad as wg  # noqa: PLC0415 - each process loads one framework
    from wiregrad import nn, optim  # noqa: PLC0415

    model = list_layers(nn, name, rng=np.random.default_rng(0), dtype=np.float32)
    model.load_state_dict(problem.weights)
    structure, adam = model.emptied(), optim.Adam(lr=RATE)
    measure = nn.mse_loss if name == "transformer" else nn.cross_entropy

    def compute_loss(arrays: Any, x: Any, y: Any) -> Any:
        return measure(nn.call_with(structure, arrays, x), y)

    @wg.compile
    def take_step(arrays: Any, state: Any, x: Any, y: Any) -> Any:
        loss, gradients = wg.value_and_grad(compute_loss)(arrays, x, y)
        return loss, *adam.update(arrays, gradients, state)

    arrays = model.arrays()
    state = adam.init(arrays)
    targets = problem.cycle_targets(np.asarray)

    def step() -> Any:
        nonlocal arrays, state
        loss, arrays, state = take_step(arrays, state, problem.x, next(targets))
        return loss

    return step


def make_compiled_step(name: str, problem: Problem) -> Step:
    """Return a step with `optim.CompiledStep`, which changes the model and the optimiser."""
    from wiregrad import nn, optim  # noqa: PLC0415

    model = list_layers(nn, name, rng=np.random.default_rng(0), dtype=np.float32)
    model.load_state_dict(problem.weights)
    measure = nn.mse_loss if name == "transformer" else nn.cross_entropy
    optimizer = optim.Adam(model.parameters(), lr=RATE)
    take_step = optim.CompiledStep(model, lambda model, x, y: measure(model(x), y), optimizer)
    targets = problem.cycle_targets(np.asarray)
    return lambda: take_step(problem.x, next(targets))


def make_torch_step(name: str, problem: Problem, *, compiled: bool = False) -> Step:
    """Return a step with `torch.nn`, eager or compiled."""
    import torch  # noqa: PLC0415
    from torch import nn  # noqa: PLC0415

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    model = list_layers(nn, name)
    model.load_state_dict({part: torch.tensor(array) for part, array in problem.weights.items()})
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    x, targets = torch.tensor(problem.x), problem.cycle_targets(torch.tensor)
    measure = nn.functional.mse_loss if name == "transformer" else nn.functional.cross_entropy

    def compute_loss(x: Any, y: Any) -> Any:
        return measure(model(x), y)

    compute = torch.compile(compute_loss) if compiled else compute_loss

    def step() -> Any:
        optimizer.zero_grad()
        loss = compute(x, next(targets))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def make_jax_step(name: str, problem: Problem) -> Step:
    """Return a jitted step in JAX, with Adam written in it."""
    import jax  # noqa: PLC0415
    import jax.numpy as jnp  # noqa: PLC0415

    forward = {"network": run_dense, "convolutions": run_convolutions, "transformer": run_transformer}[name]

    def compute_loss(weights: Any, x: Any, y: Any) -> Any:
        out = forward(weights, x)
        if name == "transformer":
            return jnp.mean((out - y) ** 2)
        logs = jax.nn.log_softmax(out)
        return -jnp.mean(jnp.take_along_axis(logs, y[:, None], axis=1))

    def change(weight: Any, gradient: Any, mean: Any, square: Any, count: Any) -> Any:
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient * gradient
        spread = jnp.sqrt(square) / jnp.sqrt(1.0 - 0.999**count) + 1e-8
        return weight - RATE / (1.0 - 0.9**count) * mean / spread, mean, square

    def take_step(weights: Any, means: Any, squares: Any, count: Any, x: Any, y: Any) -> Any:
        loss, gradients = jax.value_and_grad(compute_loss)(weights, x, y)
        changed = {k: change(weights[k], gradients[k], means[k], squares[k], count) for k in weights}
        return loss, *({k: parts[i] for k, parts in changed.items()} for i in range(3))

    # The arrays of the step before are given to the next one to write to.
    jitted = jax.jit(take_step, donate_argnums=(0, 1, 2))
    weights = {part: jnp.asarray(array) for part, array in problem.weights.items()}
    means, squares = ({part: jnp.zeros_like(array) for part, array in weights.items()} for _ in range(2))
    x, targets = jnp.asarray(problem.x), problem.cycle_targets(jnp.asarray)
    count = 0.0

    def step() -> Any:
        nonlocal weights, means, squares, count
        count += 1.0
        loss, weights, means, squares = jitted(weights, means, squares, count, x, next(targets))
        return jax.block_until_ready((loss, weights))[0]

    return step


def run_dense(weights: Any, x: Any) -> Any:
    """Return the scores of the dense network in JAX."""
    import jax  # noqa: PLC0415

    for k in (0, 2):
        x = jax.nn.relu(x @ weights[f"{k}.weight"].T + weights[f"{k}.bias"])
    return x @ weights["4.weight"].T + weights["4.bias"]


def run_convolutions(weights: Any, x: Any) -> Any:
    """Return the scores of the convolutional network in JAX."""
    import jax  # noqa: PLC0415
    import jax.numpy as jnp  # noqa: PLC0415

    for k in (0, 3):
        x = jax.lax.conv_general_dilated(x, weights[f"{k}.weight"], (1, 1), "SAME")
        x = jax.nn.relu(x + weights[f"{k}.bias"][None, :, None, None])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return x.reshape(x.shape[0], -1) @ weights["7.weight"].T + weights["7.bias"]


def run_transformer(weights: Any, x: Any) -> Any:
    """Return the outputs of the transformer block in JAX."""
    import jax  # noqa: PLC0415
    import jax.numpy as jnp  # noqa: PLC0415

    def normalize(x: Any, layer: str) -> Any:
        mean, variance = jnp.mean(x, axis=-1, keepdims=True), jnp.var(x, axis=-1, keepdims=True)
        return (x - mean) / jnp.sqrt(variance + 1e-5) * weights[f"{layer}.weight"] + weights[f"{layer}.bias"]

    n, length, width = x.shape
    joined = normalize(x, "norm1") @ weights["self_attn.in_proj_weight"].T + weights["self_attn.in_proj_bias"]
    q, k, v = (part.reshape(n, length, HEADS, -1).transpose(0, 2, 1, 3) for part in jnp.split(joined, 3, axis=-1))
    attention = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) / np.float32(np.sqrt(width // HEADS)), axis=-1)
    heads = (attention @ v).transpose(0, 2, 1, 3).reshape(n, length, width)
    x = x + heads @ weights["self_attn.out_proj.weight"].T + weights["self_attn.out_proj.bias"]
    inner = jax.nn.gelu(
        normalize(x, "norm2") @ weights["linear1.weight"].T + weights["linear1.bias"], approximate=False
    )
    return x + inner @ weights["linear2.weight"].T + weights["linear2.bias"]


def serve_turns(framework: str, name: str) -> None:
    """Take steps whenever a line with their number comes in; write the first losses, then the times of each turn."""
    problem = make_problem(name)
    makers = {
        **{"wiregrad": make_wiregrad_step, "optim.CompiledStep": make_compiled_step},
        **{"PyTorch": make_torch_step, "JAX": make_jax_step},
    }
    if framework == "torch.compile":
        step = make_torch_step(name, problem, compiled=True)
    else:
        step = makers[framework](name, problem)
    losses: list[float] = []
    first = seconds(lambda: losses.append(float(step())))
    losses += [float(step()) for _ in range(CHECKED_STEPS)]
    print(json.dumps({"losses": losses, "first": first}), flush=True)
    for line in sys.stdin:
        print(json.dumps(time_steps(step, int(line))), flush=True)


def time_steps(step: Step, count: int) -> dict[str, float]:
    """Return the processor time and the time by the clock of one step, from several in a row."""
    gc.collect()
    gc.disable()
    began, spent = time.perf_counter(), time.process_time()
    for _ in range(count):
        step()
    times = {"clock": (time.perf_counter() - began) / count, "processor": (time.process_time() - spent) / count}
    gc.enable()
    return times


class Entrant:
    """A framework in a process of its own, which takes steps when it is its turn."""

    def __init__(self, framework: str, name: str, threads: int) -> None:
        count = str(threads)
        flags = "" if threads > 1 else "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        limits = {"OMP_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count, "MKL_NUM_THREADS": count}
        environment = os.environ | limits | {"WIREGRAD_THREADS": count, "XLA_FLAGS": flags}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.training", framework, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment | {"PYTHONPATH": ":".join(sys.path)},
        )
        self.turns: list[dict[str, float]] = []
        self.start: dict[str, Any] = self._read_answer()

    def _read_answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def take_turn(self) -> None:
        """Let it take some steps, and note how long they took."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{STEPS_PER_TURN}\n")
        self.process.stdin.flush()
        self.turns.append(self._read_answer())

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)


def check_losses(entrants: dict[str, Entrant]) -> None:
    """Fail unless all frameworks had the same losses in their first steps."""
    wanted = entrants["PyTorch"].start["losses"]
    for framework, entrant in entrants.items():
        if not np.allclose(entrant.start["losses"], wanted, rtol=1e-3):
            raise AssertionError(f"the losses of {framework} are {entrant.start['losses']}, of PyTorch {wanted}")


def compare_frameworks(name: str, threads: int, turns: int) -> dict[str, dict[str, float]]:
    """Return the times of a step for every framework, measured in turns, and the time of its first step."""
    entrants = {framework: Entrant(framework, name, threads) for framework in FRAMEWORKS}
    check_losses(entrants)
    for _ in range(turns):
        for entrant in entrants.values():
            entrant.take_turn()
    for entrant in entrants.values():
        entrant.close()
    return {
        framework: {
            "processor": statistics.median(turn["processor"] for turn in entrant.turns),
            "clock": min(turn["clock"] for turn in entrant.turns),
            "first": entrant.start["first"],
        }
        for framework, entrant in entrants.items()
    }


def run(*, quick: bool = False, parts: Sequence[str] = ()) -> Report:
    """Compare all networks, or those that are named, with one and two threads."""
    rows: list[list[str]] = []
    figures: dict[str, Any] = {}
    for name in [name for name in NETWORKS if not parts or name in parts]:
        for threads in (1, 2):
            found = figures[f"{name}, {threads}"] = compare_frameworks(name, threads, QUICK_TURNS if quick else TURNS)
            measured = "processor" if threads == 1 else "clock"
            ours = found["wiregrad"][measured]
            for framework, times in found.items():
                is_bound = framework == "PyTorch" and name in WANTED
                wanted = f"at most {WANTED[name]:.0f}" if is_bound else ""
                share = f"{ours / times[measured]:.2f}"
                row = [name, str(threads), framework, milliseconds(times[measured]), share, wanted]
                rows.append([*row, f"{times['first']:.2f} s"])
    head = ["network", "threads", "framework", "time of a step", "wiregrad's share of it", "wanted", "first step"]
    title = "Gradient and Adam's update, float32; in turns, processor time with one thread, clock with two."
    return Report([Table(title, head, rows)], figures)


if __name__ == "__main__":
    serve_turns(*sys.argv[1:])
