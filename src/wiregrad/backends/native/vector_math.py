"""The functions of math.h on vectors: which implementation is used for each, and how a call of it is written.

There are four sources: an *instruction* of the processor; a *polynomial* of ours (`math_polynomials`); *libmvec*, the
vector library of glibc, each of whose functions is tested at edge points before it is used; and the *scalar* function
of C, called lane by lane, which is always there. In every source the result of a lane depends on that lane alone.

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
from wiregrad.backends.native import jit
from wiregrad.backends.native.llvm_writer import (
    INTRINSIC_FUNCTIONS,
    REAL_BITS,
    ExpressionWriter,
    LaneValue,
    LaneWriter,
    format_intrinsic_suffix,
    format_vector_type,
)
from wiregrad.backends.native.math_polynomials import POLYNOMIAL_FUNCTIONS, PolynomialResult
from wiregrad.errors import NoRuleError
from wiregrad.ops.c_expressions import MATH_H_FUNCTIONS

SampleArray: TypeAlias = NDArray[np.floating[Any]]
ArrayFunction: TypeAlias = Callable[..., SampleArray]
VECTOR_ABI_LETTERS = {128: ("b", "sse4.2"), 256: ("d", "avx2"), 512: ("e", "avx512f")}
"""For each register width in bits, its letter in the vector function ABI and the processor feature that it needs."""
MAX_ULP_ERROR = 4.0
"""Maximum difference from the scalar function."""


@cache
def load_libmvec() -> ctypes.CDLL | None:
    """Return the library; None if it is not installed."""
    try:
        return ctypes.CDLL("libmvec.so.1")
    except OSError:
        return None


def find_libmvec_address(name: str, lanes: int, real: str, arity: int, features: frozenset[str]) -> int:
    """Return the address of a function; 0 if the library, the function or registers of this width are missing."""
    letter, needed = VECTOR_ABI_LETTERS.get(lanes * REAL_BITS[real], ("", ""))
    if needed not in features:
        return 0
    symbol = f"_ZGV{letter}N{lanes}{'v' * arity}_{name}{'f' if real == 'float' else ''}"
    function = getattr(load_libmvec(), symbol, None)
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0) if function is not None else 0


def make_edge_points(dtype: type[np.floating[Any]], arity: int) -> list[SampleArray]:
    """Return points at which functions tend to be wrong: each of them, or all pairs."""
    info = np.finfo(dtype)
    sizes: list[Any] = [0.0, info.smallest_subnormal, 20 * info.smallest_subnormal, info.tiny, 1e-8, 0.3, 0.5]
    sizes += [1 - info.epsneg, 1.0, 1 + info.eps, 1.5, 2.0, 3.0, np.pi / 2, np.pi, 9.2, 27.3, 88.8, 103.9, 709.7, 745.1]
    sizes += [1e5, 1e12, 1e22, info.max**0.5, info.max / 4, info.max, np.inf]
    points = np.array([*sizes, *(-size for size in sizes), np.nan], dtype)
    return [points] if arity == 1 else [part.ravel() for part in np.meshgrid(points, points)]


def measure_ulp_distance(results: SampleArray, wanted: SampleArray) -> SampleArray:
    """Return the differences in ulp of the wanted numbers; inf where the sign differs or only one is finite or NaN."""
    signs = np.signbit(results) == np.signbit(wanted)
    same = (results == wanted) & signs | (np.isnan(results) & np.isnan(wanted))
    with np.errstate(invalid="ignore", over="ignore"):
        ulp = np.abs(results.astype(np.longdouble) - wanted) / np.spacing(np.abs(wanted))
    finite = np.isfinite(results) & np.isfinite(wanted) & signs
    return np.asarray(np.where(same, 0.0, np.where(finite, ulp, np.inf)), np.float64)


def is_sound(vector: ArrayFunction, scalar: ArrayFunction, lanes: int, points: list[SampleArray]) -> bool:
    """Return whether a vector function agrees with the scalar one at these points."""
    alone = vector(*(np.repeat(part, lanes) for part in points)).reshape(-1, lanes)
    if np.any(measure_ulp_distance(alone[:, 0], scalar(*points)) > MAX_ULP_ERROR):
        return False
    # Every point is tried in every lane, next to other points.
    mixed = [vector(*(np.roll(part, lane) for part in points)) for lane in range(lanes)]
    back = np.stack([np.roll(answer, -lane) for lane, answer in enumerate(mixed)], axis=1)
    bits = f"u{alone.dtype.itemsize}"
    differs = (alone.view(bits) != back.view(bits)) & ~(np.isnan(alone) & np.isnan(back))
    return not np.any(differs)


TWO_ARGUMENT_FUNCTIONS = frozenset(["pow", "hypot", "atan2", "fmod", "copysign"])
"""The functions of math.h that take two arguments."""
SCALEF_LANES = frozenset([1, 4, 8])
"""The lane counts for which AVX-512 multiplies by powers of 2 in one instruction."""
RARE_BRANCH_METADATA = '!0 = !{!"branch_weights", i32 1, i32 10000}'


def _format_parameters(name: str, kind: str) -> list[str]:
    return [f"{kind} %x{k}" for k in range(2 if name in TWO_ARGUMENT_FUNCTIONS else 1)]


def write_polynomial_module(name: str, lanes: int, real: str, scales: bool = False) -> str:
    """Return the LLVM module of one of our own functions; floats are computed as doubles and rounded once.

    `scales` says that the processor multiplies by powers of 2 in one instruction; the bits are the same either way.

    >>> print(write_polynomial_module("hypot", 1, "double").splitlines()[-1])
    !0 = !{!"branch_weights", i32 1, i32 10000}
    """
    kind = format_vector_type(real, lanes)
    wide = format_vector_type("double", lanes)
    parameters = _format_parameters(name, kind)
    w = LaneWriter(lanes, scales=scales and lanes in SCALEF_LANES)
    operands = [LaneValue(w, f"%x{k}", real) for k in range(len(parameters))]
    if real == "float":
        operands = [w.emit_value("double", f"fpext {kind} {x.text} to {wide}") for x in operands]
    written = POLYNOMIAL_FUNCTIONS[name](w, *operands)
    module = sorted(w.declared)
    if written.outside is not None:
        module.append(_write_each_lane(name, lanes, "double"))
    result = _write_fallback_branches(w, written, operands)
    if real == "float":
        result = w.emit_value("float", f"fptrunc {wide} {result.text} to {kind}")
    head = f"define {kind} @function({', '.join(parameters)}) {{\nentry:"
    return "\n".join([*module, head, *w.lines, f"  ret {kind} {result.text}\n}}", RARE_BRANCH_METADATA])


def write_lane_by_lane_module(name: str, lanes: int, real: str) -> str:
    """Return the LLVM module of a function that calls the scalar one for each lane."""
    kind = format_vector_type(real, lanes)
    parameters = ", ".join(_format_parameters(name, kind))
    return f"""{_write_each_lane(name, lanes, real)}
