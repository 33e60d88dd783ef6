/** Groups: the card of one, and the outline of all of them. */
import { isBad } from "../engine";
import { useMemo } from "preact/hooks";
import type { Circuit, Run, Value } from "../types";
import type { Action, Session } from "../state/session";
import type { CardProps } from "./inspector";
import { groupsOf, isWithin, toggled } from "./groups";
import { Fact, Link } from "./card-parts";
import { Button } from "./parts";
import { show } from "./text";

/** What is known of the nodes inside a group. */
export interface GroupSummary {
  nodes: number[];
  ops: [string, number][];
  /** The norm of the gradients, the smallest and the largest of them. */
  norm: number;
  least: number;
  most: number;
  bad: number;
  /** Wires that enter and leave. */
  enter: number;
  leave: number;
}

/** Whether a node lies in a group or in one inside it. */
export function isInside(circuit: Circuit, node: number, path: string): boolean {
  return path === "" || isWithin(circuit.nodes[node]!.group, path);
}

/** Add up what is known of a group. */
export function summaryOf(run: Run, path: string): GroupSummary {
  const { circuit } = run;
  const inside = circuit.nodes.map((_, node) => isInside(circuit, node, path));
  const nodes = circuit.nodes.flatMap((_, node) => (inside[node] ? [node] : []));
  const ops = new Map<string, number>();
  for (const node of nodes) ops.set(circuit.nodes[node]!.op, (ops.get(circuit.nodes[node]!.op) ?? 0) + 1);
  const grads = nodes.map((node) => run.grads[node]!).filter((grad) => grad !== null);
  const sizes = grads.map(sizeOf);
  return {
    nodes,
    ops: [...ops].sort((one, two) => two[1] - one[1]),
    norm: Math.sqrt(sizes.reduce((total, size) => total + size * size, 0)),
    least: sizes.reduce((least, size) => Math.min(least, size), Infinity),
    most: sizes.reduce((most, size) => Math.max(most, size), -Infinity),
    bad: nodes.filter((node) => isBad(run.values[node]) || isBad(run.grads[node])).length,
    enter: run.wires.filter(({ source, reader }) => inside[reader] && !inside[source]).length,
    leave: run.wires.filter(({ source, reader }) => inside[source] && !inside[reader]).length,
  };
}

/** The squares of the gradients in every group, and how many of its nodes are not finite. */
function outlineOf(run: Run): Map<string, { squares: number; bad: number }> {
  const found = new Map(groupsOf(run.circuit).map((path) => [path, { squares: 0, bad: 0 }]));
  run.circuit.nodes.forEach(({ group }, node) => {
    const size = sizeOf(run.grads[node]!);
    const bad = isBad(run.values[node]) || isBad(run.grads[node]);
    for (let path = group; path; path = path.slice(0, Math.max(path.lastIndexOf("/"), 0))) {
      const sums = found.get(path)!;
      sums.squares += size * size;
      sums.bad += Number(bad);
    }
  });
  return found;
}

function sizeOf(grad: Value | null): number {
  return typeof grad === "object" ? (grad?.norm ?? 0) : Number(grad);
}

/** The card of a group. */
export function GroupCard({ state, dispatch, path, open }: CardProps & { path: string }) {
  const summary = summaryOf(state.run, path);
  const inside = groupsOf(state.circuit).filter((group) => isWithin(group, path));
  const ran = state.line.length > 0;
  return (
    <>
      <dl>
        <Fact name="nodes">{summary.nodes.length.toLocaleString("en")}</Fact>
        <Fact name="ops">{summary.ops.map(([op, count]) => `${count} ${op}`).join(", ")}</Fact>
        {ran && <Fact name="gradient norm">{show(summary.norm)}</Fact>}
        {ran && Number.isFinite(summary.least) && <Fact name="gradients">{`${show(summary.least)} to ${show(summary.most)}`}</Fact>}
        {ran && <Fact name="not finite">{summary.bad}</Fact>}
        <Fact name="wires">{`${summary.enter} in, ${summary.leave} out`}</Fact>
      </dl>
      <p>
        <Button keys="O" onClick={() => dispatch({ type: "open", opened: toggled(open, path) })}>
          {open.includes(path) ? "Close" : "Open"}
        </Button>{" "}
        {inside.length > 1 && (
          <Button onClick={() => dispatch({ type: "open", opened: [...new Set([...open, ...inside])] })}>Open all inside</Button>
        )}
      </p>
    </>
  );
}

/** The tree of groups with gradient norm and how many nodes are not finite. */
export function Outline({ state, dispatch }: { state: Session; dispatch: (action: Action) => void }) {
  const groups = useMemo(() => outlineOf(state.run), [state.run]);
  if (!groups.size) return null;
  return (
    <section class="panel outline" aria-label="Outline">
      <h2>Outline</h2>
      <ul>
        {[...groups].slice(0, 300).map(([path, { squares, bad }]) => {
          const depth = path.split("/").length - 1;
          return (
            <li key={path} style={{ paddingLeft: `${depth}rem` }}>
              <Link onClick={() => dispatch({ type: "select", selection: { kind: "group", path } })}>{path.split("/").at(-1)}</Link>
              {state.line.length > 0 && <span class="num">‖g‖ {show(Math.sqrt(squares))}{bad > 0 && <b class="bad"> {bad} not finite</b>}</span>}
            </li>
          );
        })}
      </ul>
    </section>
  );
}
