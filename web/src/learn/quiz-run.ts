/**
 * A circuit as a quiz sees it, one run of it on drawn leaves, and the random numbers that decide what is drawn. The twin
 * of `src/wiregrad/learn/quiz_run.py`: the same seed draws the same leaves, and numbers are written alike.
 */
import { active, evaluate, isSplitter, kinksOf, nameOf, number, opOf, titleOf, type OpRecord } from "../engine";
import { localOf } from "../engine/table";
import type { Circuit, Run, Scalar } from "../types";

/** A wire: the node that reads it, and the slot at which it does. */
export type Wire = readonly [number, number];
export type Leaves = Record<string, number>;

const GOLDEN = 0x9e3779b9;
const MAX_NAME = 24;
const PRODUCT = 2;
const SIGN = 3;
const SUM = 1;
/** Where leaves are drawn, in tenths, and whether they may be negative; attempts take turns. */
const LEAF_RANGES: readonly (readonly [number, number, boolean])[] = [
  [12, 37, true],
  [3, 19, true],
  [12, 37, false],
  [1, 9, false],
];
/** For how many draws of leaves a question waits for numbers that can be read, with no function flat. */
export const READABLE_ATTEMPTS = 24;
const SMALLEST = 1e-3;
const LARGEST = 1e3;
/** The local derivative below which a function is flat. */
const FLAT = 0.01;

/** Whether a number is neither tiny nor huge. */
export function hasPlainSize(x: number): boolean {
  return !x || (SMALLEST < Math.abs(x) && Math.abs(x) < LARGEST);
}

/** Leaves at which ops break: what a hunt for the first non-finite number draws from. */
export const BREAKING_LEAVES: readonly number[] = [0, -1, 0, 1000, 2, -2.5];

function scrambled(start: number): number {
  let word = start >>> 0;
  word ^= word >>> 16;
  word = Math.imul(word, 0x85ebca6b);
  word ^= word >>> 13;
  word = Math.imul(word, 0xc2b2ae35);
  return (word ^ (word >>> 16)) >>> 0;
}

/** A small generator of random integers that Python and the page share: 32-bit words of a scrambled counter. */
export class Draws {
  private state = 0;

  constructor(...parts: readonly number[]) {
    for (const part of parts) this.state = scrambled((this.state ^ part) + GOLDEN);
  }

  /** Draw an integer from 0 to below `count`. */
  below(count: number): number {
    this.state = (this.state + GOLDEN) >>> 0;
    return Math.floor((scrambled(this.state) * count) / 4294967296);
  }

  /** Draw one of some items. */
  choose<T>(items: readonly T[]): T {
    return items[this.below(items.length)]!;
  }

  /** The items in a drawn order. */
  shuffle<T>(items: readonly T[]): T[] {
    const mixed = [...items];
    for (let k = mixed.length - 1; k > 0; k--) {
      const other = this.below(k + 1);
      [mixed[k], mixed[other]] = [mixed[other]!, mixed[k]!];
    }
    return mixed;
  }
}

/** Write a number as the picture does: four significant digits, a long minus sign, no trailing zeros. */
export function showNumber(value: Scalar): string {
  if (typeof value === "boolean") return String(value);
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "Inf" : "−Inf";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size < 1e-3 ? value.toExponential(3) : number(value, size >= 1e4 && size < 99999.5 ? 5 : 4);
  const [mantissa, power] = text.split("e") as [string, string | undefined];
  if (power === undefined) return text.replaceAll("-", "−");
  const short = mantissa.includes(".") ? mantissa.replace(/0+$/, "").replace(/\.$/, "") : mantissa;
  return `${short}e${Number(power)}`.replaceAll("-", "−");
}

/** Write a number to stand behind a sign of arithmetic: a negative one in brackets. */
export function showFactor(value: number): string {
  const text = showNumber(value);
  return text.startsWith("−") ? `(${text})` : text;
}

/** Leave out the middle of a text that is too long. */
export function shortened(text: string, width = MAX_NAME): string {
  const letters = [...text];
  if (letters.length <= width) return text;
  const head = Math.floor((width - 1) / 2);
  return [...letters.slice(0, head), "…", ...letters.slice(head + 1 - width)].join("");
}

