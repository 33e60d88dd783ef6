"""Traced circuits at other points: however one is run, it gives what the function gives or says which branch flips."""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.backends.run_listings import SANITIZER_FLAGS, load_listing_function, run_c, run_js
from wiregrad.backends.run_listings import RunnableListing as Listing
from wiregrad.codegen.listing import LISTING_FUNCTIONS
from wiregrad.errors import BranchError, InputError
from wiregrad.explorer.page_data import build_page_data
from wiregrad.frontends.recording.value import make_leaf

from ..api.test_compile import ADVERSARIES, ARRAYS
from ..support.branching import SPECIAL, Program, point, programs, random_program

ALL = [*programs(), *(Program(f"more branches {seed}", random_program(seed), 3) for seed in range(500, 620))]
FLIPPED = "flipped"


def huber(x: Any) -> Any:
    return 0.5 * x * x if abs(x) < 1.0 else abs(x) - 0.5


def printed(x: Any) -> Any:
    y = x * 2.0
    return y * len(f"{y:.1f}")


LINE = huber.__code__.co_firstlineno + 1
MESSAGE = rf"abs\(x\) < 1\.0 was True \(test_traced_branches\.py:{LINE}\); at x = 3\.0 it is False"


def itself(f: Callable[..., Any], args: tuple[float, ...]) -> float:
    """Return what the function gives on numbers that are quiet about 1/0, with nothing recorded."""
    with np.errstate(all="ignore"):
        found = f(*[make_leaf(x, constant=True) for x in args])
    return float(found._data if isinstance(found, wg.Value) else found)


def close(a: float, b: float, ulps: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= ulps * np.spacing(max(abs(a), abs(b)))


def answer(ask: Callable[[], Any]) -> Any:
    """Return what a question gives, `FLIPPED` where a branch does; its line must be named."""
    try:
        return ask()
    except BranchError as error:
        assert error.place is not None
        assert f"{error.place.without_folder()}" in str(error)
        return FLIPPED


# One way of running after the other.

RUNS: dict[str, Callable[[wg.Circuit, float], Any]] = {
    "a call": lambda c, x: c(x=x),
    "a call with a vector": lambda c, x: c([x]),
    "a call with a mapping": lambda c, x: c({"x": x}),
    "run": lambda c, x: c.run(x=x).output,
    "jvp": lambda c, x: c.jvp({"x": x}, {"x": 1.0})[0],
    "compile": lambda c, x: c.compile()(x=x),
    "compile, a list": lambda c, x: c.compile()([x]),
    "compile, an array": lambda c, x: c.compile()(np.array([x])),
    "compile, an array of float32": lambda c, x: c.compile()(np.array([x], np.float32)),
    "compile for float32": lambda c, x: c.compile("float32")(x=x),
    "value_and_grad": lambda c, x: c.compile().value_and_grad(x=x)[0],
    "value_and_grad of a list": lambda c, x: c.compile().value_and_grad([x])[0],
    "jacobian": lambda c, x: c.compile().jacobian(x=x) and huber(x),
    "hessian": lambda c, x: c.compile().hessian(x=x) and huber(x),
    "batch": lambda c, x: c.compile().batch([[0.25], [x]])[1],
    "batch_value_and_grad": lambda c, x: c.compile().batch_value_and_grad([[0.25], [x]])[0][1],
    "simplify": lambda c, x: c.simplify()(x=x),
    "split": lambda c, x: c.split()(x=x),
    "expand": lambda c, x: c.expand()(x=x),
    "with_convention": lambda c, x: c.with_convention("torch")(x=x),
    "with_output": lambda c, x: c.with_output(c.output)(x=x),
    "backward_circuit": lambda c, x: c.backward_circuit()(x=x) and huber(x),
    "backward_circuit, compiled": lambda c, x: c.backward_circuit().compile()(x=x) and huber(x),
    "second derivatives": lambda c, x: c.backward_circuit().backward_circuit()(x=x) and huber(x),
    "text": lambda c, x: wg.Circuit.from_text(c.to_text())(x=x),
    "JSON": lambda c, x: wg.Circuit.from_json(c.to_json())(x=x),
    "pickle": lambda c, x: pickle.loads(pickle.dumps(c))(x=x),
    "check_grads": lambda c, x: wg.check_grads(c, x=x) and huber(x),
}


@pytest.mark.parametrize("run", RUNS)
def test_a_flipped_branch_raises_with_its_line_and_condition(run: str) -> None:
    circuit = wg.trace(huber, 0.5)

    assert RUNS[run](circuit, 0.25) == huber(0.25)
    with pytest.raises(BranchError, match=MESSAGE):
        RUNS[run](circuit, 3.0)


def test_a_flipped_branch_is_found_without_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIREGRAD_NATIVE", "0")
    compiled = wg.trace(huber, 0.5).compile()

    assert compiled(x=0.25) == huber(0.25)
    assert compiled.batch([[0.25], [3.0]], check="mark").tolist()[0] == huber(0.25)
    assert compiled.holds([[0.25], [3.0]]).tolist() == [True, False]
    with pytest.raises(BranchError, match=MESSAGE):
        compiled.batch_value_and_grad([[0.25], [3.0]])


def test_files_keep_what_steered_python(tmp_path: Path) -> None:
    wg.trace(huber, 0.5).save(tmp_path / "huber.wg")
    circuit = wg.load(tmp_path / "huber.wg")

    assert circuit(x=0.25) == huber(0.25)
    with pytest.raises(BranchError, match=MESSAGE):
        circuit(x=3.0)


def test_an_error_of_a_branch_is_a_value_error_and_knows_its_line() -> None:
    circuit = wg.trace(huber, 0.5)
    with pytest.raises(ValueError, match="trace it there, use") as caught:
        circuit(x=3.0)

    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, BranchError)
    assert (str(again), again.place) == (str(caught.value), circuit.certificates[0].place)


