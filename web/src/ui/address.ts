/** Keeps the address of the page and its state together. */
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Action, Session } from "../state/session";
import { faultOf, hashOf, stateOf } from "../state/url";

/**
 * Write every state into the address: another circuit is a new entry of the history, a step is not. What an address asks
 * for in vain is said.
 */
export function useAddress(
  state: Session, dispatch: (action: Action) => void, whole: boolean, say: (text: string) => void,
): void {
  const last = useRef(state.source);
  const current = useRef(state);
  current.current = state;
  // Before anything is painted: whoever reads the address then reads what is shown.
  useLayoutEffect(() => {
    if (!whole) return;
    const hash = hashOf(state);
    const other = last.current !== state.source;
    last.current = state.source;
    if (hash !== null && hash !== location.hash) write(hash, other);
  }, [state.source, state.leaves, state.at, state.selection, state.options]);
  useEffect(() => {
    if (!whole) return;
    const read = (): void => {
      say(badLink(location.hash, "What was shown stays"));
      const found = stateOf(location.hash, current.current.options);
      if (!found || location.hash === hashOf(current.current)) return;
      last.current = found.source;
      dispatch({ type: "load", session: found });
    };
    addEventListener("popstate", read);
    return () => removeEventListener("popstate", read);
  }, [whole]);
}

/** The sentence about an address that cannot be read; empty where it can. */
export function badLink(hash: string, instead: string): string {
  const fault = faultOf(hash);
  return fault && `This link cannot be read: ${fault}. ${instead}.`;
}

/** Some hosts do not let a page write its address; everything else works without it. */
function write(hash: string, entry: boolean): void {
  try {
    if (entry) history.pushState(null, "", hash);
    else history.replaceState(null, "", hash);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
  }
}
