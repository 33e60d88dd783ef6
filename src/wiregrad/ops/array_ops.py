"""Kinds of ops on arrays, element by element or on whole arrays, and what their records contain.

An `Elementwise` op has one local slope per input, from which both modes of differentiation follow. A `Kink` is a set of
points where an op has no single slope; it says which slope each convention takes there.

Ops on whole arrays work on trailing axes: axes are counted from the end, and shapes are those of the last few axes. So
any number of axes may stand in front, and a batch runs through the same op with the same settings. There are three
kinds of rule:

- `LinearOp` is linear in each input by itself and has a transpose; tangents are pushed by the op itself;
- `Reduction` reduces axes to one number and has a slope, from which both modes follow;
- `General` has one rule for each mode.

A record also says how the op is written in NumPy, for listings. The shapes in a listing are fixed, so its axes are
counted from the front, as people write them.

The output type of an array op is what NumPy returns for stand-in arrays. A circuit read from a file can be a few
characters long and ask for more memory than any machine has (`put_add` into a shape of its own, a column times a row),
and a user's own circuit may hold arrays too large to allocate twice. So the size of an op's output is bounded first, by
shapes and settings alone (`check_size`), and large operands are replaced where that does not change the result: by
arrays that take no memory, or by small ones (`infer_from_small`).
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, reduce
from itertools import product
from math import prod
from typing import Any, TypeAlias

import numpy as np

from wiregrad.dtypes import BOOL, MAX_AXES, WIRE_DTYPES, WireType
from wiregrad.errors import DomainError, NoRuleError, RecordError
from wiregrad.ir import TABLE, Advice, GraphBuilder, Op, Pattern, Port
from wiregrad.ir.columns import MAX_LITERAL_SLOTS, Convention, decode_mode, encode_mode
from wiregrad.lazy import NamedTuple
from wiregrad.ops.gradient_flow import (
    LazyMask,
    MaskedFlow,
    add_flows,
    conjugate_flow,
    fill_absent,
    fill_for_sum,
    has_nan,
    is_nowhere,
    is_wire,
    match_shape,
    multiply_flows,
    only,
    read_mask,
    shape_of,
)

__all__ = [
    "ArrayOp",
    "ArrayRule",
    "Blocking",
    "Elementwise",
    "General",
    "Interval",
    "Kink",
    "LinearOp",
    "Reduction",
    "axes_from_end",
    "axes_from_front",
    "axis_from_end",
    "conjugate_flow",
    "convert_axes",
    "define_helper",
    "definite_samples",
    "fold_with",
    "keep_shape",
    "normal_samples",
    "reduce_shape",
    "require_axis",
    "undo_reduction",
    "write_numpy_call",
    "write_setting",
]

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
    side: Callable[..., Any] | None = None
    """What tells one side of a jump from the other; the sign of `at` if left out."""
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
            dtype = _infer_number_dtype(self, tuple([kind.dtype for kind in types]))
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
def _infer_number_dtype(op: Elementwise, dtypes: tuple[np.dtype[Any], ...]) -> np.dtype[Any]:
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


ArrayRule = Callable[..., Any]
OpSamples: TypeAlias = "Callable[[np.random.Generator], Sequence[tuple[Any, ...]]]"

_NUMPY_REFUSALS = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""What NumPy and the records' own functions raise for types and settings they do not accept."""


def define_helper(text: str, *needs: str) -> Callable[..., Any]:
    """Return the function that a text defines, as a listing would define it; it is compiled at its first call."""

    @cache
    def compile_helper() -> Callable[..., Any]:
        namespace: dict[str, Any] = {"np": np}
        exec("\n".join([*needs, text]), namespace)
        function: Callable[..., Any] = namespace[text[4 : text.index("(")]]
        return function

    def run_helper(*xs: Any) -> Any:
        return compile_helper()(*xs)

    return run_helper


def normal_samples(*cases: tuple[Any, ...], shift: float = 0.0) -> OpSamples:
    """Return a sampler of normal arrays of these shapes; `shift` is added to the diagonal of square ones."""

    def draw_item(rng: np.random.Generator, item: Any) -> Any:
        if isinstance(item, list):
            return [draw_item(rng, shape) for shape in item]
        if not isinstance(item, tuple):
            return item
        x = rng.normal(size=item)
        return x + shift * np.eye(item[-1]) if shift and item[-2:-1] == item[-1:] else x

    return lambda rng: [tuple(draw_item(rng, item) for item in case) for case in cases]


