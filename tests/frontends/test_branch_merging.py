"""Branches whose two arms are recorded at once: when they are, when they are not, and what comes out."""

from __future__ import annotations

import ast
import contextlib
import dis
import linecache
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.frontends.recording.user_code import list_instructions
from wiregrad.frontends.replay import branch_merging, function_source
from wiregrad.frontends.replay.outside_watches import nested_codes
from wiregrad.frontends.replay.recorded_calls import certify

from ..support.sampling import sample_pairs

POINTS = [(a, b) for a in (-2.0, -0.5, 0.0, 0.5, 2.0, float("nan"), float("inf")) for b in (-1.0, 0.0, 1.5)]
LOG: list[float] = []
OFFSETS = [0.25, 0.5]
WEIGHTS = np.array([0.5, -1.5, 0.25])
HALVES = np.array([0.5, 1.5], np.float32)
ROWS = [[0.5, -1.5], [2.0, 0.1]]


class Model:
    """An object with a number in an attribute."""

    def __init__(self) -> None:
        self.bend = 0.5


MODEL = Model()


def soft(x: Any) -> Any:
    return x / 2.0 if x > 1.0 else x


def assign_in_one_arm(a: Any, b: Any) -> Any:
    y = a * b
    if a > b:
        y = y + a
    return y * 2.0


def assign_in_both_arms(a: Any, b: Any) -> Any:
    if a < b:
        t = a * a
        y = t + b
    else:
        y = b - a
    return y


def early_returns(a: Any, b: Any) -> Any:
    if a < -1.0:
        return b * a
    if b < 0.0:
        return a + b
    return a - b


def nested(a: Any, b: Any) -> Any:
    if a > 0.0:
        y = a - b
        if b > 0.0:
            y = a * b
            y = y + a
    else:
        y = np.sin(a) + b
    return y


def connectives(a: Any, b: Any) -> Any:
    if not a < 0.0 and (b > 1.0 or a > 1.0):
        return a * b
    return 1.0 if -1.0 < a < 1.0 else b


def loop_with_branch(a: Any, b: Any) -> Any:
    for k in range(4):
        if a > b:
            a -= 0.5 * k
        else:
            b = b * 0.5 - a
    return a + b


def extremes(a: Any, b: Any) -> Any:
    return max(a, b, 0.5) * min(a, 1.0)


def helper_with_branch(a: Any, b: Any) -> Any:
    return soft(a) * soft(b) if a > b else soft(a - b)


def flags(a: Any, b: Any) -> Any:
    alive = True
    if a > 1.0:
        alive = False
    if alive and b > 0.0:
        return a * 2.0
    return b * 3.0


def infinite_in_the_other_arm(a: Any, b: Any) -> Any:
    return b * a if a == 0.0 else np.log(abs(a)) / a


def reads_lists_and_objects(a: Any, b: Any) -> Any:
    return a * OFFSETS[0] if a > b else b * MODEL.bend + OFFSETS[1]


def python_and_numpy_numbers(a: Any, b: Any) -> Any:
    y = a
    if b > 0.0:
        y = np.tanh(a)
    return y * b


def items_after_python_and_numpy_numbers(a: Any, b: Any) -> Any:
    parts = [a, b, 0.5]
    y = a
    for k in range(3):
        y = max(y, np.tanh(y * parts[k]) + WEIGHTS[k] * OFFSETS[-1])
    return y * (b, a)[1]


def tuples_in_arms(a: Any, b: Any) -> Any:
    pair = (a, b, 2)
    if a > b:
        pair = (b, a, 2)
    return pair[0] * 2.0 - pair[1] * pair[2]


def same_whole_number_in_both_arms(a: Any, b: Any) -> Any:
    n = 3
    if a > b:
        n = 3
        a = a * 2.0
    return a * n * b


def same_text_in_both_arms(a: Any, b: Any) -> Any:
    name = "twice"
    if a > b:
        name = "twice"
        a = a * 2.0
    return a * len(name) * b


def returns_in_inner_arms(a: Any, b: Any) -> Any:
    if a > b:
        if a > 0.0:
            return a * b
        return a * 2.0
    return b - a


def unpacks_pairs(a: Any, b: Any) -> Any:
    c, d = (b, a) if a > b else (a, b)
    return c * 2.0 - d


def updates_by_choices(a: Any, b: Any) -> Any:
    y = b
    y += a if a > 0.0 else b * 3.0
    y *= soft(a)
    y -= max(a, b)
    return y


def negates_plain_conditions(a: Any, b: Any) -> Any:
    if not OFFSETS:
        return a
    return a * b if not a > b else b - a


MERGED = [
    *(tuples_in_arms, same_whole_number_in_both_arms, same_text_in_both_arms, returns_in_inner_arms, unpacks_pairs),
    *(assign_in_one_arm, assign_in_both_arms, early_returns, nested, connectives, loop_with_branch, extremes),
    *(helper_with_branch, flags, infinite_in_the_other_arm, reads_lists_and_objects, python_and_numpy_numbers),
    *(negates_plain_conditions, updates_by_choices, items_after_python_and_numpy_numbers),
]


def integer_that_is_read(a: Any, b: Any) -> Any:
    n = 0
    if a > b:
        n = n + 1
    return a * n


def unbound_where_it_is_read(a: Any, b: Any) -> Any:
    if a > b:
        y = a
    else:
        z = b
    return y if a > b else z


def data_dependent_count(a: Any, b: Any) -> Any:
    n = 0
    while a > 0.5 and n < 6:
        a = a / 2.0
        n += 1
    return a * b + n


def breaks_out(a: Any, b: Any) -> Any:
    for k in range(5):
        if a > b + 0.1 * k:
            break
        a = a + 1.0
    return a * k


def containers_in_arms(a: Any, b: Any) -> Any:
    pair = [a, b]
    if a > b:
        pair = [b, a]
    return pair[0] * 2.0 - pair[1]


def text_in_arms(a: Any, b: Any) -> Any:
    kind = "small" if a < 1.0 else "large"
    return a if kind == "small" else b


def tells_numbers_apart(a: Any, b: Any) -> Any:
    y = a
    if b > 0.0:
        y = np.tanh(a)
    return a if isinstance(y, np.floating) else b


