/** How wires run, and how far apart ranks must be for them. */
import { last, listOf, most, quotient } from "./arrays";
import { portOffset, type Board } from "./board";
import { endOf } from "./places";
import type { Layout, Route, Spot } from "./shapes";

/** The gap before a rank: the stretches that are taken on each of its tracks, and which item's wires run on which. */
interface Channel {
  tracks: [low: number, high: number][][];
  of: Map<number, number>;
}

/** Where ranks start and end along, and the extent of all. */
interface Along {
  starts: number[];
  ends: number[];
  total: number;
}

/** Return the finished layout of a board whose items have their places across. */
export function route(board: Board, straight: boolean): Layout {
  const ways = board.joints.map((_, k) => wayOf(board, k));
  const channels: Channel[] = [...board.rows, []].map(() => ({ tracks: [], of: new Map() }));
  if (!straight) assign(board, ways, channels);
  const along = placeAlong(board, channels);
  const ranks = board.rank.slice(0, board.boxes);
  return {
    along: along.total,
    across: extentOf(board),
    ranks,
    corners: board.shapes.map((_, box) => [along.starts[board.rank[box]!]!, cornerOf(board, box)]),
    routes: ways.map((way, k) =>
      way === null ? stub(board, k, along) : routed(board, k, way, channels, along, straight),
    ),
    bands: ranks.map((rank) => board.bands[rank]!),
  };
}

function middleOf(board: Board, item: number): number {
  return Math.trunc(board.middle[item]!);
}

function cornerOf(board: Board, box: number): number {
  return middleOf(board, box) - quotient(board.shapes[box]!.across, 2);
}

function extentOf(board: Board): number {
  const lasts = board.rows.filter((row) => row.length).map((row) => last(row));
  return most(lasts.map((item) => endOf(board, item)), 0);
}

/** Return where across the port of a wire lies. */
function portAt(board: Board, wire: number): number {
  const { target } = board.joints[wire]!;
  return cornerOf(board, target) + portOffset(board, board.port[wire]!, target);
}

/** Return where across a wire is in each rank from its source to its target; null for a stub. */
function wayOf(board: Board, wire: number): number[] | null {
  const chain = board.bends[wire]!;
  if (chain === null) return null;
  let spot = middleOf(board, board.joints[wire]!.source);
  const found = [spot];
  for (const wanted of [...chain.map((item) => middleOf(board, item)), portAt(board, wire)]) {
    spot = Math.abs(wanted - spot) <= board.metrics.near ? spot : wanted;
    found.push(spot);
  }
  return found;
}

/** The items whose wires lead from rank to rank: the source, then its bends. */
function itemsOf(board: Board, wire: number): number[] {
  return [board.joints[wire]!.source, ...(board.bends[wire] ?? [])];
}

/** Give every item whose wires change their place across a track in the gap behind it. */
function assign(board: Board, ways: readonly (number[] | null)[], channels: readonly Channel[]): void {
  const spans: Map<number, number[]>[] = channels.map(() => new Map());
  for (const [k, way] of ways.entries()) {
    if (way === null) continue;
    for (const [hop, item] of itemsOf(board, k).entries()) {
      if (way[hop] === way[hop + 1]) continue;
      const span = listOf(spans[board.rank[item]! + 1]!, item);
      if (!span.length) span.push(way[hop]!);
      span.push(way[hop + 1]!);
    }
  }
  for (const [k, channel] of channels.entries()) fill(channel, spans[k]!);
}

/** Choose tracks so that wires going the same way do not cross: the one that starts nearer its end turns first. */
function fill(channel: Channel, nets: Map<number, number[]>): void {
  for (const sign of [1, -1]) {
    const going = [...nets].filter(([, span]) => goesUp(span) === sign > 0);
    going.sort(([a, one], [b, two]) => sign * (two[0]! - one[0]!) || a - b);
    const placed: [low: number, high: number, track: number][] = [];
    for (const [item, span] of going) {
      const low = Math.min(...span);
      const high = Math.max(...span);
      const meeting = placed.filter(([a, b]) => a <= high && low <= b);
      const track = firstFree(channel, most(meeting.map(([, , taken]) => taken + 1), 0), low, high);
      channel.of.set(item, track);
      placed.push([low, high, track]);
    }
  }
}

