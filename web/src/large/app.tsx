/**
 * The explorer of a circuit that stays in Python: pictures of its groups, asked for as they are opened, down to one
 * wire. Kept true: what is on show says what it leaves out, and everything drawn is in the table too.
 */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { CircuitView } from "../ui/circuit";
import { HeatStrip } from "../ui/heat";
import { Button, Choice, Link, useTheme } from "../ui/parts";
import { Tabs } from "../ui/tabs";
import { DIRECTIONS, THEMES } from "../ui/topbar";
import { firstNode, sibling, towardsReader, towardsSource } from "../ui/walk";
import { ask, Asking, keptIn, useAsked, type LargeData, type ToldView } from "./answers";
import { Inspector } from "./cards";
import { Nodes, NotFinite, Outline, Search, ViewTable } from "./panels";
import { drawnOf, pickedOf, selectionOf } from "./picture";
import { around, crumbs, viewPath, WHOLE, type Picked, type Where } from "./where";

const TABS = [["table", "Table"], ["heat", "Heat strip"], ["top", "Largest gradients"], ["find", "Find"]] as const;
type TabKey = (typeof TABS)[number][0];

interface Props {
  data: LargeData;
  down: boolean;
}

/** The explorer of a large circuit: asks the server that holds it, or looks up what a file keeps. */
export function LargeApp(props: Props) {
  const { answers } = props.data.summary;
  return <Asking.Provider value={useMemo(() => (answers ? keptIn(answers) : ask), [])}><Large {...props} /></Asking.Provider>;
}

function Large({ data, down: upright }: Props) {
  const { summary } = data;
  // A file can neither be searched nor draw anything anew.
  const served = !summary.answers;
  const title = data.circuit?.name ?? "";
  const [trail, setTrail] = useState<readonly Where[]>([WHOLE]);
  const [picked, setPicked] = useState<Picked | null>(null);
  const [tab, setTab] = useState<TabKey>("table");
  const [query, setQuery] = useState("");
  const [down, setDown] = useState(upright && served);
  const [theme, setTheme] = useState<(typeof THEMES)[number][0]>("system");
  const root = useRef<HTMLDivElement>(null);
  const where = trail.at(-1)!;
  const path = viewPath(where, down);
  const asked = useAsked<ToldView>(path, down ? null : summary.view);
  const waiting = asked.path !== path;
  const view = asked.answer ?? summary.view;
  const drawn = useMemo(() => drawnOf(view, title, down && view !== summary.view), [view]);
  const selection = useMemo(() => selectionOf(view, drawn, picked), [view, picked]);
  const go = (next: Where): void => {
    setTrail([...trail, next]);
    if (picked?.kind === "box" || picked?.kind === "bundle") setPicked(null);
  };
  const visit = (node: number): void => {
    const there = around(node, summary.size);
    if (served || summary.answers![viewPath(there, false)]) setTrail([...trail, there]);
    setPicked({ kind: "node", node });
  };
  const back = (): void => {
    if (trail.length > 1) setTrail(trail.slice(0, -1));
  };
  const open = (box: number): void => {
    // Until the answer is there, what is on show is not what it is called.
    const next = waiting ? null : view.boxes[box]?.inside;
    if (next) go(next);
  };
  const find = (text: string): void => {
    setQuery(text);
    setTab("find");
  };
  const openPicked = (): void => {
    if (picked?.kind === "box") open(picked.box);
  };
  const first = summary.nonfinite.first.forward ?? summary.nonfinite.first.backward;
  const keyed = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isField(event.target)) return;
    const act: (() => void) | undefined = {
      "/": () => {
        if (served) setTab("find");
        setTimeout(() => root.current?.querySelector<HTMLElement>("input[type=search]")?.focus());
      },
      g: () => first && visit(first.node),
      t: () => setTab("table"),
      o: openPicked,
      Backspace: back,
      Escape: () => setPicked(null),
      ...(isCircuit(event.target) ? walks() : {}),
    }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };
  const walks = (): Record<string, () => void> => {
    const { circuit } = drawn.run;
    const from = selection ?? firstNode(circuit);
    const ranks = view.boxes.map(({ rank }) => rank);
    const to = (next: typeof from) => () => setPicked(pickedOf(view, drawn, next));
    if (!from) return {};
    return {
      Enter: selection ? openPicked : to(from),
      ArrowRight: to(towardsReader(circuit, from)),
      ArrowLeft: to(towardsSource(circuit, from)),
      ArrowUp: to(sibling(ranks, from, -1)),
      ArrowDown: to(sibling(ranks, from, 1)),
    };
  };
  const latest = useRef(keyed);
  latest.current = keyed;
  useEffect(() => {
    const listen = (event: KeyboardEvent): void => latest.current(event);
    document.addEventListener("keydown", listen);
    return () => document.removeEventListener("keydown", listen);
  }, []);
  return (
    <div ref={root} class="wg-app whole" data-theme={useTheme(theme)} tabIndex={-1}>
      <header class="top">
        <h1>wiregrad</h1>
        <p class="note">{data.note}</p>
        <div class="view" role="group" aria-label="View">
          {served && <Choice label="Direction" value={down ? "td" : "lr"} options={DIRECTIONS} onChange={(to) => setDown(to === "td")} />}
          <Choice label="Theme" value={theme} options={THEMES} onChange={setTheme} />
          {served && <a href="/export" download style={{ color: "inherit" }}>Save as one file</a>}
        </div>
      </header>
      <div class="left">
        <NotFinite data={data} visit={visit} />
        <Outline data={data} where={where} go={go} />
      </div>
      <main class="centre">
        <section class="drawing" aria-label="Circuit" aria-busy={waiting} onDblClick={openPicked}>
          <CircuitView picture={drawn.picture} run={drawn.run} known={drawn.known} selection={selection} mode="signed"
            onSelect={(next) => setPicked(pickedOf(view, drawn, next))} />
        </section>
        <nav class="stepper buttons" aria-label="Where this is">
          <Button label="Back to the picture before" keys="Backspace" disabled={trail.length < 2} onClick={back}>←</Button>
          {crumbs(where).map(({ text, where: there }, k, all) => (
            <span key={k}>{k > 0 && "› "}
              <Link current={k === all.length - 1} onClick={() => go(there)}>{text}</Link></span>
          ))}
          <span role="status">{asked.error || (waiting ? "Asking…" : view.note || view.about)}</span>
        </nav>
        <Tabs tabs={served ? TABS : TABS.filter(([key]) => key !== "find")} tab={tab} onTab={setTab}>
          {tab === "table" && <ViewTable view={view} picked={picked} pick={setPicked} open={open} />}
          {tab === "heat" && <HeatStrip heat={summary.heat} find={served ? find : null} />}
          {tab === "top" && <Nodes nodes={summary.top} picked={picked} visit={visit} />}
          {tab === "find" && <Search query={query} onQuery={setQuery} picked={picked} visit={visit} />}
        </Tabs>
      </main>
      <Inspector view={view} picked={picked} pick={setPicked} open={open} />
    </div>
  );
}

function isField(target: EventTarget | null): boolean {
  return target instanceof Element && target.matches("input, textarea, select");
}

function isCircuit(target: EventTarget | null): boolean {
  return target instanceof Element && target.matches(".circuit");
}
