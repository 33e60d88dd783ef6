"""Functions of JAX as circuits: `from_jax`.

JAX writes the function down as a jaxpr, and the jaxpr is run here once more: on wires for what depends on the inputs,
by JAX itself for everything else. Calls of jitted functions are entered, `scan` and `while` are unrolled, and of a
`cond` the branch is taken that the arguments choose. Whatever steers the run (a condition, an index) becomes a
certificate, so that the circuit is never used where the function would do something else. A function with a derivative
rule of the user's own (`custom_jvp`, `custom_vjp`) stays one node, which asks JAX for its value and its gradient.

Nodes have the lines of the user's code. Inside a function of a library, that is the line that called it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.interpreter import evaluate_nodes
from wiregrad.dtypes import DTYPES, WireType, format_brief_number
from wiregrad.errors import CheckError, InputError, NoRuleError, UnknownOpsError, is_library_file, require_package
from wiregrad.exchange.observed_explain import ObservedExplanation, explain_run
from wiregrad.exchange.observed_flow import ObservedFlow, flow_run
from wiregrad.exchange.observed_run import (
    UNDECIDED,
    BackwardCheck,
    HeldValue,
    ObservedBlame,
    ObservedFunction,
    ObservedGradient,
    ObservedOp,
    ObservedRun,
    ObservedTensor,
    OpFinding,
    RunQuestions,
    SourceCall,
    TensorRef,
    blame_run,
    describe_source,
    largest_finite,
    make_finding,
)
from wiregrad.frontends.recording.trace import input_names
from wiregrad.ir import Certificate, CircuitGraph, GraphBuilder, Pattern, Place, Port
from wiregrad.ir.circuit import CIRCUIT_MAKERS
from wiregrad.ir.columns import is_group_label
from wiregrad.ops import TABLE
from wiregrad.ops.array_ops import General
from wiregrad.ops.functions import FUNCTIONS

Operand = Any
"""A port, or a NumPy array that depends on no input."""
Rule = Callable[..., Any]

MAX_STEPS = 1000
"""Maximum number of steps of a loop that is unrolled, unless `max_steps` says otherwise."""

SAME_OPS = {
    "add": "add",
    "add_any": "add",
    "sub": "subtract",
    "mul": "multiply",
    "neg": "negative",
    "max": "maximum",
    "min": "minimum",
    "pow": "power",
    "abs": "absolute",
    "sign": "sign",
    "floor": "floor",
    "ceil": "ceil",
    "exp": "exp",
    "exp2": "exp2",
    "log": "log",
    "log1p": "log1p",
    "expm1": "expm1",
    "sqrt": "sqrt",
    "cbrt": "cbrt",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "atan2": "arctan2",
    "logistic": "sigmoid",
    "erf": "erf",
    "erfc": "erfc",
    "erf_inv": "erfinv",
    "lgamma": "gammaln",
    "digamma": "digamma",
    "square": "square",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "and": "logical_and",
    "or": "logical_or",
    "xor": "logical_xor",
    "not": "logical_not",
    "is_finite": "isfinite",
    "stop_gradient": "stop_gradient",
    "conj": "conjugate",
    "igamma": "gammainc",
    "igammac": "gammaincc",
    "regularized_incomplete_beta": "betainc",
    "copy": "positive",
    "copy_p": "positive",
}
"""The ops that compute what primitives of JAX do, on the same operands."""


def call(name: str, *args: Any, **options: Any) -> Any:
    """Call one of wiregrad's functions of arrays, or an op, on wires and arrays."""
    return FUNCTIONS[name].run(*args, **options) if name in FUNCTIONS else TABLE[name](*args, **options)


def unit_value(*xs: Any, unit: JaxUnit, output: int) -> Any:
    """Return the value of a function that stays one node."""
    return unit.compute(xs)[output]


def unit_back(slot: int, g: Any, xs: Sequence[Any], y: Any, *, unit: JaxUnit, output: int) -> Any:
    """Return the gradient that a function that stays one node sends back."""
    if any(hasattr(x, "__wiregrad_apply__") for x in (g, *xs)):
        raise NoRuleError(
            f"{unit.called} has a rule of its own in JAX; wiregrad cannot differentiate through that rule"
        )
    return unit.pull(slot, g, xs, output)


def unit_ahead(slot: int, t: Any, xs: Sequence[Any], y: Any, *, unit: JaxUnit, output: int) -> Any:
    """Return the tangent of a function that stays one node."""
    if any(hasattr(x, "__wiregrad_apply__") for x in (t, *xs)):
        raise NoRuleError(
            f"{unit.called} has a rule of its own in JAX; wiregrad cannot differentiate through that rule"
        )
    return unit.push(slot, t, xs, output)


JAX_CALL = TABLE.add(
    General(
        name="jax_call",
        doc="A function of JAX with a derivative rule of its own.",
        inputs=("x",),
        variadic=True,
        pattern=Pattern.SCALE,
        forward=unit_value,
        back=unit_back,
        ahead=unit_ahead,
        batches=False,
        per_call=True,
    )
)


class JaxUnit:
    """A call of a function with a derivative rule of its own: JAX computes its value and its gradient."""

    def __init__(self, jax: Any, equation: Any, called: str, wires: Sequence[int], operands: Sequence[Operand]) -> None:
        self.jax = jax
        self.equation = equation
        self.called = called
        self.wires = wires
        self.operands = list(operands)

    def _run(self, *xs: Any) -> Any:
        operands = list(self.operands)
        for slot, x in zip(self.wires, xs, strict=True):
            operands[slot] = x
        return _bind(self.equation, operands)

    def _on_arrays(self, xs: Sequence[Any]) -> list[Any]:
        return [self.jax.numpy.asarray(x) for x in xs]

    def compute(self, xs: Sequence[Any]) -> list[Any]:
        """Return the outputs as NumPy arrays."""
        return [np.asarray(y)[()] for y in self._run(*self._on_arrays(xs))]

    def pull(self, slot: int, g: Any, xs: Sequence[Any], output: int) -> Any:
        """Return the gradient by one input."""
        y, pull_back = self.jax.vjp(lambda *inputs: self._run(*inputs)[output], *self._on_arrays(xs))
        return np.asarray(pull_back(self.jax.numpy.asarray(g, y.dtype))[slot])[()]

    def push(self, slot: int, t: Any, xs: Sequence[Any], output: int) -> Any:
        """Return the tangent for a tangent of one input."""
        arrays = self._on_arrays(xs)
        tangents = [self.jax.numpy.zeros_like(x) for x in arrays]
        tangents[slot] = self.jax.numpy.asarray(t, arrays[slot].dtype)
        return np.asarray(self.jax.jvp(lambda *inputs: self._run(*inputs)[output], arrays, tangents)[1])[()]


def _bind(equation: Any, operands: Sequence[Any]) -> list[Any]:
    """Run one equation by JAX."""
    bound = equation.primitive.get_bind_params(equation.params)
    # Older versions of JAX return the functions apart.
    functions, params = bound if isinstance(bound, tuple) else ((), bound)
    y = equation.primitive.bind(*functions, *operands, **params)
    return list(y) if equation.primitive.multiple_results else [y]


