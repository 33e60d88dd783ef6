"""Stencils: the machine code of one kind of step, forward or backward, with holes in place of its operands.

LLVM compiles each kind once, from the C text and the rule in the op's record. Copied stencils follow each other
directly, so the end of one is the beginning of the next. Holes are filled with offsets into the working buffer, and
with offsets to constants that precede the code.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from wiregrad.backends.native import jit
from wiregrad.backends.native.llvm_writer import EmittedValue, ExpressionWriter, RealType
from wiregrad.backends.native.vector_math import ADDRESS_SYMBOL_PREFIX, call_by_address, call_by_symbol
from wiregrad.codegen.op_forms import (
    ConstantForm,
    Form,
    PullbackCase,
    PullbackRule,
    SlotForm,
    derive_pullback,
    lower_to_c,
    slots_of,
    tidy_form,
)
from wiregrad.dtypes import BOOL, WireType
from wiregrad.errors import NotNativeError
from wiregrad.ir import Op
from wiregrad.ops.c_expressions import ScalarExpression

MAX_NODE_INPUTS = 6
"""Maximum number of inputs of a node; hole k is the value of input k."""
OUTPUT_HOLE = MAX_NODE_INPUTS
"""The hole of the output's value."""
UPSTREAM_HOLE = MAX_NODE_INPUTS + 1
"""The hole of the upstream gradient."""
FIRST_GRADIENT_HOLE = MAX_NODE_INPUTS + 2
"""The hole of the gradient of input 0; those of the other inputs follow."""
HOLE_COUNT = FIRST_GRADIENT_HOLE + MAX_NODE_INPUTS
"""The number of holes."""
CONSTANT_HOLE = -1
"""Marks a hole for the offset to a constant in front of the code."""
STORE_GRADIENT = 1
"""Store a sent gradient: there is none yet."""
ADD_GRADIENT = 2
"""Add a sent gradient to the one that is present."""
MERGE_GRADIENT = 3
"""Add a sent gradient to one that may be absent."""
_ABSOLUTE_RELOCATIONS = (10, 11)
"""x86-64 relocations to an absolute 32-bit address; offsets are small enough for either sign."""
_RELATIVE_RELOCATION = 2
"""The x86-64 relocation relative to the instruction."""
_JUMP_RELOCATION = 4
"""The x86-64 relocation of a jump or call."""


class NodeKind(NamedTuple):
    """What nodes that share stencils have in common: op, kink mode, types, and inlined constants."""

    op: Op
    mode: int
    types: tuple[WireType, ...]
    type: WireType
    constants: tuple[tuple[int, float, bool], ...] = ()

    def backward_rule(self, moving: int) -> PullbackRule:
        """Return what such a node sends to the inputs whose bits are set in `moving`, last input first."""
        slots = tuple(slot for slot in reversed(range(len(self.types))) if moving >> slot & 1)
        settings = self.op.settings
        return derive_pullback(
            PullbackCase(self.op, settings, self.mode, slots, self.types, self.type, False, False, self.constants)
        )

    def forward_form(self) -> Form:
        """Return the expression that the node computes."""
        constants = {slot: value for slot, value, _ in self.constants}
        operands: list[Form] = [
            ConstantForm(kind.dtype.type(constants[k]), kind) if k in constants else SlotForm(k, kind)
            for k, kind in enumerate(self.types)
        ]
        return tidy_form(self.op, tuple(operands), self.type)


class BackwardStep(NamedTuple):
    """A backward step: the kind of node, whether the upstream gradient may be absent, and how each input is met."""

    kind: NodeKind
    masked: bool
    ways: tuple[int, ...]
    """For each input 0 (nothing is sent), STORE, ADD or MERGE."""


class PlainStep(NamedTuple):
    """A step that belongs to no node: `begin`, `seed`, `zero`, `settle`, `copy` or `return`."""

    name: str


StepKey = NodeKind | BackwardStep | PlainStep


class StencilKey(NamedTuple):
    """The key of a stencil: what the step does, which registers it reads and writes, and what it stores in the buffer.

    Registers count from 1; 0 means none. A step that calls a function loses the registers that it does not write.
    """

    key: StepKey
    reads: tuple[int, ...] = ()
    """The registers of the operands; in a backward step, of the upstream gradient, then of each input's gradient."""
    writes: tuple[int, ...] = ()
    """The register of the output; in a backward step, of the gradient of each input."""
    stored: tuple[bool, ...] = (True,)
    """Whether the output, or the gradient of each input, is stored in the buffer."""


