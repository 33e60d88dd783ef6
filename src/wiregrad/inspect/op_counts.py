"""How many operations the code of a circuit has: additions, multiplications, divisions, functions, by kind.

What is counted is the code in C that `to_c` writes, element by element: ops are written out as the arithmetic that they
are made of, and loops of fixed length count once per turn. Both arms of a choice count, since which one is computed
depends on the numbers; so do the products with constants that a compiler may leave out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from wiregrad.codegen import c_and_cuda, listing
from wiregrad.codegen.element_statements import (
    ArrayOpLowering,
    LoopCall,
    LoopStatement,
    MatrixCall,
    OrderStep,
)
from wiregrad.codegen.language import ListingWriter
from wiregrad.dtypes import count_with_noun
from wiregrad.frontends.transforms import loop_ops
from wiregrad.inspect.report import Report
from wiregrad.ir import TABLE, CircuitGraph
from wiregrad.ops.c_expressions import (
    COMPARISON_SIGNS,
    LOGIC_SIGNS,
    BinaryExpression,
    CallExpression,
    ChoiceExpression,
    PrefixExpression,
    ScalarExpression,
    inline_ops,
    walk_expression,
)

SIMPLE_FUNCTIONS = frozenset("fabs floor ceil trunc rint fmod copysign".split())
"""Functions of math.h that are about as fast as an addition."""
KIND_OF_SIGN = {"+": "additions", "-": "additions", "*": "multiplications", "/": "divisions"}


@dataclass(frozen=True, repr=False)
class OpCounts(Report):
    """The number of operations in the code of a circuit, by kind."""

    additions: int
    """Subtractions too."""
    multiplications: int
    divisions: int
    square_roots: int
    transcendental: int
    """Calls of exp, sin, pow and the like; `functions` has them by name."""
    comparisons: int
    """Comparisons, choices, and conditions joined by and, or, not."""
    other: int
    """Changes of sign, absolute values and roundings to whole numbers."""
    functions: tuple[tuple[str, int], ...]
    """The functions that are called, with counts: those of math.h, and functions of matrices, which count as nothing
    else."""

    @property
    def total(self) -> int:
        """All operations together; a function of matrices counts as one."""
        matrix_calls = sum(count for name, count in self.functions if " " in name)
        numbers = (self.additions, self.multiplications, self.divisions, self.square_roots, self.transcendental)
        return sum(numbers) + self.comparisons + self.other + matrix_calls

    def lines(self) -> Iterator[str]:
        """Return the total, a line for the kinds that occur, and one for the functions."""
        yield count_with_noun(self.total, "operation")
        kinds = {
            "addition": self.additions,
            "multiplication": self.multiplications,
            "division": self.divisions,
            "square root": self.square_roots,
            "transcendental function": self.transcendental,
            "comparison": self.comparisons,
            "other operation": self.other,
        }
        counts = [count_with_noun(count, noun) for noun, count in kinds.items() if count]
        if counts:
            yield f"  {', '.join(counts)}"
        if self.functions:
            yield f"  functions: {', '.join(f'{name} {count:,}' for name, count in self.functions)}"


def count_ops(
    circuit: CircuitGraph, function: str = "value_and_grad", *, wanted: Collection[int] | None = None
) -> OpCounts:
    """Count the operations in the C code of a circuit; `function` is that of `to_c`, `wanted` of `write_listing`.

    >>> import wiregrad as wg
    >>> count_ops(wg.circuit("y = sin(a) * b + a / b"), "value")
    4 operations
      1 addition, 1 multiplication, 1 division, 1 transcendental function
      functions: sin 1
    """
    return summarize_counts(count_kinds(circuit.unchecked(), function, wanted))


def summarize_counts(counts: Counter[str]) -> OpCounts:
    """Return counts by the names of fields and functions as a report."""
    fields = ("additions", "multiplications", "divisions", "comparisons", "other")
    functions = [(name, count) for name, count in counts.items() if name not in fields]
    simple = sum(counts[name] for name in SIMPLE_FUNCTIONS)
    matrix = sum(count for name, count in functions if " " in name)
    roots = counts["sqrt"]
    return OpCounts(
        additions=counts["additions"],
        multiplications=counts["multiplications"],
        divisions=counts["divisions"],
        square_roots=roots,
        transcendental=sum(count for _, count in functions) - simple - matrix - roots,
        comparisons=counts["comparisons"],
        other=counts["other"] + simple,
        functions=tuple(sorted(functions, key=lambda pair: (-pair[1], pair[0]))),
    )


def count_kinds(circuit: CircuitGraph, function: str, wanted: Collection[int] | None = None) -> Counter[str]:
    """Return the number of operations by kind, and of calls by the name of the function."""
    lines = listing.build_listing(circuit, function, has_integers=False, wanted=wanted)
    language = c_and_cuda.C_LANGUAGES[c_and_cuda.choose_real(lines, None, arrays=True)]
    if not c_and_cuda.has_arrays(lines):
        counts = Counter[str]()
        for line in lines.all_lines():
            counts.update(_count_form(line.form))
        return counts
    writer = ListingWriter(language, lines, "counted")
    lowering = ArrayOpLowering(lines, writer.names)
    for line in lines.all_lines():
        lowering.lower_line(line)
    counts = Counter[str]()
    for step in lowering.steps:
        counts.update(_count_step(step))
    return counts


def _count_step(step: Any) -> Counter[str]:
    match step:
        case LoopStatement():
            return _multiply(_count_form(step.form), _count_rounds(step))
        case OrderStep():
            rows, count, beside = step.lengths
            compared = count - 1 if step.first else count * (count - 1) // 2
            return _multiply(_count_form(step.before), rows * beside * compared)
        case MatrixCall():
            shapes = [view.kind.shape for view in step.operands]
            sizes = " ".join("x".join(map(str, shape[-2:])) for shape in shapes)
            count = 1
            for length in shapes[0][:-2]:
                count *= length
            return Counter({f"{step.op.name} {sizes}": count})
        case LoopCall():
            return _count_loop(step)
    return Counter()


def _count_rounds(step: LoopStatement) -> int:
    if step.nest is None:
        return len(step.at)
    rounds = 1
    for length in step.nest.lengths:
        rounds *= length
    return rounds


def _count_loop(step: LoopCall) -> Counter[str]:
    """Count the bodies of a loop or a branch: a scan's once per step, those of others once."""
    plan = step.op.options["loop"]
    turns = plan.length or 1 if isinstance(plan, loop_ops.ScanPlan) else 1
    counts = Counter[str]()
    for body in plan.circuits:
        counts.update(_multiply(count_kinds(body, "value"), turns))
    return counts


