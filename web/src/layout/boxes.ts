/**
 * A drawing of a circuit before anything has a place: boxes, wires and what is written on them. Kept true: boxes stand
 * in an order in which wires only lead forward; a wire is known by its reader and input slot, so `x * x` has two; what
 * is left out or drawn together is said in `note`.
 */
import { active, nameOf, titleOf } from "../engine/circuits";
import { expression, isSplitter, libraryOf, opOf } from "../engine/table";
import { printable } from "../engine/words";
import type { Circuit, CircuitNode, Run } from "../types";
import { pathsAround } from "./arrays";
import { caption, inputName } from "./captions";
import { kindsOf, kinkOf, type Kinds } from "./kinds";
import { cells, counted } from "./letters";
import { captionText } from "./signs";
import { BLOCKED, NOT_COMPUTED, bare, read, shapeText, uniform, type Reading } from "./readings";

/** What a box stands for. */
export type Kind = "input" | "constant" | "node" | "splitter" | "group";

/** One thing that is drawn: a leaf, a function node, a splitter or a group. */
export interface Box {
  kind: Kind;
  /** What it is called; empty for a node without a name. */
  name: string;
  /** Its op, or how many nodes a group has. */
  text: string;
  /** What it is called where it must be called something. */
  label: string;
  /** What stands under it: its name, or its source expression where the name stands elsewhere. */
  caption: string;
  /** The shape of its array, as in 2×3; empty for a number. */
  shape: string;
  /** The first node it stands for; of a splitter glyph the node whose value is split. */
  node: number;
  /** How many nodes (or splitters) it stands for, and which nodes. */
  nodes: number;
  members: number[];
  /** The path of the group it stands in. */
  group: string;
  /** The path of the group it stands for; empty for all others. */
  path: string;
  value: Reading | null;
  grad: Reading | null;
  /** Which outputs of the circuit it is. */
  outputs: string[];
  /** How many values and gradients are not finite. */
  bad: number;
  /** Which convention a node on a kink follows. */
  kink: string;
  /** The wires whose gradients a splitter glyph adds up; empty for all others. */
  branches: { reader: number; slot: number }[];
}

/** One wire, from box to box; where it joins a group, it may stand for several `wires`. */
export interface Link {
  from: number;
  to: number;
  /** The node and slot that read it; a slot below 0 leads to a splitter glyph. */
  reader: number;
  slot: number;
  /** The node whose value it carries. */
  source: number;
  input: string;
  local: Reading | null;
  sent: Reading | null;
  wires: number;
  /** Whether a local derivative stands at its port: one number that is not always 1. */
  pill: boolean;
  /** The shape of the array it carries; empty for a number. */
  shape: string;
}

/** What is drawn of a circuit and, if there was one, of a run. */
export interface Drawing {
  title: string;
  about: string;
  boxes: Box[];
  links: Link[];
  note: string;
  ran: boolean;
}

/** What boxes and links are made from. */
export interface Artist {
  circuit: Circuit;
  run: Run | null;
  kinds: Kinds;
  digits: number;
  active: boolean[];
  /** The labels of the outputs at each node. */
  labels: Map<number, string[]>;
}

/** Return what boxes and links of a circuit and run are made from. */
export function artistOf(circuit: Circuit, run: Run | null, digits: number): Artist {
  const labels = new Map<number, string[]>();
  for (const { label, node } of circuit.outputs) labels.set(node, [...(labels.get(node) ?? []), printable(label)]);
  return { circuit, run, kinds: kindsOf(circuit), digits, active: active(circuit), labels };
}

/** Return a drawing with the circuit's own title. */
export function drawingOf(artist: Artist, boxes: readonly Box[], links: Link[], note = ""): Drawing {
  const { nodes, name } = artist.circuit;
  const inputs = nodes.filter(({ op }) => op === "input").length;
  const constants = nodes.filter(({ op }) => op === "constant").length;
  const splitters = nodes.filter(isSplitter).length;
  const parts = [counted(inputs, "input"), counted(nodes.length - inputs - constants - splitters, "node")];
  if (splitters) parts.push(counted(splitters, "splitter"));
  const held = withoutLoneGroups(boxes);
  return { title: printable(name), about: parts.join(", "), boxes: held, links, note, ran: artist.run !== null };
}

