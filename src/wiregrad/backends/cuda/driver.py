"""NVIDIA's driver, called by ctypes: GPUs, their memory, streams and kernels. Nothing else of CUDA is needed.

`find_gpu` returns a `Gpu`; the rest are its methods. They use the GPU's primary context, which CuPy, PyTorch and JAX
use too, so that addresses of their arrays are valid here. Any thread may call them. Failures raise `DeviceError`.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from wiregrad.errors import DeviceError

LIBRARY_NAMES = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")
"""The names under which the driver's library is looked for."""
POINTER_DEVICE = 9
"""The attribute of a pointer that is the number of its device."""
THREADS_PER_BLOCK = 64
"""The number of threads that start together; a multiple of 32. Small blocks suit kernels that need many registers."""
POOL_KEEPS_BYTES = 4
"""The attribute of a memory pool that says how many unused bytes it keeps."""
KEPT_SHARE = 8
"""An eighth of a GPU's memory is kept for later arrays: giving it back and asking for it again takes milliseconds."""
LOG_BYTES = 4096
"""The size of the buffer for what the driver says about PTX that it refuses."""
LOG_OPTIONS = (5, 6)
"""The options of loading a module that name the buffer of error messages, and its size."""


@cache
def load_library() -> ctypes.CDLL:
    """Return the driver's library, initialized; raise `DeviceError` if there is none or it finds no GPU."""
    library = None
    for name in LIBRARY_NAMES:
        try:
            library = ctypes.CDLL(name)
            break
        except OSError:
            continue
    if library is None:
        raise DeviceError(
            f'no NVIDIA driver: {" and ".join(LIBRARY_NAMES)} cannot be loaded; device="cuda" needs an NVIDIA GPU and '
            "its driver, and no CUDA toolkit"
        )
    code = library.cuInit(0)
    if code:
        raise DeviceError(f"the NVIDIA driver finds no GPU it can use: cuInit failed with {_name_error(library, code)}")
    return library


def _name_error(library: ctypes.CDLL, code: int) -> str:
    text = ctypes.c_char_p()
    library.cuGetErrorName(code, ctypes.byref(text))
    return (text.value or b"").decode() or f"error {code}"


def call_driver(name: str, *arguments: Any) -> None:
    """Call a function of the driver; raise `DeviceError` if it fails."""
    library = load_library()
    code = getattr(library, name)(*arguments)
    if code:
        raise DeviceError(f"the NVIDIA driver could not complete {name}: {_name_error(library, code)}")


@cache
def find_gpu(number: int = 0) -> Gpu:
    """Return a GPU by its number; raise `DeviceError` if there is none."""
    count = ctypes.c_int()
    call_driver("cuDeviceGetCount", ctypes.byref(count))
    if not 0 <= number < count.value:
        raise DeviceError(f'there is no GPU number {number}: the driver finds {count.value}, counted from "cuda:0"')
    return Gpu(number)


