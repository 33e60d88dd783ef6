"""The public classes: a circuit and a run with everything the layers below can do with them.

This is the one place that joins a front end, passes, a backend and the questions a person asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

from wiregrad import codegen, export, ir, passes
from wiregrad.backends import Run as BareRun
from wiregrad.backends import interpreter
from wiregrad.backends.answers import answers
from wiregrad.dtypes import plain
from wiregrad.errors import InputError
from wiregrad.frontends import parse_formula
from wiregrad.inspect import answer

if TYPE_CHECKING:
    from wiregrad.backends.compiled import Compiled
    from wiregrad.inspect.blame import Blame
    from wiregrad.inspect.branches import Branches
    from wiregrad.inspect.diff import Difference
    from wiregrad.inspect.explain import Explanation
    from wiregrad.inspect.flow import Flow
    from wiregrad.inspect.histogram import Histogram
    from wiregrad.inspect.kinks import Kinks
    from wiregrad.inspect.paths import Paths
    from wiregrad.inspect.receipt import Receipt
    from wiregrad.inspect.rounding import Rounding
    from wiregrad.inspect.steps import Step


def explorer(module: str) -> Any:
    """Return a module of the explorer, which most programs never open."""
    return import_module(f"wiregrad.explorer.{module}")


class Drawable:
    """What can be drawn: a circuit, and a run, which shows what flowed on every wire."""

    __slots__ = ()

    @property
    def _drawn(self) -> tuple[ir.Circuit, BareRun | None]:
        raise NotImplementedError

    def to_svg(self, **options: Any) -> str:
        """Return the picture as SVG: `theme` (auto, light, dark), `down`, `split`, `depth`, `opened`, `cap`, `digits`.

        >>> circuit("x * x").to_svg().startswith("<svg")
        True
        """
        return export.to_svg(*self._drawn, **options)

    def to_dot(self, **options: Any) -> str:
        """Return the picture in Graphviz's language, with the options of `to_svg` but the theme.

        >>> circuit("y = tanh(x)").to_dot().splitlines()[0]
        'digraph "y" {'
        """
        return export.to_dot(*self._drawn, **options)

    def to_mermaid(self, **options: Any) -> str:
        """Return the picture in Mermaid's language, which many Markdown viewers draw.

        >>> circuit("y = tanh(x)").to_mermaid().splitlines()[0]
        'flowchart LR'
        """
        return export.to_mermaid(*self._drawn, **options)

    def to_unicode(self, **options: Any) -> str:
        """Return the picture for a terminal: `width`, `ascii`, and the options of what is drawn.

        >>> print(circuit("y = tanh(x)").to_unicode())
        y: 1 input, 1 node
        <BLANKLINE>
        ╭───╮   ╒════════╕
        │ x ├───▶ y tanh │
        ╰───╯   ╘════════╛
        """
        return export.to_unicode(*self._drawn, **options)

    def to_html(
        self, path: str | PathLike[str] | None = None, *, title: str | None = None, source: bool = False
    ) -> str:
        """Return the explorer on this circuit as one HTML file, and write it if a path is given.

        It works from disk and asks no network for anything. With `source` it holds the lines of code, and whole paths.

        >>> circuit("y = tanh(x)").run(x=1).to_html().startswith("<!doctype html>")
        True
        """
        text: str = explorer("page").to_html(*self._drawn, title, source=source)
        if path is not None:
            export.replace(path, [memoryview(text.encode())])
        return text

    def explore(self, *, port: int = 0, browser: bool = True, wait: bool = True, source: bool = False) -> Any:
        """Open the explorer on this circuit in the browser, from a server on this machine; Ctrl-C ends it.

        With `wait=False` it goes on in the background; what is returned has `url` and `stop()`. In a notebook the
        explorer is shown below the cell instead, or the picture where the extra `notebook` is missing.
        """
        if explorer("widget").in_notebook():
            return explorer("widget").show(*self._drawn, source=source)
        exhibit = explorer("server").Exhibit(*self._drawn, source=source)
        return explorer("serving").explore(exhibit, port=port, browser=browser, wait=wait)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return what a notebook shows: the picture, and text where there are no pictures."""
        return export.mimebundle(*self._drawn)


