/** Puts names and numbers into the sentences, which are written by Python (`sentences.generated.ts`). */
import { TEXTS, TITLES } from "./sentences.generated";

export type Fields = Readonly<Record<string, string>>;

/** Put names and numbers into a template. */
export function filled(template: string, fields: Fields = {}): string {
  return Object.entries(fields).reduce((text, [name, value]) => text.replaceAll(`{${name}}`, () => value), template);
}

/** The sentence of a key that must be there. */
export function sentence(table: Readonly<Record<string, string>>, key: string): string {
  const text = table[key];
  if (text === undefined) throw new Error(`there is no sentence ${key}`);
  return text;
}

/** The title and the text of a mistake in a question of a kind. */
export function mistakeWords(kind: string, key: string, fields: Fields): { title: string; text: string } {
  const title = TITLES[`${kind}.${key}`] ?? sentence(TITLES, key);
  const text = TEXTS[`${kind}.${key}`] ?? sentence(TEXTS, key);
  return { title: filled(title, fields), text: filled(text, fields) };
}
