/**
 * Cuts a formula into tokens and statements, as `src/wiregrad/frontends/formula.py` does. A token holds what it
 * means and how it was written: `·` is `*`, `x₁` is `x1`. Offsets are in UTF-16 units of the text.
 */
import { ADVICE, CONSTANTS, RAISED_LETTERS, SPELLINGS } from "./ops.generated";
import { infixOf, opOf, prefixOf, signs } from "./table";
import { quoted } from "./words";

/** A mistake in a formula, at a character. */
export class FormulaMistake extends Error {
  constructor(
    message: string,
    readonly offset: number,
  ) {
    super(message);
    this.name = "FormulaMistake";
  }
}

/** Refuse a formula at a character. */
export function fail(message: string, offset: number): never {
  throw new FormulaMistake(message, offset);
}

/** A number, a name, a call, a sign, a raised exponent, or the end of a statement, and where it begins. */
export interface Token {
  kind: "number" | "name" | "call" | "raised" | "end" | "sign";
  text: string;
  offset: number;
  /** The characters of the formula. */
  written: string;
}

/** The bar of an absolute value. */
export const BAR = "|";

const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻";
const LOWERED = "₀₁₂₃₄₅₆₇₈₉";
const raisedDigits = RAISED.slice(0, 10);
const spelled = [...Object.keys(SPELLINGS.signs), ...Object.keys(SPELLINGS.prefixes), BAR, ..."(),="];
const escapedSigns = [...signs, ...spelled].map((sign) => sign.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|");
const TOKEN = new RegExp(
  "(?<space>[ \\t\\r\\u00a0\\u2000-\\u200a\\u202f\\u205f\\u3000]+)" +
    "|(?<number>(?:[0-9]+\\.?[0-9]*|\\.[0-9]+)(?:[eE][-+]?[0-9]+)?)" +
    `|(?<name>(?![0-9])(?:(?![${raisedDigits}])[\\p{L}\\p{N}_])+)` +
    `|(?<raised>[⁺⁻]?[${raisedDigits}]+)` +
    "|(?<end>[;\\n])" +
    `|(?<sign>${escapedSigns})`,
  "uy",
);
const IDENTIFIER = /^[\p{XID_Start}_]\p{XID_Continue}*$/u;
const ATTRIBUTE = /^\.(?:\w*\.)*(\w+)/;
const PI_IN_NAME = /π\p{L}|\p{L}π/u;

/** The op that a formula calls by a name, if there is one. */
export function functionOf(name: string): string | undefined {
  if (opOf(name)) return name;
  return Object.hasOwn(SPELLINGS.functions, name) ? SPELLINGS.functions[name] : undefined;
}

/** Whether a sign before an operand is a function of it, as √ is. */
export function isRoot(sign: string): boolean {
  return Object.hasOwn(SPELLINGS.prefixes, sign);
}

/** Whether a name stands for a number. */
export function isConstant(name: string): boolean {
  return Object.hasOwn(CONSTANTS, name);
}

function* tokens(text: string): Generator<Token> {
  let offset = 0;
  while (offset < text.length) {
    TOKEN.lastIndex = offset;
    const match = TOKEN.exec(text);
    if (match === null) refuse(String.fromCodePoint(text.codePointAt(offset)!), offset, text.slice(offset));
    const kinds = Object.entries(match.groups!).filter(([, part]) => part !== undefined);
    const kind = kinds[0]![0] as Token["kind"] | "space";
    if (kind !== "space") yield { kind, text: meaning(kind, match[0], offset), offset, written: match[0] };
    offset += match[0].length;
  }
  yield { kind: "end", text: "", offset: text.length, written: "" };
}

/** What the text of a token stands for. */
function meaning(kind: Token["kind"], written: string, offset: number): string {
  if (kind === "name") return nameOf(written, offset);
  if (kind === "raised") return [...written].map((letter) => "0123456789+-"[RAISED.indexOf(letter)]).join("");
  const known = kind !== "sign" || infixOf(written) || prefixOf(written);
  return known || !Object.hasOwn(SPELLINGS.signs, written) ? written : SPELLINGS.signs[written]!;
}

/** A name in its normal form; letters and digits that cannot be part of one are refused. */
function nameOf(written: string, offset: number): string {
  const text = written.replace(/[₀-₉]/g, (digit) => String(LOWERED.indexOf(digit)));
  if (!IDENTIFIER.test(text)) refusePart(text, written, offset);
  let at = offset;
  for (const letter of written) {
    if (RAISED_LETTERS.includes(letter)) {
      const hint = `for a power write ^${letter.normalize("NFKC")}`;
      fail(`${quoted(letter)} is a raised letter and not part of a name; ${hint}`, at);
    }
    at += letter.length;
  }
  const name = text.normalize("NFKC");
  if (PI_IN_NAME.test(name)) {
    const example = name.replaceAll("π", "*π*").replaceAll("**", "*").replace(/^\*+|\*+$/g, "");
    fail(`π is a number and cannot be part of the name ${name}; write ${example}`, offset);
  }
  return name;
}

/** Refuse the first letter with which a text is no name any more. */
function refusePart(text: string, written: string, offset: number): never {
  let before = "";
  for (const letter of text) {
    if (!IDENTIFIER.test(before + letter)) break;
    before += letter;
  }
  refuse(String.fromCodePoint(written.codePointAt(before.length)!), offset + before.length);
}

/** Refuse a character that has no meaning; the hint says what to write instead. */
function refuse(letter: string, offset: number, rest = ""): never {
  let hint = RAISED.includes(letter) ? "; a raised sign stands before a raised digit, as in x⁻¹" : "";
  const [over, under] = letter.normalize("NFKC").split("\u2044");
  if (under) hint = `; write (${over}/${under})`;
  if (Object.hasOwn(ADVICE.characters, letter)) hint = `; ${ADVICE.characters[letter]}`;
  const name = ATTRIBUTE.exec(rest)?.[1];
  if (name) hint = functionOf(name) || isConstant(name) ? `; write ${name} alone` : "; names have no dots";
  fail(`${quoted(letter)} has no meaning in a formula${hint}`, offset);
}

/** Cut the tokens at `;` and at new lines outside parentheses; the closing token stays on. */
export function statements(text: string): Token[][] {
  const found: Token[][] = [];
  let statement: Token[] = [];
  let depth = 0;
  for (const token of tokens(text)) {
    depth += Number(token.text === "(") - Number(token.text === ")");
    if (token.text === "\n" && depth > 0) continue;
    if (token.text === ";" && depth > 0) {
      const message = "a semicolon ends a statement; arguments have commas";
      fail(message, token.offset);
    }
    statement.push(token);
    if (token.kind !== "end") continue;
    if (statement.length > 1) found.push(markCalls(statement));
    [statement, depth] = [[], 0];
  }
  return found;
}

/** Mark the names that are applied to something in parentheses, as in `sin(x)` and `sin²(x)`. */
function markCalls(statement: Token[]): Token[] {
  statement.forEach((token, k) => {
    if (token.kind === "name" && isApplied(token, statement[k + 1]!, statement[k + 2])) token.kind = "call";
  });
  return statement;
}

function isApplied({ text }: Token, next: Token, second: Token | undefined): boolean {
  if (isConstant(text)) return false;
  return next.text === "(" || (next.kind === "raised" && second?.text === "(" && functionOf(text) !== undefined);
}

/** The name that a statement gives, if it is `name = ...`. */
export function targetOf(statement: readonly Token[]): Token | null {
  return statement[0]!.kind === "name" && statement[1]!.text === "=" ? statement[0]! : null;
}
