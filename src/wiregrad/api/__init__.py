"""The one place that joins front ends, passes, a backend and the questions a person asks.

`circuits` is loaded with the package; `values` (define-by-run, transforms, tracing) and `asking` (blame, checks, the
flight recorder) on first use.
"""

from wiregrad.api.circuits import Builder, Circuit, Run, circuit, diff, load

__all__ = ["Builder", "Circuit", "Run", "circuit", "diff", "load"]
