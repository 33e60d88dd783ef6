"""Differential equations: solutions and gradients beside the same method written for JAX.

Both take Dormand and Prince's steps with the same tolerances and a PI controller. JAX's solution is one compiled
`lax.while_loop`. A while loop cannot be differentiated backwards there, so its gradient goes through a `lax.scan` with
as many steps as the solution took, each of them checkpointed, which is what diffrax does with a bound on the number of
steps. Entrants: wiregrad with the function as it is, wiregrad with a function from `wg.compile`, and JAX. Times are
those of later calls; what the first call takes beyond that stands beside them.

A stiff fit stands beside it: the derivatives of 40 states of four species by five rates, recorded by
`scipy.integrate.solve_ivp` step by step, and by `wg.odeint` with compiled steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import wiregrad as wg
from benchmarks.measure import Report, Table, measure_pairs, milliseconds, seconds
from benchmarks.peers import package
from wiregrad.frontends.transforms.ode_steps import DORMAND_PRINCE

TOLERANCE = 1e-8
REPEATS = {"full": 7, "quick": 2}


class OdeWorkload(NamedTuple):
    """A system written for any array module, its start, its end, and its parameters."""

    slope: Callable[..., Any]
    start: Any
    end: float
    parameters: Any


def hunt(m: Any, t: Any, y: Any, p: Any) -> Any:
    """Return the slopes of prey and predators."""
    return m.stack([y[0] * (p[0] - p[1] * y[1]), y[1] * (p[2] * y[0] - p[3])])


def stir(m: Any, t: Any, y: Any, p: Any) -> Any:
    """Return Lorenz's slopes."""
    return m.stack([p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]])


def flow(m: Any, t: Any, y: Any, p: Any) -> Any:
    """Return the slopes of a small neural differential equation."""
    return m.tanh(p @ y) - 0.1 * y


def conduct(m: Any, t: Any, y: Any, p: Any) -> Any:
    """Return the slopes of heat along a ring."""
    return p[0] * (m.roll(y, 1) - 2.0 * y + m.roll(y, -1)) + p[1] * m.sin(y)


RNG = np.random.default_rng(24)
WORKLOADS = {
    "prey and predators, 2 numbers": OdeWorkload(hunt, np.array([1.0, 1.0]), 20.0, np.array([1.5, 1.0, 1.0, 3.0])),
    "Lorenz, 3 numbers": OdeWorkload(stir, np.array([1.0, 1.0, 1.0]), 5.0, np.array([10.0, 28.0, 8.0 / 3.0])),
    "neural, 16 numbers": OdeWorkload(flow, RNG.normal(size=16), 10.0, RNG.normal(size=(16, 16)) / 4.0),
    "heat, 64 numbers": OdeWorkload(conduct, RNG.normal(size=64), 10.0, np.array([5.0, 0.5])),
}


