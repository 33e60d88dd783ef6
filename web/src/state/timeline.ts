/**
 * The order in which a run becomes known: moments, one for each value, seed, upstream gradient that arrives, set of
 * local derivatives, wire sent back and sum. A position is how many moments have passed, so stepping back is exact.
 * Kept true: everything is known at the last moment.
 */
import { active, isSplitter, ranksOf } from "../engine";
import type { Phase, Run, Step, Value } from "../types";

/** What happens in one step of the engine, and after which moments it begins and ends. */
export interface Stage {
  kind: "forward" | "seed" | "send" | "merge";
  phase: "forward" | "seed" | "backward";
  node: number;
  text: string;
  first: number;
  last: number;
}

export interface Timeline {
  stages: Stage[];
  length: number;
  /** The moment at which each value, gradient and wire (in the order of `run.wires`) is known. */
  valueAt: number[];
  gradAt: number[];
  wireAt: number[];
  /** How many wires bring something back to each node. */
  due: number[];
  /** The moment at which an output gets its own gradient of 1; of all other nodes Infinity. */
  seedAt: number[];
  /** The moment at which the local derivatives of a node are known. */
  localAt: number[];
  /** Whether a gradient can reach an input through each node. */
  active: boolean[];
  /** The longest way from a leaf to each node. */
  ranks: number[];
}

export type StepSize = "part" | "wire" | "node" | "rank" | "group" | "selection" | "all";

/** How many moments pass in a backward step of a function node before its first wire sends: arrival, local derivatives. */
const BEFORE_SENDING = 2;

/** Lay the steps of a run out in moments; leaves are known from the beginning. */
export function timeline(run: Run, steps: Step[]): Timeline {
  const { nodes } = run.circuit;
  const made: Timeline = {
    stages: [],
    length: 0,
    valueAt: nodes.map((_, node) => (isLeaf(run, node) ? 0 : Infinity)),
    gradAt: nodes.map(() => Infinity),
    wireAt: run.wires.map(() => Infinity),
    due: nodes.map(() => 0),
    seedAt: nodes.map(() => Infinity),
    localAt: nodes.map(() => Infinity),
    active: active(run.circuit),
    ranks: ranksOf(run.circuit),
  };
  for (const wire of run.wires) if (wire.sent !== null) made.due[wire.source]!++;
  const merged = new Set<number>();
  for (const step of steps) addStage(made, run, step, merged);
  const end = (at: number): number => Math.min(at, made.length);
  return { ...made, gradAt: made.gradAt.map(end), wireAt: made.wireAt.map(end) };
}

function addStage(made: Timeline, run: Run, step: Step, merged: Set<number>): void {
  const { node, phase, text } = step;
  const first = made.length;
  const add = (kind: Stage["kind"], moments: number): void => {
    made.length += moments;
    made.stages.push({ kind, phase, node, text, first, last: made.length });
  };
  if (phase === "forward") {
    if (isLeaf(run, node)) return;
    add("forward", 1);
    made.valueAt[node] = made.length;
  } else if (phase === "seed") {
    add("seed", 1);
    made.seedAt[node] = made.length;
    if (!made.due[node]) made.gradAt[node] = made.length;
  } else if (made.due[node]! > 1 && !merged.has(node)) {
    merged.add(node);
    add("merge", 1);
    made.gradAt[node] = made.length;
  } else add("send", send(made, run, node));
}

/** Set when the wires of a node send back, one after another, and return how many moments that takes. */
function send(made: Timeline, run: Run, node: number): number {
  const before = isSplitter(run.circuit.nodes[node]!) ? 0 : BEFORE_SENDING;
  made.localAt[node] = made.length + before;
  let moments = before;
  for (let wire = run.starts[node]!; wire < run.starts[node + 1]!; wire++) {
    const { source, sent } = run.wires[wire]!;
    // Along a wire that no gradient can take nothing is seen: it has no moment of its own.
    if (made.active[source]) moments++;
    const at = made.length + Math.max(moments, before + 1);
    made.wireAt[wire] = at;
    if (sent !== null && made.due[source] === 1) made.gradAt[source] = at;
  }
  return Math.max(moments, before + 1);
}

/** Whether nothing is computed at a node: an input or a constant. */
export function isLeaf(run: Pick<Run, "circuit">, node: number): boolean {
  const { op } = run.circuit.nodes[node]!;
  return op === "input" || op === "constant";
}

/** The stage that a position is in or has just finished; null at the beginning. */
export function stageAt(line: Timeline, at: number): Stage | null {
  return line.stages[stagesDone(line, at, true) - 1] ?? null;
}

