"""Writes pictures in each format: SVG, DOT and Mermaid, characters for terminals, and what a notebook shows.

Each writer asks `layout.picture` what to draw; those of SVG and of characters also ask the layout for places, DOT and
Mermaid leave that to their own tools. Start reading at `svg.py`, function `to_svg`. `text.py` has everything else.
Other rooms call these functions through `wiregrad.draw` (`to_svg`, `to_dot`, `to_mermaid`, `to_unicode`,
`build_mimebundle`).
"""
