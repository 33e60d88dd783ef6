/**
 * Mistakes as mutant backward rules: what a learner who makes one would answer, and out of which factors. The twin of
 * `src/wiregrad/learn/quiz_run.py`, which says more.
 */
import { showFactor, showNumber, type QuizRun, type Wire } from "./quiz-run";
import { filled, mistakeWords, sentence, type Fields } from "./sentences";
import { TEXTS } from "./sentences.generated";

/** The mistakes that replace a local derivative, in the order in which they claim a number that two of them give. */
export const RULE_MISTAKES = [
  "forward-for-local",
  "upstream-only",
  "own-not-other",
  "same-to-all",
  "activation-input",
  "router-both",
] as const;
const BRANCH_MISTAKES = ["branch-first", "branch-last", "branch-product", "branch-mean"] as const;
const MAX_RECURSIONS = 64;

/** One factor of a predicted number, and what it is. */
export interface Factor {
  value: number;
  label: string;
}

/** What a learner who makes a mistake would answer; `also` names mistakes that give this number by nature. */
export interface PredictedMistake {
  key: string;
  number: number;
  title: string;
  text: string;
  factors: Factor[];
  also: string[];
}

export const sumOf = (parts: readonly number[]): number => parts.reduce((sum, part) => sum + part, 0);
export const productOf = (parts: readonly number[]): number => parts.reduce((product, part) => product * part, 1);

/** Collects the predictions for one question; its fields are the names and numbers that sentences may use. */
export class MistakeWriter {
  readonly found: PredictedMistake[] = [];

  constructor(
    private readonly kind: string,
    private readonly fields: Fields,
  ) {}

  /** Add a prediction, unless the mistake cannot be made here. */
  add(key: string, number: number | null, fields: Fields = {}, factors: Factor[] = []): void {
    if (number === null || !Number.isFinite(number)) return;
    this.found.push({ key, number, ...mistakeWords(this.kind, key, { ...this.fields, ...fields }), factors, also: [] });
  }

  /** Add the prediction that one branch was taken for the sum. */
  addBranch(key: string, number: number, fields: Fields = {}): void {
    const { title, text } = mistakeWords(this.kind, "branch-one", { ...this.fields, ...fields });
    this.found.push({ key, number, title, text, factors: [], also: [] });
  }

  /** Add the prediction of a wrong sign; where one factor is negative, the text says so. */
  addSign(answer: number, factors: readonly number[] = []): void {
    this.add("sign", -answer);
    const negative = factors.filter((factor) => factor < 0).length;
    if (negative === 1) this.found.at(-1)!.text = filled(sentence(TEXTS, "sign-one"));
  }
}

/** The factor that a rule mistake puts in place of a local derivative; null if it cannot be made there. */
export function mutantOf(run: QuizRun, key: string, wire: Wire): number | null {
  const { owner } = run;
  const node = wire[0];
  switch (key) {
    case "forward-for-local":
      return run.value(node);
    case "upstream-only":
      return 1;
    case "own-not-other":
      return owner.has(node, "swap") ? run.value(owner.sourceOf(wire)) : null;
    case "same-to-all":
      return owner.has(node, "swap") ? null : neighbourSlope(run, wire);
    case "activation-input":
      return owner.sources[node]!.length === 1 ? run.localFrom(wire, run.value(owner.sources[node]![0]!)) : null;
    default:
      return owner.has(node, "route") && run.local(wire) === null ? 1 : null;
  }
}

/** The local derivative of the next input of the same node. */
function neighbourSlope(run: QuizRun, [node, slot]: Wire): number | null {
  const sources = run.owner.sources[node]!;
  for (let step = 1; step < sources.length; step++) {
    const other = (slot + step) % sources.length;
    if (run.owner.active[sources[other]!]) return run.local([node, other]);
  }
  return null;
}

/** The factor on a wire for a learner who makes a rule mistake wherever it can be made. */
function localOrMutant(run: QuizRun, key: string, wire: Wire): number | null {
  return mutantOf(run, key, wire) ?? run.local(wire);
}

/** Run the backward pass with another rule for wires, or another one for what several readers send. */
export function sweepWith(
  run: QuizRun,
  local: (wire: Wire) => number | null,
  combine: (parts: readonly number[]) => number = sumOf,
): Map<number, number> {
  const { owner } = run;
  const arrived = new Map<number, number[]>([[owner.root, [1]]]);
  const grads = new Map<number, number>();
  for (const node of [...owner.nodes].reverse()) {
    const parts = arrived.get(node);
    if (!parts) continue;
    const gradient = parts.length > 1 ? combine(parts) : parts[0]!;
    grads.set(node, gradient);
    for (let slot = owner.sources[node]!.length - 1; slot >= 0; slot--) {
      const source = owner.sources[node]![slot]!;
      const factor = owner.active[source] && owner.active[node] ? local([node, slot]) : null;
      if (factor !== null) arrived.set(source, [...(arrived.get(source) ?? []), gradient * factor]);
    }
  }
  return grads;
}

function combined(key: string, parts: readonly number[]): number {
  if (key === "branch-first") return parts[0]!;
  if (key === "branch-last") return parts.at(-1)!;
  return key === "branch-product" ? productOf(parts) : sumOf(parts) / parts.length;
}

/**
 * Run the backward pass as a plain recursion: add to each input in turn, which sends on at once all that it has; null if
 * there are too many paths.
 */
