"""Sparse Jacobians: bundle adjustment as one function of all cameras, points and weights, beside CasADi and JAX.

The function is the one of ADBench, in plain NumPy: `wg.sparse_jacobian` finds the pattern and the colours by itself,
and so does CasADi's `jacobian`. JAX has no sparse Jacobians; it is measured on the same compressed products, with
wiregrad's colours given to it, and on one small Jacobian for each observation, for which somebody has to know that an
observation reads one camera and one point. CasADi's small Jacobians are measured too. `WIREGRAD_ADBENCH` names the
folder with ADBench's data; without it the numbers are random.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import casadi
import jax
import jax.numpy as jnp
import numpy as np

import wiregrad as wg
from benchmarks.arrays import BUNDLE, project_points
from benchmarks.measure import Report, Table, interleaved, time_calls

jax.config.update("jax_enable_x64", True)

CAMERAS, POINTS, OBSERVATIONS = 49, 7776, 31843
QUICK_OBSERVATIONS = 2000


class Bundle(NamedTuple):
    """The numbers of a bundle adjustment: everything unknown as one vector, what was seen, and who saw what."""

    x: np.ndarray
    feature: np.ndarray
    camera_of: np.ndarray
    point_of: np.ndarray


def read_scene(count: int) -> Bundle:
    """Return a scene with so many observations: ADBench's numbers where there are any, each a little changed."""
    folder = os.environ.get("WIREGRAD_ADBENCH")
    rng = np.random.default_rng(0)
    camera, point, weight, feature = rng.normal(size=11), rng.normal(size=3) + 4.0, np.ones(1), rng.normal(size=2)
    if folder:
        lines = (Path(folder) / f"{BUNDLE}.txt").read_text().strip().split("\n")[1:]
        camera, point, weight, feature = (np.array(line.split(), float) for line in lines)
    x = np.concatenate([np.tile(camera, CAMERAS), np.tile(point, POINTS), np.tile(weight, count)])
    numbers = np.arange(count)
    return Bundle(x * (1.0 + 1e-3 * rng.random(len(x))), feature, numbers % CAMERAS, numbers % POINTS)


def make_errors(xp: Any, scene: Bundle) -> Callable[[Any], Any]:
    """Return the reprojection errors and the errors of the weights as one function of one vector."""
    split = 11 * CAMERAS, 11 * CAMERAS + 3 * POINTS

    def find_errors(x: Any) -> Any:
        cameras = xp.reshape(x[: split[0]], (CAMERAS, 11))
        points = xp.reshape(x[split[0] : split[1]], (POINTS, 3))
        weights = x[split[1] :]
        seen = project_points(xp, cameras[scene.camera_of], points[scene.point_of], weights, scene.feature)
        return xp.concatenate([*seen, 1.0 - weights**2])

    return find_errors


def make_casadi_observation(feature: np.ndarray) -> casadi.Function:
    """Return the three errors of one observation, given its camera, its point and its weight."""
    camera, point, weight = casadi.SX.sym("camera", 11), casadi.SX.sym("point", 3), casadi.SX.sym("weight")
    angle = casadi.sqrt(casadi.sumsqr(camera[:3]))
    axis = camera[:3] / angle
    moved = point - camera[3:6]
    along = axis * (casadi.dot(axis, moved) * (1.0 - casadi.cos(angle)))
    turned = moved * casadi.cos(angle) + casadi.cross(axis, moved) * casadi.sin(angle) + along
    flat = turned[:2] / turned[2]
    radius = casadi.sumsqr(flat)
    distortion = 1.0 + camera[9] * radius + camera[10] * radius**2
    seen = flat * (distortion * camera[6]) + camera[7:9]
    errors = casadi.vertcat(weight * (seen - feature), 1.0 - weight**2)
    return casadi.Function("observe", [camera, point, weight], [errors])


def make_casadi_whole(scene: Bundle) -> casadi.Function:
    """Return the whole Jacobian by one vector, by CasADi's own pattern and colours."""
    count = len(scene.camera_of)
    x = casadi.MX.sym("x", len(scene.x))
    cameras = casadi.reshape(x[: 11 * CAMERAS], 11, CAMERAS)
    points = casadi.reshape(x[11 * CAMERAS : 11 * CAMERAS + 3 * POINTS], 3, POINTS)
    weights = casadi.reshape(x[11 * CAMERAS + 3 * POINTS :], 1, count)
    observe = make_casadi_observation(scene.feature).map(count)
    errors = observe(cameras[:, scene.camera_of.tolist()], points[:, scene.point_of.tolist()], weights)
    return casadi.Function("jacobian", [x], [casadi.jacobian(casadi.vec(errors), x)])


def make_casadi_parts(scene: Bundle) -> Callable[[], Any]:
    """Return the small Jacobians of all observations."""
    one = make_casadi_observation(scene.feature)
    camera, point, weight = (casadi.SX.sym(name, size) for name, size in (("c", 11), ("p", 3), ("w", 1)))
    unknown = casadi.vertcat(camera, point, weight)
    small = casadi.Function("small", [unknown], [casadi.jacobian(one(camera, point, weight), unknown)])
    mapped = small.map(len(scene.camera_of))
    given = casadi.DM(gather_unknowns(scene).T)
    return lambda: mapped(given)


