"""Listings in C99 and CUDA C++: no allocation, no state, doubles or floats.

A long listing is cut into functions of bounded size, because compilers take more than linear time over long functions.
What one part hands to a later one is stored in an array.

Statements on elements are written as loops (`LoopWriter`). Arrays are flat, in C order. The arrays of a listing are on
the stack if they are small, else static; constants and the tables of irregular maps are static and const. If a listing
with arrays is cut, all its arrays are in one struct.

A CUDA listing has a device function for one point and a kernel over a batch of points. The points are interleaved:
number k of point i is `x[k * n + i]`, so that neighbouring threads read neighbouring numbers.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from wiregrad.codegen.element_statements import (
    ArrayOpLowering,
    ArrayView,
    IndexMap,
    LoopArray,
    LoopCall,
    LoopNest,
    LoopStatement,
    LoopStep,
    LoopTask,
    MatrixCall,
    OrderStep,
    PickStep,
    ViewAlias,
    count_elements,
    find_loop_nest,
    find_strides,
)
from wiregrad.codegen.language import (
    BRANCH_RESULT_TEXT,
    SELECT_TEXT,
    STATUS_TEXT,
    BranchTree,
    ExpressionText,
    FunctionSpelling,
    Identifiers,
    ListingGuard,
    ListingLanguage,
    ListingWriter,
    escape_comment,
    require_scalars,
    reserved_words,
    unbounded_loop_error,
    write_or_explain,
)
from wiregrad.codegen.listing import (
    CONDITION_TO_NUMBER,
    Atom,
    ConstantForm,
    Form,
    Listing,
    ListingLine,
    OpForm,
    SlotForm,
    build_listing,
    find_uniform_value,
    op_function_names,
    slots_of,
)
from wiregrad.dtypes import WireType, suggest_stored_dtype
from wiregrad.errors import NoRuleError, OperandError, short_repr
from wiregrad.ir import TABLE, CircuitGraph, Op
from wiregrad.lazy import load_module_lazily
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import ArrayOp
from wiregrad.ops.c_expressions import MATH_H_FUNCTIONS, ScalarExpression, is_condition, parse_c_text

if TYPE_CHECKING:
    from wiregrad.frontends.transforms import loop_ops
    from wiregrad.frontends.transforms.loop_ops import ControlPlan, ScanPlan, SwitchPlan, WhilePlan
else:
    loop_ops = load_module_lazily("wiregrad.frontends.transforms.loop_ops")

MAX_STACK_ELEMENTS = 65_536
"""Maximum number of array elements on the stack; if a listing has more, its arrays are static."""
MAX_TABLE_NUMBERS = 1_000_000
"""Maximum number of numbers in the constants and tables of a listing."""
MAX_ARRAY_SIZE = 2**31 - 1
"""Maximum number of elements of an array, so that an int can count them."""
MAX_UNCUT_STEPS = 400
"""Maximum number of steps of a listing that is not cut into parts."""
STEPS_PER_PART = 200
"""Number of steps in a part."""
MAX_LINE_WIDTH = 100


STATIC_REMARK = "// Too large for the stack: not for two threads at once."


class LoopLanguage(Protocol):
    """What loops need to know about the C dialect."""

    @property
    def real(self) -> str:
        """The type of numbers."""

    def write_number(self, value: float) -> str:
        """Return the literal of a number or truth value."""

    def type_name(self, condition: bool) -> str:
        """Return the type of a condition or a number."""

    def lower_form(self, form: Form) -> ScalarExpression:
        """Return the expression that a form is written as."""

    def write_expression(self, tree: ScalarExpression) -> ExpressionText:
        """Return the text of an expression and the functions it calls."""


class LoopResult(NamedTuple):
    """The contents of one result array, in order: atoms and their types."""

    atoms: Sequence[Atom]
    kinds: Sequence[WireType]


def has_arrays(listing: Listing) -> bool:
    """Return whether a listing has arrays, or array ops applied to numbers."""
    forms = (line.form for line in listing.all_lines())
    whole = any(isinstance(form, OpForm) and isinstance(form.op, ArrayOp) for form in forms)
    return whole or any(variable.type.shape for variable in listing.variables)


def find_width(listing: Listing) -> int:
    """Return the number of bytes of a listing's real numbers, which may be computed with in another type."""
    floats = {variable.type.dtype.itemsize for variable in listing.variables if variable.type.dtype.kind == "f"}
    return 4 if floats == {4} else 8


def check_types(listing: Listing, width: int) -> None:
    """Raise unless arrays hold real numbers of one width, or conditions; inputs must not be whole numbers."""
    for role, node, kind, _ in listing.variables:
        if kind.dtype.kind not in "fbi" or (kind.dtype.kind == "f" and kind.dtype.itemsize != width):
            hint = suggest_stored_dtype(kind.dtype) or "; use to_numpy(), which keeps dtypes"
            raise NoRuleError(
                f"loops in C compute with real numbers of one type, and {listing.circuit.name} has {kind} "
                f"({role.value} of node {node}){hint}"
            )
        if count_elements(kind) > MAX_ARRAY_SIZE:
            raise NoRuleError(f"loops in C count up to {MAX_ARRAY_SIZE:,}, and {kind} has more elements")
    for name, number in listing.inputs.items():
        if listing.variables[number].type.dtype.kind == "i":
            raise NoRuleError(f"the input {name} has integers, and loops in C take real inputs only; use to_numpy()")


def describe_input_layout(listing: Listing, names: Sequence[str]) -> list[str]:
    """Return the position of each input in the argument, as texts such as `W[3][2] at 2`."""
    positions = []
    start = 0
    for number in listing.inputs.values():
        kind = listing.variables[number].type
        lengths = "".join(f"[{n}]" for n in kind.shape)
        positions.append(f"{names[number]}{lengths} at {start}")
        start += count_elements(kind)
    return positions


