"""The report of a gradient check, and its findings wire by wire."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from wiregrad.dtypes import plain
from wiregrad.inspect.check.elements import SAMPLED
from wiregrad.inspect.check.whole import Cut, Whole, because, brief
from wiregrad.inspect.check.wire import Outcome
from wiregrad.inspect.report import Report
from wiregrad.ir import Place
from wiregrad.ir.circuit import plural


@dataclass(frozen=True, repr=False)
class Finding(Report):
    """A finding on one wire: a wrong rule, a kink, or an undecided comparison."""

    verdict: str
    order: int
    op: str
    node: str
    input: str
    source: str
    place: Place | None
    group: str
    outcome: Outcome
    within: str = ""
    """The op whose rule contains the node, for the second order."""

    @property
    def identity(self) -> Any:
        """A key that is equal for duplicate findings."""
        return self.verdict, self.order, self.op, self.node, self.input, self.within

    @property
    def rule(self) -> Any:
        """The slope by the rule."""
        return plain(self.outcome.rule)

    @property
    def numeric(self) -> Any:
        """The slope by differences."""
        return plain(self.outcome.numeric)

    @property
    def index(self) -> tuple[int, ...] | None:
        """The index of the input element; None for a number, or if no element was singled out."""
        return self.outcome.index

    def lines(self) -> Iterator[str]:
        """Return the finding as a sentence."""
        outcome = self.outcome
        if outcome.raised:
            yield f"{self.op} is wrong{self._where()}: {outcome.reason}"
        elif self.verdict == "wrong":
            more = f"; {outcome.reason}" if outcome.reason else ""
            yield f"{self.op} is wrong{_how(outcome)}: {self._slope()}{self._numbers()}{self._extent()}{more}"
        elif self.verdict == "kink":
            near = "" if outcome.distance is None else f", distance {brief(outcome.distance)}"
            yield f"{self.op}{self._where()} is on a kink{near}{because(outcome.reason)}"
        else:
            yield f"{self.op}{self._where()} is undecided{because(outcome.reason or self._coarse())}"

    def _slope(self) -> str:
        into = _element(self.input, self.outcome.index)
        if self.order > 1 and not self.within:
            return f"the derivative of its rule with respect to {into}{self._where()}: "
        return f"d {_element(self.node, self.outcome.output)} / d {into}{self._where()}: "

    def _where(self) -> str:
        inside = f" at input {self.input} of {self.node}" if self.input else f" at {self.node}"
        wire = f" at wire {self.source} -> {self.node}" if self.source else inside
        within = f", in the rule of {self.within}" if self.within and self.within != self.op else ""
        second = ", second order" if self.order > 1 else ""
        return f"{wire}{within}{second}" + ("" if self.place is None else f" ({self.place})")

    def _numbers(self) -> str:
        outcome = self.outcome
        at = "" if outcome.at is None else f" at {self.input} = {brief(outcome.at)}"
        direction = " along a direction" if outcome.at is None else ""
        return (
            f"the rule gives {brief(outcome.rule)}, differences give {brief(outcome.numeric)}"
            f"{direction} (error < {brief(outcome.error, 1)}){at}"
        )

    def _extent(self) -> str:
        outcome = self.outcome
        return f"; wrong at {outcome.count} of {outcome.total} elements" if outcome.count > 1 else ""

    def _coarse(self) -> str:
        outcome = self.outcome
        return (
            f"the rule gives {brief(outcome.rule)}, differences give {brief(outcome.numeric)}, "
            f"but may be off by {brief(outcome.error, 1)}"
        )


def _how(outcome: Outcome) -> str:
    return f" in {outcome.modes[0]} mode" if len(outcome.modes) == 1 else ""


def _element(name: str, index: tuple[int, ...] | None) -> str:
    return name if index is None else f"{name}[{', '.join(map(str, index))}]"


@dataclass(frozen=True)
class Count:
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
        some = f" ({self.sampled} by {SAMPLED} of their elements)" if self.sampled else ""
        second = f", {plural(self.rules, 'rule')} to second order" if self.rules else ""
        return f"{plural(self.nodes, 'node')}{sampled}, {plural(self.wires, 'wire')}{some}{second}"


@dataclass(frozen=True, repr=False)
class Checked(Report):
    """The result of a gradient check."""

    guilty: tuple[Finding, ...]
    cuts: tuple[Cut, ...]
    kinks: tuple[Finding, ...]
    undecided: tuple[Finding, ...]
    checked: Count
    whole: Whole | None = None

    @property
    def ok(self) -> bool:
        """Whether no rule is wrong, and a difference of the whole gradient, if any, is explained."""
        explained = self.whole is None or self.whole.agrees is not False or bool(self.cuts)
        return not self.guilty and explained

    def lines(self) -> Iterator[str]:
        """Return the findings, wrong rules first."""
        yield f"{self.checked}: {'all rules hold' if not self.guilty else plural(len(self.guilty), 'wrong wire')}"
        for finding in self.guilty:
            yield f"  {finding}"
        for title, findings in (("on a kink", self.kinks), ("undecided", self.undecided)):
            if findings:
                yield f"{len(findings)} {title}:"
                yield from (f"  {finding}" for finding in findings)
        if self.whole is not None and self.whole.agrees is not True and not self.guilty:
            yield str(self.whole)
        yield from (f"  {cut}" for cut in self.cuts)
