// Value and gradient of y, written by wiregrad from a circuit of 2 nodes.
// inputs: x
// grad: the gradient, in the same order
#include <math.h>
#include <stdbool.h>

double value_and_grad(const double *inputs, double *grad) {
    const double x = inputs[0];
    // forward
    const double t1 = x * x;  // multiply
    const double y = t1 + x;  // add
    // backward
    const double d_y = 1.0;   // seed
    double d_x = d_y;         // add distributes
    const double d_t1 = d_y;  // add distributes
    d_x += d_t1 * x;          // multiply swaps
    d_x += d_t1 * x;          // multiply swaps
    grad[0] = d_x;
    return y;
}
