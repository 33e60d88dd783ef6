// Value and gradient of f, written by wiregrad from a circuit of 2 nodes.

/** Returns {value, grads}. x: an object with a, b, c. */
export function valueAndGrad(x) {
  for (const name of ["a", "b", "c"]) {
    if (typeof x[name] !== "number") throw new TypeError(`input ${name} must be a number; got ${typeof x[name]}`);
  }
  const a = x.a;
  const b = x.b;
  const c = x.c;
  // forward
  const e = a + b;  // add
  const f = e * c;  // multiply
  // backward
  const d_f = 1.0;      // seed
  const d_c = d_f * e;  // multiply swaps
  const d_e = d_f * c;  // multiply swaps
  const d_b = d_e;      // add distributes
  const d_a = d_e;      // add distributes
  return { value: f, grads: { a: d_a, b: d_b, c: d_c } };
}
