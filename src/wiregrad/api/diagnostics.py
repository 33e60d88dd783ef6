"""Questions about functions and values: `blame`, `check_grads`, `explain`, `record`. Loaded on first use.

`wg.record` returns a flight recorder that can be watched: `wg.record(live=True)`, `flight.explore()`. Invariant:
watching changes nothing about what is recorded; a page that pauses the training holds it up only while the page is
open.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.api import Circuit, Run
from wiregrad.api.values import Value, trace_with_inputs
from wiregrad.api.values import run as run_function
from wiregrad.backends import RunNode, RunRecord, interpreter
from wiregrad.dtypes import PythonNumber, count_with_noun, format_all_digits, format_brief_number
from wiregrad.errors import CheckError, InputError, OperandError, short_repr
from wiregrad.frontends.recording.arguments import flatten, is_tensor, name_parts, settle_array
from wiregrad.frontends.recording.session import anomaly
from wiregrad.frontends.recording.trace import refuse_whole_numbers
from wiregrad.inspect.blame import Blame
from wiregrad.inspect.check import GradientCheck, check_gradients, is_movable
from wiregrad.inspect.explain import Explanation, explain_value
from wiregrad.inspect.flight_recorder import Event, Flight, Snapshot, copy_step, run_value
from wiregrad.ir import join_first_names
from wiregrad.lazy import NamedTuple, load_module_lazily
from wiregrad.learn.handwritten import name_mistakes

if TYPE_CHECKING:
    from wiregrad.explorer import local_server
else:
    # A recorder that nobody watches needs no server.
    local_server = load_module_lazily("wiregrad.explorer.local_server")

__all__ = ["anomaly", "blame", "check_grads", "explain", "record"]


def blame(f: Callable[..., object] | Value, /, *args: object, **kwargs: object) -> Blame:
    """Find the op of a function that first produced a non-finite number, forward or backward, with its line.

    A circuit takes its inputs as in `circuit.run`.

    >>> import numpy as np
    >>> def distance(x, y):
    ...     return np.sqrt(np.sum((x - y) ** 2))
    >>> origin = blame(distance, np.ones(3), np.ones(3)).origins[0]
    >>> origin.op, origin.factors
    ('sqrt', (1.0, inf))
    >>> origin.suggestion
    'use np.linalg.norm(x) instead of the root of a sum of squares: its gradient at 0 is 0'
    """
    if isinstance(f, RunRecord):
        raise OperandError(f"wg.blame takes a function; got {short_repr(f)}: for a run call run.blame()")
    if _is_torch_module(f):
        raise OperandError(
            f"wg.blame takes a function of NumPy; got the PyTorch module {type(f).__name__}: write "
            "wg.watch(module, *args).blame(), or wg.from_torch(module, *args).run().blame() for the circuit"
        )
    _refuse_tensors("blame", "blame()", args, kwargs)
    with np.errstate(all="ignore"):
        circuit, inputs = trace_with_inputs(f, args, kwargs)
        if not inputs and callable(f):
            refuse_whole_numbers(f, args, kwargs)
        return Run.from_backend_run(interpreter.run_all_outputs(circuit, inputs)).blame()


def _refuse_tensors(question: str, method: str, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Raise for tensors of PyTorch: their methods have other meanings than those of the values that f would get."""
    if any(map(is_tensor, (*args, *kwargs.values()))):
        raise OperandError(
            f"wg.{question} takes a function of NumPy, and arrays; got a torch.Tensor: ask PyTorch's own run with "
            f"wg.watch(f, *args).{method}, take the circuit with wg.from_torch(f, *args), or pass tensor.numpy()"
        )


def _is_torch_module(thing: object) -> bool:
    """Return whether something is a module of PyTorch, which nobody has made unless PyTorch is imported."""
    nn = sys.modules.get("torch.nn")
    return nn is not None and isinstance(thing, nn.Module)


