"""Listings in C99: no allocation, no state, doubles or floats; CUDA listings share most of this.

A long listing is cut into functions of bounded size, because compilers take more than linear time over long functions.
What one part hands to a later one is stored in an array.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from wiregrad.codegen.guards import RESULT, Guard, in_language
from wiregrad.codegen.identifiers import comment
from wiregrad.codegen.language import Language, Writer, scalar_only
from wiregrad.codegen.listing import Atom, Line, Listing
from wiregrad.codegen.loops import Loops, Result, check_types, has_arrays, layout
from wiregrad.codegen.lowering import AS_NUMBER, function_names
from wiregrad.codegen.words import Word
from wiregrad.dtypes import WireType
from wiregrad.errors import NoRuleError, OperandError, shown
from wiregrad.ops import Elementwise
from wiregrad.ops.expressions import MATH_H, is_condition, parse

LONGEST = 400
"""Maximum number of lines of a listing that is not cut into parts."""
PART = 200
"""Number of lines in a part."""
ON_STACK = 65_536
"""Maximum number of numbers in the arrays between parts on the stack; larger arrays are static."""
Numbers = Sequence[float]

KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true "
    "false asm typeof NAN INFINITY NULL main alignas alignof and and_eq bitand bitor catch class compl constexpr "
    "const_cast decltype delete dynamic_cast explicit export friend mutable namespace new noexcept not not_eq nullptr "
    "operator or or_eq private protected public reinterpret_cast requires static_assert static_cast template this "
    "thread_local throw try typeid typename using virtual wchar_t xor xor_eq concept co_await co_return co_yield "
    "char8_t char16_t char32_t linux unix errno stdin stdout stderr signgam gamma y0 y1 yn j0 j1 jn I".split()
)
"""Keywords of C, and of C++, which may include the header of a listing; names that common headers define."""
OTHER_MATH = frozenset(
    "acosl fdim fma fmax fmin frexp ilogb ldexp lgamma llrint llround logb lrint lround modf nan nearbyint nextafter "
    "nexttoward remainder remquo round scalbln scalbn tgamma abs labs div exit abort isnan isinf isfinite signbit "
    "isnormal fpclassify printf".split()
)


class C(Language):
    """C99, in doubles or floats."""

    title = "C"
    reserved = KEYWORDS | OTHER_MATH | {f"{name}{end}" for name in MATH_H for end in ("", "f", "l")}
    macros = re.compile(
        r"(?=(?:[0-9_]*[A-Z]){3})[A-Z0-9_]+|(M|FP|HUGE|MATH)_[A-Z0-9]\w*|SNAN\w*|(FLT|DBL)_\w*|math_errhandling"
    )
    static: ClassVar[bool] = True
    """Whether arrays too large for the stack may be static; on a GPU all threads would share them."""
    function: ClassVar[str] = "static"
    """The specifiers of a function that is private to the listing."""

    def __init__(self, real: str) -> None:
        super().__init__()
        self.real = real
        self.end = "f" if real == "float" else ""
        calls = {name: Word(f"{name}{self.end}") for name in MATH_H}
        self.own_words: Mapping[str, Word] = {**calls, AS_NUMBER: Word(f"({real})")}

    @property
    def words(self) -> Mapping[str, Word]:  # type: ignore[override]
        """The functions of math.h, with the names they have for this type."""
        return self.own_words

    def number(self, value: Any) -> str:
        """Return the literal of a number or truth value."""
        if not self.end or isinstance(value, bool):
            return super().number(value)
        with np.errstate(over="ignore"):
            narrow = float(np.float32(value))
        # Compilers warn about a literal outside the range of float, so its float value is written instead.
        held = value if math.isfinite(narrow) and (narrow != 0.0 or value == 0.0) else narrow
        return super().number(held) + (self.end if math.isfinite(held) else "")

    def choice(self, condition: str, yes: str, no: str) -> str:
        """Return the text of a choice."""
        return f"{condition} ? {yes} : {no}"

    def type_of(self, condition: bool) -> str:
        """Return the type of a condition or a number."""
        return "bool" if condition else self.real

    def called(self, name: str) -> str:
        """Return the name of a function; an op's function must not have the name of one of C's own."""
        return f"{name}_op" if name in self.reserved and name not in self.words else super().called(name)

    def taken(self) -> frozenset[str]:
        """Return the names that helpers may have; no variable may have one of them."""
        return super().taken() | frozenset(map(self.called, function_names()))

    def op_function(self, op: Elementwise, name: str, body: str) -> str:
        """Return the definition of an op as a function."""
        name = self.called(name)
        parameters = ", ".join(f"{self.type_of(k in op.takes_bool)} {k}" for k in op.inputs)
        kind = self.type_of(is_condition(parse(op.c)))
        return f"// {comment(op.doc)}\n{self.function} {kind} {name}({parameters}) {{\n    return {body};\n}}"


LANGUAGES = {real: C(real) for real in ("double", "float")}


def real_of(listing: Listing, real: str | None, arrays: bool = False) -> str:
    """Return the type to compute in: the one asked for, or that of the circuit's wires."""
    if real is not None and real not in LANGUAGES:
        raise OperandError(f"real is 'double' or 'float'; got {shown(real)}")
    floats = {variable.type.dtype.itemsize for variable in listing.variables if variable.type.dtype.kind == "f"}
    width = 4 if floats == {4} else 8
    if arrays and has_arrays(listing):
        check_types(listing, width)
    elif real is None or width == 8:
        scalar_only(listing, "C", width=width)
    return real or ("float" if width == 4 else "double")


