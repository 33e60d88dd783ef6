"""The package as a whole: imports, public names, examples in docs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import json
import pkgutil
import pydoc
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import wiregrad
from wiregrad.frontends.recording.tape import RECORDER
from wiregrad.ops import TABLE, Op, functions

from .support.examples import check_example
from .support.limits import PATIENCE
from .support.peer_modules import find_peer

ROOT = Path(__file__).parent.parent
ALL_MODULES = [info.name for info in pkgutil.walk_packages(wiregrad.__path__, "wiregrad.")]
MODULES = [name for name in ALL_MODULES if find_peer(name) is None]
SUPPORT = sorted(path.stem for path in (ROOT / "tests" / "support").glob("*.py") if ">>>" in path.read_text())
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
HEAVY = ["click", "rich", "hypothesis", "mpmath", "pytest", "scipy", "torch", "jax", "difflib", "asyncio", "unittest"]


def test_only_modules_of_exchange_need_another_framework() -> None:
    assert {name for name in ALL_MODULES if find_peer(name) and not name.startswith("wiregrad.exchange")} == set()


def loaded_by(code: str) -> set[str]:
    command = [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout.split())


def test_importing_wiregrad_loads_nothing_heavy_beyond_numpy() -> None:
    added = loaded_by("import wiregrad") - loaded_by("import numpy")
    outside = {name.partition(".")[0] for name in added} - {"wiregrad"}

    assert not outside & {*HEAVY}
    assert "wiregrad.cli" not in added
    assert "wiregrad.testing" not in added


FIRST_GRADIENT = "import wiregrad as wg; assert wg.grad(lambda x: x * x)(3.0) == 6.0"
RARELY_NEEDED = [
    "numpy.random",
    "wiregrad.api.compiled_function",
    "wiregrad.frontends.recording.custom_ops",
    "wiregrad.frontends.recording.trace",
    "wiregrad.frontends.replay.recorded_calls",
    "wiregrad.ops.c_expressions",
    "wiregrad.ops.fourier_records",
    "wiregrad.ops.functions.special_and_integrate",
    "wiregrad.ops.functions.statistics",
    "wiregrad.ops.linalg_records",
]


@pytest.mark.parametrize("f", ["x * x", "wg.square(x)", "wg.abs(x) * wg.maximum(x, 0.0)", "wg.clip(x * x, 0.0, 10.0)"])
def test_a_first_gradient_loads_only_what_it_needs(f: str) -> None:
    first = f"import wiregrad as wg; assert wg.grad(lambda x: {f})(3.0) == 6.0"

    assert not loaded_by(first) & {*RARELY_NEEDED} - ({"wiregrad.ops.c_expressions"} if RECORDER is None else set())


FIRST_COMPILED = {
    "circuit": "assert wg.circuit('ab * ab').compile().value_and_grad(ab=3.0) == (9.0, {'ab': 6.0})",
    "function": "assert wg.compile(lambda x: x * x).value_and_grad(3.0) == (9.0, 6.0)",
}
RARELY_COMPILED = [
    "numpy.fft",
    "sysconfig",
    "wiregrad.backends.native_arrays.array_program",
    "wiregrad.frontends.transforms.loop_ops",
    "wiregrad.frontends.replay.branch_merging",
    "wiregrad.ops.fourier_records",
    "wiregrad.ops.linalg_records",
]


@pytest.mark.parametrize("use", FIRST_COMPILED.values(), ids=FIRST_COMPILED)
def test_a_first_compiled_gradient_loads_only_what_it_needs(use: str) -> None:
    # With an empty cache LLVM is loaded, and with it modules such as sysconfig.
    loaded_by(f"import wiregrad as wg; {use}")

    assert not loaded_by(f"import wiregrad as wg; {use}") & {*RARELY_COMPILED}


LATE_USES = [
    "assert wg.compile(lambda x: x if x > 0.0 else -x).value_and_grad(-3.0) == (3.0, -1.0)",
    "assert wg.compile(lambda x: np.sin(x).sum())(np.zeros(3)) == 0.0",
    "assert wg.softmax(np.zeros(2))[0] == 0.5",
    "assert wg.grad(lambda x: np.polyval([x, 1.0], 2.0))(3.0) == 2.0",
    "assert abs(wg.grad(lambda x: abs(np.fft.fft(np.ones(4) * x)[0]))(3.0) - 4.0) < 1e-12",
    "import scipy.special; assert wg.grad(lambda x: scipy.special.logit(x))(0.5) == 4.0",
    "import scipy.stats; assert wg.grad(lambda x: scipy.stats.norm.logpdf(x))(3.0) == -3.0",
    "from numpy.polynomial import polynomial as p; assert wg.grad(lambda x: p.polyval(x, [1.0, 2.0]))(3.0) == 2.0",
    "assert str(wg.circuit(wg.Value(2.0) * 3.0)).count('multiply') == 1",
    "assert issubclass(type('Twice', (wg.Function,), {}), wg.Function)",
    "assert wg.grad(lambda x: np.linalg.det(x))(np.diag([2.0, 3.0])).tolist() == [[3.0, 0.0], [0.0, 2.0]]",
    "assert (wg.Value(np.eye(2)) @ np.ones(2)).data.tolist() == [1.0, 1.0]",
    "assert np.allclose(wg.expm(np.zeros((2, 2))), np.eye(2), rtol=0.0, atol=1e-15)",
    "assert wg.ops.svd.name == 'svd' and 'rfft' in wg.ops.TABLE",
]
TRY_IN_FORKS = f"""
import json, os, sys, traceback
import numpy as np
{FIRST_GRADIENT}
answers = {{}}
for use in sys.argv[1:]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            exec(use)
        except BaseException:
            os.write(writing, traceback.format_exc().encode()[-4000:])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        answers[use] = stream.read()
    if os.waitpid(child, 0)[1]:
        answers[use] += "the process ended"
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def late_errors() -> dict[str, str]:
    """Try what a first gradient leaves out, each in a fork of a process that has computed one; return the errors."""
    command = [sys.executable, "-c", TRY_IN_FORKS, *LATE_USES]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    errors: dict[str, str] = json.loads(done.stdout)
    return errors


