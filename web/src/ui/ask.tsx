/** Questions about what is selected: why this gradient, is it right, what if it moved. */
import { useState } from "preact/hooks";
import { check, titleOf, nudge, paths, pathText, type Checked } from "../engine";
import { Explained } from "../large/why";
import { canRun, type Session } from "../state/session";
import type { Run } from "../types";
import type { CardProps } from "./inspector";
import { Button, Fact, useUnique } from "./parts";
import { show } from "./text";

interface NodeProps extends CardProps {
  node: number;
}

const MOST_PATHS = 32;

/** Which paths a gradient came along, with the product along each and their sum. */
export function Why({ state, node, why, onWhy }: NodeProps) {
  return (
    <details class="why" open={why} onToggle={(event) => onWhy(event.currentTarget.open)}>
      <summary>Why this gradient?</summary>
      {why && <Ways state={state} node={node} />}
    </details>
  );
}

function Ways({ state: { run, source }, node }: { state: Session; node: number }) {
  const found = paths(run, node, MOST_PATHS);
  if (!found && source.kind === "data" && source.server) return <Explained node={node} run={run} />;
  if (!found) return <p class="note">Arrays flow here, so no single number stands for a wire: ask run.explain in Python.</p>;
  const { live, total } = found;
  const name = titleOf(run.circuit, node);
  if (!found.paths.length) return <p class="note">No path carries a gradient from the output back to {name}.</p>;
  return (
    <>
      <p>
        {live === 1n ? "One path leads" : `${live.toLocaleString("en")} paths lead`} from {name} to{" "}
        {titleOf(run.circuit, found.output)}. Along a path multiply, across paths add:
      </p>
      <ol class="ways">
        {found.paths.map((path) => {
          const [product, way] = apart(pathText(run, path));
          return (
            <li key={way}>
              <b>{product.replaceAll(" x ", " × ")}</b> <span class="code">{way.replaceAll("->", "→")}</span>
            </li>
          );
        })}
      </ol>
      {live > BigInt(found.paths.length) && (
        <p>and {(live - BigInt(found.paths.length)).toLocaleString("en")} more with {show(found.rest)} together</p>
      )}
      <p>
        sum: <b>{show(total)}</b>
      </p>
    </>
  );
}

/** The product and the nodes of a path that was written on one line. */
function apart(text: string): [string, string] {
  const gap = text.indexOf("   ");
  return gap < 0 ? [text, ""] : [text.slice(0, gap), text.slice(gap).trim()];
}

/** A button that measures the gradient by differences, and both numbers. */
export function Check({ state, node }: NodeProps) {
  const [asked, setAsked] = useState<{ run: Run; node: number } | null>(null);
  if (!canRun(state.source)) return null;
  const fresh = asked?.run === state.run && asked.node === node;
  return (
    <div class="check">
      <Button onClick={() => setAsked({ run: state.run, node })}>Check by differences</Button>
      <div role="status">{fresh && <Answer found={check(state.run, { node })} />}</div>
    </div>
  );
}

function Answer({ found }: { found: Checked }) {
  const { gradient, difference, left, right, agrees, kinks } = found;
  return (
    <>
      <dl>
        <Fact name="gradient">{show(gradient)}</Fact>
        <Fact name="central difference">{show(difference)}</Fact>
        {!agrees && <Fact name="from the left, right">{`${show(left)}, ${show(right)}`}</Fact>}
      </dl>
      <p class="note">
        {agrees ? "They agree." : kinks.length ? `They differ: ${kinks[0]!.doc}.` : "They differ."}
      </p>
    </>
  );
}

/** A slider that moves what a wire carries, with the change the gradient predicts beside the one that happens. */
export function Nudge({ state, reader, slot }: CardProps & { reader: number; slot: number }) {
  const id = useUnique();
  const [by, setBy] = useState(0.1);
  const { predicted, actual } = nudge(state.run, { reader, slot }, by);
  const output = state.circuit.outputs[0] ? titleOf(state.circuit, state.circuit.outputs[0].node) : "the output";
  return (
    <section class="nudge" aria-label="Nudge">
      <label for={id}>Nudge this wire by {show(by)}</label>
      <input id={id} type="range" min={-0.1} max={0.1} step={0.01} value={by}
        onInput={(event) => setBy(Number(event.currentTarget.value))} />
      <dl>
        <Fact name="predicted change">{`${show(predicted)} (gradient × nudge)`}</Fact>
        <Fact name={`true change of ${output}`}>{show(actual)}</Fact>
      </dl>
    </section>
  );
}