@lru_cache(maxsize=10_000)
def _count_form(form: listing.Form) -> Counter[str]:
    if not isinstance(form, listing.OpForm):
        return Counter()
    return count_expression(inline_ops(listing.lower_to_c(form), _read_op_text))


def _read_op_text(name: str) -> tuple[tuple[str, ...], str]:
    op = listing.require_scalar_text(TABLE[name])
    return op.inputs, op.c


def count_expression(tree: ScalarExpression) -> Counter[str]:
    """Return the number of operations of an expression by kind, and of calls by the name of the function.

    >>> from wiregrad.ops.c_expressions import parse_c_text
    >>> dict(count_expression(parse_c_text("{x} > 0.0 ? sqrt({x}) + 1.0 : -{x}")))
    {'comparisons': 2, 'additions': 1, 'sqrt': 1, 'other': 1}
    """
    counts = Counter[str]()
    for part in walk_expression(tree):
        match part:
            case BinaryExpression() if part.sign in COMPARISON_SIGNS or part.sign in LOGIC_SIGNS:
                counts["comparisons"] += 1
            case BinaryExpression():
                counts[KIND_OF_SIGN[part.sign]] += 1
            case ChoiceExpression():
                counts["comparisons"] += 1
            case PrefixExpression():
                counts["comparisons" if part.sign == "!" else "other"] += 1
            case CallExpression() if part.name != listing.CONDITION_TO_NUMBER:
                counts[part.name] += 1
    return counts


def _multiply(counts: Counter[str], times: int) -> Counter[str]:
    return Counter({name: count * times for name, count in counts.items()})
