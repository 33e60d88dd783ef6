/**
 * What the page shows, as one object that never changes, and the actions that make the next one. Kept true: the run
 * belongs to the circuit and the leaves, the position lies on the timeline, undo brings back what was there.
 */
import { assembled, evaluate, FormulaMistake, nameOf, number, parse, parseWithNotes, split, steps, type Note } from "../engine";
import type { Circuit, Mistake, Run, Value } from "../types";
import type { Blame } from "./data";
import { knownAt, withCarried, withStale, type Shown } from "./known";
import { presetOf } from "./presets";
import { nodeOf, sameSelection, type Selection } from "./selection";
import {
  forwardEnd, move, phaseAt, positionCode, positionOf, stops, sum, timeline,
  type StepSize, type Timeline,
} from "./timeline";
import { stepSize } from "./telling";

export { announcement, progress } from "./telling";

/** Where a circuit comes from: a formula of the page, or Python, which may have run it too. */
export type Source =
  | { kind: "formula"; text: string; preset: string | null }
  | DataSource;

/** What Python handed over: the page can run it if it is live, else a server may. */
export interface DataSource {
  kind: "data";
  circuit: Circuit;
  run: Run | null;
  live: boolean;
  server: boolean;
  note: string;
  blame: Blame | null;
}

export type Leaves = Record<string, number>;

export interface Options {
  /** Which way values flow; "auto" leaves it to the frame. */
  direction: "auto" | "lr" | "td";
  theme: "system" | "light" | "dark";
  /** What colours say: the signed gradient, its size, or gradient times value. */
  mode: "signed" | "magnitude" | "product";
  /** Draw two-way splitters as nodes, as in the formal model. */
  split: boolean;
  live: boolean;
  /** Add the gradients of a new backward pass to the old ones at the inputs. */
  accumulate: boolean;
  /** Whether single letters are shortcuts. */
  letters: boolean;
  size: StepSize;
  /** Whether nothing may move, so that the parts of a step come one by one. */
  still: boolean;
}

/** What undo covers. */
export interface Edits {
  source: Source;
  leaves: Leaves;
  /** The groups that are open; null leaves it to the picture. */
  opened: readonly string[] | null;
  hidden: readonly string[];
}

export interface Session extends Edits {
  /** The text in the formula box, and what is wrong with it. */
  draft: string;
  mistake: Mistake | null;
  /** The leaves as they were given, for reset. */
  given: Leaves;
  circuit: Circuit;
  run: Run;
  line: Timeline;
  at: number;
  /** What was shown before an edit with Live off. */
  before: Shown | null;
  /** Gradients of earlier backward passes, by node. */
  carried: (Value | null)[] | null;
  selection: Selection | null;
  /** Earlier selections, the latest last. */
  trail: readonly Selection[];
  /** A run to compare with, and whether the circuit shows the difference. */
  pinned: { label: string; run: Run; drawn: boolean } | null;
  options: Options;
  undo: readonly Edits[];
  redo: readonly Edits[];
  /** The leaf being dragged, whose moves are one edit. */
  dragged: string | null;
  /** Why the server did not run the circuit at these leaves; empty if all is well. */
  trouble: string;
}

export type Action =
  | { type: "draft"; text: string }
  | { type: "preset"; key: string }
  | { type: "leaf"; name: string; value: number; drag?: boolean }
  | { type: "reset-leaf"; name: string }
  | { type: "step"; by: 1 | -1; size?: StepSize }
  | { type: "go"; at: number }
  | { type: "to"; where: "start" | "forward" | "end" }
  | { type: "reset" }
  | { type: "again" }
  | { type: "select"; selection: Selection | null }
  | { type: "visit"; node: number; phase: string }
  | { type: "back" }
  | { type: "option"; change: Partial<Options> }
  | { type: "open"; opened: readonly string[] }
  | { type: "hide"; names: readonly string[] }
  | { type: "pin"; pin: boolean }
  | { type: "draw-difference"; on: boolean }
  | { type: "undo" }
  | { type: "redo" }
  | { type: "load"; session: Session }
  | { type: "ran"; leaves: Leaves; run: Run }
  | { type: "refused"; leaves: Leaves; why: string };

