/**
 * Frames around the groups that are open in a picture. A frame is a rectangle where nothing of others lies in it, and
 * else follows its boxes from rank to rank. Kept true: a frame holds all boxes of its group in a band and no others,
 * and frames do not cross, unless one group is in the other.
 */
import { last, least, listOf, most } from "./arrays";
import { openGroups, type Box, type Drawing } from "./boxes";
import { turned, type Figure, type Rect } from "./figure";
import type { Spot } from "./shapes";

/** How far a frame is from its boxes, and from the first of them, where its name stands. */
const SIDE = 8;
const TOP = 20;
/** Names of frames that stand at most so far from each other cannot both be read. */
const NAME = 14;
/** How much farther for every level of groups inside. */
const SIDE_STEP = 4;
const TOP_STEP = 16;

type Span = readonly [start: number, end: number];

/** The frame of a group in one band: the columns it consists of, and its corners, once around. */
export interface Frame {
  path: string;
  /** Names that would stand on each other are one, at the inner frame: `out/layers`. */
  name: string;
  columns: Rect[];
  outline: Spot[];
}

/** Return the frames of the open groups, outer ones first, where there is room for them. */
export function framesOf(figure: Figure): Frame[] {
  const made: Frame[] = [];
  const stops = stopsOf(figure);
  const levels = levelsOf(figure.drawn);
  for (const { path, inside } of groupsOf(figure.drawn)) {
    const level = levels.get(path) ?? 0;
    const bands = new Set(inside.map((box) => figure.bands[box]!));
    for (const band of [...bands].sort((a, b) => a - b)) {
      const here = inside.filter((box) => figure.bands[box] === band);
      const found = framed(around(figure, here, stops, level), path, made, true);
      // What does not hang together may stand anywhere, so each part of it has a frame.
      const parts = found ? [] : partsOf(figure.drawn, path, here);
      const tried = parts.map((part) => framed(around(figure, part, stops, level), path, made, false));
      made.push(...[found, ...tried].filter((frame) => frame !== null));
    }
  }
  return made;
}

/** Return how many open groups have boxes that hang together and yet no frame. */
export function unframed(figure: Figure, frames: readonly Frame[]): number {
  const known = new Set(frames.map((frame) => frame.path));
  const missing = groupsOf(figure.drawn).filter(({ path }) => !known.has(path));
  return missing.filter(({ path, inside }) => partsOf(figure.drawn, path, inside).length).length;
}

