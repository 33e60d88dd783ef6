"""Cases, and one language run on many of them at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from wiregrad.backends.listings import RunnableLanguage, ListingError, RunnableListing, load_listing_function
from wiregrad.codegen import write_listing
from wiregrad.dtypes import FLOAT
from wiregrad.errors import WiregradError
from wiregrad.inspect.receipt.answer import LanguageRun
from wiregrad.inspect.receipt.judge import ReceiptPoint
from wiregrad.ir import CircuitGraph

_C_REAL_TYPES = {"float64": "double", "float32": "float"}
ResultRows = list[list[Any]]
"""For every point the value and the gradients."""


@dataclass(frozen=True)
class ListingCase:
    """A circuit of one output and the points at which it is tried."""

    circuit: CircuitGraph
    points: Sequence[ReceiptPoint]

    @cached_property
    def c_real_type(self) -> str:
        """The C type of all inputs and the output, double or float; empty if they differ."""
        nodes = [*self.circuit.input_indices(), self.circuit.root()]
        names = {_C_REAL_TYPES.get(self.circuit.type_of(node).dtype.name, "") for node in nodes}
        return names.pop() if len(names) == 1 else ""

    @cached_property
    def is_plain_double(self) -> bool:
        """Whether all inputs and the output are numbers in double precision."""
        nodes = [*self.circuit.input_indices(), self.circuit.root()]
        return all(self.circuit.type_of(node) == FLOAT for node in nodes)

    @cached_property
    def takes_batches(self) -> bool:
        """Whether a NumPy listing can take all points at once: every wire carries one number."""
        return self.is_plain_double and not any(kind.shape for kind in self.circuit.columns.type_table)

    def shape_results(self, row: Any) -> list[Any]:
        """Split a flat row of results into the value and the gradients, with their shapes."""
        shapes = [self.circuit.type_of(node).shape for node in self.circuit.input_indices()]
        ends = np.cumsum([1, *map(math.prod, shapes)]).tolist()
        parts = [row[start:stop] for start, stop in pairwise(ends)]
        return [row[0], *(part.reshape(shape)[()] for part, shape in zip(parts, shapes, strict=True))]

    @property
    def listing_kind(self) -> str:
        """The function to write: only a scalar output with inputs has gradients."""
        alone = self.circuit.type_of(self.circuit.root()).shape or not self.circuit.inputs
        return "value" if alone else "value_and_grad"


@dataclass(frozen=True)
class LanguageTrial:
    """The results of a language: rows for each case, or None if it did not run."""

    language: str
    version: str
    rows: Sequence[ResultRows | None]
    refused: Sequence[str]
    """Why each case did not run; empty where it did."""
    problems: tuple[str, ...] = ()

    def summarize_run(self, whole: int) -> LanguageRun:
        """Summarize the first `whole` cases, those of the whole circuit."""
        return LanguageRun(self.language, self.version, next(filter(None, self.refused[:whole]), ""))


def run_language(language: RunnableLanguage, cases: Sequence[ListingCase]) -> LanguageTrial:
    """Write, compile and run all cases in one language."""
    tool = language.tool()
    if tool is None:
        return LanguageTrial(language.name, "", [None] * len(cases), [language.advice] * len(cases))
    programs = list[RunnableListing | None]()
    refused = list[str]()
    for k, case in enumerate(cases):
        try:
            programs.append(build_program(case, language.name, f"listing{k}"))
            refused.append("")
        except WiregradError as error:
            programs.append(None)
            refused.append(str(error).splitlines()[0])
    try:
        rows = _run_programs(language, cases, programs)
    except ListingError as error:
        message = f"{language.name}: {error}"
        return LanguageTrial(
            language.name, tool.version, [None] * len(cases), [message.splitlines()[0]] * len(cases), (message,)
        )
    return LanguageTrial(language.name, tool.version, rows, refused)


def build_program(case: ListingCase, language: str, name: str) -> RunnableListing:
    """Return a case as a program of a language."""
    circuit = case.circuit
    text = write_listing(circuit, language, case.listing_kind, name)
    if (
        not case.is_plain_double
        and language != "numpy"
        and (language != "c" or not case.c_real_type or circuit.type_of(circuit.root()).shape)
    ):
        raise WiregradError("only listings in NumPy are run on numbers of other types than double precision")
    sizes = tuple(math.prod(circuit.type_of(node).shape) for node in circuit.input_indices())
    return RunnableListing(text, name, circuit.inputs, circuit.outputs, case.listing_kind, sizes, case.c_real_type or "double")


def _run_programs(language: RunnableLanguage, cases: Sequence[ListingCase], programs: Sequence[RunnableListing | None]) -> list[ResultRows | None]:
    rows_by_case: list[ResultRows | None] = [None] * len(cases)
    flat = [k for k, program in enumerate(programs) if program and (cases[k].takes_batches or language.name != "numpy")]
    batch = [program for k in flat if (program := programs[k]) is not None]
    answers = language.run(batch, [_point_table(cases[k], program) for k, program in zip(flat, batch, strict=True)])
    for k, answer in zip(flat, answers, strict=True):
        rows_by_case[k] = [cases[k].shape_results(row) for row in answer]
    for k, program in enumerate(programs):
        if program is not None and rows_by_case[k] is None:
            rows_by_case[k] = _run_on_arrays(program, cases[k])
    return rows_by_case


def _point_table(case: ListingCase, program: RunnableListing) -> Any:
    """Return the points of a case as a table, one row per point."""
    rows = [np.concatenate([np.zeros(0), *map(np.ravel, point.inputs)]) for point in case.points]
    return np.array(rows, program.dtype).reshape(len(rows), program.input_count)


def _run_on_arrays(program: RunnableListing, case: ListingCase) -> ResultRows:
    """Run a NumPy listing on arrays, point by point."""
    call = load_listing_function(program)
    rows = list[list[Any]]()
    for point in case.points:
        try:
            with np.errstate(all="ignore"):
                answer = call(*point.inputs)
        except Exception as error:
            raise ListingError(f"the listing of {case.circuit.name} raised {type(error).__name__}: {error}") from error
        value, grads = (answer, {}) if case.listing_kind == "value" else answer
        rows.append([value, *grads.values()])
    return rows
