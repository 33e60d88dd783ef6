"""Recording: Python and NumPy code that runs on values and is written down while it runs.

Read `value` first (what users hold), then `record` (an op applied to values becomes a node) and `tape` (how nodes are
stored and swept backward, and whether the recorder in C, `recorder/`, or the one in Python stores numbers). The rest,
from the bottom up:

- `arguments`: nested containers as flat lists of leaves, arrays as read-only copies.
- `user_code`: which line, call and loop step of the user's code is running, and what it does with a condition.
- `trace_notes`: what a tape has beside its rows: names and lines of nodes (`TraceNotes`), and what decides whether the
  recording may be replayed (`ReplayGuard`).
- `hints`: messages for habits of other libraries, for functions without a rule, and for lines that cannot be recorded.
- `scalar`, `dispatch`: the operators and methods of values, made from the op table; methods that are written in another
  way, and `x.at[i].set(v)`.
- `filled_value`: `out = np.zeros(n); out[i] = v`, and recorded arrays that are changed in place.
- `library_hooks`: how NumPy's constructors and SciPy's functions, which do not ask their arguments, see values.
- `session`: one function recorded at one point, and the sweeps from its results to its arguments; `anomaly`, which
  stops at the first number that is not finite.
- `transformed_function`: what transforms return, a function that is pickled as the call that made it.
- `trace`: a function, or a value, as a circuit, with its groups and the names of its wires.
- `custom_ops`: ops that users define, `wg.Function` and `wg.op`.

Other rooms may use the public names of `value`, `record`, `session`, `trace`, `arguments`, `transformed_function` and
`custom_ops`, `describe_module_name` of `hints`, and of `tape` only `STATE`, which knows what is being recorded in this
thread, and `WATCHES`. The other modules are for this room. Nothing is imported here, so that each module loads only
what it needs.
"""
