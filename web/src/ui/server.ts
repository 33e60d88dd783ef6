/** Asks the server that holds a circuit to run it at other leaves; a page without a server never asks anything. */
import { useEffect, useRef } from "preact/hooks";
import { question, readRun, type PageData } from "../state/data";
import { canRun, type Action, type Session } from "../state/session";

/** Have the circuit run again whenever its leaves change. */
export function useServer(state: Session, dispatch: (action: Action) => void): void {
  const asked = useRef(state.leaves);
  const { source, leaves, circuit } = state;
  useEffect(() => {
    if (source.kind !== "data" || !source.server || canRun(source) || asked.current === leaves) return;
    asked.current = leaves;
    const stop = new AbortController();
    void answer(question(leaves), stop.signal).then((said) => {
      if (stop.signal.aborted) return;
      if (typeof said === "string") dispatch({ type: "refused", leaves, why: said });
      else dispatch({ type: "ran", leaves, run: readRun(circuit, said) });
    });
    return () => stop.abort();
  }, [source, leaves]);
}

/** The run that the server made, or why there is none. */
async function answer(body: string, signal: AbortSignal): Promise<NonNullable<PageData["run"]> | string> {
  try {
    const response = await fetch("/run", { method: "POST", body, signal, headers: { "content-type": "application/json" } });
    if (!response.ok) return `The server refused: ${(await response.text()).slice(0, 300)}`;
    return ((await response.json()) as PageData).run ?? "The server sent no run";
  } catch (error) {
    if (error instanceof DOMException || error instanceof TypeError) return "The server does not answer";
    throw error;
  }
}
