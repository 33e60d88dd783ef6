/**
 * A step in the words of the picture: the names that are drawn, the numbers that are drawn, and which of them are new.
 * Kept true: what the sentence tells is what the position shows, at every step size.
 */
import { expression, isSplitter, opOf, readers } from "../engine";
import { called } from "../layout/names";
import { bare, pretty, read } from "../layout/readings";
import { captionText } from "../layout/signs";
import type { Circuit, Phase, Run, Value, WireFlow } from "../types";
import { answerOf, questionAbout } from "./question";
import type { Options, Session } from "./session";
import { nodeOf } from "./selection";
import {
  phaseAt, stageAt, stageProgress, stagesOfStep, stops, sum, type Stage, type StageProgress, type StepSize,
} from "./timeline";

/** A piece of a sentence: plain words, a name, a number with its sign, or the number of a part. */
export interface Words {
  text: string;
  as?: "name" | "plus" | "minus" | "number" | "part";
  /** Whether it is what has just happened. */
  now?: boolean;
}

/** Where a run stands: the step of its size, the sentence, and how far the step is. */
export interface Telling {
  phase: Phase;
  /** The step that a position is in, of how many; both are counted in steps by node, or in larger ones if asked. */
  step: number;
  of: number;
  /** What stands over the sentence: the phase, the step in it and the node that fires. */
  head: Words[];
  words: Words[];
  /** The parts or wires of the step; null where it has only one. */
  inner: string | null;
  /** The stages that the step went through. */
  stages: Stage[];
}

const IDLE = "Nothing is computed yet: only the leaves have values";
const STALE = "What is striped is from before the change: step to compute it again";
const NEVER_RUN = "This circuit came without numbers";
/** A step through more stages than this is told by its last one. */
const MAX_TOLD = 3;
/** Longer expressions are left out where the numbers of the same step say it. */
const MAX_LETTERS = 28;

/** What was told: sentence, picture and timeline of a step all ask. */
const tellings = new WeakMap<Session, Telling>();

/** Tell what the step did that led to the position of a session. */
export function tell(state: Session): Telling {
  const telling = tellings.get(state) ?? tellingOf(state);
  tellings.set(state, telling);
  return telling;
}

function tellingOf(state: Session): Telling {
  const { line, at, options } = state;
  const phase = phaseAt(line, at);
  const cells = cellStops(state);
  const counted = { step: cells.findIndex((stop) => stop >= at), of: cells.length - 1 };
  const stage = stageAt(line, at);
  if (!stage) return { phase, ...counted, head: [], words: idleWords(state), inner: null, stages: [] };
  const found = stops(state.run, line, stepSize(options), nodeOf(state.selection));
  const stages = stagesOfStep(line, found, at);
  const single = stages.length === 1;
  const progress = stageProgress(stage, at);
  return {
    phase,
    ...counted,
    head: headOf(state, stages),
    words: single ? stageWords(state, stage, progress) : stepWords(state, stages),
    inner: single ? innerText(progress, options.size) : null,
    stages,
  };
}

/** The sentence without its looks. */
export function sentence(words: readonly Words[]): string {
  const parts = words.map(({ text, as }, k) => (as === "part" ? (k ? "; " : "") : text));
  return parts.join("").replace(/ +/g, " ").trim();
}

/** The phase, the step and how many there are, and the sentence of the step. */
export function progress(state: Session): { phase: Phase; step: number; of: number; text: string } {
  const { phase, step, of, words } = tell(state);
  return { phase, step, of, text: sentence(words) };
}

/** What the live region says about a step: all its parts in one sentence. */
export function announcement(state: Session): string {
  const { phase, step, of, words, stages, inner } = tell(state);
  const text = sentence(words);
  if (phase === "idle") return `At the start, ${of} ${of === 1 ? "step" : "steps"} to go. ${text}${text.endsWith("?") ? "" : "."}`;
  const name = phase === "done" ? "backward, the last" : phase;
  const sends = stages.length === 1 && stages[0]!.kind === "send";
  const who = sends ? `${called(state.circuit, stages[0]!.node)}: ` : "";
  const place = inner?.startsWith("wire") ? `, ${inner}` : "";
  const answer = answerOf(state).replaceAll("`", "");
  return `Step ${step} of ${of}${place}, ${name}. ${who}${text}.${answer && ` ${answer}.`}`;
}

