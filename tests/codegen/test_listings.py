"""Golden listings read, run in every language, and long ones compiled."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.backends.run_listings import (
    RunnableListing,
    compile_files,
    find_tool,
    load_listing_function,
    run_c,
    run_js,
    run_numpy,
    run_python,
)
from wiregrad.codegen import c_and_cuda
from wiregrad.codegen.listing import LISTING_FUNCTIONS
from wiregrad.errors import CircuitError, InputError, NoRuleError, OperandError, OutputError
from wiregrad.ops import TABLE

from ..listings.write import ENDINGS, FOLDER, GOLDENS, Golden
from ..support.limits import PATIENCE
from ..support.sampling import mark_full, sample_pairs

STRICT = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror")
LANGUAGES = tuple(ENDINGS)
SCALAR = [golden for golden in GOLDENS.values() if golden.languages == LANGUAGES]
FACTS: dict[str, tuple[float, dict[str, float]]] = {
    "expression": (-10, {"a": 10, "b": 10, "c": -1}),
    "gates": (-12, {"x": -4, "y": -4, "z": 3}),
    "neuron": (0.70710, {"x1": -1.5, "w1": 1, "x2": 0.5, "w2": 0, "b": 0.5}),
    "sigmoid": (0.73105, {"w0": -0.19661, "x0": 0.39322, "w1": -0.39322, "x1": -0.58983, "w2": 0.19661}),
    "square": (12, {"x": 7}),
    "router": (2, {"a": 1, "b": 0}),
    "safe_root": (0, {"x": 0}),
}
"""The values and gradients that everybody knows, to the digits in which they are known."""

ON_HOST = """
#include <math.h>
#include <stdio.h>
struct Index { long x; };
static Index blockIdx, blockDim = {1}, threadIdx;
#define __device__
#define __global__
"""
"""What lets a C++ compiler read CUDA, one thread to a block."""


def run_cuda(programs: Sequence[RunnableListing], points: Sequence[Any]) -> list[Any]:
    """Run the kernels of CUDA listings on this machine, thread after thread."""
    parts, calls = [ON_HOST], []
    for k, (program, rows) in enumerate(zip(programs, points, strict=True)):
        table = np.asarray(rows, np.float64)
        given = ", ".join(map(str, table.T.ravel())).replace("nan", "NAN").replace("inf", "INFINITY")
        sizes = widths(program)
        arrays = "".join(f"static double r{j}[{len(table) * size}]; " for j, size in enumerate(sizes))
        results = "".join(f", r{j}" for j in range(len(sizes)))
        prints = "".join(
            f'for (int k = 0; k < {size}; k++) printf("%a\\n", r{j}[k * {len(table)} + i]); '
            for j, size in enumerate(sizes)
        )
        parts.append(f"namespace n{k} {{\n{program.text}\n}}")
        calls.append(
            f"{{ static const double x[] = {{{given}}}; {arrays}\n"
            f"for (blockIdx.x = 0; blockIdx.x < {len(table) + 1}; blockIdx.x++) "
            f"n{k}::{program.name}_batch({len(table)}, x{results});\n"
            f"for (int i = 0; i < {len(table)}; i++) {{ {prints} }} }}"
        )
    text = "\n".join([*parts, "int main() {", *calls, "return 0;", "}"])
    numbers = iter(map(float.fromhex, compiled(text).split()))
    return [
        np.array([[next(numbers) for _ in range(p.result_count)] for _ in rows])
        for p, rows in zip(programs, points, strict=True)
    ]


def widths(program: RunnableListing) -> list[int]:
    """Return the sizes of the arrays that a kernel fills."""
    n = len(program.inputs)
    return {"value_and_grad": [1, n], "hessian": [1, n, n * n]}.get(program.function, [program.result_count])


def compiled(text: str) -> str:
    """Compile a C++ program and return what it prints."""
    tool = find_tool("g++", "clang++")
    assert tool is not None
    with tempfile.TemporaryDirectory() as name:
        compile_files(tool, Path(name), {"all.cpp": text}, ["-O1", "-Wall", "-Wextra", "-Werror", "-o", "all"])
        return subprocess.run([f"{name}/all"], capture_output=True, text=True, check=True, timeout=PATIENCE).stdout


RUNNERS: dict[str, Callable[[Sequence[RunnableListing], Sequence[Any]], list[Any]]] = {
    "python": run_python,
    "numpy": run_numpy,
    "c": partial(run_c, flags=STRICT),
    "js": run_js,
    "cuda": run_cuda,
}


def rows_of(goldens: Sequence[Golden], language: str, **options: str) -> list[Any]:
    """Return what listings give in a language, each at its point."""
    programs = []
    for k, golden in enumerate(goldens):
        text, circuit = golden.text(language, name=f"own{k}", **options), golden.circuit
        programs.append(RunnableListing(text, f"own{k}", circuit.inputs, circuit.outputs, golden.function, **options))
    return [rows[0] for rows in RUNNERS[language](programs, [[list(golden.at.values())] for golden in goldens])]


@cache
def answers(language: str) -> dict[str, Any]:
    """Return what every golden gives in a language."""
    return dict(zip([golden.name for golden in SCALAR], rows_of(SCALAR, language), strict=True))


def by_formula(formula: str, function: str = "value_and_grad", **at: float) -> Golden:
    return Golden(formula, wg.circuit(formula), at, function)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("golden", GOLDENS.values(), ids=GOLDENS)
def test_listings_are_those_in_the_golden_files(golden: Golden, language: str) -> None:
    if language not in golden.languages:
        assert not golden.path(language).exists()
        return
    kept = golden.path(language).read_text(encoding="utf-8")

    assert golden.text(language) == kept, "if this change is meant: run `make derive`, then read the diff"


def test_every_golden_file_belongs_to_a_golden() -> None:
    wanted = {golden.path(language) for golden in GOLDENS.values() for language in golden.languages}

    assert set(FOLDER.iterdir()) == wanted


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", FACTS)
def test_worked_examples_give_the_known_numbers_in_every_language(name: str, language: str) -> None:
    value, grads = FACTS[name]

    assert answers(language)[name] == pytest.approx([value, *grads.values()], abs=1e-5)
    assert list(grads) == list(GOLDENS[name].circuit.inputs)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_hessian_listing_gives_the_second_derivatives(language: str) -> None:
    def f(x: Any) -> Any:
        return x[0] * x[0] * x[1] + np.sin(x[1])

    point = np.array(list(GOLDENS["hessian"].at.values()))
    wanted = [f(point), *wg.grad(f)(point), *wg.hessian(f)(point).ravel()]

    assert answers(language)["hessian"] == pytest.approx(wanted, rel=1e-14)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_jacobian_listing_has_a_row_for_each_output(language: str) -> None:
    wanted = wg.jacobian(lambda x: np.stack([x[0] * np.cos(x[1]), x[0] * np.sin(x[1])]))(np.array([2.0, 0.5]))

    assert answers(language)["jacobian"] == pytest.approx(wanted.ravel(), rel=1e-14)


def test_the_listings_of_a_traced_network_give_what_its_run_does() -> None:
    golden = GOLDENS["network"]
    run = golden.circuit.run(*golden.at.values())
    wanted = np.concatenate([np.ravel(run.output), *(np.ravel(run.grads[name]) for name in golden.at)])
    value, grads = load_listing_function(
        RunnableListing(golden.text("numpy"), "value_and_grad", golden.circuit.inputs)
    )(**golden.at)
    sizes = tuple(array.size for array in golden.at.values())
    program = RunnableListing(golden.text("c"), "value_and_grad", golden.circuit.inputs, sizes=sizes)
    point = np.concatenate([array.ravel() for array in golden.at.values()])

    assert list(grads) == list(golden.at)
    assert np.allclose(np.concatenate([np.ravel(value), *map(np.ravel, grads.values())]), wanted, rtol=1e-12)
    assert np.allclose(run_c([program], [[point]], flags=STRICT)[0][0], wanted, rtol=1e-12)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_value_listing_gives_one_number_or_one_for_each_output(language: str) -> None:
    one, two = GOLDENS["sigmoid"]._replace(function="value"), GOLDENS["jacobian"]._replace(function="value")
    single, double = rows_of([one, two], language)

    assert single == pytest.approx([0.7310585786300049], rel=1e-15)
    assert double == pytest.approx([2.0 * np.cos(0.5), 2.0 * np.sin(0.5)], rel=1e-15)


def test_c_in_floats_gives_the_known_numbers_to_seven_digits() -> None:
    found = rows_of(SCALAR, "c", real="float")

    for golden, row in zip(SCALAR, found, strict=True):
        assert row.dtype == np.float32
        assert row == pytest.approx(answers("c")[golden.name], rel=2e-6, abs=1e-6)


UNTAKEN = {
    "where(x > 0, sqrt(x), 0)": 0.0,
    "where(x > 0, log(x), 0)": 0.0,
    "where(x > 0, 1 / x, x)": 1.0,
    "where(x > 0, sqrt(x) * log(x), 3)": 0.0,
    "where(x == 0, 2 * x, sin(x) / x)": 2.0,
    "where(x > 0, sqrt(x), 0) * 3 + x": 1.0,
    "where(x > 0, where(x > 1, log(x), sqrt(x)), 0)": 0.0,
    "x * where(x > 0, sqrt(x), 4)": 4.0,
    "maximum(where(x > 0, sqrt(x), -1), x)": 1.0,
    "exp(where(x > 0, 1 / sqrt(x), 0))": 0.0,
}
"""Formulas of which a branch has an infinite slope at 0 and is not taken there, and the gradient."""


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_was_not_taken_sends_nothing_in_any_language(language: str) -> None:
    found = rows_of([by_formula(formula, x=0.0) for formula in UNTAKEN], language)

    assert [row[1] for row in found] == list(UNTAKEN.values())


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_was_not_taken_sends_nothing_to_second_derivatives(language: str) -> None:
    formulas = ["where(x > 0, sqrt(x), 0)", "where(x > 0, log(x), x * x)"]
    found = rows_of([by_formula(formula, "hessian", x=0.0) for formula in formulas], language)

    assert [row.tolist() for row in found] == [[0.0, 0.0, 0.0], [0.0, 0.0, 2.0]]


def test_the_sigmoid_listing_goes_back_in_the_reverse_of_the_way_forward() -> None:
    text = GOLDENS["sigmoid"].path("python").read_text(encoding="utf-8")
    forward, backward = text.partition("# forward")[2].split("# backward")
    targets = re.findall(r"^    (\w+) = ", forward, re.MULTILINE)
    returned = [target for target in re.findall(r"^    d_(\w+) = ", backward, re.MULTILINE) if target in targets]

    assert targets[-1] == "L"
    assert returned == targets[::-1]


@pytest.mark.parametrize("name", [golden.name for golden in SCALAR])
def test_every_line_says_its_op_and_going_back_its_pattern(name: str) -> None:
    text = GOLDENS[name].path("python").read_text(encoding="utf-8")
    _, *sections = re.split(r"^    # (?=forward|backward)", text, flags=re.MULTILINE)
    titles = {op.title for op in TABLE}
    for section in sections:
        head, *lines = section.splitlines()
        for line in lines:
            said = line.partition("  # ")[2].split()
            if line.startswith("    return "):
                break
            assert said[0] in titles | {"seed", "one"}
            assert head == "forward" or said[0] == "seed" or len(said) > 1 or line.startswith(("    s", "    m"))


@pytest.mark.parametrize("name", [golden.name for golden in SCALAR])
def test_a_gradient_is_first_assigned_and_then_added_to(name: str) -> None:
    text = GOLDENS[name].path("python").read_text(encoding="utf-8")
    seen = set[str]()
    for target, sign, value in re.findall(r"^    (d_\w+) (\+?=) (.*?)  #", text, re.MULTILINE):
        assert (sign == "+=") == (target in seen) or target in value
        assert value not in ("0", "0.0")
        seen.add(target)

    assert seen


def test_the_numpy_listing_of_a_scalar_circuit_takes_a_batch() -> None:
    program = RunnableListing(GOLDENS["sigmoid"].text("numpy"), "value_and_grad", GOLDENS["sigmoid"].circuit.inputs)
    rng = np.random.default_rng(1)
    batch = dict(zip(program.inputs, rng.normal(size=(5, 3, 4)), strict=True)) | {"w2": 0.5}
    value, grads = load_listing_function(program)(**batch)
    table = np.array([np.broadcast_to(numbers, (3, 4)).ravel() for numbers in batch.values()])
    runs = [GOLDENS["sigmoid"].circuit.run(point) for point in table.T]

    assert value.shape == (3, 4)
    assert np.allclose(value.ravel(), [run.output for run in runs], rtol=1e-15)
    for name in batch:
        assert np.allclose(grads[name].ravel(), [run.grads[name] for run in runs], rtol=1e-14)


def test_the_cuda_texts_compile() -> None:
    """With nvcc where it is; else what the host can read of them was compiled above."""
    found = answers("cuda")
    nvcc = shutil.which("nvcc")
    if nvcc is not None:
        with tempfile.TemporaryDirectory() as name:
            texts = [f"namespace n{k} {{\n{g.text('cuda', name=f'own{k}')}\n}}" for k, g in enumerate(SCALAR)]
            Path(name, "all.cu").write_text("\n".join(["#include <math.h>", *texts]), encoding="utf-8")
            command = [nvcc, "-c", "-Werror", "all-warnings", "-o", "all.o", "all.cu"]
            done = subprocess.run(command, cwd=name, capture_output=True, text=True, check=False, timeout=PATIENCE)

            assert done.returncode == 0, done.stderr

    assert set(found) == {golden.name for golden in SCALAR}


def test_a_cuda_text_needs_no_header_under_nvrtc(tmp_path: Path) -> None:
    """NVRTC, which names itself by a macro, has the functions of math.h, but neither the file nor its names."""
    text = wg.trace(lambda x: x * x if x < 1.0 else x, 0.5).to_cuda()
    path = tmp_path / "kernel.cpp"
    path.write_text(text, encoding="utf-8")
    command = [find_tool("g++", "clang++").path, "-E", "-D__CUDACC_RTC__", str(path)]
    read = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout

    assert "NAN" in text
    assert "math.h" not in read
    assert "return __int_as_float(0x7fffffff);" in read


def tried(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Compile a C listing with its self-test and run it."""
    tool = find_tool("gcc", "cc", "clang")
    assert tool is not None
    compile_files(tool, folder, {"own.c": text}, [*STRICT, "-DWIREGRAD_TEST", "-o", "own"], ["-lm"])
    return subprocess.run([folder / "own"], capture_output=True, text=True, check=False, timeout=PATIENCE)


