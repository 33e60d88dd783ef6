"""LLVM as a just-in-time compiler for this processor, and memory that machine code can run in.

llvmlite is imported here and nowhere else, and only when something is compiled that is not in the cache on disk
(`code_cache`). Functions compiled by `compile_functions` live as long as the process: there are few of them, and
running code cannot be freed. Memory for machine code is first written, then sealed: it is never writable and executable
at the same time.

LLVM writes an object file. `link_object` makes a `CodeImage` of it: one block of bytes in which only the addresses of
things outside are open. The text that LLVM compiles names them by their addresses in this process; `name_address` gives
an address a name that is the same in every process, and text in which every address has a name can be cached.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import re
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import cache
from threading import RLock
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wiregrad import settings
from wiregrad.backends.native import code_cache
from wiregrad.backends.native.llvm_writer import LlvmWriter, format_pointer
from wiregrad.errors import NotNativeError
from wiregrad.lazy import NamedTuple

NATIVE_SWITCH = settings.NATIVE_VARIABLE
"""The environment variable that turns native code off when it is 0, and stencils when it is `llvm`."""
STENCIL_TRIPLE = "x86_64-unknown-linux-gnu"
"""Stencils are extracted from ELF objects on every platform."""
STENCIL_PROCESSORS = frozenset(["x86_64", "amd64"])
"""Processors that have stencils; their C functions follow the System V calling convention."""


class LlvmModule(Protocol):
    """A module of LLVM, as llvmlite wraps it."""

    def verify(self) -> None:
        """Raise an error if the module is not well formed."""


class TargetMachine(Protocol):
    """LLVM's compiler for one processor, as llvmlite wraps it."""

    def emit_object(self, module: LlvmModule) -> bytes:
        """Return a module as an object file."""


LLVM_LOCKS: list[AbstractContextManager[Any]] = [RLock()]
"""What a fork waits for: the lock that is held while llvmlite is imported, and, from then on, llvmlite's own.

Without them, the forked process would inherit half a module, or llvmlite's lock, from a thread that it does not have,
such as the one that promotes programs. It would wait for the rest of the module without end, or, inside `os.fork`, for
the lock, where the objects of that thread are freed.
"""


def _take_llvm_locks() -> None:
    # While this waits for the first lock, the thread that imports llvmlite may add the second.
    for lock in LLVM_LOCKS:
        lock.__enter__()


def _release_llvm_locks() -> None:
    for lock in reversed(LLVM_LOCKS):
        lock.__exit__(None, None, None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_take_llvm_locks, after_in_parent=_release_llvm_locks, after_in_child=_release_llvm_locks
    )


@cache
def load_llvm() -> ModuleType:
    """Return llvmlite's binding, initialized for this processor; raise `NotNativeError` if it cannot be imported."""
    check_native_enabled()
    with LLVM_LOCKS[0]:
        return _import_llvm()


@cache
def _import_llvm() -> ModuleType:
    try:
        from llvmlite import binding  # noqa: PLC0415  # takes 30 ms, which only native code needs
    except ImportError as error:
        raise NotNativeError(
            f"native code needs llvmlite, which cannot be imported ({error}): pip install llvmlite"
        ) from None
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    lock = getattr(binding.ffi.lib, "_lock", None)
    if lock is not None:
        LLVM_LOCKS.append(lock)
    loaded: ModuleType = binding
    return loaded


def check_native_enabled() -> None:
    """Raise `NotNativeError` if native code is switched off."""
    if settings.read_setting(NATIVE_SWITCH) == settings.NATIVE_OFF:
        raise NotNativeError(f"native code is switched off by {NATIVE_SWITCH}=0 in the environment")


def supports_stencils() -> bool:
    """Return whether this machine supports stencils; if not, LLVM compiles every circuit right away."""
    return links_own_code() and settings.read_setting(NATIVE_SWITCH) != settings.NATIVE_LLVM


def links_own_code() -> bool:
    """Return whether machine code for this machine is linked here, and so can be cached; if not, LLVM does it."""
    return platform.machine().lower() in STENCIL_PROCESSORS and sys.platform != "win32"