@pytest.mark.parametrize("use", LATE_USES)
def test_what_a_first_gradient_leaves_out_is_loaded_when_it_is_used(use: str, late_errors: dict[str, str]) -> None:
    assert late_errors[use] == ""


def test_threads_wait_for_functions_that_another_thread_loads() -> None:
    code = """
import threading
results = []
def call(): results.append(wg.grad(lambda x: np.polyval([x, 1.0], 2.0))(3.0))
threads = [threading.Thread(target=call) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert results == [2.0] * 8, results
"""
    assert "wiregrad" in loaded_by(f"{FIRST_GRADIENT}\nimport numpy as np\n{code}")


def test_threads_wait_for_ops_that_another_thread_loads() -> None:
    code = """
import threading
names, found = ["svd", "rfft", "eigh", "irfft", "matmul", "qr", "logm", "expm"], []
def look_up(name): found.append(wg.ops.TABLE[name].name)
threads = [threading.Thread(target=look_up, args=(name,)) for name in names]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert sorted(found) == sorted(names), found
"""
    assert "wiregrad.ops.linalg_records" in loaded_by(f"{FIRST_GRADIENT}\n{code}")


def test_an_op_cannot_take_the_name_of_one_that_is_loaded_later() -> None:
    code = """
from dataclasses import replace
try:
    wg.ops.register(replace(wg.ops.square, name="svd", aliases=()))
except wg.WiregradError as error:
    assert "registered already, by svd" in str(error), error
else:
    raise AssertionError("registered")
assert wg.ops.svd.inputs != wg.ops.square.inputs or wg.ops.svd.doc != wg.ops.square.doc
"""
    assert "wiregrad.ops.linalg_records" in loaded_by(f"{FIRST_GRADIENT}\n{code}")


def test_all_ops_on_numbers_are_loaded_by_a_first_gradient() -> None:
    code = """
before = len(wg.ops.TABLE.by_code())
assert len(wg.ops.TABLE) > before
late = [op.name for op in list(wg.ops.TABLE)[before:] if op.by_element]
assert not late, late
"""
    assert "wiregrad.ops.linalg_records" in loaded_by(f"{FIRST_GRADIENT}\n{code}")


