// Questions and verdicts beside Python's: golden entries written by `make derive`, or a longer file by a test of Python.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "../src/engine";
import { showExactly } from "../src/learn/answers";
import { NoQuestion, type Question } from "../src/learn/questions";
import { judge, QuestionSource, Quiz } from "../src/learn/quiz";
import { Draws, showNumber } from "../src/learn/quiz-run";
import { sampled } from "./sampling";

interface Entry {
  formula: string;
  fixed: Record<string, number>;
  seed: number;
  questions: { question: Question; verdicts: [string, boolean, string][] }[];
  absent: string[];
  quiz: unknown[][];
}

const file = process.env.LEARN_GOLDEN ?? join(process.env.WEB_FOLDER!, "golden/learn.json");
const entries = JSON.parse(readFileSync(file, "utf8")) as Entry[];

/** Compare two documents: texts must be equal, numbers within what libraries round differently. */
function alike(one: unknown, two: unknown, path: string): void {
  if (typeof one === "number" && typeof two === "number") {
    const scale = Math.max(Math.abs(one), Math.abs(two), 1e-9);
    return assert.ok(Math.abs(one - two) <= 1e-9 * scale, `${path}: ${one} and ${two}`);
  }
  if (typeof one === "string" && typeof two === "string") return assert.equal(rounded(one), rounded(two), path);
  if (one === null || two === null || typeof one !== "object" || typeof two !== "object") {
    return assert.equal(one, two, path);
  }
  assert.deepEqual(Object.keys(one).sort(), Object.keys(two).sort(), path);
  for (const [key, value] of Object.entries(one)) alike(value, (two as Record<string, unknown>)[key], `${path}.${key}`);
}

/** A text without the last digits of an exact answer, which libraries round differently. */
function rounded(text: string): string {
  return text.replace(/exactly \S+ /, "exactly # ");
}

function sourceOf({ formula, seed, fixed }: Entry): QuestionSource {
  return new QuestionSource(parse(formula), seed, fixed);
}

test("there are enough golden questions of every kind", () => {
  const kinds = new Set(entries.flatMap(({ questions }) => questions.map(({ question }) => question.kind)));

  assert.ok(entries.length >= 20);
  assert.equal(kinds.size, 13);
});

test("the same seed draws the same questions as in Python", () => {
  for (const entry of entries) {
    const source = sourceOf(entry);
    for (const { question } of entry.questions) {
      alike(source.draw(question.kind, question.number), question, `${entry.formula} ${entry.seed} ${question.kind}`);
    }
  }
});

test("a kind without a clear question is absent in both", () => {
  for (const entry of entries) {
    const source = sourceOf(entry);
    const number = entry.questions[0]!.question.number;
    for (const kind of entry.absent) assert.throws(() => source.draw(kind, number), NoQuestion, `${entry.formula} ${kind}`);
  }
});

test("answers get Python's verdicts", () => {
  for (const entry of entries) {
    const source = sourceOf(entry);
    for (const { question, verdicts } of entry.questions) {
      for (const [text, right, key] of verdicts) {
        const found = judge(source, question, text);
        const where = `${entry.formula} ${entry.seed} ${question.kind} ${JSON.stringify(text)}`;
        assert.deepEqual([found.right, found.key], [right, key], where);
      }
    }
  }
});

test("a quiz goes the way that Python's goes", () => {
  for (const [k, entry] of sampled([...entries.entries()].filter(([, { quiz }]) => quiz.length), 2)) {
    alike(played(entry, k), entry.quiz, `${entry.formula} ${entry.seed}`);
  }
});

/** A quiz in which every third answer is a mistake, and a hint is asked for now and then. */
function played(entry: Entry, seed: number): unknown[][] {
  const quiz = new Quiz(sourceOf(entry));
  const log: unknown[][] = [];
  const written = (text: string): string => {
    const { title, text: reply, hint } = quiz.check(text);
    return [title, reply, hint].filter(Boolean).join("\n");
  };
  for (let turn = 0; turn < 40; turn++) {
    const question = quiz.next();
    if (!question) break;
    const lines = [question.prompt];
    if ((turn + seed) % 3 === 0) lines.push(written(chosen(question, false)));
    if ((turn + seed) % 5 === 0) lines.push(quiz.hint());
    lines.push(written(chosen(question, true)));
    log.push([question.kind, question.number, ...lines]);
  }
  return [...log, [quiz.openKinds, quiz.clearedKinds, quiz.skipped]];
}

function chosen({ options, answer, mistakes }: Question, right: boolean): string {
  if (options.length) return String(options.findIndex((option) => option.right === right) + 1);
  return right ? String(answer) : showNumber(mistakes[0]!.number);
}

test("numbers are drawn and written as in Python", () => {
  const draws = new Draws(7, 2);

  assert.deepEqual([1, 2, 3, 4, 5].map(() => draws.below(10)), [5, 2, 6, 6, 1]);
  const numbers = [-2.4, 0.55912, 1 / 65536, 123456, -0, 10.125, 12345.6];
  assert.deepEqual(numbers.map(showNumber), ["−2.4", "0.5591", "1.526e−5", "1.235e5", "0", "10.12", "12346"]);
  assert.deepEqual([-0.5, 0.8944882683715906, 1.5 * 3.3].map(showExactly), ["−0.5", "0.8944882683715906", "4.95"]);
});