/** The part of a scalar circuit that questions are about: the nodes between its inputs and its only output. */
export class QuizCircuit {
  readonly root: number;
  readonly ops: (OpRecord | undefined)[];
  /** The nodes that each one reads, splitters looked through. */
  readonly sources: number[][];
  readonly active: boolean[];
  /** The nodes that the output depends on, splitters left out, in order. */
  readonly nodes: number[];
  readonly leaves: number[];
  readonly functions: number[];
  /** The wires along which a gradient can come back, by reader, then slot. */
  readonly wires: Wire[];
  /** The wires that read each node. */
  readonly readers: Wire[][];
  /** How many places the value of a node goes to, comparisons included. */
  readonly fan: number[];
  readonly inputs: string[];
  private readonly titles = new Map<number, string>();

  constructor(readonly circuit: Circuit) {
    const { nodes } = circuit;
    const origins: number[] = [];
    for (const [k, node] of nodes.entries()) origins.push(isSplitter(node) ? origins[node.sources[0]!]! : k);
    this.root = origins[circuit.outputs[0]!.node]!;
    this.ops = nodes.map(({ op }) => opOf(op));
    this.sources = nodes.map(({ sources }) => sources.map((source) => origins[source]!));
    this.active = active(circuit);
    this.nodes = this.cone();
    const inside = new Set(this.nodes);
    const inputs = nodes.flatMap(({ op }, k) => (op === "input" ? [k] : []));
    this.inputs = inputs.map((k) => nameOf(circuit, k));
    this.leaves = inputs.filter((k) => inside.has(k));
    this.functions = this.nodes.filter((k) => this.sources[k]!.length);
    this.wires = this.functions.flatMap((node) =>
      this.sources[node]!.flatMap((source, slot) => (this.active[node] && this.active[source] ? [[node, slot] as const] : [])),
    );
    this.readers = nodes.map(() => []);
    for (const wire of this.wires) this.readers[this.sourceOf(wire)]!.push(wire);
    this.fan = nodes.map(() => 0);
    for (const node of this.functions) for (const source of this.sources[node]!) this.fan[source]!++;
    for (const node of this.nodes) this.titles.set(node, shortened(this.writeTitle(node)));
  }

  private cone(): number[] {
    const inside = new Set([this.root]);
    for (let node = this.circuit.nodes.length - 1; node >= 0; node--) {
      if (inside.has(node)) for (const source of this.sources[node]!) inside.add(source);
    }
    return [...inside].sort((one, two) => one - two);
  }

  /** The node whose value goes along a wire. */
  sourceOf([node, slot]: Wire): number {
    return this.sources[node]![slot]!;
  }

  /** What a node is called in sentences; what a formula gave no name goes by what it computes. */
  title(node: number): string {
    return this.titles.get(node)!;
  }

  /** Whether a node passes gradients on in a certain way. */
  has(node: number, pattern: OpRecord["pattern"]): boolean {
    return this.ops[node]?.pattern === pattern;
  }

  /** Whether a node is a condition, which no question asks for. */
  isCondition(node: number): boolean {
    return this.circuit.nodes[node]!.type === "bool";
  }

  /** Whether a node has the name that a formula gives to what has none, such as t1. */
  private isTemporary(node: number): boolean {
    const { names, place } = this.circuit.nodes[node]!;
    return place?.file === "formula" && node !== this.root && /^t\d+$/.test(names[0] ?? "");
  }

  private writeTitle(node: number): string {
    const { names, constant } = this.circuit.nodes[node]!;
    if (names.length && !this.isTemporary(node)) return names[0]!;
    if (constant !== undefined && typeof constant !== "object") return showNumber(constant);
    return this.isTemporary(node) ? this.writeExpression(node) : titleOf(this.circuit, node);
  }

  private writeExpression(node: number): string {
    const op = this.ops[node]!;
    const parts = this.sources[node]!.map((source) => this.title(source));
    if (op.prefix) return op.prefix === "-" ? `−${this.wrapped(node, 0, parts[0]!)}` : `${op.prefix}${parts[0]}`;
    if (!op.infix.length || parts.length !== 2) return `${op.name}(${parts.join(", ")})`;
    const [left, right] = parts.map((text, slot) => this.wrapped(node, slot, text));
    const sign = ({ "*": "·", "-": "−", "**": "^" } as Record<string, string>)[op.infix[0]!] ?? op.infix[0];
    return op.level >= PRODUCT ? `${left}${sign}${right}` : `${left} ${sign} ${right}`;
  }

