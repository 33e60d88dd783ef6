// Value and gradient of o, written by wiregrad from a circuit of 5 nodes.

/** Returns {value, grads}. x: an object with x1, w1, x2, w2, b. */
export function valueAndGrad(x) {
  for (const name of ["x1", "w1", "x2", "w2", "b"]) {
    if (typeof x[name] !== "number") throw new TypeError(`input ${name} must be a number; got ${typeof x[name]}`);
  }
  const x1 = x.x1;
  const w1 = x.w1;
  const x2 = x.x2;
  const w2 = x.w2;
  const b = x.b;
  // forward
  const t1 = x1 * w1;      // multiply
  const t2 = x2 * w2;      // multiply
  const t3 = t1 + t2;      // add
  const n = t3 + b;        // add
  const o = Math.tanh(n);  // tanh
  // backward
  const d_o = 1.0;                  // seed
  const d_n = d_o * (1.0 - o * o);  // tanh scales
  const d_b = d_n;                  // add distributes
  const d_t3 = d_n;                 // add distributes
  const d_t2 = d_t3;                // add distributes
  const d_t1 = d_t3;                // add distributes
  const d_w2 = d_t2 * x2;           // multiply swaps
  const d_x2 = d_t2 * w2;           // multiply swaps
  const d_w1 = d_t1 * x1;           // multiply swaps
  const d_x1 = d_t1 * w1;           // multiply swaps
  return { value: o, grads: { x1: d_x1, w1: d_w1, x2: d_x2, w2: d_w2, b: d_b } };
}
