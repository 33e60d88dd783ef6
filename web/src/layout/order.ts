/** The order of items within ranks: median sweeps, and for small pictures the best of them. */
import { bisectRight } from "./arrays";
import type { Board, Near } from "./board";

/** Up to so many boxes, so many median sweeps; 2 above. */
const SWEEPS: readonly [most: number, sweeps: number][] = [
  [200, 24],
  [2000, 8],
];
/** Up to so many boxes crossings are counted and neighbours swapped. */
const EXACT = 200;
/** How often neighbours are tried for a swap. */
const SWAPS = 8;

/** Put the items of every rank into an order with few crossings. */
export function order(board: Board): void {
  const place = board.rank.map(() => 0);
  for (const row of board.rows) number(row, place);
  const sweeps = SWEEPS.find(([most]) => board.boxes <= most)?.[1] ?? 2;
  const exact = board.boxes <= EXACT;
  let best = board.rows.map((row) => [...row]);
  let fewest = exact ? crossings(board, place) : 0;
  for (let k = 0; k < sweeps; k++) {
    if (exact && !fewest) break;
    if (k % 2) sweep(board.rows.slice(1), board.before, place);
    else sweep(board.rows.slice(0, -1).reverse(), board.behind, place);
    const found = exact ? crossings(board, place) : 0;
    if (found < fewest) [best, fewest] = [board.rows.map((row) => [...row]), found];
  }
  if (!exact) return;
  board.rows = best;
  for (const row of best) number(row, place);
  swap(board, place);
}

function number(row: readonly number[], place: number[]): void {
  for (const [k, item] of row.entries()) place[item] = k;
}

/** Sort each row by the median place of what its items read, or are read by; items without stay where they are. */
function sweep(rows: readonly number[][], near: readonly Near[], place: number[]): void {
  for (const row of rows) {
    const keys = row.map((item) => median(near[item]!, place));
    const moving = [...keys.keys()].filter((k) => keys[k] !== null);
    // Sorting is stable: what has one median stays in order, so the branches of a splitter stay together.
    const items = [...moving].sort((a, b) => (keys[a] ?? 0) - (keys[b] ?? 0)).map((k) => row[k]!);
    for (const [j, k] of moving.entries()) row[k] = items[j]!;
    number(row, place);
  }
}

function median(near: Near, place: readonly number[]): number | null {
  if (!near.length) return null;
  const found = near.map(([item, lean]) => place[item]! + lean).sort((a, b) => a - b);
  const half = found.length >> 1;
  return found.length % 2 ? found[half]! : (found[half - 1]! + found[half]!) / 2;
}

/** Return how many pairs of wires cross between neighbouring ranks. */
export function crossings(board: Board, place: readonly number[]): number {
  let total = 0;
  for (const row of board.rows) {
    const seen: number[] = [];
    for (const item of row) {
      const ends = board.behind[item]!.map(([reader, lean]) => place[reader]! + lean);
      for (const end of ends) total += seen.length - bisectRight(seen, end);
      for (const end of ends) seen.splice(bisectRight(seen, end), 0, end);
    }
  }
  return total;
}

/** Swap neighbours wherever that removes crossings, until nothing changes or often enough. */
function swap(board: Board, place: number[]): void {
  for (let round = 0; round < SWAPS; round++) {
    let changed = false;
    for (const row of board.rows) {
      for (let k = 0; k + 1 < row.length; k++) {
        const one = row[k]!;
        const two = row[k + 1]!;
        if (gain(board, one, two, place) <= 0) continue;
        [row[k], row[k + 1]] = [two, one];
        [place[one], place[two]] = [k + 1, k];
        changed = true;
      }
    }
    if (!changed) return;
  }
}

/** Return how many crossings go away when two neighbours change places. */
function gain(board: Board, one: number, two: number, place: readonly number[]): number {
  let total = 0;
  for (const near of [board.before, board.behind]) {
    const lean = near === board.behind ? 1 : 0;
    for (const [a, leanA] of near[one]!) {
      const left = place[a]! + lean * leanA;
      for (const [b, leanB] of near[two]!) total += Math.sign(left - (place[b]! + lean * leanB));
    }
  }
  return total;
}
