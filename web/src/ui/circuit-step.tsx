/**
 * The marks of the step that has just happened: pulses along wires, the product beside each wire, the swap of stored
 * inputs, the equation of a value, the sum of a splitter, and the numbers 1 to 3 of the parts. None of it is read by
 * assistive technology: the sentence of the step says the same. Nothing moves for it.
 */
import { opOf } from "../engine";
import type { Picture, PictureBox, PictureWire, Slot } from "../layout";
import type { Scene, WireFace } from "../layout/faces";
import { width } from "../layout/letters";
import { bare, pretty, read, slotText } from "../layout/readings";
import type { Firing } from "../state/firing";
import type { Stage } from "../state/timeline";
import type { Point, Value, WireFlow } from "../types";
import { boxOf, splitterOf, wiresInto, type Acts } from "./circuit-acts";
import { aroundBox, besideWire, covers, freePlace, roomOf, type Rect, type Room } from "./circuit-room";
import { pathsOf, Pill, pillRect } from "./circuit-wires";
import { inkWidth } from "./ink";

interface Props {
  scene: Scene;
  faces: readonly WireFace[];
  firing: Firing;
  acts: Acts;
  /** Whether something may move: a step forward, and motion is wanted. */
  moves: boolean;
  /** The paper that is seen while the whole picture is. */
  paper: Rect;
}

/** The marks of a step. */
export function StepMarks({ scene, faces, firing, acts, moves, paper }: Props) {
  const [stage] = firing.stages;
  const single = firing.stages.length === 1 && stage !== undefined;
  const desk: Desk = { scene, faces, firing, room: roomOf(scene, paper), taken: [] };
  return (
    <g class="step-marks" aria-hidden="true" pointer-events="none">
      {moves && <Pulses scene={scene} faces={faces} acts={acts} firing={firing} />}
      {single && marksOf(desk, stage)}
    </g>
  );
}

const DRAG = "drag a number, press a name";

/** The invitation at an idle circuit: an arrow to the number of the first leaf that can be changed. */
export function DragHint({ scene, editable, paper }: { scene: Scene; editable: (node: number) => boolean; paper: Rect }) {
  const leaf = scene.picture.boxes.find(({ kind, node, valueSlot }) => kind === "input" && valueSlot && editable(node));
  const slot = leaf?.valueSlot;
  if (!leaf || !slot) return null;
  const wide = width(DRAG, 12);
  const x = slot.at.x - width(slotText(read(scene.run.values[leaf.node] ?? null)), scene.picture.sizes.numberFont) / 2;
  const offer = { x: x - wide, y: leaf.y - 27, width: wide, height: 16, cost: 0 };
  const place = freePlace(roomOf(scene, paper), [], [offer, { ...offer, x: leaf.x, cost: 1 }]);
  return place && (
    <g class="drag-hint" aria-hidden="true" pointer-events="none">
      <text x={place.x} y={place.y + 12} font-size={12}>{DRAG}</text>
      <path class="arc" d={`M${Math.min(place.x + wide - 24, x - 20)} ${place.y + 17}Q${x - 3} ${place.y + 18} ${x - 1} ${leaf.y - 2}`} />
      <path class="point" d={`M${x} ${leaf.y + 4}l-4 -8h8z`} />
    </g>
  );
}

/** What marks are made from; `taken` collects where marks already stand. */
interface Desk {
  scene: Scene;
  faces: readonly WireFace[];
  firing: Firing;
  room: Room;
  taken: Rect[];
}

function marksOf(desk: Desk, stage: Stage) {
  if (stage.kind === "forward") return forwardMarks(desk, stage.node);
  if (stage.kind === "send") return sendMarks(desk, stage.node);
  return stage.kind === "merge" ? sumMark(desk, stage.node) : null;
}

