/** One lesson: its bar, the screen that is open, and the way to the next one. */
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { addressOf, type Route } from "./app";
import { measured, fillPlaceholders, type Course, type Lesson, type TextScreen } from "./course";
import { DrawView } from "./draw-screen";
import { LiveFigure } from "./figure";
import { marksOf, type Mark } from "./lesson-run";
import { readAnswer, isAccepted } from "./answers";
import { Inline, Tick } from "./pieces";
import type { Edit, LessonProgress } from "./progress";
import { QuestionView } from "./question";
import { showNumber, type Leaves } from "./quiz-run";
import { Summary } from "./summary";
import { Widget } from "./widgets";

interface Props {
  route: Route;
  course: Course;
  progress: LessonProgress;
  onProgress: (edit: Edit) => void;
}

/** What every screen of a lesson gets. */
export interface ScreenProps {
  lesson: Lesson;
  at: number;
  progress: LessonProgress;
  onProgress: (edit: Edit) => void;
}

/** One lesson. */
export function LessonView({ route: { lesson, screen: at }, course, progress, onProgress }: Props) {
  const screen = lesson.screens[at];
  useEffect(() => {
    const isNew = screen !== undefined && !progress.seen.includes(at);
    if (isNew || progress.screen !== at) onProgress((own) => ({ ...own, screen: at, seen: isNew ? [...own.seen, at] : own.seen }));
  }, [at]);
  const shared = { lesson, at, progress, onProgress };
  if (!screen) return <Summary {...shared} course={course} />;
  if (screen.type === "questions") return <QuestionView key={`${at} ${progress.round}`} {...shared} screen={screen} />;
  if (screen.type === "draw") return <DrawView key={at} {...shared} screen={screen} />;
  return <TextView key={at} {...shared} screen={screen} />;
}

/** The left column of a screen, with the bar of the lesson at its top. */
export function Column({ children, ...props }: ScreenProps & { children: ComponentChildren }) {
  return (
    <div class="column">
      <LessonHead {...props} />
      {children}
    </div>
  );
}

/** The name of the lesson, and the bar with its screens. */
export function LessonHead({ lesson, at, progress }: ScreenProps) {
  return (
    <>
      <div class="place">
        <a href="#/">‹ Lessons</a>
        <p><b>{lesson.number}</b> {lesson.title}</p>
      </div>
      <LessonBar marks={marksOf(lesson, progress, at)} lesson={lesson} at={at} />
    </>
  );
}

function LessonBar({ marks, lesson, at }: { marks: readonly Mark[]; lesson: Lesson; at: number }) {
  const done = marks.filter(({ state }) => state === "done").length;
  const label = `Screen ${Math.min(at + 1, lesson.screens.length)} of ${lesson.screens.length}; ${done} of ${marks.length} steps done`;
  return (
    <div class="bar-of-lesson" role="img" aria-label={label}>
      {marks.map(({ kind, state }, key) => <span key={key} class={`${kind} ${state}`}>{kind === "question" && state === "done" && <Tick />}</span>)}
    </div>
  );
}

/** Go to another screen of a lesson. */
export function go(lesson: Lesson, screen: number): void {
  location.hash = addressOf(lesson, screen);
}

/** The foot of a text: back, where one is, continue. */
export function Onward({ lesson, at }: ScreenProps) {
  useLayoutEffect(() => {
    const listen = (event: KeyboardEvent): void => {
      const target = event.target as Element;
      if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey) return;
      if (target.closest("input, textarea, select, button, a, summary, .circuit, .wg-drawing, [role=slider]")) return;
      if (event.key === " " || event.key === "PageDown") go(lesson, at + 1);
      else if (event.key === "PageUp" && at > 0) go(lesson, at - 1);
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", listen);
    return () => document.removeEventListener("keydown", listen);
  }, [lesson, at]);
  return (
    <nav class="onward" aria-label="Screens">
      {at > 0 ? <a class="button" href={addressOf(lesson, at - 1)}>Back</a> : <a class="button" href="#/">Lessons</a>}
      <p>{`screen ${at + 1} of ${lesson.screens.length}`} <kbd>Space</kbd></p>
      <a class="black" href={addressOf(lesson, at + 1)}>Continue</a>
    </nav>
  );
}

/** Give the focus to the heading of a new screen, so that it is read first. */
export function useHeading(): { ref: { current: HTMLHeadingElement | null }; tabIndex: -1 } {
  const ref = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => ref.current?.focus({ preventScroll: true }), []);
  return { ref, tabIndex: -1 };
}

/** A text screen: one idea, its figure, at most one guess. */
function TextView(props: ScreenProps & { screen: TextScreen }) {
  const { screen } = props;
  const { figure, guess, widget } = screen;
  const [leaves, setLeaves] = useState<Leaves>(figure?.leaves ?? {});
  const [moved, setMoved] = useState<Leaves | null>(null);
  const heading = useHeading();
  const filled = (text: string): string => (figure ? fillPlaceholders(text, figure.formula, leaves) : text);
  return (
    <main class="screen">
      <Column {...props}>
        <div class="body text">
          <h1 {...heading}><Inline text={screen.title} /></h1>
          <Body parts={screen.body.map(filled)} />
          {guess && figure && <GuessForm screen={screen} onTry={() => setMoved({ ...guess.leaves })} />}
        </div>
        <Onward {...props} />
      </Column>
      <div class="stage">
        {figure && <LiveFigure figure={figure} moved={moved} onLeaves={setLeaves} />}
        {figure && <p class="about-figure">{<Inline text={filled(figure.about)} />}</p>}
        {widget && <Widget {...props} widget={widget} />}
      </div>
    </main>
  );
}

/** Paragraphs; those that begin with > are rules, and numbered ones a list. */
function Body({ parts }: { parts: readonly string[] }) {
  return (
    <>
      {parts.map((part, key) => {
        if (part.startsWith("> ")) return <p key={key} class="rule"><Inline text={part.slice(2)} /></p>;
        return <p key={key}><Inline text={part} /></p>;
      })}
    </>
  );
}

/** A guess without score: the figure moves, and both numbers stand there. */
function GuessForm({ screen, onTry }: { screen: TextScreen; onTry: () => void }) {
  const { formula, leaves } = screen.figure!;
  const guess = screen.guess!;
  const [draft, setDraft] = useState("");
  const [said, setSaid] = useState("");
  const attempt = (event: Event): void => {
    event.preventDefault();
    const read = readAnswer(draft);
    if (read.number === null) return setSaid(read.problem);
    const [quantity = "", ...subject] = guess.answer.split(" ");
    const answer = measured(formula, { ...leaves, ...guess.leaves }, quantity, subject.join(" "));
    onTry();
    const shown = showNumber(answer);
    return setSaid(isAccepted(read.number, answer) ? `The circuit says ${shown}, and so did you.` : `The circuit says ${shown}. Your guess was ${showNumber(read.number)}. Which step differs?`);
  };
  return (
    <form class="guess" onSubmit={attempt}>
      <p class="kicker"><span>Guess first, then look</span><span>no score</span></p>
      <label for="guess"><Inline text={fillPlaceholders(guess.ask, formula, leaves, guess.leaves)} /></label>
      <div class="entry">
        <input id="guess" type="text" inputMode="decimal" autoComplete="off" spellcheck={false} value={draft}
          onInput={(event) => setDraft(event.currentTarget.value)} />
        <button>Try it</button>
      </div>
      <p role="status" class="note">{said}</p>
    </form>
  );
}
