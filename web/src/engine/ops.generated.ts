// Written by tools/write_page_ops.py from the op table; `make derive` writes it again.

/** Where an op has no single slope: `on` says whether inputs are exactly there; a jump is a step of the value. */
export interface Kink {
  doc: string;
  jump: boolean;
  on: (...inputs: never[]) => boolean;
}

/** The local derivative for one input, from the inputs and the output; null is absent. */
export type Local = (...operands: never[]) => number | null;

/** What the op table says of one op that works on numbers. */
export interface OpRecord {
  name: string;
  inputs: readonly string[];
  /** Values of the last inputs when they are left out. */
  defaults: readonly number[];
  aliases: readonly string[];
  /** Spellings between two operands, the usual one first; `level` says how tightly they bind. */
  infix: readonly string[];
  level: number;
  /** Spelling before one operand. */
  prefix: string;
  pattern: keyof typeof PATTERNS;
  /** Per input, whether it is a condition; empty if none is. */
  takesBool: readonly boolean[];
  /**
   * What comes out, by which inputs are conditions (input 0 is the highest bit): f a number, b a condition,
   * - the op cannot take them, ! it cannot and `HINT` says what to do.
   */
  gives: string;
  kinks: readonly Kink[];
  forward: (...inputs: never[]) => number | boolean;
  /** The rules for local derivatives, first those of the inputs in order; null is always absent. */
  rules: readonly (Local | null)[];
  /** By kink mode, which rule each input has; a mode that is not here has the rules of mode 0, which are the first. */
  modes: Readonly<Record<number, readonly number[]>>;
}

/** What most ops have in common, so that it is said once. */
interface More extends Omit<OpRecord, "name" | "forward" | "rules" | "inputs" | "gives" | "modes"> {
  /** By kink mode, the kinks on which each input gets nothing. */
  blocked: Readonly<Record<number, readonly (readonly number[])[]>>;
}
const USUAL: More = {
  defaults: [], aliases: [], infix: [], level: 1, prefix: "", pattern: "scale", takesBool: [], kinks: [], blocked: {},
};

/** Put a record together; `more` is what the op has that most have not. */
function op(
  name: string,
  forward: OpRecord["forward"],
  locals: OpRecord["rules"],
  inputs = "x",
  gives = "f!",
  more: Partial<More> = {},
): OpRecord {
  const { blocked, ...rest } = { ...USUAL, ...more };
  const rules = [...locals];
  const modes: Record<number, readonly number[]> = { 0: locals.map((_, slot) => slot) };
  for (const mode in blocked) {
    const own = blocked[mode]!.map((on, slot) => off(locals[slot]!, on.map((kink) => rest.kinks[kink]!)));
    modes[mode] = own.map((rule) => rules.push(rule) - 1);
  }
  return { ...rest, name, forward, rules, modes, inputs: inputs.split(" "), gives };
}

/** A rule that is absent on some kinks. */
function off(rule: Local | null, kinks: readonly Kink[]): Local | null {
  return rule && ((...operands) => (kinks.some((kink) => kink.on(...operands)) ? null : rule(...operands)));
}

