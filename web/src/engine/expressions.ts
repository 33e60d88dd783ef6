/**
 * Parses one expression of a formula with two stacks, one of operands and one of operators that wait for them: the same
 * rules, places and messages as in `src/wiregrad/frontends/formula.py`.
 *
 * Things written side by side are multiplied, as if `*` stood between them. What a person could read in two ways is
 * refused, with both readings in the message: `1/2x`, `x^2y`, `√x²`, `2e`.
 */
import type { CircuitNode, Place } from "../types";
import { ADVICE, CONSTANTS, LEVELS, LIMITS, SPELLINGS, type OpRecord } from "./ops.generated";
import { BAR, fail, functionOf, isConstant, isRoot, type Token } from "./scanner";
import { callable, infixOf, libraryOf, opOf, prefixOf, typeOf } from "./table";
import { printable, quoted, suggest } from "./words";

/** The level of an open parenthesis: below every operator; and that of √: above every operator. */
const OPEN = -1;
const ROOT = Math.max(...Object.values(LEVELS)) + 1;
/** How many characters of an operand a message repeats. */
const MOST_SHOWN = 24;
const BAR_FUNCTION = "absolute";

/** Something that a formula says and that its writer may not have meant. */
export interface Note {
  kind: "exponential" | "function" | "product";
  message: string;
  offset: number;
}

export interface Operand {
  node: number;
  offset: number;
  /** The name of the variable, if the operand is nothing but one. */
  bare: string;
  /** Whether the operand is an expression in parentheses. */
  grouped: boolean;
}

interface Pending {
  kind: "infix" | "prefix" | "root" | "parenthesis" | "bar" | "call" | "open call";
  token: Token;
  level: number;
  /** How many operands lay on the stack when a call was opened. */
  height: number;
  /** The exponent between a function and its argument, as in sin²(x). */
  raised: Token | null;
}

/** What the expressions of one formula share. */
export interface Scope {
  text: string;
  /** Where each character of the formula stands. */
  places: Place[];
  nodes: CircuitNode[];
  /** Whether an input moves the node. */
  moves: boolean[];
  wires: Map<string, number>;
  inputs: Set<string>;
  applied: number[];
  /** Where the last token that was taken ends. */
  end: number;
  notes: Note[];
}

interface State {
  scope: Scope;
  tokens: readonly Token[];
  operands: Operand[];
  pending: Pending[];
  opened: Pending["kind"][];
}

/** Read an expression. */
export function readExpression(scope: Scope, tokens: readonly Token[]): Operand {
  const state: State = { scope, tokens, operands: [], pending: [], opened: [] };
  let wantsOperand = true;
  tokens.forEach((token, k) => {
    scope.end = k ? endOf(tokens[k - 1]!) : token.offset;
    if (!wantsOperand && beginsOperand(state, token)) {
      multiplyNeighbours(state, k);
      wantsOperand = true;
    }
    wantsOperand = wantsOperand ? takeOperand(state, k) : takeOperator(state, k);
  });
  return state.operands[0]!;
}

function following(state: State, k: number): Token {
  return state.tokens[k + 1] ?? state.tokens[k]!;
}

/** Whether a token behind an operand begins another one. */
function beginsOperand(state: State, token: Token): boolean {
  if (token.text === BAR) return !infixOf(BAR) && state.opened.at(-1) !== "bar";
  return isPlain(token) || token.kind === "call" || token.text === "(" || isRoot(token.text);
}

function isPlain({ kind }: Token): boolean {
  return kind === "number" || kind === "name";
}

/** Take a token where an operand must begin; returns whether one is still wanted. */
function takeOperand(state: State, k: number): boolean {
  const token = state.tokens[k]!;
  const top = state.pending.at(-1);
  if (token.kind === "number") {
    pushNumber(state, token, following(state, k));
    return false;
  }
  if (token.kind === "name") {
    pushName(state, token);
    return false;
  }
  if (token.kind === "call" || token.text === BAR || token.text === "(" || isRoot(token.text)) {
    openOperand(state, token, following(state, k));
  } else if (token.kind === "raised" && top?.kind === "call") {
    checkInverse(top.token, token);
    top.raised = token;
  } else if (prefixOf(token.text) && top?.kind !== "root") push(state, "prefix", token, LEVELS.sign);
  else refuseOperand(state, token);
  return true;
}

