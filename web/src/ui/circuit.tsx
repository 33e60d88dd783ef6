/**
 * The circuit as SVG. It keeps no state but the view (pan, zoom) and what the pointer is on: what is known at a step,
 * what is selected and how colours are meant all come from outside. Boxes and wires stand in an order that can be run,
 * so that it is also the order in which they are read.
 */
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { clip } from "../layout/letters";
import { pretty, written } from "../layout/readings";
import { sceneOf, type Mode, type Scene } from "../layout/faces";
import { STEPS, type Picture, type PictureBox, type PictureFrame, type PictureWire } from "../layout";
import type { Known } from "../state/known";
import { sameSelection, type Selection } from "../state/selection";
import { useMedia, useUnique } from "./parts";
import type { Circuit, Lit, Point, Run } from "../types";
import type { Firing } from "../state/firing";
import { actsOf } from "./circuit-acts";
import { drawBox, Highlight } from "./circuit-boxes";
import { movedBetween, paperIn, useGestures, type Extent, type View } from "./circuit-gestures";
import type * as Extras from "./circuit-extras";
import { useLeafEditor, type LeafEdits } from "./circuit-leaf";
import type { Rect } from "./circuit-room";
import { closedPath, DOCUMENT, LOOKS } from "./circuit-look";
import { facesOf, Strokes, WireView } from "./circuit-wires";
import { FONTS, inkWidth } from "./ink";
import { useKept } from "./kept";

/** The marks of a step, cards under the pointer, the minimap. */
export type CircuitExtras = typeof Extras;

export interface CircuitViewProps {
  picture: Picture;
  run: Run;
  known: Known;
  selection: Selection | null;
  mode: Mode;
  /** Whether the picture was made for a frame, and does not fit it. */
  minimap?: boolean;
  onSelect: (selection: Selection | null) => void;
  onHover?: (selection: Selection | null) => void;
  /** A group was pressed twice. */
  onOpen?: (path: string) => void;
  /** The step that has just happened, and what is marked of it. */
  firing?: Firing | null;
  /** A path whose wires are lit, each with its factor beside it. */
  lit?: Lit | null;
  /** The inputs whose values can be changed in the picture, and what changes them. */
  leaves?: LeafEdits | null;
  /** Draws what is not the circuit itself; null while that is not there yet. */
  extras: CircuitExtras | null;
  /** What is drawn besides: below all wires, and above everything. */
  marks?: ((scene: Scene, paper: Rect, above: boolean) => VNode | null) | null;
}

/** What the pointer is on, and what is lit with it: the whole value, all it depends on, or all that depends on it. */
interface Pointed {
  selection: Selection;
  reach: "value" | "ancestors" | "descendants";
}

/** The circuit with pan, zoom and selection; one tab stop. */
export function CircuitView(props: CircuitViewProps) {
  const { picture, selection, extras } = props;
  const frame = useRef<HTMLDivElement>(null);
  const id = useUnique();
  const crowded = picture.wires.length > CROWD;
  const gestures = useGestures(picture, frame, crowded, props.minimap);
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const { view } = gestures;
  const active = activeId(picture, selection, id);
  useEffect(() => {
    const rect = selection && rectOf(picture, selection);
    if (rect) gestures.reveal(rect);
    uncover(frame.current);
  }, [JSON.stringify(selection), gestures.window]);
  useChanges(props, gestures.reveal);
  const point = (found: Pointed | null): void => {
    setPointed((old) => (JSON.stringify(old) === JSON.stringify(found) ? old : found));
    if (!sameSelection(found?.selection ?? null, pointed?.selection ?? null)) props.onHover?.(found?.selection ?? null);
  };
  const moves = useAdvance(props.firing ?? null);
  const content = useMemo(
    () => <Content {...props} id={id} pointed={pointed} moves={moves} paper={paperIn(picture, gestures.window)} />,
    [picture, gestures.window, props.run, props.known, props.mode, JSON.stringify(selection), pointed, props.firing, props.lit, moves, props.marks, extras],
  );
  const editor = useLeafEditor({ picture, run: props.run, leaves: props.leaves ?? null, selection, view, frame });
  const find = (event: Event): Selection | null => pickedFrom(picture, event.target, id);
  return (
    <div ref={frame} class="circuit" role="application" aria-roledescription="circuit" tabIndex={0} style={FILLING}
      aria-label={labelOf(picture)} {...(active ? { "aria-activedescendant": active } : {})}
      onKeyDown={(event) => editor.keyed(event) || keyed(event, gestures)} {...editor.around(gestures.handlers)}
      onPointerOver={(event) => point(pointedAt(find(event), event))} onPointerLeave={() => point(null)}
      onClick={(event) => !gestures.dragged() && !isControl(event.target) && !editor.isOnNumber(event) && props.onSelect(find(event))}
      onDblClick={(event) => editor.opened(find(event)) || openGroup(find(event), props)}>
      <svg {...DOCUMENT} aria-roledescription="circuit" aria-label={labelOf(picture)} width="100%" height="100%"
        viewBox={`0 0 ${gestures.window.width} ${gestures.window.height}`} font-family={FONTS}
        {...(crowded ? { class: "crowded", style: { transform: movedBetween(gestures.drawn, view) } } : {})}>
        <g transform={placed(gestures.drawn)}>{content}</g>
      </svg>
      {editor.field}
      {extras && <extras.HoverCard pointed={pointed} frame={frame} />}
      <Controls onZoom={gestures.zoomBy} onFit={gestures.fit} />
      <Legend {...props} narrow={gestures.window.width < NARROW} />
      {extras && <extras.Minimap picture={picture} gestures={gestures} />}
    </div>
  );
}

