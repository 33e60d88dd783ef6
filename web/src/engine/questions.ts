/**
 * What a person asks of a run: what if this moved, is this gradient right, which ways did it come, what broke first.
 */
import type { Run, Scalar, Value } from "../types";
import { computed, kinksOf, scalar } from "./evaluate";

export { firstNonFinite, spoiledText, spotText, type NonFinite, type Origin, type Spot } from "./faults";
export { find, FindMistake } from "./find";
export { paths, pathText, type Path, type Paths } from "./paths";

/** A node, or one wire: then only its reader sees the change. */
export type Target = { node: number } | { reader: number; slot: number };

/** What a small move of a value does to the output. */
export interface Nudge {
  by: number;
  /** Gradient times nudge. */
  predicted: number;
  /** How much the output really moves. */
  actual: number;
}

/** A gradient beside what differences of the output measure. */
export interface Checked {
  gradient: number;
  /** The central difference, and the slopes of both sides. */
  difference: number;
  left: number;
  right: number;
  step: number;
  /** Whether gradient and difference are the same but for rounding. */
  agrees: boolean;
  /** The kinks on the way to the output, where sides may differ and the gradient is a choice. */
  kinks: { node: number; doc: string }[];
}

/** As far as a central difference of a smooth function is off at the step taken. */
const TOLERANCE = 1e-6;

/** The output's value if a node or wire carried another value. */
export function replayed(run: Run, target: Target, value: Scalar): Scalar {
  const { circuit } = run;
  const root = circuit.outputs[0]!.node;
  const first = "node" in target ? target.node : target.reader;
  const values: Value[] = [...run.values];
  const changed = circuit.nodes.map(() => false);
  if ("node" in target) [values[first], changed[first]] = [value, true];
  else [values[first], changed[first]] = [computedWith(run, target.reader, target.slot, value), true];
  for (let node = first + 1; node <= root; node++) {
    if (!circuit.nodes[node]!.sources.some((source) => changed[source])) continue;
    [values[node], changed[node]] = [computed(circuit, node, values), true];
  }
  return scalar(values[root]!);
}

/** What a node computes if one of its inputs is another, and the others that read the same source are not. */
function computedWith(run: Run, reader: number, slot: number, value: Scalar): Scalar {
  const { nodes, name, outputs } = run.circuit;
  const own = nodes[reader]!.sources.map((_, k) => k);
  const alone = { name, outputs, nodes: nodes.map((node, k) => (k === reader ? { ...node, sources: own } : node)) };
  const inputs = nodes[reader]!.sources.map((source, k) => (k === slot ? value : run.values[source]!));
  return computed(alone, reader, inputs);
}

function valueAt(run: Run, target: Target): number {
  const node = "node" in target ? target.node : run.circuit.nodes[target.reader]!.sources[target.slot]!;
  return Number(scalar(run.values[node]!));
}

function gradientAt(run: Run, target: Target): number {
  const found = "node" in target ? run.grads[target.node]! : run.wires[run.starts[target.reader]! + target.slot]!.sent;
  return found === null ? 0 : Number(scalar(found));
}

/** Move a value a little: what the gradient predicts beside what happens. */
export function nudge(run: Run, target: Target, by: number): Nudge {
  const before = Number(scalar(run.values[run.circuit.outputs[0]!.node]!));
  const after = Number(replayed(run, target, valueAt(run, target) + by));
  return { by, predicted: gradientAt(run, target) * by, actual: after - before };
}

/** Measure a gradient by differences of the output. */
export function check(run: Run, target: Target): Checked {
  const x = valueAt(run, target);
  const step = Math.cbrt(Number.EPSILON) * Math.max(1, Math.abs(x));
  const [low, high] = [x - step, x + step];
  const [below, here, above] = [low, x, high].map((value) => Number(replayed(run, target, value))) as [number, number, number];
  const gradient = gradientAt(run, target);
  const difference = (above - below) / (high - low);
  const size = Math.max(1, Math.abs(gradient), Math.abs(here) / Math.max(1, Math.abs(x)));
  return {
    gradient,
    difference,
    left: (here - below) / (x - low),
    right: (above - here) / (high - x),
    step: (high - low) / 2,
    agrees: Math.abs(gradient - difference) <= TOLERANCE * size,
    kinks: kinksBehind(run, target),
  };
}

/** The kinks that lie between a node or wire and the output. */
function kinksBehind(run: Run, target: Target): { node: number; doc: string }[] {
  const first = "node" in target ? target.node : target.reader;
  const ahead = run.circuit.nodes.map((_, node) => node === first);
  return run.circuit.nodes.flatMap(({ sources }, node) => {
    ahead[node] ||= sources.some((source) => ahead[source]);
    const here = ahead[node] && (node !== first || !("node" in target));
    return here ? kinksOf(run, node).map(({ doc }) => ({ node, doc })) : [];
  });
}
