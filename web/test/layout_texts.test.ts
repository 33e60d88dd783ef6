import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { read, scaleOf, thickness, tone, written } from "../src/layout";
import { printable } from "../src/engine/words";
import { clip, clipFront, width } from "../src/layout/letters";
import { BLOCKED, factorText, NOT_COMPUTED, slotText, uniform } from "../src/layout/readings";

const golden = JSON.parse(readFileSync(join(process.env.WEB_FOLDER ?? ".", "golden", "layout.json"), "utf8")) as {
  numbers: [number, number, string][];
  texts: [string, string, number, number, string, string][];
};

test("numbers are written as Python writes them", () => {
  const found = golden.numbers.map(([value, digits]) => [value, digits, written(value, digits)]);

  assert.ok(golden.numbers.length > 500);
  assert.deepEqual(found, golden.numbers);
});

test("texts are made harmless, measured and cut as Python does", () => {
  const found = golden.texts.map(([text]) => {
    const plain = printable(text);
    return [text, plain, width(plain), width(plain, 10, true), clip(plain, 9), clipFront(plain, 9)];
  });

  assert.deepEqual(found, golden.texts);
});

test("what was not computed reads as a dash, and what is blocked says so", () => {
  assert.equal(read(null), NOT_COMPUTED);
  assert.notEqual(NOT_COMPUTED.text, "0");
  assert.equal(BLOCKED.text, "no gradient");
});

test("NaN and infinities are no numbers", () => {
  const states = [NaN, Infinity, -Infinity].map((value) => [read(value).text, read(value).state]);

  assert.deepEqual(states, [["NaN", "not finite"], ["Inf", "not finite"], ["-Inf", "not finite"]]);
});

test("a number has a minus that prints, no plus and no negative zero", () => {
  assert.deepEqual([3, -3, 0, -0].map((value) => slotText(read(value))), ["3", "\u22123", "0", "0"]);
});

test("a local derivative is a factor, with a negative one in parentheses and none for 1", () => {
  assert.deepEqual([2, -3, 1].map((value) => factorText(read(value))), ["\u00d72", "\u00d7(\u22123)", ""]);
});

test("an array shows its shape and what Python says of it", () => {
  const found = read({ type: "float64[2,3]", text: "[...]", norm: 5, bad: 0, short: "all 1", sign: 1 });
  const bare = read({ type: "float64[2,3]", text: "[...]", norm: 5, bad: 0 });

  assert.deepEqual([found.text, uniform(found)], ["[2\u00d73] all 1", "1"]);
  assert.deepEqual([bare.text, bare.signed], ["[2\u00d73] \u20165\u2016", false]);
});

test("the tone says the sign and the size, and what is not finite has none", () => {
  const scale = { limit: 10, floor: 1 };

  assert.deepEqual([10, -1, 0, Infinity, NaN].map((value) => tone(scale, value)), ["p5", "n2", "z", "x", "x"]);
  assert.equal(tone(scale, 10, false), "m5");
  assert.deepEqual([0, 10, NaN].map((value) => thickness(scale, value)), [1.6, 5.4, 5.4]);
  assert.ok(thickness(scale, 1) < thickness(scale, 2) && thickness(scale, 2) < thickness(scale, 3));
  assert.deepEqual(scaleOf([10, -1, 0, NaN]), scale);
});