def none_in_one_arm(a: Any, b: Any) -> Any:
    limit = None
    if a > b:
        limit = b
    return a if limit is None else limit * a


def tuples_of_two_lengths(a: Any, b: Any) -> Any:
    pair = (a, b)
    if a > b:
        pair = (b,)  # type: ignore[assignment]
    return pair[0] * 2.0


def list_in_an_inner_arm(a: Any, b: Any) -> Any:
    parts = [a]
    if a > 0.0:
        if b > 0.0:
            parts = [b]
        y = parts[0] * 2.0
    else:
        y = a
    return y


def list_chosen_in_an_arm(a: Any, b: Any) -> Any:
    y = b
    if a > 0.0:
        part = b if b > 0.0 else [a, b]
        y = part * 2.0 if b > 0.0 else part[0]
    return y * a


def numbers_as_conditions(a: Any, b: Any) -> Any:
    return a * 2.0 if a > b and b else b


def numbers_as_alternatives(a: Any, b: Any) -> Any:
    return a * 2.0 if a > b or b else a - b


def list_as_condition_in_an_arm(a: Any, b: Any) -> Any:
    y = a
    if b > -0.5:
        y = a * 2.0 if a > b and [a] else b
    return y * b


def truth_of_a_number(a: Any, b: Any) -> Any:
    return a * b if a else b


def object_in_a_list(a: Any, b: Any) -> Any:
    return a * len(MODELS) if a > b else b


def chain_of_calls(a: Any, b: Any) -> Any:
    return a * b if -1.0 < abs(a) < 1.0 else b


def attribute_with_underscores(a: Any, b: Any) -> Any:
    return a * len(np.__name__) if a > b else b


def keyword_with_underscores(a: Any, b: Any) -> Any:
    return scale_by(a, __factor=b) if a > b else b


def scale_by(a: Any, **factors: Any) -> Any:
    return a * factors["__factor"]


def variable_of_a_comprehension(a: Any, b: Any) -> Any:
    a = sum([a * 0.5 for a in (a, b)])
    return a * 2.0 if a > b else b


def calls_what_tells_numbers_apart(a: Any, b: Any) -> Any:
    y = a
    if b > 0.0:
        y = np.tanh(a)
    return double_numpy_numbers(y)


def double_numpy_numbers(y: Any) -> Any:
    return y * 2.0 if isinstance(y, np.floating) else y


def multiplies_a_list(a: Any, b: Any) -> Any:
    y = a
    if b > 0.0:
        y = np.tanh(a)
    return np.sum(np.array(OFFSETS) * y)


def item_that_is_a_list(a: Any, b: Any) -> Any:
    y = a
    if b > 0.0:
        y = np.tanh(a)
    return np.sum(np.array(ROWS[0]) * y)


def slice_of_a_list(a: Any, b: Any) -> Any:
    y = a
    if b > 0.0:
        y = np.tanh(a)
    return np.sum(np.array(OFFSETS[:1]) * y)


def item_of_a_float32_array(a: Any, b: Any) -> Any:
    y = a
    if b > 0.0:
        y = np.tanh(a)
    return y * HALVES[1]


MODELS = [MODEL]
CERTIFIED = [
    *(tuples_of_two_lengths, list_in_an_inner_arm, list_chosen_in_an_arm, numbers_as_conditions, truth_of_a_number),
    *(numbers_as_alternatives, list_as_condition_in_an_arm, object_in_a_list, chain_of_calls),
    *(attribute_with_underscores, keyword_with_underscores, variable_of_a_comprehension),
    *(calls_what_tells_numbers_apart, multiplies_a_list, item_that_is_a_list, slice_of_a_list, item_of_a_float32_array),
    *(integer_that_is_read, unbound_where_it_is_read, data_dependent_count, breaks_out, containers_in_arms),
    *(text_in_arms, tells_numbers_apart, none_in_one_arm),
]


def same(one: Any, two: Any) -> bool:
    return bool(np.array_equal(np.array(one, float), np.array(two, float), equal_nan=True))


def check_everywhere(f: Callable[..., Any], points: Sequence[tuple[float, float]] = POINTS) -> Any:
    fast = wg.compile(f, argnums=(0, 1))
    plain = wg.value_and_grad(f, argnums=(0, 1))
    for point in [*points, *reversed(points)]:
        with np.errstate(all="ignore"):
            value, grads = plain(*point)
        found, slopes = fast.value_and_grad(*point)

        assert same(fast(*point), found), (f.__name__, point)
        assert np.allclose(found, value, rtol=1e-15, equal_nan=True), (f.__name__, point, found, value)
        assert np.allclose(slopes, grads, rtol=1e-15, equal_nan=True), (f.__name__, point, slopes, grads)
    return fast


@pytest.mark.parametrize("f", MERGED, ids=lambda f: f.__name__)
def test_a_function_whose_arms_only_compute_numbers_needs_one_recording(f: Callable[..., Any]) -> None:
    fast = check_everywhere(f)

    assert fast.info.records == 1
    assert fast.info.variants[0].certificates == 0
    assert fast.info.variants[0].tier == "stencils"


@pytest.mark.parametrize("f", CERTIFIED, ids=lambda f: f.__name__)
def test_what_cannot_be_chosen_between_is_certified(f: Callable[..., Any]) -> None:
    fast = check_everywhere(f)

    assert fast.info.records > 1
    assert all(variant.certificates for variant in fast.info.variants)


def halve_until_small(a: Any, b: Any) -> Any:
    turns = 0.0
    while abs(a) > 0.25 and turns < 5.0:
        a = a / 2.0
        turns = turns + 1.0
    return a * b + turns


def loop_with_branch_inside(a: Any, b: Any) -> Any:
    while a > 0.3 or b > 0.3:
        if a > b:
            a = a * 0.5 if a < 100.0 else 0.0
        else:
            b = b / 3.0 - 0.1
    return a - b


def divide_by_what_becomes_zero(a: Any, b: Any) -> Any:
    total = b
    while a > 0.0:
        total = total + np.sqrt(a) / a
        a = a - 1.0
    return total * b


