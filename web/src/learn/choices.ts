/**
 * Questions with choices: order, routers, splitters, claims, a mistaken wire to spot, the birth of a NaN. The twin of
 * `src/wiregrad/learn/questions.py`, which says more.
 */
import { inWords } from "../engine";
import { collides } from "./answers";
import { mutantOf, numberFields, sweepWith } from "./mistakes";
import {
  givenValues,
  MAX_PROMPT,
  noQuestion,
  type ChoiceOption,
  type Question,
  type ShownGradient,
  type Target,
} from "./questions";
import { BREAKING_LEAVES, Draws, hasPlainSize, showNumber, type Leaves, type QuizCircuit, type QuizRun, type Wire } from "./quiz-run";
import { filled, mistakeWords, sentence, type Fields } from "./sentences";
import { CLAIMS, PROMPTS, TEXTS, TITLES, WORDS } from "./sentences.generated";

const MAX_CHOICES = 4;
const MAX_FIRED = 3;
const MAX_CHOICE_ATTEMPTS = 80;
const STRUCTURE_FORMS = ["structure.count", "structure.where", "structure.outputs"] as const;
const SPOT_MISTAKES = [
  "upstream-only",
  "own-not-other",
  "same-to-all",
  "forward-for-local",
  "activation-input",
  "sign",
  "twice",
] as const;

const word = (key: string, fields: Fields = {}): string => filled(sentence(WORDS, key), fields);

/** A question with choices while it is put together. */
class ChoiceDraft {
  readonly options: ChoiceOption[] = [];
  shown: ShownGradient[] = [];
  followUp: ChoiceDraft | null = null;
  leaves: Leaves = {};
  given: string[] = [];
  why: string;

  constructor(
    readonly kind: string,
    readonly form: string,
    readonly target: Target,
    readonly fields: Fields,
  ) {
    this.why = `why.${form}` in WORDS ? `why.${form}` : `why.${kind}`;
  }

  addRight(text: string, target: Target = [], detail = ""): void {
    this.options.push({ text, right: true, key: "", title: "", reply: "", detail, target });
  }

  /** Add a choice that shows a mistake; `reply` names its text if that is not the mistake's own. */
  addWrong(text: string, key: string, reply = "", fields: Fields = {}, target: Target = [], detail = ""): void {
    const named = { ...this.fields, ...fields };
    const own = reply
      ? { title: sentence(TITLES, key), text: filled(sentence(TEXTS, reply), named) }
      : mistakeWords(this.kind, key, named);
    this.options.push({ text, right: false, key, title: own.title, reply: own.text, detail, target });
  }

  /** The question; null if it is not clear. */
  finish(draws: Draws, seed: number, number: number, mix = true): Question | null {
    const options = mix ? draws.shuffle(this.options) : this.options;
    const right = options.find((option) => option.right);
    const wrong = options.find((option) => !option.right);
    const prompt = filled(sentence(PROMPTS, this.form), this.fields);
    const texts = new Set(options.map(({ text }) => text));
    if (texts.size < options.length || !right || !wrong || [...prompt].length > MAX_PROMPT) return null;
    const followUp = this.followUp?.finish(draws, seed, number) ?? null;
    if (this.followUp && !followUp) return null;
    const { kind, form, target, leaves, given, shown } = this;
    return {
      ...{ kind, form, seed, number, target, prompt, leaves, given, answer: null, accepted: [], options, mistakes: [] },
      neutral: word(`hint.${kind}`),
      hint: options.length < 3 ? word(`hint.${kind}`) : word("hint.choice", { choice: wrong.text }),
      step: word("step.choice", { choice: right.text }),
      why: word(this.why, this.fields),
      shown,
      followUp,
    };
  }
}