def definite_samples(*cases: tuple[Any, ...]) -> OpSamples:
    """Return a sampler of symmetric positive definite matrices with distinct eigenvalues."""

    def draw_matrix(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        q = np.linalg.qr(rng.normal(size=shape))[0]
        x = (q * (np.arange(shape[-1]) + 1.0)) @ np.swapaxes(q, -1, -2)
        return (x + np.swapaxes(x, -1, -2)) / 2

    return lambda rng: [(draw_matrix(rng, shape), settings) for shape, settings in cases]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ArrayOp(Op):
    """An op on whole arrays."""

    samples: OpSamples | None = None
    """Makes the points where it is checked: tuples of the inputs and, last, a dict of settings."""
    batches: bool = True
    """Whether batch axes may stand in front of those the settings name; if not, a batch is run in a loop."""

    output_shape: Callable[..., tuple[int, ...] | None] | None = None
    """The shape of the output, `(*shapes, **settings)`; None where NumPy refuses the shapes or has to be asked. Views
    and ops with the settings `axes` and `keepdims` need no rule. Without one, NumPy is asked with stand-in arrays."""

    can_fail: bool = False
    """Whether there are numbers for which it raises an error, unless its setting `strict` is false."""

    gap: ArrayRule | None = None
    """Distance of elements from a tie that would change which one is picked, `(x, y, **settings)` on arrays."""

    numpy: str | Callable[..., str] = ""
    """The op in NumPy: the name of a function of the inputs and settings, an expression with the input names in braces,
    or a function that writes one, `(*operands, types, **settings)`. Empty if `forward` is a NumPy function."""

    numpy_needs: tuple[str, ...] = ()
    """Source of the helper functions that the NumPy text calls; they use nothing but NumPy."""

    by_elements: Callable[..., Any] | None = None
    """The op on arrays of wires, written in scalar ops; needed if `forward` does not accept such arrays."""

    step: ArrayRule | None = None
    """One step, on numbers, of an op that runs along axes: `(result so far, *elements)`. An op with `axes` starts with
    the neutral element of the step, an op with `axis` with the first element of its last input."""

    before: ArrayRule | None = None
    """For an op that returns indices: whether element `a` comes before `b`, as a condition on numbers."""

    composite: ArrayRule | None = None
    """The op written in other ops, for languages without arrays."""

    c_function: Callable[..., str] | None = None
    """Writes the body of a C function that computes the op of one matrix, `(*shapes, **settings)`. It reads the arrays
    that the inputs are called, writes to `y`, and returns 1, with NaN in `y`, where the op raises; else it returns 0.
    `real` is the type of numbers; functions of math.h have their names for doubles."""

    @property
    def may_raise(self) -> bool:
        """Whether it depends on the numbers that it is given whether it raises an error."""
        return self.per_call or (self.can_fail and bool(self.options.get("strict", True)))

    def missing_parts(self) -> list[str]:
        """Return what the record lacks and how to add it; an op whose settings belong to one call needs a doc alone."""
        missing = super().missing_parts()
        if not self.per_call and self.samples is None and self.pattern is not Pattern.BLOCK:
            missing.append("no samples: add samples=, a function of a random generator that returns points to check")
        if not self.per_call and not (self.numpy or _public_name(self.forward)):
            missing.append("no numpy: add numpy=, the op as NumPy source, because forward is not a NumPy function")
        return missing

    @property
    def can_expand(self) -> bool:
        """Whether the op can be written element by element."""
        return self.by_elements is not None

    def expand_elements(self, *xs: Any) -> Any:
        """Return the op applied to arrays of wires."""
        return (self.by_elements or self.forward)(*xs, **self.options)

    def infer(self, types: tuple[WireType, ...]) -> WireType:
        """Return the type that NumPy returns for stand-in arrays of these types."""
        try:
            check_settings(self.options)
            kind = _infer_on_stand_ins(self, types)
        except _NUMPY_REFUSALS as error:
            raise DomainError(f"{self.name} cannot take {', '.join(map(str, types))}: {error}") from None
        if kind.dtype not in WIRE_DTYPES:
            inputs = ", ".join(map(str, types))
            raise DomainError(f"{self.name} returns {kind.dtype} for {inputs}, which wires do not support")
        return kind

    def numpy_text(self, types: tuple[WireType, ...]) -> str:
        """Return the op as a NumPy expression; operands are {0}, {1} and so on, other braces are doubled.

        An operand may be replaced by a name, or by something else that binds as tightly.

        >>> TABLE["sum"].bind({"axes": (-1,), "keepdims": False}).numpy_text((WireType(np.dtype(float), (2, 3)),))
        'np.sum({0}, axis=1)'
        """
        operands = [f"{{{slot}}}" for slot in range(len(types))]
        text = self.numpy or _public_name(self.forward)
        if not text:
            raise NoRuleError(
                f"{self.title} cannot be written in NumPy: its record has no `numpy` text, and its forward is not a "
                "NumPy function"
            )
        if callable(text):
            return text(*operands, types=types, **self.options)
        if "{" in text:
            settings = {name: write_setting(value) for name, value in self.settings}
            return text.format(**dict(zip(self.inputs, operands, strict=True)), **settings)
        return write_numpy_call(text, *operands, ndim=len(types[0].shape), **self.options)

    def numpy_helpers(self, types: tuple[WireType, ...]) -> dict[str, str]:
        """Return the source of the helpers that the text for these types calls, by function name.

        >>> list(TABLE["solve"].bind({"strict": False}).numpy_helpers((WireType(np.dtype(float), (2, 2)),) * 2))
        ['or_nan']
        """
        called = _find_words(self.numpy_text(types))
        needed = dict[str, str]()
        # A helper is listed after the helpers that it calls.
        for definition in reversed(self.numpy_needs):
            name = definition[4 : definition.index("(")]
            if name in called:
                called |= _find_words(definition)
                needed = {name: definition, **needed}
        return needed


@lru_cache(maxsize=1 << 14)
def _infer_on_stand_ins(op: ArrayOp, types: tuple[WireType, ...]) -> WireType:
    """Infer an op's output type from arrays that stand in for its inputs: hollow, small, or as they are.

    Circuits repeat the same ops on the same types, so the answers are kept.
    """
    with np.errstate(all="ignore"):
        kind = infer_from_small(op, types, _stand_in)
        if kind is None:
            check_size(op, types)
            y = np.asarray(op.compute(*map(_stand_in, types)))
            kind = WireType(y.dtype, y.shape)
    return kind


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class LinearOp(ArrayOp):
    """Linear in each input by itself. `transpose(g, slot, *xs, **settings)` sends `g` back; None blocks the input."""

    transpose: ArrayRule
    moves: bool = False
    """Whether it only moves, copies or adds up elements, so that masks can be moved the same way."""
    partial: bool = False
    """Whether it may leave out elements of its input, whose gradient is then absent, not 0."""
    scatters: bool = False
    """Whether its output may have elements that come from no element of its input: their tangent is absent, not 0."""

    @property
    def can_expand(self) -> bool:
        """Whether the op can be written element by element: NumPy moves and adds wires as it does numbers."""
        return True

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the transpose applied to the upstream gradient."""
        if not self.partial and type(g) is np.ndarray and g.shape == shape_of(y):
            # By far the most common case.
            return self.transpose(g, slot, *xs, **self.options)
        g = match_shape(g, y)
        sent = self.transpose(fill_for_sum(g), slot, *xs, **self.options)
        if sent is None or not self.moves or not (self.partial or type(g) is MaskedFlow):
            return sent
        if type(g) is not MaskedFlow:
            shape = shape_of(y)
            g = MaskedFlow(LazyMask(lambda: np.broadcast_to(np.True_, shape)), g)

        def send_back(flow: Any) -> Any:
            return self.transpose(flow, slot, *xs, **self.options)

        if not g.is_array or any(map(is_wire, xs)):
            # The transpose may read inputs that are wires: then so is the mask.
            is_permuted = not self.partial and len(xs) == 1 and prod(shape_of(xs[0])) == prod(shape_of(y))
            return _mask_sent(_move_mask(send_back, g.mask, is_permuted), sent, g)
        if not shape_of(sent):
            # The mask of a number is decided at once; what is absent counted as 0, so another number is present.
            if not is_wire(sent) and sent != 0.0:
                return sent
            return only(_as_mask(send_back(g.mask))[()], sent)
        # What was absent counted as 0.0 or -0.0, and so does a sum of that.
        return MaskedFlow(LazyMask(lambda mask: _as_mask(send_back(mask)), g.held_mask), sent, zeroed=True)

    def push(self, tangents: Sequence[Any], xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the sum of the op applied to each tangent in its input's place."""
        if self.variadic:
            # It is linear in all inputs together: an input without a tangent counts as 0.
            return self._push_flows(tangents, xs, self)
        return reduce(add_flows, [self._push_input(k, t, xs) for k, t in enumerate(tangents) if t is not None], None)

    def _push_input(self, slot: int, t: Any, xs: Sequence[Any]) -> Any:
        def apply_to(flow: Any) -> Any:
            return self(*xs[:slot], flow, *xs[slot + 1 :])

        others = [*xs[:slot], *xs[slot + 1 :]]
        return self._push_flows([t], xs[slot : slot + 1], apply_to, known=not any(map(is_wire, others)))

    def _push_flows(
        self, tangents: Sequence[Any], xs: Sequence[Any], apply_to: Callable[..., Any], *, known: bool = True
    ) -> Any:
        """Return what the op makes of tangents; it is absent where no element of them arrives.

        `known` says that the op moves elements to places that are known, and not read from a wire.
        """
        flows = [None if t is None else match_shape(t, x) for t, x in zip(tangents, xs, strict=True)]
        filled = [
            np.zeros(shape_of(x), x.dtype) if t is None else fill_absent(t) for t, x in zip(flows, xs, strict=True)
        ]
        value = apply_to(*filled)
        is_whole = all(t is not None and type(t) is not MaskedFlow for t in flows)
        if not self.moves or (is_whole and not self.scatters):
            return value
        masks = [_held_mask(t, x) for t, x in zip(flows, xs, strict=True)]

        def move_masks(*masks: Any) -> Any:
            return TABLE["not_equal"](apply_to(*map(_mask_to_number, masks)), 0.0)

        if not known or any(map(is_wire, masks)) or not shape_of(value):
            return only(move_masks(*map(read_mask, masks)), value)
        # What is absent counted as 0.0 or -0.0, and so does a sum of that.
        return MaskedFlow(LazyMask(move_masks, *masks), value, zeroed=True)

    def local(self, slot: int, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return None: the derivative of an array with respect to an array is not a single number."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Reduction(ArrayOp):
    """Reduces `axes` to one number. `slope(x, y, **settings)` has the shape of `x`; `y` is spread to that shape."""

    slope: ArrayRule

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the slope times the upstream gradient, spread along the axes."""
        (x,) = xs
        return multiply_flows(
            self._spread_back(match_shape(g, y), x),
            conjugate_flow(self.slope(x, self._spread_back(y, x), **self.options)),
        )

    def push(self, tangents: Sequence[Any], xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the sum of slope times tangent along the axes."""
        (x,) = xs
        (t,) = tangents
        moved = fill_absent(multiply_flows(match_shape(t, x), self.slope(x, self._spread_back(y, x), **self.options)))
        return TABLE["sum"](match_shape(moved, x), **self.options)

    def _spread_back(self, flow: Any, x: Any) -> Any:
        if type(flow) is MaskedFlow:
            return MaskedFlow(self._spread_back(flow.mask, x), self._spread_back(flow.value, x))
        return undo_reduction(flow, shape_of(x), self.options["axes"], self.options["keepdims"])

    def local(self, slot: int, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return None: the derivative with respect to an array is not a single number."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class General(ArrayOp):
    """An op with a rule for each mode: `back(slot, g, xs, y, **settings)` and `ahead(slot, t, xs, y, **settings)`."""

    back: ArrayRule
    ahead: ArrayRule

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return what the backward rule sends back."""
        return self.back(slot, fill_for_sum(match_shape(g, y)), xs, y, **self.options)

    def push(self, tangents: Sequence[Any], xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the sum of what the forward rule returns for each tangent."""
        moved = [
            self.ahead(k, fill_absent(match_shape(t, xs[k])), xs, y, **self.options)
            for k, t in enumerate(tangents)
            if t is not None
        ]
        return reduce(add_flows, moved, None)

    def local(self, slot: int, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return None: the derivative of an array with respect to an array is not a single number."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Blocking(ArrayOp):
    """An op whose output changes in steps: no gradient flows through it."""

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return None: nothing is sent back."""
        return None

    def push(self, tangents: Sequence[Any], xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return None: the output has no tangent."""
        return None


def fold_with(op: str) -> ArrayRule:
    """Return a function that reduces arrays of wires with a binary op, one element after the other."""

    def fold_axes(x: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
        other_axes = [axis for axis in range(-x.ndim, 0) if axis not in axes]
        in_front = np.moveaxis(x, other_axes, range(len(other_axes)))
        rows = in_front.reshape(*in_front.shape[: len(other_axes)], -1)
        y = np.empty(rows.shape[:-1], object)
        for index in np.ndindex(y.shape):
            y[index] = reduce(TABLE[op], rows[index])
        shape = tuple(1 if axis in axes else x.shape[axis] for axis in range(-x.ndim, 0))
        return y.reshape(shape) if keepdims else y

    return fold_axes


@lru_cache(maxsize=1024)
def _shape_with_ones(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape with length 1 along axes."""
    return tuple([1 if k - len(shape) in axes else n for k, n in enumerate(shape)])


def undo_reduction(flow: Any, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> Any:
    """Spread the result of a reduction along axes back to the shape of its input."""
    if len(axes) == len(shape) and isinstance(flow, float | np.generic):
        # The same number everywhere: a flow may lack the axes along which it is constant.
        return flow
    reduced_shape = _shape_with_ones(shape, axes)
    if not keepdims and axes:
        flow = TABLE["reshape"](flow, rank=len(shape_of(flow)), shape=reduced_shape)
    return flow if reduced_shape == shape else TABLE["spread"](flow, rank=len(reduced_shape), shape=shape)


def _held_mask(flow: Any, x: Any) -> Any:
    """Return where the flow of a wire is present: nowhere, everywhere, or as its mask says."""
    return flow.held_mask if type(flow) is MaskedFlow else np.full(shape_of(x), flow is not None)


def _mask_to_number(mask: Any) -> Any:
    return TABLE["where"](mask, 1.0, 0.0)


def _mask_sent(mask: Any, sent: Any, g: MaskedFlow) -> Any:
    """Return what a transpose sends of a masked flow, whose absent elements counted as zeros."""
    if issubclass(type(mask), bool | np.generic):
        return only(mask, sent)
    # They counted as 0.0, and so does a sum of them; a flow that is not filled may hold -0.0.
    return MaskedFlow(mask, sent, zeroed=True, filled=g.is_filled)


def _move_mask(move: Callable[[Any], Any], mask: Any, is_permuted: bool) -> Any:
    """Return a mask that is moved as a gradient is; one whose elements are only permuted stays a condition."""
    if is_permuted:
        moved = move(mask)
        if getattr(moved, "dtype", None) == np.bool_:
            return moved
    return TABLE["greater"](move(_mask_to_number(mask)), 0.0)


def _as_mask(counts: Any) -> Any:
    """Return where counts are positive; a sum of conditions may be a condition already."""
    return counts if counts.dtype == np.bool_ else np.greater(counts, 0)


def _stand_in(kind: WireType) -> Any:
    """Return an array of a type with elements that every op on this type accepts."""
    if kind.dtype.kind in "iu":
        # Integers are indices, and index 0 exists on every axis.
        return np.zeros(kind.shape, kind.dtype)
    array = np.ones(kind.shape, kind.dtype)
    if kind.differentiable and len(kind.shape) > 1:
        # A matrix of ones is singular; with 2 on the diagonal it is positive definite.
        array += np.eye(*kind.shape[-2:], dtype=kind.dtype)
    return array


def _find_words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def _public_name(function: Callable[..., Any]) -> str:
    """Return the public name of a NumPy function; empty for other functions."""
    name = getattr(function, "__name__", "")
    homes = {"np": np, "np.linalg": np.linalg}
    return next((f"{home}.{name}" for home, module in homes.items() if getattr(module, name, None) is function), "")


def write_setting(value: Any) -> str:
    """Write a setting as NumPy source, with braces doubled.

    >>> write_setting((2, 3)), write_setting("L"), write_setting(-np.inf)
    ('(2, 3)', "'L'", '-np.inf')
    """
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            return "np.nan"
        return "np.inf" if value > 0 else "-np.inf"
    return repr(value).replace("{", "{{").replace("}", "}}")


def axes_from_front(axes: tuple[int, ...], ndim: int) -> Any:
    """Return axes counted from the front, in NumPy's form: None for all axes, an integer for one.

    >>> axes_from_front((-2, -1), 2), axes_from_front((-1,), 3), axes_from_front((-3, -1), 3)
    (None, 2, (0, 2))
    """
    from_start = tuple(axis % ndim for axis in axes)
    if len(from_start) == ndim:
        return None
    return from_start[0] if len(from_start) == 1 else from_start


def write_numpy_call(function: str, *operands: str, ndim: int, **settings: Any) -> str:
    """Write a call; an axis setting that means all axes is left out, and so are None and False, the usual defaults.

    >>> write_numpy_call("np.max", "x", ndim=2, axes=(-2,), keepdims=True)
    'np.max(x, axis=0, keepdims=True)'
    >>> write_numpy_call("np.any", "x", ndim=1, axes=(-1,))
    'np.any(x)'
    """
    named = dict(settings)
    if "axes" in named:
        named = {"axis": axes_from_front(named.pop("axes"), ndim), **named}
    elif "axis" in named:
        named["axis"] %= ndim
    keywords = [
        f"{name}={write_setting(value)}" for name, value in named.items() if value is not None and value is not False
    ]
    return f"{function}({', '.join([*operands, *keywords])})"


_ALL_AXES = [tuple(range(-ndim, 0)) for ndim in range(65)]
"""All axes counted from the end, by the number of axes; NumPy allows 64."""


def require_axis(axis: Any) -> int:
    """Return the number of an axis; most functions of NumPy refuse bools, and all refuse numbers that are not whole.

    >>> require_axis(np.int64(1))
    1
    """
    try:
        if not isinstance(axis, bool | np.bool_):
            return operator.index(axis)
    except TypeError:
        pass
    raise TypeError(f"an axis is a whole number; got {axis!r}")


def axis_from_end(axis: Any, ndim: int) -> int:
    """Return an axis counted from the end.

    >>> axis_from_end(0, 3), axis_from_end(-1, 3)
    (-3, -1)
    """
    if type(axis) is int and -ndim <= axis < ndim:
        return axis if axis < 0 else axis - ndim
    return int(np.lib.array_utils.normalize_axis_index(require_axis(axis), ndim)) - ndim


def convert_axes(axes: Any) -> Any:
    """Return a list or array of axes as a tuple, for functions of NumPy that take one; anything else unchanged.

    >>> convert_axes([0, 1]), convert_axes(0)
    ((0, 1), 0)
    """
    return tuple(axes) if isinstance(axes, list | np.ndarray) and np.ndim(axes) else axes


def axes_from_end(axes: Any, ndim: int) -> tuple[int, ...]:
    """Return axes (None for all, one, or several) counted from the end, in ascending order.

    >>> axes_from_end((0, -1), 3), axes_from_end(None, 2)
    ((-3, -1), (-2, -1))
    """
    if axes is None:
        return _ALL_AXES[ndim]
    if isinstance(axes, list):
        raise TypeError(f"an axis is a whole number, and several axes are a tuple; write {tuple(axes)}, not {axes}")
    if not isinstance(axes, tuple):
        return (axis_from_end(axes, ndim),)
    normal = [axis_from_end(axis, ndim) for axis in axes]
    if len(set(normal)) != len(normal):
        raise ValueError("duplicate value in 'axis'")
    return tuple(sorted(normal))


Shape = tuple[int, ...]

SMALL_SIZE = 256
"""Operands with no more elements than this are not worth replacing."""
LARGE_SIZE = 1_000_000
"""Operands with more elements than this are never made."""
MAX_SIZE = 10_000_000
"""Maximum number of elements that stand-ins or their result may have."""
LARGE_WORK = 10**7
"""Operands of matrix ops are replaced above this number of steps."""
MAX_WORK = 5 * 10**8
"""Maximum number of steps of a matrix op on stand-ins."""
WORK_PER_MATRIX = 10_000
"""Steps that one matrix costs in addition to those for its elements."""
_SHORT_LENGTHS = (5, 13, 29, 61), (7, 19, 41, 83)
"""Two choices of short lengths to stand in for long ones; each is more than twice the one before, plus one."""
_AXIS_SETTINGS = {"axis", "axes"}
"""Settings that choose axes."""
WIRE_DTYPE_NAMES = frozenset(dtype.name for dtype in WIRE_DTYPES)
_LENGTH_SETTINGS = {"index", "rank", "shape", "size", "length"}
"""Settings that depend on the lengths of axes."""


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise if a setting alone would make NumPy or Python allocate something large."""
    if settings.get("dtype", "bool") not in WIRE_DTYPE_NAMES:
        raise TypeError("wires do not support this dtype")
    if not 0 <= settings.get("rank", 0) <= MAX_AXES:
        raise ValueError(f"an array has 0 to {MAX_AXES} axes")


def check_size(op: Op, types: Sequence[WireType]) -> None:
    """Raise if inferring a type from stand-ins would take too much memory or work."""
    shapes = [kind.shape for kind in types]
    if _is_view(shapes, op.options):
        return
    if (
        max(sum(map(prod, shapes)), bound_output_size(shapes, op.options)) > MAX_SIZE
        or _estimate_work(shapes, op.options) > MAX_WORK
    ):
        raise ValueError("arrays of this size are too large to infer a type from")


def infer_from_small(op: ArrayOp, types: Sequence[WireType], stand_in: Callable[[WireType], Any]) -> WireType | None:
    """Infer an op's output type from shapes, hollow or small arrays; None if not possible or not needed."""
    shapes = [kind.shape for kind in types]
    if any(0 in shape for shape in shapes):
        return None
    size = sum(map(prod, shapes))
    is_large = size > LARGE_SIZE or _estimate_work(shapes, op.options) > LARGE_WORK
    if size <= SMALL_SIZE and not is_large:
        return None
    if op.is_view or _is_view(shapes, op.options):
        y = np.asarray(op.compute(*map(hollow_stand_in, types)))
        return WireType(y.dtype, y.shape)
    kind = _infer_by_rule(op, types)
    return _infer_from_shortened(op, types, stand_in) if kind is None and is_large else kind


def _infer_by_rule(op: ArrayOp, types: Sequence[WireType]) -> WireType | None:
    """Infer an op's output type from the shapes alone, by the rule of its record; None if there is none."""
    rule = op.output_shape
    if rule is None and op.options.keys() == {"axes", "keepdims"}:
        rule = reduce_shape
    shape = None if rule is None else rule(*(kind.shape for kind in types), **op.options)
    if shape is None:
        return None
    if _LENGTH_SETTINGS & {*op.options}:
        dtype = types[0].dtype
    else:
        dtype = _infer_array_dtype(op, tuple([(kind.dtype, len(kind.shape)) for kind in types]))
    # A file of a few characters may ask for more memory than there is: `check_size` refuses that.
    return WireType(dtype, shape) if prod(shape) <= MAX_SIZE else None


@lru_cache(maxsize=4096)
def _infer_array_dtype(op: ArrayOp, kinds: tuple[tuple[np.dtype[Any], int], ...]) -> np.dtype[Any]:
    """Return the dtype that an op returns for arrays of these dtypes and numbers of axes."""
    return np.asarray(op.compute(*(_stand_in(WireType(dtype, (1,) * ndim)) for dtype, ndim in kinds))).dtype


def keep_shape(x: Shape, **_: Any) -> Shape:
    """Return the output shape of an op that keeps the shape of its input."""
    return x


def reduce_shape(x: Shape, *, axes: tuple[int, ...], keepdims: bool) -> Shape | None:
    """Return the output shape of an op that reduces axes; None if an axis does not exist or comes twice.

    >>> reduce_shape((2, 3, 4), axes=(-2,), keepdims=False), reduce_shape((2, 3), axes=(-2, -1), keepdims=True)
    ((2, 4), (1, 1))
    """
    reduced = {axis % len(x) for axis in axes if -len(x) <= axis < len(x)}
    if len(reduced) < len(axes):
        return None
    if keepdims:
        return tuple([1 if k in reduced else n for k, n in enumerate(x)])
    return tuple([n for k, n in enumerate(x) if k not in reduced])


def _estimate_work(shapes: Sequence[Shape], settings: Mapping[str, Any]) -> int:
    """Estimate the number of steps of a matrix op; 0 for other ops, which take a few steps per element."""
    if len(shapes) > 2 or (_AXIS_SETTINGS | _LENGTH_SETTINGS) & {*settings}:
        return 0
    matrices = [shape for shape in shapes if len(shape) > 1]
    longest = max((n for shape in matrices for n in shape[-2:]), default=0)
    return sum(map(prod, shapes)) * longest + WORK_PER_MATRIX * max((prod(shape[:-2]) for shape in matrices), default=0)


def hollow_stand_in(kind: WireType) -> Any:
    """Return an array of a type that takes no memory: all its elements are one and the same.

    >>> hollow_stand_in(WireType(np.dtype(float), (10**6, 10**6))).strides
    (0, 0)
    """
    return np.broadcast_to(np.zeros((), kind.dtype), kind.shape)


def _is_view(shapes: Sequence[Shape], settings: Mapping[str, Any]) -> bool:
    """Return whether the settings belong to an op that returns a view of its input."""
    if settings.keys() == {"rank", "shape"}:
        # A view has at least as many elements as its input; an op that returns fewer adds them up.
        return bound_output_size(shapes, settings) >= prod(shapes[0])
    basic = all(item is None or type(item) in (int, tuple) for item in settings.get("index", ()))
    return "shape" not in settings and ("size" in settings or ("index" in settings and basic))


def _infer_from_shortened(op: Op, types: Sequence[WireType], stand_in: Callable[[WireType], Any]) -> WireType | None:
    """Infer the output type from small arrays; lengths that are equal, or differ by one, stay so when shortened.

    Each output axis of an op without length settings is as long as an input axis, or as two of them together. The op
    runs on two choices of short lengths; a length that both results agree on says how the long lengths combine.
    """
    lengths = sorted({n for kind in types for n in kind.shape if n > 1})
    if _LENGTH_SETTINGS & {*op.options} or len(lengths) > len(_SHORT_LENGTHS[0]):
        return None
    shapes = []
    choices = [_shorten_lengths(lengths, row) for row in _SHORT_LENGTHS]
    for short in choices:
        small = [WireType(kind.dtype, tuple([short[n] for n in kind.shape])) for kind in types]
        y = np.asarray(op.compute(*map(stand_in, small)))
        shapes.append(y.shape)
    if len(shapes[0]) != len(shapes[1]):
        return None
    known = _length_sums([(choices[0][n], choices[1][n], n) for n in lengths])
    candidates = [known.get(pair, ()) for pair in zip(*shapes, strict=True)]
    if any(len(each) != 1 for each in candidates):
        return None
    return WireType(y.dtype, tuple([each[0] for each in candidates]))


def _shorten_lengths(lengths: Sequence[int], row: Sequence[int]) -> dict[int, int]:
    """Map each long length to a short one in the same order; two lengths that differ by one still do."""
    short = {1: 1}
    rest = iter(row)
    for n in lengths:
        short[n] = short[n - 1] + 1 if n - 1 in short and n > 2 else next(rest)
    return short


def _length_sums(lengths: Sequence[tuple[int, int, int]]) -> dict[tuple[int, int], tuple[int, ...]]:
    """Map each pair of short lengths to the long lengths it may stand for: 0 to 2, plus a length or a sum of two."""
    terms = [(0, 0, 0), *lengths]
    sums: dict[tuple[int, int], set[int]] = {}
    for (a, b, long), (c, d, other), more in product(terms, terms, (0, 1, 2)):
        sums.setdefault((a + c + more, b + d + more), set()).add(long + other + more)
    return {pair: tuple(each) for pair, each in sums.items()}


def bound_output_size(shapes: Sequence[Shape], settings: Mapping[str, Any]) -> int:
    """Return an upper bound, up to a small factor, for the number of elements in an op's output.

    >>> bound_output_size([(5,)], {"index": (3, ("slice", None, None, None)), "shape": (10**6, 5)})
    5000000
    """
    if "shape" in settings:
        first = shapes[0][: max(0, len(shapes[0]) - _count_core_axes(shapes[0], settings))]
        return int(prod(first) * prod(settings["shape"]))
    if "length" in settings or ("axis" in settings and len(shapes) == 2):
        return _size_along_axis(shapes, settings)
    # A sum along an axis of length 0 returns zeros, as many as the other axes have.
    return _size_of_product(shapes) if len(shapes) == 2 else sum(prod(max(n, 1) for n in shape) for shape in shapes)


def _count_core_axes(shape: Shape, settings: Mapping[str, Any]) -> int:
    """Return how many of the input's last axes the `shape` setting replaces."""
    if "rank" in settings:
        return int(settings["rank"])
    if "size" in settings:
        if shape[len(shape) - len(settings["size"]) :] != settings["size"]:
            raise ValueError(f"windows of size {settings['size']} are not the last axes of {shape}")
        return 2 * len(settings["size"])
    return sum(item is None or isinstance(item, tuple) for item in settings.get("index", ()))


def _size_along_axis(shapes: Sequence[Shape], settings: Mapping[str, Any]) -> int:
    """Return the size of an array whose axis has the length of a setting, or that of the indices that pick along it."""
    x = shapes[0]
    indices = shapes[-1]
    axis = settings["axis"]
    if len(x) == len(indices):
        wide = [max(pair) for pair in zip(x, indices, strict=True)]
        wide[axis] = indices[axis]
    else:
        wide = list(x)
        wide[axis] = indices[-1] if indices else 1
    if "length" in settings:
        wide[axis] = max(settings["length"], 0)
    return prod(wide)


def _size_of_product(shapes: Sequence[Shape]) -> int:
    """Bound the size of what is computed from two matrices: the longest axis of each gives the rows and columns."""
    a, b = shapes
    if min(len(a), len(b)) < 2:
        return prod(a) + prod(b)
    lead = max(prod(a[:-2]), prod(b[:-2]))
    return lead * max(a[-2:], default=1) * max(b[-2:], default=1)
