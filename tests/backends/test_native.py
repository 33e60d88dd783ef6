"""Facts about native code: what is planned, where values live, what memory allows, and what is refused."""

from __future__ import annotations

import gc
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

import wiregrad as wg
from wiregrad.api import Builder, Circuit
from wiregrad.backends.native import batch, jit, program_steps, tiers
from wiregrad.backends.native.program_steps import find_node_kinds, make_backward_tables
from wiregrad.backends.native.step_kinds import (
    ADD_GRADIENT,
    FIRST_GRADIENT_HOLE,
    MAX_PACK_LANES,
    MERGE_GRADIENT,
    OUTPUT_HOLE,
    STORE_GRADIENT,
    UPSTREAM_HOLE,
    WITHIN_STEP_REGISTER,
    BackwardStep,
    NodeKind,
    PackStep,
    PlainStep,
    SavedCall,
    StencilKey,
    calls_function,
    lower_backward,
    lower_forward,
)
from wiregrad.backends.native.tiers import NativeProgram, build_program
from wiregrad.cli.bench.race import mechanics_workloads, random_workload
from wiregrad.dtypes import WireType
from wiregrad.errors import CircuitError, NotNativeError, OutputError
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph
from wiregrad.ir.columns import DeferredLabels, NodeLabels
from wiregrad.ir.op import Pattern
from wiregrad.ops.array_ops import Elementwise

from ..support.cases import random_case, several_outputs, with_outputs
from ..support.limits import PATIENCE
from ..support.memory import measure_least_growth, read_resident_bytes
from ..support.native import at_points, by_batch, by_stencils
from ..support.sampling import choose_count

FORMULAS = ["where(x > 0, sqrt(x), 0) * y + x", "relu(x * y) + relu(x) * maximum(x, y)", "x ** 2 + 2 ** x"]


def circuits() -> Iterator[tuple[Circuit, int]]:
    """Return circuits of all sorts, each with the output to go back from."""
    yield from ((wg.circuit(formula), 0) for formula in FORMULAS)
    for seed in range(choose_count(8, 60)):
        several = several_outputs(seed)
        yield from ((several, k) for k in range(len(several.outputs)))
        yield with_outputs(several, [*several.columns.outputs.tolist(), 0, 0]), 0
    # Too many numbers for the registers.
    yield from ((workload.circuit, 0) for workload in mechanics_workloads(3, 1))
    yield from ((repeated(seed), 0) for seed in range(8))
    # Calls in packs.
    yield from ((random_workload(nodes).circuit, 0) for nodes in (60, 300))


def repeated(seed: int) -> Circuit:
    """Return a circuit of an op of six inputs, which are few nodes again and again."""
    rng, builder = np.random.default_rng(seed), Builder()
    ports = [builder.input("x"), builder.input("y")]
    for _ in range(12):
        given = [ports[k] for k in rng.integers(max(0, len(ports) - 4), len(ports), 6)]
        ports.append(builder.apply(SUM, *given))
        ports.append(builder.apply(TABLE["multiply"], ports[-1], ports[0]))
    return builder.build(ports[-1])


WEIGHTS, SIX = [0.5, -1.0, 2.0, 0.25, -0.5, 1.5], tuple("abcdef")
SUM = Elementwise(
    name="sum_of_six",
    doc="A weighted sum of as many inputs as native code has room for.",
    inputs=SIX,
    pattern=Pattern.SCALE,
    forward=lambda *given: sum(weight * x for weight, x in zip(WEIGHTS, given, strict=True)),
    partials=tuple(lambda *_, weight=weight: weight for weight in WEIGHTS),
    c=" + ".join(f"{weight} * {{{name}}}" for weight, name in zip(WEIGHTS, SIX, strict=True)),
)


@pytest.fixture(scope="module", autouse=True)
def _register() -> Iterator[None]:
    TABLE.register(SUM)
    yield
    TABLE.unregister(SUM)