function draftOrder(run: QuizRun, draws: Draws): ChoiceDraft | null {
  const { owner } = run;
  const backward = draws.below(2) === 1;
  const nodes = owner.functions.filter((node) => !backward || owner.active[node]);
  const needs = new Map(nodes.map((node) => [node, needsOf(owner, node, backward)]));
  const fired: number[] = [];
  const count = nodes.length ? draws.below(Math.min(nodes.length - 1, MAX_FIRED) + 1) : 0;
  for (let k = 0; k < count; k++) fired.push(draws.choose(readyNodes(needs, fired)));
  const ready = readyNodes(needs, fired);
  const waiting = nodes.filter((node) => !fired.includes(node) && !ready.includes(node));
  if (!ready.length || !waiting.length) return null;
  const names = fired.length ? inWords(fired.map((node) => owner.title(node))) : "";
  const state = word(["nothing-fired", "one-fired"][fired.length] ?? "many-fired", { nodes: names });
  const draft = new ChoiceDraft("order", `order.${backward ? "backward" : "forward"}`, fired, { state });
  const shown = draws.shuffle(ready).slice(0, 2);
  for (const node of shown) draft.addRight(owner.title(node), [node]);
  for (const node of draws.shuffle(waiting).slice(0, MAX_CHOICES - shown.length)) {
    draft.addWrong(owner.title(node), hasteOf(needs.get(node)!, fired, backward), "", { node: owner.title(node) }, [node]);
  }
  return draft;
}

/** The nodes that have to fire before a node. */
function needsOf(owner: QuizCircuit, node: number, backward: boolean): number[] {
  if (backward) return owner.readers[node]!.map(([reader]) => reader);
  return owner.sources[node]!.filter((source) => owner.sources[source]!.length);
}

function readyNodes(needs: ReadonlyMap<number, number[]>, fired: readonly number[]): number[] {
  const open = [...needs].filter(([node, wanted]) => !fired.includes(node) && wanted.every((k) => fired.includes(k)));
  return open.map(([node]) => node);
}

function hasteOf(needs: readonly number[], fired: readonly number[], backward: boolean): string {
  if (!backward) return "not-ready";
  return needs.some((node) => fired.includes(node)) ? "recursing" : "not-reached";
}

function draftRouter(run: QuizRun, draws: Draws): ChoiceDraft | null {
  const { owner } = run;
  const routers = owner.functions.filter((node) => owner.has(node, "route") && owner.active[node]);
  if (!routers.length) return null;
  const node = draws.choose(routers);
  const wires = owner.wires.filter(([reader]) => reader === node);
  const fields = { node: owner.title(node), source: owner.title(owner.sourceOf(wires[0]!)) };
  if (wires.length === 1) return draftGate(run, wires[0]!, fields);
  const draft = new ChoiceDraft("router", "router", [node], fields);
  const blocked = wires.filter((wire) => run.local(wire) === null);
  for (const wire of wires) {
    const title = owner.title(owner.sourceOf(wire));
    if (blocked.includes(wire)) draft.addRight(title, wire);
    else draft.addWrong(title, "router-none", blocked.length ? "router-loser" : "router-none", {}, wire);
  }
  if (blocked.length) draft.addWrong(word("choice.none"), "router-both");
  else draft.addRight(word("choice.none"));
  if (blocked.length < wires.length) draft.addWrong(word("choice.all"), "router-none");
  return draft;
}

/** Ask what the only input of a node such as relu receives. */
function draftGate(run: QuizRun, wire: Wire, fields: Fields): ChoiceDraft | null {
  const local = run.local(wire);
  if (local !== null && local !== 1) return null;
  const draft = new ChoiceDraft("router", "router.one", wire, fields);
  const choices = [["nothing", local === null], ["everything", local !== null], ["half", false]] as const;
  for (const [choice, isRight] of choices) {
    if (isRight) draft.addRight(word(`choice.${choice}`));
    else draft.addWrong(word(`choice.${choice}`), local === null ? "router-both" : "router-none");
  }
  return draft;
}

function draftStructure(run: QuizRun, draws: Draws, turn: number): ChoiceDraft | null {
  const { owner } = run;
  const form = STRUCTURE_FORMS[turn % STRUCTURE_FORMS.length]!;
  const shown = owner.nodes.filter((node) => owner.active[node] || owner.sources[node]!.length);
  const forks = shown.filter((node) => owner.fan[node]! > 1);
  if (form === "structure.where") return draftWhere(owner, forks, shown.filter((node) => owner.fan[node] === 1), draws);
  const nodes = form === "structure.count" ? forks : owner.functions.filter((node) => node !== owner.root);
  if (!nodes.length) return null;
  const node = draws.choose(nodes);
  const count = owner.fan[node]!;
  const draft = new ChoiceDraft("structure", form, [node], { node: owner.title(node), count: String(count) });
  if (form === "structure.count") {
    draft.addRight(String(count - 1));
    draft.addWrong(String(count), "splitter-per-reader");
    draft.addWrong("0", "no-splitter");
    return draft;
  }
  draft.addRight("1");
  const others = [...new Set([count, owner.sources[node]!.length, 2])].filter((wires) => wires > 1);
  for (const wires of others.sort((one, two) => one - two)) draft.addWrong(String(wires), "vector-output");
  return draft;
}