def to_c(
    listing: Listing,
    name: str,
    real: str | None = None,
    header: bool = False,
    test: tuple[Numbers, Numbers] | None = None,
    guard: Guard | None = None,
) -> str:
    """Return a listing in C99, or its header; `test` is a point and the results to expect there."""
    language = LANGUAGES[real_of(listing, real, arrays=True)]
    body = (LoopBody if has_arrays(listing) else Body)(language, listing, name, guard)
    if header and test is not None:
        raise OperandError("a header has no self-test; ask for the listing with test=, and for its header by itself")
    if header:
        return _header(body)
    head = [
        f"// {body.writer.title()}",
        *body.described(),
        "#include <math.h>",
        "#include <stdbool.h>",
    ]
    tests = [] if test is None else [_self_test(body, *test)]
    return "\n\n".join(["\n".join(head), *guarded(body, ""), *tests]) + "\n"


def guarded(body: Body, before: str, arrays: bool = True) -> list[str]:
    """Return the definitions of a listing, those of its guard first; helpers that both need are written once."""
    if body.guard is None:
        return body.functions(before)
    own = body.functions(before)
    texts = in_language(lambda: _guard(body, before, arrays))
    return list(dict.fromkeys([*texts, *own]))


def _guard(body: Body, before: str, arrays: bool) -> list[str]:
    """Return the functions that compute the deciding values and find a branch that goes another way."""
    assert body.guard is not None
    listing = body.guard.listing
    language = body.language
    real_of(listing, language.real if language.end else None, arrays=arrays)
    checks = (LoopBody if arrays and has_arrays(listing) else Body)(language, listing, f"{body.name}_checks")
    if isinstance(checks, LoopBody):
        # Tables of constants are global, so both functions must take their names from one pool.
        writer = checks.writer
        names = body.writer.identifiers
        writer.identifiers = names
        writer.names = [name and names.take(name) for name in writer.names]
    return [*checks.functions(f"{language.function} "), _branch(checks, body, before)]


def _branch(checks: Body, body: Body, before: str) -> str:
    """Return the function that finds a branch that goes another way."""
    assert body.guard is not None
    real = body.language.real
    sizes = [np.size(branch.expected) for branch in body.guard.branches]
    call = f"y[0] = {checks.name}(x);" if checks.returns_value() else f"{checks.name}(x, y);"
    lines = [f"{real} y[{max(1, sum(sizes))}];", call]
    at = 0
    for branch, size in zip(body.guard.branches, sizes, strict=True):
        lines += _different(body.language, np.ravel(branch.expected), at, branch.number)
        at += size
    head = f"// {RESULT[:1].upper()}{RESULT[1:]}."
    signature = f"{before}{body.branch_signature()} {{"
    return "\n".join([head, signature, *(f"    {line}" for line in (*lines, "return 0;")), "}"])


def _different(language: C, expected: Any, at: int, number: int) -> Iterator[str]:
    """Return the statements that return a branch's number if its values differ from the expected ones."""
    for k, value in enumerate(expected.tolist()):
        actual = f"y[{at + k}]"
        wanted = language.number(float(value))
        if value != value:  # noqa: PLR0124 - NaN alone differs from itself
            same = f"{actual} != {actual}"
        elif value == 0.0 and not isinstance(value, bool):
            sign = "" if math.copysign(1.0, value) < 0 else "!"
            same = f"{actual} == {wanted} && {sign}signbit({actual})"
        else:
            same = f"{actual} == {wanted}"
        yield f"if (!({same})) return {number};"


