"""Where an op breaks, and what to write instead.

A fault is where an op turns finite numbers into inf or NaN, forward or backward. An op that only passes on an inf or
NaN it was given is not at fault. For elementwise ops this is decided element by element, so a deliberate -inf in one
place does not hide a fault in another.

A record names its list of remedies (`Advice.LOG`), so that this module is loaded only where something broke. Lists run
from the most specific remedy to the most general: the logarithm of a sum of exponentials has a better answer than any
logarithm. A remedy states exactly when it applies, by the numbers that went in and by the formula around the node; if
none applies, nothing is advised. A node's surroundings are read through `Surroundings`, so both a circuit and a
recording that is still growing can be asked. A formula is recognised only where it is certain: two terms are equal if
they are the same node, or the same ops on the same nodes, and a constant is recognised by its number.

For every remedy, a test runs a program that breaks and the same program written as advised, which must not break.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from wiregrad.dtypes import format_brief_number, parenthesize_negative, to_python_number
from wiregrad.ir import CONSTANT, INPUT, TABLE, Advice, Op
from wiregrad.ops.array_ops import Interval
from wiregrad.ops.gradient_flow import fill_absent, is_nan, is_nonfinite

ElementIndex = tuple[int, ...]


@dataclass(frozen=True)
class Fault:
    """One op that returned or sent back something that is not finite, at the first such element."""

    phase: str
    """`forward` if its value is not finite, `backward` if what it sent back is not."""
    op: Op
    inputs: tuple[tuple[str, Any], ...]
    """The input values by name; for arrays the element that broke, or the whole array."""
    value: Any
    """The output value."""
    index: ElementIndex = ()
    """Which element broke; empty for numbers."""
    count: int = 1
    """How many elements broke."""
    slot: int = 0
    """Backward: the input whose gradient is not finite."""
    factors: tuple[Any, Any] | None = None
    """Backward: the upstream gradient and the local derivative; None if the derivative is not a single number."""
    sent: Any = None
    """Backward: the gradient that was sent."""

    def sentence(self, names: Sequence[str] = ()) -> str:
        """Describe the fault; inputs are called by the given names, or by the op's own. An empty name is a constant's.

        >>> from wiregrad import ops
        >>> forward_fault(ops.log, [np.float64(0.0)], np.float64(-np.inf)).sentence()
        'log gave -Inf at x = 0'
        """
        called = names or [name for name, _ in self.inputs]
        outside = self._describe_domain()
        # A number just outside the domain must not be rounded to its edge.
        write = repr if outside else format_brief_number
        inputs = ", ".join(
            f"{name} = {write(value)}" if name else f"the constant {write(value)}"
            for name, (_, value) in zip(called, self.inputs, strict=True)
        )
        spot = f" (element {list(self.index)}{self._count_others()})" if self.index else ""
        if self.phase == "forward":
            return f"{self.op.title} gave {format_brief_number(self.value)} at {inputs}{spot}{outside}"
        wire = called[self.slot]
        if self.factors is None:
            return f"{self.op.title} sent {format_brief_number(self.sent)} back to {wire} at {inputs}{spot}"
        upstream, local = (parenthesize_negative(factor) for factor in self.factors)
        return (
            f"{self.op.title} sent {format_brief_number(self.sent)} back to {wire}: "
            f"upstream {upstream} times local {local}, at {inputs}{spot}"
        )

    def _count_others(self) -> str:
        return f" and {self.count - 1} more" if self.count > 1 else ""

    def _describe_domain(self) -> str:
        domain = getattr(self.op, "domain", None)
        numbers = [value for _, value in self.inputs]
        if domain is None or not all(isinstance(value, int | float) for value in numbers):
            return ""
        return "" if domain(*numbers) else ", outside of where it is defined"


def forward_fault(op: Op, xs: Sequence[Any], y: Any, *, only_nan: bool = False) -> Fault | None:
    """Return the fault of an op whose value is not finite; None if it is, or if an input was not finite already.

    With `only_nan`, infinities count as numbers, and only an op that turns numbers into NaN is at fault.
    """
    broken = _find_own_breaks(op, y, xs, is_nan if only_nan else is_nonfinite)
    if broken is None:
        return None
    index, count = _locate_first(broken)
    return Fault("forward", op, _named_inputs(op, xs, y, index), _pick_element(y, y, index), index, count)


def backward_fault(op: Op, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int, sent: Any) -> Fault | None:
    """Return the fault of an op that sent back something not finite; None if its operands were not finite already."""
    upstream = fill_absent(g)
    sent = fill_absent(sent)
    broken = _find_own_breaks(op, sent, [upstream, *xs, y], is_nonfinite)
    if broken is None:
        return None
    index, count = _locate_first(broken)
    with np.errstate(all="ignore"):
        # Rules divide, and by 0 Python's numbers would raise where NumPy's do not.
        local = op.local(slot, [np.asarray(x)[()] for x in xs], np.asarray(y)[()], mode)
    factors = None
    if local is not None:
        factors = _pick_element(upstream, sent, index), _pick_element(np.asarray(fill_absent(local)), sent, index)
    inputs = _named_inputs(op, xs, sent, index)
    return Fault(
        "backward",
        op,
        inputs,
        _pick_element(y, sent, index),
        index,
        count,
        slot,
        factors,
        _pick_element(sent, sent, index),
    )


def _find_own_breaks(op: Op, result: Any, operands: Sequence[Any], is_broken: Callable[[Any], Any]) -> Any:
    """Return where a result is broken although none of its operands is; None if nowhere."""
    broken = is_broken(result)
    if type(broken) is np.bool_:
        # A shortcut for numbers: an operand that was broken already is not the op's fault.
        if not broken or any(type(x) is np.float64 and is_broken(x) for x in operands):
            return None
    elif not broken.any():
        return None
    for x in operands:
        spoiled = is_broken(x)
        if not spoiled.any():
            continue
        if not op.by_element:
            return None
        broken = broken & ~np.broadcast_to(spoiled, broken.shape) if np.shape(spoiled) != () else broken & ~spoiled
    return broken if np.any(broken) else None


def _locate_first(broken: Any) -> tuple[ElementIndex, int]:
    if not np.shape(broken):
        return (), 1
    return tuple(int(k) for k in np.argwhere(broken)[0]), int(np.sum(broken))


def _named_inputs(op: Op, xs: Sequence[Any], result: Any, index: ElementIndex) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (op.input_name(slot), _pick_element(x, result, index) if op.by_element else to_python_number(x))
        for slot, x in enumerate(xs)
    )


def _pick_element(x: Any, like: Any, index: ElementIndex) -> Any:
    """Return the element at the index that broke in another array; an array of another shape is returned whole."""
    array = np.asarray(x)
    if array.shape == np.shape(like) and index:
        return to_python_number(array[index])
    if array.ndim and np.shape(like) and not index:
        return array
    return to_python_number(array[()]) if not array.ndim else array


MAX_TERMS_SEARCHED = 64
"""Maximum number of nodes to search in the surroundings of a node."""


@dataclass(frozen=True)
class Surroundings:
    """The surroundings of a node in a circuit or a recording."""

    op: Callable[[int], Op]
    """The op of a node."""
    operands: Callable[[int], Iterable[tuple[int, Any]]]
    """The operands of a node: for each input the node it reads (negative for a literal) and that node's value."""
    readers: Callable[[int], Iterable[int]]
    """The nodes that read a node, as far as known."""