/** Take the token that opens parentheses, bars, a call or a root. */
function openOperand(state: State, token: Token, next: Token): void {
  const top = state.pending.at(-1);
  if (token.kind === "call") open(state, token, "call");
  else if (isRoot(token.text)) {
    if (next.text === "(") open(state, token, "call");
    else push(state, "root", token, ROOT);
  } else if (token.text === BAR) open(state, token, "bar");
  // The parenthesis of the call that was opened by its name, or one of its own.
  else if (top?.kind === "call") top.kind = "open call";
  else open(state, token, "parenthesis");
}

function push({ pending, operands }: State, kind: Pending["kind"], token: Token, level: number): void {
  pending.push({ kind, token, level, height: operands.length, raised: null });
}

function refuseOperand(state: State, token: Token): never {
  const top = state.pending.at(-1);
  if (token.text === ")" && top?.kind === "open call" && state.operands.length === top.height) {
    const op = opOf(calledOp(top.token.text))!;
    fail(`${top.token.text}() needs ${inputsOf(op)}: ${op.inputs.join(", ")}`, token.offset);
  }
  if (token.kind === "end" && !token.text) {
    fail("the formula stops where a number, a name or ( is wanted", token.offset);
  }
  const isChange = token.text === "=" && top?.kind === "infix";
  const hint = isChange ? "; a name is given once; write a new one" : "";
  fail(`wanted a number, a name or (; got ${quoted(cut(token.written))}${hint}`, token.offset);
}

/** Refuse a negative exponent between a function and its argument. */
function checkInverse(call: Token, raised: Token): void {
  if (raised.text.startsWith("-")) refuseInverse(call.text, raised.written, raised.offset);
}

/** Refuse sin⁻¹(x), which people write for arcsin(x) and for 1/sin(x). */
function refuseInverse(name: string, power: string, offset: number): never {
  const inverse = `arc${name}`;
  const first = opOf(inverse) ? `${inverse}(x)` : "the inverse function by its name";
  refuseTwoReadings(first, `${name}(x)${power}`, offset);
}

/** Take a token behind an operand; returns whether an operand is wanted next. */
function takeOperator(state: State, k: number): boolean {
  const token = state.tokens[k]!;
  if (token.kind === "sign" && infixOf(token.text)) {
    pushInfix(state, token, state.tokens[k - 1]!);
    return true;
  }
  if (token.kind === "raised") raiseOperand(state, token, state.tokens[k - 1]!);
  else if (token.text === BAR) closeBar(state, token);
  else if (token.text === ")") close(state, token);
  else if (token.text === ",") {
    reduce(state, OPEN + 1);
    if (state.pending.at(-1)?.kind !== "open call") refuseComma(state, k);
    return true;
  } else if (token.kind === "end") {
    reduce(state, OPEN + 1);
    const opened = state.pending.at(-1);
    if (opened) refuseOpen(opened);
  } else wantedOperator(token);
  return false;
}

/** Refuse a comma outside a call: a decimal comma, or a second result. */
function refuseComma(state: State, k: number): never {
  const [before, after] = [state.tokens[k - 1]!, following(state, k)];
  const isDecimal = before.kind === "number" && after.kind === "number" && /^[0-9]+$/.test(before.text);
  const decimal = `a decimal number has a point: ${cut(before.text)}.${cut(after.text)}`;
  const hint = isDecimal ? decimal : "a formula has one result";
  const message = `a comma separates the arguments of a call, and no call is open here; ${hint}`;
  fail(message, state.tokens[k]!.offset);
}

