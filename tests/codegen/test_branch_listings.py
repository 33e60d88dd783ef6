"""Code of compiled functions with all recorded branches, against plain Python, at points on every side of them."""

from __future__ import annotations

import json
import math
import os
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import wiregrad as wg
from wiregrad.backends.run_listings import SANITIZER_FLAGS
from wiregrad.errors import NoRuleError, OperandError

from ..support.limits import PATIENCE
from ..support.sampling import choose_count

EXAMPLES = 4
"""At how many points a function is recorded."""
INPUTS = ("a", "b", "c")
DRIVER = """
#include <stdio.h>
int main(void) {
    double x[3], out[5];
    while (fread(x, sizeof(double), 3, stdin) == 3) {
        out[0] = value_and_grad_status(x);
        out[1] = value_and_grad(x, out + 2);
        fwrite(out, sizeof(double), 5, stdout);
    }
    return 0;
}
"""


RecordedPaths = set[tuple[bool, ...]] | None
"""The recorded ways through a function; None if the listing has no statuses, so that it must be right everywhere."""


class BranchingProgram(NamedTuple):
    """A function of three numbers, and a function that says which way it takes at a point."""

    f: Callable[..., Any]
    find_path: Callable[..., tuple[bool, ...]]


def write_expression(rng: random.Random) -> str:
    one, two = rng.choice(["v", *INPUTS]), rng.choice(["v", *INPUTS])
    return rng.choice(
        [f"{one} * {two}", f"{one} + 0.5 * {two}", f"np.tanh({one}) - {two}", f"np.exp(-{one} * {one})", f"{one} / 3.0"]
    )


def write_statements(rng: random.Random, depth: int) -> list[str]:
    """Return lines that change `v`; conditions are given to `note`, and only loops of a few rounds occur."""
    kind = rng.randrange(4) if depth else 0
    if kind == 0:
        return [f"v = {write_expression(rng)}"]
    condition = (
        f"note({rng.choice(['v', *INPUTS])} {rng.choice(['<', '>', '<=', '>='])} {rng.choice([-0.5, 0.0, 0.7])})"
    )
    inner = [f"    {line}" for line in write_statements(rng, depth - 1)]
    if kind == 1:
        return ["for k in range(3):", f"    if {condition}:", "        break", *inner]
    other = [f"    {line}" for line in write_statements(rng, depth - 1)]
    return [f"if {condition}:", *inner, "else:", *other, *write_statements(rng, depth - 1)]


def make_program(seed: int) -> BranchingProgram:
    """Return a random program without a source file.

    Unless its branches can be read from its bytecode, each recording is one way through it.
    """
    rng = random.Random(seed)
    lines = ["v = a * b + c", *write_statements(rng, 3), *write_statements(rng, 2), "return v + a"]
    text = "\n".join([f"def f({', '.join(INPUTS)}):", *(f"    {line}" for line in lines)])
    plain: dict[str, Any] = {"np": np, "note": bool}
    noted: dict[str, Any] = {"np": np}
    exec(re.sub(r"note\((.*?)\)", r"\1", text), plain)
    exec(text, noted)

    def find_path(*point: float) -> tuple[bool, ...]:
        path = list[bool]()

        def note(condition: object) -> bool:
            path.append(bool(condition))
            return path[-1]

        noted["note"] = note
        noted["f"](*point)
        return tuple(path)

    return BranchingProgram(plain["f"], find_path)


def draw_points(seed: int, count: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(count, 3)) * rng.choice([0.3, 1.0, 3.0], (count, 1))
    points[rng.random((count, 3)) < 0.05] = 0.7
    return points


