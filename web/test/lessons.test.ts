// The progress of learners beside Python's: golden logs written by `make derive`, or more of them by a test of Python.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Course } from "../src/learn/course";
import { isOver, summed } from "../src/learn/lesson-run";
import { noLesson, readProgress, type LessonProgress } from "../src/learn/progress";

interface Golden {
  course: Course;
  learners: { learner: number; beliefs: string[]; lessons: Record<string, LessonProgress> }[];
}

const file = process.env.LESSONS_GOLDEN ?? join(process.env.WEB_FOLDER!, "golden/lessons.json");
const { course, learners } = JSON.parse(readFileSync(file, "utf8")) as Golden;

test("logs of whole lessons add up to what Python finds", () => {
  for (const { learner, lessons } of learners) {
    for (const lesson of course.lessons) {
      const { seen, round, logs, met, answered, first, done } = lessons[lesson.key]!;
      const found = summed(lesson, { ...noLesson(), seen, round, logs });

      const facts = { met: found.met, answered: found.answered, first: found.first, done: found.done };
      assert.deepEqual(facts, { met, answered, first, done }, `learner ${learner}, ${lesson.key}`);
      assert.ok(lesson.screens.every((_, k) => isOver(lesson, k, found)), `learner ${learner}, ${lesson.key}`);
    }
  }
});

const drawn = { ...noLesson(), logs: { 0: [] as string[] } };
const lesson = { ...course.lessons[0]!, mistakes: [], screens: [{ type: "draw" as const, formula: "y = x * x" }] };
const metAfter = (...log: string[]) => summed(lesson, { ...drawn, logs: { 0: log } });

test("a mistake in a drawing is open until it is put right", () => {
  const [begun, mended] = [metAfter("m:draw no-splitter"), metAfter("m:draw no-splitter", "right")];

  assert.deepEqual(begun.met, [{ key: "no-splitter", kind: "draw", state: "open" }]);
  assert.deepEqual(mended.met, [{ key: "no-splitter", kind: "draw", state: "cleared" }]);
  assert.equal(mended.done, false);
  assert.equal(metAfter("m:draw no-splitter", "right", "next").done, true);
});

test("a mistake whose number was given away stays open, and what has no name is not listed", () => {
  const shown = metAfter("right", "m:value other-op", "m:value neutral", "shown", "next");

  assert.deepEqual(shown.met, [{ key: "other-op", kind: "value", state: "open" }]);
  assert.equal(shown.done, false);
});

test("a progress keeps the name of its learner", () => {
  const text = JSON.stringify({ version: 1, last: "", learner: "Amara", lessons: {} });

  assert.equal(readProgress(text)?.learner, "Amara");
  assert.equal(readProgress(text.replace('"Amara"', "7"))?.learner, "");
});
