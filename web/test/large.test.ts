/** The explorer of a large circuit, apart from what it looks like: where a pass is, what opens, where boxes stand. */
import { test } from "node:test";
import assert from "node:assert/strict";
import { ask, isLarge, keptIn, refusal, type Board, type BoardBox } from "../src/large/answers";
import { placeBoard, wirePath } from "../src/large/board";
import { productOf } from "../src/large/cards";
import { powersOf, ticksOf } from "../src/large/heat";
import { runs, visible } from "../src/large/panels";
import { iterationOf, passageOf, positionOf, progressOf, spotAt, stepFrom, targetsOf } from "../src/large/passage";
import { boardPath, closeBox, nodeOfPicked, openBox, opens, pickedBox, pickedLink } from "../src/large/where";

const bits = (nodes: readonly number[], size: number): string => {
  const bytes = new Uint8Array(Math.ceil(size / 8));
  for (const node of nodes) bytes[node >> 3]! |= 1 << (node & 7);
  return btoa(String.fromCharCode(...bytes));
};

function box(id: number, more: Partial<BoardBox> = {}): BoardBox {
  return {
    id, parent: -1, kind: "group", title: `g${id}`, about: "", count: 2, ranges: [[2 * id, 2 * id + 1]], exact: true, largest: 1,
    bad: [-1, -1], path: `g${id}`, open: false, ...more,
  };
}

// Two leaves, then function nodes 2 to 13 with a constant at 5; gradients reach all but nodes 1 and 5.
const FORWARD = [2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13];
const BACKWARD = [0, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13];
const passage = passageOf({ forward: bits(FORWARD, 14), backward: bits(BACKWARD, 14) });
const board: Board = {
  boxes: [0, 1, 2, 3, 4].map((id) => box(id)),
  links: [0, 1, 2, 3].map((from) => ({ from, to: from + 1, reader: 9, slot: 0, wires: 1 })),
};

test("A passage is both passes and the seed between them", () => {
  assert.deepEqual([...passage.forward], FORWARD);
  assert.deepEqual([...passage.backward], [...BACKWARD].reverse());
  assert.equal(passage.total, 11 + 1 + 12);
});

test("A position says what is known", () => {
  assert.deepEqual(spotAt(passage, 0), { phase: "start", node: -1, done: 0, from: 11, back: 0 });
  assert.deepEqual(spotAt(passage, 4), { phase: "forward", node: 6, done: 4, from: 11, back: 0 });
  assert.equal(spotAt(passage, 12).phase, "seed");
  assert.deepEqual(spotAt(passage, 14), { phase: "backward", node: 12, done: 11, from: 9, back: 2 });
  assert.equal(spotAt(passage, passage.total).from, 0);
});

test("The position of a node is the one after it was visited", () => {
  for (const node of FORWARD) assert.equal(spotAt(passage, positionOf(passage, "forward", node)).node, node);
  for (const node of BACKWARD) assert.equal(spotAt(passage, positionOf(passage, "backward", node)).node, node);
});

test("Progress counts the nodes of a box that are known, and grows with every step", () => {
  const whole = box(0, { count: 11, ranges: [[0, 10]] });
  const done = Array.from({ length: passage.total + 1 }, (_, at) => progressOf(whole, spotAt(passage, at)));
  assert.deepEqual(done[0], { forward: 0, backward: 0 });
  assert.deepEqual(done.at(-1), { forward: 11, backward: 11 });
  done.slice(1).forEach(({ forward, backward }, k) => assert.ok(forward >= done[k]!.forward && backward >= done[k]!.backward));
});

test("A step by group ends where a box ends, and never passes a stop", () => {
  const targets = targetsOf(passage, "group", board, null, [7]);
  assert.deepEqual(targets.filter((at) => at <= 12), [0, 2, 4, 6, 7, 8, 10, 11, 12]);
  assert.equal(stepFrom(6, 1, targets, passage.total), 7);
  assert.equal(stepFrom(7, -1, targets, passage.total), 6);
  assert.equal(stepFrom(0, -1, null, passage.total), 0);
  const seen = [0];
  while (seen.at(-1)! < passage.total) seen.push(stepFrom(seen.at(-1)!, 1, targets, passage.total));
  assert.deepEqual(seen, targets);
});

test("A step by iteration ends where an iteration ends, in both passes", () => {
  const loop = { name: "t", first: 3, starts: [2, 6, 10] };
  const targets = targetsOf(passage, "iteration", board, loop, []);
  assert.deepEqual(targets.filter((at) => at <= 12), [0, 3, 7, 11, 12]);
  assert.deepEqual(targets.filter((at) => at > 12).map((at) => spotAt(passage, at).node), [10, 6, 0]);
  assert.deepEqual([1, 2, 5, 6, 13].map((node) => iterationOf(loop, node)), [null, 3, 3, 4, 5]);
});

test("Groups open and close, and merged neighbours open into a part of them", () => {
  const start = { opened: [], focus: [] };
  const range = box(1, { kind: "range", stretch: "|t=", first: 4, last: 9 });
  const inside = openBox(start, range);
  assert.deepEqual(inside.focus, ["|t=:4-9"]);
  assert.deepEqual(openBox(inside, { ...range, first: 5, last: 5 }).focus, ["|t=:5-5"]);
  const opened = openBox({ opened: [], focus: ["|t=:5-5"] }, box(2, { path: "t=5" }));
  const deeper = openBox(opened, box(3, { path: "t=5/dist" }));
  assert.equal(boardPath(deeper), "/board?opened=t%3D5&opened=t%3D5%2Fdist&focus=%7Ct%3D%3A5-5");
  assert.deepEqual(closeBox(deeper, box(3, { path: "t=5/dist" })), { opened: ["t=5"], focus: ["|t=:5-5"] });
  assert.deepEqual(closeBox(deeper, box(2, { path: "t=5" })), start);
  assert.deepEqual([box(0), box(0, { open: true }), range, box(0, { kind: "node" })].map(opens), [true, false, true, false]);
});

