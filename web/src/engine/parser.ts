/**
 * Formulas as text: `e = a + b; f = e * c`. The same grammar, names, places, limits and messages as in
 * `src/wiregrad/frontends/formula.py`.
 *
 * An iterative precedence parser with one stack of operands and one of operators: a formula is data, never code. Names
 * are looked up among the formula's own wires and in the op table, nowhere else. Every mistake points at its character.
 */
import type { Circuit, CircuitNode, Place } from "../types";
import { CONSTANTS, LEVELS, LIMITS, type OpRecord } from "./ops.generated";
import { fail, statements, targetOf, type Token } from "./scanner";
import { callable, infixOf, libraryOf, opOf, prefixOf, typeOf } from "./table";
import { quoted, shown, suggest } from "./words";

/** The level of an open parenthesis: below every operator. */
const OPEN = -1;

interface Operand {
  node: number;
  offset: number;
  /** Whether the operand is nothing but a variable. */
  bare: boolean;
}

interface Pending {
  kind: "infix" | "prefix" | "parenthesis" | "call" | "open call";
  text: string;
  offset: number;
  level: number;
  /** How many operands lay on the stack when a call was opened. */
  height: number;
}

interface State {
  /** Where each character of the formula stands. */
  places: Place[];
  nodes: CircuitNode[];
  /** Whether an input moves the node. */
  moves: boolean[];
  wires: Map<string, number>;
  inputs: Set<string>;
  written: Set<string>;
  applied: number[];
  operands: Operand[];
  pending: Pending[];
  depth: number;
}

/** Return the circuit of a formula; statements end with `;` or a new line, the last one is the output. */
export function parse(text: string): Circuit {
  const letters = text.length > LIMITS.characters ? [...text] : [];
  if (letters.length > LIMITS.characters) {
    const [most, given] = [LIMITS.characters, letters.length].map((count) => count.toLocaleString("en-US"));
    const advice = "build larger circuits with Builder or the text form";
    const offset = letters.slice(0, LIMITS.characters).join("").length;
    fail(`a formula has at most ${most} characters; this one has ${given}; ${advice}`, offset);
  }
  const state: State = {
    places: placesOf(text),
    nodes: [],
    moves: [],
    wires: new Map(),
    inputs: new Set(),
    written: new Set(),
    applied: [],
    operands: [],
    pending: [],
    depth: 0,
  };
  return circuitOf(state, statements(text));
}

function circuitOf(state: State, all: Token[][]): Circuit {
  declareInputs(state, all);
  const last = all.pop();
  if (!last) fail("the formula is empty; write something like (a + b) * c", state.places.length);
  for (const tokens of all) {
    if (!targetOf(tokens)) {
      const message = "this statement gives no name and is not the last, so nothing can use it";
      fail(message, tokens[0]!.offset);
    }
    readStatement(state, tokens);
  }
  const root = readStatement(state, last);
  nameTemporaries(state, root);
  const node = state.nodes[root]!;
  if (!node.names.length) node.names.push(freeName(state, "f"));
  return { name: node.names[0]!, nodes: state.nodes, outputs: [{ label: node.names[0]!, node: root }] };
}

/** Make an input of every name that is read before it is given, in the order of reading. */
function declareInputs(state: State, all: readonly Token[][]): void {
  const given = new Set(Object.keys(CONSTANTS));
  for (const tokens of all) {
    for (const token of tokens) if (token.kind === "name") state.written.add(token.text);
    const target = targetOf(tokens);
    for (let k = target ? 2 : 0; k + 1 < tokens.length; k++) {
      const token = tokens[k]!;
      if (token.kind === "name" && tokens[k + 1]!.text !== "(" && !given.has(token.text)) {
        given.add(token.text);
        checkName(token);
        state.wires.set(token.text, addNode(state, { op: "input", names: [token.text] }, true));
        state.inputs.add(token.text);
      }
    }
    if (target) given.add(target.text);
  }
}

function checkName({ text, offset }: Token): void {
  if ([...text].length <= LIMITS.name) return;
  fail(
    `${shown(text)} cannot be a name: wanted letters, digits and _ (not first a digit), parts joined by '.' or ` +
      `indexed like [0], at most ${LIMITS.name} characters`,
    offset,
  );
}

/** Call the nodes that were given no name t1, t2, ...; the result is the circuit's output and gets its own. */
function nameTemporaries(state: State, root: number): void {
  let k = 1;
  for (const node of state.applied) {
    if (node === root || state.nodes[node]!.names.length) continue;
    while (state.written.has(`t${k}`)) k++;
    state.nodes[node]!.names.push(`t${k++}`);
  }
}

function freeName(state: State, wanted: string): string {
  const taken = new Set(state.nodes.flatMap((node) => node.names));
  let name = wanted;
  for (let k = 1; taken.has(name); k++) name = `${wanted}_${k}`;
  return name;
}

