/**
 * Where things are written in a picture: the numbers of a box behind its port, the rows of a leaf, the local derivative
 * at a port. All of it follows from the rectangle of a box and the end of a wire.
 */
import type { Point } from "../types";
import type { Box } from "./boxes";
import { ASIDE, CAPTION_ASIDE, GRADIENT, outputLength, outputText, shownCaption, type Marks, type Measure, type Rect } from "./figure";
import { width } from "./letters";
import { DETAIL } from "./sizes";

/** A place for one line of text: its rectangle, where the text is anchored (on its base line), and on which side. */
export interface Slot extends Rect {
  at: Point;
  anchor: "start" | "middle" | "end";
}

/** The mark of an output: a wire from the box to a dot, and the name beside it. */
export interface OutputMark {
  text: string;
  from: Point;
  dot: Point;
  name: Slot;
}

/** The places of a box. What it does not have is null. */
export interface BoxPlaces {
  /** Where wires leave. */
  out: Point;
  /** The caption, under the box or beside it. */
  captionSlot: Slot | null;
  /** The value and the gradient: behind the port of a node, in the rows of a leaf; the gradient of a group. */
  valueSlot: Slot | null;
  gradSlot: Slot | null;
  /** The name of a leaf or a group, and what stands under that of a group. */
  nameSlot: Slot | null;
  textSlot: Slot | null;
  /** The word before the gradient of a leaf or a group. */
  wordSlot: Slot | null;
  /** The lower part of a leaf or a group, which takes the colour of its gradient. */
  cell: Rect | null;
  /** How far a group is: a bar for values and one for gradients. */
  bars: Rect[];
  mark: OutputMark | null;
}

/** Return a slot whose text is anchored at a point. */
export function slotAt(at: Point, wide: number, font: number, anchor: Slot["anchor"]): Slot {
  const left = anchor === "start" ? at.x : anchor === "end" ? at.x - wide : at.x - wide / 2;
  return { x: left, y: at.y - Math.round(0.8 * font), width: wide, height: font, at, anchor };
}

/** Return the places of a box in a rectangle. */
export function boxPlaces(box: Box, rect: Rect, measure: Measure): BoxPlaces {
  const out = outOf(box, rect, measure.down);
  const none: BoxPlaces = {
    out, captionSlot: null, valueSlot: null, gradSlot: null, nameSlot: null, textSlot: null, wordSlot: null, cell: null,
    bars: [], mark: box.outputs.length ? markOf(box, out, measure) : null,
  };
  if (box.kind === "splitter") return none;
  if (box.kind === "node") return { ...none, ...nodePlaces(box, rect, out, measure) };
  return { ...none, ...(box.kind === "group" ? groupPlaces(rect, measure) : leafPlaces(rect, measure)) };
}

/** Wires leave a splitter from its middle, and all other boxes from the middle of a side. */
function outOf(box: Box, { x, y, width: wide, height }: Rect, down: boolean): Point {
  const middle = { x: x + wide / 2, y: y + height / 2 };
  if (box.kind === "splitter") return middle;
  return down ? { x: middle.x, y: y + height } : { x: x + wide, y: middle.y };
}

function nodePlaces(box: Box, rect: Rect, out: Point, measure: Measure): Partial<BoxPlaces> {
  const captionSlot = captionPlace(box, rect, measure);
  if (!measure.ran) return { captionSlot };
  const { slot, gap, numberFont } = measure.sizes;
  if (measure.down) {
    const y = out.y + numberFont + 7;
    const left = slotAt({ x: out.x - ASIDE, y }, slot, numberFont, "end");
    return { captionSlot, valueSlot: left, gradSlot: slotAt({ x: out.x + ASIDE, y }, slot, numberFont, "start") };
  }
  const x = out.x + gap;
  const above = slotAt({ x, y: out.y - 8 }, slot, numberFont, "start");
  return { captionSlot, valueSlot: above, gradSlot: slotAt({ x, y: out.y + numberFont + 7 }, slot, numberFont, "start") };
}

function captionPlace(box: Box, rect: Rect, measure: Measure): Slot | null {
  const text = shownCaption(box, measure);
  if (!text) return null;
  const font = measure.sizes.labelFont;
  const wide = width(text, font);
  const { x, y, width: w, height } = rect;
  if (measure.down) return slotAt({ x: x + w + CAPTION_ASIDE, y: y + height / 2 + 4 }, wide, font, "start");
  return slotAt({ x: x + w / 2, y: y + height + font + 6 }, wide, font, "middle");
}

/** The base line of text in the middle of a row. */
function base(middle: number, font: number): number {
  return Math.round(middle + font * 0.36);
}

