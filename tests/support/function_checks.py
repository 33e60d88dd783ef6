"""Checks of functions and of ops on arrays that follow from their samples alone.

Checks are planned first and run later: `plan_checks(subject)` lists what will be compared, so that checks can be
counted without running them. A check that fails raises AssertionError with name, sample, variant and numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from typing import Any, cast

import numpy as np

from wiregrad.api.values import Value, jvp, trace, vjp, vmap
from wiregrad.errors import WiregradError
from wiregrad.ops import TABLE
from wiregrad.ops.array_ops import ArrayOp, Blocking
from wiregrad.ops.functions import FUNCTIONS, RegisteredFunction

from .compare import (
    FLOAT32,
    FLOAT32_TOLERANCE,
    FLOAT64,
    MODES_TOLERANCE,
    SECOND_ORDER_TOLERANCE,
    STENCIL_TOLERANCE,
    TOLERANCES,
    PlannedCheck,
    assert_near,
    copy_in_layout,
    data_of,
    distinct_layouts,
    random_like,
    real_inner_product,
    tolerance_scale,
    without_warnings,
)

STENCIL_STEP = 2e-5
"""Step of the finite differences; samples may be close to a pole, where a larger step would be inaccurate."""
MAX_MOVED_ELEMENTS = 10
"""Maximum number of elements of an argument that are moved one by one; the others move in a random direction."""

_MATRIX_PRODUCTS = "made of matrix products, which add up in another order than NumPy's own loops"
ROUNDED_FUNCTIONS: dict[str, str] = {
    **dict.fromkeys(
        "convolve correlate dot inner tensordot matvec vecmat multi_dot einsum lstsq polymul poly polyfit".split(),
        _MATRIX_PRODUCTS,
    ),
    **dict.fromkeys(
        "rfft ihfft fftn ifftn rfftn irfftn fft2 ifft2 rfft2 irfft2".split(),
        "several axes are scaled one by one",
    ),
    "float_power": "NumPy's two powers round differently",
    **dict.fromkeys("norm vector_norm".split(), "a root of a number and of an array differ in NumPy, in the last bit"),
    "i0": "NumPy and SciPy compute it by different series",
    **{name: "exp of a number is Python's, of an array NumPy's" for name in FUNCTIONS if "." in name},
}
"""Functions whose value differs from NumPy's by rounding, and why."""


@dataclass(frozen=True)
class CheckSubject:
    """What is checked: a function composed of ops, or the record of an op on arrays."""

    name: str
    run: Callable[..., Any]
    samples: Callable[[np.random.Generator], Sequence[tuple[Any, ...]]]
    reference: Callable[..., Any] | None = None
    """The NumPy function that it must equal."""
    tolerance: float = 0.0
    """Tolerance of the comparison with the reference."""
    blocking: bool = False
    """Whether no gradient flows through it."""


def list_subjects() -> list[CheckSubject]:
    """Return every function and every op on arrays that has samples."""
    functions = [_subject_of_function(entry) for entry in FUNCTIONS.values() if entry.samples is not None]
    return functions + [_subject_of_op(op) for op in TABLE if isinstance(op, ArrayOp) and op.samples is not None]


def _subject_of_function(entry: RegisteredFunction) -> CheckSubject:
    assert entry.samples is not None
    same = entry.numpy[0] if entry.numpy else find_scipy_function(entry)
    if isinstance(same, tuple):
        same = getattr(*same)
    is_rounded = entry.name in ROUNDED_FUNCTIONS or not entry.numpy
    return CheckSubject(entry.name, entry.run, entry.samples, same, 1e-12 if is_rounded else 0.0)


def find_scipy_function(entry: RegisteredFunction) -> Callable[..., Any] | None:
    """Return the SciPy function that an entry stands for, if any.

    Special functions and distributions keep float32, which SciPy's do not; `test_special_functions` compares them.
    """
    for name in entry.scipy:
        home, _, last = name.rpartition(".")
        if not home.startswith(("scipy.special", "scipy.stats")):
            function = getattr(import_module(home), last, None)
            if function is not None:
                return cast("Callable[..., Any]", function)
    return None


