/**
 * The picture of a circuit: what is drawn, how large it is and where it stands. Sizes and places are those of Python's
 * pictures, and follow from structure and the detail level alone: a run gives numbers, never sizes.
 *
 * What the drawing of the page uses:
 * - `Picture.sizes` has every length and font size; `Picture.detail` says what was dropped (`DETAIL` in sizes.ts).
 * - A `PictureBox` is a rectangle with its `kind`. Function nodes show `sign` (`isWord` says in which font) and nothing
 *   else; `captionText` stands in `captionSlot`. The value and the gradient of a box stand in `valueSlot` and
 *   `gradSlot`: behind the port of a node, in the rows of a leaf, in the `cell` of a group. `ports` are where wires
 *   enter, `out` is where they leave. A splitter is a dot of `sizes.dot` or a plus of `sizes.splitter` around `out`.
 *   `bars` are the two rows of progress of a closed group; `mark` is the dot of an output with its name.
 * - A `PictureWire` runs along `lines`: one, or two if it is a `stub`, which has names in `nets`. Forward its head is at
 *   `points.at(-1)`, backward at `points[0]`, turned round. The local derivative stands in `pillSlot` (a pill as wide as
 *   its text, anchored as the slot is), the gradient of a branch in `sentSlot`. An array's wire has a `slash`.
 * - A `Slot` is a rectangle with `at` and `anchor` for its text; a text that is wider than the slot is squeezed into it.
 */
import type { Circuit, Point, Run } from "../types";
import { least, most } from "./arrays";
import { artistOf, whole, type Artist, type Box, type Drawing, type Link } from "./boxes";
import { collapsed } from "./collapsed";
import { withSplitters } from "./fanout";
import {
  figureOf, FOLD, groupName, marksOf, portsOf, shownCaption, SMALL, stubText,
  type Air, type Drawn, type Figure, type Measure, type Rect,
} from "./figure";
import { framesOf, unframed } from "./frames";
import { CAP, materialOf, plan, RANKS, shortPlan } from "./grouping";
import { counted, width } from "./letters";
import { DIGITS } from "./readings";
import { scaleOf, type Scale } from "./scale";
import type { Route, Spot } from "./shapes";
import { isWord, nameText, signOf } from "./signs";
import { usualDetail, type Sizes } from "./sizes";
import { boxPlaces, portPlaces, slotAt, type BoxPlaces, type PortPlaces, type Slot } from "./slots";

/** How a picture is to be drawn. */
export interface PictureOptions {
  /** The numbers; without a run boxes have only names and ops. */
  run?: Run;
  /** Whether values flow downwards. */
  down?: boolean;
  /** Whether splitters are drawn behind values that are read more than once; yes, unless told otherwise. */
  split?: boolean;
  /** Whether a splitter glyph with several readers is drawn as two-way splitters. */
  unfolded?: boolean;
  /** A value that needs this many splitters has one glyph; overrides `unfolded`. */
  chain?: number;
  /** How many levels of groups are open; by default as many as there is room for. */
  depth?: number;
  /** Groups that are open besides. */
  opened?: ReadonlySet<string>;
  /** How many boxes there may be. */
  cap?: number;
  digits?: number;
  /** How long the picture may be before it is cut into bands. */
  fold?: number;
  /** What is left out, from 0 to 5 (`DETAIL`); by default by the number of boxes. */
  detail?: number;
  /** Room besides what is needed; by default none. */
  air?: Air;
}

/** A box with its place, what is written in it, and where its numbers go. */
export interface PictureBox extends Box, Rect, BoxPlaces {
  /** The op of a node, the name of a leaf or a group. */
  sign: string;
  /** Whether the op is written as a word. */
  isWord: boolean;
  /** What stands under a node; empty if there is no `captionSlot`. */
  captionText: string;
  /** Where wires enter, in the order of slots. */
  ports: Point[];
  rank: number;
}

/** A wire with its points, from its producer to a port of its reader. */
export interface PictureWire extends Link, PortPlaces {
  points: Point[];
  /** Whether only its two ends are drawn, with the name of where it comes from. */
  stub: boolean;
  /** What is drawn of it: one line, or two if it is a stub. */
  lines: Point[][];
  /** The name at the ends of a stub, and its places at the producer and at the reader. */
  net: string;
  nets: Slot[];
  /** Where the slash of an array's wire crosses it. */
  slash: Point | null;
}

