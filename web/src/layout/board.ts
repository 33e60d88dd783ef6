/** What the layout works on: boxes and wires in ranks, and the bends of wires that skip ranks. */
import { last, listOf, most, quotient, times } from "./arrays";
import { bands, leavesAlong } from "./folds";
import { LONGEST, MAX_OWN_BENDS, type Joint, type Metrics, type Shape } from "./shapes";

/** Items in the next rank, each with where its port lies: -0.5 at one end of the box, 0.5 at the other. */
export type Near = [item: number, at: number][];

/** A layout in progress. Items below `boxes` are boxes, the others bends of wires. */
export interface Board {
  shapes: readonly Shape[];
  joints: readonly Joint[];
  metrics: Metrics;
  boxes: number;
  /** How many ports each box has, and which one each wire ends at. */
  ports: number[];
  port: number[];
  rank: number[];
  /** The band of every rank. */
  bands: number[];
  /** What each item reads, and what reads it. */
  before: Near[];
  behind: Near[];
  /** The box whose output each item carries. */
  owner: number[];
  /** Bends, rank by rank: those of one wire, or those that the many wires of one box share. */
  trunks: Map<number, number[]>;
  /** The bends of every wire; null for a stub. */
  bends: (number[] | null)[];
  /** The items of every rank, in order. */
  rows: number[][];
  /** How much room the labels before each rank need. */
  labels: number[];
  /** How much room each box needs behind it. */
  after: number[];
  /** The room each item needs across, around its middle, and what it needs besides on its far side. */
  sizes: number[];
  below: number[];
  /** Where the middle of each item stands across. */
  middle: number[];
}

/** Put boxes and wires on a board: ranks, bands, bends and sizes. */
export function newBoard(shapes: readonly Shape[], joints: readonly Joint[], metrics: Metrics): Board {
  const early = ranks(shapes, joints);
  const along = leavesAlong(joints, early, bands(shapes, joints, early, metrics));
  const board: Board = {
    shapes,
    joints,
    metrics,
    boxes: shapes.length,
    ports: countPorts(shapes.length, joints),
    port: joints.map((joint) => joint.port),
    rank: along.ranks,
    bands: along.bands,
    before: shapes.map(() => []),
    behind: shapes.map(() => []),
    owner: shapes.map((_, k) => k),
    trunks: new Map(),
    bends: [],
    rows: [],
    labels: [],
    after: shapes.map((shape) => shape.after ?? 0),
    sizes: [],
    below: [],
    middle: [],
  };
  const readers = new Map<number, number>();
  for (const { source } of joints) readers.set(source, (readers.get(source) ?? 0) + 1);
  board.bends = joints.map((joint, wire) => bend(board, joint, readers.get(joint.source)! > MAX_OWN_BENDS ? joint.source : board.boxes + wire));
  board.rows = rowsOf(board);
  board.labels = board.rows.map(() => 0);
  for (const [k, joint] of joints.entries()) reserve(board, joint, board.bends[k] === null);
  board.sizes = board.rank.map((_, item) => (item < board.boxes ? room(shapes[item]!) : 0));
  board.below = board.rank.map((_, item) => shapes[item]?.below ?? 0);
  board.middle = board.rank.map(() => 0);
  return board;
}

function room(shape: Shape): number {
  return Math.max(shape.across, shape.reserve ?? 0);
}

function reserve(board: Board, joint: Joint, stub: boolean): void {
  const rank = board.rank[joint.target]!;
  const wanted = (joint.label ?? 0) + (stub ? (joint.far ?? 0) : 0);
  board.labels[rank] = Math.max(board.labels[rank]!, wanted);
  if (stub) board.after[joint.source] = Math.max(board.after[joint.source]!, joint.tail ?? 0);
}

/** Give a wire a bend in each rank it skips; wires with the same key share theirs, like a trunk. */
function bend(board: Board, joint: Joint, key: number): number[] | null {
  const first = board.rank[joint.source]!;
  const end = board.rank[joint.target]!;
  if (end - first > LONGEST || board.bands[first] !== board.bands[end]) return null;
  const trunk = listOf(board.trunks, key);
  while (trunk.length < end - first - 1) {
    const before = trunk.length ? last(trunk) : joint.source;
    const item = board.rank.length;
    board.rank.push(first + 1 + trunk.length);
    board.owner.push(joint.source);
    board.before.push([[before, 0]]);
    board.behind.push([]);
    board.behind[before]!.push([item, 0]);
    trunk.push(item);
  }
  const bends = trunk.slice(0, end - first - 1);
  const before = bends.length ? last(bends) : joint.source;
  const lean = board.shapes[joint.target]!.free ? 0 : leanOf(board, joint.port, joint.target);
  board.behind[before]!.push([joint.target, lean]);
  board.before[joint.target]!.push([before, lean]);
  return bends;
}

function leanOf(board: Board, port: number, box: number): number {
  const { across } = board.shapes[box]!;
  return (portOffset(board, port, box) - quotient(across, 2)) / across;
}

/** Return the items of every rank: boxes in their order, each with the bends of its wires behind it. */
function rowsOf(board: Board): number[][] {
  const rows: number[][] = times(most(board.rank, -1) + 1, () => []);
  const items = board.rank.map((_, item) => item).sort((a, b) => board.owner[a]! - board.owner[b]!);
  for (const item of items) rows[board.rank[item]!]!.push(item);
  return rows;
}

/** Return how far apart the middles of two neighbours must be. */
export function distance(board: Board, one: number, two: number): number {
  const gap = one < board.boxes && two < board.boxes ? board.metrics.apart : board.metrics.beside;
  const before = board.sizes[one]!;
  return before - quotient(before, 2) + board.below[one]! + gap + quotient(board.sizes[two]!, 2);
}

/** Return how far from its first corner a port of a box lies, across. */
export function portOffset(board: Board, port: number, box: number): number {
  const { across, inset = 0 } = board.shapes[box]!;
  return inset + quotient((across - 2 * inset) * (2 * port + 1), 2 * board.ports[box]!);
}

/**
 * Return the rank of every box: as early as its inputs allow, then as late as its readers allow. The longest line keeps
 * its place; leaves, and chains beside that line, move up to their readers.
 */
export function ranks(shapes: readonly Shape[], joints: readonly Joint[]): number[] {
  const found = shapes.map(() => 0);
  for (const { source, target } of [...joints].sort((a, b) => a.target - b.target)) {
    found[target] = Math.max(found[target]!, found[source]! + 1);
  }
  const first = shapes.map(() => -1);
  // Every reader of the source is settled: it comes later, and so did the wires that leave it.
  for (const { source, target } of [...joints].sort((a, b) => b.source - a.source)) {
    const latest = found[target]! - 1;
    first[source] = first[source]! < 0 ? latest : Math.min(first[source]!, latest);
    found[source] = first[source]!;
  }
  return found;
}

function countPorts(boxes: number, joints: readonly Joint[]): number[] {
  const found = times(boxes, () => 0);
  for (const { target, port } of joints) found[target] = Math.max(found[target]!, port + 1);
  return found;
}
