// Value and gradient of L, written by wiregrad from a circuit of 5 nodes.

/** 1 / (1 + exp(-x)) without overflow. */
function sigmoid(x) {
  return x >= 0.0 ? 1.0 / (1.0 + Math.exp(-x)) : Math.exp(x) / (1.0 + Math.exp(x));
}

/** Returns {value, grads}. x: an object with w0, x0, w1, x1, w2. */
export function valueAndGrad(x) {
  for (const name of ["w0", "x0", "w1", "x1", "w2"]) {
    if (typeof x[name] !== "number") throw new TypeError(`input ${name} must be a number; got ${typeof x[name]}`);
  }
  const w0 = x.w0;
  const x0 = x.x0;
  const w1 = x.w1;
  const x1 = x.x1;
  const w2 = x.w2;
  // forward
  const t1 = w0 * x0;     // multiply
  const t2 = w1 * x1;     // multiply
  const t3 = t1 + t2;     // add
  const t4 = t3 + w2;     // add
  const L = sigmoid(t4);  // sigmoid
  // backward
  const d_L = 1.0;                     // seed
  const d_t4 = d_L * (L * (1.0 - L));  // sigmoid scales
  const d_w2 = d_t4;                   // add distributes
  const d_t3 = d_t4;                   // add distributes
  const d_t2 = d_t3;                   // add distributes
  const d_t1 = d_t3;                   // add distributes
  const d_x1 = d_t2 * w1;              // multiply swaps
  const d_w1 = d_t2 * x1;              // multiply swaps
  const d_x0 = d_t1 * w0;              // multiply swaps
  const d_w0 = d_t1 * x0;              // multiply swaps
  return { value: L, grads: { w0: d_w0, x0: d_x0, w1: d_w1, x1: d_x1, w2: d_w2 } };
}
