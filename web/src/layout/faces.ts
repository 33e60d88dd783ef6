/**
 * What boxes and wires of a picture show at a step: texts, states, tones, and the names that assistive technology
 * reads. Kept true: what is not computed shows a dash and never 0; NaN and infinities have no hue.
 */
import { active } from "../engine/circuits";
import { sizeOf } from "../engine/numbers";
import type { Known } from "../state/known";
import type { Run, Value } from "../types";
import { DASH } from "./letters";
import { called } from "./names";
import type { Picture, PictureBox, PictureWire } from "./picture";
import { bare, factorText, NO_GRADIENT, pretty, read, slotText, type Reading } from "./readings";
import { clips, PLAIN_WIDTH, scaleOf, thickness, tone, wireColour, type Scale } from "./scale";

/** What colours say: the signed gradient, its size, or gradient times value. */
export type Mode = "signed" | "magnitude" | "product";

/** How much is known of a number: none of it, a part of the sum, all; left over from before; never sent; not finite. */
export type Mark = "none" | "partial" | "final" | "stale" | "blocked" | "bad";

/** Everything that faces are made from. */
export interface Scene {
  picture: Picture;
  run: Run;
  known: Known;
  mode: Mode;
  scale: Scale;
  active: boolean[];
  /** Whether gradients have begun to come back. */
  backward: boolean;
}

/** One row of a box. */
export interface Row {
  what: string;
  text: string;
  mark: Mark;
  /** The tone of the ground under it; empty for none. */
  tone: string;
  /** Whether the number is beyond the colour scale. */
  clipped: boolean;
}

/** What a box shows. */
export interface BoxFace {
  /** The value and the gradient; null where there is no place for one. */
  value: Row | null;
  grad: Row | null;
  rows: Row[];
  /** The convention that a node on a kink follows. */
  kink: string;
  name: string;
}

/** What a wire shows: its stroke, its local derivative, and the gradient of a branch. */
export interface WireFace {
  mark: Mark;
  tone: string;
  /** Colour and thickness follow the size of the gradient continuously. */
  colour: string;
  width: number;
  local: string;
  sent: string;
  name: string;
}

/** Put together what faces are made from. */
export function sceneOf(picture: Picture, run: Run, known: Known, mode: Mode): Scene {
  const scale = mode === "product" ? productScale(run) : picture.scale;
  const backward = known.grad.some((mark) => mark !== "none");
  return { picture, run, known, mode, scale, active: active(run.circuit), backward };
}

function productScale(run: Run): Scale {
  return scaleOf(run.grads.map((grad, node) => sizeOf(grad) * sizeOf(run.values[node] ?? null)));
}

/** Return the tone of a gradient, given the value it belongs to. */
function toneOf(scene: Scene, grad: Reading, value: Value | null): string {
  if (grad.state !== "number") return grad.state === "not finite" ? "x" : "";
  if (scene.mode === "product") return tone(scene.scale, grad.size * sizeOf(value), grad.signed);
  return tone(scene.scale, grad.size, scene.mode === "signed" && grad.signed);
}

/** Return what a box shows. */
export function boxFace(scene: Scene, box: PictureBox): BoxFace {
  const rows = !box.grad && !box.value ? [] : box.kind === "group" ? groupRows(scene, box) : nodeRows(scene, box);
  const kink = box.kink && scene.known.value[box.node] ? box.kink : "";
  const row = (what: string): Row | null => rows.find((one) => one.what === what) ?? null;
  return { value: row("value"), grad: row("gradient"), rows, kink, name: boxName(scene, box, rows, kink) };
}

function nodeRows(scene: Scene, { node, shape }: PictureBox): Row[] {
  const value = scene.run.values[node] ?? null;
  const known = read(value);
  const mark: Mark = !scene.known.value[node] ? "none" : scene.known.staleValue[node] ? "stale" : stateMark(known);
  const text = mark === "none" ? DASH : slotText(known, shape);
  return [{ what: "value", text, mark, tone: "", clipped: false }, gradRow(scene, node, value)];
}

function stateMark(found: Reading): Mark {
  return found.state === "not finite" ? "bad" : found.state === "blocked" ? "blocked" : "final";
}

