"""Checks of circuits that come from outside, such as from a file: nothing is trusted before it has passed them.

`verify` checks that arrays form a circuit. Before that, while a file or a text is read, the number of nodes and the
settings of ops are checked. Settings are passed to NumPy by name, so only those that the op's own function declares are
accepted, and only numbers, words and short lists of them as values.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from wiregrad.errors import CircuitError, DuplicateNameError, short_repr, suggest_name
from wiregrad.ir.circuit import CircuitGraph
from wiregrad.ir.columns import CircuitColumns, NodeLabels, check_name
from wiregrad.ir.op import CONSTANT_CODE, INPUT_CODE, TABLE, Op, count_inputs, is_variadic
from wiregrad.ir.types_and_kinks import MAX_LITERAL_SLOTS, Convention, infer_types


def verify(circuit: CircuitGraph) -> CircuitGraph:
    """Return the circuit if it is well formed; raise `CircuitError` otherwise."""
    check_arrays(circuit.columns)
    _check_labels(circuit.columns, circuit.columns.places, circuit.columns.groups)
    _check_names(circuit)
    _check_types(circuit)
    return circuit


def check_arrays(columns: CircuitColumns) -> None:
    """Raise `CircuitError` unless the arrays form a circuit; native code relies on no more than this."""
    _check_shape(columns)
    _check_order(columns)
    _check_arity(columns)
    _check_leaves(columns)


def _require(holds: bool | np.bool_, message: str) -> None:
    if not holds:
        raise CircuitError(message)


def _check_shape(c: CircuitColumns) -> None:
    size = len(c.codes)
    _require(len(c.starts) == size + 1, f"{size} nodes need {size + 1} starts; got {len(c.starts)}")
    _require(c.starts[0] == 0 and c.starts[-1] == len(c.sources), "starts must run from 0 to the number of wires")
    _require(np.all(np.diff(c.starts) >= 0), "starts must not decrease")
    _require(len(c.types) == size, f"{size} nodes need {size} types; got {len(c.types)}")
    _require(
        np.all((c.types >= 0) & (c.types < len(c.type_table))),
        "the type of every node must be an index into the type table",
    )
    _require(c.modes is None or len(c.modes) == size, f"{size} nodes need {size} modes")
    if c.modes is not None and np.all(c.codes < len(TABLE.by_code())):
        _require(np.all(c.modes & 3 < len(Convention)), "a mode names a convention that does not exist")
        limits = 4 << np.minimum(TABLE.tabulate(count_inputs), MAX_LITERAL_SLOTS)[c.codes]
        _require(np.all(c.modes < limits), "a mode names an input that does not exist")
    _check_labels(c, c.settings)
    _require(
        size > 0 and np.all((c.codes >= 0) & (c.codes < len(TABLE.by_code()))),
        "every node needs a known op, and a circuit at least one node",
    )


def _check_labels(c: CircuitColumns, *columns: NodeLabels[Any]) -> None:
    """Check labels of nodes; those of a trace are found when they are asked for, so native code does not ask."""
    size = len(c.codes)
    for labels in columns:
        _require(labels.index is None or len(labels.index) == size, f"{size} nodes need {size} labels")
        _require(
            labels.index is None or np.all(labels.index < len(labels.table)),
            "every label must be an index into its table",
        )


def _check_order(c: CircuitColumns) -> None:
    readers = np.repeat(np.arange(len(c.codes)), np.diff(c.starts))
    wrong = np.flatnonzero((c.sources < 0) | (c.sources >= readers))
    if len(wrong):
        k = int(wrong[0])
        raise CircuitError(f"node {readers[k]} reads node {c.sources[k]}, which does not come before it")


def _check_arity(c: CircuitColumns) -> None:
    arities = TABLE.tabulate(count_inputs)[c.codes]
    counts = np.diff(c.starts)
    variadic = TABLE.tabulate(is_variadic)[c.codes]
    wrong = np.flatnonzero((arities != counts) & ~(variadic & (counts > 0)))
    if len(wrong):
        k = int(wrong[0])
        op = TABLE.by_code()[c.codes[k]]
        raise CircuitError(f"node {k} applies {op.name} to {counts[k]} wires; it takes {arities[k]}")


def _check_leaves(c: CircuitColumns) -> None:
    constants = np.flatnonzero(c.codes == CONSTANT_CODE)
    _require(np.array_equal(constants, c.constant_nodes), "constant_nodes must list the constant nodes")
    _require(len(constants) == len(c.constants), f"{len(constants)} constants need as many values")
    _require(len(c.outputs) > 0 and len(c.outputs) == len(c.labels), "a circuit needs an output, each with a label")
    _require(np.all((c.outputs >= 0) & (c.outputs < len(c.codes))), "an output must be one of the nodes")


def _check_names(circuit: CircuitGraph) -> None:
    c = circuit.columns
    for label in (c.name, *c.labels):
        check_name(label)
    _require(
        np.all((c.names.nodes >= 0) & (c.names.nodes < len(c.codes))),
        "a name must belong to one of the nodes",
    )
    if len(set(c.labels)) != len(c.labels):
        raise DuplicateNameError("two outputs have the same label")
    duplicate = c.names.find_duplicate()
    if duplicate is not None:
        raise DuplicateNameError(f"two nodes are called {duplicate}")
    wrong = circuit.misnamed_output()
    _require(wrong is None, f"output {wrong} is not the node called {wrong}")
    unnamed = np.setdiff1d(np.flatnonzero(c.codes == INPUT_CODE), c.names.nodes)
    _require(len(unnamed) == 0, "every input needs a name")


def _check_types(circuit: CircuitGraph) -> None:
    c = circuit.columns
    rows = ((row.op, row.sources) for row in circuit.rows())
    inputs = {node: circuit.type_of(node) for node in circuit.input_indices()}
    types, table = infer_types(rows, inputs, c.constants, circuit.name_of)
    for node, (claimed, inferred) in enumerate(zip(c.types.tolist(), types.tolist(), strict=True)):
        if c.type_table[claimed] != table[inferred]:
            raise CircuitError(f"node {node} states type {c.type_table[claimed]}; its op gives {table[inferred]}")


PlainSetting: TypeAlias = bool | int | float | str | None
FrozenSetting: TypeAlias = PlainSetting | tuple["FrozenSetting", ...]
"""An immutable setting from outside: lists are converted to tuples."""

MAX_NODES = 5_000_000
"""Maximum number of nodes of a circuit from outside."""
MAX_SETTING_ITEMS = 1000
"""Maximum number of items of a setting."""
MAX_SETTING_WORD = 100
"""Maximum length of a word in a setting."""
MAX_SETTING_LEVELS = 4
"""Maximum nesting of the lists in a setting."""


def check_node_count(count: int) -> None:
    """Raise if a circuit from outside has too many nodes."""
    if count > MAX_NODES:
        raise CircuitError(f"the circuit has {count:,} nodes; the limit is {MAX_NODES:,}")


def bind_untrusted(op: Op, settings: Mapping[str, object]) -> Op:
    """Bind an op to settings from outside, with lists converted to tuples; raise if the op has no such settings.

    >>> from wiregrad.ir import TABLE
    >>> bind_untrusted(TABLE["sum"], {"axes": [-1], "keepdims": False}).settings
    (('axes', (-1,)), ('keepdims', False))
    """
    if op.per_call:
        raise CircuitError(f"{op.name} stands for a Python function, which cannot be stored as text or in a file")
    names, needed = declared_settings(op)
    for name in settings:
        if name not in names:
            has = f"its settings are {', '.join(names)}" if names else "it has none"
            raise CircuitError(f"{op.name} has no setting {short_repr(name)}{suggest_name(name, names)}; {has}")
    missing = [name for name in needed if name not in settings]
    if missing:
        raise CircuitError(f"{op.name} needs the setting {missing[0]}; wanted {', '.join(needed)}")
    return op.bind({name: freeze_setting(name, value) for name, value in settings.items()}) if settings else op


@lru_cache(1024)
def declared_settings(op: Op) -> tuple[list[str], list[str]]:
    """Return the names of an op's settings and of those that are required, as its forward function declares them.

    >>> from wiregrad.ir import TABLE
    >>> declared_settings(TABLE["sum"])
    (['axes', 'keepdims'], ['axes', 'keepdims'])
    """
    if op.by_element or isinstance(op.forward, np.ufunc):
        return [], []
    try:
        parameters = list(inspect.signature(op.forward).parameters.values())
    except (TypeError, ValueError):
        # The forward function of a user's op may have no signature.
        return [], []
    wires = [p for p in parameters if p.kind not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)][: len(op.inputs)]
    own = [p for p in parameters if p not in wires and p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if op.variadic:
        own = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    return [p.name for p in own], [p.name for p in own if p.default is p.empty]


def freeze_setting(name: str, value: object) -> FrozenSetting:
    """Return the value of a setting with lists converted to tuples; raise if it is not a valid setting."""
    items_left = [MAX_SETTING_ITEMS]

    def freeze_item(item: object, level: int) -> FrozenSetting:
        items_left[0] -= 1
        if items_left[0] < 0 or level > MAX_SETTING_LEVELS:
            raise CircuitError(
                f"setting {name} has more than {MAX_SETTING_ITEMS} items or {MAX_SETTING_LEVELS} levels of lists"
            )
        if isinstance(item, list | tuple):
            return tuple([freeze_item(part, level + 1) for part in item])
        if not _is_plain_setting(item):
            raise CircuitError(f"setting {name} must be made of numbers, words and lists; got {short_repr(item)}")
        return item

    return freeze_item(value, 0)


def _is_plain_setting(item: object) -> TypeGuard[PlainSetting]:
    if type(item) is int:
        return -(2**63) <= item < 2**63
    if type(item) is str:
        return len(item) <= MAX_SETTING_WORD
    return item is None or type(item) in (bool, float)
