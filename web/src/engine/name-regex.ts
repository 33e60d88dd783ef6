/**
 * Regular expressions for names, the same as in `src/wiregrad/explorer/large_circuits.py`. Matching takes time linear in
 * the length of a name, whatever the expression; the browser's own can take exponential time.
 *
 * An expression is a row of items: characters, `.`, `[a-z]`, `\d`, `\w`, `\s`, each perhaps with `*`, `+` or `?`; `^` and
 * `$` bind it to the ends of the name, `|` separates alternatives. Groups and counts are refused.
 */

type Test = (character: string) => boolean;
type Item = { test: Test; repeats: boolean; optional: boolean };
type Alternative = { items: Item[]; atStart: boolean; atEnd: boolean };

const MAX_ITEMS = 63;
const SETS: Record<string, Test> = {
  d: (character) => /\p{Nd}/u.test(character),
  w: (character) => /[\p{L}\p{N}_]/u.test(character),
  s: (character) => /\s/u.test(character),
};
const GROUPS = "groups are not known; write alternatives in full, as in q_proj|k_proj";
const COUNTS = "counts are not known; write the item as often as it is wanted, or + for any number";
const REFUSED: Record<string, string> = { "(": GROUPS, ")": GROUPS, "{": COUNTS, "}": COUNTS };

/** Return what says whether an expression is found in a name; throw an `Error` with what is wrong with it. */
export function nameRegex(text: string): Test {
  const alternatives = new Parser([...text]).alternatives();
  return (name) => alternatives.some((alternative) => isFound(alternative, [...name]));
}

/** Take one step per character, on all ways at once: state k says that the items before item k have been met. */
function isFound({ items, atStart, atEnd }: Alternative, name: string[]): boolean {
  const end = items.length;
  let states = begun(items, new Array<boolean>(end + 1).fill(false));
  for (const character of name) {
    if (states[end] && !atEnd) return true;
    const next = new Array<boolean>(end + 1).fill(false);
    items.forEach(({ test, repeats }, k) => {
      if (!states[k] || !test(character)) return;
      next[k + 1] = true;
      if (repeats) next[k] = true;
    });
    states = atStart ? skipped(items, next) : begun(items, next);
  }
  return states[end]!;
}

function begun(items: Item[], states: boolean[]): boolean[] {
  states[0] = true;
  return skipped(items, states);
}

/** Pass over what is optional. */
function skipped(items: Item[], states: boolean[]): boolean[] {
  items.forEach(({ optional }, k) => {
    if (states[k] && optional) states[k + 1] = true;
  });
  return states;
}

/** Reads an expression from left to right. */
class Parser {
  private at = 0;

  constructor(private readonly text: string[]) {}

  alternatives(): Alternative[] {
    const found = [this.alternative()];
    while (this.at < this.text.length) {
      this.at += 1;
      found.push(this.alternative());
    }
    return found;
  }

  private alternative(): Alternative {
    const items: Item[] = [];
    const atStart = this.takes("^");
    let atEnd = false;
    while (this.at < this.text.length && this.text[this.at] !== "|") {
      if (atEnd) throw new Error("$ stands for the end; nothing may follow it");
      if (this.takes("$")) atEnd = true;
      else items.push(this.item());
    }
    if (items.length > MAX_ITEMS) throw new Error(`it has ${items.length} items; at most ${MAX_ITEMS} are taken`);
    return { items, atStart, atEnd };
  }

  private item(): Item {
    const test = this.test();
    const sign = this.text[this.at] ?? "";
    if (!["*", "+", "?"].includes(sign)) return { test, repeats: false, optional: false };
    this.at += 1;
    // `.*?` finds the same names as `.*`.
    this.takes("?");
    return { test, repeats: sign !== "?", optional: sign !== "+" };
  }

  private test(): Test {
    const letter = this.next();
    if (REFUSED[letter]) throw new Error(REFUSED[letter]);
    if ("*+?".includes(letter)) throw new Error(`there is nothing before ${letter} that it could repeat`);
    if (letter === "^") throw new Error("^ stands for the beginning; nothing may precede it");
    if (letter === ".") return () => true;
    if (letter === "[") return this.characters();
    return letter === "\\" ? this.escape() : (character) => character === letter;
  }

  private escape(): Test {
    const letter = this.next("a backslash ends it");
    const known = SETS[letter.toLowerCase()];
    if (known) return letter in SETS ? known : (character) => !known(character);
    if (/[\p{L}\p{N}]/u.test(letter)) {
      throw new Error(`\\${letter} is not known; there are \\d, \\w and \\s, and \\ before a sign`);
    }
    return (character) => character === letter;
  }

  /** Read what stands in brackets. */
  private characters(): Test {
    const isInverse = this.takes("^");
    const tests: Test[] = [];
    while (!tests.length || !this.takes("]")) tests.push(this.member());
    return (character) => tests.some((test) => test(character)) !== isInverse;
  }

  private member(): Test {
    const first = this.next("a bracket is not closed");
    if (first === "\\") return this.escape();
    const after = this.text[this.at + 1] ?? "]";
    if (this.text[this.at] !== "-" || after === "]") return (character) => character === first;
    this.at += 2;
    const [low, high] = [first.codePointAt(0)!, after.codePointAt(0)!];
    if (after === "\\" || after === "[" || high < low) throw new Error(`${first}-${after} is no range of characters`);
    return (character) => low <= character.codePointAt(0)! && character.codePointAt(0)! <= high;
  }

  private takes(sign: string): boolean {
    const taken = this.text[this.at] === sign;
    if (taken) this.at += 1;
    return taken;
  }

  private next(otherwise = "it ends too soon"): string {
    const letter = this.text[this.at];
    if (letter === undefined) throw new Error(otherwise);
    this.at += 1;
    return letter;
  }
}
