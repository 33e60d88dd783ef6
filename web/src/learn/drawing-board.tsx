/** The board on which a circuit is drawn: boxes, ports and wires as SVG, with pointer and keyboard. One tab stop. */
import { useRef, useState } from "preact/hooks";
import { SPELLINGS } from "../engine/ops.generated";
import { DOCUMENT, SYMBOL } from "../ui/circuit-look";
import { useUnique } from "../ui/parts";
import { CONSTANT, CURVE, LEAF, OUTPUT, showOp, slotsOf, SPLITTER, type DrawnWire } from "./drawing-check";
import { boxOf, itemsOf, keyOf, type Item, type PlacedBox, type Size, type Sketch } from "./drawing-sketch";
import { showNumber } from "./quiz-run";

/** What is written on the board beside the drawing: numbers by box and by wire, what is asked, what is marked. */
export interface BoardMarks {
  values: ReadonlyMap<string, string>;
  gradients: ReadonlyMap<number, string>;
  askedBox: string | null;
  askedWire: number | null;
  boxes: readonly string[];
  wires: readonly number[];
}

export interface BoardProps {
  sketch: Sketch;
  size: Size;
  /** Whether values flow down instead of to the right. */
  down: boolean;
  output: string;
  labels: Readonly<Record<string, string>>;
  leaves: Readonly<Record<string, string>>;
  readings: Readonly<Record<string, string>>;
  marks: BoardMarks;
  focus: Item | null;
  /** Where a wire begins that has no end yet. */
  from: Item | null;
  /** Whether nothing can be changed any more. */
  fixed: boolean;
  onFocus: (item: Item | null) => void;
  /** The board itself got the focus. */
  onEnter: () => void;
  onKey: (event: KeyboardEvent) => void;
  onStart: (item: Item) => void;
  onConnect: (item: Item) => void;
  onMove: (id: string, u: number, v: number, isEnd: boolean) => void;
  boardRef: { current: HTMLDivElement | null };
}

interface Point {
  x: number;
  y: number;
}

/** Where a number is written; `end` says that it ends there. */
interface Label extends Point {
  end: boolean;
}

const SNAP = 24;
const CAPTION = 30;

function halfSize({ op }: PlacedBox): { u: number; v: number } {
  if (op === LEAF || op === CONSTANT) return { u: 40, v: 20 };
  if (op === SPLITTER) return { u: 9, v: 9 };
  if (op === OUTPUT) return { u: 8, v: 8 };
  return op === CURVE ? { u: 36, v: 28 } : { u: 24, v: 24 };
}

/** Half the width and the height of a box on the screen; leaves keep their shape when values flow down. */
function extentOf(box: PlacedBox, down: boolean): Point {
  const { u, v } = halfSize(box);
  return down && box.op !== LEAF && box.op !== CONSTANT ? { x: v, y: u } : { x: u, y: v };
}

function middleOf({ u, v }: { u: number; v: number }, down: boolean): Point {
  return down ? { x: v, y: u } : { x: u, y: v };
}

/** Where a box or port is on the screen. */
function placeOf(sketch: Sketch, { kind, id, place }: Item, down: boolean): Point {
  const box = boxOf(sketch, id)!;
  const at = middleOf(box, down);
  if (kind === "box") return at;
  const { x, y } = extentOf(box, down);
  const count = kind === "in" ? slotsOf(box) : box.ports;
  const apart = box.op === SPLITTER ? 26 : 28;
  const across = (place - (count - 1) / 2) * apart;
  const along = kind === "in" ? -1 : 1;
  const reach = box.op === SPLITTER && kind === "out" ? 16 : 0;
  return down ? { x: at.x + across, y: at.y + along * (y + reach) } : { x: at.x + along * (x + reach), y: at.y + across };
}

function curved(a: Point, b: Point, down: boolean): string {
  const bend = Math.max(28, Math.abs(down ? b.y - a.y : b.x - a.x) / 2);
  return down
    ? `M${a.x} ${a.y}C${a.x} ${a.y + bend} ${b.x} ${b.y - bend} ${b.x} ${b.y}`
    : `M${a.x} ${a.y}C${a.x + bend} ${a.y} ${b.x - bend} ${b.y} ${b.x} ${b.y}`;
}

const startOf = ({ from, port }: DrawnWire): Item => ({ kind: "out", id: from, place: port });
const endOf = ({ to, slot }: DrawnWire): Item => ({ kind: "in", id: to, place: slot });

