"""`wiregrad doctor`, with what it looks at in place and with some of it missing."""

from __future__ import annotations

import json
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from wiregrad.api import Circuit
from wiregrad.backends.native import jit, vector_math
from wiregrad.backends.native.code_cache import CodeCache
from wiregrad.cli import main
from wiregrad.cli.environment import MachineFinding, MachineHealth, examine_machine
from wiregrad.errors import NotNativeError


def found(health: MachineHealth, name: str) -> MachineFinding:
    return next(finding for finding in health.findings if finding.name == name)


def test_doctor_tells_what_there_is_and_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor"])
    out, err = capsys.readouterr()

    assert (code, err) == (0, "")
    for words in ("python ", platform.python_version(), "numpy ", "llvmlite ", "processor ", "libmvec "):
        assert words in out
    assert "can hold code: a return instruction was written, made executable and run" in out
    assert "works: a circuit was compiled, run, and compared with the interpreter" in out
    assert out.endswith("circuits run in native code: stencils, llvm, interpreter\n")


def test_doctor_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--json"])
    told = json.loads(capsys.readouterr().out)

    assert code == 0
    assert (told["schema"], told["question"], told["answer"]["native"]) == (1, "doctor", True)
    assert {"name": "llvmlite", "found": metadata.version("llvmlite"), "ok": True, "remedy": ""} in told["answer"][
        "findings"
    ]


def test_the_help_of_doctor_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--help"]) == 0
    assert "Example: wiregrad doctor" in capsys.readouterr().out


def test_native_code_that_is_switched_off_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(jit.NATIVE_SWITCH, "0")
    code = main(["doctor"])
    out = capsys.readouterr().out

    assert code == 0
    assert "native code is switched off: unset WIREGRAD_NATIVE" in out
    assert out.endswith("circuits run in the interpreter alone: interpreter\n")


def test_a_package_that_is_missing_is_told_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "llvmlite":
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    def missing() -> None:
        raise NotNativeError("native code needs llvmlite, which cannot be imported")

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(jit, "check_executable_memory", missing)
    health = examine_machine()

    assert found(health, "llvmlite").remedy == "native code needs it: pip install llvmlite"
    assert "needs llvmlite" in found(health, "native code").found
    assert health.tiers == ("interpreter",)


def test_memory_that_must_not_be_executed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(code: Any) -> None:
        raise NotNativeError("this system does not let memory be executed (mprotect: error 13)")

    monkeypatch.setattr(jit.MachineCode, "seal", refused)
    health = examine_machine()

    assert "cannot be executed" in found(health, "memory").found
    assert "execmem" in found(health, "memory").remedy
    assert not health.native
    assert "the interpreter runs circuits" in found(health, "native code").remedy


def test_a_processor_without_stencils_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    health = examine_machine()

    assert "no stencils for Linux on riscv64" in found(health, "memory").found
    assert health.tiers == ("llvm", "interpreter")


def test_without_libmvec_own_functions_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_math, "load_libmvec", lambda: None)
    finding = found(examine_machine(), "libmvec")

    assert finding.ok
    assert "own vector functions" in finding.found


def test_native_code_that_is_wrong_is_not_said_to_work(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Circuit.compile

    def wrong(circuit: Circuit, dtype: Any = None) -> Any:
        return plain(circuit.with_output("x"), dtype)

    monkeypatch.setattr(Circuit, "compile", wrong)
    health = examine_machine()

    assert "differs from the interpreter" in found(health, "native code").found
    assert found(health, "native code").remedy == "set WIREGRAD_NATIVE=0, and please report it"
    assert not health.native


def test_doctor_tells_where_compiled_code_is_kept_and_clears_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WIREGRAD_CACHE", str(tmp_path))
    CodeCache(str(tmp_path)).store_entry("0" * 64, b"code")
    before = found(examine_machine(), "cache")
    code = main(["doctor", "--clear-cache"])
    out = capsys.readouterr().out

    assert before == MachineFinding("cache", f"{tmp_path} (1 file, 0.0 MB)")
    assert code == 0
    assert f"{tmp_path} (0 files, 0.0 MB)" in out


def test_a_cache_that_is_off_or_not_safe_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIREGRAD_CACHE", "0")
    off = found(examine_machine(), "cache")
    tmp_path.chmod(0o777)
    monkeypatch.setenv("WIREGRAD_CACHE", str(tmp_path))
    unsafe = found(examine_machine(), "cache")

    assert (off.ok, off.found) == (True, "off, by WIREGRAD_CACHE or because there is no home folder")
    assert not unsafe.ok
    assert unsafe.found.endswith(f"not used: others may write to {tmp_path}")
    assert unsafe.remedy.startswith("code is compiled anew in every process")
