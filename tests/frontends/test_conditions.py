"""Conditions used as numbers, indices, masks and keys: every way of running a function follows the plain function."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import NoRuleError, WiregradError

from ..support.conditional_programs import Program, random_program
from ..support.limits import PATIENCE
from ..support.sampling import sample_some

# Of plain conditions, since Python 3.12.
pytestmark = pytest.mark.filterwarnings("ignore:Bitwise inversion:DeprecationWarning")

COUNT, SAMPLE, PART = 5_000, 25, 199
ULPS = 4


def eager(f: Callable[..., Any], *args: Any) -> Any:
    return wg.vjp(f, *args)[0]


def traced(f: Callable[..., Any], *args: Any) -> Any:
    circuit = wg.trace(f, *args)
    found = circuit(dict(zip(circuit.inputs, args, strict=True)))
    return tuple(found.values()) if isinstance(found, dict) else found


class Outcome:
    """What a call gave or raised."""

    def __init__(self, f: Callable[..., Any], *args: Any) -> None:
        self.result: Any = None
        self.error: Exception | None = None
        with np.errstate(all="ignore"):
            try:
                self.result = f(*args)
            except Exception as error:
                self.error = error

    def difference(self, plain: Outcome, *, typed: bool) -> str | None:
        """Return how this differs from what plain Python did in silence; `typed`: the types of results count."""
        if self.error is not None:
            if isinstance(self.error, WiregradError) or type(self.error) is type(plain.error):
                return None
            return f"raised {type(self.error).__name__}: {self.error}; plain gave {plain.shown()}"
        if plain.error is not None:
            # 1/0 is inf everywhere, by rule F of the semantics.
            excused = isinstance(plain.error, ZeroDivisionError)
            return None if excused else f"gave {self.shown()}; plain raised {type(plain.error).__name__}: {plain.error}"
        same = alike(self.result, plain.result, typed=typed)
        return None if same else f"gave {self.shown()}; plain gave {plain.shown()}"

    def shown(self) -> str:
        return repr(self.result) if self.error is None else f"{type(self.error).__name__}: {self.error}"


def alike(one: Any, two: Any, *, typed: bool) -> bool:
    if isinstance(two, list | tuple):
        if not isinstance(one, list | tuple) or len(one) != len(two):
            return False
        return all(alike(a, b, typed=typed) for a, b in zip(one, two, strict=True))
    if typed and kind_of(one) != kind_of(two):
        return False
    if isinstance(two, str):
        return bool(one == two)
    a, b = np.asarray(one), np.asarray(two)
    return a.shape == b.shape and bool(np.all(close(a.astype(float), b.astype(float))))


def close(a: Any, b: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= ULPS * np.spacing(np.maximum(abs(a), abs(b))))


def kind_of(result: Any) -> Any:
    """Return what matters about a type for what is done with a result next; a float is one in Python and NumPy."""
    if isinstance(result, float | np.float64) or (isinstance(result, np.ndarray) and result.shape == ()):
        return "number" if np.asarray(result).dtype.kind == "f" else np.asarray(result).dtype
    return (result.dtype, result.shape) if isinstance(result, np.ndarray) else type(result)


def outcomes(program: Program) -> Iterator[tuple[str, tuple[Any, ...], Outcome, Outcome, str | None]]:
    """Run a program in every way at every point; the compiled one twice, so that recordings are replayed."""
    compiled = wg.compile(program.f)
    for args in (*program.points, *program.points):
        plain = Outcome(program.f, *args)
        outcome = Outcome(compiled, *args)
        yield "compiled", args, plain, outcome, outcome.difference(plain, typed=True)
    for args in program.points:
        plain = Outcome(program.f, *args)
        outcome = Outcome(eager, program.f, *args)
        yield "eager", args, plain, outcome, outcome.difference(plain, typed=True)
        outcome = Outcome(traced, program.f, *args)
        yield "traced", args, plain, outcome, outcome.difference(plain, typed=False)


def check(seeds: range) -> Counter[str]:
    """Run random programs; returns how often each way agreed and raised, and fails on the first silent difference."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        program = random_program(seed)
        for way, args, plain, outcome, difference in outcomes(program):
            assert difference is None, f"seed {seed}, {way} at {args}: {difference}\n{program.source}"
            refused = outcome.error is not None and plain.error is None
            counts[f"{way}: {'refused' if refused else 'agreed'}"] += 1
    return counts