function addNode(state: State, node: Partial<CircuitNode> & { op: string }, moves: boolean): number {
  state.moves.push(moves);
  return state.nodes.push({ sources: [], names: [], mode: 0, group: "", type: "float64", ...node }) - 1;
}

function readStatement(state: State, tokens: Token[]): number {
  const target = targetOf(tokens);
  if (target) checkTarget(state, target);
  const operand = readExpression(state, target ? tokens.slice(2) : tokens);
  if (!target) return operand.node;
  // `e = a` makes a node of its own, so that e can be looked at like any other name.
  const node = operand.bare ? apply(state, "positive", [operand], operand.offset) : operand.node;
  state.nodes[node]!.names.push(target.text);
  state.wires.set(target.text, node);
  return node;
}

function checkTarget(state: State, target: Token): void {
  const { text, offset } = target;
  checkName(target);
  if (Object.hasOwn(CONSTANTS, text)) fail(`${text} is a constant and cannot be given`, offset);
  if (state.inputs.has(text)) {
    const advice = "move this statement up, or choose a new name";
    fail(`${text} is read before it is given here; ${advice}`, offset);
  }
  if (state.wires.has(text)) fail(`${text} is given twice; every wire has one name of its own`, offset);
}

function readExpression(state: State, tokens: readonly Token[]): Operand {
  [state.operands, state.pending, state.depth] = [[], [], 0];
  let wantsOperand = true;
  tokens.forEach((token, k) => {
    const after = tokens[k + 1] ?? token;
    wantsOperand = wantsOperand ? takeOperand(state, token, after) : takeOperator(state, token);
  });
  return state.operands[0]!;
}

/** Take a token where an operand must begin; returns whether one is still wanted. */
function takeOperand(state: State, token: Token, after: Token): boolean {
  const top = state.pending.at(-1);
  if (token.kind === "number") {
    pushNumber(state, token, after);
    return false;
  }
  if (token.kind === "name") {
    const called = after.text === "(";
    if (called) open(state, token, "call");
    else pushName(state, token);
    return called;
  }
  if (token.text === "(") {
    // The parenthesis of the call that was opened by its name, or one of its own.
    if (top?.kind === "call") top.kind = "open call";
    else open(state, token, "parenthesis");
    return true;
  }
  if (prefixOf(token.text)) {
    state.pending.push({ kind: "prefix", text: token.text, offset: token.offset, level: LEVELS.sign, height: 0 });
    return true;
  }
  if (token.text === ")" && top?.kind === "open call" && state.operands.length === top.height) {
    const op = opOf(top.text)!;
    fail(`${top.text}() needs ${inputsOf(op, "argument")}: ${op.inputs.join(", ")}`, token.offset);
  }
  return wantedOperand(token);
}

/** Take a token behind an operand; returns whether an operand is wanted next. */
function takeOperator(state: State, token: Token): boolean {
  if (token.kind === "sign" && infixOf(token.text)) {
    pushInfix(state, token);
    return true;
  }
  if (token.text === ")") {
    close(state, token);
    return false;
  }
  if (token.text === ",") {
    reduce(state, OPEN + 1);
    if (state.pending.at(-1)?.kind !== "open call") {
      fail("a comma separates the arguments of a call, and no call is open here", token.offset);
    }
    return true;
  }
  if (token.kind === "end") {
    reduce(state, OPEN + 1);
    const opened = state.pending.at(-1);
    if (opened) fail("this parenthesis is never closed", opened.offset);
    return false;
  }
  return wantedOperator(token);
}

function pushNumber(state: State, token: Token, after: Token): void {
  const value = Number(token.text);
  if (!isFinite(value)) {
    const advice = "a literal must be finite (below about 1.8e308)";
    fail(`${token.text.slice(0, 30)} is too large: ${advice}`, token.offset);
  }
  const before = state.pending.at(-1);
  const follower = infixOf(after.text);
  // -2 is a literal; -2 ** 2 is still -(2 ** 2), so the sign is only taken in where nothing binds tighter.
  if (before?.kind === "prefix" && before.text === "-" && (!follower || follower.level < LEVELS.sign)) {
    state.pending.pop();
    push(state, addConstant(state, -value), before.offset);
  } else push(state, addConstant(state, value), token.offset);
}

function addConstant(state: State, constant: number, place?: Place): number {
  return addNode(state, { op: "constant", constant, ...(place ? { place } : {}) }, false);
}

function pushName(state: State, { text, offset }: Token): void {
  if (Object.hasOwn(CONSTANTS, text)) push(state, addConstant(state, CONSTANTS[text]!), offset);
  else state.operands.push({ node: state.wires.get(text)!, offset, bare: true });
}

function push(state: State, node: number, offset: number): void {
  state.operands.push({ node, offset, bare: false });
}