/** Draw every node. */
export function whole(artist: Artist): Drawing {
  const place = artist.circuit.nodes.map(() => -1);
  const boxes: Box[] = [];
  for (const [node, folded] of artist.kinds.folded.entries()) {
    if (folded) continue;
    place[node] = boxes.length;
    boxes.push(boxOf(artist, node));
  }
  const links: Link[] = [];
  for (const [node, { sources }] of artist.circuit.nodes.entries()) {
    for (const [slot, source] of sources.entries()) {
      // Constants without a name are written inside their readers.
      if (place[source]! >= 0) links.push(linkOf(artist, node, slot, place[source]!, place[node]!));
    }
  }
  return drawingOf(artist, boxes, links);
}

/** Return one wire. */
export function linkOf(artist: Artist, reader: number, slot: number, from: number, to: number, source?: number): Link {
  const node = artist.circuit.nodes[reader]!;
  const carried = source ?? node.sources[slot]!;
  const input = inputName(node, slot);
  const shape = shapeOf(artist, carried);
  const pill = shape === "" && hasLocal(node, slot) && artist.active[carried] === true;
  const link: Link = { from, to, reader, slot, source: carried, input, local: null, sent: null, wires: 1, pill, shape };
  const flow = artist.run?.wires[artist.run.starts[reader]! + slot];
  if (flow === undefined) return link;
  link.sent = flowReading(artist, flow.sent === null ? null : read(flow.sent, artist.digits), carried);
  // A blocked slope counts as 0; an op that is not by element has no single slope.
  const local = flow.local === null && opOf(node.op) ? 0 : flow.local;
  if (!isSplitter(node) && local !== null && artist.active[carried]) link.local = read(local, artist.digits);
  return link;
}

/** Whether a node has a local derivative for an input that is worth writing: that of a sum is always 1. */
function hasLocal({ op }: CircuitNode, slot: number): boolean {
  const record = opOf(op);
  if (!record) return libraryOf(op) !== undefined;
  // What only distributes has a constant slope: a minus has -1 at the input that it takes away.
  return record.pattern !== "merge" && (record.pattern !== "distribute" || (record.rules[slot] as () => number)() !== 1);
}

/** The shape of a node's array without brackets; empty for a number. */
function shapeOf({ circuit }: Artist, node: number): string {
  return shapeText(circuit.nodes[node]!.type).slice(1, -1);
}

/** A name that the reader of formulas gave to a node that had none. */
const AUTOMATIC = /^t\d+$/;
/** How deep, how wide and how long an expression under a box may be. */
const [DEEPEST, WIDEST, LONGEST] = [4, 3, 16];
/** How tightly something binds that needs no parentheses. */
const ATOM = 99;

/** Return the name of a node that a person gave to it. */
export function givenName({ names: [name] }: CircuitNode): string | undefined {
  return name === undefined || AUTOMATIC.test(name) ? undefined : name;
}

/** Return what stands under a node: its name, or what it computes where it has none or the name stands elsewhere. */
function captionOf(artist: Artist, node: number): string {
  const name = givenName(artist.circuit.nodes[node]!);
  if (name !== undefined && !artist.labels.get(node)?.includes(name)) return name;
  return written(artist, node, DEEPEST)?.text ?? titleOf(artist.circuit, node);
}

/** Return what a node is called where it is read about: its name, or what it computes, in the signs of the picture. */
export function drawnName(artist: Artist, node: number): string {
  return printable(captionOf({ ...artist, labels: new Map() }, node));
}

interface Written {
  text: string;
  level: number;
}

/** Write what a node computes; null if that is too long to stand under a box. */
function written(artist: Artist, node: number, depth: number): Written | null {
  const { op, sources, title, names: [name = ""] } = artist.circuit.nodes[node]!;
  if (title !== undefined && !name) return { text: title, level: title.includes(" ") ? 0 : ATOM };
  if (!sources.length || sources.length > WIDEST) return null;
  const record = opOf(op);
  const level = record?.infix[0] !== undefined && sources.length === 2 ? record.level : ATOM;
  const operands = sources.map((source, slot) => {
    const found = operandOf(artist, source, depth - 1);
    const loose = level === ATOM ? record?.prefix && found.level < ATOM : found.level < level + slot;
    return loose ? `(${found.text})` : found.text;
  });
  const text = expression(op, operands);
  return cells(captionText(text)) > LONGEST ? null : { text, level: record?.prefix ? 0 : level };
}

