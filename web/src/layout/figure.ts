/** The geometry of a drawing in pixels: how large boxes are, what stands on wires, and where all of it goes. */
import { most } from "./arrays";
import type { Box, Drawing, Link } from "./boxes";
import { layout } from "./layout";
import { clip, clipFront, grouped, width } from "./letters";
import { bare, bareWithSign, pretty, sameReading, uniform, withSign, type State } from "./readings";
import type { Joint, Route, Shape, Spot } from "./shapes";

export const FONT = 12;
export const SMALL = 10;
/** How many columns of a name and of an op are shown. */
const NAME = 22;
const OP = 26;
export const HEAD = 24;
export const ROW = 20;
export const PAD = 8;
/** How much of the hatch under what is not finite is seen beside the words. */
const HATCH = 24;
/** How far apart ports are with and without labels. */
const LABELLED = 34;
const BARE = 12;
/** A group with more wires than this has no labels on them. */
const MARKED = 6;
const DOT = 10;
/** How many columns of the name of a far source are shown. */
const STUB = 12;
/** Up to so many boxes everything is written on wires; above, only what no box says. */
const DETAILED = 24;
/** How long a figure may be before it is cut into bands. */
export const FOLD = 2200;
/** A number that is as wide as most: room for it is kept, so that stepping and editing move nothing. */
const USUAL = pretty("-0.00000");

/** A rectangle on the page. */
export interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** A drawing with places: one rectangle per box, one route of points (x, y) per wire. */
export interface Figure {
  drawn: Drawing;
  down: boolean;
  width: number;
  height: number;
  rects: Rect[];
  routes: Route[];
  /** What stands on each wire: the local derivative and what was sent; and how much room there is for it. */
  labels: Label[];
  rooms: number[];
  /** The rank and the band of each box. */
  ranks: number[];
  bands: number[];
}

/** What stands on a wire: the local derivative above, what was sent below. */
export type Label = readonly [local: string, sent: string];

/** Which way values flow, whether there is room for numbers that are not there yet, and where to fold. */
export interface Manner {
  down: boolean;
  steady: boolean;
  fold: number;
}

/** Return a drawing with places. */
export function figureOf(drawn: Drawing, manner: Manner): Figure {
  const labels = labelsOf(drawn);
  const shapes = shapesOf(drawn, labels, manner);
  const joints = jointsOf(drawn, labels, manner);
  const found = layout(shapes, joints, { fold: manner.fold });
  const { down } = manner;
  const [wide, high] = turned([found.along, found.across], down);
  return {
    drawn,
    down,
    width: wide,
    height: high,
    rects: shapes.map((shape, k) => {
      const [x, y] = turned(found.corners[k]!, down);
      const [w, h] = turned([shape.along, shape.across], down);
      return { x, y, width: w, height: h };
    }),
    routes: found.routes.map(({ points, stub }) => ({ points: points.map((point) => turned(point, down)), stub })),
    labels,
    rooms: joints.map((joint) => joint.label ?? 0),
    ranks: found.ranks,
    bands: found.bands,
  };
}

/** Return a pair along and across as x and y, or the other way round. */
export function turned([along, across]: Spot, down: boolean): Spot {
  return down ? [across, along] : [along, across];
}

/** Return the name as it is shown in the head of a box. */
export function shownName(box: Box): string {
  return box.kind === "group" || box.name.includes(".") ? clipFront(box.name, NAME) : clip(box.name, NAME);
}

/** Return the op as it is shown in the head of a box. */
export function shownOp(box: Box): string {
  return clip(pretty(box.text), OP);
}

/** One row of a box: what it is of and its text. */
export interface Cell {
  what: "data" | "grad" | "gradient norm" | "not finite";
  text: string;
  state: State;
}

/** Return the rows under the head of a box. */
export function cellsOf(box: Box): Cell[] {
  const found: Cell[] = [];
  if (box.value) found.push({ what: "data", text: pretty(box.value.text), state: box.value.state });
  if (box.grad) {
    // The shape stands above, with the value.
    const text = box.value ? bareWithSign(box.grad) : withSign(box.grad);
    found.push({ what: box.kind === "group" ? "gradient norm" : "grad", text: pretty(text), state: box.grad.state });
  }
  if (box.kind === "group" && box.bad) found.push({ what: "not finite", text: grouped(box.bad), state: "not finite" });
  return found;
}

/** What labels are made from. */
export type Drawn = Pick<Drawing, "boxes" | "links">;

/** Return what stands on each wire; nothing on wires into groups that have many. */
export function labelsOf(drawn: Drawn): Label[] {
  const arriving = drawn.boxes.map(() => 0);
  for (const link of drawn.links) arriving[link.to]!++;
  const crowded = drawn.boxes.map((box, k) => box.kind === "group" && arriving[k]! > MARKED);
  const write = isDetailed(drawn) ? labelOf : shortLabel;
  return drawn.links.map((link) => (crowded[link.to] ? ["", ""] : write(link, drawn.boxes[link.from]!)));
}

/** Return whether everything is written on wires. */
export function isDetailed(drawn: Drawn): boolean {
  return drawn.boxes.length <= DETAILED;
}

/** Return the local derivative and the gradient sent; of an array whose slopes are all 1 nothing is said. */
function labelOf({ local, sent }: Link): Label {
  const plain = local !== null && local.shape !== "" && uniform(local) === "1";
  const slope = local === null || plain ? "" : `\u2202 ${pretty(uniform(local) || bare(local))}`;
  return [slope, sent === null || sent.state === "not computed" ? "" : pretty(bareWithSign(sent))];
}

