/** Marks of a question in the picture: the asked slot, the lit wire, the learner's number with a pencil. */
import type { VNode } from "preact";
import type { Slot } from "../layout";
import type { Scene } from "../layout/faces";
import { width } from "../layout/letters";
import { boxOf } from "../ui/circuit-acts";
import { aroundBox, freePlace, roomOf, type Rect } from "../ui/circuit-room";
import { pathsOf, pillRect } from "../ui/circuit-wires";
import { BranchMarks, BranchTubes, type BranchSum } from "./branch-marks";
import type { AskedPlace } from "./question-picture";

export interface QuestionMarks {
  place: AskedPlace;
  /** The branches that meet at the asked place; null where none do, or nothing is told of them yet. */
  sum: BranchSum | null;
  /** Whether the factor is asked for at the port: from the first hint on. */
  factor: boolean;
  /** What the learner typed last and was not right; empty for nothing. */
  typed: string;
  answered: boolean;
}

/** The marks below the wires, or above everything. */
export function drawMarks(marks: QuestionMarks): (scene: Scene, paper: Rect, above: boolean) => VNode | null {
  return (scene, paper, above) => {
    const Marks = above ? Above : LitWire;
    return <Marks scene={scene} paper={paper} {...marks} />;
  };
}

interface Props extends QuestionMarks {
  scene: Scene;
  /** The part of the paper that is seen. */
  paper: Rect;
}

function wiresOf({ scene: { picture }, place }: Props) {
  if (!place.wire) return [];
  const [reader, slot] = place.wire;
  const own = picture.wires.filter((wire) => wire.reader === reader && wire.slot === slot);
  return own;
}

function LitWire(props: Props) {
  const { corner } = props.scene.picture.sizes;
  return (
    <g class="asked-wire" aria-hidden="true">
      {wiresOf(props).flatMap((wire) => pathsOf(wire, corner)).map((path) => <path key={path} d={path} />)}
      {props.sum && !props.answered && <BranchTubes {...props} sum={props.sum} />}
    </g>
  );
}

/** The slot of the asked number. */
function askedSlot(props: Props): Slot | null {
  const { scene: { picture }, place } = props;
  const [wire] = wiresOf(props);
  if (place.what === "local") return wire?.pillSlot ?? null;
  const box = picture.boxes[boxOf(picture, place.node)];
  if (place.what === "value") return box?.valueSlot ?? null;
  // A value with several readers has a number for each of them on the wires.
  return (wire && wire.sentSlot) || box?.gradSlot || null;
}

function Above(props: Props) {
  const { scene, paper, place, sum, factor, typed, answered } = props;
  const slot = askedSlot(props);
  if (!slot || answered) return null;
  const { sizes } = scene.picture;
  const [wire] = wiresOf(props);
  const asked = place.what === "local" ? pillRect("×?", slot, sizes) : slotRect(slot, sizes.numberFont);
  const port = place.what === "grad" && factor && wire?.pillSlot ? pillRect("×?", wire.pillSlot, sizes) : null;
  return (
    <g class="asked" aria-hidden="true" pointer-events="none">
      <Tag rect={asked} text={place.what === "local" ? "×?" : "?"} font={sizes.numberFont} />
      {port && <Tag rect={port} text="×?" font={sizes.pillFont} />}
      {sum && <BranchMarks scene={scene} paper={paper} sum={sum} />}
      {typed && !sum && <Pencil scene={scene} paper={paper} near={asked} taken={port ? [asked, port] : [asked]} text={typed} />}
    </g>
  );
}

function slotRect({ at, anchor }: Slot, font: number): Rect {
  const wide = 34;
  const x = anchor === "start" ? at.x - 4 : anchor === "end" ? at.x - wide + 4 : at.x - wide / 2;
  return { x, y: at.y - font * 0.36 - 10, width: wide, height: 20 };
}

function Tag({ rect, text, font }: { rect: Rect; text: string; font: number }) {
  return (
    <>
      <rect class="slot" {...rect} rx={8} />
      <text x={rect.x + rect.width / 2} y={rect.y + rect.height / 2 + font * 0.36} font-size={font} text-anchor="middle">{text}</text>
    </>
  );
}

export const PENCIL = "M0 9l1-3.500 6-6 2.500 2.500-6 6zM6 1l2.500 2.500";

/** The learner's number, where there is room for it near the asked slot. */
function Pencil({ scene, paper, near, taken, text }: { scene: Scene; paper: Rect; near: Rect; taken: Rect[]; text: string }) {
  const font = scene.picture.sizes.numberFont;
  const shown = [...text].length > 12 ? `${[...text].slice(0, 11).join("")}…` : text;
  const wide = width(shown, font, true) + 34;
  const offers = aroundBox(near, wide, 26).map((offer) => ({ ...offer, cost: offer.cost - 20 }));
  const close = [{ x: near.x + near.width - wide, y: near.y + near.height + 16, width: wide, height: 26, cost: 0 }];
  const place = freePlace(roomOf(scene, paper), taken, [...close, ...offers]);
  if (!place) return null;
  const base = place.y + 17;
  return (
    <g class="pencil">
      <rect {...place} rx={7} />
      <path class="pen" d={PENCIL} transform={`translate(${place.x + 9} ${place.y + 8})`} />
      <text x={place.x + 25} y={base} font-size={font}>{shown}</text>
      <path class="squiggle" d={squiggle(place.x + 25, base + 4, wide - 34)} />
    </g>
  );
}

/** A wavy line. */
export function squiggle(x: number, y: number, wide: number): string {
  const waves = Math.max(1, Math.round(wide / 6));
  const step = wide / waves / 2;
  return `M${x} ${y}${Array.from({ length: waves }, () => `q${step / 2} 3 ${step} 0t${step} 0`).join("")}`;
}
