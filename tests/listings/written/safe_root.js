// Value and gradient of y, written by wiregrad from a circuit of 3 nodes.

/** Returns {value, grads}. inputs: an object with x. */
export function valueAndGrad(inputs) {
  for (const name of ["x"]) {
    if (typeof inputs[name] !== "number") throw new TypeError(`input ${name} must be a number; got ${typeof inputs[name]}`);
  }
  const x = inputs.x;
  // forward
  const t1 = x > 0.0;       // greater
  const t2 = Math.sqrt(x);  // sqrt
  const y = t1 ? t2 : 0.0;  // where
  // backward
  const d_y = 1.0;                              // seed
  const d_t2 = t1 ? d_y : 0.0;                  // where routes
  const d_x = t1 ? d_t2 * (0.5 / (t2 + 0.0)) : 0.0;  // sqrt scales
  return { value: y, grads: { x: d_x } };
}
