"""Whole PyTorch models with random weights, small enough to be imported in a test: one function each builds a model.

`MODELS` has them by name; `make_step(name)` returns a module that computes the loss of one batch, and its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class ResidualBlock(nn.Module):
    def __init__(self, channels: int, out: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        y = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        y += identity
        return functional.relu(y)


class ResNet(nn.Module):
    """ResNet-18 with narrow layers: a stem, four stages of two blocks, a linear head."""

    def __init__(self, width: int = 4, classes: int = 5) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        self.layers = nn.ModuleList(
            nn.Sequential(ResidualBlock(a, b, 1 if k == 0 else 2), ResidualBlock(b, b))
            for k, (a, b) in enumerate(pairwise(widths))
        )
        self.fc = nn.Linear(widths[-1], classes)

    def forward(self, image: Tensor, label: Tensor) -> Tensor:
        x = self.maxpool(functional.relu(self.bn1(self.conv1(image))))
        for layer in self.layers:
            x = layer(x)
        x = torch.flatten(functional.adaptive_avg_pool2d(x, 1), 1)
        return functional.cross_entropy(self.fc(x), label)


class CausalAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, length, width))


class GptBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = CausalAttention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """A causal language model with tied embeddings."""

    def __init__(self, vocabulary: int = 11, length: int = 6, width: int = 8, heads: int = 2, blocks: int = 2) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(GptBlock(width, heads) for _ in range(blocks))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens[:, :-1]) + self.wpe(torch.arange(tokens.shape[1] - 1))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


class UNet(nn.Module):
    """Two levels down and up with skip connections, transposed convolutions and group norm."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.down1 = self._make_block(1, width)
        self.down2 = self._make_block(width, 2 * width)
        self.middle = self._make_block(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.join2 = self._make_block(4 * width, 2 * width)
        self.up1 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.join1 = self._make_block(3 * width, width)
        self.out = nn.Conv2d(width, 1, 1)

    def _make_block(self, channels: int, out: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(channels, out, 3, padding=1), nn.GroupNorm(2, out), nn.SiLU())

    def forward(self, image: Tensor, mask: Tensor) -> Tensor:
        a = self.down1(image)
        b = self.down2(functional.max_pool2d(a, 2))
        c = self.middle(functional.max_pool2d(b, 2))
        b = self.join2(torch.cat([b, self.up2(c)], 1))
        a = self.join1(torch.cat([a, self.up1(b)], 1))
        return functional.binary_cross_entropy_with_logits(self.out(a), mask)


class Vae(nn.Module):
    """A variational autoencoder; its noise is drawn in the forward pass."""

    def __init__(self, size: int = 12, hidden: int = 8, latent: int = 3) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(size, hidden), nn.Tanh(), nn.Linear(hidden, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ELU(), nn.Dropout(0.2), nn.Linear(hidden, size))

    def forward(self, x: Tensor) -> Tensor:
        mean, log_variance = self.encoder(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        reconstruction = functional.mse_loss(self.decoder(z), x, reduction="sum")
        divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum()
        return (reconstruction + divergence) / len(x)


class Tagger(nn.Module):
    """An LSTM in both directions that gives each word a tag."""

    def __init__(self, words: int = 13, width: int = 5, hidden: int = 4, tags: int = 3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.lstm = nn.LSTM(width, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.tag = nn.Linear(2 * hidden, tags)

    def forward(self, words: Tensor, tags: Tensor) -> Tensor:
        states, _ = self.lstm(self.embedding(words))
        scores = self.tag(states)
        return functional.cross_entropy(scores.flatten(0, 1), tags.flatten(), ignore_index=-1)


class GraphNetwork(nn.Module):
    """Two rounds of messages along edges with attention, and a mean over the nodes of each graph."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.embed = nn.Linear(3, width)
        self.messages = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(2))
        self.scores = nn.ModuleList(nn.Linear(width, 1) for _ in range(2))
        self.updates = nn.ModuleList(nn.GRUCell(width, width) for _ in range(2))
        self.out = nn.Linear(width, 1)

    def forward(self, features: Tensor, edges: Tensor, graph: Tensor, target: Tensor) -> Tensor:
        x = functional.relu(self.embed(features))
        source, sink = edges
        for message, score, update in zip(self.messages, self.scores, self.updates, strict=True):
            sent = torch.tanh(message(torch.cat([x[source], x[sink]], -1)))
            weight = score(sent).squeeze(-1).exp()
            total = torch.zeros(len(x), dtype=x.dtype).index_add_(0, sink, weight)
            share = weight / (total[sink] + 1e-6)
            inbox = torch.zeros_like(x).scatter_add(0, sink[:, None].expand_as(sent), share[:, None] * sent)
            x = update(inbox, x)
        count = torch.zeros(2, dtype=x.dtype).index_add_(0, graph, torch.ones(len(x), dtype=x.dtype))
        pooled = torch.zeros(2, x.shape[1], dtype=x.dtype).index_add(0, graph, x) / count[:, None]
        return functional.smooth_l1_loss(self.out(pooled).squeeze(-1), target)


def _draw(*shape: int) -> Tensor:
    return torch.randn(*shape)


def _graph_batch() -> tuple[Tensor, ...]:
    edges = torch.tensor([[0, 1, 2, 3, 1, 4, 5, 6], [1, 2, 0, 1, 3, 5, 6, 4]])
    return _draw(7, 3), edges, torch.tensor([0, 0, 0, 0, 1, 1, 1]), _draw(2)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Any, ...]]]] = {
    "ResNet": (ResNet, lambda: (_draw(4, 3, 64, 64), torch.tensor([1, 3, 0, 2]))),
    "GPT": (Gpt, lambda: (torch.randint(11, (2, 7)),)),
    "U-Net": (UNet, lambda: (_draw(1, 1, 16, 16), torch.rand(1, 1, 16, 16).round())),
    "VAE": (Vae, lambda: (_draw(4, 12),)),
    "LSTM tagger": (Tagger, lambda: (torch.randint(1, 13, (2, 5)), torch.tensor([[0, 1, 2, 0, -1], [2, 1, 1, 0, 0]]))),
    "graph network": (GraphNetwork, _graph_batch),
}


def make_step(name: str, dtype: torch.dtype = torch.float32) -> tuple[nn.Module, tuple[Any, ...]]:
    """Return a model with random weights that computes a loss, and the arguments to call it with."""
    torch.manual_seed(0)
    build_model, draw_batch = MODELS[name]
    model = build_model().to(dtype)
    batch = tuple(part.to(dtype) if part.is_floating_point() else part for part in draw_batch())
    return model, batch