/** What travels along the wires of a step. */
function Pulses({ scene, faces, acts, firing }: Omit<Props, "moves" | "paper">) {
  const { picture } = scene;
  const seed = firing.stages.find(({ kind }) => kind === "seed");
  const mark = seed && picture.boxes[boxOf(picture, seed.node)]?.mark;
  return (
    <>
      {[...acts.wires].flatMap(([k, { goes }]) => {
        if (!goes) return [];
        const { colour, width: thick } = faces[k]!;
        const ink = goes === "forward" ? "var(--wg-ink)" : colour;
        return pathsOf(picture.wires[k]!, picture.sizes.corner).map((path) => <Pulse path={path} goes={goes} ink={ink} thick={thick} />);
      })}
      {mark && <Pulse path={`M${mark.from.x} ${mark.from.y}L${mark.dot.x} ${mark.dot.y}`} goes="backward" ink="var(--wg-ink)" thick={2} />}
    </>
  );
}

function Pulse({ path, goes, ink, thick }: { path: string; goes: string; ink: string; thick: number }) {
  return <path class={`pulse ${goes}`} d={path} pathLength={100} stroke={ink} stroke-width={thick + 6} />;
}

/** A piece of an equation: its text and how it looks. */
type Piece = readonly [text: string, look?: "plus" | "minus" | "strong" | "open"];

/** The size of the letters of equations, and where there is little room. */
const [FONT, SMALL_FONT] = [15, 12];

/** How wide a piece of an equation is. */
function pieceWidth([text, look]: Piece, font: number): number {
  return look === "open" ? 26 : inkWidth(text, font, look !== undefined);
}

function equationSize(pieces: readonly Piece[], font = FONT): { width: number; height: number } {
  return { width: pieces.reduce((sum, piece) => sum + pieceWidth(piece, font) + font * 0.4, font), height: font + 12 };
}

/** An equation in a box. */
function Equation({ pieces, place, look, font = FONT }: { pieces: readonly Piece[]; place: Rect; look: string; font?: number }) {
  let x = place.x + font * 0.7;
  const y = place.y + place.height / 2;
  return (
    <g class={`equation ${look}`}>
      <rect x={place.x} y={place.y} width={equationSize(pieces, font).width} height={place.height} rx={8} />
      {pieces.map((piece, k) => {
        const at = x;
        const wide = pieceWidth(piece, font);
        x += wide + font * 0.4;
        if (piece[1] === "open") return <rect key={k} class="open" x={at} y={y - 9} width={wide} height={18} rx={6} />;
        return <text key={k} class={piece[1]} x={at} y={y + font * 0.36} font-size={font}>{piece[0]}</text>;
      })}
    </g>
  );
}

function numberPiece(value: Value | null, bracket = false): Piece {
  if (value === null) return ["nothing"];
  const { size } = read(value);
  const text = slotText(read(value));
  const look = size > 0 ? "plus" : size < 0 ? "minus" : "strong";
  return [bracket ? bracketed(text) : text, look];
}

function bracketed(text: string): string {
  return text.startsWith("\u2212") ? `(${text})` : text;
}

/** The equation of a value over its node, with a stem. */
function forwardMarks(desk: Desk, node: number) {
  const { scene, room, taken } = desk;
  const box = scene.picture.boxes[boxOf(scene.picture, node)];
  const pieces = box?.kind === "node" ? valuePieces(scene, node) : null;
  if (!box || !pieces) return null;
  const { width: wide, height } = equationSize(pieces);
  const place = freePlace(room, taken, aroundBox(box, wide, height));
  return place && (
    <g class="appears first">
      <Stem box={box} place={place} />
      <Equation pieces={pieces} place={place} look="now" />
    </g>
  );
}

/** The numbers of a value: `−6 + 6.881 = 0.8814`; null for arrays. */
function valuePieces({ run }: Scene, node: number): Piece[] | null {
  const { op, sources } = run.circuit.nodes[node]!;
  const values = sources.map((source) => run.values[source]!);
  if (!values.length || [...values, run.values[node]!].some((value) => typeof value === "object")) return null;
  const texts = values.map((value) => slotText(read(value)));
  const { infix = [], prefix = "", name = op } = opOf(op) ?? {};
  const total: Piece[] = [["="], [slotText(read(run.values[node]!)), "strong"]];
  if (infix[0] && texts.length === 2) return [[texts[0]!, "strong"], [pretty(infix[0])], [bracketed(texts[1]!), "strong"], ...total];
  if (prefix) return [[`${pretty(prefix)}${bracketed(texts[0]!)}`, "strong"], ...total];
  return [[`${name}(${texts.join(", ")})`, "strong"], ...total];
}

