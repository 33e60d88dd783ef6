/**
 * What the picture of a question shows. Kept true: before the answer, neither the asked number nor what makes it
 * readable at sight stands anywhere in it; afterwards everything does.
 */
import { evaluate, steps } from "../engine";
import { knownAt, type Known, type Shown } from "../state/known";
import type { Selection } from "../state/selection";
import { timeline } from "../state/timeline";
import type { Run } from "../types";
import type { Question } from "./questions";
import type { QuizCircuit, Wire } from "./quiz-run";

/** What is asked in the picture: a number at a place, and the wire that leads there. */
export interface AskedPlace {
  what: "value" | "grad" | "local";
  node: number;
  wire: Wire | null;
}

const WIRE_KINDS = ["local", "send"];

/** The place of the asked number; null where a choice is asked for. */
export function askedPlace({ kind, target, options }: Question, circuit: QuizCircuit): AskedPlace | null {
  const [node, slot] = target;
  if (options.length || node === undefined) return null;
  if (kind === "value") return { what: "value", node, wire: null };
  if (WIRE_KINDS.includes(kind)) {
    const wire = [node, slot!] as const;
    return { what: kind === "local" ? "local" : "grad", node: kind === "local" ? node : circuit.sourceOf(wire), wire };
  }
  return kind === "gather" || kind === "leaf" ? { what: "grad", node, wire: null } : null;
}

/** What a press on something in the picture chooses; -1 where it is no choice. */
export function optionAt({ options }: Question, circuit: QuizCircuit, selection: Selection | null): number {
  if (!selection || selection.kind === "group") return -1;
  const byWire = (target: readonly number[]): boolean =>
    selection.kind === "wire" && target.length === 2 && target[0] === selection.reader && target[1] === selection.slot;
  const byNode = (target: readonly number[]): boolean => {
    if (selection.kind === "wire") return false;
    const source = target.length === 2 ? circuit.sourceOf([target[0]!, target[1]!]) : target[0];
    return source === selection.node && (target.length === 1 || !circuit.sources[selection.node]!.length);
  };
  return options.findIndex(({ target }) => byWire(target) || byNode(target));
}

/** The selection of a target. */
export function selectionOf(target: readonly number[]): Selection | null {
  const [node, slot] = target;
  if (node === undefined) return null;
  return slot === undefined || slot < 0 ? { kind: "node", node } : { kind: "wire", reader: node, slot };
}

function everything(run: Run): Known {
  const line = timeline(run, steps(run));
  return knownAt(run, line, line.length);
}

/** What is shown: nothing where the picture would be the answer. */
export function shownOf(question: Question, circuit: QuizCircuit, answered: boolean): Shown | null {
  const run = evaluate(circuit.circuit, question.leaves);
  const known = everything(run);
  if (question.kind === "spot") return mistaken(question, run, known);
  if (question.kind === "debug") return { run, known: { ...known, ...noGradients(known), local: known.value.map(() => false) } };
  if (answered) return { run, known };
  if (question.kind === "structure") return null;
  return { run, known: { ...known, ...hiddenParts(question, circuit, run, known) } };
}

/** Whether a node, splitters looked through, has a path to another one. */
function ancestors(run: Run, nodes: readonly number[]): Set<number> {
  const found = new Set<number>();
  const waiting = nodes.flatMap((node) => run.circuit.nodes[node]!.sources);
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    if (found.has(node)) continue;
    found.add(node);
    waiting.push(...run.circuit.nodes[node]!.sources);
  }
  return found;
}

type Parts = Partial<Known>;

function noGradients(known: Known): Parts {
  const none = known.grad.map(() => "none" as const);
  return { grad: none, partial: known.partial.map(() => null), arrived: known.arrived.map(() => 0), wire: known.wire.map(() => "none" as const) };
}

/** What stays hidden until a question is answered. */
function hiddenParts({ kind, form, target }: Question, circuit: QuizCircuit, run: Run, known: Known): Parts {
  const none = { ...noGradients(known), local: known.value.map(() => false) };
  const [node = -1] = target;
  if (kind === "value") {
    const before = ancestors(run, [node]);
    return { ...none, value: known.value.map((_, k) => before.has(k) || !run.circuit.nodes[k]!.sources.length) };
  }
  if (form === "order.forward") {
    return { ...none, value: known.value.map((_, k) => target.includes(k) || !run.circuit.nodes[k]!.sources.length) };
  }
  if (form === "order.backward") return sentBy(run, known, target);
  if (kind === "send" || kind === "router") return arrivedAt(run, known, [node]);
  if (kind === "gather") return arrivedAt(run, known, circuit.readers[node]!.map(([reader]) => reader));
  return none;
}

/** No sum is begun: where the gradient is not final, nothing has arrived. */
function arrivals(known: Known, grad: Known["grad"]): Pick<Known, "partial" | "arrived"> {
  return { partial: known.partial.map(() => null), arrived: known.arrived.map((count, node) => (grad[node] === "none" ? 0 : count)) };
}

/** The backward pass as far as some nodes have sent; the output has its 1. */
function sentBy(run: Run, known: Known, fired: readonly number[]): Parts {
  const sends = (reader: number): boolean => fired.includes(reader);
  const root = run.circuit.outputs[0]!.node;
  const wire = run.wires.map(({ reader }, k) => (sends(reader) ? known.wire[k]! : "none"));
  const grad = known.grad.map((mark, node) => {
    const into = run.wires.filter(({ source, sent }) => source === node && sent !== null);
    return node === root || (into.length && into.every(({ reader }) => sends(reader))) ? mark : "none";
  });
  return { grad, wire, ...arrivals(known, grad), local: known.value.map((_, node) => sends(node)) };
}

/** The backward pass as far as it goes without some nodes: the gradient is at each of them, and none of them has sent. */
function arrivedAt(run: Run, known: Known, nodes: readonly number[]): Parts {
  const hidden = ancestors(run, nodes);
  const waits = (node: number): boolean => hidden.has(node) || nodes.includes(node);
  const grad = known.grad.map((mark, node) => (hidden.has(node) && !nodes.includes(node) ? "none" : mark));
  return {
    grad,
    ...arrivals(known, grad),
    wire: known.wire.map((mark, k) => (waits(run.wires[k]!.reader) ? "none" : mark)),
    local: known.value.map((_, node) => !waits(node)),
  };
}

/** The run with the numbers that a question shows in place of the right ones. */
function mistaken({ shown }: Question, run: Run, known: Known): Shown {
  if (!shown.length) return { run, known };
  const sentOf = (reader: number, slot: number): number | undefined =>
    shown.find(({ target }) => target[0] === reader && target[1] === slot)?.number;
  const grads = run.grads.map((grad, node) => {
    const into = run.wires.filter(({ source, sent }) => source === node && sent !== null);
    return into.length ? into.reduce((sum, { reader, slot }) => sum + (sentOf(reader, slot) ?? 0), 0) : grad;
  });
  const wires = run.wires.map((wire) => ({ ...wire, upstream: grads[wire.reader]!, sent: sentOf(wire.reader, wire.slot) ?? wire.sent }));
  return { run: { ...run, grads, wires }, known: { ...known, local: known.value.map(() => false) } };
}
