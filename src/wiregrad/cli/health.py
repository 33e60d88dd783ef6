"""What this machine has for running circuits, what is missing, and what to do about it: `wiregrad doctor` prints it."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

import numpy as np

from wiregrad import __version__, settings
from wiregrad.api import circuit
from wiregrad.backends.compiled import INTERPRETER
from wiregrad.backends.native import batch, libmvec, machine, memory
from wiregrad.backends.native.program import LLVM, STENCILS
from wiregrad.errors import NotNativeError, SettingError
from wiregrad.inspect.report import Report


@dataclass(frozen=True)
class Finding:
    """The result of one check: what was found, and what to do if it is not in order."""

    name: str
    found: str
    ok: bool = True
    remedy: str = ""


@dataclass(frozen=True, repr=False)
class Health(Report):
    """What a machine has for running circuits; `tiers` lists the fastest backend first."""

    native: bool
    tiers: tuple[str, ...]
    findings: tuple[Finding, ...]

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


def examine() -> Health:
    """Examine this machine; native code is actually compiled and run.

    >>> examine().findings[0].name
    'wiregrad'
    """
    versions = (
        Finding("wiregrad", __version__),
        Finding("python", f"{platform.python_version()} ({platform.python_implementation()}), {_system()}"),
        Finding("numpy", np.__version__),
        *(_package(name) for name in ("llvmlite", "pyelftools")),
    )
    unknown = tuple(finding for finding in map(_unknown, settings.ALLOWED) if finding is not None)
    if unknown:
        return Health(False, (), (*versions, *unknown))
    native = _native()
    findings = (*versions, _processor(), _memory(), _vector_math(), _switch(), native)
    stencils = (STENCILS,) if machine.has_stencils() else ()
    tiers = (*stencils, LLVM, INTERPRETER) if native.ok else (INTERPRETER,)
    return Health(native.ok, tiers, findings)


def _system() -> str:
    return f"{platform.system()} on {platform.machine()}"


def _package(name: str) -> Finding:
    try:
        return Finding(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        return Finding(name, "missing", ok=False, remedy=f"native code needs it: pip install {name}")


def _processor() -> Finding:
    cores = f"{batch.available()} threads at a time"
    try:
        width = machine.vector_bytes()
        numbers = f"vectors of {width} bytes, {width // 8} float64 or {width // 4} float32"
        return Finding("processor", f"{machine.processor()}, {numbers}, {cores}")
    except NotNativeError:
        return Finding("processor", f"{platform.machine()}, {cores}")


def _memory() -> Finding:
    """Write a return instruction, make it executable, and run it."""
    name = "memory"
    if not machine.has_stencils():
        return Finding(name, f"not tried: there are no stencils for {_system()}, LLVM compiles every circuit")
    try:
        memory.tried()
    except NotNativeError as error:
        remedy = (
            "allow it in the policy of the system or container: SELinux has execmem, systemd MemoryDenyWriteExecute"
        )
        return Finding(name, f"code cannot be executed: {error}", ok=False, remedy=remedy)
    return Finding(name, "can hold code: a return instruction was written, made executable and run")


def _vector_math() -> Finding:
    is_installed = libmvec.library() is not None
    return Finding("libmvec", "found" if is_installed else "not found; wiregrad uses its own vector functions")


def _unknown(variable: str) -> Finding | None:
    """Return a finding about an environment variable with an unknown value; None if its value is known."""
    try:
        settings.read_setting(variable)
    except SettingError as error:
        return Finding(variable, str(error), ok=False, remedy=f"unset {variable}, or choose one of these")
    return None


def _switch() -> Finding:
    value = settings.read_setting(machine.SWITCH)
    if value == settings.OFF:
        return Finding(machine.SWITCH, value, ok=False, remedy=f"native code is switched off: unset {machine.SWITCH}")
    return Finding(machine.SWITCH, value or "not set")


def _native() -> Finding:
    """Compile a circuit, run it, and compare it with the interpreter."""
    name = "native code"
    tested = circuit("tanh(x) * y")
    compiled = tested.compile()
    run = tested.run(x=0.5, y=3.0)
    if compiled.info.reason:
        remedy = "the interpreter runs circuits, with the same results, more slowly"
        return Finding(name, f"none: {compiled.info.reason}", ok=False, remedy=remedy)
    value, grads = compiled.value_and_grad(x=0.5, y=3.0)
    if not np.allclose([value, *grads.values()], [run.output, *run.grads.values()], rtol=1e-14, atol=0.0):
        remedy = f"set {machine.SWITCH}=0, and please report it"
        return Finding(name, "wrong: it differs from the interpreter", ok=False, remedy=remedy)
    return Finding(name, "works: a circuit was compiled, run, and compared with the interpreter")
