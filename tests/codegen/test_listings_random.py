"""Listings held against the interpreter: random circuits and every op alone, in every language that is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_equal

import wiregrad as wg
from wiregrad.api import Circuit
from wiregrad.backends.run_listings import (
    C_ADVICE,
    SANITIZER_FLAGS,
    RunnableListing,
    compile_files,
    find_c_compiler,
    find_tool,
    load_listing_function,
    rename_helpers,
    require_tool,
    run_c,
    run_js,
    run_numpy,
    run_python,
)
from wiregrad.codegen import write_listing
from wiregrad.errors import WiregradError
from wiregrad.inspect.receipt import MAX_OP_ULPS, ReceiptPoint, ulp_distances
from wiregrad.ops import Elementwise

from ..support.cases import (
    SHAKEN,
    Case,
    case_of,
    narrow,
    random_case,
    second_order,
    several_outputs,
    uses_alone,
    verdicts,
)
from ..support.random_circuits import shrink_circuit

COUNT, SAMPLE, CHUNK = 2_000, 30, 150

Runner = Callable[[Sequence[RunnableListing], Sequence[Any]], list[Any]]


class Tongue(NamedTuple):
    """A language and what runs it."""

    name: str
    run: Runner


def run_numpy_numbers(programs: Sequence[RunnableListing], points: Sequence[Any]) -> list[Any]:
    """Run NumPy listings on one number at a time."""
    found = []
    for program, rows in zip(programs, points, strict=True):
        call, answers = load_listing_function(program), []
        with np.errstate(all="ignore"):
            for row in np.asarray(rows):
                value, grads = call(*row)
                answers.append([float(value), *(float(grads[name]) for name in program.inputs)])
        found.append(np.array(answers))
    return found


TONGUES = {
    "python": Tongue("python", run_python),
    "numpy": Tongue("numpy", run_numpy),
    "numpy numbers": Tongue("numpy", run_numpy_numbers),
    "c": Tongue("c", partial(run_c, flags=SANITIZER_FLAGS)),
    "js": Tongue("js", run_js),
}


def answers(cases: Sequence[Case], tongue: Tongue) -> list[Any]:
    """Return what a language makes of the cases."""
    programs = [
        RunnableListing(
            write_listing(case.circuit, tongue.name, name=f"listing{k}"), f"listing{k}", case.circuit.inputs
        )
        for k, case in enumerate(cases)
    ]
    return tongue.run(programs, [[point.inputs for point in case.points] for case in cases])


def fails(case: Case, tongue: Tongue) -> Callable[[Circuit], bool]:
    """Return whether a smaller circuit still differs at the points of a case."""
    named = [dict(zip(case.circuit.inputs, point.inputs, strict=True)) for point in case.points]

    def differs(circuit: Circuit) -> bool:
        points = [ReceiptPoint(circuit, [given[name] for name in circuit.inputs]) for given in named]
        smaller = Case(case.seed, circuit, points)
        try:
            return not all(verdict.fits for verdict in verdicts(smaller, answers([smaller], tongue)[0]))
        except WiregradError:
            return False

    return differs


def shares(cases: Sequence[Case], tongue: Tongue) -> tuple[int, int]:
    """Judge every result of the cases; returns how many there are and how many only moved results explain."""
    count = shaken = 0
    for case, rows in zip(cases, answers(cases, tongue), strict=True):
        judged = list(verdicts(case, rows))
        if not all(verdict.fits for verdict in judged):
            small = shrink_circuit(case.circuit, fails(case, tongue))
            raise AssertionError(f"seed {case.seed} differs; smallest circuit that does:\n{small}")
        count += len(judged)
        shaken += sum(verdict.shaken for verdict in judged)
    return count, shaken


def check(start: int, stop: int, tongue: Tongue) -> None:
    found = [
        shares([random_case(seed) for seed in range(first, min(first + CHUNK, stop))], tongue)
        for first in range(start, stop, CHUNK)
    ]
    count, shaken = map(sum, zip(*found, strict=True))

    assert shaken <= SHAKEN * count


@pytest.mark.parametrize("language", TONGUES)
def test_random_circuits_agree_with_the_interpreter(language: str) -> None:
    check(0, SAMPLE, TONGUES[language])


@pytest.mark.full
@pytest.mark.parametrize("language", TONGUES)
@pytest.mark.parametrize("start", range(0, COUNT, COUNT // 4))
def test_two_thousand_random_circuits_agree_with_the_interpreter(language: str, start: int) -> None:
    check(start, start + COUNT // 4, TONGUES[language])


@pytest.mark.parametrize("language", [name for name in TONGUES if name != "numpy numbers"])
@pytest.mark.parametrize("every", [13, pytest.param(1, marks=pytest.mark.full)])
def test_every_op_alone_is_within_four_ulps_of_the_interpreter(language: str, every: int) -> None:
    pairs, tongue = uses_alone()[::every], TONGUES[language]
    if language == "c":
        # Random circuits are run under sanitizers, which take their time to compile.
        tongue = Tongue("c", run_c)
    far, cancelled = [], set[Elementwise]()
    for (use, case), rows in zip(pairs, answers([case for _, case in pairs], tongue), strict=True):
        off = ulp_distances(rows, np.array([point.reference_results for point in case.points]))
        assert isinstance(use.op, Elementwise)
        for i, result in np.argwhere(off > MAX_OP_ULPS).tolist():
            # A slope that cancels is as far from the exact one in the interpreter; values have no such excuse.
            if result and case.points[i].judge_result(result, rows[i][result]).fits:
                cancelled.add(use.op)
            else:
                far.append((use.text, case.points[i].inputs, result, off[i, result]))

    assert len(pairs) > 400 // every
    assert far == []
    # Records say why their slopes may be off; that of cbrt is 1 over a square, which doubles what the square is off.
    assert {op.name for op in cancelled if op.ulps <= MAX_OP_ULPS} <= {"cbrt"}


@pytest.mark.parametrize("language", TONGUES)
def test_a_branch_that_was_not_taken_sends_nothing_in_any_language(language: str) -> None:
    circuit = wg.circuit("where(x > 0, sqrt(x), 0)")
    case = Case(0, circuit, [ReceiptPoint(circuit, [np.float64(x)]) for x in (0.0, -1.0, 4.0)])

    assert_equal(answers([case], TONGUES[language])[0], [[0.0, 0.0], [0.0, 0.0], [2.0, 0.25]])


@pytest.mark.parametrize("language", ["python", "numpy", "c", "js"])
@pytest.mark.parametrize("count", [4, pytest.param(40, marks=pytest.mark.full)])
def test_second_derivatives_agree_with_those_of_the_backward_circuit(language: str, count: int) -> None:
    cases, programs = [random_case(seed) for seed in range(count)], list[RunnableListing]()
    for k, (_, circuit, _) in enumerate(cases):
        text = write_listing(circuit, TONGUES[language].name, "hessian", name=f"listing{k}")
        programs.append(RunnableListing(text, f"listing{k}", circuit.inputs, function="hessian"))
    rows = TONGUES[language].run(programs, [[point.inputs for point in case.points] for case in cases])
    wrong = []
    for (seed, circuit, points), found in zip(cases, rows, strict=True):
        n = len(circuit.inputs)
        for point, row in zip(points, found, strict=True):
            for k, other in enumerate(second_order(circuit, point.inputs)):
                second = row[1 + n + k * n :][:n]
                fits = [other.judge_result(1 + j, value).fits for j, value in enumerate(second)]
                wrong += [] if all([other.judge_result(0, row[1 + k]).fits, *fits]) else [(seed, point.inputs, k)]

    assert wrong == []


@pytest.mark.parametrize("language", ["python", "numpy", "c", "js"])
@pytest.mark.parametrize("function", ["value", "jacobian"])
@pytest.mark.parametrize("count", [4, pytest.param(40, marks=pytest.mark.full)])
def test_several_outputs_agree_one_by_one(language: str, function: str, count: int) -> None:
    circuits = [several_outputs(seed) for seed in range(count)]
    circuits = [circuit for circuit in circuits if len(circuit.outputs) > 1]
    tables = [
        [point.inputs for point in case_of(k, circuit.with_output("out0")).points] for k, circuit in enumerate(circuits)
    ]
    programs = [
        RunnableListing(
            write_listing(circuit, TONGUES[language].name, function, name=f"listing{k}"),
            f"listing{k}",
            circuit.inputs,
            circuit.outputs,
            function,
        )
        for k, circuit in enumerate(circuits)
    ]
    rows = TONGUES[language].run(programs, tables)
    wrong = []
    for circuit, table, found in zip(circuits, tables, rows, strict=True):
        for inputs, row in zip(table, found, strict=True):
            parts = row.reshape(len(circuit.outputs), -1)
            for label, part in zip(circuit.outputs, parts, strict=True):
                point = ReceiptPoint(circuit.with_output(label), inputs)
                first = 0 if function == "value" else 1
                fits = [point.judge_result(first + k, value).fits for k, value in enumerate(part)]
                wrong += [] if all(fits) else [(str(circuit), inputs, label)]

    assert len(circuits) > count // 2
    assert wrong == []


@pytest.mark.parametrize("count", [10, pytest.param(100, marks=pytest.mark.full)])
def test_c_in_floats_agrees_with_a_float32_run(count: int) -> None:
    cases = []
    for seed in range(count):
        circuit = narrow(random_case(seed).circuit)
        points = [[np.float32(x) for x in point.inputs] for point in random_case(seed).points]
        if circuit.type_of(circuit.root()).dtype == np.float32:
            cases.append(Case(seed, circuit, [ReceiptPoint(circuit, point) for point in points]))
    programs = [
        RunnableListing(
            write_listing(case.circuit, "c", name=f"listing{k}"), f"listing{k}", case.circuit.inputs, real="float"
        )
        for k, case in enumerate(cases)
    ]
    rows = run_c(programs, [[point.inputs for point in case.points] for case in cases], flags=SANITIZER_FLAGS)
    wrong = [
        case.seed for case, found in zip(cases, rows, strict=True) if not all(v.fits for v in verdicts(case, found))
    ]

    assert len(cases) > 0.8 * count
    assert wrong == []


STUB = """
#ifndef STUB
#define STUB
#define __global__
#define __device__
namespace { struct { unsigned x; } blockIdx = { 1 }, blockDim = { 1 }, threadIdx = { 0 }; }
#endif
"""
"""What makes CUDA's C++ into anybody's: one thread, the second of two."""


def on_a_processor(program: RunnableListing) -> RunnableListing:
    """Return a kernel as a function that a processor runs: it is given two points and computes the second."""
    name, n = program.name, len(program.inputs)
    wrapper = f"""