/** What an item is called: which box or port, and what is connected there. */
export function describe(sketch: Sketch, labels: Readonly<Record<string, string>>, { kind, id, place }: Item): string {
  const box = boxOf(sketch, id)!;
  const label = labels[id]!;
  const given = box.op === LEAF ? "leaf " : box.op === CONSTANT ? "constant " : "";
  if (kind === "box") return `${given}${label}`;
  if (kind === "in") {
    const name = slotsOf(box) > 1 ? `input ${place + 1} of ${label}` : `input of ${label}`;
    const from = sketch.wires.filter(({ to, slot }) => to === id && slot === place).map((wire) => labels[wire.from]!);
    return `${name}, ${from.length ? `from ${from.join(" and ")}` : "open"}`;
  }
  const name = box.ports > 1 ? `output ${place + 1} of ${label}` : `output of ${label}`;
  const to = sketch.wires.filter(({ from, port }) => from === id && port === place).map((wire) => labels[wire.to]!);
  return `${name}, ${to.length ? `to ${to.join(" and to ")}` : "free"}`;
}

/** The board. */
export function DrawingBoard(props: BoardProps) {
  const { sketch, size, down, focus, from, marks, labels, fixed } = props;
  const id = useUnique();
  const svg = useRef<SVGSVGElement>(null);
  const drag = useRef<{ item: Item; dx: number; dy: number; moved: boolean } | null>(null);
  const [pointer, setPointer] = useState<Point | null>(null);
  const [width, height] = down ? [size.breadth, size.length] : [size.length, size.breadth];
  const items = itemsOf(sketch);
  const at = (item: Item): Point => placeOf(sketch, item, down);
  const idOf = (item: Item): string => `${id}-${keyOf(item)}`;

  const pointOf = (event: { clientX: number; clientY: number }): Point => {
    const { a, d, e, f } = svg.current!.getScreenCTM()!;
    return { x: (event.clientX - e) / a, y: (event.clientY - f) / d };
  };
  /** The port or box under the pointer; ports are easier to hit than they are large. */
  const itemAt = (point: Point, wanted: readonly Item["kind"][]): Item | null => {
    const near = items.filter(({ kind }) => wanted.includes(kind) && kind !== "box").map((item) => {
      const { x, y } = at(item);
      return { item, far: Math.hypot(x - point.x, y - point.y) };
    }).sort((one, two) => one.far - two.far)[0];
    if (near && near.far <= (from || drag.current?.item.kind === "out" ? SNAP : 14)) return near.item;
    return items.find((item) => {
      if (item.kind !== "box" || !wanted.includes("box")) return false;
      const [{ x, y }, extent] = [at(item), extentOf(boxOf(sketch, item.id)!, down)];
      return Math.abs(point.x - x) <= extent.x + 4 && Math.abs(point.y - y) <= extent.y + 4;
    }) ?? null;
  };
  const pressed = (event: PointerEvent): void => {
    if (fixed) return;
    const point = pointOf(event);
    // Who has begun a wire and presses another output begins there.
    const item = (from && itemAt(point, ["in"])) || itemAt(point, from ? ["out"] : ["in", "out", "box"]);
    const wire = (event.target as Element).closest("[data-wire]")?.getAttribute("data-wire");
    if (from && item?.kind !== "out") {
      event.preventDefault();
      props.boardRef.current?.focus();
      if (item) props.onConnect(item);
      return;
    }
    if (!item) {
      if (wire) props.onFocus(endOf(sketch.wires[Number(wire)]!));
      return;
    }
    event.preventDefault();
    props.boardRef.current?.focus();
    const { x, y } = at(item);
    drag.current = { item, dx: x - point.x, dy: y - point.y, moved: false };
    svg.current!.setPointerCapture(event.pointerId);
    props.onFocus(item);
    if (item.kind === "out") props.onStart(item);
  };
  /** A finger on a box or a port draws; everywhere else it scrolls the page. */
  const touched = (event: TouchEvent): void => {
    const finger = event.touches[0];
    if (!fixed && event.touches.length === 1 && finger && itemAt(pointOf(finger), ["in", "out", "box"])) event.preventDefault();
  };
  const moved = (event: PointerEvent): void => {
    const held = drag.current;
    const point = pointOf(event);
    if (from) setPointer(point);
    if (!held) return;
    const { x, y } = at(held.item);
    if (Math.hypot(point.x + held.dx - x, point.y + held.dy - y) > 5) held.moved = true;
    if (held.item.kind === "box" && held.moved) move(held, point, false);
  };
  const move = (held: { item: Item; dx: number; dy: number }, point: Point, isEnd: boolean): void => {
    const [x, y] = [point.x + held.dx, point.y + held.dy];
    props.onMove(held.item.id, down ? y : x, down ? x : y, isEnd);
  };
  const released = (event: PointerEvent): void => {
    const held = drag.current;
    drag.current = null;
    setPointer(null);
    if (!held?.moved) return;
    const point = pointOf(event);
    if (held.item.kind === "box") move(held, point, true);
    if (held.item.kind !== "out") return;
    const end = itemAt(point, ["in"]);
    if (end) props.onConnect(end);
  };
  const active = focus && items.some((item) => keyOf(item) === keyOf(focus)) ? { "aria-activedescendant": idOf(focus) } : {};
  return (
    <div ref={props.boardRef} class="board" role="application" aria-roledescription="drawing board" tabIndex={0}
      aria-label={fixed ? "Your circuit" : "Board: arrows walk along boxes and ports, W draws a wire"} {...active} onKeyDown={props.onKey}
      onFocus={props.onEnter}>
      <svg ref={svg} {...DOCUMENT} aria-roledescription="drawing" aria-label={`Drawing of ${props.output}`}
        viewBox={`0 0 ${width} ${height}`} class={`${down ? "down" : "right"}${from ? " wiring" : ""}`}
        onTouchStart={touched} onPointerDown={pressed} onPointerMove={moved} onPointerUp={released} onPointerCancel={released}>
        {sketch.wires.map((wire, k) => (
          <WireView key={`${wire.from} ${wire.port} ${wire.to} ${wire.slot} ${k}`} k={k} a={at(startOf(wire))} b={at(endOf(wire))}
            down={down} marks={marks} />
        ))}
        {from && <path class="loose" d={curved(at(from), pointer ?? (focus?.kind === "in" ? at(focus) : at(from)), down)} />}
        {sketch.nodes.map((box) => (
          <g key={box.id} class={`box ${box.op}${marks.boxes.includes(box.id) ? " marked" : ""}`}>
            <BoxView box={box} down={down} props={props} />
          </g>
        ))}
        {sketch.wires.map((wire, k) => <WireNumber key={k} k={k} a={at(startOf(wire))} down={down} marks={marks} box={boxOf(sketch, wire.from)!} />)}
        {items.map((item) => (
          <g key={keyOf(item)} id={idOf(item)} {...SYMBOL} aria-roledescription={item.kind === "box" ? "box" : "port"}
            aria-label={describe(sketch, labels, item)} data-item={keyOf(item)}
            class={`item ${item.kind}${focus && keyOf(focus) === keyOf(item) ? " focused" : ""}${isOpen(sketch, item) ? " open" : ""}`}>
            <ItemView item={item} at={at(item)} extent={extentOf(boxOf(sketch, item.id)!, down)} isNow={Boolean(from && focus && keyOf(focus) === keyOf(item))} />
          </g>
        ))}
      </svg>
    </div>
  );
}

