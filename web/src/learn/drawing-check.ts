/**
 * Checks circuits that learners draw against a formula, and asks for the numbers on a right one. The twin of
 * `src/wiregrad/learn/drawing.py`, which says more.
 */
import { OPS, opOf, parse, type OpRecord } from "../engine";
import { judgeNumber, readAnswer, refuse, type Verdict } from "./answers";
import type { PredictedMistake } from "./mistakes";
import { NumericGenerator, POSERS, type Target } from "./questions";
import { Draws, QuizCircuit, shortened, showNumber, type Leaves, type QuizRun, type Wire } from "./quiz-run";
import { filled, mistakeWords, sentence, type Fields } from "./sentences";
import { NEUTRAL, PROMPTS } from "./sentences.generated";

export const LEAF = "input";
export const CONSTANT = "constant";
export const SPLITTER = "split";
export const OUTPUT = "output";
/** A graph of the function, which learners may take for its circuit; it has no ports. */
export const CURVE = "curve";
const SPECIAL_OPS: readonly string[] = [LEAF, CONSTANT, SPLITTER, OUTPUT, CURVE];
const MAX_READING = 48;
const OPEN = "□";
const MAX_EXERCISE_NODES = 40;
const LEAVES_SEED = 18;
const LEAF_DRAWS = 60;
const ATOM = 9;
const [SUM, PRODUCT, SIGN, POWER] = [1, 2, 3, 4];

/** The mistakes of a drawing, and which of the four checks each belongs to. */
export const CHECKS: Readonly<Record<string, number>> = {
  "vector-output": 0,
  "graph-vs-circuit": 0,
  "no-splitter": 1,
  "two-drivers": 1,
  "leaf-unknown": 2,
  "leaf-twice": 2,
  "leaf-missing": 2,
  "output-missing": 2,
  "output-twice": 2,
  cycle: 2,
  "open-input": 2,
  "splitter-without-need": 2,
  "loose-end": 2,
  "wrong-op": 3,
  "operands-swapped": 3,
  "other-grouping": 3,
  "not-in-formula": 3,
  "output-early": 3,
  "computed-twice": 3,
};

/** One box of a drawing: a leaf, a constant, an op, a splitter, the output, or a curve. */
export interface DrawnBox {
  id: string;
  op: string;
  name?: string;
  value?: number;
}

/** One wire of a drawing, from an output port of a box to an input slot of another. */
export interface DrawnWire {
  from: string;
  port: number;
  to: string;
  slot: number;
}

export interface Drawing {
  nodes: readonly DrawnBox[];
  wires: readonly DrawnWire[];
}

export interface DrawingMistake {
  key: string;
  title: string;
  text: string;
  boxes: string[];
  wires: number[];
}

export interface DrawingVerdict {
  right: boolean;
  mistakes: DrawingMistake[];
  /** What each op and the output compute, as far as they are wired. */
  readings: Record<string, string>;
  /** What boxes are called in sentences. */
  labels: Record<string, string>;
}

/** A formula that cannot be an exercise; the message says why. */
export class DrawingProblem extends Error {}

export const isSpecial = (op: string): boolean => SPECIAL_OPS.includes(op);

/** How many inputs a box has. */
export function slotsOf({ op }: DrawnBox): number {
  return isSpecial(op) ? Number(op === SPLITTER || op === OUTPUT) : opOf(op)!.inputs.length;
}

const hasOutput = ({ op }: DrawnBox): boolean => op !== OUTPUT && op !== CURVE;

const TRIED_PAIRS: readonly (readonly [number, number])[] = [[2.5, 0.75], [-1.25, 0.5], [0.5, -3], [-2, -0.375]];

const applied = (op: OpRecord, a: number, b: number): number => Number((op.forward as (...xs: number[]) => number)(a, b));
const isClose = (one: number, two: number): boolean => Math.abs(one - two) <= 1e-12 * Math.max(1, Math.abs(one));

function isCommutative(op: OpRecord): boolean {
  if (op.inputs.length !== 2 || op.takesBool.some(Boolean)) return false;
  return TRIED_PAIRS.every(([a, b]) => isClose(applied(op, a, b), applied(op, b, a)));
}

function isAssociative(op: OpRecord): boolean {
  return isCommutative(op) && TRIED_PAIRS.every(([a, b]) => isClose(applied(op, applied(op, a, b), 1.5), applied(op, a, applied(op, b, 1.5))));
}

