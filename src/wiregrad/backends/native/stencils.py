"""Stencils: the machine code of one kind of node, forward or backward, with holes where operands stand.

LLVM compiles each kind once, from the op's own text and rule. A stencil ends where the next one begins; its holes are
offsets into the working buffer, and offsets to constants that stand in front of the code.
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
OUTPUT, ARRIVED = MOST_INPUTS, MOST_INPUTS + 1
GRADIENTS = MOST_INPUTS + 2
"""Holes: the value of input k is hole k, then the output, what arrived from upstream, and the gradient of input k."""
HOLES = GRADIENTS + MOST_INPUTS
CONSTANT = -1
"""Stands for a hole that leads to a constant in front of the code."""
STORE, ADD, MERGE = 1, 2, 3
"""How something sent meets the gradient that is there: none yet, one that is present, one that may be absent."""
_ABSOLUTE, _RELATIVE, _JUMP = (10, 11), 2, 4
"""Relocations of x86-64: 32 bits (offsets are small enough for either sign), relative to the instruction, jump."""


class Kind(NamedTuple):
    """What nodes have in common that share stencils: op, kink mode, types, and constants that are written in."""

    op: Op
    mode: int
    types: tuple[WireType, ...]
    type: WireType
    constants: tuple[tuple[int, float, bool], ...] = ()

    def rule(self, moving: int) -> Rule:
        """Return what such a node sends to the inputs whose bits are set, last input first."""
        slots = tuple(slot for slot in reversed(range(len(self.types))) if moving >> slot & 1)
        settings = self.op.settings
        return rule_of(Case(self.op, settings, self.mode, slots, self.types, self.type, False, False, self.constants))

    def form(self) -> Form:
        """Return what the node computes."""
        given = {slot: value for slot, value, _ in self.constants}
        operands: list[Form] = [
            Constant(kind.dtype.type(given[k]), kind) if k in given else Slot(k, kind)
            for k, kind in enumerate(self.types)
        ]
        return tidied(self.op, tuple(operands), self.type)


class Back(NamedTuple):
    """A backward stencil: the kind of node, whether what arrives may be absent, and how each input is served."""

    kind: Kind
    masked: bool
    ways: tuple[int, ...]
    """Per input 0 (nothing is sent), STORE, ADD or MERGE."""


class Plain(NamedTuple):
    """A stencil that belongs to no node: `begin`, `seed`, `zero`, `settle`, `copy` or `return`."""

    name: str


Key = Kind | Back | Plain


class Placed(NamedTuple):
    """A stencil: what a step does, which registers it reads and writes, and what it leaves in the buffer.

    Registers count from 1; 0 is none. A step that calls a function loses those it does not write.
    """

    key: Key
    reads: tuple[int, ...] = ()
    """The registers of the operands; for a step back, of what arrived, then of the gradient of each input so far."""
    writes: tuple[int, ...] = ()
    """The register for the output; for a step back, for the gradient of each input."""
    stored: tuple[bool, ...] = (True,)
    """Whether the output, or the gradient of each input, goes to the buffer."""


HANDED = ("ptr %base", "i64 %absent", "i64 %unused", "i64 %idle", "ptr %w")
"""What every stencil finds in registers and hands on: the buffer and the bits of an absent gradient, in registers that
calls leave alone; then the buffer in one whose instructions are shorter, which comes after two that have no use."""
REGISTERS = 8
"""How many numbers are handed on in registers."""
WITHIN = REGISTERS + 1
"""Stands for the register of what a step hands to itself: a gradient that two of its inputs have in common."""


@dataclass(frozen=True, eq=False)
class Stencil:
    """Machine code with holes."""

    code: bytes
    holes: tuple[tuple[int, int, int], ...]
    """Where a hole is, which operand belongs there, and what is added to its offset."""
    constants: tuple[tuple[int, int, int], ...]
    """Where an offset to a constant is, which chunk the constant stands in, and where, as seen from that place."""


@dataclass
class Library:
    """The stencils made so far, for one type of number, and the constants they read."""

    real: Real
    stencils: dict[Placed, Stencil] = field(default_factory=dict)
    chunks: list[bytes] = field(default_factory=list)
    ways: dict[str, int] = field(default_factory=dict)
    """The chunk that leads to a function, by its symbol."""

    def need(self, keys: Iterable[Placed]) -> list[Stencil]:
        """Return stencils by their keys, making those that are not there yet."""
        wanted = list(keys)
        missing = [key for key in dict.fromkeys(wanted) if key not in self.stencils]
        if missing:
            self.stencils.update(zip(missing, self._made(missing), strict=True))
        return [self.stencils[key] for key in wanted]

    def constants(self, made: Sequence[Stencil]) -> tuple[bytes, dict[int, int]]:
        """Return the constants that some stencils read, and where each chunk of them begins."""
        pool, bases = bytearray(), dict[int, int]()
        for chunk in sorted({chunk for stencil in made for _, chunk, _ in stencil.constants}):
            bases[chunk] = len(pool)
            pool += self.chunks[chunk] + bytes(-len(self.chunks[chunk]) % 64)
        return bytes(pool), bases

    def _made(self, keys: Sequence[Placed]) -> list[Stencil]:
        bodies = list[str]()
        given = ", ".join([*HANDED, *(f"{self.real.type} %r{k}" for k in range(1, REGISTERS + 1))])
        declared = {f"declare preserve_nonecc void @next({re.sub(' %[a-z0-9]+', '', given)})"}
        for number, placed in enumerate(keys):
            emitter = Emitter(self.real, call_symbol)
            access = _Holes(emitter, placed)
            write(emitter, placed.key, access)
            declared |= emitter.declared
            end = f"  musttail call preserve_nonecc void @next({access.handed_on()})\n"
            end = "" if placed.key == Plain("return") else end
            body = "\n".join(emitter.lines)
            bodies.append(f"define preserve_nonecc void @s{number}({given}) {{\n{body}\n{end}  ret void\n}}")
        holes = [f"@h{k} = external dso_local global i8" for k in range(HOLES)]
        text = "\n".join([f'target triple = "{machine.TRIPLE}"', *holes, *sorted(declared), *bodies])
        module = machine.llvm().parse_assembly(text)
        module.verify()
        return self._read(machine.target(stencils=True).emit_object(module), len(keys))

    def _read(self, binary: bytes, count: int) -> list[Stencil]:
        """Take the object file apart."""
        from elftools.elf.elffile import ELFFile  # noqa: PLC0415  # only native code needs it

        elf: Any = ELFFile(io.BytesIO(binary))
        sections = enumerate(elf.iter_sections())
        chunks: _Chunks = {k: self._chunk(part.data()) for k, part in sections if part.name.startswith(".rodata")}
        text = elf.get_section_by_name(".text").data()
        symbols = elf.get_section_by_name(".symtab")
        spans = {symbol.name: (symbol["st_value"], symbol["st_size"]) for symbol in symbols.iter_symbols()}
        found = sorted((*spans[f"s{number}"], number) for number in range(count))
        entries = list[Any]()
        relocations = elf.get_section_by_name(".rela.text")
        for entry in relocations.iter_relocations() if relocations else ():
            symbol = symbols.get_symbol(entry["r_info_sym"])
            entries.append((entry["r_offset"], entry["r_info_type"], entry["r_addend"], symbol))
            if symbol.name.startswith(SYMBOL) and symbol.name not in self.ways:
                self.ways[symbol.name] = self._chunk(_way(int(symbol.name[len(SYMBOL) :])))
        chunks.update(self.ways)
        entries.sort(key=lambda entry: entry[0])
        stencils, at = dict[int, Stencil](), 0
        for start, size, number in found:
            inside = []
            while at < len(entries) and entries[at][0] < start + size:
                inside.append(entries[at])
                at += 1
            stencils[number] = _stencil(text[start : start + size], start, inside, chunks)
        return [stencils[number] for number in range(count)]

    def _chunk(self, data: bytes) -> int:
        """Keep constants and return the number of their chunk."""
        self.chunks.append(data)
        return len(self.chunks) - 1


_Chunks = dict[int | str, int]
"""The chunks that an object file refers to, by section or by symbol."""


def _way(address: int) -> bytes:
    """Return code that goes on at an address.

    A stencil calls it by an offset, which the processor knows when it reads the call: in large circuits each call is
    made once, and the processor would find out late where one by address leads.
    """
    return bytes.fromhex("ff25 00000000") + address.to_bytes(8, "little")


def _stencil(code: bytes, start: int, entries: list[Any], chunks: _Chunks) -> Stencil:
    """Return a stencil from its bytes and relocations."""
    jumps = [offset - start for offset, kind, _, symbol in entries if symbol.name == "next" and kind == _JUMP]
    size = len(code)
    # The closing jump leads to where the next stencil is laid anyway.
    if jumps and jumps[-1] == size - 4 and code[size - 5] == 0xE9:
        size -= 5
    body = np.frombuffer(code[:size], np.uint8).copy()
    holes, constants = list[tuple[int, int, int]](), list[tuple[int, int, int]]()
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
    """How the steps of a program reach the working buffer."""

    def load(self, hole: int) -> str:
        """Return the bits that stand where a hole points."""

    def store(self, hole: int, bits: str) -> None:
        """Put bits where a hole points."""


class _Holes:
    """Access through holes that are filled in later, and through registers."""

    def __init__(self, emitter: Emitter, placed: Placed) -> None:
        self.emitter, self.real = emitter, emitter.real
        first, write = (ARRIVED, GRADIENTS) if isinstance(placed.key, Back) else (0, OUTPUT)
        # What arrived is followed by the gradients.
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
        """Return what the next stencil is given: the buffer and the newest numbers."""
        numbers = [self._new.get(k, "poison" if self._calls else f"%r{k}") for k in range(1, REGISTERS + 1)]
        given = [f"{self.real.type} {number}" for number in numbers]
        if self._begins:
            absent = self.real.absent if self.real.bits == "i64" else "poison"
            return ", ".join([HANDED[0], f"i64 {absent}", *HANDED[2:], *given])
        return ", ".join([*HANDED[:-1], f"ptr {self._buffer}", *given])

    @property
    def _buffer(self) -> str:
        # A called function may change the short register, not the other one.
        return "%base" if self.emitter.called else "%w"

    def _address(self, hole: int) -> str:
        return self.emitter.new(f"getelementptr i8, ptr {self._buffer}, i64 ptrtoint (ptr @h{hole} to i64)")


class _Nowhere:
    """Access to nothing: for finding out what a step does."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter

    def load(self, hole: int) -> str:
        return f"%at{hole}"

    def store(self, hole: int, bits: str) -> None:
        pass


