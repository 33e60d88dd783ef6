/**
 * The page of a training: the loss is the timeline, every group of parameters has its curves, and the step at which it
 * broke is one press away. Kept true: all numbers are those of the chosen step, or of the latest one while it is followed.
 */
import { useEffect, useRef, useState } from "preact/hooks";
import { refusal, useAsked } from "../large/answers";
import { told } from "../large/parts";
import { Icon } from "../large/transport";
import { counted } from "../layout/letters";
import { Choice } from "../ui/card-parts";
import { Button, useTheme } from "../ui/parts";
import { firstBreak, type Band, type StepRecord, type TrainingState } from "./answers";
import { LossChart, Sparkline } from "./chart";

const THEMES = [["system", "as the system"], ["light", "light"], ["dark", "dark"]] as const;
const STATES = { running: "running", paused: "paused", idle: "no new steps" };

/** The state of the training, kept up to date by the server; `lost` once the server has gone. */
function useTraining(first: TrainingState): [TrainingState, boolean] {
  const [state, setState] = useState(first);
  const [lost, setLost] = useState(false);
  useEffect(() => {
    const source = new EventSource("/changes");
    source.onmessage = ({ data }: MessageEvent<string>) => (setLost(false), setState(JSON.parse(data) as TrainingState));
    source.onerror = () => setLost(true);
    return () => source.close();
  }, []);
  return [state, lost];
}

async function post(path: string, body: object): Promise<{ url?: string; error: string }> {
  const response = await fetch(path, { method: "POST", body: JSON.stringify(body) });
  if (!response.ok) return { error: refusal(await response.text(), response.status) };
  return { error: "", ...((await response.json()) as { url?: string }) };
}

/** The page. */
export function TrainingApp({ data }: { data: { training: TrainingState } }) {
  const [state, lost] = useTraining(data.training);
  const [chosen, setChosen] = useState<number | null>(null);
  const [theme, setTheme] = useState<(typeof THEMES)[number][0]>("system");
  const [message, setMessage] = useState("");
  const root = useRef<HTMLDivElement>(null);
  const { steps, events, bad, kept } = state;
  const last = Math.max(0, steps - 1);
  // While the latest step is followed, the position moves with the training.
  const at = Math.min(chosen ?? last, last);
  const record = useAsked<StepRecord>(steps ? `/record/${at}` : null, null).answer;
  const broke = firstBreak(events);
  const move = (to: number): void => setChosen(to >= last ? null : Math.max(0, to));
  const pause = (paused: boolean, more = 0): void => void post("/pause", { paused, steps: more }).then(({ error }) => setMessage(error));
  const open = async (): Promise<void> => {
    setMessage("Recording the circuit of this step…");
    const { url, error } = await post("/open", { step: at });
    setMessage(error);
    if (url) window.open(url, "_blank");
  };
  const keyed = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.target instanceof Element && event.target.matches("input, select"))) return;
    const act: (() => void) | undefined = {
      ArrowRight: () => move(at + 1), ArrowLeft: () => move(at - 1), Home: () => move(0), End: () => move(last),
      g: () => broke && move(broke.step), " ": () => pause(state.state !== "paused"),
    }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || (event.key === " " && event.target instanceof HTMLButtonElement)) return;
    event.preventDefault();
    act();
  };
  const latest = useRef(keyed);
  latest.current = keyed;
  useEffect(() => {
    const listen = (event: KeyboardEvent): void => latest.current(event);
    document.addEventListener("keydown", listen);
    return () => document.removeEventListener("keydown", listen);
  }, []);
  const here = events.filter(({ step }) => step === at);
  const paused = state.state === "paused";
  return (
    <div ref={root} class="wg-app whole training" data-theme={useTheme(theme)} tabIndex={-1}>
      <header class="large-top">
        <h1>wiregrad</h1>
        <p class="what"><b>{state.name}</b><span>{counted(steps, "step")}, {lost ? "the program has ended" : state.live ? STATES[state.state] : "saved"}</span></p>
        <Choice label="Theme" value={theme} options={THEMES} onChange={setTheme} />
      </header>
      <main class="training-main">
        <LossChart curve={state.loss} steps={steps} bad={bad} at={at} onChoose={move} marks={marksOf(state)} />
        <p class="told-step" role="status">{message || sentence(at, steps, record, here.map(({ text }) => text))}</p>
        <section class="transport" aria-label="Steps">
          <div class="buttons">
            <Button label="First step" keys="Home" disabled={!at} onClick={() => move(0)}><Icon name="start" /></Button>
            <Button label="Step back" keys="←" disabled={!at} onClick={() => move(at - 1)}><Icon name="back" /></Button>
            {state.live && !lost && <Button label={paused ? "Go on training" : "Pause the training"} keys="Space" pressed={paused} onClick={() => pause(!paused)}>
              <Icon name={paused ? "play" : "pause"} /></Button>}
            <Button label="Step" keys="→" disabled={at >= last && !paused} onClick={() => (at < last ? move(at + 1) : pause(true, 1))}><Icon name="step" /></Button>
            <Button label="Latest step" keys="End" disabled={chosen === null} onClick={() => move(last)}><Icon name="end" /></Button>
          </div>
          <div class="bar"><input type="range" class="plain-range" aria-label="Step" min={0} max={last} value={at} onInput={(event) => move(Number(event.currentTarget.value))} /></div>
          <div class="counts"><b>step {at.toLocaleString("en")}</b><span>of {steps.toLocaleString("en")}</span></div>
        </section>
        <p class="training-actions">
          <Button keys="G" disabled={!broke} onClick={() => broke && move(broke.step)}>Go to the step where it broke</Button>
          <Button disabled={!kept.includes(at)} onClick={() => void open()}>Open this step’s circuit</Button>
          {!kept.includes(at) && <span class="note">{kept.length ? `Parameters were kept of ${kept.length === 1 ? `step ${kept[0]}` : `steps ${kept[0]} to ${kept.at(-1)}`}.` : "wg.record(function=loss, keep=5) keeps the parameters of steps, so that their circuits can be opened."}</span>}
        </p>
        <Parameters state={state} record={record} at={at} />
        <Events state={state} onChoose={move} />
      </main>
    </div>
  );
}

