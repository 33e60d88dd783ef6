import { test } from "node:test";
import assert from "node:assert/strict";
import { fromFormula, fromPreset, reduce, type Action, type Session } from "../src/state/session";
import { faultOf, hashOf, LONGEST, stateOf } from "../src/state/url";
import { PRESETS } from "../src/state/presets";
import { sampled } from "./sampling";

function after(state: Session, ...actions: Action[]): Session {
  return actions.reduce(reduce, state);
}

/** What a person sees of a state. */
function seen({ draft, leaves, at, selection, options }: Session): unknown {
  return { draft, leaves, at, selection, options };
}

test("an address brings back formula, leaves, step, selection and view", () => {
  const state = after(
    fromFormula("e = a + b; f = e * c % 2", { a: -0, b: 1e-7, c: NaN }),
    { type: "to", where: "forward" },
    { type: "step", by: 1 },
    { type: "select", selection: { kind: "wire", reader: 3, slot: 1 } },
    { type: "option", change: { direction: "td", mode: "magnitude" } },
  );

  assert.deepEqual(seen(stateOf(hashOf(state)!)!), seen(state));
});

test("every position of every preset comes back from its address", () => {
  for (const [k, { key }] of PRESETS.entries()) {
    const start = fromPreset(key);
    const positions = Array.from({ length: start.line.length + 1 }, (_, at) => at);
    for (const at of sampled(positions, 3, k % 3)) {
      const state = after(start, { type: "go", at });

      assert.deepEqual(seen(stateOf(hashOf(state)!)!), seen(state), `${key} at ${at}`);
    }
  }
});

test("a preset is named, and only leaves that differ are written", () => {
  const state = after(fromPreset("expression"), { type: "leaf", name: "c", value: 4 });

  assert.equal(hashOf(state), "#v=1&p=expression&x=c:4");
  assert.equal(stateOf("#v=1&p=expression&x=c:4")!.given.c, 10);
});

test("a formula too long for an address has none", () => {
  const long = Array.from({ length: 400 }, (_, k) => `a${k}`).join(" + ");

  assert.equal(hashOf(fromFormula(long, {})), null);
  assert.equal(stateOf(`#v=1&f=x&x=${"a:1,".repeat(LONGEST)}`), null);
});

test("what an address has wrong is passed over", () => {
  const wrong = ["", "#", "#v=2&p=neuron", "#v=1", "#v=1&p=nothing", "#v=1&f=a+%2B", "#v=1&f=%E0%A4%A", "#v=1&f=a%20b"];

  assert.deepEqual(wrong.map((hash) => stateOf(hash)), wrong.map(() => null));
  const state = stateOf("#v=1&p=expression&x=a:none,b:7,:3,c&s=b99&sel=w:f.9&d=up&m=red")!;
  assert.deepEqual([state.leaves, state.at, state.selection], [{ a: 2, b: 7, c: 10 }, state.line.length, null]);
  assert.deepEqual([state.options.direction, state.options.mode], ["auto", "signed"]);
});

test("a name that objects have of their own is a leaf like any other", () => {
  const state = stateOf("#v=1&f=constructor*toString&x=toString:3")!;

  assert.deepEqual(state.leaves, { constructor: 1, toString: 3 });
});

test("why an address cannot be read is said in words, and of a good one nothing", () => {
  const good = ["", "#", "#v=1&p=neuron", "#v=1&f=a*b&x=a:2"];

  assert.deepEqual(good.map(faultOf), good.map(() => ""));
  assert.equal(faultOf("#v=2&p=neuron"), "it was written by another version");
  assert.equal(faultOf("#v=1&p=nothing"), "there is no example called nothing");
  assert.equal(faultOf("#v=1&f=%E0%A4%A"), "it is damaged");
});
