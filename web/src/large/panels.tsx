/** The panels of a large circuit: outline of groups, what is not finite, table of a picture, search. */
import { useContext, useState } from "preact/hooks";
import { counted } from "../layout/letters";
import { pretty } from "../layout/readings";
import { Link, SearchForm, Table } from "../ui/card-parts";
import { Button } from "../ui/parts";
import { Asking, useAsked, type Board, type BoardBox, type Found, type LargeData, type NodeRow, type OutlineRow, type Slices, type Where } from "./answers";
import { told } from "./parts";
import { isChild, isSame, nodeOfPicked, opens, pickedBox, type Picked } from "./where";

const MOST = 300;
export type DrawerTab = "outline" | "table" | "top" | "find" | "bad";

interface DrawerProps {
  data: LargeData;
  tab: DrawerTab;
  board: Board;
  where: Where;
  picked: Picked | null;
  query: string;
  onQuery: (query: string) => void;
  onTab: (tab: DrawerTab | null) => void;
  pick: (picked: Picked | null) => void;
  turn: (box: BoardBox) => void;
  visit: (node: number) => void;
  openPath: (path: string) => void;
}

/** The drawer on the right: one of the panels. */
export function Drawer({ data, tab, board, where, picked, query, onQuery, onTab, pick, turn, visit, openPath }: DrawerProps) {
  return (
    <div class="drawer">
      <p class="shut"><Button quiet label="Close the drawer" keys="Esc" onClick={() => onTab(null)}>✕</Button></p>
      {tab === "outline" && <Outline data={data} where={where} openPath={openPath} />}
      {tab === "table" && <BoardTable board={board} picked={picked} pick={pick} turn={turn} />}
      {tab === "top" && <section class="panel" aria-label="Largest gradients"><h2>Largest gradients</h2>
        <Nodes nodes={data.summary.top} picked={picked} visit={visit} /></section>}
      {tab === "find" && <Search query={query} onQuery={onQuery} picked={picked} visit={visit} />}
      {tab === "bad" && <NotFinite data={data} visit={visit} />}
    </div>
  );
}

/** The tree of groups: nodes, gradient norm and how many are not finite; a name opens the group in the picture. */
export function Outline({ data, where, openPath }: { data: LargeData; where: Where; openPath: (path: string) => void }) {
  const { groups, count } = data.summary.outline;
  const [turned, setTurned] = useState<readonly string[]>([]);
  if (!count) return null;
  const rows = visible(groups, turned);
  const left = rows.length - MOST;
  return (
    <section class="panel outline" aria-label="Outline">
      <h2>Outline</h2>
      <ul>
        {rows.slice(0, MOST).map(({ path, nodes, norm, bad, open }) => (
          <li key={path} style={{ paddingLeft: `${path.split("/").length - 1}rem`, alignItems: "baseline" }}>
            <span style={{ whiteSpace: "nowrap" }}>
              {open !== null && (
                <button type="button" class="quiet" aria-expanded={open} aria-label={`Groups in ${path}`}
                  onClick={() => setTurned(turned.includes(path) ? turned.filter((one) => one !== path) : [...turned, path])}>
                  {open ? "▾" : "▸"}
                </button>
              )}
              <Link current={where.opened.includes(path)} onClick={() => openPath(path)}>{path.split("/").at(-1)}</Link>
            </span>
            <span class="num">{counted(nodes, "node")}{data.summary.ran && bad < nodes && ` ‖g‖ ${told(norm)}`}
              {bad > 0 && <b class="bad"> {bad < nodes ? bad.toLocaleString("en") : "all"} not finite</b>}</span>
          </li>
        ))}
      </ul>
      {left > 0 && <p class="note">And {counted(left, "more")}.</p>}
      {count > groups.length && <p class="note">{counted(count - groups.length, "group")} left out: find nodes with group:NAME.</p>}
    </section>
  );
}

/** A row of an outline, and whether the groups in it are on show; null if there are none. */
export interface TreeRow extends OutlineRow {
  open: boolean | null;
}

/** The rows of an outline that stand in no closed group. All are closed but a lone one at the top, or as turned. */
export function visible(groups: readonly OutlineRow[], turned: readonly string[]): TreeRow[] {
  const outer = new Set(groups.map(({ path }) => path.slice(0, Math.max(path.lastIndexOf("/"), 0))));
  const lone = groups.filter(({ path }) => isChild(path, "")).length === 1;
  const opened = new Set([""]);
  return groups.flatMap((row) => {
    const { path } = row;
    if (!opened.has(path.slice(0, Math.max(path.lastIndexOf("/"), 0)))) return [];
    const open = turned.includes(path) !== (lone && !path.includes("/"));
    if (open) opened.add(path);
    return [{ ...row, open: outer.has(path) ? open : null }];
  });
}

