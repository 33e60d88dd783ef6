"""Receipts: what they say of good listings, of bad ones, and of languages that are not there."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad import codegen
from wiregrad.backends import run_listings
from wiregrad.backends.run_listings import (
    C_FLAGS,
    SANITIZER_FLAGS,
    ListingError,
    ListingTool,
    RunnableListing,
    find_tool,
    run_c,
    run_js,
    run_numpy,
    run_python,
)
from wiregrad.cli.command_base import to_plain_data
from wiregrad.errors import InputError
from wiregrad.inspect.receipt import MAX_OP_ULPS, Receipt, ReceiptPoint, largest_ulps, receipt, ulp_distances

SIGMOID = "f = 1 / (1 + exp(-(w0*x0 + w1*x1 + w2)))"


def by_name(found: Receipt) -> dict[str, Any]:
    return {language.name: language for language in found.languages}


def with_language(monkeypatch: pytest.MonkeyPatch, name: str, **changes: Any) -> None:
    changed = [replace(one, **changes) if one.name == name else one for one in run_listings.RUNNABLE_LANGUAGES]
    monkeypatch.setattr("wiregrad.inspect.receipt.RUNNABLE_LANGUAGES", tuple(changed))


def miswritten(monkeypatch: pytest.MonkeyPatch, language: str, old: str, new: str) -> None:
    """Make the generator of a language write something else."""
    write = codegen.write_listing

    def wrong(circuit: Any, to: str, *options: Any) -> str:
        text = write(circuit, to, *options)
        return text.replace(old, new) if to == language else text

    monkeypatch.setattr("wiregrad.inspect.receipt.write_listing", wrong)


def test_every_language_here_agrees_on_the_sigmoid_example() -> None:
    found = wg.circuit(SIGMOID).receipt(points=8)

    assert found.ok
    assert {row.op for row in found.ops} == {"multiply", "add", "negative", "exp", "divide"}
    assert [row.result for row in found.results][:2] == ["f", "gradient by w0"]
    for row in found.results:
        assert set(row.ulps) == {"python", "numpy", "c", "js"}


def test_a_receipt_is_read_as_two_tables_and_a_verdict() -> None:
    lines = str(receipt(wg.circuit("f = exp(a) * b"), points=3)).splitlines()

    assert lines[0] == "f at 3 points (seed 0), against the interpreter"
    assert any(line.startswith("  c: ") for line in lines)
    assert any(line.startswith("  exp(x) ") for line in lines)
    assert any(line.startswith("  gradient by b") for line in lines)
    assert lines[-1] == "ok: python, numpy, c and js agree with the interpreter to within rounding"


def test_a_receipt_becomes_json() -> None:
    document = json.loads(json.dumps(to_plain_data(receipt(wg.circuit("log(a)"), points=4))))

    assert document["ops"][0]["op"] == "log"
    assert document["languages"][0]["name"] == "python"


def test_the_same_seed_gives_the_same_receipt() -> None:
    circuit = wg.circuit("f = sin(a) / b")

    assert receipt(circuit, points=5, seed=3) == receipt(circuit, points=5, seed=3)


def test_points_can_be_given() -> None:
    found = receipt(wg.circuit("f = sqrt(a)"), points=[{"a": 4.0}, {"a": math.nan}, {"a": -math.inf}])

    assert found.ok
    assert found.points == 3


@pytest.mark.parametrize("points", [0, -1, True, "a", [], [1.0], None, 2.5])
def test_what_are_no_points_is_refused(points: Any) -> None:
    with pytest.raises(InputError, match="points must be a positive integer"):
        receipt(wg.circuit("a * b"), points=points)


def test_a_missing_tool_is_reported_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with_language(monkeypatch, "c", tool=lambda: None)
    found = receipt(wg.circuit("a * b"), points=2)

    assert found.ok
    assert "install gcc or clang" in by_name(found)["c"].missing
    assert "c" not in found.results[0].ulps
    assert "c did not run: install gcc" in str(found)


def test_where_no_language_runs_a_receipt_is_not_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = tuple(replace(one, tool=lambda: None) for one in run_listings.RUNNABLE_LANGUAGES)
    monkeypatch.setattr("wiregrad.inspect.receipt.RUNNABLE_LANGUAGES", nowhere)
    found = receipt(wg.circuit("a * b"), points=2)

    assert not found.ok
    assert "no language here could run the whole circuit" in str(found)


@pytest.mark.parametrize(("language", "old", "new"), [("python", "math.sin(", "math.cos("), ("js", "* b", "* (1 + b)")])
def test_a_wrong_listing_is_found(monkeypatch: pytest.MonkeyPatch, language: str, old: str, new: str) -> None:
    miswritten(monkeypatch, language, old, new)
    found = receipt(wg.circuit("f = sin(a) * b"), points=6)

    assert not found.ok
    assert found.worst is not None
    assert found.worst.language == language
    assert "further off than" in str(found)


def test_a_wrong_constant_in_the_tenth_digit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    miswritten(monkeypatch, "c", "0.1", "0.1000000001")
    found = receipt(wg.circuit("f = 0.1 * a + b"), points=6)

    assert not found.ok
    assert [row.fits["c"] for row in found.results] == [False, False, True]


def test_a_listing_that_does_not_compile_is_reported_in_the_compilers_words(monkeypatch: pytest.MonkeyPatch) -> None:
    miswritten(monkeypatch, "c", "const double", "constant double")
    found = receipt(wg.circuit("f = a * b"), points=2)

    assert not found.ok
    assert "constant" in found.problems[0]
    assert by_name(found)["c"].missing
    assert not by_name(found)["js"].missing


def test_a_listing_that_raises_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    miswritten(monkeypatch, "python", "def divide(a, b):", "def divide(a, b):\n    return a / b\n")
    found = receipt(wg.circuit("f = a / b"), points=[{"a": 1.0, "b": 0.0}])

    assert not found.ok
    assert "ZeroDivisionError" in found.problems[0]


def test_array_circuits_run_where_listings_take_arrays() -> None:
    circuit = wg.trace(lambda w, x: np.sum(np.tanh(w @ x)), np.ones((2, 3)), np.ones(3))
    found = receipt(circuit, points=3)

    assert found.ok
    assert not by_name(found)["numpy"].missing
    assert "arrays" in by_name(found)["js"].missing
    assert {"matmul", "tanh", "sum"} <= {row.op for row in found.ops}


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (lambda x: np.tanh(x) * 2.0, (np.ones(3),)),
        (lambda x: np.sum(x * x), (np.ones((0, 3)),)),
        (lambda x: np.sum(x * x), (np.ones(3, np.float32),)),
        (np.exp, (np.float32(1.0),)),
        (lambda x: np.sum(np.abs(x)), (np.ones(2) + 1j,)),
        (lambda x, i: np.sum(x[i]), (np.arange(4.0), np.array([0, 2]))),
        (lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)), (np.arange(4.0),)),
    ],
)
def test_wires_of_any_type_have_a_receipt(function: Any, arguments: tuple[Any, ...]) -> None:
    found = receipt(wg.trace(function, *arguments), points=3)

    assert found.ok, str(found)


def test_points_at_which_a_circuit_cannot_run_are_left_out_and_counted() -> None:
    circuit = wg.trace(lambda x: np.sum(np.linalg.cholesky(x)), np.eye(2))
    found = receipt(circuit, points=[{"x": np.eye(2)}, {"x": -np.eye(2)}])

    assert found.ok
    assert (found.points, found.refused) == (1, 1)
    assert "left out: 1 point" in str(found)
    with pytest.raises(InputError, match="any of 1 points"):
        receipt(circuit, points=[{"x": -np.eye(2)}])


def test_ops_that_were_not_tried_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wiregrad.inspect.receipt.MAX_OP_USES", 2)
    found = receipt(wg.circuit("f = sin(a) + cos(a) * exp(a)"), points=2)

    assert (len(found.ops), found.not_tried) == (2, 3)
    assert "3 more uses of ops not tried alone" in str(found)


def test_several_outputs_are_named_one_by_one() -> None:
    builder = wg.Builder()
    x = builder.input("x")
    found = receipt(builder.build(labels={"u": builder.exp(x), "v": builder.sin(x)}), points=3)

    assert found.ok
    assert [row.result for row in found.results] == ["u", "gradient of u by x", "v", "gradient of v by x"]


def test_a_circuit_without_inputs_has_a_receipt() -> None:
    builder = wg.Builder()
    found = receipt(builder.build(builder.exp(builder.constant(1.0))), points=2)

    assert found.ok


def test_a_slope_that_cancels_is_told_apart_from_one_that_is_wrong() -> None:
    found = receipt(wg.circuit("f = tanh(x)"), points=[{"x": 4.8}])
    (row,) = found.ops

    assert found.ok
    assert row.cancels
    assert max(row.value.values()) <= MAX_OP_ULPS < max(row.slopes.values())


def test_distances_count_the_numbers_in_between() -> None:
    up = np.nextafter(1.0, 2.0)

    assert largest_ulps(up, 1.0) == 1.0
    assert largest_ulps(-5e-324, 5e-324) == 2.0
    assert largest_ulps(0.0, -0.0) == 0.0
    assert largest_ulps(math.inf, np.finfo(float).max) == 1.0
    assert largest_ulps(math.inf, -math.inf) > 1e18
    assert largest_ulps(math.nan, math.nan) == 0.0
    assert largest_ulps(1.0, math.nan) == math.inf
    assert largest_ulps(np.float32(1.0) + np.finfo(np.float32).eps, np.float32(1.0)) == 1.0
    assert largest_ulps(np.ones(2), np.ones(3)) == math.inf
    assert largest_ulps(True, np.True_) == 0.0
    np.testing.assert_array_equal(ulp_distances([1.0, up], [1.0, 1.0]), [0.0, 1.0])


def test_a_difference_is_judged_by_the_circuits_own_rounding() -> None:
    circuit = wg.circuit("f = (a + 1e8) - 1e8")
    point = ReceiptPoint(circuit, [np.float64(0.1)])
    wanted = point.reference_results[0]

    assert point.judge_result(0, wanted) == (0.0, 0.0, True, False)
    assert point.judge_result(0, wanted + 1e-9).fits
    assert not point.judge_result(0, wanted + 1e-6).fits


def test_a_branch_that_a_last_place_flips_is_no_fault_of_a_listing() -> None:
    circuit = wg.circuit("f = where(exp(log(x)) > x, 1, 2)")
    point = ReceiptPoint(circuit, [np.float64(3.0)])
    (one, two) = (point.judge_result(0, value) for value in (1.0, 2.0))

    assert one.fits
    assert two.fits
    assert one.shaken != two.shaken
    assert not point.judge_result(0, 200.0).fits


def test_the_sign_of_a_nan_counts_as_positive() -> None:
    circuit = wg.circuit("f = copysign(x, log(-1 - x * x))")
    point = ReceiptPoint(circuit, [np.float64(3.0)])

    assert point.judge_result(0, 3.0).fits
    assert not point.judge_result(0, -3.0).fits


def test_a_nan_for_a_number_is_never_rounding() -> None:
    point = ReceiptPoint(wg.circuit("f = a * b"), [np.float64(2.0), np.float64(3.0)])

    assert not point.judge_result(0, math.nan).fits
    assert not point.judge_result(1, math.inf).fits


TEXTS: dict[str, tuple[Any, str]] = {
    "python": (run_python, "def f(a, b):\n    return a * b, {'a': b, 'b': a}\n"),
    "numpy": (run_numpy, "def f(a, b):\n    return a * b, {'a': b, 'b': a}\n"),
    "c": (run_c, "double f(const double *x, double *g) { g[0] = x[1]; g[1] = x[0]; return x[0] * x[1]; }\n"),
    "js": (run_js, "export function f(x) { return { value: x.a * x.b, grads: { a: x.b, b: x.a } }; }\n"),
}


@pytest.mark.parametrize("language", TEXTS)
def test_listings_run_and_give_a_row_for_each_point(language: str) -> None:
    run, text = TEXTS[language]
    program = RunnableListing(text, "f", ("a", "b"))
    found = run([program], [[[2.0, 3.0], [math.inf, 0.0], [math.nan, 1.0]]])

    np.testing.assert_array_equal(found[0], [[6, 3, 2], [math.nan, 0, math.inf], [math.nan, 1, math.nan]])


@pytest.mark.parametrize("language", TEXTS)
def test_no_listings_give_no_results(language: str) -> None:
    assert TEXTS[language][0]([], []) == []


@pytest.mark.parametrize("language", TEXTS)
def test_points_of_the_wrong_width_are_refused(language: str) -> None:
    run, text = TEXTS[language]

    with pytest.raises(ListingError, match="wants a row of 2 numbers per point"):
        run([RunnableListing(text, "f", ("a", "b"))], [[[1.0]]])


@pytest.mark.parametrize(
    ("run", "text", "words"),
    [
        (run_python, "def f(a):\n    return a +\n", "not valid Python"),
        (run_python, "g = 1\n", "defines no function f"),
        (run_python, "def f(a):\n    return 1 / 0\n", "ZeroDivisionError"),
        (run_python, "def f(a):\n    return a, {}\n", "KeyError"),
        (run_numpy, "def f(a):\n    return a\n", "returned"),
        (run_c, "double f(const double *x, double *grad) { return y; }\n", "refused a listing"),
        (run_c, "double f(const double *x, double *grad) { for (;;) grad[0] = x[0]; }\n", "took more than"),
        (run_js, "export function f(x) { return { value: 1 }; }\n", "failed when it was run"),
        (run_js, "export function f(x) { return { value: 1, grads: {} }; }\n", "where a number belongs"),
        (run_js, "export function g(x) {\n", "failed when it was run"),
    ],
)
def test_a_broken_listing_is_a_typed_error(run: Any, text: str, words: str) -> None:
    limit = {"timeout": 1.0} if words == "took more than" else {}

    with pytest.raises(ListingError, match=words):
        run([RunnableListing(text, "f", ("a",))], [[[1.0]]], **limit)


@pytest.mark.parametrize(
    "body",
    [
        "grad[0] = x[1]; return 1.0;",
        "grad[1] = x[0]; return 1.0;",
        "int k = 2147483647; grad[0] = k + (int)x[0]; return 1.0;",
    ],
)
def test_sanitizers_catch_what_a_listing_must_not_do(body: str) -> None:
    program = RunnableListing(f"double f(const double *x, double *grad) {{ {body} }}\n", "f", ("a",))
    values = run_c([program], [[[1.0]]], flags=C_FLAGS) if "int k" in body else None

    assert values is None or len(values) == 1
    with pytest.raises(ListingError, match="failed when it was run"):
        run_c([program], [[[1.0]]], flags=SANITIZER_FLAGS)


def test_listings_with_the_same_helpers_share_a_file() -> None:
    def program(k: int) -> RunnableListing:
        helper = f"static double helper(double x) {{ return {k}.0 * x; }}\n"
        return RunnableListing(
            f"{helper}double f{k}(const double *x) {{ return helper(x[0]); }}\n", f"f{k}", ("a",), ("y",), "value"
        )

    found = run_c([program(k) for k in range(5)], [[[2.0]]] * 5)

    assert [float(row[0, 0]) for row in found] == [0.0, 2.0, 4.0, 6.0, 8.0]


@pytest.mark.parametrize(("run", "advice"), [(run_c, "install gcc"), (run_js, "install Node")])
def test_a_missing_compiler_is_a_typed_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, run: Any, advice: str
) -> None:
    monkeypatch.setattr(run_listings, "find_c_compiler", lambda: None)
    monkeypatch.setattr(run_listings, "find_node", lambda: None)
    with pytest.raises(ListingError, match=advice):
        run([RunnableListing("", "f", ("a",))], [[[1.0]]])


def test_tools_are_called_without_a_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    called: list[Sequence[str]] = []
    real = run_listings.subprocess.run

    def watched(command: Any, **options: Any) -> Any:
        assert not options.get("shell")
        called.append(command)
        return real(command, **options)

    monkeypatch.setattr(run_listings.subprocess, "run", watched)
    run, text = TEXTS["c"]
    run([RunnableListing(text, "f", ("a", "b"))], [[[1.0, 2.0]]])

    assert len(called) == 2
    assert all(isinstance(command, list) for command in called)


def test_a_tool_that_is_not_there_is_none() -> None:
    assert find_tool("no-such-compiler") is None
    assert isinstance(find_tool("no-such-compiler", "gcc", "cc", "clang"), ListingTool)
