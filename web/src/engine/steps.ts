/**
 * A run told step by step, in Python's sentences: forward from the leaves, the seed, then backward to the leaves.
 */
import type { Circuit, Run, Step, Value, WireFlow } from "../types";
import { titleOf, readers, told } from "./circuits";
import { number, operand } from "./numbers";
import { expression, isSplitter } from "./table";

/** The steps of a run in the order in which they happened; a node may take two backward: adding, then sending. */
export function steps(run: Run): Step[] {
  const { circuit } = run;
  const forward = circuit.nodes.map((_, node): Step => ({ phase: "forward", node, text: computes(run, node) }));
  const seeds = [...new Set(circuit.outputs.map(({ node }) => node))].map(
    (node): Step => ({ phase: "seed", node, text: `${titleOf(circuit, node)} is the output: its gradient is 1` }),
  );
  const backward: Step[] = [];
  for (let node = circuit.nodes.length - 1; node >= 0; node--) {
    if (run.grads[node] === null) continue;
    for (const text of sendsBack(run, node)) backward.push({ phase: "backward", node, text });
  }
  return [...forward, ...seeds, ...backward];
}

function computes(run: Run, node: number): string {
  const { circuit, values } = run;
  const { op, sources } = circuit.nodes[node]!;
  const [name, value] = [titleOf(circuit, node), number(values[node]!)];
  if (op === "input") return `${name} is given: ${value}`;
  if (op === "constant") return circuit.nodes[node]!.names.length ? `${name} is the constant ${value}` : `the constant ${value}`;
  if (isSplitter(circuit.nodes[node]!)) return `${name} copies ${value} from ${titleOf(circuit, sources[0]!)} to two wires`;
  return `${told(circuit, node)} = ${expression(op, sources.map((source) => operand(values[source]!)))} = ${value}`;
}

function sendsBack(run: Run, node: number): string[] {
  const { circuit } = run;
  const returned = readers(circuit)
    [node]!.map(({ reader, slot }) => run.wires[run.starts[reader]! + slot]!)
    .filter(({ sent }) => sent !== null)
    .reverse();
  const found = returned.length > 1 ? [adds(circuit, node, returned, run.grads[node]!)] : [];
  const wires = run.wires.slice(run.starts[node], run.starts[node + 1]).filter(({ source }) => circuit.nodes[source]!.op !== "constant");
  if (!wires.length) return found;
  const parts = wires.map(({ sent, source }) => `${sent === null ? "nothing" : number(sent)} to ${titleOf(circuit, source)}`);
  const who = isSplitter(circuit.nodes[node]!) ? titleOf(circuit, node) : told(circuit, node);
  return [...found, `${who} sends ${inWords(parts)}`];
}

function adds(circuit: Circuit, node: number, returned: readonly WireFlow[], total: Value): string {
  const origins = inWords(returned.map(({ reader }) => titleOf(circuit, reader)));
  const parts = returned.map(({ sent }) => operand(sent!)).join(" + ");
  return `${titleOf(circuit, node)} adds what came back from ${origins}: ${parts} = ${number(total)}`;
}

/** Write a list as a sentence has it: `a, b and c`. */
export function inWords(parts: readonly string[]): string {
  return parts.length === 1 ? parts[0]! : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}