def make_jax_solvers(workload: OdeWorkload, steps: int) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return the last state and the gradient of its sum of squares, compiled by JAX, as functions of the parameters."""
    jax = package("jax")
    jax.config.update("jax_enable_x64", True)
    jnp, lax = jax.numpy, jax.lax
    rows = [jnp.asarray(row) for row in DORMAND_PRINCE.rows]
    weights = jnp.asarray(DORMAND_PRINCE.weights)
    errors = jnp.asarray(DORMAND_PRINCE.error_weights)

    def slope(t: Any, y: Any, p: Any) -> Any:
        return workload.slope(jnp, t, y, p)

    def advance(carry: Any, p: Any) -> Any:
        t, y, k, h, last = carry
        h = jnp.minimum(h, workload.end - t)
        slopes = [k]
        for node, row in zip(DORMAND_PRINCE.nodes, rows, strict=True):
            slopes.append(slope(t + node * h, y + h * (row @ jnp.stack(slopes)), p))
        end = y + h * (weights @ jnp.stack(slopes))
        end_slope = slope(t + h, end, p)
        error = h * (errors @ jnp.stack([*slopes, end_slope]))
        scale = TOLERANCE + TOLERANCE * jnp.maximum(jnp.abs(y), jnp.abs(end))
        # The lengths of steps count as constants, as they do in wiregrad.
        size = lax.stop_gradient(jnp.sqrt(jnp.mean((error / scale) ** 2)))
        taken = size <= 1.0
        factor = jnp.clip(0.9 * jnp.maximum(size, 1e-10) ** -0.14 * last**0.08, 0.2, 10.0)
        plain = jnp.clip(0.9 * size**-0.2, 0.2, 1.0)
        return (
            jnp.where(taken, t + h, t),
            jnp.where(taken, end, y),
            jnp.where(taken, end_slope, k),
            lax.stop_gradient(h * jnp.where(taken, factor, plain)),
            jnp.where(taken, jnp.maximum(size, 1e-4), last),
        )

    def begin(p: Any) -> Any:
        start = jnp.asarray(workload.start)
        return jnp.float64(0.0), start, slope(0.0, start, p), jnp.float64(1e-4), jnp.float64(1.0)

    def solve(p: Any) -> Any:
        return lax.while_loop(lambda carry: carry[0] < workload.end, lambda carry: advance(carry, p), begin(p))[1]

    def loss(p: Any) -> Any:
        @jax.checkpoint
        def go_on(carry: Any, _: Any) -> Any:
            moved = advance(carry, p)
            done = carry[0] >= workload.end
            return jax.tree.map(lambda old, new: jnp.where(done, old, new), carry, moved), None

        # A step of length 0 beyond the end would divide by zero in the gradient.
        return jnp.sum(lax.scan(go_on, begin(p), None, length=steps)[0][1] ** 2)

    fast, gradient = jax.jit(solve), jax.jit(jax.grad(loss))
    return lambda p: fast(p).block_until_ready(), lambda p: gradient(p).block_until_ready()


def make_own_solvers(workload: OdeWorkload, *, compiled: bool) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return the same by wiregrad."""

    def slope(t: Any, y: Any, p: Any) -> Any:
        return workload.slope(np, t, y, p)

    f = wg.compile(slope) if compiled else slope

    def solve(p: Any) -> Any:
        return wg.odeint(f, workload.start, [0.0, workload.end], p, rtol=TOLERANCE, atol=TOLERANCE).ys[-1]

    return solve, wg.grad(lambda p: np.sum(solve(p) ** 2))


def count_steps(workload: OdeWorkload) -> int:
    """Return how many steps a solution takes."""
    slope = lambda t, y, p: workload.slope(np, t, y, p)  # noqa: E731
    result = wg.odeint(slope, workload.start, [0.0, workload.end], workload.parameters, rtol=TOLERANCE, atol=TOLERANCE)
    return result.steps + result.rejected


def measure_workload(name: str, repeats: int) -> tuple[list[list[str]], dict[str, Any]]:
    """Return the rows of a system's table, and its figures."""
    workload = WORKLOADS[name]
    p = workload.parameters
    steps = count_steps(workload)
    peer = make_jax_solvers(workload, steps + 20)
    rows, figures = [], {}
    wanted = [np.asarray(task(p)) for task in peer]
    for entrant, own in {
        "wiregrad": make_own_solvers(workload, compiled=False),
        "wiregrad, compiled": make_own_solvers(workload, compiled=True),
    }.items():
        for what, task, other, expected in zip(("solution", "gradient"), own, peer, wanted, strict=True):
            first = seconds(lambda task=task: task(p))
            distance = float(np.max(np.abs(np.asarray(task(p)) - expected)) / np.max(np.abs(expected)))
            pairs = measure_pairs((lambda task=task: task(p), lambda other=other: other(p)), repeats)
            ours, theirs = (float(np.median([pair[k] for pair in pairs])) for k in (0, 1))
            ratio = float(np.median([one / two for one, two in pairs]))
            times = milliseconds(ours), milliseconds(theirs), f"{ratio:.2f}", f"{first:.2f} s"
            rows.append([name, what, entrant, str(steps), *times, f"{distance:.0e}"])
            figures[f"{name}/{what}/{entrant}"] = {"seconds": ours, "jax": theirs, "ratio": ratio, "first": first}
    return rows, figures


