/**
 * Text as pictures have it: measured, and cut to a width. Widths are guesses, the same as Python's for letters of the
 * usual alphabets.
 */

export const MINUS = "\u2212";
export const TIMES = "\u00d7";
export const DASH = "\u2013";
export const ELLIPSIS = "\u2026";

const WIDTHS: readonly [letters: string, width: number][] = [
  [" .,:;'|!ijl", 30],
  ["(){}/\\ftrI-`", 36],
  ['[]"*^\u00b0', 42],
  ["Jcksvxyz", 54],
  ["?_0123456789abdeghnopquL$#", 60],
  ["+<>=~\u00b1\u2202\u2016\u2192" + MINUS + TIMES + DASH, 62],
  ["FTZ&ABEKPSVXYRCDHNU", 73],
  ["GOQwm", 82],
  ["MW%@", 94],
];
/** Widths of letters in hundredths of the font size; a little wider than those of the usual sans-serif fonts. */
const ADVANCE = new Map(WIDTHS.flatMap(([letters, width]) => [...letters].map((letter) => [letter, width] as const)));

/** Ranges of letters that are two columns wide: Hangul, Han, kana, full-width forms, most emoji. */
const WIDE: readonly [first: number, last: number][] = [
  [0x1100, 0x115f],
  [0x2e80, 0x303e],
  [0x3041, 0xa4cf],
  [0xa960, 0xa97c],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe30, 0xfe6f],
  [0xff01, 0xff60],
  [0xffe0, 0xffe6],
  [0x1f300, 0x1f64f],
  [0x1f680, 0x1f6ff],
  [0x1f900, 0x1f9ff],
  [0x20000, 0x3fffd],
];

/** Return how many columns a text takes. */
export function cells(text: string): number {
  let total = 0;
  for (const letter of text) total += columns(letter);
  return total;
}

function columns(letter: string): number {
  const code = letter.codePointAt(0) ?? 0;
  if (code < 128) return 1;
  if (/\p{Mn}/u.test(letter)) return 0;
  return WIDE.some(([first, last]) => first <= code && code <= last) ? 2 : 1;
}

/** Return about how wide a text is at a font size, in pixels, rounded up. */
export function width(text: string, size = 12, bold = false): number {
  let hundredths = 0;
  for (const letter of text) hundredths += ADVANCE.get(letter) ?? 100 * columns(letter);
  return Math.ceil((hundredths * size * (bold ? 107 : 100)) / 10000);
}

/** Return a text cut to so many columns, with an ellipsis where it was cut. */
export function clip(text: string, most: number): string {
  return cells(text) <= most ? text : cut([...text], most - 1).join("").trimEnd() + ELLIPSIS;
}

/** Return a path cut to so many columns from the front, where it says least. */
export function clipFront(text: string, most: number): string {
  if (cells(text) <= most) return text;
  return ELLIPSIS + cut([...text].reverse(), most - 1).reverse().join("").trimStart();
}

/** Return as many letters as fit. */
function cut(letters: readonly string[], most: number): string[] {
  let room = most;
  const end = letters.findIndex((letter) => (room -= columns(letter)) < 0);
  return letters.slice(0, end < 0 ? letters.length : end);
}

/** Write how many there are of something. */
export function counted(count: number, noun: string): string {
  return `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Write a whole number with commas between thousands. */
export function grouped(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}