@dataclass(frozen=True)
class FormulaTerm:
    """A node or a literal, as part of the formula around the node that broke."""

    around: Surroundings
    node: int
    number: Any = None
    """Its value; None for readers of the node that broke."""

    @property
    def op(self) -> Op:
        """The record of its op."""
        return CONSTANT if self.node < 0 else self.around.op(self.node)

    @property
    def name(self) -> str:
        """The name of its op."""
        return self.op.name

    @cached_property
    def operands(self) -> tuple[FormulaTerm, ...]:
        """The terms it reads."""
        if self.node < 0:
            return ()
        return tuple(FormulaTerm(self.around, node, number) for node, number in self.around.operands(self.node))

    @cached_property
    def source_terms(self) -> tuple[FormulaTerm, ...]:
        """The terms it reads, skipping ops that only copy or move elements."""
        return tuple(operand.source_term for operand in self.operands)

    @property
    def source_term(self) -> FormulaTerm:
        """The term itself, or the first one behind it that does more than copy or move elements."""
        term = self
        while term.node >= 0 and only_moves_elements(term.op):
            term = term.operands[0]
        return term

    def find_readers(self) -> Iterator[FormulaTerm]:
        """Iterate over the terms that read it, skipping ops that only copy or move elements."""
        stack = [self.node]
        searched = 0
        while stack:
            for reader in self.around.readers(stack.pop()):
                searched += 1
                if searched > MAX_TERMS_SEARCHED:
                    return
                if only_moves_elements(self.around.op(reader)):
                    stack.append(reader)
                else:
                    yield FormulaTerm(self.around, reader)

    def reads_term(self, slot: int, other: FormulaTerm) -> bool:
        """Return whether its input at a slot is another term, possibly copied or moved."""
        return is_same_term(self.source_terms[slot], other)

    def is_constant(self, number: float) -> bool:
        """Return whether it is a constant that equals a number in every element."""
        return self.name == CONSTANT.name and holds_everywhere(self.number, lambda x: x == number)


@dataclass(frozen=True)
class FaultCase:
    """One op that broke, and the formula around it."""

    term: FormulaTerm
    fault: Fault

    @property
    def is_forward(self) -> bool:
        """Whether its value broke, rather than the gradient it sent back."""
        return self.fault.phase == "forward"

    @property
    def input_numbers(self) -> list[Any]:
        """The inputs, at the element that broke."""
        return [x for _, x in self.fault.inputs]

    @property
    def broken_value(self) -> Any:
        """What broke: the value, or the gradient sent back."""
        return self.fault.value if self.is_forward else self.fault.sent

    @property
    def upstream_gradient(self) -> Any:
        """The upstream gradient; NaN if it is not known."""
        return np.nan if self.fault.factors is None else self.fault.factors[0]

    @property
    def local_slope(self) -> Any:
        """The local derivative; NaN if it is not a single number."""
        return np.nan if self.fault.factors is None else self.fault.factors[1]

    @property
    def is_complex(self) -> bool:
        """Whether an input or the broken value is complex."""
        return any(np.iscomplexobj(x) for x in (*self.input_numbers, self.broken_value))


@dataclass(frozen=True)
class Remedy:
    """Advice, and when it applies.

    `of` names the ops that an input is computed by, `to` those that read the node, nearest first; ops that only copy or
    move elements are skipped.
    """

    advice: str
    when: Callable[[FaultCase], bool] | None = None
    """Condition for a case; None if there is none."""
    of: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    slot: int = 0
    """The input that `of` begins with."""
    complex: bool = False
    """Whether it also helps with complex numbers."""
    general: bool = False
    """Whether it is so general that a caller who knows how the result is used may have better advice."""

    def applies_to(self, case: FaultCase) -> bool:
        """Return whether the remedy applies to a case."""
        return (
            (self.complex or not case.is_complex)
            and (not self.of or _is_computed_by(case.term.source_terms[self.slot], self.of))
            and (not self.to or _is_read_by([case.term], self.to))
            and (self.when is None or self.when(case))
        )


def _is_computed_by(term: FormulaTerm, steps: Sequence[str]) -> bool:
    """Return whether a term is computed by ops of these names, each the first input of the one before."""
    for k, step in enumerate(steps):
        if k:
            term = term.source_terms[0]
        if term.name != step:
            return False
    return True


def _is_read_by(front: Sequence[FormulaTerm], steps: Sequence[str]) -> bool:
    """Return whether terms are read by ops of these names, one after the other."""
    for step in steps:
        front = [reader for term in front[:MAX_TERMS_SEARCHED] for reader in term.find_readers() if reader.name == step]
    return bool(front)


def holds_everywhere(number: Any, test: Callable[[Any], Any]) -> bool:
    """Return whether a test is true for all elements of a value; False if the value is not known.

    >>> holds_everywhere(np.zeros(2), lambda x: x == 0), holds_everywhere(None, lambda x: x == 0)
    (True, False)
    """
    array = np.asarray(number)
    return array.dtype.kind in "biufc" and bool(np.all(test(array)))


def is_same_term(one: FormulaTerm, other: FormulaTerm) -> bool:
    """Return whether two terms are certainly equal: one node, or the same ops on the same nodes."""
    pairs = [(one, other)]
    compared = 0
    while pairs:
        a, b = (_skip_splitters(term) for term in pairs.pop())
        compared += 1
        if a.node == b.node >= 0:
            continue
        if compared > MAX_TERMS_SEARCHED or not _apply_same_op(a, b):
            return False
        pairs.extend(zip(a.operands, b.operands, strict=True))
    return True


