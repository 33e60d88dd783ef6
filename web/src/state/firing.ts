/** What fires at a position: which nodes, and how far their step is. The picture marks exactly what the sentence tells. */
import type { Session } from "./session";
import { tell } from "./telling";
import { stageProgress, type Stage } from "./timeline";

/** The step that led to a position; `wires` are those along which it sent something, in the order of `run.wires`. */
export interface Firing {
  at: number;
  stages: readonly Stage[];
  /** Which of its parts the last stage has reached. */
  part: number;
  wires: readonly number[];
}

/** A step through more stages than this marks nothing: it would mark everything. */
const MAX_MARKED = 12;

/** Return what fires at the position of a session; null where nothing does. */
export function firingOf(state: Session): Firing | null {
  const { stages } = tell(state);
  const last = stages.at(-1);
  if (!last || stages.length > MAX_MARKED) return null;
  const { line, run, at } = state;
  const senders = new Set(stages.flatMap(({ kind, node }) => (kind === "send" ? [node] : [])));
  const wires = [...run.wires.keys()].filter((wire) => {
    const { reader, source, sent } = run.wires[wire]!;
    return senders.has(reader) && line.active[source] && sent !== null && line.wireAt[wire]! <= at;
  });
  const single = state.options.size === "wire" && stages.length === 1;
  return { at, stages, wires: single ? wires.slice(-1) : wires, part: stageProgress(last, at).part };
}
