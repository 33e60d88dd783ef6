/** Flat code: the learner writes the backward pass line by line, and each line is checked at drawn points. */
import { useState } from "preact/hooks";
import { evaluated, isAccepted, readAnswer } from "./answers";
import { circuitOf, mistakeName } from "./course";
import { mutantOf, RULE_MISTAKES, sumOf } from "./mistakes";
import { Tick } from "./pieces";
import { acceptedLines, mistakeLine } from "./progress";
import { Draws, type Leaves, type QuizCircuit, type QuizRun } from "./quiz-run";
import { filled, sentence } from "./sentences";
import { TEXTS } from "./sentences.generated";

const POINTS = 5;
const SEED = 8;
const TOLERANCE = 1e-6;

/** The nodes whose gradient a line computes, in an order in which a program can: readers first. */
export function flatLines(formula: string): number[] {
  const circuit = circuitOf(formula);
  return [...circuit.nodes].reverse().filter((node) => node !== circuit.root && circuit.active[node] && circuit.readers[node]!.length);
}

/** Runs at drawn leaves at which every number is ordinary. */
function runsOf(circuit: QuizCircuit): QuizRun[] {
  const draws = new Draws(SEED);
  const runs: QuizRun[] = [];
  for (let attempt = 0; runs.length < POINTS && attempt < 100; attempt++) {
    const run = circuit.run(circuit.drawLeaves(draws, attempt, {}));
    if (run.isClean) runs.push(run);
  }
  return runs;
}

/** What the names of a line stand for: values, and the gradients of the lines above. */
function namesAt(run: QuizRun, known: readonly number[]): Leaves {
  const { owner } = run;
  const values = owner.nodes.map((node) => [owner.title(node), run.value(node)] as const);
  const grads = [owner.root, ...known].map((node) => [`d${owner.title(node)}`, run.upstream(node)] as const);
  return Object.fromEntries([...values, ...grads]);
}

/** What is said of a line: right, a mistake by its key, or why it cannot be read. */
export interface LineVerdict {
  right: boolean;
  title: string;
  text: string;
  /** The mistake that the line shows; empty if none is known. */
  key: string;
}

/** Check one line: it must give the gradient at every drawn point. */
export function checkLine(formula: string, node: number, known: readonly number[], text: string): LineVerdict {
  const circuit = circuitOf(formula);
  const runs = runsOf(circuit);
  const own = `d${circuit.title(node)}`;
  const line = text.replace(new RegExp(`^\\s*${own}\\s*\\+?=`), "");
  const read = readAnswer(line, namesAt(runs[0]!, known));
  if (read.number === null) return { right: false, key: "", title: "Not a line yet", text: read.problem.replace("leaf of the circuit", "value of this run").replace("The leaves are", "The names are") };
  const given = runs.map((run) => (read.formula ? evaluated(read.formula, namesAt(run, known)) : read.number));
  const agrees = (wanted: (run: QuizRun) => number): boolean =>
    runs.every((run, k) => given[k] !== null && Math.abs(given[k]! - wanted(run)) <= TOLERANCE * Math.max(1, Math.abs(wanted(run))));
  if (agrees((run) => run.upstream(node))) return { right: true, key: "", title: "Right", text: `At ${runs.length} points the line gives the gradient that the circuit gives.` };
  if (isAccepted(read.number, runs[0]!.upstream(node)) && !read.formula) return { right: false, key: "", title: "Not yet: a number", text: "Write it with names, so that it holds for all values." };
  const key = Object.keys(MISTAKES).find((name) => agrees((run) => MISTAKES[name]!(run, node)));
  if (!key) return { right: false, key: "", title: "Not yet", text: `What comes back to ${circuit.title(node)}? For each reader: the gradient of the reader, times a local derivative.` };
  const words = key.startsWith("branch") ? TEXTS["claim.branch-last"]! : sentence(TEXTS, `rule.${key}`);
  return { right: false, key, title: `Not yet: ${mistakeName(key)}`, text: filled(words.replace("Your rule", "Your line"), { node: circuit.title(node) }) };
}

const wiresOf = (run: QuizRun, node: number) => run.owner.readers[node]!;
const sentWith = (run: QuizRun, node: number, key: string): number =>
  sumOf(wiresOf(run, node).map((wire) => run.upstream(wire[0]) * (mutantOf(run, key, wire) ?? run.local(wire) ?? 0)));

/** What a line gives that makes a mistake. */
const MISTAKES: Readonly<Record<string, (run: QuizRun, node: number) => number>> = {
  "branch-first": (run, node) => run.sent(wiresOf(run, node)[0]!) ?? 0,
  "branch-last": (run, node) => run.sent(wiresOf(run, node).at(-1)!) ?? 0,
  "local-only": (run, node) => sumOf(wiresOf(run, node).map((wire) => run.local(wire) ?? 0)),
  ...Object.fromEntries(RULE_MISTAKES.slice(0, 4).map((key) => [key, (run: QuizRun, node: number) => sentWith(run, node, key)])),
  twice: (run, node) => 2 * run.upstream(node),
  sign: (run, node) => -run.upstream(node),
};

interface Props {
  formula: string;
  about: string;
  log: readonly string[];
  onLog: (line: string) => void;
}

/** The listing: forward as it is, backward to be written. */
export function FlatCode({ formula, about, log, onLog }: Props) {
  const circuit = circuitOf(formula);
  const lines = flatLines(formula);
  const [draft, setDraft] = useState("");
  const [said, setSaid] = useState<LineVerdict | null>(null);
  const accepted = acceptedLines(log);
  const done = Math.min(accepted.length, lines.length);
  const node = lines[done];
  const check = (event: Event): void => {
    event.preventDefault();
    if (node === undefined) return;
    const verdict = checkLine(formula, node, lines.slice(0, done), draft);
    setSaid(verdict);
    if (!verdict.right) return verdict.key ? onLog(mistakeLine("flat", verdict.key)) : undefined;
    onLog(draft.trim());
    setDraft("");
  };
  return (
    <div class="flat">
      <p class="about-figure">{about}</p>
      <p class="kicker"><span>forward</span></p>
      <pre>{formula.split(";").map((line) => line.trim()).join("\n")}</pre>
      <p class="kicker"><span>backward</span><span>{`${done} of ${lines.length} lines`}</span></p>
      <ol class="code-lines">
        <li><code>{`d${circuit.title(circuit.root)} = 1`}</code></li>
        {lines.slice(0, done).map((found, k) => <li key={found}><code>{`d${circuit.title(found)} = ${accepted[k]!.replace(/^\s*\w+\s*\+?=\s*/, "")}`}</code> <Tick /></li>)}
      </ol>
      {node !== undefined && (
        <form onSubmit={check} class="code-entry">
          <label for="line"><code>{`d${circuit.title(node)} =`}</code></label>
          <input id="line" type="text" autoComplete="off" spellcheck={false} autoCapitalize="off" value={draft} onInput={(event) => setDraft(event.currentTarget.value)} />
          <button class="black">Check</button>
        </form>
      )}
      <div role="status">
        {said && <div class={said.right ? "feedback right" : "feedback"}><h2>{said.right && <Tick />} {said.title}</h2><p>{said.text}</p></div>}
        {node === undefined && <p><b>The listing is complete.</b> It runs without any library: that is all a backward pass is.</p>}
      </div>
    </div>
  );
}
