"""PyTorch functions imported as circuits: values and gradients by wiregrad's own rules, compared with PyTorch's.

Both agree to 1e-10 of the largest number. `DIFFERENCES` lists where a rule of wiregrad's differs on purpose, and
`ROUNDED_BY_PYTORCH` where PyTorch's own gradient is less exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import wiregrad as wg
from tests.peers.torch_cases import CASES, ROUNDED_BY_PYTORCH, TorchCase, X
from wiregrad.errors import BranchError, UnknownOpsError
from wiregrad.exchange.torch_import import write_name

TOLERANCE = 1e-10


def assert_close(ours: Any, theirs: Any, what: str, tolerance: float = TOLERANCE) -> None:
    """Compare arrays relative to the largest number; no gradient counts as 0."""
    b = np.zeros(()) if theirs is None else theirs.detach().numpy()
    a = np.zeros_like(b) if ours is None else np.asarray(ours)

    assert theirs is None or a.shape == b.shape, what
    assert np.max(np.abs(a - b), initial=0.0) <= tolerance * (1.0 + np.max(np.abs(b), initial=0.0)), what


def is_floating(arg: Any) -> bool:
    return isinstance(arg, Tensor) and arg.is_floating_point()


def differentiate(case: TorchCase) -> tuple[Tensor, dict[str, Tensor | None]]:
    """Return PyTorch's value of a case, and its gradient with respect to each parameter and argument."""
    # PyTorch has no gradient for the target of this loss; only the first argument has one there.
    count = 1 if case.name == "SoftMarginLoss" else len(case.arguments)
    copies = [
        arg.clone().requires_grad_(k < count) if is_floating(arg) else arg for k, arg in enumerate(case.arguments)
    ]
    result = case.function(*copies)
    leaves = {f"args_{k}": arg for k, arg in enumerate(copies) if isinstance(arg, Tensor) and arg.requires_grad}
    if isinstance(case.function, nn.Module):
        leaves |= {write_name(name): parameter for name, parameter in case.function.named_parameters()}
    gradients = torch.autograd.grad(result, list(leaves.values()), allow_unused=True)
    return result, dict(zip(leaves, gradients, strict=True))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_values_and_gradients_equal_those_of_pytorch(case: TorchCase) -> None:
    value, gradients = differentiate(case)
    run = wg.from_torch(case.function, *case.arguments).run()

    assert_close(run.output, value, "value")
    for name, gradient in gradients.items():
        assert_close(run.grads.get(name), gradient, name, ROUNDED_BY_PYTORCH.get(case.name, TOLERANCE))


TAKEN_BY_VALUE = {"index by a computed mask"}
"""Cases in which numbers decide which nodes there are: the circuit refuses a point where they would differ."""


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_circuits_hold_at_other_points(case: TorchCase) -> None:
    moved = [
        arg * (1.0 - 0.3 * (arg.flip(0) - arg).abs().clamp(max=1.0)) if is_floating(arg) else arg
        for arg in case.arguments
    ]
    circuit = wg.from_torch(case.function, *case.arguments)
    inputs = {f"args_{k}": arg.numpy() for k, arg in enumerate(moved) if f"args_{k}" in circuit.inputs}
    wanted = case.function(*moved)

    try:
        value = circuit(**inputs)
    except BranchError:
        assert case.name in TAKEN_BY_VALUE
    else:
        assert_close(value, wanted, case.name, 1e-9)


EXACT_SLOPES: dict[str, tuple[nn.Module | Callable[[Tensor], Tensor], float, float]] = {
    "Hardsigmoid": (nn.Hardsigmoid(), 0.3, 1 / 6),
    "CELU": (nn.CELU(0.7), -0.35, math.exp(-0.5)),
    "digamma": (torch.digamma, 1.0, math.pi**2 / 6),
}


@pytest.mark.parametrize("name", ROUNDED_BY_PYTORCH)
def test_gradients_are_exact_where_pytorch_rounds_them(name: str) -> None:
    function, point, slope = EXACT_SLOPES[name]
    circuit = wg.from_torch(function, torch.tensor(point, dtype=torch.float64))
    (gradient,) = circuit.run().grads.values()

    assert gradient == pytest.approx(slope, rel=1e-14)


