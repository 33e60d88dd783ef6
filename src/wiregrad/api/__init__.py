"""What users import: the one place that joins front ends, passes, a backend and the questions a person asks.

This module has the public classes `Circuit`, `Run` and `Builder`, with everything that the layers below can do with
them; it is loaded with the package. `values.py` (define-by-run, transforms, tracing), `compiled_function.py`
(`wg.compile`) and `diagnostics.py` (blame, anomaly mode, checks of gradients, the flight recorder) are loaded on first
use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike, fspath
from os.path import basename, splitext
from typing import TYPE_CHECKING, Any, Literal, overload

from wiregrad import codegen, draw, inspect, ir, passes
from wiregrad.backends import RunRecord as BareRun
from wiregrad.backends import interpreter
from wiregrad.backends.interpreter import RUN_MAKERS, evaluate_function
from wiregrad.dtypes import count_with_noun, to_python_number
from wiregrad.errors import (
    CIRCUIT_HABITS,
    NODE_HABITS,
    RUN_HABITS,
    InputError,
    OperandError,
    add_missing_names,
    lead_to,
    list_public_names,
    refuse_attribute,
    short_repr,
)
from wiregrad.frontends import parse_formula
from wiregrad.ir.circuit import CIRCUIT_MAKERS, shorten_middle
from wiregrad.lazy import load_module_lazily

if TYPE_CHECKING:
    from typing import TypedDict, TypeVar, Unpack

    from numpy.typing import DTypeLike

    from wiregrad import files
    from wiregrad.backends import compiled
    from wiregrad.backends.compiled import Compiled
    from wiregrad.backends.cuda import batches as cuda_batches
    from wiregrad.backends.cuda.batches import CudaCompiled
    from wiregrad.exchange import framework_export, onnx_files
    from wiregrad.exchange.observed_run import RunQuestions
    from wiregrad.explorer import local_server, page_data, widget
    from wiregrad.frontends.recording.session import Argnames
    from wiregrad.frontends.recording.value import Value
    from wiregrad.inspect.blame import Blame
    from wiregrad.inspect.diff import Difference
    from wiregrad.inspect.explain import Explanation
    from wiregrad.inspect.flow import Flow, Histogram
    from wiregrad.inspect.kinks import Kinks
    from wiregrad.inspect.op_counts import OpCounts
    from wiregrad.inspect.paths import Branches, Paths
    from wiregrad.inspect.receipt import Receipt
    from wiregrad.inspect.report import Report, RunStep
    from wiregrad.inspect.rounding import Rounding

    Answer = TypeVar("Answer", bound=Report)
    CudaDevice = Literal["cuda", "cuda:0", "cuda:1", "cuda:2", "cuda:3", "cuda:4", "cuda:5", "cuda:6", "cuda:7"]

    class PictureOptions(TypedDict, total=False):
        """What is drawn (see `wiregrad.draw.build_picture`)."""

        split: bool
        depth: int | None
        opened: Iterable[str]
        cap: int
        digits: int

    class DirectedOptions(PictureOptions, total=False):
        """What is drawn, and in which direction."""

        down: bool

    class SvgOptions(DirectedOptions, total=False):
        """What is drawn, and in which colours."""

        theme: str
        legend: bool
        animate: bool

    class TerminalOptions(PictureOptions, total=False):
        """What is drawn, and with which characters."""

        width: int
        ascii: bool
else:
    compiled = load_module_lazily("wiregrad.backends.compiled")
    cuda_batches = load_module_lazily("wiregrad.backends.cuda.batches")
    framework_export = load_module_lazily("wiregrad.exchange.framework_export")
    onnx_files = load_module_lazily("wiregrad.exchange.onnx_files")
    page_data = load_module_lazily("wiregrad.explorer.page_data")
    local_server = load_module_lazily("wiregrad.explorer.local_server")
    files = load_module_lazily("wiregrad.files")
    widget = load_module_lazily("wiregrad.explorer.widget")

__all__ = ["Builder", "Circuit", "ImportedCircuit", "Run", "circuit", "diff", "load"]


OTHER_PICTURES = frozenset([".png", ".pdf", ".jpg", ".jpeg", ".gif", ".webp", ".eps"])
"""Kinds of pictures, by the ends of their files' names, that programs would not read if they hold SVG."""