/** How ops pass the upstream gradient on. */
export const PATTERNS = { distribute: "sends the upstream gradient unchanged (up to sign) to every input", swap: "multiplies the upstream gradient by the other inputs", scale: "scales the upstream gradient by its own slope", route: "sends the upstream gradient (up to a factor) to the inputs it selected, nothing to the others", merge: "adds the gradients that come back from its readers", block: "sends nothing back: its output moves in steps", source: "has no inputs: gradients end here" };
/** How tightly operators bind. */
export const LEVELS = { comparison: 0, sum: 1, product: 2, sign: 3, power: 4 };
/** Names that stand for a number in a formula. */
export const CONSTANTS: Readonly<Record<string, number>> = { pi: 3.141592653589793, π: 3.141592653589793 };
/** Other spellings in formulas: of signs, of functions, of functions that are a sign before an operand. */
export const SPELLINGS: Readonly<Record<"signs" | "functions" | "prefixes", Readonly<Record<string, string>>>> = {
  signs: {"·": "*", "⋅": "*", "∙": "*", "×": "*", "∗": "*", "÷": "/", "∕": "/", "−": "-", "–": "-", "‐": "-", "‑": "-", "≤": "<=", "≥": ">=", "≠": "!="},
  functions: {"max": "maximum", "min": "minimum", "σ": "sigmoid"},
  prefixes: {"√": "sqrt", "∛": "cbrt"},
};
/** What to write instead: of words, of characters, of calls with too many arguments. */
export const ADVICE: Readonly<Record<"words" | "characters" | "arguments", Readonly<Record<string, string>>>> = {
  words: {"if": "where(x > 0, a, b)", "else": "where(x > 0, a, b)", "and": "logical_and(a, b)", "or": "logical_or(a, b)", "not": "logical_not(a)", "lambda": "wg.trace(f) in Python", "def": "wg.trace(f) in Python", "for": "wg.trace(f) in Python", "sum": "a + b", "mean": "(a + b)/2", "dot": "a1*b1 + a2*b2", "norm": "sqrt(a^2 + b^2)", "softmax": "exp(a)/(exp(a) + exp(b))", "sec": "1/cos(x)", "cosec": "1/sin(x)", "csc": "1/sin(x)", "cot": "1/tan(x)", "ctg": "1/tan(x)", "tg": "tan(x)", "tangent": "tan(x)", "sen": "sin(x)", "root": "x^(1/n)", "sigma": "sigmoid(x)", "lg": "log10(x) or log2(x)", "sqr": "x^2", "factorial": "gamma(n + 1)", "logistic": "sigmoid(x)", "swish": "silu(x)", "step": "heaviside(x, 0.5)", "clamp": "clip(x, 0, 1)", "int": "trunc(x)"},
  characters: {"!": "n! is gamma(n + 1)", "[": "group with ( ); name elements x0, x1", "]": "group with ( ); name elements x0, x1", "{": "group with ( )", "}": "group with ( )", "—": "write - for minus", "―": "write - for minus", "$": "it is not LaTeX: write a/b, sqrt(x), x^2", "\\": "it is not LaTeX: write a/b, sqrt(x), x^2", "∑": "write a + b", "∜": "write x^(1/4)", "‖": "write sqrt(a^2 + b^2)", "⌊": "write floor(x)", "⌋": "write floor(x)", "⌈": "write ceil(x)", "⌉": "write ceil(x)", "∂": "write the function alone", ":": "to name a value write y = ...; trace Python with wg.trace; on the command line, write FILE.py:FUNCTION", "?": "write where(x > 0, a, b)", "#": "it has no comments", "@": "write a1*b1 + a2*b2", "&": "write logical_and(a, b)", "'": "names have no quotes", "\"": "names have no quotes", "‘": "names have no quotes", "’": "names have no quotes", "“": "names have no quotes", "”": "names have no quotes"},
  arguments: {"maximum": "max(max(a, b), c)", "minimum": "min(min(a, b), c)", "hypot": "hypot(hypot(a, b), c)", "log": "log(x)/log(b) for base b", "sqrt": "x^(1/n) for the n-th root", "round": "round(100*x)/100 for two decimals"},
};
/** Letters that look like an exponent. */
export const RAISED_LETTERS = "ʰʲʳʷʸˡˢˣᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁᵂᵃᵇᵈᵉᵍᵏᵐᵒᵖᵗᵘᵛᵝᵞᵟᵠᵡᶜᶠᶻᶿⁱⁿⱽ";
/** The largest formula, the deepest parentheses, the longest name, the fewest letters that are compared. */
export const LIMITS = { characters: 10000, depth: 100, name: 200, compared: 3 };
/** What to do where an op cannot take a condition. */
export const HINT = "; make the condition a number first: (a > b) * 1";

/** The smaller of two wires; NaN if one is NaN; half the gradient each on a tie. */
function minimum(a: number, b: number): number {
  return a < b || a !== a ? a : b;
}

/** The wire between two bounds, else the bound; on a literal bound the slope is 0. */
function clip(x: number, low: number, high: number): number {
  return x > low || x !== x ? minimum(x, high) : minimum(low, high);
}

/** The magnitude of x with the sign of y. */
function copysign(x: number, y: number): number {
  return y < 0 || Object.is(y, -0) ? -Math.abs(x) : Math.abs(x);
}

/** -x log(x), the entropy of a probability; 0 at 0. */
function entr(x: number): number {
  return x > 0.0 ? -x * Math.log(x) : x === 0.0 ? 0.0 : x < 0.0 ? -Infinity : x;
}

/** The error function. */
function erf(x: number): number {
  if (!(Math.abs(x) < 1)) return x < 0 ? erfc(-x) - 1 : 1 - erfc(x);
  const z = x * x;
  const more = [
    5.957176147748911e-11, -1.1372848856791674e-09, 1.4659775274047436e-08, -1.6350312701054695e-07,
    1.6461000484121368e-06, -1.4925595266831182e-05, 0.0001205533111164271, -0.000854832698083379,
    0.0052239776248180145, -0.026866170645076792, 0.11283791670954879, -0.3761263890318375,
    0.1283791670955126
  ].reduce((sum, c) => sum * z + c);
  return x + x * more;
}

