/** The heat strip: the size of every gradient, in the order of the nodes, as one image that fits the width. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Heat, Loop, Stop } from "./answers";
import { iterationOf, type Passage, type Spot } from "./passage";

const HEIGHT = 112;

interface Props {
  heat: Heat;
  loop: Loop | null;
  passage: Passage;
  spot: Spot;
  /** Where gradients become NaN, and whether the pass has come there. */
  stop: Stop | null;
  theme: string;
  /** Asks for the nodes of some columns; null where nobody can be asked. */
  find: ((query: string) => void) | null;
}

/** The marks of an axis: positions from 0 to 1 and their texts. */
export function ticksOf(heat: Heat, loop: Loop | null, most: number): [number, string][] {
  const count = loop ? loop.starts.length : heat.size;
  const step = [1, 2, 5].flatMap((digit) => [0, 1, 2, 3, 4, 5, 6].map((power) => digit * 10 ** power)).sort((a, b) => a - b)
    .find((one) => count / one <= most) ?? count;
  const first = loop?.first ?? 0;
  const whole = Math.ceil(first / step) * step;
  const marks = Array.from({ length: Math.max(0, Math.ceil((first + count - whole) / step)) }, (_, k) => whole + k * step);
  const place = (mark: number): number => (loop ? loop.starts[mark - first]! : mark) / heat.size;
  // Iterations may be of different lengths; marks that would stand in each other are left out.
  const shown: [number, string][] = [];
  for (const mark of marks) if (!shown.length || place(mark) - shown.at(-1)![0] >= 0.6 / most) shown.push([place(mark), mark.toLocaleString("en")]);
  return shown.filter(([at]) => at <= 1 - 0.3 / most || shown.length < 2);
}

/** The powers of ten that are written beside the strip. */
export function powersOf({ low, high }: Heat): number[] {
  const step = Math.max(1, Math.ceil((high - low) / 6));
  return Array.from({ length: Math.floor((high - low) / step) + 1 }, (_, k) => low + k * step);
}

function powerText(power: number): string {
  return power >= -3 && power <= 5 ? Number(`1e${power}`).toLocaleString("en") : `1e${power}`.replace("-", "−");
}

/** The strip with its axes; what is not computed yet is hatched and says so. */
export function HeatStrip({ heat, loop, passage, spot, stop, theme, find }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(800);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(entry!.contentRect.width));
    watch.observe(canvas.current!);
    return () => watch.disconnect();
  }, []);
  const front = spot.phase === "backward" ? (spot.from === 0 ? 0 : (passage.forward[spot.from] ?? heat.size) / heat.size) : 1;
  const done = spot.phase === "start" ? 0 : spot.phase === "forward" ? (spot.node + 1) / heat.size : 1;
  useEffect(() => paint(canvas.current!, heat, front, done, width), [heat, front, done, width, theme]);
  const at = stop && stop.phase === "backward" && spot.phase === "backward" && spot.node <= stop.node ? stop.node / heat.size : null;
  const step = stop && iterationOf(loop, stop.node);
  const press = (event: MouseEvent): void => {
    const { left, width: wide } = (event.currentTarget as Element).getBoundingClientRect();
    const node = Math.floor(((event.clientX - left) / wide) * heat.size);
    const by = Math.ceil(heat.size / heat.columns);
    find?.(`index>=${Math.max(0, node - by)} index<=${Math.min(heat.size - 1, node + by)}`);
  };
  const marks = ticksOf(heat, loop, Math.max(2, Math.floor(width / 90)));
  const waiting = front > 0 ? (done < 1 && front === 1 ? "values not computed yet" : "gradients not computed yet") : "";
  const [left, right] = done < 1 && front === 1 ? [done, 1] : [0, front];
  return (
    <section class="heat-strip" aria-label="Heat strip">
      <p class="heat-legend"><span>|gradient| of every node, by {loop ? `iteration ${loop.name}` : "order of execution"}</span>
        <span class="more">more nodes = stronger, blue mostly positive, orange mostly negative</span></p>
      <div class="plot">
        <div class="levels" aria-hidden="true">
          {powersOf(heat).map((power) => (
            <span key={power} style={{ bottom: `${((power - heat.low) / (heat.high - heat.low)) * 100}%` }}>{powerText(power)}</span>
          ))}
        </div>
        <div class="area">
          <canvas ref={canvas} role="img" height={HEIGHT} style={{ height: `${HEIGHT}px` }} data-front={front.toFixed(4)} data-done={done.toFixed(4)}
            aria-label={summary(heat, front, done)} onClick={press} />
          {(right - left) * width > 220 && waiting && <span class="words" style={{ left: `${((left + right) / 2) * 100}%` }}>{waiting}</span>}
          {at !== null && <span class="nan-flag" style={{ left: `${at * 100}%` }} />}
          {at !== null && (
            <span class="nan-words" style={{ left: `clamp(70px, ${at * 100}%, calc(100% - 70px))` }}>
              first NaN{step !== null && `, ${loop!.name} = ${step}`}</span>
          )}
          <div class="ticks" aria-hidden="true">
            {marks.map(([place, text]) => <span key={text} style={{ left: `max(${3 * text.length}px, ${place * 100}%)` }}>{text}</span>)}
          </div>
        </div>
      </div>
    </section>
  );
}

