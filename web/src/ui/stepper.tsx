/** The controls that walk through a run, and the region that says what each step did. */
import { useEffect, useState } from "preact/hooks";
import type { Action, Session } from "../state/session";
import { announcement, progress } from "../state/telling";
import type { StepSize } from "../state/timeline";
import { Button, Choice, useMedia } from "./parts";

const SIZES: readonly (readonly [StepSize, string])[] = [
  ["wire", "wire"],
  ["node", "node"],
  ["rank", "rank"],
  ["group", "group"],
  ["selection", "to the selection"],
  ["all", "all at once"],
];

const PHASES = ["idle", "forward", "seed", "backward", "done"] as const;

/** Milliseconds between the steps of play. */
const BEAT = 900;

/** Whether play is on, and a switch for it; with reduced motion a press is one step. */
export function usePlay(state: Session, dispatch: (action: Action) => void): [boolean, () => void] {
  const [playing, setPlaying] = useState(false);
  const still = useMedia("(prefers-reduced-motion: reduce)");
  const over = state.at >= state.line.length;
  useEffect(() => {
    if (!playing) return;
    if (over) return setPlaying(false);
    const timer = setTimeout(() => dispatch({ type: "step", by: 1 }), BEAT);
    return () => clearTimeout(timer);
  }, [playing, state.at, over]);
  const toggle = (): void => {
    if (playing) return setPlaying(false);
    if (over) dispatch({ type: "to", where: "start" });
    if (still) dispatch({ type: "step", by: 1 });
    else setPlaying(true);
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
  const { phase, step, of, text } = progress(state);
  const end = state.line.length;
  return (
    <section class="stepper" aria-label="Stepper">
      <div class="phase-row">
        <ol class="phases" aria-label="Phases">
          {PHASES.map((name) => (
            <li key={name} class={name === phase ? "now" : undefined} aria-current={name === phase ? "step" : undefined}>
              {name}
            </li>
          ))}
        </ol>
        <p class="count">
          step <b>{step}</b> of <b>{of}</b>
        </p>
        <input class="scrubber" type="range" min={0} max={end} step={1} value={state.at} disabled={!end}
          aria-label="Position in the run" aria-valuetext={`step ${step} of ${of}, ${phase}`}
          onInput={(event) => dispatch({ type: "go", at: Number(event.currentTarget.value) })} />
        <p class="sentence" title={text}>{text}</p>
      </div>
      <div class="buttons" role="group" aria-label="Walk through the run">
        <Button label="Reset" keys="R" onClick={() => dispatch({ type: "reset" })} disabled={!state.at && !state.carried}>
          Reset
        </Button>
        <span class="walk">
          <Button label="Step back" keys="←" onClick={() => dispatch({ type: "step", by: -1 })} disabled={!state.at}>
            ◀
          </Button>
          <button type="button" class="main" title="Step (→)" disabled={state.at >= end}
            onClick={() => dispatch({ type: "step", by: 1 })}>
            Step ▶
          </button>
          <Button label={playing ? "Pause" : "Play"} keys="Space" onClick={onPlay} disabled={!end}>
            {playing ? "Pause" : "Play"}
          </Button>
        </span>
        <Button label="Run forward" keys="F" onClick={() => dispatch({ type: "to", where: "forward" })}>
          Forward
        </Button>
        <Button label="Run backward" keys="B" onClick={() => dispatch({ type: "to", where: "end" })}>
          Backward
        </Button>
        <Button label="Backward again" onClick={() => dispatch({ type: "again" })} disabled={phase !== "done"}>
          Again
        </Button>
        <Choice label="Step by" value={state.options.size} options={SIZES}
          onChange={(size) => dispatch({ type: "option", change: { size } })} />
      </div>
      <p class="aloud" role="status" aria-live="polite">{announcement(state)}</p>
    </section>
  );
}
