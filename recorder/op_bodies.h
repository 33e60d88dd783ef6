/* Written by tools/write_recorder.py from the op table; `make derive` writes it again. */

static inline int split_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = x;
    const double s0 = 1.0;
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int positive_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = x;
    const double s0 = 1.0;
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int negative_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = (-x);
    const double s0 = (-1.0);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int add_of_values(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (a + b);
    const double s0 = 1.0;
    const double s1 = 1.0;
    outcome->y = y;
    outcome->p = s0;
    outcome->q = s1;
    outcome->blocked = 0;
    return raised;
}

static inline int add_of_literal_second(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (a + b);
    const double s0 = 1.0;
    outcome->y = y;
    outcome->p = s0;
    outcome->q = b;
    outcome->blocked = 0;
    return raised;
}

static inline int add_of_literal_first(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (a + b);
    const double s1 = 1.0;
    outcome->y = y;
    outcome->p = a;
    outcome->q = s1;
    outcome->blocked = 0;
    return raised;
}

static inline int subtract_of_values(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (a - b);
    const double s0 = 1.0;
    const double s1 = (-1.0);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = s1;
    outcome->blocked = 0;
    return raised;
}

static inline int subtract_of_literal_second(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (a - b);
    const double s0 = 1.0;
    outcome->y = y;
    outcome->p = s0;
    outcome->q = b;
    outcome->blocked = 0;
    return raised;
}

static inline int subtract_of_literal_first(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (a - b);
    const double s1 = (-1.0);
    outcome->y = y;
    outcome->p = a;
    outcome->q = s1;
    outcome->blocked = 0;
    return raised;
}

static inline int multiply_of_values(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (a * b);
    outcome->y = y;
    outcome->p = b;
    outcome->q = a;
    outcome->blocked = 0;
    return raised;
}

static inline int multiply_of_literal_second(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (a * b);
    outcome->y = y;
    outcome->p = b;
    outcome->q = b;
    outcome->blocked = 0;
    return raised;
}

static inline int multiply_of_literal_first(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (a * b);
    outcome->y = y;
    outcome->p = a;
    outcome->q = a;
    outcome->blocked = 0;
    return raised;
}

static inline int divide_of_values(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = python_divide(a, b, &raised);
    const double s0 = python_divide(1.0, b, &raised);
    const double s1 = (-python_divide(y, b, &raised));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = s1;
    outcome->blocked = 0;
    return raised;
}