const COMMUTATIVE = new Set(OPS.filter(isCommutative).map(({ name }) => name));
const ASSOCIATIVE = new Set(OPS.filter(isAssociative).map(({ name }) => name));

const sorted = (numbers: readonly number[]): number[] => [...numbers].sort((one, two) => one - two);

type Described = readonly [op: string, name: string, value: number | null];

/** Numbers the terms of boxes and nodes: two of them compute the same if they have one number. */
class TermTable {
  private readonly numbers = new Map<string, number>();
  private readonly flat = new Map<number, readonly [string, number[]]>();

  number([op, name, value]: Described, sources: readonly number[]): number {
    const key = JSON.stringify([op, name, value, ...(COMMUTATIVE.has(op) ? sorted(sources) : sources)]);
    const known = this.numbers.get(key) ?? this.numbers.size;
    this.numbers.set(key, known);
    return known;
  }

  /** The number of a term in which chains of one op are flat: `a*(b*c)` is `(a*b)*c`. */
  flatNumber(described: Described, sources: readonly number[]): number {
    const [op] = described;
    if (!ASSOCIATIVE.has(op)) return this.number(described, sources);
    const parts = sources.flatMap((source) => {
      const inner = this.flat.get(source);
      return inner?.[0] === op ? inner[1] : [source];
    });
    const number = this.number(described, sorted(parts));
    this.flat.set(number, [op, sorted(parts)]);
    return number;
  }
}

/** The formula of an exercise: its circuit, and which node computes which term. */
export class DrawingFormula {
  readonly owner: QuizCircuit;
  readonly terms = new TermTable();
  readonly numbers = new Map<number, number>();
  /** The first node that computes a term. */
  readonly nodes = new Map<number, number>();
  readonly flatRoot: number;

  constructor(readonly text: string) {
    this.owner = new QuizCircuit(parse(text));
    const { owner } = this;
    if (!owner.functions.length || owner.nodes.length > MAX_EXERCISE_NODES) {
      throw new DrawingProblem(`the formula of a drawing has 1 to ${MAX_EXERCISE_NODES} nodes`);
    }
    const flat = new Map<number, number>();
    for (const node of owner.nodes) {
      const described = this.describe(node);
      const sources = owner.sources[node]!;
      const number = this.terms.number(described, sources.map((source) => this.numbers.get(source)!));
      this.numbers.set(node, number);
      flat.set(node, this.terms.flatNumber(described, sources.map((source) => flat.get(source)!)));
      if (this.nodes.has(number) && sources.length) {
        throw new DrawingProblem(`the formula computes ${owner.title(node)} twice; give it a name and use that`);
      }
      if (!this.nodes.has(number)) this.nodes.set(number, node);
    }
    this.flatRoot = flat.get(owner.root)!;
  }

  private describe(node: number): Described {
    const { constant, names, sources, op } = this.owner.circuit.nodes[node]!;
    if (constant !== undefined) return [CONSTANT, "", Number(constant)];
    return sources.length ? [opOf(op)!.name, "", null] : [LEAF, names[0]!, null];
  }

  get output(): string {
    return this.owner.title(this.owner.root);
  }

  get leafNames(): string[] {
    return this.owner.leaves.map((node) => this.owner.circuit.nodes[node]!.names[0]!);
  }

  /** The boxes that a drawing begins with: leaves, constants and the output. */
  startingBoxes(): DrawnBox[] {
    const given = this.owner.nodes.filter((node) => !this.owner.sources[node]!.length);
    const boxes = given.map((node): DrawnBox => {
      const [op, name, value] = this.describe(node);
      return { id: String(node), op, ...(op === LEAF ? { name } : {}), ...(value === null ? {} : { value }) };
    });
    return [...boxes, { id: "out", op: OUTPUT }];
  }

  /** The ops that the formula is made of. */
  get ops(): string[] {
    return [...new Set(this.owner.functions.map((node) => this.describe(node)[0]))];
  }
}

const ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];
const BOX_SIGNS: Readonly<Record<string, string>> = { "*": "×", "-": "−", "/": "÷", "**": "^" };
const READ_SIGNS: Readonly<Record<string, string>> = { "*": "·", "-": "−", "**": "^" };

/** What the box of an op says: its sign, or its name. */
export function showOp(name: string): string {
  const op = opOf(name)!;
  return op.infix.length ? (BOX_SIGNS[op.infix[0]!] ?? op.infix[0]!) : op.name;
}

