"""The training flight recorder."""

from __future__ import annotations

import math
import pickle
import re
from collections import namedtuple
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wiregrad as wg
from wiregrad.errors import IndexingError, InputError, OperandError, ShapeError, UnknownNameError
from wiregrad.inspect.flight_recorder import KINDS, Event, Flight, FlightError
from wiregrad.inspect.flight_recorder.training_steps import (
    MAX_STORED_NUMBERS,
    StepHistory,
    draw_sparkline,
    flatten_leaves,
)

from ..support.memory import WINDOWS, measure_traced_growth
from ..support.sampling import choose_count
from .test_flow import HOSTILE, check_svg, elements, texts


def fly(sizes: Any, losses: Any = None, **options: Any) -> Flight:
    """Record a flight of one group whose gradient has these sizes and whose parameters always move."""
    flight = Flight(**options)
    for step, size in enumerate(sizes):
        loss = 1.0 if losses is None else losses[step]
        flight.step(loss, {"w": np.array([1.0, 2.0]) + step}, {"w": np.array([size, -size])})
    return flight


def usual(steps: int) -> list[float]:
    """Return gradients of ordinary sizes."""
    return (1.0 + 0.5 * np.random.default_rng(steps).random(steps)).tolist()


@given(st.lists(st.floats(-1e300, 1e300) | st.just(math.nan), min_size=1, max_size=80), st.integers(2, 9))
@settings(max_examples=choose_count(30, 150), deadline=None)
def test_records_keep_smallest_mean_and_largest_of_their_steps(numbers: list[float], capacity: int) -> None:
    history = StepHistory(capacity, 1)
    for number in numbers:
        history.add_row(np.array([number]))
    starts = history.record_starts().tolist()

    assert len(history) <= capacity
    assert (starts[0], starts[-1]) == (0, len(numbers))
    for k in range(len(history)):
        part = [x for x in numbers[starts[k] : starts[k + 1]] if math.isfinite(x)]
        band = history.band_of(k, 0)
        if part:
            assert (band.low, band.high) == (min(part), max(part))
            assert band.low <= band.mean <= band.high
            assert band.mean == pytest.approx(
                math.fsum(part) / len(part), rel=1e-9, abs=1e-12 * max(map(abs, part)) + 1e-300
            )
        else:
            assert math.isnan(band.mean)
    for step in range(len(numbers)):
        k = history.record_at(step)
        assert starts[k] <= step < starts[k + 1]


@pytest.mark.parametrize("most", [2, 7, 50])
def test_a_curve_has_few_points_and_reaches_every_extreme(most: int) -> None:
    numbers = np.random.default_rng(0).normal(size=333)
    history = StepHistory(100, 1)
    for number in numbers:
        history.add_row(np.array([number]))
    steps, low, mean, high = history.merged_curve(0, most)

    assert len(steps) <= most
    assert (low.min(), high.max()) == (numbers.min(), numbers.max())
    assert np.all((low <= mean) & (mean <= high))
    assert np.all(np.diff(steps) > 0)


def test_memory_does_not_grow_with_the_number_of_steps() -> None:
    flight = Flight(capacity=50)
    params = {"a": np.ones(10), "b": np.ones(5)}

    def make_steps() -> None:
        for _ in range(400):
            flight.step(1.0, params, params)

    assert measure_traced_growth(make_steps) < 5_000
    assert flight.steps == 400 * WINDOWS
    assert len(flight) <= 50


def test_many_groups_get_fewer_records_rather_than_more_memory() -> None:
    assert StepHistory(10**9, 1000).capacity * 1000 <= MAX_STORED_NUMBERS


@pytest.mark.parametrize("capacity", [2, 10, 1000])
@pytest.mark.parametrize("at", [3, 57, 140])
@pytest.mark.parametrize(
    ("kind", "size"),
    [("exploded", 1e5), ("vanished", 1e-9), ("vanished", 0.0), ("nonfinite", math.nan), ("nonfinite", math.inf)],
)
def test_an_event_has_its_exact_step_also_when_records_were_merged(
    capacity: int, at: int, kind: str, size: float
) -> None:
    flight = fly([*usual(at), *[size] * 10, *usual(100)], capacity=capacity)
    event = flight.first(kind)

    assert event is not None
    assert (event.step, event.group, event.what) == (at, "w", "gradient")
    if math.isfinite(size):
        assert event.number == size
    assert len(flight) <= capacity
    assert flight[at].first <= at <= flight[at].last


