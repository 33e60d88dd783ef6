"""PyTorch code to import: one case per module or function, with float64 arguments and one number as its result.

A case is a function of tensors, or a module and its arguments. What it returns is weighted and summed, so that every
element of the result has a gradient of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class TorchCase:
    """A function or module, and the arguments to call it with."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def draw(*shape: int, low: float = -1.0, high: float = 1.0) -> Tensor:
    """Return numbers without ties between two bounds, which are the same at every run."""
    generator = torch.Generator().manual_seed(17 + sum((k + 3) * n for k, n in enumerate(shape)))
    return low + (high - low) * torch.rand(*shape, generator=generator, dtype=torch.float64)


def draw_classes(*shape: int, below: int = 4) -> Tensor:
    """Return whole numbers from 0 on."""
    generator = torch.Generator().manual_seed(5 + sum(shape))
    return torch.randint(below, shape, generator=generator)


def make_definite(n: int) -> Tensor:
    """Return a symmetric positive definite matrix."""
    a = draw(n, n)
    return a @ a.T + n * torch.eye(n, dtype=torch.float64)


def weigh(result: Any) -> Tensor:
    """Make one number of the real, floating tensors in a result."""
    parts = [result] if isinstance(result, Tensor) else list(flatten(result))
    numbers = [torch.view_as_real(part) if part.is_complex() else part for part in parts]
    total = torch.zeros((), dtype=torch.float64)
    for part in numbers:
        if part.is_floating_point():
            weights = torch.linspace(0.5, 1.5, part.numel(), dtype=torch.float64).reshape(part.shape)
            total = total + (weights * part).sum()
    return total


def flatten(result: Any) -> Any:
    """Yield the tensors of nested tuples and lists."""
    for part in result:
        if isinstance(part, Tensor):
            yield part
        elif isinstance(part, tuple | list):
            yield from flatten(part)


