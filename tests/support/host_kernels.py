"""Kernels for a GPU on this processor: the same LLVM text, with a loop over the points in place of threads."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.api import Circuit
from wiregrad.backends.cuda import batches, kernels
from wiregrad.backends.cuda.batches import DeviceMemory, HostMemory
from wiregrad.backends.cuda.kernels import (
    KERNEL_NAME,
    KERNEL_PARAMETERS,
    SCRATCH_TILE,
    DeviceMath,
    KernelResults,
    KernelSource,
)
from wiregrad.backends.native import jit
from wiregrad.backends.native.llvm_writer import LlvmValue, LlvmWriter, loop_over
from wiregrad.backends.native.tiers import plan_steps
from wiregrad.backends.native.vector_math import TWO_ARGUMENT_FUNCTIONS, VectorFunction


@contextmanager
def loop_over_points(w: LlvmWriter) -> Iterator[LlvmValue]:
    """Write the steps of a kernel for all points in turn."""
    with loop_over(0, w.name_value("%count", "i64")) as point:
        yield point


class HostKernels:
    """The kernels of a program, compiled for this processor."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        self._code = jit.JitFunctions(text, level=0)
        kinds = [ctypes.c_void_p if kind == "ptr" else ctypes.c_int64 for kind in KERNEL_PARAMETERS.values()]
        addresses = [self._code.find_address(name) for name in names]
        self.handles: list[Callable[..., None]] = [ctypes.CFUNCTYPE(None, *kinds)(x) for x in addresses]


def write_for_host(plan: Any, results: KernelResults, **options: Any) -> KernelSource:
    return kernels.write_kernels(plan, results, loop_over_points, convention="", **options)


def run_kernels(
    circuit: Circuit, points: Sequence[Sequence[Any]], gradient: int | None = 0, **options: Any
) -> NDArray[Any]:
    """Run the kernels of a circuit at all points: a row each, the outputs, then the gradient or zeros."""
    plan = plan_steps(circuit, gradient)
    real = plan.stream.real
    inputs, outputs = plan.stream.inputs, plan.stream.outputs
    results = KernelResults(tuple(range(inputs)) if gradient is not None else ())
    source = write_for_host(plan, results, **options)
    table = np.ascontiguousarray(np.array(points, real.dtype).reshape(len(points), inputs))
    rows = np.zeros((len(points), outputs + inputs), real.dtype)
    tiles = -(-len(points) // SCRATCH_TILE)
    scratch = np.full((tiles, source.scratch * SCRATCH_TILE), np.nan, real.dtype)
    seed = int(np.ones(1, real.dtype).view(f"u{real.item_bytes}")[0])
    width = outputs + inputs
    tables = (table.ctypes.data, inputs, 1, rows.ctypes.data, width, 1)
    grads = (rows.ctypes.data + outputs * real.item_bytes, width, 1)
    code = HostKernels(source.text, [f"{KERNEL_NAME}{k}" for k in range(source.kernels)])
    for function in code.handles:
        function(*tables, *grads, 0, scratch.ctypes.data, scratch.shape[1], len(points), seed)
    return rows


def run_split_kernels(circuit: Circuit, points: Sequence[Sequence[Any]], gradient: int | None = 0) -> NDArray[Any]:
    """Run a circuit in kernels of three steps each, which pass values on in scratch memory."""
    return run_kernels(circuit, points, gradient, steps_per_kernel=3, max_joined_steps=0)


def run_joined_kernels(circuit: Circuit, points: Sequence[Sequence[Any]], gradient: int | None = 0) -> NDArray[Any]:
    """Run a circuit in one kernel of parts of three steps each, which compute values again for their gradient."""
    return run_kernels(circuit, points, gradient, steps_per_kernel=3)


@cache
def find_device_function(name: str, real: str) -> VectorFunction:
    """Return a function of math.h as kernels compute it."""
    w = LlvmWriter()
    functions = DeviceMath(w)
    operands = [w.name_value(f"%x{k}", real) for k in range(2 if name in TWO_ARGUMENT_FUNCTIONS else 1)]
    w.begin_function(f"{real} @function({', '.join(x.typed for x in operands)})")
    w.end_function(functions.call_function(name, operands))
    functions.write_functions()
    address = jit.compile_functions(w.format_module(), "function", level=0)[0]
    return VectorFunction(name, 1, real, "device", address)


class HostGpu:
    """A GPU that is this processor: its memory is that of the process, and kernels run when they are launched."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.name = "host"
        self.allocated: dict[int, NDArray[np.uint8]] = {}
        self.launches: list[int] = []
        """The number of points of each launch."""

    def use(self) -> AbstractContextManager[None]:
        return nullcontext()

    def allocate(self, size: int, stream: int) -> DeviceMemory:
        memory = np.full(max(size, 1), 0xFF, np.uint8)
        self.allocated[memory.ctypes.data] = memory
        return DeviceMemory(self, memory.ctypes.data, stream)  # type: ignore[arg-type]

    def free(self, address: int, stream: int) -> None:
        del self.allocated[address]

    def allocate_host(self, size: int) -> HostMemory:
        memory = np.full(size, 0xFF, np.uint8)
        self.allocated[memory.ctypes.data] = memory
        return HostMemory(self, memory.ctypes.data)  # type: ignore[arg-type]

    def free_host(self, address: int) -> None:
        del self.allocated[address]

    def create_stream(self) -> int:
        return 7

    def copy_to_device(self, target: int, source: int, size: int, stream: int) -> None:
        ctypes.memmove(target, source, size)

    copy_to_host = copy_to_device

    def synchronize(self, stream: int) -> None:
        pass

    def find_pointer_device(self, address: int) -> int:
        return self.number

    def load_kernels(self, text: str, names: Sequence[str]) -> Any:
        return HostKernels(text, names)

    def launch(self, kernels: Iterable[Callable[..., None]], count: int, arguments: Sequence[int], stream: int) -> None:
        for kernel in kernels:
            self.launches.append(count)
            kernel(*arguments)


class HostArray:
    """A NumPy array that presents itself as an array of a GPU."""

    def __init__(self, array: NDArray[Any], **facts: Any) -> None:
        self._array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, False),
            "strides": array.strides,
            "version": 3,
            **facts,
        }


def use_host_gpu(monkeypatch: Any) -> HostGpu:
    """Run on this processor what would run on a GPU."""
    gpu = HostGpu()
    monkeypatch.setattr(batches, "find_gpu", lambda number: gpu)
    monkeypatch.setattr(batches, "compile_to_ptx", lambda text: text)
    monkeypatch.setattr(batches, "write_kernels", write_for_host)
    return gpu
