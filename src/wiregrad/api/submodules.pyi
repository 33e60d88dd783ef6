# Python finds no module of this name: `wiregrad` itself loads these packages on first use, and they import `wiregrad`.
# Import it under `TYPE_CHECKING`.
from wiregrad import nn as nn
from wiregrad import optim as optim
from wiregrad.training import draw_batches as draw_batches
from wiregrad.training import mean_value_and_grad as mean_value_and_grad
from wiregrad.training import train as train

__all__ = ["draw_batches", "mean_value_and_grad", "nn", "optim", "train"]
