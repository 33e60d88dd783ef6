/**
 * The picture of a circuit that fits a frame with legible text. Tried in this order: less and less detail, the other
 * direction, cut into bands, closed groups. What fits nowhere is shown at the smallest legible scale with a minimap.
 */
import type { Circuit, Run } from "../types";
import { times } from "./arrays";
import { givenName, type Drawing } from "./boxes";
import type { Air } from "./figure";
import { drawing, placed, type Picture, type PictureOptions } from "./picture";
import { DETAIL, sizesOf } from "./sizes";

/** The smallest text in px on screen, and the largest scale. */
export const LEGIBLE = 11;
export const LARGEST = 1.75;
/** A picture of more boxes than this is not tried with all its details. */
const DETAILED = 60;
/** How many bands a picture may be cut into. */
const BANDS = 12;
/** No limit to the length of a picture. */
const ENDLESS = 0;
/** Text in px below which no picture is drawn smaller to have more air. */
const COMFORT = 12.5;
/** Air in px between boxes and ranks that is worth a smaller scale, and the most that a picture gets. */
const WORTH = { across: 20, along: 20 };
const MOST = { across: 60, along: 56 };
/** The share of its scale that a picture may lose by the rest: wires that turn more often need more room. */
const LOSS = 0.06;
/** What the rest leaves free above and below for callouts, in px; among many boxes there are gaps enough. */
const CALLOUTS = 112;
const GAPS = 40;
const MANY = 24;
/** Air comes in such steps. */
const STEP = 4;

/** The room a picture has, in px. */
export interface FrameSize {
  width: number;
  height: number;
}

/** A picture in a frame: how large it is drawn, and whether a part of it is outside. */
export interface Fitted {
  picture: Picture;
  scale: number;
  minimap: boolean;
  /** What the picture was made of: drawn again with another run, it has the same places. */
  circuit: Circuit;
  options: PictureOptions;
}

/** What stays free around a picture, in px: less in a narrow frame. */
export function marginOf(frame: FrameSize): number {
  return frame.width < 600 ? 8 : 20;
}

/** Return the scale at which a picture fits a frame. */
export function scaleIn({ width, height }: Picture, frame: FrameSize): number {
  const free = 2 * marginOf(frame);
  return Math.min((frame.width - free) / Math.max(1, width), (frame.height - free) / Math.max(1, height), LARGEST);
}

/** Return the smallest scale at which the numbers of a picture are legible. */
export function legibleScale({ detail }: Pick<Picture, "detail">): number {
  return LEGIBLE / Math.min(sizesOf(detail).numberFont, sizesOf(detail).labelFont);
}

/** Return the picture of a circuit in a frame; a direction in `options` is kept. */
export function fitted(circuit: Circuit, run: Run | null, frame: FrameSize, options: PictureOptions = {}): Fitted {
  const given = { ...options, ...(run ? { run } : {}) };
  const drawn = drawing(circuit, given);
  const whole = fit(drawn, frame, given);
  if (whole) return { ...whole, circuit };
  return (options.opened ? null : fitClosed(circuit, frame, given)) ?? { ...smallest(drawn, frame, given), circuit };
}

/** What a circuit that is yet to be named fits as. */
type Found = Omit<Fitted, "circuit">;

/** Return the first picture of a drawing that fits: whole, then the other way round and in bands. */
function fit(drawn: Drawing, frame: FrameSize, options: PictureOptions): Found | null {
  const directions = options.down === undefined ? directionsOf(frame) : [options.down];
  const [first] = directions;
  const whole = fullest(drawn, frame, { ...options, down: first! }, tried);
  if (whole) return aired(drawn, frame, whole);
  for (const down of directions) {
    const found =
      (down === first ? null : fullest(drawn, frame, { ...options, down }, tried)) ??
      fullest(drawn, frame, { ...options, down }, wrapped);
    if (found) return aired(drawn, frame, found);
  }
  return null;
}

/**
 * Return a picture with the air that its frame has for it: a little even where the picture is then drawn smaller, and
 * more as long as it costs next to nothing.
 */
function aired(drawn: Drawing, frame: FrameSize, found: Found): Found {
  if (drawn.boxes.length > DETAILED) return found;
  const legible = legibleScale(found.picture);
  const worth = spread(drawn, [frame, frame], found, WORTH, Math.min(found.scale, (legible * COMFORT) / LEGIBLE));
  const inner = { ...frame, height: frame.height - (drawn.boxes.length > MANY ? GAPS : CALLOUTS) };
  const frames: [FrameSize, FrameSize] = worth.picture.down ? [frame, inner] : [inner, frame];
  const least = Math.max(legible, worth.scale * (1 - LOSS));
  const most = isTight(worth, frame, "along") ? { ...MOST, along: airOf(worth).along } : MOST;
  const rest = spread(drawn, frames, worth, most, least);
  return { ...rest, scale: scaleIn(rest.picture, frame) };
}

/** Return a picture with as much air as it can have at a scale, found by halving: across and then along, each in a frame. */
function spread(drawn: Drawing, frames: [FrameSize, FrameSize], found: Found, most: Air, scale: number): Found {
  let best = found;
  for (const [k, side] of (["across", "along"] as const).entries()) {
    let low = airOf(best)[side] / STEP;
    let high = most[side] / STEP;
    if (best.scale <= scale && isTight(best, frames[k]!, side)) continue;
    // All of it first: often there is room for it.
    for (let middle = high; low < high; middle = Math.ceil((low + high) / 2)) {
      const next = tried(drawn, frames[k]!, { ...best.options, air: { ...airOf(best), [side]: STEP * middle } });
      if (next && next.scale >= scale) [best, low] = [next, middle];
      else high = middle - 1;
    }
  }
  return best;
}

