"""The listing of a circuit: lines of code that are independent of the language.

Forward, each function node is one line. Backward, in reverse order, each wire is one line: the first gradient that
reaches a variable is assigned, later ones are added. A masked gradient is absent where its mask is false. The mask is
applied after all products, so an inf or NaN in a branch that was not taken never reaches a result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from wiregrad.codegen.op_forms import (
    ConstantForm,
    Form,
    OpForm,
    PullbackCase,
    PullbackRule,
    SentGradient,
    SlotForm,
    choose_form,
    collapse_uniform,
    constant_key,
    derive_pullback,
    find_uniform_value,
    needs_mask,
    slots_of,
)
from wiregrad.dtypes import BOOL, WireType
from wiregrad.errors import CircuitError, OperandError, OutputError, short_repr, suggest_name
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph, Pattern, Place, Row
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import LinearOp
from wiregrad.passes import gradient_circuit, prune, simplify


class VariableRole(Enum):
    """What a variable stands for, which decides its name."""

    INPUT = "input"
    NODE = "node"
    GRADIENT = "gradient"
    MASK = "mask"
    SHARED = "shared"


class ListingVariable(NamedTuple):
    """A variable of a listing: its role, its node, its type, and for a gradient the output that is differentiated."""

    role: VariableRole
    node: int
    type: WireType
    of: str = ""


Atom = int | ConstantForm
"""An operand of a line: a variable, by its number, or a constant."""


@dataclass(slots=True)
class ListingLine:
    """One statement: a form of atoms, assigned to a variable."""

    target: int
    form: Form
    atoms: tuple[Atom, ...]
    note: str = ""
    place: Place | None = None
    group: str = ""
    again: bool = False
    """Whether an earlier line assigned the variable."""
    inline: tuple[int, Form] | None = None
    """A mask that the line reads, and the line's form with that mask written out; used if no other line reads it."""

    def variables_read(self) -> list[int]:
        """Return the variables that the line reads."""
        atoms = self.atoms
        return [atom for slot in slots_of(self.form) if type(atom := atoms[slot]) is int]


@dataclass(frozen=True)
class ListingSection:
    """A part of a listing: the forward pass, or the backward pass from one output."""

    title: str
    lines: list[ListingLine]


@dataclass(frozen=True)
class Listing:
    """A circuit as lines of code, without a language."""

    circuit: CircuitGraph
    source: CircuitGraph
    """The circuit whose nodes become lines: for second derivatives, the circuit of the gradient."""
    function: str
    variables: list[ListingVariable] = field(default_factory=list)
    sections: list[ListingSection] = field(default_factory=list)
    inputs: dict[str, int] = field(default_factory=dict)
    """The variables of the inputs, by name."""
    values: dict[str, Atom] = field(default_factory=dict)
    """The values of the outputs, by label."""
    gradients: dict[str, dict[str, Atom]] = field(default_factory=dict)
    """The gradients of each differentiated output, by label and then by input."""

    def result_variables(self) -> Iterator[int]:
        """Return the variables that the function returns."""
        values = {} if self.function == "jacobian" else self.values
        for atoms in (values, *self.gradients.values()):
            yield from (atom for atom in atoms.values() if isinstance(atom, int))

    def all_lines(self) -> Iterator[ListingLine]:
        """Return every line in order."""
        for section in self.sections:
            yield from section.lines


LISTING_FUNCTIONS = ("value", "value_and_grad", "jacobian", "hessian")
"""What a listing can compute."""
PATTERN_VERBS = {pattern: f"{pattern.name.lower()}s" for pattern in Pattern}
"""The verb for how an op passes the gradient on: add distributes, multiply swaps."""


def build_listing(circuit: CircuitGraph, function: str = "value_and_grad") -> Listing:
    """Return the listing of a circuit; `function` says which derivatives it computes.

    >>> from wiregrad.ir import parse_text
    >>> product = build_listing(parse_text("input a, b\\ny = multiply a b\\noutput y"))
    >>> [line.note for line in product.all_lines()]
    ['multiply', 'seed', 'multiply swaps', 'multiply swaps']
    """
    if function not in LISTING_FUNCTIONS:
        near = suggest_name(str(function), LISTING_FUNCTIONS)
        raise OperandError(
            f"a listing's function is one of {', '.join(LISTING_FUNCTIONS)}; got {short_repr(function)}{near}"
        )
    if function in ("value_and_grad", "hessian"):
        circuit.root()
    if function != "value" and not circuit.inputs:
        raise CircuitError("the circuit has no inputs, so there is nothing to differentiate by")
    if function == "hessian":
        _check_scalar_inputs(circuit)
    source = simplify(gradient_circuit(circuit)) if function == "hessian" else prune(circuit)
    lister = _ListingBuilder(source, Listing(circuit, source, function))
    lister.write_forward()
    lister.write_answers()
    return lister.finish_listing()


