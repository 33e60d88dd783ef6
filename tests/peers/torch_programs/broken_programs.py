"""Broken PyTorch programs, as people write them, with the op, module and line at fault."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import wiregrad as wg

from .registry import ask_backward, ask_blame, ask_explain, ask_flow, collect_programs, watch_step

PROGRAMS, broken = collect_programs()


@broken(ask_blame, "sqrt", words=("sqrt sent back Inf", "at 0"))
def distance_of_equal_points() -> Any:
    x = torch.zeros(3, requires_grad=True)

    def loss() -> torch.Tensor:
        squares = (x**2).sum()
        return squares.sqrt()  # broken

    return watch_step(None, loss)


@broken(ask_blame, "sqrt", words=("0 times an infinite slope",))
def root_of_what_is_masked_afterwards() -> Any:
    w = torch.tensor([4.0, 0.0], requires_grad=True)

    def loss() -> torch.Tensor:
        root = torch.sqrt(w)  # broken
        return torch.where(w > 0, root, torch.zeros(())).sum()

    return watch_step(None, loss)


@broken(ask_blame, "log", "head", words=("log gave -Inf",))
def cross_entropy_by_hand() -> Any:
    class Head(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            p = torch.softmax(x, -1)
            return torch.log(p)  # broken

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 3)
            self.head = Head()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.fc(x) * 1000.0)

    torch.manual_seed(0)
    model = Model()
    return watch_step(model, lambda: -model(torch.ones(4, 2)).mean())


@broken(ask_blame, "mul", words=("NaN",))
def mask_that_multiplies_an_infinity() -> Any:
    scores = torch.tensor([1.0, 2.0], requires_grad=True)
    hidden = torch.tensor([False, True])

    def loss() -> torch.Tensor:
        masked = scores.masked_fill(hidden, float("-inf"))
        kept = masked * (~hidden).float()  # broken
        return kept.sum()

    return watch_step(None, loss)


@broken(ask_blame, "exp", words=("float16",))
def exponential_in_half_precision() -> Any:
    x = torch.tensor([1.0, 12.0], dtype=torch.float16, requires_grad=True)

    def loss() -> torch.Tensor:
        y = torch.exp(x)  # broken
        return y.float().sum()

    return watch_step(None, loss)


@broken(ask_blame, "exp", "", words=("exp gave Inf",))
def softplus_by_hand() -> Any:
    x = torch.tensor([1.0, 95.0], requires_grad=True)

    def loss() -> torch.Tensor:
        e = torch.exp(x)  # broken
        return torch.log(1 + e).sum()

    return watch_step(None, loss)


@broken(ask_blame, "div", "norm", words=("div gave NaN",))
def normalising_a_constant_row() -> Any:
    class Norm(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            centred = x - x.mean(-1, keepdim=True)
            return centred / x.std(-1, keepdim=True)  # broken

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = Norm()
            self.fc = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(self.norm(x))

    model = Model()
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 5.0, 5.0, 5.0]])
    return watch_step(model, lambda: model(x).sum())


@broken(ask_blame, "acos", words=("acos sent back", "at 1"))
def angle_between_equal_vectors() -> Any:
    a = torch.tensor([1.0, 0.0], requires_grad=True)
    b = torch.tensor([1.0, 0.0])

    def loss() -> torch.Tensor:
        cosine = (a * b).sum()
        return torch.acos(cosine)  # broken

    return watch_step(None, loss)


@broken(ask_blame, "pow", "scale", words=("pow sent back Inf",))
def power_below_one_at_zero() -> Any:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.tensor([0.0, 1.0]))

        def forward(self) -> torch.Tensor:
            return self.w**0.5  # broken

    model = nn.ModuleDict({"scale": Scale()})
    return watch_step(model, lambda: model["scale"]().sum())


@broken(ask_blame, "Reciprocal", "inverse", words=("the backward of Reciprocal",))
def custom_backward_that_divides_by_zero() -> Any:
    class Reciprocal(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return torch.where(x == 0, torch.zeros_like(x), 1 / x)

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return -g / (x * x)

    class Inverse(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Reciprocal.apply(x)  # broken

    model = nn.ModuleDict({"inverse": Inverse()})
    x = torch.tensor([0.0, 2.0], requires_grad=True)
    return watch_step(model, lambda: model["inverse"](x).sum())


@broken(ask_backward, "Scaled", words=("the backward of Scaled",))
def custom_backward_with_a_wrong_sign() -> Any:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, k: float) -> torch.Tensor:
            ctx.k = k
            return x * k

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> Any:
            return -g * ctx.k, None

    x = torch.randn(4, requires_grad=True)

    def loss() -> torch.Tensor:
        y = Scaled.apply(x, 3.0)  # broken
        return y.square().sum()

    return watch_step(None, loss)


@broken(ask_backward, "MeanLoss", words=("the backward of MeanLoss",))
def custom_backward_with_a_wrong_reduction() -> Any:
    class MeanLoss(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return (x * x).mean()

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return 2 * x * g

    model = nn.Linear(3, 2)
    return watch_step(model, lambda: MeanLoss.apply(model(torch.ones(5, 3))))  # broken


@broken(ask_backward, "Product", words=("the backward of Product",))
def custom_backward_with_swapped_gradients() -> Any:
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> Any:
            a, b = ctx.saved_tensors
            return g * a, g * b

    a = torch.tensor([1.0, 2.0], requires_grad=True)
    b = torch.tensor([3.0, 5.0], requires_grad=True)

    def loss() -> torch.Tensor:
        return Product.apply(a, b).sum()  # broken

    return watch_step(None, loss)


@broken(ask_backward, "NumpySine", words=("the backward of NumpySine",))
def custom_backward_of_a_numpy_function() -> Any:
    class NumpySine(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            import numpy as np

            ctx.save_for_backward(x)
            return torch.from_numpy(np.sin(x.detach().numpy()))

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return g * torch.sin(x)

    x = torch.tensor([0.3, 0.7], dtype=torch.float64, requires_grad=True)

    def loss() -> torch.Tensor:
        return NumpySine.apply(x).sum()  # broken

    return watch_step(None, loss)


@broken(ask_backward, "sigmoid", "gate", words=("mul_",))
def value_changed_through_data() -> Any:
    class Gate(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.sigmoid(x)  # broken
            y.data.mul_(0.5)  # second
            return y

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)
            self.gate = Gate()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.gate(self.fc(x))

    torch.manual_seed(0)
    model = Model()
    return watch_step(model, lambda: model(torch.randn(2, 3)).sum())


@broken(ask_blame, "exp", words=("exp", "mul_"))
def exponential_changed_in_place() -> Any:
    x = torch.tensor([0.5, 1.0], requires_grad=True)

    def loss() -> torch.Tensor:
        y = torch.exp(x)  # broken
        y.mul_(2.0)  # second
        return y.sum()

    return watch_step(None, loss)


@broken(ask_blame, "mul", words=("zero_",))
def factor_cleared_before_the_backward_pass() -> Any:
    x = torch.ones(3, requires_grad=True)
    factor = torch.full((3,), 2.0)

    def loss() -> torch.Tensor:
        y = x * factor  # broken
        factor.zero_()  # second
        return y.sum()

    return watch_step(None, loss)


@broken(ask_blame, "mm", "fc", words=("add_",))
def weight_updated_between_forward_and_backward() -> Any:
    model = nn.ModuleDict({"fc": nn.Linear(3, 3, bias=False)})
    x = torch.ones(2, 3, requires_grad=True)

    def loss() -> torch.Tensor:
        y = model["fc"](x)  # broken
        with torch.no_grad():
            model["fc"].weight.add_(0.1)  # second
        return y.sum()

    return watch_step(model, loss)


@broken(ask_explain("encoder.weight"), "detach", words=("detached",))
def encoder_used_through_data() -> Any:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Linear(3, 4)
            self.decoder = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            code = torch.relu(self.encoder(x))
            return self.decoder(code.data)  # broken

    model = Model()
    return watch_step(model, lambda: model(torch.ones(2, 3)).sum())


@broken(ask_explain("features.weight"), "addmm", "features", words=("no_grad",))
def features_computed_without_a_graph() -> Any:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Linear(3, 4)
            self.head = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                y = self.features(x)  # broken
            return self.head(y)

    model = Model()
    return watch_step(model, lambda: model(torch.ones(2, 3)).sum())


@broken(ask_explain("score.weight"), "argmax", words=("argmax has no derivative",))
def choice_by_argmax() -> Any:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score = nn.Linear(3, 4)
            self.table = nn.Embedding(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            best = self.score(x).argmax(-1)  # broken
            return self.table(best)

    torch.manual_seed(0)
    model = Model()
    return watch_step(model, lambda: model(torch.ones(2, 3)).sum())


@broken(ask_explain("scale"), "_local_scalar_dense", words=("Python number",))
def parameter_read_as_a_python_number() -> Any:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(2.0))
            self.fc = nn.Linear(3, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x) * self.scale.item()  # broken

    model = Model()
    return watch_step(model, lambda: model(torch.ones(2, 3)).sum())


@broken(ask_explain("second.weight"), "", words=("no op read second.weight",))
def layer_that_is_never_called() -> Any:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(3, 3)
            self.second = nn.Linear(3, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.first(self.first(x))

    model = Model()
    return watch_step(model, lambda: model(torch.ones(2, 3)).sum())


@broken(ask_explain("gate.weight"), "round", words=("round", "0"))
def rounding_that_stops_the_gradient() -> Any:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            g = torch.sigmoid(self.gate(x))
            return torch.round(g)  # broken

    model = Model()
    return watch_step(model, lambda: model(torch.ones(2, 3)).sum())


@broken(ask_flow("dead"), "relu", "act", words=("dead",))
def rectifier_that_is_dead() -> Any:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 8)
            self.act = nn.ReLU()
            self.head = nn.Linear(8, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.fc(x)
            h = self.act(h)  # broken
            return self.head(h)

    torch.manual_seed(0)
    model = Model()
    with torch.no_grad():
        model.fc.bias.fill_(-50.0)
    return watch_step(model, lambda: model(torch.randn(16, 4)).sum())


@broken(ask_flow("explodes"), "mm", words=("explodes",))
def recurrent_network_that_explodes() -> Any:
    torch.manual_seed(0)
    w = torch.nn.Parameter(torch.eye(4) * 3.0)

    def loss() -> torch.Tensor:
        h = torch.ones(2, 4, requires_grad=True)
        for _ in range(12):
            h = h @ w  # broken
        return h.sum()

    return watch_step(None, loss)


@broken(ask_flow("vanishes"), "sigmoid", "", words=("vanishes",))
def deep_sigmoids() -> Any:
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(10)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = torch.sigmoid(layer(x) * 4.0)  # broken
            return x

    torch.manual_seed(0)
    model = Deep()
    return watch_step(model, lambda: model(torch.randn(8, 6)).sum())


@broken(ask_flow("vanishes"), "tanh", "act", words=("vanishes",))
def saturated_tanh() -> Any:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.act = nn.Tanh()
            self.head = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.fc(x) * 8.0
            h = self.act(h)  # broken
            return self.head(h)

    torch.manual_seed(3)
    model = Model()
    with torch.no_grad():
        model.fc.bias.fill_(0.6)
        model.fc.weight.mul_(0.1)
    return watch_step(model, lambda: model(torch.randn(8, 4)).sum())


@broken(ask_flow("broadcast"), "sub", words=("all pairs",))
def column_minus_row() -> Any:
    model = nn.Linear(3, 1)
    x = torch.randn(8, 3)
    y = torch.randn(8)

    def loss() -> torch.Tensor:
        error = model(x) - y  # broken
        return (error**2).mean()

    return watch_step(model, loss)


@broken(ask_flow("broadcast"), "mse_loss", words=("all pairs",))
def loss_of_a_column_and_a_row() -> Any:
    model = nn.Linear(3, 1)
    x = torch.randn(8, 3)
    y = torch.randn(8)

    def loss() -> torch.Tensor:
        with warnings.catch_warnings(action="ignore"):
            return functional.mse_loss(model(x), y)  # broken

    return watch_step(model, loss)


@broken(ask_blame, "div", words=("div gave NaN",))
def mean_over_nothing() -> Any:
    x = torch.randn(4, requires_grad=True)

    def loss() -> torch.Tensor:
        kept = x[x > 100]
        return kept.sum() / torch.tensor(float(len(kept)))  # broken

    return watch_step(None, loss)


@broken(ask_blame, "mul", words=("float16",))
def loss_scale_that_overflows() -> Any:
    x = torch.tensor([300.0, 2.0], dtype=torch.float16, requires_grad=True)

    def loss() -> torch.Tensor:
        return (x * x).sum()  # broken

    return watch_step(None, loss)


@broken(ask_blame, "", words=("input x has NaN",))
def data_that_holds_nan() -> Any:
    model = nn.Linear(2, 1)
    x = torch.tensor([[1.0, float("nan")]])
    return watch_step(model, lambda: model(x).sum())  # broken


@broken(ask_explain("w"), "clamp", words=("clamp", "0"))
def parameter_outside_of_a_clamp() -> Any:
    w = torch.tensor([3.0, 4.0], requires_grad=True)

    def loss() -> torch.Tensor:
        bounded = torch.clamp(w, 0.0, 1.0)  # broken
        return bounded.sum()

    return watch_step(None, loss)


@broken(ask_blame, "log", "loss", words=("log gave -Inf",))
def third_step_of_a_training() -> Any:
    class Loss(nn.Module):
        def forward(self, w: torch.Tensor) -> torch.Tensor:
            return torch.log(functional.relu(w)).sum()  # broken

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.tensor([1.0]))
            self.loss = Loss()

        def forward(self) -> torch.Tensor:
            return self.loss(self.w)

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.6)
    with wg.watch(model) as seen:
        for _ in range(6):
            optimizer.zero_grad()
            model().backward()
            optimizer.step()
    return seen