const FILLING = { position: "absolute", inset: 0, overflow: "hidden", touchAction: "none" } as const;

function placed({ x, y, zoom }: View): string {
  return `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${zoom.toFixed(4)})`;
}

/** Scroll the page until a sheet over it leaves the circuit free; who reads below the circuit stays there. */
function uncover(frame: HTMLElement | null): void {
  const sheet = frame?.closest(".whole")?.querySelector(".inspector");
  if (!frame || !sheet || getComputedStyle(sheet).position !== "fixed") return;
  const { top, bottom } = frame.getBoundingClientRect();
  const covered = bottom - sheet.getBoundingClientRect().top;
  if (covered > 0) scrollBy(0, Math.min(covered, top));
}

/** How a step moves: not at all (back, a jump, no motion wanted), one part, all parts of a step, or in a hurry. */
type Advance = "still" | "moves" | "part" | "hurries";
/** Steps that follow each other within so many milliseconds show only their last part. */
const HURRY = 500;

/** Say how the picture moves to the step that has just happened. */
function useAdvance(firing: Firing | null): Advance {
  const still = useMedia("(prefers-reduced-motion: reduce)");
  const before = useRef<{ firing: Firing | null; advance: Advance; time: number }>({ firing, advance: "still", time: 0 });
  const old = before.current;
  if (firing !== old.firing) before.current = { firing, advance: advanceFrom(old, firing, still), time: Date.now() };
  return before.current.advance;
}

function advanceFrom(old: { firing: Firing | null; time: number }, firing: Firing | null, still: boolean): Advance {
  const from = old.firing?.at ?? 0;
  if (still || !firing || firing.at <= from || !follows(old.firing, firing)) return "still";
  if (Date.now() - old.time < HURRY) return "hurries";
  return old.firing?.stages.at(-1) === firing.stages[0] ? "part" : "moves";
}

/** Whether a step begins where another ended: a jump is no step. */
function follows(old: Firing | null, now: Firing): boolean {
  return now.stages[0]!.first <= (old?.at ?? 0);
}

/** How many nodes a step changes at most, if it is to be followed. */
const FOLLOWED = 6;

/** Show what a step has changed, if it is outside the view. */
function useChanges({ picture, known }: CircuitViewProps, reveal: (rect: Point & Extent) => void): void {
  const before = useRef({ picture, known });
  useLayoutEffect(() => {
    const old = before.current;
    before.current = { picture, known };
    if (old.picture.boxes.length !== picture.boxes.length || old.known.grad.length !== known.grad.length) return;
    const changed = known.grad.flatMap((mark, node) => {
      const value = known.value[node] !== old.known.value[node];
      return value || mark !== old.known.grad[node] ? [node] : [];
    });
    const rect = rectOf(picture, { kind: "node", node: changed[0] ?? -1 });
    if (rect && changed.length <= FOLLOWED) reveal(rect);
  }, [known]);
}

