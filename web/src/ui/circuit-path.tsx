/** A path of "why": its wires are lit, and the factor of each stands beside it; all else is dimmed. */
import type { Scene } from "../layout/faces";
import { width } from "../layout/letters";
import type { Lit } from "../types";
import { pathsOf } from "./circuit-wires";

/** The wires of a path with their factors. */
export function LitPathMarks({ scene, path }: { scene: Scene; path: Lit }) {
  const { picture } = scene;
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
        const { x, y } = wires.at(-1)!.points.at(-1)!;
        const text = factor.startsWith("\u00d7") ? factor : `\u00d7${factor}`;
        const wide = width(text, sizes.pillFont, true) + 14;
        const [left, top] = picture.down ? [x - wide / 2, y - 28] : [x - 12 - wide, y - 10];
        return factor && (
          <g key={k} class="factor">
            <rect x={left} y={top} width={wide} height={20} rx={10} />
            <text x={left + wide / 2} y={top + 14.300} font-size={sizes.pillFont} text-anchor="middle">{text}</text>
          </g>
        );
      })}
    </g>
  );
}
