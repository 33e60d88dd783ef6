/** Small pieces of the explorer of a large circuit: words that act, tables, cards, numbers in words. */
import type { ComponentChildren } from "preact";
import { readValue } from "../state/data";
import { Button } from "../ui/parts";
import { show } from "../ui/text";
import type { Told } from "./answers";
import type { Picked, Where } from "./where";

/** What panels may do: show a part, pick something, go to one node, search. */
export interface Ways {
  go: (where: Where) => void;
  pick: (picked: Picked | null) => void;
  visit: (node: number) => void;
  find: (query: string) => void;
}

/** A number of JSON for people. */
export function told(value: Told | undefined): string {
  return show(readValue(value));
}

/** A word that does something. */
export function Link(props: { label?: string; current?: boolean; onClick: () => void; children: ComponentChildren }) {
  return (
    <button type="button" class="plain" aria-label={props.label} aria-current={props.current} onClick={props.onClick}>
      {props.children}
    </button>
  );
}

/** A table whose first column names the rows; one row may be picked. */
export function Table({ heads, rows, picked = -1, title }: {
  heads: string[]; rows: ComponentChildren[][]; picked?: number; title?: string;
}) {
  return (
    <table class={title && "sends"}>
      {title && <caption>{title}</caption>}
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

/** A card about one thing. */
export function Card({ title, about, pick, children }: {
  title: string; about: string; pick: Ways["pick"]; children: ComponentChildren;
}) {
  return (
    <article class="card">
      <header>
        <div class="title"><h2>{title}</h2><p>{about}</p></div>
        <Button quiet label="Close the card" keys="Esc" onClick={() => pick(null)}>✕</Button>
      </header>
      {children}
    </article>
  );
}