def check_grads(
    f: Callable[..., object] | Circuit,
    /,
    *args: object,
    order: int = 2,
    raises: bool = True,
    grad: Callable[..., object] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    **kwargs: object,
) -> GradientCheck:
    """Compare the derivative of every op that a function (or circuit) uses with a numerical one, at the values it sees.

    A wrong rule raises `CheckError`, which names the op, the wire, the line and both numbers; with `raises=False` it is
    only reported. The report lists kinks, and points where numerical derivatives cannot decide. A circuit takes its
    inputs as in `circuit.run`.

    `grad` is a gradient of f that was written by hand, a function of the same arguments. It is compared too. It returns
    the gradient of the first argument, or a tuple with one for each argument, in which None is not compared.

    A slope is right if it differs from the numeric one by at most `atol + rtol * size`, as in `np.isclose`, and wrong
    if it certainly differs by more. Left out, they are what the dtypes allow: 1e-6 of the slope in double precision,
    and 2e-3 in single.

    >>> print(check_grads(lambda x, w: np.tanh(x * w), 0.5, -1.2))
    2 nodes, 3 wires, 3 rules to second order: all rules hold
    >>> print(check_grads(lambda x: np.sum(x**3), np.ones(2), grad=lambda x: 3.0 * x**2))
    2 nodes, 2 wires, 2 rules to second order: all rules hold
    the gradient by hand agrees in 2 elements
    """
    _check_handwritten(f, args, grad)
    if isinstance(f, Circuit):
        kwargs = kwargs if args else {**f._known_inputs, **kwargs}
    else:
        _refuse_tensors("check_grads", "check_backward()", args, kwargs)
    try:
        report = check_gradients(f, args, kwargs, order=order, rtol=rtol, atol=atol)
    except TypeError as error:
        if not any(map(inspect.isroutine, args)):
            raise
        advice = "for a gradient that was written by hand, write wg.check_grads(f, x, grad=my_grad)"
        raise InputError(f"{str(error).partition(chr(10))[0]}; {advice}") from error
    if not report.checked.wires and not isinstance(f, Circuit):
        refuse_whole_numbers(f, args, kwargs)
    if grad is not None:
        report = _compare_handwritten(report, f, grad, args, kwargs, rtol, atol)
    if raises and not report.ok:
        raise CheckError(str(report), report=report)
    return report


def _check_handwritten(f: object, args: tuple[object, ...], grad: object) -> None:
    """Raise for a gradient by hand that cannot be called with the arguments of the function."""
    if grad is None:
        return
    if not callable(grad):
        raise InputError(f"grad= takes a function of the arguments of f, as in grad=my_grad; got {short_repr(grad)}")
    if isinstance(f, Circuit):
        raise InputError("grad= is for a function; compare the gradient of a circuit with circuit.run(...).grads")
    if not args:
        raise InputError("grad= needs the arguments by position: wg.check_grads(f, x, grad=my_grad)")


class GradientDifference(NamedTuple):
    """An element at which a gradient by hand is not the gradient."""

    element: str
    handwritten: PythonNumber
    gradient: PythonNumber

    def __str__(self) -> str:
        shown = format_brief_number(self.handwritten), format_brief_number(self.gradient)
        if shown[0] == shown[1]:
            shown = format_all_digits(self.handwritten), format_all_digits(self.gradient)
        return f"{self.element}: by hand {shown[0]}, wiregrad {shown[1]}"


MAX_SHOWN_DIFFERENCES = 5


@dataclass(frozen=True, repr=False)
class HandwrittenCheck(GradientCheck):
    """The result of a gradient check in which a gradient by hand was compared too."""

    compared: int = 0
    """Number of elements of the gradient that were compared."""
    differences: tuple[GradientDifference, ...] = ()
    mistakes: tuple[str, ...] = ()
    """The mistakes in a backward pass that give just these numbers, if any do."""

    @property
    def ok(self) -> bool:
        """Whether no rule is wrong, and the gradient by hand is right."""
        return super().ok and not self.differences

    def lines(self) -> Iterator[str]:
        """Return the findings about the rules, then those about the gradient by hand."""
        yield from super().lines()
        elements = count_with_noun(self.compared, "element")
        if not self.differences:
            yield f"the gradient by hand agrees in {elements}"
            return
        yield f"the gradient by hand is wrong in {len(self.differences)} of {elements}"
        yield from (f"  {difference}" for difference in self.differences[:MAX_SHOWN_DIFFERENCES])
        if len(self.differences) > MAX_SHOWN_DIFFERENCES:
            yield f"  and {len(self.differences) - MAX_SHOWN_DIFFERENCES} more"
        factor = self._find_factor()
        if factor is not None:
            yield f"  each is {format_brief_number(factor)} times wiregrad's"
            return
        for k, mistake in enumerate(self.mistakes):
            yield f"  {'or' if k else 'these numbers come out'} if {mistake}"

    def _find_factor(self) -> PythonNumber | None:
        """Return the factor that all wrong elements have in common, as where a sign or a mean was forgotten."""
        if len(self.differences) < 2 or not all(each.gradient for each in self.differences):
            return None
        factors = np.array([each.handwritten / each.gradient for each in self.differences])
        mean = np.mean(factors).item()
        is_common = bool(mean) and np.isfinite(mean) and np.allclose(factors, mean, rtol=1e-6, atol=0.0)
        return mean if is_common else None


