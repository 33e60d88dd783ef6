// Value and gradient of f, written by wiregrad from a circuit of 2 nodes.
// inputs: x, y, z
// grad: the gradient, in the same order
#include <math.h>
#include <stdbool.h>

double value_and_grad(const double *inputs, double *grad) {
    const double x = inputs[0];
    const double y = inputs[1];
    const double z = inputs[2];
    // forward
    const double q = x + y;  // add
    const double f = q * z;  // multiply
    // backward
    const double d_f = 1.0;      // seed
    const double d_z = d_f * q;  // multiply swaps
    const double d_q = d_f * z;  // multiply swaps
    const double d_y = d_q;      // add distributes
    const double d_x = d_q;      // add distributes
    grad[0] = d_x;
    grad[1] = d_y;
    grad[2] = d_z;
    return f;
}
