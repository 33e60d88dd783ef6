/** The circuit as a table: complete, sortable, and the same at every position as the picture. */
import { useEffect, useState } from "preact/hooks";
import { titleOf } from "../engine";
import type { Shown } from "../state/known";
import { nodeOf } from "../state/selection";
import type { Action, Session } from "../state/session";
import type { Circuit, Value } from "../types";
import { useMedia } from "./parts";
import { brief, gradText, readersOf, valueText } from "./text";

interface Props {
  state: Session;
  shown: Shown;
  dispatch: (action: Action) => void;
}

interface Row {
  node: number;
  step: number;
  name: string;
  op: string;
  inputs: string;
  value: string;
  local: string;
  upstream: string;
  gradient: string;
}

type Column = Exclude<keyof Row, "node">;

export const COLUMNS: readonly (readonly [Column, string])[] = [
  ["step", "when its value is computed; 0 for leaves"],
  ["name", "the node and its output wire"],
  ["op", "what the node does"],
  ["inputs", "where its input wires come from"],
  ["value", "what is on the output wire"],
  ["local", "the derivative of each reader by this node"],
  ["upstream", "the gradient that arrived at each reader"],
  ["gradient", "local times upstream, added over the readers"],
];

/** What a narrow page shows first; the other columns are a way to the side. */
const FOREMOST: readonly string[] = ["upstream", "local", "gradient", "value", "name"];

function placeOf(column: Column): number {
  return -FOREMOST.indexOf(column);
}

/** How many rows there are at most, and at first: the picture need not wait for the others. */
const MOST = 500;
const FIRST = 100;

/** The table of all nodes. */
export function TableTab({ state, shown, dispatch }: Props) {
  const [order, setOrder] = useState<{ column: Column; down: boolean }>({ column: "step", down: false });
  const [most, setMost] = useState(FIRST);
  useEffect(() => {
    const later = setTimeout(() => setMost(MOST), 100);
    return () => clearTimeout(later);
  }, []);
  const narrow = useMedia("(max-width: 600px)");
  const columns = narrow ? [...COLUMNS].sort(([one], [two]) => placeOf(one) - placeOf(two)) : COLUMNS;
  const steps = stepsOf(state);
  const nodes = sortedNodes(state.circuit, keyOf(order.column, shown, steps), order.down);
  const sort = (column: Column): void => setOrder({ column, down: order.column === column && !order.down });
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Table of nodes">
      <table>
        <caption class="aloud">Every node of the circuit at this step</caption>
        <thead>
          <tr>
            {columns.map(([column, title]) => (
              <th key={column} scope="col" aria-sort={order.column !== column ? "none" : order.down ? "descending" : "ascending"}>
                <button type="button" class="plain" title={title} onClick={() => sort(column)}>
                  {column}
                  <span aria-hidden="true">{order.column === column ? (order.down ? " ▾" : " ▴") : ""}</span>
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {nodes.slice(0, most).map((node) => (
            <TableRow key={node} columns={columns} row={rowOf(shown, node, steps.get(node) ?? 0)} state={state} dispatch={dispatch} />
          ))}
        </tbody>
      </table>
      {nodes.length > MOST && <p class="note">The first {MOST} of {nodes.length.toLocaleString("en")} rows; find the others with Find.</p>}
    </div>
  );
}

function TableRow({ row, columns, state, dispatch }: { row: Row; columns: typeof COLUMNS } & Pick<Props, "state" | "dispatch">) {
  const picked = nodeOf(state.selection) === row.node;
  return (
    <tr class={picked ? "picked" : undefined}>
      {columns.map(([column]) => column === "name" ? (
        <th key={column} scope="row">
          <button type="button" class="plain" aria-pressed={picked}
            onClick={() => dispatch({ type: "select", selection: { kind: "node", node: row.node } })}>
            {row.name}
          </button>
        </th>
      ) : <td key={column} class="num" title={String(row[column])}>{row[column]}</td>)}
    </tr>
  );
}

/** The rows of all nodes in the order in which they are computed. */
export function rowsOf(state: Session, shown: Shown): Row[] {
  const steps = stepsOf(state);
  return state.circuit.nodes.map((_, node) => rowOf(shown, node, steps.get(node) ?? 0));
}

/** The step at which each node is computed. */
function stepsOf({ line }: Session): Map<number, number> {
  return new Map(line.stages.flatMap((stage, index) => (stage.kind === "forward" ? [[stage.node, index + 1]] : [])));
}

function rowOf({ run, known }: Shown, node: number, step: number): Row {
  const { op, sources } = run.circuit.nodes[node]!;
  const done = readersOf(run, node).filter((wire) => known.wire[wire] !== "none");
  const dash = (text: string): string => (text === "not computed" ? "–" : text);
  return {
    node,
    step,
    name: titleOf(run.circuit, node),
    op,
    inputs: sources.map((source) => titleOf(run.circuit, source)).join(", "),
    value: dash(valueText(run, known, node)),
    local: listed(done.map((wire) => run.wires[wire]!.local)),
    upstream: listed(done.map((wire) => run.wires[wire]!.upstream)),
    gradient: dash(gradText(run, known, node)),
  };
}

/** The numbers of a few wires; of many the first ones and how many there are. */
function listed(values: (Value | null)[]): string {
  const few = values.slice(0, 4).map((value) => (value === null ? "–" : brief(value)));
  return values.length > 4 ? `${few.join(", ")}, … ${values.length} in all` : few.join(", ") || "–";
}

type Key = (node: number) => string | number;

/** What rows are sorted by: sizes for numbers and arrays, with what is not known at the end. */
function keyOf(column: Column, { run, known }: Shown, steps: Map<number, number>): Key {
  const size = (value: Value | null | undefined): number =>
    value === null || value === undefined ? Infinity : typeof value === "object" ? value.norm : Number(value);
  const first = (node: number): number => readersOf(run, node).find((wire) => known.wire[wire] !== "none") ?? -1;
  const keys: Record<Column, Key> = {
    step: (node) => steps.get(node) ?? 0,
    name: (node) => titleOf(run.circuit, node),
    op: (node) => run.circuit.nodes[node]!.op,
    inputs: (node) => run.circuit.nodes[node]!.sources.map((source) => titleOf(run.circuit, source)).join(),
    value: (node) => (known.value[node] ? size(run.values[node]) : Infinity),
    local: (node) => size(run.wires[first(node)]?.local),
    upstream: (node) => size(run.wires[first(node)]?.upstream),
    gradient: (node) => (known.grad[node] === "none" ? Infinity : size(known.partial[node] ?? run.grads[node])),
  };
  return keys[column];
}

function sortedNodes(circuit: Circuit, key: Key, down: boolean): number[] {
  const keyed = circuit.nodes.map((_, node) => [key(node), node] as const);
  const compare = (one: string | number, two: string | number): number =>
    typeof one === "number" && typeof two === "number" ? (one < two ? -1 : one > two ? 1 : 0) : String(one).localeCompare(String(two));
  keyed.sort(([one, a], [two, b]) => (down ? -1 : 1) * compare(one, two) || a - b);
  return keyed.map(([, node]) => node);
}
