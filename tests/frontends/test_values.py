"""Values, define-by-run: gradients, leaves, recordings and what a person must not do with them."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import EscapeError, GradientError, MutationError, NoRuleError, OperandError, ShapeError
from wiregrad.frontends.recording.tape import MAX_TAPE_ROWS, STRIDE

from ..support.limits import PATIENCE, wait_for_thread
from ..support.memory import measure_traced_growth
from ..support.sampling import choose_count


def test_the_neuron() -> None:
    x1, w1, x2, w2 = (wg.Value(x) for x in (2.0, -3.0, 0.0, 1.0))
    b = wg.Value(6.8813735870195432)
    o = (x1 * w1 + x2 * w2 + b).tanh()
    o.backward()

    assert o.data == pytest.approx(np.sqrt(0.5), abs=1e-15)
    assert [v.grad for v in (x1, w1, x2, w2, b)] == pytest.approx([-1.5, 1.0, 0.5, 0.0, 0.5], abs=1e-14)


def test_micrograds_documented_expression() -> None:
    a, b = wg.Value(-4.0), wg.Value(2.0)
    c = a + b
    d = a * b + b**3
    c += c + 1
    c += 1 + c + (-a)
    d += d * 2 + (b + a).relu()
    d += 3 * d + (b - a).relu()
    e = c - d
    f = e**2
    g = f / 2.0
    g += 10.0 / f
    g.backward()

    assert round(g.data, 4) == 24.7041
    assert round(a.grad, 4) == 138.8338
    assert round(b.grad, 4) == 645.5773


def test_inner_values_have_gradients_and_nothing_is_stale() -> None:
    a = wg.Value(2.0)
    b = a * 3.0
    c = b * b
    assert b.grad is None
    c.backward()
    assert (b.grad, a.grad) == (12.0, 36.0)
    c.backward()
    assert (b.grad, a.grad) == (12.0, 72.0)
    b.backward()
    assert (b.grad, a.grad) == (1.0, 75.0)


def test_a_leaf_accumulates_until_it_is_cleared() -> None:
    a = wg.Value(2.0)
    (a * a).backward()
    (a * a).backward()
    assert a.grad == 8.0
    a.grad = 0
    (a * a).backward()
    assert a.grad == 4.0
    a.grad = None
    (a * 1.0).backward()
    assert a.grad == 1.0


def test_new_data_of_a_leaf_is_used_by_what_comes_later() -> None:
    w = wg.Value(1.0)
    first = w * w
    w.data = 3.0
    second = w * first
    second.backward()

    assert second.data == 3.0
    assert w.grad == 1.0 + 3.0 * 2.0


def test_values_know_how_they_were_made() -> None:
    a, b = wg.Value(2.0, name="a"), wg.Value(np.ones(3))
    c = a * b

    assert c.op is wg.ops.multiply
    assert c.inputs[1] is b
    assert (c.shape, c.dtype, c.ndim, c.size, len(c)) == ((3,), np.dtype(float), 1, 3, 3)
    assert (a.op, a.inputs, a.name) == (None, (), "a")
    assert repr(a) == "Value(2.0, name='a')"


def test_absence_is_a_structural_zero() -> None:
    x = wg.Value(np.array([0.0, 4.0]))
    np.sqrt(x)[1].backward()
    assert x.grad.tolist() == [0.0, 0.25]

    y = wg.Value(np.array([0.0, 4.0]))
    np.where(y > 0, np.sqrt(y), 0.0).sum().backward()
    assert y.grad.tolist() == [0.0, 0.25]

    z = wg.Value(-1.0)
    d = z * 2.0
    d.relu().backward()
    assert (z.grad, d.grad) == (0.0, 0.0)


@pytest.mark.parametrize("f", [lambda x: -((x > 0.1) * x), lambda x: x - (x > 0.1) * x * 2.0])
def test_a_product_with_a_condition_has_a_number_for_a_slope(f: Any) -> None:
    assert wg.grad(f)(0.3) == -1.0
    assert wg.grad(lambda x, f=f: f(x).sum())(np.array([0.3, 0.5])).tolist() == [-1.0, -1.0]
    assert wg.trace(f, 0.3).run(x=0.3).grads == {"x": -1.0}


def test_what_a_sweep_does_not_pass_keeps_no_gradient() -> None:
    a, b = wg.Value(1.0), wg.Value(2.0)
    c = a * b
    d = a * 3.0
    d.backward()

    assert (a.grad, b.grad, c.grad) == (3.0, None, None)


def test_an_array_needs_a_gradient_to_start_from() -> None:
    x = wg.Value(np.arange(3.0))
    y = x * x
    with pytest.raises(GradientError, match=r"shape \(3,\).*sum\(\)"):
        y.backward()
    y.backward(np.array([1.0, 0.0, 2.0]))

    assert x.grad.tolist() == [0.0, 0.0, 8.0]
    with pytest.raises(ShapeError, match="shape"):
        y.backward(np.ones(2))


def test_hooks_see_and_may_change_a_gradient() -> None:
    seen: list[float] = []
    a = wg.Value(2.0)
    b = a * 3.0
    c = b * b
    b.register_hook(seen.append)
    b.register_hook(lambda g: g * 10.0)
    a.register_hook(seen.append)
    c.backward()

    assert seen == [12.0, 360.0]
    assert a.grad == 360.0


def test_no_grad_records_nothing() -> None:
    a = wg.Value(2.0)
    with wg.no_grad():
        b = a * 3.0
        c = np.tanh(wg.Value(np.ones(2)))
    d = a * b

    assert b.data == 6.0
    d.backward()
    assert a.grad == 6.0
    with pytest.raises(GradientError, match="constant"):
        b.backward()
    assert isinstance(c, wg.Value)


def test_stop_gradient_and_detach_cut() -> None:
    a = wg.Value(3.0)
    (a * a.detach()).backward()
    assert a.grad == 3.0
    assert wg.grad(lambda x: (x * wg.stop_gradient(x)).sum())(np.array([1.0, 2.0])).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "turn", [float, int, complex, lambda v: np.asarray(v, float), lambda v: np.array([v, v], dtype=float)]
)
def test_a_value_does_not_become_a_number_in_silence(turn: object) -> None:
    x = wg.Value(2.0) * 3.0
    with pytest.raises(EscapeError, match=r"(stop_gradient|v\.item)(.|\n)*test_values.py"):
        turn(x)  # type: ignore[operator]
    assert x.item() == 6.0


def test_nothing_is_changed_in_place() -> None:
    x = wg.Value(np.arange(3.0))
    with pytest.raises(MutationError, match="put"):
        x[0] = 1.0
    with pytest.raises(MutationError, match="out="):
        np.add(x, 1.0, out=np.zeros(3))
    with pytest.raises(ValueError, match="read-only"):
        x.data[0] = 5.0
    y = x * 2.0
    with pytest.raises(MutationError, match="leaf"):
        y.data = np.zeros(3)
    with pytest.raises(MutationError, match="leaf"):
        y.grad = np.zeros(3)


def test_a_buffer_edited_after_forward_does_not_matter() -> None:
    data, factor = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    x = wg.Value(data)
    y = (x * factor).sum()
    data[:] = 100.0
    factor[:] = 100.0
    y.backward()

    assert x.data.tolist() == [1.0, 2.0]
    assert x.grad.tolist() == [3.0, 4.0]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (np.array([1, 2]), GradientError),
        (np.array([True]), GradientError),
        (True, GradientError),
        ([[1.0], [1.0, 2.0]], ShapeError),
        ("text", OperandError),
        ({}, OperandError),
    ],
)
def test_what_cannot_be_a_value_is_refused(data: object, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"test_values\.py"):
        wg.Value(data)


def test_shapes_that_do_not_fit_name_the_line() -> None:
    with pytest.raises(ShapeError, match=r"needs shapes that broadcast; got a \(3,\), b \(4,\)(.|\n)*test_values"):
        wg.Value(np.ones(3)) + wg.Value(np.ones(4))
    with pytest.raises(ShapeError, match=r"test_values.py"):
        wg.Value(np.ones((2, 3))) @ wg.Value(np.ones((2, 3)))


def test_a_function_without_a_rule_is_refused_by_name() -> None:
    with pytest.raises(NoRuleError, match=r"np.nextafter has no rule"):
        np.nextafter(wg.Value(1.0), 2.0)
    with pytest.raises(NoRuleError, match=r"np.*histogram2d.* has no rule"):
        np.histogram2d(wg.Value(np.ones(3)), np.ones(3))


def test_comparisons_are_plain_and_steer_python() -> None:
    x, y = wg.Value(2.0), wg.Value(np.array([1.0, 3.0]))

    assert (x > 1.0) is True
    assert isinstance(y > 2.0, np.ndarray)
    assert (x == 2.0) is True
    assert x in {x}


def test_dtypes_follow_numpy() -> None:
    narrow = wg.Value(np.ones(3, np.float32))

    assert (narrow * 2.0).dtype == np.float32
    assert (narrow * np.float64(2.0)).dtype == np.float64
    assert (narrow * wg.Value(2.0)).dtype == np.float64
    assert (narrow * wg.Value(np.ones(3))).dtype == np.float64
    (narrow * wg.Value(np.ones(3))).sum().backward()
    assert narrow.grad.dtype == np.float32


def test_leaves_can_be_copied_and_pickled_and_recorded_values_cannot() -> None:
    a = wg.Value(2.0, name="a")

    assert pickle.loads(pickle.dumps(a)).data == 2.0
    assert copy.deepcopy(a) is not a
    with pytest.raises(EscapeError):
        pickle.dumps(a * 2.0)


@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
@pytest.mark.parametrize(
    "data", [2.0, np.float64(2.0), np.float32(2.0), 2.0 + 1.0j, np.ones(3), np.ones((2, 2), np.float32)]
)
def test_copies_of_leaves_are_like_them(data: Any, make_copy: Callable[[wg.Value], wg.Value]) -> None:
    leaf = wg.Value(data, name="a")
    abs(leaf * leaf).sum().backward()
    again = make_copy(leaf)

    assert (type(again), again.name, type(again.data)) == (type(leaf), "a", type(leaf.data))
    np.testing.assert_array_equal(again.data, leaf.data)
    np.testing.assert_array_equal(again.grad, leaf.grad)
    assert again.grad is not leaf.grad or np.ndim(leaf.grad) == 0


@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_copies_of_constants_are_constants(make_copy: Callable[[wg.Value], wg.Value]) -> None:
    constant = make_copy(wg.Value(2.0).detach())
    (wg.Value(3.0) * constant).backward()

    assert constant.grad is None


def test_a_value_that_escaped_its_transform_is_refused() -> None:
    kept: list[wg.Value] = []

    def f(x: wg.Value) -> wg.Value:
        kept.append(x * 2.0)
        return x * x

    wg.grad(f)(3.0)
    with pytest.raises(EscapeError, match=r"has ended(.|\n)*test_values.py"):
        kept[0] * wg.Value(1.0)
    assert kept[0].data == 6.0


def mlp_step(weights: list[wg.Value]) -> wg.Value:
    total: wg.Value = wg.Value(0.0)
    for k, w in enumerate(weights):
        total = total + (w * 0.5 + float(k)).tanh() * w
    loss = total * total
    loss.backward()
    for w in weights:
        w.data = w.data - 0.01 * w.grad
        w.grad = None
    return loss


def test_a_training_loop_does_not_grow() -> None:
    gc.disable()
    try:
        weights = [wg.Value(0.1 * k) for k in range(20)]

        def train() -> None:
            for _ in range(100):
                mlp_step(weights)

        grown = measure_traced_growth(train)
    finally:
        gc.enable()

    assert grown < 10_000


def test_a_loop_without_backward_does_not_grow_for_ever() -> None:
    weights = [wg.Value(0.1 * k) for k in range(20)]
    sizes = []
    for _ in range(20_000):
        y = sum((w * w for w in weights), wg.Value(0.0))
        sizes.append(len(y._tape.buffer))

    assert max(sizes) < 2 * MAX_TAPE_ROWS * STRIDE
    assert len(sizes) * 40 > 4 * MAX_TAPE_ROWS


def test_recordings_die_with_their_last_value() -> None:
    gc.disable()
    try:
        a = wg.Value(2.0)
        b = a * np.ones(3)
        tape, held = weakref.ref(b._tape), weakref.ref(b)
        b.sum().backward()
        del b
        assert held() is None
        assert tape() is None
        assert a.grad == 3.0
    finally:
        gc.enable()


def test_values_of_two_recordings_meet() -> None:
    a = wg.Value(2.0)
    first = a * 3.0
    first.backward()
    other = wg.Value(5.0)
    second = other * 7.0
    joined = first * second
    a.grad = None
    joined.backward()

    assert a.grad == 3.0 * 35.0
    assert other.grad == 6.0 * 7.0
    assert first.grad == 35.0
    assert second.grad == 6.0


def test_an_expression_longer_than_a_recording_is_one_expression() -> None:
    x, y = wg.Value(0.5), wg.Value(2.0)
    total = wg.Value(0.0)
    # Nine rows each: more than one recording, or more than four.
    steps = choose_count(MAX_TAPE_ROWS // 6, MAX_TAPE_ROWS // 2)
    for k in range(steps):
        # The product of a leaf and a number begins a new recording once the old one is long.
        total = total + (x * 2.0 - y).relu() * (x * float(k % 3)) + (y * 0.001).tanh()
    total.backward()

    assert x.grad == 0.0
    assert y.grad == pytest.approx(steps * 0.001 * (1 - np.tanh(0.002) ** 2), rel=1e-9)


def test_a_chain_of_a_million_nodes_is_recorded_differentiated_and_freed() -> None:
    x = wg.Value(0.5)
    y = x
    for _ in range(500_000):
        y = y * 0.9999999 + 1e-9
    y.backward()

    assert x.grad == pytest.approx(0.9999999**500_000, rel=1e-9)
    tape = weakref.ref(y._tape)
    del y
    assert tape() is None


def test_threads_give_the_serial_bits() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(choose_count(300, 1000), 3))

    def f(x: wg.Value) -> wg.Value:
        return (np.tanh(x) * x).sum() + x[0] * x[1] / (1.0 + x[2] * x[2])

    gradient = wg.grad(f)
    serial = [gradient(point) for point in points]
    results: list[list[np.ndarray]] = [[] for _ in range(8)]

    def work(k: int) -> None:
        results[k] = [gradient(point) for point in points]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        wait_for_thread(thread)

    for found in results:
        assert all(np.array_equal(a, b) for a, b in zip(found, serial, strict=True))


def test_threads_may_share_a_recorded_value() -> None:
    base = wg.Value(2.0) * 3.0
    values: list[wg.Value] = []

    def work() -> None:
        y = base
        for _ in range(2000):
            y = y * 1.0001
        values.append(y)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        wait_for_thread(thread)

    assert len({value.data for value in values}) == 1
    for value in values:
        value.backward()
        assert base.grad == pytest.approx(1.0001**2000, rel=1e-9)


def test_an_interrupt_restores_the_context() -> None:
    def broken(x: wg.Value) -> wg.Value:
        with wg.no_grad(), wg.group("inner"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wg.grad(broken)(2.0)

    assert wg.grad(lambda x: x * x)(3.0) == 6.0
    y = wg.Value(3.0) * 2.0
    y.backward()


def test_methods_are_those_of_numpy_and_of_the_op_table() -> None:
    x = wg.Value(np.arange(1.0, 7.0).reshape(2, 3))
    for name in ("tanh", "exp", "log", "relu", "sigmoid", "sum", "mean", "reshape", "T", "max", "dot", "transpose"):
        assert name in dir(x)
    assert x.T.shape == (3, 2)
    assert x.reshape(3, 2).shape == x.reshape((3, 2)).shape == (3, 2)
    assert [row.shape for row in x] == [(3,), (3,)]


def test_a_hook_is_registered_once_where_two_tapes_have_copied_rows_of_each_other() -> None:
    x = wg.Value(2.0)
    a = x * 3.0
    with ThreadPoolExecutor(max_workers=1) as other:
        b = other.submit(lambda: a * 2.0).result(PATIENCE)
    c = a + b
    a.register_hook(lambda grad: 10.0 * grad)
    c.backward()

    assert x.grad == 90.0