class LoopWriter:
    """Writes the body of one listing's function as loops in C; subclasses write them in other languages.

    `functions` has the functions of the circuit's own loops.
    """

    is_cut: ClassVar[bool] = True
    """Whether long listings are cut into functions."""

    def __init__(
        self, writer: ListingWriter, language: LoopLanguage, argument: str, name: str, functions: LoopFunctions
    ) -> None:
        self.writer = writer
        self.functions = functions
        self.language = language
        self.argument = argument
        self.name = name
        self.elements = ArrayOpLowering(writer.listing, writer.names)
        self.counters = [writer.identifiers.take_name(name) for name in "ijklpqrs"]
        self.tables: dict[bytes, str] = {}
        self.definitions: list[str] = []
        self.parts: list[str] = []
        self.work = ""
        self.shared = frozenset[LoopArray]()
        self._seen: set[LoopArray] = set()
        self.room = 0
        self.refused = ""
        """The variable that says whether a function of matrices has refused one; empty if none can."""
        self.sections: list[tuple[str, list[LoopStep]]] = []
        for section in writer.listing.sections:
            self.elements.steps = []
            for line in section.lines:
                self.elements.lower_line(line)
            self.sections.append((section.title, self.elements.steps))

    def write_body(self, results: Mapping[str, LoopResult], value: Atom | None) -> list[str]:
        """Return the statements of the function; `results` are its result arrays, `value` is what it returns."""
        ends = [step for name, result in results.items() for step in self._store_result(name, result)]
        returned = None if value is None else self._atom_elements(value, WireType(np.dtype(float)))
        live = {view.array for step in ends for view in step.views_read()}
        if isinstance(returned, ArrayView):
            live.add(returned.array)
        sections = [(title, _drop_unread_steps(steps, live)) for title, steps in reversed(self.sections)][::-1]
        counts = Counter(step.target for _, steps in sections for step in steps if not isinstance(step, ViewAlias))
        self._name_arrays(sections)
        if any(isinstance(step, MatrixCall) and step.op.may_raise for _, steps in sections for step in steps):
            self.refused = self.writer.identifiers.take_name("refused")
        if self.is_cut and sum(len(steps) for _, steps in sections) > MAX_UNCUT_STEPS:
            lines = self._cut_into_functions(sections, counts)
            live = {view.array for step in ends for view in step.views_read()}
            lines += self._declare_inputs(live | ({returned.array} if isinstance(returned, ArrayView) else set()))
        else:
            refused = [f"int {self.refused} = 0;"] if self.refused else []
            lines = [*refused, *self._declare_inputs(live), *self._declare_arrays(counts)]
            for title, steps in sections:
                if steps:
                    lines += [
                        f"{self.writer.language.remark} {escape_comment(title)}",
                        *self.writer.align_comments(self._write_steps(steps, counts)),
                    ]
        lines += [text for step in ends for text in self.write_statement(step)]
        if self.refused:
            lines += self._write_refusal(results, "" if value is None else " NAN")
        return lines if value is None else [*lines, self.end_statement(f"return {self._write_single(returned)}")]

    def end_statement(self, text: str) -> str:
        """Return a statement with what ends it."""
        return f"{text};"

    def write_loops(self, loops: Sequence[tuple[str, int]], done: Sequence[str]) -> list[str]:
        """Write statements inside loops, each given by its counter and its length."""
        return _write_loops(loops, done)

    def declare_number(self, target: LoopArray, statement: str, *, is_final: bool) -> str:
        """Return the statement that assigns a number for the first time."""
        return f"{'const ' if is_final else ''}{self._type_name(target.kind)} {statement}"

    def _cut_into_functions(
        self, sections: Sequence[tuple[str, list[LoopStep]]], counts: Counter[LoopArray]
    ) -> list[str]:
        """Cut the steps into functions; returns the statements that call them."""
        self.work = self.writer.identifiers.take_name("w")
        self.shared = frozenset(counts)
        struct = f"struct {self.name}_work"
        large = sum(array.size for array in counts) > MAX_STACK_ELEMENTS
        fields = [f"    {line}" for line in self._declare_arrays(counts)]
        fields += [f"    int {self.refused};"] if self.refused else []
        self.parts = ["\n".join(["// What the parts hand on to each other.", f"{struct} {{", *fields, "};"])]
        calls = list[str]()
        for title, steps in sections:
            for start in range(0, len(steps), STEPS_PER_PART):
                part = steps[start : start + STEPS_PER_PART]
                name = f"{self.name}_part_{len(calls) + 1}"
                self.parts.append(self._define_part(f"static void {name}", title, part, counts, struct))
                calls.append(f"{name}({self.argument}, {self.work});")
        all_of_it = self.writer.identifiers.take_name("work")
        head = [STATIC_REMARK, f"static {struct} {all_of_it};"] if large else [f"{struct} {all_of_it};"]
        reset = [f"{self._refused_name()} = 0;"] if self.refused else []
        return [*head, f"{struct} *{self.work} = &{all_of_it};", *reset, *calls]

    def _define_part(
        self, head: str, title: str, steps: Sequence[LoopStep], counts: Counter[LoopArray], struct: str
    ) -> str:
        """Return the definition of a function that runs some of the steps."""
        tasks = [step for step in steps if not isinstance(step, ViewAlias)]
        inputs = list(self._declare_inputs({view.array for step in tasks for view in step.views_read()}))
        silent = [*([] if inputs else [f"(void){self.argument};"]), *([] if tasks else [f"(void){self.work};"])]
        body = [
            *silent,
            *inputs,
            f"// {escape_comment(title)}",
            *self.writer.align_comments(self._write_steps(steps, counts)),
        ]
        arguments = f"const {self.language.real} *{self.argument}, {struct} *{self.work}"
        return "\n".join([f"{head}({arguments}) {{", *(f"    {line}" for line in body), "}"])

    def _write_steps(
        self, steps: Sequence[LoopStep], counts: Counter[LoopArray]
    ) -> Iterator[tuple[str, ListingLine | None]]:
        for step in steps:
            if isinstance(step, ViewAlias):
                remark = self.writer.language.remark
                yield f"{remark} {self.describe_alias(step)} ({escape_comment(step.line.note)})", None
                continue
            first, *rest = self.write_task(step)
            target = step.target
            if target.size == 1 and not target.indexed and target not in self._seen and target not in self.shared:
                self._seen.add(target)
                if isinstance(step, LoopStatement):
                    first = self.declare_number(target, first, is_final=counts[target] == 1)
                else:
                    yield f"{self._type_name(target.kind)} {target.name};", None
            yield first, step.line
            yield from ((text, None) for text in rest)

    def _type_name(self, kind: str) -> str:
        return "int" if kind == "i" else self.language.type_name(kind == "b")

    def _name_arrays(self, sections: Sequence[tuple[str, list[LoopStep]]]) -> None:
        """Give a name to each array that has none in the listing."""
        count = 0
        for _, steps in sections:
            for step in steps:
                if not isinstance(step, ViewAlias) and not step.target.name:
                    count += 1
                    step.target.name = self.writer.identifiers.take_name(f"u{count}")

    def _declare_inputs(self, live: set[LoopArray]) -> Iterator[str]:
        """Return the declarations that name the inputs that are read."""
        start = 0
        real = self.language.real
        for number in self.writer.listing.inputs.values():
            array = self.elements.held[number]
            assert isinstance(array, LoopArray)
            if array in live and array.size:
                at = f"{self.argument}[{start}]"
                name = array.name
                if array.size == 1:
                    yield f"const {self._type_name(array.kind)} {name} = {at}{' != 0' if array.kind == 'b' else ''};"
                elif array.kind == "b":
                    k = self.counters[0]
                    yield f"bool {name}[{array.size}];"
                    loop = f"for (int {k} = 0; {k} < {array.size}; {k}++)"
                    yield f"{loop} {name}[{k}] = {self.argument}[{_write_index([(k, 1)], start)}] != 0;"
                else:
                    yield f"const {real} *{name} = {self.argument}{f' + {start}' if start else ''};"
            start += array.size

    def _declare_arrays(self, counts: Counter[LoopArray]) -> Iterator[str]:
        """Return the declarations of all arrays; single numbers are declared here only if the listing is cut."""
        arrays = [array for array in counts if array.size > 1 or array.indexed or array in self.shared]
        large = sum(array.size for array in arrays) > MAX_STACK_ELEMENTS and not self.shared
        if large:
            yield STATIC_REMARK
        for kind in "fbi":
            own = [array for array in arrays if array.kind == kind]
            names = [array.name + (f"[{array.size}]" if array.size > 1 or array.indexed else "") for array in own]
            if names:
                head = f"{'static ' if large else ''}{self._type_name(kind)} "
                yield from _wrap_line(f"{head}{', '.join(names)};")

    def _atom_elements(self, atom: Atom, kind: WireType) -> ArrayView | ConstantForm:
        elements = self.elements.elements_of(atom) if isinstance(atom, int) else atom
        if (
            not isinstance(elements, ConstantForm)
            or find_uniform_value(elements.value) is not None
            or not count_elements(kind)
        ):
            return elements
        return self.elements.views[self.elements.constant_table(elements).number]

    def _store_result(self, name: str, result: LoopResult) -> Iterator[LoopStatement]:
        """Return the statements that fill a result array."""
        start = 0
        target = LoopArray(sum(map(count_elements, result.kinds)), "f", name, indexed=True)
        for atom, kind in zip(result.atoms, result.kinds, strict=True):
            elements = self._atom_elements(atom, kind)
            size = count_elements(kind)
            if size:
                views = [elements] if isinstance(elements, ArrayView) else []
                form = SlotForm(0, kind) if isinstance(elements, ArrayView) else _first_number(elements)
                yield LoopStatement(target, np.arange(start, start + size), form, views)
            start += size

    def _write_single(self, elements: ArrayView | ConstantForm | None) -> str:
        assert elements is not None
        if isinstance(elements, ConstantForm):
            return self.language.write_number(_first_number(elements).value.item())
        return self._write_element(elements.array, int(elements.map[0]), (), ())

    def write_task(self, step: LoopTask) -> list[str]:
        """Return the text of a step."""
        if isinstance(step, LoopStatement):
            return self.write_statement(step)
        if isinstance(step, LoopCall):
            name = self.functions.define_loop(step.op, step.ramps)
            arrays = f"{self._array_name(step.operands.array)}, {self._array_name(step.target)}"
            return [self.end_statement(f"{name}({arrays})")]
        if isinstance(step, MatrixCall):
            return self.write_matrix_call(step)
        return self.write_order(step) if isinstance(step, OrderStep) else self.write_pick(step)

    def write_matrix_call(self, step: MatrixCall) -> list[str]:
        """Return the call of a function of matrices, once for each matrix of a stack."""
        shapes = [view.kind.shape for view in step.operands]
        name = self.functions.define_matrix_function(step.op, shapes)
        count = math.prod(shapes[0][:-2])
        arrays = [view.array for view in step.operands] + [step.target]
        k = self.counters[0]
        names = [
            self._array_name(array) if count == 1 else f"{self._array_name(array)} + {k} * {array.size // count}"
            for array in arrays
        ]
        call = f"{name}({', '.join(names)})"
        done = f"{self._refused_name()} |= {call};" if step.op.may_raise else f"{call};"
        return _write_loops([(k, count)], [done])

    def _refused_name(self) -> str:
        """Return the variable that says whether a function has refused its matrix."""
        return f"{self.work}->{self.refused}" if self.work else self.refused

    def _write_refusal(self, results: Mapping[str, LoopResult], value: str) -> list[str]:
        """Return what happens where a matrix was refused: all results are NaN."""
        k = self.counters[0]
        sizes = {name: sum(map(count_elements, result.kinds)) for name, result in results.items()}
        fill = [f"for (int {k} = 0; {k} < {size}; {k}++) {name}[{k}] = NAN;" for name, size in sizes.items()]
        head = f"if ({self._refused_name()}) {{  // where the interpreter raises LinAlgError"
        return [head, *(f"    {line}" for line in (*fill, f"return{value};")), "}"]

    def write_pick(self, step: PickStep) -> list[str]:
        """Return loops that pick or add elements by indices."""
        i, j, k = (self.counters[n] for n in (0, 2, 1))
        names = (i, k, j)
        rows, count, beside = step.lengths
        steps = find_strides(step.indices.map, step.lengths if len(step.indices.map) > count else (1, count, 1))
        assert steps is not None
        place = self._write_element(step.indices.array, int(step.indices.map[0]), steps, names)
        far = _strides_of_lengths(rows, step.along, beside)
        near = _strides_of_lengths(*step.lengths)
        if step.adds:
            own = find_strides(step.source.map, step.lengths)
            assert own is not None
            there = f"{self._array_name(step.target)}[{_write_index(zip((i, place, j), far, strict=True), 0)}]"
            done = f"{there} += {self._write_element(step.source.array, int(step.source.map[0]), own, names)};"
        else:
            own = find_strides(step.source.map, (rows, step.along, beside))
            assert own is not None
            there = self._write_element(step.source.array, int(step.source.map[0]), own, (i, place, j))
            done = f"{self._write_element(step.target, 0, near, names)} = {there};"
        return _write_loops(list(zip(names, step.lengths, strict=True)), [done])

    def write_order(self, step: OrderStep) -> list[str]:
        """Return loops that sort indices by insertion, or that find the index of the element that comes first."""
        i, j, k, _, p = self.counters[:5]
        rows, count, beside = step.lengths
        own = find_strides(step.source.map, step.lengths)
        assert own is not None

        def write_source(place: str) -> str:
            return self._write_element(step.source.array, int(step.source.map[0]), own, (i, place, j))

        def write_target(place: str, more: int = 0) -> str:
            return self._write_element(step.target, more * beside, _strides_of_lengths(*step.lengths), (i, place, j))

        text = self.language.write_expression(self.language.lower_form(step.before))
        self.writer.calls |= text.calls
        loops = [(i, rows), (j, beside)]
        if step.first:
            target = self._write_element(step.target, 0, _strides_of_lengths(rows, beside), (i, j))
            sooner = text.template.format(write_source(k), write_source(p))
            head = f"for (int {k} = 1; {k} < {count}; {k}++)"
            inner = [f"int {p} = 0;", f"{head} if ({sooner}) {p} = {k};", f"{target} = {p};"]
            return _write_loops(loops, ["{", *(f"    {line}" for line in inner), "}"])
        sooner = text.template.format(write_source(k), write_source(write_target(p, -1)))
        move = f"for (; {p} > 0 && ({sooner}); {p}--) {write_target(p)} = {write_target(p, -1)};"
        inner = ["{", f"    int {p} = {k};", f"    {move}", f"    {write_target(p)} = {k};", "}"]
        return _write_loops([*loops, (k, count)], inner)

    def write_statement(self, step: LoopStatement) -> list[str]:
        """Return the text of a statement: a line per loop; the last loop and the assignment may share a line."""
        nest = step.nest or find_loop_nest([step.at, *(view.map for view in step.views_read())])
        names = self._counter_names(step.nest)
        target = self._write_mapped_element(step.target, step.at, nest, 0, names)
        done = self.end_statement(f"{target} {self._write_assignment(step, nest, names)}")
        return self.write_loops(list(zip(names, nest.lengths, strict=False)), [done])

    def _counter_names(self, nest: LoopNest | None) -> list[str]:
        """Return the names of the loop counters; a matrix product has rows i and columns j."""
        i, j, k, other = self.counters[:4]
        return self.counters if nest is None else [other, i, k, j]

    def _write_assignment(self, step: LoopStatement, nest: LoopNest, names: Sequence[str]) -> str:
        """Return the right-hand side of a statement, with = or += before it."""
        operands = [""] * len(step.views)
        for k, slot in enumerate(sorted(slots_of(step.form)), 1):
            operands[slot] = self._write_mapped_element(step.views[slot].array, step.views[slot].map, nest, k, names)
        form = step.form
        sign = "="
        if isinstance(form, OpForm) and form.op is TABLE["add"] and isinstance(form.operands[0], SlotForm):
            view = step.views[form.operands[0].number]
            if view.array is step.target and np.array_equal(view.map, step.at):
                form = form.operands[1]
                sign = "+="
        if isinstance(form, SlotForm):
            return f"{sign} {operands[form.number]}"
        if isinstance(form, ConstantForm):
            return f"{sign} {self.language.write_number(_first_number(form).value.item())}"
        text = self.language.write_expression(self.language.lower_form(form))
        self.writer.calls |= text.calls
        return f"{sign} {text.template.format(*operands)}"

    def _write_mapped_element(
        self, array: LoopArray, at: IndexMap, nest: LoopNest, k: int, names: Sequence[str]
    ) -> str:
        """Return the element of an array that a map points to inside the loops."""
        steps = nest.steps[k]
        if steps is not None:
            return self._write_element(array, int(at[0]), steps, names)
        place = _write_index(zip(names, nest.flat_strides, strict=False), 0)
        return f"{self._array_name(array)}[{self._map_table(at)}[{place}]]"

    def _write_element(self, array: LoopArray, start: int, steps: Sequence[int], names: Sequence[str]) -> str:
        single = array.size == 1 and not array.indexed
        return self._array_name(array) + ("" if single else f"[{_write_index(zip(names, steps, strict=False), start)}]")

    def _array_name(self, array: LoopArray) -> str:
        """Return the name of an array; a constant's table is defined when it is first read."""
        if array.data is not None and array not in self._seen:
            self._seen.add(array)
            array.name = array.name or self.writer.identifiers.take_name(f"c{len(self.definitions) + 1}")
            numbers = [self.language.write_number(value) for value in array.data.tolist()]
            self._define_table(self._type_name(array.kind), array.name, numbers, array.size == 1)
        return f"{self.work}->{array.name}" if array in self.shared else array.name

    def _map_table(self, at: IndexMap) -> str:
        """Return the name of the table of a map."""
        key = at.tobytes()
        if key not in self.tables:
            self.tables[key] = self.writer.identifiers.take_name(f"map{len(self.tables) + 1}")
            self._define_table("int", self.tables[key], [str(number) for number in at.tolist()])
        return self.tables[key]

    def _define_table(self, kind: str, name: str, numbers: Sequence[str], single: bool = False) -> None:
        self.room += len(numbers)
        if self.room > MAX_TABLE_NUMBERS:
            raise NoRuleError(
                f"the constants of a C listing may have {MAX_TABLE_NUMBERS:,} numbers in all; make large ones inputs"
            )
        head = f"static const {kind} {name}"
        text = f"{head} = {numbers[0]};" if single else f"{head}[{len(numbers)}] = {{{', '.join(numbers)}}};"
        self.definitions.append("\n".join(_wrap_line(text)))

    def describe_alias(self, step: ViewAlias) -> str:
        """Return a comment that says which array a variable without a statement is a view of."""
        view = step.view
        if view.is_whole_array or (view.array.size == 1 and len(view.map) == 1):
            return f"{step.name} is {self._array_name(view.array)}"
        nest = find_loop_nest([np.arange(len(view.map)), view.map])
        if None in nest.steps:
            return f"{step.name} is {self._array_name(view.array)} in another order"
        own = self._write_mapped_element(LoopArray(len(view.map), "f", step.name), np.arange(1), nest, 0, self.counters)
        return f"{own} is {self._write_mapped_element(view.array, view.map, nest, 1, self.counters)}"


