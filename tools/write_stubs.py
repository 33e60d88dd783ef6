"""Write the stubs of what is derived from the op table: functions of `wiregrad`, methods of `Value` and of builders.

python tools/write_stubs.py [FOLDER]

Names, parameters and documentation are those of the records. What a function returns for values, arrays and numbers is
found by calling it at its own sample points.
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import wiregrad
from wiregrad.frontends.recording import dispatch
from wiregrad.ir import GraphBuilder, Op
from wiregrad.ir.builder_methods import BuilderMethods
from wiregrad.ir.circuit import declared_settings
from wiregrad.ir.op import ARITHMETIC_METHODS, COMPARISON_METHODS, SIGN_METHODS, OperatorMethods
from wiregrad.ops import TABLE, Elementwise
from wiregrad.ops.functions import FUNCTIONS, RegisteredFunction

PACKAGE = Path(__file__).parent.parent / "src" / "wiregrad"

HEADER = "# Written by `make derive` from the op table."
FUNCTIONS_HEAD = f"""{HEADER}
# Python finds no module of this name: `wiregrad` itself has the functions. Import it under `TYPE_CHECKING`.
from collections.abc import Sequence
from typing import Any, overload

from numpy.typing import DTypeLike, NDArray

from wiregrad.frontends.recording.value import Value
from wiregrad.frontends.recording.value_methods import Operand, PlainArray
"""
METHODS_HEAD = f"""{HEADER}
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, NoReturn, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from wiregrad.frontends.recording.dispatch import UpdatableElements
from wiregrad.frontends.recording.value import Value
from wiregrad.ir import Op, Port

PlainArray: TypeAlias = complex | np.number[Any] | np.bool | NDArray[Any]
Operand: TypeAlias = Value | Port | PlainArray | list[Any] | tuple[Any, ...]
Index: TypeAlias = SupportsIndex | slice | EllipsisType | Value | NDArray[Any] | list[Any] | tuple[Any, ...] | None
"""
BUILDER_HEAD = f"""{HEADER}
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from wiregrad.ir.builder import Port

