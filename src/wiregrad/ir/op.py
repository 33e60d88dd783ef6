"""Op records, the table that holds them, and Python's operators spelled by them.

An op is one frozen record. Everything else (both modes of differentiation, the formula language, builder methods, docs,
tests) is looked up in the table, so there is no other list of op names. The records themselves are in `wiregrad.ops`;
this module knows only what every record has. `OperatorMethods` gives `+`, `*`, `<` and the others to anything that ops
can be applied to.
"""

from __future__ import annotations

import keyword
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import WireType
from wiregrad.errors import ArityError, CircuitError, DomainError, RecordError, UnknownOpError, short_repr, suggest_name
from wiregrad.lazy import import_later, load_module_lazily
from wiregrad.numpy_warnings import compute_at_user_line

if TYPE_CHECKING:
    import inspect
else:
    inspect = load_module_lazily("inspect")

_OPERATOR_SIGNS = re.compile(r"[^\w\s(),;]+")


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
    """Operator precedence, loosest first; a sign before an operand binds tighter than products, looser than powers."""

    COMPARISON = 0
    SUM = 1
    PRODUCT = 2
    SIGN = 3
    POWER = 4


class Advice(Enum):
    """Which remedies help where an op breaks; a record names one, and `wiregrad.ops.advice` holds them."""

    SUM = "sums and differences"
    PRODUCT = "a product of two"
    MANY_FACTORS = "a product along axes"
    MATRIX_PRODUCT = "a product of matrices"
    SQUARE = "squares and lengths"
    ROOT = "a square root"
    CUBE_ROOT = "a cube root"
    POWER = "a power"
    LOG = "a natural logarithm"
    LOG2 = "a logarithm to base 2"
    LOG10 = "a logarithm to base 10"
    LOG1P = "log(1 + x)"
    TIMES_LOG = "a number times a logarithm"
    TIMES_LOG1P = "a number times log(1 + x)"
    EXP = "an exponential"
    EXP2 = "a power of 2"
    EXPM1 = "exp(x) - 1"
    HYPERBOLIC = "sinh and cosh"
    QUOTIENT = "a quotient"
    RECIPROCAL = "one over a number"
    REMAINDER = "a division with remainder"
    ARC_ANGLE = "arcsin and arccos"
    INTERVAL = "an op whose domain is an interval"
    POSITIVE = "an op of positive numbers"
    GAMMA = "the gamma function"
    BESSEL = "a Bessel function that grows like exp"
    BETA = "a probability under the beta distribution"
    ARCCOSH = "arccosh"
    SOFTMAX = "shares of exponentials"
    LOG_SOFTMAX = "logarithms of such shares"
    INVERSE = "solving with a matrix"
    DETERMINANT = "a determinant"
    EIGENVECTORS = "eigenvectors of a symmetric matrix"
    SINGULAR_VECTORS = "singular vectors"


class OpSignature:
    """The `__signature__` of records, which `inspect.signature`, `help` and editors show."""

    def __get__(self, op: Op | None, owner: type[Op]) -> inspect.Signature:
        if op is None:
            raise AttributeError("the signature of the class is that of its fields")
        return inspect.Signature([*_wire_parameters(op), *_setting_parameters(op)])


def _wire_parameters(op: Op) -> Iterator[inspect.Parameter]:
    """Return the parameters of the wires, which are positional."""
    required = len(op.inputs) - len(op.defaults)
    kind = inspect.Parameter.VAR_POSITIONAL if op.variadic else inspect.Parameter.POSITIONAL_ONLY
    for slot, name in enumerate(op.inputs):
        default = inspect.Parameter.empty if slot < required else op.defaults[slot - required]
        yield inspect.Parameter(name, kind, default=default)