# Opting out.


def test_check_false_gives_the_way_that_was_traced() -> None:
    circuit = wg.trace(huber, 0.5)

    assert circuit(x=3.0, check=False) == 4.5
    assert circuit.run(x=3.0, check=False).grads == {"x": 3.0}
    assert circuit.jvp({"x": 3.0}, {"x": 1.0}, check=False) == (4.5, 3.0)
    assert circuit.unchecked()(x=3.0) == 4.5
    assert circuit.compile(check=False)(x=3.0) == 4.5
    assert circuit.compile(check=False).batch([[3.0]]).tolist() == [4.5]
    assert circuit.compile().batch([[3.0]], check=False).tolist() == [4.5]
    assert circuit.compile().batch_value_and_grad([[3.0]], check=False)[1].tolist() == [[3.0]]


def test_a_circuit_that_nothing_steered_takes_the_option_too() -> None:
    circuit = wg.circuit("x * x")

    assert circuit(x=3.0, check=False) == circuit(x=3.0, check=True) == 9.0
    assert circuit.compile(check=False).batch([[3.0]], check=True).tolist() == [9.0]


def test_an_input_may_be_called_check() -> None:
    def f(check: Any) -> Any:
        return check * 2.0 if check > 0.0 else -check

    circuit = wg.trace(f, 1.0)

    assert circuit(check=3.0) == circuit.compile()(check=3.0) == 6.0
    assert circuit.unchecked()(check=-3.0) == -6.0
    with pytest.raises(BranchError, match=r"check > 0\.0 was True"):
        circuit(check=-3.0)
    with pytest.raises(InputError, match=r"use circuit\.unchecked\(\)"):
        circuit(check=False)


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c(x=0.5, check="no"),
        lambda c: c.compile(check="mark"),
        lambda c: c.compile().batch([[0.5]], check="skip"),
        lambda c: c.compile(check=False).batch([[0.5]], check="mark"),
    ],
)
def test_an_option_that_means_nothing_is_refused(ask: Callable[[wg.Circuit], Any]) -> None:
    with pytest.raises(InputError, match="check"):
        ask(wg.trace(huber, 0.5))


# Marking.


