/**
 * A picture that Python has laid out, in the form in which circuits are drawn: every box is a node of a small circuit,
 * every wire or bundle of wires a wire of it, and all of it is known. Pure.
 */
import type { Picture, PictureBox, PictureWire } from "../layout";
import { outputText, shownName, shownOp } from "../layout/figure";
import { clip, width } from "../layout/letters";
import { bare, bareWithSign, pretty, sameReading, uniform, type Reading } from "../layout/readings";
import { scaleOf } from "../layout/scale";
import { readValue } from "../state/data";
import type { Shown } from "../state/known";
import type { Selection } from "../state/selection";
import type { CircuitNode, Value, WireFlow } from "../types";
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
  const boxes = view.boxes.map(pictureBox);
  const crowded = view.boxes.map(({ kind }, k) => kind === "group" && arriving[k]!.length > MARKED);
  const wires = view.links.map((link, k) => pictureWire(boxes, link, slots.get(k)!, crowded[link.target]!, down));
  const sizes = [...boxes.map(({ grad }) => grad), ...wires.map(({ sent }) => sent)];
  const { width: wide, height } = view;
  const picture: Picture = {
    title, down, boxes, wires, about: view.about, note: view.note, steady: false, left: 0, top: 0, width: wide, height,
    frames: [], scale: scaleOf(sizes.flatMap((found) => (found?.state === "number" ? [found.size] : []))),
  };
  return { picture, links: arriving.flat(), ...shownOf(view, title, arriving) };
}

/** As in Python: a group with more wires than this has no labels; with more boxes than that, few wires have any. */
const MARKED = 6;
const DETAILED = 24;
const STUB = 12;

/** Read a reading. */
export function readingOf(told: ToldReading | null): Reading | null {
  if (!told) return null;
  const shape = /^\[[\d×]*\]/.exec(told.text)?.[0] ?? "";
  return { ...told, size: Number(readValue(told.size)), shape };
}

function pictureBox(told: ToldBox, node: number): PictureBox {
  const box = {
    ...told, node, members: [node], path: "", branches: [], value: readingOf(told.value), grad: readingOf(told.grad),
  };
  return { ...box, title: shownName(box), op: shownOp(box), mark: told.outputs.length ? outputText(box) : "" };
}

function pictureWire(boxes: PictureBox[], told: ToldLink, slot: number, crowded: boolean, down: boolean): PictureWire {
  const points = told.points.map(([x, y]) => ({ x, y }));
  const end = points.at(-1) ?? { x: 0, y: 0 };
  const source = boxes[told.source]!;
  const net = told.stub ? clip(source.label, STUB) : "";
  const [local, sent] = [readingOf(told.local), readingOf(told.sent)];
  return {
    from: told.source, to: told.target, reader: told.target, slot, source: told.source, input: told.input, local, sent,
    wires: told.wires, points, stub: told.stub, net, room: width(net, 10) + 12,
    texts: crowded ? ["", ""] : labelOf(local, sent, boxes.length > DETAILED ? source : null),
    label: down ? { x: end.x + 7, y: end.y - 14 } : { x: end.x - 11, y: end.y },
  };
}

/** What stands on a wire: the slope unless it is 1, and what was sent unless the box before the wire says it. */
function labelOf(local: Reading | null, sent: Reading | null, source: PictureBox | null): [string, string] {
  const same = local ? uniform(local) : "1";
  const silent = !local || (same === "1" && (source || local.shape)) || (source && !same);
  const known = sent && source && sameReading(sent, source.grad) && sent.state !== "blocked";
  const back = !sent || known || sent.state === "not computed" ? "" : pretty(bareWithSign(sent));
  return [silent ? "" : `\u2202 ${pretty(same || bare(local))}`, back];
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
  const wires = arriving.flatMap((links, reader) =>
    links.map((k, slot): WireFlow => {
      const { source, local, sent } = view.links[k]!;
      return { reader, slot, source, local: valueOf(local), upstream: null, sent: valueOf(sent) };
    }),
  );
  const starts = [0];
  for (const links of arriving) starts.push(starts.at(-1)! + links.length);
  const outputs = view.boxes.flatMap((box, node) => box.outputs.map((label) => ({ label, node })));
  const ran = view.boxes.some(({ grad }) => grad !== null);
  const every = <T,>(value: T): T[] => view.boxes.map(() => value);
  return {
    run: {
      circuit: { name, nodes, outputs }, wires, starts,
      values: view.boxes.map(({ value }) => valueOf(value) ?? NaN), grads: view.boxes.map(({ grad }) => valueOf(grad)),
    },
    known: {
      value: every(true), staleValue: every(false), grad: every(ran ? "final" : "none"), partial: every(null),
      arrived: every(0), due: every(0), wire: wires.map(() => (ran ? "final" : "none")),
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