def _subject_of_op(op: ArrayOp) -> CheckSubject:
    assert op.samples is not None
    return CheckSubject(f"op_{op.name}", op, op.samples, blocking=isinstance(op, Blocking))


def find_unsampled() -> list[str]:
    """Return the names of differentiable records and functions that have no samples."""
    records = [op for op in TABLE if isinstance(op, ArrayOp) and not isinstance(op, Blocking) and not op.samples]
    # Ops that run a user's function have the user's rules.
    return [op.name for op in records if not op.per_call] + [
        entry.name for entry in FUNCTIONS.values() if entry.samples is None and _passes_gradients(entry)
    ]


def _passes_gradients(entry: RegisteredFunction) -> bool:
    """Return whether a function called with one or two values sends a gradient back to them."""
    for shape in ((2, 2), (3,)):
        x = Value(0.5 + np.arange(np.prod(shape)).reshape(shape))
        y = Value(np.full(shape, 0.3))
        for args in ((x,), (x, y), ([x, y],)):
            try:
                results = [z for z in _flatten_outputs(entry.run(*args)) if isinstance(z, Value) and z.op is not None]
                for result in results:
                    result.backward(np.ones(result.shape, result.dtype)[()])
            except (WiregradError, TypeError, ValueError, IndexError, AttributeError, np.linalg.LinAlgError):
                continue
            if any(np.any(v.grad) for v in (x, y) if v.grad is not None):
                return True
    return False


def plan_checks(subject: CheckSubject) -> Iterator[PlannedCheck]:
    """Return all checks of a subject: for each sample, dtype and layout."""
    for number, (*args, settings) in enumerate(subject.samples(np.random.default_rng(7))):
        case = SampleCase(subject, f"{subject.name}, sample {number}", args, settings)
        yield from case.list_checks()
        for dtype in [FLOAT64] if case.is_complex else [FLOAT64, FLOAT32]:
            for layout in case.layouts:
                if (dtype, layout) != (FLOAT64, "given"):
                    yield from LayoutCase(case, dtype, layout).list_checks()


def plan_precision_checks(subject: CheckSubject, dtype: Any) -> Iterator[PlannedCheck]:
    """Return the checks of a subject in float16 or long double, at samples that are rounded to it.

    Functions of SciPy refuse these dtypes, and where NumPy refuses one, so must we.
    """
    if subject.name in VALUE_DEPENDENT or str(getattr(subject.reference, "__module__", "")).startswith("scipy"):
        return
    for number, (*args, settings) in enumerate(subject.samples(np.random.default_rng(7))):
        with np.errstate(all="ignore"):
            rounded = [_round_argument(arg, dtype) for arg in args]
            rounded_settings = {key: _round_argument(value, dtype) for key, value in settings.items()}
        original = SampleCase(subject, f"{subject.name}, sample {number}", rounded, rounded_settings)
        if not original.is_complex:
            yield from PrecisionCase(original, dtype, "given").list_checks()


VALUE_DEPENDENT = {
    "polydiv": "drops leading coefficients that are small",
    "stats.kurtosis": "of two numbers, so that everything cancels",
    "partition": "NumPy leaves the order of the other elements open",
    "multigammaln": "of SciPy, computed in float64",
}
"""Functions that are not compared in other precisions, and why."""


def _round_argument(arg: Any, dtype: Any) -> Any:
    """Return an argument rounded to a dtype, in float64."""
    if isinstance(arg, float):
        return float(dtype.type(arg))
    return _convert_argument(_convert_argument(arg, dtype, "given"), FLOAT64, "given")


