// Value and gradient of y, written by wiregrad from a circuit of 2 nodes.
// inputs: x
// grad: the gradient, in the same order
#ifdef __CUDACC_RTC__
#define NAN __int_as_float(0x7fffffff)
#define INFINITY __int_as_float(0x7f800000)
#else
#include <math.h>
#endif

__device__ static double value_and_grad(const double *inputs, double *grad) {
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

// One thread for each of n points; number k of point i stands at k * n + i.
extern "C" __global__ void value_and_grad_batch(long n, const double *x, double *value, double *grad) {
    const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double point[1];
    for (long k = 0; k < 1; k++) point[k] = x[k * n + i];
    double grad_here[1];
    value[i] = value_and_grad(point, grad_here);
    for (long k = 0; k < 1; k++) grad[k * n + i] = grad_here[k];
}
