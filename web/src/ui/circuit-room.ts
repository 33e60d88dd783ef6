/**
 * Finds room for a callout: a place near a wire or box where it covers no number and no box. It may cover paper, and a
 * wire only where there is no better place. Nothing moves for it.
 */
import type { Picture, PictureWire } from "../layout";
import type { Point } from "../types";

/** A rectangle. */
export interface Rect extends Point {
  width: number;
  height: number;
}

/** What a callout must not cover, and what it should not. */
export interface Room {
  solid: readonly Rect[];
  wires: readonly Rect[];
  bounds: Rect;
}

/** How far outside the picture a callout may stand. */
const MARGIN = 44;

/** Return what is taken in a picture. */
export function roomOf(picture: Picture): Room {
  const slots = picture.boxes.flatMap((box) => [box.valueSlot, box.gradSlot, box.captionSlot, box.mark?.name ?? null]);
  const labels = picture.wires.flatMap((wire) => [wire.pillSlot, wire.sentSlot, ...wire.nets]);
  const places = [...slots, ...labels].flatMap((slot) => (slot ? [slot] : []));
  const boxes = picture.boxes.map((box) => grown(box, 3));
  const wires = picture.wires.flatMap((wire) => wire.lines.flatMap(segmentsOf));
  const bounds = { x: picture.left, y: picture.top, width: picture.width, height: picture.height };
  return { solid: [...boxes, ...places], wires, bounds: grown(bounds, MARGIN) };
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

/** Return the first of some places that covers least; null where each covers a number or a box. */
export function freePlace(room: Room, taken: readonly Rect[], places: readonly Rect[]): Rect | null {
  let best: Rect | null = null;
  let least = Infinity;
  for (const place of places) {
    if (!inside(place, room.bounds)) continue;
    if (room.solid.some((other) => meet(place, other)) || taken.some((other) => meet(place, other))) continue;
    const crossed = room.wires.filter((wire) => meet(place, wire)).length;
    if (crossed < least) [best, least] = [place, crossed];
    if (!crossed) break;
  }
  return best;
}

/** Shares of a wire's length at which a callout is tried, and how far beside the wire. */
const SHARES = [0.3, 0.2, 0.45, 0.1, 0.6, 0.75, 0.9];
const ASIDE = [10, 18, 30, 44];

/** Return places beside a wire for something of a size; `above` says which side is tried first. */
export function besideWire(wire: PictureWire, width: number, height: number, above: boolean): Rect[] {
  const sides = above ? [-1, 1] : [1, -1];
  return ASIDE.flatMap((aside) =>
    SHARES.flatMap((share) => {
      const { x, y, level } = pointAt(wire.points, share);
      return sides.map((side) => {
        const [dx, dy] = level ? [0, side * (height / 2 + aside)] : [side * (width / 2 + aside), 0];
        return { x: x + dx - width / 2, y: y + dy - height / 2, width, height };
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
export function aroundBox(box: Rect, width: number, height: number): Rect[] {
  const [middle, centre] = [box.x + box.width / 2, box.y + box.height / 2];
  const shifts = [0, -0.25, 0.25, -0.45, 0.45].map((share) => share * width);
  return [28, 44, 64, 90].flatMap((far) =>
    shifts.flatMap((shift) => [
      { x: middle + shift - width / 2, y: box.y - far - height, width, height },
      { x: middle + shift - width / 2, y: box.y + box.height + far, width, height },
    ]).concat([
      { x: box.x + box.width + far, y: centre - height / 2, width, height },
      { x: box.x - far - width, y: centre - height / 2, width, height },
    ]),
  );
}
