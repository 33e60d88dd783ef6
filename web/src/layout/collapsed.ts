/** Draws pieces of a circuit, each a group or a single node, and the wires between them. */
import { nameOf, startsOf } from "../engine/circuits";
import { isBad, isNan, sizeOf } from "../engine/numbers";
import { printable } from "../engine/words";
import type { Value } from "../types";
import { listOf, most } from "./arrays";
import { boxOf, drawingOf, flowReading, linkOf, type Artist, type Box, type Drawing, type Link } from "./boxes";
import type { Ends, Piece, Plan } from "./grouping";
import { counted } from "./letters";
import { read, readBad, readNorm, type Reading } from "./readings";

/** Draw the pieces of a plan. */
export function collapsed(artist: Artist, plan: Plan, ends: Ends): Drawing {
  const boxes = plan.pieces.map((piece) =>
    piece.single ? boxOf(artist, piece.nodes[0]!, piece.leaves) : groupBox(artist, piece),
  );
  return drawingOf(artist, boxes, bundles(artist, plan, ends), plan.note);
}

function groupBox(artist: Artist, piece: Piece): Box {
  const { run, digits } = artist;
  const held = [...piece.leaves, ...piece.nodes];
  const name = printable(pieceName(artist, piece));
  const first = piece.nodes[0]!;
  const outer = piece.opened ? piece.path : piece.path.slice(0, Math.max(0, piece.path.lastIndexOf("/")));
  const grads = run ? piece.nodes.map((node) => run.grads[node] ?? null) : [];
  return {
    kind: "group",
    name,
    text: counted(piece.nodes.length, artist.kinds.leaves[first] ? "input" : "node"),
    label: name,
    caption: "",
    shape: "",
    node: first,
    nodes: held.length,
    members: held,
    group: printable(outer),
    path: piece.path,
    value: null,
    // The norm is of function nodes alone, so that it does not change with where inputs are drawn.
    grad: run ? normOf(grads, digits) : null,
    outputs: held.flatMap((node) => artist.labels.get(node) ?? []),
    bad: run ? total(held.flatMap((node) => [badIn(run.grads[node] ?? null), badIn(run.values[node] ?? null)])) : 0,
    kink: "",
    branches: [],
  };
}

/** Return what a piece is called: its group or groups, its inputs, or its first and last node. */
function pieceName({ circuit, kinds }: Artist, piece: Piece): string {
  const [k, of] = piece.part;
  if (piece.until) return `${piece.path} to ${piece.until}`;
  if (piece.path) return of > 1 ? `${piece.path} (${k} of ${of})` : piece.path;
  const [first, end] = [piece.nodes[0]!, piece.nodes.at(-1)!];
  return kinds.leaves[first] ? `${nameOf(circuit, first)} to ${nameOf(circuit, end)}` : `nodes ${first} to ${end}`;
}

/** Return the wires between pieces; those that join the same two boxes are one if either is a group. */
function bundles(artist: Artist, plan: Plan, ends: Ends): Link[] {
  const joined = new Map<string, number[]>();
  for (const [k, source] of ends.sources.entries()) {
    const [from, to] = [plan.owner[source]!, plan.owner[ends.readers[k]!]!];
    if (from === to || from < 0 || to < 0) continue;
    const alone = plan.pieces[from]!.single && plan.pieces[to]!.single;
    listOf(joined, `${from} ${to} ${alone ? k : -1}`).push(k);
  }
  const starts = startsOf(artist.circuit);
  const found = [...joined].map(([key, wires]) => {
    const [from = 0, to = 0] = key.split(" ").map(Number);
    return bundle(artist, ends, starts, wires, from, to);
  });
  return found.sort((a, b) => a.to - b.to || a.reader - b.reader || a.slot - b.slot);
}

function bundle(
  artist: Artist,
  ends: Ends,
  starts: readonly number[],
  wires: readonly number[],
  from: number,
  to: number,
): Link {
  const first = wires[0]!;
  const reader = ends.readers[first]!;
  const slot = first - starts[reader]!;
  const source = ends.sources[first]!;
  if (wires.length === 1) return linkOf(artist, reader, slot, from, to, source);
  const sent = artist.run ? bundleReading(artist, ends, wires) : null;
  return { from, to, reader, slot, source, input: "", local: null, sent, wires: wires.length, pill: false, shape: "" };
}

/** Return what came back along wires that are drawn as one. */
function bundleReading(artist: Artist, ends: Ends, wires: readonly number[]): Reading {
  const { run, active, digits } = artist;
  const live = wires.filter((k) => active[ends.sources[k]!]);
  const flows = live.map((k) => run?.wires[k]?.sent ?? null).filter((flow) => flow !== null);
  if (flows.length > 1) return normOf(flows, digits);
  const [only] = flows;
  const source = ends.sources[(live.length ? live : wires)[0]!]!;
  return flowReading(artist, only === undefined ? null : read(only, digits), source);
}

/** Return the norm of several gradients; there is none if one of them is not finite. */
function normOf(values: readonly (Value | null)[], digits: number): Reading {
  const found = values.filter((value) => value !== null);
  const nans = total(found.map((value) => (typeof value === "object" ? value.bad : Number(isNan(value)))));
  const infs = total(found.map(badIn)) - nans;
  if (nans || infs) return readBad(nans, infs);
  const sizes = found.map((value) => Math.abs(sizeOf(value)));
  const top = most(sizes, 0);
  // The squares of large and small numbers are no longer numbers.
  return readNorm(top ? top * Math.sqrt(total(sizes.map((size) => (size / top) ** 2))) : 0, digits);
}

function total(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}

/** Return how many numbers of a value are not finite. */
function badIn(value: Value | null): number {
  return value !== null && typeof value === "object" ? value.bad : Number(isBad(value));
}
