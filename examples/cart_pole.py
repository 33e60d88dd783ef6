"""Optimal control of a cart with a pole: the forces that swing the pole up and hold it there.

A pole hangs from a cart. The unknowns are the forces on the cart in 60 intervals of time; the simulation is an
ordinary loop of Runge-Kutta steps. `wg.least_squares` makes the forces small and the state at the end the wanted one:
the pole upright, the cart back in the middle, nothing moving. The derivatives by all forces are exact, and compiled.

Run it with `python examples/cart_pole.py`; look for "angle from upright at the end 0.00". With the word `full` behind
its name there are 120 intervals, and the forces are nearer to the least that do it.
"""

import sys

import numpy as np

import wiregrad as wg

CART, POLE, LENGTH, GRAVITY = 1.0, 0.3, 0.5, 9.81
DURATION = 2.0


def find_rates(state, force):
    """Return how place, angle (0 hangs down), speed and turning speed change."""
    _, angle, speed, turning = state
    sine, cosine = np.sin(angle), np.cos(angle)
    push = force + POLE * sine * (LENGTH * turning**2 + GRAVITY * cosine)
    acceleration = push / (CART + POLE * sine**2)
    turn = -(acceleration * cosine + GRAVITY * sine) / LENGTH
    return speed, turning, acceleration, turn


def advance(state, force, dt):
    """Return the state after one step of the Runge-Kutta method of fourth order."""

    def move(rates, part):
        return [s + part * dt * r for s, r in zip(state, rates, strict=True)]

    first = find_rates(state, force)
    second = find_rates(move(first, 0.5), force)
    third = find_rates(move(second, 0.5), force)
    fourth = find_rates(move(third, 1.0), force)
    mean = [(a + 2.0 * b + 2.0 * c + d) / 6.0 for a, b, c, d in zip(first, second, third, fourth, strict=True)]
    return move(mean, 1.0)


def simulate(forces, count):
    """Return the states of the cart, the pole hanging still at first."""
    state = [0.0, 0.0, 0.0, 0.0]
    states = [state]
    for k in range(count):
        state = advance(state, forces[k], DURATION / count)
        states.append(state)
    return states


def find_forces(count, weight, steps):
    """Return the report of a search for small forces; `weight` says how much a force of 1 N counts."""

    def find_errors(forces):
        place, angle, speed, turning = simulate(forces, count)[-1]
        end = np.stack([place, angle - np.pi, 0.3 * speed, 0.3 * turning])
        return np.concatenate([end, weight * np.sqrt(DURATION / count) * forces])

    start = 2.0 * np.sin(np.linspace(0.0, 3.0 * np.pi, count))
    return wg.least_squares(wg.compile(find_errors), start, max_steps=steps)


def main(full=False):
    """Find the forces, and show the motion."""
    count = 120 if full else 60
    fit = find_forces(count, weight=3e-3, steps=1000 if full else 60)
    for step in range(0, len(fit.history), max(1, len(fit.history) // 10)):
        print(f"step {step:3}  cost {fit.history[step]:.6f}")
    states = np.array(simulate(fit.x, count))
    _, angle, speed, turning = states[-1]
    print(f"{'converged' if fit.converged else 'stopped'} after {fit.steps} steps: {fit.reason}")
    print(f"largest force {np.abs(fit.x).max():.1f} N, largest distance {np.abs(states[:, 0]).max():.2f} m")
    print(f"angle from upright at the end {abs(angle - np.pi):.5f} rad, speeds {speed:.4f} m/s, {turning:.4f} rad/s")
    return draw_motion(states, fit.x, count)


def draw_motion(states, forces, count):
    """Return the panels of the picture."""
    times = np.linspace(0.0, DURATION, count + 1)
    carts = np.stack([states[:, 0], np.zeros(count + 1)])
    tips = carts + LENGTH * np.stack([np.sin(states[:, 1]), -np.cos(states[:, 1])])
    # Each pole is drawn from the cart to its tip and back, so that all of them are one line.
    poles = np.stack([carts, tips, carts], axis=2)[:, :: count // 20]
    return [
        {
            "title": "The pole on its way",
            "x": "m",
            "equal": True,
            "lines": {"tip": tips, "pole": poles.reshape(2, -1)},
        },
        {"title": "Force on the cart", "x": "time [s]", "y": "N", "lines": {"force": [times[:-1], forces]}},
        {
            "title": "State",
            "x": "time [s]",
            "lines": {"place [m]": [times, states[:, 0]], "angle [rad]": [times, states[:, 1]]},
        },
    ]


if __name__ == "__main__":
    main("full" in sys.argv)
