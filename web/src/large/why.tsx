/** Why a gradient is what it is, as Python says it. */
import { useEffect, useState } from "preact/hooks";
import { ask } from "./answers";

/** Format a line for people: the product first, then the path. */
function spoken(line: string): string {
  const [product, path] = line.trim().split("   ");
  return path ? `${product!.replaceAll(" x ", " × ")} along ${path.replaceAll("->", "→")}` : product!;
}

/** The sentences about one node; `run` is what they are about, so that they are asked for again when it changes. */
export function Explained({ node, run }: { node: number; run?: unknown }) {
  const [lines, setLines] = useState<readonly string[]>([]);
  useEffect(() => {
    const stop = new AbortController();
    setLines(["Asking…"]);
    ask<{ lines: string[] }>(`/why/${node}`, stop.signal).then(
      ({ answer, error }) => setLines(answer?.lines ?? [error]),
      (error: unknown) => {
        if (!stop.signal.aborted) throw error;
      },
    );
    return () => stop.abort();
  }, [node, run]);
  return <div role="status"><ul class="ways">{lines.map((line, k) => <li key={k}>{spoken(line)}</li>)}</ul></div>;
}