/** The complement of the error function, 1 - erf(x), to full relative accuracy. */
function erfc(x: number): number {
  if (x < 0.5) return 1 - erf(x);
  if (x > 28) return 0;
  // (1 + 2 * x) * exp(x * x) * erfc(x) is 1 + more.
  const t = (x - 3) / (x + 3);
  const more = [
    -4.325370719107278e-09, -1.0659628807393203e-08, 3.42329907978226e-08, 9.877438074940672e-08,
    -1.3432312409451292e-07, -6.146346341425417e-07, 3.52693258412998e-07, 3.471616676593574e-06,
    -7.300550882569987e-07, -2.0100376113106087e-05, 4.9491714476033325e-06, 0.00012509932758636072,
    -0.00010515976008945177, -0.0007798322714918795, 0.0018886903564002055, 0.002529391816335117,
    -0.02377051491853638, 0.06830802734394434, -0.11927366341531179, 0.12964515870276203,
    -0.0475622943534507, -0.1356211061245812, 0.25300805826972966
  ].reduce((sum, c) => sum * t + c);
  // 1 + 2 * near and near * near are exact; what they leave of x is made good by two small factors, 1 + a and 1 - b.
  const near = Math.fround(x);
  const a = Math.expm1(-(x - near) * (x + near));
  const b = (2 * (x - near)) / (1 + 2 * x);
  const lead = Math.exp(-near * near) / (1 + 2 * near);
  return lead + lead * (more + (1 + more) * (a - b - a * b));
}

/** 2 to the power x. */
function exp2(x: number): number {
  return Math.pow(2, x);
}

/** The remainder of x / y, with the sign of x. */
function fmod(x: number, y: number): number {
  return x % y;
}

/** Remainder of a / b, with the sign of b. */
function mod(a: number, b: number): number {
  return fmod(a, b) === 0.0 ? copysign(0.0, b) : (fmod(a, b) < 0.0) !== (b < 0.0) ? fmod(a, b) + b : fmod(a, b);
}

/** x rounded to the nearest integer, ties to even. */
function rint(x: number): number {
  const size = Math.abs(x);
  // Near 2 ** 52 doubles are whole numbers, so the sum is rounded to one.
  return size < 2 ** 52 ? copysign(size + 2 ** 52 - 2 ** 52, x) : x;
}

/** Largest whole number not above a / b. */
function floor_divide(a: number, b: number): number {
  return b === 0.0 ? a / b : copysign(rint((a - fmod(a, b)) / b - (mod(a, b) !== fmod(a, b) ? 1.0 : 0.0)), a / b);
}

/** The larger of two wires; NaN only if both are NaN. */
function fmax(a: number, b: number): number {
  return a >= b || b !== b ? a : b;
}

/** The smaller of two wires; NaN only if both are NaN. */
function fmin(a: number, b: number): number {
  return a <= b || b !== b ? a : b;
}

/** x times the normal distribution's cumulative probability of x. */
function gelu(x: number): number {
  return 0.5 * x * erfc(-x * 0.7071067811865476);
}

/** 0 for a < 0, 1 for a > 0, b at a = 0. */
function heaviside(a: number, b: number): number {
  return a > 0.0 ? 1.0 : a < 0.0 ? 0.0 : a === 0.0 ? b : a;
}

/** The wire where it is positive, else the wire times a slope (0.01 if left out). */
function leaky_relu(x: number, slope: number): number {
  return x > 0.0 ? x : slope * x;
}

/** log(exp(a) + exp(b)) without overflow. */
function logaddexp(a: number, b: number): number {
  return a === b ? a + 0.6931471805599453 : a > b ? a + Math.log1p(Math.exp(b - a)) : b + Math.log1p(Math.exp(a - b));
}

/** log2(2**a + 2**b) without overflow. */
function logaddexp2(a: number, b: number): number {
  return a === b ? a + 1.0 : a > b ? a + 1.4426950408889634 * Math.log1p(exp2(b - a)) : b + 1.4426950408889634 * Math.log1p(exp2(a - b));
}

/** Whether exactly one holds. */
function logical_xor(a: boolean, b: boolean): boolean {
  return (a || b) && !(a && b);
}

/** The larger of two wires; NaN if one is NaN; half the gradient each on a tie. */
function maximum(a: number, b: number): number {
  return a > b || a !== a ? a : b;
}