function open(state: State, token: Token, kind: "call" | "parenthesis"): void {
  if (kind === "call" && !opOf(token.text)) {
    const library = libraryOf(token.text);
    if (library) fail(`${token.text} is computed by ${library}, which the page does not have: explore it from Python`, token.offset);
    const near = suggest(token.text, callable);
    fail(`there is no function called ${token.text}${near}`, token.offset);
  }
  if (++state.depth > LIMITS.depth) {
    fail(`parentheses nest at most ${LIMITS.depth} deep`, token.offset);
  }
  state.pending.push({ kind, text: token.text, offset: token.offset, level: OPEN, height: state.operands.length });
}

function pushInfix(state: State, { text, offset }: Token): void {
  const level = infixOf(text)!.level;
  // Powers bind to the right: a ** b ** c is a ** (b ** c). Comparisons do not bind to each other at all.
  reduce(state, level === LEVELS.power || level === LEVELS.comparison ? level + 1 : level);
  if (level === LEVELS.comparison && state.pending.at(-1)?.level === LEVELS.comparison) {
    fail("comparisons do not chain; write logical_and(a < b, b < c)", offset);
  }
  state.pending.push({ kind: "infix", text, offset, level, height: 0 });
}

/** Apply the waiting operators that bind at least as tightly as `level`. */
function reduce(state: State, level: number): void {
  for (let top = state.pending.at(-1); top; top = state.pending.at(-1)) {
    if ((top.kind !== "infix" && top.kind !== "prefix") || top.level < level) return;
    state.pending.pop();
    const right = state.operands.pop()!;
    if (top.kind === "prefix") {
      push(state, apply(state, prefixOf(top.text)!.name, [right], top.offset), top.offset);
    } else {
      const left = state.operands.pop()!;
      push(state, apply(state, infixOf(top.text)!.name, [left, right], left.offset), left.offset);
    }
  }
}

function close(state: State, token: Token): void {
  reduce(state, OPEN + 1);
  const opened = state.pending.pop();
  if (!opened) fail("this parenthesis was never opened", token.offset);
  state.depth--;
  if (opened.kind === "open call") {
    push(state, apply(state, opened.text, state.operands.splice(opened.height), opened.offset), opened.offset);
  } else state.operands.at(-1)!.offset = opened.offset;
}

/** Add a node; what the op cannot take is a mistake where the expression begins. */
function apply(state: State, name: string, operands: readonly Operand[], offset: number): number {
  const op = opOf(name)!;
  const [wanted, given] = [op.inputs.length, operands.length];
  if (given > wanted || given < wanted - op.defaults.length) {
    fail(`${op.name} takes ${inputsOf(op, "wire")} (${op.inputs.join(", ")}); got ${given}`, offset);
  }
  const missing = op.defaults.slice(op.defaults.length - (wanted - given));
  const types = [...operands.map(({ node }) => state.nodes[node]!.type), ...missing.map(() => "float64")];
  const made = typeOf(op, types);
  if ("message" in made) fail(made.message, offset);
  const place = state.places[offset]!;
  const sources = [...operands.map(({ node }) => node), ...missing.map((value) => addConstant(state, value, place))];
  const moves = sources.map((source) => state.moves[source]!);
  const mode = op.kinks.length && wanted > 1 ? modeOf(moves) : 0;
  const node = addNode(state, { op: op.name, sources, mode, place, type: made.type }, moves.includes(true));
  state.applied.push(node);
  return node;
}

/** How a node treats its kinks: bit 2 + k says that no input moves its operand k. */
function modeOf(moves: readonly boolean[]): number {
  return moves.reduce((mode, moving, slot) => (moving ? mode : mode | (4 << slot)), 0);
}

/** Line and column of each UTF-16 unit of a text, both from 1; columns count whole characters. */
function placesOf(text: string): Place[] {
  const found: Place[] = [];
  let [line, column] = [1, 1];
  for (const letter of text) {
    for (let unit = 0; unit < letter.length; unit++) found.push({ file: "formula", line, column });
    [line, column] = letter === "\n" ? [line + 1, 1] : [line, column + 1];
  }
  return found;
}

function wantedOperand(token: Token): never {
  if (token.kind === "end" && !token.text) {
    fail("the formula stops where a number, a name or ( is wanted", token.offset);
  }
  fail(`wanted a number, a name or (; got ${quoted(token.text)}`, token.offset);
}

function wantedOperator(token: Token): never {
  if (token.text === "=") {
    const message = "only a plain name can be given a value: name = formula; to compare, write ==";
    fail(message, token.offset);
  }
  const hint = token.kind === "name" || token.kind === "number" || token.text === "(" ? "; write * to multiply" : "";
  const message = `wanted an operator or the end of the statement; got ${quoted(token.text)}${hint}`;
  fail(message, token.offset);
}

/** How many inputs an op takes, in words. */
function inputsOf({ inputs, defaults }: OpRecord, noun: string): string {
  const least = defaults.length ? `${inputs.length - defaults.length} to ` : "";
  return `${least}${inputs.length} ${noun}${inputs.length === 1 ? "" : "s"}`;
}
