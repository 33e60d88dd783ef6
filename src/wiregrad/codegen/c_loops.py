"""Write statements on elements as loops in C, with the declarations of their arrays.

Arrays are flat, in C order. The arrays of a listing are on the stack if they are small, else static; constants and the
tables of irregular maps are static and const. Nothing is allocated. A long listing is cut into functions of bounded
size, because compilers take more than linear time over long functions; all its arrays are then in one struct.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from wiregrad.codegen.array_op_lowering import ArrayOpLowering
from wiregrad.codegen.element_statements import (
    ArrayView,
    LoopArray,
    LoopStatement,
    LoopStep,
    LoopTask,
    OrderStep,
    PickStep,
    ViewAlias,
)
from wiregrad.codegen.index_maps import IndexMap, LoopNest, count_elements, find_loop_nest, find_strides
from wiregrad.codegen.language import ExpressionText, ListingWriter, escape_comment
from wiregrad.codegen.listing import Atom, Listing, ListingLine
from wiregrad.codegen.op_forms import ConstantForm, Form, OpForm, SlotForm, find_uniform_value, slots_of
from wiregrad.dtypes import WireType
from wiregrad.errors import NoRuleError
from wiregrad.ir import TABLE
from wiregrad.ops.array_ops import ArrayOp
from wiregrad.ops.c_expressions import ScalarExpression

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


def check_types(listing: Listing, width: int) -> None:
    """Raise unless arrays hold real numbers of one width, or conditions; inputs must not be whole numbers."""
    for role, node, kind, _ in listing.variables:
        if kind.dtype.kind not in "fbi" or (kind.dtype.kind == "f" and kind.dtype.itemsize != width):
            raise NoRuleError(
                f"loops in C compute with real numbers of one type, and {listing.circuit.name} has {kind} "
                f"({role.value} of node {node}); use to_numpy(), which keeps dtypes"
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
    """Writes the body of one listing's function as loops."""

    def __init__(self, writer: ListingWriter, language: LoopLanguage, argument: str, name: str) -> None:
        self.writer = writer
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
        if sum(len(steps) for _, steps in sections) > MAX_UNCUT_STEPS:
            lines = self._cut_into_functions(sections, counts)
            live = {view.array for step in ends for view in step.views_read()}
            lines += self._declare_inputs(live | ({returned.array} if isinstance(returned, ArrayView) else set()))
        else:
            lines = [*self._declare_inputs(live), *self._declare_arrays(counts)]
            for title, steps in sections:
                if steps:
                    lines += [
                        f"// {escape_comment(title)}",
                        *self.writer.align_comments(self._write_steps(steps, counts)),
                    ]
        lines += [text for step in ends for text in self.write_statement(step)]
        return lines if value is None else [*lines, f"return {self._write_single(returned)};"]

    def _cut_into_functions(
        self, sections: Sequence[tuple[str, list[LoopStep]]], counts: Counter[LoopArray]
    ) -> list[str]:
        """Cut the steps into functions; returns the statements that call them."""
        self.work = self.writer.identifiers.take_name("w")
        self.shared = frozenset(counts)
        struct = f"struct {self.name}_work"
        large = sum(array.size for array in counts) > MAX_STACK_ELEMENTS
        fields = [f"    {line}" for line in self._declare_arrays(counts)]
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
        return [*head, f"{struct} *{self.work} = &{all_of_it};", *calls]

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
                yield f"// {self.describe_alias(step)} ({escape_comment(step.line.note)})", None
                continue
            first, *rest = self.write_task(step)
            target = step.target
            if target.size == 1 and target not in self._seen and target not in self.shared:
                self._seen.add(target)
                if isinstance(step, LoopStatement):
                    first = f"{'const ' if counts[target] == 1 else ''}{self._type_name(target.kind)} {first}"
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
        arrays = [array for array in counts if array.size > 1 or array in self.shared]
        large = sum(array.size for array in arrays) > MAX_STACK_ELEMENTS and not self.shared
        if large:
            yield STATIC_REMARK
        for kind in "fbi":
            own = [array for array in arrays if array.kind == kind]
            names = [array.name + (f"[{array.size}]" if array.size > 1 else "") for array in own]
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
        return self.write_order(step) if isinstance(step, OrderStep) else self.write_pick(step)

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
        done = f"{target} {self._write_assignment(step, nest, names)};"
        return _write_loops(list(zip(names, nest.lengths, strict=False)), [done])

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