LOOP_VARIABLES = ("x", "y", "a", "b", "c", "q", "k", "n")
"""The variables of the functions of loops: their arguments and results, those of bodies and conditions, counters."""


class LoopFunctions:
    """The functions of a circuit's loops and branches, in C: each body, and what runs it; subclasses for others.

    A function takes its numbers as one array and writes its results to another: the inputs of a body, or the operands
    of a loop, end to end. All functions of a listing take their names from one pool.
    """

    def __init__(self, language: ListingLanguage, identifiers: Identifiers, width: int = 8) -> None:
        self.language = language
        self.identifiers = identifiers
        self.width = width
        """The number of bytes of a real number of the circuit, in bodies too, whatever type the code computes in."""
        self.names: dict[object, str] = {}
        """The name of the function of each plan and circuit."""
        self.texts: list[str] = []
        self.calls: set[str] = set()

    def define_loop(self, op: Op, ramps: tuple[tuple[int, float, float], ...]) -> str:
        """Return the name of the function that runs a loop or a branch; `ramps` are rows that are not operands."""
        plan = op.options["loop"]
        name = self.names.get((plan, ramps))
        if name is None:
            self._reserve_names()
            if isinstance(plan, loop_ops.CountedPullPlan):
                raise unbounded_loop_error(plan)
            bodies = [self._define_body(circuit, f"step of {op.title}") for circuit in plan.circuits]
            name = self.names[plan, ramps] = self.identifiers.take_name(op.title)
            self.texts.append(self.write_function(name, plan.called, self._write_plan(plan, ramps, bodies)))
        return name

    def define_matrix_function(self, op: ArrayOp, shapes: Sequence[tuple[int, ...]]) -> str:
        """Return the name of the function that computes an op of matrices with these shapes, one of each."""
        sizes = tuple([shape[-2:] for shape in shapes])
        name = self.names.get((op, sizes))
        if name is None:
            assert op.c_function is not None
            title = "_".join([op.name, *("x".join(map(str, size)) for size in sizes)])
            name = self.names[op, sizes] = self.identifiers.take_name(title)
            real = getattr(self.language, "real", "double")
            head = f"static int {name}({', '.join(f'const {real} *{k}' for k in op.inputs)}, {real} *y) {{"
            lines = self._use_real(op.c_function(*sizes, **op.options), real).splitlines()
            self.texts.append(
                "\n".join([f"// {escape_comment(op.doc, 200)}", head, *(f"    {line}" for line in lines), "}"])
            )
        return name

    @staticmethod
    def _use_real(text: str, real: str) -> str:
        """Return C code with a type in place of `real`, and with the functions of that type."""
        typed = re.sub(r"\breal\b", real, text)
        return re.sub(r"\b(fabs|sqrt|log|frexp|ldexp)(?=\()", r"\1f", typed) if real == "float" else typed

    def _reserve_names(self) -> None:
        """Keep variables of bodies and functions from having the names of the variables of loops."""
        for name in LOOP_VARIABLES:
            if name not in self.identifiers:
                self.identifiers.take_name(name)

    def _define_body(self, circuit: CircuitGraph, within: str) -> str:
        """Return the name of the function of a circuit; `within` is that of a body without a name of its own."""
        name = self.names.get(circuit)
        if name is None:
            title = within if circuit.name == "body" else circuit.name
            name = self.names[circuit] = self.identifiers.take_name(title)
            listing = build_listing(circuit, "value")
            self.check_listing(listing)
            writer = ListingWriter(self.language, listing)
            # Tables of constants are global.
            writer.identifiers = self.identifiers
            writer.names = [own and self.identifiers.take_name(own) for own in writer.names]
            loops = self.make_writer(writer, name)
            results = {"y": LoopResult(list(listing.values.values()), output_types(listing))}
            lines = loops.write_body(results, None)
            self.calls |= writer.calls
            self.texts += [*loops.definitions, *loops.parts, self.write_function(name, circuit.name, lines)]
        return name

    def _write_plan(
        self, plan: ControlPlan, ramps: Sequence[tuple[int, float, float]], bodies: Sequence[str]
    ) -> list[str]:
        if isinstance(plan, loop_ops.ScanPlan):
            return self._write_scan(plan, ramps, bodies[0])
        if isinstance(plan, loop_ops.WhilePlan):
            return self._write_while(plan, *bodies)
        assert isinstance(plan, loop_ops.SwitchPlan)
        return self._write_switch(plan, bodies)

    def _write_scan(self, plan: ScanPlan, ramps: Sequence[tuple[int, float, float]], body: str) -> list[str]:
        sizes = [*map(count_elements, plan.in_types)]
        known = {number: (start, step) for number, start, step in ramps}
        at = 1 if plan.counted else 0
        before: list[str] = []
        moved: list[str] = []
        inside = 0
        for k, size in enumerate(sizes):
            operand = k + plan.counted
            if k < plan.carry or k >= plan.carry + plan.xs:
                before += self.copy_numbers("a", str(inside), "x", str(at), size)
                at += size
            elif operand in known:
                start, step = known[operand]
                moved.append(self.end(f"a[{inside}] = {self.write_ramp(start, step)}"))
            else:
                moved += self.copy_numbers("a", str(inside), "x", _write_index([("n", size)], at), size)
                at += size * (plan.length or 0)
            inside += size
        carried = sum(sizes[: plan.carry])
        own = [*map(count_elements, plan.out_types)]
        after = self.copy_numbers("a", "0", "b", "0", carried)
        to = source = carried
        for size in own[plan.carry :]:
            after += self.copy_numbers("y", _write_index([("n", size)], to), "b", str(source), size)
            to += size * (plan.length or 0)
            source += size
        count = "x[0]" if plan.counted else str(plan.length)
        zeros = self.fill_numbers("y", carried, to - carried, "0") if plan.counted else []
        step_lines = [*moved, self.end(f"{body}(a, b)"), *after]
        return [
            *self.declare_numbers("a", sum(sizes)),
            *self.declare_numbers("b", sum(own)),
            *before,
            *zeros,
            *self.repeat_steps(count, plan.reverse, step_lines),
            *self.copy_numbers("y", "0", "a", "0", carried),
        ]

    def _write_while(self, plan: WhilePlan, condition: str, body: str) -> list[str]:
        kinds = [*map(count_elements, plan.operand_types)]
        carried = sum(kinds[: plan.carry])
        asked = sum(kinds[plan.carry : plan.carry + plan.conditions])
        consts = sum(kinds[plan.carry + plan.conditions :])
        refuse = [] if plan.limit is None else self.refuse_more(plan.limit, carried + 1)
        step = [
            *refuse,
            self.end(f"{body}(a, b)"),
            *self.copy_numbers("a", "0", "b", "0", carried),
            *self.copy_numbers("q", "0", "b", "0", carried),
            self.end("n += 1"),
            self.end(f"{condition}(q, c)"),
        ]
        return [
            *self.declare_numbers("a", carried + consts),
            *self.declare_numbers("b", carried),
            *self.declare_numbers("q", carried + asked),
            *self.declare_numbers("c", 1),
            *self.copy_numbers("a", "0", "x", "0", carried),
            *self.copy_numbers("a", str(carried), "x", str(carried + asked), consts),
            *self.copy_numbers("q", "0", "x", "0", carried + asked),
            self.declare_count(),
            self.end(f"{condition}(q, c)"),
            *self.write_block(self.while_head("c[0]"), step),
            *self.copy_numbers("y", "0", "a", "0", carried),
            self.end(f"y[{carried}] = n"),
        ]

    def _write_switch(self, plan: SwitchPlan, bodies: Sequence[str]) -> list[str]:
        size = sum(map(count_elements, plan.layout.types))
        operands = sum(map(count_elements, plan.in_types))
        lines = [*self.declare_numbers("a", operands), *self.copy_numbers("a", "0", "x", "1", operands)]
        for k, body in enumerate(bodies):
            lines += self.write_block(self.if_head(f"x[0] == {k}"), [self.end(f"{body}(a, y)")])
        outside = f"x[0] < 0 {self.either} x[0] >= {len(bodies)}"
        return [*lines, *self.write_block(self.if_head(outside), self.refuse_index(len(bodies), size))]

    either: ClassVar[str] = "||"

    def check_listing(self, listing: Listing) -> None:
        """Raise if the language cannot compute with the types of a body."""
        check_types(listing, self.width)

    def make_writer(self, writer: ListingWriter, name: str) -> LoopWriter:
        """Return what writes the body of a function."""
        assert isinstance(self.language, CLanguage)
        return LoopWriter(writer, self.language, "x", name, self)

    def write_function(self, name: str, title: str, lines: Sequence[str]) -> str:
        """Return the definition of a function from its lines."""
        real = getattr(self.language, "real", "double")
        silent = [] if is_read("x", lines) else ["(void)x;"]
        head = f"static void {name}(const {real} *x, {real} *y) {{"
        return "\n".join([f"// {escape_comment(title)}", head, *(f"    {line}" for line in (*silent, *lines)), "}"])

    def write_block(self, head: str, lines: Sequence[str]) -> list[str]:
        """Return lines under a head."""
        return [f"{head} {{", *(f"    {line}" for line in lines), "}"]

    def end(self, text: str) -> str:
        """Return a statement with what ends it."""
        return f"{text};"

    def write_ramp(self, start: float, step: float) -> str:
        """Return the number of step n of evenly spaced ones."""
        number = self.language.write_number
        product = "n" if step == 1.0 else f"{number(step)} * n"
        return product if start == 0.0 else f"{number(start)} + {product}"

    def declare_numbers(self, name: str, size: int) -> list[str]:
        """Return the declaration of an array of numbers."""
        real = getattr(self.language, "real", "double")
        kept = size > MAX_STACK_ELEMENTS
        return [*([STATIC_REMARK] if kept else []), f"{'static ' if kept else ''}{real} {name}[{max(1, size)}];"]

    def declare_count(self) -> str:
        """Return the declaration of the number of steps."""
        return "long n = 0;"

    def while_head(self, condition: str) -> str:
        """Return the head of a loop that runs while a number is not 0."""
        return f"while ({condition} != 0)"

    def if_head(self, condition: str) -> str:
        """Return the head of a choice."""
        return f"if ({condition})"

    def copy_numbers(self, target: str, to: str, source: str, at: str, size: int) -> list[str]:
        """Return a loop that copies numbers."""
        if size == 0:
            return []
        if size == 1:
            return [self.end(f"{target}[{to}] = {source}[{at}]")]
        left, right = (f"{start} + k" if start != "0" else "k" for start in (to, at))
        return self.count_loop(size, f"{target}[{left}] = {source}[{right}]")

    def fill_numbers(self, target: str, start: int, size: int, number: str) -> list[str]:
        """Return a loop that sets numbers."""
        return self.count_loop(size, f"{target}[{start} + k] = {number}") if size else []

    def count_loop(self, size: int, statement: str) -> list[str]:
        """Return a loop over k."""
        return [f"for (long k = 0; k < {size}; k++) {statement};"]

    def repeat_steps(self, count: str, reverse: bool, lines: Sequence[str]) -> list[str]:
        """Return a loop over the steps n."""
        last = str(int(count) - 1) if count.isdigit() else f"(long){count} - 1"
        backward = f"for (long n = {last}; n >= 0; n--)"
        return self.write_block(backward if reverse else f"for (long n = 0; n < {count}; n++)", lines)

    def refuse_more(self, limit: int, size: int) -> list[str]:
        """Return what happens at the limit of a loop: all results are NaN."""
        return self.write_block(self.if_head(f"n == {limit}"), [*self.fill_numbers("y", 0, size, "NAN"), "return;"])

    def refuse_index(self, count: int, size: int) -> list[str]:
        """Return what happens where no branch has the index: all results are NaN."""
        return self.fill_numbers("y", 0, size, "NAN")


