/** The formula box: parses while one types, and puts a mistake under the character it is about. */
import { useMemo, useState } from "preact/hooks";
import { notesOf, type Action, type Session } from "../state/session";
import type { Mistake } from "../types";
import { useUnique } from "./parts";

interface Props {
  state: Session;
  dispatch: (action: Action) => void;
}

/** The box for the formula, with the mistake in it if there is one. */
export function FormulaBox({ state, dispatch }: Props) {
  const [scrolled, setScrolled] = useState(0);
  const [id, about] = [useUnique(), useUnique()];
  const notes = useMemo(() => notesOf(state), [state.source]);
  const rows = Math.min(state.draft.split("\n").length, 4);
  return (
    <div class="formula">
      <label for={id}>Formula</label>
      <div class="box">
        <textarea
          id={id}
          rows={rows}
          wrap="off"
          spellcheck={false}
          autoComplete="off"
          autoCapitalize="off"
          placeholder={state.source.kind === "data" ? "Type a formula to explore that instead" : "e = a + b; f = e * c"}
          aria-invalid={state.mistake !== null}
          aria-describedby={state.mistake ? about : undefined}
          value={state.draft}
          onInput={(event) => dispatch({ type: "draft", text: event.currentTarget.value })}
          onScroll={(event) => setScrolled(event.currentTarget.scrollLeft)}
        />
        {state.mistake && <MistakeLine id={about} text={state.draft} mistake={state.mistake} scrolled={scrolled} />}
        {!state.mistake && notes.map(({ message }) => <p key={message} class="note" role="status">{message}</p>)}
      </div>
    </div>
  );
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
