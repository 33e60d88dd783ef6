/**
 * A picture that Python has laid out, in the form in which circuits are drawn: every box is a node of a small circuit,
 * every wire or bundle of wires a wire of it, and all of it is known. Pure.
 */
import { assembled } from "../engine";
import type { Link, Picture } from "../layout";
import type { Box } from "../layout/boxes";
import { FOLD, measureOf } from "../layout/figure";
import { gradientScale, withPlaces } from "../layout/picture";
import { usualDetail } from "../layout/sizes";
import { bare, type Reading } from "../layout/readings";
import { readValue } from "../state/data";
import type { Shown } from "../state/known";
import type { Selection } from "../state/selection";
import type { CircuitNode, Value } from "../types";
import type { ToldBox, ToldLink, ToldReading, ToldView } from "./answers";
import { pickedBox, pickedLink, type Picked } from "./where";

/** What is drawn: a picture, the run of its small circuit, and for every wire of that the link it stands for. */
export interface Drawn extends Shown {
  picture: Picture;
  /** The links in the order of the run's wires. */
  links: number[];
}

/** Turn an answer of the server into what is drawn. */
export function drawnOf(view: ToldView, title: string, down: boolean): Drawn {
  const arriving = view.boxes.map((): number[] => []);
  view.links.forEach((link, k) => arriving[link.target]?.push(k));
  const slots = new Map(arriving.flatMap((links) => links.map((link, slot) => [link, slot] as const)));
  const boxes = view.boxes.map(boxOf);
  const links = view.links.map((link, k) => linkOf(link, slots.get(k)!));
  const ran = view.boxes.some(({ grad }) => grad !== null);
  const measure = measureOf({ down, ran, fold: FOLD, detail: usualDetail(boxes.length) });
  const routes = view.links.map(({ points, stub }) => ({ points, stub }));
  const rooms = view.links.map(({ room }) => room);
  const ranks = view.boxes.map(({ rank }) => rank);
  const { width: wide, height } = view;
  const picture: Picture = {
    title, down, about: view.about, note: view.note, left: 0, top: 0, width: wide, height, frames: [],
    detail: measure.detail, sizes: measure.sizes, scale: gradientScale({ boxes, links }),
    ...withPlaces({ boxes, links }, view.boxes, ranks, routes, rooms, measure),
  };
  return { picture, links: arriving.flat(), ...shownOf(view, title, arriving) };
}

/** Read a reading. */
export function readingOf(told: ToldReading | null): Reading | null {
  if (!told) return null;
  const shape = /^\[[\d×]*\]/.exec(told.text)?.[0] ?? "";
  return { ...told, size: Number(readValue(told.size)), shape };
}

function boxOf(told: ToldBox, node: number): Box {
  const [value, grad] = [readingOf(told.value), readingOf(told.grad)];
  const shape = (value?.shape ?? "").slice(1, -1);
  const caption = told.kind === "node" ? told.name : "";
  return { ...told, node, members: [node], path: "", branches: [], value, grad, shape, caption };
}

function linkOf({ source, target, input, wires, local, sent }: ToldLink, slot: number): Link {
  const readings = { local: readingOf(local), sent: readingOf(sent) };
  const pill = readings.local !== null && readings.local.shape === "";
  return { from: source, to: target, reader: target, slot, source, input, wires, ...readings, pill, shape: "" };
}

/** A reading as a value that reads the same. */
export function valueOf(told: ToldReading | null): Value | null {
  const found = readingOf(told);
  if (!found || found.state === "not computed" || found.state === "blocked") return null;
  const type = found.shape.replaceAll("×", ",");
  const sign = found.signed ? (Math.sign(found.size) as -1 | 0 | 1) : 0;
  return { type, text: found.text, short: bare(found), norm: Math.abs(found.size), bad: Number(found.state === "not finite"), sign };
}

/** The small circuit, its run, and that all of it is known. */
function shownOf(view: ToldView, name: string, arriving: number[][]): Shown {
  const nodes = view.boxes.map((box, k): CircuitNode => {
    const sources = arriving[k]!.map((link) => view.links[link]!.source);
    // An input that is a float can have a gradient: whether a box has one is what Python says.
    const type = box.grad && box.grad.state !== "not computed" ? "float64" : "";
    return { op: "input", sources, names: [box.label], mode: 0, group: "", type };
  });
  const outputs = view.boxes.flatMap((box, node) => box.outputs.map((label) => ({ label, node })));
  const ran = view.boxes.some(({ grad }) => grad !== null);
  const every = <T,>(value: T): T[] => view.boxes.map(() => value);
  const links = arriving.flat().map((link) => view.links[link]!);
  const values = view.boxes.map(({ value }) => valueOf(value) ?? NaN);
  const grads = view.boxes.map(({ grad }) => valueOf(grad));
  const flow = (wire: number) => [valueOf(links[wire]!.local), null, valueOf(links[wire]!.sent)];
  return {
    run: assembled({ name, nodes, outputs }, values, grads, flow),
    known: {
      value: every(true), staleValue: every(false), grad: every(ran ? "final" : "none"), partial: every(null),
      arrived: every(0), due: every(0), wire: links.map(() => (ran ? "final" : "none")),
    },
  };
}

/** What is selected in the small circuit, as it is called in the whole. */
export function pickedOf(view: ToldView, drawn: Drawn, selection: Selection | null): Picked | null {
  if (!selection || selection.kind === "group") return null;
  if (selection.kind !== "wire") return pickedBox(view, selection.node);
  return pickedLink(view, drawn.links[drawn.run.starts[selection.reader]! + selection.slot] ?? -1);
}

/** What is picked in the whole, as the picture has it; null where it is not in the picture. */
export function selectionOf(view: ToldView, drawn: Drawn, picked: Picked | null): Selection | null {
  if (!picked) return null;
  const same = (one: Picked | null): boolean => JSON.stringify(one) === JSON.stringify(picked);
  const box = view.boxes.findIndex((_, k) => same(pickedBox(view, k)));
  if (box >= 0) return { kind: "node", node: box };
  const wire = drawn.links.findIndex((link) => same(pickedLink(view, link)));
  const flow = drawn.run.wires[wire];
  return flow ? { kind: "wire", reader: flow.reader, slot: flow.slot } : null;
}
