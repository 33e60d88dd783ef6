"""Stencils: the machine code of one kind of step, forward or backward, with holes in place of its operands.

LLVM compiles each kind once (`StencilLibrary`). `copy_stencils` copies the stencils of a program's steps end to end, so
the end of one is the beginning of the next, and fills their holes: with offsets into the working buffer, and with
offsets to constants that precede the code. Copying takes a few NumPy operations per kind of step and none per node.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import jit
from wiregrad.backends.native.llvm_writer import LlvmValue, LlvmWriter, RealType
from wiregrad.backends.native.program_steps import StepStream
from wiregrad.backends.native.step_kinds import (
    FIRST_GRADIENT_HOLE,
    HOLE_COUNT,
    OUTPUT_HOLE,
    REGISTER_COUNT,
    UPSTREAM_HOLE,
    WITHIN_STEP_REGISTER,
    BackwardStep,
    ExpressionLowering,
    PlainStep,
    StencilKey,
    calls_function,
    make_absent_bits,
    write_step,
)
from wiregrad.backends.native.vector_math import ADDRESS_SYMBOL_PREFIX, call_by_symbol
from wiregrad.errors import NotNativeError

MAX_OFFSET = 2**31 - 1
"""Offsets into the buffer and the code have 32 bits."""
CONSTANT_HOLE = -1
"""Marks a hole for the offset to a constant in front of the code."""
STEPS_PER_BLOCK = 16_000
"""Stencils are copied for this many steps at a time, which fit into the cache."""
_ABSOLUTE_RELOCATIONS = (10, 11)
"""x86-64 relocations to an absolute 32-bit address; offsets are small enough for either sign."""
_RELATIVE_RELOCATION = 2
"""The x86-64 relocation relative to the instruction."""
_JUMP_RELOCATION = 4
"""The x86-64 relocation of a jump or call."""
HANDED_PARAMETERS = ("ptr %base", "i64 %absent", "i64 %unused", "i64 %idle", "ptr %w")
"""The parameters that every stencil receives in registers and passes on: the buffer and the bits of an absent gradient,
in registers that calls preserve; two unused ones; and the buffer again, in a register with shorter instructions."""


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
    jumps: dict[str, int] = field(default_factory=dict)
    """The chunk with the jump to a function, by the symbol of the function."""

    def get_stencils(self, keys: Iterable[StencilKey]) -> list[Stencil]:
        """Return stencils by their keys, compiling those that are missing."""
        wanted = list(keys)
        missing = [key for key in dict.fromkeys(wanted) if key not in self.stencils]
        if missing:
            self.stencils.update(zip(missing, self._compile_stencils(missing), strict=True))
        return [self.stencils[key] for key in wanted]

    def collect_constants(self, pieces: Sequence[Stencil]) -> tuple[bytes, dict[int, int]]:
        """Return the constants that some stencils read, and the offset of each chunk of them."""
        pool = bytearray()
        bases = dict[int, int]()
        for chunk in sorted({chunk for stencil in pieces for _, chunk, _ in stencil.constants}):
            bases[chunk] = len(pool)
            pool += self.chunks[chunk] + bytes(-len(self.chunks[chunk]) % 64)
        return bytes(pool), bases

    def _compile_stencils(self, keys: Sequence[StencilKey]) -> list[Stencil]:
        numbers = [f"{self.real.llvm_type} %r{k}" for k in range(1, REGISTER_COUNT + 1)]
        parameters = [*HANDED_PARAMETERS, *numbers]
        writer = LlvmWriter(self.real.lanes, shares=True)
        writer.declare("preserve_nonecc void", "@next", *(parameter.split(" %")[0] for parameter in parameters))
        for number, placed in enumerate(keys):
            writer.begin_function(f"preserve_nonecc void @s{number}({', '.join(parameters)})")
            lowering = ExpressionLowering(writer, self.real, call_by_symbol)
            access = _HoleAccess(lowering, placed)
            write_step(lowering, placed.key, access)
            if placed.key != PlainStep("return"):
                writer.emit_line(f"musttail call preserve_nonecc void @next({access.format_next_arguments()})")
            writer.end_function()
        holes = [f"@h{k} = external dso_local global i8" for k in range(HOLE_COUNT)]
        module = jit.parse_module(writer.format_module(f'target triple = "{jit.STENCIL_TRIPLE}"', *holes))
        return self._extract_stencils(jit.target_machine(stencils=True).emit_object(module), len(keys))

    def _extract_stencils(self, binary: bytes, count: int) -> list[Stencil]:
        """Extract the stencils `s0`, `s1` and so on from an object file."""
        parsed = _parse_object_file(binary)
        chunks: dict[int | str, int] = {k: self._keep_chunk(data) for k, data in parsed.constants.items()}
        self._keep_jumps({relocation.symbol for relocation in parsed.relocations})
        chunks.update(self.jumps)
        stencils = dict[int, Stencil]()
        at = 0
        for start, size, number in sorted((*parsed.spans[f"s{number}"], number) for number in range(count)):
            inside = list[_Relocation]()
            while at < len(parsed.relocations) and parsed.relocations[at].offset < start + size:
                inside.append(parsed.relocations[at])
                at += 1
            stencils[number] = _make_stencil(parsed.text[start : start + size], start, inside, chunks)
        return [stencils[number] for number in range(count)]

    def _keep_jumps(self, symbols: Iterable[str]) -> None:
        """Store a chunk with a jump to each called function that has none yet."""
        for symbol in sorted(symbols):
            if symbol.startswith(ADDRESS_SYMBOL_PREFIX) and symbol not in self.jumps:
                address = int(symbol.removeprefix(ADDRESS_SYMBOL_PREFIX))
                self.jumps[symbol] = self._keep_chunk(_write_jump(address))

    def _keep_chunk(self, data: bytes) -> int:
        """Store constants and return the number of their chunk."""
        self.chunks.append(data)
        return len(self.chunks) - 1


class _Relocation(NamedTuple):
    """A place in machine code that is filled with an address when the code is put in memory."""

    offset: int
    kind: int
    addend: int
    symbol: str
    section: int | str
    """The section of the symbol's definition."""
    value: int
    """The symbol's offset in its section."""


