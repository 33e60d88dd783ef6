/**
 * A quiz: questions in turn, answers checked, hints, and what was learnt. The twin of `src/wiregrad/learn/quiz.py`: the
 * n-th question of a kind depends on the seed alone, and a kind that was missed comes back until it is answered twice in
 * a row. The page has every kind but `rule`, which asks for Python.
 */
import type { Circuit } from "../types";
import { evaluated, EXPRESSION_TOLERANCE, judgeNumber, readAnswer, refuse, rightTitle, showExactly, verdict, type Verdict } from "./answers";
import { DRAFTERS, drawChoiceQuestion } from "./choices";
import { NoQuestion, NumericGenerator, POSERS, type Question } from "./questions";
import { Draws, QuizCircuit, type Leaves } from "./quiz-run";
import { filled, sentence } from "./sentences";
import { TEXTS, WORDS } from "./sentences.generated";

export const KINDS: readonly string[] = [...Object.keys(POSERS), ...Object.keys(DRAFTERS)];
const WANTED_STREAK = 2;
const MAX_RETURNS = 6;
const MAX_RUNG = 3;
const EXPRESSION_POINTS = 5;
/** How little the change of the output may differ from what the gradient predicts to be called equal. */
const SAME_CHANGE = 1e-6;

/** Draws questions from one circuit: the n-th of a kind is the same for the same seed and fixed leaves. */
export class QuestionSource {
  readonly owner: QuizCircuit;
  private readonly generators = new Map<string, NumericGenerator>();

  constructor(
    circuit: Circuit,
    readonly seed: number,
    readonly fixed: Readonly<Leaves> = {},
  ) {
    this.owner = new QuizCircuit(circuit);
  }

  /** Draw the n-th question of a kind, counted from 0; throws `NoQuestion` if there is no clear one. */
  draw(kind: string, number: number): Question {
    const code = KINDS.indexOf(kind);
    if (!(kind in POSERS)) return drawChoiceQuestion(this.owner, kind, this.seed, number, this.fixed, code);
    const generator = this.generators.get(kind) ?? new NumericGenerator(this.owner, kind);
    this.generators.set(kind, generator);
    return generator.draw(this.seed, number, this.fixed, code);
  }
}

/** One question of a quiz and what was answered: texts, the mistakes that were named, hints, and the outcome. */
export interface QuestionRecord {
  question: Question;
  answers: string[];
  mistakes: string[];
  /** How many hints were asked for. */
  hints: number;
  rung: number;
  right: boolean;
}

interface KindProgress {
  asked: number;
  returns: number;
  streak: number;
  missed: boolean;
}

/** Questions about a circuit, generated from a seed, that know which mistake was made. */
export class Quiz {
  question: Question | null = null;
  readonly records: QuestionRecord[] = [];
  readonly skipped: string[] = [];
  private readonly progress: Map<string, KindProgress>;
  private place = 0;
  private isSettled = true;

  constructor(
    readonly source: QuestionSource,
    readonly kinds: readonly string[] = KINDS,
    /** How many questions of a kind are asked at least. */
    readonly each = 1,
  ) {
    this.progress = new Map(kinds.map((kind) => [kind, { asked: 0, returns: 0, streak: 0, missed: false }]));
  }

  /** The next question, or null when every kind has been asked and no missed one is due. */
  next(): Question | null {
    this.settle();
    const followUp = this.records.at(-1)?.right ? this.question?.followUp : null;
    if (followUp) return this.ask(followUp);
    while (this.place < this.kinds.length) {
      const kind = this.kinds[this.place]!;
      const progress = this.progress.get(kind)!;
      if (progress.asked >= this.each && !isDue(progress)) {
        this.place++;
        continue;
      }
      const question = this.drawn(kind, progress);
      if (question) return this.ask(question);
    }
    this.question = null;
    return null;
  }

  private drawn(kind: string, progress: KindProgress): Question | null {
    try {
      const question = this.source.draw(kind, progress.asked);
      progress.returns += Number(progress.missed);
      progress.asked++;
      return question;
    } catch (error) {
      if (!(error instanceof NoQuestion)) throw error;
      if (!progress.asked) this.skipped.push(kind);
      this.place++;
      return null;
    }
  }

  private ask(question: Question): Question {
    this.question = question;
    this.records.push({ question, answers: [], mistakes: [], hints: 0, rung: 0, right: false });
    this.isSettled = false;
    return question;
  }

  /** Count the question that was asked last, when the next one is wanted. */
  private settle(): void {
    if (this.isSettled) return;
    const record = this.records.at(-1)!;
    const progress = this.progress.get(record.question.kind)!;
    const isClean = record.right && record.rung === 0;
    progress.streak = isClean ? progress.streak + 1 : 0;
    progress.missed ||= !isClean;
    this.isSettled = true;
  }

