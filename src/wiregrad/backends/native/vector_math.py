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
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wiregrad import settings
from wiregrad.backends.native import jit
from wiregrad.backends.native.llvm_writer import (
    INTRINSIC_FUNCTIONS,
    REAL_BITS,
    LlvmValue,
    LlvmWriter,
    format_intrinsic_suffix,
    format_pointer,
    format_vector_type,
    loop_over,
    when_all,
)
from wiregrad.backends.native.math_polynomials import POLYNOMIAL_FUNCTIONS, SCALEF_FEATURE, PolynomialResult
from wiregrad.errors import NoRuleError
from wiregrad.ops.c_expressions import MATH_H_FUNCTIONS

RealArray: TypeAlias = NDArray[np.floating]
ArrayFunction: TypeAlias = Callable[..., RealArray]
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


def make_edge_points(dtype: type[np.floating], arity: int) -> list[RealArray]:
    """Return points at which functions tend to be wrong: each of them, or all pairs."""
    info = np.finfo(dtype)
    sizes: list[float | np.floating] = [
        0.0,
        info.smallest_subnormal,
        20 * info.smallest_subnormal,
        info.tiny,
        1e-8,
        0.3,
        0.5,
    ]
    sizes += [1 - info.epsneg, 1.0, 1 + info.eps, 1.5, 2.0, 3.0, np.pi / 2, np.pi, 9.2, 27.3, 88.8, 103.9, 709.7, 745.1]
    sizes += [1e5, 1e12, 1e22, info.max**0.5, info.max / 4, info.max, np.inf]
    points = np.array([*sizes, *(-size for size in sizes), np.nan], dtype)
    return [points] if arity == 1 else [part.ravel() for part in np.meshgrid(points, points)]


def measure_ulp_distance(results: RealArray, wanted: RealArray) -> RealArray:
    """Return the differences in ulp of the wanted numbers; inf where the sign differs or only one is finite or NaN."""
    signs = np.signbit(results) == np.signbit(wanted)
    same = (results == wanted) & signs | (np.isnan(results) & np.isnan(wanted))
    with np.errstate(invalid="ignore", over="ignore"):
        ulp = np.abs(results.astype(np.longdouble) - wanted) / np.spacing(np.abs(wanted))
    finite = np.isfinite(results) & np.isfinite(wanted) & signs
    return np.asarray(np.where(same, 0.0, np.where(finite, ulp, np.inf)), np.float64)


def is_sound(vector: ArrayFunction, scalar: ArrayFunction, lanes: int, points: list[RealArray]) -> bool:
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


def _begin_vector_function(w: LlvmWriter, name: str, real: str) -> list[LlvmValue]:
    """Begin the function of a module that takes and returns vectors; return its parameters."""
    kind = format_vector_type(real, w.lanes)
    parameters = [w.name_value(f"%x{k}", real) for k in range(_count_arguments(name))]
    w.begin_function(f"{kind} @function({', '.join(x.typed for x in parameters)})")
    return parameters


def _count_arguments(name: str) -> int:
    return 2 if name in TWO_ARGUMENT_FUNCTIONS else 1


def write_polynomial_module(name: str, lanes: int, real: str, scales: bool = False) -> str:
    """Return the LLVM module of one of our own functions; floats are computed as doubles and rounded once.

    `scales` says that the processor multiplies by powers of 2 in one instruction; the bits are the same either way.

    >>> print(write_polynomial_module("hypot", 1, "double").splitlines()[-1])
    !0 = !{!"branch_weights", i32 1, i32 10000}
    """
    w = LlvmWriter(lanes, features=[SCALEF_FEATURE] if scales and lanes in SCALEF_LANES else [])
    operands = _begin_vector_function(w, name, real)
    if real == "float":
        operands = [x.convert("fpext", "double") for x in operands]
    polynomial = POLYNOMIAL_FUNCTIONS[name](*operands)
    result = _write_fallback_branches(w, polynomial, operands)
    w.end_function(result.convert("fptrunc", "float") if real == "float" else result)
    if polynomial.outside is not None:
        _write_each_lane(w, name, "double")
    return f"{w.format_module()}\n{RARE_BRANCH_METADATA}"


def write_lane_by_lane_module(name: str, lanes: int, real: str) -> str:
    """Return the LLVM module of a function that calls the scalar one for each lane."""
    w = LlvmWriter(lanes)
    operands = _begin_vector_function(w, name, real)
    start = w.name_value("zeroinitializer", real)
    w.end_function(w.call(real, "@each_lane", start, w.as_value(-1, f"i{lanes}", 1), *operands))
    _write_each_lane(w, name, real)
    return w.format_module()


def _write_fallback_branches(w: LlvmWriter, polynomial: PolynomialResult, operands: Sequence[LlvmValue]) -> LlvmValue:
    """Write the branches for lanes outside a polynomial's domain, and return the result of all lanes."""
    result, outside, edges = polynomial
    if outside is None:
        return result
    _write_any_lane_branch(w, outside, "outside")
    improved, left = edges() if edges is not None else (result, outside)
    mask = _write_any_lane_branch(w, left, "alone")
    called = w.call("double", "@each_lane", improved, mask, *operands)
    w.begin_block("done")
    ways = f"[{result}, %entry], [{improved}, %outside], [{called}, %alone]"
    return w.emit_value("double", f"phi {result.llvm_type} {ways}")