function summary({ size, low, high, bad, columns }: Heat, front: number, done: number): string {
  const known = front < 1 ? `gradients known for the last ${Math.round((1 - front) * 100)} percent of ${size.toLocaleString("en")} nodes` : `values known for ${Math.round(done * 100)} percent, no gradients yet`;
  const odd = bad.length ? `; not finite in ${Math.round((bad.length / columns) * 100)} percent of the columns` : "";
  return `Gradients from 1e${low} to 1e${high}: ${known}${odd}`;
}

/** Draw the cells that are known, and hatch the rest. */
function paint(canvas: HTMLCanvasElement, heat: Heat, front: number, done: number, width: number): void {
  const ratio = devicePixelRatio || 1;
  Object.assign(canvas, { width: Math.round(width * ratio), height: HEIGHT * ratio });
  const pen = canvas.getContext("2d");
  if (!pen) return;
  const style = getComputedStyle(canvas);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  pen.scale(ratio, ratio);
  pen.fillStyle = colour("--lg-well");
  pen.fillRect(0, 0, width, HEIGHT);
  hatch(pen, 0, front * width, colour("--lg-hatch"), front === 1 ? done * width : 0);
  const [wide, high] = [width / heat.columns, HEIGHT / heat.rows];
  const most = Math.log1p(heat.cells.reduce((top, cell) => Math.max(top, cell[2]), 1));
  for (const [column, row, count, plus, minus] of heat.cells) {
    if ((column + 0.5) / heat.columns < front) continue;
    pen.globalAlpha = 0.35 + (0.65 * Math.log1p(count)) / most;
    pen.fillStyle = colour(2 * plus > count ? "--lg-pos" : 2 * minus > count ? "--lg-neg" : "--lg-ink2");
    pen.fillRect(column * wide, HEIGHT - (row + 1) * high, Math.ceil(wide), Math.ceil(high));
  }
  pen.globalAlpha = 1;
  for (const column of heat.bad) if (column / heat.columns >= front) hatch(pen, column * wide, (column + 1) * wide, colour("--lg-ink"), 0, 4);
  pen.fillStyle = colour("--lg-ink");
  if (front > 0 && front < 1) pen.fillRect(front * width - 1, 0, 2, HEIGHT);
  if (front === 1 && done > 0 && done < 1) pen.fillRect(done * width - 1, 0, 2, HEIGHT);
}

/** Hatch a stretch; what a forward pass has been through is hatched only in its lower part. */
function hatch(pen: CanvasRenderingContext2D, from: number, to: number, colour: string, passed: number, gap = 9): void {
  if (to <= from) return;
  pen.save();
  pen.beginPath();
  pen.rect(Math.max(from, passed), 0, to, HEIGHT);
  pen.rect(from, HEIGHT - 14, to - from, 14);
  pen.clip();
  pen.beginPath();
  pen.rect(from, 0, to - from, HEIGHT);
  pen.clip();
  pen.strokeStyle = colour;
  pen.lineWidth = 1.2;
  pen.beginPath();
  for (let x = from - HEIGHT; x < to; x += gap) {
    pen.moveTo(x, HEIGHT);
    pen.lineTo(x + HEIGHT, 0);
  }
  pen.stroke();
  pen.restore();
}
