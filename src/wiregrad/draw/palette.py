"""Colours of every picture: two themes, the scale that turns a gradient into a tone, and the style sheet inside an SVG.

The hue shows the sign, the lightness shows the magnitude on a symmetric log scale. A tone is a short name (`p5` is the
strongest positive), so one picture can hold both themes and the reader's system chooses. Every style rule starts with
the class of its theme, so pictures of different themes can share a page.

Invariants: text has a contrast of at least 4.5 with everything beneath it, strokes have one of at least 3 with the
paper, and a number that is not finite never has a hue.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

TONE_STEPS = 5
"""Number of tones for each sign."""
CLIP_PERCENTILE = 99.5
"""Percentile of the magnitudes from which all have the strongest tone."""
SCALE_SPAN = 1e-4
"""Smallest magnitude that differs from zero on the scale, as a share of the largest."""
TEXT_CONTRAST = 4.5
TEXT_TINT = 0.45
"""How far the background of a cell goes towards the strongest tint if there is text on it."""
STROKE_CONTRAST = 3.0

# The first letters of tones; those of the first three are followed by a step from 1 to the number of tones.
POSITIVE_TONE = "p"
NEGATIVE_TONE = "n"
MIXED_TONE = "m"
ZERO_TONE = "z"
NONFINITE_TONE = "x"
ABSENT_TONE = "h"


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of one theme, each as `#RRGGBB`."""

    name: str
    paper: str
    panel: str
    """The fill of a box."""
    head: str
    """The fill of the part of a box that holds its name."""
    ink: str
    muted: str
    """The colour of secondary text."""
    line: str
    """The colour of a wire that has a value, and of the edges of leaves."""
    hair: str
    """The colour of rules inside a box and of the second edge of a group."""
    slot: str
    """The colour of the outline of a slot whose number is not known."""
    now: str
    """The highlighter: what is happening now."""
    on_now: str
    """The colour of text on the highlighter."""
    hues: Mapping[str, tuple[str, str, str]]
    """For each sign, the colour of the faintest, a medium and the strongest stroke."""
    tints: Mapping[str, tuple[str, str]]
    """For each sign, the colours between which the backgrounds of cells run; they are at least 4:1 apart."""
    words: Mapping[str, str]
    """For each sign, the colour of a number written as text."""
    zero: str

    def stroke_colour(self, tone: str) -> str:
        """Return the colour of a wire or a bar.

        >>> LIGHT_THEME.stroke_colour("p3"), LIGHT_THEME.stroke_colour("x")
        ('#2471A2', '#15171C')
        """
        if tone[0] not in self.hues:
            return {ZERO_TONE: self.zero, NONFINITE_TONE: self.ink}.get(tone, self.muted)
        faint, plain, strong = self.hues[tone[0]]
        at = (int(tone[1:]) - 1) / (TONE_STEPS - 1)
        return mix_colours(faint, plain, 2 * at) if at <= 0.5 else mix_colours(plain, strong, 2 * at - 1)

    def tint_colour(self, tone: str) -> str:
        """Return the background colour of a cell that has text on it."""
        if tone[0] not in self.tints:
            return self.head if tone == ZERO_TONE else self.panel
        faint, strong = self.tints[tone[0]]
        return mix_colours(faint, strong, TEXT_TINT * (int(tone[1:]) - 1) / (TONE_STEPS - 1))

    def wire_colour(self, sign: str, share: float) -> str:
        """Return the colour of the wire of a gradient whose magnitude is a share of the largest.

        >>> LIGHT_THEME.wire_colour("p", 0.0), LIGHT_THEME.wire_colour("p", 1.0)
        ('#4793C4', '#004F80')
        """
        faint, _, strong = self.hues[sign]
        return mix_colours(faint, strong, share)

    def text_colour(self, tone: str) -> str:
        """Return the colour of a number written on the paper or a box; on a tint every number has the colour of ink."""
        return self.words.get(tone[0], self.muted if tone in (ZERO_TONE, ABSENT_TONE) else self.ink)


def relative_luminance(colour: str) -> float:
    """Return the relative luminance of a colour, from 0 for black to 1 for white.

    >>> relative_luminance("#000000"), relative_luminance("#FFFFFF")
    (0.0, 1.0)
    """
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast_ratio(one: str, two: str) -> float:
    """Return the contrast ratio of two colours, from 1 for equal colours to 21 for black on white.

    >>> round(contrast_ratio("#0072B2", "#FFFFFF"), 1)
    5.2
    """
    dark, light = sorted((relative_luminance(one), relative_luminance(two)))
    return (light + 0.05) / (dark + 0.05)


