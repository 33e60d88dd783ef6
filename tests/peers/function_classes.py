"""Classes in the style of PyTorch's tutorials on `autograd.Function`.

Each is made by a function `make(base, m)`: the base class and the module of mathematical functions are all that differs
between PyTorch (`torch.autograd.Function`, `torch`) and wiregrad (`wg.Function`, `numpy`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Make = Callable[[type, Any], Any]


class Case(NamedTuple):
    """A class, and what its `apply` is called with: arrays to differentiate by, then arguments that are no arrays."""

    make: Make
    inputs: tuple[Any, ...]
    settings: tuple[Any, ...] = ()


class Formula(NamedTuple):
    """An elementwise function with its slope, by the input, and by the output where there is such a form."""

    value: Callable[[Any, Any], Any]
    slope: Callable[[Any, Any], Any]
    slope_by_output: Callable[[Any, Any], Any] | None = None


CASES: dict[str, Case] = {}

NUMBER = 0.7
VECTOR = np.array([0.35, 0.8, 1.3])
OTHER_VECTOR = np.array([1.1, 0.45, 0.9])
MATRIX = np.array([[0.4, 1.2, 0.7], [1.05, 0.3, 0.85]])
OTHER_MATRIX = np.array([[0.9, 0.2, 0.6], [0.15, 1.4, 0.75]])
SQUARE = np.array([[2.0, 0.3, -0.4], [0.1, 1.5, 0.2], [-0.3, 0.4, 1.8]])
MIXED = np.array([[-0.4, 1.2, 0.7], [1.05, -0.3, -0.85]])

FORMULAS: dict[str, Formula] = {
    "exp": Formula(lambda m, x: m.exp(x), lambda m, x: m.exp(x), lambda m, y: y),
    "expm1": Formula(lambda m, x: m.expm1(x), lambda m, x: m.exp(x), lambda m, y: y + 1),
    "sin": Formula(lambda m, x: m.sin(x), lambda m, x: m.cos(x)),
    "cos": Formula(lambda m, x: m.cos(x), lambda m, x: -m.sin(x)),
    "tan": Formula(lambda m, x: m.tan(x), lambda m, x: 1 / m.cos(x) ** 2, lambda m, y: 1 + y * y),
    "tanh": Formula(lambda m, x: m.tanh(x), lambda m, x: 1 / m.cosh(x) ** 2, lambda m, y: 1 - y * y),
    "sigmoid": Formula(
        lambda m, x: 1 / (1 + m.exp(-x)),
        lambda m, x: m.exp(-x) / (1 + m.exp(-x)) ** 2,
        lambda m, y: y * (1 - y),
    ),
    "softplus": Formula(lambda m, x: m.log1p(m.exp(x)), lambda m, x: 1 / (1 + m.exp(-x)), lambda m, y: 1 - m.exp(-y)),
    "sqrt": Formula(lambda m, x: m.sqrt(x), lambda m, x: 0.5 / m.sqrt(x), lambda m, y: 0.5 / y),
    "log": Formula(lambda m, x: m.log(x), lambda m, x: 1 / x, lambda m, y: m.exp(-y)),
    "log1p": Formula(lambda m, x: m.log1p(x), lambda m, x: 1 / (1 + x), lambda m, y: m.exp(-y)),
    "reciprocal": Formula(lambda m, x: 1 / x, lambda m, x: -1 / x**2, lambda m, y: -y * y),
    "rsqrt": Formula(lambda m, x: x**-0.5, lambda m, x: -0.5 * x**-1.5, lambda m, y: -0.5 * y**3),
    "square": Formula(lambda m, x: x * x, lambda m, x: 2 * x, lambda m, y: 2 * m.sqrt(y)),
    "cube": Formula(lambda m, x: x**3, lambda m, x: 3 * x**2),
    "sinh": Formula(lambda m, x: m.sinh(x), lambda m, x: m.cosh(x), lambda m, y: m.sqrt(1 + y * y)),
    "arctan": Formula(lambda m, x: m.arctan(x), lambda m, x: 1 / (1 + x * x), lambda m, y: m.cos(y) ** 2),
    "gaussian": Formula(lambda m, x: m.exp(-x * x), lambda m, x: -2 * x * m.exp(-x * x)),
}
SHAPES = (VECTOR, MATRIX, NUMBER)


def case(name: str, *inputs: Any, settings: tuple[Any, ...] = ()) -> Callable[[Make], Make]:
    """Register the class that the decorated function makes."""

    def register(make: Make) -> Make:
        assert name not in CASES
        CASES[name] = Case(make, inputs, settings)
        return make

    return register


def register_formulas(
    style: str, template: Callable[[Formula], Make], *, by_output: bool = False, every: int = 1
) -> None:
    """Register a style of class for the formulas that it can be written for."""
    names = [name for name, formula in FORMULAS.items() if not by_output or formula.slope_by_output is not None]
    for k, name in enumerate(names[::every]):
        case(f"{style}: {name}", SHAPES[k % len(SHAPES)])(template(FORMULAS[name]))


# One input, one output.


def saved_input(formula: Formula) -> Make:
    def make(base: type, m: Any) -> Any:
        class SavedInput(base):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(x)
                return formula.value(m, x)

            @staticmethod
            def backward(ctx: Any, grad_output: Any) -> Any:
                (x,) = ctx.saved_tensors
                return grad_output * formula.slope(m, x)

        return SavedInput

    return make


def saved_output(formula: Formula) -> Make:
    def make(base: type, m: Any) -> Any:
        class SavedOutput(base):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                result = formula.value(m, x)
                ctx.save_for_backward(result)
                return result

            @staticmethod
            def backward(ctx: Any, grad_output: Any) -> Any:
                (result,) = ctx.saved_tensors
                return grad_output * formula.slope_by_output(m, result)

        return SavedOutput

    return make


def saved_both(formula: Formula) -> Make:
    def make(base: type, m: Any) -> Any:
        class SavedBoth(base):
            """x times f(x): its slope has both the input and the output in it."""

            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                y = x * formula.value(m, x)
                ctx.save_for_backward(x, y)
                return y

            @staticmethod
            def backward(ctx: Any, grad_output: Any) -> Any:
                x, y = ctx.saved_tensors
                return grad_output * (y / x + x * formula.slope(m, x))

        return SavedBoth

    return make


def setup_input(formula: Formula) -> Make:
    def make(base: type, m: Any) -> Any:
        class SetupInput(base):
            @staticmethod
            def forward(x: Any) -> Any:
                return formula.value(m, x)

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                (x,) = inputs
                ctx.save_for_backward(x)

            @staticmethod
            def backward(ctx: Any, grad_output: Any) -> Any:
                (x,) = ctx.saved_tensors
                return grad_output * formula.slope(m, x)

        return SetupInput

    return make


def setup_output(formula: Formula) -> Make:
    def make(base: type, m: Any) -> Any:
        class SetupOutput(base):
            @staticmethod
            def forward(x: Any) -> Any:
                return formula.value(m, x)

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                ctx.save_for_backward(output)

            @staticmethod
            def backward(ctx: Any, grad_output: Any) -> Any:
                (output,) = ctx.saved_tensors
                return grad_output * formula.slope_by_output(m, output)

        return SetupOutput

    return make


def input_as_attribute(formula: Formula) -> Make:
    def make(base: type, m: Any) -> Any:
        class InputAsAttribute(base):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.x = x
                return formula.value(m, x)

            @staticmethod
            def backward(ctx: Any, grad_output: Any) -> Any:
                return grad_output * formula.slope(m, ctx.x)

        return InputAsAttribute

    return make


def output_in_a_container(formula: Formula) -> Make:
    def make(base: type, m: Any) -> Any:
        class OutputInContainer(base):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                y = formula.value(m, x)
                ctx.cache = {"inputs": [x], "outputs": (y,)}
                return y

            @staticmethod
            def backward(ctx: Any, grad_output: Any) -> Any:
                (y,) = ctx.cache["outputs"]
                return grad_output * formula.slope_by_output(m, y)

        return OutputInContainer

    return make


def scaled(formula: Formula) -> Make:
    def make(base: type, m: Any) -> Any:
        class Scaled(base):
            @staticmethod
            def forward(ctx: Any, x: Any, scale: float, name: str) -> Any:
                ctx.save_for_backward(x)
                ctx.scale, ctx.name = scale, name
                return formula.value(m, x * scale)

            @staticmethod
            def backward(ctx: Any, grad_output: Any) -> Any:
                (x,) = ctx.saved_tensors
                return grad_output * ctx.scale * formula.slope(m, x * ctx.scale), None, None

        return Scaled

    return make


def quantised(formula: Formula) -> Make:
    def make(base: type, m: Any) -> Any:
        class Quantised(base):
            """A rounded function with the slope of the function itself."""

            check = False

            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(x)
                return m.round(formula.value(m, x) * 4) / 4

            @staticmethod
            def backward(ctx: Any, grad_output: Any) -> Any:
                (x,) = ctx.saved_tensors
                return grad_output * formula.slope(m, x)

        return Quantised

    return make


def quantised_output(formula: Formula) -> Make:
    def make(base: type, m: Any) -> Any:
        class QuantisedOutput(base):
            """The slope is taken at the rounded output, whose own derivative is this very rule."""

            check = False

            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                y = m.round(formula.value(m, x) * 8 + 1) / 8
                ctx.save_for_backward(y)
                return y

            @staticmethod
            def backward(ctx: Any, grad_output: Any) -> Any:
                (y,) = ctx.saved_tensors
                return grad_output * formula.slope_by_output(m, y)

        return QuantisedOutput

    return make


register_formulas("saved input", saved_input)
register_formulas("saved output", saved_output, by_output=True)
register_formulas("saved input and output", saved_both)
register_formulas("setup_context, input", setup_input, every=2)
register_formulas("setup_context, output", setup_output, by_output=True, every=2)
register_formulas("input as attribute", input_as_attribute, every=2)
register_formulas("output in a container", output_in_a_container, by_output=True, every=2)
register_formulas("straight-through", quantised, every=2)
register_formulas("straight-through by its output", quantised_output, by_output=True, every=2)
for _k, _name in enumerate(list(FORMULAS)[::2]):
    case(f"non-tensor arguments: {_name}", SHAPES[_k % 3], settings=(0.6, "scale"))(scaled(FORMULAS[_name]))


# Powers and other functions with a number among their arguments.


def power(base: type, m: Any) -> Any:
    class Power(base):
        @staticmethod
        def forward(ctx: Any, x: Any, n: int) -> Any:
            ctx.save_for_backward(x)
            ctx.n = n
            return x**n

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad_output * ctx.n * x ** (ctx.n - 1), None

    return Power


def power_by_output(base: type, m: Any) -> Any:
    class PowerByOutput(base):
        @staticmethod
        def forward(x: Any, n: float) -> Any:
            return x**n

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            x, ctx.n = inputs
            ctx.save_for_backward(x, output)

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            x, y = ctx.saved_tensors
            return grad_output * ctx.n * y / x, None

    return PowerByOutput


def polynomial(base: type, m: Any) -> Any:
    class Polynomial(base):
        @staticmethod
        def forward(ctx: Any, x: Any, coefficients: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.coefficients = coefficients
            return sum(c * x**k for k, c in enumerate(coefficients))

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (x,) = ctx.saved_tensors
            slope = sum(k * c * x ** (k - 1) for k, c in enumerate(ctx.coefficients) if k)
            return grad_output * slope, None

    return Polynomial


for _n in (2, 3, 4, 5):
    case(f"power {_n}", SHAPES[_n % 3], settings=(_n,))(power)
for _exponent in (0.5, 1.5, -1.0, 2.5):
    case(f"power {_exponent} by its output", VECTOR, settings=(_exponent,))(power_by_output)
for _coefficients in ((1.0, 2.0, 3.0), (0.5, 0.0, -1.5, 2.0)):
    case(f"polynomial {_coefficients}", MATRIX, settings=(_coefficients,))(polynomial)


@case("legendre polynomial", MATRIX)
def legendre(base: type, m: Any) -> Any:
    class LegendrePolynomial3(base):
        @staticmethod
        def forward(ctx: Any, input: Any) -> Any:
            ctx.save_for_backward(input)
            return 0.5 * (5 * input**3 - 3 * input)

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (input,) = ctx.saved_tensors
            return grad_output * 1.5 * (5 * input**2 - 1)

    return LegendrePolynomial3


# Two inputs.


class Binary(NamedTuple):
    value: Callable[[Any, Any, Any], Any]
    slopes: Callable[[Any, Any, Any], tuple[Any, Any]]
    slopes_by_output: Callable[[Any, Any, Any, Any], tuple[Any, Any]]


BINARY: dict[str, Binary] = {
    "product": Binary(lambda m, a, b: a * b, lambda m, a, b: (b, a), lambda m, a, b, y: (y / a, y / b)),
    "quotient": Binary(lambda m, a, b: a / b, lambda m, a, b: (1 / b, -a / b**2), lambda m, a, b, y: (y / a, -y / b)),
    "power": Binary(
        lambda m, a, b: a**b,
        lambda m, a, b: (b * a ** (b - 1), m.log(a) * a**b),
        lambda m, a, b, y: (b * y / a, y * m.log(a)),
    ),
    "length": Binary(
        lambda m, a, b: m.sqrt(a * a + b * b),
        lambda m, a, b: (a / m.sqrt(a * a + b * b), b / m.sqrt(a * a + b * b)),
        lambda m, a, b, y: (a / y, b / y),
    ),
    "log of sum of exponentials": Binary(
        lambda m, a, b: m.log(m.exp(a) + m.exp(b)),
        lambda m, a, b: (1 / (1 + m.exp(b - a)), 1 / (1 + m.exp(a - b))),
        lambda m, a, b, y: (m.exp(a - y), m.exp(b - y)),
    ),
}


def binary_saved_inputs(binary: Binary) -> Make:
    def make(base: type, m: Any) -> Any:
        class SavedInputs(base):
            @staticmethod
            def forward(ctx: Any, a: Any, b: Any) -> Any:
                ctx.save_for_backward(a, b)
                return binary.value(m, a, b)

            @staticmethod
            def backward(ctx: Any, grad_output: Any) -> Any:
                by_a, by_b = binary.slopes(m, *ctx.saved_tensors)
                grad_a = grad_b = None
                if ctx.needs_input_grad[0]:
                    grad_a = grad_output * by_a
                if ctx.needs_input_grad[1]:
                    grad_b = grad_output * by_b
                return grad_a, grad_b

        return SavedInputs

    return make


def binary_saved_all(binary: Binary) -> Make:
    def make(base: type, m: Any) -> Any:
        class SavedAll(base):
            @staticmethod
            def forward(a: Any, b: Any) -> Any:
                return binary.value(m, a, b)

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                ctx.save_for_backward(*inputs, output)

            @staticmethod
            def backward(ctx: Any, grad_output: Any) -> Any:
                by_a, by_b = binary.slopes_by_output(m, *ctx.saved_tensors)
                return grad_output * by_a, grad_output * by_b

        return SavedAll

    return make


def binary_first_only(binary: Binary) -> Make:
    def make(base: type, m: Any) -> Any:
        class FirstOnly(base):
            """None as the gradient by the second input: it counts as a constant."""

            check = False

            @staticmethod
            def forward(ctx: Any, a: Any, b: Any) -> Any:
                y = binary.value(m, a, b)
                ctx.save_for_backward(a, b, y)
                return y

            @staticmethod
            def backward(ctx: Any, grad_output: Any) -> Any:
                by_a, _ = binary.slopes_by_output(m, *ctx.saved_tensors)
                return grad_output * by_a, None

        return FirstOnly

    return make


for _name, _binary in BINARY.items():
    case(f"two saved inputs: {_name}", VECTOR, OTHER_VECTOR)(binary_saved_inputs(_binary))
    case(f"inputs and output saved: {_name}", MATRIX, OTHER_MATRIX)(binary_saved_all(_binary))
    case(f"None for the second input: {_name}", NUMBER, 1.2)(binary_first_only(_binary))


@case("matrix product", MATRIX, SQUARE)
def matrix_product(base: type, m: Any) -> Any:
    class MatMul(base):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            return a.mm(b)

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            a, b = ctx.saved_tensors
            return grad_output.mm(b.t()), a.t().mm(grad_output)

    return MatMul


@case("linear", MATRIX, SQUARE, VECTOR)
@case("linear without bias", MATRIX, SQUARE, settings=(None,))
def linear(base: type, m: Any) -> Any:
    class LinearFunction(base):
        @staticmethod
        def forward(ctx: Any, input: Any, weight: Any, bias: Any = None) -> Any:
            ctx.save_for_backward(input, weight, bias)
            output = input.mm(weight.t())
            if bias is not None:
                output = output + bias.unsqueeze(0).expand_as(output)
            return output

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            input, weight, bias = ctx.saved_tensors
            grad_input = grad_weight = grad_bias = None
            if ctx.needs_input_grad[0]:
                grad_input = grad_output.mm(weight)
            if ctx.needs_input_grad[1]:
                grad_weight = grad_output.t().mm(input)
            if bias is not None and ctx.needs_input_grad[2]:
                grad_bias = grad_output.sum(0)
            return grad_input, grad_weight, grad_bias

    return LinearFunction


@case("inner product", VECTOR, OTHER_VECTOR)
def inner_product(base: type, m: Any) -> Any:
    class InnerProduct(base):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            return (a * b).sum()

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            a, b = ctx.saved_tensors
            return grad_output.mul(b), grad_output.mul(a)

    return InnerProduct


@case("outer product", VECTOR, OTHER_VECTOR)
def outer_product(base: type, m: Any) -> Any:
    class OuterProduct(base):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            return a.unsqueeze(1) * b.unsqueeze(0)

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            a, b = ctx.saved_tensors
            return grad_output @ b, grad_output.t() @ a

    return OuterProduct


@case("solution of linear equations", SQUARE, VECTOR)
def solve(base: type, m: Any) -> Any:
    class Solve(base):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            x = m.linalg.solve(a, b)
            ctx.save_for_backward(a, x)
            return x

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            a, x = ctx.saved_tensors
            grad_b = m.linalg.solve(a.T, grad_output)
            return -grad_b.unsqueeze(1) * x.unsqueeze(0), grad_b

    return Solve


@case("inverse matrix", SQUARE)
def inverse(base: type, m: Any) -> Any:
    class Inverse(base):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            y = m.linalg.inv(a)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (y,) = ctx.saved_tensors
            return -y.t() @ grad_output @ y.t()

    return Inverse


@case("log of determinant", SQUARE)
def log_determinant(base: type, m: Any) -> Any:
    class LogDeterminant(base):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a)
            return m.log(m.linalg.det(a))

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (a,) = ctx.saved_tensors
            return grad_output * m.linalg.inv(a).T

    return LogDeterminant


# Reductions.


@case("sum of squares", MATRIX)
def sum_of_squares(base: type, m: Any) -> Any:
    class SumOfSquares(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.pow(2).sum()

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad_output * 2 * x

    return SumOfSquares


@case("norm", VECTOR)
def norm(base: type, m: Any) -> Any:
    class Norm(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            length = m.sqrt((x * x).sum())
            ctx.save_for_backward(x, length)
            return length

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            x, length = ctx.saved_tensors
            return grad_output * x / length

    return Norm


@case("softmax", MATRIX)
def softmax(base: type, m: Any) -> Any:
    class Softmax(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            e = m.exp(x)
            y = e / e.sum(-1, keepdims=True)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (y,) = ctx.saved_tensors
            return y * (grad_output - (grad_output * y).sum(-1, keepdims=True))

    return Softmax


@case("log softmax", MATRIX)
def log_softmax(base: type, m: Any) -> Any:
    class LogSoftmax(base):
        @staticmethod
        def forward(x: Any) -> Any:
            return x - m.log(m.exp(x).sum(-1, keepdims=True))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (y,) = ctx.saved_tensors
            return grad_output - m.exp(y) * grad_output.sum(-1, keepdims=True)

    return LogSoftmax


@case("log of sum of exponentials along an axis", MATRIX)
def logsumexp(base: type, m: Any) -> Any:
    class LogSumExp(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = m.log(m.exp(x).sum(1))
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            x, y = ctx.saved_tensors
            return grad_output.unsqueeze(1) * m.exp(x - y.unsqueeze(1))

    return LogSumExp


@case("product of all elements", VECTOR)
def product_of_all(base: type, m: Any) -> Any:
    class Product(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.prod()
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            x, y = ctx.saved_tensors
            return grad_output * y / x

    return Product


@case("mean squared error", MATRIX, OTHER_MATRIX)
def mean_squared_error(base: type, m: Any) -> Any:
    class MeanSquaredError(base):
        @staticmethod
        def forward(ctx: Any, prediction: Any, target: Any) -> Any:
            ctx.save_for_backward(prediction, target)
            ctx.count = prediction.numel()
            return ((prediction - target) ** 2).sum() / ctx.count

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            prediction, target = ctx.saved_tensors
            slope = 2 * (prediction - target) / ctx.count
            return grad_output * slope, -grad_output * slope

    return MeanSquaredError


@case("cross entropy", MATRIX)
def cross_entropy(base: type, m: Any) -> Any:
    class CrossEntropy(base):
        @staticmethod
        def forward(ctx: Any, logits: Any) -> Any:
            probabilities = m.exp(logits) / m.exp(logits).sum(1, keepdims=True)
            ctx.save_for_backward(logits)
            ctx.column = 1
            return -m.log(probabilities[:, 1]).sum()

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (logits,) = ctx.saved_tensors
            probabilities = m.exp(logits) / m.exp(logits).sum(1, keepdims=True)
            target = m.zeros_like(logits)
            target[:, ctx.column] = 1.0
            return grad_output * (probabilities - target)

    return CrossEntropy


@case("centred rows", MATRIX)
def centred(base: type, m: Any) -> Any:
    class Centred(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.width = x.shape[1]
            return x - x.sum(1, keepdims=True) / ctx.width

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            return grad_output - grad_output.sum(1, keepdims=True) / ctx.width

    return Centred


@case("normalised vector", VECTOR)
def normalised(base: type, m: Any) -> Any:
    class Normalised(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x / m.sqrt((x * x).sum())
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            x, y = ctx.saved_tensors
            return (grad_output - y * (y * grad_output).sum()) / m.sqrt((x * x).sum())

    return Normalised


# Several outputs.


@case("sine and cosine, saved outputs", VECTOR)
def sine_and_cosine(base: type, m: Any) -> Any:
    class SineCosine(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            s, c = m.sin(x), m.cos(x)
            ctx.save_for_backward(s, c)
            return s, c

        @staticmethod
        def backward(ctx: Any, grad_s: Any, grad_c: Any) -> Any:
            s, c = ctx.saved_tensors
            return grad_s * c - grad_c * s

    return SineCosine


@case("hyperbolic pair, outputs saved in the other order", MATRIX)
def hyperbolic_pair(base: type, m: Any) -> Any:
    class Hyperbolic(base):
        @staticmethod
        def forward(x: Any) -> Any:
            return m.sinh(x), m.cosh(x)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(output[1], output[0])

        @staticmethod
        def backward(ctx: Any, grad_sinh: Any, grad_cosh: Any) -> Any:
            cosh, sinh = ctx.saved_tensors
            return grad_sinh * cosh + grad_cosh * sinh

    return Hyperbolic


@case("powers of an exponential", NUMBER)
def exponential_powers(base: type, m: Any) -> Any:
    class Powers(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            e = m.exp(x)
            square, cube = e * e, e * e * e
            ctx.save_for_backward(e, square, cube)
            return e, square, cube

        @staticmethod
        def backward(ctx: Any, grad_e: Any, grad_square: Any, grad_cube: Any) -> Any:
            e, square, cube = ctx.saved_tensors
            return grad_e * e + 2 * grad_square * square + 3 * grad_cube * cube

    return Powers


@case("sum, product and quotient", VECTOR, OTHER_VECTOR)
def three_of_two(base: type, m: Any) -> Any:
    class ThreeOfTwo(base):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            quotient = a / b
            ctx.save_for_backward(a, b, quotient)
            return a + b, a * b, quotient

        @staticmethod
        def backward(ctx: Any, grad_sum: Any, grad_product: Any, grad_quotient: Any) -> Any:
            a, b, quotient = ctx.saved_tensors
            grad_a = grad_sum + grad_product * b + grad_quotient / b
            grad_b = grad_sum + grad_product * a - grad_quotient * quotient / b
            return grad_a, grad_b

    return ThreeOfTwo


@case("outputs of different shapes", MATRIX)
def moments(base: type, m: Any) -> Any:
    class Moments(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.sum(0), (x * x).sum(), x * x * x

        @staticmethod
        def backward(ctx: Any, columns: Any, square: Any, cube: Any) -> Any:
            (x,) = ctx.saved_tensors
            return columns.unsqueeze(0).expand_as(x) + 2 * square * x + 3 * cube * x * x

    return Moments


@case("value and slope", VECTOR)
def cube_and_slope(base: type, m: Any) -> Any:
    class CubeAndSlope(base):
        @staticmethod
        def forward(x: Any) -> Any:
            return x**3, 3 * x**2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            (x,) = inputs
            _, dx = output
            ctx.save_for_backward(x, dx)

        @staticmethod
        def backward(ctx: Any, grad_output: Any, grad_dx: Any) -> Any:
            x, dx = ctx.saved_tensors
            return grad_output * dx + grad_dx * 6 * x

    return CubeAndSlope


@case("polar coordinates", VECTOR, OTHER_VECTOR)
def polar(base: type, m: Any) -> Any:
    class Polar(base):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            r = m.sqrt(x * x + y * y)
            angle = m.arctan(y / x)
            ctx.save_for_backward(x, y, r)
            return r, angle

        @staticmethod
        def backward(ctx: Any, grad_r: Any, grad_angle: Any) -> Any:
            x, y, r = ctx.saved_tensors
            return grad_r * x / r - grad_angle * y / r**2, grad_r * y / r + grad_angle * x / r**2

    return Polar


@case("rows of a matrix as outputs", MATRIX)
def rows(base: type, m: Any) -> Any:
    class Rows(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x[0] * 2.0, x[1] * 3.0

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            return m.stack([first * 2.0, second * 3.0])

    return Rows


@case("straight-through with two outputs", VECTOR)
def two_straight(base: type, m: Any) -> Any:
    class TwoStraight(base):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            low, high = m.floor(x * 4) / 4, m.ceil(x * 4) / 4
            ctx.save_for_backward(low, high)
            return low, high

        @staticmethod
        def backward(ctx: Any, grad_low: Any, grad_high: Any) -> Any:
            low, high = ctx.saved_tensors
            return grad_low * high + grad_high * low

    return TwoStraight


for _used in (0, 1):

    @case(f"two outputs, gradient of the other dropped ({_used})", VECTOR)
    def half_used(base: type, m: Any, used: int = _used) -> Any:
        class HalfUsed(base):
            check = False

            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                outputs = m.exp(x), m.sin(x)
                ctx.save_for_backward(x, *outputs)
                ctx.used = used
                return outputs

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                x, e, s = ctx.saved_tensors
                return grads[ctx.used] * (e, m.cos(x) * s)[ctx.used]

        return HalfUsed


# Straight-through estimators and gradients that are meant to differ.

STRAIGHT: dict[str, Callable[[Any, Any], Any]] = {
    "round": lambda m, x: m.round(x),
    "sign": lambda m, x: m.sign(x),
    "floor": lambda m, x: m.floor(x),
    "step": lambda m, x: m.where(x > 0, m.ones_like(x), m.zeros_like(x)),
    "fixed point": lambda m, x: m.floor(x * 16 + 0.5) / 16,
}


def straight_through(function: Callable[[Any, Any], Any]) -> Make:
    def make(base: type, m: Any) -> Any:
        class StraightThrough(base):
            check = False

            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return function(m, x)

            @staticmethod
            def backward(ctx: Any, grad_output: Any) -> Any:
                return grad_output

        return StraightThrough

    return make


def clipped_straight_through(function: Callable[[Any, Any], Any]) -> Make:
    def make(base: type, m: Any) -> Any:
        class ClippedStraightThrough(base):
            """The gradient passes where the input is small: a saved mask."""

            check = False

            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(m.abs(x) <= 1)
                return function(m, x)

            @staticmethod
            def backward(ctx: Any, grad_output: Any) -> Any:
                (mask,) = ctx.saved_tensors
                return grad_output * mask

        return ClippedStraightThrough

    return make


def smooth_straight_through(function: Callable[[Any, Any], Any]) -> Make:
    def make(base: type, m: Any) -> Any:
        class SurrogateGradient(base):
            """Backward uses the slope of a smooth function in place of the true one."""

            check = False

            @staticmethod
            def forward(ctx: Any, x: Any, steepness: float) -> Any:
                y = function(m, x)
                ctx.save_for_backward(x, y)
                ctx.steepness = steepness
                return y

            @staticmethod
            def backward(ctx: Any, grad_output: Any) -> Any:
                x, y = ctx.saved_tensors
                return grad_output * (1 + y * y) / (ctx.steepness * m.abs(x) + 1.0) ** 2, None

        return SurrogateGradient

    return make


for _name, _function in STRAIGHT.items():
    case(f"straight-through {_name}", MIXED * 3)(straight_through(_function))
    case(f"clipped straight-through {_name}", MIXED * 1.2)(clipped_straight_through(_function))
    case(f"surrogate gradient of {_name}", MIXED, settings=(3.0,))(smooth_straight_through(_function))


@case("gradient reversal", VECTOR, settings=(0.3,))
def reversal(base: type, m: Any) -> Any:
    class GradientReversal(base):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any, strength: float) -> Any:
            ctx.strength = strength
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            return -ctx.strength * grad_output, None

    return GradientReversal


@case("identity that returns its input", VECTOR)
@case("identity of a number", NUMBER)
def identity(base: type, m: Any) -> Any:
    class Identity(base):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad_output * x * x

    return Identity


@case("clipped gradient", MIXED)
def clipped_gradient(base: type, m: Any) -> Any:
    class ClippedGradient(base):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * x

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            return grad_output.clamp(min=-0.5, max=0.5) * 2.0

    return ClippedGradient


@case("square of the gradient", VECTOR)
def squared_gradient(base: type, m: Any) -> Any:
    class SquaredGradient(base):
        """A backward that is not linear in the gradient."""

        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = m.exp(x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (y,) = ctx.saved_tensors
            return grad_output * grad_output * y

    return SquaredGradient


@case("exponential of another slope", VECTOR)
def wrong_on_purpose(base: type, m: Any) -> Any:
    class WrongOnPurpose(base):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = m.exp(x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (y,) = ctx.saved_tensors
            return 3.0 * grad_output * y

    return WrongOnPurpose


# Numbers on ctx are constants, whatever they were computed from.


@case("largest element as a number", VECTOR)
def scale_by_largest(base: type, m: Any) -> Any:
    class ScaleByLargest(base):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.scale = float(m.abs(x).max())
            ctx.save_for_backward(x)
            return x * x / ctx.scale

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad_output * 2 * x / ctx.scale

    return ScaleByLargest


@case("a number taken out of the input", NUMBER)
def number_taken_out(base: type, m: Any) -> Any:
    class NumberTakenOut(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.x = x.item()
            return x * x * x

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            return grad_output * 3 * ctx.x**2

    return NumberTakenOut


@case("a number taken out of the output", NUMBER)
def number_of_output(base: type, m: Any) -> Any:
    class NumberOfOutput(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = m.exp(x)
            ctx.y = y.item()
            return y

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            return grad_output * ctx.y

    return NumberOfOutput


@case("a branch by the sign of the sum", MIXED)
@case("a branch by the sign of the sum, the other way", -MIXED)
def branch(base: type, m: Any) -> Any:
    class Branch(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.factor = 2.0 if x.sum() > 0 else -0.5
            ctx.save_for_backward(x)
            return ctx.factor * x * x

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad_output * 2 * ctx.factor * x

    return Branch


@case("shapes and dtypes on ctx", MATRIX)
def shapes(base: type, m: Any) -> Any:
    class MeanOfAll(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.shape = x.shape
            return x.sum() / (ctx.shape[0] * ctx.shape[1])

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            return grad_output.reshape(1, 1) * m.ones(tuple(ctx.shape)) / (ctx.shape[0] * ctx.shape[1])

    return MeanOfAll


@case("settings in a dict", VECTOR, settings=({"low": 0.5, "high": 1.0, "names": ["a", "b"]},))
def settings_in_a_dict(base: type, m: Any) -> Any:
    class Between(base):
        @staticmethod
        def forward(ctx: Any, x: Any, settings: Any) -> Any:
            ctx.settings = settings
            ctx.save_for_backward(x)
            return (x - settings["low"]) ** 2 * settings["high"]

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad_output * 2 * ctx.settings["high"] * (x - ctx.settings["low"]), None

    return Between


# Masks.


@case("relu of the tutorial", MIXED)
@case("relu of the tutorial, a number", NUMBER)
@case("relu of the tutorial, a negative number", -NUMBER)
def relu(base: type, m: Any) -> Any:
    class MyReLU(base):
        @staticmethod
        def forward(ctx: Any, input: Any) -> Any:
            ctx.save_for_backward(input)
            return input.clamp(min=0)

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (input,) = ctx.saved_tensors
            grad_input = grad_output.clone()
            grad_input[input < 0] = 0
            return grad_input

    return MyReLU


@case("leaky relu with an edited clone", MIXED, settings=(0.2,))
def leaky_relu(base: type, m: Any) -> Any:
    class LeakyReLU(base):
        @staticmethod
        def forward(ctx: Any, input: Any, slope: float) -> Any:
            ctx.save_for_backward(input)
            ctx.slope = slope
            return m.where(input > 0, input, slope * input)

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (input,) = ctx.saved_tensors
            grad_input = grad_output.clone()
            grad_input[input < 0] *= ctx.slope
            return grad_input, None

    return LeakyReLU


@case("squared relu, a clone edited after arithmetic", MIXED)
def squared_relu(base: type, m: Any) -> Any:
    class SquaredReLU(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            y = x.clone()
            y[x < 0] = 0.0
            return y * y

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (x,) = ctx.saved_tensors
            grad_input = 2 * grad_output * x
            grad_input = grad_input.clone()
            grad_input[x < 0] = 0.0
            return grad_input

    return SquaredReLU


@case("a row of a clone", MATRIX)
def edited_row(base: type, m: Any) -> Any:
    class EditedRow(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            y = (x**3).clone()
            y[0] = 1.0
            return y

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (x,) = ctx.saved_tensors
            grad_input = (grad_output * 3 * x * x).clone()
            grad_input[0] = 0.0
            return grad_input

    return EditedRow


@case("elu by its output", MIXED)
def elu(base: type, m: Any) -> Any:
    class Elu(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = m.where(x > 0, x, m.expm1(x))
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (y,) = ctx.saved_tensors
            return grad_output * m.where(y > 0, m.ones_like(y), y + 1)

    return Elu


@case("clamp with a saved mask", MIXED, settings=(-0.5, 0.8))
def clamp(base: type, m: Any) -> Any:
    class Clamp(base):
        @staticmethod
        def forward(ctx: Any, x: Any, low: float, high: float) -> Any:
            ctx.save_for_backward((x >= low) & (x <= high))
            return x.clamp(low, high)

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (mask,) = ctx.saved_tensors
            return grad_output * mask, None, None

    return Clamp


@case("a mask of numbers", MIXED)
def mask_of_numbers(base: type, m: Any) -> Any:
    class MaskOfNumbers(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x, (x > 0) * 1.0)
            return m.where(x > 0, x * x, m.zeros_like(x))

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            x, mask = ctx.saved_tensors
            return 2 * grad_output * mask * x

    return MaskOfNumbers


@case("masked_fill", MIXED)
def filled(base: type, m: Any) -> Any:
    class Filled(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = m.exp(x).masked_fill(x < 0, 0.0)
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            x, y = ctx.saved_tensors
            return (grad_output * y).masked_fill(x < 0, 0.0)

    return Filled


@case("dropout with a fixed mask", VECTOR)
def dropout(base: type, m: Any) -> Any:
    class Dropout(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            kept = (True, False, True)
            ctx.factors = [k / 0.6 for k in kept]
            return m.stack([x[k] * factor for k, factor in enumerate(ctx.factors)])

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            return m.stack([grad_output[k] * factor for k, factor in enumerate(ctx.factors)])

    return Dropout


# Outputs without a gradient, unused inputs, other settings of ctx.


@case("an output that is marked non-differentiable", VECTOR)
def non_differentiable(base: type, m: Any) -> Any:
    class WithNorm(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            total = (x * x).sum()
            ctx.mark_non_differentiable(total)
            ctx.save_for_backward(x, total)
            return x * x * x, total

        @staticmethod
        def backward(ctx: Any, grad_output: Any, _: Any) -> Any:
            x, _ = ctx.saved_tensors
            return 3 * grad_output * x * x

    return WithNorm


@case("a saved output that is marked non-differentiable", VECTOR)
def saved_non_differentiable(base: type, m: Any) -> Any:
    class Weighted(base):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            weight = m.exp(x)
            ctx.mark_non_differentiable(weight)
            ctx.save_for_backward(x, weight)
            return x * weight, weight

        @staticmethod
        def backward(ctx: Any, grad_output: Any, _: Any) -> Any:
            _, weight = ctx.saved_tensors
            return grad_output * weight

    return Weighted


@case("a mask as an output", MIXED, settings=(0.1,))
def threshold(base: type, m: Any) -> Any:
    class Threshold(base):
        @staticmethod
        def forward(ctx: Any, x: Any, at: float) -> Any:
            mask = x > at
            ctx.mark_non_differentiable(mask)
            ctx.save_for_backward(x, mask)
            return x * x * mask, mask

        @staticmethod
        def backward(ctx: Any, grad_output: Any, _: Any) -> Any:
            x, mask = ctx.saved_tensors
            return 2 * grad_output * x * mask, None

    return Threshold


@case("no gradient at all", VECTOR, OTHER_VECTOR)
def no_gradient(base: type, m: Any) -> Any:
    class NoGradient(base):
        check = False

        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(b)
            return a * b

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (b,) = ctx.saved_tensors
            return None, grad_output * b

    return NoGradient


@case("set_materialize_grads", VECTOR)
def materialised(base: type, m: Any) -> Any:
    class Materialised(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(x)
            return m.sin(x), m.exp(x)

        @staticmethod
        def backward(ctx: Any, grad_sine: Any, grad_exp: Any) -> Any:
            (x,) = ctx.saved_tensors
            total = None
            if grad_sine is not None:
                total = grad_sine * m.cos(x)
            if grad_exp is not None:
                part = grad_exp * m.exp(x)
                total = part if total is None else total + part
            return total

    return Materialised


@case("an input that is saved twice", VECTOR)
def saved_twice(base: type, m: Any) -> Any:
    class SavedTwice(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * x
            ctx.save_for_backward(x, x, y, None)
            return y

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            x, again, _, nothing = ctx.saved_tensors
            assert nothing is None
            return grad_output * (x + again)

    return SavedTwice


@case("arguments in between", VECTOR, settings=(3, OTHER_VECTOR.tolist(), None, "name", True))
def arguments_in_between(base: type, m: Any) -> Any:
    class Mixed(base):
        @staticmethod
        def forward(ctx: Any, x: Any, n: int, weights: Any, nothing: Any, name: str, flag: bool) -> Any:
            assert nothing is None
            assert name == "name"
            ctx.n, ctx.weights, ctx.flag = n, weights, flag
            ctx.save_for_backward(x)
            return m.stack([weight * x[k] ** n for k, weight in enumerate(weights)]) if flag else x

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (x,) = ctx.saved_tensors
            n = ctx.n
            slopes = m.stack([weight * n * x[k] ** (n - 1) for k, weight in enumerate(ctx.weights)])
            return grad_output * slopes, None, None, None, None, None

    return Mixed


# Functions in the backward of functions, as in PyTorch's tutorial on double backward.


@case("backward by another function", VECTOR)
def nested(base: type, m: Any) -> Any:
    class CubeBackward(base):
        @staticmethod
        def forward(ctx: Any, grad_output: Any, x: Any) -> Any:
            ctx.save_for_backward(x, grad_output)
            return grad_output * 3 * x**2

        @staticmethod
        def backward(ctx: Any, grad_grad: Any) -> Any:
            x, grad_output = ctx.saved_tensors
            return grad_grad * 3 * x**2, grad_grad * grad_output * 6 * x

    class Cube(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (x,) = ctx.saved_tensors
            return CubeBackward.apply(grad_output, x)

    return Cube


@case("sinh of the tutorial, with its intermediates returned", VECTOR)
def sinh(base: type, m: Any) -> Any:
    class Sinh(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            expx, expnegx = m.exp(x), m.exp(-x)
            ctx.save_for_backward(expx, expnegx)
            return (expx - expnegx) / 2, expx, expnegx

        @staticmethod
        def backward(ctx: Any, grad_output: Any, grad_expx: Any, grad_expnegx: Any) -> Any:
            expx, expnegx = ctx.saved_tensors
            return grad_output * (expx + expnegx) / 2 + grad_expx * expx - grad_expnegx * expnegx

    return Sinh


@case("two functions that call each other", NUMBER)
def mutual(base: type, m: Any) -> Any:
    class Sine(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return m.sin(x)

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad_output * Cosine.apply(x)

    class Cosine(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return m.cos(x)

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (x,) = ctx.saved_tensors
            return -grad_output * Sine.apply(x)

    return Sine


@case("an exponential that calls itself", VECTOR)
def recursive(base: type, m: Any) -> Any:
    class Exponential(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return m.exp(x)

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad_output * Exponential.apply(x)

    return Exponential


for _factor in (0.5, 2.0, -1.5):

    @case(f"a number from a closure ({_factor})", MATRIX)
    def closure(base: type, m: Any, factor: float = _factor) -> Any:
        class Closure(base):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                y = m.tanh(factor * x)
                ctx.save_for_backward(y)
                return y

            @staticmethod
            def backward(ctx: Any, grad_output: Any) -> Any:
                (y,) = ctx.saved_tensors
                return grad_output * factor * (1 - y * y)

        return Closure