class Planned:
    """What the planner must find, worked out the plain way."""

    def __init__(self, circuit: Circuit, root: int) -> None:
        kinds, rows = find_node_kinds(circuit), list(circuit.rows())
        sends, active = make_backward_tables(kinds).sends, circuit.active()
        self.live = set(circuit.columns.outputs.tolist())
        for row in reversed(rows):
            self.live |= {*row.sources} if row.node in self.live else set()
        self.absent = {root: False} if active[root] or not rows[root].sources else {}
        """Whether the gradient of a node that is reached may be absent."""
        self.variants = dict[int, int]()
        for row in reversed(rows):
            if row.node not in self.absent or not row.sources:
                continue
            ways = 0
            for slot, source in reversed(list(enumerate(row.sources))):
                sent = sends[kinds.nodes[row.node], slot]
                if sent and active[source]:
                    before = self.absent.get(source)
                    ways |= (
                        STORE_GRADIENT if before is None else MERGE_GRADIENT if before else ADD_GRADIENT
                    ) << 2 * slot
                    may = sent == program_steps.SENDS_MASKED or self.absent[row.node]
                    self.absent[source] = may and before is not False
            if ways:
                self.variants[row.node] = ways | self.absent[row.node] << program_steps.MASK_BIT


def test_the_planner_finds_what_a_plain_loop_finds() -> None:
    for circuit, output in circuits():
        found = build_program(circuit, output).stream.buffer_plan.sweep
        wanted = Planned(circuit, int(circuit.columns.outputs[output]))

        assert set(np.flatnonzero(found.live[: circuit.size])) == wanted.live
        assert set(np.flatnonzero(found.reached)) == set(wanted.absent)
        assert set(np.flatnonzero(found.absent)) == {node for node, may in wanted.absent.items() if may}
        assert {node: int(found.variants[node]) for node in np.flatnonzero(found.variants)} == wanted.variants


