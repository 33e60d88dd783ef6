/** Boxes of the circuit: function nodes with their sign, leaves with two rows, splitters, closed groups, outputs. */
import type { VNode } from "preact";
import { mathParts, type PictureBox, type Slot, type Sizes } from "../layout";
import { boxFace, type BoxFace, type Row, type Scene } from "../layout/faces";
import { GRADIENT, type Rect } from "../layout/figure";
import { width } from "../layout/letters";
import { read, slotText } from "../layout/readings";
import { thickness, tone, wireColour } from "../layout/scale";
import type { BoxAct } from "./circuit-acts";
import { cellPath, hatchPath, headPath, LOOKS, numberLook, SYMBOL } from "./circuit-look";
import { Hollow, NoGradient } from "./circuit-wires";
import { inkWidth } from "./ink";
import type { Keep } from "./kept";

interface Props {
  scene: Scene;
  box: PictureBox;
  id: string;
  chosen: boolean;
  lit: boolean;
  act: BoxAct | undefined;
  /** Whether its value can be changed here. */
  editable: boolean;
}

/** Draw a box, with the name that assistive technology reads; anew only if its own look has changed. */
export function drawBox(keep: Keep, { scene, box, id, chosen, lit, act, editable }: Props): VNode {
  const face = boxFace(scene, box);
  const sum = accumulated(scene, box);
  const colour = box.mark ? outputColour(scene, box) : "";
  const look = JSON.stringify([face, sum, colour, chosen, lit, act, editable, id, scene.backward, progressOf(scene, box)]);
  return keep(id, look, box, () => (
    <g key={id} id={id} class={`box ${box.kind}${chosen ? " chosen" : ""}`} {...SYMBOL} aria-roledescription={box.kind}
      aria-label={sum ? `${face.name}, ${sum.told}` : face.name} data-box={id} cursor="pointer">
      <rect fill="transparent" {...pressable(box)} />
      {lit && <Ring box={box} />}
      {box.mark && <Output box={box} face={face} colour={colour} sizes={scene.picture.sizes} />}
      {box.kind === "splitter" && <Splitter scene={scene} box={box} />}
      {box.kind === "node" && <NodeBox box={box} face={face} sizes={scene.picture.sizes} act={act} backward={scene.backward} />}
      {(box.kind === "input" || box.kind === "constant") && (
        <Leaf box={box} face={face} sizes={scene.picture.sizes} act={act} sum={sum} editable={editable} />
      )}
      {box.kind === "group" && <Group box={box} face={face} scene={scene} act={act} />}
      {act?.fires && <rect class="firing" {...around(box, 4)} />}
      {chosen && <Focus box={box} />}
      {face.kink && <Badge x={box.x + box.width} y={box.y} />}
    </g>
  ));
}

/** What an input had before this pass, and what it has now; null where nothing was carried over. */
interface Accumulated {
  label: string;
  told: string;
}

function accumulated({ known, run, active }: Scene, { kind, node }: PictureBox): Accumulated | null {
  const old = kind === "input" && active[node] ? (known.carried?.old[node] ?? null) : null;
  if (old === null) return null;
  const before = slotText(read(old));
  const added = known.carried?.added[node] ?? null;
  if (known.grad[node] !== "final" || added === null) return { label: "old", told: "from the pass before" };
  const found = slotText(read(added));
  const shown = /^\u2212/.test(found) ? `(${found})` : found;
  return { label: `${before} + ${shown} =`, told: `${before} + ${shown} = ${slotText(read(run.grads[node] ?? null))}` };
}

/** How much of a group is computed: shares of its values and of its gradients. */
function progressOf({ known, active }: Scene, { kind, members }: PictureBox): [number, number] {
  if (kind !== "group" || !members.length) return [0, 0];
  const moving = members.filter((node) => active[node]);
  const share = (count: number, of: number): number => (of ? count / of : 0);
  const values = members.filter((node) => known.value[node]).length;
  const grads = moving.filter((node) => known.grad[node] === "final").length;
  return [share(values, members.length), share(grads, moving.length)];
}

function roundness(box: PictureBox): number {
  if (box.kind === "node") return 10;
  return box.kind === "group" ? 12 : Math.round(box.height / 2.6);
}

/** Where a press means a box: on it, on its numbers, and on the way to its name as an output. */
function pressable({ x, y, width: wide, height, valueSlot, gradSlot, mark }: PictureBox): Rect {
  const places = [{ x, y, width: wide, height }, valueSlot, gradSlot, mark?.name ?? null].flatMap((place) => place ?? []);
  const [left, top] = [Math.min(...places.map((place) => place.x)), Math.min(...places.map((place) => place.y))];
  const right = Math.max(...places.map((place) => place.x + place.width));
  const bottom = Math.max(...places.map((place) => place.y + place.height));
  return { x: left, y: top, width: right - left, height: bottom - top };
}