function draftWhere(owner: QuizCircuit, forks: number[], others: number[], draws: Draws): ChoiceDraft | null {
  if (!forks.length || !others.length) return null;
  const draft = new ChoiceDraft("structure", "structure.where", [], {});
  for (const node of draws.shuffle(forks).slice(0, 1)) draft.addRight(owner.title(node), [node]);
  for (const node of draws.shuffle(others).slice(0, MAX_CHOICES - 1)) {
    draft.addWrong(owner.title(node), "splitter-without-need", "", { node: owner.title(node) }, [node]);
  }
  return draft;
}

/** A claim: its sentence, whether it holds, the mistake of who gets it wrong, the place, and the fields. */
type Claim = readonly [string, boolean, string, Target, Fields];

function draftClaim(run: QuizRun, draws: Draws): ChoiceDraft | null {
  const claims = [...run.owner.nodes.flatMap((node) => nodeClaims(run, node)), ...leafClaims(run)];
  if (!claims.length) return null;
  const name = draws.choose([...new Set(claims.map((claim) => claim[0]))]);
  const [, holds, key, target, fields] = draws.choose(claims.filter((claim) => claim[0] === name));
  const draft = new ChoiceDraft("claim", "claim", target, { ...fields, claim: filled(sentence(CLAIMS, name), fields) });
  draft.why = `why.claim.${name}`;
  const hasText = `claim.${key}` in TEXTS || key === "vector-output" || key === "graph-vs-circuit";
  for (const [choice, isRight] of [["choice.true", holds], ["choice.false", !holds]] as const) {
    if (isRight) draft.addRight(word(choice));
    else draft.addWrong(word(choice), hasText ? key : holds ? "claim-true" : "claim-false");
  }
  return draft;
}

function nodeClaims(run: QuizRun, node: number): Claim[] {
  const { owner } = run;
  const count = owner.readers[node]!.length;
  const fields = { node: owner.title(node), count: String(count) };
  const claims: Claim[] = [];
  if (count > 1) {
    claims.push(["sum", true, "branch-last", [node], fields], ["last", false, "branch-last", [node], fields]);
    if (owner.sources[node]!.length) {
      claims.push(["early", false, "recursing", [node], fields], ["wait", true, "recursing", [node], fields]);
      claims.push(["many-outputs", false, "vector-output", [node], fields]);
      claims.push(["one-output", true, "vector-output", [node], fields]);
    }
  }
  return [...claims, ...pairClaims(run, node, fields)];
}

function pairClaims(run: QuizRun, node: number, fields: Fields): Claim[] {
  const { owner } = run;
  const wires = owner.sources[node]!.flatMap((source, slot) => (owner.active[source] ? [[node, slot] as const] : []));
  if (wires.length !== 2 || owner.sourceOf(wires[0]!) === owner.sourceOf(wires[1]!)) return [];
  const [one, two] = wires.map((wire) => run.sent(wire));
  const claims: Claim[] = [];
  // Numbers that are nearly the same would make neither answer right.
  if (one !== null && two !== null && (isClose(one!, two!) || !collides(one!, two!))) {
    claims.push(["same", isClose(one!, two!), "same-to-all", [node], { ...fields, one: showNumber(one!), two: showNumber(two!) }]);
  }
  if (owner.has(node, "swap")) {
    claims.push(["swap", true, "own-not-other", [node], fields], ["own", false, "own-not-other", [node], fields]);
  }
  return claims;
}

