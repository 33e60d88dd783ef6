// Value and gradient of f, written by wiregrad from a circuit of 2 nodes.
// x: a, b, c
// grad: the gradient, in the same order
#include <math.h>
#include <stdbool.h>

double value_and_grad(const double *x, double *grad) {
    const double a = x[0];
    const double b = x[1];
    const double c = x[2];
    // forward
    const double e = a + b;  // add
    const double f = e * c;  // multiply
    // backward
    const double d_f = 1.0;      // seed
    const double d_c = d_f * e;  // multiply swaps
    const double d_e = d_f * c;  // multiply swaps
    const double d_b = d_e;      // add distributes
    const double d_a = d_e;      // add distributes
    grad[0] = d_a;
    grad[1] = d_b;
    grad[2] = d_c;
    return f;
}
