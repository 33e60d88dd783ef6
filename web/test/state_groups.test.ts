import { test } from "node:test";
import assert from "node:assert/strict";
import { evaluate, parse } from "../src/engine";
import { picture } from "../src/layout";
import { fromData, reduce } from "../src/state/session";
import { groupsOf, openGroups, toggled } from "../src/ui/groups";
import { summaryOf } from "../src/ui/group-card";
import { without } from "../src/ui/slices";
import type { Circuit } from "../src/types";

/** e = a + b stands in net/first, f = e * c in net. */
function grouped(): Circuit {
  const circuit = parse("e = a + b; f = e * c");
  const groups = ["", "", "", "net/first", "net"];
  return { ...circuit, nodes: circuit.nodes.map((node, index) => ({ ...node, group: groups[index]! })) };
}

const SOURCE = { kind: "data", run: null, live: true, server: false, note: "", blame: null } as const;

test("groups are found with those around them", () => {
  assert.deepEqual(groupsOf(grouped()), ["net", "net/first"]);
});

test("opening a group opens those around it, closing it closes those in it", () => {
  assert.deepEqual(toggled([], "net/first"), ["net", "net/first"]);
  assert.deepEqual(toggled(["net", "net/first", "other"], "net"), ["other"]);
  assert.deepEqual(toggled(["network"], "net"), ["network", "net"]);
});

test("what is drawn node by node is open, until a person closes it, and undo opens it again", () => {
  const state = fromData({ ...SOURCE, circuit: grouped() }, { a: 2, b: -3, c: 10 });
  const open = openGroups(state, picture(state.circuit, { run: state.run }));
  const closed = reduce(state, { type: "open", opened: toggled(open, "net") });

  assert.deepEqual(open, ["net", "net/first"]);
  assert.deepEqual(closed.opened, []);
  assert.equal(reduce(closed, { type: "undo" }).opened, null);
});

test("a closed group is one box of the picture, and not open", () => {
  const state = fromData({ ...SOURCE, circuit: grouped() }, {});
  const drawn = picture(state.circuit, { run: state.run, depth: 0, opened: new Set() });

  assert.deepEqual(drawn.boxes.filter(({ kind }) => kind === "group").map(({ path }) => path), ["net"]);
  assert.deepEqual(openGroups(state, drawn), []);
});

test("the summary of a group counts its nodes and the wires that enter and leave", () => {
  const run = evaluate(grouped(), { a: 2, b: -3, c: 10 });
  const { nodes, norm, least, most, enter, leave, bad } = summaryOf(run, "net");

  assert.deepEqual([nodes, least, most, enter, leave, bad], [[3, 4], 1, 10, 3, 0, 0]);
  assert.equal(norm, Math.sqrt(101));
});

test("hidden nodes are gone with their wires, and the rest stays in its place", () => {
  const circuit = parse("e = a + b; f = e * c");
  const whole = picture(circuit, { run: evaluate(circuit, { a: 2, b: -3, c: 10 }) });
  const part = without(whole, circuit, ["c", "f"]);

  assert.deepEqual(part.boxes.map(({ name }) => name).sort(), ["a", "b", "e"]);
  assert.deepEqual(part.wires.map(({ from, to }) => [part.boxes[from]!.name, part.boxes[to]!.name].join(" to ")).sort(), ["a to e", "b to e"]);
  assert.deepEqual(part.boxes.find(({ name }) => name === "e")?.x, whole.boxes.find(({ name }) => name === "e")?.x);
  assert.equal(without(whole, circuit, []), whole);
});
