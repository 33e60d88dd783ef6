"""Native code held against the interpreter: every op alone, structural zeros, random circuits, tiers and batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_equal

import wiregrad as wg
from wiregrad.api import Builder, Circuit
from wiregrad.backends.native import tiers, vector_math
from wiregrad.backends.native.batch import MAX_KERNEL_STEPS, MIN_TILES_PER_THREAD
from wiregrad.backends.native.step_kinds import ADD_GRADIENT, MERGE_GRADIENT, STORE_GRADIENT, BackwardStep
from wiregrad.backends.native.tiers import build_program
from wiregrad.backends.run_listings import RunnableListing, run_c
from wiregrad.codegen import write_listing
from wiregrad.dtypes import BOOL, FLOAT
from wiregrad.errors import NotNativeError, WiregradError
from wiregrad.inspect.receipt import MAX_OP_ULPS, OpUse, ReceiptPoint, ulp_distances
from wiregrad.ir import TABLE
from wiregrad.passes import gradient_circuit

from ..support.cases import (
    FLOAT32,
    SHAKEN,
    Case,
    case_of,
    narrow,
    random_case,
    second_order,
    several_outputs,
    uses_alone,
    verdicts,
    with_outputs,
)
from ..support.native import (
    ALL_RUNNERS,
    RUNNERS,
    Runner,
    at_points,
    by_batch,
    by_stencils,
    in_batches,
    in_columns,
    same_bits,
    vectors,
)
from ..support.random_circuits import shrink_circuit
from ..support.sampling import choose_count, sample_pairs

COUNT, SAMPLE = 10_000, 20
SPECIAL = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 6.0, 1.0 + 2**-52, 1e5, -1e17, 90.0, 700.0, -745.0),
    *(5e-324, -1e-310, 1e-300, 1e-45, 1e-20, 3e38, -1e300, 1.7e308, np.inf, -np.inf, np.nan),
)
"""Zeros of both signs, ties, subnormal and huge numbers of both types, and what is no number."""

SLOPES = {"cbrt": "1 over a square doubles what the square is off"}
"""Ops whose slopes may be further off than the rest, beside those that say so in their records, and why."""
VALUES = {
    ("logaddexp", "float32"): "where the sum cancels, with vector functions that are a few units off",
    ("logaddexp2", "float32"): "as logaddexp",
}
"""Ops whose values may be further off in batches, as far as a rounding estimate explains, and why."""
ZEROS = {
    ("fmax", "float32"): "of two zeros NumPy takes the second in float32 and the first in float64; C takes the first",
    ("fmin", "float32"): "as fmax",
}
"""Ops whose value may be the other zero, and why."""
NOT_NATIVE = {
    ("leaky_relu", "float32"): "beside a condition for a slope its gradient is computed in float64 and cast",
    ("copysign", "float32"): "as leaky_relu",
}
"""Uses of ops that native code leaves to the interpreter, and why."""


@cache
def alone(real: str, every: int, thin: int) -> list[tuple[OpUse, Circuit, Any, Any]]:
    """Return uses of ops, one in `thin`, with one in `every` of their points and what the interpreter gives there."""
    dtype, found = np.dtype(real).type, []
    for k, (use, case) in enumerate(uses_alone()[::thin]):
        circuit = case.circuit if real == "float64" else narrow(case.circuit)
        width = len(circuit.inputs)
        grid = list(product(SPECIAL, repeat=width)) if width < 3 else []
        with np.errstate(all="ignore"):
            table = np.array([*(point.inputs for point in case.points), *grid])[k % every :: every].astype(dtype)
        wanted = [[dtype(x) for x in ReceiptPoint(circuit, list(row)).reference_results] for row in table]
        found.append((use, circuit, table, np.array(wanted)))
    return found


def off(found: Any, wanted: Any) -> Any:
    """Return where results are further apart than an op may be, or zeros of different signs."""
    zeros = (found == 0) & (wanted == 0) & (np.signbit(found) != np.signbit(wanted))
    return (ulp_distances(found, wanted) > MAX_OP_ULPS) | zeros


@pytest.mark.parametrize("way", ["stencils", "batch", "kernels"])
@pytest.mark.parametrize(
    ("real", "every", "thin"),
    [
        ("float64", 61, 20),
        ("float32", 61, 30),
        pytest.param("float64", 1, 1, marks=pytest.mark.full),
        pytest.param("float32", 1, 1, marks=pytest.mark.full),
    ],
)
def test_every_op_alone_is_within_four_ulps_of_the_interpreter(way: str, real: str, every: int, thin: int) -> None:
    excused = VALUES if way == "batch" else {}
    far, slopes, zeros, refused = [], set[str](), set[tuple[str, str]](), set[tuple[str, str]]()
    for use, circuit, table, wanted in alone(real, every, thin):
        try:
            rows = ALL_RUNNERS[way](circuit, table, 0)
        except NotNativeError:
            refused.add((use.op.name, real))
            continue
        for i, result in np.argwhere(off(rows, wanted)).tolist():
            if rows[i, result] == wanted[i, result]:
                zeros.add((use.op.name, real))
            elif (result or (use.op.name, real) in excused) and ReceiptPoint(circuit, list(table[i])).judge_result(
                result, rows[i, result]
            ).fits:
                # A slope that cancels is as far from the exact one in the interpreter; most values have no such excuse.
                slopes |= {use.op.name} if result else set()
            else:
                far.append((use.text, table[i].tolist(), result, rows[i, result], wanted[i, result]))

    assert len(alone(real, every, thin)) > 400 // thin
    assert far == []
    assert zeros <= ZEROS.keys()
    assert refused <= NOT_NATIVE.keys()
    assert {name for name in slopes if TABLE[name].ulps <= MAX_OP_ULPS} <= SLOPES.keys()  # type: ignore[attr-defined]


STRUCTURAL = [
    "where(x > 0, sqrt(x), 0)",
    "where(x > 0, sqrt(x), 0) * y",
    "where(x > 0, log(x), y) + where(y > 0, x / y, 0)",
    "relu(relu(relu(x) - 1) - y)",
    "maximum(x, y) * minimum(x, y) + x",
    "x + where(y > 0, x, y)",
    "where(y > 0, x, y) + x",
    "where(y > 0, x, 0) + where(x > 0, x * y, y) * relu(y)",
    "relu(x * x) + relu(x + x)",
    "a = where(x > y, x, y); where(a > 0, sqrt(a) * a, a) + where(a < 0, log(-a), 0)",
    "a = relu(x); where(y > 0, a / x, 0) + where(x > y, a, 1 / a)",
    "a = where(x > 0, y, 1); b = where(y > 0, a * a, x); maximum(b, a) + b",
    "a = x * y; where(x > 0, 1 / a, 0) + where(y > 0, a, 1)",
    "a = x * y; b = where(x > 0, a, 1); b * b + a",
    "clip(x, -1, 1) / y + clip(y, x, 2)",
    "where(y > 0, x * y, 0) + x + y",
    "where(y > 0, relu(x), 0) + x",
]


def ways_of(circuit: Circuit) -> set[tuple[bool, int, bool]]:
    """Return how gradients meet: whether what arrives may be absent, how it is met, and whether the op masks it."""
    found = set[tuple[bool, int, bool]]()
    for key, _ in build_program(circuit, 0).stream.list_steps():
        if isinstance(key, BackwardStep):
            moving = sum(1 << slot for slot, way in enumerate(key.ways) if way)
            masks = {one.slot: one.mask is not None for one in key.kind.backward_rule(moving).sent}
            found |= {(key.masked, way, masks[slot]) for slot, way in enumerate(key.ways) if way}
    return found


def special_points(circuit: Circuit) -> list[list[Any]]:
    grid = product((-2.0, -0.0, 0.0, 0.5, 1.0, 3.0, np.inf, -np.inf, np.nan), repeat=len(circuit.inputs))
    return [[np.float64(x) for x in point] for point in grid]


@cache
def reference_rows(formula: str) -> Any:
    """Return the interpreter's results at the points above, which every way of running is compared with."""
    circuit = wg.circuit(formula)
    return np.array([ReceiptPoint(circuit, point).reference_results for point in special_points(circuit)])