HANDED_PARAMETERS = ("ptr %base", "i64 %absent", "i64 %unused", "i64 %idle", "ptr %w")
"""The parameters that every stencil receives in registers and passes on: the buffer and the bits of an absent gradient,
in registers that calls preserve; two unused ones; and the buffer again, in a register with shorter instructions."""
REGISTER_COUNT = 8
"""The number of registers in which stencils pass numbers on."""
WITHIN_STEP_REGISTER = REGISTER_COUNT + 1
"""Marks a gradient that a step passes to itself, because two of its inputs are the same node."""


@dataclass(frozen=True, eq=False)
class Stencil:
    """Machine code with holes."""

    code: bytes
    holes: tuple[tuple[int, int, int], ...]
    """The place of each hole, the operand that fills it, and the addend."""
    constants: tuple[tuple[int, int, int], ...]
    """The place of each offset to a constant, the chunk that holds the constant, and the constant's offset in it."""


@dataclass
class StencilLibrary:
    """The stencils compiled so far, for one type of number, and the constants that they read."""

    real: RealType
    stencils: dict[StencilKey, Stencil] = field(default_factory=dict)
    chunks: list[bytes] = field(default_factory=list)
    ways: dict[str, int] = field(default_factory=dict)
    """The chunk with the jump to a function, by the symbol of the function."""

    def get_stencils(self, keys: Iterable[StencilKey]) -> list[Stencil]:
        """Return stencils by their keys, compiling those that are missing."""
        wanted = list(keys)
        missing = [key for key in dict.fromkeys(wanted) if key not in self.stencils]
        if missing:
            self.stencils.update(zip(missing, self._compile_stencils(missing), strict=True))
        return [self.stencils[key] for key in wanted]

    def collect_constants(self, made: Sequence[Stencil]) -> tuple[bytes, dict[int, int]]:
        """Return the constants that some stencils read, and the offset of each chunk of them."""
        pool = bytearray()
        bases = dict[int, int]()
        for chunk in sorted({chunk for stencil in made for _, chunk, _ in stencil.constants}):
            bases[chunk] = len(pool)
            pool += self.chunks[chunk] + bytes(-len(self.chunks[chunk]) % 64)
        return bytes(pool), bases

    def _compile_stencils(self, keys: Sequence[StencilKey]) -> list[Stencil]:
        bodies = list[str]()
        parameters = ", ".join(
            [*HANDED_PARAMETERS, *(f"{self.real.llvm_type} %r{k}" for k in range(1, REGISTER_COUNT + 1))]
        )
        declared = {f"declare preserve_nonecc void @next({re.sub(' %[a-z0-9]+', '', parameters)})"}
        for number, placed in enumerate(keys):
            emitter = ExpressionWriter(self.real, call_by_symbol)
            access = _HoleAccess(emitter, placed)
            write_step(emitter, placed.key, access)
            declared |= emitter.declared
            end = f"  musttail call preserve_nonecc void @next({access.format_next_arguments()})\n"
            end = "" if placed.key == PlainStep("return") else end
            body = "\n".join(emitter.lines)
            bodies.append(f"define preserve_nonecc void @s{number}({parameters}) {{\n{body}\n{end}  ret void\n}}")
        holes = [f"@h{k} = external dso_local global i8" for k in range(HOLE_COUNT)]
        text = "\n".join([f'target triple = "{jit.STENCIL_TRIPLE}"', *holes, *sorted(declared), *bodies])
        module = jit.load_llvm().parse_assembly(text)
        module.verify()
        return self._read_object_file(jit.target_machine(stencils=True).emit_object(module), len(keys))

    def _read_object_file(self, binary: bytes, count: int) -> list[Stencil]:
        """Extract the stencils from an object file."""
        try:
            from elftools.elf.elffile import ELFFile  # noqa: PLC0415  # only native code needs it
        except ImportError as error:
            raise NotNativeError(
                f"native code needs pyelftools, which cannot be imported ({error}): pip install pyelftools"
            ) from None
        elf: Any = ELFFile(io.BytesIO(binary))
        sections = enumerate(elf.iter_sections())
        chunks: _ChunkNumbers = {
            k: self._keep_chunk(part.data()) for k, part in sections if part.name.startswith(".rodata")
        }
        text = elf.get_section_by_name(".text").data()
        symbols = elf.get_section_by_name(".symtab")
        spans = {symbol.name: (symbol["st_value"], symbol["st_size"]) for symbol in symbols.iter_symbols()}
        functions = sorted((*spans[f"s{number}"], number) for number in range(count))
        entries = self._collect_relocations(elf, symbols)
        chunks.update(self.ways)
        stencils = dict[int, Stencil]()
        at = 0
        for start, size, number in functions:
            inside = []
            while at < len(entries) and entries[at][0] < start + size:
                inside.append(entries[at])
                at += 1
            stencils[number] = _make_stencil(text[start : start + size], start, inside, chunks)
        return [stencils[number] for number in range(count)]

    def _collect_relocations(self, elf: Any, symbols: Any) -> list[Any]:
        """Return the relocations in the order of their places; every called function gets a chunk with a jump to it."""
        entries = list[Any]()
        relocations = elf.get_section_by_name(".rela.text")
        for entry in relocations.iter_relocations() if relocations else ():
            symbol = symbols.get_symbol(entry["r_info_sym"])
            entries.append((entry["r_offset"], entry["r_info_type"], entry["r_addend"], symbol))
            if symbol.name.startswith(ADDRESS_SYMBOL_PREFIX) and symbol.name not in self.ways:
                self.ways[symbol.name] = self._keep_chunk(_write_jump(int(symbol.name[len(ADDRESS_SYMBOL_PREFIX) :])))
        entries.sort(key=lambda entry: entry[0])
        return entries

    def _keep_chunk(self, data: bytes) -> int:
        """Store constants and return the number of their chunk."""
        self.chunks.append(data)
        return len(self.chunks) - 1


