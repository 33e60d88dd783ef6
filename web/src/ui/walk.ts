/** Moving about in a circuit with the keyboard: along wires, between neighbours, from wire to wire. Pure. */
import { readers } from "../engine";
import type { Circuit } from "../types";
import type { Selection } from "../state/selection";

/** Along the output wire to the first reader; from a wire, to its reader. */
export function towardsReader(circuit: Circuit, from: Selection): Selection {
  if (from.kind === "group") return from;
  if (from.kind === "wire") return { kind: "node", node: from.reader };
  const next = readers(circuit)[from.node]?.[0];
  return next ? { kind: "node", node: next.reader } : from;
}

/** Along the first input wire to its source; from a wire, to its source. */
export function towardsSource(circuit: Circuit, from: Selection): Selection {
  if (from.kind === "group") return from;
  const source = from.kind === "wire" ? circuit.nodes[from.reader]?.sources[from.slot] : circuit.nodes[from.node]?.sources[0];
  return source === undefined ? from : { kind: "node", node: source };
}

/** The next or previous node of the same rank, around the end. */
export function sibling(ranks: readonly number[], from: Selection, by: 1 | -1): Selection {
  if (from.kind !== "node" && from.kind !== "splitter") return from;
  const row = ranks.flatMap((rank, node) => (rank === ranks[from.node] ? [node] : []));
  const index = row.indexOf(from.node);
  return { kind: "node", node: row[(index + by + row.length) % row.length]! };
}

/** The next of a node's wires: inputs, the splitter if there is one, then the wires to its readers. */
export function nextWire(circuit: Circuit, anchor: number, from: Selection): Selection {
  const ins: Selection[] = circuit.nodes[anchor]!.sources.map((_, slot) => ({ kind: "wire", reader: anchor, slot }));
  const outs: Selection[] = readers(circuit)[anchor]!.map(({ reader, slot }) => ({ kind: "wire", reader, slot }));
  const all = [...ins, ...(outs.length > 1 ? [{ kind: "splitter", node: anchor } as const] : []), ...outs];
  if (!all.length) return { kind: "node", node: anchor };
  const index = all.findIndex((one) => JSON.stringify(one) === JSON.stringify(from));
  return all[(index + 1) % all.length]!;
}
