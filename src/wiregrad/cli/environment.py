"""The commands about this machine and its shell: `doctor`, `bench` and `completion`.

`examine_machine` finds out what this machine has for running circuits, what is missing, and what to do about it. What
the commands examine and measure is imported when they run, so that the other commands start quickly.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from wiregrad import __version__, settings
from wiregrad.api import circuit
from wiregrad.cli.command_base import (
    ANSWER_SCHEMA,
    ExampleCommand,
    encode_lines,
    json_option,
    print_answer,
    write_output,
)
from wiregrad.dtypes import count_with_noun
from wiregrad.errors import NotNativeError, SettingError
from wiregrad.inspect.report import Report
from wiregrad.lazy import load_module_lazily

if TYPE_CHECKING:
    from importlib import metadata

    from wiregrad.backends import compiled
    from wiregrad.backends.native import batch, code_cache, jit, tiers, vector_math
    from wiregrad.cli import bench
    from wiregrad.frontends.recording import tape
else:
    metadata = load_module_lazily("importlib.metadata")
    compiled = load_module_lazily("wiregrad.backends.compiled")
    batch = load_module_lazily("wiregrad.backends.native.batch")
    code_cache = load_module_lazily("wiregrad.backends.native.code_cache")
    jit = load_module_lazily("wiregrad.backends.native.jit")
    tiers = load_module_lazily("wiregrad.backends.native.tiers")
    vector_math = load_module_lazily("wiregrad.backends.native.vector_math")
    tape = load_module_lazily("wiregrad.frontends.recording.tape")
    bench = load_module_lazily("wiregrad.cli.bench")

SHELL_COMPLETERS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}

COMPLETION_VARIABLES = {"wiregrad": "_WIREGRAD_COMPLETE", "wg": "_WG_COMPLETE"}
"""The environment variable in which the script passes its request, by the name of the program."""


@click.command(
    "completion",
    cls=ExampleCommand,
    example="completion bash",
    short_help="Print a script that completes commands, options and files.",
)
@click.argument("shell", type=click.Choice(list(SHELL_COMPLETERS)))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print a script that lets a shell complete commands, options and files of `wiregrad` and `wg`.

    \b
    To keep it:
      bash  wiregrad completion bash >> ~/.bashrc
      zsh   wiregrad completion zsh >> ~/.zshrc
      fish  wiregrad completion fish > ~/.config/fish/conf.d/wiregrad.fish
    """
    root = context.find_root().command
    for program, variable in COMPLETION_VARIABLES.items():
        click.echo(SHELL_COMPLETERS[shell](root, {}, program, variable).source())


BENCH_SIZES = ("quick", "full", "tiny")
BENCH_PARTS = ("compile", "point", "batch", "call", "memory")
BENCH_ENDINGS = (".md", ".json")


@click.command(
    "bench",
    cls=ExampleCommand,
    example="bench --size tiny",
    short_help="Measure native code beside the interpreter, plain Python, C and LLVM.",
    params=[
        click.Option(
            ["--size"],
            type=click.Choice(BENCH_SIZES),
            default="quick",
            show_default=True,
            help="How large the workloads are: full takes many minutes, tiny only shows that all of it runs.",
        ),
        click.Option(
            ["--part", "parts"], type=click.Choice(BENCH_PARTS), multiple=True, help="Measure some of it only."
        ),
        click.Option(
            ["-o", "--output", "outputs"], multiple=True, metavar="FILE", help="Write a file instead: .md, .json."
        ),
        json_option(),
    ],
)
def bench_command(size: str, parts: tuple[str, ...], outputs: tuple[str, ...], document: bool) -> None:
    """Measure native code beside the interpreter, plain Python, C and LLVM.

    All of them get the same circuits, must give the same answers before anything is timed, and take turns in one
    process. Times are medians. The tables say what was wanted and whether it was found, and name what is missing here,
    such as a C compiler. Other frameworks are compared by `make bench` in a clone.
    """
    wrong = [name for name in outputs if Path(name).suffix not in BENCH_ENDINGS]
    if wrong:
        raise click.UsageError(f"the name {wrong[0]!r} does not say the form; wanted a file that ends in .md or .json")
    report = bench.run_suite(
        {"quick": bench.QUICK_SIZES, "full": bench.FULL_SIZES, "tiny": bench.TINY_SIZES}[size], parts=parts
    )
    as_json = json.dumps({"schema": ANSWER_SCHEMA, **report.to_document()}, indent=2)
    for name in outputs:
        text = as_json if name.endswith(".json") else report.to_markdown()
        write_output(name, encode_lines(text.rstrip()))
    if document or not outputs:
        click.echo(as_json if document else report.to_markdown())