def variable_of_the_body_is_read_after_it(a: Any, b: Any) -> Any:
    last = b
    while a > 0.2 and a < 1e3:
        step = a * 0.5
        last = step * b
        a = a - step
    return last + a


SHARED_LOOPS = [
    *(halve_until_small, loop_with_branch_inside, divide_by_what_becomes_zero),
    variable_of_the_body_is_read_after_it,
]
"""Functions whose loops have at most eight turns at the points."""


@pytest.mark.parametrize("f", SHARED_LOOPS, ids=lambda f: f.__name__)
def test_numbers_of_turns_of_a_loop_share_a_recording(f: Callable[..., Any]) -> None:
    points = [point for point in POINTS if np.inf not in point]
    fast = check_everywhere(f, points)

    assert fast.info.records <= 2
    assert all(variant.certificates == 1 for variant in fast.info.variants)
    assert not fast.info.fallbacks


def test_a_loop_with_more_turns_than_recorded_is_recorded_again() -> None:
    def f(a: Any) -> Any:
        while a > 1.0:
            a = a / 2.0
        return a * a

    fast = wg.compile(f, limit=8)
    points = [1.5, 0.5, 7.0, 15.5, 17.0, 250.0, 3.0, 300.0, 1e9, 5.0, 2.0**70]
    found = [fast.value_and_grad(x) for x in points]

    assert found == [wg.value_and_grad(f)(x) for x in points]
    # 4, 8, 16, 32 turns, and one recording for exactly 70.
    assert fast.info.records == 5


def endless_elsewhere(a: Any, b: Any) -> Any:
    if a > 0.0:
        while b > a:
            b = b - a
    return a * b


def int_that_counts_turns(a: Any, b: Any) -> Any:
    turns = 0
    while a > 0.5 and turns < 6:
        a = a / 2.0
        turns += 1
    return a * turns + b


def list_that_grows(a: Any, b: Any) -> Any:
    parts = [b]
    while a > 0.5 and a < 1e3:
        a = a / 2.0
        parts = [*parts, a]
    return sum(parts)


def breaks_out_of_a_while_loop(a: Any, b: Any) -> Any:
    while a > 0.1:
        a = a / 2.0
        if a < b or a > 1e3:
            break
    return a - b


@pytest.mark.parametrize(
    "f",
    [endless_elsewhere, int_that_counts_turns, list_that_grows, breaks_out_of_a_while_loop],
    ids=lambda f: f.__name__,
)
def test_a_loop_whose_turns_cannot_be_merged_is_certified(f: Callable[..., Any]) -> None:
    fast = check_everywhere(f, [point for point in POINTS if np.inf not in point])

    assert fast.info.records > 1


def returns_from_a_loop(a: Any, b: Any) -> Any:
    for k in range(5):
        if a * k > b:
            return a * k
    return a - b


def leaves_a_loop(a: Any, b: Any) -> Any:
    y = a
    for _ in range(5):
        y = y * b + 1.0
        if y > 2.0:
            break
    return y + a


def skips_turns(a: Any, b: Any) -> Any:
    y = a
    for k in range(6):
        if y < b * k:
            continue
        y = y * 0.5 + b
    return y


def breaks_before_it_returns(a: Any, b: Any) -> Any:
    y = a
    for k in range(4):
        if y > 1.5:
            break
        if b > 0.4 * k:
            return y * b
        y = y + 0.5
    return y - b


def returns_in_an_else(a: Any, b: Any) -> Any:
    for c in [a, b, a * b]:
        if c < 1.0:
            a = a + c
        else:
            return a - c
    return a


def chain_of_exits(a: Any, b: Any) -> Any:
    for c, d in zip([a, b, a + b], [0.5, 1.0, 1.5], strict=True):
        if c > d:
            return c - d
        elif c < -d:
            break
        elif c < 0.0:
            continue
        a = a + 0.25 * d
    return a * b


def leaves_the_inner_loop(a: Any, b: Any) -> Any:
    total = 0.0
    for i in range(3):
        for j in range(3):
            if a * i > b + j:
                break
            total = total + a * j + b
            if total > 6.0:
                return total - a
    return total


def inner_loop_that_is_not_merged(a: Any, b: Any) -> Any:
    for k in range(3):
        a = a * 0.75 + 0.25 * k
        for k in range(4):  # noqa: PLW2901 - what is tested is a counter that is read after the loop
            a = a * 0.75 + 0.25 * k
            if a > 1.45:
                break
        a = a + k
        if a * b < 0.5:
            return a - b
    return a


def root_below_zero_after_the_exit(a: Any, b: Any) -> Any:
    for k in range(4):
        if a < 0.5 * k:
            break
        b = b + np.sqrt(a - 0.5 * k)
    return b


def loop_in_an_arm(a: Any, b: Any) -> Any:
    y = b
    if a > 0.5:
        for k in range(4):
            if y > 2.0:
                break
            y = y + a * k
    return y


def helper_that_returns_early(a: Any, b: Any) -> Any:
    return returns_from_a_loop(a, b) * 2.0 + leaves_a_loop(b, a)


WITH_EXITS = [
    *(returns_from_a_loop, leaves_a_loop, skips_turns, breaks_before_it_returns, returns_in_an_else, chain_of_exits),
    *(leaves_the_inner_loop, root_below_zero_after_the_exit, loop_in_an_arm, helper_that_returns_early),
]


@pytest.mark.parametrize("f", WITH_EXITS, ids=lambda f: f.__name__)
def test_breaks_continues_and_returns_in_for_loops_are_merged(f: Callable[..., Any]) -> None:
    fast = check_everywhere(f)

    assert fast.info.records == 1
    assert fast.info.variants[0].certificates == 0
    assert not fast.info.fallbacks


