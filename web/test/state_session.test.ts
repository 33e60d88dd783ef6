import { test } from "node:test";
import assert from "node:assert/strict";
import { nameOf, number } from "../src/engine";
import {
  announcement, canRun, fromData, fromFormula, fromPreset, notesOf, progress, reduce, shown, type Action, type Session,
} from "../src/state/session";
import { changedFrom } from "../src/state/known";
import { PRESETS, told } from "../src/state/presets";

/** The state after some actions. */
function after(state: Session, ...actions: Action[]): Session {
  return actions.reduce(reduce, state);
}

const step: Action = { type: "step", by: 1 };
const back: Action = { type: "step", by: -1 };

function at(state: Session, name: string): number {
  return state.circuit.nodes.findIndex((_, node) => nameOf(state.circuit, node) === name);
}

/** What is shown as the value of a node; null while it is not computed. */
function value(state: Session, name: string): number | null {
  const { run, known } = shown(state);
  const node = at(state, name);
  return known.value[node] ? Number(run.values[node]) : null;
}

/** What is shown as the gradient of a node, with its mark. */
function grad(state: Session, name: string): string {
  const { run, known } = shown(state);
  const node = at(state, name);
  const mark = known.grad[node]!;
  if (mark === "none") return "none";
  const found = mark === "partial" ? known.partial[node]! : run.grads[node]!;
  return `${mark} ${found === null ? "null" : number(found as number)}`;
}

function grads(state: Session, names: string): string[] {
  return [...names].map((name) => grad(state, name));
}

test("at first only the leaves have values", () => {
  const state = fromPreset("expression");

  assert.equal(progress(state).phase, "idle");
  assert.deepEqual(["a", "b", "c", "e", "f"].map((name) => value(state, name)), [2, -3, 10, null, null]);
  assert.deepEqual(grads(state, "abcef"), ["none", "none", "none", "none", "none"]);
});

test("a visit goes as far as what broke can be seen, and never back", () => {
  const start = fromPreset("nan");
  const visit = (name: string, phase: string): Action => ({ type: "visit", node: at(start, name), phase });
  const [forward, backward] = [after(start, visit("l", "forward")), after(start, visit("l", "backward"))];

  assert.deepEqual([progress(forward).phase, value(forward, "l"), value(forward, "t")], ["forward", -Infinity, null]);
  assert.deepEqual(progress(backward).phase, "done");
  assert.equal(after(backward, visit("l", "forward")).at, backward.at);
  assert.deepEqual(forward.selection, { kind: "node", node: at(start, "l") });
});

test("five steps fill the expression: two values, the seed, two gradients each", () => {
  const states = [fromPreset("expression")];
  for (let count = 0; count < 5; count++) states.push(after(states.at(-1)!, step));

  assert.deepEqual(states.map((state) => progress(state).phase), ["idle", "forward", "forward", "seed", "backward", "done"]);
  assert.deepEqual(states.map((state) => value(state, "e")), [null, -1, -1, -1, -1, -1]);
  assert.deepEqual(states.map((state) => value(state, "f")), [null, null, -10, -10, -10, -10]);
  assert.deepEqual(grads(states[3]!, "abcef"), ["none", "none", "none", "none", "final 1"]);
  assert.deepEqual(grads(states[4]!, "abcef"), ["none", "none", "final −1", "final 10", "final 1"]);
  assert.deepEqual(grads(states[5]!, "abcef"), ["final 10", "final 10", "final −1", "final 10", "final 1"]);
});

test("stepping back from the end passes the same positions and stops at the start", () => {
  let state = after(fromPreset("neuron"), { type: "to", where: "end" });
  const down: number[] = [];
  while (state.at) down.push((state = after(state, back)).at);
  const up: number[] = [];
  while (state.at < state.line.length) up.push((state = after(state, step)).at);

  assert.deepEqual(up.slice(0, -1), down.slice(0, -1).reverse());
  assert.equal(after(state, step).at, state.line.length);
});

test("a step by wire fills one wire of a node at a time", () => {
  const seeded = after(fromPreset("expression"), step, step, step);
  const one = after(seeded, { type: "step", by: 1, size: "wire" });

  assert.deepEqual(grads(one, "ec"), ["final 10", "none"]);
  assert.deepEqual(after(one, step).at, after(seeded, step).at);
});

test("a value with three readers shows what has arrived until its splitter adds it up", () => {
  const last = after(fromPreset("fan-out"), { type: "to", where: "end" });
  const all = after(last, back);
  const one = after(all, back);

  assert.deepEqual([grad(one, "x"), shown(one).known.arrived[0], shown(one).known.due[0]], ["partial 1", 1, 3]);
  assert.deepEqual([grad(all, "x"), shown(all).known.arrived[0]], ["partial 7", 3]);
  assert.equal(grad(last, "x"), "final 7");
});

