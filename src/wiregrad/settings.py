"""The environment variables that wiregrad reads, and their allowed values.

Any other value raises an error; it is never ignored. An empty variable counts as not set.
"""

from __future__ import annotations

import os

from wiregrad.errors import SettingError, shown, suggest

NATIVE = "WIREGRAD_NATIVE"
VECTOR_MATH = "WIREGRAD_VECTOR_MATH"
CONVENTION = "WIREGRAD_CONVENTION"
OFF = "0"
ON = "1"
LLVM = "llvm"
ALLOWED = {
    NATIVE: (OFF, ON, LLVM),
    VECTOR_MATH: ("polynomial", "libmvec", "scalar"),
    CONVENTION: ("min_norm", "torch", "jax"),
}
"""The allowed values of each variable."""


def read_setting(variable: str) -> str:
    """Return the value of an environment variable; empty if it is not set.

    >>> os.environ[NATIVE] = "bogus"
    >>> read_setting(NATIVE)
    Traceback (most recent call last):
        ...
    wiregrad.errors.SettingError: the environment variable WIREGRAD_NATIVE is one of 0, 1, llvm; got 'bogus'
    >>> del os.environ[NATIVE]
    >>> read_setting(NATIVE)
    ''
    """
    value = os.environ.get(variable, "")
    allowed = ALLOWED[variable]
    if value and value not in allowed:
        near = suggest(value, allowed)
        raise SettingError(
            f"the environment variable {variable} is one of {', '.join(allowed)}; got {shown(value)}{near}"
        )
    return value


def check_settings() -> None:
    """Raise `SettingError` if a variable has a value that is not allowed."""
    for variable in ALLOWED:
        read_setting(variable)
