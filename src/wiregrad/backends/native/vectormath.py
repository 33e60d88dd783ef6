"""The functions of math.h on vectors: which implementation is used for each, and how a call of it is written.

There are four sources: an *instruction* of the processor; a *polynomial* of ours; *libmvec*, the vector library of
glibc, each of whose functions is tested at edge points before it is used; and the *scalar* function of C, called lane
by lane, which is always there. In every source the result of a lane depends on that lane alone.

Vectors of double take polynomials first: they give the same bits for any number of lanes and on every processor with
fused multiply-add, and are about as fast as libmvec. Vectors of float take libmvec first, because our polynomials
compute in double, at half its speed. A single number takes the scalar function, except where a polynomial is faster.
`WIREGRAD_VECTOR_MATH` names a source to try before these.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wiregrad import settings
from wiregrad.backends.native import libmvec, machine
from wiregrad.backends.native.emit import INTRINSIC_FUNCTIONS, ExpressionWriter
from wiregrad.backends.native.lanes import REAL_BITS, format_intrinsic_suffix, format_vector_type
from wiregrad.backends.native.polynomials import POLYNOMIAL_FUNCTIONS
from wiregrad.backends.native.vectortext import TWO_ARGUMENT_FUNCTIONS, write_lane_by_lane_module, write_polynomial_module
from wiregrad.errors import NoRuleError
from wiregrad.ops.expressions import MATH_H_FUNCTIONS

RealArray: TypeAlias = NDArray[np.floating[Any]]
VECTOR_MATH_SWITCH = settings.VECTOR_MATH_VARIABLE
"""The environment variable that names the source to try first."""
MATH_SOURCES = settings.ALLOWED_VALUES[VECTOR_MATH_SWITCH]
"""The sources of functions that are not instructions."""
FASTER_FOR_ONE_DOUBLE = frozenset(["expm1", "tanh", "sinh", "sin", "cos", "tan", "hypot"])
"""Functions whose polynomial is faster than glibc's function even for one double (benchmarks/vector_math.py)."""
ADDRESS_SYMBOL_PREFIX = "at"
"""The prefix of symbols whose name contains the address of a function."""
REAL_DTYPES: dict[str, type[np.floating[Any]]] = {"double": np.float64, "float": np.float32}


