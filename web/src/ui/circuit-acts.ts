/**
 * What a step does to each box and wire of a picture: who fires, which numbers are read, which land, which wires carry
 * something. One table for the whole picture, so that a box or wire is drawn anew only if its own entry changes.
 */
import { opOf } from "../engine";
import type { Picture, PictureWire } from "../layout";
import type { Firing } from "../state/firing";
import type { Stage } from "../state/timeline";
import type { Run } from "../types";

/** What a step does to a box: fire it, mark one of its numbers as read, or let one land. */
export interface BoxAct {
  fires?: boolean;
  reads?: "value" | "gradient";
  lands?: "value" | "gradient";
}

/** What a step does to a wire: its value is read, something goes along it forward, or back. */
export interface WireAct {
  reads?: boolean;
  goes?: "forward" | "backward";
}

/** What a step does to a picture, by the index of boxes and wires. */
export interface Acts {
  boxes: ReadonlyMap<number, BoxAct>;
  wires: ReadonlyMap<number, WireAct>;
}

export const NO_ACTS: Acts = { boxes: new Map(), wires: new Map() };

/** Steps through more stages than this mark who fires, not what is read. */
const MAX_READ = 3;

/** Return the box that a node is drawn as, or the group it is hidden in; -1 if there is none. */
export function boxOf(picture: Picture, node: number): number {
  const own = picture.boxes.findIndex((box) => box.node === node && box.kind !== "splitter" && box.kind !== "group");
  return own >= 0 ? own : picture.boxes.findIndex((box) => box.members.includes(node));
}

/** Return the splitter behind a node; -1 if there is none. */
export function splitterOf(picture: Picture, node: number): number {
  return picture.boxes.findIndex((box) => box.kind === "splitter" && box.node === node);
}

/** Return the wires that a node reads. */
export function wiresInto(picture: Picture, node: number): number[] {
  const box = boxOf(picture, node);
  return picture.wires.flatMap((wire, k) => (wire.reader === node && wire.slot >= 0 && wire.to === box ? [k] : []));
}

/** Whether the local derivatives of an op depend on what was stored; those of a sum are the same everywhere. */
export function readsStored(op: string): boolean {
  const pattern = opOf(op)?.pattern;
  return pattern !== "distribute" && pattern !== "merge";
}

/** Return what a step does to a picture. */
export function actsOf(picture: Picture, run: Run, firing: Firing | null): Acts {
  if (!firing) return NO_ACTS;
  const maker = new ActsMaker(picture, run, firing);
  for (const stage of firing.stages) maker.add(stage);
  return maker;
}

class ActsMaker implements Acts {
  readonly boxes = new Map<number, BoxAct>();
  readonly wires = new Map<number, WireAct>();

  constructor(
    private readonly picture: Picture,
    private readonly run: Run,
    private readonly firing: Firing,
  ) {}

  add({ kind, node }: Stage): void {
    if (kind === "forward") this.addForward(node);
    else if (kind === "seed") this.markBox(boxOf(this.picture, node), { lands: "gradient", reads: "gradient" });
    else if (kind === "send") this.addSend(node);
    else this.addSum(node);
  }

  private addForward(node: number): void {
    this.markBox(boxOf(this.picture, node), { fires: true, lands: "value" });
    for (const [k, wire] of this.picture.wires.entries()) {
      if (wire.source === node) this.markWire(k, { goes: "forward" });
    }
    if (this.firing.stages.length <= MAX_READ) this.readInputs(node);
  }

  private addSend(node: number): void {
    const single = this.firing.stages.length <= MAX_READ;
    this.markBox(boxOf(this.picture, node), single ? { fires: true, reads: "gradient" } : { fires: true });
    if (this.firing.part > 1 && single && readsStored(this.run.circuit.nodes[node]!.op)) {
      for (const k of wiresInto(this.picture, node)) this.readSource(this.picture.wires[k]!);
    }
    for (const index of this.firing.wires) {
      const { reader, slot } = this.run.wires[index]!;
      const k = this.picture.wires.findIndex((wire) => wire.reader === reader && wire.slot === slot);
      if (k >= 0 && reader === node) this.addSent(k);
    }
  }

  /** Something goes back along a wire: to a box, where it lands, or to a splitter, which adds it. */
  private addSent(k: number): void {
    this.markWire(k, { goes: "backward" });
    const from = this.picture.wires[k]!.from;
    this.markBox(from, this.picture.boxes[from]!.kind === "splitter" ? { fires: true } : { lands: "gradient" });
  }

  private addSum(node: number): void {
    const splitter = splitterOf(this.picture, node);
    this.markBox(splitter >= 0 ? splitter : boxOf(this.picture, node), { fires: true });
    this.markBox(boxOf(this.picture, node), { lands: "gradient" });
    for (const [k, wire] of this.picture.wires.entries()) {
      if (wire.to === splitter) this.markWire(k, { goes: "backward" });
    }
  }

  private readInputs(node: number): void {
    for (const k of wiresInto(this.picture, node)) {
      this.markWire(k, { reads: true });
      this.readSource(this.picture.wires[k]!);
    }
  }

  private readSource({ source }: PictureWire): void {
    this.markBox(boxOf(this.picture, source), { reads: "value" });
  }

  private markBox(k: number, act: BoxAct): void {
    if (k >= 0) this.boxes.set(k, { ...this.boxes.get(k), ...act });
  }

  private markWire(k: number, act: WireAct): void {
    this.wires.set(k, { ...this.wires.get(k), ...act });
  }
}
