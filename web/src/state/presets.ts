/** The circuits of the preset menu. What the text says in numbers is computed from the run, never written down. */
import { nameOf, number } from "../engine";
import type { Run } from "../types";

export interface Preset {
  key: string;
  title: string;
  formula: string;
  leaves: Record<string, number>;
  /** What to look at, said about a run of this preset. */
  text: (told: Told) => string;
}

/** Looks numbers up in a run by the name of a node. */
export interface Told {
  value: (name: string) => string;
  grad: (name: string) => string;
}

/** Look numbers up in a run by name; a node that is not there reads "nothing". */
export function told(run: Run): Told {
  const at = new Map(run.circuit.nodes.map((_, node) => [nameOf(run.circuit, node), node]));
  const read = (list: Run["grads"]) => (name: string): string => {
    const value = list[at.get(name) ?? -1] ?? null;
    return value === null ? "nothing" : typeof value === "object" ? value.text : number(value);
  };
  return { value: read(run.values), grad: read(run.grads) };
}

const range = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);
const hidden = range(3).map((k) => `h${k} = tanh(x1*u${k} + x2*v${k} + b${k})`);
const chain = range(20).map((k) => `h${k} = tanh(${k === 1 ? "x" : `h${k - 1}`})`);

export const PRESETS: Preset[] = [
  {
    key: "expression",
    title: "Expression (a + b) × c",
    formula: "e = a + b; f = e * c",
    leaves: { a: 2, b: -3, c: 10 },
    text: ({ value, grad }) =>
      `A sum and a product. The product hands each input the other one's value: e receives ${grad("e")} and c receives ` +
      `${grad("c")}, the value of e being ${value("e")}. The sum passes ${grad("e")} on to both a and b.`,
  },
  {
    key: "fan-out",
    title: "Fan-out x·x + x",
    formula: "y = x*x + x",
    leaves: { x: 3 },
    text: ({ grad }) =>
      `x is read three times, so a splitter stands behind it. Backward it adds what its branches bring: ${grad("x")}.`,
  },
  {
    key: "neuron",
    title: "Neuron",
    formula: "n = x1*w1 + x2*w2 + b; o = tanh(n)",
    leaves: { x1: 2, w1: -3, x2: 0, w2: 1, b: 6.8813735870195432 },
    text: ({ value, grad }) =>
      `tanh squeezes ${value("n")} to ${value("o")} and lets ${grad("n")} of the gradient through. ` +
      `w2 receives ${grad("w2")} because x2 is ${value("x2")}: changing that weight changes nothing.`,
  },
  {
    key: "sigmoid",
    title: "Sigmoid, one op at a time",
    formula: "d = w0*x0 + w1*x1 + w2; m = -d; p = exp(m); q = 1 + p; L = 1 / q",
    leaves: { w0: 2, x0: -1, w1: -3, x1: -2, w2: -3 },
    text: ({ value, grad }) =>
      `The sigmoid of d = ${value("d")} written out as flat code. The four ops together do what sigmoid's own rule ` +
      `says: d receives L(1 − L) = ${grad("d")} with L = ${value("L")}.`,
  },
  {
    key: "router",
    title: "Router: maximum and relu",
    formula: "m = maximum(a, b); r = relu(c); y = 2*m + r",
    leaves: { a: 3, b: -1, c: -2 },
    text: ({ value, grad }) =>
      `maximum routes: a = ${value("a")} wins and receives ${grad("a")}, b receives ${grad("b")}. relu lets nothing ` +
      `back for c = ${value("c")}: it receives ${grad("c")}.`,
  },
  {
    key: "softmax",
    title: "Softmax cross-entropy, 3 classes",
    formula: "s = exp(z1) + exp(z2) + exp(z3); p = exp(z2) / s; L = -log(p)",
    leaves: { z1: 1, z2: 2, z3: 0.5 },
    text: ({ value, grad }) =>
      `Class 2 is right and has probability ${value("p")}; the loss is ${value("L")}. Each score receives its ` +
      `probability, less 1 for the right class: ${grad("z1")}, ${grad("z2")} and ${grad("z3")}, which add up to 0.`,
  },
  {
    key: "mlp",
    title: "Network 2-3-1",
    formula: `${hidden.join("; ")}; o = tanh(h1*w1 + h2*w2 + h3*w3 + c)`,
    leaves: {
      x1: 1, u1: 0.5, x2: -2, v1: 0.25, b1: 0.1, u2: -0.75, v2: 0.3, b2: 0, u3: 0.2, v3: -0.4, b3: -0.3,
      w1: 0.8, w2: -0.6, w3: 0.4, c: 0.1,
    },
    text: ({ value, grad }) =>
      `Three hidden neurons and one that reads them. The output is ${value("o")}; x1 feeds all three hidden neurons ` +
      `and adds what they bring back: ${grad("x1")}.`,
  },
  {
    key: "vanishing",
    title: "Vanishing chain, 20 × tanh",
    formula: chain.join("; "),
    leaves: { x: 2.5 },
    text: ({ grad }) =>
      `Every tanh multiplies the gradient by a number of at most 1. It starts as ${grad("h20")} at h20 and arrives ` +
      `at x as ${grad("x")}. The heat strip shows it fall.`,
  },
  {
    key: "nan",
    title: "NaN bug: log of 0",
    formula: "l = log(q); t = p * l; L = -t",
    leaves: { p: 0, q: 0 },
    text: ({ value, grad }) =>
      `p·log(q) should be 0 where p and q are 0, but log(q) is ${value("l")} and the product ${value("t")}. ` +
      `Backward, q receives ${grad("q")}. Press G to go to the op that did it.`,
  },
];

/** The preset of a key. */
export function presetOf(key: string): Preset | undefined {
  return PRESETS.find((preset) => preset.key === key);
}
