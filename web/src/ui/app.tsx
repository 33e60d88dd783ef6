/** The whole explorer: the picture fills the frame, bars float on it, drawers stand beside it. */
import type { RefObject } from "preact";
import { useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import type { FrameSize } from "../layout";
import type { Lit } from "../types";
import type { Shown } from "../state/known";
import { reduce, shown as shownOf, type Action, type Session } from "../state/session";
import { useAddress } from "./address";
import { useCommands } from "./commands";
import { Drawing, usePicture, type Rooms } from "./drawing";
import { openGroups } from "./groups";
import { useDrawers, type Drawers } from "./late";
import { usePanels, type Panels } from "./panels";
import { Button, useTheme } from "./parts";
import type { OwnPage } from "./page";
import { useServer } from "./server";
import { Sheet } from "./sheet";
import { Stepper, usePlay } from "./stepper";
import { TABS, type TabKey } from "./panels";
import { TopBar } from "./topbar";

interface Props {
  first: Session;
  /** The page to save; null where there is none of its own. */
  page: OwnPage | null;
  /** Whether the explorer is the whole page, and the address is its own. */
  whole: boolean;
  /** What to say at the beginning, such as that a link cannot be read. */
  notice?: string;
  /** The hook by which circuits are run elsewhere; a notebook brings its own. */
  useHost?: (state: Session, dispatch: (action: Action) => void) => void;
}

/** The explorer. */
export function App({ first, page, whole, notice: firstNotice = "", useHost = useServer }: Props) {
  const [state, dispatch] = useReducer<Session, Action>(reduce, first);
  const [panels, setPanels] = usePanels();
  const [query, setQuery] = useState("");
  const [why, setWhy] = useState(false);
  const [lit, setLit] = useState<Lit | null>(null);
  const [help, setHelp] = useState(false);
  const [notice, setNotice] = useState(firstNotice);
  const root = useRef<HTMLDivElement>(null);
  const play = usePlay(state, dispatch);
  const view = useMemo(() => shownOf(state), [state.run, state.line, state.at, state.before, state.carried]);
  useAddress(state, dispatch, whole, setNotice);
  useHost(state, dispatch);
  const drawn = usePicture(state, useRooms(root));
  const groups = useMemo(() => openGroups(state, drawn.picture), [state.opened, drawn.picture]);
  const setTab = (tab: TabKey | null): void => setPanels({ tab });
  const toCircuit = (): void => root.current?.querySelector<HTMLElement>(".circuit")?.focus({ preventScroll: true });
  const close = (inside: Element): boolean => {
    const part = inside.closest(".tabs") ? { tab: null } : inside.closest(".side") ? { sides: [] } : null;
    if (!part) return false;
    setPanels(part);
    toCircuit();
    return true;
  };
  const commands = useCommands({
    state, dispatch, root, whole, query, groups,
    onPlay: play[1],
    onTab: setTab,
    onLeaves: () => panels.sides.includes("leaves") || setPanels({ sides: [...panels.sides, "leaves"] }),
    onClose: close,
    onWhy: () => setWhy((open) => !open),
    onHelp: () => setHelp(true),
  });
  useFocusBack(root, state.selection !== null, toCircuit);
  const find = (text: string): void => {
    setQuery(text);
    setTab("find");
  };
  const { tab } = panels;
  const printing = usePrinting(whole);
  const drawers = useDrawers(Boolean(printing || tab || help || state.selection || panels.sides.length || state.at));
  return (
    <div ref={root} class={whole ? "wg-app shell whole" : "wg-app shell"} data-theme={useTheme(state.options.theme)} tabIndex={-1}>
      <div class={state.mistake ? "frame typing" : "frame"}>
        <TopBar state={state} dispatch={dispatch} page={page} root={root} drawers={drawers} whole={whole}
          panels={panels} onPanels={setPanels} onHelp={() => setHelp(true)} onChosen={toCircuit} />
        <main class="desk">
          <Notices state={state} notice={notice} onClose={() => setNotice("")} />
          <Drawing state={state} whole={drawn} open={groups} view={view} dispatch={dispatch} inside={commands.inside} onInside={commands.onInside} lit={lit} extras={drawers} />
          <div class="foot">
            <Stepper state={state} dispatch={dispatch} playing={play[0]} onPlay={play[1]} />
          </div>
          {drawers && tab && (
            <drawers.Tabs tabs={TABS} tab={tab} onTab={setTab} onClose={() => setTab(null)}>
              {tab === "table" && <drawers.TableTab state={state} shown={view} dispatch={dispatch} />}
              {tab === "heat" && <drawers.HeatTab state={state} shown={view} onFind={find} />}
              {tab === "find" && <drawers.FindTab state={state} dispatch={dispatch} query={query} onQuery={setQuery} />}
              {tab === "compare" && <drawers.CompareTab state={state} shown={view} dispatch={dispatch} />}
            </drawers.Tabs>
          )}
        </main>
        {drawers && <Side drawers={drawers} panels={panels} onClose={() => setPanels({ sides: [] })} state={state} view={view} dispatch={dispatch} />}
        {drawers && state.selection && (
          <Sheet height={panels.sheet} onHeight={(sheet) => setPanels({ sheet })}>
            <drawers.Inspector state={state} shown={view} dispatch={dispatch} why={why} onWhy={setWhy} open={groups} onLight={setLit} />
          </Sheet>
        )}
      </div>
      {printing && drawers?.PrintSheet && <drawers.PrintSheet state={state} />}
      {drawers && help && <drawers.Help letters={state.options.letters} onClose={() => setHelp(false)} />}
    </div>
  );
}

/** Whether a page of its own is being printed: what is drawn at once then stands on the paper. */
function usePrinting(whole: boolean): boolean {
  const [printing, setPrinting] = useState(false);
  useLayoutEffect(() => {
    // "beforeprint" is sorted behind "b", "afterprint" before it.
    if (whole) onbeforeprint = onafterprint = ({ type }) => setPrinting(type > "b");
  }, []);
  return printing;
}

/** The drawer of lists on the left. */
function Side({ drawers, panels: { sides }, onClose, state, view, dispatch }: {
  drawers: Drawers; panels: Panels; onClose: () => void; state: Session; view: Shown; dispatch: (action: Action) => void;
}) {
  if (!sides.length) return null;
  return (
    <div class="side">
      <Button quiet label="Close the lists" keys="Esc" onClick={onClose}>✕</Button>
      {sides.includes("leaves") && <drawers.LeavesPanel state={state} shown={view} dispatch={dispatch} />}
      {sides.includes("source") && <drawers.SourcePanel state={state} />}
      {sides.includes("outline") && <drawers.Outline state={state} dispatch={dispatch} />}
    </div>
  );
}

/** What has to be said before anything else: a link that cannot be read, a run that was refused, a note of Python's. */
function Notices({ state, notice, onClose }: { state: Session; notice: string; onClose: () => void }) {
  const note = state.source.kind === "data" ? state.source.note : "";
  return (
    <div class="notices">
      {notice && <p role="alert">{notice} <Button quiet label="Close the notice" onClick={onClose}>✕</Button></p>}
      {state.trouble && <p role="alert" class="trouble">{state.trouble}. The numbers are those of the leaves before.</p>}
      {note && <p class="note">{note}</p>}
    </div>
  );
}

/** When a card closes that has the focus, give the focus back to what it was opened from. */
function useFocusBack(root: RefObject<HTMLElement>, open: boolean, toCircuit: () => void): void {
  const opener = useRef<HTMLElement | null>(null);
  const holds = root.current?.querySelector(".sheet")?.contains(document.activeElement) ?? false;
  useLayoutEffect(() => {
    if (open) opener.current = document.activeElement as HTMLElement | null;
    else if (holds && opener.current?.isConnected && opener.current !== document.body) opener.current.focus();
    else if (holds) toCircuit();
  }, [open]);
}

/** A frame that changes by less than this keeps its layout. */
const STEADY = 24;

/** The room that the picture has, with and without drawers; null before anything is measured. */
function useRooms(root: RefObject<HTMLElement>): Rooms | null {
  const [rooms, setRooms] = useState<Rooms | null>(null);
  useLayoutEffect(() => {
    const app = root.current!;
    const drawing = app.querySelector<HTMLElement>(".drawing")!;
    const measure = (): void => {
      const frame = frameOf(app);
      if (!frame.width || frame.height <= 0) return;
      setRooms((old) => joined(old, { frame, left: sizeOf(drawing) }));
    };
    // The bars grow with what they say; the frame is measured when the page changes, not when they do.
    const observers = [
      new ResizeObserver(measure),
      new ResizeObserver(() => setRooms((old) => old && joined(old, { ...old, left: sizeOf(drawing) }))),
    ];
    observers[0]!.observe(app);
    observers[1]!.observe(drawing);
    measure();
    return () => observers.forEach((observer) => observer.disconnect());
  }, []);
  return rooms;
}

function sizeOf({ clientWidth: width, clientHeight: height }: HTMLElement): FrameSize {
  return { width, height };
}

/** Return rooms in which sizes that differ by little are the old ones; the old rooms, if nothing differs. */
function joined(old: Rooms | null, next: Rooms): Rooms {
  const found = { frame: steady(old?.frame, next.frame), left: steady(old?.left, next.left) };
  return old && found.frame === old.frame && found.left === old.left ? old : found;
}

/** Return the old size, unless a new one differs by much. */
function steady(old: FrameSize | undefined, next: FrameSize): FrameSize {
  const near = (side: keyof FrameSize) => old !== undefined && Math.abs(old[side] - next[side]) < STEADY;
  return old && near("width") && near("height") ? old : next;
}

/** What is left of the explorer without its bars; drawers may cover the picture, but do not lay it out anew. */
function frameOf(app: HTMLElement): FrameSize {
  const bars = [...app.querySelectorAll<HTMLElement>(".topbar, .foot")];
  const { marginTop, marginBottom } = getComputedStyle(app.querySelector(".drawing")!);
  const taken = bars.reduce((sum, bar) => sum + bar.offsetHeight, parseFloat(marginTop) + parseFloat(marginBottom));
  return { width: app.clientWidth, height: app.clientHeight - taken };
}
