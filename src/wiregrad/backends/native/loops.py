"""Writes loops over arrays as LLVM text, for the few passes that NumPy has no operation for and Python is slow at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class LlvmLoopWriter:
    """Writes loops; scalars are 64-bit integers, arrays may hold narrower ones."""

    def __init__(self, widths: dict[str, str]) -> None:
        self.lines: list[str] = []
        self.widths = widths
        self.count = 0

    def emit_value(self, instruction: str) -> str:
        """Write an instruction and return its value."""
        self.count += 1
        self.lines.append(f"  %v{self.count} = {instruction}")
        return f"%v{self.count}"

    def new_label(self) -> str:
        """Return a new label."""
        self.count += 1
        return f"l{self.count}"

    def load_entry(self, array: str, index: str) -> str:
        """Write the load of an array entry and return its value."""
        kind = self.widths[array]
        value = self.emit_value(f"load {kind}, ptr {self._entry_pointer(array, index)}")
        extend = "sext" if kind == "i32" else "zext"
        return self.emit_value(f"{extend} {kind} {value} to i64")

    def store_entry(self, array: str, index: str, value: str) -> None:
        """Write the store of an array entry."""
        kind = self.widths[array]
        narrow = self.emit_value(f"trunc i64 {value} to {kind}")
        self.lines.append(f"  store {kind} {narrow}, ptr {self._entry_pointer(array, index)}")

    def copy_entry(self, array: str, index: str, source: str, other: str) -> None:
        """Write the copy of an entry of one array into another."""
        kind = self.widths[array]
        value = self.emit_value(f"load {kind}, ptr {self._entry_pointer(source, other)}")
        self.emit_line(f"store {kind} {value}, ptr {self._entry_pointer(array, index)}")

    def write_minimum(self, one: str, two: str) -> str:
        """Write the minimum of two numbers."""
        return self.emit_value(f"select i1 {self.emit_value(f'icmp slt i64 {one}, {two}')}, i64 {one}, i64 {two}")

    def emit_line(self, line: str) -> None:
        """Write an instruction that has no value."""
        self.lines.append(f"  {line}")

    def _entry_pointer(self, array: str, index: str) -> str:
        return self.emit_value(f"getelementptr {self.widths[array]}, ptr %{array}, i64 {index}")

    def load_variable(self, variable: str) -> str:
        """Write the load of a variable."""
        return self.emit_value(f"load i64, ptr %{variable}")

    def store_variable(self, variable: str, value: str) -> None:
        """Write the store of a variable."""
        self.lines.append(f"  store i64 {value}, ptr %{variable}")

    def write_binary(self, name: str, one: str, two: str) -> str:
        """Write an arithmetic or bitwise instruction on two numbers."""
        return self.emit_value(f"{name} i64 {one}, {two}")

    def write_comparison(self, name: str, one: str, two: str) -> str:
        """Write a comparison; its value is 1 or 0."""
        return self.emit_value(f"zext i1 {self.emit_value(f'icmp {name} i64 {one}, {two}')} to i64")

    @contextmanager
    def loop_over(self, first: str, end: str, *, down: bool = False) -> Iterator[str]:
        """Write a loop that counts from first to end - 1, or with `down` back from there; yields the index."""
        head, body, after, done = (self.new_label() for _ in range(4))
        steps = self.write_binary("sub", end, first)
        before = self.new_label()
        self.lines += [f"  br label %{before}", f"{before}:", f"  br label %{head}", f"{head}:"]
        k = self.emit_value(f"phi i64 [ 0, %{before} ], [ %next{after}, %{after} ]")
        self.lines += [f"  br i1 {self.emit_value(f'icmp slt i64 {k}, {steps}')}, label %{body}, label %{done}", f"{body}:"]
        yield self.write_binary("sub", self.write_binary("sub", end, "1"), k) if down else self.write_binary("add", first, k)
        self.lines += [f"  br label %{after}", f"{after}:", f"  %next{after} = add i64 {k}, 1", f"  br label %{head}"]
        self.lines.append(f"{done}:")

    @contextmanager
    def loop_over_tiles(self, first: str, last: str, size: int) -> Iterator[tuple[str, str]]:
        """Write a loop over tiles from first to last; yields where each tile begins and how many entries it has."""
        count = self.write_binary("sub", last, first)
        with self.loop_over("0", self.write_binary("udiv", self.write_binary("add", count, str(size - 1)), str(size))) as k:
            start = self.write_binary("add", first, self.write_binary("mul", k, str(size)))
            yield start, self.write_minimum(self.write_binary("sub", last, start), str(size))

    @contextmanager
    def when_all(self, *truths: str) -> Iterator[None]:
        """Write a block that runs if all of these numbers are nonzero."""
        held = truths[0]
        for truth in truths[1:]:
            held = self.write_binary("and", self.write_comparison("ne", held, "0"), self.write_comparison("ne", truth, "0"))
        yes = self.new_label()
        done = self.new_label()
        self.lines += [f"  br i1 {self.emit_value(f'icmp ne i64 {held}, 0')}, label %{yes}, label %{done}", f"{yes}:"]
        yield
        self.lines += [f"  br label %{done}", f"{done}:"]
