"""Elementwise ops: one local slope per input, from which both modes of differentiation follow.

A `Kink` is a set of points where an op has no single slope; it says which slope each convention takes there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np

from wiregrad.dtypes import BOOL, WIRE_DTYPES, WireType
from wiregrad.errors import DomainError, RecordError
from wiregrad.ir import TABLE, Advice, GraphBuilder, Op, Pattern, Port
from wiregrad.ir.columns import MAX_LITERAL_SLOTS, Convention, decode_mode, encode_mode
from wiregrad.ops.gradient_flow import MaskedFlow, add_flows, conjugate_flow, has_nan, is_nowhere, multiply_flows, only

KinkSlope = float | Callable[..., Any] | None
"""A number, a rule `(*inputs, output) -> slope`, or None if the gradient is absent."""


@dataclass(frozen=True, kw_only=True)
class Kink:
    """One set of points where an op's slopes differ from side to side.

    `at` is written in wiregrad's ops and is 0 exactly on the kink. `slopes` are what the op's own rule returns there if
    every operand is a wire: together they are the minimum-norm subgradient. `alone` holds the slopes if the other
    operands are literals. At a `jump` the value itself steps; there all conventions agree.
    """

    doc: str
    at: Callable[..., Any]
    slopes: tuple[KinkSlope, ...]
    tied: tuple[int, ...] | None = None
    """Inputs that meet on the kink; None means all. Whether another input is a literal does not matter."""
    alone: tuple[KinkSlope, ...] | None = None
    torch: tuple[KinkSlope, ...] | None = None
    jax: tuple[KinkSlope, ...] | None = None
    jump: bool = False
    on: Callable[..., Any] | None = None
    """Condition that inputs are exactly on the kink, written in wiregrad's ops; `at` = 0 if left out."""

    def slope(self, slot: int, mode: int) -> KinkSlope:
        """Return the slope that a mode takes for an input on this kink."""
        convention, literal = decode_mode(mode)
        if convention is Convention.MIN_NORM:
            met = any(self.tied is None or k in self.tied for k in literal)
            chosen = self.alone if met else None
        else:
            chosen = self.torch if convention is Convention.TORCH else self.jax
        return (self.slopes if chosen is None else chosen)[slot]


class Interval(NamedTuple):
    """The domain of an op of one input: the numbers from `low` to `high`, both included.

    >>> unit = Interval(0.0, 1.0)
    >>> unit(0.5), unit(np.array([-1.0, 1.0])).tolist()
    (True, [False, True])
    """

    low: float = -math.inf
    high: float = math.inf

    def __call__(self, x: Any) -> Any:
        """Return whether numbers are in the interval, element by element."""
        return (x >= self.low) & (x <= self.high)


SlopeRule = Callable[..., Any]
SamplePoint = tuple[float | bool, ...]

