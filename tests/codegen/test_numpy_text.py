"""How ops on arrays are written in NumPy: the text computes what the op computes, bit for bit.

NumPy alone has no solver for matrices of few entries. There the text makes the whole matrix, and rounding differs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.backends.interpreter import evaluate_nodes, evaluate_outputs
from wiregrad.dtypes import WireType
from wiregrad.errors import DomainError, NoRuleError
from wiregrad.frontends.recording.custom_ops import FUNCTION_OP
from wiregrad.ir import TABLE, CircuitGraph, Op
from wiregrad.ops.array_ops import ArrayOp, Blocking, write_setting
from wiregrad.ops.solver_records import EntrySolve
from wiregrad.passes import backward_circuit

from ..support.random_programs import random_program
from ..support.sampling import choose_count

TABLE.load_deferred()

Case = tuple[ArrayOp, tuple[Any, ...]]

OPS = {op.name: op for op in TABLE if isinstance(op, ArrayOp) and not op.per_call}
PROGRAMS = 120
SPECIAL = (np.nan, np.inf, -np.inf, -0.0)


def array(seed: int, *shape: int) -> Any:
    """Return random numbers, some of them 0."""
    x = np.random.default_rng(seed).normal(size=shape)
    return np.where(x < -0.5, 0.0, x)


BY_AXES = [{"axes": axes, "keepdims": kept} for axes in [(-1,), (-2, -1), ()] for kept in (False, True)]
BY_AXIS = [{"axis": axis, "keepdims": kept} for axis in (-1, -2) for kept in (False, True)]
SETTINGS = {
    frozenset(): [{}],
    frozenset({"axes", "keepdims"}): BY_AXES,
    frozenset({"axis", "keepdims"}): BY_AXIS,
    frozenset({"axis", "kind"}): [{"axis": -2, "kind": None}, {"axis": -1, "kind": "stable"}],
    frozenset({"rtol"}): [{"rtol": None}, {"rtol": 0.5}, {"rtol": np.inf}],
    frozenset({"side"}): [{"side": "left"}, {"side": "right"}],
}
"""What ops without samples of their own are set to, by the names of their settings."""


def samples(op: ArrayOp) -> list[tuple[Any, ...]]:
    """Return the samples of a record; what its settings may be is found by trying, if it has none."""
    if op.samples is not None:
        return list(op.samples(np.random.default_rng(7)))
    operands = (array(3, 3, 4),) if len(op.inputs) == 1 else (np.sort(array(4, 5)), array(5, 2, 3))
    return [(*operands, settings) for tries in SETTINGS.values() for settings in tries if fits(op, operands, settings)]


def fits(op: ArrayOp, operands: tuple[Any, ...], settings: dict[str, Any]) -> bool:
    """Return whether the forward function of an op takes these settings."""
    try:
        op.forward(*operands, **settings)
    except (TypeError, ValueError, AttributeError):
        return False
    return True


def cases(op: ArrayOp) -> Iterator[Case]:
    """Return the op with settings, and operands, in both real dtypes."""
    for *xs, settings in samples(op):
        bound = op.bind(settings) if settings else op
        yield bound, tuple(np.asarray(x)[()] for x in xs)
        yield bound, tuple(in_float32(x) for x in xs)


def in_float32(x: Any) -> Any:
    """Return real numbers as float32."""
    array = np.asarray(x)
    return (array.astype(np.float32) if array.dtype == np.float64 else array)[()]


def types_of(xs: tuple[Any, ...]) -> tuple[WireType, ...]:
    return tuple(WireType(np.asarray(x).dtype, np.shape(x)) for x in xs)


def evaluated(op: ArrayOp, xs: tuple[Any, ...]) -> Any:
    """Return what the text of an op makes of operands, with NumPy alone to work with."""
    names: dict[str, Any] = {"np": np}
    for definition in op.numpy_helpers(types_of(xs)).values():
        exec(definition, names)
    names |= {f"x{slot}": x for slot, x in enumerate(xs)}
    text = op.numpy_text(types_of(xs)).format(*(f"x{slot}" for slot in range(len(xs))))
    return eval(text, names)


def outcome(run: Any, *args: Any) -> Any:
    """Return what a call gives, or the class of the error it ends in."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        # The largest of nothing but NaN is worth a warning to NumPy.
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            return run(*args)
        except np.linalg.LinAlgError as error:
            return type(error)


