/**
 * Questions with a number as answer: what can be asked of a run, and the filter that keeps out unclear questions. The
 * twin of `src/wiregrad/learn/questions.py`, which says more.
 */
import { inWords, nameOf } from "../engine";
import { collides } from "./answers";
import {
  MistakeWriter,
  numberFields,
  predictGather,
  predictLeaf,
  predictLocal,
  predictSend,
  productOf,
  sumOf,
  type PredictedMistake,
} from "./mistakes";
import { Draws, hasPlainSize, READABLE_ATTEMPTS, showFactor, showNumber, type Leaves, type QuizCircuit, type QuizRun, type Wire } from "./quiz-run";
import { filled, sentence, type Fields } from "./sentences";
import { NEUTRAL, PROMPTS, WORDS } from "./sentences.generated";

const MAX_ATTEMPTS = 160;
/** For how many draws a question stays with the op whose turn it is. */
const TURN_ATTEMPTS = 40;
const MAX_PATHS = 24;
export const MAX_PROMPT = 100;
const MAX_GIVEN = 12;
const NUDGES = [0.01, -0.01, 0.02] as const;
/** Predicted numbers below this are left out: gradients of saturated functions, whose digits are noise. */
const TINY = 1e-5;
const COMPARED_RUNS = 2;
const ANSWER_KEY = "answer";
/** A number of a sentence; a constant in the name of a node, as in 2·m, is none. */
const NUMBER = /(?<![\p{L}\p{N}_·^/.])(?<![+−] )−?\d+(?:\.\d+)?(?:e−?\d+)?(?![\p{L}\p{N}_·^/]|\.\d| [+−] )/gu;

/** What a question is about: a node, a wire, or one of them with a choice behind it. */
export type Target = readonly number[];

/** One of the choices of a question; `reply` is what is said if it is taken and not right. */
export interface ChoiceOption {
  text: string;
  right: boolean;
  key: string;
  title: string;
  reply: string;
  detail: string;
  target: Target;
}

/** A gradient that a picture shows on a wire in place of the right one. */
export interface ShownGradient {
  target: Target;
  label: string;
  number: number;
}

/** One question: what is asked, at which leaves, the answer, the mistakes that feedback knows, and the hints. */
export interface Question {
  kind: string;
  form: string;
  seed: number;
  number: number;
  target: Target;
  prompt: string;
  leaves: Leaves;
  /** The numbers that a picture of the question shows. */
  given: string[];
  /** Null where one of the options is asked for. */
  answer: number | null;
  accepted: number[];
  options: ChoiceOption[];
  mistakes: PredictedMistake[];
  /** The rungs of the ladder. */
  neutral: string;
  hint: string;
  step: string;
  why: string;
  shown: ShownGradient[];
  followUp: Question | null;
}

/** A circuit offers no clear question of a kind. */
export class NoQuestion extends Error {}

interface Posed extends Pick<Question, "prompt" | "given" | "accepted" | "mistakes" | "neutral" | "hint" | "step" | "why" | "form"> {
  answer: number;
  /** What the answer is divided by before its size is judged: a nudge is small by design. */
  scale: number;
  /** How many mistakes must remain. */
  least: number;
}

interface PoseOptions {
  accepted?: number[];
  scale?: number;
  least?: number;
  hint?: string;
  given?: string[];
}

function posed(kind: string, answer: number, writer: MistakeWriter, fields: Fields, options: PoseOptions = {}): Posed {
  const { accepted = [], scale = 1, least = 3, hint = `hint.${kind}`, given = [] } = options;
  return {
    answer,
    mistakes: writer.found,
    prompt: filled(sentence(PROMPTS, kind), fields),
    neutral: filled(sentence(NEUTRAL, kind), fields),
    hint: filled(sentence(WORDS, hint), fields),
    step: filled(sentence(WORDS, `step.${kind}`), fields),
    why: filled(sentence(WORDS, `why.${kind}`), fields),
    accepted: [answer, ...accepted],
    scale,
    least,
    form: kind,
    given,
  };
}

function wireFields(run: QuizRun, wire: Wire): Record<string, string> {
  const { owner } = run;
  const [node, source] = [wire[0], owner.sourceOf(wire)];
  return {
    node: owner.title(node),
    source: owner.title(source),
    op: owner.ops[node]!.name,
    ...numberFields({ upstream: run.upstream(node), value: run.value(node), own: run.value(source) }),
    output: owner.title(owner.root),
  };
}