/** Return a frame that nothing else is in: one that is a rectangle, or else one that follows its boxes. */
function framed(some: Around, path: string, made: readonly Frame[], whole: boolean): Frame | null {
  const outer = made.filter((frame) => isWithin(path, frame.path));
  const others = [...some.others, ...made.filter((frame) => !outer.includes(frame)).flatMap((frame) => frame.columns)];
  for (const columns of [wholeColumn(some), steppedColumns(some)]) {
    const stepped = outer.some((frame) => frame.columns.length > 1 && meets(frame.columns, columns[0]!));
    if (!(columns.length === 1 && stepped) && !others.some((rect) => meets(columns, rect))) {
      const [at] = columns;
      let name = path.replace(/.*\//, "");
      for (const around of outer) {
        const [there] = around.columns;
        if (!around.name || Math.hypot(at!.x - there!.x, at!.y - there!.y) > NAME) continue;
        name = `${around.name}/${name}`;
        around.name = "";
      }
      return { path, name, columns, outline: outlineOf(columns, some.down) };
    }
    if (whole) return null;
  }
  return null;
}

function isWithin(path: string, outer: string): boolean {
  return `${path}/`.startsWith(`${outer}/`);
}

function meets(columns: readonly Rect[], other: Rect): boolean {
  return columns.some((rect) => {
    const apart = rect.x >= other.x + other.width || other.x >= rect.x + rect.width;
    return !(apart || rect.y >= other.y + other.height || other.y >= rect.y + rect.height);
  });
}

/** Return the parts of a group that hang together, those with more than one box of its own. */
function partsOf(drawn: Drawing, path: string, boxes: readonly number[]): number[][] {
  const part = new Map(boxes.map((box) => [box, box]));
  const first = (box: number): number => {
    let found = box;
    while (part.get(found) !== found) found = part.get(found) ?? found;
    return found;
  };
  for (const { from, to } of drawn.links) {
    if (!part.has(from) || !part.has(to)) continue;
    const [one, two] = [first(from), first(to)];
    part.set(Math.max(one, two), Math.min(one, two));
  }
  const found = new Map<number, number[]>();
  for (const box of boxes) listOf(found, first(box)).push(box);
  const own = (box: number) => isWithin(drawn.boxes[box]!.group, path);
  return [...found.values()].filter((some) => some.filter(own).length > 1);
}

/** Return the open groups that have several boxes, with which boxes they have. */
function groupsOf(drawn: Drawing): { path: string; inside: number[] }[] {
  const leaving: number[][] = drawn.boxes.map(() => []);
  for (const { from, to } of drawn.links) leaving[from]!.push(to);
  const found = openGroups(drawn.boxes).map((path) => ({ path, inside: membersOf(drawn.boxes, path, leaving) }));
  return found.filter(({ inside }) => inside.length > 1);
}

/** Return which boxes belong into a group: its own, and leaves that nothing outside it reads. */
function membersOf(boxes: readonly Box[], path: string, leaving: readonly number[][]): number[] {
  const found = boxes.map((box) => isWithin(box.group, path));
  for (let k = found.length - 1; k >= 0; k--) {
    const passive = ["input", "constant", "splitter"].includes(boxes[k]!.kind);
    if (passive && leaving[k]!.length) found[k] = leaving[k]!.every((reader) => found[reader]);
  }
  return [...found.keys()].filter((k) => found[k]);
}

/** Return how many levels of groups are inside each. */
function levelsOf(drawn: Drawing): Map<string, number> {
  const found = new Map<string, number>();
  for (const path of openGroups(drawn.boxes)) {
    const parts = path.split("/");
    for (const k of parts.keys()) {
      const outer = parts.slice(0, k + 1).join("/");
      found.set(outer, Math.max(found.get(outer) ?? 0, parts.length - 1 - k));
    }
  }
  return found;
}

/** Return where each rank begins and ends along, half the gaps around it included. */
function stopsOf(figure: Figure): Map<number, Span> {
  const extents = new Map<number, Span>();
  const band = new Map<number, number>();
  for (const [k, rank] of figure.ranks.entries()) {
    const [start, end] = spanOf(figure.extents[k]!, figure.down);
    const [low, high] = extents.get(rank) ?? [start, end];
    extents.set(rank, [Math.min(low, start), Math.max(high, end)]);
    band.set(rank, figure.bands[k]!);
  }
  const found = new Map<number, Span>();
  for (const [rank, [low, high]] of extents) found.set(rank, [low - SIDE - SIDE_STEP, high + SIDE + SIDE_STEP]);
  const ranks = [...extents.keys()].sort((a, b) => a - b);
  for (const [k, two] of ranks.entries()) {
    const one = ranks[k - 1];
    if (one === undefined || band.get(one) !== band.get(two)) continue;
    const middle = Math.floor(((extents.get(one)?.[1] ?? 0) + (extents.get(two)?.[0] ?? 0)) / 2);
    found.set(one, [found.get(one)?.[0] ?? 0, middle]);
    found.set(two, [middle, found.get(two)?.[1] ?? 0]);
  }
  return found;
}

/** What the columns of a frame around some boxes are made from. */
interface Around {
  down: boolean;
  stops: Map<number, Span>;
  side: number;
  /** How far the frame is before its boxes, along and across. */
  before: Span;
  others: Rect[];
  ranks: [rank: number, rects: Rect[]][];
}

function around(figure: Figure, inside: readonly number[], stops: Map<number, Span>, level: number): Around {
  const { down } = figure;
  const side = SIDE + SIDE_STEP * level;
  // The name stands at the top of the page, whichever way values flow.
  const top = TOP + TOP_STEP * level;
  const members = new Set(inside);
  const byRank = new Map<number, Rect[]>();
  for (const box of inside) listOf(byRank, figure.ranks[box]!).push(figure.extents[box]!);
  return {
    down,
    stops,
    side,
    before: down ? [top, side] : [side, top],
    others: figure.extents.filter((_, box) => !members.has(box)),
    ranks: [...byRank].sort(([a], [b]) => a - b),
  };
}

/** Return where a frame starts and ends along. */
function reach({ ranks, stops, before, side, down }: Around): Span {
  const [firstRank, firstRects] = ranks[0]!;
  const [lastRank, lastRects] = last(ranks);
  const ends = [...firstRects, ...lastRects].map((rect) => spanOf(rect, down));
  const start = Math.max(least(ends.map(([low]) => low), 0) - before[0], stops.get(firstRank)?.[0] ?? 0);
  return [start, Math.min(most(ends.map(([, high]) => high), 0) + side, stops.get(lastRank)?.[1] ?? 0)];
}

/** Return one column for all ranks. */
function wholeColumn(some: Around): Rect[] {
  return [column(some, reach(some), some.ranks.flatMap(([, rects]) => rects))];
}

/** Return a column for each rank, every one reaching to where the one before it is. */
function steppedColumns(some: Around): Rect[] {
  const [start, end] = reach(some);
  const cuts = [start, ...some.ranks.slice(1).map(([rank]) => some.stops.get(rank)?.[0] ?? 0), end];
  const found: Rect[] = [];
  for (const [k, [, rects]] of some.ranks.entries()) {
    const made = column(some, [cuts[k]!, cuts[k + 1]!], rects);
    found.push(k ? joined(last(found), made, some.down) : made);
  }
  return found;
}

function column(some: Around, along: Span, rects: readonly Rect[]): Rect {
  const spans = rects.map((rect) => acrossOf(rect, some.down));
  const low = least(spans.map(([start]) => start), 0) - some.before[1];
  return rectOf(along, [low, most(spans.map(([, end]) => end), 0) + some.side], some.down);
}

function joined(before: Rect, made: Rect, down: boolean): Rect {
  const [low, high] = acrossOf(before, down);
  const [first, end] = acrossOf(made, down);
  return rectOf(spanOf(made, down), [Math.min(first, high - 2 * SIDE), Math.max(end, low + 2 * SIDE)], down);
}

function rectOf([start, end]: Span, [low, high]: Span, down: boolean): Rect {
  const [x, y] = turned([start, low], down);
  const [width, height] = turned([end - start, high - low], down);
  return { x, y, width, height };
}

function spanOf(rect: Rect, down: boolean): Span {
  return down ? [rect.y, rect.y + rect.height] : [rect.x, rect.x + rect.width];
}

function acrossOf(rect: Rect, down: boolean): Span {
  return spanOf(rect, !down);
}

/** Return the corners of a frame, once around; columns follow each other in the direction in which values flow. */
function outlineOf(columns: readonly Rect[], down: boolean): Spot[] {
  const there: Spot[] = [];
  const back: Spot[] = [];
  for (const rect of columns) {
    const [start, end] = spanOf(rect, down);
    const [low, high] = acrossOf(rect, down);
    there.push([start, low], [end, low]);
    back.unshift([end, high], [start, high]);
  }
  return withoutStraight([...there, ...back]).map((point) => turned(point, down));
}

/** Return the corners of an outline without those at which it does not turn. */
function withoutStraight(points: readonly Spot[]): Spot[] {
  return points.filter(([x, y], k) => {
    const before = points[(k + points.length - 1) % points.length]!;
    const behind = points[(k + 1) % points.length]!;
    if (x === behind[0] && y === behind[1]) return false;
    const straight = (before[0] === x && x === behind[0]) || (before[1] === y && y === behind[1]);
    return !straight;
  });
}