def _skip_splitters(term: FormulaTerm) -> FormulaTerm:
    """Return the term behind splitters."""
    while term.node >= 0 and getattr(term.op, "copies", False):
        term = term.operands[0]
    return term


def _apply_same_op(a: FormulaTerm, b: FormulaTerm) -> bool:
    if a.op is CONSTANT and b.op is CONSTANT:
        return np.array_equal(a.number, b.number)
    if a.op is INPUT or a.op.per_call:
        return False
    return (a.name, a.op.settings, len(a.operands)) == (b.name, b.op.settings, len(b.operands))


def only_moves_elements(op: Op) -> bool:
    """Return whether every element of an op's output is an element of its input.

    >>> [only_moves_elements(TABLE[name]) for name in ("split", "reshape", "getitem", "sum", "exp")]
    [True, True, True, False, False]
    """
    if getattr(op, "moves", False) and not op.variadic:
        return _samples_only_move(op.name)
    return bool(getattr(op, "copies", False))


@cache
def _samples_only_move(name: str) -> bool:
    """Return whether an op that moves or adds up elements only moves them, judged by its samples."""
    op: Any = TABLE[name]
    samples = op.samples(np.random.default_rng(0)) if op.samples else []
    pairs = [(xs[0], op.bind(settings).compute(*xs)) for *xs, settings in samples]
    # A cast rounds, so elements are compared in single precision.
    only_moved = [np.isin(np.asarray(y, np.complex64), np.asarray(x, np.complex64)).all() for x, y in pairs]
    return bool(only_moved) and all(only_moved)


def _is_finite(x: Any) -> bool:
    return holds_everywhere(x, np.isfinite)


GENERAL_REMEDIES = (
    Remedy(
        "what flows back is beyond the largest number: scale the output down",
        when=lambda case: not case.is_forward and _is_finite(case.upstream_gradient) and _is_finite(case.local_slope),
        complex=True,
    ),
)
"""Remedies for any op, tried after its own."""


def base_of_square(term: FormulaTerm) -> FormulaTerm | None:
    """Return what a term is the square of; None if it is not a square."""
    if term.name == "square" or (term.name == "power" and term.source_terms[1].is_constant(2)):
        return term.operands[0]
    return term.operands[0] if term.name == "multiply" and is_same_term(*term.operands) else None


def adds_squares(term: FormulaTerm) -> bool:
    """Return whether a term is a sum of squares written with +."""
    stack = [term]
    searched = 0
    while stack and searched < MAX_TERMS_SEARCHED:
        part = stack.pop()
        searched += 1
        if part.name == "add":
            stack.extend(part.source_terms)
        elif base_of_square(part) is None:
            return False
    return searched > 1 and not stack


def sums_squares(term: FormulaTerm) -> bool:
    """Return whether a term is a sum of squares."""
    if term.name == "sum":
        return base_of_square(term.source_terms[0]) is not None
    return adds_squares(term) or _is_dot_with_itself(term)


def _is_dot_with_itself(term: FormulaTerm) -> bool:
    """Return whether a term is the matrix product of a row with itself as a column."""
    if term.name != "matmul" or any(operand.name != "reshape" for operand in term.operands):
        return False
    row, column = term.operands
    one = np.shape(row.number)[-2:-1] == (1,) == np.shape(column.number)[-1:]
    return one and is_same_term(row.operands[0], column.operands[0])


def averages_squares(term: FormulaTerm) -> bool:
    """Return whether a term is a mean of squares."""
    return term.name == "divide" and term.source_terms[0].name == "sum" and sums_squares(term.source_terms[0])


def is_variance(term: FormulaTerm) -> bool:
    """Return whether a term is the mean of the squared distances from the mean."""
    if not averages_squares(term):
        return False
    centred = base_of_square(term.source_terms[0].source_terms[0])
    if centred is None or centred.source_term.name != "subtract":
        return False
    x = centred.source_term.operands[0]
    mean = centred.source_term.source_terms[1]
    return (
        mean.name == "divide"
        and mean.source_terms[0].name == "sum"
        and is_same_term(mean.source_terms[0].operands[0], x)
    )


def radicand_of(term: FormulaTerm) -> FormulaTerm | None:
    """Return what a term is the square root of; None if it is not a root."""
    if term.name == "where":
        # np.std and np.linalg.norm replace the root at 0 by a term that has a slope there.
        term = term.source_terms[2]
    if term.name == "sqrt" or (term.name == "power" and term.source_terms[1].is_constant(0.5)):
        return term.source_terms[0]
    return None


def softmax_weights(term: FormulaTerm) -> FormulaTerm | None:
    """Return the exponentials e for which a term is e / sum(e); None if it is no such quotient."""
    if term.name != "divide":
        return None
    top, bottom = term.source_terms
    shared = top.name == "exp" and bottom.name == "sum" and is_same_term(bottom.operands[0], top)
    return top if shared else None


def adds_exponentials(term: FormulaTerm) -> bool:
    """Return whether a term is exp(a) + exp(b)."""
    return term.name == "add" and all(part.name == "exp" for part in term.source_terms)


def is_one_minus(term: FormulaTerm, name: str = "") -> bool:
    """Return whether a term is 1 - x; with a name, only if x is computed by the op of that name."""
    return term.name == "subtract" and term.source_terms[0].is_constant(1) and name in ("", term.source_terms[1].name)


def is_one_plus(term: FormulaTerm, part: FormulaTerm) -> bool:
    """Return whether a term is 1 + part."""
    return term.name == "add" and any(
        term.source_terms[k].is_constant(1) and term.reads_term(1 - k, part) for k in range(2)
    )


def is_inverse(term: FormulaTerm, divisor: FormulaTerm) -> bool:
    """Return whether a term is 1 / divisor."""
    return term.name == "reciprocal" or (
        term.name == "divide" and term.source_terms[0].is_constant(1) and is_same_term(term.source_terms[1], divisor)
    )


def is_tanh(term: FormulaTerm) -> bool:
    """Return whether a term is sinh(x) / cosh(x)."""
    if term.name != "divide":
        return False
    top, bottom = term.source_terms
    return (top.name, bottom.name) == ("sinh", "cosh") and is_same_term(top.operands[0], bottom.operands[0])


