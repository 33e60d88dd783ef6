"""Runs listings, the source code that codegen writes, in Python, NumPy, C and JavaScript at many points.

Nothing runs unless a caller asks for it. C and JavaScript run in a private folder that is removed afterwards; the
compiler and Node are started with an argument list, never through a shell, and with a time limit. A listing returns one
row of numbers per point, in the same order in all languages: value, gradients, second derivatives. A missing tool, a
listing that does not compile and a listing that fails raise `ListingError`; none of them looks like a result.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import WiregradError, short_repr

C_FLAGS = ("-O2", "-std=c99")
SANITIZER_FLAGS = (*C_FLAGS, "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined")
"""Flags that make warnings, reads outside an array and undefined behaviour errors."""
TIMEOUT_SECONDS = 300.0
"""Time limit of one compiler run or one program, in seconds."""
_HELPER_PATTERN = re.compile(r"^(?:__device__ )?static\b[^(=;\[{]*?\b(\w+)\s*[(=;\[]", re.MULTILINE)

ListingResults = NDArray[Any]


class ListingError(WiregradError, RuntimeError):
    """A listing could not be run: its language has no tool here, or the tool or the listing failed."""


@dataclass(frozen=True)
class RunnableListing:
    """The text of a listing, and how to call the function it defines.

    >>> text = "def value(a, b):\\n    return a * b\\n"
    >>> run_python([RunnableListing(text, "value", ("a", "b"), ("y",), "value")], [[[2.0, 3.0], [4.0, 5.0]]])
    [array([[ 6.],
           [20.]])]
    """

    text: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...] = ("f",)
    function: str = "value_and_grad"
    sizes: tuple[int, ...] = ()
    """The number of elements of each input, if they are arrays (C only)."""
    real: str = "double"
    """The float type: double, or float (C only)."""

    @property
    def input_count(self) -> int:
        """The number of numbers in a point."""
        return sum(self.sizes) if self.sizes else len(self.inputs)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of its numbers."""
        return np.dtype(np.float32 if self.real == "float" else np.float64)

    @property
    def result_count(self) -> int:
        """The number of results per point."""
        n = self.input_count
        m = len(self.outputs)
        return {"value": m, "value_and_grad": 1 + n, "jacobian": m * n, "hessian": 1 + n + n * n}[self.function]


@dataclass(frozen=True)
class ListingTool:
    """A program that runs or compiles listings: its path and the version it reports."""

    path: str
    version: str


@dataclass(frozen=True)
class RunnableLanguage:
    """A language whose listings can be run: the function that runs them, its tool, and advice if that is missing."""

    name: str
    run: Callable[[Sequence[RunnableListing], Sequence[Any]], list[ListingResults]]
    tool: Callable[[], ListingTool | None]
    advice: str


def run_python(listings: Sequence[RunnableListing], points: Sequence[Any]) -> list[ListingResults]:
    """Run Python listings at points, one row of inputs each; return one row of results each.

    >>> text = "def value_and_grad(a):\\n    return a * a, {'a': 2.0 * a}\\n"
    >>> run_python([RunnableListing(text, "value_and_grad", ("a",))], [[[3.0]]])
    [array([[9., 6.]])]
    """
    tables = []
    for listing, rows in zip(listings, _check_points(listings, points), strict=True):
        call = load_listing_function(listing)
        answers = [_call_listing(listing, call, row) for row in rows.tolist()]
        tables.append(
            np.array([_flatten_answer(listing, answer) for answer in answers]).reshape(len(rows), listing.result_count)
        )
    return tables


def run_numpy(listings: Sequence[RunnableListing], points: Sequence[Any]) -> list[ListingResults]:
    """Run NumPy listings, all points of a listing as one batch.

    >>> text = "import numpy as np\\ndef value(a):\\n    return np.exp(a)\\n"
    >>> run_numpy([RunnableListing(text, "value", ("a",), ("y",), "value")], [[[0.0], [1.0]]])
    [array([[1.        ],
           [2.71828183]])]
    """
    tables = []
    for listing, rows in zip(listings, _check_points(listings, points), strict=True):
        with np.errstate(all="ignore"):
            parts = _flatten_answer(listing, _call_listing(listing, load_listing_function(listing), list(rows.T)))
        columns = [np.broadcast_to(np.asarray(part, np.float64), len(rows)) for part in parts]
        tables.append(np.array(columns).reshape(listing.result_count, len(rows)).T)
    return tables


