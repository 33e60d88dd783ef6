import assert from "node:assert/strict";
import { test } from "node:test";

import { evaluate, parse } from "../src/engine";
import { fitted, LARGEST, LEGIBLE, marginOf, refitted, scaleIn, type FrameSize } from "../src/layout";
import { withStatements } from "../src/layout/fitted";
import { PRESETS } from "../src/state/presets";

/** Windows of 1440x900, 1024x768 and 390x844 less the bars at top and bottom. */
const FRAMES: FrameSize[] = [
  { width: 1440, height: 600 },
  { width: 1024, height: 468 },
  { width: 390, height: 474 },
];

for (const { key, formula, leaves } of PRESETS) {
  for (const frame of FRAMES) {
    test(`${key} is wholly visible in ${frame.width}x${frame.height} with text of 11 px or more`, () => {
      const run = evaluate(parse(formula), leaves);
      const { picture, scale, minimap } = fitted(run.circuit, run, frame);
      const free = 2 * marginOf(frame);

      assert.equal(minimap, false);
      assert.ok(picture.width * scale <= frame.width - free + 1e-6);
      assert.ok(picture.height * scale <= frame.height - free + 1e-6);
      assert.ok(picture.sizes.numberFont * scale >= LEGIBLE - 1e-9 && scale <= LARGEST);
    });
  }
}

test("a slider moves nothing", () => {
  const circuit = parse("n = x1*w1 + x2*w2 + b; o = tanh(n)");
  const places = [0, 2, -3.1416, 1e9, 1e-9].map((x1) => {
    const run = evaluate(circuit, { x1, w1: -3, x2: 0, w2: 1, b: 6.88 });
    const { picture, scale } = fitted(run.circuit, run, FRAMES[0]!);
    return [scale, picture.boxes.map(({ x, y, width, height }) => [x, y, width, height]), picture.wires.map(({ points }) => points)];
  });

  for (const place of places) assert.deepEqual(place, places[0]);
});

test("a direction that was asked for is kept", () => {
  const run = evaluate(parse("a * b"), { a: 1, b: 2 });

  assert.deepEqual([true, false].map((down) => fitted(run.circuit, run, FRAMES[0]!, { down }).picture.down), [true, false]);
});

test("what fits nowhere has a minimap and is still legible", () => {
  const run = evaluate(parse("a * b"), { a: 1, b: 2 });
  const { minimap, scale, picture } = fitted(run.circuit, run, { width: 60, height: 60 });

  assert.equal(minimap, true);
  assert.ok(picture.sizes.numberFont * scale >= LEGIBLE - 1e-9);
});

test("the statements of a formula are groups that can be closed", () => {
  const { nodes } = withStatements(parse("h = tanh(x*w + b); y = h*h + x"));

  assert.deepEqual(nodes.map(({ group }) => group).filter(Boolean), ["h", "h", "h", "y", "y"]);
});

const NEURON = { formula: "n = x1*w1 + x2*w2 + b; o = tanh(n)", leaves: { x1: 2, w1: -3, x2: 0, w2: 1, b: 6.88 } };

for (const { formula, leaves } of [NEURON, PRESETS.find(({ key }) => key === "mlp")!]) {
  test(`${formula.slice(0, 20)} fills the height of a wide frame instead of a band in its middle`, () => {
    const run = evaluate(parse(formula), leaves);
    const { picture, scale } = fitted(run.circuit, run, FRAMES[0]!);

    assert.ok(picture.height * scale >= 0.7 * FRAMES[0]!.height, `${picture.height * scale} of ${FRAMES[0]!.height}`);
  });
}

test("a product stands between the two leaves that it reads", () => {
  const run = evaluate(parse(NEURON.formula), NEURON.leaves);
  const { boxes } = fitted(run.circuit, run, FRAMES[0]!).picture;
  const middle = (label: string): number => boxes.filter((box) => box.label === label).map(({ y, height }) => y + height / 2)[0]!;
  const products = boxes.filter(({ sign }) => sign === "\u00d7").map(({ y, height }) => y + height / 2);

  for (const [k, [x, w]] of [["x1", "w1"], ["x2", "w2"]].entries()) {
    assert.ok(Math.abs(products[k]! - (middle(x!) + middle(w!)) / 2) <= 4);
  }
});

test("beside a drawer a picture keeps its places, and loses details only where numbers could not be read", () => {
  const run = evaluate(parse("y = x + x*sigmoid(x*w)"), { x: 2, w: -0.5 });
  const whole = fitted(run.circuit, run, FRAMES[0]!);
  const wide = refitted(whole, run, { width: 1440, height: 500 });
  const narrow = { width: 1036, height: 600 };
  const beside = refitted(whole, run, narrow);

  assert.equal(wide, whole);
  assert.ok(whole.picture.sizes.numberFont * scaleIn(whole.picture, narrow) < LEGIBLE);
  assert.ok(beside.picture.sizes.numberFont * scaleIn(beside.picture, narrow) >= LEGIBLE - 1e-9);
  assert.deepEqual(beside.picture.boxes.map(({ label }) => label), whole.picture.boxes.map(({ label }) => label));
});