class ScriptLoopWriter(LoopWriter):
    """Writes the body of one listing's function as loops in a language without declared types."""

    is_cut: ClassVar[bool] = False

    def write_main(self, atoms: Sequence[Atom]) -> tuple[list[str], list[str]]:
        """Return the statements of the listing's own function, and the texts of its results, which are numbers."""
        elements = [self._atom_elements(atom, WireType(np.dtype(float))) for atom in atoms]
        live = {each.array for each in elements if isinstance(each, ArrayView)}
        sections = [(title, _drop_unread_steps(steps, live)) for title, steps in reversed(self.sections)][::-1]
        counts = Counter(step.target for _, steps in sections for step in steps if not isinstance(step, ViewAlias))
        self._name_arrays(sections)
        lines = [*self._declare_arrays(counts)]
        for title, steps in sections:
            if steps:
                lines.append(f"{self.writer.language.remark} {escape_comment(title)}")
                lines += self.writer.align_comments(self._write_steps(steps, counts))
        return lines, [self._write_single(each) for each in elements]

    def _declare_inputs(self, live: set[LoopArray]) -> Iterator[str]:
        """Iterate over the declarations of the inputs that are read."""
        start = 0
        for number in self.writer.listing.inputs.values():
            array = self.elements.held[number]
            assert isinstance(array, LoopArray)
            if array in live and array.size:
                yield self._declare_input(array, start)
            start += array.size

    def _declare_input(self, array: LoopArray, start: int) -> str:
        """Return the declaration of an input whose first number has this place."""
        raise NotImplementedError

    def write_pick(self, step: PickStep) -> list[str]:
        """Raise: there are no indices that are whole numbers."""
        raise NoRuleError(f"{self._describe(step)} is not written in {self.writer.language.title}; {_USE_OTHERS}")

    def write_order(self, step: OrderStep) -> list[str]:
        """Raise: there are no indices that are whole numbers."""
        raise NoRuleError(f"{self._describe(step)} is not written in {self.writer.language.title}; {_USE_OTHERS}")

    def write_matrix_call(self, step: MatrixCall) -> list[str]:
        """Raise: the functions are written in C."""
        raise NoRuleError(f"{step.op.title} is not written in {self.writer.language.title}; {_USE_OTHERS}")

    @staticmethod
    def _describe(step: PickStep | OrderStep) -> str:
        return "an op that sorts or picks elements" if step.line is None else step.line.note


