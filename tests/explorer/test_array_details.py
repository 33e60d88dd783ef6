"""The card of an array: bounded, and never silent about what is not finite."""

from __future__ import annotations

import json

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.explorer.page_data import (
    MAX_PAGE_CELLS,
    MAX_SIDE,
    build_page_data,
    choose_side,
    describe_cause,
    detail_array,
)


@pytest.mark.parametrize("shape", [(5,), (100,), (16, 6), (500, 70), (3, 4, 5), (2, 40, 100), (1, 1)])
def test_a_heat_map_has_at_most_32_rows_and_columns_and_stands_for_all_elements(shape: tuple[int, ...]) -> None:
    detail = detail_array(np.arange(float(np.prod(shape))).reshape(shape))
    cells, steps = detail["cells"], detail["steps"]
    rows = int(np.prod(shape[:-1])) if len(shape) > 1 else 1

    assert isinstance(cells, list)
    assert isinstance(steps, list)
    assert len(cells) == -(-rows // steps[0]) <= MAX_SIDE
    assert len(cells[0]) == -(-shape[-1] // steps[1]) <= MAX_SIDE
    assert sum(detail["counts"]) == np.prod(shape)


@pytest.mark.parametrize(("bad", "cell"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_binning_never_hides_what_is_not_finite(bad: float, cell: str) -> None:
    array = np.zeros((300, 300))
    array[123, 45] = bad
    cells = detail_array(array)["cells"]

    assert [text for row in cells for text in row if isinstance(text, str)] == [cell]


@pytest.mark.parametrize(
    ("places", "text"),
    [
        ([(2, 1)], "NaN at [2, 1]"),
        ([(2, 0), (2, 1), (2, 2)], "NaN at [2, 0] to [2, 2], the whole row"),
        ([(k, j) for k in (1, 2) for j in range(3)], "NaN at [1, 0] to [2, 2], 2 whole rows"),
        ([(0, 0), (1, 1), (2, 2), (3, 0), (3, 2)], "NaN at [0, 0], [1, 1], [2, 2] and 2 more"),
        ([(k, j) for k in range(4) for j in range(3)], "NaN everywhere"),
    ],
)
def test_the_places_of_nan_are_written_as_briefly_as_they_can_be(places: list[tuple[int, int]], text: str) -> None:
    array = np.ones((4, 3))
    array[tuple(np.transpose(places))] = np.nan

    assert detail_array(array)["where"] == text


@pytest.mark.parametrize(
    ("function", "cause", "because"),
    [
        (lambda x: x / np.sum(x), "0 / 0", "x[0] = 0 and np.sum(x) = 0"),
        (lambda x: np.log(x - 1.0), "log(\N{MINUS SIGN}1)", "(x - 1.0)[0] = \N{MINUS SIGN}1"),
        (lambda x: np.exp(np.log(x)) + np.log(x), None, "np.log(x)[0] = \N{MINUS SIGN}Inf"),
    ],
)
def test_the_cause_names_the_operation_on_the_first_element_that_broke(function, cause, because) -> None:
    with np.errstate(all="ignore"):
        run = wg.run(lambda x: np.sum(function(x)), np.zeros(3))
    node = run.circuit.sources_of(run.circuit.root())[0]
    found = describe_cause(run, node)

    assert (found.get("cause"), found["because"]) == (cause, because)


@pytest.mark.parametrize("arrays", [1, 29, 30, 200, 2000, 10**6])
def test_all_heat_maps_of_a_page_together_are_bounded(arrays: int) -> None:
    assert arrays * choose_side(arrays) ** 2 <= MAX_PAGE_CELLS


def test_a_page_with_arrays_has_their_details_as_json() -> None:
    run = wg.run(lambda x: np.sum(np.tanh(x)), np.linspace(-1.0, 1.0, 6).reshape(2, 3))
    data = build_page_data(run.circuit, run)
    first = data["run"]["values"][0]["detail"]

    json.dumps(data, allow_nan=False)
    assert (first["shape"], first["low"], first["high"]) == ([2, 3], ["\N{MINUS SIGN}1", "[0, 0]"], ["1", "[1, 2]"])
    assert data["run"]["grads"][0]["detail"]["nans"] == 0
