"""`wg.nn` and `wg.optim` against PyTorch, from the same weights: values, gradients, ten steps, and states both ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import wiregrad as wg
from wiregrad import nn, optim

STEPS = 10
TOLERANCE = 1e-10
TORCH_FUNCTIONS = torch.nn.functional


def assert_close(ours: Any, theirs: Any, what: str) -> None:
    """Compare arrays to 1e-10, relative to the largest number."""
    a = np.asarray(ours.data if isinstance(ours, wg.Value) else ours, float)
    b = theirs.detach().double().numpy() if isinstance(theirs, torch.Tensor) else np.asarray(theirs, float)

    assert a.shape == b.shape, what
    assert np.max(np.abs(a - b), initial=0.0) <= TOLERANCE * (1.0 + np.max(np.abs(b), initial=0.0)), what


def assert_all_close(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    assert list(ours) == list(theirs)
    for name, value in ours.items():
        assert_close(value, theirs[name], name)


def list_results(result: Any) -> list[Any]:
    """Return the outputs of a layer that may return nested tuples."""
    if isinstance(result, tuple | list):
        return [output for part in result for output in list_results(part)]
    return [result]


def weigh(outputs: list[Any], m: Any) -> Any:
    """Make one number of the outputs, so that the gradient that arrives at each number depends on its value."""
    return sum((m.sin(1.3 * y) * (0.3 + k) + 0.2 * y * y).mean() for k, y in enumerate(outputs))


@dataclass(frozen=True)
class LayerCase:
    """A layer of ours and of PyTorch, and the shapes of what it is called with."""

    name: str
    ours: Callable[[np.random.Generator], nn.Module]
    theirs: Callable[[], torch.nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    whole: int = 0
    """The input is whole numbers below this, unless it is 0."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the call: arrays."""

    def draw(self, seed: int) -> list[Any]:
        rng = np.random.default_rng(seed)
        if self.whole:
            return [rng.integers(0, self.whole, size=shape) for shape in self.shapes]
        return [rng.normal(size=shape) for shape in self.shapes]


def case(
    name: str,
    ours: Callable[[np.random.Generator], nn.Module],
    theirs: Callable[[], torch.nn.Module],
    *shapes: tuple[int, ...],
    whole: int = 0,
    **options: Any,
) -> LayerCase:
    return LayerCase(name, ours, theirs, shapes, whole, options)


