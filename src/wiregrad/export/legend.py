"""The legend of a picture: the colour scale with its limit, and the signs for what is no number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wiregrad.export.boxes import Picture
from wiregrad.export.figure import SMALL, Rect, is_detailed, pretty
from wiregrad.export.letters import MINUS, width
from wiregrad.export.markup import box, line, words
from wiregrad.export.palette import MIXED, NEGATIVE, NONFINITE, POSITIVE, STEPS, ZERO, Scale
from wiregrad.export.reading import Reading, State, read

SWATCH = 13
GAP = 22
SIGNS = {State.NONFINITE: (f"s-{NONFINITE}", "NaN or Inf"), State.BLOCKED: ("blocked", ""), State.ABSENT: ("plain", "")}
"""For each state other than a number: the class of its line, and its text if that is not the name of the state."""


class Legend:
    """Writes the legend: scales and signs from left to right, sentences below; `width` and `height` are its size."""

    def __init__(self, picture: Picture, scale: Scale, tones: set[str]) -> None:
        self.picture = picture
        self.scale = scale
        self.tones = tones
        self.x = self.width = 0
        self.height = 16

    def parts(self, labelled: bool) -> Iterator[str]:
        """Return the parts that the picture needs: scale, norms, signs, and what the labels on wires mean."""
        signs = {tone[0] for tone in self.tones}
        readings = [*_readings(self.picture)]
        if signs & {POSITIVE, NEGATIVE}:
            yield from self._signed()
        if MIXED in signs:
            has_both_signs = any(r.shape and not r.signed for r in readings)
            title = "norm, both signs" if has_both_signs else "norm"
            yield from self._row(title, [f"{MIXED}{k}" for k in range(1, STEPS + 1)], pretty(self._limit()))
        states = {reading.state for reading in readings}
        for state, (css, text) in SIGNS.items():
            if state in states:
                yield from self._sign(css, text or state.value)
        self.width = max(self.width, self.x - GAP)
        if any(r.shape and "‖" in r.text for r in readings):
            yield from self._line(f"‖ ‖: norm of an array; + or {MINUS} where none of its numbers has the other sign")
        if labelled and is_detailed(self.picture):
            yield from self._line("on a wire: ∂ local derivative above, gradient sent back below")
        elif labelled:
            yield from self._line(
                "on a wire: ∂ local derivative (left out: 1, and those of arrays), below it the gradient sent back "
                "where a value branches"
            )

    def _limit(self) -> str:
        return read(self.scale.limit, 3).text

    def _signed(self) -> Iterator[str]:
        """Return the scale from the strongest negative to the strongest positive tone, marked if it clips."""
        down = [f"{NEGATIVE}{k}" for k in range(STEPS, 0, -1)]
        up = [f"{POSITIVE}{k}" for k in range(1, STEPS + 1)]
        limit = pretty(self._limit())
        clips = any(r.state is State.NUMBER and self.scale.clips(r.size) for r in _readings(self.picture))
        below, above = ("≤ ", "≥ ") if clips else ("", "")
        yield from self._row(f"gradient  {below}{MINUS}{limit}", [*down, ZERO, *up], f"{above}+{limit}")

    def _row(self, before: str, tones: Sequence[str], behind: str) -> Iterator[str]:
        yield words(before, self.x, 12, "small")
        self.x += width(before, SMALL) + 6
        for tone in tones:
            self.tones.add(tone)
            yield box(Rect(self.x, 3, SWATCH - 1, 11), f"swatch s-{tone}", 2)
            self.x += SWATCH
        yield words(behind, self.x + 5, 12, "small")
        self.x += 5 + width(behind, SMALL) + GAP

    def _sign(self, css: str, text: str) -> Iterator[str]:
        yield line(f"M{self.x} 8h24", css, 3.2 if css.startswith("s-") else 1.4)
        if css.startswith("s-"):
            self.tones.add(css[2:])
            yield line(f"M{self.x} 8h24", "stripe", 1.6)
        yield words(text, self.x + 30, 12, "small")
        self.x += 30 + width(text, SMALL) + GAP

    def _line(self, text: str) -> Iterator[str]:
        self.width = max(self.width, width(text, SMALL))
        self.height += 15
        yield words(text, 0, self.height - 1, "small")


def _readings(picture: Picture) -> Iterator[Reading]:
    for box_ in picture.boxes:
        yield from (r for r in (box_.grad,) if r is not None)
        if box_.bad:
            yield Reading("", state=State.NONFINITE)
    yield from (link.sent for link in picture.links if link.sent is not None)