function labelOf(picture: Picture): string {
  return `Circuit ${picture.title}: ${picture.note || picture.about}`.trim();
}

function isControl(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("button, input") !== null;
}

function openGroup(selection: Selection | null, { onOpen }: CircuitViewProps): void {
  if (selection?.kind === "group") onOpen?.(selection.path);
}

/** Keys that move the view; all others belong to the page. */
function keyed(event: KeyboardEvent, { zoomBy, fit }: { zoomBy: (by: number) => void; fit: () => void }): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "+" || event.key === "=") zoomBy(1.25);
  else if (event.key === "-") zoomBy(0.8);
  else if (event.key === "0") fit();
  else return;
  event.preventDefault();
}

/** What a press on a box selects. */
export function selectionOfBox(box: PictureBox): Selection {
  if (box.kind === "splitter") return { kind: "splitter", node: box.node };
  return box.kind === "group" && box.path ? { kind: "group", path: box.path } : { kind: "node", node: box.node };
}

/** What a press on a wire selects; a wire into a splitter glyph belongs to the glyph. */
export function selectionOfWire(wire: PictureWire): Selection {
  if (wire.slot < 0) return { kind: "splitter", node: wire.source };
  return { kind: "wire", reader: wire.reader, slot: wire.slot };
}

function pickedFrom(picture: Picture, target: EventTarget | null, id: string): Selection | null {
  const found = target instanceof Element ? target.closest("[data-box], [data-wire]") : null;
  const [kind, number] = (found?.id ?? "").slice(id.length + 1).split("-");
  const box = kind === "b" ? picture.boxes[Number(number)] : undefined;
  const wire = kind === "w" ? picture.wires[Number(number)] : undefined;
  return box ? selectionOfBox(box) : wire ? selectionOfWire(wire) : null;
}

function pointedAt(selection: Selection | null, event: MouseEvent): Pointed | null {
  if (!selection) return null;
  return { selection, reach: !event.altKey ? "value" : event.shiftKey ? "descendants" : "ancestors" };
}

/** The id of what is selected, which assistive technology follows. */
function activeId(picture: Picture, selection: Selection | null, id: string): string | null {
  const box = boxIndex(picture, selection);
  const wire = picture.wires.findIndex((found) => isWire(found, selection));
  return wire >= 0 ? `${id}-w-${wire}` : box >= 0 ? `${id}-b-${box}` : null;
}

function isWire(wire: PictureWire, selection: Selection | null): boolean {
  return selection?.kind === "wire" && wire.reader === selection.reader && wire.slot === selection.slot;
}

/** The box of a selection, or the group that it is hidden in. */
function boxIndex(picture: Picture, selection: Selection | null): number {
  if (!selection || selection.kind === "wire") return -1;
  const own = picture.boxes.findIndex((box) => sameSelection(selectionOfBox(box), selection));
  if (own >= 0 || selection.kind === "group") return own;
  return picture.boxes.findIndex((box) => box.members.includes(selection.node));
}

function rectOf(picture: Picture, selection: Selection): (Point & Extent) | null {
  const wire = picture.wires.find((found) => isWire(found, selection));
  const end = wire?.points[wire.points.length - 1];
  if (end) return { x: end.x - 60, y: end.y - 20, width: 70, height: 40 };
  const box = picture.boxes[boxIndex(picture, selection)];
  // Numbers and the mark of an output stand to the right of a box, or below it.
  return box ? { ...box, width: box.width + 90, height: box.height + 24 } : null;
}

interface ContentProps extends CircuitViewProps {
  id: string;
  pointed: Pointed | null;
  moves: Advance;
  /** Where callouts may stand. */
  paper: Point & Extent;
}

/** Pictures of more wires than this take longer to paint than a frame lasts: they move as they were painted. */
const CROWD = 300;

/** What a circuit on paper is made of; all else is what a page does with it. */
type StillProps = Pick<ContentProps, "picture" | "run" | "known" | "mode" | "id" | "moves">;