def run_c(text: str, points: NDArray[np.float64], folder: Path) -> NDArray[np.float64]:
    """Compile a listing with warnings as errors and with sanitizers; return a row per point: status, value, grads."""
    source = folder / "branches.c"
    source.write_text(text + DRIVER)
    subprocess.run(
        ["gcc", *SANITIZER_FLAGS, str(source), "-o", str(folder / "branches"), "-lm"], check=True, timeout=PATIENCE
    )
    # Several sanitized programs at once would wait for one another when they look for leaks.
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(
        [str(folder / "branches")],
        input=points.tobytes(),
        capture_output=True,
        check=True,
        env=environment,
        timeout=PATIENCE,
    )
    assert done.stderr == b""
    return np.frombuffer(done.stdout).reshape(-1, 5)


def run_python(text: str, points: NDArray[np.float64]) -> NDArray[np.float64]:
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    rows = []
    for point in points.tolist():
        status = namespace["value_and_grad_status"](*point)
        if status:
            with pytest.raises(ValueError, match=f"not recorded: status {status}$"):
                namespace["value_and_grad"](*point)
            rows.append([status, *[np.nan] * 4])
        else:
            value, grads = namespace["value_and_grad"](*point)
            rows.append([0, value, *grads.values()])
    return np.array(rows, float)


def run_js(text: str, points: NDArray[np.float64], folder: Path) -> NDArray[np.float64]:
    program = """
import { valueAndGrad, valueAndGradStatus } from "./branches.mjs";
import { readFileSync } from "node:fs";
const rows = JSON.parse(readFileSync(0, "utf8")).map(([a, b, c]) => {
  const status = valueAndGradStatus({ a, b, c });
  try {
    const { value, grads } = valueAndGrad({ a, b, c });
    return [status, value, grads.a, grads.b, grads.c];
  } catch (error) {
    return [error instanceof RangeError ? status : -1, null, null, null, null];
  }
});
console.log(JSON.stringify(rows));
"""
    (folder / "branches.mjs").write_text(text)
    (folder / "main.mjs").write_text(program)
    told = json.dumps(points.tolist())
    done = subprocess.run(
        ["node", str(folder / "main.mjs")], input=told, capture_output=True, check=True, text=True, timeout=PATIENCE
    )
    return np.array(json.loads(done.stdout), float)


def record_program(seed: int) -> tuple[BranchingProgram, Any, RecordedPaths]:
    """Return a program, the compiled function after a few calls, and the ways that it took in them."""
    program = make_program(seed)
    compiled = wg.compile(program.f, limit=EXAMPLES)
    examples = draw_points(seed + 1000, EXAMPLES).tolist()
    for example in examples:
        compiled.value_and_grad(*example)
    recorded = {program.find_path(*example) for example in examples}
    return program, compiled, recorded if list_statuses(compiled.to_python()) else None


def list_statuses(text: str) -> dict[str, str]:
    """Return the checks that the head of a listing names, by status."""
    return dict(re.findall(r"^  (\d+): (.*) was (?:True|False)", text, re.MULTILINE))


def check_rows(
    program: BranchingProgram, recorded: RecordedPaths, points: NDArray[np.float64], rows: NDArray[np.float64]
) -> None:
    """Compare with the plain function where its way was recorded, and with the status elsewhere."""
    paths = [program.find_path(*point) for point in points.tolist()]
    is_recorded = np.array([recorded is None or path in recorded for path in paths])
    if recorded is not None:
        check_statuses(recorded, paths, rows[:, 0])
    differentiate = wg.value_and_grad(program.f, argnums=(0, 1, 2))
    valid = points[is_recorded].tolist()
    wanted = [[program.f(*point), *differentiate(*point)[1]] for point in valid]

    assert ((rows[:, 0] == 0) == is_recorded).all()
    assert np.isnan(rows[~is_recorded, 1:]).all()
    np.testing.assert_allclose(rows[is_recorded, 1:], np.array(wanted).reshape(-1, 4), rtol=1e-12, atol=1e-14)


