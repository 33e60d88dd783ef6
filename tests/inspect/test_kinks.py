"""Kinks: which nodes sit on one, and which slope they take there by which convention."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import InputError, OperandError, UnknownNameError
from wiregrad.frontends.recording.record import convention
from wiregrad.inspect.kinks import MAX_KINK_LINES, kinks
from wiregrad.ir import TABLE
from wiregrad.ir.columns import Convention, decode_mode, encode_mode, has_kinks
from wiregrad.ops import Elementwise
from wiregrad.passes.rewriting import with_convention

from ..support.limits import PATIENCE
from ..support.random_circuits import random_circuit, random_point
from ..support.threads import run_in_threads

Function = Callable[[Any], Any]
EDGES: dict[str, tuple[Function, float, tuple[float, float, float]]] = {
    "abs 0": (abs, 0.0, (0.0, 0.0, 1.0)),
    "relu 0": (wg.relu, 0.0, (0.0, 0.0, 0.0)),
    "relu6 at 6": (wg.relu6, 6.0, (0.0, 0.0, 0.0)),
    "leaky_relu 0": (wg.leaky_relu, 0.0, (0.01, 0.01, 1.0)),
    "maximum(x, 0)": (lambda x: np.maximum(x, 0.0), 0.0, (0.0, 0.5, 0.5)),
    "maximum(0, x)": (lambda x: np.maximum(0.0, x), 0.0, (0.0, 0.5, 0.5)),
    "minimum(x, 1)": (lambda x: np.minimum(x, 1.0), 1.0, (0.0, 0.5, 0.5)),
    "maximum(x, x)": (lambda x: np.maximum(x, x), 1.0, (1.0, 1.0, 1.0)),
    "clip at low": (lambda x: np.clip(x, 0.0, 1.0), 0.0, (0.0, 1.0, 0.5)),
    "clip at high": (lambda x: np.clip(x, 0.0, 1.0), 1.0, (0.0, 1.0, 0.5)),
}
"""A function, a point on its kink, and the slopes by min_norm, torch and jax: rows of the edge table."""


def by_grad(f: Function, x: float) -> float:
    return float(wg.grad(f)(x))


def by_array(f: Function, x: float) -> float:
    return float(wg.grad(lambda z: f(z).sum())(np.array([x, x]))[1])


def by_backward(f: Function, x: float) -> float:
    value = wg.Value(x)
    f(value).backward()
    return float(value.grad)


def by_trace(f: Function, x: float) -> float:
    (grad,) = wg.trace(f, x).run([x]).grads.values()
    return float(grad)


def by_vmap(f: Function, x: float) -> float:
    return float(wg.vmap(wg.grad(f))(np.array([x]))[0])


def by_grad_of_vmap(f: Function, x: float) -> float:
    return float(wg.grad(lambda z: wg.vmap(f)(z).sum())(np.array([x]))[0])


def by_jvp(f: Function, x: float) -> float:
    return float(wg.jvp(f, (x,), (1.0,))[1])


def by_second_order(f: Function, x: float) -> float:
    """d/dg of what a backward pass sends for g is the slope."""
    return float(wg.grad(lambda g: wg.vjp(f, x)[1](g)[0])(1.0))


WAYS = (by_grad, by_array, by_backward, by_trace, by_vmap, by_grad_of_vmap, by_jvp, by_second_order)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", EDGES)
def test_a_convention_holds_on_every_way_to_a_gradient(name: str, way: Callable[[Function, float], float]) -> None:
    f, x, wanted = EDGES[name]
    found = []
    for label in Convention:
        with convention(label.label):
            found.append(way(f, x))

    assert tuple(found) == wanted
    assert way(f, x) == wanted[0]


def test_what_was_recorded_keeps_its_convention() -> None:
    x = wg.Value(0.0)
    with convention("jax"):
        inside = abs(x)
    inside.backward()

    assert x.grad == 1.0

    x.grad = None
    outside = abs(x)
    with convention("jax"):
        (outside * 2.0).backward()

    assert x.grad == 0.0


def test_a_row_recorded_before_the_block_is_not_unpacked_with_its_convention() -> None:
    _, back = wg.vjp(lambda x: np.maximum(x, 0.0), 0.0)
    with convention("torch"):
        slope = wg.grad(lambda g: back(g)[0])(1.0)

    assert slope == 0.0


def test_second_derivatives_follow_the_convention() -> None:
    with convention("jax"):
        assert wg.grad(wg.grad(lambda x: abs(x) * x))(0.0) == 2.0
    assert wg.grad(wg.grad(lambda x: abs(x) * x))(0.0) == 0.0


def test_blocks_nest_and_are_left_after_an_exception() -> None:
    with convention("jax"):
        with convention("min_norm"):
            assert wg.grad(abs)(0.0) == 0.0
        with pytest.raises(ZeroDivisionError), convention("min_norm"):
            raise ZeroDivisionError

        assert wg.grad(abs)(0.0) == 1.0
    assert wg.grad(abs)(0.0) == 0.0


def test_a_convention_belongs_to_its_thread() -> None:
    found: dict[str, list[float]] = {"jax": [], "min_norm": []}
    barrier = threading.Barrier(2, timeout=600)

    def work(name: str) -> None:
        barrier.wait()
        if name == "jax":
            with convention("jax"):
                barrier.wait()
                found[name] = [by_grad(abs, 0.0), by_backward(abs, 0.0)]
                barrier.wait()
        else:
            barrier.wait()
            found[name] = [by_grad(abs, 0.0), by_backward(abs, 0.0)]
            barrier.wait()

    run_in_threads(work, [*found])

    assert found == {"jax": [1.0, 1.0], "min_norm": [0.0, 0.0]}


def test_an_unknown_convention_is_refused_with_a_suggestion() -> None:
    with pytest.raises(OperandError, match="one of min_norm, torch, jax; got 'toch'; did you mean torch"):
        with_convention(wg.circuit("abs(x)"), "toch")


@pytest.mark.parametrize("wrong", [None, 1, Convention.JAX, "JAX", ""])
def test_what_is_no_convention_is_refused_and_changes_nothing(wrong: Any) -> None:
    with pytest.raises(OperandError, match="one of min_norm, torch, jax"), convention(wrong):
        pass
    assert wg.grad(abs)(0.0) == 0.0


def in_environment(name: str) -> subprocess.CompletedProcess[str]:
    code = "import wiregrad as wg; v = wg.Value(0.0); abs(v).backward(); print(v.grad, wg.grad(abs)(0.0))"
    environment = {**os.environ, "WIREGRAD_CONVENTION": name}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def test_the_environment_chooses_what_holds_outside_all_blocks() -> None:
    assert in_environment("jax").stdout == "1.0 1.0\n"
    assert in_environment("").stdout == "0.0 0.0\n"


def test_an_unknown_convention_in_the_environment_is_refused() -> None:
    refused = in_environment("jacks")

    assert refused.returncode == 1
    assert "WIREGRAD_CONVENTION must be one of min_norm, torch, jax; got 'jacks'" in refused.stderr
    assert "SettingError" in refused.stderr


def test_a_node_of_a_circuit_can_have_a_convention_of_its_own() -> None:
    circuit = wg.circuit("p = maximum(x, 0); q = maximum(x, 0); f = p + 10 * q")
    one, every = with_convention(circuit, "torch", ["q"]), with_convention(circuit, "torch")

    assert [c.run(x=0).grads["x"] for c in (circuit, one, every)] == [0.0, 5.0, 5.5]
    assert type(one) is type(circuit)
    assert with_convention(every, "min_norm") == circuit
    assert wg.Circuit.from_text(one.to_text()) == one


def test_literal_slots_are_kept_when_the_convention_changes() -> None:
    circuit = with_convention(wg.circuit("m = maximum(x, 0)"), "jax")

    assert decode_mode(circuit["m"].mode) == (Convention.JAX, (1,))


def test_nodes_without_kinks_have_no_convention() -> None:
    circuit = wg.circuit("e = a + b; f = floor(e)")

    assert with_convention(circuit, "torch") == circuit
    with pytest.raises(UnknownNameError):
        with_convention(circuit, "torch", "nobody")


@pytest.mark.parametrize("name", ["e", "f", "a"])
def test_a_convention_for_a_node_without_kinks_is_refused(name: str) -> None:
    with pytest.raises(OperandError, match="has no kinks"):
        with_convention(wg.circuit("e = a + b; f = floor(e)"), "torch", [name])


def test_the_kinks_of_a_run_are_named_with_what_each_convention_sends() -> None:
    run = wg.circuit("m = maximum(x, 0); f = 3 * m").run(x=0)
    found = kinks(run)
    (point,) = found.points

    assert (point.node, point.op, point.doc, point.convention) == ("m", "maximum", "a = b", "min_norm")
    assert (point.on, point.near, point.size, point.distance, point.index) == (1, 1, 1, 0.0, ())
    assert point.slopes == {"min_norm": {"a": None}, "torch": {"a": 0.5}, "jax": {"a": 0.5}}
    assert found.alternatives == {"torch": {"x": 1.5}, "jax": {"x": 1.5}}
    assert str(found).splitlines() == [
        "1 node on a kink, 0 near one, 0 on or near a step",
        "  m = maximum(x, 0.0) (formula:1:5) is on its kink (a = b): min_norm (used) sends nothing, torch 0.5, jax 0.5",
        "by torch gradients would be x 0 -> 1.5",
        "by jax gradients would be x 0 -> 1.5",
    ]


def test_alternatives_are_those_that_the_nodes_do_not_use() -> None:
    run = with_convention(wg.circuit("abs(x) + abs(y)"), "jax", ["t1"]).run(x=0, y=0)
    found = kinks(run)

    assert run.grads == found.grads == {"x": 1.0, "y": 0.0}
    assert found.alternatives == {
        "min_norm": {"x": 0.0, "y": 0.0},
        "torch": {"x": 0.0, "y": 0.0},
        "jax": {"x": 1.0, "y": 1.0},
    }
    assert list(kinks(with_convention(wg.circuit("abs(x)"), "jax").run(x=0)).alternatives) == ["min_norm", "torch"]


def kinked_points() -> Iterator[tuple[Elementwise, tuple[float, ...]]]:
    for op in TABLE:
        if isinstance(op, Elementwise) and has_kinks(op):
            for point in [(0.0,) * 3, (1.0,) * 3, (6.0,) * 3, (0.0, 0.0, 1.0), (1.0, 0.0, 1.0), (-1.0, 0.5, 0.5)]:
                yield op, point[: len(op.inputs)]


def test_what_the_alternatives_say_is_what_the_circuits_of_that_convention_give() -> None:
    met = set()
    for op, point in kinked_points():
        builder = wg.Builder()
        wires = [builder.input(name) for name in op.inputs]
        circuit = builder.build(builder.apply(op, *wires))
        found = kinks(circuit.run(point))
        for name, grads in found.alternatives.items():
            met.add(op.name)
            wanted = with_convention(circuit, name).run(point).grads
            slopes = [p.slopes[name][key] for p in found.points if p.on for key in p.slopes[name]]

            assert np.array_equal(list(grads.values()), list(wanted.values()), equal_nan=True)
            assert np.array_equal([s or 0.0 for s in slopes], list(wanted.values()), equal_nan=True)
    assert met == {op.name for op in TABLE if has_kinks(op)}


def test_a_node_near_a_kink_is_told_with_its_distance() -> None:
    run = wg.circuit("f = relu(x)").run(x=3e-7)
    (point,) = kinks(run).points

    assert (point.on, point.near, point.distance) == (0, 1, 3e-7)
    assert "is 3e-7 from its kink (x = 0)" in str(kinks(run))
    assert kinks(run, within=1e-7).points == ()
    assert str(kinks(run, within=1e-7)) == "no node is on a kink, or within 1e-7 of one"


def test_nearness_is_relative_to_the_inputs_that_decide() -> None:
    near = kinks(wg.circuit("maximum(x, y)").run(x=1e9, y=1e9 + 100.0))
    far = kinks(wg.circuit("clip(x, 0, 1000000000)").run(x=0.5))

    assert [point.distance for point in near.points] == [100.0]
    assert far.points == ()


def test_what_no_input_moves_has_no_kinks() -> None:
    assert kinks(wg.circuit("f = relu(0) + x").run(x=1)).points == ()


def test_steps_are_listed_apart() -> None:
    found = kinks(wg.circuit("f = floor(x) + (x > 2) + x").run(x=2))

    assert found.points == ()
    assert [(point.op, point.on) for point in found.jumps] == [("floor", 1), ("greater", 1)]
    assert found.alternatives == {}
    assert "is on its step (a = b)" in str(found)


def test_where_three_inputs_meet_one_kink_is_told() -> None:
    found = kinks(wg.circuit("clip(x, y, z)").run(x=1, y=1, z=1))

    assert [point.doc for point in found.points] == ["x = low = high"]
    assert found.alternatives["jax"] == {"x": 0.25, "y": 0.25, "z": 0.5}


def test_elements_of_arrays_are_counted() -> None:
    x = np.array([[-1.0, 0.0, 1e-9], [2.0, 0.0, -3.0]])
    found = kinks(wg.run(lambda x: abs(x).sum(), x))
    (point,) = found.points

    assert (point.on, point.near, point.size, point.index) == (2, 3, 6, (0, 1))
    assert found.alternatives["jax"]["x"].tolist() == [[-1.0, 1.0, 1.0], [1.0, 1.0, -1.0]]
    assert "has 2 of 6 on its kink (x = 0) and 1 near it, the first at [0, 1]" in str(found)
    assert point.place is not None
    assert point.place.file.endswith("test_kinks.py")


@pytest.mark.parametrize(
    ("f", "op", "on"),
    [
        (np.max, "max", 1),
        (lambda x: np.min(x, axis=1, keepdims=True).sum(), "min", 1),
        (lambda x: np.nanmax(x, axis=0).sum(), "nanmax", 1),
        (lambda x: np.maximum.accumulate(x, axis=1).sum(), "cummax", 2),
    ],
)
def test_ties_among_elements_are_kinks(f: Function, op: str, on: int) -> None:
    found = kinks(wg.run(f, np.array([[1.0, 1.0, 5.0], [5.0, 2.0, 5.0]])), within=0.1)

    assert [(point.op, point.on, point.convention) for point in found.points] == [(op, on, None)]


def test_ties_in_an_order_are_steps_of_the_order() -> None:
    x = np.array([3.0, 1.0, 1.0 + 1e-9, 3.0])
    order = kinks(wg.run(lambda x: np.sort(x)[0], x)).jumps
    index = kinks(wg.run(lambda x: x[np.argmax(x)] + 0.0 * x.sum(), x)).jumps
    norm = kinks(wg.run(np.linalg.norm, np.zeros(3))).jumps

    assert [(point.op, point.on, point.near) for point in order] == [("argsort", 1, 2)]
    assert [(point.op, point.on) for point in index] == [("argmax", 1)]
    assert [point.op for point in norm] == ["equal"]


def test_equal_elements_share_in_words() -> None:
    found = kinks(wg.run(np.max, np.array([1.0, 1.0])))

    assert "is on its kink (elements tie): equal elements share the gradient" in str(found)
    assert found.alternatives == {}


@pytest.mark.parametrize(
    "x",
    [np.nan, np.inf, -np.inf, 0j, np.float32(0), np.zeros((0, 2)), np.float32([0, 1]), np.array([np.nan, np.inf, 0j])],
    ids=repr,
)
def test_every_kind_of_value_has_an_answer(x: Any) -> None:
    found = kinks(wg.run(lambda x: wg.real(abs(x) * 2.0).sum(), x))

    assert sum(point.on for point in found.points) == np.count_nonzero(np.asarray(x) == 0)
    assert str(found)


def test_random_circuits_at_awkward_points_have_an_answer() -> None:
    on, near = 0, 0
    for seed in range(1000):
        if seed >= 150 and on > 40 and near > on:
            # How many circuits it takes to meet enough kinks depends on which ops the table has.
            break
        rng = np.random.default_rng([6, seed])
        circuit = random_circuit(rng, nodes=30)
        run = circuit.run(random_point(rng, circuit))
        found = kinks(run, within=0.01)
        on, near = on + sum(point.on for point in found.points), near + sum(point.near for point in found.points)

        assert bool(found.alternatives) == any(point.on and point.convention for point in found.points)
        assert str(found).count("\n") == min(len([*found.points, *found.jumps]), MAX_KINK_LINES) + len(
            found.alternatives
        )
        assert all(math.isfinite(point.distance) for point in (*found.points, *found.jumps))
    assert on > 40
    assert near > on


def test_one_wire_that_meets_itself_is_smooth() -> None:
    smooth = ["maximum(x, x)", "minimum(x, x)", "clip(x, x, 9)", "floor(x) + (x > x)"]
    runs = [wg.circuit(text).run(x=1.5) for text in smooth]

    assert [
        (kinks(run).points, kinks(run, within=0).jumps) for run in (*runs, wg.circuit(smooth[0]).split().run(x=1))
    ] == [((), ())] * 5
    assert kinks(wg.run(lambda x: np.maximum(x, x).sum(), np.ones(2))).points == ()
    assert [point.on for point in kinks(wg.circuit("hypot(x, x)").run(x=0)).points] == [1]
    assert [point.on for point in kinks(wg.circuit("maximum(x, y)").run(x=1, y=1)).points] == [1]


def test_a_step_is_told_where_it_is() -> None:
    found = str(kinks(wg.circuit("f = floor(x)").run(x=2)))

    assert found.endswith("f = floor(x) (formula:1:5) is on its step (where the value jumps)")


@pytest.mark.parametrize(
    ("f", "x"),
    [(np.linalg.norm, np.zeros(2)), (lambda x: np.sort(x)[0], np.ones(2)), (np.median, np.ones(3))],
    ids=["norm", "sort", "median"],
)
def test_a_step_by_which_something_is_chosen_is_said_to_hide_a_kink(f: Function, x: Any) -> None:
    found = kinks(wg.run(f, x))

    assert any(point.chooses for point in found.jumps)
    assert "what is chosen by it may have a kink there" in str(found)


def test_many_kinks_are_counted_and_a_few_are_told() -> None:
    builder = wg.Builder()
    y = x = builder.input("x")
    for _ in range(500):
        y = builder.maximum(y * x, y)
    found = kinks(builder.build(y).run(x=1))
    lines = str(found).splitlines()

    assert lines[0] == "500 nodes on a kink, 0 near one, 0 on or near a step"
    assert lines[MAX_KINK_LINES] == f"  and {501 - MAX_KINK_LINES} more"
    assert len(lines) < 30
    assert [point.node for point in found.points] == [f"%{2 * k + 2}" for k in range(499)] + ["f"]


def test_nodes_of_one_op_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[int]()
    local = Elementwise.local
    builder = wg.Builder()
    xs = [builder.input(f"x{k}") for k in range(40)]
    run = builder.build(sum([builder.absolute(x) for x in xs], start=builder.constant(0.0))).run(np.zeros(40))
    monkeypatch.setattr(Elementwise, "local", lambda *args: asked.append(args[1]) or local(*args))
    monkeypatch.setattr("wiregrad.inspect.kinks._gradients_by_convention", lambda run, items: {})

    assert len(kinks(run).points) == 40
    assert len(asked) == 3


def test_the_jax_convention_for_complex_numbers_at_0_is_0() -> None:
    with convention("jax"):
        assert wg.grad(lambda z: abs(z) + 0.0)(0j) == 0.0
        assert np.allclose(wg.grad(lambda z: np.sum(abs(z)))(np.array([0j, 3 + 4j])), [0.0, 0.6 + 0.8j])
        assert wg.grad(abs)(0.0) == 1.0


def test_ops_that_share_ties_say_so_when_they_are_given_a_convention() -> None:
    circuit = wg.trace(np.max, np.zeros(2))
    with pytest.raises(OperandError, match="has no conventions: tied elements share the gradient in all of them"):
        circuit.with_convention("jax", [circuit.output])


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        (5, OperandError, "nodes are given by name"),
        (2.5, OperandError, "nodes are given by name"),
        (object(), OperandError, "nodes are given by name"),
        ([5], UnknownNameError, "nodes are looked up by name"),
    ],
)
def test_names_of_nodes_that_are_none_are_refused(wrong: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        with_convention(wg.circuit("abs(x)"), "jax", wrong)


def test_a_convention_belongs_to_its_task() -> None:
    async def work(name: str) -> float:
        with convention(name):
            await asyncio.sleep(0)
            return by_grad(abs, 0.0) + 10 * by_backward(abs, 0.0)

    async def together() -> list[float]:
        return await asyncio.gather(work("jax"), work("torch"), work("jax"), work("min_norm"))

    assert asyncio.run(together()) == [11.0, 0.0, 11.0, 0.0]
    assert wg.grad(abs)(0.0) == 0.0


def test_a_generator_that_is_closed_late_takes_no_more_than_its_own_choice() -> None:
    def inside() -> Iterator[None]:
        with convention("jax"):
            yield

    generator = inside()
    next(generator)
    with convention("torch"):
        generator.close()  # type: ignore[attr-defined]

        assert by_grad(EDGES["clip at low"][0], 0.0) == 1.0
    assert by_grad(EDGES["clip at low"][0], 0.0) == 0.0


def test_circuits_that_are_written_down_do_not_look_at_the_block() -> None:
    with convention("jax"):
        builder = wg.Builder()

        assert wg.circuit("abs(x)").run(x=0).grads == {"x": 0.0}
        assert builder.build(builder.absolute(builder.input("x"))).run(x=0).grads == {"x": 0.0}
        assert wg.run(abs, 0.0).grads == {"x": 1.0}


def test_within_may_be_0() -> None:
    assert kinks(wg.circuit("abs(x)").run(x=0), within=0).points[0].on == 1


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf, "1", None, True])
def test_within_is_checked(wrong: Any) -> None:
    with pytest.raises(InputError, match="a finite number of at least 0"):
        kinks(wg.circuit("abs(x)").run(x=0), within=wrong)


def test_a_mode_names_its_convention_and_literals() -> None:
    assert decode_mode(encode_mode(Convention.TORCH, [0, 2])) == (Convention.TORCH, (0, 2))


def test_a_convention_inside_a_function_holds_under_grad_of_vmap() -> None:
    def inside(x: Any) -> Any:
        with convention("jax"):
            return abs(x)

    slope = wg.grad(lambda x: np.sum(wg.vmap(inside)(x)))(np.zeros(2))

    assert slope.tolist() == [1.0, 1.0]


def test_a_checkpoint_recomputes_with_the_convention_it_was_called_with() -> None:
    def loss(x: Any) -> Any:
        with convention("jax"):
            y = wg.checkpoint(lambda x: abs(x) * 2.0)(x)
        return y + 0.0

    assert wg.grad(loss)(0.0) == 2.0
