/** Small pieces that the screens of a lesson share. */
import { Named } from "../ui/named";
import { inlineParts } from "./course";
import { CLAIMS, NEUTRAL, PROMPTS, TEXTS, TITLES, WORDS } from "./sentences.generated";

/** The sign of what is settled. */
export function Tick() {
  return (
    <svg class="tick" width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
      <circle cx="8" cy="8" r="8" /><path d="M4.500 8.300l2.400 2.400 4.700-5" />
    </svg>
  );
}

/** A text with its marks. */
export function Inline({ text }: { text: string }) {
  return (
    <>
      {inlineParts(text).map(({ text: part, look }, key) => {
        if (look === "bold") return <b key={key}><Inline text={part} /></b>;
        if (look === "code") return <code key={key}>{part}</code>;
        return look === "name" ? <Named key={key} text={part} /> : part;
      })}
    </>
  );
}

/** The words that follow an "a" in the sentences of the engine: there it is no name. */
const AFTER_ARTICLE = new Set(
  [TITLES, TEXTS, NEUTRAL, PROMPTS, CLAIMS, WORDS].flatMap((table) =>
    Object.values(table).flatMap((text) => [...text.matchAll(/(?<![\w{])[Aa] ([a-z]+)/g)].map((found) => found[1]!)),
  ),
);

/** Whether a part of a text is an article, by what follows. */
function isArticle(part: string, rest: string): boolean {
  return part.toLowerCase() === "a" && AFTER_ARTICLE.has(/^ ([a-z]+)/.exec(rest)?.[1] ?? "");
}

/** Words of the engine, in which names of the circuit stand as they are: set them as names. */
export function WithNames({ text, names }: { text: string; names: readonly string[] }) {
  const sorted = [...names].sort((one, two) => two.length - one.length).map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (!sorted.length) return <>{text}</>;
  const parts = text.split(new RegExp(`(?<![\\p{L}\\p{N}_·])(${sorted.join("|")})(?![\\p{L}\\p{N}_·(])`, "u"));
  return <>{parts.map((part, key) => (key % 2 && !isArticle(part, parts[key + 1] ?? "") ? <Named key={key} text={part} /> : part))}</>;
}