_ChunkNumbers = dict[int | str, int]
"""The chunks that an object file refers to, by section or by symbol."""


def _write_jump(address: int) -> bytes:
    """Return machine code that jumps to an address.

    A stencil calls this jump by a relative offset, which the processor knows when it decodes the call. In a large
    circuit each call runs only once, so the target of an indirect call would be mispredicted.
    """
    return bytes.fromhex("ff25 00000000") + address.to_bytes(8, "little")


def _make_stencil(code: bytes, start: int, entries: list[Any], chunks: _ChunkNumbers) -> Stencil:
    """Return a stencil from its bytes and relocations."""
    jumps = [
        offset - start for offset, kind, _, symbol in entries if symbol.name == "next" and kind == _JUMP_RELOCATION
    ]
    size = len(code)
    # The closing jump is dropped: the next stencil follows directly.
    if jumps and jumps[-1] == size - 4 and code[size - 5] == 0xE9:
        size -= 5
    body = np.frombuffer(code[:size], np.uint8).copy()
    holes = list[tuple[int, int, int]]()
    constants = list[tuple[int, int, int]]()
    for offset, kind, addend, symbol in entries:
        place = offset - start
        if symbol.name == "next":
            if place < size:
                body[place : place + 4] = np.frombuffer(np.int32(size - place + addend).tobytes(), np.uint8)
        elif kind in _ABSOLUTE_RELOCATIONS and symbol.name[:1] == "h":
            holes.append((place, int(symbol.name[1:]), addend))
        elif kind == _RELATIVE_RELOCATION and (chunk := chunks.get(symbol["st_shndx"])) is not None:
            constants.append((place, chunk, symbol["st_value"] + addend))
        elif kind == _JUMP_RELOCATION and (chunk := chunks.get(symbol.name)) is not None:
            constants.append((place, chunk, addend))
        else:
            what = symbol.name or "a section"
            raise NotNativeError(f"a stencil refers to {what} in a way that cannot be patched (relocation {kind})")
    return Stencil(body.tobytes(), tuple(holes), tuple(constants))


class BufferAccess(Protocol):
    """How the steps of a program read and write the working buffer."""

    def load(self, hole: int) -> str:
        """Write the load of the bits that a hole points to."""

    def store(self, hole: int, bits: str) -> None:
        """Write the store of bits where a hole points to."""


