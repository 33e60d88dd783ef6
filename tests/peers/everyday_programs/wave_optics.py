"""Wave optics: two phase plates shape a laser beam; free space is crossed by FFT (angular spectrum)."""

import numpy as np

SIZE, PIXEL, WAVELENGTH = 64, 10e-6, 0.633e-6


def transfer_function(distance):
    """Return how free space turns the phase of each plane wave."""
    frequency = np.fft.fftfreq(SIZE, PIXEL)
    fx, fy = np.meshgrid(frequency, frequency)
    inside = np.maximum(0.0, 1.0 / WAVELENGTH**2 - fx**2 - fy**2)
    return np.exp(2j * np.pi * distance * (np.sqrt(inside) - 1.0 / WAVELENGTH))


def propagate(field, transfer):
    """Return the field at the next plane."""
    return np.fft.ifft2(np.fft.fft2(field) * transfer)


def gaussian_beam(waist):
    """Return the amplitude of a beam of a given width."""
    axis = (np.arange(SIZE) - SIZE / 2) * PIXEL
    x, y = np.meshgrid(axis, axis)
    return np.exp(-(x**2 + y**2) / waist**2)


def lens_phase(focal_length):
    """Return the phase of a thin lens."""
    axis = (np.arange(SIZE) - SIZE / 2) * PIXEL
    x, y = np.meshgrid(axis, axis)
    return -np.pi * (x**2 + y**2) / (WAVELENGTH * focal_length)


def shape_beam(phases, focal_length, beam, transfers):
    """Return the intensity on the screen after both plates and a lens."""
    field = beam
    for phase, transfer in zip(phases, transfers, strict=True):
        field = propagate(field * np.exp(1j * phase), transfer)
    field = propagate(field * np.exp(1j * lens_phase(focal_length)), transfers[0])
    return np.real(field * np.conj(field))


def target_picture():
    """Return the wanted intensity: a soft ring."""
    axis = np.linspace(-1.0, 1.0, SIZE)
    x, y = np.meshgrid(axis, axis)
    return np.exp(-(((np.sqrt(x**2 + y**2) - 0.4) / 0.1) ** 2))


def overlap_loss(intensity, target):
    """Return how far two pictures are from proportional."""
    top = np.sum(intensity * target)
    return 1.0 - top / np.sqrt(np.sum(intensity**2) * np.sum(target**2))


def make_problem(seed):
    """Return the loss, the phases of the plates and the focal length."""
    rng = np.random.default_rng(seed)
    beam, target = gaussian_beam(0.2e-3), target_picture()
    transfers = [transfer_function(0.05), transfer_function(0.08)]
    phases = [0.5 * rng.normal(size=(SIZE, SIZE)) for _ in range(2)]

    def loss(phases, focal_length):
        smoothness = sum(np.mean(np.diff(phase, axis=0) ** 2) for phase in phases)
        return overlap_loss(shape_beam(phases, focal_length, beam, transfers), target) + 1e-3 * smoothness

    return loss, (phases, 0.12)