def gather_unknowns(scene: Bundle) -> np.ndarray:
    """Return camera, point and weight of each observation in a row."""
    cameras = scene.x[: 11 * CAMERAS].reshape(CAMERAS, 11)[scene.camera_of]
    points = scene.x[11 * CAMERAS : 11 * CAMERAS + 3 * POINTS].reshape(POINTS, 3)[scene.point_of]
    return np.concatenate([cameras, points, scene.x[11 * CAMERAS + 3 * POINTS :, None]], axis=1)


def make_jax_products(scene: Bundle, seeds: np.ndarray) -> Callable[[], Any]:
    """Return the compressed products, one for each colour."""
    errors = make_errors(jnp, scene)
    push = jax.jit(lambda x, seed: jax.jvp(errors, (x,), (seed,))[1])
    x = jnp.asarray(scene.x)
    rows = [jnp.asarray(seed) for seed in seeds]
    return lambda: [jax.block_until_ready(push(x, seed)) for seed in rows]


def make_jax_parts(scene: Bundle) -> Callable[[], Any]:
    """Return the small Jacobians of all observations."""

    def observe(row: Any) -> Any:
        errors = project_points(jnp, row[None, :11], row[None, 11:14], row[14:], scene.feature)
        return jnp.concatenate([*errors, 1.0 - row[14:] ** 2])

    small = jax.jit(jax.vmap(jax.jacfwd(observe)))
    rows = jnp.asarray(gather_unknowns(scene))
    return lambda: jax.block_until_ready(small(rows))


def check_equal(matrix: Any, whole: Any, parts: Any, scene: Bundle) -> None:
    """Raise unless all entrants give the same numbers."""
    count = len(scene.camera_of)
    # CasADi has the three errors of an observation in a row, wiregrad all first errors, then all second ones.
    order = np.arange(3 * count).reshape(3, count).T.ravel()
    theirs = whole.sparse() if hasattr(whole, "sparse") else whole
    if abs(matrix[order] - theirs).max() > 1e-9 * abs(matrix).max():
        raise AssertionError("wiregrad and CasADi differ")
    small = np.asarray(parts)
    weights = matrix[:, -count:]
    expected = weights[np.arange(3 * count), np.tile(np.arange(count), 3)].reshape(3, count)
    np.testing.assert_allclose(small[:, :, 14].T, np.asarray(expected), rtol=1e-9, atol=1e-9)


def run(*, quick: bool = False) -> Report:
    """Measure one Jacobian of bundle adjustment."""
    count = QUICK_OBSERVATIONS if quick else OBSERVATIONS
    scene = read_scene(count)
    jacobian = wg.sparse_jacobian(wg.compile(make_errors(np, scene)))
    plain = wg.sparse_jacobian(make_errors(np, scene))
    first = {"wiregrad, compiled": time_calls(lambda: jacobian(scene.x), 1)}
    first["wiregrad, not compiled"] = time_calls(lambda: plain(scene.x), 1)
    whole: list[Any] = []
    first["CasADi, whole"] = time_calls(lambda: whole.append(make_casadi_whole(scene)), 1)
    seeds = np.array(list(jacobian.seeds()))
    tasks: dict[str, Callable[[], Any]] = {
        "wiregrad, compiled": lambda: jacobian(scene.x),
        "wiregrad, not compiled": lambda: plain(scene.x),
        "CasADi, whole": lambda: whole[0](scene.x),
        "CasADi, one small Jacobian per observation": make_casadi_parts(scene),
        "JAX, the same products": make_jax_products(scene, seeds),
        "JAX, one small Jacobian per observation": make_jax_parts(scene),
    }
    for name, task in tasks.items():
        first[name] = first.get(name, 0.0) + time_calls(task, 1)
    jacobian(scene.x)
    check_equal(jacobian(scene.x), whole[0](scene.x), tasks["JAX, one small Jacobian per observation"](), scene)
    found = interleaved({name: make_timer(task) for name, task in tasks.items()}, 5 if quick else 9)
    ratios = {name: time / found["wiregrad, compiled"] for name, time in found.items()}
    rows = [[name, f"{1e3 * found[name]:.2f} ms", f"{ratios[name]:.2f}", f"{first[name]:.2f} s"] for name in tasks]
    title = (
        f"ADBench's bundle adjustment: {CAMERAS} cameras, {POINTS:,} points, {count:,} observations; Jacobian "
        f"{jacobian.pattern.shape} with {jacobian.pattern.nnz:,} entries, {jacobian.colors} colours. Processor time, "
        "median, taking turns; the small Jacobians are not put together to a matrix."
    )
    head = ["framework", "processor time", "relative to wiregrad", "first result"]
    return Report([Table(title, head, rows)], {"ratios": ratios, "first": first})


def make_timer(task: Callable[[], Any]) -> Callable[[], float]:
    """Return a function that measures one call."""
    return lambda: time_calls(task, 1)
