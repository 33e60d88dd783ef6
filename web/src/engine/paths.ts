/**
 * The paths that make up a gradient: the contributions of the paths from a node to the output, largest first, as
 * Python's `run.paths` gives them. Nothing is enumerated and nothing recurses: going back from the output, each node
 * keeps the k largest products that reached it.
 */
import type { Run, Value, Wire } from "../types";
import { active, titleOf } from "./circuits";
import { number } from "./numbers";
import { bySize, over, plain, plus, scaled, sizeOf, times, type Scaled } from "./scaled";
import { isSplitter } from "./table";

/** One path, splitters left out: the product of its factors, one for each wire. */
export interface Path {
  contribution: number;
  /** From the node to the output. */
  nodes: number[];
  wires: Wire[];
  locals: number[];
}

/** The paths from a node to the output: how many, what they add up to, how much they cancel, and the largest. */
export interface Paths {
  node: number;
  output: number;
  /** The node's gradient, 0 where none arrived. */
  total: number;
  /** All paths of wires, and those without a blocked wire. */
  count: bigint;
  live: bigint;
  /** The sum of the sizes of all contributions, and that over the size of their sum. */
  magnitude: number;
  cancellation: number;
  paths: Path[];
  /** What all contributions add up to, and that less the paths shown. */
  added: number;
  rest: number;
  /** Whether an input moves the node; else nothing is sent back to it. */
  moves: boolean;
}

interface Link {
  product: Scaled;
  reader: number;
  slot: number;
  factor: number;
  onward: Link | null;
}

interface Way {
  run: Run;
  target: number;
  root: number;
  /** The nodes between target and root, the last one first. */
  nodes: number[];
  inside: boolean[];
}

const ONE: Scaled = scaled(1);
const LOST = 0.01;

/** The k largest paths from a node to the first output; null where arrays flow, whose wires have no single factor. */
export function paths(run: Run, node: number, k = 32): Paths | null {
  const way = wayOf(run, node);
  const known = [node, ...way.nodes].every((k) => typeof run.values[k] !== "object");
  return known ? answer(way, k) : null;
}

function answer(way: Way, k: number): Paths {
  const { run, target, root } = way;
  const total = Number((run.grads[target] as number | null) ?? 0);
  const found = largest(way, k).map((link) => pathOf(way, link));
  const signed = swept(way, (factor) => factor);
  const whole = swept(way, sizeOf);
  const added = unlessLost(total, plain(signed), plain(whole));
  return {
    node: target,
    output: root,
    total,
    count: counted(way, () => true),
    live: counted(way, (wire) => wire.sent !== null),
    magnitude: plain(whole),
    cancellation: cancellation(whole, sizeOf(signed)),
    paths: found,
    added,
    rest: added - found.reduce((sum, { contribution }) => sum + contribution, 0),
    moves: active(run.circuit)[target]!,
  };
}

function wayOf(run: Run, target: number): Way {
  const root = run.circuit.outputs[0]!.node;
  const ahead = run.circuit.nodes.map((_, node) => node === target);
  const inside = ahead.map(() => false);
  const reached: number[] = [];
  for (let node = target + 1; node <= root; node++) {
    if (!run.circuit.nodes[node]!.sources.some((source) => ahead[source])) continue;
    ahead[node] = true;
    reached.push(node);
  }
  inside[root] = ahead[root]!;
  for (const node of reached.reverse()) {
    if (!inside[node]) continue;
    for (const source of run.circuit.nodes[node]!.sources) inside[source] ||= ahead[source]!;
  }
  return { run, target, root, nodes: reached.filter((node) => inside[node]), inside };
}

/** The wires by which the way leads into a node, in the order in which the sweep adds. */
function wiresInto({ run, inside }: Way, node: number): { wire: Wire & { sent: Value | null }; factor: Scaled }[] {
  const wires = run.wires.slice(run.starts[node], run.starts[node + 1]).reverse();
  return wires
    .filter(({ source }) => inside[source])
    .map((wire) => ({ wire, factor: scaled(Number((wire.local as number | null) ?? 0)) }));
}

