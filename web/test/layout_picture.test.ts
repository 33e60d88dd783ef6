import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { picture, type Picture, type PictureBox, type PictureOptions, type Slot } from "../src/layout";
import type { Circuit, Run, Value } from "../src/types";
import { sampled } from "./sampling";

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

function flatSlot(slot: Slot | null): number[] | null {
  return slot && [slot.x, slot.y, slot.width, slot.height, slot.at.x, slot.at.y];
}

function placesOf({ out, mark, ...box }: PictureBox): unknown[] {
  const slots = [box.captionSlot, box.valueSlot, box.gradSlot, box.nameSlot, box.textSlot, box.wordSlot];
  return [out.x, out.y, ...slots.map(flatSlot), ...(mark ? [[mark.dot.x, mark.dot.y, flatSlot(mark.name)]] : [])];
}

function found(made: Picture): unknown {
  const flat = (points: { x: number; y: number }[]) => points.flatMap(({ x, y }) => [x, y]);
  return {
    boxes: made.boxes.map((b) => [
      ...[b.kind, b.name, b.text, b.label, b.node, b.nodes, b.group, b.bad, b.kink, b.outputs, b.caption, b.shape],
      ...[b.x, b.y, b.width, b.height, placesOf(b)],
    ]),
    wires: made.wires.map((w) => [
      ...[w.from, w.to, w.reader, w.slot, w.wires, w.shape, w.stub, flat(w.points), [w.pillSlot, w.sentSlot].map(flatSlot)],
    ]),
    frames: made.frames.map((frame) => [frame.path, frame.name, flat(frame.points)]),
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

test("no two boxes overlap at any detail level", () => {
  for (const detail of [0, 1, 2, 3, 4, 5]) {
    const found = sampled(golden.pictures, 6, detail).map((given) => overlapping(drawn(given, { detail, chain: 2, split: true })));

    assert.deepEqual(found.flat(), []);
  }
});

test("geometry does not depend on numbers", () => {
  for (const given of sampled(golden.pictures.filter(({ run }) => run !== null), 2)) {
    const circuit = circuitOf(given);
    const run = runOf(given, circuit)!;
    const other = { ...run, values: run.values.map(() => -1.2345e-7), grads: run.grads.map((grad) => grad && -98765.4321) };
    const { opened = [], ...options } = given.options;
    const [one, two] = [run, other].map((made) => picture(circuit, { ...options, opened: new Set(opened), run: made }));

    assert.deepEqual(geometry(one!), geometry(two!));
  }
});

function geometry({ boxes, wires, width, height }: Picture): unknown {
  return [width, height, boxes.map((box) => [box.x, box.y, box.width, box.height, placesOf(box)]), wires.map((wire) => wire.points)];
}

test("no number, caption or local derivative overlaps a box or another one", () => {
  for (const given of sampled(golden.pictures, 2)) {
    const made = drawn(given, { split: true, chain: 2 });
    const texts = made.boxes.flatMap((box) =>
      box.kind === "node" ? [box.captionSlot, box.valueSlot, box.gradSlot].flatMap((slot) => slot ?? []) : [],
    );
    const places = [...texts, ...made.wires.flatMap(({ pillSlot, sentSlot }) => [pillSlot, sentSlot].flatMap((slot) => slot ?? []))];
    for (const [k, one] of places.entries()) {
      for (const two of [...places.slice(k + 1), ...made.boxes]) {
        const apart = one.x >= two.x + two.width || two.x >= one.x + one.width;
        if (apart || one.y >= two.y + two.height || two.y >= one.y + one.height) continue;

        assert.fail(`${given.name}: ${JSON.stringify([one, two])}`);
      }
    }
  }
});

test("a picture reaches as far as its boxes, wires and frames", () => {
  for (const made of sampled(golden.pictures, 2, 1).map((given) => drawn(given))) {
    const rects = made.boxes.map(({ x, y, width, height }) => ({ x, y, right: x + width, bottom: y + height }));
    const points = [...made.wires, ...made.frames].flatMap(({ points }) => points);
    const spots = points.map(({ x, y }) => ({ x, y, right: x, bottom: y }));
    for (const { x, y, right, bottom } of [...rects, ...spots]) {
      assert.ok(x >= made.left && y >= made.top);
      assert.ok(right <= made.left + made.width && bottom <= made.top + made.height);
    }
  }
});