def processor_features() -> frozenset[str]:
    """Return the processor's features, as LLVM names them."""
    return _describe_processor().features


def processor_name() -> str:
    """Return the processor's name, as LLVM spells it."""
    return _describe_processor().name


class _ProcessorFacts(NamedTuple):
    """The processor, in LLVM's words."""

    name: str
    features: frozenset[str]


@cache
def _describe_processor() -> _ProcessorFacts:
    """Return what LLVM says about this processor; the answer is cached on disk."""
    check_native_enabled()
    entry = CachedEntry("processor", read_processor_identity() if links_own_code() else "")
    content = entry.load()
    if content is not None:
        name, *features = content.decode().split("\n")
        return _ProcessorFacts(name, frozenset(features))
    name = str(load_llvm().get_host_cpu_name())
    features = sorted(name for name, has in load_llvm().get_host_cpu_features().items() if has)
    entry.store("\n".join([name, *features]).encode())
    return _ProcessorFacts(name, frozenset(features))


class CachedEntry:
    """An entry of the cache on disk, for what depends on some texts, on llvmlite and on this version of wiregrad alone.

    If a text is empty (a processor that cannot be identified), or llvmlite is missing, nothing is cached.
    """

    def __init__(self, *parts: str) -> None:
        llvm = code_cache.identify_llvm()
        self._cache = code_cache.open_cache() if links_own_code() and llvm and all(parts) else None
        self.name = code_cache.make_entry_name(code_cache.identify_room(), llvm, *parts)

    def load(self) -> bytes | None:
        """Return the content; None if there is none."""
        return None if self._cache is None else self._cache.load_entry(self.name)

    def store(self, content: bytes) -> None:
        """Store the content, if possible."""
        if self._cache is not None:
            self._cache.store_entry(self.name, content)


CPUID_CODE = bytes.fromhex("53 4989d0 89f8 89f1 0fa2 418900 41895804 41894808 4189500c 5b c3")
"""`void cpuid(uint32_t leaf, uint32_t subleaf, uint32_t results[4])`."""
XGETBV_CODE = bytes.fromhex("31c9 0f01d0 48c1e220 4809d0 c3")
"""`uint64_t xgetbv(void)`: which vector registers the system saves."""
CPUID_LEAVES = ((1, 0), (7, 0), (7, 1), (0xD, 1), (0x14, 0), (0x19, 0), (0x24, 0))
"""The leaves of the `cpuid` instruction that LLVM reads, beside the extended ones."""
EXTENDED_LEAVES = ((0x80000001, 0), (0x80000008, 0))
VARYING_REGISTERS = {1: (1,), 0xD: (1, 2, 3), 0x80000008: (2,)}
"""Results of a leaf that differ between cores, or from one moment to the next."""
OSXSAVE_BIT = 1 << 27


@cache
def read_processor_identity() -> str:
    """Return what the `cpuid` instruction says about this processor: all that LLVM's answers depend on."""
    vendor = _read_leaf(0, 0)
    extended = _read_leaf(0x80000000, 0)
    known = [leaf for leaf in CPUID_LEAVES if leaf[0] <= vendor[0]]
    known += [leaf for leaf in EXTENDED_LEAVES if leaf[0] <= extended[0]]
    rows = [list(vendor), *([leaf, *_read_leaf(leaf, subleaf)] for leaf, subleaf in known)]
    for row in rows[1:]:
        for register in VARYING_REGISTERS.get(row[0], ()):
            row[1 + register] = 0
    has_xgetbv = _read_leaf(1, 0)[2] & OSXSAVE_BIT
    rows.append([_call_code(XGETBV_CODE, ctypes.c_uint64) if has_xgetbv else 0])
    return repr(rows)


def _read_leaf(leaf: int, subleaf: int) -> tuple[int, int, int, int]:
    """Return the registers eax, ebx, ecx and edx after `cpuid`."""
    results = (ctypes.c_uint32 * 4)()
    arguments = (ctypes.c_uint32(leaf), ctypes.c_uint32(subleaf), ctypes.c_void_p(ctypes.addressof(results)))
    _call_code(CPUID_CODE, None, *arguments)
    a, b, c, d = results
    return a, b, c, d


