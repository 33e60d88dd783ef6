/** What the card of an array shows: its shape, a heat map with indices, how its numbers spread, and where NaN is. */
import { useState } from "preact/hooks";
import type { Detail, Value } from "../types";
import type { Shown } from "../state/known";
import { Fact } from "./card-parts";
import { useUnique } from "./parts";
import { NO_GRADIENT, show } from "./text";

const WIDTH = 300;
const TOP = 16;
const LEFT = 26;

/** The details of a value, where it is an array whose details Python sent. */
export function detailOf(value: Value | null | undefined): Detail | null {
  return typeof value === "object" && value !== null ? (value.detail ?? null) : null;
}

/** The value and the gradient of an array, one at a time. */
export function ArrayNumbers({ shown: { run, known }, node }: { shown: Shown; node: number }) {
  const [tab, setTab] = useState<"value" | "gradient">("value");
  const ready = { value: known.value[node]!, gradient: known.grad[node] === "final" };
  const found = { value: run.values[node], gradient: run.grads[node] };
  const state = (name: "value" | "gradient"): string => (!ready[name] ? ": not computed" : found[name] === null ? `: ${NO_GRADIENT}` : "");
  const detail = ready[tab] ? detailOf(found[tab]) : null;
  return (
    <section class="array" aria-label="Array">
      <p>{typeText(run.circuit.nodes[node]!.type)}{detail && detail.nans + detail.infs > 0 && <b>, {badText(detail)}</b>}</p>
      <div class="buttons" role="group" aria-label="What is shown">
        {(["value", "gradient"] as const).map((name) => (
          <button key={name} type="button" aria-pressed={tab === name} onClick={() => setTab(name)}>{name}{state(name)}</button>
        ))}
      </div>
      {detail ? <Details detail={detail} /> : ready[tab] && <p class="note">{show(found[tab])}</p>}
    </section>
  );
}

/** A type as people read it: 16×6 float64. */
function typeText(type: string): string {
  const [dtype, shape = ""] = type.split(/[[\]]/);
  return `${shape.replaceAll(",", "×")} ${dtype}`;
}

function badText({ shape, nans, infs }: Detail): string {
  return `${(nans + infs).toLocaleString("en")} of ${shape.reduce((size, length) => size * length, 1).toLocaleString("en")} not finite`;
}

function Details({ detail }: { detail: Detail }) {
  const { low, high, where, because, cause } = detail;
  return (
    <>
      {detail.cells && <HeatMap detail={detail} />}
      {detail.counts && <Spread detail={detail} counts={detail.counts} />}
      <dl class="ruled">
        {low && <Fact name="smallest">{low.join(" at ")}</Fact>}
        {high && <Fact name="largest">{high.join(" at ")}</Fact>}
        {where && <Fact name="not finite">{where}</Fact>}
        {cause && <Fact name="the op did"><b>{cause}</b></Fact>}
        {because && <Fact name="because">{because}</Fact>}
      </dl>
    </>
  );
}

const isBad = (cell: number | string): cell is string => typeof cell === "string";