T = torch.nn
CAUSAL = np.triu(np.ones((5, 5), bool), 1)
PADDING = np.array([[False, False, True, False, True]] * 2)
ADDED = np.linspace(-1.0, 1.0, 25).reshape(5, 5)
CASES = [
    case("linear", lambda r: nn.Linear(3, 4, rng=r), lambda: T.Linear(3, 4), (5, 3)),
    case("linear without bias", lambda r: nn.Linear(3, 4, False, rng=r), lambda: T.Linear(3, 4, False), (2, 5, 3)),
    case("conv1d", lambda r: nn.Conv1d(2, 3, 3, rng=r), lambda: T.Conv1d(2, 3, 3), (2, 2, 8)),
    case(
        "conv1d with options",
        lambda r: nn.Conv1d(4, 6, 3, 2, 1, 2, 2, False, rng=r),
        lambda: T.Conv1d(4, 6, 3, 2, 1, 2, 2, False),
        (2, 4, 11),
    ),
    case("conv2d", lambda r: nn.Conv2d(2, 3, 3, rng=r), lambda: T.Conv2d(2, 3, 3), (2, 2, 6, 7)),
    case(
        "conv2d with options",
        lambda r: nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 2), 2, rng=r),
        lambda: T.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 2), 2),
        (2, 4, 7, 8),
    ),
    case(
        "conv2d same",
        lambda r: nn.Conv2d(1, 2, 3, padding="same", rng=r),
        lambda: T.Conv2d(1, 2, 3, padding="same"),
        (2, 1, 5, 5),
    ),
    case("conv2d without batch", lambda r: nn.Conv2d(2, 3, 2, rng=r), lambda: T.Conv2d(2, 3, 2), (2, 4, 4)),
    *[
        case(
            f"conv2d {mode}",
            lambda r, mode=mode: nn.Conv2d(2, 3, (3, 2), padding=(1, 2), padding_mode=mode, rng=r),
            lambda mode=mode: T.Conv2d(2, 3, (3, 2), padding=(1, 2), padding_mode=mode),
            (2, 2, 5, 6),
        )
        for mode in ("reflect", "replicate", "circular")
    ],
    case(
        "conv1d same and circular",
        lambda r: nn.Conv1d(2, 3, 4, padding="same", dilation=2, padding_mode="circular", rng=r),
        lambda: T.Conv1d(2, 3, 4, padding="same", dilation=2, padding_mode="circular"),
        (2, 2, 9),
    ),
    case(
        "conv_transpose1d", lambda r: nn.ConvTranspose1d(2, 3, 3, rng=r), lambda: T.ConvTranspose1d(2, 3, 3), (2, 2, 5)
    ),
    case(
        "conv_transpose2d with options",
        lambda r: nn.ConvTranspose2d(4, 6, (3, 2), 2, 1, 1, 2, False, (1, 2), rng=r),
        lambda: T.ConvTranspose2d(4, 6, (3, 2), 2, 1, 1, 2, False, (1, 2)),
        (2, 4, 4, 3),
    ),
    case("adaptive_avg_pool1d", lambda r: nn.AdaptiveAvgPool1d(3), lambda: T.AdaptiveAvgPool1d(3), (2, 3, 8)),
    case(
        "adaptive_avg_pool2d", lambda r: nn.AdaptiveAvgPool2d((3, 2)), lambda: T.AdaptiveAvgPool2d((3, 2)), (2, 3, 7, 6)
    ),
    case("adaptive_avg_pool2d to one", lambda r: nn.AdaptiveAvgPool2d(1), lambda: T.AdaptiveAvgPool2d(1), (2, 3, 7, 6)),
    case("adaptive_avg_pool2d larger", lambda r: nn.AdaptiveAvgPool2d(5), lambda: T.AdaptiveAvgPool2d(5), (2, 3, 3, 4)),
    case("max_pool1d", lambda r: nn.MaxPool1d(2), lambda: T.MaxPool1d(2), (2, 3, 8)),
    case("max_pool1d dilated", lambda r: nn.MaxPool1d(2, 1, 1, dilation=2), lambda: T.MaxPool1d(2, 1, 1, 2), (2, 3, 8)),
    case("max_pool2d", lambda r: nn.MaxPool2d(2), lambda: T.MaxPool2d(2), (2, 3, 6, 4)),
    case("max_pool2d with options", lambda r: nn.MaxPool2d(3, 2, 1), lambda: T.MaxPool2d(3, 2, 1), (2, 3, 6, 7)),
    case("avg_pool1d", lambda r: nn.AvgPool1d(2), lambda: T.AvgPool1d(2), (2, 3, 8)),
    case("avg_pool2d", lambda r: nn.AvgPool2d(2), lambda: T.AvgPool2d(2), (2, 3, 6, 4)),
    case(
        "avg_pool2d without padding in the mean",
        lambda r: nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        lambda: T.AvgPool2d(3, 2, 1, count_include_pad=False),
        (2, 3, 6, 7),
    ),
    case(
        "max_pool1d ceil", lambda r: nn.MaxPool1d(2, ceil_mode=True), lambda: T.MaxPool1d(2, ceil_mode=True), (2, 3, 7)
    ),
    case(
        "max_pool2d ceil",
        lambda r: nn.MaxPool2d(3, 2, 1, ceil_mode=True),
        lambda: T.MaxPool2d(3, 2, 1, ceil_mode=True),
        (2, 3, 6, 8),
    ),
    case(
        "max_pool2d ceil, window in the padding left out",
        lambda r: nn.MaxPool2d(2, 3, 1, ceil_mode=True),
        lambda: T.MaxPool2d(2, 3, 1, ceil_mode=True),
        (2, 3, 5, 6),
    ),
    case(
        "max_pool1d ceil, dilated",
        lambda r: nn.MaxPool1d(3, 4, 1, dilation=2, ceil_mode=True),
        lambda: T.MaxPool1d(3, 4, 1, 2, ceil_mode=True),
        (2, 3, 11),
    ),
    case(
        "avg_pool1d ceil",
        lambda r: nn.AvgPool1d(3, 2, 1, ceil_mode=True),
        lambda: T.AvgPool1d(3, 2, 1, ceil_mode=True),
        (2, 3, 8),
    ),
    case(
        "avg_pool2d ceil",
        lambda r: nn.AvgPool2d((3, 2), ceil_mode=True),
        lambda: T.AvgPool2d((3, 2), ceil_mode=True),
        (2, 3, 7, 5),
    ),
    case(
        "avg_pool2d ceil without padding in the mean",
        lambda r: nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        lambda: T.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        (2, 3, 6, 8),
    ),
    case("batch_norm1d", lambda r: nn.BatchNorm1d(3), lambda: T.BatchNorm1d(3), (5, 3)),
    case(
        "batch_norm1d of signals",
        lambda r: nn.BatchNorm1d(3, 1e-3, 0.3),
        lambda: T.BatchNorm1d(3, 1e-3, 0.3),
        (2, 3, 4),
    ),
    case(
        "batch_norm1d cumulative",
        lambda r: nn.BatchNorm1d(3, momentum=None),
        lambda: T.BatchNorm1d(3, momentum=None),
        (5, 3),
    ),
    case("batch_norm2d", lambda r: nn.BatchNorm2d(3), lambda: T.BatchNorm2d(3), (2, 3, 4, 5)),
    case(
        "batch_norm2d bare",
        lambda r: nn.BatchNorm2d(3, affine=False),
        lambda: T.BatchNorm2d(3, affine=False),
        (2, 3, 4, 5),
    ),
    case(
        "batch_norm1d without running means",
        lambda r: nn.BatchNorm1d(3, track_running_stats=False).eval(),
        lambda: T.BatchNorm1d(3, track_running_stats=False).eval(),
        (5, 3),
    ),
    case("batch_norm1d after training", lambda r: nn.BatchNorm1d(3).eval(), lambda: T.BatchNorm1d(3).eval(), (5, 3)),
    case("layer_norm", lambda r: nn.LayerNorm(4), lambda: T.LayerNorm(4), (3, 4)),
    case("layer_norm of two axes", lambda r: nn.LayerNorm((3, 4), 1e-2), lambda: T.LayerNorm((3, 4), 1e-2), (2, 3, 4)),
    case("layer_norm without bias", lambda r: nn.LayerNorm(4, bias=False), lambda: T.LayerNorm(4, bias=False), (3, 4)),
    case(
        "layer_norm bare",
        lambda r: nn.LayerNorm(4, elementwise_affine=False),
        lambda: T.LayerNorm(4, elementwise_affine=False),
        (3, 4),
    ),
    case("group_norm", lambda r: nn.GroupNorm(2, 4), lambda: T.GroupNorm(2, 4), (3, 4, 5)),
    case("group_norm of vectors", lambda r: nn.GroupNorm(2, 4, 0.1), lambda: T.GroupNorm(2, 4, 0.1), (3, 4)),
    case(
        "group_norm bare",
        lambda r: nn.GroupNorm(3, 6, affine=False),
        lambda: T.GroupNorm(3, 6, affine=False),
        (2, 6, 3, 2),
    ),
    case("rms_norm", lambda r: nn.RMSNorm(4), lambda: T.RMSNorm(4), (3, 4)),
    case("rms_norm with eps", lambda r: nn.RMSNorm((3, 4), 0.1), lambda: T.RMSNorm((3, 4), 0.1), (2, 3, 4)),
    case(
        "rms_norm bare",
        lambda r: nn.RMSNorm(4, elementwise_affine=False),
        lambda: T.RMSNorm(4, elementwise_affine=False),
        (3, 4),
    ),
    case("dropout after training", lambda r: nn.Dropout(0.3).eval(), lambda: T.Dropout(0.3).eval(), (3, 4)),
    case("embedding", lambda r: nn.Embedding(5, 3, rng=r), lambda: T.Embedding(5, 3), (2, 4), whole=5),
    case(
        "embedding with padding", lambda r: nn.Embedding(5, 3, 2, rng=r), lambda: T.Embedding(5, 3, 2), (2, 9), whole=5
    ),
    case(
        "embedding padded from the end",
        lambda r: nn.Embedding(5, 3, -1, rng=r),
        lambda: T.Embedding(5, 3, -1),
        (2, 9),
        whole=5,
    ),
    case("flatten", lambda r: nn.Flatten(), T.Flatten, (2, 3, 4)),
    case("flatten some axes", lambda r: nn.Flatten(0, 1), lambda: T.Flatten(0, 1), (2, 3, 4)),
    case("unflatten", lambda r: nn.Unflatten(1, (3, -1)), lambda: T.Unflatten(1, (3, -1)), (2, 6, 4)),
    case("identity", lambda r: nn.Identity(), T.Identity, (2, 3)),
    case("relu", lambda r: nn.ReLU(), T.ReLU, (3, 4)),
    case("leaky_relu", lambda r: nn.LeakyReLU(0.2), lambda: T.LeakyReLU(0.2), (3, 4)),
    case("relu6", lambda r: nn.ReLU6(), T.ReLU6, (3, 4)),
    case("log_sigmoid", lambda r: nn.LogSigmoid(), T.LogSigmoid, (3, 4)),
    case("selu", lambda r: nn.SELU(), T.SELU, (3, 4)),
    case("mish", lambda r: nn.Mish(), T.Mish, (3, 4)),
    case("prelu", lambda r: nn.PReLU(), T.PReLU, (3, 4)),
    case("prelu of channels", lambda r: nn.PReLU(4, 0.1), lambda: T.PReLU(4, 0.1), (3, 4, 2)),
    case("elu", lambda r: nn.ELU(0.7), lambda: T.ELU(0.7), (3, 4)),
    case("gelu", lambda r: nn.GELU(), T.GELU, (3, 4)),
    case("gelu by tanh", lambda r: nn.GELU("tanh"), lambda: T.GELU("tanh"), (3, 4)),
    case("silu", lambda r: nn.SiLU(), T.SiLU, (3, 4)),
    case("sigmoid", lambda r: nn.Sigmoid(), T.Sigmoid, (3, 4)),
    case("tanh", lambda r: nn.Tanh(), T.Tanh, (3, 4)),
    case("softplus", lambda r: nn.Softplus(), T.Softplus, (3, 4)),
    case("softmax", lambda r: nn.Softmax(1), lambda: T.Softmax(1), (3, 4)),
    case("log_softmax", lambda r: nn.LogSoftmax(0), lambda: T.LogSoftmax(0), (3, 4)),
    case("rnn", lambda r: nn.RNN(3, 4, rng=r), lambda: T.RNN(3, 4), (5, 2, 3)),
    case(
        "rnn of relu",
        lambda r: nn.RNN(3, 4, 2, bias=False, nonlinearity="relu", rng=r),
        lambda: T.RNN(3, 4, 2, nonlinearity="relu", bias=False),
        (5, 2, 3),
    ),
    case("lstm", lambda r: nn.LSTM(3, 4, rng=r), lambda: T.LSTM(3, 4), (5, 2, 3)),
    case(
        "lstm of two layers and directions",
        lambda r: nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True, rng=r),
        lambda: T.LSTM(3, 4, 2, batch_first=True, bidirectional=True),
        (2, 5, 3),
    ),
    case(
        "lstm with dropout after training",
        lambda r: nn.LSTM(3, 4, 2, dropout=0.5, rng=r).eval(),
        lambda: T.LSTM(3, 4, 2, dropout=0.5).eval(),
        (5, 2, 3),
    ),
    case(
        "rnn that drops all between its layers",
        lambda r: nn.RNN(3, 4, 3, dropout=1.0, rng=r),
        lambda: T.RNN(3, 4, 3, dropout=1.0),
        (5, 2, 3),
    ),
    case("gru", lambda r: nn.GRU(3, 4, rng=r), lambda: T.GRU(3, 4), (5, 2, 3)),
    case("gru with a first state", lambda r: nn.GRU(3, 4, 2, rng=r), lambda: T.GRU(3, 4, 2), (5, 2, 3), (2, 2, 4)),
    case("gru of one sequence", lambda r: nn.GRU(3, 4, 2, rng=r), lambda: T.GRU(3, 4, 2), (5, 3), (2, 4)),
    case(
        "lstm of one sequence",
        lambda r: nn.LSTM(3, 4, batch_first=True, bidirectional=True, rng=r),
        lambda: T.LSTM(3, 4, batch_first=True, bidirectional=True),
        (5, 3),
    ),
    case(
        "attention of one sequence",
        lambda r: nn.MultiheadAttention(4, 2, rng=r),
        lambda: T.MultiheadAttention(4, 2),
        *[(3, 4), (5, 4), (5, 4)],
        key_padding_mask=PADDING[0],
    ),
    case(
        "transformer block of one sequence",
        lambda r: nn.TransformerBlock(4, 2, 8, 0.0, batch_first=True, rng=r),
        lambda: T.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True),
        (5, 4),
    ),
    case(
        "gru of two directions",
        lambda r: nn.GRU(3, 4, bidirectional=True, rng=r),
        lambda: T.GRU(3, 4, bidirectional=True),
        (5, 2, 3),
    ),
    case(
        "attention",
        lambda r: nn.MultiheadAttention(4, 2, rng=r),
        lambda: T.MultiheadAttention(4, 2),
        *[(5, 2, 4)] * 3,
    ),
    case(
        "attention without bias",
        lambda r: nn.MultiheadAttention(4, 2, bias=False, batch_first=True, rng=r),
        lambda: T.MultiheadAttention(4, 2, bias=False, batch_first=True),
        *[(2, 3, 4), (2, 5, 4), (2, 5, 4)],
    ),
    case(
        "attention with masks",
        lambda r: nn.MultiheadAttention(4, 2, batch_first=True, rng=r),
        lambda: T.MultiheadAttention(4, 2, batch_first=True),
        *[(2, 5, 4)] * 3,
        attn_mask=CAUSAL,
        key_padding_mask=PADDING,
    ),
    case(
        "attention with numbers added",
        lambda r: nn.MultiheadAttention(4, 1, rng=r),
        lambda: T.MultiheadAttention(4, 1),
        *[(5, 2, 4)] * 3,
        attn_mask=ADDED,
    ),
    case(
        "transformer block",
        lambda r: nn.TransformerBlock(4, 2, 8, 0.0, rng=r),
        lambda: T.TransformerEncoderLayer(4, 2, 8, 0.0),
        (5, 2, 4),
    ),
    case(
        "transformer block with norms first",
        lambda r: nn.TransformerBlock(4, 2, 8, 0.0, "gelu", 1e-3, True, True, rng=r),
        lambda: T.TransformerEncoderLayer(4, 2, 8, 0.0, "gelu", 1e-3, True, True),
        (2, 5, 4),
        src_mask=CAUSAL,
    ),
    case(
        "averaged model",
        lambda r: nn.AveragedModel(nn.Linear(3, 4, rng=r)),
        lambda: torch.optim.swa_utils.AveragedModel(T.Linear(3, 4)),
        (5, 3),
    ),
    case(
        "sequential",
        lambda r: nn.Sequential(nn.Conv2d(1, 2, 3, rng=r), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3, rng=r)),
        lambda: T.Sequential(T.Conv2d(1, 2, 3), T.ReLU(), T.Flatten(), T.Linear(8, 3)),
        (3, 1, 4, 4),
    ),
]


