/** Keeps what was drawn: an element whose look has not changed is the very same, and Preact passes over it. */
import type { VNode } from "preact";
import { useRef } from "preact/hooks";

/** Return what was drawn under a key, as long as its look and the thing that it shows are the same. */
export type Keep = (key: string, look: string, thing: unknown, draw: () => VNode) => VNode;

/** Return a store that lives as long as its component; a component for each element would cost more than most do. */
export function useKept(): Keep {
  const drawn = useRef(new Map<string, { look: string; thing: unknown; element: VNode }>()).current;
  return (key, look, thing, draw) => {
    const old = drawn.get(key);
    if (old?.look === look && old.thing === thing) return old.element;
    const element = draw();
    drawn.set(key, { look, thing, element });
    return element;
  };
}