_USE_OTHERS = "use to_numpy() or to_c()"


def check_script_listing(listing: Listing, language: str) -> None:
    """Raise unless a listing with loops has numbers as inputs and results, and computes in float64 and conditions."""
    kinds = [*(listing.variables[number].type for number in listing.inputs.values()), *output_types(listing)]
    wide = next((kind for kind in kinds if kind.shape), None)
    if wide is not None:
        raise NoRuleError(
            f"{language} listings take and return numbers, and {listing.circuit.name} has {wide}; {_USE_OTHERS}"
        )
    check_types(listing, 8)


class WrittenLoops(NamedTuple):
    """A listing with loops: the functions, the statements of its own function, and the text of each result."""

    texts: list[str]
    calls: set[str]
    lines: list[str]
    results: dict[int, str]


def write_script_loops(writer: ListingWriter, name: str, functions: LoopFunctions, language: str) -> WrittenLoops:
    """Write a listing with loops in a language without pointers."""
    check_script_listing(writer.listing, language)
    loops = functions.make_writer(writer, name)
    assert isinstance(loops, ScriptLoopWriter)
    atoms = list(dict.fromkeys(writer.listing.result_variables()))
    lines, texts = loops.write_main(atoms)
    return WrittenLoops(
        [*functions.texts, *loops.definitions], functions.calls, lines, dict(zip(atoms, texts, strict=True))
    )


def _drop_unread_steps(steps: Sequence[LoopStep], live: set[LoopArray]) -> list[LoopStep]:
    """Return the steps whose results are read; `live` holds the arrays read later, and grows by those read here."""
    read_steps = list[LoopStep]()
    for step in reversed(steps):
        if isinstance(step, ViewAlias):
            if step.view.array in live and len(step.view.map):
                read_steps.append(step)
        elif step.target in live:
            live.update(view.array for view in step.views_read())
            read_steps.append(step)
    return read_steps[::-1]


def _write_index(terms: Iterable[tuple[str, int]], start: int) -> str:
    """Write an index: i * 3 + j + 1.

    >>> _write_index([("i", 3), ("j", 1)], 0), _write_index([("i", -1)], 4), _write_index([], 2)
    ('i * 3 + j', '4 - i', '2')
    """
    signed = [(name if abs(step) == 1 else f"{name} * {abs(step)}", step < 0) for name, step in terms if step]
    plus = [text for text, negative in signed if not negative]
    minus = [text for text, negative in signed if negative]
    if start < 0:
        minus = [*minus, str(-start)]
    elif start or not plus:
        plus = [*plus, str(start)]
    return " - ".join([" + ".join(plus), *minus])


def _strides_of_lengths(*lengths: int) -> tuple[int, ...]:
    """Return the stride of each axis in C order; 0 for an axis of length 1."""
    behind = [int(np.prod(lengths[k + 1 :], dtype=np.int64)) for k in range(len(lengths))]
    return tuple(step if length > 1 else 0 for step, length in zip(behind, lengths, strict=True))


def _write_loops(loops: Sequence[tuple[str, int]], done: Sequence[str]) -> list[str]:
    """Write statements inside loops; a loop that runs once is left out."""
    heads = [f"for (int {name} = 0; {name} < {length}; {name}++)" for name, length in loops if length != 1]
    if len(done) > 1:
        last = heads.pop() if heads else ""
        done = [f"{last} {done[0]}".strip(), *done[1:]]
    if len(heads) < 2 and len(done) == 1:
        return [" ".join([*heads, *done])]
    deep = "    " * len(heads)
    return [*(f"{'    ' * k}{head}" for k, head in enumerate(heads)), *(f"{deep}{line}" for line in done)]


def _first_number(constant: ConstantForm) -> ConstantForm:
    return ConstantForm(np.asarray(constant.value).ravel()[0], WireType(constant.type.dtype))


def _wrap_line(text: str) -> list[str]:
    return textwrap.wrap(text, MAX_LINE_WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


MAX_UNCUT_LINES = 400
"""Maximum number of lines of a listing that is not cut into parts."""
LINES_PER_PART = 200
"""Number of lines in a part."""
MAX_STACK_NUMBERS = 65_536
"""Maximum number of numbers in the arrays between parts on the stack; larger arrays are static."""
PointNumbers = Sequence[float]

C_KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true "
    "false asm typeof NAN INFINITY NULL main alignas alignof and and_eq bitand bitor catch class compl constexpr "
    "const_cast decltype delete dynamic_cast explicit export friend mutable namespace new noexcept not not_eq nullptr "
    "operator or or_eq private protected public reinterpret_cast requires static_assert static_cast template this "
    "thread_local throw try typeid typename using virtual wchar_t xor xor_eq concept co_await co_return co_yield "
    "char8_t char16_t char32_t linux unix errno stdin stdout stderr signgam gamma y0 y1 yn j0 j1 jn I".split()
)
"""Keywords of C, and of C++, which may include the header of a listing; names that common headers define."""
OTHER_HEADER_NAMES = frozenset(
    "acosl fdim fma fmax fmin frexp ilogb ldexp lgamma llrint llround logb lrint lround modf nan nearbyint nextafter "
    "nexttoward remainder remquo round scalbln scalbn tgamma abs labs div exit abort isnan isinf isfinite signbit "
    "isnormal fpclassify printf".split()
)


class CLanguage(ListingLanguage):
    """C99, in doubles or floats."""

    title = "C"
    reserved = C_KEYWORDS | OTHER_HEADER_NAMES | {f"{name}{end}" for name in MATH_H_FUNCTIONS for end in ("", "f", "l")}
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
        calls = {name: FunctionSpelling(f"{name}{self.end}") for name in MATH_H_FUNCTIONS}
        self.own_words: Mapping[str, FunctionSpelling] = {**calls, CONDITION_TO_NUMBER: FunctionSpelling(f"({real})")}

    @property
    def words(self) -> Mapping[str, FunctionSpelling]:  # type: ignore[override]
        """The functions of math.h, with the names they have for this type."""
        return self.own_words

    def write_number(self, value: float) -> str:
        """Return the literal of a number or truth value."""
        if not self.end or isinstance(value, bool):
            return super().write_number(value)
        with np.errstate(over="ignore"):
            narrow = float(np.float32(value))
        # Compilers warn about a literal outside the range of float, so its float value is written instead.
        held = value if math.isfinite(narrow) and (narrow != 0.0 or value == 0.0) else narrow
        return super().write_number(held) + (self.end if math.isfinite(held) else "")

    def write_choice(self, condition: str, yes: str, no: str) -> str:
        """Return the text of a choice."""
        return f"{condition} ? {yes} : {no}"

    def type_name(self, condition: bool) -> str:
        """Return the type of a condition or a number."""
        return "bool" if condition else self.real

    def function_name(self, name: str) -> str:
        """Return the name of a function; an op's function must not have the name of one of C's own."""
        return f"{name}_op" if name in self.reserved and name not in self.words else super().function_name(name)

    def helper_names(self) -> frozenset[str]:
        """Return the names that helpers may have; no variable may have one of them."""
        return super().helper_names() | frozenset(map(self.function_name, op_function_names()))

    def define_op(self, op: Elementwise, name: str, body: str) -> str:
        """Return the definition of an op as a function."""
        name = self.function_name(name)
        parameters = ", ".join(f"{self.type_name(k in op.takes_bool)} {k}" for k in op.inputs)
        kind = self.type_name(is_condition(parse_c_text(op.c)))
        return f"// {escape_comment(op.doc)}\n{self.function} {kind} {name}({parameters}) {{\n    return {body};\n}}"


