/** A question: what is asked, the field or the choices, feedback that knows the mistake, the ladder of hints, the picture. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Verdict } from "./answers";
import { circuitOf, mistakeName, type QuestionScreen } from "./course";
import { spaced, useFitted, useFrame } from "./figure";
import { answerLine, marksOf, playLog, type Asked } from "./lesson-run";
import { Column, go, type ScreenProps } from "./lesson";
import { branchSum } from "./branch-marks";
import { birthText, drawTrail, Trail, trailOf } from "./hunt";
import { drawMarks } from "./marks";
import { Tick, WithNames } from "./pieces";
import { askedPlace, optionAt, selectionOf, shownOf } from "./question-picture";
import type { Question } from "./questions";
import { showFactor, showNumber, type QuizCircuit } from "./quiz-run";
import { useWatched } from "./watched";
import { signClass } from "../ui/text";
import { CircuitView } from "../ui/circuit";
import * as extras from "../ui/circuit-extras";
import { Named } from "../ui/named";
import { nudge } from "../engine/questions";
import type { Firing } from "../state/firing";
import type { Shown } from "../state/known";

/** What a kind of question is called. */
const KIND_NAMES: Readonly<Record<string, string>> = {
  value: "value", local: "local derivative", send: "sent gradient", gather: "gradients meet", leaf: "gradient of a leaf",
  nudge: "nudge", paths: "paths", order: "order", router: "router", structure: "structure", claim: "true or not",
  spot: "spot the mistake", debug: "hunt",
};
const MAX_RUNG = 3;

/** What each rung of the ladder gives; the first one names the mistake only where an answer has shown one. */
function rungsOf({ kind, options }: Question, mistakes: readonly string[]): string[] {
  const first = mistakes.some((key) => mistakeName(key, kind)) ? "the mistake, named" : "what to look at";
  const second = options.length > 2 ? "one choice less" : options.length ? "where to look" : kind === "gather" ? "one branch shown" : "one factor shown";
  return [first, second, "watch the step"];
}
const KEYS = [["−", "-"], ["×", "*"], ["÷", "/"], ["(", "("], [")", ")"]] as const;

interface Props extends ScreenProps {
  screen: QuestionScreen;
}

/** The questions of a screen, one after the other. */
export function QuestionView(props: Props) {
  const { screen, at, progress, onProgress, lesson } = props;
  const log = progress.logs[at] ?? [];
  const asked = useMemo(() => playLog(screen, progress.round, log), [screen, progress.round, log.length]);
  const write = (line: string): void => onProgress((own) => ({ ...own, logs: { ...own.logs, [at]: [...(own.logs[at] ?? []), line] } }));
  const over = asked.question === null;
  useEffect(() => {
    if (over && !log.length) go(lesson, at + 1);
  }, [over]);
  if (!asked.question) return <Over {...props} asked={asked} />;
  return <OneQuestion key={asked.quiz.records.length} {...props} asked={asked} question={asked.question} write={write} />;
}

/** All questions of a screen are answered. */
function Over(props: Props & { asked: Asked }) {
  const { lesson, at, asked: { quiz } } = props;
  const onward = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => onward.current?.focus({ preventScroll: true }), []);
  const open = quiz.openKinds;
  const back = lesson.screens.slice(0, at).reduce((found, { type }, k) => (type === "text" ? k : found), -1);
  return (
    <main class="screen">
      <Column {...props}>
        <div class="body text">
          <h1>{open.length ? "Not settled yet" : "These are settled"}</h1>
          <p>{`${quiz.records.length} questions, ${quiz.records.filter(({ right, rung }) => right && !rung).length} at the first try.`}</p>
          {open.length > 0 && <p>{`Still open: ${open.map((kind) => KIND_NAMES[kind] ?? kind).join(", ")}. Read the text again; the lesson's card offers other numbers.`}</p>}
        </div>
        <nav class="onward" aria-label="Screens">
          {back >= 0 ? <button type="button" onClick={() => go(lesson, back)}>Read again</button> : <a class="button" href="#/">Lessons</a>}
          <button type="button" ref={onward} class="black" onClick={() => go(lesson, at + 1)}>Continue</button>
        </nav>
      </Column>
      <div class="stage" />
    </main>
  );
}

interface OneProps extends Props {
  asked: Asked;
  question: Question;
  write: (line: string) => void;
}

