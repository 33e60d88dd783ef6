/** The card of a wire: what it carries forward and back, and what a nudge of it would do. */
import { nameOf } from "../engine";
import { canRun } from "../state/session";
import { Nudge } from "./ask";
import type { CardProps } from "./inspector";
import { Product } from "./math";
import { localText, productText } from "./node-card";
import { Fact, Link } from "./parts";
import { numeric, operandText, show, valueText, wireIndex } from "./text";

interface Props extends CardProps {
  reader: number;
  slot: number;
}

/** The card of one wire. */
export function WireCard(props: Props) {
  const { state, shown, reader, slot, dispatch } = props;
  const { run, known } = shown;
  const source = state.circuit.nodes[reader]!.sources[slot]!;
  const [from, to] = [nameOf(state.circuit, source), nameOf(state.circuit, reader)];
  const index = wireIndex(run, reader, slot);
  const { sent } = run.wires[index]!;
  const done = known.wire[index] !== "none";
  const pick = (node: number) => () => dispatch({ type: "select", selection: { kind: "node", node } });
  return (
    <>
      <dl>
        <Fact name="from"><Link onClick={pick(source)}>{from}</Link></Fact>
        <Fact name="to"><Link onClick={pick(reader)}>{to}</Link></Fact>
        <Fact name="value carried">{valueText(run, known, source)}</Fact>
        <Fact name="local derivative">∂{to}/∂{from} = {localText(shown, reader, slot)}</Fact>
        <Fact name="gradient carried">{done ? show(sent) : "not computed"}</Fact>
      </dl>
      <Sent {...props} />
      {canRun(state.source) && <Nudge {...props} />}
    </>
  );
}

/** Upstream × local = sent, or why it is not so. */
function Sent({ state, shown, reader, slot }: Props) {
  const index = wireIndex(shown.run, reader, slot);
  const { upstream, local, sent } = shown.run.wires[index]!;
  const to = nameOf(state.circuit, reader);
  if (shown.known.wire[index] === "none") {
    return <p class="note">When {to} has its gradient, it sends upstream × local along this wire.</p>;
  }
  if (sent === null) return <p class="note">{to} sends nothing along this wire: no gradient comes through here.</p>;
  if (numeric(local) === null || numeric(sent) === null) return <p class="equation">{productText(shown, reader, slot)}</p>;
  return <Product numbers={[operandText(upstream), operandText(local), show(sent)]} />;
}
