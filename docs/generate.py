"""Write the pages that are derived from the op table, and the pictures that pages show: `make derive`."""

from __future__ import annotations

import inspect
import json
import runpy
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import wiregrad
from wiregrad.draw.plots import CurvePanel, PlotCurve, draw_curves
from wiregrad.frontends.recording.dispatch import UFUNCS
from wiregrad.ops import TABLE, Elementwise, Op, Pattern, docs_table
from wiregrad.ops.array_ops import ArrayOp
from wiregrad.ops.functions import FUNCTIONS, FUNCTIONS_BY_SCIPY, RegisteredFunction

HERE = Path(__file__).parent
ROOMS_TABLE = runpy.run_path(str(HERE.parent / "tools" / "rooms_table.py"))
SCIENCE = runpy.run_path(str(HERE.parent / "tools" / "science_pictures.py"))


def ops_page() -> str:
    """Return docs/ops.md."""
    patterns = [
        f"- **{pattern.name.lower()}** {pattern.value}." for pattern in Pattern if pattern is not Pattern.SOURCE
    ]
    ops = [op for op in TABLE if op.pattern is not Pattern.SOURCE and not op.per_call]
    single = sum(isinstance(op, Elementwise) for op in ops)
    return _joined(
        "# Ops",
        f"Written by `make derive` from the op table: {single} ops work element by element, {len(ops) - single} on "
        "whole arrays. The former are functions in formulas, where a wire carries one number; all are methods of "
        "`Builder`, functions in `wiregrad.ops`, and words of the text form. The functions that people call on arrays, "
        "with NumPy's names and arguments, are made of these: [functions](functions.md).",
        "A pattern says how an op passes the upstream gradient on:",
        "\n".join(patterns),
        docs_table(),
        "## Settings of array ops",
        "An array op counts axes from the end, so that batch axes may come first. Its settings are written after its "
        "wires: `y = sum x axes=[-1] keepdims=false`. *Expands* says whether `circuit.expand()` can write it number by "
        "number, *batches* whether `wg.vmap` runs it once for all examples (else once for each).",
        _table(["op", "settings", "expands", "batches"], map(_settings_row, _array_ops())),
    )


def functions_page() -> str:
    """Return docs/functions.md."""
    entries = sorted((f for f in FUNCTIONS.values() if f.name.isidentifier()), key=lambda entry: entry.name.lower())
    smooth = {entry.name for entry in entries if entry.samples is not None}
    single = {op.name for op in TABLE if isinstance(op, Elementwise) and op.pattern is not Pattern.BLOCK}
    array = {op.name for op in _array_ops() if op.pattern is not Pattern.BLOCK}
    answered = [stands for entry in entries if not entry.doc.startswith("Refuses") for stands in entry.numpy]
    known = {*map(_numpy_name, answered), *_direct_names()}
    return _joined(
        "# Functions",
        f"Written by `make derive`. A value can be given to {len(known)} functions of NumPy: {len(_direct_names())} "
        f"that are ops themselves, and those that the {len(entries)} functions below implement. Each function here is "
        f"also `wg.NAME`, with the last part of its name (but {_shadowed()} are something else); those marked under "
        "*method* are methods of values too. Arguments are NumPy's; `out=` takes an array that can be "
        "[filled](values.md), and a few rare ones are refused with an error. "
        "Functions of SciPy have [a page of their own](scipy.md).",
        f"Differentiable: **{len(single | array | smooth)}** by name. That is {len(single)} elementwise ops whose "
        f"pattern is not *block*, {len(array)} array ops that are not *block*, and {len(smooth)} functions marked "
        "*yes* below; a name that occurs twice (`sum` is an op and a function) counts once. Each of them is checked at "
        "points of its own, in both modes and in second order. Functions marked *plain* give plain NumPy results, "
        "through which nothing flows back, unless their line says otherwise.",
        _table(["function", "method", "gradient", "what it does"], map(_function_row, entries)),
        "## NumPy functions that are ops themselves",
        ", ".join(f"`{name}`" for name in _direct_names()) + ".",
    )


