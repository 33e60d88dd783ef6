/**
 * The lessons as Python hands them over (`src/wiregrad/learn/lessons.py`), and the numbers of their texts, which come
 * from the circuit that stands beside a text: they move with it.
 */
import { parse } from "../engine";
import { QuizCircuit, showFactor, showNumber, type Leaves, type QuizRun, type Wire } from "./quiz-run";
import { TITLES } from "./sentences.generated";

export interface Figure {
  formula: string;
  leaves: Leaves;
  /** "start", "forward", "end", or the node whose backward step is shown. */
  show: string;
  about: string;
}

export interface Guess {
  ask: string;
  answer: string;
  leaves: Leaves;
}

export interface TextScreen {
  type: "text";
  title: string;
  body: string[];
  figure: Figure | null;
  guess: Guess | null;
  widget: Readonly<Record<string, string>> | null;
}

export interface QuestionScreen {
  type: "questions";
  formula: string;
  leaves: Leaves;
  kinds: string[];
  seed: number;
  /** How many questions of each kind are asked at least. */
  each: number;
}

export interface DrawScreen {
  type: "draw";
  formula: string;
}

export type Screen = TextScreen | QuestionScreen | DrawScreen;

export interface Lesson {
  key: string;
  number: number;
  title: string;
  about: string;
  minutes: number;
  mistakes: string[];
  summary: string;
  screens: Screen[];
}

export interface Course {
  schema: number;
  /** What the page is called, and what stands above the lessons. */
  title: string;
  heading: string;
  lessons: Lesson[];
}

const PLACEHOLDER = /\{(new )?([a-z]+)(_?)((?: [^{}]+)?)\}/g;
const circuits = new Map<string, QuizCircuit>();

/** The circuit of a formula, as questions and texts see it. */
export function circuitOf(formula: string): QuizCircuit {
  const known = circuits.get(formula) ?? new QuizCircuit(parse(formula));
  circuits.set(formula, known);
  return known;
}

/** Put the numbers of a figure into a text; `{new ...}` are those at the leaves of a guess. */
export function fillPlaceholders(text: string, formula: string, leaves: Leaves, after: Leaves = {}): string {
  return text.replaceAll(PLACEHOLDER, (_, isNew: string | undefined, quantity: string, factor: string, subject: string) => {
    const number = measured(formula, isNew ? { ...leaves, ...after } : leaves, quantity, subject.trim());
    return factor ? showFactor(number) : showNumber(number);
  });
}

/** The number that a placeholder stands for, such as `value f`, `send f->e` or `count splitters`. */
export function measured(formula: string, leaves: Leaves, quantity: string, subject: string): number {
  const circuit = circuitOf(formula);
  const run = circuit.run(leaves);
  const [first = "", second = ""] = subject.split(" ");
  switch (quantity) {
    case "value": return run.value(nodeOf(circuit, subject));
    case "grad": return run.upstream(nodeOf(circuit, subject));
    case "local": return run.local(wireOf(circuit, subject)) ?? 0;
    case "send": return run.sent(wireOf(circuit, subject)) ?? 0;
    case "count": return counted(circuit, first, second);
    case "nudge": return Number(first);
    case "predict": return run.upstream(nodeOf(circuit, first)) * Number(second);
    case "change": return changed(run, first, Number(second));
    default: throw new Error(`no text may ask for ${quantity}`);
  }
}

function changed(run: QuizRun, name: string, by: number): number {
  const { owner, leaves } = run;
  return owner.run({ ...leaves, [name]: leaves[name]! + by }).value(owner.root) - run.value(owner.root);
}

/** The node with a title. */
export function nodeOf(circuit: QuizCircuit, title: string): number {
  const node = circuit.nodes.find((found) => circuit.title(found) === title);
  if (node === undefined) throw new Error(`${title} is not in the circuit`);
  return node;
}

function wireOf(circuit: QuizCircuit, text: string): Wire {
  const [reader, source] = text.split("->").map((part) => nodeOf(circuit, part.trim()));
  const wire = circuit.wires.find((found) => found[0] === reader && circuit.sourceOf(found) === source);
  if (!wire) throw new Error(`there is no wire ${text}`);
  return wire;
}

function counted(circuit: QuizCircuit, what: string, name: string): number {
  const { functions, leaves, fan, nodes } = circuit;
  const fans = nodes.map((node) => fan[node]!);
  if (what === "readers") return fan[nodeOf(circuit, name)]!;
  if (what === "nodes") return functions.length;
  if (what === "leaves") return leaves.length;
  return fans.reduce((sum, count) => sum + (what === "wires" ? count : Math.max(0, count - 1)), 0);
}

/** Keys of verdicts that are no mistakes with a name. */
const NAMELESS = new Set(["neutral", "near", "unreadable", "only-here", "right", "claim-true", "claim-false"]);

/** What a mistake is called wherever it is listed; empty if it has no name. */
export function mistakeName(key: string, kind = ""): string {
  if (NAMELESS.has(key)) return "";
  const title = TITLES[`${kind}.${key}`] ?? TITLES[key] ?? "";
  return title.replace(/^[^:]*: /, "").replace("{op}", "a function");
}

export interface InlineText {
  text: string;
  look: "plain" | "bold" | "name" | "code";
}

/** A text by its marks: `**bold**`, and names or formulas between backticks; those with a call or an = are code. */
export function inlineParts(text: string): InlineText[] {
  return text.split(/(\*\*[^*]+\*\*|`[^`]+`)/).filter(Boolean).map((part) => {
    if (part.startsWith("**")) return { text: part.slice(2, -2), look: "bold" };
    if (!part.startsWith("`")) return { text: part, look: "plain" };
    const inner = part.slice(1, -1);
    return { text: inner, look: /[+]=|[*._"]|\w{4,}|^d[a-z]$/.test(inner) ? "code" : "name" };
  });
}