/** How many stages are finished at a position; a stage that has begun counts too if asked. */
export function stagesDone(line: Timeline, at: number, begun = false): number {
  let low = 0;
  let high = line.stages.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const stage = line.stages[middle]!;
    if (begun ? stage.first < at : stage.last <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The phase in which a position stands. */
export function phaseAt(line: Timeline, at: number): Phase {
  if (line.length && at >= line.length) return "done";
  return stageAt(line, at)?.phase ?? "idle";
}

/** The position at which every value is known. */
export function forwardEnd(line: Timeline): number {
  return line.stages.reduce((end, stage) => (stage.kind === "forward" ? stage.last : end), 0);
}

/** The positions at which steps of a size end, in order, with 0 and the end. */
export function stops(run: Run, line: Timeline, size: StepSize, selected: number | null): number[] {
  if (size === "wire") return [0, ...line.stages.flatMap(wireStops)];
  if (size === "part") return [0, ...line.stages.flatMap(partStops)];
  const inner = line.stages.filter((stage, index) => stopsAfter(run, line, size, selected, stage, line.stages[index + 1]));
  return [...new Set([0, ...inner.map((stage) => stage.last), line.length])];
}

/** Where a step by wire ends in a stage: behind each wire that sends. */
function wireStops({ first, last }: Stage): number[] {
  const sending = last - first > BEFORE_SENDING ? first + BEFORE_SENDING : first;
  return Array.from({ length: last - sending }, (_, k) => sending + k + 1);
}

/** Where a step by part ends in a stage: behind the arrival, the local derivatives, and everything sent. */
function partStops({ first, last }: Stage): number[] {
  return last - first > BEFORE_SENDING ? [first + 1, first + BEFORE_SENDING, last] : [last];
}

/** How far a stage is at a position: which of its parts it has reached, and which of its wires has just sent. */
export interface StageProgress {
  part: number;
  parts: number;
  wire: number;
  wires: number;
}

/** Return how far a stage is at a position. */
export function stageProgress({ first, last }: Stage, at: number): StageProgress {
  const passed = Math.min(at, last) - first;
  const parted = last - first > BEFORE_SENDING;
  const wires = parted ? last - first - BEFORE_SENDING : 1;
  if (!parted) return { part: Math.min(passed, 1), parts: 1, wire: passed, wires: last - first };
  return { part: Math.min(passed, 3), parts: 3, wire: Math.max(0, passed - BEFORE_SENDING), wires };
}

/** The stages that a step ending at a position went through, in order; a step begins at the stop before it. */
export function stagesOfStep(line: Timeline, found: readonly number[], at: number): Stage[] {
  const start = found.reduce((best, stop) => (stop < at ? stop : best), 0);
  return line.stages.slice(stagesDone(line, start), stagesDone(line, at, true));
}

function stopsAfter(
  run: Run,
  line: Timeline,
  size: StepSize,
  selected: number | null,
  stage: Stage,
  next: Stage | undefined,
): boolean {
  const group = (node: number): string => run.circuit.nodes[node]!.group;
  if (!next) return true;
  if (size === "node") return true;
  if (size === "all") return false;
  if (size === "selection") return stage.node === selected;
  if (stage.phase !== next.phase) return true;
  if (size === "rank") return line.ranks[stage.node] !== line.ranks[next.node];
  return group(stage.node) !== group(next.node);
}

/** The next stop behind a position, or the last one before it. */
export function move(found: number[], at: number, by: 1 | -1): number {
  if (by === 1) return found.find((stop) => stop > at) ?? at;
  return found.reduce((best, stop) => (stop < at ? stop : best), 0);
}

/** A position in a few letters that mean the same when the numbers change: f2, b4, or b4.1 inside a step. */
export function positionCode(line: Timeline, at: number): string {
  const stage = stageAt(line, at);
  if (!stage) return "i";
  if (at >= line.length) return "d";
  const before = line.stages.filter((other) => other.phase === stage.phase && other.last <= at).length;
  const inside = at < stage.last ? `.${at - stage.first}` : "";
  return `${stage.phase[0]!}${before}${inside}`;
}

/** The position that a code stands for, as near as the timeline has it. */
export function positionOf(line: Timeline, code: string): number {
  const match = /^([fsb])(\d{1,6})(?:\.(\d{1,3}))?$/.exec(code);
  if (!match) return code === "d" ? line.length : 0;
  const phase = { f: "forward", s: "seed", b: "backward" }[match[1]!];
  const own = line.stages.filter((stage) => stage.phase === phase);
  const before = line.stages.find((stage) => stage.phase === phase)?.first ?? line.length;
  const count = Math.min(Number(match[2]), own.length);
  const from = count ? own[count - 1]!.last : before;
  return Math.min(from + Math.min(Number(match[3] ?? 0), (own[count]?.last ?? from) - from), line.length);
}

/** The sum of two gradients; nothing is known of a sum of arrays here. */
export function sum(one: Value | null, two: Value | null): Value | null {
  if (one === null) return two;
  if (two === null) return one;
  return typeof one === "object" || typeof two === "object" ? null : Number(one) + Number(two);
}
