/** The tabs under the circuit. */
import type { ComponentChildren } from "preact";
import { useUnique } from "./parts";

export type TabKey = "table" | "heat" | "find" | "compare";

const TABS: readonly (readonly [TabKey, string])[] = [
  ["table", "Table"],
  ["heat", "Heat strip"],
  ["find", "Find"],
  ["compare", "Compare"],
];

interface Props {
  tab: TabKey;
  onTab: (tab: TabKey) => void;
  children: ComponentChildren;
}

/** A list of tabs and the panel of the one that is open; arrow keys go from tab to tab. */
export function Tabs({ tab, onTab, children }: Props) {
  const id = useUnique();
  const turn = (event: KeyboardEvent): void => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const index = TABS.findIndex(([key]) => key === tab);
    const next = TABS[(index + by + TABS.length) % TABS.length]![0];
    onTab(next);
    const list = event.currentTarget as HTMLElement;
    list.querySelector<HTMLElement>(`[data-tab=${next}]`)?.focus();
  };
  return (
    <section class="tabs" aria-label="More views">
      <div role="tablist" aria-label="More views" onKeyDown={turn}>
        {TABS.map(([key, title]) => (
          <button key={key} type="button" role="tab" id={`${id}-${key}`} data-tab={key} aria-selected={key === tab}
            aria-controls={id} tabIndex={key === tab ? 0 : -1} onClick={() => onTab(key)}>
            {title}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={id} aria-labelledby={`${id}-${tab}`}>{children}</div>
    </section>
  );
}
