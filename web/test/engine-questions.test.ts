// Answers of the page beside Python's: paths, faults, kinks and searches from the golden file; nudges by hand.
import type { Value } from "../src/types";
import assert from "node:assert/strict";
import { test } from "node:test";
import { branches, callable, evaluate, kinksOf, parse, split } from "../src/engine";
import {
  check, find, FindMistake, firstNonFinite, nudge, paths, pathText, spoiledText, spotText,
} from "../src/engine/questions";
import { plain, plus, scaled, times } from "../src/engine/scaled";
import { suggest } from "../src/engine/words";
import { ascii, decoded, given, golden, type Golden } from "./golden";

function each(entries: readonly Golden[], one: (entry: Golden) => void): void {
  assert.ok(entries.length > 50);
  for (const entry of entries) {
    try {
      one(entry);
    } catch (error) {
      throw new Error(`${JSON.stringify(entry.formula)} at ${JSON.stringify(entry.leaves)}`, { cause: error });
    }
  }
}

test("paths have Python's counts, products and sums", () => {
  each(
    golden.circuits.filter((entry) => entry.paths),
    (entry) => {
      const run = given(entry);
      for (const [name, wanted] of Object.entries(entry.paths!)) {
        const node = entry.circuit.nodes.findIndex(({ names }) => names[0] === name);
        const { count, live, total, magnitude, cancellation, added, rest, paths: own } = paths(run, node)!;
        const found = {
          ...{ count: String(count), live: String(live), total, magnitude, cancellation, added, rest },
          paths: own.map((path) => [path.contribution, path.nodes, path.wires.map(({ slot }) => slot), path.locals]),
        };
        assert.deepEqual(found, decoded(wanted));
      }
    },
  );
});

test("a path is written as Python writes it", () => {
  const run = evaluate(parse("e = a + b; f = e * c"), { a: 2, b: -3, c: 10 });

  assert.equal(pathText(run, paths(run, 0)!.paths[0]!), "10 = 1 x 10 x 1   a -> e -> f");
});

test("paths leave splitters out", () => {
  const run = evaluate(split(parse("x*x + x")), { x: 3 });

  assert.deepEqual(paths(run, 0)!.paths.map(({ contribution, nodes }) => [contribution, nodes.length]), [[3, 3], [3, 3], [1, 2]]);
});

test("a thousand million paths are counted, and the largest shown", () => {
  const text = Array.from({ length: 30 }, (_, k) => `u${k + 1} = u${k} + u${k} * 0.5`).join("; ");
  const found = paths(evaluate(parse(text), { u0: 1 }), 0)!;

  assert.equal(found.live, 2n ** 30n);
  assert.equal(found.paths.length, 32);
  assert.equal(found.paths[0]!.contribution, 1);
  assert.equal(found.total, 1.5 ** 30);
});

test("faults are found where Python finds them, with what they spoil and how", () => {
  each(
    [...golden.circuits, ...golden.built].filter((entry) => entry.blame.length),
    (entry) => {
      const run = given(entry);
      const found = firstNonFinite(run).origins.map(({ phase, node, slot, spoils, chain }) => [
        ...[phase, node, slot, spoils.map((spot) => spoiledText(run, spot))],
        chain.map((spot) => ascii(spotText(run, spot))),
      ]);
      // Python works a chain out for the first few origins only.
      const wanted = entry.blame.map((origin, k) => (k < 8 ? origin : [...origin.slice(0, 4), found[k]?.[4]]));
      assert.deepEqual(found, wanted);
    },
  );
});

test("a run without faults has no first non-finite number", () => {
  each(
    golden.circuits.filter((entry) => !entry.blame.length),
    (entry) => assert.deepEqual(firstNonFinite(given(entry)).origins, []),
  );
});

test("the first fault says what happened", () => {
  const found = firstNonFinite(evaluate(parse("p = x * 0; y = log(p)"), { x: 1 }));

  assert.equal(found.forward?.said, "log gave −Inf at p = 0");
  assert.equal(found.backward, null);
});

test("a fault on the way back names the wire", () => {
  const found = firstNonFinite(evaluate(parse("y = sqrt(x)"), { x: 0 }));

  assert.equal(found.forward, null);
  assert.equal(found.backward?.said, "sqrt sent Inf back to x: upstream 1 times local Inf, at x = 0");
});

test("nodes are on the kinks that Python says", () => {
  each(golden.circuits, (entry) => {
    const run = given(entry);
    const found = entry.circuit.nodes.flatMap((_, node) => kinksOf(run, node).map(({ doc }) => [node, doc]));
    assert.deepEqual(found, entry.kinks);
  });
});

test("a search finds what Python finds", () => {
  for (const { formula, leaves, query, nodes } of golden.finds) {
    const run = evaluate(parse(formula), leaves);
    assert.deepEqual(find(run.circuit, run, query), nodes, `${query} in ${formula}`);
  }
});

