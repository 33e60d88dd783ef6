"""A circuit as a quiz sees it: one run of it on drawn leaves, the mistakes that it predicts, and what learners answer.

A quiz looks through splitters and at the nodes between inputs and output alone. Random numbers decide which leaves are
drawn; the same seed draws the same leaves in the page, and numbers are written alike.

Mistakes are mutant backward rules. A rule mistake replaces the local derivative of a wire; a branch mistake replaces
the sum of what comes back. Both run on the circuit of the question, at one place or in a whole sweep, so that every
prediction is computed and none is written down. A prediction keeps its factors: feedback rebuilds the learner's number
from them.

Numbers are accepted as people type them: fractions, decimal commas, powers of ten, small expressions. They are read by
the parser of formulas, so nothing is evaluated as code. The twins are `quiz-run.ts`, `mistakes.ts` and `answers.ts` in
`web/src/learn/`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Final, TypeVar

import numpy as np

from wiregrad.backends import RunRecord
from wiregrad.backends.interpreter import bind_inputs, check_input_names, convert_to_float, evaluate_nodes, run_circuit
from wiregrad.dtypes import FLOAT, to_python_number
from wiregrad.errors import FormulaError, InputError, OutputError, WiregradError, short_repr
from wiregrad.frontends import parse_formula
from wiregrad.ir import CircuitGraph, Node, Op, Pattern
from wiregrad.ir.circuit import shorten_middle
from wiregrad.ir.columns import normalize_name
from wiregrad.ir.op import Level
from wiregrad.learn.sentences import TEXTS, TITLES, WORDS, describe_mistake, fill_sentence
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
READABLE_ATTEMPTS: Final = 24
"""For how many draws of leaves a question waits for numbers that can be read, with no function flat."""
SMALLEST: Final = 1e-3
LARGEST: Final = 1e3
FLAT: Final = 0.01
"""The local derivative below which a function is flat."""
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

    def is_fit(self, attempt: int) -> bool:
        """Whether questions may be asked at this point: the first attempts want numbers that can be read."""
        return self.is_clean and (attempt >= READABLE_ATTEMPTS or self.is_readable)

    @cached_property
    def is_readable(self) -> bool:
        """Whether no number is tiny or huge, and no function is flat, as tanh is far from 0."""
        nodes = self.owner.nodes
        numbers = [*(self.values[node] for node in nodes), *(self.upstream(node) for node in nodes)]
        has_digits = all(not x or SMALLEST < abs(x) < LARGEST for x in numbers)
        return has_digits and not any(map(self._is_flat, self.owner.wires))

    def _is_flat(self, wire: Wire) -> bool:
        slope = self.local(wire)
        if slope is None or (slope == 0 and has_pattern(self, wire[0], Pattern.ROUTE)):
            return False
        return abs(slope) < FLAT

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


RULE_MISTAKES: Final = (
    "forward-for-local",
    "upstream-only",
    "own-not-other",
    "same-to-all",
    "activation-input",
    "router-both",
)
"""The mistakes that replace a local derivative, in the order in which they claim a number that two of them give."""
BRANCH_MISTAKES: Final = ("branch-first", "branch-last", "branch-product", "branch-mean")
MAX_RECURSIONS: Final = 64
"""Maximum number of paths along which the mistake of recursing is followed."""


@dataclass(frozen=True)
class PredictedFactor:
    """One factor of a predicted number, and what it is."""

    value: float
    label: str


@dataclass(frozen=True)
class PredictedMistake:
    """What a learner who makes a mistake would answer; `also` names mistakes that give this number by nature."""

    key: str
    number: float
    title: str
    text: str
    factors: tuple[PredictedFactor, ...] = ()
    also: tuple[str, ...] = ()


class MistakeWriter:
    """Collects the predictions for one question; its fields are the names and numbers that sentences may use."""

    def __init__(self, kind: str, fields: dict[str, str]) -> None:
        self.kind = kind
        self.fields = fields
        self.found: list[PredictedMistake] = []

    def add(
        self,
        key: str,
        number: float | None,
        fields: dict[str, str] | None = None,
        factors: Sequence[PredictedFactor] = (),
    ) -> None:
        """Add a prediction, unless the mistake cannot be made here."""
        if number is None or not math.isfinite(number):
            return
        title, text = describe_mistake(self.kind, key, {**self.fields, **(fields or {})})
        self.found.append(PredictedMistake(key, number, title, text, tuple(factors)))

    def add_branch(self, key: str, number: float, fields: dict[str, str]) -> None:
        """Add the prediction that one branch was taken for the sum."""
        text = TEXTS.get(f"{self.kind}.branch-one") or TEXTS["branch-one"]
        title = describe_mistake(self.kind, "branch-one", {})[0]
        self.found.append(PredictedMistake(key, number, title, fill_sentence(text, {**self.fields, **fields})))

    def add_sign(self, answer: float, factors: Sequence[float]) -> None:
        """Add the prediction of a wrong sign; where one factor is negative, the text says so."""
        self.add("sign", -answer)
        if sum(factor < 0 for factor in factors) == 1:
            self.found[-1] = replace(self.found[-1], text=TEXTS["sign-one"])


def mutate_local(run: QuizRun, key: str, wire: Wire) -> float | None:
    """Return the factor that a rule mistake puts in place of a local derivative; None if it cannot be made there."""
    node = wire[0]
    if key == "forward-for-local":
        return run.value(node)
    if key == "upstream-only":
        return 1.0
    if key == "own-not-other":
        return run.value(run.owner.source_of(wire)) if has_pattern(run, node, Pattern.SWAP) else None
    if key == "same-to-all":
        return None if has_pattern(run, node, Pattern.SWAP) else _find_neighbour_slope(run, wire)
    if key == "activation-input":
        is_single = len(run.owner.sources[node]) == 1
        return run.local_from(wire, run.value(run.owner.sources[node][0])) if is_single else None
    assert key == "router-both"
    is_loser = has_pattern(run, node, Pattern.ROUTE) and run.local(wire) is None
    return 1.0 if is_loser else None


def _find_neighbour_slope(run: QuizRun, wire: Wire) -> float | None:
    """Return the local derivative of the next input of the same node."""
    node, slot = wire
    count = len(run.owner.sources[node])
    for step in range(1, count):
        other = (slot + step) % count
        if run.owner.active[run.owner.sources[node][other]]:
            return run.local((node, other))
    return None


def local_or_mutant(run: QuizRun, key: str, wire: Wire) -> float | None:
    """Return the factor on a wire for a learner who makes a rule mistake wherever it can be made."""
    mutant = mutate_local(run, key, wire)
    return run.local(wire) if mutant is None else mutant


def sweep_with_mistake(
    run: QuizRun,
    local: Callable[[Wire], float | None],
    combine: Callable[[Sequence[float]], float] = sum,
) -> dict[int, float]:
    """Run the backward pass with another rule for wires, or another one for what several readers send."""
    owner = run.owner
    arrived: dict[int, list[float]] = {owner.root: [1.0]}
    grads: dict[int, float] = {}
    for node in reversed(owner.nodes):
        if node not in arrived:
            continue
        parts = arrived[node]
        grads[node] = combine(parts) if len(parts) > 1 else parts[0]
        for slot in range(len(owner.sources[node]) - 1, -1, -1):
            source = owner.sources[node][slot]
            factor = local((node, slot)) if owner.active[source] and owner.active[node] else None
            if factor is not None:
                arrived.setdefault(source, []).append(grads[node] * factor)
    return grads


def combine_branches(key: str, parts: Sequence[float]) -> float:
    """Put together what several readers send, in the way of a branch mistake."""
    if key == "branch-first":
        return parts[0]
    if key == "branch-last":
        return parts[-1]
    return math.prod(parts) if key == "branch-product" else sum(parts) / len(parts)


def sweep_recursively(run: QuizRun) -> dict[int, float] | None:
    """Run the backward pass as a plain recursion: add to each input in turn, which sends on at once all that it has.

    None if there are too many paths.
    """
    owner = run.owner
    grads = {owner.root: 1.0}
    # The calls that have not returned, each with the input that is next.
    calls = [(owner.root, 0)]
    for _ in range(MAX_RECURSIONS * 16):
        if not calls:
            return grads
        node, slot = calls.pop()
        if slot == len(owner.sources[node]):
            continue
        calls.append((node, slot + 1))
        source = owner.sources[node][slot]
        factor = run.local((node, slot)) if owner.active[source] and owner.active[node] else None
        if factor is not None:
            grads[source] = grads.get(source, 0.0) + grads[node] * factor
            calls.append((source, 0))
    return None


def predict_send(run: QuizRun, wire: Wire, writer: MistakeWriter, local: float, answer: float) -> None:
    """Predict what mistaken learners send along one wire."""
    owner = run.owner
    node = wire[0]
    source = owner.source_of(wire)
    upstream = run.upstream(node)
    arrives = PredictedFactor(upstream, "upstream")
    for key in RULE_MISTAKES:
        factor = mutate_local(run, key, wire)
        if factor is None:
            continue
        label = {"forward-for-local": f"value of {owner.title(node)}", "own-not-other": owner.title(source)}.get(
            key, ""
        )
        factors = (arrives, PredictedFactor(factor, label)) if label else ()
        writer.add(key, upstream * factor, factors=factors)
    writer.add("local-only", local)
    writer.add("twice", 2.0 * answer)
    writer.add("value-for-gradient", run.value(source))
    writer.add_sign(answer, (upstream, local))


def predict_local(run: QuizRun, wire: Wire, writer: MistakeWriter, local: float) -> None:
    """Predict what mistaken learners take for the local derivative of a wire."""
    node = wire[0]
    for key in RULE_MISTAKES:
        factor = run.upstream(node) if key == "upstream-only" else mutate_local(run, key, wire)
        writer.add(key, factor)
    writer.add("sent-for-local", run.upstream(node) * local)
    writer.add("value-for-gradient", run.value(run.owner.source_of(wire)))
    writer.add("sign", -local)


def predict_gather(run: QuizRun, node: int, writer: MistakeWriter, answer: float) -> None:
    """Predict what mistaken learners let land at a node with several readers."""
    wires = [wire for wire in run.owner.readers[node] if run.sent(wire) is not None]
    parts = [run.sent(wire) or 0.0 for wire in wires]
    last = len(parts) - 1
    for k, part in enumerate(parts):
        key = "branch-first" if k == 0 else "branch-last" if k == last else "branch-one"
        writer.add_branch(key, part, {"part": show_number(part), "reader": run.describe_reader(wires[k])})
    if last > 1:
        for part in parts:
            writer.add("branch-missing", answer - part)
    writer.add("branch-product", math.prod(parts))
    writer.add("branch-mean", answer / len(parts))
    for key in RULE_MISTAKES[:-1]:
        if any(mutate_local(run, key, wire) is not None for wire in wires):
            sums = [run.upstream(wire[0]) * (local_or_mutant(run, key, wire) or 0.0) for wire in wires]
            writer.add(key, sum(sums), {"op": _name_activations(run, wires)})
    writer.add("local-only", sum(run.local(wire) or 0.0 for wire in wires))
    writer.add("twice", 2.0 * answer)
    writer.add("value-for-gradient", run.value(node))
    writer.add_sign(answer, ())


def _name_activations(run: QuizRun, wires: Sequence[Wire]) -> str:
    """Return the op whose input stands in for its output: the first one for which that makes a difference."""
    for wire in wires:
        mutant = mutate_local(run, "activation-input", wire)
        if mutant is not None and mutant != run.local(wire):
            return run.owner.ops[wire[0]].name
    return ""


def predict_leaf(run: QuizRun, node: int, writer: MistakeWriter, answer: float) -> None:
    """Predict the gradient of a leaf for learners who make a mistake at every node, and at the last one alone."""
    wires = run.owner.readers[node]
    for key, grads in sweep_mistakes(run):
        if key in BRANCH_MISTAKES[:2]:
            writer.add_branch(key, grads.get(node, 0.0), {})
        else:
            writer.add(key, grads.get(node, 0.0), {"op": _name_activations(run, run.owner.wires)})
    for key in RULE_MISTAKES[:2]:
        writer.add(key, sum(run.upstream(wire[0]) * (local_or_mutant(run, key, wire) or 0.0) for wire in wires))
    writer.add("local-only", sum(run.local(wire) or 0.0 for wire in wires))
    writer.add("twice", 2.0 * answer)
    writer.add("value-for-gradient", run.value(node))
    writer.add_sign(answer, ())


def sweep_mistakes(run: QuizRun) -> Iterator[tuple[str, dict[int, float]]]:
    """Return the gradients of a whole backward pass under each mistake that can be made everywhere."""
    wires = run.owner.wires
    for key in RULE_MISTAKES:
        mutants = {wire: mutate_local(run, key, wire) for wire in wires}
        if any(factor is not None for factor in mutants.values()):
            slopes = {wire: run.local(wire) if factor is None else factor for wire, factor in mutants.items()}
            yield key, sweep_with_mistake(run, slopes.get)
    locals_ = {wire: run.local(wire) for wire in wires}
    if any(len(readers) > 1 for readers in run.owner.readers.values()):
        for key in BRANCH_MISTAKES:
            yield key, sweep_with_mistake(run, locals_.get, partial(combine_branches, key))
        recursive = sweep_recursively(run)
        if recursive is not None:
            yield "recursing", recursive


def show_fields(**numbers: float) -> dict[str, str]:
    """Write numbers for sentences: each plain, and with `_` behind its name in brackets where it is negative.

    >>> show_fields(value=-2.4)
    {'value': '−2.4', 'value_': '(−2.4)'}
    """
    fields: dict[str, str] = {}
    for name, number in numbers.items():
        fields[name] = show_number(number)
        fields[f"{name}_"] = show_factor(number)
    return fields


RELATIVE_TOLERANCE: Final = 0.01
MAX_ROUNDED_DIGITS: Final = 3
"""How many significant digits a rounded answer has at most; with more it counts as right."""
EXPRESSION_TOLERANCE: Final = 1e-6
MAX_ANSWER: Final = 200
"""Maximum number of characters of an answer."""
MAX_EXACT_DIGITS: Final = 10
"""Up to how many characters a number counts as a short decimal that rounding has changed."""
_PLAIN_NUMBER = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:e-?[0-9]{1,2})?")
_DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d)")


@dataclass(frozen=True)
class Verdict:
    """What is said of an answer: right or not, which mistake it shows, and the factors of the learner's number."""

    right: bool
    key: str
    title: str
    text: str
    factors: tuple[PredictedFactor, ...] = ()
    number: float | None = None
    costs: bool = True
    """Whether it counts as an attempt; what cannot be read does not."""
    hint: str = ""
    """What the ladder adds after the second and the third wrong answer."""

    def __str__(self) -> str:
        return "\n".join(line for line in (self.title, self.text, self.hint) if line)

    __repr__ = __str__