type Read = readonly [text: string, level: number];

function wrapped([text, own]: Read, level: number, slot: number): string {
  const isSigned = text.startsWith("−") && (slot > 0 || level > SUM!);
  const isLoose = own < level || (own === level && (slot === 1 || level === POWER));
  return isSigned || isLoose ? `(${text})` : text;
}

function written(name: string, parts: readonly Read[]): Read {
  const op = opOf(name)!;
  if (op.prefix) return [`${op.prefix === "-" ? "−" : op.prefix}${wrapped(parts[0]!, SIGN!, 0)}`, SIGN!];
  if (!op.infix.length || parts.length !== 2) return [`${op.name}(${parts.map(([text]) => text).join(", ")})`, ATOM];
  const [left, right] = parts.map((part, slot) => wrapped(part, op.level, slot));
  const sign = READ_SIGNS[op.infix[0]!] ?? op.infix[0]!;
  return [op.level >= PRODUCT! ? `${left}${sign}${right}` : `${left} ${sign} ${right}`, op.level];
}

function joined(parts: readonly string[]): string {
  return parts.length === 1 ? parts[0]! : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}

/** Looks for the mistakes in one drawing. */
class DrawingCheck {
  readonly boxes: Map<string, DrawnBox>;
  readonly labels: Record<string, string>;
  order: string[] = [];
  private readonly incoming = new Map<string, number[]>();
  private readonly outgoing = new Map<string, number[]>();
  private readonly mistakes: DrawingMistake[] = [];

  constructor(
    readonly formula: DrawingFormula,
    readonly drawing: Drawing,
  ) {
    this.boxes = new Map(drawing.nodes.map((box) => [box.id, box]));
    for (const [k, { from, port, to, slot }] of drawing.wires.entries()) {
      for (const [map, key] of [[this.incoming, `${to} ${slot}`], [this.outgoing, `${from} ${port}`]] as const) {
        map.set(key, [...(map.get(key) ?? []), k]);
      }
    }
    this.labels = this.writeLabels();
  }

  private writeLabels(): Record<string, string> {
    const plain = this.drawing.nodes.map((box) => this.labelOf(box));
    return Object.fromEntries(
      this.drawing.nodes.map((box, at) => {
        const label = plain[at]!;
        const same = plain.flatMap((other, k) => (other === label ? [k] : []));
        const k = same.indexOf(at);
        return [box.id, same.length > 1 && box.op !== LEAF ? `${ORDINALS[k] ?? `${k + 1}th`} ${label}` : label];
      }),
    );
  }

  private labelOf({ op, name, value }: DrawnBox): string {
    if (op === LEAF) return name!;
    if (op === CONSTANT) return showNumber(value!);
    if (op === OUTPUT) return `output ${this.formula.output}`;
    return op === SPLITTER ? "splitter" : op === CURVE ? "curve" : showOp(op);
  }

  judge(): DrawingVerdict {
    this.findShapes();
    this.findLeaves();
    this.order = this.orderBoxes();
    this.findOpen();
    if (!this.mistakes.length) this.compare();
    const ranks = Object.keys(CHECKS);
    const mistakes = this.mistakes.sort((one, two) => ranks.indexOf(one.key) - ranks.indexOf(two.key));
    return { right: !mistakes.length, mistakes, readings: this.readBack(), labels: this.labels };
  }

  private add(key: string, boxes: readonly string[] = [], wires: readonly number[] = [], fields: Fields = {}): void {
    const words = { node: boxes.length ? this.labels[boxes[0]!]! : "", output: this.formula.output, ...fields };
    this.mistakes.push({ key, ...mistakeWords("draw", key, words), boxes: [...boxes], wires: [...wires] });
  }

  private findShapes(): void {
    for (const { id, op } of this.drawing.nodes) {
      if (op === CURVE) this.add("graph-vs-circuit", [id]);
      else if (op !== SPLITTER && this.outgoing.has(`${id} 1`)) this.add("vector-output", [id], this.outgoing.get(`${id} 1`));
    }
    for (const wires of this.outgoing.values()) {
      if (wires.length < 2) continue;
      const readers = wires.map((k) => this.labels[this.drawing.wires[k]!.to]!);
      const fields = { readers: joined(readers.map((reader, k) => (k ? `to ${reader}` : reader))) };
      this.add("no-splitter", [this.drawing.wires[wires[0]!]!.from], wires, fields);
    }
    for (const wires of this.incoming.values()) {
      if (wires.length > 1) this.add("two-drivers", [this.drawing.wires[wires[0]!]!.to], wires);
    }
  }