FULL = [pytest.param(first, marks=pytest.mark.full) for first in range(SAMPLE, COUNT, PART)]


@pytest.mark.parametrize("first", [0, *FULL])
def test_random_functions_answer_as_plain_ones_do(first: int, record_property: Callable[..., None]) -> None:
    counts = check(range(first, first + (PART if first else SAMPLE)))
    for name, count in counts.items():
        record_property(name, count)

    # Were much refused, agreement would mean little.
    assert all(counts[f"{way}: refused"] < 0.02 * counts[f"{way}: agreed"] for way in ("compiled", "eager", "traced"))


BESIDE_SMALL_ARRAYS: dict[str, Callable[..., Any]] = {
    "exponent": lambda x, y, v: pow(y, x <= 0.5) + v,
    "base": lambda x, y, v: (x <= 0.5) ** y + v,
    "dividend": lambda x, y, v: (x > 0.25) / y + v,
    "NumPy's power": lambda x, y, v: np.power(y, x <= 0.5) * v,
    "exponents of an array": lambda x, y, v: y ** (v > x) + v,
    "an array of dividends": lambda x, y, v: (v > x) / y,
}


@pytest.mark.parametrize("number", [float, np.float64])
@pytest.mark.parametrize("use", BESIDE_SMALL_ARRAYS)
def test_conditions_that_ops_compute_with_compile_beside_small_arrays(use: str, number: Any) -> None:
    f = BESIDE_SMALL_ARRAYS[use]
    compiled = wg.compile(f)
    for x in (0.375, 0.75, 0.375):
        args = (number(x), number(2.5), np.array([0.5, 1.5]))

        np.testing.assert_array_equal(compiled(*args), f(*args), strict=True)


WAYS: dict[str, Callable[..., Any]] = {
    "eager": eager,
    "compiled": lambda f, *args: wg.compile(f)(*args),
    "traced": traced,
    "run": lambda f, *args: wg.run(f, *args).output,
}
NUMBERS = [2.5, np.float64(2.5), 0.5, np.float64(0.5)]


def pick_by_identity(flag: Any) -> float:
    return 3.0 if flag is True else 4.0


def pick_by_type(flag: Any) -> float:
    return 3.0 if type(flag) is bool else 4.0


class Picker:
    def pick(self, flag: Any) -> float:
        return 3.0 if flag is not False else 5.0


