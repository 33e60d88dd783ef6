/** Small pieces of cards, drawers and menus: what the first picture has none of. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { number } from "../engine";
import { typedNumber } from "../engine/numbers";
import { Button, useUnique } from "./parts";

/** A name and what it is, as a row of a list of facts. */
export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div class="fact">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
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
