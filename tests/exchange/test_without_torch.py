"""Without PyTorch everything else works, and what needs it says how to install it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import wiregrad as wg
from wiregrad.cli import main
from wiregrad.errors import NotInstalledError

INSTALL_LINE = "watching a PyTorch program needs torch, which cannot be imported: pip install torch"


@pytest.fixture
def _no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith("wiregrad.exchange.torch_")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("_no_torch")
def test_watching_names_the_install_line() -> None:
    with pytest.raises(NotInstalledError, match=INSTALL_LINE):
        wg.watch()


@pytest.mark.usefixtures("_no_torch")
def test_importing_names_the_install_line() -> None:
    with pytest.raises(NotInstalledError, match=INSTALL_LINE):
        wg.from_torch(abs, 1.0)


@pytest.mark.usefixtures("_no_torch")
def test_the_command_names_the_install_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\n")

    assert main(["blame", str(script)]) == 4
    assert capsys.readouterr().err == f"wiregrad: {INSTALL_LINE}\n"


def test_a_file_without_torch_is_not_run_as_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "model.py"
    script.write_text("def loss(x):\n    return x * x\n")

    assert main(["blame", str(script)]) == 2
    assert "wanted a function in it" in capsys.readouterr().err