function leafClaims(run: QuizRun): Claim[] {
  const { owner } = run;
  return owner.leaves.flatMap((node): Claim[] => {
    const fields = { source: owner.title(node), output: owner.title(owner.root) };
    const gradient = run.upstream(node);
    const claims: Claim[] = [];
    if (Math.abs(gradient) > 1e-3) {
      const moved = { ...fields, gradient: showNumber(gradient), moves: word(gradient > 0 ? "moves.rises" : "moves.falls") };
      claims.push(["rises", gradient > 0, "sign", [node], moved], ["falls", gradient < 0, "sign", [node], moved]);
      claims.push(["clear", true, "twice", [node], fields]);
    }
    return [...claims, ["curve", false, "graph-vs-circuit", [node], fields]];
  });
}

function draftSpot(run: QuizRun, draws: Draws): ChoiceDraft | null {
  const { owner } = run;
  const inner = owner.wires.filter((wire) => owner.sources[owner.sourceOf(wire)]!.length);
  const wire = draws.choose(inner.length ? inner : owner.wires);
  const mutants = spotMutants(run, wire);
  const size = Math.abs(run.sent(wire) ?? 0);
  if (!mutants.size || !size || !hasPlainSize(size)) return null;
  const key = draws.choose([...mutants.keys()]);
  const slopeOf = (each: Wire): number | null => (isSame(each, wire) ? mutants.get(key)! : run.local(each));
  const grads = sweepWith(run, slopeOf);
  const sent = owner.wires.flatMap((each): [Wire, number][] => {
    const [gradient, slope] = [grads.get(each[0]), slopeOf(each)];
    return gradient === undefined || slope === null ? [] : [[each, gradient * slope]];
  });
  if (sent.some(([, number]) => !hasPlainSize(number))) return null;
  const draft = new ChoiceDraft("spot", "spot", wire, {});
  draft.shown = sent.map(([each, number]) => ({ target: each, label: wireLabel(run, each), number }));
  draft.addRight(wireText(run, wire, sent.find(([each]) => isSame(each, wire))![1]), wire);
  const others = sent.filter(([each]) => !isSame(each, wire));
  const inherited = others.filter(([[node]]) => !isClose(grads.get(node)!, run.upstream(node)));
  const honest = others.filter((each) => !inherited.includes(each));
  const shown = [...draws.shuffle(inherited).slice(0, 2), ...draws.shuffle(honest)].slice(0, MAX_CHOICES - 1);
  for (const each of shown) addHonestWire(draft, run, each, grads.get(each[0][0])!, inherited.includes(each));
  draft.followUp = draftNaming(run, wire, key, [...mutants.keys()]);
  return draft;
}

const isSame = (one: Wire, two: Wire): boolean => one[0] === two[0] && one[1] === two[1];
const isClose = (one: number, two: number): boolean => Math.abs(one - two) <= 1e-9 * Math.max(Math.abs(one), Math.abs(two));

/** The mistaken factors of a wire that can be told from the right one and from each other. */
function spotMutants(run: QuizRun, wire: Wire): Map<string, number> {
  const [right, upstream] = [run.local(wire), run.upstream(wire[0])];
  const found = new Map<string, number>();
  if (right === null || !upstream) return found;
  for (const key of SPOT_MISTAKES) {
    const factor = key === "sign" ? -right : key === "twice" ? 2 * right : mutantOf(run, key, wire);
    const rivals = [right, ...found.values()].map((other) => upstream * other);
    if (!factor || !Number.isFinite(factor)) continue;
    if (!rivals.some((rival) => collides(upstream * factor, rival))) found.set(key, factor);
  }
  return found;
}

function wireLabel(run: QuizRun, wire: Wire): string {
  return word("label.wire", { node: run.readerOf(wire), source: run.owner.title(run.owner.sourceOf(wire)) });
}

function wireNames(run: QuizRun, wire: Wire): Record<string, string> {
  return { reader: run.readerOf(wire), source: run.owner.title(run.owner.sourceOf(wire)) };
}

function wireText(run: QuizRun, wire: Wire, sent: number): string {
  return word("choice.wire", { ...wireNames(run, wire), sent: showNumber(sent) });
}

