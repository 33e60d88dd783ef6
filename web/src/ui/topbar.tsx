/** What floats at the top of the picture: the formula, examples, and the menus of the view and of sharing. */
import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { PRESETS } from "../state/presets";
import type { Action, Session } from "../state/session";
import { FormulaBox, typeset } from "./formula";
import type { Drawers } from "./late";
import type { OwnPage } from "./page";
import type { Panels } from "./panels";
import { Button, Menu } from "./parts";

interface Props {
  state: Session;
  dispatch: (action: Action) => void;
  /** The page to save; null where there is none of its own. */
  page: OwnPage | null;
  root: RefObject<HTMLElement>;
  /** What the menus of the view and of sharing hold; null while that is not there yet. */
  drawers: Drawers | null;
  /** Whether the explorer is the whole page, and has an address. */
  whole: boolean;
  panels: Panels;
  onPanels: (change: Partial<Panels>) => void;
  onHelp: () => void;
  /** An example was chosen. */
  onChosen: () => void;
}

/** The bar at the top of the page. */
export function TopBar(props: Props) {
  const { state, dispatch, drawers } = props;
  const head = useRef<HTMLElement>(null);
  const small = useSmall(head, props.panels.tab ? LOW_WITH_DRAWER : LOW);
  return (
    <header ref={head} class="topbar"><div class="topline">
      <h1><Mark />wiregrad</h1>
      <FormulaBox state={state} dispatch={dispatch} />
      <div class="tools" role="group" aria-label="View, sharing and help">
        {small && <Menu label="Examples"><Picks {...props} presets={PRESETS} /></Menu>}
        <Menu label="View">{drawers && <drawers.ViewItems {...props} />}</Menu>
        <Menu label="Share">{drawers && <drawers.ShareItems {...props} />}</Menu>
        <Button quiet label="Help" keys="?" onClick={props.onHelp}>?</Button>
      </div>
    </div>{!small && <Examples {...props} />}</header>
  );
}

/** Explorers lower than this have no room for a row of examples, alone and with a drawer below the picture. */
const [LOW, LOW_WITH_DRAWER] = [500, 800];

/** Whether there is no room for examples below the formula: between drawers, on a phone, in a cell of a notebook. */
function useSmall(head: RefObject<HTMLElement>, low: number): boolean {
  const [small, setSmall] = useState(false);
  useLayoutEffect(() => {
    const [bar, root] = [head.current!, head.current!.closest(".wg-app")!];
    const measure = (): void => setSmall(bar.clientWidth < 720 || root.clientHeight < low);
    const observer = new ResizeObserver(measure);
    measure();
    observer.observe(bar);
    observer.observe(root);
    return () => observer.disconnect();
  }, [low]);
  return small;
}

function Mark() {
  return (
    <svg width="24" height="18" viewBox="0 0 24 18" aria-hidden="true">
      <path d="M0 9h9m13-6h-6q-5 0-5 6t5 6h6" fill="none" stroke="currentColor" stroke-width="2" />
      <circle cx="10" cy="9" r="3.4" fill="currentColor" />
    </svg>
  );
}

/** A few examples at hand, and a menu of the rest. */
function Examples(props: Props) {
  const few = PRESETS.filter(({ chip }) => chip);
  const rest = PRESETS.filter(({ chip }) => !chip);
  return (
    <div class="chips" role="group" aria-label="Examples">
      <Picks {...props} presets={few} />
      <Menu label="more" title="More examples"><Picks {...props} presets={rest} /></Menu>
    </div>
  );
}

function Picks({ state, dispatch, presets, onChosen }: Props & { presets: typeof PRESETS }) {
  const own = state.source.kind === "formula" ? state.source.preset : null;
  const pick = (key: string): void => {
    dispatch({ type: "preset", key });
    onChosen();
  };
  return (
    <>
      {presets.map(({ key, title, chip }) => (
        <button key={key} type="button" class="chip" data-preset={key} aria-pressed={key === own} onClick={() => pick(key)}>
          {chip?.includes("*") ? <span class="typeset">{typeset(chip)}</span> : (chip ?? title)}
        </button>
      ))}
    </>
  );
}
