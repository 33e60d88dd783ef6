/**
 * Which nodes share a box when not every node is drawn. A collapsed group must not read its own results through a node
 * outside it, or the picture would have a cycle. So the nodes are put into an order that can be run and keeps groups
 * together as far as possible; a box is a run of that order in which all nodes have one group. Every such cut is
 * convex, so wires between boxes only lead forward.
 */
import type { Circuit } from "../types";
import { last, least, listOf, most, pathParts, quotientUp, times } from "./arrays";
import { pop, push } from "./heap";
import { originsOf, type Kinds } from "./kinds";
import { counted } from "./letters";

/** How many boxes a picture has at most, unless told otherwise. */
export const CAP = 300;
/** How many boxes a picture has one after another, if groups can help it and nothing else was told. */
export const RANKS = 48;
/** Into how many runs a circuit is cut that has no groups to go by. */
const RUNS = 40;
/** With fewer boxes than this the groups say too little, and the longest are cut. */
const FEW = 8;
/** More inputs than this that only one group reads are drawn together. */
const FEW_LEAVES = 3;
/** Runs of so few nodes are not cut. */
const SHORT = 10;
/** How many times more runs than boxes there may be for neighbouring groups to be drawn together. */
const MIXED = 8;

/** What one box stands for: nodes of one group (or of no group in particular), or a single node. */
export interface Piece {
  path: string;
  nodes: number[];
  single: boolean;
  /** Which of how many pieces of the same path it is. */
  part: readonly [at: number, of: number];
  /** Whether the group is open and the piece holds what is in none of the groups inside it. */
  opened: boolean;
  /** The path of the last of several groups that it holds; empty if it holds one. */
  until: string;
  /** The inputs that are drawn inside it, since they have no room of their own. */
  leaves: number[];
}

/** The pieces in an order in which wires only lead forward, and the piece of every node (-1: drawn nowhere). */
export interface Plan {
  pieces: Piece[];
  owner: number[];
  note: string;
}

/** Every wire of a circuit: its source (behind splitters what entered the first of them) and its reader. */
export interface Ends {
  sources: number[];
  readers: number[];
}

/** What plans are made from. */
export interface Material {
  circuit: Circuit;
  kinds: Kinds;
  inner: number[];
  ends: Ends;
}

/** A key for every function node (-1: a box of its own), and the paths of the keys. */
interface Level {
  keys: number[];
  paths: string[];
}

/** A key and the nodes that have it, in order. */
interface Run {
  key: number;
  nodes: number[];
}

interface Grouped {
  runs: Run[];
  paths: string[];
}

/** What to open: levels of groups, and which groups besides. */
export interface Wanted {
  depth: number | null;
  opened: ReadonlySet<string>;
  cap: number;
  ranks: number | null;
}

/** Return what plans of a circuit are made from. */
export function materialOf(circuit: Circuit, kinds: Kinds): Material {
  const inner = [...kinds.inner.keys()].filter((node) => kinds.inner[node]);
  const origins = originsOf(circuit);
  const ends: Ends = { sources: [], readers: [] };
  for (const [node, { sources }] of circuit.nodes.entries()) {
    for (const source of sources) {
      ends.sources.push(origins[source]!);
      ends.readers.push(node);
    }
  }
  return { circuit, kinds, inner, ends };
}

/** Return the most detailed plan of at most `cap` boxes, with groups open to a depth or as named. */
export function plan(material: Material, wanted: Wanted): Plan {
  const { inner } = material;
  const levels = levelsOf(material, wanted.depth, wanted.opened);
  const found = fitting(material, levels, wanted.cap);
  const [first] = found;
  if (first === undefined) return crowdedPlan(material, levels, wanted.cap);
  const { ranks } = wanted;
  const short = ranks === null ? first : (found.find(({ runs }) => isShort(material, runs, ranks)) ?? first);
  const cut =
    wanted.depth === null && short.runs.length < FEW
      ? cutLong(short.runs, inner.length, Math.min(RUNS, wanted.cap) - short.runs.length)
      : short.runs;
  return finish(material, piecesOf(cut, short.paths), wanted.cap);
}

