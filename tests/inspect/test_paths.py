"""Paths and branches: which ways a gradient came, and which use of a value drives it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.backends import RunRecord
from wiregrad.errors import InputError, UnknownNameError
from wiregrad.inspect import report
from wiregrad.inspect.paths import branches, paths
from wiregrad.ir import Pattern

from ..support.random_circuits import random_circuit

RNG = np.random.default_rng(7)
W, X = RNG.normal(size=(3, 3)), RNG.normal(size=(5, 3))


ONE, TWO = "sin cos tanh sigmoid absolute leaky_relu".split(), "add subtract multiply maximum hypot".split()


def layered(layers: int) -> wg.Circuit:
    """Return a circuit in which every layer doubles the number of paths and values stay small."""
    builder = wg.Builder()
    y = builder.input("x")
    for _ in range(layers):
        y = builder.sin(y) * builder.cos(y)
    return builder.build(y)


def enumerated(run: RunRecord, name: str, most: int) -> list[float] | None:
    """Return the contribution of every path without a blocked wire; None if there are more than `most` in all."""
    root, locals_ = run.circuit.root(), dict[tuple[int, int], float | None]()
    for row in run.circuit.rows():
        xs, starts = [run.values[source] for source in row.sources], run.circuit.columns.starts
        for slot in range(len(xs)):
            live = run.sent[int(starts[row.node]) + slot] is not None
            locals_[row.node, slot] = float(row.op.local(slot, xs, run.values[row.node], row.mode)) if live else None
    found, stack = list[float](), [(run.circuit.index(name), 1.0)]
    for _ in range(60 * most):
        if not stack or len(found) > most:
            break
        node, product = stack.pop()
        if node == root:
            found.append(product)
            continue
        for reader, slot in run.readers_of(node):
            factor = locals_[reader, slot]
            if reader <= root and factor is not None:
                stack.append((reader, product * factor))
    return None if stack or len(found) > most else found


def braided(rng: np.random.Generator, nodes: int) -> wg.Circuit:
    """Return a random circuit in which nearly every node leads to the output, along some thousand paths at most."""
    builder = wg.Builder()
    ports = [builder.input("x"), builder.input("y")]
    for _ in range(nodes):
        two = rng.random() < 15 / nodes
        op = str(rng.choice(TWO if two else ONE))
        ports.append(builder.apply(op, ports[-1], *([ports[-int(rng.integers(1, min(9, len(ports))))]] if two else [])))
    return builder.build(ports[-1])


def random_runs(count: int) -> Iterator[RunRecord]:
    """Return runs of random circuits of up to 200 nodes: of any ops, or of ops that keep gradients alive."""
    for seed in range(count):
        rng = np.random.default_rng([4, seed])
        nodes = int(rng.integers(5, 200))
        circuit = braided(rng, nodes) if seed % 2 else random_circuit(rng, nodes=nodes)
        circuit = circuit.split() if seed % 3 == 0 else circuit
        yield circuit.run(rng.normal(size=len(circuit.inputs)))


@pytest.mark.parametrize("count", [12, pytest.param(200, marks=pytest.mark.full)])
def test_all_paths_add_up_to_the_gradient_and_the_largest_are_found(count: int) -> None:
    checked, largest = 0, 0
    with np.errstate(all="ignore"):
        for run in random_runs(count):
            for name in run.circuit.inputs:
                contributions = enumerated(run, name, 20_000)
                if contributions is None or not np.all(np.isfinite(contributions)):
                    continue
                found = paths(run, name, 12)
                sizes = np.sort(np.abs(contributions))[::-1]
                shown = [path.magnitude for path in found.paths]

                assert found.live == len(contributions)
                assert abs(math.fsum(contributions) - found.total) <= 1e-12 * sizes.sum()
                assert np.allclose(shown, sizes[:12], rtol=1e-12, atol=1e-300)
                assert math.isclose(found.magnitude, sizes.sum(), rel_tol=1e-12)
                checked, largest = checked + (len(contributions) > 1), max(largest, len(contributions))
    assert checked > 0.4 * count
    assert largest > 25 * count


def test_more_than_ten_to_the_thirty_paths_are_counted_exactly() -> None:
    run = layered(120).run(x=0.5)
    found = paths(run, "x")

    assert found.count == found.live == 2**120
    assert len(found.paths) == 10
    assert found.paths[0].contribution == pytest.approx(math.prod(found.paths[0].locals), rel=1e-12)
    assert found.total == run.grads["x"]
    assert found.rest == found.total - sum(path.contribution for path in found.paths)
    assert "1,329,227,995,784,915,872,903,807,060,280,344,576 paths" in str(found)


def test_a_count_of_thousands_of_digits_can_be_said() -> None:
    found = paths(layered(120).run(x=0.5), "x", 1)

    assert "about 2.818 x 10^4515 paths" in str(dataclasses.replace(found, count=2**15_000, live=2**15_000))


@pytest.mark.full
def test_paths_whose_count_has_thousands_of_digits_are_counted() -> None:
    found = paths(layered(15_000).run(x=0.5), "x", 1)

    assert found.count == found.live == 2**15_000
    assert "about 2.818 x 10^4515 paths" in str(found)


def test_a_square_has_two_paths_along_its_two_wires() -> None:
    found = paths(wg.circuit("t = x * x; f = t * t").run(x=3), "x")

    assert (found.count, found.live, found.total) == (4, 4, 108.0)
    assert {path.wires for path in found.paths} == {(("t", a), ("f", b)) for a in (0, 1) for b in (0, 1)}
    assert [path.locals for path in found.paths] == [(3.0, 9.0)] * 4


def test_splitters_are_passed_through() -> None:
    circuit = wg.circuit("t = x * x; f = t + x")
    implied, split = (paths(c.run(x=3), "x") for c in (circuit, circuit.split()))

    assert sorted(str(implied).splitlines()) == sorted(str(split).splitlines())
    assert [path.nodes for path in split.paths] == [("x", "t", "f"), ("x", "t", "f"), ("x", "f")]


def test_paths_are_told_with_their_factors() -> None:
    run = wg.circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10)

    assert str(paths(run, "a")) == "a reaches f along 1 path; its gradient is 10\n  10 = 1 x 10 x 1   a -> e -> f"
    assert repr(paths(run, "c")).endswith("  -1 = -1 x 1   c -> f")
    assert [str(place) for place in paths(run, "a").paths[0].places] == ["None", "formula:1:5", "formula:1:16"]


def test_the_output_has_one_empty_path() -> None:
    found = paths(wg.circuit("f = a * a").run(a=2), "f")

    assert (found.count, found.live, found.total, found.rest) == (1, 1, 1.0, 0.0)
    assert (found.paths[0].nodes, found.paths[0].wires, found.paths[0].contribution) == (("f",), (), 1.0)
    assert str(found).startswith("f is the output: its gradient is 1")


def test_a_node_whose_paths_are_all_blocked_says_so() -> None:
    found = paths(wg.circuit("f = relu(x) * relu(x)").run(x=-2), "x")

    assert (found.count, found.live, found.paths, found.cancellation) == (2, 0, (), 1.0)
    assert str(found) == "x reaches f along 2 paths, but no gradient comes back: none of them carries one"


def test_a_blocked_path_is_counted_and_not_shown() -> None:
    found = paths(wg.circuit("f = maximum(x, 3 * x)").run(x=2), "x")

    assert (found.count, found.live) == (2, 1)
    assert [path.contribution for path in found.paths] == [3.0]
    assert "along 2 paths, 1 of them with a gradient" in str(found)


def test_a_node_that_does_not_reach_the_output_says_so() -> None:
    circuit = wg.circuit("t = x * y; f = x + 1").with_output("f")
    found = paths(circuit.run(x=1, y=2), "y")

    assert (found.count, found.total) == (0, 0.0)
    assert str(found) == "y does not reach f: no path leads from one to the other"


def test_a_constant_is_told_apart_from_a_blocked_node() -> None:
    circuit = wg.circuit("f = 2 * x")
    constant = circuit.name_of(next(iter(circuit.constants())))

    assert str(paths(circuit.run(x=1), constant)).endswith("but no gradient comes back: 2.0 depends on no input")


def test_cancelling_paths_are_said_to_cancel() -> None:
    nearly = paths(wg.circuit("f = (1e8 * x + x) - 1e8 * x").run(x=3), "x")
    wholly = paths(wg.circuit("f = x - x").run(x=3), "x")
    never = paths(wg.circuit("f = x * x + x").run(x=3), "x")

    assert nearly.cancellation == pytest.approx(2e8, rel=1e-6)
    assert "paths nearly cancel: their magnitudes add up to 2e8" in str(nearly)
    assert wholly.cancellation == math.inf
    assert "paths cancel: their magnitudes add up to 2, the paths themselves to 0" in str(wholly)
    assert never.cancellation == 1.0
    assert "cancel" not in str(never)


def test_long_chains_neither_under_nor_overflow_on_their_way() -> None:
    builder = wg.Builder()
    x = builder.input("x")
    one, two = x, x
    for _ in range(1_200):
        one, two = one * 4.0, two * 4.0
    for _ in range(1_200):
        one, two = one * 0.25, two * 0.125
    run = builder.build(one + two).run(x=1)
    found = paths(run, "x")

    assert run.grads == {"x": 0.0}, "the sweep itself underflows"
    assert [path.contribution for path in found.paths] == [1.0, 0.0]
    assert (found.magnitude, found.cancellation) == (1.0, 1.0)
    assert (found.total, found.added, found.rest) == (0.0, 1.0, 0.0)
    assert str(found).splitlines()[1] == "the sweep underflowed: the paths add up to 1"


def test_a_sweep_that_overflowed_is_told_apart_from_what_the_paths_add_up_to() -> None:
    found = paths(wg.circuit("y = 1e200 * (1e200 * (1e-200 * (1e-200 * x)))").run(x=1), "x")

    assert (found.total, found.added, found.rest) == (math.inf, pytest.approx(1.0), 0.0)
    assert str(found).splitlines()[:2] == [
        "x reaches y along 1 path; its gradient is Inf",
        "the sweep overflowed: the paths add up to 1",
    ]
    assert "sweep" not in str(paths(wg.circuit("y = sqrt(x)").run(x=0), "x"))


@pytest.mark.parametrize("by", [2.0**60, 2.0**-60])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_flows_along_arrays_neither_under_nor_overflow_on_their_way(dtype: type, by: float) -> None:
    def there_and_back(x: wg.Value, by: float) -> wg.Value:
        for factor in (*[by] * 20, *[1 / by] * 20):
            x = x * dtype(factor)
        return x.sum()

    with np.errstate(all="ignore"):
        found = paths(wg.run(lambda x, by=by: there_and_back(x, by), np.ones(2, dtype)), "x")

    assert found.paths[0].contribution.tolist() == [1.0, 1.0]
    assert all(math.isfinite(factor) and factor for factor in found.paths[0].locals)
    assert found.added.tolist() == [1.0, 1.0]
    assert "flowed: the paths add up to [1, 1]" in str(found)


def test_an_infinity_along_arrays_is_handed_on_and_not_divided_by_itself() -> None:
    found = paths(wg.run(lambda x: np.sum(np.sqrt(2.0 * x)), np.array([0.0, 4.0])), "x")

    assert str(found.paths[0]).startswith("|Inf| = 1 x Inf x ")


def test_infinite_and_undefined_contributions_come_first() -> None:
    found = paths(wg.circuit("f = sqrt(x) * log(x) + 0 * log(x) + 5 * x").run(x=0), "x")

    assert math.isnan(found.total)
    assert math.isnan(found.cancellation)
    assert [str(path.contribution) for path in found.paths] == ["nan", "nan", "-inf", "5.0"]


def test_a_zero_that_meets_an_infinity_later_is_not_lost() -> None:
    """With k = 1, the zero product at t must be kept beside the larger one: sqrt makes it NaN."""
    found = paths(wg.circuit("t = x * 0 + x; f = sqrt(t)").run(x=0), "x", 1)

    assert str(found.paths[0].contribution) == "nan"


def test_the_number_of_paths_shown_is_checked() -> None:
    run = layered(3).run(x=0.5)

    assert paths(run, "x", 0).paths == ()
    assert len(paths(run, "x", 100).paths) == 8
    assert len(paths(run, "x", np.int64(3)).paths) == 3  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError):
        paths(run, "nobody")


@pytest.mark.parametrize("k", [-1, 1.5, True, "3", np.True_, np.int64(-1), None])
def test_a_number_of_paths_that_is_none_is_refused(k: Any) -> None:
    with pytest.raises(InputError, match="a non-negative integer"):
        paths(layered(3).run(x=0.5), "x", k)


def model(w: wg.Value, x: wg.Value) -> wg.Value:
    h = np.tanh(x @ w)
    return ((h @ w) ** 2).mean() + (w * w).sum() * 0.1


def test_contributions_along_arrays_add_up_to_the_gradient() -> None:
    run = wg.run(model, W, X)
    found, few = paths(run, "w"), paths(run, "w", 2)

    assert (found.exact, found.count, found.live, len(found.paths)) == (False, 4, 4, 4)
    assert np.allclose(sum(path.contribution for path in found.paths), wg.grad(model)(W, X), rtol=1e-12)
    # Libraries add squares in an order of their own on each processor.
    assert [path.magnitude for path in found.paths] == pytest.approx(
        [np.linalg.norm(path.contribution) for path in found.paths], rel=4e-15
    )
    assert [path.magnitude for path in few.paths] == [path.magnitude for path in found.paths[:2]]
    assert np.allclose(few.rest, found.paths[2].contribution + found.paths[3].contribution, atol=1e-15)
    assert all(math.isclose(math.prod(path.locals), path.magnitude) for path in found.paths)
    assert "larger ones may be among the others" in str(few)
    assert "test_paths.py" in str(found.paths[0].places[-1])


def test_arrays_of_one_element_cancel_as_numbers_do() -> None:
    def f(x: wg.Value) -> wg.Value:
        t = np.sin(x)
        return (50.0 * t * x - 49.0 * t * x + t).sum()

    numbers, arrays = paths(wg.run(f, 0.7), "x"), paths(wg.run(f, np.array([0.7])), "x")

    assert (numbers.exact, arrays.exact) == (True, False)
    assert arrays.cancellation == pytest.approx(numbers.cancellation, rel=1e-12)
    assert arrays.count == numbers.count


def test_a_gradient_that_cancels_inside_still_says_how_much_went_through() -> None:
    def f(x: wg.Value) -> wg.Value:
        h = 3.0 * x
        return (h - h + x).sum()

    found = paths(wg.run(f, np.ones(2)), "x")

    assert found.cancellation == pytest.approx(7.0)


@pytest.mark.parametrize(
    "x",
    [np.zeros((0, 3)), np.array([np.nan, np.inf]), np.float32([1.0, 2.0]), np.array([1 + 2j]), 1 + 2j, np.float32(2)],
    ids=["empty", "not finite", "float32", "complex", "complex number", "float32 number"],
)
def test_every_kind_of_value_has_an_answer(x: object) -> None:
    run = wg.run(lambda x: wg.real(x * x + x).sum(), x)
    found, uses = paths(run, "x"), branches(run, "x")

    assert (found.count, len(uses.branches)) == (3, 3)
    assert np.shape(found.rest) == np.shape(x)
    assert str(found).startswith("x reaches f along 3 paths")
    assert str(uses).startswith("x is used 3 times")


D, E0, E1 = np.diag([1e6, 1e-6]), np.array([1.0, 0.0]), np.array([0.0, 1.0])


def test_cancellation_along_arrays_is_that_of_the_paths_where_all_are_listed() -> None:
    """What the wires stretch depends on the direction: D makes one flow large and the other small."""

    def small_parts_cancel(x: wg.Value) -> wg.Value:
        h = D @ x
        return 1e3 * (h @ E1) - 1e3 * (h @ E1) + h @ E0

    def large_parts_cancel(x: wg.Value) -> wg.Value:
        h = D @ x
        return h @ E0 - h @ E0 + h @ E1

    small, large = (paths(wg.run(f, np.ones(2)), "x") for f in (small_parts_cancel, large_parts_cancel))

    assert (small.cancellation, "cancel" in str(small)) == (pytest.approx(1.0), False)
    assert large.cancellation == pytest.approx(2e12)
    assert "paths nearly cancel: their magnitudes add up to 2e6, " in str(large)
    assert [found.magnitude for found in (small, large)] == [
        sum(path.magnitude for path in found.paths) for found in (small, large)
    ]


def test_an_estimate_of_the_magnitudes_is_called_one() -> None:
    def f(x: wg.Value) -> wg.Value:
        h = D @ x
        return h @ E0 - h @ E0 + h @ E1

    found = paths(wg.run(f, np.ones(2)), "x", 2)

    assert found.estimated
    assert found.magnitude >= sum(path.magnitude for path in found.paths)
    assert "their magnitudes add up to about" in str(found)
    assert "along the other path" in str(found)


def counting() -> tuple[type[wg.Function], list[str]]:
    calls = list[str]()

    class Twice(wg.Function):
        check = False

        @staticmethod
        def forward(ctx: object, x: wg.Value) -> wg.Value:
            calls.append("forward")
            return x * 2.0

        @staticmethod
        def backward(ctx: object, g: wg.Value) -> wg.Value:
            calls.append("backward")
            return g * 2.0

    return Twice, calls


@pytest.mark.parametrize("x", [0.5, np.array([0.5, 1.5])], ids=["number", "array"])
def test_users_own_code_is_not_run_again(x: object) -> None:
    own, calls = counting()
    run = wg.run(lambda x: (3.0 * own.apply(np.sin(x))).sum() + (x * x).sum(), x)
    calls.clear()
    found = paths(run, "x")

    assert calls == []
    assert len(found.paths) == 3
    assert np.allclose(sum(path.contribution for path in found.paths), 6.0 * np.cos(x) + 2.0 * np.asarray(x))  # type: ignore[arg-type]
    assert "own.apply(np.sin(x))" in str(found)


def test_two_uses_by_one_node_are_told_apart() -> None:
    run = wg.circuit("y = x ** x").run(x=2)
    quotient = branches(wg.circuit("y = x / x").run(x=2), "x")

    assert [line.split("   ")[1] for line in str(paths(run, "x")).splitlines()[1:]] == [
        "x -> y (as a)",
        "x -> y (as b)",
    ]
    assert [str(line).split(" (")[0].strip() for line in str(quotient).splitlines()[1:]] == [
        "0.5 from y = x / x as a",
        "-0.5 from y = x / x as b",
    ]
    assert " as " not in str(branches(wg.circuit("y = x * 3 + x").run(x=2), "x"))


def test_reports_are_plain_data() -> None:
    found = paths(wg.circuit("f = x * x").run(x=3), "x")

    assert dataclasses.replace(found, paths=()).count == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.count = 3  # type: ignore[misc]


def test_branches_of_random_circuits_add_up_to_the_gradient() -> None:
    checked = 0
    with np.errstate(all="ignore"):
        for run in random_runs(80):
            for name in run.circuit.inputs:
                found = branches(run, name)
                parts = [branch.sent for branch in found.branches]
                if np.all(np.isfinite(parts)):
                    checked += len(parts) > 1

                    assert abs(math.fsum(parts) - found.total) <= 1e-12 * math.fsum(map(abs, parts))
    assert checked > 30


def test_branches_say_which_use_drives_the_gradient() -> None:
    circuit = wg.circuit("t = w * x; f = t + w")
    found = branches(circuit.run(w=2, x=6), "w")

    assert [(use.reader, use.op, use.slot, use.sent) for use in found.branches] == [
        ("t", "multiply", 0, 6.0),
        ("f", "add", 1, 1.0),
    ]
    assert [use.share for use in found.branches] == [6 / 7, 1 / 7]
    assert str(found).startswith("w is used 2 times; its gradient is 7, driven by t = w * x\n")


def test_branches_look_through_splitters_and_copies() -> None:
    circuit = wg.circuit("t = w * x; f = t + w * w").split()
    split = branches(circuit.run(w=2, x=6), "w")

    assert not any(circuit[use.reader].op.pattern is Pattern.MERGE for use in split.branches)
    assert sorted(use.sent for use in split.branches) == [2.0, 2.0, 6.0]

    run = wg.run(lambda x, w: ((x + w) * w).sum() + w @ w, X, W[0])
    found = branches(run, "w")

    assert [use.op for use in found.branches].count("add") == 1
    assert {use.op for use in found.branches} == {"add", "multiply", "matmul"}
    assert np.allclose(sum(use.sent for use in found.branches), run.grads["w"])
    assert sum(use.share for use in found.branches) == pytest.approx(1.0)


def test_branches_tell_cancelling_blocked_and_missing_uses() -> None:
    cancel = branches(wg.circuit("f = 1000 * w - 999 * w + (w > 3)").run(w=2), "w")
    blocked = branches(wg.circuit("f = relu(w)").run(w=-2), "w")
    output = branches(wg.circuit("f = 2 * w").run(w=-2), "f")

    assert "driven by 1000.0 * w; the others take 99.9 % of it back" in str(cancel)
    assert "-999 times the gradient" in str(cancel)
    assert str(cancel).endswith("nothing from w > 3.0 (formula:1:27)")
    assert "no use sends one back" in str(blocked)
    assert [(use.op, use.sent, use.share) for use in output.branches] == [(None, 1.0, 1.0)]
    assert str(branches(wg.circuit("f = a + 0 * b").with_output("a").run(a=1, b=2), "b")).startswith("b is used once")


def test_many_uses_behind_splitters_are_found_in_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = wg.Builder()
    x = builder.input("x")
    run = builder.build(reduce(builder.add, [builder.sin(x) for _ in range(400)])).split().run(x=1)
    pulled = list[object]()
    monkeypatch.setattr(report, "match_dtype", lambda flow, x: pulled.append(x))
    found = branches(run, "x")

    assert len(found.branches) == 400
    assert pulled == [], "a splitter hands back what it is given"
    assert str(found).splitlines()[-1] == "  and 381 more"


def test_the_size_of_a_branch_neither_under_nor_overflows() -> None:
    found = branches(wg.run(lambda w: np.sum(w * 1e200) - np.sum(w[0]), np.ones(4)), "w")

    assert found.branches[0].magnitude == pytest.approx(2e200)


def test_branches_of_a_zero_or_undefined_gradient_have_no_share() -> None:
    zero = branches(wg.circuit("f = w - w").run(w=2), "w")
    undefined = branches(wg.circuit("f = log(w) * w").run(w=0), "w")

    assert all(math.isnan(use.share) for use in (*zero.branches, *undefined.branches))
    assert str(undefined).splitlines()[1].strip().startswith("NaN from")
