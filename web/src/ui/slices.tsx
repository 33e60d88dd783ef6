/** Showing a part of a circuit: what a node depends on, what depends on it, or all but the node. */
import { nameOf } from "../engine";
import type { Picture } from "../layout";
import type { Action, Session } from "../state/session";
import type { Circuit } from "../types";
import { Button } from "./parts";

interface Props {
  state: Session;
  dispatch: (action: Action) => void;
}

/** How many nodes are hidden, and the way back. */
export function Hidden({ state, dispatch }: Props) {
  if (!state.hidden.length) return null;
  return (
    <p class="hidden">
      {state.hidden.length} hidden <Button onClick={() => dispatch({ type: "hide", names: [] })}>Show all</Button>
    </p>
  );
}

/** A picture without the boxes of hidden nodes; all others stay where they are. */
export function without(picture: Picture, circuit: Circuit, hidden: readonly string[]): Picture {
  if (!hidden.length) return picture;
  const names = new Set(hidden);
  const gone = (node: number): boolean => names.has(nameOf(circuit, node));
  const places = new Map<number, number>();
  const boxes = picture.boxes.filter(({ members, node }, index) => {
    if (members.length ? members.every(gone) : gone(node)) return false;
    return places.set(index, places.size);
  });
  const wires = picture.wires.flatMap((wire) => {
    const [from, to] = [places.get(wire.from), places.get(wire.to)];
    return from === undefined || to === undefined ? [] : [{ ...wire, from, to }];
  });
  return { ...picture, boxes, wires };
}
