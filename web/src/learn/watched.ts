/** The step that answers a question, played as the explorer plays it: once after a right answer, slowly as the last hint. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { firingOf, type Firing } from "../state/firing";
import type { Shown } from "../state/known";
import { fromFormula, OPTIONS, reduce, shown as shownAt, type Session } from "../state/session";
import type { Stage, Timeline } from "../state/timeline";
import { useMedia } from "../ui/parts";
import { findPaths, type Question } from "./questions";
import type { QuizCircuit } from "./quiz-run";

/** Milliseconds from one position to the next: a step at its own pace, at half of it, and a look before it begins. */
const BEATS = { once: 900, slowly: 1800, before: 650 } as const;

export type Pace = "once" | "slowly";

/** What fires in the step that a question is about: the phase of each node, in any order. */
function firesIn({ kind, form, target, options }: Question, circuit: QuizCircuit): [Stage["kind"], number][] {
  const [node = -1, choice = -1] = target;
  const sends = (nodes: readonly number[]): [Stage["kind"], number][] => nodes.map((each) => ["send", each]);
  const readersOf = (each: number): number[] => circuit.readers[each]!.map(([reader]) => reader);
  if (kind === "value") return [["forward", node]];
  if (kind === "local" || kind === "send" || kind === "router") return sends([node]);
  if (kind === "gather" || kind === "leaf" || kind === "nudge") return [...sends(readersOf(node)), ["merge", node]];
  if (kind === "paths" && choice >= 0) return sends(findPaths(circuit, node)![choice]!.map(([reader]) => reader));
  if (kind === "order") {
    const next = options.find(({ right }) => right)?.target[0] ?? -1;
    return [[form === "order.forward" ? "forward" : "send", next]];
  }
  return kind === "debug" ? [["forward", node]] : [];
}

/** A position at which a played step stands still for a while. */
export interface Stop {
  at: number;
  /** Whether nothing has happened there yet. */
  isBefore: boolean;
}

/** Where a timeline shows the stages of a question: before the first, after each of them, and before one that is apart. */
export function stopsOf(question: Question, circuit: QuizCircuit, { stages }: Timeline): Stop[] {
  const fires = firesIn(question, circuit);
  const wanted = stages.filter(({ kind, node }) => fires.some(([each, at]) => each === kind && at === node));
  const found: Stop[] = [];
  for (const { first, last } of wanted) {
    if (found.at(-1)?.at !== first) found.push({ at: first, isBefore: true });
    found.push({ at: last, isBefore: false });
  }
  return found;
}

export interface Watched extends Shown {
  firing: Firing | null;
  /** Whether something is still to come. */
  isPlaying: boolean;
}

/** Play the step of a question at a pace; null where none is wanted, or the question has no step. `turn` begins anew. */
export function useWatched(question: Question, circuit: QuizCircuit, formula: string, pace: Pace | null, turn: number): Watched | null {
  const still = useMedia("(prefers-reduced-motion: reduce)");
  const begun = useMemo(() => fromFormula(formula, question.leaves, { ...OPTIONS, still }), [question, still]);
  const stops = useMemo(() => stopsOf(question, circuit, begun.line), [begun]);
  const last = Math.max(0, stops.length - 1);
  const [k, setStop] = useState(still ? last : 0);
  useEffect(() => setStop(still ? last : 0), [pace, turn, stops]);
  const isPlaying = pace !== null && k < last;
  useEffect(() => {
    if (!isPlaying) return undefined;
    const timer = setTimeout(() => setStop(k + 1), stops[k]!.isBefore ? BEATS.before : BEATS[pace]);
    return () => clearTimeout(timer);
  }, [pace, k, isPlaying, turn]);
  return useMemo(() => {
    const stop = stops[k];
    if (!pace || !stop) return null;
    const state: Session = reduce(begun, { type: "go", at: stop.at });
    return { ...shownAt(state), firing: firingOf(state), isPlaying };
  }, [pace, k, begun, isPlaying]);
}