def check_statuses(
    recorded: set[tuple[bool, ...]], paths: list[tuple[bool, ...]], statuses: NDArray[np.float64]
) -> None:
    """Check that each branch that was not recorded has a status of its own, which is the same at all its points."""
    known = {path[:end] for path in recorded for end in range(len(path) + 1)}
    pairs = set[tuple[float, tuple[bool, ...]]]()
    for path, status in zip(paths, statuses.tolist(), strict=True):
        if path not in recorded:
            end = next(end for end in range(len(path) + 1) if path[:end] not in known)
            pairs.add((status, path[:end]))

    assert len(pairs) == len({status for status, _ in pairs}) == len({branch for _, branch in pairs})


# The function of seed 10 has one way only, and that of seed 14 is read from its bytecode: both have no checks.
@pytest.mark.parametrize("seed", (0, 3, 7, 10, 14) if choose_count(0, 1) == 0 else range(40))
def test_c_equals_the_function_where_it_was_recorded_and_says_where_not(seed: int, tmp_path: Path) -> None:
    program, compiled, recorded = record_program(seed)
    points = draw_points(seed, choose_count(300, 100_000))

    check_rows(program, recorded, points, run_c(compiled.to_c(), points, tmp_path))


@pytest.mark.parametrize("seed", range(choose_count(6, 40)))
def test_python_and_javascript_equal_the_function_too(seed: int, tmp_path: Path) -> None:
    program, compiled, recorded = record_program(seed)
    points = draw_points(seed, choose_count(100, 3000))

    check_rows(program, recorded, points, run_python(compiled.to_python(), points))
    check_rows(program, recorded, points, run_js(compiled.to_js(), points, tmp_path))


@pytest.mark.parametrize("seed", range(6))
def test_the_status_names_the_check_that_fails(seed: int) -> None:
    program, compiled, recorded = record_program(seed)
    text = compiled.to_python()
    listed = list_statuses(text)
    points = draw_points(seed, 200)
    statuses = {int(row[0]) for row in run_python(text, points)} - {0}

    assert statuses or recorded is None or {program.find_path(*point) for point in points.tolist()} <= recorded
    assert {str(status) for status in statuses} <= set(listed)


def test_the_head_names_only_ways_that_can_be_taken() -> None:
    def halve(x: Any) -> Any:
        turns = 0
        while x > 1.0:
            x, turns = x * 0.5, turns + 1
        return x * turns

    fast = wg.compile(halve, limit=8)
    for x in (0.5, 1.5, 3.0):
        fast(x)
    listed = list_statuses(fast.to_python())
    namespace: dict[str, Any] = {}
    exec(fast.to_python(name="fn"), namespace)
    statuses = {namespace["fn_status"](x) for x in (0.5, 1.0, 1.5, 3.0, 9.0, 1e9, math.nan, math.inf)}

    assert list(listed.values()) == ["x_2 > 1.0"]
    assert {str(status) for status in statuses - {0}} == set(listed)


def test_a_whole_number_that_decided_may_be_yet_another() -> None:
    def step(x: Any) -> Any:
        return x * int(wg.stop_gradient(np.floor(x)))

    fast = wg.compile(step, limit=8)
    for x in (1.5, 2.5):
        fast(x)

    # Neither 1 nor 2: the check of the second recording can fail although that of the first has.
    assert re.findall(r"^  2: .* left the recording as 2.0 ", fast.to_python(), re.MULTILINE)


def test_a_merged_branch_needs_one_recording_and_has_no_status() -> None:
    compiled = wg.compile(branch_on_sign)
    compiled(2.0, 1.0)
    namespace: dict[str, Any] = {}
    exec(compiled.to_python(name="g"), namespace)

    assert namespace["g"](-2.0, 5.0) == (5.0, {"x": 0.0, "y": 1.0})
    assert "Every branch is recorded" in namespace["__doc__"]


def branch_on_sign(x: Any, y: Any) -> Any:
    if x > 0.0:
        return x * y
    return y


