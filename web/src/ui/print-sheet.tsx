/**
 * The circuit on paper: its formula, the picture at a size that can be read, and every value and gradient as a table.
 * It is made when the page is printed; the style sheet shows it there in place of everything else, in light colours.
 */
import { scaleIn } from "../layout";
import { progress, reduce, shown as shownOf, type Session } from "../state/session";
import { Content } from "./circuit";
import { fittedTo } from "./drawing";
import { statements, typeset } from "./formula";
import { FONTS } from "./ink";
import { without } from "./slices";
import { COLUMNS, rowsOf } from "./table";

/** How much smaller than on a screen letters may be on paper, and the room for a picture on a screen, in px. */
const FINER = 1.3;
const ROOM = { width: 910, height: 1120 };

/** The sheet of a state; where nothing was stepped through yet, of what it ends with. */
export function PrintSheet({ state: shown }: { state: Session }) {
  const state = shown.at ? shown : reduce(shown, { type: "to", where: "end" });
  const { circuit, source, hidden, options } = state;
  const view = shownOf(state);
  const { picture } = fittedTo(state, ROOM);
  const drawn = without(picture, circuit, hidden);
  const { left, top, width, height } = drawn;
  const { step, of, phase, text } = progress(state);
  return (
    <section class="print-sheet">
      <h1>{circuit.name}</h1>
      {source.kind === "formula" && <p class="typeset">{statements(source.text).map((part) => <span>{typeset(part.text)}</span>)}</p>}
      <p class="note">After step {step} of {of}{phase !== "done" && `: ${text}`}{drawn.note && `; ${drawn.note}`}</p>
      <svg width={width * scaleIn(picture, ROOM) / FINER} viewBox={`${left} ${top} ${width} ${height}`} font-family={FONTS}>
        <Content picture={drawn} {...view} mode={options.mode} id="paper" moves="still" />
      </svg>
      <table>
        <thead><tr>{COLUMNS.map(([column]) => <th>{column}</th>)}</tr></thead>
        {rowsOf(state, view).map((row) => <tr>{COLUMNS.map(([column]) => column === "name" ? <th>{row.name}</th> : <td>{row[column]}</td>)}</tr>)}
      </table>
    </section>
  );
}
