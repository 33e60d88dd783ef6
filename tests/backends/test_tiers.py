"""The LLVM tier: the same steps on the same buffer, taking over between two calls."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import wiregrad as wg
from wiregrad import settings
from wiregrad.backends.native import jit, tiers
from wiregrad.backends.native.step_kinds import PlainStep
from wiregrad.backends.native.tiers import NativeProgram, build_program, copy_aligned
from wiregrad.ir import parse_text

from ..support.limits import PATIENCE, wait_for_thread
from ..support.random_circuits import random_circuit, random_point

FORMULA = "where(x > 0, sqrt(x) * tanh(y), 0 * y) + maximum(x, y) / (1 + exp(-y)) - relu(y) ** 2"


def run(program: NativeProgram, point: list[float]) -> np.ndarray:
    work = copy_aligned(program.initial)
    lanes = work.reshape(-1, program.real.lanes)
    lanes[: program.inputs] = np.array(point)[:, None]
    jit.run_code(program.entry, work.ctypes.data)
    found = lanes[program.inputs : 2 * program.inputs + program.outputs]
    # The order in which a sum has its operands decides which NaN of two comes out, and LLVM is free to change it.
    return np.where(np.isnan(found), np.nan, found)


@pytest.mark.parametrize("x", [0.0, -0.0, 1.5, -2.0, float("nan"), float("inf")])
def test_the_tier_gives_the_bits_of_the_stencils(x: float) -> None:
    program = build_program(wg.circuit(FORMULA), 0)

    assert run(tiers.recompile_with_llvm(program), [x, 0.7]).tobytes() == run(program, [x, 0.7]).tobytes()


@pytest.mark.parametrize("chunk", [1, 7, 300])
def test_it_does_not_matter_where_functions_are_cut(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "STEPS_PER_FUNCTION", chunk)
    for seed in range(6):
        circuit = random_circuit(np.random.default_rng(seed), nodes=60)
        program = build_program(circuit, 0)
        point = [float(x) for x in random_point(np.random.default_rng(seed), circuit).values()]

        assert run(tiers.recompile_with_llvm(program), point).tobytes() == run(program, point).tobytes()


def test_a_circuit_that_is_called_often_is_promoted_without_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "COMPILE_SECONDS_PER_STEP", 20.0)
    monkeypatch.setattr(tiers, "SAVED_SECONDS_PER_STEP", 1.0)
    compiled = wg.circuit(FORMULA).compile()
    before = compiled.value_and_grad(x=0.5, y=0.7)
    assert compiled.info.tier == "stencils"

    for _ in range(50):
        assert compiled.value_and_grad(x=0.5, y=0.7) == before
    for thread in [t for t in threading.enumerate() if t.name == "wiregrad-tier"]:
        wait_for_thread(thread)

    assert compiled.info.tier == "llvm"
    assert compiled.value_and_grad(x=0.5, y=0.7) == before


def list_registers(text: str) -> set[int]:
    program = build_program(parse_text(text), 0)
    return {register for key in program.stream.keys for register in (*key.reads, *key.writes)}


def test_programs_with_conditions_use_one_register() -> None:
    """Functions with branches are many, and stencils for one register are few."""
    plain = """
    input a, b
    c = multiply a b
    d = subtract a b
    e = multiply c d
    y = add e c
    output y
    """
    branching = plain.replace("y = add e c", "more = greater a b\n    y = where more e c")

    assert list_registers(plain) > {0, 1}
    assert list_registers(branching) == {0, 1}


def test_a_long_program_stays_with_its_stencils(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "MAX_PROMOTED_STEPS", 3)
    monkeypatch.setattr(tiers, "COMPILE_SECONDS_PER_STEP", 1.0)
    monkeypatch.setattr(tiers, "SAVED_SECONDS_PER_STEP", 1.0)
    compiled = wg.circuit(FORMULA).compile()
    for _ in range(5):
        compiled.value_and_grad(x=0.5, y=0.7)

    assert not [t for t in threading.enumerate() if t.name == "wiregrad-tier"]
    assert compiled.info.tier == "stencils"


def test_code_is_freed_with_its_program() -> None:
    improved = tiers.recompile_with_llvm(build_program(wg.circuit("tanh(x) * x"), 0))
    code = weakref.ref(improved.code)
    del improved
    gc.collect()

    assert code() is None


def test_a_program_that_ends_does_not_wait_for_the_tier() -> None:
    text = """
import atexit
import functools
import wiregrad as wg
from wiregrad.backends.native import tiers

tiers.COMPILE_SECONDS_PER_STEP = tiers.SAVED_SECONDS_PER_STEP = 1.0
chain = wg.trace(lambda x: functools.reduce(lambda y, _: (y * x).tanh(), range(4000), x), 0.5).compile()
for _ in range(3):
    chain.value_and_grad([0.5])
# Called when the threads have ended, the one that compiles too.
atexit.register(lambda: print(chain.info.tier))
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300, check=True)

    assert (done.stdout, done.stderr) == ("stencils\n", "")


