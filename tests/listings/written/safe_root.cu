// Value and gradient of y, written by wiregrad from a circuit of 3 nodes.
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