function gradRow(scene: Scene, node: number, value: Value | null): Row {
  const mark = scene.known.grad[node] ?? "none";
  const row: Row = { what: "gradient", text: DASH, mark: "none", tone: "", clipped: false };
  if (mark === "none" || !scene.active[node]) return row;
  const grad = (mark === "partial" ? scene.known.partial[node] : scene.run.grads[node]) ?? null;
  if (grad === null) return mark === "partial" ? row : { ...row, text: NO_GRADIENT, mark: "blocked" };
  const found = read(grad);
  const text = slotText(found);
  if (mark === "stale") return { ...row, text, mark };
  if (mark === "partial") return { ...row, text: `${text} …`, mark };
  const clipped = clips(scene.scale, found.size);
  return { ...row, text, mark: stateMark(found), tone: toneOf(scene, found, value), clipped };
}

/** Return the rows of a group: its norm is known when all gradients in it are. */
function groupRows(scene: Scene, box: PictureBox): Row[] {
  const rows: Row[] = [];
  const ready = box.members.every((node) => ["final", "stale"].includes(scene.known.grad[node] ?? "none"));
  if (box.grad) {
    const text = ready ? slotText(box.grad) : DASH;
    const mark = ready ? stateMark(box.grad) : "none";
    rows.push({ what: "gradient", text, mark, tone: ready ? toneOf(scene, box.grad, 1) : "", clipped: false });
  }
  const bad: Row = { what: "not finite", text: DASH, mark: "none", tone: "", clipped: false };
  if (box.bad) rows.push(ready ? { ...bad, text: String(box.bad), mark: "bad" } : bad);
  return rows;
}

const SAID: Readonly<Record<Mark, string>> = {
  none: "not computed",
  partial: "so far",
  final: "",
  stale: "stale",
  blocked: "",
  bad: "",
};

function boxName(scene: Scene, box: PictureBox, rows: readonly Row[], kink: string): string {
  if (box.kind === "splitter") return splitterName(scene, box);
  const op = box.kind === "node" ? `${box.sign} node` : box.kind === "group" ? `group of ${box.text}` : box.kind;
  const said = rows.map(({ what, text, mark }) => {
    if (mark === "blocked") return NO_GRADIENT;
    const words = mark === "none" ? SAID.none : `${text.replace(" …", "")} ${SAID[mark]}`.trim();
    return `${box.kind === "group" && what === "gradient" ? "gradient norm" : what} ${words}`;
  });
  const parts = [spokenName(scene, box), op, ...said];
  if (kink) parts.push(`on a kink, convention ${kink}`);
  if (box.outputs.length) parts.push("output");
  return parts.join(", ");
}

/** A box by the name that is drawn: of a group its label, of a splitter the value that it copies. */
function spokenName({ run }: Scene, box: PictureBox): string {
  return box.kind === "group" ? box.label : called(run.circuit, box.node);
}

/** What came back to a splitter so far. */
export interface Gathered {
  arrived: number;
  due: number;
  sum: Value | null;
}

/** Return how many branches of a splitter have brought something back, and their sum. */
export function gathered(scene: Scene, box: PictureBox): Gathered {
  const { run, known } = scene;
  const whole: Gathered = {
    arrived: known.arrived[box.node] ?? 0,
    due: known.due[box.node] ?? 0,
    sum: (known.grad[box.node] === "partial" ? known.partial[box.node] : run.grads[box.node]) ?? null,
  };
  if (box.branches.length + box.outputs.length === 0) return whole;
  const wires = box.branches.map(({ reader, slot }) => run.starts[reader]! + slot);
  const sending = wires.filter((wire) => run.wires[wire]?.sent !== null);
  if (sending.length === whole.due) return whole;
  const back = sending.filter((wire) => known.wire[wire] === "final").reverse();
  const flows = back.map((wire) => run.wires[wire]?.sent ?? null);
  const numbers = flows.every((flow) => typeof flow !== "object");
  const sum = numbers && flows.length ? flows.reduce((total: number, flow) => total + Number(flow), 0) : null;
  return { arrived: back.length, due: sending.length, sum };
}

/** Return what a splitter says while gradients come back. */
export function arrivedText(arrived: number, due: number): string {
  return `${arrived} of ${due} arrived`;
}

