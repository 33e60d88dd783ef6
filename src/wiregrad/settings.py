"""The environment variables that wiregrad reads, and their allowed values.

Any other value raises an error; it is never ignored. An empty variable counts as not set.
"""

from __future__ import annotations

import os

from wiregrad.errors import SettingError, short_repr, suggest_name

NATIVE_VARIABLE = "WIREGRAD_NATIVE"
VECTOR_MATH_VARIABLE = "WIREGRAD_VECTOR_MATH"
CONVENTION_VARIABLE = "WIREGRAD_CONVENTION"
OVERLAY_VARIABLE = "WIREGRAD_NUMPY_OVERLAY"
SCIPY_VARIABLE = "WIREGRAD_SCIPY"
RECORDER_VARIABLE = "WIREGRAD_RECORDER"
CACHE_VARIABLE = "WIREGRAD_CACHE"
THREADS_VARIABLE = "WIREGRAD_THREADS"
NATIVE_OFF = "0"
NATIVE_ON = "1"
NATIVE_LLVM = "llvm"
OVERLAY_OFF = "0"
SCIPY_OFF = "0"
RECORDER_PYTHON = "python"
RECORDER_C = "c"
CACHE_OFF = "0"
CACHE_ON = "1"
ALLOWED_VALUES = {
    NATIVE_VARIABLE: (NATIVE_OFF, NATIVE_ON, NATIVE_LLVM),
    VECTOR_MATH_VARIABLE: ("polynomial", "libmvec", "scalar"),
    CONVENTION_VARIABLE: ("min_norm", "torch", "jax"),
    OVERLAY_VARIABLE: (OVERLAY_OFF, "1"),
    SCIPY_VARIABLE: (SCIPY_OFF, "1"),
    RECORDER_VARIABLE: (RECORDER_PYTHON, RECORDER_C),
    CACHE_VARIABLE: (CACHE_OFF, CACHE_ON),
    THREADS_VARIABLE: ("1",),
}
"""The allowed values of each variable."""
FOLDER_VARIABLES = frozenset([CACHE_VARIABLE])
"""Variables whose value may also be the absolute path of a folder."""
COUNT_VARIABLES = frozenset([THREADS_VARIABLE])
"""Variables whose value may also be a larger whole number."""


def read_setting(variable: str) -> str:
    """Return the value of an environment variable; empty if it is not set.

    >>> os.environ[NATIVE_VARIABLE] = "bogus"
    >>> read_setting(NATIVE_VARIABLE)
    Traceback (most recent call last):
        ...
    wiregrad.errors.SettingError: the environment variable WIREGRAD_NATIVE must be one of 0, 1, llvm; got 'bogus'
    >>> del os.environ[NATIVE_VARIABLE]
    >>> read_setting(NATIVE_VARIABLE)
    ''
    """
    value = os.environ.get(variable, "")
    allowed = ALLOWED_VALUES[variable]
    takes_folder = variable in FOLDER_VARIABLES
    takes_count = variable in COUNT_VARIABLES
    is_folder = takes_folder and os.path.isabs(value)
    is_count = takes_count and value.isascii() and value.isdecimal() and int(value) > 0
    if value and value not in allowed and not is_folder and not is_count:
        near = suggest_name(value, allowed)
        folder = " or the absolute path of a folder" if takes_folder else " or a larger number" if takes_count else ""
        raise SettingError(
            f"the environment variable {variable} must be one of {', '.join(allowed)}{folder}; "
            f"got {short_repr(value)}{near}"
        )
    return value


def check_settings() -> None:
    """Raise `SettingError` if a variable has a value that is not allowed."""
    for variable in ALLOWED_VALUES:
        read_setting(variable)