export const OPTIONS: Options = {
  direction: "auto",
  theme: "system",
  mode: "signed",
  split: false,
  live: true,
  accumulate: false,
  letters: true,
  size: "node",
  still: false,
};

/** Begin with a formula; leaves that are not given are 1. A wrong formula throws a FormulaMistake. */
export function fromFormula(text: string, leaves: Leaves, options = OPTIONS, preset: string | null = null): Session {
  return begin({ kind: "formula", text, preset }, leaves, options);
}

/** Begin with a preset of the menu. */
export function fromPreset(key: string, options = OPTIONS): Session {
  const preset = presetOf(key) ?? presetOf("expression")!;
  return fromFormula(preset.formula, preset.leaves, options, preset.key);
}

/** Begin with what Python handed over. */
export function fromData(source: DataSource, leaves: Leaves, options = OPTIONS): Session {
  return begin(source, leaves, options);
}

function begin(source: Source, leaves: Leaves, options: Options): Session {
  const circuit = circuitOf(source, options.split);
  const filled = canRun(source) ? filledLeaves(circuit, leaves, 1) : leaves;
  const { run, line } = runOf(source, circuit, filled);
  return {
    source, leaves: filled, opened: null, hidden: [],
    draft: source.kind === "formula" ? source.text : "",
    mistake: null, given: filled, circuit, run, line, at: 0, before: null, carried: null,
    selection: null, trail: [], pinned: null, options, undo: [], redo: [], dragged: null, trouble: "",
  };
}

function circuitOf(source: Source, wanted: boolean): Circuit {
  const circuit = source.kind === "formula" ? parse(source.text) : source.circuit;
  return wanted && canRun(source) ? split(circuit) : circuit;
}

function runOf(source: Source, circuit: Circuit, leaves: Leaves): { run: Run; line: Timeline } {
  if (canRun(source)) return played(evaluate(circuit, leaves));
  return source.kind === "data" && source.run ? played(source.run) : unplayed(circuit);
}

function played(run: Run): { run: Run; line: Timeline } {
  return { run, line: timeline(run, steps(run)) };
}

/** A circuit that was never run and cannot be run here: nothing is known of it at any position. */
function unplayed(circuit: Circuit): { run: Run; line: Timeline } {
  const run = assembled(circuit, circuit.nodes.map(() => NaN), circuit.nodes.map(() => null), () => []);
  const line = timeline(run, []);
  return { run, line: { ...line, valueAt: line.valueAt.map(() => Infinity) } };
}

/** Whether the page itself can run the circuit at other leaves. */
export function canRun(source: Source): boolean {
  return source.kind === "formula" || source.live;
}

/** Whether an input can be given another value: here, or by the server that holds the circuit. */
export function canEdit({ source, leaves }: Session, name: string): boolean {
  return Object.hasOwn(leaves, name) && (canRun(source) || (source.kind === "data" && source.server));
}

/** What Python says of what is not finite, as long as its run is the one that is shown. */
export function blameOf({ source, run }: Session): Blame | null {
  return source.kind === "data" && source.run === run ? source.blame : null;
}

/** The names of the inputs, in order. */
export function inputNames(circuit: Circuit): string[] {
  return circuit.nodes.flatMap(({ op }, node) => (op === "input" ? [nameOf(circuit, node)] : []));
}

function filledLeaves(circuit: Circuit, leaves: Leaves, otherwise: number): Leaves {
  return Object.fromEntries(inputNames(circuit).map((name) => [name, own(leaves, name) ?? otherwise]));
}

function own(leaves: Leaves, name: string): number | undefined {
  return Object.hasOwn(leaves, name) ? leaves[name] : undefined;
}

/** The next state of the page. */
export function reduce(state: Session, action: Action): Session {
  const next = apply(state, action);
  return action.type === "leaf" || next.dragged === null ? next : { ...next, dragged: null };
}

