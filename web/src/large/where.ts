/** What is open on the board of a large circuit, how it opens and closes, and what is selected. Pure. */
import type { Board, BoardBox, Where } from "./answers";

/** A box that is a group, a bundle of wires, one node or one wire; nodes are counted in the whole circuit. */
export type Picked =
  | { kind: "box"; title: string }
  | { kind: "bundle"; from: string; to: string }
  | { kind: "node"; node: number }
  | { kind: "wire"; reader: number; slot: number };

/** The question for a board. */
export function boardPath({ opened, focus }: Where): string {
  const query = new URLSearchParams([...opened.map((one) => ["opened", one]), ...focus.map((one) => ["focus", one])]);
  return `/board?${query.toString()}`;
}

/** Whether a box can be opened. */
export function opens({ kind, open }: BoardBox): boolean {
  return (kind === "group" && !open) || kind === "range";
}

/** What is open after a box was opened. */
export function openBox({ opened, focus }: Where, box: BoardBox): Where {
  if (box.kind === "range") return { opened, focus: [...without(focus, box.stretch!), `${box.stretch}:${box.first}-${box.last}`] };
  return { opened: [...opened.filter((one) => one !== box.path), box.path!], focus };
}

/** What is open after a group was closed, with all that is in it; the neighbours of a step of a loop are shown again. */
export function closeBox({ opened, focus }: Where, { path = "" }: BoardBox): Where {
  const outer = path.slice(0, Math.max(0, path.lastIndexOf("/")));
  const isInside = (one: string): boolean => one === path || one.startsWith(`${path}/`);
  const kept = focus.filter((one) => !isInside(one.slice(0, one.indexOf("|"))) && !isSingle(one, outer));
  return { opened: opened.filter((one) => !isInside(one)), focus: kept };
}

function isSingle(focus: string, path: string): boolean {
  const [first, last] = focus.slice(focus.lastIndexOf(":") + 1).split("-");
  return focus.slice(0, focus.indexOf("|")) === path && first === last;
}

function without(focus: readonly string[], stretch: string): string[] {
  return focus.filter((one) => one.slice(0, one.lastIndexOf(":")) !== stretch);
}

/** What a box stands for. */
export function pickedBox({ kind, node, title }: BoardBox): Picked {
  return kind === "node" || kind === "input" ? { kind: "node", node: node! } : { kind: "box", title };
}

/** What a link stands for. */
export function pickedLink({ boxes, links }: Board, link: number): Picked {
  const { from, to, wires, reader, slot } = links[link]!;
  return wires > 1 ? { kind: "bundle", from: boxes[from]!.title, to: boxes[to]!.title } : { kind: "wire", reader, slot };
}

/** Whether two things are the same. */
export function isSame(one: Picked | null, two: Picked | null): boolean {
  return JSON.stringify(one) === JSON.stringify(two);
}

/** The node that a card is about: of a wire, the one that reads it. */
export function nodeOfPicked(picked: Picked | null): number | null {
  return picked?.kind === "node" ? picked.node : picked?.kind === "wire" ? picked.reader : null;
}

/** Which groups of an outline stand directly in another; empty is the whole circuit. */
export function isChild(path: string, of: string): boolean {
  return path.startsWith(of ? `${of}/` : "") && !path.slice(of ? of.length + 1 : 0).includes("/");
}