@pytest.mark.parametrize(
    ("name", "real"), sample_pairs(["sigmoid", "hessian", "jacobian", "safe_root", "network"], ["double", "float"])
)
def test_the_self_test_of_a_c_listing_passes(name: str, real: str, tmp_path: Path) -> None:
    golden = GOLDENS[name]
    done = tried(tmp_path, golden.text("c", test=golden.at, real=real))

    assert done.returncode == 0
    assert re.fullmatch(r"(\d+) of \1 results as wanted\n", done.stdout)


def test_the_self_test_of_a_c_listing_finds_a_wrong_line(tmp_path: Path) -> None:
    text = GOLDENS["sigmoid"].text("c", test=GOLDENS["sigmoid"].at)
    done = tried(tmp_path, text.replace("d_x1 = d_t2 * w1", "d_x1 = d_t2 * x1"))

    assert done.returncode == 1
    assert "5 of 6 results as wanted" in done.stdout


@pytest.mark.parametrize(("name", "compiler"), sample_pairs(["sigmoid", "hessian", "jacobian"], ["gcc", "g++"]))
def test_the_header_of_a_c_listing_declares_what_it_defines(name: str, compiler: str, tmp_path: Path) -> None:
    golden, tool = GOLDENS[name], find_tool(compiler)
    assert tool is not None
    header, text = golden.text("c", header=True), golden.text("c")
    sources = {"own.h": header, "own.c": f'#include "own.h"\n{text}'}
    compile_files(tool, tmp_path, sources, ["-Wall", "-Wextra", "-Werror", "-c"])

    assert (tmp_path / "own.o").exists()


