/** The search: nodes by op, name, group, sizes and what is not finite, and where that came from. */
import { titleOf } from "../engine";
import { find, FindMistake, firstNonFinite, spoiledText, type Origin } from "../engine/questions";
import type { Blame } from "../state/data";
import { nodeOf } from "../state/selection";
import { blameOf, type Action, type Session } from "../state/session";
import { SearchForm } from "./card-parts";
import { Button, useUnique } from "./parts";

interface Props {
  state: Session;
  dispatch: (action: Action) => void;
  query: string;
  onQuery: (query: string) => void;
}

type Shared = Pick<Props, "state" | "dispatch">;

const MOST = 200;

/** The field, the results, and the way to the first NaN or infinity. */
export function FindTab({ state, dispatch, query, onQuery }: Props) {
  const about = useUnique();
  const { found, wrong } = results(state, query);
  const pick = (node: number): void => dispatch({ type: "select", selection: { kind: "node", node } });
  return (
    <div class="find">
      <SearchForm query={query} onQuery={onQuery} wrong={wrong !== ""} about={about}
        next={found.length ? () => pick(next(found, nodeOf(state.selection))) : null} />
      <p id={about} class="note">
        One or several of op:tanh, name:h, name:/^h[12]$/, group:net, rank=3, grad&gt;1e3, value&lt;0.1, nan, inf, absent (no gradient).
      </p>
      <p role="status">{wrong || (query.trim() ? countText(found.length) : "")}</p>
      {query.trim() && (
        <ul class="results">
          {found.slice(0, MOST).map((node) => (
            <li key={node}>
              <Button pressed={nodeOf(state.selection) === node} onClick={() => pick(node)}>{titleOf(state.circuit, node)}</Button>
            </li>
          ))}
        </ul>
      )}
      <NonFinites state={state} dispatch={dispatch} />
    </div>
  );
}

/** The nodes that a query finds; a query that cannot be read finds none and says why. */
export function results({ circuit, run, line }: Session, query: string): { found: number[]; wrong: string } {
  if (!query.trim()) return { found: [], wrong: "" };
  try {
    return { found: find(circuit, line.length ? run : null, query), wrong: "" };
  } catch (error) {
    if (error instanceof FindMistake) return { found: [], wrong: error.message };
    throw error;
  }
}

/** The result behind the one that is selected, around the end. */
function next(found: number[], selected: number | null): number {
  return found.find((node) => node > (selected ?? -1)) ?? found[0]!;
}

const countText = (count: number): string => (count === 1 ? "1 node" : `${count.toLocaleString("en")} nodes`);

/** Where what is not finite comes from, forward and backward. */
function NonFinites({ state, dispatch }: Shared) {
  if (!state.line.length) return null;
  const blame = blameOf(state);
  if (blame) return <Blamed state={state} blame={blame} dispatch={dispatch} />;
  const { forward, backward } = firstNonFinite(state.run);
  const origins = [forward, backward].filter((origin) => origin !== null);
  if (!origins.length) return <p class="note">Every value and gradient of this run is finite.</p>;
  return (
    <section aria-label="First non-finite">
      {origins.map((origin) => (
        <Broken key={origin.phase} state={state} origin={origin} dispatch={dispatch} />
      ))}
    </section>
  );
}

/** What Python says about it, with what to try. */
function Blamed({ state, blame, dispatch }: Shared & { blame: Blame }) {
  return (
    <section aria-label="First non-finite">
      <pre class="code">{blame.text}</pre>
      {blame.origins.map((origin) => <Visit key={origin.node} state={state} origin={origin} dispatch={dispatch} />)}
    </section>
  );
}

function Visit({ state, origin: { node, phase }, dispatch }: Shared & { origin: Blame["origins"][number] | Origin }) {
  return <Button keys="G" onClick={() => dispatch({ type: "visit", node, phase })}>Go to {titleOf(state.circuit, node)}</Button>;
}

function Broken({ state, origin, dispatch }: Shared & { origin: Origin }) {
  const place = state.circuit.nodes[origin.node]!.place;
  const spoiled = origin.spoils.slice(0, 4).map((spot) => spoiledText(state.run, spot));
  return (
    <p>
      <b>First non-finite, {origin.phase}:</b> {origin.said}
      {place ? ` (${place.file}:${place.line})` : ""}. {spoiled.length ? `It spoils ${spoiled.join(", ")}. ` : ""}
      <Visit state={state} origin={origin} dispatch={dispatch} />
    </p>
  );
}