function crowdedPlan(material: Material, levels: readonly Level[], cap: number): Plan {
  const coarsest = levels.at(-1);
  const pieces = coarsest ? neighbours(material, coarsest, cap) : null;
  const outer = coarsest?.paths.filter((path) => path && !path.endsWith("/")) ?? [];
  const many = outer.length ? `; its ${counted(outer.length, "group")} do not fit` : "";
  return finish(material, pieces ?? equalRuns(material.inner, Math.min(RUNS, cap)), cap, many);
}

/**
 * Return a plan with at most so many boxes one after another, if the nodes are too many for that and groups help;
 * otherwise null: every node can be drawn.
 */
export function shortPlan(material: Material, cap: number, ranks: number): Plan | null {
  const { inner } = material;
  if (!inner.length || longest(material, inner.map((node) => ({ key: -1, nodes: [node] }))) <= ranks) return null;
  const levels = levelsOf(material, null, new Set());
  const found = fitting(material, levels, cap).find(({ runs }) => isShort(material, runs, ranks));
  return found ? finish(material, piecesOf(found.runs, found.paths), cap) : null;
}

/** Return the levels that fit, as runs of one key each. */
function fitting(material: Material, levels: readonly Level[], cap: number): Grouped[] {
  return levels.flatMap(({ keys, paths }) => {
    const runs = lowerBound(keys) <= cap ? runsOf(material, keys, cap) : null;
    return runs ? [{ runs, paths }] : [];
  });
}

function isShort(material: Material, runs: readonly Run[], ranks: number): boolean {
  return runs.length >= FEW && longest(material, runs) <= ranks;
}

/** Return how many runs stand one after another at most. */
function longest({ circuit, ends }: Material, runs: readonly Run[]): number {
  const owner = circuit.nodes.map(() => -1);
  for (const [k, { nodes }] of runs.entries()) for (const node of nodes) owner[node] = k;
  const reading: number[][] = runs.map(() => []);
  for (const [k, source] of ends.sources.entries()) {
    const [start, end] = [owner[source]!, owner[ends.readers[k]!]!];
    if (start >= 0 && end > start) reading[end]!.push(start);
  }
  const ranks: number[] = [];
  // Runs come in an order in which wires only lead forward.
  for (const starts of reading) ranks.push(most(starts.map((start) => ranks[start]! + 1), 0));
  return most(ranks, -1) + 1;
}

/** Return the ways to group the nodes, most detailed first: a key for each (-1: a box of its own) and their paths. */
function levelsOf({ circuit, inner }: Material, depth: number | null, opened: ReadonlySet<string>): Level[] {
  const parts = circuit.nodes.map(({ group }) => pathParts(group));
  const deepest = most(inner.map((node) => parts[node]!.length), 0);
  if (!deepest) return [];
  const top = depth === null ? deepest : Math.min(depth, deepest);
  return times(top + 1, (k) => top - k).flatMap((level) =>
    [false, true].map((bundled) => {
      const known = new Map<string, number>();
      const table = parts.map((path) => keyOf(path, level, opened, bundled, known));
      return { keys: inner.map((node) => table[node]!), paths: [...known.keys()] };
    }),
  );
}

function keyOf(
  path: readonly string[],
  level: number,
  opened: ReadonlySet<string>,
  bundled: boolean,
  known: Map<string, number>,
): number {
  for (let k = 1; k <= path.length; k++) {
    const prefix = path.slice(0, k).join("/");
    if (k > level && !opened.has(prefix)) return numbered(known, prefix);
  }
  // A slash at the end says that the group is open, and that this is what is loose in it.
  return bundled ? numbered(known, [...path, ""].join("/")) : -1;
}

function numbered(known: Map<string, number>, path: string): number {
  const found = known.get(path) ?? known.size;
  known.set(path, found);
  return found;
}

function lowerBound(keys: readonly number[]): number {
  return new Set(keys.filter((key) => key >= 0)).size + keys.filter((key) => key < 0).length;
}

/** Return at most `cap` runs of one key each, out of an order that keeps keys together; null if there are more. */
function runsOf(material: Material, keys: readonly number[], cap: number): Run[] | null {
  const { inner, circuit } = material;
  const keyAt = circuit.nodes.map(() => -1);
  for (const [k, node] of inner.entries()) keyAt[node] = keys[k]!;
  const runs = consecutive(inner, keyAt);
  if (runs.length === lowerBound(keys)) return runs;
  const order = together(material, keyAt, cap);
  const found = consecutive(order, keyAt);
  return order.length === inner.length && found.length <= cap ? found : null;
}

