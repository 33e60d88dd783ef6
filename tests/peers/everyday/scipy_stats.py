"""scipy.stats."""

import numpy as np
from scipy import stats
from scipy.stats import multivariate_normal, norm

from .points import POSITIVE, SERIES, SHARES, SYMMETRIC, VECTOR
from .snippet import at


@at(VECTOR, 0.3, 1.2, differences=True)
def normal_log_likelihood(x, mean, sigma):
    return np.sum(norm.logpdf(x, loc=mean, scale=sigma))


@at(VECTOR, differences=True)
def normal_density_and_cumulative(x):
    return norm.pdf(x), norm.cdf(x), norm.logcdf(x)


@at(VECTOR, 0.2, 1.5, differences=True)
def normal_with_positions(x, mean, sigma):
    return norm.pdf(x, mean, sigma), norm.cdf(x, mean, sigma), norm.sf(x, mean, sigma)


@at(SHARES, differences=True)
def normal_quantiles(p):
    return norm.ppf(p)


@at(VECTOR, 4.0, differences=True)
def student_log_density(x, df):
    return stats.t.logpdf(x, df, loc=0.1, scale=1.3)


@at(VECTOR, 4.0, differences=True)
def student_density(x, df):
    return stats.t.pdf(x, df)


@at(POSITIVE, 2.0, 1.5, differences=True)
def gamma_log_density(x, a, scale):
    return stats.gamma.logpdf(x, a, scale=scale)


@at(SHARES, 2.0, 3.0, differences=True)
def beta_log_density(x, a, b):
    return stats.beta.logpdf(x, a, b), stats.beta.pdf(x, a, b)


@at(POSITIVE, differences=True)
def dirichlet_log_density(alpha):
    return stats.dirichlet.logpdf(np.array([0.1, 0.2, 0.3, 0.4]), alpha)


@at(POSITIVE, differences=True)
def poisson_log_likelihood(rate):
    return np.sum(stats.poisson.logpmf([0, 2, 3, 1], rate))


@at(SHARES, differences=True)
def binomial_log_likelihood(p):
    return stats.binom.logpmf([1, 3, 5], 8, p)


@at(POSITIVE, 1.4, differences=True)
def exponential_log_density(x, scale):
    return stats.expon.logpdf(x, scale=scale), stats.expon.cdf(x, scale=scale)


@at(SHARES, 2.5, differences=True)
def uniform_log_density(x, width):
    return stats.uniform.logpdf(x, 0.0, width), stats.uniform.cdf(x, 0.0, width)


@at(POSITIVE, 0.6, differences=True)
def lognormal_log_density(x, s):
    return stats.lognorm.logpdf(x, s, scale=1.3), stats.lognorm.cdf(x, s)


@at(VECTOR[:3], SYMMETRIC, differences=True)
def multivariate_normal_log_density(mean, cov):
    return multivariate_normal.logpdf(np.array([0.1, 0.2, 0.3]), mean, 0.5 * (cov + cov.T))


@at(np.stack([VECTOR[:3], VECTOR[2:]]), differences=True)
def multivariate_normal_of_many_points(x):
    return multivariate_normal.pdf(x, mean=np.zeros(3), cov=SYMMETRIC)


@at(SERIES, differences=True)
def descriptive_statistics(x):
    return stats.zscore(x), stats.skew(x), stats.kurtosis(x)


@at(POSITIVE, differences=True)
def means_of_other_kinds(x):
    return stats.gmean(x), stats.hmean(x)


@at(VECTOR, 0.4, 0.9, differences=True)
def frozen_normal(x, mean, sigma):
    return stats.norm(mean, sigma).logpdf(x)


@at(VECTOR, differences=True)
def other_densities(x):
    return stats.cauchy.logpdf(x), stats.laplace.logpdf(x), stats.logistic.logpdf(x)


@at(POSITIVE, 1.7, differences=True)
def lifetimes(t, shape):
    return stats.weibull_min.logpdf(t, shape, scale=2.0), stats.rayleigh.logpdf(t), stats.halfcauchy.pdf(t, scale=shape)


@at(POSITIVE, 1.7, differences=True)
def heavy_tails_and_extremes(x, b):
    return stats.pareto.logpdf(x + 1.0, b), stats.gumbel_r.cdf(x, scale=b), stats.gumbel_r.logpdf(x)


@at(0.3, 2.4, differences=True)
def coins_and_counts(p, n):
    return stats.bernoulli.logpmf([0, 1, 1], p), stats.nbinom.logpmf([0, 3, 5], n, p), stats.bernoulli(p).pmf(1)


@at(SHARES, 0.4, 1.3, differences=True)
def quantiles_of_several_distributions(q, loc, scale):
    return norm(loc, scale).ppf(q), stats.expon.ppf(q, scale=scale), stats.logistic.ppf(q), stats.lognorm.ppf(q, 0.7)
