/** The board: groups with their progress, nodes with their numbers, and the wires between them, in one picture. */
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { counted } from "../layout/letters";
import { NO_GRADIENT, pretty } from "../layout/readings";
import { DOCUMENT, SYMBOL } from "../ui/circuit-look";
import { useUnique } from "../ui/parts";
import type { Board, BoardBox, ToldReading } from "./answers";
import { NODE, placeBoard, wirePath, type PlacedBoard, type Rect } from "./board";
import { told } from "./parts";
import { progressOf, type Spot } from "./passage";
import { isSame, opens, pickedBox, pickedLink, type Picked } from "./where";

interface Props {
  board: Board;
  spot: Spot;
  /** Whether there is a run at all. */
  ran: boolean;
  /** The node at which a pass stopped, if it did just now. */
  stopped: number;
  picked: Picked | null;
  onPick: (picked: Picked | null) => void;
  onTurn: (box: BoardBox) => void;
}

interface Camera {
  scale: number;
  x: number;
  y: number;
}

const MARGIN = 20;

function fit({ width, height }: PlacedBoard, wide: number, high: number): Camera {
  const scale = Math.min(1.5, (wide - 2 * MARGIN) / width, (high - 2 * MARGIN) / height);
  return { scale, x: (wide - width * scale) / 2, y: (high - height * scale) / 2 };
}

/** The picture of a board; it fits its frame whenever what is open changes. */
export function BoardView({ board, spot, ran, stopped, picked, onPick, onTurn }: Props) {
  const svg = useRef<SVGSVGElement>(null);
  const id = useUnique();
  const [size, setSize] = useState<[number, number]>([1000, 400]);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(([entry]) => setSize([entry!.contentRect.width || 1000, entry!.contentRect.height || 400]));
    watch.observe(svg.current!);
    return () => watch.disconnect();
  }, []);
  const place = useMemo(() => placeBoard(board, size[0], size[1]), [board, ...size]);
  const [camera, setCamera] = useState<Camera>(() => fit(place, ...size));
  useLayoutEffect(() => setCamera(fit(place, ...size)), [place]);
  const zoom = (by: number, x = size[0] / 2, y = size[1] / 2): void => setCamera((old) => {
    const scale = Math.max(0.1, Math.min(4, old.scale * by));
    return { scale, x: x - ((x - old.x) * scale) / old.scale, y: y - ((y - old.y) * scale) / old.scale };
  });
  const onWheel = (event: WheelEvent): void => {
    event.preventDefault();
    const { left, top } = svg.current!.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(-event.deltaY / 300), event.clientX - left, event.clientY - top);
    else setCamera((old) => ({ ...old, x: old.x - event.deltaX, y: old.y - event.deltaY }));
  };
  useEffect(() => {
    // Preact listens passively, which would let the page scroll too.
    svg.current!.addEventListener("wheel", onWheel, { passive: false });
    return () => svg.current!.removeEventListener("wheel", onWheel);
  }, [size]);
  const drag = (start: PointerEvent): void => {
    const from = camera;
    const move = (event: PointerEvent): void =>
      setCamera({ ...from, x: from.x + event.clientX - start.clientX, y: from.y + event.clientY - start.clientY });
    const end = (): void => removeEventListener("pointermove", move);
    addEventListener("pointermove", move);
    addEventListener("pointerup", end, { once: true });
  };
  const active = board.boxes.find((box) => isSame(pickedBox(box), picked));
  const keyed = (event: KeyboardEvent): void => {
    const by = { "+": 1.25, "=": 1.25, "-": 0.8 }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const next = walk(board, active, event.key);
    if (by) zoom(by);
    else if (event.key === "0") setCamera(fit(place, ...size));
    else if (event.key === "Enter" && active) onTurn(active);
    else if (next) onPick(pickedBox(next));
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="board" role="application" aria-roledescription="circuit" aria-label={`Circuit, ${board.boxes.length} boxes`}
      tabIndex={0} aria-activedescendant={active && `${id}-${active.id}`} onKeyDown={keyed}>
    <svg ref={svg} {...DOCUMENT} aria-label="Groups and the wires between them" onPointerDown={drag}>
      <defs>
        <pattern id={`${id}-hatch`} width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect width="8" height="8" class="hatch-paper" /><rect width="4" height="8" class="hatch-ink" />
        </pattern>
      </defs>
      <g transform={`translate(${camera.x} ${camera.y}) scale(${camera.scale})`}>
        {board.boxes.map((box) => box.open && <FrameEdge key={box.id} rect={place.rects[box.id]!} />)}
        {place.lines.map((line, k) => (
          <Wire key={k} {...{ board, spot, ran, line }} link={k} picked={isSame(pickedLink(board, k), picked)} onPick={onPick} />
        ))}
        {board.boxes.map((box) => box.open && <FrameHead key={box.id} {...{ box, spot, ran, onTurn }} id={`${id}-${box.id}`} rect={place.rects[box.id]!} />)}
        {board.boxes.map((box) => !box.open && (
          <Item key={box.id} {...{ box, spot, ran, onPick, onTurn }} id={`${id}-${box.id}`} hatch={`url(#${id}-hatch)`} rect={place.rects[box.id]!}
            picked={box === active} now={ran && box.node === spot.node && box.node !== undefined} stopped={box.node === stopped && stopped >= 0} />
        ))}
      </g>
    </svg>
    </div>
  );
}

