/** The page that the explorer stands in: where its data is, and its text as it was before anything was drawn. */
import { refusal } from "../large/answers";

/** The id of the data block of a page, and of the element in which the explorer stands. */
export const DATA = "wiregrad-data";
export const ROOT = "explorer";

/** The text of a page that holds its own script and nothing drawn: this one as it was, or one from the server. What it
 * throws can be shown. */
export type OwnPage = () => Promise<string>;

/** Take the page down before the explorer fills it. */
export function untouchedPage(): OwnPage {
  if ([...document.scripts].some((script) => script.src)) return served;
  const text = `<!doctype html>\n${document.documentElement.outerHTML}`;
  return async () => text;
}

async function served(): Promise<string> {
  const response = await fetch("/export").catch(() => null);
  if (!response) throw new Error("Not saved: the server does not answer. Is it still running?");
  const text = await response.text();
  if (!response.ok) throw new Error(`Not saved: ${refusal(text, response.status)}`);
  return text;
}
