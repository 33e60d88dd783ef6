/**
 * Where non-finite numbers come from, as Python's `run.blame` finds it: ops that made something non-finite of finite
 * numbers, forward or backward, and which values and gradients they spoil.
 *
 * Two walks, forward over the values and backward over the gradients. What is non-finite at a node is the op's own
 * doing (a fault) or handed on, and then the node inherits the faults of what it was made from. Sets of faults are the
 * bits of whole numbers.
 */
import type { Run, Value } from "../types";
import { titleOf, readers, told } from "./circuits";
import { isBad, isNan, number, operand } from "./numbers";
import { opOf } from "./table";

/** A value, or a gradient where `back`. */
export interface Spot {
  node: number;
  back: boolean;
}

/** One op that broke, and what came of it. */
export interface Origin {
  phase: "forward" | "backward";
  node: number;
  /** Backward: the input whose gradient broke; null also for what was given, or only adds up to too much. */
  slot: number | null;
  /** What happened, in a sentence with numbers. */
  said: string;
  /** The outputs and the gradients of inputs that it spoils; none: it is harmless. */
  spoils: Spot[];
  /** How it spread, step by step, to a gradient, or else to an output. */
  chain: Spot[];
  /** The first node at which an infinity turned into NaN. */
  nanAt: number | null;
}

/** What broke first, forward and backward, and everything that spoiled the output or a gradient. */
export interface NonFinite {
  forward: Origin | null;
  backward: Origin | null;
  origins: Origin[];
  harmless: Origin[];
}

interface Found {
  node: number;
  phase: "forward" | "backward";
  /** Whether the op is at fault, as against what was given. */
  own: boolean;
  slot: number | null;
}

interface Search {
  run: Run;
  found: Found[];
  values: Map<number, bigint>;
  grads: Map<number, bigint>;
  /** Infinities that were written as constants: the last to be suspected. */
  given: bigint;
  /** The faults of ops, as against what was given. */
  made: bigint;
  /** By fault, the first node whose value it made NaN. */
  nans: Map<number, number>;
  known: Map<string, number>;
}

const SEPARATE = 256;

/** Find where the non-finite numbers of a run come from. */
export function firstNonFinite(run: Run): NonFinite {
  const search: Search = {
    run,
    found: [],
    values: new Map(),
    grads: new Map(),
    given: 0n,
    made: 0n,
    nans: new Map(),
    known: new Map(),
  };
  walkForward(search);
  walkBackward(search);
  const all = originsOf(search);
  const origins = all.filter(({ spoils }) => spoils.length);
  return {
    forward: origins.find(({ phase }) => phase === "forward") ?? null,
    backward: origins.find(({ phase }) => phase === "backward") ?? null,
    origins,
    harmless: all.filter(({ spoils }) => !spoils.length),
  };
}

/** Whether a result fails a test though all that it was made from passes. */
function ownDoing(result: Value, made: readonly Value[], test: (value: Value) => boolean): boolean {
  return test(result) && !made.some(test);
}

function walkForward(search: Search): void {
  const { run, values } = search;
  for (const [node, { sources }] of run.circuit.nodes.entries()) {
    const y = run.values[node]!;
    if (!isBad(y)) continue;
    values.set(node, behindValue(search, node));
    if (!sources.length || !isNan(y) || sources.some((source) => isNan(run.values[source]!))) continue;
    for (const bit of bits(values.get(node)!)) {
      if (search.found[bit]!.node !== node && !search.nans.has(bit)) search.nans.set(bit, node);
    }
  }
}

/** The faults behind a value that is not finite. */
function behindValue(search: Search, node: number): bigint {
  const { run, values } = search;
  const { sources } = run.circuit.nodes[node]!;
  const inputs = sources.map((source) => run.values[source]!);
  let inherited = 0n;
  sources.forEach((source, slot) => {
    if (handsOn(run, node, slot)) inherited |= values.get(source) ?? 0n;
  });
  inherited = suspects(search, inherited);
  let own = sources.length > 0 && ownDoing(run.values[node]!, inputs, isBad);
  if (!own && inherited && !(inherited & ~search.given) && ownDoing(run.values[node]!, inputs, isNan)) {
    // An infinity that was written is meant; what makes NaN of it is not.
    [own, inherited] = [true, 0n];
  }
  return own || !inherited ? inherited | note(search, { node, phase: "forward", own, slot: null }) : inherited;
}

/** Whether a non-finite input shows in the output; a router shows only the one it chose. */
function handsOn(run: Run, node: number, slot: number): boolean {
  if (opOf(run.circuit.nodes[node]!.op)?.pattern !== "route") return true;
  const { local, source } = run.wires[run.starts[node]! + slot]!;
  return local !== null && isBad(run.values[source]);
}

