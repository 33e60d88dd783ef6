/** Boxes of the circuit: leaves, function nodes and groups as cards, splitters as dots. */
import type { Row } from "../layout/faces";
import { boxFace, type BoxFace, type Scene } from "../layout/faces";
import { FONT, HEAD, PAD, SMALL } from "../layout/figure";
import { width } from "../layout/letters";
import type { PictureBox } from "../layout";
import { arrowPath, cellPath, hatchPath, LOOKS, rowLook, SYMBOL } from "./circuit-look";

interface Props {
  scene: Scene;
  box: PictureBox;
  id: string;
  chosen: boolean;
  lit: boolean;
}

/** One box, with the name that assistive technology reads. */
export function BoxView({ scene, box, id, chosen, lit }: Props) {
  const face = boxFace(scene, box);
  return (
    <g id={id} class={`box ${box.kind}`} {...SYMBOL} aria-roledescription={box.kind} aria-label={face.name}
      data-box={id} cursor="pointer">
      {(chosen || lit) && <Ring box={box} strong={chosen} />}
      {box.kind === "splitter" ? <Dot scene={scene} box={box} /> : <Card box={box} face={face} />}
      {box.mark && <OutputMark box={box} down={scene.picture.down} />}
    </g>
  );
}

function roundness(box: PictureBox): number {
  return box.kind === "input" || box.kind === "constant" ? 12 : 5;
}

/** The ring around a box that is selected or pointed at. */
function Ring({ box, strong }: { box: PictureBox; strong: boolean }) {
  const by = box.kind === "splitter" ? 6 : 4;
  return (
    <rect {...LOOKS.halo} class="ring" x={box.x - by} y={box.y - by} width={box.width + 2 * by}
      height={box.height + 2 * by} rx={roundness(box) + by} stroke-width={strong ? 3 : 1.5} />
  );
}

function Card({ box, face }: { box: PictureBox; face: BoxFace }) {
  const round = roundness(box);
  const frame = { x: box.x, y: box.y, width: box.width, height: box.height, rx: round };
  const head = face.rows.length ? HEAD : box.height;
  return (
    <>
      {box.kind === "group" && <rect {...LOOKS.back} {...frame} x={box.x + 4} y={box.y + 4} />}
      <rect {...LOOKS.box} {...frame} />
      <path {...LOOKS.head} d={cellPath(box.x, box.y, box.width, head, round, face.rows.length ? 0 : round)} />
      <Head box={box} height={head} />
      <Rows box={box} rows={face.rows} round={round} />
      <rect {...(box.outputs.length ? LOOKS.output : LOOKS.edge)} {...frame} />
      {face.kink && <Badge x={box.x + box.width} y={box.y} />}
    </>
  );
}

function Head({ box, height }: { box: PictureBox; height: number }) {
  const y = box.y + height / 2 + 4;
  if (!box.title) return <text {...LOOKS.name} x={box.x + box.width / 2} y={y} text-anchor="middle">{box.op}</text>;
  return (
    <>
      <text {...LOOKS.name} x={box.x + PAD} y={y}>{box.title}</text>
      <text {...LOOKS.op} x={box.x + box.width - PAD} y={y} text-anchor="end">{box.op}</text>
    </>
  );
}

/** The rows share what is under the head; the last takes what is left over. */
function Rows({ box, rows, round }: { box: PictureBox; rows: readonly Row[]; round: number }) {
  const tall = Math.floor((box.height - HEAD) / Math.max(1, rows.length));
  return (
    <>
      {rows.map((row, k) => {
        const last = k === rows.length - 1;
        const y = box.y + HEAD + tall * k;
        const height = last ? box.y + box.height - y : tall;
        const place = { x: box.x, y, width: box.width, height, round: last ? round : 0 };
        return <RowView key={row.what} row={row} place={place} />;
      })}
    </>
  );
}

interface Place {
  x: number;
  y: number;
  width: number;
  height: number;
  /** How round the lower corners are. */
  round: number;
}

