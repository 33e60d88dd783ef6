/** What nodes are called where people read about them: as they are drawn. */
import { isSplitter } from "../engine/table";
import type { Circuit } from "../types";
import { artistOf, drawnName, type Artist } from "./boxes";
import { DIGITS } from "./readings";
import { captionText } from "./signs";

const artists = new WeakMap<Circuit, Artist>();

/** What a node is called in the picture: its name, or the expression it is the result of; a splitter as its value. */
export function called(circuit: Circuit, node: number): string {
  let source = node;
  while (isSplitter(circuit.nodes[source]!)) source = circuit.nodes[source]!.sources[0]!;
  const artist = artists.get(circuit) ?? artistOf(circuit, null, DIGITS);
  artists.set(circuit, artist);
  return captionText(drawnName(artist, source)).replace(/\b(\d+)\.0\b/g, "$1");
}
