/** The card of a splitter: the value it copies, and the sum of what its branches bring back. */
import { branches, nameOf } from "../engine";
import { Why } from "./ask";
import type { CardProps } from "./inspector";
import { Where } from "./node-card";
import { Fact } from "./parts";
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
  return (
    <table class="sends">
      <caption>branches</caption>
      <thead>
        <tr>
          <th scope="col">from</th>
          <th scope="col">brings</th>
          <th scope="col">sum so far</th>
        </tr>
      </thead>
      <tbody>
        {branches(shown.run, node).map(({ wire, sent, sum }, index) => {
          const done = wire ? shown.known.wire[wireIndex(shown.run, wire.reader, wire.slot)] !== "none" : shown.known.grad[node] !== "none";
          return (
            <tr key={index}>
              <th scope="row">
                {wire ? (
                  <button type="button" class="plain" aria-label={`Wire to ${nameOf(state.circuit, wire.reader)}, input ${wire.slot + 1}`}
                    onClick={() => dispatch({ type: "select", selection: { kind: "wire", reader: wire.reader, slot: wire.slot } })}>
                    {nameOf(state.circuit, wire.reader)}
                  </button>
                ) : "the seed"}
              </th>
              <td class="num">{done ? (sent === null ? "nothing" : show(sent)) : "–"}</td>
              <td class="num">{done && sent !== null ? show(sum) : "–"}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