/** Multiply an operand by the one that begins at a token, if only one reading makes sense. */
function multiplyNeighbours(state: State, k: number): void {
  const [before, token] = [state.tokens[k - 1]!, state.tokens[k]!];
  let refused = token.kind === "number";
  if (before.kind === "name" && !isConstant(before.text)) {
    // A standard deviation times √2 is not the function of that letter.
    const factor = [...before.text].length === 1 && isRoot(token.text);
    if (isUnapplied(state.scope, before.text) && !factor) {
      const argument = token.kind === "name" ? token.written : "...";
      fail(`the argument of a function stands in parentheses: write ${before.text}(${argument})`, token.offset);
    }
    refused = isPlain(token);
    if (refused && adviceOf(before)) refuseWord(before);
  } else if (before.kind === "number") checkNumberEnd(state, k);
  else refused ||= before.text === BAR && token.text !== BAR;
  if (refused && adviceOf(token)) refuseWord(token);
  if (refused && before.kind === "number" && token.kind === "number") {
    const message = "two numbers follow each other; a number has one point and no spaces, and a product has a *";
    fail(message, token.offset);
  }
  if (refused) wantedOperator(token);
  checkReadings(state, before, token);
  pushInfix(state, { kind: "sign", text: "*", offset: token.offset, written: "" }, before);
}

/** What to write instead of a word; undefined for most words. */
function adviceOf({ text }: Token): string | undefined {
  return Object.hasOwn(ADVICE.words, text) ? ADVICE.words[text] : undefined;
}

/** Refuse a word of Python between operands. */
function refuseWord(token: Token): never {
  fail(`${token.text} has no meaning in a formula; write ${adviceOf(token)}`, token.offset);
}

/** Refuse letters right behind a number that could be meant as a part of it: 0x10, 1_000, 2e. */
function checkNumberEnd(state: State, k: number): void {
  const [number, token] = [state.tokens[k - 1]!, state.tokens[k]!];
  if (endOf(number) !== token.offset || (token.kind !== "name" && token.kind !== "call")) return;
  const digits = number.text.slice(0, MOST_SHOWN);
  if (number.text === "0" || token.text.startsWith("_")) {
    const advice = "write digits alone, or * to multiply";
    fail(`${digits}${cut(token.text)} is not a number; ${advice}`, token.offset);
  }
  const next = following(state, k);
  const isBase = next.kind === "raised" || next.text === "^" || next.text === "**";
  if ((token.text === "e" || token.text === "E") && !isBase) {
    const advice = `for a product write * before ${token.text}`;
    fail(`${digits}${token.text} may be the start of a number like 2e3; ${advice}`, token.offset);
  }
}

/** Refuse a product without a sign behind a division, in an exponent or under a root. */
function checkReadings(state: State, before: Token, token: Token): void {
  let left = state.operands.length - 1;
  for (let k = state.pending.length - 1; k >= 0 && state.pending[k]!.level >= LEVELS.product; k--) {
    const operator = state.pending[k]!;
    if (operator.kind === "infix") left--;
    const base = state.operands[left]!;
    const isRefused = isAmbiguous(state, operator) || isFunctionPower(state.scope, operator, base);
    if (isRefused) refuseProduct(state.scope, operator, base, before, token);
  }
}

/** Whether a product without a sign could belong to the operand of a waiting operator. */
function isAmbiguous({ operands }: State, { kind, level, token: { text } }: Pending): boolean {
  if (kind !== "infix" || level === LEVELS.product) return text !== "*" && !prefixOf(text);
  return !operands.at(-1)!.grouped;
}

/** Whether a waiting operator raises a function that is applied to nothing, as in sin^(-1)(x). */
function isFunctionPower(scope: Scope, { kind, level }: Pending, { bare }: Operand): boolean {
  return kind === "infix" && level === LEVELS.power && [...bare].length > 1 && isUnapplied(scope, bare);
}