def write_loops(rng: random.Random, depth: int = 1, in_loop: bool = False) -> list[str]:
    """Return random statements on a, b and y, with loops that are left early."""
    lines = []
    pad = "    " * depth
    for _ in range(rng.randint(1, 3)):
        test = f"{rng.choice(['y', 'a', 'y * b'])} {rng.choice('<>')} {rng.uniform(-2, 2):.2f}"
        kind = rng.choice(["assign", "assign", "loop", "if", "return", *["exit"] * (3 * in_loop)])
        if kind == "loop" and depth < 4:
            lines += [f"{pad}for k in range({rng.randint(1, 5)}):", f"{pad}    y = y * 0.75 + 0.25 * k"]
            lines += write_loops(rng, depth + 1, True)
        elif kind == "if" and depth < 4:
            lines += [f"{pad}if {test}:", *write_loops(rng, depth + 1, in_loop)]
            if rng.random() < 0.5:
                lines += [f"{pad}else:", *write_loops(rng, depth + 1, in_loop)]
        elif kind == "exit":
            lines += [f"{pad}if {test}:", f"{pad}    {rng.choice(['break', 'continue', 'return y - a'])}"]
        elif kind == "return":
            lines += [f"{pad}if {test}:", f"{pad}    return y * {rng.uniform(-2, 2):.2f}"]
        else:
            lines.append(f"{pad}y = {rng.choice(['y + a', 'y * b - 0.5', 'b - y', 'abs(y) - a'])}")
    return lines


@pytest.mark.parametrize("seed", [*range(40), 5793])
def test_random_loops_that_are_left_early_give_what_python_gives(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    text = "\n".join(["def f(a, b):", "    y = a - b", *write_loops(rng), "    return y", ""])
    file = tmp_path / "loops.py"
    file.write_text(text)
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, str(file), "exec"), scope)

    check_everywhere(scope["f"], [(rng.uniform(-2, 2), rng.uniform(-2, 2)) for _ in range(20)])


def test_a_loop_inside_that_is_not_merged_keeps_its_exits_to_itself() -> None:
    check_everywhere(inner_loop_that_is_not_merged)


def test_a_long_loop_is_recorded_as_far_as_it_goes() -> None:
    def root(a: Any, b: Any) -> Any:
        x = b
        for _ in range(1_000):
            x = 0.5 * (x + a / x)
            if abs(x * x - a) < 1e-9:
                break
        return x

    fast = check_everywhere(root, [(2.0, 1.0), (2.0, 1.5), (3.0, 2.0), (1e6, 1.0)])

    assert [variant.certificates for variant in fast.info.variants] == [1, 1]
    assert fast.info.variants[0].nodes < fast.info.variants[1].nodes


def test_items_of_an_iterator_in_a_variable_are_used_once() -> None:
    def f(a: Any, b: Any) -> Any:
        items = zip([a, b, a * b], [1.0, 2.0, 3.0], strict=True)
        total = 0.0
        for c, d in items:
            if c > d:
                break
            total = total + c * d
        for c, d in items:
            total = total + c + d
        return total

    check_everywhere(f, [point for point in POINTS if np.inf not in point])


def test_an_arm_that_changes_something_runs_only_where_python_takes_it() -> None:
    def note(x: Any) -> Any:
        LOG.append(1.0)
        return x

    def f(a: Any) -> Any:
        return note(a) * 2.0 if a > 0.0 else a

    LOG.clear()
    fast = wg.compile(f)
    found = [fast(-1.0), fast(-2.0)]

    assert found == [-1.0, -2.0]
    assert LOG == []


def test_an_arm_that_raises_is_not_merged() -> None:
    def f(a: Any) -> Any:
        if a < 0.0:
            raise ValueError(a)
        return a * a

    fast = wg.compile(f)

    assert [fast(2.0), fast(3.0)] == [4.0, 9.0]
    with pytest.raises(ValueError, match=r"-1\.0"):
        fast(-1.0)


def test_an_arm_with_very_many_steps_is_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(a: Any, b: Any) -> Any:
        y = b
        if a > b:
            for _ in range(60):
                y = y * 0.5 + a
        return y

    monkeypatch.setattr(branch_merging, "MAX_ARM_STEPS", 50)
    fast = check_everywhere(f)

    assert fast.info.records > 1
    assert all(variant.certificates for variant in fast.info.variants)


def test_a_function_that_calls_itself_comes_to_an_end() -> None:
    def countdown(x: Any) -> Any:
        return countdown(x - 1.0) * x if x > 1.0 else x

    fast = wg.compile(countdown)

    assert [fast(x) for x in (0.5, 1.5, 3.5, 0.25)] == [countdown(x) for x in (0.5, 1.5, 3.5, 0.25)]


