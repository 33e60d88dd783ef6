"""Small matrices that LAPACK solves, inverts and factors inside native code: the bits and the errors of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.backends import interpreter
from wiregrad.backends.native_arrays import array_program, lowering, stream_kernels
from wiregrad.backends.native_arrays.array_program import ArrayProgram, GradientProgram
from wiregrad.backends.native_arrays.stream_kernels import LAPACK_FAILURES, LAPACK_ROUTINES, MAX_LAPACK_ELEMENTS
from wiregrad.dtypes import WireType
from wiregrad.errors import SingularError
from wiregrad.ir import TABLE, CircuitGraph, GraphBuilder

from ..support.compare import ARRAY_LAYOUTS, copy_in_layout
from ..support.sampling import sample_some
from ..support.threads import run_in_threads

CASES: list[tuple[str, dict[str, Any]]] = [
    ("solve", {"strict": True}),
    ("solve", {"strict": False}),
    ("solve_triangular", {"lower": True}),
    ("solve_triangular", {"lower": False}),
    ("inv", {"strict": True}),
    ("inv", {"strict": False}),
    ("cholesky", {"upper": False}),
    ("cholesky", {"upper": True}),
    ("slogdet", {}),
    ("det", {}),
]
"""The ops that LAPACK computes, with their settings."""
ERRORS = {"solve": 1, "solve_triangular": 1, "inv": 1, "cholesky": 2}
"""The number of the error that an op raises."""


def draw_matrices(name: str, lead: tuple[int, ...], n: int, columns: int, dtype: Any, seed: int = 0) -> list[Any]:
    """Return operands for an op."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(*lead, n, n)) + 2.0 * np.eye(n)
    if name == "cholesky":
        a = a @ np.swapaxes(a, -1, -2) + np.eye(n)
    b = rng.normal(size=(*lead, n, columns))
    return [x.astype(dtype) for x in ((a, b) if len(TABLE[name].inputs) == 2 else (a,))]


def build_circuit(name: str, settings: dict[str, Any], arrays: list[Any]) -> CircuitGraph:
    """Return the circuit of one op."""
    builder = GraphBuilder(finite=False)
    ports = [builder.input(f"x{k}", WireType(x.dtype, x.shape)) for k, x in enumerate(arrays)]
    op = TABLE[name]
    return builder.build(builder.apply(op.bind(settings) if settings else op, *ports))


def assert_bits_of_numpy(circuit: CircuitGraph, arrays: list[Any]) -> ArrayProgram:
    """Run a circuit natively, with fences, and compare every bit with the interpreter."""
    with np.errstate(all="ignore"):
        wanted = interpreter.evaluate_outputs(circuit, arrays, check=False).values()
    program = ArrayProgram(circuit, fenced=True)

    assert not program.facts.interpreted
    for found, value in zip(program.run(arrays), wanted, strict=True):
        assert np.asarray(found).dtype == np.asarray(value).dtype
        np.testing.assert_array_equal(found, value)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(value))
    return program


def test_every_routine_is_tested() -> None:
    # NumPy has no function for the matrix of cofactors.
    assert {name for name, _ in CASES} == set(LAPACK_ROUTINES) - {"adjugate"}
    assert set(ERRORS) == {name for name in LAPACK_ROUTINES if TABLE[name].may_raise}
    assert set(ERRORS.values()) == set(LAPACK_FAILURES)


@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("lead", [(), (3,)], ids=str)
@pytest.mark.parametrize("n", sample_some([2, 1, 3, 4, 5, 8, 13, 31, 45], 4))
def test_results_have_the_bits_of_numpy(
    n: int, lead: tuple[int, ...], dtype: Any, name: str, settings: dict[str, Any]
) -> None:
    arrays = draw_matrices(name, lead, n, 3, dtype)
    assert_bits_of_numpy(build_circuit(name, settings, arrays), arrays)


@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
@pytest.mark.parametrize("layout", ARRAY_LAYOUTS)
def test_arguments_of_any_layout_have_the_same_result(layout: str, name: str, settings: dict[str, Any]) -> None:
    arrays = draw_matrices(name, (), 4, 2, np.float64)
    program = ArrayProgram(build_circuit(name, settings, arrays), fenced=True)
    (wanted,) = program.run(arrays)
    (found,) = program.run([copy_in_layout(x, layout) for x in arrays])

    np.testing.assert_array_equal(found, wanted)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda x: np.swapaxes(x, -1, -2),
    "reversed": lambda x: x[..., ::-1, :],
    "every second": lambda x: np.concatenate([x, x + 1.0], -1)[..., ::2],
    "one row for all": lambda x: x + np.zeros_like(x[..., :1, :]),
    "computed": lambda x: np.tanh(x) * 2.0,
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("lead", [(), (2,)], ids=str)
def test_views_inside_a_circuit_are_read_as_they_lie(lead: tuple[int, ...], view: str) -> None:
    a, b = draw_matrices("solve", lead, 4, 4, np.float64)
    turn = VIEWS[view]

    def compute(a: Any, b: Any) -> Any:
        x = np.linalg.solve(turn(a) + 3.0 * np.eye(4), turn(b))
        return turn(x), np.linalg.inv(turn(x) + 9.0 * np.eye(4)), np.linalg.slogdet(turn(a))[1]

    circuit = wg.trace(compute, a, b)
    program = ArrayProgram(circuit, fenced=True)

    assert not program.facts.interpreted
    for found, wanted in zip(program.run([a, b]), compute(a, b), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)