def assert_text_computes(op: ArrayOp, xs: tuple[Any, ...]) -> None:
    """Check dtype, shape and bits, for NaN that it is one; of solutions with few entries all but the last bits.

    So of the factors of a matrix, which LAPACK computes where SciPy is loaded, as it is after other tests.
    """
    wanted, got = outcome(op.compute, *xs), outcome(evaluated, op, xs)
    if isinstance(wanted, type) or isinstance(got, type):
        assert wanted is got, f"{op}: {got}, wanted {wanted}"
        return
    # A number of Python's has no dtype to go by in what follows.
    assert isinstance(got, np.ndarray | np.generic), f"{op}: {type(got)}"
    wanted, got = np.asarray(wanted), np.asarray(got)

    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), f"{op}: {got.dtype}{got.shape}"
    if isinstance(op, EntrySolve) or op.name == "lu_factors":
        # The samples are far from singular.
        margin = 64 * np.finfo(wanted.dtype).eps * np.abs(wanted).max(initial=1.0)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=margin, err_msg=str(op))
        return
    assert np.array_equal(got, wanted, equal_nan=wanted.dtype.kind in "fc"), f"{op}: {got}, wanted {wanted}"
    assert wanted.dtype.kind != "f" or np.array_equal(np.signbit(got) | (got != 0), np.signbit(wanted) | (wanted != 0))


@pytest.mark.parametrize("name", OPS)
def test_the_text_computes_what_the_op_computes(name: str) -> None:
    found = list(cases(OPS[name]))

    assert found
    for op, xs in found:
        assert_text_computes(op, xs)


@pytest.mark.parametrize("name", [name for name, op in OPS.items() if op.batches])
def test_the_text_of_a_batch_computes_what_the_op_computes(name: str) -> None:
    for op, xs in cases(OPS[name]):
        assert_text_computes(op, tuple(np.stack([x, x]) for x in xs))


@pytest.mark.parametrize("name", ["take", "take_add"])
def test_the_text_takes_one_row_of_indices_for_all_arrays_of_a_batch(name: str) -> None:
    for op, (x, indices) in cases(OPS[name]):
        assert_text_computes(op, (np.stack([x, x + 1, -x]), indices))


@pytest.mark.parametrize("name", OPS)
def test_the_text_treats_special_values_as_the_op_does(name: str) -> None:
    for op, xs in cases(OPS[name]):
        text = op.numpy_text(types_of(xs))
        if "linalg" in text + "".join(op.numpy_needs) and "or_nan" not in text:
            # LAPACK may search for the singular values of infinite matrices for ever.
            continue
        for special in SPECIAL:
            assert_text_computes(op, tuple(with_special(x, special) for x in xs))
            assert_text_computes(op, tuple(np.full_like(x, special) if is_float(x) else x for x in xs))


def is_float(x: Any) -> bool:
    return bool(np.asarray(x).dtype.kind in "fc")


def with_special(x: Any, special: float) -> Any:
    """Return a copy with a special value in its first place."""
    found = np.array(x)
    if is_float(x) and found.size:
        found[(0,) * found.ndim] = special
    return found[()]


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4)])
def test_the_text_adds_windows_in_the_order_of_the_op(shape: tuple[int, int]) -> None:
    count, size = shape
    settings = {"size": (size,), "step": (1,), "dilation": (1,), "shape": (count + size - 1,)}
    x = np.random.default_rng(0).normal(size=(20, *shape))

    assert_text_computes(OPS["unwindows"].bind(settings), (x,))


