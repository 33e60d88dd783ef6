/**
 * Numbers as text: `short` wherever they are shown to be read, `exact` so that they are read back. The same functions
 * in Python are `dtypes.py: format_short` and `ir/circuit.py: repr_number`; `tests/golden/numbers.json` ties them.
 */
import type { Value } from "../types";

/** The minus sign of numbers that are shown; it is as wide as a plus. */
export const MINUS = "\u2212";
/** How many significant digits numbers have where they are shown to be read. */
const SHORT_DIGITS = 4;
/** Numbers with more digits before the point, or below 0.001, are written with a power of ten. */
const MAX_WHOLE_DIGITS = 5;
const MIN_PLAIN_POWER = -3;

/** Write a value for people: four significant digits, no plus, no trailing zeros, never -0. */
export function short(value: Value): string {
  if (typeof value === "object") return value.text;
  if (typeof value === "boolean") return String(value);
  if (isNaN(value)) return "NaN";
  const size = Math.abs(value);
  return (value < 0 ? MINUS : "") + (isFinite(value) ? shortSize(size) : "Inf");
}

function shortSize(size: number): string {
  if (!size) return "0";
  const whole = size >= 10 ** (MAX_WHOLE_DIGITS - 1) && size < 10 ** MAX_WHOLE_DIGITS;
  const [all, power] = rounded(size, whole ? MAX_WHOLE_DIGITS : SHORT_DIGITS);
  const digits = all.replace(/0+$/, "");
  if (power >= MIN_PLAIN_POWER && power < MAX_WHOLE_DIGITS) return positional(digits, power);
  return `${digits[0]}${digits.length > 1 ? "." : ""}${digits.slice(1)}e${power < 0 ? MINUS : ""}${Math.abs(power)}`;
}

/** Write a value for people; with a number of digits, as Python's `%g` does. */
export function number(value: Value, most?: number): string {
  if (most === undefined || typeof value !== "number") return short(value);
  const special = notFinite(value);
  if (special !== null) return special;
  const [digits, exponent] = rounded(Math.abs(value), most);
  const plain = digits.replace(/0+$/, "") || "0";
  return signOf(value) + (exponent < -4 || exponent >= most ? scientific(plain, exponent) : positional(plain, exponent));
}

/** Write a value to stand beside a sign of arithmetic: a negative one in parentheses. */
export function operand(value: Value): string {
  const text = short(value);
  return text.startsWith(MINUS) ? `(${text})` : text;
}

/** Write a value so that it is read back exactly, in the shortest way, as Python's `repr`. */
export function exact(value: Value): string {
  if (typeof value !== "number") return short(value);
  const special = notFinite(value);
  if (special !== null) return special;
  const [digits, exponent] = digitsOf(Math.abs(value));
  if (exponent < -4 || exponent >= 16) return signOf(value) + scientific(digits, exponent);
  const text = positional(digits, exponent);
  return signOf(value) + (text.includes(".") ? text : `${text}.0`);
}

/** The number that a value is, of an array the norm; NaN where there is none. */
export function sizeOf(value: Value | null): number {
  return value === null ? NaN : typeof value === "object" ? value.norm : Number(value);
}

function notFinite(value: number): string | null {
  if (isNaN(value)) return "nan";
  return isFinite(value) ? null : value > 0 ? "inf" : "-inf";
}

function signOf(value: number): string {
  return value < 0 || Object.is(value, -0) ? "-" : "";
}

/** The first digits of a positive number, rounded half to even, and the power of ten of the first. */
function rounded(value: number, most: number): [string, number] {
  // JavaScript rounds a tie up. Few numbers end in 5 at one digit more; only those are worth writing out.
  const [all, power] = digitsOf(value, digitsOf(value, most + 1)[0].endsWith("5") ? 100 : most);
  const down = /^50*$/.test(all.slice(most)) && Number(all[most - 1]) % 2 === 0;
  return down ? [all.slice(0, most), power] : digitsOf(value, most);
}

function digitsOf(value: number, count?: number): [string, number] {
  const [mantissa, power] = value.toExponential(count && count - 1).split("e") as [string, string];
  return [mantissa.replace(".", ""), Number(power)];
}

function scientific(digits: string, exponent: number): string {
  const rest = digits.slice(1);
  const power = String(Math.abs(exponent)).padStart(2, "0");
  return `${digits[0]}${rest ? `.${rest}` : ""}e${exponent < 0 ? "-" : "+"}${power}`;
}

function positional(digits: string, exponent: number): string {
  if (exponent < 0) return `0.${"0".repeat(-exponent - 1)}${digits}`;
  const whole = digits.padEnd(exponent + 1, "0");
  const rest = whole.slice(exponent + 1);
  return whole.slice(0, exponent + 1) + (rest ? `.${rest}` : "");
}

/** Whether a value or gradient is not finite everywhere; what is absent, or no number, is fine. */
export function isBad(value: Value | null | undefined): boolean {
  if (typeof value === "object" && value !== null) return value.bad > 0;
  return typeof value === "number" && !isFinite(value);
}

/** Whether a value or gradient is NaN, of an array any of it. */
export function isNan(value: Value): boolean {
  return isBad(value) && isNaN(sizeOf(value));
}

/** A number that a person typed; null where it is none. */
export function typedNumber(text: string): number | null {
  const plain = text.trim().replace("−", "-").replace(/^(-?\d*),(\d+)$/, "$1.$2");
  if (/^[+-]?(inf|infinity)$/i.test(plain)) return plain.startsWith("-") ? -Infinity : Infinity;
  if (/^nan$/i.test(plain)) return NaN;
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain) ? Number(plain) : null;
}
