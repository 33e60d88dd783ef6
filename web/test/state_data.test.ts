import { test } from "node:test";
import assert from "node:assert/strict";
import { asJson, documentOf, fromPage, pageData, readValue, type PageData } from "../src/state/data";
import { canEdit, fromPreset, progress, reduce, shown } from "../src/state/session";

const array = { type: "float64[2]", text: "[1., 2.]", norm: "inf", bad: 1 };

/** A circuit of arrays, as Python hands it over: y = sum(tanh(x)). */
const ARRAYS: PageData = {
  live: false,
  note: "a note",
  circuit: {
    name: "y",
    nodes: [
      { op: "input", sources: [], names: ["x"], mode: 0, group: "", type: "float64[2]" },
      { op: "tanh", sources: [0], names: [], mode: 0, group: "net", type: "float64[2]" },
      { op: "sum", sources: [1], names: ["y"], mode: 0, group: "", type: "float64", text: "sum(%1)" },
    ],
    outputs: [{ label: "y", node: 2 }],
  },
  run: { values: [array, array, "nan"], grads: [array, array, 1], wires: [[array, array, array], [null, 1, array]] },
  leaves: {},
};

test("numbers that JSON does not have come as words", () => {
  assert.deepEqual(["nan", "inf", "-inf", 2, true, null].map((told) => readValue(told)), [NaN, Infinity, -Infinity, 2, true, null]);
  assert.deepEqual(readValue(array), { ...array, norm: Infinity });
});

test("an empty data block is the expression", () => {
  assert.deepEqual(fromPage({}).leaves, { a: 2, b: -3, c: 10 });
});

test("a formula with leaves is that formula at those leaves", () => {
  const state = fromPage({ formula: "y = log(x)", leaves: { x: "inf" } });

  assert.deepEqual([state.draft, state.leaves], ["y = log(x)", { x: Infinity }]);
});

test("a formula with the statements and leaves of a preset is that preset", () => {
  const leaves = { a: 2, b: -3, c: 10 };
  const [same, other] = [leaves, { ...leaves, c: 4 }].map((own) => fromPage({ formula: "e = a + b\nf = e * c", leaves: own }));

  assert.deepEqual(same!.source, { kind: "formula", text: "e = a + b; f = e * c", preset: "expression" });
  assert.deepEqual(other!.source, { kind: "formula", text: "e = a + b\nf = e * c", preset: null });
});

test("a run of arrays can be stepped to its end, and its inputs cannot be edited", () => {
  let state = fromPage(ARRAYS);
  for (let count = 0; count < 20; count++) state = reduce(state, { type: "step", by: 1 });

  assert.equal(progress(state).phase, "done");
  assert.deepEqual(shown(state).known.grad, ["final", "final", "final"]);
  assert.equal(canEdit(state, "x"), false);
});

test("with a server a number can be edited, and the answer to the latest edit is shown", () => {
  const told = { ...ARRAYS, leaves: { x: 3 }, server: { run: true, views: false } };
  const edited = reduce(fromPage(told), { type: "leaf", name: "x", value: 4 });
  const run = { ...edited.run, values: [4, 5, 6] };
  const late = reduce(edited, { type: "ran", leaves: { x: 7 }, run });
  const answered = reduce(edited, { type: "ran", leaves: edited.leaves, run });

  assert.deepEqual(edited.leaves, { x: 4 });
  assert.equal(late.run, edited.run);
  assert.deepEqual(answered.run.values, [4, 5, 6]);
});

test("a refusal is shown until the next edit", () => {
  const told = { ...ARRAYS, leaves: { x: 3 }, server: { run: true, views: false } };
  const edited = reduce(fromPage(told), { type: "leaf", name: "x", value: 4 });
  const refused = reduce(edited, { type: "refused", leaves: edited.leaves, why: "no" });

  assert.equal(refused.trouble, "no");
  assert.equal(reduce(refused, { type: "leaf", name: "x", value: 5 }).trouble, "");
});

test("a page holds what it shows, and reads it back the same", () => {
  const formula = reduce(fromPreset("nan"), { type: "leaf", name: "p", value: -Infinity });
  const arrays = fromPage(ARRAYS);
  const [one, two] = [formula, arrays].map((state) => fromPage(JSON.parse(asJson(pageData(state))) as PageData));

  assert.deepEqual([one!.draft, one!.leaves], [formula.draft, formula.leaves]);
  assert.deepEqual([two!.run, two!.circuit], [arrays.run, arrays.circuit]);
});

test("no text in the data can end the block it stands in", () => {
  const text = asJson({ note: "</script><!-- & \u2028 \u2029", circuit: documentOf(fromPreset("neuron")).circuit! });

  assert.doesNotMatch(text, /[<>&\u2028\u2029]/);
  assert.equal((JSON.parse(text) as PageData).note, "</script><!-- & \u2028 \u2029");
});