/** x to the power y, as in C: 1 to any power is 1, and so is -1 to an infinite one. */
function pow(x: number, y: number): number {
  if (x === 1 || (x === -1 && Math.abs(y) === Infinity)) return 1;
  const power = Math.pow(x, y);
  const t = Math.abs(x) - 1;
  if (!(Math.abs(t) < 2 ** -20 && Math.abs(y) > 2 ** 31 && Math.abs(y) < 2 ** 64)) return power;
  // Math.pow loses digits here. The logarithm is t + bend, and y * t is product + rest without rounding.
  const bend = t * t * (-1 / 2 + t * (1 / 3 + t * (-1 / 4 + t / 5)));
  const a = Math.fround(y);
  const b = Math.fround(t);
  const product = y * t;
  const rest = a * b - product + a * (t - b) + (y - a) * b + (y - a) * (t - b) + y * bend;
  const exponent = product + rest;
  const size = Math.exp(exponent);
  return Math.sign(power) * (size + (size < Infinity ? size * (product - exponent + rest) : 0));
}

/** First wire to the power of the second. */
function power(a: number, b: number): number {
  return b === 0.5 ? Math.sqrt(a) : pow(a, b);
}

/** a log(a / b), the relative entropy of two probabilities; 0 where a = 0. */
function rel_entr(a: number, b: number): number {
  return a > 0.0 && b > 0.0 ? a * (a / b > 0.5 && a / b < 2.0 ? Math.log1p((a - b) / b) : a / b > 2.2250738585072014e-308 && a / b < Infinity ? Math.log(a / b) : Math.log(a) - Math.log(b)) : a === 0.0 && b >= 0.0 ? 0.0 : a !== a || b !== b ? a + b : Infinity;
}

/** The wire between 0 and 6, else the bound; slope 0 on a bound. */
function relu6(x: number): number {
  return x <= 0.0 ? 0.0 : x >= 6.0 ? 6.0 : x;
}

/** 1 / (1 + exp(-x)) without overflow. */
function sigmoid(x: number): number {
  return x >= 0.0 ? 1.0 / (1.0 + Math.exp(-x)) : Math.exp(x) / (1.0 + Math.exp(x));
}

/** -1, 0 or 1. */
function sign(x: number): number {
  return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x === 0.0 ? 0.0 : x;
}

/** sin(pi x) / (pi x); 1 at 0. */
function sinc(x: number): number {
  return x === 0.0 ? 1.0 : Math.sin(3.141592653589793 * x) / (3.141592653589793 * x);
}

/** log(1 + exp(x)) without overflow. */
function softplus(x: number): number {
  return (x > 0.0 ? x : 0.0) + Math.log1p(Math.exp(-Math.abs(x)));
}

/** a log(1 + b), and 0 where a = 0. */
function xlog1py(a: number, b: number): number {
  return a === 0.0 && b === b ? 0.0 : a * Math.log1p(b);
}

/** a log(b), and 0 where a = 0. */
function xlogy(a: number, b: number): number {
  return a === 0.0 && b === b ? 0.0 : a * Math.log(b);
}

/** What several ops have. */
const KINK0: Kink = { doc: "x = 0", jump: false, on: (x: number) => x === 0.0 };
const KINK1: Kink = { doc: "a = b = 0", jump: false, on: (a: number, b: number) => Math.hypot(a, b) === 0.0 };
const KINK2: Kink = { doc: "a = b", jump: false, on: (a: number, b: number) => a === b };
const KINK3: Kink = { doc: "where the value jumps", jump: true, on: (x: number) => x - rint(x) === 0.0 };
const KINK4: Kink = { doc: "a = b", jump: true, on: (a: number, b: number) => (a === b ? 0.0 : 0.0 + a - b) === 0.0 };
const KINK5: Kink = { doc: "a / b whole", jump: true, on: (a: number, b: number) => { const part0 = a / b; return part0 - rint(part0) === 0.0; } };
const RULE0: Local = () => 1.0;
const RULE1: Local = () => -1.0;
const RULE2: Local = (a: number, b: number, y: number) => !(a < b) ? (a === b ? 0.5 : y !== y ? NaN : 1.0) : null;
const RULE3: Local = (a: number, b: number, y: number) => !(b < a) ? (a === b ? 0.5 : y !== y ? NaN : 1.0) : null;
const RULE4: Local = (_x: number, y: number) => y !== y ? NaN : null;
const RULE5: Local = (_a: number, _b: number, y: number) => y !== y ? NaN : null;
const BLOCKED0: More["blocked"] = { 4: [[0], [0]], 8: [[0], [0]], 12: [[0], [0]] };

