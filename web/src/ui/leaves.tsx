/** The lists of the drawer on the left: where the circuit comes from, and its leaves with fields and sliders. */
import { nameOf, number } from "../engine";
import { nodeOf } from "../state/selection";
import { canEdit, inputNames, type Action, type Session } from "../state/session";
import type { Shown } from "../state/known";
import type { Circuit } from "../types";
import { statements } from "./formula";
import { NumberField } from "./card-parts";
import { useUnique } from "./parts";
import { gradText, show } from "./text";

interface Props {
  state: Session;
  shown: Shown;
  dispatch: (action: Action) => void;
}

/** Where the circuit comes from, with the statement of the selected node marked. */
export function SourcePanel({ state }: Pick<Props, "state">) {
  const node = nodeOf(state.selection);
  const place = node === null ? undefined : state.circuit.nodes[node]?.place;
  return (
    <section class="panel source" aria-label="Source">
      <h2>Source</h2>
      {state.source.kind === "formula" ? (
        <Statements text={state.source.text} line={place?.line ?? 0} column={place?.column ?? 0} />
      ) : (
        <p class="code">
          {place ? `${place.file}:${place.line}` : `circuit ${state.circuit.name}`}
          {place?.text && <mark class="line">{place.text}</mark>}
        </p>
      )}
    </section>
  );
}

function Statements({ text, line, column }: { text: string; line: number; column: number }) {
  return (
    <ol class="code">
      {statements(text).map((part) => {
        const marked = part.line === line && part.first < column && column <= part.last;
        return <li key={`${part.line}:${part.first}`}>{marked ? <mark>{part.text}</mark> : part.text}</li>;
      })}
    </ol>
  );
}

/** The leaves, each with a field, a slider and a way back. */
export function LeavesPanel({ state, shown, dispatch }: Props) {
  const names = inputNames(state.circuit);
  return (
    <section class="panel leaves" aria-label="Leaves">
      <h2>Leaves</h2>
      {names.length === 0 && <p class="note">This circuit has no inputs.</p>}
      <ul>
        {names.map((name) => (
          <Leaf key={name} name={name} state={state} shown={shown} dispatch={dispatch} />
        ))}
      </ul>
    </section>
  );
}

function Leaf({ name, state, shown, dispatch }: Props & { name: string }) {
  const node = nameOfd(state.circuit, name);
  const id = useUnique();
  const elements = elementsOf(state, name);
  return (
    <li class="leaf">
      <label for={id}>{name}</label>
      {canEdit(state, name) ? (
        <LeafControls id={id} name={name} state={state} dispatch={dispatch} />
      ) : (
        <output id={id} class="fixed" title={show(state.run.values[node])}>{show(state.run.values[node])}</output>
      )}
      <span class="grad">
        <span aria-hidden="true">grad </span>
        <span class="aloud">gradient of {name}: </span>
        {short(gradText(shown.run, shown.known, node))}
      </span>
      {elements.length > 0 && (
        <details class="elements">
          <summary>Elements of {name}</summary>
          {elements.map((element) => (
            <label key={element}>
              {element.slice(name.length)}{" "}
              <NumberField id={`${id}${element}`} value={state.leaves[element]!}
                onChange={(value) => dispatch({ type: "leaf", name: element, value })} />
            </label>
          ))}
        </details>
      )}
    </li>
  );
}

/** The elements of an input that is an array, where they can be changed. */
function elementsOf(state: Session, name: string): string[] {
  return Object.keys(state.leaves).filter((leaf) => leaf.startsWith(`${name}[`) && canEdit(state, leaf));
}

const short = (text: string): string => (text === "not computed" ? "–" : text);

function nameOfd(circuit: Circuit, name: string): number {
  return circuit.nodes.findIndex((_, node) => nameOf(circuit, node) === name);
}

/** The field, slider and reset of one leaf. */
export function LeafControls({ id, name, state, dispatch }: Omit<Props, "shown"> & { id: string; name: string }) {
  const value = state.leaves[name]!;
  const given = state.given[name] ?? 1;
  const reach = sliderReach(given);
  return (
    <>
      <NumberField id={id} value={value} onChange={(next) => dispatch({ type: "leaf", name, value: next })} />
      <input type="range" min={-reach} max={reach} step={reach / 100} aria-label={`${name}, slider`}
        value={Number.isFinite(value) ? value : 0} aria-valuetext={number(value)}
        onInput={(event) => dispatch({ type: "leaf", name, value: rounded(event.currentTarget.value), drag: true })} />
      <button type="button" class="quiet" aria-label={`Reset ${name} to ${number(given)}`} title={`back to ${number(given)}`}
        disabled={Object.is(value, given)} onClick={() => dispatch({ type: "reset-leaf", name })}>
        ↺
      </button>
    </>
  );
}

/** How far a slider goes to either side: a round number of at least twice the given value. */
export function sliderReach(given: number): number {
  const size = Math.abs(given);
  if (!Number.isFinite(size) || size <= 2.5) return 5;
  const power = 10 ** Math.floor(Math.log10(2 * size));
  return [1, 2, 5, 10].map((digit) => digit * power).find((reach) => reach >= 2 * size)!;
}

function rounded(text: string): number {
  return Number(Number(text).toPrecision(6));
}
