/** Gradient descent, watched: a network of two inputs and three neurons learns to tell two classes of points apart. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { evaluate, forward, parse } from "../engine";
import { useMedia, useUnique } from "../ui/parts";
import { Draws, showNumber, type Leaves } from "./quiz-run";

const HIDDEN = [1, 2, 3] as const;
const NET = `${HIDDEN.map((k) => `h${k} = tanh(x1*u${k} + x2*v${k} + b${k})`).join("; ")}; o = tanh(h1*w1 + h2*w2 + h3*w3 + c)`;
const LOSS = `${NET}; d = o - t; L = d*d`;
const WEIGHTS = [...HIDDEN.flatMap((k) => [`u${k}`, `v${k}`, `b${k}`]), "w1", "w2", "w3", "c"];
const POINTS = 40;
const SEED = 10;
const RATES = [0.01, 0.03, 0.1, 0.3, 1, 3] as const;
const FIRST_RATE = 2;
const GRID = 24;
const SIZE = 260;
const BEAT = 60;
const MAX_STEPS = 600;

export interface Sample {
  x1: number;
  x2: number;
  t: number;
}

/** Points in a ring and in its middle: no single line parts them. */
export function drawSamples(): Sample[] {
  const draws = new Draws(SEED);
  const share = (): number => draws.below(1000) / 1000;
  return Array.from({ length: POINTS }, (_, k) => {
    const inner = k % 2 === 0;
    const [radius, angle] = [inner ? 0.75 * share() : 1.35 + 0.45 * share(), 2 * Math.PI * share()];
    return { x1: radius * Math.cos(angle), x2: radius * Math.sin(angle), t: inner ? 0.9 : -0.9 };
  });
}

/** The weights before the first step. */
export function firstWeights(): Leaves {
  const draws = new Draws(SEED, 1);
  return Object.fromEntries(WEIGHTS.map((name) => [name, (draws.below(2001) - 1000) / 700]));
}

/** The state of a training. */
export interface Training {
  weights: Leaves;
  losses: number[];
  right: number;
}

const lossCircuit = parse(LOSS);
const netCircuit = parse(NET);
const nodesOf = (circuit: typeof lossCircuit, names: readonly string[]): Map<string, number> =>
  new Map(names.map((name) => [name, circuit.nodes.findIndex((node) => node.names.includes(name))]));
const lossNodes = nodesOf(lossCircuit, [...WEIGHTS, "L", "o"]);
const netOutput = nodesOf(netCircuit, ["o"]).get("o")!;

/** The mean loss over all points and its gradient, by the engine. */
export function measure(weights: Leaves, samples: readonly Sample[]): { loss: number; grads: Leaves; right: number } {
  const grads: Leaves = Object.fromEntries(WEIGHTS.map((name) => [name, 0]));
  let [loss, right] = [0, 0];
  for (const sample of samples) {
    const run = evaluate(lossCircuit, { ...weights, ...sample });
    loss += Number(run.values[lossNodes.get("L")!]) / samples.length;
    right += Number(Math.sign(Number(run.values[lossNodes.get("o")!])) === Math.sign(sample.t));
    for (const name of WEIGHTS) grads[name]! += Number(run.grads[lossNodes.get(name)!] ?? 0) / samples.length;
  }
  return { loss, grads, right };
}

/** One step of gradient descent: every weight goes against its gradient. */
export function descend({ weights, losses }: Training, samples: readonly Sample[], rate: number): Training {
  const { grads } = measure(weights, samples);
  const next = Object.fromEntries(WEIGHTS.map((name) => [name, weights[name]! - rate * grads[name]!]));
  const { loss, right } = measure(next, samples);
  return { weights: next, losses: [...losses, loss], right };
}

function begun(samples: readonly Sample[]): Training {
  const weights = firstWeights();
  const { loss, right } = measure(weights, samples);
  return { weights, losses: [loss], right };
}

