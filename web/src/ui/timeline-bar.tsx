/**
 * The timeline: one cell for each step with its op, plain ticks where there is less room, one bar where there is almost
 * none. It is a slider for the keyboard; the pointer goes to the cell it presses.
 */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { isSplitter, opOf } from "../engine";
import { signOf } from "../layout/signs";
import { nodeOf } from "../state/selection";
import type { Action, Session } from "../state/session";
import { cellStops, stepSize, type Telling } from "../state/telling";
import { stagesDone, stops, type Stage } from "../state/timeline";
import type { Circuit } from "../types";
import { inkWidth } from "./ink";
import { useKept } from "./kept";

/** The widest cell, the least width of a cell with its op, and of a tick. */
const [WIDEST, LETTERED, TICK] = [44, 24, 6];
/** Where the middle of the cells lies, and how far the arc and the brackets are from it. */
const [MIDDLE, HEIGHT] = [44, 86];

interface Props {
  state: Session;
  dispatch: (action: Action) => void;
  telling: Telling;
}

/** One cell: the stages it stands for. */
interface Cell {
  stages: Stage[];
  phase: Stage["phase"] | "mixed";
  sign: string;
}

/** The timeline of a run. */
export function TimelineBar({ state, dispatch, telling }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const room = useWidth(frame);
  const { line, run, options, selection } = state;
  const keep = useKept();
  const found = stops(run, line, stepSize(options), nodeOf(selection));
  const value = found.findIndex((stop) => stop >= state.at);
  const ends = cellStops(state);
  const cells = useMemo(() => cellsOf(state.circuit, line.stages, ends, (at) => stagesDone(line, at)), [line, ends.join()]);
  const pitch = Math.min(WIDEST, room / Math.max(1, cells.length));
  const lettered = useMemo(() => cells.every(({ sign }) => signFits(sign, pitch)), [cells, pitch]);
  const go = (event: PointerEvent): void => {
    const { left, width } = frame.current!.getBoundingClientRect();
    const start = (width - pitch * cells.length) / 2;
    const cell = Math.floor((event.clientX - left - start) / pitch);
    dispatch({ type: "go", at: ends[Math.max(0, Math.min(cell + 1, cells.length))]! });
  };
  return (
    <div ref={frame} class="timeline" style={{ width: `${WIDEST * cells.length}px` }}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        go(event);
      }}
      onPointerMove={(event) => event.buttons && go(event)}>
      <input class="scrubber" type="range" min={0} max={Math.max(1, found.length - 1)} step={1} value={value}
        disabled={!line.length} aria-label="Position in the run"
        aria-valuetext={[`step ${telling.step} of ${telling.of}`, telling.inner, telling.phase].filter(Boolean).join(", ")}
        onInput={(event) => dispatch({ type: "go", at: found[Number(event.currentTarget.value)] ?? 0 })} />
      <RunForward cells={cells} pitch={pitch} onRun={() => dispatch({ type: "to", where: "forward" })} />
      <svg aria-hidden="true" width={pitch * cells.length} height={HEIGHT} class={lettered ? undefined : "ticks"}>
        {pitch < TICK ? (
          <Bar cells={cells} pitch={pitch} step={telling.step} />
        ) : (
          cells.map((cell, k) => {
            const time = k + 1 < telling.step ? "past" : k + 1 === telling.step ? "now" : "future";
            return keep(String(k), `${time} ${pitch}`, cell, () => <CellView key={k} cell={cell} pitch={pitch} k={k} time={time} lettered={lettered} />);
          })
        )}
        {keep("brackets", String(pitch), cells, () => <Brackets cells={cells} pitch={pitch} />)}
        {pitch >= TICK && <Arc state={state} cells={cells} pitch={pitch} telling={telling} />}
      </svg>
    </div>
  );
}

/** The cells that end at some positions. */
function cellsOf(circuit: Circuit, stages: readonly Stage[], ends: readonly number[], done: (at: number) => number): Cell[] {
  return ends.slice(1).map((end, k) => {
    const own = stages.slice(done(ends[k]!), done(end));
    const phases = new Set(own.map(({ phase }) => phase));
    const signs = new Set(own.map((stage) => stageSign(circuit, stage)));
    const sign = signs.size === 1 ? [...signs][0]! : String(own.length);
    return { stages: own, phase: phases.size === 1 ? [...phases][0]! : "mixed", sign };
  });
}

/** The sign of what a stage does: its op, 1 for the seed, \u2295 for a sum. */
function stageSign(circuit: Circuit, { kind, node }: Stage): string {
  const found = circuit.nodes[node]!;
  if (kind === "seed") return "1";
  if (kind === "merge") return "\u2295";
  if (isSplitter(found)) return "\u2022";
  const { infix = [], prefix = "", name = found.op } = opOf(found.op) ?? {};
  const sign = signOf(infix[0] ?? (prefix || name));
  return sign.length > 5 ? `${sign.slice(0, 3)}\u2026` : sign;
}

/** How large signs of one or two letters are, and words. */
const [SIGN_FONT, WORD_FONT] = [15, 10.5];
/** How much a word may be narrowed: more could not be read. */
const NARROWED = 0.8;

function sideOf(pitch: number): number {
  return Math.min(32, pitch - 5);
}

function signFont(sign: string): number {
  return sign.length > 2 ? WORD_FONT : SIGN_FONT;
}

/** Whether a cell of a pitch has room for its sign. */
function signFits(sign: string, pitch: number): boolean {
  return pitch >= LETTERED && inkWidth(sign, signFont(sign)) * NARROWED <= sideOf(pitch) - 3;
}

