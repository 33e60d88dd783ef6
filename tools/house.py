"""Measure how the package is built: rooms, imports, names, lengths, types. `make house` prints it.

python tools/house.py [--list] [PACKAGE FOLDER]

With `--list`, the modules with one importer and the classes that are large are listed by name.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "wiregrad"
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
PUBLIC_CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
MAX_METHODS = 20
"""Maximum number of methods of a class that holds one idea."""
MAX_ATTRIBUTES = 12
"""Maximum number of attributes of a class that holds one idea."""


@dataclass
class Module:
    """One file of the package; it is parsed when something is asked that its text does not say."""

    name: str
    text: str
    known: Iterable[str]
    """The names of all modules of the package."""

    @property
    def lines(self) -> int:
        """The number of lines."""
        return self.text.count("\n")

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def imports(self) -> set[str]:
        """The modules of the package that it imports, also inside its functions.

        The tree is not kept: garbage collections that pass over the trees of all modules take longer than parsing.
        """
        return {name for name in find_imports(ast.parse(self.text), self.known) if name != self.name}


def read_modules(folder: Path) -> dict[str, Module]:
    """Return the modules of a package by their dotted names."""
    modules: dict[str, Module] = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = Module(name, path.read_text(encoding="utf-8"), modules.keys())
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
        if isinstance(node, FunctionNode) and not is_special_name(node.name)
    ]


def is_one_word(name: str) -> bool:
    """Return whether a name consists of one word.

    >>> is_one_word("_told"), is_one_word("collect_answers")
    (True, False)
    """
    return "_" not in name.strip("_")


def repeated_classes(modules: Iterable[Module]) -> dict[str, int]:
    """Return the public names of classes that more than one module defines."""
    names = Counter(name for module in modules for name in PUBLIC_CLASS.findall(module.text))
    return {name: count for name, count in names.most_common() if count > 1}


def modules_with_one_importer(modules: dict[str, Module]) -> dict[str, str]:
    """Return the modules that exactly one other module imports, each with that module."""
    importers: dict[str, list[str]] = defaultdict(list)
    for module in modules.values():
        for name in module.imports:
            importers[name].append(module.name)
    return {name: others[0] for name, others in sorted(importers.items()) if len(others) == 1}


@dataclass
class LargeClass:
    """A class with many methods or attributes."""

    module: str
    name: str
    methods: int
    attributes: int


def find_large_classes(modules: Iterable[Module]) -> list[LargeClass]:
    """Return the classes with more methods or attributes than one idea needs, largest first."""
    classes = [
        LargeClass(module.name, node.name, count_methods(node), len(find_attributes(node)))
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    ]
    large = [one for one in classes if one.methods > MAX_METHODS or one.attributes > MAX_ATTRIBUTES]
    return sorted(large, key=lambda one: (-one.methods, -one.attributes, one.name))


def count_methods(node: ast.ClassDef) -> int:
    """Return the number of methods and properties of a class, but for those that Python names itself.

    >>> count_methods(ast.parse("class A:\\n def f(self): ...\\n def __len__(self): ...").body[0])
    1
    """
    names = [item.name for item in node.body if isinstance(item, FunctionNode)]
    return sum(not is_special_name(name) for name in names)


def find_attributes(node: ast.ClassDef) -> set[str]:
    """Return the attributes of the instances of a class: annotated in its body, or assigned to `self`."""
    fields = {
        item.target.id for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }
    assigned = {
        inner.attr
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store)
        if isinstance(inner.value, ast.Name) and inner.value.id == "self"
    }
    return fields | assigned


def is_special_name(name: str) -> bool:
    """Return whether Python gives a name its meaning, as to `__add__`."""
    return name.startswith("__") and name.endswith("__")


def collect_annotations(modules: Iterable[Module]) -> list[ast.expr]:
    """Return the annotations of all parameters and results."""
    return [
        annotation
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, FunctionNode)
        for annotation in (node.returns, *(argument.annotation for argument in every_argument(node)))
        if annotation is not None
    ]


def share_of_any(modules: Iterable[Module]) -> float:
    """Return which part of the annotations of parameters and results is plain `Any`."""
    annotations = collect_annotations(modules)
    return sum(map(is_any, annotations)) / max(len(annotations), 1)


def is_any(annotation: ast.expr) -> bool:
    """Return whether an annotation is `Any` by itself."""
    return isinstance(annotation, ast.Name) and annotation.id == "Any"


def every_argument(node: FunctionNode) -> list[ast.arg]:
    """Return the parameters of a function of all kinds."""
    arguments = node.args
    starred = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *starred]


def room_of(name: str) -> str:
    """Return the room of a module: the first folder below the package."""
    parts = name.split(".")
    return parts[1] if len(parts) > 2 else "(top)"


def group_by_room(modules: dict[str, Module]) -> dict[str, list[Module]]:
    """Return the modules of each room; the `__init__` of a room belongs to it."""
    rooms: dict[str, list[Module]] = defaultdict(list)
    for module in modules.values():
        is_room = any(name.startswith(f"{module.name}.") for name in modules)
        rooms[room_of(f"{module.name}.__init__" if is_room else module.name)].append(module)
    return dict(sorted(rooms.items()))


def describe_rooms(rooms: dict[str, list[Module]]) -> list[str]:
    """Return a line per room, and one for the whole package."""
    everything = [module for members in rooms.values() for module in members]
    return [describe_room(room, members) for room, members in [*rooms.items(), ("in all", everything)]]


def describe_room(room: str, members: list[Module]) -> str:
    """Return the size of a room, and how many of its annotations are `Any`."""
    lines = sum(module.lines for module in members)
    annotations = collect_annotations(members)
    count = sum(map(is_any, annotations))
    return (
        f"{room:12} {len(members):4} modules {lines:7,} lines   Any {count:5,} of {len(annotations):6,} annotations, "
        f"{share_of_any(members):5.1%}"
    )


def describe_functions(modules: Iterable[Module]) -> list[str]:
    """Return what is measured of names and lengths of functions."""
    functions = find_functions(modules)
    lengths = sorted((node.end_lineno or node.lineno) - node.lineno + 1 for node in functions)
    one_word = sum(is_one_word(node.name) for node in functions)
    return [
        f"functions with one-word names: {one_word / len(functions):.0%} of {len(functions):,}",
        f"lines of a function: median {lengths[len(lengths) // 2]}, 90th percentile {lengths[len(lengths) * 9 // 10]}, "
        f"longest {lengths[-1]}",
    ]


def report(folder: Path, *, with_lists: bool = False) -> str:
    """Return all measurements as text, if wanted with the modules and classes that are counted."""
    modules = read_modules(folder)
    ring = find_largest_ring(modules)
    repeated = repeated_classes(modules.values())
    single = modules_with_one_importer(modules)
    large = find_large_classes(modules.values())
    outside_ops = [module for module in modules.values() if room_of(module.name) != "ops"]
    lines = [
        *describe_rooms(group_by_room(modules)),
        "",
        f"largest ring of imports, hidden ones included: {len(ring)} modules {' '.join(ring)}".rstrip(),
        *describe_functions(modules.values()),
        f"public classes defined more than once: {len(repeated)} {' '.join(repeated)}".rstrip(),
        f"modules with one importer: {len(single)}",
        f"classes with over {MAX_METHODS} methods or {MAX_ATTRIBUTES} attributes: {len(large)}",
        f"annotations that are Any: {share_of_any(modules.values()):.1%}; outside ops {share_of_any(outside_ops):.1%}",
    ]
    return "\n".join(lines + (list_details(single, large) if with_lists else []))


def list_details(single: dict[str, str], large: list[LargeClass]) -> list[str]:
    """Return the modules with one importer and the large classes, one per line."""
    width = max(map(len, single), default=0)
    return [
        "",
        "modules with one importer",
        *(f"  {name:{width}}  imported by {importer}" for name, importer in single.items()),
        "",
        "large classes",
        *(f"  {one.module}.{one.name}: {one.methods} methods, {one.attributes} attributes" for one in large),
    ]


def main() -> None:
    """Print the measurements of the package, or of the one in another folder."""
    parser = argparse.ArgumentParser(description="Measure how a package is built.")
    parser.add_argument("folder", nargs="?", type=Path, default=PACKAGE)
    parser.add_argument("--list", action="store_true", help="list the modules and classes that are counted")
    options = parser.parse_args()
    sys.stdout.write(report(options.folder, with_lists=options.list) + "\n")


if __name__ == "__main__":
    main()