/** The size that a step has: where nothing may move, the parts of a step come one by one. */
export function stepSize({ size, still }: Options): StepSize {
  return still && size === "node" ? "part" : size;
}

/** The positions at which the cells of the timeline end: steps by node, or larger ones if those are asked for. */
export function cellStops({ run, line, options, selection }: Session): number[] {
  const size = options.size === "wire" ? "node" : options.size;
  return stops(run, line, size, nodeOf(selection));
}

/** Before the first step there is something to ask; names are set apart by backticks. */
function idleWords(state: Session): Words[] {
  const { before, line } = state;
  if (before || !line.length) return [plain(before ? STALE : NEVER_RUN)];
  return marked(questionAbout(state) || IDLE);
}

function marked(text: string): Words[] {
  return text.split("`").map((part, k) => (k % 2 ? { text: part, as: "name" } : plain(part)));
}

const PHASES = { forward: "Forward", seed: "Seed", backward: "Backward" } as const;

/** What stands over the sentence: where the run is; at the end, the answer to the question. */
function headOf(state: Session, stages: readonly Stage[]): Words[] {
  const { line, circuit, at } = state;
  const last = stages.at(-1)!;
  const answer = answerOf(state);
  if (answer) return [...marked(answer), plain(".")];
  if (last.phase === "seed") return [plain(PHASES.seed)];
  const own = line.stages.filter(({ phase }) => phase === last.phase);
  const [from, to] = [stages.find(({ phase }) => phase === last.phase)!, last].map((stage) => own.indexOf(stage) + 1);
  const place = from === to ? `step ${to}` : `steps ${from} to ${to}`;
  const head = plain(`${PHASES[last.phase]}, ${place} of ${own.length}`);
  if (stages.length > 1 || last.kind !== "send") return [head];
  const { wire, wires } = stageProgress(last, at);
  const inside = wire > 0 && wire < wires ? [plain(`, wire ${wire} of ${wires}`)] : [];
  return [head, plain(": "), name(circuit, last.node), ...inside];
}

function innerText({ part, parts, wire, wires }: StageProgress, size: string): string | null {
  if (size === "wire" && wires > 1 && wire) return `wire ${wire} of ${wires}`;
  return parts > 1 ? `part ${part} of ${parts}` : null;
}

/** A step through several stages: each of them in short, or the last of many. */
function stepWords(state: Session, stages: readonly Stage[]): Words[] {
  if (stages.length > MAX_TOLD) {
    const last = stages.at(-1)!;
    const begin = plain(`${stages.length} steps at once, the last: `);
    return [begin, ...shortWords(state, last)];
  }
  return stages.flatMap((stage, k) => [...(k ? [plain("; ")] : []), ...shortWords(state, stage)]);
}

/** One stage among several. */
function shortWords(state: Session, stage: Stage): Words[] {
  if (stage.kind !== "send") return stageWords(state, stage, stageProgress(stage, stage.last));
  return [name(state.circuit, stage.node), plain(" sends "), ...sentWords(state, stage, stage.last, " to ")];
}

/** One stage, as far as it has come. */
function stageWords(state: Session, stage: Stage, { part, parts }: StageProgress): Words[] {
  const { circuit, run } = state;
  if (stage.kind === "forward") return forwardWords(run, stage.node);
  if (stage.kind === "seed") return [name(circuit, stage.node), plain(" is the output: its gradient is "), fresh(1)];
  if (stage.kind === "merge") return mergeWords(run, stage.node);
  if (parts === 1) return sentWords(state, stage, state.at, " goes to ");
  if (state.options.size === "wire" && part === parts) return wireWords(state, stage);
  return partWords(state, stage, part);
}

/** The three parts of a backward step, as many as have happened; the last of them is new. */
function partWords(state: Session, stage: Stage, part: number): Words[] {
  const arrives = [number(state.run.grads[stage.node] ?? null), plain(" arrives")];
  const parts = [arrives, [plain(localText(state, stage.node))], sentWords(state, stage, state.at, " goes to ")];
  return parts.slice(0, part).flatMap((words, k) => [
    { text: String(k + 1), as: "part" as const },
    ...words.map((word) => (k === part - 1 ? { ...word, now: true } : word)),
  ]);
}

