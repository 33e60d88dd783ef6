"""What a command works on: a formula, a circuit file, or a function or circuit in a Python file, with its values."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import click
import numpy as np

from wiregrad import ir
from wiregrad.api import Circuit, Run
from wiregrad.backends import interpreter
from wiregrad.cli.failure import Failure, foreign
from wiregrad.cli.files import in_file, name_of, place_of
from wiregrad.cli.forms import FORMULA, read_circuit
from wiregrad.cli.values import WHOLE, kinds_of, pairs, read
from wiregrad.errors import InputError, OutputError, UnknownNameError
from wiregrad.ir.names import normal

if TYPE_CHECKING:
    from wiregrad.inspect.blame import Blame
    from wiregrad.inspect.check.findings import Checked

MOST = 40
"""Maximum number of names listed in an error message."""
_WHOLE_WANTED = re.compile(r"\b(an index|an int|integer|integers)\b")
"""Words in the messages of Python and NumPy where a float was given for a whole number."""


class Target(Protocol):
    """What every target can do, whether it is a formula, a circuit or a function."""

    def run(self) -> Run:
        """Run it forward and backward."""

    def blame(self) -> Blame:
        """Find what made something non-finite."""

    def check(self, order: int) -> Checked:
        """Compare its rules with differences."""

    def drawn(self) -> Circuit | Run:
        """Return what a picture shows."""

    def traced(self) -> tuple[Circuit, Mapping[str, Any]]:
        """Return its circuit, and the values that were given for the inputs."""


def target_of(text: str, values: Sequence[str], form: str | None = None) -> Target:
    """Return the target for a text and NAME=VALUE pairs; `-` is stdin, and `form` the form of a circuit file."""
    loaded = in_file(text) if form is None else None
    if loaded is None:
        loaded, form = read_circuit(text, form)
        if form == FORMULA:
            return CircuitTarget(loaded, _numbers(values))
    texts = pairs(values)
    if isinstance(loaded, ir.Circuit):
        return CircuitTarget(Circuit(loaded.columns), _fitting(loaded, texts))
    return FunctionTarget(loaded, texts, *arguments(loaded, texts))


def with_output(target: Target, name: str) -> CircuitTarget:
    """Return the circuit of a target with the named node as its only output.

    >>> with_output(target_of("e = a + b; f = e * c", ["a=2", "b=-3", "c=10"]), "e").run().output
    -1.0
    """
    circuit, values = target.traced()
    return CircuitTarget(circuit.with_output(known(circuit, name)), values)


def known(circuit: ir.Circuit, name: str) -> str:
    """Return the name if the circuit has a node of that name; otherwise raise an error that lists the names."""
    try:
        circuit.index(name)
    except UnknownNameError as error:
        names = [text for _, text in circuit.columns.names]
        more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
        raise click.UsageError(f"{error}\n  it has {', '.join(names[:MOST])}{more}") from None
    return name


def _fitting(circuit: ir.Circuit, texts: Mapping[str, str]) -> dict[str, Any]:
    """Read the values of a circuit; integers and booleans stay what they are where the circuit has such inputs."""
    kinds = {name: circuit.type_of(circuit.index(name)).dtype.kind for name in circuit.inputs}
    accepted = {"i": frozenset([int]), "b": frozenset([bool])}
    return {name: read(name, text, accepted.get(kinds.get(name, ""), frozenset())) for name, text in texts.items()}


def _numbers(values: Sequence[str]) -> dict[str, float]:
    """Read the values of a formula, which takes only numbers."""
    numbers = {name: read(name, text) for name, text in pairs(values).items()}
    for text, value in zip(values, numbers.values(), strict=True):
        if not isinstance(value, float):
            raise click.UsageError(
                f"the inputs of a formula are numbers; got {text!r}; a FILE.py:FUNCTION takes arrays, complex numbers, "
                "true, false and text"
            )
    return numbers


@dataclass(frozen=True)
class CircuitTarget:
    """A circuit and the values of its inputs."""

    circuit: Circuit
    values: Mapping[str, Any]

    def run(self) -> Run:
        """Run it forward and backward."""
        return self.circuit.run(self.values)

    def blame(self) -> Blame:
        """Find what made something non-finite; there may be arrays and several outputs."""
        return self._run_all().blame()

    def check(self, order: int) -> Checked:
        """Compare its rules with differences."""
        from wiregrad.inspect.check import check  # noqa: PLC0415 - only this question needs tracing

        return check(self.circuit, [self.values], order=order)

    def drawn(self) -> Circuit | Run:
        """Return a run if there are values and a scalar output, else the circuit alone."""
        with suppress(OutputError):
            return self.run() if self.values else self.circuit
        return self.circuit

    def traced(self) -> tuple[Circuit, Mapping[str, Any]]:
        """Return the circuit and the values."""
        values = {normal(name): value for name, value in self.values.items()}
        interpreter.check_known(values, self.circuit.inputs)
        return self.circuit, values

    def _run_all(self) -> Run:
        """Run it backward from all elements of all outputs at once."""
        return Run.of(interpreter.run_all(self.circuit, interpreter.bind(self.circuit, [self.values], {})))


@dataclass(frozen=True)
class FunctionTarget:
    """A Python function and its arguments; `texts` are the arguments as they were written."""

    function: Callable[..., Any]
    texts: Mapping[str, str]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self) -> Run:
        """Trace it and run its circuit forward and backward."""
        from wiregrad.api.values import run  # noqa: PLC0415 - a formula needs no tracing

        with self._called():
            return run(self.function, *self.args, **self.kwargs)

    def blame(self) -> Blame:
        """Find what made something non-finite; the function may return arrays, and several things."""
        from wiregrad.api.asking import blame  # noqa: PLC0415

        with self._called():
            return blame(self.function, *self.args, **self.kwargs)

    def check(self, order: int) -> Checked:
        """Compare its rules with differences."""
        from wiregrad.inspect.check import check  # noqa: PLC0415

        with self._called():
            return check(self.function, self.args, self.kwargs, order=order)

    def drawn(self) -> Circuit | Run:
        """Return a run, or the circuit alone if the function does not return a single number."""
        from wiregrad.api.values import run, trace  # noqa: PLC0415

        with self._called():
            try:
                return run(self.function, *self.args, **self.kwargs)
            except OutputError:
                return trace(self.function, *self.args, **self.kwargs)

    def traced(self) -> tuple[Circuit, Mapping[str, Any]]:
        """Trace it, and return the value of every input."""
        from wiregrad.api.values import traced  # noqa: PLC0415

        with self._called():
            circuit, inputs = traced(self.function, self.args, self.kwargs)
        return circuit, dict(zip(circuit.inputs, inputs, strict=True))

    @contextmanager
    def _called(self) -> Iterator[None]:
        """Turn errors of the function into failures, with a hint if a float was given for a whole number."""
        try:
            with foreign(name_of(self.function), place_of(self.function)), np.errstate(all="ignore"):
                yield
        except Failure as failure:
            hint = self._hint() if _WHOLE_WANTED.search(failure.message) else ""
            raise Failure(failure.message + hint) from failure.__cause__

    def _hint(self) -> str:
        """Return how to pass whole numbers that were read as floats; empty if there are none."""
        texts = [
            f"{name}={text}"
            for name, text in self.texts.items()
            if WHOLE.fullmatch(text) and isinstance(self._argument(name), float)
        ]
        if not texts:
            return ""
        are = "is a float" if len(texts) == 1 else "are floats"
        name = texts[-1].partition("=")[0]
        return f"\n  {' and '.join(texts)} {are} here; for a whole number annotate the parameter: {name}: int"

    def _argument(self, name: str) -> Any:
        return inspect.signature(self.function).bind(*self.args, **self.kwargs).arguments.get(name)


def arguments(function: Callable[..., Any], texts: Mapping[str, str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and keyword arguments of a function from texts by parameter name."""
    signature = _signature(function)
    accepted = {name: kinds_of(parameter) for name, parameter in signature.parameters.items()}
    values = {name: read(name, text, accepted.get(name, frozenset())) for name, text in texts.items()}
    first = [p for p in signature.parameters.values() if p.kind is p.POSITIONAL_ONLY]
    args = [values.pop(p.name, p.default) for p in first if p.name in values or p.default is not p.empty]
    try:
        bound = signature.bind(*args, **values)
    except TypeError as error:
        raise InputError(f"{name_of(function)}{signature}: {error}") from None
    if hasattr(inspect.unwrap(function), "__code__"):
        # Defaults are inputs too, but those of a function in C may be placeholders.
        bound.apply_defaults()
    return bound.args, bound.kwargs


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    # An annotation may name something imported only for type checkers; then annotations stay strings.
    for evaluated in (True, False):
        with suppress(Exception):
            return inspect.signature(function, eval_str=evaluated)
    raise click.UsageError(f"{name_of(function)} does not say what its parameters are; wrap it in a function that does")
