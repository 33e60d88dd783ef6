/** The keyboard: one table gives the shortcuts and the list of them in the help. */

export type Command =
  | "step" | "back" | "play" | "start" | "end" | "forward" | "backward" | "reset"
  | "size-wire" | "size-node" | "size-rank" | "size-group"
  | "reader" | "source" | "above" | "below" | "edit" | "next-wire" | "open" | "leave"
  | "non-finite" | "find" | "next-result" | "previous-result" | "why" | "table"
  | "undo" | "redo" | "help" | "fit" | "zoom-in" | "zoom-out";

interface Shortcut {
  /** As `KeyboardEvent.key` has it; a letter in lower case. */
  key: string;
  command: Command;
  does: string;
  /** Works only inside the circuit, or only outside it. */
  where?: "inside" | "outside";
  control?: boolean;
  shift?: boolean;
}

export const SHORTCUTS: readonly Shortcut[] = [
  { key: "ArrowRight", command: "step", does: "Step forward", where: "outside" },
  { key: "ArrowLeft", command: "back", does: "Step back", where: "outside" },
  { key: " ", command: "play", does: "Play or pause" },
  { key: "Home", command: "start", does: "Go to the start" },
  { key: "End", command: "end", does: "Go to the end" },
  { key: "f", command: "forward", does: "Run forward" },
  { key: "b", command: "backward", does: "Run backward" },
  { key: "r", command: "reset", does: "Reset" },
  { key: "1", command: "size-wire", does: "Step by wire" },
  { key: "2", command: "size-node", does: "Step by node" },
  { key: "3", command: "size-rank", does: "Step by rank" },
  { key: "4", command: "size-group", does: "Step by group" },
  { key: "ArrowRight", command: "reader", does: "Follow the output wire", where: "inside" },
  { key: "l", command: "reader", does: "Follow the output wire" },
  { key: "ArrowLeft", command: "source", does: "Follow the input wire", where: "inside" },
  { key: "h", command: "source", does: "Follow the input wire" },
  { key: "ArrowUp", command: "above", does: "Previous node of the same rank", where: "inside" },
  { key: "ArrowDown", command: "below", does: "Next node of the same rank", where: "inside" },
  { key: "w", command: "next-wire", does: "Next wire of the node" },
  { key: "e", command: "edit", does: "Edit the leaf" },
  { key: "o", command: "open", does: "Open or close the group" },
  { key: "Escape", command: "leave", does: "Leave the circuit, or close the card or drawer" },
  { key: "g", command: "non-finite", does: "Go to the first NaN or infinity" },
  { key: "/", command: "find", does: "Find" },
  { key: "n", command: "next-result", does: "Next result" },
  { key: "p", command: "previous-result", does: "Previous result" },
  { key: "y", command: "why", does: "Why this gradient?" },
  { key: "t", command: "table", does: "Table" },
  { key: "z", command: "undo", does: "Undo", control: true },
  { key: "z", command: "redo", does: "Redo", control: true, shift: true },
  { key: "0", command: "fit", does: "Show the whole circuit" },
  { key: "+", command: "zoom-in", does: "Zoom in" },
  { key: "=", command: "zoom-in", does: "Zoom in" },
  { key: "-", command: "zoom-out", does: "Zoom out" },
  { key: "?", command: "help", does: "This list" },
];

/** Keys that the controls themselves answer to. */
export const OTHER_KEYS: readonly (readonly [string, string])[] = [
  ["Enter", "Enter the circuit (arrow keys then follow wires)"],
];

/** What is pressed, as far as shortcuts are concerned. */
export interface Press {
  key: string;
  control: boolean;
  shift: boolean;
  alt: boolean;
}

/** The command of a press; null where there is none. */
export function commandOf(press: Press, inside: boolean, letters: boolean): Command | null {
  const key = press.key.length === 1 ? press.key.toLowerCase() : press.key;
  if (press.alt) return null;
  if (key.length === 1 && key !== " " && !press.control && !letters) return null;
  const found = SHORTCUTS.find(
    (shortcut) =>
      shortcut.key === key &&
      (shortcut.control ?? false) === press.control &&
      (!shortcut.control || (shortcut.shift ?? false) === press.shift) &&
      (shortcut.where === undefined || (shortcut.where === "inside") === inside),
  );
  return found?.command ?? null;
}

/** A shortcut as it is written on keys. */
export function keysText({ key, control, shift }: Shortcut): string {
  const named: Record<string, string> = {
    ArrowRight: "→", ArrowLeft: "←", ArrowUp: "↑", ArrowDown: "↓", " ": "Space", Escape: "Esc",
  };
  return [control && "Ctrl", shift && "Shift", named[key] ?? (key.length === 1 ? key.toUpperCase() : key)].filter(Boolean).join(" + ");
}
