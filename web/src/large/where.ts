/** Which part of a large circuit is on show, how deeper parts are reached, and what is selected in it. Pure. */
import type { ToldView } from "./answers";

/** A group (empty: all of them), and which of its nodes, as `3-9,12-12`; empty: all of them. */
export interface Where {
  group: string;
  nodes: string;
}

/** A box that is a group, a wire bundle, one node or one wire; nodes are counted in the whole circuit. */
export type Picked =
  | { kind: "box"; box: number }
  | { kind: "bundle"; link: number }
  | { kind: "node"; node: number }
  | { kind: "wire"; reader: number; slot: number };

export const WHOLE: Where = { group: "", nodes: "" };
/** How many nodes are shown on each side of one that is gone to. */
const AROUND = 12;

/** The question for the picture of a part. */
export function viewPath({ group, nodes }: Where, down: boolean): string {
  return `/view?${new URLSearchParams({ group, nodes, ...(down ? { down: "1" } : {}) }).toString()}`;
}

/** The nodes about a node, in the order in which they were made. */
export function around(node: number, size: number): Where {
  return { group: "", nodes: `${Math.max(0, node - AROUND)}-${Math.min(size - 1, node + AROUND)}` };
}

/** The way from the whole circuit to a part. */
export function crumbs({ group, nodes }: Where): { text: string; where: Where }[] {
  const parts = group.split("/").filter(Boolean);
  const groups = parts.map((text, k) => ({ text, where: { group: parts.slice(0, k + 1).join("/"), nodes: "" } }));
  const rest = nodes ? [{ text: nodes.replace(/^(\d+).*-/, "nodes $1 to "), where: { group, nodes } }] : [];
  return [{ text: "whole circuit", where: WHOLE }, ...groups, ...rest];
}

/** What a box of a picture stands for. */
export function pickedBox(view: ToldView, box: number): Picked | null {
  const found = view.boxes[box];
  if (!found) return null;
  return found.kind === "group" ? { kind: "box", box } : { kind: "node", node: found.node };
}

/** What a wire of a picture stands for. */
export function pickedLink(view: ToldView, link: number): Picked | null {
  const found = view.links[link];
  if (!found) return null;
  return found.wires > 1 ? { kind: "bundle", link } : { kind: "wire", reader: found.reader, slot: found.slot };
}

/** The node that a card is about: of a wire, the one that reads it. */
export function nodeOfPicked(picked: Picked | null): number | null {
  return picked?.kind === "node" ? picked.node : picked?.kind === "wire" ? picked.reader : null;
}

/** Which groups of an outline stand directly in another; empty is the whole circuit. */
export function isChild(path: string, of: string): boolean {
  return path.startsWith(of ? `${of}/` : "") && !path.slice(of ? of.length + 1 : 0).includes("/");
}