class SampleCase:
    """A subject at one sample."""

    dtype = FLOAT64
    layout = "given"

    def __init__(self, subject: CheckSubject, name: str, args: Sequence[Any], settings: dict[str, Any]) -> None:
        self.subject = subject
        self.name = name
        self.args = [_convert_argument(arg, self.dtype, self.layout) for arg in args]
        self.settings = {key: _convert_argument(value, self.dtype, self.layout) for key, value in settings.items()}
        self.leaves = list(_iterate_leaves(self.args))

    @property
    def is_differentiable(self) -> bool:
        """Whether there is an argument to differentiate by, and gradients flow to it."""
        return bool(self.leaves) and not self.subject.blocking

    @property
    def is_complex(self) -> bool:
        """Whether an argument is complex."""
        return any(np.iscomplexobj(leaf) for leaf in self.leaves)

    @property
    def layouts(self) -> list[str]:
        """The memory layouts that differ for these arguments."""
        return distinct_layouts(self.leaves)

    def list_checks(self) -> Iterator[PlannedCheck]:
        """Return the checks of this sample in its own dtype and layout."""
        yield from self._common_checks()
        if self.is_differentiable:
            for slot in [slot for slot, leaf in enumerate(self.leaves) if np.size(leaf)]:
                yield self._make_check(f"slopes {slot}", partial(self.check_slopes, slot))
                yield self._make_check(f"direction {slot}", partial(self.check_direction, slot))
            yield self._make_check("circuit", self.check_circuit)
            yield self._make_check("second order, forward over reverse", self.check_forward_over_reverse)
            yield self._make_check("second order, reverse over reverse", self.check_reverse_over_reverse)

    def _common_checks(self) -> Iterator[PlannedCheck]:
        yield self._make_check("value", self.check_value)
        yield self._make_check("type", self.check_type)
        yield self._make_check("plain", self.check_plain)
        if self.subject.reference is not None and self.leaves:
            yield self._make_check("dispatch", self.check_dispatch)
        if self.is_differentiable:
            for slot in range(len(self.leaves)):
                yield self._make_check(f"gradient type {slot}", partial(self.check_gradient_type, slot))
            yield self._make_check("modes", self.check_modes)
        if self.layout == "given":
            if self.leaves:
                yield self._make_check("vmap", self.check_vmap)
            if self.is_differentiable:
                yield self._make_check("vmap gradient", self.check_vmap_gradient)
            # In the other layouts the arguments are read-only.
            yield self._make_check("kept", self.check_unchanged)

    def _make_check(self, what: str, run: Callable[[], None]) -> PlannedCheck:
        def run_with_weights() -> None:
            # All checks share the weights; arrays that are made while a transform runs are not plain ones.
            assert isinstance(self.weights, list)
            run()

        return PlannedCheck(f"{self._label}: {what}", without_warnings(run_with_weights))

    @cached_property
    def _label(self) -> str:
        return f"{self.name}, {self.dtype} {self.layout}"

    def call_with_leaves(self, run: Callable[..., Any], leaves: Sequence[Any]) -> list[Any]:
        """Return the outputs of a function called with other leaves."""
        rest = iter(leaves)
        return _flatten_outputs(run(*[_replace_leaves(arg, rest) for arg in self.args], **self.settings))

    def moving_outputs(self, *leaves: Any) -> tuple[Any, ...]:
        """Call the subject with other leaves; return the outputs that depend on them."""
        outputs = self.call_with_leaves(self.subject.run, leaves)
        return tuple(output for output, moves in zip(outputs, self.output_moves, strict=True) if moves)

    @cached_property
    def _recorded_run(self) -> tuple[list[Value], list[Any]]:
        values = [Value(leaf) for leaf in self.leaves]
        return values, self.call_with_leaves(self.subject.run, values)

    @cached_property
    def output_moves(self) -> list[bool]:
        """For each output, whether it is a value, so that it depends on the leaves."""
        return [isinstance(output, Value) for output in self._recorded_run[1]]

    @cached_property
    def outputs(self) -> list[Any]:
        """The outputs of the subject for values, as arrays."""
        return [data_of(output) for output in self._recorded_run[1]]

    @cached_property
    def numpy_outputs(self) -> list[Any]:
        """The outputs of NumPy's function for the same arguments."""
        return [
            np.asarray(output)
            for output in self.call_with_leaves(self.subject.reference or self.subject.run, self.leaves)
        ]

    @cached_property
    def weights(self) -> list[Any]:
        """Fixed weights of the moving outputs, whose weighted sum is differentiated."""
        rng = np.random.default_rng(3)
        return [
            random_like(rng, output) for output, moves in zip(self.outputs, self.output_moves, strict=True) if moves
        ]

    @cached_property
    def direction(self) -> list[Any]:
        """A fixed direction in which the leaves are moved."""
        rng = np.random.default_rng(4)
        return [self._allowed_step(random_like(rng, leaf)) for leaf in self.leaves]

    def _allowed_step(self, step: Any) -> Any:
        # NumPy reads one triangle of the matrix; the gradient is that of a symmetric matrix, as in PyTorch and JAX.
        name = self.subject.name.removeprefix("op_").removeprefix("scipy_").replace("cho_factor", "cholesky")
        symmetric = name in TABLE and getattr(TABLE[name], "symmetric", False)
        return step + np.conjugate(np.swapaxes(step, -1, -2)) if symmetric else step

    @cached_property
    def gradients(self) -> list[Any]:
        """The gradient of the weighted sum of the outputs, by reverse mode."""
        values, outputs = self._recorded_run
        return self._pull_back(values, outputs)

    def _pull_back(self, values: Sequence[Value], outputs: Sequence[Any]) -> list[Any]:
        for output, weight in zip([y for y in outputs if isinstance(y, Value)], self.weights, strict=True):
            output.backward(weight)
        return [np.zeros_like(leaf) if v.grad is None else v.grad for v, leaf in zip(values, self.leaves, strict=True)]

    def weighted_sum(self, leaves: Sequence[Any]) -> float:
        """Return the weighted sum of the outputs at other leaves, computed by NumPy where it has the function."""
        outputs = self.call_with_leaves(self.subject.reference or self.subject.run, leaves)
        moving = [output for output, moves in zip(outputs, self.output_moves, strict=True) if moves]
        return sum(
            real_inner_product(weight, np.asarray(output)) for weight, output in zip(self.weights, moving, strict=True)
        )

    def check_value(self) -> None:
        """The value is NumPy's, bit for bit."""
        assert len(self.outputs) == len(self.numpy_outputs), (
            f"{len(self.outputs)} outputs, wanted {len(self.numpy_outputs)}"
        )
        for got, wanted in zip(self.outputs, self.numpy_outputs, strict=True):
            assert_near(got, wanted, self._value_tolerance)

    @property
    def _value_tolerance(self) -> float:
        return self.subject.tolerance if self.dtype == FLOAT64 else 1e7 * self.subject.tolerance

    def check_type(self) -> None:
        """Dtype and shape are NumPy's."""
        for got, wanted in zip(self.outputs, self.numpy_outputs, strict=True):
            if self.subject.name == "logm" and self.dtype == FLOAT32:
                # SciPy may return complex numbers whose imaginary parts are rounding errors.
                continue
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), (
                f"{got.dtype}{got.shape}, wanted {wanted.dtype}{wanted.shape}"
            )

    def check_plain(self) -> None:
        """Plain arrays give plain arrays of the same numbers."""
        for got, wanted in zip(self.call_with_leaves(self.subject.run, self.leaves), self.outputs, strict=True):
            assert not isinstance(got, Value), "gave a value for plain arrays"
            assert_near(np.asarray(got), wanted, self._value_tolerance)

    def check_dispatch(self) -> None:
        """NumPy's function called with values gives the same."""
        assert self.subject.reference is not None
        values = [Value(leaf) for leaf in self.leaves]
        outputs = self.call_with_leaves(self.subject.reference, values)
        assert [isinstance(output, Value) for output in outputs] == self.output_moves, "values in other places"
        for got, wanted in zip(outputs, self.outputs, strict=True):
            assert_near(data_of(got), wanted, 0.0)

    def check_unchanged(self) -> None:
        """Nothing was changed in place."""
        arrays = list(_iterate_arrays([*self.args, *self.settings.values()]))
        before = [array.tobytes() for array in arrays]
        values = [Value(leaf) for leaf in self.leaves]
        self.call_with_leaves(self.subject.run, self.leaves)
        self._pull_back(values, self.call_with_leaves(self.subject.run, values))
        assert before == [array.tobytes() for array in arrays], "an argument was changed in place"

    def check_gradient_type(self, slot: int) -> None:
        """A gradient has its argument's dtype and shape, and is not a value."""
        got = self.gradients[slot]
        wanted = np.asarray(self.leaves[slot])
        assert not isinstance(got, Value), "the gradient is a value"
        kind = np.asarray(got)
        assert (kind.dtype, kind.shape) == (wanted.dtype, wanted.shape), (
            f"{kind.dtype}{kind.shape}, wanted {wanted.dtype}{wanted.shape}"
        )

    def check_slopes(self, slot: int) -> None:
        """The gradient equals a five-point stencil, element by element."""
        size = np.size(self.leaves[slot])
        for index in np.unique(np.linspace(0, max(size - 1, 0), min(size, MAX_MOVED_ELEMENTS)).astype(int)):
            for unit in (1.0, 1j)[: 1 + np.iscomplexobj(self.leaves[slot])]:
                step = np.zeros(np.shape(self.leaves[slot]), np.asarray(self.leaves[slot]).dtype)
                step.flat[index] = unit
                self._assert_slope(slot, self._allowed_step(step))

    def check_direction(self, slot: int) -> None:
        """The gradient equals a five-point stencil, in a random direction."""
        self._assert_slope(slot, np.asarray(self.direction[slot]))

    def _assert_slope(self, slot: int, step: Any) -> None:
        def value_at(distance: float) -> float:
            leaf = np.asarray(self.leaves[slot]) + distance * step
            return self.weighted_sum([*self.leaves[:slot], leaf[()], *self.leaves[slot + 1 :]])

        height = abs(value_at(0.0))
        if np.isfinite(height):
            got = real_inner_product(np.asarray(self.gradients[slot]), step)
            assert_near(got, _five_point_slope(value_at), STENCIL_TOLERANCE, max(1.0, height))

    def check_modes(self) -> None:
        """Forward and reverse mode agree: <v, J u> = <J' v, u>."""
        if not any(self.output_moves):
            return
        _, pushed = jvp(self.moving_outputs, self.leaves, self.direction)
        forward = sum(real_inner_product(w, np.asarray(t)) for w, t in zip(self.weights, pushed, strict=True))
        backward = sum(
            real_inner_product(np.asarray(g), u) for g, u in zip(self.gradients, self.direction, strict=True)
        )
        scale = sum(float(np.abs(np.asarray(g) * u).sum()) for g, u in zip(self.gradients, self.direction, strict=True))
        assert_near(
            forward,
            backward,
            MODES_TOLERANCE if self.dtype == FLOAT64 else TOLERANCES[self.dtype],
            max(1.0, scale),
        )
        for tangent, output in zip(
            pushed, [y for y, moves in zip(self.outputs, self.output_moves, strict=True) if moves], strict=True
        ):
            kind = np.asarray(tangent)
            assert (kind.dtype, kind.shape) == (output.dtype, output.shape), f"the tangent is {kind.dtype}{kind.shape}"

    def check_circuit(self) -> None:
        """The recorded circuit, as it is and simplified, gives the same numbers."""
        if not any(self.output_moves):
            return
        wanted = [output for output, moves in zip(self.outputs, self.output_moves, strict=True) if moves]
        recorded = trace(self.moving_outputs, *self.leaves)
        for circuit in (recorded, recorded.simplify()):
            result = circuit(dict(zip(recorded.inputs, [np.asarray(x)[()] for x in self.leaves], strict=True)))
            for got, output in zip(result.values() if isinstance(result, dict) else [result], wanted, strict=True):
                assert_near(np.asarray(got), output, self._value_tolerance)

    def gradient_at(self, *leaves: Any) -> tuple[Any, ...]:
        """Return the gradient at other leaves; it can be differentiated again."""
        _, pull = vjp(self.moving_outputs, *leaves)
        gradient: tuple[Any, ...] = pull(tuple(self.weights))
        return gradient

    @cached_property
    def _second_by_stencil(self) -> list[Any]:
        """The directional derivative of the gradient, by a five-point stencil."""

        def gradient_at(distance: float) -> list[Any]:
            pairs = zip(self.leaves, self.direction, strict=True)
            leaves = [np.asarray(x) + distance * np.asarray(u) for x, u in pairs]
            return [np.asarray(g) for g in self.gradient_at(*[x[()] for x in leaves])]

        gradients = [gradient_at(distance * STENCIL_STEP) for distance in (-2.0, -1.0, 1.0, 2.0)]
        return [(a - 8.0 * b + 8.0 * c - d) / (12.0 * STENCIL_STEP) for a, b, c, d in zip(*gradients, strict=True)]

    def check_forward_over_reverse(self) -> None:
        """Forward mode over reverse mode gives the Hessian times a direction."""
        if any(self.output_moves):
            _, got = jvp(self.gradient_at, self.leaves, self.direction)
            self._assert_second(got)

    def check_reverse_over_reverse(self) -> None:
        """Reverse mode over reverse mode gives the same, the Hessian being symmetric."""
        if any(self.output_moves):
            _, pull = vjp(self.gradient_at, *self.leaves)
            self._assert_second(pull(tuple(self.direction)))

    def _assert_second(self, products: Sequence[Any]) -> None:
        scale = max([1.0, *(float(np.abs(g).max()) for g in self.gradients if np.size(g))])
        for got, wanted in zip(products, self._second_by_stencil, strict=True):
            assert_near(np.asarray(got), wanted, SECOND_ORDER_TOLERANCE, scale)

    @cached_property
    def _batch_leaves(self) -> list[list[Any]]:
        return [
            [np.asarray(leaf * np.asarray(factor, np.asarray(leaf).dtype)) for leaf in self.leaves]
            for factor in (1.0, 1.01, 0.98)
        ]

    def check_vmap(self) -> None:
        """A batch gives what a loop gives."""
        singles = [self.call_with_leaves(self.subject.run, [x[()] for x in leaves]) for leaves in self._batch_leaves]
        got = vmap(partial(_call_as_tuple, partial(self.call_with_leaves, self.subject.run)))(
            *_stack_columns(self._batch_leaves)
        )
        for one, wanted in zip(got, _stack_columns(singles), strict=True):
            assert np.shape(one) == wanted.shape, f"shape {np.shape(one)}, wanted {wanted.shape}"
            assert_near(np.asarray(one), wanted, TOLERANCES[self.dtype])

    def check_vmap_gradient(self) -> None:
        """The gradient of a batch is the batch of gradients."""
        if any(self.output_moves):
            singles = [self.gradient_at(*[x[()] for x in leaves]) for leaves in self._batch_leaves]
            _, pull = vjp(vmap(self.moving_outputs), *_stack_columns(self._batch_leaves))
            gradients = pull(tuple(np.stack([w] * 3) for w in self.weights))
            for got, wanted in zip(gradients, _stack_columns(singles), strict=True):
                assert np.shape(got) == wanted.shape, f"shape {np.shape(got)}, wanted {wanted.shape}"
                assert_near(np.asarray(got), wanted, TOLERANCES[self.dtype])