function OneQuestion(props: OneProps) {
  const { asked, question, write, screen } = props;
  const { record, verdict, hint } = asked;
  const circuit = circuitOf(screen.formula);
  const names = useMemo(() => circuit.nodes.map((node) => circuit.title(node)).filter((name) => !/^[−\d.]+$/.test(name)), [circuit]);
  const isRight = record!.right;
  const [draft, setDraft] = useState(isRight ? asked.answer : "");
  const [choice, setChoice] = useState(-1);
  const [refused, setRefused] = useState<Verdict | null>(null);
  const field = useRef<HTMLInputElement>(null);
  const next = useRef<HTMLButtonElement>(null);
  const stage = useRef<HTMLDivElement>(null);
  const numeric = !question.options.length;
  // Before the screen is painted: who types fast must not lose a key.
  useLayoutEffect(() => {
    if (isRight) next.current?.focus({ preventScroll: true });
    else if (numeric) field.current?.focus({ preventScroll: true });
    else document.querySelector<HTMLElement>(".choices input")?.focus({ preventScroll: true });
  }, [isRight]);
  const status = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (verdict && !verdict.right) field.current?.select();
    if (verdict || hint) status.current?.scrollIntoView({ block: "nearest" });
  }, [record?.answers.length, record?.rung]);
  const check = (event: Event): void => {
    event.preventDefault();
    if (isRight) return write("next");
    const answer = numeric ? draft : String(choice + 1);
    if (!answer.trim() || (!numeric && choice < 0)) {
      return setRefused({ right: false, key: "", title: "Not an answer yet", text: numeric ? "Type a number, such as 0.25, 1/4 or -3*10." : "Choose one of them.", factors: [], number: null, costs: false, hint: "" });
    }
    setRefused(null);
    // The same answer once more is no new attempt.
    if (verdict && !verdict.right && answer === asked.answer) return undefined;
    return write(answerLine(answer));
  };
  const [turn, setTurn] = useState(0);
  const askHint = (): void => {
    if (isRight) return;
    if (record!.rung < MAX_RUNG) write("hint");
    else setTurn(turn + 1);
  };
  const toPicture = (): void => stage.current?.querySelector<HTMLElement>(".circuit")?.focus();
  const press = (event: KeyboardEvent): void => {
    if (event.altKey && event.code === "KeyH") askHint();
    else if (event.altKey && event.code === "KeyP") toPicture();
    else if (event.key === "Escape" && stage.current?.contains(event.target as Node)) (field.current ?? document.querySelector<HTMLElement>(".choices input:checked, .choices input"))?.focus();
    else return;
    event.preventDefault();
  };
  const said = refused ?? verdict;
  const asking = marksOf(props.lesson, props.progress, props.at).filter(({ kind }) => kind === "question");
  const before = asking.filter(({ screen: k }) => k < props.at).length;
  const number = before + asked.quiz.records.length;
  return (
    <main class="screen asking" onKeyDown={press}>
      <Column {...props}>
        <div class="body">
          <p class="kicker"><span>{`Question ${number} of ${asking.length}`}</span><span>{KIND_NAMES[question.kind]}</span></p>
          <h1 id="prompt"><WithNames text={question.prompt} names={names} /></h1>
          <form onSubmit={check} aria-labelledby="prompt">
            {numeric ? (
              <NumberEntry draft={draft} onDraft={setDraft} field={field} isRight={isRight} isWrong={said !== null && !isRight} next={next} />
            ) : (
              <Choices question={question} choice={choice} onChoice={setChoice} isRight={isRight} answer={asked.answer} names={names} />
            )}
            {!numeric && <button ref={next} class="black check">{isRight ? "Next" : "Check"}</button>}
          </form>
          {question.kind === "debug" && <Trail clicks={trailOf(question, record!.answers)} names={names} />}
          <div role="status" class="said" ref={status}>
            {said && <Feedback verdict={said} names={names} isRight={isRight} circuit={circuit} question={question} shown={null} />}
            {!isRight && hint && hint !== said?.text && <p class="hint-text"><b>{`Hint ${record!.rung}`}</b> <WithNames text={hint} names={names} /></p>}
          </div>
          {!isRight && <Ladder rungs={rungsOf(question, record!.mistakes)} rung={record!.rung} onHint={askHint} onPicture={toPicture} />}
          {numeric && !isRight && <p class="note ways">Type it as you like: <code>0,25</code> <code>1/4</code> <code>2.5e-1</code> <code>-3*10</code></p>}
        </div>
      </Column>
      <div class="stage" ref={stage}>
        <QuestionPicture asked={asked} question={question} circuit={circuit} typed={!isRight && verdict && numeric ? asked.answer : ""}
          isRight={isRight} formula={screen.formula} turn={turn} onOption={(k) => !isRight && setChoice(k)} choice={choice} />
      </div>
    </main>
  );
}

