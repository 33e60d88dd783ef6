/**
 * The geometry of a drawing: how large boxes are, how much room wires need for what is written on them, and where all
 * of it goes. Only structure and the detail level count, never a value.
 */
import type { Box, Drawing, Link } from "./boxes";
import { layout } from "./layout";
import { clip, width } from "./letters";
import { isWord, nameText, shortCaption, signOf } from "./signs";
import { METRICS, type Joint, type Metrics, type Route, type Shape, type Spot } from "./shapes";
import { DETAIL, sizesOf, type Sizes } from "./sizes";

/** The font of the name of a closed group, and of what stands under it. */
export const TITLE = 13;
export const SMALL = 11;
/** The word beside the number of a leaf's gradient. */
export const GRADIENT = "gradient";
/** A group with more wires than this has them closer together. */
const CROWD = 6;
/** How many columns of the name of a far source are shown. */
const STUB = 12;
/** How long a picture may be before it is cut into bands. */
export const FOLD = 2200;
/** Room for a caption under a box. */
export const CAPTION = 20;
/** How far a caption is from its box: clear of the highlight of a step. */
export const CAPTION_ASIDE = 11;
/** How far the sides of a port are from numbers beside a wire that leads downwards. */
export const ASIDE = 10;

/** A rectangle on the page. */
export interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** Room besides what a picture needs: between boxes of a rank, and between ranks. */
export interface Air {
  across: number;
  along: number;
}

/** How a drawing is laid out: which way values flow, how much is shown, whether there are numbers, where to fold. */
export interface Manner {
  down: boolean;
  detail: number;
  ran: boolean;
  fold: number;
  air?: Air;
}

/** What boxes and wires are measured with. */
export interface Measure extends Manner {
  sizes: Sizes;
}

/** A drawing with places: one rectangle per box, one route of points (x, y) per wire. */
export interface Figure {
  drawn: Drawing;
  measure: Measure;
  down: boolean;
  width: number;
  height: number;
  rects: Rect[];
  /** The rectangles with captions, for frames. */
  extents: Rect[];
  routes: Route[];
  /** How much room there is on each wire before its end. */
  rooms: number[];
  /** The rank and the band of each box. */
  ranks: number[];
  bands: number[];
}

/** What boxes and links are made from. */
export type Drawn = Pick<Drawing, "boxes" | "links">;

/** Return the measure of a manner. */
export function measureOf(manner: Manner): Measure {
  return { ...manner, sizes: sizesOf(manner.detail) };
}

/** Return a drawing with places. */
export function figureOf(drawn: Drawing, manner: Manner): Figure {
  const measure = measureOf(manner);
  const { down } = manner;
  const marks = marksOf(drawn, measure);
  const shapes = shapesOf(drawn, marks, measure);
  const joints = jointsOf(drawn, marks, measure);
  const found = layout(shapes, joints, metricsOf(measure));
  const [wide, high] = turned([found.along, found.across], down);
  const rects = shapes.map((shape, k) => {
    const [x, y] = turned(found.corners[k]!, down);
    const [w, h] = turned([shape.along, shape.across], down);
    return { x, y, width: w, height: h };
  });
  return {
    drawn,
    measure,
    down,
    width: wide,
    height: high,
    rects,
    extents: rects.map((rect, k) => extentOf(rect, drawn.boxes[k]!, measure)),
    routes: found.routes.map(({ points, stub }) => ({ points: points.map((point) => turned(point, down)), stub })),
    rooms: joints.map((joint) => joint.label ?? 0),
    ranks: found.ranks,
    bands: found.bands,
  };
}

/** Return a pair along and across as x and y, or the other way round. */
export function turned([along, across]: Spot, down: boolean): Spot {
  return down ? [across, along] : [along, across];
}

function metricsOf({ sizes, fold, air = { across: 0, along: 0 } }: Measure): Metrics {
  const [apart, beside, lead] = [sizes.apart + air.across, sizes.beside + air.across / 2, sizes.lead + air.along / 2];
  return { ...METRICS, fold, apart, beside, lead, track: 8, narrow: 4, near: 6, grid: 4, band: 2 * sizes.apart };
}

/** Return a rectangle with the caption of its box. */
function extentOf(rect: Rect, box: Box, { down, detail }: Measure): Rect {
  return box.caption && !down && detail < DETAIL.noCaption ? { ...rect, height: rect.height + CAPTION } : rect;
}