SPOILED = {
    "nan": lambda a: np.where(np.eye(len(a)) > 0, np.nan, a),
    "inf": lambda a: np.where(np.arange(len(a)) == 1, np.inf, a),
    "zeros": np.zeros_like,
    "ones": np.ones_like,
    "a row of zeros": lambda a: a * (np.arange(len(a)) != 1)[:, None],
    "negative": lambda a: -a,
}
"""Matrices that are not finite, singular, or not positive definite."""


@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
@pytest.mark.parametrize("spoil", SPOILED)
@pytest.mark.parametrize("is_stack", [False, True])
def test_matrices_without_a_result_are_answered_as_by_numpy(
    is_stack: bool, spoil: str, name: str, settings: dict[str, Any]
) -> None:
    arrays = draw_matrices(name, (), 3, 2, np.float64)
    spoiled = [SPOILED[spoil](arrays[0]), *arrays[1:]]
    if is_stack:
        spoiled = [np.stack([good, bad, good]) for good, bad in zip(arrays, spoiled, strict=True)]
    circuit = build_circuit(name, settings, spoiled)
    try:
        with np.errstate(all="ignore"):
            interpreter.evaluate_outputs(circuit, spoiled, check=False)
    except np.linalg.LinAlgError as error:
        program = ArrayProgram(circuit, fenced=True)
        good = [np.stack([x] * 3) for x in arrays] if is_stack else arrays

        assert LAPACK_FAILURES[ERRORS[name]] in str(error)
        for _ in range(2):
            with pytest.raises(np.linalg.LinAlgError, match=LAPACK_FAILURES[ERRORS[name]]):
                program.run(spoiled)
            assert np.isfinite(program.run(good)[0]).all()
    else:
        assert_bits_of_numpy(circuit, spoiled)


def filter_track(noise: Any, track: Any) -> Any:
    """Return a likelihood with two solutions and a determinant in each round, as in a Kalman filter."""
    mean, covariance = np.zeros(2), np.eye(2)
    motion = np.array([[1.0, 0.1], [0.0, 0.9]])
    total = 0.0
    for measured in track:
        mean = motion @ mean
        covariance = motion @ covariance @ motion.T + noise[0] * np.eye(2)
        spread = covariance + noise[1] * np.eye(2)
        gain = np.linalg.solve(spread, covariance).T
        mean = mean + gain @ (measured - mean)
        covariance = covariance - gain @ spread @ gain.T
        total = total + np.linalg.slogdet(spread)[1] + mean @ np.linalg.solve(spread, mean)
    return total