function refuseProduct(scope: Scope, operator: Pending, base: Operand, before: Token, token: Token): never {
  const sign = operator.token.written;
  const right = shownText(scope, endOf(operator.token), endOf(before));
  const factor = token.kind === "call" ? `${cut(token.text)}(...)` : token.kind === "sign" ? "(...)" : token.written;
  let left = "";
  if (operator.kind === "infix") {
    left = shownText(scope, base.offset, operator.token.offset);
    if (operator.level === LEVELS.power && isUnapplied(scope, base.bare)) {
      refuseFunctionPower(base.bare, sign + right, token.offset);
    }
  }
  refuseTwoReadings(`(${left}${sign}${right})*${factor}`, `${left}${sign}(${right}*${factor})`, token.offset);
}

function endOf({ offset, written }: Token): number {
  return offset + written.length;
}

function cut(text: string): string {
  return [...text].slice(0, MOST_SHOWN).join("");
}

/** A part of the formula for a message; an ellipsis stands for a long one. */
function shownText({ text }: Scope, start: number, end: number): string {
  const part = text.slice(start, end).trim();
  return [...part].length <= MOST_SHOWN && printable(part) === part ? part : "...";
}

function refuseTwoReadings(one: string, two: string, offset: number): never {
  fail(`this can be read in two ways; write ${one} or ${two}`, offset);
}

function refuseFunctionPower(name: string, power: string, offset: number): never {
  if (["-1", "⁻¹"].includes(power.replace(/^[\^*() ]+|[\^*() ]+$/gu, ""))) refuseInverse(name, power, offset);
  fail(`the power of a function stands after its argument: write ${name}(...)${power}`, offset);
}

/** Whether a name that is read as a leaf is the name of a function. */
function isUnapplied({ inputs }: Scope, name: string): boolean {
  return inputs.has(name) && functionOf(name) !== undefined;
}

function pushNumber(state: State, token: Token, next: Token): void {
  const value = literal(token);
  const before = state.pending.at(-1);
  const follower = infixOf(next.text);
  const binds = next.kind === "raised" || (follower !== undefined && follower.level >= LEVELS.sign);
  // -2 is a literal; -2 ** 2 is still -(2 ** 2), so the sign is only taken in where nothing binds tighter.
  if (before?.kind === "prefix" && before.token.text === "-" && !binds) {
    state.pending.pop();
    pushOperand(state, addConstant(state.scope, -value), before.token.offset);
  } else pushOperand(state, addConstant(state.scope, value), token.offset);
}

function literal({ text, offset }: Token): number {
  const value = Number(text);
  if (isFinite(value)) return value;
  fail(`${text.slice(0, 30)} is too large: a literal must be finite (below about 1.8e308)`, offset);
}

function addConstant(scope: Scope, constant: number, place?: Place): number {
  return addNode(scope, { op: "constant", constant, ...(place ? { place } : {}) }, false);
}

/** Add a node without an op of the table. */
export function addNode(scope: Scope, node: Partial<CircuitNode> & { op: string }, moves: boolean): number {
  scope.moves.push(moves);
  return scope.nodes.push({ sources: [], names: [], mode: 0, group: "", type: "float64", ...node }) - 1;
}

function pushName(state: State, { text, offset }: Token): void {
  if (isConstant(text)) pushOperand(state, addConstant(state.scope, CONSTANTS[text]!), offset);
  else state.operands.push({ node: state.scope.wires.get(text)!, offset, bare: text, grouped: false });
}

function pushOperand(state: State, node: number, offset: number): void {
  state.operands.push({ node, offset, bare: "", grouped: false });
}

function open(state: State, token: Token, kind: "call" | "parenthesis" | "bar"): void {
  if (token.kind === "call" && functionOf(token.text) === undefined) refuseFunction(state, token);
  state.opened.push(kind);
  if (state.opened.length > LIMITS.depth) {
    fail(`parentheses nest at most ${LIMITS.depth} deep`, token.offset);
  }
  push(state, kind, token, OPEN);
}