@dataclass(frozen=True)
class ReadAnswer:
    """An answer as a number; `formula` is set if it names leaves, `problem` if it cannot be read."""

    number: float | None = None
    formula: CircuitGraph | None = None
    problem: str = ""


def measure_tolerance(answer: float) -> float:
    """Return how far a number may be from an answer: 1 percent, less where the answer has at most three decimals.

    >>> [round(measure_tolerance(x), 6) for x in (0.375, 0.8945, 30.0, 0.4)]
    [0.0005, 0.008945, 0.3, 0.004]
    """
    share = RELATIVE_TOLERANCE * abs(answer)
    for decimals in range(4):
        scaled = abs(answer) * 10.0**decimals
        if abs(scaled - math.floor(scaled + 0.5)) < 1e-7:
            share = min(share, 0.5 / 10.0**decimals)
            break
    # What the picture shows of a number must count as that number.
    return max(share, _half_last_digit(answer))


def _half_last_digit(answer: float) -> float:
    """Return half a unit of the last digit that the picture shows of a number."""
    return 0.5 * 10.0 ** (math.floor(math.log10(abs(answer))) - 3) if answer else 0.0


def is_accepted(number: float, answer: float) -> bool:
    """Return whether a number counts as an answer."""
    return abs(number - answer) <= measure_tolerance(answer) * (1.0 + 1e-9)