static inline int divide_of_literal_second(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = python_divide(a, b, &raised);
    const double s0 = python_divide(1.0, b, &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = b;
    outcome->blocked = 0;
    return raised;
}

static inline int divide_of_literal_first(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = python_divide(a, b, &raised);
    const double s1 = (-python_divide(y, b, &raised));
    outcome->y = y;
    outcome->p = a;
    outcome->q = s1;
    outcome->blocked = 0;
    return raised;
}

static inline int power_of_values(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = ((b == 0.5) ? math_sqrt(a, &raised) : math_pow(a, b, &raised));
    const int t5 = (a == 0.0);
    const int t14 = (y != y);
    const double t17 = math_exp((y * NAN), &raised);
    const double s0 = (t14 ? t17 : ((b == 0.0) ? (python_divide(b, (t5 ? 1.0 : a), &raised) * y) : (b * (((b - 1.0) == 0.5) ? math_sqrt(a, &raised) : math_pow(a, (b - 1.0), &raised)))));
    const double s1 = (t5 ? ((b < 0.0) ? (-python_abs(y, &raised)) : (t14 ? t17 : 0.0)) : (y * math_log(a, &raised)));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = s1;
    outcome->blocked = 0;
    return raised;
}

static inline int power_of_literal_second(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = ((b == 0.5) ? math_sqrt(a, &raised) : math_pow(a, b, &raised));
    const double s0 = ((y != y) ? math_exp((y * NAN), &raised) : ((b == 0.0) ? (python_divide(b, ((a == 0.0) ? 1.0 : a), &raised) * y) : (b * (((b - 1.0) == 0.5) ? math_sqrt(a, &raised) : math_pow(a, (b - 1.0), &raised)))));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = b;
    outcome->blocked = 0;
    return raised;
}

static inline int power_of_literal_first(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = ((b == 0.5) ? math_sqrt(a, &raised) : math_pow(a, b, &raised));
    const double s1 = ((a == 0.0) ? ((b < 0.0) ? (-python_abs(y, &raised)) : ((y != y) ? math_exp((y * NAN), &raised) : 0.0)) : (y * math_log(a, &raised)));
    outcome->y = y;
    outcome->p = a;
    outcome->q = s1;
    outcome->blocked = 0;
    return raised;
}

static inline int square_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = (x * x);
    const double s0 = (2.0 * x);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int reciprocal_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = python_divide(1.0, x, &raised);
    const double s0 = (-(y * y));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int sqrt_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_sqrt(x, &raised);
    const double s0 = python_divide(0.5, (y + 0.0), &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int cbrt_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_cbrt(x, &raised);
    const double s0 = python_divide(1.0, (3.0 * (y * y)), &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int absolute_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = python_abs(x, &raised);
    const double s0 = ((x > 0.0) ? 1.0 : ((x < 0.0) ? (-1.0) : ((x == 0.0) ? 0.0 : x)));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int hypot_of_values(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = math_hypot(a, b, &raised);
    const int t4 = (y != 0.0);
    const double s0 = python_divide(a, y, &raised);
    const double s1 = python_divide(b, y, &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = s1;
    outcome->blocked = (t4 ? 0 : 1) | (t4 ? 0 : 2);
    return raised;
}

static inline int hypot_of_literal_second(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = math_hypot(a, b, &raised);
    const double s0 = python_divide(a, y, &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = b;
    outcome->blocked = ((y != 0.0) ? 0 : 1);
    return raised;
}

static inline int hypot_of_literal_first(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = math_hypot(a, b, &raised);
    const double s1 = python_divide(b, y, &raised);
    outcome->y = y;
    outcome->p = a;
    outcome->q = s1;
    outcome->blocked = ((y != 0.0) ? 0 : 2);
    return raised;
}

static inline int exp_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_exp(x, &raised);
    outcome->y = y;
    outcome->p = y;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int exp2_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_exp2(x, &raised);
    const double s0 = (y * 0.6931471805599453);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int expm1_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_expm1(x, &raised);
    const double s0 = math_exp(x, &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int log_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_log(x, &raised);
    const double s0 = ((x < 0.0) ? math_exp((x * NAN), &raised) : python_divide(1.0, (x + 0.0), &raised));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int log2_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_log2(x, &raised);
    const double s0 = ((x < 0.0) ? math_exp((x * NAN), &raised) : python_divide(1.0, ((x * 0.6931471805599453) + 0.0), &raised));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int log10_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_log10(x, &raised);
    const double s0 = ((x < 0.0) ? math_exp((x * NAN), &raised) : python_divide(1.0, ((x * 2.302585092994046) + 0.0), &raised));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int log1p_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_log1p(x, &raised);
    const double s0 = ((x < (-1.0)) ? math_exp((x * NAN), &raised) : python_divide(1.0, (1.0 + x), &raised));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int sin_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_sin(x, &raised);
    const double s0 = math_cos(x, &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int cos_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_cos(x, &raised);
    const double s0 = (-math_sin(x, &raised));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int tan_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_tan(x, &raised);
    const double s0 = (1.0 + (y * y));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int sinc_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = ((x == 0.0) ? 1.0 : python_divide(math_sin((3.141592653589793 * x), &raised), (3.141592653589793 * x), &raised));
    const double t6 = (3.141592653589793 * x);
    const double t9 = (t6 * t6);
    const double s0 = ((python_abs(x, &raised) < 0.5) ? ((3.141592653589793 * t6) * (((((((((((((((((((((((0.0 * t6) * t9) + (-8.509974375387503e-22)) * t9) + 3.9145882126782523e-19) * t9) + (-1.4797143443923793e-16)) * t9) + 4.498331606952833e-14) * t9) + (-1.0706029224547743e-11)) * t9) + 1.9270852604185937e-09) * t9) + (-2.505210838544172e-07)) * t9) + 2.2045855379188714e-05) * t9) + (-0.0011904761904761906)) * t9) + 0.03333333333333333) * t9) + (-0.3333333333333333))) : python_divide((math_cos(t6, &raised) - y), ((x == 0.0) ? 1.0 : x), &raised));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int arcsin_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_asin(x, &raised);
    const double s0 = python_divide(1.0, math_sqrt(((1.0 - x) * (1.0 + x)), &raised), &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int arccos_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_acos(x, &raised);
    const double s0 = python_divide((-1.0), math_sqrt(((1.0 - x) * (1.0 + x)), &raised), &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int arctan_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_atan(x, &raised);
    const double s0 = python_divide(1.0, (1.0 + (x * x)), &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int sinh_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_sinh(x, &raised);
    const double s0 = math_cosh(x, &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int cosh_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_cosh(x, &raised);
    const double s0 = math_sinh(x, &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int tanh_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_tanh(x, &raised);
    const double s0 = (1.0 - (y * y));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int arcsinh_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_asinh(x, &raised);
    const double s0 = python_divide(1.0, math_hypot(1.0, x, &raised), &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int arccosh_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_acosh(x, &raised);
    const double s0 = python_divide(1.0, (math_sqrt((x - 1.0), &raised) * math_sqrt((x + 1.0), &raised)), &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int arctanh_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_atanh(x, &raised);
    const double s0 = ((python_abs(x, &raised) > 1.0) ? math_exp((x * NAN), &raised) : python_divide(1.0, ((1.0 - x) * (1.0 + x)), &raised));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int erf_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_erf(x, &raised);
    const double s0 = (1.1283791670955126 * math_exp((-(x * x)), &raised));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int erfc_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_erfc(x, &raised);
    const double s0 = ((-1.1283791670955126) * math_exp((-(x * x)), &raised));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int xlogy_of_values(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a == 0.0) && (b == b)) ? 0.0 : (a * math_log(b, &raised)));
    const double s0 = math_log(b, &raised);
    const double s1 = ((b < 0.0) ? math_exp((b * NAN), &raised) : python_divide(a, (b + 0.0), &raised));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = s1;
    outcome->blocked = ((a != 0.0) ? 0 : 2);
    return raised;
}

static inline int xlogy_of_literal_second(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a == 0.0) && (b == b)) ? 0.0 : (a * math_log(b, &raised)));
    const double s0 = math_log(b, &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = b;
    outcome->blocked = 0;
    return raised;
}

static inline int xlogy_of_literal_first(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a == 0.0) && (b == b)) ? 0.0 : (a * math_log(b, &raised)));
    const double s1 = ((b < 0.0) ? math_exp((b * NAN), &raised) : python_divide(a, (b + 0.0), &raised));
    outcome->y = y;
    outcome->p = a;
    outcome->q = s1;
    outcome->blocked = ((a != 0.0) ? 0 : 2);
    return raised;
}

static inline int xlog1py_of_values(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a == 0.0) && (b == b)) ? 0.0 : (a * math_log1p(b, &raised)));
    const double s0 = math_log1p(b, &raised);
    const double s1 = ((b < (-1.0)) ? math_exp((b * NAN), &raised) : python_divide(a, (1.0 + b), &raised));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = s1;
    outcome->blocked = ((a != 0.0) ? 0 : 2);
    return raised;
}

static inline int xlog1py_of_literal_second(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a == 0.0) && (b == b)) ? 0.0 : (a * math_log1p(b, &raised)));
    const double s0 = math_log1p(b, &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = b;
    outcome->blocked = 0;
    return raised;
}

static inline int xlog1py_of_literal_first(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a == 0.0) && (b == b)) ? 0.0 : (a * math_log1p(b, &raised)));
    const double s1 = ((b < (-1.0)) ? math_exp((b * NAN), &raised) : python_divide(a, (1.0 + b), &raised));
    outcome->y = y;
    outcome->p = a;
    outcome->q = s1;
    outcome->blocked = ((a != 0.0) ? 0 : 2);
    return raised;
}

