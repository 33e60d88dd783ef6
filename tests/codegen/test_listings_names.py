"""Names, groups and places that mean something to a language: listings stay valid code, or are refused."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tempfile
import tokenize
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.backends.run_listings import (
    RunnableListing,
    find_tool,
    load_listing_function,
    run_c,
    run_js,
    run_numpy,
    run_python,
)
from wiregrad.codegen import LANGUAGE_MODULES, write_listing
from wiregrad.errors import NameSyntaxError, NoRuleError, OperandError, WiregradError
from wiregrad.ir import Place
from wiregrad.ir.columns import check_name

from ..support.limits import PATIENCE
from ..support.sampling import sample_pairs
from .test_listings import run_cuda

PYTHON = (
    "class lambda None True False def import from global nonlocal async await yield match case type _ __debug__ "
    "__import__ __name__ __builtins__ __class__ self print exec eval open len float int complex abs max min pow sum "
    "range dict ValueError math np numpy exp sqrt divide isnan inf nan pi shape return_"
)
C = (
    "int double float char void auto break const continue default do else enum extern for goto if inline long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned volatile while bool _Bool "
    "_Complex _Imaginary _Generic _Atomic _Alignas _Noreturn _Pragma _Static_assert _Thread_local _Float64 main NAN "
    "INFINITY HUGE_VAL FP_NAN MATH_ERRNO math_errhandling M_PI NULL I errno signbit isgreater y0 y1 j0 gamma signgam "
    "sin tanh hypot fmax round printf malloc asm typeof unix linux stdin assert __func__ __LINE__ __x _X"
)
CPP = (
    "template typename this new delete namespace using virtual operator private public friend mutable explicit try "
    "catch throw constexpr nullptr decltype and or not xor bitand compl wchar_t char16_t concept requires co_await "
    "threadIdx blockIdx blockDim gridDim warpSize dim3 __global__ __device__ __shared__ double2 float4 min max norm "
    "atomicAdd __syncthreads rsqrt point value_here"
)
JAVASCRIPT = (
    "let var const function typeof instanceof in of with debugger export super extends implements interface package "
    "protected arguments undefined NaN Infinity Math Object Array Number TypeError globalThis window __proto__ "
    "constructor prototype toString valueOf hasOwnProperty isPrototypeOf __defineGetter__ then name length process "
    "require module exports eval static get set async enum null true false"
)
GENERATED = (
    "x y a b g grad grads jac hess hessian jacobian value values inputs value_and_grad valueAndGrad "
    "value_and_grad_batch value_and_grad_part_1 "
    "d_x d_y d_f d_a d_t1 d_d_x t0 t1 t2 t3 m1 s1 m2 s2 w c i k n r f x_ x_2 x__ t1_ d_x_ d_x_2 "
    "maximum sigmoid relu softplus power where point0 grad_here v_ v__x u430"
)
LETTERS = (
    "\u0430 \u0440 \u0441 \u0445 \u0406 \u03b1 \u03bb \u0394 \u03a9 \uff41 \uff58 \ufb01 \u017f \u00b5 \u212b \u00e9 "
    "e\u0301 \u00df \u0130 \u0131 \u4e2d \u6570 \u0928\u093f \u05d0 \u0645\u0627 \u3042 \U00020000 \U0001d465 "
    "\u1d52 \u2118 \u212e \u3164 x\u0332 x\u0301\u0302\u0303 A\u0391\u0410 _\u0430 a\u200d\u0301"
)
TWINS = (
    "alpha A aa AA Aa aA layers[0].w layers_0_w layers[0][1] layers_0_1 p.q p_q p.q.r "
    "net.layers[2].\u03b2 net_layers_2_beta a[0] a_0 \u03b2 beta class.def if[0] x.x d_x.x"
)
LONG = ["x" * 200, "x" * 199 + "y", "\u0430" * 200, "_" * 200, "a." * 99 + "a", "a[0]" + "[1]" * 60, "w" * 48, "w" * 49]

MARK = "INJECTED"
BREAKERS = [
    "*/",
    "/*",
    "**/",
    "/*/",
    "//",
    "*/ {0} /*",
    "\\",
    "{0}\\",
    "\\\n{0}",
    "??/",
    "{0}??/\n{0}",
    "\n{0}\n",
    "\r{0}",
    "\r\n{0}",
    "\x0b{0}\x0c{0}",
    "\x1c{0}\x85{0}",
    "\u2028{0}",
    "\u2029{0}",
    '"""{0}"""',
    "'''{0}'''",
    '"; {0}; "',
    "'{0}'",
    "${{{0}}}",
    "`${{{0}}}`",
    "{{0}}{0}",
    "{{{0}!r:>{{width}}}}",
    "%s%n{0}%",
    "`{0}`",
    "\x00{0}",
    "\x1b[2J{0}",
    "\u202e{0}\u202c",
    "\u2066{0}\u2069",
    "\u200f{0}\ufeff",
    "<!-- {0} -->",
    "--> {0}",
    "</script>{0}",
    "#!{0}",
    "# coding: {0}",
    "-*- coding: utf-7 -*- {0}",
    "\\u000a{0}",
    "\\N{{LINE FEED}}{0}",
    "#define {0}",
    "%:include {0}",
    "_Pragma({0})",
    "\ud800{0}",
    "\U000e0001{0}",
    "\u05d0{0}\u0645",
    " {0} ",
    "{0}" * 400,
]
"""Texts that end a comment, a string or a line somewhere; {0} is where what follows would be code."""


@cache
def macros() -> tuple[str, ...]:
    """Return what the headers of a listing define as something else than a function."""
    tool = find_tool("gcc", "cc", "clang")
    assert tool is not None
    command = [tool.path, "-dM", "-E", "-D_GNU_SOURCE", "-include", "math.h", "-x", "c", "-"]
    said = subprocess.run(command, input="", capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
    return tuple(dict.fromkeys(re.findall(r"^#define ((?!__)\w+)(?= )", said, re.MULTILINE)))


def corpus() -> list[str]:
    """Return names that are words somewhere, look alike, or become alike."""
    words = " ".join([PYTHON, C, CPP, JAVASCRIPT, GENERATED, LETTERS, TWINS]).split()
    return list(dict.fromkeys([*words, *LONG]))


@dataclass(frozen=True, eq=False)
class Case:
    """A circuit with something hostile in it, and which function to write."""

    circuit: wg.Circuit
    function: str = "value_and_grad"

    @cached_property
    def point(self) -> list[float]:
        """Numbers to run it at."""
        return [0.25 + 0.5 * k % 2.75 for k in range(len(self.circuit.inputs))]

    @cached_property
    def wanted(self) -> list[float]:
        """What the interpreter gives there."""
        circuit, names = self.circuit, self.circuit.inputs
        if self.function == "value_and_grad":
            run = circuit.run(self.point)
            return [run.output, *run.grads.values()]
        nodes = map(circuit.name_of, circuit.columns.outputs.tolist())
        return [run.grads[name] for run in (circuit.with_output(n).run(self.point) for n in nodes) for name in names]


def as_input(name: str) -> Case:
    b = wg.Builder()
    x, other = b.input(name), b.input("other_input")
    return Case(b.build(b.add(b.multiply(x, other), b.sigmoid(x))))


def as_node(name: str) -> Case:
    b = wg.Builder()
    x = b.multiply(b.input("in_1"), b.input("in_2"), name=name)
    return Case(b.build(b.maximum(b.add(x, b.sin(x)), x, name="out")))


def as_output(name: str) -> Case:
    b = wg.Builder()
    x, y = b.input("in_1"), b.input("in_2")
    return Case(b.build(name=name, labels={name: b.multiply(x, y), "other": b.exp(b.add(x, y))}), "jacobian")


ROLES = {"input": as_input, "node": as_node, "output": as_output}
RUNNERS: dict[str, Callable[[Sequence[RunnableListing], Sequence[Any]], list[Any]]] = {
    "python": run_python,
    "numpy": run_numpy,
    "c": partial(run_c, flags=("-std=c99", "-O0", "-Wall", "-Wextra", "-Werror"), per_file=500),
    "js": run_js,
}
ON_HOST = {**RUNNERS, "cuda": run_cuda}


def disagreements(cases: Sequence[Case], language: str) -> list[wg.Circuit]:
    """Return the circuits whose listing gives other numbers than the interpreter."""
    programs = []
    for k, case in enumerate(cases):
        text = write_listing(case.circuit, language, case.function, name=f"own_{k}")
        programs.append(RunnableListing(text, f"own_{k}", case.circuit.inputs, case.circuit.outputs, case.function))
    found = ON_HOST[language](programs, [[case.point] for case in cases])
    pairs = zip(cases, found, strict=True)
    return [case.circuit for case, rows in pairs if not np.allclose(rows[0], case.wanted, rtol=1e-12, atol=0.0)]


def code_of(text: str, language: str) -> str:
    """Return a listing without its comments and strings."""
    if language in ("python", "numpy"):
        kept = [t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type not in STRINGS]
        return " ".join(kept)
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|`[^`]*`', " ", text, flags=re.DOTALL)


STRINGS = (tokenize.STRING, tokenize.COMMENT)


def test_the_corpus_is_large_enough_to_mean_something() -> None:
    assert len(corpus()) > 300
    assert {"HUGE_VAL", "M_PI", "M_LN10"} <= {*macros()}


@pytest.mark.parametrize("language", RUNNERS)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.full)])
def test_hostile_names_give_valid_code_with_the_right_numbers(role: str, language: str, every: int) -> None:
    assert len(made(role)) > 300
    assert disagreements(made(role)[::every], language) == []


@cache
def made(role: str) -> list[Case]:
    """Return a circuit for each name that can be one; any other is refused as no name, not in another way."""
    found = list[Case]()
    for name in corpus():
        with suppress(NameSyntaxError):
            found.append(ROLES[role](name))
    return found


@pytest.mark.parametrize("language", [*RUNNERS, "cuda"])
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.full)])
def test_hostile_names_in_one_circuit_keep_apart(language: str, every: int) -> None:
    assert disagreements(crowds()[::every], language) == []


def test_nvcc_where_it_is_takes_hostile_names() -> None:
    texts = [write_listing(case.circuit, "cuda", name=f"own_{k}") for k, case in enumerate(crowds())]
    spaces = [f"namespace n{k} {{\n{text}\n}}" for k, text in enumerate(texts)]
    nvcc = shutil.which("nvcc")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "own.cu").write_text("\n".join(["#include <math.h>", *spaces]), encoding="utf-8")
        command = [nvcc or "true", "-ptx", "-o", "own.ptx", "own.cu"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE)

    assert len(texts) > 15
    assert done.returncode == 0, done.stderr


@cache
def crowds() -> list[Case]:
    """Return circuits in which all names of the corpus occur, many in each, of inputs or of nodes."""
    names = list[str]()
    for name in (*corpus(), *macros()):
        with suppress(NameSyntaxError):
            names.append(check_name(name))
    names = list(dict.fromkeys(names))
    return [crowd(names[k : k + 50], role) for k in range(0, len(names), 50) for role in ("input", "node")]


def crowd(names: Sequence[str], role: str) -> Case:
    b = wg.Builder()
    first = b.input("first_input")
    total = first
    for k, name in enumerate(names):
        port = b.input(name) if role == "input" else b.multiply(first, 0.5 + k / 64, name=name)
        total = b.add(total, b.multiply(port, port))
    return Case(b.build(total, name="sum_of_all"))


@pytest.mark.parametrize("language", LANGUAGE_MODULES)
@pytest.mark.parametrize("role", ROLES)
def test_code_is_ascii_apart_from_strings_and_comments(role: str, language: str) -> None:
    for name in LETTERS.split() + TWINS.split():
        try:
            case = ROLES[role](name)
        except NameSyntaxError:
            continue

        assert code_of(write_listing(case.circuit, language, case.function), language).isascii()


@pytest.mark.parametrize("language", ["python", "numpy"])
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.full)])
def test_gradients_have_the_names_that_the_inputs_have(language: str, every: int) -> None:
    for case in made("input")[::every]:
        names = case.circuit.inputs
        program = RunnableListing(write_listing(case.circuit, language), "value_and_grad", names)

        assert list(load_listing_function(program)(1.0, 2.0)[1]) == list(names)


def broken(text: str) -> Iterator[wg.Circuit]:
    """Return circuits with a text as file of a place, as group, and as both; and through the forms of a file."""
    for place, group in product(
        (None, Place(text, 3, 1), Place(f"dir/{text}", 10**9 - 1)), (None, text, f"net/{text}/a")
    ):
        b = wg.Builder()
        with b.at(place, group):
            x = b.input("x")
            y = b.multiply(b.sin(x), x, name="y")
        with b.at(None, None):
            circuit = b.build(b.maximum(y, x))
        yield circuit


def hostile_texts() -> list[str]:
    return [breaker.format(MARK) if "{0}" in breaker else f"{breaker}{MARK}" for breaker in BREAKERS]


@pytest.mark.parametrize("language", LANGUAGE_MODULES)
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.full)])
def test_texts_of_places_and_groups_stay_in_comments(language: str, every: int) -> None:
    for text in hostile_texts()[::every]:
        for circuit in broken(text):
            listing = write_listing(circuit, language)

            assert MARK not in code_of(listing, language)
            assert not re.search(r"[^\n\x20-\x7e\w]", listing)
            assert max(map(len, listing.splitlines())) < 400


@pytest.mark.parametrize("language", RUNNERS)
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.full)])
def test_hostile_texts_in_comments_leave_the_numbers_alone(language: str, every: int) -> None:
    cases = [Case(circuit) for text in hostile_texts()[::every] for circuit in list(broken(text))[4:9:4]]

    assert disagreements(cases, language) == []


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.full)])
def test_hostile_texts_that_came_through_a_file_are_written_like_any_other(every: int) -> None:
    texts = hostile_texts()[::every]
    forms = ((wg.Circuit.to_text, wg.Circuit.from_text), (wg.Circuit.to_json, wg.Circuit.from_json))
    read = 0
    for text in texts:
        for circuit, (write_form, read_form) in product(list(broken(text))[4:], forms):
            with suppress(WiregradError):
                again = read_form(write_form(circuit))
                read += 1

                assert write_listing(again, "c") == write_listing(circuit, "c")

    assert read > 0.9 * 5 * len(forms) * len(texts)


@pytest.mark.parametrize("text", [text for text in hostile_texts() if not text.isidentifier()])
def test_texts_that_could_break_code_are_no_names(text: str) -> None:
    for role in ROLES.values():
        with pytest.raises(NameSyntaxError):
            role(text)


@pytest.mark.parametrize("language", LANGUAGE_MODULES)
@pytest.mark.parametrize(
    "name", ["a b", "f(", "", "f;", "f\n", "\u0430", "1f", "x" * 101, "f\u0301", None.__class__, 3]
)
def test_a_function_is_called_by_a_plain_identifier_only(name: Any, language: str) -> None:
    with pytest.raises(OperandError, match="plain identifier"):
        write_listing(wg.circuit("y = x * x"), language, name=name)


@pytest.mark.parametrize(
    ("language", "name"),
    [
        ("python", "class"),
        ("python", "None"),
        ("numpy", "lambda"),
        ("numpy", "np"),
        ("python", "math"),
        ("c", "int"),
        ("c", "main"),
        ("c", "sin"),
        ("c", "_Bool"),
        ("c", "NAN"),
        ("js", "await"),
        ("js", "Math"),
        ("js", "arguments"),
        ("cuda", "template"),
        ("cuda", "__global__"),
    ],
)
def test_a_function_is_not_called_by_a_word_of_its_language(language: str, name: str) -> None:
    with pytest.raises(OperandError, match=name):
        write_listing(wg.circuit("y = sin(x) * x"), language, name=name)


@pytest.mark.parametrize(
    ("language", "name"), sample_pairs(RUNNERS, ["y", "d_y", "t1", "sigmoid", "grad", "w", "inputs", "own"])
)
def test_a_function_may_be_called_like_what_it_computes_with(language: str, name: str) -> None:
    """A helper, an input, a node or the output may have the function's name."""
    case = Case(wg.circuit("y = sigmoid(x) * maximum(x, w)"))
    try:
        text = write_listing(case.circuit, language, name=name)
    except OperandError:
        assert name == "sigmoid"
        return
    found = RUNNERS[language]([RunnableListing(text, name, case.circuit.inputs)], [[case.point]])[0][0]

    assert found == pytest.approx(case.wanted)


