import assert from "node:assert/strict";
import { test } from "node:test";
import { nameRegex } from "../src/engine/name-regex";

const ITEMS = ["a", "b", "1", "_", ".", "[ab]", "[^a]", "[a-c_]", "\\d", "\\D", "\\w", "\\W", "\\.", "[\\d_]"];
const LETTERS = "aab1_.c-";

/** Numbers from 0 to `count - 1` that are the same every time. */
function chooser(seed: number): (count: number) => number {
  let state = seed;
  return (count) => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return Math.floor((state / 2147483648) * count);
  };
}

test("random expressions find what the browser's own find", () => {
  const chosen = chooser(1);
  const some = <T>(count: number, make: () => T) => Array.from({ length: count }, make);
  const one = (from: readonly string[] | string) => from[chosen(from.length)]!;
  const names = some(40, () => some(chosen(12), () => one(LETTERS)).join(""));
  for (let k = 0; k < 1000; k += 1) {
    const row = () =>
      one(["", "^"]) + some(chosen(6), () => one(ITEMS) + one(["", "", "*", "+", "?", "*?"])).join("") + one(["", "$"]);
    const text = some(1 + chosen(3), row).join("|");
    const own = nameRegex(text);
    const browsers = new RegExp(text, "u");
    assert.deepEqual(names.map(own), names.map((name) => browsers.test(name)), text);
  }
});

test("what could take for ever is refused or takes no time", () => {
  assert.throws(() => nameRegex("(a+)+$"), /groups are not known/);
  assert.throws(() => nameRegex("a{9}"), /counts are not known/);
  assert.throws(() => nameRegex("(?=a)"), /groups are not known/);
  assert.throws(() => nameRegex("\\1"), /is not known/);
  assert.throws(() => nameRegex("*"), /nothing before/);
  assert.throws(() => nameRegex("[a"), /not closed/);
  assert.throws(() => nameRegex("a".repeat(64)), /64 items/);
  assert.equal(nameRegex("a*a*a*a*a*a*a*a*a*a*a*a*b")("a".repeat(200)), false);
  assert.equal(nameRegex("a?".repeat(30) + "a".repeat(30))("a".repeat(30)), true);
});