def _self_test(body: Body, point: Numbers, wanted: Numbers) -> str:
    """Return a program that runs the function at a point and compares its results with the expected ones."""
    real = body.language.real
    number = body.language.number
    end = body.language.end
    sizes = sizes_of(body.listing)
    at = 1 if body.returns_value() else 0
    # Named after the function, so that none of them can hide it.
    x, wanted_, got, wrong = (f"{body.name}_{word}" for word in ("point", "wanted", "got", "wrong"))
    results = list[str]()
    for key in body.results:
        results.append(f"{got} + {at}" if at else got)
        at += sizes[key]
    call = f"{body.name}({', '.join([x, *results])});"
    near = "1e-4f" if end else "1e-9"
    size = len(wanted)
    return f"""\
#ifdef WIREGRAD_TEST
#include <stdio.h>

// Compile with -DWIREGRAD_TEST: the results at one point, against those of the circuit.
int main(void) {{
    const {real} {x}[] = {{{", ".join(map(number, point)) or number(0.0)}}};
    const {real} {wanted_}[] = {{{", ".join(map(number, wanted))}}};
    {real} {got}[{size}];
    int {wrong} = 0;
    {f"{got}[0] = {call}" if body.returns_value() else call}
    for (int k = 0; k < {size}; k++) {{
        const {real} is = {got}[k], should = {wanted_}[k];
        const bool same = is == should || (is != is && should != should);
        if (!same && !(fabs{end}(is - should) <= {near} * (1 + fabs{end}(should)))) {{
            printf("result %d is %.17g, wanted %.17g\\n", k, (double)is, (double)should);
            {wrong}++;
        }}
    }}
    printf("%d of {size} results as wanted\\n", {size} - {wrong});
    return {wrong} > 0;
}}
#endif"""


def sizes_of(listing: Listing) -> Mapping[str, int]:
    """Return the number of numbers in each result of a listing's function."""
    kinds = [listing.variables[number].type for number in listing.inputs.values()]
    inputs = sum(math.prod(kind.shape) for kind in kinds)
    outputs = len(listing.gradients)
    values = sum(math.prod(kind.shape) for kind in value_types(listing))
    return {"y": values, "grad": inputs, "jac": inputs * outputs, "hess": inputs * inputs}


def value_types(listing: Listing) -> list[WireType]:
    """Return the types of a listing's outputs."""
    return [listing.source.type_of(int(node)) for node in listing.source.columns.outputs]


def _header(body: Body) -> str:
    guard = f"{body.name.upper()}_H"
    cpp = "#ifdef __cplusplus", 'extern "C" {', "#endif"
    branch = [] if body.guard is None else [f"{body.branch_signature()};"]
    signatures = [f"{body.signature()};", *branch]
    lines = [f"#ifndef {guard}", f"#define {guard}", "", *cpp, "", *body.described(), *signatures, ""]
    return "\n".join([*lines, "#ifdef __cplusplus", "}", "#endif", "", "#endif"]) + "\n"