def _check_scalar_inputs(circuit: CircuitGraph) -> None:
    array = next((name for name in circuit.inputs if circuit[name].type.shape), None)
    if array is not None:
        raise OutputError(
            f"Hessian listings need scalar inputs, and the input {array} is {circuit[array].type}; "
            "expand() the circuit first"
        )


class _ListingBuilder:
    """Builds one listing: the forward lines, then the backward lines of each differentiated output."""

    def __init__(self, circuit: CircuitGraph, listing: Listing) -> None:
        self.circuit = circuit
        self.listing = listing
        self.atoms: list[Atom] = []
        self.lines: list[ListingLine] = []
        self.active = circuit.active()
        self.rows = list(circuit.rows())
        self.kinds: list[int] = circuit.columns.types.tolist()
        self.types = [circuit.columns.type_table[k] for k in self.kinds]
        self.rules: dict[Any, PullbackRule] = {}

    def add_variable(self, role: VariableRole, node: int, kind: WireType, of: str = "") -> int:
        self.listing.variables.append(ListingVariable(role, node, kind, of))
        return len(self.listing.variables) - 1

    def start_section(self, title: str) -> None:
        self.lines = []
        self.listing.sections.append(ListingSection(title, self.lines))

    def write_forward(self) -> None:
        """Write a line for each function node."""
        self.start_section("forward")
        names = self.circuit.columns.names.group_by_node()
        values = self.circuit.constants()
        places = self.circuit.columns.places
        groups = self.circuit.columns.groups
        for row in self.rows:
            node = row.node
            kind = self.types[node]
            if row.op is INPUT:
                number = self.add_variable(VariableRole.INPUT, node, kind)
                self.listing.inputs[names[node][0]] = number
                self.atoms.append(number)
                continue
            if row.op is CONSTANT and not kind.shape and (node not in names or self.listing.function == "hessian"):
                # In a gradient's circuit the constant 1 may be named grad_f, which would mislead as an exponent.
                self.atoms.append(ConstantForm(values[node], kind))
                continue
            atoms = tuple([self.atoms[source] for source in row.sources])
            if node not in names and _is_spread_constant(row, atoms):
                # Broadcasting a constant needs no line: each reader broadcasts it.
                constants = [atom.value for atom in atoms if isinstance(atom, ConstantForm)]
                self.atoms.append(ConstantForm(row.op.compute(*constants), kind))
                continue
            if kind.shape:
                atoms = _collapse_constants(row, atoms)
            form: Form = ConstantForm(values[node], kind) if row.op is CONSTANT else self._node_form(row, atoms)
            number = self.add_variable(VariableRole.NODE, node, kind)
            self.lines.append(
                ListingLine(number, form, atoms, row.op.title, places.label_of(node), groups.label_of(node) or "")
            )
            self.atoms.append(number)

    def _node_form(self, row: Row, atoms: tuple[Atom, ...]) -> Form:
        """Return the form that a node computes; nodes alike share one object."""
        kinds = tuple(
            [self.types[k] if isinstance(a, int) else a.type for k, a in zip(row.sources, atoms, strict=True)]
        )
        key = (row.op.name, row.op.settings, kinds)
        form = _NODE_FORMS.get(key)
        if form is None or form.op is not row.op:
            if len(_NODE_FORMS) > 20_000:
                _NODE_FORMS.clear()
            slots = tuple(SlotForm(k, kind) for k, kind in enumerate(kinds))
            form = _NODE_FORMS[key] = OpForm(row.op, slots, self.types[row.node])
        return form

    def write_answers(self) -> None:
        """Write the backward lines of each differentiated output, and note what the function returns."""
        labels = self.circuit.outputs
        nodes = self.circuit.columns.outputs.tolist()
        for label, node in zip(labels, nodes, strict=True):
            self.listing.values[label] = self.atoms[node]
        function = self.listing.function
        if function == "value":
            return
        of = list(zip(labels, nodes, strict=True))
        if function == "hessian":
            of = of[1:]
        wide = next((label for label, node in of if self.types[node].shape), None)
        if wide is not None:
            raise OutputError(
                f"only scalar outputs can be differentiated, and the output {wide} is {self.types[dict(of)[wide]]}; "
                "sum it first, or ask for the value only"
            )
        alone = len(of) == 1
        for label, node in of:
            self.start_section("backward" if alone else f"backward from {label}")
            grads = _BackwardWriter(self, "" if alone else label).write_sweep(node)
            self.listing.gradients[label] = {name: grads.get(k, _ABSENT_GRADIENT) for name, k in self._named_inputs()}

    def _named_inputs(self) -> Iterator[tuple[str, int]]:
        for node in self.circuit.input_indices():
            yield self.circuit.name_of(node), node

    def finish_listing(self) -> Listing:
        """Drop unread lines, inline masks that only one line reads, and return the listing."""
        readers = self._drop_dead_lines()
        inlined = set[int]()
        for line in self.listing.all_lines():
            if line.inline is not None and readers[line.inline[0]] == 1:
                mask, line.form = line.inline
                inlined.add(mask)
        for section in self.listing.sections:
            section.lines[:] = [line for line in section.lines if line.target not in inlined]
        return self.listing

    def _drop_dead_lines(self) -> Counter[int]:
        """Drop lines whose result is not read; returns how many lines read each variable."""
        live = set(self.listing.result_variables())
        readers = Counter[int]()
        for section in reversed(self.listing.sections):
            live_lines = list[ListingLine]()
            for line in reversed(section.lines):
                if line.target in live:
                    live.discard(line.target)
                    read = line.variables_read()
                    live.update(read)
                    readers.update(read)
                    live_lines.append(line)
            section.lines[:] = reversed(live_lines)
        return readers


