"""Functions, closures, classes, loops and higher-order helpers."""

import functools
import itertools
import math
import operator

import numpy as np

from .points import MATRIX, SERIES, VECTOR, WIDE
from .snippet import at


@at(0.8)
def python_numbers_in_a_loop(x):
    term, total = 1.0, 1.0
    for n in range(1, 12):
        term = term * x / n
        total += term
    return total


@at(VECTOR)
def closure_over_constants(x):
    scale = np.array([1.0, 2.0, 3.0, 4.0, 5.0])

    def energy(v):
        return np.sum(scale * v**2)

    return energy(x) + energy(np.cos(x))


@at(VECTOR)
def lambda_and_map(x):
    square = lambda v: v * v  # noqa: E731
    return sum(map(square, x))


class Polynomial:
    def __init__(self, coefficients):
        self.coefficients = coefficients

    def __call__(self, x):
        result = 0.0
        for c in reversed(self.coefficients):
            result = result * x + c
        return result


@at(0.6, 1.5, -0.3)
def callable_object(a, b, c):
    return Polynomial([a, b, c])(2.0)


class Account:
    def __init__(self, balance):
        self.balance = balance

    def deposit(self, amount):
        self.balance += amount

    def grow(self, rate):
        self.balance *= 1.0 + rate


@at(100.0, 0.05)
def object_with_state(balance, rate):
    account = Account(balance)
    for _ in range(3):
        account.grow(rate)
        account.deposit(10.0 * rate)
    return account.balance


class Vec2:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, other):
        return Vec2(self.x + other.x, self.y + other.y)

    def __rmul__(self, factor):
        return Vec2(factor * self.x, factor * self.y)

    @property
    def length(self):
        return np.sqrt(self.x**2 + self.y**2)


@at(0.4, 1.1)
def own_vector_class(x, y):
    return (Vec2(x, y) + 2.0 * Vec2(y, 1.0)).length


@at(0.7)
def recursion(x):
    def power(n):
        return 1.0 if n == 0 else x * power(n - 1)

    return power(6)


@at(VECTOR)
def functools_reduce(x):
    return functools.reduce(operator.mul, x) + functools.reduce(lambda a, b: a + b**2, x)


@at(VECTOR)
def itertools_pairs(x):
    return sum(a * b for a, b in itertools.combinations(x, 2))


@at(VECTOR, differences=True)
def vectorised_function(x):
    f = np.vectorize(lambda v: v**2 if v > 0 else -v)
    return f(x)


@at(WIDE)
def apply_along_rows(w):
    return np.apply_along_axis(lambda row: row @ row, 1, w)


@at(0.6, differences=True)
def math_functions_on_a_number(x):
    return math.pi * x**2 + np.float64(math.e) * x


@at(0.6, differences=True)
def math_module_functions(x):
    return math.sin(x) * math.exp(x)


@at(SERIES)
def leapfrog_steps(start):
    q, p = start[:4], start[4:]
    for _ in range(5):
        p = p - 0.05 * np.sin(q)
        q = q + 0.1 * p
        p = p - 0.05 * np.sin(q)
    return q, p


@at(1.0, 0.4)
def runge_kutta_step(y, rate):
    def f(v):
        return -rate * v**2

    h = 0.1
    k1 = f(y)
    k2 = f(y + h / 2 * k1)
    k3 = f(y + h / 2 * k2)
    k4 = f(y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


@at(MATRIX)
def generator_of_layers(w):
    def layers():
        for scale in (0.5, 1.0, 2.0):
            yield scale * w

    h = np.ones(3)
    for layer in layers():
        h = np.tanh(layer @ h)
    return h


@at(VECTOR)
def seeded_noise(x):
    rng = np.random.default_rng(0)
    samples = x + 0.1 * rng.normal(size=(20, 5))
    return np.mean(samples**2, axis=0)


@at(VECTOR)
def legacy_random_state(x):
    np.random.seed(0)
    return x @ np.random.randn(5) + np.random.RandomState(1).rand(5) @ x**2


@at(0.3, 0.8)
def monte_carlo_estimate(mean, sigma):
    z = np.random.default_rng(1).standard_normal(50)
    return np.mean(np.maximum(np.exp(mean + sigma * z) - 1.0, 0.0))


@at(VECTOR)
def gradient_descent_inside(x):
    w = np.zeros(5)
    for _ in range(4):
        w = w - 0.2 * (w - x) * 2
    return np.sum(w**2)


@at(0.2)
def logistic_map(r):
    x = 0.5
    history = []
    for _ in range(6):
        x = (3.0 + r) * x * (1 - x)
        history.append(x)
    return np.mean(history)


@at(VECTOR)
def decorated_helper(x):
    @functools.lru_cache
    def scale(n):
        return n * 2.0

    def twice(f):
        return lambda v: f(f(v))

    return twice(lambda v: np.sin(v) * scale(1))(x)


@at(VECTOR)
def format_and_print(x):
    text = f"{x[0]:.3f} {np.sum(x)} {x}"
    return np.sum(x**2) * len(text[:1])


@at(VECTOR)
def try_and_except(x):
    try:
        y = x.reshape(2, 3)
    except ValueError:
        y = x.reshape(5, 1)
    return y @ y.T


@at(VECTOR, differences=True)
def error_state(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x > 0, np.log(np.abs(x)), x)


@at(0.4, 1.3, differences=True)
def draw_with_recorded_parameters(mean, deviation):
    rng = np.random.default_rng(0)
    return np.mean(rng.normal(mean, deviation, size=20) ** 2)


@at(VECTOR, differences=True)
def shuffle_by_permutation(x):
    rng = np.random.default_rng(0)
    return rng.permutation(x) * np.arange(5.0)