/** Write a node as an operand: its name, its number, or what it computes. */
function operandOf(artist: Artist, node: number, depth: number): Written {
  const constant = constantText(artist, node);
  const name = givenName(artist.circuit.nodes[node]!);
  const atom = { text: constant || (name ?? titleOf(artist.circuit, node)), level: ATOM };
  if (constant || name !== undefined || depth <= 0) return atom;
  return written(artist, node, depth) ?? atom;
}

/** Return the reading of a gradient: a dash where none was asked for, `no gradient` where none arrived. */
export function flowReading(artist: Artist, found: Reading | null, node: number): Reading {
  return artist.active[node] ? (found ?? BLOCKED) : NOT_COMPUTED;
}

/** Return the box of one node; some leaves may be written inside it. */
export function boxOf(artist: Artist, node: number, leaves: readonly number[] = []): Box {
  const { circuit, run, digits } = artist;
  const found = circuit.nodes[node]!;
  const kind = kindOf(artist, node);
  const labels = artist.labels.get(node) ?? [];
  const name = printable(found.names[0] ?? labels[0] ?? found.source ?? "");
  const value = run ? read(run.values[node]!, digits) : null;
  const sent = run?.grads[node] ?? null;
  const grad = run ? flowReading(artist, sent === null ? null : read(sent, digits), node) : null;
  return {
    kind,
    name,
    text: printable(textOf(artist, node, kind, leaves)),
    label: name || printable(titleOf(circuit, node)),
    caption: kind === "node" ? printable(captionOf(artist, node)) : "",
    shape: shapeOf(artist, node),
    node,
    nodes: 1 + leaves.length,
    members: [...leaves, node],
    group: printable(pathsAround(found.group).pop() ?? ""),
    path: "",
    value,
    grad,
    outputs: labels,
    bad: [value, grad].filter((reading) => reading?.state === "not finite").length,
    kink: run && artist.active[node] ? kinkOf(run, node) : "",
    branches: [],
  };
}

function kindOf({ circuit }: Artist, node: number): Kind {
  const found = circuit.nodes[node]!;
  if (found.op === "input" || found.op === "constant") return found.op;
  return isSplitter(found) ? "splitter" : "node";
}

/** Return the op with what is written inside it. */
function textOf(artist: Artist, node: number, kind: Kind, leaves: readonly number[]): string {
  const found = artist.circuit.nodes[node]!;
  if (kind !== "node") return kind;
  const inside = found.sources.map((x) => (leaves.includes(x) ? nameOf(artist.circuit, x) : constantText(artist, x)));
  return caption(found, inside);
}

/** Return a constant that is written inside its reader: its number, or its shape if it has several. */
function constantText(artist: Artist, source: number): string {
  let node = source;
  while (artist.kinds.folded[node] && artist.circuit.nodes[node]?.sources[0] !== undefined) {
    node = artist.circuit.nodes[node]!.sources[0]!;
  }
  if (!artist.kinds.folded[node]) return "";
  const found = read(artist.circuit.nodes[node]?.constant ?? null, artist.digits);
  return uniform(found) || found.shape || bare(found);
}

/** Return the paths of the groups that are open, outer ones first, in the order of their first box. */
export function openGroups(boxes: readonly Box[]): string[] {
  const found = [...new Set(boxes.flatMap((box) => pathsAround(box.group)))];
  return found.sort((a, b) => a.split("/").length - b.split("/").length);
}

/** Return boxes out of the groups in which they stand alone: a frame around one box says nothing. */
function withoutLoneGroups(boxes: readonly Box[]): Box[] {
  const inside = new Map<string, number>();
  for (const path of boxes.flatMap((box) => pathsAround(box.group))) inside.set(path, (inside.get(path) ?? 0) + 1);
  return boxes.map((box) => {
    const kept = pathsAround(box.group).filter((path) => inside.get(path) !== 1);
    return { ...box, group: kept.pop() ?? "" };
  });
}