  /** Put an operand in brackets where it binds less than its reader. */
  private wrapped(node: number, slot: number, text: string): string {
    const source = this.sources[node]![slot]!;
    const [op, inner] = [this.ops[node]!, this.ops[source]];
    const own = op.prefix ? SIGN : op.level;
    if (text.startsWith("−") && (slot || own > SUM)) return `(${text})`;
    if (!this.isTemporary(source) || !inner?.infix.length) return text;
    return inner.level < own || (inner.level === own && slot === 1) ? `(${text})` : text;
  }

  /** Draw the leaves of a question; those that are fixed keep their value. */
  drawLeaves(draws: Draws, attempt: number, fixed: Readonly<Leaves>): Leaves {
    const [low, high, signed] = LEAF_RANGES[attempt % LEAF_RANGES.length]!;
    const leaves: Leaves = {};
    for (const name of this.inputs) {
      const size = (low + draws.below(high - low + 1)) / 10;
      const negative = signed && draws.below(2) === 0;
      leaves[name] = fixed[name] ?? (negative ? -size : size);
    }
    return leaves;
  }

  /** Run the circuit forward and backward. */
  run(leaves: Leaves): QuizRun {
    return new QuizRun(this, leaves, evaluate(this.circuit, leaves));
  }
}

/** What one run wrote on every node and wire of a quiz's circuit; null is absent. */
export class QuizRun {
  constructor(
    readonly owner: QuizCircuit,
    readonly leaves: Leaves,
    private readonly bare: Run,
  ) {}

  /** The value of a node, conditions as they are. */
  scalar(node: number): Scalar {
    return this.bare.values[node] as Scalar;
  }

  value(node: number): number {
    return Number(this.scalar(node));
  }

  /** The gradient that arrives at a node; 0 if none does. */
  upstream(node: number): number {
    return Number((this.bare.grads[node] as number | null) ?? 0);
  }

  /** What was sent back along a wire. */
  sent([node, slot]: Wire): number | null {
    return this.bare.wires[this.bare.starts[node]! + slot]!.sent as number | null;
  }

  /** The local derivative on a wire. */
  local([node, slot]: Wire): number | null {
    return this.bare.wires[this.bare.starts[node]! + slot]!.local as number | null;
  }

  /** The rule of a wire as if the node had given out another number. */
  localFrom([node, slot]: Wire, y: number): number | null {
    const inputs = this.owner.sources[node]!.map((source) => this.scalar(source));
    return localOf(this.owner.ops[node]!, this.owner.circuit.nodes[node]!.mode, slot, inputs, y);
  }

  /** Whether every number is finite and no node stands on a kink. */
  get isClean(): boolean {
    const { nodes, functions } = this.owner;
    const finite = nodes.every((node) => Number.isFinite(this.value(node)) && Number.isFinite(this.upstream(node)));
    return finite && !functions.some((node) => kinksOf(this.bare, node).some(({ jump }) => !jump));
  }

  /** Whether questions may be asked at this point: the first attempts want numbers that are not tiny, and no function flat. */
  isFit(attempt: number): boolean {
    return this.isClean && (attempt >= READABLE_ATTEMPTS || this.isReadable);
  }

  private get isReadable(): boolean {
    const { nodes, wires } = this.owner;
    const isFlat = (wire: Wire): boolean => {
      const slope = this.local(wire) ?? 1;
      return Math.abs(slope) < FLAT && (slope !== 0 || !this.owner.has(wire[0], "route"));
    };
    return nodes.every((node) => [this.value(node), this.upstream(node)].every(hasPlainSize)) && !wires.some(isFlat);
  }

  /** What a wire leads to: the reader, with the slot if it reads the same value twice. */
  readerOf(wire: Wire): string {
    const source = this.owner.sourceOf(wire);
    const title = this.owner.title(wire[0]);
    if (this.owner.sources[wire[0]]!.filter((node) => node === source).length < 2) return title;
    return `the ${["first", "second", "third"][wire[1]] ?? "last"} input of ${title}`;
  }
}