def test_no_function_that_is_loaded_later_has_the_name_of_an_op_on_numbers() -> None:
    later = {f"wiregrad.ops.functions.{name}" for name in functions._DEFERRED_MODULES}
    names = {name for name, entry in functions.FUNCTIONS.items() if entry.run.__module__ in later}
    own = {name for op in TABLE if op.by_element for name in (op.name, *op.aliases)}

    assert names & own == {"polygamma"}
    assert not isinstance(wiregrad.polygamma, Op)


def test_functions_that_are_loaded_later_are_no_methods_and_no_ops() -> None:
    later = {f"wiregrad.ops.functions.{name}" for name in functions._DEFERRED_MODULES}
    known = [*functions.FUNCTIONS.values(), *functions.FUNCTIONS_BY_SCIPY.values()]
    entries = [entry for entry in known if entry.run.__module__ in later]
    forwards = {op.forward for op in TABLE}

    assert {entry.run.__module__ for entry in entries} == later
    assert not [entry.name for entry in entries if entry.method or not forwards.isdisjoint(entry.numpy)]


def test_dir_lists_each_public_name_once() -> None:
    names = dir(wiregrad)
    table_names = {name for op in TABLE for name in (op.name, *op.aliases)}
    modules = [name for name in names if isinstance(getattr(wiregrad, name), ModuleType)]
    others: dict[int, list[str]] = {}
    for name in names:
        others.setdefault(id(getattr(wiregrad, name)), []).append(name)
    twice = [group for group in others.values() if len(group) > 1 and not {*group} <= table_names]

    assert sorted(set(names)) == names
    assert not [name for name in names if name.startswith("_")]
    assert modules == ["nn", "ops", "optim"]
    assert twice == []


@pytest.mark.parametrize("internal", ["sum_to", "spread", "add_reduce", "linalg_trace", "values", "suggest_name"])
def test_dir_lists_no_internals(internal: str) -> None:
    assert internal not in dir(wiregrad)


VALUE = wiregrad.Value(2.0)
ARRAY = wiregrad.Value(np.ones((2, 2)))


@pytest.mark.parametrize(
    ("function", "signature"),
    [
        (wiregrad.relu, "(x, /)"),
        (wiregrad.leaky_relu, "(x, slope=0.01, /)"),
        (wiregrad.ops.sum, "(x, /, *, axes, keepdims)"),
        (wiregrad.ops.matmul, "(a, b, /)"),
        (wiregrad.ops.concatenate, "(*x, axis)"),
        (VALUE.tanh, "()"),
        (ARRAY.tanh, "()"),
        (ARRAY.maximum, "(b, /)"),
        (wiregrad.Value.sigmoid, "(x, /)"),
    ],
)
def test_ops_and_methods_show_their_signature(function: Callable[..., Any], signature: str) -> None:
    assert str(inspect.signature(function)) == signature


@pytest.mark.parametrize(
    ("thing", "shown"),
    [
        (wiregrad.relu, ["relu(x)", "The wire where it is positive"]),
        (wiregrad.sum, ["sum(a", "axis", "keepdims", "Sum along axes"]),
        (wiregrad.grad, ["grad(f", "argnums", "gradient of f"]),
        (VALUE.tanh, ["tanh()", "Hyperbolic tangent."]),
        (ARRAY.tanh, ["tanh()", "Hyperbolic tangent."]),
        (ARRAY.sum, ["sum(axis", "keepdims", "Sum along axes"]),
        (ARRAY.unsqueeze, ["unsqueeze(dim", "one more axis"]),
    ],
)
def test_help_shows_name_signature_and_documentation(thing: Any, shown: list[str]) -> None:
    # Since Python 3.13 long signatures have a line for each parameter.
    text = pydoc.plain(pydoc.render_doc(thing)).replace("(\n", "(")
    text = re.sub(r"\( +", "(", text)

    assert [words for words in shown if words not in text] == []


def test_help_of_a_scalar_method_stays_when_its_code_is_generated() -> None:
    value = wiregrad.Value(0.5)
    value.arctan()

    assert "Angle whose tangent is the wire." in pydoc.plain(pydoc.render_doc(value.arctan))