@pytest.mark.parametrize("language", RUNNERS)
@pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=pytest.mark.full)])
def test_many_inputs_are_told_apart(language: str, count: int) -> None:
    b = wg.Builder()
    ports = [b.input(f"w[{k}]" if k % 2 else f"w_{k - 1}") for k in range(1, count + 1)]
    total = ports[0]
    for port in ports[1:]:
        total = b.add(b.multiply(total, 0.5), b.sin(port))

    assert disagreements([Case(b.build(total))], language) == []


def test_parameters_of_a_traced_function_may_be_called_like_helpers_of_numpy() -> None:
    def f(np_: Any, exp: Any, sigmoid: Any) -> Any:
        return np.sum(np.sort(np_) * np.cumsum(exp) + np.linalg.solve(np.outer(sigmoid, sigmoid) + np.eye(3), exp))

    at = [np.array([3.0, 1.0, 2.0]), np.array([0.5, 0.25, 1.0]), np.array([1.0, -1.0, 2.0])]
    circuit = wg.trace(f, *at)
    run = circuit.run(*at)
    first = write_listing(circuit, "numpy")
    helpers = re.findall(r"^def (\w+)\(", first, re.MULTILINE)[:-1]
    for helper in ["shape", "np", *helpers]:
        renamed = wg.Circuit.from_json(circuit.to_json().replace('"names": ["exp"]', f'"names": ["{helper}"]'))
        program = RunnableListing(write_listing(renamed, "numpy"), "value_and_grad", renamed.inputs)
        value, grads = load_listing_function(program)(*at)

        assert value == pytest.approx(run.output)
        assert np.allclose(grads[helper], run.grads["exp"])


