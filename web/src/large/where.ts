/** Which part of a large circuit is on show, how deeper parts are reached, and what is selected in it. Pure. */
import type { ToldView } from "./answers";

/** A group (empty: all of them), and of its nodes those from `first` to `last`, if they are not all. */
export interface Where {
  group: string;
  range: readonly [first: number, last: number] | null;
}

/** A box that is a group, a wire bundle, one node or one wire; nodes are counted in the whole circuit. */
export type Picked =
  | { kind: "box"; box: number }
  | { kind: "bundle"; link: number }
  | { kind: "node"; node: number }
  | { kind: "wire"; reader: number; slot: number };

export const WHOLE: Where = { group: "", range: null };
/** How many nodes are shown on each side of one that is gone to. */
const AROUND = 12;

/** The question for the picture of a part. */
export function viewPath({ group, range }: Where, down: boolean): string {
  const query = new URLSearchParams();
  if (group) query.set("group", group);
  if (range) {
    query.set("first", String(range[0]));
    query.set("last", String(range[1]));
  }
  if (down) query.set("down", "1");
  return `/view?${query.toString()}`;
}

/** The nodes about a node, in the order in which they were made. */
export function around(node: number, size: number): Where {
  return { group: "", range: [Math.max(0, node - AROUND), Math.min(size - 1, node + AROUND)] };
}

/** The way from the whole circuit to a part. */
export function crumbs({ group, range }: Where): { text: string; where: Where }[] {
  const parts = group.split("/").filter(Boolean);
  const groups = parts.map((text, k) => ({ text, where: { group: parts.slice(0, k + 1).join("/"), range: null } }));
  const rest = range ? [{ text: `%${range[0]} to %${range[1]}`, where: { group, range } }] : [];
  return [{ text: "whole circuit", where: WHOLE }, ...groups, ...rest];
}

/** What is inside a box: a group of its own, or a run of nodes; null where it stands for one node. */
export function insideOf(view: ToldView, box: number, here: Where, size: number): Where | null {
  const found = view.boxes[box];
  if (found?.kind !== "group") return null;
  const last = here.range?.[1] ?? size - 1;
  if (found.text.endsWith("inputs")) return { group: "", range: [found.node, Math.min(last, found.node + found.nodes - 1)] };
  const path = /^(.*) \(\d+ of \d+\)$/.exec(found.label)?.[1];
  if (path === undefined && !found.label.includes(" to ")) return { group: found.label, range: null };
  return { group: path ?? here.group, range: [found.node, nextOf(view, found.node, last + 1) - 1] };
}

/** The first node of the next box that stands for a run of nodes. */
function nextOf(view: ToldView, node: number, end: number): number {
  const runs = view.boxes.filter(({ kind, text, node: first }) => kind !== "input" && !text.endsWith("inputs") && first > node);
  return runs.reduce((least, { node: first }) => Math.min(least, first), end);
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
