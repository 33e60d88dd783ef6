"""Batches of compiled functions: every row is answered along its own branches."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import wiregrad as wg
from wiregrad.api import batches, compiled_function
from wiregrad.backends.native import batch
from wiregrad.errors import GradientError, InputError, OperandError, ShapeError
from wiregrad.frontends.recording.arguments import flatten

from ..support.sampling import choose_count, sample_pairs


def merged(x: Any, y: Any) -> Any:
    return x * y if x > y else x - y * y


def certified(x: Any, y: Any) -> Any:
    steps = 0
    while x > y and steps < 5:
        x = x / 2.0
        steps += 1
    return x * steps + y


def halved_once(x: Any, y: Any) -> Any:
    while x > y:
        return np.sin(x / 2.0) * y
    return x * y


def counted(x: Any, y: Any) -> Any:
    turns = 0
    while y > turns:
        turns += 1
    return x * turns + y


def read_out(x: Any, y: Any) -> Any:
    return x * int(wg.stop_gradient(np.floor(y))) + y


def structured(x: Any, p: Any) -> Any:
    return x * p["a"] + (p["b"][0] if x > 0.0 else p["b"][1])


@pytest.mark.parametrize("f", [merged, certified, read_out])
def test_a_batch_answers_each_row_as_a_call_does(f: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    xs, ys = rng.normal(size=(2, 60)) * 3.0
    fast = wg.compile(f, argnums=(0, 1))
    plain = wg.value_and_grad(f, argnums=(0, 1))
    values, grads = fast.batch_value_and_grad(xs, ys)
    wanted = [plain(x, y) for x, y in zip(xs.tolist(), ys.tolist(), strict=True)]

    np.testing.assert_array_equal(values, [value for value, _ in wanted])
    np.testing.assert_array_equal(np.transpose(grads), [slopes for _, slopes in wanted])
    np.testing.assert_array_equal(fast.batch(xs, ys), values)


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 63, 200])
@pytest.mark.parametrize("f", [merged, certified])
def test_a_batch_of_any_length_gives_the_gradient_by_the_selected_argument(f: Callable[..., Any], count: int) -> None:
    rng = np.random.default_rng(count)
    xs, ys = rng.normal(size=(2, count)) * 3.0
    values, by_y = wg.compile(f, argnums=1).batch_value_and_grad(xs, ys)
    wanted = [wg.value_and_grad(f, argnums=1)(x, y) for x, y in zip(xs.tolist(), ys.tolist(), strict=True)]

    np.testing.assert_array_equal(values, [value for value, _ in wanted])
    np.testing.assert_array_equal(by_y, [slope for _, slope in wanted])


def make_odd_bytes(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the numbers in a record whose fields begin at odd addresses."""
    table = np.zeros(len(numbers), np.dtype([("label", "i1"), ("number", "f8")]))
    table["number"] = numbers
    return table["number"]


COLUMNS: dict[str, Callable[[NDArray[np.float64]], Any]] = {
    "a reversed view": lambda numbers: numbers[::-1].copy()[::-1],
    "a column of a table": lambda numbers: np.stack([numbers, numbers + 1.0], 1)[:, 0],
    "at odd addresses": make_odd_bytes,
    "big-endian": lambda numbers: numbers.astype(">f8"),
    "read-only": lambda numbers: np.frombuffer(numbers.tobytes()),
    "one number for all": lambda numbers: np.broadcast_to(numbers[:1], len(numbers)),
}


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("f", [merged, certified])
def test_vectors_of_a_batch_may_lie_in_memory_in_any_way(f: Callable[..., Any], kind: str) -> None:
    xs = np.random.default_rng(1).normal(size=37) * 3.0
    column = COLUMNS[kind](xs)
    plain = wg.value_and_grad(f, argnums=(0, 1))
    values, grads = wg.compile(f, argnums=(0, 1)).batch_value_and_grad(column, 0.25)
    wanted = [plain(float(x), 0.25) for x in np.asarray(column)]

    np.testing.assert_array_equal(values, [value for value, _ in wanted])
    np.testing.assert_array_equal(np.transpose(grads), [slopes for _, slopes in wanted])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("f", [merged, halved_once])