@pytest.mark.parametrize(("formula", "way"), sample_pairs(STRUCTURAL, ALL_RUNNERS))
def test_branches_that_are_not_taken_send_nothing(way: str, formula: str) -> None:
    circuit = wg.circuit(formula)
    points = special_points(circuit)
    rows, wanted = ALL_RUNNERS[way](circuit, points, 0), reference_rows(formula)
    wrong = [(points[i], rows[i], wanted[i]) for i in np.flatnonzero(off(rows, wanted).any(axis=1))]

    assert wrong == []


def test_the_circuits_above_meet_gradients_in_every_way_there_is() -> None:
    found = set().union(*(ways_of(wg.circuit(formula)) for formula in STRUCTURAL))

    assert found == set(product((False, True), (STORE_GRADIENT, ADD_GRADIENT, MERGE_GRADIENT), (False, True)))


def fails(case: Case, run: Runner) -> Callable[[Circuit], bool]:
    """Return whether a smaller circuit still differs at the points of a case."""
    named = [dict(zip(case.circuit.inputs, point.inputs, strict=True)) for point in case.points]

    def differs(circuit: Circuit) -> bool:
        points = [ReceiptPoint(circuit, [given[name] for name in circuit.inputs]) for given in named]
        try:
            rows = run(circuit, [point.inputs for point in points], 0)
            return not all(verdict.fits for verdict in verdicts(Case(case.seed, circuit, points), rows))
        except WiregradError:
            return False

    return differs


