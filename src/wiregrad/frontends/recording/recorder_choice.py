"""Which recorder serves real numbers: the one in C, or the one in Python.

Both give the same results, bit for bit. The C recorder is an extension module, built when the package is installed if
there is a compiler. The environment variable WIREGRAD_RECORDER chooses one of them; it is read once.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from wiregrad.errors import SettingError
from wiregrad.lazy import load_module_lazily
from wiregrad.settings import RECORDER_C, RECORDER_PYTHON, RECORDER_VARIABLE, read_setting

EXTENSION_NAME = "wiregrad._recorder"


class RecorderChoice(NamedTuple):
    """The recorder that serves, and why."""

    module: Any
    """The extension module; None if the Python recorder serves."""
    reason: str
    error: SettingError | None = None
    """Raised when something is recorded: the environment asks for a recorder that there is not."""


def choose_recorder() -> RecorderChoice:
    """Return the C recorder if it was built and is not switched off."""
    try:
        wanted = read_setting(RECORDER_VARIABLE)
    except SettingError as error:
        return RecorderChoice(None, str(error), error)
    if wanted == RECORDER_PYTHON:
        return RecorderChoice(None, f"{RECORDER_VARIABLE}={wanted}")
    try:
        load_module_lazily(EXTENSION_NAME).op_names  # noqa: B018 - loads the module
    except ImportError as missing:
        reason = f"the C recorder cannot be loaded: {missing}"
        refused = SettingError(f"{RECORDER_VARIABLE}={wanted}, but {reason}; {BUILD_ADVICE}")
        return RecorderChoice(None, reason, refused if wanted == RECORDER_C else None)
    module = sys.modules[EXTENSION_NAME]
    return RecorderChoice(module, f"{RECORDER_VARIABLE}={wanted}" if wanted else "it was built with the package")


BUILD_ADVICE = "install a C compiler and Python's headers, and then wiregrad again"
RECORDER_CHOICE = choose_recorder()
RECORDER = RECORDER_CHOICE.module
"""The extension module of the C recorder; None if the Python recorder serves."""
RECORDER_ERROR = RECORDER_CHOICE.error
