/** Where gradients meet: which branches the learner's number holds, which are missing, and the sum with open places. */
import type { PictureWire } from "../layout";
import type { Scene } from "../layout/faces";
import { width } from "../layout/letters";
import { boxOf, splitterOf } from "../ui/circuit-acts";
import { aroundBox, besideWire, freePlace, roomOf, type Offer, type Rect } from "../ui/circuit-room";
import { pathsOf } from "../ui/circuit-wires";
import { collides } from "./answers";
import { PENCIL, squiggle } from "./marks";
import type { Question } from "./questions";
import { showFactor, showNumber, type QuizCircuit, type Wire } from "./quiz-run";

/** One branch: its number is in the learner's sum, was told by a hint, or is open. */
export interface Branch {
  wire: Wire;
  state: "counted" | "told" | "open";
  sent: number;
}

export interface BranchSum {
  node: number;
  branches: Branch[];
  /** What the learner typed last and was not right; null for nothing. */
  typed: number | null;
}

/** The rung of the ladder that tells one branch. */
const TELLING_RUNG = 2;

/** What the picture shows of a sum that is asked for; null where nothing is to be shown yet. */
export function branchSum(question: Question, circuit: QuizCircuit, typed: number | null, rung: number): BranchSum | null {
  if (question.kind !== "gather" || !rung) return null;
  const node = question.target[0]!;
  const run = circuit.run(question.leaves);
  const parts = circuit.readers[node]!.flatMap((wire) => {
    const sent = run.sent(wire);
    return sent === null ? [] : [{ wire, sent }];
  });
  const counted = countedIn(parts.map(({ sent }) => sent), typed);
  const branches = parts.map(({ wire, sent }, k): Branch => {
    const isTold = rung >= TELLING_RUNG && k === 0;
    return { wire, sent, state: counted.includes(k) ? "counted" : isTold ? "told" : "open" };
  });
  return { node, branches, typed };
}

/** The branches of which a number is the sum: one of them, or all but one. */
function countedIn(parts: readonly number[], typed: number | null): number[] {
  if (typed === null) return [];
  const one = parts.findIndex((part) => collides(part, typed));
  if (one >= 0) return [one];
  const whole = parts.reduce((sum, part) => sum + part, 0);
  const missing = parts.findIndex((part) => collides(whole - part, typed));
  return missing < 0 ? [] : [...parts.keys()].filter((k) => k !== missing);
}

interface Props {
  scene: Scene;
  paper: Rect;
  sum: BranchSum;
}

function wireOf({ picture }: Scene, [reader, slot]: Wire): PictureWire | undefined {
  return picture.wires.find((wire) => wire.reader === reader && wire.slot === slot);
}

/** Below the wires: what is missing is lit. */
export function BranchTubes({ scene, sum }: Props) {
  const missing = sum.branches.some(({ state }) => state === "counted") ? sum.branches.filter(({ state }) => state !== "counted") : [];
  return (
    <g class="asked-wire" aria-hidden="true">
      {missing.flatMap(({ wire }) => {
        const found = wireOf(scene, wire);
        return found ? pathsOf(found, scene.picture.sizes.corner).map((path) => <path key={path} d={path} />) : [];
      })}
    </g>
  );
}

const TAG = 26;

/** Places for a tag beside a wire, the better the nearer to its reader: branches part there. */
function nearReader(wire: PictureWire, wide: number): Offer[] {
  const end = wire.points.at(-1)!;
  const farFrom = ({ x, y, width: own, height }: Rect): number => Math.hypot(x + own / 2 - end.x, y + height / 2 - end.y);
  return besideWire(wire, wide, TAG, true).map((offer) => ({ ...offer, cost: offer.cost / 4 + farFrom(offer) / 4 }));
}

/** Above everything: a tag at each branch, and the sum beside the splitter. */
export function BranchMarks({ scene, paper, sum }: Props) {
  const room = roomOf(scene, paper);
  const taken: Rect[] = [];
  const font = scene.picture.sizes.numberFont;
  const card = cardOf(sum, font);
  const hub = hubOf(scene, sum.node);
  const at = hub && freePlace(room, taken, cardOffers(hub, card, paper));
  if (at) taken.push(at);
  const any = sum.branches.some(({ state }) => state === "counted");
  return (
    <g class="branches" aria-hidden="true" pointer-events="none">
      {at && hub && <Lead from={hub} to={at} />}
      {at && <SumCard at={at} card={card} font={font} />}
      {sum.branches.map((branch) => {
        const wire = wireOf(scene, branch.wire);
        const text = branch.state === "counted" ? showNumber(branch.sent) : branch.state === "told" ? showNumber(branch.sent) : "missing";
        const wide = width(text, font, true) + (branch.state === "counted" ? 34 : 18);
        const place = wire && (any || branch.state === "told") ? freePlace(room, taken, nearReader(wire, wide)) : null;
        if (!place) return null;
        taken.push(place);
        return <BranchTag key={branch.wire.join()} place={place} text={text} state={branch.state} font={font} />;
      })}
    </g>
  );
}

