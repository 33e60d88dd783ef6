"""Functions of SciPy that are linear in an array, and that refuse recorded values with what to write instead.

SciPy computes them in compiled code. What it gives for the rows of the identity matrix are the weights of the elements,
so the product with these weights has the value and the gradient.
"""

from __future__ import annotations

from typing import Any

from wiregrad.errors import NoRuleError, format_user_line
from wiregrad.ops.functions.registry import SCIPY_SPELLINGS, register_scipy_method

AT_RECORDED_POINTS = (
    "at recorded points, write splines of degree 1, one for each axis, as in scipy.interpolate.make_interp_spline(b, "
    "scipy.interpolate.make_interp_spline(a, x, k=1)(p), k=1)(q)"
)
REFUSED_PARTS: dict[str, str] = {
    "scipy.interpolate.BSpline": ".__init__",
    "scipy.interpolate.RegularGridInterpolator": ".__init__",
    "scipy.interpolate.griddata": "",
    "scipy.interpolate.interpn": "",
    "scipy.signal.hilbert": "",
}
"""For each function or class, the method that takes the array."""


def _register_refusal(called: str, name: str, advice: str) -> None:
    @register_scipy_method(called, refuses=True)
    def refuse_array(*args: Any, **kwargs: Any) -> Any:
        """Refuse recorded values, and say what to write instead."""
        raise NoRuleError(f"{name} has no rule: {advice}{format_user_line()}")


for _name, _part in REFUSED_PARTS.items():
    _register_refusal(_name + _part, _name, f"write {SCIPY_SPELLINGS[_name]}, where x is the recorded array")
_register_refusal(
    "scipy.interpolate.RegularGridInterpolator.__call__",
    "scipy.interpolate.RegularGridInterpolator",
    AT_RECORDED_POINTS,
)
