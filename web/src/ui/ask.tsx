/** Questions about what is selected: why this gradient, is it right, what if it moved. */
import { useEffect, useState } from "preact/hooks";
import { operand, titleOf } from "../engine";
import { check, nudge, paths, type Checked, type Path, type Paths, type Target } from "../engine/questions";
import { Explained } from "../large/why";
import { canRun } from "../state/session";
import type { Lit, Run } from "../types";
import type { CardProps } from "./inspector";
import { Fact } from "./card-parts";
import { Button, useUnique } from "./parts";
import { gradText, numeric, show, signClass, signOf } from "./text";

interface NodeProps extends CardProps {
  node: number;
}

interface WhyProps extends NodeProps {
  /** The wire whose card this is: paths through it are marked. */
  through?: { reader: number; slot: number };
}

const MOST_PATHS = 32;
/** Up to how many nodes the paths are shown without being asked for. */
const OPEN_NODES = 200;

/** Which paths a gradient came along, with the product along each and their sum. */
export function Why(props: WhyProps) {
  const { state, shown, node, why, onWhy } = props;
  const [own, setOwn] = useState<boolean | null>(null);
  useEffect(() => {
    if (why) setOwn(true);
  }, [why]);
  const final = shown.known.grad[node] === "final";
  const grad = numeric(shown.run.grads[node]);
  const open = own ?? (why || (grad !== null && state.circuit.nodes.length <= OPEN_NODES));
  if (!final) return <section class="why"><h3>Why this gradient?</h3><p class="note">It is not computed yet: run backward first.</p></section>;
  return (
    <details class="why" open={open} onToggle={(event) => {
      if (event.currentTarget.open === open) return;
      setOwn(event.currentTarget.open);
      onWhy(event.currentTarget.open);
    }}>
      <summary>
        {grad !== null ? `Why is the gradient of ${titleOf(state.circuit, node)} ${show(grad)}?` : "Why this gradient?"}
      </summary>
      {open && <Ways {...props} />}
    </details>
  );
}

function Ways(props: WhyProps) {
  const { state: { run, source }, node } = props;
  const found = paths(run, node, MOST_PATHS);
  if (!found && source.kind === "data" && source.server) return <Explained node={node} run={run} />;
  if (!found) return <p class="note">Arrays flow here, so no single number stands for a wire: ask run.explain in Python.</p>;
  const name = titleOf(run.circuit, node);
  if (!found.paths.length) return <p class="note">No gradient comes to {name}: no path carries one back from the output.</p>;
  return <PathRows {...props} found={found} />;
}

/** The paths as rows: their factors, a bar that begins where the one before ends, what each brings, and the sum. */
function PathRows({ state: { run }, found, through, onLight }: WhyProps & { found: Paths }) {
  const [pinned, setPinned] = useState<number | null>(null);
  useEffect(() => {
    setPinned(null);
    return () => onLight?.(null);
  }, [run, found.paths.length]);
  const light = (row: number | null): void => onLight?.(row === null ? null : litOf(found.paths[row]!));
  const rest = found.live - BigInt(found.paths.length);
  const numbers = [...found.paths.map(({ contribution }) => contribution), ...(rest > 0n ? [found.rest] : [])];
  const bars = barsOf(numbers, found.total);
  return (
    <>
      <p class="note">Along a path multiply, across paths add.</p>
      <ol class="paths">
        {found.paths.map((path, row) => (
          <li key={row} class={through && goesThrough(path, through) ? "through" : undefined}>
            <button type="button" aria-pressed={pinned === row} aria-label={spoken(run, path)}
              onClick={() => setPinned(pinned === row ? null : row)} onMouseEnter={() => light(row)}
              onFocus={() => light(row)} onMouseLeave={() => light(pinned)} onBlur={() => light(pinned)}>
              <span class="way"><span>{waySigns(run, path)}</span><small class="num">{factorsOf(path).join(" × ")}</small></span>
              <Bar at={bars[row]!} tone={signClass(path.contribution)} />
              <b class={`num ${signClass(path.contribution)}`}>{show(path.contribution)}</b>
            </button>
          </li>
        ))}
        {rest > 0n && (
          <li class="row"><span class="way">{rest.toLocaleString("en")} more</span><Bar at={bars.at(-2)!} tone={signClass(found.rest)} />
            <b class="num">{show(found.rest)}</b></li>
        )}
        <li class="row sum"><b class="way">sum</b><Bar at={bars.at(-1)!} tone="" /><b class="num">{show(found.total)}</b></li>
      </ol>
    </>
  );
}

/** The factors of a path from the output back, negative ones in parentheses. */
function factorsOf({ locals }: Path): string[] {
  return locals.map((factor) => operand(factor)).reverse();
}

function litOf({ wires, locals }: Path): Lit {
  return { wires, factors: locals.map((factor) => `×${operand(factor)}`) };
}

function goesThrough({ wires }: Path, { reader, slot }: { reader: number; slot: number }): boolean {
  return wires.some((wire) => wire.reader === reader && wire.slot === slot);
}