class JaxprRunner:
    """Runs a jaxpr equation by equation; what is done for one equation is up to the kind of run."""

    def __init__(self, jax: Any, max_steps: int) -> None:
        self.jax = jax
        self.max_steps = max_steps

    def run_jaxpr(self, jaxpr: Any, constants: Sequence[Any], operands: Sequence[Operand]) -> list[Operand]:
        """Run a jaxpr and return its results."""
        values: dict[Any, Operand] = dict(zip(jaxpr.constvars, constants, strict=True))
        values.update(zip(jaxpr.invars, operands, strict=True))

        def read(atom: Any) -> Operand:
            return self.add_literal(np.asarray(atom.val, atom.aval.dtype)) if hasattr(atom, "val") else values[atom]

        for equation in jaxpr.eqns:
            results = self.run_at_site(equation, [read(atom) for atom in equation.invars])
            values.update(zip(equation.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def run_closed(self, closed: Any, operands: Sequence[Operand]) -> list[Operand]:
        """Run a jaxpr that carries its constants."""
        if not hasattr(closed, "consts"):
            return self.run_jaxpr(closed, [], operands)
        return self.run_jaxpr(closed.jaxpr, [self.add_constant(value) for value in closed.consts], operands)

    def run_at_site(self, equation: Any, operands: Sequence[Operand]) -> list[Operand]:
        """Run one equation, on account of the user's line that it comes from."""
        raise NotImplementedError

    def add_literal(self, value: NDArray[Any]) -> Operand:
        """Return the operand for a number in the jaxpr."""
        return value

    def add_constant(self, value: Any) -> Operand:
        """Return the operand for an array that the function brings along."""
        return np.asarray(value)

    def value_of(self, operand: Operand) -> NDArray[Any]:
        """Return the value of an operand that decides which equations run."""
        raise NotImplementedError

    def pick_row(self, rows: Operand, step: int) -> Operand:
        """Return one row of an array that a loop walks over."""
        raise NotImplementedError

    def stack_rows(self, rows: Sequence[Operand], aval: Any) -> Operand:
        """Return the rows that a loop collected as one array."""
        raise NotImplementedError

    def at_step(self, step: int) -> AbstractContextManager[Any]:
        """Return the block in which a step of a loop runs."""
        return nullcontext()

    @property
    def place(self) -> Place | None:
        """The user's line that runs."""
        raise NotImplementedError


class JaxprRun(JaxprRunner):
    """Runs a jaxpr on the wires of a builder."""

    def __init__(self, jax: Any, function: Callable[..., Any], max_steps: int) -> None:
        super().__init__(jax, max_steps)
        self.builder = GraphBuilder(finite=False)
        self.root_name = getattr(function, "__name__", "")
        self.unknown: dict[str, list[Any]] = {}
        self.values: list[Any] = []
        """The values of the first nodes; the others are computed when one of them is asked for."""
        self.inputs: list[Any] = []

    def add_input(self, name: str, value: NDArray[Any]) -> Port:
        """Add an input of the circuit with its value at this point."""
        self.inputs.append(value[()])
        return self.builder.input(name, WireType(value.dtype, value.shape))

    def value_of(self, operand: Operand) -> NDArray[Any]:
        """Return the value of an operand at this point; the circuit is valid only where it is the same."""
        if not isinstance(operand, Port):
            return np.asarray(operand)
        circuit = self.builder.build(labels={"value": operand})
        self.values = evaluate_nodes(circuit, self.inputs)
        value = self.values[operand.index]
        recording = self.builder.recording
        recording.certificates.append(Certificate(operand.index, value, recording.place))
        return np.asarray(value)

    def run_at_site(self, equation: Any, operands: Sequence[Operand]) -> list[Operand]:
        """Run one equation, with its line and group."""
        place, group = self._find_site(equation)
        with self.builder.at(place or self.place, group):
            return self._run_equation(equation, operands)

    def pick_row(self, rows: Operand, step: int) -> Operand:
        """Return one row of an array that a loop walks over."""
        return call("getitem", rows, (step,)) if isinstance(rows, Port) else rows[step]

    def stack_rows(self, rows: Sequence[Operand], aval: Any) -> Operand:
        """Return the rows that a loop collected as one array."""
        if not any(isinstance(row, Port) for row in rows):
            return np.stack(rows) if rows else np.zeros(aval.shape, aval.dtype)
        return call("stack", [self.lift(row) for row in rows])

    def at_step(self, step: int) -> AbstractContextManager[Any]:
        """Put the nodes of a step of a loop into a group of their own."""
        recording = self.builder.recording
        around = recording.group
        return self.builder.at(recording.place, f"{around}/step {step}" if around else f"step {step}")

    @property
    def place(self) -> Place | None:
        """The user's line that runs."""
        return self.builder.recording.place

    def _find_site(self, equation: Any) -> tuple[Place | None, str | None]:
        """Return the line of the user's code that an equation comes from, and the functions around it."""
        traceback = equation.source_info.traceback
        frames = [] if traceback is None else [f for f in traceback.frames if not is_foreign_file(f.file_name)]
        if not frames:
            return None, None
        names: list[str] = []
        for frame in frames:
            name = frame.function_name.rpartition(".")[2]
            if name == self.root_name:
                break
            names.append(name)
        else:
            names = []
        labels = [name for name in reversed(names) if is_group_label(name) and name.isidentifier()]
        return Place(frames[0].file_name, frames[0].line_num), "/".join(labels)

    def _run_equation(self, equation: Any, operands: Sequence[Operand]) -> list[Operand]:
        name = equation.primitive.name
        if not any(isinstance(x, Port) for x in operands):
            return [_as_numpy(y) for y in _bind(equation, operands)]
        if name in SAME_OPS:
            return [self._apply_same(SAME_OPS[name], operands)]
        rule = RULES.get(name)
        if rule is not None:
            results = rule(self, equation, *operands)
            return results if isinstance(results, list) else [results]
        recording = self.builder.recording
        self.unknown.setdefault(name, []).append(recording.place)
        # The run goes on with zeros, to find every op that is unknown; its result is not used.
        return [np.zeros(v.aval.shape, _wire_dtype(v.aval.dtype)) for v in equation.outvars]

    def _apply_same(self, op: str, operands: Sequence[Operand]) -> Operand:
        wires = [self.lift(x) for x in operands]
        if op.startswith("logical") and any(x.dtype != np.bool_ for x in wires):
            raise NoRuleError(
                "JAX computes bits of whole numbers that depend on the inputs, which circuits do not have"
            )
        return call(op, *wires) if op not in TABLE else TABLE[op](*wires)

    def lift(self, x: Operand) -> Port:
        """Return an operand as a wire."""
        if isinstance(x, Port):
            return x
        array = np.asarray(x)
        return self.builder.place_constant(array.astype(_wire_dtype(array.dtype))[()])


def _as_numpy(y: Any) -> Any:
    """Return a result of JAX as a NumPy array; keys of random numbers stay as they are."""
    try:
        return np.asarray(y)
    except TypeError:
        return y


def _wire_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the dtype of a wire for a dtype of JAX: circuits have one kind of whole numbers."""
    kind: np.dtype[Any] = np.dtype(dtype)
    if kind.kind in "iu":
        return np.dtype(np.int64)
    if kind not in DTYPES.values():
        raise NoRuleError(f"circuits have no {kind}: convert to float32 or float64")
    return kind


@lru_cache(4096)
def is_foreign_file(file: str) -> bool:
    """Return whether a file is not the user's: wiregrad, the standard library, or an installed package."""
    path = file.replace("\\", "/")
    return is_library_file(file) or "-packages/" in path or path.startswith("<")


RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register what is done for primitives of JAX."""

    def add_rule(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return add_rule


@rule("div")
def _divide(run: JaxprRun, equation: Any, a: Operand, b: Operand) -> Operand:
    if run.lift(a).dtype.kind == "i":
        quotient = TABLE["trunc"](TABLE["divide"](run.lift(a), run.lift(b)))
        return call("astype", quotient, np.int64)
    return TABLE["divide"](run.lift(a), run.lift(b))


@rule("rem")
def _remainder(run: JaxprRun, equation: Any, a: Operand, b: Operand) -> Operand:
    return call("fmod", run.lift(a), run.lift(b))


@rule("integer_pow")
def _integer_power(run: JaxprRun, equation: Any, x: Operand) -> Operand:
    exponent = equation.params["y"]
    return TABLE["square"](x) if exponent == 2 else TABLE["power"](x, np.asarray(exponent, x.dtype)[()])


@rule("rsqrt")
def _reciprocal_root(run: JaxprRun, equation: Any, x: Operand) -> Operand:
    return TABLE["reciprocal"](TABLE["sqrt"](x))


@rule("real", "imag")
def _part(run: JaxprRun, equation: Any, x: Operand) -> Operand:
    return TABLE[equation.primitive.name](x)


@rule("complex")
def _join_parts(run: JaxprRun, equation: Any, a: Operand, b: Operand) -> Operand:
    return run.lift(a) + TABLE["imaginary"](run.lift(b))


@rule("polygamma")
def _polygamma(run: JaxprRun, equation: Any, m: Operand, x: Operand) -> Operand:
    return TABLE["polygamma"](run.lift(m), run.lift(x))


@rule("round")
def _round(run: JaxprRun, equation: Any, x: Operand) -> Operand:
    if int(equation.params["rounding_method"]) == 1:
        return TABLE["round"](x)
    # Halves away from 0.
    return TABLE["trunc"](x + TABLE["copysign"](np.asarray(0.5, x.dtype)[()], x))


@rule("reduce_precision", "optimization_barrier", "sharding_constraint", "copy_to_host", "pvary")
def _same(run: JaxprRun, equation: Any, *xs: Operand) -> list[Operand]:
    return list(xs)


@rule("convert_element_type")
def _convert(run: JaxprRun, equation: Any, x: Operand) -> Operand:
    return call("astype", x, _wire_dtype(equation.params["new_dtype"]))


@rule("clamp")
def _clamp(run: JaxprRun, equation: Any, low: Operand, x: Operand, high: Operand) -> Operand:
    return TABLE["clip"](run.lift(x), run.lift(low), run.lift(high))


@rule("select_n")
def _select(run: JaxprRun, equation: Any, which: Operand, *cases: Operand) -> Operand:
    condition = run.lift(which)
    if len(cases) == 2 and condition.dtype == np.bool_:
        return TABLE["where"](condition, run.lift(cases[1]), run.lift(cases[0]))
    y = run.lift(cases[0])
    for number, case in enumerate(cases[1:], 1):
        y = TABLE["where"](TABLE["equal"](condition, np.int64(number)), run.lift(case), y)
    return y


@rule("broadcast_in_dim")
def _broadcast(run: JaxprRun, equation: Any, x: Operand, *_: Operand) -> Operand:
    shape = equation.params["shape"]
    axes = equation.params["broadcast_dimensions"]
    lengths = [1] * len(shape)
    for axis, length in zip(axes, x.shape, strict=True):
        lengths[axis] = length
    return call("broadcast_to", call("reshape", x, tuple(lengths)), tuple(shape))


@rule("reshape")
def _reshape(run: JaxprRun, equation: Any, x: Operand, *_: Operand) -> Operand:
    return call("reshape", x, tuple(equation.params["new_sizes"]))


@rule("squeeze", "expand_dims")
def _squeeze(run: JaxprRun, equation: Any, x: Operand) -> Operand:
    return call("reshape", x, tuple(equation.outvars[0].aval.shape))


@rule("transpose")
def _transpose(run: JaxprRun, equation: Any, x: Operand) -> Operand:
    return call("transpose", x, tuple(equation.params["permutation"]))


@rule("rev")
def _reverse(run: JaxprRun, equation: Any, x: Operand) -> Operand:
    return call("flip", x, tuple(equation.params["dimensions"]))


@rule("concatenate")
def _concatenate(run: JaxprRun, equation: Any, *xs: Operand) -> Operand:
    return call("concatenate", [run.lift(x) for x in xs], equation.params["dimension"])


@rule("stack")
def _stack_wires(run: JaxprRun, equation: Any, *xs: Operand) -> Operand:
    return call("stack", [run.lift(x) for x in xs], axis=equation.params["axis"])


@rule("tile")
def _tile(run: JaxprRun, equation: Any, x: Operand) -> Operand:
    return call("tile", x, tuple(equation.params["reps"]))


@rule("split")
def _split(run: JaxprRun, equation: Any, x: Operand) -> list[Operand]:
    axis = equation.params["axis"]
    ends = np.cumsum(equation.params["sizes"])[:-1].tolist()
    return list(call("split", x, ends, axis=axis))


@rule("slice")
def _slice(run: JaxprRun, equation: Any, x: Operand) -> Operand:
    params = equation.params
    steps = params["strides"] or (1,) * len(params["start_indices"])
    bounds = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
    return call("getitem", x, tuple(slice(*bound) for bound in bounds))


@rule("dynamic_slice")
def _dynamic_slice(run: JaxprRun, equation: Any, x: Operand, *starts: Operand) -> Operand:
    sizes = equation.params["slice_sizes"]
    begins = _bound_starts(run, starts, sizes, x.shape)
    return call("getitem", run.lift(x), tuple(slice(k, k + n) for k, n in zip(begins, sizes, strict=True)))


def _bound_starts(run: JaxprRun, starts: Sequence[Operand], sizes: Sequence[int], shape: Sequence[int]) -> list[int]:
    """Return where a slice starts: JAX moves one that would not fit."""
    values = [int(run.value_of(start)) for start in starts]
    return [min(max(k, 0), n - size) for k, size, n in zip(values, sizes, shape, strict=True)]


@rule("dynamic_update_slice")
def _update_slice(run: JaxprRun, equation: Any, x: Operand, update: Operand, *starts: Operand) -> Operand:
    begins = _bound_starts(run, starts, update.shape, x.shape)
    places = np.arange(math.prod(x.shape)).reshape(x.shape)
    index = tuple(slice(k, k + n) for k, n in zip(begins, update.shape, strict=True))
    return _overwrite(run, x, update, places[index])


def _overwrite(run: JaxprRun, x: Operand, update: Operand, places: NDArray[np.int64]) -> Operand:
    """Return x with other elements at places, counted in the flattened array."""
    is_new = np.zeros(math.prod(x.shape), bool)
    is_new[places.reshape(-1)] = True
    number = np.zeros(is_new.size, np.int64)
    number[places.reshape(-1)] = np.arange(places.size)
    if not places.size:
        return x
    flat = call("reshape", run.lift(update), (places.size,))
    spread = call("reshape", call("take", flat, number), tuple(x.shape))
    return TABLE["where"](run.lift(is_new.reshape(x.shape)), spread, run.lift(x))


@rule("pad")
def _pad(run: JaxprRun, equation: Any, x: Operand, filler: Operand) -> Operand:
    config = equation.params["padding_config"]
    shape = tuple(equation.outvars[0].aval.shape)
    places = _trace_places(run, equation, x.shape)
    y = call("broadcast_to", run.lift(filler), shape)
    return _take_or_keep(run, x, y, places) if any(any(part) for part in config) else run.lift(x)


def _trace_places(run: JaxprRun, equation: Any, shape: Sequence[int], *rest: Any) -> NDArray[np.int64]:
    """Return where each element of the result of a moving primitive comes from, counted from 1; 0 if from nowhere."""
    numbers = np.arange(1, math.prod(shape) + 1).reshape(tuple(shape))
    others = rest or (np.int64(0),)
    return np.asarray(_bind(equation, [numbers, *others])[0])


def _take_or_keep(run: JaxprRun, x: Operand, otherwise: Operand, places: NDArray[np.int64]) -> Operand:
    """Return elements of x by places counted from 1, and those of another array where the place is 0."""
    flat = call("reshape", run.lift(x), (math.prod(x.shape),))
    moved = call("reshape", call("take", flat, np.maximum(places - 1, 0).reshape(-1)), places.shape)
    return moved if places.all() else TABLE["where"](run.lift(places > 0), moved, otherwise)


@rule("gather")
def _gather(run: JaxprRun, equation: Any, x: Operand, indices: Operand) -> Operand:
    rows = run.jax.numpy.asarray(run.value_of(indices))
    places = _gather_places(run, equation, x.shape, rows)
    filler = equation.params.get("fill_value")
    rest = run.lift(np.full(places.shape, np.nan if filler is None else filler, run.lift(x).dtype))
    return _take_or_keep(run, x, rest, places)


def _gather_places(run: JaxprRun, equation: Any, shape: Sequence[int], rows: Any) -> NDArray[np.int64]:
    params = {**equation.params, "fill_value": 0}
    numbers = run.jax.numpy.arange(1, math.prod(shape) + 1).reshape(tuple(shape))
    return np.asarray(equation.primitive.bind(numbers, rows, **params))


@rule("scatter-add", "scatter_add", "scatter", "scatter-mul", "scatter_mul")
def _scatter(run: JaxprRun, equation: Any, x: Operand, indices: Operand, updates: Operand) -> Operand:
    places = _scatter_places(run, equation, x.shape, indices, updates.shape)
    flat = call("reshape", run.lift(updates), (math.prod(updates.shape),))
    kept = np.flatnonzero(places)
    part = flat if kept.size == places.size else call("take", flat, kept)
    targets = places[kept] - 1
    name = equation.primitive.name.replace("_", "-")
    if name == "scatter":
        # Of several updates of one element, the last one counts.
        last = {place: number for number, place in enumerate(targets.tolist())}
        return _overwrite(run, x, call("take", part, np.array(list(last.values()))), np.array(list(last)))
    if name == "scatter-mul":
        if len(set(targets.tolist())) != len(targets):
            raise NoRuleError("a product into one element from several updates is not known to wiregrad")
        ones = run.lift(np.ones(x.shape, run.lift(x).dtype))
        return TABLE["multiply"](run.lift(x), _overwrite(run, ones, part, targets))
    added = call("scatter_add", np.zeros(math.prod(x.shape), run.lift(x).dtype), targets, part)
    return run.lift(x) + call("reshape", added, tuple(x.shape))


def _scatter_places(
    run: JaxprRun, equation: Any, shape: Sequence[int], indices: Operand, updates: Sequence[int]
) -> NDArray[np.int64]:
    """Return where each update goes, counted from 1; 0 for one that is dropped. It is the gradient of a sum."""
    jax = run.jax
    rows = jax.numpy.asarray(run.value_of(indices))
    params = {key: value for key, value in equation.params.items() if key not in ("update_jaxpr", "update_consts")}
    dnums = params["dimension_numbers"]
    real = np.float64 if jax.config.jax_enable_x64 else np.float32
    if math.prod(shape) >= 2 / np.finfo(real).eps:
        raise NoRuleError("an array that JAX scatters into is too large for 32 bits: set jax_enable_x64")
    numbers = jax.numpy.arange(1, math.prod(shape) + 1).astype(real).reshape(tuple(shape))

    def add_updates(values: Any) -> Any:
        zeros = jax.numpy.zeros(tuple(shape), real)
        y = jax.lax.scatter_add(
            zeros, rows, values, dnums, indices_are_sorted=params["indices_are_sorted"], mode=params["mode"]
        )
        return (y * numbers).sum()

    places = np.asarray(jax.grad(add_updates)(jax.numpy.zeros(tuple(updates), real)))
    whole: NDArray[np.int64] = np.rint(places).astype(np.int64).reshape(-1)
    return whole


@rule("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or")
def _reduce(run: JaxprRun, equation: Any, x: Operand) -> Operand:
    name = equation.primitive.name.removeprefix("reduce_")
    axes = tuple(equation.params["axes"])
    return call({"and": "all", "or": "any"}.get(name, name), x, axis=axes) if axes else x


@rule("argmax", "argmin")
def _find_extreme(run: JaxprRun, equation: Any, x: Operand) -> Operand:
    (axis,) = equation.params["axes"]
    return call(equation.primitive.name, x, axis=axis)


@rule("cumsum", "cumprod")
def _accumulate(run: JaxprRun, equation: Any, x: Operand) -> Operand:
    return _scan_axis(equation, x, lambda y, axis: call(equation.primitive.name, y, axis=axis))


@rule("cummax", "cummin")
def _accumulate_extreme(run: JaxprRun, equation: Any, x: Operand) -> Operand:
    name = {"cummax": "maximum_accumulate", "cummin": "minimum_accumulate"}[equation.primitive.name]
    return _scan_axis(equation, x, lambda y, axis: call(name, y, axis=axis))


@rule("cumlogsumexp")
def _accumulate_exponentials(run: JaxprRun, equation: Any, x: Operand) -> Operand:
    axis = equation.params["axis"]
    order = range(x.shape[axis])
    parts = [
        call("take", x, np.array([k]), axis=axis) for k in (reversed(order) if equation.params["reverse"] else order)
    ]
    sums = parts[:1]
    for part in parts[1:]:
        sums.append(TABLE["logaddexp"](sums[-1], part))
    return call("concatenate", sums[::-1] if equation.params["reverse"] else sums, axis)


def _scan_axis(equation: Any, x: Operand, scan: Callable[[Operand, int], Operand]) -> Operand:
    axis = equation.params["axis"]
    if not equation.params["reverse"]:
        return scan(x, axis)
    return call("flip", scan(call("flip", x, axis), axis), axis)


@rule("dot_general")
def _dot(run: JaxprRun, equation: Any, a: Operand, b: Operand) -> Operand:
    (a_sum, b_sum), (a_batch, b_batch) = equation.params["dimension_numbers"]
    a, b = run.lift(a), run.lift(b)
    if not a_batch and len(a.shape) == 2 and tuple(a_sum) == (1,) and tuple(b_sum) == (0,) and len(b.shape) in (1, 2):
        return call("matmul", a, b)
    letters = iter(range(52))
    a_names = [next(letters) for _ in a.shape]
    b_names = [next(letters) for _ in b.shape]
    for one, two in (*zip(a_sum, b_sum, strict=True), *zip(a_batch, b_batch, strict=True)):
        b_names[two] = a_names[one]
    free = [a_names[k] for k in a_batch]
    free += [n for k, n in enumerate(a_names) if k not in (*a_sum, *a_batch)]
    free += [n for k, n in enumerate(b_names) if k not in (*b_sum, *b_batch)]
    y = call("einsum", f"{_letters(a_names)},{_letters(b_names)}->{_letters(free)}", a, b)
    return call("astype", y, _wire_dtype(equation.outvars[0].aval.dtype))


def _letters(numbers: Sequence[int]) -> str:
    return "".join("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[k] for k in numbers)


@rule("conv_general_dilated")
def _convolve(run: JaxprRun, equation: Any, x: Operand, kernel: Operand) -> Operand:
    params = equation.params
    numbers = params["dimension_numbers"]
    rank = len(numbers.lhs_spec) - 2
    if rank not in (1, 2) or params["batch_group_count"] != 1:
        raise NoRuleError(f"a convolution over {rank} axes, or with groups of batches, is not known to wiregrad")
    x = call("transpose", run.lift(x), tuple(numbers.lhs_spec))
    kernel = call("transpose", run.lift(kernel), tuple(numbers.rhs_spec))
    x = _dilate_and_pad(x, params["lhs_dilation"], params["padding"])
    y = call(
        f"conv{rank}d",
        x,
        kernel,
        stride=tuple(params["window_strides"]),
        dilation=tuple(params["rhs_dilation"]),
        groups=params["feature_group_count"],
    )
    return call("transpose", y, tuple(np.argsort(numbers.out_spec).tolist()))


def _dilate_and_pad(x: Operand, dilation: Sequence[int], padding: Sequence[tuple[int, int]]) -> Operand:
    """Return images with zeros between their elements and around them; a negative padding cuts elements off."""
    first = len(x.shape) - len(dilation)
    if any(step != 1 for step in dilation):
        lengths = [(n - 1) * step + 1 if n else 0 for n, step in zip(x.shape[first:], dilation, strict=True)]
        index = tuple(("slice", 0, None, int(step)) for step in dilation)
        x = TABLE["put_add"](x, index=index, shape=tuple(lengths))
    widths = [(0, 0)] * first + [(max(low, 0), max(high, 0)) for low, high in padding]
    y = call("pad", x, widths) if any(map(any, widths)) else x
    cuts = [slice(None)] * first + [
        slice(max(-low, 0), n - max(-high, 0)) for (low, high), n in zip(padding, y.shape[first:], strict=True)
    ]
    return call("getitem", y, tuple(cuts)) if any(low < 0 or high < 0 for low, high in padding) else y


@rule("reduce_window_sum", "reduce_window_max", "reduce_window_min")
def _reduce_windows(run: JaxprRun, equation: Any, x: Operand) -> Operand:
    params = equation.params
    kind = equation.primitive.name.removeprefix("reduce_window_")
    if any(step != 1 for step in params["base_dilation"]):
        raise NoRuleError("windows over an array with gaps are not known to wiregrad")
    filler = {"sum": 0.0, "max": -np.inf, "min": np.inf}[kind]
    padding = [tuple(pair) for pair in params["padding"]]
    y = call("pad", x, padding, constant_values=filler) if any(map(any, padding)) else x
    windows = TABLE["windows"](
        y,
        size=tuple(params["window_dimensions"]),
        step=tuple(params["window_strides"]),
        dilation=tuple(params["window_dilation"]),
    )
    rank = len(x.shape)
    return call(kind, windows, axis=tuple(range(rank, 2 * rank)))


@rule("sort")
def _sort(run: JaxprRun, equation: Any, *xs: Operand) -> list[Operand]:
    axis = equation.params["dimension"]
    if len(xs) == 1:
        return [call("sort", xs[0], axis=axis)]
    if equation.params["num_keys"] != 1:
        raise NoRuleError("sorting by several keys is not known to wiregrad")
    order = call("argsort", run.lift(xs[0]), axis=axis, stable=True)
    return [call("take_along_axis", run.lift(x), order, axis) for x in xs]


@rule("top_k")
def _top(run: JaxprRun, equation: Any, x: Operand) -> list[Operand]:
    order = call("argsort", TABLE["negative"](x), axis=-1, stable=True)
    best = call("getitem", order, (Ellipsis, slice(0, equation.params["k"])))
    return [call("take_along_axis", x, best, -1), best]


@rule("cholesky")
def _cholesky(run: JaxprRun, equation: Any, x: Operand) -> Operand:
    return call("cholesky", x)


@rule("triangular_solve")
def _solve_triangular(run: JaxprRun, equation: Any, a: Operand, b: Operand) -> Operand:
    params = equation.params
    a, b = run.lift(a), run.lift(b)
    lower = params["lower"]
    if params["unit_diagonal"]:
        eye = np.eye(a.shape[-1], dtype=a.dtype)
        a = TABLE["where"](run.lift(np.broadcast_to(eye > 0, a.shape)), run.lift(np.broadcast_to(eye, a.shape)), a)
    if params["conjugate_a"]:
        a = TABLE["conjugate"](a)
    if bool(params["transpose_a"]) != (not params["left_side"]):
        a, lower = call("swapaxes", a, -1, -2), not lower
    if params["left_side"]:
        return TABLE["solve_triangular"](a, b, lower=lower)
    y = TABLE["solve_triangular"](a, call("swapaxes", b, -1, -2), lower=lower)
    return call("swapaxes", y, -1, -2)


@rule("lu")
def _lu(run: JaxprRun, equation: Any, x: Operand) -> list[Operand]:
    _, pivots, order = (np.asarray(y) for y in _bind(equation, [run.jax.numpy.asarray(_peek(run, x))]))
    rows = run.value_of(TABLE["lu_rows"](x))
    ordered = call("take_along_axis", x, np.broadcast_to(rows[..., None], x.shape), -2)
    return [TABLE["lu_factors"](ordered), pivots, rows.astype(order.dtype)]


def _peek(run: JaxprRun, x: Operand) -> NDArray[Any]:
    """Return the value of an operand, for something that another certificate covers."""
    value = run.value_of(x)
    if isinstance(x, Port):
        run.builder.recording.certificates.pop()
    return value


@rule("eigh")
def _eigh(run: JaxprRun, equation: Any, x: Operand) -> list[Operand]:
    values, vectors = call("eigh", x, UPLO="L" if equation.params["lower"] else "U")
    return [vectors, values]


@rule("qr")
def _qr(run: JaxprRun, equation: Any, x: Operand) -> list[Operand]:
    if equation.params["full_matrices"]:
        raise NoRuleError("a complete QR decomposition is not known to wiregrad")
    return list(call("qr", x))


@rule("svd")
def _svd(run: JaxprRun, equation: Any, x: Operand) -> list[Operand]:
    if not equation.params["compute_uv"]:
        return [call("svdvals", x)]
    u, s, vh = call("svd", x, full_matrices=equation.params["full_matrices"])
    return [s, u, vh]


@rule("fft")
def _fft(run: JaxprRun, equation: Any, x: Operand) -> Operand:
    kind = ("fft", "ifft", "rfft", "irfft")[int(equation.params["fft_type"])]
    lengths = equation.params["fft_lengths"]
    return call(f"{kind}n", x, lengths, tuple(range(-len(lengths), 0)))


@rule("jit", "pjit", "closed_call", "core_call", "xla_call", "remat", "checkpoint", "remat2", "custom_lin")
def _enter(run: JaxprRunner, equation: Any, *operands: Operand) -> list[Operand]:
    return run.run_closed(equation.params.get("jaxpr", equation.params.get("call_jaxpr")), operands)


def _find_called(equation: Any) -> tuple[Any, str, str]:
    """Return the inside of a function with a rule of its own, its name, and the file in which it is written."""
    closed = equation.params.get("call_jaxpr") or equation.params.get("fun_jaxpr")
    called, _, place = str(getattr(closed.jaxpr.debug_info, "func_src_info", "") or "").partition(" at ")
    return closed, called or "custom function", place.rpartition(":")[0]


@rule("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr")
def _custom(run: JaxprRun, equation: Any, *operands: Operand) -> list[Operand]:
    closed, called, file = _find_called(equation)
    if is_foreign_file(file):
        # The rules of JAX's own functions make them faster or steadier; they are the derivatives of the inside.
        return run.run_closed(closed, operands)
    wires = [k for k, x in enumerate(operands) if isinstance(x, Port)]
    fixed = [None if isinstance(x, Port) else x for x in operands]
    unit = JaxUnit(run.jax, equation, called, wires, fixed)
    ports = [operands[k] for k in wires]
    return [run.builder.apply(JAX_CALL.bind_once(unit=unit, output=k), *ports) for k in range(len(equation.outvars))]


@rule("custom_linear_solve")
def _linear_solve(run: JaxprRun, equation: Any, *operands: Operand) -> list[Operand]:
    lengths = equation.params["const_lengths"]
    first = lengths.matvec + lengths.vecmat + lengths.solve + lengths.transpose_solve
    if lengths.matvec != 1 or len(operands) != first + 1:
        raise NoRuleError("custom_linear_solve is known to wiregrad for one matrix and one array of right-hand sides")
    matrix, vectors = run.lift(operands[0]), run.lift(operands[-1])
    for solve in SOLVERS:
        if _solves_like(run, equation, solve, matrix, vectors):
            return [solve(partial(call, "solve"), partial(call, "swapaxes"), partial(call, "reshape"), matrix, vectors)]
    raise NoRuleError("this custom_linear_solve is not known to wiregrad: its matrix is not multiplied from the left")


def _solve_columns(solve: Rule, swap: Rule, reshape: Rule, a: Any, b: Any) -> Any:
    return solve(a, b)


def _solve_vector(solve: Rule, swap: Rule, reshape: Rule, a: Any, b: Any) -> Any:
    return reshape(solve(a, reshape(b, (*b.shape, 1))), b.shape)


def _solve_rows(solve: Rule, swap: Rule, reshape: Rule, a: Any, b: Any) -> Any:
    return swap(solve(a, swap(b, -1, -2)), -1, -2)


SOLVERS = (_solve_vector, _solve_columns, _solve_rows)
"""The ways in which right-hand sides lie in an array."""


def _solves_like(run: JaxprRun, equation: Any, solve: Rule, matrix: Port, vectors: Port) -> bool:
    """Return whether A times the solution gives the right-hand sides, for random numbers and by JAX's own product."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=matrix.shape) + 2.0 * np.eye(matrix.shape[-1])
    b = rng.normal(size=vectors.shape)
    try:
        y = solve(np.linalg.solve, np.swapaxes, np.reshape, a, b)
    except (ValueError, np.linalg.LinAlgError):
        return False
    if y.shape != b.shape:
        return False
    closed = equation.params["jaxprs"].matvec
    product = run.jax.core.eval_jaxpr(closed.jaxpr, closed.consts, a.astype(matrix.dtype), y.astype(vectors.dtype))[0]
    return bool(np.allclose(product, b, rtol=1e-3, atol=1e-3))


@rule("cond")
def _choose(run: JaxprRunner, equation: Any, which: Operand, *operands: Operand) -> list[Operand]:
    branches = equation.params["branches"]
    number = min(max(int(run.value_of(which)), 0), len(branches) - 1)
    return run.run_closed(branches[number], operands)


@rule("scan")
def _scan(run: JaxprRunner, equation: Any, *operands: Operand) -> list[Operand]:
    params = equation.params
    length = params["length"]
    _check_steps(run, length, "scan")
    first = params["num_consts"]
    last = first + params["num_carry"]
    constants, carry, rows = operands[:first], list(operands[first:last]), operands[last:]
    collected: list[list[Operand]] = [[] for _ in equation.outvars[len(carry) :]]
    order = range(length - 1, -1, -1) if params["reverse"] else range(length)
    for step in order:
        with run.at_step(step):
            parts = [run.pick_row(row, step) for row in rows]
            results = run.run_closed(params["jaxpr"], [*constants, *carry, *parts])
        carry = results[: len(carry)]
        for column, value in zip(collected, results[len(carry) :], strict=True):
            column.append(value)
    stacked = [
        run.stack_rows(column[::-1] if params["reverse"] else column, v.aval)
        for column, v in zip(collected, equation.outvars[len(carry) :], strict=True)
    ]
    return [*carry, *stacked]


def _check_steps(run: JaxprRunner, steps: int, kind: str) -> None:
    if steps > run.max_steps:
        where = f" at {run.place}" if run.place is not None else ""
        raise NoRuleError(
            f"a {kind} of more than {run.max_steps:,} steps{where} would be unrolled: pass a larger max_steps=, or "
            "fewer steps"
        )


@rule("while")
def _loop(run: JaxprRunner, equation: Any, *operands: Operand) -> list[Operand]:
    params = equation.params
    first = params["cond_nconsts"]
    last = first + params["body_nconsts"]
    state = list(operands[last:])
    for step in count():
        with run.at_step(step):
            (holds,) = run.run_closed(params["cond_jaxpr"], [*operands[:first], *state])
            if not bool(run.value_of(holds)):
                return state
            _check_steps(run, step + 1, "while")
            state = run.run_closed(params["body_jaxpr"], [*operands[first:last], *state])
    raise AssertionError


def import_function(
    function: Callable[..., Any], *args: Any, max_steps: int = MAX_STEPS
) -> tuple[CircuitGraph, dict[str, Any]]:
    """Return the circuit of a function of JAX at a point, and the values of its inputs there."""
    with require_package("jax", "from_jax"):
        import jax  # noqa: PLC0415 - optional
    if not callable(function):
        raise InputError(f"from_jax takes a function and its arguments; got {type(function).__name__}")
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    run = JaxprRun(jax, getattr(function, "__wrapped__", function), max_steps)
    operands = _add_inputs(run, function, args)
    results = run.run_closed(closed, operands)
    if run.unknown:
        raise UnknownOpsError(getattr(function, "__name__", "the function"), run.unknown)
    circuit = _build(run, function, shape, results)
    return circuit, dict(zip(circuit.inputs, run.inputs, strict=True))


def _add_inputs(run: JaxprRun, function: Callable[..., Any], args: Sequence[Any]) -> list[Operand]:
    """Return the leaves of the arguments: inputs for real and complex ones, the others as they are."""
    leaves = list(_list_leaves(run.jax, function, args))
    operands: list[Operand] = []
    for name, leaf in leaves:
        value = _as_numpy(run.jax.numpy.asarray(leaf))
        is_input = isinstance(value, np.ndarray) and value.dtype.kind in "fc"
        operands.append(run.add_input(run.builder.recording.free_name(name), value) if is_input else value)
    return operands


def _list_leaves(jax: Any, function: Callable[..., Any], args: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Walk over the leaves of the arguments in JAX's order, each with the name of its parameter and its path."""
    names = input_names(getattr(function, "__wrapped__", function), [0.0] * len(args), {})
    for name, arg in zip(names, args, strict=True):
        for path, leaf in jax.tree_util.tree_flatten_with_path(arg)[0]:
            keys = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path]
            yield "_".join([name, *map(_as_word, keys)]), leaf


def _as_word(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter == "_" else "_" for letter in text)


def _build(run: JaxprRun, function: Callable[..., Any], shape: Any, results: Sequence[Operand]) -> CircuitGraph:
    """Return the circuit, with the results as outputs under the paths in the function's result."""
    title = _as_word(getattr(function, "__name__", "f")) or "f"
    title = title if title.isidentifier() else "f"
    paths = [path for path, _ in run.jax.tree_util.tree_flatten_with_path(shape)[0]]
    labels: dict[str, Port] = {}
    for path, result in zip(paths, results, strict=True):
        keys = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path]
        wanted = "_".join([title, *map(_as_word, keys)])
        while wanted in labels or wanted in run.builder.recording.names:
            wanted += "_"
        labels[wanted] = run.lift(result)
    if not labels:
        raise InputError(f"{title} returns nothing")
    return run.builder.build(name=title, labels=labels)


# The observed run


class JaxValue(NamedTuple):
    """An array of JAX in an observed run, and its number there; None for a number in the code."""

    array: Any
    number: int | None


class RecordedCall(NamedTuple):
    """What an op computed: a function of arrays, its operands and its results."""

    function: Callable[..., Sequence[Any]]
    operands: tuple[JaxValue, ...]
    results: tuple[JaxValue, ...]


class EquationSite(NamedTuple):
    """Where an equation was written: the call, the user's function around it, and how often that was called before."""

    call: SourceCall | None
    function: str
    number: int


NO_SITE = EquationSite(None, "", 0)
KINK_STEP = 1e-4
"""How far to step to either side of a value that may be on a kink, relative to its size."""


def read_array(array: Any) -> NDArray[Any]:
    """Return an array of JAX as one of NumPy; numbers that NumPy does not know become float32.

    Keys of random numbers, which are no numbers, become zeros.
    """
    plain = _as_numpy(array)
    if not isinstance(plain, np.ndarray):
        return np.zeros(np.shape(array), np.int64)
    return plain.astype(np.float32) if plain.dtype.kind not in "fciub" else plain


class FunctionRecorder(JaxprRunner):
    """Runs a jaxpr by JAX, equation by equation, and records each with its values; then pulls a gradient back.

    The gradient of each equation is what JAX's own rule of it gives. Where that rule is zero whatever arrives, as that
    of `floor`, JAX sends nothing further, and neither does this.
    """

    def __init__(self, jax: Any, max_steps: int) -> None:
        super().__init__(jax, max_steps)
        self.run = ObservedRun(read=read_array, framework="jax")
        self.calls: list[RecordedCall] = []
        self._site = NO_SITE
        self._library_call = ""
        self._counts: dict[str, int] = {}
        self._seen: dict[str, set[Any]] = {}
        self._pieces: dict[int, tuple[Any, Sequence[JaxValue]]] = {}
        """The inside and the operands of each custom function, by its number."""

    @property
    def place(self) -> Place | None:
        """The user's line that runs."""
        return None if self._site.call is None else self._site.call.place

    def add_literal(self, value: NDArray[Any]) -> JaxValue:
        """Return the operand for a number in the jaxpr."""
        return JaxValue(self.jax.numpy.asarray(value), None)

    def add_constant(self, value: Any) -> JaxValue:
        """Return the operand for an array that the function brings along."""
        return self.add_tensor(value, kind="input")

    def add_tensor(self, array: Any, *, kind: str = "computed", name: str = "", flows: bool = False) -> JaxValue:
        """Add a tensor to the run; `flows` says whether a gradient may come to it."""
        number = len(self.run.tensors)
        dtype = getattr(array, "dtype", np.dtype(object))
        observed = ObservedTensor(number, number, 0, 0, np.shape(array), (), str(dtype), flows, name=name, kind=kind)
        observed.held = HeldValue(observed.shape, observed.dtype, array)
        self.run.tensors.append(observed)
        return JaxValue(array, number)

    def value_of(self, operand: JaxValue) -> NDArray[Any]:
        """Return the value of an operand that decides which equations run."""
        return np.asarray(operand.array)

    def pick_row(self, rows: JaxValue, step: int) -> JaxValue:
        """Return one row of an array that a loop walks over."""
        return self.record("getitem", lambda array: [array[step]], [rows])[0]

    def stack_rows(self, rows: Sequence[JaxValue], aval: Any) -> JaxValue:
        """Return the rows that a loop collected as one array."""
        if not rows:
            return self.add_constant(self.jax.numpy.zeros(aval.shape, aval.dtype))
        return self.record("stack", lambda *arrays: [self.jax.numpy.stack(arrays)], rows)[0]

    def run_at_site(self, equation: Any, operands: Sequence[JaxValue]) -> list[JaxValue]:
        """Run one equation: enter it, or record it as an op."""
        around = self._site
        self._site = self._find_site(equation)
        try:
            return self._run_equation(equation, operands)
        finally:
            self._site = around

    def _run_equation(self, equation: Any, operands: Sequence[JaxValue]) -> list[JaxValue]:
        name = equation.primitive.name
        rule = RULES.get(name)
        if rule in ENTERING_RULES:
            around = self._library_call
            self._library_call = around or find_library_function(equation)
            results = list(rule(self, equation, *operands))
            self._library_call = around
            return results
        function = partial(_bind_arrays, equation)
        if rule is not _custom:
            return self.record(name, function, operands)
        closed, called, file = _find_called(equation)
        results = self.record(called, function, operands)
        if not is_foreign_file(file):
            self._add_function(called, closed, operands, results)
        return results

    def _add_function(
        self, called: str, closed: Any, operands: Sequence[JaxValue], results: Sequence[JaxValue]
    ) -> None:
        """Note that the last op is a function with a rule of the user's own."""
        number = len(self.run.functions)
        op = self.run.ops[-1]
        op.function = number
        outputs = {k: result.number for k, result in enumerate(results) if result.number is not None}
        function = ObservedFunction(number, called, op.site, op.module, [op.index], called, op.arguments, outputs)
        self.run.functions.append(function)
        self._pieces[number] = closed, operands

    def record(
        self, title: str, function: Callable[..., Sequence[Any]], operands: Sequence[JaxValue]
    ) -> list[JaxValue]:
        """Run a function of arrays by JAX and record it as an op."""
        arrays = function(*[operand.array for operand in operands])
        flows = title != "stop_gradient" and any(self._flows(operand) for operand in operands)
        results = [self.add_tensor(array, flows=flows and _is_inexact(array)) for array in arrays]
        index = len(self.run.ops)
        for result in results:
            self.run.tensors[int(result.number or 0)].producer = index
        arguments = tuple(_encode_operand(operand) for operand in operands)
        references = tuple(TensorRef(int(result.number or 0)) for result in results)
        site = self._site
        op = ObservedOp(index, title, "", arguments, {}, references, site.call, site.function, None, "forward", 0, True)
        op.module_call, op.scope = site.number, "function"
        op.library_call = self._library_call
        self.run.ops.append(op)
        self.calls.append(RecordedCall(function, tuple(operands), tuple(results)))
        if any(self._flows(result) for result in results):
            self.run.rules[index] = title
        return results

    def _flows(self, value: JaxValue) -> bool:
        return value.number is not None and self.run.tensors[value.number].requires_grad

    def _find_site(self, equation: Any) -> EquationSite:
        """Return where an equation was written; inside of a library, that is the call of the library."""
        traceback = equation.source_info.traceback
        if traceback is None:
            return self._site
        codes, offsets = traceback.raw_frames()
        frames = zip(traceback.frames, codes, offsets, strict=True)
        frame = next((frame for frame in frames if not is_foreign_file(frame[0].file_name)), None)
        if frame is None:
            return self._site
        text, code, offset = frame
        name = text.function_name.rpartition(".")[2]
        count = self._count_call(name, tuple(map(id, codes)), tuple(offsets))
        return EquationSite(SourceCall(Place(text.file_name, text.line_num), code, offset), name, count)

    def _count_call(self, name: str, *stack: Any) -> int:
        """Return which call of a function it is: the same stack of calls a second time is another call."""
        seen = self._seen.setdefault(name, set())
        if stack in seen:
            seen.clear()
            self._counts[name] = self._counts.get(name, 0) + 1
        seen.add(stack)
        return self._counts.get(name, 0)

    def pull_back(self, roots: Sequence[JaxValue]) -> dict[int, Any]:
        """Send a gradient of 1 back from results; return the gradient of each tensor that one came to."""
        self.run.backwards = 1
        gradients: dict[int, Any] = {}
        for root in roots:
            if root.number is not None and self._flows(root):
                self.run.roots.append(root.number)
                gradients[root.number] = gradients.get(root.number, 0.0) + self.jax.numpy.ones_like(root.array)
        for op, recorded in zip(reversed(self.run.ops), reversed(self.calls), strict=True):
            received = [gradients.get(int(result.number or 0)) for result in recorded.results]
            if all(part is None for part in received):
                continue
            slots = [k for k, operand in enumerate(recorded.operands) if self._flows(operand)]
            sent = self._pull_op(recorded, slots, received)
            targets = tuple(recorded.operands[slot].number for slot in slots)
            self._note_gradient(op, received, sent, targets)
            for target, part in zip(targets, sent, strict=True):
                if part is not None and target is not None:
                    gradients[target] = gradients[target] + part if target in gradients else part
        return gradients

    def _note_gradient(self, op: ObservedOp, received: Any, sent: Any, targets: tuple[int | None, ...]) -> None:
        parts = [tuple(None if part is None else _hold(part) for part in side) for side in (received, sent)]
        self.run.gradients.append(ObservedGradient(op.index, op.function, 1, op.title, parts[0], parts[1], targets))

    def _pull_op(self, recorded: RecordedCall, slots: Sequence[int], received: Sequence[Any]) -> list[Any]:
        """Return what JAX's rule of an op sends to some of its operands."""
        wanted = [k for k, result in enumerate(recorded.results) if self._flows(result)]
        pull = _make_pullback(self.jax, recorded, slots, wanted)
        cotangents = [
            self.jax.numpy.zeros_like(recorded.results[k].array) if received[k] is None else received[k] for k in wanted
        ]
        sent = list(pull(cotangents))
        if all(bool((part != 0).any()) for part in sent):
            return sent
        live = _find_dependent(self.jax.make_jaxpr(pull)(cotangents).jaxpr)
        return [part if is_live else None for part, is_live in zip(sent, live, strict=True)]

    def check_function(self, gradient: ObservedGradient) -> tuple[tuple[float, float] | None, bool]:
        """Compare what a custom function sent with the derivative of its inside.

        Returns two numbers that differ, or None, and whether the derivative is NaN where another number was sent.
        """
        closed, operands = self._pieces[self.run.ops[gradient.op].function or 0]
        received = [None if held is None else held.value for held in gradient.received]
        expected = []
        for shift in (0.0, KINK_STEP, -KINK_STEP):
            moved = tuple(self._shift(operand, shift) for operand in operands)
            inside = RecordedCall(partial(_evaluate, self.jax, closed), moved, self.calls[gradient.op].results)
            slots = [k for k, operand in enumerate(operands) if self._flows(operand)]
            parts = self._pull_op(inside, slots, received)
            expected.append([np.zeros(1) if part is None else read_array(part) for part in parts])
        is_undecided = False
        for slot, held in enumerate(gradient.sent):
            sent = np.zeros(1) if held is None else read_array(held.value)
            difference = find_difference(sent, [parts[slot] for parts in expected])
            is_undecided = is_undecided or bool(np.any(np.isnan(expected[0][slot]) & ~np.isnan(sent)))
            if difference is not None:
                return difference, is_undecided
        return None, is_undecided

    def _shift(self, operand: JaxValue, shift: float) -> JaxValue:
        """Return an operand a little to one side, where its gradient may have a kink."""
        if not shift or not self._flows(operand):
            return operand
        array = operand.array
        moved = array + (shift * (abs(array) + KINK_STEP)).astype(array.dtype)
        # A step from -inf, as masks have it, would be NaN.
        return operand._replace(array=self.jax.numpy.where(self.jax.numpy.isfinite(array), moved, array))


ENTERING_RULES = (_enter, _choose, _scan, _loop)
"""The rules of primitives that have equations inside."""


def _bind_arrays(equation: Any, *arrays: Any) -> list[Any]:
    return _bind(equation, arrays)


def find_library_function(equation: Any) -> str:
    """Return the name of the library's function that a jitted equation runs; empty if it is the user's, or none."""
    debug_info = getattr(getattr(equation.params.get("jaxpr"), "jaxpr", None), "debug_info", None)
    name, _, place = str(getattr(debug_info, "func_src_info", "") or "").partition(" at ")
    return name.lstrip("_") if place and is_foreign_file(place.rpartition(":")[0]) else ""


def _evaluate(jax: Any, closed: Any, *arrays: Any) -> list[Any]:
    """Run the inside of a function with a rule of its own, without the rule."""
    found: list[Any] = jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *arrays)
    return found


