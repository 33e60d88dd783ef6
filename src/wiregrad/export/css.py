"""The style sheet inside an SVG: one theme, or both with the reader's system choosing.

Every rule begins with the class of the theme, so that pictures of different themes can stand on one page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from wiregrad.export.palette import DARK_THEME, LIGHT_THEME, THEMES, Theme

AUTO_THEME = "auto"
"""The theme that the reader's system chooses."""
SVG_FONTS = "'Helvetica Neue',Arial,'Liberation Sans',sans-serif"

STYLE_RULES = {
    "paper": "fill:{paper}",
    "line": "fill:none;stroke:currentColor;stroke-linecap:butt;stroke-linejoin:round",
    "arrow": "fill:currentColor",
    "swatch": "fill:currentColor",
    "plain": "color:{line}",
    "blocked": "color:{muted};stroke-dasharray:4 3",
    "stripe": "color:{paper};stroke-dasharray:3 3",
    "box": "fill:{panel}",
    "head": "fill:{head}",
    "back": "fill:{head};stroke:{line}",
    "edge": "fill:none;stroke:{line};stroke-width:1.2",
    "out": "stroke:{ink};stroke-width:2",
    "rule": "stroke:{line};stroke-width:.8;fill:none",
    "hatch": "stroke:{ink};stroke-width:1.1;fill:none",
    "hollow": "fill:none;stroke:{muted};stroke-dasharray:3 3",
    "frame": "fill:{head};fill-opacity:.55;stroke:{line};stroke-width:1;stroke-dasharray:1 3;stroke-linecap:round",
    "dot": "fill:{ink}",
    "badge": "fill:{panel};stroke:{ink};stroke-width:1.2",
    "title": "font-size:13px;font-weight:700",
    "note": "font-size:11px;fill:{muted}",
    "name": "font-weight:600",
    "op": "fill:{muted}",
    "small": "font-size:10px;fill:{muted}",
    "what": "font-size:10px;fill:{ink}",
    "local": "font-size:10px;fill:{muted}",
    "sent": "font-size:10px;font-weight:600",
    "net": "font-size:10px;fill:{muted};font-style:italic",
    "group": "font-size:10px;fill:{muted};font-weight:600",
    "strong": "font-weight:700",
    "quiet": "fill:{muted}",
    "end": "text-anchor:end",
    "mid": "text-anchor:middle",
}
"""The style of each class; words in braces are names of colours."""


def write_style_sheet(theme: str, tones: Iterable[str]) -> str:
    """Return the style sheet of a theme, with the tones that a picture uses.

    >>> ".wg-light .wg-s-p3{color:#0072B2}" in write_style_sheet("light", ["p3"])
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


def collect_colours(theme: Theme, tones: Iterable[str]) -> dict[str, str]:
    """Return the colours of a theme by the names they have in rules.

    >>> collect_colours(LIGHT_THEME, ["z"])["s_z"]
    '#767676'
    """
    named = {name: getattr(theme, name) for name in ("paper", "panel", "head", "ink", "muted", "line")}
    for tone in tones:
        named |= {f"s_{tone}": theme.stroke_colour(tone), f"t_{tone}": theme.tint_colour(tone), f"w_{tone[0]}": theme.text_colour(tone)}
    return named


def _write_rules(scope: str, tones: Iterable[str], write: Callable[[str], str]) -> Iterable[str]:
    yield f"{scope}{{font-family:{SVG_FONTS}}}"
    yield f"{scope} text{{font-size:12px;{write('fill:{ink}')}}}"
    for name, rule in STYLE_RULES.items():
        yield f"{scope} .wg-{name}{{{write(rule)}}}"
    words: dict[str, str] = {}
    for tone in tones:
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