C_LANGUAGES = {real: CLanguage(real) for real in ("double", "float")}


def choose_real(listing: Listing, real: str | None, arrays: bool = False) -> str:
    """Return the type to compute in: the one asked for, or that of the circuit's wires."""
    if real is not None and real not in C_LANGUAGES:
        raise OperandError(f"real is 'double' or 'float'; got {short_repr(real)}")
    width = find_width(listing)
    if arrays and has_arrays(listing):
        check_types(listing, width)
    elif real is None or width == 8:
        require_scalars(listing, "C", width=width)
    return real or ("float" if width == 4 else "double")


def to_c(
    listing: Listing,
    name: str,
    real: str | None = None,
    header: bool = False,
    test: tuple[PointNumbers, PointNumbers] | None = None,
    guard: ListingGuard | None = None,
) -> str:
    """Return a listing in C99, or its header; `test` is a point and the results to expect there."""
    language = C_LANGUAGES[choose_real(listing, real, arrays=True)]
    body = make_functions(language, listing, name, guard)
    if header:
        _refuse_header_test(test)
        return _write_header(body, None if guard is None else body.branch_signature())
    head = [
        f"// {body.writer.write_title()}",
        *body.describe_arguments(),
        "#include <math.h>",
        "#include <stdbool.h>",
    ]
    tests = [] if test is None else [_write_self_test(body, *test)]
    return "\n\n".join(["\n".join(head), *define_with_guard(body, ""), *tests]) + "\n"


def make_functions(language: CLanguage, listing: Listing, name: str, guard: ListingGuard | None = None) -> CFunctions:
    """Return what writes the functions of a listing in C, with loops if it has arrays."""
    return (CLoopFunctions if has_arrays(listing) else CFunctions)(language, listing, name, guard)


def write_branches_in_c(
    tree: BranchTree,
    name: str,
    real: str | None = None,
    header: bool = False,
    test: tuple[PointNumbers, PointNumbers] | None = None,
) -> str:
    """Return all recordings of a function in C99: one function that answers, and one that gives the status.

    The options are those of `to_c`.
    """
    language = C_LANGUAGES[choose_real(tree.recordings[0].listing, real, arrays=True)]
    first = make_functions(language, tree.recordings[0].listing, name)
    statuses = [f"// {line}" for line in tree.describe_statuses(f"results are NaN, and {name}_status gives the number")]
    if header:
        _refuse_header_test(test)
        return _write_header(first, _status_signature(first), statuses)
    texts = list[str]()
    own = [name, f"{name}_status", f"{name}_select", first.argument, *first.results.values()]
    pool = Identifiers([*reserved_words(language), *own], language.macros)
    for recording in tree.recordings:
        choose_real(recording.listing, language.real, arrays=True)
        body = make_functions(language, recording.listing, f"{name}_{recording.number}", recording.guard)
        if has_arrays(recording.listing):
            body.take_names_from(pool)
        if recording.guard is not None:
            texts += write_or_explain(partial(_define_guard, body, "static ", True))
            body.guard = None
        texts += body.define_functions("static ")
    head = [
        f"// {tree.write_title(name)}",
        *first.describe_arguments(),
        *statuses,
        "#include <math.h>",
        "#include <stdbool.h>",
    ]
    answers = [_write_c_selector(tree, first), _write_c_status(first), _write_c_answer(tree, first)]
    tests = [] if test is None else [_write_self_test(first, *test)]
    # Recordings share helpers.
    return "\n\n".join(["\n".join(head), *dict.fromkeys(texts), *answers, *tests]) + "\n"


def _refuse_header_test(test: object) -> None:
    if test is not None:
        raise OperandError("a header has no self-test; ask for the listing with test=, and for its header by itself")


def _write_c_selector(tree: BranchTree, body: CFunctions) -> str:
    """Return the function that finds the recording that is valid at a point."""
    has_checks = any(recording.guard is not None for recording in tree.recordings)
    lines = ["int recording = 1;", *([] if has_checks else ["(void)x;"])]
    for recording in tree.recordings:
        k = recording.number
        if recording.guard is None:
            lines += [f"if (recording == {k}) return {k};"]
            continue
        following = "".join(f"branch == {check} ? {to} : " for check, to in sorted(recording.next_recordings.items()))
        lines += [
            f"if (recording == {k}) {{",
            f"    const int branch = {body.name}_{k}_branch(x);",
            f"    if (branch == 0) return {k};",
            f"    recording = {following}0;",
            f"    if (recording == 0) return -({recording.first_status} + branch);",
            "}",
        ]
    head = f"// {SELECT_TEXT[:1].upper()}{SELECT_TEXT[1:]}."
    signature = f"static int {body.name}_select(const {body.language.real} *x) {{"
    return "\n".join([head, signature, *(f"    {line}" for line in lines), "    return 0;", "}"])


def _status_signature(body: CFunctions) -> str:
    return f"int {body.name}_status(const {body.language.real} *x)"


def _write_c_status(body: CFunctions) -> str:
    return "\n".join(
        [
            f"// {STATUS_TEXT[:1].upper()}{STATUS_TEXT[1:]}.",
            f"{_status_signature(body)} {{",
            f"    const int recording = {body.name}_select(x);",
            "    return recording < 0 ? -recording : 0;",
            "}",
        ]
    )


def _write_c_answer(tree: BranchTree, body: CFunctions) -> str:
    """Return the function that answers with the recording that is valid."""
    arguments = ", ".join([body.argument, *body.results.values()])
    nan = body.language.not_a_number
    sizes = count_results(body.listing)
    lines = [f"switch ({body.name}_select({body.argument})) {{"]
    for recording in tree.recordings:
        call = f"{body.name}_{recording.number}({arguments})"
        answer = f"return {call};" if body.returns_value() else f"{call}; return;"
        lines.append(f"    case {recording.number}: {answer}")
    lines += ["    default: break;", "}"]
    lines += [f"for (int k = 0; k < {sizes[key]}; k++) {result}[k] = {nan};" for key, result in body.results.items()]
    lines += [f"return {nan};"] if body.returns_value() else []
    return "\n".join([f"{body.function_signature()} {{", *(f"    {line}" for line in lines), "}"])


def define_with_guard(body: CFunctions, before: str, arrays: bool = True) -> list[str]:
    """Return the definitions of a listing, those of its guard first; helpers that both need are written once."""
    if body.guard is None:
        return body.define_functions(before)
    own = body.define_functions(before)
    texts = write_or_explain(lambda: _define_guard(body, before, arrays))
    return list(dict.fromkeys([*texts, *own]))


def _define_guard(body: CFunctions, before: str, arrays: bool) -> list[str]:
    """Return the functions that compute the deciding values and find a branch that goes another way."""
    assert body.guard is not None
    listing = body.guard.listing
    language = body.language
    choose_real(listing, language.real if language.end else None, arrays=arrays)
    checks = (make_functions if arrays else CFunctions)(language, listing, f"{body.name}_checks")
    if isinstance(checks, CLoopFunctions):
        checks.take_names_from(body.writer.identifiers)
    return [*checks.define_functions(f"{language.function} "), _define_branch_finder(checks, body, before)]


def _define_branch_finder(checks: CFunctions, body: CFunctions, before: str) -> str:
    """Return the function that finds a branch that goes another way."""
    assert body.guard is not None
    real = body.language.real
    sizes = [np.size(branch.expected) for branch in body.guard.branches]
    call = f"y[0] = {checks.name}(x);" if checks.returns_value() else f"{checks.name}(x, y);"
    lines = [f"{real} y[{max(1, sum(sizes))}];", call]
    at = 0
    for branch, size in zip(body.guard.branches, sizes, strict=True):
        lines += _write_comparisons(body.language, np.ravel(branch.expected), at, branch.number)
        at += size
    head = f"// {BRANCH_RESULT_TEXT[:1].upper()}{BRANCH_RESULT_TEXT[1:]}."
    signature = f"{before}{body.branch_signature()} {{"
    return "\n".join([head, signature, *(f"    {line}" for line in (*lines, "return 0;")), "}"])