def mix_colours(one: str, two: str, share: float) -> str:
    """Return the colour at a share of the way from one colour to another.

    >>> mix_colours("#000000", "#FFFFFF", 0.5)
    '#808080'
    """
    channels = [(int(one[k : k + 2], 16), int(two[k : k + 2], 16)) for k in (1, 3, 5)]
    return "#" + "".join(f"{int(a + (b - a) * share + 0.5):02X}" for a, b in channels)


LIGHT_THEME = Theme(
    name="light",
    paper="#FAFAF7",
    panel="#FFFFFF",
    head="#EFEFEA",
    ink="#15171C",
    muted="#555A63",
    line="#868C95",
    hair="#DDDED9",
    slot="#6B717B",
    now="#FFE27A",
    on_now="#15171C",
    hues={
        POSITIVE_TONE: ("#4793C4", "#2471A2", "#004F80"),
        NEGATIVE_TONE: ("#DA7020", "#BA5710", "#9A3D00"),
        MIXED_TONE: ("#87878E", "#62626A", "#3A3A41"),
    },
    tints={
        POSITIVE_TONE: ("#E7F1F8", "#0072B2"),
        NEGATIVE_TONE: ("#FCEBDD", "#C25100"),
        MIXED_TONE: ("#EDEDEF", "#66666E"),
    },
    words={POSITIVE_TONE: "#00609A", NEGATIVE_TONE: "#A94700"},
    zero="#767676",
)
DARK_THEME = Theme(
    name="dark",
    paper="#14161A",
    panel="#1D2026",
    head="#262A31",
    ink="#F1F2F4",
    muted="#B4B9C2",
    line="#7B828C",
    hair="#33373F",
    slot="#8F949B",
    now="#5C5016",
    on_now="#FFF3B8",
    hues={
        POSITIVE_TONE: ("#3C86B4", "#71B1D8", "#A6DBFB"),
        NEGATIVE_TONE: ("#B5731F", "#DA9F53", "#FFCB86"),
        MIXED_TONE: ("#7C828B", "#A0A6AE", "#D5D9DE"),
    },
    tints={
        POSITIVE_TONE: ("#17293A", "#56B4E9"),
        NEGATIVE_TONE: ("#33240F", "#F0A03C"),
        MIXED_TONE: ("#2A2D33", "#A0A6AE"),
    },
    words={POSITIVE_TONE: "#7CC6F0", NEGATIVE_TONE: "#F5B45F"},
    zero="#8F949B",
)
PRINT_THEME = replace(LIGHT_THEME, name="print", paper="#FFFFFF")
"""The light theme on white paper, for reports and slides."""
THEMES = {theme.name: theme for theme in (LIGHT_THEME, DARK_THEME, PRINT_THEME)}

ALL_TONES = (
    *(f"{sign}{step}" for sign in (POSITIVE_TONE, NEGATIVE_TONE, MIXED_TONE) for step in range(1, TONE_STEPS + 1)),
    ZERO_TONE,
    NONFINITE_TONE,
)
"""Every tone a number can have."""


MIN_WIRE_WIDTH = 1.6
MAX_WIRE_WIDTH = 5.4


