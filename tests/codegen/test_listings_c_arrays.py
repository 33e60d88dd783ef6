"""Listings of circuits with arrays in C: loops that compile without a warning and agree with the interpreter."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.api import Circuit
from wiregrad.backends.run_listings import (
    C_FLAGS,
    SANITIZER_FLAGS,
    RunnableListing,
    compile_files,
    find_c_compiler,
    require_tool,
    run_c,
)
from wiregrad.codegen import write_listing
from wiregrad.codegen.c_and_cuda import MAX_ARRAY_SIZE, MAX_STACK_ELEMENTS, MAX_TABLE_NUMBERS, STEPS_PER_PART
from wiregrad.codegen.element_statements import MAX_SORTED_ELEMENTS, find_loop_nest, find_moves, find_sums
from wiregrad.dtypes import WireType
from wiregrad.errors import NoRuleError, OutputError
from wiregrad.inspect.receipt import ReceiptPoint
from wiregrad.ir import TABLE
from wiregrad.ops.array_ops import ArrayOp, LinearOp

from ..support.random_programs import random_program
from ..support.sampling import choose_count

TABLE.load_deferred()

SAMPLE, ALL, SHARE = 20, 400, 2 / 3
NEAR = 1e-12
WARNED = (*C_FLAGS, "-Wall", "-Wextra", "-Werror")
SANITIZED = (f"-O{choose_count(0, 2)}", *SANITIZER_FLAGS[1:])
"""Compiling with sanitizers takes long, and with optimization three times as long."""
WEIGHTS = np.round(np.random.default_rng(3).normal(size=(3, 4)), 2)


class Case(NamedTuple):
    """A function and the shapes of what it takes."""

    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]


def mlp(x: Any, w: Any, b: Any, v: Any, c: Any) -> Any:
    return np.sum((v @ np.tanh(w @ x + b) + c) ** 2)


def classifier(x: Any, w: Any, b: Any, v: Any) -> Any:
    h = np.maximum(x @ w + b, 0.0)
    z = h @ v
    z = z - np.max(z, axis=1, keepdims=True)
    logs = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
    return -np.mean(logs[np.arange(5), np.array([0, 2, 1, 1, 2])])


def attention(q: Any, k: Any, v: Any) -> Any:
    shares = wg.softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(3.0), axis=-1)
    return np.sum((shares @ v) ** 2)


def joined(x: Any, y: Any) -> Any:
    both = np.concatenate([x, y * 2.0, np.ones((2, 2))], axis=1)
    return np.sum(np.sin(both) * np.stack([both[0], both[1] ** 2]))


def sliced(x: Any) -> Any:
    return np.sum(x[1:, :0:-2] * x[:-1, 1::2]) + x[-1, 0] * x[0, -1] + np.sum(x[:, None, 2] ** 3)


def picked_twice(x: Any) -> Any:
    return np.sum(np.exp(x[np.array([0, 2, 2, -1])])) + np.sum(np.take(x, [[1, 1], [0, 3]]) ** 2)


def scanned(x: Any) -> Any:
    return np.sum(np.cumsum(x, axis=0) ** 2) + np.sum(np.cumprod(x, axis=1)) + np.sum(np.cumsum(x))


def records(x: Any) -> Any:
    return np.sum(np.maximum.accumulate(x) * 2.0) + np.sum(np.minimum.accumulate(x) ** 2)


def spread_out(x: Any, y: Any, z: Any) -> Any:
    return np.mean((x[:, None] - y) ** 2 * z) + np.sum(x * z)


def moved(x: Any) -> Any:
    turned = np.transpose(x, (2, 0, 1)).reshape(4, 6)
    return np.sum(np.roll(turned, 2, axis=1) * turned) + np.sum(np.flip(x, 1)[0] * x[1])


def chosen(x: Any) -> Any:
    return np.sum(np.where(x > 0, np.sqrt(x), 0.0)) + np.sum(np.where(x > 1.0, x * x, -x))


def extremes(x: Any) -> Any:
    return np.max(x) + np.sum(np.min(x, axis=0)) + np.sum(np.nanmax(x, axis=1)) + np.ptp(x)


def filtered(x: Any, w: Any) -> Any:
    return np.sum(np.convolve(x, w, mode="valid") ** 2) + np.sum(np.convolve(x, w, mode="full"))


def image(x: Any, w: Any, b: Any) -> Any:
    return np.sum(wg.max_pool2d(np.tanh(wg.conv2d(x, w, b, padding=1)), 2) ** 2)


def pooled(x: Any, w: Any) -> Any:
    return np.sum(wg.avg_pool1d(wg.conv1d(x, w, stride=3), 2) ** 2)


def empty(x: Any) -> Any:
    return np.sum(x[4:]) + np.sum(x[:2]) * np.prod(x[3:3]) + np.sum(np.zeros((0, 3)) * x[:3])


def measured(x: Any) -> Any:
    return np.var(x) + np.std(x[0]) + np.linalg.norm(x) + np.sum(np.linalg.norm(x, axis=1))


def ordered(x: Any) -> Any:
    # NumPy's other ways to sort put equal elements in an order of their own.
    return np.sum(np.sort(x, axis=0, kind="stable") * WEIGHTS) + np.sum(np.sort(x[0], kind="stable")[::2] ** 2)


def largest(x: Any) -> Any:
    return np.sum(np.take_along_axis(x, np.argmax(x, axis=1, keepdims=True), 1) ** 2) + x[0, 1]


def logs(x: Any) -> Any:
    return wg.logsumexp(x) + np.sum(wg.log_softmax(x, axis=0)[0]) + np.sum(np.logaddexp.reduce(x, axis=1))


CASES = {
    "mlp": Case(mlp, ((2,), (3, 2), (3,), (1, 3), (1,))),
    "classifier": Case(classifier, ((5, 2), (2, 4), (4,), (4, 3))),
    "attention": Case(attention, ((2, 4, 3), (2, 4, 3), (2, 4, 2))),
    "joined": Case(joined, ((2, 1), (2, 3))),
    "sliced": Case(sliced, ((3, 5),)),
    "picked twice": Case(picked_twice, ((4,),)),
    "scanned": Case(scanned, ((3, 4),)),
    "records": Case(records, ((6,),)),
    "spread out": Case(spread_out, ((3,), (3, 4), ())),
    "moved": Case(moved, ((2, 3, 4),)),
    "chosen": Case(chosen, ((6,),)),
    "extremes": Case(extremes, ((3, 4),)),
    "filtered": Case(filtered, ((7,), (3,))),
    "image": Case(image, ((1, 2, 4, 4), (3, 2, 3, 3), (3,))),
    "pooled": Case(pooled, ((1, 2, 13), (2, 2, 2))),
    "empty": Case(empty, ((4,),)),
    "measured": Case(measured, ((3, 4),)),
    "ordered": Case(ordered, ((3, 4),)),
    "largest": Case(largest, ((3, 4),)),
    "logs": Case(logs, ((3, 4),)),
    "product": Case(lambda x: np.sum(np.prod(x, axis=1)) + np.prod(x[0]), ((3, 4),)),
    "captured": Case(lambda x: np.sum(np.tanh(WEIGHTS.T @ x) * WEIGHTS[0]), ((3,),)),
    "matrix power": Case(lambda x: np.sum(x @ x @ x.T), ((3, 3),)),
    "einsum": Case(lambda x, y: np.sum(np.einsum("ij,kj->ik", x, y) ** 2), ((2, 3), (4, 3))),
    "outer": Case(lambda x, y: np.sum(np.outer(x, y) ** 2) + np.dot(x[:2], y), ((3,), (2,))),
    "clipped": Case(lambda x: np.sum(np.clip(x, -0.5, 0.5) * np.abs(x)) + np.sum(np.sign(x) * x), ((6,),)),
    "guarded": Case(lambda x, y: np.sum(np.where(np.any(x > 0, axis=1), y / x[:, 0], y)), ((3, 4), (3,))),
    "any of them": Case(lambda x: np.sum(np.where(np.any(x, axis=0), x[0], x[1])) * np.all(x), ((2, 3),)),
    "first": Case(lambda x: x.reshape(-1)[np.argmin(x)] * 2.0 + largest(x), ((3, 2),)),
    "number": Case(lambda x: np.sum(x) * np.mean(x), ((),)),
    "unused": Case(lambda x, y: np.sum(x * 3.0), ((2, 2), (3,))),
    "padded": Case(lambda x: np.sum(np.cumsum(np.pad(x, ((1, 0), (0, 2)))) ** 2), ((2, 3),)),
    "pieces": Case(lambda x: sum(np.sum(part) ** k for k, part in enumerate(np.split(x, 3), 1)), ((6,),)),
}


def traced(case: Case) -> Circuit:
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        return wg.trace(case.function, *(rng.normal(size=shape) + 0.0 for shape in case.shapes))


def points(case: Case) -> list[list[Any]]:
    """Return random points, ties and zeros, and points with NaN and infinities."""
    rng = np.random.default_rng(1)
    drawn = [rng.normal(size=shape) for shape in case.shapes]
    whole = [np.asarray(rng.integers(-1, 2, size=shape), np.float64) for shape in case.shapes]
    zero = [np.zeros(shape) for shape in case.shapes]
    odd = []
    for special in (np.nan, np.inf, -np.inf, -0.0):
        odd.append([_with(x, special) for x in drawn])
    return [drawn, [np.abs(x) + 0.5 for x in drawn], whole, zero, *odd]


def _with(x: Any, special: float) -> Any:
    found = np.array(x)
    found.reshape(-1)[:1] = special
    return found


def flat(values: Sequence[Any]) -> Any:
    return np.concatenate([np.ravel(np.asarray(value, np.float64)) for value in values])


def listing_of(circuit: Circuit, name: str, real: str = "double") -> RunnableListing:
    sizes = tuple(int(np.prod(circuit.type_of(k).shape)) for k in circuit.input_indices())
    return RunnableListing(write_listing(circuit, "c", name=name), name, circuit.inputs, sizes=sizes, real=real)


def agrees(circuit: Circuit, inputs: Sequence[Any], row: Any, near: float = NEAR) -> bool:
    """Return whether value and gradient are what the interpreter finds, NaN and infinities where it has them."""
    types = [circuit.type_of(node) for node in circuit.input_indices()]
    point = ReceiptPoint(circuit, [np.asarray(x, kind.dtype)[()] for x, kind in zip(inputs, types, strict=True)])
    wanted = flat(point.reference_results)
    finite = np.isfinite(wanted)
    if not finite[0] and any(isinstance(step.op, ArrayOp) and step.op.c_function for step in plain_rows(circuit)):
        # What LAPACK makes of a matrix with NaN or infinities differs from library to library; C answers NaN.
        return not np.isfinite(row[0])
    if not np.array_equal(row[~finite], wanted[~finite], equal_nan=True):
        return False
    scale = np.full(len(row), np.max(np.abs(wanted[1:][finite[1:]]), initial=1.0))
    scale[0] = max(1.0, abs(wanted[0]))
    return bool(np.all(np.abs(row[finite] - wanted[finite]) <= near * scale[finite]))


@cache
def found_rows() -> dict[str, tuple[Circuit, list[list[Any]], Any]]:
    """Compile the listings of all cases at once, with every sanitizer, and run them at all points."""
    circuits = {name: traced(case) for name, case in CASES.items()}
    programs = [listing_of(circuit, f"listing{k}") for k, circuit in enumerate(circuits.values())]
    places = [points(case) for case in CASES.values()]
    rows = run_c(
        programs, [[flat(point) for point in point_list] for point_list in places], flags=SANITIZED, per_file=4
    )
    return dict(zip(circuits, zip(circuits.values(), places, rows, strict=True), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_program_on_arrays_agrees_with_the_interpreter(name: str) -> None:
    circuit, places, rows = found_rows()[name]
    off = [k for k, (point, row) in enumerate(zip(places, rows, strict=True)) if not agrees(circuit, point, row)]

    assert off == []


def random_listings(seeds: range) -> tuple[dict[int, tuple[Circuit, list[Any], RunnableListing]], set[int]]:
    """Return the listings of random NumPy programs, and those that cannot be written."""
    found, refused = {}, set()
    for seed in seeds:
        program = random_program(seed)
        inputs = list(program.inputs.values())
        # At other points, what is compared is the arithmetic of the circuit.
        circuit = wg.trace(program.make_function(np, wg), *inputs).unchecked()
        try:
            found[seed] = circuit, inputs, listing_of(circuit, f"listing{seed}")
        except NoRuleError:
            refused.add(seed)
    return found, refused


def check_random(seeds: range) -> None:
    """Compare random programs at the points they were drawn for, and at awkward ones."""
    found, refused = random_listings(seeds)
    places = [[inputs, *points(shapes_of(inputs))] for _, inputs, _ in found.values()]
    rows = run_c(
        [program for *_, program in found.values()],
        [[flat(point) for point in point_list] for point_list in places],
        flags=WARNED,
        per_file=10,
    )
    off = []
    for (seed, (circuit, *_)), point_list, answers in zip(found.items(), places, rows, strict=True):
        # Equal elements have no order of their own: NumPy's quick sort and a loop may put them in another one.
        count = 2 if any(row.op is TABLE["argsort"] for row in plain_rows(circuit)) else len(point_list)
        pairs = list(zip(point_list, answers, strict=True))[:count]
        off += [
            (seed, k) for k, (point, row) in enumerate(pairs) if not agrees(circuit, point, row, 1e-9 if k else NEAR)
        ]

    assert off == []
    assert len(found) >= SHARE * len(seeds)
    assert len(found) + len(refused) == len(seeds)


def shapes_of(inputs: Sequence[Any]) -> Case:
    return Case(np.sum, tuple(np.shape(x) for x in inputs))


def plain_rows(circuit: Circuit) -> Iterator[Any]:
    """Return the rows of a circuit with ops as they stand in the table."""
    return (row._replace(op=TABLE[row.op.name]) for row in circuit.rows())


def test_random_programs_agree_with_the_interpreter_or_are_refused() -> None:
    check_random(range(SAMPLE))


@pytest.mark.full
def test_many_random_programs_agree_with_the_interpreter_or_are_refused() -> None:
    check_random(range(SAMPLE, ALL))


def body_of(case: Case, **options: Any) -> str:
    return write_listing(traced(case), "c", **options)


def test_an_op_on_elements_is_one_loop_and_broadcasting_is_none() -> None:
    text = body_of(Case(lambda x, b: np.sum(np.tanh(x + b)), ((4, 3), (3,))))

    assert "t3[i * 3 + j] = x[i * 3 + j] + b[j];" in text
    assert "for (int i = 0; i < 12; i++) t4[i] = tanh(t3[i]);" in text
    assert "b[3] at 12" in text


def test_matrices_are_multiplied_where_they_stand_even_if_they_are_turned() -> None:
    text = body_of(Case(lambda a, b: np.sum(a.T @ b), ((3, 2), (3, 4))))

    assert "+= a[i + k * 2] * b[k * 4 + j];" in text


def test_what_a_slice_sends_needs_no_mask() -> None:
    text = body_of(Case(lambda x: np.sum(x[1:3] ** 2), ((5,),)))

    assert "bool m" not in text
    assert "d_x[i + 1] = " in text


def test_irregular_indices_stand_in_a_table() -> None:
    text = body_of(Case(lambda x: np.sum(x[np.array([3, 0, 0, 4])]), ((5,),)))

    assert "static const int map1[4] = {3, 0, 0, 4};" in text


def test_small_arrays_stand_on_the_stack_and_large_ones_do_not() -> None:
    small, large = (body_of(Case(lambda x: np.sum(np.sin(x)), ((n,),))) for n in (100, MAX_STACK_ELEMENTS))

    assert "static" not in small
    assert "static double" in large
    assert "not for two threads at once" in large


def recurrent(x: Any, w: Any, work: Any) -> Any:
    h = work
    for row in x:
        h = np.tanh(w @ h + row)
    return np.sum(h[1:] ** 2) + np.sum(x[:, 0] * h[0])


def test_a_long_listing_is_cut_into_functions() -> None:
    case = Case(recurrent, ((choose_count(30, 60), 3), (3, 3), (3,)))
    circuit, (inputs, *_) = traced(case), points(case)
    program = listing_of(circuit, "recurrent")
    ((row,),) = run_c([program], [[flat(inputs)]], flags=("-O0", *SANITIZER_FLAGS[1:]))
    longest = max(len(part.splitlines()) for part in program.text.split("\n}\n"))

    assert "static void recurrent_part_2(" in program.text
    assert longest < 5 * STEPS_PER_PART
    assert agrees(circuit, inputs, row)


@pytest.mark.parametrize("name", ["svdvals", "eigvalsh", "pinv"])
def test_an_op_that_has_no_loops_is_refused_by_name(name: str) -> None:
    functions = {"svdvals": lambda x: np.sum(np.linalg.svd(x, compute_uv=False))}
    functions |= {"eigvalsh": lambda x: np.sum(np.linalg.eigvalsh(x)), "pinv": lambda x: np.sum(np.linalg.pinv(x))}
    circuit = wg.trace(functions[name], np.eye(3) + 1.0)

    with pytest.raises(NoRuleError, match=f"{name}.*to_numpy"):
        write_listing(circuit, "c")


def test_other_dtypes_are_refused() -> None:
    wide, narrow = np.ones(4), np.ones(4, np.float32)
    given = {"complex128": (wide + 1j, wide), "float32": (narrow, wide)}
    for words, (one, two) in given.items():
        circuit = wg.trace(lambda x, y: np.sum(np.real(x * y)), one, two)
        with pytest.raises(NoRuleError, match=words):
            write_listing(circuit, "c")


def test_whole_numbers_may_be_constants_but_not_inputs(tmp_path: Path) -> None:
    circuit = wg.trace(lambda x: np.sum(x * np.array([1, 2**40, 3])), np.ones(3))
    call = compiled(write_listing(circuit, "c"), tmp_path).value_and_grad
    grad = np.zeros(3)
    call(address(np.ones(3)), address(grad))
    builder = wg.Builder()
    x, rows = (builder.input(name, WireType(np.dtype(kind), (3,))) for name, kind in (("x", float), ("rows", np.int64)))
    picks = builder.build(TABLE["sum"](TABLE["take"](x, rows, axis=-1), axes=(-1,), keepdims=False))

    assert grad.tolist() == [1.0, 2.0**40, 3.0]
    with pytest.raises(NoRuleError, match="rows has integers"):
        write_listing(picks, "c")


def test_indices_that_may_be_too_large_are_refused() -> None:
    circuit = wg.trace(lambda x, y: x[np.argmin(y)] * 2.0, np.ones(3), np.ones(5))

    with pytest.raises(NoRuleError, match="may be out of range"):
        write_listing(circuit, "c")


def test_too_much_is_refused() -> None:
    builder = wg.Builder()
    x = builder.input("x", WireType(np.dtype(float), (MAX_ARRAY_SIZE + 1,)))

    with pytest.raises(NoRuleError, match="count up to"):
        write_listing(builder.build(TABLE["sum"](x, axes=(-1,), keepdims=False)), "c")
    with pytest.raises(NoRuleError, match="too slow"):
        body_of(Case(lambda x: np.sum(np.sort(x)[:3]), ((MAX_SORTED_ELEMENTS + 1,),)))
    with pytest.raises(NoRuleError, match="make large ones inputs"):
        body_of(Case(lambda x: np.sum(x * np.arange(MAX_TABLE_NUMBERS + 1.0)), ((MAX_TABLE_NUMBERS + 1,),)))


def test_float32_circuits_are_written_in_floats() -> None:
    function = CASES["classifier"].function
    inputs = [x.astype(np.float32) for x in points(CASES["classifier"])[0]]
    circuit = wg.trace(function, *inputs)
    program = listing_of(circuit, "f32", real="float")
    ((row,),) = run_c([program], [[flat(inputs)]], flags=WARNED)

    assert "float f32(const float *inputs, float *grad)" in program.text
    assert agrees(circuit, inputs, row, 1e-5)


def compiled(text: str, folder: Path) -> Any:
    compile_files(
        require_tool(find_c_compiler(), "C", ""),
        folder,
        {"listing.c": text},
        ["-shared", "-fPIC", "-o", "listing.so", *WARNED],
        ["-lm"],
    )
    return ctypes.CDLL(str(folder / "listing.so"))


def address(x: Any) -> Any:
    return x.ctypes.data_as(ctypes.c_void_p)


def test_values_may_be_arrays_and_conditions(tmp_path: Path) -> None:
    builder = wg.Builder()
    x = builder.input("x", WireType(np.dtype(float), (2, 3)))
    outputs = {"s": TABLE["sin"](x), "p": TABLE["greater"](x, 0.0), "t": TABLE["sum"](x, axes=(-1,), keepdims=False)}
    given, found = np.arange(-3.0, 3.0), np.full(14, 9.0)
    compiled(write_listing(builder.build(labels=outputs), "c", "value"), tmp_path).value(address(given), address(found))
    rows = given.reshape(2, 3)

    assert np.allclose(found, flat([np.sin(rows), rows > 0, rows.sum(1)]), rtol=1e-15)


def test_a_jacobian_has_a_row_for_each_output(tmp_path: Path) -> None:
    builder = wg.Builder()
    x = builder.input("x", WireType(np.dtype(float), (3,)))
    outputs = {"s": TABLE["sum"](x, axes=(-1,), keepdims=False), "p": TABLE["prod"](x, axes=(-1,), keepdims=False)}
    given, found = np.array([2.0, 3.0, 5.0]), np.zeros(6)
    compiled(write_listing(builder.build(labels=outputs), "c", "jacobian"), tmp_path).jacobian(
        address(given), address(found)
    )

    assert found.tolist() == [1.0, 1.0, 1.0, 15.0, 10.0, 6.0]


def test_gradients_of_arrays_are_refused() -> None:
    with pytest.raises(OutputError):
        write_listing(wg.trace(np.sin, np.ones(3)), "c")


def test_a_header_says_where_inputs_stand() -> None:
    text = body_of(CASES["mlp"], header=True)

    assert "x[2] at 0, w[3][2] at 2, b[3] at 8, v[1][3] at 11, c[1] at 14" in text
    assert "double value_and_grad(const double *inputs, double *grad);" in text


def test_names_of_loops_and_math_h_are_left_to_people(tmp_path: Path) -> None:
    def crowded(i: Any, j: Any, fmax: Any, u1: Any, x: Any) -> Any:
        return np.sum(np.fmax(i * j[:, None], fmax) @ u1) + np.nanmax(x)

    case = Case(crowded, ((3,), (2,), (2, 3), (3, 2), (4,)))
    circuit, (inputs, *_) = traced(case), points(case)
    call, given = compiled(write_listing(circuit, "c"), tmp_path).value_and_grad, flat(inputs)
    call.restype = ctypes.c_double
    grad = np.zeros(len(given))

    assert agrees(circuit, inputs, np.array([call(address(given), address(grad)), *grad]))


def moving_samples() -> list[tuple[LinearOp, tuple[Any, ...]]]:
    rng, found = np.random.default_rng(7), []
    for op in TABLE:
        if isinstance(op, LinearOp) and op.moves and op.samples is not None:
            found += [(op.bind(sample[-1]) if sample[-1] else op, sample[:-1]) for sample in op.samples(rng)]
    return [(op, xs) for op, xs in found if all(np.asarray(x).dtype.kind != "c" for x in xs)]


@pytest.mark.parametrize(("op", "xs"), moving_samples())
def test_an_op_that_moves_elements_has_a_map_unless_it_repeats_a_step(op: LinearOp, xs: tuple[Any, ...]) -> None:
    types = [WireType(np.asarray(x).dtype, np.shape(x)) for x in xs]
    given = [np.asarray(x) if np.asarray(x).dtype.kind == "i" else None for x in xs]
    y = np.asarray(op.compute(*xs))
    one = find_moves(op, types, given)
    two = find_sums(op, types, given, WireType(y.dtype, y.shape)) if len(xs) == 1 or given[1] is not None else None

    assert one is not None or two is not None or op.step is not None


def test_an_op_that_does_more_than_move_has_no_map() -> None:
    kind = WireType(np.dtype(float), (4,))

    assert find_moves(TABLE["cumsum"].bind({"axis": -1, "reverse": False}), [kind], [None]) is None
    assert find_moves(TABLE["softmax"].bind({"axes": (-1,)}), [kind], [None]) is None


@pytest.mark.parametrize("seed", range(20))
def test_loops_run_along_maps_as_they_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 4, size=3))
    places = np.arange(int(np.prod(shape))).reshape(shape)
    maps = [
        places.ravel(),
        places.transpose(rng.permutation(3)).ravel(),
        np.flip(places, 1).ravel(),
        rng.permutation(places.size),
    ]
    nest = find_loop_nest(maps)
    rounds = np.indices(nest.lengths).reshape(len(nest.lengths), -1)
    for each, steps in zip(maps, nest.steps, strict=True):
        if steps is not None:
            assert np.array_equal(each[0] + np.array(steps, np.int64) @ rounds if steps else each[:1], each)

    assert nest.steps[0] is not None


def test_every_composite_is_the_op_it_stands_for() -> None:
    rng = np.random.default_rng(5)
    ops = [op for op in TABLE if isinstance(op, ArrayOp) and op.composite is not None and op.samples is not None]
    far = []
    for op in ops:
        for *xs, settings in op.samples(rng):
            if all(np.size(x) for x in xs):
                made, wanted = op.composite(*xs, **settings), op.bind(settings).compute(*xs)
                far += [] if np.allclose(made, wanted, rtol=1e-14) else [(op.name, settings)]

    assert len(ops) >= 3
    assert far == []
