import { test } from "node:test";
import assert from "node:assert/strict";
import { parse } from "../src/engine";
import { commandOf, SHORTCUTS } from "../src/ui/keys";
import { nextWire, sibling, towardsReader, towardsSource } from "../src/ui/walk";
import { selectionCode, selectionOf, type Selection } from "../src/state/selection";

const press = (key: string, more = {}): Parameters<typeof commandOf>[0] => ({
  key, control: false, shift: false, alt: false, ...more,
});

test("arrow keys step outside the circuit and follow wires inside", () => {
  assert.deepEqual(["ArrowRight", "ArrowLeft"].map((key) => commandOf(press(key), false, true)), ["step", "back"]);
  assert.deepEqual(["ArrowRight", "ArrowUp"].map((key) => commandOf(press(key), true, true)), ["reader", "above"]);
  assert.equal(commandOf(press("ArrowUp"), false, true), null);
});

test("single keys can be switched off, and others keep working", () => {
  assert.deepEqual(["f", "1", "?", " ", "Home"].map((key) => commandOf(press(key), false, false)), [null, null, null, "play", "start"]);
  assert.equal(commandOf(press("F", { shift: true }), false, true), "forward");
});

test("Ctrl with a letter is undo or redo and nothing else", () => {
  const control = { control: true };

  assert.equal(commandOf(press("z", control), false, false), "undo");
  assert.equal(commandOf(press("Z", { control: true, shift: true }), false, false), "redo");
  assert.deepEqual(["f", "r", "t", "p"].map((key) => commandOf(press(key, control), false, true)), [null, null, null, null]);
});

test("no two shortcuts want the same press", () => {
  const seen = SHORTCUTS.flatMap(({ key, control, shift, where }) =>
    (where ? [where] : ["inside", "outside"]).map((place) => JSON.stringify([key, control, shift, place])),
  );

  assert.equal(new Set(seen).size, seen.length);
});

test("walking follows wires, and W goes round the wires of a node", () => {
  const circuit = parse("e = a + b; f = e * e");
  const node = (index: number): Selection => ({ kind: "node", node: index });
  const round: string[] = [];
  let here = node(2);
  for (let count = 0; count < 6; count++) {
    here = nextWire(circuit, 2, here);
    round.push(selectionCode(circuit, here));
  }

  assert.deepEqual(towardsReader(circuit, node(0)), node(2));
  assert.deepEqual(towardsReader(circuit, node(3)), node(3));
  assert.deepEqual(towardsSource(circuit, { kind: "wire", reader: 2, slot: 1 }), node(1));
  assert.deepEqual(sibling([0, 0, 1, 2], node(1), 1), node(0));
  assert.deepEqual(round, ["w:e.0", "w:e.1", "s:e", "w:f.0", "w:f.1", "w:e.0"]);
  assert.deepEqual(selectionOf(circuit, "w:f.1"), { kind: "wire", reader: 3, slot: 1 });
});