def test_what_may_be_chance_must_hold_for_some_steps() -> None:
    short, long = (fly([*usual(30), *[1e-6] * held, *usual(30)], patience=4) for held in (3, 4))

    assert short.first("vanished") is None
    assert long.first("vanished") == long.events[0]
    assert (long.events[0].step, long.events[0].found) == (30, 33)


def test_a_gradient_is_compared_with_its_own_early_median() -> None:
    event = fly([2.0] * 30 + [4000.0]).first("exploded")

    assert event is not None
    assert (event.number, event.reference) == (4000.0, 2.0)
    assert "2000 times its early median 2" in str(event)


def test_a_slow_rise_from_the_start_is_found() -> None:
    flight = fly([2.0**k for k in range(60)])
    event = flight.first("exploded")

    assert event is not None
    assert 10 < event.step < 30


def test_a_group_that_never_has_a_gradient_is_found_at_once() -> None:
    flight = Flight()
    for _ in range(3):
        flight.step(1.0, {"a": [1.0], "b": [2.0]}, {"a": [1.0], "b": None})
    event = flight.first("vanished", "b")

    assert event is not None
    assert event.step == 0
    assert "no gradient comes to" in str(event)
    assert flight.first("vanished", "a") is None


def test_a_loss_that_is_not_finite_or_explodes_is_found() -> None:
    losses = [1.0] * 20 + [5e3] * 5 + [-math.inf, math.nan]
    flight = fly(usual(27), losses)

    assert [(event.kind, event.step) for event in flight.events] == [("exploded", 20), ("nonfinite", 25)]
    assert flight[25].lost == 1
    assert math.isnan(flight[25].loss.mean)


def test_parameters_that_do_not_move_are_found() -> None:
    flight = Flight(patience=3)
    for step in range(12):
        moves = step if step < 6 else 6
        flight.step(1.0, {"w": np.ones(3) + moves, "v": np.ones(2) * step}, None)
    event = flight.first("stuck")

    assert event is not None
    assert (event.group, event.step, event.found) == ("w", 7, 9)
    assert flight.first("stuck", "v") is None


def test_broken_parameters_are_found() -> None:
    flight = Flight()
    flight.step(1.0, {"w": np.array([1.0, 2.0])})
    flight.step(1.0, {"w": np.array([1.0, np.nan])})
    event = flight.first("nonfinite")

    assert event is not None
    assert (event.step, event.what, event.number) == (1, "parameter", 1.0)
    assert flight[1].groups["w"].broken == 1


def test_a_group_of_zeros_is_dead() -> None:
    flight = Flight(patience=2)
    grads = np.zeros(100)
    grads[:5] = 1.0
    for step in range(4):
        flight.step(1.0, {"w": np.ones(100) + step}, {"w": grads if step else np.ones(100)})
    event = flight.first("dead")

    assert event is not None
    assert (event.step, event.number) == (1, 0.95)


def test_the_update_ratio_is_the_move_over_the_size() -> None:
    flight = Flight()
    flight.step(1.0, {"w": np.full(4, 10.0)})
    flight.step(1.0, {"w": np.full(4, 10.1)})

    assert flight[1].groups["w"].update.mean == pytest.approx(0.1 / 10.1)
    assert math.isnan(flight[0].groups["w"].update.mean)


def test_parameters_that_are_updated_in_place_are_seen_to_move() -> None:
    flight, w = Flight(), np.ones(4)
    flight.step(1.0, {"w": w})
    w *= 2.0
    flight.step(1.0, {"w": w})

    assert flight[1].groups["w"].update.mean == pytest.approx(0.5)


