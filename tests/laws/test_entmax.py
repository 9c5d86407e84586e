"""Entmax and sparsemax against exact arithmetic, and the laws that they lie between."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.laws.entmax import log_entmax

SCORES = np.random.default_rng(0).standard_normal((6, 9))
MASSES = np.random.default_rng(1).uniform(0.2, 3.0, 9)


def by_decimals(z: Array, alpha: float, w: Array) -> list[float]:
    """Return w_j [(alpha - 1) z_j - tau]_+^{1/(alpha - 1)} with sum one, by bisection in 40 digits."""
    with localcontext() as context:
        context.prec = 40
        a, zs, ws = Decimal(alpha), [Decimal(float(one)) for one in z], [Decimal(float(one)) for one in w]
        if alpha == 1:
            p = [one * (s - max(zs)).exp() for s, one in zip(zs, ws, strict=True)]
        else:
            u = [(a - 1) * s for s in zs]
            low, high = max(u) - (1 / min(ws)) ** (a - 1), max(u)
            for _ in range(130):
                tau = (low + high) / 2
                p = [one * (s - tau) ** (1 / (a - 1)) if s > tau else Decimal(0) for s, one in zip(u, ws, strict=True)]
                low, high = (tau, high) if sum(p) > 1 else (low, tau)
        return [float(one / sum(p)) for one in p]


@pytest.mark.parametrize("beta", [0.7, -2.0, 30.0])
@pytest.mark.parametrize("alpha", [1.01, 1.25, 1.5, 2.0, 3.0, 8.0])
def test_weights_are_those_of_forty_digits(alpha: float, beta: float) -> None:
    for z, w in ((SCORES[0], np.ones(9)), (SCORES[1], MASSES)):
        found = np.exp(log_entmax(z[None], alpha, beta, w))[0]
        np.testing.assert_allclose(found, by_decimals(beta * z, alpha, w), atol=1e-13)


@pytest.mark.parametrize("alpha", [1.5, 2.0, 2.2, 3.0, 4.0, 6.0, 10.0])
def test_small_weights_of_two_sources_are_those_of_the_closed_form(alpha: float) -> None:
    """Weights (1 - p, p) have scores that are ((1 - p)^(alpha - 1) - p^(alpha - 1)) / (alpha - 1) apart."""
    p = np.geomspace(1e-12, 0.3, 60)
    gap = ((1 - p) ** (alpha - 1) - p ** (alpha - 1)) / (alpha - 1)
    for beta in (1.0, -4.0):
        found = np.exp(log_entmax(np.stack([5 + 0 * p, 5 - gap], axis=1) / beta, alpha, beta, None))
        np.testing.assert_allclose(found, np.stack([1 - p, p], axis=1), atol=1e-13, rtol=0)


def test_a_small_weight_in_a_cloud_is_that_of_forty_digits() -> None:
    x, alpha = af.tokens.gaussian(n=40, d=2, seed=0), 10.0
    P, scores = af.Entmax(alpha=alpha).weights(x), x @ x[14]
    expected = by_decimals(scores, alpha, np.ones(40))
    assert 1e-3 < min(one for one in expected if one > 0) < 1e-2
    np.testing.assert_allclose(P[14], expected, atol=1e-13)


@pytest.mark.parametrize("law", [af.Entmax(alpha=1.0, beta=3.0), af.Entmax(alpha=1.0 + 1e-9, beta=3.0)])
def test_alpha_one_is_softmax(law: af.Entmax) -> None:
    x = SCORES[:, :2]
    expected = [by_decimals(3.0 * x @ one, 1.0, MASSES[:6]) for one in x]
    np.testing.assert_allclose(law.weights(x, masses=MASSES[:6]), expected, atol=1e-13 if law.alpha == 1 else 1e-6)
    np.testing.assert_allclose(expected, af.Softmax(beta=3.0).weights(x, masses=MASSES[:6]), atol=1e-14)


def sorted_sparsemax(z: list[Fraction]) -> list[Fraction]:
    """Return the projection to the simplex by the sorting rule of Martins and Astudillo, exactly."""
    ordered = sorted(z, reverse=True)
    k = max(k for k in range(1, len(z) + 1) if 1 + k * ordered[k - 1] > sum(ordered[:k]))
    tau = (sum(ordered[:k], Fraction(-1))) / k
    return [max(one - tau, Fraction(0)) for one in z]


@pytest.mark.parametrize("seed", range(4))
def test_sparsemax_is_the_projection_computed_by_sorting_fractions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-8, 9, (12, 2)) / 8
    if seed == 0:
        x[3:] = x[:9]  # copies, and ties at the edge of the support
    rows = [[Fraction(float(one @ other)) * 3 for other in x] for one in x]
    expected = np.array([[float(p) for p in sorted_sparsemax(row)] for row in rows])
    np.testing.assert_allclose(af.Sparsemax(beta=3.0).weights(x), expected, atol=2e-15)
    np.testing.assert_allclose(af.Entmax(alpha=2.0, beta=3.0).weights(x), expected, atol=2e-15)


@pytest.mark.parametrize("alpha", [1.3, 1.5, 2.0, 4.0])
def test_a_row_maximises_score_plus_entropy(alpha: float) -> None:
    """The definition: no other probability vector has a larger <p, z> + H_alpha(p)."""
    rng, z = np.random.default_rng(3), SCORES[2]
    p = np.exp(log_entmax(z[None], alpha, 1.0, None))[0]

    def value(p: Array) -> float:
        return float(z @ p + (p - p**alpha).sum() / (alpha * (alpha - 1)))

    others = np.concatenate([rng.dirichlet(np.ones(9), 300), p + 0.01 * (rng.dirichlet(np.ones(9), 300) - p)])
    assert value(p) > max(map(value, others))


@pytest.mark.parametrize("law", [af.Entmax(alpha=1.5), af.Entmax(alpha=3.0, beta=2.0), af.Sparsemax(beta=5.0)])
def test_a_mass_is_so_many_copies(law: af.Law) -> None:
    x, counts = SCORES[:5, :2], np.array([1, 3, 2, 1, 4])
    copies = np.repeat(np.arange(5), counts)
    P = law.weights(x[copies])
    added = np.stack([P[:, copies == k].sum(axis=1) for k in range(5)], axis=1)
    np.testing.assert_allclose(law.weights(x, masses=counts.astype(float))[copies], added, atol=1e-13)


@pytest.mark.parametrize("limit", [{"alpha": 1.5, "beta": 1e9}, {"alpha": 2.0, "beta": 1e300}, {"alpha": 1e6}])
def test_large_beta_or_alpha_is_hardmax(limit: dict[str, float]) -> None:
    x = af.tokens.gaussian(n=30, d=2, seed=0)
    np.testing.assert_allclose(af.Entmax(**limit).weights(x), af.Hardmax().weights(x), atol=1e-12)
    tied = np.array([[1.0, 1.0], [1.0, -1.0], [0.5, 0.0]])
    np.testing.assert_allclose(af.Entmax(**limit).weights(tied)[2], [0.5, 0.5, 0.0], atol=1e-12)


def test_support_is_within_the_reach_that_localmax_has_as_delta() -> None:
    """Sources heard by sparsemax are heard by localmax with delta = 1 / beta, and more so nearer the top."""
    x, beta = af.tokens.gaussian(n=40, d=2, seed=1), 3.0
    P, near = af.Sparsemax(beta=beta).weights(x), af.Localmax(delta=1 / beta).weights(x)
    assert ((P > 0) <= (near > 0)).all()
    assert (P > 0).sum() < (near > 0).sum() < 1600
    scores = x @ x.T
    for row, s in zip(P, scores, strict=True):
        heard = np.flatnonzero(row)
        np.testing.assert_allclose(np.diff(row[heard]), beta * np.diff(s[heard]), atol=1e-12)


def test_many_rows_are_those_one_by_one_and_scores_far_from_the_origin_keep_their_digits() -> None:
    x, law = af.tokens.gaussian(n=50, d=2, seed=2), af.Entmax(alpha=1.7, beta=2.0, b=[0.3, 0.0])
    P = law.weights(x)
    each = [np.exp(law.log_weights(one[None], sources=x))[0] for one in x]
    np.testing.assert_allclose(P, each, atol=1e-14)
    np.testing.assert_allclose(law.attend(x), P @ x, atol=1e-14)
    many = af.ensemble(np.stack([x, 2 * x]), law, af.Layers(gamma=0.5), until=1).final
    np.testing.assert_allclose(many[1], x + law.attend(2 * x) / 2, atol=1e-13)
    far, back = x + np.array([2.0**20, 0.0]), af.Sparsemax(b=[-(2.0**20), 0.0])
    np.testing.assert_allclose(back.weights(far), af.Sparsemax().weights(x), atol=1e-9)


@pytest.mark.parametrize("motion", [af.Flow(), af.SphereFlow(), af.Layers(gamma=0.3), af.Leaps(gamma=0.3)])
def test_tokens_move_under_it(motion: af.Motion) -> None:
    x = af.tokens.sphere(n=8, d=2, seed=0)
    run = af.simulate(x, af.Sparsemax(beta=4.0), motion, until=2)
    assert np.isfinite(run.final).all()
    assert abs(run.final - x).max() > 1e-3
