/** Wires of the circuit: strokes, and on top of them what is pressed and read. */
import type { PictureWire, Sizes, Slot } from "../layout";
import { wireFace, type Scene, type WireFace } from "../layout/faces";
import { width } from "../layout/letters";
import { headPath, LOOKS, roundedPath, sentLook, SYMBOL, wireLook } from "./circuit-look";

/** The paths of a wire: one, or its two ends if it is a stub. */
function pathsOf(wire: PictureWire, corner: number): string[] {
  return wire.lines.map((points) => roundedPath(points, corner));
}

/** All strokes, the strongest last: branches of one value share a trunk, and the strongest is the one seen there. */
export function Strokes({ scene, faces }: { scene: Scene; faces: readonly WireFace[] }) {
  const order = [...faces.keys()].sort((a, b) => (faces[a]?.width ?? 1) - (faces[b]?.width ?? 1));
  return (
    <g aria-hidden="true" class="strokes">
      {order.map((k) => {
        const [wire, face] = [scene.picture.wires[k], faces[k]];
        return wire && face && <Stroke key={k} scene={scene} wire={wire} face={face} />;
      })}
    </g>
  );
}

function Stroke({ scene, wire, face }: { scene: Scene; wire: PictureWire; face: WireFace }) {
  const { boxes, down, sizes } = scene.picture;
  const computed = scene.known.value[wire.source] === true;
  const paths = pathsOf(wire, sizes.corner);
  const striped = face.mark === "bad" || face.mark === "stale";
  const back = scene.backward && scene.active[wire.source] === true;
  const [at, box] = back ? [wire.points[0], boxes[wire.from]] : [wire.points.at(-1), boxes[wire.to]];
  const size = Math.max(7, 2 * face.width);
  return (
    <>
      {paths.map((path) => <path key={path} {...wireLook(face, computed, wire.shape !== "")} d={path} />)}
      {striped && paths.map((path) => <path key={`${path} stripe`} {...LOOKS.stripe} d={path} />)}
      {wire.slash && <path {...LOOKS.slash} d={`M${wire.slash.x - 4} ${wire.slash.y + 7}l8 -14`} />}
      {at && box?.kind !== "splitter" && (
        <path d={headPath(at, down, back, size)} fill={computed && face.mark !== "none" || !back && computed ? face.colour : "var(--wg-paper)"}
          stroke={face.colour} stroke-width={1.2} stroke-linejoin="round" />
      )}
    </>
  );
}

interface Props {
  scene: Scene;
  wire: PictureWire;
  face: WireFace;
  id: string;
  chosen: boolean;
  lit: boolean;
  /** Whether the name of a stub stands at its source too. */
  named: boolean;
}

/** One wire as it is pressed and read: a wide place to press, labels, and the name. */
export function WireView({ scene, wire, face, id, chosen, lit, named }: Props) {
  const { sizes } = scene.picture;
  const glow = { ...LOOKS.halo, class: "glow", "stroke-width": 10, "stroke-opacity": chosen ? 0.5 : 0.25 };
  return (
    <g id={id} class={`wire ${face.mark}`} {...SYMBOL} aria-roledescription="wire" aria-label={face.name}
      data-wire={id} cursor="pointer">
      {pathsOf(wire, sizes.corner).map((path) => (
        <>
          <path {...LOOKS.halo} d={path} pointer-events="stroke" stroke-width={14} stroke-opacity={0} />
          {(chosen || lit) && <path {...glow} d={path} />}
        </>
      ))}
      {wire.pillSlot && face.local && <Pill text={face.local} slot={wire.pillSlot} sizes={sizes} />}
      {wire.sentSlot && face.sent && (
        <text {...LOOKS.outlined} {...sentLook(face.mark, face.tone)} class="sent" font-size={sizes.numberFont}
          x={wire.sentSlot.at.x} y={wire.sentSlot.at.y} text-anchor={wire.sentSlot.anchor}>{face.sent}</text>
      )}
      {wire.nets.slice(named ? 0 : 1).map(({ at, anchor }) => (
        <text key={at.x} {...LOOKS.net} {...LOOKS.outlined} x={at.x} y={at.y} text-anchor={anchor}>{wire.net}</text>
      ))}
    </g>
  );
}

/** The local derivative at a port. */
function Pill({ text, slot, sizes }: { text: string; slot: Slot; sizes: Sizes }) {
  const natural = width(text, sizes.pillFont, true) + 14;
  const wide = Math.min(slot.width, natural);
  const { at, anchor } = slot;
  const x = anchor === "start" ? at.x : anchor === "end" ? at.x - wide : at.x - wide / 2;
  const squeezed = natural > slot.width ? { textLength: wide - 10, lengthAdjust: "spacingAndGlyphs" } : {};
  return (
    <g class="local">
      <rect {...LOOKS.pill} x={x} y={slot.y} width={wide} height={slot.height} rx={slot.height / 2} />
      <text {...LOOKS.factor} font-size={sizes.pillFont} x={x + wide / 2} y={at.y} {...squeezed}>{text}</text>
    </g>
  );
}

/** The faces of all wires. */
export function facesOf(scene: Scene): WireFace[] {
  return scene.picture.wires.map((wire) => wireFace(scene, wire));
}