def is_filled(term: FormulaTerm) -> bool:
    """Return whether a term contains literal infinities, such as those a mask fills in."""
    parts = term.source_terms[1:] if term.name == "where" else [term]
    return any(part.name == "constant" and bool(np.any(np.isinf(part.number))) for part in parts)


FaultCondition = Callable[[FaultCase], bool]


def is_zero(x: Any) -> bool:
    """Return whether a number is 0."""
    return holds_everywhere(x, lambda x: x == 0)


def is_below(x: Any, bound: float) -> bool:
    """Return whether a real number is less than a bound."""
    return holds_everywhere(x, lambda x: x < bound)


def _is_positive(x: Any) -> bool:
    return holds_everywhere(x, lambda x: x > 0)


def has_finite_inputs(case: FaultCase) -> bool:
    """Return whether all inputs are finite."""
    return all(holds_everywhere(x, np.isfinite) for x in case.input_numbers)


def has_overflowed(case: FaultCase) -> bool:
    """Return whether finite inputs gave a result beyond the largest number."""
    # A matrix product adds up products that overflowed, which can be inf - inf.
    return (
        case.is_forward
        and has_finite_inputs(case)
        and (not case.fault.op.by_element or holds_everywhere(case.broken_value, np.isinf))
    )


def infinities_cancel(case: FaultCase) -> bool:
    """Return whether infinite inputs gave NaN."""
    infinite = (
        all(holds_everywhere(x, np.isinf) for x in case.input_numbers)
        if case.fault.op.by_element
        else not has_finite_inputs(case)
    )
    return case.is_forward and infinite and holds_everywhere(case.broken_value, np.isnan)


RESULT_TOO_LARGE = Remedy(
    "the result is beyond the largest number: scale the inputs, or work with logarithms",
    when=has_overflowed,
    complex=True,
)
INFINITIES_MET = Remedy(
    "two infinities met: write a large finite number instead (-1e9 in a mask), or leave those rows out",
    when=infinities_cancel,
)
SUM_REMEDIES = (INFINITIES_MET, RESULT_TOO_LARGE)


# Products with 0.

MASK_ADVICE = (
    "a product with 0 does not stop an inf: choose with np.where(mask, ..., 0.0), whose other side never leaks"
)


def _zero_meets_infinity(case: FaultCase) -> bool:
    return (
        case.is_forward
        and any(map(is_zero, case.input_numbers))
        and any(holds_everywhere(x, np.isinf) for x in case.input_numbers)
    )


def _weighs_its_own_logarithm(case: FaultCase) -> bool:
    """Return whether the case is p * log(p)."""
    pairs = [case.term.operands, case.term.operands[::-1]]
    return _zero_meets_infinity(case) and any(p.source_term.name != "log" and _is_log_of(log, p) for p, log in pairs)


def _is_log_of(term: FormulaTerm, p: FormulaTerm) -> bool:
    return term.source_term.name == "log" and is_same_term(term.source_term.operands[0], p)


def _is_masked_later(case: FaultCase) -> bool:
    """Return whether the slope is infinite and a reader multiplies the node by 0."""
    if case.is_forward or not is_zero(case.upstream_gradient) or holds_everywhere(case.local_slope, np.isfinite):
        return False
    others = (
        other.number
        for reader in case.term.find_readers()
        if reader.name == "multiply"
        for k, other in enumerate(reader.source_terms)
        if reader.reads_term(1 - k, case.term)
    )
    return any(np.any(np.equal(number, 0)) for number in others)


MASKED_LATER = Remedy(MASK_ADVICE, when=_is_masked_later)
PRODUCT_REMEDIES = (
    Remedy("p * log(p) is np.where(p > 0, p * np.log(p), 0.0): 0 * -inf is nan", when=_weighs_its_own_logarithm),
    Remedy(MASK_ADVICE, when=_zero_meets_infinity),
    RESULT_TOO_LARGE,
)
GRADIENT_TOO_LARGE = GENERAL_REMEDIES[0]


def _breaks_backward(case: FaultCase) -> bool:
    """Return whether finite inputs sent back something that is not finite."""
    return not case.is_forward and has_finite_inputs(case)


MATRIX_PRODUCT_REMEDIES = (
    Remedy(
        "an inf that was filled in met a 0 or another inf: replace it before the product, "
        "np.where(np.isfinite(x), x, 0.0)",
        when=lambda case: case.is_forward and any(is_filled(term) for term in case.term.source_terms),
    ),
    RESULT_TOO_LARGE,
    replace(GRADIENT_TOO_LARGE, when=_breaks_backward),
)
MANY_FACTORS_REMEDIES = (
    Remedy(
        "the product is beyond the largest number, or that of some of the factors: scale them, or add up logarithms",
        when=has_finite_inputs,
        complex=True,
    ),
)


# Roots and lengths.


def _breaks_at_zero(case: FaultCase) -> bool:
    """Return whether a root of 0 sent back its infinite slope."""
    return (
        not case.is_forward
        and is_zero(case.input_numbers[0])
        and (len(case.input_numbers) == 1 or holds_everywhere(case.input_numbers[1], lambda p: p == 0.5))
    )


def _when_root_of(is_kind: Callable[[FormulaTerm], bool]) -> FaultCondition:
    """Return the condition that a root broke at 0 and its radicand passes a test."""

    def holds_for(case: FaultCase) -> bool:
        return _breaks_at_zero(case) and is_kind(case.term.source_terms[0])

    return holds_for


