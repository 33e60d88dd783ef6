"""Functions and ops on arrays: each is checked by the checks that follow from its samples."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import RecordError
from wiregrad.ops import TABLE
from wiregrad.ops.array_ops import LinearOp, Reduction
from wiregrad.ops.functions import FUNCTIONS
from wiregrad.ops.functions.registry import register_function

from ..support.array_checks import elementwise_ops, list_array_checks
from ..support.compare import PlannedCheck
from ..support.function_checks import CheckSubject, find_unsampled, list_subjects, plan_checks, plan_precision_checks
from ..support.sampling import choose_count

SUBJECTS = {subject.name: subject for subject in list_subjects()}
ELEMENTWISE = {op.name: op for op in elementwise_ops()}
PERCENT = choose_count(3, 100)
"""Which part of the checks is run."""
PRECISION_PERCENT = choose_count(8, 100)
"""Which part of the checks in other precisions is run."""


def draw_sample(name: str, planned: Iterable[PlannedCheck], percent: float = PERCENT) -> list[PlannedCheck]:
    """Return a random share of the checks of a function or op, the same in every run."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return [check for check in planned if 100 * rng.random() < percent]


def draw_one_sample(subject: CheckSubject) -> CheckSubject:
    """Return a subject with one of its samples, the same in every run; with all of them where everything is checked."""
    if PERCENT == 100:
        return subject

    def one_sample(rng: np.random.Generator) -> list[tuple[Any, ...]]:
        samples = subject.samples(rng)
        return [samples[zlib.crc32(subject.name.encode()) % len(samples)]]

    return replace(subject, samples=one_sample)


def failures(planned: Iterable[PlannedCheck]) -> list[str]:
    return [found for check in planned if (found := check.find_failure())]


def report(found: list[str]) -> str:
    return f"{len(found)} failures, of which the first are\n" + "\n".join(found[:8])


def case_of(name: str) -> Any:
    """Return the case of a subject: of a distribution, only the density is checked in the ordinary run."""
    is_rare = "." in name and not name.endswith((".logpdf", ".logpmf")) and not name.startswith("special.")
    return pytest.param(name, marks=pytest.mark.full) if is_rare else name


@pytest.mark.parametrize("name", [*map(case_of, SUBJECTS)])
def test_function(name: str) -> None:
    checks = [*plan_checks(SUBJECTS[name])]
    planned = draw_sample(name, checks) or checks[:1]
    found = failures(planned)

    assert planned
    assert not found, report(found)


PRECISIONS = [np.dtype(np.float16), np.dtype(np.longdouble)]
PARTS = 6
"""Into how many tests the checks in other precisions are divided."""


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
def test_functions_in_other_precisions(dtype: Any, part: int) -> None:
    planned = [
        check
        for subject in list(SUBJECTS.values())[part::PARTS]
        for check in draw_sample(
            subject.name, plan_precision_checks(draw_one_sample(subject), dtype), PRECISION_PERCENT
        )
    ]
    planned += [
        check
        for name in list(ELEMENTWISE)[part::PARTS]
        for check in draw_sample(name, list_array_checks(ELEMENTWISE[name], [dtype]), PRECISION_PERCENT / 4)
    ]
    found = failures(planned)

    assert len(planned) > 100
    assert not found, report(found)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.full) if name.endswith("_moment") else name for name in ELEMENTWISE]
)
def test_elementwise_op_on_arrays(name: str) -> None:
    checks = [*list_array_checks(ELEMENTWISE[name])]
    planned = draw_sample(name, checks) or checks[:1]
    found = failures(planned)

    assert planned
    assert not found, report(found)


@pytest.mark.full
def test_at_least_60000_checks_are_made() -> None:
    planned = {name: plan_checks(subject) for name, subject in SUBJECTS.items()}
    planned |= {f"{name} on arrays": list_array_checks(op) for name, op in ELEMENTWISE.items()}
    count = sum(len(draw_sample(name, checks)) for name, checks in planned.items())
    sys.stdout.write(f"{count} checks of {len(planned)} functions and ops\n")

    assert count >= 60_000


def test_everything_differentiable_has_samples() -> None:
    assert find_unsampled() == []


def test_every_subject_has_six_samples() -> None:
    few = {name: len(subject.samples(np.random.default_rng(7))) for name, subject in SUBJECTS.items()}

    assert {name: count for name, count in few.items() if count < 6 and not name.startswith("op_")} == {}


def wrong_sum(**rules: Any) -> CheckSubject:
    record = TABLE["sum"]
    assert isinstance(record, LinearOp)
    samples = [(np.array([[1.0, 2.0], [3.0, 5.0]]), {"axes": (-1,), "keepdims": False})]
    return CheckSubject("wrong", replace(record, **rules), lambda rng: samples)


def labels(subject: CheckSubject) -> set[str]:
    return {check.label.split(": ")[-1] for check in plan_checks(subject) if check.find_failure()}


def test_a_right_rule_passes() -> None:
    assert labels(wrong_sum()) == set()


def test_a_wrong_transpose_fails() -> None:
    right = wrong_sum().run.transpose  # type: ignore[attr-defined]
    found = labels(wrong_sum(transpose=lambda g, slot, x, **settings: 2.0 * right(g, slot, x, **settings)))

    assert {"slopes 0", "direction 0", "modes"} <= found


def test_a_rule_that_cannot_be_differentiated_again_fails() -> None:
    record = TABLE["logsumexp"]
    assert isinstance(record, Reduction)
    right = record.slope
    stopped = replace(record, slope=lambda x, y, **settings: TABLE["stop_gradient"](right(x, y, **settings)))
    assert record.samples is not None
    found = labels(CheckSubject("stopped", stopped, record.samples))

    assert {"second order, forward over reverse", "second order, reverse over reverse"} <= found
    assert not {"slopes 0", "direction 0", "modes"} & found


def test_an_op_that_counts_axes_from_the_front_fails() -> None:
    assert "vmap" in labels(wrong_sum(forward=lambda x, *, axes, keepdims: np.sum(x, axis=1, keepdims=keepdims)))


def test_a_gradient_in_another_dtype_is_cast() -> None:
    right = wrong_sum().run.transpose  # type: ignore[attr-defined]
    found = labels(wrong_sum(transpose=lambda g, slot, x, **settings: right(g, slot, x, **settings).astype(np.float64)))

    assert "gradient type 0" not in found


def test_an_op_that_changes_its_argument_fails() -> None:
    def spoil(x: Any, *, axes: Any, keepdims: bool) -> Any:
        y = np.sum(x, axis=axes, keepdims=keepdims)
        if x.flags.writeable:
            x += 1.0
        return y

    assert "kept" in labels(wrong_sum(forward=spoil))


def test_the_gradient_of_a_determinant_of_infinities_ends() -> None:
    matrix = np.array([[np.inf, np.inf, 2.8e307], [np.inf, np.inf, 8.9e306], [2.8e307, 8.9e306, 0.9]])
    with np.errstate(all="ignore"):
        gradient = wg.grad(np.linalg.det)(matrix)

    assert np.isnan(gradient).all()


def test_a_function_is_registered_once() -> None:
    with pytest.raises(RecordError, match="a function named tile is registered already"):
        register_function(np.tile)(FUNCTIONS["tile"].run)


def test_apply_over_axes_refuses_a_function_that_loses_axes() -> None:
    with pytest.raises(ValueError, match="correct shape"):
        wg.grad(lambda x: np.sum(np.apply_over_axes(lambda y, axis: np.sum(y), x, [0])))(np.ones((2, 3)))
