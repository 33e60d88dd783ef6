/** What floats at the top of the picture: the formula, examples, and the menus of the view and of sharing. */
import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { PRESETS } from "../state/presets";
import { canEdit, canRun, inputNames, type Action, type Options, type Session } from "../state/session";
import { FormulaBox, typeset } from "./formula";
import { SIDES, type Panels } from "./panels";
import { Button, Choice, Menu, Switch } from "./parts";
import { ShareMenu, type Saves } from "./share";
import { TABS } from "./tabs";

interface Props {
  state: Session;
  dispatch: (action: Action) => void;
  saves: Saves;
  /** Whether the explorer is the whole page, and has an address. */
  whole: boolean;
  panels: Panels;
  onPanels: (change: Partial<Panels>) => void;
  onHelp: () => void;
  /** An example was chosen. */
  onChosen: () => void;
}

export const DIRECTIONS = [["lr", "left to right"], ["td", "top down"]] as const;
export const THEMES = [["system", "system"], ["light", "light"], ["dark", "dark"]] as const;
const MODES = [["signed", "signed gradient"], ["magnitude", "|gradient|"], ["product", "|gradient × value|"]] as const;

/** The bar at the top of the page. */
export function TopBar(props: Props) {
  const { state, dispatch } = props;
  const head = useRef<HTMLElement>(null);
  const small = useSmall(head);
  return (
    <header ref={head} class="topbar"><div class="topline">
      <h1><Mark />wiregrad</h1>
      <FormulaBox state={state} dispatch={dispatch} />
      <div class="tools" role="group" aria-label="View, sharing and help">
        {small && <Menu label="Examples"><Picks {...props} presets={PRESETS} /></Menu>}
        <Menu label="View"><View {...props} /></Menu>
        <ShareMenu state={state} saves={props.saves} whole={props.whole} />
        <Button quiet label="Help" keys="?" onClick={props.onHelp}>?</Button>
      </div>
    </div>{!small && <Examples {...props} />}</header>
  );
}

/** Whether there is no room for examples beside the formula: between drawers, on a phone, in a cell of a notebook. */
function useSmall(head: RefObject<HTMLElement>): boolean {
  const [small, setSmall] = useState(false);
  useLayoutEffect(() => {
    const [bar, root] = [head.current!, head.current!.closest(".wg-app")!];
    const measure = (): void => setSmall(bar.clientWidth < 720 || root.clientHeight < 500);
    const observer = new ResizeObserver(measure);
    measure();
    observer.observe(bar);
    observer.observe(root);
    return () => observer.disconnect();
  }, []);
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

/** What is shown beside the picture, and how the picture is drawn. */
function View({ state, dispatch, panels, onPanels }: Props) {
  const { options } = state;
  const set = (change: Partial<Options>): void => dispatch({ type: "option", change });
  const runs = inputNames(state.circuit).some((name) => canEdit(state, name));
  return (
    <>
      <fieldset class="panels">
        <legend>Show</legend>
        {TABS.map(([key, title]) => (
          <Switch key={key} label={title} on={panels.tab === key} onChange={(on) => onPanels({ tab: on ? key : null })} />
        ))}
        {SIDES.map(([key, title]) => (
          <Switch key={key} label={title} on={panels.sides.includes(key)}
            onChange={(on) => onPanels({ sides: on ? [...panels.sides, key] : panels.sides.filter((side) => side !== key) })} />
        ))}
      </fieldset>
      <fieldset>
        <legend>Picture</legend>
        <Choice label="Direction" value={options.direction} options={[["auto", "as it fits"], ...DIRECTIONS]} onChange={(direction) => set({ direction })} />
        <Choice label="Colour" value={options.mode} options={MODES} onChange={(mode) => set({ mode })} />
        <Choice label="Theme" value={options.theme} options={THEMES} onChange={(theme) => set({ theme })} />
        {canRun(state.source) && (
          <Switch label="Split form" on={options.split} onChange={(split) => set({ split })}
            title="Every fan-out becomes two-way splitters, so that each wire has one reader" />
        )}
      </fieldset>
      <fieldset>
        <legend>Running</legend>
        {runs && (
          <Switch label="Live" on={options.live} onChange={(live) => set({ live })}
            title="On: an edit recomputes everything at the same step. Off: what depends on it turns stale until stepped." />
        )}
        {runs && (
          <Switch label="Accumulate like PyTorch" on={options.accumulate} onChange={(accumulate) => set({ accumulate })}
            title="A second backward pass adds to the gradients of the inputs instead of starting afresh" />
        )}
        <Switch label="Single keys such as F are shortcuts" on={options.letters} onChange={(letters) => set({ letters })} />
        <div class="edits">
          <button type="button" data-stay title="Ctrl + Z" disabled={!state.undo.length} onClick={() => dispatch({ type: "undo" })}>Undo</button>
          <button type="button" data-stay title="Ctrl + Shift + Z" disabled={!state.redo.length} onClick={() => dispatch({ type: "redo" })}>Redo</button>
        </div>
      </fieldset>
    </>
  );
}
