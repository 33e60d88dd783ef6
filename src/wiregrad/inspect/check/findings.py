"""The report of a gradient check, and its findings wire by wire."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from wiregrad.dtypes import to_python_number
from wiregrad.inspect.check.elements import MAX_SAMPLED_ELEMENTS
from wiregrad.inspect.check.whole import LostGradient, EndToEndCheck, format_reason, format_number
from wiregrad.inspect.check.wire import WireOutcome
from wiregrad.inspect.report import Report
from wiregrad.ir import Place
from wiregrad.ir.circuit import count_without_commas


@dataclass(frozen=True, repr=False)
class CheckFinding(Report):
    """A finding on one wire: a wrong rule, a kink, or an undecided comparison."""

    verdict: str
    order: int
    op: str
    node: str
    input: str
    source: str
    place: Place | None
    group: str
    outcome: WireOutcome
    within: str = ""
    """The op whose rule contains the node, for the second order."""

    @property
    def identity(self) -> Any:
        """A key that is equal for duplicate findings."""
        return self.verdict, self.order, self.op, self.node, self.input, self.within

    @property
    def rule(self) -> Any:
        """The slope by the rule."""
        return to_python_number(self.outcome.rule)

    @property
    def numeric(self) -> Any:
        """The slope by differences."""
        return to_python_number(self.outcome.numeric)

    @property
    def index(self) -> tuple[int, ...] | None:
        """The index of the input element; None for a number, or if no element was singled out."""
        return self.outcome.index

    def lines(self) -> Iterator[str]:
        """Return the finding as a sentence."""
        outcome = self.outcome
        if outcome.raised:
            yield f"{self.op} is wrong{self._describe_wire()}: {outcome.reason}"
        elif self.verdict == "wrong":
            more = f"; {outcome.reason}" if outcome.reason else ""
            yield f"{self.op} is wrong{_wrong_mode_text(outcome)}: {self._describe_slope()}{self._describe_numbers()}{self._describe_extent()}{more}"
        elif self.verdict == "kink":
            near = "" if outcome.distance is None else f", distance {format_number(outcome.distance)}"
            yield f"{self.op}{self._describe_wire()} is on a kink{near}{format_reason(outcome.reason)}"
        else:
            yield f"{self.op}{self._describe_wire()} is undecided{format_reason(outcome.reason or self._describe_coarse())}"

    def _describe_slope(self) -> str:
        into = _format_element(self.input, self.outcome.index)
        if self.order > 1 and not self.within:
            return f"the derivative of its rule with respect to {into}{self._describe_wire()}: "
        return f"d {_format_element(self.node, self.outcome.output)} / d {into}{self._describe_wire()}: "

    def _describe_wire(self) -> str:
        inside = f" at input {self.input} of {self.node}" if self.input else f" at {self.node}"
        wire = f" at wire {self.source} -> {self.node}" if self.source else inside
        within = f", in the rule of {self.within}" if self.within and self.within != self.op else ""
        second = ", second order" if self.order > 1 else ""
        return f"{wire}{within}{second}" + ("" if self.place is None else f" ({self.place})")

    def _describe_numbers(self) -> str:
        outcome = self.outcome
        at = "" if outcome.at is None else f" at {self.input} = {format_number(outcome.at)}"
        direction = " along a direction" if outcome.at is None else ""
        return (
            f"the rule gives {format_number(outcome.rule)}, differences give {format_number(outcome.numeric)}"
            f"{direction} (error < {format_number(outcome.error, 1)}){at}"
        )

    def _describe_extent(self) -> str:
        outcome = self.outcome
        return f"; wrong at {outcome.count} of {outcome.total} elements" if outcome.count > 1 else ""

    def _describe_coarse(self) -> str:
        outcome = self.outcome
        return (
            f"the rule gives {format_number(outcome.rule)}, differences give {format_number(outcome.numeric)}, "
            f"but may be off by {format_number(outcome.error, 1)}"
        )


def _wrong_mode_text(outcome: WireOutcome) -> str:
    return f" in {outcome.modes[0]} mode" if len(outcome.modes) == 1 else ""


def _format_element(name: str, index: tuple[int, ...] | None) -> str:
    return name if index is None else f"{name}[{', '.join(map(str, index))}]"


@dataclass(frozen=True)
class CheckCount:
    """How much was checked."""

    nodes: int = 0
    wires: int = 0
    of_nodes: int = 0
    """Number of nodes that could be checked; more than `nodes` if they were sampled."""
    rules: int = 0
    """Number of rules checked as functions, for the second order."""
    sampled: int = 0
    """Number of wires on which only some elements were compared."""

    def __str__(self) -> str:
        sampled = f" (sampled of {self.of_nodes})" if self.of_nodes > self.nodes else ""
        some = f" ({self.sampled} by {MAX_SAMPLED_ELEMENTS} of their elements)" if self.sampled else ""
        second = f", {count_without_commas(self.rules, 'rule')} to second order" if self.rules else ""
        return f"{count_without_commas(self.nodes, 'node')}{sampled}, {count_without_commas(self.wires, 'wire')}{some}{second}"


@dataclass(frozen=True, repr=False)
class GradientCheck(Report):
    """The result of a gradient check."""

    guilty: tuple[CheckFinding, ...]
    cuts: tuple[LostGradient, ...]
    kinks: tuple[CheckFinding, ...]
    undecided: tuple[CheckFinding, ...]
    checked: CheckCount
    whole: EndToEndCheck | None = None

    @property
    def ok(self) -> bool:
        """Whether no rule is wrong, and a difference of the whole gradient, if any, is explained."""
        explained = self.whole is None or self.whole.agrees is not False or bool(self.cuts)
        return not self.guilty and explained

    def lines(self) -> Iterator[str]:
        """Return the findings, wrong rules first."""
        yield f"{self.checked}: {'all rules hold' if not self.guilty else count_without_commas(len(self.guilty), 'wrong wire')}"
        for finding in self.guilty:
            yield f"  {finding}"
        for title, findings in (("on a kink", self.kinks), ("undecided", self.undecided)):
            if findings:
                yield f"{len(findings)} {title}:"
                yield from (f"  {finding}" for finding in findings)
        if self.whole is not None and self.whole.agrees is not True and not self.guilty:
            yield str(self.whole)
        yield from (f"  {cut}" for cut in self.cuts)