class _HoleAccess:
    """Access through registers, and through holes that are filled later."""

    def __init__(self, emitter: ExpressionWriter, placed: StencilKey) -> None:
        self.emitter = emitter
        self.real = emitter.real
        # The hole of the upstream gradient is followed by those of the inputs' gradients.
        first, write = (
            (UPSTREAM_HOLE, FIRST_GRADIENT_HOLE) if isinstance(placed.key, BackwardStep) else (0, OUTPUT_HOLE)
        )
        self._found = {first + k: register for k, register in enumerate(placed.reads) if register}
        self._registers = {write + k: register for k, register in enumerate(placed.writes) if register}
        self._left = {write + k for k, stored in enumerate(placed.stored) if stored}
        self._calls = calls_function(placed.key, self.real)
        self._new = dict[int, str]()
        self._begins = placed.key == PlainStep("begin")
        if self.real.llvm_bits_type == "i64" and not self._begins:
            emitter.absent = "%absent"

    def load(self, hole: int) -> str:
        register = self._found.get(hole)
        if register is not None:
            return self.emitter.bitcast_to_bits(
                self._new[WITHIN_STEP_REGISTER] if register == WITHIN_STEP_REGISTER else f"%r{register}"
            )
        return self.emitter.emit_value(
            f"load {self.real.llvm_bits_type}, ptr {self._hole_pointer(hole)}, align {self.real.total_bytes}"
        )

    def store(self, hole: int, bits: str) -> None:
        if hole in self._registers:
            self._new[self._registers[hole]] = self.emitter.bitcast_to_real(bits)
        if hole in self._left:
            pointer = self._hole_pointer(hole)
            self.emitter.emit_line(
                f"store {self.real.llvm_bits_type} {bits}, ptr {pointer}, align {self.real.total_bytes}"
            )

    def format_next_arguments(self) -> str:
        """Return the arguments of the next stencil: the buffer and the newest numbers."""
        numbers = [self._new.get(k, "poison" if self._calls else f"%r{k}") for k in range(1, REGISTER_COUNT + 1)]
        arguments = [f"{self.real.llvm_type} {number}" for number in numbers]
        if self._begins:
            absent = self.real.absent_bits if self.real.llvm_bits_type == "i64" else "poison"
            return ", ".join([HANDED_PARAMETERS[0], f"i64 {absent}", *HANDED_PARAMETERS[2:], *arguments])
        return ", ".join([*HANDED_PARAMETERS[:-1], f"ptr {self._buffer_pointer}", *arguments])

    @property
    def _buffer_pointer(self) -> str:
        # A called function may change the register of %w, but preserves that of %base.
        return "%base" if self.emitter.called else "%w"

    def _hole_pointer(self, hole: int) -> str:
        return self.emitter.emit_shared(
            f"getelementptr i8, ptr {self._buffer_pointer}, i64 ptrtoint (ptr @h{hole} to i64)"
        )


class _NoAccess:
    """Access to no buffer, for a dry run of a step."""

    def __init__(self, emitter: ExpressionWriter) -> None:
        self.emitter = emitter

    def load(self, hole: int) -> str:
        return f"%at{hole}"

    def store(self, hole: int, bits: str) -> None:
        pass


@cache
def calls_function(key: StepKey, real: RealType) -> bool:
    """Return whether a step calls a function, which loses all registers."""
    emitter = ExpressionWriter(real, call_by_address)
    write_step(emitter, key, _NoAccess(emitter))
    return emitter.called


def write_step(emitter: ExpressionWriter, key: StepKey, access: BufferAccess) -> None:
    """Write the instructions of one step."""
    match key:
        case NodeKind():
            _write_forward_step(emitter, key, access)
        case BackwardStep():
            _write_backward_step(emitter, key, access)
        case PlainStep():
            _write_plain_step(emitter, key.name, access)


def _read_operand(emitter: ExpressionWriter, access: BufferAccess, hole: int, kind: WireType) -> EmittedValue:
    number = EmittedValue(emitter.bitcast_to_real(access.load(hole)))
    return EmittedValue(emitter.as_condition(number), True) if kind.dtype == BOOL.dtype else number


def collect_read_slots(forms: Iterable[Form | None]) -> frozenset[int]:
    """Return the slots that forms read."""
    return frozenset().union(*(slots_of(form) for form in forms if form is not None))


@cache
def _lower_forward(kind: NodeKind) -> tuple[ScalarExpression, tuple[int, ...]]:
    """Return the expression of a kind of node, and the inputs it reads."""
    form = kind.forward_form()
    return lower_to_c(form), tuple(sorted(slots_of(form)))


def _write_forward_step(emitter: ExpressionWriter, kind: NodeKind, access: BufferAccess) -> None:
    tree, slots = _lower_forward(kind)
    operands = {str(k): _read_operand(emitter, access, k, kind.types[k]) for k in slots}
    access.store(OUTPUT_HOLE, emitter.bitcast_to_bits(emitter.as_number(emitter.write_tree(tree, operands))))


class BackwardTrees(NamedTuple):
    """The expressions of a backward step: the slots it reads, shared subexpressions, and each wire's value and mask."""

    needed: frozenset[int]
    shared: tuple[ScalarExpression, ...]
    sent: tuple[tuple[int, ScalarExpression, ScalarExpression | None], ...]


