// Drawings and verdicts beside Python's: golden entries written by `make derive`, or a longer file by a test of Python.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { checkDrawing, CHECKS, DrawingFormula, DrawingNumbers, DrawingProblem, type Drawing, type DrawingMistake } from "../src/learn/drawing-check";
import { showNumber } from "../src/learn/quiz-run";

interface Entry {
  formula: string;
  drawing: Drawing;
  mistakes: DrawingMistake[];
  readings: Record<string, string>;
  leaves?: Record<string, number>;
  slots?: [string, string, number | null, string, string, [string, boolean, string, string][]][];
}

const file = process.env.DRAWING_GOLDEN ?? join(process.env.WEB_FOLDER!, "golden/drawing.json");
const entries = JSON.parse(readFileSync(file, "utf8")) as Entry[];

test("the golden drawings have every mistake", () => {
  const keys = new Set(entries.flatMap(({ mistakes }) => mistakes.map(({ key }) => key)));

  assert.deepEqual(Object.keys(CHECKS).filter((key) => !keys.has(key)), []);
});

test("drawings get Python's verdicts", () => {
  for (const { formula, drawing, mistakes, readings } of entries) {
    const found = checkDrawing(new DrawingFormula(formula), drawing);
    const where = `${formula} ${JSON.stringify(drawing)}`;
    assert.deepEqual(found.mistakes, mistakes, where);
    assert.deepEqual(found.readings, readings, where);
  }
});

test("numbers on right drawings are asked for and judged as in Python", () => {
  for (const { formula, drawing, leaves, slots } of entries) {
    if (!slots) continue;
    const numbers = new DrawingNumbers(new DrawingFormula(formula), drawing);
    assert.deepEqual(numbers.leaves, leaves, formula);
    const found = numbers.slots.map(({ kind, box, wire, prompt, answer }, k) => [
      kind, box, wire, prompt, showNumber(answer),
      slots[k]![5].map(([text]) => {
        const { right, key, text: said } = numbers.check(k, text);
        return [text, right, key, said];
      }),
    ]);
    assert.deepEqual(found, slots, formula);
  }
});

test("a formula that computes something twice is no exercise", () => {
  assert.throws(() => new DrawingFormula("y = (a + b) * tanh(b + a)"), DrawingProblem);
  assert.throws(() => new DrawingFormula("x"), DrawingProblem);
});