class _ObjectFile(NamedTuple):
    """What stencils need of an object file."""

    text: bytes
    """The machine code."""
    spans: dict[str, tuple[int, int]]
    """The offset and the size of each function."""
    constants: dict[int, bytes]
    """The contents of sections with constants, by the number of the section."""
    relocations: list[_Relocation]
    """The relocations of the machine code, in the order of their places."""


def _parse_object_file(binary: bytes) -> _ObjectFile:
    try:
        # Only native code needs these modules.
        from elftools.elf.elffile import ELFFile  # noqa: PLC0415
        from elftools.elf.relocation import RelocationSection  # noqa: PLC0415
        from elftools.elf.sections import SymbolTableSection  # noqa: PLC0415
    except ImportError as error:
        raise NotNativeError(
            f"native code needs pyelftools, which cannot be imported ({error}): pip install pyelftools"
        ) from None

    elf = ELFFile(io.BytesIO(binary))
    text = elf.get_section_by_name(".text")
    symbols = elf.get_section_by_name(".symtab")
    section = elf.get_section_by_name(".rela.text")
    assert text is not None
    assert isinstance(symbols, SymbolTableSection)
    relocations = list[_Relocation]()
    for entry in section.iter_relocations() if isinstance(section, RelocationSection) else ():
        symbol = symbols.get_symbol(entry["r_info_sym"])
        place = (entry["r_offset"], entry["r_info_type"], entry["r_addend"])
        relocations.append(_Relocation(*place, symbol.name, symbol["st_shndx"], symbol["st_value"]))
    sections = enumerate(elf.iter_sections())
    return _ObjectFile(
        text.data(),
        {symbol.name: (symbol["st_value"], symbol["st_size"]) for symbol in symbols.iter_symbols()},
        {k: part.data() for k, part in sections if part.name.startswith(".rodata")},
        sorted(relocations, key=lambda relocation: relocation.offset),
    )


