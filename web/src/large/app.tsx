/**
 * The explorer of a circuit that stays in Python: a board of groups that open in place, both passes as one transport,
 * and the gradients of all nodes in one strip. Kept true: the board, the strip, the bar and the sentence show the same
 * position, and everything drawn is in the table too.
 */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { counted } from "../layout/letters";
import { Choice } from "../ui/card-parts";
import { Button, useTheme } from "../ui/parts";
import { ask, Asking, keptIn, useAsked, type Blamed, type Board, type BoardBox, type LargeData, type Where } from "./answers";
import { BoardView } from "./board-view";
import { Inspector } from "./cards";
import { HeatStrip } from "./heat";
import { Drawer, type DrawerTab } from "./panels";
import { iterationOf, passageOf, positionOf, spotAt, stepFrom, targetsOf, type Size } from "./passage";
import { Sentence } from "./sentence";
import { Transport } from "./transport";
import { boardPath, closeBox, openBox, opens, pickedBox, isSame, type Picked } from "./where";

const THEMES = [["system", "as the system"], ["light", "light"], ["dark", "dark"]] as const;

/** The explorer of a large circuit: asks the server that holds it, or looks up what a file keeps. */
export function LargeApp({ data }: { data: LargeData }) {
  const { answers } = data.summary;
  return <Asking.Provider value={useMemo(() => (answers ? keptIn(answers) : ask), [])}><Large data={data} /></Asking.Provider>;
}

