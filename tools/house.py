"""Measure how the package is built: rooms, imports, names, lengths, types. `make house` prints it.

python tools/house.py [PACKAGE FOLDER]
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "wiregrad"
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Module:
    """One file of the package, and what it imports of the package."""

    name: str
    lines: int
    tree: ast.Module
    imports: set[str] = field(default_factory=set)


def read_modules(folder: Path) -> dict[str, Module]:
    """Return the modules of a package by their dotted names, imports inside functions included."""
    modules: dict[str, Module] = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        modules[name] = Module(name, text.count("\n"), ast.parse(text))
    for module in modules.values():
        module.imports = {found for found in find_imports(module.tree, modules) if found != module.name}
    return modules


def find_imports(tree: ast.Module, modules: Iterable[str]) -> Iterator[str]:
    """Return the modules of the package that a module imports, also inside its functions."""
    known = set(modules)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known or node.module in known:
                    yield inner if inner in known else node.module


def find_largest_ring(modules: dict[str, Module]) -> list[str]:
    """Return the largest set of modules that import each other, by Tarjan's method; one module is no ring."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    largest: list[str] = []
    for root, module in modules.items():
        work = [(root, iter(sorted(module.imports)))] if root not in order else []
        if work:
            order[root] = low[root] = len(order)
            stack.append(root)
        while work:
            name, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == order[name]:
                    start = stack.index(name)
                    ring, stack[start:] = stack[start:], []
                    largest = ring if len(ring) > max(len(largest), 1) else largest
            elif following not in order:
                order[following] = low[following] = len(order)
                stack.append(following)
                work.append((following, iter(sorted(modules[following].imports))))
            elif following in stack:
                low[name] = min(low[name], order[following])
    return sorted(largest)


def find_functions(modules: Iterable[Module]) -> list[FunctionNode]:
    """Return every function and method, but for those that Python names itself (`__add__`)."""
    return [
        node
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, FunctionNode) and not (node.name.startswith("__") and node.name.endswith("__"))
    ]


def is_one_word(name: str) -> bool:
    """Return whether a name consists of one word.

    >>> is_one_word("_told"), is_one_word("collect_answers")
    (True, False)
    """
    return "_" not in name.strip("_")


def repeated_classes(modules: Iterable[Module]) -> dict[str, int]:
    """Return the public names of classes that more than one module defines."""
    names = Counter(
        node.name
        for module in modules
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return {name: count for name, count in names.most_common() if count > 1}


def modules_with_one_importer(modules: dict[str, Module]) -> list[str]:
    """Return the modules that exactly one other module imports."""
    importers = Counter(name for module in modules.values() for name in module.imports)
    return sorted(name for name, count in importers.items() if count == 1)


def share_of_any(modules: Iterable[Module]) -> float:
    """Return which part of the annotations of parameters and results is plain `Any`."""
    annotations = [
        annotation
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, FunctionNode)
        for annotation in (node.returns, *(argument.annotation for argument in every_argument(node)))
        if annotation is not None
    ]
    return sum(isinstance(one, ast.Name) and one.id == "Any" for one in annotations) / max(len(annotations), 1)


def every_argument(node: FunctionNode) -> list[ast.arg]:
    """Return the parameters of a function of all kinds."""
    arguments = node.args
    starred = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *starred]


def room_of(name: str) -> str:
    """Return the room of a module: the first folder below the package."""
    parts = name.split(".")
    return parts[1] if len(parts) > 2 else "(top)"


def report(folder: Path) -> str:
    """Return all measurements as text."""
    modules = read_modules(folder)
    rooms: dict[str, list[Module]] = defaultdict(list)
    for module in modules.values():
        is_room = any(name.startswith(f"{module.name}.") for name in modules)
        rooms[room_of(f"{module.name}.__init__" if is_room else module.name)].append(module)
    functions = find_functions(modules.values())
    lengths = sorted((node.end_lineno or node.lineno) - node.lineno + 1 for node in functions)
    one_word = sum(is_one_word(node.name) for node in functions)
    ring, repeated, single = (
        find_largest_ring(modules),
        repeated_classes(modules.values()),
        modules_with_one_importer(modules),
    )
    outside_ops = [module for module in modules.values() if room_of(module.name) != "ops"]
    lines = [
        f"{room:12} {len(held):4} modules {sum(m.lines for m in held):7,} lines" for room, held in sorted(rooms.items())
    ]
    lines += [
        f"{'in all':12} {len(modules):4} modules {sum(m.lines for m in modules.values()):7,} lines",
        "",
        f"largest ring of imports, hidden ones included: {len(ring)} modules {' '.join(ring)}".rstrip(),
        f"functions with one-word names: {one_word / len(functions):.0%} of {len(functions):,}",
        f"public classes defined more than once: {len(repeated)} {' '.join(repeated)}".rstrip(),
        f"modules with one importer: {len(single)}",
        f"lines of a function: median {lengths[len(lengths) // 2]}, 90th percentile {lengths[len(lengths) * 9 // 10]}, "
        f"longest {lengths[-1]}",
        f"annotations that are Any: {share_of_any(modules.values()):.1%}; outside ops {share_of_any(outside_ops):.1%}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(report(Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE) + "\n")
