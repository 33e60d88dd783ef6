"""Receipts: every listing of a circuit is run and compared with the interpreter, op by op and as a whole.

A receipt claims no more than was observed: a language that could not run is named with the reason, and a difference is
accepted only if rounding explains it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from wiregrad.backends import interpreter
from wiregrad.backends.interpreter import bind_inputs
from wiregrad.backends.listings import RUNNABLE_LANGUAGES
from wiregrad.dtypes import WireType
from wiregrad.errors import InputError, short_repr
from wiregrad.inspect.receipt.alone import OpUse, build_op_circuit, op_test_points, collect_op_uses
from wiregrad.inspect.receipt.answer import OpDifference, LanguageRun, Receipt, ResultDifference, WorstDifference
from wiregrad.inspect.receipt.judge import RUN_ERRORS, MAX_OP_ULPS, ReceiptPoint, ulp_distances, largest_ulps
from wiregrad.inspect.receipt.trial import ListingCase, LanguageTrial, run_language
from wiregrad.ir import CircuitGraph, Row
from wiregrad.ops import Elementwise

__all__ = ["OpDifference", "LanguageRun", "Receipt", "ResultDifference", "WorstDifference", "receipt"]

DEFAULT_POINT_COUNT = 24
"""Default number of points at which a circuit is tried."""
MAX_OP_USES = 120
"""Maximum number of different uses of ops that are tried alone."""
AWKWARD_INPUTS = (0.0, 0.0, 1.0, -1.0, 0.5, 6.0, np.inf, np.nan)
"""Special values that random inputs take now and then."""
CUDA_NOT_RUN = LanguageRun("cuda", missing="a kernel runs on a GPU: compile circuit.to_cuda() with nvcc and compare there")


def receipt(circuit: CircuitGraph, points: int | Sequence[Mapping[str, Any]] = DEFAULT_POINT_COUNT, *, seed: int = 0) -> Receipt:
    """Run the listings of a circuit in every language installed here and compare them with the interpreter.

    `points` is the number of random points, ordinary and special ones, or a list of points.

    >>> import wiregrad as wg
    >>> answer = receipt(wg.circuit("f = a * b + c"), points=4)
    >>> answer.ok, answer.worst.ulps
    (True, 0.0)
    """
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"seed must be a non-negative integer; got {short_repr(seed)}")
    # Only arithmetic is compared, so the branches of a traced function need not be valid at the points.
    circuit = circuit.unchecked()
    rng = np.random.default_rng(seed)
    candidates = _make_points(circuit, points, rng)
    table = _runnable_points(circuit, candidates)
    whole = [ListingCase(part, [ReceiptPoint(part, inputs) for inputs in table]) for part in _split_outputs(circuit)]
    used = collect_op_uses(circuit)
    alone = dict(_single_op_cases(circuit, dict(islice(used.items(), MAX_OP_USES)), table, rng))
    trials = [run_language(language, [*whole, *alone.values()]) for language in RUNNABLE_LANGUAGES]
    named = len(whole) > 1
    return Receipt(
        circuit=circuit.name,
        points=len(table),
        seed=seed,
        languages=(*(trial.summarize_run(len(whole)) for trial in trials), CUDA_NOT_RUN),
        ops=tuple(_compare_op(use, k + len(whole), case, trials) for k, (use, case) in enumerate(alone.items())),
        results=tuple(result for k, case in enumerate(whole) for result in _compare_results(k, case, trials, named)),
        problems=tuple(problem for trial in trials for problem in trial.problems),
        refused=len(candidates) - len(table),
        not_tried=max(0, len(used) - MAX_OP_USES),
    )


def _split_outputs(circuit: CircuitGraph) -> list[CircuitGraph]:
    """Return a circuit for each output."""
    return [circuit] if len(circuit.outputs) == 1 else [circuit.with_output(name) for name in circuit.outputs]


def _make_points(circuit: CircuitGraph, points: Any, rng: np.random.Generator) -> list[list[Any]]:
    """Return the value of every input at each point."""
    if isinstance(points, int) and not isinstance(points, bool) and points > 0:
        kinds = [circuit.type_of(node) for node in circuit.input_indices()]
        return [[_random_value(kind, rng) for kind in kinds] for _ in range(points)]
    if isinstance(points, Sequence) and points and all(isinstance(point, Mapping) for point in points):
        return [bind_inputs(circuit, [point], {}) for point in points]
    raise InputError(f"points must be a positive integer or a list of points, as [{{'x': 1.0}}]; got {short_repr(points)}")


def _runnable_points(circuit: CircuitGraph, table: Sequence[list[Any]]) -> list[list[Any]]:
    """Return the points at which the circuit can be run; a matrix, for example, may have no inverse."""
    runnable = list[list[Any]]()
    reason = ""
    for inputs in table:
        try:
            interpreter.run_all_outputs(circuit, inputs)
            runnable.append(inputs)
        except RUN_ERRORS as error:
            reason = str(error).splitlines()[0]
    if not runnable:
        raise InputError(
            f"the circuit cannot be run at any of {len(table)} points ({reason}); pass others as points=[...]"
        )
    return runnable


def _random_value(kind: WireType, rng: np.random.Generator) -> Any:
    """Return a random value for a wire: mostly ordinary, sometimes on a kink, rarely infinite or NaN."""
    if kind.dtype.kind in "bi":
        return rng.integers(0, 2, size=kind.shape).astype(kind.dtype)[()]
    awkward = np.asarray(rng.random(kind.shape)) < (0.02 if kind.shape else 0.15)
    values = np.where(awkward, rng.choice(AWKWARD_INPUTS, size=kind.shape), rng.normal(size=kind.shape) * 2.0)
    turned = values * np.exp(1j * rng.uniform(0.0, 6.0)) if kind.dtype.kind == "c" else values
    return turned.astype(kind.dtype)[()]


def _single_op_cases(
    circuit: CircuitGraph, used: Mapping[OpUse, Sequence[Row]], table: Sequence[Any], rng: np.random.Generator
) -> Iterator[tuple[OpUse, ListingCase]]:
    """Return a case for every use of an op that can be tried alone."""
    runs = [interpreter.evaluate_nodes(circuit, inputs) for inputs in table[:8]]
    for use, rows in used.items():
        small = build_op_circuit(use)
        if small is not None:
            yield use, ListingCase(small, [ReceiptPoint(small, point) for point in op_test_points(use, rows, runs, rng)])


def _compare_op(use: OpUse, k: int, case: ListingCase, trials: Sequence[LanguageTrial]) -> OpDifference:
    """Compare an op alone with the interpreter in each language."""
    values = dict[str, float]()
    slopes = dict[str, float]()
    fits = True
    # The value of an elementwise op must be accurate; that of an op on arrays adds up many roundings.
    excused = 0 if not isinstance(use.op, Elementwise) else 1
    for trial in trials:
        rows = trial.rows[k]
        if rows is not None:
            off = _result_distances(rows, case)
            values[trial.language] = float(np.max(off[:, 0]))
            slopes[trial.language] = float(np.max(off[:, 1:], initial=0.0))
            far = np.argwhere(off > MAX_OP_ULPS).tolist()
            judged = [r >= excused and case.points[i].judge_result(r, rows[i][r]).fits for i, r in far]
            fits = fits and all(judged)
    return OpDifference(use.op.name, use.text, values, slopes, fits)


def _result_distances(rows: Sequence[Any], case: ListingCase) -> Any:
    """Return the distance of each result in ulp, at each point."""
    expected = [point.reference_results for point in case.points]
    if case.is_plain_double:
        return ulp_distances(np.array(rows), np.array(expected))
    return np.array([list(map(largest_ulps, row, others)) for row, others in zip(rows, expected, strict=True)])


def _compare_results(k: int, case: ListingCase, trials: Sequence[LanguageTrial], named: bool) -> Iterator[ResultDifference]:
    """Compare the value and each gradient of a circuit in each language."""
    circuit = case.circuit
    of = f" of {circuit.output}" if named else ""
    gradients = [] if case.listing_kind == "value" else [f"gradient{of} by {name}" for name in circuit.inputs]
    for result, name in enumerate([circuit.output, *gradients]):
        yield _compare_result(name, case, {trial.language: trial.rows[k] for trial in trials}, result)


def _compare_result(name: str, case: ListingCase, rows_by_language: Mapping[str, Any], result: int) -> ResultDifference:
    steps = dict[str, float]()
    ratios = dict[str, float]()
    fits = dict[str, bool]()
    shaken = 0
    for language, rows in rows_by_language.items():
        if rows is None:
            continue
        verdicts = [point.judge_result(result, row[result]) for point, row in zip(case.points, rows, strict=True)]
        explained = [verdict for verdict in verdicts if not (verdict.shaken and verdict.fits)]
        steps[language] = max((verdict.ulps for verdict in explained), default=0.0)
        ratios[language] = max((verdict.ratio for verdict in explained if verdict.ulps > 0), default=0.0)
        fits[language] = all(verdict.fits for verdict in verdicts)
        shaken += len(verdicts) - len(explained)
    return ResultDifference(name, steps, ratios, fits, shaken)