def forget_source(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with the same code, of which no source is known."""
    # Python compares code by its name too, and what is known of the one must not serve the other.
    code = f.__code__.replace(co_filename="<no source>", co_name=f"{f.__name__}_without_source")
    bare = FunctionType(code, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    bare.__kwdefaults__ = f.__kwdefaults__
    return bare


READ_FROM_BYTECODE = [f for f in MERGED if f is not connectives]
"""A chain of comparisons is not read from bytecode."""


@pytest.mark.parametrize("f", READ_FROM_BYTECODE, ids=lambda f: f.__name__)
def test_a_function_without_source_is_merged_too(f: Callable[..., Any]) -> None:
    fast = check_everywhere(forget_source(f))

    assert fast.info.records == 1
    assert fast.info.variants[0].certificates == 0


@pytest.mark.parametrize("f", [connectives, *CERTIFIED], ids=lambda f: f.__name__)
def test_a_function_without_source_that_cannot_be_merged_is_certified(f: Callable[..., Any]) -> None:
    fast = check_everywhere(forget_source(f))

    assert all(variant.certificates for variant in fast.info.variants)


def else_arm_alone(a: Any, b: Any) -> Any:
    if a > b:
        pass
    else:
        a = b * 2.0
    return a * b


def arm_without_effect(a: Any, b: Any) -> Any:
    if a > b:
        pass
    return a * b


def negated_expression(a: Any, b: Any) -> Any:
    return a * b if not (a > b or b > 1.0) else a


def sequences_of_a_loop(a: Any, b: Any) -> Any:
    for i, j in ((1.0, 2.0), (3.0, 4.0)):
        a = a * i + j
    return a * b


def loop_that_goes_on(a: Any, b: Any) -> Any:
    total = a
    for k in range(3):
        if k == 1:
            continue
        total = total * a + k
    return total * b


def while_loop(a: Any, b: Any) -> Any:
    while a > 1.0:
        a = a / 2.0
    return a * b


def returns_from_a_loop(a: Any, b: Any) -> Any:
    for k in (2.0, 3.0):
        return a * k
    return b


def operators_of_bits(a: Any, b: Any) -> Any:
    n = 6 & 3 | 8
    n |= 16
    return a * n + b


def inner_function(a: Any, b: Any) -> Any:
    scale = lambda t: t * b  # noqa: E731 - the way is what is tested
    return scale(a)


def looks_into_a_tuple(a: Any, b: Any) -> Any:
    return a * b if 1.0 in (2.0, 1.0) else a


def asks_for_none(a: Any, b: Any) -> Any:
    return b if a is None else a * b


def rotates_variables(a: Any, b: Any) -> Any:
    c, d, e, f = a, b, a + b, a - b
    c, d, e, f = f, e, d, c
    return c * d + e / (f * f + 1.0)


def nested_targets(a: Any, b: Any) -> Any:
    c, (d, e) = (a, (b, 2.0))
    return c * d * e


def updates_an_element(a: Any, b: Any) -> Any:
    parts = [1.0, 2.0]
    parts[0] += a
    return parts[0] * b


def two_targets(a: Any, b: Any) -> Any:
    x = y = a * b
    return x + y


def unpacked_arguments(a: Any, b: Any) -> Any:
    pair = (a, b)
    return np.add(*pair) * a


def chosen_function(a: Any, b: Any) -> Any:
    return (np.sin if OFFSETS else np.cos)(a) * b


SHAPES_OF_CODE = [
    *(else_arm_alone, arm_without_effect, negated_expression, sequences_of_a_loop, loop_that_goes_on, while_loop),
    *(returns_from_a_loop, operators_of_bits, inner_function, looks_into_a_tuple, asks_for_none, rotates_variables),
    *(nested_targets, updates_an_element, two_targets, unpacked_arguments, chosen_function),
]


@pytest.mark.parametrize("f", SHAPES_OF_CODE, ids=lambda f: f.__name__)
def test_whatever_is_read_from_bytecode_gives_the_answers_of_plain_python(f: Callable[..., Any]) -> None:
    check_everywhere(forget_source(f), [(2.0, 1.0), (-0.5, 0.5), (0.5, 1.5), (-2.0, -1.0), (3.0, 0.0)])


def test_variables_of_an_enclosing_function_are_read_from_bytecode() -> None:
    scale = 2.0

    def f(x: Any, *rest: Any, shift: Any = 1.0, **more: Any) -> Any:
        """Return a number."""
        a, b = x * scale, x + shift
        if a > b or (x < -3.0 and not b > 0.0):
            a, b = b, a
        return a - b * more["factor"] if rest else np.maximum(a, b, dtype=None)

    fast = wg.compile(forget_source(f))
    found = [fast(x, *rest, factor=3.0) for x in (-4.0, -1.0, 0.5, 2.0) for rest in ((), (1.0,))]

    assert found == [f(x, *rest, factor=3.0) for x in (-4.0, -1.0, 0.5, 2.0) for rest in ((), (1.0,))]


@pytest.mark.parametrize(("table", "one", "two"), [("OPERATORS", "+", "-"), ("COMPARISONS", "<", ">")])
def test_bytecode_that_is_read_wrongly_is_not_used(
    table: str, one: str, two: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = forget_source(assign_in_both_arms).__code__
    known = getattr(function_source, table)

    assert function_source.rebuild_function_node(code) is not None
    monkeypatch.setitem(known, one, known[two])
    assert function_source.rebuild_function_node(code) is None


def test_zeros_of_both_signs_are_told_apart_in_bytecode() -> None:
    one, two = ((lambda x: x + 0.0).__code__, (lambda x: x + -0.0).__code__)

    assert ast.unparse(function_source.rebuild_function_node(one) or ast.Module()) == "lambda x: x + 0.0"
    assert ast.unparse(function_source.rebuild_function_node(two) or ast.Module()) == "lambda x: x + -0.0"


def test_instructions_are_those_of_dis() -> None:
    text = "".join(f"    if x > {k}.5: x = x + {k} * y.a_{k}\n" for k in range(300))
    long = compile(f"def f(x, y):\n{text}    return x", "<long code>", "exec")
    modules = [Path(str(module.__file__)) for module in (ast, dis, linecache, function_source)]
    codes = [compile(path.read_bytes(), "<a module>", "exec", dont_inherit=True) for path in modules]
    for code in [inner for outer in (long, *codes) for inner in nested_codes(outer)]:
        wanted = [step for step in dis.get_instructions(code) if step.opname != "CACHE"]
        found = list_instructions(code)

        assert [step[:3] for step in found] == [(step.offset, step.opcode, step.opname) for step in wanted]
        # The argument of a prefix is a part of that of the next instruction; dis says so since Python 3.13.
        prefixes = {dis.EXTENDED_ARG}
        assert [step.argval for step in found if step.opcode not in prefixes] == [
            step.argval for step in wanted if step.opcode not in prefixes
        ]
        assert [step.arg for step in found if step.opcode >= dis.HAVE_ARGUMENT] == [
            step.arg for step in wanted if step.opcode >= dis.HAVE_ARGUMENT
        ]


def test_changed_source_is_not_used() -> None:
    text = "def f(x):\n    return x * 2.0 if x > 0.0 else x\n"
    scope: dict[str, Any] = {}
    exec(compile(text, "<changed source>", "exec"), scope)
    other = text.replace("2.0", "3.0")
    linecache.cache["<changed source>"] = (len(other), None, other.splitlines(keepends=True), "<changed source>")

    fast = wg.compile(scope["f"])

    assert [fast(1.0), fast(-1.0)] == [2.0, -1.0]
    assert fast.info.records == 1


def test_merged_nodes_are_placed_on_the_line_of_the_branch() -> None:
    circuit = certify(assign_in_one_arm, (2.0, 1.0), {}).circuit
    assert circuit is not None
    where = next(node for node in circuit.nodes if node.op.name == "where")

    assert where.place is not None
    assert where.place.line == assign_in_one_arm.__code__.co_firstlineno + 2


def random_function(seed: int, *, with_source: bool = True) -> Callable[..., Any]:
    """Return a function with one to twenty branches: assignments, early returns, loops and helpers."""
    draw = random.Random(seed)
    lines = ["def f(a, b, c):", "    y = a * b", "    z = c - a"]
    for _ in range(draw.randint(1, 20)):
        one, two = draw.choice("abcyz"), draw.choice("abcyz")
        test = f"{one} {draw.choice(['<', '>', '<=', '!='])} {draw.choice([two, '0.5', '0.0'])}"
        if draw.random() < 0.2:
            test = f"{test} and not {two} > 1.0"
        kind = draw.random()
        if kind < 0.4:
            lines += [f"    if {test}:", f"        y = y * {one} + {two}"]
            if draw.random() < 0.5:
                lines += ["    else:", f"        z = z - {two}", "        y = 0.5 * y"]
        elif kind < 0.55:
            lines += [f"    if {test}:", f"        return y - {two} * z"]
        elif kind < 0.7:
            lines += [f"    z = {one} + z if {test} else z * 0.5"]
        elif kind < 0.85:
            lines += [
                "    for k in range(3):",
                f"        if {test}:",
                "            z = z * 0.5 + y",
                "            y = -y",
            ]
        else:
            lines += [f"    y = max(y, {one}, -2.0)"]
    text = "\n".join([*lines, "    return y * z", ""])
    name = f"<branching function {seed}, {'its source is' if with_source else 'no source'} at hand>"
    if with_source:
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {}
    exec(compile(text, name, "exec"), scope)
    function: Callable[..., Any] = scope["f"]
    return function


def check_random_function(seed: int, calls: int, *, with_source: bool = True) -> None:
    f = random_function(seed, with_source=with_source)
    rng = np.random.default_rng(seed)
    fast = wg.compile(f, argnums=(0, 1, 2))
    plain = wg.value_and_grad(f, argnums=(0, 1, 2))
    for _ in range(calls):
        point = tuple(np.round(rng.normal(size=3) * 1.5, int(rng.integers(0, 4))).tolist())
        with np.errstate(all="ignore"):
            value, grads = plain(*point)
        found, slopes = fast.value_and_grad(*point)

        assert same(found, value), (seed, point, found, value)
        # The terms of a gradient are added in another order, so what they cancel to is known as well as the terms are.
        scale = max([1.0, *(abs(slope) for slope in grads if np.isfinite(slope))])
        assert np.allclose(slopes, grads, rtol=1e-13, atol=1e-13 * scale, equal_nan=True), (seed, point, slopes, grads)
    assert fast.info.records == 1, (seed, str(fast.info))


@pytest.mark.parametrize("with_source", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_random_branching_functions_give_the_answers_of_plain_python(seed: int, with_source: bool) -> None:
    check_random_function(seed, 25, with_source=with_source)


@pytest.mark.full
@pytest.mark.parametrize("with_source", [True, False])
@pytest.mark.parametrize("seed", range(200))
def test_two_hundred_random_branching_functions_give_the_answers_of_plain_python(seed: int, with_source: bool) -> None:
    check_random_function(1000 + seed, 500, with_source=with_source)


def count_conditions(x: Any) -> Any:
    return 1.0 * ((x > 0.0) + (x > -5.0))


def raise_to_conditions(x: Any) -> Any:
    return 3.0 ** ((x > 0.0) + (x > -5.0))


@pytest.mark.parametrize("sign", ["+", "-", "*"])
@pytest.mark.parametrize("helper", [count_conditions, raise_to_conditions], ids=lambda f: f.__name__)
def test_an_update_by_a_function_that_tells_numbers_apart_is_no_choice_of_numbers(
    helper: Callable[..., Any], sign: str
) -> None:
    text = f"def f(a, b):\n    y = b\n    z = np.tanh(a) if b > 0.0 else a\n    y {sign}= h(z)\n    return y\n"
    f = define(text, {"np": np, "h": helper}, f"an update by {helper.__name__}, {sign}")
    fast = wg.compile(f)
    for point in [(2.25, 1.0), (2.25, -1.0), (-1.0, -1.0), (-1.0, 1.0), (0.0, -1.0)]:
        assert fast(*point) == f(*point), point


class Effects:
    """Everything that a function of the family below may change, and a text that says how often it did."""

    def __init__(self) -> None:
        self.log: list[float] = []
        self.scope: dict[str, Any] = {
            "np": np,
            "LOG": self.log,
            "TABLE": [3.0, 1.0, 2.0],
            "COUNTS": {"calls": 0},
            "RNG": random.Random(3),
            "STREAM": iter(range(10_000)),
            "ARRAY": np.zeros(3),
        }

    def describe(self) -> str:
        kept = [self.scope[name] for name in ("LOG", "TABLE", "COUNTS", "ARRAY")]
        return f"{kept} {self.scope['RNG'].random()} {next(self.scope['STREAM'])}"


def define(text: str, scope: dict[str, Any], name: str, *, with_source: bool = True) -> Callable[..., Any]:
    """Return the function f of a text; without its source, its branches are not merged."""
    file = f"<{name}, source {'at hand' if with_source else 'missing'}>"
    if with_source:
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec", dont_inherit=True), scope)
    function: Callable[..., Any] = scope["f"]
    return function


HELPERS = """
def note(x):
    LOG.append(1)
    return x

def stream():
    LOG.append(1)
    yield 1.0

class Meter:
    @property
    def rate(self):
        LOG.append(1)
        return 2.0

    def __radd__(self, other):
        LOG.append(1)
        return other

METER = Meter()
"""
CHANGES = {
    "helper in an update": "y = b; y += note(a)",
    "choice in an update": "y = b; y *= note(a) if b > 1.5 else b",
    "method in an update": "n = 1; n += LOG.append(1) or 1",
    "append": "n = LOG.append(1)",
    "append as a statement": "LOG.append(1)",
    "helper": "y = note(a)",
    "helper, then what cannot be recorded": "y = note(a) + int(a)",
    "helper, then an error": "y = note(a) + TABLE[7]",
    "list comprehension": "n = [LOG.append(k) for k in range(2)]",
    "addition in place": "n = LOG; n += [1]",
    "sort": "n = TABLE.sort()",
    "dictionary": "COUNTS['calls'] += 1",
    "dictionary method": "n = COUNTS.update(calls=COUNTS['calls'] + 1)",
    "random number": "y = a * RNG.random()",
    "iterator": "y = a * next(STREAM)",
    "unpacked iterator": "n, m = STREAM, next(STREAM)",
    "generator": "y = a + sum(stream())",
    "property": "y = a * METER.rate",
    "operator": "y = a + METER",
    "NumPy function in place": "n = np.put(ARRAY, 0, ARRAY[0] + 1.0)",
    "array in place": "n = ARRAY; n += 1.0",
    "function that calls back": "y = a * np.piecewise(2.0, [True], [note])",
    "default": "n = collect(a)",
    "error after an effect": "n = LOG.append(1); raise ValueError('on purpose')",
    "deleted name": "n = LOG.append(1); del n",
}
PLACES = {
    "before a branch": "    y = a\n    {change}\n    if a > b:\n        y = y * 2.0\n    return y\n",
    "in an arm": "    y = b\n    if a > b:\n        {change}\n        y = y + a\n    return y\n",
    "after a branch": "    y = b if a > b else a * 2.0\n    {change}\n    return y\n",
}


def run_with_effects(text: str, wrap: Callable[..., Any], name: str) -> list[Any]:
    effects = Effects()
    call = wrap(define(text, effects.scope, name))
    answers: list[Any] = []
    for point in [(1.0, 2.0), (2.0, 1.0), (3.0, 1.0), (1.0, 3.0), (float("nan"), 1.0), (2.0, 1.0)]:
        try:
            answers.append(repr(float(call(*point))))
        except Exception as error:
            answers.append(type(error).__name__)
        answers.append(repr((effects.log, effects.scope["TABLE"], effects.scope["COUNTS"], effects.scope["ARRAY"])))
    return [*answers, effects.describe()]


@pytest.mark.parametrize(("change", "place"), sample_pairs(CHANGES, PLACES))
def test_effects_happen_as_often_as_in_plain_python(change: str, place: str) -> None:
    collect = "def collect(x, seen=[]):\n    seen.append(x)\n    LOG.append(len(seen))\n    return x\n"
    text = f"{HELPERS}\n{collect}\ndef f(a, b):\n" + PLACES[place].format(change=CHANGES[change])

    found = run_with_effects(text, wg.compile, f"{change} {place}")
    wanted = run_with_effects(text, lambda f: f, f"{change} {place}")

    assert found == wanted


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("change", CHANGES)
def test_a_recording_has_the_effects_of_one_call(change: str, place: str) -> None:
    collect = "def collect(x, seen=[]):\n    seen.append(x)\n    LOG.append(len(seen))\n    return x\n"
    text = f"{HELPERS}\n{collect}\ndef f(a, b):\n" + PLACES[place].format(change=CHANGES[change])
    described: list[list[str]] = []
    for merge in (True, False):
        described.append([])
        for point in [(1.0, 2.0), (2.0, 1.0)]:
            effects = Effects()
            f = define(text, effects.scope, f"one call: {change} {place}")
            with contextlib.suppress(Exception):
                certify(f, point, {}, merge=merge)
            described[-1].append(f"{len(effects.log)} {effects.scope['COUNTS']} {effects.describe()[-60:]}")

    assert described[0] == described[1]


def test_a_file_is_written_only_where_python_takes_the_arm(tmp_path: Path) -> None:
    path = tmp_path / "written.npy"
    text = "def f(a, b):\n    y = b\n    if a > b:\n        n = np.save(PATH, 1.0)\n        y = a\n    return y\n"
    fast = wg.compile(define(text, {"np": np, "PATH": str(path)}, "file in an arm"))

    assert [fast(1.0, 2.0), fast(1.0, 3.0)] == [2.0, 3.0]
    assert not path.exists()
    assert fast(2.0, 1.0) == 2.0
    assert path.exists()


FLAGS = {
    "constants": "    flag = True\n    if x > 0.0:\n        flag = False\n",
    "and": "    flag = x > y and y > 0.0\n",
    "a condition in one arm": "    flag = False\n    if x > 0.0:\n        flag = y > 0.5\n",
}
MIXED = "(x if flag else np.sin(x))"
EXPRESSIONS = [
    "flag",
    "not flag",
    "flag + flag",
    "-flag",
    "flag * x",
    "2 ** flag",
    "TABLE[flag]",
    "{True: 1.5, False: 2.5}[flag]",
    "flag == True",
    "flag & ok",
    "sum([flag, ok])",
    "max(flag, ok)",
    "min(flag, 0.5)",
    "int(flag)",
    "(flag, ok)",
    "flag and x",
    "flag or x",
    "x if flag else 0",
    "list(range(flag + 1))",
    "'a' * flag",
    "str(flag)",
    "flag is True",
    "isinstance(flag, bool)",
    "TABLE[:flag]",
    "None if flag else x",
    "1 if flag else 1.0",
    "(x,) if flag else (x, y)",
    "(x, 1) if flag else (y, 1.0)",
    "[x, y] if flag else [y]",
    "'s' if flag else None",
    "x if flag else flag",
    f"{MIXED} * TABLE",
    f"{MIXED} * [1.0]",
    f"{MIXED} * pair()",
    f"{MIXED} * range(2)",
    f"{MIXED} > y",
    f"{MIXED} ** 0.5",
    f"{MIXED} // y",
    f"round({MIXED})",
    f"{MIXED} in TABLE",
    f"TABLE + [{MIXED}]",
    "np.sqrt(x) if flag else 0",
    "x + 1j if flag else x",
    "np.sum(np.array([x, y]) if flag else np.array([y, x]))",
    "np.float32(x) if flag else x",
]


def describe_answer(call: Callable[..., Any], *point: float) -> tuple[str, str]:
    """Return the class and the text of what a call returns, or of what it raises; float64 numbers are floats."""
    try:
        with np.errstate(all="ignore"):
            answer = call(*point)
    except Exception as error:
        return "error", type(error).__name__
    plain = _as_floats(answer)
    return type(plain).__name__, repr(plain)


def _as_floats(answer: Any) -> Any:
    if isinstance(answer, tuple | list):
        return type(answer)(map(_as_floats, answer))
    if isinstance(answer, dict):
        return {key: _as_floats(part) for key, part in answer.items()}
    return float(answer) if type(answer) is np.float64 else answer


@pytest.mark.parametrize(("expression", "flag"), sample_pairs(EXPRESSIONS, FLAGS))
def test_classes_of_results_are_those_of_plain_python(expression: str, flag: str) -> None:
    head = "def pair():\n    return [1.0, 2.0]\n\ndef f(x, y):\n    ok = y > 0.0\n"
    text = f"{head}{FLAGS[flag]}    r = {expression}\n    return r\n"
    scope: dict[str, Any] = {"np": np, "TABLE": [1.5, 2.5]}
    fast = wg.compile(define(text, dict(scope), f"{expression} {flag}"))
    other = wg.compile(define(text, dict(scope), f"{expression} {flag}", with_source=False))
    plain = define(text, dict(scope), f"{expression} {flag}", with_source=False)
    for point in [(1.0, 2.0), (-1.0, 2.0), (2.0, 0.3), (-1.0, -0.5), (0.0, 0.0), (float("nan"), 1.0)]:
        wanted = {describe_answer(plain, *point), describe_answer(other, *point)}

        assert describe_answer(fast, *point) in wanted, point


def test_what_only_the_other_arm_reads_is_watched() -> None:
    text = (
        "def helper(x):\n    return x * RATE\n\n"
        "def f(a, b):\n    return helper(a) + TABLE[0] * BOX.bend if a > b else b\n"
    )
    scope: dict[str, Any] = {"RATE": 2.0, "TABLE": [1.0], "BOX": Model()}
    f = define(text, scope, "what only the other arm reads")
    fast = wg.compile(f)
    fast(1.0, 2.0)
    assert not certify(f, (1.0, 2.0), {}).checks

    for change in ("RATE = 5.0", "TABLE[0] = 7.0", "BOX.bend = 3.0", "def helper(x): return x - RATE"):
        exec(change, scope)
        assert fast(3.0, 1.0) == f(3.0, 1.0), change
        assert fast(1.0, 3.0) == 3.0


def square_root(x: Any, y: Any) -> Any:
    return np.sqrt(x) * y if x > 0.0 else y * x


def quotient(x: Any, y: Any) -> Any:
    return y / x if x != 0.0 else y * 0.0 + x


def two_branches(x: Any, y: Any) -> Any:
    r = np.log(x) if x > 0.0 else -1.0
    if y > 0.0:
        r = r * np.sqrt(y)
    return r * r


def whole_numbers(x: Any, y: Any) -> Any:
    n = 0
    if x > 0.0:
        n = 1
    if y > 0.5:
        n = n + 2
    return x * y * n + (y if n == 3 else 0.5 * x)


DERIVED = [square_root, quotient, two_branches, whole_numbers]
SPECIAL = [-1.0, -0.0, 0.0, 0.5, 2.0, -800.0, float("inf"), float("nan")]


@pytest.mark.parametrize("f", DERIVED, ids=lambda f: f.__name__)
def test_nothing_of_the_other_arm_leaks_into_derivatives(f: Callable[..., Any]) -> None:
    fast = wg.compile(f, argnums=(0, 1))
    plain = wg.value_and_grad(f, argnums=(0, 1))
    for point in [(x, y) for x in SPECIAL for y in (-2.0, 0.0, 1.0)]:
        with np.errstate(all="ignore"):
            slopes = wg.jacobian(f, argnums=(0, 1))(*point)
            wanted = [plain(*point)[0], *plain(*point)[1]]
            bends = wg.hessian(f, argnums=(0, 1))(*point)
            found = fast.value_and_grad(*point)
            both = fast.value_and_jacobian(*point)

            assert np.allclose([found[0], *found[1]], wanted, rtol=1e-12, equal_nan=True), point
            assert np.allclose(fast.jacobian(*point), slopes, rtol=1e-12, equal_nan=True), point
            assert np.allclose([both[0], *both[1]], wanted, rtol=1e-12, equal_nan=True), point
            assert np.allclose(fast.hessian(*point), bends, rtol=1e-12, equal_nan=True), point


def positive_part(y: Any) -> Any:
    return y if y > 0.0 else 0.0


def chosen_positive_part(y: Any) -> Any:
    return np.where(y > 0.0, y, 0.0)


@pytest.mark.parametrize("join", [np.maximum, np.minimum, np.fmax, np.fmin])
def test_a_constant_that_a_merged_branch_chose_ties_as_the_result_of_where(join: Callable[..., Any]) -> None:
    branching, choosing = (
        wg.compile(lambda x, y, part=part: join(x, part(y)), argnums=(0, 1))
        for part in (positive_part, chosen_positive_part)
    )
    slopes = [f.value_and_grad(0.0, y) for f in (branching, choosing) for y in (-1.0, 0.0)]

    assert slopes == [(0.0, (0.5, 0.0))] * 4


@pytest.mark.parametrize("f", DERIVED, ids=lambda f: f.__name__)
def test_rows_of_a_batch_that_take_different_arms(f: Callable[..., Any]) -> None:
    fast = wg.compile(f, argnums=(0, 1))
    plain = wg.value_and_grad(f, argnums=(0, 1))
    points = np.array([(x, y) for x in SPECIAL for y in (-2.0, 0.0, 1.0)])
    with np.errstate(all="ignore"):
        for rows in (points, points[:0], points[:1], points[::2], points[::-1], np.asfortranarray(points)):
            answers = [plain(*map(float, row)) for row in rows]
            values, slopes = fast.batch_value_and_grad(rows[:, 0], rows[:, 1])
            wanted = np.array([[value, *grads] for value, grads in answers]).reshape(len(rows), 3)

            assert np.allclose(fast.batch(rows[:, 0], rows[:, 1]), wanted[:, 0], rtol=1e-12, equal_nan=True)
            assert np.allclose(np.column_stack([values, *slopes]), wanted, rtol=1e-12, equal_nan=True)
