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

from wiregrad.backends.native import machine
from wiregrad.backends.native.emit import Emitter, Real, Value
from wiregrad.backends.native.vectormath import SYMBOL, call_symbol, call_vector
from wiregrad.codegen.forms import Constant, Form, Slot, slots_of, tidied
from wiregrad.codegen.lowering import lowered
from wiregrad.codegen.rules import Case, Rule, rule_of
from wiregrad.dtypes import BOOL, WireType
from wiregrad.errors import NotNativeError
from wiregrad.ir import Op
from wiregrad.ops.expressions import Tree

MOST_INPUTS = 6
"""Maximum number of inputs of a node; hole k is the value of input k."""
OUTPUT = MOST_INPUTS
"""The hole of the output's value."""
ARRIVED = MOST_INPUTS + 1
"""The hole of the upstream gradient."""
GRADIENTS = MOST_INPUTS + 2
"""The hole of the gradient of input 0; those of the other inputs follow."""
HOLES = GRADIENTS + MOST_INPUTS
"""The number of holes."""
CONSTANT = -1
"""Marks a hole for the offset to a constant in front of the code."""
STORE = 1
"""Store a sent gradient: there is none yet."""
ADD = 2
"""Add a sent gradient to the one that is present."""
MERGE = 3
"""Add a sent gradient to one that may be absent."""
_ABSOLUTE = (10, 11)
"""x86-64 relocations to an absolute 32-bit address; offsets are small enough for either sign."""
_RELATIVE = 2
"""The x86-64 relocation relative to the instruction."""
_JUMP = 4
"""The x86-64 relocation of a jump or call."""


class Kind(NamedTuple):
    """What nodes that share stencils have in common: op, kink mode, types, and inlined constants."""

    op: Op
    mode: int
    types: tuple[WireType, ...]
    type: WireType
    constants: tuple[tuple[int, float, bool], ...] = ()

    def rule(self, moving: int) -> Rule:
        """Return what such a node sends to the inputs whose bits are set in `moving`, last input first."""
        slots = tuple(slot for slot in reversed(range(len(self.types))) if moving >> slot & 1)
        settings = self.op.settings
        return rule_of(Case(self.op, settings, self.mode, slots, self.types, self.type, False, False, self.constants))

    def form(self) -> Form:
        """Return the expression that the node computes."""
        constants = {slot: value for slot, value, _ in self.constants}
        operands: list[Form] = [
            Constant(kind.dtype.type(constants[k]), kind) if k in constants else Slot(k, kind)
            for k, kind in enumerate(self.types)
        ]
        return tidied(self.op, tuple(operands), self.type)


class Back(NamedTuple):
    """A backward step: the kind of node, whether the upstream gradient may be absent, and how each input is met."""

    kind: Kind
    masked: bool
    ways: tuple[int, ...]
    """For each input 0 (nothing is sent), STORE, ADD or MERGE."""


class Plain(NamedTuple):
    """A step that belongs to no node: `begin`, `seed`, `zero`, `settle`, `copy` or `return`."""

    name: str


Key = Kind | Back | Plain


class Placed(NamedTuple):
    """The key of a stencil: what the step does, which registers it reads and writes, and what it stores in the buffer.

    Registers count from 1; 0 means none. A step that calls a function loses the registers that it does not write.
    """

    key: Key
    reads: tuple[int, ...] = ()
    """The registers of the operands; in a backward step, of the upstream gradient, then of each input's gradient."""
    writes: tuple[int, ...] = ()
    """The register of the output; in a backward step, of the gradient of each input."""
    stored: tuple[bool, ...] = (True,)
    """Whether the output, or the gradient of each input, is stored in the buffer."""


