/**
 * The exercise "draw the circuit yourself": a learner builds the circuit of a formula, then fills in values and
 * gradients. Everything works by pointer, by touch, by keys on the board, and by the list of inputs under it.
 */
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { useMedia, useUnique } from "../ui/parts";
import { verdict as verdictOf } from "./answers";
import { DrawingBoard, describe, faceOf, type BoardMarks } from "./drawing-board";
import {
  checkDrawing, CHECKS, CURVE, DrawingFormula, DrawingNumbers, isSpecial, LEAF, OUTPUT, showOp, slotsOf, type DrawingVerdict,
} from "./drawing-check";
import { addPort, boardSize, boxOf, connect, isGiven, itemsOf, keyOf, moveTo, place, readDrawing, remove, splitAt, startingSketch, tidied, type Item, type KeptDrawing, type Sketch } from "./drawing-sketch";
import { showNumber } from "./quiz-run";

export interface DrawingExerciseProps {
  formula: string;
  /** Called once, when the circuit, all values and all gradients are right. */
  onSolved: () => void;
  /** Called with each mistake that a check names: "draw" and its key, or the kind of the number that was asked for. */
  onMistake: (kind: string, key: string) => void;
  /** Called when the circuit or a number is right; `shown` says that the number was given away. */
  onRight: (shown: boolean) => void;
  /** What `onKeep` was called with last, for the next visit; not checked yet. */
  kept?: unknown;
  /** Called with the drawing whenever it has changed. */
  onKeep?: (drawing: KeptDrawing) => void;
}

interface Feedback {
  title: string;
  text: string;
}

/** Ops that are always on the palette, each with its key. */
const USUAL_OPS: readonly (readonly [op: string, key: string])[] = [
  ["add", "+"], ["subtract", "-"], ["multiply", "*"], ["divide", "/"], ["tanh", "T"], ["maximum", "M"],
];
const CHECK_NAMES = ["every node drives one wire", "every wire has one reader", "nothing is left open", "the formula is the same"];
const COMPLETE = "The circuit, its values and its gradients are complete.";
const STAGES = ["Draw", "Values", "Gradients"];
const KEYS: readonly (readonly [string, string])[] = [
  ["← ↑ ↓ →", "walk along ports"], ["W", "start a wire"], ["Enter", "connect"], ["S", "splitter here"],
  ["O", "wire to the output"], ["Del", "remove"], ["Ctrl Z", "undo"], ["Shift ←", "move the box"], ["Ctrl Enter", "check"],
];
/** After so many wrong answers a number may be shown. */
const PATIENCE = 3;

/** What an exercise begins with: the board of the first visit, or a drawing that was kept. */
interface Begun {
  sketch: Sketch;
  numbers: DrawingNumbers | null;
  filledIn: readonly string[];
  feedback: Feedback | null;
}

function beginAt(formula: DrawingFormula, drawing: KeptDrawing | null): Begun {
  const { sketch, filled } = drawing ?? { sketch: startingSketch(formula), filled: null };
  if (filled === null) return { sketch, numbers: null, filledIn: [], feedback: null };
  const numbers = new DrawingNumbers(formula, sketch);
  const filledIn = numbers.slots.slice(0, filled).map(({ answer }) => showNumber(answer));
  const isComplete = filled === numbers.slots.length;
  return { sketch, numbers, filledIn, feedback: isComplete ? { title: verdictOf(true, "right").title, text: COMPLETE } : null };
}