class LayoutCase(SampleCase):
    """A case in another dtype or layout."""

    def __init__(self, original: SampleCase, dtype: Any, layout: str) -> None:
        self.original = original
        self.dtype = dtype
        self.layout = layout
        super().__init__(original.subject, original.name, original.args, original.settings)

    @cached_property
    def weights(self) -> list[Any]:
        """The weights of the original case, in this dtype."""
        moving = [output for output, moves in zip(self.outputs, self.output_moves, strict=True) if moves]
        return [np.asarray(w).astype(y.dtype)[()] for w, y in zip(self.original.weights, moving, strict=True)]

    def list_checks(self) -> Iterator[PlannedCheck]:
        """Return the checks of the variant: those without finite differences, and comparisons with the original."""
        yield from self._common_checks()
        if self.dtype == FLOAT32:
            yield self._make_check("near float64", self.check_near_float64)
        if self.is_differentiable:
            for slot in range(len(self.leaves)):
                yield self._make_check(f"gradient {slot}", partial(self.check_gradient, slot))

    def check_near_float64(self) -> None:
        """The value is near that in float64."""
        for got, wanted in zip(self.outputs, self.original.outputs, strict=True):
            assert_near(got, wanted, FLOAT32_TOLERANCE, tolerance_scale(wanted))

    def check_gradient(self, slot: int) -> None:
        """The gradient is that of the original case."""
        wanted = np.asarray(self.original.gradients[slot])
        assert_near(np.asarray(self.gradients[slot]), wanted, TOLERANCES[self.dtype], tolerance_scale(wanted))


