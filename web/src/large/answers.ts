/**
 * What the server of a large circuit answers, and how it is asked. Kept true: what goes wrong on the way is an answer
 * too, in words that can be shown.
 */
import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import type { PageData, readValue } from "../state/data";
import type { Place } from "../types";

/** A value as JSON has it. */
export type Told = Exclude<Parameters<typeof readValue>[0], undefined>;

/** A number as a picture shows it. */
export interface ToldReading {
  text: string;
  size: number | string;
  state: "number" | "not finite" | "blocked" | "not computed";
}

/** A box of a board. Positions are those of function nodes in a forward pass. */
export interface BoardBox {
  id: number;
  /** The frame that it is in; -1: none. */
  parent: number;
  kind: "group" | "range" | "node" | "input" | "inputs";
  title: string;
  about: string;
  /** How many nodes it stands for, and the ranges of their positions; not exact where there are very many ranges. */
  count: number;
  ranges: [number, number][];
  exact: boolean;
  /** The largest finite gradient. */
  largest: number | string;
  /** The first node whose value, and the last whose gradient is not finite; -1: none. */
  bad: [number, number];
  /** Of a group: where it is, and whether it is open. */
  path?: string;
  open?: boolean;
  /** Of merged neighbours: which stretch of them, and from which to which. */
  stretch?: string;
  first?: number;
  last?: number;
  /** Of a node: which, its op, its numbers; no gradient: none arrives. */
  node?: number;
  op?: string;
  value?: ToldReading;
  grad?: ToldReading | null;
}

/** Boxes and the wires between them; `reader` and `slot` are of the first wire of a link. */
export interface Board {
  boxes: BoardBox[];
  links: { from: number; to: number; reader: number; slot: number; wires: number }[];
}

/** What is open on a board: groups by path, and parts of stretches of merged neighbours as `STRETCH:FIRST-LAST`. */
export interface Where {
  opened: string[];
  focus: string[];
}

/** Which nodes the passes visit, as bits. */
export interface Order {
  forward: string;
  backward: string;
}

/** A loop: its variable, the number of its first step, and the first node of every step. */
export interface Loop {
  name: string;
  first: number;
  starts: number[];
}

/** A node at which a pass meets the first number that is not finite. */
export interface Stop {
  phase: "forward" | "backward";
  node: number;
  text: string;
}

/** Gradients by the order of nodes and by size, in powers of ten: cells are column, row, nodes, positive, negative. */
export interface Heat {
  size: number;
  columns: number;
  rows: number;
  low: number;
  high: number;
  cells: [number, number, number, number, number][];
  zero: number;
  absent: number;
  bad: number[];
}

/** What Python says about the origin of what is not finite. */
export interface Blamed {
  blame?: { text: string; origins: { phase: string; node: number; said: string; suggestion: string }[] };
}

/** A group: how many nodes, the norm of their gradients, how many are not finite. */
export interface OutlineRow {
  path: string;
  nodes: number;
  norm: number | string;
  bad: number;
}

/** A node as a list of nodes tells it. */
export interface NodeRow {
  node: number;
  name: string;
  op: string;
  group: string;
  value?: Told;
  grad?: Told;
  place?: Place;
}

/** What went along one wire. */
export interface ToldWire {
  reader: number;
  slot: number;
  source: number;
  from: string;
  to: string;
  local?: Told;
  upstream?: Told;
  sent?: Told;
}

/** All that is known of one node. */
export interface ToldNode {
  node: number;
  title: string;
  op: string;
  names: string[];
  group: string;
  type: string;
  text?: string;
  place?: Place;
  constant?: Told;
  value?: Told;
  grad?: Told;
  rank: number;
  wires: ToldWire[];
  /** How many read it, and the first of them. */
  readers: number;
  branches: ToldWire[];
}

/** What a search finds: how many, and the first of them. */
export interface Found {
  query: string;
  count: number;
  nodes: NodeRow[];
}

/** What is told of a large circuit at the beginning. */
export interface LargeData extends PageData {
  summary: {
    size: number;
    name: string;
    /** Whether there is a run at all. */
    ran: boolean;
    board: Board;
    where: Where;
    order: Order;
    loop: Loop | null;
    stops: Stop[];
    outline: { count: number; groups: OutlineRow[] };
    /** The nodes with the largest gradients. */
    top: NodeRow[];
    nonfinite: { values: Slices; gradients: Slices; first: Firsts };
    heat: Heat;
    /** In a file, which nobody can be asked about: questions and their answers. */
    answers?: Record<string, unknown>;
  };
}

/** How many nodes, and which, as first and last of every run of them; there may be more runs. */
export interface Slices {
  count: number;
  slices: [number, number][];
  left_out: number;
}

/** The first node that made something non-finite of finite numbers, on each way. */
export interface Firsts {
  forward: NodeRow | null;
  backward: NodeRow | null;
}

/** Whether a page is of a circuit of which it has no more than a summary. */
export function isLarge(data: PageData): data is LargeData {
  return "summary" in data;
}

/** An answer, or why there is none. */
export interface Asked<T> {
  answer: T | null;
  error: string;
}

/** Ask the server. */
export async function ask<T>(path: string, signal?: AbortSignal): Promise<Asked<T>> {
  let response: Response;
  try {
    response = await fetch(path, signal ? { signal } : {});
    if (response.ok) return { answer: (await response.json()) as T, error: "" };
  } catch (error) {
    if (error instanceof TypeError) return { answer: null, error: "The server does not answer. Is it still running?" };
    throw error;
  }
  return { answer: null, error: refusal(await response.text(), response.status) };
}

/** How parts of the explorer ask. */
export const Asking = createContext(ask);

/** Find an answer among those that a file keeps. */
export function keptIn(answers: Record<string, unknown>): typeof ask {
  return async <T,>(path: string) => {
    const answer = answers[decodeURIComponent(path.replaceAll("+", " "))];
    return answer ? { answer: answer as T, error: "" } : { answer: null, error: "This is not in the file: open the circuit from Python to see all of it." };
  };
}

/** Why the server refused, in its own words if it gave any. */
export function refusal(text: string, status: number): string {
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    if (typeof error === "string") return error;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  return `The server refused (${status}): ${text.trim() || "it does not say why"}`;
}

/** Keep the answer to a question and the question; the last one stays until the next has come. Null asks nothing. */
export function useAsked<T>(path: string | null, first: T | null = null): Asked<T> & { path: string | null } {
  const ask = useContext(Asking);
  const [asked, setAsked] = useState({ answer: first, error: "", path: first && path });
  useEffect(() => {
    // What came with the page need not be asked for again.
    if (path === asked.path) return asked.error ? setAsked({ ...asked, error: "" }) : undefined;
    if (path === null) return setAsked({ answer: null, error: "", path });
    const stop = new AbortController();
    ask<T>(path, stop.signal).then(
      (found) => setAsked((old) => (found.error ? { ...old, error: found.error } : { ...found, path })),
      (error: unknown) => {
        if (!stop.signal.aborted) throw error;
      },
    );
    return () => stop.abort();
  }, [path]);
  return asked;
}