def _call_code(code: bytes, result: type[ctypes.c_uint64] | None, *arguments: object) -> int:
    """Run a few bytes of machine code as a C function."""
    called = ctypes.CFUNCTYPE(result, *map(type, arguments))(_place_shared_code(code).address)(*arguments)
    return int(called or 0)


@cache
def _place_shared_code(code: bytes) -> MachineCode:
    """Return memory with a few bytes of machine code, for all calls of them."""
    return place_code(code)


def place_code(code: bytes) -> MachineCode:
    """Return memory that holds machine code, ready to run."""
    memory = MachineCode(len(code))
    memory.writable_bytes()[:] = np.frombuffer(code, np.uint8)
    memory.seal()
    return memory


def vector_bytes() -> int:
    """Return the size in bytes of the widest vector registers that support masks or blends."""
    if {"avx512f", "avx512dq", "avx512vl"} <= processor_features():
        return 64
    return 32 if "avx2" in processor_features() else 16


@cache
def target_machine(stencils: bool = False) -> TargetMachine:
    """Return a target machine: for functions, or for stencils, whose operands are absolute 32-bit offsets."""
    if stencils:
        # Stencils pass the upper halves of vector registers on unchanged; `run_code` clears them once at the end.
        return _create_target_machine(STENCIL_TRIPLE, ",-vzeroupper", reloc="static", codemodel="small")
    if links_own_code():
        return _create_target_machine(STENCIL_TRIPLE, reloc="pic", codemodel="small")
    return _create_target_machine(load_llvm().get_process_triple(), reloc="pic", codemodel="jitdefault")


def _create_target_machine(triple: str, more: str = "", **where: str) -> TargetMachine:
    target = load_llvm().Target.from_triple(triple)
    flags = list_feature_flags() + more
    machine: TargetMachine = target.create_target_machine(cpu=processor_name(), features=flags, opt=2, **where)
    return machine


def list_feature_flags() -> str:
    """Return the processor's features as a target machine takes them."""
    return ",".join(f"+{name}" for name in sorted(processor_features()))


_ADDRESS_NAMES: dict[int, str] = {}


def name_address(address: int, name: str) -> int:
    """Give an address a name under which every process finds the same thing; return the address.

    What is there must stay there as long as the process lives.
    """
    _ADDRESS_NAMES[address] = name
    return address


@cache
def _name_python_objects() -> None:
    """Name the objects of Python and NumPy that native code compares with."""
    types = (float, int, bool, complex, list, tuple, dict, str, np.ndarray, np.float64, np.float32, np.int64, np.bool_)
    for kind in types:
        name_address(id(kind), f"object.{kind.__module__}.{kind.__name__}")
    for value in (None, True, False):
        name_address(id(value), f"object.{value}")
    for char in "fdlq?":
        name_address(id(np.dtype(char)), f"object.dtype.{np.dtype(char).str}")


_POINTER_CONSTANT = re.compile(re.escape(format_pointer(0)).replace("0", r"(\d+)"))


class PortableText(NamedTuple):
    """LLVM text in which addresses are symbols, so that it is the same in every process."""

    text: str
    symbols: dict[str, int]
    """The address of each name."""


def make_portable(text: str) -> PortableText | None:
    """Return LLVM text with names in place of addresses; None if an address has no name.

    >>> where = name_address(4096, "a.thing")
    >>> make_portable(f"call void {format_pointer(4096)}()").text.split(chr(10))
    ['@"a.thing" = external global i8', 'call void @"a.thing"()']
    """
    _name_python_objects()
    addresses = sorted({int(number) for number in _POINTER_CONSTANT.findall(text)})
    if not _ADDRESS_NAMES.keys() >= set(addresses):
        return None
    symbols = {_ADDRESS_NAMES[address]: address for address in addresses}
    heads = [f'@"{name}" = external global i8' for name in sorted(symbols)]
    body = _POINTER_CONSTANT.sub(lambda found: f'@"{_ADDRESS_NAMES[int(found[1])]}"', text)
    return PortableText("\n".join([*heads, body]), symbols)


