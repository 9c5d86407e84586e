"""Error bars hold what they should as often as they say, and are not far too large.

Each case has a truth in closed form, or by enumeration. Of N bars, the number that hold the truth is binomial if each
does with the stated probability; the test fails beyond quantiles that such a number leaves with a chance of
FALSE_ALARM. The seeds are fixed, so that a test that passes once passes always.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from test_merges import ANGLE, on_circle, two_tokens
from test_splitting import CASES, exact

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.measure.confidence import mean_interval
from attnflow.measure.splitting import exit_probability

LARGE = "ATTNFLOW_EXAMPLES" in os.environ
FALSE_ALARM = 1e-4


def as_often_as_stated(held: int, count: int, least: float, most: float) -> None:
    """Assert that `held` of `count` is no sign of a coverage below `least` or above `most`."""
    assert held >= stats.binom.ppf(FALSE_ALARM, count, least), f"{held} of {count} hold the truth: too few"
    assert held <= stats.binom.isf(FALSE_ALARM, count, most), f"{held} of {count} hold the truth: bars are too large"


LAWS: dict[str, tuple[Callable[[np.random.Generator], Array], float]] = {
    "exponential": (lambda rng: rng.exponential(size=20), 1.0),
    "lognormal": (lambda rng: np.exp(0.65 * rng.standard_normal(20)), float(np.exp(0.65**2 / 2))),
    "normal": (lambda rng: rng.standard_normal(20), 0.0),
    "skewed to the left": (lambda rng: -rng.exponential(size=20), -1.0),
}


@pytest.mark.parametrize("name", LAWS)
def test_means_of_twenty_skewed_values(name: str) -> None:
    """Student's interval, without the transformation, holds the mean of exponential values 92 times in 100."""
    draw, mean = LAWS[name]
    rng, count = np.random.default_rng(0), 20_000 if LARGE else 3000
    held = 0
    for _ in range(count):
        low, high = mean_interval(draw(rng))
        held += low <= mean <= high
    as_often_as_stated(held, count, 0.94, 0.96)


@pytest.mark.skipif(not LARGE, reason="long: make test-all")
@pytest.mark.parametrize("name", ["two tokens, three picks", "triangle, two picks", "exits beside moves"])
def test_probabilities_of_rare_exits(name: str) -> None:
    x, law, gamma, radius, steps, cut = CASES[name]
    low, high = exact(x, law, gamma, radius, steps, cut)
    count = 2000
    found = [exit_probability(x, law, gamma, radius, steps, runs=100, seed=seed).interval for seed in range(count)]
    as_often_as_stated(sum(a <= high and low <= b for a, b in found), count, 0.945, 0.97)


@pytest.mark.parametrize(("sizes", "runs", "most"), [(3, 2, 0.985), (3, 4, 0.97), (7, 8, 0.96)])
def test_slopes_of_the_mean_field(sizes: int, runs: int, most: float) -> None:
    """Log-normal distances of mean n^{-1/2}, noisier for more tokens. Two runs tell little: their bars are longer."""
    n, rng, count = 32 * 2 ** np.arange(sizes), np.random.default_rng(1), 10_000 if LARGE else 1500
    spread = 0.1 * np.linspace(1, 2, sizes)[None, :, None]
    held = 0
    for _ in range(count):
        noise: Array = np.exp(spread * rng.standard_normal((1, sizes, runs)) - spread**2 / 2)
        W: Array = np.asarray(n[None, :, None] ** -0.5 * noise, dtype=np.float64)
        (rate,) = af.measure.MeanFieldDistances(np.array([0.0]), n, W, W, np.zeros((1, 2 * n[-1], 1)), 1).rates()
        held += abs(rate.exponent + 0.5) <= rate.error
    as_often_as_stated(held, count, 0.945, most)


@pytest.mark.parametrize(
    ("systems", "n", "threshold", "most"),
    [(20, 32, 0.999, 0.97), (20, 16, 0.999, 0.97), (20, 16, 0.5, 0.97), (100, 8, 0.999, 0.98), (20, 4, 0.999, 0.99)],
)
def test_fractions_of_the_phase_diagram(systems: int, n: int, threshold: float, most: float) -> None:
    """Uniform tokens on the circle are above the threshold with probability arccos(threshold) / pi.

    Where hardly any pair is, as with 4 tokens, most intervals reach from 0 and hold the truth more often than stated.
    """
    rng, count = np.random.default_rng(2), 4000 if LARGE else 1000
    seen = np.empty((count, systems))
    for k in range(count):
        angles = rng.uniform(0, 2 * np.pi, (systems, n))
        above = np.cos(angles[:, :, None] - angles[:, None]) > threshold
        seen[k] = (above.sum(axis=(1, 2)) - n) / (n * (n - 1))
    fraction, error = seen.mean(axis=1)[:, None], (seen.std(axis=1, ddof=1) / np.sqrt(systems))[:, None]
    found = af.measure.PhaseDiagram(
        np.arange(float(count)), np.ones(1), fraction, error, np.ones(1), n, 2, systems, threshold
    )
    low, high = found.interval
    truth = np.arccos(threshold) / np.pi
    as_often_as_stated(int(((low <= truth) & (truth <= high)).sum()), count, 0.945, most)
    assert (low <= fraction).all()
    assert (fraction <= high).all()
    assert np.median(high - low) < 1.3 * np.median(2 * stats.t.ppf(0.975, systems - 1) * error) or n == 4


def test_times_of_merges() -> None:
    """Two tokens on the circle: bars hold the true error, an integral, and are a few times as large."""
    rng, count = np.random.default_rng(3), 400 if LARGE else 8
    ratios = []
    for _ in range(count):
        beta, angle, rtol = rng.uniform(2, 30), rng.uniform(0.3, 2.5), 10 ** rng.uniform(-10, -4)
        true = two_tokens(beta, angle, ANGLE)
        run = af.simulate(on_circle(0.0, angle), af.Softmax(beta=beta), af.SphereFlow(rtol=rtol), until=1.5 * true)
        (merge,) = af.measure.merge_times(run)
        # The integral is known to 1e-13.
        ratios.append((merge.error + 1e-13 * true) / abs(merge.time - true))
    held = int((np.array(ratios) >= 1).sum())
    assert held >= stats.binom.ppf(FALSE_ALARM, count, 0.99), f"{held} of {count} bars hold the true error"
    assert np.median(ratios) < 5
