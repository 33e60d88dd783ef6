/** Where items stand across: pulled towards what they are joined to, with order and distances kept exactly. */
import { last, least, listOf, most, quotient, quotientUp } from "./arrays";
import { distance, type Board } from "./board";

/** How often ranks are pulled, to what they read and to what reads them in turn. */
const PULLS = 6;
/** A bend weighs more than a box, so that long wires run straight; a leaf less, so that it gives way to a main line. */
const BEND = 8;
const LEAF = 0.02;
/** The weight of what must not move. */
const HELD = 1e6;

/** A row of items with how far each of them is from the first, at least. */
interface Row {
  items: readonly number[];
  offsets: readonly number[];
}

/** Give every item its place across, as whole numbers from 0. */
export function placeAcross(board: Board): void {
  const rows = board.rows.map((items) => ({ items, offsets: offsetsOf(board, items) }));
  for (const row of rows) settle(board, row, () => 0, () => 1);
  for (let k = 0; k < PULLS; k++) {
    const wish = k % 2 === 0 ? forward : backward;
    const walk = k % 2 === 0 ? rows : [...rows].reverse();
    for (const row of walk) settle(board, row, (item) => wish(board, item), (item) => weight(board, item));
  }
  settleLeaves(board, rows);
  // Leaves that are read together have spread: what reads them moves to their middle, and so do its readers.
  const follow = (item: number): number => (moves(board, item) ? forward(board, item) : board.middle[item]!);
  for (const row of rows) settle(board, row, follow, (item) => weight(board, item));
  settleLeaves(board, rows);
  roundOff(board);
  alignSingleInputs(board);
  straighten(board);
  stack(board);
  choosePorts(board);
}

/** Move leaves to what reads them; nothing else moves. */
function settleLeaves(board: Board, rows: readonly Row[]): void {
  for (const row of [...rows].reverse()) {
    settle(board, row, (item) => leafPlace(board, item), (item) => (isLeaf(board, item) ? 1 : HELD));
  }
}

function offsetsOf(board: Board, row: readonly number[]): number[] {
  let offset = 0;
  return row.map((item, k) => (k ? (offset += distance(board, row[k - 1]!, item)) : 0));
}

function weight(board: Board, item: number): number {
  if (item >= board.boxes) return BEND;
  return isLeaf(board, item) ? LEAF : 1;
}

/** Whether an item is a box that reads something: neither a leaf nor a bend. */
function moves(board: Board, item: number): boolean {
  return item < board.boxes && board.before[item]!.length > 0;
}

function isLeaf(board: Board, item: number): boolean {
  return item < board.boxes && !board.before[item]!.length;
}

/** Return where an item wants to be for what it reads; a main line counts more than leaves beside it. */
function forward(board: Board, item: number): number {
  const near = board.before[item]!;
  if (!near.length) return board.behind[item]!.length ? backward(board, item) : board.middle[item]!;
  const inner = near.filter(([source]) => !isLeaf(board, board.owner[source]!));
  const pulls = inner.length ? inner : near;
  const size = extent(board, item);
  let total = 0;
  for (const [source, lean] of pulls) total += board.middle[source]! - lean * size;
  return total / pulls.length;
}

/** Return where an item wants to be for what reads it. */
function backward(board: Board, item: number): number {
  const near = board.behind[item]!;
  if (!near.length) return board.before[item]!.length ? forward(board, item) : board.middle[item]!;
  // A trunk that goes on does so straight; what leaves it on the way turns.
  const on = item >= board.boxes ? near.filter(([reader]) => reader >= board.boxes) : near;
  const pulls = on.length ? on : near;
  let total = 0;
  for (const [reader, lean] of pulls) total += board.middle[reader]! + lean * extent(board, reader);
  return total / pulls.length;
}

function leafPlace(board: Board, item: number): number {
  return isLeaf(board, item) ? backward(board, item) : board.middle[item]!;
}

function extent(board: Board, item: number): number {
  return item < board.boxes ? board.shapes[item]!.across : 0;
}

/**
 * Put the items of a row as near as they can be to where they want to be, by least squares. Items that would come too
 * close are pooled and move together (pool adjacent violators).
 */
function settle(board: Board, row: Row, wish: (item: number) => number, weigh: (item: number) => number): void {
  const { items, offsets } = row;
  const wanted = items.map(wish);
  const weights = items.map(weigh);
  const blocks: { mean: number; heavy: number; many: number }[] = [];
  for (const [k, want] of wanted.entries()) {
    let block = { mean: want - offsets[k]!, heavy: weights[k]!, many: 1 };
    while (blocks.length && last(blocks).mean > block.mean) {
      const other = last(blocks);
      blocks.pop();
      const heavy = block.heavy + other.heavy;
      const mean = (block.mean * block.heavy + other.mean * other.heavy) / heavy;
      block = { mean, heavy, many: block.many + other.many };
    }
    blocks.push(block);
  }
  let k = 0;
  for (const { mean, many } of blocks) {
    for (const end = k + many; k < end; k++) board.middle[items[k]!] = mean + offsets[k]!;
  }
}

