// The engine beside Python: golden circuits, mistakes and numbers, written by `make derive`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { evaluate, exact, FormulaMistake, isRunnable, operand, parse, parseWithNotes, short, split, steps } from "../src/engine";
import { OPS } from "../src/engine/ops.generated";
import { localOf, compute, opOf } from "../src/engine/table";
import type { Circuit, Run, Scalar } from "../src/types";
import { ascii, decoded, given, golden, numbers, type Golden } from "./golden";

const FOUR_ULPS = 4 * Number.EPSILON;
/** Slopes in which two terms nearly cancel, so that the last digits of both show. */
const CANCELLING = 256 * Number.EPSILON;

function near(one: Scalar | null, two: Scalar | null, tolerance: number): boolean {
  if (typeof one !== "number" || typeof two !== "number") return one === two;
  if (Object.is(one, two) || one === two) return true;
  // Below the smallest normal number a unit in the last place is no smaller.
  return Math.abs(one - two) <= tolerance * Math.max(Math.abs(one), Math.abs(two)) + 4 * Number.MIN_VALUE;
}

/** Whether numbers agree but for what a few digits lost on the way can do, as where a tanh saturates. */
function isClose(one: Scalar | null, two: Scalar | null): boolean {
  const small = typeof one === "number" && typeof two === "number" && Math.abs(one - two) < 1e-9;
  return small || near(one, two, 1e-9);
}

function check(entries: readonly Golden[], one: (entry: Golden) => void): void {
  for (const entry of entries) {
    try {
      one(entry);
    } catch (error) {
      throw new Error(`${JSON.stringify(entry.formula)} at ${JSON.stringify(entry.leaves)}`, { cause: error });
    }
  }
}

function numbersOf(run: Run): unknown {
  return { values: run.values, grads: run.grads, wires: run.wires.map(({ local, sent }) => [local, sent]) };
}

test("there are enough golden circuits, and they have every op", () => {
  const used = new Set(golden.circuits.flatMap(({ circuit }) => circuit.nodes.map(({ op }) => op)));

  assert.ok(golden.circuits.length >= 300);
  assert.ok(golden.mistakes.length >= 60);
  assert.deepEqual([...used].sort(), [...OPS.map(({ name }) => name), "input", "constant"].sort());
});

test("a formula makes the circuit that Python makes", () => {
  check(golden.circuits, ({ formula, circuit }) => assert.deepEqual(parse(formula), circuit));
});

test("every circuit of a formula can be run in the page", () => {
  check(golden.circuits, ({ circuit }) => assert.ok(isRunnable(circuit)));
});

test("splitters stand where Python puts them", () => {
  const entries = golden.circuits.filter((entry) => entry.split);

  assert.ok(entries.length > 50);
  check(entries, (entry) => assert.deepEqual(split(parse(entry.formula)), entry.split!.circuit));
});

test("a run of exactly rounded ops has Python's bits", () => {
  const entries = golden.circuits.filter((entry) => entry.exact);

  assert.ok(entries.length > 200);
  check(entries, (entry) => {
    assert.deepEqual(numbersOf(evaluate(entry.circuit, decoded(entry.leaves))), numbersOf(given(entry)));
  });
});

test("a circuit without a formula, or with several outputs, runs as in Python", () => {
  const entries = golden.built.filter((entry) => entry.exact);

  assert.ok(entries.length >= 3);
  check(entries, (entry) => {
    const circuit = decoded(entry.circuit);
    assert.deepEqual(numbersOf(evaluate(circuit, decoded(entry.leaves))), numbersOf(given(entry)));
  });
});

test("every node computes Python's value within 4 ulp from Python's inputs", () => {
  check(golden.circuits, (entry) => {
    const run = given(entry);
    entry.circuit.nodes.forEach(({ op, sources, type }, node) => {
      if (!sources.length) return;
      const found = compute(opOf(op)!, type, sources.map((source) => run.values[source] as Scalar));
      assert.ok(near(found, run.values[node] as Scalar, FOUR_ULPS), `${op} gave ${found}, not ${run.values[node]}`);
    });
  });
});

test("every wire has Python's local derivative, and is absent where Python's is", () => {
  check(golden.circuits, (entry) => {
    const run = given(entry);
    for (const { reader, slot, source, local } of run.wires) {
      if (entry.circuit.nodes[source]!.type === "bool") continue;
      const { op, sources, mode } = entry.circuit.nodes[reader]!;
      const inputs = sources.map((from) => run.values[from] as Scalar);
      const found = localOf(opOf(op)!, mode, slot, inputs, run.values[reader] as Scalar);
      const tolerance = op === "gelu" || op === "silu" || op === "sinc" ? CANCELLING : FOUR_ULPS;
      assert.ok(near(found, local as Scalar | null, tolerance), `${op} input ${slot}: ${found}, not ${local}`);
    }
  });
});