def _check_picture_name(path: str | PathLike[str]) -> None:
    """Raise if the name of a file says that it holds another kind of picture than SVG."""
    name = fspath(path)
    stem, kind = splitext(name)
    if kind.lower() in OTHER_PICTURES:
        raise InputError(
            f"to_svg writes SVG; got {short_repr(name)}: write to_svg({f'{stem}.svg'!r}), which browsers and slides "
            f"show, and convert that file where {kind[1:]} is needed, as with "
            f"`rsvg-convert -o {basename(name)} {basename(stem)}.svg`"
        )


class Drawable:
    """Something that can be drawn: a circuit, or a run, which shows the values and gradients on every wire."""

    __slots__ = ()

    @property
    def _circuit_and_run(self) -> tuple[ir.CircuitGraph, BareRun | None]:
        raise NotImplementedError

    def to_svg(self, path: str | PathLike[str] | None = None, **options: Unpack[SvgOptions]) -> str:
        """Draw as SVG, and write it to a file if a path is given.

        Options: `theme` (auto, light, dark, print), `down`, `split`, `depth`, `opened`, `cap`, `digits`, and `animate`,
        which lets the picture of a run play forward and backward by itself.

        >>> circuit("x * x").to_svg().startswith("<svg")
        True
        """
        if path is not None:
            _check_picture_name(path)
        text = draw.to_svg(*self._circuit_and_run, **options)
        if path is not None:
            files.replace_file(path, [memoryview(text.encode())])
        return text

    def to_dot(self, **options: Unpack[DirectedOptions]) -> str:
        """Draw in Graphviz's language, with the options of `to_svg` except the theme.

        >>> circuit("y = tanh(x)").to_dot().splitlines()[0]
        'digraph "y" {'
        """
        return draw.to_dot(*self._circuit_and_run, **options)

    def to_mermaid(self, **options: Unpack[DirectedOptions]) -> str:
        """Draw in Mermaid's language, which many Markdown viewers render.

        >>> circuit("y = tanh(x)").to_mermaid().splitlines()[0]
        'flowchart LR'
        """
        return draw.to_mermaid(*self._circuit_and_run, **options)

    def to_unicode(self, **options: Unpack[TerminalOptions]) -> str:
        """Draw for a terminal. Options: `width`, `ascii`, and those of `to_svg` except the theme.

        >>> print(circuit("y = tanh(x)").to_unicode())
        y: 1 input, 1 node
        <BLANKLINE>
        ╭───╮   ╒════════╕
        │ x ├───▶ y tanh │
        ╰───╯   ╘════════╛
        """
        return draw.to_unicode(*self._circuit_and_run, **options)

    def to_html(
        self, path: str | PathLike[str] | None = None, *, title: str | None = None, source: bool = False
    ) -> str:
        """Return the explorer with this circuit as one HTML page, and write it to a file if a path is given.

        The page works from disk and needs no network. With `source` it contains the lines of code and full paths.

        >>> circuit("y = tanh(x)").run(x=1).to_html().startswith("<!doctype html>")
        True
        """
        text = page_data.to_html(*self._circuit_and_run, title, source=source)
        if path is not None:
            files.replace_file(path, [memoryview(text.encode())])
        return text

    def explore(
        self,
        *,
        output: str | PathLike[str] | None = None,
        port: int = 0,
        browser: bool = True,
        wait: bool = True,
        source: bool = False,
    ) -> Any:
        """Open the explorer with this circuit in the browser, from a server on this machine; Ctrl-C ends it.

        With `wait=False` the server runs in the background; the returned object has `url` and `stop()`. In a notebook
        the explorer is shown below the cell instead, or the picture if the extra `notebook` is not installed. With
        `output="page.html"` it is written to a file, as `to_html` does, and nothing is opened.
        """
        if output is not None:
            self.to_html(output, source=source)
            return None
        if widget.in_notebook():
            return widget.show_in_notebook(*self._circuit_and_run, source=source)
        session = page_data.ExplorerSession(*self._circuit_and_run, source=source)
        return local_server.open_explorer(session, port=port, browser=browser, wait=wait)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return what a notebook shows: the picture, and text for notebooks without pictures."""
        return draw.build_mimebundle(*self._circuit_and_run)


class Run(BareRun, Drawable):
    """The result of one forward and one backward pass: values, gradients, wires and steps.

    >>> run = circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10)
    >>> run.output, run.grads
    (-10.0, {'a': 10.0, 'b': 10.0, 'c': -1.0})
    """

    __slots__ = ()

    @property
    def _circuit_and_run(self) -> tuple[ir.CircuitGraph, BareRun | None]:
        return self.circuit, self

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Copies ask for the attributes before they are there.
            is_own = name.startswith("_") or name in BareRun.__slots__
            return refuse_attribute(self, "a run", () if is_own else self.circuit, name)

    @classmethod
    def from_backend_run(cls, bare: BareRun) -> Run:
        """Return a backend's run as a public one, with the questions that can be asked about it."""
        return cls(bare.circuit, bare.values, bare.flows, bare.sent)

    def _name_layer(self, answer: Answer) -> Answer:
        """Let an answer about a circuit from another framework say that it is about the circuit."""
        if isinstance(self.circuit, ObservedCircuit):
            return answer.with_layer_note(f"from the observed run: {count_with_noun(self.circuit.size, 'tensor')}")
        if not isinstance(self.circuit, ImportedCircuit):
            return answer
        nodes = count_with_noun(self.circuit.size, "node")
        return answer.with_layer_note(f"from the circuit: {nodes}, by wiregrad's rules")

    def _require_rules(self, question: str) -> None:
        """Refuse a question about an observed run that needs the rules of its ops."""
        if isinstance(self.circuit, ObservedCircuit):
            raise InputError(
                f"an observed run has no rules of its ops, which {question} needs: ask seen.{question}(), which uses "
                "the circuit"
            )

    def steps(self) -> Iterator[RunStep]:
        """Iterate over the steps of the run: forward, seed, backward; `str(step)` is a sentence.

        >>> print([*circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10).steps()][-2])
        f = e * c sends 10 to e and -1 to c
        """
        return inspect.report.steps(self)

    def open_loop(self, name: str, step: int = 0) -> Run:
        """Return one step of a loop as a run of its body, with the values and gradients that it had in this run.

        `step` counts from 0; negative numbers count from the end. A branch has one step.

        >>> text = ["input x", "y = scan x carry=1 xs=0 length=3 reverse=false counted=false {", "input c"]
        >>> text += ["d = multiply c c", "output d", "}", "f = sum y axes=[-1] keepdims=false", "output f"]
        >>> looped = Circuit.from_text("\\n".join(text))
        >>> last = looped.run(x=2.0).open_loop("y", -1)
        >>> last["c"].value, last["d"].value, last["c"].grad
        (16.0, 256.0, 32.0)
        """
        opened = interpreter.open_loop(self, self.circuit.index(name))
        if opened is None:
            raise InputError(f"{name} is neither a loop nor a branch, so there is nothing inside it to open")
        if not -opened.length <= step < opened.length:
            raise InputError(f"{name} ran {count_with_noun(opened.length, 'step')}, counted from 0; got step {step}")
        (bare,) = opened.run_steps([step % opened.length])
        return Run(Circuit(bare.circuit.columns), bare.values, bare.flows, bare.sent)

    def blame(self) -> Blame:
        """Find the op that first produced a non-finite number, forward or backward: its factors, its line, advice.

        >>> print(circuit("y = log(x)").run(x=0.0).blame())
        log gave -Inf at x = 0
          node y at formula:1:5
          spoils the output y and the gradient of x
          y = -Inf (formula:1:5) -> gradient of x = Inf
          try: guard the argument: np.log(np.maximum(x, tiny)), or np.where(x > 0, np.log(x), 0.0)
        """
        return self._name_layer(inspect.blame.blame(self))

    def explain(self, name: str) -> Explanation:
        """Explain why the gradient of a node is zero, tiny, huge, absent or ordinary.

        >>> print(circuit("y = tanh(w * x)").run(w=50.0, x=2.0).explain("x"))
        the gradient of x is 0: what flows back is 0
          tanh is flat at w * x = 100: saturated, its slope is 0 (formula:1:5)
        """
        return self._name_layer(inspect.explain.explain(self, name))

    def paths(self, name: str, k: int = 10) -> Paths:
        """Return the paths that contribute most to a gradient, the number of all paths, and how much they cancel.

        >>> print(circuit("e = a + b; f = e * c + a * a").run(a=2, b=-3, c=10).paths("a", k=1))
        a reaches f along 3 paths; its gradient is 14
          10 = 1 x 10 x 1 x 1   a -> e -> e * c -> f
          4 along the other 2 paths
        """
        return self._name_layer(inspect.paths.paths(self, name, k))

    def branches(self, name: str) -> Branches:
        """Return what each use of a value contributes to its gradient.

        >>> [(use.op, use.sent) for use in circuit("f = x * x + x").run(x=3).branches("x").branches]
        [('multiply', 3.0), ('multiply', 3.0), ('add', 1.0)]
        """
        return self._name_layer(inspect.paths.branches(self, name))

    def kinks(self, within: float = 1e-6) -> Kinks:
        """List the nodes on or near a kink: distance, convention used, and the gradients under the other conventions.

        >>> print(circuit("y = abs(x)").run(x=0).kinks())
        1 node on a kink, 0 near one, 0 on or near a step
          y = absolute(x) (formula:1:5) is on its kink (x = 0): min_norm (used) sends 0, torch 0, jax 1
        by torch no gradient would change
        by jax gradients would be x 0 -> 1
        """
        self._require_rules("kinks")
        return self._name_layer(inspect.kinks.kinks(self, within))

    def rounding(self, names: Sequence[str] | None = None) -> Rounding:
        """Estimate the rounding error of the output and of the gradients (all, or those named), by node and op.

        >>> rounding = circuit("y = (1 + x) - 1").run(x=1e-9).rounding()
        >>> f"{rounding.output.error:.2e}", rounding.output.worst[0].op
        ('8.27e-17', 'add')
        """
        self._require_rules("rounding")
        return self._name_layer(inspect.rounding.rounding(self, names))

    def flow(self, *, by: str = "group", depth: int | None = None) -> Flow:
        """Return the size of the gradient over depth, layer by layer; `by` is group, rank or input; `.to_svg()` plots.

        >>> flow = circuit("y = tanh(tanh(0.5 * x))").run(x=1.0).flow(by="rank")
        >>> [layer.name for layer in flow.layers]
        ['y', 't2', 't1', 'x']
        """
        return self._name_layer(inspect.flow.flow(self, by=by, depth=depth))

    def histogram(self, name: str | None = None, *, of: str = "grad") -> Histogram:
        """Return a histogram of the gradients (with `of="value"` the values) of one node or of all; `.to_svg()` plots.

        >>> print(circuit("y = a * b").run(a=2.0, b=3.0).histogram())
        gradients of all nodes: 3 numbers
                  0 │0
          +1 to +10 │████████████████████████████████ 3
        """
        return self._name_layer(inspect.flow.histogram(self, name, of=of))


