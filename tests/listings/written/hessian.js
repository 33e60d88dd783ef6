// Value, gradient and Hessian of f, written by wiregrad from a circuit of 4 nodes.

/** Returns {value, grads, hessian}. x: an object with a, b. */
export function hessian(x) {
  for (const name of ["a", "b"]) {
    if (typeof x[name] !== "number") throw new TypeError(`input ${name} must be a number; got ${typeof x[name]}`);
  }
  const a = x.a;
  const b = x.b;
  // forward
  const t1 = a * a;        // multiply
  const t2 = t1 * b;       // multiply
  const t3 = Math.sin(b);  // sin
  const f = t2 + t3;       // add
  const t6 = Math.cos(b);  // cos
  const grad_b = t6 + t1;  // add
  const t8 = b * a;        // multiply
  const grad_a = t8 + t8;  // add
  // backward from grad_a
  const d_grad_a_grad_a = 1.0;         // seed
  let d_grad_a_t8 = d_grad_a_grad_a;   // add distributes
  d_grad_a_t8 += d_grad_a_grad_a;      // add distributes
  const d_grad_a_a = d_grad_a_t8 * b;  // multiply swaps
  const d_grad_a_b = d_grad_a_t8 * a;  // multiply swaps
  // backward from grad_b
  const d_grad_b_grad_b = 1.0;                  // seed
  const d_grad_b_t1 = d_grad_b_grad_b;          // add distributes
  const d_grad_b_t6 = d_grad_b_grad_b;          // add distributes
  const d_grad_b_b = d_grad_b_t6 * (-Math.sin(b));  // cos scales
  let d_grad_b_a = d_grad_b_t1 * a;             // multiply swaps
  d_grad_b_a += d_grad_b_t1 * a;                // multiply swaps
  return { value: f, grads: { a: grad_a, b: grad_b }, hessian: { a: { a: d_grad_a_a, b: d_grad_a_b }, b: { a: d_grad_b_a, b: d_grad_b_b } } };
}