def _is_inexact(array: Any) -> bool:
    """Return whether an array has real or complex numbers; the dtypes of JAX are more than those of NumPy."""
    return str(array.dtype).startswith(("float", "bfloat", "complex"))


def _hold(array: Any) -> HeldValue:
    return HeldValue(np.shape(array), str(array.dtype), array)


def _encode_operand(operand: JaxValue) -> Any:
    """Return an operand as an observed op holds it: a reference, or a plain number."""
    if operand.number is not None:
        return TensorRef(operand.number)
    return operand.array.item() if operand.array.ndim == 0 else operand.array


def _make_pullback(
    jax: Any, recorded: RecordedCall, slots: Sequence[int], wanted: Sequence[int]
) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return the function that takes gradients of some results to gradients of some operands."""
    arrays = [operand.array for operand in recorded.operands]

    def run(*parts: Any) -> list[Any]:
        operands = list(arrays)
        for slot, part in zip(slots, parts, strict=True):
            operands[slot] = part
        results = recorded.function(*operands)
        return [results[k] for k in wanted]

    pull: Callable[[Sequence[Any]], Sequence[Any]] = jax.vjp(run, *[arrays[slot] for slot in slots])[1]
    return pull


def _find_dependent(jaxpr: Any) -> list[bool]:
    """Return for each result of a jaxpr whether it depends on an input."""
    reached = set(jaxpr.invars)
    for equation in jaxpr.eqns:
        if any(not hasattr(atom, "val") and atom in reached for atom in equation.invars):
            reached.update(equation.outvars)
    return [not hasattr(atom, "val") and atom in reached for atom in jaxpr.outvars]


TOLERANCES = {2: 5e-2, 4: 1e-3, 8: 1e-8}
"""How far two gradients may differ, relative to the largest number of either, by the bytes of a number."""


def find_difference(sent: NDArray[Any], expected: Sequence[NDArray[Any]]) -> tuple[float, float] | None:
    """Return the number that was sent and the one expected where they differ most; None if they agree.

    `expected` are gradients at the point and to both sides of it. What lies between them agrees, as either side of a
    kink does. Where the gradient at the point is NaN, nothing is known of the derivative.

    >>> find_difference(np.array([1.0, 2.0, 3.0]), [np.array([1.0, 4.0, np.nan])])
    (2.0, 4.0)
    """
    tolerance = TOLERANCES.get(sent.dtype.itemsize, 1e-8)
    sent, *parts = np.broadcast_arrays(sent.astype(np.float64), *[part.astype(np.float64) for part in expected])
    # A step to one side may leave the domain of the function.
    parts = [np.where(np.isnan(part), parts[0], part) for part in parts]
    sizes = np.abs(np.stack([sent, *parts]))
    room = tolerance * float(np.max(sizes[np.isfinite(sizes)], initial=0.0))
    low, high = np.min(parts, axis=0) - room, np.max(parts, axis=0) + room
    wrong = ~((sent >= low) & (sent <= high)) & ~np.isnan(parts[0])
    if not wrong.any():
        return None
    distance = np.where(wrong, np.nan_to_num(np.abs(sent - parts[0]), nan=np.inf), -1.0)
    worst = np.unravel_index(int(np.argmax(distance)), distance.shape)
    return float(sent[worst]), float(parts[0][worst])


class WatchedFunction(RunQuestions):
    """What JAX computed for a function at a point, op by op, with the gradient of its result: ask it why."""

    def __init__(
        self, function: Callable[..., Any], args: Sequence[Any], max_steps: int = MAX_STEPS, *, whole: bool = False
    ) -> None:
        """Run the function once; with `whole`, a gradient of 1 is sent back from every number of all results."""
        with require_package("jax", "watching a JAX function"):
            import jax  # noqa: PLC0415 - optional
        self._function = function
        self._args = args
        self._max_steps = max_steps
        self._recorder = FunctionRecorder(jax, max_steps)
        closed = jax.make_jaxpr(function)(*args)
        inputs = list(self._add_inputs(jax))
        if not whole and not any(_is_inexact(value.array) for value in inputs):
            raise InputError("watch differentiates by real and complex arguments; got none")
        results = self._recorder.run_closed(closed, inputs)
        roots = [k for k, value in enumerate(results) if _is_inexact(value.array)] if whole else _find_loss(results)
        gradients = self._recorder.pull_back([results[k] for k in roots])
        self._compare_with_jax(jax, inputs, gradients, roots)

    def _add_inputs(self, jax: Any) -> Iterator[JaxValue]:
        """Add the leaves of the arguments; those of the first one are what JAX differentiates by, the parameters."""
        first = len(jax.tree_util.tree_leaves(self._args[:1]))
        for position, (name, leaf) in enumerate(_list_leaves(jax, self._function, self._args)):
            array = jax.numpy.asarray(leaf)
            flows = _is_inexact(array)
            kind = "parameter" if position < first else "input"
            if flows and kind == "parameter":
                self.run.parameters[name] = True
            yield self._recorder.add_tensor(array, kind=kind, name=name, flows=flows)

    def _compare_with_jax(
        self, jax: Any, inputs: Sequence[JaxValue], gradients: dict[int, Any], roots: Sequence[int]
    ) -> None:
        """Check that the ops, one by one, give the gradient that JAX gives for the whole function."""
        leaves, tree = jax.tree_util.tree_flatten(tuple(self._args))
        slots = [k for k, value in enumerate(inputs) if _is_inexact(value.array)]

        def compute_roots(*parts: Any) -> list[Any]:
            given = list(leaves)
            for slot, part in zip(slots, parts, strict=True):
                given[slot] = part
            results = jax.tree_util.tree_leaves(self._function(*jax.tree_util.tree_unflatten(tree, given)))
            return [results[k] for k in roots]

        values, pull = jax.vjp(compute_roots, *[inputs[slot].array for slot in slots])
        expected = pull([jax.numpy.ones_like(value) for value in values])
        largest = max((largest_finite(read_array(part)) for part in gradients.values()), default=0.0)
        for slot, wanted in zip(slots, expected, strict=True):
            number = int(inputs[slot].number or 0)
            found = gradients.get(number, jax.numpy.zeros_like(wanted))
            if not _are_alike(read_array(found), read_array(wanted), largest):
                name = self.run.tensors[number].name
                raise CheckError(f"the ops of the observed run do not give JAX's gradient of {name}; please report it")

    @property
    def run(self) -> ObservedRun:
        """The observed run."""
        return self._recorder.run

    def blame(self) -> ObservedBlame:
        """Name the op that first made a result or gradient that is not finite, with its function, line and reason."""
        return blame_run(self.run, lambda *_: False)

    def explain(self, name: str) -> ObservedExplanation:
        """Say why the gradient of an input is absent, zero, not finite or what it is."""
        return explain_run(self.run, name)

    def flow(self) -> ObservedFlow:
        """Measure gradients function by function, and find where they vanish, explode or stop."""
        return flow_run(self.run)

    def check_backward(self, straight_through: Collection[Any] = ()) -> BackwardCheck:
        """Name each `custom_vjp` or `custom_jvp` function whose rule is not the derivative of what it computes.

        Functions in `straight_through`, or their names, are meant to differ.
        """
        meant = {getattr(function, "__name__", str(function)) for function in straight_through}
        checked = 0
        undecided = 0
        findings: dict[tuple[str, Place | None], OpFinding] = {}
        for gradient in self.run.gradients:
            op = self.run.ops[gradient.op]
            if op.function is None or op.title in meant:
                continue
            checked += 1
            difference, is_undecided = self._recorder.check_function(gradient)
            undecided += is_undecided
            if difference is not None:
                findings.setdefault((op.title, op.place), describe_wrong_rule(op, difference))
        skipped = ((UNDECIDED, undecided),) if undecided else ()
        source = describe_source(self.run)
        return BackwardCheck(tuple(findings.values()), checked, skipped, tuple(sorted(meant)), source)

    def circuit(self) -> Any:
        """Return the circuit of the function, whose gradients follow wiregrad's rules."""
        circuit, point = import_function(self._function, *self._args, max_steps=self._max_steps)
        return CIRCUIT_MAKERS[0](circuit.columns, point, ())


