/**
 * Formulas as text: `e = a + b; f = e * c`. The same grammar, names, places, limits, notes and messages as in
 * `src/wiregrad/frontends/formula.py`.
 *
 * A formula is data, never code. Names are looked up among the formula's own wires and in the op table, nowhere else.
 * Every mistake points at its character.
 */
import type { Circuit, Place } from "../types";
import { CONSTANTS, LIMITS } from "./ops.generated";
import { addNode, apply, readExpression, type Note, type Scope } from "./expressions";
import { fail, functionOf, isConstant, statements, targetOf, type Token } from "./scanner";
import { shown } from "./words";

interface Parser {
  scope: Scope;
  /** Every name in the formula and the offset of its first use. */
  names: Map<string, number>;
}

/** Return the circuit of a formula; statements end with `;` or a new line, the last one is the output. */
export function parse(text: string): Circuit {
  return parseWithNotes(text).circuit;
}

/** Return the circuit of a formula, and notes on what its writer may not have meant. */
export function parseWithNotes(text: string): { circuit: Circuit; notes: Note[] } {
  const letters = text.length > LIMITS.characters ? [...text] : [];
  if (letters.length > LIMITS.characters) {
    const [most, given] = [LIMITS.characters, letters.length].map((count) => count.toLocaleString("en-US"));
    const advice = "build larger circuits with Builder or the text form";
    const offset = letters.slice(0, LIMITS.characters).join("").length;
    fail(`a formula has at most ${most} characters; this one has ${given}; ${advice}`, offset);
  }
  const scope: Scope = {
    text,
    places: placesOf(text),
    nodes: [],
    moves: [],
    wires: new Map(),
    inputs: new Set(),
    applied: [],
    end: 0,
    notes: [],
  };
  const parser = { scope, names: new Map<string, number>() };
  const circuit = circuitOf(parser, statements(text));
  const notes = [...scope.notes, ...leafNotes(parser)].sort((one, two) => one.offset - two.offset);
  return { circuit, notes };
}

function circuitOf(parser: Parser, all: Token[][]): Circuit {
  const { scope } = parser;
  declareInputs(parser, all);
  const last = all.pop();
  if (!last) fail("the formula is empty; write something like (a + b) * c", scope.places.length);
  for (const tokens of all) {
    if (!targetOf(tokens)) {
      const message = "this statement gives no name and is not the last, so nothing can use it";
      fail(message, tokens[0]!.offset);
    }
    readStatement(scope, tokens);
  }
  const root = readStatement(scope, last);
  nameTemporaries(parser, root);
  const node = scope.nodes[root]!;
  if (!node.names.length) node.names.push(freeName(scope, "f"));
  return { name: node.names[0]!, nodes: scope.nodes, outputs: [{ label: node.names[0]!, node: root }] };
}

/** Notes on leaves whose names look like a function without argument or like a product. */
function leafNotes({ scope, names }: Parser): Note[] {
  return [...scope.inputs].flatMap((name): Note[] => {
    const [letters, offset] = [[...name], names.get(name)!];
    if (letters.length < 2) return [];
    if (functionOf(name) !== undefined) {
      return [{ kind: "function", message: `${name} is also a function; to apply it, write ${name}(x)`, offset }];
    }
    if (!letters.every((letter) => scope.wires.has(letter))) return [];
    return [{ kind: "product", message: `${name} is one name; for a product write ${letters.join("*")}`, offset }];
  });
}

/** Make an input of every name that is read before it is given, in the order of reading. */
function declareInputs({ scope, names }: Parser, all: readonly Token[][]): void {
  const given = new Set(Object.keys(CONSTANTS));
  for (const tokens of all) {
    const target = targetOf(tokens);
    for (const token of tokens) {
      if (token.kind !== "name" && token.kind !== "call") continue;
      if (!names.has(token.text)) names.set(token.text, token.offset);
      if (token.kind === "call" || token === target || given.has(token.text)) continue;
      given.add(token.text);
      checkName(token);
      scope.wires.set(token.text, addNode(scope, { op: "input", names: [token.text] }, true));
      scope.inputs.add(token.text);
    }
    if (target) given.add(target.text);
  }
}

function checkName({ text, offset }: Token): void {
  if ([...text].length <= LIMITS.name) return;
  fail(
    `${shown(text)} cannot be a name: wanted letters, digits and _ (not first a digit), parts joined by '.' or ` +
      `indexed like [0], at most ${LIMITS.name} characters`,
    offset,
  );
}

/** Call the nodes that were given no name t1, t2, ...; the result is the circuit's output and gets its own. */
function nameTemporaries({ scope, names }: Parser, root: number): void {
  let k = 1;
  for (const node of scope.applied) {
    if (node === root || scope.nodes[node]!.names.length) continue;
    while (names.has(`t${k}`)) k++;
    scope.nodes[node]!.names.push(`t${k++}`);
  }
}

function freeName(scope: Scope, wanted: string): string {
  const taken = new Set(scope.nodes.flatMap((node) => node.names));
  let name = wanted;
  for (let k = 1; taken.has(name); k++) name = `${wanted}_${k}`;
  return name;
}

function readStatement(scope: Scope, tokens: Token[]): number {
  const target = targetOf(tokens);
  if (target) checkTarget(scope, target);
  const operand = readExpression(scope, target ? tokens.slice(2) : tokens);
  if (!target) return operand.node;
  // `e = a` makes a node of its own, so that e can be looked at like any other name.
  const node = operand.bare ? apply(scope, "positive", [operand], operand.offset) : operand.node;
  scope.nodes[node]!.names.push(target.text);
  scope.wires.set(target.text, node);
  return node;
}

function checkTarget(scope: Scope, target: Token): void {
  const { text, offset } = target;
  checkName(target);
  if (isConstant(text)) fail(`${text} is a constant and cannot be given`, offset);
  if (scope.inputs.has(text)) {
    const advice = "move this statement up, or choose a new name";
    fail(`${text} is read before it is given here; ${advice}`, offset);
  }
  if (scope.wires.has(text)) fail(`${text} is given twice; every wire has one name of its own`, offset);
}

/** Line and column of each UTF-16 unit of a text, both from 1; columns count whole characters. */
function placesOf(text: string): Place[] {
  const found: Place[] = [];
  let [line, column] = [1, 1];
  for (const letter of text) {
    for (let unit = 0; unit < letter.length; unit++) found.push({ file: "formula", line, column });
    [line, column] = letter === "\n" ? [line + 1, 1] : [line, column + 1];
  }
  return found;
}