function walkBackward(search: Search): void {
  const { run, grads } = search;
  const several = run.circuit.outputs.length > 1;
  for (let node = run.circuit.nodes.length - 1; node >= 0; node--) {
    const flow = run.grads[node]!;
    if (flow === null) continue;
    if (!grads.has(node) && !several && isBad(flow)) {
      // Finite gradients that came back from several readers add up to more than there are numbers for.
      grads.set(node, note(search, { node, phase: "backward", own: false, slot: null }));
    }
    for (const { slot, source, sent } of run.wires.slice(run.starts[node], run.starts[node + 1])) {
      if (isBad(sent)) grads.set(source, (grads.get(source) ?? 0n) | behindSent(search, node, slot, sent!));
    }
  }
}

/** The faults behind something non-finite that a node sent back. */
function behindSent(search: Search, node: number, slot: number, sent: Value): bigint {
  const { run, grads, values } = search;
  const { sources } = run.circuit.nodes[node]!;
  const flow = run.grads[node]!;
  const made = [flow, ...sources.map((source) => run.values[source]!), run.values[node]!];
  const upstream = grads.get(node) ?? 0n;
  if (ownDoing(sent, made, isBad)) return note(search, { node, phase: "backward", own: true, slot }) | upstream;
  let ofValues = [...sources, node].reduce((faults, from) => faults | (values.get(from) ?? 0n), 0n);
  // What arrived was spoiled already: an infinity that was given is not behind that, one that was made may be.
  if (upstream && isBad(flow)) ofValues &= search.made;
  return suspects(search, upstream | ofValues) || note(search, { node, phase: "backward", own: false, slot: null });
}

/** Faults without the infinities that were written, unless there are no others. */
function suspects({ given }: Search, faults: bigint): bigint {
  return faults & ~given || faults;
}

/** Keep a fault; returns its bit. */
function note(search: Search, fault: Found): bigint {
  const { op, place } = search.run.circuit.nodes[fault.node]!;
  const key = JSON.stringify([op, place, fault.phase]);
  let bit = search.found.length >= SEPARATE ? search.known.get(key) : undefined;
  if (bit === undefined) {
    bit = search.found.push(fault) - 1;
    search.known.set(key, bit);
    if (fault.own) search.made |= 1n << BigInt(bit);
    if (op === "constant" && !isNan(search.run.values[fault.node]!)) search.given |= 1n << BigInt(bit);
  }
  return 1n << BigInt(bit);
}

function bits(faults: bigint): number[] {
  const found: number[] = [];
  for (let bit = 0; faults; bit++, faults >>= 1n) if (faults & 1n) found.push(bit);
  return found;
}

function has(faults: bigint | undefined, bit: number): boolean {
  return faults !== undefined && ((faults >> BigInt(bit)) & 1n) === 1n;
}

/** What spoils something and what does not; faults of one op at one line are told as one. */
function originsOf(search: Search): Origin[] {
  const groups = new Map<string, { order: number; bit: number; spoils: Spot[] }>();
  for (const [bit, { node, phase, own }] of search.found.entries()) {
    const spoils = spoiledBy(search, bit);
    // An infinity that was given and did no harm was meant.
    if (!spoils.length && !own && !isNan(search.run.values[node]!)) continue;
    const { op, place } = search.run.circuit.nodes[node]!;
    const meant = has(search.given, bit);
    const key = JSON.stringify([meant, !spoils.length, op, place ?? node, phase]);
    const group = groups.get(key);
    if (!group) groups.set(key, { order: 2 * Number(meant) + Number(!spoils.length), bit, spoils });
    else group.spoils.push(...spoils.filter((spot) => !group.spoils.some((other) => isSame(spot, other))));
  }
  const ordered = [...groups.values()].sort((one, two) => one.order - two.order);
  return ordered.map(({ bit, spoils }) => originOf(search, bit, spoils));
}

function isSame(one: Spot, two: Spot): boolean {
  return one.node === two.node && one.back === two.back;
}

function originOf(search: Search, bit: number, spoils: Spot[]): Origin {
  const { node, phase, slot } = search.found[bit]!;
  const chain = spoils.length ? chainOf(search, bit) : [];
  return { phase, node, slot, said: sentence(search, bit), spoils, chain, nanAt: search.nans.get(bit) ?? null };
}