TWICE = torch.tensor([1, 1])
DIFFERENCES: list[tuple[str, Callable[[Tensor], Tensor], list[float], list[float], list[float]]] = [
    ("blocked branch", lambda x: torch.where(x > 0, x.sqrt(), 0.0).sum(), [0.0, 4.0], [0.0, 0.25], [math.nan, 0.25]),
    ("tied maximum", lambda x: x.max(0).values, [2.0, 2.0], [0.5, 0.5], [1.0, 0.0]),
    ("on a bound", lambda x: x.clamp(min=1.0).sum(), [1.0, 2.0], [0.0, 1.0], [1.0, 1.0]),
    ("outside the domain", lambda x: x.log().sum(), [-1.0, 2.0], [math.nan, 0.5], [-1.0, 0.5]),
    (
        "repeated index",
        lambda x: torch.zeros(3).double().scatter(0, TWICE, x).sum(),
        [2.0, 3.0],
        [0.0, 1.0],
        [1.0, 1.0],
    ),
    ("replaced NaN", lambda x: torch.nan_to_num(x / x).sum(), [0.0, 2.0], [0.0, 0.0], [math.nan, 0.0]),
]
"""Functions whose gradients differ by a rule: (name, function, point, wiregrad's gradient, PyTorch's gradient)."""


@pytest.mark.parametrize("difference", [pytest.param(row[1:], id=row[0]) for row in DIFFERENCES])
def test_gradients_differ_by_the_rules_that_are_listed(difference: tuple[Any, ...]) -> None:
    function, point, ours, theirs = difference
    x = torch.tensor(point, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(function(x), x)
    circuit = wg.from_torch(function, x)

    np.testing.assert_allclose(gradient.numpy(), theirs, rtol=1e-12)
    np.testing.assert_allclose(circuit.run().grads["x"], ours, rtol=1e-12)


def write_through_data(x: Tensor) -> Tensor:
    y = x * 2
    y.data.add_(1)
    return (y * y).sum()


def write_a_part_through_data(x: Tensor) -> Tensor:
    y = x * 2
    y.data[0].mul_(3)
    return (y * y * y).sum()


def write_an_argument(x: Tensor) -> Tensor:
    y = x + 0
    y.mul_(x)
    return y.sum()


def detach_an_argument(x: Tensor) -> Tensor:
    still = x.detach()
    return (still * x + x.sin() + still).sum()


def conjugate_in_place(x: Tensor) -> Tensor:
    w = torch.complex(x, x.sin())
    v = w.conj()
    return (v * w * w).real.sum() + v.imag.sum()


def collect_states(x: Tensor) -> Tensor:
    states = torch.zeros(5, 4, dtype=torch.float64)
    state = x[0]
    for k in range(5):
        state = torch.tanh(state + x[k % 3])
        states[k] = state
    return (states * states).sum()


def checkpoint_a_part(x: Tensor) -> Tensor:
    return checkpoint(lambda t: (t.cos() * t).sum(), x, use_reentrant=False)


class SquareFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        return upstream * 2 * ctx.saved_tensors[0]


def apply_a_custom_function(x: Tensor) -> Tensor:
    return (SquareFunction.apply(x.sin()) * x).sum()


def penalize_the_gradient(x: Tensor) -> Tensor:
    y = (x**3).sum()
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)
    return (gradient * gradient).sum() + y


