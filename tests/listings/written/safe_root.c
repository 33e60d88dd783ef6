// Value and gradient of y, written by wiregrad from a circuit of 3 nodes.
// inputs: x
// grad: the gradient, in the same order
#include <math.h>
#include <stdbool.h>

double value_and_grad(const double *inputs, double *grad) {
    const double x = inputs[0];
    // forward
    const bool t1 = x > 0.0;         // greater
    const double t2 = sqrt(x);       // sqrt
    const double y = t1 ? t2 : 0.0;  // where
    // backward
    const double d_y = 1.0;                       // seed
    const double d_t2 = t1 ? d_y : 0.0;           // where routes
    const double d_x = t1 ? d_t2 * (0.5 / (t2 + 0.0)) : 0.0;  // sqrt scales
    grad[0] = d_x;
    return y;
}