function refuseFunction({ scope, tokens }: State, token: Token): never {
  const { text, offset } = token;
  const library = libraryOf(text);
  if (library) fail(`${text} is computed by ${library}, which the page does not have: explore it from Python`, offset);
  let hint = `; to multiply, write ${cut(text)}*(...)`;
  if (token === tokens[0] && tokens.some((other) => other.text === "=")) {
    hint = `; to name the result, write ${cut(text)} = ...`;
  } else if (adviceOf(token)) hint = `; write ${adviceOf(token)}`;
  else if (!scope.wires.has(text)) hint = suggest(text, callable, LIMITS.compared) || hint;
  fail(`there is no function called ${text}${hint}`, offset);
}

function pushInfix(state: State, token: Token, before: Token): void {
  const level = infixOf(token.text)!.level;
  if (level === LEVELS.power) checkRaisedTwice(state, token, before);
  // Powers bind to the right: a ** b ** c is a ** (b ** c). Comparisons do not bind to each other at all.
  reduce(state, level === LEVELS.power || level === LEVELS.comparison ? level + 1 : level);
  if (level === LEVELS.comparison && state.pending.at(-1)?.level === LEVELS.comparison) {
    fail("comparisons do not chain; write logical_and(a < b, b < c)", token.offset);
  }
  push(state, "infix", token, level);
}

/** Refuse a power of a bare root, and of a power that was written with a raised exponent. */
function checkRaisedTwice({ scope, pending }: State, token: Token, before: Token): void {
  const top = pending.at(-1);
  if (top?.kind === "root") {
    const root = top.token.written;
    const inner = shownText(scope, endOf(top.token), endOf(before));
    const raised = token.kind === "raised" ? token.written : `${token.written}...`;
    refuseTwoReadings(`${root}(${inner}${raised})`, `(${root}${inner})${raised}`, token.offset);
  }
  if (before.kind === "raised") fail("two powers follow each other; put the first one in parentheses", token.offset);
}

/** Apply a raised exponent to the operand before it. */
function raiseOperand(state: State, token: Token, before: Token): void {
  checkRaisedTwice(state, token, before);
  const { bare, offset } = state.operands.at(-1)!;
  if (isUnapplied(state.scope, bare) && [...bare].length > 1) refuseFunctionPower(bare, token.written, token.offset);
  state.scope.end = endOf(token);
  raiseLast(state, token, offset);
}

function raiseLast(state: State, token: Token, offset: number): void {
  const base = state.operands.pop()!;
  pushOperand(state, addConstant(state.scope, literal(token)), token.offset);
  const exponent = state.operands.pop()!;
  pushOperand(state, apply(state.scope, infixOf("^")!.name, [base, exponent], offset), offset);
}

/** Apply the waiting operators that bind at least as tightly as `level`. */
function reduce(state: State, level: number): void {
  for (let top = state.pending.at(-1); top && top.level >= Math.max(level, OPEN + 1); top = state.pending.at(-1)) {
    state.pending.pop();
    const { text, offset } = top.token;
    const right = state.operands.pop()!;
    if (top.kind === "infix") {
      const left = state.operands.pop()!;
      pushOperand(state, apply(state.scope, infixOf(text)!.name, [left, right], left.offset), left.offset);
    } else {
      const name = top.kind === "root" ? calledOp(text) : prefixOf(text)!.name;
      pushOperand(state, apply(state.scope, name, [right], offset), offset);
    }
  }
}

/** Close the bars of an absolute value. */
function closeBar(state: State, token: Token): void {
  reduce(state, OPEN + 1);
  const { offset } = state.pending.pop()!.token;
  state.opened.pop();
  state.scope.end = endOf(token);
  pushOperand(state, apply(state.scope, BAR_FUNCTION, [state.operands.pop()!], offset), offset);
}

function close(state: State, token: Token): void {
  reduce(state, OPEN + 1);
  const opened = state.pending.pop();
  if (!opened) fail("this parenthesis was never opened", token.offset);
  if (opened.kind === "bar") refuseOpen(opened);
  state.opened.pop();
  state.scope.end = endOf(token);
  const { text, offset } = opened.token;
  if (opened.kind === "open call") {
    const operands = state.operands.splice(opened.height);
    checkArgumentCount(opened.token, operands.length);
    pushOperand(state, apply(state.scope, calledOp(text), operands, offset), offset);
    if (opened.raised) raiseLast(state, opened.raised, offset);
  } else Object.assign(state.operands.at(-1)!, { offset, grouped: true });
}