/** One wire of a backward step: upstream times local derivative, and where the product goes. */
function wireWords(state: Session, stage: Stage): Words[] {
  const wire = sentWires(state, stage, state.at).at(-1);
  const words = sentWords(state, stage, state.at, " goes to ").map((word) => ({ ...word, now: true }));
  if (!wire || wire.sent === null || wire.local === null || typeof wire.local === "object") return words;
  return [number(wire.upstream), plain(" \u00d7 "), plain(bracketed(wire.local)), plain(" = "), ...words];
}

function forwardWords(run: Run, node: number): Words[] {
  const { circuit, values } = run;
  const found = circuit.nodes[node]!;
  const source = found.sources[0];
  if (isSplitter(found) && source !== undefined) {
    return [fresh(values[node]!), plain(" is copied from "), name(circuit, source), plain(" to two wires")];
  }
  const symbols = captionText(found.text ?? expression(found.op, found.sources.map((input) => called(circuit, input))));
  const isNew = called(circuit, node) !== symbols && symbols.length <= MAX_LETTERS;
  const numbers = plugged(circuit, node, found.sources.map((input) => values[input]!));
  return [
    name(circuit, node),
    ...(isNew ? [plain(" = "), named(symbols)] : []),
    ...(numbers ? [plain(" = "), plain(numbers)] : []),
    plain(" = "),
    fresh(values[node]!),
  ];
}

/** An op applied to numbers; nothing where they are arrays. */
function plugged(circuit: Circuit, node: number, values: readonly Value[]): string {
  if (!values.length || values.some((value) => typeof value === "object")) return "";
  const { infix = [], prefix = "", name: op = circuit.nodes[node]!.op } = opOf(circuit.nodes[node]!.op) ?? {};
  const [first, ...rest] = values.map((value, k) => (k || prefix ? bracketed(value) : shown(value)));
  if (infix[0] && rest.length === 1) return `${first} ${pretty(infix[0])} ${rest[0]}`;
  return prefix ? `${pretty(prefix)}${first}` : `${op}(${values.map(shown).join(", ")})`;
}

function mergeWords(run: Run, node: number): Words[] {
  const { circuit } = run;
  const returned = arrivals(run, node);
  const parts = returned.flatMap((sent, k) => [...(k ? [plain(" + ")] : []), number(sent, k > 0)]);
  const total = fresh(run.grads[node] ?? null);
  return [plain("The splitter of "), name(circuit, node), plain(" adds what came back: "), ...parts, plain(" = "), total];
}

/** What came back to a node, in the order in which it came; the 1 of an output first. */
function arrivals(run: Run, node: number): Value[] {
  const own = run.circuit.outputs.some((output) => output.node === node) ? [1] : [];
  const wires = [...readers(run.circuit)[node]!].sort((one, two) => two.reader - one.reader || one.slot - two.slot);
  return [...own, ...wires.flatMap(({ reader, slot }) => run.wires[run.starts[reader]! + slot]!.sent ?? [])];
}

/** What the local derivatives of a node are. */
function localText({ run, circuit, line }: Session, node: number): string {
  const { op, caption } = circuit.nodes[node]!;
  const wires = run.wires.slice(run.starts[node], run.starts[node + 1]).filter(({ source }) => line.active[source]);
  const locals = wires.flatMap(({ local }) => (local === null ? [] : [local]));
  const pattern = opOf(op)?.pattern;
  if (!locals.length) return pattern ? "no local derivative" : `${op === "function" ? (caption ?? op) : op} has a rule of its own`;
  if (pattern === "swap" && op === "multiply" && wires.length === 2) return "each local derivative is the other stored input";
  const texts = locals.map(shown);
  if (wires.length > 1 && locals.length < wires.length) return `only the chosen input has a local derivative, ${texts.join(", ")}`;
  if (texts.length === 1) return `the local derivative is ${texts[0]}`;
  if (new Set(texts).size === 1) return `${texts.length === 2 ? "both" : "all"} local derivatives are ${texts[0]}`;
  return `the local derivatives are ${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}`;
}