@pytest.mark.parametrize("name", ["solve", "inv"])
def test_the_text_gives_nan_for_the_singular_matrices_of_a_batch_alone(name: str) -> None:
    op = OPS[name].bind({"strict": False})
    a = np.stack([np.eye(2) * 2.0, np.ones((2, 2)), np.full((2, 2), np.inf)])
    xs = (a, a)[: len(op.inputs)]

    assert_text_computes(op, xs)
    assert np.isnan(evaluated(op, xs)).all((-2, -1)).tolist() == [False, True, True]


def test_the_text_of_every_node_of_backward_circuits_computes_what_the_node_computes() -> None:
    written = set()
    for seed in range(PROGRAMS):
        program = random_program(seed)
        circuit = wg.trace(program.make_function(np, wg), *program.inputs.values())
        inputs = [program.inputs[name] for name in circuit.inputs]
        written |= assert_texts_compute(backward_circuit(circuit), [np.asarray(x)[()] for x in inputs])

    assert len(written) > len(OPS) / 2


def assert_texts_compute(circuit: CircuitGraph, inputs: Sequence[Any]) -> set[str]:
    """Check the text of every node of a circuit; returns the names of the ops."""
    values, rows = evaluate_nodes(circuit, inputs), [row for row in circuit.rows() if isinstance(row.op, ArrayOp)]
    for row in rows:
        assert isinstance(row.op, ArrayOp)
        assert_text_computes(row.op, tuple(values[source] for source in row.sources))
    return {row.op.name for row in rows}


@pytest.mark.parametrize("name", [name for name, op in OPS.items() if not isinstance(op, Blocking)])
def test_the_backward_circuit_of_every_op_can_be_built_read_back_and_written(name: str) -> None:
    for op, xs in islice(cases(OPS[name]), 0, None, choose_count(3, 1)):
        y = np.asarray(op.compute(*xs))
        weights = np.cos(np.arange(y.size)).reshape(y.shape).astype(y.real.dtype)
        circuit = wg.trace(lambda *xs, op=op, weights=weights: np.sum(np.real(op(*xs) * weights)), *xs)
        inputs = [x for x in xs if is_float(x)]
        back, run = circuit.backward_circuit(), circuit.run(dict(zip(circuit.inputs, inputs, strict=True)))
        found = list(evaluate_outputs(back, inputs).values())

        assert_texts_compute(back, inputs)
        assert wg.Circuit.from_text(back.to_text()).to_text() == back.to_text()
        for got, wanted in zip(found, run.grads.values(), strict=True):
            assert np.allclose(got, wanted, *((1e-3, 1e-3) if np.asarray(got).dtype == np.float32 else (1e-9, 1e-9)))