/** A line from a box to a callout. */
function Stem({ box, place }: { box: Rect; place: Rect }) {
  const x = Math.max(place.x + 12, Math.min(box.x + box.width / 2, place.x + place.width - 12));
  if (place.y + place.height < box.y) return <path class="stem" d={`M${x} ${place.y + place.height}V${box.y - 7}`} />;
  if (place.y > box.y + box.height) return <path class="stem" d={`M${x} ${place.y}V${box.y + box.height + 7}`} />;
  const y = box.y + box.height / 2;
  const [from, to] = place.x > box.x ? [box.x + box.width + 7, place.x] : [place.x + place.width, box.x - 7];
  return <path class="stem" d={`M${from} ${y}H${to}`} />;
}

/** The three parts of a backward step: upstream, local derivatives with the swap, products. */
function sendMarks(desk: Desk, node: number) {
  const { scene, firing } = desk;
  const { picture, run } = scene;
  const box = picture.boxes[boxOf(picture, node)];
  if (!box || box.kind !== "node") return null;
  const wires = wiresInto(picture, node);
  const pills = firing.part > 1 ? pillsOf(desk, wires) : [];
  desk.taken.push(...pills.map(({ rect }) => rect));
  const swap = run.circuit.nodes[node]!.op === "multiply" && pills.length === 2;
  return (
    <>
      {upstreamMark(desk, box)}
      {firing.part > 1 && (
        <g class="appears second">
          {pills.map(({ wire, rect, text, own }) => own && (
            <Pill key={wire.slot} text={text} slot={pillSlot(rect, picture.sizes.pillFont)} sizes={picture.sizes} />
          ))}
          {swap && <Swap scene={scene} pills={pills} />}
          {pills[0] && badge({ x: pills[0].rect.x + pills[0].rect.width / 2, y: pills[0].rect.y - 13 }, "2", desk)}
        </g>
      )}
      {firing.part > 2 && firing.wires.map((index) => {
        const flow = run.wires[index]!;
        const k = wires.find((wire) => picture.wires[wire]!.slot === flow.slot);
        return k !== undefined && productMark(desk, picture.wires[k]!, flow, box);
      })}
      {firing.part > 2 && sumsOf(desk)}
    </>
  );
}

/** The number of the first part, beside the gradient that has arrived. */
function upstreamMark(desk: Desk, box: PictureBox) {
  const { scene } = desk;
  const slot = box.gradSlot;
  const grad = scene.run.grads[box.node] ?? null;
  if (!slot || grad === null) return null;
  const wide = inkWidth(slotText(read(grad)), scene.picture.sizes.numberFont, true);
  const right = slot.anchor === "start" ? slot.at.x + wide : slot.at.x;
  return <g class="appears first">{badge({ x: right + 20, y: slot.at.y - 4 }, "1", desk)}</g>;
}

interface PillPlace {
  wire: PictureWire;
  rect: Rect;
  text: string;
  /** Whether the picture itself has no pill there. */
  own: boolean;
}

/** Where the local derivatives of the firing node stand; where the picture has left them out, they are drawn here. */
function pillsOf({ scene, faces, room }: Desk, wires: readonly number[]): PillPlace[] {
  const { picture, run, active } = scene;
  return wires.flatMap((k) => {
    const wire = picture.wires[k]!;
    const local = run.wires[run.starts[wire.reader]! + wire.slot]?.local ?? null;
    if (local === null || !active[wire.source]) return [];
    const shown = wire.pillSlot && faces[k]!.local;
    const text = shown ? faces[k]!.local : `\u00d7${bracketed(pretty(bare(read(local))))}`;
    const rect = pillRect(text, wire.pillSlot ?? portSlot(picture, wire), picture.sizes);
    return shown || wire.pillSlot || !covers(room, rect) ? [{ wire, rect, text, own: !shown }] : [];
  });
}