/** One exercise; give it the formula as its `key`, so that another formula begins anew. */
export function DrawingExercise({ formula: text, onSolved, onMistake, onRight, kept, onKeep }: DrawingExerciseProps) {
  const formula = useMemo(() => new DrawingFormula(text), [text]);
  const size = useMemo(() => boardSize(formula), [formula]);
  const begun = useMemo(() => beginAt(formula, readDrawing(formula, text, kept)), [formula]);
  const [sketch, setSketch] = useState(begun.sketch);
  const [past, setPast] = useState<readonly Sketch[]>([]);
  const [focus, setFocus] = useState<Item | null>(null);
  const [from, setFrom] = useState<Item | null>(null);
  const [feedback, setFeedback] = useState(begun.feedback);
  const [flagged, setFlagged] = useState<DrawingVerdict["mistakes"][number] | null>(null);
  const [said, setSaid] = useState("");
  const [numbers, setNumbers] = useState(begun.numbers);
  const [filledIn, setFilledIn] = useState(begun.filledIn);
  const [tries, setTries] = useState(0);
  const board = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLInputElement>(null);
  /** The sketch as it was before a box was dragged. */
  const taken = useRef<Sketch | null>(null);
  const narrow = useMedia("(max-width: 719px)");
  const id = useUnique();
  const verdict = useMemo(() => checkDrawing(formula, sketch), [formula, sketch]);
  const { labels } = verdict;
  const asked = numbers?.slots[filledIn.length];
  const isDone = numbers !== null && !asked;
  const stage = numbers === null ? 0 : asked?.kind === "value" ? 1 : 2;
  useLayoutEffect(() => {
    if (numbers && asked) field.current?.focus();
  }, [numbers]);

  const isUnchanged = useRef(true);
  // Before the next paint, so that a page that is closed right behind a key has it.
  useLayoutEffect(() => {
    if (!isUnchanged.current && !taken.current) onKeep?.({ formula: text, sketch, filled: numbers && filledIn.length });
    isUnchanged.current = false;
  }, [sketch, numbers, filledIn]);

  /** Begin anew with the board of the first visit. */
  const restart = (): void => {
    setSketch(startingSketch(formula));
    setPast([]);
    setNumbers(null);
    setFilledIn([]);
    setTries(0);
    setFeedback(null);
    setSaid("The board is empty again.");
    board.current?.focus();
  };
  /** Take over a changed sketch; what was said of the old one goes. */
  const change = (next: Sketch, message: string): void => {
    setPast((old) => [...old, sketch]);
    setSketch(next);
    setFeedback(null);
    setFlagged(null);
    setFrom(null);
    setSaid(message);
  };
  const drop = (op: string): void => {
    const made = place(sketch, size, op, focus?.id ?? null);
    setFocus({ kind: "box", id: made.id, place: 0 });
    change(made.sketch, `${op === CURVE ? "curve" : showOp(op)} placed.`);
  };
  const split = (): void => {
    const made = splitAt(sketch, size, focus);
    setFocus({ kind: "out", id: made.id, place: made.sketch.wires.some(({ from: start, port }) => start === made.id && port === 0) ? 1 : 0 });
    change(made.sketch, "Splitter placed.");
  };
  const start = (item: Item | null): void => {
    const box = item && boxOf(sketch, item.id);
    if (!item || !box?.ports || item.kind === "in") return setSaid("A wire begins at an output. Go to the output of a box first.");
    const free = [0, 1].slice(0, box.ports).find((port) => !sketch.wires.some((wire) => wire.from === item.id && wire.port === port));
    const begin: Item = item.kind === "out" ? item : { kind: "out", id: item.id, place: free ?? 0 };
    setFrom(begin);
    setSaid(`Wire from ${labels[begin.id]}. Choose an input, then press Enter.`);
  };
  const finish = (begin: Item, end: Item): void => {
    setFocus(end);
    change(connect(sketch, begin, end), `Wire from ${labels[begin.id]} to ${describe(sketch, labels, end).split(",")[0]}.`);
  };
  const wireToOutput = (): void => {
    const box = focus && boxOf(sketch, focus.id);
    if (!focus || !box?.ports) return setSaid("Go to a box first; its wire then leads to the output.");
    finish(focus.kind === "out" ? focus : { kind: "out", id: focus.id, place: 0 }, { kind: "in", id: "out", place: 0 });
  };
  const erase = (): void => {
    if (!focus) return;
    const name = describe(sketch, labels, focus).split(",")[0];
    const next = remove(sketch, focus);
    if (next.nodes.length === sketch.nodes.length && next.wires.length === sketch.wires.length && JSON.stringify(next) === JSON.stringify(sketch)) {
      return setSaid("Nothing to remove here: leaves and the output stay.");
    }
    if (!boxOf(next, focus.id)) setFocus(itemsOf(next)[0] ?? null);
    change(next, `Removed at ${name}.`);
  };
  const undo = (): void => {
    const before = past.at(-1);
    if (!before) return setSaid("Nothing to undo.");
    setPast(past.slice(0, -1));
    setSketch(before);
    setFrom(null);
    setFeedback(null);
    setFlagged(null);
    if (focus && !boxOf(before, focus.id)) setFocus(null);
    setSaid("Undone.");
  };
  const addOutput = (): void => {
    if (!focus || isSpecial(boxOf(sketch, focus.id)!.op)) return setSaid("Go to an op first.");
    change(addPort(sketch, focus.id), `${labels[focus.id]} has a second output.`);
  };
  const walk = (step: number, byBox: boolean): void => {
    const items = itemsOf(sketch).filter(({ kind }) => (from ? kind === "in" : byBox ? kind === "box" : true));
    const here = focus && items.findIndex((item) => (byBox && !from ? item.id === focus.id : keyOf(item) === keyOf(focus)));
    const next = here === null || here < 0 ? (step > 0 ? 0 : items.length - 1) : (here + step + items.length) % items.length;
    const item = items[next];
    if (item) setFocus(item);
  };
  const shift = (key: string): void => {
    const box = focus && boxOf(sketch, focus.id);
    if (!box) return;
    const [dx, dy] = { ArrowLeft: [-20, 0], ArrowRight: [20, 0], ArrowUp: [0, -20], ArrowDown: [0, 20] }[key] as [number, number];
    change(moveTo(sketch, size, box.id, box.u + (narrow ? dy : dx), box.v + (narrow ? dx : dy)), `${labels[box.id]} moved.`);
  };
  /** Move a box with the pointer; undoing goes back to where it was taken up. */
  const drag = (box: string, u: number, v: number, isEnd: boolean): void => {
    taken.current ??= sketch;
    setSketch(moveTo(sketch, size, box, u, v));
    if (!isEnd) return;
    const before = taken.current;
    taken.current = null;
    setPast((old) => [...old, before]);
    setSaid(`${labels[box]} moved.`);
  };
  const enter = (): void => {
    if (!numbers) setFocus((old) => old ?? itemsOf(sketch)[0] ?? null);
  };
  const check = (): void => {
    const [first] = verdict.mistakes;
    if (first) {
      setFlagged(first);
      setFeedback(first);
      setSaid(`${first.title}. ${first.text}`);
      onMistake("draw", first.key);
      return;
    }
    onRight(false);
    setFrom(null);
    setFlagged(null);
    setFocus(null);
    setSketch(tidied(sketch, size));
    const asking = new DrawingNumbers(formula, sketch);
    setNumbers(asking);
    setFeedback({ title: "Right", text: "Your circuit is the circuit of the formula. Now its values, from left to right." });
    setSaid(`Right. ${asking.slots[0]!.prompt}`);
  };
  const answer = (typed: string): void => {
    if (!numbers || !asked) return;
    const found = numbers.check(filledIn.length, typed);
    if (!found.right) {
      setFeedback(found);
      setSaid(`${found.title}. ${found.text}`);
      if (found.costs) {
        setTries(tries + 1);
        onMistake(asked.kind === "value" ? "value" : "send", found.key);
      }
      field.current?.select();
      return;
    }
    accept(numbers, asked.answer, verdictOf(true, "right").title);
  };
  const accept = (asking: DrawingNumbers, number: number, title: string, shown = false): void => {
    onRight(shown);
    const now = [...filledIn, showNumber(number)];
    const next = asking.slots[now.length];
    setFilledIn(now);
    setTries(0);
    if (field.current) field.current.value = "";
    const behind = next ? "" : COMPLETE;
    setFeedback({ title, text: behind || `It is ${showNumber(number)}.` });
    setSaid(`${title}. ${next?.prompt ?? behind}`);
    if (!next) onSolved();
  };

  const extra = formula.ops.filter((op) => !USUAL_OPS.some(([usual]) => usual === op)).map((op, k): [string, string] => [op, String(k + 1)]);
  const palette = [...USUAL_OPS, ...extra];
  const keyed = (event: KeyboardEvent): void => {
    if (numbers || event.altKey) return;
    const act = event.ctrlKey || event.metaKey ? controlled(event.key) : plain(event.key, event.shiftKey);
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  };
  const controlled = (key: string): (() => void) | undefined =>
    ({ z: undo, Enter: check })[key];
  const plain = (key: string, shifted: boolean): (() => void) | undefined => {
    const op = palette.find(([, own]) => own === key.toUpperCase());
    if (op) return () => drop(op[0]);
    if (shifted && key.startsWith("Arrow")) return () => shift(key);
    return {
      ArrowRight: () => walk(1, false), ArrowLeft: () => walk(-1, false), ArrowDown: () => walk(1, true), ArrowUp: () => walk(-1, true),
      w: () => start(focus), Enter: () => (from ? focus?.kind === "in" && finish(from, focus) : start(focus)),
      s: split, o: wireToOutput, c: () => drop(CURVE), p: addOutput, Delete: erase, Backspace: erase,
      ...(from ? { Escape: () => (setFrom(null), setSaid("No wire.")) } : {}),
    }[key.length === 1 ? key.toLowerCase() : key] as (() => void) | undefined;
  };
  const back = (act: () => void) => (): void => {
    act();
    board.current?.focus();
  };

  const leaves = numbers ? Object.fromEntries(Object.entries(numbers.leaves).map(([name, x]) => [name, showNumber(x)])) : {};
  const marks = marksOf(numbers, filledIn, flagged);
  return (
    <section class="wg-drawing" aria-label={`Draw the circuit of ${text}`} onKeyDown={(event) => event.ctrlKey && event.key === "Enter" && !numbers && (event.preventDefault(), check())}>
      <div class="column">
        <div class="question">
          <ol class="stages">
            {STAGES.map((name, k) => (
              <li key={name} class={k === stage && !isDone ? "now" : k < stage || isDone ? "done" : ""} {...(k === stage && !isDone ? { "aria-current": "step" } : {})}>
                <span aria-hidden="true">{k + 1}</span> {name}{(k < stage || isDone) && <span class="aloud"> (done)</span>}
              </li>
            ))}
          </ol>
          <p class="kind">Build the circuit of</p>
          <p class="formula">{text.replace(/\*\*/g, "^").replace(/\s*\*\s*/g, "·").replace(/-/g, "−")}</p>
          {asked && (
            <form onSubmit={(event) => (event.preventDefault(), answer(field.current!.value))}>
              <label for={`${id}-field`}>{asked.prompt}</label>
              <span class="row">
                <input id={`${id}-field`} ref={field} inputMode="decimal" autocomplete="off" {...(feedback && tries ? { "aria-describedby": `${id}-said` } : {})} />
                <button type="submit" class="check">Check</button>
              </span>
            </form>
          )}
          {feedback && <div class="feedback" id={`${id}-said`}><h2>{feedback.title}</h2><p>{feedback.text}</p></div>}
          {asked && tries >= PATIENCE && (
            <button type="button" class="quiet" onClick={() => { accept(numbers!, asked.answer, "Shown", true); field.current?.focus(); }}>Show this number</button>
          )}
          {numbers && <button type="button" class="quiet" onClick={restart}>Draw it again</button>}
        </div>
        <div class="state">
          {!numbers && <Reading verdict={verdict} sketch={sketch} />}
          {!numbers && <Checklist verdict={verdict} />}
          {!numbers && (
            <p class="row end">
              <button type="button" onClick={back(undo)} disabled={!past.length}>Undo <kbd>Ctrl Z</kbd></button>
              <button type="button" class="check" onClick={check}>Check</button>
            </p>
          )}
          <p class="aloud" role="status">{said}</p>
        </div>
      </div>
      <div class="paper">
        {!numbers && (
          <div class="palette" role="toolbar" aria-label="What can be placed">
            {palette.map(([op, key]) => <Tool key={op} name={op} shortcut={key} onClick={back(() => drop(op))}>{faceOf(op)}</Tool>)}
            <Tool name="splitter on this wire" shortcut="S" onClick={back(split)}>splitter</Tool>
            <Tool name="wire from here" shortcut="W" pressed={from !== null} onClick={back(() => start(focus))}>wire</Tool>
            <Tool name="wire to the output" shortcut="O" onClick={back(wireToOutput)}>output</Tool>
            <Tool name="second output of this node" shortcut="P" onClick={back(addOutput)}>2 outputs</Tool>
            <Tool name={`graph of ${formula.output}`} shortcut="C" onClick={back(() => drop(CURVE))}>curve</Tool>
            <Tool name="remove" shortcut="Del" onClick={back(erase)}>remove</Tool>
          </div>
        )}
        <DrawingBoard sketch={sketch} size={size} down={narrow} output={formula.output} labels={labels} leaves={leaves} readings={verdict.readings}
          marks={marks} focus={focus} from={from} fixed={numbers !== null} boardRef={board} onFocus={setFocus} onEnter={enter} onKey={keyed} onStart={start}
          onConnect={(end) => from && finish(from, end)}
          onMove={drag} />
        {!numbers && <p class="here">{from ? <>Wire from {labels[from.id]}: let go on an <mark>open port</mark></> : focus && boxOf(sketch, focus.id) ? describe(sketch, labels, focus) : "Place a box, then draw wires from port to port."}</p>}
        {!numbers && <p class="keys" aria-hidden="true">{KEYS.map(([key, does]) => <span key={key}><kbd>{key}</kbd> {does}</span>)}</p>}
        {!numbers && <ListTwin sketch={sketch} verdict={verdict} onChange={change} />}
      </div>
    </section>
  );
}