@pytest.mark.parametrize("dtype", [None, "float32"])
def test_a_batch_marks_the_points_where_a_branch_flips(dtype: str | None) -> None:
    compiled = wg.trace(huber, 0.5).compile(dtype)
    points = np.linspace(-3.0, 3.0, 1001)[:, None]
    inside = abs(points[:, 0]) < 1.0
    values, grads = compiled.batch_value_and_grad(points, check="mark")

    assert np.array_equal(np.isnan(values), ~inside)
    assert np.array_equal(np.isnan(grads[:, 0]), ~inside)
    assert np.array_equal(compiled.batch(points, check="mark"), values, equal_nan=True)
    assert np.array_equal(compiled.holds(points), inside)
    assert np.allclose(values[inside], 0.5 * points[inside, 0] ** 2, rtol=1e-6)


def test_a_batch_that_raises_says_at_which_point() -> None:
    with pytest.raises(BranchError, match=r"^at point 2: this circuit was traced where"):
        wg.trace(huber, 0.5).compile().batch([[0.5], [0.25], [3.0], [4.0]])


def test_conditions_cannot_be_marked() -> None:
    compiled = wg.trace(lambda x: x > 0.5 if x < 1.0 else x > 2.0, 0.25).compile()

    assert compiled.holds([[0.75], [1.5]]).tolist() == [True, False]
    with pytest.raises(InputError, match="holds"):
        compiled.batch([[0.75], [1.5]], check="mark")


# Numbers that left the recording.


def test_a_printed_number_makes_the_circuit_valid_at_that_number_only() -> None:
    circuit = wg.trace(printed, 0.5)
    line = printed.__code__.co_firstlineno + 2
    message = rf"x \* 2\.0 left the recording as 1\.0 \(test_traced_branches\.py:{line}\); at x = 3\.0 it is 6\.0"

    assert circuit(x=0.5) == circuit.compile()(x=0.5) == printed(0.5)
    assert circuit(x=3.0, check=False) == 18.0
    for ask in (circuit, circuit.compile()):
        with pytest.raises(BranchError, match=message):
            ask(x=3.0)


@pytest.mark.parametrize(
    ("f", "same"),
    [
        (lambda x: x * x.item(), 0.5),
        (lambda x: x * int(wg.stop_gradient(x * 4.0)), 0.7),
        (lambda x: x * math.floor(wg.stop_gradient(x)), 0.25),
        (lambda x: x * float(wg.stop_gradient(x)), 0.5),
        (lambda x: x if str(x) else -x, 0.5),
        (lambda x: x if x.data else -x, 0.5),
    ],
)
def test_a_number_that_left_must_be_the_same(f: Callable[[Any], Any], same: float) -> None:
    circuit = wg.trace(f, 0.5)
    expected = float(wg.Value(f(wg.Value(same))).data)

    assert circuit(x=same) == circuit.compile()(x=same) == expected
    for ask in (circuit, circuit.compile()):
        with pytest.raises(BranchError, match="valid at that number only"):
            ask(x=3.25)


@pytest.mark.parametrize("at", [0.0, -0.0, math.nan, math.inf, 1e-310, 0.1])
def test_the_point_of_the_trace_passes_whatever_left(at: float) -> None:
    def f(x: Any) -> Any:
        y = np.exp(np.sin(x)) - np.exp(np.sin(x) * 0.5)
        return y * len(f"{y} {x}")

    with np.errstate(all="ignore"):
        circuit = wg.trace(f, at)
        again = wg.Circuit.from_text(circuit.to_text())
        answers = [c(x=at) for c in (circuit, again, circuit.compile(), again.compile(), circuit.simplify())]
        batch = circuit.compile().batch([[at]])

    assert len({repr(x) for x in answers}) == 1 or np.ptp(answers) <= 1e-14
    assert close(batch[0], answers[0], 4)


def test_zeros_are_told_apart() -> None:
    circuit = wg.trace(lambda x: x + (1.0 if str(x).startswith("Value(-") else 2.0), 0.0)

    assert circuit(x=0.0) == circuit.compile()(x=0.0) == 2.0
    for ask in (circuit, circuit.compile(), lambda x: circuit.compile().batch([[x]])):
        with pytest.raises(BranchError, match=r"left the recording as 0\.0"):
            ask(x=-0.0)


