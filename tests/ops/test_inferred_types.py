"""The type of an op's output, inferred without computing it, is the type of what the op computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.dtypes import WireType
from wiregrad.errors import DomainError
from wiregrad.ir import TABLE
from wiregrad.ops import array_ops
from wiregrad.ops.array_ops import ArrayOp

DTYPES = (np.float64, np.float32, np.complex128, np.bool_, np.int64)
ARRAY_OPS = sorted(op.name for op in (wg.ops.matmul, *TABLE) if isinstance(op, ArrayOp) and not op.per_call)


def list_calls(name: str) -> list[tuple[ArrayOp, list[Any]]]:
    """Return the op bound to the settings of its samples, with the samples' arrays, and those with two more axes."""
    op = TABLE[name]
    assert isinstance(op, ArrayOp)
    if op.samples is None:
        x = np.arange(24.0).reshape(2, 3, 4)
        choices: dict[str, list[dict[str, Any]]] = {
            "axes": [{"axes": (-2,), "keepdims": False}, {"axes": (-3, -1), "keepdims": True}],
            "axis": [{"axis": -2, "keepdims": True}, {"axis": -1}],
        }
        return [(op.bind(settings), [x]) for settings in choices[_first_setting(op)]]
    calls = []
    for *xs, settings in op.samples(np.random.default_rng(0)):
        bound = op.bind(settings)
        arrays = [np.asarray(x) for x in xs]
        calls.append((bound, arrays))
        if op.batches and all(x.dtype.kind != "i" for x in arrays):
            calls.append((bound, [np.broadcast_to(x, (3, 2, *x.shape)).copy() for x in arrays]))
    return calls


def _first_setting(op: ArrayOp) -> str:
    return "axes" if op.name in ("any", "all", "count_nonzero") else "axis"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [name for name in ARRAY_OPS if name not in ("searchsorted", "matrix_rank")])
def test_inferred_type_is_that_of_the_output(name: str, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    for op, arrays in list_calls(name):
        if any(x.dtype.kind == "c" for x in arrays) and dtype is not np.complex128:
            continue
        kinds = tuple(WireType(x.dtype if x.dtype.kind == "i" else np.dtype(dtype), x.shape) for x in arrays)
        by_computing = infer_type(op, kinds, 10**9, monkeypatch)
        by_rule = infer_type(op, kinds, 0, monkeypatch)

        assert by_rule == by_computing, (op.settings, kinds)


def infer_type(op: ArrayOp, kinds: tuple[WireType, ...], small: int, monkeypatch: pytest.MonkeyPatch) -> WireType | str:
    """Infer a type, computing on arrays of up to a number of elements; returns the message if it is refused."""
    monkeypatch.setattr(array_ops, "SMALL_SIZE", small)
    array_ops._infer_on_stand_ins.cache_clear()
    try:
        return op.infer(kinds)
    except (DomainError, np.exceptions.ComplexWarning) as error:
        return str(error)
    finally:
        array_ops._infer_on_stand_ins.cache_clear()


@pytest.mark.parametrize(
    ("name", "settings", "shapes"),
    [
        ("matmul", {}, [(30, 40), (50, 60)]),
        ("concatenate", {"axis": -1}, [(30, 40), (31, 40)]),
        ("sum_to", {"rank": 2, "shape": (30, 7)}, [(30, 40)]),
        ("put_add", {"index": (("slice", 0, 5, None),), "shape": (900,)}, [(300,)]),
        ("reshape", {"rank": 1, "shape": (7, 43)}, [(300,)]),
        ("sum", {"axes": (-3,), "keepdims": False}, [(30, 40)]),
        ("cumsum", {"axis": -3, "reverse": False}, [(30, 40)]),
    ],
)
def test_shapes_that_numpy_refuses_are_refused_with_its_words(
    name: str, settings: dict[str, Any], shapes: list[tuple[int, ...]]
) -> None:
    op = TABLE[name].bind(settings)
    xs = [np.ones(shape) for shape in shapes]
    with pytest.raises(Exception, match=r".") as refusal:
        op.compute(*xs)

    with pytest.raises(DomainError) as error:
        op.infer(tuple(WireType(x.dtype, x.shape) for x in xs))

    assert str(refusal.value) in str(error.value)


def test_types_of_large_arrays_are_inferred_without_making_them(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    stand_in = array_ops._stand_in

    def count_elements(kind: WireType) -> Any:
        made.append(int(np.prod(kind.shape)))
        return stand_in(kind)

    monkeypatch.setattr(array_ops, "_stand_in", count_elements)
    array_ops._infer_on_stand_ins.cache_clear()

    def loss(x: Any, w: Any) -> Any:
        h = np.maximum(np.lib.stride_tricks.sliding_window_view(x, 3, axis=-1) @ w, 0.0)
        return np.concatenate([h[:, :100].reshape(64, -1), h.sum(axis=2)], axis=1).max(axis=1).mean()

    wg.trace(loss, np.ones((64, 300)), np.ones((3, 5))).backward_circuit()

    assert max(made, default=0) <= array_ops.SMALL_SIZE
