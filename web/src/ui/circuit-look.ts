/**
 * How parts of the circuit look, as attributes of SVG, and the paths they are made of. Colours are custom properties of
 * the page, so that a theme changes them all; nothing here is an id, so that several circuits can stand on one page.
 */
import type { Point } from "../types";
import type { Mark } from "../layout/faces";

/** Attributes of an SVG element. */
export type Look = Readonly<Record<string, string | number>>;

/** The roles of the graphics module, which Preact's types do not know. */
export const SYMBOL: Look = { role: "graphics-symbol" };
export const DOCUMENT: Look = { role: "graphics-document" };

const SMALL = 10;
const MUTED = "var(--wg-muted)";
const INK = "var(--wg-ink)";

/** How each part looks. */
export const LOOKS = {
  frame: {
    fill: "var(--wg-head)",
    "fill-opacity": 0.55,
    stroke: "var(--wg-line)",
    "stroke-dasharray": "1 3",
    "stroke-linecap": "round",
  },
  group: { "font-size": SMALL, "font-weight": 600, fill: MUTED },
  box: { fill: "var(--wg-panel)" },
  back: { fill: "var(--wg-head)", stroke: "var(--wg-line)" },
  head: { fill: "var(--wg-head)" },
  edge: { fill: "none", stroke: "var(--wg-line)", "stroke-width": 1.2 },
  output: { fill: "none", stroke: INK, "stroke-width": 2 },
  rule: { fill: "none", stroke: "var(--wg-line)", "stroke-width": 0.8 },
  name: { "font-size": 12, "font-weight": 600, fill: INK },
  op: { "font-size": 12, fill: MUTED },
  what: { "font-size": SMALL, fill: INK },
  hatch: { fill: "none", stroke: INK, "stroke-width": 1.1 },
  stale: { fill: "none", stroke: MUTED, "stroke-width": 0.7, "stroke-opacity": 0.7 },
  hollow: { fill: "none", stroke: MUTED, "stroke-dasharray": "3 3" },
  dot: { fill: INK },
  waiting: { fill: "var(--wg-paper)", stroke: INK, "stroke-width": 2 },
  badge: { fill: "var(--wg-panel)", stroke: INK, "stroke-width": 1.2 },
  small: { "font-size": SMALL, fill: MUTED },
  net: { "font-size": SMALL, fill: MUTED, "font-style": "italic" },
  /** Text that may stand over lines. */
  outlined: { "paint-order": "stroke", stroke: "var(--wg-paper)", "stroke-width": 3, "stroke-linejoin": "round" },
  plain: { fill: "none", stroke: "var(--wg-line)", "stroke-width": 1.2 },
  stripe: { fill: "none", stroke: "var(--wg-paper)", "stroke-width": 1.6, "stroke-dasharray": "3 3" },
  halo: { fill: "none", stroke: "var(--wg-accent)", "stroke-linejoin": "round" },
} as const satisfies Readonly<Record<string, Look>>;

/** How thick wires are, by weight. */
const THICKNESS = { 1: 1.2, 2: 2.1, 3: 3.2 } as const;

/** The colour of a wire. */
export function strokeColour(mark: Mark, tone: string): string {
  if (tone) return `var(--wg-s_${tone})`;
  return mark === "blocked" || mark === "stale" ? MUTED : "var(--wg-line)";
}

/** How a wire looks whose value is computed, or not yet. */
export function wireLook(mark: Mark, tone: string, weight: 1 | 2 | 3, computed: boolean): Look {
  const dash = !computed ? "1 4" : mark === "blocked" ? "4 3" : mark === "partial" ? "8 3" : "none";
  return {
    fill: "none",
    stroke: strokeColour(mark, tone),
    "stroke-width": THICKNESS[weight],
    "stroke-dasharray": dash,
    "stroke-linejoin": "round",
  };
}

/** How a number on a wire looks. */
export function sentLook(mark: Mark, tone: string): Look {
  const fill = tone ? `var(--wg-w_${tone[0] ?? "x"})` : MUTED;
  const style = mark === "stale" || mark === "partial" ? "italic" : "normal";
  return { "font-size": SMALL, "font-weight": mark === "none" ? 400 : 600, fill, "font-style": style };
}

/** How a number in a row of a box looks. */
export function rowLook(mark: Mark): Look {
  const quiet = mark === "none" || mark === "blocked" || mark === "stale";
  return {
    "font-size": 12,
    fill: quiet ? MUTED : INK,
    "font-weight": mark === "bad" ? 700 : 400,
    "font-style": mark === "stale" || mark === "partial" ? "italic" : "normal",
  };
}

const CORNER = 6;

/** Return a path through points, with round corners where it turns a right angle. */
export function roundedPath(points: readonly Point[]): string {
  const parts = points.map((here, k) => {
    const [before, behind] = [points[k - 1], points[k + 1]];
    if (!before) return `M${here.x} ${here.y}`;
    if (!behind) return `L${here.x} ${here.y}`;
    const r = Math.min(CORNER, Math.floor(distance(before, here) / 2), Math.floor(distance(here, behind) / 2));
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

/** Return the head of an arrow that ends at a point. */
export function arrowPath({ x, y }: Point, down: boolean): string {
  return down ? `M${x} ${y}l-4 -8h8z` : `M${x} ${y}l-8 -4v8z`;
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