@contextmanager
def own_ops_forgotten() -> Iterator[None]:
    """Take out of the table again what examples put there: ops of their own."""
    before = len(TABLE)
    try:
        yield
    finally:
        while len(TABLE) > before:
            TABLE.unregister([*TABLE][-1])


def count_failed_examples(module: ModuleType) -> int:
    """Run the examples in the docstrings of a module, and return how many failed.

    `doctest.testmod` also runs the docstrings without examples, which are most of them: before each one it looks at
    every file that was ever part of a traceback.
    """
    runner = doctest.DocTestRunner()
    for docstring in doctest.DocTestFinder().find(module, module.__name__):
        if docstring.examples:
            runner.run(docstring)
    return runner.failures


@pytest.mark.parametrize("module", ["wiregrad", *MODULES])
def test_examples_in_docstrings_run(module: str) -> None:
    loaded = importlib.import_module(module)
    # A module that is loaded while doctest looks at its package would be a new name in what doctest walks.
    for name in MODULES:
        if name.startswith(f"{module}.") and name != "wiregrad.__main__":
            importlib.import_module(name)
    with own_ops_forgotten():
        failed = count_failed_examples(loaded)

    assert failed == 0


@pytest.mark.parametrize("module", SUPPORT)
def test_examples_in_docstrings_of_test_support_run(module: str) -> None:
    assert count_failed_examples(importlib.import_module(f".support.{module}", __package__)) == 0


def test_every_public_function_has_an_example() -> None:
    for name in wiregrad.__all__:
        thing = getattr(wiregrad, name)
        if callable(thing) and not issubclass(thing if isinstance(thing, type) else object, Exception):
            assert ">>>" in (thing.__doc__ or ""), f"{name} has no example"


@pytest.mark.parametrize("page", [page for page in PAGES if ">>>" in (ROOT / page).read_text(encoding="utf-8")])
def test_examples_in_pages_run(page: str) -> None:
    # An ellipsis stands for places in files, which differ from reader to reader.
    with own_ops_forgotten():
        result = doctest.testfile(str(ROOT / page), module_relative=False, optionflags=doctest.ELLIPSIS)

    assert result.failed == 0


SHOWN_COMMAND = re.compile(r"```console\n\$ (wiregrad [^\n]*)\n(.*?)```", re.DOTALL)
"""A command that a page shows, and what it prints."""


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if "generated" not in page and SHOWN_COMMAND.search((ROOT / page).read_text("utf-8"))],
)
def test_commands_shown_in_pages_print_what_the_page_says(page: str) -> None:
    text = (ROOT / page).read_text()
    for command, shown in SHOWN_COMMAND.findall(text):
        words = [sys.executable, "-c", "from wiregrad.cli import main; main()", *shell_words(command)[1:]]
        # One pipe for both, as in a terminal: notes on stderr come where the reader sees them.
        done = subprocess.run(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=PATIENCE
        )

        assert squeeze(done.stdout) == squeeze(shown)


def shell_words(command: str) -> list[str]:
    return [quoted or bare for quoted, bare in re.findall(r'"([^"]*)"|(\S+)', command)]


def squeeze(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


WRITTEN = runpy.run_path(str(ROOT / "docs" / "generate.py"))["PAGES"]


@pytest.mark.parametrize("page", WRITTEN)
def test_generated_pages_and_pictures_are_fresh(page: str) -> None:
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == WRITTEN[page](), f"{page} is stale: run `make derive`"


def test_every_picture_in_a_page_is_written_by_a_command() -> None:
    shown = {
        Path(image).name for page in PAGES for image in re.findall(r"\]\(([^)]*\.svg)\)", (ROOT / page).read_text())
    }

    assert shown == {Path(page).name for page in WRITTEN if page.endswith(".svg")}


@pytest.mark.parametrize("example", ["neuron.py", "ask_why.py", "regression_numpy.py", "compile_branches.py"])
def test_examples_run_and_print_what_they_say_to_look_for(example: str) -> None:
    """All others run beside the comparisons with other frameworks, in tests/peers/test_examples.py."""
    check_example(example)
