/** The explorer of a large circuit, apart from what it looks like: where it is, what it draws, what it asks. */
import { test } from "node:test";
import assert from "node:assert/strict";
import { ask, isLarge, keptIn, refusal, type ToldBox, type ToldLink, type ToldView } from "../src/large/answers";
import { productOf } from "../src/large/cards";
import { runs, visible } from "../src/large/panels";
import { drawnOf, pickedOf, readingOf, selectionOf, valueOf } from "../src/large/picture";
import { around, crumbs, pickedBox, pickedLink, viewPath } from "../src/large/where";
import { boxFace, sceneOf, wireFace } from "../src/layout/faces";
import { read } from "../src/layout/readings";

const number = (size: number) => ({ text: String(size), size, signed: true, state: "number" as const });

function box(label: string, node: number, more: Partial<ToldBox> = {}): ToldBox {
  return {
    kind: "node", name: label, text: "tanh", label, node, nodes: 1, group: "", facts: [], value: number(0.5), grad: number(2),
    outputs: [], bad: 0, kink: "", inside: null, x: 0, y: 0, width: 60, height: 44, rank: node, ...more,
  };
}

function group(label: string, node: number, nodes: number, text = `${nodes} nodes`): ToldBox {
  return box(label, node, { kind: "group", text, nodes, value: null });
}

function link(source: number, target: number, more: Partial<ToldLink> = {}): ToldLink {
  return {
    source, target, reader: 40 + target, slot: 0, input: "", wires: 1, local: number(3), sent: number(-6),
    points: [[0, 0], [10, 0]], stub: false, room: 0, ...more,
  };
}

const view: ToldView = {
  width: 300, height: 100, note: "", about: "3 nodes",
  boxes: [box("x", 7, { kind: "input", text: "input" }), box("u", 41), group("net/a (1 of 2)", 50, 9), group("net/a (2 of 2)", 80, 9), group("net/b", 99, 5)],
  links: [link(0, 1), link(0, 1, { slot: 1 }), link(1, 2, { wires: 4, local: null })],
};

test("the way to a part names every group on it", () => {
  const found = crumbs({ group: "net/a", nodes: "50-60,71-79" });

  assert.deepEqual(found.map(({ text }) => text), ["whole circuit", "net", "a", "nodes 50 to 79"]);
  assert.deepEqual(found[1]!.where, { group: "net", nodes: "" });
});

test("names are escaped in what is asked", () => {
  assert.equal(viewPath({ group: "a&b/c d", nodes: "3-9" }, true), "/view?group=a%26b%2Fc+d&nodes=3-9&down=1");
});

test("the nodes about a node stay inside the circuit", () => {
  assert.equal(around(2, 10).nodes, "0-9");
  assert.equal(around(500, 1000).nodes, "488-512");
});

test("boxes and wires show the numbers that Python gave them", () => {
  const drawn = drawnOf(view, "net", false);
  const scene = sceneOf(drawn.picture, drawn.run, drawn.known, "signed");
  const rows = boxFace(scene, drawn.picture.boxes[1]!).rows.map(({ what, text }) => `${what} ${text}`);

  assert.deepEqual(rows, ["value 0.5", "gradient 2"]);
  assert.equal(boxFace(scene, drawn.picture.boxes[4]!).name, "net/b, group of 5 nodes, gradient norm 2");
  assert.deepEqual([wireFace(scene, drawn.picture.wires[0]!).local, wireFace(scene, drawn.picture.wires[0]!).sent], ["×3", "−6"]);
});

test("what is not finite, blocked or not computed is never drawn as a number", () => {
  const nan = { text: "[3] 2 NaN", size: "nan", signed: true, state: "not finite" as const };
  const blocked = { text: "blocked", size: null, signed: true, state: "blocked" as const };
  const boxes = [box("a", 0, { grad: nan }), box("b", 1, { grad: blocked }), box("c", 2, { grad: { ...blocked, state: "not computed" } })];
  const drawn = drawnOf({ ...view, boxes, links: [] }, "net", false);
  const scene = sceneOf(drawn.picture, drawn.run, drawn.known, "signed");
  const marks = drawn.picture.boxes.map((one) => boxFace(scene, one).rows[1]!).map(({ text, mark }) => [text, mark]);

  assert.deepEqual(marks, [["2 NaN", "bad"], ["blocked", "blocked"], ["–", "none"]]);
});

