"""Rocket: thrust and pitch over time so that a stage reaches its orbit with the least fuel; scalars in a loop."""

import numpy as np

SEGMENTS, SUBSTEPS, DURATION = 8, 2, 160.0
EARTH, GRAVITY, SCALE_HEIGHT = 6371.0, 398600.0, 8.5
DRY_MASS, FUEL, EXHAUST = 12.0, 88.0, 3.2


class Rocket:
    """State in the plane: height and speed in km and km/s, range in radians, mass in tonnes."""

    def __init__(self, height=0.0, climb=0.0, along=0.3, angle=0.0, mass=DRY_MASS + FUEL):
        self.height, self.climb, self.along, self.angle, self.mass = height, climb, along, angle, mass

    def accelerations(self, thrust, pitch):
        """Return the accelerations upwards and along the ground."""
        radius = EARTH + self.height
        speed = np.sqrt(self.climb**2 + self.along**2)
        drag = 0.5 * np.exp(-self.height / SCALE_HEIGHT) * speed / self.mass
        up = thrust / self.mass * np.sin(pitch) - drag * self.climb
        up = up - GRAVITY / radius**2 + self.along**2 / radius
        forward = thrust / self.mass * np.cos(pitch) - drag * self.along
        return up, forward - self.climb * self.along / radius

    def fly(self, thrust, pitch, interval):
        """Return the rocket after an interval, by a symplectic Euler step."""
        up, forward = self.accelerations(thrust, pitch)
        climb = self.climb + interval * up
        along = self.along + interval * forward
        height = self.height + interval * climb
        angle = self.angle + interval * along / (EARTH + height)
        return Rocket(height, climb, along, angle, self.mass - interval * thrust / EXHAUST)


def throttle(setting):
    """Return the thrust of a setting without bounds."""
    return 3.0 / (1.0 + np.exp(-setting))


def fly_mission(settings, pitches):
    """Return the rocket at the end, and the largest load on the way."""
    rocket, load = Rocket(), 0.0
    interval = DURATION / (SEGMENTS * SUBSTEPS)
    for segment in range(SEGMENTS):
        thrust = throttle(settings[segment])
        for _ in range(SUBSTEPS):
            rocket = rocket.fly(thrust, pitches[segment], interval)
            load = load + np.maximum(0.0, thrust / rocket.mass - 0.05) ** 2
    return rocket, load


def mission_cost(settings, pitches, target_height):
    """Return the distance to a circular orbit, the fuel and the load."""
    rocket, load = fly_mission(settings, pitches)
    radius = EARTH + target_height
    orbit = (rocket.height - target_height) ** 2 / 1e3 + 10.0 * rocket.climb**2
    orbit = orbit + 10.0 * (rocket.along - np.sqrt(GRAVITY / radius)) ** 2
    fuel = (DRY_MASS + FUEL - rocket.mass) / FUEL
    return orbit + fuel + load


def make_problem(seed):
    """Return the cost, and settings, pitches and height of the orbit."""
    rng = np.random.default_rng(seed)
    settings = 0.5 + 0.1 * rng.normal(size=SEGMENTS)
    pitches = np.linspace(1.5, 0.2, SEGMENTS) + 0.02 * rng.normal(size=SEGMENTS)

    def cost(settings, pitches, target_height):
        steering = np.sum(np.diff(pitches) ** 2)
        return mission_cost(settings, pitches, target_height) + 0.1 * steering

    return cost, (settings, pitches, 120.0)
