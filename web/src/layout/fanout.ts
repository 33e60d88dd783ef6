/**
 * Splitters in a drawing: every wire one reader. A value with several readers has one glyph, or a chain of two-way
 * splitters as in the split form of a circuit: the first branch of each goes to the earliest reader left.
 */
import type { Run } from "../types";
import { last, times } from "./arrays";
import type { Box, Drawing, Link } from "./boxes";
import { counted } from "./letters";
import { BLOCKED, NOT_COMPUTED, read, type Reading } from "./readings";

interface Splitting {
  drawn: Drawing;
  run: Run | null;
  digits: number;
  /** A value that needs this many splitters is drawn with one glyph for all of them. */
  chain: number;
  boxes: Box[];
  added: Link[];
  /** The box each wire leaves from. */
  start: number[];
}

/** Return the drawing with splitters behind every box that several readers (outputs included) share. */
export function withSplitters(drawn: Drawing, run: Run | null, digits: number, chain: number): Drawing {
  const leaving: number[][] = drawn.boxes.map(() => []);
  for (const [k, link] of drawn.links.entries()) leaving[link.from]!.push(k);
  const made: Splitting = { drawn, run, digits, chain, boxes: [], added: [], start: drawn.links.map(() => 0) };
  const place: number[] = [];
  for (const [k, box] of drawn.boxes.entries()) {
    place.push(made.boxes.length);
    made.boxes.push(box);
    for (const wire of leaving[k]!) made.start[wire] = made.boxes.length - 1;
    // An explicit splitter brings two branches of its own, of which the first stays.
    const readers = leaving[k]!.slice(box.kind === "splitter" ? 1 : 0);
    if (readers.length + box.outputs.length > 1) branch(made, box, readers);
  }
  const moved = drawn.links.map((link, k) => ({ ...link, from: made.start[k]!, to: place[link.to]! }));
  const links = [...moved, ...made.added].sort((a, b) => a.to - b.to || a.slot - b.slot);
  return { ...drawn, boxes: made.boxes, links };
}

/** Put a chain of splitters behind a box and let its wires leave from them. */
function branch(made: Splitting, box: Box, readers: readonly number[]): void {
  const needed = readers.length + box.outputs.length - 1;
  made.boxes[made.boxes.length - 1] = { ...box, outputs: [] };
  const many = needed >= made.chain;
  for (const step of times(many ? 1 : needed, (k) => k)) {
    const from = made.boxes.length - 1;
    const sent = sumOf(made, box, readers, step);
    const { node } = box;
    const ends = { from, to: from + 1, reader: node, slot: -1 - step, source: node };
    made.added.push({ ...ends, input: "", local: null, sent, wires: 1, pill: false, shape: box.shape });
    made.boxes.push(splitter(made, box, readers.slice(step), many ? needed : 1, sent));
    for (const wire of readers.slice(step)) made.start[wire] = made.boxes.length - 1;
  }
  last(made.boxes).outputs = box.outputs;
}

/** Return what comes back to a splitter: the sum of its branches. */
function sumOf(made: Splitting, box: Box, readers: readonly number[], step: number): Reading | null {
  const { run, drawn, digits } = made;
  if (run === null || box.grad === null || box.grad.state === "not computed") return box.grad;
  const flows = readers.slice(step).map((wire) => {
    const { reader, slot } = drawn.links[wire]!;
    return run.wires[run.starts[reader]! + slot]?.sent ?? null;
  });
  let total: number | null = box.outputs.length ? 1 : null;
  for (const flow of flows.reverse()) {
    // Of arrays only summaries are known here: the sum of all of them is, the others are not.
    if (typeof flow === "object" && flow !== null) return step ? NOT_COMPUTED : box.grad;
    if (flow !== null) total = total === null ? Number(flow) : total + Number(flow);
  }
  return total === null ? BLOCKED : read(total, digits);
}

function splitter(made: Splitting, box: Box, readers: readonly number[], needed: number, sent: Reading | null): Box {
  const branches = readers.map((wire) => made.drawn.links[wire]!).map(({ reader, slot }) => ({ reader, slot }));
  return {
    kind: "splitter",
    name: "",
    text: counted(needed, "splitter"),
    label: `${box.label} split`,
    caption: "",
    shape: box.shape,
    node: box.node,
    nodes: needed,
    members: [box.node],
    group: box.group,
    path: "",
    value: box.value,
    grad: sent,
    outputs: [],
    bad: 0,
    kink: "",
    branches,
  };
}