test("a circuit that was not run shows no numbers", () => {
  const boxes = [box("a", 0, { value: null, grad: null })];
  const drawn = drawnOf({ ...view, boxes, links: [] }, "net", false);

  assert.deepEqual(boxFace(sceneOf(drawn.picture, drawn.run, drawn.known, "signed"), drawn.picture.boxes[0]!).rows, []);
});

test("a value reads as the reading that it was made of", () => {
  for (const told of [number(-2.5), { text: "[2×3] ‖4.2‖", size: 4.2, signed: false, state: "number" as const }]) {
    const reading = readingOf(told)!;

    assert.deepEqual(read(valueOf(told)), reading);
  }
});

test("what is picked is found again in the picture, wires by reader and slot", () => {
  const drawn = drawnOf(view, "net", false);
  const picked = pickedOf(view, drawn, { kind: "wire", reader: 1, slot: 1 });

  assert.deepEqual(picked, { kind: "wire", reader: 41, slot: 1 });
  assert.deepEqual(selectionOf(view, drawn, picked), { kind: "wire", reader: 1, slot: 1 });
  assert.deepEqual(selectionOf(view, drawn, { kind: "node", node: 41 }), { kind: "node", node: 1 });
  assert.equal(selectionOf(view, drawn, { kind: "node", node: 77 }), null);
});

test("several wires together are no wire, and a group is no node", () => {
  assert.deepEqual(pickedLink(view, 2), { kind: "bundle", link: 2 });
  assert.deepEqual(pickedBox(view, 2), { kind: "box", box: 2 });
});

test("an outline shows the top, what is in a lone group, and what was opened", () => {
  const rows = ["net", "net/a", "net/a/x", "net/b"].map((path) => ({ path, nodes: 1, norm: 1, bad: 0 }));
  const paths = (turned: string[]): string[] => visible(rows, turned).map(({ path }) => path);

  assert.deepEqual(paths([]), ["net", "net/a", "net/b"]);
  assert.deepEqual(paths(["net/a"]), ["net", "net/a", "net/a/x", "net/b"]);
  assert.deepEqual(paths(["net", "net/a"]), ["net"]);
  assert.equal(visible(rows, [])[2]!.open, null);
});

test("a wire says upstream times local, or that nothing is sent", () => {
  const ends = { reader: 1, slot: 0, source: 0, from: "x", to: "y" };

  assert.equal(productOf({ ...ends, upstream: -2, local: 3, sent: -6 }), "(-2) × 3 = -6");
  assert.equal(productOf({ ...ends, upstream: "nan", local: "inf", sent: "nan" }), "nan × inf = nan");
  assert.equal(productOf({ ...ends, upstream: null, local: null, sent: null }), "nothing is sent");
  assert.equal(productOf(ends), "not run");
});

test("a refusal is told in the words of the server", async () => {
  assert.equal(refusal('{"error": "there is no group net"}', 400), "there is no group net");
  assert.equal(refusal("busy\n", 503), "The server refused (503): busy");
  assert.equal((await ask("http://[")).error, "The server does not answer. Is it still running?");
});

test("data with a summary is a large circuit", () => {
  assert.equal(isLarge({}), false);
  assert.equal(isLarge({ summary: {} } as never), true);
});

test("a file answers what it keeps, and says so of all else", async () => {
  const asked = keptIn({ "/view?group=a b/+&nodes=": "drawn" });

  assert.equal((await asked(viewPath({ group: "a b/+", nodes: "" }, false))).answer, "drawn");
  assert.match((await asked("/node/3")).error, /not in the file/);
});

test("runs of nodes are told in words", () => {
  assert.equal(runs({ count: 4, slices: [[3, 5], [9, 9]], left_out: 2 }), "%3 to %5, %9, and 2 more runs");
  assert.equal(runs({ count: 0, slices: [], left_out: 0 }), "none");
});