WireOperand: TypeAlias = Port | str | float | np.number[Any] | np.bool
"""

OPERAND = "Operand"
WIRE_OPERAND = "WireOperand"
PLAIN = "PlainArray"
ARRAY = "NDArray[Any]"
NAMED_TYPES = {
    "axis": "int | Sequence[int] | None",
    "dtype": "DTypeLike | None",
    "shape": "int | Sequence[int] | None",
}
"""Types of parameters that mean the same in every function."""
SETTING_TYPES = {"axis": "int", "axes": "Sequence[int]", "shape": "Sequence[int]", "keepdims": "bool"}
"""Types of settings that mean the same in every op."""
ANNOTATION_WORDS = {"int", "float", "bool", "str", "complex", "object", "None", "Sequence", "Any"}
"""Words of annotations that are taken over from the source; others are found out like `Any`."""
ARRAY_NAMES = ("a", "b", "x", "array", "tensor")
"""Names of array parameters, for functions that have no sample calls to show it."""
SAMPLE_NUMBER = 0.5
"""The point at which elementwise ops are called."""


@dataclass(frozen=True)
class StubParameter:
    """One parameter as a stub writes it."""

    name: str
    kind: Any
    annotation: str
    default: str = ""
    is_operand: bool = False
    """Whether it takes a value, an array or a number."""
    is_sequence: bool = False
    """Whether it takes a sequence of those."""
    is_either: bool = False
    """Whether it takes one of those or a sequence of them."""

    @property
    def is_required(self) -> bool:
        """Whether a call has to give it."""
        return not self.default

    def write(self) -> str:
        """Return the text of the parameter."""
        star = "*" if self.kind is inspect.Parameter.VAR_POSITIONAL else ""
        stars = "**" if self.kind is inspect.Parameter.VAR_KEYWORD else star
        default = f" = {self.default}" if self.default else ""
        return f"{stars}{self.name}: {self.annotation}{default}"

    def narrow(self, annotation: str) -> StubParameter:
        """Return the parameter with another type for its operand; it still takes None or words if it did."""
        text = f"Sequence[{annotation}]" if self.is_sequence else annotation
        text += f" | Sequence[{annotation}]" if self.is_either else ""
        return replace(self, annotation=self.annotation.replace(OPERAND, text))


def write_signature(parameters: Sequence[StubParameter], returns: str, *, method: bool = False) -> str:
    """Return `(x: Operand, /, *, axis: int = 0) -> Value`."""
    parts = ["self"] if method else []
    kinds = [parameter.kind for parameter in parameters]
    for k, parameter in enumerate(parameters):
        before = kinds[:k]
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not {*before} & {
            inspect.Parameter.KEYWORD_ONLY,
            inspect.Parameter.VAR_POSITIONAL,
        }:
            parts.append("*")
        parts.append(parameter.write())
        if (
            parameter.kind is inspect.Parameter.POSITIONAL_ONLY
            and inspect.Parameter.POSITIONAL_ONLY not in (kinds[k + 1 :])
        ):
            parts.append("/")
    return f"({', '.join(parts)}) -> {returns}"


def write_function(name: str, doc: str, signatures: Sequence[str]) -> str:
    """Return a function with its overloads; the first of them has the documentation."""
    lines = []
    for k, signature in enumerate(signatures):
        body = f'\n    """{doc}"""' if k == 0 and doc else " ..."
        lines.append(("@overload\n" if len(signatures) > 1 else "") + f"def {name}{signature}:{body}")
    return "\n".join(lines)


def name_type(results: Iterable[Any]) -> str:
    """Return the type that all results have; `Any` if they differ or if nothing more can be said."""
    results = list(results)
    names = {_name_one(result) for result in results}
    if len(names) == 1:
        return names.pop()
    if names and all(isinstance(result, tuple) for result in results):
        parts = {_name_one(part) for result in results for part in result}
        return f"tuple[{parts.pop()}, ...]" if len(parts) == 1 else "Any"
    return "Any"


def _name_one(result: Any) -> str:
    if isinstance(result, wiregrad.Value):
        return "Value"
    if type(result) in (bool, int):
        return type(result).__name__
    if isinstance(result, list) and result:
        return f"list[{name_type(result)}]"
    if isinstance(result, tuple) and result:
        parts = [name if (name := _name_one(part)) in ("Value", "int", ARRAY) else "Any" for part in result]
        if "Value" in parts:
            # Which of the others are values depends on which operand is one.
            parts = [name if name == "Value" else "Any" for name in parts]
        return "tuple[int, ...]" if {*parts} == {"int"} else f"tuple[{', '.join(parts)}]"
    if isinstance(result, np.ndarray) and result.ndim:
        return ARRAY
    return "float" if isinstance(result, float) else "Any"


def try_calls(calls: Iterable[Callable[[], Any]]) -> list[Any]:
    """Return the results of calls; those that raise are left out."""
    results = []
    for call in calls:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                results.append(call())
        except (ArithmeticError, LookupError, TypeError, ValueError):
            continue
    return results


def is_number_or_array(x: Any) -> bool:
    """Return whether x is made of real or complex numbers, so that a gradient can flow to it."""
    return isinstance(x, float | complex | np.ndarray | np.generic) and np.asarray(x).dtype.kind in "fc"


def as_value(x: Any) -> Any:
    """Return numbers and arrays as values, also those in a list or tuple."""
    if isinstance(x, list | tuple):
        return type(x)(as_value(part) for part in x)
    return wiregrad.Value(x) if is_number_or_array(x) else x


class FunctionStub:
    """A registered function: its parameters, and what it returns."""

    def __init__(self, entry: RegisteredFunction) -> None:
        self.entry = entry
        self.signature = inspect.signature(entry.run)
        self.samples = [] if entry.samples is None else self._bind_samples(entry.samples(np.random.default_rng(0)))
        self.parameters = [self._read_parameter(parameter) for parameter in self.signature.parameters.values()]

    def _bind_samples(self, calls: Sequence[tuple[Any, ...]]) -> list[inspect.BoundArguments]:
        return [self.signature.bind(*call[:-1], **call[-1]) for call in calls]

    def _read_parameter(self, parameter: inspect.Parameter) -> StubParameter:
        name = parameter.name
        given = [sample.arguments[name] for sample in self.samples if name in sample.arguments]
        default = _write_default(parameter)
        words = "str" in {type(x).__name__ for x in (*given, parameter.default)}
        if parameter.annotation != "Any" and {*re.findall(r"\w+", str(parameter.annotation))} <= ANNOTATION_WORDS:
            return StubParameter(name, parameter.kind, parameter.annotation.replace("Any", OPERAND), default)
        if name in NAMED_TYPES:
            return StubParameter(name, parameter.kind, NAMED_TYPES[name], default)
        holds_arrays = any(isinstance(x, list | tuple) and any(map(is_number_or_array, x)) for x in given)
        is_array = any(map(is_number_or_array, given))
        is_list = holds_arrays and parameter.kind is not parameter.VAR_POSITIONAL
        is_operand = holds_arrays or is_array or (not given and name in ARRAY_NAMES)
        text = OPERAND if is_operand else "Any"
        plain = StubParameter(
            name, parameter.kind, text, default, is_operand, is_list and not is_array, is_list and is_array
        )
        others = " | str" * words + " | None" * (default == "None")
        # A list or tuple is an operand itself, so that a sequence may mix values and arrays.
        return replace(plain, annotation=f"{text}{others}") if is_operand else plain

    def operands(self) -> list[StubParameter]:
        """Return the parameters that have to be given a value or an array; all that may be, if none has to."""
        operands = [parameter for parameter in self.parameters if parameter.is_operand]
        return [operand for operand in operands if operand.is_required] or operands

    def call_with_values(self, name: str) -> str:
        """Return the type of the result if one parameter is given values."""
        if not self.samples and name == next(iter(self.signature.parameters)):
            values = [wiregrad.Value(SAMPLE_NUMBER), *(wiregrad.Value(np.ones((2,) * n)) for n in (1, 2, 3))]
            return name_type(try_calls(partial(self.entry.run, value) for value in values))
        samples = [sample.arguments for sample in self.samples if name in sample.arguments]
        changed = [{**arguments, name: as_value(arguments[name])} for arguments in samples]
        return name_type(try_calls(call for arguments in changed for call in self._vary_calls(arguments, name)))

    def call_with_arrays(self, name: str) -> str:
        """Return the type of the result if one parameter is given an array, and no parameter a value."""
        samples = [sample.arguments for sample in self.samples]
        given = [arguments for arguments in samples if getattr(arguments.get(name), "ndim", 0)]
        return name_type(try_calls(call for arguments in given for call in self._vary_calls(arguments, name)))

    def _vary_calls(self, arguments: Mapping[str, Any], name: str) -> Iterator[Callable[[], Any]]:
        """Return a call with the arguments, with each option turned on, and with twice as many arrays."""
        yield self._make_call(arguments)
        for parameter in self.signature.parameters.values():
            if parameter.annotation == "bool":
                yield self._make_call({**arguments, parameter.name: True})
        if self.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            yield self._make_call({**arguments, name: arguments[name] * 2})

    def _make_call(self, arguments: Mapping[str, Any]) -> Callable[[], Any]:
        ordered = {name: arguments[name] for name in self.signature.parameters if name in arguments}
        bound = inspect.BoundArguments(self.signature, ordered)  # type: ignore[arg-type]
        return partial(self.entry.run, *bound.args, **bound.kwargs)

    def write_signatures(self) -> Iterator[str]:
        """Return the overloads: for arrays, for values at each operand, and for everything else."""
        operands = self.operands()
        results = {operand.name: self.call_with_values(operand.name) for operand in operands}
        if results and not any("Value" in result for result in results.values()):
            yield write_signature(self.parameters, results[operands[0].name])
            return
        yield from self._write_array_signature(operands)
        for operand in operands:
            if "Value" in results[operand.name]:
                yield write_signature(self._narrow_for_values(operand), results[operand.name])
        yield write_signature(self.parameters, "Any")

    def _write_array_signature(self, operands: Sequence[StubParameter]) -> Iterator[str]:
        """Return the overload for arrays: the first one, because mypy takes it for the function in `wg.grad(f)`."""
        if operands and operands[0].is_required and not operands[0].is_sequence:
            first = operands[0]
            parameters = [self._narrow_for_arrays(one, first) for one in self.parameters]
            yield write_signature(parameters, ARRAY if self.call_with_arrays(first.name) == ARRAY else "Any")

    def _narrow_for_values(self, operand: StubParameter) -> list[StubParameter]:
        """Return the parameters with one that takes values; a call that gives it gives those before it as well."""
        place = self.parameters.index(operand)
        before = [replace(one, default="") for one in self.parameters[:place]]
        return [
            *before,
            replace(operand, default="", annotation=OPERAND).narrow("Value"),
            *self.parameters[place + 1 :],
        ]

    def _narrow_for_arrays(self, parameter: StubParameter, first: StubParameter) -> StubParameter:
        if not parameter.is_operand:
            return parameter
        return parameter.narrow(ARRAY if parameter is first else PLAIN)

    def write_method(self) -> str:
        """Return the signature as a method of values."""
        first, *rest = self.parameters
        return write_signature(rest, self.call_with_values(first.name), method=True)


def _write_default(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return ""
    simple = parameter.default is None or type(parameter.default) in (bool, int, float, str)
    return repr(parameter.default) if simple else "..."


class OpStub:
    """An elementwise op: its inputs, and what it returns."""

    def __init__(self, op: Elementwise) -> None:
        self.op = op
        required = len(op.inputs) - len(op.defaults)
        self.parameters = [
            StubParameter(
                name,
                inspect.Parameter.POSITIONAL_ONLY,
                OPERAND,
                "" if slot < required else repr(op.defaults[slot - required]),
                is_operand=True,
            )
            for slot, name in enumerate(op.inputs)
        ]

    def call_with(self, slot: int, x: Any) -> str:
        """Return the type of the result for an operand in one place."""
        xs = [SAMPLE_NUMBER] * len(self.parameters)
        return name_type(try_calls([lambda: self.op(*xs[:slot], x, *xs[slot + 1 :])]))

    def write_signatures(self) -> Iterator[str]:
        """Return the overloads: for numbers, for values and arrays at each operand, and for everything else."""
        slots = range(len(self.parameters))
        if self.call_with(0, SAMPLE_NUMBER) == "float":
            yield write_signature([one.narrow("float") for one in self.parameters], "float")
        for slot in slots:
            if self.call_with(slot, wiregrad.Value(SAMPLE_NUMBER)) == "Value":
                yield write_signature(self._narrow_at(slot, "Value", OPERAND), "Value")
        for slot in slots:
            if self.call_with(slot, np.full(2, SAMPLE_NUMBER)) == ARRAY:
                yield write_signature(self._narrow_at(slot, ARRAY, PLAIN), ARRAY)
        yield write_signature(self.parameters, "Any")

    def _narrow_at(self, slot: int, annotation: str, others: str) -> list[StubParameter]:
        """Return the parameters with one type at a slot; a call that gives it leaves no default before it."""
        narrow = [one.narrow(annotation if k == slot else others) for k, one in enumerate(self.parameters)]
        return [replace(one, default="") if k <= slot else one for k, one in enumerate(narrow)]

    def write_method(self) -> str:
        """Return the signature as a method of values."""
        return write_signature(self.parameters[1:], self.call_with(0, wiregrad.Value(SAMPLE_NUMBER)), method=True)


def elementwise_ops() -> dict[str, Elementwise]:
    """Return the ops that work element by element by their names, other names included."""
    TABLE.load_deferred()
    ops = [op for op in TABLE if isinstance(op, Elementwise) and not op.per_call]
    return {name: op for op in ops for name in (op.name, *op.aliases)}


def functions_stub() -> str:
    """Return the stub of `wiregrad.api.functions`, which is there for type checkers and editors alone."""
    texts = {
        name: write_function(name, op.doc, [*OpStub(op).write_signatures()]) for name, op in elementwise_ops().items()
    }
    for name, entry in FUNCTIONS.items():
        if entry.is_listed:
            texts[name] = write_function(name, entry.doc, [*FunctionStub(entry).write_signatures()])
    names = sorted(name for name in texts if name not in wiregrad.__all__)
    listed = "\n".join(f'    "{name}",' for name in names)
    bodies = "\n".join(texts[name] for name in names)
    return f"{FUNCTIONS_HEAD}\n__all__: list[str] = [\n{listed}\n]\n\n{bodies}\n"


def methods_stub() -> str:
    """Return the stub of `wiregrad.frontends.recording.value_methods`."""
    lines = [
        "class ValueMethods:",
        '    """The methods and operators that values have from the op table."""',
    ]
    methods = [*operator_methods(), *table_methods(), *torch_methods(), *refused_methods(), *update_methods()]
    for name, signature, doc in sorted(methods):
        decorator = ["    @property"] if isinstance(vars(wiregrad.Value).get(name), property) else []
        lines += [*decorator, write_method(name, signature, doc)]
    return f"{METHODS_HEAD}\n" + "\n".join(lines) + "\n"


def write_method(name: str, signature: str, doc: str) -> str:
    """Return the declaration of a method."""
    body = f'\n        """{doc}"""' if doc else " ..."
    return f"    def {name}{signature}:{body}"


def update_methods() -> Iterator[tuple[str, str, str]]:
    """Return name, signature and documentation of the property for functional updates."""
    yield "at", "(self) -> UpdatableElements", str(vars(wiregrad.Value)["at"].__doc__)


def builder_stub() -> str:
    """Return the stub of `wiregrad.ir.builder_methods`."""
    lines = ["class BuilderMethods:", f'    """{BuilderMethods.__doc__}"""']
    for name in sorted({*TABLE.callable_names()} - {*vars(GraphBuilder)}):
        lines.append(write_method(name, write_builder_signature(TABLE[name]), TABLE[name].doc))
    return f"{BUILDER_HEAD}\n" + "\n".join(lines) + "\n"


def write_builder_signature(op: Op) -> str:
    """Return the signature of an op as a method of builders: wires, then settings and the name of the node."""
    wires = [
        StubParameter(one.name, one.kind, WIRE_OPERAND, _write_default(one))
        for one in inspect.signature(op).parameters.values()
        if one.kind is not one.KEYWORD_ONLY
    ]
    name = StubParameter("name", inspect.Parameter.KEYWORD_ONLY, "str | None", "None")
    return write_signature([*wires, *builder_settings(op), name], "Port", method=True)


def builder_settings(op: Op) -> Iterator[StubParameter]:
    """Return the settings of an op as keywords; the names of the types are those of its forward function."""
    names, required = declared_settings(op)
    for name in names:
        annotation = str(inspect.signature(op.forward).parameters[name].annotation)
        is_known = {*re.findall(r"\w+", annotation)} <= ANNOTATION_WORDS
        text = SETTING_TYPES.get(name, annotation if is_known else "Any")
        yield StubParameter(name, inspect.Parameter.KEYWORD_ONLY, text, "" if name in required else "...")


def operator_methods() -> Iterator[tuple[str, str, str]]:
    """Return name, signature and documentation of the operators and of NumPy's protocols."""
    for name in (*ARITHMETIC_METHODS.values(), "matmul"):
        yield f"__{name}__", "(self, other: Operand) -> Value", ""
        yield f"__r{name}__", "(self, other: Operand) -> Value", ""
    for name in COMPARISON_METHODS.values():
        if name not in ("eq", "ne"):
            yield f"__{name}__", "(self, other: Operand) -> Any", ""
    for name in (*SIGN_METHODS.values(), "abs"):
        yield f"__{name}__", "(self) -> Value", ""
    yield from condition_methods()
    yield "__getitem__", "(self, index: Index) -> Value", ""
    yield "__array_ufunc__", "(self, ufunc: np.ufunc, method: str, *inputs: Any, **settings: Any) -> Any", ""
    yield "__array_function__", "(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any", ""
    yield "__wiregrad_apply__", "(self, op: Op, operands: tuple[Any, ...]) -> Any", ""