@pytest.mark.parametrize("name", ["solve", "inv", "det", "cholesky", "slogdet", "eigh", "qr", "svd", "pinv"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_the_type_of_a_decomposition_is_that_of_what_it_computes(dtype: str, name: str) -> None:
    for op, xs in cases(OPS[name]):
        given = tuple(np.asarray(x).astype(dtype) for x in xs)
        y = np.asarray(op.compute(*given))

        assert op.infer(types_of(given)) == (y.dtype, y.shape)


def test_a_type_is_refused_where_no_array_of_it_will_do() -> None:
    with pytest.raises(DomainError, match=r"solve cannot take float64\[2,3\]"):
        OPS["solve"].bind({"strict": True}).infer((WireType(np.dtype(float), (2, 3)),) * 2)


@pytest.mark.parametrize("op", [replace(OPS["sum"], numpy=""), FUNCTION_OP], ids=lambda op: op.name)
def test_an_op_without_a_text_says_that_it_cannot_be_written(op: Op) -> None:
    with pytest.raises(NoRuleError, match=f"{op.name} cannot be written in NumPy"):
        op.numpy_text((WireType(np.dtype(float), (2,)),))


def test_a_helper_has_one_definition_a_docstring_and_nothing_but_numpy() -> None:
    known: dict[str, str] = {}
    for definition in (definition for op in OPS.values() for definition in op.numpy_needs):
        names: dict[str, Any] = {}
        exec(definition, names)
        ((name, function),) = [(name, value) for name, value in names.items() if name != "__builtins__"]

        assert function.__doc__
        assert max(map(len, definition.splitlines())) <= 120
        assert known.setdefault(name, definition) == definition


def test_helpers_come_with_those_that_they_call_and_without_the_rest() -> None:
    square = WireType(np.dtype(float), (2, 2))
    row, rows = WireType(np.dtype(int), (2,)), WireType(np.dtype(int), (2, 2))
    put_back = OPS["take_add"].bind({"axis": -1, "length": 3})

    assert list(OPS["adjugate"].numpy_helpers((square,))) == ["or_nan", "products_of_others", "unitary_det", "adjugate"]
    assert list(put_back.numpy_helpers((square, row))) == ["add_at"]
    assert list(put_back.numpy_helpers((square, rows))) == ["add_along_axis"]
    assert OPS["inv"].bind({"strict": True}).numpy_helpers((square,)) == {}


WRITTEN = [
    ("sum", {"axes": (-2, -1), "keepdims": False}, [(2, 3)], "np.sum({0})"),
    ("max", {"axes": (-1,), "keepdims": True}, [(2, 3)], "np.max({0}, axis=1, keepdims=True)"),
    ("matmul", {}, [(2, 3), (3, 4)], "{0} @ {1}"),
    ("permute", {"axes": (-1, -2)}, [(2, 3)], "{0}.T"),
    ("permute", {"axes": (-1, -2)}, [(4, 2, 3)], "np.transpose({0}, (0, 2, 1))"),
    ("reshape", {"rank": 1, "shape": (2, 3)}, [(6,)], "np.reshape({0}, (2, 3))"),
    ("spread", {"rank": 1, "shape": (2, 3)}, [(3,)], "np.broadcast_to({0}, (2, 3))"),
    ("sum_to", {"rank": 2, "shape": (3,)}, [(2, 3)], "np.sum({0}, axis=0)"),
    ("sum_to", {"rank": 2, "shape": (2, 1)}, [(2, 3)], "np.sum({0}, axis=1, keepdims=True)"),
    ("getitem", {"index": (1, ("slice", None, 3, None), ("slice", None, None, None))}, [(2, 4, 5)], "{0}[1, :3]"),
    ("put_add", {"index": (("slice", 1, None, None),), "shape": (4,)}, [(3,)], "put({0}, np.s_[1:], (4,))"),
    ("concatenate", {"axis": -1}, [(2, 1), (2, 2), (2, 3)], "np.concatenate([{0}, {1}, {2}], axis=1)"),
    ("solve", {"strict": True}, [(2, 2), (2, 1)], "np.linalg.solve({0}, {1})"),
    ("softmax", {"axes": (-1,)}, [(2, 3)], "softmax({0}, axis=1)"),
    ("cast", {"dtype": "float32"}, [(2,)], "{0}.astype(np.float32)"),
    ("argmax", {"axis": -1, "keepdims": False}, [(2, 3)], "np.argmax({0}, axis=1)"),
]


@pytest.mark.parametrize(("name", "settings", "shapes", "text"), WRITTEN)
def test_the_text_is_what_a_person_would_write(
    name: str, settings: dict[str, Any], shapes: list[tuple[int, ...]], text: str
) -> None:
    types = tuple(WireType(np.dtype(float), shape) for shape in shapes)

    assert OPS[name].bind(settings).numpy_text(types) == text


def test_braces_in_a_setting_stay_braces() -> None:
    assert write_setting("{0}").format("x") == "'{0}'"


def test_what_comes_of_a_row_in_float32_does_not_depend_on_the_rows_beside_it() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(30, n)).astype(np.float32) for n in (19, 20))
    op = OPS["recurrence"].bind({"axis": -1, "reverse": False})

    assert np.array_equal(op.compute(a, b)[:1], op.compute(a[:1], b[:1]))
