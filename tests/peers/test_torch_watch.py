"""Broken PyTorch programs are explained: the op, the module and the line are right."""

from __future__ import annotations

import pytest

from tests.peers.torch_programs.broken_programs import PROGRAMS
from tests.peers.torch_programs.registry import BrokenProgram


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_broken_program_is_explained(program: BrokenProgram) -> None:
    answer = program.ask(program.run())
    line = program.find_line("broken")
    second = program.find_line("second")

    assert (answer.op, answer.module) == (program.op, program.module)
    assert (None if answer.place is None else answer.place.line) == line
    assert second is None or answer.second.line == second
    for words in program.words:
        assert words in answer.said