class OwnText(NamedTuple):
    """LLVM text that depends on the modules of this package alone, and contains no addresses."""

    name: str
    """A name that no other such text has."""
    write: Callable[[], str]
    """Writes the text; it is called only if what was compiled from it is not cached."""


class FunctionCode(Protocol):
    """Functions in memory."""

    size: int
    """The size of their machine code in bytes."""

    def find_address(self, name: str) -> int:
        """Return the address of a function."""


class JitFunctions:
    """Functions compiled by LLVM, or loaded from the cache; they live as long as this object."""

    def __init__(self, text: str | OwnText, level: int = 2, *, cached: bool = True) -> None:
        check_native_enabled()
        linked = _link_functions(text, level, cached) if links_own_code() else None
        self._code: FunctionCode = linked or _EngineFunctions(text if isinstance(text, str) else text.write(), level)
        self.size = self._code.size
        """The size of their machine code in bytes."""
        self.identity = linked.identity if linked else ""
        """A name of this code that is the same in every process; empty if there is none."""

    def find_address(self, name: str) -> int:
        """Return the address of a function."""
        return self._code.find_address(name)


class _EngineFunctions:
    """Functions in an execution engine of LLVM, which links them itself."""

    def __init__(self, text: str, level: int) -> None:
        # An engine takes ownership of its target machine, so each gets its own.
        own = _create_target_machine(load_llvm().get_process_triple(), codemodel="jitdefault")
        self._engine = load_llvm().create_mcjit_compiler(optimize_module(text, level), own)
        self.size = 0
        self._engine.set_object_cache(self._note_code_size)
        self._engine.finalize_object()

    def _note_code_size(self, _module: LlvmModule, binary: bytes) -> None:
        self.size = len(binary)

    def find_address(self, name: str) -> int:
        return int(self._engine.get_function_address(name))


class _LinkedFunctions:
    """Functions of a `CodeImage` in memory; `symbols` has the addresses of what it refers to."""

    def __init__(self, image: CodeImage, symbols: Mapping[str, int], identity: str) -> None:
        self.identity = identity
        self.size = len(image.code)
        self._exports = image.exports
        self._memory = MachineCode(self.size)
        target = self._memory.writable_bytes()
        target[:] = np.frombuffer(image.code, np.uint8)
        for place, symbol, offset in image.slots:
            base = _find_symbol(symbol, symbols) if symbol else self._memory.address
            target[place : place + 8] = np.frombuffer((base + offset).to_bytes(8, "little"), np.uint8)
        del target
        self._memory.seal()

    def find_address(self, name: str) -> int:
        return self._memory.address + self._exports[name]


def _find_symbol(name: str, symbols: Mapping[str, int]) -> int:
    """Return the address of a name: one of these, or a C function that LLVM calls by itself, such as memcpy."""
    if name in symbols:
        return symbols[name]
    for library in (ctypes.CDLL(None), _load_math_library()):
        if hasattr(library, name):
            return int(ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0)
    raise NotNativeError(f"native code refers to {name}, which was not found")


def _link_functions(text: str | OwnText, level: int, cached: bool) -> _LinkedFunctions | None:
    """Return functions from the cache, or compiled and stored there; None if their object file cannot be linked."""
    target = processor_name(), list_feature_flags(), str(level)
    if isinstance(text, OwnText):
        entry = CachedEntry("own functions", *target, text.name)
        image = _load_image(entry, text.write, level, cached)
        return None if image is None else _LinkedFunctions(image, {}, entry.name)
    portable = make_portable(text)
    if portable is None:
        image = _compile_image(text, level)
        return None if image is None else _LinkedFunctions(image, {}, "")
    entry = CachedEntry("functions", *target, portable.text)
    image = _load_image(entry, lambda: portable.text, level, cached)
    return None if image is None else _LinkedFunctions(image, portable.symbols, entry.name)