def _compare_handwritten(
    report: GradientCheck,
    f: Callable[..., object],
    grad: Callable[..., object],
    args: tuple[object, ...],
    kwargs: Any,
    rtol: float | None,
    atol: float | None,
) -> HandwrittenCheck:
    """Return the report with what a gradient by hand has wrong."""
    run = run_function(f, *args, **kwargs)
    gradients = iter(run.grads.items())
    compared = 0
    differences: dict[str, list[GradientDifference]] = {}
    given: dict[str, object] = {}
    result = grad(*args, **kwargs)
    is_tuple_wanted = len(args) > 1 and not isinstance(result, tuple)
    hint = "; the gradients of several arguments stand in a tuple" if is_tuple_wanted else ""
    for argument, handwritten in zip(args, _split_by_argument(result, args), strict=True):
        for leaf, item in _pair_leaves(argument, handwritten):
            name, gradient = next(gradients) if is_movable(leaf) else ("", None)
            if gradient is not None and item is not None:
                compared += np.size(gradient)
                given[name] = item
                differences[name] = [*_list_differences(name, item, np.asarray(gradient), hint, rtol, atol)]
    if not compared:
        raise InputError("grad= gave nothing to compare: wanted the gradient of the first argument, or of each")
    found = {field.name: getattr(report, field.name) for field in fields(report)}
    wrong = tuple(_drop_rounding(run, differences))
    inputs = {name: run[name].value for name in run.circuit.inputs}
    mistakes = name_mistakes(run.circuit, inputs, given) if wrong else []
    return HandwrittenCheck(**found, compared=compared, differences=wrong, mistakes=tuple(mistakes))


def _drop_rounding(run: Run, differences: Mapping[str, Sequence[GradientDifference]]) -> Iterator[GradientDifference]:
    """Yield the differences that are larger than rounding: at a minimum, a gradient is nothing else."""
    names = [name for name, found in differences.items() if found]
    estimates = run.rounding(names).gradients if names else {}
    for name in names:
        estimate = estimates.get(name)
        is_known = estimate is not None and estimate.explained and not estimate.guessed
        bound = 10.0 * estimate.bound if estimate is not None and is_known else 0.0
        yield from (each for each in differences[name] if not abs(each.handwritten - each.gradient) <= bound)


def _split_by_argument(handwritten: object, args: tuple[object, ...]) -> Sequence[object]:
    """Return a gradient by hand as one item for each argument: a tuple has all, anything else is for the first."""
    if not isinstance(handwritten, tuple):
        return handwritten, *(None for _ in args[1:])
    is_of_one_tuple = len(args) == 1 and isinstance(args[0], tuple) and len(handwritten) == len(args[0])
    items = (handwritten,) if is_of_one_tuple else handwritten
    if len(items) != len(args):
        raise InputError(
            f"grad= gave a tuple of {len(items)} for {count_with_noun(len(args), 'argument')}; wanted one gradient "
            "for each argument, or None, or the gradient of the first alone"
        )
    return items


def _pair_leaves(argument: object, handwritten: object) -> Iterator[tuple[object, object]]:
    """Yield the leaves of an argument, each with its gradient by hand: parts belong together by key, field or index."""
    parts = name_parts(argument)
    if parts is None:
        yield settle_array(argument), handwritten
        return
    wanted = dict(parts)
    given = dict.fromkeys(wanted) if handwritten is None else dict(name_parts(handwritten) or ())
    left_out = [part for key, part in wanted.items() if key not in given and any(map(is_movable, flatten(part)[0]))]
    if left_out or not wanted.keys() >= given.keys():
        raise InputError(
            f"grad= gave {_describe_parts(handwritten)} for {_describe_parts(argument)}; wanted the same structure, "
            "with None for what is not compared"
        )
    for key, part in wanted.items():
        yield from _pair_leaves(part, given.get(key))


def _describe_parts(container: object) -> str:
    """Return the kind of a container, with its parts: `a dict with 'w', 'b'`."""
    keys = [key for key, _ in name_parts(container) or ()]
    if not keys:
        return short_repr(container)
    is_numbered = isinstance(container, list | tuple)
    return f"a {type(container).__name__} {f'of {len(keys)}' if is_numbered else f'with {join_first_names(keys)}'}"


