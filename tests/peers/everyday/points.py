"""Points that many snippets share. Nothing is equal to anything else in them, so that no snippet sits on a kink."""

from __future__ import annotations

import numpy as np

VECTOR = np.array([0.52, -1.25, 2.03, 0.31, -0.74])
POSITIVE = np.array([0.4, 1.3, 2.2, 0.9])
SHARES = np.array([0.1, 0.25, 0.65])
MATRIX = np.array([[1.2, -0.4, 0.7], [0.3, 2.1, -0.6], [-0.5, 0.8, 1.7]])
WIDE = np.array([[0.2, 1.1, -0.3, 0.8], [-0.9, 0.6, 1.4, -1.6], [0.7, -0.2, 0.1, 1.9]])
SYMMETRIC = np.array([[2.5, 0.3, -0.4], [0.3, 1.8, 0.6], [-0.4, 0.6, 3.1]])
CUBE = np.sin(np.arange(24.0) * 1.7).reshape(2, 3, 4)
SERIES = np.array([0.1, 0.9, 0.4, -0.6, 1.5, 1.1, -0.2, 0.8])
