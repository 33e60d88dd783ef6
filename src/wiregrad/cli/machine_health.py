"""What this machine has for running circuits, what is missing, and what to do about it: `wiregrad doctor` prints it."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

import numpy as np

from wiregrad import __version__, settings
from wiregrad.api import circuit
from wiregrad.backends.compiled import INTERPRETER_TIER
from wiregrad.backends.native import batch, jit, vector_math
from wiregrad.backends.native.tiers import LLVM_TIER, STENCIL_TIER
from wiregrad.errors import NotNativeError, SettingError
from wiregrad.frontends.recording.recorder_choice import BUILD_ADVICE, RECORDER_CHOICE
from wiregrad.inspect.report import Report


@dataclass(frozen=True)
class MachineFinding:
    """The result of one check: what was found, and what to do if it is not in order."""

    name: str
    found: str
    ok: bool = True
    remedy: str = ""


@dataclass(frozen=True, repr=False)
class MachineHealth(Report):
    """What a machine has for running circuits; `tiers` lists the fastest backend first."""

    native: bool
    tiers: tuple[str, ...]
    findings: tuple[MachineFinding, ...]

    def lines(self) -> Iterator[str]:
        """Yield a line for each finding, and below it the remedy."""
        width = max(len(finding.name) for finding in self.findings)
        for finding in self.findings:
            yield f"{finding.name:<{width}}  {finding.found}"
            if finding.remedy:
                yield f"{'':<{width}}  {finding.remedy}"
        yield ""
        if not self.tiers:
            yield "circuits are not compiled while an environment variable has an unknown value"
            return
        yield f"circuits run in {'native code' if self.native else 'the interpreter alone'}: {', '.join(self.tiers)}"


def examine_machine() -> MachineHealth:
    """Examine this machine; native code is actually compiled and run.

    >>> examine_machine().findings[0].name
    'wiregrad'
    """
    versions = (
        MachineFinding("wiregrad", __version__),
        MachineFinding("python", f"{platform.python_version()} ({platform.python_implementation()}), {_system_name()}"),
        MachineFinding("numpy", np.__version__),
        *(_check_package(name) for name in ("llvmlite", "pyelftools")),
    )
    unknown = tuple(finding for finding in map(_check_variable, settings.ALLOWED_VALUES) if finding is not None)
    if unknown:
        return MachineHealth(False, (), (*versions, *unknown))
    native = _check_native_code()
    findings = (
        *versions,
        _check_recorder(),
        _check_processor(),
        _check_memory(),
        _check_vector_math(),
        _check_switch(),
        native,
    )
    stencils = (STENCIL_TIER,) if jit.supports_stencils() else ()
    tiers = (*stencils, LLVM_TIER, INTERPRETER_TIER) if native.ok else (INTERPRETER_TIER,)
    return MachineHealth(native.ok, tiers, findings)


def _system_name() -> str:
    return f"{platform.system()} on {platform.machine()}"


def _check_package(name: str) -> MachineFinding:
    try:
        return MachineFinding(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        return MachineFinding(name, "missing", ok=False, remedy=f"native code needs it: pip install {name}")


def _check_recorder() -> MachineFinding:
    """Say which recorder serves values and transforms, and why."""
    module, reason, error = RECORDER_CHOICE
    if module is not None:
        return MachineFinding("recorder", f"in C: {reason}")
    is_wanted = error is None and settings.read_setting(settings.RECORDER_VARIABLE) == settings.RECORDER_PYTHON
    remedy = "" if is_wanted else f"the results are the same, more slowly; {BUILD_ADVICE}"
    return MachineFinding("recorder", f"in Python: {reason}", ok=is_wanted, remedy=remedy)


def _check_processor() -> MachineFinding:
    cores = f"{batch.count_available_threads()} threads at a time"
    try:
        width = jit.vector_bytes()
        numbers = f"vectors of {width} bytes, {width // 8} float64 or {width // 4} float32"
        return MachineFinding("processor", f"{jit.processor_name()}, {numbers}, {cores}")
    except NotNativeError:
        return MachineFinding("processor", f"{platform.machine()}, {cores}")


def _check_memory() -> MachineFinding:
    """Write a return instruction, make it executable, and run it."""
    name = "memory"
    if not jit.supports_stencils():
        return MachineFinding(
            name, f"not tried: there are no stencils for {_system_name()}, LLVM compiles every circuit"
        )
    try:
        jit.try_executable_memory()
    except NotNativeError as error:
        remedy = (
            "allow it in the policy of the system or container: SELinux has execmem, systemd MemoryDenyWriteExecute"
        )
        return MachineFinding(name, f"code cannot be executed: {error}", ok=False, remedy=remedy)
    return MachineFinding(name, "can hold code: a return instruction was written, made executable and run")


def _check_vector_math() -> MachineFinding:
    is_installed = vector_math.load_libmvec() is not None
    return MachineFinding("libmvec", "found" if is_installed else "not found; wiregrad uses its own vector functions")


def _check_variable(variable: str) -> MachineFinding | None:
    """Return a finding about an environment variable with an unknown value; None if its value is known."""
    try:
        settings.read_setting(variable)
    except SettingError as error:
        return MachineFinding(variable, str(error), ok=False, remedy=f"unset {variable}, or choose one of these")
    return None


def _check_switch() -> MachineFinding:
    value = settings.read_setting(jit.NATIVE_SWITCH)
    if value == settings.NATIVE_OFF:
        return MachineFinding(
            jit.NATIVE_SWITCH, value, ok=False, remedy=f"native code is switched off: unset {jit.NATIVE_SWITCH}"
        )
    return MachineFinding(jit.NATIVE_SWITCH, value or "not set")


def _check_native_code() -> MachineFinding:
    """Compile a circuit, run it, and compare it with the interpreter."""
    name = "native code"
    tested = circuit("tanh(x) * y")
    compiled = tested.compile()
    run = tested.run(x=0.5, y=3.0)
    if compiled.info.reason:
        remedy = "the interpreter runs circuits, with the same results, more slowly"
        return MachineFinding(name, f"none: {compiled.info.reason}", ok=False, remedy=remedy)
    value, grads = compiled.value_and_grad(x=0.5, y=3.0)
    if not np.allclose([value, *grads.values()], [run.output, *run.grads.values()], rtol=1e-14, atol=0.0):
        remedy = f"set {jit.NATIVE_SWITCH}=0, and please report it"
        return MachineFinding(name, "wrong: it differs from the interpreter", ok=False, remedy=remedy)
    return MachineFinding(name, "works: a circuit was compiled, run, and compared with the interpreter")