def run_c(
    listings: Sequence[RunnableListing],
    points: Sequence[Any],
    *,
    flags: Sequence[str] = C_FLAGS,
    per_file: int = 50,
    timeout: float = TIMEOUT_SECONDS,
) -> list[ListingResults]:
    """Compile C listings, many to a file, and run them as one program.

    >>> text = "double f(const double *x, double *grad) { grad[0] = 2.0 * x[0]; return x[0] * x[0]; }"
    >>> run_c([RunnableListing(text, "f", ("a",))], [[[3.0]]])
    [array([[9., 6.]])]
    """
    tool = require_tool(find_c_compiler(), "C", C_ADVICE)
    if not listings:
        return []
    sources = {"main.c": _write_c_main(listings)}
    for start in range(0, len(listings), per_file):
        units = map(rename_helpers, range(start, start + per_file), listings[start:][:per_file])
        # Headers come first, so that a helper that reuses one of their names is an error, as in a file of its own.
        sources[f"unit{start}.c"] = "\n".join(["#include <math.h>", "#include <stdbool.h>", *units])
    with tempfile.TemporaryDirectory(prefix="wiregrad-") as name:
        folder = Path(name)
        compile_files(tool, folder, sources, ["-o", "listings", *flags], ["-lm"], timeout=timeout)
        return _run_through_files([str(folder / "listings")], folder, listings, points, timeout)


def run_js(
    listings: Sequence[RunnableListing], points: Sequence[Any], *, timeout: float = TIMEOUT_SECONDS
) -> list[ListingResults]:
    """Run JavaScript listings in Node."""
    tool = require_tool(find_node(), "JavaScript", JS_ADVICE)
    with tempfile.TemporaryDirectory(prefix="wiregrad-") as name:
        folder = Path(name)
        for k, listing in enumerate(listings):
            (folder / f"listing{k}.mjs").write_text(listing.text, encoding="utf-8")
        (folder / "main.mjs").write_text(_write_js_main(listings), encoding="utf-8")
        command = [tool.path, str(folder / "main.mjs")]
        return _run_through_files(command, folder, listings, points, timeout)


def load_listing_function(listing: RunnableListing) -> Callable[..., Any]:
    """Return the function that a Python or NumPy listing defines."""
    namespace: dict[str, Any] = {"__name__": "listing"}
    try:
        exec(compile(listing.text, "<listing>", "exec"), namespace)
    except Exception as error:
        raise ListingError(f"the listing of {listing.name} is not valid Python: {error}") from error
    if not callable(namespace.get(listing.name)):
        raise ListingError(f"the listing defines no function {listing.name}")
    function: Callable[..., Any] = namespace[listing.name]
    return function


def compile_files(
    tool: ListingTool,
    folder: Path,
    sources: Mapping[str, str],
    flags: Sequence[str],
    libraries: Sequence[str] = (),
    *,
    timeout: float = TIMEOUT_SECONDS,
) -> None:
    """Write sources into a folder and compile all but the headers; raise `ListingError` with the compiler's output."""
    for name, text in sources.items():
        (folder / name).write_text(text, encoding="utf-8")
    units = [name for name in sources if not name.endswith(".h")]
    _run_command([tool.path, *flags, *units, *libraries], folder, timeout, "the compiler refused a listing")


@lru_cache(maxsize=1)
def find_c_compiler() -> ListingTool | None:
    """Return the C compiler: the one named by CC, else the first of gcc, cc and clang that is installed."""
    return find_tool(*filter(None, (os.environ.get("CC"), "gcc", "cc", "clang")))


@lru_cache(maxsize=1)
def find_node() -> ListingTool | None:
    """Return Node; None if it is not installed."""
    tool = find_tool("node", "nodejs")
    return None if tool is None else ListingTool(tool.path, f"Node {tool.version}")