def _load_image(entry: CachedEntry, write_text: Callable[[], str], level: int, cached: bool) -> CodeImage | None:
    """Return the code of an entry of the cache, or compile it and store it there; None if it cannot be linked."""
    content = entry.load() if cached else None
    if content is not None:
        return CodeImage.from_bytes(content)
    image = _compile_image(write_text(), level)
    if cached and image is not None:
        entry.store(image.to_bytes())
    return image


def _compile_image(text: str, level: int) -> CodeImage | None:
    return link_object(target_machine().emit_object(optimize_module(text, level)))


_PERMANENT_FUNCTIONS: list[JitFunctions] = []
"""Functions that are never freed."""


def compile_functions(text: str | OwnText, *names: str, level: int = 2, cached: bool = True) -> list[int]:
    """Compile functions from LLVM text, never to be freed, and return their addresses."""
    functions = keep_functions(text, level, cached=cached)
    addresses = [functions.find_address(name) for name in names]
    if functions.identity:
        for name, address in zip(names, addresses, strict=True):
            name_address(address, f"code.{functions.identity}.{name}")
    return addresses


def keep_functions(text: str | OwnText, level: int = 2, *, cached: bool = True) -> JitFunctions:
    """Compile functions from LLVM text, never to be freed."""
    functions = JitFunctions(text, level, cached=cached)
    _PERMANENT_FUNCTIONS.append(functions)
    return functions


class ObjectSymbol(NamedTuple):
    """A symbol of an object file and what it refers to."""

    name: str
    section: int
    """The number of the section of its definition; that of no section with data if it is defined elsewhere."""
    offset: int
    """Its offset in its section."""
    size: int


class ObjectRelocation(NamedTuple):
    """A place in a section that is filled with an address when the code is put in memory."""

    place: int
    kind: int
    addend: int
    symbol: ObjectSymbol


class ObjectSection(NamedTuple):
    """A section of an object file that is needed at run time."""

    name: str
    data: bytes
    alignment: int
    relocations: list[ObjectRelocation]
    """In the order of their places."""


class ObjectFile(NamedTuple):
    """What linking needs of an object file."""

    sections: dict[int, ObjectSection]
    """By number."""
    symbols: list[ObjectSymbol]

    def find_text(self) -> ObjectSection:
        """Return the section of the machine code."""
        return next(section for section in self.sections.values() if section.name == ".text")


_ELF_HEADER = struct.Struct("<6s34xQ10xHHH")
"""Magic bytes, then from byte 40 the offset of the section headers, and from byte 58 their size, number and the number
of the one with the names."""
_ELF_SECTION = struct.Struct("<IIQQQQIIQQ")
"""Name, type, flags, address, offset, size, link, info, alignment and size of an entry."""
_ELF_SYMBOL = struct.Struct("<IBBHQQ")
"""Name, kind, visibility, section, offset and size."""
_ELF_RELOCATION = struct.Struct("<QIIq")
"""Place, kind, symbol and addend."""
_ELF_64_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
_SYMBOL_TABLE, _RELOCATIONS, _NO_DATA, _RELOCATIONS_WITHOUT_ADDEND = 2, 4, 8, 9
"""Types of sections."""
_NEEDED_AT_RUN_TIME = 2
"""A flag of a section."""


class _ElfSection(NamedTuple):
    """The fields of a section header that are needed here."""

    name: int
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int

    def read(self, binary: bytes) -> bytes:
        """Return what the section holds, which is zeros if it is not in the file."""
        return bytes(self.size) if self.type == _NO_DATA else binary[self.offset : self.offset + self.size]


