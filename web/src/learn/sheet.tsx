/**
 * The page of a question set. It checks answers by itself, or, where it is graded, saves them to a file that Python
 * grades: then it holds no answers, and nothing here computes them.
 */
import { render } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { parse } from "../engine";
import { useMedia, useUnique } from "../ui/parts";
import { DATA, ROOT } from "../ui/page";
import { save } from "../ui/save";
import { ClassTable, type ClassBook } from "./class-table";
import { NoQuestion, type Question } from "./questions";
import { judge, QuestionSource } from "./quiz";

interface ShownQuestion {
  kind: string;
  prompt: string;
  lines: string[];
  options: [text: string, detail: string][];
  picture: string;
  /** The same picture from top to bottom, for narrow pages. */
  tall: string;
  /** How far from its left edge that one shows what is asked, from 0 to 1. */
  asked: number;
  /** The picture that is printed, where, and how many pixels wide. */
  paper: [picture: string, place: string, width: number];
}

interface Sheet {
  title: string;
  graded: boolean;
  set: { formula: string; seed: number; leaves: Record<string, number>; kinds: string[]; count: number | null };
  questions: ShownQuestion[];
  /** The answer to each question and what leads to it; only on a page for teachers. */
  solutions?: [answer: string, ...steps: string[]][];
  signature?: string;
}

/** The first question of each kind, then the second ones, until there are enough: the twin of `draw_questions`. */
export function drawQuestions(source: QuestionSource, kinds: readonly string[], count: number | null): Question[] {
  const made: Question[] = [];
  let left = [...kinds];
  for (let number = 0; left.length && (count === null ? number === 0 : made.length < count); number++) {
    for (const kind of [...left]) {
      try {
        made.push(source.draw(kind, number));
      } catch (error) {
        if (!(error instanceof NoQuestion)) throw error;
        left = left.filter((other) => other !== kind);
      }
      if (made.length === count) return made;
    }
  }
  return made;
}

function replaced<T,>(items: readonly T[], at: number, item: T): T[] {
  return items.map((old, k) => (k === at ? item : old));
}

interface Outcome {
  title: string;
  text: string;
  right: boolean;
  tries: number;
}

/** How many times smaller than it was drawn a picture may be shown: then its numbers are 9 pixels high. */
const MAX_SHRINKING = 1.4;

/**
 * The picture of a question: from top to bottom where it would be too small to read from left to right. One that is too
 * small even then is as wide as it must be, and moves to the side in its frame; first it shows what is asked.
 */
function QuestionImage({ shown, alt }: { shown: ShownQuestion; alt: string }) {
  const [tall, setTall] = useState(false);
  const [least, setLeast] = useState(0);
  const frame = useRef<HTMLDivElement>(null);
  const fit = ({ naturalWidth, clientWidth, currentSrc }: HTMLImageElement): void => {
    if (naturalWidth <= MAX_SHRINKING * clientWidth) return;
    if (currentSrc === shown.tall) setLeast(naturalWidth / MAX_SHRINKING);
    else setTall(true);
  };
  useEffect(() => {
    const part = frame.current!;
    part.scrollLeft = shown.asked * part.scrollWidth - part.clientWidth / 2;
  }, [least]);
  return (
    <div ref={frame} class="picture" {...(least ? { role: "region", "aria-label": "Picture", tabIndex: 0 } : {})}>
      <picture>
        <source media="(max-width: 600px)" srcset={shown.tall} />
        <img src={tall ? shown.tall : shown.picture} alt={alt} style={{ minWidth: `${least}px` }} onLoad={({ currentTarget }) => fit(currentTarget)} />
      </picture>
    </div>
  );
}

interface QuestionProps {
  k: number;
  shown: ShownQuestion;
  outcome: Outcome | null;
  /** What stands in the field, or the number of the choice that is taken, from 1. */
  answer: string;
  onAnswer: (text: string) => void;
  /** Null where answers are not checked here. */
  onCheck: (() => void) | null;
}

/** One question: its picture, what is given, a field or choices, and what is said of the answer. */
function QuestionView({ k, shown, outcome, answer, onAnswer, onCheck }: QuestionProps) {
  const id = useUnique();
  const field = useRef<HTMLInputElement>(null);
  const submit = (event: Event): void => {
    event.preventDefault();
    onCheck?.();
    field.current?.select();
  };
  return (
    <li>
      <form onSubmit={submit}>
        <h2 id={`${id}-asked`}>{k + 1}. {shown.prompt}</h2>
        <QuestionImage shown={shown} alt={`Circuit of question ${k + 1}: ${shown.lines.join("; ") || "no numbers given"}`} />
        <img class={shown.paper[1]} src={shown.paper[0]} alt="" style={{ width: `${shown.paper[2]}px` }} />
        <ul class="given">{shown.lines.map((line) => <li key={line}>{line}</li>)}</ul>
        {shown.options.length ? (
          <fieldset aria-labelledby={`${id}-asked`}>
            {shown.options.map(([text, detail], at) => (
              <label key={text}>
                <input type="radio" name={id} value={at + 1} checked={answer === String(at + 1)} onChange={() => onAnswer(String(at + 1))} /> {text}
                {detail && <small> {detail}</small>}
              </label>
            ))}
          </fieldset>
        ) : (
          <input ref={field} class="answer" aria-labelledby={`${id}-asked`} inputMode="decimal" autocomplete="off" maxLength={MAX_TEXT}
            value={answer} onInput={(event) => onAnswer(event.currentTarget.value)} />
        )}
        {onCheck && <button type="submit">Check<span class="aloud"> question {k + 1}</span></button>}
        <div role="status" class="feedback">{outcome && <><b>{outcome.title}</b> {outcome.text}</>}</div>
      </form>
    </li>
  );
}