def judge(case: Case, rows: Any, run: Runner) -> tuple[int, int]:
    """Judge every result of a case; returns how many there are and how many only moved results explain."""
    judged = list(verdicts(case, rows))
    if not all(verdict.fits for verdict in judged):
        small = shrink_circuit(case.circuit, fails(case, run))
        raise AssertionError(f"seed {case.seed} differs; smallest circuit that does:\n{small}")
    return len(judged), sum(verdict.shaken for verdict in judged)


def special_case(seed: int) -> Case:
    """Return a random circuit with its points, the last of them made of special numbers."""
    case, rng = random_case(seed), np.random.default_rng([seed, 2])
    strange = [np.float64(x) for x in rng.choice(SPECIAL, size=len(case.circuit.inputs))]
    return case._replace(points=[*case.points[:-1], ReceiptPoint(case.circuit, strange)])


def table_of(case: Case) -> list[list[Any]]:
    return [point.inputs for point in case.points]


def check(seeds: Sequence[int], way: str) -> None:
    counted = []
    for seed in seeds:
        case = special_case(seed)
        counted.append(judge(case, ALL_RUNNERS[way](case.circuit, table_of(case), 0), ALL_RUNNERS[way]))
    count, shaken = map(sum, zip(*counted, strict=True))

    assert shaken <= SHAKEN * count


