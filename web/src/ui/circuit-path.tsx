/** A path of "why": its wires are lit, and the factor of each stands beside it; all else is dimmed. */
import type { Scene } from "../layout/faces";
import { width } from "../layout/letters";
import type { PictureWire } from "../layout";
import type { Lit } from "../types";
import { besideWire, freePlace, roomOf, type Rect, type Room } from "./circuit-room";
import { pathsOf } from "./circuit-wires";

/** How high a factor is. */
const HIGH = 20;

/** A lit factor takes the place of the local derivative that the picture has there. */
function withoutPills(scene: Scene): Scene {
  const wires = scene.picture.wires.map((wire) => ({ ...wire, pillSlot: null }));
  return { ...scene, picture: { ...scene.picture, wires } };
}

/** Return the place of a factor: at the port, or beside the wire where it would cover a number at the port. */
function factorPlace(room: Room, taken: readonly Rect[], wire: PictureWire, wide: number, down: boolean): Rect {
  const { x, y } = wire.points.at(-1)!;
  const [left, top] = down ? [x - wide / 2, y - 28] : [x - 12 - wide, y - 10];
  const port = { x: left, y: top, width: wide, height: HIGH };
  return freePlace({ ...room, wires: [] }, taken, [{ ...port, cost: 0 }, ...besideWire(wire, wide, HIGH, true)]) ?? port;
}

/** The wires of a path with their factors. */
export function LitPathMarks({ scene, path, paper }: { scene: Scene; path: Lit; paper: Rect }) {
  const { picture } = scene;
  const room = roomOf(withoutPills(scene), paper);
  const taken: Rect[] = [];
  const { sizes } = picture;
  const found = path.wires.flatMap(({ reader, slot }, k) => {
    const wires = picture.wires.filter((wire) => wire.reader === reader && wire.slot === slot);
    const source = wires[0] && picture.wires.filter((wire) => wire.slot < 0 && wire.to === wires[0]!.from);
    return wires.length ? [{ wires: [...(source ?? []), ...wires], factor: path.factors[k] ?? "" }] : [];
  });
  return (
    <g class="lit-path" aria-hidden="true" pointer-events="none">
      {found.flatMap(({ wires }) => wires.flatMap((wire) => pathsOf(wire, sizes.corner)).map((d) => <path key={d} class="lit-wire" d={d} />))}
      {found.map(({ wires, factor }, k) => {
        const text = factor.startsWith("\u00d7") ? factor : `\u00d7${factor}`;
        const wide = width(text, sizes.pillFont, true) + 14;
        const { x: left, y: top } = factorPlace(room, taken, wires.at(-1)!, wide, picture.down);
        taken.push({ x: left, y: top, width: wide, height: HIGH });
        return factor && (
          <g key={k} class="factor">
            <rect x={left} y={top} width={wide} height={HIGH} rx={10} />
            <text x={left + wide / 2} y={top + 14.300} font-size={sizes.pillFont} text-anchor="middle">{text}</text>
          </g>
        );
      })}
    </g>
  );
}