static inline int entr_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = ((x > 0.0) ? ((-x) * math_log(x, &raised)) : ((x == 0.0) ? 0.0 : ((x < 0.0) ? (-INFINITY) : x)));
    const double s0 = ((x < 0.0) ? math_exp((x * NAN), &raised) : ((-math_log(x, &raised)) - 1.0));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int rel_entr_of_values(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a > 0.0) && (b > 0.0)) ? (a * (((python_divide(a, b, &raised) > 0.5) && (python_divide(a, b, &raised) < 2.0)) ? math_log1p(python_divide((a - b), b, &raised), &raised) : (((python_divide(a, b, &raised) > 2.2250738585072014e-308) && (python_divide(a, b, &raised) < INFINITY)) ? math_log(python_divide(a, b, &raised), &raised) : (math_log(a, &raised) - math_log(b, &raised))))) : (((a == 0.0) && (b >= 0.0)) ? 0.0 : (((a != a) || (b != b)) ? (a + b) : INFINITY)));
    const int t6 = ((a < 0.0) || (b < 0.0));
    const double t10 = math_exp(((a + b) * NAN), &raised);
    const double s0 = (t6 ? t10 : (math_log(python_divide(a, b, &raised), &raised) + 1.0));
    const double s1 = (t6 ? t10 : (-python_divide(a, (b + 0.0), &raised)));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = s1;
    outcome->blocked = ((a != 0.0) ? 0 : 2);
    return raised;
}

static inline int rel_entr_of_literal_second(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a > 0.0) && (b > 0.0)) ? (a * (((python_divide(a, b, &raised) > 0.5) && (python_divide(a, b, &raised) < 2.0)) ? math_log1p(python_divide((a - b), b, &raised), &raised) : (((python_divide(a, b, &raised) > 2.2250738585072014e-308) && (python_divide(a, b, &raised) < INFINITY)) ? math_log(python_divide(a, b, &raised), &raised) : (math_log(a, &raised) - math_log(b, &raised))))) : (((a == 0.0) && (b >= 0.0)) ? 0.0 : (((a != a) || (b != b)) ? (a + b) : INFINITY)));
    const double s0 = (((a < 0.0) || (b < 0.0)) ? math_exp(((a + b) * NAN), &raised) : (math_log(python_divide(a, b, &raised), &raised) + 1.0));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = b;
    outcome->blocked = 0;
    return raised;
}

static inline int rel_entr_of_literal_first(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a > 0.0) && (b > 0.0)) ? (a * (((python_divide(a, b, &raised) > 0.5) && (python_divide(a, b, &raised) < 2.0)) ? math_log1p(python_divide((a - b), b, &raised), &raised) : (((python_divide(a, b, &raised) > 2.2250738585072014e-308) && (python_divide(a, b, &raised) < INFINITY)) ? math_log(python_divide(a, b, &raised), &raised) : (math_log(a, &raised) - math_log(b, &raised))))) : (((a == 0.0) && (b >= 0.0)) ? 0.0 : (((a != a) || (b != b)) ? (a + b) : INFINITY)));
    const double s1 = (((a < 0.0) || (b < 0.0)) ? math_exp(((a + b) * NAN), &raised) : (-python_divide(a, (b + 0.0), &raised)));
    outcome->y = y;
    outcome->p = a;
    outcome->q = s1;
    outcome->blocked = ((a != 0.0) ? 0 : 2);
    return raised;
}

static inline int arctan2_of_values(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = math_atan2(a, b, &raised);
    const double t3 = math_hypot(a, b, &raised);
    const int t5 = (t3 != 0.0);
    const double s0 = python_divide(python_divide(b, t3, &raised), t3, &raised);
    const double s1 = (-python_divide(python_divide(a, t3, &raised), t3, &raised));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = s1;
    outcome->blocked = (t5 ? 0 : 1) | (t5 ? 0 : 2);
    return raised;
}

