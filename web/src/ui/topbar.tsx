/** The bar at the top: presets, formula, how the circuit is shown, and ways to share and keep it. */
import type { ComponentChild } from "preact";
import { useState } from "preact/hooks";
import { PRESETS } from "../state/presets";
import { canEdit, canRun, inputNames, type Action, type Options, type Session } from "../state/session";
import { hashOf } from "../state/url";
import { FormulaBox } from "./formula";
import { Button, Choice, Switch, useMedia, useUnique } from "./parts";

export interface Saves {
  /** Null where the page cannot write itself down; fails with words where the server does. */
  html: (() => Promise<void>) | null;
  svg: () => void;
  json: () => void;
}

interface Props {
  state: Session;
  dispatch: (action: Action) => void;
  saves: Saves;
  onHelp: () => void;
}

export const DIRECTIONS = [["lr", "left to right"], ["td", "top down"]] as const;
export const THEMES = [["system", "system"], ["light", "light"], ["dark", "dark"]] as const;
const MODES = [["signed", "signed gradient"], ["magnitude", "|gradient|"], ["product", "|gradient × value|"]] as const;

/** The bar at the top of the page. */
export function TopBar({ state, dispatch, saves, onHelp }: Props) {
  const set = (change: Partial<Options>): void => dispatch({ type: "option", change });
  const narrow = useMedia("(max-width: 860px)");
  const view = <View state={state} set={set} />;
  return (
    <header class="top">
      <h1>wiregrad</h1>
      <PresetMenu state={state} dispatch={dispatch} />
      <FormulaBox state={state} dispatch={dispatch} />
      <div class="tools" role="group" aria-label="History and help">
        <Button label="Undo" keys="Ctrl + Z" disabled={!state.undo.length} onClick={() => dispatch({ type: "undo" })}>↶</Button>
        <Button label="Redo" keys="Ctrl + Shift + Z" disabled={!state.redo.length} onClick={() => dispatch({ type: "redo" })}>↷</Button>
        <Share state={state} own={saves.html !== null} />
        <SaveMenu saves={saves} />
        <Button label="Help" keys="?" onClick={onHelp}>?</Button>
        {narrow && (
          <details class="menu view-menu">
            <summary>View</summary>
            <div class="items">{view}</div>
          </details>
        )}
      </div>
      {!narrow && view}
    </header>
  );
}

/** How the circuit is shown; on a narrow page this stands behind a word. */
function View({ state, set }: { state: Session; set: (change: Partial<Options>) => void }) {
  const { options } = state;
  const runs = inputNames(state.circuit).some((name) => canEdit(state, name));
  return (
    <div class="view" role="group" aria-label="View">
      {runs && (
        <Switch label="Live" on={options.live} onChange={(live) => set({ live })}
          title="On: an edit recomputes everything at the same step. Off: what depends on it turns stale until stepped." />
      )}
      {canRun(state.source) && (
        <Switch label="Split form" on={options.split} onChange={(split) => set({ split })}
          title="Every fan-out becomes two-way splitters, so that each wire has one reader" />
      )}
      {runs && (
        <Switch label="Accumulate like PyTorch" on={options.accumulate} onChange={(accumulate) => set({ accumulate })}
          title="A second backward pass adds to the gradients of the inputs instead of starting afresh" />
      )}
      <Choice label="Direction" value={options.direction} options={DIRECTIONS} onChange={(direction) => set({ direction })} />
      <Choice label="Colour" value={options.mode} options={MODES} onChange={(mode) => set({ mode })} />
      <Choice label="Theme" value={options.theme} options={THEMES} onChange={(theme) => set({ theme })} />
    </div>
  );
}

function PresetMenu({ state, dispatch }: Pick<Props, "state" | "dispatch">) {
  const own = state.source.kind === "formula" ? state.source.preset : null;
  const id = useUnique();
  return (
    <span class="choice preset">
      <label for={id}>Preset</label>
      <select id={id} value={own ?? ""} onChange={(event) => dispatch({ type: "preset", key: event.currentTarget.value })}>
        {own === null && <option value="">{state.source.kind === "data" ? "from Python" : "own formula"}</option>}
        {PRESETS.map(({ key, title }) => (
          <option key={key} value={key}>{title}</option>
        ))}
      </select>
    </span>
  );
}

/** Copies the address, which a notebook has none of; where the state does not fit into one, it says so. */
function Share({ state, own }: { state: Session; own: boolean }) {
  const [bubble, say] = useBubble();
  const share = async (): Promise<void> => {
    const hash = own ? hashOf(state) : null;
    say(hash === null ? "No address can hold this: export a file instead" : await copied(location.href.split("#")[0] + hash));
  };
  return (
    <span class="share">
      <Button label="Share" onClick={() => void share()}>Share</Button>
      {bubble}
    </span>
  );
}

/** A place for a few words that are said aloud too, and a way to say them; they go after a while. */
function useBubble(): [ComponentChild, (text: string) => void] {
  const [said, setSaid] = useState("");
  const say = (text: string): void => {
    setSaid(text);
    setTimeout(() => setSaid(""), 4000);
  };
  return [<span role="status" class={said ? "bubble" : "aloud"}>{said}</span>, say];
}

async function copied(text: string): Promise<string> {
  try {
    await navigator.clipboard.writeText(text);
    return "Address copied";
  } catch {
    return "The address of this page holds the state: copy it from the address bar";
  }
}

function SaveMenu({ saves }: { saves: Saves }) {
  const [bubble, say] = useBubble();
  return (
    <span class="saves">
      <details class="menu" onClick={(event) => closeOnPick(event)}>
        <summary>Export</summary>
        <div class="items">
          <button type="button" disabled={!saves.html} onClick={() => saves.html?.().catch((error: Error) => say(error.message))}
            title={saves.html ? undefined : "In a notebook: circuit.to_html in Python"}>
            HTML page
          </button>
          <button type="button" onClick={saves.svg}>SVG picture</button>
          <button type="button" onClick={saves.json}>JSON data</button>
        </div>
      </details>
      {bubble}
    </span>
  );
}

function closeOnPick(event: Event & { currentTarget: HTMLDetailsElement }): void {
  if (event.target instanceof HTMLButtonElement) event.currentTarget.open = false;
}
