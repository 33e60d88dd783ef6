"""Without JAX and ONNX everything else works, and what needs one of them says how to install it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import wiregrad as wg
from tests.support.limits import PATIENCE
from wiregrad.errors import InputError, NotInstalledError

CIRCUIT = wg.circuit("y = x * x")


@pytest.mark.parametrize(
    ("package", "part", "use"),
    [
        ("jax", "to_jax", CIRCUIT.to_jax),
        ("jax", "from_jax", lambda: wg.from_jax(abs, 1.0)),
        ("jax", "watching a JAX function", lambda: wg.watch(abs, 1.0)),
        ("torch", "to_torch", CIRCUIT.to_torch),
        ("onnx", "to_onnx", lambda: CIRCUIT.to_onnx("never_written.onnx")),
        ("onnx", "from_onnx", lambda: wg.from_onnx("never_read.onnx")),
    ],
)
def test_a_missing_package_names_its_install_line(
    package: str, part: str, use: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(NotInstalledError, match=f"^{part} needs {package}, .*: pip install {package}$"):
        use()
    assert not Path("never_written.onnx").exists()


def test_a_function_without_arguments_is_refused_whatever_is_installed() -> None:
    with pytest.raises(InputError, match=r"a function is watched as wg\.watch\(loss, params, x\)"):
        wg.watch(abs)


def test_no_framework_is_imported_until_it_is_asked_for() -> None:
    code = """
import sys, wiregrad as wg
wg.circuit("y = x * x").run(x=1.0), wg.grad(lambda x: x * x)(1.0)
import wiregrad.exchange.framework_export, wiregrad.exchange.onnx_files, wiregrad.exchange.jax_import
print([name for name in ("jax", "torch", "onnx", "onnxruntime") if name in sys.modules])
"""
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)

    assert result.stdout == "[]\n"
