"""The functions of math.h on vectors: which code answers each, and how a call of it is written.

There are four sources. An *instruction* of the processor; a *polynomial* of ours; *libmvec*, the vector library of
glibc, each of whose functions is tried at edge points before it is used; the *scalar* function of C, lane by lane,
which is always there. Whatever the source, a lane's answer depends on what stands in that lane alone.

Vectors of double take polynomials first, which give the same bits in any number of lanes and on every processor with
fused multiply-add, and are about as fast as libmvec. Vectors of float take libmvec first, because our polynomials
compute in double, at half its speed. One lane takes the scalar function, except where a polynomial is faster.
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
from wiregrad.backends.native.emit import INSTRUCTIONS, Emitter
from wiregrad.backends.native.lanes import SIZES, suffix, vector
from wiregrad.backends.native.polynomials import WRITTEN
from wiregrad.backends.native.vectortext import TWO, lane_by_lane_text, polynomial_text
from wiregrad.errors import NoRuleError
from wiregrad.ops.expressions import MATH_H

Reals: TypeAlias = NDArray[np.floating[Any]]
SWITCH = settings.VECTOR_MATH
"""The environment variable that names the source to try first."""
SOURCES = settings.ALLOWED[SWITCH]
"""Where functions come from that are not instructions."""
ALONE = frozenset(["expm1", "tanh", "sinh", "sin", "cos", "tan", "hypot"])
"""The functions whose polynomial is faster than glibc's function for one double too (benchmarks/vector_math.py)."""
SYMBOL = "at"
"""Begins the name of a symbol that stands for an address."""
DTYPES: dict[str, type[np.floating[Any]]] = {"double": np.float64, "float": np.float32}


