/** The card at the end of a lesson: what one can do now, the mistakes that were met, and what comes next. */
import { addressOf } from "./app";
import { mistakeName, type Course } from "./course";
import { MetList } from "./course-map";
import { Column, go, useHeading, type ScreenProps } from "./lesson";
import { isOver } from "./lesson-run";
import { Inline, Tick } from "./pieces";
import { Thumbnail } from "./thumbnails";

/** The card. */
export function Summary(props: ScreenProps & { course: Course }) {
  const { lesson, progress, course, onProgress } = props;
  const heading = useHeading();
  const next = course.lessons[course.lessons.indexOf(lesson) + 1];
  const open = progress.met.filter(({ state }) => state === "open");
  const skipped = lesson.screens.findIndex((screen, k) => (screen.type === "text" && !progress.seen.includes(k)) || !isOver(lesson, k, progress));
  const never = [...new Set(lesson.mistakes.map((key) => mistakeName(key)))].filter(
    (name) => !progress.met.some(({ key, kind }) => mistakeName(key, kind) === name),
  );
  const again = (): void => {
    // A drawing of which a number was given away is drawn again.
    const isKept = (type: string | undefined, log: readonly string[]): boolean => type === "text" || (type === "draw" && !log.includes("shown"));
    const logs = Object.fromEntries(Object.entries(progress.logs).filter(([k, log]) => isKept(lesson.screens[Number(k)]?.type, log)));
    onProgress((own) => ({ ...own, round: own.round + 1, logs, met: [], screen: 0 }));
    go(lesson, Math.max(0, lesson.screens.findIndex(({ type }, k) => type !== "text" && !(k in logs))));
  };
  return (
    <main class="screen">
      <Column {...props} at={lesson.screens.length}>
        <div class="body card-of-lesson">
          <p class="kicker"><span>{`Lesson ${lesson.number}`}</span><span>{progress.done ? "done" : "not done yet"}</span></p>
          <h1 {...heading}>{progress.done && <Tick />} {lesson.title}</h1>
          <Thumbnail lesson={lesson.key} />
          <p><Inline text={lesson.summary} /></p>
          <p class="kicker"><span>Mistakes met on the way</span><span>{`${progress.answered} ${progress.answered === 1 ? "question" : "questions"}, ${progress.first} at the first try`}</span></p>
          <MetList met={progress.met} />
          {never.length > 0 && <p class="note">{`never met: ${never.join(", ")}`}</p>}
          {skipped >= 0 && <p class="note"><a href={addressOf(lesson, skipped)}>{`Screen ${skipped + 1} is still to come`}</a></p>}
          <div class="quiet-row">
            {next && <a class="black" href={addressOf(next, 0)}>{`${next.number}  ${next.title}`}</a>}
            {!next && <a class="black" href="#/">All lessons</a>}
            <button type="button" onClick={again}>{open.length ? "Clear what is open" : "Ask me with other numbers"}</button>
            <button type="button" onClick={() => print()}>Print</button>
          </div>
        </div>
      </Column>
      <div class="stage" />
    </main>
  );
}
