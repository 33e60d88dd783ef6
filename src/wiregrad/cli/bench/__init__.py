"""What `wiregrad bench` measures: native code beside the interpreter, plain Python, C and LLVM, on the same circuits.

Read `suite` first: it holds the parts of the command, the targets and the tables. `race` lets entrants take turns once
their answers agree, `entrants` are those that need no other framework, `workloads` makes the circuits, and
`straight_line` writes a circuit as C and LLVM text for a compiler to do its best with. The repository's `benchmarks`
add the entrants of other frameworks, which are not installed with wiregrad.
"""
