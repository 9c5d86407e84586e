"""Confidence intervals of means: of few values, of skewed ones, and of shares between 0 and 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attnflow.core.inputs import Array

# Confidence of the intervals.
LEVEL = 0.95


def student(freedom: float, level: float = LEVEL) -> float:
    """Return the number of standard errors on each side of a mean that an interval of this confidence has.

    >>> round(student(19), 4)
    2.093
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + level) / 2))


def mean_interval(values: ArrayLike, level: float = LEVEL) -> tuple[float, float]:
    """Return an interval for the mean of the law that independent values come from, which may be skewed.

    Weights of rare events are skewed to the right: samples without a large one have both a small mean and a small
    standard deviation, and Student's interval, which is symmetric, misses the mean too often above. Hall's
    transformation removes the skewness: with T = sqrt(n) (m - mu) / s and a = skewness / sqrt(n),

        T + a T^2 / 3 + a^2 T^3 / 27 + a / 6

    is normal up to terms of order 1/n, increases with T, and is compared with Student's quantiles.

    >>> low, high = mean_interval([1.0, 1.0, 2.0, 1.0, 8.0, 1.0, 3.0, 1.0])
    >>> round(low, 2), round(high, 2)  # Student's would be .19 to 4.31
    (0.96, 8.49)

    References
    ----------
    Hall, *On the removal of skewness by transformation* (Journal of the Royal Statistical Society B, 1992).
    """
    x = np.asarray(values, dtype=np.float64)
    n, mean, deviation = len(x), float(x.mean()), float(x.std(ddof=1))
    if deviation == 0:
        return mean, mean
    skewness = n / (n - 1) / (n - 2) * float((((x - mean) / deviation) ** 3).sum()) if n > 2 else 0.0
    a, q = skewness / np.sqrt(n), student(n - 1, level)
    ends = np.array([q, -q])
    # Where a is tiny the transformation is the identity, and the formula a difference of nearly equal numbers.
    T = ends if abs(a) < 1e-6 else 3 / a * (np.cbrt(1 + a * (ends - a / 6)) - 1)
    low, high = mean - T * deviation / np.sqrt(n)
    return float(low), float(high)


def share_interval(share: Array, error: Array, count: int, level: float = LEVEL) -> tuple[Array, Array]:
    """Return intervals for means of `count` independent values between 0 and 1, from means and standard errors.

    A share p of m independent trials has the variance p (1 - p) / m; so a mean with a standard error e is worth
    m = p (1 - p) / e^2 trials, fewer by the factor (z / t)^2 of the normal and Student's quantiles since e is itself an
    estimate, and gets the interval of Clopper and Pearson for these. Where all values are 0, or 1, m is their number.

    >>> low, high = share_interval(np.array([0.0, 0.01, 0.5]), np.array([0.0, 0.005, 0.02]), 20)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0, 0.0024, 0.4573], [0.1897, 0.027, 0.5427])

    References
    ----------
    Korn, Graubard, *Confidence intervals for proportions with small expected number of positive counts estimated from
    survey data* (Survey Methodology, 1998).
    """
    from scipy.special import betaincinv, ndtri

    with np.errstate(divide="ignore", invalid="ignore"):
        trials = np.where(error > 0, share * (1 - share) / error**2, count)
    trials = trials * (float(ndtri((1 + level) / 2)) / student(count - 1, level)) ** 2
    found, rest = share * trials, (1 - share) * trials
    tail = (1 - level) / 2
    # Parameters of 0 would be refused: these ends are 0 and 1.
    low = np.where(found > 0, betaincinv(np.where(found > 0, found, 1.0), rest + 1, tail), 0.0)
    high = np.where(rest > 0, betaincinv(found + 1, np.where(rest > 0, rest, 1.0), 1 - tail), 1.0)
    return low, high


def pooled_freedom(variances: Array, each: int) -> float:
    """Return the degrees of freedom of a sum of estimated variances that differ; each has `each` of them.

    (sum v_k)^2 / sum (v_k^2 / each): the sum of all if they are alike, that of one if that one is all there is.

    >>> pooled_freedom(np.array([1.0, 1.0, 1.0]), 4), pooled_freedom(np.array([1.0, 0.0, 0.0]), 4)
    (12.0, 4.0)

    References
    ----------
    Welch, *The generalization of "Student's" problem when several different population variances are involved*
    (Biometrika, 1947).
    """
    squares = float((variances**2).sum())
    return each * float(variances.sum()) ** 2 / squares if squares > 0 else float(each * len(variances))