class Machine:
    """A working buffer and registers that know whose value or gradient stands where, and how much of it has arrived."""

    def __init__(self, circuit: Circuit, program: NativeProgram, root: int) -> None:
        self.program, self.root = program, root
        self.values = program.stream.buffer_plan.values.tolist()
        self.gradients = program.stream.buffer_plan.gradients.tolist()
        self.graph = program.stream.graph
        starts = self.graph.starts.tolist()
        self.sources = [self.graph.sources[a:b].tolist() for a, b in pairwise(starts)]
        self.arrived = [0] * len(self.graph)
        leaves = [row.node for row in circuit.rows() if row.op in (INPUT, CONSTANT)]
        self.held: dict[int, Any] = {self.values[node]: self.value(node) for node in leaves}
        self.registers = dict[int, Any]()
        self.spared = 0
        """How often a number was found in a register."""

    def value(self, node: int) -> Any:
        """Return what stands for a value: constants with the same bits share a slot."""
        head, slot = self.program.inputs * 2 + self.program.outputs, self.values[node]
        return ("constant", slot) if not self.sources[node] and slot >= head else ("value", node)

    def gradient(self, node: int) -> Any:
        """Return what stands for a gradient as far as it has arrived."""
        return "gradient", node, self.arrived[node]

    def read(self, slot: int, wanted: Any, register: int = 0) -> None:
        """Check that what is read is what is wanted, from a register or from the buffer."""
        self.spared += register > 0
        assert register or 0 <= slot < self.program.stream.buffer_plan.slots
        assert (self.registers.get(register) if register else self.held.get(slot)) == wanted

    def step(self, placed: StencilKey, subject: int) -> None:
        """Do what one stencil does."""
        key, new = placed.key, list[tuple[int, Any]]()
        if isinstance(key, PlainStep):
            self.plain(key.name, subject >> 32, subject & 0xFFFFFFFF)
            new = [(register, self.gradient(self.root)) for register in placed.writes]
        elif isinstance(key, PackStep):
            self.pack(key, subject)
        elif isinstance(key, NodeKind | SavedCall):
            new = self.forward(key, placed, subject)
        else:
            new = self.back(key, placed, subject)
        self.registers = ({} if calls_function(key, self.program.real) else self.registers) | dict(new)

    def pack(self, key: PackStep, place: int) -> None:
        nodes = self.graph.order[place : place + key.size].tolist()
        for slot in lower_forward(key.kind)[1]:
            for node in nodes:
                source = self.sources[node][slot]
                self.read(self.values[source], self.value(source))
        self.held |= {self.values[node]: self.value(node) for node in nodes}

    def forward(self, key: NodeKind | SavedCall, placed: StencilKey, node: int) -> list[tuple[int, Any]]:
        for slot in lower_forward(key)[1]:
            source = self.sources[node][slot]
            self.read(self.values[source], self.value(source), placed.reads[slot])
        if placed.stored[0]:
            self.held[self.values[node]] = self.value(node)
        return [(placed.writes[0], self.value(node))]

    def back(self, key: BackwardStep, placed: StencilKey, node: int) -> list[tuple[int, Any]]:
        self.read(self.gradients[node], self.gradient(node), placed.reads[0])
        sources, new = self.sources[node], list[tuple[int, Any]]()
        trees = lower_backward(key.kind, sum(1 << slot for slot, way in enumerate(key.ways) if way))
        needed = trees.needed
        for call in self.graph.saved[node, sorted(trees.saved)].tolist():
            self.read(self.values[call], self.value(call))
        for slot in needed & {*range(len(sources))}:
            self.read(self.values[sources[slot]], self.value(sources[slot]))
        if len(sources) in needed:
            self.read(self.values[node], self.value(node))
        for slot, source in reversed(list(enumerate(sources))):
            if key.ways[slot] in (ADD_GRADIENT, MERGE_GRADIENT):
                self.registers |= {register: what for register, what in new if register == WITHIN_STEP_REGISTER}
                self.read(self.gradients[source], self.gradient(source), placed.reads[1 + slot])
            if key.ways[slot]:
                self.arrived[source] += 1
                new.append((placed.writes[slot], self.gradient(source)))
                if placed.stored[slot]:
                    self.held[self.gradients[source]] = self.gradient(source)
        return new

    def plain(self, name: str, read: int, written: int) -> None:
        if name == "copy":
            self.held[written] = self.held[read]
        elif name == "seed":
            assert written == self.gradients[self.root]
            self.held[written] = self.gradient(self.root)
        elif name == "zero":
            self.held[written] = self.gradient(self.gradients.index(written))


def test_every_value_and_gradient_is_where_it_is_read() -> None:
    shared = spared = packed = 0
    for circuit, output in circuits():
        program = build_program(circuit, output)
        stream, machine = program.stream, Machine(circuit, program, int(circuit.columns.outputs[output]))
        for which, subject in zip(stream.which.tolist(), stream.subjects.tolist(), strict=True):
            machine.step(stream.keys[which], subject)
        packed += sum(isinstance(placed.key, PackStep) for placed in stream.keys)
        n = program.inputs
        for k, node in enumerate(circuit.columns.outputs.tolist()):
            assert machine.held[n + k] == machine.value(node)
        for k, node in enumerate(circuit.input_indices()):
            assert machine.held[n + program.outputs + k] == machine.gradient(node)
        shared += stream.buffer_plan.slots < circuit.size
        spared += machine.spared

    assert shared
    assert spared
    assert packed


def test_a_gradient_that_grows_stays_in_registers() -> None:
    program = build_program(wg.circuit("a = x * y; b = a * a; c = a * b + b * y; c * c"), 0)
    steps = [placed for placed in program.stream.keys if isinstance(placed.key, BackwardStep)]
    added = [(way, reads) for placed in steps for way, reads in zip(placed.key.ways, placed.reads[1:], strict=True)]

    found = {reads for way, reads in added if way == ADD_GRADIENT}
    assert WITHIN_STEP_REGISTER in found
    assert 0 not in found
    assert {reads for way, reads in added if way == STORE_GRADIENT} == {0}


