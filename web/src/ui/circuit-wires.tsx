/** Wires of the circuit: strokes in the state they are in, and on top of them what is pressed and read. */
import type { PictureWire, Sizes, Slot } from "../layout";
import { wireFace, type Scene, type WireFace } from "../layout/faces";
import { width } from "../layout/letters";
import { NO_GRADIENT, read } from "../layout/readings";
import type { Point } from "../types";
import type { WireAct } from "./circuit-acts";
import { headPath, LOOKS, roundedPath, sentLook, SYMBOL } from "./circuit-look";
import { inkWidth } from "./ink";
import { useKept } from "./kept";

/** The state of a wire, which says how its line is drawn. */
type WireState = "future" | "stored" | "spoilt" | "waits" | "partial" | "final" | "blocked" | "stale" | "bad";

/** The paths of a wire: one, or its two ends if it is a stub. */
export function pathsOf(wire: PictureWire, corner: number): string[] {
  return wire.lines.map((points) => roundedPath(points, corner));
}

/** Return the state of a wire at a step. */
function stateOf(scene: Scene, wire: PictureWire, { mark }: WireFace): WireState {
  if (scene.known.staleValue[wire.source] && mark === "none") return "stale";
  if (!scene.known.value[wire.source]) return "future";
  if (mark !== "none") return mark;
  if (scene.backward && scene.active[wire.source]) return "waits";
  return read(scene.run.values[wire.source] ?? null).state === "not finite" ? "spoilt" : "stored";
}

/** All strokes, the strongest last: branches of one value share a trunk, and the strongest is the one seen there. */
export function Strokes({ scene, faces, acts }: {
  scene: Scene; faces: readonly WireFace[]; acts: ReadonlyMap<number, WireAct>;
}) {
  const keep = useKept();
  const order = [...faces.keys()].sort((a, b) => (faces[a]?.width ?? 1) - (faces[b]?.width ?? 1));
  return (
    <g aria-hidden="true" class="strokes">
      {order.map((k) => {
        const [wire, face, act] = [scene.picture.wires[k]!, faces[k]!, acts.get(k)];
        const state = stateOf(scene, wire, face);
        const look = JSON.stringify([state, face.colour, face.width, act]);
        return keep(String(k), look, wire, () => drawnStroke(k, scene, wire, face, state, act));
      })}
    </g>
  );
}

/** States in which the head is at the producer and points back. */
const TURNED: readonly WireState[] = ["waits", "partial", "final", "bad"];
/** States in which the head is hollow. */
const HOLLOW: readonly WireState[] = ["future", "waits", "partial"];

function drawnStroke(key: number, { picture }: Scene, wire: PictureWire, face: WireFace, state: WireState, act?: WireAct) {
  const { boxes, down, sizes } = picture;
  const back = TURNED.includes(state);
  const reads = act?.reads === true && !back;
  const colour = reads ? "var(--wg-ink)" : colourOf(state, face);
  const size = state === "partial" ? 11 : state === "bad" ? 12 : Math.max(reads ? 8.5 : 7, 2 * face.width);
  const end = back ? boxes[wire.from]! : boxes[wire.to]!;
  const headed = end.kind !== "splitter";
  const trimmed = headed ? trimmedLines(wire.lines, back, size * 0.8) : wire.lines;
  const paths = trimmed.map((points) => roundedPath(points, sizes.corner));
  const at = back ? wire.points[0]! : wire.points.at(-1)!;
  const hollow = HOLLOW.includes(state);
  const sent = act?.goes === "backward" && state !== "blocked";
  return (
    <g key={key} class={`stroke ${state}`} data-head={headed ? (back ? "producer" : "reader") : "none"}>
      {sent && paths.map((path) => <path key={`${path}under`} {...lineLook("waits", face, false)} d={path} />)}
      <g class={sent ? "sends" : undefined}>
        {paths.map((path) => linesOf(state, face, wire.shape !== "", reads).map((line, k) => (
          <path key={`${sent}${k}`} {...line} d={path} {...(sent && state === "final" ? { pathLength: 100 } : {})} />
        )))}
      </g>
      {wire.slash && <path {...LOOKS.slash} d={`M${wire.slash.x - 4} ${wire.slash.y + 7}l8 -14`} />}
      {headed && state !== "blocked" && (
        <path class="head" d={headPath(at, down, back, size)} fill={hollow ? "var(--wg-paper)" : colour} stroke={colour}
          stroke-width={hollow ? 1.3 : 0} stroke-linejoin="round" />
      )}
    </g>
  );
}

