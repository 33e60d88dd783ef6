// Value and gradient of y, written by wiregrad from a circuit of 2 nodes.

/** The larger of two wires; NaN if one is NaN; half the gradient each on a tie. */
function maximum(a, b) {
  return a > b || a !== a ? a : b;
}

/** Returns {value, grads}. x: an object with a, b. */
export function valueAndGrad(x) {
  for (const name of ["a", "b"]) {
    if (typeof x[name] !== "number") throw new TypeError(`input ${name} must be a number; got ${typeof x[name]}`);
  }
  const a = x.a;
  const b = x.b;
  // forward
  const t1 = a <= 0.0 ? 0.0 : a;  // relu
  const y = maximum(t1, b);       // maximum
  // backward
  const d_y = 1.0;                              // seed
  const s1 = d_y * (t1 === b ? 0.5 : y !== y ? NaN : 1.0);  // maximum
  const d_b = b < t1 ? 0.0 : s1;                // maximum routes
  const m1 = !(t1 < b);                         // maximum lets through
  const d_t1 = m1 ? s1 : 0.0;                   // maximum routes
  const d_a = m1 && !(a <= 0.0) ? (a !== a ? NaN : d_t1) : 0.0;  // relu routes
  return { value: y, grads: { a: d_a, b: d_b } };
}
