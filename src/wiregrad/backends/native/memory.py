"""Memory for machine code: first writable, then executable, never both at once."""

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import NotNativeError

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
        """Return the bytes, to be written before `seal`."""
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
def _load_mprotect() -> Any:
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
