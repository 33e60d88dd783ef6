"""Arguments people pass: containers of parameters, settings among them, keywords."""

from collections import namedtuple
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .points import MATRIX, VECTOR
from .snippet import at


@at({"w": MATRIX, "b": VECTOR[:3]})
def dict_of_parameters(params):
    return np.tanh(params["w"] @ np.ones(3) + params["b"])


@at({"a": 1.5, "b": -0.5})
def dict_of_numbers(p):
    return p["a"] ** 2 * p["b"]


@at([MATRIX, VECTOR[:3]])
def list_of_parameters(params):
    w, b = params
    return w @ b


@at([(MATRIX, VECTOR[:3]), (MATRIX.T, VECTOR[1:4])])
def list_of_layers(layers):
    h = np.ones(3)
    for w, b in layers:
        h = np.tanh(w @ h + b)
    return h


@at((0.5, VECTOR))
def tuple_of_parameters(params):
    scale, x = params
    return scale * x**2


Line = namedtuple("Line", ["slope", "intercept"])


@at(Line(1.2, -0.4))
def named_tuple(line):
    return (line.slope * np.arange(4.0) + line.intercept) ** 2


class Kernel(NamedTuple):
    length: float
    weights: np.ndarray


@at(Kernel(0.8, VECTOR))
def typed_named_tuple(kernel):
    return np.exp(-(kernel.weights**2) / kernel.length)


@dataclass
class Spring:
    stiffness: float
    rest: float


@at(Spring(2.0, 0.5))
def dataclass_of_numbers(spring):
    return 0.5 * spring.stiffness * (1.7 - spring.rest) ** 2


@dataclass(frozen=True)
class Layer:
    weights: np.ndarray
    bias: np.ndarray
    name: str = "layer"
    size: int = 3


@at(Layer(MATRIX, VECTOR[:3]))
def dataclass_with_settings(layer):
    return np.tanh(layer.weights @ np.ones(layer.size) + layer.bias) * len(layer.name)


@at({"rate": 0.3, "steps": 4, "method": "euler"})
def settings_among_parameters(p):
    y = 1.0
    for _ in range(p["steps"]):
        y = y * (1 - p["rate"]) if p["method"] == "euler" else y * np.exp(-p["rate"])
    return y


@at({"encoder": {"w": MATRIX}, "decoder": [VECTOR[:3], 2.0], "bias": None})
def nested_containers(p):
    return (p["decoder"][0] @ p["encoder"]["w"]) * p["decoder"][1]


@at(2.0, by_keyword=True)
def argument_by_keyword(x):
    return x**3


@at(VECTOR, 3, by_keyword=True)
def arguments_by_keyword(x, power):
    return x**power


@at(VECTOR)
def keyword_with_a_default(x, power=2, *, scale=0.5):
    return scale * x**power


@at(0.3, 0.5, 0.7)
def starred_arguments(*values):
    return sum(v**2 for v in values) * values[0]


@at(VECTOR, 2)
def whole_number_argument(x, n):
    return x[:n] ** n


@at(VECTOR, "sum")
def text_argument(x, reduction):
    loss = x**2
    return loss.sum() if reduction == "sum" else loss.mean()


@at(np.array([0.7]))
def result_of_shape_one(x):
    return np.sum(x**2, keepdims=True)


@at([0.5, 1.5, -0.3])
def list_of_numbers(values):
    return np.sum(np.array(values) ** 2)


@at([0.5, 1.5, -0.3])
def arithmetic_on_a_list(values):
    return sum(v * k for k, v in enumerate(values)) / len(values)