@dataclass(frozen=True)
class VectorFunction:
    """A function of math.h for so many lanes of double or float, and where it is found."""

    name: str
    lanes: int
    real: str
    source: str
    address: int
    """Where its code stands, in the C convention with vectors in registers; 0 for an instruction."""

    @property
    def type(self) -> str:
        """The type of its arguments and its result, as LLVM writes it."""
        return vector(self.real, self.lanes)

    @property
    def arity(self) -> int:
        """How many arguments it takes."""
        return 2 if self.name in TWO else 1

    @property
    def callee(self) -> str:
        """What is called: an intrinsic or an address."""
        if self.source == "instruction":
            return f"@llvm.{self.name}.{suffix(self.real, self.lanes)}"
        return f"inttoptr (i64 {self.address} to ptr)"

    @property
    def declaration(self) -> str:
        """The line that a module needs before the function is called; empty for an address."""
        if self.source != "instruction":
            return ""
        return self.declared(self.callee)

    def declared(self, callee: str) -> str:
        """Return the line that says what kind of function something called is."""
        return f"declare {self.type} {callee}({', '.join([self.type] * self.arity)})"

    def instruction(self, arguments: Sequence[str], callee: str | None = None) -> str:
        """Return the right side of the line that calls the function, by another name if one is given.

        >>> vector_function("sqrt", 8, "double").instruction(["%x"])
        'call <8 x double> @llvm.sqrt.v8f64(<8 x double> %x)'
        """
        given = ", ".join(f"{self.type} {argument}" for argument in arguments)
        return f"call {self.type} {callee or self.callee}({given})"

    def __call__(self, *arrays: Reals) -> Reals:
        """Return the function of arrays of one length, so many elements at a time.

        >>> vector_function("tanh", 4, "double")(np.array([0.0, 20.0, -np.inf]))
        array([ 0.,  1., -1.])
        """
        count = len(arrays[0])
        whole = -(-count // self.lanes) * self.lanes
        given = [np.zeros(whole, DTYPES[self.real]) for _ in arrays]
        for to, array in zip(given, arrays, strict=True):
            to[:count] = array
        found = np.empty(whole, DTYPES[self.real])
        drive(self, found, *given)()
        return found[:count]


def vector_function(name: str, lanes: int, real: str, source: str | None = None) -> VectorFunction:
    """Return a function of math.h for so many lanes of "double" or "float".

    `source` names where to look first: polynomial, libmvec or scalar. What is not found there comes from the next.

    >>> vector_function("exp", 8, "double", source="scalar").source, vector_function("floor", 4, "float").source
    ('scalar', 'instruction')
    """
    if name not in MATH_H:
        raise NoRuleError(f"math.h has no function {name} that an op may call; there are {', '.join(sorted(MATH_H))}")
    wanted = source or settings.read_setting(SWITCH)
    if wanted and wanted not in SOURCES:
        raise ValueError(f"vector math comes from {', '.join(SOURCES)}; got source={wanted!r}")
    return _found(name, lanes, real, wanted)


def _order(name: str, lanes: int, real: str) -> tuple[str, ...]:
    """Return the sources in the order in which they are tried."""
    if lanes == 1:
        return ("polynomial", "scalar") if real == "double" and name in ALONE else ("scalar",)
    return ("polynomial", "libmvec", "scalar") if real == "double" else ("libmvec", "polynomial", "scalar")


def call_vector(emitter: Emitter, name: str, operands: list[str]) -> str:
    """Write the call of a function of math.h for as many lanes as the emitter writes for; a `Caller` of emitters."""
    function = vector_function(name, emitter.real.lanes, emitter.real.name)
    return emitter.new(function.instruction(operands))


def call_symbol(emitter: Emitter, name: str, operands: list[str]) -> str:
    """Write the same call by a symbol that has the address in its name, for whoever links the code."""
    function = vector_function(name, emitter.real.lanes, emitter.real.name)
    callee = f"@{SYMBOL}{function.address}"
    emitter.declared.add(function.declared(callee))
    return emitter.new(function.instruction(operands, callee))


@cache
def _found(name: str, lanes: int, real: str, wanted: str) -> VectorFunction:
    if name in INSTRUCTIONS:
        return VectorFunction(name, lanes, real, "instruction", 0)
    for source in (wanted, *_order(name, lanes, real)):
        address = _address(name, lanes, real, source) if source else 0
        if address:
            return VectorFunction(name, lanes, real, source, address)
    raise AssertionError("the scalar function is always there")


def _address(name: str, lanes: int, real: str, source: str) -> int:
    """Return where a source has a function, 0 if it has none."""
    if source == "polynomial":
        return _polynomial(name, lanes, real) if name in WRITTEN and "fma" in machine.features() else 0
    if source == "libmvec":
        return _libmvec(name, lanes, real)
    return machine.math_address(name, real) if lanes == 1 else _lane_by_lane(name, lanes, real)


def _libmvec(name: str, lanes: int, real: str) -> int:
    """Return where libmvec has a function that answers edge points as the scalar function does."""
    arity = 2 if name in TWO else 1
    address = libmvec.address(name, lanes, real, arity, machine.features())
    if not address:
        return 0
    tried = VectorFunction(name, lanes, real, "libmvec", address)
    scalar = VectorFunction(name, 1, real, "scalar", machine.math_address(name, real))
    return address if libmvec.is_sound(tried, scalar, lanes, libmvec.edges(DTYPES[real], arity)) else 0


def _polynomial(name: str, lanes: int, real: str) -> int:
    scales = {"avx512f", "avx512vl"} <= machine.features()
    return machine.compiled(polynomial_text(name, lanes, real, scales), "function", level=0)[0]


def _lane_by_lane(name: str, lanes: int, real: str) -> int:
    return machine.compiled(lane_by_lane_text(name, lanes, real), "function", level=0)[0]


def drive(function: VectorFunction, out: Reals, *given: Reals) -> Callable[[], None]:
    """Return what runs a function over whole vectors of arrays in a native loop, into `out`."""
    callee = function.callee if function.source == "instruction" else "%f"
    loop = _loop(callee, function.declaration, function.lanes, function.real, function.arity)
    addresses = [array.ctypes.data for array in (out, *given)]
    count = len(out) // function.lanes

    def run(_alive: tuple[Reals, ...] = (out, *given)) -> None:
        # Arrays must live as long as their addresses are used.
        loop(function.address, *addresses, count)

    return run


@cache
def _loop(callee: str, declaration: str, lanes: int, real: str, arity: int) -> Any:
    kind, align = vector(real, lanes), SIZES[real] // 8
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
    return ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64)(machine.compiled(text, "drive", level=0)[0])
