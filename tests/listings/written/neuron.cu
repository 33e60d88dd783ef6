// Value and gradient of o, written by wiregrad from a circuit of 5 nodes.
// x: x1, w1, x2, w2, b
// grad: the gradient, in the same order
#ifdef __CUDACC_RTC__
#define NAN __int_as_float(0x7fffffff)
#define INFINITY __int_as_float(0x7f800000)
#else
#include <math.h>
#endif

__device__ static double value_and_grad(const double *x, double *grad) {
    const double x1 = x[0];
    const double w1 = x[1];
    const double x2 = x[2];
    const double w2 = x[3];
    const double b = x[4];
    // forward
    const double t1 = x1 * w1;  // multiply
    const double t2 = x2 * w2;  // multiply
    const double t3 = t1 + t2;  // add
    const double n = t3 + b;    // add
    const double o = tanh(n);   // tanh
    // backward
    const double d_o = 1.0;                  // seed
    const double d_n = d_o * (1.0 - o * o);  // tanh scales
    const double d_b = d_n;                  // add distributes
    const double d_t3 = d_n;                 // add distributes
    const double d_t2 = d_t3;                // add distributes
    const double d_t1 = d_t3;                // add distributes
    const double d_w2 = d_t2 * x2;           // multiply swaps
    const double d_x2 = d_t2 * w2;           // multiply swaps
    const double d_w1 = d_t1 * x1;           // multiply swaps
    const double d_x1 = d_t1 * w1;           // multiply swaps
    grad[0] = d_x1;
    grad[1] = d_w1;
    grad[2] = d_x2;
    grad[3] = d_w2;
    grad[4] = d_b;
    return o;
}

// One thread for each of n points; number k of point i stands at k * n + i.
extern "C" __global__ void value_and_grad_batch(long n, const double *x, double *value, double *grad) {
    const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double point[5];
    for (long k = 0; k < 5; k++) point[k] = x[k * n + i];
    double grad_here[5];
    value[i] = value_and_grad(point, grad_here);
    for (long k = 0; k < 5; k++) grad[k * n + i] = grad_here[k];
}