function Tool(props: { name: string; shortcut: string; onClick: () => void; pressed?: boolean; children: ComponentChildren }) {
  return (
    <button type="button" title={`${props.name} (${props.shortcut})`} onClick={props.onClick} {...(props.pressed === undefined ? {} : { "aria-pressed": props.pressed })}>
      <span class="face">{props.children}</span><span class="aloud"> {props.name}</span><kbd>{props.shortcut}</kbd>
    </button>
  );
}

/** What the drawing says so far, box by box. */
function Reading({ verdict, sketch }: { verdict: DrawingVerdict; sketch: Sketch }) {
  const shown = sketch.nodes.filter(({ id }) => id in verdict.readings).sort((one, two) => Number(one.op === OUTPUT) - Number(two.op === OUTPUT));
  return (
    <>
      <h2 class="kind">Your circuit says</h2>
      <dl class="says">
        {shown.map(({ id }) => <div key={id}><dt>{verdict.labels[id]}</dt><dd>{verdict.readings[id]!.replaceAll("□", "?")}</dd></div>)}
      </dl>
    </>
  );
}

/** The four checks: settled, look again (only what can be seen while drawing), or open. */
function Checklist({ verdict }: { verdict: DrawingVerdict }) {
  const stateOf = (k: number): string => {
    const isClean = verdict.mistakes.every(({ key }) => CHECKS[key] !== k);
    if (k < 2) return isClean ? "settled" : "again";
    return (k === 3 ? verdict.right : isClean) ? "settled" : "open";
  };
  const words = { settled: "settled", again: "not yet", open: "open" } as const;
  return (
    <>
      <h2 class="kind">Checked</h2>
      <ul class="checks">
        {CHECK_NAMES.map((name, k) => (
          <li key={name} class={stateOf(k)}>{name}<span class="aloud">: {words[stateOf(k) as keyof typeof words]}</span></li>
        ))}
      </ul>
    </>
  );
}

