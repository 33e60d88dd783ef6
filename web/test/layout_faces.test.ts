import assert from "node:assert/strict";
import { test } from "node:test";

import { evaluate, parse, steps } from "../src/engine";
import { picture, type Picture, type PictureOptions } from "../src/layout";
import { boxFace, gathered, sceneOf, wireFace, type Mode, type Scene } from "../src/layout/faces";
import { knownAt, withStale } from "../src/state/known";
import { timeline } from "../src/state/timeline";
import { fitted, opening, revealed, zoomed } from "../src/ui/circuit-gestures";
import { cellPath, closedPath, hatchPath, roundedPath } from "../src/ui/circuit-look";

const EXPRESSION = ["e = a + b; f = e * c", { a: 2, b: -3, c: 10 }] as const;
const FANOUT = ["y = x*x + x", { x: 3 }] as const;

type Given = readonly [formula: string, leaves: Record<string, number>];

function scene(given: Given, at: number, options: PictureOptions = {}, mode: Mode = "signed"): Scene {
  const run = evaluate(parse(given[0]), given[1]);
  const line = timeline(run, steps(run));
  return sceneOf(picture(run.circuit, { run, ...options }), run, knownAt(run, line, Math.min(at, line.length)), mode);
}

function box(found: Scene, label: string) {
  const made = found.picture.boxes.find((one) => one.label === label);
  assert.ok(made);
  return made;
}

function rows(found: Scene, label: string): string[] {
  return boxFace(found, box(found, label)).rows.map(({ text }) => text);
}

function wire(found: Scene, from: string, to: string) {
  const { boxes, wires } = found.picture;
  const made = wires.find((one) => boxes[one.from]?.label === from && boxes[one.to]?.label === to);
  assert.ok(made);
  return wireFace(found, made);
}

test("what is not computed is a dash and never 0", () => {
  const found = scene(EXPRESSION, 0);

  assert.deepEqual([rows(found, "a"), rows(found, "e")], [["2", "\u2013"], ["\u2013", "\u2013"]]);
  assert.equal(boxFace(found, box(found, "e")).name, "e, + node, value not computed, gradient not computed");
});

test("wires show slopes and products on the way back, and boxes their values on the way forward", () => {
  const [forward, done] = [scene(EXPRESSION, 2), scene(EXPRESSION, 99)];

  assert.deepEqual([wire(forward, "e", "f").local, wire(forward, "e", "f").sent], ["", ""]);
  assert.equal(boxFace(forward, box(forward, "e")).value?.text, "\u22121");
  assert.deepEqual([wire(done, "e", "f").local, wire(done, "e", "f").sent], ["\u00d710", "10"]);
  assert.deepEqual([wire(done, "c", "f").local, wire(done, "c", "f").sent], ["\u00d7(\u22121)", "\u22121"]);
  assert.equal(
    wire(done, "c", "f").name,
    "wire from c to f, input 2, value 10, local derivative \u22121, gradient \u22121",
  );
});

test("the slopes of a node appear in the second part of its step, before the first product", () => {
  const seen = [3, 4, 5, 6].map((at) => wire(scene(EXPRESSION, at), "e", "f"));

  assert.deepEqual(seen.map(({ local }) => local), ["", "", "\u00d710", "\u00d710"]);
  assert.deepEqual(seen.map(({ sent }) => sent), ["\u2013", "\u2013", "\u2013", "10"]);
});

test("wires get thicker with the gradient", () => {
  const found = scene(EXPRESSION, 99);

  assert.ok(wire(found, "e", "f").width > wire(found, "c", "f").width);
  assert.equal(wire(found, "e", "f").width, 5.4);
});

test("a splitter counts what arrived and shows the sum so far", () => {
  const seen = [3, 7, 10, 11, 12].map((at) => {
    const found = scene(FANOUT, at);
    const { sent, mark } = wire(found, "x", "x split");
    return [boxFace(found, box(found, "x split")).name, sent, mark];
  });

  assert.deepEqual(seen, [
    ["splitter of x, 0 of 3 arrived", "\u2013", "none"],
    ["splitter of x, 1 of 3 arrived, sum 1", "1", "partial"],
    ["splitter of x, 2 of 3 arrived, sum 4", "4", "partial"],
    ["splitter of x, 3 of 3 arrived, sum 7", "7", "partial"],
    ["splitter of x, 3 of 3 arrived, sum 7", "7", "final"],
  ]);
});

test("a fan-out is one glyph, and two-way splitters when unfolded", () => {
  const splitters = (made: Picture) => made.boxes.filter(({ kind }) => kind === "splitter");
  const counts = (made: Picture) => splitters(made).map(({ branches }) => branches.length);

  assert.deepEqual(counts(scene(FANOUT, 0).picture), [3]);
  assert.deepEqual(counts(scene(FANOUT, 0, { unfolded: true }).picture), [3, 2]);
});

