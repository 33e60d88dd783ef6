import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { picture, type Picture, type PictureOptions } from "../src/layout";
import { cellsOf } from "../src/layout/figure";
import type { Circuit, Run, Value } from "../src/types";

type Loose = number | boolean | string | null | { norm: number | string };

interface Given {
  name: string;
  circuit: Circuit;
  run: { values: Loose[]; grads: Loose[]; wires: [Loose, Loose][] } | null;
  options: Omit<PictureOptions, "opened"> & { opened?: string[] };
  found: unknown;
}

const golden = JSON.parse(readFileSync(join(process.env.WEB_FOLDER ?? ".", "golden", "layout.json"), "utf8")) as {
  pictures: Given[];
};

const NUMBERS: Record<string, number> = { nan: NaN, inf: Infinity, "-inf": -Infinity };

function value(given: Loose): Value | null {
  return typeof given === "string" ? (NUMBERS[given] ?? NaN) : (given as Value | null);
}

function circuitOf(given: Given): Circuit {
  const nodes = given.circuit.nodes.map((node) =>
    node.constant === undefined ? node : { ...node, constant: value(node.constant as Loose) as Value },
  );
  return { ...given.circuit, nodes };
}

function runOf({ run }: Given, circuit: Circuit): Run | undefined {
  if (run === null) return undefined;
  const starts = [0];
  const wires: Run["wires"] = [];
  const grads = run.grads.map(value);
  for (const [reader, { sources }] of circuit.nodes.entries()) {
    for (const [slot, source] of sources.entries()) {
      const [local = null, sent = null] = run.wires[wires.length] ?? [];
      wires.push({ reader, slot, source, local: value(local), upstream: grads[reader] ?? null, sent: value(sent) });
    }
    starts.push(wires.length);
  }
  return { circuit, values: run.values.map((found) => value(found) as Value), grads, wires, starts };
}

function drawn(given: Given, more: PictureOptions = {}): Picture {
  const circuit = circuitOf(given);
  const run = runOf(given, circuit);
  const { opened = [], ...options } = given.options;
  return picture(circuit, { ...options, opened: new Set(opened), ...(run ? { run } : {}), ...more });
}

function found(made: Picture): unknown {
  const flat = (points: { x: number; y: number }[]) => points.flatMap(({ x, y }) => [x, y]);
  return {
    boxes: made.boxes.map((b) => [
      ...[b.kind, b.name, b.text, b.label, b.node, b.nodes, b.group, b.bad, b.kink, b.outputs],
      ...[b.x, b.y, b.width, b.height, cellsOf(b).map((cell) => cell.text)],
    ]),
    wires: made.wires.map((w) => [
      ...[w.from, w.to, w.reader, w.slot, w.wires, ...w.texts, w.room, w.stub, flat(w.points)],
    ]),
    frames: made.frames.map((frame) => [frame.path, flat(frame.points)]),
  };
}

test("there are at least 40 pictures to compare", () => {
  assert.ok(golden.pictures.length >= 40);
});

for (const given of golden.pictures) {
  test(`the picture is Python's: ${given.name}`, () => {
    const made = drawn(given);
    const { boxes, wires, frames, words, scale } = given.found as Record<string, unknown[]>;

    assert.deepEqual(found(made), { boxes, wires, frames });
    assert.deepEqual([made.title, made.about], words?.slice(0, 2));
    assert.ok(made.note.startsWith(words?.[2] as string));
    for (const [k, limit] of [made.scale.limit, made.scale.floor].entries()) {
      assert.ok(Math.abs(limit - (scale?.[k] as number)) <= 1e-9 * Math.abs(limit));
    }
  });
}

function overlapping(made: Picture): string[] {
  return made.boxes.flatMap((one, k) =>
    made.boxes.slice(k + 1).flatMap((two) => {
      const apart = one.x >= two.x + two.width || two.x >= one.x + one.width;
      return apart || one.y >= two.y + two.height || two.y >= one.y + one.height ? [] : [`${one.label} ${two.label}`];
    }),
  );
}

test("no two boxes overlap where room is kept for numbers that are not there yet", () => {
  const found = golden.pictures.map((given) => overlapping(drawn(given, { steady: true, chain: 2, split: true })));

  assert.deepEqual(found.flat(), []);
});

test("a picture reaches as far as its boxes, wires and frames", () => {
  for (const made of golden.pictures.map((given) => drawn(given))) {
    const rects = made.boxes.map(({ x, y, width, height }) => ({ x, y, right: x + width, bottom: y + height }));
    const points = [...made.wires, ...made.frames].flatMap(({ points }) => points);
    const spots = points.map(({ x, y }) => ({ x, y, right: x, bottom: y }));
    for (const { x, y, right, bottom } of [...rects, ...spots]) {
      assert.ok(x >= made.left && y >= made.top);
      assert.ok(right <= made.left + made.width && bottom <= made.top + made.height);
    }
  }
});
