/**
 * The layered layout of a picture: which rank a box stands in, where in it, and how wires run. It is the layout of
 * `wiregrad.draw.layout.placement`, number for number; shared golden files hold the two together. `along` is the axis on which
 * values flow, `across` the one within a rank.
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