@dataclass
class Body:
    """Writes the functions of a scalar listing in C."""

    language: C
    listing: Listing
    name: str
    guard: Guard | None = None
    writer: Writer = field(init=False)

    def __post_init__(self) -> None:
        names = [] if self.guard is None else [f"{self.name}_checks", f"{self.name}_branch"]
        self.writer = Writer(self.language, self.listing, self.name, *names)
        several = len(self.listing.values) > 1 or any(kind.shape for kind in value_types(self.listing))
        several = several and self.listing.function == "value"
        keys = ("y",) if several else _RESULTS[self.listing.function]
        self.argument = self.writer.argument("x", "inputs")
        self.results = {key: self.writer.argument(key, f"{key}_out") for key in keys}
        self.lines = list(self.listing.lines())

    def described(self) -> Iterator[str]:
        """Return comments that say what the arguments are."""
        inputs = ", ".join(self.listing.inputs) or "nothing"
        yield f"// {self.argument}: {comment(inputs, 10_000)}"
        of = {"y": ", ".join(self.listing.values), "grad": "the gradient, in the same order"}
        of |= {"jac": "a row for each output: " + ", ".join(self.listing.gradients), "hess": "a row for each input"}
        for key, result in self.results.items():
            yield f"// {result}: {comment(of[key], 10_000)}"
        if self.guard is not None:
            elsewhere = f"results are NaN; {self.name}_branch gives its number"
            yield from (f"// {line}" for line in self.guard.described(elsewhere))

    def branch_signature(self) -> str:
        """Return the signature of the function that finds a branch that goes another way."""
        return f"int {self.name}_branch(const {self.language.real} *x)"

    def opening(self) -> list[str]:
        """Return the first statements of a guarded function: where a branch goes another way, all results are NaN."""
        if self.guard is None:
            return []
        sizes = sizes_of(self.listing)
        k = self.writer.identifiers.take("k")
        nan = self.language.not_a_number
        return [
            f"if ({self.name}_branch({self.argument})) {{",
            *(
                f"    for (int {k} = 0; {k} < {sizes[key]}; {k}++) {result}[{k}] = {nan};"
                for key, result in self.results.items()
            ),
            f"    return {nan};" if self.returns_value() else "    return;",
            "}",
        ]

    def signature(self) -> str:
        """Return the signature of the listing's function."""
        real = self.language.real
        value = real if self.returns_value() else "void"
        results = "".join(f", {real} *{result}" for result in self.results.values())
        return f"{value} {self.name}(const {real} *{self.argument}{results})"

    def returns_value(self) -> bool:
        """Return whether the function returns the value of the circuit."""
        return self.listing.function in ("value_and_grad", "hessian") or not self.results

    def functions(self, before: str) -> list[str]:
        """Return the definitions: helpers, then parts if the listing is cut, then the function itself."""
        parts = self.cut() if len(self.lines) > LONGEST else []
        body = self.long_body(parts) if parts else list(self.short_body())
        parts_text = [self.part(k, part) for k, part in enumerate(parts)]
        body = [*self.opening(), *body]
        used = any(f"{self.argument}[" in line or f"({self.argument}" in line for line in body)
        silent = [] if used else [f"(void){self.argument};"]
        whole = "\n".join([f"{before}{self.signature()} {{", *(f"    {line}" for line in (*silent, *body)), "}"])
        return [*self.language.helpers(self.writer.calls), *parts_text, whole]

    def short_body(self) -> Iterator[str]:
        """Return the statements of a listing that is not cut."""
        read = self.read()
        for k, number in enumerate(self.listing.inputs.values()):
            if number in read:
                yield f"const {self.language.real} {self.writer.names[number]} = {self.argument}[{k}];"
        for section in self.listing.sections:
            if section.lines:
                yield f"// {comment(section.title)}"
                yield from self.writer.noted((self.statement(line), line) for line in section.lines)
        yield from self.ending()

    def read(self) -> set[int]:
        """Return the variables that a line reads or the function returns."""
        read = {number for line in self.lines for number in line.read()}
        return read | set(self.listing.results())

    def statement(self, line: Line, declared: bool = True) -> str:
        """Return the statement of a line."""
        target = self.writer.names[line.target]
        added = self.writer.added(line)
        if added is not None:
            return f"{target} += {added};"
        if not line.again and declared:
            kind = self.language.type_of(self.listing.variables[line.target].type.dtype.kind == "b")
            target = f"{'' if line.target in self.writer.again else 'const '}{kind} {target}"
        return f"{target} = {self.writer.value(line)};"

    def ending(self) -> Iterator[str]:
        """Return the statements that store and return the results."""
        values = list(self.listing.values.values())
        rows = self.listing.gradients.values()
        match self.listing.function:
            case "value" if self.results:
                yield from self.stored(self.results["y"], values)
            case "value_and_grad":
                yield from self.stored(self.results["grad"], [atom for row in rows for atom in row.values()])
            case "jacobian":
                yield from self.stored(self.results["jac"], [atom for row in rows for atom in row.values()])
            case "hessian":
                yield from self.stored(self.results["grad"], values[1:])
                yield from self.stored(self.results["hess"], [atom for row in rows for atom in row.values()])
        if self.returns_value():
            yield f"return {self.writer.atom(values[0])};"

    def stored(self, array: str, atoms: Sequence[Atom]) -> Iterator[str]:
        """Return statements that store atoms in an array."""
        for k, atom in enumerate(atoms):
            yield f"{array}[{k}] = {self.writer.atom(atom)};"

    def cut(self) -> list[list[Line]]:
        """Cut the lines into parts; a variable that several parts use is stored in an array."""
        parts = [self.lines[k : k + PART] for k in range(0, len(self.lines), PART)]
        home: dict[int, int] = {}
        shared = set[int]()
        for k, part in enumerate(parts):
            for line in part:
                for number in (line.target, *line.read()):
                    if home.setdefault(number, k) != k:
                        shared.add(number)
        shared.update(self.listing.results())
        self.arrays = {"b": list[int](), "f": list[int]()}
        inputs = {number: k for k, number in enumerate(self.listing.inputs.values())}
        self.kept = {"f": self.writer.identifiers.take("w"), "b": self.writer.identifiers.take("c")}
        self.called = dict(enumerate(self.writer.names))
        for number in sorted(shared | set(inputs)):
            if number in inputs:
                self.writer.names[number] = f"{self.argument}[{inputs[number]}]"
                continue
            array = self.arrays["b" if self.listing.variables[number].type.dtype.kind == "b" else "f"]
            kind = "b" if array is self.arrays["b"] else "f"
            self.writer.names[number] = f"{self.kept[kind]}[{len(array)}]"
            array.append(number)
        self.shared = shared - set(inputs)
        return parts

    def part(self, k: int, lines: list[Line]) -> str:
        """Return the definition of the function of one part."""
        pairs = list[tuple[str, Line]]()
        for line in lines:
            outside = line.target in self.shared
            noted = replace(line, note=f"{self.called[line.target]}: {line.note}") if outside else line
            pairs.append((self.statement(line, declared=not outside), noted))
        body = list(self.writer.noted(pairs))
        text = "\n".join(body)
        unused = [name for name, _ in self.between() if f"{name}[" not in text]
        silent = [f"(void){name};" for name in unused]
        head = f"{self.language.function} void {self.part_name(k)}({', '.join(kind for _, kind in self.between())}) {{"
        return "\n".join([head, *(f"    {line}" for line in (*silent, *body)), "}"])

    def part_name(self, k: int) -> str:
        """Return the name of a part's function."""
        return f"{self.name}_part_{k + 1}"

    def between(self) -> list[tuple[str, str]]:
        """Return the arguments that every part takes, each with its declaration."""
        real = self.language.real
        arrays = [(self.kept[kind], f"{self.language.type_of(kind == 'b')} *{self.kept[kind]}") for kind in "fb"]
        return [(self.argument, f"const {real} *{self.argument}"), *arrays]

    def long_body(self, parts: list[list[Line]]) -> list[str]:
        """Return the statements that run the parts and return the results."""
        large = sum(map(len, self.arrays.values())) > ON_STACK
        if large and not self.language.static:
            raise NoRuleError(
                f"the circuit keeps more than {ON_STACK:,} numbers between its parts, too many for one thread of a GPU"
            )
        declarations = ["// Too large for the stack: not for two threads at once."] if large else []
        for kind, array in self.arrays.items():
            storage = "static " if large else ""
            name = self.language.type_of(kind == "b")
            declarations.append(f"{storage}{name} {self.kept[kind]}[{max(1, len(array))}];")
        arguments = ", ".join(name for name, _ in self.between())
        return [*declarations, *(f"{self.part_name(k)}({arguments});" for k in range(len(parts))), *self.ending()]


