/**
 * What a person may see at a position: which values and gradients are computed, which are partial sums, which are left
 * over from before an edit. Kept true: a number that is not computed at this position is never shown as one.
 */
import type { Run, Value } from "../types";
import { isLeaf, sum, type Timeline } from "./timeline";

/** What is known of a gradient. */
export type Mark = "none" | "partial" | "final" | "stale";

export interface Known {
  value: boolean[];
  /** Values computed from leaves that have been edited since. */
  staleValue: boolean[];
  grad: Mark[];
  /** What has arrived so far at a node that waits for more. */
  partial: (Value | null)[];
  /** How many wires have brought something back to each node, of how many; the 1 of an output counts as one of them. */
  arrived: number[];
  due: number[];
  /** Gradients that stay from earlier backward passes, and what this pass adds to them; null where there is none. */
  carried?: { old: (Value | null)[]; added: (Value | null)[] };
  /** The nodes whose local derivatives are known; absent: those whose gradient is. */
  local?: boolean[];
  /** In the order of `run.wires`. */
  wire: ("none" | "final" | "stale")[];
}

/** A run together with what is known of it. */
export interface Shown {
  run: Run;
  known: Known;
}

/** What is known of a run at a position. */
export function knownAt(run: Run, line: Timeline, at: number): Known {
  const { partial, arrived } = arrivals(run, line, at);
  const grad = line.gradAt.map((moment, node): Mark => {
    if (at > 0 && moment <= at) return "final";
    return arrived[node] ? "partial" : "none";
  });
  return {
    value: line.valueAt.map((moment) => moment <= at),
    staleValue: line.valueAt.map(() => false),
    grad,
    partial: partial.map((value, node) => (grad[node] === "partial" ? value : null)),
    arrived,
    due: line.due.map((wires, node) => (wires && isFinite(line.seedAt[node]!) ? wires + 1 : wires)),
    local: line.localAt.map((moment) => moment <= at),
    wire: line.wireAt.map((moment) => (at > 0 && moment <= at ? "final" : "none")),
  };
}

function arrivals(run: Run, line: Timeline, at: number): { partial: (Value | null)[]; arrived: number[] } {
  const seeded = line.seedAt.map((moment, node) => line.due[node]! > 0 && moment <= at);
  const partial: (Value | null)[] = seeded.map((own) => (own ? 1 : null));
  const arrived = seeded.map(Number);
  const wires = run.wires.map((_, wire) => wire).filter((wire) => line.wireAt[wire]! <= at && at > 0);
  wires.sort((one, two) => line.wireAt[one]! - line.wireAt[two]!);
  for (const wire of wires) {
    const { source, sent } = run.wires[wire]!;
    if (sent === null) continue;
    partial[source] = arrived[source]! ? sum(partial[source]!, sent) : sent;
    arrived[source]!++;
  }
  return { partial, arrived };
}

/** The same with gradients that stay from earlier backward passes added at the inputs, as PyTorch does. */
export function withCarried(shown: Shown, carried: (Value | null)[]): Shown {
  const { run, known } = shown;
  const plus = (value: Value | null, node: number): Value | null => sum(carried[node] ?? null, value);
  const has = (node: number): boolean => carried[node] != null;
  return {
    run: { ...run, grads: run.grads.map((grad, node) => (has(node) ? plus(grad, node) : grad)) },
    known: {
      ...known,
      carried: { old: carried, added: run.grads },
      grad: known.grad.map((mark, node) => (mark === "none" && has(node) ? "partial" : mark)),
      partial: known.partial.map((value, node) =>
        has(node) && known.grad[node] !== "final" ? plus(value, node) : value,
      ),
    },
  };
}

/** What is shown while some numbers are left over from before an edit. */
export function withStale(now: Shown, before: Shown): Shown {
  const touched = touchedNodes(now.run, before.run);
  const keep = (node: number): boolean => !now.known.value[node] && before.known.value[node]!;
  const stale = (node: number): boolean => keep(node) && (touched[node]! || before.known.staleValue[node]!);
  const keepGrad = (node: number): boolean => now.known.grad[node] === "none" && before.known.grad[node] !== "none";
  const keepWire = (wire: number): boolean => now.known.wire[wire] === "none" && before.known.wire[wire] !== "none";
  const oldGrad = (node: number): Value | null =>
    before.known.grad[node] === "partial" ? before.known.partial[node]! : before.run.grads[node]!;
  return {
    run: {
      ...now.run,
      values: now.run.values.map((value, node) => (keep(node) ? before.run.values[node]! : value)),
      grads: now.run.grads.map((grad, node) => (keepGrad(node) ? oldGrad(node) : grad)),
      wires: now.run.wires.map((flow, wire) => (keepWire(wire) ? before.run.wires[wire]! : flow)),
    },
    known: {
      ...now.known,
      value: now.known.value.map((value, node) => value || keep(node)),
      staleValue: now.known.value.map((_, node) => stale(node)),
      grad: now.known.grad.map((mark, node) => (keepGrad(node) ? "stale" : mark)),
      local: (now.known.local ?? []).map((mark, node) => mark || before.known.local?.[node] === true),
      wire: now.known.wire.map((mark, wire) => (keepWire(wire) ? "stale" : mark)),
    },
  };
}

/** The nodes that an edited leaf reaches. */
function touchedNodes(now: Run, before: Run): boolean[] {
  const found: boolean[] = [];
  now.circuit.nodes.forEach(({ sources }, node) => {
    const edited = isLeaf(now, node) && !Object.is(now.values[node], before.values[node]);
    found.push(edited || sources.some((source) => found[source]));
  });
  return found;
}

/** Every number as its difference from an older run; null where that is of another circuit, or numbers are arrays. */
export function changedFrom({ run, known }: Shown, old: Run): Shown | null {
  if (run.circuit !== old.circuit || run.values.some((value) => typeof value === "object")) return null;
  const wires = run.wires.map((flow, wire) => {
    const { local, sent } = old.wires[wire]!;
    return { ...flow, local: change(local, flow.local), sent: change(sent, flow.sent) };
  });
  return {
    run: {
      ...run,
      values: run.values.map((value, node) => change(old.values[node]!, value)!),
      grads: run.grads.map((grad, node) => change(old.grads[node]!, grad)),
      wires,
    },
    // What part of an older sum had arrived is not known.
    known: { ...known, partial: known.partial.map(() => null) },
  };
}

/** What a number changed by; nothing counts as 0 beside a number. */
function change(before: Value | null, now: Value | null): number | null {
  if (before === null && now === null) return null;
  return Object.is(before, now) ? 0 : Number(now) - Number(before);
}