def make_pair(layer: LayerCase) -> tuple[nn.Module, torch.nn.Module]:
    """Return both layers with the same weights, which are not those that normalizations start with."""
    rng = np.random.default_rng(7)
    ours, theirs = layer.ours(rng), layer.theirs().double()
    if isinstance(ours, nn.BatchNorm1d | nn.BatchNorm2d | nn.LayerNorm | nn.GroupNorm | nn.RMSNorm):
        for value in ours.parameters().values():
            value.data = value.data + rng.normal(size=value.shape)
    theirs.load_state_dict({name: torch.tensor(array) for name, array in ours.state_dict().items()})
    return ours, theirs


def as_tensors(inputs: list[Any]) -> list[torch.Tensor]:
    return [torch.tensor(x, requires_grad=x.dtype == float) for x in inputs]


def options_of(layer: LayerCase) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(array) for name, array in layer.options.items()}


@pytest.mark.parametrize("layer", CASES, ids=lambda layer: layer.name)
def test_values_and_gradients_of_layers_agree(layer: LayerCase) -> None:
    ours, theirs = make_pair(layer)
    inputs = layer.draw(0)
    xs = [wg.Value(x) if x.dtype == float else x for x in inputs]
    tensors = as_tensors(inputs)
    outputs = list_results(ours(*xs, **layer.options))
    wanted = list_results(theirs(*tensors, **options_of(layer)))
    weigh(outputs, np).backward()
    weigh(wanted, torch).backward()

    for k, (output, tensor) in enumerate(zip(outputs, wanted, strict=True)):
        assert_close(output, tensor, f"output {k}")
    for k, (x, tensor) in enumerate(zip(xs, tensors, strict=True)):
        if isinstance(x, wg.Value):
            assert_close(x.grad, tensor.grad, f"the gradient of input {k}")
    wanted_gradients = {name: tensor.grad for name, tensor in theirs.named_parameters()}
    assert_all_close({name: value.grad for name, value in ours.parameters().items()}, wanted_gradients)


