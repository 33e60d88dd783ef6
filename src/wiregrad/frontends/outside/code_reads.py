"""What the code of a function can read besides its arguments: names of globals, attributes and imported modules.

The names are found in the bytecode, nested functions included. An attribute that directly follows a variable (`np.sin`)
is stored as a pair, so that of a module only the attributes read from it count. A variable that is used in any other
way (`getattr(np, name)`, `xp = np`) *escapes*, and then every name in the code counts.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

GLOBAL_READ_OPCODES = frozenset(["LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"])
GLOBAL_WRITE_OPCODES = frozenset(["STORE_GLOBAL", "DELETE_GLOBAL"])
ATTRIBUTE_READ_OPCODES = frozenset(["LOAD_ATTR", "LOAD_METHOD"])
WRITE_OPCODES = GLOBAL_WRITE_OPCODES | {"STORE_ATTR", "DELETE_ATTR", "STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"}
MUTATING_NAMES = frozenset(
    "append appendleft extend extendleft insert add discard remove pop popleft popitem clear update setdefault reverse "
    "rotate sort fill put itemset copyto putmask place setattr delattr __setattr__ __setitem__ "
    "__delitem__ __init__ __iadd__ __ior__ setitem delitem iadd ior heappush heappop heapify heapreplace heappushpop "
    "insort insort_left insort_right put_along_axis fill_diagonal".split()
)
"""Methods and functions that change their arguments."""
IGNORED_OPCODES = frozenset(["CACHE", "EXTENDED_ARG", "PUSH_NULL", "NOP"])


@dataclass(frozen=True)
class CodeReads:
    """The names that a code object, and those nested in it, use."""

    global_names: tuple[str, ...]
    """Names looked up in the globals, then in the builtins; also globals that are assigned."""
    names: frozenset[str]
    """Every attribute name, and every string that could be one (`getattr(x, "scale")`, patterns of `match`)."""
    pairs: frozenset[tuple[str, str]]
    """A variable or attribute, and an attribute that is read directly from it."""
    escaping: frozenset[str]
    """Variables and attributes that are used in another way than reading an attribute; strings count as such a use."""
    imports: tuple[tuple[str, int], ...]
    """The modules that import statements name, with the number of leading dots."""
    makes_classes: bool
    """Whether there is a class statement."""
    stored: frozenset[str]
    """Attributes that are assigned."""
    mutates: bool
    """Whether the code may change more than local variables: globals, enclosing variables, attributes, elements."""


@lru_cache(4096)
def reads_of(code: CodeType) -> CodeReads:
    """Return what a code object reads.

    >>> import math
    >>> reads = reads_of((lambda x: math.pi * abs(x)).__code__)
    >>> reads.global_names, ("math", "pi") in reads.pairs, "math" in reads.escaping
    (('abs', 'math'), True, False)
    """
    collector = _ReadCollector()
    for inner in nested_codes(code):
        collector.add_code(inner)
    return collector.collect_reads()


class _ReadCollector:
    """Collects the names in code objects, instruction by instruction."""

    def __init__(self) -> None:
        self.global_names = set[str]()
        self.names = set[str]()
        self.pairs = set[tuple[str, str]]()
        self.escaping = set[str]()
        self.imports: list[tuple[str, int]] = []
        self.stored = set[str]()
        self.makes_classes = False
        self.mutates = False

    def add_code(self, code: CodeType) -> None:
        """Add the names in one code object."""
        texts = set(names_in(code.co_consts))
        self.names.update(code.co_names, texts)
        self.escaping.update(texts)
        steps = [step for step in dis.get_instructions(code) if step.opname not in IGNORED_OPCODES]
        for index, step in enumerate(steps):
            self._add_instruction(steps, index)
            self._add_loads(step, steps[index + 1] if index + 1 < len(steps) else None)
            self.mutates = self.mutates or _writes_around(step, code)

    def _add_instruction(self, steps: list[dis.Instruction], index: int) -> None:
        """Add the globals, imports and writes of an instruction."""
        step = steps[index]
        if step.opname in GLOBAL_READ_OPCODES or step.opname in GLOBAL_WRITE_OPCODES:
            self.global_names.add(step.argval)
        if step.opname == "IMPORT_NAME":
            self.imports.append((step.argval, _import_level(steps, index)))
        elif step.opname == "IMPORT_FROM":
            self.escaping.add(step.argval)
        elif step.opname == "STORE_ATTR":
            self.stored.add(step.argval)
        self.makes_classes = self.makes_classes or step.opname == "LOAD_BUILD_CLASS"
        self.mutates = self.mutates or step.opname in WRITE_OPCODES or _is_in_place(step)

    def _add_loads(self, step: dis.Instruction, following: dis.Instruction | None) -> None:
        """Add the variables that an instruction loads; they escape unless the next one reads an attribute."""
        *others, last = _loaded_names(step)
        self.escaping.update(others)
        if last == "__class__":
            # A variable that methods have for `super()`; code that names it gets the class.
            self.names.add(last)
        if following is not None and following.opname in ATTRIBUTE_READ_OPCODES:
            self.pairs.add((last, _attribute_name(following)))
        else:
            self.escaping.add(last)

    def collect_reads(self) -> CodeReads:
        """Return everything that was collected."""
        return CodeReads(
            tuple(sorted(self.global_names)),
            frozenset(self.names),
            frozenset(self.pairs),
            frozenset(self.escaping - {""}),
            tuple(self.imports),
            self.makes_classes,
            frozenset(self.stored),
            self.mutates or not MUTATING_NAMES.isdisjoint(self.names),
        )


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """Return a code object and all code objects nested in it."""
    stack = [code]
    while stack:
        code = stack.pop()
        yield code
        stack += [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _is_in_place(step: dis.Instruction) -> bool:
    """Return whether an instruction is one of `+=`, `|=` and the like."""
    return step.opname == "BINARY_OP" and step.argrepr.endswith("=")


def _writes_around(step: dis.Instruction, code: CodeType) -> bool:
    """Return whether an instruction assigns to a variable of an enclosing function."""
    return step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval in code.co_freevars


def _loaded_names(step: dis.Instruction) -> list[str]:
    """Return the variables or the attribute that an instruction loads; the one on top of the stack is last."""
    if step.opname in ATTRIBUTE_READ_OPCODES:
        return [_attribute_name(step)]
    if step.opname.startswith("LOAD_") and step.opname != "LOAD_CONST":
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        return [str(name) for name in names]
    return [""]


def _attribute_name(step: dis.Instruction) -> str:
    return str(step.argval)


def _import_level(steps: list[dis.Instruction], index: int) -> int:
    """Return the number of leading dots of an import statement; -1 if unknown."""
    level = steps[index - 2].argval if index >= 2 else None
    return level if type(level) is int else -1


def names_in(constants: Iterable[Any]) -> Iterator[str]:
    """Return the attribute names that strings among constants may contain.

    >>> sorted(names_in(["scale", ("x", "not a name"), "{0.unit}"]))
    ['scale', 'unit', 'x']
    """
    stack = list(constants)
    while stack:
        constant = stack.pop()
        if type(constant) is str:
            if constant.isidentifier():
                yield constant
            elif "{" in constant or "." in constant:
                # `format` reads attributes by texts such as "{0.scale}", `attrgetter` by "model.scale".
                yield from re.findall(r"[^\W\d]\w*", constant)
        elif type(constant) is tuple or type(constant) is frozenset:
            stack += constant