def test_what_the_user_gave_is_left_alone() -> None:
    w, g = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    w.setflags(write=False)
    g.setflags(write=False)
    flight = Flight(keep=1)
    for _ in range(3):
        flight.step(1.0, {"w": w}, {"w": g})

    assert (w.tolist(), g.tolist()) == ([1.0, 2.0], [3.0, 4.0])


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "bool", "complex128"])
def test_sizes_are_right_for_every_dtype(dtype: str) -> None:
    rng = np.random.default_rng(0)
    w, g = (rng.integers(0, 2, (3, 4)).astype(dtype) for _ in range(2))
    flight = Flight()
    flight.step(1.0, {"w": w}, {"w": g})
    found = flight[0].groups["w"]
    parts = np.stack([g.real, g.imag]) if dtype == "complex128" else g.astype(float)

    assert found.gradient.mean == pytest.approx(math.sqrt(np.mean(parts**2)))
    assert found.zeros.mean == np.mean(parts == 0)
    assert found.largest.mean == 1.0


@pytest.mark.parametrize("size", [1e-200, 1e-30, 1e30, 1e200])
def test_moves_and_sizes_do_not_overflow(size: float) -> None:
    flight = Flight()
    flight.step(1.0, {"w": np.full(5, size)}, {"w": np.full(5, size)})
    flight.step(1.0, {"w": np.full(5, 2 * size)}, {"w": np.full(5, size)})
    found = flight[1].groups["w"]

    assert found.update.mean == pytest.approx(0.5)
    assert (found.gradient.mean, found.parameter.mean) == pytest.approx((size, 2 * size))


def test_values_bring_their_gradients() -> None:
    w, b = wg.Value(np.array([1.0, 2.0])), wg.Value(0.5)
    flight = Flight()
    for _ in range(3):
        w.grad = b.grad = None
        loss = ((w * 3.0).sum() + b) ** 2
        loss.backward()
        flight.step(loss, {"w": w, "b": b})
        w.data, b.data = w.data - 0.01 * w.grad, b.data - 0.01 * b.grad
    found = flight[0].groups

    assert flight[0].loss.mean == 90.25
    assert found["w"].gradient.mean == pytest.approx(57.0)
    assert found["b"].gradient.mean == pytest.approx(19.0)
    assert flight[2].groups["w"].update.mean > 0


def test_a_value_without_a_gradient_counts_as_absent() -> None:
    flight = Flight()
    flight.step(1.0, {"w": wg.Value(2.0)})

    assert "no gradient comes to" in str(flight.first("vanished"))


Layer = namedtuple("Layer", "weight bias")


@pytest.mark.parametrize(
    ("params", "groups", "names"),
    [
        ({"a": {"w": 1.0, "b": 2.0}, "c": 3.0}, 1, ("a", "c")),
        ({"a": {"w": 1.0, "b": 2.0}, "c": 3.0}, 2, ("a/w", "a/b", "c")),
        ([np.ones(2), (1.0, 2.0)], 1, ("0", "1")),
        ([Layer(np.ones(2), 0.0)], 2, ("0/weight", "0/bias")),
        (np.ones(3), 1, ("all",)),
        ({"w1": 1.0, "w2": 2.0, "b1": 3.0}, lambda path: path[0][0], ("w", "b")),
        ({}, 1, ()),
    ],
)
def test_groups_come_from_the_container(params: Any, groups: Any, names: tuple[str, ...]) -> None:
    flight = Flight(groups=groups)
    flight.step(1.0, params, params)

    assert flight.groups == names


def test_the_order_of_keys_may_change() -> None:
    flight = Flight()
    flight.step(1.0, {"a": 1.0, "b": 2.0})
    flight.step(1.0, {"b": 2.0, "a": 1.0})

    assert flight[1].groups["a"].update.mean == 0.0