function apply(state: Session, action: Action): Session {
  switch (action.type) {
    case "draft": return edited(state, action.text);
    case "preset": return chosen(state, action.key);
    case "leaf": return withLeaf(state, action.name, action.value, action.drag ?? false);
    case "reset-leaf": return withLeaf(state, action.name, state.given[action.name] ?? 1, false);
    case "step": return at(state, move(stopsOf(state, action.size ?? stepSize(state.options)), state.at, action.by));
    case "go": return at(state, Math.max(0, Math.min(action.at, state.line.length)));
    case "to": return at(state, { start: 0, forward: forwardEnd(state.line), end: state.line.length }[action.where]);
    case "reset": return { ...at(state, 0), before: null, carried: null };
    case "again": return again(state);
    case "select": return selected(state, action.selection);
    case "visit": return visited(state, action.node, action.phase);
    case "back": return { ...state, selection: state.trail.at(-1) ?? null, trail: state.trail.slice(0, -1) };
    case "option": return withOptions(state, action.change);
    case "open": return { ...remembered(state), opened: action.opened };
    case "hide": return { ...remembered(state), hidden: action.names };
    case "pin": return { ...state, pinned: action.pin ? pinnedOf(state) : null };
    case "draw-difference": return { ...state, pinned: state.pinned && { ...state.pinned, drawn: action.on } };
    case "undo": return restored(state, "undo", "redo");
    case "redo": return restored(state, "redo", "undo");
    case "ran": return arrived(state, action.leaves, action.run);
    case "refused": return action.leaves === state.leaves ? { ...state, trouble: action.why } : state;
    case "load": return { ...action.session, undo: state.undo, redo: state.redo };
  }
}

function at(state: Session, position: number): Session {
  const done = state.before && position >= state.line.length;
  return { ...state, at: position, before: done ? null : state.before };
}

function pinnedOf({ leaves, run, pinned }: Session): Session["pinned"] {
  return { label: leavesText(leaves), run, drawn: pinned?.drawn ?? false };
}

function edits({ source, leaves, opened, hidden }: Session): Edits {
  return { source, leaves, opened, hidden };
}

/** The state with what undo goes back to. */
function remembered(state: Session): Session {
  return { ...state, undo: [...state.undo.slice(-99), edits(state)], redo: [] };
}

/** Another text in the formula box; as long as it is no finished formula, the old circuit stays. */
function edited(state: Session, text: string): Session {
  const mistake = mistakeOf(text);
  if (mistake) return { ...state, draft: text, mistake };
  if (state.source.kind === "formula" && state.source.text === text) return { ...state, draft: text, mistake: null };
  return samePhase(state, replaced(state, { kind: "formula", text, preset: null }, state.leaves));
}

/** Another circuit as far on as the one before: at the start, at the end, or as near as there is in between. */
function samePhase(state: Session, next: Session): Session {
  if (phaseAt(state.line, state.at) === "done") return { ...next, at: next.line.length };
  const last = move(stopsOf(next, "wire"), next.line.length, -1);
  return { ...next, at: Math.min(positionOf(next.line, positionCode(state.line, state.at)), last) };
}

/** Why a typed text is no finished formula: a mistake, or a function that has no argument yet. */
export function mistakeOf(text: string): Mistake | null {
  try {
    return parseWithNotes(text).notes.find(({ kind }) => kind === "function") ?? null;
  } catch (error) {
    if (!(error instanceof FormulaMistake)) throw error;
    return { message: error.message, offset: error.offset };
  }
}

/** What the writer of the formula that is shown may not have meant. */
export function notesOf({ source }: Session): Note[] {
  return source.kind === "formula" ? parseWithNotes(source.text).notes : [];
}

function chosen(state: Session, key: string): Session {
  const preset = presetOf(key);
  if (!preset) return state;
  return replaced(state, { kind: "formula", text: preset.formula, preset: key }, preset.leaves);
}

/** Another circuit in the place of this one. */
function replaced(state: Session, source: Source, leaves: Leaves): Session {
  const { undo, redo } = remembered(state);
  return { ...begin(source, leaves, state.options), undo, redo };
}

