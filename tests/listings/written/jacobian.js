// Jacobian of x, y, written by wiregrad from a circuit of 4 nodes.

/** Returns the gradient by input for each output. x: an object with r, t. */
export function jacobian(x) {
  for (const name of ["r", "t"]) {
    if (typeof x[name] !== "number") throw new TypeError(`input ${name} must be a number; got ${typeof x[name]}`);
  }
  const r = x.r;
  const t = x.t;
  // forward
  const t2 = Math.cos(t);  // cos
  const t4 = Math.sin(t);  // sin
  // backward from x
  const d_x_x = 1.0;                      // seed
  const d_x_t2 = d_x_x * r;               // multiply swaps
  const d_x_r = d_x_x * t2;               // multiply swaps
  const d_x_t = d_x_t2 * (-Math.sin(t));  // cos scales
  // backward from y
  const d_y_y = 1.0;                   // seed
  const d_y_t4 = d_y_y * r;            // multiply swaps
  const d_y_r = d_y_y * t4;            // multiply swaps
  const d_y_t = d_y_t4 * Math.cos(t);  // sin scales
  return { x: { r: d_x_r, t: d_x_t }, y: { r: d_y_r, t: d_y_t } };
}