def _list_differences(
    name: str, item: object, gradient: NDArray[Any], hint: str, rtol: float | None, atol: float | None
) -> Iterator[GradientDifference]:
    """Yield the elements at which a gradient by hand differs by more than the tolerances, or than rounding explains.

    `hint` says what to write where it is no gradient of that shape.
    """
    try:
        handwritten = np.asarray(item)
    except ValueError:
        # Parts of different shapes are no array.
        handwritten = np.asarray(None)
    if handwritten.shape != gradient.shape or handwritten.dtype.kind not in "fciub":
        is_number = handwritten.dtype.kind in "fciub"
        given = f"{handwritten.dtype} of shape {handwritten.shape}" if is_number else short_repr(item)
        hint = hint or (_advise_shape(handwritten.shape, gradient.shape) if is_number else "")
        raise InputError(f"grad= gave {given} for {name}; wanted {gradient.dtype} of shape {gradient.shape}{hint}")
    eps = float(max(np.finfo(each.dtype).eps for each in (handwritten, gradient) if each.dtype.kind in "fc"))
    absolute: float = 100.0 * eps * interpreter.largest_magnitude(gradient[np.isfinite(gradient)])
    relative: float = HANDWRITTEN_TOLERANCE * (eps / np.finfo(float).eps) ** 0.5
    relative = relative if rtol is None else rtol
    absolute = absolute if atol is None else atol
    right = np.isclose(handwritten, gradient, rtol=relative, atol=absolute, equal_nan=True)
    for index in map(tuple, np.argwhere(~right).tolist()):
        element = f"{name}[{', '.join(map(str, index))}]" if index else name
        yield GradientDifference(element, handwritten[index].item(), gradient[index].item())