function leafPlaces({ x, y, width: wide, height }: Rect, { sizes, ran, detail }: Measure): Partial<BoxPlaces> {
  const { pad, slot, nameFont, numberFont } = sizes;
  if (!ran) {
    const at = { x: x + wide / 2, y: base(y + height / 2, nameFont) };
    return { nameSlot: slotAt(at, wide - 2 * pad, nameFont, "middle") };
  }
  const [upper, lower] = [y + height / 4, y + (3 * height) / 4];
  const right = x + wide - pad;
  const name = slotAt({ x: x + pad, y: base(upper, nameFont) }, wide - 2 * pad - slot - 8, nameFont, "start");
  const word = slotAt({ x: x + pad, y: base(lower, 11) }, width(GRADIENT, 11), 11, "start");
  return {
    nameSlot: name,
    valueSlot: slotAt({ x: right, y: base(upper, numberFont) }, slot, numberFont, "end"),
    gradSlot: slotAt({ x: right, y: base(lower, numberFont) }, slot, numberFont, "end"),
    wordSlot: detail < DETAIL.noWord ? word : null,
    cell: { x, y: y + height / 2, width: wide, height: height / 2 },
  };
}

function groupPlaces({ x, y, width: wide, height }: Rect, { sizes, ran, detail }: Measure): Partial<BoxPlaces> {
  const inner = wide - 28;
  const left = x + 14;
  const heads = {
    nameSlot: slotAt({ x: left, y: y + 22 }, inner, 13, "start"),
    textSlot: slotAt({ x: left, y: y + 40 }, inner, 11, "start"),
  };
  if (!ran) return heads;
  const cell = { x, y: y + height - 24, width: wide, height: 24 };
  const middle = cell.y + 12;
  return {
    ...heads,
    bars: [46, 52].map((by) => ({ x: left, y: y + by, width: inner, height: 4 })),
    cell,
    wordSlot: detail < DETAIL.noWord ? slotAt({ x: left, y: base(middle, 11) }, width(GRADIENT, 11), 11, "start") : null,
    gradSlot: slotAt({ x: x + wide - 14, y: base(middle, sizes.numberFont) }, sizes.slot, sizes.numberFont, "end"),
  };
}

function markOf(box: Box, from: Point, measure: Measure): OutputMark {
  const { down, sizes } = measure;
  const text = outputText(box);
  const length = outputLength(box, measure) + sizes.dot / 2;
  const dot = down ? { x: from.x, y: from.y + length } : { x: from.x + length, y: from.y };
  const at = down ? { x: dot.x + sizes.dot / 2 + 8, y: dot.y + 4 } : { x: dot.x + sizes.dot / 2 + 6, y: dot.y + 5 };
  return { text, from, dot, name: slotAt(at, width(text, sizes.nameFont), sizes.nameFont, "start") };
}

/** The places before the port of a wire: a local derivative, and the gradient of a branch. */
export interface PortPlaces {
  pillSlot: Slot | null;
  sentSlot: Slot | null;
}

/** Return what stands before a port; `port` of `ports` says on which side, where values flow downwards. */
export function portPlaces(end: Point, marks: Marks, port: number, ports: number, measure: Measure): PortPlaces {
  return measure.down ? abovePort(end, marks, port, ports, measure) : beforePort(end, marks, measure);
}

function beforePort({ x, y }: Point, { pill, sent }: Marks, { sizes }: Measure): PortPlaces {
  const right = x - 12;
  return {
    pillSlot: pill ? pillAt(right, y, sizes.pill, sizes.pillHeight, "end") : null,
    sentSlot: sent
      ? slotAt({ x: right - (pill ? sizes.pill + 4 : 0), y: y - 6 }, sizes.slot, sizes.numberFont, "end")
      : null,
  };
}

function abovePort({ x, y }: Point, { pill, sent }: Marks, port: number, ports: number, measure: Measure): PortPlaces {
  const { sizes } = measure;
  const side: Slot["anchor"] = ports !== 2 ? "middle" : port ? "start" : "end";
  const lean = side === "start" ? -ASIDE : side === "end" ? ASIDE : 0;
  const top = y - 12 - sizes.pillHeight / 2;
  const beside = side === "end" ? { x: x - 8, anchor: "end" as const } : { x: x + 8, anchor: "start" as const };
  const high = y - 12 - (pill ? sizes.pillHeight + 6 : 0);
  return {
    pillSlot: pill ? pillAt(x + lean, top, sizes.pill, sizes.pillHeight, side) : null,
    sentSlot: sent ? slotAt({ x: beside.x, y: high }, sizes.slot, sizes.numberFont, beside.anchor) : null,
  };
}

/** Return the room of a pill around a wire; the pill is as wide as its text, and anchored like it. */
function pillAt(x: number, middle: number, wide: number, high: number, anchor: Slot["anchor"]): Slot {
  const left = anchor === "start" ? x : anchor === "end" ? x - wide : x - wide / 2;
  return { x: left, y: middle - high / 2, width: wide, height: high, at: { x, y: base(middle, 12) }, anchor };
}