SAMPLE_NUMBERS = (0.3, -0.7, 1.7, -1.3, 0.6, 2.4, -2.6, 0.9, -0.2, 3.2, 1.2, -3.7, 0.05, 4.8, 7.3, -5.9, 0.15, 2.1)
"""Numbers from which sample points are drawn for records without `samples`."""
ORDINARY_NUMBERS = np.array([0.0, 1.0, -1.0, -2.0, 1e3, *SAMPLE_NUMBERS])
"""Numbers at which an op without remedies must not break."""
MIN_SAMPLES = 10
"""Minimum number of sample points of a record."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Elementwise(Op):
    """An op that works element by element.

    `partials` has one rule per input, `(*inputs, output) -> slope`, written in wiregrad's ops; None blocks the input.
    A rule that selects returns `only(mask, slope)`: the gradient of what it blocks is absent, not 0.0.
    """

    by_element: bool = True
    partials: tuple[SlopeRule | None, ...]
    domain: Interval | Callable[..., Any] | None = None
    """Condition that the real function is defined, on numbers and arrays; None if it is defined everywhere."""
    samples: tuple[SamplePoint, ...] = ()
    """Points where value and derivatives are checked; drawn from a pool of numbers if left out."""
    takes_bool: tuple[str, ...] = ()
    """Inputs that are conditions."""
    on_large: Callable[..., Any] | None = None
    """A faster way than `forward` on large arrays, with the same result within rounding; returns None to decline."""
    beside_literals: tuple[SlopeRule | None, ...] = ()
    """For each input, its slope if all other inputs are literals, by the usual convention and if the output has no NaN:
    what its partial and the kinks give, in fewer steps. For arrays."""
    scipy: tuple[str, ...] = ()
    """The dotted names of the SciPy functions that it stands for, such as `scipy.special.expit`."""
    c: str = ""
    """The op on doubles: a C99 expression with the inputs in braces. It is parsed, and the text of every language is
    written from it."""
    library: str = ""
    """The optional package that computes the op; it then needs no `c`, and native code and listings refuse it."""
    python: str = ""
    """The op on Python floats, if Python has a shorter form than `c`; may raise where `c` returns inf or NaN."""
    exact: Callable[..., Any] | None = None
    """The op in exact arithmetic, `(mpmath, *inputs)`; not needed if mpmath or `forward` can compute it."""
    ulps: float = 4.0
    """Maximum error of value and slopes at the samples, in units in the last place."""
    because: str = ""
    """Why `ulps` is more than 4."""
    neutral: tuple[float | None, ...] = ()
    """For each input, the constant for which the op returns its other input unchanged, bit for bit."""
    selects: bool = False
    """Whether it returns its second input where the first is true, else the third."""
    copies: bool = False
    """Whether it returns its input unchanged."""
    involution: bool = False
    """Whether applying it twice returns the input."""
    of_complex: Callable[..., Any] | None = None
    """The op on complex numbers, written in other ops; for an op without a complex slope."""
    opaque: bool = False
    """Whether its rules are user code, which may read any input."""
    idempotent: bool = False
    """Whether applying it twice equals applying it once; for a logic op, whether op(a, a) is a."""

    def check_consistency(self) -> None:
        """Raise `RecordError` if the record contradicts itself."""
        super().check_consistency()
        lists = [self.partials, *(k.slopes for k in self.kinks), *([self.neutral] if self.neutral else [])]
        if any(len(entries) != len(self.inputs) for entries in lists):
            raise RecordError(f"op {self.name} needs one partial (and kink slope, and neutral) per input {self.inputs}")
        if self.ulps > 4.0 and not self.because:
            raise RecordError(f"op {self.name} allows {self.ulps} ulps; it must say why in `because`")
        if self.kinks and len(self.inputs) > MAX_LITERAL_SLOTS:
            raise RecordError(f"op {self.name} has kinks and more than {MAX_LITERAL_SLOTS} inputs")
        if self.pattern is Pattern.BLOCK and any(k for k in self.kinks if not k.jump):
            raise RecordError(f"op {self.name} blocks, so its kinks are jumps")
        if self.remedies is Advice.INTERVAL and not isinstance(self.domain, Interval):
            raise RecordError(f"op {self.name} has remedies=Advice.INTERVAL, so its domain must be an Interval")

    def missing_parts(self) -> list[str]:
        """Return what the record lacks and how to add it; an op that users define needs a doc alone."""
        if self.opaque or self.per_call:
            return super().missing_parts()
        return [*super().missing_parts(), *find_missing_parts(self)]

    def infer(self, types: tuple[WireType, ...]) -> WireType:
        """Return the dtype that NumPy returns; shapes must be equal, as broadcasting is a node of its own."""
        shapes = {kind.shape for kind in types}
        if len(shapes) > 1:
            raise DomainError(f"{self.name} needs wires of one shape; got {', '.join(map(str, types))}")
        try:
            dtype = _infer_dtype(self, tuple([kind.dtype for kind in types]))
        except TypeError:
            raise DomainError(f"{self.name} cannot take {', '.join(map(str, types))}") from None
        if self.of_complex is not None and any(kind.kind == "c" for kind, _ in types):
            raise DomainError(f"{self.name} cannot take {', '.join(map(str, types))}: write it with other ops")
        conditions = any(kind == BOOL.dtype for kind, _ in types)
        # NumPy's exp(True) is a float16, too coarse for a gradient, and nobody wants the slope of a condition.
        is_coarse = dtype == np.float16 and all(kind != np.float16 for kind, _ in types)
        is_slope = conditions and self.pattern is Pattern.SCALE and dtype.kind in "fc"
        if dtype not in WIRE_DTYPES or is_coarse or is_slope:
            inputs = ", ".join(map(str, types))
            raise DomainError(f"{self.name} cannot take {inputs}; make the condition a number first: (a > b) * 1")
        return WireType(dtype, shapes.pop())

    def default_mode(self, moves: Sequence[int], sources: Sequence[int]) -> int:
        """Return the mode that says which operands are literals, for an op with kinks."""
        if not self.kinks or len(sources) == 1:
            return 0
        return encode_mode(Convention.MIN_NORM, [slot for slot, source in enumerate(sources) if not moves[source]])

    def compute(self, *xs: object) -> Any:
        """Compute the output from the inputs, given as NumPy values."""
        if self.on_large is not None:
            y = self.on_large(*xs)
            if y is not None:
                return y
        return self.forward(*xs, **self.options) if self.settings else self.forward(*xs)

    @cached_property
    def kernel(self) -> Callable[..., Any]:
        """`compute`, or what NumPy has for it."""
        return self.compute if self.on_large is not None or self.settings else self.forward

    def local(self, slot: int, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the local derivative for an input; None where it is blocked."""
        rule = self.partials[slot]
        if rule is None:
            return None
        slope = rule(*xs, y)
        if mode:
            for kink, chosen in self._chosen_slopes(slot, mode):
                slope = _apply_convention(slope, kink, chosen, (*xs, y))
        return slope

    def _chosen_slopes(self, slot: int, mode: int) -> list[tuple[Kink, Any]]:
        """Return the kinks on which a mode chooses another slope than the rule gives, and that slope."""
        choices = self._known_choices.get((slot, mode))
        if choices is None:
            slopes = [(kink, kink.slope(slot, mode)) for kink in self.kinks]
            choices = [(kink, slope) for kink, slope in slopes if slope != kink.slopes[slot]]
            self._known_choices[slot, mode] = choices
        return choices

    @cached_property
    def _known_choices(self) -> dict[tuple[int, int], list[tuple[Kink, Any]]]:
        return {}

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the upstream gradient times the local derivative (its conjugate, where that is complex)."""
        rule = self.partials[slot]
        if mode:
            local = self._beside_literals(slot, xs, y, mode) or self.local(slot, xs, y, mode)
        else:
            local = None if rule is None else rule(*xs, y)
        # Shortcuts for plain numbers and arrays, by far the most common case.
        if type(g) is not MaskedFlow and type(local) is np.ndarray and local.dtype.kind == "f":
            return local if type(g) is float and g == 1.0 else g * local
        if type(local) is float:
            if local == 1.0:
                return g
            if type(g) is np.ndarray and g.dtype.kind == "f":
                return -g if local == -1.0 else g * local
        return multiply_flows(g, conjugate_flow(local))

    def _beside_literals(self, slot: int, xs: Sequence[Any], y: Any, mode: int) -> MaskedFlow | None:
        """Return the slope of the only input that is not a literal; None if it needs more care."""
        if not self.beside_literals or type(y) is not np.ndarray or mode != self._lone_modes[slot] or has_nan(y):
            return None
        rule = self.beside_literals[slot]
        return None if rule is None else rule(*xs)

    @cached_property
    def _lone_modes(self) -> tuple[int, ...]:
        """For each input, the mode under the usual convention in which all other inputs are literals."""
        slots = range(len(self.inputs))
        return tuple([encode_mode(Convention.MIN_NORM, [k for k in slots if k != slot]) for slot in slots])

    def reads(self, moving: tuple[bool, ...]) -> tuple[frozenset[int], bool]:
        """Return which inputs, and whether the output, the rules of the moving inputs read."""
        reads = self._known_reads.get(moving)
        if reads is None:
            reads = self._known_reads[moving] = _find_rule_reads(self, moving)
        return reads

    @cached_property
    def _known_reads(self) -> dict[tuple[bool, ...], tuple[frozenset[int], bool]]:
        return {}

    def push(self, tangents: Sequence[Any], xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the sum of local derivatives times tangents."""
        moving = [slot for slot, tangent in enumerate(tangents) if tangent is not None]
        return reduce(add_flows, [multiply_flows(tangents[k], self.local(k, xs, y, mode)) for k in moving], None)

    @property
    def is_analytic(self) -> bool:
        """Whether `forward` accepts complex numbers, so that a complex step can measure its slope."""
        smooth = self.pattern in (Pattern.DISTRIBUTE, Pattern.SWAP, Pattern.SCALE) and not self.kinks
        loops = self.forward.types if isinstance(self.forward, np.ufunc) else []
        return smooth and any(loop.endswith("D->D") for loop in loops)

    @cached_property
    def sample_points(self) -> tuple[SamplePoint, ...]:
        """The samples, or points drawn from a pool of numbers, inside the domain and away from the kinks."""
        return self.samples or tuple(itertools.islice(filter(self._is_regular, _draw_points(self)), 14))

    def _is_regular(self, point: SamplePoint) -> bool:
        xs = [np.float64(x) if type(x) is float else np.bool_(x) for x in point]
        with np.errstate(all="ignore"):
            inside = self.domain is None or bool(self.domain(*xs))
            return inside and all(abs(kink.at(*xs)) > 0.04 for kink in self.kinks)


