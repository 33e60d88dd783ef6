/** Where a node was written: its place in the formula, or its lines of code. */
import { spanOf } from "../engine";
import type { Session } from "../state/session";

/** The formula or code that a node was written in, with its part marked. */
export function Quoted({ state, node }: { state: Session; node: number }) {
  if (state.source.kind === "formula") return <InFormula text={state.source.text} span={spanOf(state.circuit.nodes[node]!)} />;
  const { place } = state.circuit.nodes[node]!;
  if (!place?.text) return null;
  const lines = place.lines ?? [[place.line, place.text]];
  return (
    <div class="quoted">
      <h3 class="aloud">In the code</h3>
      <p class="code">{place.file}</p>
      <ol class="code">
        {lines.map(([line, text]) => (
          <li key={line} class={line === place.line ? "now" : undefined} aria-current={line === place.line ? "location" : undefined}>
            <span class="line">{line}</span>{text}
          </li>
        ))}
      </ol>
    </div>
  );
}

function InFormula({ text, span }: { text: string; span: readonly [number, number] | undefined }) {
  if (!span) return null;
  const [start, end] = span;
  return (
    <section class="in-formula">
      <h3>In the formula</h3>
      <p class="code">{text.slice(0, start)}<mark class="now">{text.slice(start, end)}</mark>{text.slice(end)}</p>
    </section>
  );
}
