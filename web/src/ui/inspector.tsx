/** The inspector: one card about what is selected, with a way back to the card before. */
import type { ComponentChildren } from "preact";
import { nameOf, opOf } from "../engine";
import type { Shown } from "../state/known";
import type { Selection } from "../state/selection";
import type { Action, Session } from "../state/session";
import { GroupCard } from "./group-card";
import { LeafCard, NodeCard } from "./node-card";
import { Button } from "./parts";
import { SplitterCard } from "./splitter-card";
import { kindText, wireText } from "./text";
import { WireCard } from "./wire-card";

export interface CardProps {
  state: Session;
  shown: Shown;
  dispatch: (action: Action) => void;
  /** Whether "why this gradient" is open, and a way to open it. */
  why: boolean;
  onWhy: (open: boolean) => void;
  /** The groups that are open in the picture. */
  open: readonly string[];
}

/** The panel on the right; on a narrow page a sheet at the bottom. */
export function Inspector(props: CardProps) {
  const { state, dispatch } = props;
  const { selection } = state;
  return (
    <aside class={selection ? "inspector open" : "inspector"} aria-label="Inspector">
      {selection ? (
        <article class="card">
          <header>
            {state.trail.length > 0 && (
              <Button quiet label="Back to what was selected before" onClick={() => dispatch({ type: "back" })}>←</Button>
            )}
            <div class="title">
              <h2>{titleOf(state, selection)}</h2>
              <p>{kindOf(state, selection)}</p>
            </div>
            <Button quiet label="Close the card" keys="Esc" onClick={() => dispatch({ type: "select", selection: null })}>✕</Button>
          </header>
          <Body {...props} selection={selection} />
        </article>
      ) : (
        <Hint>
          Pick a node, a wire or a splitter in the circuit to see its numbers: what arrives, the local derivative, and what is
          sent on.
        </Hint>
      )}
    </aside>
  );
}

function Hint({ children }: { children: ComponentChildren }) {
  return (
    <div class="hint">
      <h2>Inspector</h2>
      <p>{children}</p>
    </div>
  );
}

function titleOf({ circuit }: Session, selection: Selection): string {
  if (selection.kind === "group") return selection.path || "circuit";
  if (selection.kind === "wire") return wireText(circuit, selection.reader, selection.slot).split(",")[0]!;
  return nameOf(circuit, selection.node);
}

function kindOf({ circuit }: Session, selection: Selection): string {
  if (selection.kind === "group") return "group";
  if (selection.kind === "splitter") return "splitter";
  if (selection.kind === "node") return kindText(circuit, selection.node);
  return `wire, ${wireText(circuit, selection.reader, selection.slot).split(", ")[1] ?? "the only input"}`;
}

function Body({ selection, ...props }: CardProps & { selection: Selection }) {
  const { circuit } = props.state;
  if (selection.kind === "group") return <GroupCard {...props} path={selection.path} />;
  if (selection.kind === "wire") return <WireCard {...props} reader={selection.reader} slot={selection.slot} />;
  if (selection.kind === "splitter") return <SplitterCard {...props} node={selection.node} />;
  const { op } = circuit.nodes[selection.node]!;
  if (op === "input" || op === "constant") return <LeafCard {...props} node={selection.node} />;
  return opOf(op)?.pattern === "merge" ? (
    <SplitterCard {...props} node={selection.node} />
  ) : (
    <NodeCard {...props} node={selection.node} />
  );
}
