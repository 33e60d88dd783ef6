/** Formulas as the browser's own MathML. Screen readers read the plain text beside it. */
import type { ComponentChildren } from "preact";

/** Names, numbers with the sign they begin with, and signs of arithmetic. */
const TOKEN = /(?<=[(=] ?)\u2212Inf|[\p{L}_%][\p{L}\w.]*|(?:(?<=[(=] ?)\u2212)?\d[\d.]*(?:e[-\u2212]?\d+)?|\*\*|\S/gu;
const SIGNS: Readonly<Record<string, string>> = { "*": "×", "**": "^", "-": "−" };

function Twin({ text, children }: { text: string; children: ComponentChildren }) {
  return (
    <p class="equation">
      <span class="aloud">{text}</span>
      <span aria-hidden="true">{children}</span>
    </p>
  );
}

/** A line such as y = x * x = 3 * 3 = 9, which may be broken before the signs of equality. */
export function Formula({ text }: { text: string }) {
  return <Twin text={text}>{text.split(/ (?==)/).map((part) => [<math>{part.match(TOKEN)?.map(symbol)}</math>, " "])}</Twin>;
}

function symbol(token: string) {
  if (/^[\p{L}_%]/u.test(token)) return <mi mathvariant="normal">{token}</mi>;
  return /\d|\u2212Inf/.test(token) ? <mn>{token}</mn> : <mo>{SIGNS[token] ?? token}</mo>;
}

/** A number of an equation, and what it is called under it. */
export interface Term {
  text: string;
  name: ComponentChildren;
  tone?: string;
}

/** Upstream × local = sent in large numbers, with the words under them. */
export function Product({ terms: [upstream, local, sent], said }: { terms: readonly [Term, Term, Term]; said: string }) {
  const term = ({ text, name, tone = "" }: Term) => (
    <span class="term"><b class={`num ${tone}`}>{text}</b><span>{name}</span></span>
  );
  return (
    <p class="product">
      <span class="aloud">{said}</span>
      <span aria-hidden="true" class="terms">{term(upstream)}<i>×</i>{term(local)}<i>=</i>{term(sent)}</span>
    </p>
  );
}
