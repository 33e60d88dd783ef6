"""What users import: the one place that joins front ends, passes, a backend and the questions about a run.

Start with `circuits`: the public classes `Circuit`, `Run` and `Builder`, loaded with the package. `values`
(define-by-run, transforms, tracing) and `asking` (blame, checks of gradients, the flight recorder) are loaded on first
use.
"""

from wiregrad.api.circuits import Builder, Circuit, Run, circuit, diff, load

__all__ = ["Builder", "Circuit", "Run", "circuit", "diff", "load"]
