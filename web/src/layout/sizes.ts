/**
 * The sizes of everything in a picture, in one place. They depend on structure only (op, name, number of ports) and on
 * the detail level, never on a value, so that nothing moves while a slider moves or a step is made. Python's are the
 * same: `src/wiregrad/draw/layout/figure.py`.
 */

/** How much a picture shows: each level drops one thing more, the last draws everything smaller. */
export const DETAIL = {
  /** Everything. */
  full: 0,
  /** Without the word "gradient" in leaves. */
  noWord: 1,
  /** Without local derivatives at ports. */
  noLocal: 2,
  /** Without captions. */
  noCaption: 3,
  /** Without gradients on the branches of a value. */
  noBranch: 4,
  /** The same with smaller boxes, closer together. */
  compact: 5,
} as const;

/** Lengths in px at scale 1. */
export interface Sizes {
  /** Side of a function node with a sign, and the least width of one with a word. */
  node: number;
  word: number;
  /** Font sizes: sign of an op, op that is a word, number, name in a leaf, caption and labels, local derivative. */
  signFont: number;
  wordFont: number;
  numberFont: number;
  nameFont: number;
  labelFont: number;
  pillFont: number;
  /** Height of a leaf with numbers and of one without; its inner margin. */
  leaf: number;
  bareLeaf: number;
  pad: number;
  /** Room for a number of eight characters. */
  slot: number;
  /** How far behind a port its numbers start, and how much stays free behind them. */
  gap: number;
  slack: number;
  /** Room for the head of a wire before a box, and behind a leaf. */
  head: number;
  tail: number;
  /** Room for a local derivative, and its height. */
  pill: number;
  pillHeight: number;
  /** Diameter of a splitter while it adds, and of its dot while it copies; the dot of an output. */
  splitter: number;
  dot: number;
  /** Distance of ports, and of ports of a group with many wires. */
  port: number;
  crowdedPort: number;
  /** Least width of a closed group, and its height with and without numbers. */
  group: number;
  groupHeight: number;
  bareGroupHeight: number;
  /** Distances between boxes across, around bends, and along before and behind tracks. */
  apart: number;
  beside: number;
  lead: number;
  /** Radius of the corners of wires. */
  corner: number;
}

const NORMAL: Sizes = {
  node: 48, word: 64, signFont: 24, wordFont: 16, numberFont: 13, nameFont: 16, labelFont: 12, pillFont: 12,
  leaf: 56, bareLeaf: 36, pad: 12, slot: 64, gap: 20, slack: 8, head: 12, tail: 16, pill: 76, pillHeight: 20, splitter: 20, dot: 11,
  port: 28, crowdedPort: 12, group: 148, groupHeight: 84, bareGroupHeight: 56, apart: 20, beside: 16, lead: 14,
  corner: 14,
};

const COMPACT: Sizes = {
  ...NORMAL,
  node: 36, word: 44, signFont: 18, wordFont: 13, numberFont: 12, nameFont: 14, labelFont: 12, pillFont: 12,
  leaf: 44, bareLeaf: 32, pad: 8, slot: 52, gap: 10, slack: 4, head: 8, tail: 12, splitter: 18, dot: 10, port: 20, group: 104, groupHeight: 76,
  apart: 8, beside: 10, lead: 6, corner: 10,
};

/** Return the sizes at a detail level. */
export function sizesOf(detail: number): Sizes {
  return detail >= DETAIL.compact ? COMPACT : NORMAL;
}

/** Return the detail level of a picture that need not fit a frame. */
export function usualDetail(boxes: number): number {
  if (boxes <= 40) return DETAIL.full;
  return boxes <= 80 ? DETAIL.noLocal : DETAIL.compact;
}