@cache
def lower_backward(kind: NodeKind, moving: int) -> BackwardTrees:
    """Return the expressions of a kind's backward step, for the inputs whose bits are set in `moving`."""
    rule = kind.backward_rule(moving)
    forms = [*rule.shared, *(form for one in rule.sent for form in (one.value, one.mask))]
    sent = [(one.slot, lower_to_c(one.value), None if one.mask is None else lower_to_c(one.mask)) for one in rule.sent]
    return BackwardTrees(collect_read_slots(forms), tuple(map(lower_to_c, rule.shared)), tuple(sent))


def _write_backward_step(emitter: ExpressionWriter, back: BackwardStep, access: BufferAccess) -> None:
    """Write what a node sends back, and how that meets the gradients of its inputs."""
    kind = back.kind
    real = emitter.real
    count = len(back.ways)
    trees = lower_backward(kind, sum(1 << slot for slot, way in enumerate(back.ways) if way))
    operands = {str(k): _read_operand(emitter, access, k, kind.types[k]) for k in range(count) if k in trees.needed}
    if count in trees.needed:
        operands[str(count)] = _read_operand(emitter, access, OUTPUT_HOLE, kind.type)
    bits = access.load(UPSTREAM_HOLE)
    operands[str(count + 1)] = EmittedValue(emitter.bitcast_to_real(bits))
    present = emitter.emit_shared(f"icmp ne {real.llvm_bits_type} {bits}, {emitter.absent}") if back.masked else None
    for k, tree in enumerate(trees.shared):
        operands[str(count + 3 + k)] = emitter.write_tree(tree, operands)
    ready = [
        (
            slot,
            emitter.as_number(emitter.write_tree(value, operands)),
            _write_presence(emitter, operands, mask, present),
        )
        for slot, value, mask in trees.sent
    ]
    for slot, value, there in ready:
        _write_accumulation(emitter, access, FIRST_GRADIENT_HOLE + slot, back.ways[slot], value, there)


def _write_presence(
    emitter: ExpressionWriter, operands: dict[str, EmittedValue], mask: ScalarExpression | None, present: str | None
) -> str | None:
    """Return where a sent gradient is present: where the op lets it through and the upstream gradient is present."""
    own = None if mask is None else emitter.as_condition(emitter.write_tree(mask, operands))
    if own is None or present is None:
        return present if own is None else own
    return emitter.emit_shared(f"and {emitter.real.llvm_condition_type} {own}, {present}")


def _write_accumulation(
    emitter: ExpressionWriter, access: BufferAccess, hole: int, way: int, value: str, there: str | None
) -> None:
    """Write how a sent gradient meets the gradient that is there; an absent one changes nothing."""
    real = emitter.real
    sent = emitter.bitcast_to_bits(value)
    if way == STORE_GRADIENT:
        access.store(
            hole, sent if there is None else emitter.write_select(there, sent, emitter.absent, real.llvm_bits_type)
        )
        return
    before = access.load(hole)
    total = emitter.bitcast_to_bits(emitter.write_arithmetic("+", emitter.bitcast_to_real(before), value))
    if way == MERGE_GRADIENT:
        held = emitter.emit_shared(f"icmp ne {real.llvm_bits_type} {before}, {emitter.absent}")
        total = emitter.write_select(held, total, sent, real.llvm_bits_type)
    access.store(hole, total if there is None else emitter.write_select(there, total, before, real.llvm_bits_type))


def _write_plain_step(emitter: ExpressionWriter, name: str, access: BufferAccess) -> None:
    real = emitter.real
    zero = real.format_splat(f"i{real.item_bytes * 8}", "0")
    if name == "seed":
        access.store(OUTPUT_HOLE, emitter.bitcast_to_bits(real.format_literal(1.0)))
    elif name == "zero":
        access.store(OUTPUT_HOLE, zero)
    elif name == "copy":
        access.store(OUTPUT_HOLE, access.load(0))
    elif name == "settle":
        bits = access.load(OUTPUT_HOLE)
        there = emitter.emit_shared(f"icmp ne {real.llvm_bits_type} {bits}, {emitter.absent}")
        access.store(OUTPUT_HOLE, emitter.write_select(there, bits, zero, real.llvm_bits_type))


@cache
def stencil_library(real: RealType) -> StencilLibrary:
    """Return the stencil library for a type of number."""
    return StencilLibrary(real)
