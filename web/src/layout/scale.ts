/**
 * The scale that turns a gradient into a tone: the hue says the sign, the step from 1 to 5 the magnitude on a symmetric
 * log scale. A tone is a short name (`p5` is the strongest positive); colours are custom properties of the page.
 */

/** How many tones a sign has. */
export const STEPS = 5;
const CLIP = 0.995;
const SPAN = 1e-4;

/** A symmetric log scale: `limit` and everything above it has the strongest tone, `floor` is where it bends. */
export interface Scale {
  limit: number;
  floor: number;
}

/** Return the scale of some numbers, of which those that are 0 or not finite do not count. */
export function scaleOf(magnitudes: Iterable<number>): Scale {
  const found = Array.from(magnitudes, Math.abs).filter((size) => isFinite(size) && size > 0);
  if (!found.length) return { limit: 1, floor: 1 };
  found.sort((a, b) => a - b);
  const limit = found[Math.ceil(CLIP * (found.length - 1))] ?? 1;
  return { limit, floor: Math.min(limit, Math.max(limit * SPAN, found[0] ?? limit)) };
}

/** Return where a finite number stands: 0 at zero, 1 or -1 at the limit and beyond. */
export function position(scale: Scale, value: number): number {
  const size = Math.min(Math.abs(value), scale.limit);
  const share = Math.log1p(size / scale.floor) / Math.log1p(scale.limit / scale.floor);
  return value < 0 ? -share : share;
}

/** Whether a number is too large for the scale to tell it from the limit. */
export function clips(scale: Scale, value: number): boolean {
  return isFinite(value) && Math.abs(value) > scale.limit;
}

/**
 * Return the tone of a number: a sign (p or n; m for what has none, such as a norm) and a step; z for zero, x for what
 * is not finite.
 */
export function tone(scale: Scale, value: number, signed = true): string {
  if (!isFinite(value)) return "x";
  if (value === 0) return "z";
  const step = Math.min(STEPS, 1 + Math.trunc(Math.abs(position(scale, value)) * STEPS));
  return `${signed ? (value > 0 ? "p" : "n") : "m"}${step}`;
}

/** How thick wires are: without a gradient, and from the smallest to the largest one. */
export const PLAIN_WIDTH = 1.7;
const [THIN, THICK] = [1.6, 5.4];

/** Return how thick a wire is in px, which follows the magnitude continuously. */
export function thickness(scale: Scale, value: number): number {
  if (!isFinite(value)) return THICK;
  return value === 0 ? THIN : THIN + (THICK - THIN) * Math.abs(position(scale, value));
}

/** Return the colour of a gradient's wire, which gets stronger continuously; `tone` says the sign. */
export function wireColour(scale: Scale, value: number, tone: string): string {
  const sign = tone[0] ?? "";
  if (!"pnm".includes(sign) || !isFinite(value)) return tone ? `var(--wg-s_${tone})` : "var(--wg-line)";
  const share = Math.round(100 * Math.abs(position(scale, value)));
  return `color-mix(in srgb, var(--wg-s_${sign}5) ${share}%, var(--wg-s_${sign}1))`;
}
