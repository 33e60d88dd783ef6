/**
 * Runs a circuit on numbers: forward in index order, then back from the outputs. An absent gradient (null) is not 0: no
 * inf or NaN in a branch that was not taken leaks. Gradients of several readers are added last reader first, as
 * `sweep_backward` does in `src/wiregrad/passes/__init__.py`.
 */
import type { Circuit, Run, Scalar, Value, Wire, WireFlow } from "../types";
import { active, nameOf, readers, startsOf } from "./circuits";
import { compute, isNumber, kinksAt, localOf, opOf } from "./table";

/** Whether every node of a circuit can be computed here: numbers and conditions alone, and ops of the table. */
export function isRunnable(circuit: Circuit): boolean {
  return circuit.nodes.every(
    ({ op, type, constant }) =>
      (type === "float64" || type === "bool") &&
      (op === "input" || (op === "constant" ? typeof constant !== "object" : opOf(op) !== undefined)),
  );
}

/** Run forward and backward, and keep everything. */
export function evaluate(circuit: Circuit, leaves: Readonly<Record<string, number>>): Run {
  return backward(circuit, forward(circuit, leaves));
}

/** Run forward; returns the value of every node. */
export function forward(circuit: Circuit, leaves: Readonly<Record<string, number>>): Scalar[] {
  const values: Scalar[] = [];
  for (const [index, { op, constant }] of circuit.nodes.entries()) {
    if (op === "input") values.push(leafOf(leaves, nameOf(circuit, index)));
    else values.push(op === "constant" ? scalar(constant!) : computed(circuit, index, values));
  }
  return values;
}

function leafOf(leaves: Readonly<Record<string, number>>, name: string): number {
  if (!Object.hasOwn(leaves, name)) throw new Error(`no value for ${name}: give ${name}=...`);
  return leaves[name]!;
}

/** The value of a node that has sources, from theirs. */
export function computed(circuit: Circuit, index: number, values: readonly Value[]): Scalar {
  const { op, sources, type } = circuit.nodes[index]!;
  const record = opOf(op);
  if (!record) throw new Error(`${op} works on arrays, so only Python can compute it`);
  return compute(record, type, sources.map((source) => scalar(values[source]!)));
}

/** A value as the number or condition it is. */
export function scalar(value: Value): Scalar {
  if (typeof value === "object") throw new Error(`wanted a number; got ${value.type}`);
  return value;
}

/** Run backward from every output, each with gradient 1, on values that are there; keep everything. */
export function backward(circuit: Circuit, values: Scalar[]): Run {
  const starts = startsOf(circuit);
  const wires = circuit.nodes.flatMap((_, node) => wiresOf(circuit, node, values));
  const moving = active(circuit);
  const grads: (number | null)[] = values.map(() => null);
  for (const { node } of circuit.outputs) grads[node] = 1;
  for (let node = circuit.nodes.length - 1; node >= 0; node--) {
    const upstream = grads[node]!;
    const passes = upstream !== null && moving[node];
    for (let k = starts[node + 1]! - 1; k >= starts[node]!; k--) {
      const wire = wires[k]!;
      wire.upstream = upstream;
      if (!passes || !moving[wire.source] || wire.local === null) continue;
      const sent = upstream * Number(wire.local);
      wire.sent = sent;
      const before = grads[wire.source]!;
      grads[wire.source] = before === null ? sent : before + sent;
    }
  }
  return { circuit, values, grads, wires, starts };
}

/** The wires of a node with their local derivatives; nothing has come back yet. */
function wiresOf(circuit: Circuit, reader: number, values: readonly Scalar[]): WireFlow[] {
  const { op, sources, mode } = circuit.nodes[reader]!;
  const record = opOf(op);
  const inputs = sources.map((source) => values[source]!);
  return sources.map((source, slot) => {
    const moves = record && isNumber(circuit.nodes[source]!.type);
    const local = moves ? localOf(record, mode, slot, inputs, values[reader]!) : null;
    return { reader, slot, source, local, upstream: null, sent: null };
  });
}

/** What one reader brings back to a node, and the sum so far; the output's own 1 comes along no wire. */
export interface Branch {
  wire: Wire | null;
  sent: Value | null;
  /** Null while nothing has arrived, or where the values are arrays. */
  sum: number | null;
}

/** What comes back to a node, in the order in which it arrives, with partial sums. */
export function branches(run: Run, node: number): Branch[] {
  const found: Branch[] = [];
  if (run.circuit.outputs.some((output) => output.node === node)) found.push({ wire: null, sent: 1, sum: 1 });
  for (const wire of [...readers(run.circuit)[node]!].reverse()) {
    const { sent } = run.wires[run.starts[wire.reader]! + wire.slot]!;
    const before = found.at(-1)?.sum ?? null;
    found.push({ wire, sent, sum: typeof sent === "number" ? (before === null ? sent : before + sent) : before });
  }
  return found;
}

/** The kinks that a node is exactly on, where its slope is a choice; jumps of the value are told apart. */
export function kinksOf(run: Run, node: number): { doc: string; jump: boolean }[] {
  const { op, sources } = run.circuit.nodes[node]!;
  const record = opOf(op);
  const values = sources.map((source) => run.values[source]!);
  return record && values.every((value) => typeof value !== "object") ? kinksAt(record, values as Scalar[]) : [];
}
