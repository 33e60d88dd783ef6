"""Two hundred functions of real numbers that branch, loop, sort, search, index and catch, for `wg.compile` to follow.

Each takes one to four floats and always ends, NaN, infinities and ties included. `exact` says that it is made of
arithmetic alone, so every way of computing it gives the same bits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import wiregrad as wg

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, math.nan, math.inf, -math.inf, 1e-310, 1e308, -3.0)
MAKERS: list[Callable[[], Iterator[Program]]] = []


class Program(NamedTuple):
    """A function, how many floats it takes, and whether it is made of arithmetic alone."""

    name: str
    f: Callable[..., Any]
    count: int
    exact: bool = True


def family(make: Callable[[], Iterator[Program]]) -> Callable[[], Iterator[Program]]:
    MAKERS.append(make)
    return make


def programs() -> list[Program]:
    return [program for make in MAKERS for program in make()]


def point(rng: np.random.Generator, count: int) -> tuple[float, ...]:
    """Draw arguments that flip branches: smooth ones, whole ones, equal ones, special ones."""
    kind = rng.integers(5)
    if kind == 0:
        return tuple(rng.integers(-3, 4, count).astype(float).tolist())
    if kind == 1:
        return tuple(SPECIAL[k] for k in rng.integers(len(SPECIAL), size=count).tolist())
    if kind == 2:
        return (float(np.round(rng.normal(), 1)),) * count
    return tuple((rng.normal(size=count) * rng.choice([0.3, 1.0, 4.0])).tolist())


@family
def halvings() -> Iterator[Program]:
    """While loops whose count depends on the data."""
    for limit, most in [(1.0, 8), (0.5, 12), (0.1, 6), (2.0, 20), (0.01, 15), (3.0, 5)]:

        def halve(x: Any, limit: float = limit, most: int = most) -> Any:
            steps = 0
            while abs(x) > limit and steps < most:
                x = x / 2.0
                steps += 1
            return x + steps

        def double(x: Any, y: Any, limit: float = limit, most: int = most) -> Any:
            for k in range(most):
                if not x < limit * 8.0:
                    return x - y * k
                x = x * 2.0 + abs(y)
            return x

        yield Program(f"halve until {limit}", halve, 1)
        yield Program(f"double until {limit}", double, 2)


@family
def bisections() -> Iterator[Program]:
    curves: list[tuple[str, Callable[[Any, Any], Any]]] = [
        ("cubic", lambda x, a: x * x * x + x - a),
        ("quintic", lambda x, a: x**5 + x - a),
        ("line", lambda x, a: 3.0 * x - a),
        ("bent", lambda x, a: (x if x > 0.0 else 0.5 * x) - a),
    ]
    for name, curve in curves:
        for steps in (5, 12, 25):

            def bisect(a: Any, curve: Callable[[Any, Any], Any] = curve, steps: int = steps) -> Any:
                low, high = -2.0 + 0.0 * a, 2.0 + 0.0 * a
                for _ in range(steps):
                    middle = 0.5 * (low + high)
                    if curve(middle, a) > 0.0:
                        high = middle
                    else:
                        low = middle
                return 0.5 * (low + high) + 0.125 * a

            yield Program(f"bisection of a {name}, {steps} steps", bisect, 1)


@family
def newtons() -> Iterator[Program]:
    for tolerance in (1e-2, 1e-4, 1e-6, 1e-9):

        def root(a: Any, tolerance: float = tolerance) -> Any:
            if not a > 0.0:
                return 0.0 * a
            x = a
            for _ in range(30):
                step = (x - a / x) / 2.0
                x = x - step
                if abs(step) < tolerance:
                    break
            return x

        def cube(a: Any, b: Any, tolerance: float = tolerance) -> Any:
            x, count = 1.0 + 0.0 * b, 0
            while count < 20:
                slope = 3.0 * x * x
                if slope == 0.0 or np.isnan(x):
                    return b
                following = x - (x * x * x - a) / slope
                count += 1
                if abs(following - x) <= tolerance * abs(x):
                    return following * b
                x = following
            return x

        def kepler(mean: Any, e: Any, tolerance: float = tolerance) -> Any:
            e = np.minimum(abs(e), 0.9)
            angle = mean
            for _ in range(15):
                step = (angle - e * np.sin(angle) - mean) / (1.0 - e * np.cos(angle))
                angle = angle - step
                if not abs(step) > tolerance:
                    return angle
            return angle

        yield Program(f"square root to {tolerance}", root, 1)
        yield Program(f"cube root to {tolerance}", cube, 2)
        yield Program(f"Kepler's equation to {tolerance}", kepler, 2, exact=False)


@family
def payoffs() -> Iterator[Program]:
    for strike in (-0.5, 0.0, 1.0, 2.5):

        def call(s: Any, strike: float = strike) -> Any:
            return max(s - strike, 0.0)

        def spread(s: Any, t: Any, strike: float = strike) -> Any:
            worst = min(s, t)
            return worst - strike if worst > strike else 0.25 * (worst - strike)

        def barrier(s: Any, u: Any, v: Any, strike: float = strike) -> Any:
            path, knocked = s, False
            for move in (u, v, u * v):
                path = path + 0.5 * move
                if path < strike - 1.0:
                    knocked = True
                    break
            return 0.0 * s if knocked else max(path - strike, 0.0 * path)

        def digital(s: Any, t: Any, strike: float = strike) -> Any:
            return (s > strike) * t + (s <= strike) * (t * t)

        def american(s: Any, u: Any, strike: float = strike) -> Any:
            values = [strike - s * (1.0 + 0.1 * k) for k in (-2, 0, 2)]
            while len(values) > 1:
                held = [0.5 * (a + b) * u for a, b in itertools.pairwise(values)]
                values = [h if h > strike - s else strike - s for h in held]
            return values[0]

        yield Program(f"call at {strike}", call, 1)
        yield Program(f"worst of two at {strike}", spread, 2)
        yield Program(f"barrier at {strike}", barrier, 3)
        yield Program(f"digital at {strike}", digital, 2)
        yield Program(f"early exercise at {strike}", american, 2)


@family
def collisions() -> Iterator[Program]:
    for radius in (0.5, 1.0, 2.0):

        def spheres(x: Any, y: Any, u: Any, v: Any, radius: float = radius) -> Any:
            dx, dy = x - u, y - v
            squared = dx * dx + dy * dy
            if squared >= radius * radius:
                return 0.0 * squared
            distance = np.sqrt(squared)
            return (radius - distance) ** 2 if distance > 0.1 else radius * radius + dx

        def boxes(x: Any, y: Any, u: Any, v: Any, radius: float = radius) -> Any:
            if x + radius < u or u + radius < x:
                return u - x
            if y + radius < v or v + radius < y:
                return v - y
            return (radius - abs(x - u)) * (radius - abs(y - v))

        def wall(x: Any, v: Any, radius: float = radius) -> Any:
            for _ in range(6):
                x = x + 0.5 * v
                if x > radius:
                    x, v = 2.0 * radius - x, -0.9 * v
                elif x < -radius:
                    x, v = -2.0 * radius - x, -0.9 * v
            return x + 0.1 * v

        def inside(x: Any, y: Any, radius: float = radius) -> Any:
            corners = [(0.0, 0.0), (radius, 0.0), (radius, radius), (0.0, radius)]
            crossings = 0
            for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1], strict=True):
                if (ay > y) != (by > y) and x < (bx - ax) * (y - ay) / (by - ay) + ax:
                    crossings += 1
            return x * y if crossings % 2 else x + y

        yield Program(f"spheres of {radius}", spheres, 4)
        yield Program(f"boxes of {radius}", boxes, 4)
        yield Program(f"walls at {radius}", wall, 2)
        yield Program(f"point in a square of {radius}", inside, 2)


@family
def sortings() -> Iterator[Program]:
    for weights in ((1.0, 2.0, 3.0, 4.0), (1.0, -1.0, 1.0, -1.0), (0.0, 0.0, 0.0, 1.0)):

        def network(a: Any, b: Any, c: Any, d: Any, weights: tuple[float, ...] = weights) -> Any:
            items = [a, b, c, d]
            for i, j in ((0, 1), (2, 3), (0, 2), (1, 3), (1, 2)):
                if items[i] > items[j]:
                    items[i], items[j] = items[j], items[i]
            return sum(w * x for w, x in zip(weights, items, strict=True))

        def built_in(a: Any, b: Any, c: Any, weights: tuple[float, ...] = weights) -> Any:
            return sum(w * x for w, x in zip(weights, sorted([a, b, c]), strict=False))

        def insertion(a: Any, b: Any, c: Any, weights: tuple[float, ...] = weights) -> Any:
            items: list[Any] = []
            for x in (a, b, c):
                at = 0
                while at < len(items) and items[at] < x:
                    at += 1
                items.insert(at, x)
            return sum(w * x for w, x in zip(weights, items, strict=False))

        def bubble(a: Any, b: Any, c: Any, d: Any, weights: tuple[float, ...] = weights) -> Any:
            items, swapped, rounds = [a, b, c, d], True, 0
            while swapped and rounds < 6:
                swapped, rounds = False, rounds + 1
                for k in range(3):
                    if items[k] < items[k + 1]:
                        items[k], items[k + 1], swapped = items[k + 1], items[k], True
            return weights[0] * items[0] + weights[3] * items[3] + rounds

        yield Program(f"sorting network {weights}", network, 4)
        yield Program(f"sorted {weights}", built_in, 3)
        yield Program(f"insertion sort {weights}", insertion, 3)
        yield Program(f"bubble sort {weights}", bubble, 4)


@family
def searches() -> Iterator[Program]:
    for shift in (0.0, 0.5, 1.0):

        def argmin(a: Any, b: Any, c: Any, shift: float = shift) -> Any:
            best, at = a, 0
            for k, x in enumerate((b, c + shift), 1):
                if x < best:
                    best, at = x, k
            return best * (at + 1)

        def nearest(x: Any, y: Any, shift: float = shift) -> Any:
            return min((-2.0, -shift, shift, 2.0), key=lambda center: abs(x - center)) * y + x

        def chosen(a: Any, b: Any, c: Any, shift: float = shift) -> Any:
            return max(a, b * b - shift, min(b, c, a + shift))

        def first(a: Any, b: Any, c: Any, shift: float = shift) -> Any:
            return next((x * x for x in (a, b, c) if x > shift), a + b + c)

        def counted(a: Any, b: Any, c: Any, shift: float = shift) -> Any:
            above = sum(1 for x in (a, b, c) if x >= shift)
            return (a + b + c) * above

        def every(a: Any, b: Any, c: Any, shift: float = shift) -> Any:
            if all(x > shift for x in (a, b, c)):
                return a * b * c
            return a + b if any(np.isnan(x) for x in (a, b, c)) or c < shift else c - a

        yield Program(f"argmin loop with {shift}", argmin, 3)
        yield Program(f"nearest center to {shift}", nearest, 2)
        yield Program(f"max and min with {shift}", chosen, 3)
        yield Program(f"first above {shift}", first, 3)
        yield Program(f"count above {shift}", counted, 3)
        yield Program(f"all and any above {shift}", every, 3)


@family
def nestings() -> Iterator[Program]:
    for gap in (0.0, 0.25, 1.0):

        def nested(x: Any, y: Any, gap: float = gap) -> Any:
            if x > gap:
                if y > gap:
                    return x * y
                return x - y if y < -gap else x
            if y != 0.0:
                return x / y
            return x + gap

        def early(x: Any, y: Any, z: Any, gap: float = gap) -> Any:
            if x < -gap:
                return -x
            if y < -gap:
                return x * y
            if z < -gap:
                return x * y * z
            return x + y + z

        def chained(x: Any, y: Any, gap: float = gap) -> Any:
            if -gap <= x < y <= 3.0:
                return y - x
            return x * y if not gap < x != y else x - gap

        def logical(x: Any, y: Any, gap: float = gap) -> Any:
            good = (x > gap and y > gap) or not (x < y)
            return x * x if good else y * y

        def bitwise(x: Any, y: Any, gap: float = gap) -> Any:
            return x if (x > gap) & (y > gap) | (x == y) else y - x

        def ternary(x: Any, y: Any, z: Any, gap: float = gap) -> Any:
            return (x if x > gap else y if y > gap else z) * (1.0 if not np.isnan(x) else 2.0)

        yield Program(f"nested ifs with {gap}", nested, 2)
        yield Program(f"early returns with {gap}", early, 3)
        yield Program(f"chained comparisons with {gap}", chained, 2)
        yield Program(f"and, or, not with {gap}", logical, 2)
        yield Program(f"& and | with {gap}", bitwise, 2)
        yield Program(f"choices with {gap}", ternary, 3)


@family
def recursions() -> Iterator[Program]:
    for most in (4, 8, 16):

        def collatz(x: Any, most: int = most) -> Any:
            if most == 0 or not abs(x) < 1e6 or x == 1.0:
                return x
            halved = np.floor(x / 2.0) * 2.0 == x
            return collatz(x / 2.0 if halved else 3.0 * x + 1.0, most - 1)

        def euclid(a: Any, b: Any, most: int = most) -> Any:
            if most == 0 or not abs(b) > 0.125:
                return a
            return euclid(b, a - b * np.floor(a / b), most - 1)

        def tree(x: Any, y: Any, depth: int = most // 4) -> Any:
            if depth == 0 or x > 4.0:
                return x * y
            return tree(x + 1.0, y, depth - 1) + (tree(x - y, y, depth - 1) if y > 0.0 else y)

        def powers(x: Any, y: Any, most: int = most) -> Any:
            total, term = 1.0 + 0.0 * y, 1.0 + 0.0 * x
            for k in range(1, most):
                term = term * x / k
                total = total + term
                if abs(term) < 1e-3:
                    break
            return total * y

        yield Program(f"Collatz, {most} steps", collatz, 1)
        yield Program(f"Euclid, {most} steps", euclid, 2)
        yield Program(f"a tree {most // 4} deep", tree, 2)
        yield Program(f"a series of {most} terms", powers, 2)


@family
def tables() -> Iterator[Program]:
    for width in (0.5, 1.0, 2.0):

        def piecewise(x: Any, width: float = width) -> Any:
            knots = [(-2.0 * width, 1.0), (-width, -1.0), (width, 2.0), (2.0 * width, 0.5)]
            for (a, p), (b, q) in itertools.pairwise(knots):
                if a <= x < b:
                    return p + (q - p) * (x - a) / (b - a)
            return 3.0 * x if x >= 0.0 else x

        def bracket(x: Any, width: float = width) -> Any:
            tax, rest = 0.0 * x, x
            for size, rate in ((width, 0.1), (2.0 * width, 0.2), (4.0 * width, 0.4)):
                if not rest > size:
                    return tax + rate * rest
                tax, rest = tax + rate * size, rest - size
            return tax + 0.5 * rest

        def indexed(x: Any, y: Any, width: float = width) -> Any:
            bounded = np.minimum(np.maximum(x / width, -2.0), 1.0)
            if np.isnan(bounded):
                return y
            return (1.0, 2.0, 4.0, 8.0)[int(wg.stop_gradient(np.floor(bounded))) + 2] * y + x

        def rounded(x: Any, y: Any, width: float = width) -> Any:
            if not abs(x) < 5.0:
                return x
            return sum([y] * abs(math.floor(wg.stop_gradient(x / width))), x)

        def switched(x: Any, y: Any, width: float = width) -> Any:
            return [x, y][x > width] * [1.0, -1.0, 2.0][(y > 0.0) + int(y > width)]

        def member(x: Any, y: Any, width: float = width) -> Any:
            if x in [0.0, width, 2.0]:
                return y
            return x * y if y not in (1.0, -width) else x

        def matched(x: Any, y: Any, width: float = width) -> Any:
            match x:
                case 0.0:
                    return y
                case 1.0 | -1.0:
                    return y * width
                case _ if x > width:
                    return x * y
            return x - y

        yield Program(f"a table with steps of {width}", piecewise, 1)
        yield Program(f"tax brackets of {width}", bracket, 1)
        yield Program(f"int as an index, {width}", indexed, 2)
        yield Program(f"floor as a count, {width}", rounded, 2)
        yield Program(f"conditions as indices, {width}", switched, 2)
        yield Program(f"in and not in, {width}", member, 2)
        yield Program(f"match, {width}", matched, 2)


@family
def exceptions() -> Iterator[Program]:
    for bound in (0.0, 1.0, 2.0):

        def raised(x: Any, y: Any, bound: float = bound) -> Any:
            try:
                if x < bound:
                    raise ValueError(bound)
                return x * y
            except ValueError:
                return y - x

        def asserted(x: Any, y: Any, bound: float = bound) -> Any:
            try:
                assert x >= y - bound
            except AssertionError:
                return y
            else:
                return x
            finally:
                x = x + 1.0

        def looked_up(x: Any, y: Any, bound: float = bound) -> Any:
            try:
                return [x, y, x * y][int(wg.stop_gradient(np.floor(abs(x) + bound)))]
            except (IndexError, OverflowError, ValueError):
                return y + 2.0 * x

        def looped(x: Any, y: Any, bound: float = bound) -> Any:
            for k in range(5):
                try:
                    if x > bound + k:
                        raise KeyError(k)
                    x = x + abs(y)
                except KeyError:
                    x = x - 0.75
            x = x * 2.0
            return x

        yield Program(f"a raise below {bound}", raised, 2)
        yield Program(f"an assertion with {bound}", asserted, 2)
        yield Program(f"an index out of range from {bound}", looked_up, 2)
        yield Program(f"a raise in a loop from {bound}", looped, 2)


@family
def unusual_numbers() -> Iterator[Program]:
    for guard in (0.0, 1.0):

        def unordered(x: Any, y: Any, guard: float = guard) -> Any:
            if x < y:
                return y - x
            if x >= y:
                return x - y + guard
            return guard + 0.0 if np.isnan(x) else y

        def finite(x: Any, y: Any, guard: float = guard) -> Any:
            ratio = x / y
            return ratio if np.isfinite(ratio) else x + guard

        def signed(x: Any, y: Any, guard: float = guard) -> Any:
            return y if np.signbit(x) else -y * x + guard

        def truth(x: Any, y: Any, guard: float = guard) -> Any:
            return y * y if x else y + guard

        def falsy(x: Any, y: Any, guard: float = guard) -> Any:
            return (x or y) * (guard and x) + (x and y)

        def absolute(x: Any, y: Any, guard: float = guard) -> Any:
            return x if abs(x) == x else y if -x == y else x - y * guard

        yield Program(f"no order, {guard}", unordered, 2)
        yield Program(f"isfinite, {guard}", finite, 2)
        yield Program(f"the sign of zero, {guard}", signed, 2)
        yield Program(f"a number as a condition, {guard}", truth, 2)
        yield Program(f"or and and of numbers, {guard}", falsy, 2)
        yield Program(f"own absolute value, {guard}", absolute, 2)


@family
def curves() -> Iterator[Program]:
    for scale in (0.5, 1.0, 2.0):

        def activation(x: Any, y: Any, scale: float = scale) -> Any:
            z = np.tanh(scale * x) + y
            return z if z > 0.0 else np.exp(np.minimum(z, 0.0)) - 1.0

        def huber(x: Any, y: Any, scale: float = scale) -> Any:
            r = abs(x - y)
            return 0.5 * r * r if r <= scale else scale * (r - 0.5 * scale)

        def adaptive(x: Any, y: Any, scale: float = scale) -> Any:
            t, h, state = 0.0, scale, x
            for _ in range(12):
                if not t < 2.0:
                    break
                whole = state + h * np.sin(state) * 0.5
                half = state + 0.5 * h * np.sin(state) * 0.5
                half = half + 0.5 * h * np.sin(half) * 0.5
                if abs(whole - half) > 0.01 and h > 0.2:
                    h = h / 2.0
                else:
                    t, state = t + h, half
            return state * y

        def mixture(x: Any, y: Any, scale: float = scale) -> Any:
            a, b = -0.5 * (x - scale) ** 2, -0.5 * (x + scale) ** 2
            top = a if a > b else b
            return y + top + np.log(np.exp(a - top) + np.exp(b - top))

        yield Program(f"activation, {scale}", activation, 2, exact=False)
        yield Program(f"Huber, {scale}", huber, 2)
        yield Program(f"adaptive steps from {scale}", adaptive, 2, exact=False)
        yield Program(f"mixture, {scale}", mixture, 2, exact=False)


@family
def derivatives() -> Iterator[Program]:
    for shift in (0.0, 1.0):

        def slope(x: Any, y: Any, shift: float = shift) -> Any:
            return wg.grad(lambda z: z * z * y if z > shift else z * y)(x) + y

        def descent(x: Any, y: Any, shift: float = shift) -> Any:
            for _ in range(4):
                g = wg.grad(lambda z: (z - shift) * (z - shift) if z > y else abs(z))(x)
                if abs(g) < 0.1:
                    break
                x = x - 0.25 * g
            return x

        def both(x: Any, y: Any, shift: float = shift) -> Any:
            value, slope = wg.value_and_grad(lambda z: max(z, shift) * z)(x)
            return value if slope > y else slope * y

        yield Program(f"slope of a branch at {shift}", slope, 2)
        yield Program(f"descent to {shift}", descent, 2)
        yield Program(f"value and slope at {shift}", both, 2)


@family
def random_branches() -> Iterator[Program]:
    """Straight-line steps with random comparisons between them, each of which may take another turn."""
    for seed in range(200 - _written()):
        yield Program(f"random program {seed}", random_program(seed), 3)


def random_program(seed: int) -> Callable[..., Any]:
    rng = np.random.default_rng(seed)
    steps = [(int(rng.integers(6)), *rng.integers(3, size=3).tolist(), float(rng.integers(-2, 3))) for _ in range(12)]

    def f(a: Any, b: Any, c: Any) -> Any:
        held = [a, b, c]
        for kind, i, j, k, number in steps:
            x, y = held[i], held[j]
            if kind == 0:
                held[k] = x + y if x > number else x - y
            elif kind == 1:
                held[k] = x * 0.5 if x <= y else y * 0.5 + number
            elif kind == 2:
                held[k] = max(x, y, number)
            elif kind == 3:
                held[k] = x * y if abs(y) < 4.0 and abs(x) < 4.0 else number - x
            elif kind == 4 and x == y:
                return held[k] + x
            elif kind == 5:
                while x > 3.0 and x < 1e3:
                    x = x / 3.0
                held[k] = x
        return held[0] - held[1] + 0.5 * held[2]

    return f


def _written() -> int:
    return sum(1 for make in MAKERS if make.__name__ != "random_branches" for _ in make())