/** Where the branches meet: the splitter, or the box where none is drawn. */
function hubOf({ picture }: Scene, node: number): Rect | null {
  const splitter = splitterOf(picture, node);
  return picture.boxes[splitter >= 0 ? splitter : boxOf(picture, node)] ?? null;
}

/** Places for the sum: near the splitter, or at the lower or upper edge of the paper. */
function cardOffers(hub: Rect, { width: wide, height }: Card, paper: Rect): Offer[] {
  const x = Math.max(paper.x + 8, Math.min(hub.x + hub.width / 2 - wide / 2, paper.x + paper.width - wide - 8));
  const edges = [paper.y + paper.height - height - 10, paper.y + 10];
  const shifts = [0, 60, 120, 180, 240, -60, -120];
  return [
    ...aroundBox(hub, wide, height),
    ...edges.flatMap((y, k) => shifts.map((shift) => ({ x: x + shift, y, width: wide, height, cost: 120 + 30 * k + Math.abs(shift) / 4 }))),
  ];
}

function Lead({ from, to }: { from: Rect; to: Rect }) {
  const x = from.x + from.width / 2;
  const end = Math.max(to.x + 16, Math.min(x, to.x + to.width - 16));
  const isBelow = to.y > from.y;
  return <path class="lead" d={`M${x} ${isBelow ? from.y + from.height : from.y}L${end} ${isBelow ? to.y : to.y + to.height}`} />;
}

function BranchTag({ place, text, state, font }: { place: Rect; text: string; state: Branch["state"]; font: number }) {
  const base = place.y + place.height / 2 + font * 0.36;
  if (state === "open") return <text class="missing" x={place.x + place.width / 2} y={base} font-size={font} text-anchor="middle">{text}</text>;
  const isOwn = state === "counted";
  return (
    <g class={isOwn ? "pencil" : "told"}>
      <rect {...place} rx={7} />
      {isOwn && <path class="pen" d={PENCIL} transform={`translate(${place.x + 9} ${place.y + 8})`} />}
      <text x={place.x + (isOwn ? 25 : 9)} y={base} font-size={font}>{text}</text>
    </g>
  );
}

/** A piece of the sum, with its place in the card. */
interface Piece {
  text: string;
  look: "counted" | "told" | "open" | "sign" | "typed";
  x: number;
  width: number;
}

interface Card {
  pieces: Piece[];
  note: string;
  width: number;
  height: number;
}

const [PAD, GAP, SLOT] = [14, 8, 30] as const;

function cardOf({ branches, typed }: BranchSum, font: number): Card {
  const pieces: Piece[] = [];
  let x: number = PAD;
  const add = (text: string, look: Piece["look"]): void => {
    const isSlot = look !== "sign" && look !== "typed";
    const wide = isSlot ? Math.max(SLOT, width(text, font, true) + 14) : width(text, font, true);
    pieces.push({ text, look, x, width: wide });
    x += wide + GAP;
  };
  for (const [k, { state, sent }] of branches.entries()) {
    if (k) add("+", "sign");
    add(state === "open" ? "?" : k ? showFactor(sent) : showNumber(sent), state);
  }
  add("=", "sign");
  add(typed === null ? "?" : showNumber(typed), typed === null ? "open" : "typed");
  const counted = branches.filter(({ state }) => state === "counted").length;
  const note = counted ? `${counted} of ${branches.length} branches counted` : `${branches.length} branches come back`;
  return { pieces, note, width: Math.max(x - GAP + PAD, width(note, 12) + 2 * PAD), height: 66 };
}

function SumCard({ at, card, font }: { at: Rect; card: Card; font: number }) {
  const base = at.y + 24 + font * 0.36;
  return (
    <g class="sum-card">
      <rect class="frame" {...at} rx={12} />
      {card.pieces.map(({ text, look, x, width: wide }, k) => (
        <g key={k} class={look}>
          {look !== "sign" && look !== "typed" && <rect x={at.x + x} y={at.y + 10} width={wide} height={28} rx={7} />}
          <text x={at.x + x + wide / 2} y={base} font-size={font} text-anchor="middle">{text}</text>
          {look === "typed" && <path class="squiggle" d={squiggle(at.x + x, base + 4, wide)} />}
        </g>
      ))}
      <text class="note" x={at.x + at.width / 2} y={at.y + 56} font-size={12} text-anchor="middle">{card.note}</text>
    </g>
  );
}
