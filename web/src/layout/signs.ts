/** What is written in and under a box: the sign of its op, and its source expression. */
import { SPELLINGS } from "../engine/ops.generated";
import { clip, clipFront, MINUS, TIMES } from "./letters";

/** Functions that formulas may write as one sign: σ, √. */
const FUNCTION_SIGNS: Readonly<Record<string, string>> = Object.fromEntries(
  [...Object.entries(SPELLINGS.functions), ...Object.entries(SPELLINGS.prefixes)].flatMap(([sign, name]) =>
    sign.length === 1 ? [[name, sign]] : [],
  ),
);

/** How many columns of an op, a caption and a name are shown. */
const OP = 20;
const CAPTION = 16;
const NAME = 18;

/** Return an op as its box shows it: `+`, `×`, `2×`, `^2`, `σ`, or a word. */
export function signOf(text: string): string {
  if (Object.hasOwn(FUNCTION_SIGNS, text)) return FUNCTION_SIGNS[text]!;
  const infix = /^(\S*) ([^\s,]+) (\S*)$/.exec(text);
  const bare = infix && text.includes("\u00b7") ? `${infix[1]}${infix[2]}${infix[3]}`.replace("\u00b7", "") : text;
  const isSign = !/[A-Za-z]/.test(bare);
  const typeset = bare.replaceAll("-", MINUS).replaceAll("**", "^").replaceAll("*", TIMES);
  return clip(isSign ? typeset.replaceAll("/", "\u00f7") : typeset, OP);
}

/** Whether an op is written as a word: it then has a wider box and smaller letters. */
export function isWord(sign: string): boolean {
  return [...sign].length > 2;
}

/** Return a source expression as it stands under a box. */
export function captionText(text: string): string {
  const typeset = text.replaceAll(" ** ", "^").replaceAll("**", "^").replaceAll(" * ", "\u00b7").replaceAll("*", "\u00b7");
  return typeset.replaceAll("-", MINUS);
}

/** Return a caption cut to the room it has. */
export function shortCaption(text: string): string {
  return clip(captionText(text), CAPTION);
}

/** Return a name cut to the room it has; of a path the end says most. */
export function nameText(name: string, most = NAME): string {
  return name.includes(".") || name.includes("/") ? clipFront(name, most) : clip(name, most);
}

/** A part of an expression: a name of one letter is italic, the digits behind it are a subscript. */
export interface MathPart {
  text: string;
  look: "italic" | "upright" | "subscript";
}

/** Return the parts of an expression or a name as a book would set them. */
export function mathParts(text: string): MathPart[] {
  const found: MathPart[] = [];
  for (const [part, letters, digits] of text.matchAll(/(\p{L}[\p{L}_.]*)(\d*)|[^\p{L}]+/gu)) {
    if (letters === undefined) found.push({ text: part, look: "upright" });
    else if ([...letters].length > 1) found.push({ text: part, look: "upright" });
    else {
      found.push({ text: letters, look: "italic" });
      if (digits) found.push({ text: digits, look: "subscript" });
    }
  }
  return found;
}