function NumberEntry({ draft, onDraft, field, isRight, isWrong, next }: {
  draft: string; onDraft: (text: string) => void; field: { current: HTMLInputElement | null };
  isRight: boolean; isWrong: boolean; next: { current: HTMLButtonElement | null };
}) {
  const type = (text: string): void => {
    const input = field.current!;
    input.focus();
    input.setRangeText(text, input.selectionStart ?? draft.length, input.selectionEnd ?? draft.length, "end");
    onDraft(input.value);
  };
  return (
    <>
      <div class={`entry${isWrong ? " again" : ""}${isRight ? " settled" : ""}`}>
        <input ref={field} id="answer" type="text" inputMode="decimal" autoComplete="off" spellcheck={false} aria-labelledby="prompt"
          value={draft} readOnly={isRight} onInput={(event) => onDraft(event.currentTarget.value)} />
        <button ref={next} class="black">{isRight ? "Next" : "Check"}</button>
      </div>
      {!isRight && (
        <div class="keys" role="group" aria-label="Signs">
          {KEYS.map(([sign, text]) => <button key={sign} type="button" onClick={() => type(text)}>{sign}</button>)}
        </div>
      )}
    </>
  );
}

function Choices({ question, choice, onChoice, isRight, answer, names }: {
  question: Question; choice: number; onChoice: (k: number) => void; isRight: boolean; answer: string; names: readonly string[];
}) {
  const settled = isRight ? Number(answer) - 1 : -1;
  return (
    <fieldset class="choices" disabled={isRight}>
      <legend class="aloud">{question.prompt}</legend>
      {question.options.map(({ text, detail }, k) => (
        <label key={k} class={k === settled ? "settled" : undefined}>
          <input type="radio" name="choice" checked={k === (isRight ? settled : choice)} onChange={() => onChoice(k)} />
          <span><WithNames text={text} names={names} />{detail && <small>{detail}</small>}</span>
        </label>
      ))}
    </fieldset>
  );
}

/** What is said of an answer: the mistake, rebuilt from its factors; or why it is right, with a nudge as proof. */
function Feedback({ verdict, names, isRight, circuit, question }: {
  verdict: Verdict; names: readonly string[]; isRight: boolean; circuit: QuizCircuit; question: Question; shown: Shown | null;
}) {
  const { title, text, factors, number } = verdict;
  return (
    <div class={isRight ? "feedback right" : "feedback"}>
      <h2>{isRight && <Tick />} {title}</h2>
      {factors.length > 1 && number !== null && (
        <p class="rebuilt" aria-hidden="true">
          <span class="factor"><b class={`num ${signClass(factors[0]!.value)}`}>{showNumber(factors[0]!.value)}</b><small>{factors[0]!.label}</small></span>
          <span>×</span>
          <span class="factor used"><b class="num">{showFactor(factors[1]!.value)}</b><small><WithNames text={factors[1]!.label} names={names} /></small></span>
          <span>=</span>
          <span class="factor"><b class="num">{showNumber(number)}</b><small>you typed</small></span>
        </p>
      )}
      <p><WithNames text={text} names={names} /></p>
      {isRight && <Proof circuit={circuit} question={question} names={names} />}
      {isRight && question.kind === "debug" && <p><WithNames text={birthText(question, circuit)} names={names} /></p>}
    </div>
  );
}

const PROOF_NUDGE = 0.01;

/** What really happens to the output when the wire is nudged: the proof of a gradient. */
function Proof({ circuit, question, names }: { circuit: QuizCircuit; question: Question; names: readonly string[] }) {
  const place = askedPlace(question, circuit);
  if (question.answer === null || place?.what !== "grad") return null;
  const shown = shownOf(question, circuit, true)!;
  const wire = place.wire ?? circuit.readers[place.node]?.[0];
  if (!wire || (!place.wire && circuit.readers[place.node]!.length > 1)) return null;
  const { actual } = nudge(shown.run, { reader: wire[0], slot: wire[1] }, PROOF_NUDGE);
  const [source, output] = [circuit.title(place.node), circuit.title(circuit.root)];
  const text = `Proof: move ${source} by ${showNumber(PROOF_NUDGE)} on this wire and ${output} moves by ${showNumber(actual)}.`;
  return <p><WithNames text={text} names={names} /></p>;
}