/** Write the values of function nodes, as a picture of the question shows them. */
export function givenValues(run: QuizRun, nodes: readonly number[]): string[] {
  const shown = nodes.filter((node) => run.owner.sources[node]!.length).slice(0, MAX_GIVEN);
  return shown.map((node) => `${run.owner.title(node)} = ${showNumber(run.scalar(node))}`);
}

function givenArrivals(run: QuizRun, nodes: readonly number[]): string[] {
  return nodes.slice(0, MAX_GIVEN).map((node) => {
    const fields = { node: run.owner.title(node), ...numberFields({ upstream: run.upstream(node) }) };
    return filled(sentence(WORDS, "given.arrives"), fields);
  });
}

const distinct = <T>(items: readonly T[]): T[] => [...new Set(items)];

function inputsOf(run: QuizRun, node: number): string {
  const parts = distinct(run.owner.sources[node]!).map((source) => {
    const [number, title] = [showNumber(run.scalar(source)), run.owner.title(source)];
    return title === number ? number : `${title} = ${number}`;
  });
  return inWords(parts);
}

function poseValue(run: QuizRun, [node]: Target): Posed {
  const { owner } = run;
  const answer = run.value(node!);
  const fields = { node: owner.title(node!), inputs: inputsOf(run, node!), ...numberFields({ value: answer }) };
  const writer = new MistakeWriter("value", fields);
  const sources = owner.sources[node!]!;
  const xs = sources.filter((source) => !owner.isCondition(source)).map((source) => run.value(source));
  if (xs.length === 2 && sources.length === 2) predictOtherOps(run, node!, xs[0]!, xs[1]!, writer);
  for (const x of distinct(xs)) writer.add("input-for-output", x, numberFields({ own: x }));
  for (const [slot, source] of sources.entries()) {
    writer.add("slope-for-value", owner.active[source] ? run.local([node!, slot]) : null);
  }
  writer.addSign(answer);
  return posed("value", answer, writer, fields, { given: givenValues(run, distinct(sources)) });
}

function predictOtherOps(run: QuizRun, node: number, a: number, b: number, writer: MistakeWriter): void {
  const own = run.owner.ops[node]!.name;
  const others = [["add", "+", a + b], ["multiply", "×", a * b], ["subtract", "−", a - b]] as const;
  for (const [name, sign, number] of others) {
    if (name !== own) writer.add("other-op", number, { left: showNumber(a), sign, right_: showFactor(b) });
  }
  if (own === "subtract") writer.add("operands-swapped", b - a);
  else if (own === "divide" && a) writer.add("operands-swapped", b / a);
  else if (own === "power" && b > 0) writer.add("operands-swapped", b ** a);
}

function givenWire(run: QuizRun, [node]: Wire): string[] {
  return givenValues(run, distinct([...run.owner.sources[node]!, node]));
}

function poseLocal(run: QuizRun, target: Target): Posed | null {
  const wire = [target[0]!, target[1]!] as const;
  const local = run.local(wire);
  if (local === null || !run.upstream(wire[0])) return null;
  const fields = { ...wireFields(run, wire), ...numberFields({ local }) };
  const writer = new MistakeWriter("local", fields);
  predictLocal(run, wire, writer, local);
  return posed("local", local, writer, fields, { given: givenWire(run, wire) });
}

function poseSend(run: QuizRun, target: Target): Posed | null {
  const wire = [target[0]!, target[1]!] as const;
  const [local, sent] = [run.local(wire), run.sent(wire)];
  if (local === null || sent === null) return null;
  const fields = { ...wireFields(run, wire), ...numberFields({ local, sent }) };
  const writer = new MistakeWriter("send", fields);
  predictSend(run, wire, writer, local, sent);
  return posed("send", sent, writer, fields, { given: [...givenWire(run, wire), ...givenArrivals(run, [wire[0]])] });
}

function liveWires(run: QuizRun, node: number): Wire[] {
  return run.owner.readers[node]!.filter((wire) => run.sent(wire) !== null);
}

function sumFields(run: QuizRun, node: number, wires: readonly Wire[]): Record<string, string> {
  const { owner } = run;
  const parts = wires.map((wire) => run.sent(wire)!);
  return {
    node: owner.title(node),
    source: owner.title(node),
    output: owner.title(owner.root),
    count: String(parts.length),
    parts: chained(parts, " + "),
    reader: run.readerOf(wires[0]!),
    ...numberFields({
      part: parts[0]!,
      sum: run.upstream(node),
      own: run.value(node),
      local: run.local(wires[0]!) ?? 0,
    }),
  };
}

/** Numbers with a sign between them, negative ones behind it in brackets. */
function chained(numbers: readonly number[], sign: string): string {
  return [showNumber(numbers[0]!), ...numbers.slice(1).map(showFactor)].join(sign);
}

