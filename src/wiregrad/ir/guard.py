"""Limits for circuits that come from outside: the number of nodes, and the settings of each op.

A setting from outside reaches NumPy by name, so only those pass that the op's own function declares, and only values
that settings are made of: numbers, words, and short lists of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from wiregrad.errors import CircuitError, short_repr, suggest_name
from wiregrad.ir.op import Op

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
        raise CircuitError(f"the circuit has {count:,} nodes; at most {MAX_NODES:,} are read")


def bind_untrusted(op: Op, settings: Mapping[str, Any]) -> Op:
    """Bind an op to settings from outside, with lists converted to tuples; raise if the op has no such settings.

    >>> from wiregrad.ir import TABLE
    >>> bind_untrusted(TABLE["sum"], {"axes": [-1], "keepdims": False}).settings
    (('axes', (-1,)), ('keepdims', False))
    """
    if op.per_call:
        raise CircuitError(f"{op.name} stands for a Python function, which no text and no file can hold")
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


def freeze_setting(name: str, value: Any) -> Any:
    """Return the value of a setting with lists converted to tuples; raise if it is not a valid setting."""
    items_left = [MAX_SETTING_ITEMS]

    def freeze_item(item: Any, level: int) -> Any:
        items_left[0] -= 1
        if items_left[0] < 0 or level > MAX_SETTING_LEVELS:
            raise CircuitError(f"setting {name} has more than {MAX_SETTING_ITEMS} items or {MAX_SETTING_LEVELS} levels of lists")
        if isinstance(item, list | tuple):
            return tuple([freeze_item(part, level + 1) for part in item])
        if not _is_plain_setting(item):
            raise CircuitError(f"setting {name} must be made of numbers, words and lists; got {short_repr(item)}")
        return item

    return freeze_item(value, 0)


def _is_plain_setting(item: Any) -> bool:
    if type(item) is int:
        return -(2**63) <= item < 2**63
    if type(item) is str:
        return len(item) <= MAX_SETTING_WORD
    return item is None or type(item) in (bool, float)
