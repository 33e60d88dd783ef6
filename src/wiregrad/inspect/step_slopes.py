"""Whether the steps of a training are too long: the slopes of the loss along a step, at its two ends.

Along a step the loss falls with the slope at its start. If it rises at the end and is higher there, the step went past
the lowest point on its way. That is what too large a learning rate does. Noise of batches does it now and then, but
then the loss changes by more than the slopes say, or stays below what it was earlier.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from wiregrad.dtypes import format_brief_number
from wiregrad.lazy import NamedTuple

MIN_STEPS = 2
"""How many steps in a row must go too far."""
MIN_GROWTH = 2.0
"""How many times as large as ever before the loss must be after them."""
MAX_RATIO = 32.0
"""How many times as large as the gain the last slope may be."""


class StepSlopes(NamedTuple):
    """One step: the loss at its ends, and the slopes of the loss along it (gradient times movement)."""

    loss_before: float
    loss_after: float
    before: float
    after: float

    @property
    def goes_too_far(self) -> bool:
        """Whether the loss falls at the start and rises at the end, where it is higher than at the start.

        >>> StepSlopes(1.0, 2.0, -1.0, 3.0).goes_too_far, StepSlopes(1.0, 0.5, -1.0, 0.2).goes_too_far
        (True, False)
        """
        if self.loss_after == math.inf:
            return self.before < 0.0
        # Along a parabola the loss gains less than half of the last slope, and of noise much more.
        gain = self.loss_after - self.loss_before
        return self.before < 0.0 and self.after / MAX_RATIO <= gain <= self.after and gain > 0.0

    @property
    def lowest(self) -> float:
        """Where the lowest point is along the step, as a share of its length, if the slope changes evenly.

        >>> StepSlopes(1.0, 4.0, -1.0, 3.0).lowest
        0.25
        """
        return self.before / (self.before - self.after) if math.isfinite(self.after) else 0.0


def find_overshoot(steps: Sequence[StepSlopes], largest_before: float = -math.inf) -> list[StepSlopes]:
    """Return the last steps, if all of them go too far and the loss becomes larger than ever; empty if not.

    `largest_before` is the largest loss before these steps.
    """
    last: list[StepSlopes] = []
    for step in reversed(steps):
        if not step.goes_too_far:
            break
        last.insert(0, step)
    if len(last) < MIN_STEPS:
        return []
    before = max([largest_before, *(step.loss_before for step in steps[: len(steps) - len(last) + 1])])
    return last if last[-1].loss_after - before >= (MIN_GROWTH - 1.0) * abs(before) else []


def describe_overshoot(steps: Sequence[StepSlopes]) -> str:
    """Say of steps that go too far how the loss rose, and how short the first of them should have been.

    >>> describe_overshoot([StepSlopes(1.0, 4.0, -1.0, 3.0), StepSlopes(4.0, 16.0, -4.0, 12.0)]).partition(",")[0]
    'the steps are too long: the loss rose from 1 to 16 in 2 steps'
    """
    numbers = format_brief_number(steps[0].loss_before), format_brief_number(steps[-1].loss_after)
    return (
        f"the steps are too long: the loss rose from {numbers[0]} to {numbers[1]} in {len(steps)} steps, each of which "
        "went past the lowest point on its way; the first one should have been "
        f"{format_brief_number(steps[0].lowest, 2)} times as long"
    )
