// Value and gradient of f, written by wiregrad from a circuit of 2 nodes.
// inputs: x, y, z
// grad: the gradient, in the same order
#ifdef __CUDACC_RTC__
#define NAN __int_as_float(0x7fffffff)
#define INFINITY __int_as_float(0x7f800000)
#else
#include <math.h>
#endif

__device__ static double value_and_grad(const double *inputs, double *grad) {
    const double x = inputs[0];
    const double y = inputs[1];
    const double z = inputs[2];
    // forward
    const double q = x + y;  // add
    const double f = q * z;  // multiply
    // backward
    const double d_f = 1.0;      // seed
    const double d_z = d_f * q;  // multiply swaps
    const double d_q = d_f * z;  // multiply swaps
    const double d_y = d_q;      // add distributes
    const double d_x = d_q;      // add distributes
    grad[0] = d_x;
    grad[1] = d_y;
    grad[2] = d_z;
    return f;
}

// One thread for each of n points; number k of point i stands at k * n + i.
extern "C" __global__ void value_and_grad_batch(long n, const double *x, double *value, double *grad) {
    const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double point[3];
    for (long k = 0; k < 3; k++) point[k] = x[k * n + i];
    double grad_here[3];
    value[i] = value_and_grad(point, grad_here);
    for (long k = 0; k < 3; k++) grad[k * n + i] = grad_here[k];
}