def describe_wrong_rule(op: ObservedOp, difference: tuple[float, float]) -> OpFinding:
    """Describe a function whose rule sends something else than the derivative of its inside."""
    sent, expected = (format_brief_number(number) for number in difference)
    said = f"the rule of {op.title} sent {sent} where the derivative of its inside gives {expected}"
    advice = f'if it is meant, as in a straight-through estimator: check_backward(straight_through=["{op.title}"])'
    return make_finding(op, "backward", said, suggestion=advice)


def _find_loss(results: Sequence[JaxValue]) -> list[int]:
    """Return the position of the result that is differentiated: the first one, which must be one real number."""
    loss = results[0].array if results else None
    if loss is None or np.shape(loss) or not _is_inexact(loss) or str(loss.dtype).startswith("complex"):
        got = "nothing" if loss is None else f"{loss.dtype} of shape {np.shape(loss)}"
        raise InputError(f"watch differentiates a function whose (first) result is one real number; got {got}")
    return [0]


def _are_alike(found: NDArray[Any], wanted: NDArray[Any], largest: float) -> bool:
    """Return whether two gradients agree as far as other orders of rounding allow; `largest` is that of all wires."""
    finite = np.isfinite(wanted)
    if not np.array_equal(finite, np.isfinite(found)):
        return False
    epsilon = float(np.finfo(wanted.dtype).eps)
    scale = float(np.max(np.abs(wanted[finite]), initial=0.0))
    # What is left where large gradients cancel is rounding error, and another one in a fused kernel. It may be beyond
    # the largest number of the dtype.
    room = np.float64(math.sqrt(epsilon) * scale + 100 * epsilon * largest)
    return bool(np.all(np.abs(found[finite] - wanted[finite]) <= room))
