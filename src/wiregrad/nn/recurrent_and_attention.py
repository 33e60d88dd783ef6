"""Layers for sequences, with PyTorch's names, arguments and parameter layouts: recurrent networks and attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

import wiregrad as wg
from wiregrad.errors import DomainError, InputError, ShapeError
from wiregrad.nn.initialisers import Generator, needs_rng, uniform, xavier_uniform
from wiregrad.nn.layers import (
    GELU,
    Dropout,
    LayerNorm,
    Linear,
    ReLU,
    as_array,
    check_axis,
    check_dtype,
    check_sizes,
    make_parameter,
)
from wiregrad.nn.module import Module


class Recurrent(Module):
    """What RNN, LSTM and GRU share: layers that read a sequence step by step, forwards or in both directions.

    Sequences are (steps, batch, numbers), or (batch, steps, numbers) with `batch_first`; a single sequence may be
    (steps, numbers). A call returns the outputs of the last layer, and the last state of every layer and direction.
    With `dropout`, some of the outputs of every layer but the last are dropped while training.
    """

    gates: int
    """How many vectors of the hidden size the weights compute for each step."""
    states: int = 1
    """How many vectors are carried from step to step."""

    @needs_rng
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        rng: Generator,
        dtype: DTypeLike = float,
    ) -> None:
        check_sizes(self, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        if dropout and num_layers == 1:
            raise InputError("dropout is between layers, so it needs num_layers of 2 or more")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.batch_first = batch_first
        self.bidirectional = bidirectional
        self.dropout = Dropout(dropout, rng=rng)
        bound = 1.0 / math.sqrt(hidden_size)
        rows = self.gates * hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * self._directions()
            for suffix in self._suffixes(layer):
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, width), "weight_hh": (rows, hidden_size)}
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
                for name, shape in shapes.items():
                    setattr(self, f"{name}_{suffix}", make_parameter(uniform(shape, rng, -bound, bound), dtype))

    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _suffixes(self, layer: int) -> list[str]:
        return [f"l{layer}", f"l{layer}_reverse"][: self._directions()]

    def step(self, x: Any, states: tuple[Any, ...], weight: Any, bias: Any) -> tuple[Any, ...]:
        """Return the states after one step: `x` is what the input contributes to each gate."""
        raise NotImplementedError

    def forward(self, x: Any, start: Any = None) -> tuple[Any, Any]:
        """Return the outputs of the last layer for every step, and the last states."""
        x = as_array(x)
        if x.ndim == 2:
            return self._read_single(x, start)
        self._check_input(x)
        if self.batch_first:
            x = wg.swapaxes(x, 0, 1)
        states = self._split_start(start, x)
        ends: list[tuple[Any, ...]] = []
        for layer in range(self.num_layers):
            outputs = []
            for suffix in self._suffixes(layer):
                steps, end = self._run_direction(x, states[len(ends)], suffix)
                outputs.append(steps)
                ends.append(end)
            x = outputs[0] if len(outputs) == 1 else wg.concatenate(outputs, axis=-1)
            if layer < self.num_layers - 1:
                x = self.dropout(x)
        last = tuple(wg.stack([end[k] for end in ends], axis=0) for k in range(self.states))
        return wg.swapaxes(x, 0, 1) if self.batch_first else x, last[0] if self.states == 1 else last

    def _read_single(self, x: Any, start: Any) -> tuple[Any, Any]:
        """Read one sequence as a batch of one."""
        batch = 0 if self.batch_first else 1
        if start is not None:
            states = start if self.states > 1 else [start]
            start = [wg.expand_dims(as_array(state), 1) for state in states]
            start = start if self.states > 1 else start[0]
        outputs, last = self(wg.expand_dims(x, batch), start)
        ends = [wg.squeeze(state, 1) for state in (last if self.states > 1 else [last])]
        return wg.squeeze(outputs, batch), tuple(ends) if self.states > 1 else ends[0]

    def _run_direction(self, x: Any, states: tuple[Any, ...], suffix: str) -> tuple[Any, tuple[Any, ...]]:
        """Run one layer in one direction; returns its outputs in the order of the input, and its last states."""
        bias = getattr(self, f"bias_hh_{suffix}", None)
        inputs = wg.linear(x, getattr(self, f"weight_ih_{suffix}"), getattr(self, f"bias_ih_{suffix}", None))
        order = range(x.shape[0])
        outputs: dict[int, Any] = {}
        for k in reversed(order) if suffix.endswith("reverse") else order:
            states = self.step(inputs[k], states, getattr(self, f"weight_hh_{suffix}"), bias)
            outputs[k] = states[0]
        return wg.stack([outputs[k] for k in order], axis=0), states

    def _check_input(self, x: Any) -> None:
        weight = self.weight_ih_l0  # type: ignore[attr-defined]
        check_dtype(self, x, weight, "weight_ih_l0")
        if x.ndim != 3 or 0 in x.shape:
            order = "(batch, steps, numbers)" if self.batch_first else "(steps, batch, numbers)"
            raise ShapeError(
                f"{self.describe()}: the input needs 3 axes {order}, or 2 without a batch, none of them empty, for "
                f"weight_ih_l0 of shape {weight.shape}; got {x.shape}"
            )
        check_axis(self, x, -1, self.input_size, weight, "weight_ih_l0")

    def _split_start(self, start: Any, x: Any) -> list[tuple[Any, ...]]:
        """Return the first states of every layer and direction; zeros unless they are given."""
        count = self.num_layers * self._directions()
        shape = (count, x.shape[1], self.hidden_size)
        if start is None:
            return [tuple(np.zeros(shape[1:], x.dtype) for _ in range(self.states))] * count
        given = [as_array(state) for state in (start if self.states > 1 else [start])]
        wrong = [state.shape for state in given if state.shape != shape]
        if wrong or len(given) != self.states:
            raise ShapeError(f"{self.describe()}: {self.states} first states of shape {shape} are needed; got {wrong}")
        for state in given:
            if state.dtype != x.dtype:
                raise DomainError(f"{self.describe()}: the first state is {state.dtype}, and the input is {x.dtype}")
        return [tuple(state[k] for state in given) for k in range(count)]

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        settings = {"num_layers": 1, "batch_first": False, "bidirectional": False}
        changed = [f"{name}={getattr(self, name)}" for name, usual in settings.items() if getattr(self, name) != usual]
        return ", ".join([str(self.input_size), str(self.hidden_size), *changed])


class RNN(Recurrent):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or with `nonlinearity="relu"` that of relu.

    >>> outputs, last = RNN(3, 4, rng=np.random.default_rng(0))(np.zeros((5, 2, 3)))
    >>> outputs.shape, last.shape
    ((5, 2, 4), (1, 2, 4))
    """

    gates = 1

    def __init__(self, *args: Any, nonlinearity: str = "tanh", **settings: Any) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise InputError(f"nonlinearity is 'tanh' or 'relu'; got {nonlinearity!r}")
        self.nonlinearity = nonlinearity
        super().__init__(*args, **settings)

    def step(self, x: Any, states: tuple[Any, ...], weight: Any, bias: Any) -> tuple[Any, ...]:
        """Return the hidden state after one step."""
        total = x + wg.linear(states[0], weight, bias)
        return (wg.tanh(total) if self.nonlinearity == "tanh" else wg.relu(total),)