NORM_ADVICE = "use np.linalg.norm(x) instead of the root of a sum of squares: its gradient at 0 is 0"
SPECIAL_ROOTS = (
    Remedy(
        "use np.std(x), whose gradient is 0 where nothing varies, or add a small eps under the root",
        when=_when_root_of(is_variance),
    ),
    Remedy(
        "use np.linalg.norm(e) / np.sqrt(n) for the root of a mean of squares, or add a small eps under the root",
        when=_when_root_of(averages_squares),
    ),
    Remedy(
        "use np.hypot(a, b), or np.linalg.norm of more, instead of the root of a sum of squares: it has a slope at 0",
        when=_when_root_of(adds_squares),
    ),
    Remedy(NORM_ADVICE, when=_when_root_of(sums_squares)),
    Remedy("use np.abs(x) for the root of a square", when=_when_root_of(lambda x: base_of_square(x) is not None)),
    MASKED_LATER,
)
ROOT_REMEDIES = (
    *SPECIAL_ROOTS,
    Remedy(
        "the slope of a root at 0 is infinite: keep the argument above 0, np.sqrt(np.maximum(x, tiny)) or "
        "np.sqrt(x + eps)",
        when=_breaks_at_zero,
    ),
    Remedy(
        "keep the argument above 0: np.sqrt(np.maximum(x, tiny))",
        when=lambda case: case.is_forward and is_below(case.input_numbers[0], 0),
    ),
)
CUBE_ROOT_REMEDIES = (
    MASKED_LATER,
    Remedy(
        "the slope of a cube root at 0 is infinite: keep the argument from 0, np.cbrt(np.where(x == 0, eps, x))",
        when=lambda case: is_zero(case.input_numbers[0]),
    ),
)


# Powers.


def _is_pole(case: FaultCase) -> bool:
    return case.is_forward and is_zero(case.input_numbers[0]) and is_below(case.input_numbers[1], 0)


def _is_fraction_of_negative(case: FaultCase) -> bool:
    base, exponent = case.input_numbers
    return (
        case.is_forward
        and is_below(base, 0)
        and holds_everywhere(exponent, lambda p: np.isfinite(p) & (p != np.floor(p)))
    )


def _is_slope_at_zero(case: FaultCase) -> bool:
    base, exponent = case.input_numbers
    return not case.is_forward and case.fault.slot == 0 and is_zero(base) and is_below(exponent, 1)


def _overflows_from_nonzero(case: FaultCase) -> bool:
    return has_overflowed(case) and not is_zero(case.input_numbers[0])


def _asks_for_the_exponent(case: FaultCase) -> bool:
    return not case.is_forward and case.fault.slot == 1 and is_below(case.input_numbers[0], 0)


POWER_REMEDIES = (
    *SPECIAL_ROOTS,
    Remedy(
        "a power with a negative exponent divides: keep the base from 0, np.where(x == 0, 1.0, x) ** p", when=_is_pole
    ),
    Remedy(
        "a power of a negative number is defined for whole exponents only: np.maximum(x, eps) ** p, or np.abs(x) ** p",
        when=_is_fraction_of_negative,
    ),
    Remedy(
        "the slope of a power below 1 is infinite at 0: keep the base above 0, np.maximum(x, eps) ** p",
        when=_is_slope_at_zero,
    ),
    Remedy(
        "a power of a negative number has no slope along its exponent: x ** wg.stop_gradient(p), or np.abs(x) ** p",
        when=_asks_for_the_exponent,
    ),
    replace(RESULT_TOO_LARGE, when=_overflows_from_nonzero),
    Remedy(
        "the slope is beyond the largest number: scale the base",
        when=lambda case: (
            not case.is_forward and not is_zero(case.input_numbers[0]) and holds_everywhere(case.local_slope, np.isinf)
        ),
    ),
)


# Logarithms.


def _is_log_of_zero(case: FaultCase) -> bool:
    """Return whether the argument of the logarithm is 0, or so small that the slope is infinite."""
    return is_zero(case.input_numbers[0]) or _has_infinite_slope_above_zero(case)


def _has_infinite_slope_above_zero(case: FaultCase) -> bool:
    """Return whether the slope of a logarithm is beyond the largest number although its argument is not 0."""
    return not case.is_forward and _is_positive(case.input_numbers[0]) and _has_no_logarithm(case)


def _has_no_logarithm(case: FaultCase) -> bool:
    """Return whether the logarithm is undefined, or its slope beyond the largest number."""
    return case.is_forward or not holds_everywhere(case.local_slope, np.isfinite)


def _product_factors(case: FaultCase) -> Any:
    """Return the factors of the product whose logarithm was taken."""
    return case.term.source_terms[0].operands[0].number


def _sign_and_logdet(case: FaultCase) -> tuple[Any, Any]:
    """Return the sign and the log of the absolute value of the determinant whose logarithm was taken."""
    matrix = np.asarray(_product_factors(case))
    return np.linalg.slogdet(matrix) if matrix.dtype.kind == "f" else (np.nan, np.nan)


def _product_underflowed(case: FaultCase) -> bool:
    """Return whether a product of positive numbers underflowed to 0."""
    return _is_log_of_zero(case) and holds_everywhere(_product_factors(case), lambda x: x > 0)


def _list_log_remedies(name: str) -> tuple[Remedy, ...]:
    """Return the remedies for a logarithm to any base."""
    return (
        Remedy(
            "take the sum of the logarithms, not the logarithm of the product", of=("prod",), when=_product_underflowed
        ),
        Remedy(
            "take np.cumsum of the logarithms, not the logarithm of np.cumprod",
            of=("cumprod",),
            when=_product_underflowed,
        ),
        Remedy(
            f"the argument is so small that the slope is infinite: np.{name}(np.maximum(x, tiny))",
            when=_has_infinite_slope_above_zero,
            general=True,
        ),
        Remedy(
            f"guard the argument: np.{name}(np.maximum(x, tiny)), or np.where(x > 0, np.{name}(x), 0.0)",
            when=_has_no_logarithm,
            general=True,
        ),
        Remedy(
            "keep the argument from 0: np.where(x == 0, 1.0, x)",
            when=lambda case: case.is_complex and is_zero(case.input_numbers[0]),
            complex=True,
            general=True,
        ),
    )