class Weighed(nn.Module):
    """A module whose results are made one number; its parameters keep their names below `body`."""

    def __init__(self, body: nn.Module, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.body = body.double()
        self.options = options
        for parameter in self.body.parameters():
            nn.init.uniform_(parameter, -0.6, 0.7)

    def forward(self, *args: Any) -> Tensor:
        return weigh(self.body(*args, **self.options))


def _layer(name: str, body: nn.Module, *arguments: Any, **options: Any) -> TorchCase:
    return TorchCase(name, Weighed(body, **options), arguments)


def _function(name: str, function: Callable[..., Any], *arguments: Any) -> TorchCase:
    def weighed(*args: Any) -> Tensor:
        return weigh(function(*args))

    return TorchCase(name, weighed, arguments)


def _train(body: nn.Module) -> nn.Module:
    return body.train()


X = draw(3, 4)
IMAGE = draw(2, 3, 8, 8)
SIGNAL = draw(2, 4, 10)
SEQUENCE = draw(2, 5, 8)
TOKENS = draw_classes(2, 5, below=7)

LAYERS = [
    _layer("Linear", nn.Linear(4, 5), X),
    _layer("Linear without bias", nn.Linear(4, 5, bias=False), SEQUENCE[..., :4]),
    _layer("Bilinear", nn.Bilinear(4, 3, 2), X, draw(3, 3)),
    _layer("Conv1d", nn.Conv1d(4, 6, 3, padding=1), SIGNAL),
    _layer("Conv2d", nn.Conv2d(3, 4, 3, stride=2, padding=1), IMAGE),
    _layer("Conv2d, groups and dilation", nn.Conv2d(4, 8, 3, dilation=2, groups=2), draw(2, 4, 9, 9)),
    _layer("Conv2d, padding same", nn.Conv2d(3, 4, 3, padding="same"), IMAGE),
    _layer("Conv3d", nn.Conv3d(2, 3, 2), draw(1, 2, 4, 4, 4)),
    _layer("ConvTranspose1d", nn.ConvTranspose1d(4, 3, 3, stride=2), SIGNAL),
    _layer("ConvTranspose2d", nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1), IMAGE),
    _layer("BatchNorm1d in training", _train(nn.BatchNorm1d(4)), X),
    _layer("BatchNorm2d in training", _train(nn.BatchNorm2d(3)), IMAGE),
    _layer("BatchNorm2d in evaluation", nn.BatchNorm2d(3).eval(), IMAGE),
    _layer("InstanceNorm2d", nn.InstanceNorm2d(3, affine=True), IMAGE),
    _layer("LayerNorm", nn.LayerNorm(8), SEQUENCE),
    _layer("LayerNorm over two axes", nn.LayerNorm((5, 8)), SEQUENCE),
    _layer("GroupNorm", nn.GroupNorm(2, 4), draw(2, 4, 3, 3)),
    _layer("RMSNorm", nn.RMSNorm(8), SEQUENCE),
    _layer("LocalResponseNorm", nn.LocalResponseNorm(2), IMAGE),
    _layer("Embedding", nn.Embedding(7, 3), TOKENS),
    _layer("Embedding with padding", nn.Embedding(7, 3, padding_idx=2), TOKENS),
    _layer("EmbeddingBag", nn.EmbeddingBag(7, 3, mode="mean"), TOKENS),
    _layer("MaxPool1d", nn.MaxPool1d(2), SIGNAL),
    _layer("MaxPool2d", nn.MaxPool2d(3, stride=2, padding=1), IMAGE),
    _layer("AvgPool2d", nn.AvgPool2d(2), IMAGE),
    _layer("AvgPool2d with padding", nn.AvgPool2d(3, padding=1, count_include_pad=False), IMAGE),
    _layer("AdaptiveAvgPool2d", nn.AdaptiveAvgPool2d(1), IMAGE),
    _layer("AdaptiveAvgPool2d, uneven", nn.AdaptiveAvgPool2d((3, 5)), IMAGE),
    _layer("AdaptiveMaxPool2d", nn.AdaptiveMaxPool2d(2), IMAGE),
    _layer("Upsample nearest", nn.Upsample(scale_factor=2), IMAGE),
    _layer("Upsample bilinear", nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE),
    _layer("PixelShuffle", nn.PixelShuffle(2), draw(1, 4, 3, 3)),
    _layer("ReflectionPad2d", nn.ReflectionPad2d(1), IMAGE),
    _layer("ReplicationPad1d", nn.ReplicationPad1d(2), SIGNAL),
    _layer("ZeroPad2d", nn.ZeroPad2d((1, 2, 0, 1)), IMAGE),
    _layer("Flatten and Unflatten", nn.Sequential(nn.Flatten(), nn.Unflatten(1, (2, 2))), X),
    _layer("Dropout in evaluation", nn.Dropout().eval(), X),
    _layer("PReLU", nn.PReLU(4), X),
    _layer("RNN", nn.RNN(8, 6, num_layers=2, batch_first=True), SEQUENCE),
    _layer("RNN with relu", nn.RNN(8, 6, nonlinearity="relu"), SEQUENCE),
    _layer("LSTM", nn.LSTM(8, 6, num_layers=2, batch_first=True, bidirectional=True), SEQUENCE),
    _layer("LSTM with projection", nn.LSTM(8, 6, proj_size=3), SEQUENCE),
    _layer("GRU", nn.GRU(8, 6, num_layers=2), SEQUENCE),
    _layer("LSTMCell", nn.LSTMCell(4, 3), X),
    _layer("GRUCell", nn.GRUCell(4, 3), X),
    _layer("MultiheadAttention", nn.MultiheadAttention(8, 2, batch_first=True), SEQUENCE, SEQUENCE, SEQUENCE),
    _layer("TransformerEncoderLayer", nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True), SEQUENCE),
    _layer("TransformerDecoderLayer", nn.TransformerDecoderLayer(8, 2, 12, dropout=0.0), SEQUENCE, SEQUENCE + 0.3),
    _layer("CosineSimilarity", nn.CosineSimilarity(), X, draw(3, 4, low=0.2)),
]

ACTIVATIONS = [
    _layer(type(body).__name__, body, X)
    for body in (
        nn.ReLU(),
        nn.ReLU6(),
        nn.LeakyReLU(0.1),
        nn.ELU(),
        nn.SELU(),
        nn.CELU(0.7),
        nn.GELU(),
        nn.SiLU(),
        nn.Mish(),
        nn.Softplus(),
        nn.Softsign(),
        nn.Sigmoid(),
        nn.Tanh(),
        nn.Hardtanh(-0.4, 0.5),
        nn.Hardsigmoid(),
        nn.Hardswish(),
        nn.Hardshrink(),
        nn.Softshrink(0.2),
        nn.Tanhshrink(),
        nn.LogSigmoid(),
        nn.Threshold(0.1, -0.2),
        nn.Softmax(-1),
        nn.LogSoftmax(0),
        nn.Softmin(-1),
        nn.GLU(),
    )
] + [_layer("GELU with tanh", nn.GELU("tanh"), X)]

