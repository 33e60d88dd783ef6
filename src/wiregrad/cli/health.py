"""What a machine has for running circuits, what is missing, and what to do: the answer of `wiregrad doctor`."""

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
    """One thing that was looked at: what was found, and what to do if it is not well."""

    name: str
    found: str
    ok: bool = True
    remedy: str = ""


@dataclass(frozen=True, repr=False)
class Health(Report):
    """What a machine has for running circuits, the fastest way first."""

    native: bool
    tiers: tuple[str, ...]
    findings: tuple[Finding, ...]

    def lines(self) -> Iterator[str]:
        """Return a line for each finding, and below it what to do."""
        width = max(len(finding.name) for finding in self.findings)
        for finding in self.findings:
            yield f"{finding.name:<{width}}  {finding.found}"
            if finding.remedy:
                yield f"{'':<{width}}  {finding.remedy}"
        yield ""
        if not self.tiers:
            yield "circuits are not compiled while the environment asks for what is not known"
            return
        yield f"circuits run in {'native code' if self.native else 'the interpreter alone'}: {', '.join(self.tiers)}"


def examine() -> Health:
    """Look at this machine; native code is really tried.

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
    tried = _native()
    findings = (*versions, _processor(), _memory(), _vector_math(), _switch(), tried)
    stencils = (STENCILS,) if machine.has_stencils() else ()
    tiers = (*stencils, LLVM, INTERPRETER) if tried.ok else (INTERPRETER,)
    return Health(tried.ok, tiers, findings)


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
    found = libmvec.library() is not None
    return Finding("libmvec", "found" if found else "not found; wiregrad's own vector functions serve")


def _unknown(variable: str) -> Finding | None:
    """Return what is wrong with an environment variable; None if nothing is."""
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
    """Compile a circuit, run it, and compare."""
    name, tested = "native code", circuit("tanh(x) * y")
    compiled, run = tested.compile(), tested.run(x=0.5, y=3.0)
    if compiled.info.reason:
        remedy = "the interpreter answers, with the same results, more slowly"
        return Finding(name, f"none: {compiled.info.reason}", ok=False, remedy=remedy)
    value, grads = compiled.value_and_grad(x=0.5, y=3.0)
    if not np.allclose([value, *grads.values()], [run.output, *run.grads.values()], rtol=1e-14, atol=0.0):
        remedy = f"set {machine.SWITCH}=0, and please report it"
        return Finding(name, "wrong: it differs from the interpreter", ok=False, remedy=remedy)
    return Finding(name, "works: a circuit was compiled, run, and compared with the interpreter")