/** What stands on a wire before its port: a local derivative, the gradient of a branch. */
export interface Marks {
  pill: boolean;
  sent: boolean;
}

/** Return what stands on each wire. A number is written once: at its producer, unless branches have their own. */
export function marksOf({ boxes, links }: Drawn, { detail, ran }: Manner): Marks[] {
  const leaving = boxes.map(({ outputs }) => outputs.length);
  for (const { from } of links) leaving[from]!++;
  return links.map(({ from, to, pill, slot }) => {
    const { kind } = boxes[from]!;
    const branch = slot >= 0 && (kind === "splitter" || kind === "group" || leaving[from]! > 1);
    return {
      pill: ran && detail < DETAIL.noLocal && pill && boxes[to]!.kind === "node",
      sent: ran && detail < DETAIL.noBranch && branch,
    };
  });
}

/** Return the port of its target at which each wire ends: wires into a box in the order of their slots. */
export function portsOf({ boxes, links }: Drawn): number[] {
  const seen = boxes.map(() => 0);
  return links.map(({ to }) => seen[to]!++);
}

/** Return the name that stands at the end of a wire that comes from far away. */
export function stubText(drawn: Drawn, link: Link): string {
  return clip(drawn.boxes[link.from]!.label, STUB);
}

/** Return what stands at the end of an output: its labels. */
export function outputText(box: Box): string {
  return nameText(box.outputs.join(", "));
}

/** Return what stands under a box. */
export function shownCaption(box: Box, { detail }: Manner): string {
  return box.kind === "node" && detail < DETAIL.noCaption ? shortCaption(box.caption) : "";
}

/** Return the wires for the layout, with room for what stands on them and for the head. */
function jointsOf(drawn: Drawing, marks: readonly Marks[], measure: Measure): Joint[] {
  const ports = portsOf(drawn);
  return drawn.links.map((link, k) => {
    const name = width(stubText(drawn, link), SMALL);
    const far = measure.down ? 16 : name + 12;
    const behind = afterOf(drawn.boxes[link.from]!, measure);
    const tail = behind + (measure.down ? 20 : name + 12);
    const label = even4(Math.max(labelRoom(marks[k]!, measure), overhang(drawn.boxes[link.to]!, measure)));
    return { source: link.from, target: link.to, port: ports[k]!, label, far, tail };
  });
}

/** Return how much room a wire needs before its port. */
function labelRoom({ pill, sent }: Marks, { down, sizes }: Measure): number {
  if (down) return sizes.head + (pill ? sizes.pillHeight + 6 : 0) + (sent ? sizes.numberFont + 6 : 0);
  return sizes.head + (pill ? sizes.pill + 4 : 0) + (sent ? sizes.slot + 8 : 0);
}

/** Return how far the caption of a box reaches past its edge. */
function overhang(box: Box, measure: Measure): number {
  const text = measure.down ? "" : shownCaption(box, measure);
  return text ? (width(text, measure.sizes.labelFont) - sizeOf(box, measure)[0]) / 2 + 6 : 0;
}

function shapesOf(drawn: Drawing, marks: readonly Marks[], measure: Measure): Shape[] {
  const arriving: Marks[][] = drawn.boxes.map(() => []);
  for (const [k, link] of drawn.links.entries()) arriving[link.to]!.push(marks[k]!);
  return drawn.boxes.map((box, k) => shapeOf(box, arriving[k]!, measure));
}

function shapeOf(box: Box, marks: readonly Marks[], measure: Measure): Shape {
  const { down, sizes } = measure;
  const { group } = box;
  const after = even4(Math.max(afterOf(box, measure), outputRoom(box, measure)));
  if (box.kind === "splitter") return { along: sizes.splitter, across: sizes.splitter, splitter: true, after, group };
  const [wide, high] = sizeOf(box, measure);
  const pitch = pitchOf(box, marks, measure);
  const needed = marks.length ? pitch * (marks.length - 1) + sizes.node - sizes.port : 0;
  const [along, least] = down ? [high, wide] : [wide, high];
  const across = even4(Math.max(least, needed));
  const inset = marks.length ? (across - pitch * marks.length) / 2 : 0;
  const leaf = box.kind === "input" || box.kind === "constant";
  const reserve = even4(reserveOf(box, across, marks, measure));
  const below = even4(belowOf(box, across, reserve, measure));
  return { along, across, leaf, free: box.kind === "group", reserve, below, after, inset, group };
}

