/** What the keys do. */
import { firstNonFinite } from "../engine/questions";
import { firstNode, nodeOf, type Selection } from "../state/selection";
import { blameOf, type Action, type Session } from "../state/session";
import type { Now } from "./commands";
import { results } from "./find";
import { toggled } from "./groups";
import { commandOf, type Command } from "./keys";
import { nextWire, sibling, towardsReader, towardsSource } from "./walk";

/** Do what a key asks for, unless it means something to the control it was pressed in. */
export function answerKey(event: KeyboardEvent, now: Now): void {
  if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
  const control = event.ctrlKey || event.metaKey;
  const press = { key: event.key, control, shift: event.shiftKey, alt: event.altKey };
  const command = commandOf(press, now.inside, now.state.options.letters);
  if (!command || belongsTo(event.target, event.key)) return;
  event.preventDefault();
  carryOut(command, now);
}

/** Whether a key means something to the control it was pressed in. */
function belongsTo(target: EventTarget | null, key: string): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.matches("input[type=checkbox], button, summary, a")) return key === " " || key === "Enter";
  if (target.matches("input[type=range]")) return key.startsWith("Arrow") || key === "Home" || key === "End";
  if (target.matches("input, textarea")) return key !== "Escape";
  return target.matches("select") && key !== "Escape" && key !== "0";
}

function carryOut(command: Command, now: Now): void {
  const { dispatch } = now;
  const [kind, size] = command.split("-") as [string, Session["options"]["size"]];
  if (kind === "size") return dispatch({ type: "option", change: { size } });
  const plain: Partial<Record<Command, Action>> = {
    step: { type: "step", by: 1 },
    back: { type: "step", by: -1 },
    start: { type: "to", where: "start" },
    end: { type: "to", where: "end" },
    forward: { type: "to", where: "forward" },
    backward: { type: "to", where: "end" },
    reset: { type: "reset" },
    undo: { type: "undo" },
    redo: { type: "redo" },
  };
  const action = plain[command];
  if (action) return dispatch(action);
  if (walks(command)) return walk(command, now);
  open(command, now);
  if (command === "non-finite") visit(now);
  if (command === "next-result") select(dispatch, result(now, 1));
  if (command === "previous-result") select(dispatch, result(now, -1));
}

const WALKS = ["reader", "source", "above", "below", "next-wire"] as const;

function walks(command: Command): command is (typeof WALKS)[number] {
  return (WALKS as readonly Command[]).includes(command);
}

function select(dispatch: (action: Action) => void, selection: Selection | null): void {
  if (selection) dispatch({ type: "select", selection });
}

function walk(command: (typeof WALKS)[number], { state, dispatch, anchor }: Now): void {
  const { circuit, selection: from } = state;
  if (!from) return select(dispatch, firstNode(circuit));
  if (from.kind === "node") anchor.current = from.node;
  const round = circuit.nodes[anchor.current] ? anchor.current : (nodeOf(from) ?? 0);
  const next = {
    reader: () => towardsReader(circuit, from),
    source: () => towardsSource(circuit, from),
    above: () => sibling(state.line.ranks, from, -1),
    below: () => sibling(state.line.ranks, from, 1),
    "next-wire": () => nextWire(circuit, round, from),
  }[command]();
  select(dispatch, next);
}

const ZOOMS = { fit: "0", "zoom-in": "+", "zoom-out": "-" };

/** Commands that open or close something on the page. */
function open(command: Command, now: Now): void {
  const { root } = now;
  const focus = (...selectors: string[]): void => {
    const seek = (selector: string) => root.current?.querySelector<HTMLElement>(selector);
    setTimeout(() => selectors.map(seek).find(Boolean)?.focus());
  };
  const key = ZOOMS[command as keyof typeof ZOOMS];
  // The circuit keeps its view to itself, and answers to these keys.
  if (key) root.current?.querySelector(".circuit")?.dispatchEvent(new KeyboardEvent("keydown", { key }));
  if (command === "play") now.onPlay();
  if (command === "help") now.onHelp();
  if (command === "why") now.onWhy();
  if (command === "table") {
    now.onTab("table");
    focus("[data-tab=table]");
  }
  if (command === "find") {
    now.onTab("find");
    focus(".find input");
  }
  if (command === "edit") {
    if (!root.current?.querySelector(".inspector input.number")) now.onLeaves();
    focus(".inspector input.number", ".leaves input.number");
  }
  if (command === "leave") leave(now);
  if (command === "open") toggleGroup(now);
}

function leave({ state, dispatch, inside, setInside, onClose }: Now): void {
  if (inside) setInside(false);
  else if (document.activeElement && onClose(document.activeElement)) return;
  else if (state.selection) dispatch({ type: "select", selection: null });
  else if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
}

function toggleGroup({ state, dispatch, groups }: Now): void {
  const { selection } = state;
  const node = nodeOf(selection);
  const path = selection?.kind === "group" ? selection.path : node === null ? "" : state.circuit.nodes[node]!.group;
  if (path) dispatch({ type: "open", opened: toggled(groups, path) });
}

/** Go to the op that first made something non-finite, forward or else backward; of arrays Python knows more. */
function visit({ state, dispatch }: Now): void {
  const found = firstNonFinite(state.run);
  const first = blameOf(state)?.origins[0] ?? found.forward ?? found.backward;
  if (first) dispatch({ type: "visit", node: first.node, phase: first.phase });
}

function result({ state, query }: Now, by: 1 | -1): Selection | null {
  const found = results(state, query).found;
  if (!found.length) return null;
  const index = found.indexOf(nodeOf(state.selection) ?? -1);
  return { kind: "node", node: found[(index + by + found.length) % found.length]! };
}
