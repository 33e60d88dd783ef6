/**
 * Finds room for a callout: a place near a wire or box where it covers no number and no box. It may cover paper, and a
 * wire only where there is no better place. Nothing moves for it.
 */
import type { PictureWire, Slot } from "../layout";
import type { Scene } from "../layout/faces";
import { width } from "../layout/letters";
import { read, slotText } from "../layout/readings";
import type { Point, Value } from "../types";

/** A rectangle. */
export interface Rect extends Point {
  width: number;
  height: number;
}

/** What a callout must not cover (boxes and texts), and what it should not. */
export interface Room {
  boxes: readonly Rect[];
  texts: readonly Rect[];
  wires: readonly Rect[];
  bounds: Rect;
}

/** Return what is taken in a picture: boxes, and numbers as wide as they are. Callouts stand on the paper that is seen. */
export function roomOf({ picture, run, known }: Scene, bounds: Rect): Room {
  const { numberFont } = picture.sizes;
  const numbers = picture.boxes.flatMap(({ node, valueSlot, gradSlot }) => [
    shownIn(valueSlot, known.value[node] ? (run.values[node] ?? null) : null, numberFont),
    shownIn(gradSlot, known.grad[node] === "final" ? (run.grads[node] ?? null) : null, numberFont),
  ]);
  const names = picture.boxes.flatMap((box) => [box.captionSlot, box.mark?.name ?? null]);
  const labels = picture.wires.flatMap((wire) => [wire.pillSlot, wire.sentSlot, ...wire.nets]);
  const places = [...numbers, ...names, ...labels].flatMap((slot) => (slot ? [grown(slot, 3)] : []));
  const boxes = picture.boxes.map((box) => grown(box, 3));
  const wires = picture.wires.flatMap((wire) => wire.lines.flatMap(segmentsOf));
  return { boxes, texts: places, wires, bounds };
}

/** The room of a number that is not there yet, or not all of it. */
const HOLLOW = 40;

/** Return the room that a number really takes in its slot. */
function shownIn(slot: Slot | null, value: Value | null, font: number): Rect | null {
  if (!slot) return null;
  const wide = Math.min(slot.width, value === null ? HOLLOW : width(slotText(read(value)), font, true));
  return { ...slot, x: slot.anchor === "end" ? slot.at.x - wide : slot.x, width: wide };
}

/** Whether something would cover a text of the picture, or other things that are there. */
export function covers(room: Room, rect: Rect, others: readonly Rect[] = []): boolean {
  return [...room.texts, ...others].some((other) => meet(rect, other));
}

function segmentsOf(line: readonly Point[]): Rect[] {
  return line.slice(1).map((end, k) => {
    const start = line[k]!;
    const [x, y] = [Math.min(start.x, end.x), Math.min(start.y, end.y)];
    return grown({ x, y, width: Math.abs(start.x - end.x), height: Math.abs(start.y - end.y) }, 3);
  });
}

export function grown({ x, y, width, height }: Rect, by: number): Rect {
  return { x: x - by, y: y - by, width: width + 2 * by, height: height + 2 * by };
}

function meet(one: Rect, two: Rect): boolean {
  return one.x < two.x + two.width && two.x < one.x + one.width && one.y < two.y + two.height && two.y < one.y + one.height;
}

function inside(one: Rect, two: Rect): boolean {
  return one.x >= two.x && one.y >= two.y && one.x + one.width <= two.x + two.width && one.y + one.height <= two.y + two.height;
}

/** A place for a callout, and how good it is: the less the better. */
export interface Offer extends Rect {
  cost: number;
}

/** How much worse a place is for each wire that it covers. */
const CROSSING = 24;

/** Return the best of some places; null where each covers a number or a box. */
export function freePlace(room: Room, taken: readonly Rect[], offers: readonly Offer[]): Rect | null {
  let best: Offer | null = null;
  const solid = [...room.boxes, ...room.texts, ...taken];
  for (const offer of offers) {
    if ((best && offer.cost >= best.cost) || !inside(offer, room.bounds)) continue;
    if (solid.some((other) => meet(offer, other))) continue;
    const cost = offer.cost + CROSSING * room.wires.filter((wire) => meet(offer, wire)).length;
    if (!best || cost < best.cost) best = { ...offer, cost };
  }
  return best;
}

/** Shares of a wire's length at which a callout is tried, and how far beside the wire. */
const SHARES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
const ASIDE = [9, 16, 24, 34, 46];

/** Return places beside a wire for something of a size; `above` says which side is better. */
export function besideWire(wire: PictureWire, wide: number, height: number, above: boolean): Offer[] {
  const sides = above ? [-1, 1] : [1, -1];
  return ASIDE.flatMap((aside) =>
    SHARES.flatMap((share) => {
      const { x, y, level } = pointAt(wire.points, share);
      return sides.map((side, k) => {
        const [dx, dy] = level ? [0, side * (height / 2 + aside)] : [side * (wide / 2 + aside), 0];
        const cost = aside + 20 * Math.abs(share - 0.5) + 12 * k;
        return { x: x + dx - wide / 2, y: y + dy - height / 2, width: wide, height, cost };
      });
    }),
  );
}

/** Return the point of a line at a share of its length, and whether the line is level there. */
function pointAt(points: readonly Point[], share: number): Point & { level: boolean } {
  const lengths = points.slice(1).map((end, k) => Math.hypot(end.x - points[k]!.x, end.y - points[k]!.y));
  let left = share * lengths.reduce((sum, length) => sum + length, 0);
  for (const [k, length] of lengths.entries()) {
    const [start, end] = [points[k]!, points[k + 1]!];
    if (left > length && k < lengths.length - 1) {
      left -= length;
      continue;
    }
    const part = length ? left / length : 0;
    const level = Math.abs(end.x - start.x) >= Math.abs(end.y - start.y);
    return { x: start.x + (end.x - start.x) * part, y: start.y + (end.y - start.y) * part, level };
  }
  return { ...points[0]!, level: true };
}

/** Return places above and below a box, or beside it, for something of a size. */
export function aroundBox(box: Rect, wide: number, height: number): Offer[] {
  const [middle, centre] = [box.x + box.width / 2, box.y + box.height / 2];
  const size = { width: wide, height };
  return [28, 44, 64, 90].flatMap((far) => [
    ...[0, -0.25, 0.25, -0.45, 0.45].flatMap((share) => {
      const x = middle + (share - 0.5) * wide;
      const cost = far + 20 * Math.abs(share);
      return [{ ...size, x, y: box.y - far - height, cost }, { ...size, x, y: box.y + box.height + far, cost: cost + 4 }];
    }),
    { ...size, x: box.x + box.width + far, y: centre - height / 2, cost: far + 40 },
    { ...size, x: box.x - far - wide, y: centre - height / 2, cost: far + 40 },
  ]);
}
