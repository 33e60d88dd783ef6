"""What users import: the one place that joins front ends, passes, a backend and the questions a person asks.

Start with `circuits.py`: the public classes `Circuit`, `Run` and `Builder`, loaded with the package. `values.py`
(define-by-run, transforms, tracing), `compiled_function.py` (`wg.compile`) and `diagnostics.py` (blame, checks of
gradients, the flight recorder) are loaded on first use.
"""

from wiregrad.api.circuits import Builder, Circuit, ImportedCircuit, Run, circuit, diff, load

__all__ = ["Builder", "Circuit", "ImportedCircuit", "Run", "circuit", "diff", "load"]
