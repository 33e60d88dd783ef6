/** Wires of the circuit: strokes, and on top of them what is pressed and read. */
import type { PictureWire } from "../layout";
import { wireFace, type Scene, type WireFace } from "../layout/faces";
import { width } from "../layout/letters";
import { arrowPath, LOOKS, roundedPath, sentLook, strokeColour, SYMBOL, wireLook } from "./circuit-look";

/** The paths of a wire: one, or its two ends if it is a stub. */
function pathsOf(wire: PictureWire, down: boolean): string[] {
  const first = wire.points[0] ?? { x: 0, y: 0 };
  const end = wire.points[wire.points.length - 1] ?? first;
  if (!wire.stub) {
    // The line ends under the head of its arrow, so that thick lines do not show beside the tip.
    const short = down ? { x: end.x, y: end.y - 6 } : { x: end.x - 6, y: end.y };
    return [roundedPath([...wire.points.slice(0, -1), short])];
  }
  if (down) return [`M${first.x} ${first.y}v20`, `M${end.x} ${end.y - wire.room}V${end.y - 6}`];
  return [`M${first.x} ${first.y}h${width(wire.net, 10) + 8}`, `M${end.x - wire.room} ${end.y}H${end.x - 6}`];
}

/** All strokes, the strongest last: branches of one value share a trunk, and the strongest is the one seen there. */
export function Strokes({ scene, faces }: { scene: Scene; faces: readonly WireFace[] }) {
  const order = [...faces.keys()].sort((a, b) => (faces[a]?.weight ?? 1) - (faces[b]?.weight ?? 1));
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
  const { down } = scene.picture;
  const end = wire.points[wire.points.length - 1] ?? { x: 0, y: 0 };
  const computed = scene.known.value[wire.source] === true;
  const paths = pathsOf(wire, down);
  const striped = face.mark === "bad" || face.mark === "stale";
  const colour = strokeColour(face.mark, face.tone);
  return (
    <>
      {paths.map((path) => <path key={path} {...wireLook(face.mark, face.tone, face.weight, computed)} d={path} />)}
      {striped && paths.map((path) => <path key={`${path} stripe`} {...LOOKS.stripe} d={path} />)}
      <path d={arrowPath(end, down)} fill={computed ? colour : "var(--wg-paper)"} stroke={colour}
        stroke-width={computed ? 0 : 1} />
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
  const paths = pathsOf(wire, scene.picture.down);
  return (
    <g id={id} class={`wire ${face.mark}`} {...SYMBOL} aria-roledescription="wire" aria-label={face.name}
      data-wire={id} cursor="pointer">
      {paths.map((path) => (
        <>
          <path {...LOOKS.halo} d={path} pointer-events="stroke" stroke-width={14} stroke-opacity={0} />
          {(chosen || lit) && <path {...LOOKS.halo} d={path} class="glow" stroke-width={8} stroke-opacity={chosen ? 0.5 : 0.25} />}
        </>
      ))}
      <Labels scene={scene} wire={wire} face={face} />
      {wire.stub && <Net wire={wire} down={scene.picture.down} named={named} />}
    </g>
  );
}

/** What stands on a wire, just before the box it leads to. */
function Labels({ scene, wire, face }: { scene: Scene; wire: PictureWire; face: WireFace }) {
  const { down } = scene.picture;
  const { x, y } = wire.label;
  const common = { ...LOOKS.outlined, x, "text-anchor": down ? "start" : "end" } as const;
  const [above, below] = down ? [y - 6, y + 5] : [y - 5, y + 13];
  return (
    <>
      {face.above && (
        <text {...LOOKS.small} {...common} class={face.slope ? "local" : "value"} y={above}>{face.above}</text>
      )}
      {face.below && <text {...sentLook(face.mark, face.tone)} {...common} class="sent" y={below}>{face.below}</text>}
    </>
  );
}

/** The name of the value at the ends of a wire that comes from far away; at its source once for all of them. */
function Net({ wire, down, named }: { wire: PictureWire; down: boolean; named: boolean }) {
  const first = wire.points[0] ?? { x: 0, y: 0 };
  const end = wire.points[wire.points.length - 1] ?? first;
  const source = down ? { x: first.x + 4, y: first.y + 14 } : { x: first.x + 5, y: first.y - 4 };
  const target = down ? { x: end.x, y: end.y - wire.room - 4 } : { x: end.x - wire.room - 3, y: end.y + 4 };
  return (
    <>
      {named && <text {...LOOKS.net} {...source}>{wire.net}</text>}
      <text {...LOOKS.net} {...target} text-anchor={down ? "middle" : "end"}>{wire.net}</text>
    </>
  );
}

/** The faces of all wires. */
export function facesOf(scene: Scene): WireFace[] {
  return scene.picture.wires.map((wire) => wireFace(scene, wire));
}