PICKER = Picker()
PICKS = {"identity": pick_by_identity}
ITEMS = np.array([1.0, 2.0])
LISTED = [1.0, 2.0]
USES: dict[str, Callable[[Any], Any]] = {
    "a sum": lambda x: x * ((x > 1) + (x > 2)),
    "a difference": lambda x: x * ((x > 1) - (x > 2) + 1.0),
    "a sign": lambda x: x * -(x > 1),
    "an inversion": lambda x: x * ~(x > 1),
    "a shift": lambda x: x * ((x > 1) << 2),
    "a power": lambda x: x ** (x > 1),
    "a base": lambda x: x * 2 ** (x > 1),
    "a whole quotient": lambda x: x * ((x > 1) // True),
    "a remainder": lambda x: x * ((x > 1) % 2),
    "a quotient": lambda x: x * ((x > 1) / 4),
    "large whole numbers": lambda x: x * (((x > 1) + 2**62) * 4 > 2**63),
    "a factor of a list": lambda x: x * len([1, 2] * (x > 1)),
    "an index": lambda x: x * [1.0, 2.0][x > 1],
    "an index of text": lambda x: x * float("12"[x > 1]),
    "an index of an array": lambda x: x * np.array([1.0, 2.0])[x > 1].sum(),
    "an index of a named array": lambda x: x * ITEMS[x > 1].sum(),
    "an index of a computed list": lambda x: x * sorted([2.0, 1.0])[x > 1],
    "an index of a named list": lambda x: x * LISTED[x > 1],
    "a bound of a slice": lambda x: x * np.array([1.0, 2.0])[: (x > 1)].sum(),
    "one of two indices": lambda x: x * np.array([[1.0, 2.0]])[0, x > 1].sum(),
    "a length": lambda x: x * len(range(x > 1)),
    "a key": lambda x: x * {True: 3.0, False: 4.0}[x > 1],
    "a key that is 1": lambda x: x * {1: 3.0}.get(x > 1, 7.0),
    "an element of a set": lambda x: x * ((x > 1) in {False, 2}),
    "text": lambda x: x * {"True": 2.0}.get(str(x > 1), 3.0),
    "formatted text": lambda x: x * {"True": 2.0}.get(f"{x > 1}", 3.0),
    "identity": lambda x: x if (x > 1) is True else -x,
    "no identity": lambda x: x if (x > 1) is not False else -x,
    "identity with NumPy's": lambda x: x if (x > 1) is np.True_ else -x,
    "identity of two": lambda x: x if (x > 1) is (x > 2) else -x,
    "identity in a function": lambda x: x * pick_by_identity(x > 1),
    "identity in a method": lambda x: x * PICKER.pick(x > 1),
    "identity in a table": lambda x: x * PICKS["identity"](x > 1),
    "its type": lambda x: x if type(x > 1) is bool else -x,
    "its type in a function": lambda x: x * pick_by_type(x > 1),
    "its class": lambda x: x if isinstance(x > 1, bool) else -x,
    "NumPy's class": lambda x: x if isinstance(x > 1, np.bool_) else -x,
    "equality with True": lambda x: x if (x > 1) == True else -x,  # noqa: E712 - what is tested
    "equality with 1": lambda x: x if (x > 1) == 1 else -x,
    "a float": lambda x: x * float(x > 1),
    "an int": lambda x: x * int(x > 1),
    "sums in Python": lambda x: x * sum([x > 0, x > 1, x > 2]),
    "the largest": lambda x: x * max(x > 1, x > 3),
    "conjunction": lambda x: x * ((x > 1) & (x < 5)),
    "exclusive or": lambda x: x * ((x > 1) ^ True),
    "a chain": lambda x: x * (0 < x < 1),
    "and": lambda x: (x > 1 and x) + 1.0,
    "a NumPy function of conditions": lambda x: x * np.add(x > 1, x > 2),
    "a NumPy sum": lambda x: x * np.sum([x > 1, x > 2]),
    "after a NumPy function": lambda x: x * ((np.sqrt(x) > 1) + (np.sqrt(x) > 0)),
    "after abs": lambda x: x * ((abs(x) > 1) + (abs(x) > 0)),
    "after divmod": lambda x: x * ((divmod(x, 0.75)[0] > 1) + (divmod(x, 0.75)[0] > 0)),
    "after round": lambda x: x * ((round(x, 1) > 1) + (round(x, 1) > 0)),
    "after a gradient": lambda x: x * ((wg.grad(lambda t: t * t)(x) > 1) + (wg.grad(lambda t: t * t)(x) > 0)),
    "after stop_gradient": lambda x: x * ((wg.stop_gradient(x) > 1) + (wg.stop_gradient(x) > 0)),
    "beside np.float64": lambda x: x * ((x * np.float64(1.0) > 1) + (np.float64(1.0) * x > 0)),
    "a matched pattern": lambda x: matched(x > 1) * x,
    "a result": lambda x: x > 1,
    "a sum as a result": lambda x: (x > 1) + (x > 2),
}


def matched(flag: Any) -> float:
    match flag:
        case True:
            return 1.0
        case False:
            return 2.0
        case _:
            return 3.0


@pytest.mark.parametrize(("use", "way", "number"), sample_some(itertools.product(USES, WAYS, NUMBERS), 3), ids=repr)
def test_a_condition_of_a_number_is_used_as_in_plain_python(use: str, way: str, number: Any) -> None:
    plain = Outcome(USES[use], number)
    outcome = Outcome(WAYS[way], USES[use], number)

    assert outcome.difference(plain, typed=way in ("eager", "compiled")) is None


MASKS: dict[str, Callable[[Any], Any]] = {
    "a sum": lambda v: ((v > 1) + (v > 2)) * v,
    "a product": lambda v: ((v > 1) * (v > 2)) * v,
    "a difference": lambda v: (v > 1) - (v > 2),
    "a sign": lambda v: -(v > 1),
    "an inversion": lambda v: ~(v > 1) * v,
    "exclusive or": lambda v: ((v > 1) ^ (v > 2)) * v,
    "a number": lambda v: (v > 1) * 1.0,
    "a cast": lambda v: (v > 1).astype(float) * v,
    "a count": lambda v: (v > 1).sum() * v,
    "a NumPy count": lambda v: np.sum(v > 1) * v,
    "a mean": lambda v: (v > 1).mean() * v,
    "bits of a count": lambda v: (((v > 0).sum() & 1) + ((v > 0).sum() | 4)) * v,
    "an index": lambda v: v[v > 1],
    "an index of a plain array": lambda v: np.arange(3.0)[v > 1].sum() * v,
    "elements": lambda v: ((v > 1)[0] + (v > 2)[0]) * v,
    "a list": lambda v: (v > 1).tolist().count(True) * v,
    "a loop": lambda v: sum(v > 1) * v,
    "a function without an op": lambda v: np.packbits(v > 1)[0] * v,
    "a small dtype": lambda v: ((v > 1) // True) * v,
    "np.where": lambda v: np.where(v > 1, v, -v),
    "a result": lambda v: v > 1,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("use", MASKS)
def test_a_mask_is_used_as_in_plain_numpy(use: str, way: str) -> None:
    array = np.array([0.5, 1.5, 2.5])
    plain = Outcome(MASKS[use], array)
    outcome = Outcome(WAYS[way], MASKS[use], array)

    assert outcome.difference(plain, typed=way in ("eager", "compiled")) is None


def test_where_of_a_condition_stays_a_choice_in_the_circuit() -> None:
    circuit = wg.trace(lambda x: np.where(x > 0, x, -x) * (x > 1), 2.0)

    assert "where" in str(circuit)
    assert not circuit.certificates


def test_counting_conditions_needs_one_recording() -> None:
    fast = wg.compile(lambda x: x * ((x > 1) + (x > 2) + 3))

    assert [fast(0.5), fast(1.5), fast(2.5)] == [1.5, 6.0, 12.5]
    assert len(fast.info.variants) == 1


def test_python_and_numpy_numbers_have_recordings_of_their_own() -> None:
    fast = wg.compile(lambda x: x * ((x > 1) + (x > 2)))

    assert [fast(2.5), fast(np.float64(2.5)), fast(3.0), fast(np.float64(3.0))] == [5.0, 2.5, 6.0, 3.0]


def ask_late(flag: Any, x: Any) -> Any:
    scaled = x * (x > 0)
    return scaled if flag is True else -scaled


def hide_a_question(x: Any) -> Any:
    flag = x > 1
    return getattr(sys.modules[__name__], "_".join(["ask", "late"]))(flag, x)


def test_a_question_that_is_found_too_late_has_the_function_itself_run() -> None:
    fast = wg.compile(hide_a_question)

    assert [fast(2.5), fast(0.5)] == [hide_a_question(2.5), hide_a_question(0.5)]
    assert fast.info.fallbacks


def test_a_trace_refuses_a_question_that_is_found_too_late() -> None:
    with pytest.raises(WiregradError, match=r"test_conditions.py:.*`is` True"):
        wg.trace(hide_a_question, 2.5)


def test_a_trace_refuses_a_condition_that_indexes_an_unknown_container() -> None:
    with pytest.raises(WiregradError, match=r"int\(condition\)"):
        wg.trace(lambda x: x * sorted([1.0, 2.0])[x > 1], 2.5)


TABLE = {1.0: 2.0, 2.5: 3.0}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", [1.0, 2.5, 4.0, np.float64(1.0), 0.0, -0.0, math.inf])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * TABLE.get(x, 0.0),
        lambda x: x * TABLE.get(x * 1.0, 0.0),
        lambda x: x * (x in TABLE),
        lambda x: x * ((x + 0.0) in {1.0, 0.0}),
        lambda x: x * TABLE.get(wg.stop_gradient(x), 0.0),
        lambda x: x * len({x, x + 0.0, 1.0}),
        lambda x: x * TABLE.get(abs(x), 0.0),
    ],
)
def test_a_number_is_looked_up_by_what_it_is(f: Callable[..., Any], number: Any, way: str) -> None:
    plain = Outcome(f, number)
    outcome = Outcome(WAYS[way], f, number)

    assert outcome.difference(plain, typed=False) is None


def test_a_compiled_lookup_follows_the_number() -> None:
    fast = wg.compile(lambda x: x * TABLE.get(x, 0.0))

    assert [fast(x) for x in (4.0, 1.0, 2.5, 1.0, 4.0)] == [0.0, 2.0, 7.5, 2.0, 0.0]


@pytest.mark.parametrize("way", WAYS)
def test_an_array_inside_a_transform_cannot_be_looked_up(way: str) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        WAYS[way](lambda v: v * {1.0: 2.0}.get(v, 0.0), np.ones(2))


def test_values_outside_transforms_are_looked_up_as_themselves() -> None:
    a, b = wg.Value(1.0), wg.Value(1.0)
    total = a * b

    assert {a: "a", b: "b"}[b] == "b"
    assert len({a, b, total, a * b}) == 4
    assert {1.0: 2.0}.get(a) is None


def test_parameters_are_found_inside_transforms_too() -> None:
    w = wg.Value(2.0)
    scales = {w: 3.0}
    slope = wg.grad(lambda x: x * scales[w])(5.0)

    assert slope == 3.0


def test_a_graph_of_values_is_walked_by_identity() -> None:
    a = wg.Value(1.0)
    root = (a * 1.0) + (a * 1.0)
    seen: set[Any] = set()
    stack = [root]
    while stack:
        value = stack.pop()
        if isinstance(value, wg.Value) and value not in seen:
            seen.add(value)
            stack.extend(value.inputs)

    assert len(seen) >= 4


def test_a_value_that_left_its_transform_is_no_key() -> None:
    w = wg.Value(2.0)
    slope = wg.grad(lambda x: w * x * x)(3.0)

    with pytest.raises(WiregradError, match="id\\(v\\)"):
        hash(slope)


@pytest.mark.parametrize("kind", [float, np.float64])
def test_an_element_is_a_scalar_and_an_array_is_none(kind: Any) -> None:
    def f(x: Any, v: Any) -> Any:
        return x * np.isscalar(x) + v[0] * np.isscalar(v[0]) + np.sum(v) * np.isscalar(v) + np.isscalar(x > 1)

    args = (kind(2.0), np.array([3.0, 4.0]))

    assert [way(f, *args) for way in WAYS.values()] == [6.0] * len(WAYS)


@pytest.mark.parametrize("number", [2.5, np.float64(2.5)])
def test_comparisons_of_recorded_numbers_give_what_plain_ones_give(number: Any) -> None:
    kinds: list[type] = []

    def f(x: Any) -> Any:
        kinds.extend([type(x > 1), type(x + 1 > 1), type(np.sqrt(x) > 1), type(-x > 1), type(x == True)])  # noqa: E712
        return x

    f(number)
    wg.grad(f)(number)

    assert kinds[:5] == kinds[5:]


def test_traced_conditions_follow_python_in_a_process_that_imported_nothing_else() -> None:
    program = "import wiregrad as wg\nprint(wg.compile(lambda x: x * ((x > 1) + (x > 2)))(2.5))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE)

    assert done.stdout == "5.0\n"


BITWISE: dict[str, Callable[[Any], Any]] = {
    "not": lambda a: ~a,
    "and": lambda a: a & a,
    "or a number": lambda a: a | 1,
    "a number xor": lambda a: 1 ^ a,
    "a mask and": lambda a: np.array([True, False]) & a,
    "or a mask": lambda a: a | np.array([True, False]),
    "shift": lambda a: a << 1,
    "shifted": lambda a: 1 >> a,
}
REAL_VALUES = [2.0, np.float32(2.0), np.array([1.0, 2.0]), np.array([1.0 + 1.0j])]


@pytest.mark.parametrize("name", BITWISE)
@pytest.mark.parametrize("number", REAL_VALUES, ids=repr)
def test_bitwise_operators_refuse_real_numbers_as_numpy_does(name: str, number: Any) -> None:
    f = BITWISE[name]
    with pytest.raises(TypeError):
        f(number)
    with pytest.raises(NoRuleError, match=r"compare a value first \(x > 0\)"):
        f(wg.Value(number))
    with pytest.raises(NoRuleError, match=r"compare a value first \(x > 0\)"):
        wg.trace(lambda x: f(x) * x, number)


def test_bitwise_operators_join_conditions() -> None:
    def f(x: Any) -> Any:
        return np.sum(x[(x > 0.0) & ~(x > 2.0) | (x < -1.0) ^ (x < -3.0)])

    x = np.array([-4.0, -2.0, 1.0, 3.0])

    assert wg.grad(f)(x).tolist() == wg.run(f, x).grads["x"].tolist() == [0.0, 1.0, 1.0, 0.0]


WHOLE_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "the absolute value": lambda x: x * abs(-(x > 1)) * abs((x > 1) - 3),
    "quotient and remainder": lambda x: x * divmod((x > 1) + 6, 4)[1] + divmod(7, (x > 1) + 2)[0],
    "rounding": lambda x: x * round((x > 1) + 1),
    "rounding to tens": lambda x: x * round((x > 1) + 14, -1),
    "a method of int": lambda x: x * ((x > 1) + 2).bit_length(),
    "a float32": lambda x: x * (((x > 1) + 1) * np.float32(2.0)),
    "beside a float32": lambda x: x * (np.float32(2.0) + ((x > 1) + 1)),
    "beside None": lambda x: x if (x > 1) == None else 2.0 * x,  # noqa: E711 - the comparison is what is tested
    "a NumPy number beside None": lambda x: x if np.sin(x) != None else 2.0 * x,  # noqa: E711
    "a list of values": lambda x: [x, 2.0 * x][(x > 1) + 0],
}


