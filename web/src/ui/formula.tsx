/**
 * The formula: parses while one types and puts a mistake under the character it is about. While nobody types, it is set
 * as in a book; the native field stays there, for the keyboard and for assistive technology.
 */
import type { ComponentChild } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { notesOf, type Action, type Session } from "../state/session";
import type { Mistake } from "../types";
import { useUnique } from "./parts";

interface Props {
  state: Session;
  dispatch: (action: Action) => void;
}

/** A formula of up to this many letters is shown with all its statements. */
const SHORT = 52;

/** Beside a formula of up to this many letters there is room to say that another can be typed. */
const INVITING = 24;

/** The box for the formula, with the mistake in it if there is one. */
export function FormulaBox({ state, dispatch }: Props) {
  const [scrolled, setScrolled] = useState(0);
  const [editing, setEditing] = useState(false);
  const [id, about] = [useUnique(), useUnique()];
  const field = useRef<HTMLTextAreaElement>(null);
  const notes = useMemo(() => notesOf(state), [state.source]);
  const { draft, mistake } = state;
  const raw = editing || mistake !== null || !draft;
  const lines = statements(draft);
  const short = draft.length <= SHORT && !draft.includes("\n");
  return (
    <div class={raw ? "formula raw" : "formula"}>
      <label class="aloud" for={id}>Formula</label>
      <div class="box">
        <textarea
          ref={field}
          id={id}
          rows={raw ? Math.min(draft.split("\n").length, 6) : 1}
          wrap="off"
          spellcheck={false}
          autoComplete="off"
          autoCapitalize="off"
          placeholder={state.source.kind === "data" ? "Type a formula to explore that instead" : "Type any formula"}
          aria-invalid={mistake !== null}
          aria-describedby={mistake ? about : undefined}
          value={draft}
          onFocus={() => setEditing(true)}
          onBlur={() => setEditing(false)}
          onInput={(event) => dispatch({ type: "draft", text: event.currentTarget.value })}
          onScroll={(event) => setScrolled(event.currentTarget.scrollLeft)}
        />
        {!raw && <span class="typeset" aria-hidden="true">{typeset(short ? draft : (lines.at(-1)?.text ?? ""))}</span>}
        {!raw && draft.length <= INVITING && <span class="invites" aria-hidden="true">type any formula</span>}
        {!raw && !short && lines.length > 1 && (
          <button type="button" class="lines" onClick={() => field.current?.focus()} title="Show every line">
            line {lines.length} of {lines.length} ▾
          </button>
        )}
        {mistake && <MistakeLine id={about} text={draft} mistake={mistake} scrolled={scrolled} />}
        {!mistake && notes.map(({ message }) => <p key={message} class="note" role="status">{message}</p>)}
      </div>
    </div>
  );
}

const TOKENS = /([\p{L}_][\p{L}\p{N}_]*)(\s*\()?|(?:\*\*|\^)\s*([\p{L}\p{N}_.]+)|\s*\*\s*|[^]/gu;

/** A formula as it is set in a book: names in italics with their indices below, exponents above, a dot for a product. */
export function typeset(text: string): ComponentChild[] {
  return [...text.matchAll(TOKENS)].map(([all, name, call, power]) => {
    if (name !== undefined) return call ? `${name}(` : <Name name={name} />;
    if (power !== undefined) return <sup>{power}</sup>;
    return all.trim() === "*" ? "·" : all === "-" ? "\u2212" : all;
  });
}

/** A name in italics, with what follows its letters as an index. */
export function Name({ name }: { name: string }) {
  const [, base, index] = /^(\p{L}+)_?([\p{N}_]\w*)$/u.exec(name) ?? [];
  return base === undefined ? <i>{name}</i> : <i>{base}<sub>{index}</sub></i>;
}

/** The caret under the character of a mistake, and what is wrong there. */
function MistakeLine({ id, text, mistake, scrolled }: { id: string; text: string; mistake: Mistake; scrolled: number }) {
  const { line, column, row } = placeOf(text, mistake.offset);
  const several = text.includes("\n");
  return (
    <div class="mistake" id={id}>
      <div class="pointer" aria-hidden="true">
        {several && <div class="row">{row}</div>}
        <div class="under" style={{ marginLeft: `-${several ? 0 : scrolled}px` }}>
          {/* The text itself, unseen: letters of other fonts are not as wide as the rest. */}
          <span class="before">{[...row].slice(0, column).join("")}</span>
          <span class="caret">^</span>
        </div>
      </div>
      <p role="alert">
        {mistake.message} <span class="where">({several ? `line ${line}, ` : ""}character {column + 1})</span>
      </p>
    </div>
  );
}

/** The line, from 1, the column, from 0, and the text of the line in which an offset stands. */
export function placeOf(text: string, offset: number): { line: number; column: number; row: string } {
  const before = text.slice(0, offset).split("\n");
  return { line: before.length, column: [...before.at(-1)!].length, row: text.split("\n")[before.length - 1]! };
}

interface Statement {
  text: string;
  line: number;
  /** Columns, from 0; `last` is the column behind it. */
  first: number;
  last: number;
}

/** The statements of a formula and where they stand. */
export function statements(text: string): Statement[] {
  return text.split("\n").flatMap((row, index) => {
    let first = 0;
    return row.split(";").flatMap((part) => {
      const made = { text: part.trim(), line: index + 1, first, last: first + part.length };
      first += part.length + 1;
      return made.text ? [made] : [];
    });
  });
}