function colourOf(state: WireState, face: WireFace): string {
  if (state === "bad" || state === "spoilt") return "var(--wg-ink)";
  return state === "final" || state === "partial" ? face.colour : "var(--wg-line)";
}

type Line = Readonly<Record<string, string | number>>;

/** The lines that a wire is made of, the lowest first. */
function linesOf(state: WireState, face: WireFace, array: boolean, reads: boolean): Line[] {
  const base = lineLook(state, face, array);
  const paper = { ...base, stroke: "var(--wg-paper)" };
  if (reads) return [{ ...base, stroke: "var(--wg-ink)", "stroke-width": 2.6 }];
  if (state === "partial") {
    return [{ ...base, "stroke-width": 7 }, { ...paper, "stroke-width": 4 }, { ...base, "stroke-width": 4, "stroke-dasharray": "7 7" }];
  }
  if (state === "bad" || state === "spoilt") {
    return [{ ...base, "stroke-width": 7 }, { ...paper, "stroke-width": 4.6 }, { ...base, "stroke-width": 4.6, "stroke-dasharray": "3 4" }];
  }
  if (state === "stale") return [{ ...base, "stroke-width": 5 }, { ...paper, "stroke-width": 5.4, "stroke-dasharray": "4 4" }];
  return [base];
}

/** How one line of a wire looks. */
function lineLook(state: WireState, face: WireFace, array: boolean): Line {
  const base = { fill: "none", stroke: colourOf(state, face), "stroke-linejoin": "round" };
  if (state === "future") return { ...base, "stroke-width": 1.4, "stroke-dasharray": "1.5 4.5", "stroke-linecap": "round" };
  if (state === "waits" || state === "blocked") return { ...base, "stroke-width": 1.5, "stroke-dasharray": "4 4" };
  const thick = state === "final" || state === "bad" ? face.width : 1.7;
  return { ...base, "stroke-width": array && state === "stored" ? 3.2 : thick };
}

/** How far from its ends a wire is pressed: there a splitter is. */
const CLEAR = 14;

/** Lines without the piece that the head covers. */
function trimmedLines(lines: readonly Point[][], back: boolean, by: number): Point[][] {
  const found = lines.map((line) => [...line]);
  const line = back ? found[0]! : found.at(-1)!;
  const [end, next] = back ? [0, 1] : [line.length - 1, line.length - 2];
  const [a, b] = [line[end]!, line[next] ?? line[end]!];
  const far = Math.hypot(b.x - a.x, b.y - a.y);
  if (far > by) line[end] = { x: a.x + ((b.x - a.x) * by) / far, y: a.y + ((b.y - a.y) * by) / far };
  return found;
}

export interface WireProps {
  sizes: Sizes;
  wire: PictureWire;
  face: WireFace;
  id: string;
  chosen: boolean;
  lit: boolean;
  /** Whether the name of a stub stands at its source too. */
  named: boolean;
  act: WireAct | undefined;
}

/** One wire as it is pressed and read: a wide place to press, labels, and the name. */
export function WireView({ sizes, wire, face, id, chosen, lit, named, act }: WireProps) {
  const glow = { ...LOOKS.halo, "pointer-events": "none", "stroke-width": chosen ? 12 : 10, "stroke-opacity": chosen ? 0.4 : 0.22 };
  return (
    <g id={id} class={`wire ${face.mark}${chosen ? " chosen" : ""}`} {...SYMBOL} aria-roledescription="wire"
      aria-label={face.name} data-wire={id} cursor="pointer">
      {trimmedLines(trimmedLines(wire.lines, true, CLEAR), false, CLEAR).map((points) => (
        <path {...LOOKS.halo} d={roundedPath(points, sizes.corner)} pointer-events="stroke" stroke-width={24} stroke-opacity={0} />
      ))}
      {pathsOf(wire, sizes.corner).map((path) => (
        <>
          {(chosen || lit) && <path {...glow} class="glow" d={path} />}
          {chosen && <path class="focus" d={path} />}
        </>
      ))}
      {wire.pillSlot && face.local && <Pill text={face.local} slot={wire.pillSlot} sizes={sizes} />}
      {wire.sentSlot && face.sent && <Sent wire={wire} face={face} sizes={sizes} lands={act?.goes === "backward"} />}
      {wire.nets.slice(named ? 0 : 1).map(({ at, anchor }) => (
        <text key={at.x} {...LOOKS.net} {...LOOKS.outlined} x={at.x} y={at.y} text-anchor={anchor}>{wire.net}</text>
      ))}
    </g>
  );
}