function Large({ data }: { data: LargeData }) {
  const { summary } = data;
  const { loop, stops } = summary;
  // A file can neither be searched nor draw anything anew.
  const served = !summary.answers;
  const { ran } = summary;
  const passage = useMemo(() => passageOf(summary.order), []);
  const halts = useMemo(() => stops.map(({ phase, node }) => positionOf(passage, phase, node)), []);
  const [trail, setTrail] = useState<readonly Where[]>([summary.where]);
  const [picked, setPicked] = useState<Picked | null>(null);
  const [tab, setTab] = useState<DrawerTab | null>(null);
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(ran ? (halts[0] ?? passage.total) : 0);
  const [size, setSize] = useState<Size>(loop ? "iteration" : "group");
  const [chosen, setTheme] = useState<(typeof THEMES)[number][0]>("system");
  const theme = useTheme(chosen);
  const root = useRef<HTMLDivElement>(null);
  const where = trail.at(-1)!;
  const path = boardPath(where);
  const asked = useAsked<Board>(path, path === boardPath(summary.where) ? summary.board : null);
  const board = asked.answer ?? summary.board;
  const blamed = useAsked<Blamed>(stops.length ? "/blame" : null).answer;
  const spot = spotAt(passage, at);
  const halted = stops[halts.indexOf(at)] ?? null;
  const targets = useMemo(() => (size === "node" ? null : targetsOf(passage, size, board, loop, halts)), [size, board]);
  const go = (next: Where): void => setTrail([...trail, next]);
  const back = (): void => {
    if (trail.length > 1) setTrail(trail.slice(0, -1));
  };
  const turn = (box: BoardBox): void => {
    if (opens(box)) go(openBox(where, box));
    else if (box.open) go(closeBox(where, box));
  };
  const visit = async (node: number): Promise<void> => {
    const { answer } = await (served ? ask : keptIn(summary.answers!))<Where>(`/locate/${node}`);
    if (answer) setTrail((old) => [...old, answer]);
    setPicked({ kind: "node", node });
  };
  const openPath = (group: string): void => {
    const parts = group.split("/");
    const opened = parts.map((_, k) => parts.slice(0, k + 1).join("/"));
    go({ opened: [...new Set([...where.opened, ...opened])], focus: where.focus });
  };
  const find = (text: string): void => {
    setQuery(text);
    setTab("find");
  };
  const step = (by: 1 | -1): void => setAt((old) => stepFrom(old, by, targets, passage.total));
  const toStop = (): void => {
    if (!stops[0]) return;
    setAt(halts[0]!);
    void visit(stops[0].node);
  };
  const keyed = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isField(event.target)) return;
    const chosenBox = board.boxes.find((box) => isSame(pickedBox(box), picked));
    const act: (() => void) | undefined = {
      "/": () => {
        setTab(served ? "find" : "table");
        setTimeout(() => root.current?.querySelector<HTMLElement>("input[type=search]")?.focus());
      },
      g: toStop,
      t: () => setTab(tab === "table" ? null : "table"),
      o: () => chosenBox && turn(chosenBox),
      Backspace: back,
      Escape: () => (picked ? setPicked(null) : setTab(null)),
      ArrowRight: () => step(1),
      ArrowLeft: () => step(-1),
      Home: () => setAt(0),
      End: () => setAt(passage.total),
      " ": () => root.current?.querySelector<HTMLElement>(".transport [aria-pressed]")?.click(),
    }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || (event.key === " " && event.target instanceof HTMLButtonElement)) return;
    event.preventDefault();
    act();
  };
  const latest = useRef(keyed);
  latest.current = keyed;
  useEffect(() => {
    const listen = (event: KeyboardEvent): void => latest.current(event);
    document.addEventListener("keydown", listen);
    return () => document.removeEventListener("keydown", listen);
  }, []);
  const { name } = summary;
  const iteration = iterationOf(loop, spot.node);
  return (
    <div ref={root} class={`wg-app whole large${picked || tab ? " beside" : ""}`} data-theme={theme} tabIndex={-1}>
      <header class="large-top">
        <h1>wiregrad</h1>
        <p class="what"><b class="code">{name}</b>
          <span>{counted(passage.forward.length, "node")}{loop && `, ${counted(loop.starts.length, "iteration")}`}</span></p>
        <details class="menu">
          <summary>View</summary>
          <div>
            {(["outline", "table", "top", ...(served ? ["find" as const] : []), "bad"] as DrawerTab[]).map((key) => (
              <Button key={key} pressed={tab === key} onClick={() => setTab(tab === key ? null : key)}>{DRAWER_NAMES[key]}</Button>
            ))}
            <Button keys="Backspace" disabled={trail.length < 2} onClick={back}>Back to the picture before</Button>
            <Button onClick={() => go({ opened: [], focus: [] })}>Close all groups</Button>
            {stops.length > 0 && <Button keys="G" onClick={toStop}>Go to the first NaN</Button>}
            <Choice label="Theme" value={chosen} options={THEMES} onChange={setTheme} />
            {served && <a href="/export" download>Save as one file</a>}
            <p class="note">{data.note}</p>
          </div>
        </details>
      </header>
      <main class="large-main" aria-busy={asked.path !== path}>
        <BoardView board={board} spot={spot} ran={ran} stopped={halted?.node ?? -1} picked={picked} onPick={setPicked} onTurn={turn} />
        {ran && <HeatStrip heat={summary.heat} loop={loop} passage={passage} spot={spot} theme={theme} find={served ? find : null}
          stop={stops.find(({ phase }) => phase === "backward") ?? null} />}
        {ran && <Sentence spot={spot} halted={halted} blamed={blamed} served={served} total={at === passage.total}
          where={iteration === null ? "" : `${loop!.name} = ${iteration}`} error={asked.error} />}
        {!ran && <p class="told-step" role="status">{asked.error || "This circuit was not run: there are no numbers to step through."}</p>}
        {ran && <Transport passage={passage} at={at} size={size} loop={loop} stops={halts} onMove={setAt} onStep={step} onSize={setSize} />}
      </main>
      {(picked || tab) && (
        <div class="large-side">
          {picked && <Inspector board={board} picked={picked} pick={setPicked} turn={turn} />}
          {tab && <Drawer {...{ data, tab, board, where, picked, query }} onQuery={setQuery} onTab={setTab} pick={setPicked} turn={turn}
            visit={(node) => void visit(node)} openPath={openPath} />}
        </div>
      )}
    </div>
  );
}

const DRAWER_NAMES: Record<DrawerTab, string> = {
  outline: "Outline", table: "Table", top: "Largest gradients", find: "Find", bad: "Not finite",
};

function isField(target: EventTarget | null): boolean {
  return target instanceof Element && target.matches("input, textarea, select");
}
