/** The cards of a large circuit: a node with the numbers of every wire, one wire, a bundle, a group. */
import { useContext, useState } from "preact/hooks";
import { counted } from "../layout/letters";
import { pretty } from "../layout/readings";
import { readValue } from "../state/data";
import { Button, Card, Fact, Hint, Link, Table } from "../ui/parts";
import { operandText } from "../ui/text";
import { ask, Asking, useAsked, type ToldNode, type ToldView, type ToldWire } from "./answers";
import { told, type Ways } from "./parts";
import { nodeOfPicked, type Picked } from "./where";
import { Explained } from "./why";

interface Props {
  view: ToldView;
  picked: Picked | null;
  pick: Ways["pick"];
  open: (box: number) => void;
}

/** The panel on the right. */
export function Inspector(props: Props) {
  const { picked } = props;
  const node = nodeOfPicked(picked);
  const { answer, error } = useAsked<ToldNode>(node === null ? null : `/node/${node}`);
  const known = answer?.node === node ? answer : null;
  const wire = picked?.kind === "wire" && known?.wires[picked.slot];
  return (
    <aside class={picked ? "inspector open" : "inspector"} aria-label="Inspector">
      {!picked && <Hint>Pick a box or a wire to see its numbers. Open a group to see what is in it, down to one wire.</Hint>}
      {error && <p role="alert">{error}</p>}
      {picked?.kind === "box" && <GroupCard {...props} box={picked.box} />}
      {picked?.kind === "bundle" && <BundleCard {...props} link={picked.link} />}
      {wire && known && <WireCard {...props} node={known} wire={wire} />}
      {picked?.kind === "node" && known && <NodeCard {...props} node={known} />}
    </aside>
  );
}

function GroupCard({ view, box, open, pick }: Props & { box: number }) {
  const { label, facts } = view.boxes[box]!;
  return (
    <Card title={label} about="group" close={() => pick(null)}>
      <ul>{facts.slice(1).map((fact) => <li key={fact}>{pretty(fact)}</li>)}</ul>
      <p><Button keys="O" onClick={() => open(box)}>Open</Button></p>
    </Card>
  );
}

function BundleCard({ view, link, pick }: Props & { link: number }) {
  const { source, target, wires, sent, reader, slot } = view.links[link]!;
  return (
    <Card title={`${view.boxes[source]!.label} → ${view.boxes[target]!.label}`} about={counted(wires, "wire")} close={() => pick(null)}>
      {sent && <p>Together they send back {pretty(sent.text)}.</p>}
      <p><Button onClick={() => pick({ kind: "wire", reader, slot })}>The first of them</Button></p>
    </Card>
  );
}

/** Upstream × local = sent, with the numbers of a wire. */
export function productOf({ upstream, local, sent }: ToldWire): string {
  if (sent === undefined) return "not run";
  if (sent === null) return "nothing is sent";
  const factors = [upstream, local].map((value) => operandText(readValue(value)));
  return local === null ? told(sent) : `${factors.join(" × ")} = ${told(sent)}`;
}

/** The wires of a node; each is named by its other end. */
function Wires({ title, wires, end, pick }: { title: string; wires: ToldWire[]; end: "from" | "to"; pick: Ways["pick"] }) {
  if (!wires.length) return null;
  const rows = wires.map((wire) => [
    <Link label={`Wire from ${wire.from} to ${wire.to}, input ${wire.slot + 1}`}
      onClick={() => pick({ kind: "wire", reader: wire.reader, slot: wire.slot })}>{wire[end]}</Link>,
    productOf(wire),
  ]);
  return <Table title={title} heads={[end === "from" ? "to" : "from", "upstream × local = sent"]} rows={rows} />;
}

function NodeCard({ node, pick }: Props & { node: ToldNode }) {
  const { op, text, value, grad, wires, branches, place, type, group, rank } = node;
  const rest = node.readers - branches.length;
  return (
    <Card title={node.title} about={`${op}, ${type}`} close={() => pick(null)}>
      {text && <p class="code equation">{text}</p>}
      <dl>
        <Fact name="value">{told(value)}</Fact>
        <Fact name="gradient">{told(grad)}</Fact>
        {group && <Fact name="group">{group}</Fact>}
        <Fact name="rank">{rank}</Fact>
        {place && (
          <Fact name="written at"><span class="code">{place.file}:{place.line}</span>
            <p class="code">{place.text}</p></Fact>
        )}
      </dl>
      <Wires title="what it sends back" wires={wires} end="from" pick={pick} />
      <Wires title="what comes back" wires={branches} end="to" pick={pick} />
      {rest > 0 && <p class="note">{counted(rest, "more reader")}.</p>}
      {useContext(Asking) === ask && grad !== undefined && <Why key={node.node} node={node.node} />}
    </Card>
  );
}

/** What Python says when it is asked why; in a large circuit it takes a moment. */
function Why({ node }: { node: number }) {
  const [open, setOpen] = useState(false);
  return (
    <details class="why" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Why this gradient?</summary>
      {open && <Explained node={node} />}
    </details>
  );
}

function WireCard({ node, wire, pick }: Props & { node: ToldNode; wire: ToldWire }) {
  const end = (index: number, text: string) => <Link onClick={() => pick({ kind: "node", node: index })}>{text}</Link>;
  return (
    <Card title={`${wire.from} → ${wire.to}`} about={`wire, input ${wire.slot + 1} of ${node.wires.length}`} close={() => pick(null)}>
      <dl>
        <Fact name="from">{end(wire.source, wire.from)}</Fact>
        <Fact name="to">{end(wire.reader, wire.to)}</Fact>
        <Fact name="upstream gradient">{told(wire.upstream)}</Fact>
        <Fact name="local derivative">{wire.local === null ? "no single number" : told(wire.local)}</Fact>
        <Fact name="gradient carried">{told(wire.sent)}</Fact>
      </dl>
      <p class="note">{productOf(wire)}</p>
    </Card>
  );
}
