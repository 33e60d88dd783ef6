"""Code that reads the memory of an array past NumPy's protocols: the right gradient or an error, never a silent zero.

Compiled code of SciPy, buffers, iterators and methods of `np.ndarray` see neither functions of NumPy nor operators.
What they are given is a value, or an array that was filled with values element by element.
"""

from __future__ import annotations

import ctypes
import io
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.sparse
import scipy.spatial
import scipy.stats

from .everyday.snippet import Snippet
from .everyday.verdict import judge

POINT = np.array([1.5, 2.0, 3.0])


def read_saved(array: Any) -> Any:
    file = io.BytesIO()
    np.save(file, array)
    file.seek(0)
    return np.load(file)


def copy_into_plain(array: Any) -> Any:
    target = np.arange(3.0)
    np.copyto(target, array)
    return target


READERS: dict[str, Callable[[Any], Any]] = {
    "frombuffer": np.frombuffer,
    "memoryview": lambda u: np.array(memoryview(u)),
    "tobytes": lambda u: np.frombuffer(u.tobytes()),
    "struct": lambda u: np.array(struct.unpack("3d", u)),
    "ctypes": lambda u: np.array(list((ctypes.c_double * 3).from_buffer(u))),
    "buffer": lambda u: np.ndarray(3, buffer=u),
    "dlpack": np.from_dlpack,
    "save": read_saved,
    "nditer": lambda u: sum(float(x) ** 2 for x in np.nditer(u)),
    "as_strided": lambda u: np.lib.stride_tricks.as_strided(u, (2,), (8,)),
    "ndarray_dot": lambda u: np.ndarray.dot(np.ones(3), u),
    "ndarray_sum": np.ndarray.sum,
    "vectorize": np.vectorize(lambda x: 2.0 * x),
    "frompyfunc": np.frompyfunc(lambda x: 2.0 * x, 1, 1),
    "record_array": lambda u: np.rec.fromarrays([u]).f0,
    "masked_array": lambda u: np.ma.array(u).sum(),
    "copy_into_a_plain_array": copy_into_plain,
    "blas": lambda u: scipy.linalg.blas.ddot(u, np.ones(3)),
    "lapack": lambda u: scipy.linalg.lapack.dgesv(np.eye(3), u)[2],
    "ndimage_zoom": lambda u: scipy.ndimage.zoom(u, 2, order=1),
    "ndimage_shift": lambda u: scipy.ndimage.shift(u, 0.3, order=1),
    "map_coordinates": lambda u: scipy.ndimage.map_coordinates(u, [[0.5, 1.2]], order=1),
    "median_filter": lambda u: scipy.ndimage.median_filter(u, 3),
    "sosfilt": lambda u: scipy.signal.sosfilt(scipy.signal.butter(2, 0.3, output="sos"), u),
    "upfirdn": lambda u: scipy.signal.upfirdn([1.0, 2.0], u),
    "interp1d": lambda u: scipy.interpolate.interp1d(np.arange(3.0), u)([0.5]),
    "splrep": lambda u: scipy.interpolate.splev([0.5], scipy.interpolate.splrep(np.arange(3.0), u, k=1)),
    "sparse_product": lambda u: scipy.sparse.csr_matrix(np.eye(3)) @ u,
    "sparse_of_values": lambda u: scipy.sparse.diags(u) @ np.ones(3),
    "euclidean": lambda u: scipy.spatial.distance.euclidean(u, np.ones(3)),
    "kernel_density": lambda u: scipy.stats.gaussian_kde(np.append(u, [0.3, 0.9]))([0.5]),
}


def fill_plain(x: Any) -> Any:
    out = np.zeros(3)
    for i in range(3):
        out[i] = x[i] * 1.5
    return out


def fill_like(x: Any) -> Any:
    out = np.zeros_like(x)
    out[:2] = x[:2] * 1.5
    out[2] = x[2]
    return out


FILLERS: dict[str, Callable[[Any], Any]] = {
    "a value": lambda x: 1.5 * x,
    "a list of values": lambda x: np.array([x[0], x[1], x[2]]),
    "a copy": lambda x: x.copy(),
    "zeros filled": fill_plain,
    "zeros_like filled": fill_like,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("filler", FILLERS)
@pytest.mark.parametrize("reader", READERS)
def test_no_gradient_is_lost_silently(reader: str, filler: str) -> None:
    snippet = Snippet(
        name=reader,
        theme="escapes",
        function=lambda x: READERS[reader](FILLERS[filler](x)),
        point=(POINT,),
        analytic=False,
        expected=None,
        rtol=1e-6,
        by_keyword=False,
    )
    verdict = judge(snippet)

    assert verdict.agrees or verdict.error is not None, verdict.reason
