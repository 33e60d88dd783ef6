"""Random NumPy programs on arrays and scalars: value, gradient and Hessian-vector product against PyTorch and JAX.

JAX runs the source of a program with `jax.numpy` under the name `np`. PyTorch spells most things otherwise, so a table
says what each entry of the catalogue is there; what only moves elements is done to their numbers by NumPy, and then
gathered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional

import wiregrad as wg

from ..support.random_programs import (
    CATALOGUE,
    ProgramStep,
    RandomProgram,
    count_drawn_entries,
    random_program,
    shrink_program,
)
from .frameworks import Function

PROGRAMS, JAX_PROGRAMS = 2000, 400
VALUE, GRADIENT, CURVATURE = 1e-11, 1e-9, 1e-8
"""How far two results may be apart, relative to the larger of 1 and the norm of what is wanted."""


class Derivatives(NamedTuple):
    """What is compared: a value, the gradient by every input, and the Hessian times a direction."""

    value: Any
    gradient: Sequence[Any]
    curvature: Sequence[Any]


# PyTorch.


def tensor(x: Any) -> torch.Tensor:
    return x.double() if isinstance(x, torch.Tensor) else torch.tensor(x, dtype=torch.float64)


def on_tensors(function: Function) -> Function:
    """Return a function for operands of which some are Python numbers."""
    return lambda *xs, **settings: function(*map(tensor, xs), **settings)


def gathered(move: Function) -> Function:
    """Return a function that moves elements as NumPy does."""

    def moved(x: torch.Tensor, **settings: Any) -> torch.Tensor:
        places = np.arange(x.numel()).reshape(x.shape)
        return x.reshape(-1)[torch.tensor(np.array(move(places, **settings), order="C"))]

    return moved


def axes_of(x: torch.Tensor, axis: Any) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)


def reduced(function: Function) -> Function:
    return lambda x, axis, keepdims, **settings: function(x, dim=axes_of(x, axis), keepdim=keepdims, **settings)


def spread(function: Function) -> Function:
    return lambda x, axis, keepdims, ddof: function(x, dim=axes_of(x, axis), keepdim=keepdims, correction=ddof)


def lines(x: torch.Tensor, axis: Any) -> torch.Tensor:
    """Return the array with the axes that are reduced as one, the last."""
    axes = sorted(k % x.ndim for k in axes_of(x, axis))
    rest = [k for k in range(x.ndim) if k not in axes]
    return x.permute(*rest, *axes).reshape(*(x.shape[k] for k in rest), -1)


def by_lines(function: Function) -> Function:
    """Return a reduction of one axis as one of any axes."""

    def reduction(x: torch.Tensor, axis: Any, keepdims: bool) -> torch.Tensor:
        axes = [k % x.ndim for k in axes_of(x, axis)]
        y = function(lines(x, axis))
        return y.reshape([1 if k in axes else n for k, n in enumerate(x.shape)]) if keepdims else y

    return reduction


def middle(x: torch.Tensor) -> torch.Tensor:
    ordered, count = x.sort(dim=-1).values, x.shape[-1]
    return (ordered[..., (count - 1) // 2] + ordered[..., count // 2]) / 2


def quantile(x: torch.Tensor, axis: Any, keepdims: bool, q: float) -> torch.Tensor:
    return by_lines(partial(torch.quantile, q=q, dim=-1))(x, axis, keepdims)


def ufunc_reduce(x: torch.Tensor, axis: int, keepdims: bool, function: str) -> torch.Tensor:
    reduction = {"add": torch.sum, "multiply": torch.prod, "maximum": torch.amax, "logaddexp": torch.logsumexp}[
        function
    ]
    return reduction(x, dim=axis, keepdim=keepdims)


ACCUMULATED: dict[str, Function] = {
    "add": torch.cumsum,
    "multiply": torch.cumprod,
    "maximum": lambda x, axis: x.cummax(axis).values,
}


def scan(function: Function) -> Function:
    return lambda x, axis: function(x.reshape(-1), dim=0) if axis is None else function(x, dim=axis)


def norm(x: torch.Tensor, ord: Any, axis: Any, keepdims: bool) -> torch.Tensor:
    if isinstance(axis, tuple):
        return torch.linalg.matrix_norm(x, "fro" if ord is None else ord, dim=axis, keepdim=keepdims)
    return torch.linalg.vector_norm(x, 2 if ord is None else ord, dim=axis, keepdim=keepdims)


def split(x: torch.Tensor, where: Any, axis: int) -> Sequence[torch.Tensor]:
    return torch.tensor_split(x, where, dim=axis)


def pad_with_zeros(x: torch.Tensor, widths: Any) -> torch.Tensor:
    return functional.pad(x, [width for pair in reversed(widths) for width in pair])


def pad(x: torch.Tensor, widths: Any, mode: str) -> torch.Tensor:
    if mode == "constant":
        return pad_with_zeros(x, widths)
    return gathered(lambda places: np.pad(places, widths, mode=mode))(x)


def squeeze(x: torch.Tensor, axis: int | None) -> torch.Tensor:
    return x.squeeze() if axis is None else x.squeeze(axis)


def dot(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.tensordot(a, b, dims=([a.ndim - 1], [max(b.ndim - 2, 0)]))


def gram(x: torch.Tensor, n: int) -> torch.Tensor:
    return x @ x.mT + n * torch.eye(n, dtype=x.dtype)


def solve(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    # A matrix beside a stack of matrices is one for all of them, where PyTorch may see a stack of vectors.
    columns = b[:, None] if b.ndim == 1 else b.broadcast_to(*a.shape[:-2], *b.shape[-2:]) if b.ndim < a.ndim else b
    found = torch.linalg.solve(a, columns)
    return found[:, 0] if b.ndim == 1 else found


def kron(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    # PyTorch's own refuses some operands that are views.
    ndim = max(a.ndim, b.ndim)
    m, n = ((1,) * (ndim - x.ndim) + x.shape for x in (a, b))
    pairs = a.reshape([k for length in m for k in (length, 1)]) * b.reshape([k for length in n for k in (1, length)])
    return pairs.reshape([k * length for k, length in zip(m, n, strict=True)])


def column_space(x: torch.Tensor) -> torch.Tensor:
    q = torch.linalg.qr(x).Q
    return q @ q.mT


def root(x: torch.Tensor, n: int) -> torch.Tensor:
    w, q = torch.linalg.eigh(gram(x, n))
    return (q * w.sqrt()[..., None, :]) @ q.mT


def convolve(a: torch.Tensor, b: torch.Tensor, mode: str) -> torch.Tensor:
    full = functional.conv1d(a[None, None], b.flip(0)[None, None], padding=len(b) - 1)[0, 0]
    short, long = sorted([len(a), len(b)])
    start, count = {"full": (0, len(full)), "same": ((short - 1) // 2, long), "valid": (short - 1, long - short + 1)}[
        mode
    ]
    return full[start : start + count]


def where(a: Any, b: Any, then: torch.Tensor, other: Any, sign: str) -> torch.Tensor:
    compare = {"<": torch.lt, "<=": torch.le, ">": torch.gt, ">=": torch.ge}[sign]
    return torch.where(compare(tensor(a), tensor(b)), then, other)


def loop(x: torch.Tensor, y: torch.Tensor, function: str, count: int, scale: float) -> torch.Tensor:
    for _ in range(count):
        x = getattr(torch, function)(scale * x + y)
    return x


def rows(x: torch.Tensor, y: torch.Tensor, scale: float) -> torch.Tensor:
    return reduce(lambda total, row: scale * total + row.tanh(), x, y)


def elements(x: torch.Tensor, y: torch.Tensor, scale: float) -> torch.Tensor:
    return reduce(lambda total, row: total.sin() + scale * row, x, y)


def branch(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, bound: float) -> torch.Tensor:
    return a.sin() * b if x.sum().item() > bound else a - b


def shrunk(x: torch.Tensor, bound: float, scale: float) -> torch.Tensor:
    while (x**2).sum().item() > bound:
        x = scale * x
    return x


def plain(*names: str, **renamed: Function) -> dict[str, Function]:
    """Return functions that PyTorch has under the same name, or under another."""
    return {**{name: on_tensors(getattr(torch, name)) for name in names}, **renamed}


SAME_NAME = """
    sin cos tan exp expm1 exp2 log log2 log10 log1p sqrt square reciprocal sinh cosh tanh arcsin arccos arctan arcsinh
    arccosh arctanh abs sign floor ceil trunc negative positive sinc deg2rad sigmoid erf relu
    add subtract multiply divide arctan2 hypot logaddexp maximum minimum fmax fmin copysign matmul inner
