"""What a circuit that comes from outside may ask for: how many nodes, and which settings of which op.

A setting from outside reaches NumPy by name, so only those pass that the op's own function declares, and only values
of which settings are made: numbers, words, and short lists of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from wiregrad.errors import CircuitError, shown, suggest
from wiregrad.ir.op import Op

MAX_NODES = 5_000_000
"""How many nodes a circuit from outside may have."""
MAX_ITEMS, MAX_WORD, MAX_LEVELS = 1000, 100, 4
"""How many items a setting may have, how long a word in it may be, and how deep its lists may nest."""


def check_count(count: int) -> None:
    """Raise if a circuit from outside has more nodes than are read."""
    if count > MAX_NODES:
        raise CircuitError(f"the circuit has {count:,} nodes; at most {MAX_NODES:,} are read")


def bound(op: Op, given: Mapping[str, Any]) -> Op:
    """Return an op with settings from outside, lists made tuples; raise if it has no such settings.

    >>> from wiregrad.ir import TABLE
    >>> bound(TABLE["sum"], {"axes": [-1], "keepdims": False}).settings
    (('axes', (-1,)), ('keepdims', False))
    """
    if op.per_call:
        raise CircuitError(f"{op.name} stands for a Python function, which no text and no file can hold")
    names, needed = declared(op)
    for name in given:
        if name not in names:
            has = f"its settings are {', '.join(names)}" if names else "it has none"
            raise CircuitError(f"{op.name} has no setting {shown(name)}{suggest(name, names)}; {has}")
    missing = [name for name in needed if name not in given]
    if missing:
        raise CircuitError(f"{op.name} needs the setting {missing[0]}; wanted {', '.join(needed)}")
    return op.bind({name: frozen(name, value) for name, value in given.items()}) if given else op


@lru_cache(1024)
def declared(op: Op) -> tuple[list[str], list[str]]:
    """Return the names of the settings an op can have and of those it needs, as its forward function declares them.

    >>> from wiregrad.ir import TABLE
    >>> declared(TABLE["sum"])
    (['axes', 'keepdims'], ['axes', 'keepdims'])
    """
    if op.by_element or isinstance(op.forward, np.ufunc):
        return [], []
    try:
        parameters = list(inspect.signature(op.forward).parameters.values())
    except (TypeError, ValueError):
        # A user's op may be made of something that does not say what it takes.
        return [], []
    wires = [p for p in parameters if p.kind not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)][: len(op.inputs)]
    own = [p for p in parameters if p not in wires and p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if op.variadic:
        own = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    return [p.name for p in own], [p.name for p in own if p.default is p.empty]


def frozen(name: str, value: Any) -> Any:
    """Return the value of a setting with tuples for lists; raise if no setting can be that."""
    left = [MAX_ITEMS]

    def freeze(item: Any, level: int) -> Any:
        left[0] -= 1
        if left[0] < 0 or level > MAX_LEVELS:
            raise CircuitError(f"setting {name} has more than {MAX_ITEMS} items or {MAX_LEVELS} levels of lists")
        if isinstance(item, list | tuple):
            return tuple([freeze(part, level + 1) for part in item])
        if not _is_plain(item):
            raise CircuitError(f"setting {name} must be made of numbers, words and lists; got {shown(item)}")
        return item

    return freeze(value, 0)


def _is_plain(item: Any) -> bool:
    if type(item) is int:
        return -(2**63) <= item < 2**63
    if type(item) is str:
        return len(item) <= MAX_WORD
    return item is None or type(item) in (bool, float)
