import { test } from "node:test";
import assert from "node:assert/strict";
import { fromData, fromFormula, fromPreset, reduce, shown, type Action, type Session } from "../src/state/session";
import { PRESETS } from "../src/state/presets";
import { announcement, progress, sentence, tell } from "../src/state/telling";
import type { StepSize } from "../src/state/timeline";

const step: Action = { type: "step", by: 1 };
const SIZES: StepSize[] = ["wire", "node", "rank", "group", "all"];

function sized(state: Session, size: StepSize): Session {
  return reduce(state, { type: "option", change: { size } });
}

/** The states from a position to the end, by the step size of the session. */
function walk(state: Session): Session[] {
  const found = [state];
  while (found.at(-1)!.at < state.line.length) found.push(reduce(found.at(-1)!, step));
  return found;
}

const words = (state: Session): string => sentence(tell(state).words);

for (const { key } of PRESETS) {
  for (const size of SIZES) {
    test(`steps by ${size} of ${key} never repeat: each changes what is shown, what is said and the place`, () => {
      const states = walk(sized(fromPreset(key), size));
      const seen = states.map((state) => JSON.stringify(shown(state).known));
      const said = states.map(announcement);

      assert.equal(new Set(seen).size, states.length);
      assert.deepEqual(said.filter((text, k) => text === said[k - 1]), []);
      assert.deepEqual([progress(states.at(-1)!).step, progress(states.at(-1)!).phase], [progress(states[0]!).of, "done"]);
    });
  }
}

test("a wire that no gradient can take is no step", () => {
  const start = fromFormula("y = where(a > 0, a * 2, b)", { a: 1, b: 2 });
  const states = walk(sized(start, "wire"));
  const said = states.map(words);

  assert.equal(new Set(said).size, states.length);
  assert.doesNotMatch(said.join("; "), /to a > 0/);
});

test("a backward step of a node has three parts: upstream, local derivatives, products", () => {
  const seeded = [step, step, step].reduce(reduce, fromPreset("expression"));
  const parts = walk(sized(seeded, "part")).slice(1, 4);

  assert.deepEqual(parts.map((state) => tell(state).inner), ["part 1 of 3", "part 2 of 3", "part 3 of 3"]);
  assert.deepEqual(parts.map(words), [
    "1 arrives",
    "1 arrives; each local derivative is the other stored input",
    "1 arrives; each local derivative is the other stored input; 10 goes to e, −1 to c",
  ]);
  assert.deepEqual(parts.map((state) => shown(state).known.wire.filter((mark) => mark === "final").length), [0, 0, 2]);
});

test("where nothing may move, a step by node goes from part to part", () => {
  const seeded = [step, step, step].reduce(reduce, fromPreset("expression"));
  const still = reduce(seeded, { type: "option", change: { still: true } });

  assert.equal(tell(reduce(still, step)).inner, "part 1 of 3");
  assert.equal(tell(reduce(seeded, step)).inner, "part 3 of 3");
});

test("a step by wire tells its product, and how far a splitter is", () => {
  const forward = reduce(sized(fromPreset("fan-out"), "wire"), { type: "to", where: "forward" });

  assert.deepEqual(walk(forward).slice(2).map(words), [
    "1 × 1 = 1 goes to x·x",
    "1 × 1 = 1 goes to the splitter of x: 1 so far. It waits for 2 more branches",
    "1 × 3 = 3 goes to the splitter of x: 1 + 3 = 4 so far. It waits for one more branch",
    "1 × 3 = 3 goes to the splitter of x: 1 + 3 + 3 = 7, all branches are back",
    "The splitter of x adds what came back: 1 + 3 + 3 = 7",
  ]);
});

test("a step by rank tells every node of the rank, and counts in ranks", () => {
  const state = reduce(sized(fromPreset("neuron"), "rank"), step);

  assert.deepEqual([progress(state).step, progress(state).of], [1, 9]);
  assert.equal(words(state), "x1·w1 = 2 × (−3) = −6; x2·w2 = 0 × 1 = 0");
  assert.equal(sentence(tell(state).head), "Forward, steps 1 to 2 of 5");
});

test("accumulation is told as old + new = sum", () => {
  const on: Action = { type: "option", change: { accumulate: true } };
  const again = [on, { type: "to", where: "end" }, { type: "again" }, { type: "to", where: "end" }] satisfies Action[];
  const state = again.reduce<Session>(reduce, fromPreset("expression"));

  assert.match(words(state), /10 goes to a, 10 \+ 10 = 20, 10 to b, 10 \+ 10 = 20$/);
  assert.deepEqual(shown(state).known.carried!.old.slice(0, 3), [10, 10, -1]);
  assert.deepEqual(shown(state).run.grads.slice(0, 3), [20, 20, -2]);
});

test("an output that others read counts its own 1 among what comes back", () => {
  const source = fromFormula("y = x * 2; z = y * 3", { x: 1 });
  const circuit = { ...source.circuit, outputs: ["z", "y"].map((label) => ({ label, node: at(source, label) })) };
  const data = { kind: "data", circuit, run: null, live: true, server: false, note: "", blame: null } as const;
  const states = walk(sized(fromData(data, { x: 1 }), "wire"));
  const y = at(source, "y");
  const sums = states.map((state) => shown(state).known).map(({ partial, arrived, due }) => [partial[y], arrived[y], due[y]]);

  assert.deepEqual(sums.filter((sum, k) => String(sum) !== String(sums[k - 1])), [[null, 0, 2], [1, 1, 2], [null, 2, 2]]);
  assert.equal(new Set(states.map((state) => JSON.stringify(shown(state).known))).size, states.length);
});

function at(state: Session, name: string): number {
  return state.circuit.nodes.findIndex(({ names }) => names[0] === name);
}

test("no sentence has a number of a node in it, or a name that the formula does not have", () => {
  for (const { key } of PRESETS) {
    const said = walk(fromPreset(key)).map(announcement).join(" ");

    assert.doesNotMatch(said, /%\d/, key);
  }
});
