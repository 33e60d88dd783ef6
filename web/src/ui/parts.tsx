/** Small pieces that several panels share. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { number } from "../engine";
import { typedNumber } from "./text";

/** A name and what it is, as a row of a list of facts. */
export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div class="fact">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** A button with a word on it; `keys` names its shortcut. */
export function Button(props: {
  onClick: () => void;
  children: ComponentChildren;
  label?: string;
  keys?: string;
  disabled?: boolean;
  pressed?: boolean;
  quiet?: boolean;
}) {
  const title = [props.label, props.keys && `(${props.keys})`].filter(Boolean).join(" ");
  return (
    <button
      type="button"
      class={props.quiet ? "quiet" : undefined}
      onClick={props.onClick}
      disabled={props.disabled}
      aria-label={props.label}
      aria-pressed={props.pressed}
      title={title || undefined}
    >
      {props.children}
    </button>
  );
}

/** A word that opens a list below it; a press elsewhere, Escape or a pick (a button without `data-stay`) closes it. */
export function Menu(props: { label: string; title?: string; children: ComponentChildren }) {
  const menu = useRef<HTMLDetailsElement>(null);
  const close = (): void => {
    if (menu.current) menu.current.open = false;
  };
  useEffect(() => {
    const outside = (event: Event): void => {
      if (!menu.current?.contains(event.composedPath()[0] as Node)) close();
    };
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, []);
  const keyed = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" || !menu.current?.open) return;
    event.preventDefault();
    close();
    menu.current.querySelector("summary")?.focus();
  };
  const picked = (event: MouseEvent): void => {
    if (event.target instanceof Element && event.target.closest("button:not([data-stay])")) close();
  };
  return (
    <details ref={menu} class="menu" onKeyDown={keyed} onClick={picked}>
      <summary title={props.title} aria-label={props.title}>{props.label}</summary>
      <div class="items">{props.children}</div>
    </details>
  );
}

/** A word that does something. */
export function Link(props: { label?: string; current?: boolean; onClick: () => void; children: ComponentChildren }) {
  return (
    <button type="button" class="plain" aria-label={props.label} aria-current={props.current} onClick={props.onClick}>
      {props.children}
    </button>
  );
}

/** A table whose first column names the rows; one row may be picked, and the title may be for the ear alone. */
export function Table({ heads, rows, picked = -1, title, aloud }: {
  heads: readonly string[]; rows: ComponentChildren[][]; picked?: number; title?: string; aloud?: boolean;
}) {
  return (
    <table class={title && "sends"}>
      {title && <caption class={aloud ? "aloud" : undefined}>{title}</caption>}
      <thead><tr>{heads.map((head) => <th key={head} scope="col">{head}</th>)}</tr></thead>
      <tbody>
        {rows.map(([name, ...cells], k) => (
          <tr key={k} class={k === picked ? "picked" : undefined}>
            <th scope="row">{name}</th>
            {cells.map((cell, column) => <td key={column} class="num">{cell}</td>)}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A card about one thing; `back` leads to the card before. */
export function Card({ title, about, back, close, children }: {
  title: string; about: string; back?: (() => void) | false; close: () => void; children: ComponentChildren;
}) {
  return (
    <article class="card">
      <header>
        {back && <Button quiet label="Back to what was selected before" onClick={back}>←</Button>}
        <div class="title"><h2>{title}</h2><p>{about}</p></div>
        <Button quiet label="Close the card" keys="Esc" onClick={close}>✕</Button>
      </header>
      {children}
    </article>
  );
}

/** What stands in the inspector while nothing is selected. */
export function Hint({ children }: { children: ComponentChildren }) {
  return <div class="hint"><h2>Inspector</h2><p>{children}</p></div>;
}

/** The field of a search; `next` goes to the next result, null where there is none. */
export function SearchForm({ query, onQuery, wrong, next, about }: {
  query: string; onQuery: (query: string) => void; wrong: boolean; next: (() => void) | null; about?: string;
}) {
  const id = useUnique();
  return (
    <form role="search" onSubmit={(event) => {
      event.preventDefault();
      next?.();
    }}>
      <label for={id}>Find</label>
      <input id={id} type="search" autoComplete="off" spellcheck={false} placeholder="op:tanh grad>1e3" value={query}
        aria-describedby={about} aria-invalid={wrong} onInput={(event) => onQuery(event.currentTarget.value)} />
      <button title="Next result (N)" aria-label="Next result" disabled={!next}>Next</button>
    </form>
  );
}

/** A field for a number, with all its digits while it is edited; what is typed takes effect while it is a number. */
export function NumberField(props: {
  id?: string;
  label?: string;
  value: number;
  disabled?: boolean;
  onChange: (value: number) => void;
}) {
  const [draft, setDraft] = useState<string | null>(null);
  const wrong = draft !== null && typedNumber(draft) === null;
  const type = (text: string): void => {
    setDraft(text);
    const value = typedNumber(text);
    if (value !== null) props.onChange(value);
  };
  return (
    <input
      id={props.id}
      class="number"
      type="text"
      inputMode="decimal"
      autoComplete="off"
      spellcheck={false}
      aria-label={props.label}
      aria-invalid={wrong}
      disabled={props.disabled}
      value={draft ?? number(props.value)}
      onFocus={() => setDraft(whole(props.value))}
      onInput={(event) => type(event.currentTarget.value)}
      onBlur={() => setDraft(null)}
    />
  );
}

/** A number to be edited: as it is shown if that is all of it, so that what was selected stays so, else with all digits. */
function whole(value: number): string {
  return typedNumber(number(value)) === value ? number(value) : String(value);
}

let made = 0;

/** An id that no other element has, even where several explorers stand on one page. */
export function useUnique(): string {
  const [id] = useState(() => `wg-${++made}`);
  return id;
}

/** A choice from a few words. */
export function Choice<Key extends string>(props: {
  label: string;
  value: Key;
  options: readonly (readonly [Key, string])[];
  onChange: (value: Key) => void;
}) {
  const id = useUnique();
  return (
    <span class="choice">
      <label for={id}>{props.label}</label>
      <select id={id} value={props.value} onChange={(event) => props.onChange(event.currentTarget.value as Key)}>
        {props.options.map(([key, text]) => (
          <option key={key} value={key}>
            {text}
          </option>
        ))}
      </select>
    </span>
  );
}

/** A box to tick. */
export function Switch(props: { label: string; on: boolean; title?: string; onChange: (on: boolean) => void }) {
  return (
    <label class="switch" title={props.title}>
      <input type="checkbox" checked={props.on} onChange={(event) => props.onChange(event.currentTarget.checked)} />
      <span>{props.label}</span>
    </label>
  );
}

/** Light or dark: as chosen, or as the system has it. */
export function useTheme(chosen: string): string {
  const dark = useMedia("(prefers-color-scheme: dark)");
  return chosen === "system" ? (dark ? "dark" : "light") : chosen;
}

/** Whether a media query holds, kept up to date. */
export function useMedia(query: string): boolean {
  const [holds, setHolds] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const update = (): void => setHolds(list.matches);
    update();
    list.addEventListener("change", update);
    return () => list.removeEventListener("change", update);
  }, [query]);
  return holds;
}