@pytest.mark.parametrize(
    "layer",
    [layer for layer in CASES if layer.ours(np.random.default_rng(0)).parameters()],
    ids=lambda layer: layer.name,
)
def test_ten_steps_of_layers_agree(layer: LayerCase) -> None:
    ours, theirs = make_pair(layer)
    optimizer = optim.SGD(ours.parameters(), lr=0.05, momentum=0.9)
    torch_optimizer = torch.optim.SGD(theirs.parameters(), lr=0.05, momentum=0.9)
    for seed in range(STEPS):
        inputs = layer.draw(seed)
        optimizer.zero_grad()
        torch_optimizer.zero_grad()
        weigh(list_results(ours(*inputs, **layer.options)), np).backward()
        weigh(list_results(theirs(*as_tensors(inputs), **options_of(layer))), torch).backward()
        optimizer.step()
        torch_optimizer.step()

    assert_all_close(ours.state_dict(), theirs.state_dict())


@pytest.mark.parametrize(
    "layer",
    [layer for layer in CASES if layer.ours(np.random.default_rng(0)).state_dict()],
    ids=lambda layer: layer.name,
)
def test_states_are_exchanged_both_ways_through_files(layer: LayerCase, tmp_path: Path) -> None:
    source, target = layer.theirs().double(), layer.ours(np.random.default_rng(1))
    safetensors.torch.save_file(source.state_dict(), tmp_path / "theirs")
    target.load_state_dict(nn.load_arrays(tmp_path / "theirs"))
    nn.save_arrays(tmp_path / "ours", target.state_dict())
    back = layer.theirs().double()
    back.load_state_dict(safetensors.torch.load_file(tmp_path / "ours"))

    for name, tensor in source.state_dict().items():
        assert torch.equal(tensor, back.state_dict()[name])
        assert tensor.dtype == back.state_dict()[name].dtype


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda r: nn.Linear(300, 200, rng=r), lambda: T.Linear(300, 200)),
        (lambda r: nn.Conv2d(20, 50, 5, rng=r), lambda: T.Conv2d(20, 50, 5)),
        (lambda r: nn.Embedding(100, 300, rng=r), lambda: T.Embedding(100, 300)),
        (lambda r: nn.LSTM(100, 80, rng=r), lambda: T.LSTM(100, 80)),
        (lambda r: nn.MultiheadAttention(96, 4, rng=r), lambda: T.MultiheadAttention(96, 4)),
    ],
    ids=["linear", "conv2d", "embedding", "lstm", "attention"],
)
def test_initial_weights_have_the_same_distribution(
    ours: Callable[[np.random.Generator], nn.Module], theirs: Callable[[], torch.nn.Module]
) -> None:
    torch.manual_seed(0)
    wanted = theirs().state_dict()
    arrays = ours(np.random.default_rng(0)).state_dict()

    for name, array in arrays.items():
        tensor = wanted[name].numpy()
        assert array.shape == tensor.shape
        assert abs(np.std(array) - np.std(tensor)) <= 0.15 * np.std(tensor)
        assert abs(np.max(np.abs(array)) - np.max(np.abs(tensor))) <= 0.25 * np.max(np.abs(tensor))