def find_tool(*names: str) -> ListingTool | None:
    """Return the first of the named programs that is installed and reports its version.

    >>> find_tool("no-such-program") is None
    True
    """
    for name in names:
        path = shutil.which(name)
        if path is None:
            continue
        try:
            answer = subprocess.run([path, "--version"], capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        version = answer.stdout.decode(errors="replace").strip().splitlines()
        if answer.returncode == 0 and version:
            return ListingTool(path, version[0])
    return None


def require_tool(tool: ListingTool | None, language: str, advice: str) -> ListingTool:
    """Return the tool, or raise `ListingError` with advice if it is None."""
    if tool is None:
        raise ListingError(f"nothing on this machine runs {language} listings: {advice}")
    return tool


def _describe_python() -> ListingTool:
    return ListingTool(sys.executable, f"Python {sys.version.split()[0]}")


def _describe_numpy() -> ListingTool:
    return ListingTool(sys.executable, f"NumPy {np.__version__}")


C_ADVICE = "install gcc or clang, or name a compiler in the environment variable CC"
JS_ADVICE = "install Node (https://nodejs.org), version 18 or newer"
RUNNABLE_LANGUAGES = (
    RunnableLanguage("python", run_python, _describe_python, ""),
    RunnableLanguage("numpy", run_numpy, _describe_numpy, ""),
    RunnableLanguage("c", run_c, find_c_compiler, C_ADVICE),
    RunnableLanguage("js", run_js, find_node, JS_ADVICE),
)
"""The languages whose listings can be run; CUDA is not among them, because it needs a GPU."""


def _check_points(listings: Sequence[RunnableListing], points: Sequence[Any]) -> Iterator[ListingResults]:
    """Return the points of each listing as an array; raise `ListingError` if its shape is wrong."""
    if len(listings) != len(points):
        raise ListingError(f"expected one table of points for each of {len(listings)} listings; got {len(points)}")
    for listing, rows in zip(listings, points, strict=True):
        table = np.asarray(rows, listing.dtype)
        if table.ndim != 2 or table.shape[1] != listing.input_count:
            wanted = f"a row of {listing.input_count} numbers per point"
            raise ListingError(f"{listing.name} wants {wanted}; got an array of shape {table.shape}")
        yield table


def _call_listing(listing: RunnableListing, call: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    try:
        return call(*arguments)
    except Exception as error:
        at = short_repr(list(arguments), 200)
        raise ListingError(f"the listing of {listing.name} raised {type(error).__name__}: {error} at {at}") from error


def _flatten_answer(listing: RunnableListing, answer: Any) -> list[Any]:
    """Return the result of a Python or NumPy listing as one flat row."""
    try:
        if listing.function == "value":
            return [answer[name] for name in listing.outputs] if isinstance(answer, Mapping) else [answer]
        if listing.function == "jacobian":
            return [answer[output][name] for output in listing.outputs for name in listing.inputs]
        value, grads, *second = answer
        rows = [second[0][one][two] for one in listing.inputs for two in listing.inputs] if second else []
        return [value, *(grads[name] for name in listing.inputs), *rows]
    except (TypeError, ValueError, LookupError) as error:
        raise ListingError(f"the listing of {listing.name} returned {short_repr(answer, 200)}: {error!r}") from error


def _run_through_files(
    command: Sequence[str],
    folder: Path,
    listings: Sequence[RunnableListing],
    points: Sequence[Any],
    timeout: float,
) -> list[ListingResults]:
    """Run a program that reads all points from one file and writes all results to another."""
    tables = list(_check_points(listings, points))
    counts = np.array([len(table) for table in tables], np.float64)
    inputs = folder / "points"
    results = folder / "results"
    inputs.write_bytes(counts.tobytes() + b"".join(table.tobytes() for table in tables))
    _run_command([*command, str(inputs), str(results)], folder, timeout, "a listing failed when it was run")
    data = results.read_bytes()
    sizes = [
        len(table) * listing.result_count * listing.dtype.itemsize
        for table, listing in zip(tables, listings, strict=True)
    ]
    if len(data) != sum(sizes):
        raise ListingError(f"the listings wrote {len(data)} bytes of results; expected {sum(sizes)}")
    ends = np.cumsum([0, *sizes]).tolist()
    return [
        np.frombuffer(data[start:stop], listing.dtype).reshape(-1, listing.result_count)
        for listing, (start, stop) in zip(listings, pairwise(ends), strict=True)
    ]


def _run_command(command: Sequence[str], folder: Path, timeout: float, complaint: str) -> None:
    try:
        answer = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        raise ListingError(f"{complaint}: {Path(command[0]).name} took more than {timeout:g} s") from None
    words = answer.stderr.decode(errors="replace").strip()
    # A sanitizer reports a problem and lets the program continue, so any output on stderr is an error.
    if answer.returncode or words:
        text = "\n  ".join(words.splitlines()[:30]) or f"exit status {answer.returncode}"
        raise ListingError(f"{complaint}:\n  {text}")


def rename_helpers(number: int, listing: RunnableListing) -> str:
    """Return a C or CUDA listing that can share a file with others: its helper functions get unique names.

    >>> print(rename_helpers(7, RunnableListing("static double twice(double x) { return 2.0 * x; }", "f", ("x",))))
    #define twice twice_of_7
    static double twice(double x) { return 2.0 * x; }
    #undef twice
    """
    names = sorted(set(_HELPER_PATTERN.findall(listing.text)))
    before = [f"#define {name} {name}_of_{number}" for name in names]
    after = [f"#undef {name}" for name in names]
    return "\n".join([*before, listing.text, *after])


def _write_c_prototype(listing: RunnableListing) -> str:
    real = listing.real
    returns, more = {
        "value": (real, "") if len(listing.outputs) == 1 else ("void", f", {real} *y"),
        "value_and_grad": (real, f", {real} *grad"),
        "jacobian": ("void", f", {real} *jac"),
        "hessian": (real, f", {real} *grad, {real} *hess"),
    }[listing.function]
    return f"{returns} {listing.name}(const {real} *x{more})"


def _write_c_call(listing: RunnableListing) -> str:
    """Return the C statement that stores the results of a listing at x in the row r."""
    n = listing.input_count
    if listing.function == "value":
        return f"r[0] = {listing.name}(x)" if len(listing.outputs) == 1 else f"{listing.name}(x, r)"
    if listing.function == "jacobian":
        return f"{listing.name}(x, r)"
    return f"r[0] = {listing.name}(x, r + 1{f', r + {1 + n}' if listing.function == 'hessian' else ''})"


_C_MAIN = """
typedef struct { void (*call)(const void *, void *); size_t size, inputs, width; } listing;
static const listing table[] = { @TABLE@ };
int main(int count, char **arguments) {
    enum { MANY = sizeof table / sizeof table[0] };
    static double points[MANY];
    FILE *in = count == 3 ? fopen(arguments[1], "rb") : NULL, *out = in ? fopen(arguments[2], "wb") : NULL;
    if (!out || fread(points, sizeof points[0], MANY, in) != MANY) return 2;
    for (size_t k = 0; k < MANY; k++) {
        const size_t size = table[k].size, inputs = table[k].inputs, width = table[k].width;
        /* Exactly as much memory as is read and written, so that a sanitizer notices one element too many. */
        void *x = malloc(inputs * size), *r = malloc(width * size);
        if ((inputs && !x) || (width && !r)) return 3;
        for (size_t i = 0; i < (size_t)points[k]; i++) {
            if (fread(x, size, inputs, in) != inputs) return 4;
            table[k].call(x, r);
            if (fwrite(r, size, width, out) != width) return 5;
        }
        free(x); free(r);
    }
    fclose(in);
    return fclose(out) ? 6 : 0;
}
"""


def _write_c_main(listings: Sequence[RunnableListing]) -> str:
    """Return a C program that runs all listings on the points of one file."""
    lines = ["#include <stdio.h>", "#include <stdlib.h>"]
    for k, one in enumerate(listings):
        lines.append(f"{_write_c_prototype(one)};")
        casts = f"const {one.real} *x = point; {one.real} *r = results;"
        lines.append(f"static void call{k}(const void *point, void *results) {{ {casts} {_write_c_call(one)}; }}")
    rows = [
        f"{{ call{k}, sizeof({one.real}), {one.input_count}, {one.result_count} }}" for k, one in enumerate(listings)
    ]
    return "\n".join(lines) + _C_MAIN.replace("@TABLE@", ",\n    ".join(rows))


_JS_MAIN = """
const named = (names, x) => Object.fromEntries(names.map((name, k) => [name, x[k]]));
const flat = {
  value: (r, one, two) => typeof r === "object" ? two.map((o) => r[o]) : [r],
  value_and_grad: (r, one) => [r.value, ...one.map((i) => r.grads[i])],
  jacobian: (r, one, two) => two.flatMap((o) => one.map((i) => r[o][i])),
  hessian: (r, one) =>
    [r.value, ...one.map((i) => r.grads[i]), ...one.flatMap((i) => one.map((j) => r.hessian[i][j]))],
};
const bytes = readFileSync(process.argv[2]);
const numbers = new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
const results = [];
let next = table.length;
table.forEach(([call, kind, one, two], k) => {
  for (let i = 0; i < numbers[k]; i++, next += one.length) {
    const row = flat[kind](call(named(one, numbers.subarray(next, next + one.length))), one, two);
    const odd = row.findIndex((x) => typeof x !== "number" && typeof x !== "boolean");
    if (odd >= 0) throw new Error(`listing ${k} returned ${row[odd]} where a number belongs`);
    for (const x of row) results.push(Number(x));
  }
});
writeFileSync(process.argv[3], new Uint8Array(new Float64Array(results).buffer));
"""


def _write_js_main(listings: Sequence[RunnableListing]) -> str:
    lines = ['import { readFileSync, writeFileSync } from "node:fs";']
    lines += [f'import {{ {one.name} as call{k} }} from "./listing{k}.mjs";' for k, one in enumerate(listings)]
    rows = [
        f"[call{k}, {', '.join(map(json.dumps, (one.function, one.inputs, one.outputs)))}]"
        for k, one in enumerate(listings)
    ]
    return "\n".join([*lines, f"const table = [{', '.join(rows)}];"]) + _JS_MAIN
