"""Certificates: the values that steered Python when a circuit was traced, and checks that they are still the same.

A traced circuit contains one path through its function. It computes what the function computes wherever every certified
node has the value that it had then, bit for bit (all NaNs count as equal). Everything that runs such a circuit checks
its certificates here, so that no result comes from a branch that the function would not take.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import plain
from wiregrad.errors import BranchError, InputError, shown
from wiregrad.ir.circuit import Circuit
from wiregrad.ir.flat import Certificate, Place
from wiregrad.ir.op import Pattern

MAX_INPUTS = 4
"""Maximum number of inputs that a message lists."""
MAX_DEPTH = 3
"""Maximum depth to which unnamed nodes are written out in a condition."""
_STATEMENT = re.compile(r"^(?:if|elif|while|assert|return) |:$")


class Checked(NamedTuple):
    """A circuit whose certified nodes are added to its outputs, and the certificates in the same order."""

    circuit: Circuit
    certificates: tuple[Certificate, ...]

    def expected(self) -> list[Any]:
        """Return the value of each certified node when the circuit was traced, in the type of its wire."""
        return [expected(self.circuit, certificate) for certificate in self.certificates]


def checked(circuit: Circuit) -> Checked:
    """Return a circuit with its certified nodes as additional outputs, each once.

    >>> import wiregrad as wg
    >>> checked(wg.trace(lambda x: x * x if x > 1.0 else x, 3.0)).circuit.outputs
    ('f', 'check_1')
    """
    certificates = distinct(circuit)
    labels = list(circuit.outputs)
    for number in range(1, len(certificates) + 1):
        label = f"check_{number}"
        while label in circuit or label in labels:
            label += "_"
        labels.append(label)
    nodes = [*circuit.columns.outputs.tolist(), *(certificate.node for certificate in certificates)]
    columns = replace(circuit.columns, outputs=np.array(nodes, np.int32), labels=tuple(labels), certificates=())
    return Checked(type(circuit)(columns), certificates)


def distinct(circuit: Circuit) -> tuple[Certificate, ...]:
    """Return the first certificate of each node; a loop may test the same value many times."""
    first: dict[int, Certificate] = {}
    for certificate in circuit.certificates:
        first.setdefault(certificate.node, certificate)
    return tuple(first.values())


def expected(circuit: Circuit, certificate: Certificate) -> Any:
    """Return the value of a certified node when the circuit was traced, with the type and shape of its wire."""
    kind = circuit.type_of(certificate.node)
    with np.errstate(over="ignore"):
        outcome = np.asarray(certificate.outcome).astype(kind.dtype)
    return np.broadcast_to(outcome, kind.shape)[()]


def agree(one: Any, two: Any) -> bool:
    """Return whether two numbers or arrays are equal bit for bit; all NaNs count as equal.

    >>> agree(np.float64(0.0), np.float64(-0.0)), agree(np.float64("nan"), -np.float64("nan"))
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


def agree_each(values: Any, wanted: Any) -> NDArray[np.bool_]:
    """Return for each number whether it equals the wanted one bit for bit; all NaNs count as equal.

    >>> agree_each(np.array([0.0, -0.0, 1.0]), np.float64(0.0)).tolist()
    [True, False, False]
    """
    numbers = np.asarray(values)
    if numbers.dtype.kind != "f":
        return np.asarray(numbers == wanted)
    if np.isnan(wanted):
        return np.asarray(np.isnan(numbers))
    return np.asarray((numbers == wanted) & (np.signbit(numbers) == np.signbit(wanted)))


def flipped(circuit: Circuit, values: Sequence[Any]) -> Certificate | None:
    """Return the first certificate that does not hold for these values of all nodes, or None."""
    for certificate in circuit.columns.certificates:
        if not agree(values[certificate.node], expected(circuit, certificate)):
            return certificate
    return None


def check(circuit: Circuit, values: Sequence[Any]) -> None:
    """Raise `BranchError` if a certificate does not hold for these values of all nodes."""
    certificate = flipped(circuit, values)
    if certificate is not None:
        raise BranchError(explain(circuit, values, certificate), place=certificate.place)