define {kind} @function({parameters}) {{
  %y = call {kind} @each_lane({kind} zeroinitializer, i{lanes} -1, {parameters})
  ret {kind} %y
}}"""


def _write_fallback_branches(w: LaneWriter, written: PolynomialResult, operands: Sequence[LaneValue]) -> LaneValue:
    """Write the branches for lanes outside a polynomial's domain, and return the result of all lanes."""
    result, outside, edges = written
    if outside is None:
        return result
    kind = result.llvm_type
    _write_any_lane_branch(w, outside, "outside")
    improved, left = edges() if edges is not None else (result, outside)
    mask = _write_any_lane_branch(w, left, "alone")
    arguments = ", ".join(f"{x.llvm_type} {x.text}" for x in operands)
    called = w.emit_value("double", f"call {kind} @each_lane({kind} {improved.text}, i{w.lanes} {mask}, {arguments})")
    w.lines += ["  br label %done", "done:"]
    ways = f"[{result.text}, %entry], [{improved.text}, %outside], [{called.text}, %alone]"
    return w.emit_value("double", f"phi {kind} {ways}")


def _write_any_lane_branch(w: LaneWriter, condition: LaneValue, label: str) -> str:
    """Write a branch to a block if a condition holds in any lane, else to the end; return the lanes as a bit mask."""
    mask = w.new_name("mask")
    some = w.new_name("some")
    w.lines += [
        f"  {mask} = bitcast {condition.llvm_type} {condition.text} to i{w.lanes}",
        f"  {some} = icmp ne i{w.lanes} {mask}, 0",
        f"  br i1 {some}, label %{label}, label %done, !prof !0",
        f"{label}:",
    ]
    return mask


