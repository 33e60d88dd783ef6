"""Which modules need another framework: where it is not installed, their examples are run by `make test-peers`."""

from __future__ import annotations

import importlib
import re
from importlib.util import find_spec
from pathlib import Path

PEERS = ("torch", "jax", "onnx", "onnxruntime")


def find_peer(module: str) -> str | None:
    """Return the framework that a module or its examples import and that is not installed; None if there is none."""
    spec = find_spec(module)
    if spec is None or spec.origin is None or "wiregrad.exchange" not in module:
        return None
    names = re.findall(r"^ *>>> import (\w+)", Path(spec.origin).read_text(encoding="utf-8"), re.MULTILINE)
    missing = [name for name in names if name in PEERS and find_spec(name) is None]
    if missing:
        return missing[0]
    try:
        importlib.import_module(module)
    except ImportError as error:
        return error.name if error.name in PEERS else None
    return None
