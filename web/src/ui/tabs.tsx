/** The drawer under the circuit, with a tab for each of its views. */
import type { ComponentChildren } from "preact";
import { Button, useUnique } from "./parts";

interface Props<Key extends string> {
  tabs: readonly (readonly [Key, string])[];
  tab: Key;
  onTab: (tab: Key) => void;
  /** A way to close the drawer; none where it is always open. */
  onClose?: () => void;
  children: ComponentChildren;
}

/** A list of tabs and the panel of the one that is open; arrow keys go from tab to tab. */
export function Tabs<Key extends string>({ tabs, tab, onTab, onClose, children }: Props<Key>) {
  const id = useUnique();
  const turn = (event: KeyboardEvent): void => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const index = tabs.findIndex(([key]) => key === tab);
    const next = tabs[(index + by + tabs.length) % tabs.length]![0];
    onTab(next);
    const list = event.currentTarget as HTMLElement;
    list.querySelector<HTMLElement>(`[data-tab=${next}]`)?.focus();
  };
  return (
    <section class="tabs" aria-label="More views">
      <div role="tablist" aria-label="More views" onKeyDown={turn}>
        {tabs.map(([key, title]) => (
          <button key={key} type="button" role="tab" id={`${id}-${key}`} data-tab={key} aria-selected={key === tab}
            aria-controls={id} tabIndex={key === tab ? 0 : -1} onClick={() => onTab(key)}>
            {title}
          </button>
        ))}
      </div>
      {onClose && <Button quiet label="Close the drawer" keys="Esc" onClick={onClose}>✕</Button>}
      <div role="tabpanel" id={id} aria-labelledby={`${id}-${tab}`}>{children}</div>
    </section>
  );
}