def test_an_input_given_more_than_once_has_the_sum_of_its_gradients() -> None:
    for seed in range(8):
        circuit, point = repeated(seed), [0.1, 0.2]
        wanted = [*circuit.run(point).grads.values()]

        for found in (by_stencils(circuit, [point]), by_batch(circuit, [point])):
            np.testing.assert_allclose(found[0, 1:], wanted, rtol=1e-12)


@pytest.mark.parametrize("text", ["input b: bool\noutput b", "input b: bool\nc = logical_not b\noutput c"])
def test_a_condition_as_output_has_the_interpreters_gradient(text: str) -> None:
    circuit = Circuit.from_text(text)

    assert circuit.compile().value_and_grad(b=True)[1] == circuit.run(b=True).grads


def chain(op: str, length: int) -> Circuit:
    """Return a circuit that applies an op again and again."""
    builder = Builder()
    x = port = builder.input("x")
    for _ in range(length):
        port = builder.apply(TABLE[op], port, x) if len(TABLE[op].inputs) == 2 else builder.apply(TABLE[op], port)
    return builder.build(port)


def test_a_long_chain_works_in_a_few_slots() -> None:
    assert build_program(chain("sin", 1000)).buffer_length < 10
    assert build_program(chain("add", 1000), 0).buffer_length < 10
    # Cosines must be kept for going back; those of a pack are next to each other.
    assert 1000 < build_program(chain("sin", 1000), 0).buffer_length < 1000 + 2 * MAX_PACK_LANES


def test_a_hundred_thousand_nodes_compile_and_run() -> None:
    circuit = chain("sin", 100_000)
    value, slope = at_points(build_program(circuit, 0), [[0.5]])[0]
    wanted, product = 0.5, 1.0
    for _ in range(100_000):
        wanted, product = np.sin(wanted), product * np.cos(wanted)

    assert value == pytest.approx(wanted, rel=1e-12)
    assert slope == pytest.approx(product, rel=1e-6)


