/** Which drawers are open. It is remembered where the browser lets a page remember something. */
import { useState } from "preact/hooks";

/** The tabs in the drawer at the foot. */
export const TABS = [
  ["table", "Table"],
  ["heat", "Heat strip"],
  ["find", "Find"],
  ["compare", "Compare"],
] as const;

export type TabKey = (typeof TABS)[number][0];

/** The lists in the drawer on the left. */
export const SIDES = [
  ["leaves", "Leaves"],
  ["source", "Source"],
  ["outline", "Outline"],
] as const;

export type SideKey = (typeof SIDES)[number][0];

export interface Panels {
  sides: readonly SideKey[];
  /** The tab in the drawer at the foot; null while it is closed. */
  tab: TabKey | null;
  /** How high the sheet of the inspector stands on a narrow page: low, middle or high. */
  sheet: 0 | 1 | 2;
}

const CLOSED: Panels = { sides: [], tab: null, sheet: 1 };
const KEY = "wiregrad.panels";

/** The drawers as they were left, and a way to change them. */
export function usePanels(): [Panels, (change: Partial<Panels>) => void] {
  const [panels, setPanels] = useState(recalled);
  const change = (part: Partial<Panels>): void =>
    setPanels((old) => {
      const next = { ...old, ...part };
      remember(next);
      return next;
    });
  return [panels, change];
}

function recalled(): Panels {
  try {
    return { ...CLOSED, ...(JSON.parse(localStorage.getItem(KEY) ?? "{}") as Partial<Panels>) };
  } catch {
    // A sandboxed page may not ask, and what is stored may be anything.
    return CLOSED;
  }
}

function remember(panels: Panels): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(panels));
  } catch {
    // Without storage the drawers are closed the next time, which is all.
  }
}
