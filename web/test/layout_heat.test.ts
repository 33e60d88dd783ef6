import assert from "node:assert/strict";
import { test } from "node:test";

import { evaluate, parse, ranksOf, sizeOf } from "../src/engine";
import { find } from "../src/engine/questions";
import { heatOf, heatQuery, heatText, type Heat } from "../src/layout/heat";

const heat: Heat = { ranks: 6, low: -2, high: 2, counts: [[1, 0, 0, 3], [0, 0, 0, 0]], zero: [0, 2], absent: [0, 0], bad: [0, 0] };

test("a cell of the heat strip asks for its ranks and sizes, a column for all of its own", () => {
  const bounds = (query: string): number[] => query.match(/[\d.]+(e[-+]?\d+)?/g)!.map((text) => Math.round(100 * Number(text)) / 100);

  assert.match(heatQuery(heat, 0, 3), /^rank>=0 rank<=2 grad>=/);
  assert.deepEqual(bounds(heatQuery(heat, 0, 3)), [0, 2, 10, 100]);
  assert.deepEqual(bounds(heatQuery(heat, 0, -1)), [0, 2, 0.01, 100]);
  assert.equal(heatQuery(heat, 1, 2), "rank>=3 rank<=5 grad=0");
});

test("a column of the heat strip says which ranks it counts", () => {
  assert.equal(heatText(heat, 0), "Ranks 0 to 2, 4 gradients");
  assert.equal(heatText(heat, 1), "Ranks 3 to 5, 0 gradients, 2 zero");
  assert.equal(heatText(heatOf([0, 1], [1, 2]), 1), "Rank 1, 1 gradient");
});

test("what a cell of the heat strip asks for is what it counts", () => {
  const chain = Array.from({ length: 200 }, (_, k) => `h${k + 1} = tanh(h${k})*1.01; g${k + 1} = 0*h${k + 1}`);
  const run = evaluate(parse(`${chain.join("; ")}; y = h200 + log(g3)*relu(-h0)`), { h0: 2.5 });
  const found = heatOf(ranksOf(run.circuit), run.grads.map((grad) => (grad === null ? null : sizeOf(grad))));
  const cells = found.counts.flatMap((levels, column) => levels.map((count, level) => [column, level, count] as const));
  const filled = cells.filter(([, , count]) => count);

  assert.ok(filled.length > 100);
  for (const [column, level, count] of filled) {
    assert.ok(find(run.circuit, run, heatQuery(found, column, level)).length >= count);
  }
  const counted = [found.counts, found.zero, found.absent, found.bad].flat(2).reduce((sum, count) => sum + count, 0);
  assert.equal(counted, run.circuit.nodes.length);
});