function half(board: Board, item: number): number {
  return quotient(board.sizes[item]!, 2);
}

/** Move everything to the grid, from 0, still with all distances kept. */
function roundOff(board: Board): void {
  const { grid } = board.metrics;
  const firsts = board.rows.flatMap((row) => row.slice(0, 1));
  const start = least(firsts.map((item) => board.middle[item]! - half(board, item)), 0);
  for (const row of board.rows) {
    let before = -1;
    for (const item of row) {
      const place = grid * Math.floor((board.middle[item]! - start) / grid + 0.5);
      const lowest = before < 0 ? half(board, item) : board.middle[before]! + distance(board, before, item);
      board.middle[item] = Math.max(place, grid * quotientUp(lowest, grid));
      before = item;
    }
  }
}

/** Where the room of an item ends across. */
export function endOf(board: Board, item: number): number {
  return Math.trunc(board.middle[item]!) - half(board, item) + board.sizes[item]! + board.below[item]!;
}

/** Move every band below the one before it. */
function stack(board: Board): void {
  let place = 0;
  const bands = board.bands.length ? last(board.bands) + 1 : 0;
  for (let band = 0; band < bands; band++) {
    const rows = board.rows.filter((_, rank) => board.bands[rank] === band);
    const start = least(rows.map((row) => board.middle[row[0]!]! - half(board, row[0]!)), 0);
    for (const item of rows.flat()) board.middle[item]! += place - start;
    const ends = rows.map((row) => endOf(board, last(row)));
    place = most(ends, 0) + board.metrics.band;
  }
}

/** Bring a box with one input and what it reads into one line, if they nearly are: the box moves, or else a leaf. */
function alignSingleInputs(board: Board): void {
  const place = placesIn(board);
  const align = (moved: number, other: number): boolean => {
    const [low, high] = roomOf(board, moved, place[moved]!);
    const spot = board.middle[other]!;
    if (spot < low || spot > high) return false;
    board.middle[moved] = spot;
    return true;
  };
  for (const item of board.rows.flat()) {
    if (item >= board.boxes || board.before[item]!.length !== 1) continue;
    const source = board.before[item]![0]![0];
    if (Math.abs(board.middle[source]! - board.middle[item]!) > board.metrics.near) continue;
    if (!align(item, source) && isLeaf(board, source)) align(source, item);
  }
}

/** Return where in its row each item is. */
function placesIn(board: Board): number[] {
  const place = board.rank.map(() => 0);
  for (const row of board.rows) for (const [k, item] of row.entries()) place[item] = k;
  return place;
}

/**
 * Let wires that skip ranks run straight as far as their neighbours leave room; only bends move. A wire that cannot go
 * on from its source runs straight into its port.
 */
function straighten(board: Board): void {
  const place = placesIn(board);
  for (const trunk of board.trunks.values()) {
    if (!trunk.length) continue;
    let spot = board.middle[board.owner[trunk[0]!]!]!;
    let taken: number[] = [];
    let [low, high] = [-Infinity, Infinity];
    for (const item of trunk) {
      const [lowest, highest] = roomOf(board, item, place[item]!);
      if (Math.max(low, lowest) > Math.min(high, highest)) {
        spot = move(board, taken, Math.min(Math.max(spot, low), high));
        [taken, low, high] = [[], -Infinity, Infinity];
      }
      [low, high] = [Math.max(low, lowest), Math.min(high, highest)];
      taken.push(item);
    }
    if (taken.length && (spot < low || spot > high)) spot = backward(board, last(taken));
    move(board, taken, Math.min(Math.max(spot, low), high));
  }
}

/** Return between which places an item can move without coming too close to its neighbours. */
function roomOf(board: Board, item: number, k: number): [number, number] {
  const row = board.rows[board.rank[item]!]!;
  const before = row[k - 1];
  const behind = row[k + 1];
  const low = before === undefined ? 0 : board.middle[before]! + distance(board, before, item);
  const high = behind === undefined ? Infinity : board.middle[behind]! - distance(board, item, behind);
  return [low, high];
}

function move(board: Board, items: readonly number[], spot: number): number {
  for (const item of items) board.middle[item] = spot;
  return spot;
}

/** Give the wires into boxes with free ports the ports in the order in which they arrive. */
function choosePorts(board: Board): void {
  const arriving = new Map<number, [number, number][]>();
  for (const [k, joint] of board.joints.entries()) {
    if (!board.shapes[joint.target]!.free) continue;
    const chain = board.bends[k] ?? [];
    const item = chain.length ? last(chain) : joint.source;
    listOf(arriving, joint.target).push([board.middle[item]!, k]);
  }
  for (const wires of arriving.values()) {
    wires.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    for (const [port, [, k]] of wires.entries()) board.port[k] = port;
  }
}
