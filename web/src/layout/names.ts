/** What nodes are called where people read about them: as they are drawn. */
import { isSplitter } from "../engine/table";
import type { Circuit } from "../types";
import { artistOf, drawnName, type Artist } from "./boxes";
import { DIGITS } from "./readings";
import { captionText } from "./signs";

/** What names are made with, and those that were made: every step of a run asks for all of them. */
interface Names {
  artist: Artist;
  made: Map<number, string>;
}

const names = new WeakMap<Circuit, Names>();

function namesOf(circuit: Circuit): Names {
  const found = names.get(circuit) ?? { artist: artistOf(circuit, null, DIGITS), made: new Map<number, string>() };
  names.set(circuit, found);
  return found;
}

/** What a node is called in the picture: its name, or the expression it is the result of; a splitter as its value. */
export function called(circuit: Circuit, node: number): string {
  const { artist, made } = namesOf(circuit);
  const name = made.get(node) ?? nameOf(circuit, artist, node);
  made.set(node, name);
  return name;
}

function nameOf(circuit: Circuit, artist: Artist, node: number): string {
  let source = node;
  while (isSplitter(circuit.nodes[source]!)) source = circuit.nodes[source]!.sources[0]!;
  return captionText(drawnName(artist, source)).replace(/\b(\d+)\.0\b/g, "$1");
}
