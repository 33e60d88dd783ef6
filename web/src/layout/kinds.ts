/** Which nodes of a circuit are drawn as what, and what can carry a gradient. */
import { kinksOf } from "../engine/evaluate";
import { isSplitter } from "../engine/table";
import type { Circuit, Run } from "../types";

const CONVENTIONS = ["min_norm", "torch", "jax"];

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
  const leaves = circuit.nodes.map(({ op }, node) => op === "input" || (constants[node]! && named[node]!));
  const splitters = circuit.nodes.map(isSplitter);
  const folded = circuit.nodes.map(
    (node, k) => (constants[k]! && !named[k]!) || (node.folded === true && !named[k]!),
  );
  const inner = circuit.nodes.map((_, k) => !(leaves[k] || constants[k] || splitters[k] || folded[k]));
  return { leaves, folded, splitters, inner };
}

/** Return, for each node, the node whose value it is: itself, or for a splitter what entered the first one. */
export function originsOf(circuit: Circuit): number[] {
  const found: number[] = [];
  for (const [k, node] of circuit.nodes.entries()) {
    const [source] = node.sources;
    found.push(isSplitter(node) && source !== undefined ? found[source]! : k);
  }
  return found;
}

/** Return the convention a node on a kink follows; empty for all others. */
export function kinkOf(run: Run, node: number): string {
  const here = kinksOf(run, node).some(({ jump }) => !jump);
  return here ? (CONVENTIONS[run.circuit.nodes[node]!.mode & 3] ?? "") : "";
}