function goesUp(span: readonly number[]): boolean {
  let total = 0;
  for (const end of span.slice(1)) total += end;
  return total >= span[0]! * (span.length - 1);
}

function firstFree(channel: Channel, after: number, low: number, high: number): number {
  let track = after;
  while (channel.tracks[track]?.some(([a, b]) => a <= high && low <= b)) track += 1;
  while (channel.tracks.length <= track) channel.tracks.push([]);
  channel.tracks[track]!.push([low, high]);
  return track;
}

/** Return where every rank starts and ends, and the extent of all; every band starts anew. */
function placeAlong(board: Board, channels: readonly Channel[]): Along {
  const starts: number[] = [];
  const ends: number[] = [];
  let [after, spot, total] = [0, 0, 0];
  for (const [rank, row] of board.rows.entries()) {
    const label = board.labels[rank]!;
    if (rank && board.bands[rank] !== board.bands[rank - 1]) {
      [total, spot] = [Math.max(total, spot + after), label];
    } else if (rank) {
      spot += after + 2 * board.metrics.lead + spread(board, channels[rank]!) + label;
    }
    const boxes = row.filter((item) => item < board.boxes);
    const start = spot;
    spot += most(boxes.map((item) => board.shapes[item]!.along), 0);
    starts.push(start);
    ends.push(spot);
    after = most(boxes.map((item) => behindRank(board, item, start, spot)), 0);
  }
  return { starts, ends, total: Math.max(total, spot + after) };
}

/** Return how much room a box needs behind the end of its rank. */
function behindRank(board: Board, item: number, start: number, end: number): number {
  return Math.max(0, start + board.shapes[item]!.along + board.after[item]! - end);
}

function stepOf(board: Board, channel: Channel): number {
  const { narrow, track, crowd } = board.metrics;
  return Math.max(narrow, Math.min(track, quotient(crowd, Math.max(1, channel.tracks.length - 1))));
}

function spread(board: Board, channel: Channel): number {
  return Math.max(0, channel.tracks.length - 1) * stepOf(board, channel);
}

function stub(board: Board, wire: number, along: Along): Route {
  const { source, target } = board.joints[wire]!;
  const startOf = (box: number) => along.starts[board.rank[box]!]!;
  const start: Spot = [startOf(source) + board.shapes[source]!.along, middleOf(board, source)];
  return { points: [start, [startOf(target), portAt(board, wire)]], stub: true };
}

/** Return the points of a wire: along its tracks, or straight from rank to rank. */
function routed(
  board: Board,
  wire: number,
  way: readonly number[],
  channels: readonly Channel[],
  along: Along,
  straight: boolean,
): Route {
  const { source, target } = board.joints[wire]!;
  const rank = board.rank[source]!;
  const points: Spot[] = [[along.starts[rank]! + board.shapes[source]!.along, way[0]!]];
  for (const [hop, item] of itemsOf(board, wire).entries()) {
    const [here, next] = [way[hop]!, way[hop + 1]!];
    if (straight) {
      points.push([along.ends[rank + hop]!, here], [along.starts[rank + hop + 1]!, next]);
    } else if (here !== next) {
      const channel = channels[rank + hop + 1]!;
      const first = firstTrack(board, channels, along, rank + hop + 1);
      const spot = first + (channel.of.get(item) ?? 0) * stepOf(board, channel);
      points.push([spot, here], [spot, next]);
    }
  }
  points.push([along.starts[board.rank[target]!]!, last(way)]);
  return { points: withoutRepeats(points), stub: false };
}

function firstTrack(board: Board, channels: readonly Channel[], along: Along, rank: number): number {
  return along.starts[rank]! - board.labels[rank]! - board.metrics.lead - spread(board, channels[rank]!);
}

function withoutRepeats(points: readonly Spot[]): Spot[] {
  return points.filter(([x, y], k) => !k || x !== points[k - 1]?.[0] || y !== points[k - 1]?.[1]);
}
