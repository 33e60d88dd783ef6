"""Kalman filter: the likelihood of a noisy track, by the filter's own noise levels and the damping of the motion."""

import numpy as np

STEPS, INTERVAL = 80, 0.1


def motion_matrix(damping):
    """Return the transition of position and velocity in the plane."""
    keep = np.exp(-damping * INTERVAL)
    return np.array(
        [
            [1.0, 0.0, INTERVAL, 0.0],
            [0.0, 1.0, 0.0, INTERVAL],
            [0.0, 0.0, keep, 0.0],
            [0.0, 0.0, 0.0, keep],
        ]
    )


def motion_noise(log_acceleration):
    """Return the covariance that random accelerations add in one step."""
    gain = np.array([[0.5 * INTERVAL**2, 0.0], [0.0, 0.5 * INTERVAL**2], [INTERVAL, 0.0], [0.0, INTERVAL]])
    return np.exp(2.0 * log_acceleration) * gain @ gain.T


class Filter:
    """Mean and covariance of the state, moved on by predictions and measurements."""

    def __init__(self, mean, covariance):
        self.mean = mean
        self.covariance = covariance

    def predict(self, transition, noise):
        """Move one interval on."""
        self.mean = transition @ self.mean
        self.covariance = transition @ self.covariance @ transition.T + noise

    def update(self, observation, matrix, noise):
        """Take in a measurement; returns its log likelihood."""
        innovation = observation - matrix @ self.mean
        spread = matrix @ self.covariance @ matrix.T + noise
        gain = np.linalg.solve(spread, matrix @ self.covariance).T
        self.mean = self.mean + gain @ innovation
        self.covariance = self.covariance - gain @ spread @ gain.T
        _, log_det = np.linalg.slogdet(2 * np.pi * spread)
        return -0.5 * (log_det + innovation @ np.linalg.solve(spread, innovation))


def log_likelihood(damping, log_acceleration, log_sensor, track):
    """Return the log likelihood of a track."""
    transition, noise = motion_matrix(damping), motion_noise(log_acceleration)
    matrix = np.eye(2, 4)
    sensor_noise = np.diag(np.exp(2.0 * log_sensor))
    tracker = Filter(np.concatenate([track[0], np.zeros(2)]), np.eye(4))
    total = 0.0
    for observation in track[1:]:
        tracker.predict(transition, noise)
        total += tracker.update(observation, matrix, sensor_noise)
    return total


def draw_track(rng):
    """Return noisy positions of something that turns about."""
    position, velocity, track = np.zeros(2), np.array([1.0, 0.5]), []
    for _ in range(STEPS):
        velocity = 0.97 * velocity + 0.2 * rng.normal(size=2)
        position = position + INTERVAL * velocity
        track.append(position + 0.1 * rng.normal(size=2))
    return np.array(track)


def make_problem(seed):
    """Return the objective and its parameters."""
    track = draw_track(np.random.default_rng(seed))

    def objective(damping, log_acceleration, log_sensor):
        return -log_likelihood(damping, log_acceleration, log_sensor, track) / STEPS

    return objective, (0.3, 0.2, np.array([-2.0, -1.8]))
