"""A circuit as a quiz sees it, one run of it on drawn leaves, and the random numbers that decide what is drawn.

A quiz looks through splitters and at the nodes between inputs and output alone. Everything here has a twin in
`web/src/learn/quiz-run.ts`: the same seed draws the same leaves, and numbers are written alike.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np

from wiregrad.backends import RunRecord
from wiregrad.backends.interpreter import check_input_names, convert_to_float, run_circuit
from wiregrad.dtypes import FLOAT, to_python_number
from wiregrad.errors import InputError, OutputError, short_repr
from wiregrad.ir import CircuitGraph, Node, Op, Pattern
from wiregrad.ir.circuit import shorten_middle
from wiregrad.ir.columns import normalize_name
from wiregrad.ir.op import Level
from wiregrad.ops import Elementwise

Wire = tuple[int, int]
"""A wire: the node that reads it, and the slot at which it does."""
Choice = TypeVar("Choice")

MAX_SEED: Final = 2**32 - 1
_WORD: Final = 0xFFFFFFFF
_GOLDEN: Final = 0x9E3779B9
MAX_QUIZ_NODES: Final = 2000
"""Maximum number of nodes of a circuit; nobody answers questions about a larger one, and drawing them takes long."""
MAX_NAME: Final = 24
"""Maximum number of characters of a node's name in a sentence; of longer ones the middle is left out."""
LEAF_RANGES: Final = ((12, 37, True), (3, 19, True), (12, 37, False), (1, 9, False))
"""Where leaves are drawn, in tenths, and whether they may be negative; attempts take turns."""
BREAKING_LEAVES: Final = (0.0, -1.0, 0.0, 1000.0, 2.0, -2.5)
"""Leaves at which ops break: what a hunt for the first non-finite number draws from."""


def _scramble(word: int) -> int:
    word ^= word >> 16
    word = word * 0x85EBCA6B & _WORD
    word ^= word >> 13
    word = word * 0xC2B2AE35 & _WORD
    return word ^ word >> 16


class Draws:
    """A small generator of random integers that Python and the page share: 32-bit words of a scrambled counter.

    >>> draws = Draws(7, 2)
    >>> [draws.below(10) for _ in range(5)]
    [5, 2, 6, 6, 1]
    """

    def __init__(self, *parts: int) -> None:
        self._state = 0
        for part in parts:
            self._state = _scramble((self._state ^ part) + _GOLDEN & _WORD)

    def below(self, count: int) -> int:
        """Draw an integer from 0 to below `count`."""
        self._state = self._state + _GOLDEN & _WORD
        return _scramble(self._state) * count >> 32

    def choose(self, items: Sequence[Choice]) -> Choice:
        """Draw one of some items."""
        return items[self.below(len(items))]

    def shuffle(self, items: Sequence[Choice]) -> list[Choice]:
        """Return the items in a drawn order."""
        mixed = list(items)
        for k in range(len(mixed) - 1, 0, -1):
            other = self.below(k + 1)
            mixed[k], mixed[other] = mixed[other], mixed[k]
        return mixed


