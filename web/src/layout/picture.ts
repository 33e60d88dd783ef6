/**
 * The picture of a circuit: what is drawn, how large it is and where it stands. Sizes and places are those of Python's
 * pictures. A run gives the numbers; with `steady` there is room for numbers that are not there yet, so that stepping
 * moves nothing.
 */
import type { Circuit, Point, Run } from "../types";
import { least, most } from "./arrays";
import { artistOf, whole, type Artist, type Box, type Drawing, type Link } from "./boxes";
import { collapsed } from "./collapsed";
import { withSplitters } from "./fanout";
import {
  figureOf, FOLD, outputText, shownName, shownOp, stubText, type Drawn, type Figure, type Label, type Rect,
} from "./figure";
import { framesOf, unframed } from "./frames";
import { CAP, materialOf, plan, RANKS, shortPlan } from "./grouping";
import { counted } from "./letters";
import { DIGITS } from "./readings";
import { scaleOf, type Scale } from "./scale";
import type { Route, Spot } from "./shapes";

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
  /** Whether room is kept for numbers that are not there yet; yes, unless told otherwise. */
  steady?: boolean;
}

/** A box with its place; `title` and `op` are the words in its head. */
export interface PictureBox extends Box, Rect {
  title: string;
  op: string;
  /** What stands behind an output. */
  mark: string;
  rank: number;
}

/** A wire with its points; the label stands at `label`, the local derivative above and what is sent below. */
export interface PictureWire extends Link {
  points: Point[];
  /** Whether only its two ends are drawn, with a name. */
  stub: boolean;
  net: string;
  texts: Label;
  label: Point;
  /** How much room there is for the label before the end of the wire. */
  room: number;
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
  steady: boolean;
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
  const { down = false, steady = true } = options;
  const drawn = drawing(circuit, options);
  const figure = figureOf(drawn, { down, steady: steady && drawn.ran, fold: options.fold ?? FOLD });
  return finished(figure, steady);
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
function finished(figure: Figure, steady: boolean): Picture {
  const { drawn, down } = figure;
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
    steady,
    left,
    top,
    width: most([figure.width, ...corners.map((rect) => rect.x + rect.width)], 0) - left,
    height: most([figure.height, ...corners.map((rect) => rect.y + rect.height)], 0) - top,
    boxes: drawn.boxes.map((box, k) => placedBox(box, figure.rects[k]!, figure.ranks[k]!)),
    wires: drawn.links.map((link, k) =>
      placedWire(drawn, link, figure.routes[k]!, figure.labels[k]!, figure.rooms[k]!, down),
    ),
    frames: frames.map(({ path, columns, outline }) => {
      const first = columns[0]!;
      const name = path.slice(path.lastIndexOf("/") + 1);
      return { path, name, points: outline.map(point), at: { x: first.x + 8, y: first.y + 11 }, room: first.width };
    }),
    scale: gradientScale(drawn),
  };
}

/** Return a box with its place. */
export function placedBox(box: Box, rect: Rect, rank: number): PictureBox {
  const mark = box.outputs.length ? outputText(box) : "";
  return { ...rect, ...box, title: shownName(box), op: shownOp(box), mark, rank };
}

/** Return a wire with its points; of a stub only both ends are drawn, with the name of where it comes from. */
export function placedWire(
  drawn: Drawn,
  link: Link,
  { points: spots, stub }: Route,
  texts: Label,
  room: number,
  down: boolean,
): PictureWire {
  const points = spots.map(point);
  const end = points.at(-1) ?? { x: 0, y: 0 };
  const label = down ? { x: end.x + 7, y: end.y - 14 } : { x: end.x - 11, y: end.y };
  return { ...link, points, stub, net: stub ? stubText(drawn, link) : "", texts, label, room };
}

/** Return the colour scale of the gradients in a drawing. */
export function gradientScale({ boxes, links }: Drawn): Scale {
  const readings = [...boxes.map((box) => box.grad), ...links.map((link) => link.sent)];
  return scaleOf(readings.flatMap((reading) => (reading?.state === "number" ? [reading.size] : [])));
}
