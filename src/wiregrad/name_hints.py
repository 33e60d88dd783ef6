"""What to write instead of a name that people expect on compiled functions, circuits, runs, nodes and `wiregrad`.

A name that another of these has leads there, derived from its public names: `fast.explain` to `wg.run(f, x).explain`,
`run.to_c` to `run.circuit.to_c`. Habits of other libraries have one line in a table. The code behind `write` is run by
a test. Python itself suggests names that are similar.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Never

from wiregrad.errors import UnknownAttributeError

__all__ = [
    "CIRCUIT_HABITS",
    "COMPILED_FUNCTION_HABITS",
    "GRADIENT_HABITS",
    "NODE_HABITS",
    "RUN_HABITS",
    "add_missing_names",
    "describe_submodule_name",
    "lead_to",
    "list_public_names",
]

CIRCUIT_HABITS: dict[str, str] = {
    **dict.fromkeys(("grad", "gradients", "backward", "value_and_grad"), "write circuit.run(x).grads"),
    **dict.fromkeys(("eval", "evaluate", "forward", "subs"), "write circuit(x)"),
    **dict.fromkeys(("plot", "draw", "show"), "write circuit.to_svg() or circuit.explore"),
    **dict.fromkeys(("variables", "leaves", "parameters"), "write circuit.inputs"),
    "diff": "write circuit.backward_circuit()",
    "to_code": "write circuit.to_python()",
}
RUN_HABITS: dict[str, str] = {
    **dict.fromkeys(("grad", "gradients"), "write run.grads"),
    **dict.fromkeys(("value", "result", "data", "item"), "write run.output"),
    "backward": "it has run backward already; write run.grads",
    **dict.fromkeys(("plot", "draw", "show", "svg"), "write run.to_svg() or run.explore"),
}
NODE_HABITS: dict[str, str] = {
    "gradient": "write node.grad",
    "data": "write node.value",
    **dict.fromkeys(("inputs", "parents", "children"), "write node.wires"),
    "explain": "write run.explain(node.name)",
}
GRADIENT_HABITS: dict[str, str] = {
    **dict.fromkeys(("grad", "gradient", "backward"), "write fast.value_and_grad(x)"),
    **dict.fromkeys(("jac", "jacfwd", "jacrev"), "write fast.jacobian(x)"),
    "hess": "write fast.hessian(x)",
    "batch_grad": "write fast.batch_value_and_grad",
    **dict.fromkeys(("forward", "eval", "run"), "write fast(x)"),
}
"""What to write instead of names that people expect on compiled circuits and functions."""
COMPILED_FUNCTION_HABITS: dict[str, str] = {
    "circuit": "write wg.trace(f, x)",
    "lower": "write print(wg.trace(f, x))",
    **{name: f"write wg.{name}" for name in ("hvp", "jvp", "vjp", "vmap")},
    **GRADIENT_HABITS,
}


class MissingName:
    """A name that a class does not have: reading it raises an error that says what to write instead.

    It is a descriptor, not a case of a `__getattr__`, which would slow every other attribute down.
    """

    __slots__ = ("message", "name")

    def __init__(self, name: str, message: str) -> None:
        self.name = name
        self.message = message

    def __get__(self, thing: object, owner: type) -> Never:
        # With a name and no object, Python appends no suggestion of its own.
        raise UnknownAttributeError(self.message, name=self.name)


def _list_present_names(thing: object) -> list[str]:
    found: dict[str, object] = {}
    for base in reversed(type(thing).__mro__):
        found |= vars(base)
    return [name for name in object.__dir__(thing) if not isinstance(found.get(name), MissingName)]


def add_missing_names(cls: type, description: str, hints: Mapping[str, str]) -> None:
    """Let a class answer names that it does not have with hints; `dir` leaves them out."""
    for name in hints.keys() - dir(cls):
        setattr(cls, name, MissingName(name, f"{description} has no {name!r}: {hints[name]}"))
    cls.__dir__ = _list_present_names  # type: ignore[method-assign, assignment]


def list_public_names(cls: type) -> frozenset[str]:
    """Return the public names of a class and its bases that have a docstring."""
    names = [name for base in cls.__mro__ for name, thing in vars(base).items() if getattr(thing, "__doc__", None)]
    return frozenset(name for name in names if not name.startswith("_"))


def lead_to(names: Iterable[str], owner: str) -> dict[str, str]:
    """Return hints that lead names to the object that has them.

    >>> lead_to(["to_c"], "run.circuit")
    {'to_c': 'write run.circuit.to_c'}
    """
    return {name: f"write {owner}.{name}" for name in names}


def describe_submodule_name(name: str, modules: Mapping[str, Iterable[str]]) -> str:
    """Return `: write ...` for a name that a module of wiregrad has, in small or capital letters; else nothing.

    >>> describe_submodule_name("adam", {"optim": ["Adam", "SGD"]}), describe_submodule_name("tan", {})
    (': write wg.optim.Adam', '')
    """
    for module, names in modules.items():
        same = [each for each in names if each.lower() == name.lower()]
        if same:
            return f": write wg.{module}.{same[0]}"
    return ""