class Run(BareRun, Drawable):
    """One forward and backward pass, kept: ask it for values, gradients, wires and steps.

    >>> run = circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10)
    >>> run.output, run.grads
    (-10.0, {'a': 10.0, 'b': 10.0, 'c': -1.0})
    """

    __slots__ = ()

    @property
    def _drawn(self) -> tuple[ir.Circuit, BareRun | None]:
        return self.circuit, self

    @classmethod
    def of(cls, bare: BareRun) -> Run:
        """Return what a backend kept, with the questions that can be asked of it."""
        return cls(bare.circuit, bare.values, bare.flows, bare.sent)

    def steps(self) -> Iterator[Step]:
        """Walk through the run: forward, seed, backward; `str(step)` is a sentence.

        >>> print([*circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10).steps()][-2])
        f = e * c sends 10 to e and -1 to c
        """
        found: Iterator[Step] = answer("steps")(self)
        return found

    def blame(self) -> Blame:
        """Find the op that first made something non-finite, forward or backward: its factors, its line, what to try.

        >>> print(circuit("y = log(x)").run(x=0.0).blame())
        log gave -inf at x = 0
          node y at formula:1:5
          spoils the output y and the gradient of x
          y = -inf (formula:1:5) -> gradient of x = inf
          try: guard the argument: np.log(np.maximum(x, tiny)), or np.where(x > 0, np.log(x), 0.0)
        """
        found: Blame = answer("blame")(self)
        return found

    def explain(self, name: str) -> Explanation:
        """Say why the gradient of a node is zero, tiny, huge, absent or what it is.

        >>> print(circuit("y = tanh(w * x)").run(w=50.0, x=2.0).explain("x"))
        the gradient of x is 0: what flows back is 0
          tanh is flat at t1 = 100: saturated, its slope is 0 (formula:1:5)
        """
        found: Explanation = answer("explain")(self, name)
        return found

    def paths(self, name: str, k: int = 10) -> Paths:
        """Return the largest contributions to a gradient path by path, how many paths there are, how much they cancel.

        >>> print(circuit("e = a + b; f = e * c + a * a").run(a=2, b=-3, c=10).paths("a", k=1))
        a reaches f along 3 paths; its gradient is 14
          10 = 1 x 10 x 1 x 1   a -> e -> t1 -> f
          4 along the other 2 paths
        """
        found: Paths = answer("paths")(self, name, k)
        return found

    def branches(self, name: str) -> Branches:
        """Return what each use of a value sends back: which one drives its gradient.

        >>> [(use.op, use.sent) for use in circuit("f = x * x + x").run(x=3).branches("x").branches]
        [('multiply', 3.0), ('multiply', 3.0), ('add', 1.0)]
        """
        found: Branches = answer("branches")(self, name)
        return found

    def kinks(self, within: float = 1e-6) -> Kinks:
        """List the nodes on or near a kink: distance, convention used, and what the others would give.

        >>> print(circuit("y = abs(x)").run(x=0).kinks())
        1 node on a kink, 0 near one, 0 on or near a step
          y = absolute(x) (formula:1:5) is on its kink (x = 0): min_norm (used) sends 0, torch 0, jax 1
        by torch no gradient would change
        by jax gradients would be x 0 -> 1
        """
        found: Kinks = answer("kinks")(self, within)
        return found

    def rounding(self, names: Sequence[str] | None = None) -> Rounding:
        """Estimate the rounding error of the output and of the gradients (all, or those named), by node and op.

        >>> found = circuit("y = (1 + x) - 1").run(x=1e-9).rounding()
        >>> f"{found.output.error:.2e}", found.output.worst[0].op
        ('8.27e-17', 'add')
        """
        found: Rounding = answer("rounding")(self, names)
        return found

    def flow(self, **options: Any) -> Flow:
        """Return how the gradient changes from group to group over depth; `by` group, rank or input; `.to_svg()`.

        >>> found = circuit("y = tanh(tanh(0.5 * x))").run(x=1.0).flow(by="rank")
        >>> [layer.name for layer in found.layers]
        ['y', 't2', 't1', 'x']
        """
        found: Flow = answer("flow")(self, **options)
        return found

    def histogram(self, name: str | None = None, *, of: str = "grad") -> Histogram:
        """Return how large the gradients (or with `of="value"` the values) of a node, or of all, are; `.to_svg()`.

        >>> print(circuit("y = a * b").run(a=2.0, b=3.0).histogram())
        gradients of all nodes: 3 numbers
                  0 │0
          +1 to +10 │████████████████████████████████ 3
        """
        found: Histogram = answer("histogram")(self, name, of=of)
        return found


