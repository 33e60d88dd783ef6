"""LLVM as a just-in-time compiler for this processor, and memory that machine code can run in.

llvmlite is imported here and nowhere else, when native code is first wanted. Functions compiled by `compile_functions`
live as long as the process: there are few of them, and running code cannot be freed. Memory for stencils is first
written, then sealed: it is never writable and executable at the same time.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from wiregrad import settings
from wiregrad.backends.native.llvm_writer import LlvmWriter
from wiregrad.errors import NotNativeError

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


@cache
def load_llvm() -> ModuleType:
    """Return llvmlite's binding, initialized for this processor; raise `NotNativeError` if it cannot be imported."""
    check_native_enabled()
    try:
        from llvmlite import binding  # noqa: PLC0415  # takes 30 ms, which only native code needs
    except ImportError as error:
        raise NotNativeError(
            f"native code needs llvmlite, which cannot be imported ({error}): pip install llvmlite"
        ) from None
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    _lock_llvm_during_forks(binding)
    loaded: ModuleType = binding
    return loaded


def _lock_llvm_during_forks(binding: ModuleType) -> None:
    """Let a fork wait until no other thread is inside LLVM, such as the one that promotes programs.

    Without it the forked process would inherit llvmlite's lock from a thread that it does not have. It would wait for
    it without end, inside `os.fork`, where the objects of that thread are freed.
    """
    lock = getattr(binding.ffi.lib, "_lock", None)
    if lock is not None and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.__enter__, after_in_parent=lock.__exit__, after_in_child=lock.__exit__)


def check_native_enabled() -> None:
    """Raise `NotNativeError` if native code is switched off."""
    if settings.read_setting(NATIVE_SWITCH) == settings.NATIVE_OFF:
        raise NotNativeError(f"native code is switched off by {NATIVE_SWITCH}=0 in the environment")


def supports_stencils() -> bool:
    """Return whether this machine supports stencils; if not, LLVM compiles every circuit right away."""
    known = platform.machine().lower() in STENCIL_PROCESSORS and sys.platform != "win32"
    return known and settings.read_setting(NATIVE_SWITCH) != settings.NATIVE_LLVM


@cache
def processor_features() -> frozenset[str]:
    """Return the processor's features, as LLVM names them."""
    return frozenset(name for name, has in load_llvm().get_host_cpu_features().items() if has)


@cache
def processor_name() -> str:
    """Return the processor's name, as LLVM spells it."""
    return str(load_llvm().get_host_cpu_name())


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
    return _create_target_machine(load_llvm().get_process_triple(), reloc="pic", codemodel="jitdefault")


def _create_target_machine(triple: str, more: str = "", **where: str) -> TargetMachine:
    flags = ",".join(f"+{name}" for name in sorted(processor_features()))
    target = load_llvm().Target.from_triple(triple)
    machine: TargetMachine = target.create_target_machine(cpu=processor_name(), features=flags + more, opt=2, **where)
    return machine


class JitFunctions:
    """Functions compiled by LLVM; they live as long as this object."""

    def __init__(self, text: str, level: int = 2) -> None:
        # An engine takes ownership of its target machine, so each gets its own.
        own = _create_target_machine(load_llvm().get_process_triple(), codemodel="jitdefault")
        self._engine = load_llvm().create_mcjit_compiler(optimize_module(text, level), own)
        self.size = 0
        """The size of their object file in bytes."""
        self._engine.set_object_cache(self._note_code_size)
        self._engine.finalize_object()

    def _note_code_size(self, _module: LlvmModule, binary: bytes) -> None:
        self.size = len(binary)

    def find_address(self, name: str) -> int:
        """Return the address of a function."""
        return int(self._engine.get_function_address(name))


_PERMANENT_FUNCTIONS: list[JitFunctions] = []
"""Functions that are never freed."""


def compile_functions(text: str, *names: str, level: int = 2) -> list[int]:
    """Compile functions from LLVM text, never to be freed, and return their addresses."""
    functions = keep_functions(text, level)
    return [functions.find_address(name) for name in names]


def keep_functions(text: str, level: int = 2) -> JitFunctions:
    """Compile functions from LLVM text, never to be freed."""
    functions = JitFunctions(text, level)
    _PERMANENT_FUNCTIONS.append(functions)
    return functions


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
    function = getattr(_load_math_library(), name if real == "double" else f"{name}f")
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


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
    code = MachineCode(1)
    code.writable_bytes()[:] = list(RETURN_INSTRUCTION)
    code.seal()
    # A function that takes and returns nothing is a single return instruction in the C convention too.
    ctypes.CFUNCTYPE(None)(code.address)()