def collides(one: float, two: float) -> bool:
    """Return whether two numbers are too close to be told apart."""
    return abs(one - two) <= measure_tolerance(one) + measure_tolerance(two)


def read_answer(answer: object, leaves: Mapping[str, float] | None = None) -> ReadAnswer:
    """Read an answer; with `leaves`, it may be an expression of their names.

    >>> [read_answer(text).number for text in ("1/4", "0,25", "2.5e-1", "-3*10", "1 - tanh(0)^2")]
    [0.25, 0.25, 0.25, -30.0, 1.0]
    """
    if isinstance(answer, str):
        return _read_text(answer, leaves)
    if isinstance(answer, bool | np.bool_) or not isinstance(answer, int | float | np.number | Fraction | Decimal):
        return ReadAnswer(problem=TEXTS["unreadable"])
    try:
        number = float(answer)
    except (OverflowError, TypeError, ValueError):
        return ReadAnswer(problem=TEXTS["unreadable"])
    return ReadAnswer(number) if math.isfinite(number) else ReadAnswer(problem=TEXTS["unreadable"])


def _read_text(text: str, leaves: Mapping[str, float] | None) -> ReadAnswer:
    plain = text.strip().replace("−", "-")
    if _PLAIN_NUMBER.fullmatch(plain):
        return ReadAnswer(float(plain))
    circuit = _parse_expression(plain)
    if circuit is None:
        return ReadAnswer(problem=TEXTS["unreadable"])
    if circuit.inputs and leaves is None:
        return ReadAnswer(problem=TEXTS["unreadable-names"])
    known = leaves or {}
    if any(name not in known for name in circuit.inputs):
        listed = ", ".join(known)
        return ReadAnswer(problem=fill_sentence(TEXTS["unreadable-leaves"], {"leaves": listed}))
    number = evaluate_expression(circuit, known)
    if number is None:
        return ReadAnswer(problem=TEXTS["unreadable"])
    return ReadAnswer(number, circuit if circuit.inputs else None)


