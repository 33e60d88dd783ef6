"""Sixty-two programs with loops and branches, written once: `np` is NumPy or jax.numpy, `lax` is wiregrad or jax.lax.

Each is a function of one array and returns one number. They are recurrences, recurrent networks, Newton iterations,
sorting networks, escapes, integrators, filters and nested loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

PROGRAMS: dict[str, Callable[..., Any]] = {}
"""The programs by name; each takes np, lax and an array of numbers between 0.2 and 1."""
FORWARD_ONLY: set[str] = set()
"""Programs that JAX differentiates in forward mode only, because the number of steps depends on values."""
SIZE = 6
STEPS = numpy.linspace(0.1, 0.9, 9)
WEIGHTS = 0.4 * numpy.random.default_rng(3).normal(size=(SIZE, SIZE))
ROWS = 0.5 * numpy.random.default_rng(4).normal(size=(7, SIZE))


def program(f: Callable[..., Any]) -> Callable[..., Any]:
    """Add a program."""
    PROGRAMS[f.__name__] = f
    return f


def forward_only(f: Callable[..., Any]) -> Callable[..., Any]:
    """Add a program that JAX differentiates in forward mode only."""
    FORWARD_ONLY.add(f.__name__)
    return program(f)


# Recurrences.


@program
def running_sum(np: Any, lax: Any, p: Any) -> Any:
    total, sums = lax.scan(lambda c, x: (c + x, c * x), 0.0, p)
    return total + np.sum(sums**2)


@program
def logistic_map(np: Any, lax: Any, p: Any) -> Any:
    return lax.fori_loop(0, 8, lambda i, x: 3.2 * p[0] * x * (1.0 - x), p[1])


@program
def fibonacci(np: Any, lax: Any, p: Any) -> Any:
    a, b = lax.fori_loop(0, 10, lambda i, c: (c[1], c[0] + p[2] * c[1]), (p[0], p[1]))
    return a * b


@program
def horner(np: Any, lax: Any, p: Any) -> Any:
    return lax.scan(lambda y, a: (y * 0.7 + a, None), 0.0, p, reverse=True)[0] ** 2


@program
def horner_in_carry(np: Any, lax: Any, p: Any) -> Any:
    return lax.fori_loop(0, SIZE, lambda i, y: y * p[0] + p[i], 0.0)


@program
def continued_fraction(np: Any, lax: Any, p: Any) -> Any:
    return lax.scan(lambda y, a: (a + 1.0 / (1.0 + y), y), 1.0, p)[0]


@program
def exponential_average(np: Any, lax: Any, p: Any) -> Any:
    def smooth(c: Any, x: Any) -> Any:
        c = p[0] * c + (1.0 - p[0]) * x
        return c, c

    return np.sum(lax.scan(smooth, p[1], STEPS)[1] ** 2)


@program
def reversed_scan(np: Any, lax: Any, p: Any) -> Any:
    last, ys = lax.scan(lambda c, x: (np.sin(c + x), c * x), p[0], p, reverse=True)
    return last + np.sum(ys * STEPS[:SIZE])


@program
def dictionary_carry(np: Any, lax: Any, p: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        return {"a": c["a"] * x, "b": c["b"] + c["a"]}, c["b"]

    last, ys = lax.scan(step, {"a": p[0], "b": p[1]}, STEPS)
    return last["b"] + np.sum(ys)


@program
def nested_containers(np: Any, lax: Any, p: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        (a, b), rest = c
        return ((b, a * x["u"]), [rest[0] + x["v"]]), {"y": a * b}

    last, ys = lax.scan(step, ((p[0], p[1]), [p[2]]), {"u": STEPS, "v": STEPS**2})
    return last[0][0] * last[1][0] + np.sum(ys["y"])


@program
def unused_carry(np: Any, lax: Any, p: Any) -> Any:
    return np.sum(lax.scan(lambda c, x: (c * 0.5, x * p[1]), p[0], STEPS)[1])


@program
def only_last_row(np: Any, lax: Any, p: Any) -> Any:
    return lax.scan(lambda c, x: (np.tanh(c * x), c), p[0], STEPS)[1][-1] * p[1]


@program
def only_one_row(np: Any, lax: Any, p: Any) -> Any:
    return lax.scan(lambda c, x: (np.exp(-c * x), c * c), p[0], STEPS)[1][3]


@program
def powers_by_counter(np: Any, lax: Any, p: Any) -> Any:
    return lax.fori_loop(1, 6, lambda k, s: s + p[0] ** k / k, p[1])


@program
def matrix_power(np: Any, lax: Any, p: Any) -> Any:
    a = WEIGHTS + p[:, None] * 0.2
    return np.sum(lax.fori_loop(0, 4, lambda i, m: m @ a, np.eye(SIZE)) ** 2)


@program
def cumulative_product(np: Any, lax: Any, p: Any) -> Any:
    return np.sum(lax.scan(lambda c, x: (c * x, c * x), 1.0, p)[1])


@program
def no_steps(np: Any, lax: Any, p: Any) -> Any:
    return lax.fori_loop(3, 3, lambda i, x: x * x, p[0]) * p[1]


@program
def steps_without_rows(np: Any, lax: Any, p: Any) -> Any:
    return lax.scan(lambda c, _: (np.cos(c * p[0]), None), p[1], None, length=7)[0]


# Recurrent networks.


@program
def recurrent_network(np: Any, lax: Any, p: Any) -> Any:
    last, ys = lax.scan(lambda h, x: (np.tanh(WEIGHTS @ h + p * x), h), np.zeros(SIZE), ROWS)
    return np.sum(last) + np.sum(ys**2)


@program
def weights_from_outside(np: Any, lax: Any, p: Any) -> Any:
    w = p[:, None] * WEIGHTS
    return np.sum(lax.scan(lambda h, x: (np.tanh(w @ h + x), None), np.ones(SIZE), ROWS)[0] ** 2)


@program
def gated_unit(np: Any, lax: Any, p: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        gate = 1.0 / (1.0 + np.exp(-(WEIGHTS @ h + p * x)))
        new = np.tanh(WEIGHTS.T @ (gate * h) + x)
        h = (1.0 - gate) * h + gate * new
        return h, np.sum(h)

    return np.sum(lax.scan(step, p, ROWS)[1] * STEPS[:7])


@program
def long_memory(np: Any, lax: Any, p: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        h, c = carry
        f = 1.0 / (1.0 + np.exp(-(h + x)))
        c = f * c + (1.0 - f) * np.tanh(WEIGHTS @ h + p)
        return (np.tanh(c) * f, c), None

    h, c = lax.scan(step, (np.zeros(SIZE), np.zeros(SIZE)), ROWS)[0]
    return np.sum(h * c)


@program
def linear_state_space(np: Any, lax: Any, p: Any) -> Any:
    return np.sum(lax.scan(lambda s, u: (0.9 * s + p * u, s @ p), np.zeros(SIZE), STEPS)[1])


@program
def attention_over_steps(np: Any, lax: Any, p: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        scores = np.exp(x * p)
        return c + scores / np.sum(scores), np.sum(scores)

    last, ys = lax.scan(step, np.zeros(SIZE), ROWS)
    return np.sum(last**2) + np.sum(np.log(ys))


# Integrators and filters.


@program
def euler_pendulum(np: Any, lax: Any, p: Any) -> Any:
    def step(c: Any, _: Any) -> Any:
        angle, speed = c
        return (angle + 0.1 * speed, speed - 0.1 * p[2] * np.sin(angle)), angle

    return np.sum(lax.scan(step, (p[0], p[1]), None, length=12)[1] ** 2)


@program
def runge_kutta(np: Any, lax: Any, p: Any) -> Any:
    def slope(s: Any) -> Any:
        return np.stack([p[0] * (s[1] - s[0]), s[0] * (p[1] - s[2]) - s[1], s[0] * s[1] - p[2] * s[2]])

    def step(i: Any, s: Any) -> Any:
        k1 = slope(s)
        k2 = slope(s + 0.05 * k1)
        k3 = slope(s + 0.05 * k2)
        k4 = slope(s + 0.1 * k3)
        return s + 0.1 / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)

    return np.sum(lax.fori_loop(0, 5, step, p[3:]))


@program
def leapfrog(np: Any, lax: Any, p: Any) -> Any:
    def step(c: Any, h: Any) -> Any:
        x, v = c
        v = v - h * x * p
        return (x + h * v, v), np.sum(x * x)

    (x, v), energy = lax.scan(step, (p, -p), 0.1 * STEPS)
    return np.sum(x * v) + energy[4]


@program
def kalman_filter(np: Any, lax: Any, p: Any) -> Any:
    def step(c: Any, z: Any) -> Any:
        mean, variance = c
        variance = variance + p[0]
        gain = variance / (variance + p[1])
        return (mean + gain * (z - mean), (1.0 - gain) * variance), gain

    (mean, variance), gains = lax.scan(step, (p[2], 1.0), STEPS)
    return mean * variance + np.sum(gains)


@program
def heat_conduction(np: Any, lax: Any, p: Any) -> Any:
    def step(i: Any, u: Any) -> Any:
        return u + p[0] * 0.2 * (np.roll(u, 1) - 2.0 * u + np.roll(u, -1))

    return np.sum(lax.fori_loop(0, 6, step, p) ** 3)


@program
def gradient_descent(np: Any, lax: Any, p: Any) -> Any:
    return np.sum(lax.fori_loop(0, 10, lambda i, x: x - 0.1 * (p[0] * x**3 + x - p), np.zeros(SIZE)) ** 2)


@program
def momentum(np: Any, lax: Any, p: Any) -> Any:
    def step(c: Any, rate: Any) -> Any:
        x, v = c
        v = p[0] * v - rate * np.sin(x)
        return (x + v, v), None

    return np.sum(lax.scan(step, (p, np.zeros(SIZE)), STEPS)[0][0])


@program
def power_iteration(np: Any, lax: Any, p: Any) -> Any:
    a = WEIGHTS @ WEIGHTS.T + np.diag(p)

    def step(i: Any, v: Any) -> Any:
        v = a @ v
        return v / np.sqrt(np.sum(v * v))

    v = lax.fori_loop(0, 6, step, np.ones(SIZE))
    return v @ a @ v


@program
def viterbi_like(np: Any, lax: Any, p: Any) -> Any:
    return np.max(lax.scan(lambda s, x: (np.max(s + WEIGHTS, axis=1) + x, None), p, ROWS)[0])


@program
def log_forward_algorithm(np: Any, lax: Any, p: Any) -> Any:
    def step(a: Any, x: Any) -> Any:
        return np.log(np.sum(np.exp(a + WEIGHTS), axis=1)) + x, None

    return np.log(np.sum(np.exp(lax.scan(step, p, ROWS)[0])))


# Newton iterations and other loops of a fixed number of steps.


@program
def newton_square_root(np: Any, lax: Any, p: Any) -> Any:
    return lax.fori_loop(0, 8, lambda i, x: 0.5 * (x + p[0] / x), 1.0)


@program
def newton_cube_root(np: Any, lax: Any, p: Any) -> Any:
    return np.sum(lax.fori_loop(0, 9, lambda i, x: x - (x**3 - p) / (3.0 * x**2), np.ones(SIZE)))


@program
def kepler_equation(np: Any, lax: Any, p: Any) -> Any:
    def step(e: Any, _: Any) -> Any:
        return e - (e - 0.3 * np.sin(e) - p) / (1.0 - 0.3 * np.cos(e)), None

    return np.sum(np.cos(lax.scan(step, p, None, length=6)[0]))


@program
def arithmetic_geometric_mean(np: Any, lax: Any, p: Any) -> Any:
    a, g = lax.fori_loop(0, 5, lambda i, c: (0.5 * (c[0] + c[1]), np.sqrt(c[0] * c[1])), (p[0], p[1]))
    return a + g


@program
def newton_schulz(np: Any, lax: Any, p: Any) -> Any:
    a = np.eye(SIZE) + 0.1 * p[:, None] * WEIGHTS
    return np.sum(lax.fori_loop(0, 5, lambda i, x: x @ (2.0 * np.eye(SIZE) - a @ x), np.eye(SIZE)))


@program
def sinkhorn(np: Any, lax: Any, p: Any) -> Any:
    k = np.exp(WEIGHTS * p[:, None])

    def step(i: Any, c: Any) -> Any:
        u, v = c
        u = 1.0 / (k @ v)
        return u, 1.0 / (k.T @ u)

    u, v = lax.fori_loop(0, 5, step, (np.ones(SIZE), np.ones(SIZE)))
    return np.sum(u * v)


# Sorting networks.


@program
def bubble_pass(np: Any, lax: Any, p: Any) -> Any:
    def step(largest: Any, x: Any) -> Any:
        return np.maximum(largest, x), np.minimum(largest, x)

    last, rest = lax.scan(step, p[0], p[1:])
    return last + np.sum(rest * STEPS[: SIZE - 1])


@program
def odd_even_sort(np: Any, lax: Any, p: Any) -> Any:
    def step(i: Any, x: Any) -> Any:
        low, high = np.minimum(x[0::2], x[1::2]), np.maximum(x[0::2], x[1::2])
        x = np.reshape(np.stack([low, high], axis=1), (SIZE,))
        inner_low, inner_high = np.minimum(x[1:-1:2], x[2::2]), np.maximum(x[1:-1:2], x[2::2])
        inner = np.reshape(np.stack([inner_low, inner_high], axis=1), (SIZE - 2,))
        return np.concatenate([x[:1], inner, x[-1:]])

    return np.sum(lax.fori_loop(0, 3, step, p * (1.0 + 0.1 * STEPS[:SIZE])) * STEPS[:SIZE])


@program
def soft_sort(np: Any, lax: Any, p: Any) -> Any:
    def step(x: Any, t: Any) -> Any:
        gap = np.tanh((x[1:] - x[:-1]) / t)
        return x + 0.1 * np.concatenate([gap, np.zeros(1)]) - 0.1 * np.concatenate([np.zeros(1), gap]), None

    return np.sum(lax.scan(step, p, STEPS)[0] * STEPS[:SIZE])


@program
def running_maximum(np: Any, lax: Any, p: Any) -> Any:
    return np.sum(lax.scan(lambda m, x: (np.maximum(m, x), m), -1.0, p)[1][1:] * STEPS[: SIZE - 1])


# Choices.


@program
def choice(np: Any, lax: Any, p: Any) -> Any:
    return lax.cond(p[0] > 0.5, lambda x: np.sum(x**2), lambda x: np.sum(np.exp(x)), p)


@program
def choice_in_steps(np: Any, lax: Any, p: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        return lax.cond(x > 0.5, lambda a: np.sin(a) * p[0], lambda a: a + x * p[1], c), c

    last, ys = lax.scan(step, p[2], STEPS)
    return last + np.sum(ys)


@program
def choice_of_arrays(np: Any, lax: Any, p: Any) -> Any:
    return np.sum(lax.cond(np.sum(p) > 2.0, lambda a, b: a * b, lambda a, b: a - b, p, p[::-1]))


@program
def choice_by_number(np: Any, lax: Any, p: Any) -> Any:
    return lax.switch(2, [np.sin, np.cos, np.exp], p[0]) * p[1]


@program
def choice_by_counter(np: Any, lax: Any, p: Any) -> Any:
    def step(i: Any, c: Any) -> Any:
        return lax.switch(i % 3, [lambda a: a * p[0], np.sin, lambda a: a + p[1]], c)

    return lax.fori_loop(0, 7, step, p[2])


@program
def choice_in_choice(np: Any, lax: Any, p: Any) -> Any:
    def inner(x: Any) -> Any:
        return lax.cond(x[1] > 0.5, lambda y: y[1] ** 2, lambda y: y[2], x)

    return lax.cond(p[0] > 0.1, inner, lambda x: x[0], p) * p[0]


# Loops that end by a condition.


@forward_only
def newton_until_close(np: Any, lax: Any, p: Any) -> Any:
    return lax.while_loop(lambda x: np.abs(x * x - p[0]) > 1e-13, lambda x: 0.5 * (x + p[0] / x), 1.0)


@forward_only
def halve_until_small(np: Any, lax: Any, p: Any) -> Any:
    return lax.while_loop(lambda x: x > 0.05, lambda x: x * x * p[1], p[0])


@forward_only
def escape(np: Any, lax: Any, p: Any) -> Any:
    def step(c: Any) -> Any:
        x, y, n = c
        return x * x - y * y + 0.9 * p[0] + 0.2, 2.0 * x * y + p[1], n + 1

    x, y, n = lax.while_loop(lambda c: (c[0] ** 2 + c[1] ** 2 < 4.0) & (c[2] < 30), step, (0.0, 0.0, 0))
    return x * x + y * y + 0.5 * n


@forward_only
def collatz_like(np: Any, lax: Any, p: Any) -> Any:
    def step(c: Any) -> Any:
        n, total = c
        return n + 2, total * p[0] + 0.1 * n

    return lax.while_loop(lambda c: c[0] < 9, step, (1, p[1]))[1]


@forward_only
def grow_array(np: Any, lax: Any, p: Any) -> Any:
    return np.sum(lax.while_loop(lambda x: np.sum(x) < 20.0, lambda x: x * 1.5 + p, p) ** 2)


@forward_only
def bisection_with_slope(np: Any, lax: Any, p: Any) -> Any:
    def step(c: Any) -> Any:
        x, n = c
        return x - (x - np.cos(x * p[0])) * 0.6, n + 1

    return lax.while_loop(lambda c: c[1] < 12, step, (p[1], 0))[0]


@forward_only
def dynamic_bound(np: Any, lax: Any, p: Any) -> Any:
    count = np.sum(np.where(p > 0.4, 1, 0))
    return lax.fori_loop(0, count, lambda i, x: x * p[0] + p[1], p[2])


# Nested loops.


@program
def loops_in_loops(np: Any, lax: Any, p: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, c: lax.fori_loop(0, 4, lambda j, d: d * p[0] + 0.1 * i * j, c), p[1])


@program
def table_of_products(np: Any, lax: Any, p: Any) -> Any:
    rows = lax.scan(lambda c, x: (c + x, lax.scan(lambda d, y: (d * y, d + x), c, p)[1]), p[0], p)[1]
    return np.sum(rows**2)


@program
def scan_of_rows(np: Any, lax: Any, p: Any) -> Any:
    def outer(c: Any, row: Any) -> Any:
        return lax.scan(lambda a, x: (np.tanh(a * p[0] + x), None), c, row)[0], c

    last, ys = lax.scan(outer, p[1], ROWS)
    return last + np.sum(ys)


@forward_only
def while_in_scan(np: Any, lax: Any, p: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        root = lax.while_loop(lambda r: np.abs(r * r - x) > 1e-12, lambda r: 0.5 * (r + x / r), 1.0)
        return c + root * p[0], root

    last, ys = lax.scan(step, p[1], p)
    return last * np.sum(ys)


@program
def three_deep(np: Any, lax: Any, p: Any) -> Any:
    def middle(i: Any, c: Any) -> Any:
        return lax.fori_loop(0, 2, lambda j, d: lax.fori_loop(0, 2, lambda k, e: np.sin(e * p[0] + i + j * k), d), c)

    return lax.fori_loop(0, 2, middle, p[1])