def _setting_parameters(op: Op) -> list[inspect.Parameter]:
    """Return the parameters of the settings: those that the forward function takes by keyword only."""
    if isinstance(op.forward, np.ufunc):
        # The keywords of a ufunc are NumPy's.
        return []
    parameters = inspect.signature(op.forward).parameters.values()
    return [parameter for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Op:
    """What every op has: a name, inputs, a pattern and a forward function.

    Calling a record applies the op to its operands: numbers and arrays are computed with NumPy; an operand that defines
    `__wiregrad_apply__(op, operands)` (a builder's port, a recorded value) decides for itself what happens.
    """

    name: str
    doc: str
    inputs: tuple[str, ...]
    pattern: Pattern
    forward: Callable[..., Any]
    defaults: tuple[float, ...] = ()
    """Default values of the last inputs."""
    aliases: tuple[str, ...] = ()
    """Other names of the op."""
    infix: tuple[str, ...] = ()
    """Signs between two operands, the usual one first."""
    level: Level = Level.SUM
    """Precedence of the infix signs."""
    prefix: str = ""
    """Sign before one operand."""
    kinks: tuple[Any, ...] = ()
    """Where the op has no single slope (see `wiregrad.ops.array_ops`)."""
    remedies: Advice | None = None
    """What to write instead where the op breaks: a member of `Advice`, whose remedies are loaded when needed."""
    variadic: bool = False
    """Whether it takes any number of wires, all like the single input it names."""
    per_call: bool = False
    """Whether its settings belong to one call (of a user's function): it cannot be written to text or to a file."""
    by_element: bool = False
    """Whether it works element by element, so that operands of different shapes are broadcast to one shape."""
    is_view: bool = False
    """Whether NumPy's result shares its elements with the operand."""
    reads_shapes: bool = False
    """Whether its rules read nothing of its input and output but their shapes and dtypes."""
    settings: tuple[tuple[str, Any], ...] = ()
    """The settings of a node (an axis, a shape), by name; empty in the table's own record."""

    __signature__ = OpSignature()

    def __post_init__(self) -> None:
        # An op is called like a function, so `help` shows it like one.
        vars(self).update(__name__=self.name, __doc__=self.doc)

    def __call__(self, *operands: object, **settings: object) -> Any:
        """Apply the op to operands, with these settings."""
        for operand in operands:
            if type(operand) not in PLAIN_TYPES:
                apply = getattr(operand, "__wiregrad_apply__", None)
                if apply is not None:
                    return apply(self.bind(settings) if settings else self, operands)
        if len(operands) != len(self.inputs):
            operands = self.complete(operands)
        kernel = partial(self.forward, **settings) if settings else self.compute
        # A user's own op warns at the user's lines already.
        return kernel(*operands) if self.per_call else compute_at_user_line(kernel, operands)

    @property
    def may_raise(self) -> bool:
        """Whether it depends on the numbers that it is given whether it raises an error, as far as that is known."""
        return self.per_call

    def bind(self, settings: Mapping[str, Any]) -> Self:
        """Return the op with settings: numbers, strings and tuples of them. Equal settings give the same object."""
        cache = self._bound_records
        items = tuple(settings.items())
        op = cache.get(items)
        if op is None:
            if len(cache) >= 4096:
                cache.clear()
            ordered = tuple(sorted(items))
            op = cache[items] = cache.setdefault(ordered, replace(self, settings=ordered))
        return op

    def bind_once(self, **settings: object) -> Self:
        """Return the op with settings that belong to a single call, such as what a user's `backward` saved."""
        return replace(self, settings=tuple(settings.items()))

    @cached_property
    def _bound_records(self) -> dict[Any, Self]:
        return {}

    @cached_property
    def options(self) -> dict[str, Any]:
        """The settings by name."""
        return dict(self.settings)

    @cached_property
    def title(self) -> str:
        """The name to show: the op's, or for a user's own function the name of that function."""
        names = (getattr(value, "called", None) for _, value in self.settings) if self.per_call else ()
        return next((str(name) for name in names if name), self.name)

    def compute(self, *xs: object) -> Any:
        """Compute the output from the inputs, given as NumPy values."""
        return self.forward(*xs, **self.options) if self.settings else self.forward(*xs)

    @cached_property
    def kernel(self) -> Callable[..., Any]:
        """`compute` with the settings bound once."""
        if type(self).compute is not Op.compute:
            return self.compute
        return partial(self.forward, **self.options) if self.settings else self.forward

    def stored_settings(self) -> dict[str, Any] | None:
        """Return the settings that text and files hold beside the circuits of the op; None if it cannot be stored."""
        return None if self.per_call else self.options

    def bind_stored(self, settings: Mapping[str, Any], circuits: Sequence[Any]) -> Self:
        """Return the op with the settings and circuits that a text or file held; raises if they do not fit."""
        raise CircuitError(f"{self.name} is a Python function, which cannot be stored as text or in a file")

    def input_name(self, slot: int) -> str:
        """Return the name of an input."""
        return f"{self.inputs[0]}{slot}" if self.variadic else self.inputs[slot]

    def complete(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Check the number of operands and fill in the defaults."""
        arity = len(self.inputs)
        count = len(operands)
        if count == arity or (self.variadic and count):
            return operands if type(operands) is tuple else tuple(operands)
        if arity - len(self.defaults) <= count < arity:
            return (*operands, *self.defaults[len(self.defaults) - (arity - count) :])
        least = f"{arity - len(self.defaults)} to " if self.defaults else ""
        raise ArityError(
            f"{self.name} takes {least}{arity} {'wire' if arity == 1 else 'wires'} "
            f"({', '.join(self.inputs)}); got {count}"
        )

    def infer(self, types: tuple[WireType, ...]) -> WireType:
        """Infer the type of the output from the types of the inputs."""
        raise DomainError(f"{self.name} has no rule for the type of its output")

    def local(self, slot: int, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the local derivative with respect to input `slot`; None where it is blocked or is not one slope."""
        return None

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the gradient sent back along input `slot` for the upstream gradient `g`; None if there is none."""
        raise DomainError(f"{self.name} has no derivative")

    pulls_together: ClassVar[bool] = False
    """Whether `pull_slots` for several inputs costs less than one `pull` for each."""

    def pull_slots(self, slots: Sequence[int], g: Any, xs: Sequence[Any], y: Any, mode: int) -> Iterator[Any]:
        """Iterate over the gradients sent back along several inputs."""
        return (self.pull(slot, g, xs, y, mode) for slot in slots)

    picks_part: ClassVar[bool] = False
    """Whether the output is a part of input 0, as `find_part` says."""

    def find_part(self, xs: Sequence[Any]) -> Any:
        """Return the NumPy index of the elements of input 0 that the output consists of; None if one comes twice.

        The gradient sent to input 0 is the upstream gradient at that index, and absent elsewhere.
        """
        return None

    def push(self, tangents: Sequence[Any], xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the tangent of the output for tangents of the inputs; None if there is none."""
        raise DomainError(f"{self.name} has no derivative")

    def default_mode(self, moves: Sequence[int], sources: Sequence[int]) -> int:
        """Return the kink mode of a node that reads `sources`; `moves` marks the nodes that depend on an input."""
        return 0

    def expression(self, *operands: str) -> str:
        """Write the op applied to operands, the way a person would write it.

        >>> from wiregrad import ops
        >>> ops.multiply.expression("e", "c"), ops.tanh.expression("n")
        ('e * c', 'tanh(n)')
        """
        if self.infix and len(operands) == 2:
            return f"{operands[0]} {self.infix[0]} {operands[1]}"
        index = self.options.get("index")
        if isinstance(index, tuple) and len(operands) == 1:
            return f"{operands[0]}[{write_index(index)}]"
        if self.prefix:
            return f"{self.prefix}{operands[0]}"
        settings = [] if self.per_call else [f"{name}={value!r}" for name, value in self.settings]
        return f"{self.title}({', '.join([*operands, *settings])})"

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        # Circuits tell ops by identity, so a copy of an op of the table is that op.
        record = TABLE.find_loaded(self.name)
        if self.per_call or record is None or record.forward is not self.forward:
            return super().__reduce_ex__(protocol)
        return find_op, (self.name, self.options, getattr(self.forward, "__module__", None))

    def __repr__(self) -> str:
        return f"<op {self.expression(*([f'{self.inputs[0]}...'] if self.variadic else self.inputs))}>"

    def check(self) -> None:
        """Raise `RecordError` if the record contradicts itself or lacks something that is derived from it."""
        self.check_consistency()
        missing = self.missing_parts()
        if missing:
            raise RecordError(f"the record of op {self.name} is incomplete:\n  " + "\n  ".join(missing))

    def missing_parts(self) -> list[str]:
        """Return what the record lacks and how to add it, one line per part: listings, docs and tests need it."""
        return [] if self.doc.strip() else ["no doc: add doc=, one sentence that says what the op computes"]

    def check_consistency(self) -> None:
        """Raise `RecordError` if the record contradicts itself."""
        if not (self.name.isidentifier() and self.name.isascii()) or keyword.iskeyword(self.name):
            raise RecordError(f"an op's name must be a plain identifier (ASCII, no keyword); got {self.name!r}")
        if not isinstance(self.remedies, Advice | None):
            raise RecordError(f"op {self.name} needs a member of Advice as remedies, or None; got {self.remedies!r}")
        if len(set(self.inputs)) != len(self.inputs) or len(self.defaults) > len(self.inputs):
            raise RecordError(
                f"op {self.name} needs distinct inputs and at most as many defaults; got inputs {self.inputs} with "
                f"defaults {self.defaults}"
            )
        for spelling in (*self.infix, *filter(None, [self.prefix])):
            if not _OPERATOR_SIGNS.fullmatch(spelling) or spelling == "=":
                raise RecordError(
                    f"op {self.name} cannot be spelled {spelling!r}: a spelling consists of signs other than ( ) , ; "
                    "and is not = alone"
                )


def write_index(index: tuple[Any, ...]) -> str:
    """Write an index in Python's syntax; a slice is stored as a tuple of the word `slice` and its three bounds.

    >>> write_index((1, ("slice", None, 3, None), ("slice", 0, None, 2)))
    '1, :3, 0::2'
    """
    return ", ".join(_write_index_part(part) for part in index)


def _write_index_part(part: object) -> str:
    if not isinstance(part, tuple) or len(part) != 4 or part[0] != "slice":
        return str(part)
    start, stop, step = ("" if bound is None else str(bound) for bound in part[1:])
    return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"


PLAIN_TYPES = frozenset([np.ndarray, float, np.float64, bool, np.bool_, int])
"""Types of operands that are computed with NumPy; another type may have a way of its own."""

OpT = TypeVar("OpT", bound=Op)


class OpTable:
    """The registered ops, by name, by code and by spelling."""

    def __init__(self) -> None:
        self._records: list[Op] = []
        self._codes: dict[str, int] = {}
        self._aliases: dict[str, str] = {}
        self._reserved: set[str] = set()
        self._deferred: list[Callable[[], object]] = []
        self._is_complete = True
        self._lock = threading.RLock()
        self._facts: dict[Callable[[Op], Any], NDArray[Any]] = {}
        """What `tabulate` returned since the table last changed."""
        self.infix: dict[str, Op] = {}
        self.prefix: dict[str, Op] = {}

    def register(self, op: OpT) -> OpT:
        """Add a record to the table and return it; all deferred records are loaded, as one may have its name."""
        self.load_deferred()
        return self.add(op)

    def add(self, op: OpT) -> OpT:
        """Add a record of wiregrad's own; it has a name of its own, so no deferred ones are loaded."""
        op.check()
        for name in (op.name, *op.aliases):
            owner = self.find_loaded(name)
            if owner is not None:
                raise RecordError(
                    f"cannot register op {op.name}: the name {name} is registered already, by {owner.name}"
                )
            if name in self._reserved:
                raise RecordError(f"an op cannot be called {name}: a builder or wiregrad.ops has such an attribute")
        for spelling in (*op.infix, op.prefix):
            taken = (self.prefix if spelling == op.prefix else self.infix).get(spelling)
            if spelling and taken:
                raise RecordError(f"op {op.name} wants the spelling {spelling!r}, which is {taken.name}'s")
        self._codes[op.name] = len(self._records)
        self._records.append(op)
        self._facts = {}
        self._aliases.update(dict.fromkeys(op.aliases, op.name))
        self.infix.update(dict.fromkeys(op.infix, op))
        if op.prefix:
            self.prefix[op.prefix] = op
        return op

    def replace(self, old: Op, new: OpT) -> OpT:
        """Replace a record by another of the same name; existing circuits use the new one."""
        new.check()
        if new.name != old.name:
            raise RecordError(f"{old.name} can only be replaced by an op of the same name; got {new.name}")
        self._records[self.code_of(old)] = new
        self._facts = {}
        return new

    def unregister(self, op: Op) -> None:
        """Remove the record that was registered last; circuits that use it can no longer be read."""
        if not self._records or self._records[-1] is not op:
            raise RecordError(f"only the op registered last can be removed, and that is not {op.name}")
        self._records.pop()
        self._facts = {}
        del self._codes[op.name]
        for alias in op.aliases:
            del self._aliases[alias]
        for spellings in (self.infix, self.prefix):
            for spelling in [text for text, owner in spellings.items() if owner is op]:
                del spellings[spelling]

    def defer_loading(self, load: Callable[[], object]) -> None:
        """Add a function that loads more records; it is called when an unknown name is looked up."""
        self._deferred.append(load)
        self._is_complete = False

    def load_deferred(self) -> bool:
        """Load the deferred records, once; return whether there were any. Other threads wait until all are loaded."""
        if self._is_complete:
            return False
        with self._lock:
            waiting, self._deferred = self._deferred, []
            for load in waiting:
                load()
            if waiting:
                self._is_complete = True
            # False for the loading thread itself, whose modules may look for a name while they are loaded.
            return self._is_complete

    def find_loaded(self, name: str) -> Op | None:
        """Return the op of a name or alias if its record is loaded; loads no other ones."""
        code = self._codes.get(self._aliases.get(name, name))
        return None if code is None else self._records[code]

    def __getitem__(self, name: str) -> Op:
        op = self.find_loaded(name)
        if op is None:
            if self.load_deferred():
                return self[name]
            raise UnknownOpError(
                f"there is no op called {short_repr(name)}{suggest_name(str(name), self.callable_names())}"
            )
        return op

    def __contains__(self, name: object) -> bool:
        return name in self._codes or name in self._aliases or (self.load_deferred() and name in self)

    def __iter__(self) -> Iterator[Op]:
        self.load_deferred()
        return iter(tuple(self._records))

    def __len__(self) -> int:
        self.load_deferred()
        return len(self._records)

    def code_of(self, op: Op) -> int:
        """Return the number that represents a record in a circuit's arrays."""
        code = self._codes.get(op.name)
        if code is None or (self._records[code] is not op and not op.settings):
            raise UnknownOpError(f"op {op.name} is not registered; call wiregrad.ops.register(record) first")
        return code

    def callable_names(self) -> list[str]:
        """Return the names of the ops that users can apply (not inputs and constants), aliases included."""
        self.load_deferred()
        return [
            *(op.name for op in self._records if op.pattern is not Pattern.SOURCE and not op.per_call),
            *self._aliases,
        ]

    def scalar_names(self) -> list[str]:
        """Return the names of the ops that work on single numbers, as formulas use them."""
        return [name for name in self.callable_names() if self.is_scalar(name)]

    def is_scalar(self, name: str) -> bool:
        """Return whether the op of this name works on single numbers."""
        return name in self and self[name].by_element

    def reserve_names(self, names: Iterable[str]) -> None:
        """Forbid names for ops, because they are other attributes where ops are attributes too."""
        self._reserved.update(names)

    def by_code(self) -> Sequence[Op]:
        """Return every loaded record at the index of its code; unlike iterating, this loads no other ones."""
        return self._records

    def tabulate(self, read_fact: Callable[[Op], Any]) -> NDArray[Any]:
        """Return a fact about each loaded op at the index of its code; it is kept until the table changes.

        >>> TABLE.tabulate(count_inputs)[TABLE.code_of(INPUT)]
        np.int64(0)
        """
        # Another thread may change the table, and then keeps other facts from there on.
        known = self._facts
        facts = known.get(read_fact)
        if facts is None:
            facts = np.array([read_fact(op) for op in tuple(self._records)])
            facts.flags.writeable = False
            known[read_fact] = facts
        return facts


def count_inputs(op: Op) -> int:
    """Return the number of inputs of an op."""
    return len(op.inputs)


def is_variadic(op: Op) -> bool:
    """Return whether an op takes any number of wires."""
    return op.variadic


TABLE = OpTable()


def find_op(name: str, settings: Mapping[str, Any], module: str | None) -> Op:
    """Return an op of the table, as a pickle needs it; importing the module of a user's op registers the op."""
    if name not in TABLE and module is not None:
        import_later(module)()
    return TABLE[name].bind(settings) if settings else TABLE[name]


def _refuse_forward(*_: object) -> Any:
    raise DomainError("inputs and constants are given, not computed")


INPUT = TABLE.add(
    Op(
        name="input",
        doc="A leaf whose value the caller gives.",
        inputs=(),
        pattern=Pattern.SOURCE,
        forward=_refuse_forward,
    )
)
CONSTANT = TABLE.add(
    Op(
        name="constant",
        doc="A leaf with a fixed value.",
        inputs=(),
        pattern=Pattern.SOURCE,
        forward=_refuse_forward,
    )
)
INPUT_CODE = TABLE.code_of(INPUT)
CONSTANT_CODE = TABLE.code_of(CONSTANT)


ARITHMETIC_METHODS = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "**": "pow", "%": "mod", "//": "floordiv"}
COMPARISON_METHODS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
SIGN_METHODS = {"-": "neg", "+": "pos"}
"""The special methods of each operator, without the double underscores."""


class OperatorMethods:
    """Operators that apply ops. `==` stays Python's own: two ports are equal if they are the same object."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return TABLE.infix["+"](self, other)

    def __radd__(self, other: Any) -> Any:
        return TABLE.infix["+"](other, self)

    def __sub__(self, other: Any) -> Any:
        return TABLE.infix["-"](self, other)

    def __rsub__(self, other: Any) -> Any:
        return TABLE.infix["-"](other, self)

    def __mul__(self, other: Any) -> Any:
        return TABLE.infix["*"](self, other)

    def __rmul__(self, other: Any) -> Any:
        return TABLE.infix["*"](other, self)

    def __truediv__(self, other: Any) -> Any:
        return TABLE.infix["/"](self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return TABLE.infix["/"](other, self)

    def __pow__(self, other: Any) -> Any:
        return TABLE.infix["**"](self, other)

    def __rpow__(self, other: Any) -> Any:
        return TABLE.infix["**"](other, self)

    def __mod__(self, other: Any) -> Any:
        return TABLE.infix["%"](self, other)

    def __rmod__(self, other: Any) -> Any:
        return TABLE.infix["%"](other, self)

    def __floordiv__(self, other: Any) -> Any:
        return TABLE.infix["//"](self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return TABLE.infix["//"](other, self)

    def __lt__(self, other: Any) -> Any:
        return TABLE.infix["<"](self, other)

    def __le__(self, other: Any) -> Any:
        return TABLE.infix["<="](self, other)

    def __gt__(self, other: Any) -> Any:
        return TABLE.infix[">"](self, other)

    def __ge__(self, other: Any) -> Any:
        return TABLE.infix[">="](self, other)

    def __neg__(self) -> Any:
        return TABLE.prefix["-"](self)

    def __pos__(self) -> Any:
        return TABLE.prefix["+"](self)

    def __and__(self, other: Any) -> Any:
        return TABLE["logical_and"](self, other)

    def __or__(self, other: Any) -> Any:
        return TABLE["logical_or"](self, other)

    def __invert__(self) -> Any:
        return TABLE["logical_not"](self)

    def __abs__(self) -> Any:
        return TABLE["absolute"](self)