static inline int arctan2_of_literal_second(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = math_atan2(a, b, &raised);
    const double t3 = math_hypot(a, b, &raised);
    const double s0 = python_divide(python_divide(b, t3, &raised), t3, &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = b;
    outcome->blocked = ((t3 != 0.0) ? 0 : 1);
    return raised;
}

static inline int arctan2_of_literal_first(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = math_atan2(a, b, &raised);
    const double t3 = math_hypot(a, b, &raised);
    const double s1 = (-python_divide(python_divide(a, t3, &raised), t3, &raised));
    outcome->y = y;
    outcome->p = a;
    outcome->q = s1;
    outcome->blocked = ((t3 != 0.0) ? 0 : 2);
    return raised;
}

static inline int logaddexp_of_values(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = ((a == b) ? (a + 0.6931471805599453) : ((a > b) ? (a + math_log1p(math_exp((b - a), &raised), &raised)) : (b + math_log1p(math_exp((a - b), &raised), &raised))));
    const int t5 = ((a == b) && (python_abs(a, &raised) == INFINITY));
    const double s0 = (t5 ? 0.5 : (((a - b) >= 0.0) ? python_divide(1.0, (1.0 + math_exp((-(a - b)), &raised)), &raised) : python_divide(math_exp((a - b), &raised), (1.0 + math_exp((a - b), &raised)), &raised)));
    const double s1 = (t5 ? 0.5 : (((b - a) >= 0.0) ? python_divide(1.0, (1.0 + math_exp((-(b - a)), &raised)), &raised) : python_divide(math_exp((b - a), &raised), (1.0 + math_exp((b - a), &raised)), &raised)));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = s1;
    outcome->blocked = 0;
    return raised;
}

static inline int logaddexp_of_literal_second(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = ((a == b) ? (a + 0.6931471805599453) : ((a > b) ? (a + math_log1p(math_exp((b - a), &raised), &raised)) : (b + math_log1p(math_exp((a - b), &raised), &raised))));
    const double s0 = (((a == b) && (python_abs(a, &raised) == INFINITY)) ? 0.5 : (((a - b) >= 0.0) ? python_divide(1.0, (1.0 + math_exp((-(a - b)), &raised)), &raised) : python_divide(math_exp((a - b), &raised), (1.0 + math_exp((a - b), &raised)), &raised)));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = b;
    outcome->blocked = 0;
    return raised;
}

static inline int logaddexp_of_literal_first(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = ((a == b) ? (a + 0.6931471805599453) : ((a > b) ? (a + math_log1p(math_exp((b - a), &raised), &raised)) : (b + math_log1p(math_exp((a - b), &raised), &raised))));
    const double s1 = (((a == b) && (python_abs(a, &raised) == INFINITY)) ? 0.5 : (((b - a) >= 0.0) ? python_divide(1.0, (1.0 + math_exp((-(b - a)), &raised)), &raised) : python_divide(math_exp((b - a), &raised), (1.0 + math_exp((b - a), &raised)), &raised)));
    outcome->y = y;
    outcome->p = a;
    outcome->q = s1;
    outcome->blocked = 0;
    return raised;
}

static inline int logaddexp2_of_values(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = ((a == b) ? (a + 1.0) : ((a > b) ? (a + (1.4426950408889634 * math_log1p(math_exp2((b - a), &raised), &raised))) : (b + (1.4426950408889634 * math_log1p(math_exp2((a - b), &raised), &raised)))));
    const int t5 = ((a == b) && (python_abs(a, &raised) == INFINITY));
    const double s0 = (t5 ? 0.5 : ((((a - b) * 0.6931471805599453) >= 0.0) ? python_divide(1.0, (1.0 + math_exp((-((a - b) * 0.6931471805599453)), &raised)), &raised) : python_divide(math_exp(((a - b) * 0.6931471805599453), &raised), (1.0 + math_exp(((a - b) * 0.6931471805599453), &raised)), &raised)));
    const double s1 = (t5 ? 0.5 : ((((b - a) * 0.6931471805599453) >= 0.0) ? python_divide(1.0, (1.0 + math_exp((-((b - a) * 0.6931471805599453)), &raised)), &raised) : python_divide(math_exp(((b - a) * 0.6931471805599453), &raised), (1.0 + math_exp(((b - a) * 0.6931471805599453), &raised)), &raised)));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = s1;
    outcome->blocked = 0;
    return raised;
}

static inline int logaddexp2_of_literal_second(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = ((a == b) ? (a + 1.0) : ((a > b) ? (a + (1.4426950408889634 * math_log1p(math_exp2((b - a), &raised), &raised))) : (b + (1.4426950408889634 * math_log1p(math_exp2((a - b), &raised), &raised)))));
    const double s0 = (((a == b) && (python_abs(a, &raised) == INFINITY)) ? 0.5 : ((((a - b) * 0.6931471805599453) >= 0.0) ? python_divide(1.0, (1.0 + math_exp((-((a - b) * 0.6931471805599453)), &raised)), &raised) : python_divide(math_exp(((a - b) * 0.6931471805599453), &raised), (1.0 + math_exp(((a - b) * 0.6931471805599453), &raised)), &raised)));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = b;
    outcome->blocked = 0;
    return raised;
}

static inline int logaddexp2_of_literal_first(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = ((a == b) ? (a + 1.0) : ((a > b) ? (a + (1.4426950408889634 * math_log1p(math_exp2((b - a), &raised), &raised))) : (b + (1.4426950408889634 * math_log1p(math_exp2((a - b), &raised), &raised)))));
    const double s1 = (((a == b) && (python_abs(a, &raised) == INFINITY)) ? 0.5 : ((((b - a) * 0.6931471805599453) >= 0.0) ? python_divide(1.0, (1.0 + math_exp((-((b - a) * 0.6931471805599453)), &raised)), &raised) : python_divide(math_exp(((b - a) * 0.6931471805599453), &raised), (1.0 + math_exp(((b - a) * 0.6931471805599453), &raised)), &raised)));
    outcome->y = y;
    outcome->p = a;
    outcome->q = s1;
    outcome->blocked = 0;
    return raised;
}

static inline int sigmoid_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = ((x >= 0.0) ? python_divide(1.0, (1.0 + math_exp((-x), &raised)), &raised) : python_divide(math_exp(x, &raised), (1.0 + math_exp(x, &raised)), &raised));
    const double s0 = (y * (1.0 - y));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int softplus_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = (((x > 0.0) ? x : 0.0) + math_log1p(math_exp((-python_abs(x, &raised)), &raised), &raised));
    const double s0 = ((x >= 0.0) ? python_divide(1.0, (1.0 + math_exp((-x), &raised)), &raised) : python_divide(math_exp(x, &raised), (1.0 + math_exp(x, &raised)), &raised));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int silu_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = (x * ((x >= 0.0) ? python_divide(1.0, (1.0 + math_exp((-x), &raised)), &raised) : python_divide(math_exp(x, &raised), (1.0 + math_exp(x, &raised)), &raised)));
    const double s0 = (((x >= 0.0) ? python_divide(1.0, (1.0 + math_exp((-x), &raised)), &raised) : python_divide(math_exp(x, &raised), (1.0 + math_exp(x, &raised)), &raised)) + (y * (((-x) >= 0.0) ? python_divide(1.0, (1.0 + math_exp((-(-x)), &raised)), &raised) : python_divide(math_exp((-x), &raised), (1.0 + math_exp((-x), &raised)), &raised))));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int gelu_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = ((0.5 * x) * math_erfc(((-x) * 0.7071067811865476), &raised));
    const double s0 = ((0.5 * math_erfc(((-x) * 0.7071067811865476), &raised)) + ((x * math_exp(((-0.5) * (x * x)), &raised)) * 0.3989422804014327));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = 0;
    return raised;
}

static inline int relu_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = ((x <= 0.0) ? 0.0 : x);
    const double s0 = ((x != x) ? math_exp((x * NAN), &raised) : 1.0);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = ((!(x <= 0.0)) ? 0 : 1);
    return raised;
}

static inline int relu6_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = ((x <= 0.0) ? 0.0 : ((x >= 6.0) ? 6.0 : x));
    const double s0 = ((x != x) ? math_exp((x * NAN), &raised) : 1.0);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = ((!((x <= 0.0) || (x >= 6.0))) ? 0 : 1);
    return raised;
}

static inline int leaky_relu_of_values(double x, double slope, Outcome *outcome)
{
    int raised = 0;
    const double y = ((x > 0.0) ? x : (slope * x));
    const int t4 = (x > 0.0);
    const double s0 = ((x != x) ? math_exp((x * NAN), &raised) : (t4 ? 1.0 : ((x < 0.0) ? slope : ((((((slope > 0.0) || (slope != slope)) ? slope : 0.0) < 1.0) || ((((slope > 0.0) || (slope != slope)) ? slope : 0.0) != (((slope > 0.0) || (slope != slope)) ? slope : 0.0))) ? (((slope > 0.0) || (slope != slope)) ? slope : 0.0) : 1.0))));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = x;
    outcome->blocked = ((!t4) ? 0 : 2);
    return raised;
}