function consecutive(order: readonly number[], keyAt: readonly number[]): Run[] {
  const found: Run[] = [];
  for (const node of order) {
    const key = keyAt[node]!;
    if (found.length && key >= 0 && last(found).key === key) last(found).nodes.push(node);
    else found.push({ key, nodes: [node] });
  }
  return found;
}

/**
 * Return the function nodes in an order that can be run and stays with a key as long as it can. It gives up after `cap`
 * runs, with an order that is not complete.
 */
function together({ circuit, kinds, inner, ends }: Material, keyAt: readonly number[], cap: number): number[] {
  const readers: number[][] = circuit.nodes.map(() => []);
  const waiting = circuit.nodes.map(() => 0);
  for (const [k, source] of ends.sources.entries()) {
    const reader = ends.readers[k]!;
    if (!kinds.inner[source] || !kinds.inner[reader]) continue;
    readers[source]!.push(reader);
    waiting[reader]!++;
  }
  const own = (node: number) => (keyAt[node]! < 0 ? circuit.nodes.length + node : keyAt[node]!);
  const heads = inner.filter((node) => !waiting[node]);
  const ready = new Map<number, number[]>();
  for (const node of heads) listOf(ready, own(node)).push(node);
  const order: number[] = [];
  for (let runs = 0; heads.length && runs <= cap; ) {
    const current = own(pop(heads));
    const queue = listOf(ready, current);
    runs += queue.length ? 1 : 0;
    while (queue.length) {
      const node = pop(queue);
      order.push(node);
      for (const reader of readers[node]!) {
        waiting[reader]!--;
        if (waiting[reader]) continue;
        push(listOf(ready, own(reader)), reader);
        if (own(reader) !== current) push(heads, reader);
      }
    }
  }
  return order;
}

/** Cut the runs that hold more than their share of the nodes into equal parts, so that there are `more` at most. */
function cutLong(runs: Run[], total: number, more: number): Run[] {
  if (more <= 0) return runs;
  const largest = Math.max(SHORT, quotientUp(total, more));
  return runs.flatMap(({ key, nodes }) =>
    equalParts(nodes, quotientUp(nodes.length, largest)).map((part) => ({ key, nodes: part })),
  );
}

function equalParts<T>(items: readonly T[], parts: number): T[][] {
  const cut = (k: number) => Math.floor((k * items.length) / parts);
  return times(parts, (k) => items.slice(cut(k), cut(k + 1)));
}

function piece(nodes: number[], more: Partial<Piece> = {}): Piece {
  return { path: "", nodes, single: false, part: [1, 1], opened: false, until: "", leaves: [], ...more };
}

function equalRuns(nodes: readonly number[], parts: number): Piece[] {
  const runs = equalParts(nodes, Math.max(parts, 1)).filter((part) => part.length);
  return runs.map((run, k) => piece(run, { part: [k + 1, runs.length] }));
}

function withoutSlash(path: string): string {
  return path.replace(/\/$/, "");
}

/** Return what is drawn of runs; a run of one node is that node. */
function piecesOf(runs: readonly Run[], paths: readonly string[]): Piece[] {
  const totals = new Map<number, number>();
  for (const { key, nodes } of runs) totals.set(key, (totals.get(key) ?? 0) + (nodes.length > 1 ? 1 : 0));
  const seen = new Map<number, number>();
  return runs.map(({ key, nodes }) => {
    if (key < 0 || nodes.length === 1) return piece(nodes, { single: true });
    seen.set(key, (seen.get(key) ?? 0) + 1);
    const path = paths[key]!;
    const part: Piece["part"] = [seen.get(key) ?? 1, totals.get(key) ?? 1];
    return piece(nodes, { path: withoutSlash(path), part, opened: path.endsWith("/") });
  });
}

/** Return boxes of several groups each, which follow one another; null if the groups are mixed too much for that. */
function neighbours(material: Material, { keys, paths }: Level, cap: number): Piece[] | null {
  const runs = runsOf(material, keys, MIXED * cap);
  if (runs === null) return null;
  const parts = equalParts(runs, Math.min(RUNS, cap)).filter((part) => part.length);
  return parts.map((part) => {
    const named = part.filter(({ key }) => key >= 0).map(({ key }) => withoutSlash(paths[key]!)).filter(Boolean);
    const [first, end] = [named[0] ?? "", named.at(-1) ?? ""];
    return piece(part.flatMap(({ nodes }) => nodes), { path: first, until: end === first ? "" : end });
  });
}