/** Everything that moves with the view. */
export function Content(props: StillProps & Partial<ContentProps>) {
  const { picture, run, known, mode, selection = null, id, pointed = null, leaves, moves, extras } = props;
  const paper = props.paper!;
  const firing = props.firing ?? null;
  const path = props.lit ?? null;
  const scene = sceneOf(picture, run, known, mode);
  const faces = facesOf(scene);
  const keep = useKept();
  const acts = useMemo(() => actsOf(picture, run, firing), [picture, run, firing]);
  const lit = litNodes(run.circuit, pointed);
  const chosen = boxIndex(picture, selection);
  const named = new Set<number>();
  const into = picture.boxes.map((): number[] => []);
  for (const [k, wire] of picture.wires.entries()) into[wire.to]?.push(k);
  const wire = (k: number): VNode => {
    const [found, face] = [picture.wires[k]!, faces[k]!];
    const first = !named.has(found.from);
    if (found.stub) named.add(found.from);
    const look = { id: `${id}-w-${k}`, named: first, chosen: isWire(found, selection), lit: lit.wire(found), act: acts.wires.get(k) };
    return keep(look.id, JSON.stringify([face, look]), found, () => (
      <WireView key={look.id} {...look} sizes={picture.sizes} wire={found} face={face} />
    ));
  };
  return (
    <g class={`content ${moves}${path ? " dimmed" : ""}${firing?.stages[0]?.kind === "send" ? " sending" : ""}`}>
      {picture.wires.length > CROWD && <rect {...ground(picture)} />}
      {picture.frames.map((frame, k) => <FrameView key={k} frame={frame} />)}
      <g class="highlights" aria-hidden="true">
        {[...acts.boxes].map(([k, { fires }]) => fires && <Highlight key={`${k} ${firing?.at}`} box={picture.boxes[k]!} />)}
      </g>
      {props.marks?.(scene, paper, false)}
      <Strokes scene={scene} faces={faces} acts={acts.wires} />
      {picture.boxes.map((box, k) => [
        ...(into[k] ?? []).map(wire),
        drawBox(keep, {
          scene, box, id: `${id}-b-${k}`, chosen: k === chosen, lit: lit.box(box), act: acts.boxes.get(k),
          editable: leaves?.editable(box.node) === true && box.kind === "input",
        }),
      ])}
      {extras && firing && !path && (
        <extras.StepMarks key={firing.at} scene={scene} faces={faces} firing={firing} acts={acts} moves={moves !== "still"} paper={paper} />
      )}
      {extras && !firing && leaves && !known.value.some((there, k) => there && run.circuit.nodes[k]!.sources.length) && (
        <extras.DragHint scene={scene} editable={leaves.editable} paper={paper} />
      )}
      {extras && path && <extras.LitPathMarks scene={scene} path={path} paper={paper} />}
      {props.marks?.(scene, paper, true)}
    </g>
  );
}

/**
 * One place that can be touched, below all others. A browser joins such places of a layer one by one, which takes longer
 * than a frame where none of them covers the rest.
 */
function ground({ left: x, top: y, width, height }: Picture) {
  return { x, y, width, height, fill: "transparent" };
}

function FrameView({ frame }: { frame: PictureFrame }) {
  return (
    <g class="frame" aria-hidden="true">
      <path {...LOOKS.frame} d={closedPath(frame.points)} />
      <text {...LOOKS.group} {...frame.at}>{clip(frame.name, Math.max(4, Math.floor(frame.room / 7)))}</text>
    </g>
  );
}

interface Reached {
  box: (box: PictureBox) => boolean;
  wire: (wire: PictureWire) => boolean;
}

const DARK: Reached = { box: () => false, wire: () => false };

/** What is lit with what the pointer is on: all branches of a value, or everything up or down the circuit from it. */
function litNodes(circuit: Circuit, pointed: Pointed | null): Reached {
  const node = pointed && valueOf(circuit, pointed.selection);
  if (node === null || !pointed) return DARK;
  if (pointed.reach === "value") {
    return { box: (box) => box.node === node && box.kind !== "group", wire: (wire) => wire.source === node };
  }
  const reached = pointed.reach === "ancestors" ? ancestors(circuit, node) : descendants(circuit, node);
  return {
    box: (box) => box.members.some((member) => reached.has(member)),
    wire: (wire) => reached.has(wire.source) && (wire.slot < 0 || reached.has(wire.reader)),
  };
}