def parse_object_file(binary: bytes) -> ObjectFile:
    """Parse an object file in the ELF format of 64-bit processors."""
    headers, names = _parse_section_headers(binary)
    symbols = list[ObjectSymbol]()
    for header in headers:
        if header.type == _SYMBOL_TABLE:
            texts = headers[header.link].read(binary)
            symbols = [
                ObjectSymbol(_read_name(texts, name), section, offset, size)
                for name, _, _, section, offset, size in _ELF_SYMBOL.iter_unpack(header.read(binary))
            ]
    relocations = dict[int, list[ObjectRelocation]]()
    for header in headers:
        if header.type == _RELOCATIONS:
            rows = [
                ObjectRelocation(place, kind, addend, symbols[symbol])
                for place, kind, symbol, addend in _ELF_RELOCATION.iter_unpack(header.read(binary))
            ]
            relocations[header.info] = sorted(rows, key=lambda row: row.place)
    sections = {
        number: ObjectSection(name, header.read(binary), header.alignment, relocations.get(number, []))
        for number, (header, name) in enumerate(zip(headers, names, strict=True))
        # Frames are for exceptions, which native code does not raise.
        if header.flags & _NEEDED_AT_RUN_TIME and not name.startswith(".eh_frame")
    }
    return ObjectFile(sections, symbols)


def _parse_section_headers(binary: bytes) -> tuple[list[_ElfSection], list[str]]:
    """Return the section headers of an object file and the names of the sections."""
    magic, start, header_size, count, name_section = _ELF_HEADER.unpack_from(binary)
    # A file of more sections than fit into 16 bits says that it has none.
    if magic != _ELF_64_LITTLE_ENDIAN or header_size != _ELF_SECTION.size or not count:
        raise NotNativeError("LLVM wrote an object file in a format that is not known here")
    headers = [
        _ElfSection(name, type_, flags, offset, size, link, info, alignment)
        for name, type_, flags, _, offset, size, link, info, alignment, _ in _ELF_SECTION.iter_unpack(
            binary[start : start + count * header_size]
        )
    ]
    if any(header.type == _RELOCATIONS_WITHOUT_ADDEND for header in headers):
        raise NotNativeError("LLVM wrote an object file with relocations that are not known here")
    texts = headers[name_section].read(binary)
    return headers, [_read_name(texts, header.name) for header in headers]


def _read_name(texts: bytes, start: int) -> str:
    """Return the name at a place of a table of names, each of which ends with a zero."""
    return texts[start : texts.index(0, start)].decode()


ABSOLUTE_32_RELOCATIONS = (10, 11)
"""x86-64 relocations to an absolute 32-bit address; offsets are small enough for either sign."""
RELATIVE_RELOCATION = 2
"""The x86-64 relocation relative to the instruction."""
CALL_RELOCATION = 4
"""The x86-64 relocation of a jump or call."""
_ABSOLUTE_64_RELOCATION = 1
_TABLE_RELOCATIONS = (9, 41, 42)
"""x86-64 relocations relative to the instruction, to the place that holds the address of a symbol."""
_LINKED_SECTIONS = (".text", ".rodata", ".data.rel.ro")


class CodeImage(NamedTuple):
    """Machine code with its constants in one block, in which only some addresses are open."""

    code: bytes
    exports: dict[str, int]
    """The offset of each function."""
    slots: list[tuple[int, str, int]]
    """Where 8 bytes hold an address: the place, the name (empty: the block itself), and an offset to it."""

    def to_bytes(self) -> bytes:
        """Return the image as bytes."""
        exports = [f"{offset} {name}" for name, offset in self.exports.items()]
        slots = [f"{place} {offset} {symbol}" for place, symbol, offset in self.slots]
        head = "\n".join([str(len(exports)), *exports, *slots]).encode()
        return len(head).to_bytes(8, "little") + head + self.code

    @classmethod
    def from_bytes(cls, data: bytes) -> CodeImage:
        """Return the image of some bytes."""
        start = 8 + int.from_bytes(data[:8], "little")
        count, *lines = data[8:start].decode().split("\n")
        exports = [line.split(" ", 1) for line in lines[: int(count)]]
        slots = [line.split(" ", 2) for line in lines[int(count) :]]
        return cls(
            data[start:],
            {name: int(offset) for offset, name in exports},
            [(int(place), symbol, int(offset)) for place, offset, symbol in slots],
        )


