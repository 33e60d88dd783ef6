/**
 * Where the boxes of a board are: groups that are open are frames around what is in them, everything else stands in
 * columns from left to right, as the wires lead, and long rows are wrapped. Pure; sizes do not depend on numbers.
 */
import { most } from "../layout/arrays";
import type { Board, BoardBox } from "./answers";

export interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** A board with places; `lines` has the two ends of every link. */
export interface PlacedBoard {
  rects: Rect[];
  lines: [Rect, Rect][];
  width: number;
  height: number;
}

/** The side of the square of a node. */
export const NODE = 48;
const SIZES: Record<BoardBox["kind"], [width: number, height: number]> = {
  group: [186, 128], range: [186, 132], node: [126, 90], input: [112, 58], inputs: [170, 58],
};
const GAP = 20;
const AISLE = 24;
const PAD = 14;
const HEAD = 40;

/** No wrap, and after how many columns rows may be wrapped. */
const ENDLESS = 99;
const WRAPS = [14, 10, 8, 6, 5, 4, 3, 2];

/** After how many columns rows are wrapped: those of the board itself, those of the outermost open groups, all others. */
type Wraps = [board: number, group: number, inner: number];

/** Lay a board out for a frame: rows are wrapped where that makes everything largest. */
export function placeBoard(board: Board, width: number, height: number): PlacedBoard {
  const scale = (one: PlacedBoard): number => Math.min(width / one.width, height / one.height);
  const inner = WRAPS.map((wrap): Wraps => [ENDLESS, wrap, ENDLESS]);
  const outer = WRAPS.map((wrap): Wraps => [wrap, wrap, wrap]);
  // A wrapped row is harder to follow, so it has to gain something.
  return [...inner, ...outer]
    .map((wraps) => placed(board, wraps))
    .reduce((best, next) => (scale(next) > scale(best) * 1.08 ? next : best), placed(board, [ENDLESS, ENDLESS, ENDLESS]));
}

function placed(board: Board, wraps: Wraps): PlacedBoard {
  const { boxes, links } = board;
  const rects: Rect[] = boxes.map(({ kind }) => ({ x: 0, y: 0, width: SIZES[kind][0], height: SIZES[kind][1] }));
  // Boxes stand behind the frames that they are in, so that frames are sized from the inside.
  const inside = new Map<number, number[]>();
  boxes.forEach(({ id, parent }) => inside.set(parent, [...(inside.get(parent) ?? []), id]));
  const frames = [...boxes.filter(({ open }) => open).map(({ id }) => id).reverse(), -1];
  let whole = { width: 0, height: 0 };
  for (const frame of frames) {
    const size = columns(inside.get(frame) ?? [], boxes, links, rects, wraps[frame < 0 ? 0 : boxes[frame]!.parent < 0 ? 1 : 2]);
    if (frame < 0) whole = size;
    else Object.assign(rects[frame]!, { width: Math.max(size.width + 2 * PAD, 260), height: size.height + HEAD + PAD });
  }
  // Places so far are relative to the frame; frames come before what is in them.
  boxes.forEach(({ id, parent }) => {
    if (parent < 0) return;
    rects[id]!.x += rects[parent]!.x + PAD;
    rects[id]!.y += rects[parent]!.y + HEAD;
  });
  return { rects, lines: links.map((link) => [port(boxes, rects, link.from), port(boxes, rects, link.to)]), ...whole };
}

/** What a wire ends at: the square of a node, or the whole box. */
function port(boxes: readonly BoardBox[], rects: readonly Rect[], id: number): Rect {
  const rect = rects[id]!;
  return boxes[id]!.kind === "node" ? { x: rect.x + 12, y: rect.y + 14, width: NODE, height: NODE } : rect;
}

function columns(ids: readonly number[], boxes: readonly BoardBox[], links: Board["links"], rects: Rect[], wrap: number): { width: number; height: number } {
  const own = new Map(ids.map((id, k) => [id, k]));
  const lift = (id: number): number | undefined => {
    for (let up = id; up >= 0; up = boxes[up]!.parent) if (own.has(up)) return own.get(up);
    return undefined;
  };
  const ranks = ids.map(() => 0);
  const sources = ids.map((): number[] => []);
  const pairs = links.flatMap(({ from, to }) => {
    const [start, end] = [lift(from), lift(to)];
    return start !== undefined && end !== undefined && start < end ? [[start, end] as const] : [];
  });
  for (const [start, end] of pairs.sort((a, b) => a[1] - b[1])) {
    ranks[end] = Math.max(ranks[end]!, ranks[start]! + 1);
    sources[end]!.push(start);
  }
  const rows: number[][][] = [];
  ranks.forEach((rank, k) => {
    const row = (rows[Math.floor(rank / wrap)] ??= []);
    (row[rank % wrap] ??= []).push(k);
  });
  const middle = ids.map((_, k) => k);
  let [top, width] = [0, 0];
  for (const row of rows) {
    const heights = row.map((some) => some.reduce((sum, k) => sum + rects[ids[k]!]!.height + GAP, -GAP));
    const height = most(heights, 0);
    let left = 0;
    row.forEach((some, column) => {
      const wide = most(some.map((k) => rects[ids[k]!]!.width), 0);
      const wanted = (k: number): number => sources[k]!.reduce((sum, from) => sum + middle[from]!, 0) / (sources[k]!.length || 1);
      some.sort((a, b) => wanted(a) - wanted(b) || a - b);
      let y = top + (height - heights[column]!) / 2;
      for (const k of some) {
        const rect = rects[ids[k]!]!;
        Object.assign(rect, { x: left + (wide - rect.width) / 2, y });
        middle[k] = y + rect.height / 2;
        y += rect.height + GAP;
      }
      left += wide + AISLE;
    });
    width = Math.max(width, left - AISLE);
    top += height + AISLE;
  }
  return { width, height: Math.max(0, top - AISLE) };
}

/** The path of a wire; one that leads back to the left goes around underneath. */
export function wirePath([from, to]: [Rect, Rect]): string {
  const [x1, y1] = [from.x + from.width, from.y + from.height / 2];
  const [x2, y2] = [to.x, to.y + to.height / 2];
  if (x2 < x1) {
    const turn = from.y + from.height < to.y ? (from.y + from.height + to.y) / 2 : Math.max(from.y + from.height, to.y + to.height) + 12;
    return `M${x1} ${y1}h4Q${x1 + 14} ${y1} ${x1 + 14} ${y1 + 10}V${turn - 10}Q${x1 + 14} ${turn} ${x1 + 4} ${turn}H${x2 - 4}Q${x2 - 14} ${turn} ${x2 - 14} ${turn + 10 * Math.sign(y2 - turn)}V${y2 - 10 * Math.sign(y2 - turn)}Q${x2 - 14} ${y2} ${x2 - 4} ${y2}H${x2}`;
  }
  // The numbers of a node stand beside the first stretch of its wire.
  const lead = from.width === NODE ? Math.min(58, (x2 - x1) / 2) : 0;
  const bend = Math.max(12, Math.min(90, (x2 - x1 - lead) / 2));
  return `M${x1} ${y1}h${lead}C${x1 + lead + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}