def _write_jump(address: int) -> bytes:
    """Return machine code that jumps to an address.

    A stencil calls this jump by a relative offset, which the processor knows when it decodes the call. In a large
    circuit each call runs only once, so the target of an indirect call would be mispredicted.
    """
    return bytes.fromhex("ff25 00000000") + address.to_bytes(8, "little")


def _make_stencil(
    code: bytes, start: int, relocations: Sequence[_Relocation], chunks: Mapping[int | str, int]
) -> Stencil:
    """Return a stencil from its bytes and relocations; `chunks` are numbered by section and by symbol."""
    jumps = [each.offset - start for each in relocations if each.symbol == "next" and each.kind == _JUMP_RELOCATION]
    size = len(code)
    # The closing jump is dropped: the next stencil follows directly.
    if jumps and jumps[-1] == size - 4 and code[size - 5] == 0xE9:
        size -= 5
    body = np.frombuffer(code[:size], np.uint8).copy()
    holes = list[tuple[int, int, int]]()
    constants = list[tuple[int, int, int]]()
    for offset, kind, addend, symbol, section, value in relocations:
        place = offset - start
        if symbol == "next":
            if place < size:
                body[place : place + 4] = np.frombuffer(np.int32(size - place + addend).tobytes(), np.uint8)
        elif kind in _ABSOLUTE_RELOCATIONS and symbol[:1] == "h":
            holes.append((place, int(symbol[1:]), addend))
        elif kind == _RELATIVE_RELOCATION and section in chunks:
            constants.append((place, chunks[section], value + addend))
        elif kind == _JUMP_RELOCATION and symbol in chunks:
            constants.append((place, chunks[symbol], addend))
        else:
            what = symbol or "a section"
            raise NotNativeError(f"a stencil refers to {what} in a way that cannot be patched (relocation {kind})")
    return Stencil(body.tobytes(), tuple(holes), tuple(constants))


class _HoleAccess:
    """Access through registers, and through holes that are filled later."""

    def __init__(self, lowering: ExpressionLowering, placed: StencilKey) -> None:
        self.lowering = lowering
        self.writer = lowering.writer
        self.real = lowering.real
        # The hole of the upstream gradient is followed by those of the inputs' gradients.
        is_backward = isinstance(placed.key, BackwardStep)
        first = UPSTREAM_HOLE if is_backward else 0
        write = FIRST_GRADIENT_HOLE if is_backward else OUTPUT_HOLE
        self._read_registers = {first + k: register for k, register in enumerate(placed.reads) if register}
        self._written_registers = {write + k: register for k, register in enumerate(placed.writes) if register}
        self._stored_holes = {write + k for k, stored in enumerate(placed.stored) if stored}
        self._calls = calls_function(placed.key, self.real)
        self._new = dict[int, LlvmValue]()
        self._begins = placed.key == PlainStep("begin")
        self.absent = make_absent_bits(self.writer, self.real)
        if self._passes_absent and not self._begins:
            self.absent = self.writer.name_value("%absent", "i64")

    @property
    def _passes_absent(self) -> bool:
        """Whether the bits of an absent gradient fit into the register that is meant for them."""
        return self.real == RealType("double")

    def load(self, hole: int) -> LlvmValue:
        register = self._read_registers.get(hole)
        if register is None:
            pointer = self._hole_pointer(hole)
            return self.writer.load(self.real.bits_name, pointer, how=f", align {self.real.total_bytes}")
        if register == WITHIN_STEP_REGISTER:
            return self._new[register].as_bits()
        return self.writer.name_value(f"%r{register}", self.real.name).as_bits()

    def store(self, hole: int, bits: LlvmValue) -> None:
        if hole in self._written_registers:
            self._new[self._written_registers[hole]] = bits.as_real()
        if hole in self._stored_holes:
            self.writer.store(bits, self._hole_pointer(hole), f", align {self.real.total_bytes}")

    def format_next_arguments(self) -> str:
        """Return the arguments of the next stencil: the buffer and the newest numbers."""
        numbers = [self._new.get(k, "poison" if self._calls else f"%r{k}") for k in range(1, REGISTER_COUNT + 1)]
        arguments = [f"{self.real.llvm_type} {number}" for number in numbers]
        if self._begins:
            absent = self.absent if self._passes_absent else "poison"
            return ", ".join([HANDED_PARAMETERS[0], f"i64 {absent}", *HANDED_PARAMETERS[2:], *arguments])
        return ", ".join([*HANDED_PARAMETERS[:-1], self._buffer_pointer.typed, *arguments])

    @property
    def _buffer_pointer(self) -> LlvmValue:
        # A called function may change the register of %w, but preserves that of %base.
        return self.writer.name_value("%base" if self.lowering.called else "%w", "ptr", 1)

    def _hole_pointer(self, hole: int) -> LlvmValue:
        offset = self.writer.name_value(f"ptrtoint (ptr @h{hole} to i64)", "i64", 1)
        return self.writer.point_to("i8", self._buffer_pointer, offset)


