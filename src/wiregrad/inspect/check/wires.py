"""One wire: its rule in both modes beside a numeric derivative of the op.

Kept true: the op is measured at the values it saw (in float64, whatever their dtype), and a rule that only loses digits
to rounding is not called wrong.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from wiregrad.errors import NoRuleError, WiregradError
from wiregrad.inspect.check.arrays import check_array
from wiregrad.inspect.check.elements import check_elements
from wiregrad.inspect.check.numeric import COARSE_PRECISION, RIGHT, UNDECIDED, WRONG, precision_for, to_float64
from wiregrad.inspect.check.wire import WireOutcome, Perturbation, CheckedWire, first_line
from wiregrad.ops import Elementwise


def check_wire(wire: CheckedWire) -> WireOutcome:
    """Compare the rule of one wire, in both modes, with a numeric derivative of the op."""
    if not np.size(wire.x) or not np.size(wire.y):
        return WireOutcome(RIGHT, total=0)
    if not (np.all(np.isfinite(wire.x)) or wire.op.by_element) or not np.any(np.isfinite(wire.y)):
        return WireOutcome(UNDECIDED, at=_first_element(wire.x), finite=False, reason="it was given or gives inf or nan")
    with np.errstate(all="ignore"):
        try:
            outcome = check_elements(wire) if isinstance(wire.op, Elementwise) else check_array(wire)
            return _discount_rounding(wire, outcome) if outcome.state == WRONG else outcome
        except Exception as error:
            if refusal := _refusal_message(wire):
                return WireOutcome(WRONG, at=_first_element(wire.x), raised=True, reason=refusal)
            # A rule may be user code; one that cannot be run is not therefore wrong.
            return WireOutcome(UNDECIDED, at=_first_element(wire.x), reason=f"the rule cannot be run here: {first_line(error)}")


def _refusal_message(wire: CheckedWire) -> str:
    """Return the error with which a user's backward refuses its gradient; empty if it accepts it."""
    if "call" not in wire.op.options:
        return ""
    try:
        wire.pull_back(wire.cast_like_output(np.ones(np.shape(wire.y))))
    except NoRuleError:
        return ""
    except WiregradError as error:
        return first_line(error)
    except Exception:
        return ""
    return ""


def _discount_rounding(wire: CheckedWire, outcome: WireOutcome) -> WireOutcome:
    """Return the outcome, or undecided if rounding alone makes as much of a difference."""
    rng = np.random.default_rng(4)

    def shaken(x: Any) -> Any:
        array = np.asarray(x)
        if array.dtype.kind not in "fc":
            return x
        eps = np.finfo(np.asarray(wire.y).dtype).eps
        return (array * (1.0 + 8.0 * eps * rng.normal(size=array.shape))).astype(array.dtype)[()]

    off = abs(outcome.rule - outcome.numeric)
    again = [_recompute_rule(wire, outcome, shaken) for _ in range(3)]
    # In float32 small numbers are lost beside large ones under any perturbation; float64 keeps both.
    exact = _recompute_rule(wire, outcome, to_float64) if precision_for(*wire.xs, wire.y) is COARSE_PRECISION else outcome.rule
    if all(abs(number - outcome.rule) <= 0.1 * off for number in (*again, exact)):
        return outcome
    return replace(outcome, state=UNDECIDED, reason="the rule loses its digits to rounding")


def _recompute_rule(wire: CheckedWire, outcome: WireOutcome, changed: Perturbation) -> Any:
    """Recompute the rule's number with slightly changed inputs."""
    xs = tuple(map(changed, wire.xs))
    other = replace(wire, xs=xs, y=wire.op.compute(*xs))
    return np.nan if outcome.again is None else outcome.again(other, changed)


def _first_element(x: Any) -> Any:
    return np.ravel(x)[0] if np.size(x) else None