@lru_cache(maxsize=4096)
def _infer_dtype(op: Elementwise, dtypes: tuple[np.dtype[Any], ...]) -> np.dtype[Any]:
    """Return the dtype that an op returns for numbers of these dtypes."""
    with np.errstate(all="ignore"):
        return np.asarray(op.forward(*(np.ones((), dtype) for dtype in dtypes))).dtype


def find_missing_parts(op: Elementwise) -> Iterator[str]:
    """Iterate over what a record lacks: a text, samples, remedies, or a domain and a forward that work on arrays."""
    if not op.c.strip() and not op.library:
        yield 'no c: add c=, the op on numbers as a C expression with the inputs in braces, such as "exp({x})"'
    elif op.c and not _uses_inputs_alone(op.c, op.inputs):
        yield f"c={op.c!r} must use every input and no other name in braces: {', '.join(op.inputs)}"
    with np.errstate(all="ignore"):
        yield from _find_domain_faults(op)
        if not op.library:
            # The forward of a library is not called before it is needed, because that would import the library.
            yield from _find_forward_faults(op)


def _uses_inputs_alone(text: str, inputs: Sequence[str]) -> bool:
    """Return whether a text has every input in braces, and nothing else."""
    counts = [text.count(f"{{{name}}}") for name in inputs]
    return all(counts) and sum(counts) == text.count("{") == text.count("}")