/** A rectangle around a box, so far outside it. */
function around(box: PictureBox, by: number): Readonly<Record<string, number>> {
  const splitter = box.kind === "splitter";
  const round = splitter ? box.width / 2 : roundness(box);
  return { x: box.x - by, y: box.y - by, width: box.width + 2 * by, height: box.height + 2 * by, rx: round + by };
}

/** The ring around a box that is pointed at. */
function Ring({ box }: { box: PictureBox }) {
  return <rect {...LOOKS.halo} class="ring" {...around(box, 4)} stroke-width={1.5} />;
}

/** The highlighter behind a box that fires; it stands in a layer of its own, below all wires. */
export function Highlight({ box }: { box: PictureBox }) {
  return <rect class="highlight" {...around(box, 10)} />;
}

/** The dotted ring around what has the focus of the keyboard: shown only while the circuit has it. */
function Focus({ box }: { box: PictureBox }) {
  return <rect class="focus" {...around(box, 10)} />;
}

/** A name or an expression as a book would set it. */
export function MathText({ text, slot, font, colour }: { text: string; slot: Slot; font: number; colour: string }) {
  let low = false;
  return (
    <text x={slot.at.x} y={slot.at.y} text-anchor={slot.anchor} font-size={font} fill={colour} class="math">
      {mathParts(text).map(({ text: part, look }, k) => {
        const sub = look === "subscript";
        const shift = sub === low ? 0 : (sub ? 1 : -1) * font * 0.22;
        low = sub;
        return (
          <tspan key={k} {...(shift ? { dy: shift } : {})} font-style={look === "italic" ? "italic" : "normal"}
            font-size={sub ? font * 0.72 : font}>{part}</tspan>
        );
      })}
    </text>
  );
}

interface FiguresProps {
  row: Row;
  slot: Slot;
  font: number;
  plain?: boolean;
  /** Whether this step reads the number, or makes it. */
  act: BoxAct | undefined;
  editable?: boolean;
}

/** A number in its slot: hollow while there is none, inverted if it is not finite, squeezed if it is too long. */
function Figures({ row, slot, font, plain, act, editable }: FiguresProps) {
  if (row.mark === "none") return <Hollow slot={slot} font={font} />;
  if (row.mark === "blocked") return <NoGradient slot={slot} plain={plain === true} />;
  const bold = row.mark === "bad" || row.what === "gradient";
  const natural = inkWidth(row.text, font, bold);
  const wide = Math.min(slot.width, natural);
  const left = slot.anchor === "start" ? slot.at.x : slot.anchor === "end" ? slot.at.x - wide : slot.at.x - wide / 2;
  const reads = act?.reads === row.what && row.mark !== "bad";
  const squeezed = natural > slot.width ? { textLength: slot.width, lengthAdjust: "spacingAndGlyphs" } : {};
  const look = reads ? { fill: "var(--wg-on-now)", "font-weight": 650 } : { ...(plain ? {} : LOOKS.outlined), ...numberLook(row, plain === true) };
  return (
    <g class={`figure ${row.mark}${act?.lands === row.what ? " lands" : ""}`}>
      {row.mark === "bad" && <rect {...LOOKS.inverted} x={left - 4} y={slot.at.y - font} width={wide + 8} height={font + 4} rx={3} />}
      {reads && <rect class="read" x={left - 6} y={slot.at.y - font - 3} width={wide + 12} height={font + 8} rx={6} />}
      <text {...look} font-size={font} x={slot.at.x} y={slot.at.y} text-anchor={slot.anchor} {...squeezed}>{row.text}</text>
      {editable && !reads && <path class="drag" d={`M${left} ${slot.at.y + 3.5}h${wide}`} />}
    </g>
  );
}

interface PartProps {
  box: PictureBox;
  face: BoxFace;
  sizes: Sizes;
  act: BoxAct | undefined;
}