@pytest.mark.parametrize("number", [0.5, 2.0])
@pytest.mark.parametrize("use", WHOLE_NUMBERS)
def test_whole_numbers_made_of_conditions_are_those_of_python(use: str, number: float) -> None:
    f = WHOLE_NUMBERS[use]
    compiled = wg.compile(f)

    assert [compiled(number), compiled(number)] == [f(number), f(number)]
    assert wg.grad(f)(number) == pytest.approx((f(number + 0.25) - f(number - 0.25)) / 0.5)


UNSUPPORTED: dict[str, Callable[[Any], Any]] = {
    "addition": lambda x: x if (x > 1) + "a" else 2.0 * x,
    "order": lambda x: x if (x > 1) < "a" else 2.0 * x,
    "bits": lambda x: x if (x > 1) & "a" else 2.0 * x,
}


@pytest.mark.parametrize("wrap", [wg.compile, wg.grad])
@pytest.mark.parametrize("use", UNSUPPORTED)
def test_a_condition_beside_text_raises_the_error_of_python(use: str, wrap: Any) -> None:
    with pytest.raises(TypeError) as wanted:
        UNSUPPORTED[use](2.0)

    with pytest.raises(TypeError) as raised:
        wrap(UNSUPPORTED[use])(2.0)
    assert str(raised.value) == str(wanted.value)


def test_an_attribute_that_a_whole_number_does_not_have_is_named() -> None:
    with pytest.raises(AttributeError, match="'int' object has no attribute 'bitlength'"):
        wg.grad(lambda x: x * ((x > 1) + 2).bitlength())(2.0)
