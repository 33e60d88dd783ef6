"""Vector functions as LLVM modules: a polynomial with a fallback, or the scalar function lane by lane.

Each module has one function called `function`. One comparison and a rarely taken branch find lanes outside a
polynomial's domain; that branch computes the results at edges, and calls the scalar function of C for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from wiregrad.backends.native import machine
from wiregrad.backends.native.lanes import LaneValue, LaneWriter, format_vector_type
from wiregrad.backends.native.polynomials import POLYNOMIAL_FUNCTIONS, PolynomialResult

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
    called = f"{real} inttoptr (i64 {machine.find_math_address(name, real)} to ptr)"
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
