"""The receipt: the distance of every language from the interpreter, op by op and for the whole circuit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wiregrad.dtypes import count_with_noun
from wiregrad.inspect.receipt.judge import MAX_ROUNDING_RATIO, MAX_OP_ULPS
from wiregrad.inspect.report import Report, format_capped_list, join_with_and

_CANCELLATION_TEXT = "all languages are within its own rounding error, which is more than a few ulp"
MAX_TABLE_ROWS = 40
"""Maximum number of rows in each table of a receipt."""


@dataclass(frozen=True)
class LanguageRun:
    """A language with the version of its tool, or why it did not run."""

    name: str
    version: str = ""
    missing: str = ""
    """Why the whole circuit did not run in it, and what to do; empty if it ran."""


@dataclass(frozen=True)
class OpDifference:
    """An op alone: the largest distance of its value and its slopes from the interpreter, by language, in ulp."""

    op: str
    text: str
    value: Mapping[str, float]
    slopes: Mapping[str, float]
    fits: bool = True
    """Whether each value is within a few ulp, and each slope too unless rounding explains more."""

    @property
    def cancels(self) -> bool:
        """Whether a slope is far off because its rule cancels, which every language rounds differently."""
        return self.fits and max(self.slopes.values(), default=0.0) > MAX_OP_ULPS


@dataclass(frozen=True)
class ResultDifference:
    """A result of the whole circuit: its largest differences by language, in ulp and over its rounding estimate."""

    result: str
    ulps: Mapping[str, float]
    ratios: Mapping[str, float]
    fits: Mapping[str, bool]
    """Whether rounding explains all differences."""
    shaken: int = 0
    """Number of points at which only perturbed runs of the interpreter explain a difference."""


class WorstDifference(NamedTuple):
    """The largest difference of all: the result, the language and the distance in ulp."""

    what: str
    language: str
    ulps: float


@dataclass(frozen=True, repr=False)
class Receipt(Report):
    """How far the listings of a circuit are from the interpreter, language by language."""

    circuit: str
    points: int
    seed: int
    languages: tuple[LanguageRun, ...]
    ops: tuple[OpDifference, ...]
    results: tuple[ResultDifference, ...]
    problems: tuple[str, ...] = ()
    """Failures other than differences: listings that did not run."""
    refused: int = 0
    """Number of points left out because the circuit cannot be run there."""
    not_tried: int = 0
    """Number of uses of ops that were not tried alone, to save time."""

    @property
    def ok(self) -> bool:
        """Whether the circuit ran somewhere, every op is within a few ulp, and rounding explains all differences."""
        fits = all(all(result.fits.values()) for result in self.results)
        return self.ran and fits and all(op.fits for op in self.ops) and not self.problems

    @property
    def ran(self) -> bool:
        """Whether the whole circuit ran in some language."""
        return any(result.ulps for result in self.results)

    @property
    def worst(self) -> WorstDifference | None:
        """The largest difference of an op alone in ulp, or of the whole circuit if no op was tried alone."""
        alone = [WorstDifference(op.text, *pair) for op in self.ops for part in (op.value, op.slopes) for pair in part.items()]
        whole = [WorstDifference(result.result, *pair) for result in self.results for pair in result.ulps.items()]
        return max(alone or whole, key=lambda one: one.ulps, default=None)

    def lines(self) -> Iterator[str]:
        """Return what ran, the differences as tables, and the verdict."""
        ran = [one for one in self.languages if not one.missing]
        yield f"{self.circuit} at {count_with_noun(self.points, 'point')} (seed {self.seed}), against the interpreter"
        if self.refused:
            yield f"  left out: {count_with_noun(self.refused, 'point')} at which the circuit cannot be run"
        yield from (f"  {one.name}: {one.version}" for one in ran)
        yield from (f"  {one.name} did not run: {one.missing}" for one in self.languages if one.missing)
        if self.ops:
            yield "largest difference of each op alone, in ulp: value, slopes"
            yield from _format_table(self._language_columns(), [_op_row(op, self._language_columns()) for op in self.ops])
        if self.not_tried:
            yield f"  {count_with_noun(self.not_tried, 'more use')} of ops not tried alone"
        if self.results:
            yield "largest difference of the whole circuit: in ulp, over its own rounding estimate"
            yield from _format_table(self._language_columns(), [_result_row(one, self._language_columns()) for one in self.results])
        yield from self._verdict_lines()

    def _language_columns(self) -> list[str]:
        seen = [*(op.value for op in self.ops), *(result.ulps for result in self.results)]
        return [one.name for one in self.languages if any(one.name in row for row in seen)]

    def _verdict_lines(self) -> Iterator[str]:
        yield from (f"wrong: {problem}" for problem in self.problems)
        yield from format_capped_list([f"the slope of {op.text} cancels: {_CANCELLATION_TEXT}" for op in self.ops if op.cancels], 8)
        shaken = sum(result.shaken for result in self.results)
        if shaken:
            yield (
                f"{count_with_noun(shaken, 'difference')} occurred where the circuit amplifies the last place: "
                f"there the interpreter moves as much when its ops are perturbed by {MAX_OP_ULPS:g} ulp"
            )
        far = [op.text for op in self.ops if not op.fits]
        off = [result.result for result in self.results if not all(result.fits.values())]
        ran = [one.name for one in self.languages if not one.missing]
        if self.ok and ran:
            agree = f"{join_with_and(ran)} agree{'' if len(ran) > 1 else 's'}"
            yield f"ok: {agree} with the interpreter to within rounding"
        if not self.ran:
            yield "not ok: no language here could run the whole circuit"
        if far:
            yield f"not ok: {join_with_and(far[:8])} further off than allowed"
        if off:
            yield f"not ok: {join_with_and(off[:8])} further off than {MAX_ROUNDING_RATIO:g} times the rounding estimate"


def _op_row(op: OpDifference, columns: Sequence[str]) -> list[str]:
    cells = [f"{op.value[name]:.3g}, {op.slopes[name]:.3g}" if name in op.value else "-" for name in columns]
    return [op.text, *cells]


def _result_row(result: ResultDifference, columns: Sequence[str]) -> list[str]:
    cells = [f"{result.ulps[name]:.3g}, {result.ratios[name]:.2g}" if name in result.ulps else "-" for name in columns]
    return [result.result, *cells]


def _format_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Format a table with columns as wide as their widest cell."""
    shown = [["", *columns], *rows[:MAX_TABLE_ROWS]]
    widths = [max(len(row[k]) for row in shown) for k in range(len(shown[0]))]
    for row in shown:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    if len(rows) > MAX_TABLE_ROWS:
        yield f"  and {len(rows) - MAX_TABLE_ROWS:,} more"