def _write_comparisons(language: CLanguage, expected: NDArray[Any], at: int, number: int) -> Iterator[str]:
    """Return the statements that return a branch's number if its values differ from the expected ones."""
    for k, value in enumerate(expected.tolist()):
        actual = f"y[{at + k}]"
        wanted = language.write_number(float(value))
        if value != value:  # noqa: PLR0124 - NaN alone differs from itself
            same = f"{actual} != {actual}"
        elif value == 0.0 and not isinstance(value, bool):
            sign = "" if math.copysign(1.0, value) < 0 else "!"
            same = f"{actual} == {wanted} && {sign}signbit({actual})"
        else:
            same = f"{actual} == {wanted}"
        yield f"if (!({same})) return {number};"


def _write_self_test(body: CFunctions, point: PointNumbers, wanted: PointNumbers) -> str:
    """Return a program that runs the function at a point and compares its results with the expected ones."""
    real = body.language.real
    number = body.language.write_number
    end = body.language.end
    sizes = count_results(body.listing)
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


def is_read(name: str, lines: Iterable[str]) -> bool:
    """Return whether statements read a variable; what is in comments does not count.

    >>> is_read("x", ["y = x[0];"]), is_read("x", ["y = x1[0];  // sin(x)"])
    (True, False)
    """
    return any(re.search(rf"\b{name}\b", line.partition("//")[0]) for line in lines)


def count_results(listing: Listing) -> Mapping[str, int]:
    """Return the number of numbers in each result of a listing's function."""
    inputs = sum(math.prod(kind.shape) for kind in list_wanted_types(listing))
    outputs = len(listing.gradients)
    values = sum(math.prod(kind.shape) for kind in output_types(listing))
    return {"y": values, "grad": inputs, "jac": inputs * outputs, "hess": inputs * inputs}


def list_wanted_types(listing: Listing) -> list[WireType]:
    """Return the types of the inputs that derivatives are by."""
    return [listing.variables[listing.inputs[name]].type for name in listing.wanted]


def output_types(listing: Listing) -> list[WireType]:
    """Return the types of a listing's outputs; for second derivatives, of the value and the gradient."""
    kinds = [listing.source.type_of(int(node)) for node in listing.source.columns.outputs]
    return kinds[: len(listing.values)] if listing.function == "hessian" else kinds


def _write_header(body: CFunctions, second: str | None, remarks: Sequence[str] = ()) -> str:
    """Return a header with the signature of the function, and of a second one that says where it is valid."""
    guard = f"{body.name.upper()}_H"
    cpp = "#ifdef __cplusplus", 'extern "C" {', "#endif"
    signatures = [f"{body.function_signature()};", *([] if second is None else [f"{second};"])]
    about = [*body.describe_arguments(), *remarks]
    lines = [f"#ifndef {guard}", f"#define {guard}", "", *cpp, "", *about, *signatures, ""]
    return "\n".join([*lines, "#ifdef __cplusplus", "}", "#endif", "", "#endif"]) + "\n"


@dataclass
class CFunctions:
    """Writes the functions of a scalar listing in C."""

    language: CLanguage
    listing: Listing
    name: str
    guard: ListingGuard | None = None
    writer: ListingWriter = field(init=False)

    def __post_init__(self) -> None:
        names = [] if self.guard is None else [f"{self.name}_checks", f"{self.name}_branch"]
        self.writer = ListingWriter(self.language, self.listing, self.name, *names)
        several = len(self.listing.values) > 1 or any(kind.shape for kind in output_types(self.listing))
        several = several and self.listing.function == "value"
        keys = ("y",) if several else _RESULT_ARGUMENTS[self.listing.function]
        self.argument = self.writer.name_argument("x", "inputs")
        self.results = {key: self.writer.name_argument(key, f"{key}_out") for key in keys}
        self.lines = list(self.listing.all_lines())

    def take_names_from(self, pool: Identifiers) -> None:
        """Let variables and tables of constants, which are global, have names that no other function of a file has."""
        self.writer.identifiers = pool
        self.writer.names = [name and pool.take_name(name) for name in self.writer.names]

    def describe_arguments(self) -> Iterator[str]:
        """Return comments that say what the arguments are."""
        inputs = ", ".join(self.listing.inputs) or "nothing"
        yield f"// {self.argument}: {escape_comment(inputs, 10_000)}"
        wanted = ", ".join(self.listing.wanted)
        by = "" if len(self.listing.wanted) == len(self.listing.inputs) else f" by {wanted}"
        of = {"y": ", ".join(self.describe_values()) if "y" in self.results else ""}
        of["grad"] = f"the gradient{by}, in the same order"
        of["jac"] = f"a row{by and f' of derivatives{by}'} for each output: " + ", ".join(self.listing.gradients)
        of["hess"] = f"a row for each of {wanted}" if by else "a row for each input"
        for key, result in self.results.items():
            yield f"// {result}: {escape_comment(of[key], 10_000)}"
        if self.guard is not None:
            elsewhere = f"results are NaN; {self.name}_branch gives its number"
            yield from (f"// {line}" for line in self.guard.describe_branches(elsewhere))

    def describe_values(self) -> Iterator[str]:
        """Return what the results are, in their order."""
        yield from self.listing.values

    def branch_signature(self) -> str:
        """Return the signature of the function that finds a branch that goes another way."""
        return f"int {self.name}_branch(const {self.language.real} *x)"

    def write_guard_check(self) -> list[str]:
        """Return the first statements of a guarded function: where a branch goes another way, all results are NaN."""
        if self.guard is None:
            return []
        sizes = count_results(self.listing)
        k = self.writer.identifiers.take_name("k")
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

    def function_signature(self) -> str:
        """Return the signature of the listing's function."""
        real = self.language.real
        value = real if self.returns_value() else "void"
        results = "".join(f", {real} *{result}" for result in self.results.values())
        return f"{value} {self.name}(const {real} *{self.argument}{results})"

    def returns_value(self) -> bool:
        """Return whether the function returns the value of the circuit."""
        return self.listing.function in ("value_and_grad", "hessian") or not self.results

    def define_functions(self, before: str) -> list[str]:
        """Return the definitions: helpers, then parts if the listing is cut, then the function itself."""
        parts = self.cut_into_parts() if len(self.lines) > MAX_UNCUT_LINES else []
        body = self.write_long_body(parts) if parts else list(self.write_short_body())
        parts_text = [self.define_part(k, part) for k, part in enumerate(parts)]
        body = [*self.write_guard_check(), *body]
        silent = [] if is_read(self.argument, body) else [f"(void){self.argument};"]
        whole = "\n".join(
            [f"{before}{self.function_signature()} {{", *(f"    {line}" for line in (*silent, *body)), "}"]
        )
        return [*self.language.define_helpers(self.writer.calls), *parts_text, whole]

    def write_short_body(self) -> Iterator[str]:
        """Return the statements of a listing that is not cut."""
        read = self.variables_read()
        for k, number in enumerate(self.listing.inputs.values()):
            if number in read:
                yield f"const {self.language.real} {self.writer.names[number]} = {self.argument}[{k}];"
        for section in self.listing.sections:
            if section.lines:
                yield f"// {escape_comment(section.title)}"
                yield from self.writer.align_comments((self.write_statement(line), line) for line in section.lines)
        yield from self.write_results()

    def variables_read(self) -> set[int]:
        """Return the variables that a line reads or the function returns."""
        read = {number for line in self.lines for number in line.variables_read()}
        return read | set(self.listing.result_variables())

    def write_statement(self, line: ListingLine, declared: bool = True) -> str:
        """Return the statement of a line."""
        target = self.writer.names[line.target]
        added = self.writer.write_increment(line)
        if added is not None:
            return f"{target} += {added};"
        if not line.again and declared:
            kind = self.language.type_name(self.listing.variables[line.target].type.dtype.kind == "b")
            target = f"{'' if line.target in self.writer.again else 'const '}{kind} {target}"
        return f"{target} = {self.writer.write_value(line)};"

    def write_results(self) -> Iterator[str]:
        """Return the statements that store and return the results."""
        values = list(self.listing.values.values())
        rows = self.listing.gradients.values()
        match self.listing.function:
            case "value" if self.results:
                yield from self.store_atoms(self.results["y"], values)
            case "value_and_grad":
                yield from self.store_atoms(self.results["grad"], [atom for row in rows for atom in row.values()])
            case "jacobian":
                yield from self.store_atoms(self.results["jac"], [atom for row in rows for atom in row.values()])
            case "hessian":
                yield from self.store_atoms(self.results["grad"], values[1:])
                yield from self.store_atoms(self.results["hess"], [atom for row in rows for atom in row.values()])
        if self.returns_value():
            yield f"return {self.writer.write_atom(values[0])};"

    def store_atoms(self, array: str, atoms: Sequence[Atom]) -> Iterator[str]:
        """Return statements that store atoms in an array."""
        for k, atom in enumerate(atoms):
            yield f"{array}[{k}] = {self.writer.write_atom(atom)};"

    def cut_into_parts(self) -> list[list[ListingLine]]:
        """Cut the lines into parts; a variable that several parts use is stored in an array."""
        parts = [self.lines[k : k + LINES_PER_PART] for k in range(0, len(self.lines), LINES_PER_PART)]
        home: dict[int, int] = {}
        shared = set[int]()
        for k, part in enumerate(parts):
            for line in part:
                for number in (line.target, *line.variables_read()):
                    if home.setdefault(number, k) != k:
                        shared.add(number)
        shared.update(self.listing.result_variables())
        self.arrays = {"b": list[int](), "f": list[int]()}
        inputs = {number: k for k, number in enumerate(self.listing.inputs.values())}
        self.part_arrays = {"f": self.writer.identifiers.take_name("w"), "b": self.writer.identifiers.take_name("c")}
        self.called = dict(enumerate(self.writer.names))
        for number in sorted(shared | set(inputs)):
            if number in inputs:
                self.writer.names[number] = f"{self.argument}[{inputs[number]}]"
                continue
            array = self.arrays["b" if self.listing.variables[number].type.dtype.kind == "b" else "f"]
            kind = "b" if array is self.arrays["b"] else "f"
            self.writer.names[number] = f"{self.part_arrays[kind]}[{len(array)}]"
            array.append(number)
        self.shared = shared - set(inputs)
        return parts

    def define_part(self, k: int, lines: list[ListingLine]) -> str:
        """Return the definition of the function of one part."""
        pairs = list[tuple[str, ListingLine]]()
        for line in lines:
            outside = line.target in self.shared
            noted = replace(line, note=f"{self.called[line.target]}: {line.note}") if outside else line
            pairs.append((self.write_statement(line, declared=not outside), noted))
        body = list(self.writer.align_comments(pairs))
        text = "\n".join(body)
        unused = [name for name, _ in self.part_arguments() if f"{name}[" not in text]
        silent = [f"(void){name};" for name in unused]
        arguments = ", ".join(kind for _, kind in self.part_arguments())
        head = f"{self.language.function} void {self.part_name(k)}({arguments}) {{"
        return "\n".join([head, *(f"    {line}" for line in (*silent, *body)), "}"])

    def part_name(self, k: int) -> str:
        """Return the name of a part's function."""
        return f"{self.name}_part_{k + 1}"

    def part_arguments(self) -> list[tuple[str, str]]:
        """Return the arguments that every part takes, each with its declaration."""
        real = self.language.real
        arrays = [(name, f"{self.language.type_name(kind == 'b')} *{name}") for kind, name in self.part_arrays.items()]
        return [(self.argument, f"const {real} *{self.argument}"), *arrays]

    def write_long_body(self, parts: list[list[ListingLine]]) -> list[str]:
        """Return the statements that run the parts and return the results."""
        large = sum(map(len, self.arrays.values())) > MAX_STACK_NUMBERS
        if large and not self.language.static:
            raise NoRuleError(
                f"the circuit keeps more than {MAX_STACK_NUMBERS:,} numbers between its parts, "
                "too many for one thread of a GPU"
            )
        declarations = ["// Too large for the stack: not for two threads at once."] if large else []
        for kind, array in self.arrays.items():
            storage = "static " if large else ""
            name = self.language.type_name(kind == "b")
            declarations.append(f"{storage}{name} {self.part_arrays[kind]}[{max(1, len(array))}];")
        arguments = ", ".join(name for name, _ in self.part_arguments())
        return [
            *declarations,
            *(f"{self.part_name(k)}({arguments});" for k in range(len(parts))),
            *self.write_results(),
        ]