test("steps by rank stop where the rank changes, and one step of all ends the run", () => {
  const state = fromPreset("neuron");
  const ranked = after(state, { type: "step", by: 1, size: "rank" });

  assert.equal(progress(ranked).step, 2);
  assert.equal(after(state, { type: "step", by: 1, size: "all" }).at, state.line.length);
});

test("a step to the selection stops behind the selected node, forward and backward", () => {
  const state = fromPreset("expression");
  const chosen = after(state, { type: "select", selection: { kind: "node", node: at(state, "e") } });
  const once = after(chosen, { type: "step", by: 1, size: "selection" });
  const twice = after(once, { type: "step", by: 1, size: "selection" });

  assert.deepEqual([progress(once).step, progress(twice).step], [1, 5]);
});

test("with Live an edit recomputes everything at the same step", () => {
  const state = after(fromPreset("expression"), step, step, step, step, { type: "leaf", name: "c", value: 4 });

  assert.equal(progress(state).step, 4);
  assert.equal(value(state, "f"), -4);
  assert.deepEqual(grads(state, "ecab"), ["final 4", "final −1", "none", "none"]);
});

test("without Live what an edit reaches is stale until it is stepped", () => {
  const off: Action = { type: "option", change: { live: false } };
  const done = after(fromPreset("expression"), off, { type: "to", where: "end" });
  const edited = after(done, { type: "leaf", name: "c", value: 4 });
  const { known } = shown(edited);

  assert.deepEqual([value(edited, "c"), value(edited, "e"), value(edited, "f")], [4, -1, -10]);
  assert.deepEqual([known.staleValue[at(edited, "e")], known.staleValue[at(edited, "f")]], [false, true]);
  assert.equal(grad(edited, "a"), "stale 10");
  const again = after(edited, step, step);
  assert.deepEqual([value(again, "f"), shown(again).known.staleValue[at(again, "f")]], [-4, false]);
  const fresh = after(again, { type: "to", where: "end" });
  assert.deepEqual([grad(fresh, "a"), fresh.before], ["final 4", null]);
});

test("turning Live on shows nothing stale any more", () => {
  const off = after(fromPreset("expression"), { type: "option", change: { live: false } }, step, step);
  const on = after(off, { type: "leaf", name: "a", value: 7 }, { type: "option", change: { live: true } });

  assert.equal(shown(on).known.staleValue.includes(true), false);
});

test("a second backward pass starts afresh, or adds at the inputs if asked", () => {
  const done = after(fromPreset("expression"), { type: "to", where: "end" });
  const fresh = after(done, { type: "again" }, { type: "to", where: "end" });
  const accumulating = after(done, { type: "option", change: { accumulate: true } }, { type: "again" });
  const added = after(accumulating, { type: "to", where: "end" });

  assert.equal(grad(fresh, "a"), "final 10");
  assert.equal(grad(accumulating, "a"), "partial 10");
  assert.deepEqual(grads(added, "ae"), ["final 20", "final 10"]);
  assert.equal(grad(after(added, { type: "again" }, { type: "to", where: "end" }), "a"), "final 30");
  assert.equal(grad(after(added, { type: "reset" }, { type: "to", where: "end" }), "a"), "final 10");
});

test("undo and redo bring leaves, formulas and presets back", () => {
  const start = fromPreset("expression");
  const state = after(
    start,
    { type: "leaf", name: "a", value: 5 },
    { type: "preset", key: "neuron" },
    { type: "draft", text: "y = x + 1" },
  );
  const once = after(state, { type: "undo" });
  const thrice = after(once, { type: "undo" }, { type: "undo" });

  assert.equal(once.draft, PRESETS.find(({ key }) => key === "neuron")!.formula);
  assert.deepEqual([thrice.leaves, thrice.draft], [start.leaves, start.draft]);
  assert.deepEqual(after(thrice, { type: "redo" }).leaves, { a: 5, b: -3, c: 10 });
  assert.equal(after(thrice, { type: "redo" }, { type: "redo" }, { type: "redo" }).draft, "y = x + 1");
});

test("dragging a slider is one edit", () => {
  const drag = (value: number): Action => ({ type: "leaf", name: "a", value, drag: true });
  const state = after(fromPreset("expression"), drag(2.1), drag(2.2), drag(2.3));

  assert.equal(state.leaves.a, 2.3);
  assert.equal(after(state, { type: "undo" }).leaves.a, 2);
});

test("a wrong formula keeps the circuit and says where it is wrong", () => {
  const start = fromPreset("expression");
  const state = after(start, { type: "draft", text: "e = a + ; f = e" });

  assert.equal(state.draft, "e = a + ; f = e");
  assert.equal(typeof state.mistake?.offset, "number");
  assert.equal(state.circuit, start.circuit);
  assert.equal(after(state, { type: "draft", text: "a * b" }).mistake, null);
});

test("a new formula keeps the leaves it shares with the old one", () => {
  const state = after(fromPreset("expression"), { type: "draft", text: "a * d" });

  assert.deepEqual(state.leaves, { a: 2, d: 1 });
});