@cache
def calls(key: Key, real: Real) -> bool:
    """Return whether a step calls a function, so that registers are lost."""
    emitter = Emitter(real, call_vector)
    write(emitter, key, _Nowhere(emitter))
    return emitter.called


def write(emitter: Emitter, key: Key, access: Access) -> None:
    """Write what one step does."""
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
    """Return what a kind of node computes, and the inputs it reads."""
    form = kind.form()
    return lowered(form), tuple(sorted(slots_of(form)))


def _forward(emitter: Emitter, kind: Kind, access: Access) -> None:
    tree, slots = _computed(kind)
    given = {str(k): _read(emitter, access, k, kind.types[k]) for k in slots}
    access.store(OUTPUT, emitter.bits_of(emitter.number(emitter.tree(tree, given))))


class Sending(NamedTuple):
    """What a backward step computes: the slots it reads, what several wires use, and each wire's value and mask."""

    needed: frozenset[int]
    shared: tuple[Tree, ...]
    sent: tuple[tuple[int, Tree, Tree | None], ...]


@cache
def sending(kind: Kind, moving: int) -> Sending:
    """Return what the backward step of a kind computes, for the inputs whose bits are set."""
    rule = kind.rule(moving)
    forms = [*rule.shared, *(form for one in rule.sent for form in (one.value, one.mask))]
    sent = [(one.slot, lowered(one.value), None if one.mask is None else lowered(one.mask)) for one in rule.sent]
    return Sending(slots_read(forms), tuple(map(lowered, rule.shared)), tuple(sent))