static inline int leaky_relu_of_literal_second(double x, double slope, Outcome *outcome)
{
    int raised = 0;
    const double y = ((x > 0.0) ? x : (slope * x));
    const double s0 = ((x != x) ? math_exp((x * NAN), &raised) : ((x > 0.0) ? 1.0 : ((x < 0.0) ? slope : ((((((slope > 0.0) || (slope != slope)) ? slope : 0.0) < 1.0) || ((((slope > 0.0) || (slope != slope)) ? slope : 0.0) != (((slope > 0.0) || (slope != slope)) ? slope : 0.0))) ? (((slope > 0.0) || (slope != slope)) ? slope : 0.0) : 1.0))));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = slope;
    outcome->blocked = 0;
    return raised;
}

static inline int leaky_relu_of_literal_first(double x, double slope, Outcome *outcome)
{
    int raised = 0;
    const double y = ((x > 0.0) ? x : (slope * x));
    outcome->y = y;
    outcome->p = x;
    outcome->q = x;
    outcome->blocked = ((!(x > 0.0)) ? 0 : 2);
    return raised;
}

static inline int maximum_of_values(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a > b) || (a != a)) ? a : b);
    const double t13 = ((a == b) ? 0.5 : ((y != y) ? math_exp((y * NAN), &raised) : 1.0));
    outcome->y = y;
    outcome->p = t13;
    outcome->q = t13;
    outcome->blocked = ((!(a < b)) ? 0 : 1) | ((!(b < a)) ? 0 : 2);
    return raised;
}

static inline int maximum_of_literal_second(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a > b) || (a != a)) ? a : b);
    const int t5 = (a == b);
    const double s0 = (t5 ? 0.5 : ((y != y) ? math_exp((y * NAN), &raised) : 1.0));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = b;
    outcome->blocked = (((!t5) && (!(a < b))) ? 0 : 1);
    return raised;
}

static inline int maximum_of_literal_first(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a > b) || (a != a)) ? a : b);
    const int t5 = (a == b);
    const double s1 = (t5 ? 0.5 : ((y != y) ? math_exp((y * NAN), &raised) : 1.0));
    outcome->y = y;
    outcome->p = a;
    outcome->q = s1;
    outcome->blocked = (((!t5) && (!(b < a))) ? 0 : 2);
    return raised;
}

static inline int minimum_of_values(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a < b) || (a != a)) ? a : b);
    const double t13 = ((a == b) ? 0.5 : ((y != y) ? math_exp((y * NAN), &raised) : 1.0));
    outcome->y = y;
    outcome->p = t13;
    outcome->q = t13;
    outcome->blocked = ((!(b < a)) ? 0 : 1) | ((!(a < b)) ? 0 : 2);
    return raised;
}

static inline int minimum_of_literal_second(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a < b) || (a != a)) ? a : b);
    const int t5 = (a == b);
    const double s0 = (t5 ? 0.5 : ((y != y) ? math_exp((y * NAN), &raised) : 1.0));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = b;
    outcome->blocked = (((!t5) && (!(b < a))) ? 0 : 1);
    return raised;
}

static inline int minimum_of_literal_first(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a < b) || (a != a)) ? a : b);
    const int t5 = (a == b);
    const double s1 = (t5 ? 0.5 : ((y != y) ? math_exp((y * NAN), &raised) : 1.0));
    outcome->y = y;
    outcome->p = a;
    outcome->q = s1;
    outcome->blocked = (((!t5) && (!(a < b))) ? 0 : 2);
    return raised;
}

static inline int fmax_of_values(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a >= b) || (b != b)) ? a : b);
    const double t14 = ((a == b) ? 0.5 : ((y != y) ? math_exp((y * NAN), &raised) : 1.0));
    outcome->y = y;
    outcome->p = t14;
    outcome->q = t14;
    outcome->blocked = (((a >= b) || (b != b)) ? 0 : 1) | (((b >= a) || (a != a)) ? 0 : 2);
    return raised;
}

static inline int fmax_of_literal_second(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a >= b) || (b != b)) ? a : b);
    const int t6 = (a == b);
    const double s0 = (t6 ? 0.5 : ((y != y) ? math_exp((y * NAN), &raised) : 1.0));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = b;
    outcome->blocked = (((!t6) && ((a >= b) || (b != b))) ? 0 : 1);
    return raised;
}

static inline int fmax_of_literal_first(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a >= b) || (b != b)) ? a : b);
    const int t6 = (a == b);
    const double s1 = (t6 ? 0.5 : ((y != y) ? math_exp((y * NAN), &raised) : 1.0));
    outcome->y = y;
    outcome->p = a;
    outcome->q = s1;
    outcome->blocked = (((!t6) && ((b >= a) || (a != a))) ? 0 : 2);
    return raised;
}

static inline int fmin_of_values(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a <= b) || (b != b)) ? a : b);
    const double t14 = ((a == b) ? 0.5 : ((y != y) ? math_exp((y * NAN), &raised) : 1.0));
    outcome->y = y;
    outcome->p = t14;
    outcome->q = t14;
    outcome->blocked = (((b >= a) || (b != b)) ? 0 : 1) | (((a >= b) || (a != a)) ? 0 : 2);
    return raised;
}

static inline int fmin_of_literal_second(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a <= b) || (b != b)) ? a : b);
    const int t6 = (a == b);
    const double s0 = (t6 ? 0.5 : ((y != y) ? math_exp((y * NAN), &raised) : 1.0));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = b;
    outcome->blocked = (((!t6) && ((b >= a) || (b != b))) ? 0 : 1);
    return raised;
}

static inline int fmin_of_literal_first(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = (((a <= b) || (b != b)) ? a : b);
    const int t6 = (a == b);
    const double s1 = (t6 ? 0.5 : ((y != y) ? math_exp((y * NAN), &raised) : 1.0));
    outcome->y = y;
    outcome->p = a;
    outcome->q = s1;
    outcome->blocked = (((!t6) && ((a >= b) || (a != a))) ? 0 : 2);
    return raised;
}

static inline int copysign_of_values(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = math_copysign(a, (((b <= 1.0) || (1.0 != 1.0)) ? b : 1.0), &raised);
    const double s0 = (((a > 0.0) ? 1.0 : ((a < 0.0) ? (-1.0) : ((a == 0.0) ? 0.0 : a))) * math_copysign(1.0, (((b <= 1.0) || (1.0 != 1.0)) ? b : 1.0), &raised));
    const double s1 = 0.0;
    outcome->y = y;
    outcome->p = s0;
    outcome->q = s1;
    outcome->blocked = (0 ? 0 : 2);
    return raised;
}

