"""Circuits as functions of JAX and PyTorch: `to_jax` and `to_torch`.

A circuit is interpreted with the functions of another array library. What an op does there is read from its record:

- an elementwise op is the library's function of the same NumPy or SciPy name, or else its C expression, evaluated with
  the library's operators;
- an op on arrays is its NumPy text, compiled with the library in the place of `np`. A text may call helper functions;
  a library has its own for those that change arrays in place, and the others are compiled like the text.

So there is no list of ops here. An `ArrayLibrary` has NumPy's names (`linalg_solve` is `np.linalg.solve`) and those of
the helpers. An op whose text needs a name that the library lacks is refused, all such ops of a circuit at once.

The function that comes out is differentiated by the rules of its library, not by wiregrad's. What wiregrad's rules
block is blocked there too: see `passes/guarded_gradients.py`.
"""

from __future__ import annotations

import ast
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial, reduce
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.replay_engines import Flip
from wiregrad.codegen.python_and_numpy import NUMPY_NAMES
from wiregrad.dtypes import DTYPES, WireType
from wiregrad.errors import DeviceError, InputError, NoRuleError, require_package, suggest_name
from wiregrad.frontends.recording.value import settle_gradient
from wiregrad.frontends.replay.recorded_calls import CertifiedRecording, plain_result
from wiregrad.ir import CONSTANT, INPUT, CircuitGraph, Op, Pattern, join_first_names
from wiregrad.ir.certificates import CircuitWithChecks, add_check_outputs
from wiregrad.ops import TABLE, Elementwise
from wiregrad.ops.array_ops import ArrayOp
from wiregrad.ops.c_expressions import (
    MATH_H_FUNCTIONS,
    BinaryExpression,
    CallExpression,
    ChoiceExpression,
    InputExpression,
    NumberExpression,
    PrefixExpression,
    ScalarExpression,
    parse_c_text,
)
from wiregrad.passes import gradient_circuit, prune, simplify
from wiregrad.passes.guarded_gradients import guard_gradients

Array = Any
"""An array of the other library."""
ArrayFunction = Callable[..., Any]

BINARY_NAMES = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "==": "equal",
    "!=": "not_equal",
    "&&": "logical_and",
    "||": "logical_or",
}
"""NumPy's names of the operators of C."""


class IndexMaker:
    """What `np.s_` is: its subscript is the result. PyTorch's compiler does not enter NumPy's."""

    def __getitem__(self, index: Any) -> Any:
        return index


INDEX = IndexMaker()


class ArrayLibrary(ABC):
    """An array library under NumPy's names: `np.linalg.solve` is the method or function `linalg_solve`."""

    title: str
    array_class: type
    """The class of the library's arrays."""
    narrower: Mapping[np.dtype[Any], np.dtype[Any]] = MappingProxyType({})
    """The dtypes that take the place of wider ones."""
    nan = math.nan
    inf = math.inf
    pi = math.pi
    newaxis = None
    s_ = INDEX

    def find_function(self, name: str) -> Any:
        """Return what has a dotted NumPy name, or the name of a helper; None if the library has none."""
        return getattr(self, name.replace(".", "_"), None)

    def find_special(self, name: str) -> ArrayFunction | None:
        """Return the function that has the name of one in `scipy.special`; None if the library has none."""
        return None

    @abstractmethod
    def dtype_of(self, x: Array) -> np.dtype[Any]:
        """Return the dtype of an array, as NumPy's."""

    @abstractmethod
    def astype(self, x: Array, dtype: Any) -> Array:
        """Return an array in another dtype."""

    @abstractmethod
    def constant(self, value: Any) -> Array:
        """Return a NumPy value as an array."""

    def stop_gradient(self, x: Array) -> Array:
        """Return an array through which the library sends no gradient back."""
        return x

    def move_like(self, x: Array, like: Array | None) -> Array:
        """Return an array on the device of another one."""
        return x

    @abstractmethod
    def integers(self, values: Sequence[int], like: Array) -> Array:
        """Return whole numbers as an array, on the device of another one."""

    @abstractmethod
    def add_at_places(self, x: Array, places: Array, length: int) -> Array:
        """Return zeros, so long along the last axis, with the elements along the last axis of x added at places."""

    def narrow(self, dtype: Any) -> np.dtype[Any]:
        """Return the dtype in which the library computes what a circuit computes in a dtype."""
        kind: np.dtype[Any] = np.dtype(dtype)
        return self.narrower.get(kind, kind)

    def own_dtype(self, dtype: Any) -> Any:
        """Return the library's own form of the dtype in which it computes: what its arrays have as `dtype`."""
        return self.narrow(dtype)

    def errstate(self, **_: str) -> AbstractContextManager[None]:
        """Return a block that does nothing: other libraries do not warn."""
        return nullcontext()

    def result_type(self, *arrays: Any) -> np.dtype[Any]:
        """Return the dtype that NumPy would compute in."""
        dtypes = [x.dtype if isinstance(x, _DtypeFunction) else x for x in arrays]
        result: np.dtype[Any] = np.result_type(*(x if isinstance(x, np.dtype) else self.dtype_of(x) for x in dtypes))
        return result

    def asarray(self, x: Array) -> Array:
        """Return the array itself: only arrays come here."""
        return x

    def put(self, x: Array, index: Any, shape: tuple[int, ...]) -> Array:
        """Return zeros of a shape with x at an index."""
        size = math.prod(shape)
        places = self.getitem(self._call("reshape", self.integers(range(size), x), shape), index)
        y = self.add_at_places(self._call("reshape", x, (-1,)), self._call("reshape", places, (-1,)), size)
        return self._call("reshape", y, shape)

    def add_windows(self, x: Array, step: tuple[int, ...], dilation: tuple[int, ...], shape: tuple[int, ...]) -> Array:
        """Return zeros of a shape, behind other axes, with windows added where they were taken from."""
        rank = len(shape)
        lead = tuple(x.shape[: -2 * rank])
        places = self._call("reshape", self.integers(range(math.prod(shape)), x), shape)
        for axis in range(rank):
            count = x.shape[len(lead) + axis]
            size = x.shape[len(lead) + rank + axis]
            rows = [k * step[axis] + offset * dilation[axis] for k in range(count) for offset in range(size)]
            places = self._split_axis(self._call("take", places, self.integers(rows, x), axis=axis), axis, count, size)
        y = self.add_at_places(
            self._call("reshape", x, (*lead, math.prod(places.shape))),
            self._call("reshape", places, (-1,)),
            math.prod(shape),
        )
        return self._call("reshape", y, (*lead, *shape))

    def lib_stride_tricks_sliding_window_view(
        self, x: Array, window_shape: tuple[int, ...], axis: tuple[int, ...] | None = None
    ) -> Array:
        """Return all windows of a size, as additional axes at the end."""
        axes = range(len(x.shape)) if axis is None else axis
        for size, place in zip(window_shape, axes, strict=True):
            count = x.shape[place] - size + 1
            rows = [k + offset for k in range(count) for offset in range(size)]
            x = self._split_axis(self._call("take", x, self.integers(rows, x), axis=place), place, count, size)
        return x

    def _split_axis(self, x: Array, axis: int, count: int, size: int) -> Array:
        """Return an array with one axis split in two, the second of which is moved to the end."""
        y = self._call("reshape", x, (*x.shape[:axis], count, size, *x.shape[axis + 1 :]))
        order = [k for k in range(len(y.shape)) if k != axis + 1]
        return self._call("transpose", y, (*order, axis + 1))

    def recurrence(self, a: Array, b: Array, axis: int, reverse: bool = False) -> Array:
        """Return h along an axis: h[0] = b[0], h[k] = a[k - 1] * h[k - 1] + b[k]; reversed, from the other end."""
        count = b.shape[axis]
        order = range(count - 1, -1, -1) if reverse else range(count)
        h: list[Array] = []
        for k, place in enumerate(order):
            new = self._pick(b, place, axis)
            factor = None if k == 0 else self._pick(a, order[k - 1] - reverse, axis)
            h.append(new if factor is None else self._call("add", self._call("multiply", factor, h[-1]), new))
        return self._call("concatenate", h[::-1] if reverse else h, axis=axis) if h else b

    def recurse(self, x: Array, a: Array) -> Array:
        """Return y with y[n] = x[n] - a[0] y[n-1] - a[1] y[n-2] - ..., along the last axis."""
        y: list[Array] = []
        for n in range(x.shape[-1]):
            products = [self._call("multiply", self._pick(a, k, -1), y[-1 - k]) for k in range(min(a.shape[-1], n))]
            y.append(reduce(partial(self._call, "subtract"), products, self._pick(x, n, -1)))
        return self._call("concatenate", y, axis=-1) if y else x

    def _pick(self, x: Array, place: int, axis: int) -> Array:
        """Return one slice of an array, which keeps the axis."""
        index = [slice(None)] * len(x.shape)
        index[axis] = slice(place, place + 1)
        return self.getitem(x, tuple(index))

    def getitem(self, x: Array, index: Any) -> Array:
        """Return part of an array."""
        return x[index]

    def signbit(self, x: Array) -> Array:
        """Return whether numbers have a minus sign; NaN counts as positive."""
        is_zero = self._call("equal", x, 0.0)
        has_minus = self._call("less", self._call("divide", 1.0, x), 0.0)
        return self._call("logical_or", self._call("less", x, 0.0), self._call("logical_and", is_zero, has_minus))

    def copysign(self, a: Array, b: Array) -> Array:
        """Return the size of a with the sign of b."""
        size = self._call("absolute", a)
        return self._call("where", self.signbit(b), self._call("negative", size), size)

    def or_nan(self, function: ArrayFunction, *matrices: Array) -> Array:
        """Apply a function to matrices; NaN where it has no finite result."""
        y = function(*matrices)
        is_finite = self._call("all", self._call("isfinite", y), axis=(-2, -1), keepdims=True)
        return self._call("where", is_finite, y, math.nan)

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        function = self.find_function(name)
        if function is None:
            raise NoRuleError(f"{self.title} has no np.{name}")
        return function(*args, **options)


