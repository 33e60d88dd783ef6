import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { layout, type Joint, type Shape } from "../src/layout";

interface LayoutCase {
  name: string;
  shapes: [number, number, number, number, number, number, number, number, string, number][];
  joints: [number, number, number, number, number, number][];
  fold: number;
  grid: number;
  found: { size: number[]; ranks: number[]; bands: number[]; corners: number[]; routes: number[][]; stubs: number[] };
}

const golden = JSON.parse(readFileSync(join(process.env.WEB_FOLDER ?? ".", "golden", "layout.json"), "utf8")) as {
  layouts: LayoutCase[];
};

function shapesOf(given: LayoutCase): Shape[] {
  return given.shapes.map(([along, across, leaf, splitter, free, reserve, after, inset, group, below]) => ({
    along,
    across,
    leaf: !!leaf,
    splitter: !!splitter,
    free: !!free,
    reserve,
    after,
    inset,
    group,
    below,
  }));
}

function jointsOf(given: LayoutCase): Joint[] {
  return given.joints.map(([source, target, port, label, far, tail]) => ({ source, target, port, label, far, tail }));
}

function laidOut(given: LayoutCase): LayoutCase["found"] {
  const found = layout(shapesOf(given), jointsOf(given), { fold: given.fold, grid: given.grid });
  return {
    size: [found.along, found.across],
    ranks: found.ranks,
    bands: found.bands,
    corners: found.corners.flat(),
    routes: found.routes.map((route) => route.points.flat()),
    stubs: [...found.routes.keys()].filter((k) => found.routes[k]?.stub),
  };
}

test("there are at least 120 layouts to compare", () => {
  assert.ok(golden.layouts.length >= 120);
});

for (const given of golden.layouts) {
  test(`the layout is Python's: ${given.name}`, () => {
    assert.deepEqual(laidOut(given), given.found);
  });
}
