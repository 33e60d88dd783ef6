"""Native code for circuits of scalars, for one point at a time or for vectors of points.

Start with `tiers`: `build_program` turns a circuit into a `NativeProgram` and decides its tier. A circuit goes through
these modules in order:

- `program_steps`: the circuit as a list of forward and backward steps; nodes of one kind share a step's code.
- `allocation`: which slot of the working buffer, or which register, each value and gradient has while it is needed.
- `stencils`: the machine code of each kind of step, compiled once by LLVM; the first tier copies stencils end to end.
- `llvm_tier`: the second tier, in which LLVM compiles all steps of one circuit together (`LlvmProgram`).
- `builtin_calls`: CPython builtins around a program, for compiled circuits and for replays; `batch` runs it on many
  points.

`llvm_writer` writes LLVM text, `jit` compiles it for this processor. `vector_math` chooses the code behind each
function of math.h, and `math_polynomials` holds our own implementations of them.
"""