function counted(way: Way, keep: (wire: { sent: Value | null }) => boolean): bigint {
  const counts = new Map([[way.root, 1n]]);
  for (const node of way.nodes) {
    const held = counts.get(node) ?? 0n;
    counts.delete(node);
    for (const { wire } of held ? wiresInto(way, node) : []) {
      if (keep(wire)) counts.set(wire.source, (counts.get(wire.source) ?? 0n) + held);
    }
  }
  return counts.get(way.target) ?? 0n;
}

/** The sum over all paths of the products of their factors, by one sweep. */
function swept(way: Way, change: (factor: Scaled) => Scaled): Scaled {
  const sums = new Map([[way.root, ONE]]);
  for (const node of way.nodes) {
    const held = sums.get(node);
    sums.delete(node);
    for (const { wire, factor } of held ? wiresInto(way, node) : []) {
      if (wire.sent === null) continue;
      const sent = times(held!, change(factor));
      const before = sums.get(wire.source);
      sums.set(wire.source, before ? plus(before, sent) : sent);
    }
  }
  return sums.get(way.target) ?? scaled(0);
}

function largest(way: Way, k: number): Link[] {
  const start: Link = { product: ONE, reader: -1, slot: 0, factor: 1, onward: null };
  const found = new Map([[way.root, [start]]]);
  for (const node of way.nodes) {
    const held = keepLargest(found.get(node) ?? [], k);
    found.delete(node);
    for (const { wire, factor } of held.length ? wiresInto(way, node) : []) {
      if (wire.sent === null) continue;
      const pool = found.get(wire.source) ?? [];
      for (const onward of held) {
        const product = times(onward.product, factor);
        pool.push({ product, reader: node, slot: wire.slot, factor: plain(factor), onward });
      }
      found.set(wire.source, pool.length > 100 + 8 * k ? keepLargest(pool, k) : pool);
    }
  }
  return keepLargest(found.get(way.target) ?? [], k).slice(0, k);
}

/** The k largest, and behind them up to k that are 0: a factor of inf would make them NaN, the largest. */
function keepLargest(links: Link[], k: number): Link[] {
  if (links.length === 1) return k ? links : [];
  const isZero = ({ product }: Link): boolean => product.mantissa === 0;
  const some = links.filter((link) => !isZero(link)).sort((one, two) => bySize(one.product, two.product));
  return [...some.slice(0, k), ...links.filter(isZero).slice(0, k)];
}

function pathOf({ run, target }: Way, link: Link): Path {
  const path: Path = { contribution: plain(link.product), nodes: [target], wires: [], locals: [] };
  for (let step = link; step.onward; step = step.onward) {
    if (isSplitter(run.circuit.nodes[step.reader]!)) continue;
    const { reader, slot, source } = run.wires[run.starts[step.reader]! + step.slot]!;
    path.nodes.push(reader);
    path.wires.push({ reader, slot, source });
    path.locals.push(step.factor);
  }
  return path;
}

/** The gradient, unless the sweep under- or overflowed on the way: then what the paths add up to. */
function unlessLost(total: number, added: number, magnitude: number): number {
  const lost = !(Math.abs(added - total) <= LOST * magnitude);
  return lost && isFinite(added) ? added : total;
}

function cancellation(magnitude: Scaled, total: Scaled): number {
  if (!isFinite(magnitude.mantissa) || !isFinite(total.mantissa)) return NaN;
  if (!total.mantissa) return magnitude.mantissa ? Infinity : 1;
  return Math.max(1, plain(over(magnitude, total)));
}

/** Write a path: `10 = 1 x 10 x 1   a -> e -> f`; the output's own gradient is the last factor. */
export function pathText(run: Run, { contribution, nodes, locals }: Path): string {
  const factors = [...locals, 1].map((factor) => number(factor)).join(" x ");
  return `${number(contribution)} = ${factors}   ${nodes.map((node) => titleOf(run.circuit, node)).join(" -> ")}`;
}
