"""Certificates: the values that steered Python when a circuit was traced, and checks that they are still the same.

A value steers Python if Python code branches on it, or if it leaves the recording as a plain number.

A traced circuit contains one path through its function. It computes what the function computes wherever every certified
node has the value that it had then, bit for bit (all NaNs count as equal). Everything that runs such a circuit checks
its certificates here, so that no result comes from a branch that the function would not take.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.dtypes import WireValue, to_python_number
from wiregrad.errors import BranchError, InputError, read_line_of_code, short_repr
from wiregrad.ir.circuit import CircuitGraph
from wiregrad.ir.columns import Certificate, Place
from wiregrad.ir.op import Pattern
from wiregrad.lazy import NamedTuple

MAX_SHOWN_INPUTS = 4
"""Maximum number of inputs that a message lists."""
MAX_SHOWN_DEPTH = 3
"""Maximum depth to which unnamed nodes are written out in a condition."""
_STATEMENT_WORDS = re.compile(r"^(?:if|elif|while|assert|return) |:$")


class CircuitWithChecks(NamedTuple):
    """A circuit whose certified nodes are added to its outputs, and the certificates in the same order."""

    circuit: CircuitGraph
    certificates: tuple[Certificate, ...]

    def expected_values(self) -> list[WireValue]:
        """Return the value of each certified node when the circuit was traced, in the type of its wire."""
        return [expected_value(self.circuit, certificate) for certificate in self.certificates]


def add_check_outputs(circuit: CircuitGraph) -> CircuitWithChecks:
    """Return a circuit with its certified nodes as additional outputs, each once.

    >>> import wiregrad as wg
    >>> add_check_outputs(wg.trace(lambda x: x * x if x > 1.0 else x, 3.0)).circuit.outputs
    ('f', 'check_1')
    """
    certificates = distinct_certificates(circuit)
    labels = list(circuit.outputs)
    for number in range(1, len(certificates) + 1):
        label = f"check_{number}"
        while label in circuit or label in labels:
            label += "_"
        labels.append(label)
    nodes = [*circuit.columns.outputs.tolist(), *(certificate.node for certificate in certificates)]
    columns = replace(circuit.columns, outputs=np.array(nodes, np.int32), labels=tuple(labels), certificates=())
    return CircuitWithChecks(type(circuit)(columns), certificates)


def distinct_certificates(circuit: CircuitGraph) -> tuple[Certificate, ...]:
    """Return the first certificate of each node; a loop may test the same value many times."""
    first: dict[int, Certificate] = {}
    for certificate in circuit.certificates:
        first.setdefault(certificate.node, certificate)
    return tuple(first.values())


def expected_value(circuit: CircuitGraph, certificate: Certificate) -> WireValue:
    """Return the value of a certified node when the circuit was traced, with the type and shape of its wire."""
    kind = circuit.type_of(certificate.node)
    with np.errstate(over="ignore"):
        outcome = np.asarray(certificate.outcome).astype(kind.dtype)
    return np.broadcast_to(outcome, kind.shape)[()]


def have_same_bits(one: ArrayLike, two: ArrayLike) -> bool:
    """Return whether two numbers or arrays are equal bit for bit; all NaNs count as equal.

    >>> have_same_bits(np.float64(0.0), np.float64(-0.0)), have_same_bits(np.float64("nan"), -np.float64("nan"))
    (False, True)
    """
    a = np.asarray(one)
    b = np.asarray(two)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.tobytes() == b.tobytes():
        return True
    if a.dtype.kind not in "fc":
        return False
    nan = np.isnan(a) & np.isnan(b)
    return bool(nan.any()) and np.where(nan, 0, a).tobytes() == np.where(nan, 0, b).tobytes()


def compare_bits_each(values: ArrayLike, wanted: WireValue) -> NDArray[np.bool_]:
    """Return for each number whether it equals the wanted one bit for bit; all NaNs count as equal.

    >>> compare_bits_each(np.array([0.0, -0.0, 1.0]), np.float64(0.0)).tolist()
    [True, False, False]
    """
    numbers = np.asarray(values)
    if numbers.dtype.kind != "f":
        return np.asarray(numbers == wanted)
    if np.isnan(wanted):
        return np.asarray(np.isnan(numbers))
    return np.asarray((numbers == wanted) & (np.signbit(numbers) == np.signbit(wanted)))


def find_flipped(circuit: CircuitGraph, values: Sequence[Any]) -> Certificate | None:
    """Return the first certificate that does not hold for these values of all nodes, or None."""
    for certificate in circuit.columns.certificates:
        if not have_same_bits(values[certificate.node], expected_value(circuit, certificate)):
            return certificate
    return None


def check_certificates(circuit: CircuitGraph, values: Sequence[Any]) -> None:
    """Raise `BranchError` if a certificate does not hold for these values of all nodes."""
    certificate = find_flipped(circuit, values)
    if certificate is not None:
        raise BranchError(explain_flip(circuit, values, certificate), place=certificate.place)


def pop_check_option(circuit: CircuitGraph, inputs: dict[str, Any]) -> bool:
    """Remove `check=...` from the keyword arguments of a call; return whether certificates are to be checked.

    If an input is called `check`, the keyword is that input, and `circuit.unchecked()` turns the checks off.

    >>> import wiregrad as wg
    >>> inputs = {"x": 1.0, "check": False}
    >>> pop_check_option(wg.circuit("x * x"), inputs), inputs
    (False, {'x': 1.0})
    """
    if "check" not in inputs:
        return True
    if "check" in circuit.inputs:
        if isinstance(inputs["check"], bool) and circuit.certificates:
            raise InputError(
                "this circuit has an input called check, so check=... is its value; to run the circuit without "
                "checking its branches, use circuit.unchecked()"
            )
        return True
    option = inputs.pop("check")
    if not isinstance(option, bool):
        raise InputError(f"check is True or False; got {short_repr(option)}")
    return option


def explain_flip(circuit: CircuitGraph, values: Sequence[Any], certificate: Certificate) -> str:
    """Explain a certificate that does not hold: the condition, its line, and the inputs that it depends on."""
    now = _write_briefly(values[certificate.node])
    inputs = _write_inputs(circuit, values, certificate.node)
    at = f"at {inputs}" if inputs else "now"
    advice = "trace it there, use wg.compile(f), or pass check=False"
    then = describe_certificate(circuit, certificate)
    if isinstance(certificate.outcome, bool | np.bool_):
        consequence = f"so the function would take another branch; {advice}"
        return f"this circuit was traced where {then}; {at} it is {now}, {consequence}"
    return (
        f"this circuit was traced where {then}; {at} it is {now}. What Python did with a number that left the "
        f"recording (print it, index with it, compute with it) is fixed, so the circuit is valid at that number only; "
        f"{advice}"
    )


def describe_certificate(circuit: CircuitGraph, certificate: Certificate) -> str:
    """Describe a certificate: the condition, its outcome, and the line.

    >>> import wiregrad as wg
    >>> circuit = wg.trace(lambda x: x * x if abs(x) < 1.0 else x, 0.5)
    >>> describe_certificate(circuit, circuit.certificates[0]).partition(" (")[0]
    'abs(x) < 1.0 was True'
    """
    place = certificate.place
    text = write_condition(circuit, certificate)
    where = "" if place is None else f" ({place.without_folder()})"
    if isinstance(certificate.outcome, bool | np.bool_):
        return f"{text} was {bool(certificate.outcome)}{where}"
    return f"{text} left the recording as {_write_briefly(certificate.outcome)}{where}"


def write_condition(circuit: CircuitGraph, certificate: Certificate) -> str:
    """Write what a certified node computes, or its line of code if the text would contain unnamed nodes."""
    text = write_node(circuit, certificate.node)
    source = circuit.columns.expressions.label_of(certificate.node)
    nested = any(_is_nameless(circuit, operand) for operand in circuit.sources_of(certificate.node))
    if source is not None and nested and len(source) < len(text):
        return source
    if "%" not in text:
        return text
    line = "" if certificate.place is None else _read_source_line(certificate.place)
    return source or line or circuit.title_of(certificate.node)


def write_node(circuit: CircuitGraph, node: int, depth: int = MAX_SHOWN_DEPTH) -> str:
    """Write what a node computes; unnamed nodes are written out down to a depth.

    >>> import wiregrad as wg
    >>> circuit = wg.trace(lambda x: abs(x) < 1.0, 2.0)
    >>> write_node(circuit, circuit.root())
    'abs(x) < 1.0'
    """
    op = circuit.op_of(node)
    sources = circuit.sources_of(node)
    if not sources:
        return _write_operand(circuit, node)
    texts = [
        write_node(circuit, source, depth - 1)
        if depth and _is_nameless(circuit, source)
        else _write_operand(circuit, source)
        for source in sources
    ]
    if op.pattern is Pattern.MERGE or op.name == "spread":
        return texts[0]
    if op.name == "absolute":
        return f"abs({texts[0]})"
    operands = [f"({text})" if " " in text and op.infix and not text.endswith(")") else text for text in texts]
    return op.expression(*operands)


def _is_nameless(circuit: CircuitGraph, node: int) -> bool:
    return bool(circuit.sources_of(node)) and not circuit.columns.names.names_of(node)


def _write_operand(circuit: CircuitGraph, node: int) -> str:
    shape = circuit.type_of(node).shape
    is_constant = not circuit.sources_of(node) and not circuit.columns.names.names_of(node)
    if shape and is_constant:
        return f"array of shape {shape}"
    return circuit.operand_text(node)


def _read_source_line(place: Place) -> str:
    return _STATEMENT_WORDS.sub("", read_line_of_code(place.file, place.line).strip())


def _write_inputs(circuit: CircuitGraph, values: Sequence[Any], node: int) -> str:
    """Write the inputs that a node depends on, with their values."""
    seen: set[int] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        if current not in seen:
            seen.add(current)
            stack += circuit.sources_of(current)
    inputs = [k for k in circuit.input_indices() if k in seen]
    texts = [f"{circuit.name_of(k)} = {_write_briefly(values[k])}" for k in inputs[:MAX_SHOWN_INPUTS]]
    return ", ".join([*texts, *(["..."] if len(inputs) > MAX_SHOWN_INPUTS else [])])


def _write_briefly(value: ArrayLike) -> str:
    """Write a number with all its digits, and a large array by its shape."""
    array = np.asarray(value)
    if array.size > 6:
        return f"an array of shape {array.shape}"
    return repr(to_python_number(array[()])) if not array.shape else repr(array.tolist())
