"""Loops in C: how statements on elements are written, what is declared for them and how results are handed over.

Arrays stand in C order in rows of numbers. Those of a listing live on the stack where they are small, else they are
static; constants and the tables of irregular maps are static and constant. Nothing is allocated. A long listing is cut
into functions of bounded size, so that compilers stay linear; all its arrays then stand in one struct.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from wiregrad.codegen.elements import Array, Order, Pick, Same, Statement, Step, Task, View
from wiregrad.codegen.forms import Apply, Constant, Form, Slot, slots_of, uniform
from wiregrad.codegen.identifiers import comment
from wiregrad.codegen.kernels import Kernels
from wiregrad.codegen.language import Text, Writer
from wiregrad.codegen.listing import Atom, Line, Listing
from wiregrad.codegen.maps import Map, Nest, nested, size_of, straight
from wiregrad.dtypes import WireType
from wiregrad.errors import NoRuleError
from wiregrad.ir import TABLE
from wiregrad.ops.array import ArrayOp
from wiregrad.ops.expressions import Tree

ON_STACK = 65_536
"""How many numbers the arrays of a listing may have on the stack; more are static."""
MOST = 1_000_000
"""How many numbers the constants and tables of a listing may have."""
LARGEST = 2**31 - 1
"""How many elements an array may have, so that an int can count them."""
LONGEST = 400
"""A listing of more steps is cut into parts."""
PART = 200
"""How many steps a part has."""
WIDTH = 100


LARGE = "// Too large for the stack: not for two threads at once."


class Spelling(Protocol):
    """What loops need to know of C."""

    @property
    def real(self) -> str:
        """The type of numbers."""

    def number(self, value: Any) -> str:
        """Return a literal."""

    def type_of(self, condition: bool) -> str:
        """Return the type of a variable."""

    def tree_of(self, form: Form) -> Tree:
        """Return the expression to write for a form."""

    def written(self, tree: Tree) -> Text:
        """Return the text of an expression."""


class Result(NamedTuple):
    """What is handed over, one after the other: atoms and their types."""

    atoms: Sequence[Atom]
    kinds: Sequence[WireType]


def has_arrays(listing: Listing) -> bool:
    """Return whether a listing has arrays, or ops on arrays that are given numbers here."""
    forms = (line.form for line in listing.lines())
    whole = any(isinstance(form, Apply) and isinstance(form.op, ArrayOp) for form in forms)
    return whole or any(variable.type.shape for variable in listing.variables)


def check_types(listing: Listing, width: int) -> None:
    """Raise unless arrays are of real numbers of one width, or conditions; indices may be constants."""
    for role, node, kind, _ in listing.variables:
        if kind.dtype.kind not in "fbi" or (kind.dtype.kind == "f" and kind.dtype.itemsize != width):
            raise NoRuleError(
                f"loops in C compute with real numbers of one type, and {listing.circuit.name} has {kind} "
                f"({role.value} of node {node}); use to_numpy(), which keeps dtypes"
            )
        if size_of(kind) > LARGEST:
            raise NoRuleError(f"loops in C count up to {LARGEST:,}, and {kind} has more elements")
    for name, number in listing.inputs.items():
        if listing.variables[number].type.dtype.kind == "i":
            raise NoRuleError(f"the input {name} is of whole numbers, and loops in C take real ones; use to_numpy()")


def layout(listing: Listing, names: Sequence[str]) -> list[str]:
    """Return where each input stands, as texts such as `W[3][2] from 2 on`."""
    found, start = [], 0
    for number in listing.inputs.values():
        kind = listing.variables[number].type
        lengths = "".join(f"[{n}]" for n in kind.shape)
        found.append(f"{names[number]}{lengths} at {start}")
        start += size_of(kind)
    return found


class Loops:
    """Writes the statements of one listing."""

    def __init__(self, writer: Writer, language: Spelling, given: str, name: str) -> None:
        self.writer, self.language, self.given, self.name = writer, language, given, name
        self.elements = Kernels(writer.listing, writer.names)
        self.counters = [writer.identifiers.take(name) for name in "ijklpqrs"]
        self.tables: dict[bytes, str] = {}
        self.definitions: list[str] = []
        self.parts: list[str] = []
        self.work, self.shared = "", frozenset[Array]()
        self._seen: set[Array] = set()
        self.room = 0
        self.sections: list[tuple[str, list[Step]]] = []
        for section in writer.listing.sections:
            self.elements.steps = []
            for line in section.lines:
                self.elements.write(line)
            self.sections.append((section.title, self.elements.steps))

    def body(self, results: Mapping[str, Result], value: Atom | None) -> list[str]:
        """Return the statements of the function; `value` is what it returns."""
        ends = [step for name, result in results.items() for step in self._handed(name, result)]
        returned = None if value is None else self._elements(value, WireType(np.dtype(float)))
        live = {view.array for step in ends for view in step.read()}
        if isinstance(returned, View):
            live.add(returned.array)
        kept = [(title, _needed(steps, live)) for title, steps in reversed(self.sections)][::-1]
        counts = Counter(step.target for _, steps in kept for step in steps if not isinstance(step, Same))
        self._name(kept)
        if sum(len(steps) for _, steps in kept) > LONGEST:
            lines = self._cut(kept, counts)
            live = {view.array for step in ends for view in step.read()}
            lines += self._inputs(live | ({returned.array} if isinstance(returned, View) else set()))
        else:
            lines = [*self._inputs(live), *self._declared(counts)]
            for title, steps in kept:
                if steps:
                    lines += [f"// {comment(title)}", *self.writer.noted(self._noted(steps, counts))]
        lines += [text for step in ends for text in self.statement(step)]
        return lines if value is None else [*lines, f"return {self._single(returned)};"]

    def _cut(self, sections: Sequence[tuple[str, list[Step]]], counts: Counter[Array]) -> list[str]:
        """Cut the steps into functions; returns the statements that call them."""
        self.work, self.shared = self.writer.identifiers.take("w"), frozenset(counts)
        struct, large = f"struct {self.name}_work", sum(array.size for array in counts) > ON_STACK
        fields = [f"    {line}" for line in self._declared(counts)]
        self.parts = ["\n".join(["// What the parts hand on to each other.", f"{struct} {{", *fields, "};"])]
        calls = list[str]()
        for title, steps in sections:
            for start in range(0, len(steps), PART):
                part, name = steps[start : start + PART], f"{self.name}_part_{len(calls) + 1}"
                self.parts.append(self._part(f"static void {name}", title, part, counts, struct))
                calls.append(f"{name}({self.given}, {self.work});")
        all_of_it = self.writer.identifiers.take("work")
        head = [LARGE, f"static {struct} {all_of_it};"] if large else [f"{struct} {all_of_it};"]
        return [*head, f"{struct} *{self.work} = &{all_of_it};", *calls]

    def _part(self, head: str, title: str, steps: Sequence[Step], counts: Counter[Array], struct: str) -> str:
        """Return the function of some of the steps."""
        tasks = [step for step in steps if not isinstance(step, Same)]
        inputs = list(self._inputs({view.array for step in tasks for view in step.read()}))
        silent = [*([] if inputs else [f"(void){self.given};"]), *([] if tasks else [f"(void){self.work};"])]
        body = [*silent, *inputs, f"// {comment(title)}", *self.writer.noted(self._noted(steps, counts))]
        arguments = f"const {self.language.real} *{self.given}, {struct} *{self.work}"
        return "\n".join([f"{head}({arguments}) {{", *(f"    {line}" for line in body), "}"])

    def _noted(self, steps: Sequence[Step], counts: Counter[Array]) -> Iterator[tuple[str, Line | None]]:
        for step in steps:
            if isinstance(step, Same):
                yield f"// {self.same(step)} ({comment(step.line.note)})", None
                continue
            first, *rest = self.task(step)
            target = step.target
            if target.size == 1 and target not in self._seen and target not in self.shared:
                self._seen.add(target)
                if isinstance(step, Statement):
                    first = f"{'const ' if counts[target] == 1 else ''}{self._type(target.kind)} {first}"
                else:
                    yield f"{self._type(target.kind)} {target.name};", None
            yield first, step.line
            yield from ((text, None) for text in rest)

    def _type(self, kind: str) -> str:
        return "int" if kind == "i" else self.language.type_of(kind == "b")

    def _name(self, sections: Sequence[tuple[str, list[Step]]]) -> None:
        """Give what has no name in the listing one of its own."""
        count = 0
        for _, steps in sections:
            for step in steps:
                if not isinstance(step, Same) and not step.target.name:
                    count += 1
                    step.target.name = self.writer.identifiers.take(f"u{count}")

    def _inputs(self, live: set[Array]) -> Iterator[str]:
        """Return what makes the inputs that are read known by their names."""
        start, real = 0, self.language.real
        for number in self.writer.listing.inputs.values():
            array = self.elements.held[number]
            assert isinstance(array, Array)
            if array in live and array.size:
                at, name = f"{self.given}[{start}]", array.name
                if array.size == 1:
                    yield f"const {self._type(array.kind)} {name} = {at}{' != 0' if array.kind == 'b' else ''};"
                elif array.kind == "b":
                    k = self.counters[0]
                    yield f"bool {name}[{array.size}];"
                    loop = f"for (int {k} = 0; {k} < {array.size}; {k}++)"
                    yield f"{loop} {name}[{k}] = {self.given}[{_sum([(k, 1)], start)}] != 0;"
                else:
                    yield f"const {real} *{name} = {self.given}{f' + {start}' if start else ''};"
            start += array.size

    def _declared(self, counts: Counter[Array]) -> Iterator[str]:
        """Return the declarations of all arrays, or of everything where the listing is cut."""
        arrays = [array for array in counts if array.size > 1 or array in self.shared]
        large = sum(array.size for array in arrays) > ON_STACK and not self.shared
        if large:
            yield LARGE
        for kind in "fbi":
            own = [array for array in arrays if array.kind == kind]
            names = [array.name + (f"[{array.size}]" if array.size > 1 else "") for array in own]
            if names:
                head = f"{'static ' if large else ''}{self._type(kind)} "
                yield from _wrapped(f"{head}{', '.join(names)};")

    def _elements(self, atom: Atom, kind: WireType) -> View | Constant:
        found = self.elements.result(atom) if isinstance(atom, int) else atom
        if not isinstance(found, Constant) or uniform(found.value) is not None or not size_of(kind):
            return found
        return self.elements.views[self.elements.table(found).number]

    def _handed(self, name: str, result: Result) -> Iterator[Statement]:
        """Return the statements that put results into an array."""
        start = 0
        target = Array(sum(map(size_of, result.kinds)), "f", name, indexed=True)
        for atom, kind in zip(result.atoms, result.kinds, strict=True):
            found, size = self._elements(atom, kind), size_of(kind)
            if size:
                views = [found] if isinstance(found, View) else []
                form = Slot(0, kind) if isinstance(found, View) else _number(found)
                yield Statement(target, np.arange(start, start + size), form, views)
            start += size

    def _single(self, found: View | Constant | None) -> str:
        assert found is not None
        if isinstance(found, Constant):
            return self.language.number(_number(found).value.item())
        return self._element(found.array, int(found.map[0]), (), ())

    def task(self, step: Task) -> list[str]:
        """Return the text of a step."""
        if isinstance(step, Statement):
            return self.statement(step)
        return self.order(step) if isinstance(step, Order) else self.pick(step)

    def pick(self, step: Pick) -> list[str]:
        """Return loops that pick or add elements by indices."""
        i, j, k = (self.counters[n] for n in (0, 2, 1))
        names, (rows, count, beside) = (i, k, j), step.lengths
        steps = straight(step.indices.map, step.lengths if len(step.indices.map) > count else (1, count, 1))
        assert steps is not None
        place = self._element(step.indices.array, int(step.indices.map[0]), steps, names)
        far, near = _rows(rows, step.along, beside), _rows(*step.lengths)
        if step.adds:
            own = straight(step.source.map, step.lengths)
            assert own is not None
            there = f"{self._called(step.target)}[{_sum(zip((i, place, j), far, strict=True), 0)}]"
            done = f"{there} += {self._element(step.source.array, int(step.source.map[0]), own, names)};"
        else:
            own = straight(step.source.map, (rows, step.along, beside))
            assert own is not None
            there = self._element(step.source.array, int(step.source.map[0]), own, (i, place, j))
            done = f"{self._element(step.target, 0, near, names)} = {there};"
        return _nest(list(zip(names, step.lengths, strict=True)), [done])

    def order(self, step: Order) -> list[str]:
        """Return loops that put indices in the order of elements, by insertion, or find the one that comes first."""
        i, j, k, _, p = self.counters[:5]
        rows, count, beside = step.lengths
        own = straight(step.source.map, step.lengths)
        assert own is not None

        def element(place: str) -> str:
            return self._element(step.source.array, int(step.source.map[0]), own, (i, place, j))

        def index(place: str, more: int = 0) -> str:
            return self._element(step.target, more * beside, _rows(*step.lengths), (i, place, j))

        text = self.language.written(self.language.tree_of(step.before))
        self.writer.calls |= text.calls
        loops = [(i, rows), (j, beside)]
        if step.first:
            target = self._element(step.target, 0, _rows(rows, beside), (i, j))
            found = text.template.format(element(k), element(p))
            head = f"for (int {k} = 1; {k} < {count}; {k}++)"
            inner = [f"int {p} = 0;", f"{head} if ({found}) {p} = {k};", f"{target} = {p};"]
            return _nest(loops, ["{", *(f"    {line}" for line in inner), "}"])
        sooner = text.template.format(element(k), element(index(p, -1)))
        move = f"for (; {p} > 0 && ({sooner}); {p}--) {index(p)} = {index(p, -1)};"
        inner = ["{", f"    int {p} = {k};", f"    {move}", f"    {index(p)} = {k};", "}"]
        return _nest([*loops, (k, count)], inner)

    def statement(self, step: Statement) -> list[str]:
        """Return the text of a statement: a line for each loop, the last one of which may hold what is done."""
        nest = step.nest or nested([step.at, *(view.map for view in step.read())])
        names = self._counting(step.nest)
        target = self._text(step.target, step.at, nest, 0, names)
        done = f"{target} {self._assigned(step, nest, names)};"
        return _nest(list(zip(names, nest.lengths, strict=False)), [done])

    def _counting(self, given: Nest | None) -> list[str]:
        """Return what loops count with: rows i and columns j, where matrices are multiplied."""
        i, j, k, other = self.counters[:4]
        return self.counters if given is None else [other, i, k, j]

    def _assigned(self, step: Statement, nest: Nest, names: Sequence[str]) -> str:
        """Return the right-hand side of a statement with its sign."""
        operands = [""] * len(step.views)
        for k, slot in enumerate(sorted(slots_of(step.form)), 1):
            operands[slot] = self._text(step.views[slot].array, step.views[slot].map, nest, k, names)
        form, sign = step.form, "="
        if isinstance(form, Apply) and form.op is TABLE["add"] and isinstance(form.operands[0], Slot):
            view = step.views[form.operands[0].number]
            if view.array is step.target and np.array_equal(view.map, step.at):
                form, sign = form.operands[1], "+="
        if isinstance(form, Slot):
            return f"{sign} {operands[form.number]}"
        if isinstance(form, Constant):
            return f"{sign} {self.language.number(_number(form).value.item())}"
        text = self.language.written(self.language.tree_of(form))
        self.writer.calls |= text.calls
        return f"{sign} {text.template.format(*operands)}"

    def _text(self, array: Array, at: Map, nest: Nest, k: int, names: Sequence[str]) -> str:
        """Return the element of an array that a map points to inside the loops."""
        steps = nest.steps[k]
        if steps is not None:
            return self._element(array, int(at[0]), steps, names)
        place = _sum(zip(names, nest.whole, strict=False), 0)
        return f"{self._called(array)}[{self._table(at)}[{place}]]"

    def _element(self, array: Array, start: int, steps: Sequence[int], names: Sequence[str]) -> str:
        single = array.size == 1 and not array.indexed
        return self._called(array) + ("" if single else f"[{_sum(zip(names, steps, strict=False), start)}]")

    def _called(self, array: Array) -> str:
        """Return the name of an array; that of a constant is defined when it is first read."""
        if array.data is not None and array not in self._seen:
            self._seen.add(array)
            array.name = array.name or self.writer.identifiers.take(f"c{len(self.definitions) + 1}")
            numbers = [self.language.number(value) for value in array.data.tolist()]
            self._define(self._type(array.kind), array.name, numbers, array.size == 1)
        return f"{self.work}->{array.name}" if array in self.shared else array.name

    def _table(self, at: Map) -> str:
        """Return the name of the table of a map."""
        key = at.tobytes()
        if key not in self.tables:
            self.tables[key] = self.writer.identifiers.take(f"map{len(self.tables) + 1}")
            self._define("int", self.tables[key], [str(number) for number in at.tolist()])
        return self.tables[key]

    def _define(self, kind: str, name: str, numbers: Sequence[str], single: bool = False) -> None:
        self.room += len(numbers)
        if self.room > MOST:
            raise NoRuleError(f"the constants of a listing in C have at most {MOST:,} numbers; make large ones inputs")
        head = f"static const {kind} {name}"
        text = f"{head} = {numbers[0]};" if single else f"{head}[{len(numbers)}] = {{{', '.join(numbers)}}};"
        self.definitions.append("\n".join(_wrapped(text)))

    def same(self, step: Same) -> str:
        """Return what a variable is that needs no statement."""
        view = step.view
        if view.identical or (view.array.size == 1 and len(view.map) == 1):
            return f"{step.name} is {self._called(view.array)}"
        nest = nested([np.arange(len(view.map)), view.map])
        if None in nest.steps:
            return f"{step.name} is {self._called(view.array)} in another order"
        own = self._text(Array(len(view.map), "f", step.name), np.arange(1), nest, 0, self.counters)
        return f"{own} is {self._text(view.array, view.map, nest, 1, self.counters)}"


def _needed(steps: Sequence[Step], live: set[Array]) -> list[Step]:
    """Return the steps that something reads, given what is read later; `live` grows by what they read."""
    kept = list[Step]()
    for step in reversed(steps):
        if isinstance(step, Same):
            if step.view.array in live and len(step.view.map):
                kept.append(step)
        elif step.target in live:
            live.update(view.array for view in step.read())
            kept.append(step)
    return kept[::-1]


def _sum(terms: Any, start: int) -> str:
    """Write an index: i * 3 + j + 1.

    >>> _sum([("i", 3), ("j", 1)], 0), _sum([("i", -1)], 4), _sum([], 2)
    ('i * 3 + j', '4 - i', '2')
    """
    found = [(name if abs(step) == 1 else f"{name} * {abs(step)}", step < 0) for name, step in terms if step]
    plus, minus = [text for text, less in found if not less], [text for text, less in found if less]
    if start < 0:
        minus = [*minus, str(-start)]
    elif start or not plus:
        plus = [*plus, str(start)]
    return " - ".join([" + ".join(plus), *minus])


def _rows(*lengths: int) -> tuple[int, ...]:
    """Return how far apart neighbours along each of some axes stand; 0 along an axis that has none."""
    behind = [int(np.prod(lengths[k + 1 :], dtype=np.int64)) for k in range(len(lengths))]
    return tuple(step if length > 1 else 0 for step, length in zip(behind, lengths, strict=True))


def _nest(loops: Sequence[tuple[str, int]], done: Sequence[str]) -> list[str]:
    """Write what is done inside loops; what runs once is no loop."""
    heads = [f"for (int {name} = 0; {name} < {length}; {name}++)" for name, length in loops if length != 1]
    if len(done) > 1:
        last = heads.pop() if heads else ""
        done = [f"{last} {done[0]}".strip(), *done[1:]]
    if len(heads) < 2 and len(done) == 1:
        return [" ".join([*heads, *done])]
    deep = "    " * len(heads)
    return [*(f"{'    ' * k}{head}" for k, head in enumerate(heads)), *(f"{deep}{line}" for line in done)]


def _number(constant: Constant) -> Constant:
    return Constant(np.asarray(constant.value).ravel()[0], WireType(constant.type.dtype))


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
