/**
 * What learners type, as numbers; how far a number may be from the right one; and the verdict on an answer. The twin of
 * `src/wiregrad/learn/quiz_run.py`.
 */
import { evaluate, exact, FormulaMistake, isRunnable, parse } from "../engine";
import type { Circuit } from "../types";
import type { Factor, PredictedMistake } from "./mistakes";
import type { Leaves } from "./quiz-run";
import { filled, sentence } from "./sentences";
import { TEXTS, TITLES, WORDS } from "./sentences.generated";

const RELATIVE_TOLERANCE = 0.01;
/** How many significant digits a rounded answer has at most; with more it counts as right. */
const MAX_ROUNDED_DIGITS = 3;
export const EXPRESSION_TOLERANCE = 1e-6;
const MAX_ANSWER = 200;
const MAX_EXACT_DIGITS = 10;

/** What is said of an answer: right or not, which mistake it shows, and the factors of the learner's number. */
export interface Verdict {
  right: boolean;
  key: string;
  title: string;
  text: string;
  factors: Factor[];
  number: number | null;
  /** Whether it counts as an attempt; what cannot be read does not. */
  costs: boolean;
  /** What the ladder adds after the second and the third wrong answer. */
  hint: string;
}

/** An answer as a number; `formula` is set if it names leaves, `problem` if it cannot be read. */
export interface ReadAnswer {
  number: number | null;
  formula: Circuit | null;
  problem: string;
}

/** A verdict from what is not as usual. */
export function verdict(right: boolean, key: string, more: Partial<Verdict> = {}): Verdict {
  const title = sentence(TITLES, key);
  return { right, key, title, text: "", factors: [], number: null, costs: true, hint: "", ...more };
}

/** How far a number may be from an answer: 1 percent, less where the answer has at most three decimals. */
export function toleranceOf(answer: number): number {
  let share = RELATIVE_TOLERANCE * Math.abs(answer);
  for (let decimals = 0; decimals < 4; decimals++) {
    const scaled = Math.abs(answer) * 10 ** decimals;
    if (Math.abs(scaled - Math.floor(scaled + 0.5)) >= 1e-7) continue;
    share = Math.min(share, 0.5 / 10 ** decimals);
    break;
  }
  // What the picture shows of a number must count as that number.
  return Math.max(share, answer ? 0.5 * 10 ** (Math.floor(Math.log10(Math.abs(answer))) - 3) : 0);
}

/** Whether a number counts as an answer. */
export function isAccepted(number: number, answer: number): boolean {
  return Math.abs(number - answer) <= toleranceOf(answer) * (1 + 1e-9);
}

/** Whether two numbers are too close to be told apart. */
export function collides(one: number, two: number): boolean {
  return Math.abs(one - two) <= toleranceOf(one) + toleranceOf(two);
}

/** Read an answer; with `leaves`, it may be an expression of their names. */
export function readAnswer(answer: string, leaves: Readonly<Leaves> | null = null): ReadAnswer {
  const circuit = parsed(answer.trim().replaceAll("−", "-"));
  if (!circuit) return unread(sentence(TEXTS, "unreadable"));
  const inputs = circuit.nodes.filter(({ op }) => op === "input").map(({ names }) => names[0]!);
  if (inputs.length && !leaves) return unread(sentence(TEXTS, "unreadable-names"));
  const known = leaves ?? {};
  if (inputs.some((name) => !Object.hasOwn(known, name))) {
    return unread(filled(sentence(TEXTS, "unreadable-leaves"), { leaves: Object.keys(known).join(", ") }));
  }
  const number = evaluated(circuit, known);
  if (number === null) return unread(sentence(TEXTS, "unreadable"));
  return { number, formula: inputs.length ? circuit : null, problem: "" };
}

function unread(problem: string): ReadAnswer {
  return { number: null, formula: null, problem };
}

/** Parse an expression; commas between digits are decimal commas unless they separate arguments. */
function parsed(text: string): Circuit | null {
  if (!text || [...text].length > MAX_ANSWER || text.includes(";") || text.includes("\n")) return null;
  for (const spelling of new Set([text, text.replace(/(?<=\d),(?=\d)/g, ".")])) {
    try {
      return parse(spelling);
    } catch (error) {
      if (!(error instanceof FormulaMistake)) throw error;
    }
  }
  return null;
}

/** The value of an expression; null if it is no finite number. */
export function evaluated(circuit: Circuit, leaves: Readonly<Leaves>): number | null {
  if (!isRunnable(circuit)) return null;
  const value = evaluate(circuit, leaves).values[circuit.outputs[0]!.node];
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** Whether a number is an answer that was rounded to fewer digits; a whole answer needs no rounding. */
export function isRounded(number: number, answer: number): boolean {
  if (!number || !answer || Number.isInteger(answer)) return false;
  const first = -Math.floor(Math.log10(Math.abs(answer)));
  for (let decimals = first; decimals < first + MAX_ROUNDED_DIGITS; decimals++) {
    const scale = 10 ** decimals;
    const written = number * scale;
    const isShort = Math.abs(written - Math.floor(written + 0.5)) < 1e-7;
    if (isShort && Math.abs(written - answer * scale) <= 0.5 + 1e-7) return true;
  }
  return false;
}

/** The verdict on a number: right, a mistake that it matches better than all others, rounded, or neutral. */
export function judgeNumber(
  number: number,
  accepted: readonly number[],
  mistakes: readonly PredictedMistake[],
  neutral: string,
): Verdict {
  if (accepted.some((answer) => isAccepted(number, answer))) return verdict(true, "right", { number });
  const matches = mistakes.filter((mistake) => isAccepted(number, mistake.number));
  const [first] = matches;
  if (first && matches.every(({ key, text }) => key === first.key && text === first.text)) {
    const { key, title, text, factors } = first;
    return { ...verdict(false, key), title, text, factors, number };
  }
  return !first && accepted.some((answer) => isRounded(number, answer))
    ? verdict(false, "near", { text: sentence(TEXTS, "near"), number })
    : verdict(false, "neutral", { text: neutral, number });
}

/** The verdict on what cannot be read; it costs no attempt. */
export function refuse(problem: string): Verdict {
  return verdict(false, "unreadable", { text: problem, costs: false });
}

const COUNT_WORDS: Readonly<Record<number, string>> = { 2: "two", 3: "three" };

/** The title of a right answer after some wrong ones and some hints that were asked for. */
export function rightTitle(wrong: number, hints: number): string {
  const parts = ([["wrong", wrong], ["hint", hints]] as const).filter(([, count]) => count).map(([name, count]) =>
    filled(sentence(WORDS, `after.${name}${count > 1 ? "s" : ""}`), { count: COUNT_WORDS[count] ?? String(count) }));
  return parts.length ? filled(sentence(WORDS, "after"), { what: parts.join(" and ") }) : sentence(TITLES, "right");
}

/** Write a number with all its digits, for after the answer; what rounding added to a short one is left out. */
export function showExactly(number: number): string {
  const short = exact(Number(number.toPrecision(12)));
  const text = short.length <= MAX_EXACT_DIGITS ? short : exact(number);
  return text.replace(/\.0$/, "").replaceAll("-", "−");
}
