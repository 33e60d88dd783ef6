/** The card of a splitter: the value it copies, and the sum of what its branches bring back. */
import { branches, operand, titleOf } from "../engine";
import { Why } from "./ask";
import type { CardProps } from "./inspector";
import { Where } from "./node-card";
import { Fact, Link, Table } from "./card-parts";
import { gradText, NO_GRADIENT, patternText, show, signClass, valueText, wireIndex } from "./text";

interface Props extends CardProps {
  node: number;
}

/** The card of a fan-out, or of a two-way splitter of the split form. */
export function SplitterCard(props: Props) {
  const { shown, node } = props;
  const { run, known } = shown;
  return (
    <>
      <Sum {...props} />
      <dl class="ruled">
        <Fact name="value">{valueText(run, known, node)}</Fact>
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

/** The sum as far as its branches have arrived: 1 + 3 + – = 4 … */
function Sum({ shown, node }: Props) {
  const { known, run } = shown;
  const all = branches(run, node).filter(({ wire, sent }) => wire && sent !== null);
  const arrived = all.filter(({ wire }) => known.wire[wireIndex(run, wire!.reader, wire!.slot)] !== "none");
  if (!arrived.length || all.length > 12) return null;
  const parts = all.map((branch) => (arrived.includes(branch) ? operand(branch.sent!) : "–"));
  const total = show(arrived.at(-1)!.sum);
  return <p class="sum-line num">{parts.join(" + ")} = <b class={signClass(arrived.at(-1)!.sum)}>{total}{arrived.length < all.length && " …"}</b></p>;
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** The branches in the order in which they bring something back, with the sum so far. */
function Sums({ state, shown, dispatch, node }: Props) {
  const rows = branches(shown.run, node).map(({ wire, sent, sum }) => {
    const done = wire ? shown.known.wire[wireIndex(shown.run, wire.reader, wire.slot)] !== "none" : shown.known.grad[node] !== "none";
    return [
      wire ? (
        <Link label={`Wire to ${titleOf(state.circuit, wire.reader)}, input ${wire.slot + 1}`}
          onClick={() => dispatch({ type: "select", selection: { kind: "wire", reader: wire.reader, slot: wire.slot } })}>
          {titleOf(state.circuit, wire.reader)}
        </Link>
      ) : "the seed",
      done ? (sent === null ? NO_GRADIENT : show(sent)) : "–",
      done && sent !== null ? show(sum) : "–",
    ];
  });
  return <Table title="Branches" heads={["from", "brings", "sum so far"]} rows={rows} />;
}