def scipy_page() -> str:
    """Return docs/scipy.md."""
    ops = [(name, op.doc) for op in TABLE if isinstance(op, Elementwise) for name in op.scipy]
    functions = [(name, entry.doc) for name, entry in FUNCTIONS_BY_SCIPY.items()]
    known = dict(sorted([*ops, *functions]))
    taken = [name for name in known if name not in FUNCTIONS_BY_SCIPY or not FUNCTIONS_BY_SCIPY[name].refuses]
    modules = sorted({".".join(name.split(".")[:2]) for name in known})
    sections = [part for module in modules for part in (f"## {module}", _scipy_table(module, known))]
    return _joined(
        "# SciPy",
        f"Written by `make derive` from the op table: a value can be given to {len(taken)} functions of SciPy. SciPy "
        'is an optional package (`pip install "wiregrad[scipy]"`) and is imported only where it is used. Arguments and '
        "results are SciPy's, and gradients of every order flow to every real argument, parameters of distributions "
        "included. An order, such as that of a Bessel function, is a whole number and has no gradient.",
        SCIPY_EXAMPLE,
        "Ops that SciPy computes run in the interpreter; native code and listings refuse them and say so. A function "
        "that is not listed here raises `NoRuleError`; [a function of your own](own-ops.md) can call it.",
        *sections,
    )


SCIPY_EXAMPLE = """```python
>>> import numpy as np
>>> from scipy import special
>>> import wiregrad as wg
>>> def negative_log_likelihood(shape, rate, waits):
...     return np.sum(special.gammaln(shape) - shape * np.log(rate) - special.xlogy(shape - 1, waits) + rate * waits)
>>> waits = np.array([0.5, 1.5, 1.0])
>>> [round(slope, 6) for slope in wg.grad(negative_log_likelihood, argnums=(0, 1))(2.0, 2.0, waits)]
[-0.523406, 0.0]

```"""


def _scipy_table(module: str, known: Mapping[str, str]) -> str:
    """Return the table of a module's functions; the methods of a distribution are one row."""
    parts = {name: name.split(".")[2:] for name in known if name.startswith(f"{module}.")}
    rows = [[f"`{rest[0]}`", known[name]] for name, rest in parts.items() if len(rest) == 1]
    owned = [rest for name, rest in parts.items() if len(rest) > 1 and not FUNCTIONS_BY_SCIPY[name].refuses]
    owners = {owner: [name for other, name, *_ in owned if other == owner] for owner, *_ in owned}
    methods = [[f"`{owner}`", ", ".join(f"`{name}`" for name in names)] for owner, names in owners.items()]
    tables = [_table(["function", "what it does"], rows)] if rows else []
    return "\n\n".join([*tables, *([_table(["object", "methods"], methods)] if methods else [])])


def architecture_page() -> str:
    """Return docs/architecture.md, which is written by hand except for its table of rooms."""
    page: str = ROOMS_TABLE["replace_rooms_table"]((HERE / "architecture.md").read_text(encoding="utf-8"))
    return page


def _array_ops() -> list[ArrayOp]:
    found = [op for op in TABLE if isinstance(op, ArrayOp) and not op.per_call]
    return sorted(found, key=lambda op: op.name)


def _shadowed() -> str:
    return " and ".join(f"`wg.{name}`" for name in sorted(FUNCTIONS) if name in wiregrad.__all__)


def _settings_row(op: ArrayOp) -> list[str]:
    names = ", ".join(f"`{name}`" for name in _settings(op))
    return [f"`{op.name}`", names, "yes" if op.can_expand else "", "yes" if op.batches else ""]


def _settings(op: Op) -> list[str]:
    if isinstance(op.forward, np.ufunc):
        return []
    parameters = inspect.signature(op.forward).parameters.values()
    return [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]


def _function_row(entry: RegisteredFunction) -> list[str]:
    names = list(dict.fromkeys([*map(_numpy_name, entry.numpy), *entry.scipy]))
    if entry.name not in [name.rpartition(".")[2] for name in names]:
        names.append(f"wg.{entry.name}")
    gradient = "plain" if entry.samples is None and not entry.calls_back else "yes"
    return [", ".join(f"`{name}`" for name in names), "yes" if entry.method else "", gradient, entry.doc]


def _numpy_name(stands: Any) -> str:
    if isinstance(stands, tuple):
        return f"{_numpy_name(stands[0])}.{stands[1]}"
    module = getattr(stands, "__module__", None) or "numpy"
    return f"{module.replace('numpy', 'np')}.{stands.__name__}"


