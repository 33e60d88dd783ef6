"""Layers by themselves: gradients by numeric derivatives, masks, running means, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad import nn
from wiregrad.errors import (
    BranchError,
    DomainError,
    GradientError,
    IndexingError,
    InputError,
    ShapeError,
    WiregradError,
)

from ..support.refusals import check_refusal

Make = Callable[[np.random.Generator], nn.Module]
LAYERS: dict[str, tuple[Make, tuple[int, ...]]] = {
    "Linear": (lambda r: nn.Linear(3, 2, rng=r), (2, 3)),
    "Conv1d": (lambda r: nn.Conv1d(2, 2, 2, rng=r), (1, 2, 4)),
    "Conv2d": (lambda r: nn.Conv2d(1, 2, 2, padding=1, rng=r), (1, 1, 3, 3)),
    "Conv2d circular": (lambda r: nn.Conv2d(1, 2, 2, padding=1, padding_mode="circular", rng=r), (1, 1, 3, 3)),
    "ConvTranspose1d": (lambda r: nn.ConvTranspose1d(2, 2, 3, stride=2, rng=r), (1, 2, 3)),
    "ConvTranspose2d": (lambda r: nn.ConvTranspose2d(1, 2, 2, rng=r), (1, 1, 2, 3)),
    "AdaptiveAvgPool1d": (lambda r: nn.AdaptiveAvgPool1d(2), (1, 2, 5)),
    "AdaptiveAvgPool2d": (lambda r: nn.AdaptiveAvgPool2d((1, 2)), (1, 2, 4, 3)),
    "MaxPool1d": (lambda r: nn.MaxPool1d(2), (1, 2, 4)),
    "MaxPool2d": (lambda r: nn.MaxPool2d(2), (1, 1, 4, 4)),
    "AvgPool1d": (lambda r: nn.AvgPool1d(2), (1, 2, 4)),
    "AvgPool2d": (lambda r: nn.AvgPool2d(2), (1, 1, 4, 4)),
    "BatchNorm1d": (lambda r: nn.BatchNorm1d(2), (4, 2)),
    "BatchNorm2d": (lambda r: nn.BatchNorm2d(2), (2, 2, 2, 2)),
    "LayerNorm": (lambda r: nn.LayerNorm(3), (2, 3)),
    "GroupNorm": (lambda r: nn.GroupNorm(2, 4), (2, 4, 2)),
    "RMSNorm": (lambda r: nn.RMSNorm(3), (2, 3)),
    "Flatten": (lambda r: nn.Flatten(), (2, 2, 2)),
    "Unflatten": (lambda r: nn.Unflatten(-1, (2, 2)), (2, 4)),
    "Identity": (lambda r: nn.Identity(), (3,)),
    "ReLU": (lambda r: nn.ReLU(), (4,)),
    "LeakyReLU": (lambda r: nn.LeakyReLU(), (4,)),
    "ReLU6": (lambda r: nn.ReLU6(), (4,)),
    "LogSigmoid": (lambda r: nn.LogSigmoid(), (4,)),
    "PReLU": (lambda r: nn.PReLU(2), (3, 2)),
    "SELU": (lambda r: nn.SELU(), (4,)),
    "Mish": (lambda r: nn.Mish(), (4,)),
    "ELU": (lambda r: nn.ELU(), (4,)),
    "GELU": (lambda r: nn.GELU(), (4,)),
    "GELU by tanh": (lambda r: nn.GELU("tanh"), (4,)),
    "SiLU": (lambda r: nn.SiLU(), (4,)),
    "Sigmoid": (lambda r: nn.Sigmoid(), (4,)),
    "Tanh": (lambda r: nn.Tanh(), (4,)),
    "Softplus": (lambda r: nn.Softplus(), (4,)),
    "Softmax": (lambda r: nn.Softmax(-1), (2, 3)),
    "LogSoftmax": (lambda r: nn.LogSoftmax(-1), (2, 3)),
    "RNN": (lambda r: nn.RNN(2, 2, rng=r), (2, 1, 2)),
    "LSTM": (lambda r: nn.LSTM(2, 2, rng=r), (2, 1, 2)),
    "GRU": (lambda r: nn.GRU(2, 2, rng=r), (2, 1, 2)),
    "TransformerBlock": (lambda r: nn.TransformerBlock(2, 1, 2, 0.0, rng=r), (2, 1, 2)),
}


def make(name: str) -> tuple[nn.Module, Any]:
    layer, shape = LAYERS[name]
    return layer(np.random.default_rng(0)), np.random.default_rng(1).normal(size=shape)


def weigh(result: Any) -> Any:
    outputs = result[0] if isinstance(result, tuple) else result
    return np.sum(np.sin(outputs))


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_layers_are_right(name: str) -> None:
    layer, x = make(name)
    report = wg.check_grads(lambda arrays, x: weigh(layer.holding(arrays)(x)), layer.arrays(), x, order=1)

    assert report.ok


@pytest.mark.parametrize("name", LAYERS)
def test_compiled_layers_compute_the_same(name: str) -> None:
    layer, x = make(name)
    structure = layer.emptied()

    def compute(arrays: Any, x: Any) -> Any:
        return weigh(structure.holding({**arrays, **buffers})(x))

    buffers = layer.buffers()
    compiled = wg.compile(wg.value_and_grad(compute))
    for k in range(3):
        value, grads = compiled(layer.arrays(), x + 0.1 * k)
        wanted, wanted_grads = wg.value_and_grad(compute)(layer.arrays(), x + 0.1 * k)
        assert np.allclose(value, wanted, rtol=1e-12)
        for path, grad in grads.items():
            assert np.allclose(grad, wanted_grads[path], rtol=1e-10, atol=1e-12)
    assert compiled.info.records == 1


@pytest.mark.parametrize("name", [name for name in LAYERS if make(name)[0].parameters()])
def test_layers_of_float32_stay_in_float32(name: str) -> None:
    layer, x = make(name)
    arrays = {path: array.astype(np.float32) for path, array in layer.arrays().items()}
    buffers = {path: np.float32(array) for path, array in layer.buffers().items() if np.ndim(array)}
    result = layer.holding({**arrays, **buffers})(x.astype(np.float32))

    assert (result[0] if isinstance(result, tuple) else result).dtype == np.float32


def test_attention_of_float32_takes_masks_of_float64() -> None:
    layer = nn.MultiheadAttention(4, 2, rng=np.random.default_rng(0), dtype=np.float32)
    x = np.ones((2, 1, 4), np.float32)
    outputs, weights = layer(x, x, x, attn_mask=np.zeros((2, 2)))

    assert (outputs.dtype, weights.dtype) == (np.float32, np.float32)


def test_dropout_keeps_the_mean_and_draws_new_masks() -> None:
    layer = nn.Dropout(0.25, rng=np.random.default_rng(0))
    first, second = layer(np.ones(10_000)), layer(np.ones(10_000))

    assert set(np.unique(first)) == {0.0, 1.0 / 0.75}
    assert abs(np.mean(first) - 1.0) < 0.02
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(("p", "result"), [(0.0, 1.0), (1.0, 0.0)])
def test_dropout_of_nothing_and_of_everything(p: float, result: float) -> None:
    assert np.array_equal(nn.Dropout(p, rng=np.random.default_rng(0))(np.ones(5)), np.full(5, result))


def test_a_compiled_function_draws_new_masks_at_every_call() -> None:
    layer = nn.Dropout(0.5, rng=np.random.default_rng(0))
    compiled = wg.compile(lambda x: np.sum(layer(x) * np.arange(100.0)))
    results = {compiled(np.ones(100)) for _ in range(4)}

    assert len(results) == 4
    assert compiled.info.records == 0
    assert any("layer.rng" in reason for reason, _ in compiled.info.fallbacks)


def test_a_compiled_model_that_is_not_trained_needs_no_generator() -> None:
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(2, 2, rng=rng), nn.Dropout(0.5, rng=rng)).eval()
    structure = model.emptied()
    compiled = wg.compile(lambda arrays, x: nn.call_with(structure, arrays, x))
    results = [compiled(model.arrays(), np.full((1, 2), float(k))).tolist() for k in range(3)]

    assert results == [model(np.full((1, 2), float(k))).data.tolist() for k in range(3)]
    assert compiled.info.records == 1
    with pytest.raises(InputError, match="it has no generator"):
        structure.train().holding(model.arrays())(np.ones((1, 2)))


class TwoDrops(nn.Module):
    def __init__(self, rng: np.random.Generator, other: np.random.Generator) -> None:
        self.linear = nn.Linear(3, 4, rng=rng)
        self.drop = nn.Dropout(0.5, rng=rng)
        self.other = nn.Dropout(0.2, rng=other)

    def forward(self, x: Any) -> Any:
        return self.drop(self.other(self.linear(self.drop(x))))


def make_two_drops() -> TwoDrops:
    return TwoDrops(np.random.default_rng(1), np.random.default_rng(7))


def test_masks_that_are_given_are_those_that_would_be_drawn() -> None:
    rng = np.random.default_rng(0)
    model, twin = make_two_drops(), make_two_drops()
    structure = model.emptied()
    compiled = wg.compile(lambda arrays, masks, x: structure.holding(arrays, masks)(x))
    notes = model.find_masks(lambda model: model(np.ones((5, 3))))
    for _ in range(4):
        x = rng.normal(size=(5, 3))
        assert np.allclose(compiled(model.arrays(), [note.draw() for note in notes], x), twin(x).data, rtol=1e-14)

    assert [note.shape for note in notes] == [(5, 3), (5, 4), (5, 4)]
    assert [note.layer for note in notes] == [model.drop, model.other, model.drop]
    assert (compiled.info.records, compiled.info.fallbacks) == (1, ())


def test_masks_that_do_not_fit_are_refused() -> None:
    model = make_two_drops()
    masks = [note.draw() for note in model.find_masks(lambda model: model(np.ones((5, 3))))]
    with pytest.raises(
        InputError, match=r"layer drop \(Dropout\): a mask of shape \(6, 3\) is needed, and it has shape"
    ):
        model.holding(model.arrays(), masks)(np.ones((6, 3)))
    with pytest.raises(InputError, match="there is none left"):
        model.holding(model.arrays(), masks[:2])(np.ones((5, 3)))


def test_vmap_draws_a_mask_for_each_example() -> None:
    layer = nn.Dropout(0.5, rng=np.random.default_rng(0))
    rows = wg.vmap(layer)(np.ones((4, 50)))

    assert len({tuple(row) for row in rows}) == 4


def test_a_traced_mask_is_certified() -> None:
    layer = nn.Dropout(0.5, rng=np.random.default_rng(0))
    circuit = wg.trace(lambda x: np.sum(layer(x)), np.ones(20))
    with pytest.raises(BranchError):
        circuit(x=np.full(20, 2.0))


def test_a_checkpoint_that_would_draw_another_mask_is_refused() -> None:
    layer = nn.Dropout(0.5, rng=np.random.default_rng(0))
    x = wg.Value(np.ones(50))
    with pytest.raises(GradientError, match="gave another result"):
        np.sum(wg.checkpoint(lambda x: layer(x * x))(x)).backward()


def test_running_means_move_in_training_alone() -> None:
    layer = nn.BatchNorm1d(2)
    x = np.array([[0.0, 10.0], [2.0, 30.0]])
    layer(x)
    moved = layer.buffers()
    layer.eval()(x)

    assert moved["running_mean"].tolist() == [0.1, 2.0]
    assert moved["running_var"].tolist() == [0.9 + 0.1 * 2.0, 0.9 + 0.1 * 200.0]
    assert moved["num_batches_tracked"] == 1.0
    assert {name: value is moved[name] for name, value in layer.buffers().items()} == dict.fromkeys(moved, True)


def test_running_means_hold_no_recording() -> None:
    layer = nn.BatchNorm1d(2)
    layer(wg.Value(np.random.default_rng(0).normal(size=(4, 2))))

    assert [type(value) for value in layer.buffers().values()] == [np.ndarray, np.ndarray, float]


def test_compiled_running_means_are_returned_and_right() -> None:
    layer = nn.BatchNorm1d(2)
    structure = layer.emptied()

    @wg.compile
    def compute(arrays: Any, buffers: Any, x: Any) -> Any:
        copy = structure.holding({**arrays, **buffers})
        return copy(x), copy.buffers()

    buffers = layer.buffers()
    for seed in range(5):
        x = np.random.default_rng(seed).normal(size=(4, 2))
        y, buffers = compute(layer.arrays(), buffers, x)
        assert np.allclose(y, layer(x).data, rtol=1e-12)
    assert {name: np.allclose(value, layer.buffers()[name]) for name, value in buffers.items()} == dict.fromkeys(
        buffers, True
    )
    assert compute.info.records == 1


def test_a_model_that_was_emptied_needs_its_running_means() -> None:
    layer = nn.BatchNorm1d(2)
    with pytest.raises(WiregradError, match="missing: running_mean, running_var, num_batches_tracked"):
        layer.emptied().holding(layer.arrays())


def test_a_compiled_model_follows_its_mode() -> None:
    layer = nn.BatchNorm1d(2)
    layer(np.random.default_rng(0).normal(size=(8, 2)) + 5.0)
    structure = layer.emptied().eval()
    compiled = wg.compile(lambda arrays, x: structure.holding(arrays)(x))
    state = {**layer.arrays(), **layer.buffers()}
    x = np.random.default_rng(1).normal(size=(4, 2))
    evaluated = compiled(state, x)
    structure.train()
    trained = compiled(state, x)

    assert np.allclose(evaluated, layer.eval()(x).data)
    assert np.allclose(trained, layer.train()(x).data)


R = np.random.default_rng(0)
X = np.ones((2, 3))
REFUSED_BY_LAYERS: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "linear shape": (
        lambda: nn.Linear(3, 2, rng=R)(np.ones((2, 4))),
        ShapeError,
        "weight of shape (2, 3) needs 3 along",
    ),
    "linear number": (lambda: nn.Linear(3, 2, rng=R)(1.0), ShapeError, "the input has shape ()"),
    "linear dtype": (lambda: nn.Linear(3, 2, rng=R)(np.ones((2, 3), int)), DomainError, "write x.astype(np.float64)"),
    "linear float32": (lambda: nn.Linear(3, 2, rng=R)(np.ones((2, 3), np.float32)), DomainError, "input is float32"),
    "conv channels": (
        lambda: nn.Conv2d(3, 2, 3, rng=R)(np.ones((1, 2, 5, 5))),
        ShapeError,
        "weight of shape (2, 3, 3, 3) needs 3 along its axis 1",
    ),
    "conv axes": (
        lambda: nn.Conv2d(3, 2, 3, rng=R)(np.ones((5, 5))),
        ShapeError,
        "needs 4 axes (batch, channels, ...)",
    ),
    "conv window": (
        lambda: nn.Conv2d(1, 2, 3, padding=(0, 1), dilation=(2, 1), rng=R)(np.ones((1, 1, 4, 5))),
        ShapeError,
        "Conv2d: the input has shape (1, 1, 4, 5), (4, 7) with its padding; a window needs (5, 3) along its last axes",
    ),
    "conv size": (
        lambda: nn.Conv2d(1, 2, (3, 3, 3), rng=R),
        InputError,
        "kernel_size is one number, or 2",
    ),
    "conv padding": (lambda: nn.Conv2d(1, 2, 3, padding="full", rng=R), InputError, "numbers, 'same' or 'valid'"),
    "conv padding mode": (
        lambda: nn.Conv2d(1, 2, 3, padding_mode="wrap", rng=R),
        InputError,
        "padding_mode is one of zeros, reflect, replicate, circular; got 'wrap'",
    ),
    "transposed channels": (
        lambda: nn.ConvTranspose1d(3, 2, 3, rng=R)(np.ones((1, 2, 5))),
        ShapeError,
        "weight of shape (3, 2, 3) needs 3 along its axis 1",
    ),
    "pool window": (lambda: nn.MaxPool2d(3)(np.ones((1, 2, 2))), ShapeError, "a window needs (3, 3)"),
    "adaptive size": (lambda: nn.AdaptiveAvgPool2d((1, 0)), InputError, "output_size[1] must be a whole number"),
    "adaptive axes": (lambda: nn.AdaptiveAvgPool2d(1)(X), ShapeError, "needs 4 axes (batch, channels, ...)"),
    "group count": (lambda: nn.GroupNorm(2, 3), InputError, "num_groups must divide num_channels; got 2 and 3"),
    "group channels": (lambda: nn.GroupNorm(2, 4)(X), ShapeError, "weight of shape (4,) needs 4 along its axis 1"),
    "slope channels": (lambda: nn.PReLU(4)(X), ShapeError, "weight of shape (4,) needs 4 along its axis 1"),
    "unflatten": (
        lambda: nn.Unflatten(1, (2, 2))(X),
        ShapeError,
        "an input of shape (2, 3) cannot be (2, 2)",
    ),
    "unflatten axis": (lambda: nn.Unflatten(2, (2, 2))(X), ShapeError, "needs an axis 2; got shape (2, 3)"),
    "negative size": (lambda: nn.Linear(-3, 2, rng=R), InputError, "Linear: in_features must be a whole number"),
    "size of a float": (lambda: nn.LSTM(3, 2.0, rng=R), InputError, "LSTM: hidden_size must be a whole number"),  # type: ignore[arg-type]
    "seed as generator": (lambda: nn.Linear(3, 2, rng=0), InputError, "np.random.default_rng(seed); got 0"),  # type: ignore[arg-type]
    "seed for rows": (lambda: nn.Embedding(3, 2, rng=0), InputError, "np.random.default_rng(seed); got 0"),  # type: ignore[arg-type]
    "function in a sequence": (
        lambda: nn.Sequential(nn.Tanh(), np.tanh),  # type: ignore[arg-type]
        InputError,
        "element 1 is <ufunc 'tanh'>",
    ),
    "attention values": (
        lambda: nn.MultiheadAttention(4, 2, rng=R)(np.ones((2, 1, 4)), np.ones((3, 1, 4)), np.ones((2, 1, 4))),
        ShapeError,
        "keys and values need the same shape, and queries the same batch; got query (2, 1, 4), key (3, 1, 4)",
    ),
    "attention batch": (
        lambda: nn.MultiheadAttention(4, 2, rng=R)(np.ones((2, 1, 4)), *[np.ones((2, 3, 4))] * 2),
        ShapeError,
        "queries the same batch",
    ),
    "conv groups": (lambda: nn.Conv1d(3, 2, 3, groups=2, rng=R), InputError, "groups must divide"),
    "pool axes": (lambda: nn.MaxPool2d(2)(np.ones((4, 4))), ShapeError, "needs 4 axes"),
    "pool setting": (lambda: nn.AvgPool2d(2, dilation=2), InputError, "AvgPool2d has no setting 'dilation'"),
    "batch norm channels": (lambda: nn.BatchNorm1d(4)(X), ShapeError, "weight of shape (4,) needs 4 along its axis 1"),
    "batch norm axes": (lambda: nn.BatchNorm2d(3)(X), ShapeError, "needs 4 axes"),
    "batch norm of one": (lambda: nn.BatchNorm1d(3)(np.ones((1, 3))), ShapeError, "more than one number for each"),
    "batch norm of none": (lambda: nn.BatchNorm1d(3)(np.ones((0, 3))), ShapeError, "more than one number for each"),
    "layer norm": (lambda: nn.LayerNorm(4)(X), ShapeError, "weight of shape (4,) needs its last axes"),
    "rms norm": (lambda: nn.RMSNorm((2, 4))(X), ShapeError, "weight of shape (2, 4) needs its last axes"),
    "padding row": (lambda: nn.Embedding(3, 2, 3, rng=R), InputError, "padding_idx is one of 3 rows; got 3"),
    "dropout of one layer": (lambda: nn.LSTM(3, 2, dropout=0.5, rng=R), InputError, "needs num_layers of 2 or more"),
    "dropout share": (lambda: nn.Dropout(1.5), InputError, "p must be between 0 and 1; got 1.5"),
    "dropout generator": (lambda: nn.Dropout(0.1)(X), InputError, "rng=np.random.default_rng(0)"),
    "embedding range": (lambda: nn.Embedding(3, 2, rng=R)([0, 3]), IndexingError, "must be 0 to 2"),
    "embedding negative": (lambda: nn.Embedding(3, 2, rng=R)([-1]), IndexingError, "got -1 to -1"),
    "embedding dtype": (lambda: nn.Embedding(3, 2, rng=R)([0.5]), DomainError, "must be whole numbers; got float64"),
    "rnn axes": (lambda: nn.RNN(3, 2, rng=R)(X[0]), ShapeError, "needs 3 axes (steps, batch, numbers), or 2 without"),
    "attention axes": (
        lambda: nn.MultiheadAttention(4, 2, rng=R)(X, X[0], X),
        ShapeError,
        "the inputs need 3 axes, or all",
    ),
    "rnn empty": (lambda: nn.RNN(3, 2, rng=R)(np.ones((0, 2, 3))), ShapeError, "none of them empty"),
    "lstm shape": (
        lambda: nn.LSTM(4, 2, rng=R)(np.ones((2, 1, 3))),
        ShapeError,
        "weight_ih_l0 of shape (8, 4) needs 4 along its last axis",
    ),
    "lstm start": (
        lambda: nn.LSTM(3, 2, rng=R)(np.ones((2, 1, 3)), (np.zeros((1, 1, 2)), np.zeros((1, 2, 2)))),
        ShapeError,
        "2 first states of shape (1, 1, 2) are needed",
    ),
    "lstm start dtype": (
        lambda: nn.LSTM(3, 2, rng=R)(np.ones((2, 1, 3)), [np.zeros((1, 1, 2), np.float32)] * 2),
        DomainError,
        "the first state is float32, and the input is float64",
    ),
    "attention mask of numbers": (
        lambda: nn.MultiheadAttention(4, 2, rng=R)(*[np.ones((2, 1, 4))] * 3, attn_mask=np.eye(2, dtype=int)),
        DomainError,
        "attn_mask must be numbers to add, or True where a key is left out; got int64; write mask.astype(bool)",
    ),
    "rnn activation": (lambda: nn.RNN(3, 2, nonlinearity="elu", rng=R), InputError, "'tanh' or 'relu'"),
    "attention heads": (lambda: nn.MultiheadAttention(4, 3, rng=R), InputError, "num_heads must divide embed_dim"),
    "attention width": (
        lambda: nn.MultiheadAttention(4, 2, rng=R)(*[np.ones((2, 1, 3))] * 3),
        ShapeError,
        "in_proj_weight of shape (12, 4) needs 4 along its last axis",
    ),
    "attention mask": (
        lambda: nn.MultiheadAttention(4, 2, rng=R)(*[np.ones((2, 1, 4))] * 3, attn_mask=np.ones((3, 3), bool)),
        ShapeError,
        "attn_mask needs the shape (2, 2); got (3, 3)",
    ),
    "emptied linear": (lambda: nn.Linear(3, 2, rng=R).emptied()(X), InputError, "call model.holding(arrays)"),
    "emptied table": (lambda: nn.Embedding(3, 2, rng=R).emptied()([0]), InputError, "call model.holding(arrays)"),
    "emptied means": (lambda: nn.BatchNorm1d(3, affine=False).emptied()(X), InputError, "call model.holding(arrays)"),
    "gelu": (lambda: nn.GELU("erf"), InputError, "'none' or 'tanh'"),
    "block": (lambda: nn.TransformerBlock(4, 2, activation="tanh", rng=R), InputError, "'relu' or 'gelu'"),
    "gain": (lambda: nn.initialisers.calculate_gain("swish"), InputError, "nonlinearity is one of"),
    "fans": (lambda: nn.initialisers.kaiming_normal((3,), R), ShapeError, "needs 2 axes or more"),
}


@pytest.mark.parametrize("name", REFUSED_BY_LAYERS)
def test_bad_input_is_refused(name: str) -> None:
    check_refusal(*REFUSED_BY_LAYERS[name])


def test_numbers_out_of_range_are_refused_by_compiled_functions_too() -> None:
    table = nn.Embedding(3, 2, rng=np.random.default_rng(0)).emptied()
    arrays = {"weight": np.arange(6.0).reshape(3, 2)}
    compiled = wg.compile(lambda arrays, numbers: nn.call_with(table, arrays, numbers.astype(int)))
    results = [compiled(arrays, np.array([float(k)])).tolist() for k in (0, 2, 1)]

    assert results == [[[0.0, 1.0]], [[4.0, 5.0]], [[2.0, 3.0]]]
    assert compiled.info.records == 1
    for number in (-1.0, 3.0):
        with pytest.raises(IndexingError):
            compiled(arrays, np.array([number]))


@pytest.mark.parametrize("shape", [(200, 300), (40, 20, 3, 3)])
def test_initial_weights_have_the_variance_that_is_asked_for(shape: tuple[int, ...]) -> None:
    init, rng = nn.initialisers, np.random.default_rng(0)
    fan_in, fan_out = init.count_fans(shape)

    assert np.std(init.xavier_uniform(shape, rng)) == pytest.approx((2.0 / (fan_in + fan_out)) ** 0.5, rel=0.05)
    assert np.std(init.xavier_normal(shape, rng, 3.0)) == pytest.approx(3 * (2.0 / (fan_in + fan_out)) ** 0.5, rel=0.05)
    assert np.std(init.kaiming_uniform(shape, rng)) == pytest.approx((2.0 / fan_in) ** 0.5, rel=0.05)
    assert np.std(init.kaiming_normal(shape, rng, mode="fan_out", nonlinearity="linear")) == pytest.approx(
        (1.0 / fan_out) ** 0.5, rel=0.05
    )


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 2, 3)])
def test_orthogonal_weights_are_orthogonal(shape: tuple[int, ...]) -> None:
    matrix = nn.initialisers.orthogonal(shape, np.random.default_rng(0)).reshape(shape[0], -1)
    product = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix

    assert np.allclose(product, np.eye(len(product)))


def test_the_network_of_single_numbers_learns() -> None:
    model = nn.scalar.MLP(3, [4, 4, 1], rng=np.random.default_rng(0))
    xs = [[2.0, 3.0, -1.0], [3.0, -1.0, 0.5], [0.5, 1.0, 1.0], [1.0, 1.0, -1.0]]
    ys = [1.0, -1.0, -1.0, 1.0]
    optimizer = wg.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = sum((model(x) - y) ** 2 for x, y in zip(xs, ys, strict=True))
        loss.backward()
        optimizer.step()
        losses.append(loss.data)

    assert losses[-1] < 0.05 < losses[0]
    assert len(model.parameters()) == 41
    assert "layers.1.neurons.2.w.0" in model.parameters()


def test_neurons_of_single_numbers_are_groups() -> None:
    model = nn.scalar.MLP(2, [2, 1], rng=np.random.default_rng(0))
    groups = {node.group for node in wg.run(model, [1.0, -2.0]).circuit.nodes}

    assert {"layers[0]/neurons[1]", "layers[1]/neurons[0]"} <= groups


DRAWN = {
    "Linear": (2, 3),
    "Conv1d": (2, 3, 1),
    "Conv2d": (2, 3, 1),
    "ConvTranspose2d": (2, 3, 1),
    "Embedding": (5, 2),
    "LSTM": (2, 3),
    "GRU": (2, 3),
    "MultiheadAttention": (4, 2),
    "TransformerBlock": (4, 2),
}


@pytest.mark.parametrize("name", [name for name in DRAWN if hasattr(nn, name)])
def test_a_layer_without_a_generator_says_what_to_write(name: str) -> None:
    layer = getattr(nn, name)

    with pytest.raises(TypeError, match=rf"{name} draws its weights: write {name}\(\.\.\., rng=np\.random"):
        layer(*DRAWN[name])
    assert layer(*DRAWN[name], rng=np.random.default_rng(0)).parameters()


def test_neurons_without_a_generator_say_what_to_write() -> None:
    with pytest.raises(TypeError, match="Neuron draws its weights"):
        nn.scalar.Neuron(2)