def _write_each_lane(name: str, lanes: int, real: str) -> str:
    """Return a function that replaces the masked lanes of a vector with results of the scalar function."""
    kind = format_vector_type(real, lanes)
    order = [f"x{k}" for k in range(len(_format_parameters(name, kind)))]
    parameters = "".join(f", {kind} %{x}" for x in order)
    kept = "\n".join(f"  %at_{x} = alloca {kind}\n  store {kind} %{x}, ptr %at_{x}" for x in ("y", *order))
    loaded = "\n".join(
        f"  %to_{x} = getelementptr {real}, ptr %at_{x}, i64 %lane\n  %one_{x} = load {real}, ptr %to_{x}"
        for x in order
    )
    called = f"{real} inttoptr (i64 {jit.find_math_address(name, real)} to ptr)"
    return f"""define internal {kind} @each_lane({kind} %y, i{lanes} %mask{parameters}) noinline cold {{
entry:
{kept}
  %bits = zext i{lanes} %mask to i64
  br label %loop
loop:
  %lane = phi i64 [0, %entry], [%after, %next]
  %moved = lshr i64 %bits, %lane
  %wanted = trunc i64 %moved to i1
  br i1 %wanted, label %answer, label %next
answer:
{loaded}
  %answered = call {called}({", ".join(f"{real} %one_{x}" for x in order)})
  %to_y = getelementptr {real}, ptr %at_y, i64 %lane
  store {real} %answered, ptr %to_y
  br label %next
next:
  %after = add i64 %lane, 1
  %more = icmp ult i64 %after, {lanes}
  br i1 %more, label %loop, label %end
end:
  %all = load {kind}, ptr %at_y
  ret {kind} %all
}}"""


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

    >>> find_vector_function("exp", 8, "double", source="scalar").source
    'scalar'
    >>> find_vector_function("floor", 4, "float").source
    'instruction'
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
        return (
            _compile_polynomial(name, lanes, real)
            if name in POLYNOMIAL_FUNCTIONS and "fma" in jit.processor_features()
            else 0
        )
    if source == "libmvec":
        return _find_sound_libmvec(name, lanes, real)
    return jit.find_math_address(name, real) if lanes == 1 else _compile_lane_by_lane(name, lanes, real)


def _find_sound_libmvec(name: str, lanes: int, real: str) -> int:
    """Return the address of a libmvec function that agrees with the scalar function at edge points; else 0."""
    arity = 2 if name in TWO_ARGUMENT_FUNCTIONS else 1
    address = find_libmvec_address(name, lanes, real, arity, jit.processor_features())
    if not address:
        return 0
    tried = VectorFunction(name, lanes, real, "libmvec", address)
    scalar = VectorFunction(name, 1, real, "scalar", jit.find_math_address(name, real))
    return address if is_sound(tried, scalar, lanes, make_edge_points(REAL_DTYPES[real], arity)) else 0


def _compile_polynomial(name: str, lanes: int, real: str) -> int:
    scales = {"avx512f", "avx512vl"} <= jit.processor_features()
    return jit.compile_functions(write_polynomial_module(name, lanes, real, scales), "function", level=0)[0]


def _compile_lane_by_lane(name: str, lanes: int, real: str) -> int:
    return jit.compile_functions(write_lane_by_lane_module(name, lanes, real), "function", level=0)[0]


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
    return ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64)(jit.compile_functions(text, "drive", level=0)[0])
