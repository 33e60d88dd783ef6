"""Explain a value of define-by-run code: whether it has a gradient at all, and how many backward passes made it."""

from __future__ import annotations

from wiregrad.errors import OperandError, shown, user_line
from wiregrad.frontends.value import PASSES, Value, is_constant, notes_of
from wiregrad.inspect.explain import Cause, Explanation
from wiregrad.ir import Place


def explain_value(value: Value) -> Explanation:
    """Say why a value has the gradient it has.

    >>> w = Value(2.0, name="w")
    >>> (w * 3.0).backward()
    >>> (w * 5.0).backward()
    >>> print(explain_value(w))  # doctest: +ELLIPSIS
    the gradient of w is 8: it adds up over several backward passes
      2 backward passes added to it without it being cleared: set w.grad = None before backward() (...:1)
    """
    if not isinstance(value, Value):
        raise OperandError(f"wg.explain takes a value; got {shown(value)}: of a run ask run.explain(name){user_line()}")
    name, passes = value.name or "this value", notes_of(value).passes if value._tape is None else []
    if value.grad is None:
        return Explanation(name, "none", None, (_missing(value, name),))
    if len(passes) < 2:
        return Explanation(name, "ordinary", value.grad, ())
    count = f"at least {PASSES}" if len(passes) == PASSES else str(len(passes))
    said = (
        f"{count} backward passes added to it without it being cleared: "
        f"set {value.name or 'v'}.grad = None before backward()"
    )
    return Explanation(name, "accumulated", value.grad, (_cause(name, said, passes[1]),))


def _missing(value: Value, name: str) -> Cause:
    if is_constant(value):
        return _cause(name, "it is a constant (detach, stop_gradient or no_grad): nothing flows back to it", None)
    return _cause(name, "no backward() has passed it: call backward() on something that was computed from it", None)


def _cause(name: str, said: str, place: Place | None) -> Cause:
    return Cause("backward", name, place, said)
