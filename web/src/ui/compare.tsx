/** Two runs of the same circuit side by side: the one that was pinned and the one that is shown. */
import type { ComponentChildren } from "preact";
import { nameOf, titleOf } from "../engine";
import { changedFrom, type Shown } from "../state/known";
import { leavesText, type Action, type Session } from "../state/session";
import type { Run, Value } from "../types";
import { Link, Switch, Table } from "./card-parts";
import { Button } from "./parts";
import { numeric, show } from "./text";

interface Props {
  state: Session;
  dispatch: (action: Action) => void;
}

/** Pin a run, change something, and see what changed. */
export function CompareTab({ state, shown, dispatch }: Props & { shown: Shown }) {
  const { pinned } = state;
  if (!pinned) {
    return (
      <div class="compare">
        <p class="note">Pin this run, then change a leaf: values and gradients of both runs stand here side by side.</p>
        <Button onClick={() => dispatch({ type: "pin", pin: true })}>Pin this run</Button>
      </div>
    );
  }
  return (
    <div class="compare">
      <p class="note">
        Pinned: {pinned.label}. Now: {leavesText(state.leaves)}.{" "}
        <Button onClick={() => dispatch({ type: "pin", pin: true })}>Pin this run instead</Button>{" "}
        <Button onClick={() => dispatch({ type: "pin", pin: false })}>Unpin</Button>{" "}
        {changedFrom(shown, pinned.run) && (
          <Switch label="Show the change on the circuit" on={pinned.drawn} onChange={(on) => dispatch({ type: "draw-difference", on })} />
        )}
      </p>
      <div class="scroll" tabIndex={0} role="region" aria-label="Comparison of two runs">
        <Differences state={state} pinned={pinned.run} dispatch={dispatch} />
      </div>
    </div>
  );
}

const HEADS = ["name", "value pinned", "value now", "change", "gradient pinned", "gradient now", "change of gradient"];

function Differences({ state, pinned, dispatch }: Props & { pinned: Run }) {
  const old = new Map(pinned.circuit.nodes.map((_, node) => [nameOf(pinned.circuit, node), node]));
  const { run } = state;
  const rows = run.circuit.nodes.slice(0, 500).map((_, node) => {
    const name = nameOf(run.circuit, node);
    const before = old.get(name) ?? -1;
    return [
      <Link onClick={() => dispatch({ type: "select", selection: { kind: "node", node } })}>{titleOf(run.circuit, node)}</Link>,
      ...cells(pinned.values[before] ?? null, run.values[node]!),
      ...cells(pinned.grads[before] ?? null, run.grads[node]!),
    ];
  });
  return <Table heads={HEADS} rows={rows} />;
}

function cells(before: Value | null, now: Value | null): ComponentChildren[] {
  const change = difference(before, now);
  return [show(before), show(now), <span class={change === "0" ? "same" : undefined}>{change}</span>];
}

function difference(before: Value | null, now: Value | null): string {
  const [one, two] = [numeric(before), numeric(now)];
  if (one === null || two === null) return before === now ? "0" : "–";
  return Object.is(one, two) ? "0" : show(two - one);
}