class PrecisionCase(LayoutCase):
    """A case in float16 or long double."""

    @property
    def _value_tolerance(self) -> float:
        if not self.subject.tolerance:
            return 0.0
        return 2.0 * float(np.finfo(np.float16).eps) if self.dtype == np.float16 else self.subject.tolerance

    def list_checks(self) -> Iterator[PlannedCheck]:
        """Return the checks; if NumPy refuses the dtype, only that we do."""
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore", RuntimeWarning)
                assert isinstance(self.numpy_outputs, list)
        except TypeError:
            yield PlannedCheck(f"{self.name}, {self.dtype}: refusal", without_warnings(self.check_refusal))
        else:
            yield from super().list_checks()

    def check_refusal(self) -> None:
        """A function that NumPy refuses raises an error that says so, before any gradient is asked for."""
        try:
            assert isinstance(self.outputs, list)
        except TypeError:
            return
        raise AssertionError("NumPy refuses it, and here it is computed")


def _five_point_slope(at: Callable[[float], float]) -> float:
    return (at(-2.0 * STENCIL_STEP) - 8.0 * at(-STENCIL_STEP) + 8.0 * at(STENCIL_STEP) - at(2.0 * STENCIL_STEP)) / (
        12.0 * STENCIL_STEP
    )


def _convert_argument(arg: Any, dtype: Any, layout: str) -> Any:
    """Return an argument in a dtype and layout; anything but arrays and floats is unchanged."""
    if isinstance(arg, np.ndarray):
        return copy_in_layout(arg.astype(dtype) if arg.dtype.kind == "f" else arg, layout)
    if isinstance(arg, float) and dtype != FLOAT64:
        return dtype.type(arg)
    if isinstance(arg, list | tuple) and any(isinstance(part, np.ndarray | list | tuple) for part in arg):
        return (
            type(arg)([_convert_argument(part, dtype, layout) for part in arg]) if type(arg) in (list, tuple) else arg
        )
    return arg