def rights(address: int) -> str:
    """Return what may be done with the memory at an address, as the system says it."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last, may = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line).groups()  # type: ignore[union-attr]
        if int(first, 16) <= address < int(last, 16):
            return may
    return ""


def test_code_can_be_run_but_not_written() -> None:
    program = build_program(wg.circuit("x * x"), 0)

    assert rights(program.entry) == "r-xp"
    assert rights(tiers.recompile_with_llvm(program).entry) == "r-xp"
    assert rights(jit.enter_address()) == "r-xp"


def test_code_is_freed_with_its_program() -> None:
    address = build_program(wg.circuit("x * x * x"), 0).entry
    gc.collect()

    assert "x" not in rights(address)


def test_a_thousand_programs_leave_no_memory_behind() -> None:
    circuit = chain("sin", 2_000)

    size = build_program(circuit, 0).code_bytes

    def build_often() -> None:
        for _ in range(choose_count(60, 250)):
            build_program(circuit, 0)
        gc.collect()

    # What a few programs take, and not what all of them took.
    assert measure_least_growth(build_often, read_resident_bytes) < 20 * size


def test_a_buffer_is_written_nowhere_but_inside() -> None:
    for seed in range(20):
        # Running looks at the numbers before and after the buffer.
        at_points(build_program(random_case(seed).circuit, 0), [point.inputs for point in random_case(seed).points])
        at_points(
            build_program(random_case(seed).circuit, 0, lanes=4), [point.inputs for point in random_case(seed).points]
        )


SMALL = wg.circuit("where(x > 0, x * y + 2.5, maximum(x, y))")


def changed(**columns: Any) -> Circuit:
    """Return a small circuit with some of its arrays replaced."""
    given = {name: change(copy(getattr(SMALL.columns, name))) for name, change in columns.items()}
    return Circuit(replace(SMALL.columns, **given))


def at(k: int, value: int) -> Any:
    """Return what sets an entry of an array."""

    def change(array: Any) -> Any:
        array[k] = value
        return array

    return change


CONTRADICTIONS: dict[str, dict[str, Any]] = {
    "a node reads itself": {"sources": at(-1, SMALL.size - 1)},
    "a node reads a later one": {"sources": at(0, 6)},
    "a node reads nothing there is": {"sources": at(0, 10**9)},
    "a node reads a negative one": {"sources": at(0, -1)},
    "a node reads very far back": {"sources": at(3, -(2**31))},
    "starts fall": {"starts": at(4, 0)},
    "starts are negative": {"starts": at(1, -5)},
    "starts begin late": {"starts": at(0, 1)},
    "starts end late": {"starts": at(-1, 10**6)},
    "starts are too few": {"starts": lambda starts: starts[:-1]},
    "sources are too few": {"sources": lambda sources: sources[:-1]},
    "an output is no node": {"outputs": at(0, 10**6)},
    "an output is negative": {"outputs": at(0, -1)},
    "there is no output": {"outputs": lambda outputs: outputs[:0]},
    "an op does not exist": {"codes": at(-1, 60_000)},
    "an op is an input": {"codes": at(-1, TABLE.code_of(INPUT))},
    "an op is a constant": {"codes": at(-1, TABLE.code_of(CONSTANT))},
    "an op takes one wire and has two": {"codes": at(-1, TABLE.code_of(TABLE["exp"]))},
    "an input is an op": {"codes": at(0, TABLE.code_of(TABLE["exp"]))},
    "codes are too few": {"codes": lambda codes: codes[:-1]},
    "types are too few": {"types": lambda types: types[:-1]},
    "a type does not exist": {"types": at(0, 60_000)},
    "a constant is nowhere": {"constant_nodes": at(0, 10**6)},
    "a constant is another node": {"constant_nodes": at(0, 0)},
    "constants are too few": {"constants": lambda constants: constants[:-1]},
}


@pytest.mark.parametrize("gradient", [None, 0])
@pytest.mark.parametrize("columns", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
@pytest.mark.parametrize("lanes", [1, 8])
def test_arrays_that_contradict_each_other_are_refused(
    columns: dict[str, Any], lanes: int, gradient: int | None
) -> None:
    with pytest.raises((NotNativeError, CircuitError, OutputError)):
        build_program(changed(**columns), gradient, lanes=lanes)


def test_native_code_does_not_ask_for_the_places_of_a_trace() -> None:
    asked = []
    circuit = wg.trace(lambda x: np.tanh(x) * x, 0.5)
    places = DeferredLabels(lambda: asked.append("places") or NodeLabels())  # type: ignore[func-returns-value]
    build_program(CircuitGraph(replace(circuit.columns, places=places)), 0)

    assert asked == []


@pytest.mark.parametrize("lanes", [-1, 0, 3, 12, 16, 64])
def test_vectors_that_do_not_fit_into_an_entry_are_refused(lanes: int) -> None:
    with pytest.raises(NotNativeError, match=rf"1, 2, 4, ... or 8 numbers of type float64; got lanes={lanes}"):
        build_program(wg.circuit("tanh(x) * y"), 0, lanes=lanes)


@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
def test_vectors_of_any_other_length_give_the_same_numbers(lanes: int) -> None:
    circuit = wg.circuit("exp(tanh(x) * y)")
    points = np.random.default_rng(0).normal(size=(21, 2))
    values, grads = batch.run_batch(build_program(circuit, 0, lanes=lanes), points, gradient=True)
    wanted = [circuit.run(x=x, y=y) for x, y in points.tolist()]

    assert grads is not None
    np.testing.assert_allclose(values[:, 0], [run.output for run in wanted], rtol=1e-14)
    np.testing.assert_allclose(grads, [[run.grads["x"], run.grads["y"]] for run in wanted], rtol=1e-13)


def test_arrays_of_other_widths_are_read_as_the_numbers_they_hold() -> None:
    circuit = wg.circuit("x * y + x")
    wide = {name: getattr(circuit.columns, name).astype(np.int64) for name in ("sources", "starts", "outputs")}
    strided = {name: np.repeat(array, 2)[::2] for name, array in wide.items()}
    points = [[2.0, 3.0]]

    assert by_stencils(Circuit(replace(circuit.columns, **wide)), points).tolist() == [[8.0, 4.0, 2.0]]
    assert by_stencils(Circuit(replace(circuit.columns, **strided)), points).tolist() == [[8.0, 4.0, 2.0]]


@pytest.mark.parametrize("number", [1, -1, 10**9])
def test_an_output_that_does_not_exist_has_no_gradient(number: int) -> None:
    with pytest.raises(OutputError, match="1 output"):
        build_program(wg.circuit("x * x"), number)


@pytest.mark.parametrize(
    ("circuit", "message"),
    [
        (wg.trace(lambda x: x.sum(), np.ones(3)), "scalars"),
        (wg.trace(lambda x: x * 1j, 1.0), "complex128"),
        (wg.trace(lambda x: np.float32(2.0) * x.astype(np.float32), 1.0), "float32"),
    ],
    ids=["arrays", "complex numbers", "two widths"],
)
def test_what_native_code_does_not_have_is_refused_with_a_reason(circuit: Circuit, message: str) -> None:
    with pytest.raises(NotNativeError, match=message):
        build_program(circuit, 0)


def test_a_batch_of_no_points_and_points_of_no_inputs_have_their_shapes() -> None:
    values, grads = batch.run_batch(build_program(wg.circuit("x * y"), 0, lanes=8), np.empty((0, 2)), gradient=True)
    assert grads is not None

    assert (values.shape, grads.shape) == ((0, 1), (0, 2))

    constant = wg.Circuit.from_text("c = constant 3.0\noutput c")

    assert by_batch(constant, [[], [], []]).tolist() == [[3.0]] * 3


def test_constants_are_kept_by_their_bits() -> None:
    circuit = wg.Circuit.from_text(
        "input x\na = constant 0.0\nb = constant -0.0\nc = divide x a\nd = divide x b\noutput c, d"
    )

    assert by_stencils(circuit, [[1.0]], None)[0, :2].tolist() == [np.inf, -np.inf]
    assert by_batch(circuit, [[1.0]], None)[0, :2].tolist() == [np.inf, -np.inf]


def test_code_runs_in_memory_of_its_own_that_is_sealed_once() -> None:
    code = jit.MachineCode(1)
    code.writable_bytes()[:] = list(jit.RETURN_INSTRUCTION)

    assert rights(code.address) == "rw-p"

    code.seal()
    jit.run_code(code.address, 0)

    assert rights(code.address) == "r-xp"


OBJECT_TEXT = """
@table = private unnamed_addr constant [3 x double] [double 1.0, double 2.0, double 4.0]
@counter = internal global i64 0
declare double @sin(double)
define double @read(i64 %k) {
  %count = load i64, ptr @counter
  %place = getelementptr double, ptr @table, i64 %k
  %x = load double, ptr %place
  %y = call double @sin(double %x)
  ret double %y
}
define ptr @locate() { ret ptr @read }
"""
"""A module whose object file has constants, zeros that are not in the file, functions, and a function elsewhere."""


def test_an_object_file_is_read_as_pyelftools_reads_it() -> None:
    binary = jit.target_machine().emit_object(jit.parse_module(OBJECT_TEXT))
    parsed = jit.parse_object_file(binary)
    parts = list(ELFFile(io.BytesIO(binary)).iter_sections())
    table = next(part for part in parts if isinstance(part, SymbolTableSection))
    relocations = [part for part in parts if isinstance(part, RelocationSection) and ".eh_frame" not in part.name]

    assert [symbol[0] for symbol in parsed.symbols] == [symbol.name for symbol in table.iter_symbols()]
    assert [symbol[2:] for symbol in parsed.symbols] == [
        (symbol["st_value"], symbol["st_size"]) for symbol in table.iter_symbols()
    ]
    assert [symbol.section for symbol in parsed.symbols] == [
        {"SHN_UNDEF": 0, "SHN_ABS": 0xFFF1}.get(symbol["st_shndx"], symbol["st_shndx"])
        for symbol in table.iter_symbols()
    ]
    assert {number: section[:3] for number, section in parsed.sections.items()} == {
        number: (part.name, part.data(), part["sh_addralign"])
        for number, part in enumerate(parts)
        if part["sh_flags"] & SH_FLAGS.SHF_ALLOC and part.name != ".eh_frame"
    }
    assert {
        number: [(row.place, row.kind, row.addend, row.symbol) for row in section.relocations]
        for number, section in parsed.sections.items()
        if section.relocations
    } == {
        part["sh_info"]: [
            (row["r_offset"], row["r_info_type"], row["r_addend"], parsed.symbols[row["r_info_sym"]])
            for row in part.iter_relocations()
        ]
        for part in relocations
    }


@pytest.mark.parametrize("binary", [b"\x7fELF\x01\x01" + bytes(100), b"\xcf\xfa\xed\xfe" + bytes(100)])
def test_an_object_file_in_another_format_is_refused(binary: bytes) -> None:
    with pytest.raises(NotNativeError, match="a format that is not known here"):
        jit.parse_object_file(binary)


def test_holes_are_told_apart() -> None:
    holes = [
        OUTPUT_HOLE,
        UPSTREAM_HOLE,
        *range(FIRST_GRADIENT_HOLE, FIRST_GRADIENT_HOLE + program_steps.MAX_NODE_INPUTS),
        *range(program_steps.MAX_NODE_INPUTS),
    ]

    assert len(set(holes)) == len(holes)


def test_a_circuit_of_float32_has_a_buffer_of_float32() -> None:
    builder = Builder(finite=False)
    x = builder.input("x", WireType(np.dtype(np.float32)))
    program = build_program(builder.build(builder.apply(TABLE["exp"], x)), 0)

    assert program.initial.dtype == np.float32
    assert at_points(program, [[0.0]]).tolist() == [[1.0, 1.0]]


def test_threads_compile_and_run_at_the_same_time() -> None:
    def answers(seed: int) -> bytes:
        case = random_case(seed % 12)
        return by_stencils(case.circuit, [point.inputs for point in case.points]).tobytes()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(answers, range(48)))

    assert found == [answers(seed) for seed in range(12)] * 4


FORKED = """
import os, signal
import numpy as np
import wiregrad as wg
from wiregrad.backends.native import batch
from wiregrad.backends.native.tiers import build_program

program, points = build_program(wg.circuit("x * y"), 0, lanes=4), np.ones((20_000, 2))
batch.run_batch(program, points, gradient=True, threads=2)
compiled = wg.circuit("tanh(x) * y").compile()
before, _ = compiled.batch_value_and_grad(points, threads=2)
matrix = np.random.default_rng(0).normal(size=(600, 600))
product = wg.trace(lambda x: np.tanh(x @ x), matrix).compile()
os.environ["WIREGRAD_THREADS"] = "2"
result = product(matrix)
child = os.fork()
if not child:
    signal.alarm(200)
    values, _ = batch.run_batch(program, points, gradient=True, threads=2)
    again, _ = compiled.batch_value_and_grad(points, threads=2)
    is_same = np.array_equal(again, before) and np.array_equal(product(matrix), result)
    os._exit(int(values.sum() != 20_000 or not is_same))
print(os.waitpid(child, 0)[1])
"""


def test_a_forked_process_runs_batches_too() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED], capture_output=True, text=True, check=True, timeout=PATIENCE
    )

    assert done.stdout == "0\n"
