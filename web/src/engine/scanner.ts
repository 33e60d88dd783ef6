/**
 * Cuts a formula into tokens and statements. Offsets are in UTF-16 units of the text.
 */
import { signs } from "./table";
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

/** A number, a name, a sign, or the end of a statement, and where it begins. */
export interface Token {
  kind: "number" | "name" | "end" | "sign";
  text: string;
  offset: number;
}

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const escapedSigns = [...signs, ..."(),="].map((sign) => sign.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|");
const TOKEN = new RegExp(
  "(?<space>[ \\t\\r]+)" +
    "|(?<number>(?:[0-9]+\\.?[0-9]*|\\.[0-9]+)(?:[eE][-+]?[0-9]+)?)" +
    "|(?<name>(?![0-9])[\\p{L}\\p{N}_]+)" +
    "|(?<end>[;\\n])" +
    `|(?<sign>${escapedSigns})`,
  "uy",
);
const IDENTIFIER = /^[\p{XID_Start}_]\p{XID_Continue}*$/u;

function* tokens(text: string): Generator<Token> {
  let offset = 0;
  while (offset < text.length) {
    TOKEN.lastIndex = offset;
    const match = TOKEN.exec(text);
    if (match === null) {
      fail(`${quoted(String.fromCodePoint(text.codePointAt(offset)!))} has no meaning in a formula`, offset);
    }
    const { space, name, number, end } = match.groups!;
    if (name !== undefined) yield { kind: "name", text: checked(name, offset), offset };
    else if (space === undefined) {
      yield { kind: number !== undefined ? "number" : end !== undefined ? "end" : "sign", text: match[0], offset };
    }
    offset += match[0].length;
  }
  yield { kind: "end", text: "", offset: text.length };
}

/** A name in its normal form; letters and digits that cannot be part of one are refused. */
function checked(name: string, offset: number): string {
  if (IDENTIFIER.test(name)) return name.normalize("NFKC");
  let before = "";
  for (const letter of name) {
    if (!IDENTIFIER.test(before + letter)) {
      const power = SUPERSCRIPTS.indexOf(letter);
      const hint = power < 0 ? "" : `; for a power write **${power}`;
      fail(`${quoted(letter)} has no meaning in a formula${hint}`, offset + before.length);
    }
    before += letter;
  }
  return name;
}

/** Cut the tokens at `;` and at new lines outside parentheses; the closing token stays on. */
export function statements(text: string): Token[][] {
  const found: Token[][] = [];
  let statement: Token[] = [];
  let depth = 0;
  for (const token of tokens(text)) {
    depth += Number(token.text === "(") - Number(token.text === ")");
    if (token.text === "\n" && depth > 0) continue;
    statement.push(token);
    if (token.kind !== "end") continue;
    if (statement.length > 1) found.push(statement);
    [statement, depth] = [[], 0];
  }
  return found;
}

/** The name that a statement gives, if it is `name = ...`. */
export function targetOf(statement: readonly Token[]): Token | null {
  return statement[0]!.kind === "name" && statement[1]!.text === "=" ? statement[0]! : null;
}
