// Value and gradient of L, written by wiregrad from a circuit of 5 nodes.
// x: w0, x0, w1, x1, w2
// grad: the gradient, in the same order
#ifdef __CUDACC_RTC__
#define NAN __int_as_float(0x7fffffff)
#define INFINITY __int_as_float(0x7f800000)
#else
#include <math.h>
#endif

// 1 / (1 + exp(-x)) without overflow.
__device__ static double sigmoid(double x) {
    return x >= 0.0 ? 1.0 / (1.0 + exp(-x)) : exp(x) / (1.0 + exp(x));
}

__device__ static double value_and_grad(const double *x, double *grad) {
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