class _MissingNameError(Exception):
    """A text needs something that a library does not have; the message says what, after the name of the op."""


class _TextTranslator(ast.NodeTransformer):
    """Rewrites NumPy source so that it calls functions of a library: by name, for subscripts and for methods."""

    def __init__(self, library: ArrayLibrary, variables: dict[str, Any]) -> None:
        self.library = library
        self.variables = variables
        """The global variables of the code."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        name = ast.unparse(node)
        if name.startswith("np."):
            return self._refer_to(name[3:])
        self.generic_visit(node)
        if node.attr == "T":
            return self._write_call("transpose", node.value)
        return self._write_call("dtype_of", node.value) if node.attr == "dtype" else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        method = node.func.attr if isinstance(node.func, ast.Attribute) else None
        if isinstance(node.func, ast.Attribute) and method in ("astype", "conj"):
            if method == "astype" and isinstance(node.args[0], ast.Attribute) and node.args[0].attr in DTYPES:
                # A dtype is called to convert an array.
                return ast.Call(self.visit(node.args[0]), [self.visit(node.func.value)], [])
            operands = [node.func.value, *node.args]
            return self._write_call("conjugate" if method == "conj" else "astype", *map(self.visit, operands))
        self.generic_visit(node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        value = ast.unparse(node.value)
        if value == "np.s_" or value.endswith(".shape") or value.startswith("np.linalg.lstsq"):
            self.generic_visit(node)
            return node
        if not isinstance(node.ctx, ast.Load):
            raise _MissingNameError("changes arrays in place")
        index = ast.Subscript(ast.Name("_index", ast.Load()), node.slice, ast.Load())
        self.variables["_index"] = INDEX
        return self._write_call("getitem", self.visit(node.value), index)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        raise _MissingNameError("changes arrays in place")

    def visit_For(self, node: ast.For) -> ast.stmt:
        raise _MissingNameError("loops over elements")

    def visit_While(self, node: ast.While) -> ast.stmt:
        raise _MissingNameError("loops over elements")

    def visit_Try(self, node: ast.Try) -> ast.stmt:
        raise _MissingNameError("handles errors")

    def _refer_to(self, name: str) -> ast.Name:
        """Return a variable that holds a function, constant or dtype of the library."""
        found = np.dtype(name) if name in DTYPES else self.library.find_function(name)
        if found is None:
            raise _MissingNameError(f"needs np.{name}")
        variable = "np_" + name.replace(".", "_")
        is_dtype = isinstance(found, np.dtype)
        self.variables[variable] = _DtypeFunction(self.library, found) if is_dtype else found
        return ast.Name(variable, ast.Load())

    def _write_call(self, name: str, *operands: ast.expr) -> ast.expr:
        function = self.library.find_function(name)
        if function is None:
            raise _MissingNameError(f"needs np.{name}")
        self.variables[f"np_{name}"] = function
        return ast.Call(ast.Name(f"np_{name}", ast.Load()), list(operands), [])


class _DtypeFunction(NamedTuple):
    """A dtype in a text: called, it converts an array."""

    library: ArrayLibrary
    dtype: np.dtype[Any]

    def __call__(self, x: Array) -> Array:
        return self.library.astype(x, self.library.own_dtype(self.dtype))


class OpTranslator:
    """Finds for an op the function of a library that does the same, by what the record of the op says."""

    def __init__(self, library: ArrayLibrary) -> None:
        self.library = library
        self._compiled: dict[Any, ArrayFunction] = {}

    def find_function(self, op: Op, types: tuple[WireType, ...], kind: WireType) -> ArrayFunction:
        """Return the function for an op on wires of some types; raise `NoRuleError` if there is none."""
        key = op.name, op.settings, types, kind
        if op.per_call or getattr(op, "opaque", False):
            raise NoRuleError(f"{op.title} is a user's own op: {self.library.title} cannot compute it")
        if key not in self._compiled:
            function = (
                self._translate_elementwise(op, types)
                if isinstance(op, Elementwise)
                else self._translate_text(op, types)
            )
            if op.pattern is Pattern.BLOCK:
                function = _block_gradients(self.library, function)
            self._compiled[key] = _cast_result(self.library, function, kind.dtype)
        return self._compiled[key]

    def _translate_text(self, op: Op, types: tuple[WireType, ...]) -> ArrayFunction:
        if not isinstance(op, ArrayOp):
            raise NoRuleError(f"{op.title} has no NumPy text")
        names = [f"x{slot}" for slot in range(len(types))]
        text = op.numpy_text(types).format(*names)
        variables: dict[str, Any] = {}
        try:
            self._define_helpers(op.numpy_helpers(types), variables)
            tree = ast.parse(f"lambda {', '.join(names)}: {text}", mode="eval")
            code = _TextTranslator(self.library, variables).visit(tree)
        except _MissingNameError as error:
            raise NoRuleError(f"{op.title} {error}, for which {self.library.title} has no equal") from None
        function: ArrayFunction = eval(
            compile(ast.fix_missing_locations(code), f"<wiregrad {op.name}>", "eval"), variables
        )
        return function

    def _define_helpers(self, sources: Mapping[str, str], variables: dict[str, Any]) -> None:
        """Define the helpers of a text: those of the library, and the others from their source."""
        for name, source in sources.items():
            variables[name] = getattr(self.library, name, None)
            if variables[name] is None:
                code = _TextTranslator(self.library, variables).visit(ast.parse(source))
                exec(compile(ast.fix_missing_locations(code), f"<wiregrad {name}>", "exec"), variables)

    def _translate_elementwise(self, op: Elementwise, types: tuple[WireType, ...]) -> ArrayFunction:
        """Return the library's function of the same name, or the C expression; operands are brought to one dtype."""
        numbers = [kind.dtype for name, kind in zip(op.inputs, types, strict=True) if name not in op.takes_bool]
        wanted = np.result_type(*numbers) if numbers else np.dtype(bool)
        function = self._find_by_name(op)
        if function is None:
            wanted = np.result_type(wanted, np.float16) if numbers and wanted.kind not in "fc" else wanted
            wanted = np.dtype(np.float64) if wanted == np.float16 and np.float16 not in numbers else wanted
            function = self._translate_expression(op)
        dtypes = [np.dtype(bool) if name in op.takes_bool else wanted for name in op.inputs]
        return _cast_operands(self.library, function, dtypes)

    def _find_by_name(self, op: Elementwise) -> ArrayFunction | None:
        """Return the library's function that has the NumPy or SciPy name of an op."""
        name = getattr(op.forward, "__name__", "")
        if getattr(np, name, None) is op.forward:
            found: ArrayFunction | None = self.library.find_function(name)
            if found is not None:
                return found
        dotted = [text.rpartition(".") for text in op.scipy]
        special = [self.library.find_special(last) for module, _, last in dotted if module == "scipy.special"]
        return next((function for function in special if function is not None), None)

    def _translate_expression(self, op: Elementwise) -> ArrayFunction:
        if not op.c:
            raise NoRuleError(f"{op.title} is computed by {op.library}, and {self.library.title} has no such function")
        evaluate = self._translate_tree(parse_c_text(op.c))
        return lambda *xs: evaluate(dict(zip(op.inputs, xs, strict=True)))

    def _translate_tree(self, tree: ScalarExpression) -> Callable[[Mapping[str, Array]], Any]:
        """Return a function that evaluates a C expression on arrays, given by the names of inputs."""
        match tree:
            case InputExpression():
                return lambda inputs: inputs[tree.name]
            case NumberExpression():
                return lambda inputs: tree.value
            case PrefixExpression():
                return self._translate_call("logical_not" if tree.sign == "!" else "negative", tree.operand)
            case BinaryExpression():
                return self._translate_call(BINARY_NAMES[tree.sign], tree.left, tree.right)
            case ChoiceExpression():
                return self._translate_call("where", *tree)
            case CallExpression():
                return self._translate_call(tree.name, *tree.arguments)

    def _translate_call(self, name: str, *operands: ScalarExpression) -> Callable[[Mapping[str, Array]], Any]:
        function = self._find_called(name)
        parts = [self._translate_tree(operand) for operand in operands]
        return lambda inputs: function(*[part(inputs) for part in parts])

    def _find_called(self, name: str) -> ArrayFunction:
        """Return the function that a C expression calls: an operator or one of math.h, or another op."""
        if name in MATH_H_FUNCTIONS or name in _OPERATORS:
            function: ArrayFunction | None = self.library.find_function(NUMPY_NAMES.get(name, name))
            if function is None:
                function = self.library.find_special(name)
            if function is None:
                raise NoRuleError(f"{self.library.title} has no function {name}")
            return function
        op = TABLE[name]
        assert isinstance(op, Elementwise)
        return self._find_by_name(op) or self._translate_expression(op)