def _is_leaf(arg: Any) -> bool:
    return isinstance(arg, float | np.floating) or (isinstance(arg, np.ndarray) and arg.dtype.kind in "fc")


def _iterate_leaves(args: Sequence[Any]) -> Iterator[Any]:
    """Return what is differentiated by: real and complex arrays, floats, and such arrays in lists."""
    for arg in args:
        if _is_leaf(arg):
            yield arg
        elif isinstance(arg, list | tuple):
            yield from _iterate_leaves([part for part in arg if isinstance(part, np.ndarray | list | tuple)])


def _replace_leaves(arg: Any, rest: Iterator[Any]) -> Any:
    """Return an argument with other leaves."""
    if _is_leaf(arg):
        return next(rest)
    if isinstance(arg, list | tuple) and any(isinstance(part, np.ndarray | list | tuple) for part in arg):
        parts = [_replace_leaves(part, rest) if isinstance(part, np.ndarray | list | tuple) else part for part in arg]
        return type(arg)(parts)
    return arg


def _iterate_arrays(args: Sequence[Any]) -> Iterator[Any]:
    for arg in args:
        if isinstance(arg, np.ndarray):
            yield arg
        elif isinstance(arg, list | tuple):
            yield from _iterate_arrays(arg)


def _flatten_outputs(outputs: Any) -> list[Any]:
    return [y for part in outputs for y in _flatten_outputs(part)] if isinstance(outputs, list | tuple) else [outputs]


def _call_as_tuple(call: Callable[..., list[Any]], *leaves: Any) -> tuple[Any, ...]:
    return tuple(call(leaves))


def _stack_columns(rows: Sequence[Sequence[Any]]) -> list[Any]:
    return [np.stack([np.asarray(x) for x in column]) for column in zip(*rows, strict=True)]
