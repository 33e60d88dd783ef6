"""Which use of a value drives its gradient: what each reader of the value sends back, largest first.

These parts add up to the gradient. Splitters and implicit copies (a wire broadcast to a shape or cast to a dtype) are
looked through: the use shown is the op that reads the copy, and what it sends is pulled back through the copy.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from wiregrad.backends import RunRecord
from wiregrad.backends.magnitude import euclidean_norm
from wiregrad.dtypes import format_brief_number, to_python_number
from wiregrad.inspect.report import Report, format_place, format_capped_list, describe_node
from wiregrad.ir import Node, Op, Pattern, Place
from wiregrad.ops import Elementwise
from wiregrad.ops.array import Linear
from wiregrad.ops.flow import match_dtype, fill_absent

SOLE_DRIVER_SHARE = 0.995
"""A use with at least this share is said to give all of the gradient."""
MAX_BRANCHES = 20
"""Maximum number of uses that get a line of their own."""


@dataclass(frozen=True)
class GradientBranch:
    """One use of a value: the reader, its input, and the gradient that it sends back.

    `share` is the part of the gradient that comes from this use: sent / total, along arrays the projection of `sent` on
    the total, relative to the total. Shares add up to 1, and can be negative or NaN (where the total is 0). `magnitude`
    is the norm of `sent`. `op` is None for the output itself. `again` is true if the reader uses the value on other
    inputs too.
    """

    reader: str
    op: str | None
    slot: int
    input: str
    expression: str
    place: Place | None
    sent: Any
    magnitude: float
    share: float
    blocked: bool
    again: bool

    def __str__(self) -> str:
        use = f"{self.expression}{f' as {self.input}' if self.again else ''}{format_place(self.place)}"
        if self.blocked:
            return f"nothing from {use}"
        sent = f"|{format_brief_number(self.magnitude)}|" if np.ndim(self.sent) else format_brief_number(self.sent)
        return f"{sent} from {use}{'' if math.isnan(self.share) else f', {_format_share(self.share)}'}"


@dataclass(frozen=True, repr=False)
class Branches(Report):
    """The uses of a value, the one that sends most first."""

    node: str
    total: Any
    branches: tuple[GradientBranch, ...]

    def lines(self) -> Iterator[str]:
        """Return the use that drives the gradient, then a line for each use."""
        if not self.branches:
            yield f"nothing reads {self.node}: its gradient is {format_brief_number(self.total)}"
            return
        yield f"{self.node} is used {_format_times(len(self.branches))}; its gradient is {format_brief_number(self.total)}{self._describe_driver()}"
        yield from format_capped_list(self.branches, MAX_BRANCHES)

    def _describe_driver(self) -> str:
        first = self.branches[0]
        others = self.branches[1:]
        if first.blocked:
            return ": every use is blocked"
        if not others or math.isnan(first.share):
            return ""
        if first.share > 1.0 / SOLE_DRIVER_SHARE:
            back = 1.0 - 1.0 / first.share
            return f", driven by {first.expression}; the others take {100.0 * back:.4g} % of it back"
        if any(other.magnitude > 0.9 * first.magnitude for other in others):
            return ""
        return f", driven by {first.expression}{' alone' if first.share > SOLE_DRIVER_SHARE else ''}"


def branches(run: RunRecord, name: str) -> Branches:
    """Return what each use of a value sends back to it.

    >>> import wiregrad as wg
    >>> branches(wg.circuit("t = w * x; f = t + w").run(w=2, x=6), "w")
    w is used 2 times; its gradient is 7, driven by t = w * x
      6 from t = w * x (formula:1:5), 85.7 %
      1 from f = t + w (formula:1:16), 14.3 %
    """
    node = run.circuit.index(name)
    total = run.gradient(node)
    with np.errstate(all="ignore"):
        uses = list(_find_uses(run, node))
        times = Counter(reader for reader, _, _ in uses)
        unordered = [_make_branch(run, use, total, again=times[use[0]] > 1) for use in uses]
    ordered = sorted(unordered, key=_branch_sort_key)
    return Branches(run.circuit.name_of(node), to_python_number(total), tuple(ordered))


_BranchUse = tuple[int | None, int, Any]
"""A reader (None: the output), its input, and the flow that it sends to the value."""
_CopyChain = tuple[int, Any] | None
"""The copies between a value and its use as a linked list, the last copy first."""


def _find_uses(run: RunRecord, target: int) -> Iterator[_BranchUse]:
    """Find the uses of a value, through splitters and copies."""
    starts = run.circuit.columns.starts.tolist()
    root = run.circuit.root()
    stack: list[tuple[int, _CopyChain]] = [(target, None)]
    while stack:
        node, copies = stack.pop()
        if node == root:
            # The readers of the output do not lead to the output.
            yield None, 0, _pull_through_copies(run, run.flows[root], copies)
            continue
        for reader, slot in run.readers_of(node):
            op = run.circuit.op_of(reader)
            if op.pattern is Pattern.MERGE:
                # A splitter sends back exactly what it receives, and there may be as many splitters as uses.
                stack.append((reader, copies))
            elif _is_copy(op, run.values[node]):
                stack.append((reader, (reader, copies)))
            else:
                yield reader, slot, _pull_through_copies(run, run.sent[starts[reader] + slot], copies)


def _pull_through_copies(run: RunRecord, flow: Any, copies: _CopyChain) -> Any:
    """Pull a flow back through a chain of copies."""
    while copies is not None and flow is not None:
        node, copies = copies
        view = Node(run.circuit, node)
        x = run.values[run.circuit.sources_of(node)[0]]
        flow = match_dtype(view.op.pull(0, flow, [x], run.values[node], view.mode), x)
    return flow


def _is_copy(op: Op, x: Any) -> bool:
    """Return whether an op only copies its input, in another shape or dtype at most."""
    if isinstance(op, Elementwise):
        return op.copies
    if not isinstance(op, Linear) or not op.moves or len(op.inputs) > 1 or op.variadic:
        return False
    unit = 1.0 + 1.0j if x.dtype.kind == "c" else 1.0
    probe = (np.arange(1.0, x.size + 1.0).reshape(x.shape) * unit).astype(x.dtype)
    y = np.asarray(op.compute(probe))
    if y.size == x.size:
        return np.array_equal(y.ravel(), probe.ravel())
    # Broadcasting keeps the last axes and lengthens axes of length 1.
    fits = y.ndim >= x.ndim and all(n in (1, m) for n, m in zip(x.shape[::-1], y.shape[::-1], strict=False))
    return fits and bool(np.all(y == probe))


def _make_branch(run: RunRecord, use: _BranchUse, total: Any, *, again: bool) -> GradientBranch:
    reader, slot, flow = use
    view = None if reader is None else Node(run.circuit, reader)
    sent = np.broadcast_to(fill_absent(flow), np.shape(total))[()]
    return GradientBranch(
        reader=run.circuit.output if view is None else view.name,
        op=None if view is None else view.op.name,
        slot=slot,
        input="" if view is None else view.op.input_name(slot),
        expression=f"the output {run.circuit.output}" if view is None else describe_node(run.circuit, view.index),
        place=None if view is None else view.place,
        sent=to_python_number(sent),
        magnitude=euclidean_norm(sent),
        share=_share_of_total(sent, total),
        blocked=flow is None,
        again=again,
    )


def _share_of_total(sent: Any, total: Any) -> float:
    """Return the share of a flow in the total, measured along the total."""
    scale = float(np.max(np.abs(total), initial=0.0))
    if not scale or not math.isfinite(scale):
        return math.nan
    one = np.ravel(sent) / scale
    two = np.ravel(total) / scale
    return float(np.vdot(two, one).real / np.vdot(two, two).real)


def _branch_sort_key(branch: GradientBranch) -> tuple[bool, float]:
    """Return a sort key that puts NaN first and blocked uses last."""
    return branch.blocked, -math.inf if math.isnan(branch.magnitude) else -branch.magnitude


def _format_share(share: float) -> str:
    return f"{100.0 * share:.3g} %" if abs(share) < 10.0 else f"{format_brief_number(share)} times the gradient"


def _format_times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
