/**
 * The state of the page in its address: `#v=1&p=neuron&x=a:2,b:-3&s=b4&sel=w:f.0&d=lr&m=signed`. Formulas and presets
 * only, never data from Python. Kept true: reading what was written gives the same picture; what cannot be read is
 * passed over, and nothing in an address can do more than choose what is shown.
 */
import { FormulaMistake } from "../engine";
import { presetOf } from "./presets";
import { selectionCode, selectionOf } from "./selection";
import { fromFormula, mistakeOf, OPTIONS, type Leaves, type Options, type Session } from "./session";
import { positionCode, positionOf } from "./timeline";

export const LONGEST = 2000;

/** The address of a state, from `#`; null where it would be too long or the circuit came from Python. */
export function hashOf(state: Session): string | null {
  if (state.source.kind !== "formula") return null;
  const preset = state.source.preset ? presetOf(state.source.preset) : undefined;
  const parts: [string, string][] = [["v", "1"]];
  parts.push(preset ? ["p", preset.key] : ["f", state.source.text]);
  const changed = Object.entries(state.leaves).filter(([name, value]) => !Object.is(preset?.leaves[name], value));
  if (changed.length) parts.push(["x", changed.map(([name, value]) => `${name}:${writtenNumber(value)}`).join(",")]);
  if (state.at) parts.push(["s", positionCode(state.line, state.at)]);
  if (state.selection) parts.push(["sel", selectionCode(state.circuit, state.selection)]);
  const { direction, mode, split } = state.options;
  if (direction !== OPTIONS.direction) parts.push(["d", direction]);
  if (mode !== OPTIONS.mode) parts.push(["m", mode]);
  if (split) parts.push(["k", "1"]);
  const hash = `#${parts.map(([key, value]) => `${key}=${encoded(value)}`).join("&")}`;
  return hash.length <= LONGEST ? hash : null;
}

/** The state that an address asks for; null where it asks for nothing that can be shown. */
export function stateOf(hash: string, options: Options = OPTIONS): Session | null {
  const parts = readParts(hash);
  if (!parts || parts.get("v") !== "1" || hash.length > LONGEST) return null;
  const preset = presetOf(parts.get("p") ?? "");
  const formula = preset?.formula ?? parts.get("f");
  if (formula === undefined) return null;
  const leaves = { ...preset?.leaves, ...leavesOf(parts.get("x") ?? "") };
  const made = attempt(() => fromFormula(formula, leaves, optionsOf(parts, options), preset?.key ?? null));
  if (!made) return null;
  const given = preset ? { ...made.given, ...preset.leaves } : made.given;
  return {
    ...made,
    given,
    at: positionOf(made.line, parts.get("s") ?? "i"),
    selection: selectionOf(made.circuit, parts.get("sel") ?? ""),
  };
}

/** Why an address asks for nothing that can be shown; empty where it does, or where it asks for nothing at all. */
export function faultOf(hash: string): string {
  const parts = readParts(hash);
  if (!parts) return "it is damaged";
  if (hash.length < 2 || stateOf(hash)) return "";
  if (hash.length > LONGEST) return "it is too long";
  if (parts.get("v") !== "1") return parts.has("v") ? "it was written by another version" : "it is not a link of this page";
  if (parts.has("p") && !presetOf(parts.get("p")!)) return `there is no example called ${parts.get("p")!.slice(0, 40)}`;
  return mistakeOf(parts.get("f") ?? "")!.message;
}

function attempt(make: () => Session): Session | null {
  try {
    return make();
  } catch (error) {
    if (error instanceof FormulaMistake) return null;
    throw error;
  }
}

/** Colons, commas and slashes may stand in a hash as they are, and read better so. */
function encoded(text: string): string {
  return encodeURIComponent(text).replace(/%(3A|2C|2F|3D|3B|20)/g, (code, hex: string) => PLAIN[hex] ?? code);
}

const PLAIN: Record<string, string> = { "3A": ":", "2C": ",", "2F": "/", "3D": "=", "3B": ";", "20": "+" };

function readParts(hash: string): Map<string, string> | null {
  try {
    const pairs = hash.replace(/^#/, "").split("&").filter(Boolean);
    return new Map(pairs.map((pair): [string, string] => {
      const equals = pair.indexOf("=");
      return [pair.slice(0, equals), decodeURIComponent(pair.slice(equals + 1).replaceAll("+", " "))];
    }));
  } catch (error) {
    if (error instanceof URIError) return null;
    throw error;
  }
}

function writtenNumber(value: number): string {
  return Object.is(value, -0) ? "-0" : String(value);
}

function leavesOf(text: string): Leaves {
  const pairs = text.split(",").map((part) => part.split(":"));
  const good = pairs.filter(([name, value]) => name && value !== undefined && NUMBER.test(value));
  return Object.fromEntries(good.map(([name, value]) => [name!, Number(value)]));
}

const NUMBER = /^(NaN|-?(Infinity|\d+(\.\d*)?(e[+-]?\d+)?))$/;

function optionsOf(parts: Map<string, string>, options: Options): Options {
  const mode = (["signed", "magnitude", "product"] as const).find((known) => known === parts.get("m"));
  const direction = (["lr", "td"] as const).find((known) => known === parts.get("d")) ?? options.direction;
  return { ...options, direction, mode: mode ?? OPTIONS.mode, split: parts.get("k") === "1" };
}
