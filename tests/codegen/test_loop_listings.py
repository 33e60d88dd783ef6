"""Loops in text, files and listings: written as loops, read back equal, computing what the interpreter does."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.api import Circuit
from wiregrad.backends.run_listings import RunnableListing, load_listing_function, run_c, run_js, run_python
from wiregrad.errors import FileFormatError, NoRuleError, TextError, WiregradError
from wiregrad.passes import gradient_circuit

from ..support.loop_programs import PROGRAMS, SIZE
from ..support.sampling import choose_count, sample_some

POINT = np.array([0.83, 0.61, 0.37, 0.72, 0.29, 0.55])
OTHER = np.array([0.31, 0.45, 0.94, 0.22, 0.67, 0.58])
LOOPS = SimpleNamespace(
    scan=wg.scan,
    fori_loop=wg.fori_loop,
    while_loop=partial(wg.while_loop, limit=60),
    cond=wg.cond,
    switch=wg.switch,
)
UNBOUNDED = "dynamic_bound"
"""The program whose number of steps is a recorded value: its gradient has no bound on what it stores."""
BY_INDEX = "horner_in_carry"
"""The program that reads elements at computed places, which only NumPy can."""
NAMES = [name for name in PROGRAMS if name != UNBOUNDED]
SAMPLE = [name for name in NAMES if name != BY_INDEX][:: choose_count(9, 1)]
"""Every ninth program in the usual run, all of them in the full one."""


def trace_vector(name: str) -> Circuit:
    """Return the circuit of a program of one array."""
    return wg.trace(lambda p: PROGRAMS[name](np, LOOPS, p), POINT)


def trace_numbers(name: str) -> Circuit:
    """Return the circuit of a program of six numbers."""
    return wg.trace(lambda a, b, c, d, e, g: PROGRAMS[name](np, LOOPS, np.stack([a, b, c, d, e, g])), *POINT)


def expect_results(circuit: Circuit, *inputs: Any) -> np.ndarray[Any, Any]:
    """Return the value and the gradient that the interpreter computes."""
    named = dict(zip(circuit.inputs, inputs, strict=True))
    grads = [np.ravel(grad) for grad in circuit.run(**named).grads.values()]
    return np.concatenate([np.ravel(circuit(**named)), *grads])


def assert_close(got: Any, expected: Any, names: Any = None) -> None:
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12, err_msg=str(names))


@pytest.mark.parametrize("name", sample_some(list(PROGRAMS), 7))
def test_a_loop_is_read_back_from_text_json_and_files(name: str, tmp_path: Path) -> None:
    circuit = trace_vector(name)
    circuit.save(tmp_path / "loop.wg")
    copies = [Circuit.from_text(circuit.to_text()), Circuit.from_json(circuit.to_json()), wg.load(tmp_path / "loop.wg")]

    for copy in copies:
        assert copy == circuit
        assert np.array_equal(expect_results(copy, OTHER), expect_results(circuit, OTHER))


@pytest.mark.parametrize("name", sample_some(NAMES, 7))
def test_the_gradient_of_a_loop_is_read_back(name: str) -> None:
    gradient = Circuit(gradient_circuit(trace_vector(name)).columns)

    assert Circuit.from_text(gradient.to_text()) == gradient
    assert Circuit.from_json(gradient.to_json()) == gradient


@pytest.mark.parametrize("name", sample_some(NAMES, 7))
def test_numpy_listings_of_loops_agree_with_the_interpreter(name: str) -> None:
    circuit = trace_vector(name)
    call = load_listing_function(RunnableListing(circuit.to_numpy(), "value_and_grad", circuit.inputs))
    value, grads = call(OTHER)

    assert_close(np.append(value, np.ravel(next(iter(grads.values())))), expect_results(circuit, OTHER))


def test_c_listings_of_loops_agree_with_the_interpreter() -> None:
    circuits = [trace_vector(name) for name in SAMPLE]
    listings = [
        RunnableListing(circuit.to_c(name=f"f{k}"), f"f{k}", circuit.inputs, sizes=(SIZE,))
        for k, circuit in enumerate(circuits)
    ]
    results = run_c(listings, [[OTHER]] * len(listings), flags=("-O1", "-Wall", "-Wextra", "-Werror", "-std=c99"))

    for name, circuit, result in zip(SAMPLE, circuits, results, strict=True):
        assert_close(result[0], expect_results(circuit, OTHER), name)


def test_c_listings_of_loops_are_written_in_floats_too() -> None:
    circuits = [trace_vector(name) for name in SAMPLE]
    listings = [
        RunnableListing(circuit.to_c(name=f"f{k}", real="float"), f"f{k}", circuit.inputs, sizes=(SIZE,), real="float")
        for k, circuit in enumerate(circuits)
    ]
    results = run_c(listings, [[OTHER]] * len(listings), flags=("-O1", "-Wall", "-Wextra", "-Werror", "-std=c99"))

    for name, circuit, result in zip(SAMPLE, circuits, results, strict=True):
        np.testing.assert_allclose(result[0], expect_results(circuit, OTHER), rtol=1e-3, atol=1e-4, err_msg=name)


def test_a_loop_whose_body_has_other_numbers_is_refused_in_c() -> None:
    weights = np.ones((3, 2), np.float32)
    circuit = wg.trace(lambda x: np.sum(wg.scan(lambda c, w: (c * w, np.sum(c)), x, weights)[0]), np.ones(2))

    for real in (None, "float", "double"):
        with pytest.raises(NoRuleError, match="real numbers of one type"):
            circuit.to_c(real=real)


@pytest.mark.parametrize("language", ["python", "js"])
def test_script_listings_of_loops_agree_with_the_interpreter(language: str) -> None:
    # A branch of an untraced number is no node, and arrays remain.
    names = [name for name in SAMPLE if name != "choice_by_number"]
    circuits = [trace_numbers(name) for name in names]
    write = {"python": Circuit.to_python, "js": Circuit.to_js}[language]
    called = {"python": "value_and_grad", "js": "valueAndGrad"}[language]
    listings = [RunnableListing(write(circuit), called, circuit.inputs) for circuit in circuits]
    results = {"python": run_python, "js": run_js}[language](listings, [[OTHER]] * len(listings))

    for name, circuit, result in zip(names, circuits, results, strict=True):
        assert_close(result[0], expect_results(circuit, *OTHER), name)


def pendulum(speed: Any) -> Any:
    def step(state: Any, _: Any) -> Any:
        angle, velocity = state
        velocity = velocity - 0.01 * np.sin(angle)
        return (angle + 0.01 * velocity, velocity), angle

    (angle, _), path = wg.scan(step, (0.5, speed), length=200)
    return angle**2 + np.mean(path)


def root_or_sine(a: Any) -> Any:
    root = wg.while_loop(lambda x: abs(x * x - a) > 1e-12, lambda x: 0.5 * (x + a / x), 1.0, limit=50)
    return root * wg.cond(a > 1, lambda x: x * x, np.sin, a)


def counted_sines(w: Any) -> Any:
    return wg.fori_loop(0, 30, lambda i, x: np.sin(x) * w + 0.01 * i, 1.0)


SECOND_ORDER = [
    (root_or_sine, 2.0),
    (counted_sines, 0.9),
    *[(pendulum, 0.3), (root_or_sine, 0.5)][: choose_count(0, 2)],
]


def test_second_derivatives_of_loops_are_listed() -> None:
    circuits = [wg.trace(f, x) for f, x in SECOND_ORDER]
    points = [[[x]] for _, x in SECOND_ORDER]
    expected = [[f(x), wg.grad(f)(x), wg.grad(wg.grad(f))(x)] for f, x in SECOND_ORDER]
    compile_and_run = partial(run_c, flags=("-O0", "-std=c99"))
    for write, run in ((Circuit.to_c, compile_and_run), (Circuit.to_js, run_js), (Circuit.to_python, run_python)):
        listings = [
            RunnableListing(
                write(circuit, function="hessian", name=f"f{k}"), f"f{k}", circuit.inputs, function="hessian"
            )
            for k, circuit in enumerate(circuits)
        ]

        assert_close(np.concatenate(run(listings, points)), expected)


def test_a_listing_has_the_loop_and_not_its_steps() -> None:
    short, long = (
        wg.trace(lambda w, n=n: wg.fori_loop(0, n, lambda i, x: np.sin(x) * w + 0.01 * i, 1.0), 0.9) for n in (50, 5000)
    )

    for language in ("to_python", "to_numpy", "to_c", "to_js"):
        one, other = (getattr(circuit, language)() for circuit in (short, long))
        assert abs(len(one) - len(other)) < 100
        assert "for" in one


def test_a_limit_and_an_index_are_checked_in_listings() -> None:
    looped = wg.trace(lambda a: wg.while_loop(lambda x: x < a, lambda x: x + 1.0, 0.0, limit=5), 3.0)
    chosen = wg.trace(lambda x: wg.switch((x > 2.0) * 3, [np.sin, np.cos], x), 1.0)
    loop, choice = (
        load_listing_function(RunnableListing(circuit.to_python(function="value"), "value", circuit.inputs))
        for circuit in (looped, chosen)
    )

    assert loop(2.5) == 3.0
    with pytest.raises(ArithmeticError, match="limit"):
        loop(9.0)
    with pytest.raises(IndexError, match="0 to 1"):
        choice(4.0)
    result = run_c(
        [RunnableListing(looped.to_c(function="value", name="g"), "g", looped.inputs, function="value")], [[[9.0]]]
    )
    assert np.isnan(result[0][0, 0])


def test_an_unbounded_gradient_says_what_to_give() -> None:
    circuit = trace_vector(UNBOUNDED)

    for write in (circuit.to_c, circuit.to_numpy):
        with pytest.raises(NoRuleError, match="limit="):
            write()
    assert "while" in circuit.to_numpy(function="value")


def test_places_that_are_computed_are_left_to_numpy() -> None:
    with pytest.raises(NoRuleError, match="to_numpy"):
        trace_vector(BY_INDEX).to_c()


TEXT = wg.trace(counted_sines, 0.9).to_text()
WRONG_TEXTS = {
    "carry=1": "carry=9",
    "xs=1": "xs=2",
    "length=30": "length=-1",
    "length=30 ": "length=31 ",
    "reverse=false": "reverse=3",
    "counted=false": "counted=true",
    " counted=false": "",
    "reverse=false ": "reverse=false speed=3 ",
    "i: int64": "i",
    "}\n": "",
    "    output": "    input",
}


@pytest.mark.parametrize("wrong", WRONG_TEXTS)
def test_a_text_whose_loop_does_not_fit_is_refused(wrong: str) -> None:
    assert wrong in TEXT
    with pytest.raises(WiregradError):
        Circuit.from_text(TEXT.replace(wrong, WRONG_TEXTS[wrong], 1))


def test_a_document_whose_loop_does_not_fit_is_refused() -> None:
    document = json.loads(wg.trace(counted_sines, 0.9).to_json())
    node = next(node for node in document["nodes"] if node["op"] == "scan")
    body = node["bodies"][0]
    for bodies in ([], [body, body], [{**body, "nodes": []}], [{**body, "extra": 1}], [3], "body"):
        node["bodies"] = bodies
        with pytest.raises(FileFormatError):
            Circuit.from_json(json.dumps(document))


def test_loops_inside_one_another_have_a_limit() -> None:
    line = "y = scan x carry=1 xs=0 length=1 reverse=false counted=false {\ninput x\n"

    with pytest.raises(TextError, match="inside one another"):
        Circuit.from_text("input x\n" + 30 * line)
    with pytest.raises(TextError, match="'}'"):
        Circuit.from_text("input x\n" + line + "output y = x\n")


def test_functions_of_other_libraries_are_still_refused(tmp_path: Path) -> None:
    circuit = wg.trace(lambda a: wg.root(lambda x, a: x * x - a, 1.0, a), 2.0)

    with pytest.raises(TextError, match="cannot be stored"):
        circuit.to_text()
    with pytest.raises(FileFormatError, match="cannot be"):
        circuit.save(tmp_path / "root.json")