_OPERATORS = frozenset([*BINARY_NAMES.values(), "negative", "logical_not", "where"])


def _cast_result(library: ArrayLibrary, function: ArrayFunction, dtype: np.dtype[Any]) -> ArrayFunction:
    own = library.own_dtype(dtype)

    def call(*xs: Array) -> Array:
        y = function(*xs)
        return y if y.dtype == own else library.astype(y, own)

    return call


def _block_gradients(library: ArrayLibrary, function: ArrayFunction) -> ArrayFunction:
    return lambda *xs: library.stop_gradient(function(*xs))


def _cast_operands(library: ArrayLibrary, function: ArrayFunction, dtypes: Sequence[np.dtype[Any]]) -> ArrayFunction:
    wanted = [library.own_dtype(dtype) for dtype in dtypes]

    def call(*xs: Array) -> Array:
        return function(*[x if x.dtype == own else library.astype(x, own) for x, own in zip(xs, wanted, strict=True)])

    return call


class ProgramStep(NamedTuple):
    """One node of a circuit that another library computes."""

    function: ArrayFunction
    sources: tuple[int, ...]
    target: int


class LibraryProgram:
    """A circuit as a list of calls of another library."""

    def __init__(self, circuit: CircuitGraph, library: ArrayLibrary) -> None:
        self.circuit = circuit
        self.library = library
        self.steps = list_steps(circuit, OpTranslator(library))
        self.inputs = circuit.input_indices()
        self.outputs = circuit.columns.outputs.tolist()
        self.constants = {node: library.constant(value) for node, value in circuit.constants().items()}

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs for these inputs."""
        like = inputs[0] if inputs else None
        values: dict[int, Array] = dict(zip(self.inputs, inputs, strict=True))
        for node, constant in self.constants.items():
            values[node] = self.library.move_like(constant, like)
        for function, sources, target in self.steps:
            values[target] = function(*[values[source] for source in sources])
        return [values[node] for node in self.outputs]


def list_steps(circuit: CircuitGraph, translator: OpTranslator) -> list[ProgramStep]:
    """Return the calls for all nodes; raise one `NoRuleError` that lists every op without one."""
    steps = []
    refused: dict[str, list[str]] = {}
    for row in circuit.rows():
        if row.op in (INPUT, CONSTANT):
            continue
        types = tuple(circuit.type_of(source) for source in row.sources)
        try:
            function = translator.find_function(row.op, types, circuit.type_of(row.node))
        except NoRuleError as error:
            refused.setdefault(str(error), []).append(circuit.reference_to(row.node))
        else:
            steps.append(ProgramStep(function, tuple(row.sources), row.node))
    if refused:
        lines = [f"  {reason} (nodes {join_first_names(names)})" for reason, names in refused.items()]
        raise NoRuleError("\n".join([f"{circuit.name} cannot be given to {translator.library.title}:", *lines]))
    return steps


def make_function(
    circuit: CircuitGraph, library: ArrayLibrary, *, check: bool = True, point: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Return a circuit as a function of arrays of a library: inputs by place or by name, in the circuit's order.

    Inputs that are left out have their values in `point`.

    Where a traced circuit would take another branch, the results are NaN, because nothing can be raised inside a
    compiled function.
    """
    checks = add_check_outputs(circuit) if check else CircuitWithChecks(circuit, ())
    list_steps(checks.circuit, OpTranslator(library))
    program = LibraryProgram(guard_gradients(checks.circuit), library)
    expected = [np.asarray(value) for value in checks.expected_values()]
    converters = [
        ArgumentConverter(library, name, circuit.type_of(node))
        for name, node in zip(circuit.inputs, circuit.input_indices(), strict=True)
    ]
    names = circuit.inputs
    labels = circuit.outputs
    for label, node in zip(labels, circuit.columns.outputs.tolist(), strict=True):
        if expected and not circuit.type_of(node).differentiable:
            raise NoRuleError(
                f"the output {label} is {circuit.type_of(node)}, which has no NaN to say that the traced function "
                "would take another branch: use check=False"
            )

    def run_circuit(*args: Any, **named: Any) -> Any:
        values = bind_arguments(names, args, named, point or {})
        inputs = [converter.convert(x) for converter, x in zip(converters, values, strict=True)]
        outputs = program.run(inputs)
        results = outputs[: len(labels)]
        if expected:
            holds = hold_certificates(library, outputs[len(labels) :], expected)
            results = [library.find_function("where")(holds, y, math.nan) for y in results]
        return results[0] if len(results) == 1 else dict(zip(labels, results, strict=True))

    run_circuit.__name__ = run_circuit.__qualname__ = circuit.name if circuit.name.isidentifier() else "run_circuit"
    run_circuit.__doc__ = f"{circuit.name}, computed by {library.title} from a circuit of wiregrad."
    return run_circuit


