// Jacobian of x, y, written by wiregrad from a circuit of 4 nodes.
// x: r, t
// jac: a row for each output: x, y
#include <math.h>
#include <stdbool.h>

void jacobian(const double *x, double *jac) {
    const double r = x[0];
    const double t = x[1];
    // forward
    const double t2 = cos(t);  // cos
    const double t4 = sin(t);  // sin
    // backward from x
    const double d_x_x = 1.0;                 // seed
    const double d_x_t2 = d_x_x * r;          // multiply swaps
    const double d_x_r = d_x_x * t2;          // multiply swaps
    const double d_x_t = d_x_t2 * (-sin(t));  // cos scales
    // backward from y
    const double d_y_y = 1.0;              // seed
    const double d_y_t4 = d_y_y * r;       // multiply swaps
    const double d_y_r = d_y_y * t4;       // multiply swaps
    const double d_y_t = d_y_t4 * cos(t);  // sin scales
    jac[0] = d_x_r;
    jac[1] = d_x_t;
    jac[2] = d_y_r;
    jac[3] = d_y_t;
}
