"""Tracing: a Python function as a circuit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.frontends.recording import trace
from wiregrad.ops import TABLE
from wiregrad.ops.array_ops import Elementwise
from wiregrad.ops.c_expressions import CallExpression, ChoiceExpression, parse_c_text, walk_expression

W = np.array([[1.0, -2.0], [0.5, 0.25]])


def layer(x: Any, w: Any) -> Any:
    z = w @ x + 0.5
    return np.tanh(z)


def loss(x: Any, w: Any) -> Any:
    h = layer(x, w)
    if h.sum() > 0:
        h = h * 2.0
    total = (h**2).sum()
    return total


def traced() -> wg.Circuit:
    return wg.trace(loss, np.array([1.0, 0.2]), W)


def test_a_circuit_has_the_functions_names_lines_and_groups() -> None:
    circuit = traced()

    assert circuit.inputs == ("x", "w")
    assert circuit.output == "total"
    assert circuit.name == "loss"
    assert circuit["h"].op.name == "multiply"
    assert circuit["z"].group == "layer"
    assert circuit["z"].place is not None
    assert circuit["z"].place.file == __file__
    assert circuit["z"].place.line == layer.__code__.co_firstlineno + 1


def test_what_steered_python_is_kept() -> None:
    (certificate,) = traced().certificates

    assert certificate.outcome is True
    assert certificate.place is not None
    assert certificate.place.line == loss.__code__.co_firstlineno + 2
    assert traced().simplify().certificates[0].outcome is True


def test_the_circuit_computes_what_the_function_does() -> None:
    x = np.array([0.9, -0.1])
    circuit = traced()
    run = circuit.run(x=x, w=W)
    by_x, by_w = wg.grad(loss, (0, 1))(x, W)

    assert circuit(x=x, w=W) == loss(x, W)
    assert np.array_equal(run.grads["x"], by_x)
    assert np.array_equal(run.grads["w"], by_w)
    backward = circuit.backward_circuit()(x=x, w=W)
    assert np.allclose(backward["grad_x"], by_x, rtol=1e-14)
    assert np.allclose(circuit.simplify().backward_circuit()(x=x, w=W)["grad_w"], by_w, rtol=1e-14)


def test_array_circuits_are_written_and_read_back() -> None:
    circuit = traced()
    again = wg.Circuit.from_text(circuit.to_text())

    assert again == circuit
    assert again(x=np.ones(2), w=W) == circuit(x=np.ones(2), w=W)


def test_settings_and_constants_of_every_kind_survive_the_text() -> None:
    def f(x: Any) -> Any:
        y = x[[0, 2], 1:] * np.array([1.0, np.nan, np.inf])[None, :2]
        z = np.concatenate([y, np.ones((2, 2), np.float32)], axis=0)
        picked = np.where(np.array([True, False]), z[0], z[1])
        return np.einsum("i,i->", picked, picked)

    circuit = wg.trace(f, np.arange(9.0).reshape(3, 3))

    assert wg.Circuit.from_text(circuit.to_text()) == circuit


def test_scalars_trace_like_formulas() -> None:
    def f(a: Any, b: Any, c: Any) -> Any:
        e = a + b
        f = e * c
        return f

    circuit = wg.trace(f, 2.0, -3.0, 10.0)

    assert (len(circuit), circuit.output) == (2, "f")
    assert circuit.run(a=2, b=-3, c=10).grads == {"a": 10.0, "b": 10.0, "c": -1.0}


def test_groups_nest_with_functions() -> None:
    def f(x: Any) -> Any:
        with wg.group("first"):
            y = layer(x, W)
        return y.sum()

    assert wg.trace(f, np.ones(2))["z"].group == "first/layer"


def test_containers_become_inputs_by_path() -> None:
    circuit = wg.trace(lambda p, *rest: p["w"][0] * p["b"] + rest[0], {"w": [1.0], "b": 2.0}, 3.0)

    assert circuit.inputs == ("p_w_0", "p_b", "rest_0")


def test_several_results_are_several_outputs() -> None:
    circuit = wg.trace(lambda x: (x * 2.0, x + 1.0), 3.0)

    assert list(circuit(x=3.0).values()) == [6.0, 4.0]


def test_an_array_output_has_no_run() -> None:
    circuit = wg.trace(lambda x: x * 2.0, np.ones(3))
    assert circuit(x=np.ones(3)).tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(wg.WiregradError, match="a gradient needs a scalar output"):
        circuit.run(x=np.ones(3))


def test_inputs_of_the_wrong_type_are_refused() -> None:
    circuit = traced()
    with pytest.raises(TypeError, match=r"input x must be float64\[2\]; got float64 of shape \(3,\)"):
        circuit(x=np.ones(3), w=W)


def test_float32_circuits_stay_float32() -> None:
    x = np.array([1.0, 2.0], np.float32)
    circuit = wg.trace(lambda x: (np.tanh(x) * 2.0).sum(), x)
    run = circuit.run(x=x)

    assert run.grads["x"].dtype == np.float32
    assert {node.type.dtype.name for node in circuit.nodes} == {"float32"}


def test_expand_gives_the_scalar_circuit() -> None:
    x = np.array([0.9, -0.1])
    scalar = traced().expand()
    run = scalar.run({"x_0": 0.9, "x_1": -0.1, **{f"w_{i}_{j}": W[i, j] for i in range(2) for j in range(2)}})
    by_x, by_w = wg.grad(loss, (0, 1))(x, W)

    assert scalar.inputs == ("x_0", "x_1", "w_0_0", "w_0_1", "w_1_0", "w_1_1")
    assert all(not node.type.shape for node in scalar.nodes)
    assert run.output == pytest.approx(loss(x, W), rel=1e-15)
    assert [run.grads["x_0"], run.grads["x_1"]] == pytest.approx(by_x.tolist(), rel=1e-14)
    assert run.grads["w_1_0"] == pytest.approx(by_w[1, 0], rel=1e-14)
    assert "z_1" in scalar


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 1), (1, 3), (2, 3)], ids=str)
def test_gradients_of_broadcasts_expand(shape: tuple[int, ...]) -> None:
    """Broadcasting back to a number adds over all axes; then the sum is one wire, not an array of wires."""

    def slopes(x: Any, w: Any) -> Any:
        return np.sum(np.sin(wg.grad(lambda x: np.sum(np.tanh(x + w) * w))(x)))

    x = np.full(shape, 0.3)[()]
    w = np.arange(6.0).reshape(2, 3) / 7.0
    scalar = wg.trace(slopes, x, w).expand()

    assert all(not node.type.shape for node in scalar.nodes)
    assert scalar([*np.ravel(x), *w.ravel()]) == pytest.approx(slopes(x, w), rel=1e-14)


def test_no_grad_cuts_gradients_and_not_the_circuit() -> None:
    def f(x: Any) -> Any:
        with wg.no_grad():
            c = x * 1.0
        return x * c

    circuit = wg.trace(f, 2.0)
    assert circuit(x=3.0) == 9.0
    assert circuit.run(x=3.0).grads == {"x": 3.0}
    assert wg.vmap(f)(np.arange(4.0)).tolist() == [0.0, 1.0, 4.0, 9.0]
    assert wg.vmap(wg.grad(f))(np.arange(4.0)).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_keywords_keep_their_names() -> None:
    def f(b: Any, a: Any) -> Any:
        return b - 2 * a

    assert wg.trace(f, b=1.0, a=5.0)(b=1.0, a=5.0) == -9.0
    assert wg.trace(f, 1.0, a=5.0)(b=1.0, a=5.0) == -9.0


def test_certificates_survive_text_and_expand() -> None:
    circuit = traced()
    again = wg.Circuit.from_text(circuit.to_text())

    assert again.certificates == circuit.certificates
    assert circuit.expand().certificates[0].outcome is True


def test_expand_counts_conditions_and_refuses_complex_numbers() -> None:
    x = np.array([2.0, 3.0, 0.5])
    counted = wg.trace(lambda x: (x > 1.0).sum() * x[0], x)
    assert counted.expand()([2.0, 3.0, 0.5]) == counted(x=x) == 4.0
    with pytest.raises(wg.WiregradError, match="complex128"):
        wg.trace(lambda x: (x * (1 + 2j)).real.sum(), x).expand()


def test_constants_of_every_value_are_read_back() -> None:
    values = np.array([complex(1, np.inf), complex(0.0, -0.0), complex(np.nan, 2.0)])
    with np.errstate(invalid="ignore"):
        circuit = wg.trace(lambda x: (x * values).real, 1.0)

    assert wg.Circuit.from_text(circuit.to_text()) == circuit


def test_printing_a_traced_value_may_steer_python() -> None:
    assert wg.vmap(lambda x: x * len(f"{x:.0f}"))(np.array([1.0, 30.0, 200.0])).tolist() == [1.0, 60.0, 600.0]


def test_a_constant_belongs_to_the_circuit() -> None:
    k = np.ones(3)
    circuit = wg.trace(lambda x: (x * 1.0, k), np.zeros(3))
    k[:] = 5.0

    assert list(circuit(x=np.zeros(3)).values())[1].tolist() == [1.0, 1.0, 1.0]


def test_calls_of_one_function_are_told_apart_by_their_frames() -> None:
    """A frame may have the address of an earlier one; a call that records a single node is no group."""

    def f(w, x):
        for _ in range(20):
            x = x @ w
        return np.sum(x)

    circuit = wg.trace(f, np.eye(2), np.ones((3, 2)))

    assert {node.group for node in circuit.nodes} == {""}


UFUNC_OPS = [op for op in TABLE if isinstance(op, Elementwise) and isinstance(op.forward, np.ufunc) and op.c]


@pytest.mark.parametrize("op", UFUNC_OPS, ids=lambda op: op.name)
def test_the_parsed_text_of_an_op_says_as_well_whether_c_rounds_like_numpy(op: Elementwise) -> None:
    parts = list(walk_expression(parse_c_text(op.c)))
    calls = {part.name for part in parts if isinstance(part, CallExpression)}
    has_choice = any(isinstance(part, ChoiceExpression) for part in parts)

    assert trace._rounds_like_numpy(op) == (calls <= trace.EXACT_FUNCTIONS and not has_choice)
