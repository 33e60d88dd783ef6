// Value, gradient and Hessian of f, written by wiregrad from a circuit of 4 nodes.
// x: a, b
// grad: the gradient, in the same order
// hess: a row for each input
#ifdef __CUDACC_RTC__
#define NAN __int_as_float(0x7fffffff)
#define INFINITY __int_as_float(0x7f800000)
#else
#include <math.h>
#endif

__device__ static double hessian(const double *x, double *grad, double *hess) {
    const double a = x[0];
    const double b = x[1];
    // forward
    const double t1 = a * a;        // multiply
    const double t2 = t1 * b;       // multiply
    const double t3 = sin(b);       // sin
    const double f = t2 + t3;       // add
    const double t6 = cos(b);       // cos
    const double grad_b = t6 + t1;  // add
    const double t8 = b * a;        // multiply
    const double grad_a = t8 + t8;  // add
    // backward from grad_a
    const double d_grad_a_grad_a = 1.0;         // seed
    double d_grad_a_t8 = d_grad_a_grad_a;       // add distributes
    d_grad_a_t8 += d_grad_a_grad_a;             // add distributes
    const double d_grad_a_a = d_grad_a_t8 * b;  // multiply swaps
    const double d_grad_a_b = d_grad_a_t8 * a;  // multiply swaps
    // backward from grad_b
    const double d_grad_b_grad_b = 1.0;           // seed
    const double d_grad_b_t1 = d_grad_b_grad_b;   // add distributes
    const double d_grad_b_t6 = d_grad_b_grad_b;   // add distributes
    const double d_grad_b_b = d_grad_b_t6 * (-sin(b));  // cos scales
    double d_grad_b_a = d_grad_b_t1 * a;          // multiply swaps
    d_grad_b_a += d_grad_b_t1 * a;                // multiply swaps
    grad[0] = grad_a;
    grad[1] = grad_b;
    hess[0] = d_grad_a_a;
    hess[1] = d_grad_a_b;
    hess[2] = d_grad_b_a;
    hess[3] = d_grad_b_b;
    return f;
}

// One thread for each of n points; number k of point i stands at k * n + i.
extern "C" __global__ void hessian_batch(long n, const double *x, double *value, double *grad, double *hess) {
    const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double point[2];
    for (long k = 0; k < 2; k++) point[k] = x[k * n + i];
    double grad_here[2];
    double hess_here[4];
    value[i] = hessian(point, grad_here, hess_here);
    for (long k = 0; k < 2; k++) grad[k * n + i] = grad_here[k];
    for (long k = 0; k < 4; k++) hess[k * n + i] = hess_here[k];
}