@dataclass(frozen=True, slots=True)
class ColourScale:
    """A symmetric log scale: magnitudes from `limit` on have the strongest tone, below `floor` it is about linear."""

    limit: float
    floor: float

    @classmethod
    def from_magnitudes(cls, magnitudes: Iterable[float]) -> ColourScale:
        """Return the scale of some numbers; zeros and numbers that are not finite are ignored.

        >>> ColourScale.from_magnitudes([10.0, -1.0, 0.0, float("nan")])
        ColourScale(limit=10.0, floor=1.0)
        """
        sizes = np.abs(np.fromiter(magnitudes, np.float64))
        sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
        if not len(sizes):
            return cls(1.0, 1.0)
        limit = float(np.percentile(sizes, CLIP_PERCENTILE, method="higher"))
        return cls(limit, min(limit, max(limit * SCALE_SPAN, float(sizes.min()))))

    def position(self, value: float) -> float:
        """Return the position of a number on the scale: 0 at zero, 1 or -1 at the limit and beyond; NaN for NaN.

        >>> ColourScale(10.0, 1.0).position(-50.0)
        -1.0
        """
        if math.isnan(value):
            return math.nan
        size = min(abs(value), self.limit)
        return math.copysign(math.log1p(size / self.floor) / math.log1p(self.limit / self.floor), value)

    def exceeds_limit(self, value: float) -> bool:
        """Return whether a number is beyond the limit, where all tones are the same."""
        return math.isfinite(value) and abs(value) > self.limit

    def tone_step(self, value: float) -> int:
        """Return the step of the tone of a finite number, from 1 for the faintest; 0 for zero."""
        return 0 if value == 0 else min(TONE_STEPS, 1 + int(abs(self.position(value)) * TONE_STEPS))

    def tone_of(self, value: float, *, signed: bool = True) -> str:
        """Return the tone of a number; one without a sign, such as a norm, has a mixed tone.

        >>> [ColourScale(10.0, 1.0).tone_of(x) for x in (10.0, -1.0, 0.0, float("inf"))]
        ['p5', 'n2', 'z', 'x']
        """
        if not math.isfinite(value):
            return NONFINITE_TONE
        if not value:
            return ZERO_TONE
        sign = POSITIVE_TONE if value > 0 else NEGATIVE_TONE
        return f"{sign if signed else MIXED_TONE}{self.tone_step(value)}"

    def line_width(self, value: float) -> float:
        """Return the thickness of a wire in pixels; it follows the magnitude continuously.

        >>> [ColourScale(10.0, 1.0).line_width(x) for x in (0.0, 10.0, float("nan"))]
        [1.6, 5.4, 5.4]
        """
        if not math.isfinite(value):
            return MAX_WIRE_WIDTH
        return MIN_WIRE_WIDTH + (MAX_WIRE_WIDTH - MIN_WIRE_WIDTH) * abs(self.position(value))


AUTO_THEME = "auto"
"""The theme that the reader's system chooses."""
SVG_FONTS = "Inter,'Segoe UI','Helvetica Neue',Arial,'Liberation Sans',sans-serif"
MATH_FONTS = "'STIX Two Text',Cambria,'Times New Roman','Liberation Serif',serif"
RAMP_STEPS = 20
"""Number of steps of the colours of wires: so many that they look continuous."""
RAMP_PREFIX = "l-"


def name_wire_colour(sign: str, share: float) -> str:
    """Return the name of the colour of a wire whose gradient has a share of the largest magnitude.

    >>> name_wire_colour("p", 0.5)
    'l-p10'
    """
    return f"{RAMP_PREFIX}{sign}{round(share * RAMP_STEPS)}"


STYLE_RULES = {
    "paper": "fill:{paper}",
    "line": "fill:none;stroke:currentColor;stroke-linecap:butt;stroke-linejoin:round",
    "arrow": "fill:currentColor",
    "swatch": "fill:currentColor",
    "plain": "color:{line}",
    "blocked": "color:{muted};stroke-dasharray:4 3",
    "stripe": "color:{paper};stroke-dasharray:3 4",
    "box": "fill:{panel}",
    "back": "fill:{panel};stroke:{hair};stroke-width:1.2",
    "edge": "fill:none;stroke:{ink};stroke-width:1.5",
    "leaf": "fill:none;stroke:{line};stroke-width:1.4",
    "rule": "stroke:{hair};stroke-width:1;fill:none",
    "hatch": "stroke:{ink};stroke-width:1.6;fill:none",
    "hollow": "fill:none;stroke:{slot};stroke-width:1.1;stroke-dasharray:2.5 2.5",
    "frame": "fill:{panel};fill-opacity:.6;stroke:{hair};stroke-width:1.4",
    "dot": "fill:{ink}",
    "adder": "fill:{panel};stroke:{ink};stroke-width:1.6",
    "plus": "fill:none;stroke:{ink};stroke-width:1.7",
    "slash": "fill:none;stroke:{ink};stroke-width:1.6",
    "badge": "fill:{panel};stroke:{ink};stroke-width:1.2",
    "pill": "fill:{panel};stroke:{ink};stroke-width:1.5",
    "inverted": "fill:{ink}",
    "now": "fill:{now}",
    "ring": "fill:{panel};stroke:{ink};stroke-width:2.6",
    "idle": "stroke-dasharray:1.5 4.5;stroke-linecap:round",
    "pulse": "fill:none;stroke:{ink};stroke-width:10;stroke-linecap:round;stroke-dasharray:.01 300",
    "halo": "paint-order:stroke;stroke:{paper};stroke-width:4;stroke-linejoin:round",
    "title": "font-size:13px;font-weight:700",
    "note": "font-size:11px;fill:{muted}",
    "name": "font-weight:600",
    "small": "font-size:11px;fill:{muted}",
    "what": "font-size:11px;fill:{ink}",
    "net": "font-size:11px;fill:{muted};font-style:italic",
    "group": "font-size:12px;fill:{muted}",
    "num": "font-weight:500",
    "grad": "font-weight:650",
    "strong": "font-weight:650",
    "over": "fill:{paper}",
    "quiet": "fill:{muted}",
    "math": "font-family:" + MATH_FONTS,
    "it": "font-style:italic",
    "sub": "font-size:.72em",
    "end": "text-anchor:end",
    "mid": "text-anchor:middle",
    **{f"f{size}": f"font-size:{size}px" for size in (11, 12, 13, 14, 16, 18, 24)},
}
"""The style of each class; words in braces are names of colours."""