/** The longest answer and the longest name that Python reads. */
const MAX_TEXT = 200;

/** The letters and digits of a text, joined by hyphens, so that it can be part of a file's name on every system. */
function nameable(text: string, most: number): string {
  return [...text.replace(/[^\p{L}\p{M}\p{N}]+/gu, "-")].slice(0, most).join("").replace(/^-+|-+$/g, "");
}

/** The file of a learner's answers: a teacher collects those of a class in one folder. */
function fileOf(learner: string, title: string): string {
  return `${["answers", nameable(learner, 30), nameable(title, 20)].filter(Boolean).join("-")}.json`;
}

function SheetApp({ sheet }: { sheet: Sheet }) {
  const { questions, solutions, title, graded, set, signature } = sheet;
  const [learner, setLearner] = useState("");
  const [outcomes, setOutcomes] = useState<readonly (Outcome | null)[]>(questions.map(() => null));
  const [answers, setAnswers] = useState<readonly string[]>(questions.map(() => ""));
  const [message, setMessage] = useState("");
  const asked = useMemo(() => {
    if (graded) return null;
    const source = new QuestionSource(parse(set.formula), set.seed, set.leaves);
    return { source, questions: drawQuestions(source, set.kinds, set.count) };
  }, [sheet]);
  const type = (k: number, text: string): void => {
    setAnswers(replaced(answers, k, text));
    setMessage("");
  };
  const check = ({ source, questions: drawn }: NonNullable<typeof asked>, k: number): void => {
    if (answers[k]!.trim()) setOutcomes(replaced(outcomes, k, judged(source, drawn[k]!, answers[k]!, outcomes[k]?.tries ?? 0)));
  };
  const keep = (event: Event): void => {
    event.preventDefault();
    if (!learner.trim()) return setMessage("Type your name first.");
    const given = answers.map((text) => text.trim() || null);
    const name = fileOf(learner, title);
    const document = { document: "answers", schema: 1, learner: learner.trim(), set, signature, answers: given };
    save(name, "application/json", JSON.stringify(document, null, 2));
    const open = given.filter((text) => text === null).length;
    setMessage(`Saved as ${name}${open ? `; ${open} not answered` : ""}. Hand it to your teacher.`);
  };
  const right = outcomes.filter((outcome) => outcome?.right).length;
  return (
    <main>
      <h1>{title}</h1>
      <p class="about">{graded ? "Answer all that you can. At the end, save your answers to a file for your teacher." : `${right} of ${questions.length} right`}</p>
      <ol>
        {questions.map((shown, k) => (
          <QuestionView key={k} k={k} shown={shown} outcome={outcomes[k]!} answer={answers[k]!} onAnswer={(text) => type(k, text)}
            onCheck={asked && (() => check(asked, k))} />
        ))}
      </ol>
      {solutions && (
        <section class="solutions">
          <h2>Solutions</h2>
          {solutions.map(([answer, ...steps], k) => <p key={k}>{k + 1}. <b>{answer}</b>: {steps.join(" ")}</p>)}
        </section>
      )}
      {graded && (
        <form class="keep" onSubmit={keep}>
          <label>Your name <input class="answer" value={learner} maxLength={MAX_TEXT} onInput={(event) => setLearner(event.currentTarget.value)} /></label>
          <button type="submit">Save answers</button>
          <p role="status">{message}</p>
        </form>
      )}
    </main>
  );
}

/** What is said of an answer; after the second and the third wrong one comes a hint. */
function judged(source: QuestionSource, question: Question, text: string, tries: number): Outcome {
  const found = judge(source, question, text);
  if (found.right) return { title: "Right", text: question.why, right: true, tries };
  const now = tries + Number(found.costs);
  const hint = [question.hint, question.step][now - 2] ?? (now > 3 ? question.step : "");
  return { title: found.title, text: [found.text, hint].filter(Boolean).join(" "), right: false, tries: now };
}

function Themed({ sheet, gradebook }: PageData) {
  const dark = useMedia("(prefers-color-scheme: dark)");
  return (
    <div class="wg-app sheet" data-theme={dark ? "dark" : "light"}>
      {sheet && <SheetApp sheet={sheet} />}
      {gradebook && <ClassTable book={gradebook} />}
    </div>
  );
}

/** What a page holds: a question set, or the table of a class. */
interface PageData {
  sheet?: Sheet;
  gradebook?: ClassBook;
}

render(<Themed {...(JSON.parse(document.getElementById(DATA)!.textContent) as PageData)} />, document.getElementById(ROOT)!);
