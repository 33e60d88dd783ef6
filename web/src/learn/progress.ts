/**
 * What a learner has done, as the browser keeps it: one versioned entry, and one for drawings that are not complete. What
 * cannot be read is begun anew, and where nothing can be kept the lessons work all the same.
 */

/** A mistake of a lesson: still open, or answered twice in a row since. */
export type MistakeState = "open" | "cleared";

export interface MetMistake {
  key: string;
  kind: string;
  state: MistakeState;
}

/** Where a learner is in one lesson; `lesson-run.ts` plays the logs of its screens again. */
export interface LessonProgress {
  screen: number;
  seen: number[];
  round: number;
  logs: Record<string, string[]>;
  met: MetMistake[];
  /** How many questions were answered, and how many at the first try without a hint. */
  answered: number;
  first: number;
  done: boolean;
}

/** How the line of a mistake begins that was made in a drawing or in flat code. */
export const MISTAKE = "m:";

/** The line of such a mistake. */
export const mistakeLine = (kind: string, key: string): string => `${MISTAKE}${kind} ${key}`;

/** The lines of flat code that were accepted. */
export const acceptedLines = (log: readonly string[]): string[] => log.filter((line) => !line.startsWith(MISTAKE));

/** A change of the progress of a lesson. */
export type Edit = (own: LessonProgress) => LessonProgress;

export interface Progress {
  version: 1;
  /** The lesson that was open last. */
  last: string;
  /** The name under which a file of it was saved; empty before. */
  learner: string;
  lessons: Record<string, LessonProgress>;
}

export const STORE_KEY = "wiregrad.learn.v1";
/** Drawings are not part of the progress: a file of it is for a teacher, who has no use for half a drawing. */
export const DRAWINGS_KEY = "wiregrad.learn.drawings.v1";
const MAX_LOG = 400;

export const noLesson = (): LessonProgress => ({
  screen: 0, seen: [], round: 0, logs: {}, met: [], answered: 0, first: 0, done: false,
});

export const noProgress = (): Progress => ({ version: 1, last: "", learner: "", lessons: {} });

/** Read a progress; null if it is none. What is not as it should be in a lesson is left out. */
export function readProgress(text: string): Progress | null {
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isRecord(data) || data.version !== 1 || !isRecord(data.lessons)) return null;
  const lessons = Object.entries(data.lessons).flatMap(([key, lesson]) => {
    const read = readLesson(lesson);
    return read ? [[key, read] as const] : [];
  });
  return { version: 1, last: textOf(data.last), learner: textOf(data.learner), lessons: Object.fromEntries(lessons) };
}

const textOf = (data: unknown): string => (typeof data === "string" ? data : "");

export function isRecord(data: unknown): data is Record<string, unknown> {
  return typeof data === "object" && data !== null && !Array.isArray(data);
}

export const isCount = (data: unknown): data is number => Number.isInteger(data) && Number(data) >= 0 && Number(data) < 1e6;

function readLesson(data: unknown): LessonProgress | null {
  if (!isRecord(data) || !isCount(data.screen) || !isCount(data.round)) return null;
  const logs = isRecord(data.logs) ? Object.entries(data.logs) : [];
  const isLog = (entry: [string, unknown]): entry is [string, string[]] =>
    Array.isArray(entry[1]) && entry[1].length <= MAX_LOG && entry[1].every((line) => typeof line === "string");
  return {
    screen: data.screen,
    round: data.round,
    seen: Array.isArray(data.seen) ? data.seen.filter(isCount) : [],
    logs: Object.fromEntries(logs.filter(isLog)),
    met: Array.isArray(data.met) ? data.met.filter(isMistake) : [],
    answered: isCount(data.answered) ? data.answered : 0,
    first: isCount(data.first) ? data.first : 0,
    done: data.done === true,
  };
}

function isMistake(data: unknown): data is MetMistake {
  return isRecord(data) && typeof data.key === "string" && typeof data.kind === "string" && (data.state === "open" || data.state === "cleared");
}

/** What the browser keeps; begun anew if it cannot be read. */
export function loadProgress(): Progress {
  try {
    return readProgress(localStorage.getItem(STORE_KEY) ?? "") ?? noProgress();
  } catch {
    return noProgress();
  }
}

/** Keep a progress; false where the browser keeps nothing. */
export function storeProgress(progress: Progress): boolean {
  try {
    localStorage.setItem(STORE_KEY, JSON.stringify(progress));
    return true;
  } catch {
    return false;
  }
}

/** What is kept of the drawings, each under the name of its screen. */
function loadDrawings(): Record<string, unknown> {
  try {
    const data: unknown = JSON.parse(localStorage.getItem(DRAWINGS_KEY) ?? "");
    return isRecord(data) ? data : {};
  } catch {
    return {};
  }
}

/** What was kept of a drawing, not checked yet; undefined if there is nothing. */
export const loadDrawing = (name: string): unknown => loadDrawings()[name];

/** Keep a drawing where the browser keeps something. */
export function storeDrawing(name: string, drawing: object): void {
  try {
    localStorage.setItem(DRAWINGS_KEY, JSON.stringify({ ...loadDrawings(), [name]: drawing }));
  } catch {
    // The lesson says on its map that this browser keeps nothing.
  }
}