function poseGather(run: QuizRun, [node]: Target): Posed | null {
  const wires = liveWires(run, node!);
  if (wires.length < 2) return null;
  const fields = sumFields(run, node!, wires);
  const writer = new MistakeWriter("gather", fields);
  const answer = run.upstream(node!);
  predictGather(run, node!, writer, answer);
  const readers = distinct(wires.map(([reader]) => reader));
  const sources = distinct(readers.flatMap((reader) => [...run.owner.sources[reader]!, reader]));
  const given = [...givenValues(run, sources), ...givenArrivals(run, readers)];
  return posed("gather", answer, writer, fields, { least: 4, given });
}

function poseLeaf(run: QuizRun, [node]: Target): Posed | null {
  const wires = liveWires(run, node!);
  if (!wires.length) return null;
  const fields = sumFields(run, node!, wires);
  const writer = new MistakeWriter("leaf", fields);
  const answer = run.upstream(node!);
  predictLeaf(run, node!, writer, answer);
  const hint = wires.length > 1 ? "hint.leaf.many" : "hint.leaf";
  return posed("leaf", answer, writer, fields, { hint, given: givenValues(run, run.owner.nodes) });
}

function poseNudge(run: QuizRun, [node, choice]: Target): Posed {
  const { owner } = run;
  const nudge = NUDGES[choice!]!;
  const gradient = run.upstream(node!);
  const change = gradient * nudge;
  const moved = owner.run({ ...run.leaves, [nameOf(owner.circuit, node!)]: run.value(node!) + nudge });
  const trueChange = moved.value(owner.root) - run.value(owner.root);
  const names = { source: owner.title(node!), output: owner.title(owner.root) };
  const fields = { ...names, ...numberFields({ nudge, gradient, sum: change }) };
  const writer = new MistakeWriter("nudge", fields);
  writer.add("gradient-for-change", gradient);
  writer.add("nudge-only", nudge);
  writer.add("new-output", run.value(owner.root) + change);
  writer.add("new-input", run.value(node!) + nudge);
  writer.add("value-for-gradient", run.value(node!) * nudge);
  writer.add("local-only", sumOf(owner.readers[node!]!.map((wire) => run.local(wire) ?? 0)) * nudge);
  writer.add("twice", 2 * change);
  writer.addSign(change);
  const given = givenValues(run, owner.nodes);
  return posed("nudge", change, writer, fields, { accepted: [trueChange], scale: Math.abs(nudge), given });
}

/** The paths from a node to the output, each as its wires; null if there are too many. */
export function findPaths(owner: QuizCircuit, node: number): Wire[][] | null {
  const waiting: [number, Wire[]][] = [[node, []]];
  const found: Wire[][] = [];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const [at, path] = next;
    if (at === owner.root) found.push(path);
    for (const wire of [...owner.readers[at]!].reverse()) waiting.push([wire[0], [...path, wire]]);
    if (waiting.length + found.length > MAX_PATHS) return null;
  }
  return found;
}

function posePaths(run: QuizRun, [node, choice]: Target): Posed | null {
  const paths = findPaths(run.owner, node!);
  if (!paths) return null;
  return choice! < 0 ? poseCount(run, node!, paths) : poseProduct(run, node!, paths, choice!);
}

function poseCount(run: QuizRun, node: number, paths: readonly Wire[][]): Posed {
  const { owner } = run;
  const readers = owner.readers[node]!;
  const fields = {
    node: owner.title(node),
    output: owner.title(owner.root),
    count: String(paths.length),
    readers: inWords(distinct(readers.map(([reader]) => owner.title(reader)))),
  };
  const writer = new MistakeWriter("count", fields);
  writer.add("branches-for-paths", readers.length);
  writer.add("nodes-for-paths", new Set(paths.flatMap((path) => path.map(([reader]) => reader))).size);
  writer.add("paths-missing", paths.length - 1);
  return posed("count", paths.length, writer, fields, { least: 2 });
}

