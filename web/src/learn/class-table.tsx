/** The table of a class: who has done which lesson, which mistakes are open, and what to do before the next hour. */
import { save } from "../ui/save";

type MistakeState = "open" | "cleared";

export interface ClassRow {
  learner: string;
  /** Why a file of the learner is doubtful. */
  doubts: string[];
  /** "done", "begun" or "new"; empty for who handed in no progress. */
  lessons: string[];
  /** Right answers and questions of each graded set, once for each file that was handed in. */
  sets: Record<string, [right: number, count: number][]>;
  mistakes: Record<string, MistakeState>;
}

export interface ClassBook {
  title: string;
  lessons: string[];
  /** What wrong answers are called that show no mistake. */
  unnamed: string[];
  rows: ClassRow[];
  files: number;
  signed: number;
  played: number;
}

const LESSON_WORDS: Readonly<Record<string, string>> = { done: "done", begun: "begun", new: "not begun" };

/** The mistakes that someone met, those that most have open first. */
function mistakesOf(rows: readonly ClassRow[]): string[] {
  const names = [...new Set(rows.flatMap(({ mistakes }) => Object.keys(mistakes)))];
  return names.sort((one, two) => countOf(rows, two, "open") - countOf(rows, one, "open") || one.localeCompare(two));
}

function countOf(rows: readonly ClassRow[], name: string, state?: MistakeState): number {
  return rows.filter(({ mistakes }) => (state ? mistakes[name] === state : name in mistakes)).length;
}

/** The results of a learner in a set: all of them where it was handed in more than once. */
function scoresOf({ sets }: ClassRow, set: string): string {
  return (sets[set] ?? []).map(([right, count]) => `${right} of ${count}`).join(", ");
}

/** The page of a class. */
export function ClassTable({ book }: { book: ClassBook }) {
  const { title, rows } = book;
  const names = mistakesOf(rows);
  const sets = [...new Set(rows.flatMap((row) => Object.keys(row.sets)))];
  const lessons = rows.some((row) => row.lessons.length) ? book.lessons : [];
  const doubts = rows.flatMap((row) => row.doubts);
  return (
    <main class="class-book">
      <div class="top">
        <p>For teachers / <b>Gradebook</b></p>
        <p class="ways">
          <button type="button" onClick={() => save("gradebook.csv", "text/csv", csvOf(book, lessons, sets, names))}>Export CSV</button>
          <button type="button" onClick={() => save("gradebook.json", "application/json", `${JSON.stringify(book, null, 2)}\n`)}>Export JSON</button>
        </p>
      </div>
      <h1>{title}</h1>
      <p class="about">{`${book.files} files read, none sent anywhere. ${book.signed} signed${book.played ? `, ${book.played} played again and found true` : ""}.`}</p>
      <div class="wide" role="region" aria-label="Class" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">learner</th>
              {lessons.map((lesson, k) => <th key={lesson} scope="col" class="lesson" title={lesson}>{k + 1}<span class="aloud"> {lesson}</span></th>)}
              {sets.map((set) => <th key={set} scope="col" class="set">{set}</th>)}
              {names.map((name) => <th key={name} scope="col" class="mistake"><span>{name}</span></th>)}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.learner}>
                <th scope="row">{row.learner}{row.doubts.length > 0 && <span class="doubt" title={row.doubts.join("; ")}><span aria-hidden="true">!</span><span class="aloud"> changed or not signed</span></span>}</th>
                {lessons.map((lesson, k) => <LessonCell key={lesson} name={k + 1} state={row.lessons[k] ?? "new"} />)}
                {sets.map((set) => <td key={set} class="set" data-name={set}>{scoresOf(row, set)}</td>)}
                {names.map((name) => <MistakeCell key={name} name={name} state={row.mistakes[name]} />)}
              </tr>
            ))}
          </tbody>
          <tfoot>
            <tr>
              <th scope="row">done</th>
              {lessons.map((lesson, k) => <td key={lesson} class="lesson" data-name={k + 1}>{rows.filter((row) => row.lessons[k] === "done").length || "–"}</td>)}
              {sets.map((set) => <td key={set} class="set" data-name={set}>{rows.filter((row) => row.sets[set]).length}</td>)}
              {names.map((name) => {
                const [open, met] = [countOf(rows, name, "open"), countOf(rows, name)];
                return <td key={name} class="mistake" data-name={name}><b>{open}</b>{met > open && ` of ${met}`}</td>;
              })}
            </tr>
          </tfoot>
        </table>
      </div>
      <ul class="key">
        {lessons.length > 0 && <><li><Dot state="done" /> done</li><li><Dot state="begun" /> begun</li></>}
        <li><Settled /> cleared</li><li><span class="still"><Squiggle /></span> still open</li>
        {doubts.length > 0 && <li><span class="doubt">!</span> changed, or not signed</li>}
      </ul>
      {doubts.length > 0 && <ul class="doubts">{doubts.map((doubt) => <li key={doubt}>{doubt}</li>)}</ul>}
      <Advice rows={rows} names={names.filter((name) => !book.unnamed.includes(name))} lessons={lessons} />
    </main>
  );
}