@dataclass(frozen=True)
class VectorFunction:
    """A function of math.h on a number of lanes of double or float, its source and its address."""

    name: str
    lanes: int
    real: str
    source: str
    address: int
    """The address of its code, which takes vectors in registers as in the C convention; 0 for an instruction."""

    @property
    def llvm_type(self) -> str:
        """The LLVM type of its arguments and its result."""
        return format_vector_type(self.real, self.lanes)

    @property
    def arity(self) -> int:
        """The number of arguments."""
        return 2 if self.name in TWO_ARGUMENT_FUNCTIONS else 1

    @property
    def callee(self) -> str:
        """The callee in LLVM text: an intrinsic or an address."""
        if self.source == "instruction":
            return f"@llvm.{self.name}.{format_intrinsic_suffix(self.real, self.lanes)}"
        return f"inttoptr (i64 {self.address} to ptr)"

    @property
    def declaration(self) -> str:
        """The declaration that a module needs for a call; empty for an address."""
        if self.source != "instruction":
            return ""
        return self.declare_as(self.callee)

    def declare_as(self, callee: str) -> str:
        """Return the LLVM declaration of a callee with this function's type."""
        return f"declare {self.llvm_type} {callee}({', '.join([self.llvm_type] * self.arity)})"

    def format_call(self, arguments: Sequence[str], callee: str | None = None) -> str:
        """Return the LLVM instruction that calls the function, or another callee of the same type.

        >>> find_vector_function("sqrt", 8, "double").format_call(["%x"])
        'call <8 x double> @llvm.sqrt.v8f64(<8 x double> %x)'
        """
        operands = ", ".join(f"{self.llvm_type} {argument}" for argument in arguments)
        return f"call {self.llvm_type} {callee or self.callee}({operands})"

    def __call__(self, *arrays: RealArray) -> RealArray:
        """Apply the function to arrays of equal length, one vector at a time.

        >>> find_vector_function("tanh", 4, "double")(np.array([0.0, 20.0, -np.inf]))
        array([ 0.,  1., -1.])
        """
        count = len(arrays[0])
        padded = -(-count // self.lanes) * self.lanes
        arguments = [np.zeros(padded, REAL_DTYPES[self.real]) for _ in arrays]
        for argument, array in zip(arguments, arrays, strict=True):
            argument[:count] = array
        results = np.empty(padded, REAL_DTYPES[self.real])
        bind_array_loop(self, results, *arguments)()
        return results[:count]


def find_vector_function(name: str, lanes: int, real: str, source: str | None = None) -> VectorFunction:
    """Return a function of math.h on `lanes` lanes of "double" or "float".

    `source` names the source to try first: polynomial, libmvec or scalar. A function that it lacks comes from the next.

    >>> find_vector_function("exp", 8, "double", source="scalar").source, find_vector_function("floor", 4, "float").source
    ('scalar', 'instruction')
    """
    if name not in MATH_H_FUNCTIONS:
        raise NoRuleError(f"ops cannot call {name} of math.h; they can call {', '.join(sorted(MATH_H_FUNCTIONS))}")
    wanted = source or settings.read_setting(VECTOR_MATH_SWITCH)
    if wanted and wanted not in MATH_SOURCES:
        raise ValueError(f"vector math comes from {', '.join(MATH_SOURCES)}; got source={wanted!r}")
    return _find_in_sources(name, lanes, real, wanted)


def _source_order(name: str, lanes: int, real: str) -> tuple[str, ...]:
    """Return the sources in the order in which they are tried."""
    if lanes == 1:
        return ("polynomial", "scalar") if real == "double" and name in FASTER_FOR_ONE_DOUBLE else ("scalar",)
    return ("polynomial", "libmvec", "scalar") if real == "double" else ("libmvec", "polynomial", "scalar")


def call_by_address(emitter: ExpressionWriter, name: str, operands: list[str]) -> str:
    """Write a call of a function of math.h by its address; a `Caller` of emitters."""
    function = find_vector_function(name, emitter.real.lanes, emitter.real.name)
    return emitter.emit_shared(function.format_call(operands))


def call_by_symbol(emitter: ExpressionWriter, name: str, operands: list[str]) -> str:
    """Write a call of a function of math.h by a symbol with the address in its name, which stencils resolve later."""
    function = find_vector_function(name, emitter.real.lanes, emitter.real.name)
    callee = f"@{ADDRESS_SYMBOL_PREFIX}{function.address}"
    emitter.declared.add(function.declare_as(callee))
    return emitter.emit_shared(function.format_call(operands, callee))


@cache
def _find_in_sources(name: str, lanes: int, real: str, wanted: str) -> VectorFunction:
    if name in INTRINSIC_FUNCTIONS:
        return VectorFunction(name, lanes, real, "instruction", 0)
    for source in (wanted, *_source_order(name, lanes, real)):
        address = _find_address(name, lanes, real, source) if source else 0
        if address:
            return VectorFunction(name, lanes, real, source, address)
    raise AssertionError("the scalar function is always there")


def _find_address(name: str, lanes: int, real: str, source: str) -> int:
    """Return the address of a function in a source; 0 if it has none."""
    if source == "polynomial":
        return _compile_polynomial(name, lanes, real) if name in POLYNOMIAL_FUNCTIONS and "fma" in machine.processor_features() else 0
    if source == "libmvec":
        return _find_sound_libmvec(name, lanes, real)
    return machine.find_math_address(name, real) if lanes == 1 else _compile_lane_by_lane(name, lanes, real)


def _find_sound_libmvec(name: str, lanes: int, real: str) -> int:
    """Return the address of a libmvec function that agrees with the scalar function at edge points; else 0."""
    arity = 2 if name in TWO_ARGUMENT_FUNCTIONS else 1
    address = libmvec.find_libmvec_address(name, lanes, real, arity, machine.processor_features())
    if not address:
        return 0
    tried = VectorFunction(name, lanes, real, "libmvec", address)
    scalar = VectorFunction(name, 1, real, "scalar", machine.find_math_address(name, real))
    return address if libmvec.is_sound(tried, scalar, lanes, libmvec.make_edge_points(REAL_DTYPES[real], arity)) else 0


def _compile_polynomial(name: str, lanes: int, real: str) -> int:
    scales = {"avx512f", "avx512vl"} <= machine.processor_features()
    return machine.compile_functions(write_polynomial_module(name, lanes, real, scales), "function", level=0)[0]


def _compile_lane_by_lane(name: str, lanes: int, real: str) -> int:
    return machine.compile_functions(write_lane_by_lane_module(name, lanes, real), "function", level=0)[0]


def bind_array_loop(function: VectorFunction, out: RealArray, *arguments: RealArray) -> Callable[[], None]:
    """Return a callable that applies a function to arrays of full vectors in a native loop, into `out`."""
    callee = function.callee if function.source == "instruction" else "%f"
    loop = _compile_array_loop(callee, function.declaration, function.lanes, function.real, function.arity)
    addresses = [array.ctypes.data for array in (out, *arguments)]
    count = len(out) // function.lanes

    def run(_alive: tuple[RealArray, ...] = (out, *arguments)) -> None:
        # The default argument keeps the arrays alive as long as their addresses are used.
        loop(function.address, *addresses, count)

    return run


@cache
def _compile_array_loop(callee: str, declaration: str, lanes: int, real: str, arity: int) -> Any:
    kind = format_vector_type(real, lanes)
    align = REAL_BITS[real] // 8
    order = range(arity)
    loaded = "\n".join(
        f"  %p{k} = getelementptr {kind}, ptr %a{k}, i64 %i\n  %x{k} = load {kind}, ptr %p{k}, align {align}"
        for k in order
    )
    text = f"""{declaration}
define void @drive(ptr %f, ptr %out, {", ".join(f"ptr %a{k}" for k in order)}, i64 %n) {{
entry:
  %none = icmp eq i64 %n, 0
  br i1 %none, label %end, label %loop
loop:
  %i = phi i64 [0, %entry], [%j, %loop]
{loaded}
  %y = call {kind} {callee}({", ".join(f"{kind} %x{k}" for k in order)})
  %q = getelementptr {kind}, ptr %out, i64 %i
  store {kind} %y, ptr %q, align {align}
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}}"""
    pointers = [ctypes.c_void_p] * (2 + arity)
    return ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64)(machine.compile_functions(text, "drive", level=0)[0])