/** The signs of the ops along a path, from the output back to the node. */
function waySigns({ circuit }: Run, { nodes }: Path): string {
  const back = [...nodes].reverse().map((node, k) => (k === nodes.length - 1 ? titleOf(circuit, node, 16) : signOf(circuit.nodes[node]!.op)));
  const few = back.length > 9 ? [...back.slice(0, 4), "…", ...back.slice(-4)] : back;
  return few.join(" → ");
}

function spoken({ circuit }: Run, path: Path): string {
  const names = [...path.nodes].reverse().map((node) => titleOf(circuit, node));
  return `${factorsOf(path).join(" × ")} = ${show(path.contribution)} along ${names.join(", ")}`;
}

/** Where bars begin and end, from 0 to 1, each where the one before ends, and that of the sum; null where numbers are not finite. */
function barsOf(numbers: readonly number[], total: number): (readonly [number, number, number] | null)[] {
  const ends = [0];
  for (const number of numbers) ends.push(ends.at(-1)! + number);
  const [low, high] = [Math.min(...ends, total), Math.max(...ends, total)];
  const place = (x: number): number => (x - low) / (high - low || 1);
  const bars = [...numbers.map((number, k) => [ends[k]!, ends[k]! + number]), [0, total]];
  return bars.map(([from, to]) => {
    const found = [Math.min(from!, to!), Math.max(from!, to!), 0].map(place) as [number, number, number];
    return found.every(Number.isFinite) ? found : null;
  });
}

function Bar({ at, tone }: { at: readonly [number, number, number] | null; tone: string }) {
  const percent = (share: number): string => `${(100 * share).toFixed(1)}%`;
  return (
    <span class={`bar ${tone}`} aria-hidden="true">
      {at && <i style={{ left: percent(at[2]) }} />}
      {at && <span style={{ left: percent(at[0]), width: percent(at[1] - at[0]) }} />}
    </span>
  );
}

/** The buttons at the foot of a card: measure the gradient by differences, copy its numbers, keep this run to compare. */
export function Actions({ state, shown, dispatch, node, target = { node }, copy }: NodeProps & { target?: Target; copy?: () => string }) {
  const [asked, setAsked] = useState<{ run: Run; key: string } | null>(null);
  const key = JSON.stringify(target);
  const fresh = asked?.run === state.run && asked.key === key;
  const text = copy ?? (() => `${titleOf(state.circuit, node)} = ${show(shown.run.values[node])}, gradient ${gradText(shown.run, shown.known, node)}`);
  return (
    <div class="actions">
      <div role="status">{fresh && <Answer found={check(state.run, target)} />}</div>
      <div class="buttons">
        {canRun(state.source) && <Button onClick={() => setAsked({ run: state.run, key })}>Check by difference</Button>}
        <Button onClick={() => void navigator.clipboard?.writeText(text().replaceAll("−", "-"))}>Copy</Button>
        <Button label="Pin this run to compare it with another" pressed={state.pinned?.run === state.run}
          onClick={() => dispatch({ type: "pin", pin: state.pinned?.run !== state.run })}>Pin</Button>
      </div>
    </div>
  );
}

function Answer({ found }: { found: Checked }) {
  const { gradient, difference, left, right, agrees, kinks } = found;
  return (
    <>
      <dl>
        <Fact name="gradient">{show(gradient)}</Fact>
        <Fact name="central difference">{show(difference)}</Fact>
        {!agrees && <Fact name="from the left, right">{`${show(left)}, ${show(right)}`}</Fact>}
      </dl>
      <p class="note">
        {agrees ? "They agree." : kinks.length ? `They differ: ${kinks[0]!.doc}.` : "They differ."}
      </p>
    </>
  );
}

/** A slider that moves what a wire carries, with the change the gradient predicts beside the one that happens. */
export function Nudge({ state, shown, reader, slot }: CardProps & { reader: number; slot: number }) {
  const id = useUnique();
  const [by, setBy] = useState(0.1);
  const source = state.circuit.nodes[reader]!.sources[slot]!;
  if (!shown.known.value[source]) return null;
  const known = shown.known.wire[shown.run.starts[reader]! + slot] !== "none";
  const { predicted, actual } = nudge(state.run, { reader, slot }, by);
  const output = state.circuit.outputs[0] ? titleOf(state.circuit, state.circuit.outputs[0].node) : "the output";
  const value = numeric(shown.run.values[source]);
  return (
    <section class="nudge">
      <h3><label for={id}>Nudge this wire</label></h3>
      <input id={id} type="range" min={-0.1} max={0.1} step={0.01} value={by} aria-valuetext={`by ${show(by)}`}
        onInput={(event) => setBy(Number(event.currentTarget.value))} />
      <dl class="ruled">
        {value !== null && <Fact name="value">{`${show(value)} → ${show(value + by)}`}</Fact>}
        <Fact name={`gradient × ${operand(by)} predicts`}><b class={known ? signClass(predicted) : ""}>{known ? show(predicted) : "not computed"}</b></Fact>
        <Fact name={`${output} really changes by`}><b class={signClass(actual)}>{show(actual)}</b></Fact>
      </dl>
    </section>
  );
}
