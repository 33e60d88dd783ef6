/** The curve of an op with one input near its value, and the tangent whose slope is the local derivative. */
import { opOf } from "../engine";
import type { Run } from "../types";
import { numeric, show, wireIndex } from "./text";

const WIDTH = 240;
const HEIGHT = 120;
const SAMPLES = 81;

/** The plot for a node with one input that is a number; nothing for others. */
export function TangentPlot({ run, node }: { run: Run; node: number }) {
  const { op, sources } = run.circuit.nodes[node]!;
  const record = opOf(op);
  if (!record || sources.length !== 1 || record.pattern === "merge") return null;
  const x = numeric(run.values[sources[0]!]);
  const y = numeric(run.values[node]);
  const slope = numeric(run.wires[wireIndex(run, node, 0)]!.local);
  if (x === null || y === null || !Number.isFinite(x) || !Number.isFinite(y)) return null;
  const curve = (at: number): number => Number(record.forward(at as never));
  return <Plot curve={curve} x={x} y={y} slope={slope} name={op} />;
}

interface PlotProps {
  curve: (x: number) => number;
  x: number;
  y: number;
  slope: number | null;
  name: string;
}

function Plot({ curve, x, y, slope, name }: PlotProps) {
  const reach = Math.max(2, Math.abs(x) / 2);
  const xs = Array.from({ length: SAMPLES }, (_, k) => x - reach + (2 * reach * k) / (SAMPLES - 1));
  const ys = xs.map(curve);
  const finite = ys.filter((value) => Number.isFinite(value) && Math.abs(value - y) < 20 * reach);
  const low = Math.min(...finite, y);
  const high = Math.max(...finite, y);
  const margin = Math.max((high - low) * 0.1, 1e-9);
  const px = (at: number): number => ((at - x + reach) / (2 * reach)) * WIDTH;
  const py = (at: number): number => HEIGHT - ((at - low + margin) / (high - low + 2 * margin)) * HEIGHT;
  const label = slope === null ? `${name} at ${show(x)}: no slope` : `${name} at ${show(x)} has slope ${show(slope)}`;
  return (
    <figure class="tangent">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
        <path class="curve" d={path(xs, ys, px, py)} />
        {slope !== null && Number.isFinite(slope) && (
          <line class="slope" x1={px(x - reach)} y1={py(y - slope * reach)} x2={px(x + reach)} y2={py(y + slope * reach)} />
        )}
        <circle cx={px(x)} cy={py(y)} r="4" />
      </svg>
      <figcaption>{label}</figcaption>
    </figure>
  );
}

/** A line through the points that are numbers, broken where they are not. */
function path(xs: number[], ys: number[], px: (x: number) => number, py: (y: number) => number): string {
  let pen = "M";
  return xs.map((x, k) => {
    const y = py(ys[k]!);
    if (!Number.isFinite(y) || Math.abs(y) > 10 * HEIGHT) {
      pen = "M";
      return "";
    }
    const part = `${pen}${px(x).toFixed(1)} ${y.toFixed(1)}`;
    pen = "L";
    return part;
  }).join("");
}