def test_what_steers_unseen_makes_the_circuit_valid_at_its_inputs_only() -> None:
    def f(x: Any) -> Any:
        try:
            return np.linalg.inv(x).sum()
        except np.linalg.LinAlgError:
            return x.sum()

    circuit = wg.trace(f, np.ones((2, 2)))

    assert circuit(x=np.ones((2, 2))) == 4.0
    with pytest.raises(BranchError, match="x left the recording as"):
        circuit(x=np.eye(2))


# Arrays.


def test_conditions_on_arrays_are_checked() -> None:
    def f(x: Any) -> Any:
        return np.sum(x * x) if x[0] > 0.0 else np.max(x)

    circuit = wg.trace(f, np.array([1.0, 2.0]))
    down = np.array([-1.0, 2.0])

    assert circuit(x=np.array([3.0, 4.0])) == circuit.compile()(np.array([3.0, 4.0])) == 25.0
    assert circuit.expand()([3.0, 4.0]) == 25.0
    for ask in (lambda: circuit(x=down), lambda: circuit.compile()(down), lambda: circuit.expand()([-1.0, 2.0])):
        with pytest.raises(BranchError, match=r"> 0\.0"):
            ask()


def test_a_mask_is_checked_element_by_element() -> None:
    circuit = wg.trace(lambda x: np.sum(x * np.asarray(x > 0.0)), np.array([1.0, -2.0, 3.0]))
    other = [1.0, 2.0, 3.0]

    assert circuit(x=np.array([2.0, -5.0, 4.0])) == circuit.expand()([2.0, -5.0, 4.0]) == 6.0
    with pytest.raises(BranchError, match=r"\[True, False, True\]"):
        circuit(x=np.array(other))
    with pytest.raises(BranchError, match="was False"):
        circuit.expand()(other)


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_steer_answer_the_truth_or_raise(name: str) -> None:
    f, rng = ARRAYS[name], np.random.default_rng(len(name))
    first = np.round(rng.normal(size=4), 1)
    circuit, held = wg.trace(f, first), 0
    for x in [first, *np.round(rng.normal(size=(12, 4)), 1), *(first + rng.normal(size=(3, 4)) * 1e-3)]:
        got = answer(lambda x=x: circuit(x=x))
        held += got is not FLIPPED

        assert got is FLIPPED or got == pytest.approx(wg.Value(f(wg.Value(x))).data, rel=1e-14)
        assert got is not FLIPPED or x is not first
    assert held


@pytest.mark.parametrize("name", ADVERSARIES)
def test_adversaries_answer_the_truth_or_raise(name: str) -> None:
    f, count = ADVERSARIES[name]
    rng = np.random.default_rng(len(name))
    pool = [tuple(SPECIAL[k] for k in rng.integers(8, size=count).tolist()) for _ in range(8)]
    for first in pool:
        circuit = wg.trace(f, *first)
        ways = [circuit, circuit.compile()]
        for args in pool:
            got, fast = [answer(lambda way=way, args=args: way(list(args))) for way in ways]

            assert (got is FLIPPED) == (fast is FLIPPED)
            assert got is FLIPPED or close(got, itself(f, args), 0)
            assert got is FLIPPED or close(fast, got, 0)
            assert got is not FLIPPED or args is not first


def test_diff_tells_what_steered() -> None:
    circuit = wg.trace(huber, 0.5)

    assert not wg.diff(circuit, wg.trace(huber, 0.25))
    assert "only the first was traced where abs(x) < 1.0 was True" in str(wg.diff(circuit, circuit.unchecked()))


def test_the_page_says_that_a_branch_flips() -> None:
    circuit = wg.trace(huber, 0.5)
    place = f"test_traced_branches.py:{LINE}"

    assert "note" not in build_page_data(circuit, circuit.run(x=0.25))
    note = build_page_data(circuit, circuit.run(x=3.0, check=False))["note"]
    assert f"taken another branch at {place}: abs(x) < 1.0 was True" in note


