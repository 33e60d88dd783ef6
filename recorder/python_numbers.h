/* Functions of numbers as Python computes them; `raised` is set where Python would raise. Included by recorder.c. */

#define MATH_FUNCTION(name, function)                                                          \
    static inline double math_##name(double x, int *raised)                                    \
    {                                                                                          \
        const double y = function(x);                                                          \
        if (!isfinite(y) && ((isnan(y) && !isnan(x)) || (isinf(y) && isfinite(x))))            \
            *raised = 1;                                                                       \
        return y;                                                                              \
    }

MATH_FUNCTION(exp, exp)
MATH_FUNCTION(exp2, exp2)
MATH_FUNCTION(expm1, expm1)
MATH_FUNCTION(log, log)
MATH_FUNCTION(log2, log2)
MATH_FUNCTION(log10, log10)
MATH_FUNCTION(log1p, log1p)
MATH_FUNCTION(sqrt, sqrt)
MATH_FUNCTION(cbrt, cbrt)
MATH_FUNCTION(sin, sin)
MATH_FUNCTION(cos, cos)
MATH_FUNCTION(tan, tan)
MATH_FUNCTION(asin, asin)
MATH_FUNCTION(acos, acos)
MATH_FUNCTION(atan, atan)
MATH_FUNCTION(sinh, sinh)
MATH_FUNCTION(cosh, cosh)
MATH_FUNCTION(tanh, tanh)
MATH_FUNCTION(asinh, asinh)
MATH_FUNCTION(acosh, acosh)
MATH_FUNCTION(atanh, atanh)
MATH_FUNCTION(erf, erf)
MATH_FUNCTION(erfc, erfc)

#define WHOLE_FUNCTION(name, function)                                                         \
    static inline double name(double x, int *raised)                                           \
    {                                                                                          \
        if (!isfinite(x))                                                                      \
            *raised = 1;                                                                       \
        return function(x);                                                                    \
    }

WHOLE_FUNCTION(math_floor, floor)
WHOLE_FUNCTION(math_ceil, ceil)
WHOLE_FUNCTION(math_trunc, trunc)
WHOLE_FUNCTION(python_round, rint)

static inline double python_abs(double x, int *raised)
{
    (void)raised;
    return fabs(x);
}

static inline double math_atan2(double a, double b, int *raised)
{
    (void)raised;
    return atan2(a, b);
}

static inline double math_copysign(double a, double b, int *raised)
{
    (void)raised;
    return copysign(a, b);
}

static inline double math_pow(double a, double b, int *raised)
{
    /* Exact, so every pow returns it; slopes of squares ask for it. */
    if (b == 1.0)
        return a;
    const double y = pow(a, b);
    if (!isfinite(y) && isfinite(a) && isfinite(b))
        *raised = 1;
    return y;
}

static inline double python_divide(double a, double b, int *raised)
{
    if (b == 0.0)
        *raised = 1;
    return a / b;
}

static inline double python_floor_divide(double a, double b, int *raised)
{
    if (b == 0.0) {
        *raised = 1;
        return 0.0;
    }
    double rest = fmod(a, b);
    double quotient = (a - rest) / b;
    if (rest != 0.0 && (b < 0.0) != (rest < 0.0))
        quotient -= 1.0;
    if (quotient == 0.0)
        return copysign(0.0, a / b);
    const double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1.0 : whole;
}

static inline double python_remain(double a, double b, int *raised)
{
    if (b == 0.0) {
        *raised = 1;
        return 0.0;
    }
    const double rest = fmod(a, b);
    if (rest == 0.0)
        return copysign(0.0, b);
    return (b < 0.0) != (rest < 0.0) ? rest + b : rest;
}

/* Python's hypot is not the C library's, and differs between versions: so it is called. */
static PyObject *hypot_function;

static double math_hypot(double a, double b, int *raised)
{
    PyObject *result = PyObject_CallFunction(hypot_function, "dd", a, b);
    if (result == NULL) {
        PyErr_Clear();
        *raised = 1;
        return 0.0;
    }
    const double y = PyFloat_AsDouble(result);
    Py_DECREF(result);
    return y;
}