_ABSENT_GRADIENT = ConstantForm(np.float64(0.0), WireType(np.dtype(np.float64)))
_NODE_FORMS: dict[Any, OpForm] = {}
"""Cache of the forms of nodes, so that a language writes each form once."""


def _is_spread_constant(row: Row, atoms: tuple[Atom, ...]) -> bool:
    moves = isinstance(row.op, LinearOp) and row.op.moves
    return moves and all(
        isinstance(atom, ConstantForm) and find_uniform_value(atom.value) is not None for atom in atoms
    )


def _collapse_constants(row: Row, atoms: tuple[Atom, ...]) -> tuple[Atom, ...]:
    """Return the operands of an elementwise op with each uniform constant array replaced by one number."""
    if not isinstance(row.op, Elementwise) or all(isinstance(atom, ConstantForm) for atom in atoms):
        return atoms
    return tuple([collapse_uniform(atom) if isinstance(atom, ConstantForm) else atom for atom in atoms])


class _ArrivedGradient(NamedTuple):
    """The gradient that has arrived at a node so far: its variable, and the mask where it is present.

    A scalar gradient that is absent makes everything computed from it absent. `guard` is the one condition under which
    the gradient exists at all. Ops that mix the elements of an array lose the mask but keep the guard.
    """

    value: int
    mask: Atom | None
    guard: Atom | None = None