test("each of the two-way splitters has a sum of its own", () => {
  const found = scene(FANOUT, 99, { unfolded: true });
  const sums = found.picture.boxes.filter(({ kind }) => kind === "splitter").map((one) => gathered(found, one));

  assert.deepEqual(sums, [
    { arrived: 3, due: 3, sum: 7 },
    { arrived: 2, due: 2, sum: 4 },
  ]);
});

test("what is not finite has the mark and the tone of nothing else", () => {
  const found = scene(["log(x) * y", { x: 0, y: 2 }], 99);
  const [data] = boxFace(found, box(found, "t1")).rows;

  assert.deepEqual([data?.text, data?.mark], ["\u2212Inf", "bad"]);
  assert.deepEqual([wire(found, "x", "t1").mark, wire(found, "x", "t1").tone], ["bad", "x"]);
});

test("a node on a kink names its convention once its value is known", () => {
  const given = ["abs(x)", { x: 0 }] as const;
  const kinks = [0, 99].map((at) => scene(given, at)).map((found) => boxFace(found, found.picture.boxes[1]!).kink);

  assert.deepEqual(kinks, ["", "min_norm"]);
});

test("numbers from before an edit are stale", () => {
  const [formula, leaves] = EXPRESSION;
  const [old, now] = [evaluate(parse(formula), leaves), evaluate(parse(formula), { ...leaves, a: 4 })];
  const line = timeline(old, steps(old));
  const before = { run: old, known: knownAt(old, line, line.length) };
  const shown = withStale({ run: now, known: knownAt(now, line, 0) }, before);
  const found = sceneOf(picture(old.circuit, { run: now }), shown.run, shown.known, "signed");
  const marks = boxFace(found, box(found, "e")).rows.map(({ text, mark }) => [text, mark]);

  assert.deepEqual(marks, [["\u22121", "stale"], ["10", "stale"]]);
  assert.equal(wire(found, "e", "f").mark, "stale");
});

test("colours say the sign, the size, or gradient times value", () => {
  const tones = (["signed", "magnitude", "product"] as const).map((mode) => {
    const found = scene(EXPRESSION, 99, {}, mode);
    return [boxFace(found, box(found, "c")).rows[1]?.tone, boxFace(found, box(found, "b")).rows[1]?.tone];
  });

  assert.deepEqual(tones.map((pair) => pair.map((tone) => tone?.[0])), [["n", "p"], ["m", "m"], ["n", "n"]]);
});

test("editing a leaf to an ordinary number moves nothing", () => {
  const places = [2, 2.5, -7].map((a) => {
    const made = scene([EXPRESSION[0], { ...EXPRESSION[1], a }], 0).picture;
    return [made.boxes.map(({ x, y, width, height }) => [x, y, width, height]), made.wires.map(({ points }) => points)];
  });

  assert.deepEqual(places[1], places[0]);
  assert.deepEqual(places[2], places[0]);
});

test("a picture that fits is seen whole, a huge one from its beginning", () => {
  const small = scene(EXPRESSION, 0).picture;
  const window = { width: 800, height: 480 };
  const view = fitted(small, window);

  assert.ok(view.x + small.left * view.zoom >= 0 && view.x + (small.left + small.width) * view.zoom <= window.width);
  assert.deepEqual(opening(small, window), view);
  assert.equal(opening({ ...small, width: 90000 }, window).zoom, 0.7);
});

test("zooming keeps the point it is about, and revealing moves only what is outside", () => {
  const view = { x: 10, y: 20, zoom: 1 };
  const found = zoomed(view, 2, { x: 110, y: 70 });
  const window = { width: 300, height: 200 };

  assert.deepEqual(found, { x: -90, y: -30, zoom: 2 });
  assert.deepEqual(revealed(view, window, { x: 100, y: 50, width: 20, height: 20 }), view);
  assert.deepEqual(revealed(view, window, { x: 400, y: 50, width: 20, height: 20 }), { x: -130, y: 20, zoom: 1 });
});

test("paths have the corners that Python's have", () => {
  const corners = [[0, 0], [20, 0], [20, 30], [0, 30]].map(([x = 0, y = 0]) => ({ x, y }));

  assert.equal(roundedPath(corners.slice(0, 3)), "M0 0L10 0Q20 0 20 10L20 30");
  assert.equal(closedPath(corners), "M10 0L15 0Q20 0 20 5L20 20Q20 30 10 30L10 30Q0 30 0 20L0 5Q0 0 5 0L10 0Z");
  assert.equal(hatchPath(0, 0, 12, 6, 6), "M0 6L6 0M6 6L12 0");
  assert.equal(cellPath(0, 0, 10, 10, 0, 0), "M0 0h10V10H0z");
});