def bind_arguments(
    names: Sequence[str], args: Sequence[Any], named: Mapping[str, Any], point: Mapping[str, Any]
) -> list[Any]:
    """Return the value of every input, given by place or by name; those that are left out are in `point`."""
    if len(args) > len(names):
        raise InputError(f"the circuit has {len(names)} inputs ({join_first_names(names)}); got {len(args)} values")
    given = dict(zip(names, args, strict=False))
    for name, value in named.items():
        if name not in names:
            raise InputError(f"there is no input called {name!r}{suggest_name(name, names)}")
        if name in given:
            raise InputError(f"input {name} is given twice")
        given[name] = value
    given = {**point, **given}
    missing = [name for name in names if name not in given]
    if missing:
        hint = (
            "" if any(map(str.isidentifier, missing)) else "; to keep parameters, trace model.holding(model.arrays())"
        )
        raise InputError(f"no value for {join_first_names(missing)}{hint}")
    return [given[name] for name in names]


class ArgumentConverter:
    """Converts an argument to an array of an input's type."""

    def __init__(self, library: ArrayLibrary, name: str, kind: WireType) -> None:
        self.library = library
        self.name = name
        self.shape = kind.shape
        self.dtype = library.own_dtype(kind.dtype)
        wanted = library.narrow(kind.dtype)
        accepted = [dtype for dtype in DTYPES.values() if np.can_cast(dtype, wanted, "same_kind")]
        self.accepted = [library.own_dtype(dtype) for dtype in accepted]

    def convert(self, x: Any) -> Array:
        """Return the array; its shape must be that of the input."""
        array: Array = x if isinstance(x, self.library.array_class) else self.library.constant(x)
        if tuple(array.shape) != self.shape:
            raise InputError(
                f"input {self.name} must have shape {self.shape}; got {tuple(array.shape)}: map the function over a "
                "batch with vmap"
            )
        if array.dtype == self.dtype:
            return array
        if array.dtype not in self.accepted:
            raise InputError(f"input {self.name} must be {self.dtype}; got {array.dtype}")
        return self.library.astype(array, self.dtype)


def hold_certificates(library: ArrayLibrary, values: Sequence[Array], expected: Sequence[NDArray[Any]]) -> Array:
    """Return whether all certified nodes have the values that they had when the circuit was traced."""
    find = library.find_function
    holds = None
    for value, wanted in zip(values, expected, strict=True):
        array = library.move_like(library.constant(wanted), value)
        same = find("equal")(value, array)
        if wanted.dtype.kind in "fc" and np.isnan(wanted).any():
            same = find("logical_or")(same, find("logical_and")(find("isnan")(value), find("isnan")(array)))
        if wanted.dtype.kind == "f" and not wanted.all():
            same = find("logical_and")(same, find("equal")(find("signbit")(value), find("signbit")(array)))
        same = find("all")(same)
        holds = same if holds is None else find("logical_and")(holds, same)
    return holds