@pytest.mark.parametrize(
    ("write", "error", "said"),
    [
        (lambda c: c.to_python("gradient"), OperandError, "value_and_grad"),
        (lambda c: c.to_python(name="a b"), OperandError, "plain identifier"),
        (lambda c: c.to_c(real="half"), OperandError, "'double' or 'float'"),
        (lambda c: GOLDENS["network"].circuit.to_python(), NoRuleError, "to_numpy"),
        (lambda c: GOLDENS["network"].circuit.to_js(), NoRuleError, "to_numpy"),
        (lambda c: GOLDENS["jacobian"].circuit.to_python(), OutputError, "output"),
        (lambda c: wg.circuit("1 + 2").to_python(), CircuitError, "no inputs"),
        (lambda c: wg.trace(lambda x: x * 2, np.ones(3)).to_numpy(), OutputError, "output"),
    ],
)
def test_what_cannot_be_written_is_refused_with_what_to_do(
    write: Callable[[wg.Circuit], str], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        write(GOLDENS["sigmoid"].circuit)


LARGE = 10_000


@cache
def large(nodes: int = LARGE) -> Golden:
    """Return a circuit of many nodes, each of which reads the one before it and an earlier one."""
    rng = np.random.default_rng(5)
    builder = wg.Builder()
    ports = [builder.input(f"x{k}") for k in range(20)]
    for k in range(nodes // 2):
        other = ports[int(rng.integers(max(0, len(ports) - 500), len(ports)))]
        name = ("add", "multiply", "subtract", "maximum", "hypot")[k % 5]
        wide = getattr(builder, name)(ports[-1], other)
        ports.append(builder.apply(TABLE[("sin", "tanh", "sigmoid", "cos", "silu")[int(rng.integers(5))]], wide))
    circuit = builder.build(ports[-1])
    return Golden("large", circuit, dict(zip(circuit.inputs, rng.normal(size=20).tolist(), strict=True)))


def agrees(row: Any, case: Golden) -> bool:
    """Return whether a row is what the interpreter gives for a large circuit, but for rounding."""
    run = case.circuit.run(case.at)
    wanted = np.array([run.output, *run.grads.values()])
    return bool(np.allclose(row, wanted, rtol=1e-9, atol=1e-12 * np.abs(wanted).max()))


@pytest.mark.parametrize(
    ("language", "nodes"),
    [(name, LARGE // 5) for name in ("python", "numpy", "js")]
    + [mark_full((name, LARGE)) for name in ("python", "numpy", "js")],
)
def test_a_listing_of_thousands_of_nodes_runs(language: str, nodes: int) -> None:
    assert agrees(rows_of([large(nodes)], language)[0], large(nodes))


@pytest.mark.parametrize(
    ("nodes", "flag"),
    [(LARGE // 10, "-O0"), *(pytest.param(LARGE, flag, marks=pytest.mark.full) for flag in ("-O0", "-O2"))],
)
def test_the_c_of_a_large_circuit_compiles_and_agrees(nodes: int, flag: str) -> None:
    case = large(nodes)
    program = RunnableListing(case.text("c"), "value_and_grad", case.circuit.inputs)
    flags = ("-std=c99", flag, *STRICT[2:])

    assert agrees(run_c([program], [[list(case.at.values())]], flags=flags)[0][0], case)


@pytest.mark.parametrize("language", ["c", "cuda"])
@pytest.mark.parametrize("nodes", [LARGE // 4, mark_full(LARGE)])
def test_functions_of_a_long_listing_are_of_bounded_size(language: str, nodes: int) -> None:
    functions = large(nodes).text(language).split("\n}\n")

    assert len(functions) > nodes // 1_000
    assert max(text.count("\n") for text in functions) < 1_000


def test_a_kernel_is_valid_whatever_its_function_is_called(tmp_path: Path) -> None:
    names = ("value", "x", "grad", "point", "i", "n", "k", "jac_here")
    texts = [
        wg.circuit("y = a * exp(b)").to_cuda(function, name=name) for function in LISTING_FUNCTIONS for name in names
    ]
    texts += [wg.circuit("y = a * exp(b)").to_cuda(function) for function in LISTING_FUNCTIONS]
    # Each in a namespace of its own, so that one compiler run reads them all.
    parts = [text.replace("#include <math.h>", "").replace('extern "C" ', "") for text in texts]
    path = tmp_path / "kernels.cpp"
    path.write_text(ON_HOST + "\n".join(f"namespace own{k} {{\n{part}\n}}" for k, part in enumerate(parts)))
    command = [find_tool("g++", "clang++").path, "-fsyntax-only", "-Wall", "-Werror", "-Wno-unused-function", str(path)]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)

    assert found.stderr == ""
    assert found.returncode == 0


@pytest.mark.parametrize("name", ["got", "wanted", "point", "wrong", "same", "is", "k"])
def test_a_self_test_is_valid_whatever_the_function_is_called(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.c"
    path.write_text(wg.circuit("y = a * b").to_c(name=name, test={"a": 2, "b": 3}))
    subprocess.run(
        ["gcc", *STRICT, "-DWIREGRAD_TEST", str(path), "-o", str(tmp_path / "test"), "-lm"],
        check=True,
        timeout=PATIENCE,
    )

    assert subprocess.check_output([tmp_path / "test"], text=True, timeout=PATIENCE) == "3 of 3 results as wanted\n"


def test_constants_that_a_float_cannot_hold_become_what_a_float_makes_of_them(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(wg.circuit("y = 1e300 * a + 1e-300").to_c(real="float"))
    subprocess.run(["gcc", *STRICT, "-c", str(path), "-o", str(tmp_path / "f.o")], check=True, timeout=PATIENCE)

    assert "INFINITY * a" in path.read_text()


def test_a_circuit_too_large_for_a_thread_of_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_and_cuda, "MAX_STACK_NUMBERS", 500)
    builder = wg.Builder()
    x = y = builder.input("x")
    for _ in range(1000):
        y = builder.sin(y)
    with pytest.raises(NoRuleError, match="too many for one thread of a GPU"):
        builder.build(y * x).to_cuda()


def test_equal_elements_are_sorted_alike_in_every_language() -> None:
    circuit = wg.trace(lambda x: np.sum(np.sort(x) * np.arange(4.0)), np.array([2.0, 2.0, 1.0, 0.0]))
    point = {"x": np.array([2.0, 2.0, 1.0, 0.0])}

    assert circuit.run(point).grads["x"].tolist() == [2.0, 3.0, 1.0, 0.0]
    assert circuit.receipt([point]).ok


def test_what_cannot_go_together_is_refused() -> None:
    circuit = wg.circuit("y = a * b")
    with pytest.raises(OperandError, match="a header has no self-test"):
        circuit.to_c(header=True, test={"a": 1, "b": 2})
    with pytest.raises(InputError, match="seed must be a non-negative integer"):
        circuit.receipt(seed=-1)
    with pytest.raises(OutputError, match="Hessian listings need scalar inputs"):
        wg.trace(lambda x: np.sum(x * x), np.ones(2)).to_numpy("hessian")


def test_a_jacobian_of_an_array_says_how_to_list_its_elements() -> None:
    circuit = wg.trace(lambda x: x * x, np.ones(2))

    with pytest.raises(OutputError, match=r"write circuit\.expand\(\)"):
        circuit.to_c(function="jacobian")
    assert "jacobian" in circuit.expand().to_c(function="jacobian")