def _advise_shape(given: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """Return what may be wrong with a gradient by hand of another shape, as the end of a message."""
    if given == wanted[::-1]:
        return "; is it transposed?"
    try:
        is_copied = np.broadcast_shapes(wanted, given) == given and math.prod(given) > math.prod(wanted)
    except ValueError:
        is_copied = False
    return "; where broadcasting copies a value, its gradient is the sum over the copies" if is_copied else ""


HANDWRITTEN_TOLERANCE = 1e-8
"""Relative tolerance of a gradient by hand in float64."""


def record(capacity: int = 2000, **options: Any) -> LiveFlight:
    """Return a flight recorder for a training run: statistics per step and group, in bounded memory.

    Give it each step's loss, parameters and gradients. It finds the first step at which a gradient vanished, exploded
    or became non-finite; with `on_event="raise"` it stops the training there. `live=True` opens a page on which the
    training can be watched and paused, and `flight.explore()` opens it later; with `function=loss` the page opens the
    circuits of the steps before the first event.

    >>> flight = record()
    >>> for step in range(3):
    ...     events = flight.step(1.0, {"w": np.ones(2)}, {"w": np.array([0.1, np.nan if step == 2 else 0.2])})
    >>> flight.first("nonfinite").step
    2
    """
    return LiveFlight(capacity, **options)


def explain(value: Value, /, *names: object) -> Explanation:
    """Explain the gradient of a value of define-by-run code; for a function use `wg.run(f, ...).explain(name)`.

    >>> w = Value(2.0, name="w")
    >>> explain(w).kind
    'none'
    """
    if not isinstance(value, Value) or names:
        raise OperandError(f"wg.explain takes one value; got {short_repr(value)}: {_lead_to_explain(value, names)}")
    return explain_value(value)


def _lead_to_explain(thing: object, names: tuple[object, ...]) -> str:
    """Return how something other than a value is asked for an explanation."""
    name = short_repr(names[0]) if names and isinstance(names[0], str) else "'x'"
    if isinstance(thing, RunNode):
        return f"for a node of a run call run.explain({thing.name!r})"
    if isinstance(thing, RunRecord):
        return f"for a run call run.explain({name})"
    if isinstance(thing, Circuit):
        return f"for a circuit call circuit.run(x).explain({name})"
    if isinstance(thing, Value):
        return "for a function call wg.run(f, x).explain(name)"
    return f"for a function call wg.run(f, x).explain({name})" if callable(thing) else "a value is made by wg.Value(x)"


KEPT_STEPS = 3
"""How many steps before the first event are kept if a function is given to open their circuits."""


class LiveFlight(Flight):
    """A flight recorder that can be watched in the browser while the training runs.

    `function` computes the loss from the parameters, and from the inputs if there are any: `function(params)`,
    `function(params, inputs)`, or `function(params, *inputs)` for a tuple. With it, the page opens the circuits of the
    steps whose parameters were kept.
    """

    def __init__(
        self,
        capacity: int = 2000,
        *,
        live: bool = False,
        function: Callable[..., object] | None = None,
        keep: int | None = None,
        **options: Any,
    ) -> None:
        if not (function is None or callable(function)):
            raise InputError(f"function must compute the loss from the parameters; got {short_repr(function)}")
        default = KEPT_STEPS if function is not None else 0
        super().__init__(capacity, keep=default if keep is None else keep, **options)
        self._function = function
        self._session: local_server.TrainingSession | None = None
        self._event_run: tuple[int, RunRecord] | None = None
        self._before_break: deque[Snapshot] = deque(maxlen=self.keep + 1)
        if live:
            self.explore(wait=False)

    def step(
        self, loss: object, params: object = None, grads: object = None, *, inputs: object = None
    ) -> tuple[Event, ...]:
        """Record one step, before the parameters are updated; returns the events that it confirmed.

        It waits where a page has paused the training.
        """
        session = self._session
        if session is None:
            return self._record_step(loss, params, grads, inputs)
        try:
            with session.lock:
                return self._record_step(loss, params, grads, inputs)
        finally:
            session.note_step()
            session.wait_while_paused()

    def _record_step(self, loss: object, params: object, grads: object, inputs: object) -> tuple[Event, ...]:
        has_broken = self._has_broken()
        before = self.steps
        try:
            return super().step(loss, params, grads, inputs=inputs)
        finally:
            if self.steps > before and not has_broken:
                self._keep_step(loss, params, inputs)

    def _has_broken(self) -> bool:
        return any(event.kind == "nonfinite" for event in self._events)

    def _keep_step(self, loss: object, params: object, inputs: object) -> None:
        """Keep what is needed to run a step again: the latest steps up to the first one that is not finite."""
        if self._function is not None:
            self._before_break.append(copy_step(self.steps - 1, params, inputs))
        elif isinstance(loss, Value) and self._has_broken():
            run = run_value(loss)
            if run is not None:
                circuit = Circuit(run.circuit.columns)
                self._event_run = self.steps - 1, RunRecord(circuit, run.values, run.flows, run.sent)

    @property
    def runnable_steps(self) -> tuple[int, ...]:
        """The steps whose circuits can be run again: those before the first event, and before the first NaN."""
        if self._function is None:
            return () if self._event_run is None else (self._event_run[0],)
        return tuple(sorted({snapshot.step for snapshot in (*self.kept, *self._before_break)}))

    def run_step(self, step: int) -> Run:
        """Return a run of the loss at a step whose parameters were kept.

        >>> flight = LiveFlight(function=lambda w: w * w, keep=2)
        >>> events = flight.step(9.0, 3.0, 6.0)
        >>> flight.run_step(0).grads
        {'w': 6.0}
        """
        snapshot = next((kept for kept in (*self.kept, *self._before_break) if kept.step == step), None)
        if self._function is not None and snapshot is not None:
            inputs = snapshot.inputs
            arguments = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
            return run_function(self._function, snapshot.params, *arguments)
        if self._event_run is not None and self._event_run[0] == step:
            return Run.from_backend_run(self._event_run[1])
        steps = ", ".join(map(str, self.runnable_steps)) or "none"
        need = "" if self._function is not None else "; give the loss as wg.record(function=loss, keep=5)"
        raise InputError(f"the parameters of step {step} were not kept; those of these steps were: {steps}{need}")

    def explore(self, *, port: int = 0, browser: bool = True, wait: bool = True) -> Any:
        """Open a page that shows the training while it runs, or afterwards; Ctrl-C ends it.

        With `wait=False` the server runs in the background, and the returned object has `url` and `stop()`.
        """
        if self._session is None:
            self._session = local_server.TrainingSession(
                self, run_step=self.run_step, list_steps=lambda: self.runnable_steps
            )
        return _open_training(self._session, port, browser, wait)


def open_flight(path: Path, flight: Flight, *, port: int = 0, browser: bool = True, wait: bool = True) -> Any:
    """Open the page of a flight that was read from a file."""
    name = f"{path.name}, {count_with_noun(flight.steps, 'step')}"
    return _open_training(local_server.TrainingSession(flight, name=name), port, browser, wait)


def _open_training(session: local_server.TrainingSession, port: int, browser: bool, wait: bool) -> Any:
    app = partial(local_server.build_training_app, session)
    return local_server.open_explorer(app, port=port, browser=browser, wait=wait)
