/** Numbers and names as the page writes them. */
import { exact, MINUS, opOf, operand, PATTERNS, readers, short, titleOf } from "../engine";
import { NO_GRADIENT } from "../layout/readings";
import { signOf as typesetSign } from "../layout/signs";
import type { Known } from "../state/known";
import type { Circuit, Run, Value } from "../types";

export { NO_GRADIENT };

/** Format a value for people; null is an absent gradient. */
export function show(value: Value | null | undefined): string {
  return value === null || value === undefined ? NO_GRADIENT : short(value);
}

/** A value in few letters: of an array its norm, or the number that it has everywhere. */
export function brief(value: Value | null | undefined): string {
  return typeof value === "object" && value?.short ? value.short.replaceAll("-", MINUS) : show(value);
}

/** A number as it stands beside a sign of arithmetic. */
export function operandText(value: Value | null | undefined): string {
  return value === null || value === undefined ? NO_GRADIENT : operand(value);
}

/** A number with all its digits; what is none as it is shown elsewhere. */
export function allDigits(value: Value | null | undefined): string {
  if (typeof value !== "number" || !Number.isFinite(value) || !value) return show(value);
  return exact(value).replace(/\.0$/, "").replaceAll("-", MINUS);
}

/** The class of a number that is coloured by its sign. */
export function signClass(value: Value | null | undefined): string {
  const found = numeric(value);
  return found === null || !Number.isFinite(found) || found === 0 ? "" : found > 0 ? "pos" : "neg";
}

/** The sign of an op as pictures write it: × for multiply, tanh for tanh. */
export function signOf(op: string): string {
  const record = opOf(op);
  const text = record?.infix[0] ?? (record?.prefix || op);
  return typesetSign(text);
}

/** The number in a value, if it is one. */
export function numeric(value: Value | null | undefined): number | null {
  return value === null || value === undefined || typeof value === "object" ? null : Number(value);
}

/** How an op passes gradients on, in a sentence. */
export function patternText(op: string): string {
  const record = opOf(op);
  if (!record) return "";
  return `${record.pattern === "merge" ? "a splitter" : record.name} ${PATTERNS[record.pattern]}`;
}

/** The kind of a node in a word. */
export function kindText(circuit: Circuit, node: number): string {
  const { op, type } = circuit.nodes[node]!;
  if (op === "split") return "splitter";
  if (op === "input" || op === "constant") return op;
  return type.includes("[") ? `array, made by ${op}` : `function node, ${op}`;
}

/** A value if it is known at this position. */
export function valueText(run: Run, known: Known, node: number): string {
  if (!known.value[node]) return "not computed";
  return brief(run.values[node]) + (known.staleValue[node] ? " (stale)" : "");
}

/** A gradient if it is known at this position. */
export function gradText(run: Run, known: Known, node: number): string {
  const mark = known.grad[node];
  if (mark === "none") return "not computed";
  if (mark === "final") return brief(run.grads[node]);
  if (mark === "stale") return `${brief(run.grads[node])} (stale)`;
  return `${brief(known.partial[node])} so far, ${known.arrived[node]} of ${known.due[node]} arrived`;
}

/** The index of a wire in `run.wires`. */
export function wireIndex(run: Run, reader: number, slot: number): number {
  return run.starts[reader]! + slot;
}

/** A wire in words: e → f, input 1 of 2. */
export function wireText(circuit: Circuit, reader: number, slot: number): string {
  const { sources } = circuit.nodes[reader]!;
  const ends = `${titleOf(circuit, sources[slot]!)} → ${titleOf(circuit, reader)}`;
  return sources.length > 1 ? `${ends}, input ${slot + 1} of ${sources.length}` : ends;
}

/** The indices of the wires that read a node, in the order in which they send back. */
export function readersOf(run: Run, node: number): number[] {
  return readers(run.circuit)[node]!.map(({ reader, slot }) => wireIndex(run, reader, slot)).reverse();
}