CTC_TEXTS = torch.tensor([[1, 2], [3, 3]])
PROBABILITIES = draw(3, 4, low=0.05, high=0.95)
LOSSES = [
    _layer("MSELoss", nn.MSELoss(), X, draw(3, 4, low=0.0)),
    _layer("L1Loss", nn.L1Loss(), X, draw(3, 4, low=0.0)),
    _layer("SmoothL1Loss", nn.SmoothL1Loss(beta=0.4), X, draw(3, 4, low=0.0)),
    _layer("HuberLoss", nn.HuberLoss(delta=0.4), X, draw(3, 4, low=0.0)),
    _layer("CrossEntropyLoss", nn.CrossEntropyLoss(), X, draw_classes(3)),
    _layer("CrossEntropyLoss, smoothed", nn.CrossEntropyLoss(label_smoothing=0.1), X, draw_classes(3)),
    _layer("CrossEntropyLoss, ignored class", nn.CrossEntropyLoss(ignore_index=1), draw(6, 4), draw_classes(6)),
    _layer("CrossEntropyLoss of images", nn.CrossEntropyLoss(), draw(2, 4, 3, 3), draw_classes(2, 3, 3)),
    _layer("CrossEntropyLoss of probabilities", nn.CrossEntropyLoss(), X, draw(3, 4).softmax(-1)),
    _layer("NLLLoss with weights", nn.NLLLoss(draw(4, low=0.5, high=1.5)), X, draw_classes(3)),
    _layer("BCELoss", nn.BCELoss(), PROBABILITIES, PROBABILITIES.flip(0)),
    _layer("BCEWithLogitsLoss", nn.BCEWithLogitsLoss(), X, PROBABILITIES),
    _layer("KLDivLoss", nn.KLDivLoss(reduction="batchmean"), X.log_softmax(-1), PROBABILITIES),
    _layer("PoissonNLLLoss", nn.PoissonNLLLoss(), X, PROBABILITIES),
    _layer("GaussianNLLLoss", nn.GaussianNLLLoss(), X, PROBABILITIES, PROBABILITIES + 0.3),
    _layer("HingeEmbeddingLoss", nn.HingeEmbeddingLoss(), X, X.sign()),
    _layer("MarginRankingLoss", nn.MarginRankingLoss(0.3), X, X.flip(0), X.sign()),
    _layer("SoftMarginLoss", nn.SoftMarginLoss(), X, X.sign()),
    _layer("MultiMarginLoss", nn.MultiMarginLoss(), X, draw_classes(3)),
    _layer("TripletMarginLoss", nn.TripletMarginLoss(), X, X.flip(0), draw(3, 4, low=0.2)),
    _layer("CosineEmbeddingLoss", nn.CosineEmbeddingLoss(0.1), X, X.flip(0), torch.tensor([1.0, -1.0, 1.0]).double()),
    # PyTorch's backward of this loss is right only behind log_softmax.
    _function("CTCLoss", lambda x: functional.ctc_loss(x.log_softmax(-1), CTC_TEXTS, (6, 5), (2, 2)), draw(6, 2, 4)),
]