function NodeBox({ box, face, sizes, act, backward }: PartProps & { backward: boolean }) {
  const font = box.isWord ? sizes.wordFont : sizes.signFont;
  const idle = face.value?.mark === "none";
  const bad = face.value?.mark === "bad" || face.grad?.mark === "bad";
  const frame = { x: box.x, y: box.y, width: box.width, height: box.height, rx: roundness(box) };
  const middle = box.y + box.height / 2;
  return (
    <>
      <rect {...LOOKS.box} {...frame} />
      {bad && <path {...LOOKS.hatch} d={hatchPath(box.x + 3, box.y + 3, box.width - 6, box.height - 6, 6)} />}
      {bad && <rect {...LOOKS.box} x={box.x + 6} y={middle - 13} width={box.width - 12} height={26} rx={4} />}
      <rect {...(idle ? LOOKS.idle : LOOKS.edge)} class="edge" {...frame} />
      <text {...LOOKS.sign} font-size={font} fill={idle ? "var(--wg-muted)" : "var(--wg-ink)"} x={box.x + box.width / 2}
        y={middle + font * 0.36}>{box.sign}</text>
      {box.captionSlot && (
        <MathText text={box.captionText} slot={box.captionSlot} font={sizes.labelFont} colour="var(--wg-muted)" />
      )}
      {face.value && box.valueSlot && <Figures row={face.value} slot={box.valueSlot} font={sizes.numberFont} act={act} />}
      {face.grad && box.gradSlot && (backward || face.grad.mark !== "none") && (
        <Figures row={face.grad} slot={box.gradSlot} font={sizes.numberFont} act={act} />
      )}
    </>
  );
}

interface RowsProps extends PartProps {
  sum?: Accumulated | null | undefined;
  editable?: boolean | undefined;
}

function Leaf({ box, face, sizes, act, sum, editable }: RowsProps) {
  const round = roundness(box);
  const frame = { x: box.x, y: box.y, width: box.width, height: box.height, rx: round };
  return (
    <>
      <rect {...LOOKS.box} {...frame} />
      <Cell box={box} face={face} round={round} />
      <rect {...LOOKS.leaf} class="edge" {...frame} />
      {box.nameSlot && <MathText text={box.sign} slot={box.nameSlot} font={sizes.nameFont} colour="var(--wg-ink)" />}
      <Rows box={box} face={face} sizes={sizes} act={act} sum={sum} editable={editable} />
    </>
  );
}

/** The lower part of a leaf or a group, in the colour of its gradient. */
function Cell({ box, face, round }: { box: PictureBox; face: BoxFace; round: number }) {
  const { cell } = box;
  const { grad } = face;
  if (!cell || !grad) return null;
  const { x, y, width: wide, height } = cell;
  return (
    <>
      {grad.tone && grad.tone !== "x" && (
        <path d={cellPath(x, y, wide, height, 0, round)} fill={`var(--wg-t_${grad.tone})`} />
      )}
      {grad.mark === "bad" && <path {...LOOKS.hatch} d={hatchPath(x + 6, y, wide - 12, height - 2, 6)} />}
      <path {...LOOKS.rule} d={`M${x} ${y}h${wide}`} />
    </>
  );
}

function Rows({ box, face, sizes, act, sum, editable }: RowsProps) {
  const { value, grad } = face;
  return (
    <>
      {grad && <Word box={box} row={grad} sizes={sizes} sum={sum ?? null} />}
      {value && box.valueSlot && (
        <Figures row={value} slot={box.valueSlot} font={sizes.numberFont} plain act={act} editable={editable === true} />
      )}
      {grad && box.gradSlot && <Figures row={grad} slot={box.gradSlot} font={sizes.numberFont} plain act={act} />}
    </>
  );
}

/** What stands before a gradient: the word for it, or what it is the sum of. */
function Word({ box, row, sizes, sum }: { box: PictureBox; row: Row; sizes: Sizes; sum: Accumulated | null }) {
  const { wordSlot, gradSlot } = box;
  if (!gradSlot || (!wordSlot && !sum) || (row.mark === "blocked" && !sum)) return null;
  const at = wordSlot?.at ?? { x: box.x + sizes.pad, y: gradSlot.at.y };
  const waits = row.mark === "none";
  const text = sum?.label ?? (row.mark === "partial" ? "so far" : GRADIENT);
  const room = gradSlot.at.x - width(row.text, sizes.numberFont, true) - 4 - at.x;
  const squeezed = sum && width(text, 11) > room ? { textLength: Math.max(20, room), lengthAdjust: "spacingAndGlyphs" } : {};
  return (
    <>
      {row.mark === "bad" && wordSlot && <rect {...LOOKS.box} {...patchUnder(wordSlot)} />}
      <text {...(waits ? LOOKS.small : LOOKS.what)} x={at.x} y={at.y} class={sum ? "sum" : undefined} {...squeezed}>{text}</text>
    </>
  );
}

