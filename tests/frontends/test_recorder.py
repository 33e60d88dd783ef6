"""The recorder in C: the same results as the recorder in Python, to the last bit, and no memory lost or misused.

These tests compare both recorders, so they are not among those that are run a second time on the Python recorder.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import os
import random
import runpy
import signal
import struct
import subprocess
import sys
import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.frontends.recording.scalar import NUMPY_FLAVOUR, SCALAR_OPS, generate_scalar_function
from wiregrad.frontends.recording.session import RecordingSession
from wiregrad.frontends.recording.tape import RECORDER, ROW_FORMAT, choose_recorder
from wiregrad.frontends.recording.tape import RECORDER_CHOICE as CHOICE
from wiregrad.frontends.recording.value import NumpyScalar, Scalar
from wiregrad.ops import Elementwise
from wiregrad.settings import RECORDER_C, RECORDER_PYTHON, RECORDER_VARIABLE

from ..support.limits import PATIENCE
from ..support.memory import measure_traced_growth
from ..support.recorder_programs import BINARY, ODD_NUMBERS, UNARY
from ..support.sampling import choose_count

ROOT = Path(__file__).parents[2]
BLOCK = 250
SAMPLE = 1
FULL = [pytest.param(k * BLOCK, marks=pytest.mark.full) for k in range(SAMPLE, 40)]
IN_C = [op for op in SCALAR_OPS if isinstance(op, Elementwise) and op.name in (*UNARY, *BINARY)]
POINTS = [
    *ODD_NUMBERS,
    *random.Random(0).choices(range(-4, 5), k=6),
    *(random.Random(1).gauss(0, 2) for _ in range(choose_count(10, 40))),
]


def run_recorder(code: str, recorder: str, *args: str, **environment: str) -> str:
    """Run code in a new process on one of the recorders; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *args],
        cwd=ROOT,
        env=os.environ | {RECORDER_VARIABLE: recorder} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_the_op_bodies_are_those_of_the_op_table() -> None:
    writer = runpy.run_path(str(ROOT / "tools" / "write_recorder.py"))

    assert writer["TARGET"].read_text(encoding="utf-8") == writer["write_op_bodies"](), "run make derive"


def test_the_extension_was_built_from_these_sources() -> None:
    builder = runpy.run_path(str(ROOT / "hatch_build.py"))
    extension = run_recorder("import wiregrad._recorder as r; print(r.FINGERPRINT)", RECORDER_C).strip()

    assert extension == builder["fingerprint_sources"](), "run make .venv/.test"


def test_every_op_of_scalars_has_a_body_in_c() -> None:
    names = run_recorder("import wiregrad._recorder as r; print(*r.op_names())", RECORDER_C).split()

    assert sorted(names) == sorted([*UNARY, *BINARY])


PROGRAMS = "import runpy; runpy.run_module('tests.support.recorder_programs', run_name='__main__')"


@pytest.mark.parametrize("first", [*(k * BLOCK for k in range(SAMPLE)), *FULL])
def test_both_recorders_give_the_same_bits(first: int) -> None:
    here, there = (run_recorder(PROGRAMS, kind, str(first), str(BLOCK)) for kind in (RECORDER_C, RECORDER_PYTHON))
    programs = zip(here.split("program "), there.split("program "), strict=True)

    assert [one for one, two in programs if one != two] == []


def row_of(value: Any) -> tuple[Any, ...]:
    """Return the packed row of a value."""
    return plain_row(ROW_FORMAT.unpack_from(value._tape.buffer, value._index))


