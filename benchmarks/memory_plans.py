"""Memory plans: the gradient of a long chain of layers within a budget of bytes.

A chain of 1,000 layers `tanh(h @ w + b)` whose states take 1 MB each is swept within 64 MB: the peak that was predicted
and the peak that was measured, the steps that are computed again beside the fewest possible by the binomial formula,
the time beside that of a plain gradient, and whether the gradients have the same bits. The peak is measured twice: what
Python and NumPy allocate, and by how much the memory of the process grew, each in a process of its own.

The same chain is also planned as one function, which is cut into steps, and trained with Adam: what steps allocate
at most, all that the optimiser keeps included, and whether the parameters have the bits of a plain training.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

import wiregrad as wg
from benchmarks.measure import Report, Table
from wiregrad import optim
from wiregrad.frontends.transforms.memory_plans import count_binomial_steps

WIDTH = 16
ROWS = 8192
STATE_BYTES = ROWS * WIDTH * 8
MEGABYTE = 1 << 20
CHAINS = {"full": (1000, 64 * MEGABYTE), "quick": (60, 24 * MEGABYTE)}
"""The number of layers, and the budget."""
TRAINING_STEPS = 3
ADAM_COPIES = 6
"""How many arrays of the size of all parameters a step of Adam holds: two means, and all three before and after."""


def apply_layer(h: Any, layer: dict[str, Any]) -> Any:
    """Return one layer of the chain."""
    return np.tanh(h @ layer["w"] + layer["b"])


def make_chain(count: int) -> tuple[list[dict[str, Any]], Any]:
    """Return the parameters of all layers, and the input."""
    rng = np.random.default_rng(22)
    layers = [
        {"w": rng.normal(size=(WIDTH, WIDTH)) / WIDTH**0.5, "b": 0.1 * rng.normal(size=WIDTH)} for _ in range(count)
    ]
    return layers, rng.normal(size=(ROWS, WIDTH))


def plain_loss(layers: list[dict[str, Any]], x: Any) -> Any:
    """Return the loss of the chain, everything recorded."""
    for layer in layers:
        x = apply_layer(x, layer)
    return np.mean(x**2)


def process_peak() -> int:
    """Return the largest memory that this process had so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure_chain(kind: str, how: str) -> dict[str, Any]:
    """Compute a gradient by a plan or plainly, and measure it; run in a process of its own."""
    count, budget = CHAINS[kind]
    layers, x = make_chain(count)
    plan = wg.plan_memory([apply_layer] * count, x, layers, budget=budget)

    def planned_loss(layers: list[dict[str, Any]], x: Any) -> Any:
        return np.mean(plan(x, layers) ** 2)

    compute = wg.grad(plain_loss if how == "plain" else planned_loss)
    found: list[Any] = []
    before = process_peak()
    start = time.process_time()
    if how == "traced":
        plan.measure(lambda: found.append(compute(layers, x)))
    else:
        found.append(compute(layers, x))
    return {
        "seconds": time.process_time() - start,
        "traced": plan.measured_peak,
        "process": process_peak() - before,
        "predicted": plan.predicted_peak,
        "plain": plan.needs.plain,
        "states": len(plan.kept) + 1,
        "extra": plan.extra_steps,
        "digest": hash(b"".join(array.tobytes() for layer in found[0] for array in layer.values())),
    }


def train_chain(kind: str, how: str) -> dict[str, Any]:
    """Train the chain with Adam, by a plan of the loss as one function or plainly; run in a process of its own."""
    count, budget = CHAINS[kind]
    layers, x = make_chain(count)
    parameters = {f"{k}.{name}": array for k, layer in enumerate(layers) for name, array in layer.items()}
    kept = ADAM_COPIES * sum(array.nbytes for array in parameters.values())
    plan = wg.plan_memory(plain_loss, layers, x, budget=budget - kept)
    compute = wg.value_and_grad(plain_loss if how == "plain" else plan)
    adam = optim.Adam(lr=1e-3)
    losses: list[float] = []

    def take_steps() -> None:
        nonlocal parameters
        state = adam.init(parameters)
        for _ in range(TRAINING_STEPS):
            loss, gradients = compute(join_layers(parameters, count), x)
            losses.append(float(loss))
            flat = {f"{k}.{name}": array for k, layer in enumerate(gradients) for name, array in layer.items()}
            del gradients
            parameters, state = adam.update(parameters, flat, state)

    start = time.process_time()
    peak = plan.measure(take_steps) if how == "traced" else take_steps()
    return {
        "seconds": time.process_time() - start,
        "traced": peak,
        "predicted": plan.predicted_peak + kept,
        "steps": len(plan.steps),
        "states": len(plan.kept) + 1,
        "extra": plan.extra_steps,
        "losses": losses,
        "digest": hash(b"".join(array.tobytes() for array in parameters.values())),
    }