def _parse_expression(text: str) -> CircuitGraph | None:
    """Parse an expression; commas between digits are decimal commas unless they separate arguments."""
    if not text or len(text) > MAX_ANSWER or ";" in text or "\n" in text:
        return None
    for spelling in dict.fromkeys([text, _DECIMAL_COMMA.sub(".", text)]):
        try:
            return parse_formula(spelling)
        except FormulaError:
            continue
        except WiregradError:
            return None
    return None


def evaluate_expression(circuit: CircuitGraph, leaves: Mapping[str, float]) -> float | None:
    """Return the value of an expression; None if it is no finite number."""
    named = {name: leaves[name] for name in circuit.inputs}
    value = evaluate_nodes(circuit, bind_inputs(circuit, [named], {}))[circuit.root()]
    if isinstance(value, bool | np.bool_) or not math.isfinite(value):
        return None
    return float(value)


def is_rounded(number: float, answer: float) -> bool:
    """Return whether a number is an answer that was rounded to fewer digits; a whole answer needs no rounding.

    >>> [is_rounded(x, 7.4) for x in (7.0, 8.0, 8.1, 6.8)], is_rounded(0.9, 0.8945)
    ([True, False, False, False], True)
    """
    if not number or not answer or answer == math.floor(answer):
        return False
    first = -math.floor(math.log10(abs(answer)))
    for decimals in range(first, first + MAX_ROUNDED_DIGITS):
        scale = 10.0**decimals
        written = number * scale
        is_short = abs(written - math.floor(written + 0.5)) < 1e-7
        if is_short and abs(written - answer * scale) <= 0.5 + 1e-7:
            return True
    return False


