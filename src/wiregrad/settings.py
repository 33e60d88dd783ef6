"""The environment variables that wiregrad reads, and the values they may have.

A variable with any other value is an error, never a setting that is passed over. An empty one counts as not set.
"""

from __future__ import annotations

import os

from wiregrad.errors import SettingError, shown, suggest

NATIVE, VECTOR_MATH, CONVENTION = "WIREGRAD_NATIVE", "WIREGRAD_VECTOR_MATH", "WIREGRAD_CONVENTION"
OFF, ON, LLVM = "0", "1", "llvm"
ALLOWED = {
    NATIVE: (OFF, ON, LLVM),
    VECTOR_MATH: ("polynomial", "libmvec", "scalar"),
    CONVENTION: ("min_norm", "torch", "jax"),
}
"""The values of each variable."""


def read_setting(variable: str) -> str:
    """Return the value of an environment variable, empty if it is not set.

    >>> os.environ[NATIVE] = "bogus"
    >>> read_setting(NATIVE)
    Traceback (most recent call last):
        ...
    wiregrad.errors.SettingError: the environment variable WIREGRAD_NATIVE is one of 0, 1, llvm; got 'bogus'
    >>> del os.environ[NATIVE]
    >>> read_setting(NATIVE)
    ''
    """
    value, allowed = os.environ.get(variable, ""), ALLOWED[variable]
    if value and value not in allowed:
        near = suggest(value, allowed)
        raise SettingError(
            f"the environment variable {variable} is one of {', '.join(allowed)}; got {shown(value)}{near}"
        )
    return value


def check_settings() -> None:
    """Raise unless every variable has a value that it may have."""
    for variable in ALLOWED:
        read_setting(variable)
