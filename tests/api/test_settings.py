"""Environment variables: a value that is not known is refused wherever it is read, never passed over."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from itertools import product

import pytest

import wiregrad as wg
from wiregrad import settings
from wiregrad.backends.native.batch import count_threads
from wiregrad.backends.native.vector_math import MATH_SOURCES, find_vector_function
from wiregrad.cli import main
from wiregrad.errors import SettingError, WiregradError
from wiregrad.ir.columns import Convention

from ..support.limits import PATIENCE

WRONG = ("bogus", "2", "true", "LLVM", " 0", "0 ", "00", "-1", "Torch", "x" * 10_000)
VERBS = [
    ["grad", "x * x", "x=1"],
    ["explain", "--of", "x", "x * x", "x=1"],
    ["check", "x * x", "x=1"],
    ["draw", "x * x"],
    ["code", "x * x"],
    ["receipt", "x * x"],
    ["explore", "x * x", "-o", "-"],
    ["grad", "doctor", "doctor=1"],
]


@pytest.mark.parametrize(
    ("variable", "value"),
    [pair for pair in product(settings.ALLOWED_VALUES, WRONG) if pair != (settings.THREADS_VARIABLE, "2")],
)
def test_a_value_that_is_not_known_is_refused_with_those_that_are(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingError, match=variable) as caught:
        settings.read_setting(variable)

    assert ", ".join(settings.ALLOWED_VALUES[variable]) in str(caught.value)
    assert len(str(caught.value)) < 200
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, WiregradError)


@pytest.mark.parametrize("variable", settings.ALLOWED_VALUES)
def test_values_that_are_known_and_none_at_all_are_read(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (*settings.ALLOWED_VALUES[variable], ""):
        monkeypatch.setenv(variable, value)

        assert settings.read_setting(variable) == value
    monkeypatch.delenv(variable)

    assert settings.read_setting(variable) == ""


@pytest.mark.parametrize("value", ["1", "2", "64"])
def test_the_number_of_threads_is_any_positive_number(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(settings.THREADS_VARIABLE, value)

    assert count_threads() == int(value)


def test_the_values_are_those_that_their_readers_know() -> None:
    assert settings.ALLOWED_VALUES[settings.CONVENTION_VARIABLE] == tuple(convention.label for convention in Convention)
    assert settings.ALLOWED_VALUES[settings.VECTOR_MATH_VARIABLE] == MATH_SOURCES


@pytest.mark.parametrize("compile_", [lambda: wg.circuit("x * x").compile(), lambda: wg.compile(lambda x: x * x)(2.0)])
def test_compiling_refuses_a_switch_that_is_not_known(
    monkeypatch: pytest.MonkeyPatch, compile_: Callable[[], object]
) -> None:
    monkeypatch.setenv(settings.NATIVE_VARIABLE, "bogus")
    with pytest.raises(SettingError, match="WIREGRAD_NATIVE must be one of 0, 1, llvm; got 'bogus'"):
        compile_()


@pytest.mark.parametrize(
    ("value", "tier"), [("1", "stencils"), ("", "stencils"), ("0", "interpreter"), ("llvm", "llvm")]
)
def test_the_switch_says_which_backend_runs_a_circuit(value: str, tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(settings.NATIVE_VARIABLE, value)

    assert wg.circuit("x * x").compile().info.tier == tier


def test_vector_math_refuses_a_source_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(settings.VECTOR_MATH_VARIABLE, "bogus")
    with pytest.raises(SettingError, match="WIREGRAD_VECTOR_MATH must be one of polynomial, libmvec, scalar"):
        find_vector_function("exp", 8, "double")


@pytest.mark.parametrize("variable", settings.ALLOWED_VALUES)
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: " ".join(verb[:2]))
def test_every_command_refuses_an_environment_that_is_not_known(
    verb: list[str], variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, "bogus")
    code = main(verb)
    out, err = capsys.readouterr()

    assert (code, out) == (2, "")
    assert err.startswith(f"wiregrad: the environment variable {variable} must be one of ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("variable", settings.ALLOWED_VALUES)
def test_the_doctor_tells_what_is_wrong_with_the_environment(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, "bogus")
    code = main(["doctor"])
    out = capsys.readouterr().out

    assert code == 0
    assert f"unset {variable}" in out
    assert out.endswith("circuits are not compiled while an environment variable has an unknown value\n")


def test_the_command_prints_no_traceback_for_a_wrong_environment() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "wiregrad", "grad", "x * x", "x=1"],
        env=os.environ | {"WIREGRAD_NATIVE": "bogus"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "wiregrad: the environment variable WIREGRAD_NATIVE must be one of 0, 1, llvm; got 'bogus'\n"
