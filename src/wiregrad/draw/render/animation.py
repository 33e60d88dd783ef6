"""When everything in an animated picture appears: one pass forward, the seed, one pass backward, by CSS alone.

A time is counted in steps. Parts of the finished picture appear at a time and stay; parts that only tell the step
(rings, pulses, wires that wait for their gradient) are seen from one time to another. Without animation, as readers
who prefer reduced motion have it, the finished picture is seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wiregrad.draw.layout.boxes import BoxKind, Picture
from wiregrad.errors import InputError

MAX_ANIMATED_BOXES = 60
"""Maximum number of boxes in an animated picture."""
STEP_SECONDS = 0.9
REST_STEPS = 4
"""How many steps the finished picture is seen before the animation starts again."""
REPETITIONS = 3
PULSE_SHARE = 0.6
"""The share of a step that a pulse takes."""
FADE = 0.1
"""The share of a step in which something appears."""


@dataclass(slots=True)
class PictureTiming:
    """The times of a picture: when each box has its value and fires backward, and the classes that were used."""

    values: list[int]
    """When each box has its value."""
    sends: list[int]
    """When each box sends gradients back; for leaves, when the last gradient arrives."""
    gradients: list[int]
    """When the gradient of each box is known."""
    seed: int
    total: int
    rules: dict[str, str] = field(default_factory=dict)
    """The style of every class that was used."""

    @classmethod
    def from_picture(cls, picture: Picture) -> PictureTiming:
        """Return the times of a picture."""
        if not picture.ran:
            raise InputError("only a run can be animated; write circuit.run(...).to_svg(animate=True)")
        boxes = picture.boxes
        if len(boxes) > MAX_ANIMATED_BOXES:
            raise InputError(
                f"a picture of at most {MAX_ANIMATED_BOXES} boxes can be animated; this one has {len(boxes):,}: pass "
                f"cap={MAX_ANIMATED_BOXES} or depth=0 to draw groups"
            )
        values = _time_values(picture)
        seed = max(values, default=0) + 1
        sends = [0] * len(boxes)
        gradients = [seed] * len(boxes)
        now = seed
        for k in reversed(range(len(boxes))):
            gradients[k] = max([sends[link.target] for link in picture.links if link.source == k], default=seed)
            now += not boxes[k].is_leaf
            sends[k] = gradients[k] if boxes[k].is_leaf else now
        return cls(values, sends, gradients, seed, now + REST_STEPS)

    @property
    def seconds(self) -> float:
        """How long one pass takes."""
        return self.total * STEP_SECONDS

    def show_from(self, start: float, markup: str) -> str:
        """Return a part that appears at a time and stays."""
        first = self._permille(start)
        last = self._permille(start + FADE)
        name = f"wg-v{first}"
        self._add_rule(name, f"0%,{first / 10:g}%{{opacity:0}}{last / 10:g}%,100%{{opacity:1}}", "")
        return f'<g class="{name}">{markup}</g>' if markup else ""

    def show_between(self, start: float, end: float, markup: str) -> str:
        """Return a part that is seen from one time to another, and not in the finished picture."""
        first, last = self._permille(start), self._permille(end)
        name = f"wg-w{first}-{last}"
        frames = (
            f"0%,{max(0, first - 1) / 10:g}%{{opacity:0}}{first / 10:g}%,{last / 10:g}%{{opacity:1}}"
            f"{min(1000, last + 1) / 10:g}%,100%{{opacity:0}}"
        )
        self._add_rule(name, frames, "opacity:0;")
        return f'<g class="{name}">{markup}</g>' if markup else ""

    def send_pulse(self, start: float, path: str, *, back: bool) -> str:
        """Return a pulse that runs along a path from a time on."""
        first = self._permille(start)
        last = self._permille(start + PULSE_SHARE)
        name = f"wg-{'b' if back else 'f'}{first}"
        begin, end = (-100, 0) if back else (0, -100)
        frames = (
            f"0%,{max(0, first - 1) / 10:g}%{{opacity:0;stroke-dashoffset:{begin}}}"
            f"{first / 10:g}%{{opacity:1;stroke-dashoffset:{begin};animation-timing-function:cubic-bezier(.3,0,.2,1)}}"
            f"{last / 10:g}%{{opacity:1;stroke-dashoffset:{end}}}"
            f"{min(1000, last + 2) / 10:g}%,100%{{opacity:0;stroke-dashoffset:{end}}}"
        )
        self._add_rule(name, frames, "opacity:0;")
        return f'<path d="{path}" pathLength="100" class="wg-pulse {name}"/>'

    def write_style_sheet(self) -> str:
        """Return the style of all classes that were used."""
        calm = "@media (prefers-reduced-motion:reduce){.wg-animated *{animation:none!important}}"
        return "".join(self.rules.values()) + calm

    def _permille(self, time: float) -> int:
        return round(1000 * min(time, self.total) / self.total)

    def _add_rule(self, name: str, frames: str, before: str) -> None:
        run = f"animation:{name} var(--wg-time) linear {REPETITIONS}"
        self.rules[name] = f"@keyframes {name}{{{frames}}}.wg-animated .{name}{{{before}{run}}}"


def _time_values(picture: Picture) -> list[int]:
    """Return when each box has its value: leaves at once, a splitter with what it copies, all others one by one."""
    times: list[int] = []
    now = 0
    sources = {link.target: link.source for link in picture.links}
    for k, box in enumerate(picture.boxes):
        if box.is_leaf:
            times.append(0)
        elif box.kind is BoxKind.SPLIT:
            times.append(times[sources[k]])
        else:
            now += 1
            times.append(now)
    return times