/** The box that a key leads to. */
function walk({ boxes, links }: Board, from: BoardBox | undefined, key: string): BoardBox | undefined {
  const shown = boxes.filter(({ open }) => !open);
  if (!from) return key === "Enter" ? shown[0] : undefined;
  const next = { ArrowRight: links.find((link) => link.from === from.id)?.to, ArrowLeft: links.find(({ to }) => to === from.id)?.from }[key];
  if (next !== undefined) return boxes[next];
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[key];
  return by === undefined ? undefined : shown[(shown.indexOf(from) + by + shown.length) % shown.length];
}

/** Whether something in a box that is known by now is not finite. */
function isBad({ bad: [value, grad] }: BoardBox, spot: Spot, before: number): boolean {
  return (value >= 0 && spot.phase !== "start" && value <= before) || (grad >= 0 && spot.phase === "backward" && spot.node <= grad);
}

interface ItemProps {
  box: BoardBox;
  rect: Rect;
  id: string;
  spot: Spot;
  ran: boolean;
  onTurn: (box: BoardBox) => void;
}

/** The edge of a group that is open: below all wires. */
function FrameEdge({ rect: { x, y, width, height } }: { rect: Rect }) {
  return <rect class="frame" {...{ x, y, width, height }} rx="16" />;
}

/** The head of a group that is open, above the wires that pass: its title, which closes it, and how far it is. */
function FrameHead({ box, rect, id, spot, ran, onTurn }: ItemProps) {
  const { forward, backward } = progressOf(box, spot);
  const done = spot.phase === "backward" ? backward : forward;
  const name = `${box.title}, open group, ${counted(box.count, "node")}`;
  return (
    <g class="head-of-frame" id={id} transform={`translate(${rect.x} ${rect.y})`}>
      <g role="button" {...{ tabindex: 0 }} aria-expanded="true" aria-label={`Close ${name}`} class="turn"
        onClick={() => onTurn(box)} onKeyDown={(event) => event.key === "Enter" && (onTurn(box), event.stopPropagation())}>
        <rect class="target" width={Math.min(rect.width, 240)} height="38" rx="12" />
        <text class="title" x="16" y="27">▾ {clip(box.title, 20)}</text>
      </g>
      <text class="about" x={rect.width - 16} y="27" text-anchor="end">
        {ran ? `${done.toLocaleString("en")} of ${counted(box.count, "node")} done` : counted(box.count, "node")}
      </text>
    </g>
  );
}

