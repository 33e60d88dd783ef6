/** What the server of a training answers. */

/** A number over stretches of steps: their middle steps, smallest, mean and largest; null where it is not finite. */
export interface Curve {
  steps: number[];
  low: (number | null)[];
  mean: (number | null)[];
  high: (number | null)[];
}

/** Something that went wrong at a step; `text` begins with the step. */
export interface TrainingEvent {
  kind: string;
  what: string;
  group: string;
  step: number;
  text: string;
}

export interface TrainingState {
  name: string;
  state: "running" | "paused" | "idle";
  /** Whether steps may still come. */
  live: boolean;
  steps: number;
  loss: Curve;
  groups: { name: string; gradient: Curve; largest: Curve; parameter: Curve }[];
  left_out: number;
  /** Stretches of steps, first and last, in which something is not finite. */
  bad: [number, number][];
  events: TrainingEvent[];
  /** The steps whose circuits can be opened. */
  kept: number[];
}

/** Smallest, mean and largest over the steps of a record; texts where they are not finite. */
export type Band = [number | string, number | string, number | string];

export interface StepRecord {
  first: number;
  last: number;
  loss: Band;
  lost: number;
  groups: Record<string, { gradient: Band; largest: Band; parameter: Band; update: Band; nonfinite: number }>;
}

/** Whether a page is of a training. */
export function isTraining(data: object): data is { training: TrainingState } {
  return "training" in data;
}

/** The first event that is not finite, else the first event. */
export function firstBreak(events: readonly TrainingEvent[]): TrainingEvent | null {
  return events.find(({ kind }) => kind === "nonfinite") ?? events[0] ?? null;
}