def take_option(circuit: Circuit, inputs: dict[str, Any]) -> bool:
    """Remove `check=...` from the keyword arguments of a call; return whether certificates are to be checked.

    If an input is called `check`, the keyword is that input, and `circuit.unchecked()` turns the checks off.

    >>> import wiregrad as wg
    >>> inputs = {"x": 1.0, "check": False}
    >>> take_option(wg.circuit("x * x"), inputs), inputs
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
        raise InputError(f"check is True or False; got {shown(option)}")
    return option


def explain(circuit: Circuit, values: Sequence[Any], certificate: Certificate) -> str:
    """Explain a certificate that does not hold: the condition, its line, and the inputs that it depends on."""
    now = _brief(values[certificate.node])
    inputs = _inputs(circuit, values, certificate.node)
    at = f"at {inputs}" if inputs else "now"
    advice = "trace it there, use wg.compile(f), or pass check=False"
    then = describe(circuit, certificate)
    if isinstance(certificate.outcome, bool | np.bool_):
        return f"this circuit was traced where {then}; {at} it is {now}, so the function would go another way; {advice}"
    return (
        f"this circuit was traced where {then}; {at} it is {now}. What Python did with a number that left the "
        f"recording (print it, index with it, compute with it) is fixed, so the circuit is valid at that number only; "
        f"{advice}"
    )


def describe(circuit: Circuit, certificate: Certificate) -> str:
    """Describe a certificate: the condition, its outcome, and the line.

    >>> import wiregrad as wg
    >>> circuit = wg.trace(lambda x: x * x if abs(x) < 1.0 else x, 0.5)
    >>> describe(circuit, circuit.certificates[0]).partition(" (")[0]
    'abs(x) < 1.0 was True'
    """
    place = certificate.place
    text = condition(circuit, certificate)
    where = "" if place is None else f" ({place.without_folder()})"
    if isinstance(certificate.outcome, bool | np.bool_):
        return f"{text} was {bool(certificate.outcome)}{where}"
    return f"{text} left the recording as {_brief(certificate.outcome)}{where}"


def condition(circuit: Circuit, certificate: Certificate) -> str:
    """Write what a certified node computes, or its line of code if the text would contain unnamed nodes."""
    text = write_node(circuit, certificate.node)
    if "%" not in text or certificate.place is None:
        return text
    return _line(certificate.place) or text


def write_node(circuit: Circuit, node: int, depth: int = MAX_DEPTH) -> str:
    """Write what a node computes; unnamed nodes are written out down to a depth.

    >>> import wiregrad as wg
    >>> circuit = wg.trace(lambda x: abs(x) < 1.0, 2.0)
    >>> write_node(circuit, circuit.root())
    'abs(x) < 1.0'
    """
    op = circuit.op_of(node)
    sources = circuit.sources_of(node)
    if not sources:
        return _operand(circuit, node)
    texts = [
        write_node(circuit, source, depth - 1) if depth and _is_nameless(circuit, source) else _operand(circuit, source)
        for source in sources
    ]
    if op.pattern is Pattern.MERGE or op.name == "spread":
        return texts[0]
    if op.name == "absolute":
        return f"abs({texts[0]})"
    operands = [f"({text})" if " " in text and op.infix and not text.endswith(")") else text for text in texts]
    return op.expression(*operands)


def _is_nameless(circuit: Circuit, node: int) -> bool:
    return bool(circuit.sources_of(node)) and not circuit.columns.names.of(node)


def _operand(circuit: Circuit, node: int) -> str:
    shape = circuit.type_of(node).shape
    is_constant = not circuit.sources_of(node) and not circuit.columns.names.of(node)
    return f"array of shape {shape}" if shape and is_constant else circuit.operand_text(node)


def _line(place: Place) -> str:
    return _STATEMENT.sub("", linecache.getline(place.file, place.line).strip())


def _inputs(circuit: Circuit, values: Sequence[Any], node: int) -> str:
    """Write the inputs that a node depends on, with their values."""
    seen: set[int] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        if current not in seen:
            seen.add(current)
            stack += circuit.sources_of(current)
    inputs = [k for k in circuit.input_indices() if k in seen]
    texts = [f"{circuit.name_of(k)} = {_brief(values[k])}" for k in inputs[:MAX_INPUTS]]
    return ", ".join([*texts, *(["..."] if len(inputs) > MAX_INPUTS else [])])


def _brief(value: Any) -> str:
    """Write a number with all its digits, and a large array by its shape."""
    array = np.asarray(value)
    if array.size > 6:
        return f"an array of shape {array.shape}"
    return repr(plain(array[()])) if not array.shape else repr(array.tolist())