test("a whole run is near Python's, with the same absences", () => {
  check(golden.circuits, (entry) => {
    const [mine, python] = [evaluate(entry.circuit, decoded(entry.leaves)), given(entry)];
    mine.values.forEach((value, node) => assert.ok(isClose(value as Scalar, python.values[node] as Scalar), `value of ${node}`));
    mine.grads.forEach((grad, node) => assert.ok(isClose(grad as Scalar, python.grads[node] as Scalar), `gradient of ${node}`));
  });
});

test("steps are told in Python's sentences", () => {
  check(golden.circuits, (entry) => {
    assert.deepEqual(steps(given(entry)).map(({ phase, text }) => ascii(`${phase}: ${text}`)), entry.steps);
  });
});

test("steps of a split circuit are told in Python's sentences", () => {
  const entries = golden.circuits.filter((entry) => entry.split && entry.exact);

  assert.ok(entries.length > 20);
  check(entries, (entry) => {
    const run = evaluate(split(parse(entry.formula)), decoded(entry.leaves));
    assert.deepEqual(steps(run).map(({ text }) => ascii(text)), entry.split!.steps);
  });
});

test("a mistake has Python's message and place", () => {
  for (const { text, times, end, message, offset } of golden.mistakes) {
    const whole = text.repeat(times ?? 1) + (end ?? "");
    assert.throws(
      () => parse(whole),
      (error) => error instanceof FormulaMistake && assert.deepEqual([error.message, error.offset], [message, offset]) === undefined,
      JSON.stringify(text.slice(0, 80)),
    );
  }
});

test("formulas as people write them, and random texts, are read as Python reads them", () => {
  const circuits = golden.readings.filter(({ circuit }) => circuit);

  assert.ok(circuits.length > 100);
  for (const { text, circuit, notes, mistake } of golden.readings) {
    const found = readingOf(text);
    assert.deepEqual(found, mistake ? { mistake } : { circuit, notes }, JSON.stringify(text));
  }
});

/** What a text means, as the golden file has it. */
function readingOf(text: string): unknown {
  try {
    const { circuit, notes } = parseWithNotes(text);
    return { circuit, notes: notes.map(({ kind, message, offset }) => [kind, message, offset]) };
  } catch (error) {
    if (!(error instanceof FormulaMistake)) throw error;
    return { mistake: [error.message, error.offset] };
  }
}

test("long formulas without signs are read in a moment", () => {
  for (const text of ["2(".repeat(99) + "x" + ")".repeat(99), "(x)".repeat(3333), "|x|".repeat(3333), "√".repeat(9999) + "x"]) {
    const start = process.cpuUsage();
    parse(text);
    // Processor time, which other work on the machine does not stretch.
    assert.ok(process.cpuUsage(start).user < 2e6, text.slice(0, 20));
  }
});

test("numbers are written as Python writes them", () => {
  for (const [value, people, whole] of golden.numbers) {
    assert.deepEqual([short(decoded(value)), exact(decoded(value))], [people, whole]);
  }
});

test("numbers are shown as the golden file of both languages says", () => {
  for (const [text, people, factor] of numbers) {
    const value = text === "true" || text === "false" ? text === "true" : Number(text.replace("inf", "Infinity"));
    assert.deepEqual([short(value), operand(value)], [people, factor], text);
  }
});

test("an op that a library of Python computes is refused by name", () => {
  assert.throws(() => parse("1 + gammaln(x)"), /gammaln is computed by scipy, which the page does not have/);
});

test("what a leaf misses is said", () => {
  assert.throws(() => evaluate(parse("a * b"), { a: 1 }), /no value for b/);
});

test("a name that every object has is a name like others", () => {
  const run = evaluate(parse("__proto__ * constructor + toString"), JSON.parse('{"__proto__": 2, "constructor": 3, "toString": 1}'));

  assert.equal(run.values.at(-1), 7);
});

test("a circuit of arrays cannot be run in the page", () => {
  const circuit: Circuit = {
    name: "y",
    nodes: [
      { op: "input", sources: [], names: ["x"], mode: 0, group: "", type: "float64[3]" },
      { op: "sum", sources: [0], names: ["y"], mode: 0, group: "", type: "float64", text: "sum(x)" },
    ],
    outputs: [{ label: "y", node: 1 }],
  };

  assert.equal(isRunnable(circuit), false);
  assert.throws(() => evaluate(circuit, { x: 1 }), /only Python can compute it/);
});