static inline int copysign_of_literal_second(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = math_copysign(a, (((b <= 1.0) || (1.0 != 1.0)) ? b : 1.0), &raised);
    const double s0 = (((a > 0.0) ? 1.0 : ((a < 0.0) ? (-1.0) : ((a == 0.0) ? 0.0 : a))) * math_copysign(1.0, (((b <= 1.0) || (1.0 != 1.0)) ? b : 1.0), &raised));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = b;
    outcome->blocked = 0;
    return raised;
}

static inline int copysign_of_literal_first(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = math_copysign(a, (((b <= 1.0) || (1.0 != 1.0)) ? b : 1.0), &raised);
    const double s1 = 0.0;
    outcome->y = y;
    outcome->p = a;
    outcome->q = s1;
    outcome->blocked = (0 ? 0 : 2);
    return raised;
}

static inline int sign_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = ((x > 0.0) ? 1.0 : ((x < 0.0) ? (-1.0) : ((x == 0.0) ? 0.0 : x)));
    const double s0 = math_exp((y * NAN), &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = ((y != y) ? 0 : 1);
    return raised;
}

static inline int floor_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_copysign(math_floor(x, &raised), x, &raised);
    const double s0 = math_exp((y * NAN), &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = ((y != y) ? 0 : 1);
    return raised;
}

static inline int ceil_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_copysign(math_ceil(x, &raised), x, &raised);
    const double s0 = math_exp((y * NAN), &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = ((y != y) ? 0 : 1);
    return raised;
}

static inline int trunc_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_copysign(math_trunc(x, &raised), x, &raised);
    const double s0 = math_exp((y * NAN), &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = ((y != y) ? 0 : 1);
    return raised;
}

static inline int round_of_values(double x, double unused, Outcome *outcome)
{
    int raised = 0;
    const double y = math_copysign(python_round(x, &raised), x, &raised);
    const double s0 = math_exp((y * NAN), &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = 0.0;
    outcome->blocked = ((y != y) ? 0 : 1);
    return raised;
}

static inline int heaviside_of_values(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = ((a > 0.0) ? 1.0 : ((a < 0.0) ? 0.0 : ((a == 0.0) ? b : a)));
    const double s0 = math_exp((y * NAN), &raised);
    const double s1 = 1.0;
    outcome->y = y;
    outcome->p = s0;
    outcome->q = s1;
    outcome->blocked = ((y != y) ? 0 : 1) | ((a == 0.0) ? 0 : 2);
    return raised;
}

static inline int heaviside_of_literal_second(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = ((a > 0.0) ? 1.0 : ((a < 0.0) ? 0.0 : ((a == 0.0) ? b : a)));
    const double s0 = math_exp((y * NAN), &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = b;
    outcome->blocked = ((y != y) ? 0 : 1);
    return raised;
}

static inline int heaviside_of_literal_first(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = ((a > 0.0) ? 1.0 : ((a < 0.0) ? 0.0 : ((a == 0.0) ? b : a)));
    const double s1 = 1.0;
    outcome->y = y;
    outcome->p = a;
    outcome->q = s1;
    outcome->blocked = ((a == 0.0) ? 0 : 2);
    return raised;
}

static inline int floor_divide_of_values(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = python_floor_divide(a, b, &raised);
    const int t3 = (y != y);
    const double t6 = math_exp((y * NAN), &raised);
    outcome->y = y;
    outcome->p = t6;
    outcome->q = t6;
    outcome->blocked = (t3 ? 0 : 1) | (t3 ? 0 : 2);
    return raised;
}

static inline int floor_divide_of_literal_second(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = python_floor_divide(a, b, &raised);
    const double s0 = math_exp((y * NAN), &raised);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = b;
    outcome->blocked = ((y != y) ? 0 : 1);
    return raised;
}

static inline int floor_divide_of_literal_first(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = python_floor_divide(a, b, &raised);
    const double s1 = math_exp((y * NAN), &raised);
    outcome->y = y;
    outcome->p = a;
    outcome->q = s1;
    outcome->blocked = ((y != y) ? 0 : 2);
    return raised;
}

static inline int mod_of_values(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = python_remain(a, b, &raised);
    const int t3 = (y != y);
    const double t6 = math_exp((y * NAN), &raised);
    const double s0 = (t3 ? t6 : 1.0);
    const double s1 = (t3 ? t6 : (-python_floor_divide(a, b, &raised)));
    outcome->y = y;
    outcome->p = s0;
    outcome->q = s1;
    outcome->blocked = 0;
    return raised;
}

static inline int mod_of_literal_second(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = python_remain(a, b, &raised);
    const double s0 = ((y != y) ? math_exp((y * NAN), &raised) : 1.0);
    outcome->y = y;
    outcome->p = s0;
    outcome->q = b;
    outcome->blocked = 0;
    return raised;
}

static inline int mod_of_literal_first(double a, double b, Outcome *outcome)
{
    int raised = 0;
    const double y = python_remain(a, b, &raised);
    const double s1 = ((y != y) ? math_exp((y * NAN), &raised) : (-python_floor_divide(a, b, &raised)));
    outcome->y = y;
    outcome->p = a;
    outcome->q = s1;
    outcome->blocked = 0;
    return raised;
}

static ScalarOp OPS[63];

static PyObject *method_split(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[0], split_of_values, 0, self);
}

static PyObject *method_positive(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[1], positive_of_values, 0, self);
}

static PyObject *method_negative(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[2], negative_of_values, 0, self);
}

static PyObject *method_square(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[8], square_of_values, 0, self);
}

static PyObject *method_reciprocal(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[9], reciprocal_of_values, 0, self);
}

static PyObject *method_sqrt(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[10], sqrt_of_values, 0, self);
}

static PyObject *method_cbrt(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[11], cbrt_of_values, 0, self);
}

static PyObject *method_absolute(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[12], absolute_of_values, 1, self);
}

static PyObject *method_exp(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[14], exp_of_values, 0, self);
}

static PyObject *method_exp2(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[15], exp2_of_values, 0, self);
}

static PyObject *method_expm1(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[16], expm1_of_values, 0, self);
}

static PyObject *method_log(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[17], log_of_values, 0, self);
}

