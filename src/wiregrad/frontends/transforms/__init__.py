"""Transforms: functions that take a function and return another one, with JAX's names and signatures.

Read `derivatives.grad` first: it records its function on a `RecordingSession` and sweeps the recording, as each
transform does.

- `derivatives`: `grad`, `value_and_grad`, `vjp`, `jvp`, `hvp`, `jacobian`, `hessian` and `stop_gradient`.
- `vmap_and_checkpoint`: the two that change how a function runs, not what it computes.
- `memory_plans`: the gradient of a chain of steps within a budget of bytes.
- `sparse`: Jacobians and Hessians as sparse matrices, with a reason for each entry.
- `fitting`: least squares, Newton's method and L-BFGS, with a report of how they ended.
- `implicit`: solutions of equations, whose derivatives come from the equation.
- `break_points`: places at which a function changes the side of a condition, by which integrals are divided.
- `ode`: solutions of differential equations, and `ode_steps`, which takes the steps.

Other rooms may call every public function of these modules. Nothing is imported here.
"""
