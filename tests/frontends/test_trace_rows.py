"""Traces that the C recorder writes down are those that the Python path writes down, in every detail."""

from __future__ import annotations

import gc
import inspect
import linecache
import random
import threading
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from types import CodeType
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import WiregradError
from wiregrad.frontends.recording import trace as tracing
from wiregrad.frontends.recording import user_code
from wiregrad.frontends.recording.tape import RECORDER
from wiregrad.frontends.recording.trace import run_traced
from wiregrad.ir import TABLE, CircuitGraph
from wiregrad.ops import Elementwise

from ..support.limits import PATIENCE, wait_for_thread

PROGRAM_HEAD = """\
def scale(a, b):
    c = a * b + 1.0
    return np.tanh(c) * 0.5

class Layer:
    def __init__(self, weight):
        self.weight = weight

    def __call__(self, v):
        for j in range(2):
            v = v * self.weight + 0.1 * j
        return np.tanh(v)

def halve(v):
    for q in range(3):
        yield v * q + 1.0
        v = v * 0.5

class Net:
    def __init__(self):
        self.layers = [Layer(0.5), Layer(0.25)]
        self.parts = {"head": Layer(0.75)}
        self.latest = self.layers[0]

    def run(self, v):
        for layer in self.layers:
            self.latest = layer
            v = layer(v) - self.scale(v)
        return self.latest(v) + self.parts["head"](v)

    def scale(self, v):
        return v * 0.125 if v > 0.5 else self.layers[0](v)

def descend(v, depth):
    if depth == 0 or v < -50.0:
        return v * 2.0
    return descend(v * 0.5 + depth, depth - 1) - v

def choose(v, limit=0.25):
    if -limit <= v < limit:
        return v + limit
    return v * limit if v != 1.0 and not v == limit else limit - v

layers = [Layer(0.5), Layer(0.25)]
net = Net()

def f(x, y):
    u = x * y
"""


def write_program(seed: int) -> str:
    """Return the text of a random program of two numbers."""
    rng = random.Random(seed)
    names = ["x", "y", "u"]

    def operand() -> str:
        choices = [rng.choice(names), repr(round(rng.uniform(-2, 2), 2)), str(rng.randint(-3, 3)), "np.float64(1.5)"]
        return rng.choices(choices, [6, 2, 1, 1])[0]

    def expression(depth: int = 0) -> str:
        if depth > 2:
            return rng.choice(names)
        inner = expression(depth + 1)
        forms = [
            f"({inner} {rng.choice('+-*')} {operand()})",
            f"({operand()} {rng.choice('+-*')} {inner})",
            f"({inner} / (2.0 + {inner} * {inner}))",
            f"(-{inner})",
            f"abs({inner})",
            f"np.{rng.choice(['tanh', 'sin', 'cos', 'square'])}({inner})",
            f"np.{rng.choice(['maximum', 'minimum'])}({inner}, {operand()})",
            f"wg.{rng.choice(['sigmoid', 'softplus', 'relu'])}({inner})",
            f"({inner} + 0.0 * x).tanh()",
        ]
        return rng.choices(forms, [6, 3, 1, 1, 1, 2, 1, 1, 1])[0]

    lines = []
    for k in range(rng.randint(3, 8)):
        name = f"v{k}"
        forms = [
            f"{name} = {expression()}",
            f"{name} = {expression()}\nfor k in range(3):\n    {name} = {name} * 0.5 + k\n    {name} = {name} - x",
            f"{name} = x\nfor i, w in enumerate([x, y]):\n    for j in range(2):\n        {name} = {name} + w * i",
            f"{name} = scale({operand()} * x, y)",
            f"{name} = layers[0](layers[1]({operand()} * x))",
            f"{name} = sum([{expression()} * i for i in range(3)])",
            f"{name} = 0.0\nfor item in halve({rng.choice(names)}):\n    {name} = {name} + item",
            f"if {expression()} > {operand()} + 0.0 * x:\n    {name} = {expression()}\nelse:\n    {name} = y * 2",
            f"with wg.group('g{k}'):\n    {name} = {expression()}\n    for s in range(2):\n        {name} *= 0.5",
            f"{name} = {rng.choice(names)}\n{name} += {operand()}\n{name} *= 0.5",
            f"with wg.no_grad():\n    {name} = {expression()}",
            f"a = np.array([x, y, {operand()}])\nb = a * 2.0 + np.arange(3.0)\n{name} = b @ a + b.mean()",
            f"{name} = (lambda z: z * {operand()} + z)({expression()})",
            f"{name} = net.run({expression()})",
            f"{name} = descend({expression()}, {rng.randint(0, 4)})",
            f"{name} = sum(choose(v, limit) for v, limit in [(x, 0.5), ({expression()}, y)])",
            f"{name} = max([choose({expression()}), {operand()}, net.layers[1](x)])",
            f"{name} = x\nwhile {name} < {rng.randint(1, 4)}:\n    {name} = {name} + choose(abs({name})) + 0.5",
            f"def inner(x_1, u=x):\n    return x_1 * u + {rng.choice(names)}\n{name} = inner(inner({expression()}))",
        ]
        lines += rng.choices(forms, [6, *[1] * (len(forms) - 1)])[0].splitlines()
        names.append(name)
    result = rng.choice(
        [f"{names[-1]} + {rng.choice(names)}", f"{{'a': {names[-1]}, 'b': ({rng.choice(names)}, 2.5)}}"]
    )
    return PROGRAM_HEAD + "".join(f"    {line}\n" for line in [*lines, f"return {result}"])