BAD_STEPS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"params": {"w": np.ones(3)}}, OperandError, "without b"),
    ({"params": {"w": np.ones(3), "b": 1.0, "c": 2.0}}, OperandError, "with c"),
    ({"params": {"w": np.ones(4), "b": 1.0}}, ShapeError, r"\(3,\)"),
    ({"params": {"w": "text", "b": 1.0}}, OperandError, "at w"),
    ({"params": {"w": object(), "b": 1.0}}, OperandError, "at w"),
    ({"params": {"w": [[1.0], [1.0, 2.0], 3.0], "b": 1.0}}, OperandError, "structure"),
    ({"grads": {"w": np.ones(2), "b": 1.0}}, ShapeError, "grads at w"),
    ({"grads": {"w": np.ones(3), "z": 1.0}}, OperandError, "with z"),
    ({"grads": {"w": "text"}}, OperandError, "grads must be made of numbers"),
    ({"loss": "low"}, InputError, "the loss"),
    ({"loss": np.ones(2)}, InputError, "the loss"),
    ({"loss": 1j}, InputError, "the loss"),
    ({"loss": None}, InputError, "the loss"),
    ({"loss": True}, InputError, "the loss"),
]


@pytest.mark.parametrize(("changed", "error", "words"), BAD_STEPS)
def test_a_step_that_is_refused_leaves_the_recording_as_it_was(
    changed: dict[str, Any], error: type[Exception], words: str
) -> None:
    good: dict[str, Any] = {"loss": 1.0, "params": {"w": np.ones(3), "b": 1.0}, "grads": {"w": np.ones(3), "b": 1.0}}
    flight = Flight()
    flight.step(**good)
    before = str(flight)
    with pytest.raises(error, match=words):
        flight.step(**{**good, **changed})

    assert str(flight) == before
    flight.step(**good)
    assert flight[1].groups["w"].update.mean == 0.0


def test_a_container_that_contains_itself_is_refused() -> None:
    ring: list[Any] = [1.0]
    ring.append(ring)

    with pytest.raises(OperandError, match="contain itself"):
        flatten_leaves(ring, "params")


@pytest.mark.parametrize(
    "options",
    [{"capacity": 1}, {"capacity": 2.5}, {"keep": -1}, {"groups": 0}, {"groups": "a"}, {"on_event": "stop"},
     {"vanish": 2.0}, {"vanish": "x"}, {"explode": 0.5}, {"dead": math.nan}, {"patience": 0}, {"early": 1},
     {"watch": ["ended"]}, {"capacty": 3}],
)  # fmt: skip
def test_settings_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Flight(**options)


def test_questions_that_mean_nothing_are_refused() -> None:
    flight = fly(usual(3))

    with pytest.raises(InputError, match="did you mean vanished"):
        flight.first("vanishd")
    with pytest.raises(UnknownNameError, match="it has w"):
        flight.first("vanished", "v")


@pytest.mark.parametrize("step", [3, -4, 1.0, "0", True])
def test_a_step_that_is_not_there_is_refused(step: Any) -> None:
    with pytest.raises(IndexingError):
        fly(usual(3))[step]


def test_steps_are_looked_up_from_both_ends() -> None:
    flight = fly(usual(5))

    assert flight[-1] == flight[4]
    assert [record.first for record in flight] == [0, 1, 2, 3, 4]
    assert flight[np.int64(2)].first == 2


def test_records_follow_each_other_without_a_gap() -> None:
    records = list(fly(usual(1000), capacity=30))

    assert len(records) == len(fly(usual(1000), capacity=30))
    assert records[0].first == 0
    assert records[-1].last == 999
    assert all(a.last + 1 == b.first for a, b in pairwise(records))


def test_raise_stops_at_the_bad_step() -> None:
    with pytest.raises(FlightError) as caught:
        fly([*usual(7), math.nan, *usual(5)], on_event="raise")

    assert caught.value.event.step == 7
    assert isinstance(caught.value, ArithmeticError)
    assert pickle.loads(pickle.dumps(caught.value)).event.kind == "nonfinite"


def test_a_function_is_told_each_event_once() -> None:
    told: list[Event] = []
    flight = fly([*usual(10), *[math.nan, 1e9, 1.0] * 5], on_event=told.append)

    assert [event.kind for event in told] == ["nonfinite", "exploded"]
    assert told == list(flight.events)