def _backward(emitter: Emitter, back: Back, access: Access) -> None:
    """Write what a node sends back, and how it meets what came back before."""
    kind, real, count = back.kind, emitter.real, len(back.ways)
    found = sending(kind, sum(1 << slot for slot, way in enumerate(back.ways) if way))
    given = {str(k): _read(emitter, access, k, kind.types[k]) for k in range(count) if k in found.needed}
    if count in found.needed:
        given[str(count)] = _read(emitter, access, OUTPUT, kind.type)
    bits = access.load(ARRIVED)
    given[str(count + 1)] = Value(emitter.real_of(bits))
    present = emitter.new(f"icmp ne {real.bits} {bits}, {emitter.absent}") if back.masked else None
    for k, tree in enumerate(found.shared):
        given[str(count + 3 + k)] = emitter.tree(tree, given)
    ready = [
        (slot, emitter.number(emitter.tree(value, given)), _both(emitter, given, mask, present))
        for slot, value, mask in found.sent
    ]
    for slot, value, there in ready:
        _meet(emitter, access, GRADIENTS + slot, back.ways[slot], value, there)


def _both(emitter: Emitter, given: dict[str, Value], mask: Tree | None, present: str | None) -> str | None:
    """Return where something sent is present: where the op lets it through, if it arrived at all."""
    own = None if mask is None else emitter.truth(emitter.tree(mask, given))
    if own is None or present is None:
        return present if own is None else own
    return emitter.new(f"and {emitter.real.condition} {own}, {present}")


def _meet(emitter: Emitter, access: Access, hole: int, way: int, value: str, there: str | None) -> None:
    """Write how something sent meets the gradient that is there; what is not present changes nothing."""
    real, sent = emitter.real, emitter.bits_of(value)
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
    """Return the stencils for a type of number."""
    return Library(real)