/** The ops that work on numbers, in the order of the op table. */
export const OPS: readonly OpRecord[] = [
  op("split", (x: number) => x, [
    RULE0,
  ], "x", "fb", { pattern: "merge" }),
  op("positive", (x: number) => x, [
    RULE0,
  ], "x", "f-", { prefix: "+", pattern: "distribute" }),
  op("negative", (x: number) => -x, [
    RULE1,
  ], "x", "f-", { prefix: "-", pattern: "distribute" }),
  op("add", (a: number, b: number) => a + b, [
    RULE0,
    RULE0,
  ], "a b", "fffb", { infix: ["+"], pattern: "distribute" }),
  op("subtract", (a: number, b: number) => a - b, [
    RULE0,
    RULE1,
  ], "a b", "fff-", { infix: ["-"], pattern: "distribute" }),
  op("multiply", (a: number, b: number) => a * b, [
    (_a: number, b: number) => b,
    (a: number) => a,
  ], "a b", "fffb", { infix: ["*"], level: 2, pattern: "swap" }),
  op("divide", (a: number, b: number) => a / b, [
    (_a: number, b: number) => 1.0 / b,
    (_a: number, b: number, y: number) => -(y / b),
  ], "a b", "f!!!", { infix: ["/"], level: 2 }),
  op("power", power, [
    (a: number, b: number, y: number) => y !== y ? NaN : b === 0.0 ? b / (a === 0.0 ? 1.0 : a) * y : b * power(a, b - 1.0),
    (a: number, b: number, y: number) => a === 0.0 ? (b < 0.0 ? -Math.abs(y) : y !== y ? NaN : 0.0) : y * Math.log(a),
  ], "a b", "f!!!", { aliases: ["pow"], infix: ["**", "^"], level: 4 }),
  op("square", (x: number) => x * x, [
    (x: number) => 2.0 * x,
  ]),
  op("reciprocal", (x: number) => 1.0 / x, [
    (_x: number, y: number) => -(y * y),
  ]),
  op("sqrt", Math.sqrt, [
    (_x: number, y: number) => 0.5 / (y + 0.0),
  ]),
  op("cbrt", Math.cbrt, [
    (_x: number, y: number) => 1.0 / (3.0 * (y * y)),
  ]),
  op("absolute", Math.abs, [
    (x: number) => sign(x),
  ], "x", "fb", { aliases: ["abs"], kinks: [KINK0] }),
  op("hypot", Math.hypot, [
    (a: number, _b: number, y: number) => y !== 0.0 ? a / y : null,
    (_a: number, b: number, y: number) => y !== 0.0 ? b / y : null,
  ], "a b", "f!!!", { kinks: [KINK1] }),
  op("exp", Math.exp, [
    (_x: number, y: number) => y,
  ]),
  op("exp2", exp2, [
    (_x: number, y: number) => y * 0.6931471805599453,
  ]),
  op("expm1", Math.expm1, [
    (x: number) => Math.exp(x),
  ]),
  op("log", Math.log, [
    (x: number) => x < 0.0 ? NaN : 1.0 / (x + 0.0),
  ], "x", "f!", { aliases: ["ln"] }),
  op("log2", Math.log2, [
    (x: number) => x < 0.0 ? NaN : 1.0 / (x * 0.6931471805599453 + 0.0),
  ]),
  op("log10", Math.log10, [
    (x: number) => x < 0.0 ? NaN : 1.0 / (x * 2.302585092994046 + 0.0),
  ]),
  op("log1p", Math.log1p, [
    (x: number) => x < (-1.0) ? NaN : 1.0 / (1.0 + x),
  ]),
  op("sin", Math.sin, [
    (x: number) => Math.cos(x),
  ]),
  op("cos", Math.cos, [
    (x: number) => -Math.sin(x),
  ]),
  op("tan", Math.tan, [
    (_x: number, y: number) => 1.0 + y * y,
  ]),
  op("sinc", sinc, [
    (x: number, y: number) => { const part0 = 3.141592653589793 * x; const part1 = part0 * part0; return Math.abs(x) < 0.5 ? 3.141592653589793 * part0 * (((((((((((0.0 * part0 * part1 + (-8.509974375387503e-22)) * part1 + 3.9145882126782523e-19) * part1 + (-1.4797143443923793e-16)) * part1 + 4.498331606952833e-14) * part1 + (-1.0706029224547743e-11)) * part1 + 1.9270852604185937e-09) * part1 + (-2.505210838544172e-07)) * part1 + 2.2045855379188714e-05) * part1 + (-0.0011904761904761906)) * part1 + 0.03333333333333333) * part1 + (-0.3333333333333333)) : (Math.cos(part0) - y) / (x === 0.0 ? 1.0 : x); },
  ]),
  op("arcsin", Math.asin, [
    (x: number) => 1.0 / Math.sqrt((1.0 - x) * (1.0 + x)),
  ], "x", "f!", { aliases: ["asin"] }),
  op("arccos", Math.acos, [
    (x: number) => -1.0 / Math.sqrt((1.0 - x) * (1.0 + x)),
  ], "x", "f!", { aliases: ["acos"] }),
  op("arctan", Math.atan, [
    (x: number) => 1.0 / (1.0 + x * x),
  ], "x", "f!", { aliases: ["atan"] }),
  op("sinh", Math.sinh, [
    (x: number) => Math.cosh(x),
  ]),
  op("cosh", Math.cosh, [
    (x: number) => Math.sinh(x),
  ]),
  op("tanh", Math.tanh, [
    (_x: number, y: number) => 1.0 - y * y,
  ]),
  op("arcsinh", Math.asinh, [
    (x: number) => 1.0 / Math.hypot(1.0, x),
  ], "x", "f!", { aliases: ["asinh"] }),
  op("arccosh", Math.acosh, [
    (x: number) => 1.0 / (Math.sqrt(x - 1.0) * Math.sqrt(x + 1.0)),
  ], "x", "f!", { aliases: ["acosh"] }),
  op("arctanh", Math.atanh, [
    (x: number) => Math.abs(x) > 1.0 ? NaN : 1.0 / ((1.0 - x) * (1.0 + x)),
  ], "x", "f!", { aliases: ["atanh"] }),
  op("erf", erf, [
    (x: number) => 1.1283791670955126 * Math.exp(-(x * x)),
  ]),
  op("erfc", erfc, [
    (x: number) => -1.1283791670955126 * Math.exp(-(x * x)),
  ]),
  op("xlogy", xlogy, [
    (_a: number, b: number) => Math.log(b),
    (a: number, b: number) => a !== 0.0 ? (b < 0.0 ? NaN : a / (b + 0.0)) : null,
  ], "a b", "f!!!"),
  op("xlog1py", xlog1py, [
    (_a: number, b: number) => Math.log1p(b),
    (a: number, b: number) => a !== 0.0 ? (b < (-1.0) ? NaN : a / (1.0 + b)) : null,
  ], "a b", "f!!!"),
  op("entr", entr, [
    (x: number) => x < 0.0 ? NaN : -Math.log(x) - 1.0,
  ], "x", "f-"),
  op("rel_entr", rel_entr, [
    (a: number, b: number) => a < 0.0 || b < 0.0 ? NaN : Math.log(a / b) + 1.0,
    (a: number, b: number) => a !== 0.0 ? (a < 0.0 || b < 0.0 ? NaN : -(a / (b + 0.0))) : null,
  ], "a b", "f!!!"),
  op("arctan2", Math.atan2, [
    (a: number, b: number) => { const part0 = Math.hypot(a, b); return part0 !== 0.0 ? b / part0 / part0 : null; },
    (a: number, b: number) => { const part0 = Math.hypot(a, b); return part0 !== 0.0 ? -(a / part0 / part0) : null; },
  ], "a b", "f!!!", { aliases: ["atan2"], kinks: [KINK1] }),
  op("logaddexp", logaddexp, [
    (a: number, b: number) => a === b && Math.abs(a) === Infinity ? 0.5 : sigmoid(a - b),
    (a: number, b: number) => a === b && Math.abs(a) === Infinity ? 0.5 : sigmoid(b - a),
  ], "a b", "f!!!"),
  op("logaddexp2", logaddexp2, [
    (a: number, b: number) => a === b && Math.abs(a) === Infinity ? 0.5 : sigmoid((a - b) * 0.6931471805599453),
    (a: number, b: number) => a === b && Math.abs(a) === Infinity ? 0.5 : sigmoid((b - a) * 0.6931471805599453),
  ], "a b", "f!!!"),
  op("sigmoid", sigmoid, [
    (_x: number, y: number) => y * (1.0 - y),
  ], "x", "f-"),
  op("softplus", softplus, [
    (x: number) => sigmoid(x),
  ], "x", "f-"),
  op("silu", (x: number) => x * sigmoid(x), [
    (x: number, y: number) => sigmoid(x) + y * sigmoid(-x),
  ], "x", "f-"),
  op("gelu", gelu, [
    (x: number) => 0.5 * erfc(-x * 0.7071067811865476) + x * Math.exp(-0.5 * (x * x)) * 0.3989422804014327,
  ], "x", "f-"),
  op("relu", (x: number) => x <= 0.0 ? 0.0 : x, [
    (x: number) => !(x <= 0.0) ? (x !== x ? NaN : 1.0) : null,
  ], "x", "ff", { pattern: "route", kinks: [KINK0] }),
  op("relu6", relu6, [
    (x: number) => !(x <= 0.0 || x >= 6.0) ? (x !== x ? NaN : 1.0) : null,
  ], "x", "ff", { pattern: "route", kinks: [KINK0, { doc: "x = 6", jump: false, on: (x: number) => x - 6.0 === 0.0 }] }),
  op("leaky_relu", leaky_relu, [
    (x: number, slope: number) => x !== x ? NaN : x > 0.0 ? 1.0 : x < 0.0 ? slope : minimum(maximum(slope, 0.0), 1.0),
    (x: number) => !(x > 0.0) ? x : null,
  ], "x slope", "fffb", { defaults: [0.01], pattern: "route", kinks: [KINK0] }),
  op("maximum", maximum, [
    RULE2,
    RULE3,
  ], "a b", "fffb", { pattern: "route", kinks: [KINK2], blocked: BLOCKED0 }),
  op("minimum", minimum, [
    RULE3,
    RULE2,
  ], "a b", "fffb", { pattern: "route", kinks: [KINK2], blocked: BLOCKED0 }),
  op("fmax", fmax, [
    (a: number, b: number, y: number) => a >= b || b !== b ? (a === b ? 0.5 : y !== y ? NaN : 1.0) : null,
    (a: number, b: number, y: number) => b >= a || a !== a ? (a === b ? 0.5 : y !== y ? NaN : 1.0) : null,
  ], "a b", "fffb", { pattern: "route", kinks: [KINK2], blocked: BLOCKED0 }),
  op("fmin", fmin, [
    (a: number, b: number, y: number) => b >= a || b !== b ? (a === b ? 0.5 : y !== y ? NaN : 1.0) : null,
    (a: number, b: number, y: number) => a >= b || a !== a ? (a === b ? 0.5 : y !== y ? NaN : 1.0) : null,
  ], "a b", "fffb", { pattern: "route", kinks: [KINK2], blocked: BLOCKED0 }),
  op("clip", clip, [
    (x: number, low: number, high: number, y: number) => { const part0 = low === y && low >= x; const part1 = high === y; const part2 = y !== y; return (x === y && low <= high) || part2 ? (part0 && part1 ? 0.3333333333333333 : part0 || part1 ? 0.5 : part2 ? NaN : 1.0) : null; },
    (x: number, low: number, high: number, y: number) => { const part0 = x === y && low <= high; const part1 = high === y; const part2 = y !== y; return (low === y && low >= x) || part2 ? (part0 && part1 ? 0.3333333333333333 : part0 || part1 ? 0.5 : part2 ? NaN : 1.0) : null; },
    (x: number, low: number, high: number, y: number) => { const part0 = x === y && low <= high; const part1 = low === y && low >= x; const part2 = y !== y; return high === y || part2 ? (part0 && part1 ? 0.3333333333333333 : part0 || part1 ? 0.5 : part2 ? NaN : 1.0) : null; },
  ], "x low high", "fffffffb", { pattern: "route", kinks: [{ doc: "x = low", jump: false, on: (x: number, low: number) => x === low }, { doc: "x = high", jump: false, on: (x: number, _low: number, high: number) => x === high }, { doc: "x < low = high", jump: false, on: (x: number, low: number, high: number) => x < low && low === high }, { doc: "x = low = high", jump: false, on: (x: number, low: number, high: number) => x === low && x === high }], blocked: { 4: [[0, 1, 3], [0, 3], [1, 3]], 8: [[0, 3], [0, 2, 3], [2, 3]], 16: [[1, 3], [2, 3], [1, 2, 3]], 12: [[0, 1, 3], [0, 2, 3], [1, 2, 3]], 20: [[0, 1, 3], [0, 2, 3], [1, 2, 3]], 24: [[0, 1, 3], [0, 2, 3], [1, 2, 3]], 28: [[0, 1, 3], [0, 2, 3], [1, 2, 3]] } }),
  op("where", (condition: boolean, a: number, b: number) => condition ? a : b, [
    null,
    (condition: boolean) => condition ? 1.0 : null,
    (condition: boolean) => !condition ? 1.0 : null,
  ], "condition a b", "fffbfffb", { pattern: "route", takesBool: [true, false, false] }),
  op("copysign", (a: number, b: number) => copysign(a, fmin(b, 1.0)), [
    (a: number, b: number) => sign(a) * copysign(1.0, fmin(b, 1.0)),
    null,
  ], "a b", "fff!", { pattern: "route", kinks: [{ doc: "a = 0", jump: false, on: (a: number) => a === 0.0 }, { doc: "b = 0", jump: true, on: (_a: number, b: number) => b === 0.0 }] }),
  op("sign", sign, [
    RULE4,
  ], "x", "f-", { pattern: "block", kinks: [{ doc: "where the value jumps", jump: true, on: (x: number) => x === 0.0 }] }),
  op("floor", Math.floor, [
    RULE4,
  ], "x", "fb", { pattern: "block", kinks: [KINK3] }),
  op("ceil", Math.ceil, [
    RULE4,
  ], "x", "fb", { pattern: "block", kinks: [KINK3] }),
  op("trunc", Math.trunc, [
    RULE4,
  ], "x", "fb", { pattern: "block", kinks: [KINK3] }),
  op("round", rint, [
    RULE4,
  ], "x", "f!", { pattern: "block", kinks: [{ doc: "where the value jumps", jump: true, on: (x: number) => x - Math.floor(x) - 0.5 === 0.0 }] }),
  op("greater", (a: number, b: number) => a > b, [
    null,
    null,
  ], "a b", "bbbb", { infix: [">"], level: 0, pattern: "block", kinks: [KINK4] }),
  op("greater_equal", (a: number, b: number) => a >= b, [
    null,
    null,
  ], "a b", "bbbb", { infix: [">="], level: 0, pattern: "block", kinks: [KINK4] }),
  op("less", (a: number, b: number) => a < b, [
    null,
    null,
  ], "a b", "bbbb", { infix: ["<"], level: 0, pattern: "block", kinks: [KINK4] }),
  op("less_equal", (a: number, b: number) => a <= b, [
    null,
    null,
  ], "a b", "bbbb", { infix: ["<="], level: 0, pattern: "block", kinks: [KINK4] }),
  op("equal", (a: number, b: number) => a === b, [
    null,
    null,
  ], "a b", "bbbb", { infix: ["=="], level: 0, pattern: "block", kinks: [KINK4] }),
  op("not_equal", (a: number, b: number) => a !== b, [
    null,
    null,
  ], "a b", "bbbb", { infix: ["!="], level: 0, pattern: "block", kinks: [KINK4] }),
  op("logical_and", (a: boolean, b: boolean) => a && b, [
    null,
    null,
  ], "a b", "bbbb", { pattern: "block", takesBool: [true, true] }),
  op("logical_or", (a: boolean, b: boolean) => a || b, [
    null,
    null,
  ], "a b", "bbbb", { pattern: "block", takesBool: [true, true] }),
  op("logical_xor", logical_xor, [
    null,
    null,
  ], "a b", "bbbb", { pattern: "block", takesBool: [true, true] }),
  op("logical_not", (a: boolean) => !a, [
    null,
  ], "a", "bb", { pattern: "block", takesBool: [true] }),
  op("isnan", (x: number) => x !== x, [
    null,
  ], "x", "bb", { pattern: "block" }),
  op("isinf", (x: number) => Math.abs(x) === Infinity, [
    null,
  ], "x", "bb", { pattern: "block" }),
  op("isfinite", (x: number) => Math.abs(x) < Infinity, [
    null,
  ], "x", "bb", { pattern: "block" }),
  op("heaviside", heaviside, [
    RULE5,
    (a: number) => a === 0.0 ? 1.0 : null,
  ], "a b", "fff!", { pattern: "route", kinks: [{ doc: "a = 0", jump: true, on: (a: number) => a === 0.0 }] }),
  op("floor_divide", floor_divide, [
    RULE5,
    RULE5,
  ], "a b", "fff!", { infix: ["//"], level: 2, pattern: "block", kinks: [KINK5] }),
  op("mod", mod, [
    (_a: number, _b: number, y: number) => y !== y ? NaN : 1.0,
    (a: number, b: number, y: number) => y !== y ? NaN : -floor_divide(a, b),
  ], "a b", "f!!!", { infix: ["%"], level: 2, kinks: [KINK5] }),
];

/** The ops that a library of Python computes, so that the page cannot: the library by name. */
export const LIBRARY_OPS: Readonly<Record<string, string>> = {
  gammaln: "scipy",
  gamma: "scipy",
  digamma: "scipy",
  polygamma: "scipy",
  betaln: "scipy",
  beta: "scipy",
  binom: "scipy",
  erfinv: "scipy",
  erfcinv: "scipy",
  ndtri: "scipy",
  erfcx: "scipy",
  log_ndtr: "scipy",
  bessel_j: "scipy",
  bessel_y: "scipy",
  bessel_i: "scipy",
  bessel_k: "scipy",
  bessel_ie: "scipy",
  gammainc: "scipy",
  gammaincc: "scipy",
  gamma_moment: "scipy",
  betainc: "scipy",
  betaincc: "scipy",
  beta_moment: "scipy",
  stdtr: "scipy",
};