@pytest.mark.parametrize("lanes", [1, 8])
def test_where_there_are_no_stencils_the_tier_serves_from_the_start(
    lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    circuit = wg.circuit(FORMULA)
    stencils = build_program(circuit, 0, lanes=lanes)
    monkeypatch.setenv(jit.NATIVE_SWITCH, settings.NATIVE_LLVM)
    compiled = build_program(circuit, 0, lanes=lanes)

    assert (stencils.tier, compiled.tier) == ("stencils", "llvm")
    assert circuit.compile().info.tier == "llvm"
    assert run(compiled, [0.5, 0.7]).tobytes() == run(stencils, [0.5, 0.7]).tobytes()


def test_a_nan_that_looks_like_an_absent_gradient_is_none() -> None:
    # Arithmetic quiets it, so this very NaN is never a gradient; a product with the seed must not be left out.
    program = build_program(wg.circuit("relu(y) * x"), 0)
    absent = np.array([0x7FF0_5749_5245_0001]).view(np.float64)[0]

    for either in (program, tiers.recompile_with_llvm(program)):
        assert np.isnan(run(either, [2.0, absent])[1])


FORK_PREFACE = """
import os, sys, threading, time
import wiregrad as wg
from wiregrad.backends.native import jit, tiers

def wait_for(child):
    end = time.monotonic() + 100
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    return "it hangs"
"""
FORKING_WHILE_COMPILING = """
circuit = wg.circuit("tanh(x) * x")
# Modules must not be imported during a fork: that is a limit of Python's own.
tiers.recompile_with_llvm(tiers.build_program(circuit, 0))

def compile_again():
    while not over:
        tiers.recompile_with_llvm(tiers.build_program(circuit, 0))

over = False
threading.Thread(target=compile_again, daemon=True).start()
for _ in range(12):
    time.sleep(0.01)
    child = os.fork()
    if not child:
        tiers.recompile_with_llvm(tiers.build_program(wg.circuit("sin(x) * x"), 0))
        os._exit(0)
    code = wait_for(child)
    if code:
        break
over = True
print(code)
"""
FORKING_WHILE_IMPORTING = """
class SlowFinder:
    def find_spec(self, name, path=None, target=None):
        if name == "llvmlite.binding.module":
            importing.set()
            time.sleep(0.2)

sys.meta_path.insert(0, SlowFinder())
importing = threading.Event()
thread = threading.Thread(target=jit.load_llvm)
thread.start()
assert importing.wait(100)
child = os.fork()
if not child:
    tiers.recompile_with_llvm(tiers.build_program(wg.circuit("sin(x) * x"), 0))
    os._exit(0)
code = wait_for(child)
thread.join(100)
tiers.recompile_with_llvm(tiers.build_program(wg.circuit("sin(x) * x"), 0))
print("the thread hangs" if thread.is_alive() else code)
"""


@pytest.mark.parametrize("program", [FORKING_WHILE_COMPILING, FORKING_WHILE_IMPORTING], ids=["compiles", "imports"])
def test_a_process_that_is_forked_while_a_thread_uses_llvm_can_compile_too(program: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORK_PREFACE + program]
    # With code from a cache, the first process would not load LLVM before it forks.
    environment = os.environ | {settings.CACHE_VARIABLE: settings.CACHE_OFF}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=True)

    assert (done.stdout, done.stderr) == ("0\n", "")


def count_fused_products(text: str, carry: int) -> int:
    program = build_program(parse_text(text))
    groups = tiers.fuse_scaling_products([program.stream.list_steps()], range(carry), program.inputs, zero=99)
    return sum(key == PlainStep("multiply_add") for group in groups for key, _ in group)


needs_fma = pytest.mark.skipif("fma" not in jit.processor_features(), reason="the processor has no fused multiply-add")


@needs_fma
@pytest.mark.parametrize(
    ("text", "products"),
    [
        ("input g, a\nb = multiply g a\nc = multiply b a\noutput c", 2),
        ("input g, a\nb = divide g a\nc = negative b\nd = multiply a c\noutput d", 1),
        ("input g, a\nn = constant 0.0\nt = greater a n\nb = multiply g a\nc = where t b n\noutput c", 1),
        ("input g, a\nb = multiply g g\noutput b", 0),
        ("input g, a\nb = multiply g a\nc = add b a\noutput c", 0),
        ("input g, a\nb = sin g\nc = multiply b a\noutput c", 0),
    ],
)
def test_products_that_only_scale_the_carry_are_fused(text: str, products: int) -> None:
    assert count_fused_products(text, carry=1) == products


@needs_fma
def test_products_with_a_sum_that_is_carried_are_not_fused() -> None:
    text = "input g, s, a\nb = multiply g a\nc = multiply s a\nd = add s b\ne = multiply d a\noutput b, e"

    assert count_fused_products(text, carry=2) == 1


@pytest.mark.parametrize("factor", [0.9, -0.9, 0.5, 0.4, 0.0, -0.0, np.inf])
def test_a_carry_that_becomes_subnormal_has_the_bits_of_products(factor: float) -> None:
    expected = 1.0
    for _ in range(9000):
        expected *= factor

    found = wg.compile(lambda x, w: wg.fori_loop(0, 9000, lambda _, c: c * w, x))(1.0, factor)

    assert float(found).hex() == expected.hex()


def test_a_gradient_that_becomes_subnormal_has_the_bits_of_products() -> None:
    def step(_: int, c: float) -> float:
        return wg.cond(c > 0.5, lambda a: 0.6 * np.sin(a), lambda a: 0.9 * a + 0.1, c)

    gradient = wg.grad(lambda x: wg.fori_loop(0, 9000, step, x))

    assert wg.compile(gradient)(0.3) == gradient(0.3) == 5e-324
