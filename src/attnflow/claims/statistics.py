"""Exact confidence bounds for probabilities, from counts of independent draws."""

from __future__ import annotations

from dataclasses import replace

from attnflow.claims.margins import Margins, once

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