RATES = np.log([0.04, 1e3, 3e5, 1.0, 0.1])
TIMES = np.linspace(0.0, 40.0, 40)
SPECIES = np.array([1.0, 0.0, 0.0, 0.0])
RELATIVE, ABSOLUTE = 1e-6, 1e-9


def react(t: Any, y: Any, k: Any) -> Any:
    """Return the slopes of four species that react by the law of mass action; fast and slow rates make it stiff."""
    a, b, c, d = y
    decay, growth, pairing = k[0] * a, k[1] * b * c, k[2] * b * b
    back, end = k[3] * c, k[4] * d
    return np.array([growth + end - decay, decay - growth - pairing, pairing - back, back - end])


def make_stiff_jacobians() -> dict[str, Callable[[Any], Any]]:
    """Return the derivatives of the species at all times by the logarithms of the rates, by three ways."""
    fast = wg.compile(react)

    def record_steps(logs: Any, method: str = "LSODA") -> Any:
        solve_ivp = package("scipy.integrate").solve_ivp
        slope = lambda t, y: react(t, y, np.exp(logs))  # noqa: E731
        return solve_ivp(slope, (TIMES[0], TIMES[-1]), SPECIES, method, TIMES, rtol=RELATIVE, atol=ABSOLUTE).y.T

    def compile_steps(logs: Any) -> Any:
        return wg.odeint(fast, SPECIES, TIMES, np.exp(logs), method="rodas5p", rtol=RELATIVE, atol=ABSOLUTE).ys

    def take_differences(logs: Any) -> Any:
        steps = 1e-4 * np.eye(len(logs))
        return np.stack([(record_steps(logs + h) - record_steps(logs - h)) / 2e-4 for h in steps], -1)

    return {
        "wg.odeint(wg.compile(f), method='rodas5p')": wg.jacobian(compile_steps),
        "solve_ivp": wg.jacobian(record_steps),
        "differences of solve_ivp": take_differences,
    }


def measure_stiff_fit(repeats: int) -> tuple[Table, dict[str, Any]]:
    """Return the table of the stiff fit, and its figures."""
    jacobians = make_stiff_jacobians()
    (name, base), *others = jacobians.items()
    first = seconds(lambda: base(RATES))
    wanted = base(RATES)
    head = ["derivatives", "time", f"that of {name}", "ratio", "its first call", "difference"]
    table = Table("A stiff system: derivatives of 40 states of 4 species by 5 rates.", head)
    figures = {}
    for other, task in others:
        difference = float(np.max(np.abs(task(RATES) - wanted)))
        pairs = measure_pairs((lambda task=task: task(RATES), lambda: base(RATES)), repeats)
        theirs, ours = (float(np.median([pair[k] for pair in pairs])) for k in (0, 1))
        ratio = float(np.median([one / two for one, two in pairs]))
        table.rows.append(
            [other, milliseconds(theirs), milliseconds(ours), f"{ratio:.2f}", f"{first:.2f} s", f"{difference:.0e}"]
        )
        figures[f"stiff/{other}"] = {"seconds": theirs, "compiled": ours, "ratio": ratio, "first": first}
    return table, figures


def run(quick: bool = False) -> Report:
    """Measure all systems."""
    repeats = REPEATS["quick" if quick else "full"]
    head = ["system", "what", "entrant", "steps", "time", "JAX", "ratio", "first call", "difference"]
    table = Table("Solutions to a tolerance of 1e-8, and their gradients by all parameters, beside JAX.", head)
    figures: dict[str, Any] = {}
    for name in WORKLOADS:
        rows, found = measure_workload(name, repeats)
        table.rows += rows
        figures |= found
    stiff, found = measure_stiff_fit(repeats)
    return Report([table, stiff], figures | found)