/** A title that is wider than its slot in the font of the reader is squeezed into it. */
function squeezedInto({ width: room }: Slot, title: string) {
  return inkWidth(title, LOOKS.name["font-size"], true) > room ? { textLength: room, lengthAdjust: "spacingAndGlyphs" } : {};
}

/** A place free of hatching, on which a word can be read. */
function patchUnder({ x, y, width: wide, height }: Slot) {
  return { x: x - 3, y: y - 3, width: wide + 6, height: height + 6, rx: 3 };
}

function Group({ box, face, scene, act }: { box: PictureBox; face: BoxFace; scene: Scene; act: BoxAct | undefined }) {
  const { sizes } = scene.picture;
  const frame = { x: box.x, y: box.y, width: box.width, height: box.height, rx: 12 };
  const bad = face.rows.find(({ what }) => what === "not finite");
  const shares = progressOf(scene, box);
  return (
    <>
      <rect {...LOOKS.back} {...frame} x={box.x + 4} y={box.y + 4} />
      <rect {...LOOKS.box} {...frame} />
      <Cell box={box} face={face} round={12} />
      <rect {...LOOKS.edge} class="edge" {...frame} />
      {box.nameSlot && <text {...LOOKS.name} {...squeezedInto(box.nameSlot, box.sign)} x={box.nameSlot.at.x} y={box.nameSlot.at.y}>{box.sign}</text>}
      {box.textSlot && (
        <text {...LOOKS.small} x={box.textSlot.at.x} y={box.textSlot.at.y}>
          {bad?.mark === "bad" ? `${box.text}, ${bad.text} not finite` : box.text}
        </text>
      )}
      {box.bars.map((bar, k) => (
        <>
          <rect class="bar-room" {...bar} rx={2} />
          <rect class={k ? "bar-grads" : "bar-values"} {...bar} width={bar.width * shares[k]!} rx={2} />
        </>
      ))}
      <Rows box={box} face={face} sizes={sizes} act={act} />
    </>
  );
}

/** A splitter: a dot while it copies, a plus in a ring once gradients come back, with a wide place to press. */
function Splitter({ scene, box }: { scene: Scene; box: PictureBox }) {
  const { x, y } = box.out;
  const { splitter, dot } = scene.picture.sizes;
  const r = splitter / 2;
  return (
    <>
      <circle cx={x} cy={y} r={14} fill="transparent" />
      {scene.backward ? (
        <>
          <circle {...LOOKS.adder} cx={x} cy={y} r={r} />
          <path {...LOOKS.plus} d={`M${x - r / 2} ${y}h${r}M${x} ${y - r / 2}v${r}`} />
        </>
      ) : (
        <circle {...LOOKS.dot} cx={x} cy={y} r={dot / 2} />
      )}
    </>
  );
}

/** The colour of the wire to the dot of an output, once it has a gradient. */
function outputColour(scene: Scene, box: PictureBox): string {
  const { node } = box;
  const grad = scene.known.grad[node] === "final" ? (scene.run.grads[node] ?? null) : null;
  if (grad === null) return "";
  const { size } = read(grad);
  return `${wireColour(scene.scale, size, tone(scene.scale, size, scene.mode === "signed"))} ${thickness(scene.scale, size)}`;
}

/** The dot of an output, its name, and the wire to it in the state that it is in. */
function Output({ box, face, colour, sizes }: { box: PictureBox; face: BoxFace; colour: string; sizes: Sizes }) {
  const { from, dot, text, name } = box.mark!;
  const future = face.value?.mark === "none";
  const cut = colour.lastIndexOf(" ");
  const [ink, thick] = colour ? [colour.slice(0, cut), Number(colour.slice(cut))] : ["var(--wg-line)", 1.7];
  const size = Math.max(7, 2 * thick);
  const down = dot.y > from.y + 1;
  const start = colour ? (down ? { x: from.x, y: from.y + size } : { x: from.x + size, y: from.y }) : from;
  const dash = future ? ({ "stroke-dasharray": "1.5 4.5", "stroke-linecap": "round" } as const) : {};
  return (
    <g class="output">
      <path d={`M${start.x} ${start.y}L${dot.x} ${dot.y}`} fill="none" stroke={ink} stroke-width={thick} {...dash} />
      {colour && <path class="head" d={headPath(from, down, true, size)} fill={ink} />}
      <circle cx={dot.x} cy={dot.y} r={sizes.dot / 2 - 0.5} fill={future ? "var(--wg-paper)" : "var(--wg-ink)"}
        stroke={future ? "var(--wg-line)" : "var(--wg-ink)"} stroke-width={1.5} />
      <MathText text={text} slot={name} font={sizes.nameFont} colour="var(--wg-ink)" />
    </g>
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
