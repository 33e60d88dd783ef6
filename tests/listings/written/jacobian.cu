// Jacobian of x, y, written by wiregrad from a circuit of 4 nodes.
// x: r, t
// jac: a row for each output: x, y
#ifdef __CUDACC_RTC__
#define NAN __int_as_float(0x7fffffff)
#define INFINITY __int_as_float(0x7f800000)
#else
#include <math.h>
#endif

__device__ static void jacobian(const double *x, double *jac) {
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

// One thread for each of n points; number k of point i stands at k * n + i.
extern "C" __global__ void jacobian_batch(long n, const double *x, double *jac) {
    const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double point[2];
    for (long k = 0; k < 2; k++) point[k] = x[k * n + i];
    double jac_here[4];
    jacobian(point, jac_here);
    for (long k = 0; k < 4; k++) jac[k * n + i] = jac_here[k];
}