/** The elements as coloured cells: hue is the sign, depth the size; what is not finite is hatched. */
function HeatMap({ detail: { cells = [], steps = [1, 1], shape, nans, infs, cause } }: { detail: Detail }) {
  const hatch = useUnique();
  const [rows, columns] = [cells.length, cells[0]?.length ?? 0];
  const wide = Math.min((WIDTH - LEFT - 4) / columns, 46);
  const tall = Math.max(Math.min(15, 280 / rows), 6);
  const most = Math.max(...cells.flat().map((cell) => (isBad(cell) ? 0 : Math.abs(cell))), 0) || 1;
  const spoilt = cells.flatMap((row, k) => (row.some(isBad) ? [k] : []));
  const x = (column: number): number => LEFT + column * wide;
  const y = (row: number): number => TOP + row * tall;
  const every = (count: number, room: number): number => Math.ceil(count / room);
  const binned = steps[0]! > 1 || steps[1]! > 1;
  const label = `heat map of ${shape.join(" by ")} elements${nans + infs ? `, ${spoilt.length} rows of cells not finite` : ""}`;
  return (
    <figure class="heat-map">
      <svg viewBox={`0 0 ${WIDTH} ${y(rows) + 3}`} role="img" aria-label={label}>
        <pattern id={hatch} width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect class="ground" width="6" height="6" /><rect class="stroke" width="2.4" height="6" />
        </pattern>
        {shape.length > 1 && cells.map((_, row) => row % every(rows, 280 / 13) === 0 && (
          <text key={row} class={spoilt.includes(row) ? "index bad" : "index"} x={LEFT - 5} y={y(row) + tall / 2 + 4} text-anchor="end">{row * steps[0]!}</text>
        ))}
        {cells[0]!.map((_, column) => column % every(columns, 12) === 0 && (
          <text key={column} class="index" x={x(column) + wide / 2} y={TOP - 4} text-anchor="middle">{column * steps[1]!}</text>
        ))}
        {cells.map((row, k) => row.map((cell, column) => (
          <rect key={`${k},${column}`} x={x(column)} y={y(k)} width={wide - Math.min(1, wide / 8)} height={tall - Math.min(1, tall / 8)}
            {...(isBad(cell) ? { fill: `url(#${hatch})` } : { class: cell > 0 ? "up" : cell < 0 ? "down" : "nil", "fill-opacity": cell ? 0.12 + (0.88 * Math.abs(cell)) / most : 1 })}>
            <title>{`[${shape.length > 1 ? `${k * steps[0]!}, ` : ""}${column * steps[1]!}] ${isBad(cell) ? { nan: "NaN", inf: "Inf" }[cell] ?? "−Inf" : show(cell)}`}</title>
          </rect>
        )))}
        {spoilt.length > 0 && (
          <rect class="frame" x={LEFT - 2} y={y(spoilt[0]!) - 2} width={columns * wide + 3} height={(spoilt.at(-1)! - spoilt[0]! + 1) * tall + 3} rx="3" />
        )}
      </svg>
      <figcaption>
        {spoilt.length > 0 && <b>{[nans && `${nans.toLocaleString("en")} NaN`, infs && `${infs.toLocaleString("en")} Inf`].filter(Boolean).join(", ")}{cause && `: ${cause} here`}. </b>}
        {shape.length > 2 && "All axes but the last are rows. "}
        {binned && `Each cell is the mean of up to ${steps[0]} × ${steps[1]} elements.`}
      </figcaption>
    </figure>
  );
}

/** A histogram of what is finite, and beside it a hatched column for what is not. */
function Spread({ detail: { zeros, zero_bin = -1, edges = ["", ""], nans, infs, shape }, counts }: { detail: Detail; counts: number[] }) {
  const hatch = useUnique();
  const [height, wide, bad] = [64, 11.4, nans + infs];
  const all = shape.reduce((size, length) => size * length, 1);
  const most = Math.max(...counts, bad, 1);
  const tall = (count: number): number => (count ? Math.max((height * count) / most, 1.5) : 0);
  const told = zero_bin >= 0 && zeros ? `${counts[zero_bin]!.toLocaleString("en")}, of them ${zeros.toLocaleString("en")} exactly 0` : "";
  const after = zero_bin < 10;
  return (
    <figure class="spread">
      <h3>How the {(all - bad).toLocaleString("en")} finite values spread</h3>
      <svg viewBox={`0 0 ${WIDTH} ${height + 34}`} role="img" aria-label={`histogram from ${edges[0]} to ${edges[1]}${told && `; at 0 ${told}`}${bad ? `; ${bad} not finite` : ""}`}>
        <pattern id={hatch} width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect class="ground" width="6" height="6" /><rect class="stroke" width="2.4" height="6" />
        </pattern>
        {counts.map((count, k) => (
          <rect key={k} class={k < zero_bin ? "down" : "up"} x={k * wide} y={height + 16 - tall(count)} width={wide - 1} height={tall(count)}>
            <title>{count.toLocaleString("en")}</title>
          </rect>
        ))}
        <path class="axis" d={`M0 ${height + 16.5}H${20 * wide}`} />
        {told && <text x={after ? (zero_bin + 1) * wide + 4 : zero_bin * wide - 4} y={11} text-anchor={after ? "start" : "end"}>{told}</text>}
        <text x="0" y={height + 31}>{edges[0]}</text>
        <text x={20 * wide} y={height + 31} text-anchor="end">{edges[1]}</text>
        {bad > 0 && (
          <>
            <rect x={WIDTH - 46} y={height + 16 - tall(bad)} width="34" height={tall(bad)} fill={`url(#${hatch})`} class="frame" />
            <text x={WIDTH - 29} y={height + 11 - tall(bad)} text-anchor="middle">{bad.toLocaleString("en")}</text>
            <text class="bad" x={WIDTH - 29} y={height + 31} text-anchor="middle">{nans ? (infs ? "NaN, Inf" : "NaN") : "Inf"}</text>
          </>
        )}
      </svg>
    </figure>
  );
}