LABELS = np.array([0, 2, 1, 3, 3, 0])
SOME_LABELS = np.array([0, -100, 1, 3, -100, 0])
SIGNS = np.array([[1.0, -1.0, 1.0, 1.0]] * 6)
CHANCES = np.random.default_rng(3).dirichlet(np.ones(4), size=6)
ZEROS_AND_ONES = (SIGNS + 1.0) / 2.0
REALS = np.random.default_rng(4).normal(size=(6, 4)) * 2.0
WEIGHT = np.array([0.5, 1.0, 2.0, 0.1])
F = TORCH_FUNCTIONS


def binary_cross_entropy(scores: Any, target: Any, **options: Any) -> Any:
    return nn.binary_cross_entropy(wg.sigmoid(scores), target, **options)


LOSSES: dict[str, tuple[Callable[..., Any], Callable[..., Any], Any, dict[str, Any]]] = {
    "cross_entropy": (nn.cross_entropy, F.cross_entropy, LABELS, {}),
    "cross_entropy weighted": (nn.cross_entropy, F.cross_entropy, LABELS, {"weight": WEIGHT}),
    "cross_entropy weighted and smoothed": (
        nn.cross_entropy,
        F.cross_entropy,
        LABELS,
        {"weight": WEIGHT, "label_smoothing": 0.2},
    ),
    "cross_entropy smoothed": (nn.cross_entropy, F.cross_entropy, LABELS, {"label_smoothing": 0.2}),
    "cross_entropy of probabilities": (nn.cross_entropy, F.cross_entropy, CHANCES, {}),
    "cross_entropy of weighted probabilities": (nn.cross_entropy, F.cross_entropy, CHANCES, {"weight": WEIGHT}),
    "cross_entropy smoothed probabilities": (nn.cross_entropy, F.cross_entropy, CHANCES, {"label_smoothing": 0.1}),
    "cross_entropy of some": (nn.cross_entropy, F.cross_entropy, SOME_LABELS, {}),
    "cross_entropy of some, weighted and smoothed": (
        nn.cross_entropy,
        F.cross_entropy,
        SOME_LABELS,
        {"weight": WEIGHT, "label_smoothing": 0.2},
    ),
    "cross_entropy without a class": (nn.cross_entropy, F.cross_entropy, LABELS, {"ignore_index": 3}),
    "nll": (nn.nll_loss, F.nll_loss, LABELS, {}),
    "nll of some, weighted": (nn.nll_loss, F.nll_loss, SOME_LABELS, {"weight": WEIGHT}),
    "smooth_l1": (nn.smooth_l1_loss, F.smooth_l1_loss, REALS, {"beta": 0.7}),
    "smooth_l1 without a curve": (nn.smooth_l1_loss, F.smooth_l1_loss, REALS, {"beta": 0.0}),
    "binary with logits": (
        nn.binary_cross_entropy_with_logits,
        F.binary_cross_entropy_with_logits,
        ZEROS_AND_ONES,
        {},
    ),
    "binary with logits and weights": (
        nn.binary_cross_entropy_with_logits,
        F.binary_cross_entropy_with_logits,
        CHANCES,
        {"weight": CHANCES, "pos_weight": WEIGHT},
    ),
    "binary": (
        binary_cross_entropy,
        lambda x, y, **o: F.binary_cross_entropy(torch.sigmoid(x), y, **o),
        CHANCES,
        {},
    ),
    "mse": (nn.mse_loss, F.mse_loss, REALS, {}),
    "l1": (nn.l1_loss, F.l1_loss, REALS, {}),
    "huber": (nn.huber_loss, F.huber_loss, REALS, {"delta": 0.7}),
    "kl_div": (nn.kl_div, F.kl_div, CHANCES, {}),
    "kl_div of logarithms": (nn.kl_div, F.kl_div, np.log(CHANCES), {"log_target": True}),
    "hinge": (
        nn.hinge_loss,
        lambda x, y, reduction="mean": {"mean": torch.mean, "sum": torch.sum, "none": lambda z: z}[reduction](
            torch.clamp(1.0 - x * y, min=0.0)
        ),
        SIGNS,
        {},
    ),
    "multi_margin": (nn.multi_margin_loss, F.multi_margin_loss, LABELS, {}),
    "multi_margin squared": (
        nn.multi_margin_loss,
        F.multi_margin_loss,
        LABELS,
        {"p": 2, "margin": 0.5, "weight": WEIGHT},
    ),
}


