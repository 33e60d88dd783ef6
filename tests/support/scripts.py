"""Scripts of the repository that are no part of the package, as modules, and code in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from .limits import PATIENCE


def load_script(path: Path) -> ModuleType:
    """Return the module that a file holds."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up in sys.modules.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def run_without_overlay(code: str) -> str:
    """Return what code prints in a process where NumPy's functions are not replaced."""
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "WIREGRAD_NUMPY_OVERLAY": "0", "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=PATIENCE,
    )
    return run.stdout