class JaxLibrary(ArrayLibrary):
    """JAX: `jax.numpy` has NumPy's names already."""

    title = "JAX"

    def __init__(self, *, narrow: bool = False) -> None:
        with require_package("jax", "to_jax"):
            import jax  # noqa: PLC0415 - optional
            import jax.numpy  # noqa: PLC0415
            import jax.scipy.special  # noqa: PLC0415
        self._jax = jax
        self.array_class = jax.Array
        self.narrower = NARROW_DTYPES if narrow else {}

    def find_function(self, name: str) -> Any:
        """Return the function of a dotted NumPy name."""
        own = super().find_function(name)
        if own is not None:
            return own
        return reduce(lambda found, part: getattr(found, part, None), name.split("."), self._jax.numpy)

    def find_special(self, name: str) -> ArrayFunction | None:
        """Return the function of `jax.scipy.special`, unless it is `rel_entr`, which makes inf of NaN."""
        found: ArrayFunction | None = getattr(self._jax.scipy.special, name, None)
        return None if name == "rel_entr" else found

    def dtype_of(self, x: Array) -> np.dtype[Any]:
        """Return the dtype of an array."""
        dtype: np.dtype[Any] = np.dtype(x.dtype)
        return dtype

    def astype(self, x: Array, dtype: Any) -> Array:
        """Return an array in another dtype; of a complex one, the real part."""
        wanted = self.narrow(dtype)
        if self.dtype_of(x).kind == "c" and wanted.kind != "c":
            x = x.real
        return self._jax.numpy.asarray(x).astype(wanted)

    def constant(self, value: Any) -> Array:
        """Return a NumPy value as an array."""
        array = np.asarray(value)
        return self._jax.numpy.asarray(array, self.narrow(array.dtype))

    def stop_gradient(self, x: Array) -> Array:
        """Return an array through which no gradient flows."""
        return self._jax.lax.stop_gradient(x)

    def integers(self, values: Sequence[int], like: Array) -> Array:
        """Return whole numbers as an array."""
        return self.constant(np.array(values, np.int64))

    def add_at_places(self, x: Array, places: Array, length: int) -> Array:
        """Return zeros with the elements along the last axis of x added at places."""
        zeros = self._jax.numpy.zeros((*x.shape[:-1], length), x.dtype)
        return zeros.at[..., places].add(x)

    def add_at(self, x: Array, indices: Array, axis: int, length: int) -> Array:
        """Return zeros, so long along an axis, with the slices of x added where a row of indices says."""
        zeros = self._jax.numpy.zeros((*x.shape[:axis], length, *x.shape[axis + 1 :]), x.dtype)
        return zeros.at[(slice(None),) * axis + (indices,)].add(x)

    def add_along_axis(self, x: Array, indices: Array, axis: int, length: int) -> Array:
        """Return zeros, so long along an axis, with the elements of x added where the indices say."""
        zeros = self._jax.numpy.zeros((*x.shape[:axis], length, *x.shape[axis + 1 :]), x.dtype)
        grid = list(np.ogrid[tuple(slice(n) for n in x.shape)])
        grid[axis] = indices
        return zeros.at[tuple(grid)].add(x)

    def argsort(self, x: Array, axis: int = -1, kind: str | None = None) -> Array:
        """Return the indices that sort x; JAX takes no name of an algorithm, and a stable one serves for all."""
        return self._jax.numpy.argsort(x, axis=axis, stable=True)

    def imaginary(self, x: Array) -> Array:
        """Return x as an imaginary part beside 0."""
        return self._jax.lax.complex(self._jax.numpy.zeros_like(x), x)

    def matrix_exp(self, x: Array) -> Array:
        """Return the exponential of matrices."""
        return self._jax.scipy.linalg.expm(x)

    def linalg_slogdet(self, x: Array) -> Any:
        """Return the sign and logarithm of determinants, to be stacked."""
        return tuple(self._jax.numpy.linalg.slogdet(x))

    def linalg_qr(self, x: Array) -> Any:
        """Return the factors, to be joined."""
        return tuple(self._jax.numpy.linalg.qr(x))


NARROW_DTYPES: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.complex64),
    np.dtype(np.int64): np.dtype(np.int32),
}
"""The dtypes of 32 bits that take the place of those of 64."""