  private findLeaves(): void {
    const names = this.formula.leafNames;
    const drawn = new Map<string, string>();
    for (const { id, op, name } of this.drawing.nodes) {
      if (op !== LEAF) continue;
      if (!names.includes(name!)) this.add("leaf-unknown", [id]);
      else if (drawn.has(name!)) this.add("leaf-twice", [drawn.get(name!)!, id]);
      if (!drawn.has(name!)) drawn.set(name!, id);
    }
    for (const name of names) if (!drawn.has(name)) this.add("leaf-missing", [], [], { node: name });
    const outputs = this.drawing.nodes.filter(({ op }) => op === OUTPUT).map(({ id }) => id);
    if (!outputs.length) this.add("output-missing");
    if (outputs.length > 1) this.add("output-twice", outputs);
  }

  private orderBoxes(): string[] {
    const { wires } = this.drawing;
    const waiting = new Map([...this.boxes.keys()].map((id) => [id, wires.filter(({ to }) => to === id).length]));
    const order = [...this.boxes.keys()].filter((id) => !waiting.get(id));
    for (const id of order) {
      for (const { from, to } of wires) {
        if (from !== id) continue;
        waiting.set(to, waiting.get(to)! - 1);
        if (!waiting.get(to)) order.push(to);
      }
    }
    const rest = [...this.boxes.keys()].filter((id) => waiting.get(id));
    if (rest.length) {
      const cycle = this.findCycle(rest);
      const inside = wires.flatMap(({ from, to }, k) => (cycle.includes(from) && cycle.includes(to) ? [k] : []));
      this.add("cycle", cycle, inside);
    }
    return order;
  }

  private findCycle(rest: readonly string[]): string[] {
    const path = [rest[0]!];
    for (;;) {
      const before = this.drawing.wires.find(({ from, to }) => to === path.at(-1) && rest.includes(from))!.from;
      if (path.includes(before)) return path.slice(path.indexOf(before));
      path.push(before);
    }
  }

  private findOpen(): void {
    for (const box of this.drawing.nodes) {
      const slots = Array.from({ length: slotsOf(box) }, (_, slot) => slot);
      if (slots.some((slot) => !this.incoming.has(`${box.id} ${slot}`))) this.add("open-input", [box.id]);
    }
    for (const box of this.drawing.nodes) {
      const read = [0, 1].filter((port) => this.outgoing.has(`${box.id} ${port}`)).length;
      if (box.op === SPLITTER && read === 1) this.add("splitter-without-need", [box.id]);
      else if (hasOutput(box) && !read) this.add("loose-end", [box.id]);
    }
  }

  /** The boxes that a box reads, splitters looked through; null for an open input. */
  private sourcesOf(id: string): (string | null)[] {
    return Array.from({ length: slotsOf(this.boxes.get(id)!) }, (_, slot) => this.originOf(id, slot));
  }

  private originOf(start: string, first: number): string | null {
    let [id, slot] = [start, first];
    for (let k = 0; k <= this.boxes.size; k++) {
      const wires = this.incoming.get(`${id} ${slot}`);
      if (!wires) return null;
      [id, slot] = [this.drawing.wires[wires[0]!]!.from, 0];
      if (this.boxes.get(id)!.op !== SPLITTER) return id;
    }
    return null;
  }

  /** The terms of the boxes of a sound drawing, splitters and the output included. */
  numberBoxes(flat = false): Map<string, number> {
    const numbers = new Map<string, number>();
    const { terms } = this.formula;
    for (const id of this.order) {
      const { op, name, value } = this.boxes.get(id)!;
      const sources = this.sourcesOf(id).map((source) => numbers.get(source!)!);
      const described: Described = [op, op === LEAF ? name! : "", op === CONSTANT ? value! : null];
      if (op === SPLITTER || op === OUTPUT) numbers.set(id, sources[0]!);
      else numbers.set(id, flat ? terms.flatNumber(described, sources) : terms.number(described, sources));
    }
    return numbers;
  }