@pytest.fixture
def find_short_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let loops of a few rounds count, and no array be expanded to numbers."""
    monkeypatch.setattr(lowering, "MIN_LOOP_NODES", 40)
    monkeypatch.setattr(lowering, "MIN_ROUND_NODES", 1)
    monkeypatch.setattr(array_program, "MAX_EXPANDED_ELEMENTS", 0)


@pytest.mark.usefixtures("find_short_loops")
@pytest.mark.parametrize("fenced", [True, False])
def test_rounds_of_a_loop_call_lapack(fenced: bool) -> None:
    noise, track = np.array([0.3, 0.2]), np.random.default_rng(0).normal(size=(30, 2))
    circuit = wg.trace(filter_track, noise, track)
    program = GradientProgram(circuit, fenced=fenced)
    value, grads, _ = program.run([noise, track])
    wanted = interpreter.run_circuit(circuit, [noise, track], check=False)

    assert isinstance(program.program, ArrayProgram)
    assert not program.program.facts.interpreted
    assert any(isinstance(step, lowering.RepeatedSteps) for step in program.program._steps)
    np.testing.assert_allclose(value, wanted.output, rtol=1e-12)
    for found, node in zip(grads, circuit.input_indices(), strict=True):
        np.testing.assert_allclose(found, wanted.gradient(node), rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("find_short_loops")
def test_an_error_in_one_round_is_raised() -> None:
    def compute(x: Any) -> Any:
        total = 0.0
        for k in range(30):
            total = total + np.sum(np.linalg.solve(np.diag(x - k), x))
        return total

    x = np.array([40.5, 41.5])
    program = ArrayProgram(wg.trace(compute, x))

    assert any(isinstance(step, lowering.RepeatedSteps) for step in program._steps)
    assert program.run([x])[0] == pytest.approx(compute(x), rel=1e-13)
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        program.run([np.array([7.0, 0.5])])
    assert program.run([x])[0] == pytest.approx(compute(x), rel=1e-13)


def measure_spread(a: Any, b: Any) -> Any:
    return np.sum(np.linalg.solve(a, b) * np.exp(b)) + np.linalg.slogdet(a)[1]


def test_a_compiled_function_names_the_line_of_a_singular_matrix() -> None:
    fast = wg.compile(measure_spread, argnums=(0, 1))
    a, b = draw_matrices("solve", (), 3, 1, np.float64)
    b = b[:, 0]
    for _ in range(3):
        value, grads = fast.value_and_grad(a, b)
        wanted, slopes = wg.value_and_grad(measure_spread, argnums=(0, 1))(a, b)

        assert value == pytest.approx(wanted, rel=1e-13)
        for found, slope in zip(grads, slopes, strict=True):
            np.testing.assert_allclose(found, slope, rtol=1e-12, atol=1e-13)
        with pytest.raises(SingularError, match=r"Singular matrix(.|\n)*test_lapack\.py:\d+"):
            fast.value_and_grad(np.ones((3, 3)), b)


def test_a_compiled_circuit_raises_the_error_of_numpy() -> None:
    a, b = draw_matrices("solve", (), 3, 2, np.float64)
    fast = wg.trace(lambda a, b: np.sum(np.linalg.solve(a, b)), a, b).compile()

    assert not fast.info.interpreted
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        fast(np.ones((3, 3)), b)
    assert fast(a, b) == pytest.approx(np.linalg.solve(a, b).sum(), rel=1e-14)


def test_the_builtin_of_a_program_leaves_errors_to_python() -> None:
    a, b = draw_matrices("solve", (), 3, 2, np.float64)
    replay = ArrayProgram(wg.trace(np.linalg.solve, a, b)).make_replay()

    for _ in range(2):
        np.testing.assert_array_equal(replay(a, b)[0], np.linalg.solve(a, b))
        assert replay(np.ones((3, 3)), b) == 0


def test_calls_on_small_matrices_are_answered_by_a_builtin() -> None:
    """Python, which reads small arrays as numbers first, would take ten times as long."""
    fast = wg.compile(lambda a: np.sum(np.linalg.inv(a)))
    a = draw_matrices("inv", (), 3, 1, np.float64)[0]
    for _ in range(6):
        fast(a)
        fast.value_and_grad(a)

    assert {gradient for gradient, _ in fast._cache.array_calls} == {True, False}
    assert fast(a) == pytest.approx(np.linalg.inv(a).sum(), rel=1e-14)
    np.testing.assert_allclose(fast.value_and_grad(a)[1], wg.grad(lambda a: np.sum(np.linalg.inv(a)))(a), rtol=1e-13)
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        fast(np.zeros((3, 3)))
    with pytest.raises(SingularError, match="Singular matrix"):
        fast.value_and_grad(np.zeros((3, 3)))


def test_several_threads_have_their_own_errors() -> None:
    a, b = draw_matrices("solve", (), 3, 2, np.float64)
    fast = wg.trace(lambda a, b: np.sum(np.linalg.solve(a, b)), a, b).compile()
    wanted = fast(a, b)

    found: dict[int, set[Any]] = {k: set() for k in range(4)}

    def call(number: int) -> None:
        for _ in range(200):
            try:
                found[number].add(fast(np.ones((3, 3)) if number % 2 else a, b))
            except np.linalg.LinAlgError as error:
                found[number].add(str(error))

    run_in_threads(call, range(4))

    assert found == {0: {wanted}, 1: {"Singular matrix"}, 2: {wanted}, 3: {"Singular matrix"}}


def test_programs_of_several_threads_call_lapack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_program, "MIN_SHARED_WORK", 1)
    monkeypatch.setenv("WIREGRAD_THREADS", "2")

    def compute(a: Any, b: Any) -> Any:
        x = np.tanh(a @ a) * np.exp(b[:, :1])
        y = np.linalg.solve(x[:5, :5] + 9.0 * np.eye(5), x[:5, :7])
        return np.sum(x @ x.T) + np.sum(y * y) + np.linalg.slogdet(x[5:9, 5:9] + 9.0 * np.eye(4))[1]

    a, b = np.random.default_rng(0).normal(size=(300, 300)) / 20.0, np.ones((300, 300))
    circuit = wg.trace(compute, a, b)
    program = GradientProgram(circuit)
    wanted = interpreter.run_circuit(circuit, [a, b], check=False)

    assert isinstance(program.program, ArrayProgram)
    assert program.program.is_shared
    for _ in range(3):
        value, grads, _ = program.run([a, b])

        assert value == pytest.approx(wanted.output, rel=1e-13)
        np.testing.assert_allclose(grads[0], wanted.gradient(0), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize(
    ("shapes", "is_native"),
    [
        ([(45, 45), (45, 45)], True),
        ([(46, 46), (46, 1)], False),
        ([(2, 2), (2, MAX_LAPACK_ELEMENTS)], False),
        ([(2, 3, 3, 3), (2, 3, 3, 1)], False),
        ([(0, 3, 3), (0, 3, 1)], False),
        ([(3, 3), (3, 0)], False),
    ],
    ids=str,
)
def test_sizes_decide_what_is_native(shapes: list[tuple[int, ...]], is_native: bool) -> None:
    a, b = (np.random.default_rng(k).normal(size=shape) for k, shape in enumerate(shapes))
    circuit = build_circuit("solve", {"strict": True}, [a, b])
    program = ArrayProgram(circuit)

    assert (program.facts.interpreted == ()) == is_native
    np.testing.assert_array_equal(program.run([a, b])[0], np.linalg.solve(a, b))


def test_operands_of_two_dtypes_are_left_to_numpy() -> None:
    a, b = draw_matrices("solve", (), 3, 2, np.float64)
    circuit = build_circuit("solve", {"strict": True}, [a, b.astype(np.float32)])
    program = ArrayProgram(circuit)

    assert program.facts.interpreted == (("solve", 1),)
    np.testing.assert_array_equal(program.run([a, b.astype(np.float32)])[0], np.linalg.solve(a, b.astype(np.float32)))


def test_without_the_library_of_numpy_the_interpreter_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "find_lapack", lambda name: 0)
    a, b = draw_matrices("solve", (), 3, 2, np.float64)
    program = ArrayProgram(build_circuit("solve", {"strict": True}, [a, b]))

    assert program.facts.interpreted == (("solve", 1),)
    np.testing.assert_array_equal(program.run([a, b])[0], np.linalg.solve(a, b))


def test_a_routine_that_the_library_lacks_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_kernels, "_find_blas_function", lambda name: None)
    stream_kernels.find_lapack.cache_clear()
    try:
        assert stream_kernels.find_lapack("inv") == 0
    finally:
        stream_kernels.find_lapack.cache_clear()


MATRICES: dict[str, Callable[[Any], Any]] = {
    "any": lambda a: a,
    "singular": lambda a: np.concatenate([a[..., :-1], a[..., :1] + 0.0 * a[..., -1:]], -1),
    "of low rank": lambda a: a[..., :1] * a[..., :1, :],
    "zero": np.zeros_like,
    "upside down": lambda a: a[..., ::-1, :] * np.where(np.eye(a.shape[-1]) > 0.0, 0.0, 1.0)[::-1],
    "not finite": lambda a: np.where(np.eye(a.shape[-1]) > 0.0, np.nan, a),
}


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("lead", [(), (3,)], ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_cofactors_are_those_of_the_interpreter(n: int, lead: tuple[int, ...], dtype: Any, kind: str) -> None:
    """The interpreter has them from singular values, native code from the minors; both round differently."""
    (a,) = draw_matrices("inv", lead, n, 1, np.float64)
    x = MATRICES[kind](a).astype(dtype)
    program = ArrayProgram(build_circuit("adjugate", {}, [x]), fenced=True)
    (found,) = program.run([x])
    wanted = TABLE["adjugate"].forward(x)
    largest = max(1.0, np.max(np.abs(a))) ** (n - 1)

    assert not program.facts.interpreted
    assert found.dtype == dtype
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=200.0 * np.finfo(dtype).eps * largest)


def test_large_matrices_leave_their_cofactors_to_numpy() -> None:
    (x,) = draw_matrices("inv", (), 9, 1, np.float64)
    program = ArrayProgram(wg.trace(lambda x: wg.grad(np.linalg.det)(x) * 2.0, x), fenced=True)

    assert [name for name, _ in program.facts.interpreted] == ["adjugate"]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_gradient_of_a_determinant_is_compiled(n: int) -> None:
    (x,) = draw_matrices("inv", (), n, 1, np.float64)
    fast = wg.compile(lambda x: np.linalg.det(x @ x) + np.sum(x))
    value, slope = fast.value_and_grad(x)
    wanted = wg.value_and_grad(lambda x: np.linalg.det(x @ x) + np.sum(x))(x)

    assert not fast.info.variants[0].reason
    np.testing.assert_allclose(value, wanted[0], rtol=1e-12)
    np.testing.assert_allclose(slope, wanted[1], rtol=1e-11, atol=1e-12)
