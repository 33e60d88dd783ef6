/** Live circuits: the figure of a text, which can be stepped and changed, and the frame that every picture is fitted to. */
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { nameOf } from "../engine";
import { fitted, picture, type FrameSize, type Picture } from "../layout";
import { firingOf } from "../state/firing";
import { fromFormula, OPTIONS, reduce, shown as shownOf, type Action, type Session } from "../state/session";
import type { Circuit, Run } from "../types";
import { CircuitView } from "../ui/circuit";
import * as extras from "../ui/circuit-extras";
import { leafEdits } from "../ui/circuit-leaf";
import { Named } from "../ui/named";
import { NumberField } from "../ui/card-parts";
import { useUnique } from "../ui/parts";
import { Stepper, usePlay } from "../ui/stepper";
import { circuitOf, nodeOf, type Figure } from "./course";
import type { Leaves } from "./quiz-run";

/** The size of an element, once it is measured. */
export function useFrame(element: RefObject<HTMLElement>): FrameSize | null {
  const [frame, setFrame] = useState<FrameSize | null>(null);
  useLayoutEffect(() => {
    const measure = (): void => {
      const { clientWidth: width, clientHeight: height } = element.current!;
      if (width && height) setFrame((old) => (old && Math.abs(old.width - width) < 12 && Math.abs(old.height - height) < 12 ? old : { width, height }));
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element.current!);
    measure();
    return () => observer.disconnect();
  }, []);
  return frame;
}

/** The picture of a circuit in a frame: places follow from the circuit and the frame, never from a number. */
export function useFitted(circuit: Circuit, run: Run, frame: FrameSize | null): { drawn: Picture; minimap: boolean } {
  const places = useMemo(
    () => (frame ? fitted(circuit, run, frame) : { circuit, options: {}, minimap: false }),
    [circuit, frame],
  );
  return { drawn: useMemo(() => picture(places.circuit, { ...places.options, run }), [places, run]), minimap: places.minimap };
}

function begun({ formula, leaves, show }: Figure): Session {
  const state = fromFormula(formula, leaves, OPTIONS);
  if (show === "start") return state;
  if (show === "forward" || show === "end") return reduce(state, { type: "to", where: show });
  const node = nodeOf(circuitOf(formula), show);
  const stage = state.line.stages.find((found) => found.phase === "backward" && found.node === node);
  return stage ? reduce(state, { type: "go", at: stage.last }) : state;
}

interface Props {
  figure: Figure;
  /** Leaves that a guess moves to; null before. */
  moved: Leaves | null;
  onLeaves: (leaves: Leaves) => void;
}

/** A figure: the circuit, its leaves as fields, the stepper, and what it shows in words. */
export function LiveFigure({ figure, moved, onLeaves }: Props) {
  const [state, dispatch] = useReducer<Session, Action, Figure>(reduce, figure, begun);
  const area = useRef<HTMLDivElement>(null);
  const { drawn, minimap } = useFitted(state.circuit, state.run, useFrame(area));
  const view = useMemo(() => shownOf(state), [state.run, state.line, state.at, state.before]);
  const firing = useMemo(() => firingOf(state), [state.run, state.line, state.at, state.options]);
  const leaves = useMemo(() => leafEdits(state, dispatch), [state.leaves]);
  const [playing, play] = usePlay(state, dispatch);
  useEffect(() => onLeaves(state.leaves), [state.leaves]);
  useEffect(() => {
    for (const [name, value] of Object.entries(moved ?? {})) dispatch({ type: "leaf", name, value });
    if (moved) dispatch({ type: "to", where: "end" });
  }, [moved]);
  const press = (event: KeyboardEvent): void => {
    if (event.target !== area.current?.querySelector(".circuit")) return;
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (by) dispatch({ type: "step", by });
    else if (event.key === "Home") dispatch({ type: "to", where: "start" });
    else if (event.key === "End") dispatch({ type: "to", where: "end" });
    else return;
    event.preventDefault();
  };
  return (
    <figure class="live" aria-label="Circuit">
      <p class="formula-line"><Named text={spaced(figure.formula)} /></p>
      <div class="area" ref={area} onKeyDown={press}>
        <CircuitView picture={drawn} minimap={minimap} extras={extras} {...view} selection={state.selection} mode="signed" firing={firing} leaves={leaves}
          onSelect={(selection) => dispatch({ type: "select", selection })} />
      </div>
      <LeafFields state={state} dispatch={dispatch} />
      <Stepper state={state} dispatch={dispatch} playing={playing} onPlay={play} />
    </figure>
  );
}

/** A formula as a book sets it. */
export function spaced(formula: string): string {
  return formula.replace(/\s*\*\*\s*/g, "^").replace(/\s*\*\s*/g, "·").replaceAll("-", "−").replaceAll(";", ",");
}

/** The leaves as fields: the way to change them without a pointer. */
function LeafFields({ state, dispatch }: { state: Session; dispatch: (action: Action) => void }) {
  const id = useUnique();
  const names = state.circuit.nodes.flatMap(({ op }, node) => (op === "input" ? [nameOf(state.circuit, node)] : []));
  return (
    <div class="leaf-fields" role="group" aria-label="Leaves">
      {names.map((name) => (
        <span key={name}>
          <label for={`${id}${name}`}><Named text={name} /></label>
          <NumberField id={`${id}${name}`} value={state.leaves[name]!} onChange={(value) => dispatch({ type: "leaf", name, value })} />
        </span>
      ))}
    </div>
  );
}