MASK = torch.tensor([[True, False, True, True], [False, False, True, True], [True, True, False, True]])
INDEXING = [
    _function("basic index", lambda x: x[1:, ::2] * x[0, 1], X),
    _function("index of whole numbers", lambda x: x[torch.tensor([0, 2, 2]), torch.tensor([1, 1, 3])], X),
    _function("index on one axis", lambda x: x[:, torch.tensor([3, 0, 0])], X),
    _function("index by a mask", lambda x: x[MASK], X),
    _function("index by a computed mask", lambda x: x[x > 0.1], X),
    _function("index_select", lambda x: x.index_select(1, torch.tensor([2, 2, 0])), X),
    _function("gather", lambda x: x.gather(1, torch.tensor([[0, 0], [3, 1], [2, 2]])), X),
    _function("scatter", lambda x, v: x.scatter(1, torch.tensor([[0, 2], [3, 1], [2, 0]]), v), X, draw(3, 2)),
    _function("scatter_add", lambda x, v: x.scatter_add(0, torch.tensor([[0, 0, 2, 1]]), v), X, draw(1, 4)),
    _function("scatter_reduce mean", lambda x, v: x.scatter_reduce(0, TOKENS[:, :4] % 3, v, "mean"), X, draw(2, 4)),
    _function("index_add", lambda x, v: x.index_add(0, torch.tensor([2, 0, 2]), v, alpha=0.5), X, draw(3, 4) + 1),
    _function("index_put", lambda x, v: x.index_put((torch.tensor([0, 2]),), v), X, draw(2, 4)),
    _function("index_put, added", lambda x, v: x.index_put((TOKENS[0, :2] % 3,), v, accumulate=True), X, draw(2, 4)),
    _function("masked_fill", lambda x: x.masked_fill(MASK, 0.25) * x, X),
    _function("masked_select", lambda x: x.masked_select(MASK), X),
    _function("masked_scatter", lambda x, v: x.masked_scatter(MASK, v), X, draw(12)),
    _function("where", lambda x: torch.where(x > 0, x.sin(), 2.0 * x), X),
    _function("take", lambda x: x.take(torch.tensor([[0, 5], [11, 5]])), X),
    _function("take_along_dim", lambda x: x.take_along_dim(x.argsort(1), 1), X),
    _function("topk", lambda x: x.topk(2, dim=1).values, X),
    _function("sort", lambda x: x.sort(dim=0, descending=True).values, X),
    _function("max with indices", lambda x: x.max(dim=1).values, X),
    _function("median", lambda x: x.median(dim=1).values, X),
    _function("unfold", lambda x: x.unfold(1, 3, 1), X),
    _function("im2col", lambda x: functional.unfold(x, 3, padding=1), IMAGE),
    _function("col2im", lambda x: functional.fold(x, (4, 4), 2), draw(1, 8, 9)),
    _function("roll, flip and rot90", lambda x: x.roll(1, 0) + x.flip(1) + x.rot90(2), X),
    _function("tril and triu", lambda x: x.tril(1) - 2 * x.triu(), X),
    _function("diagonal and diag_embed", lambda x: torch.diag_embed(x) * x.diagonal().sum(), X),
    _function("as_strided", lambda x: x.as_strided((2, 3), (1, 4), 1), X),
    _function("cat, stack and split", lambda x: torch.cat([torch.stack(x.split(2, 1)).sum(0), x], 1), X),
    _function("chunk and unbind", lambda x: x.chunk(2, 1)[1] * x.unbind(1)[0][:, None], X),
    _function("repeat and tile", lambda x: x.repeat(2, 1, 2).sum(0) * x.tile(1, 2).repeat_interleave(1, 0), X),
    _function("repeat_interleave", lambda x: x.repeat_interleave(torch.tensor([1, 0, 2]), 0), X),
    _function("meshgrid", lambda x: torch.meshgrid(x[0], x[1], indexing="ij"), X),
    _function("pad, circular", lambda x: functional.pad(x, (1, 2), mode="circular"), SIGNAL),
    _function("grid_sample", lambda x, g: functional.grid_sample(x, g, align_corners=False), IMAGE, draw(2, 4, 4, 2)),
]


def _join_svd(a: Tensor) -> Tensor:
    u, s, v = torch.linalg.svd(a, full_matrices=False)
    return (u * s) @ v + u @ v