HANDED = ("ptr %base", "i64 %absent", "i64 %unused", "i64 %idle", "ptr %w")
"""The parameters that every stencil receives in registers and passes on: the buffer and the bits of an absent gradient,
in registers that calls preserve; two unused ones; and the buffer again, in a register with shorter instructions."""
REGISTERS = 8
"""The number of registers in which stencils pass numbers on."""
WITHIN = REGISTERS + 1
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
class Library:
    """The stencils compiled so far, for one type of number, and the constants that they read."""

    real: Real
    stencils: dict[Placed, Stencil] = field(default_factory=dict)
    chunks: list[bytes] = field(default_factory=list)
    ways: dict[str, int] = field(default_factory=dict)
    """The chunk with the jump to a function, by the symbol of the function."""

    def need(self, keys: Iterable[Placed]) -> list[Stencil]:
        """Return stencils by their keys, compiling those that are missing."""
        wanted = list(keys)
        missing = [key for key in dict.fromkeys(wanted) if key not in self.stencils]
        if missing:
            self.stencils.update(zip(missing, self._made(missing), strict=True))
        return [self.stencils[key] for key in wanted]

    def constants(self, made: Sequence[Stencil]) -> tuple[bytes, dict[int, int]]:
        """Return the constants that some stencils read, and the offset of each chunk of them."""
        pool = bytearray()
        bases = dict[int, int]()
        for chunk in sorted({chunk for stencil in made for _, chunk, _ in stencil.constants}):
            bases[chunk] = len(pool)
            pool += self.chunks[chunk] + bytes(-len(self.chunks[chunk]) % 64)
        return bytes(pool), bases

    def _made(self, keys: Sequence[Placed]) -> list[Stencil]:
        bodies = list[str]()
        parameters = ", ".join([*HANDED, *(f"{self.real.type} %r{k}" for k in range(1, REGISTERS + 1))])
        declared = {f"declare preserve_nonecc void @next({re.sub(' %[a-z0-9]+', '', parameters)})"}
        for number, placed in enumerate(keys):
            emitter = Emitter(self.real, call_symbol)
            access = _Holes(emitter, placed)
            write(emitter, placed.key, access)
            declared |= emitter.declared
            end = f"  musttail call preserve_nonecc void @next({access.handed_on()})\n"
            end = "" if placed.key == Plain("return") else end
            body = "\n".join(emitter.lines)
            bodies.append(f"define preserve_nonecc void @s{number}({parameters}) {{\n{body}\n{end}  ret void\n}}")
        holes = [f"@h{k} = external dso_local global i8" for k in range(HOLES)]
        text = "\n".join([f'target triple = "{machine.TRIPLE}"', *holes, *sorted(declared), *bodies])
        module = machine.llvm().parse_assembly(text)
        module.verify()
        return self._read(machine.target(stencils=True).emit_object(module), len(keys))

    def _read(self, binary: bytes, count: int) -> list[Stencil]:
        """Extract the stencils from an object file."""
        from elftools.elf.elffile import ELFFile  # noqa: PLC0415  # only native code needs it

        elf: Any = ELFFile(io.BytesIO(binary))
        sections = enumerate(elf.iter_sections())
        chunks: _Chunks = {k: self._chunk(part.data()) for k, part in sections if part.name.startswith(".rodata")}
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
            stencils[number] = _stencil(text[start : start + size], start, inside, chunks)
        return [stencils[number] for number in range(count)]

    def _collect_relocations(self, elf: Any, symbols: Any) -> list[Any]:
        """Return the relocations in the order of their places; every called function gets a chunk with a jump to it."""
        entries = list[Any]()
        relocations = elf.get_section_by_name(".rela.text")
        for entry in relocations.iter_relocations() if relocations else ():
            symbol = symbols.get_symbol(entry["r_info_sym"])
            entries.append((entry["r_offset"], entry["r_info_type"], entry["r_addend"], symbol))
            if symbol.name.startswith(SYMBOL) and symbol.name not in self.ways:
                self.ways[symbol.name] = self._chunk(_way(int(symbol.name[len(SYMBOL) :])))
        entries.sort(key=lambda entry: entry[0])
        return entries

    def _chunk(self, data: bytes) -> int:
        """Store constants and return the number of their chunk."""
        self.chunks.append(data)
        return len(self.chunks) - 1


_Chunks = dict[int | str, int]
"""The chunks that an object file refers to, by section or by symbol."""


def _way(address: int) -> bytes:
    """Return machine code that jumps to an address.

    A stencil calls this jump by a relative offset, which the processor knows when it decodes the call. In a large
    circuit each call runs only once, so the target of an indirect call would be mispredicted.
    """
    return bytes.fromhex("ff25 00000000") + address.to_bytes(8, "little")


