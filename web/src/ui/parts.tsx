/** Small pieces that several panels share. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

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

let made = 0;

/** An id that no other element has, even where several explorers stand on one page. */
export function useUnique(): string {
  const [id] = useState(() => `wg-${++made}`);
  return id;
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
