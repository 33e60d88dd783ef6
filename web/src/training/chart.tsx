/** Curves of a training: the loss as a timeline on which steps are chosen, and sparklines. */
import type { JSX } from "preact";
import type { Curve } from "./answers";

/** How numbers become heights from 0 to 1: by their logarithms if all of them are positive. */
export function scaleOf({ low, mean, high }: Curve): { log: boolean; bottom: number; top: number; place: (value: number) => number } {
  const all = [...low, ...mean, ...high].filter((one): one is number => one !== null);
  const log = all.length > 0 && all.every((one) => one > 0) && Math.max(...all) > 20 * Math.min(...all);
  const of = (value: number): number => (log ? Math.log10(value) : value);
  const [bottom, top] = all.length ? [Math.min(...all.map(of)), Math.max(...all.map(of))] : [0, 1];
  return { log, bottom, top, place: (value) => (top > bottom ? (of(value) - bottom) / (top - bottom) : 0.5) };
}

/** A line through the points that are finite; gaps stay gaps. */
export function lineOf(values: readonly (number | null)[], x: (k: number) => number, y: (value: number) => number): string {
  let pen = "M";
  return values.map((value, k) => {
    if (value === null) {
      pen = "M";
      return "";
    }
    const part = `${pen}${x(k).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
    return part;
  }).join("");
}

interface Props {
  /** The pattern that stretches without a number have. */
  hatch?: string;
  curve: Curve;
  steps: number;
  width: number;
  height: number;
  bad: readonly [number, number][];
  at: number;
}

/** What all curves share: the band, the line, hatched stretches and the chosen step. */
function Lines({ curve, steps, width, height, bad, at, hatch = "currentColor" }: Props) {
  const { place } = scaleOf(curve);
  const across = (step: number): number => (steps > 1 ? (step / (steps - 1)) * width : width / 2);
  const x = (k: number): number => across(curve.steps[k]!);
  const y = (value: number): number => 3 + (height - 6) * (1 - place(value));
  return (
    <>
      {bad.map(([first, last]) => (
        <rect key={first} class="gone" fill={hatch} x={across(first) - 1} width={Math.max(3, across(last) - across(first) + 2)} y="0" height={height} />
      ))}
      <path class="band" d={lineOf(curve.high, x, y)} />
      <path class="band" d={lineOf(curve.low, x, y)} />
      <path class="mean" d={lineOf(curve.mean, x, y)} />
      {curve.mean.length === 1 && curve.mean[0] !== null && <circle class="dot" cx={x(0)} cy={y(curve.mean[0]!)} r="3" />}
      <line class="cursor" x1={across(at)} x2={across(at)} y1="0" y2={height} />
    </>
  );
}

/** A small curve in a row. */
export function Sparkline({ label, ...props }: Omit<Props, "width" | "height"> & { label: string }) {
  return <svg class="spark" viewBox="0 0 260 40" preserveAspectRatio="none" role="img" aria-label={label}><Lines {...props} width={260} height={40} /></svg>;
}

/** The loss over all steps; a press or a drag chooses a step. */
export function LossChart({ onChoose, marks, ...props }: Omit<Props, "width" | "height"> & {
  onChoose: (step: number) => void; marks: readonly { step: number; kind: string }[];
}) {
  const { curve, steps } = props;
  const { log, bottom, top } = scaleOf(curve);
  const text = (value: number): string => Number((log ? 10 ** value : value).toPrecision(3)).toString().replace("-", "−");
  const choose = (event: JSX.TargetedPointerEvent<SVGSVGElement>): void => {
    if (event.type === "pointermove" && !event.buttons) return;
    const { left, width } = event.currentTarget.getBoundingClientRect();
    onChoose(Math.round(Math.max(0, Math.min(1, (event.clientX - left) / width)) * Math.max(0, steps - 1)));
  };
  return (
    <figure class="loss">
      <figcaption>loss{log && ", logarithmic"}</figcaption>
      <div class="axis" aria-hidden="true"><span>{text(top)}</span><span>{text((top + bottom) / 2)}</span><span>{text(bottom)}</span></div>
      <svg viewBox="0 0 1000 260" preserveAspectRatio="none" aria-hidden="true" onPointerDown={choose} onPointerMove={choose}>
        <defs><pattern id="wg-gone" width="9" height="9" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="hatch-ink" width="2" height="9" /></pattern></defs>
        <rect class="well" width="1000" height="260" />
        <Lines {...props} width={1000} height={260} hatch="url(#wg-gone)" />
      </svg>
      <div class="marks" aria-hidden="true">
        {marks.map(({ step, kind }) => <span key={`${step}${kind}`} style={{ left: `${steps > 1 ? (100 * step) / (steps - 1) : 50}%` }}><b />{kind} {step.toLocaleString("en")}</span>)}
      </div>
      <div class="ends" aria-hidden="true"><span>step 0</span><span>{Math.max(0, steps - 1).toLocaleString("en")}</span></div>
    </figure>
  );
}
