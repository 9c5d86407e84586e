"""Tokens that are far from all that they hear: strong centres, and how many there are among uniform tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnflow.claims.causal.limits import causal_model
from attnflow.claims.causal.paper import CAUSAL
from attnflow.claims.claim import FALSE, PROVED, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins, once
from attnflow.claims.samplers import Rng, pick
from attnflow.claims.sphere.runs import normalised
from attnflow.claims.statistics import mean_at_most, mean_is
from attnflow.core.inputs import Array, InputError, number, whole
from attnflow.core.progress import tick

# Most tokens of a draw, and most pairs in all draws: some seconds.
MOST, PAIRS = 4096, 2e8


def cap(d: int, radius: float) -> float:
    """Return the part of the sphere in R^d that is within a geodesic distance of a point.

    >>> [round(cap(d, np.pi / 3), 6) for d in (2, 3)]  # on the circle radius / pi, in space (1 - cos radius) / 2
    [0.333333, 0.25]
    """
    from scipy.special import betainc

    half = float(betainc((d - 1) / 2, 0.5, np.sin(radius) ** 2)) / 2
    return half if radius <= np.pi / 2 else 1 - half


def centres_in_draws(e: Experiment) -> Array:
    """Return the number of strong centres in each of several draws of n uniform tokens."""
    n, d, draws = int(e.n), int(e.d), int(e.draws)
    rng = np.random.default_rng([int(e.seed), 2411, 4990])
    counts, near = np.empty(draws), np.cos(number(e.delta, "delta", above=0.0, most=np.pi))
    for k in range(draws):
        tick()
        x = normalised(rng.standard_normal((n, d)))
        if k == 0:  # who hears whom is the same in all draws: it is asked of the law once
            others = (e.law.weights(x) > 0) & ~np.eye(n, dtype=bool)
        counts[k] = n - (others & (x @ x.T >= near)).any(axis=1).sum()
    return counts


def expected(d: int, delta: float, n: float) -> float:
    """Return the expected number of strong centres among n uniform tokens, sum_{k < n} (1 - p)^k with p = cap(delta).

    >>> round(expected(2, 0.1, np.inf), 6) == round(np.pi / 0.1, 6)
    True
    """
    p = cap(d, delta)
    return (1 - (1 - p) ** n) / p


def _sizes(e: Experiment) -> list[Margins]:
    n, d, draws = whole(e.n, "n", least=1), whole(e.d, "d", least=2), whole(e.draws, "draws", least=2)
    if n > MOST or n * n * draws > PAIRS:
        raise InputError(f"{draws} draws of {n} tokens are too many pairs: give fewer draws, or at most {MOST} tokens")
    return [once("d >= 2", d - 2), once("0 < delta < pi / 2", min(e.delta, np.pi / 2 - e.delta), strict=True)]


def _draws(rng: Rng, k: int) -> dict[str, Any]:
    return _sizes_for(rng, 2 + k % 3)


def _draws_in_space(rng: Rng, k: int) -> dict[str, Any]:
    return _sizes_for(rng, 3)


def _sizes_for(rng: Rng, d: int) -> dict[str, Any]:
    delta = pick(rng, (0.4, 0.6, 0.9, 1.2))
    n = min(int(8 / cap(d, delta)), 400)  # all but e^-8 of the centres are among them
    return {"d": d, "delta": delta, "n": n, "draws": 1500, "seed": int(rng.integers(2**31))}


PARAMETERS = {"d": 2, "delta": 0.5, "n": 100, "draws": 1500, "seed": 0}
UNIFORM = Setting(PARAMETERS, causal_model, _draws, samples=6, lengths=())
IN_SPACE = Setting({**PARAMETERS, "d": 3}, causal_model, _draws_in_space, samples=6, lengths=())


@CAUSAL.claim(
    "strong-centres", "the section on strong Renyi centres", PROVED, UNIFORM,
    """A token is a strong centre if its geodesic distance to all earlier tokens is more than delta. Of infinitely many
    independent uniform tokens on the sphere of R^d, 1 / p are strong centres in expectation, p the part of the sphere
    in a cap of radius delta: pi / delta on the circle. Of the first n it is (1 - (1 - p)^n) / p.""",
    plain="The mean number of random tokens far from all earlier ones is one over the part of the sphere in a cap.",
    given={"d >= 2, a cap smaller than half of the sphere": _sizes},
)  # fmt: skip
def strong_centres(e: Experiment) -> Margins:
    """The mean number in independent draws of n tokens against the formula; earlier tokens are those that are heard."""
    # Caps of half the radius around strong centres are disjoint.
    most, what = 1 / cap(e.d, e.delta / 2), "the expected number of strong centres is (1 - (1 - p)^n) / p"
    return mean_is(what, centres_in_draws(e), most, expected(e.d, e.delta, e.n))


@CAUSAL.claim(
    "strong-centres/printed", "the appendix", FALSE, IN_SPACE,
    """For d = 3, of infinitely many independent uniform tokens on the sphere 1 / (3 p) are strong centres in
    expectation, p the part of the sphere in a cap of radius delta.""",
    plain="In three dimensions that mean number is only a third of one over the part of the sphere in a cap.",
    given={"d >= 2, a cap smaller than half of the sphere": _sizes, "d = 3": lambda e: once("d = 3", -abs(e.d - 3))},
    repair="strong-centres",
)  # fmt: skip
def strong_centres_printed(e: Experiment) -> Margins:
    """The mean number in independent draws of n tokens, which is at most that of infinitely many."""
    what = "the expected number of strong centres among n tokens is at most 1 / (3 p)"
    return mean_at_most(what, centres_in_draws(e), 1 / cap(3, e.delta / 2), 1 / (3 * cap(3, e.delta)))
