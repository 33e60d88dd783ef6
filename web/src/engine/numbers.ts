/**
 * Numbers as text, the way Python writes them: `number` for people (six digits), `exact` so that it is read back.
 */
import type { Value } from "../types";

const DIGITS = 6;

/** Write a value for people: six digits, no trailing zeros, as Python's `%.6g`. */
export function number(value: Value): string {
  if (typeof value === "object") return value.text;
  if (typeof value === "boolean") return String(value);
  const special = notFinite(value);
  if (special !== null) return special;
  const [digits, exponent] = rounded(Math.abs(value));
  const sign = value < 0 || Object.is(value, -0) ? "-" : "";
  const plain = digits.replace(/0+$/, "") || "0";
  return sign + (exponent < -4 || exponent >= DIGITS ? scientific(plain, exponent) : positional(plain, exponent));
}

/** Write a value to stand beside a sign of arithmetic: a negative one in parentheses. */
export function operand(value: Value): string {
  const text = number(value);
  return text.startsWith("-") ? `(${text})` : text;
}

/** Write a value so that it is read back exactly, in the shortest way, as Python's `repr`. */
export function exact(value: Value): string {
  if (typeof value !== "number") return number(value);
  const special = notFinite(value);
  if (special !== null) return special;
  const [mantissa, power] = Math.abs(value).toExponential().split("e") as [string, string];
  const [digits, exponent] = [mantissa.replace(".", ""), Number(power)];
  const sign = value < 0 || Object.is(value, -0) ? "-" : "";
  if (exponent < -4 || exponent >= 16) return sign + scientific(digits, exponent);
  const text = positional(digits, exponent);
  return sign + (text.includes(".") ? text : `${text}.0`);
}

function notFinite(value: number): string | null {
  if (Number.isNaN(value)) return "nan";
  return Number.isFinite(value) ? null : value > 0 ? "inf" : "-inf";
}

/** The six digits of a positive number, rounded half to even, and the power of ten of the first. */
function rounded(value: number): [string, number] {
  const [mantissa, power] = value.toExponential(DIGITS - 1).split("e") as [string, string];
  const digits = mantissa.replace(".", "");
  if (!isTie(value) || Number(digits.at(-1)) % 2 === 0) return [digits, Number(power)];
  // JavaScript rounds a tie up, Python to the even digit, which is the one below.
  const [below, same] = value.toExponential(DIGITS).split("e") as [string, string];
  return [below.replace(".", "").slice(0, DIGITS), Number(same)];
}

/** Whether a number lies exactly halfway between two of six digits: it has seven, and the last is 5. */
function isTie(value: number): boolean {
  // Few numbers end in 5 when rounded to seven digits; only those are worth writing out.
  return /5e/.test(value.toExponential(DIGITS)) && /^\d\.\d{5}50*e/.test(value.toExponential(99));
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