/** The frame around an open group. */
export interface PictureFrame {
  path: string;
  name: string;
  points: Point[];
  /** Where the name stands, and how much room it has. */
  at: Point;
  room: number;
}

/** What is drawn of a circuit, with places; `left` and `top` may be below 0, where frames reach. */
export interface Picture {
  title: string;
  about: string;
  note: string;
  down: boolean;
  detail: number;
  sizes: Sizes;
  left: number;
  top: number;
  width: number;
  height: number;
  boxes: PictureBox[];
  wires: PictureWire[];
  frames: PictureFrame[];
  scale: Scale;
}

/** Return the picture of a circuit. */
export function picture(circuit: Circuit, options: PictureOptions = {}): Picture {
  return placed(drawing(circuit, options), options);
}

/** Return what is drawn with places. */
export function placed(drawn: Drawing, { down = false, fold = FOLD, detail, air }: PictureOptions): Picture {
  const manner = { down, fold, ran: drawn.ran, detail: detail ?? usualDetail(drawn.boxes.length), ...(air ? { air } : {}) };
  return finished(figureOf(drawn, manner));
}

/** Return what is to be drawn: every node, or groups of them where there are too many. */
export function drawing(circuit: Circuit, options: PictureOptions = {}): Drawing {
  const { run = null, digits = DIGITS, split = true, opened = new Set<string>() } = options;
  const cap = options.cap ?? CAP;
  const depth = options.depth ?? null;
  const artist = artistOf(circuit, run, digits);
  const grouped = inGroups(artist, depth, opened, cap, options.cap === undefined);
  if (grouped) return split && branches(circuit) ? unsplit(grouped, "only a picture of every node has them") : grouped;
  const made = whole(artist);
  if (!split) return made;
  const found = withSplitters(made, run, digits, options.chain ?? (options.unfolded ? Infinity : 2));
  return found.boxes.length <= cap ? found : unsplit(made, `with them there are more than ${cap} boxes`);
}

/** Draw groups where not every node is to be drawn; null if every node is. */
function inGroups(
  artist: Artist,
  depth: number | null,
  opened: ReadonlySet<string>,
  cap: number,
  free: boolean,
): Drawing | null {
  const { circuit, kinds } = artist;
  const boxes = circuit.nodes.filter((_, k) => kinds.leaves[k] || kinds.inner[k] || kinds.splitters[k]).length;
  const hasGroups = circuit.nodes.some(({ group }) => group);
  const all = boxes <= cap && (depth === null || !hasGroups) && !opened.size;
  const material = materialOf(circuit, kinds);
  const short = all && free ? shortPlan(material, cap, RANKS) : null;
  if (all && !short) return null;
  const ranks = free && depth === null ? RANKS : null;
  return collapsed(artist, short ?? plan(material, { depth, opened, cap, ranks }), material.ends);
}

/** Return whether a value is read more than once. */
function branches(circuit: Circuit): boolean {
  const sources = materialOf(circuit, { leaves: [], folded: [], splitters: [], inner: [] }).ends.sources;
  return new Set(sources).size < sources.length;
}

function unsplit(drawn: Drawing, why: string): Drawing {
  const said = `drawn without splitters: ${why}`;
  return { ...drawn, note: drawn.note ? `${drawn.note}; ${said}` : said };
}

function point([x, y]: Spot): Point {
  return { x, y };
}

/** Turn a figure into what is drawn. */
function finished(figure: Figure): Picture {
  const { drawn, down, measure } = figure;
  const frames = framesOf(figure);
  const corners = frames.flatMap((frame) => frame.columns);
  const left = least([0, ...corners.map((rect) => rect.x)], 0);
  const top = least([0, ...corners.map((rect) => rect.y)], 0);
  const missing = unframed(figure, frames);
  const without = missing ? `${counted(missing, "group")} without a frame, since others stand between` : "";
  return {
    title: drawn.title,
    about: drawn.about,
    note: [drawn.note, without].filter(Boolean).join("; "),
    down,
    detail: measure.detail,
    sizes: measure.sizes,
    left,
    top,
    width: most([figure.width, ...corners.map((rect) => rect.x + rect.width)], 0) - left,
    height: most([figure.height, ...corners.map((rect) => rect.y + rect.height)], 0) - top,
    ...withPlaces(drawn, figure.rects, figure.ranks, figure.routes, figure.rooms, measure),
    frames: frames.map(({ path, name, columns: [first], outline }) => (
      { path, name, points: outline.map(point), at: { x: first!.x + 10, y: first!.y + 14 }, room: first!.width }
    )),
    scale: gradientScale(drawn),
  };
}