ALGEBRA = [
    _function("einsum of two", lambda a, b: torch.einsum("bij,bjk->bik", a, b), draw(2, 3, 4), draw(2, 4, 2)),
    _function("einsum of three", lambda a, b: torch.einsum("ij,jk,kl->il", a, b, a), X, draw(4, 3)),
    _function("einsum, diagonal", lambda a: torch.einsum("ii->i", a[:, :3]), X),
    _function("matmul of vectors", lambda a: a[0] @ a[1] + (a @ a[0]).sum(), X),
    _function("bmm and baddbmm", lambda a, b: torch.baddbmm(a @ b, a, b, alpha=0.5), draw(2, 3, 4), draw(2, 4, 3)),
    _function("addmm and addmv", lambda a: torch.addmm(a.T @ a, a.T, a, beta=0.3) @ a[0], X),
    _function("outer, dot and kron", lambda a: torch.kron(a.outer(a), a[None]) * a.dot(a), X[0]),
    _function("tensordot", lambda a, b: torch.tensordot(a, b, dims=([1], [2])), X, draw(2, 3, 4)),
    _function("cdist", torch.cdist, X, draw(2, 4) + 1),
    _function("inv and det", lambda a: torch.linalg.inv(a) * torch.linalg.det(a), make_definite(3)),
    _function("slogdet", lambda a: torch.linalg.slogdet(a).logabsdet, make_definite(3)),
    _function("solve", torch.linalg.solve, make_definite(3), X),
    _function("triangular solve", lambda a, b: torch.linalg.solve_triangular(a, b, upper=False), make_definite(3), X),
    _function("cholesky", torch.linalg.cholesky, make_definite(3)),
    _function("cholesky_solve", lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(a)), make_definite(3), X),
    _function("qr", torch.linalg.qr, X.T),
    _function("svd values", torch.linalg.svdvals, X),
    _function("svd", _join_svd, X),
    _function("eigh", lambda a: torch.linalg.eigh(a).eigenvalues, make_definite(3)),
    _function("eigvals", lambda a: torch.linalg.eigvals(a).abs(), make_definite(3) + 0.1 * torch.eye(3).flip(0)),
    _function("pinv", torch.linalg.pinv, X),
    _function("lstsq", lambda a, b: torch.linalg.lstsq(a, b).solution, X.T, draw(4, 2)),
    _function("matrix_exp", torch.linalg.matrix_exp, X[:, :3]),
    _function("matrix_power", lambda a: torch.linalg.matrix_power(a[:, :3], 3), X),
    _function("norms", lambda a: a.norm() + a.norm(1) + torch.linalg.vector_norm(a, 3, dim=0).sum(), X),
    _function("matrix norms", lambda a: torch.linalg.matrix_norm(a) + torch.linalg.matrix_norm(a, "nuc"), X),
    _function("cross and trace", lambda a: torch.linalg.cross(a[:, :3], a[:, 1:]) * a.trace(), X),
    _function("fft", lambda a: torch.fft.fft(a, norm="ortho"), X),
    _function("rfft and irfft", lambda a: torch.fft.irfft(torch.fft.rfft(a) * (1 + 2j), n=4), X),
    _function("fft2 and ifft2", lambda a: torch.fft.ifft2(torch.fft.fft2(a).abs() * (2 - 1j)), X),
    _function("fftshift", lambda a: torch.fft.fftshift(torch.fft.rfft2(a)), X),
    _function(
        "stft", lambda a: torch.stft(a, 8, 4, window=torch.hann_window(8).double(), return_complex=True), draw(24)
    ),
    _function("complex numbers", lambda a: (torch.complex(a, a.sin()) * torch.polar(a.exp(), a)).angle(), X),
]

POSITIVE = draw(3, 4, low=0.1, high=2.0)
POINTWISE = [
    _function("exp and log", lambda x: x.exp().log1p() + x.expm1() + x.log2() * x.log10() + x.exp2(), POSITIVE),
    _function("powers", lambda x: x**2 + x**-1.5 + 2.0**x + x**x + x.square() + x.sqrt() + x.rsqrt(), POSITIVE),
    _function("trigonometry", lambda x: x.sin() * x.cos() + x.tan() + x.asin() + x.acos() + x.atan(), X),
    _function("hyperbolic", lambda x: x.sinh() + x.cosh() * x.asinh() + (x * 0.9).atanh() + (x + 3).acosh(), X),
    _function("two arguments", lambda x: torch.atan2(x, x + 2) + torch.hypot(x, x.T.reshape(3, 4)), X),
    _function("special", lambda x: x.erf() + x.erfc() + x.erfinv() + torch.sinc(x) + torch.special.entr(x * x), X),
    _function("gamma", lambda x: x.lgamma() + torch.mvlgamma(x + 3, 2) + torch.special.i0(x), POSITIVE),
    _function("digamma", lambda x: x.digamma(), POSITIVE),
    _function("rounding", lambda x: x.frac() + x * x.floor() + x * x.round() + x * x.trunc() + x * x.sign(), X * 3),
    _function("remainders", lambda x: x % 0.3 + x.fmod(0.7) + x.remainder(x.abs() + 1), X),
    _function("limits", lambda x: x.clamp(-0.5, 0.4) + x.clamp(min=0.1) + x.clamp_max(0.3), X),
    _function("largest and smallest", lambda x: x.maximum(x.flip(0)) + x.minimum(x.flip(1)), X),
    _function("lerp and addcmul", lambda x: x.lerp(x.flip(0), 0.3).addcmul(x, x, value=0.5).addcdiv(x, x + 3), X),
    _function(
        "logaddexp, xlogy and logit",
        lambda x: x.logaddexp(x.T.reshape(3, 4)) + x.xlogy(x) + x.logit(0.01),
        PROBABILITIES,
    ),
    _function("reductions", lambda x: x.sum(1) + x.mean(1) + x.prod(1) + x.amax(1) + x.amin(1) + x.logsumexp(1), X),
    _function(
        "statistics",
        lambda x: x.std() + x.var(1).sum() + x.std(0, correction=0).sum() + torch.var_mean(x, 1)[1].sum(),
        X,
    ),
    _function("running sums", lambda x: x.cumsum(0) + x.cumprod(1) + x.logcumsumexp(1) + x.cummax(1).values, X),
    _function("differences", lambda x: x.diff(dim=1).abs().sum() + torch.trapezoid(x, dim=1).sum(), X),
    _function("dtypes", lambda x: x.float().double() + (x > 0) * x + x.int(), X),
    _function("nan_to_num", lambda x: torch.nan_to_num(x.masked_fill(MASK, torch.nan), 0.5) * x, X),
    _function("normalize", lambda x: functional.normalize(x, dim=1), X),
    _function(
        "attention", lambda x: functional.scaled_dot_product_attention(x, x, x, is_causal=True), draw(2, 3, 4, 8)
    ),
    _function(
        "attention with a mask",
        lambda x, m: functional.scaled_dot_product_attention(x, x, x, m),
        draw(1, 2, 4, 8),
        draw(4, 4),
    ),
]


