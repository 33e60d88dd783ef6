/** The inspector: one card about what is selected, with a way back to the card before. */
import { opOf, titleOf as nodeTitle } from "../engine";
import type { Shown } from "../state/known";
import type { Selection } from "../state/selection";
import type { Action, Session } from "../state/session";
import type { Lit } from "../types";
import { GroupCard } from "./group-card";
import { LeafCard, NodeCard } from "./node-card";
import { Card } from "./card-parts";
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
  /** A way to light a path in the picture while a row of "why" is pointed at, focused or pinned; null: none. */
  onLight?: (lit: Lit | null) => void;
}

/** The panel on the right; on a narrow page a sheet at the bottom. */
export function Inspector(props: CardProps) {
  const { state, dispatch } = props;
  const { selection } = state;
  if (!selection) return null;
  return (
    <aside class="inspector open" aria-label="Inspector">
      <Card title={titleOf(state, selection)} about={kindOf(state, selection)}
        back={state.trail.length > 0 && (() => dispatch({ type: "back" }))}
        close={() => dispatch({ type: "select", selection: null })}>
        <Body {...props} selection={selection} />
      </Card>
    </aside>
  );
}

function titleOf({ circuit }: Session, selection: Selection): string {
  if (selection.kind === "group") return selection.path || "circuit";
  if (selection.kind === "wire") return wireText(circuit, selection.reader, selection.slot).replace(/ of \d+$/, "");
  return nodeTitle(circuit, selection.node);
}

function kindOf({ circuit }: Session, selection: Selection): string {
  if (selection.kind === "group") return "group";
  if (selection.kind === "splitter") return "splitter";
  return selection.kind === "node" ? kindText(circuit, selection.node) : "wire";
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