LOG2_REMEDIES = _list_log_remedies("log2")
LOG10_REMEDIES = _list_log_remedies("log10")
LOG_REMEDIES = (
    Remedy(
        "use wg.log_softmax(x), which never takes the logarithm of a probability", of=("softmax",), when=_is_log_of_zero
    ),
    Remedy(
        "use wg.log_softmax(x), which divides before it overflows or underflows",
        when=lambda case: _is_log_of_zero(case) and softmax_weights(case.term.source_terms[0]) is not None,
    ),
    Remedy("use wg.logsumexp(x), which neither overflows nor underflows", of=("sum", "exp"), when=_is_log_of_zero),
    Remedy(
        "use np.logaddexp(a, b), which neither overflows nor underflows",
        when=lambda case: _is_log_of_zero(case) and adds_exponentials(case.term.source_terms[0]),
    ),
    Remedy("log(sigmoid(x)) is -wg.softplus(-x), which is exact on both sides", of=("sigmoid",), when=_is_log_of_zero),
    Remedy(
        "log(1 - sigmoid(x)) is -wg.softplus(x), which is exact on both sides",
        when=lambda case: _is_log_of_zero(case) and is_one_minus(case.term.source_terms[0], "sigmoid"),
    ),
    Remedy(
        "use np.linalg.slogdet(a)[1], which neither overflows nor underflows",
        of=("det",),
        when=lambda case: _is_log_of_zero(case) and holds_everywhere(_sign_and_logdet(case)[1], np.isfinite),
    ),
    Remedy(
        "the matrix is singular: add a little to its diagonal, np.linalg.slogdet(a + eps * np.eye(n))[1]",
        of=("det",),
        when=lambda case: (
            _is_log_of_zero(case) and not holds_everywhere(_sign_and_logdet(case)[0], lambda sign: sign != 0)
        ),
    ),
    Remedy(
        "the determinant is negative: np.linalg.slogdet(a) gives its sign and the logarithm of its size",
        of=("det",),
        when=lambda case: is_below(case.input_numbers[0], 0),
    ),
    Remedy(
        "write np.log1p(-np.minimum(p, 1 - eps)) for log(1 - p), which keeps p below 1",
        when=lambda case: _has_no_logarithm(case) and is_one_minus(case.term.source_terms[0]),
    ),
    *_list_log_remedies("log"),
)
LOG1P_REMEDIES = (
    Remedy(
        "keep the argument above -1: np.log1p(np.maximum(x, -1 + eps))",
        when=lambda case: not holds_everywhere(case.input_numbers[0], lambda x: x > -1),
    ),
)


# Exponentials.


def _when_read_as(is_kind: Callable[[FormulaTerm, FormulaTerm], object]) -> FaultCondition:
    """Return the condition that an exponential overflowed and one of its readers passes a test."""

    def holds_for(case: FaultCase) -> bool:
        return has_overflowed(case) and any(bool(is_kind(reader, case.term)) for reader in case.term.find_readers())

    return holds_for


def _goes_to_log(term: FormulaTerm) -> bool:
    return any(reader.name == "log" for reader in term.find_readers())


def _becomes_sigmoid(reader: FormulaTerm, e: FormulaTerm) -> bool:
    """Return whether a reader of e is part of a sigmoid: 1 / (1 + e), or e / (1 + e)."""
    if reader.name == "divide":
        return reader.reads_term(0, e) and is_one_plus(reader.source_terms[1], e)
    if not is_one_plus(reader, e):
        return False
    return any(
        is_inverse(above, reader) or (above.name == "divide" and above.reads_term(0, e))
        for above in reader.find_readers()
    )


def _find_softmax_quotients(reader: FormulaTerm, e: FormulaTerm) -> list[FormulaTerm]:
    """Return the quotients e / sum(e), given a reader of e: the quotient itself, or the sum."""
    quotients = reader.find_readers() if reader.name == "sum" else [reader]
    shares = []
    for quotient in quotients:
        weights = softmax_weights(quotient)
        if weights is not None and is_same_term(weights, e):
            shares.append(quotient)
    return shares


EXPM1_REMEDIES = (
    Remedy(
        "keep the argument below 709 (88 in float32): np.minimum(x, bound), or work with logarithms",
        when=has_overflowed,
    ),
    RESULT_TOO_LARGE,
)
EXP2_REMEDIES = (
    Remedy(
        "keep the argument below 1024 (128 in float32): np.minimum(x, bound), or work with logarithms",
        when=has_overflowed,
    ),
    RESULT_TOO_LARGE,
)
EXP_REMEDIES = (
    Remedy(
        "use wg.log_softmax(x), which takes the largest out first",
        when=_when_read_as(lambda reader, e: any(map(_goes_to_log, _find_softmax_quotients(reader, e)))),
    ),
    Remedy(
        "use wg.softmax(x), or subtract x.max() first: exp of what is left is at most 1",
        when=_when_read_as(_find_softmax_quotients),
    ),
    Remedy("use wg.logsumexp(x), which takes the largest out first", to=("sum", "log"), when=has_overflowed),
    Remedy(
        "use wg.softplus(x) for log(1 + exp(x))",
        when=_when_read_as(
            lambda reader, e: reader.name == "log1p" or (is_one_plus(reader, e) and _goes_to_log(reader))
        ),
    ),
    Remedy(
        "use np.logaddexp(a, b), which takes the larger out first",
        when=_when_read_as(lambda reader, e: adds_exponentials(reader) and _goes_to_log(reader)),
    ),
    Remedy(
        "write wg.sigmoid(x) for 1 / (1 + exp(-x)) and exp(x) / (1 + exp(x)): it does not overflow",
        when=_when_read_as(_becomes_sigmoid),
    ),
    *EXPM1_REMEDIES,
)


HYPERBOLIC_REMEDIES = (
    Remedy(
        "use np.tanh(x) for the quotient of sinh and cosh: it does not overflow",
        when=_when_read_as(lambda reader, _: is_tanh(reader)),
    ),
    RESULT_TOO_LARGE,
)


# Quotients.


def _divides_by_zero(case: FaultCase) -> bool:
    return case.is_forward and is_zero(case.input_numbers[-1])


def _when_divisor(is_kind: Callable[[FormulaTerm], bool]) -> FaultCondition:
    """Return the condition that the divisor is 0 and passes a test."""

    def holds_for(case: FaultCase) -> bool:
        return _divides_by_zero(case) and is_kind(case.term.source_terms[-1])

    return holds_for


def _is_deviation(term: FormulaTerm) -> bool:
    under = radicand_of(term)
    return under is not None and is_variance(under)


def _is_length(term: FormulaTerm) -> bool:
    under = radicand_of(term)
    return term.name == "hypot" or (under is not None and sums_squares(under))


def _is_too_small(case: FaultCase) -> bool:
    """Return whether a quotient or its slope is beyond the largest number, though the divisor is not 0."""
    small = holds_everywhere(case.input_numbers[-1], lambda d: (np.abs(d) > 0) & (np.abs(d) < 1))
    return small and has_finite_inputs(case) and (case.is_forward or holds_everywhere(case.local_slope, np.isinf))


