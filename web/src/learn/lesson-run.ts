/**
 * What a learner has done in a lesson: the logs of its screens are played again, so that nothing else has to be kept. The
 * twin of `src/wiregrad/learn/lessons.py`, which describes the lines of a log.
 */
import type { Verdict } from "./answers";
import { circuitOf, mistakeName, type Lesson, type QuestionScreen } from "./course";
import { flatLines } from "./flat";
import { acceptedLines, MISTAKE, type LessonProgress, type MetMistake } from "./progress";
import type { Question } from "./questions";
import { QuestionSource, Quiz, type QuestionRecord } from "./quiz";

/** How far the seeds of two rounds of a lesson are apart. */
const ROUND = 1000;
const ANSWER = "a:";

/** The state of the questions of a screen. */
export interface Asked {
  quiz: Quiz;
  question: Question | null;
  record: QuestionRecord | null;
  /** What was said last of an answer; null before the first, and for another question. */
  verdict: Verdict | null;
  /** The text of the hint that was asked for last. */
  hint: string;
  answer: string;
}

/** Draws every question once: a log is played again at each answer. */
class RememberingSource extends QuestionSource {
  private readonly drawn = new Map<string, Question>();

  override draw(kind: string, number: number): Question {
    const key = `${kind} ${number}`;
    const question = this.drawn.get(key) ?? super.draw(kind, number);
    this.drawn.set(key, question);
    return question;
  }
}

const sources = new Map<string, QuestionSource>();

function sourceOf({ formula, leaves }: QuestionScreen, seed: number): QuestionSource {
  const key = JSON.stringify([formula, leaves, seed]);
  const source = sources.get(key) ?? new RememberingSource(circuitOf(formula).circuit, seed, leaves);
  sources.set(key, source);
  return source;
}

/** Play a log: the questions of a screen as far as they were answered. */
export function playLog(screen: QuestionScreen, round: number, log: readonly string[]): Asked {
  const source = sourceOf(screen, screen.seed + ROUND * round);
  const quiz = new Quiz(source, [...new Set(screen.kinds)], screen.each);
  const asked: Asked = { quiz, question: quiz.next(), record: null, verdict: null, hint: "", answer: "" };
  for (const line of log) {
    if (!asked.question) break;
    if (line === "next") {
      if (quiz.records.at(-1)!.right) Object.assign(asked, { question: quiz.next(), verdict: null, hint: "", answer: "" });
    } else if (line === "hint") {
      if (!quiz.records.at(-1)!.right) asked.hint = quiz.hint();
    } else if (line.startsWith(ANSWER)) {
      asked.answer = line.slice(ANSWER.length);
      asked.verdict = quiz.check(asked.answer);
      asked.hint = asked.verdict.hint;
    }
  }
  return { ...asked, record: asked.question ? quiz.records.at(-1)! : null };
}

export const answerLine = (answer: string): string => `${ANSWER}${answer}`;

/** The mistakes with a name that were met in a quiz, and whether their kind has been answered twice in a row since. */
function metIn(quiz: Quiz): MetMistake[] {
  const found = quiz.records.flatMap(({ question: { kind }, mistakes }) =>
    mistakes.filter((key) => mistakeName(key, kind)).map((key) => ({ key, kind })),
  );
  return found.map((mistake) => ({ ...mistake, state: quiz.clearedKinds.includes(mistake.kind) ? "cleared" : "open" }));
}

/** The mistakes of a drawing or of flat code: open until what they were made in is put right. */
function metInLog(log: readonly string[], complete: boolean): MetMistake[] {
  const found: MetMistake[] = [];
  let waiting: Omit<MetMistake, "state">[] = [];
  const settle = (state: MetMistake["state"]): void => {
    found.push(...waiting.filter(({ key, kind }) => mistakeName(key, kind)).map((mistake) => ({ ...mistake, state })));
    waiting = [];
  };
  for (const line of log) {
    const [kind = "", key = ""] = line.startsWith(MISTAKE) ? line.slice(MISTAKE.length).split(" ") : [];
    if (kind) waiting.push({ key, kind });
    else settle(line === "shown" ? "open" : "cleared");
  }
  settle(complete ? "cleared" : "open");
  return found;
}

/** Whether all that a screen asks for is answered, drawn or written. */
export function isOver(lesson: Lesson, at: number, { logs, round }: LessonProgress): boolean {
  const screen = lesson.screens[at]!;
  const log = logs[at] ?? [];
  if (screen.type === "draw") return log.includes("next");
  if (screen.type === "questions") return playLog(screen, round, log).question === null;
  const { widget } = screen;
  return widget?.kind !== "flat" || acceptedLines(log).length >= flatLines(widget.formula ?? "").length;
}

/** What the logs of a lesson add up to: questions, mistakes, and whether it is done. */
export function summed(lesson: Lesson, progress: LessonProgress): LessonProgress {
  const met = new Map<string, MetMistake>();
  let [answered, first, over] = [0, 0, true];
  for (const [k, screen] of lesson.screens.entries()) {
    const log = progress.logs[k] ?? [];
    const complete = isOver(lesson, k, progress);
    over &&= complete;
    let mistakes = metInLog(log, complete);
    if (screen.type === "questions") {
      const { quiz } = playLog(screen, progress.round, log);
      const right = quiz.records.filter((record) => record.right);
      answered += right.length;
      first += right.filter(({ rung }) => rung === 0).length;
      mistakes = metIn(quiz);
    }
    for (const mistake of mistakes) {
      const name = mistakeName(mistake.key, mistake.kind);
      if (met.get(name)?.state !== "open") met.set(name, mistake);
    }
  }
  const found = [...met.values()];
  const seen = lesson.screens.every((screen, k) => screen.type !== "text" || progress.seen.includes(k));
  const open = found.some(({ state }) => state === "open");
  return { ...progress, met: found, answered, first, done: progress.done || (seen && over && !open) };
}

/** A mark of the bar above a lesson: a text, or a question that is answered, asked or still to come. */
export interface Mark {
  screen: number;
  kind: "text" | "question";
  state: "done" | "now" | "open";
}

/** The bar above a lesson. */
export function marksOf(lesson: Lesson, progress: LessonProgress, at: number): Mark[] {
  return lesson.screens.flatMap((screen, k): Mark[] => {
    if (screen.type !== "questions") {
      return [{ screen: k, kind: "text", state: k === at ? "now" : progress.seen.includes(k) ? "done" : "open" }];
    }
    const { quiz, question } = playLog(screen, progress.round, progress.logs[k] ?? []);
    const marks = quiz.records.map(({ right, question: asked }): Mark => {
      return { screen: k, kind: "question", state: right && asked !== question ? "done" : k === at ? "now" : right ? "done" : "open" };
    });
    const asked = (kind: string): number => quiz.records.filter((record) => record.question.kind === kind).length;
    const open = screen.kinds.map((kind) => Math.max(0, screen.each - asked(kind)));
    const rest = question ? open.reduce((sum, count) => sum + count, 0) : 0;
    return [...marks, ...Array.from({ length: rest }, (): Mark => ({ screen: k, kind: "question", state: "open" }))];
  });
}
