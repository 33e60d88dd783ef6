/**
 * Where a forward and a backward pass of a large circuit are: a position is a number of steps, one for each node that a
 * pass visits, and one for the seed between the two passes. Pure. Kept true: everything that is shown of a position
 * follows from the position alone, so stepping back is exact.
 */
import type { Board, BoardBox, Loop, Order } from "./answers";

/** A pass over the nodes: which ones, in which order, and how many there are before each. */
export interface Passage {
  /** The nodes of the forward pass, ascending, and of the backward pass, descending. */
  forward: Int32Array;
  backward: Int32Array;
  /** Steps in all. */
  total: number;
}

export type Phase = "start" | "forward" | "seed" | "backward";

/** Where a position is. */
export interface Spot {
  phase: Phase;
  /** The node that was visited last; -1 where there is none. */
  node: number;
  /** How many function nodes have values, and from which position in the forward pass on nodes have gradients. */
  done: number;
  from: number;
  /** How many nodes the backward pass has visited. */
  back: number;
}

/** Read which nodes are visited. */
export function passageOf({ forward, backward }: Order): Passage {
  const ahead = nodesIn(forward);
  const behind = nodesIn(backward).reverse();
  return { forward: ahead, backward: behind, total: ahead.length + 1 + behind.length };
}

function nodesIn(bits: string): Int32Array {
  const bytes = Uint8Array.from(atob(bits), (letter) => letter.charCodeAt(0));
  const nodes: number[] = [];
  bytes.forEach((byte, k) => {
    for (let bit = 0; byte >> bit; bit++) if ((byte >> bit) & 1) nodes.push(8 * k + bit);
  });
  return Int32Array.from(nodes);
}

/** How many entries of an ascending list are smaller. */
export function countBelow(list: ArrayLike<number>, limit: number): number {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle]! < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** How many nodes of the backward pass come no later than a node. */
function countBack({ backward }: Passage, node: number): number {
  let [low, high] = [0, backward.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (backward[middle]! >= node) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Where a position is in the passes. */
export function spotAt(passage: Passage, at: number): Spot {
  const { forward, backward } = passage;
  const { length } = forward;
  if (at <= length) return { phase: at ? "forward" : "start", node: at ? forward[at - 1]! : -1, done: at, from: length, back: 0 };
  const back = at - length - 1;
  const node = back ? backward[back - 1]! : -1;
  const from = back === backward.length ? 0 : back ? countBelow(forward, node) : length;
  return { phase: back ? "backward" : "seed", node, done: length, from, back };
}

/** The position after a node was visited. */
export function positionOf(passage: Passage, phase: "forward" | "backward", node: number): number {
  const { forward } = passage;
  return phase === "forward" ? countBelow(forward, node) + 1 : forward.length + 1 + countBack(passage, node);
}

/** How many nodes of a box have values and gradients. */
export function progressOf({ ranges, exact, count }: BoardBox, { done, from }: Spot): { forward: number; backward: number } {
  let [forward, backward, all] = [0, 0, 0];
  for (const [first, last] of ranges) {
    all += last + 1 - first;
    forward += Math.max(0, Math.min(last + 1, done) - first);
    backward += Math.max(0, last + 1 - Math.max(first, from));
  }
  const scale = exact || !all ? 1 : count / all;
  return { forward: Math.round(forward * scale), backward: Math.round(backward * scale) };
}

export type Size = "node" | "group" | "iteration";

/** The positions at which something of a size has been passed, ascending; places where a pass stops are among them. */
export function targetsOf(passage: Passage, size: Size, board: Board, loop: Loop | null, stops: readonly number[]): number[] {
  const { forward, total } = passage;
  const cuts = size === "group"
    ? board.boxes.filter(({ open }) => !open).flatMap(({ ranges }) => ranges.flatMap(([first, last]) => [first, last + 1]))
    : (loop?.starts ?? []).map((node) => countBelow(forward, node));
  const inside = [...new Set(cuts)].filter((cut) => cut > 0 && cut < forward.length);
  const back = inside.map((cut) => positionOf(passage, "backward", forward[cut]!));
  return [...new Set([0, ...inside, forward.length, forward.length + 1, ...back, ...stops, total])].sort((a, b) => a - b);
}

/** The position of the next step, or of the one before. */
export function stepFrom(at: number, by: 1 | -1, targets: readonly number[] | null, total: number): number {
  if (!targets) return Math.max(0, Math.min(total, at + by));
  return by > 0 ? (targets.find((target) => target > at) ?? total) : (targets[countBelow(targets, at) - 1] ?? 0);
}

/** The step of a loop in which a node is; null outside of it. */
export function iterationOf(loop: Loop | null, node: number): number | null {
  if (!loop || node < loop.starts[0]!) return null;
  return loop.first + countBelow(loop.starts, node + 1) - 1;
}
