/** Keeps the address of the page and its state together. */
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Action, Session } from "../state/session";
import { faultOf, hashOf, stateOf } from "../state/url";

/** Steps and drags come many times a second: the address follows once they pause for so many milliseconds. */
const PAUSE = 120;

/** A state that the address does not have yet. */
interface Waiting {
  state: Session;
  timer: ReturnType<typeof setTimeout>;
}

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
  const waiting = useRef<Waiting | null>(null);
  const forget = (): Session | null => {
    clearTimeout(waiting.current?.timer);
    const state = waiting.current?.state ?? null;
    waiting.current = null;
    return state;
  };
  const settle = (): void => write(forget(), false);
  useLayoutEffect(() => {
    if (!whole) return;
    const other = last.current !== state.source;
    last.current = state.source;
    if (other) {
      settle();
      write(state, true);
    } else {
      forget();
      waiting.current = { state, timer: setTimeout(settle, PAUSE) };
    }
  }, [state.source, state.leaves, state.at, state.selection, state.options]);
  useEffect(() => {
    if (!whole) return;
    const read = (): void => {
      forget();
      say(badLink(location.hash, "What was shown stays"));
      const found = stateOf(location.hash, current.current.options);
      if (!found || location.hash === hashOf(current.current)) return;
      last.current = found.source;
      dispatch({ type: "load", session: found });
    };
    const stop = new AbortController();
    addEventListener("popstate", read, stop);
    addEventListener("pagehide", settle, stop);
    return () => stop.abort();
  }, [whole]);
}

/** The sentence about an address that cannot be read; empty where it can. */
export function badLink(hash: string, instead: string): string {
  const fault = faultOf(hash);
  return fault && `This link cannot be read: ${fault}. ${instead}.`;
}

/** Some hosts do not let a page write its address; everything else works without it. */
function write(state: Session | null, entry: boolean): void {
  const hash = state && hashOf(state);
  if (hash === null || hash === location.hash) return;
  try {
    if (entry) history.pushState(null, "", hash);
    else history.replaceState(null, "", hash);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
  }
}