PROGRAMS = [
    write_through_data,
    write_a_part_through_data,
    write_an_argument,
    detach_an_argument,
    conjugate_in_place,
    collect_states,
    checkpoint_a_part,
    apply_a_custom_function,
    penalize_the_gradient,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_gradients_flow_where_autograd_lets_them(program: Callable[[Tensor], Tensor]) -> None:
    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(program(x), x)
    run = wg.from_torch(program, X).run()

    assert_close(run.output, program(x), "value")
    assert_close(run.grads["x"], gradient, "gradient")


def scale_by_numpy(x: Tensor) -> Tensor:
    return (x * float(x.detach().numpy().max())).sum()


def scale_by_list(x: Tensor) -> Tensor:
    return (x * torch.tensor(x.detach().tolist(), dtype=torch.float64)).sum()


def scale_by_item(x: Tensor) -> Tensor:
    return (x * x.max().item()).sum()


def scale_by_gradient(x: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad((x**3).sum(), x)
    return (gradient * x).sum()


def pick_by_mask(x: Tensor) -> Tensor:
    return x[x > 0.1].sum()


def branch_on_sum(x: Tensor) -> Tensor:
    return (x * 2).sum() if x.sum() > 0.0 else x.sum()


@pytest.mark.parametrize(
    "program",
    [scale_by_numpy, scale_by_list, scale_by_item, scale_by_gradient, pick_by_mask, branch_on_sum],
    ids=lambda program: program.__name__,
)
def test_numbers_that_leave_the_tensors_are_certified(program: Callable[[Tensor], Tensor]) -> None:
    circuit = wg.from_torch(program, X)

    assert circuit(x=X.numpy()) == pytest.approx(program(X.clone().requires_grad_()).item(), rel=1e-12)
    with pytest.raises(BranchError):
        circuit(x=-X.numpy())


class NumpySine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.from_numpy(np.sin(x.detach().numpy()))

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        return upstream * ctx.saved_tensors[0].cos()


def test_a_custom_function_that_computes_with_numpy_is_refused() -> None:
    with pytest.raises(UnknownOpsError, match="NumpySine, a custom function whose forward does not compute"):
        wg.from_torch(lambda x: (NumpySine.apply(x) * x).sum(), X)


LABELS = torch.tensor([[1, 2, -1, 0]] * 3)


def use_unknown_ops(x: Tensor) -> Tensor:
    loss = functional.multilabel_margin_loss(x, LABELS).sin()
    product = torch.linalg.householder_product(x.T[:, :3], x[0, :3])
    return loss + product.sum() + functional.multilabel_margin_loss(x * x, LABELS)


def test_unknown_ops_are_listed_at_once_with_counts_and_places() -> None:
    # PyTorch's own decomposition of the loss gives another value than PyTorch, so it is not used.
    with pytest.raises(UnknownOpsError) as raised:
        wg.from_torch(use_unknown_ops, X)
    first = use_unknown_ops.__code__.co_firstlineno
    lines = {name: [place.line - first for place in places] for name, places in raised.value.ops.items()}

    assert lines == {"aten.multilabel_margin_loss_forward": [1, 3], "aten.linalg_householder_product": [2]}
    assert "2 times" in str(raised.value)


def test_opaque_ops_have_the_value_and_gradient_of_pytorch() -> None:
    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(use_unknown_ops(x), x)
    circuit = wg.from_torch(use_unknown_ops, X, opaque=True)
    run = circuit.run()

    assert_close(run.output, use_unknown_ops(x), "value")
    assert_close(run.grads["x"], gradient, "gradient")
    assert circuit(x=X.numpy() * 0.7) == pytest.approx(use_unknown_ops(X * 0.7).item(), rel=1e-12)
    assert sum(node.op.name == "function" for node in circuit.nodes) == 3


def test_an_op_of_a_library_of_the_users_is_kept_whole() -> None:
    @torch.library.custom_op("wiregrad_tests::cube", mutates_args=())
    def cube(x: Tensor) -> Tensor:
        return x**3

    cube.register_autograd(
        lambda ctx, upstream: upstream * 3 * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    run = wg.from_torch(lambda x: cube(x).sum(), X, opaque=True).run()

    with pytest.raises(UnknownOpsError, match=r"wiregrad_tests\.cube"):
        wg.from_torch(lambda x: cube(x).sum(), X)
    assert_close(run.grads["x"], 3 * X**2, "gradient")


def test_arguments_in_containers_are_named_by_their_path() -> None:
    def function(p: dict[str, Any], power: int, *, offset: Tensor) -> Tensor:
        return (p["a"] * p["b"][0] ** power + offset).sum()

    circuit = wg.from_torch(function, {"a": X, "b": [X + 2]}, 3, offset=X)

    assert circuit.inputs == ("p_a", "p_b_0", "offset")
    assert circuit(offset=X.numpy() * 0) == pytest.approx(float((X * (X + 2) ** 3).sum()), rel=1e-12)


def test_several_results_are_outputs_of_their_own() -> None:
    circuit = wg.from_torch(lambda x: {"low": x.min(), "all": (x.sum(), x.max())}, X)
    named = wg.from_torch(lambda x: {"low": x.min(), "high": x.max()}, X)

    assert circuit.outputs == ("output[0]", "output[1]", "output[2]")
    assert named() == {"output.low": X.min().item(), "output.high": X.max().item()}


def test_a_function_that_returns_no_tensor_is_refused() -> None:
    with pytest.raises(wg.WiregradError, match="returned no tensor"):
        wg.from_torch(lambda x: None, X)


def test_a_row_that_is_masked_altogether_has_no_gradient() -> None:
    def attend(scores: Tensor) -> Tensor:
        return (torch.ops.aten._safe_softmax(scores, -1) * torch.tensor([1.0, 2.0])).sum()

    scores = torch.tensor([[0.5, 1.0], [-math.inf, -math.inf]], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(attend(scores), scores)

    assert_close(wg.from_torch(attend, scores).run().grads["scores"], gradient, "gradient")


def test_a_random_op_with_a_gradient_is_not_taken_for_numbers() -> None:
    with pytest.raises(UnknownOpsError, match=r"aten\.rrelu_with_noise"):
        wg.from_torch(lambda x: functional.rrelu(x, training=True).sum(), X)


def test_numbers_that_were_drawn_are_constants() -> None:
    def blur(x: Tensor) -> Tensor:
        return (functional.dropout(x, 0.5) * torch.rand_like(x)).sum()

    torch.manual_seed(1)
    circuit = wg.from_torch(blur, X)
    torch.manual_seed(1)
    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(blur(x), x)

    assert_close(circuit.run().grads["x"], gradient, "gradient")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_short_dtypes_are_imported(dtype: torch.dtype) -> None:
    def convert(x: Tensor) -> Tensor:
        return torch.view_as_real(x.to(dtype).to(torch.complex64)).sum()

    assert wg.from_torch(convert, torch.tensor([1.5, -2.0])).run().grads["x"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.cumsum(0),
        lambda x: x.max(0).values,
        lambda x: x.topk(1).values.sum(),
        lambda x: x.logsumexp(0),
        lambda x: x.index_select(0, torch.tensor([0])).sum(),
        lambda x: x.softmax(0) * x,
    ],
)
def test_a_tensor_without_axes_is_a_row_of_one(function: Callable[[Tensor], Tensor]) -> None:
    x = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(function(x), x)
    run = wg.from_torch(function, x).run()

    assert run.output == pytest.approx(function(x).item(), rel=1e-12)
    assert run.grads["x"] == pytest.approx(gradient.item(), rel=1e-12)


def test_arguments_in_a_tuple_are_answered_with_how_to_pass_them() -> None:
    with pytest.raises(TypeError) as caught:
        wg.from_torch(torch.nn.Linear(2, 1), (torch.ones(3, 2),))

    assert "takes the arguments one by one: wg.from_torch(f, x)" in caught.value.__notes__[0]


QUESTIONS_AT_A_POINT = {
    "root": (lambda t: (t**2).sum().sqrt(), torch.zeros(2)),
    "log of a softmax": (lambda t: torch.log(torch.softmax(t, -1))[0], torch.tensor([0.0, 95.0])),
    "array": (lambda t: t * torch.log(t), torch.tensor([0.0, 1.0])),
    "finite": (lambda t: torch.tanh(t).sum(), torch.tensor([0.5, 1.0])),
}
"""Functions, and the points where they are brought in."""


@pytest.mark.parametrize("name", QUESTIONS_AT_A_POINT)
def test_blame_of_an_imported_circuit_takes_the_values_of_its_point(name: str) -> None:
    function, tensor = QUESTIONS_AT_A_POINT[name]
    circuit = wg.from_torch(function, tensor)
    report = wg.blame(circuit)

    assert bool(report.origins) == (name != "finite")
    assert str(report) == str(wg.blame(circuit, t=tensor.numpy())) == str(wg.blame(circuit, tensor.numpy()))
    if name != "array":
        assert str(report) == str(circuit.run().blame())


def test_gradients_of_an_imported_model_are_checked_at_its_point() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.Tanh()).double()
    x = torch.ones(3, dtype=torch.float64)
    circuit = wg.from_torch(lambda x, m: m(x).sum(), x, model)

    assert len(circuit.inputs) == 3
    assert wg.check_grads(circuit).ok
    assert wg.check_grads(circuit, x=np.full(3, 0.5)).ok