function checkArgumentCount({ text, offset }: Token, count: number): void {
  const op = opOf(calledOp(text))!;
  const most = op.inputs.length;
  if (count <= most && count >= most - op.defaults.length) return;
  const advice = count > most && Object.hasOwn(ADVICE.arguments, op.name) ? `; write ${ADVICE.arguments[op.name]}` : "";
  fail(`${text}() needs ${inputsOf(op)}: ${op.inputs.join(", ")}; got ${count}${advice}`, offset);
}

function refuseOpen({ kind, token }: Pending): never {
  const isBar = kind === "bar";
  fail(isBar ? "this | is never closed; |x| is the absolute value" : "this parenthesis is never closed", token.offset);
}

/** The op of a call or of a root sign. */
function calledOp(name: string): string {
  return isRoot(name) ? SPELLINGS.prefixes[name]! : (functionOf(name) ?? name);
}

const spans = new WeakMap<CircuitNode, readonly [number, number]>();

/** The part of its formula that a node was written as, from and to which character; undefined for all other nodes. */
export function spanOf(node: CircuitNode): readonly [number, number] | undefined {
  return spans.get(node);
}

/** Add a node; what the op cannot take is a mistake where the expression begins. */
export function apply(scope: Scope, name: string, operands: readonly Operand[], offset: number): number {
  const op = opOf(name)!;
  noteExponential(scope, op, operands);
  const [wanted, given] = [op.inputs.length, operands.length];
  const missing = op.defaults.slice(op.defaults.length - (wanted - given));
  const types = [...operands.map(({ node }) => scope.nodes[node]!.type), ...missing.map(() => "float64")];
  const made = typeOf(op, types);
  if ("message" in made) fail(made.message, offset);
  const place = scope.places[offset]!;
  const sources = [...operands.map(({ node }) => node), ...missing.map((value) => addConstant(scope, value, place))];
  const moves = sources.map((source) => scope.moves[source]!);
  const mode = op.kinks.length && wanted > 1 ? modeOf(moves) : 0;
  const node = addNode(scope, { op: op.name, sources, mode, place, type: made.type }, moves.includes(true));
  scope.applied.push(node);
  spans.set(scope.nodes[node]!, [offset, scope.end]);
  return node;
}

/** Note a power of a leaf called e. */
function noteExponential({ inputs, notes }: Scope, op: OpRecord, [base]: readonly Operand[]): void {
  if (op !== infixOf("^") || base?.bare !== "e" || !inputs.has("e")) return;
  if (notes.some(({ kind }) => kind === "exponential")) return;
  const message = "e is a leaf here, not the number 2.718...; for the exponential function write exp(x)";
  notes.push({ kind: "exponential", message, offset: base.offset });
}

/** How a node treats its kinks: bit 2 + k says that no input moves its operand k. */
function modeOf(moves: readonly boolean[]): number {
  return moves.reduce((mode, moving, slot) => (moving ? mode : mode | (4 << slot)), 0);
}

function wantedOperator(token: Token): never {
  if (token.text === "=") {
    const message = "only a plain name can be given a value: name = formula; to compare, write ==";
    fail(message, token.offset);
  }
  const named = token.kind === "name" || token.kind === "call";
  const begins = named || token.kind === "number" || token.text === "(" || token.text === BAR || isRoot(token.text);
  const hint = begins ? "; write * to multiply" : "";
  const text = quoted(named ? token.text : token.written);
  fail(`wanted an operator or the end of the statement; got ${text}${hint}`, token.offset);
}

/** How many inputs an op takes, in words. */
function inputsOf({ inputs, defaults }: OpRecord): string {
  const least = defaults.length ? `${inputs.length - defaults.length} to ` : "";
  return `${least}${inputs.length} argument${inputs.length === 1 ? "" : "s"}`;
}
