/** Listens to the keyboard; what the keys do is in `key-commands.ts`. */
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Action, Session } from "../state/session";
import { findDrawers } from "./late";
import type { TabKey } from "./panels";

interface Wiring {
  state: Session;
  dispatch: (action: Action) => void;
  root: RefObject<HTMLElement>;
  whole: boolean;
  query: string;
  /** The groups that are open in the picture. */
  groups: readonly string[];
  onPlay: () => void;
  onTab: (tab: TabKey) => void;
  onLeaves: () => void;
  /** Closes the drawer that an element stands in, if it does. */
  onClose: (inside: Element) => boolean;
  onWhy: () => void;
  onHelp: () => void;
}

/** Listen to the keyboard; says whether the circuit was entered, and lets it be entered. */
export function useCommands(wiring: Wiring): { inside: boolean; onInside: (inside: boolean) => void } {
  const [inside, setInside] = useState(false);
  const anchor = useRef(-1);
  const now = useRef<Now>({ ...wiring, inside, setInside, anchor });
  now.current = { ...wiring, inside, setInside, anchor };
  useEffect(() => {
    const listen = (event: KeyboardEvent): void | undefined => findDrawers()?.answerKey(event, now.current);
    const target: HTMLElement | Document | null = wiring.whole ? document : wiring.root.current;
    target?.addEventListener("keydown", listen as EventListener);
    return () => target?.removeEventListener("keydown", listen as EventListener);
  }, [wiring.whole]);
  return { inside, onInside: setInside };
}

/** What a key can act on. */
export interface Now extends Wiring {
  inside: boolean;
  setInside: (inside: boolean) => void;
  /** The node from which W goes round its wires. */
  anchor: { current: number };
}