def test_an_op_of_the_users_own_without_a_text_is_refused() -> None:
    @wg.op(partials=lambda x, y: (2.0,), name="own_twice")
    def own_twice(x: Any) -> Any:
        return 2.0 * x

    try:
        for language in LANGUAGE_MODULES:
            with pytest.raises(NoRuleError, match="own_twice"):
                write_listing(wg.circuit("y = own_twice(x)"), language)
    finally:
        wg.ops.TABLE.unregister(own_twice)


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.full)])
def test_arrays_may_be_called_like_anything_in_c(every: int) -> None:
    programs, wanted = [], []
    points = np.random.default_rng(2).normal(size=(2, 3, 2))
    for k, name in enumerate([*GENERATED.split(), *LETTERS.split()][::every]):
        # Renaming the one input of a traced circuit gives every name the same loops to stand in.
        text = traced_product().replace('"names": ["given"]', f'"names": ["{name}"]')
        try:
            circuit = wg.Circuit.from_json(text)
        except WiregradError:
            continue
        programs.append(
            RunnableListing(write_listing(circuit, "c", name=f"own_{k}"), f"own_{k}", circuit.inputs, sizes=(6, 6))
        )
        run = circuit.run(*points)
        wanted.append([run.output, *(number for name in circuit.inputs for number in run.grads[name].ravel())])
    found = RUNNERS["c"](programs, [[points.ravel()]] * len(programs))

    assert len(programs) > 80 // every
    assert np.allclose([rows[0] for rows in found], wanted, rtol=1e-12)


@cache
def traced_product() -> str:
    def product(given: Any, other: Any) -> Any:
        return np.sum(np.tanh(given @ other.T)[:, ::-1] * np.maximum(given @ given.T, 0.5))

    return wg.trace(product, np.ones((3, 2)), np.ones((3, 2))).to_json()