test("a query that means nothing is refused with a hint", () => {
  const circuit = parse("y = tanh(x)");

  assert.throws(() => find(circuit, null, "op:tan_h"), new FindMistake("there is no op called 'tan_h'; did you mean tanh?"));
  assert.throws(() => find(circuit, null, "grdd>1"), /cannot search for 'grdd>1'.*did you mean grad\?/);
  assert.throws(() => find(circuit, null, "grad>much"), /which is no number/);
  assert.throws(() => find(circuit, null, "grad>"), /'grad>' compares with '', which is no number/);
  assert.throws(() => find(circuit, null, "name:/(/"), /groups are not known/);
});

test("a search without a run finds by name, op and place in the circuit", () => {
  assert.deepEqual(find(parse("y = tanh(x)"), null, "op:tanh"), [1]);
  assert.deepEqual(find(parse("y = tanh(x)"), null, "grad>0"), []);
});

test("an array is negative in a search if all its elements are", () => {
  const circuit = parse("y = tanh(x)");
  const array = (sign: -1 | 0 | 1): Value => ({ type: "float64[2]", text: "", norm: 5, bad: 0, sign });
  const found = (sign: -1 | 0 | 1, query: string): number[] =>
    find(circuit, { ...evaluate(circuit, { x: 1 }), values: [array(sign), 1] }, query);

  assert.deepEqual([found(-1, "value<0"), found(0, "value<0"), found(1, "value<0")], [[0], [], []]);
  assert.deepEqual([found(-1, "value>-1"), found(0, "value>-1")], [[1], [0, 1]]);
  assert.deepEqual(found(-1, "value>=5"), [0]);
});

test("what comes back to a node is added last reader first, the output's own 1 before all", () => {
  const run = evaluate(parse("u = x * x; v = u + x; v"), { x: 3 });

  assert.deepEqual(branches(run, 0).map(({ sent, sum }) => [sent, sum]), [[1, 1], [3, 4], [3, 7]]);
  assert.deepEqual(branches(run, 2).map(({ wire, sum }) => [wire, sum]), [[null, 1]]);
});

test("what is blocked adds nothing to a sum", () => {
  const run = evaluate(parse("maximum(x, 2) + where(x > 5, x, 1) + x"), { x: 3 });

  assert.deepEqual(branches(run, 0).map(({ sent, sum }) => [sent, sum]), [[1, 1], [null, 1], [null, 1], [1, 2]]);
});

test("a nudge of a leaf moves the output as its gradient says, nearly", () => {
  const run = evaluate(parse("x * x"), { x: 3 });

  assert.deepEqual(nudge(run, { node: 0 }, 0.5), { by: 0.5, predicted: 3, actual: 3.25 });
});

test("a nudge of one wire leaves the other wires of the value alone", () => {
  const run = evaluate(parse("x * x"), { x: 3 });

  assert.deepEqual(nudge(run, { reader: 1, slot: 0 }, 0.5), { by: 0.5, predicted: 1.5, actual: 1.5 });
});

test("a central difference agrees with a right gradient", () => {
  const run = evaluate(parse("n = x1*w1 + x2*w2 + b; o = tanh(n)"), { x1: 2, w1: -3, x2: 0, w2: 1, b: 6.8813735870195432 });

  for (let node = 0; node < run.circuit.nodes.length; node++) assert.ok(check(run, { node }).agrees);
  for (const { reader, slot } of run.wires) assert.ok(check(run, { reader, slot }).agrees);
});

test("on a kink the sides differ and the kink is named", () => {
  const found = check(evaluate(parse("y = relu(x)"), { x: 0 }), { node: 0 });

  assert.deepEqual([found.left, found.right, found.gradient, found.agrees], [0, 1, 0, false]);
  assert.deepEqual(found.kinks, [{ node: 1, doc: "x = 0" }]);
});

test("the name that is meant is the one that Python names", () => {
  for (const [word, text] of golden.suggestions) assert.equal(suggest(word, callable), text, word);
});

test("a number comes back from its mantissa and exponent, products and sums with the bits of doubles", () => {
  const sizes = [0, -0, 1, -1, 0.1, 5e-324, -3e-310, 2.2250738585072014e-308, 1.7976931348623157e308, 1e-200, 1e200, Infinity, NaN];
  for (const x of sizes) {
    assert.equal(plain(scaled(x)), x);
    for (const y of [0.3, 7, -1e-5]) {
      assert.equal(plain(plus(scaled(x), scaled(y))), x + y);
      if (!(Math.abs(x) < 1e-300)) assert.equal(plain(times(scaled(x), scaled(y))), x * y);
    }
  }
});

test("a product outlives what doubles can hold", () => {
  const tiny = times(times(scaled(1e-200), scaled(1e-200)), scaled(1e300));

  assert.ok(Math.abs(plain(tiny) / 1e-100 - 1) < 1e-15);
  assert.equal(plain(times(scaled(1e200), scaled(-1e200))), -Infinity);
  assert.equal(plain(times(scaled(1e-200), scaled(1e-200))), 0);
});
