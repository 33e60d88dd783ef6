"""The legend of a picture: the colour scale with its limit, and the signs for what is no number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wiregrad.export.boxes import Picture
from wiregrad.export.figure import SMALL_FONT_SIZE, Rect, is_detailed, typeset_text
from wiregrad.export.letters import MINUS, measure_text
from wiregrad.export.markup import draw_rect, draw_line, write_words
from wiregrad.export.palette import MIXED_TONE, NEGATIVE_TONE, NONFINITE_TONE, POSITIVE_TONE, TONE_STEPS, ZERO_TONE, ColourScale
from wiregrad.export.reading import Reading, ReadingState, read_value

SWATCH_WIDTH = 13
LEGEND_GAP = 22
STATE_SIGNS = {ReadingState.NONFINITE: (f"s-{NONFINITE_TONE}", "NaN or Inf"), ReadingState.BLOCKED: ("blocked", ""), ReadingState.ABSENT: ("plain", "")}
"""For each state other than a number: the class of its line, and its text if that is not the name of the state."""


class PictureLegend:
    """Writes the legend: scales and signs from left to right, sentences below; `measure_text` and `height` are its size."""

    def __init__(self, picture: Picture, scale: ColourScale, tones: set[str]) -> None:
        self.picture = picture
        self.scale = scale
        self.tones = tones
        self.x = self.width = 0
        self.height = 16

    def write_parts(self, labelled: bool) -> Iterator[str]:
        """Return the parts that the picture needs: scale, norms, signs, and what the labels on wires mean."""
        signs = {tone[0] for tone in self.tones}
        readings = [*_list_gradients(self.picture)]
        if signs & {POSITIVE_TONE, NEGATIVE_TONE}:
            yield from self._write_signed_scale()
        if MIXED_TONE in signs:
            has_both_signs = any(r.shape and not r.signed for r in readings)
            title = "norm, both signs" if has_both_signs else "norm"
            yield from self._write_swatches(title, [f"{MIXED_TONE}{k}" for k in range(1, TONE_STEPS + 1)], typeset_text(self._format_limit()))
        states = {reading.state for reading in readings}
        for state, (css, text) in STATE_SIGNS.items():
            if state in states:
                yield from self._write_state_sign(css, text or state.value)
        self.width = max(self.width, self.x - LEGEND_GAP)
        if any(r.shape and "‖" in r.text for r in readings):
            yield from self._write_sentence(f"‖ ‖: norm of an array; + or {MINUS} where none of its numbers has the other sign")
        if labelled and is_detailed(self.picture):
            yield from self._write_sentence("on a wire: ∂ local derivative above, gradient sent back below")
        elif labelled:
            yield from self._write_sentence(
                "on a wire: ∂ local derivative (left out: 1, and those of arrays), below it the gradient sent back "
                "where a value branches"
            )

    def _format_limit(self) -> str:
        return read_value(self.scale.limit, 3).text

    def _write_signed_scale(self) -> Iterator[str]:
        """Return the scale from the strongest negative to the strongest positive tone, marked if it clips."""
        down = [f"{NEGATIVE_TONE}{k}" for k in range(TONE_STEPS, 0, -1)]
        up = [f"{POSITIVE_TONE}{k}" for k in range(1, TONE_STEPS + 1)]
        limit = typeset_text(self._format_limit())
        clips = any(r.state is ReadingState.NUMBER and self.scale.exceeds_limit(r.size) for r in _list_gradients(self.picture))
        below, above = ("≤ ", "≥ ") if clips else ("", "")
        yield from self._write_swatches(f"gradient  {below}{MINUS}{limit}", [*down, ZERO_TONE, *up], f"{above}+{limit}")

    def _write_swatches(self, before: str, tones: Sequence[str], behind: str) -> Iterator[str]:
        yield write_words(before, self.x, 12, "small")
        self.x += measure_text(before, SMALL_FONT_SIZE) + 6
        for tone in tones:
            self.tones.add(tone)
            yield draw_rect(Rect(self.x, 3, SWATCH_WIDTH - 1, 11), f"swatch s-{tone}", 2)
            self.x += SWATCH_WIDTH
        yield write_words(behind, self.x + 5, 12, "small")
        self.x += 5 + measure_text(behind, SMALL_FONT_SIZE) + LEGEND_GAP

    def _write_state_sign(self, css: str, text: str) -> Iterator[str]:
        yield draw_line(f"M{self.x} 8h24", css, 3.2 if css.startswith("s-") else 1.4)
        if css.startswith("s-"):
            self.tones.add(css[2:])
            yield draw_line(f"M{self.x} 8h24", "stripe", 1.6)
        yield write_words(text, self.x + 30, 12, "small")
        self.x += 30 + measure_text(text, SMALL_FONT_SIZE) + LEGEND_GAP

    def _write_sentence(self, text: str) -> Iterator[str]:
        self.width = max(self.width, measure_text(text, SMALL_FONT_SIZE))
        self.height += 15
        yield write_words(text, 0, self.height - 1, "small")


def _list_gradients(picture: Picture) -> Iterator[Reading]:
    for box_ in picture.boxes:
        yield from (r for r in (box_.grad,) if r is not None)
        if box_.bad:
            yield Reading("", state=ReadingState.NONFINITE)
    yield from (link.sent for link in picture.links if link.sent is not None)