  /** Check an answer to the question that was asked last: a number or expression, or the number of a choice. */
  check(answer: string): Verdict {
    const { question } = this;
    const record = this.records.at(-1);
    if (!question || !record) throw new Error("no question is open");
    const found = judge(this.source, question, answer);
    if (!found.costs || record.right) return found;
    record.answers.push(answer);
    if (found.right) {
      record.right = true;
      const title = rightTitle(record.mistakes.length, record.hints);
      return { ...found, title, text: `${answerWords(this.source, question)}${question.why}` };
    }
    record.rung = Math.min(record.rung + 1, MAX_RUNG);
    record.mistakes.push(found.key);
    return { ...found, hint: record.rung === 1 ? "" : rungOf(question, record.rung) };
  }

  /** Go one rung up the ladder: what to look at, then one factor of two, then the step itself. */
  hint(): string {
    const record = this.records.at(-1);
    if (!this.question || !record) throw new Error("no question is open");
    record.hints += Number(record.rung < MAX_RUNG);
    record.rung = Math.min(record.rung + 1, MAX_RUNG);
    return rungOf(this.question, record.rung);
  }

  /** The kinds that were missed and are not cleared yet. */
  get openKinds(): string[] {
    return this.missedKinds().filter((kind) => this.progress.get(kind)!.streak < WANTED_STREAK);
  }

  /** The kinds that were missed and then answered twice in a row. */
  get clearedKinds(): string[] {
    return this.missedKinds().filter((kind) => this.progress.get(kind)!.streak >= WANTED_STREAK);
  }

  private missedKinds(): string[] {
    return this.kinds.filter((kind) => this.progress.get(kind)!.missed);
  }
}

function isDue({ missed, streak, returns }: KindProgress): boolean {
  return missed && streak < WANTED_STREAK && returns < MAX_RETURNS;
}

function rungOf(question: Question, rung: number): string {
  return [question.neutral, question.hint, question.step][rung - 1]!;
}

/** The sentence that tells the answer with all its digits; empty where a choice was asked for. */
function answerWords({ owner }: QuestionSource, { answer, accepted }: Question): string {
  if (answer === null) return "";
  const change = accepted.at(-1)!;
  if (Math.abs(change - answer) <= SAME_CHANGE * Math.abs(answer)) {
    return filled(sentence(WORDS, "told.exactly"), { exact: showExactly(answer) });
  }
  const [predicted, changed] = [answer, change].map((number) => showExactly(Number(number.toPrecision(6))));
  return filled(sentence(WORDS, "told.nudge"), { predicted: predicted!, changed: changed!, output: owner.title(owner.root) });
}

/** The verdict on an answer to a question. */
export function judge(source: QuestionSource, question: Question, answer: string): Verdict {
  if (question.options.length) return judgeChoice(question, answer);
  const read = readAnswer(answer, question.kind === "local" ? question.leaves : null);
  if (read.number === null) return refuse(read.problem);
  const found = judgeNumber(read.number, question.accepted, question.mistakes, question.neutral);
  if (found.right && read.formula && !holdsElsewhere(source, question, read.formula)) {
    return verdict(false, "only-here", { text: sentence(TEXTS, "only-here"), number: read.number });
  }
  return found;
}

function judgeChoice({ options }: Question, answer: string): Verdict {
  const text = answer.trim();
  const byText = options.findIndex((option) => option.text === text);
  const chosen = /^\d+$/.test(text) && Number(text) >= 1 && Number(text) <= options.length ? Number(text) - 1 : byText;
  const option = options[chosen];
  if (!option) return refuse(filled(sentence(TEXTS, "unreadable-choice"), { count: String(options.length) }));
  if (option.right) return verdict(true, "right", { number: chosen + 1 });
  const { key, title, reply } = option;
  return { ...verdict(false, key), title, text: reply, number: chosen + 1 };
}

/** Whether an expression of leaf names is the local derivative at other leaves too. */
function holdsElsewhere({ owner }: QuestionSource, question: Question, formula: Circuit): boolean {
  const wire = [question.target[0]!, question.target[1]!] as const;
  const draws = new Draws(question.seed, 0, question.number, ...wire);
  for (let attempt = 0; attempt < EXPRESSION_POINTS; attempt++) {
    const run = owner.run(owner.drawLeaves(draws, attempt, {}));
    const [wanted, given] = [run.local(wire), evaluated(formula, run.leaves)];
    if (wanted === null || given === null || !run.isClean) continue;
    if (Math.abs(given - wanted) > EXPRESSION_TOLERANCE * Math.max(1, Math.abs(wanted))) return false;
  }
  return true;
}