/** The outputs and the gradients of inputs that a fault spoils. */
function spoiledBy({ run, values, grads }: Search, bit: number): Spot[] {
  const outputs = [...new Set(run.circuit.outputs.map(({ node }) => node))].filter((node) => has(values.get(node), bit));
  const inputs = run.circuit.nodes.flatMap(({ op }, node) => (op === "input" && has(grads.get(node), bit) ? [node] : []));
  return [...outputs.map((node) => ({ node, back: false })), ...inputs.map((node) => ({ node, back: true }))];
}

/** How a fault spread, step by step, to a gradient that it spoils, or else to an output: the shortest way. */
function chainOf(search: Search, bit: number): Spot[] {
  const goals = spoiledBy(search, bit);
  const wanted = goals.some(({ back }) => back) ? goals.filter(({ back }) => back) : goals;
  const { node, phase, own, slot } = search.found[bit]!;
  const sent = own && phase === "backward";
  const start: Spot = { node: sent ? search.run.circuit.nodes[node]!.sources[slot!]! : node, back: phase === "backward" };
  const key = ({ node, back }: Spot): number => 2 * node + Number(back);
  const came = new Map<number, Spot | null>([[key(start), null]]);
  const front = [start];
  for (let k = 0; k < front.length; k++) {
    if (wanted.some((goal) => isSame(goal, front[k]!))) return wayBack(front[k]!, (spot) => came.get(key(spot)) ?? null);
    for (const next of spreads(search, bit, front[k]!)) {
      if (came.has(key(next))) continue;
      came.set(key(next), front[k]!);
      front.push(next);
    }
  }
  return [start];
}

function wayBack(goal: Spot, before: (spot: Spot) => Spot | null): Spot[] {
  const steps: Spot[] = [];
  for (let spot: Spot | null = goal; spot; spot = before(spot)) steps.push(spot);
  return steps.reverse();
}

/** What a fault spoils next, from a value or gradient that it spoiled. */
function spreads({ run, values, grads }: Search, bit: number, { node, back }: Spot): Spot[] {
  const own = readers(run.circuit)[node]!.map(({ reader }) => reader);
  const found: Spot[] = [];
  for (const sender of back ? [node] : [...own, node]) {
    for (const { source, sent } of run.wires.slice(run.starts[sender], run.starts[sender + 1])) {
      if (has(grads.get(source), bit) && isBad(sent)) found.push({ node: source, back: true });
    }
  }
  if (!back) for (const reader of own) if (has(values.get(reader), bit)) found.push({ node: reader, back: false });
  return found;
}

/** Say what happened. */
function sentence({ run, found }: Search, bit: number): string {
  const { circuit, values } = run;
  const { node, phase, own, slot } = found[bit]!;
  const { op, sources } = circuit.nodes[node]!;
  const name = titleOf(circuit, node);
  const at = sources.map((source) => `${titleOf(circuit, source)} = ${number(values[source]!)}`).join(", ");
  if (own && phase === "forward") return `${op} gave ${number(values[node]!)} at ${at}`;
  if (own) {
    const { source, sent, local, upstream } = run.wires[run.starts[node]! + slot!]!;
    const factors = local === null ? "" : `: upstream ${operand(upstream!)} times local ${operand(local)},`;
    return `${op} sent ${number(sent!)} back to ${titleOf(circuit, source)}${factors} at ${at}`;
  }
  if (phase === "backward") return `the gradients that come back to ${name} add up to ${number(run.grads[node]!)}`;
  const kind = op === "input" || op === "constant" ? op : "node";
  const first = readers(circuit)[node]![0];
  const read = first ? `, first read by ${told(circuit, first.reader)}${placeText(run, first.reader)}` : "";
  return `the ${kind} ${name} is ${number(values[node]!)} from the start${read}`;
}

function placeText({ circuit }: Run, node: number): string {
  const place = circuit.nodes[node]!.place;
  return place ? ` (${place.file}:${place.line}${place.column ? `:${place.column}` : ""})` : "";
}

/** Write what is spoiled: `the output y`, `the gradient of x`. */
export function spoiledText({ circuit }: Run, { node, back }: Spot): string {
  if (back) return `the gradient of ${titleOf(circuit, node)}`;
  return `the output ${circuit.outputs.find((output) => output.node === node)?.label ?? titleOf(circuit, node)}`;
}

/** Write a step of a chain: `y = -inf (formula:1:16)`, `gradient of x = nan`. */
export function spotText(run: Run, { node, back }: Spot): string {
  const name = titleOf(run.circuit, node);
  if (back) return `gradient of ${name} = ${number(run.grads[node] ?? 0)}`;
  return `${name} = ${number(run.values[node]!)}${placeText(run, node)}`;
}
