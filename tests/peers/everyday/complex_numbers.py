"""Complex arithmetic on the way from real numbers to real numbers, and complex arguments."""

import numpy as np

from .points import SERIES, VECTOR
from .snippet import at


@at(0.7, differences=True)
def real_part_of_an_exponential(t):
    z = np.exp(1j * t)
    return z.real + 2.0 * z.imag


@at(VECTOR, differences=True)
def magnitude_and_phase(x):
    z = x + 1j * x**2
    return np.abs(z), np.angle(z)


@at(VECTOR, differences=True)
def conjugate_product(x):
    z = (1 + 2j) * x + 1j
    return (z * np.conj(z)).real


@at(0.5, 1.2, differences=True)
def impedance_of_a_circuit(r, c):
    omega = np.array([0.5, 1.0, 2.0])
    z = r + 1 / (1j * omega * c)
    return np.abs(1 / z) ** 2


@at(np.array([1.0 + 2.0j, -0.5 + 0.3j]), differences=True)
def energy_of_a_wave(psi):
    return np.sum(np.abs(psi) ** 2)


@at(np.array([1.0 + 2.0j, -0.5 + 0.3j]), differences=True)
def real_and_imaginary_parts(z):
    return np.real(z) ** 2 + np.imag(z) ** 3 + (z**2).real


@at(1.5 - 0.5j, differences=True)
def complex_number(z):
    return abs(z) ** 2 + (z * z).imag


@at(SERIES, differences=True)
def phase_retrieval_loss(x):
    field = x[:4] + 1j * x[4:]
    far = np.fft.fft(field)
    return np.mean((np.abs(far) - np.array([1.0, 0.5, 2.0, 0.1])) ** 2)


@at(0.3, 1.1, differences=True)
def quantum_gate(theta, phi):
    gate = np.array([[np.cos(theta), -np.exp(1j * phi) * np.sin(theta)], [np.sin(theta), np.cos(theta)]])
    state = gate @ np.array([1.0 + 0j, 1.0j])
    return np.abs(state) ** 2


@at(VECTOR, differences=True)
def hermitian_eigenvalues(x):
    off = x[0] + 1j * x[1]
    hamiltonian = np.array([[x[2], off], [np.conj(off), x[3]]])
    return np.linalg.eigvalsh(hamiltonian)


@at(0.8, differences=True)
def complex_square_root(x):
    return np.sqrt(-x + 0j).imag, np.emath.sqrt(x)


@at(VECTOR, differences=True)
def transfer_function(coefficients):
    z = np.exp(1j * np.linspace(0.1, 1.0, 5))
    response = np.polyval(coefficients, 1 / z)
    return 20 * np.log10(np.abs(response))