def to_jax(
    circuit: CircuitGraph, dtype: str | None = None, *, check: bool = True, point: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Return a circuit as a function of JAX arrays, for `jax.jit`, `jax.vmap`, `jax.grad` and sharding.

    JAX computes in 64 bits only if `jax_enable_x64` is set; with `dtype="float32"` the circuit is computed in 32.
    """
    narrow = check_narrow_dtype(dtype)
    library = JaxLibrary(narrow=narrow)
    if not narrow:
        check_jax_width(circuit, library)
    return make_function(circuit, library, check=check, point=point)


def check_jax_width(circuit: CircuitGraph, library: JaxLibrary) -> None:
    """Raise if JAX would compute a circuit in fewer bits than it has."""
    wide = {circuit.type_of(node).dtype for node in range(circuit.size)} & set(NARROW_DTYPES)
    if wide and not library._jax.config.jax_enable_x64:
        names = " and ".join(sorted(dtype.name for dtype in wide))
        raise NoRuleError(
            f"{circuit.name} computes in {names}, and JAX would use 32 bits without saying so: call "
            'jax.config.update("jax_enable_x64", True) first, or to_jax(dtype="float32")'
        )


class JaxReplay:
    """A replay of a recording on arrays by JAX, on a GPU; arguments and results are NumPy arrays.

    The gradient is that of wiregrad's rules, which become part of the circuit that JAX compiles.
    """

    tier = "jax"
    reason = ""

    def __init__(self, recording: CertifiedRecording, device: Any) -> None:
        assert recording.circuit is not None
        self._recording = recording
        self._device = device
        self._count = len(recording.moving)
        self._bits = [np.asarray(value).tobytes() for value in recording.expected]
        library = JaxLibrary()
        self._jit: Callable[..., Any] = library._jax.jit
        self._put: Callable[..., Any] = library._jax.device_put
        check_jax_width(recording.circuit, library)
        self._program = LibraryProgram(recording.circuit, library)
        self._library = library
        self._run = self._jit(lambda *inputs: self._program.run(inputs))
        self._pull: Callable[..., Any] | None = None

    def compute_results(self, inputs: Sequence[Any]) -> Sequence[Any] | Flip:
        """Return the results."""
        values = [np.asarray(value) for value in self._run(*self._move(inputs))]
        flip = self._find_flip(values[self._count :])
        if flip is not None:
            return flip
        pairs = zip(values[: self._count], self._recording.in_python, strict=True)
        return [plain_result(value[()], in_python=in_python) for value, in_python in pairs]

    def compute_gradient(self, inputs: Sequence[Any]) -> Sequence[Any] | Flip:
        """Return the first result, followed by its gradient by every input."""
        if self._pull is None:
            self._pull = self._compile_gradient()
        values, checks = self._pull(*self._move(inputs))
        flip = self._find_flip([np.asarray(check) for check in checks])
        if flip is not None:
            return flip
        value, *grads = [np.asarray(value)[()] for value in values]
        likes = [float(x) if type(x) is np.float64 else x for x in inputs]
        settled = [settle_gradient(grad, x) for grad, x in zip(grads, likes, strict=True)]
        return [plain_result(value), *settled]

    def _compile_gradient(self) -> Callable[..., Any]:
        circuit = self._recording.circuit
        assert circuit is not None
        first = prune(circuit.with_output(circuit.outputs[0]))
        program = LibraryProgram(simplify(gradient_circuit(first)), self._library)

        def compute(*inputs: Any) -> tuple[list[Any], list[Any]]:
            # JAX computes once what both circuits compute.
            return program.run(inputs), self._program.run(inputs)[self._count :]

        compiled: Callable[..., Any] = self._jit(compute)
        return compiled

    def _move(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the inputs as arrays of the GPU, in the dtypes of the circuit."""
        circuit = self._recording.circuit
        assert circuit is not None
        kinds = [circuit.type_of(node).dtype for node in circuit.input_indices()]
        return [self._put(np.asarray(x, kind), self._device) for x, kind in zip(inputs, kinds, strict=True)]

    def _find_flip(self, checks: Sequence[Any]) -> Flip | None:
        pairs = enumerate(zip(checks, self._bits, strict=True))
        check = next((k for k, (value, bits) in pairs if value.tobytes() != bits), None)
        return None if check is None else Flip(check)


def find_jax_gpu(device: str) -> Any:
    """Return the GPU with a name such as "cuda:1" as JAX sees it; raise `DeviceError` if there is none, or no JAX."""
    wanted = f'device="{device}" runs functions of arrays by JAX'
    number = int(device.partition(":")[2] or 0)
    try:
        import jax  # noqa: PLC0415 - optional
    except ImportError:
        raise DeviceError(f'{wanted}, which is not installed: pip install "jax[cuda13]", or leave device out') from None
    try:
        devices = jax.devices("gpu")
    except RuntimeError as error:
        raise DeviceError(
            f'{wanted}, which finds no GPU here ({error}): pip install "jax[cuda13]", or leave device out'
        ) from None
    if number >= len(devices):
        raise DeviceError(f"{wanted}, which finds {len(devices)} of them; there is no GPU number {number}")
    return devices[number]


def check_narrow_dtype(dtype: str | None) -> bool:
    """Return whether a dtype asks for 32 bits; raise `InputError` if it is not one of the two."""
    name = None if dtype is None else np.dtype(dtype).name
    if name not in (None, "float32", "float64"):
        raise InputError(f"dtype must be float32 or float64; got {dtype!r}")
    return name == "float32"


class TorchLibrary(ArrayLibrary):
    """PyTorch under NumPy's names. Functions whose PyTorch form has no derivative are left out: C expressions have."""

    title = "PyTorch"

    def __init__(self, *, narrow: bool = False) -> None:
        with require_package("torch", "to_torch"):
            import torch  # noqa: PLC0415 - optional
        self._torch = torch
        self.array_class = torch.Tensor
        self.narrower = {wide: thin for wide, thin in NARROW_DTYPES.items() if wide.kind != "i"} if narrow else {}
        self._dtypes = {name: getattr(torch, name) for name in DTYPES}
        self._numpy_dtypes = {own: np.dtype(name) for name, own in self._dtypes.items()}

    def find_function(self, name: str) -> Any:
        """Return the method of this class, or PyTorch's function, that has a dotted NumPy name."""
        own = super().find_function(name)
        if own is not None:
            return own
        if name not in _SAME_IN_TORCH:
            return None
        function = getattr(self._torch, _SAME_IN_TORCH[name])
        if name in ("absolute", "abs", "floor", "ceil", "trunc", "rint"):
            # NumPy leaves conditions as they are, and PyTorch does not take them.
            return lambda x: x if x.dtype == self._torch.bool else function(x)
        return partial(self._call_on_tensors, function)

    def _call_on_tensors(self, function: ArrayFunction, *xs: Any) -> Array:
        """Call a function of tensors, with numbers as tensors of the dtype and device of another operand."""
        like = next((x for x in xs if isinstance(x, self._torch.Tensor)), None)
        options = {} if like is None else {"dtype": like.dtype, "device": like.device}
        return function(*[x if isinstance(x, self._torch.Tensor) else self._torch.tensor(x, **options) for x in xs])

    def find_special(self, name: str) -> ArrayFunction | None:
        """Return the function of `torch.special`."""
        function = getattr(self._torch.special, name, None)
        return None if function is None else partial(self._call_on_tensors, function)

    def dtype_of(self, x: Array) -> np.dtype[Any]:
        """Return the dtype of a tensor."""
        return self._numpy_dtypes[x.dtype]

    def astype(self, x: Array, dtype: Any) -> Array:
        """Return a tensor in another dtype; of a complex one, the real part."""
        wanted = dtype if isinstance(dtype, self._torch.dtype) else self.own_dtype(dtype)
        if x.is_complex() and not wanted.is_complex:
            x = self._torch.real(x)
        return x.to(wanted)

    def own_dtype(self, dtype: Any) -> Any:
        """Return PyTorch's dtype."""
        return self._dtypes[self.narrow(dtype).name]

    def constant(self, value: Any) -> Array:
        """Return a NumPy value as a tensor."""
        array = np.asarray(value)
        return self._torch.as_tensor(np.array(array, self.narrow(array.dtype)))

    def move_like(self, x: Array, like: Array | None) -> Array:
        """Return a tensor on the device of another one."""
        return x if like is None or like.device == x.device else x.to(like.device)

    def stop_gradient(self, x: Array) -> Array:
        """Return an array through which no gradient flows."""
        return x.detach()

    def integers(self, values: Sequence[int], like: Array) -> Array:
        """Return whole numbers as a tensor."""
        return self._torch.tensor(list(values), dtype=self._torch.int64, device=like.device)

    def where(self, condition: Array, a: Any, b: Any) -> Array:
        """Return elements of a where a condition is true, else of b."""
        if not isinstance(a, self._torch.Tensor) and not isinstance(b, self._torch.Tensor):
            a = self._torch.full_like(condition, a, dtype=self._torch.float64)
        return self._torch.where(condition, a, b)

    def getitem(self, x: Array, index: Any) -> Array:
        """Return part of a tensor; PyTorch has no steps backward, so these are turned round afterwards."""
        items = expand_index(index, len(x.shape))
        forward, turned = [], []
        axis = 0
        place = 0
        for item in items:
            if isinstance(item, slice) and (item.step or 1) < 0:
                taken = range(*item.indices(x.shape[axis]))
                turned.append(place)
                item = slice(taken[-1], taken[0] + 1, -taken.step) if taken else slice(0, 0)  # noqa: PLW2901
            forward.append(item)
            axis += item is not None
            place += item is None or isinstance(item, slice)
        y = x[tuple(forward)] if forward else x
        return self._torch.flip(y, turned) if turned else y

    def add_at_places(self, x: Array, places: Array, length: int) -> Array:
        """Return zeros with the elements along the last axis of x added at places."""
        zeros = x.new_zeros((*x.shape[:-1], length))
        return self._torch.index_add(zeros, -1, places, x)

    def add_at(self, x: Array, indices: Array, axis: int, length: int) -> Array:
        """Return zeros, so long along an axis, with the slices of x added where a row of indices says."""
        zeros = x.new_zeros((*x.shape[:axis], length, *x.shape[axis + 1 :]))
        return self._torch.index_add(zeros, axis, self._torch.remainder(indices, length), x)

    def add_along_axis(self, x: Array, indices: Array, axis: int, length: int) -> Array:
        """Return zeros, so long along an axis, with the elements of x added where the indices say."""
        zeros = x.new_zeros((*x.shape[:axis], length, *x.shape[axis + 1 :]))
        return self._torch.scatter_add(zeros, axis, self._torch.remainder(indices, length), x)

    def take(self, x: Array, indices: Array, axis: int) -> Array:
        """Return slices by number along an axis."""
        rows = self._torch.remainder(indices.reshape(-1), x.shape[axis])
        parts = self._torch.index_select(x, axis, rows)
        return parts.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))

    def take_along_axis(self, x: Array, indices: Array, axis: int) -> Array:
        """Return elements by number along an axis."""
        return self._torch.take_along_dim(x, self._torch.remainder(indices, x.shape[axis]), axis)

    def imaginary(self, x: Array) -> Array:
        """Return x as an imaginary part beside 0."""
        return self._torch.complex(self._torch.zeros_like(x), x)

    def cbrt(self, x: Array) -> Array:
        """Return the cube root."""
        return self._torch.sign(x) * self._torch.abs(x) ** (1 / 3)

    def matrix_exp(self, x: Array) -> Array:
        """Return the exponential of matrices."""
        return self._torch.linalg.matrix_exp(x)

    def sign(self, x: Array) -> Array:
        """Return the sign; of complex numbers the direction, of NaN NaN."""
        y = self._torch.sgn(x)
        return self._torch.where(self._torch.isnan(x), x, y)

    def conjugate(self, x: Array) -> Array:
        """Return the conjugate."""
        return self._torch.conj_physical(x)

    def real(self, x: Array) -> Array:
        """Return the real part."""
        return self._torch.real(x) if x.is_complex() else x

    def imag(self, x: Array) -> Array:
        """Return the imaginary part."""
        return self._torch.imag(x) if x.is_complex() else self._torch.zeros_like(x)

    def sum(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        """Return sums along axes."""
        axes = list_axes(axis, len(x.shape))
        return self._torch.sum(x, axes, keepdims) if axes else x

    def max(self, x: Array, axis: Any = None, keepdims: bool = False, initial: float | None = None) -> Array:
        """Return the largest elements along axes."""
        return self._reduce_extreme("amax", x, axis, keepdims, initial)

    def min(self, x: Array, axis: Any = None, keepdims: bool = False, initial: float | None = None) -> Array:
        """Return the smallest elements along axes."""
        return self._reduce_extreme("amin", x, axis, keepdims, initial)

    def _reduce_extreme(self, name: str, x: Array, axis: Any, keepdims: bool, initial: float | None) -> Array:
        axes = list_axes(axis, len(x.shape))
        if not axes:
            return x
        if initial is not None and not all(x.shape):
            shape = [1 if k in axes else n for k, n in enumerate(x.shape) if keepdims or k not in axes]
            return x.new_full(shape, initial)
        return getattr(self._torch, name)(x, axes, keepdims)

    def nanmax(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        """Return the largest elements along axes that are not NaN."""
        return self._skip_nan(self.max, -math.inf, x, axis, keepdims)

    def nanmin(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        """Return the smallest elements along axes that are not NaN."""
        return self._skip_nan(self.min, math.inf, x, axis, keepdims)

    def _skip_nan(self, reduce_axes: ArrayFunction, filler: float, x: Array, axis: Any, keepdims: bool) -> Array:
        nan = self._torch.isnan(x)
        y = reduce_axes(self._torch.where(nan, filler, x), axis, keepdims)
        return self._torch.where(self.all(nan, axis, keepdims), math.nan, y)

    def prod(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        """Return products along axes."""
        for k in sorted(list_axes(axis, len(x.shape)), reverse=True):
            x = self._torch.prod(x, k, keepdims)
        return x

    def any(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        """Return whether an element along axes is not 0."""
        axes = list_axes(axis, len(x.shape))
        return self._torch.any(x, axes, keepdims) if axes else x != 0

    def all(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        """Return whether all elements along axes are not 0."""
        axes = list_axes(axis, len(x.shape))
        return self._torch.all(x, axes, keepdims) if axes else x != 0

    def count_nonzero(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        """Return how many elements along axes are not 0."""
        return self.sum((x != 0).to(self._torch.int64), axis, keepdims)

    def argmax(self, x: Array, axis: int | None = None, keepdims: bool = False) -> Array:
        """Return the number of the largest element."""
        return self._torch.argmax(x, axis, keepdims)

    def argmin(self, x: Array, axis: int | None = None, keepdims: bool = False) -> Array:
        """Return the number of the smallest element."""
        return self._torch.argmin(x, axis, keepdims)

    def argsort(self, x: Array, axis: int = -1, **_: Any) -> Array:
        """Return the numbers of the elements in order."""
        return self._torch.argsort(x, dim=axis, stable=True)

    def searchsorted(self, a: Array, v: Array, side: str = "left") -> Array:
        """Return where numbers belong in a sorted array."""
        return self._torch.searchsorted(a, v, side=side)

    def cumsum(self, x: Array, axis: int) -> Array:
        """Return running sums."""
        return self._torch.cumsum(x, axis)

    def cumprod(self, x: Array, axis: int) -> Array:
        """Return running products."""
        return self._torch.cumprod(x, axis)

    def maximum_accumulate(self, x: Array, axis: int) -> Array:
        """Return running maxima."""
        return self._torch.cummax(x, axis).values

    def minimum_accumulate(self, x: Array, axis: int) -> Array:
        """Return running minima."""
        return self._torch.cummin(x, axis).values

    def logaddexp_reduce(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        """Return the logarithm of the sum of exponentials along axes."""
        axes = list_axes(axis, len(x.shape))
        return self._torch.logsumexp(x, axes, keepdims) if axes else x

    def flip(self, x: Array, axis: int) -> Array:
        """Return the elements along an axis backwards."""
        return self._torch.flip(x, (axis,))

    def roll(self, x: Array, shift: int, axis: int) -> Array:
        """Return the elements moved along an axis."""
        return self._torch.roll(x, shift, axis)

    def reshape(self, x: Array, shape: tuple[int, ...]) -> Array:
        """Return the elements in another shape."""
        return x.reshape(shape)

    def transpose(self, x: Array, order: Sequence[int] | None = None) -> Array:
        """Return the axes in another order."""
        return x.permute(tuple(range(len(x.shape)))[::-1] if order is None else tuple(order))

    def swapaxes(self, x: Array, one: int, two: int) -> Array:
        """Return the array with two axes exchanged."""
        return x.transpose(one, two)

    def broadcast_to(self, x: Array, shape: tuple[int, ...]) -> Array:
        """Return copies along new and stretched axes."""
        return self._torch.broadcast_to(x, shape)

    def squeeze(self, x: Array, axis: Any = None) -> Array:
        """Return the array without axes of length 1."""
        return self._torch.squeeze(x, list_axes(axis, len(x.shape)))

    def concatenate(self, arrays: Sequence[Array], axis: int) -> Array:
        """Return arrays one after the other."""
        return self._torch.cat(list(arrays), axis)

    def stack(self, arrays: Sequence[Array], axis: int = 0) -> Array:
        """Return arrays along a new axis."""
        return self._torch.stack(list(arrays), axis)

    def zeros_like(self, x: Array) -> Array:
        """Return zeros in the shape of an array."""
        return self._torch.zeros_like(x)

    def ones_like(self, x: Array) -> Array:
        """Return ones in the shape of an array."""
        return self._torch.ones_like(x)

    def eye(self, n: int, dtype: Any = float) -> Array:
        """Return the identity matrix."""
        return self._torch.eye(n, dtype=self._dtypes[np.dtype(dtype).name])

    def diagonal(self, x: Array, axis1: int, axis2: int) -> Array:
        """Return the diagonals of matrices."""
        return self._torch.diagonal(x, 0, axis1, axis2)

    def tril(self, x: Array) -> Array:
        """Return the lower triangle."""
        return self._torch.tril(x)

    def triu(self, x: Array) -> Array:
        """Return the upper triangle."""
        return self._torch.triu(x)

    def linalg_solve(self, a: Array, b: Array) -> Array:
        """Return the solution of linear equations; not finite for a singular matrix."""
        return self._torch.linalg.solve_ex(a, b).result

    def linalg_inv(self, x: Array) -> Array:
        """Return the inverse; not finite for a singular matrix."""
        return self._torch.linalg.inv_ex(x).inverse

    def linalg_det(self, x: Array) -> Array:
        """Return the determinant."""
        return self._torch.linalg.det(x)

    def linalg_slogdet(self, x: Array) -> Any:
        """Return the sign and logarithm of the determinant."""
        return tuple(self._torch.linalg.slogdet(x))

    def linalg_cholesky(self, x: Array, upper: bool = False) -> Array:
        """Return the Cholesky factor."""
        return self._torch.linalg.cholesky(x, upper=upper)

    def linalg_eigh(self, x: Array, uplo: str = "L") -> Any:
        """Return eigenvalues and eigenvectors of a symmetric matrix."""
        return tuple(self._torch.linalg.eigh(x, uplo))

    def linalg_eigvalsh(self, x: Array, uplo: str = "L") -> Array:
        """Return the eigenvalues of a symmetric matrix."""
        return self._torch.linalg.eigvalsh(x, uplo)

    def linalg_eig(self, x: Array) -> Any:
        """Return eigenvalues and eigenvectors."""
        return tuple(self._torch.linalg.eig(x))

    def linalg_eigvals(self, x: Array) -> Array:
        """Return eigenvalues."""
        return self._torch.linalg.eigvals(x)

    def linalg_svd(self, x: Array, full_matrices: bool = True, compute_uv: bool = True) -> Any:
        """Return the singular value decomposition, or the singular values alone."""
        if not compute_uv:
            return self._torch.linalg.svdvals(x)
        return tuple(self._torch.linalg.svd(x, full_matrices))

    def linalg_qr(self, x: Array) -> Any:
        """Return the factors Q and R."""
        return tuple(self._torch.linalg.qr(x))

    def linalg_pinv(self, x: Array, rcond: float | None = None) -> Array:
        """Return the pseudoinverse."""
        return self._torch.linalg.pinv(x, rcond=1e-15 if rcond is None else rcond)

    def fft_fft(self, x: Array, n: int, axis: int, norm: str | None = None) -> Array:
        """Return the Fourier transform."""
        return self._torch.fft.fft(x, n, axis, norm)

    def fft_ifft(self, x: Array, n: int, axis: int, norm: str | None = None) -> Array:
        """Return the inverse Fourier transform."""
        return self._torch.fft.ifft(x, n, axis, norm)

    def fft_rfft(self, x: Array, n: int, axis: int, norm: str | None = None) -> Array:
        """Return the Fourier transform of real numbers."""
        return self._torch.fft.rfft(x, n, axis, norm)

    def fft_irfft(self, x: Array, n: int, axis: int, norm: str | None = None) -> Array:
        """Return the inverse Fourier transform to real numbers."""
        return self._torch.fft.irfft(x, n, axis, norm)


_SAME_IN_TORCH = {
    **{
        name: name
        for name in (
            "positive negative square reciprocal sqrt absolute abs hypot exp exp2 expm1 log log2 log10 log1p sin cos "
            "tan sinc arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh arctan2 logaddexp logaddexp2 maximum "
            "minimum fmax fmin floor ceil trunc greater greater_equal less less_equal not_equal logical_and logical_or "
            "logical_xor logical_not isnan isinf isfinite add subtract multiply divide erf erfc fmod "
            "matmul"
        ).split()
    },
    "power": "pow",
    "rint": "round",
    "equal": "eq",
    "mod": "remainder",
    "remainder": "remainder",
}
"""PyTorch's names of the NumPy functions that it computes as NumPy does, with a derivative."""


def list_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes of a reduction, counted from the front; None means all of them."""
    axes = range(ndim) if axis is None else (axis if isinstance(axis, tuple) else (axis,))
    return tuple(k % ndim for k in axes) if ndim else ()


def expand_index(index: Any, ndim: int) -> tuple[Any, ...]:
    """Return an index of whole numbers, slices, None and ... with full slices in the place of the dots."""
    items = index if isinstance(index, tuple) else (index,)
    if Ellipsis not in items:
        return items
    dots = items.index(Ellipsis)
    used = sum(item is not None for item in items) - 1
    return items[:dots] + (slice(None),) * (ndim - used) + items[dots + 1 :]


def to_torch(
    circuit: CircuitGraph, dtype: str | None = None, *, check: bool = True, point: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Return a circuit as a function of PyTorch tensors, for autograd, `torch.func` and `torch.compile`.

    With `dtype="float32"` the circuit is computed in 32 bits.
    """
    return make_function(circuit, TorchLibrary(narrow=check_narrow_dtype(dtype)), check=check, point=point)
