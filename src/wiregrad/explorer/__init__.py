"""The explorer: a page that draws a circuit and lets a person step through it and change its inputs.

The page is written as one HTML file, served on this machine, or shown in a notebook. Python hands it JSON, which holds
what was asked for and nothing else of the user's machine. Read `page_data` first: it builds that JSON, holds the
circuit that a page shows, runs it again, and writes the single file.

- `json_encoding` encodes numbers, arrays, nodes and wires.
- `circuit_views` answers questions about circuits that are too large to send whole, with pictures of parts of them;
  `group_board` lays out their groups, and `find_language` searches them.
- `local_server` decides which requests may pass (`RequestGuard`) and answers them; it starts and stops. It also has
  the page of a training.
- `widget` shows the page in a notebook.

Other rooms call `page_data.to_html`, `local_server.open_explorer` with a `page_data.ExplorerSession`, and `widget`. The
page itself is built from `web/` into `static/`.
"""