/** Return boxes and wires with all their places, from rectangles and routes. */
export function withPlaces(
  drawn: Drawn,
  rects: readonly Rect[],
  ranks: readonly number[],
  routes: readonly Route[],
  rooms: readonly number[],
  measure: Measure,
): Pick<Picture, "boxes" | "wires"> {
  const marks = marksOf(drawn, measure);
  const ports = portsOf(drawn);
  const counts = drawn.boxes.map(() => 0);
  for (const { to } of drawn.links) counts[to]!++;
  const boxes = drawn.boxes.map((box, k) => placedBox(box, rects[k]!, ranks[k]!, measure));
  const wires = drawn.links.map((link, k) => {
    const ends = { from: boxes[link.from]!, to: boxes[link.to]! };
    const wire = placedWire(drawn, link, routes[k]!, rooms[k]!, ends, measure);
    const end = wire.points.at(-1)!;
    return { ...wire, ...portPlaces(end, marks[k]!, ports[k]!, counts[link.to]!, measure) };
  });
  for (const wire of wires) boxes[wire.to]!.ports.push(wire.points.at(-1)!);
  return { boxes, wires };
}

function placedBox(box: Box, rect: Rect, rank: number, measure: Measure): PictureBox {
  const sign = box.kind === "node" ? signOf(box.text) : box.kind === "group" ? groupName(box) : nameText(box.name || box.text);
  const captionText = shownCaption(box, measure);
  return { ...rect, ...box, ...boxPlaces(box, rect, measure), sign, isWord: isWord(sign), captionText, ports: [], rank };
}

/** Return a wire with its points; wires meet in the middle of a splitter. */
function placedWire(
  drawn: Drawn,
  link: Link,
  { points: spots, stub }: Route,
  room: number,
  ends: { from: PictureBox; to: PictureBox },
  measure: Measure,
): Omit<PictureWire, keyof PortPlaces> {
  const points = spots.map(point);
  if (ends.from.kind === "splitter") points[0] = ends.from.out;
  if (ends.to.kind === "splitter") points[points.length - 1] = ends.to.out;
  const slash = link.shape && !stub ? slashAt(points[0]!, measure.down) : null;
  const both = { points, stub, slash, net: "", nets: [] as Slot[] };
  if (!stub) return { ...link, ...both, lines: [points] };
  return { ...link, ...both, ...stubEnds(points, stubText(drawn, link), room, ends.from, measure) };
}

function slashAt({ x, y }: Point, down: boolean): Point {
  // Behind the head of a gradient, before the number, which begins 20 px behind the port.
  return down ? { x, y: y + 20 } : { x: x + 15, y };
}

/** Return the two ends of a stub, each with the name of where it comes from; behind a splitter other wires go on. */
function stubEnds(
  points: readonly Point[],
  net: string,
  room: number,
  from: PictureBox,
  { down, sizes, ran }: Measure,
): Pick<PictureWire, "lines" | "net" | "nets"> {
  const [start, end] = [points[0]!, points.at(-1)!];
  const numbers = from.kind === "node" && ran;
  const behind = numbers ? (down ? sizes.numberFont + 14 : sizes.gap + sizes.slot + 4) : 14;
  const wide = width(net, SMALL);
  const near = down ? { x: start.x, y: start.y + behind } : { x: start.x + behind, y: start.y };
  const far = down ? { x: end.x, y: end.y - room } : { x: end.x - room, y: end.y };
  const nets = down
    ? [slotAt({ x: near.x, y: near.y + 13 }, wide, SMALL, "middle"), slotAt({ x: far.x, y: far.y - 4 }, wide, SMALL, "middle")]
    : [slotAt({ x: near.x + 4, y: near.y + (from.kind === "splitter" ? 17 : 4) }, wide, SMALL, "start"), slotAt({ x: far.x - 4, y: far.y + 4 }, wide, SMALL, "end")];
  return { lines: [[start, near], [far, end]], net, nets };
}

/** Return the colour scale of the gradients in a drawing. */
export function gradientScale({ boxes, links }: Drawn): Scale {
  const readings = [...boxes.map((box) => box.grad), ...links.map((link) => link.sent)];
  return scaleOf(readings.flatMap((reading) => (reading?.state === "number" ? [reading.size] : [])));
}