/** A place for a local derivative at the port of a wire: before it, or outward beside it where values flow downwards. */
function portSlot({ sizes, down, boxes }: Picture, wire: PictureWire): Slot {
  const { x, y } = wire.points.at(-1)!;
  const { pill: wide, pillHeight: height } = sizes;
  const box = boxes[wire.to]!;
  if (!down) return { x: x - 12 - wide, y: y - height / 2, width: wide, height, at: { x: x - 12, y: y + 4 }, anchor: "end" };
  const left = x < box.x + box.width / 2;
  const at = { x: left ? x + 7 : x - 7, y: y - 16 };
  return { x: left ? at.x - wide : at.x, y: at.y - 4 - height / 2, width: wide, height, at, anchor: left ? "end" : "start" };
}

function pillSlot(rect: Rect, font: number): Slot {
  return { ...rect, at: { x: rect.x + rect.width, y: rect.y + rect.height / 2 + font * 0.36 }, anchor: "end" };
}

/** Lines that are shorter than this would be loops. */
const SWAP_ROOM = 40;

/** From each stored input a dotted line leads to the local derivative of the other, if both have room. */
function Swap({ scene, pills }: { scene: Scene; pills: readonly PillPlace[] }) {
  const { picture } = scene;
  const [one, two] = pills;
  if (!one || !two || one.wire.source === two.wire.source || picture.down) return null;
  const lines = [[one, two], [two, one]].map(([from, to], k) => swapLine(storedPlace(scene, from!.wire), to!.rect, k === 1));
  if (lines.some((line) => !line || line.end.x - line.start.x < SWAP_ROOM)) return null;
  return <>{lines.map((line, k) => <SwapLine key={k} {...line!} />)}</>;
}

/** Where the stored value of a wire ends. */
function storedPlace({ picture, run }: Scene, { source }: PictureWire): Point | null {
  const slot = picture.boxes[boxOf(picture, source)]?.valueSlot;
  const wide = width(slotText(read(run.values[source] ?? null)), picture.sizes.numberFont, true);
  return slot ? { x: slot.anchor === "end" ? slot.at.x + 6 : slot.at.x + wide + 6, y: slot.at.y } : null;
}

interface SwapEnds {
  start: Point;
  end: Point;
  low: boolean;
}

function swapLine(from: Point | null, to: Rect, low: boolean): SwapEnds | null {
  const end = { x: to.x - 4, y: to.y + to.height / 2 + (low ? 6 : -6) };
  return from && { start: { x: from.x, y: from.y + (low ? -14 : 4) }, end, low };
}

function SwapLine({ start, end, low }: SwapEnds) {
  const bend = Math.max(40, (end.x - start.x) * 0.45);
  return (
    <>
      <path class="swap" d={`M${start.x} ${start.y}C${start.x + bend} ${start.y + (low ? -26 : 26)} ${end.x - bend} ${end.y} ${end.x - 3} ${end.y}`} />
      <path class="swap-head" d={`M${end.x + 3} ${end.y}l-7 -3.600v7.200z`} />
    </>
  );
}

/** The product beside the wire that it went along: `0.5 × (−3) = −1.5`. */
function productMark(desk: Desk, wire: PictureWire, flow: WireFlow, box: Rect) {
  const { local, upstream, sent } = flow;
  if (local === null || sent === null || [local, upstream, sent].some((value) => typeof value === "object")) return null;
  const factor = bracketed(slotText(read(local)));
  const pieces: Piece[] = [numberPiece(upstream), ["\u00d7"], [factor, "strong"], ["="], numberPiece(sent)];
  const above = wire.points.at(-1)!.y <= box.y + box.height / 2;
  // With its number in full size, then smaller, then without the number; a wire in a corner has none at all.
  for (const [font, room] of [[FONT, 26], [SMALL_FONT, 26], [SMALL_FONT, 0]] as const) {
    const { width: wide, height } = equationSize(pieces, font);
    const place = freePlace(desk.room, desk.taken, besideWire(wire, wide + room, height, above));
    if (!place) continue;
    desk.taken.push(place);
    return (
      <g class="appears third" key={wire.slot}>
        <Equation pieces={pieces} place={place} look="product" font={font} />
        {room > 0 && badge({ x: place.x + wide + 15, y: place.y + height / 2 }, "3", desk)}
      </g>
    );
  }
  return null;
}

