/** What the menu of the view holds: what is shown beside the picture, how it is drawn and how it runs. */
import { canEdit, canRun, inputNames, type Action, type Options, type Session } from "../state/session";
import { Choice, Switch } from "./card-parts";
import { SIDES, TABS, type Panels } from "./panels";

interface Props {
  state: Session;
  dispatch: (action: Action) => void;
  panels: Panels;
  onPanels: (change: Partial<Panels>) => void;
}

const DIRECTIONS = [["lr", "left to right"], ["td", "top down"]] as const;
const THEMES = [["system", "system"], ["light", "light"], ["dark", "dark"]] as const;
const MODES = [["signed", "signed gradient"], ["magnitude", "|gradient|"], ["product", "|gradient × value|"]] as const;

/** The items of the menu. */
export function ViewItems({ state, dispatch, panels, onPanels }: Props) {
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
