"""Transforms: functions that take a function and return another one, with JAX's names and signatures.

`derivatives` has `grad`, `value_and_grad`, `vjp`, `jvp`, `hvp`, `jacobian`, `hessian` and `stop_gradient`: read `grad`
first. `vmap_and_checkpoint` has the two that change how a function runs, not what it computes. Each transform records
its function on a `RecordingSession` and sweeps the recording. Other rooms may call every public function here.
"""
