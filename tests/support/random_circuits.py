"""Random circuits that shrink: typed, seeded, made of all elementwise ops of the table.

A test draws circuits from a seed and checks a property. If the check fails, `shrink_circuit` looks for a smallest
circuit that still fails, and the error shows its text and the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from wiregrad.api import Builder, Circuit
from wiregrad.dtypes import BOOL
from wiregrad.errors import DomainError, WiregradError
from wiregrad.ir import DERIVE_MODE, TABLE, Pattern, Place, Port, Row
from wiregrad.ir.columns import Convention, encode_mode
from wiregrad.ops import Elementwise
from wiregrad.passes.rewriting import Rewriter, prune

CircuitCheck = Callable[[Circuit], None]
"""A function that raises AssertionError (or any other error) if a circuit fails the check."""


def random_circuit(rng: np.random.Generator, *, nodes: int = 12, ops: Sequence[Elementwise] | None = None) -> Circuit:
    """Return a random circuit of at most about `nodes` nodes.

    >>> random_circuit(np.random.default_rng(0)).inputs
    ('a', 'b', 'c', 'd')
    """
    builder = Builder()
    floats = [builder.input(name) for name in "abcd"[: rng.integers(1, 5)]]
    bools: list[Port] = []
    choices = ops or _elementwise_choices()
    for _ in range(nodes):
        op = choices[int(rng.integers(len(choices)))]
        if op.takes_bool and not bools:
            continue
        operands = _random_operands(rng, builder, op, floats, bools)
        place = Place("model.py", int(rng.integers(1, 50))) if rng.random() < 0.3 else None
        try:
            with builder.at(place, str(rng.choice(["", "net", "net/layer 1"]))):
                port = builder.apply(op, *operands, mode=_random_mode(rng, op))
        except DomainError:
            # The op does not accept a condition as a number.
            continue
        for _ in range(int(rng.choice([0, 0, 0, 1, 2]))):
            builder.name(port, builder.recording.free_name(f"{op.name}_{rng.integers(100)}"))
        (bools if builder.type_of(port) == BOOL else floats).append(port)
    return builder.build(floats[-1])


def _random_operands(
    rng: np.random.Generator, builder: Builder, op: Elementwise, floats: list[Port], bools: list[Port]
) -> list[Port]:
    """Return an operand for each input; now and then a condition in the place of a number."""
    return [
        bools[rng.integers(len(bools))]
        if name in op.takes_bool or (bools and rng.random() < 0.05)
        else _random_operand(rng, builder, floats)
        for name in op.inputs
    ]


def random_point(rng: np.random.Generator, circuit: Circuit) -> dict[str, float]:
    """Return a value for every input: mostly ordinary, sometimes exactly on a kink, rarely infinite or NaN."""
    ordinary = rng.normal(size=len(circuit.inputs)) * 2.0
    awkward = rng.choice([0.0, 0.0, 1.0, 1.0, -1.0, 0.5, 6.0, np.inf, np.nan], size=len(circuit.inputs))
    values = np.where(rng.random(len(circuit.inputs)) < 0.15, awkward, ordinary)
    return dict(zip(circuit.inputs, values.tolist(), strict=True))


def check_random_circuits(check: CircuitCheck, *, count: int, seed: int = 0, nodes: int = 20) -> None:
    """Check `count` random circuits; a failure names the seed and a smallest circuit that still fails."""
    for k in range(count):
        rng = np.random.default_rng([seed, k])
        circuit = random_circuit(rng, nodes=int(rng.integers(1, nodes + 1)))
        try:
            check(circuit)
        except Exception as error:
            small = shrink_circuit(circuit, lambda smaller: _check_fails(check, smaller))
            raise AssertionError(
                f"seed [{seed}, {k}] fails: {error!r}; smallest circuit that does:\n{small}"
            ) from error


def shrink_circuit(circuit: Circuit, fails: Callable[[Circuit], bool]) -> Circuit:
    """Return a circuit that still fails and none of whose smaller variants does."""
    smaller: Circuit | None = circuit
    while smaller is not None:
        circuit = smaller
        smaller = next((variant for variant in _smaller_circuits(circuit) if fails(variant)), None)
    return circuit


def _elementwise_choices() -> list[Elementwise]:
    return [op for op in TABLE if isinstance(op, Elementwise) and op.c and op.pattern is not Pattern.MERGE]


def _random_mode(rng: np.random.Generator, op: Elementwise) -> int:
    """Return a kink mode: mostly the op's default, sometimes with another convention and literal inputs."""
    if not op.kinks or rng.random() < 0.8:
        return DERIVE_MODE
    literal = [slot for slot in range(len(op.inputs)) if rng.random() < 0.3]
    return encode_mode(Convention(int(rng.integers(len(Convention)))), literal)


def _random_operand(rng: np.random.Generator, builder: Builder, pool: list[Port]) -> Port:
    if rng.random() < 0.15:
        return builder.constant(float(rng.choice([0.0, 1.0, -1.0, 2.0, 0.5, -0.0, 3.0])))
    # Recent nodes are more likely, so that circuits become deep as well as wide.
    return pool[max(rng.integers(len(pool)), rng.integers(len(pool)))]


def _check_fails(check: CircuitCheck, circuit: Circuit) -> bool:
    try:
        check(circuit)
    except WiregradError:
        # A variant that cannot run does not count as a failure.
        return False
    except Exception:
        return True
    return False


def _smaller_circuits(circuit: Circuit) -> Iterator[Circuit]:
    """Return smaller circuits: with an inner node as output, or with a node replaced by one of its inputs."""
    for node in range(circuit.size):
        if node != circuit.root() and circuit.type_of(node) == circuit.type_of(circuit.root()):
            smaller = Circuit(prune(circuit.with_output(circuit.name_of(node))).columns)
            if smaller.size < circuit.size:
                yield smaller
    for row in circuit.rows(backward=True):
        for source in row.sources:
            if circuit.type_of(source) == circuit.type_of(row.node):
                yield _bypass_node(circuit, row, source)


def _bypass_node(circuit: Circuit, bypassed: Row, source: int) -> Circuit:
    new = Rewriter(circuit)
    for row in circuit.rows():
        if row.node == bypassed.node:
            new.where[row.node] = new.where[source]
        else:
            new.copy_node(row, [new.where[k] for k in row.sources])
    return Circuit(prune(new.build_circuit()).columns)
