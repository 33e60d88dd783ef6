/**
 * Brings what the first picture does not need: drawers, cards, menus, the marks of a step. Kept true: nothing is fetched for it. On a page their script
 * stands beside the first one and waits; in a notebook they are part of the one script.
 */
import { useLayoutEffect, useState } from "preact/hooks";
import type * as Parts from "./drawers";
import type * as PageParts from "./page-drawers";

/** A notebook prints itself, so that its drawers have no sheet for paper. */
export type Drawers = typeof Parts & Partial<typeof PageParts>;

/** Makes the drawers; null while their script is not there yet. */
type Source = () => Drawers | null;

let source: Source = () => null;
let drawers: Drawers | null = null;

/** Say where the drawers come from. */
export function provideDrawers(from: Source): void {
  source = from;
}

/** Return the drawers; null while their script is not there yet. */
export function findDrawers(): Drawers | null {
  drawers ??= source();
  return drawers;
}

/** Return the drawers as soon as something needs them, or else when the page has loaded. */
export function useDrawers(needed: boolean): Drawers | null {
  const [loaded, setLoaded] = useState(document.readyState === "complete");
  useLayoutEffect(() => {
    const finish = (): void => setLoaded(true);
    addEventListener("load", finish);
    return () => removeEventListener("load", finish);
  }, []);
  return needed || loaded ? findDrawers() : null;
}