/** Return the same without slopes of 1, norms of slopes, and gradients that stand in the box before the wire. */
function shortLabel(link: Link, source: Box): Label {
  const [local, sent] = labelOf(link);
  const told = link.local !== null && !["", "1"].includes(uniform(link.local));
  const known = link.sent !== null && sameReading(link.sent, source.grad) && link.sent.state !== "blocked";
  return [told ? local : "", known ? "" : sent];
}

/** Return the name that stands at the end of a wire that comes from far away. */
export function stubText(drawn: Drawn, link: Link): string {
  return clip(drawn.boxes[link.from]!.label, STUB);
}

/** Return what a splitter glyph says while gradients come back. */
export function arrivedText(arrived: number, due: number): string {
  return `${arrived} of ${due} arrived`;
}

/** Return what room is kept for on a wire: what it says at the end and, if steady, what it may say on the way. */
function widest(texts: Label, count: number, steady: boolean): string[] {
  if (!steady || !(texts[0] || texts[1])) return [...texts];
  const counter = count ? [arrivedText(count, count)] : [];
  return [...texts, ...(texts[0] ? [`\u2202 ${USUAL}`] : []), ...(texts[1] ? [USUAL] : []), ...counter];
}

function labelWidth(texts: readonly string[]): number {
  const found = most(texts.map((text) => width(text, SMALL)), 0);
  return found ? found + 6 : 0;
}

/** The labels of wires as they are measured. */
function measured(drawn: Drawing, labels: readonly Label[], steady: boolean): string[][] {
  return drawn.links.map((link, k) => widest(labels[k]!, branchesOf(drawn.boxes[link.to]!), steady));
}

/** Return how many gradients a splitter waits for; 0 for all others. */
function branchesOf(box: Box): number {
  return box.kind === "splitter" ? Math.max(2, box.branches.length + box.outputs.length) : 0;
}

/** Return the wires for the layout, with room for what stands on them and for the arrow. */
function jointsOf(drawn: Drawing, labels: readonly Label[], { down, steady }: Manner): Joint[] {
  const texts = measured(drawn, labels, steady);
  const seen = drawn.boxes.map(() => 0);
  return drawn.links.map((link, k) => {
    const port = seen[link.to]!;
    seen[link.to] = port + 1;
    const room = down ? (texts[k]!.some(Boolean) ? 26 : 0) : labelWidth(texts[k]!);
    const name = width(stubText(drawn, link), SMALL);
    const [far, tail] = down ? [14, 24] : [name + 10, name + 12];
    return { source: link.from, target: link.to, port, label: room + 8, far, tail };
  });
}

function shapesOf(drawn: Drawing, labels: readonly Label[], manner: Manner): Shape[] {
  const texts = measured(drawn, labels, manner.steady);
  const arriving: string[][][] = drawn.boxes.map(() => []);
  for (const [k, link] of drawn.links.entries()) arriving[link.to]!.push(texts[k]!);
  return drawn.boxes.map((box, k) => shapeOf(box, arriving[k]!, manner));
}

function shapeOf(box: Box, labels: readonly string[][], manner: Manner): Shape {
  const { down } = manner;
  const { group } = box;
  const pitch = pitchOf(labels, down);
  const after = !box.outputs.length ? 0 : down ? 20 : 24 + width(outputText(box), SMALL);
  if (box.kind === "splitter") {
    const reserve = even(Math.max(DOT, labels.flat().some(Boolean) ? pitch : DOT));
    return { along: DOT, across: DOT, splitter: true, reserve, after, group };
  }
  const [least, tall] = extentOf(box, manner.steady);
  const needed = pitch * labels.length;
  const wide = down ? even(Math.max(least, needed)) : least;
  const high = down ? tall : even(Math.max(tall, needed));
  const [along, across] = down ? [high, wide] : [wide, high];
  const leaf = box.kind === "input" || box.kind === "constant";
  return { along, across, leaf, free: box.kind === "group", reserve: reserveOf(wide, labels, down), after, group };
}

/** Return how much room a box needs for labels that stand beside wires from above and reach past its edge. */
function reserveOf(wide: number, labels: readonly string[][], down: boolean): number {
  if (!(down && labels.length)) return 0;
  const past = labelWidth(labels.at(-1)!) + 7 - Math.floor(wide / (2 * labels.length));
  return even(wide + 2 * Math.max(0, past));
}

/** Return what stands at the end of an output: its labels, unless the box has that name already. */
export function outputText(box: Box): string {
  return clip(box.outputs.filter((label) => label !== box.name).join(", "), NAME) || "output";
}

function pitchOf(labels: readonly string[][], down: boolean): number {
  if (!labels.flat().some(Boolean)) return BARE;
  return down ? most(labels.map(labelWidth), 0) + 14 : LABELLED;
}

/** Return the width and height a box needs for its text. */
function extentOf(box: Box, steady: boolean): Spot {
  const gap = box.name && box.text ? 12 : 0;
  const head = width(shownName(box), FONT, true) + gap + width(shownOp(box), FONT, !box.name) + 2 * PAD;
  const rows = cellsOf(box).map((cell) => rowWidth(cell, steady));
  return [even(most([head, ...rows, 44], 0)), HEAD + ROW * rows.length + (rows.length ? 0 : 4)];
}

/** Return how wide a row is: what it is of on the left, the number on the right. */
function rowWidth(cell: Cell, steady: boolean): number {
  const spoilt = cell.state === "not finite";
  const text = Math.max(width(cell.text, FONT, spoilt), steady ? width(USUAL, FONT) : 0);
  return width(cell.what, SMALL) + 10 + text + 2 * PAD + (spoilt ? HATCH : 0);
}

function even(size: number): number {
  return size + (size % 2);
}
