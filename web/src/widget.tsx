/**
 * The explorer in a notebook, for anywidget. Step, selection and theme are kept in the model, written as in an address;
 * what is large, and a run at other leaves, is asked of Python by message. Kept true: all explorers of one page share
 * one script, keys pressed in an explorer are not shortcuts of the notebook, and what Python refuses is said.
 */
import { render, type FunctionComponent } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { fromPage, question, readRun, type PageData } from "./state/data";
import { selectionCode, selectionOf } from "./state/selection";
import { canRun, OPTIONS, type Action, type Options, type Session } from "./state/session";
import { positionCode, positionOf } from "./state/timeline";
import { App } from "./ui/app";
import * as drawers from "./ui/drawers";
import { provideDrawers } from "./ui/late";

type Hear = (content: { id?: string } | undefined, buffers: (DataView | ArrayBuffer)[]) => void;

/** What anywidget hands over: the state that Python sees too, and a way to send messages. */
interface Model {
  get: (name: string) => unknown;
  set: (name: string, value: string) => void;
  save_changes: () => void;
  send: (content: object) => void;
  on: (event: string, listener: Hear) => void;
  off: (event: string, listener: Hear) => void;
}

type Answer = PageData & { error?: string };
type Dispatch = (action: Action) => void;
type Place = { model: Model; el: HTMLElement };

/** Ask Python; null if the answer is not needed any more. */
function ask(model: Model, asked: object, signal: AbortSignal): Promise<Answer | null> {
  const id = Math.random().toString(36).slice(2);
  return new Promise((resolve) => {
    const end = (answer: Answer | null): void => {
      model.off("msg:custom", hear);
      resolve(answer);
    };
    const hear: Hear = (content, [bytes]) => {
      if (content?.id === id && bytes) end(JSON.parse(new TextDecoder().decode(bytes)) as Answer);
    };
    model.on("msg:custom", hear);
    signal.addEventListener("abort", () => end(null), { once: true });
    model.send({ id, ...asked });
  });
}

/** The theme of a notebook, as JupyterLab and VS Code write it; elsewhere that of the system. */
function hostTheme(): Options["theme"] {
  const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
  const light = jpThemeLight ?? (vscodeThemeKind && String(vscodeThemeKind.includes("light")));
  return light === undefined || light === "" ? "system" : light === "true" ? "light" : "dark";
}

/** The theme that a model asks for: that of the system is that of the notebook around it. */
function themeOf(model: Model): Options["theme"] {
  const asked = model.get("theme");
  return asked === "light" || asked === "dark" ? asked : hostTheme();
}

function codesOf({ line, at, circuit, selection }: Session): { step: string; selection: string } {
  return { step: positionCode(line, at), selection: selection ? selectionCode(circuit, selection) : "" };
}

/** The state that a model asks for. */
function sessionOf(model: Model, data: PageData): Session {
  const made = fromPage(data, { ...OPTIONS, theme: themeOf(model) });
  const [step, selection] = [String(model.get("step")), String(model.get("selection"))];
  return { ...made, at: positionOf(made.line, step), selection: selectionOf(made.circuit, selection) };
}

/** Write into the model what has changed on the page. */
function mirror(model: Model, state: Session): void {
  const { theme } = state.options;
  const told = { ...codesOf(state), ...(theme === themeOf(model) ? {} : { theme }) };
  const changed = Object.entries(told).filter(([name, value]) => model.get(name) !== value);
  for (const [name, value] of changed) model.set(name, value);
  if (changed.length) model.save_changes();
}

/** Bring onto the page what has changed in the model. */
function follow(model: Model, state: Session, dispatch: Dispatch): void {
  const [codes, step, selection] = [codesOf(state), String(model.get("step")), String(model.get("selection"))];
  if (step !== codes.step) dispatch({ type: "go", at: positionOf(state.line, step) });
  if (selection !== codes.selection) dispatch({ type: "select", selection: selectionOf(state.circuit, selection) });
  if (themeOf(model) !== state.options.theme) dispatch({ type: "option", change: { theme: themeOf(model) } });
}