function sweepRecursively(run: QuizRun): Map<number, number> | null {
  const { owner } = run;
  const grads = new Map([[owner.root, 1]]);
  // The calls that have not returned, each with the input that is next.
  const calls: [number, number][] = [[owner.root, 0]];
  for (let step = 0; step < MAX_RECURSIONS * 16; step++) {
    const call = calls.pop();
    if (!call) return grads;
    const [node, slot] = call;
    const source = owner.sources[node]![slot];
    if (source === undefined) continue;
    calls.push([node, slot + 1]);
    const factor = owner.active[source] && owner.active[node] ? run.local([node, slot]) : null;
    if (factor === null) continue;
    grads.set(source, (grads.get(source) ?? 0) + grads.get(node)! * factor);
    calls.push([source, 0]);
  }
  return null;
}

/** Predict what mistaken learners send along one wire. */
export function predictSend(run: QuizRun, wire: Wire, writer: MistakeWriter, local: number, answer: number): void {
  const { owner } = run;
  const [node, source] = [wire[0], owner.sourceOf(wire)];
  const upstream = run.upstream(node);
  const labels: Record<string, string> = {
    "forward-for-local": `value of ${owner.title(node)}`,
    "own-not-other": owner.title(source),
  };
  for (const key of RULE_MISTAKES) {
    const factor = mutantOf(run, key, wire);
    if (factor === null) continue;
    const label = labels[key];
    const factors = label ? [{ value: upstream, label: "upstream" }, { value: factor, label }] : [];
    writer.add(key, upstream * factor, {}, factors);
  }
  writer.add("local-only", local);
  writer.add("twice", 2 * answer);
  writer.add("value-for-gradient", run.value(source));
  writer.addSign(answer, [upstream, local]);
}

/** Predict what mistaken learners take for the local derivative of a wire. */
export function predictLocal(run: QuizRun, wire: Wire, writer: MistakeWriter, local: number): void {
  const upstream = run.upstream(wire[0]);
  for (const key of RULE_MISTAKES) writer.add(key, key === "upstream-only" ? upstream : mutantOf(run, key, wire));
  writer.add("sent-for-local", upstream * local);
  writer.add("value-for-gradient", run.value(run.owner.sourceOf(wire)));
  writer.add("sign", -local);
}

/** Predict what mistaken learners let land at a node with several readers. */
export function predictGather(run: QuizRun, node: number, writer: MistakeWriter, answer: number): void {
  const wires = run.owner.readers[node]!.filter((wire) => run.sent(wire) !== null);
  const parts = wires.map((wire) => run.sent(wire)!);
  const last = parts.length - 1;
  for (const [k, part] of parts.entries()) {
    const key = k === 0 ? "branch-first" : k === last ? "branch-last" : "branch-one";
    writer.addBranch(key, part, { part: showNumber(part), reader: run.readerOf(wires[k]!) });
  }
  if (last > 1) for (const part of parts) writer.add("branch-missing", answer - part);
  writer.add("branch-product", productOf(parts));
  writer.add("branch-mean", answer / parts.length);
  for (const key of RULE_MISTAKES.slice(0, -1)) {
    if (!wires.some((wire) => mutantOf(run, key, wire) !== null)) continue;
    const sums = wires.map((wire) => run.upstream(wire[0]) * (localOrMutant(run, key, wire) ?? 0));
    writer.add(key, sumOf(sums), { op: activationOf(run, wires) });
  }
  writer.add("local-only", sumOf(wires.map((wire) => run.local(wire) ?? 0)));
  writer.add("twice", 2 * answer);
  writer.add("value-for-gradient", run.value(node));
  writer.addSign(answer);
}

/** The op whose input stands in for its output: the first one for which that makes a difference. */
function activationOf(run: QuizRun, wires: readonly Wire[]): string {
  const found = wires.find((wire) => {
    const mutant = mutantOf(run, "activation-input", wire);
    return mutant !== null && mutant !== run.local(wire);
  });
  return found ? run.owner.ops[found[0]]!.name : "";
}

/** Predict the gradient of a leaf for learners who make a mistake at every node, and at the last one alone. */
export function predictLeaf(run: QuizRun, node: number, writer: MistakeWriter, answer: number): void {
  const wires = run.owner.readers[node]!;
  for (const [key, grads] of sweepMistakes(run)) {
    const number = grads.get(node) ?? 0;
    if (key === "branch-first" || key === "branch-last") writer.addBranch(key, number);
    else writer.add(key, number, { op: activationOf(run, run.owner.wires) });
  }
  for (const key of RULE_MISTAKES.slice(0, 2)) {
    writer.add(key, sumOf(wires.map((wire) => run.upstream(wire[0]) * (localOrMutant(run, key, wire) ?? 0))));
  }
  writer.add("local-only", sumOf(wires.map((wire) => run.local(wire) ?? 0)));
  writer.add("twice", 2 * answer);
  writer.add("value-for-gradient", run.value(node));
  writer.addSign(answer);
}

/** The gradients of a whole backward pass under each mistake that can be made everywhere. */
function sweepMistakes(run: QuizRun): [string, Map<number, number>][] {
  const { wires, readers } = run.owner;
  const found: [string, Map<number, number>][] = [];
  for (const key of RULE_MISTAKES) {
    if (!wires.some((wire) => mutantOf(run, key, wire) !== null)) continue;
    found.push([key, sweepWith(run, (wire) => localOrMutant(run, key, wire))]);
  }
  if (!readers.some((list) => list.length > 1)) return found;
  for (const key of BRANCH_MISTAKES) {
    found.push([key, sweepWith(run, (wire) => run.local(wire), (parts) => combined(key, parts))]);
  }
  const recursive = sweepRecursively(run);
  return recursive ? [...found, ["recursing", recursive]] : found;
}

/** Write numbers for sentences: each plain, and with `_` behind its name in brackets where it is negative. */
export function numberFields(numbers: Readonly<Record<string, number>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(numbers).flatMap(([name, value]) => [
      [name, showNumber(value)],
      [`${name}_`, showFactor(value)],
    ]),
  );
}