def _counts_nothing(case: FaultCase) -> bool:
    """Return whether the divisor counts the elements of a mask, and there are none."""
    count = case.term.source_terms[-1]
    if not _divides_by_zero(case) or count.name not in ("sum", "count_nonzero"):
        return False
    mask = count.source_terms[0]
    is_mask = holds_everywhere(mask.number, lambda x: (x == 0) | (x == 1))
    return count.name == "count_nonzero" or (is_mask and (_has_integer_dtype(mask) or _weighs_by_mask(case, count)))


def _has_integer_dtype(term: FormulaTerm) -> bool:
    return np.asarray(term.number).dtype.kind in "biu"


def _weighs_by_mask(case: FaultCase, count: FormulaTerm) -> bool:
    """Return whether the dividend is a sum of products with the same mask."""
    total = case.term.source_terms[0]
    if total.name == "sum" and total.source_terms[0].name == "multiply":
        return any(is_same_term(factor, count.source_terms[0]) for factor in total.source_terms[0].source_terms)
    return False


def _is_slope_of_angle(case: FaultCase) -> bool:
    return has_finite_inputs(case) and (is_zero(case.input_numbers[-1]) or _is_too_small(case))


RECIPROCAL_REMEDIES = (
    Remedy("for an angle use np.arctan2(y, x), which has slopes at x = 0 too", to=("arctan",), when=_is_slope_of_angle),
    Remedy("nothing varies: add an eps to the divisor, x / (np.std(x) + eps)", when=_when_divisor(_is_deviation)),
    Remedy(
        "the length is 0: divide by np.maximum(np.linalg.norm(x), eps), or np.maximum(np.hypot(a, b), eps)",
        when=_when_divisor(_is_length),
    ),
    Remedy(
        "keep the divisor from 0: x / np.where(d == 0, 1.0, d), or np.maximum(d, eps) where it is never negative",
        when=_divides_by_zero,
    ),
    Remedy(
        "the divisor is too small: np.maximum(d, eps) where it is never negative, scale both, or work with logarithms",
        when=_is_too_small,
    ),
    Remedy(
        "keep the divisor from 0: np.where(d == 0, 1.0, d)",
        when=lambda case: case.is_complex and _divides_by_zero(case),
        complex=True,
    ),
)
QUOTIENT_REMEDIES = (
    Remedy(
        "use wg.softmax(x), which divides before it overflows or underflows",
        when=lambda case: _divides_by_zero(case) and softmax_weights(case.term) is not None,
    ),
    Remedy(
        "the count is 0: divide by np.maximum(count, 1), or leave out what is empty with np.where",
        when=_counts_nothing,
    ),
    *RECIPROCAL_REMEDIES,
    INFINITIES_MET,
)
REMAINDER_REMEDIES = (Remedy("keep the divisor from 0: np.where(d == 0, 1.0, d)", when=_divides_by_zero),)


def _takes_log_below(case: FaultCase, bound: float) -> bool:
    return not holds_everywhere(case.input_numbers[1], lambda b: b > bound)


TIMES_LOG_REMEDIES = (
    Remedy("keep the second argument above 0: np.maximum(y, eps)", when=lambda case: _takes_log_below(case, 0.0)),
)
TIMES_LOG1P_REMEDIES = (
    Remedy(
        "keep the second argument above -1: np.maximum(y, -1 + eps)", when=lambda case: _takes_log_below(case, -1.0)
    ),
)


# Gamma, beta and Bessel functions.


def _has_no_positive(case: FaultCase) -> bool:
    return any(not holds_everywhere(numbers, lambda x: x > 0) for numbers in case.input_numbers)


POSITIVE_REMEDIES = (Remedy("keep the arguments above 0: np.maximum(x, eps)", when=_has_no_positive),)
GAMMA_REMEDIES = (*POSITIVE_REMEDIES, Remedy("use gammaln(x), which does not overflow", when=has_overflowed))
BESSEL_REMEDIES = (Remedy("use ive(n, x), which does not overflow: exp(-abs(x)) times this", when=has_overflowed),)
BETA_REMEDIES = (
    Remedy(
        "keep the last argument between 0 and 1: np.clip(x, 0, 1)",
        when=lambda case: not holds_everywhere(case.input_numbers[-1], lambda x: (x >= 0) & (x <= 1)),
    ),
    *POSITIVE_REMEDIES,
)


# Angles.


def _reaches_edge(case: FaultCase) -> bool:
    return not holds_everywhere(case.input_numbers[0], lambda x: np.abs(x) < 1)


ARC_ANGLE_REMEDIES = (
    MASKED_LATER,
    Remedy(
        "keep the argument inside (-1, 1): np.clip(x, -1 + eps, 1 - eps); np.arctan2 has a slope everywhere",
        when=_reaches_edge,
    ),
)
ARCCOSH_REMEDIES = (
    MASKED_LATER,
    Remedy(
        "keep the argument above 1: np.arccosh(np.maximum(x, 1 + eps))",
        when=lambda case: not holds_everywhere(case.input_numbers[0], lambda x: x > 1),
    ),
)


def list_interval_remedies(op: Op) -> tuple[Remedy, ...]:
    """Return the remedy for an op whose domain is an interval, written from its bounds.

    >>> [remedy.advice for remedy in list_interval_remedies(TABLE["arctanh"])]
    ['keep the argument inside (-1, 1): np.clip(x, -1 + eps, 1 - eps)']
    """
    domain = getattr(op, "domain", None)
    assert isinstance(domain, Interval), f"{op.name} has no interval as its domain"
    low = domain.low
    high = domain.high

    def is_outside(case: FaultCase) -> bool:
        return not holds_everywhere(case.input_numbers[0], lambda x: (x > low) & (x < high))

    return (Remedy(_write_interval_advice(low, high), when=is_outside),)


def _write_interval_advice(low: float, high: float) -> str:
    """Write how to keep an argument inside an interval.

    >>> _write_interval_advice(0.0, np.inf)
    'keep the argument above 0: np.maximum(x, eps)'
    """
    above = f"{low:g} + eps" if low else "eps"
    below = f"{high:g} - eps" if high else "-eps"
    if np.isinf(high):
        return f"keep the argument above {low:g}: np.maximum(x, {above})"
    if np.isinf(low):
        return f"keep the argument below {high:g}: np.minimum(x, {below})"
    return f"keep the argument inside ({low:g}, {high:g}): np.clip(x, {above}, {below})"


# Whole rows and matrices.


