"""Certificates: what steered Python when a circuit was traced, and whether it would steer it the same way elsewhere.

A circuit that was traced holds one way through its function. It gives what the function gives wherever every certified
node carries what it carried then, bit for bit; NaN is NaN, whatever its bits. Everything that runs such a circuit asks
here, so that no answer comes from a way that the function would not go.
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
"""How many inputs a message names."""
MAX_DEPTH = 3
"""How many levels of nodes without a name are written out in a condition."""
_STATEMENT = re.compile(r"^(?:if|elif|while|assert|return) |:$")


class Checked(NamedTuple):
    """A circuit whose certified nodes are outputs behind its own, and what they are to carry."""

    circuit: Circuit
    certificates: tuple[Certificate, ...]

    def expected(self) -> list[Any]:
        """Return what each certified node carried, as its wire carries it."""
        return [expected(self.circuit, certificate) for certificate in self.certificates]


def checked(circuit: Circuit) -> Checked:
    """Return a circuit with its certified nodes as further outputs, each once.

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
    """Return the first certificate of each node: a loop may ask for one value many times."""
    found: dict[int, Certificate] = {}
    for certificate in circuit.certificates:
        found.setdefault(certificate.node, certificate)
    return tuple(found.values())


def expected(circuit: Circuit, certificate: Certificate) -> Any:
    """Return what a certified node carried, with the type and shape of its wire."""
    kind = circuit.type_of(certificate.node)
    with np.errstate(over="ignore"):
        outcome = np.asarray(certificate.outcome).astype(kind.dtype)
    return np.broadcast_to(outcome, kind.shape)[()]


def agree(one: Any, two: Any) -> bool:
    """Return whether two numbers or arrays are the same, bit for bit; NaN is NaN.

    >>> agree(np.float64(0.0), np.float64(-0.0)), agree(np.float64("nan"), -np.float64("nan"))
    (False, True)
    """
    a, b = np.asarray(one), np.asarray(two)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.tobytes() == b.tobytes():
        return True
    if a.dtype.kind not in "fc":
        return False
    nan = np.isnan(a) & np.isnan(b)
    return bool(nan.any()) and np.where(nan, 0, a).tobytes() == np.where(nan, 0, b).tobytes()


def agree_each(values: Any, wanted: Any) -> NDArray[np.bool_]:
    """Return for each of many numbers whether it is the one that is wanted, bit for bit; NaN is NaN.

    >>> agree_each(np.array([0.0, -0.0, 1.0]), np.float64(0.0)).tolist()
    [True, False, False]
    """
    found = np.asarray(values)
    if found.dtype.kind != "f":
        return np.asarray(found == wanted)
    if np.isnan(wanted):
        return np.asarray(np.isnan(found))
    return np.asarray((found == wanted) & (np.signbit(found) == np.signbit(wanted)))


def flipped(circuit: Circuit, values: Sequence[Any]) -> Certificate | None:
    """Return the first certificate that does not hold, given what every node carries."""
    for certificate in circuit.columns.certificates:
        if not agree(values[certificate.node], expected(circuit, certificate)):
            return certificate
    return None


def check(circuit: Circuit, values: Sequence[Any]) -> None:
    """Raise `BranchError` unless every certificate holds, given what every node carries."""
    certificate = flipped(circuit, values)
    if certificate is not None:
        raise BranchError(explain(circuit, values, certificate), place=certificate.place)


def take_option(circuit: Circuit, inputs: dict[str, Any]) -> bool:
    """Take `check=...` out of the keywords of a call; returns whether certificates are to be checked.

    An input may be called `check` too. Then the keyword is the input, and `circuit.unchecked()` opts out.

    >>> import wiregrad as wg
    >>> given = {"x": 1.0, "check": False}
    >>> take_option(wg.circuit("x * x"), given), given
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
    """Return what to say of a certificate that does not hold: the condition, its line, and the inputs."""
    now = _brief(values[certificate.node])
    given = _inputs(circuit, values, certificate.node)
    at = f"at {given}" if given else "now"
    advice = "trace it there, use wg.compile(f), or pass check=False"
    said = describe(circuit, certificate)
    if isinstance(certificate.outcome, bool | np.bool_):
        return f"this circuit was traced where {said}; {at} it is {now}, so the function would go another way; {advice}"
    return (
        f"this circuit was traced where {said}; {at} it is {now}. What Python did with a number that left the "
        f"recording (print it, index with it, compute with it) is fixed, so the circuit is valid at that number only; "
        f"{advice}"
    )


def describe(circuit: Circuit, certificate: Certificate) -> str:
    """Say what a certificate certifies: the condition, how it came out, and the line.

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
    """Write what a certified node computes; the line of code, where nodes without a name would say less."""
    text = write_node(circuit, certificate.node)
    if "%" not in text or certificate.place is None:
        return text
    return _line(certificate.place) or text


def write_node(circuit: Circuit, node: int, depth: int = MAX_DEPTH) -> str:
    """Write what a node computes, with nodes that have no name written out a few levels deep.

    >>> import wiregrad as wg
    >>> circuit = wg.trace(lambda x: abs(x) < 1.0, 2.0)
    >>> write_node(circuit, circuit.root())
    'abs(x) < 1.0'
    """
    op, sources = circuit.op_of(node), circuit.sources_of(node)
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
    inside = [f"({text})" if " " in text and op.infix and not text.endswith(")") else text for text in texts]
    return op.expression(*inside)


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
    seen, stack = set[int](), [node]
    while stack:
        current = stack.pop()
        if current not in seen:
            seen.add(current)
            stack += circuit.sources_of(current)
    inputs = [k for k in circuit.input_indices() if k in seen]
    texts = [f"{circuit.name_of(k)} = {_brief(values[k])}" for k in inputs[:MAX_INPUTS]]
    return ", ".join([*texts, *(["..."] if len(inputs) > MAX_INPUTS else [])])


def _brief(value: Any) -> str:
    """Write a number so that it can be told from its neighbours, and a large array by its shape."""
    array = np.asarray(value)
    if array.size > 6:
        return f"an array of shape {array.shape}"
    return repr(plain(array[()])) if not array.shape else repr(array.tolist())