/** The first nodes that made something non-finite of finite numbers, with their lines, and why. */
export function NotFinite({ data, visit }: { data: LargeData; visit: (node: number) => void }) {
  const { values, gradients, first } = data.summary.nonfinite;
  const [why, setWhy] = useState("");
  const ask = useContext(Asking);
  const explain = async (): Promise<void> => {
    const { answer, error } = await ask<{ blame?: { text: string } }>("/blame");
    setWhy(error || (answer?.blame?.text ?? "Python has no more to say about it."));
  };
  const bad = values.count + gradients.count;
  return (
    <section class="panel find" aria-label="First non-finite">
      <h2>First non-finite</h2>
      <p class="note">
        {bad ? `${counted(values.count, "value")} and ${counted(gradients.count, "gradient")} are not finite.` : "All values and gradients are finite."}
      </p>
      {(["forward", "backward"] as const).map((phase) => {
        const row = first[phase];
        return row && (
          <p key={phase}>{phase}: {row.op} {phase === "forward" ? `gave ${told(row.value)}` : "sends it back"}
            {row.place && <span class="code"> {row.place.file}:{row.place.line}</span>}{" "}
            <Button keys="G" onClick={() => visit(row.node)}>Go to {row.name}</Button></p>
        );
      })}
      {bad > 0 && <p><Button onClick={() => void explain()}>Why?</Button></p>}
      <pre role="status">{why}</pre>
      {bad > 0 && (
        <details>
          <summary>Which nodes</summary>
          <p>values: {runs(values)}</p>
          <p>gradients: {runs(gradients)}</p>
        </details>
      )}
    </section>
  );
}

/** Runs of nodes in words. */
export function runs({ slices, left_out }: Slices): string {
  const all = slices.map(([first, last]) => (first === last ? `%${first}` : `%${first} to %${last}`));
  return [...all, ...(left_out ? [`and ${counted(left_out, "more run")}`] : [])].join(", ") || "none";
}

/** Nodes of the whole circuit, with a way to each. */
export function Nodes({ nodes, picked, visit }: { nodes: readonly NodeRow[]; picked: Picked | null; visit: (node: number) => void }) {
  if (!nodes.length) return <p class="note">There are none.</p>;
  return (
    <Table heads={["name", "op", "value", "gradient", "group", "written at"]}
      picked={nodes.findIndex(({ node }) => node === nodeOfPicked(picked))}
      rows={nodes.map(({ node, name, op, value, grad, group, place }) => [
        <Link onClick={() => visit(node)}>{name}</Link>, op, told(value), told(grad), group, place && `${place.file}:${place.line}`,
      ])} />
  );
}

/** The board as a table: everything that is drawn, with a way into it. */
export function BoardTable({ board, picked, pick, turn }: Pick<DrawerProps, "board" | "picked" | "pick" | "turn">) {
  const rows = board.boxes.map((box) => [
    <Link onClick={() => pick(pickedBox(box))}>{box.title}</Link>,
    box.op ?? counted(box.count, "node"), pretty(box.value?.text ?? ""), pretty(box.grad?.text ?? ""), box.bad.some((node) => node >= 0) ? "yes" : "",
    (opens(box) || box.open) && <Button label={`${box.open ? "Close" : "Open"} ${box.title}`} onClick={() => turn(box)}>{box.open ? "Close" : "Open"}</Button>,
  ]);
  return (
    <section class="panel" aria-label="Table of boxes">
      <Table heads={["name", "what", "value", "gradient", "not finite", "inside"]} rows={rows}
        picked={board.boxes.findIndex((box) => isSame(pickedBox(box), picked))} />
    </section>
  );
}

/** The search of the whole circuit, which Python answers. */
export function Search({ query, onQuery, picked, visit }: {
  query: string; onQuery: (query: string) => void; picked: Picked | null; visit: (node: number) => void;
}) {
  const { answer, error } = useAsked<Found>(query.trim() ? `/find?q=${encodeURIComponent(query)}` : null);
  const nodes = answer?.nodes ?? [];
  const selected = nodeOfPicked(picked) ?? -1;
  const next = nodes.find(({ node }) => node > selected) ?? nodes[0];
  const rest = answer && answer.count > nodes.length ? `, the first ${nodes.length} shown` : "";
  return (
    <section class="panel find" aria-label="Find nodes">
      <SearchForm query={query} onQuery={onQuery} wrong={error !== ""} next={next ? () => visit(next.node) : null} />
      <p role="status">{error || (answer && counted(answer.count, "node") + rest)}</p>
      {answer && <Nodes nodes={nodes} picked={picked} visit={visit} />}
    </section>
  );
}
