"""Replay: what has to be known before a recorded function may be replayed instead of run (`wg.compile`).

Read `recorded_calls` first: what tells two calls apart (`CallSignature`), and a recording whose circuit also outputs
everything that steered Python (`certify`). The two other modules are about what a function reads besides its arguments:

- `outside_state` finds all of it, starting from the function (`OutsideState`).
- `outside_watches` stores it and compares it before each call; it lists the kinds of objects that can be compared, and
  reads names from bytecode.

Other rooms may use `certify`, `CallSignature`, `OutsideState` and `plain_result`. Nothing is run here: recordings are
replayed by `backends.replay_engines`, and `api.compiled_function` decides when.
"""
