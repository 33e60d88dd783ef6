/** What a person has picked in the circuit, and the short text that names it in an address. */
import { nameOf } from "../engine";
import type { Circuit } from "../types";

export type Selection =
  | { kind: "node"; node: number }
  | { kind: "wire"; reader: number; slot: number }
  | { kind: "splitter"; node: number }
  | { kind: "group"; path: string };

/** The node that a selection is about; null for a group. */
export function nodeOf(selection: Selection | null): number | null {
  if (!selection || selection.kind === "group") return null;
  return selection.kind === "wire" ? selection.reader : selection.node;
}

/** Whether two selections pick the same thing. */
export function sameSelection(one: Selection | null, two: Selection | null): boolean {
  return JSON.stringify(one) === JSON.stringify(two);
}

/** A selection in a few letters: n:f, w:f.0, s:x, g:net/layer1. */
export function selectionCode(circuit: Circuit, selection: Selection): string {
  if (selection.kind === "group") return `g:${selection.path}`;
  if (selection.kind === "wire") return `w:${nameOf(circuit, selection.reader)}.${selection.slot}`;
  return `${selection.kind[0]!}:${nameOf(circuit, selection.node)}`;
}

/** The selection that a code names; null where the circuit has no such thing. */
export function selectionOf(circuit: Circuit, code: string): Selection | null {
  const [kind, rest] = [code.slice(0, 2), code.slice(2)];
  const find = (name: string): number => circuit.nodes.findIndex((_, node) => nameOf(circuit, node) === name);
  if (kind === "g:") return circuit.nodes.some(({ group }) => group.startsWith(rest)) ? { kind: "group", path: rest } : null;
  if (kind === "w:") {
    const dot = rest.lastIndexOf(".");
    const [reader, slot] = [find(rest.slice(0, dot)), Number(rest.slice(dot + 1))];
    return circuit.nodes[reader]?.sources[slot] === undefined ? null : { kind: "wire", reader, slot };
  }
  const node = find(rest);
  if (node < 0) return null;
  return kind === "n:" ? { kind: "node", node } : kind === "s:" ? { kind: "splitter", node } : null;
}

/** The node to start from: the output. */
export function firstNode(circuit: Circuit): Selection | null {
  const node = circuit.outputs[0]?.node ?? circuit.nodes.length - 1;
  return node < 0 ? null : { kind: "node", node };
}
