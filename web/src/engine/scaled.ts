/**
 * Numbers whose exponent has no bounds, so that products along long paths neither under- nor overflow. Within the range
 * of doubles, products and sums have the bits that doubles give.
 */

/** `mantissa * 2 ** exponent`, the mantissa between 1/2 and 1, 0 or not finite. */
export interface Scaled {
  mantissa: number;
  exponent: number;
}

const bytes = new DataView(new ArrayBuffer(8));
const SMALLEST_NORMAL = 2 ** -1022;

/** Take a double apart, as C's frexp does. */
export function scaled(x: number): Scaled {
  if (x === 0 || !isFinite(x)) return { mantissa: x, exponent: 0 };
  if (Math.abs(x) < SMALLEST_NORMAL) {
    const { mantissa, exponent } = scaled(x * 2 ** 54);
    return { mantissa, exponent: exponent - 54 };
  }
  bytes.setFloat64(0, x);
  const high = bytes.getUint32(0);
  bytes.setUint32(0, (high & 0x800fffff) | (1022 << 20));
  return { mantissa: bytes.getFloat64(0), exponent: ((high >>> 20) & 0x7ff) - 1022 };
}

/** Return a double, rounded once; what is too large is infinite. */
export function plain({ mantissa, exponent }: Scaled): number {
  if (exponent > 1024) return mantissa * Infinity || mantissa;
  if (exponent > 1000) return mantissa * 2 ** 1000 * 2 ** (exponent - 1000);
  if (exponent > -1000) return mantissa * 2 ** exponent;
  return mantissa * 2 ** -1000 * 2 ** Math.max(exponent + 1000, -1074);
}

/** Return the product. */
export function times(one: Scaled, two: Scaled): Scaled {
  const { mantissa, exponent } = scaled(one.mantissa * two.mantissa);
  return { mantissa, exponent: exponent + one.exponent + two.exponent };
}

/** Return the sum. */
export function plus(one: Scaled, two: Scaled): Scaled {
  if (!one.mantissa && !isNaN(one.mantissa)) return two;
  if (!two.mantissa && !isNaN(two.mantissa)) return one;
  const [low, high] = two.exponent < one.exponent ? [two, one] : [one, two];
  const shifted = plain({ mantissa: low.mantissa, exponent: low.exponent - high.exponent });
  const { mantissa, exponent } = scaled(high.mantissa + shifted);
  return { mantissa, exponent: exponent + high.exponent };
}

/** Return the quotient. */
export function over(one: Scaled, two: Scaled): Scaled {
  const { mantissa, exponent } = scaled(one.mantissa / two.mantissa);
  return { mantissa, exponent: exponent + one.exponent - two.exponent };
}

/** Return the size. */
export function sizeOf({ mantissa, exponent }: Scaled): Scaled {
  return { mantissa: Math.abs(mantissa), exponent };
}

/** Compare sizes, the larger first: NaN before inf before all others, 0 last. */
export function bySize(one: Scaled, two: Scaled): number {
  const [a, b] = [rank(one), rank(two)];
  return b[0] - a[0] || b[1] - a[1] || b[2] - a[2];
}

function rank({ mantissa, exponent }: Scaled): [number, number, number] {
  if (isNaN(mantissa)) return [3, 0, 0];
  if (!isFinite(mantissa)) return [2, 0, 0];
  return [Number(mantissa !== 0), exponent, Math.abs(mantissa)];
}