class LoopBody(Body):
    """Writes the functions of a listing with arrays in C, as loops."""

    def described(self) -> Iterator[str]:
        """Return comments that say what the arguments are."""
        _, *rest = super().described()
        places = ", ".join(layout(self.listing, self.writer.names)) or "nothing"
        yield f"// {self.argument}: {places}"
        yield from rest

    def functions(self, before: str) -> list[str]:
        """Return the definitions: helpers, constants, parts if the listing is cut, then the function itself."""
        loops = Loops(self.writer, self.language, self.argument, self.name)
        values = list(self.listing.values.values())
        kinds = value_types(self.listing)
        inputs = [self.listing.variables[number].type for number in self.listing.inputs.values()]
        rows = self.listing.gradients.values()
        slopes = Result([atom for row in rows for atom in row.values()], inputs * len(rows))
        parts = {"y": Result(values, kinds), "grad": slopes, "jac": slopes, "hess": slopes}
        if self.listing.function == "hessian":
            parts["grad"] = Result(values[1:], kinds[1:])
        handed = {result: parts[key] for key, result in self.results.items()}
        body = [*self.opening(), *loops.body(handed, values[0] if self.returns_value() else None)]
        used = any(re.search(rf"\b{self.argument}\b", line.partition("//")[0]) for line in body)
        silent = [] if used else [f"(void){self.argument};"]
        whole = "\n".join([f"{before}{self.signature()} {{", *(f"    {line}" for line in (*silent, *body)), "}"])
        tables = ["\n".join(loops.definitions)] if loops.definitions else []
        return [*self.language.helpers(self.writer.calls), *tables, *loops.parts, whole]


_RESULTS: dict[str, tuple[str, ...]] = {
    "value": (),
    "value_and_grad": ("grad",),
    "jacobian": ("jac",),
    "hessian": ("grad", "hess"),
}
