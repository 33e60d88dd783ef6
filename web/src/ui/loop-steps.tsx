/** The inside of a loop: its body with the numbers of one step, and a slider over the steps. */
import { useMemo, useState } from "preact/hooks";
import { fitted, picture } from "../layout";
import type { Known } from "../state/known";
import type { Selection } from "../state/selection";
import type { Loop, Run } from "../types";
import { CircuitView } from "./circuit";
import { useUnique } from "./parts";
import { show } from "./text";

/** The room of the picture in a card. */
const FRAME = { width: 350, height: 420 };

/** The body of a loop at one step. The slider visits the steps that Python sent: all of them, or some spread evenly. */
export function LoopSteps({ loop, title }: { loop: Loop; title: string }) {
  const [at, setAt] = useState(0);
  const [selection, select] = useState<Selection | null>(null);
  const id = useUnique();
  const last = loop.shown.length - 1;
  const run = loop.runs[Math.min(at, last)]!;
  const step = loop.shown[Math.min(at, last)]!;
  const [whole, setWhole] = useState(false);
  const places = useMemo(
    () => (whole ? { circuit: loop.circuit, options: { down: true }, minimap: true } : fitted(loop.circuit, loop.runs[0]!, FRAME, { down: true })),
    [loop.circuit, whole],
  );
  const drawn = useMemo(() => picture(places.circuit, { ...places.options, run }), [places, run]);
  const known = useMemo(() => knownAfter(run), [run]);
  const text = loop.steps === 1 ? "runs once" : `step ${step + 1} of ${loop.steps.toLocaleString("en")}`;
  return (
    <section class="loop-steps" aria-label={`Inside ${title}`}>
      <h3>Inside</h3>
      {last > 0 && <>
        <label for={id}>{text}{loop.shown.length < loop.steps && ` (${loop.shown.length} of them are here)`}</label>
        <input id={id} type="range" min={0} max={last} step={1} value={at} aria-valuetext={text}
          onInput={(event) => setAt(Number(event.currentTarget.value))} />
      </>}
      {last === 0 && <p>{text}</p>}
      <div class="area">
        <CircuitView picture={drawn} minimap={places.minimap} run={run} known={known} selection={selection} mode="signed"
          extras={null} onSelect={select} />
      </div>
      <label><input type="checkbox" checked={whole} onChange={() => setWhole(!whole)} /> every node</label>
      <p class="note" aria-live="polite">{summary(loop, run)}</p>
    </section>
  );
}

/** What the step returns, in words. */
function summary({ circuit }: Loop, run: Run): string {
  return circuit.outputs.map(({ label, node }) => `${label} = ${show(run.values[node]!)}`).join(", ");
}

/** Everything is known of a step that has run forward and backward. */
function knownAfter(run: Run): Known {
  return {
    value: run.values.map(() => true),
    staleValue: run.values.map(() => false),
    grad: run.grads.map(() => "final"),
    partial: run.values.map(() => null),
    arrived: run.values.map(() => 0),
    due: run.values.map(() => 0),
    wire: run.wires.map(() => "final"),
  };
}