  private compare(): void {
    const { formula } = this;
    const numbers = this.numberBoxes();
    const functions = this.order.filter((id) => !isSpecial(this.boxes.get(id)!.op));
    const end = this.order.find((id) => this.boxes.get(id)!.op === OUTPUT)!;
    const first = functions.find((id) => !formula.nodes.has(numbers.get(id)!));
    const readings = this.readBack();
    if (first !== undefined) {
      const isRegrouped = this.numberBoxes(true).get(end) === formula.flatRoot;
      if (isRegrouped) this.add("other-grouping", [first], [], { reading: readings[first]! });
      else this.explainDifference(first, numbers, readings[first]!);
    } else if (numbers.get(end) !== formula.numbers.get(formula.owner.root)) {
      this.add("output-early", [end], [], { reading: readings[end]! });
    }
    const seen = new Map<number, string>();
    for (const id of functions) {
      const number = numbers.get(id)!;
      if (seen.has(number)) this.add("computed-twice", [seen.get(number)!, id], [], { reading: readings[id]! });
      else seen.set(number, id);
    }
  }

  private explainDifference(id: string, numbers: ReadonlyMap<string, number>, reading: string): void {
    const { owner } = this.formula;
    const drawn = sorted(this.sourcesOf(id).map((source) => numbers.get(source!)!));
    const node = owner.functions.find((node) => {
      const wanted = sorted(owner.sources[node]!.map((source) => this.formula.numbers.get(source)!));
      return wanted.length === drawn.length && wanted.every((number, k) => number === drawn[k]);
    });
    if (node === undefined) return this.add("not-in-formula", [id], [], { reading });
    const isSameOp = owner.ops[node]!.name === this.boxes.get(id)!.op;
    this.add(isSameOp ? "operands-swapped" : "wrong-op", [id], [], { reading, title: owner.title(node) });
  }

  private readBack(): Record<string, string> {
    const texts = new Map<string, Read>();
    const rest = [...this.boxes.keys()].filter((id) => !this.order.includes(id));
    for (const id of [...this.order, ...rest]) {
      const box = this.boxes.get(id)!;
      const parts = this.sourcesOf(id).map((source): Read => (source === null ? [OPEN, ATOM] : (texts.get(source) ?? ["…", ATOM])));
      if (box.op === LEAF || box.op === CONSTANT) texts.set(id, [this.labelOf(box), ATOM]);
      else if (box.op === SPLITTER || box.op === OUTPUT) texts.set(id, parts[0]!);
      else if (box.op !== CURVE) texts.set(id, written(box.op, parts));
    }
    const shown = this.drawing.nodes.filter(({ op }) => ![LEAF, CONSTANT, SPLITTER, CURVE].includes(op));
    return Object.fromEntries(shown.map(({ id }) => [id, shortened(texts.get(id)![0], MAX_READING)]));
  }
}

/** Check a drawing against a formula; name what is not right. */
export function checkDrawing(formula: DrawingFormula, drawing: Drawing): DrawingVerdict {
  return new DrawingCheck(formula, drawing).judge();
}

/** A number that is asked for on a right drawing: the value of a box, or the gradient on a wire. */
export interface NumberSlot {
  kind: "value" | "gradient";
  box: string;
  wire: number | null;
  prompt: string;
  answer: number;
  mistakes: readonly PredictedMistake[];
  neutral: string;
}

type AskedSlot = Pick<NumberSlot, "kind" | "box" | "wire" | "answer">;

/** Asks for the numbers on a right drawing: values from left to right, then gradients from right to left. */
export class DrawingNumbers {
  readonly run: QuizRun;
  readonly slots: NumberSlot[];
  private readonly drawn: DrawingCheck;
  private readonly numbers: Map<string, number>;

  constructor(
    readonly formula: DrawingFormula,
    readonly drawing: Drawing,
  ) {
    this.drawn = new DrawingCheck(formula, drawing);
    if (!this.drawn.judge().right) throw new DrawingProblem("numbers are asked for on a drawing that is right");
    this.run = chooseLeaves(formula.owner);
    this.numbers = this.drawn.numberBoxes();
    this.slots = [...this.askValues(), ...this.askGradients()];
  }

  get leaves(): Leaves {
    return this.run.leaves;
  }

  /** The node of the formula that a box stands for. */
  nodeOf(id: string): number {
    return this.formula.nodes.get(this.numbers.get(id)!)!;
  }