/** The sums at splitters that this step has sent something to. */
function sumsOf(desk: Desk) {
  const { run } = desk.scene;
  const sources = new Set(desk.firing.wires.map((wire) => run.wires[wire]!.source));
  return [...sources].map((source) => sumMark(desk, source));
}

/** The sum at a splitter, with open places for what has not come back: `1 + 3 + – = 4 …`. */
function sumMark(desk: Desk, node: number) {
  const { scene, room, taken } = desk;
  const { picture, run, known } = scene;
  const box = picture.boxes[splitterOf(picture, node)];
  if (!box) return null;
  const back = branchesBack(scene, box);
  if (back.some((value) => typeof value === "object")) return null;
  const open = Math.max(0, (known.due[node] ?? 0) - back.length);
  const done = known.grad[node] === "final";
  const total = done ? (run.grads[node] ?? null) : (known.partial[node] ?? null);
  const parts: Piece[] = [...back.map((value, k) => numberPiece(value, k > 0)), ...Array<Piece>(open).fill(["", "open"])];
  if (parts.length > MAX_PARTS || parts.length < 2) return null;
  const [text, look] = numberPiece(total);
  const pieces: Piece[] = [...parts.flatMap((part, k): Piece[] => (k ? [["+"], part] : [part])), ["="], [done ? text : `${text} \u2026`, look ?? "strong"]];
  const size = equationSize(pieces);
  const words = open ? `${back.length} of ${back.length + open} branches are back` : "all branches are back";
  const place = freePlace(room, taken, aroundBox(box, Math.max(size.width, inkWidth(words, WORDS_FONT) + 20), 46));
  if (!place) return null;
  taken.push(place);
  return (
    <g class="appears third" key={`sum${node}`}>
      <Stem box={box} place={place} />
      <rect class="card" x={place.x} y={place.y} width={place.width} height={place.height} rx={10} />
      <Equation pieces={pieces} place={{ ...place, x: place.x + (place.width - size.width) / 2, height: 27 }} look="bare" />
      <text class="words" x={place.x + place.width / 2} y={place.y + 39} font-size={WORDS_FONT} text-anchor="middle">{words}</text>
    </g>
  );
}

/** The size of the words beneath a sum. */
const WORDS_FONT = 12;

/** A sum of more parts than this is only told in the sentence. */
const MAX_PARTS = 6;

/** What has come back to a splitter, in the order in which it came. */
function branchesBack({ run, known }: Scene, box: PictureBox): Value[] {
  const order = [...box.branches].sort((one, two) => two.reader - one.reader || one.slot - two.slot);
  const wires = order.map(({ reader, slot }) => run.starts[reader]! + slot);
  const own: Value[] = (known.due[box.node] ?? 0) > wires.filter((wire) => run.wires[wire]!.sent !== null).length ? [1] : [];
  return [...own, ...wires.flatMap((wire) => (known.wire[wire] === "final" ? (run.wires[wire]!.sent ?? []) : []))];
}

/** The number of a part, in a disc. */
function badge(at: Point, text: string, desk: Desk) {
  const place = { x: at.x - 9, y: at.y - 9, width: 18, height: 18 };
  if (covers(desk.room, place, desk.room.boxes)) return null;
  desk.taken.push(place);
  return (
    <g class="badge-number">
      <circle cx={at.x} cy={at.y} r={9.5} />
      <text x={at.x} y={at.y + 4.4} text-anchor="middle">{text}</text>
    </g>
  );
}
