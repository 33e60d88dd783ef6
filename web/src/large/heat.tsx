/** The heat strip of a large circuit, as Python has counted it: how large gradients are, rank by rank. */
import { counted } from "../layout/letters";
import type { Heat } from "./answers";

const HEIGHT = 96;

/** One column for each few ranks: the higher a cell, the larger the gradients; the darker, the more nodes. */
export function HeatStrip({ heat, find }: { heat: Heat; find: (query: string) => void }) {
  const { counts, low, high } = heat;
  const most = Math.log1p(Math.max(1, ...counts.flat()));
  return (
    <div class="heat">
      <p class="note">
        {counted(heat.ranks, "rank")} from the leaves on the left; up is a larger |gradient|, from 1e{low} to 1e{high}. Press a
        cell to find nodes with gradients of that size.
      </p>
      <div class="columns" role="group" aria-label="Gradients by rank">
        {counts.map((levels, column) => {
          const step = HEIGHT / levels.length;
          const label = heatText(heat, column);
          const press = (event: MouseEvent): void => {
            const { top } = (event.currentTarget as Element).getBoundingClientRect();
            // A key has no place, so it means the whole column.
            find(heatQuery(heat, column, event.detail ? Math.floor((top + 1 + HEIGHT - event.clientY) / step) : -1));
          };
          return (
            <button key={column} type="button" class="column" aria-label={label} title={label} onClick={press}>
              <svg width="22" height={HEIGHT} aria-hidden="true">
                <rect class="well" width="22" height={HEIGHT} />
                {levels.map((count, level) => count > 0 && (
                  <rect key={level} class="cell" x="1" width="20" y={HEIGHT - (level + 1) * step} height={step}
                    fill-opacity={0.3 + (0.7 * Math.log1p(count)) / most} />
                ))}
                {heat.bad[column]! > 0 && <text class="bad" x="11" y="12">!</text>}
              </svg>
            </button>
          );
        })}
      </div>
    </div>
  );
}

/** What a column of the heat strip counts, in words. */
export function heatText(heat: Heat, column: number): string {
  const { ranks, counts } = heat;
  const [first, last] = [Math.ceil((column * ranks) / counts.length), Math.ceil(((column + 1) * ranks) / counts.length) - 1];
  const sum = counts[column]!.reduce((total, count) => total + count, 0);
  const more = (["zero", "absent", "bad"] as const).flatMap((name) => (heat[name][column] ? [`${heat[name][column]} ${name}`] : []));
  return [`Ranks ${first} to ${last}`, counted(sum, "gradient"), ...more].join(", ");
}

/** The query for what a cell counts; where it counts nothing, for all sizes that its column has. */
export function heatQuery(heat: Heat, column: number, level: number): string {
  const levels = heat.counts[column]!;
  const filled = levels.flatMap((count, k) => (count ? [k] : []));
  if (!filled.length) return heat.bad[column] ? "bad" : heat.zero[column] ? "grad=0" : "absent";
  const [from, to] = levels[level] ? [level, level] : [filled[0]!, filled.at(-1)!];
  // Edges are rounded outwards, so that nothing in the cell is missed.
  const edge = (k: number, off: number): string => (10 ** (heat.low + (k * (heat.high - heat.low)) / levels.length + off)).toPrecision(6);
  return `grad>=${edge(from, -1e-5)} grad<=${edge(to + 1, 1e-5)}`;
}
