/**
 * The find language, as in Python: `op:tanh name:/attn/ grad>1e3 nan depth<4`. A node is found if every term holds.
 *
 * A term is `op:NAME`, `name:TEXT`, `group:TEXT` (part of a name; `/TEXT/` is a regular expression), a comparison of
 * `grad`, `value`, `depth`, `rank` or `index` with a number, `nan`, `inf`, `bad` (not finite), `absent` (no gradient
 * arrived), or a word, which is part of a name. Sizes are magnitudes, but a bound that no magnitude is below (`<0`, `<=0`,
 * and every negative one) is compared with the signed number; an array is negative if all its elements are. `depth` counts
 * the groups around a node, `rank` the wires on the longest way to it.
 */
import type { Circuit, Run, Summary } from "../types";
import { ranksOf } from "./circuits";
import { nameRegex } from "./name-regex";
import { isBad, isNan, sizeOf } from "./numbers";
import { callable, opOf } from "./table";
import { shown, suggest } from "./words";

/** A query that cannot be read. */
export class FindMistake extends Error {}

type Test = (node: number) => boolean;

const LONGEST = 1000;
const COLUMNS = ["grad", "value", "depth", "rank", "index"] as const;
const STATES = ["nan", "inf", "bad", "absent"] as const;
const TEXTUAL = ["op", "name", "group"] as const;
const COMPARISON = /^([a-z]+)(<=|>=|<|>|=)(.*)$/su;
const COMPARED: Readonly<Record<string, (one: number, two: number) => boolean>> = {
  "<=": (one, two) => one <= two,
  ">=": (one, two) => one >= two,
  "<": (one, two) => one < two,
  ">": (one, two) => one > two,
  "=": (one, two) => one === two,
};

/** Return the nodes for which all terms of a query hold; an empty query finds them all. */
export function find(circuit: Circuit, run: Run | null, query: string): number[] {
  if (query.length > LONGEST) throw new FindMistake(`a query has at most ${LONGEST} characters`);
  const tests = query.split(/\s+/).filter(Boolean).map((term) => testOf(circuit, run, term));
  return circuit.nodes.flatMap((_, node) => (tests.every((test) => test(node)) ? [node] : []));
}

function testOf(circuit: Circuit, run: Run | null, term: string): Test {
  const [kind, text] = [term.split(":", 1)[0]!, term.includes(":") ? term.slice(term.indexOf(":") + 1) : null];
  if (text !== null && kind === "op") return applies(circuit, text);
  if (text !== null && kind === "name") return isNamed(circuit, text);
  if (text !== null && kind === "group") return inGroup(circuit, text);
  const match = COMPARISON.exec(term);
  const column = COLUMNS.find((name) => name === match?.[1]);
  if (match && column) {
    const bound = numberOf(term, match[3]!);
    const sizes = measured(circuit, run, column, bound < 0 || (!bound && match[2]![0] === "<"));
    return (node) => COMPARED[match[2]!]!(sizes[node]!, bound);
  }
  const state = STATES.find((name) => name === term);
  if (state) return (node) => isIn(run, state, node);
  if (text !== null || match) {
    const wanted = [...TEXTUAL.map((name) => `${name}:`), ...COLUMNS];
    const near = suggest(text !== null ? kind : match![1]!, wanted);
    throw new FindMistake(`cannot search for ${shown(term)}: wanted ${wanted.join(", ")}${near}`);
  }
  return isNamed(circuit, term);
}

function numberOf(term: string, text: string): number {
  const special = /^([-+]?)(inf|infinity|nan)$/i.exec(text);
  if (special) return special[2]!.toLowerCase() === "nan" ? NaN : Number(`${special[1]}Infinity`);
  if (/^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?$/i.test(text)) return Number(text);
  throw new FindMistake(`${shown(term)} compares with ${shown(text)}, which is no number`);
}

function applies({ nodes }: Circuit, text: string): Test {
  const name = opOf(text)?.name ?? text;
  if (!callable.includes(text) && !["input", "constant"].includes(text) && !nodes.some(({ op }) => op === text)) {
    const known = [...new Set([...callable, ...nodes.map(({ op }) => op)])];
    throw new FindMistake(`there is no op called ${shown(text)}${suggest(text, known)}`);
  }
  return (node) => nodes[node]!.op === name;
}

function isNamed({ nodes, outputs }: Circuit, text: string): Test {
  const test = textTest(text);
  const index = /^%[0-9]{1,9}$/.test(text) ? Number(text.slice(1)) : -1;
  const labelled = new Set(outputs.filter(({ label }) => test(label)).map(({ node }) => node));
  return (node) => node === index || labelled.has(node) || nodes[node]!.names.some(test);
}

function inGroup({ nodes }: Circuit, text: string): Test {
  const test = textTest(text);
  return (node) => nodes[node]!.group !== "" && test(nodes[node]!.group);
}

/** Whether a name has a text in it, or matches what stands between slashes. */
function textTest(text: string): (name: string) => boolean {
  if (!/^\/.*\/$/su.test(text)) return (name) => name.includes(text);
  try {
    return nameRegex(text.slice(1, -1));
  } catch (error) {
    throw new FindMistake(`${shown(text)}: ${(error as Error).message}`);
  }
}

/** What is compared, for every node; NaN where there is no size. */
function measured(circuit: Circuit, run: Run | null, column: (typeof COLUMNS)[number], signed: boolean): number[] {
  if (column === "rank") return ranksOf(circuit);
  return circuit.nodes.map(({ group }, node) => {
    if (column === "index") return node;
    if (column === "depth") return group.split("/").filter(Boolean).length;
    const value = run?.[column === "grad" ? "grads" : "values"][node] ?? null;
    const size = sizeOf(value);
    return signed ? size * ((value as Partial<Summary> | null)?.sign || 1) : Math.abs(size);
  });
}

function isIn(run: Run | null, state: (typeof STATES)[number], node: number): boolean {
  if (state === "absent") return !run || run.grads[node] === null;
  const both = [run?.values[node] ?? 0, run?.grads[node] ?? 0];
  if (state === "nan") return both.some(isNan);
  if (state === "inf") return both.some((value) => isBad(value) && !isNan(value));
  return both.some(isBad);
}