def make_function(text: str, file: str) -> Callable[..., Any]:
    """Return the function `f` of a program, whose lines can be read."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    variables: dict[str, Any] = {"np": np, "wg": wg}
    exec(compile(text, file, "exec"), variables)
    function: Callable[..., Any] = variables["f"]
    return function


def describe(circuit: CircuitGraph) -> dict[str, Any]:
    """Return all that a circuit consists of."""
    columns = circuit.columns
    nodes = range(circuit.size)
    return {
        "text": wg.Circuit(columns).to_json(),
        "types": [str(circuit.type_of(node)) for node in nodes],
        "modes": None if columns.modes is None else columns.modes.tolist(),
        "expressions": [columns.expressions.label_of(node) for node in nodes],
        "library_groups": None if columns.library_groups is None else columns.library_groups.read(),
        "certificates": [repr(certificate) for certificate in columns.certificates],
        "constants": [repr(constant) for constant in columns.constants],
    }


def trace_both_ways(monkeypatch: pytest.MonkeyPatch, f: Callable[..., Any], *args: Any) -> list[dict[str, Any]]:
    """Return what two traces of a function consist of: as it is, and without the C recorder."""
    with np.errstate(all="ignore"):
        quick = describe(tracing.trace(f, *args))
        with monkeypatch.context() as patch:
            patch.setattr(tracing, "_begin_rows", lambda tape, own_block: None)
            slow = describe(tracing.trace(f, *args))
    return [quick, slow]


@pytest.mark.parametrize("seed", range(25))
def test_random_programs_have_the_same_circuit_either_way(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    f = make_function(write_program(seed), f"program{seed}.py")
    y = np.float64(1.2) if seed % 3 == 0 else 1.2
    quick, slow = trace_both_ways(monkeypatch, f, 0.3, y)

    assert quick == slow


@pytest.mark.full
@pytest.mark.parametrize("start", range(100, 2100, 100))
def test_many_random_programs_have_the_same_circuit_either_way(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(start, start + 100):
        f = make_function(write_program(seed), f"program{seed}.py")
        quick, slow = trace_both_ways(monkeypatch, f, 0.3, 1.2)

        assert quick == slow, seed


INLINED_CALLS = {
    "generator": """
def walk(v, y):
    for k in range(3):
        v = v * 0.5
        yield v * y
def f(x, y):
    return sum(v * 2.0 for v in walk(x, y)) + sum(v for k in range(3) for v in walk(y, x))
""",
    "generator of a generator": """
def walk(v, y):
    for k in range(3):
        v = v * 0.5
        yield v * y
def relay(v, y):
    yield v
    yield from walk(v, y)
def f(x, y):
    for v in relay(x, y):
        x = x + v
    return x
""",
    "subscript": """