def test_a_step_returns_the_events_it_made_sure_of() -> None:
    flight = Flight()

    assert flight.step(1.0, {"w": [1.0]}, {"w": [2.0]}) == ()
    assert [event.kind for event in flight.step(math.inf, {"w": [1.0]}, {"w": [2.0]})] == ["nonfinite"]


def test_only_what_is_watched_for_is_found() -> None:
    sizes = [*usual(10), math.nan, *[0.0] * 9]

    assert {event.kind for event in fly(sizes).events} == {"nonfinite", "vanished"}
    assert {event.kind for event in fly(sizes, watch=("dead",)).events} == {"dead"}
    assert fly(sizes, watch=()).events == ()


@pytest.mark.parametrize("keep", [1, 3])
@pytest.mark.parametrize(("size", "at"), [(math.nan, 9), (1e-8, 9), (0.0, 2)])
def test_the_steps_before_the_first_event_are_kept(keep: int, size: float, at: int) -> None:
    flight = fly([*usual(at), *[size] * 20], keep=keep)
    kept = flight.kept

    assert flight.events[0].step == at
    assert [snapshot.step for snapshot in kept] == list(range(max(0, at - keep), at + 1))
    assert kept[-1].params["w"].tolist() == [1.0 + at, 2.0 + at]


def test_snapshots_are_copies_of_parameters_and_inputs() -> None:
    flight, w, batch = Flight(keep=1), np.ones(2), np.zeros(3)
    flight.step(1.0, {"w": w, "v": wg.Value(2.0)}, {"w": w}, inputs=(batch, "name"))
    w += 1.0
    batch += 1.0

    assert flight.kept[0].params["w"].tolist() == [1.0, 1.0]
    assert flight.kept[0].params["v"] == 2.0
    assert flight.kept[0].inputs[0].tolist() == [0.0, 0.0, 0.0]
    assert flight.kept[0].inputs[1] == "name"


def test_nothing_is_kept_unless_asked() -> None:
    assert fly([*usual(5), math.nan]).kept == ()


def test_a_long_smooth_flight_has_no_events() -> None:
    steps = np.arange(3000)
    flight = fly((1.0 / (1 + 0.01 * steps)).tolist(), (3 * np.exp(-steps / 500)).tolist(), capacity=100)

    assert flight.events == ()
    assert "nothing vanished" in str(flight)


def test_a_report_names_steps_groups_and_numbers() -> None:
    text = str(fly([*usual(20), 1e6]))

    assert "flight of 21 steps in 21 records" in text
    assert "step 20: the gradient of w explodes: 1e6" in text
    assert repr(fly(usual(2))) == str(fly(usual(2)))


def test_a_sparkline_marks_what_is_not_finite_also_among_many_steps() -> None:
    losses = [1.0] * 400
    losses[123] = math.nan
    line = next(line for line in str(fly(usual(400), losses)).splitlines() if "loss" in line)

    assert line.count("!") == 1


@pytest.mark.parametrize("theme", ["light", "dark", "auto"])
def test_the_picture_names_curves_and_events(theme: str) -> None:
    svg = fly([*usual(20), 1e6, math.nan], [*usual(21), math.nan]).to_svg(theme=theme)
    written = texts(svg)
    check_svg(svg)

    assert "w" in written
    assert "20: exploded w" in written
    assert any("21: nonfinite" in text for text in written)
    assert sum(element.get("class") == "hatch" for element in elements(svg)) == 2


@pytest.mark.parametrize(
    "flight", [Flight(), fly([1.0]), fly([math.nan]), fly([0.0, 0.0]), fly([1.0], [-1.0]), fly([1e300, 5e-324])]
)
def test_flights_of_no_and_of_few_steps_are_drawn_and_said(flight: Any) -> None:
    check_svg(flight.to_svg())
    assert str(flight).startswith("flight of")


def test_a_long_flight_of_many_groups_makes_a_small_picture() -> None:
    flight = Flight()
    rng = np.random.default_rng(0)
    for _ in range(choose_count(350, 1500)):
        params = {f"group{k}": rng.normal(size=2) for k in range(30)}
        flight.step(1.0, params, params)
    svg = flight.to_svg()

    assert len(svg) < 300_000
    assert "12 of 30 groups are drawn" in svg


