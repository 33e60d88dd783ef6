/** The heat strip: how large gradients are, rank by rank. */
import { sizeOf } from "../engine";
import { heatOf, heatQuery, heatText, ranksIn, type Heat } from "../layout/heat";
import type { Shown } from "../state/known";
import type { Session } from "../state/session";

const HEIGHT = 96;

/** The heat strip of what is computed at a step. */
export function HeatTab({ state, shown, onFind }: { state: Session; shown: Shown; onFind: (query: string) => void }) {
  const { run, known } = shown;
  const sizes = run.grads.map((grad, node) => (grad !== null && known.grad[node] === "final" ? sizeOf(grad) : null));
  if (sizes.every((size) => size === null)) {
    return <p class="note">No gradients are computed at this step. Run backward to see them.</p>;
  }
  return <HeatStrip heat={heatOf(state.line.ranks, sizes)} find={onFind} />;
}

/** One column for each rank, or a few: the higher a cell, the larger the gradients; the darker, the more nodes. */
export function HeatStrip({ heat, find }: { heat: Heat; find: ((query: string) => void) | null }) {
  const { counts, low, high } = heat;
  const most = Math.log1p(Math.max(1, ...counts.flat()));
  return (
    <div class="heat">
      <p class="note">
        Ranks from the leaves on the left; up is a larger |gradient|, from 1e{low} to 1e{high}.
        {find && " Press a cell to find its nodes."}
      </p>
      <div class="columns" role="group" aria-label="Gradients by rank">
        {counts.map((levels, column) => {
          const step = HEIGHT / levels.length;
          const label = heatText(heat, column);
          const press = (event: MouseEvent): void => {
            const { top } = (event.currentTarget as Element).getBoundingClientRect();
            // A key has no place, so it means the whole column.
            find?.(heatQuery(heat, column, event.detail ? Math.floor((top + 1 + HEIGHT - event.clientY) / step) : -1));
          };
          return (
            <button key={column} type="button" class="column" aria-label={label} title={label} disabled={!find}
              onClick={press}>
              <svg width="22" height={HEIGHT} aria-hidden="true">
                <rect class="well" width="22" height={HEIGHT} />
                {levels.map((count, level) => count > 0 && (
                  <rect key={level} class="cell" x="1" width="20" y={HEIGHT - (level + 1) * step} height={step}
                    fill-opacity={0.3 + (0.7 * Math.log1p(count)) / most} />
                ))}
                {heat.bad[column]! > 0 && <text class="bad" x="11" y="12">!</text>}
              </svg>
              <span aria-hidden="true">{ranksIn(heat, column)[0]}</span>
            </button>
          );
        })}
      </div>
    </div>
  );
}
