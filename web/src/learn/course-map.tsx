/** The map of the course: its lessons as boxes along one wire, the mistakes that were met, and the progress as a file. */
import { useState } from "preact/hooks";
import { addressOf } from "./app";
import { mistakeName, type Course, type Lesson } from "./course";
import { noProgress, readProgress, type LessonProgress, type MetMistake, type Progress } from "./progress";
import { Tick } from "./pieces";
import { Thumbnail } from "./thumbnails";

interface Props {
  course: Course;
  progress: Progress;
  /** Whether the browser keeps the progress. */
  kept: boolean;
  onProgress: (progress: Progress) => void;
}

/** The map. */
export function CourseMap(props: Props) {
  const { course: { lessons, heading }, progress, kept } = props;
  const done = lessons.filter(({ key }) => progress.lessons[key]?.done);
  const minutes = lessons.reduce((sum, lesson) => sum + lesson.minutes, 0);
  return (
    <div class="course">
      <header>
        <p class="brand"><Logo /> wiregrad</p>
        <h1>{heading}</h1>
        <p class="lead">{`${lessons.length === 1 ? "One short lesson" : `${lessons.length} short lessons`}, ${minutes} minutes.${lessons.length === 1 ? "" : " Start anywhere."} Everything stays in this browser.`}</p>
        <Continue {...props} done={done.length} />
      </header>
      <main>
        <ol class="lessons" aria-label="Lessons">
          {lessons.map((lesson) => <LessonCard key={lesson.key} lesson={lesson} own={progress.lessons[lesson.key]} isNow={lesson === nextLesson(lessons, progress)} />)}
        </ol>
        <section class="met" aria-labelledby="met">
          <h2 id="met">Mistakes you have met</h2>
          <MetList met={Object.values(progress.lessons).flatMap(({ met }) => met)} />
        </section>
        {!kept && <p role="alert" class="note">This browser keeps nothing for this page: your progress ends with this tab. Save it as a file to keep it.</p>}
        <ProgressFile {...props} />
      </main>
    </div>
  );
}

function Logo() {
  return <svg width="28" height="16" viewBox="0 0 28 16" aria-hidden="true"><path d="M1 8h10M11 8q4 0 6-3.500t8-3.500M11 8q4 0 6 3.500t8 3.500" /><circle cx="11" cy="8" r="3.500" /></svg>;
}

/** The lesson to go on with: the one that was open last if it is not done, else the first that is not. */
function nextLesson(lessons: readonly Lesson[], { last, lessons: own }: Progress): Lesson | undefined {
  const open = lessons.filter(({ key }) => !own[key]?.done);
  return open.find(({ key }) => key === last) ?? open[0];
}

function Continue({ course: { lessons }, progress, done }: Props & { done: number }) {
  const next = nextLesson(lessons, progress);
  const own = next && progress.lessons[next.key];
  return (
    <div class="go-on">
      <p><b>{`${done} of ${lessons.length} done`}</b>{own && next && <span>{`lesson ${next.number}, screen ${own.screen + 1} of ${next.screens.length}`}</span>}</p>
      {next && <a class="black" href={addressOf(next, own?.screen ?? 0)}>{own ? `Continue lesson ${next.number}` : `Start lesson ${next.number}`}</a>}
    </div>
  );
}

function LessonCard({ lesson, own, isNow }: { lesson: Lesson; own: LessonProgress | undefined; isNow: boolean }) {
  const state = own?.done ? "done" : own ? "begun" : "new";
  return (
    <li class={`lesson ${state}${isNow ? " now" : ""}`}>
      <a href={addressOf(lesson, own?.done ? 0 : (own?.screen ?? 0))}>
        <Thumbnail lesson={lesson.key} />
        <span class="words">
          <b><span class="n">{lesson.number}</span> {lesson.title}</b>
          <span class="about">{lesson.about}</span>
          <span class="state">{stateText(lesson, own)}</span>
        </span>
      </a>
    </li>
  );
}

function stateText(lesson: Lesson, own: LessonProgress | undefined) {
  if (own?.done) return <><Tick /> {`done, ${own.answered} ${own.answered === 1 ? "question" : "questions"}`}</>;
  if (own) return `begun, screen ${Math.min(own.screen + 1, lesson.screens.length)} of ${lesson.screens.length}`;
  return `${lesson.minutes} min`;
}

/** Mistakes by name: open ones with a squiggle, cleared ones with a double rule. */
export function MetList({ met }: { met: readonly MetMistake[] }) {
  const byName = new Map<string, MetMistake["state"]>();
  for (const { key, kind, state } of met) {
    const name = mistakeName(key, kind);
    if (name && byName.get(name) !== "open") byName.set(name, state);
  }
  if (!byName.size) return <p class="note">None yet. A mistake is named where it is made, and comes back until it is cleared.</p>;
  return (
    <>
      <ul class="mistakes">
        {[...byName].map(([name, state]) => (
          <li key={name}><span class={state}>{name}</span> <span class="about">{state === "open" ? "open" : "cleared"}</span></li>
        ))}
      </ul>
      <p class="note">Open: it comes back. Cleared: right twice in a row, without a hint, with other numbers.</p>
    </>
  );
}

/** The file of a learner; teachers collect many of them in one folder. */
function fileOf(learner: string): string {
  const name = learner.trim().toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
  return name ? `progress-${name}.json` : "wiregrad-progress.json";
}

const MAX_NAME = 80;

/** The progress as a file: saved, read again, or begun anew. */
function ProgressFile({ progress, onProgress }: Props) {
  const [said, setSaid] = useState("");
  const save = (): void => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`${JSON.stringify(progress, null, 1)}\n`], { type: "application/json" }));
    link.download = fileOf(progress.learner);
    link.click();
    URL.revokeObjectURL(link.href);
    setSaid(`Saved as ${link.download}.`);
  };
  const read = async (file: File | undefined): Promise<void> => {
    const found = file ? readProgress(await file.text()) : null;
    if (found) onProgress(found);
    setSaid(found ? "This is now your progress." : "This file holds no progress of these lessons. Choose a file that was saved here.");
  };
  return (
    <section class="file" aria-label="Progress as a file">
      <label class="own-name">Your name <input type="text" value={progress.learner} maxLength={MAX_NAME} autocomplete="name" placeholder="if a teacher wants the file"
        onChange={(event) => onProgress({ ...progress, learner: event.currentTarget.value })} /></label>
      <button type="button" onClick={save}>Save progress</button>
      <label class="button">Open progress
        <input type="file" accept="application/json,.json" class="aloud" onChange={(event) => void read(event.currentTarget.files?.[0])} />
      </label>
      <button type="button" onClick={() => {
        if (!Object.keys(progress.lessons).length) return setSaid("There is no progress yet.");
        onProgress({ ...noProgress(), learner: progress.learner });
        return setSaid("All lessons are as new.");
      }}>Begin anew</button>
      <p role="status" class="note">{said}</p>
    </section>
  );
}
