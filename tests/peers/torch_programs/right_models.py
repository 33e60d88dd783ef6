"""Small models that are right: nothing in them is to be accused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

MODELS: dict[str, Callable[[], tuple[nn.Module, Callable[[], Any]]]] = {}


def model(
    build: Callable[[], tuple[nn.Module, Callable[[], Any]]],
) -> Callable[[], tuple[nn.Module, Callable[[], Any]]]:
    """Add a function that returns a model, and a function that computes its loss."""
    MODELS[build.__name__] = build
    return build


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.norm(self.first(x)), inplace=True)
        y = self.second(y)
        y += x
        return functional.relu(y)


@model
def residual_network() -> tuple[nn.Module, Callable[[], Any]]:
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2), Residual(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 5),
    )  # fmt: skip
    x = torch.randn(4, 3, 12, 12)
    y = torch.tensor([0, 1, 2, 3])
    return net, lambda: functional.cross_entropy(net(x), y)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.before = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.after = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.before(x)
        mask = torch.triu(torch.full((x.shape[1], x.shape[1]), float("-inf")), diagonal=1)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.after(x))


class Transformer(nn.Module):
    def __init__(self, width: int = 16, words: int = 11, *, recompute: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(2)])
        self.head = nn.Linear(width, words, bias=False)
        self.recompute = recompute

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.table(words)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return self.head(x)


@model
def transformer() -> tuple[nn.Module, Callable[[], Any]]:
    net = Transformer()
    words = torch.randint(0, 11, (3, 7))
    return net, lambda: functional.cross_entropy(net(words).flatten(0, 1), words.flatten())


@model
def checkpointed_transformer() -> tuple[nn.Module, Callable[[], Any]]:
    net = Transformer(recompute=True)
    words = torch.randint(0, 11, (3, 7))
    return net, lambda: functional.cross_entropy(net(words).flatten(0, 1), words.flatten())


@model
def network_under_autocast() -> tuple[nn.Module, Callable[[], Any]]:
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
    x = torch.randn(6, 8)

    def loss() -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return net(x).float().square().mean()

    return net, loss


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 6)
        self.lstm = nn.LSTM(6, 5, batch_first=True, bidirectional=True)
        self.head = nn.Linear(10, 4)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.table(words))[0])


@model
def lstm_tagger() -> tuple[nn.Module, Callable[[], Any]]:
    net = Tagger()
    words = torch.randint(0, 9, (2, 6))
    tags = torch.randint(0, 4, (2, 6))
    return net, lambda: functional.cross_entropy(net(words).flatten(0, 1), tags.flatten())


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(6, 8)
        self.decoder = nn.Linear(4, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean, log_variance = self.encoder(x).chunk(2, -1)
        code = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(-1).mean()
        return functional.mse_loss(torch.sigmoid(self.decoder(code)), x) + divergence


@model
def variational_autoencoder() -> tuple[nn.Module, Callable[[], Any]]:
    net = Autoencoder()
    x = torch.rand(5, 6)
    return net, lambda: net(x)


class Messages(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.message = nn.Linear(4, 4)
        self.update = nn.GRUCell(4, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            received = torch.zeros_like(x).index_add_(0, targets, self.message(x[sources]))
            x = self.update(received, x)
        return self.head(x.amax(0))


@model
def graph_network() -> tuple[nn.Module, Callable[[], Any]]:
    net = Messages()
    x = torch.randn(6, 4)
    sources = torch.tensor([0, 1, 2, 3, 4, 5, 0, 2])
    targets = torch.tensor([1, 2, 3, 4, 5, 0, 3, 5])
    return net, lambda: net(x, sources, targets).sum()


class RightSquare(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * g


class RightRectifier(torch.autograd.Function):
    """At 0 its slope is 1, where PyTorch takes 0: either side of a kink is right."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.clamp_min(0.0)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return torch.where(x >= 0, g, torch.zeros_like(g))


@model
def custom_functions_that_are_right() -> tuple[nn.Module, Callable[[], Any]]:
    net = nn.Linear(3, 4)
    with torch.no_grad():
        net.weight[0] = 0.0
        net.bias[0] = 0.0
    x = torch.randn(5, 3)
    return net, lambda: RightRectifier.apply(RightSquare.apply(net(x)) - RightSquare.apply(net(x))[:, :1]).sum()


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.middle = nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU(), nn.Conv2d(4, 4, 3, padding=1))
        self.up = nn.ConvTranspose2d(4, 4, 2, stride=2)
        self.out = nn.Conv2d(5, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.up(self.middle(self.down(x)))
        y = functional.interpolate(y, scale_factor=0.5)
        y = functional.interpolate(y, size=x.shape[-2:], mode="bilinear")
        return self.out(torch.cat([x, y], 1))


@model
def u_shaped_network() -> tuple[nn.Module, Callable[[], Any]]:
    net = UNet()
    x = torch.randn(2, 1, 8, 8)
    return net, lambda: functional.smooth_l1_loss(net(x), x)


@model
def views_written_in_place() -> tuple[nn.Module, Callable[[], Any]]:
    net = nn.Linear(4, 4)
    x = torch.randn(3, 4)

    def loss() -> Any:
        y = net(x).clone()
        y[0].mul_(2.0)
        y[:, 1] += 1.0
        y.view(-1)[::2] *= 3.0
        return y.sum() + (y[1] ** 2).sum()

    return net, loss
