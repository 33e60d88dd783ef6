/** The hunt for the place where a NaN is born: the trail of what was chosen, beside the question and in the picture. */
import type { VNode } from "preact";
import type { Scene } from "../layout/faces";
import { boxOf } from "../ui/circuit-acts";
import { WithNames } from "./pieces";
import type { Question } from "./questions";
import { showNumber, type QuizCircuit } from "./quiz-run";

/** One choice on the way. */
export interface Click {
  node: number;
  title: string;
  right: boolean;
  /** Why it is not there; empty for the right one. */
  reply: string;
}

/** The choices of a question in the order in which they were made. */
export function trailOf({ options }: Question, answers: readonly string[]): Click[] {
  return answers.flatMap((answer) => {
    const option = options[Number(answer) - 1];
    return option ? [{ node: option.target[0] ?? -1, title: option.text, right: option.right, reply: option.reply }] : [];
  });
}

/** The trail as a list; why the last one was not right is said below it. */
export function Trail({ clicks, names }: { clicks: readonly Click[]; names: readonly string[] }) {
  if (!clicks.length) return null;
  return (
    <ol class="trail" aria-label="Where you looked">
      {clicks.map(({ title, right, reply }, k) => (
        <li key={k}>
          <b class="badge" aria-hidden="true">{k + 1}</b>
          <p><b><WithNames text={title} names={names} /></b> <span class={right ? "cleared" : "open"}>{right ? "here" : "not here"}</span></p>
          {reply && k < clicks.length - 1 && <p class="note"><WithNames text={reply} names={names} /></p>}
        </li>
      ))}
    </ol>
  );
}

/** What went into the place of birth, and what came out. */
export function birthText({ target, leaves }: Question, circuit: QuizCircuit): string {
  const run = circuit.run(leaves);
  const node = target[0]!;
  const inputs = [...new Set(circuit.sources[node]!)].map((source) => {
    const [title, shown] = [circuit.title(source), showNumber(run.value(source))];
    return title === shown ? shown : `${title} = ${shown}`;
  });
  return `Born at ${circuit.title(node)}: in goes ${inputs.join(" and ")}, out comes ${showNumber(run.value(node))}.`;
}

const RADIUS = 11;

/** The numbers of the choices at their boxes. */
export function drawTrail(clicks: readonly Click[]): (scene: Scene, paper: unknown, above: boolean) => VNode | null {
  return ({ picture }, _, above) => {
    if (!above) return null;
    const seen = new Map<number, number>();
    return (
      <g class="trail-marks" aria-hidden="true" pointer-events="none">
        {clicks.map(({ node }, k) => {
          const box = picture.boxes[boxOf(picture, node)];
          if (!box) return null;
          const earlier = seen.get(node) ?? 0;
          seen.set(node, earlier + 1);
          const x = box.x + earlier * 2 * RADIUS;
          const y = box.y - 2;
          return <g key={k}><circle cx={x} cy={y} r={RADIUS} /><text x={x} y={y + 4.5} font-size={13} text-anchor="middle">{k + 1}</text></g>;
        })}
      </g>
    );
  };
}