function Ladder({ rungs, rung, onHint, onPicture }: { rungs: readonly string[]; rung: number; onHint: () => void; onPicture: () => void }) {
  return (
    <>
      <ol class="ladder" aria-label="Hints">
        {rungs.map((what, k) => (
          <li key={what} class={k < rung ? "taken" : k === rung ? "next" : ""}>
            <b>{`hint ${k + 1}`}</b> <span>{what}</span><span class="aloud">{k < rung ? ", taken" : ""}</span>
          </li>
        ))}
      </ol>
      <div class="quiet-row">
        <button type="button" onClick={onHint} aria-keyshortcuts="Alt+H">{rung < MAX_RUNG ? `Hint ${rung + 1}` : "Play it again"} <kbd>Alt H</kbd></button>
        <button type="button" onClick={onPicture} aria-keyshortcuts="Alt+P">Show the place <kbd>Alt P</kbd></button>
      </div>
    </>
  );
}

function QuestionPicture({ asked, question, circuit, typed, isRight, formula, turn, onOption, choice }: {
  asked: Asked; question: Question; circuit: QuizCircuit; typed: string; isRight: boolean; formula: string; turn: number;
  onOption: (k: number) => void; choice: number;
}) {
  const area = useRef<HTMLDivElement>(null);
  const frame = useFrame(area);
  const reveal = isRight || asked.record!.rung >= MAX_RUNG;
  const whole = useMemo(() => shownOf(question, circuit, reveal), [question, reveal]);
  const pace = isRight ? "once" : reveal ? "slowly" : null;
  const played = useWatched(question, circuit, formula, pace, turn);
  // After a right answer the whole run is shown, after the last hint what the step has done.
  const watched = isRight && !played?.isPlaying ? null : played;
  const trail = useMemo(() => (question.kind === "debug" ? trailOf(question, asked.record!.answers) : []), [question, asked.record!.answers.length]);
  const shown = watched ?? whole;
  const place = useMemo(() => askedPlace(question, circuit), [question]);
  const factor = asked.record!.rung > 0;
  const { rung } = asked.record!;
  const number = typed ? (asked.verdict?.number ?? null) : null;
  const sum = useMemo(() => branchSum(question, circuit, number, rung), [question, number, rung]);
  const marks = useMemo(
    () => (place ? drawMarks({ place, sum, factor, typed, answered: reveal }) : trail.length ? drawTrail(trail) : null),
    [place, sum, factor, typed, reveal, trail],
  );
  const [inside, setInside] = useState(false);
  const target = question.options.length ? (question.options[choice]?.target ?? []) : place?.wire ?? (place ? [place.node] : []);
  return (
    <>
      <p class="formula-line"><Named text={spaced(formula)} /></p>
      <div class={pace === "slowly" ? "area slowly" : "area"} ref={area} onFocusIn={() => setInside(true)} onFocusOut={() => setInside(false)}>
        {shown && <Pictured circuit={circuit} shown={shown} firing={(question.kind === "debug" ? played : watched)?.firing ?? null} frame={frame} marks={marks} selection={inside || question.options.length ? selectionOf(target) : null}
          onSelect={(selection) => onOption(optionAt(question, circuit, selection))} />}
        {!shown && <p class="no-picture">Read the formula: the circuit comes with the answer.</p>}
      </div>
      <details class="given">
        <summary>The numbers of this question</summary>
        <ul>{[...Object.entries(question.leaves).map(([name, value]) => `${name} = ${showNumber(value)}`), ...question.given].map((line) => <li key={line}>{line}</li>)}</ul>
      </details>
    </>
  );
}

function Pictured({ circuit, shown, firing, frame, marks, selection, onSelect }: {
  circuit: QuizCircuit; shown: Shown; firing: Firing | null; frame: ReturnType<typeof useFrame>; marks: ReturnType<typeof drawMarks> | null;
  selection: ReturnType<typeof selectionOf>; onSelect: (selection: ReturnType<typeof selectionOf>) => void;
}) {
  const { drawn, minimap } = useFitted(circuit.circuit, shown.run, frame);
  return (
    <CircuitView picture={drawn} minimap={minimap} extras={extras} run={shown.run} known={shown.known} firing={firing} selection={selection} mode="signed" marks={marks}
      onSelect={onSelect} />
  );
}