const FOLLOWED = ["change:step", "change:selection", "change:theme"];
const THEMED = { attributes: true, attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind"] };

/** Keep page and model together. */
function useModel(model: Model, state: Session, dispatch: Dispatch): void {
  const current = useRef(state);
  current.current = state;
  // Before anything else can happen: a theme that turns in between would be taken for a choice made on the page.
  useLayoutEffect(() => mirror(model, state), [state.line, state.at, state.selection, state.options.theme]);
  useLayoutEffect(() => {
    const listen = (): void => follow(model, current.current, dispatch);
    const themes = new MutationObserver(listen);
    themes.observe(document.body, THEMED);
    for (const event of FOLLOWED) model.on(event, listen);
    return () => {
      themes.disconnect();
      for (const event of FOLLOWED) model.off(event, listen);
    };
  }, [model]);
}

/** Have Python run the circuit again whenever its leaves change, one run at a time: the next has the latest leaves. */
function useKernel(model: Model, state: Session, dispatch: Dispatch, say: (text: string) => void): void {
  const { source, leaves, circuit } = state;
  const asked = useRef(leaves);
  const [busy, setBusy] = useState(false);
  const stop = useMemo(() => new AbortController(), []);
  useEffect(() => () => stop.abort(), []);
  useEffect(() => {
    if (source.kind !== "data" || !source.server || canRun(source) || busy || asked.current === leaves) return;
    asked.current = leaves;
    setBusy(true);
    say("Python is running the circuit");
    void ask(model, { ask: "run", ...(JSON.parse(question(leaves)) as object) }, stop.signal).then((answer) => {
      if (!answer) return;
      if (answer.run) dispatch({ type: "ran", leaves, run: readRun(circuit, answer.run) });
      say(answer.error ?? answer.note ?? "");
      setBusy(false);
    });
  }, [source, leaves, busy]);
}

/** Keep the focus where a press has disabled the button that had it: else the next key would be the notebook's. */
function useFocus(el: HTMLElement): void {
  const last = useRef<Element | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    const leave = (): void => {
      if (!last.current?.matches(":disabled")) last.current = null;
    };
    el.addEventListener("focusin", (event) => { last.current = event.target as Element; }, stop);
    el.addEventListener("focusout", leave, stop);
    return () => stop.abort();
  }, [el]);
  // At once, before another key can come.
  useLayoutEffect(() => {
    if (!last.current?.matches(":disabled")) return;
    last.current = null;
    el.querySelector<HTMLElement>(".wg-app")?.focus({ preventScroll: true });
  });
}

interface Hosted {
  first: Session;
  page: null;
  whole: boolean;
  /** The hook that stands in the place of the page's server. */
  useHost: (state: Session, dispatch: Dispatch) => void;
}

const Explorer: FunctionComponent<Hosted> = App;

/** The explorer, and a line for what Python says. */
function Notebook({ model, el, first }: Place & { first: Session }) {
  const [said, say] = useState("");
  const useHost = useMemo(
    () => (state: Session, dispatch: Dispatch) => {
      useFocus(el);
      useModel(model, state, dispatch);
      useKernel(model, state, dispatch, say);
    },
    [model, el],
  );
  return (
    <>
      <Explorer first={first} page={null} whole={false} useHost={useHost} />
      <Line text={said} />
    </>
  );
}

function Line({ text }: { text: string }) {
  return <p role="status" style={{ font: "14px sans-serif", margin: text ? "6px" : 0 }}>{text}</p>;
}

/** Keys that are pressed in the explorer are its own; those with Ctrl that it has no use for are the notebook's. */
function keep(event: KeyboardEvent): void {
  if (event.defaultPrevented || !(event.ctrlKey || event.metaKey || event.key === "Escape")) event.stopPropagation();
}

/** Show a model in an element; returns how to take it away again. */
function show({ model, el }: Place): () => void {
  const stop = new AbortController();
  // JupyterLab listens before the element does; this is how it is told not to.
  el.dataset.lmSuppressShortcuts = "true";
  el.addEventListener("keydown", keep, { signal: stop.signal });
  const draw = (data: Answer): void =>
    render(data.error ? <Line text={data.error} /> : <Notebook model={model} el={el} first={sessionOf(model, data)} />, el);
  const kept = model.get("data");
  if (kept) draw(JSON.parse(String(kept)) as PageData);
  else {
    render(<Line text="Waiting for Python. If nothing comes, run the cell again." />, el);
    void ask(model, { ask: "data" }, stop.signal).then((data) => data && draw(data));
  }
  return () => {
    stop.abort();
    render(null, el);
  };
}

provideDrawers(() => drawers);

type Show = typeof show;
const SHARED = Symbol.for("wiregrad.explorer");

/** Every widget brings its own copy of this script; the first to come shows them all, so that no two ids are the same. */
function shared({ model }: Place): Show {
  const page = globalThis as { [SHARED]?: Map<string, Show> };
  const shows = (page[SHARED] ??= new Map<string, Show>());
  const bundle = String(model.get("bundle"));
  if (!shows.has(bundle)) shows.set(bundle, show);
  return shows.get(bundle)!;
}

export default { render: (place: Place): (() => void) => shared(place)(place) };