/** The wires of a stage that have sent at a position. */
function sentWires({ run, line }: Session, stage: Stage, at: number): WireFlow[] {
  const index = (k: number): number => run.starts[stage.node]! + k;
  const wires = run.wires.slice(run.starts[stage.node], run.starts[stage.node + 1]);
  return wires.filter(({ source }, k) => line.active[source] && line.wireAt[index(k)]! <= at);
}

/** What a stage has sent at a position, to whom; with what was there before, or came from other readers. */
function sentWords(state: Session, stage: Stage, at: number, to: string): Words[] {
  const all = sentWires(state, stage, at);
  const told = state.options.size === "wire" ? all.slice(-1) : all;
  const [first] = told;
  const alike = first !== undefined && told.every(({ source, sent }) => source === first.source && sent !== null);
  if (alike && told.length > 1) {
    const sent = told.flatMap((wire, k) => [...(k ? [plain(" and ")] : []), number(wire.sent)]);
    return [...sent, plain(to.replace("goes", "go")), ...targetWords(state, first, at)];
  }
  return told.flatMap((wire, k) => [
    ...(k ? [plain(", ")] : []),
    number(wire.sent),
    plain(k ? " to " : to),
    ...targetWords(state, wire, told.length === 1 ? at : 0),
  ]);
}

/** Where something goes: to a node, to what a node has from before, or to a splitter with its sum so far. */
function targetWords(state: Session, wire: { source: number; sent: Value | null }, at: number): Words[] {
  const { run, circuit, line, carried } = state;
  const old = carried?.[wire.source] ?? null;
  const target = name(circuit, wire.source);
  const seeded = isFinite(line.seedAt[wire.source]!);
  if (line.due[wire.source]! + Number(seeded) < 2) {
    const total = old === null || wire.sent === null ? null : sum(old, wire.sent);
    return total === null ? [target] : [target, plain(", "), ...sumWords([old!, wire.sent!], total, "")];
  }
  const words = [plain("the splitter of "), target];
  const back = arrivedBy(run, line.wireAt, wire.source, at);
  if (!back.length || wire.sent === null) return words;
  const left = line.due[wire.source]! - back.length;
  const total = back.reduce((one: Value | null, two) => sum(one, two), null);
  const sums = sumWords(seeded ? [1, ...back] : back, seeded ? sum(1, total) : total, left ? " so far" : "");
  const waits = `. It waits for ${left === 1 ? "one more branch" : `${left} more branches`}`;
  return [...words, plain(": "), ...sums, plain(left ? waits : ", all branches are back")];
}

function arrivedBy(run: Run, wireAt: readonly number[], node: number, at: number): Value[] {
  const index = ({ reader, slot }: { reader: number; slot: number }): number => run.starts[reader]! + slot;
  const back = readers(run.circuit)[node]!.map(index).filter((wire) => wireAt[wire]! <= at && run.wires[wire]!.sent !== null);
  return back.sort((one, two) => wireAt[one]! - wireAt[two]!).map((wire) => run.wires[wire]!.sent!);
}

function sumWords(parts: readonly Value[], total: Value | null, behind: string): Words[] {
  const added = parts.flatMap((part, k) => [...(k ? [plain(" + ")] : []), number(part, k > 0)]);
  return parts.length > 1 ? [...added, plain(" = "), number(total), plain(behind)] : [...added, plain(behind)];
}

function plain(text: string): Words {
  return { text };
}

function named(text: string): Words {
  return { text, as: "name" };
}

function name(circuit: Circuit, node: number): Words {
  return named(called(circuit, node));
}

/** A number in the colour of its sign; a negative one in brackets where it follows a sign of arithmetic. */
function number(value: Value | null, follows = false): Words {
  const text = value === null ? "nothing" : follows ? bracketed(value) : shown(value);
  const size = value === null ? 0 : read(value).size;
  return { text, as: size > 0 ? "plus" : size < 0 ? "minus" : "number" };
}

/** A number that has just become known. */
function fresh(value: Value | null): Words {
  return { text: value === null ? "nothing" : shown(value), as: "number", now: true };
}

/** A number as the picture has it. */
function shown(value: Value): string {
  return pretty(bare(read(value)));
}

function bracketed(value: Value): string {
  const text = shown(value);
  return /^[-\u2212]/.test(text) ? `(${text})` : text;
}
