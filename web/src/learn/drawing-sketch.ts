/**
 * A drawing while it is made: boxes with their places, wires, and what each action changes. Every action returns a new
 * sketch, so that undoing is going back to an old one. `u` runs along the flow from leaves to output, `v` across it.
 */
import { opOf } from "../engine";
import {
  checkDrawing, CONSTANT, CURVE, DrawingNumbers, isSpecial, LEAF, OUTPUT, slotsOf, SPLITTER, type DrawingFormula, type DrawnBox, type DrawnWire,
} from "./drawing-check";
import { isCount, isRecord } from "./progress";

export interface PlacedBox extends DrawnBox {
  u: number;
  v: number;
  /** How many output ports are drawn; a learner may give an op a second one. */
  ports: number;
}

export interface Sketch {
  nodes: readonly PlacedBox[];
  wires: readonly DrawnWire[];
}

/** What can have the focus: a box, or one of its ports. */
export interface Item {
  kind: "box" | "in" | "out";
  id: string;
  place: number;
}

export interface Size {
  length: number;
  breadth: number;
}

const STEP = { u: 116, v: 84 } as const;
const MARGIN = 56;

export const keyOf = ({ kind, id, place }: Item): string => `${kind}-${id}-${place}`;
export const isGiven = ({ op }: DrawnBox): boolean => op === LEAF || op === CONSTANT || op === OUTPUT;
const portsOf = (op: string): number => (op === OUTPUT || op === CURVE ? 0 : op === SPLITTER ? 2 : 1);

/** How large the board of a formula is: room for each op behind the other, and for the leaves side by side. */
export function boardSize({ owner }: DrawingFormula): Size {
  const given = owner.nodes.filter((node) => !owner.sources[node]!.length).length;
  return { length: Math.max(640, 300 + 84 * Math.min(owner.functions.length, 6)), breadth: Math.max(340, STEP.v * given) };
}

/** The sketch that a drawing begins with: leaves and constants on one side, the output on the other. */
export function startingSketch(formula: DrawingFormula): Sketch {
  const { length, breadth } = boardSize(formula);
  const given = formula.startingBoxes();
  const count = given.length - 1;
  const nodes = given.map((box, k): PlacedBox =>
    box.op === OUTPUT
      ? { ...box, u: length - MARGIN, v: breadth / 2, ports: 0 }
      : { ...box, u: MARGIN, v: ((k + 0.5) * breadth) / count, ports: 1 },
  );
  return { nodes, wires: [] };
}

export const boxOf = (sketch: Sketch, id: string): PlacedBox | undefined => sketch.nodes.find((box) => box.id === id);

/** All that can have the focus, along the flow. */
export function itemsOf(sketch: Sketch): Item[] {
  const ordered = [...sketch.nodes].sort((one, two) => one.u - two.u || one.v - two.v);
  return ordered.flatMap((box) => {
    const places = (kind: Item["kind"], count: number): Item[] => Array.from({ length: count }, (_, place) => ({ kind, id: box.id, place }));
    return [{ kind: "box", id: box.id, place: 0 } as Item, ...places("in", slotsOf(box)), ...places("out", box.ports)];
  });
}

const isFree = (sketch: Sketch, u: number, v: number): boolean =>
  sketch.nodes.every((box) => Math.abs(box.u - u) >= 84 || Math.abs(box.v - v) >= 64);

/** The free place that is nearest to one that is wanted. */
function freePlace(sketch: Sketch, { length, breadth }: Size, u: number, v: number): { u: number; v: number } {
  const places: { u: number; v: number; far: number }[] = [];
  for (let a = 150; a <= length - 110; a += 28) {
    for (let b = 36; b <= breadth - 36; b += 28) {
      if (isFree(sketch, a, b)) places.push({ u: a, v: b, far: Math.abs(a - u) + 1.4 * Math.abs(b - v) });
    }
  }
  const [best] = places.sort((one, two) => one.far - two.far);
  return best ?? { u: length / 2, v: breadth / 2 };
}

function freeId(sketch: Sketch): string {
  for (let k = 1; ; k++) if (!boxOf(sketch, `n${k}`)) return `n${k}`;
}

