"""scipy.special."""

import numpy as np
from scipy import special
from scipy.special import expit, gammaln, logsumexp, softmax, xlogy

from .points import POSITIVE, SHARES, VECTOR, WIDE
from .snippet import at


@at(VECTOR)
def error_functions(x):
    return special.erf(x) + special.erfc(x) ** 2


@at(VECTOR / 3.0, differences=True)
def inverse_error_functions(x):
    return special.erfinv(x) ** 2 + special.erfcinv(1.2 + x)


@at(VECTOR, differences=True)
def logistic_function(x):
    return expit(x) ** 2


@at(SHARES, differences=True)
def log_odds(p):
    return special.logit(p)


@at(POSITIVE, differences=True)
def log_gamma(x):
    return gammaln(x) + special.gamma(x)


@at(POSITIVE, differences=True)
def derivatives_of_log_gamma(x):
    return special.digamma(x) + special.psi(x) ** 2 + special.polygamma(1, x)


@at(POSITIVE, POSITIVE[::-1] + 0.5, differences=True)
def beta_functions(a, b):
    return special.beta(a, b) + special.betaln(a, b)


@at(POSITIVE, differences=True)
def incomplete_gamma(x):
    return special.gammainc(2.0, x) + special.gammaincc(1.5, x)


@at(SHARES, differences=True)
def incomplete_beta(x):
    return special.betainc(2.0, 3.0, x)


@at(VECTOR)
def log_sum_exp(x):
    return logsumexp(x)


@at(WIDE)
def log_sum_exp_by_axis(w):
    return logsumexp(w, axis=1, keepdims=True) * w


@at(WIDE, differences=True)
def weighted_log_sum_exp(w):
    return logsumexp(w, axis=0, b=np.array([[0.2], [0.5], [0.3]]))


@at(WIDE)
def softmax_by_axis(w):
    return softmax(w, axis=1) ** 2


@at(WIDE)
def log_softmax_of_labels(w):
    return -special.log_softmax(w, axis=-1)[np.arange(3), [0, 2, 1]].mean()


@at(SHARES, differences=True)
def entropy_by_xlogy(p):
    return -np.sum(xlogy(p, p)) + np.sum(special.xlog1py(p, -p))


@at(SHARES, SHARES[::-1], differences=True)
def relative_entropies(p, q):
    return special.entr(p), special.rel_entr(p, q), special.kl_div(p, q)


@at(VECTOR, differences=True)
def normal_distribution(x):
    return special.ndtr(x), special.log_ndtr(x)


@at(SHARES, differences=True)
def normal_quantile(p):
    return special.ndtri(p)


@at(POSITIVE, differences=True)
def bessel_functions(x):
    return special.j0(x) + special.j1(x) ** 2 + special.jv(2, x)


@at(POSITIVE, differences=True)
def modified_bessel_functions(x):
    return special.i0(x) + special.i1(x) + special.i0e(x) + special.i1e(x)


@at(VECTOR, differences=True)
def elementary_functions_of_special(x):
    return special.expm1(x) + special.log1p(x**2) + special.cbrt(x**2 + 1) + special.exp2(x)


@at(VECTOR, 2.0, differences=True)
def losses_of_special(r, delta):
    return special.huber(1.5, r), special.pseudo_huber(1.5, r) * delta


@at(POSITIVE, differences=True)
def log_factorials(x):
    n = np.array([1.0, 2.0, 5.0, 3.0])
    return n * np.log(x) - x - gammaln(n + 1)


@at(POSITIVE, differences=True)
def multivariate_log_gamma(x):
    return special.multigammaln(x[2] + 2.0, 3) + special.loggamma(x).sum()


@at(VECTOR, differences=True)
def sine_and_exponential_integrals(x):
    return special.expi(x**2 + 0.1) + special.dawsn(x)
