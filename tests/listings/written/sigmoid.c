// Value and gradient of L, written by wiregrad from a circuit of 5 nodes.
// x: w0, x0, w1, x1, w2
// grad: the gradient, in the same order
#include <math.h>
#include <stdbool.h>

// 1 / (1 + exp(-x)) without overflow.
static double sigmoid(double x) {
    return x >= 0.0 ? 1.0 / (1.0 + exp(-x)) : exp(x) / (1.0 + exp(x));
}

double value_and_grad(const double *x, double *grad) {
    const double w0 = x[0];
    const double x0 = x[1];
    const double w1 = x[2];
    const double x1 = x[3];
    const double w2 = x[4];
    // forward
    const double t1 = w0 * x0;     // multiply
    const double t2 = w1 * x1;     // multiply
    const double t3 = t1 + t2;     // add
    const double t4 = t3 + w2;     // add
    const double L = sigmoid(t4);  // sigmoid
    // backward
    const double d_L = 1.0;                     // seed
    const double d_t4 = d_L * (L * (1.0 - L));  // sigmoid scales
    const double d_w2 = d_t4;                   // add distributes
    const double d_t3 = d_t4;                   // add distributes
    const double d_t2 = d_t3;                   // add distributes
    const double d_t1 = d_t3;                   // add distributes
    const double d_x1 = d_t2 * w1;              // multiply swaps
    const double d_w1 = d_t2 * x1;              // multiply swaps
    const double d_x0 = d_t1 * w0;              // multiply swaps
    const double d_w0 = d_t1 * x0;              // multiply swaps
    grad[0] = d_w0;
    grad[1] = d_x0;
    grad[2] = d_w1;
    grad[3] = d_x1;
    grad[4] = d_w2;
    return L;
}
