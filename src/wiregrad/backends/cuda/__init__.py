"""Circuits of scalars on an NVIDIA GPU: one thread computes one point of a batch.

Start with `batches`: `CudaCompiled` is what `circuit.compile(device="cuda")` returns. A circuit goes through these
modules in order:

- `kernels`: the steps of a native program as LLVM text for one thread, with functions of math.h that need no library,
  and PTX, which llvmlite makes of it. No CUDA toolkit is needed.
- `batches`: the functions of NVIDIA's driver that load PTX, copy arrays and start kernels; points on the host, in
  chunks whose copies and computations overlap, or on the device, where they are read in place.

Other rooms call `batches.CudaCompiled` and `batches.run_columns`. Where there is no driver or no GPU, `DeviceError`
says what was looked for.
"""
