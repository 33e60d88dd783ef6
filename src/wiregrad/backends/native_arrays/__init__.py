"""Native code for circuits on arrays: a stream of instructions over one workspace.

Start with `array_program`: its `ArrayEngine` is what a compiled circuit and a replay call. A circuit goes through these
modules in order:

- `lowering`: the circuit as steps. Elementwise ops of one stage and shape become one loop, with the reductions that
  read them; matrix products, table copies and calls of the interpreter are steps of their own. Their operands are
  arrays as offset and strides over a storage, through which ops that move elements look.
- `loop_kernels`: the loops as LLVM text, one kernel per structure, whatever the sizes.
- `stream_kernels`: the loop that runs the stream, and the kernels that every circuit shares, BLAS among them.
- `array_program`: plans the workspace, compiles kernels, writes the instructions, and runs them; engines. Circuits on
  very small arrays are expanded to scalars here instead.

`backends.compiled` and `backends.replay_engines` make engines from `array_program`. Whatever cannot be compiled raises
`NotNativeError`, and the interpreter runs it.
"""
