/**
 * The page of a question set. It checks answers by itself, or, where it is graded, saves them to a file that Python
 * grades: then it holds no answers, and nothing here computes them.
 */
import { render } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
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
}

interface Sheet {
  title: string;
  graded: boolean;
  set: { formula: string; seed: number; leaves: Record<string, number>; kinds: string[]; count: number | null };
  questions: ShownQuestion[];
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

/** One question: its picture, what is given, a field or choices, and what is said of the answer. */
function QuestionView(props: { k: number; shown: ShownQuestion; outcome: Outcome | null; onAnswer: (text: string) => void; button: string }) {
  const { k, shown, outcome } = props;
  const id = useUnique();
  const field = useRef<HTMLInputElement>(null);
  const [choice, setChoice] = useState("");
  const submit = (event: Event): void => {
    event.preventDefault();
    props.onAnswer(shown.options.length ? choice : field.current!.value);
    field.current?.select();
  };
  return (
    <li>
      <form onSubmit={submit}>
        <h2 id={`${id}-asked`}>{k + 1}. {shown.prompt}</h2>
        <picture>
          <source media="(max-width: 600px)" srcset={shown.tall} />
          <img src={shown.picture} alt={`Circuit of question ${k + 1}: ${shown.lines.join("; ") || "no numbers given"}`} />
        </picture>
        <ul class="given">{shown.lines.map((line) => <li key={line}>{line}</li>)}</ul>
        {shown.options.length ? (
          <fieldset aria-labelledby={`${id}-asked`}>
            {shown.options.map(([text, detail], at) => (
              <label key={text}>
                <input type="radio" name={id} value={at + 1} checked={choice === String(at + 1)} onChange={() => setChoice(String(at + 1))} /> {text}
                {detail && <small> {detail}</small>}
              </label>
            ))}
          </fieldset>
        ) : (
          <input ref={field} class="answer" aria-labelledby={`${id}-asked`} inputMode="decimal" autocomplete="off" />
        )}
        <button type="submit">{props.button}<span class="aloud"> question {k + 1}</span></button>
        <div role="status" class="feedback">{outcome && <><b>{outcome.title}</b> {outcome.text}</>}</div>
      </form>
    </li>
  );
}

function SheetApp({ sheet }: { sheet: Sheet }) {
  const [learner, setLearner] = useState("");
  const [outcomes, setOutcomes] = useState<readonly (Outcome | null)[]>(sheet.questions.map(() => null));
  const [answers, setAnswers] = useState<readonly (string | null)[]>(sheet.questions.map(() => null));
  const [message, setMessage] = useState("");
  const asked = useMemo(() => {
    if (sheet.graded) return null;
    const source = new QuestionSource(parse(sheet.set.formula), sheet.set.seed, sheet.set.leaves);
    return { source, questions: drawQuestions(source, sheet.set.kinds, sheet.set.count) };
  }, [sheet]);
  const answer = (k: number, text: string): void => {
    if (!text.trim()) return;
    setAnswers(replaced(answers, k, text));
    const outcome = asked ? judged(asked.source, asked.questions[k]!, text, outcomes[k]?.tries ?? 0) : { title: "Noted", text: text.trim(), right: false, tries: 0 };
    setOutcomes(replaced(outcomes, k, outcome));
  };
  const keep = (event: Event): void => {
    event.preventDefault();
    if (!learner.trim()) return setMessage("Type your name first.");
    const { signature, set } = sheet;
    const document = { document: "answers", schema: 1, learner: learner.trim(), set, signature, answers };
    save("answers.json", "application/json", JSON.stringify(document, null, 2));
    const open = answers.filter((text) => text === null).length;
    setMessage(`Saved as answers.json${open ? `; ${open} not answered` : ""}. Hand it to your teacher.`);
  };
  const right = outcomes.filter((outcome) => outcome?.right).length;
  return (
    <main>
      <h1>{sheet.title}</h1>
      <p class="about">{sheet.graded ? "Answer, then save your answers to a file for your teacher." : `${right} of ${sheet.questions.length} right`}</p>
      <ol>
        {sheet.questions.map((shown, k) => (
          <QuestionView key={k} k={k} shown={shown} outcome={outcomes[k]!} onAnswer={(text) => answer(k, text)} button={sheet.graded ? "Note" : "Check"} />
        ))}
      </ol>
      {sheet.graded && (
        <form class="keep" onSubmit={keep}>
          <label>Your name <input class="answer" value={learner} maxLength={200} onInput={(event) => setLearner(event.currentTarget.value)} /></label>
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