/** The mistake that most learners have open, and how far half of the class is. */
function Advice({ rows, names, lessons }: { rows: readonly ClassRow[]; names: readonly string[]; lessons: readonly string[] }) {
  const [first] = names;
  const open = first === undefined ? 0 : countOf(rows, first, "open");
  const done = rows.map((row) => row.lessons.filter((state) => state === "done").length).sort((one, two) => two - one);
  const half = done[Math.ceil(rows.length / 2) - 1] ?? 0;
  if (!open && !lessons.length) return null;
  return (
    <p class="advice">
      <b>Before the next hour: </b>
      {open > 0 && <>{`${open} of ${rows.length} learners ${open === 1 ? "makes" : "make"} this mistake: `}<span class="open">{first}</span>. </>}
      {lessons.length > 0 && `Half the class has finished ${half} ${half === 1 ? "lesson" : "lessons"} or more.`}
    </p>
  );
}

function Dot({ state }: { state: string }) {
  return (
    <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
      {state === "new" ? <circle class="ink" cx="8" cy="8" r="1.500" /> : <circle class={state === "done" ? "ink" : "ring"} cx="8" cy="8" r="6.200" />}
      {state === "begun" && <path class="ink" d="M8 1.800a6.200 6.200 0 0 1 0 12.400z" />}
    </svg>
  );
}

const Settled = () => <svg width="18" height="10" viewBox="0 0 18 10" aria-hidden="true"><path class="ring" d="M1 3h16M1 7h16" /></svg>;
const Squiggle = () => <svg width="20" height="8" viewBox="0 0 20 8" aria-hidden="true"><path class="ring" d="M1 4q2.250-5 4.500 0t4.500 0t4.500 0t4.500 0" /></svg>;

/** On a narrow page a row stands as a list, in which every cell says what it is of: `data-name`. */
function LessonCell({ name, state }: { name: number; state: string }) {
  return <td class="lesson" data-name={name}><Dot state={state} /><span class="aloud">{LESSON_WORDS[state]}</span></td>;
}

function MistakeCell({ name, state }: { name: string; state: MistakeState | undefined }) {
  return (
    <td class="mistake" data-name={name}>
      {state && <>{state === "open" ? <span class="still"><Squiggle /></span> : <Settled />}<span class="aloud">{state}</span></>}
    </td>
  );
}

/** The title of a set in a spreadsheet, with how many questions it has, and the right answers of a learner as a number. */
function columnOf(rows: readonly ClassRow[], set: string): [title: string, cell: (row: ClassRow) => string] {
  const counts = new Set(rows.flatMap((row) => (row.sets[set] ?? []).map(([, count]) => count)));
  if (counts.size !== 1) return [set, (row) => scoresOf(row, set)];
  return [`${set} (of ${[...counts][0]})`, (row) => (row.sets[set] ?? []).map(([right]) => right).join(", ")];
}

const quoted = (text: string): string => (/[",\r\n]|^[=+@\t-]/.test(text) ? `"${text.replace(/^(?=[=+@\t\r-])/, "'").replaceAll('"', '""')}"` : text);

/** The table as text for a spreadsheet; a cell that looks like a formula is made text. */
export function csvOf({ rows }: ClassBook, lessons: readonly string[], sets: readonly string[], names: readonly string[]): string {
  const columns = sets.map((set) => columnOf(rows, set));
  const lines = [
    ["learner", ...lessons, ...columns.map(([title]) => title), ...names, "doubts"],
    ...rows.map((row) => [
      row.learner,
      ...lessons.map((_, k) => LESSON_WORDS[row.lessons[k] ?? "new"] ?? ""),
      ...columns.map(([, cell]) => cell(row)),
      ...names.map((name) => row.mistakes[name] ?? ""),
      row.doubts.join("; "),
    ]),
  ];
  return `${lines.map((line) => line.map(quoted).join(",")).join("\r\n")}\r\n`;
}
