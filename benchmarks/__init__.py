"""Measurements behind every claim of speed: ratios within one run, never bare seconds.

python -m benchmarks                          # all of them
python -m benchmarks import_time              # some of them; import_time and chain need no other framework
python -m benchmarks everyday_programs        # complete programs in plain NumPy beside autograd
python -m benchmarks compiled_programs        # the same programs compiled, beside jax.jit
python -m benchmarks memory                   # what calls on arrays need, predicted, measured, and by JAX's account
python -m benchmarks sparse                   # a sparse Jacobian of bundle adjustment beside CasADi and JAX
python -m benchmarks native --quick           # native code beside other frameworks, at small sizes
python -m benchmarks native -o FILE.md        # what was found, as a page; or FILE.json
"""

import os

# BLAS reads these when NumPy is loaded, which the first module of this package does: one thread for everybody.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