/** A box. */
function Item(props: ItemProps & { hatch: string; picked: boolean; now: boolean; stopped: boolean; onPick: Props["onPick"] }) {
  const { box, rect, id, spot, ran, picked, now, stopped, onPick, onTurn, hatch } = props;
  const progress = progressOf(box, spot);
  const bad = ran && isBad(box, spot, spot.done ? Infinity : -1) && (box.bad[1] >= 0 || progress.forward > 0 || box.kind === "input");
  const said = nameOf(box, spot, ran, progress, bad);
  const classes = ["item", box.kind, picked && "picked", now && "now", stopped && "stopped", bad && "spoilt"].filter(Boolean).join(" ");
  const press = (event: JSX.TargetedMouseEvent<SVGElement>): void => {
    event.stopPropagation();
    if (opens(box)) onTurn(box);
    else onPick(pickedBox(box));
  };
  return (
    <g class={classes} id={id} {...SYMBOL} aria-label={said} transform={`translate(${rect.x} ${rect.y})`} onClick={press}
      onPointerDown={(event) => event.stopPropagation()}>
      {box.kind === "node" ? <NodeFace {...{ box, spot, ran }} /> : box.kind === "input" || box.kind === "inputs"
        ? <InputFace {...{ box, rect, spot, ran }} /> : <GroupFace {...{ box, rect, ran, progress, bad, hatch }} />}
    </g>
  );
}

function nameOf(box: BoardBox, spot: Spot, ran: boolean, { forward, backward }: { forward: number; backward: number }, bad: boolean): string {
  if (box.kind === "node" || box.kind === "input") {
    const { value, grad } = numbersOf(box, spot, ran);
    return `${box.title}, ${box.kind === "node" ? `${box.op} node` : "input"}, value ${value}, ${grad === NO_GRADIENT ? grad : `gradient ${grad}`}`;
  }
  const progress = ran ? `, forward ${forward} of ${box.count}, backward ${backward} of ${box.count}` : "";
  return `${box.title}, ${box.kind === "range" ? "merged groups" : box.kind}, ${counted(box.count, "node")}${progress}${bad ? ", not finite" : ""}`;
}

/** The numbers of a node as they are known by now. */
function numbersOf({ kind, node, value, grad }: BoardBox, spot: Spot, ran: boolean): { value: string; grad: string } {
  const has = ran && (kind === "input" || spot.phase === "seed" || spot.phase === "backward" || (spot.phase === "forward" && node! <= spot.node));
  const back = ran && spot.phase === "backward" && node! >= spot.node;
  return {
    value: has ? shown(value) : "not computed",
    grad: back ? (grad === null ? NO_GRADIENT : shown(grad)) : "not computed",
  };
}

function shown(reading: ToldReading | null | undefined): string {
  return reading ? pretty(reading.text) : "none";
}

