"""Confidence bounds for probabilities and for means of bounded numbers, from independent draws: none is asymptotic."""

from __future__ import annotations

from dataclasses import replace
from math import log, sqrt

from attnflow.claims.margins import Margins, once
from attnflow.core.inputs import Array

# Confidence of each interval: a verdict from m intervals on each of s samples is wrong with probability at most
# m s (1 - LEVEL).
LEVEL = 1 - 1e-6


def clopper_pearson(successes: int, draws: int, level: float = LEVEL) -> tuple[float, float]:
    """Return bounds (low, high) of a probability, each wrong with probability at most (1 - level) / 2.

    >>> low, high = clopper_pearson(5, 10, level=0.95)
    >>> round(low, 4), round(high, 4)
    (0.1871, 0.8129)

    References
    ----------
    Clopper, Pearson, *The use of confidence or fiducial limits illustrated in the case of the binomial* (1934).
    """
    from scipy.special import betaincinv

    tail, k, n = (1 - level) / 2, successes, draws
    low = 0.0 if k == 0 else float(betaincinv(k, n - k + 1, tail))
    high = 1.0 if k == n else float(betaincinv(k + 1, n - k, 1 - tail))
    return low, high


def at_least(what: str, successes: int, draws: int, probability: float) -> Margins:
    """Return the margin of "the probability of success is at least p": negative when the draws refute it.

    It holds as long as the upper confidence bound reaches p: draws can refute such a claim, but never prove it.
    """
    return replace(once(what, clopper_pearson(successes, draws)[1] - probability), level=LEVEL)


def at_most(what: str, successes: int, draws: int, probability: float) -> Margins:
    """Return the margin of "the probability of success is at most p": negative when the draws refute it."""
    return replace(once(what, probability - clopper_pearson(successes, draws)[0]), level=LEVEL)


def empirical_bernstein(values: Array, largest: float, level: float = LEVEL) -> tuple[float, float]:
    """Return bounds (low, high) of the mean of numbers in [0, largest], each wrong as rarely as those above.

    With the variance v of m draws they are sqrt(2 v l / m) + 7 largest l / (3 (m - 1)) away from the mean of the draws,
    l = log(4 / (1 - level)).

    >>> import numpy as np
    >>> low, high = empirical_bernstein(np.array([0.0, 1.0] * 500), 1.0, level=0.95)
    >>> round(low, 3), round(high, 3)
    (0.443, 0.557)

    References
    ----------
    Maurer, Pontil, *Empirical Bernstein bounds and sample-variance penalization* (2009), Theorem 4.
    """
    m, mean, logarithm = len(values), float(values.mean()), log(4 / (1 - level))
    room = sqrt(2 * float(values.var(ddof=1)) * logarithm / m) + 7 * largest * logarithm / (3 * (m - 1))
    return mean - room, mean + room


def mean_is(what: str, values: Array, largest: float, expected: float) -> Margins:
    """Return the margin of "the mean is the one expected", over that one: negative when the draws refute it."""
    low, high = empirical_bernstein(values, largest)
    return replace(once(what, min(high - expected, expected - low) / expected), level=LEVEL)


def mean_at_most(what: str, values: Array, largest: float, bound: float) -> Margins:
    """Return the margin of "the mean is at most this", over the bound: negative when the draws refute it."""
    return replace(once(what, (bound - empirical_bernstein(values, largest)[0]) / bound), level=LEVEL)
