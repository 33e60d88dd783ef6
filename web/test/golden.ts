// Reads the golden file of the engine: what Python says of formulas.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { startsOf } from "../src/engine/circuits";
import type { Circuit, Run, Scalar } from "../src/types";

type Encoded = number | boolean | string | null;

export interface GoldenPaths {
  count: string;
  live: string;
  total: Encoded;
  magnitude: Encoded;
  cancellation: Encoded;
  added: Encoded;
  rest: Encoded;
  paths: [Encoded, number[], number[], Encoded[]][];
}

export interface Golden {
  /** Empty for what was built without one. */
  formula: string;
  leaves: Record<string, number>;
  exact: boolean;
  circuit: Circuit;
  values: Encoded[];
  grads: Encoded[];
  wires: [Encoded, Encoded][];
  steps: string[];
  kinks: [number, string][];
  blame: [string, number, number | null, string[], string[]][];
  split?: { circuit: Circuit; steps: string[] };
  paths?: Record<string, GoldenPaths>;
}

interface File {
  circuits: Golden[];
  /** Circuits that come from no formula: written infinities, several outputs. */
  built: Golden[];
  /** Formulas as people write them, and random texts: what they mean, or why they mean nothing. */
  readings: { text: string; circuit?: Circuit; notes?: [string, string, number][]; mistake?: [string, number] }[];
  suggestions: [string, string][];
  mistakes: { text: string; times?: number; end?: string; message: string; offset: number }[];
  finds: { formula: string; leaves: Record<string, number>; query: string; nodes: number[] }[];
  numbers: [number, string, string][];
}

const folder = process.env.WEB_FOLDER!;
export const golden = JSON.parse(readFileSync(join(folder, "golden/engine.json"), "utf8")) as File;

/** Numbers as they are shown: how they are read, `short` and `operand`. */
export const numbers = JSON.parse(readFileSync(join(folder, "../tests/golden/numbers.json"), "utf8")) as [string, string, string][];

/** A text of the page as Python writes it, with the minus sign of ASCII. */
export function ascii(text: string): string {
  return text.replaceAll("\u2212", "-");
}

/** What JSON has no number for stands there as text. */
export function decoded<T>(value: T): T {
  if (value === "nan") return NaN as T;
  if (value === "inf" || value === "-inf") return (value === "inf" ? Infinity : -Infinity) as T;
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(decoded) as T;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, decoded(item as unknown)])) as T;
}

/** Python's own run of a golden circuit. */
export function given({ circuit, values, grads, wires }: Golden): Run {
  const starts = startsOf(circuit);
  const all = circuit.nodes.flatMap(({ sources }, reader) => sources.map((source, slot) => ({ reader, slot, source })));
  const flows = decoded(wires) as [number | null, number | null][];
  const upstream = decoded(grads) as (number | null)[];
  return {
    circuit,
    values: decoded(values) as Scalar[],
    grads: upstream,
    wires: all.map((wire, k) => ({ ...wire, local: flows[k]![0], upstream: upstream[wire.reader]!, sent: flows[k]![1] })),
    starts,
  };
}