static PyObject *method_log2(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[18], log2_of_values, 0, self);
}

static PyObject *method_log10(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[19], log10_of_values, 0, self);
}

static PyObject *method_log1p(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[20], log1p_of_values, 0, self);
}

static PyObject *method_sin(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[21], sin_of_values, 0, self);
}

static PyObject *method_cos(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[22], cos_of_values, 0, self);
}

static PyObject *method_tan(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[23], tan_of_values, 0, self);
}

static PyObject *method_sinc(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[24], sinc_of_values, 0, self);
}

static PyObject *method_arcsin(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[25], arcsin_of_values, 0, self);
}

static PyObject *method_arccos(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[26], arccos_of_values, 0, self);
}

static PyObject *method_arctan(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[27], arctan_of_values, 0, self);
}

static PyObject *method_sinh(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[28], sinh_of_values, 0, self);
}

static PyObject *method_cosh(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[29], cosh_of_values, 0, self);
}

static PyObject *method_tanh(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[30], tanh_of_values, 0, self);
}

static PyObject *method_arcsinh(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[31], arcsinh_of_values, 0, self);
}

static PyObject *method_arccosh(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[32], arccosh_of_values, 0, self);
}

static PyObject *method_arctanh(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[33], arctanh_of_values, 0, self);
}

static PyObject *method_erf(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[34], erf_of_values, 0, self);
}

static PyObject *method_erfc(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[35], erfc_of_values, 0, self);
}

static PyObject *method_entr(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[38], entr_of_values, 0, self);
}

static PyObject *method_sigmoid(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[43], sigmoid_of_values, 0, self);
}

static PyObject *method_softplus(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[44], softplus_of_values, 0, self);
}

static PyObject *method_silu(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[45], silu_of_values, 0, self);
}

static PyObject *method_gelu(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[46], gelu_of_values, 0, self);
}

static PyObject *method_relu(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[47], relu_of_values, 1, self);
}

static PyObject *method_relu6(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[48], relu6_of_values, 1, self);
}

static PyObject *method_sign(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[55], sign_of_values, 0, self);
}

static PyObject *method_floor(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[56], floor_of_values, 0, self);
}

static PyObject *method_ceil(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[57], ceil_of_values, 0, self);
}

static PyObject *method_trunc(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[58], trunc_of_values, 0, self);
}

static PyObject *method_round(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return record_unary(&OPS[59], round_of_values, 0, self);
}

static PyObject *operator_add(PyObject *one, PyObject *two)
{
    return record_binary(&OPS[3], add_of_values, add_of_literal_second, add_of_literal_first,
                         0, one, two);
}

static PyObject *operator_sub(PyObject *one, PyObject *two)
{
    return record_binary(&OPS[4], subtract_of_values, subtract_of_literal_second, subtract_of_literal_first,
                         0, one, two);
}

static PyObject *operator_mul(PyObject *one, PyObject *two)
{
    return record_binary(&OPS[5], multiply_of_values, multiply_of_literal_second, multiply_of_literal_first,
                         0, one, two);
}

static PyObject *operator_truediv(PyObject *one, PyObject *two)
{
    return record_binary(&OPS[6], divide_of_values, divide_of_literal_second, divide_of_literal_first,
                         0, one, two);
}

static PyObject *operator_pow(PyObject *one, PyObject *two, PyObject *modulus)
{
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    return record_binary(&OPS[7], power_of_values, power_of_literal_second, power_of_literal_first,
                         0, one, two);
}

static PyObject *operator_mod(PyObject *one, PyObject *two)
{
    return record_binary(&OPS[62], mod_of_values, mod_of_literal_second, mod_of_literal_first,
                         0, one, two);
}

static PyObject *operator_floordiv(PyObject *one, PyObject *two)
{
    return record_binary(&OPS[61], floor_divide_of_values, floor_divide_of_literal_second, floor_divide_of_literal_first,
                         0, one, two);
}

static PyObject *operator_neg(PyObject *self)
{
    return record_unary(&OPS[2], negative_of_values, 0, self);
}

static PyObject *operator_pos(PyObject *self)
{
    return record_unary(&OPS[1], positive_of_values, 0, self);
}

static PyObject *operator_abs(PyObject *self)
{
    return record_unary(&OPS[12], absolute_of_values, 1, self);
}

#define OPERATOR_SLOTS \
    {Py_nb_add, operator_add}, \
    {Py_nb_inplace_add, operator_add}, \
    {Py_nb_subtract, operator_sub}, \
    {Py_nb_inplace_subtract, operator_sub}, \
    {Py_nb_multiply, operator_mul}, \
    {Py_nb_inplace_multiply, operator_mul}, \
    {Py_nb_true_divide, operator_truediv}, \
    {Py_nb_inplace_true_divide, operator_truediv}, \
    {Py_nb_power, operator_pow}, \
    {Py_nb_inplace_power, operator_pow}, \
    {Py_nb_remainder, operator_mod}, \
    {Py_nb_inplace_remainder, operator_mod}, \
    {Py_nb_floor_divide, operator_floordiv}, \
    {Py_nb_inplace_floor_divide, operator_floordiv}, \
    {Py_nb_negative, operator_neg}, \
    {Py_nb_positive, operator_pos}, \
    {Py_nb_absolute, operator_abs},