class LSTM(Recurrent):
    """Long short-term memory: a cell is kept, written and read as the input, forget and output gates say.

    >>> outputs, (hidden, cell) = LSTM(3, 4, rng=np.random.default_rng(0))(np.zeros((5, 2, 3)))
    >>> outputs.shape, hidden.shape, cell.shape
    ((5, 2, 4), (1, 2, 4), (1, 2, 4))
    """

    gates = 4
    states = 2

    def step(self, x: Any, states: tuple[Any, ...], weight: Any, bias: Any) -> tuple[Any, ...]:
        """Return the hidden state and the cell after one step."""
        hidden, cell = states
        write, keep, content, read = _split(x + wg.linear(hidden, weight, bias), 4)
        cell = wg.sigmoid(keep) * cell + wg.sigmoid(write) * wg.tanh(content)
        return wg.sigmoid(read) * wg.tanh(cell), cell


class GRU(Recurrent):
    """Gated recurrent unit: the hidden state moves towards a new one as far as the update gate says.

    >>> outputs, last = GRU(3, 4, bidirectional=True, rng=np.random.default_rng(0))(np.zeros((5, 2, 3)))
    >>> outputs.shape, last.shape
    ((5, 2, 8), (2, 2, 4))
    """

    gates = 3

    def step(self, x: Any, states: tuple[Any, ...], weight: Any, bias: Any) -> tuple[Any, ...]:
        """Return the hidden state after one step."""
        (hidden,) = states
        reset_in, update_in, new_in = _split(x, 3)
        reset_hidden, update_hidden, new_hidden = _split(wg.linear(hidden, weight, bias), 3)
        reset = wg.sigmoid(reset_in + reset_hidden)
        update = wg.sigmoid(update_in + update_hidden)
        new = wg.tanh(new_in + reset * new_hidden)
        return ((1.0 - update) * new + update * hidden,)


