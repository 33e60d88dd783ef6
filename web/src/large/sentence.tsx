/** One sentence about the step that just happened, in the words of the program. */
import { useContext, useEffect, useState } from "preact/hooks";
import { Asking, type Blamed, type Stop } from "./answers";
import type { Spot } from "./passage";

interface Props {
  spot: Spot;
  halted: Stop | null;
  blamed: Blamed | null;
  /** Whether there is a server that knows the sentences of steps. */
  served: boolean;
  total: boolean;
  /** In which iteration of the loop the step is. */
  where: string;
  error: string;
}

/** How long a position must last before its sentence is asked for. */
const WAIT_MS = 120;

/** The sentence; marks around words of the program become code. */
export function Sentence(props: Props) {
  const { spot, halted, where, error, total } = props;
  const asked = useStepText(props);
  const text = error || (halted ? haltText(props) : total ? "Both passes are done: every node has its value and its gradient." : plain(spot, where, asked));
  return (
    <p class="told-step" role="status" aria-live="polite">
      {text.split("`").map((part, k) => (k % 2 ? <code key={k}>{part}</code> : part))}
    </p>
  );
}

function plain({ phase }: Spot, where: string, asked: string): string {
  if (phase === "start") return "Nothing is computed yet. Press Play, or step.";
  if (phase === "seed") return "The seed: the gradient of the output is 1.";
  const name = phase === "forward" ? "Forward" : "Backward";
  return `${name}${where && `, ${where}`}${asked ? `: ${asked}` : ""}`;
}

/** What stopped a pass, why, and what to write instead, as Python's blame says it. */
function haltText({ halted, blamed }: Props): string {
  const { phase, text, node } = halted!;
  const origins = blamed?.blame?.origins.filter((origin) => origin.phase === phase) ?? [];
  const origin = origins.find((one) => one.node === node) ?? origins[0];
  const name = phase === "forward" ? "Forward" : "Backward";
  const what = /Inf|infinity/.test(text) && !/by|NaN/.test(text) ? "infinity" : "NaN";
  const because = origin ? `, because ${origin.said.replace(/, at /, " at ")}` : "";
  return `${name} stopped at the first ${what}: ${text}${because}.${origin?.suggestion ? ` Try ${origin.suggestion.replace(/^(?:use|write) /, "")}.` : ""}`;
}

/** The sentence of a step, asked for when the position rests. */
function useStepText({ spot: { phase, node }, served, halted }: Props): string {
  const ask = useContext(Asking);
  const key = served && !halted && node >= 0 ? `/step/${phase}/${node}` : "";
  const [told, setTold] = useState({ key: "", text: "" });
  useEffect(() => {
    if (!key) return;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      ask<{ text: string; place: string }>(key, stop.signal).then(
        ({ answer }) => answer && setTold({ key, text: answer.text }),
        (error: unknown) => {
          if (!stop.signal.aborted) throw error;
        },
      );
    }, WAIT_MS);
    return () => (clearTimeout(timer), stop.abort());
  }, [key]);
  return told.key === key ? told.text : "";
}