static ScalarOp OPS[63] = {
    {"split", 1, 0, split_of_values, NULL, NULL, method_split, NULL, 0},
    {"positive", 1, 0, positive_of_values, NULL, NULL, method_positive, NULL, 0},
    {"negative", 1, 0, negative_of_values, NULL, NULL, method_negative, NULL, 0},
    {"add", 2, 0, add_of_values, add_of_literal_second, add_of_literal_first, NULL, NULL, 0},
    {"subtract", 2, 0, subtract_of_values, subtract_of_literal_second, subtract_of_literal_first, NULL, NULL, 0},
    {"multiply", 2, 0, multiply_of_values, multiply_of_literal_second, multiply_of_literal_first, NULL, NULL, 0},
    {"divide", 2, 0, divide_of_values, divide_of_literal_second, divide_of_literal_first, NULL, NULL, 0},
    {"power", 2, 0, power_of_values, power_of_literal_second, power_of_literal_first, NULL, NULL, 0},
    {"square", 1, 0, square_of_values, NULL, NULL, method_square, NULL, 0},
    {"reciprocal", 1, 0, reciprocal_of_values, NULL, NULL, method_reciprocal, NULL, 0},
    {"sqrt", 1, 0, sqrt_of_values, NULL, NULL, method_sqrt, NULL, 0},
    {"cbrt", 1, 0, cbrt_of_values, NULL, NULL, method_cbrt, NULL, 0},
    {"absolute", 1, 1, absolute_of_values, NULL, NULL, method_absolute, NULL, 0},
    {"hypot", 2, 1, hypot_of_values, hypot_of_literal_second, hypot_of_literal_first, NULL, NULL, 0},
    {"exp", 1, 0, exp_of_values, NULL, NULL, method_exp, NULL, 0},
    {"exp2", 1, 0, exp2_of_values, NULL, NULL, method_exp2, NULL, 0},
    {"expm1", 1, 0, expm1_of_values, NULL, NULL, method_expm1, NULL, 0},
    {"log", 1, 0, log_of_values, NULL, NULL, method_log, NULL, 0},
    {"log2", 1, 0, log2_of_values, NULL, NULL, method_log2, NULL, 0},
    {"log10", 1, 0, log10_of_values, NULL, NULL, method_log10, NULL, 0},
    {"log1p", 1, 0, log1p_of_values, NULL, NULL, method_log1p, NULL, 0},
    {"sin", 1, 0, sin_of_values, NULL, NULL, method_sin, NULL, 0},
    {"cos", 1, 0, cos_of_values, NULL, NULL, method_cos, NULL, 0},
    {"tan", 1, 0, tan_of_values, NULL, NULL, method_tan, NULL, 0},
    {"sinc", 1, 0, sinc_of_values, NULL, NULL, method_sinc, NULL, 0},
    {"arcsin", 1, 0, arcsin_of_values, NULL, NULL, method_arcsin, NULL, 0},
    {"arccos", 1, 0, arccos_of_values, NULL, NULL, method_arccos, NULL, 0},
    {"arctan", 1, 0, arctan_of_values, NULL, NULL, method_arctan, NULL, 0},
    {"sinh", 1, 0, sinh_of_values, NULL, NULL, method_sinh, NULL, 0},
    {"cosh", 1, 0, cosh_of_values, NULL, NULL, method_cosh, NULL, 0},
    {"tanh", 1, 0, tanh_of_values, NULL, NULL, method_tanh, NULL, 0},
    {"arcsinh", 1, 0, arcsinh_of_values, NULL, NULL, method_arcsinh, NULL, 0},
    {"arccosh", 1, 0, arccosh_of_values, NULL, NULL, method_arccosh, NULL, 0},
    {"arctanh", 1, 0, arctanh_of_values, NULL, NULL, method_arctanh, NULL, 0},
    {"erf", 1, 0, erf_of_values, NULL, NULL, method_erf, NULL, 0},
    {"erfc", 1, 0, erfc_of_values, NULL, NULL, method_erfc, NULL, 0},
    {"xlogy", 2, 0, xlogy_of_values, xlogy_of_literal_second, xlogy_of_literal_first, NULL, NULL, 0},
    {"xlog1py", 2, 0, xlog1py_of_values, xlog1py_of_literal_second, xlog1py_of_literal_first, NULL, NULL, 0},
    {"entr", 1, 0, entr_of_values, NULL, NULL, method_entr, NULL, 0},
    {"rel_entr", 2, 0, rel_entr_of_values, rel_entr_of_literal_second, rel_entr_of_literal_first, NULL, NULL, 0},
    {"arctan2", 2, 1, arctan2_of_values, arctan2_of_literal_second, arctan2_of_literal_first, NULL, NULL, 0},
    {"logaddexp", 2, 0, logaddexp_of_values, logaddexp_of_literal_second, logaddexp_of_literal_first, NULL, NULL, 0},
    {"logaddexp2", 2, 0, logaddexp2_of_values, logaddexp2_of_literal_second, logaddexp2_of_literal_first, NULL, NULL, 0},
    {"sigmoid", 1, 0, sigmoid_of_values, NULL, NULL, method_sigmoid, NULL, 0},
    {"softplus", 1, 0, softplus_of_values, NULL, NULL, method_softplus, NULL, 0},
    {"silu", 1, 0, silu_of_values, NULL, NULL, method_silu, NULL, 0},
    {"gelu", 1, 0, gelu_of_values, NULL, NULL, method_gelu, NULL, 0},
    {"relu", 1, 1, relu_of_values, NULL, NULL, method_relu, NULL, 0},
    {"relu6", 1, 1, relu6_of_values, NULL, NULL, method_relu6, NULL, 0},
    {"leaky_relu", 2, 1, leaky_relu_of_values, leaky_relu_of_literal_second, leaky_relu_of_literal_first, NULL, NULL, 0},
    {"maximum", 2, 1, maximum_of_values, maximum_of_literal_second, maximum_of_literal_first, NULL, NULL, 0},
    {"minimum", 2, 1, minimum_of_values, minimum_of_literal_second, minimum_of_literal_first, NULL, NULL, 0},
    {"fmax", 2, 1, fmax_of_values, fmax_of_literal_second, fmax_of_literal_first, NULL, NULL, 0},
    {"fmin", 2, 1, fmin_of_values, fmin_of_literal_second, fmin_of_literal_first, NULL, NULL, 0},
    {"copysign", 2, 1, copysign_of_values, copysign_of_literal_second, copysign_of_literal_first, NULL, NULL, 0},
    {"sign", 1, 0, sign_of_values, NULL, NULL, method_sign, NULL, 0},
    {"floor", 1, 0, floor_of_values, NULL, NULL, method_floor, NULL, 0},
    {"ceil", 1, 0, ceil_of_values, NULL, NULL, method_ceil, NULL, 0},
    {"trunc", 1, 0, trunc_of_values, NULL, NULL, method_trunc, NULL, 0},
    {"round", 1, 0, round_of_values, NULL, NULL, method_round, NULL, 0},
    {"heaviside", 2, 0, heaviside_of_values, heaviside_of_literal_second, heaviside_of_literal_first, NULL, NULL, 0},
    {"floor_divide", 2, 0, floor_divide_of_values, floor_divide_of_literal_second, floor_divide_of_literal_first, NULL, NULL, 0},
    {"mod", 2, 0, mod_of_values, mod_of_literal_second, mod_of_literal_first, NULL, NULL, 0},
};
