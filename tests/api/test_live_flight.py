"""Flights that are saved, watched and run again."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import FileFormatError, InputError
from wiregrad.explorer.local_server import TrainingSession
from wiregrad.inspect.flight_recorder import Flight, FlightError, load_flight


def fill(flight: Flight, steps: int, bad: int = -1) -> Flight:
    for step in range(steps):
        gradient = np.array([0.5, np.nan if step == bad else 0.1 / (step + 1)])
        flight.step(1.0 / (step + 1), {"w": np.full(2, step + 1.0), "b": step * 1.0}, {"w": gradient, "b": 0.5})
    return flight


@pytest.mark.parametrize(("capacity", "steps", "bad"), [(100, 7, -1), (16, 100, 60), (2000, 1, 0), (10, 0, -1)])
def test_a_saved_flight_says_what_the_flight_said(tmp_path: Path, capacity: int, steps: int, bad: int) -> None:
    flight = fill(wg.record(capacity), steps, bad)
    flight.save(tmp_path / "run.flight")
    again = load_flight(tmp_path / "run.flight")

    assert str(again) == str(flight)
    assert [*map(str, again.events)] == [*map(str, flight.events)]
    assert [*again] == [*flight] or steps > 0


def test_a_loaded_flight_takes_no_more_steps(tmp_path: Path) -> None:
    fill(wg.record(), 3).save(tmp_path / "run.flight")

    with pytest.raises(InputError, match=r"wg\.record"):
        fill(load_flight(tmp_path / "run.flight"), 1)


@pytest.mark.parametrize(
    "change",
    [
        ("wiregrad flight", "other"),
        ('"version": 1', '"version": 9'),
        ('"steps": 3', '"steps": 4'),
        ('"groups": ["w", "b"]', '"groups": ["w"]'),
        ('"low": "', '"low": "AAAA'),
    ],
)
def test_a_file_that_is_no_whole_flight_is_refused(tmp_path: Path, change: tuple[str, str]) -> None:
    path = tmp_path / "run.flight"
    fill(wg.record(), 3).save(path)
    path.write_text(path.read_text().replace(*change))

    with pytest.raises(FileFormatError):
        load_flight(path)


def loss(p: dict[str, Any], scale: float = 1.0) -> Any:
    return np.sum(p["w"] ** 2) * scale


def test_the_steps_before_the_first_nan_are_run_again() -> None:
    flight = wg.record(function=loss, keep=2)
    fill(flight, 40, bad=30)

    assert {28, 29, 30} <= set(flight.runnable_steps)
    assert flight.run_step(30).output == 2 * 31.0**2
    with pytest.raises(InputError, match="step 35 were not kept"):
        flight.run_step(35)


def test_inputs_are_handed_to_the_function_again() -> None:
    flight = wg.record(function=loss, keep=1)
    flight.step(1.0, {"w": np.ones(2)}, {"w": np.ones(2)}, inputs=(3.0,))

    assert flight.run_step(0).output == 6.0


def test_a_loss_that_was_recorded_value_by_value_is_run_again_where_it_broke() -> None:
    flight = wg.record(on_event="raise")
    x = wg.Value(0.0, name="x")
    with np.errstate(all="ignore"):
        y = np.sqrt(x * x)
        y.backward()
        with pytest.raises(FlightError):
            flight.step(y, {"x": x})

        assert flight.runnable_steps == (0,)
        assert flight.run_step(0).output == 0.0


def test_a_paused_training_takes_one_step_at_a_time_and_goes_on_without_a_page() -> None:
    flight = wg.record()
    session = TrainingSession(flight)
    session.add_page(1)
    session.set_paused(True, permits=2)
    session.wait_while_paused()
    session.wait_while_paused()
    waiting = Thread(target=session.wait_while_paused, daemon=True)
    waiting.start()
    waiting.join(0.3)

    assert waiting.is_alive()
    session.add_page(-1)
    waiting.join(20)
    assert not waiting.is_alive()