function poseProduct(run: QuizRun, node: number, paths: readonly Wire[][], choice: number): Posed | null {
  const { owner } = run;
  const path = paths[choice]!;
  const slopes = path.flatMap((wire) => run.local(wire) ?? []);
  if (path.length < 2 || slopes.length < path.length) return null;
  const answer = productOf(slopes);
  const hidden = `${chained(slopes.slice(0, -1), " × ")} × □`;
  const names = [node, ...path.map(([reader]) => reader)].map((each) => owner.title(each)).join(" → ");
  const fields = { path: names, count: String(path.length), node: owner.title(node), ...numberFields({ sum: answer }) };
  const writer = new MistakeWriter("paths", fields);
  writer.add("forward-for-local", productOf(path.map(([reader]) => run.value(reader))));
  writer.add("path-sum", sumOf(slopes));
  for (const [k, slope] of slopes.entries()) {
    if (slope !== 0 && slope !== 1) writer.add("path-short", productOf(slopes.filter((_, other) => other !== k)));
  }
  if (paths.length > 1) writer.add("gradient-for-path", run.upstream(node));
  writer.add("value-for-gradient", run.value(node), { ...numberFields({ own: run.value(node) }), source: owner.title(node) });
  writer.addSign(answer, slopes);
  const found = posed("paths", answer, writer, { ...fields, factors: hidden }, { given: givenValues(run, owner.nodes) });
  return { ...found, step: filled(sentence(WORDS, "step.paths"), { ...fields, factors: chained(slopes, " × ") }) };
}

function pathTargets(owner: QuizCircuit): Target[] {
  return owner.leaves.flatMap((node): Target[] => {
    const paths = findPaths(owner, node);
    if (!owner.active[node] || !paths) return [];
    const forks = paths.some((path) => path.some(([reader]) => owner.readers[reader]!.length > 1 || paths.length > 2));
    const count: Target[] = paths.length > 1 && forks ? [[node, -1]] : [];
    return [...count, ...paths.flatMap((path, k): Target[] => (path.length > 1 ? [[node, k]] : []))];
  });
}

/** What a question of a kind can be about in a circuit. */
function targetsOf(owner: QuizCircuit, kind: string): Target[] {
  const read = owner.leaves.filter((node) => owner.readers[node]!.length);
  switch (kind) {
    case "value":
      return owner.functions.filter((node) => !owner.isCondition(node)).map((node) => [node]);
    case "local":
    case "send":
      return [...owner.wires];
    case "gather":
      return owner.nodes.filter((node) => owner.readers[node]!.length > 1).map((node) => [node]);
    case "leaf":
      return read.map((node) => [node]);
    case "nudge":
      return read.flatMap((node) => NUDGES.map((_, k) => [node, k]));
    default:
      return pathTargets(owner);
  }
}

/** The targets by op or form: each has its turn, so that the only tanh is not lost among many sums. */
function groupedTargets(owner: QuizCircuit, kind: string): Target[][] {
  const groups = new Map<string, Target[]>();
  for (const target of targetsOf(owner, kind)) {
    const op = ["value", "local", "send"].includes(kind) ? owner.circuit.nodes[target[0]!]!.op : "";
    const name = kind === "paths" ? String(target[1]! < 0) : op;
    groups.set(name, [...(groups.get(name) ?? []), target]);
  }
  return [...groups.values()];
}

type Poser = (run: QuizRun, target: Target) => Posed | null;
/** The kinds with a number as answer. */
export const POSERS: Readonly<Record<string, Poser>> = {
  value: poseValue,
  local: poseLocal,
  send: poseSend,
  gather: poseGather,
  leaf: poseLeaf,
  nudge: poseNudge,
  paths: posePaths,
};

/** Draws questions of one numeric kind, and remembers which mistakes are the same by nature at a target. */
export class NumericGenerator {
  private readonly groups: Target[][];
  private readonly pose: Poser;
  private readonly others = new Map<string, Map<string, number>[]>();

  constructor(
    private readonly owner: QuizCircuit,
    private readonly kind: string,
  ) {
    this.groups = groupedTargets(owner, kind);
    this.pose = POSERS[kind]!;
  }

  /** Draw leaves and targets until a question is clear. */
  draw(seed: number, number: number, fixed: Readonly<Leaves>, code: number): Question {
    const draws = new Draws(seed, code, number);
    const turns = this.orderedGroups(new Draws(seed, code));
    const lenient = this.owner.inputs.every((name) => Object.hasOwn(fixed, name));
    for (let attempt = 0; attempt < (this.groups.length ? MAX_ATTEMPTS : 0); attempt++) {
      const run = this.owner.run(this.owner.drawLeaves(draws, attempt, fixed));
      const group = attempt < TURN_ATTEMPTS ? turns[number % turns.length]! : draws.choose(turns);
      const target = draws.choose(group);
      const found = run.isFit(lenient ? READABLE_ATTEMPTS : attempt) ? this.pose(run, target) : null;
      if (!found || (attempt < TURN_ATTEMPTS && !lenient && this.hidesMistake(found, target))) continue;
      const mistakes = this.filtered(found, target, lenient);
      if (!mistakes) continue;
      const { prompt, given, answer, accepted, neutral, hint, step, why, form } = found;
      const asked = { kind: this.kind, form, seed, number, target, prompt, leaves: run.leaves, given, answer, accepted };
      return { ...asked, options: [], mistakes, neutral, hint, step, why, shown: [], followUp: null };
    }
    throw noQuestion(this.owner, this.kind);
  }

