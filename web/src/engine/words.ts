/**
 * Words of messages, as Python has them: the repr of a string, and the nearest of some names.
 */

/** The least likeness of two names that are called similar. */
const CUTOFF = 0.75;
/** Shorter names are similar only to names of the same letters: `cat` is one letter from `cast`, but no slip for it. */
const COMPARED_LETTERS = 4;
const ESCAPES: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const UNPRINTABLE = /(?! )[\p{C}\p{Z}]/gu;

/**
 * Write everything that does not print as an escape. Names, groups and files come from users and may hold anything; what
 * comes out has no control characters and no marks that turn the reading direction.
 */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (letter) => {
    const code = letter.codePointAt(0)!;
    const [mark, width] = code < 0x100 ? ["x", 2] as const : code < 0x10000 ? ["u", 4] as const : ["U", 8] as const;
    return ESCAPES[letter] ?? `\\${mark}${code.toString(16).padStart(width, "0")}`;
  });
}

/** Write a string in quotes as Python's `repr` does. */
export function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = [...text].map((letter) => (letter === quote || letter === "\\" ? `\\${letter}` : printable(letter)));
  return quote + escaped.join("") + quote;
}

/** Write a string in quotes, cut to a width. */
export function shown(text: string, width = 40): string {
  const whole = [...quoted(text)];
  return whole.length <= width ? whole.join("") : `${whole.slice(0, width - 3).join("")}...`;
}

/**
 * Return '; did you mean ...?' for the nearest known name, or nothing. A name of fewer letters than `fewest` is similar
 * only to names of the same letters.
 */
export function suggest(name: string, known: readonly string[], fewest = COMPARED_LETTERS): string {
  const others = known.filter((text) => text !== name);
  const same = others.find((text) => text.toLowerCase() === name.toLowerCase());
  const longer = [...name].length > 1 ? others.filter((text) => text.startsWith(name)) : [];
  longer.sort((one, two) => one.length - two.length);
  const near = same ?? longer[0] ?? similar(name, others, fewest);
  return near === undefined ? "" : `; did you mean ${near}?`;
}

/** The first name of the same letters as a word, such as `tanh` for `tahn`, or else the name most like the word. */
function similar(word: string, known: readonly string[], fewest: number): string | undefined {
  const letters = sorted(word);
  return known.find((name) => sorted(name) === letters) ??
    ([...word].length < fewest ? undefined : nearest(word, known));
}

/** The letters of a word in order, small and capital ones alike. */
function sorted(word: string): string {
  return [...word.toLowerCase()].sort().join("");
}

/**
 * The name most like a word, small and capital letters alike; of two that are equally like it the later in the alphabet.
 */
function nearest(word: string, known: readonly string[]): string | undefined {
  let best: string | undefined;
  let score = CUTOFF;
  for (const name of known) {
    const own = likeness([...name.toLowerCase()], [...word.toLowerCase()]);
    const isLater = best === undefined || name.toLowerCase() > best.toLowerCase();
    if (own > score || (own === score && isLater)) [best, score] = [name, own];
  }
  return best;
}

/** Twice the letters that two words share, in blocks, over the letters of both: as Python's difflib measures it. */
function likeness(one: readonly string[], two: readonly string[]): number {
  const both = one.length + two.length;
  if ((2 * Math.min(one.length, two.length)) / both < CUTOFF) return 0;
  let shared = 0;
  const waiting: Range[] = [[0, one.length, 0, two.length]];
  for (let range = waiting.pop(); range; range = waiting.pop()) {
    const [a, b, size] = longestBlock(one, two, range);
    if (!size) continue;
    shared += size;
    waiting.push([range[0], a, range[2], b], [a + size, range[1], b + size, range[3]]);
  }
  return (2 * shared) / both;
}

type Range = readonly [number, number, number, number];

/** The longest block of letters that both have inside a range, the first of several. */
function longestBlock(one: readonly string[], two: readonly string[], range: Range): [number, number, number] {
  const [low, high, first, last] = range;
  let found: [number, number, number] = [low, first, 0];
  let before = new Map<number, number>();
  for (let i = low; i < high; i++) {
    const lengths = new Map<number, number>();
    for (let j = first; j < last; j++) {
      if (one[i] !== two[j]) continue;
      const size = (before.get(j - 1) ?? 0) + 1;
      lengths.set(j, size);
      if (size > found[2]) found = [i - size + 1, j - size + 1, size];
    }
    before = lengths;
  }
  return found;
}