/** Place a box beside the one that has the focus. */
export function place(sketch: Sketch, size: Size, op: string, beside: string | null): { sketch: Sketch; id: string } {
  const near = beside === null ? undefined : boxOf(sketch, beside);
  const isOutput = near?.op === OUTPUT;
  const wanted = near && !isOutput ? { u: near.u + STEP.u, v: near.v } : { u: size.length / 2, v: size.breadth / 2 };
  const id = freeId(sketch);
  const box: PlacedBox = { id, op, ...freePlace(sketch, size, wanted.u, wanted.v), ports: portsOf(op) };
  return { sketch: { ...sketch, nodes: [...sketch.nodes, box] }, id };
}

/** Draw a wire; one that ends at the same input goes. */
export function connect(sketch: Sketch, from: Item, to: Item): Sketch {
  const kept = sketch.wires.filter((wire) => !(wire.to === to.id && wire.slot === to.place));
  return { ...sketch, wires: [...kept, { from: from.id, port: from.place, to: to.id, slot: to.place }] };
}

/** Remove what has the focus: the wires at a port, or a box with its wires; given boxes stay. */
export function remove(sketch: Sketch, { kind, id, place }: Item): Sketch {
  const { nodes, wires } = sketch;
  if (kind === "in") return { nodes, wires: wires.filter(({ to, slot }) => to !== id || slot !== place) };
  if (kind === "out") {
    const kept = wires.filter(({ from, port }) => from !== id || port !== place);
    const isExtra = kept.length === wires.length && place > 0 && boxOf(sketch, id)!.op !== SPLITTER;
    return { nodes: isExtra ? nodes.map((box) => (box.id === id ? { ...box, ports: 1 } : box)) : nodes, wires: kept };
  }
  const rest = wires.filter(({ from, to }) => from !== id && to !== id);
  return { nodes: isGiven(boxOf(sketch, id)!) ? nodes : nodes.filter((box) => box.id !== id), wires: rest };
}

/** Put a splitter on the wires of a port: it takes over the first two of them. Without a wire it stands behind an output. */
export function splitAt(sketch: Sketch, size: Size, item: Item | null): { sketch: Sketch; id: string } {
  const wire = item && wireAt(sketch, item);
  const start: Item | null = wire
    ? { kind: "out", id: wire.from, place: wire.port }
    : item?.kind === "out" ? item : null;
  const near = start && boxOf(sketch, start.id)!;
  const made = place(sketch, size, SPLITTER, null);
  const at = near ? freePlace(sketch, size, near.u + 84, near.v) : null;
  const nodes = made.sketch.nodes.map((box) => (box.id === made.id && at ? { ...box, ...at } : box));
  if (!start) return { sketch: { ...sketch, nodes }, id: made.id };
  const taken = sketch.wires.filter(({ from, port }) => from === start.id && port === start.place).slice(0, 2);
  const wires = sketch.wires.map((one) => {
    const k = taken.indexOf(one);
    return k < 0 ? one : { ...one, from: made.id, port: k };
  });
  return { sketch: { nodes, wires: [...wires, { from: start.id, port: start.place, to: made.id, slot: 0 }] }, id: made.id };
}

/** The first wire at a port, or out of a box. */
export function wireAt(sketch: Sketch, { kind, id, place }: Item): DrawnWire | undefined {
  return sketch.wires.find(({ from, port, to, slot }) =>
    kind === "in" ? to === id && slot === place : from === id && (kind === "box" || port === place),
  );
}

/** Give an op a second output port, as those do who think that a node can have two. */
export function addPort(sketch: Sketch, id: string): Sketch {
  const nodes = sketch.nodes.map((box) => (box.id === id && !isSpecial(box.op) ? { ...box, ports: 2 } : box));
  return { ...sketch, nodes };
}

/** Move a box, inside the board. */
export function moveTo(sketch: Sketch, { length, breadth }: Size, id: string, u: number, v: number): Sketch {
  const [inU, inV] = [Math.min(Math.max(u, 44), length - 30), Math.min(Math.max(v, 30), breadth - 30)];
  return { ...sketch, nodes: sketch.nodes.map((box) => (box.id === id ? { ...box, u: inU, v: inV } : box)) };
}

