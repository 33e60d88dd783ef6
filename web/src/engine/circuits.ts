/**
 * What is asked of a circuit's wiring: names to show, readers, the split form. Nothing recurses: index order is an
 * order that can be run.
 */
import type { Circuit, CircuitNode, Run, Value, Wire } from "../types";
import { exact } from "./numbers";
import { expression, isNumber, isSplitter } from "./table";

/** The name by which a node is looked up: the first one given, or `%` and the index. */
export function nameOf(circuit: Circuit, node: number): string {
  return circuit.nodes[node]!.names[0] ?? `%${node}`;
}

/** The first name that somebody gave to a node; undefined if it has none, or only the number of a formula. */
function givenName({ names, place, sources }: CircuitNode): string | undefined {
  const numbered = place?.file === "formula" && sources.length > 0 && /^t[1-9]\d*$/.test(names[0] ?? "");
  return numbered ? undefined : names[0];
}

/** What a node is called where people read about it: its name, its source text, or what it computes. */
export function titleOf(circuit: Circuit, node: number, width = MAX_TITLE): string {
  return shortened(writtenTitle(circuit, node, MAX_DEPTH), width);
}

/** How long titles are at most, alone and inside others, and how deep nodes stand in one another there. */
const MAX_TITLE = 48;
const MAX_OPERAND = 32;
const MAX_DEPTH = 2;
const ELLIPSIS = "\u2026";

/** Leave out the middle of a text that is too long. */
function shortened(text: string, width: number): string {
  const letters = [...text];
  const head = (width - 1) >> 1;
  return letters.length <= width ? text : letters.slice(0, head).join("") + ELLIPSIS + letters.slice(head + 1 - width).join("");
}

function writtenTitle(circuit: Circuit, node: number, depth: number): string {
  const { constant, op, sources, title } = circuit.nodes[node]!;
  const known = title ?? givenName(circuit.nodes[node]!) ?? (constant === undefined ? undefined : exact(constant));
  if (known !== undefined) return known;
  if (isSplitter(circuit.nodes[node]!)) return splitterTitle(circuit, node);
  return expression(op, sources.map((source) => titleInside(circuit, source, depth)));
}

function titleInside(circuit: Circuit, node: number, depth: number): string {
  if (!depth && !givenName(circuit.nodes[node]!) && circuit.nodes[node]!.sources.length) return ELLIPSIS;
  return shortened(writtenTitle(circuit, node, Math.max(depth - 1, 0)), MAX_OPERAND);
}

/** What a splitter is called: `x (split)`, `x (split 2)` for the second in a chain. */
function splitterTitle(circuit: Circuit, node: number): string {
  let [count, source] = [0, node];
  while (isSplitter(circuit.nodes[source]!)) [count, source] = [count + 1, circuit.nodes[source]!.sources[0]!];
  return `${writtenTitle(circuit, source, 1)} (split${count > 1 ? ` ${count}` : ""})`;
}

/** Write what a node computes, as `e * c` or `tanh(n)`. */
export function expressionOf(circuit: Circuit, node: number): string {
  const { op, sources, constant, text } = circuit.nodes[node]!;
  if (text !== undefined) return text;
  if (!sources.length) return constant === undefined ? op : exact(constant);
  return expression(op, sources.map((source) => titleOf(circuit, source, MAX_OPERAND)));
}

/** Write a node with its title, as `e = a + b`; without, where the title says the same. */
export function told(circuit: Circuit, node: number): string {
  const [title, text] = [titleOf(circuit, node), expressionOf(circuit, node)];
  const same = title.replaceAll(" ", "") === text.replaceAll(" ", "");
  return same && !givenName(circuit.nodes[node]!) ? text : `${title} = ${text}`;
}

const known = new WeakMap<Circuit, Wire[][]>();

/** The wires that read each node, by reader, then slot. */
export function readers(circuit: Circuit): Wire[][] {
  let found = known.get(circuit);
  if (!found) {
    found = circuit.nodes.map(() => []);
    for (const [reader, { sources }] of circuit.nodes.entries()) {
      for (const [slot, source] of sources.entries()) found[source]!.push({ reader, slot, source });
    }
    known.set(circuit, found);
  }
  return found;
}

/** Whether a gradient can reach an input through each node. */
export function active(circuit: Circuit): boolean[] {
  const found: boolean[] = [];
  for (const { op, sources, type } of circuit.nodes) {
    found.push(isNumber(type) && (op === "input" || sources.some((source) => found[source])));
  }
  return found;
}

/** Where the wires of each node begin among all wires; one more entry than nodes. */
export function startsOf(circuit: Circuit): number[] {
  const starts = [0];
  for (const { sources } of circuit.nodes) starts.push(starts.at(-1)! + sources.length);
  return starts;
}

/** How many wires the longest way from a leaf to each node has. */
export function ranksOf(circuit: Circuit): number[] {
  const found: number[] = [];
  for (const { sources } of circuit.nodes) {
    found.push(sources.reduce((most, source) => Math.max(most, found[source]! + 1), 0));
  }
  return found;
}

/** Put a run together; `flow` gives the local derivative, the upstream gradient and what was sent, by wire. */
export function assembled(
  circuit: Circuit,
  values: Value[],
  grads: (Value | null)[],
  flow: (wire: number) => readonly (Value | null)[],
): Run {
  const starts = startsOf(circuit);
  const wires = circuit.nodes.flatMap(({ sources }, reader) =>
    sources.map((source, slot) => {
      const [local = null, upstream = null, sent = null] = flow(starts[reader]! + slot);
      return { reader, slot, source, local, upstream, sent };
    }),
  );
  return { circuit, values, grads, wires, starts };
}

/**
 * The circuit with k - 1 splitters behind each wire that k readers (outputs included) share.
 *
 * They form a chain: the first branch of each goes to the earliest reader left. Gradients that come back are then
 * added in the order in which the sweep adds those of an implied fan-out, so both give the same bits.
 */
export function split(circuit: Circuit): Circuit {
  const counts = circuit.nodes.map(() => 0);
  for (const { sources } of circuit.nodes) for (const source of sources) counts[source]!++;
  for (const { node } of circuit.outputs) counts[node]!++;
  const nodes: CircuitNode[] = [];
  const taps: number[][] = [];
  for (const [index, old] of circuit.nodes.entries()) {
    const node = nodes.push({ ...old, sources: old.sources.map((source) => taps[source]!.pop()!) }) - 1;
    // A splitter that stands there already brings two branches of its own.
    const chain = Array<number>(Math.min(counts[index]!, isSplitter(old) ? 2 : 1)).fill(node);
    while (chain.length < counts[index]!) {
      const copy = nodes.push(splitterOf(old, chain.pop()!)) - 1;
      chain.push(copy, copy);
    }
    taps.push(chain.reverse());
  }
  const outputs = circuit.outputs.map(({ label, node }) => ({ label, node: taps[node]!.pop()! }));
  return { name: circuit.name, nodes, outputs };
}

function splitterOf({ place, group, type }: CircuitNode, source: number): CircuitNode {
  return { op: "split", sources: [source], names: [], mode: 0, group, type, ...(place ? { place } : {}) };
}