function clip(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function GroupFace({ box, rect, ran, progress, bad, hatch }: {
  box: BoardBox; rect: Rect; ran: boolean; progress: { forward: number; backward: number }; bad: boolean; hatch: string;
}) {
  const { width, height } = rect;
  const bars = [["forward", progress.forward], ["backward", progress.backward]] as const;
  return (
    <>
      {box.kind === "range" && <rect class="edge" x="10" y="10" width={width} height={height} rx="14" />}
      {box.kind === "range" && <rect class="edge" x="5" y="5" width={width} height={height} rx="14" />}
      <rect class="card" width={width} height={height} rx="14" />
      {bad && <rect class="flag" x={width - 34} y="10" width="22" height="22" rx="5" fill={hatch} />}
      <text class="title" x="14" y="25">▸ {clip(box.title, 18)}</text>
      <text class="about" x="14" y="45">{clip(box.about, 26)}</text>
      <text class="about" x="14" y="63">{counted(box.count, "node")}</text>
      {ran && progress.backward === box.count && <text class="about" x="14" y="81">largest |∇| {told(box.largest)}</text>}
      {ran && bars.map(([name, count], k) => (
        <g key={name} transform={`translate(14 ${height - 36 + 17 * k})`}>
          <text class="small" y="9">{name}</text>
          <rect class="track" x="66" y="2" width={width - 92} height="8" rx="4" />
          {count > 0 && <rect class={`done ${name}`} x="65" y="1" width={Math.max(5, ((width - 90) * count) / box.count)} height="10" rx="5" />}
        </g>
      ))}
    </>
  );
}

function InputFace({ box, rect, spot, ran }: { box: BoardBox; rect: Rect; spot: Spot; ran: boolean }) {
  const { value, grad } = numbersOf(box, spot, ran);
  const one = box.kind === "input";
  return (
    <>
      <rect class="card" width={rect.width} height={rect.height} rx={rect.height / 2} />
      <text class="name" x={rect.width / 2} y="25" text-anchor="middle">{one && value !== "not computed" ? `${clip(box.title, 8)} = ${clip(value, 10)}` : clip(box.title, 16)}</text>
      <text class="about" x={rect.width / 2} y="45" text-anchor="middle">{one ? (grad === "not computed" ? "–" : clip(grad, 14)) : clip(box.about, 24)}</text>
    </>
  );
}

/** The text in the square of a node. */
function opText(op: string): string {
  return clip(pretty(op.replaceAll("·", "").trim()) || op, 7);
}

function NodeFace({ box, spot, ran }: { box: BoardBox; spot: Spot; ran: boolean }) {
  const { value, grad } = numbersOf(box, spot, ran);
  const sign = Math.sign(Number(box.grad?.size ?? 0));
  const look = grad === "not computed" || grad === NO_GRADIENT ? "slot" : box.grad?.state === "not finite" ? "odd" : sign > 0 ? "plus" : sign < 0 ? "minus" : "slot";
  const op = opText(box.op ?? "");
  return (
    <>
      <rect class="halo" x="5" y="7" width={NODE + 14} height={NODE + 14} rx="18" />
      <rect class="ring" x="8" y="10" width={NODE + 8} height={NODE + 8} rx="17" />
      <rect class="card" x="12" y="14" width={NODE} height={NODE} rx="14" />
      <text class={op.length > 2 ? "op long" : "op"} x={12 + NODE / 2} y={op.length > 2 ? 42 : 45} text-anchor="middle">{op}</text>
      <text class="value" x={20 + NODE} y="32">{value === "not computed" ? "–" : clip(value, 8)}</text>
      {look === "odd" && <rect class="inverse" x={16 + NODE} y="42" width="36" height="19" rx="5" />}
      <text class={`grad ${look}`} x={20 + NODE} y="56">{grad === "not computed" ? "–" : grad === NO_GRADIENT ? grad : clip(grad, 8)}</text>
      <text class="caption" x={12 + NODE / 2} y="80" text-anchor="middle">{clip(box.title, 16)}</text>
    </>
  );
}

function Wire({ board, link, line, spot, ran, picked, onPick }: {
  board: Board; link: number; line: [Rect, Rect]; spot: Spot; ran: boolean; picked: boolean; onPick: Props["onPick"];
}) {
  const { from, to, wires } = board.links[link]!;
  const [source, reader] = [board.boxes[from]!, board.boxes[to]!];
  const last = reader.ranges.length ? reader.ranges.at(-1)![1] : 0;
  const first = source.ranges.length ? source.ranges[0]![0] : 0;
  const valued = ran && (!source.ranges.length || spot.done > first);
  const sent = ran && spot.phase === "backward" && spot.from <= last && reader.ranges.length > 0;
  const odd = (sent && source.grad?.state === "not finite" && wires === 1) || (valued && source.value?.state === "not finite");
  const sign = source.grad ? Math.sign(Number(source.grad.size)) : 0;
  const look = odd ? "odd" : sent ? (sign < 0 ? "minus" : "plus") : valued ? "valued" : "idle";
  const path = wirePath(line);
  const name = `wire from ${source.title} to ${reader.title}, ${counted(wires, "wire")}`;
  const head = sent ? [line[0].x + line[0].width, line[0].y + line[0].height / 2, 180] : [line[1].x, line[1].y + line[1].height / 2, 0];
  return (
    <g {...SYMBOL} aria-label={name} class={`wire ${look}${picked ? " picked" : ""}${wires > 1 ? " several" : ""}${line[1].x - line[0].x - line[0].width > 320 ? " far" : ""}`}
      onClick={(event) => (event.stopPropagation(), onPick(pickedLink(board, link)))}>
      <path class="touch" d={path} />
      <path class="line" d={path} />
      {odd && <path class="pole" d={path} />}
      <path class="head" d="M0 0l-11 -6v12z" transform={`translate(${head[0]} ${head[1]}) rotate(${head[2]})`} />
    </g>
  );
}
