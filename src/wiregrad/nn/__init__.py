"""Networks: modules, layers, losses and initial weights with PyTorch's names, on wiregrad's public functions alone.

Start with `module.py`: what a module is, how its parameters are named, and how a model is called as a pure function of
a dict of arrays. `layers.py` has the layers and activations, `recurrent_and_attention.py` those for sequences,
`losses.py` the losses, `initialisers.py` the distributions of initial weights. `scalar.py` is a network of single
numbers in forty lines, to be read first by whoever learns how networks are trained.

Optimisers are in `wiregrad.optim`.
"""

from typing import TYPE_CHECKING

from wiregrad.errors import suggest_name
from wiregrad.nn import initialisers, scalar
from wiregrad.nn.layers import (
    ELU,
    GELU,
    SELU,
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AvgPool1d,
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    Conv1d,
    Conv2d,
    ConvTranspose1d,
    ConvTranspose2d,
    Dropout,
    Embedding,
    Flatten,
    GroupNorm,
    Identity,
    LayerNorm,
    LeakyReLU,
    Linear,
    LogSigmoid,
    LogSoftmax,
    MaxPool1d,
    MaxPool2d,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    RMSNorm,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
    Unflatten,
)
from wiregrad.nn.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    hinge_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    multi_margin_loss,
    nll_loss,
    smooth_l1_loss,
)
from wiregrad.nn.module import AveragedModel, Module, Sequential, call_with, load_arrays, save_arrays
from wiregrad.nn.recurrent_and_attention import GRU, LSTM, RNN, MultiheadAttention, TransformerBlock

__all__ = [
    "ELU",
    "GELU",
    "GRU",
    "LSTM",
    "RNN",
    "SELU",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AveragedModel",
    "AvgPool1d",
    "AvgPool2d",
    "BatchNorm1d",
    "BatchNorm2d",
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "Dropout",
    "Embedding",
    "Flatten",
    "GroupNorm",
    "Identity",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MaxPool1d",
    "MaxPool2d",
    "Mish",
    "Module",
    "MultiheadAttention",
    "PReLU",
    "RMSNorm",
    "ReLU",
    "ReLU6",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
    "TransformerBlock",
    "Unflatten",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "call_with",
    "cross_entropy",
    "hinge_loss",
    "huber_loss",
    "initialisers",
    "kl_div",
    "l1_loss",
    "load_arrays",
    "mse_loss",
    "multi_margin_loss",
    "nll_loss",
    "save_arrays",
    "scalar",
    "smooth_l1_loss",
]

NAMES_IN_PYTORCH = {
    "Parameter": "a parameter is wg.Value(array)",
    "ModuleList": "an attribute may be a list of modules",
    "ModuleDict": "an attribute may be a dict of modules",
    "TransformerEncoderLayer": "write TransformerBlock",
    "functional": "losses are in nn itself, and functions such as wg.relu in wiregrad",
    "init": "write nn.initialisers",
    "utils": "write optim.clip_grad_norm and optim.clip_grad_value",
    "CrossEntropyLoss": "the loss is a function, nn.cross_entropy",
    "Dense": "write nn.Linear(inputs, outputs)",
    "NLLLoss": "the loss is a function, nn.nll_loss",
    "MSELoss": "the loss is a function, nn.mse_loss",
    "L1Loss": "the loss is a function, nn.l1_loss",
    "SmoothL1Loss": "the loss is a function, nn.smooth_l1_loss",
    "HuberLoss": "the loss is a function, nn.huber_loss",
    "BCELoss": "the loss is a function, nn.binary_cross_entropy",
    "BCEWithLogitsLoss": "the loss is a function, nn.binary_cross_entropy_with_logits",
    "KLDivLoss": "the loss is a function, nn.kl_div",
    "MultiMarginLoss": "the loss is a function, nn.multi_margin_loss",
}
"""What `torch.nn` or Keras has under another name, and what to write instead."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in NAMES_IN_PYTORCH:
            hint = f"; {NAMES_IN_PYTORCH[name]}"
        else:
            hint = f"; write nn.scalar.{name}" if name in scalar.__all__ else suggest_name(name, __all__)
        raise AttributeError(f"wiregrad.nn has no {name!r}{hint}", name=name)