def _stencil(code: bytes, start: int, entries: list[Any], chunks: _Chunks) -> Stencil:
    """Return a stencil from its bytes and relocations."""
    jumps = [offset - start for offset, kind, _, symbol in entries if symbol.name == "next" and kind == _JUMP]
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
        elif kind in _ABSOLUTE and symbol.name[:1] == "h":
            holes.append((place, int(symbol.name[1:]), addend))
        elif kind == _RELATIVE and (chunk := chunks.get(symbol["st_shndx"])) is not None:
            constants.append((place, chunk, symbol["st_value"] + addend))
        elif kind == _JUMP and (chunk := chunks.get(symbol.name)) is not None:
            constants.append((place, chunk, addend))
        else:
            what = symbol.name or "a section"
            raise NotNativeError(f"a stencil refers to {what} in a way that cannot be patched (relocation {kind})")
    return Stencil(body.tobytes(), tuple(holes), tuple(constants))


class Access(Protocol):
    """How the steps of a program read and write the working buffer."""

    def load(self, hole: int) -> str:
        """Write the load of the bits that a hole points to."""

    def store(self, hole: int, bits: str) -> None:
        """Write the store of bits where a hole points to."""


class _Holes:
    """Access through registers, and through holes that are filled later."""

    def __init__(self, emitter: Emitter, placed: Placed) -> None:
        self.emitter = emitter
        self.real = emitter.real
        # The hole of the upstream gradient is followed by those of the inputs' gradients.
        first, write = (ARRIVED, GRADIENTS) if isinstance(placed.key, Back) else (0, OUTPUT)
        self._found = {first + k: register for k, register in enumerate(placed.reads) if register}
        self._registers = {write + k: register for k, register in enumerate(placed.writes) if register}
        self._left = {write + k for k, stored in enumerate(placed.stored) if stored}
        self._calls = calls(placed.key, self.real)
        self._new = dict[int, str]()
        self._begins = placed.key == Plain("begin")
        if self.real.bits == "i64" and not self._begins:
            emitter.absent = "%absent"

    def load(self, hole: int) -> str:
        register = self._found.get(hole)
        if register is not None:
            return self.emitter.bits_of(self._new[WITHIN] if register == WITHIN else f"%r{register}")
        return self.emitter.fresh(f"load {self.real.bits}, ptr {self._address(hole)}, align {self.real.width}")

    def store(self, hole: int, bits: str) -> None:
        if hole in self._registers:
            self._new[self._registers[hole]] = self.emitter.real_of(bits)
        if hole in self._left:
            self.emitter.say(f"store {self.real.bits} {bits}, ptr {self._address(hole)}, align {self.real.width}")

    def handed_on(self) -> str:
        """Return the arguments of the next stencil: the buffer and the newest numbers."""
        numbers = [self._new.get(k, "poison" if self._calls else f"%r{k}") for k in range(1, REGISTERS + 1)]
        arguments = [f"{self.real.type} {number}" for number in numbers]
        if self._begins:
            absent = self.real.absent if self.real.bits == "i64" else "poison"
            return ", ".join([HANDED[0], f"i64 {absent}", *HANDED[2:], *arguments])
        return ", ".join([*HANDED[:-1], f"ptr {self._buffer}", *arguments])

    @property
    def _buffer(self) -> str:
        # A called function may change the register of %w, but preserves that of %base.
        return "%base" if self.emitter.called else "%w"

    def _address(self, hole: int) -> str:
        return self.emitter.new(f"getelementptr i8, ptr {self._buffer}, i64 ptrtoint (ptr @h{hole} to i64)")


class _Nowhere:
    """Access to no buffer, for a dry run of a step."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter

    def load(self, hole: int) -> str:
        return f"%at{hole}"

    def store(self, hole: int, bits: str) -> None:
        pass


@cache
def calls(key: Key, real: Real) -> bool:
    """Return whether a step calls a function, which loses all registers."""
    emitter = Emitter(real, call_vector)
    write(emitter, key, _Nowhere(emitter))
    return emitter.called


def write(emitter: Emitter, key: Key, access: Access) -> None:
    """Write the instructions of one step."""
    match key:
        case Kind():
            _forward(emitter, key, access)
        case Back():
            _backward(emitter, key, access)
        case Plain():
            _plain(emitter, key.name, access)


def _read(emitter: Emitter, access: Access, hole: int, kind: WireType) -> Value:
    number = Value(emitter.real_of(access.load(hole)))
    return Value(emitter.truth(number), True) if kind.dtype == BOOL.dtype else number


def slots_read(forms: Iterable[Form | None]) -> frozenset[int]:
    """Return the slots that forms read."""
    return frozenset().union(*(slots_of(form) for form in forms if form is not None))


@cache
def _computed(kind: Kind) -> tuple[Tree, tuple[int, ...]]:
    """Return the expression of a kind of node, and the inputs it reads."""
    form = kind.form()
    return lowered(form), tuple(sorted(slots_of(form)))


def _forward(emitter: Emitter, kind: Kind, access: Access) -> None:
    tree, slots = _computed(kind)
    operands = {str(k): _read(emitter, access, k, kind.types[k]) for k in slots}
    access.store(OUTPUT, emitter.bits_of(emitter.number(emitter.tree(tree, operands))))


class Sending(NamedTuple):
    """The expressions of a backward step: the slots it reads, shared subexpressions, and each wire's value and mask."""

    needed: frozenset[int]
    shared: tuple[Tree, ...]
    sent: tuple[tuple[int, Tree, Tree | None], ...]


