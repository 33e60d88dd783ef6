// Value and gradient of f, written by wiregrad from a circuit of 2 nodes.

/** Returns {value, grads}. inputs: an object with x, y, z. */
export function valueAndGrad(inputs) {
  for (const name of ["x", "y", "z"]) {
    if (typeof inputs[name] !== "number") throw new TypeError(`input ${name} must be a number; got ${typeof inputs[name]}`);
  }
  const x = inputs.x;
  const y = inputs.y;
  const z = inputs.z;
  // forward
  const q = x + y;  // add
  const f = q * z;  // multiply
  // backward
  const d_f = 1.0;      // seed
  const d_z = d_f * q;  // multiply swaps
  const d_q = d_f * z;  // multiply swaps
  const d_y = d_q;      // add distributes
  const d_x = d_q;      // add distributes
  return { value: f, grads: { x: d_x, y: d_y, z: d_z } };
}
