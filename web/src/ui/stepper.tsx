/** The transport bar at the foot of the circuit: the sentence of the step, the controls, and the timeline. */
import { useEffect, useState } from "preact/hooks";
import type { Action, Session } from "../state/session";
import { announcement, tell, type Telling, type Words } from "../state/telling";
import type { StepSize } from "../state/timeline";
import { Named } from "./named";
import { useMedia, useUnique } from "./parts";
import { TimelineBar } from "./timeline-bar";

const SIZES: readonly (readonly [StepSize, string])[] = [
  ["wire", "wire"],
  ["node", "node"],
  ["rank", "rank"],
  ["group", "group"],
  ["selection", "to the selection"],
  ["all", "all at once"],
];

/** Milliseconds between the steps of play: as long as a step moves, and time to read it. */
const BEATS = { forward: 800, backward: 1400 } as const;

/** Whether play is on, and a switch for it; with reduced motion a press is one step. */
export function usePlay(state: Session, dispatch: (action: Action) => void): [boolean, () => void] {
  const [playing, setPlaying] = useState(false);
  const still = useMedia("(prefers-reduced-motion: reduce)");
  const over = state.at >= state.line.length;
  useEffect(() => {
    if (still !== state.options.still) dispatch({ type: "option", change: { still } });
  }, [still, state.options.still]);
  useEffect(() => {
    if (!playing) return;
    if (over) return setPlaying(false);
    const back = tell(state).phase === "backward";
    const timer = setTimeout(() => dispatch({ type: "step", by: 1 }), back ? BEATS.backward : BEATS.forward);
    return () => clearTimeout(timer);
  }, [playing, state.at, over]);
  const toggle = (): void => {
    if (playing) return setPlaying(false);
    if (over) dispatch({ type: "to", where: "start" });
    dispatch({ type: "step", by: 1 });
    if (!still) setPlaying(true);
  };
  return [playing, toggle];
}

interface Props {
  state: Session;
  dispatch: (action: Action) => void;
  playing: boolean;
  onPlay: () => void;
}

/** The stepper at the foot of the circuit. */
export function Stepper({ state, dispatch, playing, onPlay }: Props) {
  const telling = tell(state);
  return (
    <section class="stepper" aria-label="Stepper" data-phase={telling.phase}>
      <Sentence telling={telling} />
      <div class="dock">
        <Transport state={state} dispatch={dispatch} playing={playing} onPlay={onPlay} />
        <TimelineBar state={state} dispatch={dispatch} telling={telling} />
        <Meta state={state} dispatch={dispatch} telling={telling} />
      </div>
      <p class="aloud" role="status" aria-live="polite">{announcement(state)}</p>
    </section>
  );
}

/** What the step did; the live region says the same, so that this is for the eye alone. */
function Sentence({ telling: { head, words } }: { telling: Telling }) {
  return (
    <div class="say" aria-hidden="true">
      <p class="say-head">{head.map(wordView)}</p>
      <p class="sentence">{parts(words).map((part, k) => <Part key={k} words={part} />)}</p>
    </div>
  );
}

/** The words of a sentence by its parts. */
function parts(words: readonly Words[]): Words[][] {
  const found: Words[][] = [];
  for (const word of words) {
    if (word.as === "part" || !found.length) found.push([word]);
    else found.at(-1)!.push(word);
  }
  return found;
}

function Part({ words }: { words: readonly Words[] }) {
  const fresh = words.filter(({ now }) => now);
  const [first, last] = [words.indexOf(fresh[0]!), words.indexOf(fresh.at(-1)!)];
  if (first < 0) return <span class="part">{words.map(wordView)}</span>;
  return (
    <span class="part">
      {words.slice(0, first).map(wordView)}
      <mark class="now">{words.slice(first, last + 1).map(wordView)}</mark>
      {words.slice(last + 1).map(wordView)}
    </span>
  );
}

function wordView({ text, as }: Words, key: number) {
  if (as === "name") return <Named key={key} text={text} />;
  if (as === "part") return <b key={key} class="part-number">{text}</b>;
  return as ? <b key={key} class={as}>{text}</b> : held(text);
}

/** Plain words; a number at their end stays on the line of the word before it, apart from the number of the next part. */
function held(text: string) {
  const end = / \S+ [\u2212\d.e]+$/.exec(text);
  return end ? <>{text.slice(0, end.index + 1)}<span class="held">{end[0].slice(1)}</span></> : text;
}

const ICONS = {
  start: "M4 4h2.4v14H4zM18 4v14L7.6 11z",
  back: "M15.5 4v14L5.5 11z",
  step: "M6.500 4v14l10-7z",
  end: "M15.600 4H18v14h-2.400zM4 4v14l10.400-7z",
  play: "M6 2.500v17L20 11z",
  pause: "M4.500 3h4.600v16H4.500zM12.900 3h4.600v16h-4.600z",
} as const;

function Icon({ name, size = 22 }: { name: keyof typeof ICONS; size?: number }) {
  return <svg width={size} height={size} viewBox="0 0 22 22" aria-hidden="true"><path d={ICONS[name]} fill="currentColor" /></svg>;
}

function Transport({ state, dispatch, playing, onPlay }: Props) {
  const end = state.line.length;
  const over = state.at >= end;
  const button = (icon: keyof typeof ICONS, name: string, keys: string, off: boolean, action: Action) => (
    <button type="button" class="round" aria-label={name} title={`${name} (${keys})`} disabled={off}
      onClick={() => dispatch(action)}>
      <Icon name={icon} />
    </button>
  );
  return (
    <div class="transport" role="group" aria-label="Walk through the run">
      {button("start", "Reset", "R", !state.at && !state.carried, { type: "reset" })}
      {button("back", "Step back", "\u2190", !state.at, { type: "step", by: -1 })}
      <button type="button" class={state.at || playing ? "play" : "play big"} disabled={!end} onClick={onPlay}
        aria-label={playing ? "Pause" : "Play"} title={`${playing ? "Pause" : "Play"} (Space)`}>
        <Icon name={playing ? "pause" : "play"} size={24} />
        {!state.at && !playing && <span aria-hidden="true">Play</span>}
      </button>
      {button("step", "Step \u25b6", "\u2192", over, { type: "step", by: 1 })}
      {button("end", "Run backward", "B", over, { type: "to", where: "end" })}
    </div>
  );
}

/** The count of steps, how far inside one the run is, and how large steps are. */
function Meta({ state, dispatch, telling }: Pick<Props, "state" | "dispatch"> & { telling: Telling }) {
  const id = useUnique();
  const { step, of, inner, phase } = telling;
  return (
    <div class="meta">
      <p class="count"><b>{step} of {of}</b></p>
      {phase === "done" ? (
        <button type="button" class="plain" aria-label="Backward again" title="A second backward pass"
          onClick={() => dispatch({ type: "again" })}>
          backward again
        </button>
      ) : (
        <p>{inner ?? "\u00a0"}</p>
      )}
      <p class="size">
        <label for={id}>Step by</label>
        <select id={id} value={state.options.size}
          onChange={(event) => dispatch({ type: "option", change: { size: event.currentTarget.value as StepSize } })}>
          {SIZES.map(([key, text]) => <option key={key} value={key}>{text}</option>)}
        </select>
      </p>
    </div>
  );
}