def write_style_sheet(theme: str, tones: Iterable[str]) -> str:
    """Return the style sheet of a theme, with the tones that a picture uses.

    >>> ".wg-light .wg-s-p3{color:#2471A2}" in write_style_sheet("light", ["p3"])
    True
    """
    used = sorted(tones)
    scope = f".wg-{theme}"
    if theme != AUTO_THEME:
        named = collect_colours(THEMES[theme], used)
        return "".join(_write_rules(scope, used, lambda rule: rule.format(**named)))
    light, dark = (_write_variables(collect_colours(theme, used)) for theme in (LIGHT_THEME, DARK_THEME))
    plain = collect_colours(LIGHT_THEME, used)
    variables = f"{scope}{{{light}}}@media (prefers-color-scheme:dark){{{scope}{{{dark}}}}}"
    return variables + "".join(_write_rules(scope, used, lambda rule: _add_fallback(rule, plain)))


THEME_COLOURS = ("paper", "panel", "head", "ink", "muted", "line", "hair", "slot", "now", "on_now")
"""The colours of a theme that are no tones."""


def collect_colours(theme: Theme, tones: Iterable[str]) -> dict[str, str]:
    """Return the colours of a theme by the names they have in rules.

    >>> collect_colours(LIGHT_THEME, ["z"])["s_z"]
    '#767676'
    """
    named = {name: getattr(theme, name) for name in THEME_COLOURS}
    for tone in tones:
        if tone.startswith(RAMP_PREFIX):
            name = tone.removeprefix(RAMP_PREFIX)
            named[f"l_{name}"] = theme.wire_colour(name[0], int(name[1:]) / RAMP_STEPS)
            continue
        named |= {
            f"s_{tone}": theme.stroke_colour(tone),
            f"t_{tone}": theme.tint_colour(tone),
            f"w_{tone[0]}": theme.text_colour(tone),
        }
    return named


def _write_rules(scope: str, tones: Iterable[str], write: Callable[[str], str]) -> Iterable[str]:
    yield f"{scope}{{font-family:{SVG_FONTS};font-variant-numeric:tabular-nums lining-nums}}"
    yield f"{scope} text{{font-size:12px;{write('fill:{ink}')}}}"
    for name, rule in STYLE_RULES.items():
        yield f"{scope} .wg-{name}{{{write(rule)}}}"
    words: dict[str, str] = {}
    for tone in tones:
        if tone.startswith(RAMP_PREFIX):
            yield f"{scope} .wg-{tone}{{{write(f'color:{{l_{tone.removeprefix(RAMP_PREFIX)}}}')}}}"
            continue
        yield f"{scope} .wg-s-{tone}{{{write(f'color:{{s_{tone}}}')}}}"
        yield f"{scope} .wg-t-{tone}{{{write(f'fill:{{t_{tone}}}')}}}"
        words[tone[0]] = write(f"fill:{{w_{tone[0]}}}")
    for sign, rule in words.items():
        yield f"{scope} .wg-w-{sign}{{{rule}}}"


def _write_variables(named: dict[str, str]) -> str:
    return ";".join(f"--wg-{name}:{colour}" for name, colour in named.items())


def _add_fallback(rule: str, plain: dict[str, str]) -> str:
    """Return a rule with custom properties, after a plain one for viewers that do not know them."""
    if "{" not in rule:
        return rule
    parts = [part for part in rule.split(";") if "{" in part]
    rest = [part for part in rule.split(";") if "{" not in part]
    own = {name: f"var(--wg-{name})" for name in plain}
    return ";".join([*rest, *(part.format(**plain) for part in parts), *(part.format(**own) for part in parts)])