function withLeaf(state: Session, name: string, value: number, drag: boolean): Session {
  if (!canEdit(state, name) || Object.is(state.leaves[name], value)) return state;
  const { undo, redo } = drag && state.dragged === name ? state : remembered(state);
  return { ...rerun(state, { ...state.leaves, [name]: value }), undo, redo, dragged: drag ? name : null };
}

/** The same circuit at other leaves: with Live at the same step, else what depends on them is stale. */
function rerun(state: Session, leaves: Leaves): Session {
  // A server has to run it; until it answers the old run stands there.
  if (!canRun(state.source)) return { ...state, leaves, trouble: "" };
  return withRun(state, leaves, runOf(state.source, state.circuit, leaves));
}

function withRun(state: Session, leaves: Leaves, { run, line }: { run: Run; line: Timeline }): Session {
  if (state.options.live) {
    return { ...state, leaves, run, line, at: positionOf(line, positionCode(state.line, state.at)), before: null };
  }
  return { ...state, leaves, run, line, at: 0, before: shown(state) };
}

/** What the server computed, unless the leaves have moved on since it was asked. */
function arrived(state: Session, leaves: Leaves, run: Run): Session {
  return leaves === state.leaves ? withRun(state, leaves, played(run)) : state;
}

function again(state: Session): Session {
  const old = state.carried ?? state.run.values.map(() => null);
  const inputs = state.circuit.nodes.map(({ op }, node) => (op === "input" ? state.run.grads[node]! : null));
  const carried = state.options.accumulate ? inputs.map((grad, node) => sum(old[node]!, grad)) : null;
  return { ...state, at: forwardEnd(state.line), carried, before: null };
}

function selected(state: Session, selection: Selection | null): Session {
  if (sameSelection(selection, state.selection)) return state;
  const trail = state.selection ? [...state.trail.slice(-19), state.selection] : state.trail;
  return { ...state, selection, trail: selection ? trail : [] };
}

/** Select a node that a phase spoilt, at the earliest where the phase has come to it: else there is nothing to see. */
function visited(state: Session, node: number, phase: string): Session {
  const stage = state.line.stages.filter((found) => found.node === node && found.phase === phase).at(-1);
  return selected(at(state, Math.max(state.at, stage?.last ?? 0)), { kind: "node", node });
}

function withOptions(state: Session, change: Partial<Options>): Session {
  const options = { ...state.options, ...change };
  const carried = options.accumulate ? state.carried : null;
  if (options.split === state.options.split) {
    const caughtUp = options.live ? null : state.before;
    return { ...state, options, carried, before: caughtUp };
  }
  const { undo, redo, pinned, opened, draft, mistake, given } = state;
  const made = begin(state.source, state.leaves, options);
  const phase = phaseAt(state.line, state.at);
  const position = phase === "done" ? made.line.length : phase === "idle" ? 0 : forwardEnd(made.line);
  return { ...made, at: position, undo, redo, pinned, opened, draft, mistake, given };
}

function restored(state: Session, from: "undo" | "redo", onto: "undo" | "redo"): Session {
  const last = state[from].at(-1);
  if (!last) return state;
  const stacks = { [from]: state[from].slice(0, -1), [onto]: [...state[onto], edits(state)] };
  if (last.source !== state.source) {
    return { ...begin(last.source, last.leaves, state.options), ...last, undo: state.undo, redo: state.redo, ...stacks };
  }
  const kept = last.leaves === state.leaves ? state : rerun(state, last.leaves);
  return { ...kept, ...last, ...stacks };
}

/** The positions at which steps of a size end. */
export function stopsOf(state: Session, size: StepSize): number[] {
  return stops(state.run, state.line, size, nodeOf(state.selection));
}

/** The run as the circuit shows it at this position, with what is known of it. */
export function shown(state: Session): Shown {
  const now = { run: state.run, known: knownAt(state.run, state.line, state.at) };
  const added = state.carried ? withCarried(now, state.carried) : now;
  return state.before ? withStale(added, state.before) : added;
}

/** The leaves on one line: a = 2, b = -3. */
export function leavesText(leaves: Leaves): string {
  return Object.entries(leaves).map(([name, value]) => `${name} = ${number(value)}`).join(", ");
}
