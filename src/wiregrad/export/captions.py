"""What a box says of its op: the name or sign, the constants inside it, and what it was set to.

Nothing here knows an op by its name; what is written follows from the record and from the names of its settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from wiregrad.export.letters import clip_end
from wiregrad.export.reading import format_shape
from wiregrad.ir import Op
from wiregrad.ir.op import write_index

WIRE_SIGN = "·"
"""Stands for an input that is a wire, beside inputs that are written as constants."""
MAX_SETTING_COLUMNS = 24
"""Maximum width of a setting in columns."""


def write_caption(op: Op, inside: Sequence[str], *, rank: int = -1, shapes: bool = True) -> str:
    """Write an op; `inside` has a text for every input that is written in the caption, and "" for wires.

    `rank` is the number of axes of the first input; `shapes` says whether the shape of the result is written.

    >>> from wiregrad import ops
    >>> write_caption(ops.multiply, ["2", ""]), write_caption(ops.tanh, [""])
    ('2 * ·', 'tanh')
    """
    index = op.options.get("index")
    if isinstance(index, tuple):
        return f"{inside[0] or WIRE_SIGN}[{clip_end(write_index(index), MAX_SETTING_COLUMNS)}]"
    settings = " ".join(_write_settings(op, rank, shapes))
    bare = replace(op, settings=()) if op.settings and not op.per_call else op
    if any(inside):
        name = str(bare.expression(*(text or WIRE_SIGN for text in inside)))
    else:
        name = op.infix[0] if op.infix else op.prefix or op.title
    return f"{name} {settings}".rstrip()


def _write_settings(op: Op, rank: int, shapes: bool) -> Iterator[str]:
    """Write what distinguishes a node from others of its op: axes, shape, and every setting that is set."""
    options = {} if op.per_call else op.options
    for name, value in options.items():
        if name in ("axis", "axes"):
            # A reduction over all axes is the default and is not written.
            if not ("keepdims" in options and isinstance(value, tuple) and len(value) == rank):
                yield _write_axes(value)
        elif name == "shape":
            if shapes and isinstance(value, tuple):
                yield format_shape(value)
        elif value is True and name != "keepdims":
            yield name
        elif name not in ("rank", "keepdims") and value not in (None, False):
            yield clip_end(f"{name}={value}", MAX_SETTING_COLUMNS)


def _write_axes(value: Any) -> str:
    axes = value if isinstance(value, tuple) else (value,)
    return f"{'axis' if len(axes) == 1 else 'axes'} {', '.join(map(str, axes))}"