@pytest.mark.parametrize(
    ("way", "count"),
    [("stencils", SAMPLE), ("batch", SAMPLE), ("llvm", SAMPLE // 3), ("kernels", SAMPLE // 3), ("split kernels", 4)],
)
def test_random_circuits_agree_with_the_interpreter(way: str, count: int) -> None:
    check(range(count), way)


@pytest.mark.full
@pytest.mark.parametrize("way", ALL_RUNNERS)
@pytest.mark.parametrize("start", range(0, COUNT, COUNT // 10))
def test_ten_thousand_random_circuits_agree_with_the_interpreter(way: str, start: int) -> None:
    check(range(start, start + COUNT // 10), way)


@pytest.mark.parametrize("way", ["stencils", "batch", "kernels"])
@pytest.mark.parametrize("count", [10, pytest.param(2_000, marks=pytest.mark.full)])
def test_random_circuits_of_float32_agree_with_the_interpreter(way: str, count: int) -> None:
    tried = 0
    for seed in range(count):
        circuit = narrow(random_case(seed).circuit)
        with np.errstate(all="ignore"):
            points = [[np.float32(x) for x in point.inputs] for point in special_case(seed).points]
        if circuit.type_of(circuit.root()) != FLOAT32:
            continue
        case = Case(seed, circuit, [ReceiptPoint(circuit, point) for point in points])
        try:
            rows = ALL_RUNNERS[way](circuit, points, 0)
        except NotNativeError:
            # Float32 and float64 in one circuit.
            continue
        judge(case, rows, ALL_RUNNERS[way])
        tried += 1

    assert tried > 0.8 * count


def same_numbers(one: Any, two: Any) -> bool:
    """Return whether two results are the same to the last bit, but for the signs of NaNs, which no standard gives."""
    both = np.isnan(one) & np.isnan(two)
    bits = f"i{one.itemsize}"
    return bool((both | (one.view(bits) == two.view(bits))).all())


@pytest.mark.parametrize("count", [18, pytest.param(2_000, marks=pytest.mark.full)])
def test_both_tiers_give_the_same_bits(count: int) -> None:
    cases = [special_case(seed) for seed in range(count)]
    wrong = []
    for case in cases:
        one, two = (ALL_RUNNERS[way](case.circuit, table_of(case), 0) for way in ("stencils", "llvm"))
        wrong += [] if same_numbers(one, two) else [case.seed]

    assert wrong == []


def repeat_points(points: Sequence[Sequence[Any]]) -> Any:
    """Return points often enough that a loop over groups of tiles has several rounds, and some tiles are left over."""
    return np.resize(np.array(points), (99, len(points[0])))


@pytest.mark.parametrize("formula", STRUCTURAL)
def test_loops_over_columns_send_nothing_along_branches_that_are_not_taken(formula: str) -> None:
    circuit = wg.circuit(formula)
    points = repeat_points(list(product((-2.0, -0.0, 0.5, np.inf, np.nan), repeat=len(circuit.inputs))))

    assert same_numbers(in_columns(circuit, points), by_batch(circuit, points))


@pytest.mark.parametrize("count", [8, pytest.param(2_000, marks=pytest.mark.full)])
def test_loops_over_columns_give_the_bits_of_the_stencils(count: int) -> None:
    tried = 0
    for case in map(special_case, range(count)):
        if len(build_program(case.circuit, 0).stream) > MAX_KERNEL_STEPS:
            continue
        points = repeat_points(table_of(case))
        tried += 1

        assert same_numbers(in_columns(case.circuit, points), by_batch(case.circuit, points)), case.seed
    assert tried > 0.5 * count


@pytest.mark.parametrize("real", ["float64", "float32"])
@pytest.mark.parametrize(("every", "thin"), [(29, 53), pytest.param(1, 1, marks=pytest.mark.full)])
def test_loops_over_columns_compute_every_op_as_stencils_do(real: str, every: int, thin: int) -> None:
    wrong = []
    for use, circuit, table, _ in alone(real, every, thin):
        try:
            wanted = by_batch(circuit, repeat_points(table))
        except NotNativeError:
            continue
        wrong += [] if same_numbers(in_columns(circuit, repeat_points(table)), wanted) else [use.text]

    assert wrong == []


@pytest.fixture
def plain_math(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have stencils made that call C's own functions, as listings do."""
    monkeypatch.setenv(vector_math.VECTOR_MATH_SWITCH, "scalar")
    tiers.stencil_library.cache_clear()
    yield
    tiers.stencil_library.cache_clear()


@pytest.mark.usefixtures("plain_math")
def test_stencils_give_the_bits_of_the_c_listing() -> None:
    cases = [special_case(seed) for seed in range(choose_count(12, 100))]
    programs = [
        RunnableListing(write_listing(case.circuit, "c", name=f"listing{k}"), f"listing{k}", case.circuit.inputs)
        for k, case in enumerate(cases)
    ]
    # What gcc computes itself, of constants, is rounded better than its library does it.
    flags = ["-O2", "-ffp-contract=off", "-fno-builtin"]
    rows = run_c(programs, [table_of(case) for case in cases], flags=flags)
    wrong = [
        case.seed
        for case, found in zip(cases, rows, strict=True)
        if not same_numbers(by_stencils(case.circuit, table_of(case)), np.asarray(found))
    ]

    assert wrong == []


def test_answers_are_the_same_bits_from_run_to_run() -> None:
    for case in map(special_case, range(choose_count(20, 40))):
        program = build_program(case.circuit, 0)
        first = at_points(program, table_of(case))

        assert same_bits(at_points(program, table_of(case)), first)
        assert same_bits(at_points(program, table_of(case)[::-1])[::-1], first)
        assert same_bits(at_points(build_program(case.circuit, 0), table_of(case)), first)


def test_a_point_has_the_same_bits_in_every_batch() -> None:
    for seed in range(choose_count(10, 40)):
        circuit, rng = random_case(seed).circuit, np.random.default_rng([seed, 3])
        points = np.where(
            rng.random((17, len(circuit.inputs))) < 0.3,
            rng.choice(SPECIAL, size=(17, len(circuit.inputs))),
            rng.normal(size=(17, len(circuit.inputs))),
        )
        program = vectors(circuit)
        whole = in_batches(program, points)
        for size in range(1, 18):
            assert same_bits(in_batches(program, points[:size]), whole[:size])
            assert same_bits(in_batches(program, points[-size:]), whole[-size:])


@pytest.mark.parametrize("real", [np.float64, np.float32])
def test_one_and_two_threads_give_the_same_bits(real: Any) -> None:
    for seed in range(10):
        circuit = random_case(seed).circuit
        program = vectors(circuit if real is np.float64 else narrow(circuit))
        count = 5 * MIN_TILES_PER_THREAD * program.real.lanes + 3
        points = np.random.default_rng(seed).normal(size=(count, len(circuit.inputs))) * 2.0
        one = in_batches(program, points, threads=1)

        assert same_bits(in_batches(program, points, threads=2), one)
        assert same_bits(in_batches(program, points, threads=3), one)


def several(circuit: Circuit, k: int) -> Iterator[Circuit]:
    """Return a circuit with outputs of all sorts: inner nodes, inputs, constants, one node twice."""
    yield circuit
    inner = circuit.columns.outputs.tolist()
    inputs, constants = circuit.input_indices(), circuit.columns.constant_nodes.tolist()
    yield with_outputs(circuit, [*inner, inputs[k % len(inputs)], *constants[:1], inner[0], inputs[0]])


@pytest.mark.parametrize("way", RUNNERS)
def test_several_outputs_and_rows_of_the_jacobian_agree_one_by_one(way: str) -> None:
    count = 0
    for seed in range(4 if way == "llvm" else choose_count(6, 15)):
        for circuit in several(several_outputs(seed), seed):
            points = table_of(case_of(seed, circuit.with_output("out0")))
            rows = [ALL_RUNNERS[way](circuit, points, k) for k in range(len(circuit.outputs))]
            for k, label in enumerate(circuit.outputs):
                judges = [ReceiptPoint(circuit.with_output(label), point) for point in points]
                m = len(circuit.outputs)
                found = np.hstack([rows[0][:, k : k + 1], rows[k][:, m:]])
                fits = [
                    point.judge_result(j, row[j]).fits
                    for point, row in zip(judges, found, strict=True)
                    for j in range(len(row))
                ]
                count += 1

                assert all(fits), (str(circuit), label)
                assert same_bits(rows[k][:, :m], rows[0][:, :m])

    assert count > 20


@pytest.mark.parametrize("way", RUNNERS)
def test_values_alone_are_the_same_bits_as_values_with_a_gradient(way: str) -> None:
    for seed in range(20):
        case = special_case(seed)
        both, value = (
            ALL_RUNNERS[way](case.circuit, table_of(case), 0),
            ALL_RUNNERS[way](case.circuit, table_of(case), None),
        )

        assert same_bits(value[:, :1].copy(), both[:, :1].copy())


@pytest.mark.parametrize("way", RUNNERS)
def test_second_derivatives_agree_with_those_of_the_backward_circuit(way: str) -> None:
    for seed in range(3 if way == "llvm" else choose_count(6, 12)):
        case = random_case(seed)
        backward = gradient_circuit(case.circuit)
        points = table_of(case)
        for k in range(len(case.circuit.inputs)):
            rows = ALL_RUNNERS[way](Circuit(backward.columns), points, 1 + k)
            for point, row in zip(points, rows, strict=True):
                other = second_order(case.circuit, point)[k]
                second = row[len(backward.outputs) :]

                assert other.judge_result(0, row[1 + k]).fits, seed
                assert all(other.judge_result(1 + j, value).fits for j, value in enumerate(second)), seed


def test_a_gradient_circuit_compiled_again_gives_the_hessian() -> None:
    circuit = wg.circuit("x * x * y + sin(x) * exp(y)")
    backward = gradient_circuit(circuit)
    point = [np.float64(0.3), np.float64(-0.7)]
    found = [by_stencils(backward, [point], k)[0, len(backward.outputs) :] for k in (1, 2)]
    wanted = wg.hessian(lambda v: v[0] * v[0] * v[1] + np.sin(v[0]) * np.exp(v[1]))(np.array(point))

    np.testing.assert_allclose(found, wanted, rtol=1e-14)


SMALL = {
    "no inputs": "output = constant 3.0\noutput output",
    "an input alone": "input x\noutput x",
    "one node": "input x\ny = tanh x\noutput y",
    "an unused input": "input x, z\ny = tanh x\noutput y",
    "a constant as output": "input x\nc = constant 2.0\noutput c",
    "a node that nobody reads": "input x\nd = exp x\ny = sin x\noutput y",
    "a splitter": "input x\na = split x\nb = split a\ny = multiply a b\noutput y",
}


@pytest.mark.parametrize("way", ALL_RUNNERS)
@pytest.mark.parametrize("text", SMALL.values(), ids=SMALL)
def test_small_circuits_of_all_sorts_agree(way: str, text: str) -> None:
    circuit = wg.Circuit.from_text(text)
    points = [[np.float64(x)] * len(circuit.inputs) for x in (0.5, -0.0, np.nan)]
    rows, wanted = (
        ALL_RUNNERS[way](circuit, points, 0),
        [ReceiptPoint(circuit, point).reference_results for point in points],
    )

    assert not off(rows, np.array(wanted)).any()


@pytest.mark.parametrize("way", ALL_RUNNERS)
@pytest.mark.parametrize("op", ["where", "multiply", "add", "logical_and", "greater"])
def test_conditions_can_be_inputs(way: str, op: str) -> None:
    builder = Builder(finite=False)
    names = [name for name in TABLE[op].inputs if name in TABLE[op].takes_bool or name == TABLE[op].inputs[0]]
    wires = [builder.input(name, BOOL if name in names else FLOAT) for name in TABLE[op].inputs]
    circuit = builder.build(builder.apply(TABLE[op], *wires))
    kinds = [circuit.type_of(node).dtype.type for node in circuit.input_indices()]
    points = [
        [kind(x) for kind, x in zip(kinds, row, strict=True)] for row in product((0.0, 1.0, -2.5), repeat=len(kinds))
    ]
    rows, wanted = (
        ALL_RUNNERS[way](circuit, points, 0),
        [ReceiptPoint(circuit, point).reference_results for point in points],
    )

    assert not off(rows, np.array(wanted, float)).any()


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 5e-324, -0.0, 1.7e308, 2.5])
def test_constants_of_all_sorts_agree(number: float) -> None:
    builder = Builder(finite=False)
    x, constant = builder.input("x"), builder.place_constant(np.float64(number))
    product_, power = (builder.apply(TABLE[op], x, constant) for op in ("multiply", "power"))
    circuit = builder.build(builder.apply(TABLE["maximum"], product_, builder.apply(TABLE["divide"], power, constant)))
    points = [[np.float64(x)] for x in SPECIAL]
    wanted = np.array([ReceiptPoint(circuit, point).reference_results for point in points])

    assert not any(off(run(circuit, points, 0), wanted).any() for run in ALL_RUNNERS.values())


@pytest.mark.parametrize("run", [by_stencils, by_batch])
def test_conditions_as_outputs_are_ones_and_zeros(run: Callable[..., Any]) -> None:
    circuit = wg.Circuit.from_text("input x\nc = greater x x\nd = logical_not c\noutput c, d, x")
    rows = run(circuit, [[1.0], [np.nan]], 1)

    assert_equal(rows, [[0.0, 1.0, 1.0, 0.0], [0.0, 1.0, np.nan, 0.0]])


@pytest.mark.parametrize("way", RUNNERS)
def test_long_chains_and_wide_fans_agree(way: str) -> None:
    builder = Builder()
    x, y = builder.input("x"), builder.input("y")
    chain, total = x, y
    for k in range(700):
        chain = builder.apply(TABLE["sin"], builder.apply(TABLE["add"], chain, y))
        total = builder.apply(TABLE["add"], total, builder.apply(TABLE["multiply"], x, chain)) if k % 3 else total
    circuit = builder.build(total)
    point = ReceiptPoint(circuit, [np.float64(0.3), np.float64(-1.2)])
    row = ALL_RUNNERS[way](circuit, [point.inputs], 0)[0]

    assert all(point.judge_result(k, found).fits for k, found in enumerate(row))
