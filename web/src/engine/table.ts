/**
 * Looking things up in the op table: by name, by spelling, and what a node of an op computes.
 */
import type { CircuitNode, Scalar } from "../types";
import { HINT, LIBRARY_OPS, OPS, type Local, type OpRecord } from "./ops.generated";

const byName = new Map<string, OpRecord>([
  ...OPS.map((op) => [op.name, op] as const),
  ...OPS.flatMap((op) => op.aliases.map((alias) => [alias, op] as const)),
]);
const byInfix = new Map(OPS.flatMap((op) => op.infix.map((text) => [text, op] as const)));
const byPrefix = new Map(OPS.filter((op) => op.prefix).map((op) => [op.prefix, op] as const));

/** The ops a formula can call, other names behind all first ones. */
export const callable: readonly string[] = [
  ...OPS.map((op) => op.name),
  ...Object.keys(LIBRARY_OPS),
  ...OPS.flatMap((op) => op.aliases),
];

/** Every operator, the longest first. */
export const signs: readonly string[] = [...new Set([...byInfix.keys(), ...byPrefix.keys()])].sort(
  (one, two) => two.length - one.length,
);

/** The library that computes the op of a name; undefined for all other names. */
export function libraryOf(name: string): string | undefined {
  return Object.hasOwn(LIBRARY_OPS, name) ? LIBRARY_OPS[name] : undefined;
}

/** The record of a name; undefined for inputs, constants, ops on arrays and ops that a library computes. */
export function opOf(name: string): OpRecord | undefined {
  return byName.get(name);
}

/** The op that stands between two operands as this sign. */
export function infixOf(sign: string): OpRecord | undefined {
  return byInfix.get(sign);
}

/** The op that stands before an operand as this sign. */
export function prefixOf(sign: string): OpRecord | undefined {
  return byPrefix.get(sign);
}

/** What an op makes of types, or why it cannot take them. */
export function typeOf(op: OpRecord, types: readonly string[]): { type: string } | { message: string } {
  const given = types.reduce((bits, type) => 2 * bits + Number(type === "bool"), 0);
  const gives = op.gives[given];
  if (gives === "f" || gives === "b") return { type: gives === "f" ? "float64" : "bool" };
  return { message: `${op.name} cannot take ${types.join(", ")}${gives === "!" ? HINT : ""}` };
}

/** Whether a gradient can flow along a wire of a type. */
export function isNumber(type: string): boolean {
  return type.startsWith("float") || type.startsWith("complex");
}

/** Compute a node's value from those of its sources. */
export function compute(op: OpRecord, type: string, inputs: readonly Scalar[]): Scalar {
  const value = (op.forward as (...xs: Scalar[]) => Scalar)(...fitted(op, inputs));
  return type === "bool" ? Boolean(value) : Number(value);
}

/** The local derivative of a node for one input; null is absent. */
export function localOf(op: OpRecord, mode: number, slot: number, inputs: readonly Scalar[], y: Scalar): number | null {
  const rule = op.rules[(op.modes[mode] ?? op.modes[0]!)[slot]!];
  return rule ? (rule as Called)(...fitted(op, inputs), Number(y)) : null;
}

type Called = (...operands: Scalar[]) => ReturnType<Local>;

/** Which kinks of a node's op its inputs are exactly on. */
export function kinksAt(op: OpRecord, inputs: readonly Scalar[]): { doc: string; jump: boolean }[] {
  const given = fitted(op, inputs);
  return op.kinks.filter((kink) => (kink.on as (...xs: Scalar[]) => boolean)(...given));
}

/** Conditions where the op wants conditions, numbers elsewhere. */
function fitted(op: OpRecord, inputs: readonly Scalar[]): Scalar[] {
  return inputs.map((x, slot) => (op.takesBool[slot] ? (typeof x === "boolean" ? x : x !== 0) : Number(x)));
}

/** By how tightly it binds, what the outermost operator of an expression looks like. */
const BINDING: readonly (readonly [number, RegExp])[] = [
  [0, /\b(?:if|else|and|or|not|in|is|lambda|for)\b|[<>=!]=?|:=|,/],
  [1, /[|^&]|<<|>>/],
  [2, /(?<=[\p{L}\p{N}_)\]}.\u2026])\s*[+-]/u],
  [3, /(?<!\*)\*(?!\*)|\/|%|@/],
  [4, /^[-+~]/],
  [5, /\*\*/],
];
const ATOM = 9;

/** How tightly the outermost operator of an expression binds; 9 if it has none. */
function bindingOf(text: string): number {
  let [flat, before] = [text.replace(/(?<=[\d.])e[+-]\d+/g, ""), ""];
  while (flat !== before) [flat, before] = [flat.replace(/\([^()[\]{}]*\)|\[[^()[\]{}]*\]/g, "_"), flat];
  return BINDING.find(([, pattern]) => pattern.test(flat.trim()))?.[0] ?? ATOM;
}

/** Write an op applied to operands as a person would, with parentheses where they are needed. */
export function expression(name: string, operands: readonly string[]): string {
  const op = opOf(name);
  const inside = (text: string, least: number): string => (bindingOf(text) < least ? `(${text})` : text);
  if (op?.infix[0] && operands.length === 2) {
    const level = bindingOf(`a ${op.infix[0]} b`);
    const [one, two] = [inside(operands[0]!, level + Number(level === 5)), inside(operands[1]!, level + 1)];
    return `${one} ${op.infix[0]} ${two}`;
  }
  return op?.prefix ? `${op.prefix}${inside(operands[0]!, 4)}` : `${op?.name ?? name}(${operands.join(", ")})`;
}

/** Whether a node copies one wire to two. */
export function isSplitter(node: CircuitNode): boolean {
  return opOf(node.op)?.pattern === "merge";
}
