/**
 * A number or an array as a picture shows it: a short text, and what the colour scale needs to know. Kept true: any
 * value has a reading. What was not computed reads as a dash and never as 0, where none can come it reads `no gradient`, and NaN
 * and infinities are told apart from numbers.
 */
import { number } from "../engine/numbers";
import type { Summary, Value } from "../types";
import { DASH, grouped, MINUS, TIMES } from "./letters";

/** How many digits numbers in pictures have. */
export const DIGITS = 4;
/** Before the number that an array has everywhere. */
const SAME = "all ";

/** What a reading is of. */
export type State = "number" | "not finite" | "blocked" | "not computed";

/** What is shown of one value: `size` is the number, or the norm of an array (negative if all of it is). */
export interface Reading {
  text: string;
  size: number;
  /** Whether it has a sign: a number, or an array without numbers of both signs. */
  signed: boolean;
  state: State;
  /** The shape of an array, which the text begins with. */
  shape: string;
}

/** What is said where no gradient can come. */
export const NO_GRADIENT = "no gradient";
export const BLOCKED: Reading = reading(NO_GRADIENT, 0, "blocked");
export const NOT_COMPUTED: Reading = reading(DASH, 0, "not computed");

function reading(text: string, size: number, state: State = "number", signed = true, shape = ""): Reading {
  return { text, size, signed, state, shape };
}

/** Return the reading of a value; null is what was not computed. */
export function read(value: Value | null, digits = DIGITS): Reading {
  if (value === null) return NOT_COMPUTED;
  if (typeof value === "boolean") return reading(value ? "true" : "false", Number(value));
  if (typeof value === "object") return readArray(value, digits);
  if (isFinite(value)) return reading(written(value, digits), value);
  return reading(isNaN(value) ? "NaN" : value > 0 ? "Inf" : "-Inf", value, "not finite");
}

function readArray(value: Summary, digits: number): Reading {
  const shape = shapeText(value.type);
  const bad = value.short ?? `${grouped(value.bad)} not finite`;
  if (value.bad) return reading(`${shape} ${bad}`.trim(), NaN, "not finite", true, shape);
  const signed = value.sign !== undefined && value.sign !== 0;
  const size = value.sign === -1 ? -value.norm : value.norm;
  const short = value.short ?? `${value.sign === -1 ? "-" : ""}\u2016${written(value.norm, digits)}\u2016`;
  return reading(`${shape} ${short}`.trim(), size, "number", signed, shape);
}

/** Write the shape of an array type such as float64[2,3]; nothing for a number. */
export function shapeText(type: string): string {
  const found = /\[(.*)\]/.exec(type);
  return found ? `[${(found[1] ?? "").split(",").join(TIMES)}]` : "";
}

/** Return the norm of several numbers as a reading. */
export function readNorm(norm: number, digits: number): Reading {
  return reading(`\u2016${read(norm, digits).text}\u2016`, norm, "number", false);
}

/** Return the reading of several numbers some of which are not finite. */
export function readBad(nans: number, infs: number): Reading {
  const parts = [nans ? `${grouped(nans)} NaN` : "", infs ? `${grouped(infs)} Inf` : ""];
  return reading(parts.filter(Boolean).join(", "), NaN, "not finite");
}

/** The powers of ten between which numbers are written without one, and up to which digits before the point stay. */
const [SMALLEST, WHOLE] = [-3, 5];

/** Write a finite number: so many digits, no trailing zeros, a power of ten below 0.001 and from 100,000. */
export function written(value: number, digits: number): string {
  if (!value) return "0";
  const size = Math.abs(value);
  const most = size >= 10 ** (WHOLE - 1) && size < 10 ** WHOLE ? Math.max(digits, WHOLE) : digits;
  const power = Number(size.toExponential(most - 1).split("e")[1]);
  if (power >= SMALLEST && power < WHOLE) return number(value, Math.max(power + 1, most));
  const [first = "", ...rest] = number(size, most).replace(/e.*/, "").replace(/^[0.]+|\./g, "");
  return `${value < 0 ? "-" : ""}${first}${rest.length ? "." : ""}${rest.join("")}e${power}`;
}

/** The text of a reading without the shape. */
export function bare({ text, shape }: Reading): string {
  return shape ? text.slice(shape.length).trimStart() : text;
}

/** The one number that a reading has everywhere, written; empty if there are several. */
export function uniform(found: Reading): string {
  const text = bare(found);
  return found.state === "number" && !text.includes("\u2016") ? withoutSame(text) : "";
}

function withoutSame(text: string): string {
  return text.startsWith(SAME) ? text.slice(SAME.length) : text;
}

/** Return a number or an op with the signs that print has for them. */
export function pretty(text: string): string {
  return text.replaceAll("-", MINUS).replaceAll("**", "^").replaceAll("*", TIMES);
}

/** Whether two readings are written alike: their numbers may differ in digits that are not shown. */
export function sameReading(one: Reading | null, two: Reading | null): boolean {
  if (one === null || two === null) return one === two;
  return one.state === two.state && one.text === two.text;
}

/** Return what stands in the slot of a value or gradient: of an array that is fine the shape or the norm. */
export function slotText(found: Reading, shape = ""): string {
  return pretty(shape && found.state === "number" ? shape : bare(found));
}

/** Return a local derivative as its pill says it; nothing where it is 1 and changes nothing. */
export function factorText(found: Reading): string {
  const text = pretty(uniform(found) || bare(found));
  if (text === "1") return "";
  return text.startsWith(MINUS) ? `${TIMES}(${text})` : `${TIMES}${text}`;
}