def outcome_of(function: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    """Return what an op gives for operands: its row, or the number and op of a node that has none."""
    result = function(*operands)
    if not isinstance(result, Scalar) or result._tape is None:
        return type(result), repr(result)
    if result._index in result._tape.extras:
        return type(result), repr(result._data), result.op
    return type(result), row_of(result)


@pytest.mark.parametrize("op", IN_C, ids=lambda op: op.name)
def test_an_op_computes_the_same_row_in_c_and_in_python(op: Elementwise) -> None:
    assert RECORDER is not None, CHOICE.reason
    in_python = generate_scalar_function(op, flavour=NUMPY_FLAVOUR)
    reflected = generate_scalar_function(op, flavour=NUMPY_FLAVOUR, reflected=len(op.inputs) == 2)
    assert in_python is not None
    assert reflected is not None
    cases: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
    for a in POINTS if len(op.inputs) == 1 else []:
        cases.append((in_python, (wg.Value(float(a)) * 1.0,)))
    for a, b in itertools.product(POINTS, POINTS) if len(op.inputs) == 2 else []:
        one = wg.Value(float(a))
        cases += [
            (in_python, (one * 1.0, one * 0.0 + b)),
            (in_python, (one * 1.0, b)),
            (lambda x, y: reflected(y, x), (b, one * 1.0)),
        ]
    with np.errstate(all="ignore"):
        differing = [
            (operands, in_c, expected)
            for function, operands in cases
            if (in_c := outcome_of(SCALAR_OPS[op], operands)) != (expected := outcome_of(function, operands))
        ]

    assert differing == []


def test_scalars_have_the_methods_and_names_of_the_python_recorder() -> None:
    code = (
        "import inspect, wiregrad as wg\n"
        "v = wg.Value(2.0)\n"
        "print(type(v), type(v * v).__name__, type(v).__module__, v.tanh.__name__, wg.Value.tanh.__name__)\n"
        "print(sorted(dir(type(v))), v.tanh.__doc__, inspect.signature(v.tanh))"
    )

    assert run_recorder(code, RECORDER_C) == run_recorder(code, RECORDER_PYTHON)


@pytest.mark.parametrize(
    ("setting", "module", "error"),
    [("", None, None), (RECORDER_C, None, "cannot be loaded"), ("bogus", None, "must be one of python, c")],
)
def test_without_the_extension_the_python_recorder_serves(
    setting: str, module: Any, error: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wiregrad._recorder", None)
    monkeypatch.setenv(RECORDER_VARIABLE, setting)
    choice = choose_recorder()

    assert choice.module is module
    assert (choice.error is None) if error is None else (error in str(choice.error))


def test_a_recorder_that_there_is_not_is_refused_when_something_is_recorded() -> None:
    code = (
        "import sys; sys.modules['wiregrad._recorder'] = None\n"
        "import wiregrad as wg\n"
        "try: wg.Value(1.0) + 1.0\n"
        "except wg.errors.SettingError as error: print(error)"
    )

    assert "WIREGRAD_RECORDER=c, but the C recorder cannot be loaded" in run_recorder(code, RECORDER_C)


def make_chain(size: int) -> tuple[list[Any], Any]:
    """Return leaves and the last value of a chain of `size` nodes."""
    x, w, b = (wg.Value(number) for number in (0.5, 0.9, 0.1))
    y = x
    for _ in range(size // 3):
        y = (y * w + b).tanh()
    return [x, w, b], y


@pytest.mark.parametrize("size", [100_000, pytest.param(1_000_000, marks=pytest.mark.full)])
def test_a_long_chain_is_recorded_swept_and_freed_in_little_memory(size: int) -> None:
    assert RECORDER is not None, CHOICE.reason
    make_chain(300)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    leaves, y = make_chain(size)
    y.backward()
    held, peak = (number - before for number in tracemalloc.get_traced_memory())
    gradients = [leaf.grad for leaf in leaves]
    del leaves, y
    left = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()

    assert all(isinstance(gradient, float) for gradient in gradients)
    assert held < 64 * size
    assert peak < 2 * held
    assert left < 100_000


@pytest.mark.parametrize("seed", range(20))
def test_values_die_with_their_last_reference_in_any_order(seed: int) -> None:
    rng = random.Random(seed)
    gc.disable()
    try:
        pool = [wg.Value(rng.gauss(0, 1)) for _ in range(3)]
        for _ in range(50):
            pool.append(rng.choice(pool) * rng.choice(pool) + 1.0)
        pool[-1].backward()
        references = [weakref.ref(value) for value in pool]
        tape = weakref.ref(pool[-1]._tape)
        rng.shuffle(pool)
        while pool:
            pool.pop()
        alive = [reference for reference in references if reference() is not None]
        tape_lives = tape() is not None
    finally:
        gc.enable()

    assert alive == []
    assert not tape_lives


def make_cycle() -> weakref.ref[Any]:
    """Return a reference to a value whose hook refers to it."""
    held: list[Any] = []
    y = wg.Value(2.0) * 3.0
    held.append(y)
    y.register_hook(held.append)
    return weakref.ref(y)


def test_a_cycle_through_a_hook_is_collected() -> None:
    reference = make_cycle()
    gc.collect()

    assert reference() is None


def test_the_memory_of_values_is_given_back_by_a_full_collection() -> None:
    assert RECORDER is not None, CHOICE.reason
    x = wg.Value(0.5)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    values = [x * 1.0 for _ in range(30_000)]
    held = tracemalloc.get_traced_memory()[0] - before
    del values
    gc.collect()
    left = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()

    assert held > 30_000 * 64
    assert left < held / 4


def test_the_memory_of_dead_values_is_used_again_beside_living_ones() -> None:
    x = wg.Value(0.5)
    values = [x * float(k) for k in range(30_000)]
    kept = values[::1_000]
    del values
    again = [x * float(-k) for k in range(60_000)]

    assert [value.data for value in kept] == [500.0 * k for k in range(30)]
    assert [value.data for value in again] == [-0.5 * k for k in range(60_000)]


HIDES_VALUES = sys.version_info < (3, 14)
"""Whether the collector does not know values until a full collection; later versions have none of their own accord."""


def test_every_value_is_shown_to_a_full_collection() -> None:
    assert RECORDER is not None, CHOICE.reason
    x = wg.Value(0.5)
    values = [x * 1.0 for _ in range(10_000)]
    del values[::3]
    hidden = [value for value in values if not gc.is_tracked(value)]
    gc.collect()

    assert len(hidden) == (len(values) if HIDES_VALUES else 0)
    assert all(map(gc.is_tracked, values))
    assert sum(gc.is_tracked(x * 1.0) for _ in range(100)) == (0 if HIDES_VALUES else 100)


@pytest.mark.parametrize("kind", [NumpyScalar, Scalar])
def test_a_value_may_be_given_the_class_of_the_other_numbers(kind: type[Scalar]) -> None:
    before = sys.getrefcount(kind)
    for _ in range(1_000):
        value: Any = wg.Value(1.5) * 2.0
        value.__class__ = kind
        assert type(value * value) is kind
    del value
    gc.collect()

    assert abs(sys.getrefcount(kind) - before) <= 1_000


def test_a_value_is_not_given_a_class_that_is_freed_in_another_way() -> None:
    assert RECORDER is not None, CHOICE.reason

    class Mine(Scalar):
        __slots__ = ()

    value: Any = wg.Value(1.0) * 2.0
    with pytest.raises(TypeError, match=r"deallocator|layout"):
        value.__class__ = Mine


LEAVES = """
import numpy as np, wiregrad as wg
for make in (
    lambda: wg.Value(2.0), lambda: wg.Value(2), lambda: wg.Value(np.float64(2.0)), lambda: wg.Value(2.0, "a"),
    lambda: wg.Value(data=2.0), lambda: wg.Value(2.0, label="b"), lambda: wg.Value(), lambda: wg.Value("text"),
    lambda: wg.Value(2.0, color=3), lambda: wg.Value([1.0, 2.0]), lambda: wg.Value(True),
):
    try:
        v = make()
        print(type(v).__name__, v, v.name, v.grad, v.data, v.op, v.inputs, v._index, v._tape, v._notes.born)
        y = (v * v).sum() if v.shape else v * v
        y.backward()
        print(y, v.grad, type(v.grad).__name__)
        v.data = v.data * 0.5
        (v * 3.0 + v).sum().backward() if v.shape else (v * 3.0 + v).backward()
        print(v.grad, v.data, type(v.data).__name__)
        v.grad = None
        v.zero_grad()
        print(v.grad)
        texts = "v.data = 'text'", "v.data = np.ones(7)", "y.grad = 1.0", "y.data = 1.0", "del v.data", "del v.grad"
        for action in texts:
            try: exec(action)
            except Exception as error: print(type(error).__name__, error)
        print(wg.grad(lambda x: x * v.item() * wg.Value(x.data).data)(3.0) if not v.shape else "")
    except Exception as error: print(type(error).__name__, error)
"""


def test_leaves_of_both_recorders_are_the_same() -> None:
    assert run_recorder(LEAVES, RECORDER_C) == run_recorder(LEAVES, RECORDER_PYTHON)


TAPES = """
import gc, threading, wiregrad as wg
names = {}
def name(value):
    tape = value._tape
    return names.setdefault(tape.serial, len(names)), value._index
x, w = wg.Value(0.5), wg.Value(0.25)
def steps():
    a = x * w; yield a
    b = w + 1.0; yield b
    other = wg.Value(3.0); yield other * other
    a.backward(); yield x * w
    c = other.tanh(); yield c
    yield c * x
    wg.grad(lambda t: t * 2.0)(1.0); yield other * 2.0
    with wg.no_grad(): x * w
    yield wg.Value(1.0) * wg.Value(2.0)
    x.data = 0.75; yield x * x
    constant = x.detach(); yield constant * w
    del a, b, c; yield x * wg.Value(1.0)
kept = []
for value in steps():
    kept.append(value); print(name(value))
found = []
def in_thread():
    for value in steps():
        kept.append(value); found.append(name(value))
# One thread: the system may give a second one the identifier of the first, or not.
thread = threading.Thread(target=in_thread); thread.start(); thread.join()
one, two = steps(), steps()
for first, second in zip(one, two):
    print(name(first), name(second))
print(found, name(x * w))
"""


def test_both_recorders_use_the_same_tapes() -> None:
    assert run_recorder(TAPES, RECORDER_C) == run_recorder(TAPES, RECORDER_PYTHON)


def test_a_hook_that_a_signal_registers_during_a_sweep_leaves_the_gradient_right() -> None:
    x = wg.Value(0.5)
    y = x
    for _ in range(300_000):
        y = y * 1.0
    fired: list[object] = []
    seen: list[float] = []

    def register(*_: object) -> None:
        fired.append(None)
        x.register_hook(seen.append)

    old = signal.signal(signal.SIGVTALRM, register)
    try:
        for k in range(1, 4):
            # In processor time: the signal comes during the sweep, or soon after it.
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0005 * k)
            y.backward()
            while len(fired) < k:
                pass
    finally:
        signal.signal(signal.SIGVTALRM, old)

    assert x.grad == 3.0
    assert set(seen) == {1.0}


def use_many_ways(value: Any) -> None:
    """Use a scalar in ways that take every path of the recorder, errors included."""
    leaf = wg.Value(1.5)
    y = (value * leaf + 2.0) / (1.0 + leaf * leaf)
    y = (y - 3 + np.float64(2.0)).tanh().exp() ** 2
    assert y > -1.0
    z = (y / 0.0, wg.maximum(y, leaf), np.hypot(y, leaf), -y % 3.0, y * np.ones(2))
    for bad in ("text", None, 10**400):
        with pytest.raises((TypeError, ValueError, ArithmeticError)):
            _ = y * bad
    with wg.no_grad():
        _ = y * leaf
    z[1].backward()
    assert leaf.grad is not None


@pytest.mark.parametrize("rounds", [100, pytest.param(50_000, marks=pytest.mark.full)])
def test_no_memory_is_lost_on_any_path(rounds: int) -> None:
    start = wg.Value(0.5)

    def use_often() -> None:
        for _ in range(rounds):
            use_many_ways(start * 1.0)
        gc.collect()

    assert measure_traced_growth(use_often) < min(100 * rounds, 200_000)


def test_an_interrupt_leaves_a_recording_that_goes_on() -> None:
    x = wg.Value(0.5)
    gradients = set()

    class InterruptError(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise InterruptError

    def record_without_end() -> None:
        y = x
        while True:
            y = (y * x + 1.0).tanh()
            if y._index > 3_000_000:
                y.backward()
                y = x

    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        for k in range(30):
            signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.0003 * k)
            # A call, because Python 3.14 leaves the jump at the end of a loop out of the `try` around the loop.
            with contextlib.suppress(InterruptError):
                record_without_end()
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            x.grad = None
            (x * x * 3.0).backward()
            gradients.add(x.grad)
    finally:
        signal.signal(signal.SIGALRM, old)

    assert gradients == {3.0}


def test_the_fields_of_a_scalar_are_checked() -> None:
    assert RECORDER is not None, CHOICE.reason
    value: Any = wg.Value(1.0) * 2.0
    for name, wrong in [("_data", "text"), ("_data", np.ones(2)), ("_index", "text"), ("_index", 1 << 80)]:
        with pytest.raises((TypeError, OverflowError)):
            setattr(value, name, wrong)

    assert value._data is value._data
    assert value._data == 2.0


def test_a_class_of_users_may_derive_from_scalars() -> None:
    class Mine(Scalar):
        __slots__ = ("extra",)

    mine: Any = object.__new__(Mine)
    mine._data = 2.0
    mine._tape = None
    mine._index = 0
    mine.extra = [mine]
    reference = weakref.ref(mine)
    del mine
    gc.collect()

    assert reference() is None
    assert issubclass(NumpyScalar, Scalar)


def test_a_gradient_list_acts_as_a_list_of_gradients() -> None:
    assert RECORDER is not None, CHOICE.reason
    gradients = RECORDER.GradientList(4)
    array = np.ones(2)
    gradients[0] = 1.5
    gradients[1] = array
    gradients[2] = array
    gradients[2] = None

    assert [*gradients] == [1.5, array, None, None]
    assert gradients[1] is array
    assert len(gradients) == 4
    with pytest.raises(IndexError):
        gradients[4] = 1.0
    with pytest.raises(IndexError):
        _ = gradients[4]


UNDER_SANITIZERS = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("wiregrad._recorder", sys.argv.pop(1))
module = importlib.util.module_from_spec(spec)
sys.modules["wiregrad._recorder"] = module
spec.loader.exec_module(module)
import runpy
runpy.run_module("tests.support.recorder_programs", run_name="__main__")
"""


SANITIZERS = ("-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.mark.full
@pytest.mark.parametrize("options", [(), ("-DHIDES_SCALARS=0",)], ids=["as it is built", "as for Python 3.14"])
def test_the_sanitizers_find_nothing(options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = runpy.run_path(str(ROOT / "hatch_build.py"))
    monkeypatch.setenv(builder["STRICT_VARIABLE"], "1")
    extension = builder["compile_recorder"](tmp_path, (*SANITIZERS, *options))
    libraries = [
        subprocess.run(
            ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True, timeout=PATIENCE
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    environment = {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1",
        "PYTHONMALLOC": "malloc",
    }
    checked = run_recorder(UNDER_SANITIZERS, RECORDER_C, str(extension), "0", "2000", **environment)

    assert checked == run_recorder(PROGRAMS, RECORDER_PYTHON, "0", "2000")


IN_ANOTHER_INTERPRETER = """
import wiregrad as wg, wiregrad._recorder as recorder
try: import _interpreters as interpreters
except ImportError: import _xxsubinterpreters as interpreters
code = '''
import importlib.util
spec = importlib.util.spec_from_file_location("wiregrad._recorder", {path!r})
try: spec.loader.exec_module(importlib.util.module_from_spec(spec))
except ImportError as error: print("refused", flush=True)
else: print("loaded", flush=True)
'''
for _ in range(2):
    other = interpreters.create()
    interpreters.run_string(other, code.format(path=recorder.__file__))
    interpreters.destroy(other)
    print(wg.grad(lambda x: x * x * x)(2.0), flush=True)
"""


def test_another_interpreter_of_the_process_does_not_get_the_recorder() -> None:
    assert run_recorder(IN_ANOTHER_INTERPRETER, RECORDER_C).split() == ["refused", "12.0"] * 2


class NestedSweeps:
    """Runs nested derivatives with and without the recorded sweeps in C, and collects what they record."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.tapes: list[list[Any]] = []
        for name in ("_pull_values", "push_tangents"):
            self._collect_after(name)

    def _collect_after(self, name: str) -> None:
        sweep = getattr(RecordingSession, name)

        def sweep_and_collect(session: RecordingSession, *args: Any) -> Any:
            result = sweep(session, *args)
            self.tapes.append([plain_row(row) for row in ROW_FORMAT.iter_unpack(bytes(session.tape.buffer))])
            return result

        self.monkeypatch.setattr(RecordingSession, name, sweep_and_collect)

    def run_both(self, derivative: Callable[[float], Any], x: float) -> list[Any]:
        """Return the results and the rows, of the C recorder's sweeps and of Python's."""
        found = []
        for in_c in (True, False):
            self.tapes = []
            with self.monkeypatch.context() as patch, np.errstate(all="ignore"):
                if not in_c:
                    patch.setattr(RecordingSession, "_find_rows", lambda session, stop: None)
                result = derivative(x)
            found.append((repr(result).replace("-nan", "nan"), self.tapes))
        return found


def plain_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a packed row with NaN as text: its sign is not promised."""
    return tuple("nan" if math.isnan(number) else struct.pack("<d", number) for number in row[:3]) + row[3:]


SWEPT_POINTS = [pytest.param(ODD_NUMBERS, marks=pytest.mark.full, id="odd"), pytest.param([0.3, -0.7], id="usual")]


def functions_of(op: Elementwise) -> list[Callable[[Any], Any]]:
    """Return functions of one number that apply an op: to recorded numbers, and to a number beside a literal."""
    if len(op.inputs) == 1:
        return [lambda v: op(v * 1.5) * v]
    return [
        lambda v: op(v * 1.5, v) * v,
        lambda v: op(v * 1.5, 0.7) * v,
        lambda v: op(0.7, v * 1.5) * v,
        lambda v: op(v, 0.0),
        lambda v: op(v, -1.0),
    ]


@pytest.mark.parametrize("points", SWEPT_POINTS)
@pytest.mark.parametrize("op", IN_C, ids=lambda op: op.name)
def test_a_nested_sweep_in_c_records_the_rows_that_python_records(
    monkeypatch: pytest.MonkeyPatch, op: Elementwise, points: list[float]
) -> None:
    sweeps = NestedSweeps(monkeypatch)
    nested: list[Callable[[Any], Callable[[float], Any]]] = [
        lambda f: wg.grad(wg.grad(f)),
        lambda f: wg.grad(lambda x: wg.jvp(f, (x,), (1.0,))[1]),
    ]
    for f, nest, x in itertools.product(functions_of(op), nested, map(float, points)):
        in_c, in_python = sweeps.run_both(nest(f), x)

        assert in_c == in_python, (op.name, x)


def third_order_program(x: Any, y: Any) -> Any:
    """Return a number that depends on two others through ops with and without kinks."""
    z = (x * y + 0.5).tanh() / (y * y + 1.0) - wg.maximum(x, y * 0.5) ** 3
    for k in range(3):
        z = z * np.sin(x) + wg.relu(z - 0.1 * k) + abs(z) * np.exp(y)
    return z


@pytest.mark.parametrize(
    "derivative",
    [
        lambda x: wg.grad(wg.grad(wg.grad(third_order_program, 0), 1), 0)(x, 0.4),
        lambda x: wg.hessian(lambda p: third_order_program(*p))((x, 0.4)),
        lambda x: wg.hvp(lambda p: third_order_program(*p), [x, 0.4], [1.0, -2.0]),
        lambda x: wg.jvp(lambda t: wg.jvp(lambda s: third_order_program(s, t), (x,), (1.0,))[1], (0.4,), (1.0,)),
        lambda x: wg.grad(lambda t: t * wg.grad(lambda s: third_order_program(s, t) * s)(x))(0.4),
        lambda x: wg.vjp(wg.grad(lambda s: third_order_program(s, 0.4)), x)[1](2.0),
    ],
    ids=["third order", "hessian", "hvp", "jvp of jvp", "two variables", "vjp of grad"],
)
@pytest.mark.parametrize("x", [0.7, -1.1, 0.0, 0.2])
def test_nested_derivatives_are_the_same_in_c_and_in_python(
    monkeypatch: pytest.MonkeyPatch, derivative: Callable[[float], Any], x: float
) -> None:
    in_c, in_python = NestedSweeps(monkeypatch).run_both(derivative, x)

    assert in_c == in_python


def test_a_nested_sweep_runs_hooks_and_sees_values_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    outside = wg.Value(2.0)
    seen: list[Any] = []

    def inner(x: Any) -> Any:
        y = x * x * outside
        y.register_hook(lambda g: g * 3.0)
        y.register_hook(seen.append)
        return y * x

    in_c, in_python = NestedSweeps(monkeypatch).run_both(wg.grad(wg.grad(inner)), 0.5)

    assert in_c == in_python
    assert len(seen) == 4


def test_a_nested_sweep_leaves_no_memory_behind() -> None:
    def f(x: Any) -> Any:
        for _ in range(5):
            x = (x * 1.1).tanh() + wg.relu(x) / 3.0
        return x

    second = wg.grad(wg.grad(f))

    def differentiate_often() -> None:
        for _ in range(50):
            second(0.3)
        gc.collect()

    assert measure_traced_growth(differentiate_often) < 50_000
