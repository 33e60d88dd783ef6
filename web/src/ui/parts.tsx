/** Small pieces that several panels share. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
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

/** A field for a number: what is typed stays as typed until it is left, and takes effect while it is a number. */
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
      value={draft ?? String(props.value)}
      onInput={(event) => type(event.currentTarget.value)}
      onBlur={() => setDraft(null)}
    />
  );
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
