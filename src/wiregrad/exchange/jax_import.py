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
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.interpreter import evaluate_nodes
from wiregrad.dtypes import DTYPES, WireType
from wiregrad.errors import InputError, NoRuleError, UnknownOpsError, is_library_file, require_package
from wiregrad.frontends.recording.trace import input_names
from wiregrad.ir import Certificate, CircuitGraph, GraphBuilder, Pattern, Place, Port
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


class JaxprRun:
    """Runs a jaxpr on the wires of a builder."""

    def __init__(self, jax: Any, function: Callable[..., Any], max_steps: int) -> None:
        self.jax = jax
        self.builder = GraphBuilder(finite=False)
        self.max_steps = max_steps
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

    def run_jaxpr(self, jaxpr: Any, constants: Sequence[Any], operands: Sequence[Operand]) -> list[Operand]:
        """Run a jaxpr and return its results."""
        values: dict[Any, Operand] = dict(zip(jaxpr.constvars, constants, strict=True))
        values.update(zip(jaxpr.invars, operands, strict=True))

        def read(atom: Any) -> Operand:
            return np.asarray(atom.val, atom.aval.dtype) if hasattr(atom, "val") else values[atom]

        for equation in jaxpr.eqns:
            operands = [read(atom) for atom in equation.invars]
            place, group = self._find_site(equation)
            with self.builder.at(place or self.builder.recording.place, group):
                results = self._run_equation(equation, operands)
            values.update(zip(equation.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def run_closed(self, closed: Any, operands: Sequence[Operand]) -> list[Operand]:
        """Run a jaxpr that carries its constants."""
        if not hasattr(closed, "consts"):
            return self.run_jaxpr(closed, [], operands)
        return self.run_jaxpr(closed.jaxpr, [np.asarray(value) for value in closed.consts], operands)

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
def _enter(run: JaxprRun, equation: Any, *operands: Operand) -> list[Operand]:
    return run.run_closed(equation.params.get("jaxpr", equation.params.get("call_jaxpr")), operands)


@rule("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr")
def _custom(run: JaxprRun, equation: Any, *operands: Operand) -> list[Operand]:
    closed = equation.params.get("call_jaxpr") or equation.params.get("fun_jaxpr")
    source = str(getattr(closed.jaxpr.debug_info, "func_src_info", "") or "")
    called, _, place = source.partition(" at ")
    if is_foreign_file(place.rpartition(":")[0]):
        # The rules of JAX's own functions make them faster or steadier; they are the derivatives of the inside.
        return run.run_closed(closed, operands)
    wires = [k for k, x in enumerate(operands) if isinstance(x, Port)]
    fixed = [None if isinstance(x, Port) else x for x in operands]
    unit = JaxUnit(run.jax, equation, called or "custom function", wires, fixed)
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
def _choose(run: JaxprRun, equation: Any, which: Operand, *operands: Operand) -> list[Operand]:
    branches = equation.params["branches"]
    number = min(max(int(run.value_of(which)), 0), len(branches) - 1)
    return run.run_closed(branches[number], operands)


@rule("scan")
def _scan(run: JaxprRun, equation: Any, *operands: Operand) -> list[Operand]:
    params = equation.params
    length = params["length"]
    _check_steps(run, length, "scan")
    first = params["num_consts"]
    last = first + params["num_carry"]
    constants, carry, rows = operands[:first], list(operands[first:last]), operands[last:]
    collected: list[list[Operand]] = [[] for _ in equation.outvars[len(carry) :]]
    order = range(length - 1, -1, -1) if params["reverse"] else range(length)
    for step in order:
        with _step_group(run, step):
            parts = [call("getitem", row, (step,)) if isinstance(row, Port) else row[step] for row in rows]
            results = run.run_closed(params["jaxpr"], [*constants, *carry, *parts])
        carry = results[: len(carry)]
        for column, value in zip(collected, results[len(carry) :], strict=True):
            column.append(value)
    stacked = [
        _stack(run, column[::-1] if params["reverse"] else column, v.aval)
        for column, v in zip(collected, equation.outvars[len(carry) :], strict=True)
    ]
    return [*carry, *stacked]


def _stack(run: JaxprRun, values: Sequence[Operand], aval: Any) -> Operand:
    if not any(isinstance(value, Port) for value in values):
        return np.stack(values) if values else np.zeros(aval.shape, aval.dtype)
    return call("stack", [run.lift(value) for value in values])


def _step_group(run: JaxprRun, step: int) -> Any:
    recording = run.builder.recording
    around = recording.group
    return run.builder.at(recording.place, f"{around}/step {step}" if around else f"step {step}")


def _check_steps(run: JaxprRun, steps: int, kind: str) -> None:
    if steps > run.max_steps:
        place = run.builder.recording.place
        where = f" at {place}" if place is not None else ""
        raise NoRuleError(
            f"a {kind} of more than {run.max_steps:,} steps{where} would be unrolled: pass max_steps= to from_jax, or "
            "fewer steps"
        )


@rule("while")
def _loop(run: JaxprRun, equation: Any, *operands: Operand) -> list[Operand]:
    params = equation.params
    first = params["cond_nconsts"]
    last = first + params["body_nconsts"]
    state = list(operands[last:])
    for step in count():
        with _step_group(run, step):
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