/** Give every leaf a box of its own if there is room, else put it with the first that reads it. */
function finish(material: Material, given: Piece[], cap: number, more = ""): Plan {
  const { circuit, kinds } = material;
  const leaves = [...kinds.leaves.keys()].filter((node) => kinds.leaves[node]);
  let pieces = given;
  let note = noteOf(pieces, material.inner.length) + more;
  const owner = circuit.nodes.map(() => -1);
  own(owner, pieces);
  const boxes = leafBoxes(material, pieces, owner, leaves);
  if (!pieces.length && leaves.length > cap) {
    pieces = equalRuns(leaves, Math.min(RUNS, cap));
    note = `${counted(leaves.length, "input")} drawn as ${counted(pieces.length, "equal run")}`;
    own(owner, pieces);
  } else if (boxes.length && boxes.length + pieces.length <= cap) {
    pieces = [...boxes, ...pieces];
    own(owner, pieces);
  } else if (leaves.length) {
    pieces = absorb(material, pieces, owner, leaves);
    const one = leaves.length === 1;
    const where = one ? "stands in the box that reads it first" : "stand in the boxes that read them first";
    note += `; ${counted(leaves.length, "input")} ${where}`;
  }
  const origins = originsOf(circuit);
  for (const [node, is] of kinds.splitters.entries()) if (is) owner[node] = owner[origins[node]!]!;
  return { pieces, owner, note };
}

function own(owner: number[], pieces: readonly Piece[]): void {
  for (const [k, { nodes }] of pieces.entries()) for (const node of nodes) owner[node] = k;
}

/** Return the boxes of leaves: one for each, or one for all that a single group reads if there are several. */
function leafBoxes(
  material: Material,
  pieces: readonly Piece[],
  owner: readonly number[],
  leaves: readonly number[],
): Piece[] {
  const readers = pieceReaders(material, owner);
  const byReader = new Map<number, number[]>();
  for (const leaf of leaves) {
    const found = readers[leaf]!;
    const reader = least(found, pieces.length);
    const alone = reader !== most(found, -1) || reader < 0 || pieces[reader]!.single;
    listOf(byReader, alone ? -1 - leaf : reader).push(leaf);
  }
  const each = (some: readonly number[]) => some.map((leaf) => [leaf]);
  const parts = [...byReader.values()].flatMap((some) => (some.length > FEW_LEAVES ? [some] : each(some)));
  const found = parts.map((part) => piece(part, { single: part.length === 1 }));
  return found.sort((a, b) => a.nodes[0]! - b.nodes[0]!);
}

/** Return the pieces that read each node; -1 stands for what is in none. */
function pieceReaders({ circuit, ends }: Material, owner: readonly number[]): number[][] {
  const found: number[][] = circuit.nodes.map(() => []);
  for (const [k, source] of ends.sources.entries()) found[source]!.push(owner[ends.readers[k]!]!);
  return found;
}

function absorb(material: Material, pieces: readonly Piece[], owner: number[], leaves: readonly number[]): Piece[] {
  const readers = pieceReaders(material, owner);
  const joined = new Map<number, number[]>();
  for (const leaf of leaves) {
    // A leaf that nothing reads can stand anywhere.
    const first = least(readers[leaf]!.filter((reader) => reader >= 0), 0);
    owner[leaf] = first;
    listOf(joined, first).push(leaf);
  }
  return pieces.map((found, k) => ({ ...found, leaves: joined.get(k) ?? [] }));
}

function noteOf(pieces: readonly Piece[], nodes: number): string {
  const groups = pieces.filter(({ single }) => !single);
  const alone = pieces.length - groups.length;
  const drawn = `${counted(nodes, "node")} drawn as`;
  if (groups.some(({ until }) => until)) return `${drawn} ${counted(pieces.length, "run")} of neighbouring groups`;
  const nameless = groups.length > 0 && groups.every(({ path }) => !path);
  if (nameless) return `${drawn} ${counted(groups.length, "equal run")} of creation order`;
  return `${drawn} ${counted(groups.length, "group")}${alone ? ` and ${counted(alone, "single node")}` : ""}`;
}