/** Put the boxes of a right drawing in order, so that numbers have room: by rank along the flow, near what they read across it. */
export function tidied(sketch: Sketch, { length, breadth }: Size): Sketch {
  const ranks = new Map(sketch.nodes.map(({ id }) => [id, 0]));
  // A drawing of n boxes has no path of more than n wires.
  for (let round = 0; round < sketch.nodes.length; round++) {
    for (const { from, to } of sketch.wires) ranks.set(to, Math.max(ranks.get(to)!, ranks.get(from)! + 1));
  }
  const last = Math.max(...ranks.values());
  const places = new Map(sketch.nodes.map(({ id, v }) => [id, v]));
  for (let rank = 1; rank <= last; rank++) {
    const boxes = sketch.nodes.filter(({ id }) => ranks.get(id) === rank).map(({ id }) => id);
    const wanted = new Map(boxes.map((id) => [id, wantedPlace(sketch, places, id)]));
    const ordered = boxes.sort((one, two) => wanted.get(one)! - wanted.get(two)!);
    const apart = Math.min(STEP.v - 8, breadth / ordered.length);
    let least = apart / 2;
    for (const [k, id] of ordered.entries()) {
      const most = breadth - apart * (ordered.length - k - 0.5);
      const v = Math.min(Math.max(wanted.get(id)!, least), most);
      places.set(id, v);
      least = v + apart;
    }
  }
  const uOf = (id: string): number => MARGIN + (ranks.get(id)! * (length - 2 * MARGIN)) / last;
  return { ...sketch, nodes: sketch.nodes.map((box) => ({ ...box, u: isGiven(box) ? box.u : uOf(box.id), v: box.op === OUTPUT ? box.v : places.get(box.id)! })) };
}

/** The middle of what a box reads; behind a splitter, on the side of its branch. */
function wantedPlace(sketch: Sketch, places: ReadonlyMap<string, number>, id: string): number {
  const read = sketch.wires.filter(({ to }) => to === id).map(({ from, port }) => {
    const isBranch = boxOf(sketch, from)!.op === SPLITTER;
    return places.get(from)! + (isBranch ? (port ? 24 : -24) : 0);
  });
  return read.reduce((sum, v) => sum + v, 0) / read.length;
}

/** A drawing as the browser keeps it. */
export interface KeptDrawing {
  formula: string;
  sketch: Sketch;
  /** How many numbers are filled in; null while it is drawn. */
  filled: number | null;
}

const MAX_BOXES = 80;

/** Read a drawing of a formula that the browser has kept; null if it is none. */
export function readDrawing(formula: DrawingFormula, text: string, data: unknown): KeptDrawing | null {
  if (!isRecord(data) || data.formula !== text || !isSketch(formula, data.sketch)) return null;
  const { sketch, filled } = data;
  if (filled === null) return { formula: text, sketch, filled };
  if (!isCount(filled) || !checkDrawing(formula, sketch).right) return null;
  return filled <= new DrawingNumbers(formula, sketch).slots.length ? { formula: text, sketch, filled } : null;
}

/** Whether data is a sketch that can be made on the board of a formula. */
function isSketch(formula: DrawingFormula, data: unknown): data is Sketch {
  if (!isRecord(data) || !Array.isArray(data.nodes) || !Array.isArray(data.wires) || data.nodes.length > MAX_BOXES) return false;
  const size = boardSize(formula);
  if (!data.nodes.every((box) => isBox(size, box))) return false;
  const nodes: readonly PlacedBox[] = data.nodes;
  const boxes = new Map(nodes.map((box) => [box.id, box]));
  const given = startingSketch(formula).nodes;
  const isSame = ({ id, op, name, value }: DrawnBox): boolean => {
    const box = boxes.get(id);
    return box?.op === op && box.name === name && box.value === value;
  };
  const isWire = (wire: unknown): boolean => {
    if (!isRecord(wire)) return false;
    const [from, to] = [boxes.get(String(wire.from)), boxes.get(String(wire.to))];
    return from !== undefined && to !== undefined && isCount(wire.port) && wire.port < from.ports && isCount(wire.slot) && wire.slot < slotsOf(to);
  };
  return boxes.size === nodes.length && nodes.filter(isGiven).length === given.length && given.every(isSame) && data.wires.every(isWire);
}

function isBox({ length, breadth }: Size, data: unknown): data is PlacedBox {
  if (!isRecord(data) || typeof data.id !== "string" || typeof data.op !== "string") return false;
  if (!isSpecial(data.op) && !opOf(data.op)) return false;
  const isInside = (place: unknown, most: number): boolean => typeof place === "number" && place >= 0 && place <= most;
  const most = isSpecial(data.op) ? portsOf(data.op) : 2;
  return isInside(data.u, length) && isInside(data.v, breadth) && isCount(data.ports) && data.ports <= most && data.ports >= portsOf(data.op);
}
