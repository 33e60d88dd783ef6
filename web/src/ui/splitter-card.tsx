/** The card of a splitter: the value it copies, and the sum of what its branches bring back. */
import { branches, nameOf } from "../engine";
import { Why } from "./ask";
import type { CardProps } from "./inspector";
import { Where } from "./node-card";
import { Fact, Link, Table } from "./parts";
import { gradText, patternText, show, valueText, wireIndex } from "./text";

interface Props extends CardProps {
  node: number;
}

/** The card of a fan-out, or of a two-way splitter of the split form. */
export function SplitterCard(props: Props) {
  const { shown, node } = props;
  const { run, known } = shown;
  return (
    <>
      <dl>
        <Fact name="value copied">{valueText(run, known, node)}</Fact>
        <Fact name="gradient">{gradText(run, known, node).split(",")[0]}</Fact>
        <Fact name="arrived">{`${known.arrived[node]} of ${known.due[node]}`}</Fact>
      </dl>
      <Sums {...props} />
      <p class="note">
        {capital(patternText("split"))}. It waits until all have arrived: that is why the order of the backward pass matters.
      </p>
      <Where {...props} />
      <Why {...props} />
    </>
  );
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** The branches in the order in which they bring something back, with the sum so far. */
function Sums({ state, shown, dispatch, node }: Props) {
  const rows = branches(shown.run, node).map(({ wire, sent, sum }) => {
    const done = wire ? shown.known.wire[wireIndex(shown.run, wire.reader, wire.slot)] !== "none" : shown.known.grad[node] !== "none";
    return [
      wire ? (
        <Link label={`Wire to ${nameOf(state.circuit, wire.reader)}, input ${wire.slot + 1}`}
          onClick={() => dispatch({ type: "select", selection: { kind: "wire", reader: wire.reader, slot: wire.slot } })}>
          {nameOf(state.circuit, wire.reader)}
        </Link>
      ) : "the seed",
      done ? (sent === null ? "nothing" : show(sent)) : "–",
      done && sent !== null ? show(sum) : "–",
    ];
  });
  return <Table title="branches" heads={["from", "brings", "sum so far"]} rows={rows} />;
}
