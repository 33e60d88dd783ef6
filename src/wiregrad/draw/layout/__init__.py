"""What a picture of a circuit contains and where everything is, in pixels or in characters; nothing is drawn here.

The page of the explorer lays out pictures the same way: `web/src/layout` mirrors this folder, and a golden file
checks that both compute the same numbers. In the order of the stages:

- `boxes`: the boxes and wires of a picture, and splitters; the text on them: escaped, measured and clipped, values as
  short text, the signs and captions of ops.
- `picture`: builds the picture of a circuit and a run, and decides which nodes share a box when there are too many to
  draw each of them. Start here, at `build_picture`.
- `board`: ranks, bands, and bends of wires: the state that the layout works on.
- `placement`: the passes of the layered layout, from the order within ranks to the routes of wires.
- `figure`: every length in pixels by detail level (`Sizes`), the size of every box, the room on wires, frames around
  groups, and where numbers, captions and local derivatives are.

Other rooms may call `build_picture`, `place_picture`, `compute_layout` and the text helpers of `boxes`.
"""
