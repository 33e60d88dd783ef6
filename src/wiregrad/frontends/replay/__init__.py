"""Replay: what has to be known before a recorded function may be replayed instead of run (`wg.compile`).

Read `recorded_calls` first: what tells two calls apart (`CallSignature`), and a recording whose circuit also outputs
everything that steered Python (`certify`). `outside_state` finds everything the function reads besides its arguments
(`OutsideState`), `outside_watches` compares it before each call, and `outside_rules` lists what can be compared. The
room runs nothing itself: `api.compiled_function` and `backends.replay_engines` use it.
"""
