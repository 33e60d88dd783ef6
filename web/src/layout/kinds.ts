/** Which nodes of a circuit are drawn as what, and what can carry a gradient. */
import { OPS, type OpRecord } from "../engine/ops.generated";
import type { Circuit, CircuitNode, Run } from "../types";
import { at } from "./arrays";

const RECORDS = new Map(OPS.map((op) => [op.name, op]));
const CONVENTIONS = ["min_norm", "torch", "jax"];

/** Return what the op table says of an op; nothing for ops of arrays and those of users. */
export function recordOf(op: string): OpRecord | undefined {
  return RECORDS.get(op);
}

/** Whether a node is a splitter. */
export function isSplitter(node: CircuitNode): boolean {
  return recordOf(node.op)?.pattern === "merge";
}

/** Which nodes are what. */
export interface Kinds {
  /** Inputs, and constants that have a name. */
  leaves: boolean[];
  /** Constants without a name, spread out or not, which are written inside their readers. */
  folded: boolean[];
  splitters: boolean[];
  /** Function nodes. */
  inner: boolean[];
}

/** Return the kinds of a circuit's nodes. */
export function kindsOf(circuit: Circuit): Kinds {
  const outputs = new Set(circuit.outputs.map(({ node }) => node));
  const named = circuit.nodes.map(({ names }, node) => names.length > 0 || outputs.has(node));
  const constants = circuit.nodes.map(({ op }) => op === "constant");
  const leaves = circuit.nodes.map(({ op }, node) => op === "input" || (at(constants, node) && at(named, node)));
  const splitters = circuit.nodes.map(isSplitter);
  const folded = circuit.nodes.map(
    (node, k) => (at(constants, k) && !at(named, k)) || (node.folded === true && !at(named, k)),
  );
  const inner = circuit.nodes.map((_, k) => !(leaves[k] || constants[k] || splitters[k] || folded[k]));
  return { leaves, folded, splitters, inner };
}

/** Return for every node whether a gradient can reach an input through it. */
export function activeOf(circuit: Circuit): boolean[] {
  const found: boolean[] = [];
  for (const { op, sources, type } of circuit.nodes) {
    const carries = /^(float|complex)/.test(type);
    found.push(carries && (op === "input" || sources.some((source) => found[source])));
  }
  return found;
}

/** Return, for each node, the node whose value it is: itself, or for a splitter what entered the first one. */
export function originsOf(circuit: Circuit): number[] {
  const found: number[] = [];
  for (const [k, node] of circuit.nodes.entries()) {
    const [source] = node.sources;
    found.push(isSplitter(node) && source !== undefined ? at(found, source) : k);
  }
  return found;
}

/** Return the convention a node on a kink follows; empty for all others. */
export function kinkOf(run: Run, node: number): string {
  const { op, sources, mode } = at(run.circuit.nodes, node);
  const inputs = sources.map((source) => run.values[source]);
  if (inputs.some((value) => typeof value === "object")) return "";
  const kinks = recordOf(op)?.kinks.filter((kink) => !kink.jump) ?? [];
  return kinks.some((kink) => kink.on(...(inputs as never[]))) ? (CONVENTIONS[mode & 3] ?? "") : "";
}

/** Return the name of a node: its first, or % and its index. */
export function nameOf(circuit: Circuit, node: number): string {
  return circuit.nodes[node]?.names[0] ?? `%${node}`;
}