def test_a_receipt_of_a_traced_circuit_compares_its_arithmetic() -> None:
    assert wg.trace(huber, 0.5).receipt(points=4).ok


# Random programs, run in every way.


def routes(circuit: wg.Circuit, folder: Path) -> Iterator[tuple[str, wg.Circuit]]:
    """Return a circuit in every form that computes the same."""
    circuit.save(folder / "c.wg")
    yield "itself", circuit
    yield "file", wg.load(folder / "c.wg")
    yield "text", wg.Circuit.from_text(circuit.to_text())
    yield "JSON", wg.Circuit.from_json(circuit.to_json())
    yield "simplify", circuit.simplify()
    yield "split", circuit.split()
    with suppress(wg.WiregradError):
        # Some ops cannot be written element by element.
        yield "expand", circuit.expand()
    yield "convention", circuit.with_convention("jax")


def answers_at(forms: dict[str, wg.Circuit], compiled: Any, args: tuple[float, ...]) -> dict[str, Any]:
    """Return what every way of running a circuit gives at a point."""
    circuit = forms["itself"]
    given = dict(zip(circuit.inputs, args, strict=True))
    found = {name: answer(lambda form=form: form(given)) for name, form in forms.items()}
    found["run"] = answer(lambda: circuit.run(given).output)
    found["compiled"] = answer(lambda: compiled(given))
    found["value_and_grad"] = answer(lambda: compiled.value_and_grad(list(args))[0])
    found["batch"] = answer(lambda: compiled.batch([args])[0])
    found["mark"] = compiled.batch([args, args], check="mark")[1] if compiled.holds([args])[0] else FLIPPED
    return found


def check_everywhere(program: Program, seed: int, count: int, folder: Path) -> int:
    """Trace a program at one point and run it at others; returns how often a branch flipped."""
    rng, flips = np.random.default_rng(seed), 0
    first = point(rng, program.count)
    with np.errstate(all="ignore"):
        circuit = wg.trace(program.f, *first)
    forms, compiled = dict(routes(circuit, folder)), circuit.compile()
    ulps = 0 if program.exact else 2000
    for args in [first, *(point(rng, program.count) for _ in range(count))]:
        found, wanted = answers_at(forms, compiled, args), itself(program.f, args)
        flipped = found["itself"] is FLIPPED
        flips += flipped

        assert args != first or not flipped, (program.name, args)
        for name, got in found.items():
            assert (got is FLIPPED) == flipped, (program.name, name, args)
            assert flipped or close(float(got), wanted, ulps), (program.name, name, args, got, wanted)
        assert not flipped or math.isnan(compiled.batch([args], check="mark")[0]), (program.name, args)
    return flips


@pytest.mark.parametrize("shard", range(4))
def test_branching_programs_answer_the_truth_or_raise(shard: int, tmp_path: Path) -> None:
    flips = sum(check_everywhere(ALL[k], k, 3, tmp_path) for k in range(shard, len(ALL), 32))

    assert flips


@pytest.mark.full
@pytest.mark.parametrize("shard", range(20))
def test_every_branching_program_answers_the_truth_or_raises(shard: int, tmp_path: Path) -> None:
    assert len(ALL) >= 300

    flips = sum(check_everywhere(ALL[k], 1000 + k, 12, tmp_path) for k in range(shard, len(ALL), 20))

    assert flips


# Exported code.

LANGUAGES = ("python", "numpy", "js", "c", "cuda")


