"""Listings whose derivatives are by some of the inputs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import GradientError, OperandError

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1"]
POINT = {"a": 0.3, "b": 0.5, "c": 0.7}
CIRCUITS: dict[str, Callable[[], wg.Circuit]] = {
    "product": lambda: wg.circuit("y = sin(a) * b * c + a"),
    "mask": lambda: wg.circuit("y = relu(b) * c + where(a > 0.2, sqrt(a) * b, c)"),
    "unread input": lambda: wg.trace(lambda a, b, c: a * np.exp(c), 0.3, 0.5, 0.7),
    "loop": lambda: wg.trace(lambda a, b, c: wg.fori_loop(0, 3, lambda _, s: np.sin(s * b) + c, a), 0.3, 0.5, 0.7),
    "two outputs": lambda: wg.trace(lambda a, b, c: [a * b, a * b * c + a], 0.3, 0.5, 0.7),
}
SELECTIONS = ("b", ("a", "c"), ("c",))


def list_names(argnames: Any) -> list[str]:
    names = [argnames] if isinstance(argnames, str) else argnames
    return [name for name in POINT if name in names]


def select(answer: Any, names: list[str], *, outputs: bool = False) -> Any:
    """Return what the code of all derivatives returns, without those by other inputs."""
    if outputs:
        return {label: {name: row[name] for name in names} for label, row in answer.items()}
    value, grads, *second = answer
    rows = [{one: {two: second[0][one][two] for two in names} for one in names}] if second else []
    return (value, {name: grads[name] for name in names}, *rows)


@pytest.mark.parametrize("argnames", SELECTIONS)
@pytest.mark.parametrize("function", ["value_and_grad", "jacobian", "hessian"])
@pytest.mark.parametrize("language", ["python", "numpy"])
@pytest.mark.parametrize("name", CIRCUITS)
def test_derivatives_by_some_inputs_are_those_of_the_whole_listing(
    name: str, language: str, function: str, argnames: Any
) -> None:
    circuit = CIRCUITS[name]()
    if name == "two outputs" and function != "jacobian":
        circuit = wg.Circuit(circuit.with_output(circuit.outputs[1]).columns)
    write = getattr(circuit, f"to_{language}")
    whole: dict[str, Any] = {}
    some: dict[str, Any] = {}
    exec(write(function), whole)
    exec(write(function, argnames=argnames), some)

    wanted = select(whole[function](**POINT), list_names(argnames), outputs=function == "jacobian")

    assert some[function](**POINT) == wanted


@pytest.mark.parametrize("argnames", SELECTIONS)
@pytest.mark.parametrize("function", ["value_and_grad", "jacobian", "hessian"])
@pytest.mark.parametrize("name", CIRCUITS)
def test_c_by_some_inputs_passes_its_self_test(name: str, function: str, argnames: Any, tmp_path: Path) -> None:
    circuit = CIRCUITS[name]()
    if name == "two outputs" and function != "jacobian":
        circuit = wg.Circuit(circuit.with_output(circuit.outputs[1]).columns)

    run_self_test(circuit.to_c(function, argnames=argnames, test=POINT), tmp_path)


def run_self_test(text: str, folder: Path) -> None:
    source = folder / "listing.c"
    source.write_text(text)
    command = ["gcc", *STRICT, "-DWIREGRAD_TEST", str(source), "-o", str(folder / "test"), "-lm"]
    subprocess.run(command, check=True, timeout=60)
    subprocess.run([str(folder / "test")], check=True, timeout=60)


def test_javascript_and_cuda_return_the_selected_derivatives() -> None:
    circuit = CIRCUITS["product"]()

    assert "grads: { b: d_b } };" in circuit.to_js(argnames="b")
    assert "double grad_here[1];" in circuit.to_cuda(argnames="b")
    assert "a row for each of a, c" in circuit.to_cuda("hessian", argnames=("a", "c"))


def test_code_by_few_inputs_is_shorter_and_counted_so() -> None:
    circuit = wg.trace(lambda w, x: np.tanh(sum(w[k] * x[k] for k in range(30))), list(np.ones(30)), list(np.ones(30)))
    few = circuit.to_c(argnames=("x_0", "x_1"))

    assert len(few) < 0.6 * len(circuit.to_c())
    assert circuit.count_ops(argnames=("x_0", "x_1")).total < 0.6 * circuit.count_ops().total
    assert "// grad: the gradient by x_0, x_1, in the same order" in few


def fall(state: Any, force: float, gains: dict[str, float]) -> Any:
    push = force * gains["p"]
    if state[0] < 0.0:
        push = push - gains["d"] * state[0]
    return np.array([state[0] + 0.1 * state[1], state[1] + 0.1 * push])


FALL_ARGUMENTS = (np.array([0.4, 0.2]), 1.5, {"p": 2.0, "d": 0.5})


@pytest.mark.parametrize(
    ("selected", "layout"),
    [
        ({"argnums": 1}, "by force"),
        ({"argnums": -1}, "by gains_p, gains_d"),
        ({"argnames": "gains"}, "by gains_p, gains_d"),
        ({"argnums": (0,), "argnames": ("gains",)}, "by state, gains_p, gains_d"),
    ],
)
def test_code_of_compiled_functions_is_by_selected_arguments(
    selected: dict[str, Any], layout: str, tmp_path: Path
) -> None:
    fast = wg.compile(fall)
    fast(*FALL_ARGUMENTS)
    fast(-FALL_ARGUMENTS[0], *FALL_ARGUMENTS[1:])
    text = fast.to_c("jacobian", test=FALL_ARGUMENTS, **selected)
    run_self_test(text, tmp_path)

    assert f"a row of derivatives {layout} for each output" in text
    assert fast.count_ops("jacobian", **selected).total < fast.count_ops("jacobian").total


def test_python_of_compiled_functions_is_by_selected_arguments() -> None:
    fast = wg.compile(lambda x, y: x * y if x > 0.0 else y * y)
    fast(1.0, 2.0)
    fast(-1.0, 2.0)
    names: dict[str, Any] = {}
    exec(fast.to_python(name="f", argnames="y"), names)

    assert names["f"](3.0, 2.0) == (6.0, {"y": 3.0})
    assert names["f"](-3.0, 2.0) == (4.0, {"y": 4.0})
    assert "grads: { y:" in fast.to_js(argnums=1)


def test_results_in_the_header_of_c_say_their_shapes() -> None:
    fast = wg.compile(fall, argnums=(0, 1))
    fast.value_and_jacobian(*FALL_ARGUMENTS)

    assert "// y: f_0[2] at 0, f_1_0[2][2] at 2, f_1_1[2] at 6" in fast.to_c("value_and_jacobian")


def test_names_and_numbers_that_select_nothing_are_refused() -> None:
    fast = wg.compile(fall, argnums=(0, 1))
    fast.value_and_jacobian(*FALL_ARGUMENTS)
    fast(*FALL_ARGUMENTS)

    with pytest.raises(GradientError, match=r"asks for 'd', which is no input of the circuit"):
        CIRCUITS["product"]().to_c(argnames=("a", "d"))
    with pytest.raises(GradientError, match=r"argnames is the name of an input or a tuple of them; got 3"):
        CIRCUITS["product"]().to_c(argnames=3)  # type: ignore[arg-type]
    with pytest.raises(GradientError, match=r"argnums asks for argument 5 of fall"):
        fast.to_c("jacobian", argnums=5)
    with pytest.raises(OperandError, match=r"selected when the function was compiled"):
        fast.to_c("value_and_jacobian", argnums=0)