  /** The groups in a drawn order; ops that pass a gradient on unchanged show few mistakes and come last. */
  private orderedGroups(draws: Draws): Target[][] {
    const isPlain = (group: readonly Target[]): boolean => this.owner.has(group[0]![0]!, "distribute");
    const others = draws.shuffle(this.groups.filter((group) => !isPlain(group)));
    return [...others, ...draws.shuffle(this.groups.filter(isPlain))];
  }

  /** The mistakes that a question can name; null if the question is not clear. */
  filtered(found: Posed, target: Target, lenient: boolean): PredictedMistake[] | null {
    const size = Math.abs(found.answer / found.scale);
    if (!size || !hasPlainSize(size) || Math.abs(size - 1) < 1e-9) return null;
    if ([...found.prompt].length > MAX_PROMPT) return null;
    const names = numberedKeys(found.mistakes);
    const kept = new Map<number, PredictedMistake>();
    const unclear = new Set<number>();
    for (const [k, mistake] of found.mistakes.entries()) {
      if (mistake.number && Math.abs(mistake.number / found.scale) < TINY) continue;
      if (found.accepted.some((answer) => collides(mistake.number, answer))) continue;
      const rival = [...kept].find(([, one]) => isRival(one, mistake))?.[0];
      if (rival === undefined) kept.set(k, mistake);
      else if (this.isSameByNature(target, names[rival]!, names[k]!)) {
        const one = kept.get(rival)!;
        const also = distinct([...one.also, mistake.key]).filter((key) => key !== one.key);
        kept.set(rival, { ...one, also });
      } else if (lenient) {
        kept.set(k, mistake);
        unclear.add(rival).add(k);
      } else return null;
    }
    const all = [...kept.values()];
    const isTold = all.some(({ text }) => tellsNumber(text, found.answer));
    return all.length - unclear.size < found.least || isTold ? null : all;
  }

  /** Whether a mistake gives the right answer by chance, so that nobody could see it. */
  private hidesMistake(found: Posed, target: Target): boolean {
    const names = numberedKeys(found.mistakes);
    return found.mistakes.some(
      ({ number }, k) => collides(number, found.answer) && !this.isSameByNature(target, ANSWER_KEY, names[k]!),
    );
  }

  private isSameByNature(target: Target, one: string, two: string): boolean {
    const id = target.join(" ");
    const others = this.others.get(id) ?? this.predictedElsewhere(target);
    this.others.set(id, others);
    const known = others.filter((numbers) => numbers.has(one) && numbers.has(two));
    return known.length === COMPARED_RUNS && known.every((numbers) => collides(numbers.get(one)!, numbers.get(two)!));
  }

  private predictedElsewhere(target: Target): Map<string, number>[] {
    const draws = new Draws(1, ...target);
    const found: Map<string, number>[] = [];
    for (let attempt = 0; attempt < 40 && found.length < COMPARED_RUNS; attempt++) {
      const run = this.owner.run(this.owner.drawLeaves(draws, attempt, {}));
      const other = run.isClean ? this.pose(run, target) : null;
      if (!other) continue;
      const names = numberedKeys(other.mistakes);
      found.push(new Map([[ANSWER_KEY, other.answer], ...names.map((name, k) => [name, other.mistakes[k]!.number] as const)]));
    }
    return found;
  }
}

function isRival(one: PredictedMistake, two: PredictedMistake): boolean {
  return !(one.key === two.key && one.text === two.text) && collides(one.number, two.number);
}

/** The keys of predictions, counted where a key comes twice: `other-op 0`, `other-op 1`. */
function numberedKeys(mistakes: readonly PredictedMistake[]): string[] {
  const counts = new Map<string, number>();
  return mistakes.map(({ key }) => {
    const count = counts.get(key) ?? 0;
    counts.set(key, count + 1);
    return `${key} ${count}`;
  });
}

/** Whether a text has a number in it as the picture shows it. */
function tellsNumber(text: string, number: number): boolean {
  const numbers: string[] = text.match(NUMBER) ?? [];
  return numbers.includes(showNumber(number));
}

/** The error for a circuit that offers no clear question of a kind. */
export function noQuestion(owner: QuizCircuit, kind: string): NoQuestion {
  return new NoQuestion(`the circuit of ${owner.circuit.outputs[0]!.label} offers no clear question of kind ${kind}`);
}