"""

TORCH: dict[str, Function] = {
    **plain(*SAME_NAME.split()),
    "fabs": torch.abs,
    "cbrt": lambda x: x.sign() * x.abs() ** (1 / 3),
    "rint": torch.round,
    "softplus": functional.softplus,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "leaky_relu": lambda x, slope: functional.leaky_relu(x, negative_slope=slope),
    "scaled_tanh": lambda x, a, b: a * torch.tanh(b * x),
    "cubic": lambda x, a, b: a * x**3 - x / b,
    "lifted": lambda x, shift: x * x + shift,
    "squeezed_in": lambda x, scale: scale * x.sin(),
    "power": torch.pow,
    "mod": on_tensors(torch.remainder),
    "where": where,
    "masked": lambda x, y, bound: (x > bound) * y,
    "clip": lambda x, low, high: x.clip(low, high),
    "sum": reduced(torch.sum),
    "mean": reduced(torch.mean),
    "max": reduced(torch.amax),
    "min": reduced(torch.amin),
    "logsumexp": reduced(torch.logsumexp),
    "prod": by_lines(partial(torch.prod, dim=-1)),
    "ptp": by_lines(lambda x: x.amax(-1) - x.amin(-1)),
    "median": by_lines(middle),
    "var": spread(torch.var),
    "std": spread(torch.std),
    "quantile": quantile,
    "ufunc_reduce": ufunc_reduce,
    "ufunc_accumulate": lambda x, axis, function: ACCUMULATED[function](x, axis),
    "trapezoid": lambda x, axis: torch.trapezoid(x, dim=axis),
    "cov": torch.cov,
    "gradient": lambda x, axis: torch.gradient(x, dim=axis)[0],
    "cumsum": scan(torch.cumsum),
    "cumprod": scan(torch.cumprod),
    "sort": lambda x, axis: x.sort(dim=axis).values,
    "softmax": lambda x, axis: x.softmax(axis),
    "log_softmax": lambda x, axis: x.log_softmax(axis),
    "norm": norm,
    "average": lambda x, w, axis: torch.tensordot(x, w / w.sum(), dims=([axis], [0])),
    "reshape": lambda x, shape: x.reshape(shape),
    "ravel": lambda x: x.reshape(-1),
    "transpose": lambda x, axes: x.permute(axes),
    "T": lambda x: x.permute(*reversed(range(x.ndim))),
    "swapaxes": lambda x, a, b: x.swapaxes(a, b),
    "moveaxis": lambda x, a, b: x.moveaxis(a, b),
    "expand_dims": lambda x, axis: x.unsqueeze(axis),
    "squeeze": squeeze,
    "concatenate": lambda *xs, axis: torch.cat(xs, dim=axis),
    "stack": lambda *xs, axis: torch.stack(xs, dim=axis),
    "hstack": lambda *xs: torch.hstack(xs),
    "vstack": lambda *xs: torch.vstack(xs),
    "append": lambda a, b: torch.cat([a.reshape(-1), b.reshape(-1)]),
    "delete": gathered(np.delete),
    "split": split,
    "flip": lambda x, axis: x.flip(axes_of(x, axis)),
    "roll": lambda x, shift, axis: x.roll(shift, axis),
    "tile": lambda x, reps: x.tile(reps),
    "repeat": gathered(np.repeat),
    "pad": pad,
    "broadcast_to": lambda x, shape: x.broadcast_to(shape),
    "diag": lambda x, k: x.diag(k),
    "diagonal": lambda x, k, a, b: x.diagonal(k, a, b),
    "tril": lambda x, k: x.tril(k),
    "triu": lambda x, k: x.triu(k),
    "rot90": lambda x, k: x.rot90(k),
    "diff": lambda x, axis: x.diff(dim=axis),
    "index": gathered(lambda places, index: places[index]),
    "compress": lambda x, bound: x[x > bound],
    "take": gathered(np.take),
    "take_along_axis": lambda x, indices, axis: x.take_along_dim(torch.tensor(indices), axis),
    "argsort": lambda x: x[x.argsort()],
    "unpack": lambda x: x.unbind(0),
    "dot": dot,
    "vdot": lambda a, b: a.reshape(-1) @ b.reshape(-1),
    "outer": lambda a, b: torch.outer(a.reshape(-1), b.reshape(-1)),
    "kron": kron,
    "rowdot": lambda a, b: (a * b).sum(-1),
    "cross": lambda a, b: torch.linalg.cross(*torch.broadcast_tensors(a, b), dim=-1),
    "convolve": convolve,
    "ufunc_outer": lambda a, b, function: getattr(torch, function)(a.reshape(a.shape + (1,) * b.ndim), b),
    "tensordot": lambda a, b, axes: torch.tensordot(a, b, dims=axes),
    "einsum": lambda *xs, subscripts: torch.einsum(subscripts, *xs),
    "trace": lambda x, k: x.diagonal(k).sum(),
    "gram": gram,
    "solve": solve,
    "inv": torch.linalg.inv,
    "det": lambda x, n=1.0: torch.linalg.det(x / n),
    "logdet": lambda x: torch.linalg.slogdet(x).logabsdet,
    "matrix_power": torch.linalg.matrix_power,
    "pinv": torch.linalg.pinv,
    "svdvals": torch.linalg.svdvals,
    "column_space": column_space,
    "root": root,
    "cholesky": lambda x, n: torch.linalg.cholesky(gram(x, n)),
    "eigvalsh": lambda x, n: torch.linalg.eigvalsh(gram(x, n)),
    "loop": loop,
    "rows": rows,
    "elements": elements,
    "branch": on_tensors(branch),
    "shrunk": shrunk,
    "harmonics": lambda x, count: torch.stack([torch.sin(x * k) for k in range(1, count)]),
    "greatest": lambda *xs: max(xs),
    "listed_sum": lambda *xs: sum(xs),
}
"""What every entry of the catalogue is in PyTorch."""


def torch_step(step: ProgramStep, names: dict[str, Any]) -> dict[str, Any]:
    operands = [names[x] if isinstance(x, str) else x for x in step.operands]
    found = TORCH[step.op](*operands, **step.settings)
    return dict(zip(step.targets, found if len(step.targets) > 1 else [found], strict=True))


def torch_value(program: RandomProgram, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    names: dict[str, Any] = {name: torch.tensor(np.asarray(value)) for name, value in program.constants.items()}
    names.update(zip(program.inputs, inputs, strict=True))
    for step in program.steps:
        names.update(torch_step(step, names))
    return sum((names[weight] * names[name]).sum() for name, weight in program.weights.items())


def torch_derivatives(program: RandomProgram) -> Derivatives:
    inputs = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in program.inputs.values()]
    value = torch_value(program, inputs)
    slopes = torch_slopes(value, inputs, create_graph=True)
    moved = sum((slope * tensor(v)).sum() for slope, v in zip(slopes, program.draw_directions(), strict=True))
    return Derivatives(value.item(), list(map(numbers, slopes)), list(map(numbers, torch_slopes(moved, inputs))))


def numbers(x: torch.Tensor) -> np.ndarray:
    # A gradient that PyTorch knows to be zero has no memory until it is copied; NumPy would read what is not there.
    return x.detach().clone().numpy()


def torch_slopes(y: Any, xs: Sequence[torch.Tensor], *, create_graph: bool = False) -> Sequence[torch.Tensor]:
    if not y.requires_grad:
        return [torch.zeros_like(x) for x in xs]
    return torch.autograd.grad(y, xs, create_graph=create_graph, materialize_grads=True)


# JAX.


JAX_NUMPY = SimpleNamespace(**{**vars(jnp), "array": np.array})
"""JAX's NumPy, but that index arrays and masks are NumPy's, so that shapes can follow from them."""
JAX_FUNCTIONS = SimpleNamespace(
    softmax=jax.nn.softmax,
    log_softmax=jax.nn.log_softmax,
    logsumexp=jax.scipy.special.logsumexp,
    ops=SimpleNamespace(
        sigmoid=jax.nn.sigmoid,
        softplus=jax.nn.softplus,
        silu=jax.nn.silu,
        gelu=partial(jax.nn.gelu, approximate=False),
        erf=jax.scipy.special.erf,
        relu=jax.nn.relu,
        leaky_relu=jax.nn.leaky_relu,
    ),
)


# At level 0 a product may be rounded in one place and fused in another, and a maximum then equals no element.
QUICKLY: dict[str, Any] = {"xla_backend_optimization_level": 1, "xla_llvm_disable_expensive_passes": True}
"""Every program is compiled and run once; most of the time goes into compiling."""


def straight(step: ProgramStep, values: dict[str, Any]) -> ProgramStep:
    """Return a step as it went at a point: what is compiled cannot look at numbers."""
    x = values[step.operands[0]] if step.op in {"branch", "shrunk", "compress"} else None
    if step.op == "branch":
        return replace(step, template="np.sin({1}) * {2}" if np.sum(x) > step.settings["bound"] else "{1} - {2}")
    if step.op == "shrunk":
        return replace(step, template="{0}" + " * {scale}" * rounds(x, **step.settings))
    if step.op == "compress":
        return replace(step, settings={"mask": x > step.settings["bound"]}, template="{0}[{mask}]")
    if step.op == "greatest":
        return replace(step, operands=(max(step.names, key=values.__getitem__),), template="{0}")
    return step


def rounds(x: Any, bound: float, scale: float) -> int:
    return next(k for k in range(100) if np.sum((x * scale**k) ** 2) <= bound)


def jax_derivatives(program: RandomProgram) -> Derivatives:
    program = replace(program, steps=tuple(straight(step, program.values) for step in program.steps))
    function = program.make_function(JAX_NUMPY, JAX_FUNCTIONS)
    slopes = jax.value_and_grad(function, tuple(range(len(program.inputs))))
    compiled = jax.jit(lambda xs, vs: jax.jvp(slopes, xs, vs), compiler_options=QUICKLY)
    (value, gradient), (_, curvature) = compiled(tuple(program.inputs.values()), program.draw_directions())
    return Derivatives(value, gradient, curvature)


# wiregrad.


def wiregrad_derivatives(program: RandomProgram) -> Derivatives:
    function = program.make_function(np, wg)
    inputs, slots = tuple(program.inputs.values()), tuple(range(len(program.inputs)))
    value, slopes = wg.value_and_grad(function, argnums=slots)(*inputs)
    curvature = wg.hvp(lambda xs: function(*xs), inputs, program.draw_directions())
    return Derivatives(value, slopes, curvature)


# Comparisons.


def assert_close(what: str, got: Any, wanted: Any, tolerance: float) -> None:
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape, f"{what} has the shape {got.shape}, wanted {wanted.shape}"
    assert np.array_equal(np.isnan(got), np.isnan(wanted)), f"{what} is {got}, wanted {wanted}"
    error = np.max(np.nan_to_num(abs(got - wanted)), initial=0.0)
    scale = max(1.0, float(np.linalg.norm(np.nan_to_num(wanted))))
    assert error <= tolerance * scale, f"{what} is {got}, wanted {wanted}, {error / scale:.1e} apart"


def assert_agree(ours: Derivatives, theirs: Derivatives) -> None:
    assert_close("the value", ours.value, theirs.value, VALUE)
    for k, (got, wanted) in enumerate(zip(ours.gradient, theirs.gradient, strict=True)):
        assert_close(f"gradient {k}", got, wanted, GRADIENT)
    for k, (got, wanted) in enumerate(zip(ours.curvature, theirs.curvature, strict=True)):
        assert_close(f"Hessian-vector product {k}", got, wanted, CURVATURE)


def difference(program: RandomProgram, peer: Callable[[RandomProgram], Derivatives]) -> str | None:
    """Return how wiregrad and a peer differ on a program; None if they agree."""
    theirs = peer(program)
    try:
        ours = wiregrad_derivatives(program)
        assert_close("the value", ours.value, program.value, VALUE)
        assert_agree(ours, theirs)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def kind(found: str | None) -> str | None:
    """Return what sort of difference it is, so that shrinking does not wander off to another."""
    return found and " ".join(found.split()[:3])


def check(seed: int, peer: Callable[[RandomProgram], Derivatives]) -> None:
    program = random_program(seed)
    found = difference(program, peer)
    if found is None:
        return
    small = shrink_program(program, lambda smaller: kind(difference(smaller, peer)) == kind(found))
    pytest.fail(
        f"seed {seed}: {found}\n\nThe smallest program that differs so: {difference(small, peer)}\n{small}\n\n"
        f"drawn as\n{program}",
        pytrace=False,
    )


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_value_gradient_and_curvature_are_those_of_pytorch(seed: int) -> None:
    check(seed, torch_derivatives)


@pytest.mark.parametrize("seed", range(JAX_PROGRAMS))
def test_value_gradient_and_curvature_are_those_of_jax(seed: int) -> None:
    check(seed, jax_derivatives)


def test_every_entry_of_the_catalogue_is_drawn() -> None:
    counts = count_drawn_entries([random_program(seed) for seed in range(PROGRAMS)])
    names = {entry.name for group in CATALOGUE.values() for entry in group}

    assert names <= set(counts)
    assert min(counts[name] for name in names) >= 10


def test_programs_are_of_scalars_and_of_arrays_and_of_4_to_14_steps() -> None:
    programs = [random_program(seed) for seed in range(300)]
    scalar = [all(isinstance(x, float) for x in program.inputs.values()) for program in programs]
    ranks = Counter(np.ndim(x) for program in programs for x in program.inputs.values())

    assert all(4 <= len(program.steps) <= 16 for program in programs)
    assert 50 <= sum(scalar) <= 150
    assert set(ranks) == {0, 1, 2, 3}
