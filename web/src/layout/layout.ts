/**
 * The layered layout of a picture: the rank of each box, its place in the rank, and the routes of wires. It gives the
 * same numbers as `src/wiregrad/draw/layout/placement.py`; a golden file holds the two together. `along` is the axis
 * along which values flow, `across` the one within a rank.
 *
 * Kept true: no two boxes overlap, the same input gives the same output, and nothing depends on a clock.
 */
import { newBoard } from "./board";
import { order } from "./order";
import { placeAcross } from "./places";
import { route } from "./routes";
import { METRICS, type Joint, type Layout, type Metrics, type Shape } from "./shapes";

/** Up to how many boxes wires run at right angles. */
export const ANGLED = 700;

/** Return places and routes; boxes must come in an order in which wires only lead forward. */
export function layout(shapes: readonly Shape[], joints: readonly Joint[], metrics: Partial<Metrics> = {}): Layout {
  const board = newBoard(shapes, joints, { ...METRICS, ...metrics });
  order(board);
  placeAcross(board);
  return route(board, shapes.length > ANGLED);
}