class _BackwardWriter:
    """Writes the backward lines of one output."""

    def __init__(self, lister: _ListingBuilder, of: str) -> None:
        self.lister = lister
        self.of = of
        self.grads: dict[int, _ArrivedGradient] = {}
        self.place: Place | None = None
        self.group = ""

    def write_sweep(self, root: int) -> dict[int, Atom]:
        """Write the lines from an output back to the inputs; returns the gradient of each node."""
        lister = self.lister
        places = lister.circuit.columns.places
        groups = lister.circuit.columns.groups
        if lister.active[root]:
            seed = self._add_variable(VariableRole.GRADIENT, root, lister.types[root])
            self._add_line(
                seed, ConstantForm(np.ones((), lister.types[root].dtype)[()], lister.types[root]), (), "seed"
            )
            self.grads[root] = _ArrivedGradient(seed, None)
        for row in reversed(lister.rows[: root + 1]):
            arrived = self.grads.get(row.node)
            if arrived is not None and row.sources:
                self.place = places.label_of(row.node)
                self.group = groups.label_of(row.node) or ""
                self._pass_on(row, arrived)
        return {node: arrived.value for node, arrived in self.grads.items()}

    def _add_variable(self, role: VariableRole, node: int, kind: WireType) -> int:
        return self.lister.add_variable(role, node, kind, self.of)

    def _add_line(
        self, target: int, form: Form, atoms: tuple[Atom, ...], note: str, again: bool = False
    ) -> ListingLine:
        line = ListingLine(target, form, atoms, note, self.place, self.group, again)
        self.lister.lines.append(line)
        return line

    def _pass_on(self, row: Row, arrived: _ArrivedGradient) -> None:
        lister = self.lister
        moving = tuple([k for k in reversed(range(len(row.sources))) if lister.active[row.sources[k]]])
        if not moving:
            return
        everywhere = arrived.mask is None and needs_mask(row.op)
        if everywhere:
            kind = WireType(BOOL.dtype, lister.types[row.node].shape)
            present = self._add_variable(VariableRole.MASK, row.node, kind)
            self._add_line(present, ConstantForm(np.ones(kind.shape, np.bool_), kind), (), "present everywhere")
            arrived = _ArrivedGradient(arrived.value, present, arrived.guard)
        operands = [lister.atoms[source] for source in row.sources]
        rule = self._find_rule(row, operands, moving, arrived, everywhere)
        if lister.types[row.node].shape:
            operands = list(_collapse_constants(row, tuple(operands)))
        mask = arrived.mask if arrived.mask is not None else ConstantForm(np.True_, BOOL)
        atoms: tuple[Atom, ...] = (*operands, lister.atoms[row.node], arrived.value, mask)
        note = f"{row.op.title} {PATTERN_VERBS[row.op.pattern]}"
        for form in rule.shared:
            number = self._add_variable(
                VariableRole.MASK if form.type.dtype == BOOL.dtype else VariableRole.SHARED, row.node, form.type
            )
            self._add_line(number, form, atoms, row.op.title)
            atoms = (*atoms, number)
        for sent in rule.sent:
            self._send_back(row, rule, sent, atoms, note, arrived.guard)

    def _find_rule(
        self, row: Row, operands: list[Atom], moving: tuple[int, ...], arrived: _ArrivedGradient, everywhere: bool
    ) -> PullbackRule:
        """Return the rule of a node, from a cache with small keys: comparing whole cases is slow."""
        lister = self.lister
        constants = list[tuple[int, float, bool]]()
        for slot, atom in enumerate(operands):
            if isinstance(atom, ConstantForm):
                constant = constant_key(slot, atom.value, atom.type)
                if constant is not None:
                    constants.append(constant)
        op = row.op
        kinds = lister.kinds
        masked = arrived.mask is not None
        fixed = tuple(constants)
        numbers = tuple([kinds[source] for source in row.sources])
        key = (op, row.mode, moving, numbers, kinds[row.node], masked, everywhere, fixed)
        rule = lister.rules.get(key)
        if rule is None:
            types = tuple([lister.types[source] for source in row.sources])
            case = PullbackCase(
                op, op.settings, row.mode, moving, types, lister.types[row.node], masked, everywhere, fixed
            )
            rule = lister.rules[key] = derive_pullback(case)
        return rule

    def _send_back(
        self, row: Row, rule: PullbackRule, sent: SentGradient, atoms: tuple[Atom, ...], note: str, guard: Atom | None
    ) -> None:
        """Write the line that assigns or adds the gradient sent back along one wire."""
        source = row.sources[sent.slot]
        kind = self.lister.types[source]
        before = self.grads.get(source)
        mask = self._mask_atom(row, sent, atoms)
        if mask is None and guard is not None:
            mask = self._spread_guard(source, guard, kind)
        guard = guard if kind.shape else mask
        if before is None:
            target = self._add_variable(VariableRole.GRADIENT, source, kind)
            total = mask
        else:
            target = before.value
            total = self._join_masks(source, before.mask, mask, kind.shape)
            guard = self._join_masks(source, before.guard, guard, ()) if kind.shape else total
            if _masks_differ(before.mask, mask) and isinstance(sent.value, OpForm):
                # It is read twice: where a gradient arrived before, and where none did.
                apart = self._add_variable(VariableRole.SHARED, source, kind)
                self._add_line(apart, sent.value, atoms, row.op.title)
                rule = _separate_rule(len(atoms), kind)
                sent = SentGradient(sent.slot, SlotForm(len(atoms), kind), sent.mask)
                atoms = (*atoms, apart)
        held = before.mask if before is not None and _masks_differ(before.mask, mask) else None
        # An absent gradient is stored as 0, so a plain copy of it needs no mask again.
        alike = before is None or (before.mask is not None and held is None)
        where = None if alike and _is_copy(row, sent) else mask
        form = _combine_gradients(
            rule, sent, kind, len(atoms), _CombinationCase(before is not None, where is not None, held is not None)
        )
        extra = tuple([atom for atom in (None if before is None else target, where, held) if atom is not None])
        line = self._add_line(target, form, (*atoms, *extra), note, again=before is not None)
        if isinstance(where, int) and isinstance(sent.mask, OpForm) and before is None:
            line.inline = where, _inline_mask(rule, sent, kind)
        self.grads[source] = _ArrivedGradient(target, total, guard)

    def _mask_atom(self, row: Row, sent: SentGradient, atoms: tuple[Atom, ...]) -> Atom | None:
        """Return the mask of a sent gradient as an atom; None: present everywhere."""
        if sent.mask is None or isinstance(sent.mask, ConstantForm):
            return sent.mask
        if isinstance(sent.mask, SlotForm):
            return atoms[sent.mask.number]
        number = self._add_variable(VariableRole.MASK, row.sources[sent.slot], sent.mask.type)
        self._add_line(number, sent.mask, atoms, f"{row.op.title} lets through")
        return number

    def _spread_guard(self, node: int, guard: Atom, kind: WireType) -> Atom:
        """Return the mask of a gradient whose elements are all present or all absent."""
        if not kind.shape:
            return guard
        mask = WireType(BOOL.dtype, kind.shape)
        number = self._add_variable(VariableRole.MASK, node, mask)
        form = OpForm(TABLE["spread"].bind({"rank": 0, "shape": kind.shape}), (SlotForm(0, BOOL),), mask)
        self._add_line(number, form, (guard,), "present altogether or not at all")
        return number

    def _join_masks(self, node: int, one: Atom | None, two: Atom | None, shape: tuple[int, ...]) -> Atom | None:
        """Return the mask where at least one of two gradients is present; None: everywhere."""
        if one is None or two is None:
            return None
        if one == two:
            return one
        kind = WireType(BOOL.dtype, shape)
        number = self._add_variable(VariableRole.MASK, node, kind)
        form = OpForm(TABLE["logical_or"], (SlotForm(0, kind), SlotForm(1, kind)), kind)
        self._add_line(number, form, (one, two), "one of them lets through")
        return number


