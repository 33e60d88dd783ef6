// Written by wiregrad.codegen.page from the op table; `python tests/golden/write_engine.py` writes it again.

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

/** What a record does not say. */
type Usual = Omit<OpRecord, "name" | "forward" | "rules">;

/** How ops pass the upstream gradient on. */
export const PATTERNS = { distribute: "sends the upstream gradient unchanged (up to sign) to every input", swap: "multiplies the upstream gradient by the other inputs", scale: "scales the upstream gradient by its own slope", route: "sends the upstream gradient (up to a factor) to the inputs it selected, nothing to the others", merge: "adds the gradients that come back from its readers", block: "sends nothing back: its output moves in steps", source: "has no inputs: gradients end here" };
/** How tightly operators bind. */
export const LEVELS = { comparison: 0, sum: 1, product: 2, sign: 3, power: 4 };
/** Names that stand for a number in a formula. */
export const CONSTANTS: Readonly<Record<string, number>> = { pi: 3.141592653589793 };
/** The largest formula, the deepest parentheses, the longest name. */
export const LIMITS = { characters: 10000, depth: 100, name: 200 };
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

/** The size of x with the sign of y. */
function copysign(x: number, y: number): number {
  return y < 0 || Object.is(y, -0) ? -Math.abs(x) : Math.abs(x);
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

/** What is left of x after taking y away as often as it fits, with the sign of x. */
function fmod(x: number, y: number): number {
  return x % y;
}

/** Remainder of a / b, with the sign of b. */
function mod(a: number, b: number): number {
  return fmod(a, b) === 0.0 ? copysign(0.0, b) : (fmod(a, b) < 0.0) !== (b < 0.0) ? fmod(a, b) + b : fmod(a, b);
}

/** The whole number nearest to x, the even one of two. */
function rint(x: number): number {
  const size = Math.abs(x);
  // Near 2 ** 52 doubles are whole numbers, so the sum is rounded to one.
  return size < 2 ** 52 ? copysign(size + 2 ** 52 - 2 ** 52, x) : x;
}

/** Largest whole number not above a / b. */
function floor_divide(a: number, b: number): number {
  return b === 0.0 ? a / b : copysign(rint((a - fmod(a, b)) / b - (mod(a, b) !== fmod(a, b) ? 1.0 : 0.0)), a / b);
}

/** The larger of two wires; a NaN loses. */
function fmax(a: number, b: number): number {
  return a >= b || b !== b ? a : b;
}

/** The smaller of two wires; a NaN loses. */
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

/** What most ops have; records say where they differ. */
const USUAL: Usual = { inputs: ["x"], defaults: [], aliases: [], infix: [], level: 1, prefix: "", pattern: "scale", takesBool: [], gives: "f!", kinks: [], modes: {} };

const RECORDS: readonly (Partial<Usual> & Omit<OpRecord, keyof Usual>)[] = [
  {
    name: "split",
    pattern: "merge",
    gives: "fb",
    forward: (x: number) => x,
    rules: [
      () => 1.0,
    ],
  },
  {
    name: "positive",
    prefix: "+",
    pattern: "distribute",
    gives: "f-",
    forward: (x: number) => x,
    rules: [
      () => 1.0,
    ],
  },
  {
    name: "negative",
    prefix: "-",
    pattern: "distribute",
    gives: "f-",
    forward: (x: number) => -x,
    rules: [
      () => -1.0,
    ],
  },
  {
    name: "add",
    inputs: ["a", "b"],
    infix: ["+"],
    pattern: "distribute",
    gives: "fffb",
    forward: (a: number, b: number) => a + b,
    rules: [
      () => 1.0,
      () => 1.0,
    ],
  },
  {
    name: "subtract",
    inputs: ["a", "b"],
    infix: ["-"],
    pattern: "distribute",
    gives: "fff-",
    forward: (a: number, b: number) => a - b,
    rules: [
      () => 1.0,
      () => -1.0,
    ],
  },
  {
    name: "multiply",
    inputs: ["a", "b"],
    infix: ["*"],
    level: 2,
    pattern: "swap",
    gives: "fffb",
    forward: (a: number, b: number) => a * b,
    rules: [
      (_a: number, b: number) => b,
      (a: number) => a,
    ],
  },
  {
    name: "divide",
    inputs: ["a", "b"],
    infix: ["/"],
    level: 2,
    gives: "f!!!",
    forward: (a: number, b: number) => a / b,
    rules: [
      (_a: number, b: number) => 1.0 / b,
      (_a: number, b: number, y: number) => -(y / b),
    ],
  },
  {
    name: "power",
    inputs: ["a", "b"],
    aliases: ["pow"],
    infix: ["**", "^"],
    level: 4,
    gives: "f!!!",
    forward: (a: number, b: number) => power(a, b),
    rules: [
      (a: number, b: number, y: number) => y !== y ? NaN : b === 0.0 ? b / (a === 0.0 ? 1.0 : a) * y : b * power(a, b - 1.0),
      (a: number, b: number, y: number) => a === 0.0 ? (b < 0.0 ? -Math.abs(y) : y !== y ? NaN : 0.0) : y * Math.log(a),
    ],
  },
  {
    name: "square",
    forward: (x: number) => x * x,
    rules: [
      (x: number) => 2.0 * x,
    ],
  },
  {
    name: "reciprocal",
    forward: (x: number) => 1.0 / x,
    rules: [
      (_x: number, y: number) => -(y * y),
    ],
  },
  {
    name: "sqrt",
    forward: (x: number) => Math.sqrt(x),
    rules: [
      (_x: number, y: number) => 0.5 / (y + 0.0),
    ],
  },
  {
    name: "cbrt",
    forward: (x: number) => Math.cbrt(x),
    rules: [
      (_x: number, y: number) => 1.0 / (3.0 * (y * y)),
    ],
  },
  {
    name: "absolute",
    aliases: ["abs"],
    gives: "fb",
    kinks: [{ doc: "x = 0", jump: false, on: (x: number) => x === 0.0 }],
    forward: (x: number) => Math.abs(x),
    rules: [
      (x: number) => sign(x),
    ],
  },
  {
    name: "hypot",
    inputs: ["a", "b"],
    gives: "f!!!",
    kinks: [{ doc: "a = b = 0", jump: false, on: (a: number, b: number) => Math.hypot(a, b) === 0.0 }],
    forward: (a: number, b: number) => Math.hypot(a, b),
    rules: [
      (a: number, _b: number, y: number) => y !== 0.0 ? a / y : null,
      (_a: number, b: number, y: number) => y !== 0.0 ? b / y : null,
    ],
  },
  {
    name: "exp",
    forward: (x: number) => Math.exp(x),
    rules: [
      (_x: number, y: number) => y,
    ],
  },
  {
    name: "exp2",
    forward: (x: number) => exp2(x),
    rules: [
      (_x: number, y: number) => y * 0.6931471805599453,
    ],
  },
  {
    name: "expm1",
    forward: (x: number) => Math.expm1(x),
    rules: [
      (x: number) => Math.exp(x),
    ],
  },
  {
    name: "log",
    aliases: ["ln"],
    forward: (x: number) => Math.log(x),
    rules: [
      (x: number) => x < 0.0 ? NaN : 1.0 / (x + 0.0),
    ],
  },
  {
    name: "log2",
    forward: (x: number) => Math.log2(x),
    rules: [
      (x: number) => x < 0.0 ? NaN : 1.0 / (x * 0.6931471805599453 + 0.0),
    ],
  },
  {
    name: "log10",
    forward: (x: number) => Math.log10(x),
    rules: [
      (x: number) => x < 0.0 ? NaN : 1.0 / (x * 2.302585092994046 + 0.0),
    ],
  },
  {
    name: "log1p",
    forward: (x: number) => Math.log1p(x),
    rules: [
      (x: number) => x < (-1.0) ? NaN : 1.0 / (1.0 + x),
    ],
  },
  {
    name: "sin",
    forward: (x: number) => Math.sin(x),
    rules: [
      (x: number) => Math.cos(x),
    ],
  },
  {
    name: "cos",
    forward: (x: number) => Math.cos(x),
    rules: [
      (x: number) => -Math.sin(x),
    ],
  },
  {
    name: "tan",
    forward: (x: number) => Math.tan(x),
    rules: [
      (_x: number, y: number) => 1.0 + y * y,
    ],
  },
  {
    name: "sinc",
    forward: (x: number) => sinc(x),
    rules: [
      (x: number, y: number) => { const part0 = 3.141592653589793 * x; const part1 = part0 * part0; return Math.abs(x) < 0.5 ? 3.141592653589793 * part0 * (((((((((((0.0 * part0 * part1 + (-8.509974375387503e-22)) * part1 + 3.9145882126782523e-19) * part1 + (-1.4797143443923793e-16)) * part1 + 4.498331606952833e-14) * part1 + (-1.0706029224547743e-11)) * part1 + 1.9270852604185937e-09) * part1 + (-2.505210838544172e-07)) * part1 + 2.2045855379188714e-05) * part1 + (-0.0011904761904761906)) * part1 + 0.03333333333333333) * part1 + (-0.3333333333333333)) : (Math.cos(part0) - y) / (x === 0.0 ? 1.0 : x); },
    ],
  },
  {
    name: "arcsin",
    aliases: ["asin"],
    forward: (x: number) => Math.asin(x),
    rules: [
      (x: number) => 1.0 / Math.sqrt((1.0 - x) * (1.0 + x)),
    ],
  },
  {
    name: "arccos",
    aliases: ["acos"],
    forward: (x: number) => Math.acos(x),
    rules: [
      (x: number) => -1.0 / Math.sqrt((1.0 - x) * (1.0 + x)),
    ],
  },
  {
    name: "arctan",
    aliases: ["atan"],
    forward: (x: number) => Math.atan(x),
    rules: [
      (x: number) => 1.0 / (1.0 + x * x),
    ],
  },
  {
    name: "sinh",
    forward: (x: number) => Math.sinh(x),
    rules: [
      (x: number) => Math.cosh(x),
    ],
  },
  {
    name: "cosh",
    forward: (x: number) => Math.cosh(x),
    rules: [
      (x: number) => Math.sinh(x),
    ],
  },
  {
    name: "tanh",
    forward: (x: number) => Math.tanh(x),
    rules: [
      (_x: number, y: number) => 1.0 - y * y,
    ],
  },
  {
    name: "arcsinh",
    aliases: ["asinh"],
    forward: (x: number) => Math.asinh(x),
    rules: [
      (x: number) => 1.0 / Math.hypot(1.0, x),
    ],
  },
  {
    name: "arccosh",
    aliases: ["acosh"],
    forward: (x: number) => Math.acosh(x),
    rules: [
      (x: number) => 1.0 / (Math.sqrt(x - 1.0) * Math.sqrt(x + 1.0)),
    ],
  },
  {
    name: "arctanh",
    aliases: ["atanh"],
    forward: (x: number) => Math.atanh(x),
    rules: [
      (x: number) => Math.abs(x) > 1.0 ? NaN : 1.0 / ((1.0 - x) * (1.0 + x)),
    ],
  },
  {
    name: "erf",
    forward: (x: number) => erf(x),
    rules: [
      (x: number) => 1.1283791670955126 * Math.exp(-(x * x)),
    ],
  },
  {
    name: "erfc",
    forward: (x: number) => erfc(x),
    rules: [
      (x: number) => -1.1283791670955126 * Math.exp(-(x * x)),
    ],
  },
  {
    name: "arctan2",
    inputs: ["a", "b"],
    aliases: ["atan2"],
    gives: "f!!!",
    kinks: [{ doc: "a = b = 0", jump: false, on: (a: number, b: number) => Math.hypot(a, b) === 0.0 }],
    forward: (a: number, b: number) => Math.atan2(a, b),
    rules: [
      (a: number, b: number) => { const part0 = Math.hypot(a, b); return part0 !== 0.0 ? b / part0 / part0 : null; },
      (a: number, b: number) => { const part0 = Math.hypot(a, b); return part0 !== 0.0 ? -(a / part0 / part0) : null; },
    ],
  },
  {
    name: "logaddexp",
    inputs: ["a", "b"],
    gives: "f!!!",
    forward: (a: number, b: number) => logaddexp(a, b),
    rules: [
      (a: number, b: number) => a === b && Math.abs(a) === Infinity ? 0.5 : sigmoid(a - b),
      (a: number, b: number) => a === b && Math.abs(a) === Infinity ? 0.5 : sigmoid(b - a),
    ],
  },
  {
    name: "logaddexp2",
    inputs: ["a", "b"],
    gives: "f!!!",
    forward: (a: number, b: number) => logaddexp2(a, b),
    rules: [
      (a: number, b: number) => a === b && Math.abs(a) === Infinity ? 0.5 : sigmoid((a - b) * 0.6931471805599453),
      (a: number, b: number) => a === b && Math.abs(a) === Infinity ? 0.5 : sigmoid((b - a) * 0.6931471805599453),
    ],
  },
  {
    name: "sigmoid",
    gives: "f-",
    forward: (x: number) => sigmoid(x),
    rules: [
      (_x: number, y: number) => y * (1.0 - y),
    ],
  },
  {
    name: "softplus",
    gives: "f-",
    forward: (x: number) => softplus(x),
    rules: [
      (x: number) => sigmoid(x),
    ],
  },
  {
    name: "silu",
    gives: "f-",
    forward: (x: number) => x * sigmoid(x),
    rules: [
      (x: number, y: number) => sigmoid(x) + y * sigmoid(-x),
    ],
  },
  {
    name: "gelu",
    gives: "f-",
    forward: (x: number) => gelu(x),
    rules: [
      (x: number) => 0.5 * erfc(-x * 0.7071067811865476) + x * Math.exp(-0.5 * (x * x)) * 0.3989422804014327,
    ],
  },
  {
    name: "relu",
    pattern: "route",
    gives: "ff",
    kinks: [{ doc: "x = 0", jump: false, on: (x: number) => x === 0.0 }],
    forward: (x: number) => x <= 0.0 ? 0.0 : x,
    rules: [
      (x: number) => !(x <= 0.0) ? (x !== x ? NaN : 1.0) : null,
    ],
  },
  {
    name: "relu6",
    pattern: "route",
    gives: "ff",
    kinks: [{ doc: "x = 0", jump: false, on: (x: number) => x === 0.0 }, { doc: "x = 6", jump: false, on: (x: number) => x - 6.0 === 0.0 }],
    forward: (x: number) => relu6(x),
    rules: [
      (x: number) => !(x <= 0.0 || x >= 6.0) ? (x !== x ? NaN : 1.0) : null,
    ],
  },
  {
    name: "leaky_relu",
    inputs: ["x", "slope"],
    defaults: [0.01],
    pattern: "route",
    gives: "fffb",
    kinks: [{ doc: "x = 0", jump: false, on: (x: number) => x === 0.0 }],
    forward: (x: number, slope: number) => leaky_relu(x, slope),
    rules: [
      (x: number, slope: number) => x !== x ? NaN : x > 0.0 ? 1.0 : x < 0.0 ? slope : minimum(maximum(slope, 0.0), 1.0),
      (x: number) => !(x > 0.0) ? x : null,
    ],
  },
  {
    name: "maximum",
    inputs: ["a", "b"],
    pattern: "route",
    gives: "fffb",
    kinks: [{ doc: "a = b", jump: false, on: (a: number, b: number) => a === b }],
    forward: (a: number, b: number) => maximum(a, b),
    rules: [
      (a: number, b: number, y: number) => !(a < b) ? (a === b ? 0.5 : y !== y ? NaN : 1.0) : null,
      (a: number, b: number, y: number) => !(b < a) ? (a === b ? 0.5 : y !== y ? NaN : 1.0) : null,
      (a: number, b: number, y: number) => { const part0 = a === b; return !part0 && !(a < b) ? (y !== y ? NaN : 1.0) : null; },
      (a: number, b: number, y: number) => { const part0 = a === b; return !part0 && !(b < a) ? (y !== y ? NaN : 1.0) : null; },
    ],
    modes: { 4: [2, 3], 8: [2, 3], 12: [2, 3] },
  },
  {
    name: "minimum",
    inputs: ["a", "b"],
    pattern: "route",
    gives: "fffb",
    kinks: [{ doc: "a = b", jump: false, on: (a: number, b: number) => a === b }],
    forward: (a: number, b: number) => minimum(a, b),
    rules: [
      (a: number, b: number, y: number) => !(b < a) ? (a === b ? 0.5 : y !== y ? NaN : 1.0) : null,
      (a: number, b: number, y: number) => !(a < b) ? (a === b ? 0.5 : y !== y ? NaN : 1.0) : null,
      (a: number, b: number, y: number) => { const part0 = a === b; return !part0 && !(b < a) ? (y !== y ? NaN : 1.0) : null; },
      (a: number, b: number, y: number) => { const part0 = a === b; return !part0 && !(a < b) ? (y !== y ? NaN : 1.0) : null; },
    ],
    modes: { 4: [2, 3], 8: [2, 3], 12: [2, 3] },
  },
  {
    name: "fmax",
    inputs: ["a", "b"],
    pattern: "route",
    gives: "fffb",
    kinks: [{ doc: "a = b", jump: false, on: (a: number, b: number) => a === b }],
    forward: (a: number, b: number) => fmax(a, b),
    rules: [
      (a: number, b: number, y: number) => a >= b || b !== b ? (a === b ? 0.5 : y !== y ? NaN : 1.0) : null,
      (a: number, b: number, y: number) => b >= a || a !== a ? (a === b ? 0.5 : y !== y ? NaN : 1.0) : null,
      (a: number, b: number, y: number) => { const part0 = a === b; return !part0 && (a >= b || b !== b) ? (y !== y ? NaN : 1.0) : null; },
      (a: number, b: number, y: number) => { const part0 = a === b; return !part0 && (b >= a || a !== a) ? (y !== y ? NaN : 1.0) : null; },
    ],
    modes: { 4: [2, 3], 8: [2, 3], 12: [2, 3] },
  },
  {
    name: "fmin",
    inputs: ["a", "b"],
    pattern: "route",
    gives: "fffb",
    kinks: [{ doc: "a = b", jump: false, on: (a: number, b: number) => a === b }],
    forward: (a: number, b: number) => fmin(a, b),
    rules: [
      (a: number, b: number, y: number) => b >= a || b !== b ? (a === b ? 0.5 : y !== y ? NaN : 1.0) : null,
      (a: number, b: number, y: number) => a >= b || a !== a ? (a === b ? 0.5 : y !== y ? NaN : 1.0) : null,
      (a: number, b: number, y: number) => { const part0 = a === b; return !part0 && (b >= a || b !== b) ? (y !== y ? NaN : 1.0) : null; },
      (a: number, b: number, y: number) => { const part0 = a === b; return !part0 && (a >= b || a !== a) ? (y !== y ? NaN : 1.0) : null; },
    ],
    modes: { 4: [2, 3], 8: [2, 3], 12: [2, 3] },
  },
  {
    name: "clip",
    inputs: ["x", "low", "high"],
    pattern: "route",
    gives: "fffffffb",
    kinks: [{ doc: "x = low", jump: false, on: (x: number, low: number) => x === low }, { doc: "x = high", jump: false, on: (x: number, _low: number, high: number) => x === high }, { doc: "x < low = high", jump: false, on: (x: number, low: number, high: number) => x < low && low === high }, { doc: "x = low = high", jump: false, on: (x: number, low: number, high: number) => x === low && x === high }],
    forward: (x: number, low: number, high: number) => clip(x, low, high),
    rules: [
      (x: number, low: number, high: number, y: number) => { const part0 = low === y && low >= x; const part1 = high === y; const part2 = y !== y; return (x === y && low <= high) || part2 ? (part0 && part1 ? 0.3333333333333333 : part0 || part1 ? 0.5 : part2 ? NaN : 1.0) : null; },
      (x: number, low: number, high: number, y: number) => { const part0 = x === y && low <= high; const part1 = high === y; const part2 = y !== y; return (low === y && low >= x) || part2 ? (part0 && part1 ? 0.3333333333333333 : part0 || part1 ? 0.5 : part2 ? NaN : 1.0) : null; },
      (x: number, low: number, high: number, y: number) => { const part0 = x === y && low <= high; const part1 = low === y && low >= x; const part2 = y !== y; return high === y || part2 ? (part0 && part1 ? 0.3333333333333333 : part0 || part1 ? 0.5 : part2 ? NaN : 1.0) : null; },
      (x: number, low: number, high: number, y: number) => { const part0 = low === y && low >= x; const part1 = high === y; const part2 = y !== y; const part3 = x === low; const part4 = x === high; return !(part3 && part4) && !part4 && !part3 && ((x === y && low <= high) || part2) ? (part0 && part1 ? 0.3333333333333333 : part0 || part1 ? 0.5 : part2 ? NaN : 1.0) : null; },
      (x: number, low: number, high: number, y: number) => { const part0 = x === y && low <= high; const part1 = high === y; const part2 = y !== y; const part3 = x === low; return !(part3 && x === high) && !part3 && ((low === y && low >= x) || part2) ? (part0 && part1 ? 0.3333333333333333 : part0 || part1 ? 0.5 : part2 ? NaN : 1.0) : null; },
      (x: number, low: number, high: number, y: number) => { const part0 = x === y && low <= high; const part1 = low === y && low >= x; const part2 = y !== y; const part3 = x === high; return !(x === low && part3) && !part3 && (high === y || part2) ? (part0 && part1 ? 0.3333333333333333 : part0 || part1 ? 0.5 : part2 ? NaN : 1.0) : null; },
      (x: number, low: number, high: number, y: number) => { const part0 = low === y && low >= x; const part1 = high === y; const part2 = y !== y; const part3 = x === low; return !(part3 && x === high) && !part3 && ((x === y && low <= high) || part2) ? (part0 && part1 ? 0.3333333333333333 : part0 || part1 ? 0.5 : part2 ? NaN : 1.0) : null; },
      (x: number, low: number, high: number, y: number) => { const part0 = x === y && low <= high; const part1 = high === y; const part2 = y !== y; const part3 = x === low; return !(part3 && x === high) && !(x < low && low === high) && !part3 && ((low === y && low >= x) || part2) ? (part0 && part1 ? 0.3333333333333333 : part0 || part1 ? 0.5 : part2 ? NaN : 1.0) : null; },
      (x: number, low: number, high: number, y: number) => { const part0 = x === y && low <= high; const part1 = low === y && low >= x; const part2 = y !== y; return !(x === low && x === high) && !(x < low && low === high) && (high === y || part2) ? (part0 && part1 ? 0.3333333333333333 : part0 || part1 ? 0.5 : part2 ? NaN : 1.0) : null; },
      (x: number, low: number, high: number, y: number) => { const part0 = low === y && low >= x; const part1 = high === y; const part2 = y !== y; const part3 = x === high; return !(x === low && part3) && !part3 && ((x === y && low <= high) || part2) ? (part0 && part1 ? 0.3333333333333333 : part0 || part1 ? 0.5 : part2 ? NaN : 1.0) : null; },
      (x: number, low: number, high: number, y: number) => { const part0 = x === y && low <= high; const part1 = high === y; const part2 = y !== y; return !(x === low && x === high) && !(x < low && low === high) && ((low === y && low >= x) || part2) ? (part0 && part1 ? 0.3333333333333333 : part0 || part1 ? 0.5 : part2 ? NaN : 1.0) : null; },
      (x: number, low: number, high: number, y: number) => { const part0 = x === y && low <= high; const part1 = low === y && low >= x; const part2 = y !== y; const part3 = x === high; return !(x === low && part3) && !(x < low && low === high) && !part3 && (high === y || part2) ? (part0 && part1 ? 0.3333333333333333 : part0 || part1 ? 0.5 : part2 ? NaN : 1.0) : null; },
    ],
    modes: { 4: [3, 4, 5], 8: [6, 7, 8], 16: [9, 10, 11], 12: [3, 7, 11], 20: [3, 7, 11], 24: [3, 7, 11], 28: [3, 7, 11] },
  },
  {
    name: "where",
    inputs: ["condition", "a", "b"],
    pattern: "route",
    takesBool: [true, false, false],
    gives: "fffbfffb",
    forward: (condition: boolean, a: number, b: number) => condition ? a : b,
    rules: [
      null,
      (condition: boolean) => condition ? 1.0 : null,
      (condition: boolean) => !condition ? 1.0 : null,
    ],
  },
  {
    name: "copysign",
    inputs: ["a", "b"],
    pattern: "route",
    gives: "fff!",
    kinks: [{ doc: "a = 0", jump: false, on: (a: number) => a === 0.0 }, { doc: "b = 0", jump: true, on: (_a: number, b: number) => b === 0.0 }],
    forward: (a: number, b: number) => copysign(a, b),
    rules: [
      (a: number, b: number) => sign(a) * copysign(1.0, b),
      null,
    ],
  },
  {
    name: "sign",
    pattern: "block",
    gives: "f-",
    kinks: [{ doc: "where the value jumps", jump: true, on: (x: number) => x === 0.0 }],
    forward: (x: number) => sign(x),
    rules: [
      (_x: number, y: number) => y !== y ? NaN : null,
    ],
  },
  {
    name: "floor",
    pattern: "block",
    gives: "fb",
    kinks: [{ doc: "where the value jumps", jump: true, on: (x: number) => x - rint(x) === 0.0 }],
    forward: (x: number) => Math.floor(x),
    rules: [
      (_x: number, y: number) => y !== y ? NaN : null,
    ],
  },
  {
    name: "ceil",
    pattern: "block",
    gives: "fb",
    kinks: [{ doc: "where the value jumps", jump: true, on: (x: number) => x - rint(x) === 0.0 }],
    forward: (x: number) => Math.ceil(x),
    rules: [
      (_x: number, y: number) => y !== y ? NaN : null,
    ],
  },
  {
    name: "trunc",
    pattern: "block",
    gives: "fb",
    kinks: [{ doc: "where the value jumps", jump: true, on: (x: number) => x - rint(x) === 0.0 }],
    forward: (x: number) => Math.trunc(x),
    rules: [
      (_x: number, y: number) => y !== y ? NaN : null,
    ],
  },
  {
    name: "round",
    pattern: "block",
    kinks: [{ doc: "where the value jumps", jump: true, on: (x: number) => x - Math.floor(x) - 0.5 === 0.0 }],
    forward: (x: number) => rint(x),
    rules: [
      (_x: number, y: number) => y !== y ? NaN : null,
    ],
  },
  {
    name: "greater",
    inputs: ["a", "b"],
    infix: [">"],
    level: 0,
    pattern: "block",
    gives: "bbbb",
    kinks: [{ doc: "a = b", jump: true, on: (a: number, b: number) => (a === b ? 0.0 : 0.0 + a - b) === 0.0 }],
    forward: (a: number, b: number) => a > b,
    rules: [
      null,
      null,
    ],
  },
  {
    name: "greater_equal",
    inputs: ["a", "b"],
    infix: [">="],
    level: 0,
    pattern: "block",
    gives: "bbbb",
    kinks: [{ doc: "a = b", jump: true, on: (a: number, b: number) => (a === b ? 0.0 : 0.0 + a - b) === 0.0 }],
    forward: (a: number, b: number) => a >= b,
    rules: [
      null,
      null,
    ],
  },
  {
    name: "less",
    inputs: ["a", "b"],
    infix: ["<"],
    level: 0,
    pattern: "block",
    gives: "bbbb",
    kinks: [{ doc: "a = b", jump: true, on: (a: number, b: number) => (a === b ? 0.0 : 0.0 + a - b) === 0.0 }],
    forward: (a: number, b: number) => a < b,
    rules: [
      null,
      null,
    ],
  },
  {
    name: "less_equal",
    inputs: ["a", "b"],
    infix: ["<="],
    level: 0,
    pattern: "block",
    gives: "bbbb",
    kinks: [{ doc: "a = b", jump: true, on: (a: number, b: number) => (a === b ? 0.0 : 0.0 + a - b) === 0.0 }],
    forward: (a: number, b: number) => a <= b,
    rules: [
      null,
      null,
    ],
  },
  {
    name: "equal",
    inputs: ["a", "b"],
    infix: ["=="],
    level: 0,
    pattern: "block",
    gives: "bbbb",
    kinks: [{ doc: "a = b", jump: true, on: (a: number, b: number) => (a === b ? 0.0 : 0.0 + a - b) === 0.0 }],
    forward: (a: number, b: number) => a === b,
    rules: [
      null,
      null,
    ],
  },
  {
    name: "not_equal",
    inputs: ["a", "b"],
    infix: ["!="],
    level: 0,
    pattern: "block",
    gives: "bbbb",
    kinks: [{ doc: "a = b", jump: true, on: (a: number, b: number) => (a === b ? 0.0 : 0.0 + a - b) === 0.0 }],
    forward: (a: number, b: number) => a !== b,
    rules: [
      null,
      null,
    ],
  },
  {
    name: "logical_and",
    inputs: ["a", "b"],
    pattern: "block",
    takesBool: [true, true],
    gives: "bbbb",
    forward: (a: boolean, b: boolean) => a && b,
    rules: [
      null,
      null,
    ],
  },
  {
    name: "logical_or",
    inputs: ["a", "b"],
    pattern: "block",
    takesBool: [true, true],
    gives: "bbbb",
    forward: (a: boolean, b: boolean) => a || b,
    rules: [
      null,
      null,
    ],
  },
  {
    name: "logical_xor",
    inputs: ["a", "b"],
    pattern: "block",
    takesBool: [true, true],
    gives: "bbbb",
    forward: (a: boolean, b: boolean) => logical_xor(a, b),
    rules: [
      null,
      null,
    ],
  },
  {
    name: "logical_not",
    inputs: ["a"],
    pattern: "block",
    takesBool: [true],
    gives: "bb",
    forward: (a: boolean) => !a,
    rules: [
      null,
    ],
  },
  {
    name: "isnan",
    pattern: "block",
    gives: "bb",
    forward: (x: number) => x !== x,
    rules: [
      null,
    ],
  },
  {
    name: "isinf",
    pattern: "block",
    gives: "bb",
    forward: (x: number) => Math.abs(x) === Infinity,
    rules: [
      null,
    ],
  },
  {
    name: "isfinite",
    pattern: "block",
    gives: "bb",
    forward: (x: number) => Math.abs(x) < Infinity,
    rules: [
      null,
    ],
  },
  {
    name: "heaviside",
    inputs: ["a", "b"],
    pattern: "route",
    gives: "fff!",
    kinks: [{ doc: "a = 0", jump: true, on: (a: number) => a === 0.0 }],
    forward: (a: number, b: number) => heaviside(a, b),
    rules: [
      (_a: number, _b: number, y: number) => y !== y ? NaN : null,
      (a: number) => a === 0.0 ? 1.0 : null,
    ],
  },
  {
    name: "floor_divide",
    inputs: ["a", "b"],
    infix: ["//"],
    level: 2,
    pattern: "block",
    gives: "fff!",
    kinks: [{ doc: "a / b whole", jump: true, on: (a: number, b: number) => { const part0 = a / b; return part0 - rint(part0) === 0.0; } }],
    forward: (a: number, b: number) => floor_divide(a, b),
    rules: [
      (_a: number, _b: number, y: number) => y !== y ? NaN : null,
      (_a: number, _b: number, y: number) => y !== y ? NaN : null,
    ],
  },
  {
    name: "mod",
    inputs: ["a", "b"],
    infix: ["%"],
    level: 2,
    gives: "f!!!",
    kinks: [{ doc: "a / b whole", jump: true, on: (a: number, b: number) => { const part0 = a / b; return part0 - rint(part0) === 0.0; } }],
    forward: (a: number, b: number) => mod(a, b),
    rules: [
      (_a: number, _b: number, y: number) => y !== y ? NaN : 1.0,
      (a: number, b: number, y: number) => y !== y ? NaN : -floor_divide(a, b),
    ],
  },
];

/** The ops that work on numbers, in the order of the op table. */
export const OPS: readonly OpRecord[] = RECORDS.map((record) => ({
  ...USUAL,
  ...record,
  modes: { 0: record.rules.map((_, k) => k), ...record.modes },
}));
