/** The groups of a circuit: which there are, which a picture shows open, and opening and closing them. */
import type { Picture } from "../layout";
import type { Session } from "../state/session";
import type { Circuit } from "../types";

/** The groups of a circuit in order, with those around them. */
export function groupsOf(circuit: Circuit): string[] {
  const found = new Set<string>();
  for (const path of new Set(circuit.nodes.map(({ group }) => group))) {
    const parts = path.split("/").filter(Boolean);
    parts.forEach((_, depth) => found.add(parts.slice(0, depth + 1).join("/")));
  }
  return [...found];
}

/** Whether a group is another one or stands in it. */
export function isWithin(path: string, around: string): boolean {
  return path === around || path.startsWith(`${around}/`);
}

/** The groups that a picture shows open: all but those drawn as one box, and what stands in them. */
export function openGroups({ circuit, opened }: Session, drawn: Picture): readonly string[] {
  if (opened) return opened;
  const closed = new Set(drawn.boxes.flatMap(({ kind, path }) => (kind === "group" && path ? [path] : [])));
  return groupsOf(circuit).filter((path) => ![...closed].some((around) => isWithin(path, around)));
}

/** The groups that are open once one is opened, with those around it, or closed, with those in it. */
export function toggled(open: readonly string[], path: string): readonly string[] {
  if (open.includes(path)) return open.filter((other) => !isWithin(other, path));
  return [...open, ...path.split("/").map((_, depth, parts) => parts.slice(0, depth + 1).join("/"))].filter(
    (other, index, all) => all.indexOf(other) === index,
  );
}
