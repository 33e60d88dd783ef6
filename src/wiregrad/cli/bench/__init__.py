"""What `wiregrad bench` measures: native code beside the interpreter, plain Python, C and LLVM, on the same circuits.

Read `suite` first: it holds the parts of the command, the targets and the tables. `race` lets entrants take turns once
their answers agree, `entrants` are those that need no other framework, and `workloads` makes the circuits. The
repository's `benchmarks` add the entrants of other frameworks, which are not installed with wiregrad.
"""