@click.command(
    "doctor",
    cls=ExampleCommand,
    example="doctor",
    short_help="Say what this machine has for native code, and what is missing.",
    params=[
        click.Option(["--clear-cache"], is_flag=True, help="Remove the compiled code of earlier processes first."),
        json_option(),
    ],
)
def doctor_command(clear_cache: bool, document: bool) -> None:
    """Say what this machine has for native code, and what is missing.

    Everything is tried: memory is made executable, and a circuit compiled and compared. Without native code the
    interpreter answers, so the exit code is 0 either way.
    """
    if clear_cache:
        _clear_cache()
    print_answer("doctor", examine_machine(), document, has_problem=False)


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
        _check_package("llvmlite"),
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
        _check_cache(),
    )
    stencils = (tiers.STENCIL_TIER,) if jit.supports_stencils() else ()
    backends = (*stencils, tiers.LLVM_TIER, compiled.INTERPRETER_TIER) if native.ok else (compiled.INTERPRETER_TIER,)
    return MachineHealth(native.ok, backends, findings)


def _system_name() -> str:
    return f"{platform.system()} on {platform.machine()}"


def _check_package(name: str) -> MachineFinding:
    try:
        return MachineFinding(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        return MachineFinding(name, "missing", ok=False, remedy=f"native code needs it: pip install {name}")


def _check_recorder() -> MachineFinding:
    """Say which recorder serves values and transforms, and why."""
    module, reason, error = tape.RECORDER_CHOICE
    if module is not None:
        return MachineFinding("recorder", f"in C: {reason}")
    is_wanted = error is None and settings.read_setting(settings.RECORDER_VARIABLE) == settings.RECORDER_PYTHON
    remedy = "" if is_wanted else f"the results are the same, more slowly; {tape.BUILD_ADVICE}"
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


def _check_cache() -> MachineFinding:
    """Say where compiled code is kept for later processes, and how much of it there is."""
    name = "cache"
    if not jit.links_own_code():
        return MachineFinding(name, f"none: compiled code cannot be kept on {_system_name()}")
    cache = code_cache.open_cache()
    if cache is None:
        return MachineFinding(name, f"off, by {settings.CACHE_VARIABLE} or because there is no home folder")
    contents = cache.measure_contents()
    size = f"{count_with_noun(contents.entries, 'file')}, {contents.size / 1e6:.1f} MB"
    found = f"{cache.folder} ({size})"
    if cache.problem:
        remedy = f"code is compiled anew in every process; {settings.CACHE_VARIABLE} can name another folder"
        return MachineFinding(name, f"{found}, not used: {cache.problem}", ok=False, remedy=remedy)
    return MachineFinding(name, found)


def _clear_cache() -> None:
    """Remove the entries of the cache."""
    cache = code_cache.open_cache()
    if cache is not None:
        try:
            cache.clear_entries()
        except OSError as error:
            raise click.ClickException(f"the cache {cache.folder} cannot be cleared: {error}") from None


def _check_native_code() -> MachineFinding:
    """Compile a circuit, run it, and compare it with the interpreter."""
    name = "native code"
    tested = circuit("tanh(x) * y")
    program = tested.compile()
    run = tested.run(x=0.5, y=3.0)
    if program.info.reason:
        remedy = "the interpreter runs circuits, with the same results, more slowly"
        return MachineFinding(name, f"none: {program.info.reason}", ok=False, remedy=remedy)
    value, grads = program.value_and_grad(x=0.5, y=3.0)
    if not np.allclose([value, *grads.values()], [run.output, *run.grads.values()], rtol=1e-14, atol=0.0):
        remedy = f"set {jit.NATIVE_SWITCH}=0, and please report it"
        return MachineFinding(name, "wrong: it differs from the interpreter", ok=False, remedy=remedy)
    return MachineFinding(name, "works: a circuit was compiled, run, and compared with the interpreter")
