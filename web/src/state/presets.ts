/**
 * The examples. Each asks something first and tells the answer after the run; what the answer says in numbers is computed
 * from the run, never written down.
 */
import { nameOf, number } from "../engine";
import type { Run } from "../types";

export interface Preset {
  key: string;
  title: string;
  /** What its button says; an example without one is behind "more". */
  chip?: string;
  formula: string;
  leaves: Record<string, number>;
  /** What to ask oneself before the run; in all texts names stand between backticks. */
  question: string;
  /** What the run says to that. */
  answer: (told: Told) => string;
}

/** Looks numbers up in a run by the name of a node. */
export interface Told {
  value: (name: string) => string;
  grad: (name: string) => string;
  /** How the output moves when a node's value grows: "grows 10 times as fast as a". */
  move: (name: string) => string;
}

/** Look numbers up in a run by name; a node that is not there reads "nothing". */
export function told(run: Run): Told {
  const at = new Map(run.circuit.nodes.map((_, node) => [nameOf(run.circuit, node), node]));
  const find = (list: Run["grads"], name: string) => list[at.get(name) ?? -1] ?? null;
  const read = (list: Run["grads"]) => (name: string): string => {
    const value = find(list, name);
    return value === null ? "nothing" : typeof value === "object" ? value.text : number(value);
  };
  return { value: read(run.values), grad: read(run.grads), move: (name) => moves(Number(find(run.grads, name) ?? 0), name) };
}

function moves(slope: number, name: string): string {
  if (isNaN(slope)) return `cannot be told: the gradient of \`${name}\` is NaN`;
  if (!slope) return `does not change with \`${name}\``;
  const verb = slope > 0 ? "grows" : "falls";
  const size = number(Math.abs(slope));
  return `${verb} ${size === "1" ? "" : `${size} times `}as fast as \`${name}\` grows`;
}

/** What can be asked of any formula. */
export function questionOf(leaf: string, output: string): string {
  return `If \`${leaf}\` grows a little, does \`${output}\` grow or fall, and how fast?`;
}

const range = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);
const hidden = range(3).map((k) => `h${k} = tanh(x1*u${k} + x2*v${k} + b${k})`);
const chain = range(20).map((k) => `h${k} = tanh(${k === 1 ? "x" : `h${k - 1}`})`);

export const PRESETS: Preset[] = [
  {
    key: "expression",
    title: "Expression (a + b) × c",
    chip: "(a + b)*c",
    formula: "e = a + b; f = e * c",
    leaves: { a: 2, b: -3, c: 10 },
    question: questionOf("a", "f"),
    answer: ({ move, grad }) =>
      `\`f\` ${move("a")}: the product sends \`e\` the value of \`c\`, ${grad("e")}, and the sum passes it on`,
  },
  {
    key: "fan-out",
    title: "Fan-out x·x + x",
    chip: "x*x + x",
    formula: "y = x*x + x",
    leaves: { x: 3 },
    question: "`x` is read three times. How fast does `y` grow if `x` grows a little?",
    answer: ({ move, grad }) =>
      `\`y\` ${move("x")}: the splitter adds what its three branches bring, ${grad("x")} in all`,
  },
  {
    key: "neuron",
    title: "Neuron",
    chip: "Neuron",
    formula: "n = x1*w1 + x2*w2 + b; o = tanh(n)",
    leaves: { x1: 2, w1: -3, x2: 0, w2: 1, b: 6.8813735870195432 },
    question: "Which weight moves `o`, and which one does nothing here?",
    answer: ({ move, grad, value }) =>
      `\`o\` ${move("w1")}; \`w2\` receives ${grad("w2")} because \`x2\` is ${value("x2")}`,
  },
  {
    key: "sigmoid",
    title: "Sigmoid, one op at a time",
    formula: "d = w0*x0 + w1*x1 + w2; m = -d; p = exp(m); q = 1 + p; L = 1 / q",
    leaves: { w0: 2, x0: -1, w1: -3, x1: -2, w2: -3 },
    question: "A sigmoid in four small ops: is its gradient still `L`(1 − `L`)?",
    answer: ({ value, grad }) =>
      `Yes: \`d\` receives ${grad("d")}, and with \`L\` = ${value("L")} that is \`L\`(1 − \`L\`)`,
  },
  {
    key: "router",
    title: "Router: maximum and relu",
    formula: "m = maximum(a, b); r = relu(c); y = 2*m + r",
    leaves: { a: 3, b: -1, c: -2 },
    question: "Only one input wins the maximum. What do the others receive?",
    answer: ({ value, grad }) =>
      `\`a\` wins and receives ${grad("a")}, \`b\` receives ${grad("b")}; relu sends ${grad("c")} to \`c\`, which is ${value("c")}`,
  },
  {
    key: "softmax",
    title: "Softmax cross-entropy, 3 classes",
    chip: "Softmax",
    formula: "s = exp(z1) + exp(z2) + exp(z3); p = exp(z2) / s; L = -log(p)",
    leaves: { z1: 1, z2: 2, z3: 0.5 },
    question: "Class 2 is right. Which score has to grow for the loss to fall?",
    answer: ({ grad, value }) =>
      `\`z2\`, with ${grad("z2")}: its probability ${value("p")}, less 1. \`z1\` and \`z3\` receive theirs, ${grad("z1")} and ${grad("z3")}`,
  },
  {
    key: "mlp",
    title: "Network 2-3-1",
    chip: "Network 2-3-1",
    formula: `${hidden.join("; ")}; o = tanh(h1*w1 + h2*w2 + h3*w3 + c)`,
    leaves: {
      x1: 1, u1: 0.5, x2: -2, v1: 0.25, b1: 0.1, u2: -0.75, v2: 0.3, b2: 0, u3: 0.2, v3: -0.4, b3: -0.3,
      w1: 0.8, w2: -0.6, w3: 0.4, c: 0.1,
    },
    question: "`x1` feeds three neurons. If it grows a little, does `o` grow or fall?",
    answer: ({ move }) =>
      `\`o\` ${move("x1")}: \`x1\` adds what the three neurons send back`,
  },
  {
    key: "vanishing",
    title: "Vanishing chain, 20 × tanh",
    chip: "Vanishing chain",
    formula: chain.join("; "),
    leaves: { x: 2.5 },
    question: "Twenty times tanh: how much of the gradient is left at `x`?",
    answer: ({ grad }) =>
      `\`x\` receives ${grad("x")} of the ${grad("h20")} at \`h20\`: every tanh multiplies by less than 1`,
  },
  {
    key: "nan",
    title: "NaN bug: log of 0",
    chip: "NaN bug",
    formula: "l = log(q); t = p * l; L = -t",
    leaves: { p: 0, q: 0 },
    question: "`p`·log(`q`) should be 0 here. Is it?",
    answer: ({ value }) =>
      `No: log(\`q\`) is ${value("l")}, and ${value("p")} times that is ${value("t")}. Press G to see which op did it`,
  },
];

/** The preset of a key. */
export function presetOf(key: string): Preset | undefined {
  return PRESETS.find((preset) => preset.key === key);
}