def check_seed(seed: object) -> int:
    """Return the seed of a quiz as an int; raise `InputError` if it is none."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed <= MAX_SEED:
        raise InputError(f"the seed of a quiz is an integer from 0 to {MAX_SEED}; got {short_repr(seed)}")
    return int(seed)


def show_number(value: float | bool) -> str:
    """Write a number as the picture does: four significant digits, a long minus sign, no trailing zeros.

    >>> [show_number(x) for x in (-2.4, 0.55912, 1 / 65536, 123456.0, -0.0, True)]
    ['−2.4', '0.5591', '1.526e−5', '1.235e5', '0', 'true']
    """
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Inf" if value > 0 else "−Inf"
    if value == 0.0:
        return "0"
    size = abs(value)
    text = f"{value:.3e}" if size < 1e-3 else f"{value:.{5 if 1e4 <= size < 99999.5 else 4}g}"
    mantissa, _, power = text.partition("e")
    if power:
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        text = f"{mantissa}e{int(power)}"
    return text.replace("-", "−")


def show_factor(value: float) -> str:
    """Write a number to follow a sign of arithmetic: a negative one in brackets.

    >>> show_factor(-3.0), show_factor(0.5)
    ('(−3)', '0.5')
    """
    text = show_number(value)
    return f"({text})" if text.startswith("−") else text


_TEMPORARY = re.compile(r"t\d+")


class QuizCircuit:
    """The part of a scalar circuit that questions are about: the nodes between its inputs and its only output."""

    def __init__(self, circuit: CircuitGraph) -> None:
        self.circuit = circuit
        self.inputs = circuit.inputs
        self._refuse_unsuitable()
        origins: list[int] = circuit.origins().tolist()
        self.root = origins[circuit.root()]
        self.ops: list[Op] = [circuit.op_of(node) for node in range(circuit.size)]
        self.sources = [tuple(origins[source] for source in circuit.sources_of(node)) for node in range(circuit.size)]
        self.active = circuit.active()
        self.starts: list[int] = circuit.columns.starts.tolist()
        self.modes = [Node(circuit, node).mode for node in range(circuit.size)]
        self.nodes = self._find_cone()
        """The nodes that the output depends on, splitters left out, in order."""
        self.leaves = [node for node in circuit.input_indices() if node in self._cone]
        self.functions = [node for node in self.nodes if self.sources[node]]
        self.wires: list[Wire] = [
            (node, slot)
            for node in self.functions
            for slot, source in enumerate(self.sources[node])
            if self.active[node] and self.active[source]
        ]
        """The wires along which a gradient can come back, by reader, then slot."""
        self.readers: dict[int, list[Wire]] = {node: [] for node in self.nodes}
        for wire in self.wires:
            self.readers[self.source_of(wire)].append(wire)
        self.fan: dict[int, int] = dict.fromkeys(self.nodes, 0)
        """How many places the value of a node goes to, comparisons included."""
        for node in self.functions:
            for source in self.sources[node]:
                self.fan[source] += 1

    def _refuse_unsuitable(self) -> None:
        circuit = self.circuit
        if circuit.size > MAX_QUIZ_NODES:
            raise InputError(
                f"a quiz is about a circuit of at most {MAX_QUIZ_NODES:,} nodes, inputs and constants included; got "
                f"{circuit.size:,}; circuit.with_output(name).simplify() is the part that leads to one node"
            )
        for node in range(circuit.size):
            kind = circuit.type_of(node)
            if kind.shape:
                name = circuit.reference_to(node)
                raise InputError(
                    f"questions are about circuits of numbers; {name} is {kind}; a small array circuit becomes one by "
                    "circuit.expand()"
                )
        other = next((k for k in circuit.input_indices() if circuit.type_of(k) != FLOAT), None)
        if other is not None:
            raise InputError(
                f"a quiz draws its inputs as float64; input {circuit.name_of(other)} is {circuit.type_of(other)}"
            )
        if not circuit.type_of(circuit.root()).differentiable:
            raise OutputError(
                f"the output {circuit.output} is {circuit.type_of(circuit.root())}, which has no gradient; "
                "choose a number with circuit.with_output(name)"
            )

    def _find_cone(self) -> list[int]:
        cone = {self.root}
        for node in range(self.circuit.size - 1, -1, -1):
            if node in cone:
                cone.update(self.sources[node])
        self._cone = cone
        return sorted(cone)

    def source_of(self, wire: Wire) -> int:
        """Return the node whose value goes along a wire."""
        return self.sources[wire[0]][wire[1]]

    @cached_property
    def titles(self) -> dict[int, str]:
        """What the nodes are called in sentences; what a formula gave no name goes by what it computes."""
        titles: dict[int, str] = {}
        for node in self.nodes:
            titles[node] = shorten_middle(self._write_title(node, titles), MAX_NAME)
        return titles

    def title(self, node: int) -> str:
        """Return what a node is called in sentences."""
        return self.titles[node]

    def _is_temporary(self, node: int) -> bool:
        """Return whether a node has the name that a formula gives to what has none, such as t1."""
        names = self.circuit.columns.names.names_of(node)
        place = self.circuit.columns.places.label_of(node)
        is_formula = place is not None and place.file == "formula"
        return bool(names) and is_formula and node != self.root and _TEMPORARY.fullmatch(names[0]) is not None

    def _write_title(self, node: int, titles: Mapping[int, str]) -> str:
        if self.circuit.columns.names.names_of(node) and not self._is_temporary(node):
            return self.circuit.name_of(node)
        constant = self.circuit.constant_of(node)
        if constant is not None:
            return show_number(to_python_number(constant))
        if self._is_temporary(node):
            return self._write_expression(node, [titles[source] for source in self.sources[node]])
        return self.circuit.title_of(node)

    def _write_expression(self, node: int, parts: Sequence[str]) -> str:
        op = self.ops[node]
        if op.prefix:
            return f"−{self._wrap(node, 0, parts[0])}" if op.prefix == "-" else f"{op.prefix}{parts[0]}"
        if not op.infix or len(parts) != 2:
            return f"{op.name}({', '.join(parts)})"
        left, right = (self._wrap(node, slot, text) for slot, text in enumerate(parts))
        sign = {"*": "·", "-": "−", "**": "^"}.get(op.infix[0], op.infix[0])
        return f"{left}{sign}{right}" if op.level >= Level.PRODUCT else f"{left} {sign} {right}"

    def _wrap(self, node: int, slot: int, text: str) -> str:
        """Put an operand in brackets where it binds less than its reader."""
        source = self.sources[node][slot]
        op = self.ops[node]
        inner = self.ops[source]
        own = Level.SIGN if op.prefix else op.level
        if text.startswith("−") and (slot or own > Level.SUM):
            return f"({text})"
        if not self._is_temporary(source) or not inner.infix:
            return text
        is_loose = inner.level < own or (inner.level == own and slot == 1)
        return f"({text})" if is_loose else text

    def draw_leaves(self, draws: Draws, attempt: int, fixed: Mapping[str, float]) -> dict[str, float]:
        """Draw the leaves of a question; those that are fixed keep their value."""
        low, high, signed = LEAF_RANGES[attempt % len(LEAF_RANGES)]
        leaves: dict[str, float] = {}
        for name in self.inputs:
            size = (low + draws.below(high - low + 1)) / 10
            negative = signed and draws.below(2) == 0
            leaves[name] = fixed.get(name, -size if negative else size)
        return leaves

    def check_fixed(self, fixed: Mapping[str, object] | None) -> dict[str, float]:
        """Return the leaves that keep their value as floats; raise `InputError` for unknown names."""
        named = {normalize_name(name): value for name, value in (fixed or {}).items()}
        check_input_names(named, self.inputs)
        return {name: float(convert_to_float(f"input {name}", value)) for name, value in named.items()}

    def run(self, leaves: Mapping[str, float]) -> QuizRun:
        """Run the circuit forward and backward."""
        inputs = [np.float64(leaves[name]) for name in self.inputs]
        return QuizRun(self, leaves, run_circuit(self.circuit, inputs, check=False))


class QuizRun:
    """What one run wrote on every node and wire of a quiz's circuit; None is absent."""

    def __init__(self, owner: QuizCircuit, leaves: Mapping[str, float], record: RunRecord) -> None:
        self.owner = owner
        self.leaves = dict(leaves)
        self.values: list[float] = [to_python_number(value) for value in record.values]
        self.grads: list[float | None] = [None if flow is None else float(flow) for flow in record.flows]
        self._record = record
        self._slopes: dict[Wire, float | None] = {}

    def value(self, node: int) -> float:
        """Return the value of a node."""
        return self.values[node]

    def upstream(self, node: int) -> float:
        """Return the gradient that arrives at a node; 0 if none does."""
        gradient = self.grads[node]
        return 0.0 if gradient is None else gradient

    def sent(self, wire: Wire) -> float | None:
        """Return what was sent back along a wire."""
        flow = self._record.sent[self.owner.starts[wire[0]] + wire[1]]
        return None if flow is None else float(flow)

    def local(self, wire: Wire) -> float | None:
        """Return the local derivative on a wire."""
        if wire not in self._slopes:
            self._slopes[wire] = self._find_slope(wire)
        return self._slopes[wire]

    def _find_slope(self, wire: Wire) -> float | None:
        slope = self.local_from(wire, self._record.values[wire[0]])
        if slope is None and not isinstance(self.owner.ops[wire[0]], Elementwise):
            # The op has a rule but no single slope; its product still tells the factor.
            sent = self.sent(wire)
            upstream = self.upstream(wire[0])
            return None if sent is None or not upstream else sent / upstream
        return slope

    def local_from(self, wire: Wire, y: float) -> float | None:
        """Return the rule of a wire as if the node had given out a number."""
        node, slot = wire
        xs = [self._record.values[source] for source in self.owner.sources[node]]
        with np.errstate(all="ignore"):
            slope: Any = self.owner.ops[node].local(slot, xs, np.float64(y), self.owner.modes[node])
        return None if slope is None else float(slope)

    @cached_property
    def is_clean(self) -> bool:
        """Whether every number is finite and no node is on a kink."""
        nodes = self.owner.nodes
        numbers = [*(self.values[node] for node in nodes), *(self.upstream(node) for node in nodes)]
        return all(map(math.isfinite, numbers)) and not any(self._is_on_kink(node) for node in self.owner.functions)

    def _is_on_kink(self, node: int) -> bool:
        kinks = [kink for kink in self.owner.ops[node].kinks if not kink.jump]
        xs = [self._record.values[source] for source in self.owner.sources[node]]
        return any(bool(kink.at(*xs) == 0) if kink.on is None else bool(kink.on(*xs)) for kink in kinks)

    def describe_reader(self, wire: Wire) -> str:
        """Return what a wire leads to: the reader, with the slot if it reads the same value twice."""
        from_same = [
            slot for slot, node in enumerate(self.owner.sources[wire[0]]) if node == self.owner.source_of(wire)
        ]
        title = self.owner.title(wire[0])
        if len(from_same) < 2:
            return title
        return f"the {('first', 'second', 'third')[wire[1]] if wire[1] < 3 else 'last'} input of {title}"


def has_pattern(run: QuizRun, node: int, pattern: Pattern) -> bool:
    """Return whether the op of a node passes gradients on in a certain way."""
    return run.owner.ops[node].pattern is pattern