def condition_methods() -> Iterator[tuple[str, str, str]]:
    """Return name, signature and documentation of the operators on conditions: those that are no arithmetic."""
    others = (*ARITHMETIC_METHODS.values(), *COMPARISON_METHODS.values(), *SIGN_METHODS.values(), "abs")
    known = {f"__{prefix}{name}__" for name in others for prefix in ("", "r")}
    for name, method in vars(OperatorMethods).items():
        if inspect.isfunction(method) and name not in known:
            other = ", other: Operand" if len(inspect.signature(method).parameters) == 2 else ""
            yield name, f"(self{other}) -> Any", ""


def table_methods() -> Iterator[tuple[str, str, str]]:
    """Return name, signature and documentation of the methods that are ops or registered functions."""
    ops = elementwise_ops()
    for name in dispatch.collect_methods():
        if is_derived(name):
            entry = FUNCTIONS.get(name)
            if entry is not None and entry.method:
                yield name, FunctionStub(entry).write_method(), entry.doc
            else:
                yield name, OpStub(ops[name]).write_method(), ops[name].doc


def torch_methods() -> Iterator[tuple[str, str, str]]:
    """Return name, signature and documentation of the methods with PyTorch's names."""
    for name, function in dispatch.TORCH_METHODS.items():
        if is_derived(name) and name not in dispatch.collect_methods():
            if isinstance(function, Elementwise):
                yield name, OpStub(function).write_method(), function.doc
            else:
                stub = FunctionStub(RegisteredFunction(name, function))
                yield name, write_signature(stub.parameters[1:], _torch_result(name, stub), method=True), stub.entry.doc


