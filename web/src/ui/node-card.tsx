/** The cards of function nodes and leaves: "upstream × local = sent" with the numbers of this step. */
import { kinksOf, titleOf, told } from "../engine";
import { canEdit } from "../state/session";
import type { Shown } from "../state/known";
import { ArrayNumbers, detailOf } from "./array-card";
import { Actions, Why } from "./ask";
import type { CardProps } from "./inspector";
import { LeafControls } from "./leaves";
import { LoopSteps } from "./loop-steps";
import { Formula } from "./math";
import { Fact, Link, Table } from "./card-parts";
import { useUnique } from "./parts";
import { Slices } from "./node-slices";
import { TangentPlot } from "./tangent";
import { Quoted } from "./source";
import { allDigits, brief, gradText, operandText, patternText, readersOf, show, signClass, valueText, wireIndex } from "./text";

interface Props extends CardProps {
  node: number;
}

/** The card of a function node. */
export function NodeCard(props: Props) {
  const { state, shown, node } = props;
  const { run, known } = shown;
  const { op } = state.circuit.nodes[node]!;
  return (
    <>
      <Formula text={equation(props)} />
      {run.loops?.[node] && known.value[node] && <LoopSteps key={node} loop={run.loops[node]!} title={titleOf(state.circuit, node)} />}
      <Numbers {...props} />
      <Sends {...props} />
      {known.value[node] && <Kinks shown={shown} node={node} />}
      {patternText(op) && <p class="note">{patternText(op)}.</p>}
      {known.value[node] && <TangentPlot run={run} node={node} />}
      <Why {...props} />
      <Quoted state={state} node={node} />
      <Where {...props} />
      <Slices {...props} />
      <Actions {...props} />
    </>
  );
}

/** The value and the gradient of a node, with all digits under them where these are more. */
function Numbers({ shown, node }: Pick<Props, "shown" | "node">) {
  const { run, known } = shown;
  if (detailOf(run.values[node])) return <ArrayNumbers shown={shown} node={node} />;
  const rows = [
    ["value", valueText(run, known, node), known.value[node] ? allDigits(run.values[node]) : "", ""],
    ["gradient", gradText(run, known, node), known.grad[node] === "final" ? allDigits(run.grads[node]) : "", signClass(run.grads[node])],
  ] as const;
  return (
    <dl class="ruled">
      {rows.map(([name, text, digits, tone]) => (
        <Fact key={name} name={name}>
          <b class={digits ? tone : ""} title={digits === text ? undefined : digits}>{text}</b>
          {digits && digits !== text && <small class="digits code">{digits}</small>}
        </Fact>
      ))}
    </dl>
  );
}

/** The node's formula, with numbers plugged in once they are known. */
function equation({ state, shown, node }: Props): string {
  const plain = told(state.circuit, node);
  if (!shown.known.value[node] || state.before || typeof shown.run.values[node] === "object") return plain;
  return state.line.stages.find((stage) => stage.kind === "forward" && stage.node === node)?.text ?? plain;
}

/** What the node sends back along each input wire. */
function Sends({ state, shown, dispatch, node }: Props) {
  const { sources } = state.circuit.nodes[node]!;
  const rows = sources.map((source, slot) => [
    <Link label={`Wire from ${titleOf(state.circuit, source)}, input ${slot + 1}`}
      onClick={() => dispatch({ type: "select", selection: { kind: "wire", reader: node, slot } })}>
      {titleOf(state.circuit, source)}
    </Link>,
    <>
      <p>{productText(shown, node, slot)}</p>
      <p class="symbol">local derivative {localText(shown, node, slot)}</p>
    </>,
  ]);
  return <Table title="What it sends back" heads={["to", "upstream × local = sent"]} rows={rows} />;
}

/** The local derivative on a wire, once the reader's value is there. */
export function localText({ run, known }: Shown, reader: number, slot: number): string {
  if (!known.value[reader]) return "not computed";
  return brief(run.wires[wireIndex(run, reader, slot)]!.local);
}

/** Upstream times local, once it was sent. */
export function productText({ run, known }: Shown, reader: number, slot: number): string {
  const index = wireIndex(run, reader, slot);
  const { local, upstream, sent } = run.wires[index]!;
  if (known.wire[index] === "none") return "not computed";
  const stale = known.wire[index] === "stale" ? " (stale)" : "";
  if (sent === null) return `nothing is sent${stale}`;
  return local === null || typeof sent === "object" ? brief(sent) + stale : `${operandText(upstream)} × ${operandText(local)} = ${show(sent)}${stale}`;
}

/** Where a slope is a choice, which one was made. */
function Kinks({ shown, node }: { shown: Shown; node: number }) {
  const found = kinksOf(shown.run, node);
  if (!found.length) return null;
  const docs = found.map(({ doc }) => doc).join("; ");
  return <p class="badge">On a kink: {docs}. Its slope there is a choice; the one taken stands above.</p>;
}

/** The line that made the node, and a button that copies where it is. */
export function Where({ state, node }: Pick<Props, "state" | "node">) {
  const { place, group, type } = state.circuit.nodes[node]!;
  const text = place && `${place.file}:${place.line}${place.column ? `:${place.column}` : ""}`;
  return (
    <dl>
      <Fact name="type">{type}</Fact>
      {group && <Fact name="group">{group}</Fact>}
      {text && (
        <Fact name="written at">
          <span class="code">{text}</span>{" "}
          <button type="button" class="quiet" aria-label={`Copy ${text}`} onClick={() => void navigator.clipboard?.writeText(text)}>
            copy
          </button>
        </Fact>
      )}
    </dl>
  );
}

/** The card of an input or a constant. */
export function LeafCard(props: Props) {
  const { state, node } = props;
  const name = titleOf(state.circuit, node);
  const { op } = state.circuit.nodes[node]!;
  const id = useUnique();
  const editable = op === "input" && canEdit(state, name);
  return (
    <>
      {editable && (
        <div class="leaf edit">
          <label for={id}>value</label>
          <LeafControls id={id} name={name} state={state} dispatch={props.dispatch} />
        </div>
      )}
      <Numbers {...props} />
      {state.carried?.[node] != null && <dl><Fact name="from earlier passes">{show(state.carried[node])}</Fact></dl>}
      <Arrivals {...props} />
      {op === "input" && <Why {...props} />}
      <Where {...props} />
      <Slices {...props} />
      {op === "input" && <Actions {...props} />}
    </>
  );
}

/** What comes back to a node from each of its readers. */
export function Arrivals({ state, shown, dispatch, node }: Props) {
  const wires = readersOf(shown.run, node);
  if (!wires.length) return null;
  const rows = wires.map((index) => {
    const { reader, slot } = shown.run.wires[index]!;
    const from = titleOf(state.circuit, reader);
    const pick = (): void => dispatch({ type: "select", selection: { kind: "wire", reader, slot } });
    return [<Link label={`Wire to ${from}, input ${slot + 1}`} onClick={pick}>{from}</Link>, productText(shown, reader, slot)];
  });
  return <Table title="What comes back" heads={["from", "upstream × local = sent"]} rows={rows} />;
}