function isOpen(sketch: Sketch, { kind, id, place }: Item): boolean {
  if (kind === "in") return !sketch.wires.some(({ to, slot }) => to === id && slot === place);
  return kind === "out" && !sketch.wires.some(({ from, port }) => from === id && port === place);
}

function ItemView({ item, at, extent, isNow }: { item: Item; at: Point; extent: Point; isNow: boolean }) {
  if (item.kind === "box") {
    return <rect class="ring" x={at.x - extent.x - 7} y={at.y - extent.y - 7} width={2 * extent.x + 14} height={2 * extent.y + 14} rx="16" />;
  }
  return (
    <>
      <circle class="ring" cx={at.x} cy={at.y} r="12" />
      <circle class="hit" cx={at.x} cy={at.y} r="12" />
      <circle class={isNow ? "port now" : "port"} cx={at.x} cy={at.y} r={isNow ? 8 : 4} />
    </>
  );
}

/** The gradient on a wire, or the place for it, above all boxes. */
function WireNumber({ k, a, down, marks, box }: { k: number; a: Point; down: boolean; marks: BoardMarks; box: PlacedBox }) {
  const gradient = marks.gradients.get(k);
  const isFirst = box.op === SPLITTER && (down ? a.x : a.y) < box.v;
  const text: Label = down ? beside(a, isFirst) : { x: a.x + 10, y: a.y + (isFirst ? -9 : 20), end: false };
  if (marks.askedWire === k) return <Slot {...text} />;
  return gradient === undefined ? null : <NumberText name="gradient" {...text} text={gradient} />;
}

function WireView({ k, a, b, down, marks }: { k: number; a: Point; b: Point; down: boolean; marks: BoardMarks }) {
  const path = curved(a, b, down);
  const isMarked = marks.wires.includes(k);
  const isAsked = marks.askedWire === k;
  return (
    <g class={`wire${isMarked ? " marked" : ""}${isAsked ? " asked" : ""}`}>
      {isAsked && <path class="tube" d={path} />}
      <path class="hit" data-wire={k} d={path} />
      <path class="line" d={path} />
      <path class="head" d={down ? `M${b.x} ${b.y}l-5 -10h10z` : `M${b.x} ${b.y}l-10 -5v10z`} />
      {isMarked && <path class="squiggle" d={squiggle(a.x + (down ? -14 : 6), a.y + (down ? 14 : 12), 28)} />}
    </g>
  );
}