@pytest.mark.parametrize("name", HOSTILE)
def test_no_key_breaks_out_of_report_or_picture(name: str) -> None:
    flight = Flight(patience=1)
    for step in range(5):
        flight.step(1.0, {name: [1.0 + step]}, {name: [math.nan if step == 4 else 1.0]})
    check_svg(flight.to_svg())

    assert all(line.isprintable() for line in str(flight).splitlines())


@given(st.lists(st.sampled_from([0.0, 1.0, -2.0, 1e-9, 1e9, 1e300, 5e-324, math.nan, math.inf]), max_size=60))
@settings(max_examples=choose_count(25, 60), deadline=None)
def test_no_course_of_numbers_upsets_the_recorder(numbers: list[float]) -> None:
    flight = Flight(capacity=8, keep=1, patience=2)
    for number in numbers:
        flight.step(number, {"w": [number, 1.0]}, {"w": [1.0, number]})
    check_svg(flight.to_svg())

    assert {event.kind for event in flight.events} <= set(KINDS)
    assert len({(event.kind, event.what, event.group) for event in flight.events}) == len(flight.events)
    first = next((step for step, number in enumerate(numbers) if not math.isfinite(number)), None)
    event = flight.first("nonfinite")
    assert (None if event is None else event.step) == first


@pytest.mark.parametrize("losses", [[1e308, -1e308], [0.0, 5e-323], [5e-324, 0.0, 1e308], [-1.7e308, 0.0, 1.7e308]])
def test_extreme_losses_are_said_and_drawn(losses: list[float]) -> None:
    flight = fly([1.0] * len(losses), losses)

    assert "loss" in str(flight)
    check_svg(flight.to_svg())


def test_a_sparkline_spans_the_extremes() -> None:
    assert draw_sparkline([1e308, -1e308, 0.0]) == "█▁▅"
    assert draw_sparkline([0.0, 5e-323]) == "▁█"


@pytest.mark.parametrize("watch", [3, None, [1], 2.5, [["dead"]]])
def test_what_to_watch_for_is_names_of_kinds(watch: Any) -> None:
    with pytest.raises(InputError, match="nonfinite"):
        Flight(watch=watch)


def test_a_kind_to_watch_for_may_stand_alone() -> None:
    flight = fly([1.0, 1.0, 1.0, 1.0, 1e9], watch="exploded")

    assert [event.kind for event in flight.events] == ["exploded"]


def test_the_update_ratio_survives_a_change_of_dtype() -> None:
    flight = Flight()
    flight.step(1.0, {"w": np.array([1.0, 1.0], np.float32)})
    flight.step(1.0, {"w": np.array([1.0, 1.0]) * (1 + 1e-6)})
    flight.step(1.0, {"w": np.array([1.0, 1.0]) * (1 + 1e-6 + 1e-12)})

    assert flight[1].groups["w"].update.mean == pytest.approx(1e-6, rel=1e-3)
    assert flight[2].groups["w"].update.mean == pytest.approx(1e-12, rel=1e-3)


def test_a_report_gives_the_first_and_last_number_exactly() -> None:
    losses = [float(k) for k in range(1, 1001)]
    text = str(fly([1.0] * 1000, losses, capacity=4))

    assert re.search(r"loss +1 to 1000 ", text)


def test_a_gradient_of_zeros_is_told_once() -> None:
    told = [event.kind for event in fly([1.0] * 5 + [0.0] * 20).events]

    assert told == ["vanished"]


def test_one_number_that_is_not_finite_is_told_in_the_singular() -> None:
    flight = Flight()
    flight.step(1.0, {"w": 1.0}, {"w": math.nan})

    assert flight.events[0].sentence == "the gradient of w is NaN"