class Gpu:
    """One GPU: memory on it, copies to and from it, and kernels that run on it."""

    def __init__(self, number: int) -> None:
        self.number = number
        device = ctypes.c_int()
        call_driver("cuDeviceGet", ctypes.byref(device), number)
        name = ctypes.create_string_buffer(256)
        call_driver("cuDeviceGetName", name, len(name), device)
        self.name = name.value.decode()
        self._context = ctypes.c_void_p()
        call_driver("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        with self.use():
            pool = ctypes.c_void_p()
            call_driver("cuDeviceGetDefaultMemPool", ctypes.byref(pool), device)
            total = ctypes.c_size_t()
            call_driver("cuDeviceTotalMem_v2", ctypes.byref(total), device)
            kept = ctypes.c_uint64(total.value // KEPT_SHARE)
            call_driver("cuMemPoolSetAttribute", pool, POOL_KEEPS_BYTES, ctypes.byref(kept))

    @contextmanager
    def use(self) -> Iterator[None]:
        """Make this GPU the current one of this thread, and afterwards the one that was current before."""
        call_driver("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            call_driver("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def allocate(self, size: int, stream: int) -> DeviceMemory:
        """Return new memory; work on other streams must wait for this one before it uses the memory."""
        address = ctypes.c_uint64()
        with self.use():
            call_driver(
                "cuMemAllocAsync", ctypes.byref(address), ctypes.c_size_t(max(size, 1)), ctypes.c_void_p(stream)
            )
        return DeviceMemory(self, address.value, stream)

    def free(self, address: int, stream: int) -> None:
        """Free memory once the stream has finished what was asked of it so far."""
        with self.use():
            call_driver("cuMemFreeAsync", ctypes.c_uint64(address), ctypes.c_void_p(stream))

    def allocate_host(self, size: int) -> HostMemory:
        """Return memory of the host that the GPU copies from and to by itself."""
        address = ctypes.c_void_p()
        with self.use():
            call_driver("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(size), 0)
        return HostMemory(self, int(address.value or 0))

    def free_host(self, address: int) -> None:
        """Free memory of the host."""
        with self.use():
            call_driver("cuMemFreeHost", ctypes.c_void_p(address))

    def create_stream(self) -> int:
        """Return a new stream; it lives as long as the process."""
        stream = ctypes.c_void_p()
        with self.use():
            call_driver("cuStreamCreate", ctypes.byref(stream), 1)
        return int(stream.value or 0)

    def copy_to_device(self, target: int, source: int, size: int, stream: int) -> None:
        """Begin a copy from the host's memory."""
        with self.use():
            call_driver(
                "cuMemcpyHtoDAsync_v2",
                *(ctypes.c_uint64(target), ctypes.c_void_p(source), ctypes.c_size_t(size), ctypes.c_void_p(stream)),
            )

    def copy_to_host(self, target: int, source: int, size: int, stream: int) -> None:
        """Begin a copy into the host's memory."""
        with self.use():
            call_driver(
                "cuMemcpyDtoHAsync_v2",
                *(ctypes.c_void_p(target), ctypes.c_uint64(source), ctypes.c_size_t(size), ctypes.c_void_p(stream)),
            )

    def synchronize(self, stream: int) -> None:
        """Wait until a stream has finished what was asked of it so far; other Python threads run meanwhile."""
        with self.use():
            call_driver("cuStreamSynchronize", ctypes.c_void_p(stream))

    def find_pointer_device(self, address: int) -> int:
        """Return the number of the GPU on which an address is."""
        number = ctypes.c_int(-1)
        with self.use():
            call_driver("cuPointerGetAttribute", ctypes.byref(number), POINTER_DEVICE, ctypes.c_uint64(address))
        return number.value

    def load_kernels(self, ptx: str, names: Sequence[str]) -> LoadedKernels:
        """Compile PTX for this GPU and return its kernels."""
        module = ctypes.c_void_p()
        log = ctypes.create_string_buffer(LOG_BYTES)
        options = (ctypes.c_int * 2)(*LOG_OPTIONS)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), LOG_BYTES)
        with self.use():
            try:
                call_driver("cuModuleLoadDataEx", ctypes.byref(module), ptx.encode() + b"\0", 2, options, values)
            except DeviceError as error:
                raise DeviceError(f"{error}\n{log.value.decode(errors='replace')}") from None
            handles = list[int]()
            for name in names:
                function = ctypes.c_void_p()
                call_driver("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
                handles.append(int(function.value or 0))
        return LoadedKernels(self, int(module.value or 0), handles)

    def unload(self, module: int) -> None:
        """Drop the code of kernels."""
        with self.use():
            call_driver("cuModuleUnload", ctypes.c_void_p(module))

    def launch(self, kernel: int, count: int, arguments: Sequence[int], stream: int) -> None:
        """Begin a kernel with a thread for each of `count` points; arguments are addresses and integers."""
        numbers = [ctypes.c_uint64(argument) for argument in arguments]
        places = (ctypes.c_void_p * len(numbers))(*(ctypes.addressof(number) for number in numbers))
        blocks = -(-count // THREADS_PER_BLOCK)
        shape = (blocks, 1, 1, THREADS_PER_BLOCK, 1, 1, 0)
        with self.use():
            call_driver("cuLaunchKernel", ctypes.c_void_p(kernel), *shape, ctypes.c_void_p(stream), places, None)


class _Resource:
    """Something of the driver that is given back when the last reference to it is gone."""

    def __init__(self, release: Any, *arguments: int) -> None:
        self._finalizer = weakref.finalize(self, _release_quietly, release, *arguments)
        # When the process ends, the driver frees everything, and may be gone already.
        self._finalizer.atexit = False


def _release_quietly(release: Any, *arguments: int) -> None:
    try:
        release(*arguments)
    except DeviceError:
        # A context that failed has lost its memory; the failure was reported where it happened.
        return


class DeviceMemory(_Resource):
    """Memory on a GPU."""

    def __init__(self, gpu: Gpu, address: int, stream: int) -> None:
        super().__init__(gpu.free, address, stream)
        self.gpu = gpu
        self.address = address
        self.stream = stream
        """The stream that it belongs to: what is written there is complete when the stream is."""


class HostMemory(_Resource):
    """Memory of the host that a GPU copies from and to by itself."""

    def __init__(self, gpu: Gpu, address: int) -> None:
        super().__init__(gpu.free_host, address)
        self.address = address


class LoadedKernels(_Resource):
    """The kernels of one program, compiled for a GPU."""

    def __init__(self, gpu: Gpu, module: int, handles: Sequence[int]) -> None:
        super().__init__(gpu.unload, module)
        self.handles = handles
