/** The circuit in the middle of the page, and how it is entered with the keyboard. */
import { useMemo } from "preact/hooks";
import { fitted, picture, refitted, scaleOf, type Fitted, type FrameSize, type Picture } from "../layout";
import { changedFrom, type Shown } from "../state/known";
import { firstNode } from "../state/selection";
import type { Action, Session } from "../state/session";
import { firingOf } from "../state/firing";
import type { Lit } from "../types";
import { CircuitView, type CircuitExtras } from "./circuit";
import { leafEdits } from "./circuit-leaf";
import { toggled } from "./groups";
import { Hidden, without } from "./slices";

/** How many boxes there may be once a person has opened groups. */
const MOST_BOXES = 600;

interface Props {
  state: Session;
  whole: Framed;
  /** The groups that are open in it. */
  open: readonly string[];
  view: Shown;
  dispatch: (action: Action) => void;
  inside: boolean;
  onInside: (inside: boolean) => void;
  /** A path that "why" points at. */
  lit?: Lit | null;
  extras: CircuitExtras | null;
}

/** The picture of a circuit in a frame, and whether a part of it is outside. */
export interface Framed {
  picture: Picture;
  minimap: boolean;
}

/** The room that a picture has: without drawers, and beside those that are open. */
export interface Rooms {
  frame: FrameSize;
  left: FrameSize;
}

/** The picture of a circuit in a frame, in the direction and with the groups that a person has chosen. */
export function fittedTo({ circuit, run, opened, options: { direction } }: Session, frame: FrameSize): Fitted {
  return fitted(circuit, run, frame, {
    ...(direction === "auto" ? {} : { down: direction === "td" }),
    // Who opens a group wants to see into it, however long the picture gets.
    ...(opened ? { opened: new Set(opened), depth: 0, cap: MOST_BOXES } : {}),
  });
}

/**
 * The picture of the whole circuit in a frame. Places are chosen anew for another circuit or frame, never for a number;
 * and for a drawer only if nothing could be read beside it.
 */
export function usePicture(state: Session, rooms: Rooms | null): Framed {
  const { circuit, run, opened, options: { direction } } = state;
  const frame = rooms?.frame ?? null;
  const whole = useMemo(() => frame && fittedTo(state, frame), [circuit, direction, opened, frame]);
  const places = useMemo(
    () => (whole && rooms ? refitted(whole, run, rooms.left) : { circuit, options: {}, minimap: false }),
    [whole, rooms?.left],
  );
  const drawn = useMemo(() => picture(places.circuit, { ...places.options, run }), [places, run]);
  return { picture: drawn, minimap: places.minimap };
}

/** What has to be known about the picture: the first words of it, and the rest where there is more. */
function Message({ text }: { text: string }) {
  const [first, ...rest] = text.split("; ");
  if (!rest.length) return <p class="message">{first}</p>;
  return <details class="message"><summary>{first} {"\u2026"}</summary><p>{rest.join("; ")}</p></details>;
}

/** The drawing; Enter goes inside, where arrow keys follow wires. */
export function Drawing({ state, whole, open, view, dispatch, inside, onInside, lit = null, extras }: Props) {
  const { circuit, options } = state;
  const { pinned } = state;
  const changed = useMemo(() => (pinned?.drawn ? changedFrom(view, pinned.run) : null), [view, pinned]);
  const drawn = useMemo(() => {
    const part = without(whole.picture, circuit, state.hidden);
    return changed ? { ...part, scale: scaleOf(changed.run.grads.map(Number)) } : part;
  }, [whole, state.hidden, changed]);
  const firing = useMemo(() => firingOf(state), [state.run, state.line, state.at, options.size, options.still, state.selection]);
  const leaves = useMemo(() => leafEdits(state, dispatch), [state.leaves, state.circuit, state.source]);
  const note = [changed && "Every number here is the change since the pinned run", drawn.note].filter(Boolean).join("; ");
  const enter = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || inside) return;
    event.preventDefault();
    onInside(true);
    if (!state.selection) dispatch({ type: "select", selection: firstNode(circuit) });
  };
  return (
    <section class={inside ? "drawing inside" : "drawing"} aria-label="Circuit" onKeyDown={enter}
      onFocusOut={() => onInside(false)}>
      <CircuitView picture={drawn} minimap={whole.minimap} {...(changed ?? view)} selection={state.selection} mode={options.mode} extras={extras}
        firing={changed ? null : firing} lit={lit} leaves={changed ? null : leaves}
        onSelect={(selection) => dispatch({ type: "select", selection })}
        onOpen={(path) => dispatch({ type: "open", opened: toggled(open, path) })} />
      <Hidden state={state} dispatch={dispatch} />
      {note && <Message text={note} />}
    </section>
  );
}
