"""Op records and the table that holds them.

An op is one frozen record. Everything else (both modes of differentiation, the formula language, builder methods, docs,
tests) is looked up from the table, so no other list of op names exists. The records themselves stand in `wiregrad.ops`;
this module knows only what every record has.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from functools import cached_property
from typing import Any, Self, TypeVar

from wiregrad.dtypes import WireType
from wiregrad.errors import ArityError, DomainError, RecordError, UnknownOpError, shown, suggest

_SPELLING = re.compile(r"[^\w\s(),;]+")


class Pattern(Enum):
    """How an op passes the upstream gradient on; the value is the sentence shown to people."""

    DISTRIBUTE = "sends the upstream gradient unchanged (up to sign) to every input"
    SWAP = "multiplies the upstream gradient by the other inputs"
    SCALE = "scales the upstream gradient by its own slope"
    ROUTE = "sends the upstream gradient (up to a factor) to the inputs it selected, nothing to the others"
    MERGE = "adds the gradients that come back from its readers"
    BLOCK = "sends nothing back: its output moves in steps"
    SOURCE = "has no inputs: gradients end here"


class Level(IntEnum):
    """How tightly an operator binds; a sign before an operand stands between products and powers."""

    COMPARISON = 0
    SUM = 1
    PRODUCT = 2
    SIGN = 3
    POWER = 4


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Op:
    """What every op has: a name, inputs, a pattern and a forward function.

    Calling a record applies the op to whatever is given: numbers and arrays are computed with NumPy, anything that
    defines `__wiregrad_apply__(op, operands)` (a builder's port, a recorded value) decides for itself.
    """

    name: str
    doc: str
    inputs: tuple[str, ...]
    pattern: Pattern
    forward: Callable[..., Any]
    defaults: tuple[float, ...] = ()
    """Values of the last inputs when they are left out."""
    aliases: tuple[str, ...] = ()
    """Other names it goes by."""
    infix: tuple[str, ...] = ()
    """Spellings between two operands, the usual one first."""
    level: Level = Level.SUM
    """How tightly the infix spelling binds."""
    prefix: str = ""
    """Spelling before one operand."""
    kinks: tuple[Any, ...] = ()
    """Where the op has no single slope (see `wiregrad.ops.kinks`)."""
    remedies: Enum | None = None
    """What to write instead where the op breaks: a member of `Advice`, whose remedies are loaded when needed."""
    variadic: bool = False
    """Whether it takes any number of wires, all like the one input it names."""
    per_call: bool = False
    """Whether its settings belong to one call (a user's function): it has no name to people and cannot be written."""
    by_element: bool = False
    """Whether it works element by element, so that operands of different shapes are spread to one."""
    settings: tuple[tuple[str, Any], ...] = ()
    """What a node of this op was set to (an axis, a shape), by name; empty in the table's own record."""

    def __call__(self, *operands: Any, **settings: Any) -> Any:
        """Apply the op, with its settings if it has any."""
        op = self.bind(settings) if settings else self
        for operand in operands:
            apply = getattr(operand, "__wiregrad_apply__", None)
            if apply is not None:
                return apply(op, operands)
        return op.compute(*op.complete(operands))

    def bind(self, settings: Mapping[str, Any]) -> Self:
        """Return the op with its settings, which are numbers, strings and tuples of them."""
        known, given = self._bound, tuple(settings.items())
        found = known.get(given)
        if found is None:
            if len(known) >= 4096:
                known.clear()
            ordered = tuple(sorted(given))
            found = known[given] = known.setdefault(ordered, replace(self, settings=ordered))
        return found

    def once(self, **settings: Any) -> Self:
        """Return the op with settings that belong to one call alone, such as what a user's backward saved."""
        return replace(self, settings=tuple(settings.items()))

    @cached_property
    def _bound(self) -> dict[Any, Self]:
        return {}

    @cached_property
    def options(self) -> dict[str, Any]:
        """The settings by name."""
        return dict(self.settings)

    @cached_property
    def title(self) -> str:
        """The name to show to people: of a user's own function that function's."""
        called = (getattr(value, "called", None) for _, value in self.settings) if self.per_call else ()
        return next((str(name) for name in called if name), self.name)

    def compute(self, *xs: Any) -> Any:
        """Compute the output from the inputs, given as NumPy values."""
        return self.forward(*xs, **self.options) if self.settings else self.forward(*xs)

    def input_name(self, slot: int) -> str:
        """Return the name of an input."""
        return f"{self.inputs[0]}{slot}" if self.variadic else self.inputs[slot]

    def complete(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Check the number of operands and fill in the defaults."""
        wanted, given = len(self.inputs), len(operands)
        if self.variadic and given:
            return tuple(operands)
        if wanted - len(self.defaults) <= given <= wanted:
            return (
                (*operands, *self.defaults[len(self.defaults) - (wanted - given) :])
                if given < wanted
                else tuple(operands)
            )
        least = f"{wanted - len(self.defaults)} to " if self.defaults else ""
        raise ArityError(
            f"{self.name} takes {least}{wanted} {'wire' if wanted == 1 else 'wires'} "
            f"({', '.join(self.inputs)}); got {given}"
        )

    def infer(self, types: tuple[WireType, ...]) -> WireType:
        """Return the type of the output for inputs of these types."""
        raise DomainError(f"{self.name} has no rule for the type of its output")

    def local(self, slot: int, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the local derivative for input `slot`; None where it is blocked, or no single slope."""
        return None

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return what is sent back along input `slot` when `g` arrives; None is absent."""
        raise DomainError(f"{self.name} has no derivative")

    def push(self, tangents: Sequence[Any], xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the tangent of the output for tangents of the inputs; None is absent."""
        raise DomainError(f"{self.name} has no derivative")

    def default_mode(self, moves: Sequence[int], sources: Sequence[int]) -> int:
        """Return the kink mode of a node that reads `sources`; `moves` says which nodes an input can move."""
        return 0

    def expression(self, *operands: str) -> str:
        """Write the op applied to operands as a person would.

        >>> from wiregrad import ops
        >>> ops.multiply.expression("e", "c"), ops.tanh.expression("n")
        ('e * c', 'tanh(n)')
        """
        if self.infix and len(operands) == 2:
            return f"{operands[0]} {self.infix[0]} {operands[1]}"
        index = self.options.get("index")
        if isinstance(index, tuple) and len(operands) == 1:
            return f"{operands[0]}[{written_index(index)}]"
        settings = [] if self.per_call else [f"{name}={value!r}" for name, value in self.settings]
        return f"{self.prefix}{operands[0]}" if self.prefix else f"{self.title}({', '.join([*operands, *settings])})"

    def __repr__(self) -> str:
        return f"<op {self.expression(*([f'{self.inputs[0]}...'] if self.variadic else self.inputs))}>"

    def check(self) -> None:
        """Raise `RecordError` if the record contradicts itself."""
        if not (self.name.isidentifier() and self.name.isascii()) or keyword.iskeyword(self.name):
            raise RecordError(f"an op's name must be a plain identifier; got {self.name!r}")
        if not self.doc.strip():
            raise RecordError(f"op {self.name} has no doc")
        if not isinstance(self.remedies, Enum | None):
            raise RecordError(f"op {self.name} needs a member of Advice as remedies, or None; got {self.remedies!r}")
        if len(set(self.inputs)) != len(self.inputs) or len(self.defaults) > len(self.inputs):
            raise RecordError(f"op {self.name} has unusable inputs {self.inputs} with defaults {self.defaults}")
        for spelling in (*self.infix, *filter(None, [self.prefix])):
            if not _SPELLING.fullmatch(spelling) or spelling == "=":
                raise RecordError(
                    f"op {self.name} cannot be spelled {spelling!r}: wanted signs, not ( ) , ; or = alone"
                )


def written_index(index: tuple[Any, ...]) -> str:
    """Write an index as Python has it; a slice is a tuple of the word and its three bounds.

    >>> written_index((1, ("slice", None, 3, None), ("slice", 0, None, 2)))
    '1, :3, 0::2'
    """
    return ", ".join(_index_part(part) for part in index)


def _index_part(part: Any) -> str:
    if not isinstance(part, tuple) or len(part) != 4 or part[0] != "slice":
        return str(part)
    start, stop, step = ("" if bound is None else str(bound) for bound in part[1:])
    return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"


OpT = TypeVar("OpT", bound=Op)


class OpTable:
    """All registered ops, by name, by code and by spelling."""

    def __init__(self) -> None:
        self._records: list[Op] = []
        self._codes: dict[str, int] = {}
        self._aliases: dict[str, str] = {}
        self._reserved: set[str] = set()
        self._deferred: Callable[[], object] | None = None
        self.infix: dict[str, Op] = {}
        self.prefix: dict[str, Op] = {}

    def register(self, op: OpT) -> OpT:
        """Add a record and return it."""
        op.check()
        for name in (op.name, *op.aliases):
            if name in self:
                raise RecordError(
                    f"op {op.name} wants the name {name}, which is {self[name].name}'s: registered already"
                )
            if name in self._reserved:
                raise RecordError(f"an op cannot be called {name}: a builder or wiregrad.ops has something else there")
        for spelling in (*op.infix, op.prefix):
            taken = (self.prefix if spelling == op.prefix else self.infix).get(spelling)
            if spelling and taken:
                raise RecordError(f"op {op.name} wants the spelling {spelling!r}, which is {taken.name}'s")
        self._codes[op.name] = len(self._records)
        self._records.append(op)
        self._aliases.update(dict.fromkeys(op.aliases, op.name))
        self.infix.update(dict.fromkeys(op.infix, op))
        if op.prefix:
            self.prefix[op.prefix] = op
        return op

    def replace(self, old: Op, new: OpT) -> OpT:
        """Put a record in the place of another of the same name; circuits that use it mean the new one."""
        new.check()
        if new.name != old.name:
            raise RecordError(f"{old.name} can only be replaced by an op of its name; got {new.name}")
        self._records[self.code(old)] = new
        return new

    def forget(self, op: Op) -> None:
        """Take the newest record out again; circuits that use it become unreadable."""
        if not self._records or self._records[-1] is not op:
            raise RecordError(f"only the op registered last can be forgotten, and that is not {op.name}")
        self._records.pop()
        del self._codes[op.name]
        for alias in op.aliases:
            del self._aliases[alias]
        for spellings in (self.infix, self.prefix):
            for spelling in [text for text, owner in spellings.items() if owner is op]:
                del spellings[spelling]

    def defer(self, load: Callable[[], object]) -> None:
        """Have more records loaded when a name is asked for that the table does not have yet."""
        self._deferred = load

    def load(self) -> bool:
        """Load what was deferred; returns whether there was something."""
        load, self._deferred = self._deferred, None
        if load is None:
            return False
        load()
        return True

    def __getitem__(self, name: str) -> Op:
        code = self._codes.get(name)
        if code is None and name in self._aliases:
            code = self._codes[self._aliases[name]]
        if code is None:
            if self.load():
                return self[name]
            raise UnknownOpError(f"there is no op called {shown(name)}{suggest(str(name), self.callable_names())}")
        return self._records[code]

    def __contains__(self, name: object) -> bool:
        return name in self._codes or name in self._aliases or (self.load() and name in self)

    def __iter__(self) -> Iterator[Op]:
        return iter(tuple(self._records))

    def __len__(self) -> int:
        return len(self._records)

    def code(self, op: Op) -> int:
        """Return the number that stands for a record in a circuit's arrays."""
        code = self._codes.get(op.name)
        if code is None or (self._records[code] is not op and not op.settings):
            raise UnknownOpError(f"op {op.name} is not registered; call wiregrad.ops.register(record) first")
        return code

    def callable_names(self) -> list[str]:
        """Names of the ops a person can apply (not inputs and constants), other names included."""
        self.load()
        return [
            *(op.name for op in self._records if op.pattern is not Pattern.SOURCE and not op.per_call),
            *self._aliases,
        ]

    def scalar_names(self) -> list[str]:
        """Names of the ops that work on numbers, as formulas have them."""
        return [name for name in self.callable_names() if self.is_scalar(name)]

    def is_scalar(self, name: str) -> bool:
        """Return whether an op of this name works on numbers."""
        return name in self and self[name].by_element

    def reserve(self, names: Iterable[str]) -> None:
        """Keep names from ops, because they mean something else where ops are looked up as attributes."""
        self._reserved.update(names)

    def by_code(self) -> Sequence[Op]:
        """Return every record at the index of its code."""
        return self._records


TABLE = OpTable()


def _no_forward(*_: Any) -> Any:
    raise DomainError("inputs and constants are given, not computed")


INPUT = TABLE.register(
    Op(
        name="input",
        doc="A leaf whose value the caller gives.",
        inputs=(),
        pattern=Pattern.SOURCE,
        forward=_no_forward,
    )
)
CONSTANT = TABLE.register(
    Op(
        name="constant",
        doc="A leaf with a fixed value.",
        inputs=(),
        pattern=Pattern.SOURCE,
        forward=_no_forward,
    )
)
INPUT_CODE, CONSTANT_CODE = TABLE.code(INPUT), TABLE.code(CONSTANT)
