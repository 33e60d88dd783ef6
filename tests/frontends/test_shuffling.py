"""Rows of recorded arrays that are shuffled or exchanged: NumPy's result and its gradient, or an error that helps."""

from __future__ import annotations

import io
import operator
import random
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import MutationError, WiregradError

A = np.arange(12.0).reshape(4, 3)
WEIGHTS = np.arange(12.0).reshape(4, 3) ** 2


def make_rng() -> np.random.Generator:
    return np.random.default_rng(3)


def fill_zeros(x: Any) -> Any:
    y = np.zeros((4, 3))
    y[:] = x
    return y


COPIES = [
    pytest.param(lambda x: x.copy(), id="copy"),
    pytest.param(fill_zeros, id="zeros"),
    pytest.param(lambda x: np.array(x, like=x), id="array-like"),
]


def change(copy: Callable[[Any], Any], update: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function that makes a copy of its argument and changes it in place."""

    def changed(x: Any) -> Any:
        y = copy(x)
        update(y)
        return y

    return changed


def check_like_numpy(f: Callable[[Any], Any]) -> None:
    """Compare the value and the gradient with those of NumPy; f moves elements only, so that its gradient is exact."""
    value, pull = wg.vjp(f, A)
    numbers = np.asarray(f(A), int)
    wanted = np.zeros(A.size)
    np.add.at(wanted, numbers.ravel(), WEIGHTS.ravel())

    np.testing.assert_array_equal(value, f(A))
    np.testing.assert_array_equal(pull(WEIGHTS)[0], wanted.reshape(A.shape))


def swap_rows(y: Any) -> None:
    y[0], y[1] = y[1], y[0]


def swap_columns(y: Any) -> None:
    y[:, 0], y[:, 1] = y[:, 1], y[:, 0]


def swap_by_index(y: Any) -> None:
    y[[0, 1]] = y[[1, 0]]


def swap_by_copy(y: Any) -> None:
    row = y[0].copy()
    y[0] = y[1]
    y[1] = row


def swap_by_view(y: Any) -> None:
    row = y[0]
    y[0] = y[1]
    y[1] = row


def rotate(y: Any) -> None:
    for k in range(3):
        y[k], y[k + 1] = y[k + 1], y[k]


def swap_numbers(y: Any) -> None:
    row = y[2]
    row[0], row[1] = row[1], row[0]


def reverse(y: Any) -> None:
    y[:] = y[::-1]


def overlap(y: Any) -> None:
    y[1:] = y[:-1]


def reverse_list(y: Any) -> None:
    rows = list(y)
    rows.reverse()
    y[:] = rows


def reverse_part(y: Any) -> None:
    y[1:3] = (y[2], y[1])


def reverse_by_index(y: Any) -> None:
    y[[0, 1]] = [y[1], y[0]]


def repeat_row(y: Any) -> None:
    y[:2] = [y[3]]


def set_rows_by_functions(y: Any) -> None:
    operator.setitem(y, 0, operator.getitem(y, 3))
    y.__setitem__(1, y[2])


def shuffle_with_python(y: Any) -> None:
    random.Random(0).shuffle(y)


def shuffle_numbers(y: Any) -> None:
    with warnings.catch_warnings():
        # NumPy warns of every array that is not its own.
        warnings.simplefilter("ignore")
        make_rng().shuffle(y[1])


UPDATES = [
    swap_rows,
    swap_columns,
    swap_by_index,
    swap_by_copy,
    swap_by_view,
    rotate,
    swap_numbers,
    reverse,
    overlap,
    reverse_list,
    reverse_part,
    reverse_by_index,
    repeat_row,
    set_rows_by_functions,
    shuffle_with_python,
    shuffle_numbers,
]


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("update", UPDATES)
def test_parts_of_an_array_are_exchanged_as_in_numpy(copy: Callable[[Any], Any], update: Callable[[Any], Any]) -> None:
    check_like_numpy(change(copy, update))


def shuffle_list(x: Any) -> Any:
    rows = list(x)
    random.Random(1).shuffle(rows)
    return np.stack(rows)


def shuffle_list_with_numpy(x: Any) -> Any:
    rows = list(x)
    make_rng().shuffle(rows)
    return np.stack(rows)


@pytest.mark.parametrize(
    "f",
    [
        shuffle_list,
        shuffle_list_with_numpy,
        lambda x: make_rng().permutation(x.copy()),
        lambda x: x[make_rng().permutation(4)],
        lambda x: make_rng().choice(x.copy(), 4),
    ],
)
def test_shuffled_copies_are_those_of_numpy(f: Callable[[Any], Any]) -> None:
    check_like_numpy(f)


def shuffle_of_an_attribute(y: Any) -> None:
    holder = type("Holder", (), {"rng": make_rng()})()
    holder.rng.shuffle(y)


SHUFFLES: list[Callable[[Any], Any]] = [
    lambda y: make_rng().shuffle(y),
    lambda y: make_rng().shuffle(y[::2]),
    lambda y: make_rng().shuffle(y.T),
    lambda y: make_rng().shuffle(y, axis=1),
    lambda y: make_rng().shuffle(x=y, axis=1),
    lambda y: np.random.RandomState(0).shuffle(y),
    lambda y: (np.random.shuffle(y), None)[1],
    lambda y: make_rng().permuted(y, axis=0, out=y),
    lambda y: make_rng().permuted(y, axis=1, out=y),
    lambda y: make_rng().permuted(y, out=y),
    shuffle_of_an_attribute,
]


@pytest.mark.filterwarnings("ignore:you are shuffling")
@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_rows_that_numpy_cannot_shuffle_are_refused_with_what_to_write(
    copy: Callable[[Any], Any], shuffle: Callable[[Any], Any]
) -> None:
    with pytest.raises(WiregradError, match="write `y") as caught:
        wg.vjp(change(copy, shuffle), A)

    advice = re.search("write `(.*?)`", str(caught.value))
    assert advice is not None
    code = compile(advice[1].replace("holder.rng", "make_rng()"), "advice", "exec")

    def follow_advice(y: Any) -> None:
        np.random.seed(7)
        exec(code, {"y": y, "np": np, "make_rng": make_rng})

    def shuffle_plainly(y: Any) -> None:
        np.random.seed(7)
        shuffle(y)

    check_like_numpy(change(copy, follow_advice))
    np.testing.assert_array_equal(change(copy, follow_advice)(A), change(copy, shuffle_plainly)(A))


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize(
    "draw",
    [
        lambda y: make_rng().random(out=y),
        lambda y: make_rng().standard_normal(out=y),
        lambda y: make_rng().standard_exponential(out=y),
        lambda y: make_rng().standard_gamma(2.0, out=y),
    ],
)
def test_generators_do_not_draw_into_recorded_arrays(copy: Callable[[Any], Any], draw: Callable[[Any], Any]) -> None:
    with pytest.raises(WiregradError, match=re.escape("write `y[...] = make_rng().")):
        wg.vjp(change(copy, draw), A)


def test_compiled_code_cannot_write_to_the_memory_of_a_recorded_array() -> None:
    with pytest.raises((TypeError, ValueError, BufferError)):
        wg.vjp(change(fill_zeros, lambda y: io.BytesIO(A.tobytes()).readinto(y)), A)


@pytest.mark.filterwarnings("ignore:you are shuffling")
def test_other_compiled_code_that_exchanges_rows_is_refused() -> None:
    def exchange(y: Any) -> None:
        for _ in map(y.__setitem__, [0, 1], [y[1], y[0]]):
            pass

    def shuffle(y: Any) -> None:
        [make_rng().shuffle][0](y)

    with pytest.raises(MutationError, match="exchange"):
        wg.vjp(change(lambda x: x.copy(), shuffle), A)
    check_like_numpy(change(lambda x: x.copy(), exchange))