@pytest.mark.parametrize(
    "constant", [3.0, 3, 0, -0.0, True, np.int64(-2), np.float32(0.5), np.True_, math.inf, np.array(3)]
)
def test_a_branch_that_returns_a_constant_has_no_gradient(constant: Any) -> None:
    program: dict[str, Any] = {"constant": constant}
    exec("def f(x):\n    return x * x if x > 1.0 else constant", program)
    compiled = wg.compile(program["f"])
    values = [compiled(2.0), compiled(0.5)]
    namespace: dict[str, Any] = {}
    exec(compiled.to_python(), namespace)

    assert values == [4.0, constant]
    assert repr(namespace["value_and_grad"](0.25)) == repr((float(constant), {"x": 0.0}))
    assert namespace["value_and_grad"](5.0) == (25.0, {"x": 10.0})


def test_what_cannot_be_written_is_an_error_that_says_why() -> None:
    never = wg.compile(lambda x: x * x)
    twice = wg.compile(lambda x: x * 2.0)
    pair = wg.compile(lambda x: (x, x * x))
    arrays = wg.compile(lambda x: (x * x).sum())
    named = wg.compile(lambda x: x + 1.0)
    named(1.0), twice(1.0), twice(np.ones(3)), pair(1.0), arrays(np.ones(3))

    with pytest.raises(OperandError, match="not called yet, so there is no recording of it to write: call it or its"):
        never.to_c()
    with pytest.raises(OperandError, match=r"called with 2: .*<lambda>.*; compile it anew, and call it with one kind"):
        twice.to_c()
    with pytest.raises(OperandError, match="one real number"):
        pair.to_js()
    with pytest.raises(NoRuleError, match="arrays"):
        arrays.to_python()
    with pytest.raises(OperandError, match="plain identifier"):
        named.to_c(name="not a name")


@pytest.mark.parametrize(
    ("first", "second", "kinds"),
    [
        (1.0, np.ones(3), "double(float), double(float64[3])"),
        (1.0, np.float32(2.0), "double(float), double(float32)"),
        (np.float64(1.0), np.ones(1), "double(float64), double(float64[1])"),
        (1.0, 2, "double(float), double(2)"),
        (np.ones(3), np.ones((2, 3)), "double(float64[3]), double(float64[2, 3])"),
        (np.ones(3), np.ones(3, np.float32), "double(float64[3]), double(float32[3])"),
    ],
)
def test_code_of_a_function_that_was_called_with_two_kinds_names_both(first: Any, second: Any, kinds: str) -> None:
    def double(x: Any) -> Any:
        return x * 2.0

    compiled = wg.compile(double)
    compiled(first), compiled(second)

    with pytest.raises(OperandError) as caught:
        compiled.to_c()
    assert f"was called with 2: {kinds}; compile it anew" in str(caught.value)


def test_code_of_a_function_of_arrays_is_led_to_what_can_be_asked_for() -> None:
    fast = wg.compile(lambda x: x * 2.0)
    fast(np.ones(3))

    with pytest.raises(OperandError, match=r'returns an array \[3\]: ask for the code of "value" or "jacobian"'):
        fast.to_c()
    with pytest.raises(
        NoRuleError, match=r"use to_c\(\), which writes arrays too, or wg\.trace\(f, \*args\)\.to_numpy"
    ):
        fast.to_python("value")


def test_numbers_of_numpy_and_of_python_are_one_kind_of_calls_to_code() -> None:
    fast = wg.compile(lambda x, p: x * int(wg.stop_gradient(p["y"])), limit=4)
    fast(np.float64(2.0), {"y": 1.0})
    for y in (1.0, 2.0):
        fast(2.0, {"y": y})
    namespace: dict[str, Any] = {}
    exec(fast.to_python(name="f"), namespace)

    assert [namespace["f"](3.0, y)[0] for y in (1.5, 2.5)] == [3.0, 6.0]
