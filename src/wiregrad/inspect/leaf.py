"""Explain the gradient of a `wg.Value`: whether it has one, and how many backward passes added to it."""

from __future__ import annotations

from collections.abc import Iterator

from wiregrad.errors import OperandError, short_repr, format_user_line
from wiregrad.frontends.value import MAX_REMEMBERED_PASSES, Value, is_constant, notes_of
from wiregrad.inspect.explain import GradientCause, Explanation, classify_gradient
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
        raise OperandError(
            f"wg.explain takes a value; got {short_repr(value)}: for a run call run.explain(name){format_user_line()}"
        )
    name = value.name or "this value"
    if value.grad is None:
        return Explanation(name, "none", None, (_explain_missing(value, name),))
    gradient = value.grad.data if isinstance(value.grad, Value) else value.grad
    kind = classify_gradient(gradient)
    causes = tuple(_explain_passes(value, name))
    # Accumulation does not explain a gradient that is 0 or not finite.
    adds = len(notes_of(value).passes) > 1 and kind not in ("zero", "nonfinite")
    kind_shown = "accumulated" if adds else kind
    return Explanation(name, kind_shown, gradient, causes, notes=tuple(_advise_on_value(value, kind)))


def _explain_missing(value: Value, name: str) -> GradientCause:
    if is_constant(value):
        return _cause_of_value(name, "it is a constant (detach, stop_gradient or no_grad): nothing flows back to it", None)
    sentence = (
        "no backward() has passed it: call backward() on something that was computed from it; what was computed from "
        "v.item(), v.data, v.detach() or inside wg.no_grad() has left the recording and leads back to nothing"
    )
    return _cause_of_value(name, sentence, None)


def _explain_passes(value: Value, name: str) -> Iterator[GradientCause]:
    """Report how many backward passes added to a leaf, unless it was exactly one."""
    called = value.name or "v"
    passes = notes_of(value).passes
    if value._tape is not None or len(passes) == 1:
        return
    if not passes:
        yield _cause_of_value(name, f"{called}.grad was set by hand, and no backward() has added to it since", None)
        return
    count = f"at least {MAX_REMEMBERED_PASSES}" if len(passes) == MAX_REMEMBERED_PASSES else str(len(passes))
    sentence = (
        f"{count} backward passes added to it without it being cleared: set {called}.grad = None before backward()"
    )
    yield _cause_of_value(name, sentence, passes[1])


def _advise_on_value(value: Value, kind: str) -> Iterator[str]:
    """Suggest `run.explain` for an unusual gradient: a value keeps only the sum of what arrived."""
    if kind != "ordinary" and (value._tape is not None or notes_of(value).passes):
        named = "" if value.name else ", after giving it a name (v.name = 'v')"
        whose = f"wg.run(loss).explain({value.name or 'v'!r})"
        yield f"{whose} says why, of the loss that backward() was called on{named}"


def _cause_of_value(name: str, sentence: str, place: Place | None) -> GradientCause:
    return GradientCause("backward", name, place, sentence)
