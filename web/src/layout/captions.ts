/** What a box says of its op: the name or sign, and the constants inside it; a dot stands for a wire. */
import { opOf } from "../engine/table";
import type { CircuitNode } from "../types";

const WIRE = "\u00b7";

/** Write an op; `inside` has a text for every input that is written in it, and none for wires. */
export function caption(node: CircuitNode, inside: readonly string[]): string {
  if (node.caption !== undefined) return node.caption;
  const { infix = [], prefix = "" } = opOf(node.op) ?? {};
  const [sign] = infix;
  if (!inside.some(Boolean)) return sign ?? (prefix || node.op);
  const operands = inside.map((text) => text || WIRE);
  if (sign !== undefined && operands.length === 2) return operands.join(` ${sign} `);
  return prefix ? `${prefix}${operands[0] ?? ""}` : `${node.op}(${operands.join(", ")})`;
}

/** The name of an input of an op, as the table has it. */
export function inputName(node: CircuitNode, slot: number): string {
  return opOf(node.op)?.inputs[slot] ?? "";
}
