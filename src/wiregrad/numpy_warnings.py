"""NumPy's warnings about overflow and the like, at the line of the user's code that wrote the op.

NumPy warns at the Python line that called it, which is a line of wiregrad for an op on values. While such an op is
computed, NumPy is asked to log instead, and the log warns at the user's line. Only what NumPy would warn about is
logged: errors that the user ignores, raises or handles stay as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wiregrad.errors import warn_at_user_line

ERROR_SETTINGS: Any = getattr(sys.modules.get("numpy._core.umath"), "_extobj_contextvar", None)
"""The variable that holds NumPy's settings for floating-point errors; None in a version of NumPy without it."""


class _UserLineLog:
    """What NumPy logs errors to: each becomes a warning at the user's line."""

    def write(self, text: str) -> None:
        """Warn about an error that NumPy describes."""
        warn_at_user_line(text.removeprefix("Warning: ").rstrip(), RuntimeWarning)


_LOG = _UserLineLog()
_last_settings: list[tuple[Any, Any]] = [(None, None)]
"""The settings that were last met, and those that log what they warn about; None if they warn about nothing."""


def compute_at_user_line(kernel: Callable[..., Any], xs: Sequence[Any]) -> Any:
    """Call a function of NumPy so that its warnings name the line of the user's code.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     y = compute_at_user_line(np.exp, [np.array([1.0, 1000.0])])
    >>> [str(warning.message) for warning in caught]
    ['overflow encountered in exp']
    """
    if ERROR_SETTINGS is None:
        return kernel(*xs)
    settings = ERROR_SETTINGS.get()
    known, logged = _last_settings[0]
    if settings is not known and settings is not logged:
        logged = _read_settings(settings)
    if logged is None or settings is logged:
        return kernel(*xs)
    token = ERROR_SETTINGS.set(logged)
    try:
        return kernel(*xs)
    finally:
        ERROR_SETTINGS.reset(token)


def _read_settings(settings: Any) -> Any:
    """Return NumPy's current settings with logs in place of warnings; None if there are none, or a log of the user."""
    modes = np.geterr()
    warned = [error for error, mode in modes.items() if mode == "warn"]
    logged = None
    if warned and "log" not in modes.values() and np.geterrcall() is None:
        logs: dict[str, Any] = dict.fromkeys(warned, "log")
        with np.errstate(call=_LOG, **logs):
            logged = ERROR_SETTINGS.get()
    _last_settings[0] = settings, logged
    return logged