  private askValues(): NumberSlot[] {
    const functions = this.drawn.order.filter((id) => !isSpecial(this.drawn.boxes.get(id)!.op));
    return functions.map((box) => {
      const node = this.nodeOf(box);
      const words = { node: this.formula.owner.title(node) };
      return this.ask({ kind: "value", box, wire: null, answer: this.run.value(node) }, "value", "value", words, [node]);
    });
  }

  /** Ask for a number; mistakes are predicted, where a question of a quiz about the target would predict them. */
  private ask(slot: AskedSlot, prompt: string, neutral: string, words: Fields, target: Target | null = null): NumberSlot {
    const posed = target && POSERS[prompt]!(this.run, target);
    const mistakes = (posed && new NumericGenerator(this.formula.owner, prompt).filtered(posed, target, true)) ?? [];
    const hint = posed?.neutral ?? filled(sentence(NEUTRAL, neutral), words);
    return { ...slot, prompt: filled(sentence(PROMPTS, prompt), words), mistakes, neutral: hint };
  }

  private askGradients(): NumberSlot[] {
    const { wires } = this.drawing;
    const isAsked = (from: string): boolean => this.formula.owner.active[this.nodeOf(from)]!;
    return [...this.drawn.order].reverse().flatMap((id) =>
      wires.flatMap((wire, k) => (wire.to === id && isAsked(wire.from) ? [this.askGradient(k, wire)] : [])),
    );
  }

  private askGradient(k: number, wire: DrawnWire): NumberSlot {
    const { run, drawn } = this;
    const { owner } = this.formula;
    const node = this.nodeOf(wire.from);
    const words = { node: owner.title(node), source: owner.title(node), output: this.formula.output };
    const slot = { kind: "gradient", box: wire.to, wire: k } as const;
    const { op } = drawn.boxes.get(wire.to)!;
    if (op === OUTPUT) return this.ask({ ...slot, answer: 1 }, "draw.seed", "draw.seed", words);
    if (op === SPLITTER) {
      const isFirst = drawn.boxes.get(wire.from)!.op !== SPLITTER;
      const asked = { ...slot, answer: this.sumBranches(wire.to) };
      return this.ask(asked, isFirst ? "gather" : "draw.partial", "draw.partial", words, isFirst ? [node] : null);
    }
    const target = this.targetOf(wire);
    return this.ask({ ...slot, answer: run.sent(target) ?? 0 }, "send", "send", { ...words, node: owner.title(target[0]) }, target);
  }

  /** The wire of the formula that a drawn wire into an op stands for. */
  private targetOf({ from, to, slot }: DrawnWire): Wire {
    const node = this.nodeOf(to);
    const numbers = this.formula.owner.sources[node]!.map((source) => this.formula.numbers.get(source)!);
    const number = this.numbers.get(from)!;
    return [node, numbers[slot] === number ? slot : numbers.indexOf(number)];
  }

  private sumBranches(id: string): number {
    let total = 0;
    const waiting = [id];
    for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
      for (const wire of this.drawing.wires) {
        if (wire.from !== at) continue;
        const { op } = this.drawn.boxes.get(wire.to)!;
        if (op === SPLITTER) waiting.push(wire.to);
        else total += op === OUTPUT ? 1 : (this.run.sent(this.targetOf(wire)) ?? 0);
      }
    }
    return total;
  }

  /** The verdict on a number; a mistake is named as in a quiz. */
  check(slot: number, answer: string): Verdict {
    const { answer: wanted, mistakes, neutral } = this.slots[slot]!;
    const read = readAnswer(answer);
    return read.number === null ? refuse(read.problem) : judgeNumber(read.number, [wanted], mistakes, neutral);
  }
}

/** Draw the leaves of a drawing: ordinary numbers everywhere, and a gradient at each leaf. */
function chooseLeaves(owner: QuizCircuit): QuizRun {
  const draws = new Draws(LEAVES_SEED, owner.nodes.length);
  for (let attempt = 0; attempt < LEAF_DRAWS; attempt++) {
    const run = owner.run(owner.drawLeaves(draws, attempt, {}));
    const numbers = [...owner.functions.map((node) => run.value(node)), ...owner.leaves.map((node) => run.upstream(node))];
    if (run.isClean && numbers.every((number) => Math.abs(number) > 1e-2 && Math.abs(number) < 1e3)) return run;
  }
  throw new DrawingProblem("no leaves were found at which every value and every gradient is an ordinary number");
}