@cache
def stencil_library(real: RealType) -> StencilLibrary:
    """Return the stencil library for a type of number."""
    return StencilLibrary(real)


def copy_stencils(stream: StepStream, library: StencilLibrary, pieces: list[Stencil]) -> jit.MachineCode:
    """Copy the stencils of a stream end to end, behind their constants, and fill their holes."""
    pool, bases = library.collect_constants(pieces)
    texts = [stencil.code for stencil in pieces]
    holes = _HoleTable(pieces, bases)
    ends = np.cumsum(np.array([len(text) for text in texts])[stream.which]) + len(pool)
    if ends[-1] > MAX_OFFSET:
        raise NotNativeError(f"the circuit needs {ends[-1]:,} bytes of machine code, beyond 32-bit offsets")
    starts = np.concatenate([[len(pool)], ends[:-1]])
    code = jit.MachineCode(int(ends[-1]))
    target = code.writable_bytes()
    target[: len(pool)] = np.frombuffer(pool, np.uint8)
    for first in range(0, len(stream), STEPS_PER_BLOCK):
        steps = slice(first, first + STEPS_PER_BLOCK)
        block = b"".join(map(texts.__getitem__, stream.which[steps].tolist()))
        target[starts[first] : starts[first] + len(block)] = np.frombuffer(block, np.uint8)
        holes.fill_holes(target, stream, steps, starts[steps])
    del target
    code.seal()
    code.address += len(pool)
    return code


class _HoleTable:
    """The holes of some stencils in one table: the place of each, the operand that fills it, and the addend."""

    def __init__(self, pieces: list[Stencil], bases: dict[int, int]) -> None:
        entries = list[tuple[int, int, int]]()
        self.counts = np.array([len(stencil.holes) + len(stencil.constants) for stencil in pieces])
        self.first = np.cumsum(self.counts) - self.counts
        for stencil in pieces:
            entries += stencil.holes
            entries += [
                (place, CONSTANT_HOLE, bases[chunk] + target - place) for place, chunk, target in stencil.constants
            ]
        self.places, self.holes, added = np.ascontiguousarray(np.array(entries, np.int64).reshape(-1, 3).T)
        self.added = added.astype(np.int32)

    def fill_holes(self, code: NDArray[np.uint8], stream: StepStream, steps: slice, starts: NDArray[np.int64]) -> None:
        """Fill the holes of some steps."""
        which = stream.which[steps]
        counts = self.counts[which]
        ends = np.cumsum(counts)
        owners = np.repeat(np.arange(len(which)), counts)
        number = np.arange(len(owners)) - (ends - counts)[owners] + self.first[which][owners]
        holes = self.holes[number]
        starts = starts[owners]
        offsets = stream.compute_offsets(steps, owners, holes)
        constants = np.flatnonzero(holes == CONSTANT_HOLE)
        offsets[constants] = -starts[constants]
        offsets += self.added[number]
        # A hole can be at any address, so the words of this view overlap.
        words = np.ndarray((len(code) - 3,), np.int32, code, strides=(1,))
        words[starts + self.places[number]] = offsets
