/** The card of a wire: upstream × local = sent, what a nudge of it would do, and why its gradient is what it is. */
import { operand, titleOf } from "../engine";
import { canRun } from "../state/session";
import { Actions, Nudge, Why } from "./ask";
import type { CardProps } from "./inspector";
import { Product } from "./math";
import { localText } from "./node-card";
import { Fact, Link } from "./card-parts";
import { Quoted } from "./source";
import { allDigits, NO_GRADIENT, numeric, operandText, show, signClass, valueText, wireIndex } from "./text";

interface Props extends CardProps {
  reader: number;
  slot: number;
}

/** The card of one wire. */
export function WireCard(props: Props) {
  const { state, shown, reader, slot, dispatch } = props;
  const { nodes } = state.circuit;
  const source = nodes[reader]!.sources[slot]!;
  const inside = (node: number): string => titleOf(state.circuit, node, 20).replace(/^(.* .*)$/, "($1)");
  const pick = (node: number) => () => dispatch({ type: "select", selection: { kind: "node", node } });
  const ends = ([["from", source], ["to", reader]] as const).map(([name, node]) => (
    <Fact key={name} name={name}><Link onClick={pick(node)}>{titleOf(state.circuit, node)}</Link></Fact>
  ));
  return (
    <>
      <Sent {...props} />
      {canRun(state.source) ? <Nudge {...props} /> : <dl><Fact name="value">{valueText(shown.run, shown.known, source)}</Fact></dl>}
      <Why {...props} node={source} through={{ reader, slot }} />
      <Quoted state={state} node={reader} />
      <dl>
        {ends}
        <Fact name="local derivative">∂{inside(reader)}/∂{inside(source)} = {localText(shown, reader, slot)}</Fact>
      </dl>
      <Actions {...props} node={source} target={{ reader, slot }} copy={() => equationOf(props)} />
    </>
  );
}

/** The other inputs of the reader, where its local derivative is one of them. */
function localName({ state, reader, slot }: Props): string {
  const { op, sources } = state.circuit.nodes[reader]!;
  return op === "multiply" && sources.length === 2 ? `local, ${titleOf(state.circuit, sources[1 - slot]!, 16)}` : "local";
}

/** Upstream × local = sent, as far as it is known, with all digits under it; or why there is nothing. */
function Sent(props: Props) {
  const { state, reader, slot, shown: { run, known } } = props;
  const index = wireIndex(run, reader, slot);
  const { upstream, local, sent, source } = run.wires[index]!;
  const [to, from] = [titleOf(state.circuit, reader), titleOf(state.circuit, source)];
  const [done, arrived] = [known.wire[index] !== "none", known.grad[reader] !== "none"];
  if (done && sent === null) return <p class="note">{to} sends nothing along this wire: {NO_GRADIENT} comes to {from} here.</p>;
  const isNumber = [local, upstream, sent].every((value) => value === null || numeric(value) !== null);
  const slope = known.value[reader] ? (local === null ? "…" : operandText(local)) : "–";
  const said = [arrived ? show(upstream) : "not computed", known.value[reader] ? show(local) : "not computed", done ? show(sent) : "not computed"];
  return (
    <>
      <Product said={`upstream ${said[0]} × local derivative ${said[1]} = sent ${said[2]}`} terms={[
        { text: arrived ? operandText(upstream) : "–", name: "upstream", tone: arrived ? signClass(upstream) : "" },
        { text: slope, name: localName(props) },
        { text: done ? show(sent) : "–", name: `sent to ${titleOf(state.circuit, source, 16)}`, tone: done ? signClass(sent) : "" },
      ]} />
      {!done && <p class="note">When {to} has its gradient, it sends upstream × local along this wire.</p>}
      {done && isNumber && <p class="digits code" aria-label="all digits">{equationOf(props)}</p>}
      {known.wire[index] === "stale" && <p class="note">Stale: a leaf has changed since.</p>}
    </>
  );
}

/** The equation of a wire with all digits. */
function equationOf({ reader, slot, shown: { run } }: Props): string {
  const { upstream, local, sent } = run.wires[wireIndex(run, reader, slot)]!;
  const factor = (text: string): string => (operand(-1).startsWith(`(${text[0]}`) ? `(${text})` : text);
  return local === null ? allDigits(sent) : `${factor(allDigits(upstream))} × ${factor(allDigits(local))}\n= ${allDigits(sent)}`;
}
