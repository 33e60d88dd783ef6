// Value and gradient of y, written by wiregrad from a circuit of 2 nodes.
// x: a, b
// grad: the gradient, in the same order
#ifdef __CUDACC_RTC__
#define NAN __int_as_float(0x7fffffff)
#define INFINITY __int_as_float(0x7f800000)
#else
#include <math.h>
#endif

// The larger of two wires; NaN if one is NaN; half the gradient each on a tie.
__device__ static double maximum(double a, double b) {
    return a > b || a != a ? a : b;
}

__device__ static double value_and_grad(const double *x, double *grad) {
    const double a = x[0];
    const double b = x[1];
    // forward
    const double t1 = a <= 0.0 ? 0.0 : a;  // relu
    const double y = maximum(t1, b);       // maximum
    // backward
    const double d_y = 1.0;                       // seed
    const double s1 = d_y * (t1 == b ? 0.5 : y != y ? NAN : 1.0);  // maximum
    const double d_b = b < t1 ? 0.0 : s1;         // maximum routes
    const bool m1 = !(t1 < b);                    // maximum lets through
    const double d_t1 = m1 ? s1 : 0.0;            // maximum routes
    const double d_a = m1 && !(a <= 0.0) ? (a != a ? NAN : d_t1) : 0.0;  // relu routes
    grad[0] = d_a;
    grad[1] = d_b;
    return y;
}

// One thread for each of n points; number k of point i stands at k * n + i.
extern "C" __global__ void value_and_grad_batch(long n, const double *x, double *value, double *grad) {
    const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double point[2];
    for (long k = 0; k < 2; k++) point[k] = x[k * n + i];
    double grad_here[2];
    value[i] = value_and_grad(point, grad_here);
    for (long k = 0; k < 2; k++) grad[k * n + i] = grad_here[k];
}