/** One mark for each kind of event, at its first step. */
function marksOf({ events }: TrainingState): { step: number; kind: string }[] {
  const seen = new Map(events.map(({ step, kind }) => [`${step} ${kind}`, { step, kind: kind === "nonfinite" ? "not finite" : kind }]));
  const first = [...seen.values()].filter(({ kind }, k, all) => all.findIndex((one) => one.kind === kind) === k);
  return first.slice(0, 6);
}

function sentence(at: number, steps: number, record: StepRecord | null, events: readonly string[]): string {
  if (!steps) return "Waiting for the first step.";
  if (events.length) return `Step ${at.toLocaleString("en")}: ${events.map((text) => text.replace(/^step [\d,]+: /, "")).join("; ")}.`;
  if (!record) return `Step ${at.toLocaleString("en")}.`;
  const span = record.first < record.last ? ` (mean of steps ${record.first} to ${record.last})` : "";
  return `Step ${at.toLocaleString("en")}: the loss is ${record.lost && record.loss[1] === "nan" ? "not finite" : told(record.loss[1])}${span}.`;
}

function bandText(band: Band | undefined): string {
  return band ? numberText(band[1]) : "–";
}

function numberText(value: number | string): string {
  return value === "nan" ? "NaN" : told(value);
}

/** Every group of parameters with its curves and the numbers of the chosen step. */
function Parameters({ state, record, at }: { state: TrainingState; record: StepRecord | null; at: number }) {
  const { groups, steps, bad } = state;
  if (!groups.length) return null;
  return (
    <section class="parameters" aria-label="Parameters">
      <table>
        <thead><tr><th scope="col">parameters</th><th scope="col">gradient, rms</th><th scope="col">here</th><th scope="col">largest |gradient|</th>
          <th scope="col">value, rms</th><th scope="col">here</th><th scope="col">moves by</th><th scope="col">not finite</th></tr></thead>
        <tbody>
          {groups.map(({ name, gradient, parameter }) => {
            const now = record?.groups[name];
            return (
              <tr key={name}>
                <th scope="row" class="code">{name}</th>
                <td><Sparkline label={`gradient of ${name}`} curve={gradient} steps={steps} bad={bad} at={at} /></td>
                <td class="num">{bandText(now?.gradient)}</td>
                <td class="num">{now ? numberText(now.largest[2]) : "–"}</td>
                <td><Sparkline label={`value of ${name}`} curve={parameter} steps={steps} bad={[]} at={at} /></td>
                <td class="num">{bandText(now?.parameter)}</td>
                <td class="num">{bandText(now?.update)}</td>
                <td class="num">{now?.nonfinite ? <b>{now.nonfinite}</b> : "0"}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {state.left_out > 0 && <p class="note">And {counted(state.left_out, "more group")}.</p>}
    </section>
  );
}

/** What went wrong, each with a way to its step. */
function Events({ state: { events }, onChoose }: { state: TrainingState; onChoose: (step: number) => void }) {
  return (
    <section class="panel" aria-label="Events">
      <h2>Events</h2>
      {events.length ? <ul>{events.map(({ step, text }, k) => (
        <li key={k}><button type="button" class="plain" onClick={() => onChoose(step)}>{text}</button></li>
      ))}</ul> : <p class="note">Nothing vanished, exploded, stood still, died or was not finite so far.</p>}
    </section>
  );
}
