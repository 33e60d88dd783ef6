/** Two runs of the same circuit side by side: the one that was pinned and the one that is shown. */
import { nameOf } from "../engine";
import { leavesText, type Action, type Session } from "../state/session";
import type { Run, Value } from "../types";
import { Button } from "./parts";
import { numeric, show } from "./text";

interface Props {
  state: Session;
  dispatch: (action: Action) => void;
}

/** Pin a run, change something, and see what changed. */
export function CompareTab({ state, dispatch }: Props) {
  const { pinned } = state;
  if (!pinned) {
    return (
      <div>
        <p class="note">Pin this run, then change a leaf: values and gradients of both runs stand here side by side.</p>
        <Button onClick={() => dispatch({ type: "pin", pin: true })}>Pin this run</Button>
      </div>
    );
  }
  return (
    <div>
      <p class="note">
        Pinned: {pinned.label}. Now: {leavesText(state.leaves)}.{" "}
        <Button onClick={() => dispatch({ type: "pin", pin: true })}>Pin this run instead</Button>{" "}
        <Button onClick={() => dispatch({ type: "pin", pin: false })}>Unpin</Button>
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
  return (
    <table>
      <thead>
        <tr>
          {HEADS.map((head) => <th key={head} scope="col">{head}</th>)}
        </tr>
      </thead>
      <tbody>
        {run.circuit.nodes.slice(0, 500).map((_, node) => {
          const name = nameOf(run.circuit, node);
          const before = old.get(name);
          return (
            <tr key={node}>
              <th scope="row">
                <button type="button" class="plain" onClick={() => dispatch({ type: "select", selection: { kind: "node", node } })}>
                  {name}
                </button>
              </th>
              <Cells before={before === undefined ? null : pinned.values[before]!} now={run.values[node]!} />
              <Cells before={before === undefined ? null : pinned.grads[before]!} now={run.grads[node]!} />
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function Cells({ before, now }: { before: Value | null; now: Value | null }) {
  const change = difference(before, now);
  return (
    <>
      <td class="num">{show(before)}</td>
      <td class="num">{show(now)}</td>
      <td class={change === "0" ? "num same" : "num"}>{change}</td>
    </>
  );
}

function difference(before: Value | null, now: Value | null): string {
  const [one, two] = [numeric(before), numeric(now)];
  if (one === null || two === null) return before === now ? "0" : "–";
  if (Object.is(one, two)) return "0";
  const change = show(two - one);
  return two > one ? `+${change}` : change;
}