def _split(x: Any, count: int) -> Sequence[Any]:
    """Return equal parts of the last axis."""
    size = x.shape[-1] // count
    return [x[..., k * size : (k + 1) * size] for k in range(count)]


class MultiheadAttention(Module):
    """Attention: each query takes a mean of values, weighted by how well their keys fit it, in several heads.

    Sequences are (steps, batch, numbers), or (batch, steps, numbers) with `batch_first`; single ones may be
    (steps, numbers). A call returns the outputs and the weights, (batch, queries, keys), as the mean over heads.

    >>> layer = MultiheadAttention(4, 2, batch_first=True, rng=np.random.default_rng(0))
    >>> x = np.zeros((3, 5, 4))
    >>> outputs, weights = layer(x, x, x)
    >>> outputs.shape, weights.shape
    ((3, 5, 4), (3, 5, 5))
    """

    @needs_rng
    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        batch_first: bool = False,
        *,
        rng: Generator,
        dtype: DTypeLike = float,
    ) -> None:
        check_sizes(self, embed_dim=embed_dim, num_heads=num_heads)
        if embed_dim % num_heads:
            raise InputError(f"num_heads must divide embed_dim; got {num_heads} and {embed_dim}")
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.batch_first = batch_first
        self.in_proj_weight = make_parameter(xavier_uniform((3 * embed_dim, embed_dim), rng), dtype)
        self.in_proj_bias = make_parameter(np.zeros(3 * embed_dim), dtype) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, rng=rng, dtype=dtype)
        if bias:
            self.out_proj.bias = make_parameter(np.zeros(embed_dim), dtype)
        self.dropout = Dropout(dropout, rng=rng)

    def forward(
        self, query: Any, key: Any, value: Any, key_padding_mask: Any = None, attn_mask: Any = None
    ) -> tuple[Any, Any]:
        """Return outputs and weights.

        `attn_mask` (queries, keys) and `key_padding_mask` (batch, keys) are added to the scores, or True where a key
        is not to be attended to.
        """
        inputs = [as_array(x) for x in (query, key, value)]
        if all(x.ndim == 2 for x in inputs):
            batch = 0 if self.batch_first else 1
            padding = None if key_padding_mask is None else as_array(key_padding_mask)[None]
            outputs, weights = self(*(wg.expand_dims(x, batch) for x in inputs), padding, attn_mask)
            return wg.squeeze(outputs, batch), wg.squeeze(weights, 0)
        self._check_inputs(inputs)
        if not self.batch_first:
            inputs = [wg.swapaxes(x, 0, 1) for x in inputs]
        queries, keys, values = (self._project(x, k) for k, x in enumerate(inputs))
        scores = queries @ wg.swapaxes(keys, -1, -2) / math.sqrt(self.embed_dim // self.num_heads)
        scores = scores + self._join_masks(scores, key_padding_mask, attn_mask)
        weights = wg.softmax(scores, axis=-1)
        heads = wg.swapaxes(self.dropout(weights) @ values, 1, 2)
        outputs = self.out_proj(wg.reshape(heads, inputs[0].shape))
        return outputs if self.batch_first else wg.swapaxes(outputs, 0, 1), wg.mean(weights, axis=1)

    def _project(self, x: Any, k: int) -> Any:
        """Return queries, keys or values as (batch, heads, steps, numbers)."""
        rows = slice(k * self.embed_dim, (k + 1) * self.embed_dim)
        bias = None if self.in_proj_bias is None else self.in_proj_bias[rows]
        y = wg.linear(x, self.in_proj_weight[rows], bias)
        batch, steps, width = y.shape
        return wg.swapaxes(wg.reshape(y, (batch, steps, self.num_heads, width // self.num_heads)), 1, 2)

    def _check_inputs(self, inputs: list[Any]) -> None:
        for x in inputs:
            check_dtype(self, x, self.in_proj_weight, "in_proj_weight")
            if x.ndim != 3:
                raise ShapeError(
                    f"{self.describe()}: the inputs need 3 axes, or all of them 2 without a batch, for in_proj_weight "
                    f"of shape {self.in_proj_weight.shape}; got {x.shape}"
                )
            check_axis(self, x, -1, self.embed_dim, self.in_proj_weight, "in_proj_weight")
        query, key, value = inputs
        batch = 0 if self.batch_first else 1
        if key.shape != value.shape or query.shape[batch] != key.shape[batch]:
            raise ShapeError(
                f"{self.describe()}: keys and values need the same shape, and queries the same batch; got query "
                f"{query.shape}, key {key.shape} and value {value.shape}"
            )

    def _join_masks(self, scores: Any, padding: Any, mask: Any) -> Any:
        """Return what is added to scores (batch, heads, queries, keys): -inf where a key is left out."""
        batch, _, queries, keys = scores.shape
        total: Any = 0.0
        for given, shape, name in ((mask, (queries, keys), "attn_mask"), (padding, (batch, keys), "key_padding_mask")):
            if given is None:
                continue
            array = as_array(given)
            if array.shape != shape:
                raise ShapeError(f"{self.describe()}: {name} needs the shape {shape}; got {array.shape}")
            if array.dtype.kind not in "bf":
                raise DomainError(
                    f"{self.describe()}: {name} must be numbers to add, or True where a key is left out; got "
                    f"{array.dtype}; write mask.astype(bool)"
                )
            added = np.where(array, -np.inf, 0.0) if array.dtype == bool else array
            added = added.astype(scores.dtype)
            total = total + (added if name == "attn_mask" else wg.reshape(added, (batch, 1, 1, keys)))
        return total

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, batch_first={self.batch_first}"


class TransformerBlock(Module):
    """Attention of a sequence to itself and two linear layers, each with a shortcut and a normalization.

    Its parameters have the names of PyTorch's `TransformerEncoderLayer`. With `norm_first` the normalizations are
    before the layers instead of behind the sums.

    >>> block = TransformerBlock(4, 2, 8, dropout=0.0, batch_first=True, rng=np.random.default_rng(0))
    >>> block(np.zeros((3, 5, 4))).shape
    (3, 5, 4)
    """

    @needs_rng
    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        *,
        rng: Generator,
        dtype: DTypeLike = float,
    ) -> None:
        if activation not in ("relu", "gelu"):
            raise InputError(f"activation is 'relu' or 'gelu'; got {activation!r}")
        self.norm_first = norm_first
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, rng=rng, dtype=dtype)
        self.linear1 = Linear(d_model, dim_feedforward, rng=rng, dtype=dtype)
        self.activation = ReLU() if activation == "relu" else GELU()
        self.dropout = Dropout(dropout, rng=rng)
        self.linear2 = Linear(dim_feedforward, d_model, rng=rng, dtype=dtype)
        self.norm1 = LayerNorm(d_model, layer_norm_eps, dtype=dtype)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, dtype=dtype)
        self.dropout1 = Dropout(dropout, rng=rng)
        self.dropout2 = Dropout(dropout, rng=rng)

    def forward(self, x: Any, src_mask: Any = None, src_key_padding_mask: Any = None) -> Any:
        """Return a sequence of the same shape."""
        x = as_array(x)
        if self.norm_first:
            x = x + self._attend(self.norm1(x), src_mask, src_key_padding_mask)
            return x + self._feed(self.norm2(x))
        x = self.norm1(x + self._attend(x, src_mask, src_key_padding_mask))
        return self.norm2(x + self._feed(x))

    def _attend(self, x: Any, mask: Any, padding: Any) -> Any:
        outputs, _ = self.self_attn(x, x, x, padding, mask)
        return self.dropout1(outputs)

    def _feed(self, x: Any) -> Any:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))
