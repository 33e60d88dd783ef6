/**
 * Changing an input in the picture itself: drag its number sideways or scroll on it, press it twice or press Enter to
 * type, arrow keys while typing step it. The fields of the page do the same.
 */
import type { RefObject, VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { nameOf } from "../engine";
import type { Picture, PictureBox } from "../layout";
import { nodeOf, type Selection } from "../state/selection";
import { canEdit, type Action, type Session } from "../state/session";
import type { Point, Run } from "../types";
import { boxOf } from "./circuit-acts";
import type { Gestures, View } from "./circuit-gestures";
import { typedNumber } from "../engine/numbers";

/** The inputs that can be changed, and what changes them; `drag` joins changes to one. */
export interface LeafEdits {
  editable: (node: number) => boolean;
  change: (node: number, value: number, drag: boolean) => void;
}

/** Return what changes the inputs of a session. */
export function leafEdits(state: Session, dispatch: (action: Action) => void): LeafEdits {
  const { circuit } = state;
  const editable = (node: number): boolean => circuit.nodes[node]?.op === "input" && canEdit(state, nameOf(circuit, node));
  const change = (node: number, value: number, drag: boolean): void =>
    dispatch({ type: "leaf", name: nameOf(circuit, node), value, drag });
  return { editable, change };
}

/** How many pixels of dragging change a number by one of its steps. */
const PIXELS = 6;

/** A tenth, or more for numbers that are large. */
export function stepOf(value: number): number {
  const size = Math.abs(value);
  return size < 10 ? 0.1 : 10 ** (Math.floor(Math.log10(size)) - 1);
}

/** A number moved by some steps, without the noise of binary fractions. */
export function moved(value: number, steps: number, step: number): number {
  return Number((value + steps * step).toPrecision(12));
}

interface Wiring {
  picture: Picture;
  run: Run;
  leaves: LeafEdits | null;
  selection: Selection | null;
  view: View;
  frame: RefObject<HTMLElement>;
}

/** What the circuit needs so that inputs can be changed in it. */
export interface LeafEditor {
  field: VNode | null;
  /** Whether a key, or a double press on something, opened the field. */
  keyed: (event: KeyboardEvent) => boolean;
  opened: (selection: Selection | null) => boolean;
  /** Whether a press is on a number that can be changed: it opens no card, which would move the number away. */
  isOnNumber: (event: MouseEvent) => boolean;
  around: (handlers: Gestures["handlers"]) => Gestures["handlers"];
}

interface Drag {
  node: number;
  from: Point;
  value: number;
  step: number;
  /** Whether the number has moved. */
  moved: boolean;
}

/** Let inputs be changed in the picture. */
export function useLeafEditor(wiring: Wiring): LeafEditor {
  const { run, leaves, selection, frame } = wiring;
  const [node, setNode] = useState<number | null>(null);
  const drag = useRef<Drag | null>(null);
  const now = useRef(wiring);
  now.current = wiring;
  useLeafWheel(now, frame);
  const open = (found: number | null): boolean => {
    const may = found !== null && leaves?.editable(found) === true && typeof run.values[found] === "number";
    if (may) setNode(found);
    return may;
  };
  const close = (): void => {
    setNode(null);
    frame.current?.focus();
  };
  return {
    field: node === null || !leaves?.editable(node) ? null : <Field {...wiring} leaves={leaves} node={node} onClose={close} />,
    keyed: (event) => {
      const wanted = event.key === "Enter" || event.key === "e";
      if (!wanted || event.target !== frame.current || selection?.kind !== "node" || !open(selection.node)) return false;
      event.preventDefault();
      return true;
    },
    opened: (found) => found?.kind === "node" && open(nodeOf(found)),
    isOnNumber: (event) => leafAt(now.current, event) !== null,
    around: (handlers) => dragHandlers(handlers, drag, now),
  };
}

/** The place of a value on the screen, wide enough to be hit. */
function valueAt(picture: Picture, view: View, node: number): (Point & { width: number; height: number }) | null {
  const box = picture.boxes[boxOf(picture, node)];
  const slot = box?.valueSlot;
  if (!box || !slot) return null;
  const { zoom } = view;
  const [left, right] = [slot.x - 6, slot.x + slot.width + 6];
  const height = Math.max(24, (box.height / 2) * zoom);
  return { x: view.x + left * zoom, y: view.y + box.y * zoom, width: (right - left) * zoom, height };
}

/** The input whose number a pointer is on; null where there is none. */
function leafAt({ picture, leaves, view, frame, run }: Wiring, event: MouseEvent): number | null {
  const found = event.target instanceof Element ? event.target.closest("[data-box]") : null;
  const box = found && picture.boxes[Number(found.id.split("-").pop())];
  if (!box || !isNumberInput(box, run, leaves)) return null;
  const place = valueAt(picture, view, box.node);
  const { left, top } = frame.current!.getBoundingClientRect();
  const [x, y] = [event.clientX - left, event.clientY - top];
  const hit = place && x >= place.x && x <= place.x + place.width && y >= place.y && y <= place.y + place.height - 2;
  return hit ? box.node : null;
}

function isNumberInput(box: PictureBox, run: Run, leaves: LeafEdits | null): boolean {
  return box.kind === "input" && leaves?.editable(box.node) === true && typeof run.values[box.node] === "number";
}

type Handlers = Gestures["handlers"];

/** Handlers that drag a number where there is one, and the picture elsewhere. */
function dragHandlers(handlers: Handlers, drag: { current: Drag | null }, now: { current: Wiring }): Handlers {
  const end = (event: PointerEvent): void => {
    drag.current = null;
    handlers.onPointerUp(event);
  };
  return {
    onPointerDown: (event) => {
      const node = event.button === 0 ? leafAt(now.current, event) : null;
      if (node === null) return handlers.onPointerDown(event);
      const value = Number(now.current.run.values[node]);
      drag.current = { node, from: { x: event.clientX, y: event.clientY }, value, step: stepOf(value), moved: false };
    },
    onPointerMove: (event) => {
      const held = drag.current;
      if (!held) return handlers.onPointerMove(event);
      const steps = Math.trunc((event.clientX - held.from.x) / PIXELS);
      if (!steps && !held.moved) return undefined;
      (event.currentTarget as Element).setPointerCapture(event.pointerId);
      held.moved = true;
      return now.current.leaves?.change(held.node, moved(held.value, steps, held.step), true);
    },
    onPointerUp: end,
    onPointerCancel: end,
  };
}

/** Scrolling on a number steps it. */
function useLeafWheel(now: { current: Wiring }, frame: RefObject<HTMLElement>): void {
  useEffect(() => {
    const element = frame.current;
    const listen = (event: WheelEvent): void => {
      const node = event.ctrlKey || event.metaKey ? null : leafAt(now.current, event);
      if (node === null) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      const value = Number(now.current.run.values[node]);
      now.current.leaves?.change(node, moved(value, event.deltaY < 0 ? 1 : -1, stepOf(value)), true);
    };
    element?.addEventListener("wheel", listen, { passive: false, capture: true });
    return () => element?.removeEventListener("wheel", listen, { capture: true });
  }, []);
}

/** The field over a number in the picture; what is typed takes effect while it is a number. */
function Field({ picture, run, view, leaves, node, onClose }: Wiring & { leaves: LeafEdits; node: number; onClose: () => void }) {
  const input = useRef<HTMLInputElement>(null);
  const value = Number(run.values[node]);
  const [draft, setDraft] = useState(String(value));
  useEffect(() => input.current?.select(), [node]);
  const place = valueAt(picture, view, node);
  if (!place) return null;
  const take = (text: string, next: number | null): void => {
    setDraft(text);
    if (next !== null) leaves.change(node, next, false);
  };
  const press = (event: KeyboardEvent): void => {
    event.stopPropagation();
    if (event.key === "Enter" || event.key === "Escape") return onClose();
    const by = event.key === "ArrowUp" ? 1 : event.key === "ArrowDown" ? -1 : 0;
    if (!by) return undefined;
    event.preventDefault();
    const next = moved(value, by, stepOf(value));
    return take(String(next), next);
  };
  const width = Math.max(96, place.width + 12);
  return (
    <input ref={input} class="leaf-field number" type="text" inputMode="decimal" autoComplete="off" spellcheck={false}
      aria-label={`Value of ${nameOf(run.circuit, node)}`} aria-invalid={typedNumber(draft) === null} value={draft}
      style={{ left: `${place.x + place.width - width + 6}px`, top: `${place.y}px`, width: `${width}px` }}
      onKeyDown={press} onBlur={onClose} onPointerDown={(event) => event.stopPropagation()}
      onInput={(event) => take(event.currentTarget.value, typedNumber(event.currentTarget.value))} />
  );
}
