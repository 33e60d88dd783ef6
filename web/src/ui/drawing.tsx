/** The circuit in the middle of the page, and how it is entered with the keyboard. */
import { useMemo } from "preact/hooks";
import { picture } from "../layout";
import type { Shown } from "../state/known";
import type { Action, Session } from "../state/session";
import { CircuitView } from "./circuit";
import { Hidden, without } from "./slices";
import { firstNode } from "./walk";

/** How many boxes there may be once a person has opened groups. */
const MOST_BOXES = 600;

interface Props {
  state: Session;
  view: Shown;
  dispatch: (action: Action) => void;
  inside: boolean;
  onInside: (inside: boolean) => void;
}

/** The drawing; Enter goes inside, where arrow keys follow wires. */
export function Drawing({ state, view, dispatch, inside, onInside }: Props) {
  const { circuit, opened, options } = state;
  const whole = useMemo(
    () =>
      picture(circuit, {
        run: state.run,
        down: options.direction === "td",
        // Who opens a group wants to see into it, however long the picture gets.
        ...(opened.length ? { opened: new Set(opened), depth: 0, cap: MOST_BOXES } : {}),
      }),
    [circuit, state.run, options.direction, opened],
  );
  const drawn = useMemo(() => without(whole, circuit, state.hidden), [whole, state.hidden]);
  const enter = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || inside) return;
    event.preventDefault();
    onInside(true);
    if (!state.selection) dispatch({ type: "select", selection: firstNode(circuit) });
  };
  return (
    <section class={inside ? "drawing inside" : "drawing"} aria-label="Circuit" onKeyDown={enter}
      onFocusOut={() => onInside(false)}>
      <CircuitView picture={drawn} run={view.run} known={view.known} selection={state.selection} mode={options.mode}
        onSelect={(selection) => dispatch({ type: "select", selection })}
        onOpen={(path) => dispatch({ type: "open", path, open: true })} />
      <Hidden state={state} dispatch={dispatch} />
      {drawn.note && <p class="message">{drawn.note}</p>}
    </section>
  );
}
