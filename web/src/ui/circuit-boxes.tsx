/** Boxes of the circuit: function nodes with their sign, leaves with two rows, splitters, closed groups, outputs. */
import { mathParts, type PictureBox, type Slot, type Sizes } from "../layout";
import { boxFace, type BoxFace, type Row, type Scene } from "../layout/faces";
import { GRADIENT } from "../layout/figure";
import { width } from "../layout/letters";
import { cellPath, hatchPath, LOOKS, numberLook, SYMBOL } from "./circuit-look";

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
  const { sizes } = scene.picture;
  return (
    <g id={id} class={`box ${box.kind}`} {...SYMBOL} aria-roledescription={box.kind} aria-label={face.name}
      data-box={id} cursor="pointer">
      {(chosen || lit) && <Ring box={box} strong={chosen} />}
      {box.kind === "splitter" && <Splitter scene={scene} box={box} />}
      {box.kind === "node" && <NodeBox box={box} face={face} sizes={sizes} />}
      {(box.kind === "input" || box.kind === "constant") && <Leaf box={box} face={face} sizes={sizes} />}
      {box.kind === "group" && <Group box={box} face={face} sizes={sizes} />}
      {box.mark && <Output box={box} sizes={sizes} />}
      {face.kink && <Badge x={box.x + box.width} y={box.y} />}
    </g>
  );
}

function roundness(box: PictureBox): number {
  if (box.kind === "node") return 10;
  return box.kind === "group" ? 12 : Math.round(box.height / 2.6);
}

/** The ring around a box that is selected or pointed at. */
function Ring({ box, strong }: { box: PictureBox; strong: boolean }) {
  return (
    <rect {...LOOKS.halo} class="ring" x={box.x - 4} y={box.y - 4} width={box.width + 8} height={box.height + 8}
      rx={roundness(box) + 4} stroke-width={strong ? 3 : 1.5} />
  );
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

/** A number in its slot: hollow while there is none, inverted if it is not finite, squeezed if it is too long. */
export function Figures({ row, slot, font, plain }: { row: Row; slot: Slot; font: number; plain?: boolean }) {
  const bold = row.mark === "bad" || (row.what === "gradient" && row.mark !== "none");
  const natural = width(row.text, font, bold);
  const wide = Math.min(slot.width, natural);
  const left = slot.anchor === "start" ? slot.at.x : slot.anchor === "end" ? slot.at.x - wide : slot.at.x - wide / 2;
  if (row.mark === "none") {
    const room = 26;
    const x = slot.anchor === "start" ? slot.at.x : slot.anchor === "end" ? slot.at.x - room : slot.at.x - room / 2;
    const middle = slot.at.y - font * 0.36;
    return (
      <g class="hollow">
        <rect {...LOOKS.hollow} x={x} y={middle - 7} width={room} height={14} rx={7} />
        <path {...LOOKS.dash} d={`M${x + room / 2 - 3.5} ${middle}h7`} />
      </g>
    );
  }
  const squeezed = natural > slot.width ? { textLength: slot.width, lengthAdjust: "spacingAndGlyphs" } : {};
  return (
    <g class={`figure ${row.mark}`}>
      {row.mark === "bad" && <rect {...LOOKS.inverted} x={left - 4} y={slot.at.y - font} width={wide + 8} height={font + 4} rx={3} />}
      <text {...(plain ? {} : LOOKS.outlined)} {...numberLook(row, plain === true)} font-size={font} x={slot.at.x}
        y={slot.at.y} text-anchor={slot.anchor} {...squeezed}>{row.text}</text>
    </g>
  );
}

function NodeBox({ box, face, sizes }: { box: PictureBox; face: BoxFace; sizes: Sizes }) {
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
      <rect {...(idle ? LOOKS.idle : LOOKS.edge)} {...frame} />
      <text {...LOOKS.sign} font-size={font} fill={idle ? "var(--wg-muted)" : "var(--wg-ink)"} x={box.x + box.width / 2}
        y={middle + font * 0.36}>{box.sign}</text>
      {box.captionSlot && (
        <MathText text={box.captionText} slot={box.captionSlot} font={sizes.labelFont} colour="var(--wg-muted)" />
      )}
      {face.value && box.valueSlot && <Figures row={face.value} slot={box.valueSlot} font={sizes.numberFont} />}
      {face.grad && box.gradSlot && <Figures row={face.grad} slot={box.gradSlot} font={sizes.numberFont} />}
    </>
  );
}

function Leaf({ box, face, sizes }: { box: PictureBox; face: BoxFace; sizes: Sizes }) {
  const round = roundness(box);
  const frame = { x: box.x, y: box.y, width: box.width, height: box.height, rx: round };
  return (
    <>
      <rect {...LOOKS.box} {...frame} />
      <Cell box={box} face={face} round={round} />
      <rect {...LOOKS.leaf} {...frame} />
      {box.nameSlot && <MathText text={box.sign} slot={box.nameSlot} font={sizes.nameFont} colour="var(--wg-ink)" />}
      <Rows box={box} face={face} sizes={sizes} />
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

function Rows({ box, face, sizes }: { box: PictureBox; face: BoxFace; sizes: Sizes }) {
  const waits = face.grad?.mark === "none";
  return (
    <>
      {box.wordSlot && face.grad && (
        <text {...(waits ? LOOKS.small : LOOKS.what)} x={box.wordSlot.at.x} y={box.wordSlot.at.y}>
          {face.grad.mark === "partial" ? "so far" : GRADIENT}
        </text>
      )}
      {face.value && box.valueSlot && <Figures row={face.value} slot={box.valueSlot} font={sizes.numberFont} plain />}
      {face.grad && box.gradSlot && <Figures row={face.grad} slot={box.gradSlot} font={sizes.numberFont} plain />}
    </>
  );
}

function Group({ box, face, sizes }: { box: PictureBox; face: BoxFace; sizes: Sizes }) {
  const frame = { x: box.x, y: box.y, width: box.width, height: box.height, rx: 12 };
  const bad = face.rows.find(({ what }) => what === "not finite");
  return (
    <>
      <rect {...LOOKS.back} {...frame} x={box.x + 4} y={box.y + 4} />
      <rect {...LOOKS.box} {...frame} />
      <Cell box={box} face={face} round={12} />
      <rect {...LOOKS.edge} {...frame} />
      {box.nameSlot && <text {...LOOKS.name} x={box.nameSlot.at.x} y={box.nameSlot.at.y}>{box.sign}</text>}
      {box.textSlot && (
        <text {...LOOKS.small} x={box.textSlot.at.x} y={box.textSlot.at.y}>
          {bad?.mark === "bad" ? `${box.text}, ${bad.text} not finite` : box.text}
        </text>
      )}
      <Rows box={box} face={face} sizes={sizes} />
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

/** The dot of an output, and its name. */
function Output({ box, sizes }: { box: PictureBox; sizes: Sizes }) {
  const { mark } = box;
  if (!mark) return null;
  return (
    <g class="output">
      <path {...LOOKS.plain} d={`M${mark.from.x} ${mark.from.y}L${mark.dot.x} ${mark.dot.y}`} />
      <circle {...LOOKS.dot} cx={mark.dot.x} cy={mark.dot.y} r={sizes.dot / 2} />
      <MathText text={mark.text} slot={mark.name} font={sizes.nameFont} colour="var(--wg-ink)" />
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
