/**
 * How parts of the circuit look, as attributes of SVG, and the paths they are made of. Colours are custom properties of
 * the page, so that a theme changes them all; nothing here is an id, so that several circuits can stand on one page.
 */
import type { Point } from "../types";
import type { Mark, Row } from "../layout/faces";

/** Attributes of an SVG element. */
export type Look = Readonly<Record<string, string | number>>;

/** The roles of the graphics module, which Preact's types do not know. */
export const SYMBOL: Look = { role: "graphics-symbol" };
export const DOCUMENT: Look = { role: "graphics-document" };

const SMALL = 11;
const MUTED = "var(--wg-muted)";
const INK = "var(--wg-ink)";
const WIRE = "var(--wg-line)";

/** How each part looks. */
export const LOOKS = {
  frame: { fill: "var(--wg-panel)", "fill-opacity": 0.6, stroke: "var(--wg-hair)", "stroke-width": 1.4 },
  group: { "font-size": 12, fill: MUTED },
  box: { fill: "var(--wg-panel)" },
  back: { fill: "var(--wg-panel)", stroke: "var(--wg-hair)", "stroke-width": 1.2 },
  edge: { fill: "none", stroke: INK, "stroke-width": 1.5 },
  idle: { fill: "none", stroke: WIRE, "stroke-width": 1.5 },
  leaf: { fill: "none", stroke: WIRE, "stroke-width": 1.4 },
  rule: { fill: "none", stroke: "var(--wg-hair)", "stroke-width": 1 },
  name: { "font-size": 13, "font-weight": 650, fill: INK },
  sign: { "text-anchor": "middle" },
  what: { "font-size": SMALL, fill: INK },
  hatch: { fill: "none", stroke: INK, "stroke-width": 1.6 },
  hollow: { fill: "none", stroke: "var(--wg-slot)", "stroke-width": 1.1, "stroke-dasharray": "2.5 2.5" },
  dash: { fill: "none", stroke: "var(--wg-slot)", "stroke-width": 1.3 },
  inverted: { fill: INK },
  dot: { fill: INK },
  adder: { fill: "var(--wg-panel)", stroke: INK, "stroke-width": 1.6 },
  plus: { fill: "none", stroke: INK, "stroke-width": 1.7 },
  badge: { fill: "var(--wg-panel)", stroke: INK, "stroke-width": 1.2 },
  small: { "font-size": SMALL, fill: MUTED },
  net: { "font-size": SMALL, fill: MUTED, "font-style": "italic" },
  pill: { fill: "var(--wg-panel)", stroke: INK, "stroke-width": 1.5 },
  factor: { fill: INK, "font-weight": 600, "text-anchor": "middle" },
  slash: { fill: "none", stroke: INK, "stroke-width": 1.6 },
  /** Text that may stand over lines. */
  outlined: { "paint-order": "stroke", stroke: "var(--wg-paper)", "stroke-width": 4, "stroke-linejoin": "round" },
  halo: { fill: "none", stroke: "var(--wg-accent)", "stroke-linejoin": "round" },
} as const satisfies Readonly<Record<string, Look>>;

/** How the gradient of a branch looks. */
export function sentLook(mark: Mark, tone: string): Look {
  const fill = tone ? `var(--wg-w_${tone[0] ?? "x"})` : MUTED;
  const style = mark === "stale" || mark === "partial" ? "italic" : "normal";
  return { "font-weight": mark === "none" ? 400 : 650, fill, "font-style": style };
}

/** How a number looks: a gradient in the colour of its sign, but ink on a tint (`plain`). */
export function numberLook({ what, mark, tone }: Row, plain: boolean): Look {
  const gradient = what === "gradient";
  const signed = tone && !plain ? `var(--wg-w_${tone[0] ?? "x"})` : INK;
  const quiet = mark === "stale";
  return {
    fill: mark === "bad" ? "var(--wg-paper)" : quiet ? MUTED : signed,
    ...(mark === "bad" ? { stroke: "none" } : {}),
    "font-weight": gradient && mark !== "partial" ? 650 : 500,
    "font-style": mark === "partial" ? "italic" : "normal",
    ...(mark === "stale" ? { "text-decoration": "line-through" } : {}),
  };
}

/** Return a path through points, with round corners where it turns a right angle. */
export function roundedPath(points: readonly Point[], corner = 14): string {
  const parts = points.map((here, k) => {
    const [before, behind] = [points[k - 1], points[k + 1]];
    if (!before) return `M${here.x} ${here.y}`;
    if (!behind) return `L${here.x} ${here.y}`;
    const r = Math.min(corner, Math.floor(distance(before, here) / 2), Math.floor(distance(here, behind) / 2));
    const right = (before.x === here.x) !== (behind.x === here.x) && (before.y === here.y) !== (behind.y === here.y);
    if (!right || r <= 0) return `L${here.x} ${here.y}`;
    const [a, b] = [towards(here, before, r), towards(here, behind, r)];
    return `L${a.x} ${a.y}Q${here.x} ${here.y} ${b.x} ${b.y}`;
  });
  return parts.join("");
}

/** Return a path once around through corners, with round corners. */
export function closedPath(points: readonly Point[]): string {
  const [first, second] = points;
  if (!first || !second) return "";
  const middle = { x: Math.floor((first.x + second.x) / 2), y: Math.floor((first.y + second.y) / 2) };
  return `${roundedPath([middle, ...points.slice(1), first, middle])}Z`;
}

function distance(one: Point, two: Point): number {
  return Math.abs(one.x - two.x) + Math.abs(one.y - two.y);
}

function towards(one: Point, two: Point, step: number): Point {
  return { x: one.x + step * Math.sign(two.x - one.x), y: one.y + step * Math.sign(two.y - one.y) };
}

/** Return the head of a wire: at its end forward, at its start and turned round backward. */
export function headPath({ x, y }: Point, down: boolean, back: boolean, size: number): string {
  const [long, half] = [size * 1.25 * (back ? 1 : -1), size * 0.68];
  return down ? `M${x} ${y}l${-half} ${long}h${2 * half}z` : `M${x} ${y}l${long} ${-half}v${2 * half}z`;
}

/** Return a cell whose upper and lower corners are as round as told. */
export function cellPath(x: number, y: number, wide: number, high: number, top: number, low: number): string {
  const upper = top ? `q0 ${-top} ${top} ${-top}h${wide - 2 * top}q${top} 0 ${top} ${top}` : `h${wide}`;
  const right = low ? `q0 ${low} ${-low} ${low}` : "";
  const left = low ? `q${-low} 0 ${-low} ${-low}z` : "z";
  return `M${x} ${y + top}${upper}V${y + high - low}${right}H${x + low}${left}`;
}

/** Return diagonal strokes that fill a rectangle. */
export function hatchPath(x: number, y: number, wide: number, high: number, step: number): string {
  const parts: string[] = [];
  for (let t = step; t < wide + high; t += step) {
    const start = `M${x + Math.max(0, t - high)} ${y + Math.min(t, high)}`;
    parts.push(`${start}L${x + Math.min(t, wide)} ${y + Math.max(0, t - wide)}`);
  }
  return parts.join("");
}