/** The node whose value a selection is about. */
function valueOf(circuit: Circuit, selection: Selection): number | null {
  if (selection.kind === "group") return null;
  if (selection.kind !== "wire") return selection.node;
  return circuit.nodes[selection.reader]?.sources[selection.slot] ?? null;
}

/** The nodes a node depends on, itself included. */
export function ancestors(circuit: Circuit, node: number): Set<number> {
  const found = new Set([node]);
  for (let k = node; k >= 0; k--) {
    if (found.has(k)) for (const source of circuit.nodes[k]?.sources ?? []) found.add(source);
  }
  return found;
}

/** The nodes that depend on a node, itself included. */
export function descendants(circuit: Circuit, node: number): Set<number> {
  const found = new Set([node]);
  for (const [k, { sources }] of circuit.nodes.entries()) if (sources.some((source) => found.has(source))) found.add(k);
  return found;
}

const CORNER = { position: "absolute", right: "8px" } as const;

/** Buttons for those who have neither wheel nor keys; the circuit stays one tab stop. */
function Controls({ onZoom, onFit }: { onZoom: (by: number) => void; onFit: () => void }) {
  const button = (name: string, text: string, act: () => void) => (
    <button type="button" tabIndex={-1} aria-label={name} title={name} onClick={act}>{text}</button>
  );
  return (
    <div class="zoom" style={{ ...CORNER, top: "8px", display: "flex", gap: "4px" }}>
      {button("Zoom in", "+", () => onZoom(1.25))}
      {button("Zoom out", "\u2212", () => onZoom(0.8))}
      {button("Fit to view", "\u2922", onFit)}
    </div>
  );
}

/** How far swatches are apart; in a frame narrower than this they are closer, because two scales stand side by side. */
const [SWATCH, CLOSE, NARROW] = [13, 9, 500];

/** The colour scale with its limit, once there are gradients; norms have tones of their own. */
function Legend({ picture, run, known, mode, narrow }: CircuitViewProps & { narrow: boolean }) {
  if (known.grad.every((mark) => mark === "none")) return null;
  const { scale } = sceneOf(picture, run, known, mode);
  const limit = written(scale.limit, 3);
  const signed = mode !== "magnitude";
  const what = mode === "product" ? "gradient \u00d7 value" : signed ? "gradient" : "|gradient|";
  const norms = signed && picture.boxes.some(({ grad }) => grad?.state === "number" && !grad.signed);
  const tones = signed ? [...tonesOf("n").reverse(), "z", ...tonesOf("p")] : ["z", ...tonesOf("m")];
  const ends = signed ? [`-${limit}`, limit] : ["0", limit];
  return (
    <div style={{ ...CORNER, bottom: "6px", display: "flex", gap: "12px" }} class="legend">
      <Swatches pitch={narrow ? CLOSE : SWATCH} before={`${what} ${pretty(ends[0] ?? "")}`} tones={tones} behind={pretty(ends[1] ?? "")} />
      {norms && <Swatches pitch={narrow ? CLOSE : SWATCH} before="norm 0" tones={tonesOf("m")} behind={pretty(limit)} />}
    </div>
  );
}

function tonesOf(sign: string): string[] {
  return Array.from({ length: STEPS }, (_, k) => `${sign}${k + 1}`);
}

function Swatches({ pitch, before, tones, behind }: { pitch: number; before: string; tones: readonly string[]; behind: string }) {
  const start = inkWidth(before, 11) + 6;
  const end = start + pitch * tones.length;
  const extent = { width: end + 6 + inkWidth(behind, 11), height: 18 };
  return (
    <svg {...extent} role="img" aria-label={`Colours from ${before} to ${behind}, log scale`}
      style={{ width: `${extent.width}px`, height: "18px" }}>
      <text {...LOOKS.small} x={start - 6} y={13} text-anchor="end">{before}</text>
      {tones.map((tone, k) => (
        <rect key={tone} x={start + pitch * k} y={4} width={pitch - 1} height={11} rx={2} fill={`var(--wg-s_${tone})`} />
      ))}
      <text {...LOOKS.small} x={end + 5} y={13}>{behind}</text>
    </svg>
  );
}
