/**
 * What Python hands over, read with care: `{"formula", "leaves"}` or `{"circuit", "run", "live", "note", ...}`. In JSON
 * a number that is not finite is the text nan, inf or -inf, an array is a summary, and null is an absent gradient.
 */
import { assembled } from "../engine";
import type { Circuit, Loop, Run, Value } from "../types";
import { PRESETS } from "./presets";
import { fromData, fromFormula, fromPreset, OPTIONS, type Leaves, type Options, type Session } from "./session";

/** A value as JSON has it. */
export type Told = number | boolean | string | null | { type: string; text: string; norm: number | string; bad: number };

interface ToldRun {
  values: Told[];
  grads: Told[];
  /** Local derivative, upstream gradient and what was sent, of every wire. */
  wires: [Told, Told, Told][];
  loops?: Record<string, ToldLoop>;
}

interface ToldLoop {
  steps: number;
  shown: number[];
  circuit: Circuit;
  runs: ToldRun[];
}

/** What Python says where something that is not finite comes from. */
export interface Blame {
  text: string;
  origins: { phase: string; node: number; said: string; suggestion: string }[];
}

/** What stands in the page's data block. */
export interface PageData {
  formula?: string;
  leaves?: Record<string, Told>;
  circuit?: Circuit;
  run?: ToldRun;
  live?: boolean;
  note?: string;
  blame?: Blame;
  server?: { run: boolean; views: boolean };
}

/** The state that a data block asks for; an empty one asks for the expression. */
export function fromPage(data: PageData, options: Options = OPTIONS): Session {
  const leaves = readLeaves(data.leaves ?? {});
  if (data.formula !== undefined && data.live !== false) return fromText(data.formula, leaves, options);
  if (!data.circuit) return fromPreset("expression", options);
  const circuit = readCircuit(data.circuit);
  const run = data.run ? readRun(circuit, data.run) : null;
  const source = {
    kind: "data" as const,
    circuit,
    run,
    live: data.live ?? false,
    server: data.server?.run ?? false,
    note: data.note ?? "",
    blame: data.blame ?? null,
  };
  return fromData(source, leaves, options);
}

/** A formula, or the preset that has the same statements and leaves. */
function fromText(text: string, leaves: Leaves, options: Options): Session {
  const bare = (formula: string): string => formula.split(/[;\n]/).map((part) => part.trim()).filter(Boolean).join(";");
  const same = PRESETS.find(
    ({ formula, leaves: own }) =>
      bare(formula) === bare(text) && Object.keys({ ...own, ...leaves }).every((name) => Object.is(own[name], leaves[name])),
  );
  return same ? fromPreset(same.key, options) : fromFormula(text, leaves, options);
}

/** Read one value. */
export function readValue(told: Told | undefined): Value | null {
  if (told === null || told === undefined) return null;
  if (typeof told === "string") return readNumber(told);
  return typeof told === "object" ? { ...told, norm: readNumber(told.norm) } : told;
}

/** Read a number that may be a word. */
export function readNumber(told: number | string): number {
  if (typeof told === "number") return told;
  return told === "inf" ? Infinity : told === "-inf" ? -Infinity : NaN;
}

function readLeaves(told: Record<string, Told>): Leaves {
  return Object.fromEntries(Object.entries(told).map(([name, value]) => [name, Number(readValue(value))]));
}

function readCircuit(circuit: Circuit): Circuit {
  const nodes = circuit.nodes.map((node) =>
    node.constant === undefined ? node : { ...node, constant: readValue(node.constant as Told) ?? NaN },
  );
  return { ...circuit, nodes };
}

/** Read a run of a circuit. */
export function readRun(circuit: Circuit, { values, grads, wires, loops }: ToldRun): Run {
  const found = values.map((value) => readValue(value) ?? NaN);
  const run = assembled(circuit, found, grads.map(readValue), (wire) => (wires[wire] ?? []).map(readValue));
  return loops ? { ...run, loops: mapLoops(loops, readLoop) } : run;
}

function readLoop(loop: ToldLoop): Loop {
  const circuit = readCircuit(loop.circuit);
  return { ...loop, circuit, runs: loop.runs.map((run) => readRun(circuit, run)) };
}

function mapLoops<From, To>(loops: Record<string, From>, change: (loop: From) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(loops).map(([node, loop]) => [node, change(loop)]));
}

/** What to put into the data block of a page that shows a state. */
export function pageData(state: Session): PageData {
  if (state.source.kind === "formula") return { formula: state.source.text, leaves: toldLeaves(state.leaves) };
  const { circuit, live, note, blame } = state.source;
  return {
    circuit: { ...circuit, nodes: circuit.nodes.map((node) => ({ ...node })) },
    run: toldRun(state.run),
    leaves: toldLeaves(state.leaves),
    live,
    ...(note ? { note } : {}),
    ...(blame ? { blame } : {}),
  };
}

/** What to ask a server for: the same circuit at other leaves. */
export function question(leaves: Leaves): string {
  return JSON.stringify({ leaves: toldLeaves(leaves) });
}

/** Everything that is known of a state, for other programs. */
export function documentOf(state: Session): PageData {
  const { circuit, run } = state;
  return { ...pageData(state), circuit, run: toldRun(run) };
}

/** Write data as JSON that can stand inside a page. */
export function asJson(data: PageData): string {
  const text = JSON.stringify(data, (_, value: unknown) => (typeof value === "number" ? told(value) : value));
  return text.replace(/[<>&\u2028\u2029]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function told(value: number): number | string {
  if (isFinite(value)) return value;
  return isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

function toldLeaves(leaves: Leaves): Record<string, Told> {
  return Object.fromEntries(Object.entries(leaves).map(([name, value]) => [name, told(value)]));
}

function toldRun({ values, grads, wires, loops }: Run): ToldRun {
  const told = { values, grads, wires: wires.map(({ local, upstream, sent }): [Told, Told, Told] => [local, upstream, sent]) };
  return loops ? { ...told, loops: mapLoops(loops, (loop) => ({ ...loop, runs: loop.runs.map(toldRun) })) } : told;
}
