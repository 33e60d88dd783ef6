"""Kink modes: how a node treats its kinks, as one byte that is stored with the node when it is recorded.

The low two bits are the convention; bit 2 + k says that input k was a literal, which counts as a constant.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from functools import cache

from wiregrad import settings
from wiregrad.errors import OperandError, short_repr, suggest_name
from wiregrad.ir.blocks import ScopedSetting
from wiregrad.ir.infer import DERIVE_MODE
from wiregrad.ir.op import Op

MAX_LITERAL_SLOTS = 6
CONVENTION_VARIABLE = settings.CONVENTION_VARIABLE
"""The environment variable that names the default convention of recordings."""


class Convention(IntEnum):
    """Which slope a node takes on a kink."""

    MIN_NORM = 0
    TORCH = 1
    JAX = 2

    @property
    def label(self) -> str:
        """The name that users write: `min_norm`, `torch` or `jax`."""
        return self.name.lower()


def find_convention(name: object) -> Convention:
    """Return the convention with a name.

    >>> find_convention("torch")
    <Convention.TORCH: 1>
    """
    known = {convention.label: convention for convention in Convention}
    convention = known.get(name) if isinstance(name, str) else None
    if convention is None:
        near = suggest_name(name, known) if isinstance(name, str) else ""
        raise OperandError(f"a kink convention is one of {', '.join(known)}; got {short_repr(name)}{near}")
    return convention


@cache
def default_convention() -> Convention:
    """Return the convention of recordings outside all blocks; the environment is read once, on first use."""
    return find_convention(settings.read_setting(CONVENTION_VARIABLE) or Convention.MIN_NORM.label)


CHOSEN_CONVENTIONS: ScopedSetting[Convention] = ScopedSetting("wiregrad_conventions")
"""The conventions that `with` blocks have chosen."""


def chosen_convention() -> Convention:
    """Return the convention that nodes get when they are recorded here and now."""
    choices = CHOSEN_CONVENTIONS.active_values()
    return choices[-1] if choices else default_convention()


def encode_mode(convention: Convention, literal: Iterable[int]) -> int:
    """Return the mode of a convention and the slots whose operands are literals.

    >>> encode_mode(Convention.MIN_NORM, [1])
    8
    """
    return convention | sum(4 << slot for slot in set(literal))


def decode_mode(mode: int) -> tuple[Convention, tuple[int, ...]]:
    """Return the convention and the literal slots of a mode."""
    return Convention(mode & 3), tuple(slot for slot in range(MAX_LITERAL_SLOTS) if mode & (4 << slot))


def switch_convention(mode: int, convention: Convention) -> int:
    """Return a mode with another convention and the same literal slots.

    >>> switch_convention(encode_mode(Convention.JAX, [1]), Convention.TORCH) == encode_mode(Convention.TORCH, [1])
    True
    """
    return (mode & ~3) | convention


def has_kinks(op: Op) -> bool:
    """Return whether conventions can differ on an op; at a jump of its value they agree."""
    return any(not kink.jump for kink in op.kinks)


def check_mode(mode: object, op: Op) -> None:
    """Raise `OperandError` unless this is a valid mode of a node of the op."""
    if type(mode) is int and mode == DERIVE_MODE:
        return
    if type(mode) is not int or not 0 <= mode < 4 << len(op.inputs) or mode & 3 >= len(Convention):
        raise OperandError(f"a kink mode encodes a convention and literal slots of {op.name}; got {short_repr(mode)}")
    if mode and not op.kinks:
        raise OperandError(f"{op.name} has no kinks, so it has no kink mode")


def write_mode(mode: int, inputs: tuple[str, ...]) -> str:
    """Write a mode as text such as `min_norm:b`: the convention, then the inputs that are literals."""
    convention, literal = decode_mode(mode)
    return convention.label + (":" + ",".join(inputs[slot] for slot in literal) if literal else "")


def parse_mode(text: str, inputs: tuple[str, ...]) -> int | None:
    """Parse what `write_mode` wrote; return None if the text is not a mode."""
    name, _, literal = text.partition(":")
    names = literal.split(",") if literal else []
    if name.upper() not in Convention.__members__ or not set(names) <= set(inputs[:MAX_LITERAL_SLOTS]):
        return None
    return encode_mode(Convention[name.upper()], map(inputs.index, names))