MAX_PRINTED_LINES = 400
"""Maximum number of lines of a printed circuit; the middle of a longer one is left out."""
MAX_PRINTED_WIDTH = 500
"""Maximum length of a line of a printed circuit; the middle of a longer one, such as a large constant, is left out."""


class Circuit(ir.CircuitGraph, Drawable):
    """A circuit of function nodes, splitters and wires.

    Made by `wiregrad.circuit(formula)`, `Builder.build` or `Circuit.from_text`.

    >>> circuit("(a + b) * c")
    Circuit(3 inputs, 2 nodes, 0 splitters, output f)
    """

    __slots__ = ()

    @property
    def _circuit_and_run(self) -> tuple[ir.CircuitGraph, BareRun | None]:
        return self, None

    @property
    def _known_inputs(self) -> Mapping[str, Any]:
        """The values of inputs that are left out, as far as the circuit knows them."""
        return {}

    @property
    def _weights(self) -> Mapping[str, Any]:
        """The known inputs that belong to a model and not to a call of it."""
        return {}

    def _ipython_key_completions_(self) -> list[str]:
        """Return the names that `circuit[...]` accepts, for completion."""
        return [name for _, name in self.columns.names]

    def __call__(self, /, *vector: object, **inputs: object) -> Any:
        """Compute the output (a dict of outputs if there are several) from inputs by name, or one vector or mapping.

        A traced circuit raises `BranchError` where its function would take another branch; with `check=False` it
        computes a result there too. (If an input is called `check`, use `unchecked()`.)

        >>> circuit("(a + b) * c")(a=2, b=-3, c=10)
        -10.0
        """
        check = ir.certificates.pop_check_option(self, inputs)
        point = interpreter.bind_inputs(self, vector, inputs, self._known_inputs)
        outputs = interpreter.evaluate_outputs(self, point, check=check)
        values = {label: to_python_number(value) for label, value in outputs.items()}
        return values if len(values) > 1 else values[self.output]

    def run(self, /, *vector: object, **inputs: object) -> Run:
        """Run forward and backward, and keep every value and gradient; certificates are checked as in a call."""
        check = ir.certificates.pop_check_option(self, inputs)
        point = interpreter.bind_inputs(self, vector, inputs, self._known_inputs)
        return Run.from_backend_run(interpreter.run_circuit(self, point, check=check))

    def jvp(self, point: Mapping[str, Any], tangents: Mapping[str, Any], *, check: bool = True) -> tuple[Any, Any]:
        """Return the output and its directional derivative, by forward mode; inputs without a tangent have tangent 0.

        >>> circuit("x * y").jvp({"x": 2, "y": 3}, {"x": 1})
        (6.0, 3.0)
        """
        values = interpreter.evaluate_checked_nodes(self, interpreter.bind_inputs(self, [point], {}), check=check)
        if not isinstance(tangents, Mapping):
            raise InputError(f"tangents are a mapping of input name to number; got {type(tangents).__name__}")
        interpreter.check_input_names(tangents, self.inputs)
        seeds = {
            self.index(name): interpreter.convert_to_float(f"the tangent of {name}", t) for name, t in tangents.items()
        }
        tangent = interpreter.compute_tangents(self, values, seeds)[self.root()]
        return to_python_number(values[self.root()]), 0.0 if tangent is None else to_python_number(tangent)

    @overload
    def compile(
        self,
        dtype: DTypeLike | None = None,
        *,
        check: bool = True,
        assume: str | None = None,
        device: Literal["cpu"] = "cpu",
    ) -> Compiled: ...
    @overload
    def compile(
        self, dtype: DTypeLike | None = None, *, check: bool = True, assume: str | None = None, device: CudaDevice
    ) -> CudaCompiled: ...
    @overload
    def compile(
        self, dtype: DTypeLike | None = None, *, check: bool = True, assume: str | None = None, device: str
    ) -> Compiled: ...
    def compile(
        self, dtype: DTypeLike | None = None, *, check: bool = True, assume: str | None = None, device: str = "cpu"
    ) -> Compiled:
        """Return the circuit as an object for many calls: native code if possible, otherwise the interpreter.

        It has `value_and_grad`, `jacobian`, `hessian`, `batch`, `batch_value_and_grad`, `batch_jacobian` and `info`;
        `dtype` is float64 or float32, by default that of the circuit. Certificates are checked on every call, unless
        `check=False`. With `assume="finite"` gradients are faster, but right only where no value and no local slope is
        infinite or NaN, in branches that are not taken either. With `device="cuda"`, or `"cuda:1"` for the second GPU,
        batches run on an NVIDIA GPU.

        >>> compiled = circuit("e = a + b; f = e * c").compile()
        >>> compiled.value_and_grad(a=2.0, b=-3.0, c=10.0)
        (-10.0, {'a': 10.0, 'b': 10.0, 'c': -1.0})
        """
        if device == "cpu":
            return compiled.Compiled(self, dtype, check=check, assume=assume, point=self._known_inputs)
        return cuda_batches.CudaCompiled(
            self, dtype, check=check, assume=assume, point=self._known_inputs, device=device
        )

    def split(self) -> Circuit:
        """Return the split form: every fan-out is made of two-way splitters, so that each wire has one reader."""
        return Circuit(passes.insert_splitters(self).columns)

    def expand(self) -> Circuit:
        """Return a small array circuit as a scalar circuit, with one node per number."""
        return Circuit(passes.expand(self).columns)

    def simplify(self) -> Circuit:
        """Return a smaller equal circuit: no dead nodes, folded constants, shared subexpressions, fewer identities."""
        return Circuit(passes.simplify(self).columns)

    def backward_circuit(self) -> Circuit:
        """Return the circuit that computes the gradient of the output with respect to every input.

        >>> circuit("x * x").backward_circuit()(x=3)
        6.0
        """
        return Circuit(passes.backward_circuit(self).columns)

    def with_convention(self, convention: str, nodes: Iterable[str] | None = None) -> Circuit:
        """Return the circuit with another kink convention (`min_norm`, `torch`, `jax`), at all nodes or at some.

        >>> circuit("y = abs(x)").with_convention("jax").run(x=0).grads
        {'x': 1.0}
        """
        return passes.with_convention(self, convention, nodes)

    def to_text(self) -> str:
        """Return the text form, which `Circuit.from_text` reads back exactly."""
        return ir.write_text(self)

    def to_json(self) -> str:
        """Return the circuit as a JSON document, which `Circuit.from_json` reads back exactly.

        >>> Circuit.from_json(circuit("y = tanh(x)").to_json()) == circuit("y = tanh(x)")
        True
        """
        return files.write_json(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Circuit:
        """Read a circuit from a JSON document; documents from untrusted sources are safe to read."""
        return cls(files.parse_json(text).columns)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the circuit to a file that `wiregrad.load` reads: arrays as safetensors, no pickle."""
        files.save(self, path)

    def to_python(
        self,
        function: str = "value_and_grad",
        *,
        name: str | None = None,
        argnames: Argnames | None = None,
        check: bool = True,
    ) -> str:
        """Return the circuit as plain Python, forward and backward, line by line; the code needs no package.

        `function` is `value`, `value_and_grad`, `jacobian` or `hessian`; `name` is the function's name in the code, and
        `argnames` names the inputs that derivatives are by, if they are not by all. The code of a traced circuit raises
        where its function would take another branch, unless `check=False`.

        >>> print(circuit("e = a + b; f = e * c").to_python("value"))
        \"""Value of f, written by wiregrad from a circuit of 2 nodes.\"""
        <BLANKLINE>
        <BLANKLINE>
        def value(a, b, c):
            \"""Return the value.\"""
            # forward
            e = a + b  # add
            f = e * c  # multiply
            return f
        <BLANKLINE>
        """
        return self._write_listing("python", function, name, argnames, check=check)

    def to_numpy(
        self,
        function: str = "value_and_grad",
        *,
        name: str | None = None,
        argnames: Argnames | None = None,
        check: bool = True,
    ) -> str:
        """Return the circuit as NumPy code, for arrays and for batches of a scalar circuit; options as in `to_python`.

        >>> "np.tanh(x)" in circuit("y = tanh(x)").to_numpy()
        True
        """
        return self._write_listing("numpy", function, name, argnames, check=check)

    def _write_listing(
        self,
        language: str,
        function: str,
        name: str | None,
        argnames: object,
        *,
        check: bool,
        finite: bool = False,
        **options: object,
    ) -> str:
        wanted = codegen.find_wanted_inputs(self, argnames)
        return codegen.write_listing(
            self if check else self.unchecked(), language, function, name, finite=finite, wanted=wanted, **options
        )

    def to_c(
        self,
        function: str = "value_and_grad",
        *,
        name: str | None = None,
        argnames: Argnames | None = None,
        real: str | None = None,
        header: bool = False,
        test: Mapping[str, Any] | None = None,
        check: bool = True,
        assume: str | None = None,
    ) -> str:
        """Return the circuit as C99 in doubles or floats (`real`); the numbers are in the order of `inputs`.

        Derivatives are by the inputs that `argnames` names, in the same order; without it by all. With `header`, return
        the header file instead. With a point as `test`, the code has a self-test: a `main`, compiled with
        -DWIREGRAD_TEST, that runs the function there and compares the result with the circuit's. Where the function of
        a traced circuit would take another branch, results are NaN and NAME_branch(x) is not 0, unless `check=False`.
        `assume` is that of `compile`.

        >>> "double value_and_grad(const double *x, double *grad)" in circuit("a * b").to_c()
        True
        """
        expected = None
        if test is not None:
            wanted = codegen.find_wanted_inputs(self, argnames)
            chosen = self if check else self.unchecked()
            expected = evaluate_function(chosen, function, interpreter.bind_inputs(self, [test], {}), wanted)
        finite = codegen.check_assumption(assume)
        return self._write_listing(
            "c", function, name, argnames, check=check, finite=finite, real=real, header=header, test=expected
        )

    def to_js(
        self,
        function: str = "value_and_grad",
        *,
        name: str | None = None,
        argnames: Argnames | None = None,
        check: bool = True,
    ) -> str:
        """Return the circuit as an ES module: `valueAndGrad(x)` takes an object and returns {value, grads}.

        The code of a traced circuit throws where its function would take another branch, unless `check=False`.

        >>> "export function valueAndGrad(x)" in circuit("a * b").to_js()
        True
        """
        return self._write_listing("js", function, name, argnames, check=check)

    def to_cuda(
        self,
        function: str = "value_and_grad",
        *,
        name: str | None = None,
        argnames: Argnames | None = None,
        real: str | None = None,
        check: bool = True,
    ) -> str:
        """Return the circuit as CUDA C++: a device function, and a kernel over a batch of points.

        Where the function of a traced circuit would take another branch, results are NaN, unless `check=False`.

        >>> 'extern "C" __global__ void value_and_grad_batch' in circuit("a * b").to_cuda()
        True
        """
        return self._write_listing("cuda", function, name, argnames, check=check, real=real)

    def to_jax(self, dtype: str | None = None, *, check: bool = True) -> Callable[..., Any]:
        """Return the circuit as a function of JAX arrays, for `jax.jit`, `jax.vmap`, `jax.grad` and sharding.

        Inputs are given in the order of `inputs` or by name. It is differentiated by JAX's rules, not by wiregrad's.
        JAX needs `jax_enable_x64` for float64; with `dtype="float32"` the circuit is computed in 32 bits. Where the
        function of a traced circuit would take another branch, results are NaN, unless `check=False`.
        """
        return framework_export.to_jax(self, dtype, check=check, point=self._known_inputs)

    def to_torch(self, dtype: str | None = None, *, check: bool = True) -> Callable[..., Any]:
        """Return the circuit as a function of PyTorch tensors, for autograd, `torch.func` and `torch.compile`.

        Inputs, `dtype` and `check` are as in `to_jax`; it is differentiated by PyTorch's rules.
        """
        return framework_export.to_torch(self, dtype, check=check, point=self._known_inputs)

    def to_onnx(
        self, path: str | PathLike[str], *, gradient: bool = False, check: bool = True, weights: bool = True
    ) -> None:
        """Write the circuit to an ONNX file; with `gradient`, the file also computes the gradient by every input.

        The gradient is wiregrad's: its rules become nodes of the file, as outputs `grad_` and the input's name. Where
        the function of a traced circuit would take another branch, results are NaN, unless `check=False`. The weights
        of a circuit that was taken from a model are stored in the file; with `weights=False` they are inputs of it.
        """
        stored = self._weights if weights else None
        onnx_files.to_onnx(self, path, gradient=gradient, check=check, weights=stored)

    def count_ops(self, function: str = "value_and_grad", *, argnames: Argnames | None = None) -> OpCounts:
        """Count the operations in the circuit's C code: additions, multiplications, divisions, functions by name.

        `function` and `argnames` are those of `to_c`. Both arms of a choice count; a function of matrices counts as one
        operation.

        >>> circuit("y = sin(a) * b").count_ops()
        6 operations
          4 multiplications, 2 transcendental functions
          functions: cos 1, sin 1
        >>> circuit("y = sin(a) * b").count_ops("value").multiplications
        1
        """
        return inspect.op_counts.count_ops(self, function, wanted=codegen.find_wanted_inputs(self, argnames))

    def receipt(self, points: int | Sequence[Mapping[str, Any]] = 24, *, seed: int = 0) -> Receipt:
        """Run the generated code in every language available here; report how far it is from the interpreter, by op.

        `points` is the number of random points (ordinary and awkward ones), or the points themselves.

        >>> circuit("f = a * b + c").receipt(points=4).ok
        True
        """
        return inspect.receipt.receipt(self, points, seed=seed)

    @classmethod
    def from_text(cls, text: str) -> Circuit:
        """Read a circuit from its text form."""
        return cls(ir.verify(ir.parse_text(text)).columns)

    def __str__(self) -> str:
        whole_lines = ir.write_text(self, readable=True).splitlines()
        lines = [f"{shorten_middle(line, MAX_PRINTED_WIDTH)}\n" for line in whole_lines]
        if len(lines) <= MAX_PRINTED_LINES:
            return "".join(lines)
        left_out = len(lines) - MAX_PRINTED_LINES
        note = f"# {left_out:,} lines are left out here; circuit.to_text() has all of them\n"
        return "".join([*lines[: MAX_PRINTED_LINES // 2], note, *lines[-MAX_PRINTED_LINES // 2 :]])


class ImportedCircuit(Circuit):
    """A circuit that was taken from a run of another framework, with the values that its inputs had there.

    Calls, `run`, `wg.run`, `wg.blame`, `wg.check_grads`, and what `compile`, `to_torch` and `to_jax` return use these
    values for the inputs that are left out. `weights` are the names of those that a model holds: `to_onnx` writes their
    values into the file.

    >>> imported = ImportedCircuit(circuit("x * y").columns, {"x": 3.0, "y": 2.0})
    >>> imported(), imported(y=5.0), imported.run().grads, imported.compile()(y=5.0)
    (6.0, 15.0, {'x': 2.0, 'y': 3.0}, 15.0)
    """

    __slots__ = ("point", "weights")

    def __init__(
        self, columns: ir.CircuitColumns, point: Mapping[str, Any] | None = None, weights: Iterable[str] = ()
    ) -> None:
        super().__init__(columns)
        self.point = dict(point or {})
        self.weights = tuple(weights)

    @property
    def _known_inputs(self) -> Mapping[str, Any]:
        return self.point

    @property
    def _weights(self) -> Mapping[str, Any]:
        return {name: self.point[name] for name in self.weights}


CIRCUIT_MAKERS.append(ImportedCircuit)


class ObservedCircuit(Circuit):
    """The ops of a framework's own run, one node each. It is drawn and compared, and cannot be run at another point."""

    __slots__ = ()

    @classmethod
    def make_run(cls, circuit: ir.CircuitGraph, *numbers: Sequence[Any]) -> Run:
        """Return a run of such ops, given the values, the gradients, and what was sent along each wire."""
        return Run(cls(circuit.columns), *numbers)


RUN_MAKERS.append(ObservedCircuit.make_run)


class Builder(ir.GraphBuilder):
    """Builds a circuit one node at a time; every op of the table is a method.

    >>> b = Builder(strict=True)
    >>> p, q = b.split(b.input("x"))
    >>> b.build(b.multiply(p, q, name="y"))(x=3)
    9.0
    """

    def build(
        self, *outputs: ir.Port | str, name: str | None = None, labels: Mapping[str, ir.Port] | None = None
    ) -> Circuit:
        """Return the circuit with these outputs; `labels` maps names to further outputs."""
        return Circuit(super().build(*outputs, name=name, labels=labels).columns)


def circuit(formula: str | Value) -> Circuit:
    """Return the circuit of a formula, or the circuit that was recorded for a value.

    The statements of a formula are separated by `;` or new lines; the last one is the output. Inner nodes can be named.

    >>> circuit("e = a + b; f = e * c")["e"].inputs
    ('a', 'b')
    """
    source: Any = formula
    recorded = getattr(source, "__wiregrad_circuit__", None)
    return Circuit((parse_formula(source) if recorded is None else recorded()[0]).columns)


def load(path: str | PathLike[str]) -> Circuit:
    """Read a circuit from a file that `circuit.save` wrote; files from untrusted sources are safe to read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     circuit("e = a + b; f = e * c").save(f"{folder}/f.wg")
    ...     print(load(f"{folder}/f.wg")(a=2, b=-3, c=10))
    -10.0
    """
    return Circuit(files.load(path).columns)


def diff(
    one: Circuit | Run | RunQuestions, two: Circuit | Run | RunQuestions, rtol: float = 0.0, atol: float = 0.0
) -> Difference:
    """Find the first wire at which two circuits, or two runs, differ: in structure, in value or in gradient.

    What `wg.watch` has seen is compared by the framework's own numbers. A circuit that was taken from another framework
    is run at its values there to be compared with a run.

    >>> print(diff(circuit("y = x * x + 1"), circuit("y = tanh(x * x) + 1")))
    the second has an extra node: tanh(x * x) (formula:1:5)
    everything after it matches; 1 wire reads tanh(x * x) in place of x * x
    """
    for each in (one, two):
        if not isinstance(each, Drawable) and not hasattr(each, "as_run"):
            raise OperandError(
                f"wg.diff compares circuits or runs; got {short_repr(each)}: for functions write "
                "wg.diff(wg.run(f, x), wg.run(g, x)), for a derivative wg.grad(f), for differences in an array np.diff"
            )
    first, second = (each if isinstance(each, Drawable) else each.as_run() for each in (one, two))
    if isinstance(first, ImportedCircuit) and isinstance(second, Run):
        first = first.run()
    elif isinstance(second, ImportedCircuit) and isinstance(first, Run):
        second = second.run()
    answer = inspect.diff.diff(first, second, rtol, atol)
    layers = [run._circuit_and_run[0] for run in (first, second)]
    if any(isinstance(layer, ObservedCircuit) for layer in layers):
        return answer.with_layer_note(f"from {' and '.join(map(_name_layer_of, layers))}")
    return answer


def _name_layer_of(circuit: ir.CircuitGraph) -> str:
    return "the observed run" if isinstance(circuit, ObservedCircuit) else "the circuit"


RUN_NAMES = list_public_names(Run)
CIRCUIT_NAMES = list_public_names(Circuit)
add_missing_names(Circuit, "a circuit", lead_to(RUN_NAMES, "circuit.run(x=3.0)") | CIRCUIT_HABITS)
add_missing_names(Run, "a run", lead_to(CIRCUIT_NAMES, "run.circuit") | RUN_HABITS)
add_missing_names(interpreter.RunNode, "a node of a run", NODE_HABITS)