function splitterName(scene: Scene, box: PictureBox): string {
  const { arrived, due, sum } = gathered(scene, box);
  const count = scene.backward && due ? `, ${arrivedText(arrived, due)}` : "";
  const total = arrived && sum !== null ? `, sum ${slotText(read(sum))}` : "";
  return `splitter of ${called(scene.run.circuit, box.node)}${count}${total}`;
}

/** Return what a wire shows. */
export function wireFace(scene: Scene, wire: PictureWire): WireFace {
  const target = scene.picture.boxes[wire.to]!;
  const glyph = wire.slot < 0;
  const flow = glyph ? undefined : scene.run.wires[scene.run.starts[wire.reader]! + wire.slot];
  const sum = target.kind === "splitter" ? gathered(scene, target) : null;
  const sent = glyph ? (sum?.arrived ? sum.sum : null) : (flow?.sent ?? null);
  const found = wire.wires > 1 && wire.sent ? wire.sent : read(sent);
  const mark = wireMark(scene, wire, found, sum);
  const coloured = mark === "final" || mark === "bad" || mark === "partial";
  const ink = coloured ? toneOf(scene, found, scene.run.values[wire.source] ?? null) : "";
  const size = scene.mode === "product" ? found.size * sizeOf(scene.run.values[wire.source] ?? null) : found.size;
  const shown = coloured || mark === "stale";
  const texts = { local: localText(scene, wire, flow?.local ?? null, mark), sent: shown ? slotText(found) : "" };
  return {
    mark,
    tone: ink,
    colour: wireColour(scene.scale, size, ink),
    width: coloured ? thickness(scene.scale, size) : PLAIN_WIDTH,
    local: texts.local,
    sent: mark === "blocked" ? NO_GRADIENT : texts.sent || (scene.backward && mark === "none" ? DASH : ""),
    name: wireName(scene, wire, texts.local, texts.sent, mark),
  };
}

/** Return the local derivative once the gradient of the reader is known; before, nothing has asked for it. */
function localText(scene: Scene, wire: PictureWire, local: Value | null, mark: Mark): string {
  const known = scene.known.local?.[wire.reader] ?? scene.known.grad[wire.reader] === "final";
  const asked = wire.slot >= 0 && known && mark !== "stale";
  if (!asked || !wire.pill) return "";
  return factorText(local === null ? (wire.local ?? read(0)) : read(local));
}

function wireMark(scene: Scene, wire: PictureWire, found: Reading, sum: Gathered | null): Mark {
  if (wire.slot < 0) return sum?.arrived && scene.known.grad[wire.source] === "partial" ? "partial" : glyphMark(sum, found);
  const state = scene.known.wire[scene.run.starts[wire.reader]! + wire.slot] ?? "none";
  if (state === "none" || !scene.active[wire.source]) return "none";
  if (found.state === "not computed") return "blocked";
  return state === "stale" ? "stale" : stateMark(found);
}

function glyphMark(sum: Gathered | null, found: Reading): Mark {
  if (!sum?.arrived) return "none";
  if (sum.arrived < sum.due) return "partial";
  return stateMark(found);
}

function wireName(scene: Scene, wire: PictureWire, local: string, sent: string, mark: Mark): string {
  const { boxes } = scene.picture;
  const target = boxes[wire.to]!;
  const to = target.kind === "splitter" ? "its splitter" : spokenName(scene, target);
  const parts = [`wire from ${spokenName(scene, boxes[wire.from]!)} to ${to}`];
  if (wire.input && target.kind !== "splitter") parts.push(`input ${wire.slot + 1}`);
  if (wire.wires > 1) parts.push(`${wire.wires} wires`);
  const value = scene.run.values[wire.source] ?? null;
  parts.push(scene.known.value[wire.source] ? `value ${pretty(bare(read(value)))}` : "value not computed");
  if (local) parts.push(`local derivative ${local.replace(/^\u00d7\(?|\)$/g, "")}`);
  const said = sent || (mark === "none" ? SAID.none : "");
  const state = mark === "none" ? "" : SAID[mark];
  if (mark === "blocked") parts.push(NO_GRADIENT);
  else if (said && scene.active[wire.source]) parts.push(`gradient ${said} ${state}`.trim());
  return parts.join(", ");
}
