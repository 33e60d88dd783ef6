"""The benchmarks: every workload runs, and nobody with a wrong answer is timed."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import wiregrad as wg
from wiregrad.cli import bench
from wiregrad.cli.bench import race
from wiregrad.cli.bench.race import (
    MAX_ABSOLUTE_VALUE,
    MIN_DIVISOR,
    WORKLOAD_OPS,
    DisagreementError,
    EntrantMissingError,
    FloatArray,
    RaceEntrant,
    RaceResult,
    RaceTask,
    RaceVerdict,
    SpeedTarget,
    Workload,
    check_answers,
    mechanics_workloads,
    nbody_energy,
    random_workload,
    reference_answers,
    rigid_body_energy,
    run_race,
)
from wiregrad.cli.environment import BENCH_PARTS, bench_command

from ..support.sampling import sample_pairs


@pytest.fixture(scope="module")
def tiny() -> bench.SuiteReport:
    return bench.run_suite(bench.TINY_SIZES)


def right(workload: Workload, points: FloatArray) -> FloatArray:
    return reference_answers(workload, points)[0]


def answering(answer: FloatArray, runs: list[int] | None = None) -> RaceEntrant:
    kept = [] if runs is None else runs
    return RaceEntrant("somebody", lambda workload, points: RaceTask(kept.append, lambda: answer))


def test_every_race_is_run_and_everybody_is_timed(tiny: bench.SuiteReport) -> None:
    for section in tiny.sections[:-1]:
        for result in section.results:
            assert any(name.startswith(race.WIREGRAD_NAME) for name in result.times), result.missing
            assert not result.missing
            assert all(time > 0.0 for times in result.times.values() for time in times)


def test_the_growth_of_compile_time_is_measured_in_turns(tiny: bench.SuiteReport) -> None:
    growth = tiny.sections[0].results[-1]

    assert [*growth.times] == ["wiregrad, 20 nodes", "wiregrad, 40 nodes"]
    assert [verdict.wanted for verdict in growth.verdicts] == ["10x the nodes of 20 within 13x the time"]


def test_the_page_says_what_was_wanted_and_on_what_machine(tiny: bench.SuiteReport) -> None:
    page = tiny.to_markdown()

    assert "| 20 random nodes | wiregrad within 1.5x of flat C, gcc -O3 |" in page
    assert "jax.jit: did not take part | not measured |" in page
    assert f"- numpy: {np.__version__}" in page
    assert page.count("### ") == sum(len(section.results) for section in tiny.sections)


def test_the_document_has_every_turn(tiny: bench.SuiteReport) -> None:
    document = json.loads(json.dumps(tiny.to_document()))
    compiled = document["sections"][0]["results"][0]

    assert set(compiled["times"]) == {entrant.name for entrant in race.COMPILE_ENTRANTS}
    assert len(compiled["times"][race.WIREGRAD_NAME]) == bench.TINY_SIZES.turns


@cache
def small_race() -> tuple[Workload, FloatArray, FloatArray]:
    """Return a workload with points and the right answers there."""
    workload = random_workload(30)
    points = workload.draw_points(2)
    return workload, points, right(workload, points)


@pytest.mark.parametrize(("wrong", "column"), sample_pairs([1e-9, -1e-9, math.nan, math.inf], [0, 3]))
def test_a_wrong_answer_is_not_timed(column: int, wrong: float) -> None:
    workload, points, exact = small_race()
    answer, runs = exact.copy(), list[int]()
    answer[1, column] += wrong

    with pytest.raises(DisagreementError, match="somebody gives"):
        run_race("", workload, points, [answering(answer, runs)], turns=5, least=0.0)
    # To be asked, it was run; no turn was taken.
    assert sum(runs) <= 2


def test_a_wrong_answer_where_the_interpreter_was_not_asked_is_found_by_comparing_all() -> None:
    workload = random_workload(30)
    points = workload.draw_points(9)
    answer = right(workload, points)
    other = answer.copy()
    other[2, 1] += 1e-6

    check_answers(workload, points, {"a": answer, "b": answer})
    with pytest.raises(DisagreementError, match=r"b gives .* of point 2; a gives"):
        check_answers(workload, points, {"a": answer, "b": other})


def test_an_answer_of_another_shape_is_wrong() -> None:
    workload = random_workload(30)
    points = workload.draw_points(2)

    with pytest.raises(DisagreementError, match="shape"):
        check_answers(workload, points, {"a": right(workload, points)[:, :-1]})


def test_somebody_who_is_missing_is_named_with_the_reason() -> None:
    def prepare(workload: Workload, points: FloatArray) -> RaceTask:
        raise EntrantMissingError("it is not installed")

    workload = random_workload(20)
    absent, large = RaceEntrant("absent", prepare), RaceEntrant("large", prepare, 10, "too slow")
    result = run_race("", workload, workload.draw_points(1), [absent, large], turns=1, least=0.0)

    assert result.missing == {"absent": "it is not installed", "large": "left out at this size: too slow"}
    assert SpeedTarget("absent", "large", 2.0).judge_result(result) == RaceVerdict(
        "absent at least 2x faster than large", "absent: it is not installed", None
    )
    assert any("absent | not run | it is not installed" in line for line in bench.write_result_tables(result))


def test_a_wish_is_judged_by_the_ratios_within_turns() -> None:
    result = RaceResult("", 1.0, {"we": [1.0, 1.0, 9.0], "they": [4.0, 4.1, 36.0]})
    judged = result.with_verdicts(
        SpeedTarget("we", "they", 3.5), SpeedTarget("we", "they", 4.5), SpeedTarget("they", "we", 1 / 5)
    )

    assert [verdict.word for verdict in judged.verdicts] == ["PASS", "MISS", "PASS"]
    assert [verdict.found for verdict in judged.verdicts] == ["4x", "4x", "4.00x"]


def test_turns_are_taken_alternately() -> None:
    workload = random_workload(20)
    points, order = workload.draw_points(1), list[str]()

    def named(name: str) -> RaceEntrant:
        return RaceEntrant(name, lambda workload, points: RaceTask(lambda runs: order.append(name), lambda: answer))

    answer = right(workload, points)
    run_race("", workload, points, [named("a"), named("b")], turns=3, least=0.0)

    assert order[-6:] == ["a", "b"] * 3


@pytest.mark.parametrize("nodes", [1, 10, 100, 1_000])
def test_a_random_circuit_has_bounded_values_and_no_dead_nodes(nodes: int) -> None:
    workload = random_workload(nodes, seed=3)
    circuit = workload.circuit
    ops = Counter(row.op.name for row in circuit.rows())
    read = {source for row in circuit.rows() for source in row.sources}

    assert set(ops) <= {"input", *WORKLOAD_OPS}
    assert nodes <= workload.nodes <= 1.1 * nodes + 12
    assert set(range(circuit.size)) - read == {circuit.root()}
    for point in workload.draw_points(3):
        run = circuit.run(point)
        assert max(abs(value) for value in run.values) <= MAX_ABSOLUTE_VALUE
        assert all(np.isfinite(slope) for slope in run.grads.values())
        assert any(run.grads.values())
        for row in circuit.rows():
            assert row.op.name != "divide" or abs(run.values[row.sources[1]]) >= MIN_DIVISOR


def test_a_random_circuit_is_the_same_for_the_same_seed() -> None:
    assert random_workload(50, seed=7).circuit == random_workload(50, seed=7).circuit
    assert random_workload(50, seed=7).circuit != random_workload(50, seed=8).circuit


@pytest.mark.parametrize(
    ("function", "workload"), [*zip([nbody_energy, rigid_body_energy], mechanics_workloads(), strict=True)]
)
def test_mechanics_are_plain_python(function: Callable[..., float], workload: Workload) -> None:
    point = workload.draw_points(1)[0]

    assert function(*point.tolist()) == workload.circuit(point)
    assert not workload.circuit.certificates


def test_the_tape_computes_what_the_interpreter_does() -> None:
    workload = random_workload(200, seed=2)
    point = workload.draw_points(1)
    found = race.write_straight_line(workload.circuit)
    numbers = dict(zip(found.inputs, point[0].tolist(), strict=True))

    def read(name: str) -> float:
        return numbers[name] if name in numbers else float(name)

    functions: dict[str, Callable[..., float]] = {
        **{name: drawn.value for name, drawn in WORKLOAD_OPS.items()},
        "cos": math.cos,
        "sqrt": math.sqrt,
        "step": lambda x: float(x > 0.0),
    }
    for step in found.steps:
        numbers[step.name] = functions[step.op](*map(read, step.operands))

    check_answers(workload, point, {"tape": np.array([[read(name) for name in (found.value, *found.gradient)]])})


def test_an_input_that_nothing_reads_has_gradient_0_on_the_tape() -> None:
    builder = wg.Builder()
    x, _ = builder.input("x"), builder.input("y")
    circuit = builder.build(builder.multiply(x, 2.0))

    assert race.write_straight_line(circuit).gradient[1] == "0.0"


def test_the_command_writes_markdown_and_json(tmp_path: Path) -> None:
    page, document = tmp_path / "page.md", tmp_path / "page.json"
    result = CliRunner().invoke(
        bench_command, ["--size", "tiny", "--part", "call", "-o", str(page), "-o", str(document)]
    )

    assert result.exit_code == 0, result.output
    assert "## Wanted and found" in page.read_text()
    assert [section["title"] for section in json.loads(document.read_text())["sections"]] == ["Calls from Python"]
    assert json.loads(document.read_text())["machine"]["Python"]


def test_the_command_knows_the_parts_of_the_suite() -> None:
    assert list(bench.SUITE_PARTS) == [*BENCH_PARTS]


@pytest.mark.parametrize("name", ["page.html", "page"])
def test_the_command_refuses_a_form_it_does_not_know_before_it_measures(name: str) -> None:
    result = CliRunner().invoke(bench_command, ["-o", name])

    assert result.exit_code == 2
    assert "ends in .md or .json" in result.output


def test_numbers_near_zero_are_what_they_were_after_a_race() -> None:
    # A library linked with -ffast-math flushes them to zero in the whole process.
    bench.run_suite(bench.TINY_SIZES, parts=("batch",))

    assert np.float64(1e-308) * np.float64(0.01) > 0.0
