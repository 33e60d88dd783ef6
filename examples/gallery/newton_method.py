"""Newton's method: exact Hessians against gradient descent.

Himmelblau's function has four minima. From the same start, gradient descent creeps along the slope; Newton's method,
with `wg.hessian`, doubles the number of right digits at each step.

Run it with `python examples/gallery/newton_method.py`; look for "Newton step 6".
"""

import numpy as np

import wiregrad as wg


def himmelblau(p):
    """Return a function of two numbers with four minima, all of them 0."""
    return (p[0] ** 2 + p[1] - 11.0) ** 2 + (p[0] + p[1] ** 2 - 7.0) ** 2


def descend(p, steps, rate=0.005):
    """Return the places that gradient descent visits."""
    places = [p]
    for _ in range(steps):
        places.append(places[-1] - rate * wg.grad(himmelblau)(places[-1]))
    return np.array(places)


def solve_by_newton(p, steps):
    """Return the places that Newton's method visits."""
    places = [p]
    for step in range(steps):
        slope = wg.grad(himmelblau)(places[-1])
        places.append(places[-1] - np.linalg.solve(wg.hessian(himmelblau)(places[-1]), slope))
        print(f"Newton step {step + 1}: {places[-1].round(6)}, gradient {np.linalg.norm(slope):.1e}")
    return np.array(places)


def main(full=False):
    """Go down by both methods and compare the gradients on the way."""
    start = np.array([4.5, 4.0])
    paths = {"gradient descent": descend(start, 60), "Newton": solve_by_newton(start, 8)}
    sizes = {name: np.array([np.linalg.norm(wg.grad(himmelblau)(p)) for p in path]) for name, path in paths.items()}
    grid = np.linspace(-5.0, 5.0, 60)
    heights = np.array([[himmelblau((x, y)) for x in grid] for y in grid[::-1]])
    return [
        {"title": "The function, dark where it is small", "image": np.clip(np.log1p(heights) / 7.0, 0.0, 1.0)},
        {"title": "The way down", "equal": True, "lines": {name: path.T for name, path in paths.items()}},
        {
            "title": "Size of the gradient",
            "x": "step",
            "log": True,
            "lines": {name: [np.arange(len(size)), np.maximum(size, 1e-15)] for name, size in sizes.items()},
        },
    ]


if __name__ == "__main__":
    main()