/** The widget. */
export function Descent({ about }: { about: string }) {
  const samples = useMemo(drawSamples, []);
  const [state, setState] = useState(() => begun(samples));
  const [rate, setRate] = useState<number>(FIRST_RATE);
  const [playing, setPlaying] = useState(false);
  const still = useMedia("(prefers-reduced-motion: reduce)");
  const id = useUnique();
  const steps = state.losses.length - 1;
  const over = steps >= MAX_STEPS;
  const step = (): void => setState((old) => descend(old, samples, RATES[rate]!));
  useEffect(() => {
    if (!playing || over) return setPlaying(false);
    const timer = setTimeout(step, BEAT);
    return () => clearTimeout(timer);
  }, [playing, state]);
  const play = (): void => (still ? step() : setPlaying(!playing));
  const press = (event: KeyboardEvent): void => {
    const onControl = event.target instanceof Element && event.target.closest("button, input") !== null;
    if (event.key === "[") setRate(Math.max(0, rate - 1));
    else if (event.key === "]") setRate(Math.min(RATES.length - 1, rate + 1));
    else if (event.key === "ArrowRight" && !onControl) step();
    else if (event.key === " " && !onControl) play();
    else return;
    event.preventDefault();
  };
  const loss = state.losses.at(-1)!;
  return (
    <div class="descent" role="group" aria-label="A network that learns" tabIndex={0} onKeyDown={press}>
      <p class="about-figure">{about}</p>
      <div class="plots">
        <Decision weights={state.weights} samples={samples} />
        <LossCurve losses={state.losses} />
      </div>
      <p class="told" role="status">{playing ? "" : `Step ${steps}: loss ${showNumber(loss)}, ${state.right} of ${samples.length} points on their side.`}</p>
      {playing && <p class="told" aria-hidden="true">{`Step ${steps}: loss ${showNumber(loss)}, ${state.right} of ${samples.length} points on their side.`}</p>}
      <div class="quiet-row">
        <button type="button" class="black" onClick={play} disabled={over}>{playing ? "Pause" : still ? "Step" : "Play"}</button>
        <button type="button" onClick={step} disabled={over || playing}>One step</button>
        <button type="button" onClick={() => { setPlaying(false); setState(begun(samples)); }}>Start again</button>
      </div>
      <p class="rate">
        <label for={id}>Learning rate</label>
        <input id={id} type="range" min={0} max={RATES.length - 1} step={1} value={rate} aria-valuetext={String(RATES[rate])}
          onInput={(event) => setRate(Number(event.currentTarget.value))} />
        <b class="num">{RATES[rate]}</b>
      </p>
    </div>
  );
}

const place = (x: number): number => ((x + 2) / 4) * SIZE;

/** What the network says over the plane, and the points: discs and diamonds, with a ring while they are on the wrong side. */
function Decision({ weights, samples }: { weights: Leaves; samples: readonly Sample[] }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const sideOf = (x1: number, x2: number): number => Number(forward(netCircuit, { ...weights, x1, x2 })[netOutput]);
  useEffect(() => {
    const element = canvas.current!;
    const pen = element.getContext("2d")!;
    const style = getComputedStyle(element);
    const tone = (name: string): string => style.getPropertyValue(`--wg-t_${name}`);
    for (let i = 0; i < GRID; i++) {
      for (let k = 0; k < GRID; k++) {
        const side = sideOf(((i + 0.5) / GRID) * 4 - 2, ((k + 0.5) / GRID) * 4 - 2);
        pen.fillStyle = tone(`m${Math.max(1, Math.min(5, Math.ceil(((side + 1) / 2) * 5)))}`);
        pen.fillRect((i * SIZE) / GRID, (k * SIZE) / GRID, SIZE / GRID + 1, SIZE / GRID + 1);
      }
    }
  }, [weights]);
  return (
    <div class="decision">
      <canvas ref={canvas} width={SIZE} height={SIZE} aria-hidden="true" />
      <svg viewBox={`0 0 ${SIZE} ${SIZE}`} role="img" aria-label="Two classes of points: discs in the middle, diamonds in a ring around them. Darker ground means disc.">
        {samples.map(({ x1, x2, t }, k) => {
          const [x, y] = [place(x1), place(x2)];
          const wrong = Math.sign(sideOf(x1, x2)) !== Math.sign(t);
          return (
            <g key={k}>
              {t > 0 ? <circle class="point" cx={x} cy={y} r={4} /> : <path class="point open" d={`M${x} ${y - 5}l5 5-5 5-5-5z`} />}
              {wrong && <circle class="ring" cx={x} cy={y} r={9} />}
            </g>
          );
        })}
      </svg>
    </div>
  );
}

/** The loss over the steps. */
function LossCurve({ losses }: { losses: readonly number[] }) {
  const top = Math.max(...losses.filter(Number.isFinite), 1e-9);
  const wide = Math.max(50, losses.length - 1);
  const points = losses.filter(Number.isFinite).map((loss, k) => `${30 + (k / wide) * 260},${12 + (1 - loss / top) * 170}`);
  const last = points.at(-1)!.split(",");
  return (
    <svg class="curve" viewBox="0 0 300 210" role="img" aria-label={`Loss over ${losses.length - 1} steps, from ${showNumber(losses[0]!)} to ${showNumber(losses.at(-1)!)}`}>
      <path class="axis" d="M30 8V184H292" />
      <text x="46" y="16">loss</text><text x="290" y="200" text-anchor="end">step</text>
      <polyline points={points.join(" ")} />
      <circle cx={last[0]} cy={last[1]} r="4.5" />
    </svg>
  );
}
