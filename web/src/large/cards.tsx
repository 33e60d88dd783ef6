/** The cards of a large circuit: a node with the numbers of every wire, one wire, a bundle, a group. */
import { useContext, useState } from "preact/hooks";
import { counted } from "../layout/letters";
import { readValue } from "../state/data";
import { Card, Fact, Link, Table } from "../ui/card-parts";
import { Button } from "../ui/parts";
import { operandText } from "../ui/text";
import { ask, Asking, useAsked, type Board, type BoardBox, type ToldNode, type ToldWire } from "./answers";
import { told } from "./parts";
import { nodeOfPicked, opens, type Picked } from "./where";
import { Explained } from "./why";

type Pick = (picked: Picked | null) => void;

interface Props {
  board: Board;
  picked: Picked;
  pick: Pick;
  turn: (box: BoardBox) => void;
}

/** The panel on the right. */
export function Inspector(props: Props) {
  const { picked } = props;
  const node = nodeOfPicked(picked);
  const { answer, error } = useAsked<ToldNode>(node === null ? null : `/node/${node}`);
  const known = answer?.node === node ? answer : null;
  const wire = picked.kind === "wire" && known?.wires[picked.slot];
  return (
    <aside class="large-card" aria-label="Inspector">
      {error && <p role="alert">{error}</p>}
      {picked.kind === "box" && <GroupCard {...props} title={picked.title} />}
      {picked.kind === "bundle" && <BundleCard {...props} {...picked} />}
      {wire && known && <WireCard {...props} node={known} wire={wire} />}
      {picked.kind === "node" && known && <NodeCard {...props} node={known} />}
    </aside>
  );
}

function GroupCard({ board, title, turn, pick }: Props & { title: string }) {
  const box = board.boxes.find((one) => one.title === title);
  if (!box) return <Card title={title} about="group" close={() => pick(null)}><p class="note">It is not in the picture any more.</p></Card>;
  const bad = [box.bad[0] >= 0 && "values", box.bad[1] >= 0 && "gradients"].filter(Boolean).join(" and ");
  return (
    <Card title={title} about={box.kind === "range" ? "merged groups" : box.kind} close={() => pick(null)}>
      <dl>
        <Fact name="holds">{counted(box.count, "node")}</Fact>
        {box.about && <Fact name="what">{box.about}</Fact>}
        <Fact name="largest |gradient|">{told(box.largest)}</Fact>
        {bad && <Fact name="not finite">{bad}</Fact>}
      </dl>
      {(opens(box) || box.open) && <p><Button keys="O" onClick={() => turn(box)}>{box.open ? "Close" : "Open"}</Button></p>}
    </Card>
  );
}

function BundleCard({ board, from, to, pick }: Props & { from: string; to: string }) {
  const { boxes, links } = board;
  const link = links.find((one) => boxes[one.from]!.title === from && boxes[one.to]!.title === to);
  return (
    <Card title={`${from} → ${to}`} about={counted(link?.wires ?? 0, "wire")} close={() => pick(null)}>
      {link && <p><Button onClick={() => pick({ kind: "wire", reader: link.reader, slot: link.slot })}>The first of them</Button></p>}
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
function Wires({ title, wires, end, pick }: { title: string; wires: ToldWire[]; end: "from" | "to"; pick: Pick }) {
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