def _write_parts(x: Tensor) -> Tensor:
    y = x.clone()
    y[0] = x[1] * 2
    y[:, 1] += 3 * x[:, 2]
    y[1:, ::2].mul_(x[1:, ::2])
    return y


def _write_through_view(x: Tensor) -> Tensor:
    y = x * 2
    row = y.view(-1)
    column = y.t()[1]
    row[3:7] *= 3
    column.add_(x[:, 0])
    y[MASK] = 0.5
    return y.sin() * row.reshape(3, 4)


def _activate_in_place(x: Tensor) -> Tensor:
    y = x + 0.5
    functional.threshold_(y, 0.1, 0.2).sub_(1)
    z = y * 1.5
    z.transpose(0, 1).mul_(3.0).clamp_(-0.9, 2.0)
    return functional.leaky_relu_(z.sub_(x).neg_().addcmul_(x, x), 0.2)


def _fill_new_tensor(x: Tensor) -> Tensor:
    y = torch.zeros(3, 6, dtype=torch.float64)
    y[:, 1:5] = x
    y[:, 0].copy_(x[:, 3])
    y.narrow(1, 5, 1).fill_(2.0)
    out = torch.empty(3, 6, dtype=torch.float64)
    for k in range(3):
        out[k] = y[k] * y[(k + 1) % 3]
    return out


def _step_optimiser(x: Tensor) -> Tensor:
    momentum = torch.zeros_like(x)
    weight = x.clone()
    for _ in range(3):
        gradient = 2 * weight + weight.sin()
        momentum.mul_(0.9).add_(gradient, alpha=0.1)
        weight = weight - 0.3 * momentum
    return weight


def _stop_parts(x: Tensor) -> Tensor:
    with torch.no_grad():
        scale = x.abs().max()
    return x / scale * x.detach() + x.data.sin() * x


def _rearrange(x: Tensor) -> Tensor:
    y = x.view(3, 2, 2).permute(2, 0, 1).contiguous().flatten(1).unsqueeze(0)
    y = y.expand(4, -1, -1).transpose(0, 2).squeeze().movedim(0, 1).reshape(4, -1)
    return y.swapaxes(0, 1).ravel().unflatten(0, (6, 8)).T


def _write_out(x: Tensor) -> Tensor:
    scale = torch.empty(3, 4, dtype=torch.float64)
    with torch.no_grad():
        torch.mul(x, 2.0, out=scale)
        torch.add(scale, x.detach(), alpha=0.5, out=scale)
    return scale * x


IN_PLACE = [
    _function("written parts", _write_parts, X),
    _function("written through views", _write_through_view, X),
    _function("activations in place", _activate_in_place, X),
    _function("new tensor, filled", _fill_new_tensor, X),
    _function("optimiser step", _step_optimiser, X),
    _function("detach and no_grad", _stop_parts, X),
    _function("views of views", _rearrange, X),
    _function("out argument", _write_out, X),
]

ROUNDED_BY_PYTORCH = {"CELU": 1e-6, "Hardsigmoid": 1e-6, "digamma": 1e-8}
"""Cases whose gradients PyTorch computes with constants of float32 or by a short series, and how far they are off."""

CASES = [*LAYERS, *ACTIVATIONS, *LOSSES, *INDEXING, *ALGEBRA, *POINTWISE, *IN_PLACE]