class Powers:
    def __init__(self, x):
        self.x = x
    def __getitem__(self, k):
        return self.x ** k
def f(x, y):
    powers = Powers(x)
    for k in range(3):
        y = y + powers[k]
    return y
""",
    "property": """
class Half:
    def __init__(self, x):
        self.x = x
    @property
    def value(self):
        return self.x * 0.5
def f(x, y):
    half = Half(x)
    for k in range(3):
        y = y + half.value
    return y
""",
}
"""Calls that Python runs in another way after some of them; then the offset that it says for the caller may differ."""


@pytest.mark.parametrize("recorder", ["quick", "slow"])
@pytest.mark.parametrize("kind", INLINED_CALLS)
def test_a_circuit_does_not_depend_on_how_often_its_function_ran(
    kind: str, recorder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if recorder == "slow":
        monkeypatch.setattr(tracing, "_begin_rows", lambda tape, own_block: None)
    f = make_function(INLINED_CALLS[kind], f"{kind}.py")
    first, *others = [describe(tracing.trace(f, 0.3, 1.2)) for _ in range(12)]

    assert others == [first] * 11


GENERATOR_EXPRESSIONS = {
    "unpacked": "    a, b, c = (x * k + y for k in range(3))\n    return a * b - c",
    "summed in a loop": "    for k in range(3):\n        x = x + sum(y * 0.1 * j + k for j in range(3))\n    return x",
    "run by a for loop": "    for v in (x * k for k in range(3)):\n        y = y + v\n    return y",
    "run by a counting loop": """
    for k, v in enumerate(x * j + y for j in range(4)):
        y = y * k + v
    return y
""",
    "resumed from several lines": """
    g = (x * k - y for k in range(6))
    a = next(g)
    b = next(g) * 2.0
    for k in range(2):
        a = a + next(g)
    return a * b + sum(g)
""",
    "run in a function": """
    def add(values):
        total = 0.0
        for v in values:
            total = total + v * 0.5
        return total
    for k in range(2):
        x = add(y * j + k for j in range(3)) + x
    return x + add(v for v in [x, y])
""",
    "begun here and finished there": """
    def finish(values):
        return sum(values) * 2.0
    g = (x * k + y for k in range(4))
    return next(g) + finish(g)
""",
    "one in another": "    return sum(sum(x * j + k for j in range(2)) * y for k in range(3))",
    "one that reads another": "    g = (x * k for k in range(3))\n    return sum(v + y for v in g)",
    "calls": """
    def half(v):
        return v * 0.5 + y
    return sum(half(half(x * k)) for k in range(3)) + sum((lambda v: v * x)(y) for _ in range(2))
""",
    "calls in a loop": """
    def half(v):
        return v * 0.5
    for k in range(3):
        a, b = (half(v) + k for v in (x, y))
        x = half(a) - b
    return x
""",
    "in a group": """
    with wg.group('outer'):
        a, b = (x * k + y for k in range(2))
    g = (x + k for k in range(2))
    with wg.group('inner'):
        a = a + next(g)
    return a * b + next(g)
""",
    "compared": """
    if all(v < 9.0 for v in (x, y * 2.0)) and any(v * k > 1.0 for k, v in enumerate((x, y))):
        return x
    return y
""",
    "made by a function": """
    def scaled(factor):
        return (factor * v for v in (x, y))
    for k in range(2):
        a, b = scaled(k + 0.5)
        x = a + b
    return x
""",
    "in a method": """
    class Pair:
        def __init__(self, items):
            self.items = items
        def twice(self, v):
            return v * 2.0
        def total(self):
            return sum(self.twice(v) * k for k, v in enumerate(self.items))
    pair = Pair([x, y])
    return pair.total() + sum(pair.twice(v) for v in pair.items)
""",
    "many turns": "    for k in range(60):\n        x = x * 0.5 + sum(y * j for j in range(2))\n    return x",
    "left unfinished": """
    for k in range(3):
        x = x + next(y * j + k for j in range(1, 9))
    return x