/** The drawing as a list: each box with its inputs as select boxes. */
function ListTwin({ sketch, verdict, onChange }: { sketch: Sketch; verdict: DrawingVerdict; onChange: (next: Sketch, message: string) => void }) {
  const { labels } = verdict;
  const starts = itemsOf(sketch).filter(({ kind }) => kind === "out");
  const nameOf = ({ id, place: port }: Item): string => (boxOf(sketch, id)!.ports > 1 ? `${labels[id]}, output ${port + 1}` : labels[id]!);
  const rows = sketch.nodes.filter((box) => box.op !== LEAF && (slotsOf(box) || !isGiven(box)));
  const choose = (end: Item, key: string): void => {
    const start = starts.find((item) => keyOf(item) === key);
    onChange(start ? connect(sketch, start, end) : remove(sketch, end), start ? `Wire from ${labels[start.id]} to ${labels[end.id]}.` : "Wire removed.");
  };
  return (
    <details class="twin">
      <summary>The drawing as a list</summary>
      <ul>
        {rows.map((box) => (
          <li key={box.id}>
            <b>{labels[box.id]}</b>
            {Array.from({ length: slotsOf(box) }, (_, slot) => {
              const end: Item = { kind: "in", id: box.id, place: slot };
              const wire = sketch.wires.find(({ to, slot: at }) => to === box.id && at === slot);
              return (
                <label key={slot}>
                  <span>{slotsOf(box) > 1 ? `input ${slot + 1}` : "input"}<span class="aloud"> of {labels[box.id]}</span></span>
                  <select value={wire ? keyOf({ kind: "out", id: wire.from, place: wire.port }) : ""} onChange={(event) => choose(end, event.currentTarget.value)}>
                    <option value="">open</option>
                    {starts.map((item) => <option key={keyOf(item)} value={keyOf(item)}>{nameOf(item)}</option>)}
                  </select>
                </label>
              );
            })}
            {!isGiven(box) && <button type="button" onClick={() => onChange(remove(sketch, { kind: "box", id: box.id, place: 0 }), `${labels[box.id]} removed.`)}>Remove<span class="aloud"> {labels[box.id]}</span></button>}
          </li>
        ))}
      </ul>
    </details>
  );
}

function marksOf(numbers: DrawingNumbers | null, filledIn: readonly string[], flagged: DrawingVerdict["mistakes"][number] | null): BoardMarks {
  const values = new Map<string, string>();
  const gradients = new Map<number, string>();
  for (const [k, text] of filledIn.entries()) {
    const { kind, box, wire } = numbers!.slots[k]!;
    if (kind === "value") values.set(box, text);
    else gradients.set(wire!, text);
  }
  const asked = numbers?.slots[filledIn.length];
  return {
    values,
    gradients,
    askedBox: asked?.kind === "value" ? asked.box : null,
    askedWire: asked?.wire ?? null,
    boxes: flagged?.boxes ?? [],
    wires: flagged?.wires ?? [],
  };
}
