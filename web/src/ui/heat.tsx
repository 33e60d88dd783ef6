/** The heat strip: how large gradients are, rank by rank; a column that sinks vanishes, one that climbs explodes. */
import { isBad } from "../engine";
import type { Shown } from "../state/known";
import type { Session } from "../state/session";
import { numeric } from "./text";
import type { Value } from "../types";

interface Props {
  state: Session;
  shown: Shown;
  onFind: (query: string) => void;
}

interface Bin {
  first: number;
  last: number;
  /** Powers of ten of the gradients. */
  powers: number[];
  zeros: number;
  bad: number;
}

const MOST_BINS = 80;
const HEIGHT = 96;
const ROWS = 24;

/** One column of boxes for each rank: the higher, the larger the gradient; the darker, the more nodes. */
export function HeatTab({ state, shown, onFind }: Props) {
  const bins = binsOf(state, shown);
  const powers = bins.flatMap((bin) => bin.powers);
  if (!powers.length && !bins.some((bin) => bin.zeros || bin.bad)) {
    return <p class="note">No gradients are computed at this step. Run backward to see them.</p>;
  }
  const low = Math.min(...powers.map(Math.floor), 0);
  const high = Math.max(...powers.map(Math.floor), 0) + 1;
  return (
    <div class="heat">
      <p class="note">
        Ranks from the leaves on the left; up is a larger |gradient|, from {text(low)} to {text(high)}. Press a column to find
        nodes with gradients of that size.
      </p>
      <div class="columns" role="group" aria-label="Gradients by rank">
        {bins.map((bin) => (
          <Column key={bin.first} bin={bin} low={low} high={high} onFind={onFind} />
        ))}
      </div>
    </div>
  );
}

const text = (power: number): string => `1e${power}`;

function Column({ bin, low, high, onFind }: { bin: Bin; low: number; high: number; onFind: (query: string) => void }) {
  const step = HEIGHT / ROWS;
  const rowOf = (power: number): number => Math.min(ROWS - 1, Math.floor(((power - low) / (high - low)) * ROWS));
  const counts = Array.from({ length: ROWS }, (_, row) => bin.powers.filter((power) => rowOf(power) === row).length);
  const most = Math.max(...counts, 1);
  const label = columnText(bin);
  return (
    <button type="button" class="column" aria-label={label} title={label}
      onClick={() => onFind(queryOf(bin))}>
      <svg width="22" height={HEIGHT} aria-hidden="true">
        <rect class="well" width="22" height={HEIGHT} />
        {counts.map((count, row) =>
          count ? (
            <rect key={row} class="cell" x="1" width="20" y={HEIGHT - (row + 1) * step} height={step}
              fill-opacity={0.35 + (0.65 * count) / most} />
          ) : null,
        )}
        {bin.bad > 0 && <text class="bad" x="11" y="12">!</text>}
      </svg>
      <span aria-hidden="true">{bin.first}</span>
    </button>
  );
}

/** The query for gradients as large as those of a column. */
function queryOf({ powers, bad }: Bin): string {
  if (!powers.length) return bad ? "bad" : "grad=0";
  // Wider by more than four digits round off.
  const [low, high] = [0.999 * 10 ** Math.min(...powers), 1.001 * 10 ** Math.max(...powers)];
  return `grad>=${low.toPrecision(4)} grad<=${high.toPrecision(4)}`;
}

function columnText({ first, last, powers, zeros, bad }: Bin): string {
  const rank = first === last ? `Rank ${first}` : `Ranks ${first} to ${last}`;
  const sizes = powers.length
    ? `|gradient| ${(10 ** Math.min(...powers)).toPrecision(2)} to ${(10 ** Math.max(...powers)).toPrecision(2)}`
    : "no gradient but 0";
  const more = [zeros && `${zeros} of them 0`, bad && `${bad} not finite`].filter(Boolean).join(", ");
  const count = powers.length + zeros + bad;
  return `${rank}: ${count} ${count === 1 ? "gradient" : "gradients"}, ${sizes}${more ? `, ${more}` : ""}`;
}

function binsOf(state: Session, { run, known }: Shown): Bin[] {
  const top = state.line.ranks.reduce((most, rank) => Math.max(most, rank), 0) + 1;
  const width = Math.ceil(top / MOST_BINS);
  const bins = Array.from({ length: Math.ceil(top / width) }, (_, bin): Bin => ({
    first: bin * width, last: Math.min((bin + 1) * width, top) - 1, powers: [], zeros: 0, bad: 0,
  }));
  run.grads.forEach((grad, node) => {
    if (grad !== null && known.grad[node] === "final") count(bins[Math.floor(state.line.ranks[node]! / width)]!, grad);
  });
  return bins;
}

function count(bin: Bin, grad: Value): void {
  const size = Math.abs(numeric(grad) ?? (grad as { norm: number }).norm);
  if (isBad(grad) || !Number.isFinite(size)) bin.bad++;
  else if (size === 0) bin.zeros++;
  else bin.powers.push(Math.log10(size));
}