function RowView({ row, place }: { row: Row; place: Place }) {
  const { x, y, width: wide, height } = place;
  const base = y + height / 2 + 4;
  const text = row.clipped ? `${row.text} \u2191` : row.text;
  return (
    <g class={`row ${row.mark}`}>
      <Ground row={row} place={place} />
      <text {...LOOKS.what} x={x + PAD} y={base}>{row.what}</text>
      <text {...rowLook(row.mark)} x={x + wide - PAD} y={base} text-anchor="end">{text}</text>
      <path {...LOOKS.rule} d={`M${x} ${y}h${wide}`} />
    </g>
  );
}

/** What lies under a number: its tone, a hatch if it is not finite, stripes if stale, a hollow if there is none. */
function Ground({ row, place }: { row: Row; place: Place }) {
  const { x, y, width: wide, height, round } = place;
  if (row.mark === "bad") return <Hatched row={row} place={place} step={6} />;
  if (row.mark === "stale") return <Hatched row={row} place={place} step={4} />;
  if (row.tone) return <path d={cellPath(x, y, wide, height, 0, round)} fill={`var(--wg-t_${row.tone})`} />;
  if (row.mark === "final") return null;
  const room = Math.max(26, width(row.text, FONT) + 12);
  return <rect {...LOOKS.hollow} x={x + wide - PAD + 5 - room} y={y + 3} width={room} height={height - 6} rx={5} />;
}

/** Strokes with patches under the words, so that they do not run through them. */
function Hatched({ row, place, step }: { row: Row; place: Place; step: number }) {
  const { x, y, width: wide, height, round } = place;
  // Straight strokes would show outside round corners.
  const corner = Math.floor(round / 3);
  const [left, right] = [width(row.what, SMALL) + 8, width(row.text, FONT, row.mark === "bad") + 8];
  const patch = { ...LOOKS.box, y: y + 1, height: height - 1 - corner, rx: 4 };
  return (
    <>
      <path {...(row.mark === "bad" ? LOOKS.hatch : LOOKS.stale)}
        d={hatchPath(x + corner, y, wide - 2 * corner, height - corner, step)} />
      <rect {...patch} x={x + PAD - 4} width={left} />
      <rect {...patch} x={x + wide - PAD + 4 - right} width={right} />
    </>
  );
}

/** The mark of a node on a kink. */
function Badge({ x, y }: { x: number; y: number }) {
  return (
    <g class="kink">
      <path {...LOOKS.badge} d={`M${x} ${y - 7}l7 7l-7 7l-7 -7z`} />
      <text {...LOOKS.what} font-weight={700} x={x} y={y + 4} text-anchor="middle">!</text>
    </g>
  );
}

/** A splitter; hollow while it waits for gradients, with a wide place to press. */
function Dot({ scene, box }: { scene: Scene; box: PictureBox }) {
  const r = box.width / 2;
  const [x, y] = [box.x + r, box.y + r];
  const waiting = scene.known.grad[box.node] === "partial";
  return (
    <>
      <circle cx={x} cy={y} r={12} fill="transparent" />
      <circle {...(waiting ? LOOKS.waiting : LOOKS.dot)} cx={x} cy={y} r={waiting ? r - 1 : r} />
    </>
  );
}

/** The arrow out of an output, with its label. */
function OutputMark({ box, down }: { box: PictureBox; down: boolean }) {
  const [x, y] = down ? [box.x + box.width / 2, box.y + box.height] : [box.x + box.width, box.y + box.height / 2];
  const tip = down ? { x, y: y + 18 } : { x: x + 18, y };
  return (
    <g class="output">
      <path {...LOOKS.plain} d={down ? `M${x} ${y}v10` : `M${x} ${y}h10`} />
      <path fill="var(--wg-line)" d={arrowPath(tip, down)} />
      <text {...LOOKS.net} x={down ? x + 8 : x + 22} y={down ? y + 14 : y + 4}>{box.mark}</text>
    </g>
  );
}
