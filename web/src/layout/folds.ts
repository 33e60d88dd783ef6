/**
 * Where a layout that is too long is cut into bands, which then stand below each other. Only sizes and ranks are known
 * here, so the extent of a gap is guessed from its labels. Kept true: every band has a rank, and no rank is in two.
 */
import { most, pathsAround, quotientUp, sums, times } from "./arrays";
import type { Joint, Metrics, Shape } from "./shapes";

/** How much room the tracks of a gap take, as a guess. */
const GUESS = 18;
/** How far from its best place a cut may be, as a share of a band. */
const REACH = 0.25;
/** How much worse it is to cut a splitter off its value than to cut another wire. */
const DOT = 3;

/** Return the band of every rank. */
export function bands(
  shapes: readonly Shape[],
  joints: readonly Joint[],
  ranks: readonly number[],
  metrics: Metrics,
): number[] {
  const lastRank = most(ranks, -1);
  if (!metrics.fold || lastRank < 1) return times(lastRank + 1, () => 0);
  const starts = [0, ...sums(pitches(shapes, joints, ranks, metrics))];
  const extent = starts.at(-1)!;
  const number = Math.min(quotientUp(extent, metrics.fold), lastRank + 1);
  const wires = crossing(shapes, joints, ranks);
  const cuts: number[] = [];
  for (let k = 1; k < number; k++) {
    const ideal = (extent * k) / number;
    const first = cuts.length ? cuts.at(-1)! + 1 : 1;
    const free = times(Math.max(0, lastRank + 2 - (number - k) - first), (j) => first + j);
    const away = (rank: number) => Math.abs(starts[rank]! - ideal);
    const near = free.filter((rank) => away(rank) <= (REACH * extent) / number);
    // Few wires and groups that are cut come first, then bands of equal length.
    const choice = near.length ? near : [firstLeast(free, (rank) => [away(rank)])];
    cuts.push(firstLeast(choice, (rank) => [wires[rank]!, away(rank)]));
  }
  return times(lastRank + 1, (rank) => cuts.filter((cut) => rank >= cut).length);
}

/** Return ranks and bands with what reads nothing in the band of its first reader, in a rank of its own before it. */
export function leavesAlong(
  joints: readonly Joint[],
  ranks: readonly number[],
  cut: readonly number[],
): { ranks: number[]; bands: number[] } {
  const first = new Map<number, number>();
  for (const { source, target } of joints) {
    const rank = ranks[target]!;
    first.set(source, Math.min(first.get(source) ?? rank, rank));
  }
  const reading = new Set(joints.map((joint) => joint.target));
  const late = new Set<number>();
  const starts = new Map<number, number>();
  for (const [box, rank] of first) {
    const band = cut[rank]!;
    if (reading.has(box) || band === cut[ranks[box]!]!) continue;
    late.add(box);
    starts.set(band, cut.indexOf(band));
  }
  const moved = cut.map((_, rank) => [...starts.values()].filter((start) => start <= rank).length);
  const found = ranks.map((rank, box) => {
    const reader = first.get(box);
    return late.has(box) && reader !== undefined ? reader + moved[reader]! - 1 : rank + moved[rank]!;
  });
  const wider = cut.flatMap((band, rank) => (starts.get(band) === rank ? [band, band] : [band]));
  return withoutEmpty(found, wider);
}

/** Return ranks and bands without ranks whose leaves have all moved, and without bands that are then empty. */
function withoutEmpty(ranks: readonly number[], bands: readonly number[]): { ranks: number[]; bands: number[] } {
  const taken = [...new Set(ranks)].sort((a, b) => a - b);
  const place = new Map(taken.map((rank, k) => [rank, k]));
  const kept = [...new Set(taken.map((rank) => bands[rank]!))].sort((a, b) => a - b);
  return { ranks: ranks.map((rank) => place.get(rank)!), bands: taken.map((rank) => kept.indexOf(bands[rank]!)) };
}

/** Return the first of those with the smallest key. */
function firstLeast(items: readonly number[], key: (item: number) => number[]): number {
  let best = items[0]!;
  let lowest = key(best);
  for (const item of items.slice(1)) {
    const found = key(item);
    if (isLess(found, lowest)) [best, lowest] = [item, found];
  }
  return best;
}

function isLess(one: readonly number[], two: readonly number[]): boolean {
  for (const [k, a] of one.entries()) {
    const b = two[k]!;
    if (a !== b) return a < b;
  }
  return false;
}

/** Return about how much room each rank takes along, with the gap before it. */
function pitches(
  shapes: readonly Shape[],
  joints: readonly Joint[],
  ranks: readonly number[],
  metrics: Metrics,
): number[] {
  const many = most(ranks, -1) + 1;
  const boxes = times(many, () => 0);
  const labels = times(many, () => 0);
  for (const [k, shape] of shapes.entries()) {
    const rank = ranks[k]!;
    boxes[rank] = Math.max(boxes[rank]!, shape.along + (shape.after ?? 0));
  }
  for (const joint of joints) {
    const rank = ranks[joint.target]!;
    labels[rank] = Math.max(labels[rank]!, joint.label ?? 0);
  }
  return boxes.map((box, rank) => box + labels[rank]! + 2 * metrics.lead + GUESS);
}

/** Return how many values and groups pass the start of each rank; values that splitters wait for count more. */
function crossing(shapes: readonly Shape[], joints: readonly Joint[], ranks: readonly number[]): number[] {
  const ends = new Map<number, number>();
  const change = times(most(ranks, -1) + 2, () => 0);
  const add = (first: number, last: number, weight: number) => {
    change[first + 1]! += weight;
    change[last + 1]! -= weight;
  };
  for (const { source, target } of joints) {
    ends.set(source, Math.max(ends.get(source) ?? 0, ranks[target]!));
    if (shapes[target]!.splitter) add(ranks[source]!, ranks[target]!, DOT);
  }
  for (const [source, end] of ends) add(ranks[source]!, end, 1);
  for (const [first, last] of groupSpans(shapes, ranks)) add(first, last, 1);
  return sums(change);
}

/** Return the first and last rank of every group. */
function groupSpans(shapes: readonly Shape[], ranks: readonly number[]): [number, number][] {
  const found = new Map<string, [number, number]>();
  for (const [k, shape] of shapes.entries()) {
    const rank = ranks[k]!;
    for (const path of pathsAround(shape.group ?? "")) {
      const [first, end] = found.get(path) ?? [rank, rank];
      found.set(path, [Math.min(first, rank), Math.max(end, rank)]);
    }
  }
  return [...found.values()];
}