def _has_empty_row(case: FaultCase) -> bool:
    x = np.asarray(case.input_numbers[0])
    axes = case.fault.op.options["axes"]
    return case.is_forward and bool(np.any(np.all(x == -np.inf, axis=axes)))


SOFTMAX_REMEDIES = (
    Remedy(
        "a whole row is -inf, so nothing is left to choose from: mask with -1e9, or leave such rows out",
        when=_has_empty_row,
    ),
)
LOG_SOFTMAX_REMEDIES = (*SOFTMAX_REMEDIES, RESULT_TOO_LARGE)


def _is_singular(case: FaultCase) -> bool:
    """Return whether the input matrix has, up to rounding, less than full rank."""
    matrix = np.asarray(case.input_numbers[0])
    try:
        return has_finite_inputs(case) and bool(np.any(np.linalg.matrix_rank(matrix) < matrix.shape[-1]))
    except np.linalg.LinAlgError:
        return False


INVERSE_REMEDIES = (
    Remedy(
        "the matrix is singular: add a little to its diagonal, a + eps * np.eye(n)", when=_is_singular, complex=True
    ),
)
DETERMINANT_REMEDIES = (
    Remedy("use np.linalg.slogdet(a), which neither overflows nor underflows", when=has_overflowed, complex=True),
)


def _has_backward_ties(case: FaultCase) -> bool:
    """Return whether finite matrices have given a backward pass vectors that equal values do not determine."""
    return not case.is_forward and has_finite_inputs(case)


EIGENVECTOR_REMEDIES = (
    Remedy(
        "the matrix has equal eigenvalues, whose eigenvectors may be any of a plane: for a function of the matrix, "
        "v @ np.diag(f(w)) @ v.T, write scipy.linalg.expm, logm, sqrtm or fractional_matrix_power(a, p); for "
        "eigenvalues alone, np.linalg.eigvalsh(a)",
        when=_has_backward_ties,
        complex=True,
    ),
)
SINGULAR_VECTOR_REMEDIES = (
    Remedy(
        "the matrix has equal singular values, whose vectors may be any of a plane: write a, or np.linalg.pinv(a), "
        "for the matrix that the parts are put together to; for the orthogonal factor, u @ vt, write "
        "a @ np.linalg.inv(scipy.linalg.sqrtm(a.T @ a)); for singular values alone, np.linalg.svd(a, compute_uv=False)",
        when=_has_backward_ties,
        complex=True,
    ),
)
SQUARE_REMEDIES = (RESULT_TOO_LARGE,)

REMEDIES: Mapping[Advice, tuple[Remedy, ...] | Callable[[Op], tuple[Remedy, ...]]] = {
    Advice.SUM: SUM_REMEDIES,
    Advice.PRODUCT: PRODUCT_REMEDIES,
    Advice.MANY_FACTORS: MANY_FACTORS_REMEDIES,
    Advice.MATRIX_PRODUCT: MATRIX_PRODUCT_REMEDIES,
    Advice.SQUARE: SQUARE_REMEDIES,
    Advice.ROOT: ROOT_REMEDIES,
    Advice.CUBE_ROOT: CUBE_ROOT_REMEDIES,
    Advice.POWER: POWER_REMEDIES,
    Advice.LOG: LOG_REMEDIES,
    Advice.LOG2: LOG2_REMEDIES,
    Advice.LOG10: LOG10_REMEDIES,
    Advice.LOG1P: LOG1P_REMEDIES,
    Advice.TIMES_LOG: TIMES_LOG_REMEDIES,
    Advice.TIMES_LOG1P: TIMES_LOG1P_REMEDIES,
    Advice.EXP: EXP_REMEDIES,
    Advice.EXP2: EXP2_REMEDIES,
    Advice.EXPM1: EXPM1_REMEDIES,
    Advice.HYPERBOLIC: HYPERBOLIC_REMEDIES,
    Advice.QUOTIENT: QUOTIENT_REMEDIES,
    Advice.RECIPROCAL: RECIPROCAL_REMEDIES,
    Advice.REMAINDER: REMAINDER_REMEDIES,
    Advice.ARC_ANGLE: ARC_ANGLE_REMEDIES,
    Advice.INTERVAL: list_interval_remedies,
    Advice.POSITIVE: POSITIVE_REMEDIES,
    Advice.GAMMA: GAMMA_REMEDIES,
    Advice.BESSEL: BESSEL_REMEDIES,
    Advice.BETA: BETA_REMEDIES,
    Advice.ARCCOSH: ARCCOSH_REMEDIES,
    Advice.SOFTMAX: SOFTMAX_REMEDIES,
    Advice.LOG_SOFTMAX: LOG_SOFTMAX_REMEDIES,
    Advice.INVERSE: INVERSE_REMEDIES,
    Advice.DETERMINANT: DETERMINANT_REMEDIES,
    Advice.EIGENVECTORS: EIGENVECTOR_REMEDIES,
    Advice.SINGULAR_VECTORS: SINGULAR_VECTOR_REMEDIES,
}
"""The remedies that each kind of advice stands for, or a function that writes them for an op."""


def remedies_of(op: Op) -> tuple[Remedy, ...]:
    """Return the remedies for an op that breaks, the most specific first.

    >>> from wiregrad import ops
    >>> len(remedies_of(ops.log)) > 5, remedies_of(ops.tanh)
    (True, ())
    """
    if op.remedies is None:
        return ()
    remedies = REMEDIES[op.remedies]
    return remedies(op) if callable(remedies) else remedies


def find_advice(node: int, around: Surroundings, fault: Fault, *, general: bool = True) -> str:
    """Return the best advice for a fault, or an empty string; `general=False` leaves out general remedies.

    >>> from wiregrad import ops
    >>> from wiregrad.ops.advice import forward_fault
    >>> around = Surroundings(lambda node: ops.log, lambda node: [(-1, 0.0)], lambda node: [])
    >>> find_advice(0, around, forward_fault(ops.log, [np.float64(0.0)], np.float64(-np.inf)))
    'guard the argument: np.log(np.maximum(x, tiny)), or np.where(x > 0, np.log(x), 0.0)'
    """
    case = FaultCase(FormulaTerm(around, node), fault)
    with np.errstate(all="ignore"):
        candidates = [remedy for remedy in (*remedies_of(fault.op), *GENERAL_REMEDIES) if general or not remedy.general]
        return next((remedy.advice for remedy in candidates if remedy.applies_to(case)), "")
