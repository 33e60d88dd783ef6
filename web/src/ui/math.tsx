/** Formulas as the browser's own MathML. Screen readers read the plain text beside it. */
import type { ComponentChildren } from "preact";

/** Names, numbers with the sign they begin with, and signs of arithmetic. */
const TOKEN = /(?<=[(=] ?)-inf|[\p{L}_%][\p{L}\w.]*|(?:(?<=[(=] ?)-)?\d[\d.]*(?:e[+-]?\d+)?|\*\*|\S/gu;
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
  return /\d|inf/.test(token) ? <mn>{token.replace("-", "−")}</mn> : <mo>{SIGNS[token] ?? token}</mo>;
}

/** Upstream × local = sent, with the words under the numbers. */
export function Product({ numbers: [upstream, local, sent] }: { numbers: readonly [string, string, string] }) {
  const told = (number: string, name: string) => (
    // Of one height, so that the words stand on one line.
    <munder><mn>{number.replace("-", "−")}</mn><mpadded height="0.9em"><mtext>{name}</mtext></mpadded></munder>
  );
  return (
    <Twin text={`upstream ${upstream} × local ${local} = sent ${sent}`}>
      <math>
        {told(upstream, "upstream")}<mo>×</mo>{told(local, "local")}<mo>=</mo>{told(sent, "sent")}
      </math>
    </Twin>
  );
}