function addHonestWire(
  draft: ChoiceDraft,
  run: QuizRun,
  [wire, sent]: readonly [Wire, number],
  upstream: number,
  inherits: boolean,
): void {
  const fields = { ...wireNames(run, wire), ...numberFields({ sent, upstream, local: run.local(wire) ?? 0 }) };
  const reply = inherits ? "spot.inherits" : "spot.right-rule";
  draft.addWrong(wireText(run, wire, sent), inherits ? "inherits" : "neutral", reply, fields, wire);
}

/** The draft of the question that follows: which mistake it was. */
function draftNaming(run: QuizRun, wire: Wire, key: string, mutants: readonly string[]): ChoiceDraft {
  const fields = { node: run.owner.title(wire[0]), source: run.owner.title(run.owner.sourceOf(wire)) };
  const draft = new ChoiceDraft("spot", "spot.name", wire, fields);
  draft.leaves = run.leaves;
  draft.given = givenValues(run, run.owner.nodes);
  draft.addRight(word(`spot.${key}`), [], word(`spot.${key}.detail`));
  for (const other of mutants.filter((name) => name !== key).slice(0, MAX_CHOICES - 1)) {
    draft.addWrong(word(`spot.${other}`), "neutral", "spot.name", {}, [], word(`spot.${other}.detail`));
  }
  return draft;
}

function draftDebug(run: QuizRun, draws: Draws): ChoiceDraft | null {
  const { owner } = run;
  const isLost = (node: number): boolean => !Number.isFinite(run.value(node));
  const lost = owner.functions.filter((node) => !owner.isCondition(node) && isLost(node));
  const births = lost.filter((node) => !owner.sources[node]!.some(isLost));
  if (births.length !== 1 || lost.length < 2 || !lost.includes(owner.root)) return null;
  const birth = births[0]!;
  const draft = new ChoiceDraft("debug", "debug", [birth], { output: owner.title(owner.root) });
  draft.addRight(owner.title(birth), [birth]);
  const heirs = draws.shuffle(lost.filter((node) => node !== birth)).slice(0, 2);
  const finite = draws.shuffle(owner.functions.filter((node) => !lost.includes(node)));
  for (const node of [...heirs, ...finite].slice(0, MAX_CHOICES - 1)) {
    const key = heirs.includes(node) ? "inherits" : "finite";
    draft.addWrong(owner.title(node), key, "", { node: owner.title(node) }, [node]);
  }
  return draft;
}

/** The kinds with choices; the last argument counts questions, for kinds whose forms take turns. */
export const DRAFTERS: Readonly<Record<string, (run: QuizRun, draws: Draws, turn: number) => ChoiceDraft | null>> = {
  order: draftOrder,
  router: draftRouter,
  structure: draftStructure,
  claim: draftClaim,
  spot: draftSpot,
  debug: draftDebug,
};

function breakingLeaves(owner: QuizCircuit, draws: Draws, fixed: Readonly<Leaves>): Leaves {
  const leaves: Leaves = {};
  for (const name of owner.inputs) {
    const value = draws.below(2) ? draws.choose(BREAKING_LEAVES) : (1 + draws.below(30)) / 10;
    leaves[name] = fixed[name] ?? value;
  }
  return leaves;
}

/** Draw until a question with choices is clear. */
export function drawChoiceQuestion(
  owner: QuizCircuit,
  kind: string,
  seed: number,
  number: number,
  fixed: Readonly<Leaves>,
  code: number,
): Question {
  const draws = new Draws(seed, code, number);
  const hasRouter = owner.functions.some((node) => owner.has(node, "route"));
  const attempts = owner.wires.length && (kind !== "router" || hasRouter) ? MAX_CHOICE_ATTEMPTS : 0;
  for (let attempt = 0; attempt < attempts; attempt++) {
    const isHunt = kind === "debug";
    const run = owner.run(isHunt ? breakingLeaves(owner, draws, fixed) : owner.drawLeaves(draws, attempt, fixed));
    const draft = isHunt || run.isFit(attempt) ? DRAFTERS[kind]!(run, draws, seed + number + attempt) : null;
    if (!draft) continue;
    draft.leaves = run.leaves;
    draft.given = kind === "order" || kind === "structure" ? [] : givenValues(run, owner.nodes);
    const question = draft.finish(draws, seed, number, kind !== "claim");
    if (question) return question;
  }
  throw noQuestion(owner, kind);
}