class CLoopFunctions(CFunctions):
    """Writes the functions of a listing with arrays in C, as loops."""

    def describe_arguments(self) -> Iterator[str]:
        """Return comments that say what the arguments are."""
        _, *rest = super().describe_arguments()
        places = ", ".join(describe_input_layout(self.listing, self.writer.names)) or "nothing"
        yield f"// {self.argument}: {places}"
        yield from rest
        rows = self.listing.circuit.rows()
        strict = {row.op.name: row.op for row in rows if isinstance(row.op, ArrayOp) and row.op.c_function}
        refusing = [name for name, op in strict.items() if op.may_raise]
        if refusing:
            yield f"// Where {' or '.join(refusing)} refuses its matrix (LinAlgError in NumPy), all results are NaN."

    def describe_values(self) -> Iterator[str]:
        """Return what the results are, in their order: the shapes of arrays, and where they begin."""
        start = 0
        for name, kind in zip(self.listing.values, output_types(self.listing), strict=True):
            shape = "".join(f"[{size}]" for size in kind.shape)
            yield f"{name}{shape} at {start}"
            start += math.prod(kind.shape)

    def define_functions(self, before: str) -> list[str]:
        """Return the definitions: helpers, constants, parts if the listing is cut, then the function itself."""
        functions = LoopFunctions(self.language, self.writer.identifiers, find_width(self.writer.listing))
        loops = LoopWriter(self.writer, self.language, self.argument, self.name, functions)
        values = list(self.listing.values.values())
        kinds = output_types(self.listing)
        inputs = list_wanted_types(self.listing)
        rows = self.listing.gradients.values()
        slopes = LoopResult([atom for row in rows for atom in row.values()], inputs * len(rows))
        parts = {"y": LoopResult(values, kinds), "grad": slopes, "jac": slopes, "hess": slopes}
        if self.listing.function == "hessian":
            parts["grad"] = LoopResult(values[1:], kinds[1:])
        handed = {result: parts[key] for key, result in self.results.items()}
        body = [*self.write_guard_check(), *loops.write_body(handed, values[0] if self.returns_value() else None)]
        silent = [] if is_read(self.argument, body) else [f"(void){self.argument};"]
        whole = "\n".join(
            [f"{before}{self.function_signature()} {{", *(f"    {line}" for line in (*silent, *body)), "}"]
        )
        tables = ["\n".join(loops.definitions)] if loops.definitions else []
        helpers = self.language.define_helpers({*self.writer.calls, *functions.calls})
        return [*helpers, *functions.texts, *tables, *loops.parts, whole]


_RESULT_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "value": (),
    "value_and_grad": ("grad",),
    "jacobian": ("jac",),
    "hessian": ("grad", "hess"),
}


CUDA_RESERVED = frozenset(
    "threadIdx blockIdx blockDim gridDim warpSize __global__ __device__ __shared__ __constant__ dim3 float2 float3 "
    "float4 double2 double3 double4 int2 int3 int4 uint2 uint3 uint4 min max clock rsqrt rcbrt sinpi cospi norm "
    "norm3d norm4d exp10 erfcx erfinv erfcinv normcdf normcdfinv rhypot fdividef".split()
)


class CudaLanguage(CLanguage):
    """CUDA C++."""

    title = "CUDA"
    reserved = CLanguage.reserved | CUDA_RESERVED
    macros = re.compile(rf"{CLanguage.macros.pattern}|(cuda|L_|P_)\w*")
    static = False
    function = "__device__ static"


CUDA_HEADER = """\
#ifdef __CUDACC_RTC__
#define NAN __int_as_float(0x7fffffff)
#define INFINITY __int_as_float(0x7f800000)
#else
#include <math.h>
#endif"""
"""NVRTC, the compiler for use at run time, has the functions of math.h, but neither the file nor these two names."""
CUDA_LANGUAGES = {real: CudaLanguage(real) for real in ("double", "float")}


def to_cuda(listing: Listing, name: str, real: str | None = None, guard: ListingGuard | None = None) -> str:
    """Return a listing in CUDA C++."""
    language = CUDA_LANGUAGES[choose_real(listing, real)]
    body = CFunctions(language, listing, name, guard)
    head = "\n".join([f"// {body.writer.write_title()}", *body.describe_arguments(), CUDA_HEADER])
    return "\n\n".join([head, *define_with_guard(body, "__device__ static ", arrays=False), _write_kernel(body)]) + "\n"


def _write_kernel(body: CFunctions) -> str:
    real = body.language.real
    sizes = count_results(body.listing)
    own = Identifiers([body.name, *body.language.reserved])
    x, n, i, k, point = (own.take_name(name) for name in ("x", "n", "i", "k", "point"))
    value = [own.take_name("value")] if body.returns_value() else []
    results = {key: own.take_name(key) for key in body.results}
    here = {key: own.take_name(f"{key}_here") for key in body.results}
    parameters = [f"const {real} *{x}", *(f"{real} *{result}" for result in (*value, *results.values()))]
    inputs = len(body.listing.inputs)
    call = f"{body.name}({', '.join([point, *here.values()])})"
    lines = [
        f"const long {i} = (long)blockIdx.x * blockDim.x + threadIdx.x;",
        f"if ({i} >= {n}) return;",
        f"{real} {point}[{max(1, inputs)}];",
        f"for (long {k} = 0; {k} < {inputs}; {k}++) {point}[{k}] = {x}[{k} * {n} + {i}];",
        *(f"{real} {here[key]}[{max(1, sizes[key])}];" for key in here),
        f"{value[0]}[{i}] = {call};" if value else f"{call};",
        *(
            f"for (long {k} = 0; {k} < {sizes[key]}; {k}++) {results[key]}[{k} * {n} + {i}] = {here[key]}[{k}];"
            for key in here
        ),
    ]
    doc = "One thread for each of n points; number k of point i stands at k * n + i."
    head = f'extern "C" __global__ void {body.name}_batch(long {n}, {", ".join(parameters)}) {{'
    return "\n".join([f"// {doc}", head, *(f"    {line}" for line in lines), "}"])