def descend(steps: int = 400, noise: float = 0.3, **options: Any) -> Flight:
    """Record gradient descent on least squares until nothing is left to learn."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3))
    y = x @ np.array([1.0, -2.0, 0.5]) + noise * rng.normal(size=50)
    flight, w = Flight(**options), np.zeros(3)
    for _ in range(steps):
        rest = x @ w - y
        gradient = 2 * x.T @ rest / 50
        flight.step(np.mean(rest**2), {"w": w}, {"w": gradient})
        w = w - 0.1 * gradient
    return flight


@pytest.mark.parametrize("noise", [0.0, 0.3, 3.0])
def test_a_training_that_converges_is_nothing_wrong(noise: float) -> None:
    flight = descend(1500, noise, on_event="raise", keep=2)

    assert flight[0].groups["w"].gradient.mean > 1e6 * flight[-1].groups["w"].gradient.mean
    assert flight.events == ()
    assert [snapshot.step for snapshot in flight.kept] == [1497, 1498, 1499]


def test_convergence_is_told_once_to_who_asks_for_it() -> None:
    flight = descend(1500, watch="converged")
    (event,) = [event for event in flight.events if event.what == "gradient"]

    assert event.number <= 1e-3 * event.reference
    assert re.search(r"the gradient of w fades: .* less than its early median .*; the loss came down from", str(event))
    with pytest.raises(FlightError, match="fades"):
        descend(watch=("exploded", "converged"), on_event="raise")


@pytest.mark.parametrize("last", [10.0, 9.99, 11.0, 1e9])
def test_a_gradient_that_fades_without_a_better_loss_has_vanished(last: float) -> None:
    flight = fly([*usual(30), *[1e-6] * 10], [*[10.0] * 30, *[last] * 10])
    event = flight.first("vanished")

    assert event is not None
    assert event.step == 30


def test_a_gradient_that_fades_where_the_loss_has_risen_again_has_vanished() -> None:
    losses = [*np.linspace(10.0, 1.0, 30).tolist(), *[6.0] * 10]

    assert fly([*usual(30), *[1e-6] * 10], losses).first("vanished") is not None
    assert fly([*usual(30), *[1e-6] * 10], [*losses[:30], *[1.01] * 10]).events == ()


def test_a_gradient_that_is_cut_off_at_a_high_loss_has_vanished() -> None:
    losses = np.geomspace(10.0, 3.0, 40).tolist()
    cut = fly([*usual(30), *[0.0] * 10], losses)
    low = fly([*usual(30), *[0.0] * 10], [*losses[:30], *[0.0] * 10])
    faded = fly([*usual(30), *[1e-7] * 5, *[0.0] * 5], losses)

    assert [(event.kind, event.step, event.found) for event in cut.events] == [("vanished", 30, 30)]
    assert low.events == faded.events == ()


def test_a_loss_below_zero_can_come_down_too() -> None:
    assert fly([*usual(30), *[1e-6] * 10], np.linspace(-1.0, -9.0, 40).tolist()).events == ()


@pytest.mark.parametrize(("slope", "kinds"), [(1e-9, []), (1.0, ["stuck"]), (None, [])])
def test_parameters_stand_still_after_convergence_or_are_stuck(slope: float | None, kinds: list[str]) -> None:
    flight = Flight()
    for step, loss in enumerate(np.geomspace(10.0, 0.1, 40)):
        grads = None if slope is None else {"w": [1.0 if step < 20 else slope]}
        flight.step(loss, {"w": [float(min(step, 20))]}, grads)

    assert [event.kind for event in flight.events] == kinds


def test_parameters_that_never_moved_are_stuck_however_low_the_loss() -> None:
    flight = Flight()
    for loss in np.geomspace(10.0, 0.1, 40):
        flight.step(loss, {"w": [1.0]})

    assert [event.kind for event in flight.events] == ["stuck"]


def test_the_name_of_a_group_is_said_as_it_is() -> None:
    flight = Flight(watch="converged")
    for step, loss in enumerate(np.geomspace(10.0, 0.1, 40)):
        flight.step(loss, {"vanishes": [1.0 * step]}, {"vanishes": [1.0 if step < 20 else 1e-9]})

    assert "the gradient of vanishes fades" in str(flight.events[0])