def refused_methods() -> Iterator[tuple[str, str, str]]:
    """Return name, signature and documentation of the methods of arrays that always raise, and of `compress`."""
    for name in (*dispatch.IN_PLACE_METHODS, *dispatch.EXPORT_METHODS):
        returned = "None" if name in vars(dispatch.FilledValue) else "NoReturn"
        yield name, f"(self, *args: Any, **kwargs: Any) -> {returned}", vars(wiregrad.Value)[name].__doc__
    compress = dispatch.compress.__doc__ or ""
    yield "compress", "(self, condition: Operand, axis: int | None = None) -> Value", compress


def _torch_result(name: str, stub: FunctionStub) -> str:
    """Return the type that a method returns for a matrix, given masks or whole numbers for the other arguments."""
    mask = np.ones((2, 2), bool)
    method = getattr(wiregrad.Value(np.ones((2, 2))), name)
    if any(one.kind is one.kind.VAR_POSITIONAL for one in stub.parameters):
        # Lengths of axes, or their order.
        return name_type(try_calls([lambda: method(4), lambda: method(1, 0)]))
    rest = [1 if one.annotation == "int" else mask for one in stub.parameters[1:] if one.is_required]
    return name_type(try_calls([lambda: method(*rest)]))


def is_derived(name: str) -> bool:
    """Return whether a method of values was set by `dispatch`, and is not one that the class defines."""
    method = vars(wiregrad.Value).get(name)
    function = method.fget if isinstance(method, property) else method
    return getattr(function, "__module__", None) == dispatch.__name__


STUBS: dict[str, Callable[[], str]] = {
    "api/functions.pyi": functions_stub,
    "frontends/recording/value_methods.pyi": methods_stub,
    "ir/builder_methods.pyi": builder_stub,
}
"""Every stub that is written here, and how."""


def main(folder: Path = PACKAGE) -> None:
    """Write every stub, into the package or another folder."""
    for name, stub in STUBS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(stub(), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
