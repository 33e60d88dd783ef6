/**
 * How large gradients are, rank by rank: a column that sinks vanishes, one that climbs explodes. Counted here for small
 * circuits as Python counts for large ones. Kept true: the query for a cell finds all that the cell counts.
 */
import { least, most, times } from "./arrays";
import { counted } from "./letters";

/** Into how many columns ranks are put, and sizes into how many levels, at most. */
const COLUMNS = 120;
const LEVELS = 40;

/** How many nodes of which rank have gradients of which size, in powers of ten. */
export interface Heat {
  ranks: number;
  low: number;
  high: number;
  counts: number[][];
  zero: number[];
  absent: number[];
  bad: number[];
}

/** Count sizes of gradients by the ranks of their nodes; null is absent. */
export function heatOf(ranks: readonly number[], sizes: readonly (number | null)[]): Heat {
  const top = most(ranks, 0) + 1;
  const columns = Math.min(top, COLUMNS);
  const logs = sizes.map((size) => (size === null ? NaN : Math.log10(Math.abs(size))));
  const sized = logs.filter(isFinite);
  const low = Math.floor(least(sized, -1));
  const high = Math.max(Math.ceil(most(sized, 1)), low + 1);
  const levels = Math.max(1, Math.min(LEVELS, 4 * (high - low)));
  const none = (): number[] => times(columns, () => 0);
  const heat: Heat = {
    ranks: top, low, high, counts: times(columns, () => times(levels, () => 0)), zero: none(), absent: none(), bad: none(),
  };
  sizes.forEach((size, node) => {
    const column = Math.floor((ranks[node]! * columns) / top);
    const level = Math.floor(((logs[node]! - low) * levels) / (high - low));
    if (isFinite(level)) heat.counts[column]![Math.max(0, Math.min(level, levels - 1))]!++;
    else heat[size === null ? "absent" : size ? "bad" : "zero"][column]!++;
  });
  return heat;
}

/** The first and the last rank of a column. */
export function ranksIn({ ranks, counts }: Heat, column: number): [first: number, last: number] {
  const start = (k: number): number => Math.ceil((k * ranks) / counts.length);
  return [start(column), start(column + 1) - 1];
}

/** What a column counts, in words. */
export function heatText(heat: Heat, column: number): string {
  const [first, last] = ranksIn(heat, column);
  const sum = heat.counts[column]!.reduce((total, count) => total + count, 0);
  const more = (["zero", "absent", "bad"] as const).flatMap((name) => (heat[name][column] ? [`${heat[name][column]} ${name}`] : []));
  const ranks = first === last ? `Rank ${first}` : `Ranks ${first} to ${last}`;
  return [ranks, counted(sum, "gradient"), ...more].join(", ");
}

/** The query for what a cell counts; where it counts nothing, for all sizes that its column has. */
export function heatQuery(heat: Heat, column: number, level: number): string {
  const [first, last] = ranksIn(heat, column);
  return `${first === last ? `rank=${first}` : `rank>=${first} rank<=${last}`} ${sizeQuery(heat, column, level)}`;
}

function sizeQuery({ counts, low, high, bad, zero }: Heat, column: number, level: number): string {
  const levels = counts[column]!;
  const filled = levels.flatMap((count, k) => (count ? [k] : []));
  if (!filled.length) return bad[column] ? "bad" : zero[column] ? "grad=0" : "absent";
  const [from, to] = levels[level] ? [level, level] : [filled[0]!, filled.at(-1)!];
  // Edges are rounded outwards, so that nothing in the cell is missed.
  const edge = (k: number, off: number): string => (10 ** (low + (k * (high - low)) / levels.length + off)).toPrecision(6);
  return `grad>=${edge(from, -1e-5)} grad<=${edge(to + 1, 1e-5)}`;
}
