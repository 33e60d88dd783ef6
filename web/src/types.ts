/**
 * What the parts of the page hand to each other: circuits, runs, steps, layouts. Words mean what they mean in Python:
 * a node's inputs have smaller indices, a wire is its reader and input slot, absent (null) is stronger than 0.
 */

/** A number or condition on a wire; an array comes from Python as a summary. */
export type Scalar = number | boolean;

/** What is known of an array: its type and, up to a few, its numbers. */
export interface Summary {
  type: string;
  /** How a person reads it, such as `[1, 2, ..., 9]`. */
  text: string;
  /** The Euclidean norm, and how many elements are not finite. */
  norm: number;
  bad: number;
  /** What a picture shows of it behind its shape, such as `all 1` or its norm, and its sign: 0 is both. */
  short?: string;
  sign?: -1 | 0 | 1;
  detail?: Detail;
}

/** What a card shows of an array; numbers are texts where they are only shown. */
export interface Detail {
  shape: number[];
  zeros: number;
  nans: number;
  infs: number;
  /** The smallest and the largest finite element, each with its index. */
  low?: [string, string];
  high?: [string, string];
  /** Rows of a heat map, each cell the mean of `steps` elements; texts are NaN and infinities. */
  cells?: (number | string)[][];
  steps?: [number, number];
  /** How many finite elements are in each of equal parts between `edges`, and in which part 0 is. */
  counts?: number[];
  edges?: [string, string];
  zero_bin?: number;
  /** Where it is not finite, what the op did there, and the elements that it read. */
  where?: string;
  cause?: string;
  because?: string;
}

export type Value = Scalar | Summary;

export interface Place {
  file: string;
  line: number;
  /** From 1; 0 is unknown. */
  column: number;
  /** The line of code, where it was asked for, and the lines around it. */
  text?: string;
  lines?: readonly (readonly [number, string])[];
}

export interface CircuitNode {
  /** "input", "constant", "split", or an op of the table. */
  op: string;
  sources: number[];
  /** The first is shown; none: the node is shown by its title. */
  names: string[];
  /** What a node without a name is called: the source text that it is the result of, or what it computes. */
  title?: string;
  /** The source text of a node without a name, where it is short enough for a box. */
  source?: string;
  constant?: Value;
  /** How the node treats its kinks, as the byte that Python stores. */
  mode: number;
  place?: Place;
  /** Path of the groups around the node, like net/layer1; empty at the top. */
  group: string;
  /** Dtype and shape, as in float64 or float32[3,4]. */
  type: string;
  /** How the node is written where Python has more to say than the op's name: `sum(x, axes=(-1,))`. */
  text?: string;
  /** What its box says, where that is more than the op table can tell: `sum axis 0`. */
  caption?: string;
  /** Whether it only brings a constant to another shape, so that it is written inside its readers. */
  folded?: boolean;
}

export interface Circuit {
  name: string;
  nodes: CircuitNode[];
  outputs: { label: string; node: number }[];
}

export interface Wire {
  reader: number;
  slot: number;
  source: number;
}

/** A path that the picture lights: its wires, and the factor that stands beside each. */
export interface Lit {
  wires: readonly Wire[];
  factors: readonly string[];
}

/** What went along one wire: null is absent. `local` is null too where no single number is the derivative. */
export interface WireFlow extends Wire {
  local: Value | null;
  upstream: Value | null;
  sent: Value | null;
}

export interface Run {
  circuit: Circuit;
  values: Value[];
  /** The complete gradient of every node; null: none arrived. */
  grads: (Value | null)[];
  /** Every wire, by reader, then slot. */
  wires: WireFlow[];
  /** Where the wires of a node begin in `wires`; one more entry than nodes. */
  starts: number[];
  /** The inside of loops and branches, by node. */
  loops?: Record<number, Loop>;
}

/** The inside of a loop: its body, and what some of its steps computed. */
export interface Loop {
  /** How many steps it ran. */
  steps: number;
  /** Which of them are here, counted from 0, and the run of the body in each. */
  shown: number[];
  circuit: Circuit;
  runs: Run[];
}

export type Phase = "idle" | "forward" | "seed" | "backward" | "done";

/** One step: what becomes known, and the sentence that says so. */
export interface Step {
  phase: "forward" | "seed" | "backward";
  node: number;
  text: string;
}

/** Where a layout puts things; whole numbers, x to the right, y down. */
export interface Point {
  x: number;
  y: number;
}

/** A mistake in a formula, at a character. */
export interface Mistake {
  message: string;
  /** From 0, in UTF-16 units of the whole text. */
  offset: number;
}
