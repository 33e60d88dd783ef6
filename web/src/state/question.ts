/** What a circuit asks before a run and tells after it. Names stand between backticks, so that they can be set as names. */
import { nameOf } from "../engine";
import type { Circuit } from "../types";
import { presetOf, questionOf, told, type Preset } from "./presets";
import type { Session } from "./session";
import { phaseAt } from "./timeline";

/** A leaf and the output of a circuit of numbers, for a question about both; null where there is no such pair. */
function subjects(circuit: Circuit): [string, string] | null {
  const { nodes, outputs } = circuit;
  const leaf = nodes.findIndex(({ op }) => op === "input");
  const scalar = nodes.every(({ type }) => !type.includes("["));
  return leaf >= 0 && scalar && outputs.length === 1 ? [nameOf(circuit, leaf), outputs[0]!.label] : null;
}

function ownPreset({ source }: Session): Preset | undefined {
  return source.kind === "formula" ? presetOf(source.preset ?? "") : undefined;
}

/** What to ask oneself before a run: the preset's question, or how the output follows the first leaf; empty if neither. */
export function questionAbout(state: Session): string {
  const asked = subjects(state.circuit);
  return ownPreset(state)?.question ?? (asked ? questionOf(...asked) : "");
}

/** What a finished run says to the question; empty before. At other leaves a preset has nothing special to say. */
export function answerOf(state: Session): string {
  if (phaseAt(state.line, state.at) !== "done" || state.before || state.carried) return "";
  const preset = ownPreset(state);
  const changed = Object.entries(preset?.leaves ?? {}).some(([name, value]) => !Object.is(state.leaves[name], value));
  if (preset && !changed) return preset.answer(told(state.run));
  const asked = subjects(state.circuit);
  return asked ? `\`${asked[1]}\` ${told(state.run).move(asked[0])}` : "";
}