/** Whether a picture takes the whole extent of its frame on a side, so that air there would make it smaller. */
function isTight({ picture, scale }: Found, frame: FrameSize, side: keyof Air): boolean {
  const level = (side === "along") !== picture.down;
  const [size, room] = level ? [picture.width, frame.width] : [picture.height, frame.height];
  return size * scale >= room - 2 * marginOf(frame) - 1;
}

function airOf({ options }: Found): Air {
  return options.air ?? { across: 0, along: 0 };
}

/** Return a picture again in a smaller frame, with fewer details if its text would not be legible there. */
export function refitted(found: Fitted, run: Run | null, frame: FrameSize): Fitted {
  if (found.minimap || scaleIn(found.picture, frame) >= legibleScale(found.picture)) return found;
  const { air: _, ...options } = { ...found.options, ...(run ? { run } : {}) };
  const drawn = drawing(found.circuit, options);
  const smaller = fullest(drawn, frame, options, tried);
  return smaller ? { ...aired(drawn, frame, smaller), circuit: found.circuit } : found;
}

type Attempt = (drawn: Drawing, frame: FrameSize, options: PictureOptions) => Found | null;

/** Return the picture with the most details that fits; where the smallest one does not, none does. */
function fullest(drawn: Drawing, frame: FrameSize, options: PictureOptions, attempt: Attempt): Found | null {
  const smallest = attempt(drawn, frame, { ...options, detail: DETAIL.compact });
  if (!smallest || drawn.boxes.length > DETAILED) return smallest;
  for (const detail of times(DETAIL.compact, (k) => k)) {
    const found = attempt(drawn, frame, { ...options, detail });
    if (found) return found;
  }
  return smallest;
}

/** Values flow downwards first if the frame is taller than wide. */
function directionsOf({ width, height }: FrameSize): boolean[] {
  return height > width ? [true, false] : [false, true];
}

function tried(drawn: Drawing, frame: FrameSize, given: PictureOptions): Found | null {
  const options = { fold: ENDLESS, ...given };
  const picture = placed(drawn, options);
  const scale = scaleIn(picture, frame);
  return scale >= legibleScale(picture) ? { picture, scale, minimap: false, options } : null;
}

/** Return a picture in as few bands as fit the frame. */
function wrapped(drawn: Drawing, frame: FrameSize, options: PictureOptions): Found | null {
  const whole = placed(drawn, { ...options, fold: ENDLESS });
  const length = whole.down ? whole.height : whole.width;
  const room = ((whole.down ? frame.height : frame.width) - 2 * marginOf(frame)) / legibleScale(whole);
  const first = Math.max(2, Math.floor(length / room));
  for (let bands = first; bands <= Math.min(BANDS, 2 * first); bands++) {
    const found = tried(drawn, frame, { ...options, fold: Math.ceil(length / bands) });
    if (found) return found;
  }
  return null;
}

/** How many boxes there may be, where closing groups is not enough. */
const CAPS = [16, 12, 9, 6];

/** Return the picture with groups closed, the innermost first; where that is not enough, with several in one box. */
function fitClosed(circuit: Circuit, frame: FrameSize, options: PictureOptions): Fitted | null {
  const grouped = withStatements(circuit);
  const levels = Math.max(...grouped.nodes.map(({ group }) => group.split("/").filter(Boolean).length));
  const depths = times(levels, (k) => ({ depth: levels - 1 - k }));
  for (const fewer of [...depths, ...CAPS.map((cap) => ({ depth: 0, cap }))]) {
    const found = fit(drawing(grouped, { ...options, ...fewer }), frame, options);
    if (found) return { ...found, circuit: grouped, options: { ...found.options, ...fewer } };
  }
  return null;
}

/** Return a circuit without groups as one in which every statement that has a name is a group of its own. */
export function withStatements(circuit: Circuit): Circuit {
  if (circuit.nodes.some(({ group }) => group)) return circuit;
  const owners: string[] = circuit.nodes.map(() => "");
  const readers = circuit.nodes.map((): number[] => []);
  for (const [k, { sources }] of circuit.nodes.entries()) for (const source of sources) readers[source]!.push(k);
  for (let k = circuit.nodes.length - 1; k >= 0; k--) {
    const node = circuit.nodes[k]!;
    const around = new Set(readers[k]!.map((reader) => owners[reader]!));
    owners[k] = !node.sources.length ? "" : (givenName(node) ?? (around.size === 1 ? [...around][0]! : ""));
  }
  return { ...circuit, nodes: circuit.nodes.map((node, k) => ({ ...node, group: owners[k]! })) };
}

/** Return what does not fit at the smallest legible scale, with a minimap. */
function smallest(drawn: Drawing, frame: FrameSize, given: PictureOptions): Found {
  const options = { ...given, down: given.down ?? directionsOf(frame)[0]!, detail: DETAIL.compact };
  const picture = placed(drawn, options);
  return { picture, scale: legibleScale(picture), minimap: true, options };
}