test("Boxes do not overlap, and open groups surround what is in them", () => {
  const nested: Board = {
    boxes: [box(0, { open: true }), ...[1, 2, 3].map((id) => box(id, { parent: 0, kind: "node" })), box(4)],
    links: [{ from: 1, to: 2, reader: 0, slot: 0, wires: 1 }, { from: 1, to: 3, reader: 0, slot: 0, wires: 1 }, { from: 3, to: 4, reader: 0, slot: 0, wires: 1 }],
  };
  const { rects, width, height } = placeBoard(nested, 1000, 400);
  const frame = rects[0]!;
  for (const id of [1, 2, 3]) {
    const { x, y, width: wide, height: high } = rects[id]!;
    assert.ok(x >= frame.x && y >= frame.y && x + wide <= frame.x + frame.width && y + high <= frame.y + frame.height);
  }
  const apart = (a: typeof frame, b: typeof frame): boolean =>
    a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
  for (const [a, b] of [[1, 2], [1, 3], [2, 3], [0, 4]]) assert.ok(apart(rects[a!]!, rects[b!]!));
  rects.forEach(({ x, y, width: wide, height: high }) => assert.ok(x >= 0 && y >= 0 && x + wide <= width + 1 && y + high <= height + 1));
});

test("Long rows are wrapped, and a wire back to the left goes around", () => {
  const long: Board = {
    boxes: Array.from({ length: 20 }, (_, id) => box(id)),
    links: Array.from({ length: 19 }, (_, from) => ({ from, to: from + 1, reader: 0, slot: 0, wires: 1 })),
  };
  const { width, height, lines } = placeBoard(long, 1200, 600);
  assert.ok(width / height < 4);
  assert.ok(lines.some(([from, to]) => to.x < from.x && wirePath([from, to]).includes("V")));
});

test("Ticks of the heat strip stand at whole numbers and are few", () => {
  const heat = { size: 1100, columns: 240, rows: 8, low: -3, high: 2, cells: [], zero: 0, absent: 0, bad: [] };
  const loop = { name: "t", first: 0, starts: Array.from({ length: 110 }, (_, k) => 10 * k) };
  assert.deepEqual(ticksOf(heat, loop, 6), [[0, "0"], [200 / 1100, "20"], [400 / 1100, "40"], [600 / 1100, "60"], [800 / 1100, "80"], [1000 / 1100, "100"]]);
  assert.ok(ticksOf(heat, null, 6).length <= 7);
  assert.deepEqual(powersOf(heat), [-3, -2, -1, 0, 1, 2]);
  assert.ok(powersOf({ ...heat, low: -20 }).length <= 7);
});

test("What is picked is a node, a group, a wire or a bundle", () => {
  assert.deepEqual(pickedBox(box(1, { kind: "node", node: 7 })), { kind: "node", node: 7 });
  assert.deepEqual(pickedBox(box(1)), { kind: "box", title: "g1" });
  assert.deepEqual(pickedLink(board, 0), { kind: "wire", reader: 9, slot: 0 });
  assert.deepEqual(pickedLink({ ...board, links: [{ ...board.links[0]!, wires: 3 }] }, 0), { kind: "bundle", from: "g0", to: "g1" });
  assert.equal(nodeOfPicked({ kind: "wire", reader: 9, slot: 0 }), 9);
});

test("The product of a wire is told with its factors", () => {
  const wire = { reader: 1, slot: 0, source: 0, from: "a", to: "b" };
  assert.equal(productOf({ ...wire, upstream: 2, local: -3, sent: -6 }), "2 × (\u22123) = \u22126");
  assert.equal(productOf({ ...wire, upstream: 2, local: null, sent: 4 }), "4");
  assert.equal(productOf({ ...wire, upstream: 2, local: 1, sent: null }), "nothing is sent");
  assert.equal(productOf(wire), "not run");
});

test("An outline shows what is in open groups only", () => {
  const groups = ["a", "a/b", "a/b/c", "d"].map((path) => ({ path, nodes: 1, norm: 0, bad: 0 }));
  assert.deepEqual(visible(groups, []).map(({ path }) => path), ["a", "d"]);
  assert.deepEqual(visible(groups, ["a"]).map(({ path, open }) => [path, open]), [["a", true], ["a/b", false], ["d", null]]);
  assert.equal(runs({ count: 3, slices: [[1, 2], [5, 5]], left_out: 1 }), "%1 to %2, %5, and 1 more run");
});

test("A file answers what it keeps, and says what it does not", async () => {
  const kept = keptIn({ "/board?opened=a b": { boxes: [], links: [] } });
  assert.deepEqual((await kept("/board?opened=a+b")).answer, { boxes: [], links: [] });
  assert.match((await kept("/board?")).error, /not in the file/);
  assert.equal(isLarge({}), false);
});

test("A refusal is told in the server's words", async () => {
  assert.equal(refusal('{"error": "no such group"}', 400), "no such group");
  assert.match(refusal("", 500), /500/);
  const before = globalThis.fetch;
  globalThis.fetch = (() => Promise.reject(new TypeError("gone"))) as typeof fetch;
  assert.match((await ask("/board?")).error, /still running/);
  globalThis.fetch = before;
});
