// Value and gradient of f, written by wiregrad from a circuit of 10 nodes.
// inputs: w1[2][3] at 0, b1[3] at 6, w2[3][1] at 9, x[4][2] at 12, target[4][1] at 20
// grad: the gradient, in the same order
#include <math.h>
#include <stdbool.h>

double value_and_grad(const double *inputs, double *grad) {
    const double *w1 = inputs;
    const double *b1 = inputs + 6;
    const double *w2 = inputs + 9;
    const double *x = inputs + 12;
    const double *target = inputs + 20;
    double t5[12], t7[12], hidden[12], guess[4], t10[4], t13[4], d_t10[4], d_target[4], d_w2[3],
        d_hidden[12], d_t7[12], d_b1[3], d_w1[6], d_x[8];
    // forward
    for (int i = 0; i < 12; i++) t5[i] = 0.0;     // matmul, model.py:5
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2; k++)
            for (int j = 0; j < 3; j++)
                t5[i * 3 + j] += x[i * 2 + k] * w1[k * 3 + j];
    // t6[i * 3 + j] is b1[j] (spread)
    for (int i = 0; i < 4; i++)                   // add, model.py:5
        for (int j = 0; j < 3; j++)
            t7[i * 3 + j] = t5[i * 3 + j] + b1[j];
    for (int i = 0; i < 12; i++) hidden[i] = tanh(t7[i]);  // tanh, model.py:5
    for (int i = 0; i < 4; i++) guess[i] = 0.0;   // matmul, model.py:6
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++)
            guess[i] += hidden[i * 3 + k] * w2[k];
    for (int i = 0; i < 4; i++) t10[i] = guess[i] - target[i];  // subtract, model.py:7
    for (int i = 0; i < 4; i++) t13[i] = pow(t10[i], 2.0);  // power, model.py:7
    // mean
    double t14 = 0.0;                             // sum, model.py:7
    for (int i = 0; i < 4; i++) t14 += t13[i];
    const double f = t14 / 4.0;                   // divide, model.py:7
    // backward
    const double d_f = 1.0;                       // seed
    // mean
    const double d_t14 = d_f * 0.25;              // divide scales, model.py:7
    // d_t13[i] is d_t14 (sum distributes)
    for (int i = 0; i < 4; i++) d_t10[i] = t13[i] != t13[i] ? NAN : d_t14 * (2.0 * t10[i]);  // power scales, model.py:7
    for (int i = 0; i < 4; i++) d_target[i] = -d_t10[i];  // subtract distributes, model.py:7
    // d_guess is d_t10 (subtract distributes)
    for (int i = 0; i < 3; i++) d_w2[i] = 0.0;    // matmul swaps, model.py:6
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++)
            d_w2[i] += hidden[i + k * 3] * d_t10[k];
    for (int i = 0; i < 4; i++)                   // matmul swaps, model.py:6
        for (int j = 0; j < 3; j++)
            d_hidden[i * 3 + j] = d_t10[i] * w2[j];
    for (int i = 0; i < 12; i++) d_t7[i] = d_hidden[i] * (1.0 - hidden[i] * hidden[i]);  // tanh scales, model.py:5
    // d_t6 is d_t7 (add distributes)
    // d_t5 is d_t7 (add distributes)
    for (int i = 0; i < 3; i++) d_b1[i] = 0.0;    // spread distributes, model.py:5
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 3; j++)
            d_b1[j] += d_t7[i * 3 + j];
    for (int i = 0; i < 6; i++) d_w1[i] = 0.0;    // matmul swaps, model.py:5
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 4; k++)
            for (int j = 0; j < 3; j++)
                d_w1[i * 3 + j] += x[i + k * 2] * d_t7[k * 3 + j];
    for (int i = 0; i < 8; i++) d_x[i] = 0.0;     // matmul swaps, model.py:5
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++)
            for (int j = 0; j < 2; j++)
                d_x[i * 2 + j] += d_t7[i * 3 + k] * w1[k + j * 3];
    for (int i = 0; i < 6; i++) grad[i] = d_w1[i];
    for (int i = 0; i < 3; i++) grad[i + 6] = d_b1[i];
    for (int i = 0; i < 3; i++) grad[i + 9] = d_w2[i];
    for (int i = 0; i < 8; i++) grad[i + 12] = d_x[i];
    for (int i = 0; i < 4; i++) grad[i + 20] = d_target[i];
    return f;
}
