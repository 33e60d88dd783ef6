/** The whole explorer: puts the panels together, keeps the state, the address and the keyboard. */
import { useMemo, useReducer, useRef, useState } from "preact/hooks";
import { reduce, shown as shownOf, type Action, type Session } from "../state/session";
import { useAddress } from "./address";
import { useCommands } from "./commands";
import { CompareTab } from "./compare";
import { Drawing, usePicture } from "./drawing";
import { FindTab } from "./find";
import { Outline } from "./group-card";
import { openGroups } from "./groups";
import { HeatTab } from "./heat";
import { Help } from "./help";
import { Inspector } from "./inspector";
import { About, LeavesPanel, SourcePanel } from "./leaves";
import { useTheme } from "./parts";
import { savesOf, type OwnPage } from "./save";
import { useServer } from "./server";
import { Stepper, usePlay } from "./stepper";
import { TableTab } from "./table";
import { Tabs, TABS, type TabKey } from "./tabs";
import { TopBar } from "./topbar";

interface Props {
  first: Session;
  /** The page to save; null where there is none of its own. */
  page: OwnPage | null;
  /** Whether the explorer is the whole page, and the address is its own. */
  whole: boolean;
  /** The hook by which circuits are run elsewhere; a notebook brings its own. */
  useHost?: (state: Session, dispatch: (action: Action) => void) => void;
}

/** The explorer. */
export function App({ first, page, whole, useHost = useServer }: Props) {
  const [state, dispatch] = useReducer<Session, Action>(reduce, first);
  const [tab, setTab] = useState<TabKey>("table");
  const [query, setQuery] = useState("");
  const [why, setWhy] = useState(false);
  const [help, setHelp] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const play = usePlay(state, dispatch);
  const view = useMemo(() => shownOf(state), [state.run, state.line, state.at, state.before, state.carried]);
  useAddress(state, dispatch, whole);
  useHost(state, dispatch);
  const drawn = usePicture(state);
  const groups = useMemo(() => openGroups(state, drawn), [state.opened, drawn]);
  const commands = useCommands({
    state, dispatch, root, whole, query, groups,
    onPlay: play[1],
    onTab: setTab,
    onWhy: () => setWhy((open) => !open),
    onHelp: () => setHelp(true),
  });
  const saves = savesOf(state, page, () => root.current);
  const find = (text: string): void => {
    setQuery(text);
    setTab("find");
  };
  return (
    <div ref={root} class={whole ? "wg-app whole" : "wg-app"} data-theme={useTheme(state.options.theme)} tabIndex={-1}>
      <TopBar state={state} dispatch={dispatch} saves={saves} onHelp={() => setHelp(true)} />
      <div class="left">
        <About state={state} />
        <LeavesPanel state={state} shown={view} dispatch={dispatch} />
        <SourcePanel state={state} />
        <Outline state={state} dispatch={dispatch} />
      </div>
      <main class="centre">
        <Drawing state={state} whole={drawn} open={groups} view={view} dispatch={dispatch} inside={commands.inside} onInside={commands.onInside} />
        <Stepper state={state} dispatch={dispatch} playing={play[0]} onPlay={play[1]} />
        <Tabs tabs={TABS} tab={tab} onTab={setTab}>
          {tab === "table" && <TableTab state={state} shown={view} dispatch={dispatch} />}
          {tab === "heat" && <HeatTab state={state} shown={view} onFind={find} />}
          {tab === "find" && <FindTab state={state} dispatch={dispatch} query={query} onQuery={setQuery} />}
          {tab === "compare" && <CompareTab state={state} shown={view} dispatch={dispatch} />}
        </Tabs>
      </main>
      <Inspector state={state} shown={view} dispatch={dispatch} why={why} onWhy={setWhy} open={groups} />
      {help && (
        <Help letters={state.options.letters} onClose={() => setHelp(false)}
          onLetters={(letters) => dispatch({ type: "option", change: { letters } })} />
      )}
    </div>
  );
}