@pytest.mark.parametrize("function", LISTING_FUNCTIONS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_listing_says_in_its_head_which_branches_it_holds(language: str, function: str) -> None:
    circuit = wg.trace(huber, 0.5)
    text = getattr(circuit, f"to_{language}")(function)
    head = "\n".join(text.splitlines()[:8])

    assert f"1: abs(x) < 1.0 was True (test_traced_branches.py:{LINE})" in head
    assert "take another branch" in head


@pytest.mark.parametrize("function", LISTING_FUNCTIONS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_check_false_leaves_the_guard_out(language: str, function: str) -> None:
    circuit = wg.trace(huber, 0.5)
    write = f"to_{language}"

    assert getattr(circuit, write)(function, check=False) == getattr(circuit.unchecked(), write)(function)
    assert "take another branch" not in getattr(circuit, write)(function, check=False)


@pytest.mark.parametrize("function", LISTING_FUNCTIONS)
@pytest.mark.parametrize("language", ["python", "numpy"])
def test_python_and_numpy_raise_where_a_branch_flips(language: str, function: str) -> None:
    circuit = wg.trace(huber, 0.5)
    call = load_listing_function(Listing(getattr(circuit, f"to_{language}")(function), function, ("x",)))
    plain = load_listing_function(Listing(getattr(circuit, f"to_{language}")(function, check=False), function, ("x",)))

    assert repr(call(0.25)) == repr(plain(0.25))
    with pytest.raises(ValueError, match=rf"abs\(x\) < 1\.0 was True \(test_traced_branches\.py:{LINE}\)"):
        call(3.0)


def test_numpy_raises_if_any_point_of_a_batch_flips() -> None:
    call = load_listing_function(Listing(wg.trace(huber, 0.5).to_numpy("value"), "value", ("x",)))

    assert call(np.array([0.25, 0.5])).tolist() == [0.03125, 0.125]
    with pytest.raises(ValueError, match="take another branch"):
        call(np.array([0.25, 3.0]))


def test_c_gives_nan_and_the_number_of_the_branch() -> None:
    circuit = wg.trace(huber, 0.5)
    text = circuit.to_c("hessian")
    found = run_c([Listing(text, "hessian", ("x",), function="hessian")], [[[0.25], [3.0]]], flags=SANITIZER_FLAGS)[0]

    assert found[0].tolist() == [0.03125, 0.25, 1.0]
    assert np.isnan(found[1]).all()
    assert "int hessian_branch(const double *x);" in circuit.to_c("hessian", header=True)


def test_javascript_throws_the_line_and_condition() -> None:
    text = wg.trace(huber, 0.5).to_js("value")
    listing = Listing(text, "value", ("x",), function="value")

    assert run_js([listing], [[[0.25]]])[0].tolist() == [[0.03125]]
    with pytest.raises(wg.WiregradError, match=rf"abs\(x\) < 1\.0 was True \(test_traced_branches\.py:{LINE}\)"):
        run_js([listing], [[[3.0]]])


def test_arrays_are_guarded_in_numpy_and_c() -> None:
    def f(x: Any) -> Any:
        total = np.sum(x * np.asarray(x > 0.0) * np.array([1.0, 2.0, 3.0]))
        return total if np.max(x * np.array([3.0, 2.0, 1.0])) < 9.0 else -total

    circuit = wg.trace(f, np.array([1.0, -2.0, 3.0]))
    points = np.array([[2.0, -5.0, 4.0], [2.0, 5.0, 4.0], [4.0, -1.0, 2.0]])
    call = load_listing_function(Listing(circuit.to_numpy("value"), "value", ("x",)))
    text = circuit.to_c("value_and_grad")
    program = Listing(text, "value_and_grad", ("x",), sizes=(3,))
    found = run_c([program], [points], flags=SANITIZER_FLAGS)[0]

    assert call(points[0]) == found[0][0] == 14.0
    assert found[0][1:].tolist() == [1.0, 0.0, 3.0]
    assert np.isnan(found[1:]).all()
    for point_ in points[1:]:
        with pytest.raises(ValueError, match="take another branch"):
            call(point_)


def test_a_guard_that_a_language_cannot_write_says_how_to_leave_it_out() -> None:
    circuit = wg.trace(
        lambda x: x[0] if np.linalg.eigvalsh(x[1:].reshape(2, 2))[0] > 0.0 else -x[0], np.arange(1.0, 6.0) ** 2
    )

    assert isinstance(circuit.to_numpy(), str)
    with pytest.raises(wg.WiregradError, match="check=False leaves the guard out"):
        circuit.to_c()


def in_python(circuit: wg.Circuit, language: str, points: list[tuple[float, ...]]) -> list[Any]:
    """Return what a listing gives at each point, `FLIPPED` where it raises for a branch."""
    call = load_listing_function(Listing(getattr(circuit, f"to_{language}")("value"), "value", circuit.inputs))
    found: list[Any] = []
    for args in points:
        try:
            found.append(float(call(*args)))
        except ValueError as error:
            assert "take another branch than when it was traced, where" in str(error)
            found.append(FLIPPED)
    return found


def in_c(number: int, circuit: wg.Circuit) -> Listing:
    """Return a program whose results are the value and the number of the branch that flips."""
    name = f"f{number}"
    text = circuit.to_c("value", name=name)
    branch = f"{name}_branch(x)" if f"int {name}_branch" in text else "0"
    both = f"void both{number}(const double *x, double *y) {{ y[0] = {name}(x); y[1] = {branch}; }}"
    text = f"{text}\nvoid both{number}(const double *x, double *y);\n{both}\n"
    return Listing(text, f"both{number}", circuit.inputs, ("y", "branch"), "value")


def in_js(circuit: wg.Circuit) -> Listing:
    """Return a program whose results are the value and the number of the branch that flips."""
    text = circuit.to_js("value")
    branch = "valueBranch(x)" if "function valueBranch" in text else "0"
    body = f"const branch = {branch}; return {{ y: branch ? NaN : value(x), branch }};"
    text = f"{text}\nexport function both(x) {{ {body} }}\n"
    return Listing(text, "both", circuit.inputs, ("y", "branch"), "value")


def is_written(circuit: wg.Circuit) -> bool:
    """Return whether languages of floats can write a circuit; whole numbers and no_grad are refused with an error."""
    try:
        return bool(circuit.to_python("value") and circuit.to_js("value") and circuit.to_c("value"))
    except wg.WiregradError as error:
        assert re.search("int64|stop_gradient", str(error))
        return False


def check_exports(numbers: Sequence[int], seed: int, count: int) -> int:
    """Compare listings of traced programs with the programs themselves; returns how often a branch flipped."""
    rng = np.random.default_rng(seed)
    tried: list[tuple[Program, wg.Circuit, list[tuple[float, ...]]]] = []
    for number in numbers:
        points = [point(rng, ALL[number].count) for _ in range(count)]
        with np.errstate(all="ignore"):
            circuit = wg.trace(ALL[number].f, *points[0])
        if is_written(circuit):
            tried.append((ALL[number], circuit, points))
    assert len(tried) > 0.9 * len(numbers)
    tables = [np.array(points) for _, _, points in tried]
    compiled = run_c([in_c(k, circuit) for k, (_, circuit, _) in enumerate(tried)], tables, flags=SANITIZER_FLAGS)
    scripts = run_js([in_js(circuit) for _, circuit, _ in tried], tables)
    flips = 0
    for (program, circuit, points), c, js in zip(tried, compiled, scripts, strict=True):
        answers = {language: in_python(circuit, language, points) for language in ("python", "numpy")}
        answers |= {"c": [FLIPPED if flip else y for y, flip in c.tolist()]}
        answers |= {"js": [FLIPPED if flip else y for y, flip in js.tolist()]}
        assert all(math.isnan(y) for y, flip in c.tolist() if flip)
        for k, args in enumerate(points):
            wanted = itself(program.f, args)
            held = answer(lambda circuit=circuit, args=args: circuit(list(args))) is not FLIPPED
            for language, found in answers.items():
                got, where = found[k], (program.name, language, args)
                flips += got is FLIPPED
                assert not program.exact or (got is FLIPPED) != held, where
                assert got is FLIPPED or close(got, wanted, 0 if program.exact else 2000), (*where, got, wanted)
    return flips


def test_listings_of_branching_programs_answer_the_truth_or_say_so() -> None:
    assert check_exports(range(0, len(ALL), 20), 1, 4)


@pytest.mark.full
@pytest.mark.parametrize("shard", range(8))
def test_listings_of_every_branching_program_answer_the_truth_or_say_so(shard: int) -> None:
    assert check_exports(range(shard, len(ALL), 8), 2 + shard, 12)
