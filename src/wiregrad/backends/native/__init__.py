"""Native code for circuits of scalars, for one point at a time or for vectors of points.

Start with `tiers`: `build_program` turns a circuit into a `NativeProgram` and decides its tier. A circuit goes through
these modules in order:

- `program_steps`: the circuit as a list of forward and backward steps, and which slot of the working buffer, or which
  register, each value and gradient has while it is needed.
- `step_kinds`: the kinds of steps, and what each computes, as LLVM text; nodes of one kind share it.
- `StencilLibrary` of `tiers`: the first tier. LLVM compiles each kind of step once; a program is made of copies, end to
  end.
- `LlvmProgram` of `tiers`: the second tier. LLVM compiles all steps of one circuit together.
- `batch` runs a program on many points, with the threads of `helper_threads`; `builtin_calls` makes CPython builtins
  of it.

All LLVM text is written with `LlvmWriter` (`llvm_writer`), and compiled for this processor by `jit`, which keeps the
machine code in a folder for later processes (`code_cache`). `vector_math`
chooses the code behind each function of math.h, and has our own implementations of them.

`backends.compiled` and `backends.replay_engines` call `tiers.build_program` and `promote_when_hot`,
`batch.run_batch` and `batch.run_columns`, and the builtins and engines of `builtin_calls`. `wiregrad doctor` also reads
facts about the machine from `jit`, `code_cache`, `batch` and `vector_math`. Whatever cannot be compiled raises
`NotNativeError`, and the interpreter runs it.
"""
