// Value and gradient of y, written by wiregrad from a circuit of 2 nodes.

/** Returns {value, grads}. inputs: an object with x. */
export function valueAndGrad(inputs) {
  for (const name of ["x"]) {
    if (typeof inputs[name] !== "number") throw new TypeError(`input ${name} must be a number; got ${typeof inputs[name]}`);
  }
  const x = inputs.x;
  // forward
  const t1 = x * x;  // multiply
  const y = t1 + x;  // add
  // backward
  const d_y = 1.0;   // seed
  let d_x = d_y;     // add distributes
  const d_t1 = d_y;  // add distributes
  d_x += d_t1 * x;   // multiply swaps
  d_x += d_t1 * x;   // multiply swaps
  return { value: y, grads: { x: d_x } };
}