def _find_domain_faults(op: Elementwise) -> Iterator[str]:
    """Iterate over what is wrong with the samples and the domain of a record."""
    wanted = min(MIN_SAMPLES, 2 ** len(op.inputs)) if len(op.takes_bool) == len(op.inputs) else MIN_SAMPLES
    if any(len(point) != len(op.inputs) for point in op.samples):
        yield f"samples must have one number per input ({', '.join(op.inputs)})"
        return
    if op.samples and len({*op.samples}) < wanted:
        yield f"too few samples: {len({*op.samples})} different points; add {wanted} or more"
    if op.domain is None:
        return
    points = np.array(op.samples or [[number] * len(op.inputs) for number in SAMPLE_NUMBERS]).T
    try:
        inside = np.broadcast_to(op.domain(*points), len(points[0])).astype(bool)
    except (TypeError, ValueError) as error:
        yield f"domain fails on arrays ({error}): join comparisons with & and |, or write Interval(low, high)"
        return
    if op.samples and not inside.all():
        yield f"samples outside the domain: {op.samples[int(np.argmin(inside))]}"
    if not op.samples and len(op.inputs) == 1 and np.count_nonzero(inside) < MIN_SAMPLES:
        yield f"no samples: few of the usual points are in the domain, so add samples=, {wanted} points or more"