def test_a_function_gives_the_same_bits_before_and_after_it_gets_a_loop_of_its_own(
    f: Callable[..., Any], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    xs, ys = np.random.default_rng(2).normal(size=(2, 5_003)) * 3.0
    monkeypatch.setattr(batch, "MIN_KERNEL_POINTS", len(xs))
    compiled: list[int] = []
    find_kernel = batch.ColumnProgram.choose_kernel
    monkeypatch.setattr(
        batch.ColumnProgram,
        "choose_kernel",
        lambda self, *entries: compiled.append(find_kernel(self, *entries)) or compiled[-1],
    )
    fast = wg.compile(f, argnums=(0, 1))
    first, second = (fast.batch_value_and_grad(xs, ys, threads=threads) for _ in range(2))

    assert not compiled[0]
    assert any(compiled)
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_large_batch_regroups_its_rows_the_same_in_any_number_of_threads(threads: int) -> None:
    xs = np.linspace(-3.0, 20.0, 20_001)
    fast = wg.compile(certified)
    values, slopes = fast.batch_value_and_grad(xs, 1.0, threads=threads)
    rows = range(0, len(xs), 97)
    wanted = [wg.value_and_grad(certified)(float(xs[k]), 1.0) for k in rows]

    assert [(values[k], slopes[k]) for k in rows] == wanted
    np.testing.assert_array_equal(values, fast.batch(xs, 1.0, threads=1))


def test_rows_that_a_recording_answers_count_as_hits() -> None:
    fast = wg.compile(merged)
    fast.batch(np.linspace(-1.0, 1.0, 50), 0.25)

    assert [variant.hits for variant in fast.info.variants] == [50]


@pytest.mark.parametrize("gradient", [False, True])
def test_a_batch_uses_recordings_that_single_calls_skip(gradient: bool) -> None:
    fast = wg.compile(counted)
    call: Callable[..., Any] = fast.value_and_grad if gradient else fast
    batch_call = fast.batch_value_and_grad if gradient else fast.batch
    for k in range(200):
        # Each number of turns needs a recording, which does not pay.
        call(1.0, 5.5 + k % 40)
    before = dict(fast.info.fallbacks)
    batch_call(np.linspace(-1.0, 1.0, 500), 5.5)
    fallbacks = {reason: count - before[reason] for reason, count in fast.info.fallbacks}

    assert before
    assert sum(fallbacks.values()) <= 1
    np.testing.assert_array_equal(fast.batch(np.linspace(-1.0, 1.0, 5), 5.5), 6.0 * np.linspace(-1.0, 1.0, 5) + 5.5)


def test_rows_without_a_recording_are_answered_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = wg.compile(read_out, limit=1)
    fast(1.0, 0.5)
    looks = []
    find = type(fast).find_variant
    monkeypatch.setattr(type(fast), "find_variant", lambda *args, **options: looks.append(1) or find(*args, **options))
    ys = np.arange(300.0) + 1.5
    with pytest.warns(RuntimeWarning, match="recorded 1 times"):
        values = fast.batch(2.0, ys)

    np.testing.assert_array_equal(values, [read_out(2.0, y) for y in ys.tolist()])
    assert len(looks) < 20


def leave_early(x: Any, y: Any) -> Any:
    for _ in range(3):
        x = x * 1.1
        if x > y:
            return 0.0
    return x * y


def count_sides(x: Any, y: Any) -> Any:
    return 1 if x > y else -1


def answer_always(x: Any, y: Any) -> Any:
    return 2.5


def return_pairs(x: Any, y: Any) -> Any:
    while x > y:
        return 1.0, x
    return x * y, 2


@pytest.mark.parametrize("f", [leave_early, count_sides, answer_always])
@pytest.mark.parametrize("executor", [None, "threads"])
def test_rows_whose_result_is_a_constant_are_answered_together(f: Callable[..., Any], executor: str | None) -> None:
    xs, ys = np.random.default_rng(5).uniform(-1.0, 2.0, size=(2, 3_000))
    fast, plain = wg.compile(f, argnums=(0, 1)), wg.value_and_grad(f, argnums=(0, 1))
    with ThreadPoolExecutor(2) as pool:
        options: dict[str, Any] = {} if executor is None else {"executor": pool, "chunk_size": 500}
        values, grads = fast.batch_value_and_grad(xs, ys, **options)
        alone = fast.batch(xs, ys, **options)
    wanted = [plain(x, y) for x, y in zip(xs.tolist(), ys.tolist(), strict=True)]

    np.testing.assert_array_equal(values, [value for value, _ in wanted])
    np.testing.assert_array_equal(np.transpose(grads), [slopes for _, slopes in wanted])
    np.testing.assert_array_equal(alone, values)
    # One call for each recording and some for rows before those are native; never one for each row.
    assert fast.info.calls < 100


def test_constants_among_several_results_are_answered_together() -> None:
    xs, ys = np.random.default_rng(5).uniform(-1.0, 2.0, size=(2, 3_000))
    fast = wg.compile(return_pairs)
    found = fast.batch(xs, ys)
    wanted = [return_pairs(x, y) for x, y in zip(xs.tolist(), ys.tolist(), strict=True)]

    np.testing.assert_array_equal(np.transpose(found), wanted)
    assert fast.info.calls < 100


def test_an_empty_batch_is_empty() -> None:
    values, slopes = wg.compile(merged).batch_value_and_grad(np.empty(0), 1.0)

    assert values.shape == slopes.shape == (0,)


def read_in_structure(x: float, weights: dict[str, list[float]]) -> dict[str, Any]:
    return {"sum": x + weights["w"][0], "rest": [x * weights["w"][1], (-x,)]}


STRUCTURED_FUNCTIONS = {
    "a dict of lists": read_in_structure,
    "a number": lambda x, weights: x * weights["w"][0] + weights["w"][1],
    "a constant": lambda x, weights: (1.0, x),
    "one in a list": lambda x, weights: [x * weights["w"][0]],
}


@pytest.mark.parametrize("is_called_before", [False, True])
@pytest.mark.parametrize("question", ["batch", "batch_jacobian"])
@pytest.mark.parametrize("f", STRUCTURED_FUNCTIONS.values(), ids=STRUCTURED_FUNCTIONS)
def test_an_empty_batch_has_the_structure_of_others(f: Any, question: str, is_called_before: bool) -> None:
    fast = wg.compile(f, argnums=(0, 1))
    ask = getattr(fast, question)
    two, none = ((np.arange(float(n)), {"w": [np.ones(n), 2.0]}) for n in (2, 0))
    if is_called_before:
        ask(*two)
    empty = ask(*none)

    assert list_shapes(empty) == list_shapes(wg.tree_map(lambda column: column[:0], ask(*two)))


def list_shapes(results: Any) -> Any:
    return wg.tree_map(lambda column: (column.shape, column.dtype), results)


def test_an_empty_batch_has_the_structure_of_results_recorded_before() -> None:
    """The function is not called with numbers that nobody passed."""

    def root(x: float) -> list[float]:
        if x < 5.0:
            raise ValueError("too small")
        return [np.sqrt(x), x]

    fast = wg.compile(root)
    with pytest.raises(OperandError, match=r"failed \(ValueError: too small\): call the function once before"):
        fast.batch(np.empty(0))
    fast(9.0)

    assert list_shapes(fast.batch(np.empty(0))) == [((0,), np.float64)] * 2


def test_an_empty_batch_writes_into_what_is_given() -> None:
    out = [np.empty(0), np.empty(0)]
    fast = wg.compile(lambda x: [x, -x])

    assert fast.batch(np.empty(0), out=out)[1] is out[1]
    with pytest.raises(ShapeError, match="out= needs 2 vectors"):
        fast.batch(np.empty(0), out=[np.empty(0)])


def test_results_are_written_where_they_are_wanted() -> None:
    xs, ys = np.random.default_rng(0).normal(size=(2, 50))
    fast = wg.compile(merged, argnums=(0, 1))
    wanted, slopes = fast.batch_value_and_grad(xs, ys)
    out = (np.empty(50), (np.empty(50), np.empty(50)))
    values, grads = fast.batch_value_and_grad(xs, ys, out=out)

    assert values is out[0]
    assert [one is two for one, two in zip(grads, out[1], strict=True)] == [True, True]
    np.testing.assert_array_equal(values, wanted)
    np.testing.assert_array_equal(grads, slopes)
    assert fast.batch(xs, ys, out=out[0]) is out[0]
    np.testing.assert_array_equal(out[0], wanted)


def make_read_only(count: int) -> NDArray[np.float64]:
    vector = np.empty(count)
    vector.flags.writeable = False
    return vector


@pytest.mark.parametrize(
    ("make_out", "match"),
    [
        (lambda xs: np.empty(9), "with 10 entries"),
        (lambda xs: np.empty(10, np.float32), "of float64"),
        (lambda xs: [0.0] * 10, "vectors of float64"),
        (lambda xs: np.empty(20)[::2], "contiguous"),
        (lambda xs: make_read_only(10), "writable"),
        (lambda xs: xs, "share memory"),
        (lambda xs: xs.base[1:11], "share memory"),
    ],
)
def test_places_that_cannot_be_written_to_are_refused(make_out: Callable[..., Any], match: str) -> None:
    xs = np.linspace(0.0, 1.0, 12)[:10]

    with pytest.raises(OperandError, match=match):
        wg.compile(merged).batch(xs, 2.0, out=make_out(xs))


def test_all_places_are_needed_and_different() -> None:
    xs = np.linspace(0.0, 1.0, 10)
    fast = wg.compile(merged, argnums=(0, 1))
    one, two = np.empty((2, 10))

    with pytest.raises(OperandError, match=r"gradients of out= must have the structure \(\*, \*\); got \*"):
        fast.batch_value_and_grad(xs, xs + 1.0, out=(one, two))
    with pytest.raises(OperandError, match="share memory"):
        fast.batch_value_and_grad(xs, xs + 1.0, out=(one, (two, two)))


def test_results_of_a_batch_share_no_memory() -> None:
    fast = wg.compile(merged, argnums=(0, 1))
    values, grads = fast.batch_value_and_grad(np.ones(9), 2.0)

    assert not any(np.shares_memory(values, grad) for grad in grads)
    assert not np.shares_memory(*grads)


def test_a_later_batch_also_runs_each_recording_once() -> None:
    xs, ys = np.random.default_rng(2).normal(size=(2, 300))
    fast = wg.compile(halved_once)
    fast.batch(xs, ys)
    fast.batch_value_and_grad(xs, ys)
    before = fast.info.calls
    fast.batch_value_and_grad(xs, ys)

    assert fast.info.calls - before == len(fast.info.variants) == 2


def test_rows_that_are_left_after_the_last_round_are_answered_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MAX_ROUNDS", 1)
    xs = np.linspace(-3.0, 20.0, 40)

    np.testing.assert_array_equal(wg.compile(certified).batch(xs, 1.0), [certified(x, 1.0) for x in xs.tolist()])


def test_a_batch_takes_the_structure_of_a_call_and_gives_gradients_in_it() -> None:
    xs = np.array([1.0, -2.0])
    fast = wg.compile(structured, argnums=1)
    values, grads = fast.batch_value_and_grad(xs, {"a": 3.0, "b": [xs, 5.0]})

    assert values.tolist() == [4.0, -1.0]
    assert grads["a"].tolist() == [1.0, -2.0]
    assert [column.tolist() for column in grads["b"]] == [[1.0, 0.0], [0.0, 1.0]]


def test_changed_outside_state_is_noticed_between_batches() -> None:
    scale = [2.0]
    fast = wg.compile(lambda x: x * scale[0])
    first = fast.batch(np.array([1.0, 2.0]))
    scale[0] = 3.0

    assert first.tolist() == [2.0, 4.0]
    assert fast.batch(np.array([1.0, 2.0])).tolist() == [3.0, 6.0]


SLOPE = 2.0


def smooth(x: Any, y: Any) -> Any:
    return np.sin(x) * y + SLOPE * x


def add_pairs(x: Any, y: Any) -> Any:
    return {"sum": x + y, "fixed": 1.5, "difference": [x - y]}


def count_usual_batches(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list with an entry for each batch that is not answered like the last one."""
    usual = list[object]()
    answer = compiled_function.answer_batch

    def count_and_answer(*args: Any, **options: Any) -> Any:
        usual.append(args[1])
        return answer(*args, **options)

    monkeypatch.setattr(compiled_function, "answer_batch", count_and_answer)
    return usual


def draw_pair(count: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    xs, ys = np.random.default_rng(seed).normal(size=(2, count))
    return xs, ys


LIKE_THE_LAST: dict[str, tuple[Any, Any]] = {
    "other numbers": draw_pair(40, 1),
    "a longer batch": draw_pair(5_000, 2),
    "a shorter batch": draw_pair(2, 3),
    "the same vector twice": (draw_pair(9)[0],) * 2,
    "no finite numbers": (np.array([np.inf, np.nan, -np.inf]), np.array([0.0, -0.0, np.inf])),
    "vectors that cannot be written to": tuple(np.frombuffer(column.tobytes()) for column in draw_pair(40, 4)),
}
UNLIKE_THE_LAST: dict[str, tuple[Any, Any]] = {
    "one row": draw_pair(1, 1),
    "a number for all rows": (draw_pair(40, 1)[0], 2.5),
    "a subclass of arrays": (draw_pair(40, 1)[0].view(np.recarray), draw_pair(40, 1)[1]),
    "whole numbers": (np.arange(40), draw_pair(40, 1)[1]),
    "short floats": (draw_pair(40, 1)[0].astype(np.float32), draw_pair(40, 1)[1]),
    "the other byte order": (draw_pair(40, 1)[0].astype(">f8"), draw_pair(40, 1)[1]),
    "a reversed view": (draw_pair(40, 1)[0][::-1], draw_pair(40, 1)[1]),
    "at odd addresses": (make_odd_bytes(draw_pair(40, 1)[0]), draw_pair(40, 1)[1]),
}


@pytest.mark.parametrize("f", [smooth, merged, add_pairs])
@pytest.mark.parametrize("name", [*LIKE_THE_LAST, *UNLIKE_THE_LAST])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_batch_after_another_gives_what_it_gives_alone(
    f: Callable[..., Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = count_usual_batches(monkeypatch)
    points = {**LIKE_THE_LAST, **UNLIKE_THE_LAST}[name]
    fast = wg.compile(f, argnums=(1, 0))
    methods = ["batch"] if f is add_pairs else ["batch", "batch_value_and_grad"]
    for method in methods:
        getattr(fast, method)(*draw_pair(40))
        usual.clear()
        found = getattr(fast, method)(*points)

        assert len(usual) == (name in UNLIKE_THE_LAST)
        alone = getattr(wg.compile(f, argnums=(1, 0)), method)(*points)
        for column, wanted in zip(flatten(found)[0], flatten(alone)[0], strict=True):
            assert column.tobytes() == wanted.tobytes()
        assert str(flatten(found)[1]) == str(flatten(alone)[1])


def test_a_number_for_all_rows_may_change_from_batch_to_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = count_usual_batches(monkeypatch)
    fast, (xs, _) = wg.compile(smooth, argnums=(0, 1)), draw_pair(40)
    for y in (1.0, -3.5, np.inf, np.float64(2.0), 3):
        values, grads = fast.batch_value_and_grad(xs, y)
        wanted = wg.compile(smooth, argnums=(0, 1)).batch_value_and_grad(xs, y)

        np.testing.assert_array_equal((values, *grads), (wanted[0], *wanted[1]))
    # Besides those of functions compiled anew, the first, and those whose number is not a float.
    assert len(usual) == 5 + 1 + 2


@pytest.mark.parametrize("wanted", [0, 1, (0,), (0, 1)])
def test_a_batch_like_the_last_one_has_its_form(wanted: int | tuple[int, ...]) -> None:
    fast = wg.compile(smooth, argnums=wanted)
    for _ in range(3):
        _, grads = fast.batch_value_and_grad(*draw_pair(40))

        assert type(grads) is (np.ndarray if wanted in (0, 1) else tuple)
        assert np.shape(grads) == (*np.shape(wanted), 40)


def test_vectors_of_other_lengths_are_refused_after_a_batch() -> None:
    fast, (xs, ys) = wg.compile(smooth), draw_pair(40)
    fast.batch_value_and_grad(xs, ys)
    for length in (0, 1, 39):
        with pytest.raises(ShapeError, match="must have the same length; got"):
            fast.batch_value_and_grad(xs, ys[:length])
        with pytest.raises(ShapeError, match="must have the same length; got"):
            fast.batch_value_and_grad(xs[:length], ys)
    with pytest.raises(ShapeError, match="must have the same number of points; got 2, 40"):
        fast.batch_value_and_grad(np.stack([xs, xs]), ys)
    with pytest.raises(TypeError):
        fast.batch_value_and_grad(xs)


def test_a_batch_after_another_may_be_empty() -> None:
    fast, (xs, ys) = wg.compile(smooth, argnums=(0, 1)), draw_pair(40)
    fast.batch_value_and_grad(xs, ys)
    values, grads = fast.batch_value_and_grad(xs[:0], ys[:0])

    assert [column.shape for column in (values, *grads)] == [(0,)] * 3


def test_changed_outside_state_is_noticed_after_a_batch_like_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fast, (xs, ys) = wg.compile(smooth), draw_pair(40)
    for slope in (2.0, 3.0, -1.0):
        monkeypatch.setitem(globals(), "SLOPE", slope)
        for _ in range(3):
            values, slopes = fast.batch_value_and_grad(xs, ys)

            np.testing.assert_allclose(values, np.sin(xs) * ys + slope * xs)
            np.testing.assert_allclose(slopes, np.cos(xs) * ys + slope)
            np.testing.assert_array_equal(fast.batch(xs, ys), values)


def test_batches_after_another_count_as_calls_of_a_recording() -> None:
    fast, (xs, ys) = wg.compile(smooth), draw_pair(40)
    for _ in range(6):
        fast.batch_value_and_grad(xs, ys)

    assert (fast.info.calls, fast.info.records, fast.info.fallbacks) == (6, 1, ())
    assert [variant.hits for variant in fast.info.variants] == [6 * len(xs)]


def test_a_batch_keeps_none_of_its_vectors_for_later_ones() -> None:
    fast, (xs, ys) = wg.compile(smooth), draw_pair(40)
    held = [weakref.ref(column) for column in (xs, ys)]
    results = fast.batch(xs, ys)
    held.append(weakref.ref(results))
    fast.batch(xs, ys)
    del xs, ys, results
    gc.collect()

    assert [one() for one in held] == [None] * 3


def test_a_recording_with_checks_is_looked_for_again_in_each_batch() -> None:
    fast = wg.compile(certified, argnums=(0, 1))
    plain = wg.value_and_grad(certified, argnums=(0, 1))
    # All rows of the first batch take the same branch, those of the second do not.
    fast.batch_value_and_grad(np.full(40, -1.0), np.full(40, 1.0))
    xs, ys = 3.0 * np.array(draw_pair(40))
    values, _ = fast.batch_value_and_grad(xs, ys)

    np.testing.assert_array_equal(values, [plain(x, y)[0] for x, y in zip(xs.tolist(), ys.tolist(), strict=True)])


@pytest.mark.parametrize("question", ["batch", "batch_value_and_grad", "batch_jacobian"])
def test_a_masked_array_is_refused_because_its_mask_would_be_lost(question: str) -> None:
    fast, (xs, ys) = wg.compile(smooth), draw_pair(3)
    masked = np.ma.masked_array(xs, [0, 1, 0])
    for _ in range(2):
        with pytest.raises(OperandError, match="a masked array, whose mask would be lost; take its elements"):
            getattr(fast, question)(masked, ys)
        getattr(fast, question)(xs, ys)


@pytest.mark.parametrize("question", ["batch", "batch_value_and_grad", "batch_jacobian"])
@pytest.mark.parametrize("make", [list, tuple])
def test_a_list_beside_vectors_is_named_where_the_function_cannot_take_it(make: Any, question: str) -> None:
    fast, (xs, ys) = wg.compile(lambda x, y: x * y), draw_pair(3)
    with pytest.raises(TypeError) as caught:
        getattr(fast, question)(ys, make(xs.tolist()))
    note = caught.value.__notes__[-1]

    assert note == (
        f"in this batch, argument 1 is a {make.__name__} of 3 numbers, which the function gets as it is; "
        "a vector is an array: np.array([1.0, 2.0])"
    )


def test_a_list_that_the_function_takes_is_the_same_for_all_rows() -> None:
    fast, (xs, _) = wg.compile(lambda p, x: p[0] * x + p[1]), draw_pair(3)

    assert (fast.batch([2.0, 1.0], xs) == 2.0 * xs + 1.0).all()


@pytest.mark.parametrize("question", ["batch", "batch_value_and_grad", "batch_jacobian"])
@pytest.mark.parametrize(("name", "near"), [("y", ""), ("thread", "; did you mean threads?"), ("check", "")])
def test_batches_take_arguments_by_position(name: str, near: str, question: str) -> None:
    xs, ys = draw_pair(3)
    with pytest.raises(OperandError) as caught:
        getattr(wg.compile(smooth), question)(xs, **{name: ys})
    message = str(caught.value)

    assert message.startswith(f"a batch of smooth takes its arguments by position; got {name}=; its options are ")
    assert message.endswith(f"progress, reduce{near}")


@pytest.mark.parametrize("threads", [0, -1, 2.5, "2", True])
@pytest.mark.parametrize("question", ["batch", "batch_value_and_grad", "batch_jacobian"])
def test_threads_of_a_batch_are_a_number_of_at_least_1(threads: Any, question: str) -> None:
    fast, (xs, ys) = wg.compile(smooth), draw_pair(40)
    for _ in range(2):
        with pytest.raises(InputError, match="threads is an integer of at least 1, or None for all available cores"):
            getattr(fast, question)(xs, ys, threads=threads)
        getattr(fast, question)(xs, ys, threads=1)


def test_a_function_that_must_run_itself_answers_batches_too() -> None:
    numbers = iter(range(100))
    fast = wg.compile(lambda x: x * next(numbers))

    assert fast.batch(np.ones(3)).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("args", "error", "match"),
    [
        ((1.0, 2.0), OperandError, "in place of at least one number"),
        ((np.ones(2), np.ones(3)), ShapeError, "same length; got 2, 3"),
        ((np.ones((2, 2), complex), 1.0), OperandError, "an array of complex128 with 2 axes"),
        ((np.array(["a"]), 1.0), OperandError, "vectors of real numbers"),
    ],
)
def test_wrong_batches_are_refused(args: tuple[Any, ...], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        wg.compile(merged).batch(*args)


SEVERAL_RESULTS: dict[str, Callable[[Any, Any], Any]] = {
    "a list": lambda x, y: [x * y, np.sin(x)],
    "a tuple of one": lambda x, y: (x * y,),
    "nested": lambda x, y: {"b": [x * y, (x - y,)], "a": np.exp(y)},
    "arms": lambda x, y: [x * y, x] if x > y else [x - y, y * y],
    "counted turns": lambda x, y: (certified(x, y), x),
    "a constant": lambda x, y: {"one": 1.5, "rest": [x * y, 2.5]},
    "a constant in one arm": lambda x, y: [x * y, 3.0 if x > y else y],
    "twice the same number": lambda x, y: [x, x * y, x],
    "nothing but constants": lambda x, y: [1.0, 2.0],
}


def read_rows(columns: Any, count: int) -> NDArray[Any]:
    """Return the numbers of each row, from a structure of columns."""
    leaves = flatten(columns)[0]

    assert all(type(column) is np.ndarray and column.shape == (count,) for column in leaves)
    return np.transpose(leaves)


@pytest.mark.parametrize(("name", "count"), sample_pairs(SEVERAL_RESULTS, [1, 9, 60]))
def test_several_results_are_vectors_in_their_structure(name: str, count: int) -> None:
    f = SEVERAL_RESULTS[name]
    xs, ys = np.random.default_rng(0).normal(size=(2, count)) * 3.0
    fast = wg.compile(f, argnums=(0, 1))
    rows = [*range(0, count - 1, choose_count(5, 1)), count - 1]
    wanted = [wg.compile(f)(float(xs[k]), float(ys[k])) for k in rows]
    slopes = [wg.jacobian(f, argnums=(0, 1))(float(xs[k]), float(ys[k])) for k in rows]
    values = fast.batch(xs, ys)
    table = fast.batch_jacobian(xs, ys)

    assert flatten(values)[1].has_order_of(flatten(wanted[0])[1])
    assert flatten(table)[1].has_order_of(flatten(slopes[0])[1])
    np.testing.assert_allclose(read_rows(values, count)[rows], [flatten(row)[0] for row in wanted], rtol=1e-15)
    np.testing.assert_allclose(read_rows(table, count)[rows], [flatten(row)[0] for row in slopes], rtol=1e-15)


def test_most_rows_of_several_results_are_replayed_natively() -> None:
    xs, ys = np.random.default_rng(0).normal(size=(2, 5_000))
    fast = wg.compile(SEVERAL_RESULTS["arms"], argnums=(0, 1))
    fast.batch(xs, ys)
    fast.batch_jacobian(xs, ys)

    assert sum(variant.hits for variant in fast.info.variants) >= 4_900
    assert fast.info.calls < 100


def test_a_table_of_derivatives_is_written_where_it_is_wanted() -> None:
    xs, ys = np.random.default_rng(1).normal(size=(2, 50))
    fast = wg.compile(SEVERAL_RESULTS["a list"], argnums=1)
    out = [np.empty(50), np.empty(50)]
    table = fast.batch_jacobian(xs, ys, out=out)

    assert [column is place for column, place in zip(table, out, strict=True)] == [True, True]
    np.testing.assert_array_equal(out, [xs, np.zeros(50)])


def test_a_function_of_one_number_has_a_table_of_derivatives_too() -> None:
    xs, ys = np.random.default_rng(1).normal(size=(2, 50))
    by_x, by_y = wg.compile(merged, argnums=(0, 1)).batch_jacobian(xs, ys)
    wanted = wg.compile(merged, argnums=(0, 1)).batch_value_and_grad(xs, ys)[1]

    np.testing.assert_array_equal([by_x, by_y], wanted)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: [x] if x > 0.0 else (x,),
        lambda x: [x, x] if x > 0.0 else [x],
        lambda x: {"a": x, "b": -x} if x > 0.0 else {"b": x, "a": -x},
        lambda x: [x] if x > 0.0 else x,
    ],
)
def test_rows_of_other_structures_are_refused(f: Callable[..., Any]) -> None:
    with pytest.raises(OperandError, match="must return the structure of the first"):
        wg.compile(f).batch(np.array([1.0, 2.0, -1.0, 3.0]))


REAL_RESULTS: dict[str, Callable[[Any, Any], Any]] = {
    "an array without axes": lambda x, y: np.where(y > 0.0, x, y),
    "a whole number of NumPy": lambda x, y: np.int64(3) if x > y else x,
    "a condition of Python": lambda x, y: True if x > y else x,
    "a condition of NumPy": lambda x, y: np.True_ if x > y else x,
    "a constant array without axes": lambda x, y: np.array(3) if x > y else x,
    "a small float": lambda x, y: np.float16(0.5) if x > y else x,
    "several": lambda x, y: [np.where(x > y, x, 1.0), np.int64(x > y), x > y, np.isnan(x)],
}


@pytest.mark.filterwarnings("ignore:.*still takes new branches:RuntimeWarning")
@pytest.mark.parametrize("limit", [1, 20])
@pytest.mark.parametrize("name", REAL_RESULTS)
def test_real_numbers_of_every_kind_are_results_of_a_batch(name: str, limit: int) -> None:
    """Rows that run the function itself give NumPy's numbers, rows that are replayed mostly Python's."""

    def f(x: Any, y: Any) -> Any:
        # A new recording for most numbers of turns.
        for _ in range(5):
            if x > 1.0:
                x = [x / 2.0][0]
            else:
                return REAL_RESULTS[name](x, y)
        return REAL_RESULTS[name](x, -y)

    xs, ys = np.array([0.5, 70.0, 1.5, 3.0, 0.25, 7.0, 5.0]), np.array([1.0, 0.3, -1.0, 0.5, 2.0, 0.0, 0.7])
    fast = wg.compile(f, limit=limit)
    rows = list(zip(xs.tolist(), ys.tolist(), strict=True))
    columns = flatten(fast.batch(xs, ys))[0]
    wanted = [flatten(f(*row))[0] for row in rows]

    np.testing.assert_array_equal(np.transpose(columns), np.array(wanted, np.float64))
    if len(columns) == 1:
        slopes = [wg.grad(f)(*row) for row in rows]

        np.testing.assert_array_equal(fast.batch_value_and_grad(xs, ys)[1], slopes)


@pytest.mark.parametrize("f", [lambda x: [x, "text"], lambda x: [x, 1j], lambda x: [x, np.ones(2) * 1j]])
def test_results_that_are_no_real_numbers_have_no_batch(f: Callable[..., Any]) -> None:
    with pytest.raises(
        OperandError, match="a batch needs a function that returns real numbers, or arrays of them; got"
    ):
        wg.compile(f).batch(np.array([1.0, 2.0]))


QUESTIONS = ["batch", "batch_jacobian"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_batch_of_lists_of_numbers_says_that_vectors_are_arrays(question: str) -> None:
    with pytest.raises(OperandError, match=r"a vector is an array: np\.array"):
        getattr(wg.compile(lambda a, b: a * b), question)([1.0, 2.0], [3.0, 4.0])


def test_a_gradient_of_several_results_leads_to_the_jacobian() -> None:
    with pytest.raises(GradientError, match="for several results use the jacobian"):
        wg.compile(lambda x: (x, x * x)).batch_value_and_grad(np.ones(3))


@pytest.mark.parametrize("out", [(np.empty(3), np.empty(3)), [[np.empty(3), np.empty(3)]]])
def test_out_has_the_structure_of_the_results(out: Any) -> None:
    with pytest.raises(OperandError, match="out= must have the structure of the results"):
        wg.compile(lambda x: [x, -x]).batch(np.ones(3), out=out)


def test_out_has_the_keys_of_the_results_in_their_order() -> None:
    fast = wg.compile(lambda x: {"a": x, "b": -x})

    with pytest.raises(OperandError, match="out= must have the structure of the results"):
        fast.batch(np.ones(3), out={"b": np.empty(3), "a": np.empty(3)})


def test_gradients_are_written_by_their_keys() -> None:
    fast = wg.compile(lambda p: p["a"] * 2.0 + p["b"] * 3.0)
    grads = {"b": np.empty(3), "a": np.empty(3)}
    fast.batch_value_and_grad({"a": np.ones(3), "b": np.ones(3)}, out=(np.empty(3), grads))

    assert {name: column.tolist() for name, column in grads.items()} == {"a": [2.0] * 3, "b": [3.0] * 3}


def test_out_needs_a_vector_for_each_result() -> None:
    with pytest.raises(ShapeError, match="out= needs 2 vectors"):
        wg.compile(lambda x: [x, -x]).batch(np.ones(3), out=[np.empty(3)])


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_a_batch_returns_the_sum_or_mean_of_all_points(reduction: str) -> None:
    def f(x: Any, w: float) -> Any:
        return {"one": x * w if x > 0.0 else -x, "two": [w * 2.0, np.sin(x)]}

    points = np.linspace(-1.0, 2.0, 37)
    fast = wg.compile(f)
    reduce_all = {"sum": np.sum, "mean": np.mean}[reduction]
    for ask in (fast.batch, fast.batch, fast.batch_jacobian):
        got, got_tree = flatten(ask(points, 3.0, reduce=reduction))
        columns, tree = flatten(ask(points, 3.0))

        assert got_tree.has_order_of(tree)
        np.testing.assert_allclose(got, [reduce_all(column) for column in columns], rtol=1e-15)


@pytest.mark.parametrize("executor", [None, "threads"])
def test_values_and_gradients_are_reduced_together(executor: str | None) -> None:
    points = np.linspace(0.5, 2.0, 11)
    fast = wg.compile(lambda x, y: x * y, argnums=(0, 1))
    with ThreadPoolExecutor(2) as pool:
        options: dict[str, Any] = {} if executor is None else {"executor": pool, "chunk_size": 4}
        value, grads = fast.batch_value_and_grad(points, points[::-1].copy(), reduce="mean", **options)

    assert value == np.sum(points * points[::-1]) / 11
    assert grads == (np.sum(points) / 11, np.sum(points) / 11)


def test_a_reduction_that_has_no_meaning_is_an_error() -> None:
    fast = wg.compile(lambda x: x * x)

    with pytest.raises(InputError, match='reduce is "sum" or "mean"; got \'max\''):
        fast.batch(np.ones(3), reduce="max")
    with pytest.raises(InputError, match="out= has nothing to hold"):
        fast.batch(np.ones(3), reduce="sum", out=np.empty(3))
    with pytest.raises(InputError, match="without points has no mean"):
        fast.batch(np.empty(0), reduce="mean")
    assert fast.batch(np.empty(0), reduce="sum") == 0.0


def refuse_negative(x: Any) -> Any:
    if x < 0.0:
        raise ValueError("negative")
    return x * x


ROWS_THAT_RAISE: dict[str, tuple[Callable[[Any], Any], NDArray[np.float64], int]] = {
    "function": (refuse_negative, np.array(-1.0), 20),
    "root": (lambda x: wg.root(lambda u, x: u * u - x, 1.0, x), np.array(-1.0), 20),
    "loop": (lambda x: wg.while_loop(lambda u: u > 1.0, lambda u: 0.9 * u, x, limit=9), np.array(99.0), 20),
    "singular": (lambda x: np.sum(np.linalg.solve(x, np.ones(3))), np.zeros((3, 3)), 20),
    "singular, in groups": (lambda x: np.sum(np.linalg.solve(x, np.ones(3))), np.zeros((3, 3)), 6_000),
    "factor": (lambda x: np.sum(np.linalg.cholesky(x)), -np.eye(3), 20),
}


@pytest.mark.filterwarnings("ignore::wiregrad.errors.InterpreterWarning")
@pytest.mark.parametrize("method", ["batch", "batch_value_and_grad", "batch_jacobian"])
@pytest.mark.parametrize("name", list(ROWS_THAT_RAISE))
def test_what_a_row_raises_names_the_row(name: str, method: str) -> None:
    f, refused, count = ROWS_THAT_RAISE[name]
    rows = np.array([np.eye(3) if refused.ndim else 1.5] * count)
    rows[count - 3] = refused

    with pytest.raises((ValueError, ArithmeticError, np.linalg.LinAlgError)) as caught:
        getattr(wg.compile(f), method)(rows)

    assert caught.value.__notes__ == [f"raised at row {count - 3:,} of the batch"]
