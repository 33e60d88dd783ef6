/** Ways to hand on what is shown that work elsewhere: a link, a command, a file. */
import type { RefObject } from "preact";
import { useState } from "preact/hooks";
import type { Session } from "../state/session";
import { hashOf } from "../state/url";
import type { OwnPage } from "./page";
import { savesOf } from "./save";

/** The address that shows a state to anybody; null where this page is on one machine only, or has data from Python. */
export function linkOf(state: Session, whole: boolean, { protocol, hostname, href }: Location = location): string | null {
  const hash = whole ? hashOf(state) : null;
  const local = !/^https?:$/.test(protocol) || /^(.*\.)?localhost\.?$|^127\.|^0\.0\.0\.0$|^\[::1?\]$/.test(hostname);
  return local || hash === null ? null : href.split("#")[0] + hash;
}

/** The command that opens a formula at its leaves; null for what Python handed over. */
export function commandOf({ source, leaves }: Session): string | null {
  if (source.kind !== "formula") return null;
  const text = source.text.split("\n").map((line) => line.trim()).filter(Boolean).join("; ");
  const values = Object.entries(leaves).map(([name, value]) => `${name}=${numberText(value)}`);
  return ["wiregrad explore", quoted(text), ...values].join(" ");
}

function numberText(value: number): string {
  return Object.is(value, -0) ? "-0" : isNaN(value) ? "nan" : String(value).replace("Infinity", "inf");
}

/** A text as one word of a shell; double quotes also hold on Windows, single ones where a shell reads `!`. */
function quoted(text: string): string {
  if (text.includes("!")) return `'${text.replaceAll("'", `'\\''`)}'`;
  return `"${text.replace(/[\\"$`]/g, "\\$&")}"`;
}

/** What the menu holds: what to copy, and what to save as a file. */
export function ShareItems({ state, page, root, whole }: {
  state: Session; page: OwnPage | null; root: RefObject<HTMLElement>; whole: boolean;
}) {
  const saves = savesOf(state, page, root);
  const [said, setSaid] = useState("");
  const [link, command] = [linkOf(state, whole), commandOf(state)];
  const copy = (text: string, what: string): void => void copied(text).then((done) => {
    setSaid(done ? `${what} copied` : `The browser does not let this page copy: select the ${what.toLowerCase()} and copy it`);
  });
  const line = (what: string, text: string) => (
    <div class="copy-line">
      <input readOnly aria-label={what} class="code" value={text} onFocus={(event) => event.currentTarget.select()} />
      <button type="button" data-stay onClick={() => copy(text, what)}>Copy {what.toLowerCase()}</button>
    </div>
  );
  return (
    <>
      {link && line("Link", link)}
      {command && line("Command", command)}
      {!link && !command && <p class="note">Data from Python is in no link and no command: save a file.</p>}
      <div class="saves">
        <button type="button" data-stay disabled={!saves.html} title={saves.html ? undefined : "In a notebook: circuit.to_html in Python"}
          onClick={() => saves.html?.().catch((error: Error) => setSaid(error.message))}>
          Save the page as a file
        </button>
        <button type="button" onClick={saves.svg}>SVG picture</button>
        <button type="button" onClick={saves.json}>JSON data</button>
      </div>
      <p role="status" class={said ? "said" : "aloud"}>{said}</p>
    </>
  );
}

async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