function squiggle(x: number, y: number, width: number): string {
  const waves = Array.from({ length: Math.round(width / 7) }, () => "q1.75 -4 3.5 0t3.5 0").join("");
  return `M${x} ${y}${waves}`;
}

/** The place of a number that is asked for. */
function Slot({ x, y, end }: Label) {
  const left = end ? x - 34 : x;
  return (
    <g class="slot">
      <rect x={left} y={y - 14} width="34" height="19" rx="6" />
      <text x={left + 17} y={y} text-anchor="middle">?</text>
    </g>
  );
}

function NumberText({ name, x, y, end, text }: Label & { name: string; text: string }) {
  return <text class={name} x={x} y={y} text-anchor={end ? "end" : "start"}>{text}</text>;
}

/** Where a number begins or ends that stands beside a wire going down: values on the left, gradients on the right. */
function beside({ x, y }: Point, end: boolean): Label {
  return { x: x + (end ? -8 : 8), y: y + 22, end };
}

function BoxView({ box, down, props }: { box: PlacedBox; down: boolean; props: BoardProps }) {
  const { x, y } = middleOf(box, down);
  const { marks } = props;
  const value = marks.values.get(box.id);
  const text: Label = down ? beside({ x, y: y + 24 }, true) : { x: x + 34, y: y - 9, end: false };
  const isMarked = marks.boxes.includes(box.id);
  return (
    <>
      {shapeOf(box, x, y, down, props)}
      {isMarked && <path class="squiggle" d={squiggle(x - 18, y + halfSize(box).v + 10, 36)} />}
      {marks.askedBox === box.id ? <Slot {...text} /> : value !== undefined && <NumberText name="value" {...text} text={value} />}
    </>
  );
}

/** What the box of an op says: its sign, the short spelling of its name, or its name as far as it fits. */
export function faceOf(op: string): string {
  const short = Object.entries(SPELLINGS.functions).find(([, name]) => name === op)?.[0];
  return short ?? showOp(op).slice(0, 7);
}

function shapeOf(box: PlacedBox, x: number, y: number, down: boolean, props: BoardProps) {
  if (box.op === LEAF || box.op === CONSTANT) {
    const name = box.op === LEAF ? box.name! : showNumber(box.value!);
    const value = box.op === LEAF ? props.leaves[box.name!] : undefined;
    return (
      <>
        <rect class="shape" x={x - 40} y={y - 20} width="80" height="40" rx="18" />
        <text class={box.op === LEAF ? "name" : "sign"} x={value ? x - 28 : x} y={y + 6} text-anchor={value ? "start" : "middle"}>{name}</text>
        {value && <text class="number" x={x + 30} y={y + 5} text-anchor="end">{value}</text>}
      </>
    );
  }
  if (box.op === SPLITTER) return <SplitterShape x={x} y={y} down={down} />;
  if (box.op === OUTPUT) {
    return (
      <>
        <circle class="shape" cx={x} cy={y} r="8" />
        <text class="name" x={down ? x + 16 : x + 14} y={y + 6}>{props.output}</text>
      </>
    );
  }
  if (box.op === CURVE) {
    return (
      <>
        <rect class="shape" x={x - 36} y={y - 28} width="72" height="56" rx="10" />
        <path class="axes" d={`M${x - 26} ${y - 20}V${y + 18}H${x + 28}`} />
        <path class="axes" d={`M${x - 24} ${y + 12}C${x} ${y + 10} ${x} ${y - 18} ${x + 26} ${y - 18}`} />
      </>
    );
  }
  const sign = faceOf(box.op);
  const reading = props.readings[box.id]!;
  return (
    <>
      <rect class="shape" x={x - 24} y={y - 24} width="48" height="48" rx="12" />
      <text class={sign.length > 2 ? "sign small" : "sign"} x={x} y={y + (sign.length > 2 ? 4 : 7)} text-anchor="middle">
        {sign}
      </text>
      {!down && !props.fixed && reading.length <= CAPTION && <text class="caption" x={x} y={y + 40} text-anchor="middle">{reading}</text>}
    </>
  );
}

function SplitterShape({ x, y, down }: { x: number; y: number; down: boolean }) {
  const arms = down
    ? `M${x} ${y - 9}V${y}M${x} ${y}C${x} ${y + 12} ${x - 13} ${y + 10} ${x - 13} ${y + 25}M${x} ${y}C${x} ${y + 12} ${x + 13} ${y + 10} ${x + 13} ${y + 25}`
    : `M${x - 9} ${y}H${x}M${x} ${y}C${x + 12} ${y} ${x + 10} ${y - 13} ${x + 25} ${y - 13}M${x} ${y}C${x + 12} ${y} ${x + 10} ${y + 13} ${x + 25} ${y + 13}`;
  return (
    <>
      <path class="arms" d={arms} />
      <circle class="dot" cx={x} cy={y} r="6" />
    </>
  );
}