@cache
def sending(kind: Kind, moving: int) -> Sending:
    """Return the expressions of a kind's backward step, for the inputs whose bits are set in `moving`."""
    rule = kind.rule(moving)
    forms = [*rule.shared, *(form for one in rule.sent for form in (one.value, one.mask))]
    sent = [(one.slot, lowered(one.value), None if one.mask is None else lowered(one.mask)) for one in rule.sent]
    return Sending(slots_read(forms), tuple(map(lowered, rule.shared)), tuple(sent))


def _backward(emitter: Emitter, back: Back, access: Access) -> None:
    """Write what a node sends back, and how that meets the gradients of its inputs."""
    kind = back.kind
    real = emitter.real
    count = len(back.ways)
    trees = sending(kind, sum(1 << slot for slot, way in enumerate(back.ways) if way))
    operands = {str(k): _read(emitter, access, k, kind.types[k]) for k in range(count) if k in trees.needed}
    if count in trees.needed:
        operands[str(count)] = _read(emitter, access, OUTPUT, kind.type)
    bits = access.load(ARRIVED)
    operands[str(count + 1)] = Value(emitter.real_of(bits))
    present = emitter.new(f"icmp ne {real.bits} {bits}, {emitter.absent}") if back.masked else None
    for k, tree in enumerate(trees.shared):
        operands[str(count + 3 + k)] = emitter.tree(tree, operands)
    ready = [
        (slot, emitter.number(emitter.tree(value, operands)), _both(emitter, operands, mask, present))
        for slot, value, mask in trees.sent
    ]
    for slot, value, there in ready:
        _meet(emitter, access, GRADIENTS + slot, back.ways[slot], value, there)


def _both(emitter: Emitter, operands: dict[str, Value], mask: Tree | None, present: str | None) -> str | None:
    """Return where a sent gradient is present: where the op lets it through and the upstream gradient is present."""
    own = None if mask is None else emitter.truth(emitter.tree(mask, operands))
    if own is None or present is None:
        return present if own is None else own
    return emitter.new(f"and {emitter.real.condition} {own}, {present}")


def _meet(emitter: Emitter, access: Access, hole: int, way: int, value: str, there: str | None) -> None:
    """Write how a sent gradient meets the gradient that is there; an absent one changes nothing."""
    real = emitter.real
    sent = emitter.bits_of(value)
    if way == STORE:
        access.store(hole, sent if there is None else emitter.select(there, sent, emitter.absent, real.bits))
        return
    before = access.load(hole)
    total = emitter.bits_of(emitter.arithmetic("+", emitter.real_of(before), value))
    if way == MERGE:
        held = emitter.new(f"icmp ne {real.bits} {before}, {emitter.absent}")
        total = emitter.select(held, total, sent, real.bits)
    access.store(hole, total if there is None else emitter.select(there, total, before, real.bits))


def _plain(emitter: Emitter, name: str, access: Access) -> None:
    real = emitter.real
    zero = real.splat(f"i{real.size * 8}", "0")
    if name == "seed":
        access.store(OUTPUT, emitter.bits_of(real.number(1.0)))
    elif name == "zero":
        access.store(OUTPUT, zero)
    elif name == "copy":
        access.store(OUTPUT, access.load(0))
    elif name == "settle":
        bits = access.load(OUTPUT)
        there = emitter.new(f"icmp ne {real.bits} {bits}, {emitter.absent}")
        access.store(OUTPUT, emitter.select(there, bits, zero, real.bits))


@cache
def library(real: Real) -> Library:
    """Return the stencil library for a type of number."""
    return Library(real)
