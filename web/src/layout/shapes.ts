/** What the layout is given and what it returns: boxes and wires by size, distances, places and routes. */

/** How many ranks a wire may span before it is drawn as two stubs. */
export const LONGEST = 12;

/** A box with up to so many wires has bends for each: on one line for all, one gradient would hide the others. */
export const MAX_OWN_BENDS = 4;

/** A place: along (the way values flow), across. */
export type Spot = readonly [along: number, across: number];

/** A box as the layout sees it: its extent along and across. */
export interface Shape {
  along: number;
  across: number;
  leaf?: boolean;
  splitter?: boolean;
  /** Whether its ports may change places. */
  free?: boolean;
  /** How much room it needs across, if more than it takes. */
  reserve?: number;
  /** How much more room it needs across, on its far side: for a caption. */
  below?: number;
  /** How much room it needs behind it, along. */
  after?: number;
  /** How far ports keep from its ends. */
  inset?: number;
  /** The path of the group it stands in; a fold through a group is to be avoided. */
  group?: string;
}

/** A wire as the layout sees it: from a box to a port of another, with room for a label before the port. */
export interface Joint {
  source: number;
  target: number;
  port: number;
  label?: number;
  /** How much more room the label needs if the wire is drawn as a stub. */
  far?: number;
  /** How much room a stub needs behind its source. */
  tail?: number;
}

/** Distances: between boxes of a rank, around bends, between tracks, and around ranks. */
export interface Metrics {
  apart: number;
  beside: number;
  track: number;
  /** The least distance of tracks, where there are many. */
  narrow: number;
  /** How much room tracks may take before they move together. */
  crowd: number;
  /** How far wires run straight before the first and behind the last track. */
  lead: number;
  /** A wire that misses its port by no more than this runs straight, into a place beside the port. */
  near: number;
  /** How long a layout may be before it is cut into bands; 0: any length. */
  fold: number;
  /** How far apart bands are. */
  band: number;
  /** Middles of boxes lie on multiples of this, across. */
  grid: number;
}

/** The usual distances. */
export const METRICS: Metrics = {
  apart: 22,
  beside: 12,
  track: 9,
  narrow: 3,
  crowd: 120,
  lead: 10,
  near: 4,
  fold: 0,
  band: 56,
  grid: 1,
};

/** How a wire runs: its points from source to target. A stub has only where it starts and where it ends. */
export interface Route {
  points: Spot[];
  stub: boolean;
}

/** Where everything stands: the size of all, the rank, band and first corner of each box, and the routes. */
export interface Layout {
  along: number;
  across: number;
  ranks: number[];
  corners: Spot[];
  routes: Route[];
  bands: number[];
}
