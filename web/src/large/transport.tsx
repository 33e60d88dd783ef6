/** The transport of a large circuit: one bar for both passes, buttons, and how far a step goes. */
import { useEffect, useRef, useState } from "preact/hooks";
import { Choice } from "../ui/card-parts";
import { Button } from "../ui/parts";
import type { Loop } from "./answers";
import { spotAt, type Passage, type Size } from "./passage";

interface Props {
  passage: Passage;
  at: number;
  size: Size;
  loop: Loop | null;
  /** Positions at which a pass stops. */
  stops: readonly number[];
  onMove: (at: number) => void;
  onStep: (by: 1 | -1) => void;
  onSize: (size: Size) => void;
}

/** How many milliseconds a whole run is played in. */
const PLAY_MS = 9000;

/** Play from a position: it moves with the clock, and ends where a pass stops. */
function usePlay({ passage, at, stops, onMove }: Props): [boolean, (on: boolean) => void] {
  const [on, setOn] = useState(false);
  const latest = useRef({ at, onMove });
  latest.current = { at, onMove };
  useEffect(() => {
    if (!on) return;
    let [frame, before, exact] = [0, performance.now(), latest.current.at];
    const end = stops.find((stop) => stop > exact) ?? passage.total;
    const tick = (now: number): void => {
      exact = Math.min(end, exact + ((now - before) / PLAY_MS) * passage.total);
      before = now;
      latest.current.onMove(Math.floor(exact));
      if (exact >= end) setOn(false);
      else frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
    return () => cancelAnimationFrame(frame);
  }, [on]);
  return [on, setOn];
}

const ICONS = {
  start: "M4 4h3v12H4zM17 4v12L8 10z", back: "M14 4v12L5 10z", play: "M5 3l12 7L5 17z", pause: "M5 4h4v12H5zM11 4h4v12h-4z",
  step: "M6 4v12l9-6z", end: "M13 4h3v12h-3zM3 4v12l9-6z",
};

/** A sign on a button; fonts do not have all of them. */
export function Icon({ name }: { name: keyof typeof ICONS }) {
  return <svg width="20" height="20" aria-hidden="true"><path d={ICONS[name]} fill="currentColor" /></svg>;
}

/** The bar and its buttons. */
export function Transport(props: Props) {
  const { passage, at, size, loop, stops, onMove, onStep, onSize } = props;
  const { forward, backward, total } = passage;
  const [playing, setPlaying] = usePlay(props);
  const { phase, done, back } = spotAt(passage, at);
  const stop = (): void => setPlaying(false);
  const play = (): void => {
    if (!playing && at >= total) onMove(0);
    setPlaying(!playing);
  };
  const sizes: [Size, string][] = [["node", "node"], ["group", "group"], ...(loop ? [["iteration", "iteration"] as [Size, string]] : [])];
  const count = (n: number): string => n.toLocaleString("en");
  const move = (to: number) => () => (stop(), onMove(to));
  return (
    <section class="transport" aria-label="Stepper">
      <div class="buttons">
        <Button label="To the start" keys="Home" disabled={!at} onClick={move(0)}><Icon name="start" /></Button>
        <Button label="Step back" keys="←" disabled={!at} onClick={() => (stop(), onStep(-1))}><Icon name="back" /></Button>
        <Button label={playing ? "Pause" : "Play"} keys="Space" pressed={playing} onClick={play}><Icon name={playing ? "pause" : "play"} /></Button>
        <Button label="Step" keys="→" disabled={at >= total} onClick={() => (stop(), onStep(1))}><Icon name="step" /></Button>
        <Button label="To the end" keys="End" disabled={at >= total} onClick={move(total)}><Icon name="end" /></Button>
      </div>
      <div class="bar">
        <div class="tracks" style={{ gridTemplateColumns: `${Math.max(1, forward.length)}fr 12px ${Math.max(1, backward.length)}fr` }} aria-hidden="true">
          <span class="track"><i style={{ width: `${(100 * done) / Math.max(1, forward.length)}%` }} /></span>
          <span class={phase === "seed" || phase === "backward" ? "seed on" : "seed"} />
          <span class="track back"><i style={{ width: `${(100 * back) / Math.max(1, backward.length)}%` }} />
            {stops.filter((one) => one > forward.length).map((one) => <b key={one} style={{ left: `${(100 * (one - forward.length - 1)) / Math.max(1, backward.length)}%` }} />)}</span>
          <small>forward → {count(done)}{done < forward.length && ` of ${count(forward.length)}`}</small><small>seed</small>
          <small>← backward {count(back)} of {count(backward.length)}</small>
        </div>
        <input type="range" aria-label="Position" min={0} max={total} value={at} aria-valuetext={`${phase}, ${count(at)} of ${count(total)}`}
          onInput={(event) => (stop(), onMove(Number(event.currentTarget.value)))} />
      </div>
      <div class="counts">
        <b>{count(at)} of {count(total)}</b>
        <Choice label="step by" value={size} options={sizes} onChange={onSize} />
      </div>
    </section>
  );
}