JUMP_CODE = bytes.fromhex("ff25 00000000")
"""A jump to the address in the 8 bytes behind it."""
_JUMP_BYTES = 16


def write_jump(address: int) -> bytes:
    """Return machine code that jumps to an address.

    Code calls this jump by a relative offset, which the processor knows when it decodes the call. In a large circuit
    each call runs only once, so the target of an indirect call would be mispredicted.
    """
    return JUMP_CODE + address.to_bytes(8, "little")


class _Linker:
    """Puts the sections of an object file into one block, followed by a jump to each symbol that needs one."""

    def __init__(self, parsed: ObjectFile) -> None:
        self._code = bytearray()
        self._starts = dict[int, int]()
        for number, section in parsed.sections.items():
            self._code += bytes(-len(self._code) % max(section.alignment, 1))
            self._starts[number] = len(self._code)
            self._code += section.data
        self._code += bytes(-len(self._code) % _JUMP_BYTES)
        self._jumps = dict[ObjectSymbol, int]()
        self._slots = list[tuple[int, str, int]]()

    def fill_place(self, start: int, relocation: ObjectRelocation) -> bool:
        """Fill a place in a section that begins at `start`; return whether this kind of relocation is known."""
        place = start + relocation.place
        symbol = relocation.symbol
        if relocation.kind == _ABSOLUTE_64_RELOCATION:
            self._slots.append((place, *self._locate(symbol, relocation.addend)))
        elif relocation.kind in _TABLE_RELOCATIONS:
            self._write_offset(place, self._find_jump(symbol) + len(JUMP_CODE) + relocation.addend)
        elif relocation.kind == CALL_RELOCATION and symbol.section not in self._starts:
            self._write_offset(place, self._find_jump(symbol) + relocation.addend)
        elif relocation.kind in (CALL_RELOCATION, RELATIVE_RELOCATION) and symbol.section in self._starts:
            self._write_offset(place, self._starts[symbol.section] + symbol.offset + relocation.addend)
        else:
            return False
        return True

    def _locate(self, symbol: ObjectSymbol, addend: int = 0) -> tuple[str, int]:
        """Return a symbol as a name and an offset; the name is empty if it is in the block."""
        if symbol.section in self._starts:
            return "", self._starts[symbol.section] + symbol.offset + addend
        return symbol.name, addend

    def _find_jump(self, symbol: ObjectSymbol) -> int:
        """Return the offset of the jump to a symbol; the address behind it is its entry in a table of addresses."""
        if symbol not in self._jumps:
            self._jumps[symbol] = len(self._code)
            self._slots.append((len(self._code) + len(JUMP_CODE), *self._locate(symbol)))
            self._code += write_jump(0).ljust(_JUMP_BYTES, b"\0")
        return self._jumps[symbol]

    def _write_offset(self, place: int, target: int) -> None:
        self._code[place : place + 4] = (target - place).to_bytes(4, "little", signed=True)

    def finish_image(self, symbols: Iterable[ObjectSymbol]) -> CodeImage:
        """Return the image."""
        exports = {
            symbol.name: self._starts[symbol.section] + symbol.offset
            for symbol in symbols
            if symbol.name and symbol.section in self._starts
        }
        return CodeImage(bytes(self._code), exports, self._slots)

    def start_of(self, section: int) -> int:
        """Return where a section begins."""
        return self._starts[section]


def link_object(binary: bytes) -> CodeImage | None:
    """Return an object file as one block of code; None if it has something that is not known here."""
    parsed = parse_object_file(binary)
    filled = [section for section in parsed.sections.values() if section.data]
    if not all(section.name.startswith(_LINKED_SECTIONS) for section in filled):
        return None
    linker = _Linker(parsed)
    for number, section in parsed.sections.items():
        for relocation in section.relocations:
            if not linker.fill_place(linker.start_of(number), relocation):
                return None
    return linker.finish_image(parsed.symbols)


def parse_module(text: str) -> LlvmModule:
    """Return the LLVM module of a text, checked by LLVM's verifier."""
    module: LlvmModule = load_llvm().parse_assembly(text)
    module.verify()
    return module