double {name}_alone(const double *x, double *grad) {{
    double points[{2 * n}] = {{ 0.0 }}, values[2], grads[{2 * n}];
    for (int k = 0; k < {n}; k++) points[2 * k + 1] = x[k];
    {name}_batch(2, points, values, grads);
    for (int k = 0; k < {n}; k++) grad[k] = grads[2 * k + 1];
    return values[1];
}}
"""
    return replace(program, text=STUB + program.text + wrapper, name=f"{name}_alone")


@pytest.mark.parametrize("count", [CHUNK // 6, pytest.param(CHUNK, marks=pytest.mark.full)])
def test_cuda_text_agrees_with_the_interpreter_when_a_processor_runs_it(count: int) -> None:
    def run(programs: Sequence[RunnableListing], points: Sequence[Any]) -> list[Any]:
        return run_c(list(map(on_a_processor, programs)), points, flags=["-O2", "-x", "c++", "-fpermissive", "-w"])

    check(0, count, Tongue("cuda", run))


def test_cuda_text_compiles_with_nvcc_where_there_is_one(tmp_path: Path) -> None:
    """Elsewhere the host compiler reads the same text."""
    nvcc = find_tool("nvcc")
    programs = [
        RunnableListing(write_listing(random_case(k).circuit, "cuda", name=f"f{k}"), f"f{k}", ()) for k in range(6)
    ]
    text = "\n".join(rename_helpers(k, program) for k, program in enumerate(programs))
    tool = nvcc or require_tool(find_c_compiler(), "C", C_ADVICE)
    flags = ["-ptx"] if nvcc else ["-x", "c++", "-c"]
    compile_files(tool, tmp_path, {"kernels.cu": (text if nvcc else STUB + text)}, [*flags, "-o", "kernels.out"])

    assert (tmp_path / "kernels.out").stat().st_size > 0