def _direct_names() -> list[str]:
    # `np.abs` and `np.absolute` are one function; it goes by its own name. Forwards of our own are no part of NumPy.
    return sorted({_numpy_name(f) for f in UFUNCS if getattr(np, f.__name__, None) is f})


def _expression() -> str:
    return wiregrad.circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10).to_svg()


def _hero() -> str:
    return wiregrad.circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10).to_svg(animate=True)


def _neuron() -> str:
    formula = "n = x1 * w1 + x2 * w2 + b; o = tanh(n)"
    return wiregrad.circuit(formula).run(x1=2, w1=-3, x2=0, w2=1, b=6.8813735870195432).to_svg()


def _fan_out() -> str:
    return wiregrad.circuit("y = x * x + x").run(x=3).to_svg(split=True)


def _broken() -> str:
    return wiregrad.circuit("gap = x - y; s = gap * gap; d = sqrt(s); f = d * w").run(x=1, y=1, w=2).to_svg()


def _network_run(layers: int) -> wiregrad.Run:
    """Run a network whose numbers have few digits, so that every machine computes the same ones."""

    def layer(x: Any, w: Any, b: Any) -> Any:
        return wiregrad.relu(x @ w + b)

    def network(x: Any, p: Any) -> Any:
        for k, (w, b) in enumerate(p):
            with wiregrad.group(f"layer{k + 1}"):
                x = layer(x, w, b)
        return np.mean(x)

    rng = np.random.default_rng(0)
    weights = [(rng.integers(-1, 3, (8, 8)) / 16.0, np.zeros(8)) for _ in range(layers)]
    return wiregrad.run(network, rng.integers(0, 4, (16, 8)) / 4.0, weights)


def _flow() -> str:
    return _network_run(9).flow(depth=1).to_svg()


def _groups() -> str:
    return _network_run(3).to_svg(depth=1)


def _mlp() -> str:
    picture: str = runpy.run_path(str(HERE.parent / "examples" / "lecture_mlp.py"))["make_run"]().to_svg(depth=1)
    return picture


def _training_curves(name: str) -> str:
    """Draw the course of a training, as `tools/record_curves.py` measured it."""
    run = json.loads((HERE / "curves" / f"{name}.json").read_text(encoding="utf-8"))
    panels = [
        CurvePanel(title, [PlotCurve(curve, **numbers) for curve, numbers in curves.items()])
        for title, curves in run["panels"].items()
    ]
    note = f"{run['steps']:,} steps took {run['processor_seconds']:g} s of processor time."
    return draw_curves(
        panels, [], steps=(0, run["steps"]), title=run["title"], description=note, notes=[note], theme="auto"
    )


def _science_picture(name: str) -> str:
    """Draw what a science example found, as `tools/science_pictures.py` recorded it."""
    picture: str = SCIENCE["draw_picture"](json.loads((HERE / "science" / f"{name}.json").read_text(encoding="utf-8")))
    return picture


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(text.replace('|', chr(92) + '|') for text in row)} |" for row in cells)


def _joined(*parts: str) -> str:
    return "\n\n".join(part if part.startswith(("|", "-", "#", "`" * 3)) else _wrapped(part) for part in parts) + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False)


PAGES: dict[str, Callable[[], str]] = {
    "ops.md": ops_page,
    "functions.md": functions_page,
    "scipy.md": scipy_page,
    "architecture.md": architecture_page,
    "images/expression.svg": _expression,
    "images/hero.svg": _hero,
    "images/neuron.svg": _neuron,
    "images/fan-out.svg": _fan_out,
    "images/broken.svg": _broken,
    "images/groups.svg": _groups,
    "images/mlp.svg": _mlp,
    "images/flow.svg": _flow,
    **{
        f"images/training-{path.stem.replace('_', '-')}.svg": partial(_training_curves, path.stem)
        for path in sorted((HERE / "curves").glob("*.json"))
    },
    **{
        f"images/science-{path.stem.replace('_', '-')}.svg": partial(_science_picture, path.stem)
        for path in sorted((HERE / "science").glob("*.json"))
    },
}
"""Every page and picture that is written here, and how."""


def main() -> None:
    """Write every page."""
    (HERE / "images").mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
