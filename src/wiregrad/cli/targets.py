"""What a command is about: a formula, a circuit file, or a circuit or function in a Python file, and its values."""

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
"""How many names a list of them has."""
_WHOLE_WANTED = re.compile(r"\b(an index|an int|integer|integers)\b")
"""What errors say where a whole number was wanted."""


class Target(Protocol):
    """What can be asked of a formula, a circuit and a function alike."""

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
    """Return what a text and NAME=VALUE pairs stand for; `-` is stdin, and a form says what a file holds."""
    found = in_file(text) if form is None else None
    if found is None:
        found, form = read_circuit(text, form)
        if form == FORMULA:
            return CircuitTarget(found, _numbers(values))
    given = pairs(values)
    if isinstance(found, ir.Circuit):
        return CircuitTarget(Circuit(found.columns), _fitting(found, given))
    return FunctionTarget(found, given, *arguments(found, given))


def with_output(target: Target, name: str) -> CircuitTarget:
    """Return the circuit of a target with one node, called by its name, as the output.

    >>> with_output(target_of("e = a + b; f = e * c", ["a=2", "b=-3", "c=10"]), "e").run().output
    -1.0
    """
    circuit, values = target.traced()
    return CircuitTarget(circuit.with_output(known(circuit, name)), values)


def known(circuit: ir.Circuit, name: str) -> str:
    """Return the name of a node; if there is none, say which there are."""
    try:
        circuit.index(name)
    except UnknownNameError as error:
        names = [text for _, text in circuit.columns.names]
        more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
        raise click.UsageError(f"{error}\n  it has {', '.join(names[:MOST])}{more}") from None
    return name


def _fitting(circuit: ir.Circuit, given: Mapping[str, str]) -> dict[str, Any]:
    """Read the values of a circuit; where it wants whole numbers, they stay whole."""
    kinds = {name: circuit.type_of(circuit.index(name)).dtype.kind for name in circuit.inputs}
    wanted = {"i": frozenset([int]), "b": frozenset([bool])}
    return {name: read(name, text, wanted.get(kinds.get(name, ""), frozenset())) for name, text in given.items()}


def _numbers(values: Sequence[str]) -> dict[str, float]:
    """Read the values of a formula, which takes numbers alone."""
    found = {name: read(name, text) for name, text in pairs(values).items()}
    for text, value in zip(values, found.values(), strict=True):
        if not isinstance(value, float):
            raise click.UsageError(
                f"the inputs of a formula are numbers; got {text!r}; a FILE.py:FUNCTION takes arrays, complex numbers, "
                "true, false and text"
            )
    return found


@dataclass(frozen=True)
class CircuitTarget:
    """A circuit and its inputs."""

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
        """Return a run if there are values and a single number to go back from, else the bare circuit."""
        with suppress(OutputError):
            return self.run() if self.values else self.circuit
        return self.circuit

    def traced(self) -> tuple[Circuit, Mapping[str, Any]]:
        """Return the circuit and the values."""
        values = {normal(name): value for name, value in self.values.items()}
        interpreter.check_known(values, self.circuit.inputs)
        return self.circuit, values

    def _run_all(self) -> Run:
        """Run it back from all numbers of all outputs at once."""
        return Run.of(interpreter.run_all(self.circuit, interpreter.bind(self.circuit, [self.values], {})))


@dataclass(frozen=True)
class FunctionTarget:
    """A Python function and its arguments; `given` is how they were written."""

    function: Callable[..., Any]
    given: Mapping[str, str]
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
        """Return a run; the bare circuit of a function that gives no single number to go back from."""
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
        """Tell what goes wrong in the function, and what may have been meant."""
        try:
            with foreign(name_of(self.function), place_of(self.function)), np.errstate(all="ignore"):
                yield
        except Failure as failure:
            hint = self._hint() if _WHOLE_WANTED.search(failure.message) else ""
            raise Failure(failure.message + hint) from failure.__cause__

    def _hint(self) -> str:
        """Return what to do about whole numbers that became floats; empty if there are none."""
        texts = [
            f"{name}={text}"
            for name, text in self.given.items()
            if WHOLE.fullmatch(text) and isinstance(self._argument(name), float)
        ]
        are = "is a float" if len(texts) == 1 else "are floats"
        name = texts[-1].partition("=")[0] if texts else ""
        said = f"{' and '.join(texts)} {are} here; for a whole number annotate the parameter: {name}: int"
        return f"\n  {said}" if texts else ""

    def _argument(self, name: str) -> Any:
        return inspect.signature(self.function).bind(*self.args, **self.kwargs).arguments.get(name)


def arguments(function: Callable[..., Any], given: Mapping[str, str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a function, given by name as text."""
    signature = _signature(function)
    said = {name: kinds_of(parameter) for name, parameter in signature.parameters.items()}
    values = {name: read(name, text, said.get(name, frozenset())) for name, text in given.items()}
    first = [p for p in signature.parameters.values() if p.kind is p.POSITIONAL_ONLY]
    args = [values.pop(p.name, p.default) for p in first if p.name in values or p.default is not p.empty]
    try:
        bound = signature.bind(*args, **values)
    except TypeError as error:
        raise InputError(f"{name_of(function)}{signature}: {error}") from None
    if hasattr(inspect.unwrap(function), "__code__"):
        # Defaults are inputs too; those of functions that are not written in Python may be no values at all.
        bound.apply_defaults()
    return bound.args, bound.kwargs


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    # An annotation may name what is imported for type checkers only: then it is left as it is written.
    for evaluated in (True, False):
        with suppress(Exception):
            return inspect.signature(function, eval_str=evaluated)
    raise click.UsageError(f"{name_of(function)} does not say what its parameters are; wrap it in a function that does")
