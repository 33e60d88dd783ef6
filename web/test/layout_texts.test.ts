import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { read, scaleOf, tone, weight, written } from "../src/layout";
import { printable } from "../src/engine/words";
import { clip, clipFront, width } from "../src/layout/letters";
import { BLOCKED, bareWithSign, NOT_COMPUTED, pretty, uniform } from "../src/layout/readings";

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
  assert.equal(BLOCKED.text, "blocked");
});

test("NaN and infinities are no numbers", () => {
  const states = [NaN, Infinity, -Infinity].map((value) => [read(value).text, read(value).state]);

  assert.deepEqual(states, [["NaN", "not finite"], ["Inf", "not finite"], ["-Inf", "not finite"]]);
});

test("a gradient has its sign written, and a minus that prints", () => {
  assert.deepEqual([3, -3, 0].map((value) => pretty(bareWithSign(read(value)))), ["+3", "\u22123", "0"]);
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
  assert.deepEqual([0, 1, 10].map((value) => weight(scale, value)), [1, 1, 3]);
  assert.deepEqual(scaleOf([10, -1, 0, NaN]), scale);
});