def _write_any_lane_branch(w: LlvmWriter, condition: LlvmValue, label: str) -> LlvmValue:
    """Write a branch to a block if a condition holds in any lane, else to the end; return the lanes as a bit mask."""
    mask = w.emit_value(f"i{w.lanes}", f"bitcast {condition.typed} to i{w.lanes}", 1)
    w.branch_if(mask.compare("ne", 0), label, "done", ", !prof !0")
    w.begin_block(label, falls=False)
    return mask


def _write_each_lane(w: LlvmWriter, name: str, real: str) -> None:
    """Write a function that replaces the masked lanes of a vector with results of the scalar function."""
    old = w.name_value("%y", real)
    mask = w.name_value("%mask", f"i{w.lanes}", 1)
    operands = [w.name_value(f"%x{k}", real) for k in range(_count_arguments(name))]
    parameters = ", ".join(value.typed for value in (old, mask, *operands))
    w.begin_function(f"internal {old.llvm_type} @each_lane({parameters}) noinline cold")
    results, *places = (w.emit_value("ptr", f"alloca {old.llvm_type}", 1) for _ in (old, *operands))
    for value, place in zip((old, *operands), (results, *places), strict=True):
        w.store(value, place)
    bits = mask.convert("zext", "i64")
    with loop_over(0, w.as_value(w.lanes, "i64", 1)) as lane, when_all((bits >> lane).convert("trunc", "i1")):
        numbers = [w.load(real, w.point_to(real, place, lane), 1) for place in places]
        number = w.call(real, format_pointer(jit.find_math_address(name, real)), *numbers, lanes=1)
        w.store(number, w.point_to(real, results, lane))
    w.end_function(w.load(real, results))


VECTOR_MATH_SWITCH = settings.VECTOR_MATH_VARIABLE
"""The environment variable that names the source to try first."""
MATH_SOURCES = settings.ALLOWED_VALUES[VECTOR_MATH_SWITCH]
"""The sources of functions that are not instructions."""
FASTER_FOR_ONE_DOUBLE = frozenset(["expm1", "tanh", "sinh", "sin", "cos", "tan", "hypot"])
"""Functions whose polynomial is faster than glibc's function even for one double (benchmarks/vector_math.py)."""
ADDRESS_SYMBOL_PREFIX = "at"
"""The prefix of symbols whose name contains the address of a function."""
REAL_DTYPES: dict[str, type[np.floating]] = {"double": np.float64, "float": np.float32}


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
        return _count_arguments(self.name)

    @property
    def callee(self) -> str:
        """The callee in LLVM text: an intrinsic or an address."""
        if self.source == "instruction":
            return f"@llvm.{self.name}.{format_intrinsic_suffix(self.real, self.lanes)}"
        return format_pointer(self.address)

    def write_call(self, operands: Sequence[LlvmValue], symbol: str = "") -> LlvmValue:
        """Write a call of the function; by a symbol, which the module then declares, if there is one.

        >>> from wiregrad.backends.native.llvm_writer import LlvmWriter
        >>> writer = LlvmWriter(8)
        >>> function = find_vector_function("sqrt", 8, "double")
        >>> print(function.write_call([writer.name_value("%x", "double")]), writer.lines[-1])
        %v1   %v1 = call <8 x double> @llvm.sqrt.v8f64(<8 x double> %x)
        """
        writer = operands[0].writer
        callee = symbol or self.callee
        if callee.startswith("@"):
            writer.declare(self.llvm_type, callee, *[self.llvm_type] * self.arity)
        return writer.call(self.real, callee, *operands, lanes=self.lanes)

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


def call_by_address(name: str, operands: Sequence[LlvmValue]) -> LlvmValue:
    """Write a call of a function of math.h by its address."""
    return find_vector_function(name, operands[0].lanes, operands[0].element).write_call(operands)


def call_by_symbol(name: str, operands: Sequence[LlvmValue]) -> LlvmValue:
    """Write a call of a function of math.h by a symbol with the address in its name, which stencils resolve later."""
    function = find_vector_function(name, operands[0].lanes, operands[0].element)
    return function.write_call(operands, f"@{ADDRESS_SYMBOL_PREFIX}{function.address}")


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
    arity = _count_arguments(name)
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
    # Functions with an address share one loop, which receives the address as an argument.
    callee = function.callee if function.source == "instruction" else "%f"
    loop = _compile_array_loop(callee, function.lanes, function.real, function.arity)
    addresses = [array.ctypes.data for array in (out, *arguments)]
    count = len(out) // function.lanes

    def run(_alive: tuple[RealArray, ...] = (out, *arguments)) -> None:
        # The default argument keeps the arrays alive as long as their addresses are used.
        loop(function.address, *addresses, count)

    return run


@cache
def _compile_array_loop(callee: str, lanes: int, real: str, arity: int) -> Callable[..., None]:
    """Return the native loop over arrays; its arguments are the function's address, the arrays and a count."""
    w = LlvmWriter(lanes)
    kind = format_vector_type(real, lanes)
    align = f", align {REAL_BITS[real] // 8}"
    out, *arrays = (w.name_value(f"%a{k}", "ptr", 1) for k in range(1 + arity))
    count = w.name_value("%n", "i64", 1)
    parameters = ", ".join(value.typed for value in (out, *arrays, count))
    if callee.startswith("@"):
        w.declare(kind, callee, *[kind] * arity)
    w.begin_function(f"void @drive(ptr %f, {parameters})")
    with loop_over(0, count) as i:
        operands = [w.load(real, w.point_to(kind, array, i), how=align) for array in arrays]
        w.store(w.call(real, callee, *operands), w.point_to(kind, out, i), align)
    w.end_function()
    address = jit.compile_functions(w.format_module(), "drive", level=0)[0]
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (2 + arity), ctypes.c_int64)(address)