def optimize_module(text: str, level: int) -> LlvmModule:
    """Return the LLVM module of a text after LLVM's optimization passes."""
    module = parse_module(text)
    if level:
        options = load_llvm().create_pipeline_tuning_options(speed_level=level)
        builder = load_llvm().create_pass_builder(target_machine(), options)
        builder.getModulePassManager().run(module, builder)
    return module


@cache
def find_math_address(name: str, real: str) -> int:
    """Return the address of a function of math.h, for double or float."""
    symbol = name if real == "double" else f"{name}f"
    function = getattr(_load_math_library(), symbol)
    return name_address(int(ctypes.cast(function, ctypes.c_void_p).value or 0), f"math.{symbol}")


@cache
def _load_math_library() -> ctypes.CDLL:
    for name in ("libm.so.6", "libm.dylib", "libm.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    try:
        library = ctypes.CDLL(None)
        _ = library.exp
    except (OSError, AttributeError):
        raise NotNativeError("native code needs C's math library, which was not found") from None
    return library


ENTER_CALL = "call preserve_nonecc void %code(ptr %w, i64 poison, i64 poison, i64 poison, ptr %w)"
"""The call that enters a program's code; `tiers.HANDED_PARAMETERS` describes its arguments."""


def write_register_cleanup(w: LlvmWriter) -> None:
    """Write the instruction that clears the upper halves of vector registers, which stencils leave in use."""
    if "avx" in processor_features():
        w.declare("void", "@llvm.x86.avx.vzeroupper")
        w.call_void("@llvm.x86.avx.vzeroupper")


def write_pause(w: LlvmWriter) -> None:
    """Write the hint that a loop waits for another thread, which may share a core with this one."""
    if "sse2" in processor_features():
        w.declare("void", "@llvm.x86.sse2.pause")
        w.call_void("@llvm.x86.sse2.pause")


@cache
def enter_address() -> int:
    """Return the address of `void enter(void *code, void *w)`, which runs a program's code on a working buffer."""
    w = LlvmWriter()
    w.begin_function("void @enter(ptr %code, ptr %w)")
    w.emit_line(ENTER_CALL)
    write_register_cleanup(w)
    w.end_function()
    return compile_functions(w.format_module(), "enter")[0]


def run_code(code: int, w: int) -> None:
    """Run a program's code on the working buffer at address `w`."""
    _load_enter()(code, w)


@cache
def _load_enter() -> Callable[[int, int], None]:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(enter_address())


RETURN_INSTRUCTION = b"\xc3"


class MachineCode:
    """Machine code in its own memory, which is freed with the object."""

    def __init__(self, size: int) -> None:
        self.size = max(size, 1)
        try:
            self._map = mmap.mmap(-1, self.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, ValueError) as error:
            raise NotNativeError(f"no memory for {size:,} bytes of machine code ({error})") from None
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    def writable_bytes(self) -> NDArray[np.uint8]:
        """Return the bytes of the memory; they must be written before `seal`."""
        return np.frombuffer(self._map, np.uint8, self.size)

    def seal(self) -> None:
        """Make the memory executable and read-only; no view of its bytes may be left."""
        pages = -(-self.size // mmap.PAGESIZE) * mmap.PAGESIZE
        if _load_mprotect()(self.address, pages, mmap.PROT_READ | mmap.PROT_EXEC):
            raise NotNativeError(
                f"this system does not allow executable memory (mprotect: error {ctypes.get_errno()}), "
                f"so circuits run in the interpreter"
            )


@cache
def _load_mprotect() -> Callable[[int, int, int], int]:
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function


@cache
def check_executable_memory() -> None:
    """Raise `NotNativeError` unless memory can be made executable; the result is cached."""
    try_executable_memory()


def try_executable_memory() -> None:
    """Write a return instruction, seal it and run it; raise `NotNativeError` if that is forbidden."""
    code = place_code(RETURN_INSTRUCTION)
    # A function that takes and returns nothing is a single return instruction in the C convention too.
    ctypes.CFUNCTYPE(None)(code.address)()