def loss_options(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: torch.tensor(v) if isinstance(v, np.ndarray) else v for name, v in options.items()}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.filterwarnings("ignore:reduction:UserWarning")
def test_values_gradients_and_ten_steps_of_losses_agree(name: str, reduction: str) -> None:
    ours, theirs, target, options = LOSSES[name]
    scores = wg.Value(np.random.default_rng(5).normal(size=(6, 4)) * 2.0)
    tensor = torch.tensor(scores.data, requires_grad=True)
    optimizer, torch_optimizer = optim.SGD([scores], lr=0.1), torch.optim.SGD([tensor], lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch_optimizer.zero_grad()
        loss = ours(scores, target, **options, reduction=reduction)
        wanted = theirs(tensor, torch.tensor(target), **loss_options(options), reduction=reduction)
        np.sum(loss).backward()
        wanted.sum().backward()
        assert_close(loss, wanted, "the loss")
        assert_close(scores.grad, tensor.grad, "the gradient")
        optimizer.step()
        torch_optimizer.step()

    assert_close(scores, tensor, "after ten steps")


def test_the_mean_of_a_divergence_over_the_batch_agrees() -> None:
    logs = np.log(CHANCES[::-1])

    assert_close(
        nn.kl_div(logs, CHANCES, reduction="batchmean"),
        F.kl_div(torch.tensor(logs.copy()), torch.tensor(CHANCES), reduction="batchmean"),
        "kl_div",
    )


def test_classes_of_places_in_pictures_agree() -> None:
    scores = np.random.default_rng(6).normal(size=(2, 4, 3))
    labels = np.array([[0, 1, 3], [2, 2, 0]])

    assert_close(
        nn.cross_entropy(scores, labels), F.cross_entropy(torch.tensor(scores), torch.tensor(labels)), "cross_entropy"
    )


def test_a_probability_of_zero_has_the_bounded_loss_of_pytorch() -> None:
    chances, truth = np.array([0.0, 1.0, 0.5]), np.array([1.0, 0.0, 1.0])

    assert_close(
        nn.binary_cross_entropy(chances, truth),
        F.binary_cross_entropy(torch.tensor(chances), torch.tensor(truth)),
        "binary_cross_entropy",
    )


OPTIMIZERS: dict[str, tuple[Callable[..., Any], Callable[..., Any], dict[str, Any]]] = {
    "sgd": (optim.SGD, torch.optim.SGD, {"lr": 0.1}),
    "sgd with decay": (optim.SGD, torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.1}),
    "sgd with momentum": (optim.SGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "sgd with dampening": (optim.SGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    "sgd of nesterov": (
        optim.SGD,
        torch.optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    ),
    "rmsprop": (optim.RMSprop, torch.optim.RMSprop, {}),
    "rmsprop centered": (
        optim.RMSprop,
        torch.optim.RMSprop,
        {"lr": 0.02, "alpha": 0.9, "centered": True, "momentum": 0.5, "weight_decay": 0.1},
    ),
    "adam": (optim.Adam, torch.optim.Adam, {}),
    "adam with options": (
        optim.Adam,
        torch.optim.Adam,
        {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-4, "weight_decay": 0.1, "amsgrad": True},
    ),
    "adamw": (optim.AdamW, torch.optim.AdamW, {"lr": 0.05}),
    "adamw with options": (optim.AdamW, torch.optim.AdamW, {"lr": 0.05, "weight_decay": 0.3, "amsgrad": True}),
    "adagrad": (optim.Adagrad, torch.optim.Adagrad, {}),
    "adagrad with options": (
        optim.Adagrad,
        torch.optim.Adagrad,
        {"lr": 0.1, "lr_decay": 0.2, "weight_decay": 0.1, "initial_accumulator_value": 0.5, "eps": 1e-3},
    ),
}


def make_networks() -> tuple[nn.Module, torch.nn.Module]:
    rng = np.random.default_rng(8)
    ours = nn.Sequential(nn.Linear(3, 5, rng=rng), nn.Tanh(), nn.Linear(5, 2, rng=rng))
    theirs = T.Sequential(T.Linear(3, 5), T.Tanh(), T.Linear(5, 2)).double()
    theirs.load_state_dict({name: torch.tensor(array) for name, array in ours.state_dict().items()})
    return ours, theirs


def draw_batch(seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(6, 3)), rng.normal(size=(6, 2))


def train_torch(model: torch.nn.Module, optimizer: Any, after_step: Callable[[], object] = lambda: None) -> None:
    for seed in range(STEPS):
        x, y = map(torch.tensor, draw_batch(seed))
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
        after_step()


def train_ours(model: nn.Module, optimizer: Any, after_step: Callable[[], object] = lambda: None) -> None:
    for seed in range(STEPS):
        x, y = draw_batch(seed)
        optimizer.zero_grad()
        nn.mse_loss(model(x), y).backward()
        optimizer.step()
        after_step()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_ten_steps_of_optimizers_agree(name: str) -> None:
    ours, theirs, options = OPTIMIZERS[name]
    model, torch_model = make_networks()
    train_ours(model, ours(model.parameters(), **options))
    train_torch(torch_model, theirs(torch_model.parameters(), **options))

    assert_all_close(model.state_dict(), torch_model.state_dict())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_ten_compiled_steps_of_optimizers_agree(name: str) -> None:
    ours, theirs, options = OPTIMIZERS[name]
    model, torch_model = make_networks()
    optimizer, structure = ours(**options), model.emptied()

    def compute_loss(parameters: Any, x: Any, y: Any) -> Any:
        return nn.mse_loss(nn.call_with(structure, parameters, x), y)

    def take_step(parameters: Any, state: Any, x: Any, y: Any) -> Any:
        return optimizer.update(parameters, wg.grad(compute_loss)(parameters, x, y), state)

    compiled = wg.compile(take_step)
    parameters = model.arrays()
    state = optimizer.init(parameters)
    for seed in range(STEPS):
        parameters, state = compiled(parameters, state, *draw_batch(seed))
    train_torch(torch_model, theirs(torch_model.parameters(), **options))

    assert_all_close(parameters, torch_model.state_dict())
    assert (compiled.info.records, len(compiled.info.fallbacks)) == (1, 0)


def test_groups_with_settings_of_their_own_agree() -> None:
    model, torch_model = make_networks()
    first, second = model[0].parameters(), {f"last.{k}": v for k, v in model[2].parameters().items()}
    optimizer = optim.Adam([{"params": first, "lr": 0.1}, {"params": second, "weight_decay": 0.2}], lr=0.01)
    torch_groups = [
        {"params": torch_model[0].parameters(), "lr": 0.1},
        {"params": torch_model[2].parameters(), "weight_decay": 0.2},
    ]
    train_ours(model, optimizer)
    train_torch(torch_model, torch.optim.Adam(torch_groups, lr=0.01))

    assert_all_close(model.state_dict(), torch_model.state_dict())


def test_a_parameter_without_a_gradient_is_left_alone_as_in_pytorch() -> None:
    values = [wg.Value(np.array([1.0, 2.0])), wg.Value(np.array([3.0]))]
    tensors = [torch.tensor(v.data, requires_grad=True) for v in values]
    optimizer, torch_optimizer = optim.Adam(values, lr=0.1), torch.optim.Adam(tensors, lr=0.1)
    for k in range(STEPS):
        optimizer.zero_grad()
        torch_optimizer.zero_grad()
        np.sum(values[0] ** 2 * (values[1] if k % 3 else 1.0)).backward()
        (tensors[0] ** 2 * (tensors[1] if k % 3 else 1.0)).sum().backward()
        optimizer.step()
        torch_optimizer.step()

    for value, tensor in zip(values, tensors, strict=True):
        assert_close(value, tensor, "after ten steps")


LANDSCAPES: dict[str, Callable[[Any], Any]] = {
    "valley": lambda x: ((x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum(),
    "steep valley": lambda x: (4.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum(),
    "waves": lambda x: (0.1 * x**2 + ((3.0 * x) ** 2 + 1.0) / (2.0 + (x - 1.0) ** 4)).sum(),
}


LBFGS_OPTIONS: dict[str, dict[str, Any]] = {
    "fixed": {"lr": 0.5},
    "short": {"lr": 0.2, "max_iter": 4, "history_size": 2},
    "wolfe": {"line_search_fn": "strong_wolfe", "max_iter": 5},
    "limited": {"line_search_fn": "strong_wolfe", "lr": 3.0, "max_iter": 3, "max_eval": 5, "history_size": 3},
    "small": {"line_search_fn": "strong_wolfe", "lr": 1e-4, "max_iter": 3},
}
# Steps of a fixed length jump between waves, and each jump multiplies the rounding.
LBFGS_CASES = [(name, kind) for name in LANDSCAPES for kind in LBFGS_OPTIONS if kind != "fixed" or name == "valley"]


@pytest.mark.parametrize(("name", "kind"), LBFGS_CASES)
def test_ten_steps_of_lbfgs_agree(name: str, kind: str) -> None:
    options = LBFGS_OPTIONS[kind]
    start = np.array([-1.2, 1.0, 0.5, 1.5])
    value, tensor = wg.Value(start), torch.tensor(start, requires_grad=True)
    optimizer, torch_optimizer = optim.LBFGS([value], **options), torch.optim.LBFGS([tensor], **options)

    def closure(x: Any, optimizer: Any) -> Any:
        optimizer.zero_grad()
        loss = LANDSCAPES[name](x)
        loss.backward()
        return loss

    for _ in range(STEPS):
        loss = optimizer.step(lambda: closure(value, optimizer))
        wanted = torch_optimizer.step(lambda: closure(tensor, torch_optimizer))
        assert_close(loss, wanted, "the loss")
        assert_close(value, tensor, "the parameters")


R = torch.optim.lr_scheduler
SCHEDULES: dict[str, tuple[Callable[[Any], optim.Schedule], Callable[[Any], Any]]] = {
    "step": (lambda o: optim.StepLR(o, 3, 0.5), lambda o: R.StepLR(o, 3, 0.5)),
    "several steps": (lambda o: optim.MultiStepLR(o, [2, 5, 6], 0.5), lambda o: R.MultiStepLR(o, [2, 5, 6], 0.5)),
    "exponential": (lambda o: optim.ExponentialLR(o, 0.8), lambda o: R.ExponentialLR(o, 0.8)),
    "function": (lambda o: optim.LambdaLR(o, lambda k: 1 / (1 + k)), lambda o: R.LambdaLR(o, lambda k: 1 / (1 + k))),
    "cosine": (lambda o: optim.CosineAnnealingLR(o, 7, 0.01), lambda o: R.CosineAnnealingLR(o, 7, 0.01)),
    "linear": (lambda o: optim.LinearLR(o, 0.1, 0.8, 4), lambda o: R.LinearLR(o, 0.1, 0.8, 4)),
    "warm-up and cosine": (
        lambda o: optim.SequentialLR(o, [optim.LinearLR(None, 0.1, 1.0, 3), optim.CosineAnnealingLR(None, 6)], [3]),
        lambda o: R.SequentialLR(o, [R.LinearLR(o, 0.1, 1.0, 3), R.CosineAnnealingLR(o, 6)], [3]),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.filterwarnings("ignore:The epoch parameter in:UserWarning")
def test_schedules_agree(name: str) -> None:
    ours, theirs = SCHEDULES[name]
    model, torch_model = make_networks()
    optimizer = optim.SGD(model.parameters(), lr=0.2, momentum=0.5)
    torch_optimizer = torch.optim.SGD(torch_model.parameters(), lr=0.2, momentum=0.5)
    schedule, torch_schedule = ours(optimizer), theirs(torch_optimizer)
    rates: list[float] = []
    torch_rates: list[float] = []

    def note_rate() -> None:
        schedule.step()
        rates.append(optimizer.groups[0].settings["lr"])

    def note_torch_rate() -> None:
        torch_schedule.step()
        torch_rates.append(torch_optimizer.param_groups[0]["lr"])

    train_ours(model, optimizer, note_rate)
    train_torch(torch_model, torch_optimizer, note_torch_rate)

    assert_close(np.array(rates), np.array(torch_rates), "rates")
    assert_all_close(model.state_dict(), torch_model.state_dict())


LOSSES_OF_EPOCHS = [
    3.0,
    2.0,
    2.1,
    1.9999,
    1.9998,
    2.2,
    1.0,
    1.1,
    1.2,
    1.3,
    1.4,
    1.5,
    1.6,
    0.99999,
    -2.0,
    -2.0001,
    -1.9,
    -1.9,
]
PLATEAUS: list[dict[str, Any]] = [
    {"patience": 1},
    {"patience": 0, "factor": 0.5, "threshold": 0.1},
    {"patience": 0, "factor": 0.5, "threshold": 0.1, "threshold_mode": "abs", "cooldown": 2},
    {"patience": 1, "mode": "max", "min_lr": 0.01, "factor": 0.3},
    {"patience": 0, "mode": "max", "threshold_mode": "abs", "factor": 0.001, "eps": 1e-3},
]


@pytest.mark.parametrize("options", PLATEAUS, ids=str)
def test_rates_after_plateaus_agree(options: dict[str, Any]) -> None:
    optimizer = optim.SGD([wg.Value(1.0)], lr=0.2)
    torch_optimizer = torch.optim.SGD([torch.tensor(1.0, requires_grad=True)], lr=0.2)
    schedule, torch_schedule = (
        optim.ReduceLROnPlateau(optimizer, **options),
        R.ReduceLROnPlateau(torch_optimizer, **options),
    )
    rates, torch_rates = [], []
    for loss in LOSSES_OF_EPOCHS:
        schedule.step(loss)
        torch_schedule.step(loss)
        rates.append(optimizer.groups[0].settings["lr"])
        torch_rates.append(torch_optimizer.param_groups[0]["lr"])

    assert_close(np.array(rates), np.array(torch_rates), "rates")
    assert len(set(rates)) > 1


@pytest.mark.parametrize("decay", [None, 0.7])
def test_averaged_models_agree(decay: float | None) -> None:
    model, torch_model = make_networks()
    averaged = nn.AveragedModel(model, decay)
    mean = None if decay is None else torch.optim.swa_utils.get_ema_multi_avg_fn(decay)
    torch_averaged = torch.optim.swa_utils.AveragedModel(torch_model, multi_avg_fn=mean)
    train_ours(model, optim.SGD(model.parameters(), 0.1), lambda: averaged.update_parameters(model))
    train_torch(
        torch_model,
        torch.optim.SGD(torch_model.parameters(), 0.1),
        lambda: torch_averaged.update_parameters(torch_model),
    )

    assert_all_close(averaged.state_dict(), torch_averaged.state_dict())


@pytest.mark.parametrize("limit", [0.01, 100.0])
def test_clipping_agrees(limit: float) -> None:
    model, torch_model = make_networks()
    x, y = draw_batch(0)
    nn.mse_loss(model(x), y).backward()
    F.mse_loss(torch_model(torch.tensor(x)), torch.tensor(y)).backward()
    norm = optim.clip_grad_norm(model.parameters(), limit)
    wanted = torch.nn.utils.clip_grad_norm_(torch_model.parameters(), limit)

    assert_close(norm, wanted, "norm")
    assert_all_close(
        {name: value.grad for name, value in model.parameters().items()},
        {name: tensor.grad for name, tensor in torch_model.named_parameters()},
    )
    optim.clip_grad_value(model.parameters(), limit / 10)
    torch.nn.utils.clip_grad_value_(torch_model.parameters(), limit / 10)
    assert_all_close(
        {name: value.grad for name, value in model.parameters().items()},
        {name: tensor.grad for name, tensor in torch_model.named_parameters()},
    )


MADE = [layer.ours(np.random.default_rng(0)) for layer in CASES]
LAYERS = [value for value in vars(nn).values() if isinstance(value, type) and issubclass(value, nn.Module)]


@pytest.mark.parametrize(
    "layer", [layer for layer in LAYERS if layer is not nn.Module], ids=lambda layer: layer.__name__
)
def test_every_layer_is_compared(layer: type[nn.Module]) -> None:
    assert layer in map(type, MADE)


@pytest.mark.parametrize("loss", [name for name in nn.__all__ if name in vars(nn.losses)])
def test_every_loss_is_compared(loss: str) -> None:
    assert loss in [ours.__name__ for ours, *_ in LOSSES.values()]


def list_classes(base: type) -> list[Any]:
    classes = [value for value in vars(optim).values() if isinstance(value, type) and issubclass(value, base)]
    return [value for value in classes if value is not base]


@pytest.mark.parametrize("optimizer", list_classes(optim.Optimizer), ids=lambda optimizer: optimizer.__name__)
def test_every_optimizer_is_compared(optimizer: type[optim.Optimizer]) -> None:
    assert optimizer in [optim.LBFGS, *(ours for ours, *_ in OPTIMIZERS.values())]


@pytest.mark.parametrize("schedule", list_classes(optim.Schedule), ids=lambda schedule: schedule.__name__)
def test_every_schedule_is_compared(schedule: type[optim.Schedule]) -> None:
    assert schedule in [type(ours(None)) for ours, _ in SCHEDULES.values()]


EXCHANGED: dict[str, tuple[Callable[..., Any], Callable[..., Any], dict[str, Any]]] = {
    **OPTIMIZERS,
    "lbfgs": (optim.LBFGS, torch.optim.LBFGS, {"lr": 0.3, "max_iter": 2, "history_size": 3}),
    "lbfgs wolfe": (optim.LBFGS, torch.optim.LBFGS, {"line_search_fn": "strong_wolfe", "max_iter": 2}),
}


def train_by_closures(model: Any, optimizer: Any, measure: Callable[..., Any], convert: Callable[[Any], Any]) -> None:
    """Take ten steps; all optimisers but LBFGS compute the closure once."""
    for seed in range(STEPS):
        x, y = map(convert, draw_batch(seed))

        def closure(x: Any = x, y: Any = y) -> Any:
            optimizer.zero_grad()
            loss = measure(model(x), y)
            loss.backward()
            return loss

        if type(optimizer).__name__ == "LBFGS":
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()


def move_weights(source: Any, target: Any, convert: Callable[[Any], Any]) -> None:
    target.load_state_dict({name: convert(array) for name, array in source.state_dict().items()})


@pytest.mark.parametrize("name", EXCHANGED)
def test_states_of_optimizers_are_exchanged_both_ways(name: str) -> None:
    """Ten steps, then ten by the other library from the state of the first, are twenty steps of one library."""
    ours, theirs, options = EXCHANGED[name]
    model, torch_model = make_networks()
    optimizer, torch_optimizer = ours(model.parameters(), **options), theirs(torch_model.parameters(), **options)
    train_by_closures(model, optimizer, nn.mse_loss, np.asarray)
    train_by_closures(torch_model, torch_optimizer, F.mse_loss, torch.tensor)
    (model_2, torch_model_2) = make_networks()
    optimizer_2, torch_optimizer_2 = ours(model_2.parameters(), 0.7), theirs(torch_model_2.parameters(), 0.7)
    move_weights(torch_model, model_2, lambda tensor: tensor.numpy())
    move_weights(model, torch_model_2, torch.tensor)
    optimizer_2.load_torch_state_dict(torch_optimizer.state_dict())
    torch_optimizer_2.load_state_dict(optimizer.torch_state_dict(torch.tensor))
    train_by_closures(torch_model, torch_optimizer, F.mse_loss, torch.tensor)
    train_by_closures(model_2, optimizer_2, nn.mse_loss, np.asarray)
    train_by_closures(torch_model_2, torch_optimizer_2, F.mse_loss, torch.tensor)

    assert_all_close(model_2.state_dict(), torch_model.state_dict())
    assert_all_close(torch_model_2.state_dict(), torch_model.state_dict())


@pytest.mark.parametrize("name", EXCHANGED)
def test_the_state_of_an_optimizer_before_its_first_step_is_exchanged(name: str) -> None:
    ours, theirs, options = EXCHANGED[name]
    model, torch_model = make_networks()
    optimizer, torch_optimizer = ours(model.parameters(), 0.7), theirs(torch_model.parameters(), 0.7)
    optimizer.load_torch_state_dict(theirs(torch_model.parameters(), **options).state_dict())
    torch_optimizer.load_state_dict(ours(model.parameters(), **options).torch_state_dict(torch.tensor))
    train_by_closures(model, optimizer, nn.mse_loss, np.asarray)
    train_by_closures(torch_model, torch_optimizer, F.mse_loss, torch.tensor)

    assert_all_close(model.state_dict(), torch_model.state_dict())