interface CellProps {
  cell: Cell;
  pitch: number;
  k: number;
  time: "past" | "now" | "future";
  lettered: boolean;
}

function CellView({ cell, pitch, k, time, lettered }: CellProps) {
  const side = lettered ? sideOf(pitch) : pitch - 2;
  const x = pitch * k + (pitch - side) / 2;
  const high = lettered ? side : 20;
  const round = cell.phase === "seed" ? Math.min(side, high) / 2 : lettered ? 8 : Math.min(4, side / 2);
  const place = { x, y: MIDDLE - high / 2, width: side, height: high, rx: round };
  return (
    <g class={`cell ${time}`}>
      {time === "now" && <rect class="halo" x={x - 3} y={place.y - 3} width={side + 6} height={high + 6} rx={round + 3} />}
      <rect class="body" {...place} />
      {lettered && (
        <text x={pitch * (k + 0.5)} y={MIDDLE + 5} text-anchor="middle" font-size={signFont(cell.sign)}
          {...(inkWidth(cell.sign, signFont(cell.sign)) > side - 3 ? { textLength: side - 3, lengthAdjust: "spacingAndGlyphs" } : {})}>
          {cell.sign}
        </text>
      )}
    </g>
  );
}

/** One bar for a run of many steps, filled as far as the run is. */
function Bar({ cells, pitch, step }: { cells: readonly Cell[]; pitch: number; step: number }) {
  const place = { y: MIDDLE - 7, height: 14, rx: 7 };
  return (
    <g class="bar">
      <rect class="future" {...place} x={0.5} width={Math.max(1, pitch * cells.length - 1)} />
      {step > 0 && <rect class="past" {...place} x={0.5} width={Math.max(8, pitch * step)} />}
    </g>
  );
}

/** What stands under the cells of one phase. */
const BRACKETS = { forward: "", seed: "seed", backward: "\u2190 backward" } as const;

/** The room that the words of a pass take. */
const PASS_ROOM = 64;

function Brackets({ cells, pitch }: { cells: readonly Cell[]; pitch: number }) {
  const found: { phase: Cell["phase"]; first: number; last: number }[] = [];
  for (const [k, { phase }] of cells.entries()) {
    const open = found.at(-1);
    if (open?.phase === phase) open.last = k;
    else found.push({ phase, first: k, last: k });
  }
  // The words of a pass are centred below its cells; those of a single cell need the room of the seed.
  const seeded = pitch >= LETTERED && found.every(({ phase, first, last }) => phase === "seed" || pitch * (last - first + 1) >= PASS_ROOM);
  return (
    <g class="brackets">
      {found.map(({ phase, first, last }) => phase !== "mixed" && (
        <g key={first}>
          {phase !== "seed" && <path d={`M${pitch * first + 4} ${MIDDLE + 23}H${pitch * (last + 1) - 4}`} />}
          {(phase !== "seed" || seeded) && (
            <text x={(pitch * (first + last + 1)) / 2} y={MIDDLE + 38} text-anchor="middle">{BRACKETS[phase]}</text>
          )}
        </g>
      ))}
    </g>
  );
}

/** The words under the forward cells are a button: the end of the forward pass is where most stop. */
function RunForward({ cells, pitch, onRun }: { cells: readonly Cell[]; pitch: number; onRun: () => void }) {
  const count = cells.filter(({ phase }) => phase === "forward").length;
  const place = { width: `${Math.max(80, pitch * count)}px`, left: `calc(50% - ${(pitch * cells.length) / 2 + Math.max(0, 80 - pitch * count) / 2}px)` };
  return (
    <button type="button" class="plain run-forward" aria-label="Run forward" title="Run forward (F)" style={place}
      disabled={!count} onPointerDown={(event) => event.stopPropagation()} onClick={onRun}>
      forward →
    </button>
  );
}

/** Where the words of an arc need this much room, it has none. */
const WORDS_ROOM = 150;

/** From a backward cell an arc leads to the forward cell whose stored values it reads. */
function Arc({ state, cells, pitch, telling }: Pick<Props, "state" | "telling"> & { cells: readonly Cell[]; pitch: number }) {
  const [stage] = telling.stages;
  if (telling.stages.length !== 1 || stage?.kind !== "send" || !reads(state, stage.node)) return null;
  const source = cells.findIndex(({ stages }) => stages.some(({ kind, node }) => kind === "forward" && node === stage.node));
  if (source < 0) return null;
  const [from, to] = [pitch * (telling.step - 0.5), pitch * (source + 0.5)];
  const y = MIDDLE - 22;
  const words = from - to > WORDS_ROOM;
  return (
    <g class="arc">
      <path d={`M${from} ${y}C${from} ${y - 20} ${from - 12} 8 ${from - 40} 8H${to + 40}C${to + 12} 8 ${to} ${y - 20} ${to} ${y - 4}`} />
      <path class="head" d={`M${to} ${y + 3}l-4 -7h8z`} />
      {words && <rect x={(from + to) / 2 - 66} y={0} width={132} height={16} />}
      {words && <text x={(from + to) / 2} y={12} text-anchor="middle">reads what was stored</text>}
    </g>
  );
}

/** Whether the local derivatives of a node depend on what was stored: those of a sum are the same everywhere. */
function reads({ circuit }: Session, node: number): boolean {
  const pattern = opOf(circuit.nodes[node]!.op)?.pattern;
  return pattern !== "distribute" && pattern !== "merge";
}

/** The width of an element, kept up to date. */
function useWidth(frame: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(480);
  useEffect(() => {
    const element = frame.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return width;
}