def join_layers(parameters: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Return parameters by name as a list of layers."""
    return [{name: parameters[f"{k}.{name}"] for name in ("w", "b")} for k in range(count)]


def run_apart(kind: str, how: str, task: str = "gradient") -> dict[str, Any]:
    """Measure in a process of its own, so that its peak is the peak of this gradient."""
    command = [sys.executable, "-m", "benchmarks.memory_plans", kind, how, task]
    environment = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", **path_of_python()}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=900, env=environment)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def path_of_python() -> dict[str, str]:
    """Return the setting that lets another process find the same modules."""
    return {"PYTHONPATH": ":".join(sys.path)}


def run(*, quick: bool = False) -> Report:
    """Measure the chain and return the table."""
    kind = "quick" if quick else "full"
    count, budget = CHAINS[kind]
    plain, planned, traced = (run_apart(kind, how) for how in ("plain", "planned", "traced"))
    fewest = count_binomial_steps(count, planned["states"])
    table = Table(
        f"The gradient of {count:,} layers with states of {megabytes(STATE_BYTES)}, within {megabytes(budget)}.",
        ["", "planned", "plain"],
        [
            ["predicted peak", megabytes(planned["predicted"]), megabytes(planned["plain"])],
            ["measured peak, allocated", megabytes(traced["traced"]), ""],
            ["measured peak, growth of the process", megabytes(planned["process"]), megabytes(plain["process"])],
            ["steps computed again", f"{planned['extra']:,}", "0"],
            ["fewest possible, by the binomial formula", f"{fewest:,}", ""],
            ["processor time", f"{planned['seconds']:.1f} s", f"{plain['seconds']:.1f} s"],
            ["same bits", "yes" if planned["digest"] == plain["digest"] == traced["digest"] else "NO", ""],
        ],
    )
    figures = {"plain": plain, "planned": planned, "traced": traced, "fewest": fewest, "budget": budget}
    training, figures["training"] = compare_trainings(kind)
    return Report([table, training], figures)


def compare_trainings(kind: str) -> tuple[Table, dict[str, Any]]:
    """Train the chain by a plan and plainly; returns the table and the figures."""
    count, budget = CHAINS[kind]
    plain, planned = (run_apart(kind, how, "training") for how in ("plain", "traced"))
    fewest = count_binomial_steps(planned["steps"], planned["states"])
    rows = [
        ["predicted peak", megabytes(planned["predicted"])],
        ["measured peak, allocated", megabytes(planned["traced"])],
        [f"steps computed again, of {planned['steps']}", f"{planned['extra']:,}"],
        ["fewest possible, by the binomial formula", f"{fewest:,}"],
        ["processor time beside a plain training", f"{planned['seconds'] / plain['seconds']:.2f}"],
        ["parameters with the same bits", "yes" if planned["digest"] == plain["digest"] else "NO"],
    ]
    title = f"{TRAINING_STEPS} steps of Adam on {count:,} layers as one function, within {megabytes(budget)}."
    return Table(title, ["", ""], rows), {"plain": plain, "planned": planned, "fewest": fewest}


def megabytes(size: int) -> str:
    """Write a number of bytes for a table."""
    return f"{size / MEGABYTE:,.1f} MB"


if __name__ == "__main__":
    measure = {"gradient": measure_chain, "training": train_chain}[sys.argv[3]]
    print(json.dumps(measure(*sys.argv[1:3])))