test("the split form has splitters, and the same gradients", () => {
  const state = after(fromPreset("fan-out"), { type: "option", change: { split: true } }, { type: "to", where: "end" });

  assert.equal(state.circuit.nodes.filter(({ op }) => op === "split").length, 2);
  assert.equal(grad(state, "x"), "final 7");
});

test("a selection keeps a trail that leads back", () => {
  const pick = (node: number): Action => ({ type: "select", selection: { kind: "node", node } });
  const state = after(fromPreset("expression"), pick(0), pick(3));

  assert.deepEqual(after(state, { type: "back" }).selection, { kind: "node", node: 0 });
  assert.equal(after(state, { type: "back" }, { type: "back" }).selection, null);
});

test("the announcement counts steps and says what the step did", () => {
  const state = after(fromPreset("expression"), step, step, step, step);

  assert.equal(
    announcement(state),
    "Step 4 of 5, backward. f: 1 arrives; each local derivative is the other stored input; 10 goes to e, \u22121 to c.",
  );
});

test("every preset can be stepped from start to end, and answers its question with numbers", () => {
  for (const { key, answer } of PRESETS) {
    let state = fromPreset(key);
    for (let count = 0; count < 500 && state.at < state.line.length; count++) state = after(state, step);
    const { known } = shown(state);

    assert.equal(progress(state).phase, "done", key);
    assert.equal(known.value.every(Boolean), true, key);
    assert.equal(known.grad.every((mark) => mark === "final"), true, key);
    assert.match(answer(told(state.run)), /\d/, key);
    assert.doesNotMatch(answer(told(state.run)), /undefined/, key);
  }
});

test("the neuron has the worked numbers", () => {
  const state = after(fromPreset("neuron"), { type: "to", where: "end" });

  assert.equal(number(value(state, "o")!), "0.7071");
  assert.deepEqual(
    ["x1", "w1", "x2", "w2", "b"].map((name) => grad(state, name)),
    ["final −1.5", "final 1", "final 0.5", "final 0", "final 0.5"],
  );
});

test("a formula that is only a leaf can be stepped", () => {
  const state = after(fromFormula("x", { x: 4 }), step);

  assert.equal(grad(state, "x"), "final 1");
});

test("a circuit from Python that was not run shows no numbers and cannot be edited", () => {
  const { circuit } = fromPreset("expression");
  const source = { kind: "data", circuit, run: null, live: false, server: false, note: "", blame: null } as const;
  const state = after(fromData(source, {}), step, { type: "leaf", name: "a", value: 3 });

  assert.equal(canRun(state.source), false);
  assert.deepEqual(shown(state).known.value, [false, false, false, false, false]);
  assert.equal(progress(state).phase, "idle");
});

test("the change since a pinned run is the difference of every number, and there is none to another circuit", () => {
  const before = reduce(reduce(fromPreset("router"), { type: "to", where: "end" }), { type: "pin", pin: true });
  const now = reduce(reduce(before, { type: "leaf", name: "c", value: 2 }), { type: "draw-difference", on: true });
  const changed = changedFrom(shown(now), now.pinned!.run)!;
  const of = (name: string): number => now.circuit.nodes.findIndex(({ names }) => names[0] === name);

  assert.equal(now.pinned!.drawn, true);
  assert.deepEqual(["c", "r", "m", "y"].map((name) => changed.run.values[of(name)]), [4, 2, 0, 2]);
  // Nothing came back to c before, and nothing comes back to b in either run.
  assert.deepEqual(["c", "r", "b"].map((name) => changed.run.grads[of(name)]), [1, 0, null]);
  assert.equal(changedFrom(shown(reduce(now, { type: "option", change: { split: true } })), now.pinned!.run), null);
});

test("while the name of a function is typed, no leaf of that name appears", () => {
  let state = fromFormula("y = 2x", { x: 3 });
  for (const text of ["y = 2exp", "y = 2exp(", "y = 2exp(x"]) {
    state = after(state, { type: "draft", text });
    assert.deepEqual([state.draft, Object.keys(state.leaves), state.mistake !== null], [text, ["x"], true]);
  }
  state = after(state, { type: "draft", text: "y = 2exp(x)" });

  assert.deepEqual([state.mistake, Object.keys(state.leaves), value(after(state, { type: "to", where: "end" }), "y")], [
    null, ["x"], 2 * Math.exp(3),
  ]);
});

test("a leaf that has the name of a function is kept where the formula is given, not typed", () => {
  const state = fromFormula("sign * 2", { sign: 3 });

  assert.deepEqual(Object.keys(state.leaves), ["sign"]);
  assert.deepEqual(notesOf(state).map(({ kind }) => kind), ["function"]);
});

test("a leaf called e is noted where it is raised to a power", () => {
  const typed = after(fromPreset("expression"), { type: "draft", text: "e^x" });

  assert.equal(typed.mistake, null);
  assert.match(notesOf(typed)[0]!.message, /write exp\(x\)/);
  assert.deepEqual(notesOf(fromPreset("expression")), []);
});