/** Return how far apart the ports of a box are. */
function pitchOf(box: Box, marks: readonly Marks[], { down, sizes }: Measure): number {
  if (box.kind === "group" && marks.length > CROWD) return sizes.crowdedPort;
  if (!down || marks.length < 3) return sizes.port;
  const written = marks.some(({ pill }) => pill) ? sizes.pill + 4 : 0;
  return Math.max(sizes.port, written, marks.some(({ sent }) => sent) ? sizes.slot + 8 : 0);
}

/** Return the width and height of a box. */
export function sizeOf(box: Box, { sizes, ran, detail }: Measure): Spot {
  if (box.kind === "splitter") return [sizes.splitter, sizes.splitter];
  if (box.kind === "node") {
    const sign = signOf(box.text);
    return [isWord(sign) ? Math.max(sizes.word, even4(width(sign, sizes.wordFont) + 20)) : sizes.node, sizes.node];
  }
  if (box.kind === "group") {
    const text = Math.max(width(groupName(box), TITLE, true), width(groupText(box), SMALL));
    return [Math.max(sizes.group, even4(text + 28)), ran ? sizes.groupHeight : sizes.bareGroupHeight];
  }
  const name = width(nameText(box.name || box.text), sizes.nameFont);
  if (!ran) return [Math.max(sizes.node, even4(name + 2 * sizes.pad)), sizes.bareLeaf];
  const number = Math.max(sizes.slot, width(box.shape, sizes.numberFont));
  const word = detail < DETAIL.noWord ? width(GRADIENT, SMALL) : 0;
  return [even4(2 * sizes.pad + Math.max(name, word) + 8 + number), sizes.leaf];
}

/** Return the name of a closed group as it is shown. */
export function groupName(box: Box): string {
  return nameText(box.name, 22);
}

/** Return what stands under the name of a closed group; how much is not finite has room from the start. */
export function groupText(box: Box): string {
  return box.text;
}

/** Return how much room the numbers behind a box need, along. */
function afterOf(box: Box, { down, ran, sizes }: Measure): number {
  if (box.kind !== "node") return box.kind === "splitter" ? 4 : sizes.tail;
  if (!ran) return down ? 4 : sizes.tail;
  return down ? sizes.numberFont + 14 : sizes.gap + sizes.slot + sizes.slack;
}

/** Return how long the wire to the mark of an output is. */
export function outputLength(box: Box, measure: Measure): number {
  const { down, ran, sizes } = measure;
  if (box.kind !== "node" || !ran) return 28;
  return down ? sizes.numberFont + 20 : sizes.gap + sizes.slot;
}

function outputRoom(box: Box, measure: Measure): number {
  if (!box.outputs.length) return 0;
  const text = measure.down ? 0 : 8 + width(outputText(box), measure.sizes.nameFont);
  return outputLength(box, measure) + measure.sizes.dot + text;
}

/** Return how much room a box needs across, around its middle. */
function reserveOf(box: Box, across: number, marks: readonly Marks[], measure: Measure): number {
  const { down, ran, sizes } = measure;
  if (box.kind !== "node") return across;
  const pill = marks.some((mark) => mark.pill);
  const sent = marks.some((mark) => mark.sent);
  if (!down) return across + (sent ? 2 * sizes.numberFont : 0);
  const numbers = ran ? 2 * (ASIDE + sizes.slot) : 0;
  const span = sizes.port * (marks.length - 1);
  const beside = Math.max(pill ? 2 * (sizes.pill - ASIDE) : 0, sent ? 2 * (sizes.slot + 8) : 0);
  return Math.max(across, numbers, marks.length < 3 ? span + beside : 0);
}

/** Return how much room a box needs across on its far side besides: under it for a caption, or beside it. */
function belowOf(box: Box, across: number, reserve: number, measure: Measure): number {
  const { down, sizes } = measure;
  const caption = shownCaption(box, measure);
  if (!down) return caption ? CAPTION : 0;
  const beside = caption ? across / 2 + CAPTION_ASIDE + width(caption, sizes.labelFont) : 0;
  const output = box.outputs.length ? sizes.dot + 4 + width(outputText(box), sizes.nameFont) : 0;
  return Math.max(0, beside - reserve / 2, output - reserve / 2);
}

/** Return a length rounded up to the grid. */
function even4(size: number): number {
  return 4 * Math.ceil(size / 4);
}