/** The gradient of a branch: hollow while it waits, inverted if it is not finite. */
function Sent({ wire, face, sizes, lands }: { wire: PictureWire; face: WireFace; sizes: Sizes; lands: boolean }) {
  const slot = wire.sentSlot!;
  const { at, anchor } = slot;
  const font = sizes.numberFont;
  if (face.mark === "none") return <Hollow slot={slot} font={font} />;
  if (face.mark === "blocked") return <NoGradient slot={slot} plain={false} />;
  const wide = inkWidth(face.sent, font, true);
  const left = anchor === "start" ? at.x : anchor === "end" ? at.x - wide : at.x - wide / 2;
  const bad = face.mark === "bad";
  return (
    <g class={lands ? "lands" : undefined}>
      {bad && <rect {...LOOKS.inverted} x={left - 4} y={at.y - font} width={wide + 8} height={font + 4} rx={3} />}
      <text {...(bad ? { fill: "var(--wg-paper)", "font-weight": 650 } : { ...LOOKS.outlined, ...sentLook(face.mark, face.tone) })}
        class="sent" font-size={font} x={at.x} y={at.y} text-anchor={anchor}>{face.sent}</text>
    </g>
  );
}

/** The place of a number that is not there yet. */
export function Hollow({ slot, font }: { slot: Slot; font: number }) {
  const room = 26;
  const { at, anchor } = slot;
  const x = anchor === "start" ? at.x : anchor === "end" ? at.x - room : at.x - room / 2;
  const middle = at.y - font * 0.36;
  return (
    <g class="hollow">
      <rect {...LOOKS.hollow} x={x} y={middle - 7} width={room} height={14} rx={7} />
      <path {...LOOKS.dash} d={`M${x + room / 2 - 3.5} ${middle}h7`} />
    </g>
  );
}

/** The words where no gradient can come, in small letters: they are longer than most numbers. */
export function NoGradient({ slot: { at, anchor }, plain }: { slot: Slot; plain: boolean }) {
  return (
    <g class="figure blocked">
      <text {...LOOKS.small} {...(plain ? {} : LOOKS.outlined)} x={at.x} y={at.y} text-anchor={anchor}>{NO_GRADIENT}</text>
    </g>
  );
}

/** Where the pill of a local derivative lies. */
export function pillRect(text: string, slot: Slot, sizes: Sizes): { x: number; y: number; width: number; height: number } {
  const wide = Math.min(slot.width, width(text, sizes.pillFont, true) + 14);
  const { at, anchor } = slot;
  const x = anchor === "start" ? at.x : anchor === "end" ? at.x - wide : at.x - wide / 2;
  return { x, y: slot.y, width: wide, height: slot.height };
}

/** The local derivative at a port. */
export function Pill({ text, slot, sizes, lit }: { text: string; slot: Slot; sizes: Sizes; lit?: boolean }) {
  const rect = pillRect(text, slot, sizes);
  const natural = width(text, sizes.pillFont, true) + 14;
  const squeezed = natural > slot.width ? { textLength: rect.width - 10, lengthAdjust: "spacingAndGlyphs" } : {};
  return (
    <g class={lit ? "local lit" : "local"}>
      <rect {...LOOKS.pill} {...rect} rx={rect.height / 2} />
      <text {...LOOKS.factor} font-size={sizes.pillFont} x={rect.x + rect.width / 2} y={slot.at.y} {...squeezed}>{text}</text>
    </g>
  );
}

/** The faces of all wires. */
export function facesOf(scene: Scene): WireFace[] {
  return scene.picture.wires.map((wire) => wireFace(scene, wire));
}
