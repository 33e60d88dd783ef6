/** Buttons on a card that leave only a part of the circuit in the picture. */
import { nameOf } from "../engine";
import type { Action, Session } from "../state/session";
import { ancestors, descendants } from "./circuit";
import { Button } from "./parts";

/** Buttons on a card that hide a part of the circuit. */
export function Slices({ state, dispatch, node }: { state: Session; dispatch: (action: Action) => void; node: number }) {
  const { circuit, hidden } = state;
  const keep = (kept: Set<number>) => (): void => {
    const names = circuit.nodes.flatMap((_, index) => (kept.has(index) ? [] : [nameOf(circuit, index)]));
    dispatch({ type: "hide", names: [...new Set([...hidden, ...names])] });
  };
  return (
    <div class="buttons" role="group" aria-label="Show a part">
      <Button label="Show only what this depends on" onClick={keep(ancestors(circuit, node))}>Sources only</Button>
      <Button label="Show only what depends on this" onClick={keep(descendants(circuit, node))}>Readers only</Button>
      <Button onClick={() => dispatch({ type: "hide", names: [...hidden, nameOf(circuit, node)] })}>Hide</Button>
    </div>
  );
}