def _find_forward_faults(op: Elementwise) -> Iterator[str]:
    """Iterate over what is wrong with forward: it fails on arrays, or breaks at ordinary numbers without a remedy."""
    if isinstance(op.forward, np.ufunc) and op.remedies is not None:
        return
    points = [ORDINARY_NUMBERS > 0.0 if name in op.takes_bool else ORDINARY_NUMBERS for name in op.inputs]
    try:
        finite = np.isfinite(op.forward(*points))
    except (TypeError, ValueError) as error:
        yield f"forward fails on arrays ({error}): write it with NumPy functions"
        return
    if op.remedies is None and not finite.all():
        number = ORDINARY_NUMBERS[int(np.argmin(finite))]
        point = ", ".join(f"{name} = {number:g}" for name in op.inputs)
        yield (
            f"no remedies: it breaks at {point}, so add remedies=, a member of wiregrad.ops.Advice that "
            "says what to write instead; Advice.INTERVAL if the domain is an Interval"
        )


def _find_rule_reads(op: Elementwise, moving: tuple[bool, ...]) -> tuple[frozenset[int], bool]:
    """Return what the rules of moving inputs read, found by running them on the wires of a builder."""
    if op.kinks or op.opaque:
        # The position of a kink may depend on all inputs.
        return frozenset(range(len(op.inputs))), True
    builder = GraphBuilder(finite=False)
    ports = [builder.input(name) for name in (*op.inputs, "y")]
    flows = [op.local(slot, ports[:-1], ports[-1], 0) for slot, moves in enumerate(moving) if moves]
    parts = [
        part for flow in flows for part in (flow if type(flow) is MaskedFlow else (flow,)) if isinstance(part, Port)
    ]
    if not parts:
        return frozenset(), False
    labels = {f"part{k}": part for k, part in enumerate(parts)}
    circuit = builder.build(labels=labels)
    live = {int(k) for k in circuit.columns.outputs}
    for row in circuit.rows(backward=True):
        if row.node in live:
            live.update(row.sources)
    return frozenset(k for k in range(len(op.inputs)) if ports[k].index in live), ports[-1].index in live


def _draw_points(op: Elementwise) -> itertools.chain[SamplePoint]:
    size = len(SAMPLE_NUMBERS)
    arity = len(op.inputs)
    flags = [name in op.takes_bool for name in op.inputs]

    def point_at(start: int, stride: int) -> SamplePoint:
        numbers = [SAMPLE_NUMBERS[(start + stride * k) % size] for k in range(arity)]
        return tuple(x > 0 if flag else x for x, flag in zip(numbers, flags, strict=True))

    return itertools.chain.from_iterable(
        [point_at(start, stride) for start in range(size)] for stride in (5, 3, 1, 4, 6)
    )


def _apply_convention(slope: Any, kink: Kink, chosen: Any, operands: tuple[Any, ...]) -> Any:
    """Return the slope with the chosen one in place of it on the kink."""
    xs = operands[:-1]
    on_kink = TABLE["equal"](kink.at(*xs), 0.0) if kink.on is None else kink.on(*xs)
    if is_nowhere(on_kink):
        return slope
    if chosen is None:
        return multiply_flows(only(TABLE["logical_not"](on_kink), 1.0), slope)
    value = chosen(*operands) if callable(chosen) else chosen
    if slope is None:
        return only(on_kink, value)
    if type(slope) is MaskedFlow:
        return MaskedFlow(TABLE["logical_or"](slope.mask, on_kink), TABLE["where"](on_kink, value, slope.value))
    return TABLE["where"](on_kink, value, slope)