def judge_number(
    number: float, accepted: tuple[float, ...], mistakes: tuple[PredictedMistake, ...], neutral: str
) -> Verdict:
    """Return the verdict on a number: right, a mistake that it matches better than all others, rounded, or neutral."""
    if any(is_accepted(number, answer) for answer in accepted):
        return Verdict(True, "right", TITLES["right"], "", number=number)
    matches = [mistake for mistake in mistakes if is_accepted(number, mistake.number)]
    if matches and all((mistake.key, mistake.text) == (matches[0].key, matches[0].text) for mistake in matches):
        mistake = matches[0]
        return Verdict(False, mistake.key, mistake.title, mistake.text, mistake.factors, number)
    if not matches and any(is_rounded(number, answer) for answer in accepted):
        return Verdict(False, "near", TITLES["near"], TEXTS["near"], number=number)
    return Verdict(False, "neutral", TITLES["neutral"], neutral, number=number)


def refuse_answer(problem: str) -> Verdict:
    """Return the verdict on what cannot be read; it costs no attempt."""
    return Verdict(False, "unreadable", TITLES["unreadable"], problem, costs=False)


def title_right_answer(wrong: int, hints: int) -> str:
    """Return the title of a right answer after some wrong ones and some hints that were asked for.

    >>> title_right_answer(0, 0), title_right_answer(2, 1)
    ('Right', 'Right, after two wrong answers and one hint')
    """
    parts = [
        fill_sentence(WORDS[f"after.{name}{'s' * (count > 1)}"], {"count": COUNT_WORDS.get(count, str(count))})
        for name, count in (("wrong", wrong), ("hint", hints))
        if count
    ]
    return fill_sentence(WORDS["after"], {"what": " and ".join(parts)}) if parts else TITLES["right"]


COUNT_WORDS: Final = {2: "two", 3: "three"}


def show_exactly(number: float) -> str:
    """Write a number with all its digits, for after the answer; what rounding added to a short one is left out.

    >>> show_exactly(-0.5), show_exactly(0.8944882683715906), show_exactly(1.5 * 3.3)
    ('−0.5', '0.8944882683715906', '4.95')
    """
    short = repr(float(f"{number:.12g}"))
    text = short if len(short) <= MAX_EXACT_DIGITS else repr(float(number))
    return text.removesuffix(".0").replace("-", "−")