@lru_cache(maxsize=1000)
def _separate_rule(count: int, kind: WireType) -> PullbackRule:
    """Return an empty rule for a gradient that a line of its own computes; it caches the forms made from it."""
    return PullbackRule()


class _CombinationCase(NamedTuple):
    """How a sent gradient is combined with the one already there."""

    added: bool
    """Whether there is one already."""
    masked: bool
    """Whether the sent gradient is masked."""
    held: bool
    """Whether the gradient already there has a mask of its own."""


def _masks_differ(held: Atom | None, mask: Atom | None) -> bool:
    """Return whether the gradient already there has a mask, and another one than the sent gradient."""
    return held is not None and not (isinstance(held, int) and held == mask)


def _is_copy(row: Row, sent: SentGradient) -> bool:
    """Return whether an op passes the upstream gradient on unchanged, with its mask."""
    arrived = len(row.sources) + 1
    value = sent.value
    mask = sent.mask
    return (
        isinstance(value, SlotForm)
        and isinstance(mask, SlotForm)
        and (value.number, mask.number) == (arrived, arrived + 1)
    )


def _combine_gradients(
    rule: PullbackRule, sent: SentGradient, kind: WireType, first: int, case: _CombinationCase
) -> Form:
    """Return the form of a gradient after another one is sent to it.

    The slots from `first` on are the old gradient, the mask of the new one and the mask of the old one, as far as the
    case has them.
    """
    key = sent.slot, case
    known = rule.combined.get(key)
    if known is not None:
        return known
    slots = iter(range(first, first + 3))
    condition = WireType(BOOL.dtype, kind.shape)
    old = SlotForm(next(slots), kind) if case.added else None
    mask = SlotForm(next(slots), condition) if case.masked else None
    held = SlotForm(next(slots), condition) if case.held else None
    form = sent.value if old is None else OpForm(TABLE["add"], (old, sent.value), kind)
    if held is not None:
        form = choose_form(held, form, sent.value, kind)
    if mask is not None:
        form = choose_form(mask, form, _zero_constant(kind) if old is None else old, kind)
    rule.combined[key] = form
    return form


def _inline_mask(rule: PullbackRule, sent: SentGradient, kind: WireType) -> Form:
    """Return the form of the first gradient sent to a node, with its mask written out."""
    form = rule.combined.get(sent.slot)
    if form is None:
        assert sent.mask is not None
        form = rule.combined[sent.slot] = choose_form(sent.mask, sent.value, _zero_constant(kind), kind)
    return form


def _zero_constant(kind: WireType) -> ConstantForm:
    return ConstantForm(np.zeros((), kind.dtype)[()], WireType(kind.dtype))