""",
}
"""Bodies of functions of x and y."""


@pytest.mark.parametrize("kind", GENERATOR_EXPRESSIONS)
def test_generator_expressions_have_the_same_circuit_either_way(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def f(x, y):\n" + GENERATOR_EXPRESSIONS[kind].lstrip("\n")
    quick, slow = trace_both_ways(monkeypatch, make_function(text, f"expression_{kind}.py"), 0.3, 1.2)

    assert quick == slow


@pytest.mark.parametrize("kind", GENERATOR_EXPRESSIONS)
def test_generator_expressions_on_arrays_have_the_same_circuit_either_way(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = GENERATOR_EXPRESSIONS[kind].lstrip("\n")
    text = f"def inner(x, y):\n{body}\ndef f(m):\n    return inner(m[0] * 2.0, m[1]).sum()"
    if kind == "compared":
        text = text.replace("v < 9.0", "v.sum() < 9.0").replace("v * k > 1.0", "v.sum() * k > 1.0")
    m = np.linspace(0.5, 1.5, 6).reshape(2, 3)
    quick, slow = trace_both_ways(monkeypatch, make_function(text, f"array_expression_{kind}.py"), m)

    assert quick == slow


def make_adder(read: Callable[[], int]) -> Callable[[Any], Any]:
    return lambda total: total + read()


def loop_over_closure(x: float, y: float) -> Any:
    total = x
    for k in range(3):
        total = make_adder(lambda: k)(total * y)  # noqa: B023 - the loop variable is to be a cell
        total = total - 1.0
    return total


def loop_over_large_numbers(x: float, y: float) -> Any:
    for k in (2**70, 2**70 + 1):
        x = x * y + k % 3
        x = x * 0.5
    for n in np.arange(2):
        x = x * y + n
        x = x - y
    return x


def recurse(x: float, y: float, depth: int = 4) -> Any:
    return x if not depth else recurse(x * y + depth, y, depth - 1) * 0.5


def call_a_hundred_times(x: float, y: float) -> Any:
    def step(v: Any) -> Any:
        w = v * 0.9
        return w + y

    for _ in range(100):
        x = step(x)
    return x


class Holder:
    """An object whose parts move while its methods run."""

    def __init__(self) -> None:
        self.first = Scaler(0.5)
        self.second = Scaler(0.25)

    def swap(self, v: Any) -> Any:
        self.first, self.second = self.second, self.first
        return self.first(v) + self.second(v)

    def forward(self, v: Any) -> Any:
        for _ in range(3):
            v = self.swap(v) - self.first(v)
        return v


class Scaler:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, v: Any) -> Any:
        return v * self.factor + 1.0


def move_parts(x: float, y: float) -> Any:
    holder = Holder()
    made = [Scaler(factor)(x) for factor in (0.5, 2.0)]
    return holder.forward(x) * y + holder.swap(made[0] - made[1])


def branch_in_calls(x: float, y: float) -> Any:
    def clip(v: Any, limit: Any) -> Any:
        return limit if v > limit else v

    total = x
    for k in range(5):
        total = clip(total * 1.5, y) if total < k else total - np.float64(0.5)
        while total > 2 and total != y:
            total = total * 0.5
    return total if total >= x else x


def call_in_generators(x: float, y: float) -> Any:
    def walk(v: Any) -> Any:
        for k in range(3):
            v = Scaler(0.5)(v) if v > k * 0.125 else recurse(v, y, 2)
            yield v * y

    return sum(walk(x)) + sum(Scaler(v * 0.1 + 1.0)(v) for v in walk(y) if v < 10.0)


def mix_with_arrays(x: float, y: float) -> Any:
    a = np.stack([np.full(3, 2.0) * x, np.arange(3.0) + y])
    b = np.where(a > 1.0, a, -a).sum(axis=0) @ np.ones((3, 2))
    return np.concatenate([b, b * 2.0, [x]])[1:].max() + a.mean() + 0.0 * x - 0.0


@pytest.mark.parametrize(
    "f",
    [
        loop_over_closure,
        loop_over_large_numbers,
        recurse,
        call_a_hundred_times,
        mix_with_arrays,
        move_parts,
        branch_in_calls,
        call_in_generators,
    ],
)
def test_chosen_programs_have_the_same_circuit_either_way(
    f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, slow = trace_both_ways(monkeypatch, f, 0.3, 1.2)

    assert quick == slow


def swap_names(x: float, y: float) -> Any:
    def step(x_1: Any, y: Any) -> Any:
        x_2 = x_1 * y
        return x_2 + 1.0

    for _ in range(3):
        x = step(x, y) * 0.5
    x_1 = x
    return {"x": x_1, "f": y, "other": [x * 2.0, x_1, 3.0]}


def name_beyond_ascii(x: float, y: float) -> Any:
    for _ in range(3):
        µ = x * y  # noqa: PLC2401 - Python's own spelling of the letter is another one
        x = µ + 1.0
    return µ


@pytest.mark.parametrize("f", [swap_names, name_beyond_ascii, call_a_hundred_times, recurse, move_parts])
def test_outputs_have_the_names_that_they_have_among_all_names(
    f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    foreseen = tracing.trace(f, 0.3, 1.2)
    monkeypatch.setattr(tracing, "MAX_FORESEEN_OUTPUTS", -1)
    named = tracing.trace(f, 0.3, 1.2)

    assert foreseen.columns.labels == named.columns.labels
    assert list(foreseen.columns.names) == list(named.columns.names)


@pytest.mark.parametrize("seed", range(10))
def test_outputs_of_random_programs_have_their_names(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    f = make_function(write_program(seed), f"named_program{seed}.py")
    with np.errstate(all="ignore"):
        foreseen = tracing.trace(f, 0.3, 1.2)
        monkeypatch.setattr(tracing, "MAX_FORESEEN_OUTPUTS", -1)
        named = tracing.trace(f, 0.3, 1.2)

    assert foreseen.columns.labels == named.columns.labels
    assert list(foreseen.columns.names) == list(named.columns.names)


def test_comparisons_with_whole_numbers_that_no_float_equals_are_refused() -> None:
    with pytest.raises(wg.errors.OperandError, match="which no float64 equals"):
        wg.trace(lambda x: x if x > 2**53 + 1 else -x, 1.0)


def test_a_late_test_of_identity_is_still_found() -> None:
    def f(x: float) -> Any:
        for _ in range(3):
            x = x * 0.5 if x > 1.0 else x + 1.0
        return x * eval("lambda v: 1.0 if (v > 0.0) is True else 2.0")(x)

    with pytest.raises(wg.errors.EscapeError, match="tests whether a condition"):
        wg.trace(f, 3.0)


@pytest.mark.parametrize("raises", [False, True])
def test_a_trace_leaves_the_collector_as_it_was(raises: bool) -> None:
    before = gc.get_threshold()
    inside: list[tuple[int, int, int]] = []

    def f(x: float) -> Any:
        inside.append(gc.get_threshold())
        wg.trace(lambda z: z * z, 1.0)
        return x * {}[0] if raises else x * 2.0

    with pytest.raises(KeyError) if raises else nullcontext():
        wg.trace(f, 1.0)

    assert inside[0][0] == before[0]
    assert inside[0] != before
    assert gc.get_threshold() == before


def test_a_trace_lets_go_of_the_objects_whose_methods_ran() -> None:
    seen: list[weakref.ref[Any]] = []

    def f(x: float) -> Any:
        holder = Holder()
        seen.extend([weakref.ref(holder), weakref.ref(holder.first)])
        return holder.forward(x)

    circuit = wg.trace(f, 1.0)
    gc.collect()

    assert [ref() for ref in seen] == [None, None]
    assert all(node.group.startswith("holder/") for node in circuit.nodes)


RECORDED_OPS = [] if RECORDER is None else [name for name in RECORDER.op_names() if name != "split"]


@pytest.mark.parametrize("name", RECORDED_OPS)
def test_traced_numbers_have_the_bits_that_numpy_computes(name: str) -> None:
    op = TABLE[name]
    assert isinstance(op, Elementwise)
    points = [point for point in op.samples if len(point) == len(op.inputs)][:40]
    points += [tuple(-x for x in point) for point in points]
    for point in points:
        with np.errstate(all="ignore"):
            expected = np.float64(op.forward(*map(np.float64, point)))
            traced = run_traced(op, point, {}, named=True)

        assert np.array_equal(np.float64(traced.results[0]._data), expected, equal_nan=True), point
        assert np.signbit(traced.results[0]._data) == np.signbit(expected) or np.isnan(expected), point


def test_small_numbers_raise_where_numpy_is_told_to() -> None:
    def f(x: float) -> Any:
        with np.errstate(under="raise"):
            return np.multiply(x, 1e-300) * np.float64(1e-300)

    with pytest.raises(FloatingPointError, match="underflow"):
        wg.trace(f, 1.0)


def test_a_trace_inside_a_trace_records_on_its_own_tape() -> None:
    inner: list[CircuitGraph] = []

    def f(x: float) -> Any:
        y = x * 2.0
        inner.append(wg.trace(lambda z: z * z + 1.0, 3.0))
        return y * y

    outer = wg.trace(f, 1.5)

    assert [node.op.name for node in inner[0].nodes] == ["multiply", "add"]
    assert [node.op.name for node in outer.nodes] == ["multiply", "multiply"]


def test_a_gradient_inside_a_trace_is_part_of_the_circuit() -> None:
    circuit = wg.trace(lambda x: wg.grad(lambda z: z * z * z)(x) * x, 2.0)

    assert circuit.run(x=3.0).output == 81.0


def test_traces_in_two_threads_do_not_meet() -> None:
    results: dict[int, CircuitGraph] = {}
    barrier = threading.Barrier(2, timeout=PATIENCE)

    def work(number: int) -> None:
        def f(x: float) -> Any:
            for _ in range(300):
                x = x * 0.5 + number
                if _ == 10:
                    barrier.wait()
            return x

        results[number] = wg.trace(f, 1.0)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        wait_for_thread(thread)

    assert [len(results[number].nodes) for number in range(2)] == [600, 600]
    assert results[0].run(x=1.0).output != results[1].run(x=1.0).output


def test_equal_functions_in_two_files_have_their_own_places() -> None:
    text = "def f(x):\n    y = x * 2.0\n    return y + 1.0\n"
    places = []
    for file in ("one.py", "two.py"):
        circuit = wg.trace(make_function(text, file), 1.0)
        places.append([str(node.place) for node in circuit.nodes])

    assert places == [["one.py:2", "one.py:3"], ["two.py:2", "two.py:3"]]


def test_a_trace_lets_go_of_the_frames_it_has_seen() -> None:
    class Model:
        pass

    seen: list[weakref.ref[Model]] = []

    def f(x: float) -> Any:
        model = Model()
        seen.append(weakref.ref(model))
        return x * 2.0

    circuit = wg.trace(f, 1.0)
    gc.collect()

    assert len(circuit.nodes) == 1
    assert seen[0]() is None


def test_a_function_that_raises_ends_the_trace() -> None:
    def f(x: float) -> Any:
        y = x * 2.0
        raise KeyError(y)

    with pytest.raises(KeyError):
        wg.trace(f, 1.0)

    assert wg.grad(lambda x: x * x)(3.0) == 6.0
    assert len(wg.trace(lambda x: x * x + x, 1.0).nodes) == 2


FAR_LINES = f"f(\n{chr(10) * 5000}a + b,{chr(10) * 70}c * d)\nfor x in y:\n    with x:\n        pass\n"
"""Source whose lines are far apart, and some instructions of which have no line."""


def list_codes(source: str) -> list[CodeType]:
    codes = [compile(source, "lines.py", "exec")]
    for code in codes:
        codes += [part for part in code.co_consts if isinstance(part, CodeType)]
    return codes


@pytest.mark.parametrize("versions", [user_code.KNOWN_LINE_TABLES, ()], ids=["in bulk", "one by one"])
@pytest.mark.parametrize(
    "source",
    [FAR_LINES, "", *(inspect.getsource(module) for module in (inspect, random, threading, user_code))],
    ids=["far lines", "empty", "inspect", "random", "threading", "user_code"],
)
def test_instructions_have_the_lines_that_python_reports(
    source: str, versions: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_code, "KNOWN_LINE_TABLES", versions)
    for code in list_codes(source):
        offsets = np.arange(0, len(code.co_code), 2)
        expected = np.ones(len(offsets), int)
        for start, stop, line in code.co_lines():
            expected[start // 2 : stop // 2] = line or 1
        some = offsets[:: max(len(offsets) // 7, 1)].tolist()

        assert user_code.find_lines(code, offsets).tolist() == expected.tolist()
        assert [user_code.place_in_code(code, offset).line for offset in some] == [expected[k // 2] for k in some]


SINGLE = np.linspace(-1.0, 1.0, 4, dtype=np.float32)
IS_EVEN = np.array([True, False, True, False])


def count_in_generators(x: Any, m: Any) -> Any:
    parts = (x[k % 4] * k for k in range(20))
    total = 0.0
    for _ in range(3):
        total = total + next(parts)
    for k in range(2):
        total = total + next(parts) * k
        total = total + sum(row * 2.0 for row in m)
        with wg.group("inside"):
            total = total + next(parts)
    return total


def change_views(x: Any, m: Any) -> Any:
    y = x * 2.0
    part = y[1:3] + 1.0
    part += 1.0
    rows = np.copy(m + 0.0)
    rows[0] = x
    return y * part[0] + rows[0] + rows.sum()


def turn_small_arrays(x: Any, m: Any) -> Any:
    for _ in range(20):
        x = np.stack([x[0] - 0.1 * x[1], x[1] + 0.1 * x[0], x[2] * x[3], x[3]])
    return np.sum(x)


ARRAY_PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "arithmetic": lambda x, m: x + x * 2.0 - x / 3,
    "reflected": lambda x, m: 2.0 - 1 / (3 + x * x),
    "power": lambda x, m: (x * x) ** 3 + 2.0**x,
    "signs": lambda x, m: -x + abs(x) - +x,
    "numpy_numbers": lambda x, m: np.float64(2.0) * x - x * np.float32(0.5) + np.int64(3) * x,
    "literal_array": lambda x, m: x * np.arange(4.0) + np.arange(4) - IS_EVEN,
    "array_without_axes": lambda x, m: x * np.array(2.0) + np.array(3),
    "broadcast": lambda x, m: m * x + x[0] * m + m[:, :1],
    "float32": lambda x, m: x * SINGLE + SINGLE,
    "single_result": lambda x, m: wg.ops.cast(x, dtype="float32") * SINGLE,
    "ufuncs": lambda x, m: np.exp(x) * np.sin(x) + np.tanh(x),
    "kinks": lambda x, m: np.maximum(x, 0.0) + np.minimum(0.5, x) + np.abs(x),
    "conditions": lambda x, m: np.where(x > 0.0, x, 2.0 * x) * (x < 1.0),
    "whole_index": lambda x, m: x[0] * x[-1] * m[2],
    "slices": lambda x, m: x[1:] * x[:-1] + x[::-1][:3] - x[-3:None:1],
    "other_index": lambda x, m: m[1, 2] * m[:, 1] + m[..., 0] + m[[0, 2, 1], [0, 1, 2]][:, None].sum(),
    "numpy_index": lambda x, m: x[np.int64(1)] * x[np.int64(1) :].sum(),
    "views": lambda x, m: m.T.reshape(12) * np.ravel(m),
    "reductions": lambda x, m: np.sum(x) * np.max(m, axis=0) + m.mean(),
    "products": lambda x, m: m @ x + m @ m.T @ m[:, 0],
    "joined": lambda x, m: np.stack([x, x * 2.0, m[0]]) + np.concatenate([m[:1], m[1:]]),
    "numbers": lambda x, m: np.stack([x[0] * x[1], x[2], x[3] - 1.0]) * x[0],
    "complex": lambda x, m: (x * 1j + np.exp(1j * x)).real,
    "complex_kinks": lambda x, m: np.abs(x * (1.0 + 2j)),
    "empty": lambda x, m: np.sum(x[4:] * 2.0) + x[:0].sum(),
    "large_whole_number": lambda x, m: x * 2**60,
    "not_finite": lambda x, m: x * np.inf + np.nan * x,
    "many_operands": lambda x, m: np.concatenate([x[k % 4 : k % 4 + 1] for k in range(40)]),
    "count_in_generators": count_in_generators,
    "change_views": change_views,
    "turn_small_arrays": turn_small_arrays,
}


@pytest.mark.parametrize("name", ARRAY_PROGRAMS)
def test_programs_on_arrays_have_the_same_circuit_either_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([0.5, -1.25, 2.0, 0.0])
    m = np.linspace(-1.0, 2.0, 12).reshape(3, 4)
    quick, slow = trace_both_ways(monkeypatch, ARRAY_PROGRAMS[name], x, m)

    assert quick == slow


def write_array_program(seed: int) -> str:
    """Return the text of a random function of a vector and a matrix."""
    rng = random.Random(seed)
    lines = ["def f(x, m):", "    v, w = x, m[0] * 2.0"]
    choices = (
        "v = v * w + {c}",
        "w = w - {k} * v",
        "v = np.tanh(v) / (2 + w * w)",
        "w = np.stack([v[{i}], w[{j}] * {c}, v[-1], w[0]])",
        "v = np.concatenate([v[:{i}], w[{i}:]])",
        "w = w[::-1] * v.sum()",
        "v = v + sum(row * {c} for row in m)",
        "w = np.maximum(w, {c}) * np.arange(4.0)",
        "v = np.where(v > {c}, v, w)",
        "w = m[{i} % 3] + v[{j}] * w",
        "v = (m @ v).sum() * w",
    )
    for _ in range(rng.randint(3, 12)):
        line = rng.choice(choices).format(
            c=rng.choice([0.5, -0.0, 0.25, 1]), k=rng.randint(0, 3), i=rng.randint(0, 3), j=rng.randint(0, 3)
        )
        loop = rng.random() < 0.3
        lines += [f"    for k in range({rng.randint(1, 3)}):", f"        {line}"] if loop else [f"    {line}"]
    return "\n".join([*lines, "    return np.sum(v * w)"])


def compare_array_programs(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([0.5, -0.25, 0.75, 0.0])
    m = np.linspace(-0.5, 0.5, 12).reshape(3, 4)
    for seed in seeds:
        f = make_function(write_array_program(seed), f"array_program{seed}.py")
        quick, slow = trace_both_ways(monkeypatch, f, x, m)

        assert quick == slow, seed


def test_random_programs_on_arrays_have_the_same_circuit_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    compare_array_programs(range(20), monkeypatch)


@pytest.mark.full
@pytest.mark.parametrize("start", range(100, 2100, 100))
def test_many_random_programs_on_arrays_have_the_same_circuit(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_array_programs(range(start, start + 100), monkeypatch)


@pytest.mark.parametrize(
    "f",
    [lambda x: x * np.ones(3), lambda x: x[7], lambda x: x[1.5], lambda x: x["a"], lambda x: x @ np.ones((3, 3))],
    ids=["shapes", "range", "float", "text", "product"],
)
def test_errors_of_traced_arrays_are_the_usual_ones(f: Callable[..., Any]) -> None:
    with pytest.raises(WiregradError) as traced:
        tracing.trace(f, np.ones(4))
    with pytest.raises(WiregradError) as plain:
        wg.grad(lambda x: np.sum(f(x)))(np.ones(4))

    assert type(traced.value) is type(plain.value)


def test_arrays_of_a_trace_cannot_be_written() -> None:
    arrays: list[Any] = []

    def f(x: Any) -> Any:
        arrays.extend([x * 2.0, x[1:]])
        return np.sum(x)

    tracing.trace(f, np.ones(4))

    assert not any(value.data.flags.writeable for value in arrays)


def test_literal_arrays_of_a_trace_are_copies() -> None:
    factor = np.ones(4)

    def f(x: Any) -> Any:
        y = x * factor
        factor[0] = 100.0
        return y

    circuit = tracing.trace(f, np.ones(4))

    assert np.array_equal(circuit.columns.constants[0], np.ones(4))


def test_a_convention_applies_to_traced_arrays() -> None:
    def f(x: Any) -> Any:
        with wg.convention("jax"):
            return np.sum(np.abs(x))

    circuit = wg.trace(f, np.zeros(3))

    assert circuit.run(x=np.zeros(3)).grads["x"].tolist() == [1.0, 1.0, 1.0]