class Circuit(ir.Circuit, Drawable):
    """A circuit of function nodes, splitters and wires.

    Made by `wiregrad.circuit(formula)`, `Builder.build` or `Circuit.from_text`.

    >>> circuit("(a + b) * c")
    Circuit(3 inputs, 2 nodes, 0 splitters, output f)
    """

    __slots__ = ()

    @property
    def _drawn(self) -> tuple[ir.Circuit, BareRun | None]:
        return self, None

    def _ipython_key_completions_(self) -> list[str]:
        """Return the names that can stand in `circuit[...]`."""
        return [name for _, name in self.columns.names]

    def __call__(self, /, *vector: Any, **inputs: Any) -> Any:
        """Compute the output (a dict of them if there are several) from inputs by name, or one vector or mapping.

        A traced circuit raises `BranchError` where its function would go another way; `check=False` lets it answer
        there all the same. (If an input is called `check`, use `unchecked()`.)

        >>> circuit("(a + b) * c")(a=2, b=-3, c=10)
        -10.0
        """
        check = ir.certificates.take_option(self, inputs)
        found = interpreter.outputs(self, interpreter.bind(self, vector, inputs), check=check)
        values = {label: plain(value) for label, value in found.items()}
        return values if len(values) > 1 else values[self.output]

    def run(self, /, *vector: Any, **inputs: Any) -> Run:
        """Run forward and backward and keep every wire; certificates are checked as in a call."""
        check = ir.certificates.take_option(self, inputs)
        return Run.of(interpreter.run(self, interpreter.bind(self, vector, inputs), check=check))

    def jvp(self, point: Mapping[str, Any], tangents: Mapping[str, Any], *, check: bool = True) -> tuple[Any, Any]:
        """Return the output and its directional derivative, by forward mode; inputs without a tangent stand still.

        >>> circuit("x * y").jvp({"x": 2, "y": 3}, {"x": 1})
        (6.0, 3.0)
        """
        values = interpreter.evaluate_checked(self, interpreter.bind(self, [point], {}), check=check)
        if not isinstance(tangents, Mapping):
            raise InputError(f"tangents are a mapping of input name to number; got {type(tangents).__name__}")
        interpreter.check_known(tangents, self.inputs)
        seeds = {self.index(name): interpreter.number(f"the tangent of {name}", t) for name, t in tangents.items()}
        moved = interpreter.tangents(self, values, seeds)[self.root()]
        return plain(values[self.root()]), 0.0 if moved is None else plain(moved)

    def compile(self, dtype: Any = None, *, check: bool = True) -> Compiled:
        """Return the circuit as an object to call often: native code where there is any for it, else the interpreter.

        It has `value_and_grad`, `jacobian`, `hessian`, `batch`, `batch_value_and_grad` and `info`; `dtype` is float64
        or float32, usually the type of the circuit. What was traced is checked on every call, unless `check=False`.

        >>> compiled = circuit("e = a + b; f = e * c").compile()
        >>> compiled.value_and_grad(a=2.0, b=-3.0, c=10.0)
        (-10.0, {'a': 10.0, 'b': 10.0, 'c': -1.0})
        """
        made: Compiled = import_module("wiregrad.backends.compiled").Compiled(self, dtype, check=check)
        return made

    def split(self) -> Circuit:
        """Return the split form: every fan-out a tree of two-way splitters, each wire one reader."""
        return Circuit(passes.split(self).columns)

    def expand(self) -> Circuit:
        """Return the scalar circuit behind a small array circuit: one node per number."""
        return Circuit(passes.expand(self).columns)

    def simplify(self) -> Circuit:
        """Return a smaller circuit with the same values: dead nodes, constants, common subexpressions, identities."""
        return Circuit(passes.simplify(self).columns)

    def backward_circuit(self) -> Circuit:
        """Return the circuit that computes the gradient of the output with respect to every input.

        >>> circuit("x * x").backward_circuit()(x=3)
        6.0
        """
        return Circuit(passes.backward_circuit(self).columns)

    def with_convention(self, convention: str, nodes: Iterable[str] | None = None) -> Circuit:
        """Return the circuit with another choice at its kinks (`min_norm`, `torch`, `jax`): at all, or at some nodes.

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
        return export.write_json(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Circuit:
        """Read a circuit from a JSON document; one from anybody is safe to read."""
        return cls(export.parse_json(text).columns)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the circuit to a file, which `wiregrad.load` reads: arrays as safetensors, no pickle."""
        export.save(self, path)

    def to_python(self, function: str = "value_and_grad", *, name: str | None = None, check: bool = True) -> str:
        """Return the circuit as plain Python, forward and backward, line by line; it runs alone.

        `function` is `value`, `value_and_grad`, `jacobian` or `hessian`; `name` is what it is called. The listing of a
        traced circuit raises where its function would go another way, unless `check=False`.

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
        return codegen.write(self if check else self.unchecked(), "python", function, name)

    def to_numpy(self, function: str = "value_and_grad", *, name: str | None = None, check: bool = True) -> str:
        """Return the circuit as NumPy code: arrays, and batches of a scalar circuit; like `to_python` otherwise.

        >>> "np.tanh(x)" in circuit("y = tanh(x)").to_numpy()
        True
        """
        return codegen.write(self if check else self.unchecked(), "numpy", function, name)

    def to_c(
        self,
        function: str = "value_and_grad",
        *,
        name: str | None = None,
        real: str | None = None,
        header: bool = False,
        test: Mapping[str, Any] | None = None,
        check: bool = True,
    ) -> str:
        """Return the circuit as C99 in doubles or floats (`real`); numbers in the order of `inputs`.

        With `header` its header instead. With a point as `test` the listing has a self-test: a `main`, compiled with
        -DWIREGRAD_TEST, that runs the function there and compares with what the circuit gives. Where the function of a
        traced circuit would go another way, results are NaN and NAME_branch(x) is not 0, unless `check=False`.

        >>> "double value_and_grad(const double *x, double *grad)" in circuit("a * b").to_c()
        True
        """
        chosen = self if check else self.unchecked()
        expected = None if test is None else answers(chosen, function, interpreter.bind(self, [test], {}))
        return codegen.write(chosen, "c", function, name, real=real, header=header, test=expected)

    def to_js(self, function: str = "value_and_grad", *, name: str | None = None, check: bool = True) -> str:
        """Return the circuit as an ES module: `valueAndGrad(x)` takes an object and returns {value, grads}.

        The listing of a traced circuit throws where its function would go another way, unless `check=False`.

        >>> "export function valueAndGrad(x)" in circuit("a * b").to_js()
        True
        """
        return codegen.write(self if check else self.unchecked(), "js", function, name)

    def to_cuda(
        self,
        function: str = "value_and_grad",
        *,
        name: str | None = None,
        real: str | None = None,
        check: bool = True,
    ) -> str:
        """Return the circuit as CUDA C++: a device function, and a kernel over a batch of points.

        At points where the function of a traced circuit would go another way results are NaN, unless `check=False`.

        >>> 'extern "C" __global__ void value_and_grad_batch' in circuit("a * b").to_cuda()
        True
        """
        return codegen.write(self if check else self.unchecked(), "cuda", function, name, real=real)

    def receipt(self, points: int | Sequence[Mapping[str, Any]] = 24, *, seed: int = 0) -> Receipt:
        """Run the listings in every language there is here; say how far each op and the whole is from the interpreter.

        `points` is how many random points to take, ordinary and awkward ones, or the points themselves.

        >>> circuit("f = a * b + c").receipt(points=4).ok
        True
        """
        found: Receipt = answer("receipt")(self, points, seed=seed)
        return found

    @classmethod
    def from_text(cls, text: str) -> Circuit:
        """Read a circuit from its text form."""
        return cls(ir.verify(ir.parse_text(text)).columns)

    def __str__(self) -> str:
        return self.to_text()


class Builder(ir.Builder):
    """Makes a circuit one node at a time; every op of the table is a method.

    >>> b = Builder(strict=True)
    >>> p, q = b.split(b.input("x"))
    >>> b.build(b.multiply(p, q, name="y"))(x=3)
    9.0
    """

    def build(
        self, *outputs: ir.Port | str, name: str | None = None, labels: Mapping[str, ir.Port] | None = None
    ) -> Circuit:
        """Return the circuit with these outputs; `labels` gives outputs names of their own."""
        return Circuit(super().build(*outputs, name=name, labels=labels).columns)


def circuit(formula: Any) -> Circuit:
    """Return the circuit of a formula, or of what was recorded for a value.

    Statements of a formula are separated by `;` or new lines; the last one is the output. Inner nodes can be named.

    >>> circuit("e = a + b; f = e * c")["e"].inputs
    ('a', 'b')
    """
    recorded = getattr(formula, "__wiregrad_circuit__", None)
    return Circuit((parse_formula(formula) if recorded is None else recorded()[0]).columns)


def load(path: str | PathLike[str]) -> Circuit:
    """Read a circuit from a file that `circuit.save` wrote; a file from anybody is safe to read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     circuit("e = a + b; f = e * c").save(f"{folder}/f.wg")
    ...     print(load(f"{folder}/f.wg")(a=2, b=-3, c=10))
    -10.0
    """
    return Circuit(export.load(path).columns)


def diff(one: Circuit | Run, two: Circuit | Run, rtol: float = 0.0, atol: float = 0.0) -> Difference:
    """Find the first wire at which two circuits, or two runs, differ: in structure, in value or in gradient.

    >>> print(diff(circuit("y = x * x + 1"), circuit("y = tanh(x * x) + 1")))
    the second has an extra node: t2 = tanh(t1) (formula:1:5)
    everything after it matches; 1 wire reads t2 in place of t1
    """
    found: Difference = answer("diff")(one, two, rtol, atol)
    return found
